//! Tables as their users see them: to read, in a snapshot or a transaction, and to change.

use super::bulk;
use super::cursor::Walk;
use super::edit::Old;
use super::format::Tree;
use super::page::Link;
use super::range::Range;
use super::scan;
use super::source::Source;
use super::tree;
use super::writer::{Writer, damaged};
use crate::Result;
use std::ops::{Bound, RangeBounds};

/// A table to read, as it is in a snapshot, or in a transaction at this moment.
///
/// Values are in place, and live as long as the snapshot, or until the transaction changes
/// something.
#[derive(Clone, Copy, Debug)]
pub struct Table<'t> {
    source: &'t Source<'t>,
    tree: Tree,
}

/// A key and its value.
pub type Pair<'t> = (Vec<u8>, &'t [u8]);

impl<'t> Table<'t> {
    pub(crate) fn new(source: &'t Source<'t>, tree: Tree) -> Table<'t> {
        Table { source, tree }
    }

    /// The value of `key`; `None` if it is absent.
    ///
    /// # Errors
    /// The store is damaged where it was read; so for all methods.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<&'t [u8]>> {
        tree::get(self.source, &self.tree, key)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The value of each key: `f` is called for each in turn with its number. Waits for the memory of
    /// many at once, so this is several times as fast as one [`Table::get`] after the other.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        tree::get_many(self.source, &self.tree, keys, f)
    }

    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.tree.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tree.count == 0
    }

    /// Calls `f` with every record in the order of the keys, until it fails.
    ///
    /// # Errors
    /// As [`Table::get`], or what `f` returned.
    pub fn scan(&self, mut f: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        scan::scan(self.source, self.tree, None, |key, value| f(key, value).map(|()| true))
    }

    /// A cursor before the first record.
    pub fn cursor(&self) -> Cursor<'t> {
        Cursor { walk: Walk::new(self.source, self.tree) }
    }

    /// The records whose keys are in a range, in order, from either end.
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Range<'t> {
        let own = |bound: Bound<&&[u8]>| bound.map(|key| key.to_vec());
        Range::new(self.cursor(), self.cursor(), own(keys.start_bound()), own(keys.end_bound()))
    }

    /// All records, in order.
    pub fn iter(&self) -> Range<'t> {
        self.range(..)
    }

    /// The records whose keys begin so.
    pub fn prefix(&self, prefix: &[u8]) -> Range<'t> {
        // The first key behind: the prefix without the highest bytes at its end, one more in the last.
        let kept = prefix.iter().rposition(|byte| *byte != 0xff).map(|last| {
            let mut behind = prefix[..=last].to_vec();
            behind[last] += 1;
            behind
        });
        let end = kept.map_or(Bound::Unbounded, Bound::Excluded);
        Range::new(self.cursor(), self.cursor(), Bound::Included(prefix.to_vec()), end)
    }

    /// The record with the lowest key.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn first(&self) -> Result<Option<Pair<'t>>> {
        let mut cursor = self.cursor();
        cursor.first()?;
        cursor.pair()
    }

    /// The record with the highest key.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn last(&self) -> Result<Option<Pair<'t>>> {
        let mut cursor = self.cursor();
        cursor.last()?;
        cursor.pair()
    }

    /// The first record whose key is not below `key`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn at_or_after(&self, key: &[u8]) -> Result<Option<Pair<'t>>> {
        let mut cursor = self.cursor();
        cursor.seek(key)?;
        cursor.pair()
    }

    /// The first record whose key is above `key`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn after(&self, key: &[u8]) -> Result<Option<Pair<'t>>> {
        let mut cursor = self.cursor();
        if cursor.find(key)? {
            cursor.next()?;
        }
        cursor.pair()
    }

    /// The last record whose key is below `key`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn before(&self, key: &[u8]) -> Result<Option<Pair<'t>>> {
        let mut cursor = self.cursor();
        cursor.seek(key)?;
        cursor.previous()?;
        cursor.pair()
    }

    /// The last record whose key is not above `key`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn at_or_before(&self, key: &[u8]) -> Result<Option<Pair<'t>>> {
        let mut cursor = self.cursor();
        if !cursor.find(key)? {
            cursor.previous()?;
        }
        cursor.pair()
    }
}

/// A place in a table: at a record, before the first, or behind the last.
#[derive(Debug)]
pub struct Cursor<'t> {
    walk: Walk<'t, Source<'t>>,
}

