//! Looking keys up: no lock, and no copy as long as a value is held.
//!
//! A reader pins ([`super::pins`]), so that what it finds stays; takes the newest index; and finds.
//! What the pages do not say yet is looked for first: in the ring ([`super::pending`]), or in the batch that is being
//! entered ([`super::entering`]).
//!
//! Where the file may not be written there can be no pin. Then values are copied, and what was found
//! counts only if nothing was taken out of reach meanwhile; nor is the file cut, see
//! [`crate::os::opening`]. Where all pins are taken values are copied under the writers' lock;
//! who has that already looks as it is.

use super::core::Core;
use super::entering::value_of;
use super::format::{session, words};
use super::index::{Index, State, not_a_page, not_a_record};
use super::iter::copies_of;
use super::page::{Page, address_of};
use super::pins::{Pin, ValuePin, try_pin};
use super::record::{Kind, RecordHeader};
use super::view::{Holds, bytes, record};
use crate::os::atomic::{Ordering, fence};
use crate::os::file::copy_of;
use crate::os::lock::is_own;
use crate::os::memory::memory_bytes;
use crate::os::shared::SharedMap;
use crate::{Error, Result};
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

/// How often a reader looks again that cannot pin.
pub(super) const ATTEMPTS: u32 = 10_000;
/// How long whoever was woken for the lock may take to go on.
const A_MOMENT: Duration = Duration::from_millis(100);
/// So long a batch that nobody knows is waited for before it is looked whether it is over.
const WAIT: Duration = Duration::from_millis(1);

/// A value in the store's memory. As long as it lives the space that it is in is not reused: hold
/// it for as long as you look at it, and copy what you keep. A process that is forked must not look at its parent's, which
/// nothing holds there: it gets its own.
pub struct Value<'s>(Inner<'s>);

enum Inner<'s> {
    Pinned { data: &'s SharedMap, pin: ValuePin<'s>, at: u64, len: u64 },
    Copied(Vec<u8>),
}

impl Deref for Value<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // It was there when it was found, and maps do not shrink below what is pinned.
            Inner::Pinned { data, pin, at, len } => bytes(data, pin, *at, *len).unwrap_or_default(),
            Inner::Copied(value) => value,
        }
    }
}

impl AsRef<[u8]> for Value<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Value").field(&&**self).finish()
    }
}

/// A value that was found.
pub(super) enum Found<'s> {
    Pinned { pin: Pin<'s>, at: u64, len: u64 },
    Copied(Vec<u8>),
}

/// What a reader has without a pin: nothing.
pub(super) struct Unpinned;
impl Holds for Unpinned {}

/// Records of a page between the one that is read and the one that is asked for: all of them at once are more
/// than the processor waits for, and took twice as long.
const AHEAD: usize = 16;

/// How often the slots of a page are read to find them at one time, beside who writes all the time.
const LOOKS: u32 = 4;

impl Core {
    /// The newest index, and its state, when what its pages do not say is known; for so many lookups.
    #[inline(always)]
    pub(super) fn current(&self, lookups: usize) -> Option<(&Index, State)> {
        let index = self.newest.get();
        let state = index.state();
        if !self.is_newest(index) {
            return None;
        }
        (state.is_settled() || self.is_current_unsettled(index, state, lookups))
            .then_some((index, state))
    }

    #[inline(never)]
    fn is_current_unsettled(&self, index: &Index, state: State, lookups: usize) -> bool {
        let is_known = !state.is_busy() || !index.is_over_soon() && index.entering(state).is_some();
        is_known && !self.is_settling_due(lookups)
    }

    /// Sees to it that there will be a current index. Nothing may be pinned by the caller.
    #[cold]
    fn await_current(&self) -> Result<()> {
        let held = self.newest.hold();
        let index = self.newest.get();
        if !self.is_newest(index) {
            drop(held);
            return self.attach();
        }
        let state = index.state();
        if !state.is_busy() || index.entering(state).is_some() {
            if !state.is_settled() && self.data.is_writable() {
                // If somebody is writing, or there is no room to, what waits is found where it is.
                let _ = self.try_writer();
            }
            return Ok(());
        }
        if self.data.is_writable() {
            return self.await_batch();
        }
        if self.is_left_unfinished(index)? {
            // Somebody may just have been woken to finish it.
            let state = index.state();
            std::thread::sleep(A_MOMENT);
            let is_as_it_was = self.is_newest(index) && index.state() == state;
            if is_as_it_was && self.is_left_unfinished(index)? {
                return Err(left_unfinished());
            }
            return Ok(());
        }
        std::thread::yield_now();
        Ok(())
    }

