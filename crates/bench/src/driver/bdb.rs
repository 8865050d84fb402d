//! What BerkeleyDB's two access methods have in common: `libdb-5.3.so`.
//!
//! Tuning: no environment, a cache of twice the data (at least 96 MiB, at most a quarter of the
//! memory). Reads copy into our buffer (`DB_DBT_USERMEM`); scans and ranges fetch in bulk
//! (`DB_MULTIPLE_KEY`).
//!
//! Without an environment there is no log, and the cache is the process's own: changes are in the
//! file for certain only when it was closed. Where each change is to be a transaction of its own,
//! there is one in the memory of the process (`DB_PRIVATE`), without locks, whose log is written
//! with each commit and never forced to the disk (`DB_TXN_WRITE_NOSYNC`). Several threads that commit share
//! a handle (`DB_THREAD`) in such an environment with locks, which finds deadlocks, and syncs its log.
//!
//! BerkeleyDB is called through function pointers inside its `DB` struct. Where they are is known
//! for one version on 64-bit machines, and any other version is refused.

#![allow(unsafe_code)]

use super::library::api;
use super::{Committers, Identity, Setup, Shape, Source, Store, Writer, c_path, refused};
use crate::machine;
use crate::settings::{Name, Takes, Values};
use crate::workload::Place;
use credenza::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

/// `DB_ENV`, `DB` and `DBC` of db.h, only ever pointed to.
type Env = c_void;
type Db = c_void;
type Dbc = c_void;

/// `DBT` of db.h.
#[repr(C)]
struct Dbt {
    data: *mut c_void,
    size: u32,
    room: u32,
    partial_len: u32,
    partial_offset: u32,
    app_data: *mut c_void,
    flags: u32,
}

impl Dbt {
    /// Bytes for the library to read.
    fn of(bytes: &[u8]) -> Dbt {
        let data = bytes.as_ptr().cast_mut().cast();
        Dbt { size: bytes.len() as u32, ..Dbt::place(data, 0, 0) }
    }

    /// A place for the library to write to.
    fn into_buffer(buffer: &mut [u32]) -> Dbt {
        Dbt::place(buffer.as_mut_ptr().cast(), size_of_val(buffer) as u32, USER_MEMORY)
    }

    fn place(data: *mut c_void, room: u32, flags: u32) -> Dbt {
        let (partial_len, partial_offset, app_data) = (0, 0, null_mut());
        Dbt { data, size: 0, room, partial_len, partial_offset, app_data, flags }
    }
}

api! {
    struct Api {
        db_version: unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char,
        db_strerror: unsafe extern "C" fn(c_int) -> *const c_char,
        db_create: unsafe extern "C" fn(*mut *mut Db, *mut Env, u32) -> c_int,
        db_env_create: unsafe extern "C" fn(*mut *mut Env, u32) -> c_int,
    }
}

/// The version whose `DB` struct is described by [`at`].
const VERSION: (c_int, c_int, c_int) = (5, 3, 28);

/// Byte offsets of function pointers in `DB`, in `DBC` for the cursor's, and in `DB_ENV`.
mod at {
    pub(super) const CLOSE: usize = 568;
    pub(super) const CURSOR: usize = 584;
    pub(super) const DELETE: usize = 592;
    pub(super) const GET: usize = 632;
    pub(super) const OPEN: usize = 1008;
    pub(super) const PUT: usize = 1024;
    pub(super) const SET_CACHE_SIZE: usize = 1096;
    pub(super) const SET_FLAGS: usize = 1160;
    pub(super) const SET_FILL_FACTOR: usize = 1176;
    pub(super) const SET_RECORDS: usize = 1192;
    pub(super) const SET_PAGE_SIZE: usize = 1248;
    pub(super) const CURSOR_CLOSE: usize = 352;
    pub(super) const CURSOR_GET: usize = 392;
    pub(super) const CURSOR_PUT: usize = 416;
    pub(super) const ENV_CLOSE: usize = 488;
    pub(super) const ENV_OPEN: usize = 1328;
    pub(super) const ENV_SET_CACHE_SIZE: usize = 1632;
    pub(super) const ENV_SET_FLAGS: usize = 1728;
    pub(super) const ENV_SET_LOCK_DETECT: usize = 1800;
}

