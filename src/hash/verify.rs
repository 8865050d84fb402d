//! Checking every byte of a store that means something.
//!
//! The log is read from its oldest segment on and an index is made from it, in memory: that checks
//! every record. Then the store's own index must say the same.

use super::core::Core;
use super::format::{HEADER_BYTES, Header, IndexHeader, words};
use super::handle::Hash;
use super::index::{Index, State, damaged, not_a_record};
use super::newer::Newer;
use super::page::{OVERFLOW, address_of};
use super::reader::{left_unfinished, too_busy};
use super::rebuild::{Log, damaged_data};
use super::record::Kind;
use super::scan::{Place, Span};
use super::view::{Holds, is_marked_dead, record};
use super::writer::Writer;
use crate::Result;
use crate::magic::{COPY_END, check_copy};
use crate::os::atomic::{AtomicU64, Ordering, fence};
use crate::os::file::read_head;
use crate::os::shared::memory_file;
use std::collections::HashSet;
use std::marker::PhantomData;

/// How often a verification begins anew that cannot keep others from writing.
const QUIET_MOMENTS: u32 = 3;

impl Hash {
    /// Checks every record of the log, and that the index leads to each of them that lives and to
    /// nothing else. Writers wait meanwhile, readers do not. `progress` is called with bytes done
    /// and bytes to do.
    ///
    /// # Errors
    /// The store is damaged: the error names the file, the place, and what to do. Or this thread has a transaction, or
    /// others wrote for longer than [`OpenOptions::lock_timeout`](super::OpenOptions::lock_timeout).
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        self.core().verify(&mut progress).map_err(|e| self.named(e))
    }

    /// Checks every record of the log, and not whether the index leads to them: nobody waits for it, unless all 64 readers
    /// hold values, and it takes less time than [`Hash::verify`]. It begins when the change or transaction of another that
    /// is going on is over. For whoever is about to read all of a store that he cannot read again. `progress` is called with bytes
    /// done and bytes to do.
    ///
    /// # Errors
    /// The store is damaged: the error names the file, the place, and what to do. Or others wrote for longer than
    /// [`OpenOptions::lock_timeout`](super::OpenOptions::lock_timeout).
    pub fn verify_records(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        let core = self.core();
        let done = core.with_log(|held, log| core.check_log(&held, log, &mut progress));
        done.map_err(|e| self.named(e))
    }
}

/// The log at one moment.
#[derive(Debug)]
pub(crate) struct LogNow {
    /// Its segments in their order.
    pub segments: Vec<Span>,
    /// Where it ends in the last of them.
    pub end: u64,
    /// How many keys there are by it; `None` where others are too quick for who may not write.
    pub keys: Option<u64>,
}

impl Core {
    /// Checks every record of a log that is held.
    pub(super) fn check_log(
        &self,
        held: &impl Holds,
        LogNow { segments, end, .. }: &LogNow,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        const STEP: u64 = 1 << 20;
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return Ok(()) };
        let ends = |segment: &Span| if segment.unit == last.unit { *end } else { segment.end() };
        let bytes = segments.iter().map(|segment| ends(segment) - segment.first());
        let total = bytes.fold(0, u64::saturating_add);
        let (mut done, mut told) = (0u64, 0);
        Place::first_of(*first).walk_to(self, held, (last.sequence, *end), |bytes| {
            done = done.saturating_add(bytes);
            if done - told >= STEP {
                told = done;
                progress(done.min(total), total);
            }
        })?;
        progress(total, total);
        Ok(())
    }
}

impl Core {
    /// Whether the header is whole, and the copy of it, without which a damaged one is the end of the store.
    fn check_head(&self) -> Result<()> {
        let head = read_head(self.data.file(), self.data.refresh_len()?, COPY_END)?;
        Header::decode(&head)?;
        check_copy::<HEADER_BYTES>(&head)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.check_head()?;
        if self.data.is_writable() {
            return self.changer()?.verify(progress);
        }
        // Nobody can be kept from writing: what is found counts if nobody has.
        for _ in 0..QUIET_MOMENTS {
            let (_held, index) = self.index()?;
            let seen = self.seen_with(index);
            let found =
                Writer { core: self, index, lock: None, _here: PhantomData }.verify(progress);
            fence(Ordering::Acquire);
            // Also somebody who writes and was stopped; asked before what he may have changed.
            let is_written = self.writer_lock().is_taken();
            fence(Ordering::Acquire);
            let is_still = self.seen_with(index) == seen;
            if is_still && (found.is_ok() || !is_written) {
                return found;
            }
        }
        let (_held, index) = self.index()?;
        Err(if self.is_left_unfinished(index)? { left_unfinished() } else { too_busy() })
    }
}

