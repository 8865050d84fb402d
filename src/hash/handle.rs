//! An open hash store, as its users see it.
//!
//! Threads: a [`Hash`] is cheap to clone, and every clone may be used from any thread, also in a
//! process forked since. Opening the same file several times, in one process or in many, gives
//! handles on the same store.

use super::compact::Goal;
use super::core::Core;
use super::counted::Wrote;
use super::find::From;
use super::format::words;
use super::grow::is_skewed;
use super::lease::LeasedValue;
use super::options::OpenOptions;
use super::pass::Pass;
use super::pins::{self, Reader};
use super::reader::Value;
use super::writer::Writer;
use crate::durability::{Durability, Ticker};
use crate::keyhash;
use crate::observe::{self, Recorder};
use crate::os::own_lock::OwnLock;
use crate::os::process::random_word;
use crate::stats::{Done, Operation, Outcome};
use crate::{Advice, Bytes, Error, ErrorKind, Get, Result, Scan};
use std::convert;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// An index file of so many bytes is made anew when the store is emptied.
const LARGE_INDEX: u64 = 1 << 20;

/// An open hash store.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("users.hash");
/// use credenza::hash::Hash;
/// let users = Hash::create(&path)?;
/// users.insert(b"bob", b"1001")?;
/// assert_eq!(users.get(b"bob")?.as_deref(), Some(&b"1001"[..]));
/// assert_eq!(users.increment(b"logins", 1)?, 1);
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Hash {
    pub(super) shared: Arc<Shared>,
}

/// What the clones of a handle have in common.
#[derive(Debug)]
pub(super) struct Shared {
    /// Syncs now and then, until it is dropped, which is before the store is.
    ticker: Option<Ticker>,
    pub(super) core: Arc<Core>,
    /// What counts and records operations, if that is asked for.
    pub(super) recorder: Option<Box<Recorder>>,
    path: Option<PathBuf>,
    pub(super) durability: Durability,
    /// What the compaction going on is to do.
    goal: OwnLock<Option<Goal>>,
}

/// For how long a sync that nobody asked for waits for others who write: the next one tries again, and who closes the store
/// waits for the last.
const TICK_WAITS: Duration = Duration::from_millis(500);

impl Drop for Shared {
    fn drop(&mut self) {
        // It may be waiting for the lock that this thread has.
        if self.core.writer_lock().is_own()
            && let Some(ticker) = self.ticker.take()
        {
            ticker.leave();
        }
    }
}

impl Hash {
    pub(super) fn of(
        core: Core,
        path: Option<PathBuf>,
        durability: Durability,
        recorder: Option<Recorder>,
    ) -> Result<Hash> {
        let core = Arc::new(core);
        let ticker = match durability {
            // Who may not write can make nothing durable that is not.
            Durability::Interval(ms) if path.is_some() && core.data.is_writable() => {
                let core = Arc::downgrade(&core);
                Some(Ticker::start(ms, move || {
                    core.upgrade().map_or(Ok(()), |core| core.sync(Some(TICK_WAITS)))
                })?)
            }
            _ => None,
        };
        let (recorder, goal) = (recorder.map(Box::new), OwnLock::new(None));
        let shared = Shared { core, recorder, path, durability, goal, ticker };
        Ok(Hash { shared: Arc::new(shared) })
    }

