//! The one who writes: from taking the lock to the commit, or back to what was before.
//!
//! A writer never changes a page that a commit leads to, but as [`super::in_place`] says: it writes another one, under its
//! own stamp, and frees the old one as of that stamp. The commit is one store, of the number of the newest one.
//! Until then nothing that others look at has changed but the table of pages, and there all that a
//! writer did is known by its stamp: whoever comes after one that died, at whatever instruction,
//! takes it back.

use super::as_of::AsOf;
use super::core::{Core, Locked};
use super::edit::Step;
use super::format::{
    Commit, FIXED, MAX_PAGES, PAGE_BYTES, TABLES, Tree, first_of_table, session, table_pages,
};
use super::items::Items;
use super::page::Bytes;
use super::pins;
use super::record::{Elsewhere, Far};
use super::space::Space;
use super::sync::How;
use super::tree::Pages;
use super::view::Own;
use crate::os::atomic::{Ordering, fence};
use crate::os::process::forks;
use crate::os::shared::SharedMap;
use crate::stats::Moved;
use crate::{Error, Result};
use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::time::Duration;

/// Memory that one writer leaves to the next of its process.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub items: Items,
    pub bytes: Vec<u8>,
    pub path: Vec<Step>,
    /// The way to the leaf of [`Last`].
    pub edge: Vec<Step>,
    pub space: Space,
    /// What was changed so far, where that is counted.
    pub moved: Moved,
}

/// The same, as a writer has it.
#[derive(Debug)]
pub(crate) enum Lent<'c> {
    Left(MutexGuard<'c, Scratch>),
    /// Some other thread had it when this process was forked, and is not there to leave it.
    New(Box<Scratch>),
}

impl Deref for Lent<'_> {
    type Target = Scratch;

    #[inline(always)]
    fn deref(&self) -> &Scratch {
        match self {
            Lent::Left(scratch) => scratch,
            Lent::New(scratch) => scratch,
        }
    }
}

impl DerefMut for Lent<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Scratch {
        match self {
            Lent::Left(scratch) => scratch,
            Lent::New(scratch) => scratch,
        }
    }
}

/// The last leaf of a tree, when a record was put behind all others: the next one probably goes there,
/// too. The scratch's edge leads to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last {
    /// As it is in its tree.
    pub root: u64,
    pub leaf: u64,
}

/// The leaf that the record put in last is in, to which the scratch's path leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    /// As it is in its tree.
    pub root: u64,
    pub leaf: u64,
    /// Whether the record before it went there, too: so does the next one, probably.
    pub is_again: bool,
}

/// The right to change the store, and what was changed so far.
#[derive(Debug)]
pub(crate) struct Writer<'c> {
    pub core: &'c Core,
    /// Let go before the lock, with which the next writer comes for it.
    pub scratch: Lent<'c>,
    pub own: Own<'c>,
    pub base: Commit,
    /// What pages are written under now.
    pub stamp: u64,
    /// Not valid any more when a page of the tree was copied, parted or freed.
    pub last: Option<Last>,
    /// Nor this one then.
    pub near: Option<Near>,
    /// Whether pages are compared with their checksums.
    pub checks: bool,
    /// An error left something half done.
    pub is_broken: bool,
    /// What [`forks`] is where it is: a child that was forked meanwhile has a copy, and neither the lock nor the right.
    forks: u32,
    is_done: bool,
}

impl Elsewhere for Writer<'_> {
    fn far(&self, far: Far) -> Result<&[u8], &'static str> {
        Elsewhere::far(&self.own, far)
    }
}

impl Elsewhere for Own<'_> {
    fn far(&self, far: Far) -> Result<&[u8], &'static str> {
        self.elsewhere(far).ok_or("what is elsewhere is outside of the file")
    }
}

impl Pages for Writer<'_> {
    #[inline(always)]
    fn page(&self, number: u64) -> Result<&Bytes> {
        let bytes = self.own.page(number).ok_or_else(|| no_page(number))?;
        if self.checks {
            // Lest what damage made of it gets a checksum that fits.
            self.core.check_page(number, bytes)?;
        }
        Ok(bytes)
    }

    #[inline(always)]
    fn prefetch(&self, at: u64) {
        self.core.map.prefetch(at);
    }

    fn map(&self) -> &SharedMap {
        &self.core.map
    }
}

#[cold]
pub(crate) fn no_page(number: u64) -> Error {
    Error::corrupt(
        number.saturating_mul(PAGE_BYTES),
        "a link to a page that the file does not have",
    )
}

#[cold]
pub(crate) fn damaged(page: u64, what: &str) -> Error {
    Error::corrupt(page.saturating_mul(PAGE_BYTES), what)
}

