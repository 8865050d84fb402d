//! Passing all of the log in haste, so that the file can be cut when it is about to be too long.
//!
//! The end of the file is free when all that was in the log has been passed: so that is begun when so little is still to become
//! garbage before the file is too long that it is just done by then. The word `HASTE` of the index is one of:
//!
//! - 0: there is no haste; it begins when it is needed.
//! - the number of a segment, that in which the log ended when it began: up to it the log is to be passed. With bit 62 it was
//!   begun because the time before, what is in the way was appended meanwhile, where there was room.
//! - bit 63, bytes in units of 4 KiB (bits 32 to 62), and the lower half of a segment's number: nothing could be cut. Haste
//!   begins again when there is a segment of this number, or less lives than that, lest it is copied again and again for
//!   nothing: while somebody who only reads keeps the file as long as it is, or what is in the way waits for the disk.
//!
//! It is a hint: a damaged word has the file be longer, or more be copied once.

use super::clean::LARGE;
use super::format::{session, words};
use super::reuse::{WORTH_SHRINKING, WORTH_WAITING};
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::Ordering;

/// For a byte of garbage so many bytes are looked at.
pub(super) const PACE_IN_HASTE: u64 = 32;
/// What is copied first finds no room but behind the end.
const GROWN_BEFORE: u64 = 512 << 10;
/// Set where it was begun once more.
const AGAIN: u64 = 1 << 62;
/// Set where it rests.
const RESTING: u64 = 1 << 63;
/// In such units it is noted what lives.
const LIVE_SHIFT: u32 = 12;

