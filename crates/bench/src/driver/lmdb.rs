//! LMDB: `liblmdb.so.0`.
//!
//! Tuning: no lock, no sync, a writable map, no read-ahead; one write transaction for the build,
//! appending when the keys come sorted. Reads are zero-copy in one read transaction. Single
//! changes are all in one write transaction, too, which is committed at the end: until then
//! nothing of them outlives the process. Where each is to be a transaction of its own, its commit
//! is a write to the map, and outlives the process.

#![allow(unsafe_code)]

use super::library::api;
use super::{Changes, Driver, Identity, Reading, Shape, Source, Store, Writer, c_path, refused};
use crate::workload::Records;
use credenza::Result;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

/// `MDB_env`, `MDB_txn` and `MDB_cursor` of lmdb.h, only ever pointed to.
type Env = c_void;
type Txn = c_void;
type Cursor = c_void;

/// `MDB_val` of lmdb.h.
#[repr(C)]
struct Val {
    size: usize,
    data: *const u8,
}

impl Val {
    fn of(bytes: &[u8]) -> Val {
        Val { size: bytes.len(), data: bytes.as_ptr() }
    }

    const fn empty() -> Val {
        Val { size: 0, data: null() }
    }

    /// # Safety
    /// The library filled this value in, and the transaction it came from is open and was not written to
    /// since.
    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: the caller's promise: `size` bytes of the map at `data`.
        unsafe { std::slice::from_raw_parts(self.data, self.size) }
    }
}

api! {
    struct Api {
        mdb_version: unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char,
        mdb_strerror: unsafe extern "C" fn(c_int) -> *const c_char,
        mdb_env_create: unsafe extern "C" fn(*mut *mut Env) -> c_int,
        mdb_env_set_mapsize: unsafe extern "C" fn(*mut Env, usize) -> c_int,
        mdb_env_open: unsafe extern "C" fn(*mut Env, *const c_char, c_uint, libc::mode_t) -> c_int,
        mdb_env_close: unsafe extern "C" fn(*mut Env),
        mdb_txn_begin: unsafe extern "C" fn(*mut Env, *mut Txn, c_uint, *mut *mut Txn) -> c_int,
        mdb_txn_commit: unsafe extern "C" fn(*mut Txn) -> c_int,
        mdb_txn_abort: unsafe extern "C" fn(*mut Txn),
        mdb_dbi_open: unsafe extern "C" fn(*mut Txn, *const c_char, c_uint, *mut c_uint) -> c_int,
        mdb_get: unsafe extern "C" fn(*mut Txn, c_uint, *mut Val, *mut Val) -> c_int,
        mdb_put: unsafe extern "C" fn(*mut Txn, c_uint, *mut Val, *mut Val, c_uint) -> c_int,
        mdb_del: unsafe extern "C" fn(*mut Txn, c_uint, *mut Val, *mut Val) -> c_int,
        mdb_cursor_open: unsafe extern "C" fn(*mut Txn, c_uint, *mut *mut Cursor) -> c_int,
        mdb_cursor_get: unsafe extern "C" fn(*mut Cursor, *mut Val, *mut Val, c_int) -> c_int,
        mdb_cursor_close: unsafe extern "C" fn(*mut Cursor),
    }
}

const NO_SUBDIR: c_uint = 0x4000;
const NO_SYNC: c_uint = 0x10000;
const READ_ONLY: c_uint = 0x20000;
const NO_META_SYNC: c_uint = 0x40000;
const WRITE_MAP: c_uint = 0x80000;
const NO_LOCK: c_uint = 0x40_0000;
const NO_READ_AHEAD: c_uint = 0x80_0000;
const APPEND: c_uint = 0x20000;
const NEXT: c_int = 8;
const SET_RANGE: c_int = 17;
const NOT_FOUND: c_int = -30798;

impl Api {
    fn check(&self, call: &str, rc: c_int) -> Result<()> {
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: the message is a C string constant, or in a buffer of the C library.
        let why = unsafe { CStr::from_ptr((self.mdb_strerror)(rc)) };
        Err(refused(call, why.to_string_lossy()))
    }
}

pub(super) struct Lmdb {
    api: Api,
    file: PathBuf,
}

