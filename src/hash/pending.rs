//! Puts that the pages of the index do not know yet.
//!
//! What a put costs is waiting for memory: the line of the index where its key belongs, and the
//! record that it replaces. So a put only appends its record, asks for that line, and leaves a slot
//! in the *ring*, eight words in the index's head. It is entered in its page eight puts later, when
//! what it needs has arrived. (Measured: inserts in three quarters of the time, replacements in
//! half of it.)
//!
//! Invariants. The ring is not empty exactly while the state word says that puts are pending; its
//! slots then lead to the records of the log from `APPLIED` to the end, each of them a put, and no
//! two of them have the same tag. A slot leaves the ring after its page has it: readers look in the
//! ring first, then in the page. A writer that dies leaves all of it to
//! [`Writer::finish_others`], which reads the log; everything else that a writer does begins with
//! [`Writer::settle`].

use super::core::Core;
use super::format::words;
use super::index::{Index, State, find_in_line, not_a_record, record_at};
use super::page::{address_of, candidates, slot};
use super::record::Kind;
use super::view::{Holds, RecordView, key_and_room};
use super::writer::{EMPTY_LINES, Writer, check_sizes};
use crate::Result;
use crate::os::atomic::{AtomicU64, Ordering, fence};
use crate::os::shared::SharedMap;

/// Puts that may wait.
const RING: usize = 8;
/// An index with fewer lines of pages stays in the processor's caches: there is nothing to wait for,
/// and entering at once is faster. Debug builds have all stores use the ring, so that every test of
/// a store is one of it.
const WORTH_WAITING: u64 = if cfg!(debug_assertions) { 0 } else { 4096 };
/// When a put has come so far, what its page leads to is asked for.
const HALF: usize = RING / 2;
/// The tag of a slot in the ring: the first bits of the place.
const TAG_SHIFT: u32 = 64 - 23;
/// After so many lookups that looked in the ring, or in a batch, a reader has what waits entered.
const PATIENCE: u32 = 64;
/// So many more if that failed, as on a full disk.
pub(super) const LONG_PATIENCE: u32 = 1 << 14;

impl Index {
    #[inline(always)]
    fn eight_words(&self, offset: u64) -> &[AtomicU64; RING] {
        let (lines, _) = self.map.head().as_chunks::<RING>();
        &lines[offset as usize / 8 / RING]
    }

    /// The value of a key that waits in the ring, and where its record is.
    #[inline(never)]
    pub(crate) fn find_pending<'h>(
        &self,
        data: &'h SharedMap,
        held: &'h impl Holds,
        key: &[u8],
        place: u64,
    ) -> Result<Option<(u64, &'h [u8])>> {
        let ring = self.eight_words(words::RING);
        let found = find_in_line(data, held, key, ring, place >> TAG_SHIFT)?;
        // The slots were compared without an order: what is not there must be in its page.
        fence(Ordering::Acquire);
        Ok(found)
    }

    /// The puts that wait: each record and its address, one for a key. Such as left the ring
    /// meanwhile may be among them.
    pub(crate) fn pending<'h>(
        &self,
        data: &'h SharedMap,
        held: &'h impl Holds,
        state: State,
    ) -> Result<Vec<(u64, RecordView<'h>)>> {
        let mut waiting: Vec<(u64, RecordView<'h>)> = Vec::new();
        if !state.is_pending() {
            return Ok(waiting);
        }
        for word in self.eight_words(words::RING) {
            let at = address_of(word.load(Ordering::Acquire));
            if at == 0 {
                continue;
            }
            let found = record_at(data, held, at)?;
            waiting.retain(|(_, other)| other.key != found.key);
            waiting.push((at, found));
        }
        Ok(waiting)
    }

    /// Asks for the records that a key's page may lead to.
    #[inline(always)]
    pub(crate) fn prefetch_records(&self, data: &SharedMap, place: u64) -> Result<()> {
        let page = self.page(self.state(), place)?;
        self.probe(page, page.tag(place), |_, slot| {
            data.prefetch(address_of(slot));
            Some(())
        })?;
        Ok(())
    }
}

impl Core {
    /// Whether a reader that meets what the pages do not say should have it entered: not twice for one lookup of
    /// however many keys, for perhaps nobody can.
    #[inline(always)]
    pub(crate) fn is_settling_due(&self, lookups: usize) -> bool {
        let met = self.met_pending.load(Ordering::Relaxed);
        let is_due = met >= LONG_PATIENCE + PATIENCE && self.data.is_writable();
        let met = if is_due { LONG_PATIENCE } else { met.saturating_add(lookups as u32) };
        self.met_pending.store(met, Ordering::Relaxed);
        is_due
    }
}