type Close = unsafe extern "C" fn(*mut Db, u32) -> c_int;
type OpenCursor = unsafe extern "C" fn(*mut Db, *mut c_void, *mut *mut Dbc, u32) -> c_int;
type Access = unsafe extern "C" fn(*mut Db, *mut c_void, *mut Dbt, *mut Dbt, u32) -> c_int;
type Delete = unsafe extern "C" fn(*mut Db, *mut c_void, *mut Dbt, u32) -> c_int;
type Open = unsafe extern "C" fn(
    *mut Db,
    *mut c_void,
    *const c_char,
    *const c_char,
    c_int,
    u32,
    c_int,
) -> c_int;
type SetCacheSize = unsafe extern "C" fn(*mut Db, u32, u32, c_int) -> c_int;
type OpenEnv = unsafe extern "C" fn(*mut Env, *const c_char, u32, c_int) -> c_int;
type SetFlags = unsafe extern "C" fn(*mut Env, u32, c_int) -> c_int;
type SetLockDetect = unsafe extern "C" fn(*mut Env, u32) -> c_int;
type SetNumber = unsafe extern "C" fn(*mut Db, u32) -> c_int;
type CloseCursor = unsafe extern "C" fn(*mut Dbc) -> c_int;
type CursorPut = CursorGet;
type CursorGet = unsafe extern "C" fn(*mut Dbc, *mut Dbt, *mut Dbt, u32) -> c_int;

const CREATE: u32 = 0x1;
const CHECKSUMS: u32 = 0x8;
const DUPLICATES: u32 = 0x10;
const KEY_FIRST: u32 = 13;
const READ_ONLY: u32 = 0x400;
const NEXT: u32 = 16;
const SET_RANGE: u32 = 27;
const MULTIPLE_KEY: u32 = 0x4000;
const USER_MEMORY: u32 = 0x800;
const NOT_FOUND: c_int = -30988;
const BUFFER_SMALL: c_int = -30999;
const DEADLOCK: c_int = -30993;
/// The library chooses who of a deadlock loses: `DB_LOCK_DEFAULT`.
const LOCK_DEFAULT: u32 = 1;
const RECOVER: u32 = 0x2;
const THREAD: u32 = 0x20;
const INIT_LOCK: u32 = 0x100;
const AUTO_COMMIT: u32 = 0x100;
pub(super) const TXN_WRITE_NO_SYNC: u32 = 0x20;
/// `DB_CREATE | DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_TXN | DB_PRIVATE`.
const PRIVATE_WITH_TRANSACTIONS: u32 = 0x1 | 0x400 | 0x200 | 0x2000 | 0x10000;

/// What both access methods can be told.
pub(super) const SETTINGS: &[Takes] = &[
    (Name::PageSize, Values::Powers(512, 64 << 10)),
    (Name::Cache, Values::AtLeast(64 << 10)),
    (Name::Checksums, Values::Either),
    (Name::Memory, Values::Either),
];

/// An access method: what the files of a store are.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Method {
    BTree = 1,
    Hash = 2,
}

/// The function pointer of type `F` at `offset` of a `DB` or `DBC`.
///
/// # Safety
/// `object` was made by the version of the library that the offsets are for, and `F` is the type
/// that its header declares there.
#[inline]
unsafe fn method<F: Copy>(object: *mut c_void, offset: usize) -> F {
    // SAFETY: the caller's promise; function pointers are aligned in the struct.
    unsafe { object.cast::<u8>().add(offset).cast::<F>().read() }
}

/// The library.
pub(super) struct Bdb {
    api: Api,
    file: PathBuf,
}

impl Bdb {
    pub(super) const SOURCE: Source = Source {
        names: &["libdb-5.3.so"],
        package: Some("libdb5.3"),
        home: "https://www.oracle.com/database/technologies/related/berkeleydb.html",
    };

    /// The library for the driver of this name.
    pub(super) fn load(store: &str, file: Option<&Path>) -> Result<Bdb> {
        let opened = Bdb::SOURCE.open(store, file, c"db_create")?;
        let bdb = Bdb { api: Api::load(opened.library)?, file: opened.file };
        let found = bdb.version();
        if found != VERSION || cfg!(not(target_pointer_width = "64")) {
            return Err(Error::invalid(format!(
                "version {found:?} has its functions in unknown places; only {VERSION:?} on \
                 64-bit machines is known: to have it, {}",
                Bdb::SOURCE.advice(store)
            ))
            .at(bdb.file));
        }
        Ok(bdb)
    }

    fn version(&self) -> (c_int, c_int, c_int) {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three places for numbers.
        unsafe { (self.api.db_version)(&raw mut major, &raw mut minor, &raw mut patch) };
        (major, minor, patch)
    }

