//! An open store: its file, its locks, and how a process comes to share them with others.
//!
//! Opening is done under a lock of the kernel on byte 0 of the file, which also the death of a
//! process lets go. Whoever finds that the machine was started anew since the locks were made makes
//! them again, and goes on from the newest commit that is durable. Whoever finds that nobody else has
//! the store open makes them again, too, and goes on from the newest commit.

use super::as_of::AsOf;
use super::create::{FIRST_PAGES, create_file, is_unborn};
use super::format::{
    COMMIT_WORDS, Commit, ENTRY, FIXED, Header, MAX_PAGES, METAS, PAGE_BYTES, SUMMED, TABLES,
    page_sum, session, table_of,
};
use super::in_place::CHANGING;
use super::meta::{META_WORDS, Meta};
use super::only::Only;
use super::page::Bytes;
use super::sync::How;
use super::tracked::Tracked;
use super::view::Holds;
use super::writer::{Lent, Scratch, Writer};
use crate::magic::COPY_END;
use crate::os::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::os::file::{open_changing, read_head};
use crate::os::holes::fill_holes;
use crate::os::lock::{Got, RobustLock, Want, is_locked, is_own};
use crate::os::opening::{Opening, READING, await_free, if_alone, opening};
use crate::os::place::sync_folder_of;
use crate::os::process::{has_moved, moves, prepare};
use crate::os::session::{Session, Standing};
use crate::os::shared::{SharedMap, memory_file};
use crate::os::turns::Turns;
use crate::{Error, Result};
use std::fs::File;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

/// Addresses set aside for the file to grow into, where there are as many.
const ROOM: u64 = 1 << 42;
/// The same for stores in memory.
const MEMORY_ROOM: u64 = 1 << 38;
/// The stamp of a store's first, empty commit.
pub(crate) const FIRST_STAMP: u64 = 1;

/// An open store.
#[derive(Debug)]
pub(crate) struct Core {
    pub map: SharedMap,
    pub header: Header,
    /// What the last writer of this process left to the next.
    scratch: Mutex<Scratch>,
    /// The name that it was opened by; none for a store in memory.
    path: Option<PathBuf>,
    /// Whether every page that is read is compared with its checksum.
    checks_reads: bool,
    /// How often this process had moved when it opened the store.
    moves: u32,
    /// Transactions that are neither committed nor dropped.
    transactions: AtomicU64,
    /// What is read, where nothing may be written: it stays the newest commit, for those who would
    /// write cannot open the store meanwhile.
    pub(super) only: Option<Only>,
    /// Whether this process takes part in what is shared of it: then it says so by a lock of the kernel.
    has_joined: AtomicBool,
    /// How often the file had been made shorter when this process last asked how long it is.
    cuts: AtomicU64,
    pub tracked: Tracked,
    /// How many syncs of this process were of little, and there was no journal.
    pub missed: AtomicU32,
    /// The file could not grow when this process last wanted that.
    pub lacks_space: AtomicBool,
    /// There was little more than what is left for removals when it last looked, or it did not yet.
    pub is_nearly_full: AtomicBool,
    /// For how long who changes something waits for others who write; for ever if `None`.
    pub lock_timeout: Option<Duration>,
}

/// The writer's lock, which is held as long as this lives; it is this thread's.
#[derive(Debug)]
pub(crate) struct Locked<'c> {
    lock: RobustLock<'c>,
    _here: PhantomData<*const ()>,
}

impl Holds for Locked<'_> {}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.lock.unlock();
    }
}

impl Core {
    /// Opens the store at `path`, or makes one there if `is_new_wanted`.
    pub(crate) fn open(path: &Path, is_new_wanted: bool) -> Result<Core> {
        prepare();
        let file = open_changing(path, is_new_wanted, true)?;
        Core::of(file, is_new_wanted, Some(path))
    }

    /// A new store that exists in memory only.
    pub(crate) fn in_memory() -> Result<Core> {
        prepare();
        Core::of(memory_file()?, true, None)
    }

