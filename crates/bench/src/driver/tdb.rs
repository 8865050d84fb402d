//! TDB, Samba's trivial database: `libtdb.so.1`.
//!
//! Tuning: as many hash chains as records (the library's own 131 collapse beyond some ten
//! thousand), Jenkins' hash, no lock: by default every call takes two locks with fcntl, which
//! cost more than the rest. Reads are zero-copy (`tdb_parse_record`).

#![allow(unsafe_code)]

use super::library::api;
use super::{
    Driver, Identity, Reading, Setup, Shape, Sharing, Source, Store, Writer, c_path, refused,
};
use super::{refused_by_errno, trivial};
use crate::settings::{Name, Takes, Values};
use credenza::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use trivial::{Context, Data, Parse, Visit, parser, visitor};

api! {
    struct Api {
        tdb_open: unsafe extern "C" fn(*const c_char, c_int, c_int, c_int, libc::mode_t) -> *mut Context,
        tdb_close: unsafe extern "C" fn(*mut Context) -> c_int,
        tdb_error: unsafe extern "C" fn(*mut Context) -> c_int,
        tdb_errorstr: unsafe extern "C" fn(*mut Context) -> *const c_char,
        tdb_parse_record: unsafe extern "C" fn(*mut Context, Data, Parse, *mut c_void) -> c_int,
        tdb_store: unsafe extern "C" fn(*mut Context, Data, Data, c_int) -> c_int,
        tdb_transaction_start: unsafe extern "C" fn(*mut Context) -> c_int,
        tdb_transaction_commit: unsafe extern "C" fn(*mut Context) -> c_int,
        tdb_delete: unsafe extern "C" fn(*mut Context, Data) -> c_int,
        tdb_traverse_read: unsafe extern "C" fn(*mut Context, Visit, *mut c_void) -> c_int,
    }
}

const NO_LOCK: c_int = 4;
const NO_SYNC: c_int = 64;
const INCOMPATIBLE_HASH: c_int = 2048;
const REPLACE: c_int = 1;
const INSERT: c_int = 2;
/// `TDB_ERR_EXISTS` and `TDB_ERR_NOEXIST`.
const EXISTS: c_int = 5;
const NO_RECORD: c_int = 8;

pub(super) struct Tdb {
    api: Api,
    file: PathBuf,
}

fn chains(shape: &Shape) -> c_int {
    match shape.setup {
        Setup::Ntdb => 10_000,
        _ => c_int::try_from(shape.records.max(131)).unwrap_or(c_int::MAX),
    }
}

fn flags(shape: &Shape, more: c_int) -> c_int {
    let chosen = trivial::chosen_flags(shape);
    match shape.setup {
        Setup::Ntdb => chosen,
        _ => chosen | more | INCOMPATIBLE_HASH,
    }
}

impl Tdb {
    fn opened(&self, path: &Path, shape: &Shape, mode: c_int, more: c_int) -> Result<TdbStore<'_>> {
        let name = c_path(path)?;
        let (chains, flags) = (chains(shape), flags(shape, more));
        // SAFETY: the name is a C string.
        let tdb = unsafe { (self.api.tdb_open)(name.as_ptr(), chains, flags, mode, 0o644) };
        if tdb.is_null() {
            return Err(refused_by_errno("tdb_open").at(path));
        }
        Ok(TdbStore { api: &self.api, tdb, is_durable: more & NO_SYNC == 0 })
    }
}

impl Driver for Tdb {
    const NAME: &'static str = "tdb";
    const REOPENS: bool = true;
    const SHARING: Sharing = Sharing::Writer;
    const HAS_COMMITTING_PROCESSES: bool = true;
    const DURABLE: Option<&'static str> = Some("a transaction for each change, without NOSYNC");
    const SOURCE: Option<Source> = Some(Source {
        names: &["libtdb.so.1"],
        package: Some("libtdb1"),
        home: "https://tdb.samba.org/",
    });

    const SETTINGS: &'static [Takes] = &[trivial::MMAP, (Name::Memory, Values::Either)];

    fn load(file: Option<&Path>) -> Result<Tdb> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"tdb_parse_record")?;
        Ok(Tdb { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        Identity { version: String::new(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        if shape.setup == Setup::Ntdb {
            return "hash_size 10000, the rest as it comes, with its locks; tdb_parse_record"
                .into();
        }
        format!(
            "hash_size {}, NOLOCK, NOSYNC, INCOMPATIBLE_HASH (Jenkins); tdb_parse_record; beside a \
             writer, and where several processes change it, with its locks",
            chains(shape)
        )
    }

    type Store<'d> = TdbStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<TdbStore<'_>> {
        self.opened(path, shape, libc::O_RDONLY, NO_LOCK | NO_SYNC)
    }

    type Writer<'d> = TdbStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<TdbStore<'_>> {
        self.opened(path, shape, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, NO_LOCK | NO_SYNC)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<TdbStore<'_>> {
        self.opened(path, shape, libc::O_RDWR | libc::O_CREAT, NO_LOCK)
    }

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<TdbStore<'_>> {
        self.opened(path, shape, libc::O_RDWR, NO_LOCK | NO_SYNC)
    }

    fn open_to_commit(&self, path: &Path, shape: &Shape, is_durable: bool) -> Result<TdbStore<'_>> {
        self.opened(path, shape, libc::O_RDWR, if is_durable { 0 } else { NO_SYNC })
    }

    /// One that may only read would take no locks.
    fn open_beside(&self, path: &Path, shape: &Shape) -> Result<TdbStore<'_>> {
        self.opened(path, shape, libc::O_RDWR, NO_SYNC)
    }

    fn open_to_change(&self, path: &Path, shape: &Shape) -> Result<TdbStore<'_>> {
        self.opened(path, shape, libc::O_RDWR, NO_SYNC)
    }
}