    pub(super) fn identity(&self) -> Identity {
        let (major, minor, patch) = self.version();
        Identity { version: format!("{major}.{minor}.{patch}"), file: Some(self.file.clone()) }
    }

    /// A store that is there, to be read.
    pub(super) fn open<const IS_ORDERED: bool>(
        &self,
        method: Method,
        path: &Path,
        shape: &Shape,
    ) -> Result<BdbStore<'_, IS_ORDERED>> {
        let handle = match shape.setup {
            // No tuning was performed for reads.
            Setup::Bayes => self.handle_in(null_mut())?,
            _ => self.handle(shape)?,
        };
        handle.open(method, Some(path), READ_ONLY)?;
        Ok(BdbStore::over(handle, shape))
    }

    /// A new `DB` with its cache set, not open yet.
    pub(super) fn handle(&self, shape: &Shape) -> Result<Handle<'_>> {
        let handle = self.handle_in(null_mut())?;
        let (gigabytes, bytes) = cache_parts(shape);
        // SAFETY: the version was checked in `load`; the object is not open yet, as this asks.
        let rc = unsafe {
            let set: SetCacheSize = method(handle.db, at::SET_CACHE_SIZE);
            set(handle.db, gigabytes, bytes, 1)
        };
        check(&self.api, "set_cachesize", rc)?;
        Ok(handle)
    }

    /// The same in an environment with transactions in this folder; `flags` say whether its log is
    /// forced to the disk with each commit, which is the library's default.
    pub(super) fn committing_handle(
        &self,
        shape: &Shape,
        folder: &Path,
        flags: u32,
    ) -> Result<Handle<'_>> {
        self.handle_in_env(shape, folder, flags, 0)
    }

    /// The same, when the log was gone through and the files are as it says.
    pub(super) fn recovering_handle(&self, shape: &Shape, folder: &Path) -> Result<Handle<'_>> {
        self.handle_in_env(shape, folder, 0, RECOVER)
    }

    /// The same for several threads that share the handle: with locks, and each commit synced.
    pub(super) fn shared_handle(&self, shape: &Shape, folder: &Path) -> Result<Handle<'_>> {
        self.handle_in_env(shape, folder, 0, THREAD | INIT_LOCK)
    }

    fn handle_in_env(
        &self,
        shape: &Shape,
        folder: &Path,
        flags: u32,
        opening: u32,
    ) -> Result<Handle<'_>> {
        let (api, name) = (&self.api, c_path(folder)?);
        let threads = opening & THREAD;
        let mut env = null_mut();
        // SAFETY: `env` is a place for the pointer.
        check(api, "db_env_create", unsafe { (api.db_env_create)(&raw mut env, 0) })?;
        let opened = || {
            let (gigabytes, bytes) = cache_parts(shape);
            // SAFETY: the version was checked in `load`; the object is not open yet, as all of
            // these ask.
            let rc = unsafe {
                let set: SetCacheSize = method(env, at::ENV_SET_CACHE_SIZE);
                set(env, gigabytes, bytes, 1)
            };
            check(api, "env set_cachesize", rc)?;
            if flags != 0 {
                // SAFETY: the same.
                let rc = unsafe {
                    let set: SetFlags = method(env, at::ENV_SET_FLAGS);
                    set(env, flags, 1)
                };
                check(api, "env set_flags", rc)?;
            }
            if threads != 0 {
                // SAFETY: the same.
                let rc = unsafe {
                    let set: SetLockDetect = method(env, at::ENV_SET_LOCK_DETECT);
                    set(env, LOCK_DEFAULT)
                };
                check(api, "env set_lk_detect", rc)?;
            }
            // SAFETY: the same; the name is a C string.
            let rc = unsafe {
                let open: OpenEnv = method(env, at::ENV_OPEN);
                open(env, name.as_ptr(), PRIVATE_WITH_TRANSACTIONS | opening, 0o644)
            };
            check(api, "env open", rc)?;
            let mut handle = self.handle_in(env)?;
            handle.threads = threads;
            Ok(handle)
        };
        opened().inspect_err(|_| {
            // SAFETY: made by db_env_create; whoever could not open it closes it, too.
            unsafe { method::<Close>(env, at::ENV_CLOSE)(env, 0) };
        })
    }

    fn handle_in(&self, env: *mut Env) -> Result<Handle<'_>> {
        let mut db = null_mut();
        // SAFETY: `db` is a place for the pointer; a null environment is allowed.
        let rc = unsafe { (self.api.db_create)(&raw mut db, env, 0) };
        check(&self.api, "db_create", rc)?;
        Ok(Handle { api: &self.api, env, db, threads: 0, is_copy: false })
    }
}

