//! What BerkeleyDB's access methods have in common: `libdb-5.3.so`.
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

#![allow(unsafe_code)]

use super::bdb_abi::*;
use super::bdb_store::BdbStore;
use super::library::api;
use super::{Identity, Setup, Shape, Source, c_path, own_order, refused};
use crate::machine;
use crate::settings::{ENCRYPTION_KEY, Name, Takes, Values};
use crate::workload::KeyType;
use credenza::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

api! {
    pub(super) struct Api {
        db_version: unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char,
        db_strerror: unsafe extern "C" fn(c_int) -> *const c_char,
        db_create: unsafe extern "C" fn(*mut *mut Db, *mut Env, u32) -> c_int,
        db_env_create: unsafe extern "C" fn(*mut *mut Env, u32) -> c_int,
    }
}

/// What all access methods can be told.
pub(super) const PAGE_SIZE: Takes = (Name::PageSize, Values::Powers(512, 64 << 10));
pub(super) const CACHE: Takes = (Name::Cache, Values::AtLeast(64 << 10));
pub(super) const CHECKSUMS: Takes = (Name::Checksums, Values::Either);
pub(super) const ENCRYPTION: Takes = (Name::Encryption, Values::Either);
pub(super) const CURSORS: Takes = (Name::Cursors, Values::Either);
pub(super) const MEMORY: Takes = (Name::Memory, Values::Either);

/// An access method: what the files of a store are.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Method {
    BTree = 1,
    Hash = 2,
    /// A btree whose keys are numbers that the library gives to records.
    Recno = 3,
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
        handle.order_keys(method, shape)?;
        handle.open(method, Some(path), READ_ONLY)?;
        BdbStore::over(handle, shape).with_walker().with_cursor(shape)
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
        if shape.settings.encryption() {
            // SAFETY: the same.
            let rc = unsafe { set_encrypt(handle.db, at::SET_ENCRYPT) };
            check(&self.api, "set_encrypt", rc)?;
        }
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

    /// The same for several threads that share the handle: with locks.
    pub(super) fn shared_handle(
        &self,
        shape: &Shape,
        folder: &Path,
        flags: u32,
    ) -> Result<Handle<'_>> {
        self.handle_in_env(shape, folder, flags, THREAD | INIT_LOCK)
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
        // SAFETY: the version was checked in `load`; the object is new.
        unsafe { method::<SetTelling>(env, at::ENV_SET_TELLING)(env, tell) };
        let opened = || {
            let (gigabytes, bytes) = cache_parts(shape);
            // SAFETY: the version was checked in `load`; the object is not open yet, as all of
            // these ask.
            let rc = unsafe {
                let set: SetCacheSize = method(env, at::ENV_SET_CACHE_SIZE);
                set(env, gigabytes, bytes, 1)
            };
            check(api, "env set_cachesize", rc)?;
            if shape.settings.encryption() {
                // SAFETY: the same.
                check(api, "env set_encrypt", unsafe { set_encrypt(env, at::ENV_SET_ENCRYPT) })?;
            }
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
                    set(env, LOCK_YOUNGEST)
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
            if shape.settings.encryption() {
                handle.set_flags(ENCRYPTED)?;
            }
            if !shape.settings.recovery() {
                handle.set_flags(NOT_DURABLE)?;
            }
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
        // One in an environment says what it has to say as that does.
        if env.is_null() {
            // SAFETY: the version was checked in `load`; the object is new.
            unsafe { method::<SetTelling>(db, at::SET_TELLING)(db, tell) };
        }
        Ok(Handle { api: &self.api, env, txn: null_mut(), db, threads: 0, is_copy: false })
    }
}

/// The messages of the library that a process prints.
const TOLD: usize = 6;

/// Prints what the library says, which has more in it than the number that a call answers: by itself it prints three lines
/// for each page that it cannot write, thousands where a disk is full.
///
/// # Safety
/// The message is a C string.
unsafe extern "C" fn tell(_: *const Env, _: *const c_char, message: *const c_char) {
    static SO_FAR: AtomicUsize = AtomicUsize::new(0);
    let told = SO_FAR.fetch_add(1, Ordering::Relaxed);
    if told > TOLD {
        return;
    }
    // SAFETY: the caller's promise.
    let message = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    let message = if told < TOLD { &*message } else { "BerkeleyDB says more, which is left out" };
    // Nobody may be there to read it, and what is called from C does not panic.
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// Has a `DB` or `DB_ENV`, which is not open yet, encrypt what it writes: `DB_ENCRYPT_AES`.
///
/// # Safety
/// As for [`method`]; `offset` is where the object has its `set_encrypt`.
unsafe fn set_encrypt(object: *mut c_void, offset: usize) -> c_int {
    // SAFETY: the caller's promise; the key is a C string.
    unsafe { method::<SetEncrypt>(object, offset)(object, ENCRYPTION_KEY.as_ptr(), ENCRYPTED) }
}

/// The order of keys of our own, as the library calls it.
///
/// # Safety
/// Both are keys of the library.
unsafe extern "C" fn compare(_: *mut Db, one: *const Dbt, other: *const Dbt) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let [one, other] =
            [&*one, &*other].map(|key| (key.data.cast_const().cast(), key.size as usize));
        own_order::compare(one, other)
    }
}

