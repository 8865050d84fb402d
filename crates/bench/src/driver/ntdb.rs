//! NTDB, the successor of TDB that Samba once had: `libntdb.so`, which no Debian package brings.
//!
//! Tuning: the number of records told in advance (`NTDB_ATTRIBUTE_HASHSIZE`), the seed fixed as in
//! its own `tools/speed.c`, no lock: by default every call takes locks with fcntl, which cost far
//! more than the rest. Reads are zero-copy (`ntdb_parse_record`).

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

/// `struct ntdb_attribute_seed` and `struct ntdb_attribute_hashsize` of ntdb.h, which differ in
/// the size of the number alone; the library reads its low half where it wants 32 bits.
#[repr(C)]
struct Attribute {
    kind: c_int,
    next: *mut Attribute,
    number: u64,
}

const SEED: c_int = 2;
const HASH_SIZE: c_int = 7;

api! {
    struct Api {
        ntdb_open: unsafe extern "C" fn(*const c_char, c_int, c_int, libc::mode_t, *mut Attribute) -> *mut Context,
        ntdb_close: unsafe extern "C" fn(*mut Context) -> c_int,
        ntdb_errorstr: unsafe extern "C" fn(c_int) -> *const c_char,
        ntdb_parse_record_: unsafe extern "C" fn(*mut Context, Data, Parse, *mut c_void) -> c_int,
        ntdb_store: unsafe extern "C" fn(*mut Context, Data, Data, c_int) -> c_int,
        ntdb_delete: unsafe extern "C" fn(*mut Context, Data) -> c_int,
        ntdb_traverse_: unsafe extern "C" fn(*mut Context, Visit, *mut c_void) -> i64,
    }
}

const NO_LOCK: c_int = 4;
const NO_SYNC: c_int = 64;
const REPLACE: c_int = 1;
/// `NTDB_ERR_NOEXIST`.
const NO_RECORD: c_int = -6;

impl Api {
    fn check(&self, call: &str, rc: c_int) -> Result<()> {
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: the message is a C string constant of the library.
        let why = unsafe { CStr::from_ptr((self.ntdb_errorstr)(rc)) };
        Err(refused(call, why.to_string_lossy()))
    }
}

pub(super) struct Ntdb {
    api: Api,
    file: PathBuf,
}

fn chains(shape: &Shape) -> u32 {
    shape.records.clamp(1, 1 << 30) as u32
}

impl Ntdb {
    fn opened(
        &self,
        path: &Path,
        shape: &Shape,
        mode: c_int,
        has_locks: bool,
    ) -> Result<NtdbStore<'_>> {
        let name = c_path(path)?;
        let mut size =
            Attribute { kind: HASH_SIZE, next: null_mut(), number: u64::from(chains(shape)) };
        let is_plain = shape.setup == Setup::Ntdb;
        let next = if is_plain { null_mut() } else { &raw mut size };
        let mut seed = Attribute { kind: SEED, next, number: 0 };
        // A store that exists has its size and seed.
        let is_new = mode & libc::O_CREAT != 0;
        let attributes = if is_new { &raw mut seed } else { null_mut() };
        let unlocked = if has_locks { 0 } else { NO_LOCK };
        let usual = if is_plain { 0 } else { unlocked | NO_SYNC };
        let flags = usual | trivial::chosen_flags(shape);
        // SAFETY: the name is a C string; the attributes have the layout of ntdb.h and are only
        // read, during the call.
        let db = unsafe { (self.api.ntdb_open)(name.as_ptr(), flags, mode, 0o644, attributes) };
        if db.is_null() {
            return Err(refused_by_errno("ntdb_open").at(path));
        }
        Ok(NtdbStore { api: &self.api, db })
    }
}

impl Driver for Ntdb {
    const NAME: &'static str = "ntdb";
    const REOPENS: bool = true;
    const SHARING: Sharing = Sharing::Writer;
    const HAS_COMMITTING_PROCESSES: bool = true;
    const SOURCE: Option<Source> = Some(Source {
        names: &["libntdb.so"],
        package: None,
        home: "lib/ntdb of an old Samba (before 4.3)",
    });

