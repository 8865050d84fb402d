//! Sparkey: `libsparkey.so`, which no Debian package brings. Two files: a log and a hash index.
//!
//! Tuning: no compression, hash size chosen by the library; values are read in place
//! (`valuechunk`), not copied. Where blocks of the log are compressed, a key or value may begin in one and
//! go on in the next, and the library gives it piece by piece.

#![allow(unsafe_code)]

use super::library::api;
use super::{Driver, Identity, ReadOnly, Reading, Shape, Source, Store, Threads, c_path, refused};
use crate::settings::{ALWAYS_MAPPED, Codec, Name, Takes, Values};
use crate::workload::Records;
use credenza::Result;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

/// `sparkey_logwriter`, `_logreader`, `_logiter` and `_hashreader` of sparkey.h, only ever
/// pointed to.
type Writer = c_void;
type LogReader = c_void;
type LogIter = c_void;
type HashReader = c_void;
type Chunk =
    unsafe extern "C" fn(*mut LogIter, *mut LogReader, u64, *mut *const u8, *mut u64) -> c_int;

api! {
    struct Api {
        sparkey_errstring: unsafe extern "C" fn(c_int) -> *const c_char,
        sparkey_logwriter_create: unsafe extern "C" fn(*mut *mut Writer, *const c_char, c_int, c_int) -> c_int,
        sparkey_logwriter_put: unsafe extern "C" fn(*mut Writer, u64, *const u8, u64, *const u8) -> c_int,
        sparkey_logwriter_close: unsafe extern "C" fn(*mut *mut Writer) -> c_int,
        sparkey_hash_write: unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int,
        sparkey_hash_open: unsafe extern "C" fn(*mut *mut HashReader, *const c_char, *const c_char) -> c_int,
        sparkey_hash_getreader: unsafe extern "C" fn(*mut HashReader) -> *mut LogReader,
        sparkey_hash_close: unsafe extern "C" fn(*mut *mut HashReader),
        sparkey_hash_get: unsafe extern "C" fn(*mut HashReader, *const u8, u64, *mut LogIter) -> c_int,
        sparkey_logiter_create: unsafe extern "C" fn(*mut *mut LogIter, *mut LogReader) -> c_int,
        sparkey_logiter_close: unsafe extern "C" fn(*mut *mut LogIter),
        sparkey_logiter_next: unsafe extern "C" fn(*mut LogIter, *mut LogReader) -> c_int,
        sparkey_logiter_state: unsafe extern "C" fn(*mut LogIter) -> c_int,
        sparkey_logiter_keylen: unsafe extern "C" fn(*mut LogIter) -> u64,
        sparkey_logiter_valuelen: unsafe extern "C" fn(*mut LogIter) -> u64,
        sparkey_logiter_keychunk: Chunk,
        sparkey_logiter_valuechunk: Chunk,
    }
}

/// What is compressed at once: what its own tool takes.
const BLOCK: c_int = 16 << 10;
/// `SPARKEY_ITER_ACTIVE`: the iterator stands on a record.
const ACTIVE: c_int = 1;

impl Api {
    fn check(&self, call: &str, rc: c_int) -> Result<()> {
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: the message is a C string constant of the library.
        let why = unsafe { CStr::from_ptr((self.sparkey_errstring)(rc)) };
        Err(refused(call, why.to_string_lossy()))
    }
}

pub(super) struct Sparkey {
    api: Api,
    file: PathBuf,
}

/// The names of the index and of the log, in this order.
fn names(path: &Path) -> Result<(CString, CString)> {
    Ok((c_path(&path.with_extension("spi"))?, c_path(&path.with_extension("spl"))?))
}

