//! A foreign file that is open, whatever its format.
//!
//! Threads: a [`Reader`] is cheap to clone, and every clone may be used from any thread; there is
//! no state that a lookup changes.

use super::check::Stats;
use super::format::{Format, Layout};
use crate::observe::{self, Recorder};
use crate::os::file::{borrowed, open_regular, read_head};
use crate::os::map::Map;
use crate::os::source::{Memory, Pread};
use crate::stats::{Done, Operation};
use crate::{Access, Advice, Bytes, Error, ErrorKind, Get, Residency, Result, Scan};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How to open a foreign file.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions<F> {
    access: Access,
    advice: Option<Advice>,
    format: PhantomData<F>,
}

impl<F: Format> OpenOptions<F> {
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

    /// Opens the file at `path`: reads its header, whatever its size.
    ///
    /// # Errors
    /// The file is missing, may not be read, is not of this format, or is truncated; or the recording that the
    /// environment asks for ([`record`](crate::record)) cannot be begun.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Reader<F>> {
        let path = path.as_ref();
        let (file, meta) = open_regular(path)?;
        let opened = self.open_file(file, meta.len()).map_err(|e| e.at(path))?;
        let recorder = Recorder::new(None, F::NAME, path)?.map(Box::new);
        Ok(Reader::new(opened, Some(path.to_owned()), recorder))
    }

    fn open_file(self, file: File, len: u64) -> Result<(Layout<F>, Data)> {
        let layout = Layout::decode(&read_head(&file, len, F::HEADER_BYTES)?, len)?;
        let data = match self.access.to(&file)? {
            Access::Map => Data::Map(Map::of_file(&file, len)?),
            Access::Memory => Data::Map(Map::copy_of(&file, len)?),
            Access::Read => Data::File(file),
        };
        if let (Data::Map(map), Some(advice)) = (&data, self.advice) {
            map.advise(advice)?;
        }
        Ok((layout, data))
    }
}

/// An open foreign file: [`Cdb`](super::Cdb), [`Cdb64`](super::Cdb64) or [`Mcdb`](super::Mcdb).
#[derive(Clone, Debug)]
pub struct Reader<F: Format> {
    inner: Arc<Inner<F>>,
}

#[derive(Debug)]
struct Inner<F> {
    layout: Layout<F>,
    data: Data,
    /// The path it was opened by, if by a path.
    path: Option<PathBuf>,
    /// What records operations, if that is asked for.
    recorder: Option<Box<Recorder>>,
}

enum Data {
    Map(Map),
    Bytes(Vec<u8>),
    File(File),
}

/// Not the bytes of a whole file.
impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Data::Map(map) => fmt::Debug::fmt(map, f),
            Data::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Data::File(file) => fmt::Debug::fmt(file, f),
        }
    }
}

/// Where to read from: what an operation is written over.
enum From<'a> {
    Memory(Memory<'a>),
    File(Pread<'a>),
}

/// Does `$with`, written over a source named `$source`, with the source that the reader has.
macro_rules! read {
    ($reader:expr, $source:ident => $with:expr) => {
        match $reader.source() {
            From::Memory($source) => $with,
            From::File($source) => $with,
        }
        .map_err(|e| $reader.name(e))
    };
}

impl<F: Format> Reader<F> {
    /// Opens the file at `path` with the default options.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(path)
    }

    /// Options to open a file with.
    pub fn options() -> OpenOptions<F> {
        OpenOptions { access: Access::default(), advice: None, format: PhantomData }
    }

    /// Reads `bytes` as a file of this format. It is not recorded.
    ///
    /// # Errors
    /// They are not of this format, or truncated.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        let layout = Layout::decode(&bytes, bytes.len() as u64)?;
        Ok(Self::new((layout, Data::Bytes(bytes)), None, None))
    }

    /// Whether `head`, the beginning of a file of `len` bytes, is that of a file of this format:
    /// sound or cut off.
    pub(crate) fn recognises(head: &[u8], len: u64) -> bool {
        match Layout::<F>::decode(head, len) {
            Ok(_) => true,
            Err(e) => matches!(e.kind(), ErrorKind::Corrupt { .. }),
        }
    }

    fn new(
        (layout, data): (Layout<F>, Data),
        path: Option<PathBuf>,
        recorder: Option<Box<Recorder>>,
    ) -> Self {
        Reader { inner: Arc::new(Inner { layout, data, path, recorder }) }
    }

    #[inline]
    fn recorder(&self) -> Option<&Recorder> {
        self.inner.recorder.as_deref()
    }

    #[inline]
    fn source(&self) -> From<'_> {
        match &self.inner.data {
            Data::Map(map) => From::Memory(Memory(map.bytes())),
            Data::Bytes(bytes) => From::Memory(Memory(bytes)),
            Data::File(file) => From::File(Pread { file, len: self.inner.layout.file_len }),
        }
    }

    /// The error with the name of the file.
    #[cold]
    fn name(&self, error: Error) -> Error {
        match &self.inner.path {
            Some(path) => error.at(path),
            None => error,
        }
    }

    /// The path it was opened by; `None` for bytes.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// What is in the file; reads every slot and the head of every record.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub fn stats(&self) -> Result<Stats> {
        read!(self, source => self.inner.layout.stats(&source))
    }

    /// Checks that the header, the hash tables and the records agree: every record is found
    /// through exactly one slot, and there is nothing else. The formats have no checksums, so
    /// that a changed byte within a value is not seen. `progress` is called with bytes done and
    /// bytes to do. Takes 24 bytes of memory for each record.
    ///
    /// # Errors
    /// The file is damaged: the error names the place; or there is no memory.
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        read!(self, source => self.inner.layout.verify(&source, &mut progress))
    }

    /// Reads the whole file into memory and returns when it is there, in huge pages where the kernel can, as of a
    /// [`Constant`](crate::constant::Constant::preload).
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn preload(&self) -> Result<()> {
        let done = match &self.inner.data {
            Data::Map(map) => map.preload(),
            Data::Bytes(_) => Ok(()),
            Data::File(file) => Pread { file, len: self.inner.layout.file_len }.preload(),
        };
        done.map_err(|e| self.name(e))
    }

    /// Tells the kernel about coming accesses; nothing to tell unless the file is mapped.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        match &self.inner.data {
            Data::Map(map) => map.advise(advice).map_err(|e| self.name(e)),
            Data::Bytes(_) | Data::File(_) => Ok(()),
        }
    }

    /// Keeps the file in memory as long as it is open.
    ///
    /// # Errors
    /// The limit of locked memory (`ulimit -l`) is too low, or the file is not mapped.
    pub fn lock_in_memory(&self) -> Result<()> {
        let locked = match &self.inner.data {
            Data::Map(map) => map.lock(),
            Data::Bytes(_) | Data::File(_) => Err(Error::invalid(
                "only a mapped store can be locked in memory, and no file in memory that has holes is; open it with \
                 Access::Map, or a copy without holes",
            )),
        };
        locked.map_err(|e| self.name(e))
    }

    /// How much of the file is in memory.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn residency(&self) -> Result<Residency> {
        let len = self.inner.layout.file_len;
        let found = match &self.inner.data {
            Data::Map(map) => map.residency(),
            Data::File(file) => Map::of_file(file, len).and_then(|map| map.residency()),
            Data::Bytes(_) => Ok(Residency { resident: len, total: len }),
        };
        found.map_err(|e| self.name(e))
    }
}