    /// The store in a file, or a new one there if that is empty; `path` names its folder.
    pub(crate) fn of(file: File, is_new_wanted: bool, path: Option<&Path>) -> Result<Core> {
        await_free(&file, READING)?;
        let lock = session::WRITER_LOCK;
        opening(&file, Want::Exclusive, lock, |opening| {
            Core::of_locked(opening, is_new_wanted, path)
        })
    }

    /// Maps a file that has the header which `header` finds in the beginning of it.
    pub(super) fn mapped(
        file: &File,
        is_writable: bool,
        path: Option<&Path>,
        header: impl FnOnce(&[u8]) -> Result<Header>,
    ) -> Result<Core> {
        let len = file.metadata().map_err(|e| Error::io("ask the size of", e))?.len();
        let header = header(&read_head(file, len, COPY_END)?)?;
        if len < FIRST_PAGES * PAGE_BYTES {
            return Err(Error::corrupt(len, "the file ends before its first page"));
        }
        let clone = file.try_clone().map_err(|e| Error::io("open again", e))?;
        let room = if path.is_some() { ROOM.max(len.saturating_mul(4)) } else { MEMORY_ROOM };
        let map = SharedMap::new(clone, is_writable, room)?;
        Ok(Core {
            map,
            header,
            scratch: Mutex::default(),
            path: path.map(Path::to_owned),
            checks_reads: false,
            moves: moves(),
            transactions: AtomicU64::new(0),
            only: None,
            has_joined: AtomicBool::new(false),
            cuts: AtomicU64::new(0),
            tracked: Tracked::default(),
            missed: AtomicU32::new(0),
            lacks_space: AtomicBool::new(false),
            is_nearly_full: AtomicBool::new(true),
            lock_timeout: None,
        })
    }

    fn of_locked(opening: &Opening<'_>, is_new_wanted: bool, path: Option<&Path>) -> Result<Core> {
        let file = opening.file();
        let length = || file.metadata().map_err(|e| Error::io("ask the size of", e));
        if is_new_wanted && is_unborn(file, length()?.len())? {
            create_file(file)?;
            if let Some(path) = path {
                sync_folder_of(path)?;
            }
        }
        // Nobody can be in between: who opens it to read does so under the lock of those who open it.
        if is_locked(file, READING)? {
            return Err(Error::invalid(
                "somebody reads the store who may not write to it, and so cannot say what he reads: \
                 nobody can write before he closes it",
            ));
        }
        let core = Core::mapped(file, true, path, Header::decode)?;
        let standing = Session::at(&core.map, session::BOOT_LOW).standing(opening)?;
        if standing != Standing::Shared && path.is_some() {
            // A copy may have some.
            fill_holes(file)?;
        }
        match standing {
            Standing::Over => core.begin_session()?,
            Standing::Left => core.take_over()?,
            Standing::Shared => {}
        }
        core.check_newest()?;
        opening.join()?;
        core.has_joined.store(true, Ordering::Relaxed);
        Ok(core)
    }

