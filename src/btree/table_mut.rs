//! Tables as those see them who change them, in a transaction.

use super::bulk::{self, KeyValue};
use super::counted::{Change, Counts};
use super::cursor_mut::CursorMut;
use super::edit::{Old, check_sizes};
use super::format::Tree;
use super::key::Key;
use super::kind::Kind;
use super::page::Link;
use super::source::{OfStore, Source};
use super::table::{Pair, Table};
use super::tree;
use super::writer::{Writer, damaged};
use crate::observe::{Recorder, emptied};
use crate::stats::{Moved, Operation};
use crate::{Error, Result};
use std::ops::{Bound, RangeBounds};

/// A table to change, in a transaction.
#[derive(Debug)]
pub struct TableMut<'t, 'c> {
    pub(crate) writer: &'t mut Writer<'c>,
    pub(crate) source: &'t Source<'c>,
    pub(crate) tree: &'t mut Tree,
    /// The name of its type of keys, if that is a program's own.
    pub(crate) key_name: &'t str,
    /// What counts operations on it, if that is asked for.
    pub(crate) recorder: Option<&'t Recorder>,
}

impl<'t, 'c> TableMut<'t, 'c> {
    /// The table as it is now, to read.
    pub fn read(&self) -> Table<'_> {
        self.uncounted().counted_by(self.recorder)
    }

    /// The same, to read in it for a change.
    pub(super) fn uncounted(&self) -> Table<'_> {
        Table::new(self.source, *self.tree, self.key_name)
    }

    /// The value of `key`; `None` if it is absent.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        match self.recorder {
            None => tree::get(self.source, self.tree, key).of(self.source.core()),
            Some(_) => self.read().get(key),
        }
    }

    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.tree.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tree.count == 0
    }

    /// Puts a value; whether it replaced one.
    ///
    /// # Errors
    /// Key or value are over their limit, or the key is none of the table's type; or the disk is full, but for the pages, up to
    /// 1 MiB, that are left for removals; or the store is damaged. After the latter two the transaction cannot be committed.
    #[inline]
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        match self.recorder {
            None => self.put(key, value, Old::Replace),
            Some(_) => self.insert_counted(key, value),
        }
    }

    // Not in line: it would be in the way of an insert that is not counted.
    #[cold]
    #[inline(never)]
    fn insert_counted(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let put = |table: &mut Self| table.put(key, value, Old::Replace);
        self.change(Operation::Insert, Some(key), put, |_| Change::put(key, value))
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8], old: Old) -> Result<bool> {
        let core = self.source.core();
        check_sizes(key, value).of(core)?;
        if self.tree.kind == 0 {
            return self.put_stored(key, value, old);
        }
        let kind = Kind::of(self.tree).of(core)?;
        kind.check_key(key).of(core)?;
        let was_there = self.put_stored(key, value, old)?;
        if kind.is_numbered {
            self.tree.last_number = self.tree.last_number.max(number_of(key));
        }
        Ok(was_there)
    }

    /// In a table whose records are numbered: puts a value under the next number, and says which. It
    /// is one more than the highest that there ever was.
    ///
    /// # Errors
    /// Records are not numbered, or there is no further number; or as [`TableMut::insert`].
    pub fn append(&mut self, value: &[u8]) -> Result<u64> {
        let width = Kind::of(self.tree).of(self.source.core())?.width().unwrap_or(0);
        let append = |table: &mut Self| table.put_next(width, value);
        self.change(Operation::Insert, None, append, |_| {
            Change::put(&[0; 8][..width.min(8)], value)
        })
    }

    fn put_next(&mut self, width: usize, value: &[u8]) -> Result<u64> {
        let kind = Kind::of(self.tree)?;
        if !kind.is_numbered {
            return Err(Error::invalid(
                "the records of this table are not numbered: put them under keys",
            ));
        }
        let next = self.tree.last_number.checked_add(1);
        let Some(next) = next.filter(|next| width == 8 || *next <= u64::from(u32::MAX)) else {
            return Err(Error::invalid("the numbers of this table's records are used up"));
        };
        let bytes = next.to_bytes();
        if self.put(&bytes[8 - width..], value, Old::Keep)? {
            let what = "a record whose number is above the highest that was given";
            return Err(self.source.core().named(damaged(Link(self.tree.root).page(), what)));
        }
        Ok(next)
    }

    /// In a table whose records are numbered: the next number is above this one.
    ///
    /// # Errors
    /// Records are not numbered, or keys of their type cannot be this number.
    pub fn skip_numbers(&mut self, last: u64) -> Result<()> {
        let core = self.source.core();
        self.skip_to(last).of(core)
    }

    fn skip_to(&mut self, last: u64) -> Result<()> {
        let kind = Kind::of(self.tree)?;
        if !kind.is_numbered {
            return Err(not_numbered());
        }
        if kind.width() != Some(8) && last > u64::from(u32::MAX) {
            return Err(Error::invalid(format!(
                "the keys of this table are of type u32: no record of it has the number {last}"
            )));
        }
        self.tree.last_number = self.tree.last_number.max(last);
        Ok(())
    }

    /// Puts a value if there is none; whether it did.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let put = |table: &mut Self| Ok(!table.put(key, value, Old::Keep)?);
        self.change(Operation::Update, Some(key), put, |is_new| Change::put_if(*is_new, key, value))
    }

    /// Takes a key out; whether it was there.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let take = move |table: &mut Self| table.take_out(key);
        self.change(Operation::Remove, Some(key), take, move |was_there| {
            Change::removed(*was_there, key.len())
        })
    }

    /// The same, as part of another change.
    #[inline(always)]
    pub(crate) fn take_out(&mut self, key: &[u8]) -> Result<bool> {
        self.writer.remove(self.tree, key).of(self.source.core())
    }

    /// Takes all keys of a range out; how many.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn remove_range<'k>(&mut self, keys: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        let range = (keys.start_bound().cloned(), keys.end_bound().cloned());
        let take = |table: &mut Self| table.take_range(range);
        let (removed, _) = self.change(Operation::Remove, None, take, Change::removed_all)?;
        Ok(removed)
    }

    /// The same, as part of another change: how many, and the bytes of their keys.
    pub(crate) fn take_range(&mut self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<(u64, u64)> {
        self.whole(|table| {
            let (mut removed, mut bytes) = (0, 0);
            loop {
                let group = table.some_keys(range)?;
                if group.is_empty() {
                    return Ok((removed, bytes));
                }
                for key in &group {
                    table.remove_read(key)?;
                    removed += 1;
                    bytes += key.len() as u64;
                }
            }
        })
    }

    /// The first keys of a range, so many that they are little memory.
    fn some_keys(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Vec<Vec<u8>>> {
        const MOST: usize = 1000;
        const BYTES: usize = 256 << 10;
        let (mut keys, mut bytes) = (Vec::new(), 0);
        for pair in self.uncounted().range(range) {
            let (key, _) = pair?;
            bytes += key.len();
            keys.push(key);
            if keys.len() == MOST || bytes > BYTES {
                break;
            }
        }
        Ok(keys)
    }

    /// Makes several changes that are one: if it fails half-way, the transaction cannot be committed.
    pub(crate) fn whole<R>(&mut self, change: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        // Also if it panics.
        let was_broken = std::mem::replace(&mut self.writer.is_broken, true);
        let done = change(self);
        self.writer.is_broken = was_broken || done.is_err();
        done
    }

    /// Takes the record with the lowest key out.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn pop_first(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(|table| table.first())
    }

    /// Takes the record with the highest key out.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn pop_last(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(|table| table.last())
    }

    fn pop(
        &mut self,
        find: impl for<'a> FnOnce(Table<'a>) -> Result<Option<Pair<'a>>>,
    ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let pop = |table: &mut Self| {
            let pair = find(table.uncounted())?.map(|(key, value)| (key, value.to_vec()));
            if let Some((key, _)) = &pair {
                table.remove_read(key)?;
            }
            Ok(pair)
        };
        self.change(Operation::Remove, None, pop, Change::popped)
    }

    /// Takes a key out that a walk came by.
    pub(super) fn remove_read(&mut self, key: &[u8]) -> Result<()> {
        if self.take_out(key)? {
            return Ok(());
        }
        // Who takes all out, one after the other, would come to no end.
        let error = damaged(Link(self.tree.root).page(), "a record that only a walk finds");
        Err(self.source.core().named(error))
    }

    /// Takes all records out.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn clear(&mut self) -> Result<()> {
        emptied(self.recorder, || self.writer.clear(self.tree).of(self.source.core()))
    }

    /// Fills an empty table with records that come in the order of their keys, each key once: every
    /// page is written once, and full. Returns how many.
    ///
    /// # Errors
    /// The table is not empty: nothing was changed then. Or the keys are not in order, or as
    /// [`TableMut::insert`], or what the iterator says: then the transaction cannot be committed.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        self.load_all(records)
    }

    /// The same of whatever has a key and a value.
    pub(crate) fn load_all<P: KeyValue>(
        &mut self,
        records: impl IntoIterator<Item = Result<P>>,
    ) -> Result<u64> {
        let kind = Kind::of(self.tree)?;
        let is_plain = self.tree.kind == 0;
        let (recorder, mut loaded) = (self.recorder, Moved::default());
        let check = |key: &[u8], value: &[u8]| {
            check_sizes(key, value)?;
            if is_plain { Ok(()) } else { kind.check_key(key) }
        };
        let mut last = 0;
        let check = |key: &[u8], value: &[u8]| {
            last = if kind.is_numbered { number_of(key) } else { 0 };
            check(key, value)?;
            if let Some(recorder) = recorder {
                loaded.record(key, value);
                recorder.batched(key, Some(value));
            }
            Ok(())
        };
        // What the iterator says is about the file that it reads, if about any.
        let mut is_of_theirs = false;
        let records = records.into_iter().inspect(|record| is_of_theirs |= record.is_err());
        let count = bulk::load(self.writer, self.tree, records, check);
        let count = count.map_err(|e| match is_of_theirs {
            true => e,
            false => self.source.core().named(e),
        })?;
        self.writer.scratch.moved.add(loaded);
        self.tree.last_number = self.tree.last_number.max(last);
        Ok(count)
    }

    /// A cursor before the first record, that can change what it is at.
    pub fn cursor(self) -> CursorMut<'t, 'c> {
        CursorMut::new(self)
    }

    /// Puts a record whose key is as it is stored, and was checked.
    #[inline]
    pub(crate) fn put_stored(&mut self, key: &[u8], value: &[u8], old: Old) -> Result<bool> {
        self.writer.scratch.space.is_put = true;
        self.writer.insert(self.tree, key, value, old).of(self.source.core())
    }

    /// The same table, borrowed from this one.
    pub(crate) fn borrowed(&mut self) -> TableMut<'_, 'c> {
        TableMut {
            writer: self.writer,
            source: self.source,
            tree: self.tree,
            key_name: self.key_name,
            recorder: self.recorder,
        }
    }
}

#[cold]
pub(crate) fn not_numbered() -> Error {
    Error::invalid("the records of this table are not numbered")
}

/// The number that is a key of numbered records.
pub(crate) fn number_of(key: &[u8]) -> u64 {
    key.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
