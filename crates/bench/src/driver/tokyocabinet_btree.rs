//! Tokyo Cabinet's B+ tree database.
//!
//! Tuning: leaves of some 4 KiB, which is 128 records of the usual size, and as many buckets again
//! as there are leaves, alignment 16; all nodes stay in the cache, the map is over the whole file, no
//! lock and no mutex. Reads are zero-copy (`tcbdbget3`, `tcbdbcurval3`).
//!
//! Nodes that were changed are in a cache of the process until the store is closed.

#![allow(unsafe_code)]

use super::library::api;
use super::tokyocabinet::{
    self, CREATE, NO_LOCK, NO_RECORD, READER, WRITER, YIELDS, c_len, mapped, options,
};
use super::{
    Changes, Driver, Identity, Reading, Shape, Source, Store, Writer, c_path, own_order, refused,
};
use crate::settings::Takes;
use crate::workload::{KeyType, Place};
use credenza::Result;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// `TCBDB` and `BDBCUR` of tcbdb.h, only ever pointed to.
type Bdb = c_void;
type Cursor = c_void;

type Step = unsafe extern "C" fn(*mut Cursor) -> bool;
/// Two keys, and what the library was given for the function.
type Compare = unsafe extern "C" fn(*const u8, c_int, *const u8, c_int, *mut c_void) -> c_int;
type Put = unsafe extern "C" fn(*mut Bdb, *const c_void, c_int, *const c_void, c_int) -> bool;

api! {
    struct Api {
        tcversion: *const *const c_char,
        tcbdbnew: unsafe extern "C" fn() -> *mut Bdb,
        tcbdbdel: unsafe extern "C" fn(*mut Bdb),
        tcbdbecode: unsafe extern "C" fn(*mut Bdb) -> c_int,
        tcbdberrmsg: unsafe extern "C" fn(c_int) -> *const c_char,
        tcbdbsetcmpfunc: unsafe extern "C" fn(*mut Bdb, Compare, *mut c_void) -> bool,
        tcbdbtune: unsafe extern "C" fn(*mut Bdb, i32, i32, i64, i8, i8, u8) -> bool,
        tcbdbsetcache: unsafe extern "C" fn(*mut Bdb, i32, i32) -> bool,
        tcbdbsetxmsiz: unsafe extern "C" fn(*mut Bdb, i64) -> bool,
        tcbdbopen: unsafe extern "C" fn(*mut Bdb, *const c_char, c_int) -> bool,
        tcbdbclose: unsafe extern "C" fn(*mut Bdb) -> bool,
        tcbdbput: Put,
        tcbdbputdup: Put,
        tcbdbputdupback: Put,
        tcbdbout3: unsafe extern "C" fn(*mut Bdb, *const c_void, c_int) -> bool,
        tcbdbout: unsafe extern "C" fn(*mut Bdb, *const c_void, c_int) -> bool,
        tcbdbget3: unsafe extern "C" fn(*mut Bdb, *const c_void, c_int, *mut c_int) -> *const u8,
        tcbdbcurnew: unsafe extern "C" fn(*mut Bdb) -> *mut Cursor,
        tcbdbcurdel: unsafe extern "C" fn(*mut Cursor),
        tcbdbcurfirst: Step,
        tcbdbcurlast: Step,
        tcbdbcurjump: unsafe extern "C" fn(*mut Cursor, *const c_void, c_int) -> bool,
        tcbdbcurnext: Step,
        tcbdbcurprev: Step,
        tcbdbcurkey3: unsafe extern "C" fn(*mut Cursor, *mut c_int) -> *const u8,
        tcbdbcurval3: unsafe extern "C" fn(*mut Cursor, *mut c_int) -> *const u8,
    }
}

/// The order of keys of our own, as the library calls it.
///
/// # Safety
/// Both are keys of the library.
unsafe extern "C" fn compare(
    one: *const u8,
    one_len: c_int,
    other: *const u8,
    other_len: c_int,
    _: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { own_order::compare((one, one_len as usize), (other, other_len as usize)) }
}

/// Children of an inner node; alignment of nodes as a power of two, and the size of the pool of free
/// blocks.
const BRANCHES: i32 = 256;
const ALIGN_POWER: i8 = 4;
const POOL_POWER: i8 = 10;

/// Records of a leaf.
fn leaf_records(shape: &Shape) -> i32 {
    (4096 / (shape.bytes() / shape.records.max(1)).max(1)).clamp(16, 128) as i32
}

/// More leaves than there will be: they are at least half full, and a tenth of that again.
fn leaves(shape: &Shape) -> i64 {
    (shape.records as i64 * 22 / 10 / i64::from(leaf_records(shape))).max(1024)
}

