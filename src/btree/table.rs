//! Tables as those see them who read them, in a snapshot or a transaction.

use super::cursor::Walk;
use super::format::Tree;
use super::key::KeyType;
use super::range::{Range, behind};
use super::source::{Names, OfStore, Source};
use super::{count, counted, estimate, kind, scan, tree};
use crate::observe::{Recorder, Steps, Way};
use crate::{Error, Result};
use std::ops::{Bound, RangeBounds};

/// A table to read, as it is in a snapshot, or in a transaction at this moment.
///
/// Values are in place, or under a lease copies, and live as long as the snapshot, or until the
/// transaction changes something. Under a lease every method may say that the snapshot expired.
#[derive(Clone, Copy, Debug)]
pub struct Table<'t> {
    source: &'t Source<'t>,
    tree: Tree,
    /// The name of its type of keys, if that is a program's own.
    key_name: &'t str,
    /// What counts operations on it, if that is asked for.
    recorder: Option<&'t Recorder>,
}

/// A key and its value.
pub type Pair<'t> = (Vec<u8>, &'t [u8]);

impl<'t> Table<'t> {
    /// A table that counts nothing.
    pub(crate) fn new(source: &'t Source<'t>, tree: Tree, key_name: &'t str) -> Table<'t> {
        Table { source, tree, key_name, recorder: None }
    }

    /// The same table, whose operations are counted if there is a recorder.
    #[inline(always)]
    pub(crate) fn counted_by(self, recorder: Option<&'t Recorder>) -> Table<'t> {
        Table { recorder, ..self }
    }

    /// The same table, to do by it what is part of an operation.
    pub(super) fn uncounted(&self) -> Table<'t> {
        Table { recorder: None, ..*self }
    }

    pub(super) fn recorder(&self) -> Option<&'t Recorder> {
        self.recorder
    }

    /// The error, naming the store's file.
    #[cold]
    pub(crate) fn named(&self, error: Error) -> Error {
        self.source.named(error)
    }

    /// Where records are numbered, the highest number that was ever given; else 0.
    pub fn last_number(&self) -> u64 {
        self.tree.last_number
    }

    /// What its keys are.
    ///
    /// # Errors
    /// The table is of a kind that this program does not know.
    pub fn key_type(&self) -> Result<KeyType> {
        let options = kind::options(&self.tree, self.key_name).of(self.source);
        options.map(|options| options.keys().clone())
    }

    /// The value of `key`; `None` if it is absent.
    ///
    /// # Errors
    /// The store is damaged where it was read; so for all methods.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<&'t [u8]>> {
        if self.recorder.is_some() {
            return self.get_counted(key);
        }
        self.find(key)
    }

    /// The value of `key`, not counted.
    #[inline(always)]
    pub(super) fn find(&self, key: &[u8]) -> Result<Option<&'t [u8]>> {
        tree::get(self.source, &self.tree, key).of(self.source)
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
        match self.recorder {
            None => self.find_many(keys, f),
            Some(recorder) => self.get_many_counted(recorder, keys, f),
        }
    }

    /// The value of each key, not counted.
    pub(super) fn find_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        tree::get_many(self.source, &self.tree, keys, f).of(self.source)
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
        self.scan_range(.., |key, value| f(key, value).map(|()| true))
    }

    /// Calls `f` with every record of a range of keys, in order, until it returns `false` or fails.
    /// Takes a fifth of the time of [`Table::range`], which makes a copy of every key.
    ///
    /// # Errors
    /// As [`Table::scan`].
    pub fn scan_range<'k>(
        &self,
        keys: impl RangeBounds<&'k [u8]>,
        f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let bounds = (keys.start_bound().cloned(), keys.end_bound().cloned());
        match self.recorder {
            None => self.scan_bounds(bounds, f),
            Some(recorder) => self.scan_counted(recorder, bounds, f),
        }
    }

    /// The records of a range, not counted.
    pub(super) fn scan_bounds(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        // What `f` says is not the store's.
        let mut stopped = Ok(());
        let mut f = |key: &[u8], value: &[u8]| {
            f(key, value).or_else(|error| {
                stopped = Err(error);
                Ok(false)
            })
        };
        let scanned = match self.source.has_lease() {
            false => scan::scan(self.source, self.tree, bounds, f),
            true => scan::scan_in_parts(self.source, self.tree, bounds, &mut f),
        };
        scanned.of(self.source).and(stopped)
    }

    /// A cursor before the first record.
    pub fn cursor(&self) -> Cursor<'t> {
        let steps = self.recorder.and_then(Recorder::steps);
        Cursor { table: *self, walk: Walk::new(self.source, self.tree), steps }
    }

    /// The records whose keys are in a range, in order, from either end.
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Range<'t> {
        let own = |bound: Bound<&&[u8]>| bound.map(|key| key.to_vec());
        Range::new(*self, own(keys.start_bound()), own(keys.end_bound()))
    }

    /// All records, in order.
    pub fn iter(&self) -> Range<'t> {
        self.range(..)
    }

    /// The records whose keys begin so.
    pub fn prefix(&self, prefix: &[u8]) -> Range<'t> {
        let end = behind(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Range::new(*self, Bound::Included(prefix.to_vec()), end)
    }

    /// How many records have keys in a range; looks at every page that has some of them, and not at
    /// each record.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn count_range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        let (start, end) = (keys.start_bound().cloned(), keys.end_bound().cloned());
        counted::count(self.recorder, &start, || {
            let records = match self.source.has_lease() {
                false => count::exactly(self.source, self.tree, start, end),
                true => count::exactly_in_parts(self.source, self.tree, start, end),
            };
            records.of(self.source)
        })
    }

    /// About how many they are, in the time of five lookups: as if every page that is not looked at had
    /// as many records below it as is ordinary in the table; all records are counted right, and so are
    /// those of a leaf or two. Where records of some keys are many times as long as those of others it can
    /// be as many times wrong.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn estimate_range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        let (start, end) = (keys.start_bound().cloned(), keys.end_bound().cloned());
        estimate::about(self.source, &self.tree, start, end).of(self.source)
    }

    /// The record with the lowest key.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn first(&self) -> Result<Option<Pair<'t>>> {
        self.seek_pair(None, |cursor| cursor.first())
    }

    /// The record with the highest key.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn last(&self) -> Result<Option<Pair<'t>>> {
        self.seek_pair(None, |cursor| cursor.last())
    }

    /// The first record whose key is not below `key`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn at_or_after(&self, key: &[u8]) -> Result<Option<Pair<'t>>> {
        self.seek_pair(Some(key), |cursor| cursor.seek(key))
    }

    /// The first record whose key is above `key`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn after(&self, key: &[u8]) -> Result<Option<Pair<'t>>> {
        self.seek_pair(
            Some(key),
            |cursor| if cursor.find(key)? { cursor.next() } else { Ok(false) },
        )
    }

    /// The last record whose key is below `key`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn before(&self, key: &[u8]) -> Result<Option<Pair<'t>>> {
        self.seek_pair(Some(key), |cursor| {
            cursor.seek(key)?;
            cursor.previous()
        })
    }

    /// The last record whose key is not above `key`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn at_or_before(&self, key: &[u8]) -> Result<Option<Pair<'t>>> {
        self.seek_pair(
            Some(key),
            |cursor| if cursor.find(key)? { Ok(true) } else { cursor.previous() },
        )
    }

    /// The record that a new cursor comes to.
    #[inline(always)]
    fn seek_pair(
        &self,
        key: Option<&[u8]>,
        go: impl FnOnce(&mut Cursor<'t>) -> Result<bool>,
    ) -> Result<Option<Pair<'t>>> {
        counted::seek_pair(self.recorder, key, || {
            let mut cursor = self.uncounted().cursor();
            go(&mut cursor)?;
            cursor.pair()
        })
    }
}