impl<'c> Writer<'c> {
    /// Waits for the lock, and puts right what a writer left who died.
    pub(crate) fn begin(core: &'c Core) -> Result<Writer<'c>> {
        Writer::begin_within(core, || None)
    }

    /// The same for who changes something, or checks all of it, and may not want to wait for long.
    #[inline]
    pub(crate) fn begin_change(core: &'c Core) -> Result<Writer<'c>> {
        Writer::begin_within(core, || core.lock_timeout)
    }

    #[inline]
    fn begin_within(
        core: &'c Core,
        limit: impl FnOnce() -> Option<Duration>,
    ) -> Result<Writer<'c>> {
        if core.lacks_space.load(Ordering::Relaxed) {
            core.make_space()?;
        }
        Writer::begin_with(core, core.lock_within(limit)?)
    }

    /// The same if nobody has the lock, not even this thread.
    pub(crate) fn try_begin(core: &'c Core) -> Result<Option<Writer<'c>>> {
        core.try_lock()?.map(|lock| Writer::begin_with(core, lock)).transpose()
    }

    #[inline]
    pub(super) fn begin_with(core: &'c Core, lock: Locked<'c>) -> Result<Writer<'c>> {
        core.note_cuts()?;
        let base = core.newest();
        core.reach(&base)?;
        core.reach_high(&base)?;
        core.check_stamp(&base)?;
        if core.load(session::WRITING) != 0 || core.load(session::UNSWEPT) != 0 {
            core.sweep(&base)?;
        }
        if core.load(session::JOURNAL) & session::GIVEN_UP != 0 {
            core.free_journal()?;
        }
        let stamp = base.stamp + 1;
        // Only writers look at it, each when he has the lock.
        core.word(session::WRITING).store(stamp, Ordering::Release);
        fence(Ordering::SeqCst);
        let own = Own::new(lock, &core.map, stamp);
        let mut scratch = core.scratch();
        scratch.space.begin(core, &base);
        let (is_broken, is_done, forks) = (false, false, forks());
        Ok(Writer {
            core,
            own,
            base,
            stamp,
            scratch,
            last: None,
            near: None,
            checks: core.checks_reads(),
            is_broken,
            forks,
            is_done,
        })
    }

    /// An error in a process that was forked since this writer began.
    #[inline(always)]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.forks == forks() {
            return Ok(());
        }
        Err(is_parents())
    }

    /// Writes pages under a new stamp: those written so far are as those of a commit.
    pub(crate) fn begin_stamp(&mut self) {
        self.stamp += 1;
        self.own.since = self.stamp;
        self.forget_places();
    }

    /// Forgets where records were put in: pages on the way there are others now.
    pub(crate) fn forget_places(&mut self) {
        (self.last, self.near) = (None, None);
    }

    /// A page to write that is this writer's alone.
    #[inline(always)]
    pub(crate) fn page_mut(&mut self, number: u64) -> Result<&mut Bytes> {
        self.own.page_mut(number).ok_or_else(|| {
            damaged(number, "the page is in use twice: as one of a commit, and as a free one")
        })
    }

    /// Whether these trees, or any page, are not what they were when it began; or something failed half-way.
    pub(crate) fn has_changed(&self, main: &Tree, catalog: &Tree) -> bool {
        self.is_broken
            || (main, catalog) != (&self.base.main, &self.base.catalog)
            || self.scratch.space.has_changed()
    }

    /// Makes what was written the newest commit.
    pub(crate) fn commit(&mut self, main: Tree, catalog: Tree) -> Result<()> {
        // Early: a reader who finds no slot has to wait for a writer. On a full disk he does; but a page that was
        // taken and is not there must not be committed.
        let slots = match pins::are_few_left(self.core) {
            true => {
                self.new_slots().or_else(|e| if e.is_bad_file() { Err(e) } else { Ok(None) })?
            }
            false => None,
        };
        self.publish(main, catalog)?;
        if let Some(slots) = slots {
            slots.place.store(slots.page, Ordering::Release);
        }
        self.finish();
        Ok(())
    }

    /// The same without an end: what belongs to the commit and not to its trees can follow.
    pub(crate) fn publish(&mut self, main: Tree, catalog: Tree) -> Result<()> {
        self.scratch.space.is_put = false;
        if self.is_broken {
            return Err(Error::invalid(
                "an earlier change of this transaction failed half-way: nothing of it was committed",
            ));
        }
        let end = self.scratch.space.end;
        let commit = Commit { number: self.base.number + 1, stamp: self.stamp, end, main, catalog };
        self.note_changed(&commit);
        self.core.publish(&commit);
        self.scratch.space.committed(self.core);
        Ok(())
    }

    /// Notes what a commit changed, before anybody can sync it.
    #[inline]
    fn note_changed(&self, commit: &Commit) {
        // What lies behind a lower end is to be cut off: that is not said of a page.
        let changed = self.scratch.space.changed().filter(|_| commit.end >= self.base.end);
        if changed.is_none() {
            self.core.word(session::MOVED).store(commit.stamp, Ordering::SeqCst);
        }
        let tracked = &self.core.tracked;
        if tracked.is_on() {
            tracked.note(self.base.stamp, commit.stamp, changed);
        }
    }

    /// Ends a writer who is done; if he dies before, the next one looks at the whole table.
    pub(crate) fn finish(&mut self) {
        self.core.word(session::WRITING).store(0, Ordering::Release);
        self.is_done = true;
    }
}

