//! An open tree store, as its users see it.
//!
//! Threads: a [`BTree`] is cheap to clone, and every clone may be used from any thread, also in a
//! process forked since. Opening the same file several times, in one process or in many, gives
//! handles on the same store.

use super::compact::Pass;
use super::core::Core;
use super::edit::check_sizes;
use super::format::session;
use super::pins;
use super::snapshot::Snapshot;
use super::sync::How;
use super::transaction::Transaction;
use super::undo::Change;
use crate::durability::{Durability, Ticker};
use crate::observe::{Recorder, counted};
use crate::os::own_lock::OwnLock;
use crate::stats::{Done, Operation, Outcome, Statistics};
use crate::{Advice, Bytes, Error, Get, Result, Scan};
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// The disk is waited for when so many pages of the durable commit were replaced, and they are a
/// quarter of the file: their space can be used again then.
const RETAINED: u64 = 1024;

/// How to open a tree store.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    is_created: bool,
    is_read_only: bool,
    durability: Durability,
    checks_reads: bool,
    statistics: Option<Statistics>,
    advice: Option<Advice>,
    is_unrecorded: bool,
    lock_timeout: Option<Duration>,
}

impl OpenOptions {
    /// An existing store, for reading and writing, buffered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a new store if there is no file, or an empty one.
    #[must_use]
    pub fn create(mut self, is_created: bool) -> Self {
        self.is_created = is_created;
        self
    }

    /// Only reads, which needs no permission to write to the file, and writes nothing to it. Readers
    /// cannot say then what they read, so that nobody may write at the same time: as long as somebody
    /// has the store open to write it cannot be opened so, and the other way round. What is read is
    /// what the last process that wrote had committed; after a new start of the machine, what is
    /// durable.
    #[must_use]
    pub fn read_only(mut self, is_read_only: bool) -> Self {
        self.is_read_only = is_read_only;
        self
    }

    /// When what was committed is safe against the loss of power. Of a commit that waits for the disk, an error may be that the
    /// disk refused ([`ErrorKind::Io`](crate::ErrorKind::Io), "cannot make durable"): then the changes are there, but may not
    /// be durable until a later [`BTree::sync`] succeeds.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long a transaction, and what else changes the store, waits for others who write, before it is an error
    /// ([`ErrorKind::Busy`](crate::ErrorKind::Busy)) that says which process that is; nothing of it is done then. By default
    /// for ever. Zero is for no longer than the moment that a small change takes. A writer who was killed is not waited
    /// for; one that is stopped, or has a transaction open, is. [`BTree::verify`] waits no longer either.
    ///
    /// What else only reads, and opening, wait as they do without, where they have to; and nothing limits the wait for the disk,
    /// or for others who wait for it.
    #[must_use]
    pub fn lock_timeout(mut self, time: Duration) -> Self {
        self.lock_timeout = Some(time);
        self
    }

    /// Whether every page that is read is compared with its checksum each time; damage is an error then
    /// wherever it is, and never a wrong answer. Without it, only `verify` compares them. A lookup takes
    /// some three times as long. Pages get a checksum when the store is closed, or made durable by
    /// [`BTree::sync`]; long keys and values always have one.
    #[must_use]
    pub fn check_reads(mut self, is_checked: bool) -> Self {
        self.checks_reads = is_checked;
        self
    }

    /// What the kernel is told about coming accesses, from when the store is open: see [`BTree::advise`].
    #[must_use]
    pub fn advice(mut self, advice: Advice) -> Self {
        self.advice = Some(advice);
        self
    }

    /// Counts and times operations ([`BTree::operations`]); without it nothing is counted.
    #[must_use]
    pub fn statistics(mut self, statistics: Statistics) -> Self {
        self.statistics = Some(statistics);
        self
    }

    /// Leaves the handle out of recordings: who builds a store records that, under the name that it will have.
    #[must_use]
    pub(crate) fn unrecorded(mut self) -> Self {
        self.is_unrecorded = true;
        self
    }

