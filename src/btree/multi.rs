//! Tables whose keys may have several values, to read.

use super::counted;
use super::key::KeyType;
use super::kind::Kind;
use super::multi_cursor::MultiCursor;
use super::pairs::{Bounds, Pairs};
use super::range::{Range, behind};
use super::source::Names;
use super::table::{Pair, Table};
use crate::observe::{Recorder, Walk, counted};
use crate::stats::{Done, Operation};
use crate::{Bytes, Error, Result};
use std::borrow::Cow;
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};

/// A table whose keys may have several values, to read, as it is in a snapshot, or in a transaction at
/// this moment. See [`Duplicates`](super::Duplicates) for the order that the values of a key are in.
///
/// Keys are bytes; where the table's keys have another type, those of [`Key::to_bytes`], or see [`MultiTable::typed`].
///
/// ```
/// use credenza::btree::{BTree, Duplicates, TableOptions};
/// let store = BTree::in_memory()?;
/// let mut transaction = store.write()?;
/// let options = TableOptions::new().duplicates(Duplicates::Sorted);
/// transaction.create_table_with("members", &options)?;
/// let mut members = transaction.multi_table("members")?.expect("it was just made");
/// members.insert(b"staff", b"carol")?;
/// members.insert(b"staff", b"bob")?;
/// transaction.commit()?;
/// let snapshot = store.read()?;
/// let members = snapshot.multi_table("members")?.expect("it was just made");
/// assert_eq!(members.count(b"staff")?, 2);
/// assert_eq!(members.get(b"staff")?.as_deref(), Some(&b"bob"[..]));
/// # Ok::<(), credenza::Error>(())
/// ```
///
/// [`Key::to_bytes`]: super::Key::to_bytes
#[derive(Clone, Copy, Debug)]
pub struct MultiTable<'t> {
    /// It counts nothing: what is done by it is part of an operation on this one.
    raw: Table<'t>,
    pairs: Pairs,
    recorder: Option<&'t Recorder>,
}

