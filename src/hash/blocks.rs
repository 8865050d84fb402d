//! Space in the index file: blocks of lines for pages, the directory and the table of segments.
//!
//! A block is a line of its own (the next block of a list, an epoch, its size) and the lines that
//! its user has. Blocks are given back to lists, one for each size of page; what readers may still
//! look at waits in a queue until its epoch is past. Only the writer comes here.
//!
//! A writer that dies in the middle loses at most the blocks that it had in hand:
//! [`Writer::sweep`], which the next one runs, finds them again.

use super::format::{INDEX_HEADER, words};
use super::grow::MAX_DEPTH;
use super::index::{State, damaged};
use super::page::{LINE, Page, SIZES};
use super::pins;
use super::reserve::Leaves;
use super::writer::{EMPTY_LINES, Writer};
use crate::os::atomic::{AtomicU64, Ordering};
use crate::{Error, ErrorKind, Result};

/// The words of a block's own line.
pub(super) const NEXT: usize = 0;
const EPOCH: usize = 1;
pub(super) const LINES: usize = 2;
/// Entries of a page that are far from the line where they belong.
const FAR: usize = 3;
/// So many blocks wait before it is worth looking whether readers are gone.
const WORTH_LOOKING: u64 = 16;
/// An index of fewer lines is to stay small: its blocks are looked for at once, divided, and put
/// together. In a large one every size is about to be needed as it is.
const SMALL: u64 = 4096;
/// Line numbers have 32 bits.
pub(super) const MAX_LINES: u64 = 1 << 32;