    /// Whoever enters a batch that is not known has the lock, or is dead: then taking the lock finishes it. Or there is none, and
    /// the bit that says so is damage. It is looked again soon: when it is over, who has the lock next may keep it, as for a transaction.
    fn await_batch(&self) -> Result<()> {
        let lock = self.writer_lock();
        match lock.lock_within(WAIT)? {
            Some(got) => self.writer_with(lock, got)?.settled().map(|writer| writer.end_batch()),
            None if lock.is_own() => Err(is_own()),
            None => Ok(()),
        }
    }

    /// A pin; `None` if there can be none, or all are taken.
    #[inline(always)]
    pub(super) fn pin(&self) -> Option<Pin<'_>> {
        let may_pin = self.data.is_writable() && !self.has_moved();
        if may_pin && self.data.has_room_to_read() { try_pin(&self.data) } else { None }
    }

    /// Gives the value of `key` to `f`.
    #[inline(always)]
    pub(crate) fn get_with<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        loop {
            let Some(pin) = self.pin() else {
                return Ok(self.get_copy(key)?.map(|value| f(&value)));
            };
            if let Some((index, state)) = self.current(1) {
                let place = index.place(key);
                let found = index.find(&self.data, &pin, key, state, place)?;
                return Ok(found.map(|(at, value)| {
                    self.used(at);
                    f(value)
                }));
            }
            drop(pin);
            self.await_current()?;
        }
    }

    /// The value of `key`, held in place.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        let found = self.find_pinned(key)?;
        Ok(found.map(|found| match found {
            Found::Copied(value) => Value(Inner::Copied(value)),
            Found::Pinned { pin, at, len } => {
                let pin = ValuePin::new(pin);
                Value(Inner::Pinned { data: &self.data, pin, at, len })
            }
        }))
    }

    /// Where the value of `key` is, and a pin that holds it there; or a copy.
    #[inline(always)]
    pub(super) fn find_pinned(&self, key: &[u8]) -> Result<Option<Found<'_>>> {
        loop {
            let Some(pin) = self.pin() else {
                return Ok(self.get_copy(key)?.map(Found::Copied));
            };
            if let Some((index, state)) = self.current(1) {
                let found = index.find(&self.data, &pin, key, state, index.place(key))?;
                let place = found.map(|(at, value)| {
                    self.used(at);
                    let header = RecordHeader::new(Kind::Put, key, value);
                    (at + header.header_bytes() + key.len() as u64, value.len() as u64)
                });
                return Ok(place.map(|(at, len)| Found::Pinned { pin, at, len }));
            }
            drop(pin);
            self.await_current()?;
        }
    }

    /// The values of many keys.
    pub(crate) fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        loop {
            let Some(pin) = self.pin() else {
                let values = self.copy_many(keys)?;
                values.iter().enumerate().for_each(|(i, value)| f(i, value.as_deref()));
                return Ok(());
            };
            if let Some((index, state)) = self.current(keys.len())
                && let Some(values) = index.find_many(&self.data, &pin, keys, state)?
            {
                values.iter().flatten().for_each(|(at, _)| self.used(*at));
                values.into_iter().enumerate().for_each(|(i, v)| f(i, v.map(|(_, value)| value)));
                return Ok(());
            }
            drop(pin);
            self.await_current()?;
        }
    }

    /// The value of `key`, copied without a pin.
    #[cold]
    fn get_copy(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.without_pin(|index, state| {
            let found = index.find(&self.data, &Unpinned, key, state, index.place(key))?;
            found.map(|(_, value)| copy_of(value)).transpose()
        })
    }

    /// The values of many keys, copied without a pin.
    #[cold]
    fn copy_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        for _ in 0..ATTEMPTS {
            let copied = self.without_pin(|index, state| {
                let values = index.find_many(&self.data, &Unpinned, keys, state)?;
                let copy = |value: Option<(u64, &[u8])>| {
                    value.map(|(_, value)| copy_of(value)).transpose()
                };
                values.map(|values| values.into_iter().map(copy).collect()).transpose()
            })?;
            if let Some(copied) = copied {
                return Ok(copied);
            }
        }
        Err(too_busy())
    }

    /// Does `look` while nobody takes anything out of reach, or until nobody did meanwhile.
    pub(super) fn without_pin<R>(&self, look: impl Fn(&Index, State) -> Result<R>) -> Result<R> {
        if self.data.is_writable() {
            let lock = self.writer_lock();
            if let Some(got) = lock.lock_unless_own()? {
                let writer = self.writer_with(lock, got)?;
                return look(writer.index, writer.index.state());
            }
            // This thread keeps the others out already, by a transaction or in a change.
            let (_held, index) = self.index()?;
            return look(index, index.state());
        }
        for _ in 0..ATTEMPTS {
            let epoch = self.session(session::EPOCH).load(Ordering::Acquire);
            let held = self.newest.hold();
            // A private index has no number that another could have.
            let is_private = self.is_private.load(Ordering::Relaxed);
            let current = match self.current(1) {
                None if is_private && self.is_alone() => {
                    Some((self.newest.get(), self.newest.get().state()))
                }
                current => current,
            };
            let Some((index, state)) = current else {
                drop(held);
                self.await_current()?;
                continue;
            };
            let seen = look(index, state);
            fence(Ordering::Acquire);
            if self.session(session::EPOCH).load(Ordering::Relaxed) == epoch {
                return seen;
            }
        }
        Err(too_busy())
    }
}

