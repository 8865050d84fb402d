//! Passing all of the log in haste, so that the file can be cut when it is about to be too long.
//!
//! The end of the file is free when all that was in the log has been passed: so that is begun when so little is still to become
//! garbage before the file is too long that it is just done by then. The word `HASTE` of the index is one of:
//!
//! - 0: there is no haste; it begins when it is needed.
//! - the number of a segment: that in which the log ended when it began. Up to it the log is to be passed.
//! - bit 63, and a number: nothing could be cut, or what was begun has been of no use. Haste does not begin before there is
//!   a segment of this number, lest what lives is copied again and again for nothing: while somebody who only reads keeps
//!   the file as long as it is, or what is in the way waits for the disk.
//!
//! It is a hint: a damaged word has the file be longer, or more be copied, for one round of the log.

use super::format::{session, words};
use super::reuse::{WORTH_SHRINKING, WORTH_WAITING};
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::Ordering;

/// For a byte of garbage so many bytes are looked at.
pub(super) const PACE_IN_HASTE: u64 = 32;
/// Set where the rest is the number of the segment before which haste does not begin again.
const NOT_BEFORE: u64 = 1 << 63;

impl Writer<'_> {
    /// Whether the log is passed in haste, or that begins now.
    #[inline(always)]
    pub(super) fn is_in_haste(&self) -> Result<bool> {
        if self.is_nearly_long() {
            return if self.waits_for_much() { Ok(false) } else { self.goes_on_in_haste() };
        }
        if (1..NOT_BEFORE).contains(&self.index.load(words::HASTE)) {
            self.end_haste()?;
        }
        Ok(false)
    }

    /// Whether the file is longer than it may be, or will be before the log is passed.
    #[inline(always)]
    fn is_nearly_long(&self) -> bool {
        let (live, len) = (self.index.load(words::LIVE), self.core.data.len());
        let ahead = len / (PACE_IN_HASTE / 2);
        len.saturating_add(ahead) > live.saturating_mul(2).saturating_add(WORTH_SHRINKING)
    }

    /// Whether much was emptied and cannot be used yet: who keeps it would have all be copied again and again. What was
    /// begun is gone on with when it can be used; it was given up, and where syncs come often the file was a hundred
    /// times as long then as what lived in it.
    #[cold]
    fn waits_for_much(&self) -> bool {
        self.index.load(words::EMPTIED) > self.core.data.len() / 8 + WORTH_WAITING
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
        let (last, goal) = (load(words::SEQUENCE), load(words::HASTE));
        if goal == 0 || goal > last {
            // What is later than a round from now damage wrote.
            let rests = last.saturating_add(1)..=last.saturating_add(self.round()?);
            let is_begun = goal < NOT_BEFORE || !rests.contains(&(goal - NOT_BEFORE));
            if is_begun {
                self.index.store(words::HASTE, last);
            } else if self.is_longer(WORTH_SHRINKING) && self.is_a_time_to_look() {
                // Who kept the file long may be gone, and all that is in its way have been passed.
                self.take_back_segments()?;
                self.trim()?;
            }
            return Ok(is_begun);
        }
        if load(words::OLDEST_UNIT) != load(words::TAIL_UNIT) && self.oldest()? <= goal {
            return Ok(true);
        }
        self.cut_after_haste()
    }

    /// All was passed but the segment in which the log ends: whether there is more to pass.
    fn cut_after_haste(&self) -> Result<bool> {
        if !self.is_longer(WORTH_SHRINKING) || self.trim()? {
            return Ok(false);
        }
        let moved = self.move_end()?;
        match moved {
            Some(last) => self.index.store(words::HASTE, last),
            None => self.rest()?,
        }
        Ok(moved.is_some())
    }

    /// Now and then: after some of the changes.
    fn is_a_time_to_look(&self) -> bool {
        const OFTEN: u64 = 256;
        self.core.session(session::CHANGES).load(Ordering::Relaxed) % OFTEN < 4
    }

    /// The file is not nearly too long any more. Where that is for long, what is appended meanwhile is not passed by what
    /// was begun, and must be by another time.
    #[cold]
    fn end_haste(&self) -> Result<()> {
        let goal = self.index.load(words::HASTE);
        self.set_not_before(goal.saturating_add(self.round()? / 2));
        Ok(())
    }

    /// Has nobody begin before the log has gone round once.
    fn rest(&self) -> Result<()> {
        self.set_not_before(self.index.load(words::SEQUENCE).saturating_add(self.round()?));
        Ok(())
    }

    fn set_not_before(&self, number: u64) {
        self.index.store(words::HASTE, NOT_BEFORE | number.min(NOT_BEFORE - 1));
    }

    /// By how much the numbers of segments grow while the log goes round once.
    fn round(&self) -> Result<u64> {
        let step = self.index.load(words::SKIPPED).saturating_add(1);
        Ok(self.units()?.saturating_mul(step))
    }
}