impl Writer<'_> {
    /// A block with so many lines for its user; behind it there is room for an empty index, so that all can be taken out
    /// where the disk is full.
    pub(crate) fn allocate(&self, lines: u64) -> Result<u64> {
        self.allocate_before(lines, EMPTY_LINES)
    }

    /// The same with room for so many lines behind it.
    pub(crate) fn allocate_before(&self, lines: u64, behind: u64) -> Result<u64> {
        if let Some(list) = list_of(lines) {
            let is_small = self.index.load(words::BUMP) < SMALL;
            if self.index.load(words::RETIRED_COUNT) >= if is_small { 1 } else { WORTH_LOOKING } {
                self.take_back_blocks()?;
            }
            if is_small {
                self.divide_block(lines)?;
            }
            let block = self.index.load(list);
            if block != 0 {
                if self.lines_of(block)? != lines {
                    return Err(damaged(list, "a free block is not of the size of its list"));
                }
                let next = self.block(block)?[NEXT].load(Ordering::Relaxed);
                self.index.word(list).store(next, Ordering::Release);
                self.block(block)?[FAR].store(0, Ordering::Relaxed);
                return Ok(block);
            }
        }
        let block = self.index.load(words::BUMP);
        if block < INDEX_HEADER / LINE {
            return Err(damaged(words::BUMP, "the index ends in its head"));
        }
        self.check_bump()?;
        let end = block.saturating_add(1 + lines);
        if end > MAX_LINES {
            let (size, limit) = (end.saturating_mul(LINE), MAX_LINES * LINE);
            return Err(Error::new(ErrorKind::TooLarge { what: "index", size, limit }));
        }
        self.reserve_index(end.saturating_add(behind).min(MAX_LINES))?;
        self.index.word(words::BUMP).store(end, Ordering::Release);
        self.block(block)?[LINES].store(lines, Ordering::Relaxed);
        self.block(block)?[FAR].store(0, Ordering::Relaxed);
        Ok(block)
    }

    /// Where an index is small and a quarter of it is free, puts free blocks together that lie side by
    /// side. Nobody may have a block in hand.
    pub(super) fn join_blocks(&self) -> Result<()> {
        let bump = self.index.load(words::BUMP);
        let free = bump.saturating_sub(self.index.load(words::PAGE_LINES));
        if bump < SMALL && free > bump / 4 + 2 * SIZES[0] { self.sweep() } else { Ok(()) }
    }

    /// If there is no free block of this size, makes one of a larger one.
    fn divide_block(&self, lines: u64) -> Result<()> {
        for size in SIZES.into_iter().filter(|size| *size >= lines) {
            let Some(list) = list_of(size) else { break };
            let block = self.index.load(list);
            if block == 0 {
                continue;
            }
            if size > lines {
                let next = self.block(block)?[NEXT].load(Ordering::Relaxed);
                self.index.word(list).store(next, Ordering::Release);
                self.free(block, lines + 1)?;
                self.free(block + lines + 1, size - lines)?;
            }
            break;
        }
        Ok(())
    }

    /// Makes sure that the index file has `end` lines, for puts.
    #[inline(always)]
    pub(crate) fn reserve_index(&self, end: u64) -> Result<()> {
        self.reserve_index_leaving(Leaves::Most, end)
    }

    /// The same for what has to leave so much free.
    #[inline(always)]
    pub(crate) fn reserve_index_leaving(&self, leaves: Leaves, end: u64) -> Result<()> {
        let end = end.saturating_mul(LINE);
        if end <= self.index.map.len() { Ok(()) } else { self.grow_index(leaves, end) }
    }

    fn check_bump(&self) -> Result<()> {
        let is_within = self.index.load(words::BUMP).saturating_mul(LINE) <= self.index.map.len();
        let what = "the index is longer than its file";
        if is_within { Ok(()) } else { Err(damaged(words::BUMP, what)) }
    }

    #[cold]
    fn grow_index(&self, leaves: Leaves, end: u64) -> Result<()> {
        self.check_bump()?;
        let end = end.min(MAX_LINES * LINE);
        let (len, step) = (self.index.map.len(), self.index.map.step());
        // No more than what is needed where that is what is left for removals.
        let is_step_left = self.has_room(Leaves::Most, step).unwrap_or(false);
        if !is_step_left {
            self.leave_room(leaves, end.saturating_sub(len))?;
        }
        let longer = if is_step_left { len + step } else { end };
        let mut has_tried = false;
        let mut grow =
            |end: u64| self.index.map.grow_to(end.next_multiple_of(4096), &mut has_tried);
        // Where there is no room for a step there may be for what is needed.
        grow(end.max(longer)).or_else(|_| grow(end))?;
        self.index.store(words::INDEX_LEN, self.index.map.len());
        Ok(())
    }

    /// Gives a block back that readers may still look at.
    pub(crate) fn retire(&self, block: u64) -> Result<()> {
        let own = self.block(block)?;
        if self.lock.is_none() {
            // Nobody else knows this index.
            return self.free(block, self.lines_of(block)? + 1);
        }
        own[NEXT].store(0, Ordering::Relaxed);
        own[EPOCH].store(pins::end_epoch(&self.core.data), Ordering::Relaxed);
        let last = self.index.load(words::RETIRED_LAST);
        if last == 0 {
            self.index.word(words::RETIRED_FIRST).store(block, Ordering::Release);
        } else {
            self.block(last)?[NEXT].store(block, Ordering::Release);
        }
        self.index.store(words::RETIRED_LAST, block);
        self.index
            .store(words::RETIRED_COUNT, self.index.load(words::RETIRED_COUNT).wrapping_add(1));
        Ok(())
    }

    /// Puts the retired blocks that no reader can look at any more on the lists.
    fn take_back_blocks(&self) -> Result<()> {
        loop {
            let block = self.index.load(words::RETIRED_FIRST);
            if block == 0 {
                return Ok(());
            }
            let own = self.block(block)?;
            if !pins::is_past(&self.core.data, own[EPOCH].load(Ordering::Relaxed)) {
                return Ok(());
            }
            let (next, lines) = (own[NEXT].load(Ordering::Relaxed), self.lines_of(block)?);
            let count = self.index.load(words::RETIRED_COUNT);
            if count == 0 {
                // Lest damage has it go in a circle.
                return Err(damaged(words::RETIRED_COUNT, "more retired blocks than there are"));
            }
            if next == 0 {
                self.index.store(words::RETIRED_LAST, 0);
            }
            self.index.word(words::RETIRED_FIRST).store(next, Ordering::Release);
            self.index.store(words::RETIRED_COUNT, count - 1);
            self.free(block, lines + 1)?;
        }
    }

    /// Puts the lines from `block` on lists, in blocks as large as there are lists for.
    fn free(&self, mut block: u64, mut lines: u64) -> Result<()> {
        while let Some(size) = SIZES.into_iter().rev().find(|size| *size < lines) {
            let Some(list) = list_of(size) else { break };
            let own = self.block(block)?;
            own[LINES].store(size, Ordering::Relaxed);
            own[NEXT].store(self.index.load(list), Ordering::Relaxed);
            self.index.word(list).store(block, Ordering::Release);
            block += size + 1;
            lines -= size + 1;
        }
        Ok(())
    }

    /// Makes the lists again from what the directory leads to, after a writer died, or to have larger
    /// blocks. What a dead writer left of the directory is put right as well.
    pub(crate) fn sweep(&self) -> Result<()> {
        let state = self.directory()?;
        let segments = self.index.load(words::SEGMENTS_AT);
        let room = self.index.load(words::SEGMENTS_ROOM);
        let segment_lines = room.saturating_mul(super::log::ENTRY_BYTES) / LINE;
        // If it was about to be longer what is behind is free; and not part of it when it is retired.
        self.block(segments)?[LINES].store(segment_lines, Ordering::Relaxed);
        let mut used = vec![
            (state.directory() - 1, state.directory_lines() + 1),
            (segments, self.lines_of(segments)? + 1),
        ];
        let mut page_lines = 0;
        for page in self.repair_directory()? {
            used.push((page.block, page.lines + 1));
            page_lines += page.lines;
        }
        used.sort_unstable();
        for list in SIZES.into_iter().filter_map(list_of) {
            self.index.store(list, 0);
        }
        for word in [words::RETIRED_FIRST, words::RETIRED_LAST, words::RETIRED_COUNT] {
            self.index.store(word, 0);
        }
        self.index.store(words::PAGE_LINES, page_lines);
        // Readers may still look at any of what lies between.
        used.push((self.index.load(words::BUMP), 0));
        let mut end = INDEX_HEADER / LINE;
        for (block, lines) in used {
            if block < end {
                return Err(damaged(block.saturating_mul(LINE), "two blocks of the index overlap"));
            }
            if block - end > SIZES[0] {
                self.block(end)?[LINES].store(block - end - 1, Ordering::Relaxed);
                self.retire(end)?;
            }
            end = block.saturating_add(lines);
        }
        Ok(())
    }

    /// Every page, in the order of the directory. Where a writer died while it put one page (or
    /// the two halves) in the place of another, some entries name the old one: it is as good as
    /// before, for nothing was written since, and takes its place again.
    fn repair_directory(&self) -> Result<Vec<Page>> {
        let state = self.directory()?;
        let load =
            |i| Ok::<_, Error>(Page::decode(self.index.entry(state, i)?.load(Ordering::Relaxed)));
        let cover = |page: Page| self.index.cover(state, page);
        let mut pages: Vec<(u64, Page)> = Vec::new();
        let mut at = 0;
        while at < state.entries() {
            let mut page = load(at)?;
            let mut i = at;
            while i < (at + cover(page)?).min(state.entries()) {
                let other = load(i)?;
                // The old one covers all that the halves of it do.
                page = if other.depth < page.depth { other } else { page };
                i += 1;
            }
            let start = at - at % cover(page)?;
            while pages.pop_if(|(first, _)| *first >= start).is_some() {}
            for i in start..start + cover(page)? {
                self.index.entry(state, i)?.store(page.encode(), Ordering::Release);
            }
            pages.push((start, page));
            at = start + cover(page)?;
        }
        Ok(pages.into_iter().map(|(_, page)| page).collect())
    }

    /// Counts another entry of a page that is far from its line.
    pub(crate) fn count_far(&self, page: Page) -> Result<u64> {
        let word = &self.block(page.block)?[FAR];
        let count = word.load(Ordering::Relaxed).saturating_add(1);
        word.store(count, Ordering::Relaxed);
        Ok(count)
    }

    /// The own line of a block.
    pub(super) fn block(&self, block: u64) -> Result<&[AtomicU64; 8]> {
        let line = self.index.map.line(block.saturating_mul(LINE));
        line.filter(|_| self.index.has_block(block, 0)).ok_or_else(|| not_a_block(block))
    }

    /// How many lines the user of a block has.
    pub(super) fn lines_of(&self, block: u64) -> Result<u64> {
        let lines = self.block(block)?[LINES].load(Ordering::Relaxed);
        if self.index.has_block(block, lines) { Ok(lines) } else { Err(not_a_block(block)) }
    }

    /// Where the directory is: in a place where it may be changed.
    pub(crate) fn directory(&self) -> Result<State> {
        let state = self.index.state();
        let is_there = state.depth() <= MAX_DEPTH
            && state.directory() > 0
            && self.index.has_block(state.directory() - 1, state.directory_lines());
        is_there.then_some(state).ok_or_else(|| damaged(words::STATE, "there can be no directory"))
    }
}

#[cold]
fn not_a_block(block: u64) -> Error {
    damaged(block.saturating_mul(LINE), "a block that is not where blocks are")
}

/// The word that names the first free block of this size, if pages have it.
pub(super) fn list_of(lines: u64) -> Option<u64> {
    let i = SIZES.iter().position(|size| *size == lines)?;
    Some(words::FREE_BLOCKS + 8 * i as u64)
}

#[cfg(test)]
mod tests {
    use super::FAR;
    use crate::hash::Hash;
    use crate::os::atomic::Ordering;

    /// Damage says that as many entries of each page are far from their lines as can be said.
    #[test]
    fn a_count_that_is_damaged_has_the_page_grow() {
        let store = Hash::in_memory().unwrap();
        for i in 0..2000u64 {
            {
                let writer = store.core().writer().unwrap();
                let damage = |page: super::Page| {
                    writer.block(page.block)?[FAR].store(u64::MAX, Ordering::Relaxed);
                    Ok(())
                };
                writer.index.each_page(writer.index.state(), damage).unwrap();
            }
            store.insert(&i.to_le_bytes(), b"value").unwrap();
        }
        assert_eq!(store.len().unwrap(), 2000);
        store.verify(|_, _| ()).unwrap();
    }
}