/// An open environment with one transaction; closed when dropped.
pub(super) struct LmdbStore<'d> {
    api: &'d Api,
    env: *mut Env,
    /// Null where every change has its own.
    txn: *mut Txn,
    dbi: c_uint,
}

impl Drop for LmdbStore<'_> {
    fn drop(&mut self) {
        if !self.txn.is_null() {
            // SAFETY: the transaction is open and ends here.
            unsafe { (self.api.mdb_txn_abort)(self.txn) };
        }
        // SAFETY: made by mdb_env_create, closed once, after its only transaction.
        unsafe { (self.api.mdb_env_close)(self.env) };
    }
}

fn map_bytes(shape: &Shape) -> usize {
    let need = 4 * shape.bytes() + 512 * shape.records;
    usize::try_from(need).unwrap_or(usize::MAX).max(8 << 30).next_multiple_of(1 << 20)
}

impl Lmdb {
    fn opened(&self, path: &Path, shape: &Shape, flags: c_uint) -> Result<LmdbStore<'_>> {
        let (api, name) = (&self.api, c_path(path)?);
        let mut env = null_mut();
        // SAFETY: `env` is a place for the pointer.
        api.check("mdb_env_create", unsafe { (api.mdb_env_create)(&raw mut env) })?;
        let mut store = LmdbStore { api, env, txn: null_mut(), dbi: 0 };
        // SAFETY: the environment was made and is not open yet.
        let rc = unsafe { (api.mdb_env_set_mapsize)(env, map_bytes(shape)) };
        api.check("mdb_env_set_mapsize", rc)?;
        let all = flags | NO_SUBDIR | NO_LOCK | NO_READ_AHEAD;
        // SAFETY: the environment was made; the name is a C string.
        let rc = unsafe { (api.mdb_env_open)(env, name.as_ptr(), all, 0o644) };
        api.check("mdb_env_open", rc)?;
        // SAFETY: the environment is open; this is its only transaction.
        let rc =
            unsafe { (api.mdb_txn_begin)(env, null_mut(), flags & READ_ONLY, &raw mut store.txn) };
        api.check("mdb_txn_begin", rc)?;
        // SAFETY: the transaction is open; a null name is the main database.
        let rc = unsafe { (api.mdb_dbi_open)(store.txn, null(), 0, &raw mut store.dbi) };
        api.check("mdb_dbi_open", rc)?;
        Ok(store)
    }
}

impl Driver for Lmdb {
    const NAME: &'static str = "lmdb";
    const SOURCE: Option<Source> = Some(Source {
        names: &["liblmdb.so.0", "liblmdb.so"],
        package: Some("liblmdb0"),
        home: "https://www.symas.com/lmdb",
    });

    const CHANGES: Changes = Changes::AtClose;
    const COMMITS: bool = true;