/// A place in a table: at a record, before the first, or behind the last.
#[derive(Debug)]
pub struct Cursor<'t> {
    table: Table<'t>,
    walk: Walk<'t, Source<'t>>,
    /// What records its steps, if that is asked for.
    steps: Option<Box<Steps>>,
}

impl<'t> Cursor<'t> {
    /// The key here; `None` before the first record and behind the last.
    pub fn key(&self) -> Option<&[u8]> {
        self.walk.key()
    }

    /// The value here.
    ///
    /// # Errors
    /// As [`Table::get`]. All methods of a cursor can fail so.
    pub fn value(&self) -> Result<Option<&'t [u8]>> {
        self.walk.value().of(self.table.source)
    }

    /// The table that it is in.
    pub(crate) fn table(&self) -> Table<'t> {
        self.table
    }

    /// Goes to the first record of what begins so; whether there is one.
    pub(crate) fn begin(&mut self, start: Bound<&[u8]>) -> Result<bool> {
        self.walk.begin(start).of(self.table.source)
    }

    /// Goes so many records further, but not much further than keys begin so; whether there is one.
    pub(crate) fn skip(&mut self, records: u64, begin: &[u8]) -> Result<bool> {
        self.walk.skip(records, begin).of(self.table.source)
    }

    /// Key and value here.
    #[inline(always)]
    pub(crate) fn pair(&self) -> Result<Option<Pair<'t>>> {
        let Some(key) = self.key() else { return Ok(None) };
        Ok(self.value()?.map(|value| (key.to_vec(), value)))
    }

    /// Goes to the first record; whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn first(&mut self) -> Result<bool> {
        self.go(None, |walk| walk.first())
    }

    /// Goes to the last record; whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn last(&mut self) -> Result<bool> {
        self.go(None, |walk| walk.last())
    }

    /// Goes to the first record whose key is not below `key`; if there is none, behind the last.
    /// Whether there is one.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Some(key), |walk| walk.seek(key))
    }

    /// The same; whether its key is `key`.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn find(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Some(key), |walk| walk.find(key))
    }

    /// Goes elsewhere; whether there is a record.
    #[inline(always)]
    fn go(
        &mut self,
        key: Option<&[u8]>,
        go: impl FnOnce(&mut Walk<'t, Source<'t>>) -> Result<bool>,
    ) -> Result<bool> {
        let (walk, source) = (&mut self.walk, self.table.source);
        self.steps.iter_mut().for_each(|steps| steps.end());
        counted::seek(self.table.recorder, key, || go(walk).of(source))
    }

    /// Goes to the next record; whether there is one. From before the first, to the first.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[allow(clippy::should_implement_trait)]
    #[inline(always)]
    pub fn next(&mut self) -> Result<bool> {
        let step = self.walk.next().of(self.table.source);
        counted::stepped(&mut self.steps, Way::Forward, step, self.walk.key())
    }

    /// Goes to the record before; whether there is one. From behind the last, to the last.
    ///
    /// # Errors
    /// As [`Table::get`].
    #[inline]
    pub fn previous(&mut self) -> Result<bool> {
        let step = self.walk.previous().of(self.table.source);
        counted::stepped(&mut self.steps, Way::Back, step, self.walk.key())
    }
}