impl<'t> MultiTable<'t> {
    pub(crate) fn new(raw: Table<'t>, kind: Kind) -> MultiTable<'t> {
        MultiTable { raw: raw.uncounted(), pairs: Pairs::of(kind), recorder: raw.recorder() }
    }

    /// The error, naming the store's file.
    #[cold]
    pub(super) fn named(&self, error: Error) -> Error {
        self.raw.named(error)
    }

    /// What its keys are.
    ///
    /// # Errors
    /// The table is of a kind that this program does not know.
    pub fn key_type(&self) -> Result<KeyType> {
        self.raw.key_type()
    }

    /// The first value of `key`; `None` if it has none.
    ///
    /// # Errors
    /// The store is damaged where it was read; so for all methods.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes<'t>>> {
        self.nth(key, 0)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`MultiTable::get`].
    pub fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.get(key).map(|value| value.is_some())
    }

    /// Whether `key` has this value. Takes as long as a lookup where values are sorted, else it looks
    /// at all of the key.
    ///
    /// # Errors
    /// As [`MultiTable::get`].
    pub fn contains(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let done = |is_there: &bool| Done::found(is_there.then_some(value.len()));
        counted(self.recorder, Operation::Get, Some(key), || self.has(key, value), done)
    }

    fn has(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let Some(mut pair) = self.pairs.begin(key) else { return Ok(false) };
        if self.pairs.is_sorted() {
            pair.extend_from_slice(value);
            return self.raw.contains_key(&pair);
        }
        for found in self.uncounted().values(key) {
            if found? == value {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The values of `key`, in their order, from either end.
    pub fn values(&self, key: &[u8]) -> Values<'t> {
        Values(self.range(key..=key))
    }

    /// How many values `key` has; looks at every page that has some of them.
    ///
    /// # Errors
    /// As [`MultiTable::get`].
    pub fn count(&self, key: &[u8]) -> Result<u64> {
        self.count_range(key..=key)
    }

    /// Value number `n` of `key`, counted from 0; `None` if there are not as many.
    ///
    /// # Errors
    /// As [`MultiTable::get`].
    pub fn nth(&self, key: &[u8], n: u64) -> Result<Option<Bytes<'t>>> {
        let value =
            |(begin, (pair, value)): (usize, Pair<'t>)| value_of(self.pairs, &pair[begin..], value);
        let find = || Ok(self.nth_pair(key, n)?.map(value));
        let done = |value: &Option<Bytes<'t>>| Done::found(value.as_ref().map(|v| v.len()));
        counted(self.recorder, Operation::Get, Some(key), find, done)
    }

    /// The same table, to do by it what is part of an operation.
    fn uncounted(&self) -> MultiTable<'t> {
        MultiTable { recorder: None, ..*self }
    }

    /// The pair of that value, and where in it the value or the label begins.
    pub(crate) fn nth_pair(&self, key: &[u8], n: u64) -> Result<Option<(usize, Pair<'t>)>> {
        let Some(begin) = self.pairs.begin(key) else { return Ok(None) };
        let mut cursor = self.raw.cursor();
        cursor.seek(&begin)?;
        if n > 0 {
            cursor.skip(n, &begin)?;
        }
        let pair = cursor.pair()?.filter(|(pair, _)| pair.starts_with(&begin));
        Ok(pair.map(|pair| (begin.len(), pair)))
    }

    /// How many values there are in all.
    pub fn len(&self) -> u64 {
        self.raw.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// How many values the keys of a range have; looks at every page that has some of them.
    ///
    /// # Errors
    /// As [`MultiTable::get`].
    pub fn count_range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        let (start, end) = self.bounds(&keys);
        counted::count(self.recorder, &keys.start_bound().cloned(), || {
            self.raw.count_range(as_bounds(&start, &end))
        })
    }

    /// About how many they are, in the time of two lookups; how far that can be off says
    /// [`Table::estimate_range`].
    ///
    /// # Errors
    /// As [`MultiTable::get`].
    pub fn estimate_range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        let (start, end) = self.bounds(&keys);
        self.raw.estimate_range(as_bounds(&start, &end))
    }

    fn bounds<'k>(&self, keys: &impl RangeBounds<&'k [u8]>) -> Bounds {
        self.pairs.bounds(keys.start_bound().cloned(), keys.end_bound().cloned())
    }

    /// Calls `f` with every key and value, in order, until it fails.
    ///
    /// # Errors
    /// As [`MultiTable::get`], or what `f` returned.
    pub fn scan(&self, mut f: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.scan_range(.., |key, value| f(key, value).map(|()| true))
    }

    /// Calls `f` with the keys of a range and each of their values, in order, until it returns `false` or
    /// fails.
    ///
    /// # Errors
    /// As [`MultiTable::scan`].
    pub fn scan_range<'k>(
        &self,
        keys: impl RangeBounds<&'k [u8]>,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let (start, end) = self.bounds(&keys);
        let bounds = as_bounds(&start, &end);
        let Some(recorder) = self.recorder else { return self.scan_bounds(bounds, f) };
        let first = keys.start_bound().cloned();
        recorder.observe_many(Operation::Scan, counted::key_of(&first), |moved| {
            self.scan_bounds(bounds, |key, value| {
                moved.record(key, value);
                f(key, value)
            })
        })
    }

    fn scan_bounds(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let mut key = Vec::new();
        self.raw.scan_bounds(bounds, |pair, value| {
            let rest = self.pairs.split(pair, &mut key).ok_or_else(|| self.raw.named(no_pair()))?;
            f(&key, if self.pairs.is_sorted() { rest } else { value })
        })
    }

    /// The keys of a range with their values, in order, from either end.
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k [u8]>) -> MultiRange<'t> {
        self.range_of(keys.start_bound().cloned(), self.bounds(&keys))
    }

    /// The range within these bounds of pairs, whose keys begin at `from`.
    fn range_of(&self, from: Bound<&[u8]>, (start, end): Bounds) -> MultiRange<'t> {
        let scan = counted::begin_scan(self.recorder, from);
        let raw = Range::new(self.raw, start, end);
        MultiRange { table: self.raw, raw, pairs: self.pairs, scan }
    }

    /// All keys with their values, in order.
    pub fn iter(&self) -> MultiRange<'t> {
        self.range(..)
    }

    /// The keys that begin so, with their values.
    pub fn prefix(&self, prefix: &[u8]) -> MultiRange<'t> {
        let from = Bound::Included(prefix);
        let Some(begin) = self.pairs.prefix(prefix) else {
            return self.range_of(from, (Bound::Unbounded, Bound::Excluded(Vec::new())));
        };
        let end = behind(&begin).map_or(Bound::Unbounded, Bound::Excluded);
        self.range_of(from, (Bound::Included(begin), end))
    }

    /// The first value of the lowest key.
    ///
    /// # Errors
    /// As [`MultiTable::get`].
    pub fn first(&self) -> Result<Option<MultiPair<'t>>> {
        self.seek_pair(None, MultiCursor::first)
    }

    /// The last value of the highest key.
    ///
    /// # Errors
    /// As [`MultiTable::get`].
    pub fn last(&self) -> Result<Option<MultiPair<'t>>> {
        self.seek_pair(None, MultiCursor::last)
    }

    /// The first value of the first key that is not below `key`.
    ///
    /// # Errors
    /// As [`MultiTable::get`]; or this is no key of the table's type. So for the other three.
    pub fn at_or_after(&self, key: &[u8]) -> Result<Option<MultiPair<'t>>> {
        self.seek_pair(Some(key), |cursor| cursor.seek(key))
    }

    /// The first value of the first key that is above `key`.
    ///
    /// # Errors
    /// As [`MultiTable::at_or_after`].
    pub fn after(&self, key: &[u8]) -> Result<Option<MultiPair<'t>>> {
        self.seek_pair(
            Some(key),
            |cursor| {
                if cursor.find(key)? { cursor.next_key() } else { Ok(false) }
            },
        )
    }

    /// The last value of the last key that is below `key`.
    ///
    /// # Errors
    /// As [`MultiTable::at_or_after`].
    pub fn before(&self, key: &[u8]) -> Result<Option<MultiPair<'t>>> {
        self.seek_pair(Some(key), |cursor| {
            cursor.seek(key)?;
            cursor.previous()
        })
    }

    /// The last value of the last key that is not above `key`.
    ///
    /// # Errors
    /// As [`MultiTable::at_or_after`].
    pub fn at_or_before(&self, key: &[u8]) -> Result<Option<MultiPair<'t>>> {
        self.seek_pair(Some(key), |cursor| {
            if cursor.find(key)? { cursor.last_value() } else { cursor.previous() }
        })
    }

    /// The key and the value that a new cursor comes to.
    fn seek_pair(
        &self,
        key: Option<&[u8]>,
        go: impl FnOnce(&mut MultiCursor<'t>) -> Result<bool>,
    ) -> Result<Option<MultiPair<'t>>> {
        counted::seek_pair(self.recorder, key, || {
            let mut cursor = self.uncounted().cursor();
            go(&mut cursor)?;
            cursor.record()
        })
    }

    /// A cursor before the first value of the lowest key.
    pub fn cursor(&self) -> MultiCursor<'t> {
        MultiCursor::new(self.raw.cursor(), self.pairs, self.recorder)
    }
}