/// An open database, closed when dropped.
pub(super) struct TdbStore<'d> {
    api: &'d Api,
    tdb: *mut Context,
    /// Whether each change is a transaction, which is on the disk when it is committed.
    is_durable: bool,
}

impl TdbStore<'_> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key, value) = (Data::of(key), Data::of(value));
        // SAFETY: the database is open; key and value are readable, and only read although the
        // prototype lacks const.
        self.check("tdb_store", unsafe { (self.api.tdb_store)(self.tdb, key, value, REPLACE) })
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let (key, value) = (Data::of(key), Data::of(value));
        // SAFETY: as for `put`.
        match unsafe { (self.api.tdb_store)(self.tdb, key, value, INSERT) } {
            0 => Ok(true),
            _ => self.unless("tdb_store", EXISTS),
        }
    }

    /// Makes a change in a transaction of its own.
    fn durably<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        // SAFETY: the database is open, as below.
        let rc = unsafe { (self.api.tdb_transaction_start)(self.tdb) };
        self.check("tdb_transaction_start", rc)?;
        let done = change()?;
        // SAFETY: as above.
        let rc = unsafe { (self.api.tdb_transaction_commit)(self.tdb) };
        self.check("tdb_transaction_commit", rc)?;
        Ok(done)
    }

    fn delete(&self, key: &[u8]) -> Result<bool> {
        // SAFETY: the database is open; the key is readable and only read.
        match unsafe { (self.api.tdb_delete)(self.tdb, Data::of(key)) } {
            0 => Ok(true),
            _ => self.absent("tdb_delete"),
        }
    }

    /// `Ok(false)` if the last call did not find its record.
    #[inline]
    fn absent(&self, call: &str) -> Result<bool> {
        self.unless(call, NO_RECORD)
    }

    /// `Ok(false)` if the last call failed for this reason.
    #[inline]
    fn unless(&self, call: &str, reason: c_int) -> Result<bool> {
        // SAFETY: the database is open.
        match unsafe { (self.api.tdb_error)(self.tdb) } {
            code if code == reason => Ok(false),
            _ => Err(self.refused(call)),
        }
    }

    #[cold]
    fn refused(&self, call: &str) -> Error {
        // SAFETY: the database is open; the message is a C string constant of the library.
        let why = unsafe { CStr::from_ptr((self.api.tdb_errorstr)(self.tdb)) };
        refused(call, why.to_string_lossy())
    }

    fn check(&self, call: &str, rc: c_int) -> Result<()> {
        if rc == 0 { Ok(()) } else { Err(self.refused(call)) }
    }
}

impl Drop for TdbStore<'_> {
    fn drop(&mut self) {
        if !self.tdb.is_null() {
            // SAFETY: the database is open and closed once.
            unsafe { (self.api.tdb_close)(self.tdb) };
        }
    }
}

impl Store for TdbStore<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (parse, take) = (parser(&take), (&raw mut take).cast());
        // SAFETY: the database is open and the key readable; `parse` gets the value in the map,
        // and the closure it is for, which lives to the end of this function.
        match unsafe { (self.api.tdb_parse_record)(self.tdb, Data::of(key), parse, take) } {
            0 => Ok(true),
            _ => self.absent("tdb_parse_record"),
        }
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let (visit, take) = (visitor(&take), (&raw mut take).cast());
        // SAFETY: the database is open; `visit` gets one record after the other, and the closure
        // it is for, which lives to the end of this function.
        let count = unsafe { (self.api.tdb_traverse_read)(self.tdb, visit, take) };
        self.check("tdb_traverse_read", count.min(0))
    }
}

impl Writer for TdbStore<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.is_durable { self.durably(|| self.put(key, value)) } else { self.put(key, value) }
    }

    fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.is_durable {
            self.durably(|| self.put_if_absent(key, value))
        } else {
            self.put_if_absent(key, value)
        }
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        if self.is_durable { self.durably(|| self.delete(key)) } else { self.delete(key) }
    }

    fn close(mut self) -> Result<()> {
        let tdb = std::mem::replace(&mut self.tdb, null_mut());
        // SAFETY: the database is open, and was taken out of the store so that nobody closes it
        // again.
        match unsafe { (self.api.tdb_close)(tdb) } {
            0 => Ok(()),
            _ => Err(refused_by_errno("tdb_close")),
        }
    }
}
