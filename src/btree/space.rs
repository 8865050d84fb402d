//! Which pages are free, and for whom.
//!
//! The table of pages says of each under which stamp it was written and under which it was freed.
//! The commits whose stamps are between are those that lead to it: it may be written again when
//! nobody holds any of them. Held are the commits of readers, the newest, the durable one, its base, and those
//! that the writer itself may go back to. So a reader that stays long holds the pages of its commit,
//! and none that were written and freed since.
//!
//! Free pages are found by hints, those freed last first, and by going round the table, so many
//! entries for every page that the file grows by.

mod growth;

use super::core::Core;
use super::format::{
    self, Commit, FIRST_TABLE, FIXED, PAGE_BYTES, SUMMED, TABLES, VALUES, born, far_sum,
    first_of_table, session,
};
use super::held::Held;
use super::page::Bytes;
use super::pins;
use super::record::Far;
use super::writer::{Writer, damaged, no_page};
use crate::Result;
use crate::os::atomic::{AtomicU64, Ordering};
use std::ops::Range;

/// Entries of the table that are looked at at a time, and how many of them a page that the file
/// grows by pays for.
const LOOK: u64 = 256;
const PAID: u64 = 64;
/// Entries that are looked at in any case for each page of a run: a twentieth of what it takes to write them. Else one of
/// more pages than a writer begins with entries would never be found.
const FOR_RUN: u64 = 8;
/// Marks a page that was freed with others beside it. It is no hint: single pages that are taken out of the middle of such
/// room, and stay, leave none for the next value of several pages, which then made the file longer each time.
const IN_RUN: u64 = 1 << 63;
/// Most hints that are kept.
const MAX_HINTS: usize = 4096;

/// What a writer knows of the pages of the file.
#[derive(Debug, Default)]
pub(crate) struct Space {
    held: Held,
    /// The stamp of the commit that this writer follows: those held that are higher are its own.
    begun: u64,
    hints: Vec<u64>,
    /// Pages that this writer took, and such of commits that it freed, those of runs marked [`IN_RUN`] in both.
    taken: Vec<u64>,
    freed: Vec<u64>,
    /// Pages of commits that something was put into: behind the values of a page, or in a leaf.
    added: Vec<u64>,
    /// The table of pages has a new block.
    has_new_table: bool,
    /// Pages of the file that are in use, or were.
    pub end: u64,
    /// Pages of commits that somebody may hold are below this; the table tells of them.
    high: u64,
    /// Bytes that the file has at least, as long as this writer has the lock.
    len: u64,
    /// Entries of the table that may be looked at, and where.
    credit: u64,
    cursor: u64,
    /// How many free pages of the file this writer has counted, and how many it had taken by then.
    counted: (u64, usize),
    /// The stamp of the base, and how many of its pages this writer freed.
    base: u64,
    retained: u64,
    /// What is put leaves pages for removals, see `growth.rs`.
    pub is_put: bool,
}

impl Space {
    pub(crate) fn begin(&mut self, core: &Core, base: &Commit) {
        self.held.begin(held_before(core, base.stamp));
        pins::lower_mark(core, self.held.len());
        self.begun = base.stamp;
        self.end = base.end;
        self.high = core.high(base);
        self.len = 0;
        self.base = core.load(session::BASE);
        self.credit = self.credit.clamp(2 * LOOK, 64 * LOOK);
        self.retained = 0;
        self.added.clear();
        self.has_new_table = false;
        self.is_put = false;
        self.counted = (0, 0);
    }

    /// The pages that this writer changed, some of them perhaps more than once, or not in the end;
    /// `None` if the place of the table itself was changed.
    pub(crate) fn changed(&self) -> Option<impl Iterator<Item = u64>> {
        let pages = self.taken.iter().chain(&self.freed).chain(&self.added);
        (!self.has_new_table).then(|| pages.map(|page| page & !IN_RUN))
    }

    /// Whether there are any that a commit has to tell of. Not such that something was added to, nor blocks of the table: where
    /// that is all, what they were for was given up.
    pub(crate) fn has_changed(&self) -> bool {
        !(self.taken.is_empty() && self.freed.is_empty())
    }