    const SETTINGS: &'static [Takes] = &[trivial::MMAP];

    fn load(file: Option<&Path>) -> Result<Ntdb> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"ntdb_parse_record_")?;
        Ok(Ntdb { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        Identity { version: String::new(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        if shape.setup == Setup::Ntdb {
            return "8192 buckets, seed 0, with its locks; ntdb_parse_record".to_owned();
        }
        format!(
            "hashsize attribute {}, seed 0, NOLOCK, NOSYNC; ntdb_parse_record; beside a writer, and where \
             several processes change it, with its locks",
            chains(shape)
        )
    }

    type Store<'d> = NtdbStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<NtdbStore<'_>> {
        self.opened(path, shape, libc::O_RDONLY, false)
    }

    type Writer<'d> = NtdbStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<NtdbStore<'_>> {
        self.opened(path, shape, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, false)
    }

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<NtdbStore<'_>> {
        self.opened(path, shape, libc::O_RDWR, false)
    }

    /// Its locks are those beside readers, too.
    fn open_to_commit(&self, path: &Path, shape: &Shape, _: bool) -> Result<NtdbStore<'_>> {
        self.open_to_change(path, shape)
    }

    /// One that may only read would take no locks.
    fn open_beside(&self, path: &Path, shape: &Shape) -> Result<NtdbStore<'_>> {
        self.opened(path, shape, libc::O_RDWR, true)
    }

    fn open_to_change(&self, path: &Path, shape: &Shape) -> Result<NtdbStore<'_>> {
        self.opened(path, shape, libc::O_RDWR, true)
    }
}

/// An open database, closed when dropped.
pub(super) struct NtdbStore<'d> {
    api: &'d Api,
    db: *mut Context,
}

impl Drop for NtdbStore<'_> {
    fn drop(&mut self) {
        if !self.db.is_null() {
            // SAFETY: the database is open and closed once.
            unsafe { (self.api.ntdb_close)(self.db) };
        }
    }
}

impl Store for NtdbStore<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (parse, take) = (parser(&take), (&raw mut take).cast());
        // SAFETY: the database is open and the key readable; `parse` gets the value in the map,
        // and the closure it is for, which lives to the end of this function.
        match unsafe { (self.api.ntdb_parse_record_)(self.db, Data::of(key), parse, take) } {
            NO_RECORD => Ok(false),
            rc => self.api.check("ntdb_parse_record", rc).map(|()| true),
        }
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let (visit, take) = (visitor(&take), (&raw mut take).cast());
        // SAFETY: the database is open; `visit` gets one record after the other, and the closure
        // it is for, which lives to the end of this function.
        let count = unsafe { (self.api.ntdb_traverse_)(self.db, visit, take) };
        self.api.check("ntdb_traverse", count.min(0) as c_int)
    }
}

impl Writer for NtdbStore<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key, value) = (Data::of(key), Data::of(value));
        // SAFETY: the database is open; key and value are readable, and only read although the
        // prototype lacks const.
        let rc = unsafe { (self.api.ntdb_store)(self.db, key, value, REPLACE) };
        self.api.check("ntdb_store", rc)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        // SAFETY: the database is open; the key is readable and only read.
        match unsafe { (self.api.ntdb_delete)(self.db, Data::of(key)) } {
            NO_RECORD => Ok(false),
            rc => self.api.check("ntdb_delete", rc).map(|()| true),
        }
    }

    fn close(mut self) -> Result<()> {
        let db = std::mem::replace(&mut self.db, null_mut());
        // SAFETY: the database is open, and was taken out of the store so that nobody closes it
        // again.
        match unsafe { (self.api.ntdb_close)(db) } {
            0 => Ok(()),
            _ => Err(refused_by_errno("ntdb_close")),
        }
    }
}
