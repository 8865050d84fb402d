//! Counting, timing and recording what is done with a store, where that is asked for.
//!
//! The tables and cursors of a handle without statistics that is not recorded have no recorder: an operation then is one
//! test, and the code that it would be without. With one, the same operation is done out of line,
//! between two looks at the clock where it is timed. What an operation does by means of others is
//! done on a table that counts nothing, so that each is counted once.
//!
//! What the handle itself does is counted when it has let go of every lock and pin of its own; what
//! is done within a transaction or a snapshot, while these go on.

use super::handle::BTree;
use super::multi_mut::MultiTableMut;
use super::table::Table;
use super::table_mut::TableMut;
use super::transaction::Transaction;
use crate::durability::Durability;
use crate::observe::{BESIDE, Recorder, Started, Steps, Walk, Way, counted};
use crate::os::file::copied;
use crate::stats::{Done, Moved, Operation, Operations, Outcome};
use crate::{Bytes, Error, Result};
use std::ops::Bound;

/// Goes to a place, that of `key` if it is one's, and says whether there is a record.
#[inline(always)]
pub(super) fn seek(
    recorder: Option<&Recorder>,
    key: Option<&[u8]>,
    f: impl FnOnce() -> Result<bool>,
) -> Result<bool> {
    counted(recorder, Operation::Seek, key, f, |is_there| Done::found(is_there.then_some(0)))
}

/// Finds a record by its place in the order of keys.
#[inline(always)]
pub(super) fn seek_pair<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    recorder: Option<&Recorder>,
    key: Option<&[u8]>,
    f: impl FnOnce() -> Result<Option<(K, V)>>,
) -> Result<Option<(K, V)>> {
    let bytes = |(key, value): &(K, V)| key.as_ref().len() + value.as_ref().len();
    counted(recorder, Operation::Seek, key, f, |pair| Done::found(pair.as_ref().map(bytes)))
}

/// The reading of one record after the other begins, of which nobody knows when it ends.
pub(super) fn begin_scan<'r>(
    recorder: Option<&'r Recorder>,
    start: Bound<&[u8]>,
) -> Option<Box<Walk<'r>>> {
    recorder.map(|recorder| Box::new(recorder.walk(key_of(&start))))
}

/// A cursor has made a step this way, which may be recorded: it is where `key` is now, if at a record.
#[inline(always)]
pub(super) fn stepped(
    steps: &mut Option<Box<Steps>>,
    way: Way,
    step: Result<bool>,
    key: Option<&[u8]>,
) -> Result<bool> {
    if let Some(steps) = steps {
        steps.stepped(way, key.filter(|_| matches!(step, Ok(true))));
    }
    step
}

/// Does `f`, which counts the records of a range that begins so, and is recorded only.
#[inline(always)]
pub(super) fn count(
    recorder: Option<&Recorder>,
    start: &Bound<&[u8]>,
    f: impl FnOnce() -> Result<u64>,
) -> Result<u64> {
    match recorder {
        None => f(),
        Some(recorder) => recorder.count(key_of(start), f),
    }
}

/// The key that a range begins with, if it does with one.
pub(super) fn key_of<'k>(start: &Bound<&'k [u8]>) -> Option<&'k [u8]> {
    match start {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// What a change did: records that are others now, and bytes of keys and values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    outcome: Outcome,
    records: u64,
    bytes: u64,
}

impl Change {
    pub(super) fn put(key: &[u8], value: &[u8]) -> Change {
        let bytes = (key.len() + value.len()) as u64;
        Change { outcome: Outcome::Done, records: 1, bytes }
    }

    /// One value more beside those that the key may have, or nothing.
    pub(super) fn added(is_added: bool, key: &[u8], value: &[u8]) -> Change {
        let nothing = Change { outcome: BESIDE, records: 0, bytes: 0 };
        if is_added { Change { outcome: BESIDE, ..Change::put(key, value) } } else { nothing }
    }

    pub(super) fn put_if(is_put: bool, key: &[u8], value: &[u8]) -> Change {
        let nothing = Change { outcome: Outcome::Unchanged, records: 0, bytes: 0 };
        if is_put { Change::put(key, value) } else { nothing }
    }