fn check(api: &Api, call: &str, rc: c_int) -> Result<()> {
    if rc == 0 {
        return Ok(());
    }
    // SAFETY: the message is a C string that lives until the next call.
    let why = unsafe { CStr::from_ptr((api.db_strerror)(rc)) };
    Err(refused(call, why.to_string_lossy()))
}

pub(super) fn cache_bytes(shape: &Shape) -> u64 {
    if shape.setup == Setup::Bayes {
        return 96 << 20;
    }
    let usual = || (2 * shape.bytes()).min(machine::memory_bytes() / 4).max(96 << 20);
    shape.settings.cache().unwrap_or_else(usual)
}

/// The same in gigabytes and bytes beyond.
fn cache_parts(shape: &Shape) -> (u32, u32) {
    let cache = cache_bytes(shape);
    ((cache >> 30) as u32, (cache & ((1 << 30) - 1)) as u32)
}

/// The size of a btree's pages.
pub(super) fn btree_page_bytes(shape: &Shape) -> u32 {
    let usual = if record_bytes(shape) > 512 { 16 << 10 } else { 4 << 10 };
    shape.settings.page_size().map_or(usual, |bytes| bytes as u32)
}

/// What [`Setup::Bayes`] is in words.
pub(super) const BAYES: &str =
    "cache 96 MiB to write, the rest as it comes; USERMEM gets, bulk scans";

/// Key and value, on average.
fn record_bytes(shape: &Shape) -> usize {
    (shape.bytes() / shape.records.max(1)) as usize
}

/// A `DB` and its environment, if it has one; closed when dropped.
pub(super) struct Handle<'d> {
    api: &'d Api,
    env: *mut Env,
    db: *mut Db,
    /// [`THREAD`] where several threads share it, or nothing.
    threads: u32,
    /// Whether the object is another one's, which outlives this.
    is_copy: bool,
}

impl Handle<'_> {
    pub(super) fn set_page_size(&self, bytes: u32) -> Result<()> {
        self.set("set_pagesize", at::SET_PAGE_SIZE, bytes)
    }

    /// What a hash is told in advance.
    pub(super) fn set_fill(&self, records: u32, on_a_page: u32) -> Result<()> {
        self.set("set_h_nelem", at::SET_RECORDS, records)?;
        self.set("set_h_ffactor", at::SET_FILL_FACTOR, on_a_page)
    }

    fn set(&self, what: &str, offset: usize, number: u32) -> Result<()> {
        // SAFETY: the version was checked in `load`; all callers name offsets of setters of one
        // number, on an object that is not open yet.
        let rc = unsafe { method::<SetNumber>(self.db, offset)(self.db, number) };
        check(self.api, what, rc)
    }

    /// What a new database has: pages with checksums, which are compared when they are read, or keys
    /// with several values.
    fn set_flags(&self, flags: u32) -> Result<()> {
        self.set("set_flags", at::SET_FLAGS, flags)
    }

    /// Opens the database in this file, or without a file in the cache.
    fn open(&self, kind: Method, path: Option<&Path>, flags: u32) -> Result<()> {
        let name = path.map(c_path).transpose()?;
        let name = name.as_ref().map_or(null(), |name| name.as_ptr());
        // Every change is a transaction where there are any.
        let flags = if self.env.is_null() { flags } else { flags | AUTO_COMMIT | self.threads };
        // SAFETY: the version was checked in `load`; no transaction, one database in the file.
        let rc = unsafe {
            let open: Open = method(self.db, at::OPEN);
            open(self.db, null_mut(), name, null(), kind as c_int, flags, 0o644)
        };
        check(self.api, "open", rc)
    }

    /// A cursor of the open database, for whoever closes it.
    fn cursor(&self) -> Result<*mut Dbc> {
        let mut cursor = null_mut();
        // SAFETY: the version was checked in `load`; the database is open.
        let rc = unsafe {
            let open: OpenCursor = method(self.db, at::CURSOR);
            open(self.db, null_mut(), &raw mut cursor, 0)
        };
        check(self.api, "cursor", rc).map(|()| cursor)
    }

    fn close(&mut self) -> Result<()> {
        let db = std::mem::replace(&mut self.db, null_mut());
        let env = std::mem::replace(&mut self.env, null_mut());
        // SAFETY: the version was checked in `load`; closed once: the pointer was taken out.
        let closed = check(self.api, "close", unsafe { method::<Close>(db, at::CLOSE)(db, 0) });
        if !env.is_null() {
            // SAFETY: the same, and its only database is closed.
            let rc = unsafe { method::<Close>(env, at::ENV_CLOSE)(env, 0) };
            check(self.api, "env close", rc)?;
        }
        closed
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if !self.db.is_null() && !self.is_copy {
            // Closing what was read, or after an error that is being reported: no new one.
            let _ = self.close();
        }
    }
}

