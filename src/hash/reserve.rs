//! What is left free where the disk is nearly full, so that what makes room has room.
//!
//! A removal is a record, and cleaning copies what lives before a segment is free. A store that had filled its disk could take
//! nothing out until somebody else made room. So a put leaves two segments free, one for removals, which leave the other, for
//! cleaning. What is free is what the file system still has, and the free units of the file. Where others take it from the
//! file system, all is as it would be without.
//!
//! A record that is much longer than most may find no room there. As much as the longest segment was tried: its units have to
//! follow each other, and that needed several times as much.
//!
//! A change that finds no room has garbage cleaned, if there is enough to be worth it, and is tried once more. In a store with
//! a limit the oldest records make way for it then.
//!
//! Tried and dropped: to have that room in the file. A store of a hundred records would be two or three times as long.

use super::clean::WORTH_CLEANING;
use super::format::{session, unit_of, unit_place, words};
use super::record::Kind;
use super::writer::Writer;
use crate::os::atomic::Ordering;
use crate::{Error, Result};

/// What an append has to leave free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// Room for removals, and for cleaning after them.
    Most,
    /// Room for cleaning.
    Some,
    Nothing,
}

impl Leaves {
    /// Of a record that is no copy.
    pub(super) fn of(kind: Kind) -> Leaves {
        match kind {
            Kind::Put => Leaves::Most,
            Kind::Delete | Kind::Remove | Kind::Batch => Leaves::Some,
            Kind::Clear | Kind::End | Kind::Evict => Leaves::Nothing,
        }
    }
}

/// In the word that counts removals: something was appended that puts leave the room for.
pub(super) const TAKEN: u64 = 1 << 63;

/// Who finds no room has garbage cleaned if it is such a part of the log: each byte of it costs so many copied.
const PART_OF_LOG: u64 = 16;

/// Removals may make the file longer by so many units: of those the last may be twice as long.
const AHEAD: u64 = 3;