    /// How to open a store, other than with the defaults.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Opens the existing store at `path` for reading and writing.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Hash> {
        OpenOptions::new().open(path)
    }

    /// Opens the store at `path`, or makes it if there is none.
    ///
    /// # Errors
    /// As [`OpenOptions::open`]; or the file cannot be made.
    pub fn create(path: impl AsRef<Path>) -> Result<Hash> {
        OpenOptions::new().create(true).open(path)
    }

    /// A new store that is in memory only, and gone with its last handle. Nothing is counted.
    ///
    /// # Errors
    /// Memory is short; or the recording that the environment asks for ([`record`](crate::record)) cannot
    /// be begun.
    pub fn in_memory() -> Result<Hash> {
        let recorder = Recorder::new(None, "hash", Path::new(""))?;
        Hash::of(Core::in_memory()?, None, Durability::Buffered, recorder)
    }

    pub(crate) fn core(&self) -> &Core {
        &self.shared.core
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
        let core = self.core();
        let _held = core.newest.hold();
        let done = core.data.advise(advice).and_then(|()| core.newest.get().map.advise(advice));
        done.map_err(|e| self.named(e))
    }

    /// The name it was opened by; none for a store in memory.
    pub fn path(&self) -> Option<&Path> {
        self.shared.path.as_deref()
    }

    /// The error, naming the store's file.
    #[cold]
    pub(super) fn named(&self, error: Error) -> Error {
        match &self.shared.path {
            Some(path) => error.at(path),
            None => error,
        }
    }

    /// Changes the store, and waits for the disk if that is asked for.
    #[inline(always)]
    pub(super) fn write<R>(&self, change: impl FnOnce(&Writer<'_>) -> Result<R>) -> Result<R> {
        self.finish(self.core().changer().and_then(|writer| change(&writer)))
    }

    /// Ends a change, when the lock is free again.
    #[inline(always)]
    pub(super) fn finish<R>(&self, changed: Result<R>) -> Result<R> {
        let done = changed.map_err(|e| self.named(e))?;
        self.core().ring();
        if self.shared.durability == Durability::Sync {
            self.core().sync(self.core().lock_timeout).map_err(|e| self.named(e.of_done()))?;
        }
        Ok(done)
    }

    /// The value of `key`, in place; `None` if it is absent.
    ///
    /// # Errors
    /// The store is damaged where it was read, or could not be read.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        let found = match &self.shared.recorder {
            None => self.core().get(key),
            Some(recorder) => self.get_counted(recorder, key),
        };
        found.map_err(|e| self.named(e))
    }

    /// The value of `key`, to be read piece by piece under a lease; `None` if it is absent. As long as a
    /// [`Value`] lives its space is not reused, however long that is. Under a lease it is kept for so long,
    /// and longer if nobody needs it; who reads later gets [`ErrorKind::Expired`], and never anything
    /// else than the value. So a slow reader, or one who is stopped, does not make the file grow.
    /// Time counts also while the machine sleeps. A process that is forked cannot read its parent's: it
    /// gets that error. Where there can be no pin, in a store that may not be written or while 64
    /// readers hold values, the value is copied at once, and never expires.
    ///
    /// ```
    /// use credenza::hash::Hash;
    /// use std::time::Duration;
    /// let store = Hash::in_memory()?;
    /// store.insert(b"film", &[7; 100_000])?;
    /// let minute = Duration::from_secs(60);
    /// let film = store.get_for(b"film", minute)?.expect("it was just put in");
    /// let (mut piece, mut at) = ([0; 65_536], 0);
    /// while at < film.len() {
    ///     at += film.read_at(&mut piece, at)? as u64;
    ///     // Here a piece is sent to somebody far away.
    ///     film.renew(minute)?;
    /// }
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Hash::get`].
    ///
    /// [`ErrorKind::Expired`]: crate::ErrorKind::Expired
    pub fn get_for(&self, key: &[u8], lease: Duration) -> Result<Option<LeasedValue<'_>>> {
        let found = || self.core().get_for(self, key, lease).map_err(|e| self.named(e));
        let len = |value: &LeasedValue<'_>| usize::try_from(value.len()).unwrap_or(usize::MAX);
        self.counted(Operation::Get, Some(key), found, |found| Done::found(found.as_ref().map(len)))
    }

    /// Gives the value of `key` to `f`, and returns what that returns; `None` if the key is absent.
    /// The fastest way to look a key up. While `f` runs no space is used again that was emptied since, as when it is a
    /// [`Value`] that is held: it should not take long.
    ///
    /// # Errors
    /// As [`Hash::get`].
    #[inline]
    pub fn get_with<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let found = match &self.shared.recorder {
            None => self.core().get_with(key, f),
            Some(recorder) => self.get_with_counted(recorder, key, f),
        };
        found.map_err(|e| self.named(e))
    }

    /// The value of each of `keys`, in their order: `f` is called once for each with its index.
    /// The waits for memory of many lookups overlap. Of a batch all changes are seen, or none. `f` should not take long, as
    /// with [`Hash::get_with`].
    ///
    /// # Errors
    /// As [`Hash::get`]; `f` has then not been called.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.get_many_counted(keys, f)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Hash::get`].
    pub fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// Gives `key` the value, whether it had one or not: not having to know makes it fast.
    ///
    /// # Errors
    /// Key or value is over its limit, or both together over that of the store; the disk is full, but for up to 2 MiB, or
    /// twice what a record takes if that is more, which insertions leave free so that keys can still be removed (a store with
    /// a limit drops its oldest records first); others wrote for longer than [`OpenOptions::lock_timeout`]
    /// ([`ErrorKind::Busy`](crate::ErrorKind::Busy)); the store is damaged, or was opened for reading only; or this thread has
    /// a transaction: nothing changed. Or waiting for the disk failed, with [`Durability::Sync`]: the change is there, but may
    /// not be durable.
    #[inline]
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let put = || {
            let core = self.core();
            let writer = core.writer_within(|| core.lock_timeout);
            let soon = writer.and_then(|w| w.put_soon(key, value));
            self.finish(match soon {
                // What waits cannot be entered: whoever settles it takes another hash.
                Err(error) if is_skewed(&error) => {
                    core.changer().and_then(|w| w.put(key, value).map(drop))
                }
                done => done,
            })
        };
        let done = |(): &()| Done::one(Outcome::Done, key.len() + value.len());
        self.counted(Operation::Insert, Some(key), put, done)
    }

    /// Gives `key` the value; returns whether it had one before.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn replace(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let done = |_: &bool| Done::one(Outcome::Done, key.len() + value.len());
        let put = || self.write(|writer| writer.put(key, value));
        self.counted(Operation::Insert, Some(key), put, done)
    }

    /// Takes `key` out; returns whether it was there.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let remove = |writer: &Writer<'_>| writer.take_out(key);
        let done = |was_there: &bool| Done::found(was_there.then_some(key.len()));
        self.counted(Operation::Remove, Some(key), || self.write(remove), done)
    }

    /// Reads the value of `key` and writes what `f` makes of it, with nobody writing in between:
    /// `None` takes the key out. Returns whether the key has a value now. `f` must not write to
    /// the same store: that is an error.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn update(
        &self,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        self.try_update(key, |old| Ok(f(old)))
    }

    /// The same where `f` may find that it cannot be done: its error is returned, and nothing has changed.
    ///
    /// ```
    /// # use credenza::hash::Hash;
    /// #[derive(Debug)]
    /// enum Failure {
    ///     NoNumber,
    ///     Store(credenza::Error),
    /// }
    ///
    /// impl From<credenza::Error> for Failure {
    ///     fn from(error: credenza::Error) -> Failure {
    ///         Failure::Store(error)
    ///     }
    /// }
    ///
    /// let visits = Hash::in_memory()?;
    /// visits.insert(b"page", b"many")?;
    /// let counted = visits.try_update(b"page", |old| {
    ///     let old = std::str::from_utf8(old.unwrap_or(b"0")).map_err(|_| Failure::NoNumber)?;
    ///     let count: u64 = old.parse().map_err(|_| Failure::NoNumber)?;
    ///     Ok(Some((count + 1).to_string().into_bytes()))
    /// });
    /// assert!(matches!(counted, Err(Failure::NoNumber)));
    /// assert_eq!(visits.get(b"page")?.as_deref(), Some(&b"many"[..]));
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `f` returned; or as [`Hash::insert`].
    pub fn try_update<E: convert::From<Error>>(
        &self,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<bool, E> {
        let mut refused = None;
        let done = self.write_counted(key, |writer| match f(writer.get(key)?) {
            Ok(new) => Ok((new.is_some(), writer.change(key, new.as_deref())?)),
            Err(error) => {
                refused = Some(error);
                // It counts as failed, and nobody reads what this says.
                Err(Error::invalid("refused by the caller"))
            }
        });
        match refused {
            Some(error) => Err(error),
            None => done.map_err(E::from),
        }
    }

    /// Gives `key` the value if it has none; returns whether it did.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn insert_if_absent(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.compare_exchange(key, None, Some(value))
    }

    /// If the value of `key` is `expected` (`None`: if it is absent), makes it `new` (`None`: takes
    /// the key out). Returns whether it did.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn compare_exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.write_counted(key, |writer| {
            if writer.get(key)? != expected {
                return Ok((false, Wrote::Nothing));
            }
            Ok((true, writer.change(key, new)?))
        })
    }

    /// Puts `more` behind the value of `key`, or gives it that value; returns the value's length.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn append(&self, key: &[u8], more: &[u8]) -> Result<u64> {
        self.write_counted(key, |writer| {
            let value = [writer.get(key)?.unwrap_or_default(), more].concat();
            writer.put(key, &value)?;
            Ok((value.len() as u64, Wrote::Value(value.len())))
        })
    }

    /// Adds to the number that the value of `key` is, in decimal digits, perhaps behind a sign; an absent key counts as 0.
    /// Returns the sum, which is written without a plus sign or zeros before it.
    ///
    /// # Errors
    /// The value is no number, or the sum is beyond 64 bits: nothing changed. Or as
    /// [`Hash::insert`].
    pub fn increment(&self, key: &[u8], by: i64) -> Result<i64> {
        self.write_counted(key, |writer| {
            let sum = sum(writer.get(key)?, by)?;
            let digits = sum.to_string();
            writer.put(key, digits.as_bytes())?;
            Ok((sum, Wrote::Value(digits.len())))
        })
    }

    /// Takes all keys out, at once.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn clear(&self) -> Result<()> {
        let clear = |writer: &Writer<'_>| {
            writer.clear()?;
            if writer.index.map.len() > LARGE_INDEX {
                let _ = self.core().new_index(writer, writer.index.header.hash_id, From::Index);
            }
            Ok(())
        };
        observe::emptied(self.shared.recorder.as_deref(), || self.write(clear))
    }

    /// The number of keys. While somebody enters a batch it waits for that; if he stands still, what he has not entered is counted.
    ///
    /// # Errors
    /// The index was replaced and cannot be read; or there is no memory for 24 bytes for each change of a batch.
    pub fn len(&self) -> Result<u64> {
        self.core().counts().map(|(count, _)| count).map_err(|e| self.named(e))
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// As [`Hash::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// How many bytes of records the store may have; 0: as many as there is room for. See
    /// [`OpenOptions::limit`].
    pub fn limit(&self) -> u64 {
        self.core().header.limit
    }

    /// Returns when everything that was written before the call, by whomever, is on the disk.
    ///
    /// # Errors
    /// The disk refuses; this thread has a transaction; or the store was opened for reading only, and not all is on the disk.
    pub fn sync(&self) -> Result<()> {
        let sync = || self.core().sync(self.core().lock_timeout).map_err(|e| self.named(e));
        self.counted(Operation::Sync, None, sync, |()| Done::one(Outcome::Done, 0))
    }

    /// Goes round the log, so that nothing is left of what was replaced or deleted before, and gives back what
    /// space it can: once, and up to three times more where what lives still lies farther behind than it need. Each call looks
    /// at about `budget` bytes, with nobody else writing meanwhile, and returns whether there is more to do: repeat it until
    /// not, at times of your choosing. Where what it moves away from must be on the disk before it is used again, it waits for
    /// the disk. Writers clean up as they go, so that this is never necessary. Where no more than an eighth
    /// of what lives was replaced or deleted, and the file is not long, it does nothing.
    ///
    /// # Errors
    /// As [`Hash::insert`]; or this process was forked, and another thread has the handle compact.
    pub fn compact(&self, budget: u64) -> Result<bool> {
        self.write(|writer| {
            // Behind the writers' lock: who waits for that has nothing that its holder may wait for.
            let goal = self.shared.goal.lock();
            let mut goal = goal.ok_or_else(Error::compacting_elsewhere)?;
            *goal = writer.compact(budget.max(1), *goal)?;
            if goal.is_none() {
                writer.shrink_index();
            }
            Ok(goal.is_some())
        })
    }

    /// Makes the index anew, as small as it can be; `with_other_hash` with another hash function and seed:
    /// then scans that are going on end with an error.
    ///
    /// # Errors
    /// As [`Hash::insert`].
    pub fn rebuild_index(&self, with_other_hash: bool) -> Result<()> {
        self.write(|writer| {
            let core = self.core();
            let made = if with_other_hash {
                core.new_index_with(writer, (keyhash::SIP, random_word()?), From::Index)
            } else {
                core.new_index(writer, writer.index.header.hash_id, From::Index)
            };
            made.map(drop)
        })
    }

    /// Those who hold values, and so the space that these are in.
    pub fn readers(&self) -> Vec<Reader> {
        pins::readers(&self.core().data)
    }
}

