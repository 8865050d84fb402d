//! Counting, timing and recording what is done with a store, where that is asked for.
//!
//! A handle without statistics that is not recorded has no recorder: an operation then is one test, and
//! the code that it would be without. With one, the same operation is done out of line, between two looks
//! at the clock where it is timed. It is counted when it has let go of every lock and pin of its own, so
//! that a callback may use the store.

use super::handle::Hash;
use super::reader::Value;
use super::transaction::Transaction;
use super::writer::Writer;
use crate::durability::Durability;
use crate::observe::{self, REMOVED, Recorder, Walk};
use crate::os::file::copied;
use crate::os::process::forks;
use crate::stats::{Done, Moved, Operation, Operations, Outcome};
use crate::{Bytes, Result};

/// What a change that reads has written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrote {
    /// A value of so many bytes.
    Value(usize),
    /// That the key is gone.
    Removal,
    Nothing,
}

impl Hash {
    /// What was done with this handle and its clones so far, and how long it took; where
    /// statistics are shared, by all processes together. `None` if it was opened without. What a
    /// transaction reads and collects, and `clear`, `compact`, `rebuild_index` and `verify`, are
    /// not counted.
    pub fn operations(&self) -> Option<Operations> {
        self.shared.recorder.as_ref()?.operations()
    }

    /// Does `f`, and counts it by what `done` makes of its result.
    #[inline(always)]
    pub(super) fn counted<T>(
        &self,
        operation: Operation,
        key: Option<&[u8]>,
        f: impl FnOnce() -> Result<T>,
        done: impl FnOnce(&T) -> Done,
    ) -> Result<T> {
        observe::counted(self.shared.recorder.as_deref(), operation, key, f, done)
    }

    /// Does `f`, which makes all of these changes or none, and counts it as a commit.
    pub(super) fn counted_commit<'a>(
        &self,
        changes: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        f: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(recorder) = &self.shared.recorder else { return f() };
        let mut all = Moved::default();
        changes.for_each(|(key, value)| all.record(key, value.unwrap_or_default()));
        let operation = match self.shared.durability {
            Durability::Sync => Operation::CommitSync,
            Durability::Buffered | Durability::Interval(_) => Operation::Commit,
        };
        recorder.observe_many(operation, None, |moved| {
            f()?;
            *moved = all;
            Ok(())
        })
    }

    /// A transaction begins, or a batch of these changes, which is recorded only.
    pub(super) fn record_begin<'a>(
        &self,
        changes: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        let Some(recorder) = &self.shared.recorder else { return };
        recorder.begin_transaction();
        changes.for_each(|(key, value)| recorder.batched(key, value));
    }

    /// A lookup within a transaction, which is recorded only.
    #[inline(always)]
    pub(super) fn get_recorded<'v>(
        &self,
        key: &[u8],
        look: impl FnOnce() -> Result<Option<&'v [u8]>>,
    ) -> Result<Option<&'v [u8]>> {
        let Some(recorder) = &self.shared.recorder else { return look() };
        let done = |value: &Option<&[u8]>| Done::found(value.map(<[u8]>::len));
        recorder.within(Operation::Get, Some(key), look, done)
    }

    /// A change that reads and writes; `change` tells what it has done.
    #[inline(always)]
    pub(super) fn write_counted<R>(
        &self,
        key: &[u8],
        change: impl FnOnce(&Writer<'_>) -> Result<(R, Wrote)>,
    ) -> Result<R> {
        let done = |(_, wrote): &(R, Wrote)| match wrote {
            Wrote::Value(len) => Done::one(Outcome::Done, key.len() + len),
            Wrote::Removal => Done::one(REMOVED, key.len()),
            Wrote::Nothing => Done::one(Outcome::Unchanged, 0),
        };
        Ok(self.counted(Operation::Update, Some(key), || self.write(change), done)?.0)
    }

    /// [`Hash::get`], counted.
    #[inline(never)]
    pub(super) fn get_counted(&self, recorder: &Recorder, key: &[u8]) -> Result<Option<Value<'_>>> {
        let done = |value: &Option<Value<'_>>| Done::found(value.as_ref().map(|v| v.len()));
        recorder.observe_here(Operation::Get, Some(key), || self.core().get(key), done)
    }

    /// [`Hash::get_with`], counted.
    #[inline(never)]
    pub(super) fn get_with_counted<R>(
        &self,
        recorder: &Recorder,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let look = || {
            let with_len = |value: &[u8]| (f(value), value.len());
            self.core().get_with(key, with_len)
        };
        let done = |found: &Option<(R, usize)>| Done::found(found.as_ref().map(|(_, len)| *len));
        Ok(recorder.observe_here(Operation::Get, Some(key), look, done)?.map(|(done, _)| done))
    }

    fn get_copied(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let found = self.core().get_with(key, copied).and_then(Option::transpose);
        found.map_err(|e| self.named(e))
    }

    /// A copy of the value of `key`, counted if that is asked for.
    pub(super) fn get_copied_counted(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let done = |value: &Option<Bytes<'_>>| Done::found(value.as_ref().map(|v| v.len()));
        self.counted(Operation::Get, Some(key), || self.get_copied(key), done)
    }

    /// The value of `key` if there is one, counted as the reading of all if that is asked for.
    pub(super) fn get_all_counted(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        let look = || Ok(self.get_copied(key)?.into_iter().collect());
        let done = |all: &Vec<Bytes<'_>>| Done::found(all.first().map(|value| value.len()));
        self.counted(Operation::GetAll, Some(key), look, done)
    }

    /// [`Hash::get_many`], counted if that is asked for.
    pub(super) fn get_many_counted<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let Some(recorder) = &self.shared.recorder else {
            return self.core().get_many(keys, f).map_err(|e| self.named(e));
        };
        recorder.observe_many(Operation::GetMany, None, |moved| {
            let look = |i: usize, value: Option<&[u8]>| {
                recorder.looked_up(moved, keys[i].as_ref(), value);
                f(i, value);
            };
            self.core().get_many(keys, look).map_err(|e| self.named(e))
        })
    }

    /// Every record, as [`Hash::iter`] gives them, counted as a scan if that is asked for.
    pub(super) fn scan_counted(&self, mut f: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let Some(recorder) = &self.shared.recorder else { return self.scan_all(f) };
        recorder.observe_many(Operation::Scan, None, |moved| {
            self.scan_all(|key, value| {
                moved.record(key, value);
                f(key, value)
            })
        })
    }

    /// An iterator begins.
    pub(super) fn walk(&self) -> Option<Walk<'_>> {
        self.shared.recorder.as_ref().map(|recorder| recorder.walk(None))
    }
}

impl Transaction<'_> {
    /// It has taken a change up, which is recorded only: its commit is counted. After a fork it is the parent's.
    #[inline(always)]
    pub(super) fn record_change(&self, key: &[u8], value: Option<&[u8]>) {
        if let Some(recorder) = &self.store.shared.recorder
            && self.forks == forks()
        {
            recorder.batched(key, value);
        }
    }

    /// Every record as the transaction left it, recorded if that is asked for.
    pub(super) fn scan_recorded(
        &self,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let Some(recorder) = &self.store.shared.recorder else { return self.scan_all(f) };
        let scan = || {
            let mut moved = Moved::default();
            self.scan_all(|key, value| {
                moved.record(key, value);
                f(key, value)
            })?;
            Ok(moved)
        };
        let done = |moved: &Moved| Done { outcome: Outcome::Done, moved: *moved };
        recorder.within(Operation::Scan, None, scan, done).map(drop)
    }
}
