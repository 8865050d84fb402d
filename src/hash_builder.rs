//! A new hash store in the making.
//!
//! It is built under a temporary name beside its target and takes its place when it is whole, as
//! every file of this library does. Its index goes first: an index that does not fit is made again,
//! whichever store it lies beside, so that a process killed between the two leaves the old store, or
//! none, and later the new one.

use crate::hash::{Batch, Hash};
use crate::os::publish::{Staged, keep_mode, named_beside, replace};
use crate::{Error, Result};
use std::ffi::OsString;
use std::fs::File;
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
pub struct HashBuilder {
    /// There until it is finished.
    store: Option<Hash>,
    batch: Batch,
    batch_bytes: usize,
    added: u64,
    temporary: PathBuf,
    target: PathBuf,
}

impl HashBuilder {
    /// Starts a store that will appear at, or replace, `path`.
    ///
    /// # Errors
    /// The folder is missing or may not be written, or `path` is no regular file.
    pub fn create(path: impl AsRef<Path>) -> Result<HashBuilder> {
        let path = path.as_ref();
        // Looks at the folder and at what is there, in the same words as for every other store.
        drop(Staged::create(path)?);
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (_, temporary) = named_beside(&target)?;
        // From here on the name is this builder's.
        let mut builder = HashBuilder {
            store: None,
            batch: Batch::new(),
            batch_bytes: 0,
            added: 0,
            temporary,
            target,
        };
        builder.store = Some(Hash::create(&builder.temporary)?);
        Ok(builder)
    }

    /// Adds a record; the value of a key that came before is replaced.
    ///
    /// # Errors
    /// Key or value is over its limit, or the disk is full.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.batch.insert(key, value);
        self.batch_bytes += key.len() + value.len();
        self.added += 1;
        if self.batch.len() < BATCH_RECORDS && self.batch_bytes < BATCH_BYTES {
            return Ok(());
        }
        self.flush()
    }

    /// Writes what is in the batch.
    fn flush(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        self.store.as_ref().map_or(Ok(()), |store| store.batch(&batch))
    }

    /// How many of the records added so far replaced one that was added before.
    ///
    /// # Errors
    /// As [`HashBuilder::add`].
    pub fn replaced(&mut self) -> Result<u64> {
        self.flush()?;
        let keys = self.store.as_ref().map_or(Ok(self.added), Hash::len)?;
        Ok(self.added.saturating_sub(keys))
    }

    /// Makes the store durable, puts it in its place and opens it there.
    ///
    /// # Errors
    /// The disk is full or failed: what was at the path is untouched.
    pub fn finish(mut self) -> Result<Hash> {
        self.flush()?;
        if let Some(store) = self.store.take() {
            store.sync()?;
            // The last handle: with it the index is closed, so that it is used as it is.
            drop(store);
        }
        let (index, target_index) = (index_of(&self.temporary), index_of(&self.target));
        for path in [&index, &self.temporary] {
            let file = File::open(path).map_err(|e| Error::io("open", e).at(path))?;
            keep_mode(&file, &self.target)?;
            file.sync_all().map_err(|e| Error::io("make durable", e).at(path))?;
        }
        replace(&index, &target_index)?;
        replace(&self.temporary, &self.target)?;
        // From here on the name may be another's.
        self.temporary.clear();
        Hash::open(&self.target)
    }
}

impl Drop for HashBuilder {
    fn drop(&mut self) {
        self.store = None;
        if self.temporary.as_os_str().is_empty() {
            return;
        }
        for path in [&index_of(&self.temporary), &self.temporary] {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Where the index of the store at `path` lies.
fn index_of(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push("-index");
    name.into()
}
