//! Compaction that was asked for: round the log, piece by piece, and once or twice more where that left the file long.
//!
//! What lives is appended again, behind the log's end. If nearly nothing was garbage the file is twice as long then, with
//! its first half free; so the log goes on there, and what lives goes round a second time. It ends soon after that,
//! whatever others do meanwhile: where readers, or what waits for the disk, keep the file long, more would be of no use
//! either. Where the room before the log is not enough for all that lives the file stays as it is, at most some two and a
//! half times as long as that: to fill the room and put the rest behind the end is what the next compaction would undo.

use super::clean::WORTH_CLEANING;
use super::format::{LOG_AT, words};
use super::writer::Writer;
use crate::Result;

/// A file that is longer by a quarter than the log, and this, is gone round once more.
const WORTH_ANOTHER: u64 = LOG_AT + (16 << 10);
/// So often at most: a second time, as the last segment may have found no other place than behind the end.
const MOST_ROUNDS: u32 = 2;

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
        let done = self.clean(budget, goal.last)?;
        let is_at_end = self.index.load(words::OLDEST_UNIT) == self.index.load(words::TAIL_UNIT);
        if done >= budget && !is_at_end && self.oldest()? <= goal.last {
            return Ok(Some(goal));
        }
        self.give_back()?;
        if goal.rounds == MOST_ROUNDS || !self.is_long() || !self.has_room()? {
            return Ok(None);
        }
        Ok(Some(Goal { last: self.begin_segment()?, rounds: goal.rounds + 1, ..goal }))
    }

    /// What a compaction is to do that begins now; `None` if there is nothing.
    fn begin_compaction(&self, is_again: bool) -> Result<Option<Goal>> {
        if self.is_compact() {
            return Ok(None);
        }
        let last = if self.is_long() && self.has_room()? {
            // The segment in which the log ends is emptied, too, lest it keeps the file long.
            self.begin_segment()?
        } else {
            self.index.load(words::SEQUENCE)
        };
        Ok(Some(Goal { last, is_again, rounds: 0 }))
    }

    /// Whether there is room for nearly all of the log before its end: else most of it would be put behind what there is.
    fn has_room(&self) -> Result<bool> {
        let log = self.index.log_bytes();
        Ok(self.free_before(self.index.load(words::TAIL_UNIT))? > log - log / 8)
    }

    /// Whether the file is longer than the log need be, with what is lost at the ends of segments.
    fn is_long(&self) -> bool {
        let log = self.index.log_bytes();
        self.core.data.len() > log.saturating_add(log / 4).saturating_add(WORTH_ANOTHER)
    }

    /// Whether nearly all of the log lives, but for what is lost at the ends of segments, and the file is not long: to go round
    /// it would first make it twice as long.
    fn is_compact(&self) -> bool {
        let live = self.index.load(words::LIVE);
        let most = live.saturating_add(live / 8).saturating_add(WORTH_CLEANING);
        self.index.log_bytes() <= most && !self.is_long()
    }
}