    /// A word of page 0; `offset` is one of [`session`].
    #[inline(always)]
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        &self.map.head()[offset as usize / 8]
    }

    pub(crate) fn load(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// A word of any page, if the file has it.
    #[inline(always)]
    pub(crate) fn map_word(&self, at: u64) -> Option<&AtomicU64> {
        match self.map.word(at) {
            Some(word) => Some(word),
            None => {
                self.map.refresh_len().ok()?;
                self.map.word(at)
            }
        }
    }

    fn writer_lock(&self) -> RobustLock<'_> {
        RobustLock::in_head(&self.map, session::WRITER_LOCK).opened_after(self.moves)
    }

    /// An error in a process that was forked into another namespace of processes since: by its number there its pins would
    /// be taken for those of the dead.
    #[cold]
    pub(crate) fn check_place(&self) -> Result<()> {
        if self.moves == moves() { Ok(()) } else { Err(has_moved()) }
    }

    /// The right to change the store, waiting for it for no longer than `limit` says.
    #[inline]
    pub(crate) fn lock_within(
        &self,
        limit: impl FnOnce() -> Option<Duration>,
    ) -> Result<Locked<'_>> {
        self.check_writable()?;
        let lock = self.writer_lock();
        // What a holder left who died is known by words of page 0.
        let (Got::Released | Got::OwnerDied) = lock.lock_for(limit)?;
        Ok(Locked { lock, _here: PhantomData })
    }

    /// An error if this thread has that right already: before it waits for what others may have who wait for it.
    pub(crate) fn check_not_own(&self) -> Result<()> {
        let lock = self.writer_lock();
        if self.map.is_writable() && lock.is_own() { Err(is_own()) } else { Ok(()) }
    }

    /// The right to change the store if it is free; `None` if somebody has it, this thread or another.
    pub(crate) fn try_lock(&self) -> Result<Option<Locked<'_>>> {
        let lock = self.writer_lock();
        Ok(lock.try_lock()?.map(|_| Locked { lock, _here: PhantomData }))
    }

    /// Learns how long the file is, if somebody has made it shorter: what lies behind the end must
    /// not be touched.
    #[inline]
    pub(crate) fn note_cuts(&self) -> Result<()> {
        let cuts = self.load(session::CUTS);
        if self.cuts.load(Ordering::Relaxed) != cuts {
            self.map.refresh_len()?;
            self.cuts.store(cuts, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Turns at waiting for the disk, for all who want that.
    pub(crate) fn sync_turns(&self) -> Turns<'_> {
        Turns::in_head(&self.map, session::SYNC_LOCK, session::SYNCS).opened_after(self.moves)
    }

    /// The number of the newest commit, also while a leaf of it is changed.
    #[inline(always)]
    fn newest_number(&self) -> u64 {
        self.load(session::STATE) & !CHANGING
    }

    /// The newest commit.
    #[inline(always)]
    pub(crate) fn newest(&self) -> Commit {
        if let Some(only) = &self.only {
            return only.commit;
        }
        loop {
            let number = self.newest_number();
            let at = session::COMMITS[(number % 2) as usize] as usize / 8;
            let words: [u64; COMMIT_WORDS] =
                std::array::from_fn(|i| self.map.head()[at + i].load(Ordering::Acquire));
            // It is written over when there have been two more.
            if self.newest_number() == number {
                return Commit { number, ..Commit::of(words) };
            }
        }
    }

    /// Makes a commit the newest; only who has the lock.
    pub(crate) fn publish(&self, commit: &Commit) {
        let at = session::COMMITS[(commit.number % 2) as usize] as usize / 8;
        for (i, word) in commit.words().into_iter().enumerate() {
            self.map.head()[at + i].store(word, Ordering::Release);
        }
        self.word(session::STATE).store(commit.number, Ordering::SeqCst);
        self.ring();
    }

    /// Whether what the newest commit says of itself can be.
    fn check_newest(&self) -> Result<()> {
        loop {
            let commit = self.newest();
            match self.check_commit(&commit).and_then(|()| self.check_durable(&commit)) {
                // The file may have been made shorter for one that came since, or that one be durable.
                Err(_) if self.newest_number() != commit.number => {}
                checked => return checked,
            }
        }
    }

    /// Whether the newest commit is none before the durable one: then nothing would be synced any more.
    pub(crate) fn check_durable(&self, newest: &Commit) -> Result<()> {
        if self.load(session::DURABLE).max(self.load(session::BASE)) <= newest.stamp {
            return Ok(());
        }
        Err(Error::corrupt(session::DURABLE, "a durable commit that is newer than the newest"))
    }

    /// Whether what a commit says of itself can be.
    pub(crate) fn check_commit(&self, commit: &Commit) -> Result<()> {
        let len = self.map.refresh_len()?;
        // So far from the end of numbers that they can be counted on.
        let is_sane = commit.stamp != 0
            && commit.stamp < FIXED / 2
            && commit.number < FIXED / 2
            && commit.end >= FIRST_PAGES
            && [commit.main, commit.catalog]
                .iter()
                .all(|tree| (tree.kind, tree.last_number) == (0, 0))
            && commit.end < MAX_PAGES;
        if !is_sane {
            let at = session::COMMITS[(commit.number % 2) as usize];
            return Err(Error::corrupt(at, "a commit that cannot be"));
        }
        if commit.end * PAGE_BYTES > len {
            self.map.check_addresses()?;
            return Err(Error::corrupt(len, "the file is shorter than its newest commit says"));
        }
        Ok(())
    }

    /// Whether there can be commits after this one.
    #[inline]
    pub(crate) fn check_stamp(&self, commit: &Commit) -> Result<()> {
        if commit.stamp < FIXED / 2 { Ok(()) } else { self.check_commit(commit) }
    }

    /// Sees to it that the pages of a commit can be reached: others may have made the file longer.
    #[inline]
    pub(crate) fn reach(&self, commit: &Commit) -> Result<()> {
        self.note_cuts()?;
        if commit.end <= self.map.len() / PAGE_BYTES { Ok(()) } else { self.check_commit(commit) }
    }

    /// The two words of the table of pages for a page.
    #[inline(always)]
    pub(crate) fn entry(&self, page: u64) -> Result<[&AtomicU64; 2]> {
        let words = || {
            let at = self.entry_at(page)?;
            Some([self.map_word(at)?, self.map_word(at + 8)?])
        };
        words().ok_or_else(|| no_entry(page))
    }

    /// Where they are in the file.
    #[inline(always)]
    pub(crate) fn entry_at(&self, page: u64) -> Option<u64> {
        let (block, i) = table_of(page);
        // Damage may name a page that there cannot be: the last block tells of no others.
        if block >= TABLES {
            return None;
        }
        let from = self.word(session::TABLES + 8 * block).load(Ordering::Acquire);
        let from = from.checked_mul(PAGE_BYTES).filter(|from| *from != 0)?;
        from.checked_add(ENTRY * i)
    }

    /// Makes the locks and words that processes share as long as the machine runs.
    fn begin_session(&self) -> Result<()> {
        let recovered = self.recovered()?.ok_or_else(no_durable)?;
        let (base, durable) = (&recovered.base, recovered.commit);
        self.check_said(&recovered)?;
        if durable.stamp > FIRST_STAMP {
            // The boot may be another by what a container is told, and this in the kernel's memory alone, left by who was killed.
            self.map.sync()?;
        }
        if self.is_left(&recovered) {
            // Nothing is written to a store that is damaged.
            let file = self.map.file();
            Core::mapped(file, false, None, Header::decode)?.durable_to_read(file)?;
        }
        if recovered.since.is_some() {
            // How long the file was may not have come to the disk.
            self.map.grow_to(durable.end * PAGE_BYTES, &mut false)?;
            self.redo(&recovered)?;
        }
        self.check_commit(&durable)?;
        let store = |at, value| self.word(at).store(value, Ordering::Release);
        for at in (session::STATE..session::TABLES).step_by(8) {
            store(at, 0);
        }
        for at in (session::SLOTS..session::END).step_by(8) {
            store(at, 0);
        }
        store(session::MOVED, 0);
        self.publish(&durable);
        store(session::DURABLE, durable.stamp);
        store(session::BASE, base.commit.stamp);
        if let Some(journal) = base.journal {
            // It is needed until all is where it belongs.
            store(session::JOURNAL, journal.page);
            store(session::JOURNAL_PAGES, journal.pages);
        }
        store(session::UNSWEPT, 1);
        store(session::UNSUMMED, 1);
        self.share()
    }

    /// Makes the locks, and says that they can be used.
    fn share(&self) -> Result<()> {
        self.writer_lock().init()?;
        self.sync_turns().init()?;
        Session::at(&self.map, session::BOOT_LOW).begin();
        Ok(())
    }

    /// Goes on where others ended: nobody else has the store open, so that no lock is held and nobody
    /// reads, whatever the file says. What a writer left half done is known by other words.
    fn take_over(&self) -> Result<()> {
        self.undo_change()?;
        let mut slot_pages = (0..session::SLOT_PAGE_COUNT).map(|i| session::SLOT_PAGES + 8 * i);
        if slot_pages.any(|at| self.load(at) != 0) {
            self.forget_slot_pages();
        }
        self.word(session::SLOTS_USED).store(0, Ordering::SeqCst);
        if self.load(session::SETTLED) != 0 {
            // The file may be a copy, of which nothing is on the disk yet.
            self.word(session::SETTLED).store(session::SETTLED_IN_MEMORY, Ordering::SeqCst);
        }
        for at in (session::SLOTS..session::END).step_by(8) {
            self.word(at).store(0, Ordering::SeqCst);
        }
        self.share()
    }

    /// Gives up the further pages of readers' slots.
    fn forget_slot_pages(&self) {
        let store = |at, value| self.word(at).store(value, Ordering::SeqCst);
        // First: the pages are free when a writer has looked at the whole table.
        store(session::UNSWEPT, 1);
        for i in 0..session::SLOT_PAGE_COUNT {
            store(session::SLOT_PAGES + 8 * i, 0);
        }
    }

    /// Whether a commit is safe against the loss of power.
    pub(crate) fn is_durable(&self, stamp: u64) -> Result<bool> {
        if self.only().is_none() {
            return Ok(self.load(session::DURABLE) >= stamp);
        }
        // Who was killed while he made it so may have it in memory alone.
        let is_of_this_boot = Session::at(&self.map, session::BOOT_LOW).is_of_this_boot();
        if is_of_this_boot && self.load(session::SYNCING) != 0 {
            return Ok(false);
        }
        Ok(self.durable()?.is_some_and(|durable| durable.stamp >= stamp))
    }

    /// The newest commit that is durable.
    pub(crate) fn durable(&self) -> Result<Option<Commit>> {
        Ok(self.recovered()?.map(|recovered| recovered.commit))
    }

    /// The durable commit in one of the two places.
    pub(crate) fn meta(&self, place: usize) -> Option<Meta> {
        let from = METAS[place] as usize / 8;
        let words: [u64; META_WORDS] =
            std::array::from_fn(|i| self.map.head()[from + i].load(Ordering::Relaxed));
        Meta::decode(words, &self.header)
    }

    /// Writes a durable commit to one of its places; `None` empties it.
    pub(crate) fn write_meta(&self, place: usize, meta: Option<&Meta>) {
        let words = meta.map_or([0; META_WORDS], |meta| meta.encode(&self.header));
        for (i, word) in words.into_iter().enumerate() {
            self.map.head()[METAS[place] as usize / 8 + i].store(word, Ordering::Release);
        }
    }

    /// From now on every page that is read is compared with its checksum, if it has one.
    pub(crate) fn check_reads(&mut self) -> Result<()> {
        self.checks_reads = true;
        self.ensure_swept()
    }

    /// Has the table of pages be what the newest commit says of it: after a power failure it may be of any that
    /// came later, until somebody has written, and checksums those of other pages. Where nobody may write,
    /// [`AsOf`] says what it should be.
    pub(crate) fn ensure_swept(&self) -> Result<()> {
        if self.only().is_none() && self.load(session::UNSWEPT) != 0 {
            drop(Writer::begin(self)?);
        }
        Ok(())
    }

    pub(crate) fn checks_reads(&self) -> bool {
        self.checks_reads
    }

    /// Compares a page that is held with its checksum.
    pub(crate) fn check_page(&self, number: u64, bytes: &Bytes) -> Result<()> {
        let sum = match AsOf::of_only(self) {
            Some(table) => table.words(number)?[1][1],
            None => self.entry(number)?[1].load(Ordering::Acquire),
        };
        if sum & SUMMED == 0 || sum == page_sum(bytes, number) {
            return Ok(());
        }
        Err(bad_page_sum(number))
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.path.is_none()
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The error, naming the store's file.
    #[cold]
    pub(crate) fn named(&self, error: Error) -> Error {
        match &self.path {
            Some(path) => error.at(path),
            None => error,
        }
    }

    /// So many transactions more are neither committed nor dropped; only who has the lock.
    #[inline]
    pub(crate) fn count_transactions(&self, more: i64) {
        let count = self.transactions.load(Ordering::Relaxed);
        self.transactions.store(count.wrapping_add_signed(more), Ordering::Relaxed);
    }

    /// What the last writer of this process left; only who has the lock.
    pub(crate) fn scratch(&self) -> Lent<'_> {
        // Not waited for: in a forked process nobody may be there to let it go.
        match self.scratch.try_lock() {
            Ok(scratch) => Lent::Left(scratch),
            // A writer that panics leaves it as it is to be.
            Err(TryLockError::Poisoned(scratch)) => Lent::Left(scratch.into_inner()),
            Err(TryLockError::WouldBlock) => Lent::New(Box::default()),
        }
    }

    /// If nobody else has the store open, makes everything durable. Of two who close it at the same
    /// moment each may find the other: then nobody does, as after the death of the last.
    fn close(&self) -> Result<()> {
        if !self.has_joined.load(Ordering::Relaxed) || self.is_in_memory() {
            return Ok(());
        }
        if_alone(self.map.file(), || {
            // What the dead hold would stay.
            super::pins::clear_dead(self);
            self.sync_commits(self.newest().stamp, How::Closed)
        })
    }

    /// What is read, if nothing may be written.
    #[inline(always)]
    pub(crate) fn only(&self) -> Option<&Only> {
        self.only.as_ref()
    }

    /// An error if nothing may be written.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.only {
            None => Ok(()),
            Some(_) => {
                Err(Error::invalid("the store was opened to be read only: open it to write"))
            }
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.transactions.load(Ordering::Relaxed) > 0 {
            // Forgotten, with the lock held: it must stay where it is.
            self.map.keep();
            return;
        }
        // There is nobody to tell; what is not durable yet is safe as long as the machine runs.
        let _ = self.close();
    }
}