impl Driver for Sparkey {
    const NAME: &'static str = "sparkey";
    const THREADS: Threads = Threads::Handles;
    const SETTINGS: &'static [Takes] = &[
        ALWAYS_MAPPED,
        (Name::Compression, Values::Codecs(&[Codec::None, Codec::Snappy, Codec::Zstd])),
    ];
    const SOURCE: Option<Source> = Some(Source {
        names: &["libsparkey.so.0", "libsparkey.so"],
        package: None,
        home: "https://github.com/spotify/sparkey",
    });

    fn load(file: Option<&Path>) -> Result<Sparkey> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"sparkey_hash_get")?;
        Ok(Sparkey { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        Identity { version: String::new(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        match shape.settings.compression() {
            Codec::None => "no compression, hash size automatic, values read in place".to_owned(),
            codec => format!("{} in blocks of {BLOCK}, hash size automatic", codec.text()),
        }
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        let (api, (index, log)) = (&self.api, names(path)?);
        let mut writer = null_mut();
        let (compression, block) = match shape.settings.compression() {
            Codec::Snappy => (1, BLOCK),
            Codec::Zstd => (2, BLOCK),
            _ => (0, 0),
        };
        // SAFETY: `writer` is a place for the pointer; the name is a C string.
        let rc = unsafe {
            (api.sparkey_logwriter_create)(&raw mut writer, log.as_ptr(), compression, block)
        };
        api.check("sparkey_logwriter_create", rc)?;
        let put = records.iter().try_for_each(|(key, value)| {
            let (key_len, value_len) = (key.len() as u64, value.len() as u64);
            // SAFETY: the writer is open; key and value are readable for their lengths.
            let rc = unsafe {
                let (key, value) = (key.as_ptr(), value.as_ptr());
                (api.sparkey_logwriter_put)(writer, key_len, key, value_len, value)
            };
            api.check("sparkey_logwriter_put", rc)
        });
        // SAFETY: the writer is open and closed once.
        let closed = unsafe { (api.sparkey_logwriter_close)(&raw mut writer) };
        put?;
        api.check("sparkey_logwriter_close", closed)?;
        // SAFETY: both names are C strings; the log is closed.
        let rc = unsafe { (api.sparkey_hash_write)(index.as_ptr(), log.as_ptr(), 0) };
        api.check("sparkey_hash_write", rc)
    }

    type Writer<'d> = ReadOnly<Self::Store<'d>>;

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<Self::Writer<'_>> {
        self.open(path, shape, Reading::Warm).map(ReadOnly)
    }

    type Store<'d> = SparkeyStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<SparkeyStore<'_>> {
        let (api, (index, log)) = (&self.api, names(path)?);
        let mut reader = null_mut();
        // SAFETY: `reader` is a place for the pointer; both names are C strings.
        let rc = unsafe { (api.sparkey_hash_open)(&raw mut reader, index.as_ptr(), log.as_ptr()) };
        api.check("sparkey_hash_open", rc)?;
        // SAFETY: the reader is open; its log reader belongs to it.
        let log = unsafe { (api.sparkey_hash_getreader)(reader) };
        let is_compressed = shape.settings.compression() != Codec::None;
        let (iter, buffer) = (null_mut(), Vec::new());
        let mut store = SparkeyStore { api, reader, log, iter, is_compressed, buffer };
        store.iter = store.new_iter()?;
        Ok(store)
    }
}

pub(super) struct SparkeyStore<'d> {
    api: &'d Api,
    reader: *mut HashReader,
    log: *mut LogReader,
    /// For lookups; null until it is made.
    iter: *mut LogIter,
    is_compressed: bool,
    /// For a value that is given piece by piece.
    buffer: Vec<u8>,
}

