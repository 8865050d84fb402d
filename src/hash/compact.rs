//! Compaction that was asked for: round the log, piece by piece, and once more where that left the file long.
//!
//! What lives is appended again, behind the log's end. If nearly nothing was garbage the file is twice as long then, with
//! its first half free; so the log goes on there, and what lives goes round a second time. It ends after that, whatever
//! others do meanwhile: where readers, or what waits for the disk, keep the file long, a third time would be of no use
//! either. Where the room before the log is not enough for all that lives the file stays as it is, at most twice as long as
//! that: to fill the room and put the rest behind the end is what the next compaction would undo.

use super::clean::WORTH_CLEANING;
use super::format::{LOG_AT, words};
use super::writer::Writer;
use crate::Result;

/// A file that is longer by an eighth than what lives in it, and this, is gone round twice.
const WORTH_A_SECOND: u64 = LOG_AT + (16 << 10);

/// What a compaction that has begun is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// The last segment that it will empty.
    last: u64,
    is_new: bool,
    is_second: bool,
}

impl Writer<'_> {
    /// Goes on with a compaction, for about `budget` bytes, or begins one; what is left to do.
    pub(crate) fn compact(&self, budget: u64, goal: Option<Goal>) -> Result<Option<Goal>> {
        // One that nobody went on with, and others have passed since, is none.
        let goal = match goal {
            Some(goal) if self.oldest()? <= goal.last => goal,
            _ => Goal { last: self.index.load(words::SEQUENCE), is_new: true, is_second: false },
        };
        if goal.is_new && self.is_compact() {
            return Ok(None);
        }
        let goal = Goal { is_new: false, ..goal };
        let done = self.clean(budget, goal.last)?;
        let is_at_end = self.index.load(words::OLDEST_UNIT) == self.index.load(words::TAIL_UNIT);
        if done >= budget && !is_at_end && self.oldest()? <= goal.last {
            return Ok(Some(goal));
        }
        self.give_back()?;
        // Else most of it would be put behind what there is.
        let live = self.index.load(words::LIVE);
        let has_room =
            || Ok(self.free_before(self.index.load(words::OLDEST_UNIT))? > live - live / 8);
        if goal.is_second || !self.is_long() || !has_room()? {
            return Ok(None);
        }
        Ok(Some(Goal { last: self.begin_segment()?, is_new: false, is_second: true }))
    }

    /// Whether the file is longer than it need be.
    fn is_long(&self) -> bool {
        let live = self.index.load(words::LIVE);
        self.core.data.len() > live.saturating_add(live / 8).saturating_add(WORTH_A_SECOND)
    }

    /// Whether nearly all of the log lives, and the file is not long: to go round it would first make it twice as long.
    fn is_compact(&self) -> bool {
        let live = self.index.load(words::LIVE);
        let most = live.saturating_add(live / 32).saturating_add(WORTH_CLEANING);
        self.index.log_bytes() <= most && !self.is_long()
    }
}
