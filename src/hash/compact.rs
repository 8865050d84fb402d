//! Compaction that was asked for: round the log, piece by piece, and once or twice more where that left the file long.
//!
//! What lives is appended again, behind the log's end, and where there was no room that is behind the end of the file: if nearly
//! nothing was garbage, all of it, else the first of it. So the log is passed once more, up to the last segment that
//! is farther behind than it need be, and goes to places before. It ends soon after that, whatever others do meanwhile:
//! where readers, or what waits for the disk, keep the file long, more would be of no use either.

use super::clean::WORTH_CLEANING;
use super::format::{LOG_AT, unit_of, unit_place, words};
use super::writer::Writer;
use crate::Result;

/// A file that is longer by a quarter than the log, and this, is gone round once more.
const WORTH_ANOTHER: u64 = LOG_AT + (16 << 10);
/// So many bytes are passed before it is looked whether there is room for more.
const PIECE: u64 = 64 << 10;
/// So often at most: again, as the last segment may have found no other place than behind the end.
const MOST_ROUNDS: u32 = 3;

/// What a compaction that has begun is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// The last segment that it will empty.
    last: u64,
    /// Begun anew, as others had passed all that was to be done when somebody went on with it.
    is_again: bool,
    /// How often it has gone round.
    rounds: u32,
}

impl Writer<'_> {
    /// Goes on with a compaction, for about `budget` bytes, or begins one; what is left to do.
    pub(crate) fn compact(&self, budget: u64, goal: Option<Goal>) -> Result<Option<Goal>> {
        let goal = match goal {
            Some(goal) if goal.is_again || self.oldest()? <= goal.last => goal,
            // Nobody may have gone on with it for long. But not for ever, where others write much.
            left => match self.begin_compaction(left.is_some())? {
                Some(goal) => goal,
                None => return Ok(None),
            },
        };
        if self.go_on(budget, goal.last)? {
            return Ok(Some(goal));
        }
        self.give_back()?;
        if goal.rounds == MOST_ROUNDS || !self.is_long() {
            return Ok(None);
        }
        let last = self.last_in_the_way()?;
        Ok(last.map(|last| Goal { last, rounds: goal.rounds + 1, ..goal }))
    }

    /// Passes some `budget` bytes, up to segment number `last`; whether there is more.
    fn go_on(&self, budget: u64, last: u64) -> Result<bool> {
        // What was passed may have to be on the disk before there is room in it: else it is behind the end.
        let piece = (self.index.log_bytes() / 16).max(PIECE);
        let mut left = budget;
        loop {
            self.free_if_short(piece, self.end_of_live(0))?;
            let wanted = piece.min(left);
            let done = self.clean(wanted, last)?;
            let is_at_end =
                self.index.load(words::OLDEST_UNIT) == self.index.load(words::TAIL_UNIT);
            if done < wanted || is_at_end || self.oldest()? > last {
                return Ok(false);
            }
            left = left.saturating_sub(done);
            if left == 0 {
                return Ok(true);
            }
        }
    }

    /// What a compaction is to do that begins now; `None` if there is nothing.
    fn begin_compaction(&self, is_again: bool) -> Result<Option<Goal>> {
        if self.is_compact() {
            return Ok(None);
        }
        let last = if self.is_clean() {
            // What was passed before may only wait for the disk.
            self.give_back()?;
            if self.is_long() { self.last_in_the_way()? } else { None }
        } else {
            Some(self.index.load(words::SEQUENCE))
        };
        Ok(last.map(|last| Goal { last, is_again, rounds: 0 }))
    }

    /// The newest segment that is farther behind than all of the log need be, if there is room for what is there; or else than
    /// twice as much.
    fn last_in_the_way(&self) -> Result<Option<u64>> {
        let live = self.index.load(words::LIVE);
        for more in [0, live] {
            let behind = self.behind(unit_place(self.end_of_live(more)).0)?;
            if behind.is_held || behind.newest == 0 || behind.used.min(live) > behind.room_before {
                continue;
            }
            if behind.newest < self.index.load(words::SEQUENCE) {
                return Ok(Some(behind.newest));
            }
            // The segment in which the log ends is emptied, too, lest it keeps the file long.
            return self.begin_segment().map(Some);
        }
        Ok(None)
    }

    /// The unit before which all that lives has room, with what is lost at the ends of segments, and so much more.
    fn end_of_live(&self, more: u64) -> u64 {
        let live = self.index.load(words::LIVE);
        let end = live.saturating_add(more).saturating_add(live / 8 + WORTH_ANOTHER);
        unit_of(end).map_or(0, |unit| unit + 2)
    }

    /// Whether the file is longer than the log need be, with what is lost at the ends of segments.
    fn is_long(&self) -> bool {
        let log = self.index.log_bytes();
        self.core.data.len() > log.saturating_add(log / 4).saturating_add(WORTH_ANOTHER)
    }

    /// Whether nearly all of the log lives, but for what is lost at the ends of segments, and the file is not long: to go round
    /// it would first make it twice as long.
    fn is_compact(&self) -> bool {
        self.is_clean() && !self.is_long()
    }

    fn is_clean(&self) -> bool {
        let live = self.index.load(words::LIVE);
        self.index.log_bytes() <= live.saturating_add(live / 8).saturating_add(WORTH_CLEANING)
    }
}