impl Writer<'_> {
    /// Whether the log is passed in haste, or that begins now.
    #[inline(always)]
    pub(super) fn is_in_haste(&self) -> Result<bool> {
        if self.is_nearly_long() {
            return if self.waits_for_much()? { Ok(false) } else { self.goes_on_in_haste() };
        }
        if self.index.load(words::HASTE) != 0 && self.is_far_from_long() {
            self.index.store(words::HASTE, 0);
        }
        Ok(false)
    }

    /// Whether the file is longer than it may be, or will be before the log is passed.
    #[inline(always)]
    fn is_nearly_long(&self) -> bool {
        self.soon_long() > self.most_bytes()
    }

    /// Whether so much lives again that what was begun may be forgotten. Where that was at once, haste ended with each put
    /// that had a little more live, and what had been passed was to be passed again.
    #[cold]
    fn is_far_from_long(&self) -> bool {
        self.soon_long() <= self.most_bytes() / 8 * 7
    }

    /// How long the file is, what becomes garbage while the log is passed, and a part of it once more, and what the file grows by
    /// before anything is emptied.
    #[inline(always)]
    fn soon_long(&self) -> u64 {
        let len = self.core.data.len();
        let passing = len / (PACE_IN_HASTE / 2) / 4 * 5;
        len.saturating_add(passing).saturating_add(GROWN_BEFORE)
    }

    /// How long it may be.
    #[inline(always)]
    fn most_bytes(&self) -> u64 {
        self.index.load(words::LIVE).saturating_mul(2).saturating_add(WORTH_SHRINKING)
    }

    /// Whether much was emptied and cannot be used yet: who keeps it would have all be copied again and again. What was
    /// begun is gone on with when it can be used; it was given up, and where syncs come often the file was a hundred
    /// times as long then as what lived in it.
    #[cold]
    fn waits_for_much(&self) -> Result<bool> {
        let is_much = || self.index.load(words::EMPTIED) > self.core.data.len() / 8 + WORTH_WAITING;
        if is_much() && (self.index.load(words::DEBT) >= LARGE || self.is_a_time_to_look()) {
            // It may only be that nobody has asked since. Now and then: many may wait for the disk, each of which is looked at.
            self.take_back_segments()?;
        }
        Ok(is_much())
    }

    #[cold]
    fn goes_on_in_haste(&self) -> Result<bool> {
        match self.haste() {
            // There is no room to work, or the disk refuses: at another time.
            Err(error) if !error.is_bad_file() => self.rest().map(|()| false),
            done => done,
        }
    }

    fn haste(&self) -> Result<bool> {
        let load = |word| self.index.load(word);
        let (last, word) = (load(words::SEQUENCE), load(words::HASTE));
        let goal = word & !AGAIN;
        let is_resting = word & RESTING != 0;
        if is_resting && self.rests(word)? {
            if self.is_longer(WORTH_SHRINKING) && self.is_a_time_to_look() {
                // Who kept the file long may be gone, and all that is in its way have been passed.
                self.take_back_segments()?;
                self.trim()?;
            }
            return Ok(false);
        }
        if is_resting || goal == 0 || goal > last {
            self.index.store(words::HASTE, last);
            return Ok(true);
        }
        if load(words::OLDEST_UNIT) != load(words::TAIL_UNIT) && self.oldest()? <= goal {
            return Ok(true);
        }
        self.cut_after_haste(word & AGAIN != 0)
    }

    /// All was passed but the segment in which the log ends: whether there is more to pass.
    fn cut_after_haste(&self, is_again: bool) -> Result<bool> {
        self.take_back_segments()?;
        if self.trim()? {
            return Ok(false);
        }
        if let Some(last) = self.move_end()? {
            self.index.store(words::HASTE, last | if is_again { AGAIN } else { 0 });
            return Ok(true);
        }
        if !is_again && let Some(last) = self.in_the_way()? {
            self.index.store(words::HASTE, last | AGAIN);
            return Ok(true);
        }
        // What was emptied last may only wait for the disk: else all would be passed once more, when it does not.
        if !self.cut_by_sync()? {
            self.rest()?;
        }
        Ok(false)
    }

    /// The newest of the segments without which much of the file could be cut, if there is room for them before: what was
    /// appended first, before anything was emptied.
    fn in_the_way(&self) -> Result<Option<u64>> {
        if !self.may_be_cut()? {
            return Ok(None);
        }
        let len = self.core.data.len();
        let least = len - len / 8;
        for end in [least.min(self.most_bytes() / 4 * 3), least] {
            let behind = self.behind(end)?;
            if !behind.is_held && behind.newest > 0 && behind.used <= behind.room_before {
                return Ok(Some(behind.newest));
            }
        }
        Ok(None)
    }

    /// Now and then: after some of the changes.
    fn is_a_time_to_look(&self) -> bool {
        const OFTEN: u64 = 256;
        self.core.session(session::CHANGES).load(Ordering::Relaxed) % OFTEN < 4
    }

    /// Has nobody begin before the log has gone round once, or much less lives; where the file could be cut, less.
    fn rest(&self) -> Result<()> {
        let until = self.index.load(words::SEQUENCE).wrapping_add(self.round()?) as u32;
        let live = self.index.load(words::LIVE);
        let least = live - live / 8 * if self.may_be_cut()? { 1 } else { 3 };
        let least = (least >> LIVE_SHIFT << 32) & !RESTING;
        self.index.store(words::HASTE, RESTING | least | u64::from(until));
        Ok(())
    }

    /// Whether that is not yet so.
    fn rests(&self, word: u64) -> Result<bool> {
        let left = (word as u32).wrapping_sub(self.index.load(words::SEQUENCE) as u32);
        let least = (word & !RESTING) >> 32;
        let live = self.index.load(words::LIVE) >> LIVE_SHIFT;
        Ok((1..=u64::from(u32::MAX / 2)).contains(&u64::from(left)) && live >= least)
    }

    /// By how much the numbers of segments grow while the log goes round once.
    fn round(&self) -> Result<u64> {
        let step = self.index.load(words::SKIPPED).saturating_add(1);
        let segments = self.index.load(words::SEQUENCE).saturating_sub(self.oldest()?);
        Ok(segments.saturating_add(step.saturating_mul(8)).min(u64::from(u32::MAX / 2)))
    }
}