impl<F: Format> Reader<F> {
    #[inline]
    fn find(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let inner = &*self.inner;
        let found = match &inner.data {
            Data::Map(map) => find_borrowed(&inner.layout, map.bytes(), key),
            Data::Bytes(bytes) => find_borrowed(&inner.layout, bytes, key),
            Data::File(file) => {
                let source = Pread { file, len: inner.layout.file_len };
                inner.layout.find(&source, key).map(|found| found.map(Cow::Owned))
            }
        };
        found.map_err(|e| self.name(e))
    }

    fn find_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        let inner = &*self.inner;
        let all = match &inner.data {
            Data::Map(map) => all_borrowed(&inner.layout, map.bytes(), key),
            Data::Bytes(bytes) => all_borrowed(&inner.layout, bytes, key),
            Data::File(file) => {
                let source = Pread { file, len: inner.layout.file_len };
                let all = inner.layout.find_all(&source, key);
                all.map(|all| all.into_iter().map(Cow::Owned).collect())
            }
        };
        all.map_err(|e| self.name(e))
    }
}

impl<F: Format> Get for Reader<F> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        let done = |value: &Option<Bytes<'_>>| Done::found(value.as_ref().map(|v| v.len()));
        observe::counted(self.recorder(), Operation::Get, Some(key), || self.find(key), done)
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        let bytes = |all: &Vec<Bytes<'_>>| all.iter().map(|value| value.len()).sum();
        let done = |all: &Vec<_>| Done::found((!all.is_empty()).then(|| bytes(all)));
        observe::counted(self.recorder(), Operation::GetAll, Some(key), || self.find_all(key), done)
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        match self.recorder() {
            None => read!(self, source => self.inner.layout.contains(&source, key)),
            // How long the value is is recorded, too.
            Some(_) => self.get(key).map(|found| found.is_some()),
        }
    }

    fn get_many<K, G>(&self, keys: &[K], mut f: G) -> Result<()>
    where
        K: AsRef<[u8]>,
        G: FnMut(usize, Option<&[u8]>),
    {
        let Some(recorder) = self.recorder() else {
            return read!(self, source => self.inner.layout.find_many(&source, keys, &mut f));
        };
        recorder.observe_many(Operation::GetMany, None, |moved| {
            let mut each = |i: usize, value: Option<&[u8]>| {
                recorder.looked_up(moved, keys[i].as_ref(), value);
                f(i, value);
            };
            read!(self, source => self.inner.layout.find_many(&source, keys, &mut each))
        })
    }
}

impl<F: Format> Reader<F> {
    /// Every record, not counted.
    fn scan_all(&self, mut f: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        // What `f` says is not the file's, and is not called so.
        let mut stopped = None;
        let mut each = |key: &[u8], value: &[u8]| {
            f(key, value).map_err(|error| {
                stopped = Some(error);
                Error::invalid("stopped by the caller")
            })
        };
        let done = read!(self, source => self.inner.layout.scan(&source, &mut each));
        stopped.map_or(done, Err)
    }
}

impl<F: Format> Scan for Reader<F> {
    fn scan<G>(&self, mut f: G) -> Result<()>
    where
        G: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        let Some(recorder) = self.recorder() else { return self.scan_all(f) };
        recorder.observe_many(Operation::Scan, None, |moved| {
            self.scan_all(|key, value| {
                moved.record(key, value);
                f(key, value)
            })
        })
    }

    fn len(&self) -> Result<u64> {
        read!(self, source => self.inner.layout.count(&source))
    }
}

#[inline]
fn find_borrowed<'d, F: Format>(
    layout: &Layout<F>,
    bytes: &'d [u8],
    key: &[u8],
) -> Result<Option<Bytes<'d>>> {
    layout.find(&Memory(bytes), key).map(|found| found.map(Cow::Borrowed))
}

fn all_borrowed<'d, F: Format>(
    layout: &Layout<F>,
    bytes: &'d [u8],
    key: &[u8],
) -> Result<Vec<Bytes<'d>>> {
    borrowed(layout.find_all(&Memory(bytes), key)?)
}
