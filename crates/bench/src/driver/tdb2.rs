//! TDB2, the step between TDB and NTDB: `libtdb2.so`, which no Debian package brings.
//!
//! Tuning: no lock: by default every call takes locks with fcntl, which cost far more than the
//! rest. The size cannot be told in advance. Reads are zero-copy (`tdb_parse_record`).

#![allow(unsafe_code)]

use super::library::api;
use super::{
    Driver, Identity, Reading, Setup, Shape, Sharing, Source, Store, Writer, c_path, refused,
};
use super::{refused_by_errno, trivial};
use crate::settings::Takes;
use credenza::Result;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use trivial::{Context, Data, Parse, Visit, parser, visitor};

/// `struct tdb_attribute_seed` of tdb2.h.
#[repr(C)]
struct Attribute {
    kind: c_int,
    next: *mut Attribute,
    number: u64,
}

const SEED: c_int = 2;

api! {
    struct Api {
        tdb_open: unsafe extern "C" fn(*const c_char, c_int, c_int, libc::mode_t, *mut Attribute) -> *mut Context,
        tdb_close: unsafe extern "C" fn(*mut Context) -> c_int,
        tdb_errorstr: unsafe extern "C" fn(c_int) -> *const c_char,
        tdb_parse_record_: unsafe extern "C" fn(*mut Context, Data, Parse, *mut c_void) -> c_int,
        tdb_store: unsafe extern "C" fn(*mut Context, Data, Data, c_int) -> c_int,
        tdb_delete: unsafe extern "C" fn(*mut Context, Data) -> c_int,
        tdb_traverse_: unsafe extern "C" fn(*mut Context, Visit, *mut c_void) -> i64,
    }
}

const NO_LOCK: c_int = 4;
const NO_SYNC: c_int = 64;
const REPLACE: c_int = 1;
/// `TDB_ERR_NOEXIST`.
const NO_RECORD: c_int = -6;

impl Api {
    fn check(&self, call: &str, rc: c_int) -> Result<()> {
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: the message is a C string constant of the library.
        let why = unsafe { CStr::from_ptr((self.tdb_errorstr)(rc)) };
        Err(refused(call, why.to_string_lossy()))
    }
}

pub(super) struct Tdb2 {
    api: Api,
    file: PathBuf,
}

impl Tdb2 {
    fn opened(
        &self,
        path: &Path,
        shape: &Shape,
        mode: c_int,
        has_locks: bool,
    ) -> Result<Tdb2Store<'_>> {
        let name = c_path(path)?;
        let mut seed = Attribute { kind: SEED, next: null_mut(), number: 0 };
        // A store that exists has its seed.
        let is_new = mode & libc::O_CREAT != 0;
        let attributes = if is_new { &raw mut seed } else { null_mut() };
        let unlocked = if has_locks { 0 } else { NO_LOCK };
        let usual = if shape.setup == Setup::Ntdb { 0 } else { unlocked | NO_SYNC };
        let flags = usual | trivial::chosen_flags(shape);
        // SAFETY: the name is a C string; the attribute has the layout of tdb2.h and is only read,
        // during the call.
        let db = unsafe { (self.api.tdb_open)(name.as_ptr(), flags, mode, 0o644, attributes) };
        if db.is_null() {
            return Err(refused_by_errno("tdb_open").at(path));
        }
        Ok(Tdb2Store { api: &self.api, db })
    }
}

impl Driver for Tdb2 {
    const NAME: &'static str = "tdb2";
    const REOPENS: bool = true;
    const SHARING: Sharing = Sharing::Writer;
    const HAS_COMMITTING_PROCESSES: bool = true;
    const SOURCE: Option<Source> = Some(Source {
        names: &["libtdb2.so"],
        package: None,
        home: "ccan/tdb2 of https://github.com/rustyrussell/ccan (removed there in 2012)",
    });

    const SETTINGS: &'static [Takes] = &[trivial::MMAP];

    fn load(file: Option<&Path>) -> Result<Tdb2> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"tdb_parse_record_")?;
        Ok(Tdb2 { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        Identity { version: String::new(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        if shape.setup == Setup::Ntdb {
            return "seed 0, with its locks; tdb_parse_record".to_owned();
        }
        "NOLOCK, NOSYNC, seed 0; tdb_parse_record; its size cannot be told in advance; beside a \
         writer, and where several processes change it, with its locks"
            .to_owned()
    }

    type Store<'d> = Tdb2Store<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<Tdb2Store<'_>> {
        self.opened(path, shape, libc::O_RDONLY, false)
    }

    type Writer<'d> = Tdb2Store<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Tdb2Store<'_>> {
        self.opened(path, shape, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, false)
    }

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<Tdb2Store<'_>> {
        self.opened(path, shape, libc::O_RDWR, false)
    }

    /// Its locks are those beside readers, too.
    fn open_to_commit(&self, path: &Path, shape: &Shape, _: bool) -> Result<Tdb2Store<'_>> {
        self.open_to_change(path, shape)
    }

    /// One that may only read would take no locks.
    fn open_beside(&self, path: &Path, shape: &Shape) -> Result<Tdb2Store<'_>> {
        self.opened(path, shape, libc::O_RDWR, true)
    }

    fn open_to_change(&self, path: &Path, shape: &Shape) -> Result<Tdb2Store<'_>> {
        self.opened(path, shape, libc::O_RDWR, true)
    }
}

/// An open database, closed when dropped.
pub(super) struct Tdb2Store<'d> {
    api: &'d Api,
    db: *mut Context,
}

impl Drop for Tdb2Store<'_> {
    fn drop(&mut self) {
        if !self.db.is_null() {
            // SAFETY: the database is open and closed once.
            unsafe { (self.api.tdb_close)(self.db) };
        }
    }
}

impl Store for Tdb2Store<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (parse, take) = (parser(&take), (&raw mut take).cast());
        // SAFETY: the database is open and the key readable; `parse` gets the value in the map,
        // and the closure it is for, which lives to the end of this function.
        match unsafe { (self.api.tdb_parse_record_)(self.db, Data::of(key), parse, take) } {
            NO_RECORD => Ok(false),
            rc => self.api.check("tdb_parse_record", rc).map(|()| true),
        }
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let (visit, take) = (visitor(&take), (&raw mut take).cast());
        // SAFETY: the database is open; `visit` gets one record after the other, and the closure
        // it is for, which lives to the end of this function.
        let count = unsafe { (self.api.tdb_traverse_)(self.db, visit, take) };
        self.api.check("tdb_traverse", count.min(0) as c_int)
    }
}

impl Writer for Tdb2Store<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key, value) = (Data::of(key), Data::of(value));
        // SAFETY: the database is open; key and value are readable, and only read although the
        // prototype lacks const.
        let rc = unsafe { (self.api.tdb_store)(self.db, key, value, REPLACE) };
        self.api.check("tdb_store", rc)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        // SAFETY: the database is open; the key is readable and only read.
        match unsafe { (self.api.tdb_delete)(self.db, Data::of(key)) } {
            NO_RECORD => Ok(false),
            rc => self.api.check("tdb_delete", rc).map(|()| true),
        }
    }

    fn close(mut self) -> Result<()> {
        let db = std::mem::replace(&mut self.db, null_mut());
        // SAFETY: the database is open, and was taken out of the store so that nobody closes it
        // again.
        match unsafe { (self.api.tdb_close)(db) } {
            0 => Ok(()),
            _ => Err(refused_by_errno("tdb_close")),
        }
    }
}
