//! An open store: both files, their locks, and how a process comes to share them with others.
//!
//! Opening is done under a lock of the kernel on byte 0 of the data file, which also the death of
//! a process lets go. Whoever finds that the machine was started anew since the locks were made, or
//! that nobody else has the store open, makes them again. A store is known by its data file: which index
//! belongs to it stands there ([`super::find`]).

use super::create::{create_data, is_unborn};
use super::evict::{Worth, check_limit};
use super::format::{
    CHECKPOINTS, Checkpoint, Header, INDEX_FILE, LOG_AT, PINS_AT, PRESENT, SEGMENT_HEADER, session,
    words,
};
use super::index::Index;
use super::pending::LONG_PATIENCE;
use super::pins;
use super::writer::Writer;
use crate::keyhash;
use crate::magic::COPY_END;
use crate::os::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::os::file::{open_changing, open_regular, read_head};
use crate::os::holes::fill_holes;
use crate::os::lock::{Got, RobustLock, Want, lock_range};
use crate::os::newest::Newest;
use crate::os::opening::{OPEN, Opening, READING, await_free, if_alone, opening, refuse_writers};
use crate::os::place::sync_folder_of;
use crate::os::process::{forks, moves, prepare, random_word};
use crate::os::publish;
use crate::os::session::{Session, Standing};
use crate::os::shared::{SharedMap, memory_file};
use crate::os::turns::Turns;
use crate::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Addresses set aside for the files to grow into, where there are as many.
const DATA_ROOM: u64 = 1 << 38;
pub(super) const INDEX_ROOM: u64 = 1 << 36;
/// The same for stores that are in memory, and for an index that is only a beginning.
pub(super) const MEMORY_ROOM: u64 = 1 << 35;
const SMALL_ROOM: u64 = 1 << 20;

/// A thousand changes a microsecond do not make as many in a year.
const MOST_CHANGES: u64 = 1 << 56;
/// The same of epochs.
const MOST_EPOCHS: u64 = 1 << 41;

/// Both files of an open store.
#[derive(Debug)]
pub(crate) struct Core {
    pub data: SharedMap,
    pub header: Header,
    pub newest: Newest<Index>,
    /// The name it was opened by; none for a store in memory.
    pub(super) path: Option<PathBuf>,
    /// Whether this process takes part in what is shared of it: then it says so by a lock of the kernel.
    has_joined: AtomicBool,
    /// The index is this process's alone: made for reading where nobody may write.
    pub is_private: AtomicBool,
    seen_at_opening: [u64; 4],
    /// What [`forks`] was where it was opened.
    pub forks: u32,
    /// How often it had moved then.
    moves: u32,
    /// Transactions that are neither committed nor dropped.
    pub transactions: AtomicU64,
    /// Lookups that met what the pages do not say, and what is taken for as many.
    pub met_pending: AtomicU32,
    /// What the user says of records to be dropped.
    pub worth: Option<Worth>,
    /// The number of an emptied segment that readers were waited for to let go of, and how often.
    pub kept: AtomicU64,
    pub waits: AtomicU32,
    /// For how long who changes or syncs something waits for others who write; for ever if `None`.
    pub lock_timeout: Option<Duration>,
    /// Nothing is dropped because the disk is full: who copies a store is to know that it is not whole.
    pub is_kept_whole: bool,
}

impl Core {
    /// Opens the store at `path`, or makes one there if `is_new_wanted`.
    /// A limit of 0 is whichever the store has; a new one has none then.
    pub(crate) fn open(
        path: &Path,
        is_new_wanted: bool,
        is_reader: bool,
        limit: u64,
    ) -> Result<Core> {
        prepare();
        if is_new_wanted {
            // Else the file would be there, and nobody could use it.
            publish::refuse_long(path, INDEX_FILE.end)?;
        }
        let file = open_changing(path, is_new_wanted, !is_reader)?;
        Core::of(file, Some(path.to_owned()), is_new_wanted, !is_reader, limit)
    }

    /// A new store that exists in memory only.
    pub(crate) fn in_memory() -> Result<Core> {
        prepare();
        Core::of(memory_file()?, None, true, true, 0)
    }

