//! MDBM: `libmdbm.so`, which no Debian package brings.
//!
//! Tuning: format 3, Jenkins' hash, pages of 4 KiB (16 KiB for values over 512 bytes), split in
//! advance to the power of two below what the data need. A writer holds one exclusive lock as long
//! as it is open: opened without locks MDBM cannot split pages, and with a lock for each call it
//! is slower. Readers take no lock. Reads are zero-copy (`mdbm_fetch`). Beside a writer, who changes
//! nothing but values and splits no page, both lock the page of each key, as its authors advise where
//! many use a store of fixed size (`MDBM_PARTITIONED_LOCKS`), a reader for as long as it looks at a
//! value. Where several processes change the store, whose pages split then, each call takes the one
//! exclusive lock.

#![allow(unsafe_code)]

use super::library::api;
use super::refused_by_errno;
use super::{
    Driver, Identity, Noting, OnThread, Reading, Setup, Shape, Sharing, Source, Store, Threads,
    Writer, c_path, refused,
};
use crate::settings::{ALWAYS_MAPPED, Name, Takes, Values};
use credenza::Result;
use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// `MDBM` of mdbm.h, only ever pointed to.
type Db = c_void;

/// `datum` of mdbm.h.
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
        let len = len.map_err(|_| refused("MDBM", "over 2 GiB in one piece"))?;
        Ok(Datum { start: bytes.as_ptr().cast_mut().cast(), len })
    }

    /// # Safety
    /// The library made this, and the store is not changed as long as `'a`.
    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        if self.len <= 0 {
            return &[];
        }
        // SAFETY: the caller's promise: `len` bytes of the map at `start`.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.len as usize) }
    }
}

/// `kvpair` of mdbm.h.
#[repr(C)]
struct Pair {
    key: Datum,
    value: Datum,
}

/// `MDBM_ITER` of mdbm.h.
#[repr(C)]
struct Iter {
    page: u32,
    next: c_int,
}

api! {
    struct Api {
        mdbm_open: unsafe extern "C" fn(*const c_char, c_int, c_int, c_int, c_int) -> *mut Db,
        mdbm_close: unsafe extern "C" fn(*mut Db),
        mdbm_set_hash: unsafe extern "C" fn(*mut Db, c_int) -> c_int,
        mdbm_pre_split: unsafe extern "C" fn(*mut Db, u32) -> c_int,
        mdbm_lock: unsafe extern "C" fn(*mut Db) -> c_int,
        mdbm_lock_smart: unsafe extern "C" fn(*mut Db, *const Datum, c_int) -> c_int,
        mdbm_unlock_smart: unsafe extern "C" fn(*mut Db, *const Datum, c_int) -> c_int,
        mdbm_unlock: unsafe extern "C" fn(*mut Db) -> c_int,
        mdbm_delete_lockfiles: unsafe extern "C" fn(*const c_char) -> c_int,
        mdbm_dup_handle: unsafe extern "C" fn(*mut Db, c_int) -> *mut Db,
        mdbm_preload: unsafe extern "C" fn(*mut Db) -> c_int,
        mdbm_set_stats_func: unsafe extern "C" fn(*mut Db, c_int, Noted, *mut c_void) -> c_int,
        mdbm_set_stat_time_func: unsafe extern "C" fn(*mut Db, c_int) -> c_int,
        mdbm_store: unsafe extern "C" fn(*mut Db, Datum, Datum, c_int) -> c_int,
        mdbm_delete: unsafe extern "C" fn(*mut Db, Datum) -> c_int,
        mdbm_fetch: unsafe extern "C" fn(*mut Db, Datum) -> Datum,
        mdbm_first_r: unsafe extern "C" fn(*mut Db, *mut Iter) -> Pair,
        mdbm_next_r: unsafe extern "C" fn(*mut Db, *mut Iter) -> Pair,
    }
}

/// What MDBM calls with each operation.
type Noted = unsafe extern "C" fn(*mut Db, c_int, c_int, u64, *mut c_void);

/// An empty function of this kind.
///
/// # Safety
/// It does nothing with what it gets.
unsafe extern "C" fn nothing(_: *mut Db, _: c_int, _: c_int, _: u64, _: *mut c_void) {}

const BASIC: c_int = 1;
const TIMED: c_int = 2;
const CLOCK_TSC: c_int = 1;

const READ_ONLY: c_int = 0;
const READ_WRITE: c_int = 0x2;
const CREATE: c_int = 0x40;
const LARGE_OBJECTS: c_int = 0x0100_0000;
const FORMAT_3: c_int = 0x2000_0000;
const NO_LOCK: c_int = c_int::MIN;
const PARTITIONED_LOCKS: c_int = 0x0200_0000;
const JENKINS: c_int = 9;
const REPLACE: c_int = 1;

