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
use super::writer::Writer;
use crate::Result;
use std::sync::atomic::Ordering;

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
        turns.end(is_needed);
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
    /// say the next time that all is well: so the next time they are all written again.
    fn wait_for_disk(&self) -> Result<()> {
        if self.is_in_memory() {
            return Ok(());
        }
        let failed = self.session(session::FAILED);
        let before = failed.load(Ordering::Acquire);
        if before != 0 {
            self.write_again()?;
        }
        let done = self.data.sync();
        if done.is_err() {
            failed.fetch_add(1, Ordering::AcqRel);
        } else if before != 0 {
            // Unless another has failed meanwhile.
            let _ = failed.compare_exchange(before, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        done
    }

    /// Has everything that came since the last sync that succeeded count as changed.
    #[cold]
    fn write_again(&self) -> Result<()> {
        let since = self.session(session::SYNCED_SEQUENCE).load(Ordering::Acquire);
        self.data.write_again(0, LOG_AT)?;
        let index = self.newest.get();
        let is_known = self.is_newest(index);
        // A later unit of a segment has a greater number than any.
        let is_old = |unit| index.segment(unit).is_ok_and(|segment| segment.sequence() < since);
        for unit in (0..self.units()).filter(|unit| !is_known || !is_old(*unit)) {
            let (at, size) = unit_place(unit);
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