impl SparkeyStore<'_> {
    fn new_iter(&self) -> Result<*mut LogIter> {
        let mut iter = null_mut();
        // SAFETY: the log reader is open, and `iter` a place for the pointer.
        let rc = unsafe { (self.api.sparkey_logiter_create)(&raw mut iter, self.log) };
        self.api.check("sparkey_logiter_create", rc).map(|()| iter)
    }

    /// The next piece of at most `len` bytes of the key or value on which `iter` stands. It stays
    /// until the next call: without compression it is in the map of the library.
    #[inline]
    fn piece(&self, chunk: Chunk, iter: *mut LogIter, len: u64) -> Result<&[u8]> {
        let (mut start, mut got) = (null(), 0);
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: the iterator stands on a record; two places for the answer.
        let rc = unsafe { chunk(iter, self.log, len, &raw mut start, &raw mut got) };
        self.api.check("sparkey_logiter_chunk", rc)?;
        if got == 0 {
            return Err(refused("sparkey_logiter_chunk", "a part of the record is missing"));
        }
        // SAFETY: the library gave a place with `got` bytes after it, which stay until its next call.
        Ok(unsafe { std::slice::from_raw_parts(start, got as usize) })
    }

    /// Gives the whole key or value of `len` bytes to `take`: one piece, or several put together in
    /// `buffer`.
    #[inline]
    fn whole<T>(
        &self,
        chunk: Chunk,
        iter: *mut LogIter,
        len: u64,
        buffer: &mut Vec<u8>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let first = self.piece(chunk, iter, len)?;
        if first.len() as u64 == len {
            return Ok(take(first));
        }
        buffer.clear();
        buffer.extend_from_slice(first);
        while (buffer.len() as u64) < len {
            let rest = len - buffer.len() as u64;
            buffer.extend_from_slice(self.piece(chunk, iter, rest)?);
        }
        Ok(take(buffer))
    }
}

impl Store for SparkeyStore<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (api, iter) = (self.api, self.iter);
        // SAFETY: reader and iterator are open; the key is readable for its length.
        let rc =
            unsafe { (api.sparkey_hash_get)(self.reader, key.as_ptr(), key.len() as u64, iter) };
        api.check("sparkey_hash_get", rc)?;
        // SAFETY: the iterator is open.
        if unsafe { (api.sparkey_logiter_state)(iter) } != ACTIVE {
            return Ok(false);
        }
        // SAFETY: as above, and it stands on a record.
        let len = unsafe { (api.sparkey_logiter_valuelen)(iter) };
        let mut buffer = std::mem::take(&mut self.buffer);
        let given = self.whole(api.sparkey_logiter_valuechunk, iter, len, &mut buffer, &mut take);
        self.buffer = buffer;
        given.map(|()| true)
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let api = self.api;
        let mut iter = self.new_iter()?;
        let (mut key, mut key_buffer, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
        let mut each = || {
            // SAFETY: iterator and log are open.
            api.check("sparkey_logiter_next", unsafe {
                (api.sparkey_logiter_next)(iter, self.log)
            })?;
            // SAFETY: the iterator is open.
            if unsafe { (api.sparkey_logiter_state)(iter) } != ACTIVE {
                return Ok(false);
            }
            // SAFETY: as above, and it stands on a record.
            let (key_len, value_len) = unsafe {
                ((api.sparkey_logiter_keylen)(iter), (api.sparkey_logiter_valuelen)(iter))
            };
            let value = api.sparkey_logiter_valuechunk;
            if !self.is_compressed {
                // In the map, where it stays.
                let key = self.piece(api.sparkey_logiter_keychunk, iter, key_len)?;
                self.whole(value, iter, value_len, &mut buffer, |value| take(key, value))?;
                return Ok(true);
            }
            // The block may be gone when the value comes.
            self.whole(api.sparkey_logiter_keychunk, iter, key_len, &mut key_buffer, |own| {
                key.clear();
                key.extend_from_slice(own);
            })?;
            self.whole(value, iter, value_len, &mut buffer, |value| take(&key, value))?;
            Ok(true)
        };
        let done = loop {
            match each() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(e) => break Err(e),
            }
        };
        // SAFETY: the iterator is open and closed once.
        unsafe { (api.sparkey_logiter_close)(&raw mut iter) };
        done
    }
}

impl Drop for SparkeyStore<'_> {
    fn drop(&mut self) {
        if !self.iter.is_null() {
            // SAFETY: the iterator is open and closed once.
            unsafe { (self.api.sparkey_logiter_close)(&raw mut self.iter) };
        }
        // SAFETY: the reader is open and closed once, after its iterators.
        unsafe { (self.api.sparkey_hash_close)(&raw mut self.reader) };
    }
}