/// The settings that the data ask for.
struct Tuning {
    page: c_int,
    pages: u32,
    /// Whether values may be too large for a page.
    has_large: bool,
}

impl Tuning {
    fn for_shape(shape: &Shape) -> Tuning {
        let usual = if shape.longest_value > 512 { 16_384 } else { 4096 };
        let page = shape.settings.page_size().unwrap_or(usual);
        // Each record has eight bytes of its own.
        let pages = match shape.setup {
            Setup::HalfFull => 2 * shape.bytes() / page,
            _ => (shape.bytes() + 8 * shape.records) / page,
        };
        Tuning {
            page: page as c_int,
            pages: pages.clamp(1, 1 << 23) as u32,
            has_large: shape.longest_value as u64 > page / 2,
        }
    }
}

pub(super) struct Mdbm {
    api: Api,
    file: PathBuf,
}

impl Mdbm {
    /// Opens the store at `path` with a lock for each call: of a page if `flags` say so, else of all.
    fn with_locks(
        &self,
        path: &Path,
        flags: c_int,
        lock: Option<CString>,
    ) -> Result<MdbmStore<'_>> {
        let (name, flags) = (c_path(path)?, READ_WRITE | flags);
        // SAFETY: the name is a C string; sizes of 0 are those of the file.
        let db = unsafe { (self.api.mdbm_open)(name.as_ptr(), flags, 0, 0, 0) };
        if db.is_null() {
            return Err(refused_by_errno("mdbm_open").at(path));
        }
        let mut store = MdbmStore::over(&self.api, db, lock);
        store.locks_to_look = true;
        Ok(store)
    }
}

impl Driver for Mdbm {
    const NAME: &'static str = "mdbm";
    const REOPENS: bool = true;
    const SHARING: Sharing = Sharing::Writer;
    const HAS_COMMITTING_PROCESSES: bool = true;
    const THREADS: Threads = Threads::Handles;
    const HAS_WRITER_THREAD: bool = true;
    const SOURCE: Option<Source> = Some(Source {
        names: &["libmdbm.so.4", "libmdbm.so"],
        package: None,
        home: "https://github.com/yahoo/mdbm",
    });

    const SETTINGS: &'static [Takes] =
        &[ALWAYS_MAPPED, (Name::PageSize, Values::Powers(512, 64 << 10))];

