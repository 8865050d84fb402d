//! Opening a store whose kind is not known: it is recognised by its content.

use crate::btree::{self, BTree};
use crate::constant::{self, Constant};
use crate::foreign::{self, Cdb, Cdb64, Mcdb};
use crate::hash::{self, Hash};
use crate::magic::{self, MAGIC, engine_of, engine_of_copy};
use crate::os::file::{open_regular, read_head};
use crate::os::lock::is_locked;
use crate::os::opening::OPEN;
use crate::record;
use crate::stats::{Operations, Statistics, begin_statistics};
use crate::store_files::{file_of, files_of, residency};
use crate::store_stats::{StoreStats, btree_stats, hash_stats};
use crate::{Access, Advice, Bytes, Error, ErrorKind, Get, Residency, Result, Scan};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Bytes looked at: as many as the longest header of a foreign file has.
const HEAD_BYTES: usize = 4096;

/// Opens the store at `path`, of whatever kind, with the default options.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("users.cdb");
/// # let mut writer = credenza::foreign::CdbWriter::create(&path)?;
/// # writer.add(b"bob", b"1001")?;
/// # writer.finish()?;
/// use credenza::Get;
/// let users = credenza::open(&path)?;
/// assert_eq!(users.kind(), "cdb");
/// assert_eq!(users.get(b"bob")?.as_deref(), Some(&b"1001"[..]));
/// # Ok::<(), credenza::Error>(())
/// ```
///
/// # Errors
/// As [`OpenOptions::open`].
pub fn open(path: impl AsRef<Path>) -> Result<Store> {
    OpenOptions::new().open(path)
}

/// The kind of the store at `path`, as [`Store::kind`] would call it, by its first bytes alone: what
/// follows may be damaged.
///
/// # Errors
/// The file is missing, may not be read, or is of no known kind.
pub fn kind_of(path: impl AsRef<Path>) -> Result<&'static str> {
    let path = path.as_ref();
    Ok(match recognise(path).map_err(|e| e.at(path))? {
        Kind::Constant => "constant",
        Kind::Hash => "hash",
        Kind::BTree => "btree",
        Kind::Mcdb => "mcdb",
        Kind::Cdb64 => "cdb64",
        Kind::Cdb => "cdb",
    })
}

/// Whether somebody, be it this process, has the hash or btree store at `path` open who may write to it: what
/// he writes from now on is lost if another file takes its place. Who has it open [read-only], or may not write
/// to the file, does not count: he goes on to read the old file. False for other kinds, which never change.
///
/// [read-only]: OpenOptions::read_only
///
/// It is a look, not a lock: right afterwards somebody may open the store, or close it.
///
/// # Errors
/// As [`kind_of`], or the kernel refuses.
pub fn is_open(path: impl AsRef<Path>) -> Result<bool> {
    let path = path.as_ref();
    if !matches!(kind_of(path)?, "hash" | "btree") {
        return Ok(false);
    }
    let (file, _) = open_regular(path)?;
    is_locked(&file, OPEN).map_err(|e| e.at(path))
}

/// How to open a store of whatever kind.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    access: Access,
    advice: Option<Advice>,
    is_read_only: bool,
    checks_reads: bool,
    statistics: Option<Statistics>,
    lock_timeout: Option<Duration>,
}

impl OpenOptions {
    /// Map the file, with the kernel's default read-ahead.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the file is read: mapped (the default), with `pread`, or copied into huge pages. A hash
    /// store, which changes meanwhile, is always mapped.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// What the kernel is told about coming accesses.
    #[must_use]
    pub fn advice(mut self, advice: Advice) -> Self {
        self.advice = Some(advice);
        self
    }

    /// Never writes to the file or beside it. A hash store that may be written is otherwise opened as
    /// its writers open it, so that readers can hold values in place and its index is made where there
    /// is none; so is a btree store, and nobody can have that open so while others have it open to
    /// write: see [`btree::OpenOptions::read_only`]. One that may not be, or that there is no room for on a full disk
    /// ([`hash::OpenOptions::open`](crate::hash::OpenOptions::open)), is opened for reading only.
    ///
    /// [`btree::OpenOptions::read_only`]: crate::btree::OpenOptions::read_only
    #[must_use]
    pub fn read_only(mut self, is_read_only: bool) -> Self {
        self.is_read_only = is_read_only;
        self
    }

    /// Compares every page of a btree store that is read with its checksum: see
    /// [`btree::OpenOptions::check_reads`]. Stores of other kinds are checked by [`Constant::verify`],
    /// [`Hash::verify`] and [`Hash::verify_records`].
    ///
    /// [`btree::OpenOptions::check_reads`]: crate::btree::OpenOptions::check_reads
    #[must_use]
    pub fn check_reads(mut self, is_checked: bool) -> Self {
        self.checks_reads = is_checked;
        self
    }