#[cold]
fn is_parents() -> Error {
    let what = "this transaction was begun before the fork of this process: it is the parent's";
    Error::invalid(what)
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        if self.check_process().is_ok()
            && self.core.undo_change().is_ok()
            && self.scratch.space.take_back(self.core).is_ok()
        {
            self.core.forget_tables(&self.base);
            self.finish();
        } else {
            // The mark stays, and the next writer looks at the whole table.
            *self.scratch = Scratch::default();
        }
    }
}

impl Core {
    /// Takes back what was done in the table of pages after a commit. If the commit was found in the
    /// journal, what is there of it is taken back, too, and done again.
    #[cold]
    fn sweep(&self, commit: &Commit) -> Result<()> {
        self.undo_change()?;
        let since = self.changes_to_redo(commit)?;
        let table = AsOf::new(self, *commit, since.as_ref());
        // The base has all blocks that there can be: what else page 0 says may be from one that was never
        // made, and lead to a page of this commit.
        self.forget_tables(&table.base());
        for page in 0..self.high(commit) {
            let [before, after] = table.words(page)?;
            if after != before {
                let entry = self.entry(page)?;
                entry.iter().zip(after).for_each(|(word, now)| word.store(now, Ordering::Relaxed));
            }
        }
        self.note_unsummed();
        self.word(session::UNSWEPT).store(0, Ordering::SeqCst);
        self.word(session::WRITING).store(0, Ordering::SeqCst);
        Ok(())
    }

    /// Has what only the base has be free, since the disk is full. Not under the lock.
    #[cold]
    fn make_space(&self) -> Result<()> {
        self.lacks_space.store(false, Ordering::Relaxed);
        if self.load(session::BASE) == self.newest().stamp {
            return Ok(());
        }
        self.sync_commits(self.newest().stamp, How::Pages)
    }

    /// Whether a page is one that is not freed as others are.
    pub(crate) fn is_fixed(&self, page: u64) -> bool {
        self.journal_pages().contains(&page) || self.is_shared(page)
    }

    /// Whether a page is one of those that processes share: page 0, the table, slots.
    pub(super) fn is_shared(&self, page: u64) -> bool {
        let is_table = |block| {
            let from = self.load(session::TABLES + 8 * block);
            from != 0 && (from..from.saturating_add(table_pages(block))).contains(&page)
        };
        let is_slots = |i| page != 0 && self.load(session::SLOT_PAGES + 8 * i) == page;
        page == 0 || (0..TABLES).any(is_table) || (0..session::SLOT_PAGE_COUNT).any(is_slots)
    }

    /// Up to where the table of pages tells of the pages of commits that somebody may hold.
    pub(crate) fn high(&self, newest: &Commit) -> u64 {
        newest.end.max(self.load(session::HIGH)).min(MAX_PAGES)
    }

    /// Sees to it that all pages that a writer may take can be reached: who made the file longer may have lowered
    /// the end of the store since, without cutting the file.
    fn reach_high(&self, newest: &Commit) -> Result<()> {
        let end = self.high(newest) * PAGE_BYTES;
        if end > self.map.len() && end > self.map.refresh_len()? {
            self.map.check_addresses()?;
        }
        Ok(())
    }

    /// Blocks of the table that lie behind what anybody may hold are not there any more.
    pub(crate) fn forget_tables(&self, newest: &Commit) {
        let high = self.high(newest);
        for block in (1..TABLES).filter(|block| first_of_table(*block) >= high) {
            let word = self.word(session::TABLES + 8 * block);
            // Others are part of what is there, and of use again when the file grows.
            let from = word.load(Ordering::Acquire);
            if from != 0 && (from >= high || !self.is_table(block, from)) {
                word.store(0, Ordering::Release);
            }
        }
    }

    /// Whether the table of pages says that a block of its own is there. If not, damage named the place, and what is written
    /// there is lost when the block comes into use.
    pub(crate) fn is_table(&self, block: u64, from: u64) -> bool {
        let is_fixed =
            |page| self.entry(page).is_ok_and(|[birth, _]| birth.load(Ordering::Acquire) == FIXED);
        (from..from.saturating_add(table_pages(block))).all(is_fixed)
    }

    /// The stamps of all commits that are held.
    pub(crate) fn pins(&self) -> impl Iterator<Item = u64> {
        self.pins_of(pins::stamps(self))
    }

    /// The same with those of readers.
    pub(crate) fn pins_of(&self, readers: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
        // In this order: a commit that is synced meanwhile goes from its pin to the one word, and
        // on to the others.
        let words = [session::SYNCING, session::DURABLE, session::BASE];
        let words = words.into_iter().map(|at| self.load(at));
        readers.chain(words.filter(|stamp| *stamp != 0))
    }
}