    fn load(file: Option<&Path>) -> Result<Mdbm> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"mdbm_pre_split")?;
        Ok(Mdbm { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        Identity { version: String::new(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        let Tuning { page, pages, has_large } = Tuning::for_shape(shape);
        let large = if has_large { ", large objects" } else { "" };
        format!(
            "format 3, Jenkins hash, {page}-byte pages{large}, pre-split for {pages} pages; a \
             writer holds one exclusive lock, readers none, but beside a writer both lock the page \
             of a key (PARTITIONED_LOCKS), and several writing processes all for each call; mdbm_fetch"
        )
    }

    type Store<'d> = MdbmStore<'d>;

    fn open(&self, path: &Path, _: &Shape, _: Reading) -> Result<MdbmStore<'_>> {
        let name = c_path(path)?;
        // SAFETY: the name is a C string; sizes of 0 are those of the file.
        let db = unsafe { (self.api.mdbm_open)(name.as_ptr(), READ_ONLY | NO_LOCK, 0, 0, 0) };
        if db.is_null() {
            return Err(refused_by_errno("mdbm_open").at(path));
        }
        Ok(MdbmStore::over(&self.api, db, None))
    }

    type Writer<'d> = MdbmStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<MdbmStore<'_>> {
        let (api, name) = (&self.api, c_path(path)?);
        let Tuning { page, pages, has_large } = Tuning::for_shape(shape);
        let large = if has_large { LARGE_OBJECTS } else { 0 };
        let flags = READ_WRITE | CREATE | FORMAT_3 | large;
        // SAFETY: the name is a C string; an initial size of 0 leaves it to the library.
        let db = unsafe { (api.mdbm_open)(name.as_ptr(), flags, 0o644, page, 0) };
        if db.is_null() {
            return Err(refused_by_errno("mdbm_open").at(path));
        }
        let mut store = MdbmStore::over(api, db, Some(name));
        let require = |is_done: bool, call| match is_done {
            true => Ok(()),
            false => Err(refused_by_errno(call).at(path)),
        };
        // SAFETY: the store is open for writing and empty, as this asks.
        require(unsafe { (api.mdbm_set_hash)(db, JENKINS) } == 0, "mdbm_set_hash")?;
        // SAFETY: as above.
        require(unsafe { (api.mdbm_pre_split)(db, pages) } == 0, "mdbm_pre_split")?;
        // SAFETY: the store is open with locks; the lock is released when it is closed.
        require(unsafe { (api.mdbm_lock)(db) } == 1, "mdbm_lock")?;
        store.is_locked = true;
        Ok(store)
    }

    fn create_noting(
        &self,
        path: &Path,
        shape: &Shape,
        noting: Noting,
    ) -> Result<Option<MdbmStore<'_>>> {
        let flags = match noting {
            Noting::Counted => BASIC,
            Noting::Clock | Noting::Tsc => BASIC | TIMED,
            Noting::Sampled => return Ok(None),
        };
        let store = self.create(path, shape)?;
        let clock = if noting == Noting::Tsc { CLOCK_TSC } else { 0 };
        // SAFETY: the store is open; the function lives as long as the program, and takes no data.
        let is_set = unsafe {
            (self.api.mdbm_set_stat_time_func)(store.db, clock) == 0
                && (self.api.mdbm_set_stats_func)(store.db, flags, nothing, null_mut()) == 0
        };
        if is_set { Ok(Some(store)) } else { Err(refused_by_errno("mdbm_set_stats_func").at(path)) }
    }

    fn handles(
        &self,
        path: &Path,
        count: usize,
        are_opened: bool,
    ) -> Result<Vec<OnThread<MdbmStore<'_>>>> {
        let name = c_path(path)?;
        let mut handles: Vec<MdbmStore<'_>> = Vec::new();
        for i in 0..count {
            let db = match handles.first() {
                // SAFETY: the first handle is open, and no other thread has it yet.
                Some(first) if !are_opened => unsafe { (self.api.mdbm_dup_handle)(first.db, 0) },
                // SAFETY: the name is a C string; sizes of 0 are those of the file.
                _ => unsafe { (self.api.mdbm_open)(name.as_ptr(), READ_WRITE, 0, 0, 0) },
            };
            if db.is_null() {
                return Err(refused_by_errno("mdbm_open or mdbm_dup_handle").at(path));
            }
            // The last one removes the files of their lock.
            let lock = (i + 1 == count).then(|| name.clone());
            handles.push(MdbmStore::over(&self.api, db, lock));
        }
        // SAFETY: MDBM's rule is one handle for each thread, and it keeps nothing of the thread
        // that opened one.
        Ok(handles.into_iter().map(|handle| unsafe { OnThread::new(handle) }).collect())
    }

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<MdbmStore<'_>> {
        let name = c_path(path)?;
        let large = if Tuning::for_shape(shape).has_large { LARGE_OBJECTS } else { 0 };
        let flags = READ_WRITE | large;
        // SAFETY: the name is a C string; sizes of 0 are those of the file.
        let db = unsafe { (self.api.mdbm_open)(name.as_ptr(), flags, 0, 0, 0) };
        if db.is_null() {
            return Err(refused_by_errno("mdbm_open").at(path));
        }
        let mut store = MdbmStore::over(&self.api, db, Some(name));
        // SAFETY: the store is open with locks; the lock is released when it is closed.
        if unsafe { (self.api.mdbm_lock)(db) } != 1 {
            return Err(refused_by_errno("mdbm_lock").at(path));
        }
        store.is_locked = true;
        Ok(store)
    }

    /// Who opens it behind all of these removes the files of the lock.
    fn open_to_commit(&self, path: &Path, shape: &Shape, _: bool) -> Result<MdbmStore<'_>> {
        let large = if Tuning::for_shape(shape).has_large { LARGE_OBJECTS } else { 0 };
        self.with_locks(path, large, None)
    }

    fn open_beside(&self, path: &Path, _: &Shape) -> Result<MdbmStore<'_>> {
        self.with_locks(path, PARTITIONED_LOCKS, None)
    }

    fn open_to_change(&self, path: &Path, _: &Shape) -> Result<MdbmStore<'_>> {
        // It stops last, and removes the files of the locks.
        self.with_locks(path, PARTITIONED_LOCKS, Some(c_path(path)?))
    }
}

/// An open store, closed when dropped.
pub(super) struct MdbmStore<'d> {
    api: &'d Api,
    db: *mut Db,
    is_locked: bool,
    /// Whether every lookup locks the page of its key, or all.
    locks_to_look: bool,
    /// The name of the store, if this handle is the last to use its lock, which has files of its own
    /// in `/tmp`.
    lock: Option<CString>,
}