    /// Counts and times operations; without it nothing is counted. Opening fails for files of other
    /// formats, whose readers do not count.
    #[must_use]
    pub fn statistics(mut self, statistics: Statistics) -> Self {
        self.statistics = Some(statistics);
        self
    }

    /// How long others are waited for who write to a hash or btree store: see
    /// [`hash::OpenOptions::lock_timeout`](crate::hash::OpenOptions::lock_timeout) and
    /// [`btree::OpenOptions::lock_timeout`](crate::btree::OpenOptions::lock_timeout). Nobody writes to stores of other kinds.
    #[must_use]
    pub fn lock_timeout(mut self, time: Duration) -> Self {
        self.lock_timeout = Some(time);
        self
    }

    /// Opens the store at `path`: a constant, hash or btree file by its magic number, mcdb, cdb64 and cdb,
    /// which have none, by the chain of 256 table offsets in the header.
    ///
    /// # Errors
    /// The file is missing, may not be read, is of no known kind, or is truncated; or a hash or
    /// btree store shall be read other than mapped; or the statistics that are asked for cannot be had.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        let kind = recognise(path).map_err(|e| e.at(path))?;
        if self.statistics.is_some() && matches!(kind, Kind::Mcdb | Kind::Cdb64 | Kind::Cdb) {
            let what = "operations on files of other formats are not counted: open this one without \
                        statistics, or convert it";
            return Err(Error::invalid(what).at(path));
        }
        match kind {
            Kind::Constant => self.constant(path).map(Store::Constant),
            Kind::Hash => self.hash(path).map(Store::Hash),
            Kind::BTree => self.btree(path).map(Store::BTree),
            Kind::Mcdb => self.foreign(Mcdb::options()).open(path).map(Store::Mcdb),
            Kind::Cdb64 => self.foreign(Cdb64::options()).open(path).map(Store::Cdb64),
            Kind::Cdb => self.foreign(Cdb::options()).open(path).map(Store::Cdb),
        }
    }

    fn constant(self, path: &Path) -> Result<Constant> {
        let mut options = constant::OpenOptions::new().access(self.access);
        if let Some(advice) = self.advice {
            options = options.advice(advice);
        }
        if let Some(statistics) = self.statistics {
            options = options.statistics(statistics);
        }
        options.open(path)
    }

    pub(crate) fn hash(self, path: &Path) -> Result<Hash> {
        if self.access != Access::Map {
            let what = "a hash store changes while it is read, so that it is always mapped: leave out \
                        how it shall be read";
            return Err(Error::invalid(what).at(path));
        }
        let options = Hash::options();
        let mut options =
            self.lock_timeout.into_iter().fold(options, hash::OpenOptions::lock_timeout);
        if let Some(statistics) = self.statistics {
            options = options.statistics(statistics);
        }
        let store = or_to_read(self.is_read_only, |is_read_only| {
            let options = options.clone();
            options.read_only(is_read_only).open(path)
        })?;
        self.advice.map_or(Ok(()), |advice| store.advise(advice))?;
        Ok(store)
    }

    pub(crate) fn btree(self, path: &Path) -> Result<BTree> {
        if self.access != Access::Map {
            let what = "a btree store changes while it is read, so that it is always mapped: leave \
                        out how it shall be read";
            return Err(Error::invalid(what).at(path));
        }
        let options = BTree::options().check_reads(self.checks_reads);
        let mut options =
            self.lock_timeout.into_iter().fold(options, btree::OpenOptions::lock_timeout);
        if let Some(statistics) = self.statistics {
            options = options.statistics(statistics);
        }
        let store = or_to_read(self.is_read_only, |is_read_only| {
            let options = options.clone();
            options.read_only(is_read_only).open(path)
        })?;
        self.advice.map_or(Ok(()), |advice| store.advise(advice))?;
        Ok(store)
    }

    fn foreign<F: foreign::Format>(
        self,
        options: foreign::OpenOptions<F>,
    ) -> foreign::OpenOptions<F> {
        let options = options.access(self.access);
        match self.advice {
            Some(advice) => options.advice(advice),
            None => options,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Constant,
    Hash,
    BTree,
    Mcdb,
    Cdb64,
    Cdb,
}

/// The error for a folder of another store, which has no file in it that could be named instead.
#[cold]
fn of_folder(path: &Path) -> Option<Error> {
    let what = foreign::unread_folder(path)?;
    let found = format!("it is {what}");
    Some(Error::new(ErrorKind::WrongFormat { expected: "a store", found }).at(path))
}

fn recognise(path: &Path) -> Result<Kind> {
    let (file, meta) = open_regular(path).map_err(|e| of_folder(path).unwrap_or(e))?;
    let head = read_head(&file, meta.len(), HEAD_BYTES)?;
    let engine = engine_of(&head);
    match engine {
        Some(magic::HASH) => return Ok(Kind::Hash),
        Some(magic::BTREE) => return Ok(Kind::BTree),
        Some(magic::HASH_INDEX) => {}
        // What else there is of this library the constant engine says.
        _ if head.starts_with(&MAGIC) => return Ok(Kind::Constant),
        _ => {}
    }
    if Mcdb::recognises(&head, meta.len()) {
        return Ok(Kind::Mcdb);
    }
    if Cdb64::recognises(&head, meta.len()) {
        return Ok(Kind::Cdb64);
    }
    if Cdb::recognises(&head, meta.len()) {
        return Ok(Kind::Cdb);
    }
    let found = if engine == Some(magic::HASH_INDEX) {
        "it is the index of a hash store, whose name has no '-index' behind it".into()
    } else if head.is_empty() {
        "it is empty".into()
    } else if looks_like_text(&head) {
        "it looks like text; if it is a dump, `credenza load` makes a store of it".into()
    } else if record::begins_a_trace(&head) {
        "it is what a program did, recorded: `credenza replay` does it again".into()
    } else if begin_statistics(&head) {
        "it is what was counted of the store whose name has no '-stats' behind it".into()
    } else if let Some(what) = foreign::unread(&head) {
        format!("it is {what}")
    } else if let Some(engine) = engine_of_copy(&head) {
        format!(
            "its first bytes are no store's; a copy of what some store begins with, behind them, says that {}: if it was \
             one, and they were written over, `credenza recover` makes a store of all that is whole of it",
            magic::what_is_of(engine)
        )
    } else {
        format!(
            "its {} bytes have neither the magic number of a constant, hash or btree file, nor a header \
             whose tables follow each other as in an mcdb, cdb64 or cdb file",
            meta.len()
        )
    };
    Err(Error::new(ErrorKind::WrongFormat { expected: "a store", found }))
}

/// Opens a store as its writers do; to read only if that is asked for, or it cannot be had otherwise.
fn or_to_read<S>(is_read_only: bool, open: impl Fn(bool) -> Result<S>) -> Result<S> {
    match open(is_read_only) {
        Err(e) if !is_read_only && is_refusal(&e) => open(true),
        // Where that is refused, too, as others have it open who found room, what is missing here is room.
        Err(e) if !is_read_only && e.is_no_room() => open(true).map_err(|_| e),
        opened => opened,
    }
}

/// Whether the file may not be written.
fn is_refusal(error: &Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let ErrorKind::Io { source, .. } = error.kind() else { return false };
    matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Whether the beginning of a file is text rather than the header of any store.
fn looks_like_text(head: &[u8]) -> bool {
    let control = |b: &u8| b.is_ascii_control() && !matches!(b, b'\t' | b'\n' | b'\r');
    !head.iter().any(control)
}

/// An open store, of whatever kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Store {
    /// A constant file.
    Constant(Constant),
    /// A hash store.
    Hash(Hash),
    /// A btree store: its main table is what is read.
    BTree(BTree),
    /// A cdb file.
    Cdb(Cdb),
    /// A cdb64 file.
    Cdb64(Cdb64),
    /// An mcdb file.
    Mcdb(Mcdb),
}

/// Does `$with` with the store that is inside.
macro_rules! each {
    ($store:expr, $inner:ident => $with:expr) => {
        match $store {
            Store::Constant($inner) => $with,
            Store::Hash($inner) => $with,
            Store::BTree($inner) => $with,
            Store::Cdb($inner) => $with,
            Store::Cdb64($inner) => $with,
            Store::Mcdb($inner) => $with,
        }
    };
}

impl Store {
    /// What kind of store it is: "constant", "hash", "btree", "cdb", "cdb64" or "mcdb".
    pub fn kind(&self) -> &'static str {
        match self {
            Store::Constant(_) => "constant",
            Store::Hash(_) => "hash",
            Store::BTree(_) => "btree",
            Store::Cdb(_) => "cdb",
            Store::Cdb64(_) => "cdb64",
            Store::Mcdb(_) => "mcdb",
        }
    }

    /// Checks everything that the format lets one check; `progress` is called with bytes done and
    /// bytes to do.
    ///
    /// # Errors
    /// The file is damaged: the error names the place.
    pub fn verify(&self, progress: impl FnMut(u64, u64)) -> Result<()> {
        each!(self, store => store.verify(progress))
    }

    /// What is in the store. Of a hash store every record is read to count its bytes.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub fn stats(&self) -> Result<StoreStats> {
        Ok(match self {
            Store::Constant(store) => store.stats()?.into(),
            Store::Hash(store) => hash_stats(store)?,
            Store::BTree(store) => btree_stats(store)?,
            Store::Cdb(store) => store.stats()?.into(),
            Store::Cdb64(store) => store.stats()?.into(),
            Store::Mcdb(store) => store.stats()?.into(),
        })
    }

    /// What was done with this handle and its clones so far, and how long it took; where
    /// statistics are shared, by all processes together. `None` if it was opened without.
    pub fn operations(&self) -> Option<Operations> {
        match self {
            Store::Constant(store) => store.operations(),
            Store::Hash(store) => store.operations(),
            Store::BTree(store) => store.operations(),
            Store::Cdb(_) | Store::Cdb64(_) | Store::Mcdb(_) => None,
        }
    }

    /// Reads the whole file, and the index beside it if there is one, into memory and returns when
    /// it is there: in huge pages where the kernel can, as of a [`Constant`](crate::constant::Constant::preload).
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn preload(&self) -> Result<()> {
        match self {
            Store::Constant(store) => store.preload(),
            Store::Hash(store) => store.preload(),
            Store::BTree(store) => store.preload(),
            Store::Cdb(store) => store.preload(),
            Store::Cdb64(store) => store.preload(),
            Store::Mcdb(store) => store.preload(),
        }
    }

    /// Tells the kernel about coming accesses; nothing to tell for [`Access::Read`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        match self {
            Store::Constant(store) => store.advise(advice),
            Store::Hash(store) => store.advise(advice),
            Store::BTree(store) => store.advise(advice),
            Store::Cdb(store) => store.advise(advice),
            Store::Cdb64(store) => store.advise(advice),
            Store::Mcdb(store) => store.advise(advice),
        }
    }

    /// How much of the file, and of the index beside it if there is one, is in memory.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn residency(&self) -> Result<Residency> {
        match self {
            Store::Constant(store) => store.residency(),
            Store::Hash(store) => residency(&files_of(store)?),
            Store::BTree(store) => residency(&file_of(store)?),
            Store::Cdb(store) => store.residency(),
            Store::Cdb64(store) => store.residency(),
            Store::Mcdb(store) => store.residency(),
        }
    }

    /// Keeps the file in memory as long as it is open.
    ///
    /// # Errors
    /// The limit of locked memory (`ulimit -l`) is too low; the file is opened with
    /// [`Access::Read`], which has no memory to lock; or it is a hash store, which grows.
    pub fn lock_in_memory(&self) -> Result<()> {
        match self {
            Store::Constant(store) => store.lock_in_memory(),
            Store::Hash(store) => Err(no_locking("hash", store.path())),
            Store::BTree(store) => Err(no_locking("btree", store.path())),
            Store::Cdb(store) => store.lock_in_memory(),
            Store::Cdb64(store) => store.lock_in_memory(),
            Store::Mcdb(store) => store.lock_in_memory(),
        }
    }
}