pub(super) struct TokyoCabinetBtree {
    api: Api,
    file: PathBuf,
}

impl TokyoCabinetBtree {
    fn opened(&self, path: &Path, shape: &Shape, mode: c_int) -> Result<TreeStore<'_>> {
        let name = c_path(path)?;
        // SAFETY: no preconditions; the library ends the process when memory is out.
        let bdb = unsafe { (self.api.tcbdbnew)() };
        let (place, is_reader, kept) = (shape.duplicates, mode & READER != 0, null_mut());
        let store = TreeStore { api: &self.api, bdb, place, is_reader, kept };
        let (api, bdb, leaves) = (&self.api, store.bdb, leaves(shape));
        let cached = i32::try_from(leaves).unwrap_or(i32::MAX);
        if shape.keys == KeyType::Custom {
            // SAFETY: the object is new and not open yet, as this asks.
            let is_set = unsafe { (api.tcbdbsetcmpfunc)(bdb, compare, null_mut()) };
            store.check("tcbdbsetcmpfunc", is_set)?;
        }
        // SAFETY: the object is new and not open yet, as tuning asks.
        let tuned = unsafe {
            (api.tcbdbtune)(
                bdb,
                leaf_records(shape),
                BRANCHES,
                2 * leaves,
                ALIGN_POWER,
                POOL_POWER,
                options(shape),
            ) && (api.tcbdbsetcache)(bdb, cached, cached)
                && (api.tcbdbsetxmsiz)(bdb, mapped(shape))
        };
        store.check("tcbdbtune", tuned)?;
        // SAFETY: the object is not open; the name is a C string.
        let opened = unsafe { (api.tcbdbopen)(bdb, name.as_ptr(), mode | NO_LOCK) };
        store.check("tcbdbopen", opened)?;
        Ok(store)
    }
}

impl Driver for TokyoCabinetBtree {
    const NAME: &'static str = "tokyocabinet-btree";
    const REOPENS: bool = true;
    const HAS_DUPLICATES: bool = true;
    const SOURCE: Option<Source> = Some(tokyocabinet::SOURCE);
    const VERSIONS: &'static [&'static str] = &["1.4."];
    const SETTINGS: &'static [Takes] = tokyocabinet::SETTINGS;
    const KEY_TYPES: &'static [KeyType] = &[KeyType::Custom];
    const CHANGES: Changes = Changes::AtClose;

    fn load(file: Option<&Path>) -> Result<Self> {
        let opened = tokyocabinet::SOURCE.open(Self::NAME, file, c"tcbdbcurval3")?;
        Ok(TokyoCabinetBtree { api: Api::load(opened.library)?, file: opened.file })
    }

    fn identity(&self) -> Identity {
        tokyocabinet::identity(self.api.tcversion, &self.file)
    }

    fn tuning(&self, shape: &Shape) -> String {
        let order = if shape.keys == KeyType::Custom { "tcbdbsetcmpfunc, " } else { "" };
        format!(
            "{order}lmemb {}, nmemb {BRANCHES}, bnum {}, apow {ALIGN_POWER}, fpow {POOL_POWER}, all nodes \
             in the cache, xmsiz {} MiB, opts {}, no lock, no mutex; tcbdbget3, cursors",
            leaf_records(shape),
            2 * leaves(shape),
            mapped(shape) >> 20,
            options(shape)
        )
    }

    fn notes(&self) -> Vec<String> {
        vec![
            YIELDS.to_owned(),
            "changes are in a cache of the process until the store is closed".to_owned(),
        ]
    }

    type Store<'d> = TreeStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<TreeStore<'_>> {
        self.opened(path, shape, READER)
    }

    type Writer<'d> = TreeStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<TreeStore<'_>> {
        self.opened(path, shape, WRITER | CREATE)
    }
}

/// A database object, deleted when dropped.
pub(super) struct TreeStore<'d> {
    api: &'d Api,
    bdb: *mut Bdb,
    /// Where one more value of a key goes, where keys have several.
    place: Option<Place>,
    is_reader: bool,
    /// A reader's one cursor, for all scans and ranges; null before the first.
    kept: *mut Cursor,
}

impl Drop for TreeStore<'_> {
    fn drop(&mut self) {
        // SAFETY: made by tcbdbnew, deleted once, its cursor before it; an open database is closed by it.
        unsafe {
            if !self.kept.is_null() {
                (self.api.tcbdbcurdel)(self.kept);
            }
            (self.api.tcbdbdel)(self.bdb);
        }
    }
}