#[cold]
pub(super) fn no_durable() -> Error {
    Error::corrupt(METAS[0], "neither of the two durable commits is whole")
}

#[cold]
pub(crate) fn no_entry(page: u64) -> Error {
    let at = session::TABLES + 8 * table_of(page).0;
    Error::corrupt(at, "the table of pages leads outside of the file")
}

#[cold]
pub(crate) fn bad_page_sum(page: u64) -> Error {
    Error::corrupt(page * PAGE_BYTES, "the page's checksum does not fit")
}

#[cfg(test)]
mod tests {
    use super::super::format::{FIRST_TABLE, first_of_table, table_pages};
    use super::*;
    use crate::os::shared::HEAD_BYTES;

    #[test]
    fn the_blocks_of_the_table_tell_of_every_page_once() {
        let mut next = 0;
        for block in 0..TABLES {
            assert_eq!(first_of_table(block), next);
            assert_eq!(table_of(next), (block, 0));
            let pages = table_pages(block) * FIRST_TABLE;
            assert_eq!(table_of(next + pages - 1), (block, pages - 1));
            next += pages;
        }
        assert!(next >= MAX_PAGES);
        const { assert!(HEAD_BYTES == PAGE_BYTES) };
    }

    /// Page 0 may name any, as that of the journal, and any place for a block of the table.
    #[test]
    fn no_entry_is_that_of_a_page_that_cannot_be() {
        let core = Core::in_memory().unwrap();
        core.word(session::TABLES + 8 * (TABLES - 1)).store(1, Ordering::Release);
        for page in [first_of_table(TABLES), 1 << 62, (1 << 63) - 1, u64::MAX] {
            assert!(core.entry(page).unwrap_err().is_bad_file());
        }
    }

    /// The file has holes, and what it says of itself is right.
    #[test]
    fn a_file_that_is_too_long_to_be_mapped_is_an_error() {
        let file = memory_file().unwrap();
        create_file(&file).unwrap();
        file.set_len(1 << 62).unwrap();
        Core::of(file, false, Some(Path::new("store"))).unwrap_err();
    }
}
