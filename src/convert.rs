//! From one engine to the other: what is only read is frozen, what changes again is thawed.
//!
//! An engine knows no other, so this stands above them.

use crate::btree::BTree;
use crate::btree_builder::BTreeBuilder;
use crate::constant::{self, Builder};
use crate::hash::Hash;
use crate::hash_builder::HashBuilder;
use crate::os::file::is_same;
use crate::os::publish::refuse_old;
use crate::{Error, Result, Scan};
use std::path::Path;

/// A store that changes, of which [`freeze`] makes one that does not.
pub trait Freeze: Scan {
    /// Whether the file at `path`, or that a link there leads to, is its own, by whatever name it was opened: then that can
    /// be no target.
    fn is_at(&self, path: &Path) -> bool;
}

impl Freeze for Hash {
    fn is_at(&self, path: &Path) -> bool {
        is_same(self.core().data.file(), path.metadata())
    }
}

/// Its main table.
impl Freeze for BTree {
    fn is_at(&self, path: &Path) -> bool {
        is_same(self.core().map.file(), path.metadata())
    }
}

/// Writes the records of a hash or btree store to a constant file at `path`, which appears whole or
/// not at all: smaller, faster to read, and never changed again. `progress` is called with records
/// done and records to do.
///
/// The file has what the store had at one moment: see [`Scan::scan_moment`] of each for who waits
/// meanwhile. Of a btree store it is the main table.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("users.constant");
/// use credenza::{Get, hash::Hash};
/// let users = Hash::in_memory()?;
/// users.insert(b"bob", b"1001")?;
/// credenza::freeze(&users, &path, |_, _| {})?;
/// assert_eq!(credenza::open(&path)?.get(b"bob")?.as_deref(), Some(&b"1001"[..]));
/// # Ok::<(), credenza::Error>(())
/// ```
///
/// # Errors
/// The store is damaged, the file cannot be written, or `path` is the store itself or another that somebody has open to
/// write: what was at `path` is untouched.
pub fn freeze(
    store: &impl Freeze,
    path: impl AsRef<Path>,
    mut progress: impl FnMut(u64, u64),
) -> Result<constant::Stats> {
    let path = path.as_ref();
    if store.is_at(path) {
        return Err(Error::invalid("this is the store itself: name another file").at(path));
    }
    let mut builder = Builder::create(path)?;
    let mut count = Count::of(store, &mut progress)?;
    store.scan_moment(count.each(|key, value| builder.add(key, value)))?;
    builder.finish()
}

/// Says how far something is.
struct Count<'p> {
    done: u64,
    total: u64,
    progress: &'p mut dyn FnMut(u64, u64),
}

impl<'p> Count<'p> {
    fn of(store: &impl Scan, progress: &'p mut dyn FnMut(u64, u64)) -> Result<Count<'p>> {
        Ok(Count { done: 0, total: store.len()?, progress })
    }

    /// Does `add` with a record, and counts it.
    fn each(
        &mut self,
        mut add: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> impl FnMut(&[u8], &[u8]) -> Result<()> {
        move |key, value| {
            add(key, value)?;
            self.done += 1;
            (self.progress)(self.done, self.total.max(self.done));
            Ok(())
        }
    }
}

/// Makes a hash store at `path` with the records of a store of any kind; durable when the call
/// returns. `progress` is called with records done and records to do.
///
/// The store is read as by [`Scan::scan_moment`]: the new one has what it has at one moment, who writes to a hash store waits
/// meanwhile, and a damaged record is an error and gets no checksum that fits.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let (frozen, path) = (dir.path().join("users.constant"), dir.path().join("users.hash"));
/// # let mut builder = credenza::constant::Builder::create(&frozen)?;
/// # builder.add(b"bob", b"1001")?;
/// # builder.finish()?;
/// let users = credenza::thaw(&credenza::open(&frozen)?, &path, |_, _| {})?;
/// users.insert(b"bob", b"1002")?;
/// assert_eq!(users.get(b"bob")?.as_deref(), Some(&b"1002"[..]));
/// # Ok::<(), credenza::Error>(())
/// ```
///
/// # Errors
/// There is a file at `path`, or it cannot be written; the store is damaged; or a
/// key of it has several values, where a hash store has one: then nothing appears at `path`.
pub fn thaw(
    store: &impl Scan,
    path: impl AsRef<Path>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Hash> {
    let path = path.as_ref();
    refuse_old(path)?;
    let mut builder = HashBuilder::create(path)?;
    let mut count = Count::of(store, &mut progress)?;
    store.scan_moment(count.each(|key, value| builder.add(key, value)))?;
    refuse_several("hash", builder.replaced()?).map_err(|e| e.at(path))?;
    builder.finish_new()
}

/// Makes a btree store at `path` with the records of a store of any kind in its main table, as
/// [`thaw`] makes a hash store. From a store in the order of its keys it is made fastest. Of a btree store it takes the main
/// table, as all that reads a store of any kind does; a copy with all tables is [`Snapshot::backup`](crate::btree::Snapshot::backup).
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("users.btree");
/// let users = credenza::hash::Hash::in_memory()?;
/// users.insert(b"bob", b"1001")?;
/// let in_order = credenza::thaw_btree(&users, &path, |_, _| {})?;
/// assert_eq!(in_order.read()?.main().first()?, Some((b"bob".to_vec(), &b"1001"[..])));
/// # Ok::<(), credenza::Error>(())
/// ```
///
/// # Errors
/// As [`thaw`].
pub fn thaw_btree(
    store: &impl Scan,
    path: impl AsRef<Path>,
    mut progress: impl FnMut(u64, u64),
) -> Result<BTree> {
    let path = path.as_ref();
    refuse_old(path)?;
    let mut builder = BTreeBuilder::create(path)?;
    let mut count = Count::of(store, &mut progress)?;
    store.scan_moment(count.each(|key, value| builder.add(key, value)))?;
    refuse_several("btree", builder.replaced()?).map_err(|e| e.at(path))?;
    builder.finish_new()
}

fn refuse_several(kind: &str, replaced: u64) -> Result<()> {
    match replaced {
        0 => Ok(()),
        n => Err(Error::invalid(format!(
            "keys with several values, {n} more than there are keys, where a {kind} store has one \
             value a key: dump the store, and load it with --duplicates first or last"
        ))),
    }
}
