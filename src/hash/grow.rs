//! How the index grows: a page that is full is copied to a larger one, or to two.
//!
//! One page at a time, a few microseconds each: the directory doubles now and then, which copies
//! eight bytes for every 500 records. After six splits the tags of a page's keys are made anew from its records, when it
//! grows next, which takes up to 50 us. Nothing is changed where readers look: a new page is filled
//! first, then named in the directory.

use super::format::words;
use super::index::{Located, State, not_a_page, not_a_record};
use super::page::{
    Filling, OVERFLOW, Page, REACH, SIZES, SLOTS, address_of, empty, size_for, slot, tag_of,
};
use super::view::record;
use super::writer::Writer;
use crate::os::atomic::Ordering;
use crate::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A directory this deep has a page for every two records of a store, or there is something wrong
/// with their hashes.
pub(super) const MAX_DEPTH: u32 = 30;
/// Below this depth a directory costs nothing.
const FREE_DEPTH: u32 = 12;

/// A page takes so many entries further away than the others before it grows: one for every so
/// many lines.
const FAR_PART: u64 = 1;
const FAR_REACH: u64 = 8;

/// What became of a page that was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grown {
    /// There is more room.
    Done,
    /// Its keys cannot be told apart by their hashes: another hash must be taken.
    Skewed,
}