impl Writer<'_> {
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let total = self.core.data.refresh_len()?;
        progress(0, 2 * total);
        let IndexHeader { hash_id, seed, .. } = self.index.header;
        let made = Index::create(memory_file()?, 1 << 35, self.core.header, hash_id, seed)?;
        let maker = Writer { core: self.core, index: &made, lock: None, _here: PhantomData };
        let rebuilt = maker.rebuild(Log::Until(self.index.load(words::TAIL)));
        rebuilt.map_err(|e| e.known_to_be(false))?;
        progress(total, 2 * total);
        if made.load(words::TAIL) != self.index.load(words::TAIL) {
            let at = made.load(words::TAIL);
            return Err(damaged_data(at, "the log ends here, before its end".into()));
        }
        self.verify_index(&made).map_err(|e| e.known_to_be(true))?;
        progress(2 * total, 2 * total);
        Ok(())
    }

    /// Whether the index says what the one says that was made from the log, which is whole.
    fn verify_index(&self, made: &Index) -> Result<()> {
        let waiting = self.waiting(self.index.state())?;
        let counts =
            [(words::COUNT, waiting.records, "records"), (words::LIVE, waiting.bytes, "bytes")];
        for (word, more, what) in counts {
            let (said, found) = (self.index.load(word).wrapping_add(more), made.load(word));
            if said != found {
                let what = format!("the index counts {said} {what} where the log has {found}");
                return Err(damaged(word, &what));
            }
        }
        self.compare(made, &waiting)
    }

    /// Whether the index leads to what the one made from the log leads to.
    fn compare(&self, made: &Index, waiting: &Waiting) -> Result<()> {
        let mut count = 0;
        self.index.each_page(self.index.state(), |page| {
            for number in 0..page.lines {
                for word in self.index.line(page, number)? {
                    let slot = word.load(Ordering::Acquire) & !OVERFLOW;
                    if slot != 0 {
                        self.check_slot(word, made, waiting, page.line_at(number))?;
                        count += 1;
                    }
                }
            }
            Ok(())
        })?;
        if count == self.index.load(words::COUNT) {
            return Ok(());
        }
        Err(damaged(words::COUNT, "the index's pages do not hold as many records as it counts"))
    }

    /// What is to be added to the index's counts, and which of its records do not count.
    fn waiting(&self, state: State) -> Result<Waiting> {
        let mut waiting = Waiting::default();
        for at in Newer::of(self.index, &self.core.data, self, state)?.all().addresses() {
            let new = record(&self.core.data, self, at).ok_or_else(|| not_a_record(at))?;
            let place = self.index.place(new.key);
            let old = self.index.locate(&self.core.data, self, new.key, place)?;
            if let Some(old) = old {
                if address_of(old.slot) == at {
                    continue;
                }
                waiting.records = waiting.records.wrapping_sub(1);
                waiting.bytes = waiting.bytes.wrapping_sub(old.room);
                waiting.replaced.insert(address_of(old.slot));
            }
            if new.header.kind == Kind::Put {
                waiting.records = waiting.records.wrapping_add(1);
                waiting.bytes = waiting.bytes.wrapping_add(new.header.room());
            }
        }
        Ok(waiting)
    }

    fn check_slot(&self, word: &AtomicU64, made: &Index, waiting: &Waiting, at: u64) -> Result<()> {
        let address = address_of(word.load(Ordering::Acquire));
        let found = record(&self.core.data, self, address);
        let found = found.ok_or_else(|| damaged(at, "the index leads to what is no record"))?;
        // What is marked in a log that has lost its index, as a copy, says nothing any more.
        let is_of_log = self.core.is_private.load(Ordering::Relaxed);
        if !is_of_log && is_marked_dead(&self.core.data, address) {
            return Err(damaged_data(address, "a record that lives is marked as replaced".into()));
        }
        let place = self.index.place(found.key);
        // Found, and in this very slot: another may lead to the same record.
        let slot = self.index.locate_address(place, address)?;
        if !slot.is_some_and(|other| std::ptr::eq(other.word, word)) {
            return Err(damaged(at, "a slot where its key is not looked for"));
        }
        if made.locate_address(made.place(found.key), address)?.is_none()
            && !waiting.replaced.contains(&address)
        {
            return Err(damaged(at, "the index leads to a record that was replaced"));
        }
        Ok(())
    }
}

/// What waits in the ring, or in a batch, changes: records and bytes that come, and the records that go.
#[derive(Default)]
struct Waiting {
    records: u64,
    bytes: u64,
    replaced: HashSet<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;

    /// The log is whole: what does not fit it can be made again from it.
    #[test]
    fn damage_of_the_index_is_told_as_that() {
        let store = Hash::in_memory().unwrap();
        store.insert(b"key", b"value").unwrap();
        store.remove(b"none").unwrap();
        let index = store.core().newest.get();
        let page = index.page(index.state(), index.place(b"key")).unwrap();
        let words = (0..page.lines).flat_map(|number| index.line(page, number).unwrap());
        let slot = words.into_iter().find(|word| word.load(Ordering::Relaxed) & !OVERFLOW != 0);
        let slot = slot.expect("the slot of the key");
        let whole = slot.fetch_xor(8, Ordering::Relaxed);
        let error = store.verify(|_, _| ()).unwrap_err().to_string();
        assert!(
            error.contains("its index is damaged") && error.contains("remove the file"),
            "{error}"
        );
        slot.store(whole, Ordering::Relaxed);
        store.verify(|_, _| ()).unwrap();
    }
}