    fn of(
        file: File,
        path: Option<PathBuf>,
        is_new_wanted: bool,
        is_writable: bool,
        limit: u64,
    ) -> Result<Core> {
        let want = if is_writable { Want::Exclusive } else { Want::Shared };
        opening(&file, want, session::WRITER_LOCK, |opening| {
            Core::of_locked(opening, path, is_new_wanted, is_writable, limit)
        })
    }

    fn of_locked(
        opening: &Opening<'_>,
        path: Option<PathBuf>,
        is_new_wanted: bool,
        is_writable: bool,
        limit: u64,
    ) -> Result<Core> {
        let file = opening.file();
        let len = file.metadata().map_err(|e| Error::io("ask the size of", e))?.len();
        if !(is_new_wanted && is_writable && is_unborn(file, len)?) {
            return Core::of_born(opening, path, is_writable, limit);
        }
        let born = create_data(file, limit);
        let born = born.and_then(|()| path.as_deref().map_or(Ok(()), sync_folder_of));
        let opened = born.and_then(|()| Core::of_born(opening, path, is_writable, limit));
        if opened.is_err() {
            // As it was before: half of a store would be in the way of who makes it again. Nobody else is in it yet.
            let _ = file.set_len(0);
        }
        opened
    }

    /// The store in a file that has one.
    fn of_born(
        opening: &Opening<'_>,
        path: Option<PathBuf>,
        is_writable: bool,
        limit: u64,
    ) -> Result<Core> {
        let file = opening.file();
        if !is_writable {
            // From now on the file is not cut: what is read without a pin is there, whatever it is.
            lock_range(file, READING, Want::Shared, true)?;
        }
        let len = file.metadata().map_err(|e| Error::io("ask the size of", e))?.len();
        let header = Header::decode(&read_head(file, len, COPY_END)?)?;
        check_limit(&header, limit)?;
        if len < LOG_AT + SEGMENT_HEADER {
            return Err(Error::corrupt(len, "the file ends before its first record"));
        }
        let clone = file.try_clone().map_err(|e| Error::io("open again", e))?;
        let room = if path.is_some() { DATA_ROOM.max(len.saturating_mul(4)) } else { MEMORY_ROOM };
        let data = SharedMap::new(clone, is_writable, room)?;
        let empty =
            Index::create(memory_file()?, SMALL_ROOM, header, keyhash::RAPID, random_word()?)?;
        let core = Core::new(data, header, empty, path);
        core.join(opening)?;
        Ok(core)
    }

