//! The numbers that other processes share, as seen from outside.
//!
//! The file is read with `pread` and never mapped: one that is cut off while we look at it is an
//! error, not SIGBUS. Nothing of it is written, and no lock is taken.

use super::layout::{BYTES, MAGIC, MOVING, begin_statistics, check};
use super::slots::path_beside;
use super::snapshot::Operations;
use crate::os::file::{open_regular, read_exact_at};
use crate::{Error, Result};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Attempts to read while nothing moves from slot to slot.
const ATTEMPTS: u32 = 10;
const REMOVED: &str = "it was removed: who has the store open since then counts elsewhere, if at all; open it again to \
                       see that";

/// Reads what the processes that use a store count, if they share it
/// ([`super::Statistics::shared`]).
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("users.constant");
/// # let mut builder = credenza::constant::Builder::create(&path)?;
/// # builder.add(b"bob", b"1001")?;
/// # builder.finish()?;
/// use credenza::Get;
/// use credenza::constant::Constant;
/// use credenza::stats::{Observer, Operation, Statistics};
///
/// let shared = Statistics::new().shared(true);
/// let users = Constant::options().statistics(shared).open(&path)?;
///
/// // In another process:
/// let observer = Observer::open(&path)?;
/// let before = observer.read()?;
/// # users.get(b"bob")?;
/// let after = observer.read()?;
/// assert_eq!(after.since(&before).of(Operation::Get).calls, 1);
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
pub struct Observer {
    file: File,
    path: PathBuf,
}

impl Observer {
    /// Opens the statistics of the store at `path`, which are in the file `NAME-stats`; `path`
    /// may also be that of this file.
    ///
    /// # Errors
    /// There is no such file, it may not be read, or it is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Observer> {
        let path = path.as_ref();
        let beside = path_beside(path);
        let path = if !beside.exists() && is_statistics(path) { path.to_owned() } else { beside };
        let (file, _) = open_regular(&path)?;
        let observer = Observer { file, path };
        observer.read()?;
        Ok(observer)
    }

    /// The path of the file of statistics.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or was removed: then nobody who opens the store from now on counts in it.
    pub fn read(&self) -> Result<Operations> {
        self.read_file().map_err(|e| e.at(&self.path))
    }

    fn read_file(&self) -> Result<Operations> {
        let mut bytes = vec![0; BYTES];
        for attempt in 1.. {
            let file = self.file.metadata().map_err(|e| Error::io("ask the size of", e))?;
            if file.nlink() == 0 {
                return Err(Error::invalid(REMOVED));
            }
            let len = file.len();
            let head = bytes.get_mut(..(BYTES as u64).min(len) as usize).unwrap_or_default();
            read_exact_at(&self.file, head, 0)?;
            check(head, len)?;
            let moving = |word: &[u8]| word.first().is_some_and(|b| b % 2 == 1);
            let before = bytes.get(8 * MOVING..8 * MOVING + 8).unwrap_or_default();
            let mut after = [0; 8];
            read_exact_at(&self.file, &mut after, 8 * MOVING as u64)?;
            if attempt == ATTEMPTS || (before == after && !moving(before)) {
                break;
            }
            std::thread::yield_now();
        }
        Operations::from_bytes(&bytes)
    }
}

/// Whether a file begins as statistics do.
fn is_statistics(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    let opened = open_regular(path).and_then(|(file, _)| read_exact_at(&file, &mut head, 0));
    opened.is_ok() && begin_statistics(&head)
}
