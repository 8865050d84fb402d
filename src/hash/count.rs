//! How many keys there are, and the bytes of their records, while others enter some.
//!
//! Two words of the index say so of what the pages lead to. What they do not lead to yet, puts in the ring
//! ([`super::pending`]) or changes of a batch ([`super::entering`]), is looked up one by one and added. That counts only if
//! nothing was entered meanwhile: no record was begun, and none came to its end. Of one that was begun before, and whose
//! writer stands still or is dead, the words may be those of before or after it; its slot says which to take, once.

use super::core::Core;
use super::entering::after_end;
use super::format::words;
use super::index::{Index, State};
use super::reader::{ATTEMPTS, Unpinned, too_busy};
use super::record::Kind;
use super::view::{Holds, record};
use crate::Result;
use crate::os::atomic::{Ordering, fence};

/// How often it is looked for a moment when nothing is entered, before the lock is waited for.
const TRIES: u32 = 4;

impl Core {
    /// The number of keys, and the bytes of their records.
    pub(crate) fn counts(&self) -> Result<(u64, u64)> {
        let known = |index: &Index| (index.load(words::COUNT), index.load(words::LIVE));
        let (held, index) = self.index()?;
        let (state, counts) = (index.state(), known(index));
        fence(Ordering::Acquire);
        if state.is_settled() && index.state() == state {
            return Ok(counts);
        }
        drop(held);
        if !self.data.is_writable() {
            for _ in 0..ATTEMPTS {
                let counted =
                    self.without_pin(|index, state| self.count_waiting(index, &Unpinned, state));
                if let Some(counts) = counted? {
                    return Ok(counts);
                }
            }
            return Err(too_busy());
        }
        // Who writes, or died, is waited for only if there is no moment when he enters nothing.
        for _ in 0..TRIES {
            if let Ok(Some(writer)) = self.try_writer() {
                return Ok(known(writer.index));
            }
            if let Some(pin) = self.pin()
                && let Some((index, state)) = self.current(1)
                && let Some(counts) = self.count_waiting(index, &pin, state)?
            {
                return Ok(counts);
            }
        }
        Ok(known(self.writer()?.index))
    }

    /// The number of keys and the bytes of their records, those among them that the pages do not say yet; `None` if one was
    /// entered meanwhile: it may have been counted twice, or not at all.
    fn count_waiting(
        &self,
        index: &Index,
        held: &impl Holds,
        state: State,
    ) -> Result<Option<(u64, u64)>> {
        let applied = index.word(words::APPLIED).load(Ordering::Acquire);
        let load = |words: [u64; 2]| words.map(|word| index.load(word));
        let [mut count, mut live] = load([words::COUNT, words::LIVE]);
        // The next to be entered, if that was begun: what the counts are after it was noted before.
        let next = match record(&self.data, held, applied) {
            Some(end) if end.header.kind == Kind::End => after_end(&self.data, applied),
            _ => applied,
        };
        let intent_at = index.word(words::INTENT_AT).load(Ordering::Acquire);
        let mut begun = None;
        let newer = index.newer(&self.data, held, state, |at, change| {
            begun = if at == next && at == intent_at { Some(*change) } else { begun };
            true
        })?;
        let entered = |key: &[u8]| {
            let found = index.find_in_page(&self.data, held, key, index.state(), index.place(key));
            found.map(|found| found.map(|(at, _)| at))
        };
        // It may be entered at any moment: that is looked at once.
        let begun = begun.map(|change| Ok((change, entered(change.key)?))).transpose()?;
        if let Some((change, found)) = &begun
            && *found == (change.header.kind == Kind::Put).then_some(next)
        {
            [count, live] = load([words::INTENT_COUNT, words::INTENT_LIVE]);
        }
        for (key, (at, change)) in &newer {
            let found = match &begun {
                Some((begun, found)) if begun.key == *key => *found,
                _ => entered(key)?,
            };
            if found == Some(*at) {
                continue;
            }
            if let Some(old) = found {
                let old = record(&self.data, held, old);
                count = count.wrapping_sub(1);
                live = live.wrapping_sub(old.map_or(0, |old| old.header.room()));
            }
            if change.header.kind == Kind::Put {
                count = count.wrapping_add(1);
                live = live.wrapping_add(change.header.room());
            }
        }
        fence(Ordering::Acquire);
        let is_of_one_time = index.load(words::APPLIED) == applied
            && index.load(words::INTENT_AT) == intent_at
            && index.state() == state;
        Ok(is_of_one_time.then_some((count, live)))
    }
}