impl TreeStore<'_> {
    fn code(&self) -> c_int {
        // SAFETY: the object lives.
        unsafe { (self.api.tcbdbecode)(self.bdb) }
    }

    fn check(&self, call: &str, is_done: bool) -> Result<()> {
        if is_done {
            return Ok(());
        }
        // SAFETY: the message is a C string constant of the library.
        let why = unsafe { CStr::from_ptr((self.api.tcbdberrmsg)(self.code())) };
        Err(refused(call, why.to_string_lossy()))
    }

    #[inline]
    fn put(&self, call: &str, put: Put, key: &[u8], value: &[u8]) -> Result<()> {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        let (key_len, value_len) = (c_len(key)?, c_len(value)?);
        // SAFETY: the database is open for writing; key and value are readable; all callers name
        // functions of the library that store a record.
        let done = unsafe { put(self.bdb, k, key_len, v, value_len) };
        self.check(call, done)
    }

    /// Gives at most `count` records to `take`: those that a cursor comes to from where `first` puts it,
    /// with the further steps.
    fn walk(
        &mut self,
        first: impl FnOnce(*mut Cursor) -> bool,
        further: Step,
        count: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let api = self.api;
        let cursor = match self.kept.is_null() {
            // SAFETY: the database is open; the library ends the process when memory is out.
            true => unsafe { (api.tcbdbcurnew)(self.bdb) },
            false => self.kept,
        };
        let mut is_there = first(cursor);
        for i in 0..count {
            // SAFETY: the cursor lives; all callers name functions of the library that move it.
            is_there = if i == 0 { is_there } else { unsafe { further(cursor) } };
            if !is_there {
                break;
            }
            let (mut key_len, mut value_len) = (0, 0);
            // SAFETY: the cursor is at a record, whose bytes stay where they are until the cursor
            // moves, as nothing is written meanwhile.
            unsafe {
                let key = (api.tcbdbcurkey3)(cursor, &raw mut key_len);
                let value = (api.tcbdbcurval3)(cursor, &raw mut value_len);
                if key.is_null() || value.is_null() {
                    is_there = false;
                    break;
                }
                take(
                    std::slice::from_raw_parts(key, key_len as usize),
                    std::slice::from_raw_parts(value, value_len as usize),
                );
            }
        }
        if self.is_reader {
            self.kept = cursor;
        } else {
            // SAFETY: the cursor lives, and is deleted once.
            unsafe { (api.tcbdbcurdel)(cursor) };
        }
        self.check("tcbdbcurnext", is_there || count == 0 || self.code() == NO_RECORD)
    }
}

impl Store for TreeStore<'_> {
    const IS_ORDERED: bool = true;
    const SCANS_BACK: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (start, len) = (key.as_ptr().cast(), key.len() as c_int);
        let mut value_len = 0;
        // SAFETY: the database is open and the key readable.
        let value = unsafe { (self.api.tcbdbget3)(self.bdb, start, len, &raw mut value_len) };
        if value.is_null() {
            return self.check("tcbdbget3", self.code() == NO_RECORD).map(|()| false);
        }
        // SAFETY: the library's own copy, which stays until its next call.
        take(unsafe { std::slice::from_raw_parts(value, value_len as usize) });
        Ok(true)
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let (first, further) = (self.api.tcbdbcurfirst, self.api.tcbdbcurnext);
        // SAFETY: the cursor lives.
        self.walk(|cursor| unsafe { first(cursor) }, further, usize::MAX, take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let (jump, further, len) = (self.api.tcbdbcurjump, self.api.tcbdbcurnext, c_len(from)?);
        // SAFETY: the cursor lives; the key is readable.
        self.walk(|cursor| unsafe { jump(cursor, from.as_ptr().cast(), len) }, further, count, take)
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let (last, further) = (self.api.tcbdbcurlast, self.api.tcbdbcurprev);
        // SAFETY: the cursor lives.
        self.walk(|cursor| unsafe { last(cursor) }, further, usize::MAX, take)
    }
}

impl Writer for TreeStore<'_> {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put("tcbdbput", self.api.tcbdbput, key, value)
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.place {
            Some(Place::First) => self.put("tcbdbputdupback", self.api.tcbdbputdupback, key, value),
            _ => self.put("tcbdbputdup", self.api.tcbdbputdup, key, value),
        }
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let (start, len) = (key.as_ptr().cast(), c_len(key)?);
        // One value, or all of the key's.
        let out = if self.place.is_some() { self.api.tcbdbout3 } else { self.api.tcbdbout };
        // SAFETY: the database is open for writing; the key is readable.
        if unsafe { out(self.bdb, start, len) } {
            return Ok(true);
        }
        self.check("tcbdbout", self.code() == NO_RECORD).map(|()| false)
    }

    fn close(self) -> Result<()> {
        // SAFETY: the database is open, and nothing uses it after this but its deletion.
        let closed = unsafe { (self.api.tcbdbclose)(self.bdb) };
        self.check("tcbdbclose", closed)
    }
}