impl Writer<'_> {
    /// A free slot for a place, within reach of the line where it belongs.
    #[inline(always)]
    pub(crate) fn free_slot(&self, place: u64, reach: u64) -> Result<Option<Located<'_>>> {
        self.free_slot_in(self.index.page(self.index.state(), place)?, place, reach)
    }

    /// The same, in the page that holds the place.
    #[inline(always)]
    fn free_slot_in(&self, page: Page, place: u64, reach: u64) -> Result<Option<Located<'_>>> {
        if !self.index.has_block(page.block, page.lines) {
            return Err(not_a_page(self.index.state()));
        }
        let tag = page.tag(place);
        let mut number = page.line(tag);
        for _ in 0..=reach.min(page.lines.saturating_sub(1)) {
            let line = self.index.line(page, number)?;
            let mut mask = empty(line);
            while mask != 0 {
                let word = &line[mask.trailing_zeros() as usize & 7];
                let found = word.load(Ordering::Relaxed);
                if found & !OVERFLOW == 0 {
                    return Ok(Some(Located { word, slot: slot(tag, 0) | found, room: 0 }));
                }
                mask &= mask - 1;
            }
            // Set before anything goes to the next line.
            line[0].store(line[0].load(Ordering::Relaxed) | OVERFLOW, Ordering::Release);
            number = page.next_line(number);
        }
        Ok(None)
    }

    /// A free slot for a place, making room if there is none.
    pub(crate) fn slot_for(&self, place: u64) -> Result<Located<'_>> {
        self.slot_in_page(self.index.page(self.index.state(), place)?, place)
    }

    /// The same, at first in the page that holds the place.
    #[inline(always)]
    pub(crate) fn slot_in_page(&self, page: Page, place: u64) -> Result<Located<'_>> {
        match self.free_slot_in(page, place, REACH)? {
            Some(free) => Ok(free),
            None => self.slot_after_growth(place),
        }
    }

    #[cold]
    fn slot_after_growth(&self, place: u64) -> Result<Located<'_>> {
        let page = self.index.page(self.index.state(), place)?;
        if self.count_far(page)? * FAR_PART <= page.lines
            && let Some(free) = self.free_slot(place, FAR_REACH)?
        {
            return Ok(free);
        }
        // A batch that counted on the slots of its pages: one that is parted may have fewer in each half.
        if self.index.state().is_busy()
            && self.reserve_batch(0).is_err()
            && let Some(free) = self.free_slot(place, u64::MAX)?
        {
            return Ok(free);
        }
        loop {
            match self.make_room(place) {
                Ok(Grown::Done) => {}
                Ok(Grown::Skewed) => {
                    return match self.free_slot(place, u64::MAX)? {
                        Some(free) => Ok(free),
                        None => Err(skewed()),
                    };
                }
                // On a full disk anywhere in the page will do.
                Err(error) if !error.is_bad_file() => {
                    return self.free_slot(place, u64::MAX)?.ok_or(error);
                }
                Err(error) => return Err(error),
            }
            if let Some(free) = self.free_slot(place, REACH)? {
                return Ok(free);
            }
        }
    }

    /// Whether there are slots for all of these places in the pages that there are.
    pub(super) fn has_slots(&self, places: impl Iterator<Item = u64>) -> Result<bool> {
        let state = self.directory()?;
        let mut left = HashMap::new();
        for place in places {
            let page = self.index.page(state, place)?;
            let free = match left.entry(page.block) {
                Entry::Occupied(free) => free.into_mut(),
                Entry::Vacant(new) => {
                    let all = page.lines as usize * SLOTS;
                    new.insert(all.saturating_sub(self.entries(page)?.len()))
                }
            };
            if *free == 0 {
                return Ok(false);
            }
            *free -= 1;
        }
        Ok(true)
    }

    /// Puts a larger page, or two, in the place of the page that holds `place`.
    fn make_room(&self, place: u64) -> Result<Grown> {
        self.join_blocks()?;
        let state = self.directory()?;
        let page = self.index.page(state, place)?;
        self.index.cover(state, page)?;
        let mut entries = self.entries(page)?;
        // The only page grows twofold: nobody needs the blocks that it gives up.
        let is_only = state.depth() == 0;
        let above = if is_only { 2 * page.lines - 1 } else { page.lines };
        let size = size_for(entries.len() as u64 + 1, above);
        if let Some(lines) = size.filter(|lines| *lines <= self.most_lines()) {
            let mut larger = Page { lines, ..page };
            if page.is_used_up() {
                // Now, and not when it splits, with twice as many.
                larger.base = page.depth;
                self.retag(&mut entries, larger.base)?;
            }
            self.replace(page, place, &[self.filled(larger, &entries)?])?;
            return Ok(Grown::Done);
        }
        self.split(page, place, &entries)
    }

    /// How large pages become before they split: in a small index an eighth of it, so that the blocks
    /// that one gives up are a small part of it, and what others need.
    fn most_lines(&self) -> u64 {
        most_lines(self.index.load(words::PAGE_LINES))
    }

    /// Puts two pages in the place of one, each with half of its places.
    fn split(&self, page: Page, place: u64, entries: &[u64]) -> Result<Grown> {
        if page.depth == self.index.state().depth() && !self.double_directory()? {
            return Ok(Grown::Skewed);
        }
        let (base, is_retagged) = page.base_of_halves();
        let (mut lower, mut upper): (Vec<u64>, Vec<u64>) =
            entries.iter().partition(|entry| !page.is_upper(tag_of(**entry)));
        if is_retagged {
            self.retag(&mut lower, base)?;
            self.retag(&mut upper, base)?;
        }
        let most = self.most_lines();
        let half = |entries: &[u64]| {
            let above = if most == SIZES[10] { SIZES[5] } else { 0 };
            let lines = size_for(entries.len() as u64 + 1, above).unwrap_or(SIZES[10]);
            self.filled(Page { lines, depth: page.depth + 1, base, ..page }, entries)
        };
        self.replace(page, place, &[half(&lower)?, half(&upper)?])?;
        Ok(Grown::Done)
    }

    /// The entries of a page.
    pub(crate) fn entries(&self, page: Page) -> Result<Vec<u64>> {
        let mut entries = vec![0; page.lines as usize * SLOTS];
        let mut count = 0;
        for number in 0..page.lines {
            for word in self.index.line(page, number)? {
                // Each is written over the last if that was empty: no branch that depends on it.
                let entry = word.load(Ordering::Relaxed) & !OVERFLOW;
                if let Some(place) = entries.get_mut(count) {
                    *place = entry;
                }
                count += usize::from(entry != 0);
            }
        }
        entries.truncate(count);
        Ok(entries)
    }

    pub(crate) fn prefetch_records(&self, entries: &[u64]) {
        for entry in entries {
            self.core.data.prefetch(address_of(*entry));
        }
    }

    /// Gives entries the tags that their keys have in a page of this base.
    fn retag(&self, entries: &mut [u64], base: u32) -> Result<()> {
        self.prefetch_records(entries);
        let any = Page { block: 0, lines: 0, depth: base, base };
        for entry in entries {
            let at = address_of(*entry);
            let found = record(&self.core.data, self, at).ok_or_else(|| not_a_record(at))?;
            *entry = slot(any.tag(self.index.place(found.key)), at);
        }
        Ok(())
    }

    /// A new page, not yet in the directory, with these entries.
    pub(crate) fn filled(&self, page: Page, entries: &[u64]) -> Result<Page> {
        let mut filling = Filling::new(page);
        if !filling.add(entries) {
            return Err(skewed());
        }
        let block = self.allocate(page.lines)?;
        let page = Page { block, ..page };
        for (number, slots) in filling.lines().enumerate() {
            let line = self.index.line(page, number as u64)?;
            for (word, slot) in line.iter().zip(slots) {
                word.store(*slot, Ordering::Relaxed);
            }
        }
        Ok(page)
    }

    /// Names `new`, one page or two halves, in the directory where `old` was.
    fn replace(&self, old: Page, place: u64, new: &[Page]) -> Result<()> {
        let state = self.directory()?;
        let prefix = if old.depth == 0 { 0 } else { place >> (64 - old.depth) };
        let mut at = prefix * self.index.cover(state, old)?;
        for page in new {
            for _ in 0..self.index.cover(state, *page)? {
                self.index.entry(state, at)?.store(page.encode(), Ordering::Release);
                at += 1;
            }
        }
        let lines: u64 = new.iter().map(|page| page.lines).sum();
        let all = self.index.load(words::PAGE_LINES).saturating_add(lines);
        self.index.store(words::PAGE_LINES, all.saturating_sub(old.lines));
        self.retire(old.block)
    }

    /// Makes the directory twice as long; `false` if that is out of proportion.
    fn double_directory(&self) -> Result<bool> {
        let state = self.directory()?;
        let depth = state.depth() + 1;
        if !is_sensible_depth(depth, self.index.load(words::COUNT)) {
            return Ok(false);
        }
        let block = self.allocate(State::new(0, depth).directory_lines())?;
        let new = state.with_directory(block + 1, depth);
        for i in 0..state.entries() {
            let entry = self.index.entry(state, i)?.load(Ordering::Relaxed);
            self.index.entry(new, 2 * i)?.store(entry, Ordering::Relaxed);
            self.index.entry(new, 2 * i + 1)?.store(entry, Ordering::Relaxed);
        }
        self.index.set_state(new);
        self.retire(state.directory() - 1)?;
        Ok(true)
    }
}

