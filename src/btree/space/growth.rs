//! Where the pages of a file end, and how it grows.
//!
//! A file has more pages than are in use: it grows by a part of what it has, and by no more than is needed where the disk is
//! nearly full. What is put leaves pages there for removals, so that a store that has filled its disk can be emptied.

use super::Space;
use crate::btree::core::Core;
use crate::btree::format::{
    FIXED, MAX_PAGES, PAGE_BYTES, first_of_table, session, table_of, table_pages,
};
use crate::os::atomic::Ordering;
use crate::{Error, ErrorKind, Result};

/// The file grows by a sixteenth, but by at least and at most so many pages.
const GROWTH: (u64, u64) = (8, 2048);

/// So many pages, an eighth of what there is, are left for removals.
const RESERVE: (u64, u64) = (4, 256);

/// Blocks of the table of pages, from the second on, that are made three at a time: they tell of 64 MiB. Larger ones, of
/// which three would be a hundredth of a second's work for whoever needs the first, are made one at a time.
const MADE_BY_THREES: u64 = 6;

/// The last of the blocks that are made with this one. Blocks stay where they are, and a long value needs pages in a row: it
/// has room between two places where there are some, and there are a third as many.
fn made_with(block: u64) -> u64 {
    if (1..=MADE_BY_THREES).contains(&block) { block.next_multiple_of(3) } else { block }
}

impl Space {
    /// Takes the pages back that were given up behind the end and are there still; whether there are
    /// any.
    pub(super) fn raise_end(&mut self) -> bool {
        let is_lower = self.end < self.high;
        if is_lower {
            self.cursor = self.end;
            self.credit += self.high - self.end;
            self.end = self.high;
            self.counted = (0, 0);
            // Those that end before it may have been durable: what is behind is not said of pages.
            self.has_new_table = true;
        }
        is_lower
    }

    /// Whether the file has all pages before `end`.
    #[inline]
    pub(super) fn is_long_enough(&mut self, core: &Core, end: u64) -> Result<bool> {
        if end * PAGE_BYTES > self.len {
            // Asked for while this writer has the lock: what the process knows may be from before somebody
            // made the file shorter.
            self.len = core.map.refresh_len()?;
        }
        Ok(end * PAGE_BYTES <= self.len)
    }

    /// A number of pages at the end of the file that were never in use.
    pub(super) fn extend(&mut self, core: &Core, pages: u64) -> Result<u64> {
        self.raise_end();
        // The table must tell of them, and of its own new blocks, which lie before them.
        loop {
            let last = self.end + pages - 1;
            if last >= MAX_PAGES {
                let (size, limit) = (last * PAGE_BYTES, MAX_PAGES * PAGE_BYTES);
                return Err(Error::new(ErrorKind::TooLarge { what: "file", size, limit }));
            }
            let is_missing = |block: &u64| {
                let from = core.load(session::TABLES + 8 * block);
                from == 0 || first_of_table(*block) >= self.end && !core.is_table(*block, from)
            };
            let missing = (0..=table_of(last).0).find(is_missing);
            let Some(block) = missing else { break };
            self.add_table(core, block)?;
            for next in block + 1..=made_with(block) {
                let is_there = core.load(session::TABLES + 8 * next) != 0;
                // Those are not needed yet.
                if is_there || core.map.room() / PAGE_BYTES < 2 * RESERVE.1 {
                    break;
                }
                self.add_table(core, next)?;
            }
        }
        let from = self.end;
        self.grow_file(core, from + pages)?;
        self.end += pages;
        Ok(from)
    }

    #[cold]
    fn add_table(&mut self, core: &Core, block: u64) -> Result<()> {
        let (from, pages) = (self.end, table_pages(block));
        self.grow_file(core, from + pages)?;
        // These are none that are noted as taken.
        self.counted = (0, 0);
        // What was in these pages once says nothing of others.
        for at in (from * PAGE_BYTES..(from + pages) * PAGE_BYTES).step_by(8) {
            if let Some(word) = core.map_word(at) {
                word.store(0, Ordering::Relaxed);
            }
        }
        core.word(session::TABLES + 8 * block).store(from, Ordering::Release);
        self.end += pages;
        self.has_new_table = true;
        for page in from..self.end {
            let [birth, freed] = core.entry(page)?;
            birth.store(FIXED, Ordering::Release);
            freed.store(0, Ordering::Release);
        }
        Ok(())
    }

