//! Durability: what is on the disk, and how it is known.
//!
//! A sync notes where the log ends, makes the data file durable, and then knows that everything
//! up to there is. What it knows it writes as a checkpoint *before the next* sync, so that a
//! checkpoint on the disk never promises what may not be there. Two checkpoints are written in
//! turn: a torn one leaves the other.
//!
//! Those who want to sync at the same time do it as a group ([`crate::os::turns`]): one of them waits
//! for the disk.

use super::core::Core;
use super::format::{CHECKPOINTS, Checkpoint, LOG_AT, session, unit_place, words};
use super::index::Index;
use super::writer::Writer;
use crate::Result;
use crate::os::lock::RobustLock;
use std::sync::atomic::Ordering;

/// Set in the word of the session that says what may not be on the disk: the data since the last sync
/// that succeeded; the index.
const UNSURE_OF_DATA: u64 = 1;
const UNSURE_OF_INDEX: u64 = 2;

/// What a sync will have made durable.
#[derive(Clone, Copy, Debug)]
struct Promise {
    oldest: u64,
    sequence: u64,
    end: u64,
    changes: u64,
    /// Segments below are not needed, by the checkpoint that becomes durable with it.
    reusable: u64,
}

impl Core {
    /// Returns when everything that was done before the call is durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let wanted = self.session(session::CHANGES).load(Ordering::Acquire);
        // Who may not write has nothing to make durable.
        if self.is_durable(wanted) || !self.data.is_writable() {
            return Ok(());
        }
        let turns = self.sync_turns();
        if !turns.take_unless(|| self.is_durable(wanted))? {
            return Ok(());
        }
        // A syncer that died left nothing half done: its results are written at once.
        let is_needed = !self.is_durable(wanted);
        if is_needed {
            turns.gather(|| self.session(session::CHANGES).load(Ordering::Acquire));
        }
        let done = if is_needed { self.sync_newest() } else { Ok(()) };
        turns.end(true);
        done
    }

    fn is_durable(&self, changes: u64) -> bool {
        self.session(session::DURABLE).load(Ordering::Acquire) >= changes
    }

    fn sync_newest(&self) -> Result<()> {
        let promise = self.writer_unsettled()?.promise()?;
        // Others write meanwhile.
        self.wait_for_disk()?;
        self.writer_unsettled()?.keep(promise);
        Ok(())
    }

    /// Makes the data file durable. When that fails the kernel may call pages clean all the same, and
    /// say the next time that all is well: so the next time they are all written again. One at a time,
    /// for of those who wait by the same opening of the file only one is told.
    pub(super) fn wait_for_disk(&self) -> Result<()> {
        if self.is_in_memory() {
            return Ok(());
        }
        let lock = RobustLock::in_head(&self.data, session::DISK_LOCK);
        lock.lock()?;
        let unsure = self.session(session::UNSURE);
        let before = unsure.fetch_or(UNSURE_OF_DATA, Ordering::AcqRel);
        let done = self.write_again(before).and_then(|()| self.data.sync());
        if done.is_ok() {
            unsure.store(0, Ordering::Release);
        }
        lock.unlock();
        done
    }

    /// The same for the index, which is on the disk only when it is closed.
    pub(super) fn sync_index(&self, index: &Index) -> Result<()> {
        index.map.sync().inspect_err(|_| {
            self.session(session::UNSURE).fetch_or(UNSURE_OF_INDEX, Ordering::AcqRel);
        })
    }

    /// Has every page count as changed of which nobody knows whether it is on the disk.
    fn write_again(&self, unsure: u64) -> Result<()> {
        let index = self.newest.get();
        if unsure & UNSURE_OF_INDEX != 0 {
            index.map.write_again(0, index.map.refresh_len()?)?;
        }
        if unsure & UNSURE_OF_DATA == 0 {
            return Ok(());
        }
        let len = self.data.refresh_len()?;
        let since = self.session(session::SYNCED_SEQUENCE).load(Ordering::Acquire);
        let is_old = |unit| {
            let segment = index.segment(unit);
            segment.is_ok_and(|segment| (1..since).contains(&segment.sequence()))
        };
        // Without a lock: who goes on looks again whether the table is the one that was read.
        let table = index.load(words::SEGMENTS_AT);
        let new: Vec<u64> = (0..self.units()).filter(|unit| !is_old(*unit)).collect();
        if !self.is_newest(index) || index.load(words::SEGMENTS_AT) != table {
            return self.data.write_again(0, len);
        }
        self.data.write_again(0, LOG_AT)?;
        for (at, size) in new.into_iter().map(unit_place) {
            self.data.write_again(at, at + size)?;
        }
        Ok(())
    }
}

impl Writer<'_> {
    /// The same while writing, without letting others write meanwhile.
    pub(crate) fn sync_now(&self) -> Result<()> {
        let promise = self.promise()?;
        self.core.wait_for_disk()?;
        self.keep(promise);
        Ok(())
    }

    /// Writes a checkpoint of what the last sync made durable, and notes what the next will.
    fn promise(&self) -> Result<Promise> {
        let session = |word| self.core.session(word);
        let load = |word| session(word).load(Ordering::Relaxed);
        let checkpoint = Checkpoint {
            number: load(session::CHECKPOINT).wrapping_add(1),
            oldest: load(session::SYNCED_OLDEST),
            sequence: load(session::SYNCED_SEQUENCE),
            end: load(session::SYNCED_END),
            changes: load(session::DURABLE),
        };
        let place = CHECKPOINTS[(checkpoint.number % 2) as usize] / 8;
        for (i, word) in checkpoint.words(&self.core.header).into_iter().enumerate() {
            self.core.data.head()[place as usize + i].store(word, Ordering::Relaxed);
        }
        session(session::CHECKPOINT).store(checkpoint.number, Ordering::Relaxed);
        Ok(Promise {
            oldest: self.oldest()?,
            sequence: self.index.load(words::SEQUENCE),
            end: self.index.load(words::TAIL),
            changes: load(session::CHANGES),
            reusable: checkpoint.oldest,
        })
    }

    /// Notes that a promise is kept.
    fn keep(&self, promise: Promise) {
        let session = |word| self.core.session(word);
        let raise = |word, value| session(word).fetch_max(value, Ordering::Release);
        raise(session::REUSABLE, promise.reusable);
        if session(session::DURABLE).load(Ordering::Relaxed) <= promise.changes {
            raise(session::SYNCED_OLDEST, promise.oldest);
            // Whoever dies between these leaves what is true: less than could be said.
            session(session::SYNCED_END).store(0, Ordering::Release);
            session(session::SYNCED_SEQUENCE).store(promise.sequence, Ordering::Release);
            session(session::SYNCED_END).store(promise.end, Ordering::Release);
        }
        raise(session::DURABLE, promise.changes);
    }
}