/// What a reader says who may not write, and has the store open since before a writer died.
pub(super) fn left_unfinished() -> Error {
    Error::invalid(
        "who wrote to the store died within a change, and nobody has finished that since: open the \
         store again",
    )
}

/// What a reader says without a pin that finds no moment when nobody writes.
pub(super) fn too_busy() -> Error {
    Error::invalid(
        "others write so much that a reader without write permission finds no quiet moment: \
         give it permission to write the store's files",
    )
}

/// The hash of the index that a scan has begun in: places of keys, by which pages are passed, mean nothing
/// in another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hashed(Option<(u32, u64)>);

impl Hashed {
    /// Whether a scan may go on in this index; one that has not begun may anywhere.
    fn check(&mut self, index: &Index) -> Result<()> {
        let hash = (index.header.hash_id, index.header.seed);
        if *self.0.get_or_insert(hash) == hash {
            return Ok(());
        }
        Err(Error::invalid(
            "the index was made anew with another hash while it was scanned: scan the store again from \
             the beginning",
        ))
    }
}

impl Core {
    /// For who is going to read every record, in an order that is not the log's: where all of it fits into memory,
    /// the kernel begins to read it.
    pub(crate) fn expect_scan(&self) {
        if self.data.is_random() {
            let _held = self.newest.hold();
            let both = [&self.newest.get().map, &self.data];
            if both.iter().map(|map| map.len()).sum::<u64>() <= memory_bytes() / 8 * 7 {
                both.iter().for_each(|map| map.will_need(0, map.len()));
            }
        }
    }