/// An open store; what is in the order of its keys says so.
pub(super) struct BdbStore<'d, const IS_ORDERED: bool> {
    handle: Handle<'d>,
    get: Access,
    put: Access,
    delete: Delete,
    /// Where one more value of a key goes, where keys have several.
    place: Option<Place>,
    /// For one value.
    buffer: Vec<u32>,
    /// For the records of a range.
    bulk: Vec<u32>,
    /// What a record takes there, on average, and the least that it takes at all.
    bulk_record: usize,
    least_bulk: usize,
}

impl<'d, const IS_ORDERED: bool> BdbStore<'d, IS_ORDERED> {
    /// A new store.
    pub(super) fn create(
        handle: Handle<'d>,
        method: Method,
        path: &Path,
        shape: &Shape,
    ) -> Result<Self> {
        if shape.settings.checksums() == Some(true) {
            handle.set_flags(CHECKSUMS)?;
        }
        if shape.duplicates.is_some() {
            handle.set_flags(DUPLICATES)?;
        }
        handle.open(method, Some(path).filter(|_| !shape.settings.memory()), CREATE)?;
        Ok(BdbStore::over(handle, shape))
    }

    /// A store over an object that is open.
    fn over(handle: Handle<'d>, shape: &Shape) -> Self {
        // SAFETY: the version was checked in `load`; the object is open.
        let (get, put, delete) = unsafe {
            (method(handle.db, at::GET), method(handle.db, at::PUT), method(handle.db, at::DELETE))
        };
        // One byte more than any value, so that a value that is too long shows.
        let buffer = vec![0; shape.longest_value / 4 + 1];
        let (bulk, bulk_record) = (Vec::new(), record_bytes(shape) + 16);
        let least_bulk = btree_page_bytes(shape) as usize;
        let place = shape.duplicates;
        BdbStore { handle, get, put, delete, place, buffer, bulk, bulk_record, least_bulk }
    }

    /// The handles of threads that share this one, which was opened for that.
    pub(super) fn into_committers(self, shape: &Shape, count: usize) -> Result<Committers<Self>> {
        let copy = |owner: &Self| {
            let &Handle { api, env, db, threads, .. } = &owner.handle;
            Ok(BdbStore::over(Handle { api, env, db, threads, is_copy: true }, shape))
        };
        // SAFETY: the environment and the database were opened with `DB_THREAD` and locks.
        unsafe { Committers::of(self, count, copy) }
    }

    /// Gives at most `count` records to `take`, from the first whose key is not below `from`, or
    /// from the first of all; `buffer` takes some of them at a time and grows where it must.
    fn walk(
        &self,
        from: Option<&[u8]>,
        mut count: usize,
        buffer: &mut Vec<u32>,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let (api, cursor) = (self.handle.api, self.handle.cursor()?);
        let mut step = if from.is_some() { SET_RANGE } else { NEXT };
        let mut rc = 0;
        while count > 0 {
            rc = fetch_bulk(cursor, from.unwrap_or_default(), step, buffer);
            match rc {
                0 => count -= each_of_bulk(buffer, count, &mut take),
                BUFFER_SMALL => {
                    buffer.resize(buffer.len() * 2, 0);
                    continue;
                }
                _ => break,
            }
            step = NEXT;
        }
        // SAFETY: the cursor is open and closed once.
        unsafe { method::<CloseCursor>(cursor, at::CURSOR_CLOSE)(cursor) };
        match rc {
            NOT_FOUND | BUFFER_SMALL => Ok(()),
            rc => check(api, "cursor get", rc),
        }
    }
}