impl<'d> MdbmStore<'d> {
    fn over(api: &'d Api, db: *mut Db, lock: Option<CString>) -> MdbmStore<'d> {
        MdbmStore { api, db, is_locked: false, locks_to_look: false, lock }
    }

    /// What [`Store::get`] is once the page of the key is locked, where that must be.
    #[inline]
    fn fetch(&self, key: Datum, mut take: impl FnMut(&[u8])) -> Result<bool> {
        // SAFETY: the store is open; the key is readable, and only read although the prototype
        // lacks const.
        let value = unsafe { (self.api.mdbm_fetch)(self.db, key) };
        if value.start.is_null() {
            return absent("mdbm_fetch");
        }
        // SAFETY: the library gave the value, which `take` does not keep.
        take(unsafe { value.bytes() });
        Ok(true)
    }
}

impl Drop for MdbmStore<'_> {
    fn drop(&mut self) {
        if self.is_locked {
            // SAFETY: the store is open, and this handle holds its lock.
            unsafe { (self.api.mdbm_unlock)(self.db) };
        }
        if let Some(name) = self.lock.take() {
            // SAFETY: the name is a C string; nobody else uses the files of this lock any more.
            unsafe { (self.api.mdbm_delete_lockfiles)(name.as_ptr()) };
            remove_lock_folders(Path::new(OsStr::from_bytes(name.as_bytes())));
        }
        // SAFETY: the store is open and closed once.
        unsafe { (self.api.mdbm_close)(self.db) };
    }
}

/// Removes what the library leaves of a deleted lock: folders that mirror those of the store, whose
/// last two are those of a run. Any that has more in it stays.
fn remove_lock_folders(store: &Path) {
    let all = Path::new("/tmp/.mlock-named");
    for folder in store.ancestors().skip(1).take(2) {
        if let Ok(below) = folder.strip_prefix("/") {
            // What cannot be removed is in use, or was never there.
            let _ = std::fs::remove_dir(all.join(below));
        }
    }
}

/// `Ok(false)` if the last call did not find its record.
#[inline]
fn absent(call: &'static str) -> Result<bool> {
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOENT) => Ok(false),
        _ => Err(refused_by_errno(call)),
    }
}

impl Store for MdbmStore<'_> {
    const PRELOADS: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
        let key = Datum::of(key)?;
        if !self.locks_to_look {
            return self.fetch(key, take);
        }
        // SAFETY: the store is open with locks; the key is readable.
        if unsafe { (self.api.mdbm_lock_smart)(self.db, &raw const key, READ_ONLY) } != 1 {
            return Err(refused_by_errno("mdbm_lock_smart"));
        }
        let found = self.fetch(key, take);
        // SAFETY: the same, and this handle holds the lock.
        if unsafe { (self.api.mdbm_unlock_smart)(self.db, &raw const key, READ_ONLY) } != 1 {
            return Err(refused_by_errno("mdbm_unlock_smart"));
        }
        found
    }

    fn preload(&mut self, _: &Path) -> Result<()> {
        // SAFETY: the store is open.
        match unsafe { (self.api.mdbm_preload)(self.db) } {
            0 => Ok(()),
            _ => Err(refused_by_errno("mdbm_preload")),
        }
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut iter = Iter { page: 0, next: -1 };
        // SAFETY: the store is open; the iterator is as MDBM_ITER_INIT makes it.
        let mut pair = unsafe { (self.api.mdbm_first_r)(self.db, &raw mut iter) };
        while !pair.key.start.is_null() {
            // SAFETY: the library gave key and value, which `take` does not keep.
            unsafe { take(pair.key.bytes(), pair.value.bytes()) };
            // SAFETY: the store is open, and the iterator was begun.
            pair = unsafe { (self.api.mdbm_next_r)(self.db, &raw mut iter) };
        }
        Ok(())
    }
}

impl Writer for MdbmStore<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key, value) = (Datum::of(key)?, Datum::of(value)?);
        // SAFETY: the store is open; key and value are readable, and only read although the
        // prototype lacks const.
        match unsafe { (self.api.mdbm_store)(self.db, key, value, REPLACE) } {
            0 => Ok(()),
            _ => Err(refused_by_errno("mdbm_store")),
        }
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let key = Datum::of(key)?;
        // SAFETY: the store is open; the key is readable, and only read although the prototype
        // lacks const.
        match unsafe { (self.api.mdbm_delete)(self.db, key) } {
            0 => Ok(true),
            _ => absent("mdbm_delete"),
        }
    }

    fn close(self) -> Result<()> {
        drop(self);
        Ok(())
    }
}
