//! A cursor in a table whose keys may have several values, that changes what it is at.

use super::counted::{Change, Counts};
use super::cursor_mut::CursorMut;
use super::edit::check_sizes;
use super::multi_cursor::{Among, MultiCursor};
use super::multi_mut::{self, Gap, MultiTableMut, label_here};
use super::table::Table;
use crate::observe::{Recorder, Way};
use crate::stats::{Moved, Operation};
use crate::{Bytes, Error, Result};
use std::borrow::Cow;

/// A [`MultiCursor`] that changes what it is at; from [`MultiTableMut::cursor`].
///
/// Where it took a value out it is at none, but still among those of the key: `next` and `next_value`
/// go to the one behind, `previous` and `previous_value` to the one before.
///
/// ```
/// use credenza::btree::{BTree, Duplicates, TableOptions};
/// let store = BTree::in_memory()?;
/// let mut transaction = store.write()?;
/// let options = TableOptions::new().duplicates(Duplicates::Inserted);
/// transaction.create_table_with("queue", &options)?;
/// let mut queue = transaction.multi_table("queue")?.expect("it was just made");
/// for job in ["a", "b", "c"] {
///     queue.insert(b"jobs", job.as_bytes())?;
/// }
/// let mut cursor = queue.cursor();
/// assert!(cursor.find(b"jobs")?);
/// cursor.remove()?;
/// assert!(cursor.next_value()?);
/// cursor.put(b"B")?;
/// cursor.insert_after(b"between")?;
/// drop(cursor);
/// let queue = transaction.multi_table("queue")?.expect("it was just made");
/// let jobs: Vec<_> = queue.read().values(b"jobs").collect::<Result<_, _>>()?;
/// assert_eq!(jobs, [&b"B"[..], b"between", b"c"]);
/// # Ok::<(), credenza::Error>(())
/// ```
pub type MultiCursorMut<'t, 'c> = MultiCursor<'t, CursorMut<'t, 'c>>;

impl Among for CursorMut<'_, '_> {
    fn pair(&self) -> Option<&[u8]> {
        self.key()
    }

    fn place(&self) -> Option<&[u8]> {
        self.key().or_else(|| self.removed())
    }

    fn table(&self) -> Table<'_> {
        self.table.uncounted()
    }

    fn first(&mut self) -> Result<bool> {
        self.first()
    }

    fn last(&mut self) -> Result<bool> {
        self.last()
    }

    fn seek(&mut self, pair: &[u8]) -> Result<bool> {
        self.seek(pair)
    }

    fn seek_on(&mut self, way: Way, pair: &[u8]) -> Result<bool> {
        self.seek_on(way, pair)
    }

    fn next(&mut self) -> Result<bool> {
        self.next()
    }

    fn previous(&mut self) -> Result<bool> {
        self.previous()
    }

    fn step_within(&mut self, way: Way, begin: &[u8]) -> Result<bool> {
        self.step_if(way, |pair| pair.starts_with(begin))
    }
}

impl<'t, 'c> MultiCursorMut<'t, 'c> {
    /// The value here; `None` if the cursor is at none.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn value(&self) -> Result<Option<Bytes<'_>>> {
        let Some(pair) = self.raw.key() else { return Ok(None) };
        if self.pairs.is_sorted() {
            return Ok(Some(Cow::Borrowed(self.rest(pair))));
        }
        Ok(self.raw.value()?.map(Cow::Borrowed))
    }

    /// Puts another value in the place of the one here. Where values are sorted it goes where it belongs,
    /// the cursor with it, and is one with an equal one: who walks over such values and puts others may
    /// meet these again.
    ///
    /// # Errors
    /// The cursor is at no value, or as [`MultiTableMut::insert`].
    pub fn put(&mut self, value: &[u8]) -> Result<()> {
        self.go_on_with(Operation::Update, value, |cursor, pair| {
            let key = cursor.key.clone();
            cursor.table().put_for(&key, pair, value)
        })
    }

    /// Where values are not sorted: puts a value before the one here, and goes to it.
    ///
    /// # Errors
    /// Values are sorted, or as [`MultiCursorMut::put`].
    pub fn insert_before(&mut self, value: &[u8]) -> Result<()> {
        self.insert_beside(Way::Back, value)
    }

    /// Where values are not sorted: puts a value behind the one here, and goes to it.
    ///
    /// # Errors
    /// As [`MultiCursorMut::insert_before`].
    pub fn insert_after(&mut self, value: &[u8]) -> Result<()> {
        self.insert_beside(Way::Forward, value)
    }

    fn insert_beside(&mut self, way: Way, value: &[u8]) -> Result<()> {
        if self.pairs.is_sorted() {
            return Err(Counts::named(self, multi_mut::has_no_places()));
        }
        self.go_on_with(Operation::Insert, value, |cursor, pair| {
            check_sizes(&cursor.key, value)?;
            let begin = cursor.begin().unwrap_or_default();
            let gap = cursor.gap(way, &pair, &begin)?;
            cursor.table().put_between(&begin, gap, value)
        })
    }

    /// The labels beside a place next to a pair.
    fn gap(&self, way: Way, pair: &[u8], begin: &[u8]) -> Result<Gap> {
        let mut cursor = self.raw.table.uncounted().cursor();
        cursor.seek(pair)?;
        let here = label_here(&cursor, begin)?;
        match way {
            Way::Forward => {
                cursor.next()?;
                Ok((here, label_here(&cursor, begin)?))
            }
            Way::Back => {
                cursor.previous()?;
                Ok((label_here(&cursor, begin)?, here))
            }
        }
    }

    /// Makes a change at the pair here, which says the pair to go to.
    fn go_on_with(
        &mut self,
        operation: Operation,
        value: &[u8],
        change: impl FnOnce(&mut Self, Vec<u8>) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let pair = self.raw.here()?;
        self.end_steps();
        let key = self.key.clone();
        let change = |cursor: &mut Self| {
            let pair = change(cursor, pair)?;
            cursor.raw.came_to(pair)?;
            cursor.arrive()
        };
        self.change(operation, Some(&key), change, |_| match operation {
            Operation::Insert => Change::added(true, &key, value),
            _ => Change::put(&key, value),
        })
        .map(drop)
    }

    /// Takes the value here out.
    ///
    /// # Errors
    /// As [`MultiCursorMut::put`].
    pub fn remove(&mut self) -> Result<()> {
        self.raw.here()?;
        self.end_steps();
        let bytes = self.key.len();
        let take = |cursor: &mut Self| cursor.raw.remove();
        self.change(Operation::Remove, None, take, |()| Change::removed(true, bytes))
    }

    /// The table that it is in.
    fn table(&mut self) -> MultiTableMut<'_, 'c> {
        MultiTableMut::new(self.raw.table.borrowed(), self.pairs.kind())
    }
}

impl<'t> Counts<'t> for MultiCursorMut<'t, '_> {
    fn recorder(&self) -> Option<&'t Recorder> {
        self.recorder
    }

    fn moved(&mut self) -> &mut Moved {
        &mut self.raw.table.writer.scratch.moved
    }

    #[cold]
    fn named(&self, error: Error) -> Error {
        self.raw.table.named(error)
    }
}