    /// Takes part in what processes share of the store, or begins it, and finds the index.
    fn join(&self, opening: &Opening<'_>) -> Result<()> {
        let shared = Session::at(&self.data, session::BOOT_LOW);
        if !self.data.is_writable() {
            // Who may not write has no locks to share.
            return self.find_index(shared.is_of_this_boot(), false, None);
        }
        let standing = shared.standing(opening)?;
        let is_first = standing != Standing::Shared;
        if is_first && !self.is_in_memory() {
            // A copy may have holes, also where processes meet: before anything is written there.
            fill_holes(opening.file())?;
        }
        let before = if standing == Standing::Left { self.lock_left() } else { None };
        let is_continued = match (standing, before) {
            (Standing::Shared, _) => true,
            (Standing::Left, Some(_)) => {
                pins::clear_all(&self.data);
                self.share()?;
                true
            }
            // The last, with a lock that is held by nobody who lives: a copy of a store in use.
            (Standing::Over | Standing::Left, _) => {
                self.begin_session()?;
                false
            }
        };
        if is_first {
            // The file may be a copy, of which nothing is on the disk yet.
            if !self.is_in_memory() {
                self.note_copy();
            }
            self.note_data_len(0)?;
        }
        self.find_index(is_continued, is_first, before)?;
        self.session(session::FINDING).store(0, Ordering::Release);
        opening.join()?;
        self.has_joined.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// How the last writer left the lock, if he did: nobody else has the store open, so that whoever
    /// seems to hold it has it in the file that this one was copied from.
    fn lock_left(&self) -> Option<Got> {
        let lock = self.writer_lock();
        let got = lock.try_lock().ok()??;
        lock.unlock();
        Some(got)
    }

    fn new(data: SharedMap, header: Header, index: Index, path: Option<PathBuf>) -> Core {
        let is_private = AtomicBool::new(false);
        let transactions = AtomicU64::new(0);
        let newest = Newest::new(index);
        let seen_at_opening = [0; 4];
        let mut core = Core {
            data,
            header,
            newest,
            path,
            has_joined: AtomicBool::new(false),
            is_private,
            seen_at_opening,
            forks: forks(),
            moves: moves(),
            transactions,
            met_pending: AtomicU32::new(LONG_PATIENCE),
            kept: AtomicU64::new(0),
            waits: AtomicU32::new(0),
            worth: None,
            lock_timeout: None,
            is_kept_whole: false,
        };
        core.seen_at_opening = core.seen();
        core
    }

    /// Learns how long the data file is, and tells the others, with how often it was cut: so many times more
    /// than they know. Nobody else changes the length meanwhile.
    pub(crate) fn note_data_len(&self, cuts: u64) -> Result<()> {
        let known = self.session(session::DATA_LEN);
        let len_and_cuts = self.data.settle_len(known.load(Ordering::Relaxed), cuts)?;
        known.store(len_and_cuts, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the data file shorter; nobody may use what lies after, and nobody else changes the length.
    pub(crate) fn cut_data(&self, end: u64) -> Result<()> {
        // Also before: whoever looks while it is cut, or after this writer has died here, notes what he saw
        // as of before.
        self.note_data_len(1)?;
        let done = self.data.shrink_to(end);
        self.note_data_len(1)?;
        done
    }

    /// Maps a damaged store for reading, whatever is behind its header. Nothing keeps what is read of it from being written
    /// over: nobody may write.
    pub(crate) fn open_to_recover(path: &Path) -> Result<Core> {
        let (file, meta) = open_regular(path)?;
        await_free(&file, OPEN)?;
        refuse_writers(&file)?;
        let header = Header::of_damaged(&read_head(&file, meta.len(), COPY_END)?)?;
        let data = SharedMap::new(file, false, DATA_ROOM)?;
        let index =
            Index::create(memory_file()?, SMALL_ROOM, header, keyhash::RAPID, random_word()?)?;
        Ok(Core::new(data, header, index, None))
    }

    /// Whether there is no file that outlives the process.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.path.is_none()
    }

    /// A word of the session; `offset` is one of [`session`].
    #[inline(always)]
    pub(crate) fn session(&self, offset: u64) -> &AtomicU64 {
        &self.data.head()[offset as usize / 8]
    }

    /// Whether an index is the one that belongs to the data now.
    #[inline(always)]
    pub(crate) fn is_newest(&self, index: &Index) -> bool {
        self.session(session::INDEX_ID).load(Ordering::Acquire) == index.header.id
    }

    /// Whether this process was forked into another namespace since it opened the store: by its number there its pins would be
    /// taken for those of the dead, and it cannot have the lock by which it could read without.
    #[inline(always)]
    pub(super) fn has_moved(&self) -> bool {
        self.moves != moves()
    }

    /// The right to change the store.
    #[inline(always)]
    pub(crate) fn writer_lock(&self) -> RobustLock<'_> {
        RobustLock::in_head(&self.data, session::WRITER_LOCK).opened_after(self.moves)
    }

    /// Turns at waiting for the disk, for all who want that.
    pub(crate) fn sync_turns(&self) -> Turns<'_> {
        Turns::in_head(&self.data, session::SYNC_LOCK, session::SYNCS).opened_after(self.moves)
    }