pub(super) fn check(api: &Api, call: &str, rc: c_int) -> Result<()> {
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
pub(super) fn record_bytes(shape: &Shape) -> usize {
    (shape.bytes() / shape.records.max(1)) as usize
}

/// A `DB` and its environment, if it has one; closed when dropped.
pub(super) struct Handle<'d> {
    pub(super) api: &'d Api,
    pub(super) env: *mut Env,
    /// The transaction that all calls belong to, or null.
    pub(super) txn: *mut Txn,
    pub(super) db: *mut Db,
    /// [`THREAD`] where several threads share it, or nothing.
    pub(super) threads: u32,
    /// Whether the object is another one's, which outlives this.
    pub(super) is_copy: bool,
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

    /// Has a btree leave out what a key has in common with the one before it.
    pub(super) fn compress_keys(&self) -> Result<()> {
        // SAFETY: the version was checked in `load`; the object is not open yet. Null stands for the
        // library's own functions.
        let rc = unsafe {
            let set: SetKeyCompression = method(self.db, at::SET_KEY_COMPRESSION);
            set(self.db, null(), null())
        };
        check(self.api, "set_bt_compress", rc)
    }

    /// Has a btree compare keys by a function of ours where they are of that type, which has to be said each
    /// time before it is opened.
    pub(super) fn order_keys(&self, kind: Method, shape: &Shape) -> Result<()> {
        if !matches!(kind, Method::BTree) || shape.keys != KeyType::Custom {
            return Ok(());
        }
        // SAFETY: the version was checked in `load`; the object is not open yet.
        let rc = unsafe { method::<SetCompare>(self.db, at::SET_COMPARE)(self.db, compare) };
        check(self.api, "set_bt_compare", rc)
    }

    fn set(&self, what: &str, offset: usize, number: u32) -> Result<()> {
        // SAFETY: the version was checked in `load`; all callers name offsets of setters of one
        // number, on an object that is not open yet.
        let rc = unsafe { method::<SetNumber>(self.db, offset)(self.db, number) };
        check(self.api, what, rc)
    }

    /// What a new database has: pages with checksums, which are compared when they are read, or keys
    /// with several values.
    pub(super) fn set_flags(&self, flags: u32) -> Result<()> {
        self.set("set_flags", at::SET_FLAGS, flags)
    }

    /// Opens the database in this file, or without a file in the cache.
    pub(super) fn open(&self, kind: Method, path: Option<&Path>, flags: u32) -> Result<()> {
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
    pub(super) fn cursor(&self) -> Result<*mut Dbc> {
        self.cursor_raw().or_else(|rc| check(self.api, "cursor", rc).map(|()| null_mut()))
    }

    /// The same, or what the library says.
    pub(super) fn cursor_raw(&self) -> Result<*mut Dbc, c_int> {
        let mut cursor = null_mut();
        // SAFETY: the version was checked in `load`; the database is open.
        let rc = unsafe {
            let open: OpenCursor = method(self.db, at::CURSOR);
            open(self.db, self.txn, &raw mut cursor, 0)
        };
        if rc == 0 { Ok(cursor) } else { Err(rc) }
    }

    /// Begins a transaction of which all is that follows. There is an environment, and none was begun.
    pub(super) fn begin(&mut self) -> Result<()> {
        let rc = self.begin_raw();
        check(self.api, "txn_begin", rc)
    }

    /// The same, and what the library says of it.
    pub(super) fn begin_raw(&mut self) -> c_int {
        // SAFETY: the version was checked in `load`; the environment is open; a place for the pointer.
        unsafe {
            let begin: BeginTxn = method(self.env, at::ENV_TXN_BEGIN);
            begin(self.env, null_mut(), &raw mut self.txn, 0)
        }
    }

    /// Gives the transaction up, if there is one.
    pub(super) fn abort(&mut self) {
        let txn = std::mem::replace(&mut self.txn, null_mut());
        if !txn.is_null() {
            // What it says is not asked for: it is given up after a refusal, or an error that is reported.
            // SAFETY: as above; it was begun, and was taken out, so that it ends once.
            let _ = unsafe { method::<AbortTxn>(txn, at::TXN_ABORT)(txn) };
        }
    }

    pub(super) fn commit(&mut self) -> Result<()> {
        let txn = std::mem::replace(&mut self.txn, null_mut());
        // SAFETY: as above.
        let rc = unsafe { method::<CommitTxn>(txn, at::TXN_COMMIT)(txn, 0) };
        check(self.api, "txn commit", rc)
    }

    pub(super) fn close(&mut self) -> Result<()> {
        self.abort();
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
        self.abort();
        if !self.db.is_null() && !self.is_copy {
            // Closing what was read, or after an error that is being reported: no new one.
            let _ = self.close();
        }
    }
}