    /// Opens the store at `path`.
    ///
    /// On file systems that write no page where it lies (btrfs, bcachefs, NILFS2, F2FS, and XFS, as files may share blocks
    /// there) a process that has a store open to write it keeps 9 MiB there, in files without names, and handles the signal
    /// SIGBUS for its maps of such stores, so that a full disk is an error there, too; other such signals go on to the
    /// handler that was there before. A thread that blocks the signal is ended by the kernel instead; so is one to whom
    /// others leave nothing of that for ten seconds. Nothing is kept where the store's folder may not be written, and on no
    /// more than 16 of them at a time, each subvolume being one.
    ///
    /// # Errors
    /// The file is missing, may not be opened for writing, is no tree store, or its beginning is
    /// damaged. Or somebody who may not write reads it, or the other way round: see
    /// [`OpenOptions::read_only`]. Or the statistics that are asked for cannot be had, or the recording that
    /// the environment asks for ([`record`](crate::record)). Or `/proc` is not mounted, as in a process that
    /// has another root: what was opened before stays usable there.
    pub fn open(self, path: impl AsRef<Path>) -> Result<BTree> {
        let path = path.as_ref();
        if self.is_read_only && self.is_created {
            let what = "a store that is only read cannot be made: leave out one of the two options";
            return Err(Error::invalid(what).at(path));
        }
        let core = match self.is_read_only {
            true => Core::open_to_read(path),
            false => Core::open(path, self.is_created),
        };
        let mut core = core.map_err(|e| e.at(path))?;
        core.lock_timeout = self.lock_timeout;
        if self.checks_reads {
            core.check_reads().map_err(|e| e.at(path))?;
        }
        let recorder = match self.is_unrecorded {
            true => None,
            false => Recorder::new(self.statistics.as_ref(), "btree", path)?,
        };
        let store = BTree::of(core, self.durability, recorder).map_err(|e| e.at(path))?;
        self.advice.map_or(Ok(()), |advice| store.advise(advice))?;
        Ok(store)
    }
}

/// An open tree store: tables of records in the order of their keys.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("words.btree");
/// use credenza::btree::BTree;
/// let words = BTree::create(&path)?;
/// words.insert(b"credenza", b"a cabinet")?;
/// words.insert(b"cabinet", b"a small room")?;
/// let snapshot = words.read()?;
/// let first = snapshot.main().first()?;
/// assert_eq!(first, Some((b"cabinet".to_vec(), &b"a small room"[..])));
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BTree {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Syncs now and then, until it is dropped, which is before the store is.
    _ticker: Option<Ticker>,
    core: Arc<Core>,
    /// What counts and records operations, if that is asked for.
    recorder: Option<Box<Recorder>>,
    durability: Durability,
    /// The compaction that is going on.
    compaction: OwnLock<Option<Pass>>,
}

impl BTree {
    pub(super) fn of(
        core: Core,
        durability: Durability,
        recorder: Option<Recorder>,
    ) -> Result<BTree> {
        let core = Arc::new(core);
        if durability == Durability::Sync {
            core.tracked.begin();
        }
        let ticker = match durability {
            Durability::Interval(ms) if !core.is_in_memory() && core.only().is_none() => {
                let core = Arc::downgrade(&core);
                Some(Ticker::start(ms, move || core.upgrade().map_or(Ok(()), |core| core.sync()))?)
            }
            _ => None,
        };
        let (recorder, compaction) = (recorder.map(Box::new), OwnLock::new(None));
        let shared = Shared { core, recorder, durability, compaction, _ticker: ticker };
        Ok(BTree { shared: Arc::new(shared) })
    }