impl Writer<'_> {
    /// Gives the key the value; the index learns of it later if that is worth it.
    #[inline(always)]
    pub(crate) fn put_soon(&self, key: &[u8], value: &[u8]) -> Result<()> {
        // Where there is a limit what lives must be known to the byte.
        let is_worth_it =
            self.index.load(words::PAGE_LINES) > WORTH_WAITING && self.core.header.limit == 0;
        if is_worth_it && self.has_room_to_settle() {
            match self.put_later(key, value) {
                // Garbage may be cleaned for it, see there.
                Err(error) if error.is_no_room() => {}
                done => return done,
            }
        }
        self.settle()?;
        self.put(key, value).map(drop)
    }

    /// Whether the index file has room for what the ring may hold: what was promised to a put that
    /// waits must not fail on a full disk.
    #[inline(always)]
    fn has_room_to_settle(&self) -> bool {
        // A page grows by half, or to two with 80 lines; the directory may double.
        let pages = self.index.load(words::PAGE_LINES).min(RING as u64 * 82);
        let growing = 2 * pages + 16 + EMPTY_LINES;
        let directory = self.index.state().entries() / 4 + 2;
        let end = self.index.load(words::BUMP).saturating_add(growing + directory);
        self.reserve_index(end).is_ok()
    }

    #[inline(always)]
    fn put_later(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, value)?;
        self.note_put()?;
        self.pay_first()?;
        let place = self.index.place(key);
        self.index.prefetch(place);
        let ring = self.index.eight_words(words::RING);
        let places = self.index.eight_words(words::RING_PLACES);
        let tag = place >> TAG_SHIFT;
        if self.index.state().is_pending() && self.has_pending(tag) {
            // Perhaps the same key.
            self.settle()?;
        }
        let next = self.index.load(words::RING_NEXT) as usize % RING;
        if ring[next].load(Ordering::Relaxed) != 0 {
            self.enter_pending(next)?;
        }
        let half = (next + HALF) % RING;
        if ring[half].load(Ordering::Relaxed) != 0 {
            let place = places[half].load(Ordering::Relaxed);
            self.index.prefetch_records(&self.core.data, place)?;
        }
        let mut cursor = self.cursor();
        let at = self.append(&mut cursor, Kind::Put, key, value).inspect_err(|_| self.give_up())?;
        self.publish(&cursor);
        places[next].store(place, Ordering::Relaxed);
        ring[next].store(slot(tag, at), Ordering::Release);
        self.index.store(words::RING_NEXT, (next + 1) as u64);
        let state = self.index.state();
        if !state.is_pending() {
            self.index.set_state(state.pending());
        }
        self.made_garbage(0);
        Ok(())
    }

    /// Whether a put whose place begins so waits.
    fn has_pending(&self, tag: u64) -> bool {
        let ring = self.index.eight_words(words::RING);
        let mask = candidates(ring, tag);
        // Those that are empty look like tag zero.
        mask != 0 && (0..RING).any(|i| mask >> i & 1 == 1 && ring[i].load(Ordering::Relaxed) != 0)
    }

    /// Enters the oldest of the puts that wait.
    #[inline(always)]
    fn enter_pending(&self, i: usize) -> Result<()> {
        let word = &self.index.eight_words(words::RING)[i];
        let place = self.index.eight_words(words::RING_PLACES)[i].load(Ordering::Relaxed);
        let at = address_of(word.load(Ordering::Relaxed));
        let new = key_and_room(&self.core.data, self, at);
        let (key, room) = new.ok_or_else(|| not_a_record(at))?;
        let page = self.index.page(self.index.state(), place)?;
        let old = self.index.locate_in_page(&self.core.data, self, key, page, place)?;
        let slot = match old {
            Some(found) if address_of(found.slot) == at => return self.was_entered(word, at, room),
            Some(found) => found,
            None => self.slot_in_page(page, place)?,
        };
        let (count, live) = self.counts_after_put(slot, room);
        self.note_intent(at, count, live);
        slot.lead_to(at);
        self.counted(count, live, at + room);
        word.store(0, Ordering::Release);
        self.mark_replaced(slot);
        let debt = self.index.load(words::DEBT).saturating_add(slot.room);
        self.index.store(words::DEBT, debt);
        Ok(())
    }

    /// Takes a put out of the ring that somebody had entered who came no further: the record that its slot
    /// leads to is no older one, to be marked as replaced.
    #[cold]
    fn was_entered(&self, word: &AtomicU64, at: u64, room: u64) -> Result<()> {
        if self.index.load(words::INTENT_AT) == at {
            let load = |word| self.index.load(word);
            self.counted(load(words::INTENT_COUNT), load(words::INTENT_LIVE), at + room);
        }
        word.store(0, Ordering::Release);
        Ok(())
    }

    /// Has the index know everything.
    #[inline(always)]
    pub(crate) fn settle(&self) -> Result<()> {
        if self.index.state().is_pending() { self.settle_now() } else { Ok(()) }
    }

    #[inline(never)]
    fn settle_now(&self) -> Result<()> {
        let ring = self.index.eight_words(words::RING);
        let places = self.index.eight_words(words::RING_PLACES);
        let next = self.index.load(words::RING_NEXT) as usize;
        let waiting = (0..RING).map(|i| next.wrapping_add(i) % RING);
        let waiting = waiting.filter(|i| ring[*i].load(Ordering::Relaxed) != 0);
        for i in waiting.clone() {
            let place = places[i].load(Ordering::Relaxed);
            self.index.prefetch_records(&self.core.data, place)?;
        }
        for i in waiting {
            self.enter_pending(i)?;
        }
        self.index.set_state(self.index.state().settled());
        Ok(())
    }

    /// Where in the ring something is, from the oldest on, and the addresses of the records.
    pub(super) fn ring(&self) -> Vec<(usize, u64)> {
        let ring = self.index.eight_words(words::RING);
        let next = self.index.load(words::RING_NEXT) as usize;
        let all = (0..RING).map(|i| next.wrapping_add(i) % RING);
        let used = all.map(|i| (i, ring[i].load(Ordering::Relaxed))).filter(|(_, slot)| *slot != 0);
        used.map(|(i, slot)| (i, address_of(slot))).collect()
    }

    /// Whether slot `i` of the ring is one of a put of this key.
    pub(super) fn is_in_ring(&self, i: usize, key: &[u8]) -> bool {
        let place = self.index.place(key);
        let word = self.index.eight_words(words::RING)[i % RING].load(Ordering::Relaxed);
        word == slot(place >> TAG_SHIFT, address_of(word))
            && self.index.eight_words(words::RING_PLACES)[i % RING].load(Ordering::Relaxed) == place
    }

    /// Forgets what waits, when the index has learnt of it from the log.
    pub(crate) fn empty_ring(&self) {
        let ring = self.index.eight_words(words::RING);
        ring.iter().for_each(|word| word.store(0, Ordering::Release));
        self.index.set_state(self.index.state().settled());
    }
}