    pub(super) fn removed(was_there: bool, bytes: usize) -> Change {
        Change::removed_all(&(u64::from(was_there), bytes as u64))
    }

    /// The first or the last record was taken out, if there was one.
    pub(super) fn popped(record: &Option<(Vec<u8>, Vec<u8>)>) -> Change {
        Change::removed(record.is_some(), record.as_ref().map_or(0, |(key, _)| key.len()))
    }

    /// So many records were taken out, with so many bytes of keys.
    pub(super) fn removed_all((records, bytes): &(u64, u64)) -> Change {
        match *records {
            0 => Change { outcome: Outcome::Miss, records: 0, bytes: 0 },
            records => Change { outcome: Outcome::Hit, records, bytes: *bytes },
        }
    }
}

/// A table that is being changed, whose operations are counted if there is a recorder.
pub(super) trait Counts<'t>: Sized {
    fn recorder(&self) -> Option<&'t Recorder>;

    /// What the transaction has changed so far.
    fn moved(&mut self) -> &mut Moved;

    /// The error, naming the store's file.
    fn named(&self, error: Error) -> Error;

    /// Does `f`, and counts it by what `what` makes of its result.
    #[inline(always)]
    fn change<T>(
        &mut self,
        operation: Operation,
        key: Option<&[u8]>,
        f: impl FnOnce(&mut Self) -> Result<T>,
        what: impl FnOnce(&T) -> Change,
    ) -> Result<T> {
        let Some(recorder) = self.recorder() else { return f(self).map_err(|e| self.named(e)) };
        let change = move || {
            let done = f(self).map_err(|e| self.named(e))?;
            let Change { outcome, records, bytes } = what(&done);
            self.moved().add(Moved { items: records, misses: 0, bytes });
            Ok((done, Done::one(outcome, bytes as usize)))
        };
        Ok(recorder.observe(operation, key, change, |(_, done)| *done)?.0)
    }
}

impl<'t> Counts<'t> for TableMut<'t, '_> {
    #[inline(always)]
    fn recorder(&self) -> Option<&'t Recorder> {
        self.recorder
    }

    fn moved(&mut self) -> &mut Moved {
        &mut self.writer.scratch.moved
    }

    #[cold]
    fn named(&self, error: Error) -> Error {
        self.source.core().named(error)
    }
}

impl<'t> Counts<'t> for MultiTableMut<'t, '_> {
    fn recorder(&self) -> Option<&'t Recorder> {
        self.recorder
    }

    fn moved(&mut self) -> &mut Moved {
        &mut self.raw.writer.scratch.moved
    }

    #[cold]
    fn named(&self, error: Error) -> Error {
        self.raw.named(error)
    }
}

impl BTree {
    /// What was done with this handle and its clones so far, and how long it took; where statistics
    /// are shared, by all processes together. `None` if it was opened without.
    ///
    /// What is done with a table in a snapshot or in a transaction counts as what is done with the
    /// store itself: [`BTree::insert`] is an insert as [`TableMut::insert`] is, only that the former's
    /// time has its commit in it, which is not counted as one. Not counted are counts of ranges, what
    /// is done with tables as a whole, transactions within transactions, `compact`, `backup` and
    /// `verify`; of `bulk_load` the records are among the changes of the commit.
    pub fn operations(&self) -> Option<Operations> {
        self.recorder()?.operations()
    }

