//! How many keys there are, and the bytes of their records, while others enter some.
//!
//! Two words of the index say so of what the pages lead to. What they do not lead to yet, puts in the ring
//! ([`super::pending`]) or changes of a batch ([`super::entering`]), is looked up one by one and added. That counts only if
//! nothing was entered meanwhile: no record was begun, and none came to its end. Of one that was begun before, and whose
//! writer stands still or is dead, the words may be those of before or after it; its slot says which to take, once.

use super::core::Core;
use super::entering::after_end;
use super::format::words;
use super::index::{Index, State, not_a_record};
use super::newer::Newer;
use super::reader::{ATTEMPTS, Unpinned, too_busy};
use super::record::Kind;
use super::view::{Holds, record};
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::{Ordering, fence};
use std::time::Duration;

/// For how long nothing is entered by who stands still.
const WAIT: Duration = Duration::from_millis(1);

impl Core {
    /// The number of keys, and the bytes of their records.
    pub(crate) fn counts(&self) -> Result<(u64, u64)> {
        let known = |index: &Index| (index.load(words::COUNT), index.load(words::LIVE));
        let mut seen = None;
        for _ in 0..ATTEMPTS {
            let (held, index) = self.index()?;
            let (state, counts) = (index.state(), known(index));
            fence(Ordering::Acquire);
            // Who died may have had a key come or go that he did not count: whoever takes the lock does that.
            let is_known = state.is_settled() && !self.writer_lock().is_of_dead();
            if is_known && index.state() == state {
                return Ok(counts);
            }
            let now = Some((index.header.id, index.load(words::APPLIED)));
            drop(held);
            // Who enters a batch is soon done, unless he stands still: to count what is left takes longer.
            let is_going_on = state.is_busy() && seen != now;
            seen = now;
            if let Some(writer) = self.writer_soon(if is_going_on { WAIT } else { Duration::ZERO })
            {
                return Ok(known(writer.index));
            }
            if !is_going_on && let Some(counts) = self.count_what_waits()? {
                return Ok(counts);
            }
        }
        if self.data.is_writable() { Ok(known(self.writer()?.index)) } else { Err(too_busy()) }
    }

    /// Who may write, if nobody else does for so long.
    fn writer_soon(&self, limit: Duration) -> Option<Writer<'_>> {
        if !self.data.is_writable() {
            std::thread::sleep(limit);
            return None;
        }
        let lock = self.writer_lock();
        let got = if limit.is_zero() { lock.try_lock() } else { lock.lock_within(limit) };
        // On a full disk what waits cannot be entered, but counted.
        self.writer_with(lock, got.ok()??).and_then(Writer::settled).ok()
    }

    /// The number of keys and the bytes of their records; `None` if something was entered meanwhile.
    fn count_what_waits(&self) -> Result<Option<(u64, u64)>> {
        if !self.data.is_writable() {
            return self.without_pin(|index, state| self.count_in(index, &Unpinned, state));
        }
        match (self.pin(), self.current(1)) {
            (Some(pin), Some((index, state))) => self.count_in(index, &pin, state),
            _ => Ok(None),
        }
    }

    /// The same in this index and this state.
    fn count_in(
        &self,
        index: &Index,
        held: &impl Holds,
        state: State,
    ) -> Result<Option<(u64, u64)>> {
        let applied = index.word(words::APPLIED).load(Ordering::Acquire);
        let load = |words: [u64; 2]| words.map(|word| index.load(word));
        let [mut count, mut live] = load([words::COUNT, words::LIVE]);
        let intent_at = index.word(words::INTENT_AT).load(Ordering::Acquire);
        let entered = |key: &[u8]| {
            let found = index.find_in_page(&self.data, held, key, index.state(), index.place(key));
            found.map(|found| found.map(|(at, _)| at))
        };
        let look = |at| record(&self.data, held, at).ok_or_else(|| not_a_record(at));
        let newer = Newer::of(index, &self.data, held, state)?;
        // The next to be entered, if that was begun: what the counts are after it was noted before. It may be entered at any
        // moment: that is looked at once.
        let next = match look(applied) {
            Ok(end) if end.header.kind == Kind::End => after_end(&self.data, applied),
            _ => applied,
        };
        let mut begun = None;
        if next == intent_at && applied != index.load(words::TAIL) {
            let change = look(next)?;
            let found = entered(change.key)?;
            if found == (change.header.kind == Kind::Put).then_some(next) {
                [count, live] = load([words::INTENT_COUNT, words::INTENT_LIVE]);
            }
            begun = Some((change.key, found));
        }
        for at in newer.all().addresses() {
            let change = look(at)?;
            let found = match begun {
                Some((key, found)) if key == change.key => found,
                _ => entered(change.key)?,
            };
            if found == Some(at) {
                continue;
            }
            if let Some(old) = found {
                count = count.wrapping_sub(1);
                live = live.wrapping_sub(look(old)?.header.room());
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