#[cfg(test)]
mod tests {
    use super::RING;
    use crate::hash::Hash;
    use crate::hash::pass::Pass;
    use crate::hash::pins::try_pin;
    use std::collections::VecDeque;
    use std::sync::mpsc;
    use std::time::Duration;

    fn key(i: u64) -> Vec<u8> {
        format!("key {i}").into_bytes()
    }

    /// A reader that is interrupted after it has loaded the state word: meanwhile what waited is
    /// entered in a page of a larger directory, which that state does not lead to.
    #[test]
    fn what_leaves_the_ring_under_a_reader_is_found() {
        let store = Hash::in_memory().unwrap();
        let core = store.core();
        let pin = try_pin(&core.data).unwrap();
        let index = core.newest.get();
        let mut seen = VecDeque::new();
        for i in 0..20_000u64 {
            let value = i.to_le_bytes();
            store.insert(&key(i % 15_000), &value).unwrap();
            seen.push_back((i, index.state()));
            let Some((i, state)) = seen.pop_front_if(|(first, _)| i - *first > 2 * RING as u64)
            else {
                continue;
            };
            let (key, value) = (key(i % 15_000), i.to_le_bytes());
            let place = index.place(&key);
            let found = index.find(&core.data, &pin, &key, state, place).unwrap();
            assert_eq!(found.map(|(_, value)| value), Some(&value[..]), "number {i}");
            let mut given = Vec::new();
            let mut keep = |found: &[u8], value: &[u8]| {
                if found == key {
                    given.push(value.to_vec());
                }
            };
            core.scan_page_of(index, state, &pin, &mut Pass::default(), place, &mut keep).unwrap();
            assert_eq!(given, [value], "number {i}, scanned");
        }
    }

    /// Somebody stands still who may write, and puts wait: nobody can enter them.
    #[test]
    fn who_looks_many_keys_up_waits_for_no_writer() {
        let store = Hash::in_memory().unwrap();
        let keys: Vec<_> = (0..100).map(key).collect();
        for key in (100..200 + 8 * super::WORTH_WAITING).map(key).chain(keys.iter().cloned()) {
            store.insert(&key, b"value").unwrap();
        }
        let writer = store.core().writer_unsettled().unwrap();
        assert!(writer.index.state().is_pending());
        let (sender, receiver) = mpsc::channel();
        let reader = store.clone();
        std::thread::spawn(move || {
            for _ in 0..10 {
                let mut count = 0;
                reader.get_many(&keys, |_, value| count += usize::from(value.is_some())).unwrap();
                sender.send(count).unwrap();
            }
        });
        for _ in 0..10 {
            assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(100));
        }
    }
}
