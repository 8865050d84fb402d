//! Every record, a page of the index at a time.
//!
//! Pages are passed in the order of places; between two of them nothing is held. So others write meanwhile, split pages, and
//! make the index anew: where it has the same hash places mean the same in it.

use super::core::Core;
use super::format::words;
use super::index::{Index, State, not_a_page, record_at};
use super::iter::copies_of;
use super::newer::Newer;
use super::page::{Page, address_of};
use super::pins::note_time;
use super::reader::Unpinned;
use super::record::Kind;
use super::view::Holds;
use crate::os::atomic::{Ordering, fence};
use crate::os::memory::memory_bytes;
use crate::{Error, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// Records of a page between the one that is read and the one that is asked for: all of them at once are more
/// than the processor waits for, and took twice as long.
const AHEAD: usize = 16;

/// How often the slots of a page are read to find them at one time, beside who writes all the time.
const LOOKS: u32 = 4;

/// What one who passes all pages has in mind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    /// The hash of the index that it has begun in: places of keys, by which pages are passed, mean nothing in another.
    hash: Option<(u32, u64)>,
    /// The changes of a batch that is being entered, and in which index and state they are: listed once for all pages.
    listed: Option<(u64, State, Arc<Newer>)>,
}

impl Pass {
    /// An error if it cannot go on in this index.
    fn check(&mut self, index: &Index) -> Result<()> {
        let hash = (index.header.hash_id, index.header.seed);
        if *self.hash.get_or_insert(hash) == hash {
            return Ok(());
        }
        Err(Error::invalid(
            "the index was made anew with another hash while it was scanned: scan the store again from \
             the beginning",
        ))
    }

    /// What the pages do not say in this state.
    fn newer(
        &mut self,
        core: &Core,
        index: &Index,
        state: State,
        held: &impl Holds,
    ) -> Result<Arc<Newer>> {
        if let Some((id, of, newer)) = &self.listed
            && (*id, *of) == (index.header.id, state)
        {
            return Ok(Arc::clone(newer));
        }
        let newer = Arc::new(Newer::of(index, &core.data, held, state)?);
        self.listed = state.is_busy().then(|| (index.header.id, state, Arc::clone(&newer)));
        Ok(newer)
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
    /// the next page begins, if there is one. `pass` is the scan's, new where it begins.
    pub(crate) fn scan_page(
        &self,
        from: u64,
        pass: &mut Pass,
        f: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>> {
        loop {
            let Some(pin) = self.pin() else {
                return self.scan_copy_of_page(from, pass, f);
            };
            if let Some((index, state)) = self.current(1) {
                pass.check(index)?;
                // What `f` does may take long.
                note_time(&pin);
                return self.scan_page_of(index, state, &pin, pass, from, f);
            }
            drop(pin);
            self.await_current()?;
        }
    }

    #[cold]
    fn scan_copy_of_page(
        &self,
        from: u64,
        pass: &mut Pass,
        f: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>> {
        let before = pass.clone();
        let copy = |index: &Index, state| {
            let mut pass = before.clone();
            pass.check(index)?;
            let mut records = Vec::new();
            let mut kept = Ok(());
            let keep = &mut |key: &[u8], value: &[u8]| {
                if kept.is_ok() {
                    kept = copies_of(key, value).map(|copies| records.push(copies));
                }
            };
            let next = self.scan_page_of(index, state, &Unpinned, &mut pass, from, keep)?;
            kept?;
            Ok((records, next, pass))
        };
        let (records, next, after) = self.without_pin(copy)?;
        *pass = after;
        records.iter().for_each(|(key, value)| f(key, value));
        Ok(next)
    }

    pub(super) fn scan_page_of(
        &self,
        index: &Index,
        state: State,
        held: &impl Holds,
        pass: &mut Pass,
        from: u64,
        f: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>> {
        // What the pages do not say first, and then the directory that there is by now, as for a lookup.
        let newer = pass.newer(self, index, state, held)?;
        let (page, range) = page_at(index, index.state(), from)?;
        let newer = newer.within(range.from, range.last);
        let (slots, are_at_once) = addresses(index, page)?;
        let mut given = HashSet::new();
        slots.iter().take(AHEAD).for_each(|at| self.data.prefetch(*at));
        for (i, at) in slots.iter().copied().enumerate() {
            if let Some(next) = slots.get(i + AHEAD) {
                self.data.prefetch(*next);
            }
            let found = record_at(&self.data, held, at)?;
            // A page that begins before: it was two when the one before it was given.
            let is_in = |place| (range.from..=range.last).contains(&place);
            if (range.is_whole || is_in(index.place(found.key)))
                && !newer.has(index, (&self.data, held), found.key)
                && (are_at_once || given.insert(found.key))
            {
                f(found.key, found.value);
            }
        }
        for at in newer.addresses() {
            let found = record_at(&self.data, held, at)?;
            if found.header.kind == Kind::Put {
                f(found.key, found.value);
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
struct Range {
    from: u64,
    last: u64,
    /// Whether that is all that it holds.
    is_whole: bool,
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
    use super::Pass;
    use crate::hash::Hash;
    use crate::os::atomic::Ordering;

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
            let next = core
                .scan_page_of(index, index.state(), &pin, &mut Pass::default(), 0, &mut |_, _| {
                    count += 1
                })
                .unwrap();
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
}