    /// Notes that something was put into a page of a commit.
    pub(crate) fn note_added(&mut self, page: u64) {
        if self.added.last() != Some(&page) {
            self.added.push(page);
        }
    }

    /// Whether a page may be written that was in use between two stamps.
    #[inline(always)]
    pub(crate) fn is_free(&self, birth: u64, freed: u64) -> bool {
        birth == 0
            || (freed != 0
                && freed & SUMMED == 0
                && birth != FIXED
                && !self.held.is_any(born(birth), freed))
    }

    /// The same of a page, by the table.
    #[inline(always)]
    fn is_page_free(&self, core: &Core, page: u64) -> Result<bool> {
        let [birth, freed] = core.entry(page)?.map(|word| word.load(Ordering::Relaxed));
        Ok(self.is_free(birth, freed))
    }

    /// Whether of all commits that are held only the newest can have a page of this birth, before this writer holds any
    /// of its own.
    #[inline(always)]
    pub(crate) fn is_of_newest_alone(&self, birth: u64) -> bool {
        self.held.is_one_from(birth)
    }

    /// From now on the pages written so far are held, too.
    pub(crate) fn hold(&mut self, stamp: u64) {
        self.held.hold(stamp);
    }

    /// They are not any more.
    pub(crate) fn release(&mut self, stamp: u64) {
        self.held.release(stamp);
    }

    /// Has pages that were freed since, after so many others, be among the next that are taken, unless
    /// they are held still.
    pub(crate) fn hint_freed(&mut self, core: &Core, since: usize) {
        // As much as a new writer has: pages in a row are not taken from hints.
        self.credit = self.credit.max(2 * LOOK);
        let room = MAX_HINTS.saturating_sub(self.hints.len());
        let from = self.freed.len().saturating_sub(room).max(since);
        for i in from..self.freed.len() {
            let page = self.freed[i];
            if page & IN_RUN != 0 {
                continue;
            }
            // Where the table is damaged whoever takes a page says so.
            if self.is_page_free(core, page).unwrap_or(false) {
                self.hints.push(page);
            }
        }
    }

    /// Ends a writer whose pages are of a commit now.
    pub(crate) fn committed(&mut self, core: &Core) {
        if self.retained > 0 {
            core.word(session::RETAINED).fetch_add(self.retained, Ordering::Relaxed);
        }
        self.taken.clear();
        let room = MAX_HINTS.saturating_sub(self.hints.len());
        let from = self.freed.len().saturating_sub(room);
        self.hints.extend(self.freed.drain(..).skip(from).filter(|page| page & IN_RUN == 0));
    }

    /// Takes back what a writer did who gives up.
    pub(crate) fn take_back(&mut self, core: &Core) -> Result<()> {
        self.take_back_to(core, 0, 0)
    }

    /// The same for what it did after it had taken and freed so many pages.
    pub(crate) fn take_back_to(&mut self, core: &Core, taken: usize, freed: usize) -> Result<()> {
        let is_given_back = self.freed.len() > freed;
        for page in self.freed.drain(freed.min(self.freed.len())..) {
            core.entry(page & !IN_RUN)?[1].store(0, Ordering::Release);
        }
        // Not before: a sync that is going on may have passed them by.
        if is_given_back {
            core.note_unsummed();
        }
        for page in self.taken.drain(taken.min(self.taken.len())..) {
            let [birth, gone] = core.entry(page & !IN_RUN)?;
            birth.store(0, Ordering::Release);
            gone.store(0, Ordering::Release);
            if page & IN_RUN == 0 && self.hints.len() < MAX_HINTS {
                self.hints.push(page);
            }
        }
        Ok(())
    }

