//! BerkeleyDB's hash access method: `libdb-5.3.so`.
//!
//! Tuning: no environment, 4 KiB pages, the number of records and the fill factor told in
//! advance, a cache of twice the data (at least 96 MiB, at most a quarter of the memory). Reads
//! copy into our buffer (`DB_DBT_USERMEM`); scans fetch in bulk (`DB_MULTIPLE_KEY`).
//!
//! Without an environment there is no log, and the cache is the process's own: changes are in the
//! file for certain only when it was closed.
//!
//! BerkeleyDB is called through function pointers inside its `DB` struct. Where they are is known
//! for one version on 64-bit machines, and any other version is refused.

#![allow(unsafe_code)]

use super::library::api;
use super::{Changes, Driver, Identity, Reading, Shape, Source, Store, Writer, c_path, refused};
use crate::machine;
use credenza::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

/// `DB` and `DBC` of db.h, only ever pointed to.
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
        db_create: unsafe extern "C" fn(*mut *mut Db, *mut c_void, u32) -> c_int,
    }
}

/// The version whose `DB` struct is described by [`at`].
const VERSION: (c_int, c_int, c_int) = (5, 3, 28);

/// Byte offsets of function pointers in `DB`, and in `DBC` for the cursor's.
mod at {
    pub(super) const CLOSE: usize = 568;
    pub(super) const CURSOR: usize = 584;
    pub(super) const DELETE: usize = 592;
    pub(super) const GET: usize = 632;
    pub(super) const OPEN: usize = 1008;
    pub(super) const PUT: usize = 1024;
    pub(super) const SET_CACHE_SIZE: usize = 1096;
    pub(super) const SET_FILL_FACTOR: usize = 1176;
    pub(super) const SET_RECORDS: usize = 1192;
    pub(super) const SET_PAGE_SIZE: usize = 1248;
    pub(super) const CURSOR_CLOSE: usize = 352;
    pub(super) const CURSOR_GET: usize = 392;
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
type SetNumber = unsafe extern "C" fn(*mut Db, u32) -> c_int;
type CloseCursor = unsafe extern "C" fn(*mut Dbc) -> c_int;
type CursorGet = unsafe extern "C" fn(*mut Dbc, *mut Dbt, *mut Dbt, u32) -> c_int;

const HASH: c_int = 2;
const CREATE: u32 = 0x1;
const READ_ONLY: u32 = 0x400;
const NEXT: u32 = 16;
const MULTIPLE_KEY: u32 = 0x4000;
const USER_MEMORY: u32 = 0x800;
const NOT_FOUND: c_int = -30988;
const BUFFER_SMALL: c_int = -30999;
const PAGE: u32 = 4096;

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

pub(super) struct BdbHash {
    api: Api,
    file: PathBuf,
}

impl BdbHash {
    fn version(api: &Api) -> (c_int, c_int, c_int) {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three places for numbers.
        unsafe { (api.db_version)(&raw mut major, &raw mut minor, &raw mut patch) };
        (major, minor, patch)
    }

    /// A new `DB` with its cache set, not open yet.
    fn handle(&self, shape: &Shape) -> Result<Handle<'_>> {
        let mut db = null_mut();
        // SAFETY: `db` is a place for the pointer; a null environment is allowed.
        let rc = unsafe { (self.api.db_create)(&raw mut db, null_mut(), 0) };
        check(&self.api, "db_create", rc)?;
        let handle = Handle { api: &self.api, db };
        let cache = cache_bytes(shape);
        // SAFETY: the version was checked in `load`; the object is not open yet, as this asks.
        let rc = unsafe {
            let set: SetCacheSize = method(db, at::SET_CACHE_SIZE);
            set(db, (cache >> 30) as u32, (cache & ((1 << 30) - 1)) as u32, 1)
        };
        check(&self.api, "set_cachesize", rc)?;
        Ok(handle)
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

fn cache_bytes(shape: &Shape) -> u64 {
    (2 * shape.bytes()).min(machine::memory_bytes() / 4).max(96 << 20)
}

/// Records on a page, as the documentation of `set_h_ffactor` computes it.
fn fill_factor(shape: &Shape) -> u32 {
    let record = shape.bytes() / shape.records.max(1) + 8;
    (u64::from(PAGE - 32) / record).max(1) as u32
}

/// A `DB`, closed when dropped.
struct Handle<'d> {
    api: &'d Api,
    db: *mut Db,
}

impl Handle<'_> {
    fn set(&self, what: &str, offset: usize, number: u32) -> Result<()> {
        // SAFETY: the version was checked in `load`; all callers name offsets of setters of one
        // number, on an object that is not open yet.
        let rc = unsafe { method::<SetNumber>(self.db, offset)(self.db, number) };
        check(self.api, what, rc)
    }

    fn open(&self, path: &Path, flags: u32) -> Result<()> {
        let name = c_path(path)?;
        // SAFETY: the version was checked in `load`; no transaction, one database in the file.
        let rc = unsafe {
            let open: Open = method(self.db, at::OPEN);
            open(self.db, null_mut(), name.as_ptr(), null(), HASH, flags, 0o644)
        };
        check(self.api, "open", rc)
    }

    fn close(&mut self) -> Result<()> {
        let db = std::mem::replace(&mut self.db, null_mut());
        // SAFETY: the version was checked in `load`; closed once: the pointer was taken out.
        let rc = unsafe { method::<Close>(db, at::CLOSE)(db, 0) };
        check(self.api, "close", rc)
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if !self.db.is_null() {
            // Closing what was read, or after an error that is being reported: no new one.
            let _ = self.close();
        }
    }
}