    /// Makes the locks and words that processes share as long as the machine runs.
    fn begin_session(&self) -> Result<()> {
        let store = |at, value| self.session(at).store(value, Ordering::Release);
        // Before the session begins: whoever comes after one that fails must not trust it either.
        if self
            .index_file(self.session(session::INDEX_ID).load(Ordering::Acquire), false)?
            .is_none()
        {
            store(session::INDEX_ID, 0);
        }
        let [changes, epoch] = [session::CHANGES, session::EPOCH]
            .map(|word| self.session(word).load(Ordering::Acquire));
        let words = (session::EPOCH..PINS_AT).step_by(8);
        for at in words.filter(|at| *at != session::INDEX_ID) {
            store(at, 0);
        }
        pins::clear_all(&self.data);
        let durable = self.checkpoint();
        if let Some(durable) = &durable {
            store(session::CHECKPOINT, durable.number);
            store(session::SYNCED_OLDEST, durable.oldest);
            store(session::SYNCED_SEQUENCE, durable.sequence);
            store(session::SYNCED_END, durable.end);
            store(session::REUSABLE, durable.oldest);
            store(session::PROMISED, durable.sequence);
            store(session::DURABLE, durable.changes);
        }
        // What came after that checkpoint is counted as one, unless it is known how many there were: who has seen that number
        // must not meet it again. More than a store can have seen damage wrote.
        let known = if changes < MOST_CHANGES { changes } else { 0 };
        let least = durable.map_or(0, |durable| durable.changes);
        store(session::CHANGES, known.max(least) + 1);
        store(session::VISIBLE, known.max(least) + 1);
        store(session::FINDING, 1);
        // What was emptied before, of a file that is clean, has the numbers of then: with lower ones it waited, and all that is
        // emptied after it, until there is a moment in which nobody reads.
        store(session::EPOCH, if epoch < MOST_EPOCHS { epoch.max(1) } else { 1 });
        self.share()
    }

    /// Makes the locks, and says that they can be used.
    fn share(&self) -> Result<()> {
        self.writer_lock().init()?;
        self.sync_turns().init()?;
        RobustLock::in_head(&self.data, session::DISK_LOCK).init()?;
        Session::at(&self.data, session::BOOT_LOW).begin();
        Ok(())
    }

    /// Whether nobody has begun to write since a private index was made.
    pub(crate) fn is_alone(&self) -> bool {
        self.seen() == self.seen_at_opening
    }

    /// The same, and what changes when puts that waited are entered in the index.
    pub(crate) fn seen_with(&self, index: &Index) -> ([u64; 4], [u64; 2]) {
        let applied = index.word(words::APPLIED).load(Ordering::Acquire);
        (self.seen(), [applied, index.state().0])
    }

    /// What changes when somebody opens the store for writing, and finds or makes another index.
    pub(crate) fn seen(&self) -> [u64; 4] {
        let words = [session::BOOT_LOW, session::EPOCH, session::INDEX_ID, session::CHANGES];
        words.map(|word| self.session(word).load(Ordering::Acquire))
    }

    /// Where the newest whole checkpoint says the log was durable.
    pub(crate) fn checkpoint(&self) -> Option<Checkpoint> {
        self.newest_of(CHECKPOINTS)
    }

    /// Where the log begins at present, in the words of a checkpoint, as far as somebody has said so.
    pub(crate) fn present(&self) -> Option<Checkpoint> {
        self.newest_of(PRESENT).filter(|_| self.header.has_numbered_ends)
    }

    /// The newer of two that are written in turn.
    fn newest_of(&self, places: [u64; 2]) -> Option<Checkpoint> {
        let read = |at| Checkpoint::decode(self.words_at(at), &self.header);
        places.into_iter().filter_map(read).max_by_key(|c| c.number)
    }

    /// Whether what is in memory is all that was written: the power has not failed since.
    pub(crate) fn is_of_session(&self) -> bool {
        Session::at(&self.data, session::BOOT_LOW).is_of_this_boot()
            && self.session(session::FINDING).load(Ordering::Acquire) == 0
    }

    /// What lies where the checkpoint of this number does.
    pub(crate) fn checkpoint_words(&self, number: u64) -> [u64; 6] {
        self.words_at(CHECKPOINTS[(number % 2) as usize])
    }

    fn words_at(&self, at: u64) -> [u64; 6] {
        std::array::from_fn(|i| self.data.head()[at as usize / 8 + i].load(Ordering::Relaxed))
    }