    /// How many pages were taken and freed.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.taken.len(), self.freed.len())
    }

    /// Looks at some entries of the table for free pages; whether there are any.
    #[cold]
    fn look(&mut self, core: &Core) -> Result<bool> {
        while self.credit >= LOOK {
            self.credit -= LOOK;
            for _ in 0..LOOK.min(self.end) {
                if self.cursor >= self.end {
                    self.cursor = 0;
                }
                if self.is_page_free(core, self.cursor)? {
                    self.hints.push(self.cursor);
                }
                self.cursor += 1;
            }
            if !self.hints.is_empty() {
                // The lowest first: so the end of the file becomes free some day.
                self.hints.reverse();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sees to it that the next pages are taken from free ones that lie before `end`, the lowest first,
    /// as long as there are any; whether there are so many. `from`: none is free before; it goes on.
    pub(crate) fn gather_below(
        &mut self,
        core: &Core,
        from: &mut u64,
        end: u64,
        pages: usize,
    ) -> Result<bool> {
        let mut found = Vec::new();
        while self.hints.len() + found.len() < pages && *from < end.min(self.end) {
            // More than asked for: it is cheap where nothing is in between.
            let to = (*from + LOOK).min(end).min(self.end);
            for page in *from..to {
                if self.is_page_free(core, page)? {
                    found.push(page);
                }
            }
            *from = to;
        }
        self.hints.splice(0..0, found.into_iter().rev());
        Ok(self.hints.len() >= pages)
    }

    /// The same with pages at the end that were never in use.
    pub(crate) fn gather_behind(&mut self, core: &Core, pages: usize) -> Result<()> {
        if self.hints.len() < pages {
            let count = (pages - self.hints.len()) as u64;
            let from = self.extend(core, count)?;
            for page in from..from + count {
                // What the table says of them counts for nothing.
                for word in core.entry(page)? {
                    word.store(0, Ordering::Release);
                }
            }
            self.hints.splice(0..0, (from..from + count).rev());
        }
        Ok(())
    }

    /// From now on, the pages taken are those that are gathered, and before these such of `places` that are known to be
    /// free, the lowest first: those that were gathered and not taken, or freed since.
    pub(crate) fn begin_gathering(&mut self, core: &Core, places: Range<u64>) -> Result<()> {
        let mut hints = std::mem::take(&mut self.hints);
        hints.retain(|page| places.contains(page) && *page < self.end);
        hints.sort_unstable_by(|a, b| b.cmp(a));
        hints.dedup();
        for page in hints {
            if self.is_page_free(core, page)? {
                self.hints.push(page);
            }
        }
        self.credit = 0;
        Ok(())
    }

    /// Free pages in a row that lie between two pages: the first.
    pub(crate) fn run_within(
        &self,
        core: &Core,
        from: u64,
        end: u64,
        pages: u64,
    ) -> Result<Option<u64>> {
        let mut found = 0;
        for page in from..end.min(self.end) {
            found = if self.is_page_free(core, page)? { found + 1 } else { 0 };
            if found == pages {
                return Ok(Some(page + 1 - pages));
            }
        }
        Ok(None)
    }

    /// Pages in a row at the end that were never in use: the first.
    pub(crate) fn run_behind(&mut self, core: &Core, pages: u64) -> Result<u64> {
        self.extend(core, pages)
    }

    /// Takes pages in a row.
    pub(crate) fn enter_run(
        &mut self,
        core: &Core,
        from: u64,
        pages: u64,
        stamp: u64,
    ) -> Result<()> {
        let mark = if pages > 1 { IN_RUN } else { 0 };
        (from..from + pages).try_for_each(|page| self.enter(core, page, mark, stamp))
    }

    /// Has the lowest free page be the next that is taken.
    fn hint_lowest(&mut self, core: &Core) -> Result<()> {
        for page in 0..self.end {
            if self.is_page_free(core, page)? {
                self.hints.push(page);
                break;
            }
        }
        Ok(())
    }

    /// Gives up what the dead hold, if the file must be made longer for so many pages; whether there was
    /// anything: then free pages may be found now, wherever they are.
    #[cold]
    fn forget_dead(&mut self, core: &Core, pages: u64) -> Result<bool> {
        if self.is_long_enough(core, self.end + pages)? || pins::clear_dead(core) == 0 {
            return Ok(false);
        }
        self.held.begin_before(self.begun + 1, held_before(core, self.begun));
        // Once round all of the table.
        self.credit += self.end + LOOK;
        Ok(true)
    }

    /// Takes free pages that lie one behind the other.
    fn take_run(&mut self, core: &Core, pages: u64, stamp: u64) -> Result<u64> {
        self.leave_room_if_full(core, pages)?;
        let from = loop {
            if let Some(from) = self.find_run(core, pages)? {
                break from;
            }
            if !self.raise_end() && !self.forget_dead(core, pages)? {
                self.credit += PAID * pages;
                break self.extend(core, pages)?;
            }
        };
        self.enter_run(core, from, pages, stamp)?;
        Ok(from)
    }

    /// Free pages in a row, if some are found in as much of the table as may be looked at.
    fn find_run(&mut self, core: &Core, pages: u64) -> Result<Option<u64>> {
        let mut found = 0;
        // Once round, and no more than is paid for.
        for _ in 0..(self.end + pages).min(self.credit.max(FOR_RUN * pages)) {
            self.credit = self.credit.saturating_sub(1);
            if self.cursor >= self.end {
                (self.cursor, found) = (0, 0);
            }
            let is_free = self.is_page_free(core, self.cursor)?;
            self.cursor += 1;
            found = if is_free { found + 1 } else { 0 };
            if found == pages {
                return Ok(Some(self.cursor - pages));
            }
        }
        // What was found last goes on there, perhaps.
        self.cursor -= found;
        Ok(None)
    }

    /// The same, never to be freed as others are.
    pub(crate) fn take_fixed(&mut self, core: &Core, pages: u64, stamp: u64) -> Result<u64> {
        let from = self.take_run(core, pages, stamp)?;
        for page in from..from + pages {
            core.entry(page)?[0].store(FIXED, Ordering::Release);
        }
        Ok(from)
    }

    #[inline(always)]
    fn enter(&mut self, core: &Core, page: u64, mark: u64, stamp: u64) -> Result<()> {
        // There are the locks and the commits.
        if page == 0 {
            return Err(damaged(1, "the table of pages calls page 0 free"));
        }
        let [birth, freed] = core.entry(page)?;
        // In this order: a page with this birth is free again if the writer dies here.
        birth.store(stamp, Ordering::Release);
        freed.store(0, Ordering::Release);
        self.taken.push(page | mark);
        Ok(())
    }
}

/// The stamps of the commits that are held when the newest has this one, which the others do not exceed; for
/// who has the writer's lock and will give pages to others.
#[inline]
fn held_before(core: &Core, newest: u64) -> impl Iterator<Item = u64> {
    let readers = pins::stamps_after_taking(core);
    std::iter::once(newest).chain(core.pins_of(readers))
}

/// A page of slots for readers, and where its number goes.
pub(crate) struct NewSlots<'c> {
    pub place: &'c AtomicU64,
    pub page: u64,
}

impl<'c> Writer<'c> {
    /// A free page.
    #[inline]
    fn take(&mut self) -> Result<u64> {
        let space = &mut self.scratch.space;
        space.leave_room_if_full(self.core, 1)?;
        loop {
            while let Some(page) = space.hints.pop() {
                if page >= space.end {
                    continue;
                }
                if space.is_page_free(self.core, page)? {
                    space.enter(self.core, page, 0, self.stamp)?;
                    return Ok(page);
                }
            }
            let core = self.core;
            if !space.look(core)? && !space.raise_end() && !space.forget_dead(core, 1)? {
                break;
            }
        }
        let page = space.extend(self.core, 1)?;
        space.credit += PAID;
        space.enter(self.core, page, 0, self.stamp)?;
        Ok(page)
    }

    /// A new page with anything in it.
    pub(crate) fn new_page(&mut self) -> Result<(u64, &mut Bytes)> {
        let page = self.take()?;
        let bytes = self.own.adopt(page, self.stamp).ok_or_else(|| no_page(page))?;
        Ok((page, bytes))
    }

    /// A copy of a page, which is free then.
    #[inline]
    pub(crate) fn copy_page(&mut self, old: u64) -> Result<u64> {
        let page = self.take()?;
        self.own.adopt_copy(old, page, self.stamp).ok_or_else(|| no_page(old))?;
        self.free(old)?;
        Ok(page)
    }

    /// Frees a page that was taken just now, never to be freed as others are.
    pub(crate) fn free_fixed(&mut self, page: u64) -> Result<()> {
        let [birth, _] = self.core.entry(page)?;
        birth.store(self.stamp, Ordering::Release);
        self.free(page)
    }

    /// Frees a page.
    #[inline]
    pub(crate) fn free(&mut self, page: u64) -> Result<()> {
        self.free_marked(page, 0)
    }

    #[inline(always)]
    fn free_marked(&mut self, page: u64, mark: u64) -> Result<()> {
        let [birth, freed] = self.core.entry(page)?;
        let born = birth.load(Ordering::Relaxed);
        let gone = freed.load(Ordering::Relaxed);
        if born == 0 || born == FIXED || gone & SUMMED == 0 && gone != 0 {
            return Err(damaged(page, "the page is in use, but the table of pages says it is not"));
        }
        let space = &mut self.scratch.space;
        if format::born(born) >= self.own.since {
            // Nobody ever saw it.
            birth.store(0, Ordering::Release);
            freed.store(0, Ordering::Release);
            if mark == 0 {
                space.hints.push(page);
            }
        } else {
            freed.store(self.stamp, Ordering::Release);
            space.freed.push(page | mark);
            space.retained += u64::from(format::born(born) <= space.base);
        }
        Ok(())
    }

    /// Writes bytes that are too many for a page of a tree.
    pub(crate) fn write_far(&mut self, bytes: &[u8]) -> Result<Far> {
        let pages = (bytes.len() as u64).div_ceil(PAGE_BYTES);
        let from = match pages {
            1 => self.new_values()?,
            _ => self.scratch.space.take_run(self.core, pages, self.stamp | VALUES)?,
        };
        self.write_at(from * PAGE_BYTES, bytes)
    }

    /// Writes them to space that is this writer's.
    pub(crate) fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<Far> {
        if !self.own.write(at, bytes) {
            return Err(no_page(at / PAGE_BYTES));
        }
        Ok(Far { at, len: bytes.len() as u32, sum: far_sum(bytes) })
    }

    /// A new page for values.
    pub(crate) fn new_values(&mut self) -> Result<u64> {
        let page = self.take()?;
        self.core.entry(page)?[0].store(self.stamp | VALUES, Ordering::Release);
        Ok(page)
    }

    /// Frees them.
    pub(crate) fn free_far(&mut self, far: Far) -> Result<()> {
        let (from, pages) = (far.page(), u64::from(far.len).div_ceil(PAGE_BYTES));
        if pages == 1 {
            return self.free(from);
        }
        // The next one is looked for, though the file did not grow.
        self.scratch.space.credit += PAID * pages;
        (from..from + pages).try_for_each(|page| self.free_marked(page, IN_RUN))
    }

    /// Gives readers another page of slots; `false` if there are as many as can be.
    pub(crate) fn add_slots(mut self) -> Result<bool> {
        let Some(added) = self.new_slots()? else { return Ok(false) };
        // A commit, so that nobody takes it for free space behind the end.
        let (main, catalog) = (self.base.main, self.base.catalog);
        self.publish(main, catalog)?;
        added.place.store(added.page, Ordering::Release);
        self.finish();
        Ok(true)
    }

    /// A page of slots, which readers can use when its number is in its place: not before a commit.
    pub(crate) fn new_slots(&mut self) -> Result<Option<NewSlots<'c>>> {
        let core = self.core;
        let places = (0..session::SLOT_PAGE_COUNT).map(|i| core.word(session::SLOT_PAGES + 8 * i));
        let Some(place) = places.into_iter().find(|word| word.load(Ordering::Acquire) == 0) else {
            return Ok(None);
        };
        // It stays where it is as long as the machine runs: not at the end, which may become free.
        self.scratch.space.hint_lowest(core)?;
        let (page, bytes) = self.new_page()?;
        bytes.fill(0);
        let [birth, _] = core.entry(page)?;
        birth.store(FIXED, Ordering::Release);
        Ok(Some(NewSlots { place, page }))
    }
}

const _: () = assert!(first_of_table(1) == FIRST_TABLE && TABLES > 1);
