//! GDBM: `libgdbm.so.6`.
//!
//! Tuning: blocks of 4 KiB, a cache of buckets as large as the data (at least 24,576, that is
//! 96 MiB), no lock. A lookup allocates the value, and the caller frees it: there is no other
//! call.

#![allow(unsafe_code)]

use super::library::api;
use super::{Driver, Identity, Reading, Shape, Source, Store, Threads, Writer, c_path, refused};
use crate::settings::{Name, Takes, Values};
use credenza::Result;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// `GDBM_FILE` of gdbm.h, only ever pointed to.
type File = c_void;
type Fatal = unsafe extern "C" fn(*const c_char);

/// `datum` of gdbm.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Datum {
    start: *mut c_char,
    len: c_int,
}

impl Datum {
    /// Bytes for the library to read.
    fn of(bytes: &[u8]) -> Result<Datum> {
        let len = c_int::try_from(bytes.len());
        let len = len.map_err(|_| refused("GDBM", "over 2 GiB in one piece"))?;
        Ok(Datum { start: bytes.as_ptr().cast_mut().cast(), len })
    }
}

/// Bytes that the library allocated, freed when dropped.
struct Allocated(Datum);

impl Allocated {
    fn bytes(&self) -> &[u8] {
        if self.0.len <= 0 {
            return &[];
        }
        // SAFETY: the library allocated `len` bytes at `start` and gave them away.
        unsafe { std::slice::from_raw_parts(self.0.start.cast(), self.0.len as usize) }
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: gdbm.h: the caller frees what was fetched, with free; once, here.
        unsafe { libc::free(self.0.start.cast()) };
    }
}

api! {
    struct Api {
        gdbm_version: *const *const c_char,
        gdbm_open: unsafe extern "C" fn(*const c_char, c_int, c_int, c_int, Option<Fatal>) -> *mut File,
        gdbm_close: unsafe extern "C" fn(*mut File) -> c_int,
        gdbm_setopt: unsafe extern "C" fn(*mut File, c_int, *mut c_void, c_int) -> c_int,
        gdbm_store: unsafe extern "C" fn(*mut File, Datum, Datum, c_int) -> c_int,
        gdbm_fetch: unsafe extern "C" fn(*mut File, Datum) -> Datum,
        gdbm_delete: unsafe extern "C" fn(*mut File, Datum) -> c_int,
        gdbm_firstkey: unsafe extern "C" fn(*mut File) -> Datum,
        gdbm_nextkey: unsafe extern "C" fn(*mut File, Datum) -> Datum,
        gdbm_recover: unsafe extern "C" fn(*mut File, *mut c_void, c_int) -> c_int,
        gdbm_last_errno: unsafe extern "C" fn(*mut File) -> c_int,
        gdbm_errno_location: unsafe extern "C" fn() -> *mut c_int,
        gdbm_strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    }
}

const READER: c_int = 0;
const WRITER: c_int = 1;
const NEW: c_int = 3;
const NO_LOCK: c_int = 0x40;
const SET_CACHE_SIZE: c_int = 1;
const REPLACE: c_int = 1;
const NO_MMAP: c_int = 0x80;
/// `GDBM_ITEM_NOT_FOUND`.
const NO_RECORD: c_int = 15;

impl Api {
    #[cold]
    fn refused(&self, call: &str, number: c_int) -> credenza::Error {
        // SAFETY: the message is a C string constant of the library.
        let why = unsafe { CStr::from_ptr((self.gdbm_strerror)(number)) };
        refused(call, why.to_string_lossy())
    }
}

pub(super) struct Gdbm {
    api: Api,
    file: PathBuf,
}

/// How many buckets the cache holds: one for every block the data may fill.
fn cached_buckets(shape: &Shape) -> usize {
    let count = |bytes: u64| usize::try_from(bytes / block_bytes(shape)).unwrap_or(usize::MAX);
    match shape.settings.cache() {
        Some(bytes) => count(bytes).max(1),
        None => count(2 * shape.bytes() + 64 * shape.records).clamp(24_576, 1 << 20),
    }
}

fn block_bytes(shape: &Shape) -> u64 {
    shape.settings.page_size().unwrap_or(4096)
}