/// A key and one of its values.
pub type MultiPair<'t> = (Vec<u8>, Bytes<'t>);

/// Bounds that are borrowed.
pub(crate) fn as_bounds<'b>(
    start: &'b Bound<Vec<u8>>,
    end: &'b Bound<Vec<u8>>,
) -> (Bound<&'b [u8]>, Bound<&'b [u8]>) {
    (start.as_ref().map(|key| &key[..]), end.as_ref().map(|key| &key[..]))
}

/// The value of a pair, of which `rest` is what comes behind the key.
pub(super) fn value_of<'t>(pairs: Pairs, rest: &[u8], value: &'t [u8]) -> Bytes<'t> {
    if pairs.is_sorted() { Cow::Owned(rest.to_vec()) } else { Cow::Borrowed(value) }
}

#[cold]
pub(crate) fn no_pair() -> Error {
    Error::corrupt(0, "a record of a table with several values for a key that has none of its form")
}

/// Keys with their values, in order; from [`MultiTable::range`] and its like.
#[derive(Debug)]
pub struct MultiRange<'t> {
    table: Table<'t>,
    raw: Range<'t>,
    pairs: Pairs,
    /// What counts the records, if that is asked for.
    scan: Option<Box<Walk<'t>>>,
}

impl Names for MultiRange<'_> {
    #[cold]
    fn named(&self, error: Error) -> Error {
        self.table.named(error)
    }
}

impl<'t> MultiRange<'t> {
    fn pair(&mut self, found: Result<(Vec<u8>, &'t [u8])>) -> Result<MultiPair<'t>> {
        let pair = found.and_then(|(pair, value)| {
            let mut key = Vec::new();
            let rest = self.pairs.split(&pair, &mut key);
            let rest = rest.ok_or_else(|| self.table.named(no_pair()))?;
            Ok((key, value_of(self.pairs, rest, value)))
        });
        if let Some(scan) = &mut self.scan {
            scan.came_to(&pair);
        }
        pair
    }
}

impl<'t> Iterator for MultiRange<'t> {
    type Item = Result<MultiPair<'t>>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.raw.next()?;
        Some(self.pair(found))
    }
}

impl FusedIterator for MultiRange<'_> {}

impl DoubleEndedIterator for MultiRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let found = self.raw.next_back()?;
        Some(self.pair(found))
    }
}

/// The values of a key, in their order; from [`MultiTable::values`].
#[derive(Debug)]
pub struct Values<'t>(MultiRange<'t>);

impl<'t> Iterator for Values<'t> {
    type Item = Result<Bytes<'t>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|(_, value)| value))
    }
}

impl FusedIterator for Values<'_> {}

impl DoubleEndedIterator for Values<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.0.next_back()?.map(|(_, value)| value))
    }
}