impl<const IS_ORDERED: bool> Store for BdbStore<'_, IS_ORDERED> {
    const IS_ORDERED: bool = IS_ORDERED;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (mut key, mut value) = (Dbt::of(key), Dbt::into_buffer(&mut self.buffer));
        // SAFETY: the database is open; the key is readable, and the buffer writable for `room`.
        let rc = unsafe { (self.get)(self.handle.db, null_mut(), &raw mut key, &raw mut value, 0) };
        match rc {
            0 => {
                // SAFETY: the library wrote `size` bytes, at most `room`, to the buffer.
                take(unsafe { std::slice::from_raw_parts(value.data.cast(), value.size as usize) });
                Ok(true)
            }
            NOT_FOUND => Ok(false),
            _ => check(self.handle.api, "get", rc).map(|()| false),
        }
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.walk(None, usize::MAX, &mut vec![0_u32; (1 << 20) / 4], take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if !IS_ORDERED {
            return Err(Error::invalid("the records of this store are in no order"));
        }
        let mut buffer = std::mem::take(&mut self.bulk);
        if buffer.is_empty() {
            // As large as the records are: it is filled, however few of them are wanted.
            let bytes = self.least_bulk.max((count * self.bulk_record).min(1 << 20));
            buffer.resize(bytes.next_multiple_of(1024) / 4, 0);
        }
        let done = self.walk(Some(from), count, &mut buffer, take);
        self.bulk = buffer;
        done
    }
}

impl<const IS_ORDERED: bool> Writer for BdbStore<'_, IS_ORDERED> {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.place != Some(Place::First) {
            // Behind the others, as there is no order of values.
            return self.insert(key, value);
        }
        let cursor = self.handle.cursor()?;
        let (mut key, mut value) = (Dbt::of(key), Dbt::of(value));
        // SAFETY: the cursor is open, and closed once; key and value are readable, and only read.
        let rc = unsafe {
            let put: CursorPut = method(cursor, at::CURSOR_PUT);
            let rc = put(cursor, &raw mut key, &raw mut value, KEY_FIRST);
            method::<CloseCursor>(cursor, at::CURSOR_CLOSE)(cursor);
            rc
        };
        check(self.handle.api, "cursor put", rc)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (mut key, mut value) = (Dbt::of(key), Dbt::of(value));
        // SAFETY: the database is open for writing; key and value are readable, and only read
        // although the prototype lacks const.
        let mut put =
            || unsafe { (self.put)(self.handle.db, null_mut(), &raw mut key, &raw mut value, 0) };
        let mut rc = put();
        // Threads that wait for each other's pages: who loses has stored nothing, and tries again.
        while rc == DEADLOCK {
            rc = put();
        }
        check(self.handle.api, "put", rc)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let mut key = Dbt::of(key);
        // SAFETY: the database is open for writing; the key is readable, and only read although
        // the prototype lacks const.
        match unsafe { (self.delete)(self.handle.db, null_mut(), &raw mut key, 0) } {
            NOT_FOUND => Ok(false),
            rc => check(self.handle.api, "del", rc).map(|()| true),
        }
    }

    fn close(mut self) -> Result<()> {
        self.handle.close()
    }
}

/// Fetches as many records as fit into `buffer`.
fn fetch_bulk(cursor: *mut Dbc, key: &[u8], step: u32, buffer: &mut [u32]) -> c_int {
    let mut key = Dbt::of(key);
    let mut bulk = Dbt::into_buffer(buffer);
    // SAFETY: the cursor is open; the key is readable, and the buffer writable for `room`, a
    // multiple of 1024.
    unsafe {
        let get: CursorGet = method(cursor, at::CURSOR_GET);
        get(cursor, &raw mut key, &raw mut bulk, step | MULTIPLE_KEY)
    }
}

/// Reads at most `count` records that bulk fetching left: from the buffer's end downwards, four
/// numbers for each record (place and length of the key, then of the value), then -1. This is
/// `DB_MULTIPLE_KEY_NEXT`. Returns how many it were.
fn each_of_bulk(buffer: &[u32], count: usize, take: &mut impl FnMut(&[u8], &[u8])) -> usize {
    // SAFETY: the same memory as bytes, which have no alignment and no invalid values.
    let bytes =
        unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), size_of_val(buffer)) };
    let piece = |place: u32, len: u32| {
        bytes.get(place as usize..).and_then(|rest| rest.get(..len as usize)).unwrap_or_default()
    };
    let mut numbers = buffer.rchunks_exact(4);
    let mut given = 0;
    while let Some(&[value_len, value, key_len, key]) = numbers.next()
        && key != u32::MAX
        && given < count
    {
        take(piece(key, key_len), piece(value, value_len));
        given += 1;
    }
    given
}