impl Get for Hash {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        self.get_copied_counted(key)
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        self.get_all_counted(key)
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Hash::contains_key(self, key)
    }

    fn get_many<K, F>(&self, keys: &[K], f: F) -> Result<()>
    where
        K: AsRef<[u8]>,
        F: FnMut(usize, Option<&[u8]>),
    {
        Hash::get_many(self, keys, f)
    }
}

impl Scan for Hash {
    /// As [`Hash::iter`], but that the space of what `f` is given is kept while it runs: what takes long copies its records, or
    /// goes by [`Hash::iter`].
    fn scan<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        self.scan_counted(f)
    }

    fn scan_checked<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        self.verify_records(|_, _| {})?;
        self.scan(f)
    }

    /// Every record is checked before. Writers wait meanwhile, readers do not. Where the store is opened for reading only nobody
    /// waits, and what is written meanwhile may be among the records or not.
    fn scan_moment<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        self.verify_records(|_, _| {})?;
        let _writers_wait = match self.transaction() {
            Ok(transaction) => Some(transaction),
            // It is open for reading only, or this thread keeps the others out already.
            Err(e) if matches!(e.kind(), ErrorKind::Invalid(_)) => None,
            Err(e) => return Err(e),
        };
        self.scan(f)
    }

    fn len(&self) -> Result<u64> {
        Hash::len(self)
    }
}