impl Gdbm {
    /// With a cache of the library's size.
    fn handle(&self, path: &Path, shape: &Shape, mode: c_int) -> Result<GdbmStore<'_>> {
        let (api, name) = (&self.api, c_path(path)?);
        let unmapped = if shape.settings.mmap() == Some(false) { NO_MMAP } else { 0 };
        let (block, mode) = (block_bytes(shape) as c_int, mode | NO_LOCK | unmapped);
        // SAFETY: the name is a C string; without a function for fatal errors the library ends
        // the process with a message.
        let db = unsafe { (api.gdbm_open)(name.as_ptr(), block, mode, 0o644, None) };
        if db.is_null() {
            // SAFETY: the library has one such number for each thread.
            let number = unsafe { *(api.gdbm_errno_location)() };
            return Err(api.refused("gdbm_open", number).at(path));
        }
        Ok(GdbmStore { api, db })
    }

    fn opened(&self, path: &Path, shape: &Shape, mode: c_int) -> Result<GdbmStore<'_>> {
        let store = self.handle(path, shape, mode)?;
        store.set_cache(shape)?;
        Ok(store)
    }
}

impl Driver for Gdbm {
    const NAME: &'static str = "gdbm";
    const REOPENS: bool = true;
    const THREADS: Threads = Threads::Handles;
    const SYNCS: &'static str = "msync and fsync when it is closed";
    const SOURCE: Option<Source> = Some(Source {
        names: &["libgdbm.so.6"],
        package: Some("libgdbm6"),
        home: "https://www.gnu.org.ua/software/gdbm/",
    });

    const VERSIONS: &'static [&'static str] = &["GDBM version 1."];
    const SETTINGS: &'static [Takes] = &[
        (Name::PageSize, Values::Powers(512, 64 << 10)),
        (Name::Cache, Values::AtLeast(64 << 10)),
        (Name::Mmap, Values::Either),
    ];

    fn load(file: Option<&Path>) -> Result<Gdbm> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"gdbm_errno_location")?;
        Ok(Gdbm { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        // SAFETY: `gdbm_version` is a variable of the library that holds a C string constant.
        let version = unsafe { CStr::from_ptr(*self.api.gdbm_version) };
        Identity { version: version.to_string_lossy().into_owned(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        let (block, buckets) = (block_bytes(shape), cached_buckets(shape));
        format!("{block}-byte blocks, cache of {buckets} buckets, NOLOCK")
    }

    fn notes(&self) -> Vec<String> {
        vec!["a scan fetches the value of every key by itself: there is no other way".to_owned()]
    }

    type Store<'d> = GdbmStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<GdbmStore<'_>> {
        self.opened(path, shape, READER)
    }

    type Writer<'d> = GdbmStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<GdbmStore<'_>> {
        self.opened(path, shape, NEW)
    }

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<GdbmStore<'_>> {
        self.opened(path, shape, WRITER)
    }

    /// `gdbm_recover` checks the whole store, and writes it anew if something is wrong. It comes first: a handle
    /// that needs it refuses everything else.
    fn recover(&self, path: &Path, shape: &Shape) -> Result<GdbmStore<'_>> {
        let store = self.handle(path, shape, WRITER)?;
        // SAFETY: the database is open for changes; null says that no numbers are wanted, 0 that it is done as usual.
        let done = unsafe { (self.api.gdbm_recover)(store.db, null_mut(), 0) };
        store.check("gdbm_recover", done)?;
        store.set_cache(shape)?;
        Ok(store)
    }
}

/// An open database, closed when dropped.
pub(super) struct GdbmStore<'d> {
    api: &'d Api,
    db: *mut File,
}

impl GdbmStore<'_> {
    fn set_cache(&self, shape: &Shape) -> Result<()> {
        let (api, mut buckets) = (self.api, cached_buckets(shape));
        let len = size_of_val(&buckets) as c_int;
        // SAFETY: the database is open; the option is a size_t, and read during the call.
        let rc =
            unsafe { (api.gdbm_setopt)(self.db, SET_CACHE_SIZE, (&raw mut buckets).cast(), len) };
        self.check("gdbm_setopt", rc)
    }

    fn check(&self, call: &str, rc: c_int) -> Result<()> {
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: the database is open.
        Err(self.api.refused(call, unsafe { (self.api.gdbm_last_errno)(self.db) }))
    }

    /// What the library found; `None` if a record was not there.
    #[inline]
    fn found(&self, call: &str, datum: Datum) -> Result<Option<Allocated>> {
        if !datum.start.is_null() {
            return Ok(Some(Allocated(datum)));
        }
        self.absent(call).map(|_| None)
    }

    /// `Ok(false)` if the last call did not find its record.
    #[inline]
    fn absent(&self, call: &str) -> Result<bool> {
        // SAFETY: the database is open.
        match unsafe { (self.api.gdbm_last_errno)(self.db) } {
            NO_RECORD => Ok(false),
            number => Err(self.api.refused(call, number)),
        }
    }
}

