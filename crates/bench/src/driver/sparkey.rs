//! Sparkey: `libsparkey.so`, which no Debian package brings. Two files: a log and a hash index.
//!
//! Tuning: no compression, hash size chosen by the library; values are read in place
//! (`valuechunk`), not copied.

#![allow(unsafe_code)]

use super::library::api;
use super::{Driver, Identity, NoWriter, Reading, Shape, Source, Store, Threads, c_path, refused};
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

const NO_COMPRESSION: c_int = 0;
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

    fn tuning(&self, _: &Shape) -> String {
        "no compression, hash size automatic, values read in place".to_owned()
    }

    fn build(&self, records: &Records, _: &Shape, path: &Path) -> Result<()> {
        let (api, (index, log)) = (&self.api, names(path)?);
        let mut writer = null_mut();
        // SAFETY: `writer` is a place for the pointer; the name is a C string.
        let rc = unsafe {
            (api.sparkey_logwriter_create)(&raw mut writer, log.as_ptr(), NO_COMPRESSION, 0)
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

    type Writer<'d> = NoWriter;

    type Store<'d> = SparkeyStore<'d>;

    fn open(&self, path: &Path, _: &Shape, _: Reading) -> Result<SparkeyStore<'_>> {
        let (api, (index, log)) = (&self.api, names(path)?);
        let mut reader = null_mut();
        // SAFETY: `reader` is a place for the pointer; both names are C strings.
        let rc = unsafe { (api.sparkey_hash_open)(&raw mut reader, index.as_ptr(), log.as_ptr()) };
        api.check("sparkey_hash_open", rc)?;
        // SAFETY: the reader is open; its log reader belongs to it.
        let log = unsafe { (api.sparkey_hash_getreader)(reader) };
        let mut store = SparkeyStore { api, reader, log, iter: null_mut() };
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
}

impl SparkeyStore<'_> {
    fn new_iter(&self) -> Result<*mut LogIter> {
        let mut iter = null_mut();
        // SAFETY: the log reader is open, and `iter` a place for the pointer.
        let rc = unsafe { (self.api.sparkey_logiter_create)(&raw mut iter, self.log) };
        self.api.check("sparkey_logiter_create", rc).map(|()| iter)
    }

    /// The whole key or value of `len` bytes on which `iter` stands: without compression it is
    /// one chunk.
    #[inline]
    fn chunk(&self, chunk: Chunk, iter: *mut LogIter, len: u64) -> Result<&[u8]> {
        let (mut start, mut got) = (null(), 0);
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: the iterator stands on a record; two places for the answer.
        let rc = unsafe { chunk(iter, self.log, len, &raw mut start, &raw mut got) };
        self.api.check("sparkey_logiter_chunk", rc)?;
        if got != len {
            return Err(refused("sparkey_logiter_chunk", "a part of the record is missing"));
        }
        // SAFETY: the library gave a place in its map with `len` bytes after it; the map lives
        // until `drop`.
        Ok(unsafe { std::slice::from_raw_parts(start, len as usize) })
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
        take(self.chunk(api.sparkey_logiter_valuechunk, iter, len)?);
        Ok(true)
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let api = self.api;
        let mut iter = self.new_iter()?;
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
            let key = self.chunk(api.sparkey_logiter_keychunk, iter, key_len)?;
            take(key, self.chunk(api.sparkey_logiter_valuechunk, iter, value_len)?);
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