    /// If nobody else has the store open, makes everything durable and says so in the index, so
    /// that it is used as it is whatever happens to the machine.
    fn close(&self) -> Result<()> {
        if !self.has_joined.load(Ordering::Relaxed) || self.is_in_memory() {
            return Ok(());
        }
        if_alone(self.data.file(), || self.close_alone())
    }

    fn close_alone(&self) -> Result<()> {
        let Some(writer) = self.writer_for_closing()? else { return Ok(()) };
        // Twice, so that a checkpoint on the disk covers everything: what is damaged later is then not
        // taken for the work of a power failure.
        writer.sync_whole()?;
        writer.sync_whole()?;
        self.sync_index(writer.index)?;
        let checkpoint = self.session(session::CHECKPOINT).load(Ordering::Relaxed);
        writer.index.store(words::CLEAN, checkpoint);
        self.sync_index(writer.index)
    }

    /// The writer, unless the index is clean as it is, or somebody writes: then others have the store open, of a forked
    /// process, which have this opening of the file, and who waited for them could be waited for.
    fn writer_for_closing(&self) -> Result<Option<Writer<'_>>> {
        let index = self.newest.get();
        if self.is_newest(index) && index.load(words::CLEAN) != 0 {
            return Ok(None);
        }
        self.try_writer()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.transactions.load(Ordering::Relaxed) > 0 {
            // Forgotten, with the lock held: it must stay where it is.
            self.data.keep();
            return;
        }
        // There is nobody to tell; the next who opens it does what is missing.
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;
    use std::os::unix::fs::FileExt;

    /// The kernel calls a name that is gone one with " (deleted)" behind it, also where the file has another.
    #[test]
    fn a_store_whose_name_is_gone_leaves_no_index_under_one_that_it_never_had() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["store", "other"].map(|name| folder.path().join(name));
        let store = Hash::create(&path).unwrap();
        store.insert(b"key", b"value").unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        std::fs::remove_file(&path).unwrap();
        store.rebuild_index(false).unwrap();
        store.insert(b"another", b"value").unwrap();
        assert_eq!(store.len().unwrap(), 2);
        drop(store);
        let is_there = |end: &str| folder.path().join(format!("store{end}")).exists();
        assert!(!is_there("") && !is_there(" (deleted)-index"));
        assert_eq!(Hash::open(&other).unwrap().len().unwrap(), 2);
    }

    /// What was emptied before has the numbers of then, and would wait for a moment in which nobody reads.
    #[test]
    fn epochs_go_on_after_a_restart_of_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        for (before, after) in [(1000, 1000), (u64::MAX, 1)] {
            let store = Hash::create(&path).unwrap();
            store.insert(b"key", b"value").unwrap();
            store.core().session(session::EPOCH).store(before, Ordering::Relaxed);
            drop(store);
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(&[0x5a; 16], session::BOOT_LOW).unwrap();
            let store = Hash::open(&path).unwrap();
            let epoch = store.core().session(session::EPOCH).load(Ordering::Relaxed);
            assert!((after..after + 10).contains(&epoch), "{epoch}");
        }
    }

    /// Danger: the counts that a writer noted who died before his record was there are taken for those of what comes there next.
    #[test]
    fn what_a_dead_writer_noted_is_of_no_other_record() {
        let store = Hash::in_memory().unwrap();
        store.insert(b"key", b"value").unwrap();
        let core = store.core();
        let writer = core.writer().unwrap();
        let tail = writer.index.load(words::TAIL);
        writer.note_intent(tail, 77, 77);
        core.session(session::DIED).store(1, Ordering::Relaxed);
        core.session(session::DATA_LEN).fetch_and(SharedMap::CUTS, Ordering::Relaxed);
        drop(writer);
        let writer = core.writer().unwrap();
        assert_eq!(writer.index.load(words::TAIL), tail);
        assert_eq!(writer.index.load(words::INTENT_AT), 0);
    }

    /// The file has holes, and what it says of itself is right.
    #[test]
    fn a_file_that_is_too_long_to_be_mapped_is_an_error() {
        let file = memory_file().unwrap();
        create_data(&file, 0).unwrap();
        file.set_len(1 << 62).unwrap();
        Core::of(file, Some("store".into()), false, true, 0).unwrap_err();
    }
}