    /// [`BTree::insert`], counted.
    #[cold]
    #[inline(never)]
    pub(super) fn insert_counted(
        &self,
        recorder: &Recorder,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool> {
        let put = || self.insert_uncounted(key, value);
        let done = |_: &bool| Done::one(Outcome::Done, key.len() + value.len());
        recorder.observe(Operation::Insert, Some(key), put, done)
    }

    /// [`BTree::remove`], counted.
    #[cold]
    #[inline(never)]
    pub(super) fn remove_counted(&self, recorder: &Recorder, key: &[u8]) -> Result<bool> {
        let done = |was_there: &bool| Done::found(was_there.then_some(key.len()));
        recorder.observe(Operation::Remove, Some(key), || self.remove_uncounted(key), done)
    }

    /// Looks a key up in the main table.
    pub(super) fn get_counted(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        match self.recorder() {
            None => self.look_up(key),
            Some(recorder) => {
                let done = |value: &Option<Bytes<'_>>| Done::found(value.as_ref().map(|v| v.len()));
                recorder.observe(Operation::Get, Some(key), || self.look_up(key), done)
            }
        }
    }

    #[inline]
    fn look_up(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let snapshot = self.read_uncounted()?;
        snapshot.main().find(key)?.map(copied).transpose().map_err(|e| self.named(e))
    }

    /// The value of `key` if there is one, counted as the reading of all if that is asked for.
    pub(super) fn get_all_counted(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        let look = || {
            let snapshot = self.read_uncounted()?;
            let value = snapshot.main().find(key)?;
            value.into_iter().map(copied).collect::<Result<_>>().map_err(|e| self.named(e))
        };
        let done = |all: &Vec<Bytes<'_>>| Done::found(all.first().map(|value| value.len()));
        counted(self.recorder(), Operation::GetAll, Some(key), look, done)
    }

    /// Whether a key is in the main table.
    pub(super) fn contains_counted(&self, key: &[u8]) -> Result<bool> {
        let look = || Ok(self.read_uncounted()?.main().find(key)?.map(<[u8]>::len));
        let done = |len: &Option<usize>| Done::found(*len);
        Ok(counted(self.recorder(), Operation::Get, Some(key), look, done)?.is_some())
    }

    /// Looks many keys up in the main table.
    pub(super) fn get_many_counted<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let Some(recorder) = self.recorder() else {
            return self.read_uncounted()?.main().find_many(keys, f);
        };
        recorder.observe_many(Operation::GetMany, None, |moved| {
            self.read_uncounted()?.main().find_many(keys, |i, value| {
                recorder.looked_up(moved, keys[i].as_ref(), value);
                f(i, value);
            })
        })
    }
}

impl<'t> Table<'t> {
    /// [`Table::get`], counted.
    #[cold]
    #[inline(never)]
    pub(super) fn get_counted(&self, key: &[u8]) -> Result<Option<&'t [u8]>> {
        let done = |value: &Option<&[u8]>| Done::found(value.map(<[u8]>::len));
        counted(self.recorder(), Operation::Get, Some(key), || self.find(key), done)
    }

    /// [`Table::get_many`], counted.
    pub(super) fn get_many_counted<K: AsRef<[u8]>>(
        &self,
        recorder: &Recorder,
        keys: &[K],
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        recorder.observe_many(Operation::GetMany, None, |moved| {
            self.find_many(keys, |i, value| {
                recorder.looked_up(moved, keys[i].as_ref(), value);
                f(i, value);
            })
        })
    }

    /// [`Table::scan_range`], counted.
    pub(super) fn scan_counted(
        &self,
        recorder: &Recorder,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<()> {
        recorder.observe_many(Operation::Scan, key_of(&bounds.0), |moved| {
            self.scan_bounds(bounds, |key, value| {
                moved.record(key, value);
                f(key, value)
            })
        })
    }
}

impl Transaction<'_> {
    /// [`Transaction::commit`], counted.
    #[cold]
    #[inline(never)]
    pub(super) fn commit_counted(self, recorder: &Recorder) -> Result<()> {
        let operation = match self.store.durability() {
            Durability::Sync => Operation::CommitSync,
            Durability::Buffered | Durability::Interval(_) => Operation::Commit,
        };
        let changes = self.writer.scratch.moved;
        recorder.observe_many(operation, None, |moved| {
            // It is not counted any more.
            self.commit()?;
            *moved = changes;
            Ok(())
        })
    }
}

/// A transaction that is being undone, which is counted when this is dropped.
#[derive(Debug)]
pub(super) struct Abort<'r> {
    recorder: &'r Recorder,
    begun: Option<Started>,
}

impl<'r> Abort<'r> {
    pub(super) fn begin(recorder: &'r Recorder) -> Box<Abort<'r>> {
        Box::new(Abort { recorder, begun: Some(recorder.begin(Operation::Abort)) })
    }
}

impl Drop for Abort<'_> {
    fn drop(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.recorder.finish(begun, None, Done::one(Outcome::Done, 0));
        }
    }
}