fn no_locking(kind: &str, path: Option<&Path>) -> Error {
    let error = Error::invalid(format!(
        "a {kind} store grows and shrinks, so that it cannot be locked in memory: preload it without \
         locking"
    ));
    match path {
        Some(path) => error.at(path),
        None => error,
    }
}

impl Get for Store {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        each!(self, store => Get::get(store, key))
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        each!(self, store => Get::get_all(store, key))
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        each!(self, store => Get::contains_key(store, key))
    }

    fn get_many<K, F>(&self, keys: &[K], f: F) -> Result<()>
    where
        K: AsRef<[u8]>,
        F: FnMut(usize, Option<&[u8]>),
    {
        each!(self, store => Get::get_many(store, keys, f))
    }
}

impl Scan for Store {
    /// Of a hash store records are copied, so that `f`, which may wait for whomever, keeps no space
    /// from being reused; see [`Hash::iter`].
    fn scan<F>(&self, mut f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        match self {
            Store::Hash(store) => store.iter().try_for_each(|record| {
                let (key, value) = record?;
                f(&key, &value)
            }),
            Store::Constant(store) => store.scan(f),
            Store::BTree(store) => store.scan(f),
            Store::Cdb(store) => store.scan(f),
            Store::Cdb64(store) => store.scan(f),
            Store::Mcdb(store) => store.scan(f),
        }
    }

    fn scan_checked<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        match self {
            Store::Hash(store) => store.verify_records(|_, _| {}).and_then(|()| self.scan(f)),
            Store::Constant(store) => store.scan_checked(f),
            Store::BTree(store) => store.scan_checked(f),
            // They have none.
            Store::Cdb(_) | Store::Cdb64(_) | Store::Mcdb(_) => self.scan(f),
        }
    }

    /// Of a hash store records are not copied, as its writers wait in any case.
    fn scan_moment<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        match self {
            Store::Hash(store) => store.scan_moment(f),
            // Others do not change, or are read as they are at one moment.
            _ => self.scan_checked(f),
        }
    }

    fn len(&self) -> Result<u64> {
        each!(self, store => Scan::len(store))
    }
}