/// How many lines a page may have before it splits, in an index whose pages have so many together.
pub(crate) fn most_lines(page_lines: u64) -> u64 {
    (page_lines / 8).clamp(SIZES[3], SIZES[10])
}

/// Whether a directory of so many records may be so deep.
pub(crate) fn is_sensible_depth(depth: u32, records: u64) -> bool {
    depth <= MAX_DEPTH && (depth <= FREE_DEPTH || 1 << depth <= records)
}

/// Keys that are there can have no index by the hash that it has.
#[cold]
pub(crate) fn skewed() -> Error {
    Error::invalid(SKEWED)
}

/// Whether an error says so.
pub(crate) fn is_skewed(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid(what) if what == SKEWED)
}

const SKEWED: &str = "over a thousand keys of this store have the same hash: make the index again \
                      with another (`credenza compact --other-hash`)";

#[cfg(test)]
mod tests {
    use super::is_skewed;
    use crate::hash::{Batch, Hash};

    /// Keys of one page, more than any page can have.
    fn of_one_page(store: &Hash) -> Vec<[u8; 8]> {
        let index = store.core().newest.get();
        let page_of = |key: &[u8; 8]| index.place(key) >> 52;
        let first = page_of(&[0; 8]);
        let keys = (0u64..).map(u64::to_le_bytes);
        keys.filter(|key| page_of(key) == first).take(1500).collect()
    }

    /// What waits to be entered, and cannot be, must not keep everybody from writing, nor from what helps.
    #[test]
    fn keys_of_one_hash_keep_nobody_from_writing() {
        for way in 0..3 {
            let store = Hash::in_memory().unwrap();
            let keys = of_one_page(&store);
            if way == 0 {
                let mut transaction = store.transaction().unwrap();
                keys.iter().for_each(|key| transaction.insert(key, b"value").unwrap());
                transaction.commit().unwrap();
                assert_eq!(store.len().unwrap(), 1500);
            } else if way == 1 {
                let mut batch = Batch::new();
                for key in &keys {
                    batch.insert(key, b"value");
                }
                store.batch(&batch).unwrap();
                assert_eq!(store.len().unwrap(), 1500);
            } else {
                // Where puts wait to be entered another hash is taken at once.
                let refused = keys.iter().find_map(|key| store.insert(key, b"value").err());
                assert!(refused.is_none_or(|error| is_skewed(&error)));
            }
            store.insert(b"other", b"value").unwrap();
            store.rebuild_index(true).unwrap();
            keys.iter().for_each(|key| store.insert(key, b"value").unwrap());
            assert!(keys.iter().all(|key| store.contains_key(key).unwrap()));
            assert_eq!(store.len().unwrap(), 1501);
        }
    }
}