impl Hash {
    /// Every record, as [`Hash::iter`], not counted.
    pub(super) fn scan_all(&self, mut f: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.core().expect_scan();
        let (mut from, mut pass) = (Some(0), Pass::default());
        while let Some(start) = from {
            let mut done = Ok(());
            let mut give = |key: &[u8], value: &[u8]| {
                if done.is_ok() {
                    done = f(key, value);
                }
            };
            from = self.core().scan_page(start, &mut pass, &mut give).map_err(|e| self.named(e))?;
            done?;
        }
        Ok(())
    }
}

/// The number that a value is, 0 if there is none, and `by`.
pub(super) fn sum(value: Option<&[u8]>, by: i64) -> Result<i64> {
    let number = |value| std::str::from_utf8(value).ok()?.parse().ok();
    let old: i64 = match value {
        None => 0,
        Some(value) => number(value)
            .ok_or_else(|| Error::invalid("the value is no decimal number of 64 bits"))?,
    };
    let is_beyond = || Error::invalid(format!("{old} + {by} is beyond 64 bits"));
    old.checked_add(by).ok_or_else(is_beyond)
}

impl<'c> Writer<'c> {
    /// The value of a key, as the writer sees it.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        let (index, place) = (self.index, self.index.place(key));
        let found = index.find(&self.core.data, self, key, index.state(), place)?;
        Ok(found.map(|(at, value)| {
            self.core.used(at);
            value
        }))
    }

    /// Takes a key out, as this writer's last change; whether it was there.
    fn take_out(&self, key: &[u8]) -> Result<bool> {
        let was_there = self.delete(key)?;
        if was_there {
            self.shrink_index();
        }
        Ok(was_there)
    }

    /// Gives a key this value, or takes it out.
    #[inline]
    fn change(&self, key: &[u8], new: Option<&[u8]>) -> Result<Wrote> {
        let Some(value) = new else {
            return Ok(if self.take_out(key)? { Wrote::Removal } else { Wrote::Nothing });
        };
        self.put(key, value)?;
        Ok(Wrote::Value(value.len()))
    }

    /// Makes a large index anew of which most is empty, after keys were taken out. It is not this writer's then any more.
    #[inline]
    pub(super) fn shrink_index(&self) {
        let lines = self.index.load(words::PAGE_LINES);
        if lines > 1024 && lines > self.index.load(words::COUNT) {
            // A full disk is no reason to say that the keys are still there: it is tried again.
            let _ = self.core.new_index(self, self.index.header.hash_id, From::Index);
        }
    }
}