    /// How to open a store, other than with the defaults.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Opens the existing store at `path`.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<BTree> {
        OpenOptions::new().open(path)
    }

    /// Opens the store at `path`, or makes it if there is none.
    ///
    /// # Errors
    /// As [`OpenOptions::open`]; or the file cannot be made.
    pub fn create(path: impl AsRef<Path>) -> Result<BTree> {
        OpenOptions::new().create(true).open(path)
    }

    /// A new store that is in memory only, and gone with its last handle. Nothing is counted.
    ///
    /// # Errors
    /// Memory is short; or the recording that the environment asks for ([`record`](crate::record)) cannot
    /// be begun.
    pub fn in_memory() -> Result<BTree> {
        let recorder = Recorder::new(None, "btree", Path::new(""))?;
        BTree::of(Core::in_memory()?, Durability::Buffered, recorder)
    }

    pub(crate) fn core(&self) -> &Core {
        &self.shared.core
    }

    #[inline(always)]
    pub(super) fn recorder(&self) -> Option<&Recorder> {
        self.shared.recorder.as_deref()
    }

    pub(super) fn durability(&self) -> Durability {
        self.shared.durability
    }

    /// The compaction that is going on, for this thread alone.
    pub(super) fn compaction(&self) -> Result<MutexGuard<'_, Option<Pass>>> {
        let lock = &self.shared.compaction;
        let found = match self.core().lock_timeout {
            None => lock.lock(),
            Some(limit) => lock.lock_within(limit).map_err(|e| self.named(e))?,
        };
        found.ok_or_else(|| self.named(Error::compacting_elsewhere()))
    }

    /// The name it was opened by; none for a store in memory.
    pub fn path(&self) -> Option<&Path> {
        self.core().path()
    }

    /// The error, naming the store's file.
    #[cold]
    pub(crate) fn named(&self, error: Error) -> Error {
        self.core().named(error)
    }

    /// Tells the kernel how this store will be read, by all clones of this handle. Where nobody says anything,
    /// that is [`Advice::Normal`], and [`Advice::Random`] from when the file takes more than half of the memory
    /// that this process may have: the kernel otherwise reads the neighbours of every page along (128 KiB by
    /// default, on some machines megabytes), which then take the place of pages that are used. Who reads all
    /// records in order, or verifies, has pages read ahead in either case. [`Advice::WillNeed`] begins to read
    /// all of it. Nothing changes for what is in memory.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        self.core().map.advise(advice).map_err(|e| self.named(e))
    }

    /// The newest state, to read as long as one likes.
    ///
    /// # Errors
    /// There are as many readers as can be: all processes together hold some 4,000 snapshots already. Where somebody writes, 32
    /// of them are sure, or 160 if several were held when he began: who wants one more waits for one to end, or for him; where
    /// it is this thread that writes, for a second.
    pub fn read(&self) -> Result<Snapshot<'_>> {
        let snapshot = Snapshot::new(self.core(), self.recorder()).map_err(|e| self.named(e))?;
        snapshot.note_time();
        Ok(snapshot)
    }

    /// The newest state, to read for so long. When that is over, whoever writes may use the space of
    /// what is replaced and removed meanwhile: who then reads on gets an error, [`ErrorKind::Expired`],
    /// and never anything else than what was in that state. As long as nobody writes it can be read
    /// longer. So a reader that is forgotten, or stopped, does not make the file grow for ever.
    ///
    /// It is read as any other snapshot, but slower: what is read is copied first, with a call of the
    /// kernel for each page, and stays in memory until the snapshot is dropped, or
    /// [`Snapshot::release_memory`] is called. Only [`Table::scan`], [`Table::scan_range`] and
    /// [`Table::count_range`], those of a [`MultiTable`], and [`Snapshot::backup`] keep nothing, and are
    /// the way to read much. Who does not know how long that takes renews the lease as he goes on
    /// ([`Snapshot::renew`]). Values that were got stay good also when the lease is over. A process that
    /// is forked cannot read its parent's: it gets that error.
    ///
    /// Time counts also while the machine sleeps. In a store that was opened to be read only it does not
    /// count, since nobody can write.
    ///
    /// ```
    /// use credenza::ErrorKind;
    /// use credenza::btree::BTree;
    /// use std::time::Duration;
    /// let store = BTree::in_memory()?;
    /// store.insert(b"key", b"old")?;
    /// let snapshot = store.read_for(Duration::ZERO)?;
    /// assert_eq!(snapshot.main().get(b"key")?, Some(&b"old"[..]));
    /// store.insert(b"key", b"new")?;
    /// let late = snapshot.main().get(b"key").unwrap_err();
    /// assert!(matches!(late.kind(), ErrorKind::Expired { .. }));
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`BTree::read`].
    ///
    /// [`ErrorKind::Expired`]: crate::ErrorKind::Expired
    /// [`Table::scan`]: super::Table::scan
    /// [`Table::scan_range`]: super::Table::scan_range
    /// [`Table::count_range`]: super::Table::count_range
    /// [`MultiTable`]: super::MultiTable
    pub fn read_for(&self, lease: Duration) -> Result<Snapshot<'_>> {
        Snapshot::leased(self.core(), self.recorder(), lease).map_err(|e| self.named(e))
    }

    /// The newest state, for one lookup, which is counted as a whole if it is.
    #[inline]
    pub(super) fn read_uncounted(&self) -> Result<Snapshot<'_>> {
        Snapshot::new(self.core(), None).map_err(|e| self.named(e))
    }

    /// Begins a transaction; waits for the one that is going on.
    ///
    /// # Errors
    /// Others wrote for longer than [`OpenOptions::lock_timeout`] ([`ErrorKind::Busy`](crate::ErrorKind::Busy)); this thread has
    /// a transaction already; the store was opened to be read only; or the table of pages is damaged.
    pub fn write(&self) -> Result<Transaction<'_>> {
        let begin = || {
            pins::provide_slots(self.core())?;
            Transaction::new(self, self.recorder())
        };
        begin().map_err(|e| self.named(e))
    }

    /// Puts a value in the main table, in a transaction of its own; whether it replaced one.
    ///
    /// # Errors
    /// As [`BTree::write`], [`TableMut::insert`](super::TableMut::insert) and [`Transaction::commit`].
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        match self.recorder() {
            None => self.insert_uncounted(key, value),
            Some(recorder) => self.insert_counted(recorder, key, value),
        }
    }

    #[inline]
    pub(super) fn insert_uncounted(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        check_sizes(key, value).map_err(|e| self.named(e))?;
        self.write_uncounted()?.change_and_commit(Change::Put(key, value))
    }

    /// Takes a key out of the main table, in a transaction of its own; whether it was there.
    ///
    /// # Errors
    /// As [`BTree::insert`].
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        match self.recorder() {
            None => self.remove_uncounted(key),
            Some(recorder) => self.remove_counted(recorder, key),
        }
    }

    #[inline]
    pub(super) fn remove_uncounted(&self, key: &[u8]) -> Result<bool> {
        self.write_uncounted()?.change_and_commit(Change::Remove(key))
    }

    /// A transaction that is part of an operation.
    pub(super) fn write_uncounted(&self) -> Result<Transaction<'_>> {
        Transaction::new(self, None).map_err(|e| self.named(e))
    }

    /// Returns when everything that was committed before is safe against the loss of power.
    ///
    /// # Errors
    /// The disk failed or is full: nobody knows what is durable then, but what was before. Or there are as many readers
    /// as can be; or the store was opened to be read only, and not all is durable.
    pub fn sync(&self) -> Result<()> {
        let sync = || self.core().sync().map_err(|e| self.named(e));
        counted(self.recorder(), Operation::Sync, None, sync, |()| Done::one(Outcome::Done, 0))
    }

    /// What is due after the commit with this stamp, when the lock is free again.
    pub(crate) fn after_commit(&self, stamp: u64) -> Result<()> {
        let core = self.core();
        let synced = |how| core.sync_commits(stamp, how).map_err(|e| self.named(e.of_done()));
        if self.shared.durability == Durability::Sync {
            synced(How::Commits)?;
            // It is no loss if there is no space for it.
            let _ = core.provide_journal();
            return Ok(());
        }
        let retained = core.load(session::RETAINED);
        if retained > RETAINED && retained > core.newest().end / 4 {
            synced(How::Pages)?;
        }
        Ok(())
    }
}

