//! tinycdb, the cdb of Debian: `libcdb.so.1`.
//!
//! Tuning: none, it has no settings. Reads are zero-copy from its own map.

#![allow(unsafe_code)]

use super::library::api;
use super::{Driver, Identity, ReadOnly, Reading, Shape, Source, Store, Threads, refused_by_errno};
use crate::settings::{ALWAYS_MAPPED, Takes};
use crate::workload::Records;
use credenza::{Error, Result};
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// `struct cdb` of cdb.h, part of the library's binary interface.
#[repr(C)]
#[derive(Default)]
struct CdbReader {
    fd: c_int,
    file_size: c_uint,
    data_end: c_uint,
    mem: usize,
    value_pos: c_uint,
    value_len: c_uint,
    key_pos: c_uint,
    key_len: c_uint,
}

/// Room for `struct cdb_make` (6168 bytes in version 0.78), and more.
#[repr(C, align(16))]
struct CdbMaker([u8; 16384]);

api! {
    struct Api {
        cdb_init: unsafe extern "C" fn(*mut CdbReader, c_int) -> c_int,
        cdb_free: unsafe extern "C" fn(*mut CdbReader),
        cdb_find: unsafe extern "C" fn(*mut CdbReader, *const c_void, c_uint) -> c_int,
        cdb_get: unsafe extern "C" fn(*const CdbReader, c_uint, c_uint) -> *const u8,
        cdb_seqnext: unsafe extern "C" fn(*mut c_uint, *mut CdbReader) -> c_int,
        cdb_make_start: unsafe extern "C" fn(*mut CdbMaker, c_int) -> c_int,
        cdb_make_add: unsafe extern "C" fn(*mut CdbMaker, *const c_void, c_uint, *const c_void, c_uint) -> c_int,
        cdb_make_finish: unsafe extern "C" fn(*mut CdbMaker) -> c_int,
    }
}

pub(super) struct Cdb {
    api: Api,
    file: PathBuf,
}

impl Driver for Cdb {
    const NAME: &'static str = "cdb";
    const THREADS: Threads = Threads::Handles;
    const SETTINGS: &'static [Takes] = &[ALWAYS_MAPPED];
    const SOURCE: Option<Source> = Some(Source {
        names: &["libcdb.so.1", "libcdb.so"],
        package: Some("libcdb1"),
        home: "http://www.corpit.ru/mjt/tinycdb.html",
    });

    fn load(file: Option<&Path>) -> Result<Cdb> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"cdb_make_put")?;
        Ok(Cdb { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        Identity { version: String::new(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, _: &Shape) -> String {
        "none to be had; cdb_make_add, cdb_find, cdb_get".to_owned()
    }

    fn build(&self, records: &Records, _: &Shape, path: &Path) -> Result<()> {
        let file = File::create_new(path).map_err(|e| Error::io("create", e).at(path))?;
        let mut maker = Box::new(CdbMaker([0; 16384]));
        let maker = &raw mut *maker;
        // SAFETY: `maker` is large enough, aligned and lives to the end of this function; the
        // descriptor is open for writing as long as `file` lives.
        let started = unsafe { (self.api.cdb_make_start)(maker, file.as_raw_fd()) };
        if started != 0 {
            return Err(refused_by_errno("cdb_make_start"));
        }
        for (key, value) in records.iter() {
            let (key_len, value_len) = (key.len() as c_uint, value.len() as c_uint);
            // SAFETY: `maker` was started; key and value are readable for the lengths given,
            // which fit (an arena record is shorter than 4 GiB or cdb_make_add refuses the file).
            let rc = unsafe {
                let (key, value) = (key.as_ptr().cast(), value.as_ptr().cast());
                (self.api.cdb_make_add)(maker, key, key_len, value, value_len)
            };
            if rc != 0 {
                return Err(refused_by_errno("cdb_make_add"));
            }
        }
        // SAFETY: `maker` was started and is finished once.
        match unsafe { (self.api.cdb_make_finish)(maker) } {
            0 => Ok(()),
            _ => Err(refused_by_errno("cdb_make_finish")),
        }
    }

    type Writer<'d> = ReadOnly<Self::Store<'d>>;

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<Self::Writer<'_>> {
        self.open(path, shape, Reading::Warm).map(ReadOnly)
    }

    type Store<'d> = CdbStore<'d>;

    fn open(&self, path: &Path, _: &Shape, _: Reading) -> Result<CdbStore<'_>> {
        let file = File::open(path).map_err(|e| Error::io("open", e).at(path))?;
        let mut store = CdbStore { api: &self.api, reader: CdbReader::default(), _file: file };
        // SAFETY: `reader` has the layout of cdb.h; the descriptor is open and stays so.
        match unsafe { (self.api.cdb_init)(&raw mut store.reader, store._file.as_raw_fd()) } {
            0 => Ok(store),
            _ => Err(refused_by_errno("cdb_init")),
        }
    }
}

pub(super) struct CdbStore<'d> {
    api: &'d Api,
    reader: CdbReader,
    _file: File,
}

impl CdbStore<'_> {
    #[inline]
    fn bytes(&self, len: c_uint, pos: c_uint) -> Result<&[u8]> {
        // SAFETY: the reader was initialised; cdb_get checks position and length against the file.
        let bytes = unsafe { (self.api.cdb_get)(&raw const self.reader, len, pos) };
        if bytes.is_null() {
            return Err(refused_by_errno("cdb_get"));
        }
        // SAFETY: cdb_get gave a place in the library's map with `len` bytes after it; the map
        // lives until cdb_free, which is in `drop`.
        Ok(unsafe { std::slice::from_raw_parts(bytes, len as usize) })
    }
}

impl Store for CdbStore<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (start, len) = (key.as_ptr().cast(), key.len() as c_uint);
        // SAFETY: the reader was initialised, and the key is readable for its length.
        match unsafe { (self.api.cdb_find)(&raw mut self.reader, start, len) } {
            0 => Ok(false),
            1 => {
                take(self.bytes(self.reader.value_len, self.reader.value_pos)?);
                Ok(true)
            }
            _ => Err(refused_by_errno("cdb_find")),
        }
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        const FIRST: c_uint = 2048;
        let mut place = FIRST;
        loop {
            // SAFETY: the reader was initialised; `place` is where the last call left it.
            match unsafe { (self.api.cdb_seqnext)(&raw mut place, &raw mut self.reader) } {
                0 => return Ok(()),
                1 => {
                    let key = self.bytes(self.reader.key_len, self.reader.key_pos)?;
                    take(key, self.bytes(self.reader.value_len, self.reader.value_pos)?);
                }
                _ => return Err(refused_by_errno("cdb_seqnext")),
            }
        }
    }
}

impl Drop for CdbStore<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised (or still zero, which cdb_free knows), and freed once.
        unsafe { (self.api.cdb_free)(&raw mut self.reader) }
    }
}