impl Driver for BdbHash {
    const NAME: &'static str = "bdb-hash";
    const SOURCE: Option<Source> = Some(Source {
        names: &["libdb-5.3.so"],
        package: Some("libdb5.3"),
        home: "https://www.oracle.com/database/technologies/related/berkeleydb.html",
    });

    const CHANGES: Changes = Changes::AtClose;

    fn load(file: Option<&Path>) -> Result<BdbHash> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"db_create")?;
        let api = Api::load(opened.library)?;
        let found = Self::version(&api);
        if found != VERSION || cfg!(not(target_pointer_width = "64")) {
            return Err(Error::invalid(format!(
                "version {found:?} has its functions in unknown places; only {VERSION:?} on \
                 64-bit machines is known: to have it, {}",
                source.advice(Self::NAME)
            ))
            .at(opened.file));
        }
        Ok(BdbHash { api, file: opened.file })
    }

    fn identity(&self) -> Identity {
        let (major, minor, patch) = Self::version(&self.api);
        Identity { version: format!("{major}.{minor}.{patch}"), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        format!(
            "no environment, {PAGE}-byte pages, h_nelem {}, h_ffactor {}, cache {} MiB; USERMEM \
             gets, bulk scans",
            shape.records,
            fill_factor(shape),
            cache_bytes(shape) >> 20
        )
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "changes are in a cache of the process until the store is closed, as there is no \
             environment"
                .to_owned(),
        ]
    }

    type Store<'d> = BdbStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<BdbStore<'_>> {
        let handle = self.handle(shape)?;
        handle.open(path, READ_ONLY)?;
        Ok(BdbStore::over(handle, shape))
    }

    type Writer<'d> = BdbStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<BdbStore<'_>> {
        let handle = self.handle(shape)?;
        handle.set("set_pagesize", at::SET_PAGE_SIZE, PAGE)?;
        handle.set("set_h_nelem", at::SET_RECORDS, shape.records as u32)?;
        handle.set("set_h_ffactor", at::SET_FILL_FACTOR, fill_factor(shape))?;
        handle.open(path, CREATE)?;
        Ok(BdbStore::over(handle, shape))
    }
}

pub(super) struct BdbStore<'d> {
    handle: Handle<'d>,
    get: Access,
    put: Access,
    delete: Delete,
    buffer: Vec<u32>,
}

impl<'d> BdbStore<'d> {
    /// A store over an object that is open.
    fn over(handle: Handle<'d>, shape: &Shape) -> BdbStore<'d> {
        // SAFETY: the version was checked in `load`; the object is open.
        let (get, put, delete) = unsafe {
            (method(handle.db, at::GET), method(handle.db, at::PUT), method(handle.db, at::DELETE))
        };
        // One byte more than any value, so that a value that is too long shows.
        BdbStore { handle, get, put, delete, buffer: vec![0; shape.longest_value / 4 + 1] }
    }
}

impl Store for BdbStore<'_> {
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

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let api = self.handle.api;
        let mut cursor = null_mut();
        // SAFETY: the version was checked in `load`; the database is open.
        let rc = unsafe {
            let open: OpenCursor = method(self.handle.db, at::CURSOR);
            open(self.handle.db, null_mut(), &raw mut cursor, 0)
        };
        check(api, "cursor", rc)?;
        let mut buffer = vec![0_u32; (1 << 20) / 4];
        let rc = loop {
            match next_bulk(cursor, &mut buffer) {
                0 => each_of_bulk(&buffer, &mut take),
                BUFFER_SMALL => buffer.resize(buffer.len() * 2, 0),
                rc => break rc,
            }
        };
        // SAFETY: the cursor is open and closed once.
        unsafe { method::<CloseCursor>(cursor, at::CURSOR_CLOSE)(cursor) };
        if rc == NOT_FOUND { Ok(()) } else { check(api, "cursor get", rc) }
    }
}

impl Writer for BdbStore<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (mut key, mut value) = (Dbt::of(key), Dbt::of(value));
        // SAFETY: the database is open for writing; key and value are readable, and only read
        // although the prototype lacks const.
        let rc = unsafe { (self.put)(self.handle.db, null_mut(), &raw mut key, &raw mut value, 0) };
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
fn next_bulk(cursor: *mut Dbc, buffer: &mut [u32]) -> c_int {
    let mut key = Dbt::of(&[]);
    let mut bulk = Dbt::into_buffer(buffer);
    // SAFETY: the cursor is open; the buffer is writable for `room`, a multiple of 1024.
    unsafe {
        let get: CursorGet = method(cursor, at::CURSOR_GET);
        get(cursor, &raw mut key, &raw mut bulk, NEXT | MULTIPLE_KEY)
    }
}

/// Reads what bulk fetching left: from the buffer's end downwards, four numbers for each record
/// (place and length of the key, then of the value), then -1. This is `DB_MULTIPLE_KEY_NEXT`.
fn each_of_bulk(buffer: &[u32], take: &mut impl FnMut(&[u8], &[u8])) {
    // SAFETY: the same memory as bytes, which have no alignment and no invalid values.
    let bytes =
        unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), size_of_val(buffer)) };
    let piece = |place: u32, len: u32| {
        bytes.get(place as usize..).and_then(|rest| rest.get(..len as usize)).unwrap_or_default()
    };
    let mut numbers = buffer.rchunks_exact(4);
    while let Some(&[value_len, value, key_len, key]) = numbers.next() {
        if key == u32::MAX {
            return;
        }
        take(piece(key, key_len), piece(value, value_len));
    }
}