impl Writer<'_> {
    /// An error if whoever takes `bytes` of what is free would not leave what is to be left.
    pub(super) fn leave_room(&self, leaves: Leaves, bytes: u64) -> Result<()> {
        self.core.data.check_room()?;
        // Nobody else knows an index that is being made.
        if self.lock.is_none() || self.has_room(Leaves::Most, bytes)? {
            return Ok(());
        }
        if leaves == Leaves::Most || !self.has_room(leaves, bytes)? {
            return Err(self.core.data.no_room("make longer and keep room for removals"));
        }
        let removals = self.core.session(session::REMOVALS);
        removals.store(removals.load(Ordering::Relaxed) | TAKEN, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn has_room(&self, leaves: Leaves, bytes: u64) -> Result<bool> {
        let left = match leaves {
            Leaves::Most => 2 * self.segment_bytes(AHEAD),
            Leaves::Some => self.segment_bytes(0),
            Leaves::Nothing => return Ok(true),
        };
        let (wanted, room) = (left.saturating_add(bytes), self.core.data.room());
        Ok(room >= wanted || room.saturating_add(self.free_in_file()?) >= wanted)
    }

    /// Bytes of the free units that the file has.
    fn free_in_file(&self) -> Result<u64> {
        let end = unit_of(self.core.data.len()).unwrap_or(0);
        self.free_before(end.min(self.units()?))
    }

    /// What cleaning needs to have a segment free: as much as the longest of the file has, or will have when it is some units
    /// longer, or a record as long as most.
    pub(super) fn segment_bytes(&self, ahead: u64) -> u64 {
        let (live, count) = (self.index.load(words::LIVE), self.index.load(words::COUNT));
        let len = self.core.data.len();
        let last = unit_of(len.saturating_sub(1)).unwrap_or(0);
        // Whatever damaged counts say.
        let record = (live / count.max(1)).min(len / 4);
        unit_place(last + ahead).1.max(record)
    }

    /// Makes a change, of `room` bytes; if there is no room for it, once more when garbage was cleaned, or records were dropped.
    #[inline(always)]
    pub(super) fn with_room<T>(
        &self,
        leaves: Leaves,
        room: impl FnOnce() -> u64,
        change: impl Fn() -> Result<T>,
    ) -> Result<T> {
        match change() {
            Err(error) if error.is_no_room() => self.once_more(leaves, room(), error, change),
            done => done,
        }
    }

    #[cold]
    #[inline(never)]
    fn once_more<T>(
        &self,
        leaves: Leaves,
        room: u64,
        error: Error,
        change: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let done = match self.clean_for_room(leaves) {
            Ok(true) => change(),
            Err(other) if other.is_bad_file() => Err(other),
            _ => Err(error),
        };
        let is_limited = self.core.header.limit > 0 && !self.core.is_kept_whole;
        let is_limited = is_limited && leaves != Leaves::Nothing;
        match done {
            Err(error) if is_limited && error.is_no_room() => {
                self.drop_for_room(room, error, change)
            }
            done => done,
        }
    }

    /// Of a store with a limit no more is to be dropped for a change of `room` bytes: what is to be left free, and what it needs,
    /// several times over, for that has to lie together.
    pub(super) fn most_to_drop(&self, room: u64) -> u64 {
        (2 * self.segment_bytes(AHEAD)).saturating_add(room.saturating_mul(8))
    }

    /// Cleans until there is room for puts, or all of the log was passed, if there is enough garbage to be worth it; whether.
    fn clean_for_room(&self, leaves: Leaves) -> Result<bool> {
        if !self.is_whole() {
            // The change was made, and could not be entered: the next writer does it first.
            return Ok(false);
        }
        self.settle()?;
        let (log, segment) = (self.index.log_bytes(), self.segment_bytes(0));
        // In a small store segments are a large part of the log.
        let part = log / PART_OF_LOG;
        let least = match leaves {
            Leaves::Most => (2 * segment).min(log / 2).max(part),
            // Removals have made twice as much at least, where nobody else took the room for them.
            Leaves::Some | Leaves::Nothing => segment.min(part.max(WORTH_CLEANING)),
        };
        let garbage = log.saturating_sub(self.index.load(words::LIVE));
        // Removals may have no other way.
        let lost = if leaves == Leaves::Most { self.lost(garbage) } else { 0 };
        let is_worth_it = garbage.saturating_sub(lost) >= least;
        if leaves == Leaves::Nothing {
            // What it needs is little, and may be in the index: the end of this file gives it.
            return if is_worth_it { self.clean_all() } else { self.give_back() }.map(|()| true);
        }
        // Nobody may have looked since a reader let go of what was emptied, which is counted as room only when it is free.
        let emptied = self.index.load(words::EMPTIED);
        if emptied > 0 {
            self.take_back_all()?;
        }
        let is_freed = self.index.load(words::EMPTIED) < emptied;
        if !is_worth_it || is_freed && self.has_room(Leaves::Most, segment)? {
            return Ok(is_freed);
        }
        let last = self.index.load(words::SEQUENCE);
        while self.clean(segment, last)? >= segment {
            self.free_what_waits(segment)?;
            if self.has_room(Leaves::Most, segment)? {
                return Ok(true);
            }
        }
        self.give_back()?;
        let left = self.index.log_bytes().saturating_sub(self.index.load(words::LIVE));
        self.core.session(session::LOST).store(left, Ordering::Relaxed);
        Ok(true)
    }

    /// What of the garbage no cleaning makes room of, as far as was seen. Of records of 1.1 MB an eighth of the log is lost at the
    /// ends of segments: each put that found no room had all of it copied.
    fn lost(&self, garbage: u64) -> u64 {
        let lost = self.core.session(session::LOST);
        let least = lost.load(Ordering::Relaxed).min(garbage);
        lost.store(least, Ordering::Relaxed);
        least
    }
}