impl Drop for GdbmStore<'_> {
    fn drop(&mut self) {
        if !self.db.is_null() {
            // SAFETY: the database is open and closed once.
            unsafe { (self.api.gdbm_close)(self.db) };
        }
    }
}

impl Store for GdbmStore<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let key = Datum::of(key)?;
        // SAFETY: the database is open; the key is readable, and only read although the prototype
        // lacks const.
        let value = unsafe { (self.api.gdbm_fetch)(self.db, key) };
        Ok(self.found("gdbm_fetch", value)?.map(|value| take(value.bytes())).is_some())
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let api = self.api;
        // SAFETY: the database is open.
        let mut next = unsafe { (api.gdbm_firstkey)(self.db) };
        while let Some(key) = self.found("gdbm_nextkey", next)? {
            self.get(key.bytes(), |value| take(key.bytes(), value))?;
            // SAFETY: the database is open; the key is one that the library gave.
            next = unsafe { (api.gdbm_nextkey)(self.db, key.0) };
        }
        Ok(())
    }
}

impl Writer for GdbmStore<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key, value) = (Datum::of(key)?, Datum::of(value)?);
        // SAFETY: the database is open; key and value are readable, and only read although the
        // prototype lacks const.
        self.check("gdbm_store", unsafe { (self.api.gdbm_store)(self.db, key, value, REPLACE) })
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let key = Datum::of(key)?;
        // SAFETY: the database is open; the key is readable, and only read although the prototype
        // lacks const.
        match unsafe { (self.api.gdbm_delete)(self.db, key) } {
            0 => Ok(true),
            _ => self.absent("gdbm_delete"),
        }
    }

    fn close(mut self) -> Result<()> {
        let db = std::mem::replace(&mut self.db, null_mut());
        // SAFETY: the database is open, and was taken out of the store so that nobody closes it
        // again.
        if unsafe { (self.api.gdbm_close)(db) } == 0 {
            return Ok(());
        }
        // SAFETY: the library has one such number for each thread.
        let number = unsafe { *(self.api.gdbm_errno_location)() };
        Err(self.api.refused("gdbm_close", number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::tests::fixed;
    use std::fs;

    /// How many records a scan gives.
    fn count(store: &mut GdbmStore<'_>) -> Result<usize> {
        let mut count = 0;
        store.scan(|_, _| count += 1).map(|()| count)
    }

    /// Danger: a store is called damaged for good that its authors have a repair for; or the repair takes
    /// something from one that is whole.
    #[test]
    fn a_damaged_store_is_repaired_and_a_whole_one_left_alone() {
        let driver = match Gdbm::load(None) {
            Ok(driver) => driver,
            Err(e) => return eprintln!("not tested: {e}"),
        };
        let (records, folder) = (fixed(8, 40), tempfile::tempdir().unwrap());
        let (shape, path) = (Shape::of(&records), folder.path().join("store"));
        driver.build(&records, &shape, &path).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut store = driver.recover(&path, &shape).unwrap();
        assert_eq!(count(&mut store).unwrap(), records.len());
        store.close().unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);

        let mut repaired = 0;
        for block in whole.chunks(4096).enumerate().map(|(number, _)| 4096 * number) {
            let mut damaged = whole.clone();
            // The numbers of bits and of records, and the first of these, where it is a bucket.
            damaged[block + 96..block + 160].fill(0x7f);
            fs::write(&path, &damaged).unwrap();
            let is_damaged = match driver.reopen(&path, &shape, false) {
                Ok(mut store) => count(&mut store).is_err(),
                Err(_) => false,
            };
            if is_damaged {
                let mut store = driver.recover(&path, &shape).unwrap();
                assert!(count(&mut store).unwrap() > 0);
                repaired += 1;
            }
        }
        assert!(repaired > 0);
    }
}