    fn load(file: Option<&Path>) -> Result<Lmdb> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"mdb_env_create")?;
        Ok(Lmdb { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three places for numbers.
        unsafe { (self.api.mdb_version)(&raw mut major, &raw mut minor, &raw mut patch) };
        Identity { version: format!("{major}.{minor}.{patch}"), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        let append = if shape.is_sorted { "MDB_APPEND as the keys come sorted, " } else { "" };
        format!(
            "NOSUBDIR, NOSYNC, NOMETASYNC, WRITEMAP, NORDAHEAD, NOLOCK, map {} GiB; build: \
             {append}one write transaction; single changes: one write transaction for the whole \
             phase, or one for each; lookups: one read transaction",
            map_bytes(shape) >> 30
        )
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        let mut store = self.create(path, shape)?;
        let flags = if shape.is_sorted { APPEND } else { 0 };
        for (key, value) in records.iter() {
            store.put(key, value, flags)?;
        }
        store.close()
    }

    type Store<'d> = LmdbStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<LmdbStore<'_>> {
        self.opened(path, shape, READ_ONLY)
    }

    type Writer<'d> = LmdbStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<LmdbStore<'_>> {
        self.opened(path, shape, NO_SYNC | NO_META_SYNC | WRITE_MAP)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<LmdbStore<'_>> {
        let mut store = self.create(path, shape)?;
        store.commit()?;
        Ok(store)
    }
}

impl LmdbStore<'_> {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8], flags: c_uint) -> Result<()> {
        let (mut key, mut value) = (Val::of(key), Val::of(value));
        // SAFETY: the transaction is open for writing; key and value are readable, and only read
        // although the prototype lacks const.
        let rc =
            unsafe { (self.api.mdb_put)(self.txn, self.dbi, &raw mut key, &raw mut value, flags) };
        self.api.check("mdb_put", rc)
    }

    /// Does `work` in the transaction that is open, or else in one of its own.
    #[inline]
    fn within<T>(&mut self, flags: c_uint, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if !self.txn.is_null() {
            return work(self);
        }
        // SAFETY: the environment is open and has no transaction.
        let rc =
            unsafe { (self.api.mdb_txn_begin)(self.env, null_mut(), flags, &raw mut self.txn) };
        self.api.check("mdb_txn_begin", rc)?;
        let done = work(self);
        self.commit()?;
        done
    }

    fn commit(&mut self) -> Result<()> {
        let txn = std::mem::replace(&mut self.txn, null_mut());
        // SAFETY: the transaction is open, ends here whatever the answer, and was taken out of the
        // store so that nobody ends it again.
        self.api.check("mdb_txn_commit", unsafe { (self.api.mdb_txn_commit)(txn) })
    }

    /// Gives the records to `take` that a cursor comes to with `first` and then further steps.
    fn walk(
        &mut self,
        mut key: Val,
        first: c_int,
        count: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let api = self.api;
        let mut cursor = null_mut();
        // SAFETY: the transaction is open, and `cursor` a place for the pointer.
        let rc = unsafe { (api.mdb_cursor_open)(self.txn, self.dbi, &raw mut cursor) };
        api.check("mdb_cursor_open", rc)?;
        let (mut value, mut step, mut rc) = (Val::empty(), first, 0);
        for _ in 0..count {
            // SAFETY: the cursor is open; the key is readable where it is looked for, and both are
            // places for the answer.
            rc = unsafe { (api.mdb_cursor_get)(cursor, &raw mut key, &raw mut value, step) };
            if rc != 0 {
                break;
            }
            // SAFETY: the cursor filled both in; the transaction stays open.
            unsafe { take(key.bytes(), value.bytes()) };
            step = NEXT;
        }
        // SAFETY: the cursor is open and closed once.
        unsafe { (api.mdb_cursor_close)(cursor) };
        if rc == NOT_FOUND { Ok(()) } else { api.check("mdb_cursor_get", rc) }
    }
}

impl Writer for LmdbStore<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.within(0, |store| store.put(key, value, 0))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.within(0, |store| {
            let mut key = Val::of(key);
            // SAFETY: the transaction is open for writing; the key is readable and only read; a
            // null value stands for whatever the key has.
            let rc = unsafe { (store.api.mdb_del)(store.txn, store.dbi, &raw mut key, null_mut()) };
            match rc {
                NOT_FOUND => Ok(false),
                rc => store.api.check("mdb_del", rc).map(|()| true),
            }
        })
    }

    fn close(mut self) -> Result<()> {
        if self.txn.is_null() { Ok(()) } else { self.commit() }
    }
}

impl Store for LmdbStore<'_> {
    const IS_ORDERED: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        self.within(READ_ONLY, |store| {
            let (mut key, mut value) = (Val::of(key), Val::empty());
            // SAFETY: the transaction is open; the key is readable and only read.
            let rc =
                unsafe { (store.api.mdb_get)(store.txn, store.dbi, &raw mut key, &raw mut value) };
            match rc {
                0 => {
                    // SAFETY: mdb_get filled the value in; the transaction stays open, and nothing
                    // is written before `take` is done.
                    take(unsafe { value.bytes() });
                    Ok(true)
                }
                NOT_FOUND => Ok(false),
                _ => store.api.check("mdb_get", rc).map(|()| false),
            }
        })
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.within(READ_ONLY, |store| store.walk(Val::empty(), NEXT, usize::MAX, take))
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.within(READ_ONLY, |store| store.walk(Val::of(from), SET_RANGE, count, take))
    }
}