    /// Gives the records of one page to `f`: those whose places are not below `from`. Returns where
    /// the next page begins, if there is one. `hashed` is the scan's, new where it begins.
    pub(crate) fn scan_page(
        &self,
        from: u64,
        hashed: &mut Hashed,
        f: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>> {
        loop {
            let Some(pin) = self.pin() else {
                return self.scan_copy_of_page(from, hashed, f);
            };
            if let Some((index, state)) = self.current(1) {
                hashed.check(index)?;
                return self.scan_page_of(index, state, &pin, from, f);
            }
            drop(pin);
            self.await_current()?;
        }
    }

    #[cold]
    fn scan_copy_of_page(
        &self,
        from: u64,
        hashed: &mut Hashed,
        f: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>> {
        let before = *hashed;
        let copy = |index: &Index, state| {
            let mut hashed = before;
            hashed.check(index)?;
            let mut records = Vec::new();
            let mut kept = Ok(());
            let keep = &mut |key: &[u8], value: &[u8]| {
                if kept.is_ok() {
                    kept = copies_of(key, value).map(|copies| records.push(copies));
                }
            };
            let next = self.scan_page_of(index, state, &Unpinned, from, keep)?;
            kept?;
            Ok((records, next, hashed))
        };
        let (records, next, after) = self.without_pin(copy)?;
        *hashed = after;
        records.iter().for_each(|(key, value)| f(key, value));
        Ok(next)
    }

    pub(super) fn scan_page_of(
        &self,
        index: &Index,
        state: State,
        held: &impl Holds,
        from: u64,
        f: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>> {
        // What the pages do not say first, and then the directory that there is by now, as for a lookup.
        let (_, mut looked) = page_at(index, state, from)?;
        let (newer, page, range) = loop {
            let is_here = |range: Range, key| range.has(index.place(key));
            let mut newer =
                index.newer(&self.data, held, state, |_, new| is_here(looked, new.key))?;
            let (page, range) = page_at(index, index.state(), from)?;
            if range.last <= looked.last {
                newer.retain(|key, _| is_here(range, key));
                break (newer, page, range);
            }
            // Two halves are one page again, as a writer died.
            looked = range;
        };
        let (slots, are_at_once) = addresses(index, page)?;
        let mut given = HashSet::new();
        slots.iter().take(AHEAD).for_each(|at| self.data.prefetch(*at));
        for (i, at) in slots.iter().copied().enumerate() {
            if let Some(next) = slots.get(i + AHEAD) {
                self.data.prefetch(*next);
            }
            let found = match record(&self.data, held, at) {
                Some(found) => found,
                None => {
                    self.data.refresh_len()?;
                    record(&self.data, held, at).ok_or_else(|| not_a_record(at))?
                }
            };
            // A page that begins before: it was two when the one before it was given.
            if (range.is_whole || range.has(index.place(found.key)))
                && !newer.contains_key(found.key)
                && (are_at_once || given.insert(found.key))
            {
                f(found.key, found.value);
            }
        }
        for (key, change) in &newer {
            if let Some((_, value)) = value_of(change) {
                f(key, value);
            }
        }
        Ok(range.last.checked_add(1))
    }
}

/// Where the records lie that a page leads to, and whether all of them were there at one time: if not, a key
/// that was removed and stored again meanwhile may be there twice.
fn addresses(index: &Index, page: Page) -> Result<(Vec<u64>, bool)> {
    let mut slots = Vec::with_capacity(page.lines as usize * 8);
    for _ in 0..LOOKS {
        let entered = || (index.word(words::APPLIED).load(Ordering::Acquire), index.state());
        let before = entered();
        slots.clear();
        for number in 0..page.lines {
            let line = index.line(page, number)?.iter();
            let all = line.map(|word| address_of(word.load(Ordering::Acquire)));
            slots.extend(all.filter(|at| *at != 0));
        }
        fence(Ordering::Acquire);
        if entered() == before && !before.1.is_busy() {
            return Ok((slots, true));
        }
    }
    Ok((slots, false))
}

/// Places that a page holds, from one on.
#[derive(Clone, Copy)]
struct Range {
    from: u64,
    last: u64,
    /// Whether that is all that it holds.
    is_whole: bool,
}

impl Range {
    fn has(&self, place: u64) -> bool {
        (self.from..=self.last).contains(&place)
    }
}

/// The page that holds a place, and what it holds from there on. It is no deeper than the directory: so there are no
/// more pages than entries of it.
fn page_at(index: &Index, state: State, from: u64) -> Result<(Page, Range)> {
    let page = index.page(state, from)?;
    if page.lines == 0 || page.depth > state.depth().min(40) {
        return Err(not_a_page(state));
    }
    let behind = u64::MAX >> page.depth;
    let range = Range { from, last: from | behind, is_whole: from & behind == 0 };
    Ok((page, range))
}

#[cfg(test)]
mod tests {
    use crate::hash::Hash;
    use crate::os::atomic::Ordering;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Between the reading of two slots of a page a key may have gone from the one to the other: removed and
    /// stored again. Here it is in both, while somebody enters a batch.
    #[test]
    fn what_has_another_slot_meanwhile_is_given_once() {
        let store = Hash::in_memory().unwrap();
        (0..40_u8).for_each(|i| store.insert(&[i], b"value").unwrap());
        let (core, index) = (store.core(), store.core().newest.get());
        drop(core.writer().unwrap());
        let page = index.page(index.state(), 0).unwrap();
        let of_page = || (0..page.lines).flat_map(|line| index.line(page, line).unwrap());
        let taken = of_page().find(|slot| slot.load(Ordering::Relaxed) != 0).unwrap();
        let free = of_page().find(|slot| slot.load(Ordering::Relaxed) == 0).unwrap();
        let count = || {
            let (mut count, pin) = (0, core.pin().unwrap());
            let next =
                core.scan_page_of(index, index.state(), &pin, 0, &mut |_, _| count += 1).unwrap();
            assert_eq!(next, None);
            count
        };
        assert_eq!(count(), 40);
        free.store(taken.load(Ordering::Relaxed), Ordering::Relaxed);
        assert_eq!(count(), 41, "nobody does anything");
        let state = index.state();
        index.set_state(state.busy());
        assert_eq!(count(), 40);
        index.set_state(state);
        free.store(0, Ordering::Relaxed);
    }

    /// A batch that nobody enters, for the bit that says so was flipped.
    #[test]
    fn who_waits_for_a_batch_of_nobody_goes_on() {
        let store = Hash::in_memory().unwrap();
        store.insert(b"key", b"value").unwrap();
        let index = store.core().newest.get();
        index.set_state(index.state().busy());
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            sender.send(store.get(b"key").unwrap().as_deref().map(<[u8]>::to_vec)).unwrap();
        });
        let found = receiver.recv_timeout(Duration::from_secs(20));
        assert_eq!(found, Ok(Some(b"value".to_vec())));
    }
}
