//! Opening a store whose kind is not known: it is recognised by its content.

use crate::constant::{self, Constant};
use crate::foreign::{self, Cdb, Cdb64, Mcdb};
use crate::os::file::{open_regular, read_exact_at};
use crate::{Access, Advice, Bytes, Error, ErrorKind, Get, Residency, Result, Scan};
use std::path::Path;

/// Bytes looked at: as many as the longest header of a foreign file has.
const HEAD_BYTES: u64 = 4096;

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

/// How to open a store of whatever kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    access: Access,
    advice: Option<Advice>,
}

impl OpenOptions {
    /// Map the file, with the kernel's default read-ahead.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the file is read: mapped (the default), with `pread`, or copied into huge pages.
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

    /// Opens the store at `path`: a constant file by its magic number, mcdb, cdb64 and cdb, which
    /// have none, by the chain of 256 table offsets in the header.
    ///
    /// # Errors
    /// The file is missing, may not be read, is of no known kind, or is truncated.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        match recognise(path).map_err(|e| e.at(path))? {
            Kind::Constant => {
                let options = constant::OpenOptions::new().access(self.access);
                let options = match self.advice {
                    Some(advice) => options.advice(advice),
                    None => options,
                };
                options.open(path).map(Store::Constant)
            }
            Kind::Mcdb => self.foreign(Mcdb::options()).open(path).map(Store::Mcdb),
            Kind::Cdb64 => self.foreign(Cdb64::options()).open(path).map(Store::Cdb64),
            Kind::Cdb => self.foreign(Cdb::options()).open(path).map(Store::Cdb),
        }
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
    Mcdb,
    Cdb64,
    Cdb,
}

fn recognise(path: &Path) -> Result<Kind> {
    let (file, meta) = open_regular(path)?;
    let mut head = vec![0; meta.len().min(HEAD_BYTES) as usize];
    read_exact_at(&file, &mut head, 0)?;
    if head.starts_with(&constant::MAGIC) {
        return Ok(Kind::Constant);
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
    let found = if head.is_empty() {
        "it is empty".into()
    } else if looks_like_text(&head) {
        "it looks like text; if it is a dump, `credenza load` makes a store of it".into()
    } else {
        format!(
            "its {} bytes have neither the magic number of a constant file, nor a header whose \
             tables follow each other as in an mcdb, cdb64 or cdb file",
            meta.len()
        )
    };
    Err(Error::new(ErrorKind::WrongFormat { expected: "a store", found }))
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
            Store::Cdb($inner) => $with,
            Store::Cdb64($inner) => $with,
            Store::Mcdb($inner) => $with,
        }
    };
}

impl Store {
    /// What kind of store it is: "constant", "cdb", "cdb64" or "mcdb".
    pub fn kind(&self) -> &'static str {
        match self {
            Store::Constant(_) => "constant",
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

    /// What is in the store.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub fn stats(&self) -> Result<StoreStats> {
        Ok(match self {
            Store::Constant(store) => store.stats()?.into(),
            Store::Cdb(store) => store.stats()?.into(),
            Store::Cdb64(store) => store.stats()?.into(),
            Store::Mcdb(store) => store.stats()?.into(),
        })
    }

    /// Reads the whole file into memory and returns when it is there.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn preload(&self) -> Result<()> {
        each!(self, store => store.preload())
    }

    /// Tells the kernel about coming accesses; nothing to tell for [`Access::Read`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        each!(self, store => store.advise(advice))
    }

    /// How much of the file is in memory.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn residency(&self) -> Result<Residency> {
        each!(self, store => store.residency())
    }

    /// Keeps the file in memory as long as it is open.
    ///
    /// # Errors
    /// The limit of locked memory (`ulimit -l`) is too low, or the file is opened with
    /// [`Access::Read`], which has no memory to lock.
    pub fn lock_in_memory(&self) -> Result<()> {
        each!(self, store => store.lock_in_memory())
    }
}

impl Get for Store {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        each!(self, store => store.get(key))
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        each!(self, store => store.get_all(key))
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        each!(self, store => store.contains_key(key))
    }

    fn get_many<K, F>(&self, keys: &[K], f: F) -> Result<()>
    where
        K: AsRef<[u8]>,
        F: FnMut(usize, Option<&[u8]>),
    {
        each!(self, store => store.get_many(keys, f))
    }
}

impl Scan for Store {
    fn scan<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        each!(self, store => store.scan(f))
    }

    fn len(&self) -> Result<u64> {
        each!(self, store => store.len())
    }
}

/// What is in a store of whatever kind. Sizes are in bytes; keys, values, directory and slack add
/// up to the size of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Records: a key with three values counts three times.
    pub records: u64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Bytes that find records.
    pub directory_bytes: u64,
    /// Bytes not used.
    pub slack_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// What only this kind of store has: names, as in its own statistics, and numbers.
    pub more: Vec<(&'static str, u64)>,
    /// The name of the histogram of this kind of store, and its counts from 0 on.
    pub histogram: (&'static str, Vec<u64>),
}

impl From<constant::Stats> for StoreStats {
    fn from(stats: constant::Stats) -> Self {
        StoreStats {
            records: stats.records,
            key_bytes: stats.key_bytes,
            value_bytes: stats.value_bytes,
            directory_bytes: stats.directory_bytes,
            slack_bytes: stats.slack_bytes,
            file_bytes: stats.file_bytes,
            more: vec![
                ("log_bytes", stats.log_bytes),
                ("list_bytes", stats.list_bytes),
                ("buckets", stats.buckets),
                ("largest_bucket", stats.largest_bucket),
            ],
            histogram: ("fill_histogram", stats.fill_histogram),
        }
    }
}

impl From<foreign::Stats> for StoreStats {
    fn from(stats: foreign::Stats) -> Self {
        StoreStats {
            records: stats.records,
            key_bytes: stats.key_bytes,
            value_bytes: stats.value_bytes,
            directory_bytes: stats.directory_bytes,
            slack_bytes: stats.slack_bytes,
            file_bytes: stats.file_bytes,
            more: vec![("tables", stats.tables), ("slots", stats.slots)],
            histogram: ("distance_histogram", stats.distance_histogram),
        }
    }
}