impl Get for BTree {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        self.get_counted(key)
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        self.get_all_counted(key)
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.contains_counted(key)
    }

    fn get_many<K, F>(&self, keys: &[K], f: F) -> Result<()>
    where
        K: AsRef<[u8]>,
        F: FnMut(usize, Option<&[u8]>),
    {
        self.get_many_counted(keys, f)
    }
}

impl Scan for BTree {
    fn scan<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        self.read()?.main().scan(f)
    }

    /// Each page is compared with its checksum when it is read.
    fn scan_checked<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        let mut snapshot = self.read()?;
        snapshot.check_reads()?;
        snapshot.main().scan(f)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.core().newest().main.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    /// Danger: who does not want to wait for others waits for all that another thread compacts.
    #[test]
    fn who_compacts_waits_for_another_thread_as_long_as_is_said() {
        let limit = Duration::from_millis(30);
        let folder = tempfile::tempdir().unwrap();
        let options = BTree::options().create(true).lock_timeout(limit);
        let store = options.open(folder.path().join("store")).unwrap();
        let other = store.clone();
        let compacts = other.compaction().unwrap();
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| store.compact(1 << 20).unwrap_err());
            let error = refused.join().unwrap();
            let own = std::process::id();
            assert!(
                matches!(error.kind(), ErrorKind::Busy { waited, process: Some(pid) } if *waited >= limit && *pid == own),
                "{error}"
            );
        });
        drop(compacts);
        assert!(!store.compact(1 << 20).unwrap());
    }
}
