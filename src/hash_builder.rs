//! A new hash store in the making.
//!
//! It is built under a temporary name beside its target and takes its place when it is whole, as
//! every file of this library does. Where it replaces one its index goes first: an index that does not fit is made again,
//! whichever store it lies beside, so that a process killed between the two leaves the old store, or
//! none, and later the new one.

use crate::hash::{Batch, Hash, INDEX_FILE, check_sizes};
use crate::observe::Building;
use crate::open::OpenOptions;
use crate::os::publish::Named;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// A batch is written when it has so many records, or so many bytes.
const BATCH_RECORDS: usize = 4096;
const BATCH_BYTES: usize = 4 << 20;

/// A new hash store in the making: it appears at its path whole, or not at all. Dropped before
/// [`HashBuilder::finish`], it leaves nothing.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("users.hash");
/// let mut builder = credenza::HashBuilder::create(&path)?;
/// builder.add(b"bob", b"1001")?;
/// assert!(!path.exists());
/// let users = builder.finish()?;
/// assert_eq!(users.len()?, 1);
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing appears unless it is finished"]
pub struct HashBuilder {
    store: Hash,
    batch: Batch,
    batch_bytes: usize,
    added: u64,
    /// Whether a batch could not be written, so that records that were added are not there.
    has_failed: bool,
    /// What records what is added, if that is asked for.
    recording: Option<Box<Building>>,
    /// Dropped last: when nobody has the store open.
    place: Named,
}

impl HashBuilder {
    /// Starts a store that will appear at, or replace, `path`.
    ///
    /// # Errors
    /// The folder is missing or may not be written; `path` is no regular file, or a hash or btree store that somebody has
    /// open to write, as [`is_open`](crate::is_open) says; or the recording that the environment asks for
    /// ([`record`](crate::record)) cannot be begun.
    pub fn create(path: impl AsRef<Path>) -> Result<HashBuilder> {
        let place = Named::create(path.as_ref(), Some(INDEX_FILE))?;
        let store = Hash::options().create(true).unrecorded().open(place.path());
        let store = store.map_err(|e| place.named(e))?;
        let recording = Building::begin("hash", path.as_ref())?;
        let (batch, batch_bytes, added, has_failed) = (Batch::new(), 0, 0, false);
        Ok(HashBuilder { store, batch, batch_bytes, added, has_failed, recording, place })
    }

    /// Adds a record; the value of a key that came before is replaced.
    ///
    /// # Errors
    /// Key or value is over its limit, and the record is left out; or the disk is full or failed: drop the
    /// builder then, which refuses everything else.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, value)?;
        self.check_failed()?;
        if value.len() >= BATCH_BYTES {
            // Alone: there may be no memory for a copy.
            self.flush()?;
            let done = self.store.insert(key, value);
            self.noted(done)?;
        } else {
            self.batch.insert(key, value);
            self.batch_bytes += key.len() + value.len();
        }
        self.added += 1;
        if let Some(recording) = &mut self.recording {
            recording.added(key, value);
        }
        if self.batch.len() < BATCH_RECORDS && self.batch_bytes < BATCH_BYTES {
            return Ok(());
        }
        self.flush()
    }

    fn check_failed(&self) -> Result<()> {
        match self.has_failed {
            true => Err(Error::failed_before("building the store")),
            false => Ok(()),
        }
    }

    /// Writes what is in the batch.
    fn flush(&mut self) -> Result<()> {
        self.check_failed()?;
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let done = self.store.batch(&batch);
        self.noted(done)
    }

    /// What came of a change: the build is over with the first that failed.
    fn noted(&mut self, done: Result<()>) -> Result<()> {
        self.has_failed = done.is_err();
        done.map_err(|e| self.place.named(e))
    }

    /// How many of the records added so far replaced one that was added before.
    ///
    /// # Errors
    /// As [`HashBuilder::add`].
    pub fn replaced(&mut self) -> Result<u64> {
        self.flush()?;
        Ok(self.added.saturating_sub(self.store.len()?))
    }

    /// Makes the store durable, puts it in its place and opens it there: for reading only where the mode that
    /// it took over from the file that it replaced does not allow more, or others took the room that writing needs
    /// ([`hash::OpenOptions::open`](crate::hash::OpenOptions::open)).
    ///
    /// # Errors
    /// The disk is full or failed, or what is at the path was opened to write meanwhile: it is untouched.
    pub fn finish(self) -> Result<Hash> {
        OpenOptions::new().hash(&self.published(Named::publish)?)
    }

    /// The same where nothing is to be replaced: a store that somebody else makes there at the same moment stays.
    ///
    /// # Errors
    /// There is something at the path; or as [`HashBuilder::finish`].
    pub fn finish_new(self) -> Result<Hash> {
        OpenOptions::new().hash(&self.published(Named::publish_new)?)
    }

    /// Makes the store durable, closes it and puts it in its place; where that is.
    fn published(mut self, publish: fn(Named) -> Result<PathBuf>) -> Result<PathBuf> {
        self.flush()?;
        // The other way round these are dropped.
        let HashBuilder { place, store, mut recording, .. } = self;
        store.sync().map_err(|e| place.named(e))?;
        // The last handle: with it the index is closed, so that it is used as it is.
        drop(store);
        Building::publishing(&mut recording, || publish(place))
    }
}