impl<'t> Cursor<'t> {
    /// The key here; `None` before the first record and behind the last.
    pub fn key(&self) -> Option<&[u8]> {
        self.walk.key()
    }

    /// The value here.
    ///
    /// # Errors
    /// As [`Table::get`]; so for all methods.
    pub fn value(&self) -> Result<Option<&'t [u8]>> {
        self.walk.value()
    }

    /// Key and value here.
    pub(crate) fn pair(&self) -> Result<Option<Pair<'t>>> {
        let Some(key) = self.key() else { return Ok(None) };
        Ok(self.value()?.map(|value| (key.to_vec(), value)))
    }

    /// Goes to the first record; whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn first(&mut self) -> Result<bool> {
        self.walk.first()
    }

    /// Goes to the last record; whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn last(&mut self) -> Result<bool> {
        self.walk.last()
    }

    /// Goes to the first record whose key is not below `key`; if there is none, behind the last.
    /// Whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.walk.seek(key)
    }

    /// The same; whether its key is `key`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn find(&mut self, key: &[u8]) -> Result<bool> {
        self.walk.find(key)
    }

    /// Goes to the next record; whether there is one. From before the first, to the first.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<bool> {
        self.walk.next()
    }

    /// Goes to the record before; whether there is one. From behind the last, to the last.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn previous(&mut self) -> Result<bool> {
        self.walk.previous()
    }
}

/// A table to change, in a transaction.
#[derive(Debug)]
pub struct TableMut<'t, 'c> {
    pub(crate) writer: &'t mut Writer<'c>,
    pub(crate) source: &'t Source<'c>,
    pub(crate) tree: &'t mut Tree,
}

impl TableMut<'_, '_> {
    /// The table as it is now, to read.
    pub fn read(&self) -> Table<'_> {
        Table::new(self.source, *self.tree)
    }

    /// The value of `key`; `None` if it is absent.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        tree::get(self.source, self.tree, key)
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
    /// Key or value are over their limit, the disk is full, or the store is damaged. After the latter
    /// two the transaction cannot be committed.
    #[inline]
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.writer.insert(self.tree, key, value, Old::Replace)
    }

    /// Puts a value if there is none; whether it did.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(!self.writer.insert(self.tree, key, value, Old::Keep)?)
    }

    /// Takes a key out; whether it was there.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.writer.remove(self.tree, key)
    }

    /// Takes all keys of a range out; how many.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn remove_range<'k>(&mut self, keys: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        // So many at a time that their keys are little memory.
        const GROUP: usize = 1000;
        let mut removed = 0;
        loop {
            let range = self.read().range((keys.start_bound().cloned(), keys.end_bound().cloned()));
            let group: Vec<Vec<u8>> =
                range.take(GROUP).map(|pair| pair.map(|(key, _)| key)).collect::<Result<_>>()?;
            for key in &group {
                self.remove_read(key)?;
                removed += 1;
            }
            if group.len() < GROUP {
                return Ok(removed);
            }
        }
    }

    /// Takes the record with the lowest key out.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn pop_first(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let pair = self.read().first()?.map(|(key, value)| (key, value.to_vec()));
        self.pop(pair)
    }

    /// Takes the record with the highest key out.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn pop_last(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let pair = self.read().last()?.map(|(key, value)| (key, value.to_vec()));
        self.pop(pair)
    }

    fn pop(&mut self, pair: Option<(Vec<u8>, Vec<u8>)>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if let Some((key, _)) = &pair {
            self.remove_read(key)?;
        }
        Ok(pair)
    }

    /// Takes a key out that a walk came by.
    fn remove_read(&mut self, key: &[u8]) -> Result<()> {
        if self.remove(key)? {
            return Ok(());
        }
        // Who takes all out, one after the other, would come to no end.
        Err(damaged(Link(self.tree.root).page(), "a record that only a walk finds"))
    }

    /// Takes all records out.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn clear(&mut self) -> Result<()> {
        self.writer.clear(self.tree)
    }

    /// Fills an empty table with records that come in the order of their keys, each key once: every
    /// page is written once, and full. Returns how many.
    ///
    /// # Errors
    /// The table is not empty, the keys are not in order, or as [`TableMut::insert`], or what the
    /// iterator says; the transaction cannot be committed then.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        bulk::load(self.writer, self.tree, records)
    }
}