    #[inline]
    fn grow_file(&mut self, core: &Core, end: u64) -> Result<()> {
        if self.is_long_enough(core, end)? {
            return Ok(());
        }
        let room = (core.map.room() / PAGE_BYTES).saturating_sub(self.reserve());
        let needed = end - self.len / PAGE_BYTES;
        if self.is_put && needed > room {
            core.is_nearly_full.store(true, Ordering::Relaxed);
            self.leave_room(core, needed)?;
        }
        // On a nearly full disk, no more than what is needed.
        let more = (end / 16).clamp(GROWTH.0, GROWTH.1).min(room.saturating_sub(needed));
        let mut has_tried = false;
        let grown = core.map.grow_to((end + more) * PAGE_BYTES, &mut has_tried);
        let grown = grown.or_else(|_| core.map.grow_to(end * PAGE_BYTES, &mut has_tried));
        grown.inspect_err(|_| {
            if has_tried {
                // What was allocated before the disk was full is given back.
                core.word(session::CUTS).fetch_add(1, Ordering::SeqCst);
                let _ = core.map.shrink_to(self.len);
                core.word(session::CUTS).fetch_add(1, Ordering::SeqCst);
            }
            core.lacks_space.store(true, Ordering::Relaxed);
        })
    }

    /// How many pages are left free by what is put where the disk is nearly full: a removal copies its leaf and the pages on
    /// the way, and of what was copied before much waits for the next sync. Without them a store that had filled its disk
    /// refused a third of all removals.
    fn reserve(&self) -> u64 {
        (self.end / 8).clamp(RESERVE.0, RESERVE.1)
    }

    /// An error if whoever puts something and takes so many pages would leave too few, on the disk and in the file.
    #[cold]
    fn leave_room(&mut self, core: &Core, pages: u64) -> Result<()> {
        let wanted = self.reserve() + pages;
        let room = core.map.room() / PAGE_BYTES;
        if room >= wanted {
            core.is_nearly_full.store(false, Ordering::Relaxed);
            return Ok(());
        }
        if self.has_free(core, room, wanted)? {
            return Ok(());
        }
        core.lacks_space.store(true, Ordering::Relaxed);
        Err(core.map.no_room("make longer and keep room for removals"))
    }

    /// Whether there are so many pages, on the disk or free in the file.
    fn has_free(&mut self, core: &Core, room: u64, wanted: u64) -> Result<bool> {
        // Of those that were counted at least so many are left: nobody else takes any meanwhile.
        let (counted, taken) = self.counted;
        let left = counted.saturating_sub(self.taken.len().saturating_sub(taken) as u64);
        if room + left >= wanted {
            return Ok(true);
        }
        // Each time twice as many: of a large store each page that is put would look at most of the table.
        let enough = wanted + counted;
        let mut found = (core.map.len() / PAGE_BYTES).saturating_sub(self.end);
        for page in 0..self.end {
            if room + found >= enough {
                break;
            }
            found += u64::from(self.is_page_free(core, page)?);
        }
        self.counted = (found, self.taken.len());
        Ok(room + found >= wanted)
    }

    /// Whether so many pages can be taken for what is well to do, and can be left: on a full disk a removal is not to fail
    /// for it.
    pub(crate) fn can_take(&mut self, core: &Core, pages: u64) -> Result<bool> {
        let is_full = core.is_nearly_full.load(Ordering::Relaxed);
        if !is_full && !core.lacks_space.load(Ordering::Relaxed) {
            return Ok(true);
        }
        self.has_free(core, core.map.room() / PAGE_BYTES, pages)
    }

    /// The same, where the disk was nearly full when this process last looked.
    #[inline(always)]
    pub(super) fn leave_room_if_full(&mut self, core: &Core, pages: u64) -> Result<()> {
        core.map.check_room()?;
        match self.is_put && core.is_nearly_full.load(Ordering::Relaxed) {
            true => self.leave_room(core, pages),
            false => Ok(()),
        }
    }
}
