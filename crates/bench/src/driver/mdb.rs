//! What LMDB and its descendant libmdbx have in common: an environment with one transaction, and
//! lookups without a copy.
//!
//! Lookups are in one read transaction. Single changes are in one write transaction, which is
//! committed when the store is closed: until then nothing of them is sure to outlive the process.
//! LMDB's transactions have a largest size: where a phase could reach it, the transaction is committed
//! and a further one begun after [`MdbStore::at_once`] changes. What is only added to a new store cannot reach it,
//! as LMDB lets go of pages of its own meanwhile, and is all in one. Where each is to be a transaction of
//! its own, its commit is a write to the map, and outlives the process. Each lookup between them is in a read
//! transaction that is reset behind it and renewed for the next one, as both libraries advise: it is made
//! once, keeps its place in the table of readers, and while it rests it holds no page. So is the cursor of all
//! ranges that are read in it; in a write transaction, which would have to mind it, each range has its own. Keys that are numbers
//! without sign of 32 or 64 bits are `INTEGERKEY`s, and those in an order of one's own are compared by a
//! function of ours.
//!
//! Threads: a process opens an environment once, all its threads use it, and each has a transaction of
//! its own, which is not bound to the thread that began it ([`NO_THREAD_SLOTS`]): so a thread may also have
//! one that rests beside one that writes.

#![allow(unsafe_code)]

use super::library::api;
use super::mdb_keys::{Compare, Keys, Number, SetOrder};
use super::mdb_stat::Stat;
use super::{
    Committers, Crew, OwnCount, Reading, Shape, Store, Writer, c_path, own_order, refused,
};
use crate::workload::Records;
use credenza::Result;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::{null, null_mut, without_provenance};

/// `MDB_env`, `MDB_txn` and `MDB_cursor` of lmdb.h, `MDBX_env` and so on of mdbx.h, only ever
/// pointed to.
pub(super) type Env = c_void;
pub(super) type Txn = c_void;
type Cursor = c_void;

/// `MDB_val` of lmdb.h, length and address; `MDBX_val` of mdbx.h, address and length.
#[repr(C)]
struct Val<const DATA_FIRST: bool>([*const u8; 2]);

impl<const DATA_FIRST: bool> Val<DATA_FIRST> {
    #[inline]
    fn of(bytes: &[u8]) -> Self {
        let (data, len) = (bytes.as_ptr(), without_provenance(bytes.len()));
        Val(if DATA_FIRST { [data, len] } else { [len, data] })
    }

    const fn empty() -> Self {
        Val([null(); 2])
    }

    /// # Safety
    /// The library filled this value in, and the transaction it came from is open and was not written to
    /// since.
    #[inline]
    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        let (data, len) = self.place();
        if len == 0 {
            return &[];
        }
        // SAFETY: the caller's promise: `len` bytes of the map at `data`.
        unsafe { std::slice::from_raw_parts(data, len) }
    }

    /// Address and length.
    #[inline]
    fn place(&self) -> (*const u8, usize) {
        let [one, other] = self.0;
        if DATA_FIRST { (one, other.addr()) } else { (other, one.addr()) }
    }
}

impl<const DATA_FIRST: bool> Copy for Val<DATA_FIRST> {}

impl<const DATA_FIRST: bool> Clone for Val<DATA_FIRST> {
    fn clone(&self) -> Self {
        *self
    }
}

/// A pointer to a `Val` in its library's own order.
type Value = *mut c_void;

/// The order of keys of our own, as the library calls it.
///
/// # Safety
/// Both are values of the library.
unsafe extern "C" fn compare<const DATA_FIRST: bool>(
    one: *const Val<DATA_FIRST>,
    other: *const Val<DATA_FIRST>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { own_order::compare((*one).place(), (*other).place()) }
}

api! {
    /// The functions of both, behind `mdb_` and `mdbx_`. Some of libmdbx answer where those of LMDB
    /// do not; that answer is not looked at.
    pub(super) struct Calls {
        strerror: unsafe extern "C" fn(c_int) -> *const c_char,
        env_create: unsafe extern "C" fn(*mut *mut Env) -> c_int,
        env_set_maxreaders: unsafe extern "C" fn(*mut Env, c_uint) -> c_int,
        env_open: unsafe extern "C" fn(*mut Env, *const c_char, c_uint, libc::mode_t) -> c_int,
        env_close: unsafe extern "C" fn(*mut Env),
        txn_begin: unsafe extern "C" fn(*mut Env, *mut Txn, c_uint, *mut *mut Txn) -> c_int,
        txn_commit: unsafe extern "C" fn(*mut Txn) -> c_int,
        txn_abort: unsafe extern "C" fn(*mut Txn),
        txn_reset: unsafe extern "C" fn(*mut Txn),
        txn_renew: unsafe extern "C" fn(*mut Txn) -> c_int,
        dbi_open: unsafe extern "C" fn(*mut Txn, *const c_char, c_uint, *mut c_uint) -> c_int,
        get: unsafe extern "C" fn(*mut Txn, c_uint, Value, Value) -> c_int,
        put: unsafe extern "C" fn(*mut Txn, c_uint, Value, Value, c_uint) -> c_int,
        del: unsafe extern "C" fn(*mut Txn, c_uint, Value, Value) -> c_int,
        cursor_open: unsafe extern "C" fn(*mut Txn, c_uint, *mut *mut Cursor) -> c_int,
        cursor_renew: unsafe extern "C" fn(*mut Txn, *mut Cursor) -> c_int,
        cursor_get: unsafe extern "C" fn(*mut Cursor, Value, Value, c_int) -> c_int,
        cursor_put: unsafe extern "C" fn(*mut Cursor, Value, Value, c_uint) -> c_int,
        cursor_del: unsafe extern "C" fn(*mut Cursor, c_uint) -> c_int,
        cursor_close: unsafe extern "C" fn(*mut Cursor),
    }
}

/// Flags that are the same in both.
pub(super) const NO_SUBDIR: c_uint = 0x4000;
pub(super) const NO_SYNC: c_uint = 0x10000;
pub(super) const READ_ONLY: c_uint = 0x20000;
pub(super) const WRITE_MAP: c_uint = 0x80000;
/// A read transaction belongs to no thread: `MDB_NOTLS`, `MDBX_NOSTICKYTHREADS`.
pub(super) const NO_THREAD_SLOTS: c_uint = 0x20_0000;
/// Places for the read transactions of threads, of which there are fewer; the libraries have about a hundred.
const READERS: c_uint = 512;
const NO_READ_AHEAD: c_uint = 0x80_0000;
const APPEND: c_uint = 0x20000;
const INTEGER_KEY: c_uint = 0x8;
const CREATE: c_uint = 0x40000;
const FIRST: c_int = 0;
const LAST: c_int = 6;
const NEXT: c_int = 8;
const PREVIOUS: c_int = 12;
const SET_KEY: c_int = 16;
const SET_RANGE: c_int = 17;
const NOT_FOUND: c_int = -30798;

impl Calls {
    pub(super) fn check(&self, call: &str, rc: c_int) -> Result<()> {
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: the message is a C string constant, or in a buffer of the C library.
        let why = unsafe { CStr::from_ptr((self.strerror)(rc)) };
        Err(refused(call, why.to_string_lossy()))
    }
}

/// A key that is no number of the store's size, where it has to be one.
#[cold]
fn no_number<T>(call: &str) -> Result<T> {
    Err(refused(call, "a key of another size than the numbers have"))
}

/// The flag by which the kernel is told that accesses are random; both do so unless told otherwise.
pub(super) fn read_ahead(shape: &Shape, reading: Reading) -> c_uint {
    if reading.is_random(shape) == Some(false) { 0 } else { NO_READ_AHEAD }
}

/// More than the file will have.
pub(super) fn map_bytes(shape: &Shape) -> usize {
    let need = 4 * shape.bytes() + 512 * shape.records;
    usize::try_from(need).unwrap_or(usize::MAX).max(8 << 30).next_multiple_of(1 << 20)
}

/// So many changes in one transaction of LMDB, which can take 131,071 pages: a change writes to a leaf
/// of its own at worst, to a large value's page, and to a part of the pages above. Of those that are written to it lets
/// go of some before there are too many, but not of those that removals have emptied.
const MOST_AT_ONCE: usize = 30_000;

/// The changes that LMDB is to make in one transaction: any number, as fast as can be, where a store
/// that is half empty has fewer pages than a transaction can take. To replace the values of a larger one in one
/// transaction took two thirds of the time where they were of 100 bytes, and 1.4 times as long where they were of 1,024.
pub(super) fn at_once(shape: &Shape) -> usize {
    const RECORD: u64 = 32;
    let pages = 2 * (shape.bytes() + RECORD * shape.records) / 4096;
    if pages < 100_000 { usize::MAX } else { MOST_AT_ONCE }
}

/// An open environment with one transaction; closed when dropped.
pub(super) struct MdbStore<'d, const DATA_FIRST: bool> {
    calls: &'d Calls,
    env: *mut Env,
    /// The one that is open; null between operations of which each has its own.
    txn: *mut Txn,
    /// One that was reset, and waits with its cursor for the next lookup that has its own, or nulls.
    resting: (*mut Txn, *mut Cursor),
    dbi: c_uint,
    keys: Keys,
    /// Whether lookups and changes are done by a cursor, one for each transaction.
    uses_cursor: bool,
    /// That of the transaction that is open, or null.
    cursor: *mut Cursor,
    /// Whether the transaction that is open is one that reads.
    is_reading: bool,
    /// The cursor of ranges and scans in the one read transaction, open or at rest, or null; and whether it was
    /// renewed since that was.
    walker: *mut Cursor,
    is_walker_renewed: bool,
    /// Changes in one transaction.
    at_once: usize,
    /// Changes that this transaction still takes.
    left: usize,
    /// Whether the environment is another one's, which outlives this.
    is_copy: bool,
    /// How the library tells what it knows of the database.
    stat: Stat,
}

impl<const DATA_FIRST: bool> Drop for MdbStore<'_, DATA_FIRST> {
    fn drop(&mut self) {
        self.close_walker();
        for (txn, cursor) in [(self.txn, self.cursor), self.resting] {
            // SAFETY: both live, if they are there, and end here: the cursor before its transaction.
            unsafe {
                if !cursor.is_null() {
                    (self.calls.cursor_close)(cursor);
                }
                if !txn.is_null() {
                    (self.calls.txn_abort)(txn);
                }
            }
        }
        if !self.is_copy {
            // SAFETY: made by env_create, closed once, after its last transaction.
            unsafe { (self.calls.env_close)(self.env) };
        }
    }
}

impl<'d, const DATA_FIRST: bool> MdbStore<'d, DATA_FIRST> {
    /// One in no transaction.
    fn new((calls, stat): (&'d Calls, Stat), env: *mut Env, keys: Keys, at_once: usize) -> Self {
        MdbStore {
            calls,
            env,
            txn: null_mut(),
            resting: (null_mut(), null_mut()),
            dbi: 0,
            keys,
            uses_cursor: false,
            cursor: null_mut(),
            is_reading: false,
            walker: null_mut(),
            is_walker_renewed: false,
            at_once,
            left: at_once,
            is_copy: false,
            stat,
        }
    }

    /// Opens the environment at `path` and begins its transaction, which takes `at_once` changes;
    /// `size` tells it how large it may become.
    pub(super) fn open(
        calls: &'d Calls,
        path: &Path,
        flags: c_uint,
        keys: Keys,
        (at_once, stat): (usize, Stat),
        size: impl FnOnce(*mut Env) -> Result<()>,
    ) -> Result<Self> {
        let name = c_path(path)?;
        let mut env = null_mut();
        // SAFETY: `env` is a place for the pointer.
        calls.check("env_create", unsafe { (calls.env_create)(&raw mut env) })?;
        let mut store = MdbStore::new((calls, stat), env, keys, at_once);
        size(env)?;
        if flags & NO_THREAD_SLOTS != 0 {
            // SAFETY: the environment was made and is not open yet.
            let rc = unsafe { (calls.env_set_maxreaders)(env, READERS) };
            calls.check("env_set_maxreaders", rc)?;
        }
        // SAFETY: the environment was made; the name is a C string.
        let rc = unsafe { (calls.env_open)(env, name.as_ptr(), flags, 0o644) };
        calls.check("env_open", rc)?;
        store.begin_with(flags & READ_ONLY)?;
        store.open_database(flags & READ_ONLY != 0)?;
        Ok(store)
    }

    /// Opens the database in the transaction that is open: the main one, unless its keys are in an order
    /// that only others may have.
    fn open_database(&mut self, is_reader: bool) -> Result<()> {
        let (calls, txn, dbi) = (self.calls, self.txn, &raw mut self.dbi);
        // What a database is, is said when it is made.
        let creating = if is_reader { 0 } else { CREATE };
        let compare = compare::<DATA_FIRST> as Compare;
        // SAFETY: the transaction is open; a null name is the main database, and there is a place for its
        // number; the function compares two of the library's values.
        let rc = unsafe {
            match self.keys {
                Keys::Own(SetOrder::Open(open)) => {
                    (open)(txn, own_order::NAME.as_ptr(), creating, dbi, compare, null())
                }
                Keys::Integers(_) => (calls.dbi_open)(txn, null(), INTEGER_KEY | creating, dbi),
                Keys::Bytes | Keys::Own(_) => (calls.dbi_open)(txn, null(), 0, dbi),
            }
        };
        calls.check("dbi_open", rc)?;
        if let Keys::Own(SetOrder::Set(set)) = self.keys {
            // SAFETY: the database is open in this transaction, and nothing of it was read yet.
            calls.check("set_compare", unsafe { set(txn, self.dbi, compare) })?;
        }
        Ok(())
    }

    /// The same, with lookups and changes done by a cursor if the user chose that.
    pub(super) fn with_cursor(mut self, shape: &Shape) -> Result<Self> {
        self.uses_cursor = shape.settings.cursors();
        self.open_cursor()?;
        Ok(self)
    }

    /// The same for a new store, in one transaction until something else is done than to add records: they took
    /// 1.3 times as long in several.
    pub(super) fn only_adding(mut self) -> Self {
        self.left = usize::MAX;
        self
    }

    /// For what a library has more of than the other.
    pub(super) fn env(&self) -> *mut Env {
        self.env
    }

    /// The handles of threads that share this environment: for each reader a transaction, for a
    /// writer one for each change.
    pub(super) fn into_crew(
        mut self,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<Self, Self>> {
        if !self.txn.is_null() {
            self.commit_open()?;
        }
        let copy = |owner: &Self, is_writer: bool| {
            let mut store = owner.copy();
            if !is_writer {
                store.begin_with(READ_ONLY)?;
            }
            Ok(store)
        };
        // SAFETY: threads may share an environment; no transaction belongs to a thread, as whoever
        // opened the environment said so.
        unsafe { Crew::sharing(self, readers, with_writer, copy) }
    }

    /// The handles of threads that share this environment, which is in no transaction: each has one for
    /// each change.
    pub(super) fn into_committers(self, count: usize) -> Result<Committers<Self>> {
        // SAFETY: threads may share an environment; each begins and ends its own transactions.
        unsafe { Committers::of(self, count, |owner| Ok(owner.copy())) }
    }

    /// A handle of the same environment, without a transaction.
    fn copy(&self) -> Self {
        let mut store = MdbStore::new((self.calls, self.stat), self.env, self.keys, self.at_once);
        (store.dbi, store.uses_cursor, store.is_copy) = (self.dbi, self.uses_cursor, true);
        store
    }

    /// Stores all records in a new environment, and closes it.
    pub(super) fn fill(mut self, records: &Records, shape: &Shape) -> Result<()> {
        let flags = if shape.is_sorted { APPEND } else { 0 };
        for (key, value) in records.iter() {
            self.change(|store| store.put(key, value, flags))?;
        }
        self.close()
    }
}

impl<const DATA_FIRST: bool> MdbStore<'_, DATA_FIRST> {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8], flags: c_uint) -> Result<()> {
        let mut place = Number::new();
        let Some(key) = self.keys.given(key, &mut place) else { return no_number("put") };
        let mut key = Val::<DATA_FIRST>::of(key);
        let mut value = Val::<DATA_FIRST>::of(value);
        let (key, value): (Value, Value) = ((&raw mut key).cast(), (&raw mut value).cast());
        // SAFETY: the transaction is open for writing, and so is its cursor, if it has one; key and
        // value are readable, and only read although the prototypes lack const.
        let rc = unsafe {
            match self.cursor.is_null() {
                true => (self.calls.put)(self.txn, self.dbi, key, value, flags),
                false => (self.calls.cursor_put)(self.cursor, key, value, flags),
            }
        };
        self.calls.check("put", rc)
    }

    /// Does `work`, which reads, in the transaction that is open, or else in one of its own, which is then
    /// kept for the next time.
    #[inline]
    fn read<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if !self.txn.is_null() {
            return work(self);
        }
        self.begin_reading()?;
        let done = work(self);
        self.rest();
        done
    }

    /// Does `work`, which changes one record, in the transaction that is open, or else in one of its own;
    /// when the one that is open has taken as many as it can, in a further one.
    #[inline]
    fn change<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.left == 0 && !self.txn.is_null() {
            self.commit_open()?;
            self.begin_with(0)?;
        }
        self.left = self.left.saturating_sub(1);
        if !self.txn.is_null() {
            return work(self);
        }
        self.begin_with(0)?;
        let done = work(self);
        self.commit_open()?;
        done
    }

    fn begin_with(&mut self, flags: c_uint) -> Result<()> {
        self.left = self.at_once;
        self.is_reading = flags & READ_ONLY != 0;
        // SAFETY: the environment is open and has no transaction.
        let rc = unsafe { (self.calls.txn_begin)(self.env, null_mut(), flags, &raw mut self.txn) };
        self.calls.check("txn_begin", rc)?;
        self.open_cursor()
    }

    /// Opens a read transaction: the one that rests, with its cursor, or a new one where none does.
    #[inline]
    fn begin_reading(&mut self) -> Result<()> {
        let (calls, (txn, cursor)) = (self.calls, self.resting);
        if txn.is_null() {
            return self.begin_with(READ_ONLY);
        }
        // SAFETY: the transaction was reset, and its environment is open.
        calls.check("txn_renew", unsafe { (calls.txn_renew)(txn) })?;
        self.is_reading = true;
        (self.txn, self.cursor) = std::mem::replace(&mut self.resting, (null_mut(), null_mut()));
        if cursor.is_null() {
            return Ok(());
        }
        // SAFETY: the cursor was opened in this transaction, which is open again.
        calls.check("cursor_renew", unsafe { (calls.cursor_renew)(txn, cursor) })
    }

    /// Resets the read transaction that is open, and keeps it.
    #[inline]
    fn rest(&mut self) {
        let txn = std::mem::replace(&mut self.txn, null_mut());
        self.is_walker_renewed = false;
        self.resting = (txn, std::mem::replace(&mut self.cursor, null_mut()));
        // SAFETY: the transaction is open, to read. Nobody uses its cursor before both are renewed.
        unsafe { (self.calls.txn_reset)(txn) };
    }

    /// Opens the transaction's cursor, where it is to have one.
    #[inline]
    fn open_cursor(&mut self) -> Result<()> {
        if !self.uses_cursor || self.txn.is_null() {
            return Ok(());
        }
        self.cursor = self.new_cursor()?;
        Ok(())
    }

    #[inline]
    fn close_cursor(&mut self) {
        if !self.cursor.is_null() {
            let cursor = std::mem::replace(&mut self.cursor, null_mut());
            // SAFETY: the cursor is open, its transaction, too; it was taken out: closed once.
            unsafe { (self.calls.cursor_close)(cursor) };
        }
    }

    /// The cursor of ranges in the read transaction that is open.
    #[inline]
    fn walker(&mut self) -> Result<*mut Cursor> {
        let calls = self.calls;
        if self.walker.is_null() {
            self.walker = self.new_cursor()?;
        } else if !self.is_walker_renewed {
            // SAFETY: the cursor was opened in this transaction, which is open again.
            let rc = unsafe { (calls.cursor_renew)(self.txn, self.walker) };
            calls.check("cursor_renew", rc)?;
        }
        self.is_walker_renewed = true;
        Ok(self.walker)
    }

    fn close_walker(&mut self) {
        let walker = std::mem::replace(&mut self.walker, null_mut());
        if !walker.is_null() {
            // SAFETY: opened by the library, and taken out: closed once, before its transaction.
            unsafe { (self.calls.cursor_close)(walker) };
        }
    }

    /// A cursor of the transaction that is open, for whoever closes it.
    #[inline]
    fn new_cursor(&self) -> Result<*mut Cursor> {
        let mut cursor = null_mut();
        // SAFETY: the transaction is open, and `cursor` a place for the pointer.
        let rc = unsafe { (self.calls.cursor_open)(self.txn, self.dbi, &raw mut cursor) };
        self.calls.check("cursor_open", rc).map(|()| cursor)
    }

    /// Ends the adding of records to a new store.
    #[inline]
    fn end_adding(&mut self) -> Result<()> {
        if self.left <= self.at_once || self.txn.is_null() {
            return Ok(());
        }
        self.commit_open()?;
        self.begin_with(0)
    }

    pub(super) fn commit_open(&mut self) -> Result<()> {
        self.close_cursor();
        if self.is_reading {
            self.close_walker();
        }
        let txn = std::mem::replace(&mut self.txn, null_mut());
        // SAFETY: the transaction is open, ends here whatever the answer, and was taken out of the
        // store so that nobody ends it again.
        self.calls.check("txn_commit", unsafe { (self.calls.txn_commit)(txn) })
    }

    /// Gives the records to `take` that a cursor comes to with `first` and then with further steps.
    fn walk(
        &mut self,
        mut key: Val<DATA_FIRST>,
        (first, further): (c_int, c_int),
        count: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let calls = self.calls;
        let is_kept = self.is_reading;
        let cursor = if is_kept { self.walker()? } else { self.new_cursor()? };
        let (mut value, mut step, mut rc) = (Val::<DATA_FIRST>::empty(), first, 0);
        for _ in 0..count {
            // SAFETY: the cursor is open; the key is readable where it is looked for, and both are
            // places for the answer.
            rc = unsafe {
                (calls.cursor_get)(cursor, (&raw mut key).cast(), (&raw mut value).cast(), step)
            };
            if rc != 0 {
                break;
            }
            // SAFETY: the cursor filled both in; the transaction stays open.
            let (found, value) = unsafe { (key.bytes(), value.bytes()) };
            match self.keys {
                Keys::Integers(native) => native.with_key(found, |key| take(key, value)),
                Keys::Bytes | Keys::Own(_) => take(found, value),
            }
            step = further;
        }
        if !is_kept {
            // SAFETY: the cursor is open and closed once.
            unsafe { (calls.cursor_close)(cursor) };
        }
        if rc == NOT_FOUND { Ok(()) } else { calls.check("cursor_get", rc) }
    }
}

impl<const DATA_FIRST: bool> Writer for MdbStore<'_, DATA_FIRST> {
    const HAS_TRANSACTIONS: bool = true;

    fn begin(&mut self) -> Result<()> {
        self.begin_with(0)
    }

    fn commit(&mut self) -> Result<()> {
        self.commit_open()
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.change(|store| store.put(key, value, 0))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.end_adding()?;
        self.change(|store| {
            let mut place = Number::new();
            let Some(key) = store.keys.given(key, &mut place) else { return Ok(false) };
            let mut key = Val::<DATA_FIRST>::of(key);
            let mut value = Val::<DATA_FIRST>::empty();
            let (calls, key): (_, Value) = (store.calls, (&raw mut key).cast());
            // SAFETY: the transaction is open for writing, and so is its cursor, if it has one; the key
            // is readable and only read, and there is a place for its value; a null value stands for
            // whatever the key has.
            let rc = unsafe {
                match store.cursor.is_null() {
                    true => (calls.del)(store.txn, store.dbi, key, null_mut()),
                    false => {
                        let found = (&raw mut value).cast();
                        match (calls.cursor_get)(store.cursor, key, found, SET_KEY) {
                            0 => (calls.cursor_del)(store.cursor, 0),
                            rc => rc,
                        }
                    }
                }
            };
            match rc {
                NOT_FOUND => Ok(false),
                rc => store.calls.check("del", rc).map(|()| true),
            }
        })
    }

    fn settle(&mut self) -> Result<()> {
        self.end_adding()
    }

    fn close(mut self) -> Result<()> {
        if self.txn.is_null() { Ok(()) } else { self.commit_open() }
    }
}

impl<const DATA_FIRST: bool> Store for MdbStore<'_, DATA_FIRST> {
    const IS_ORDERED: bool = true;
    const SCANS_BACK: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        self.read(|store| {
            let mut place = Number::new();
            let Some(key) = store.keys.given(key, &mut place) else { return Ok(false) };
            let mut key = Val::<DATA_FIRST>::of(key);
            let mut value = Val::<DATA_FIRST>::empty();
            let (to, found): (Value, Value) = ((&raw mut key).cast(), (&raw mut value).cast());
            // SAFETY: the transaction is open, and so is its cursor, if it has one; the key is readable
            // and only read.
            let rc = unsafe {
                match store.cursor.is_null() {
                    true => (store.calls.get)(store.txn, store.dbi, to, found),
                    false => (store.calls.cursor_get)(store.cursor, to, found, SET_KEY),
                }
            };
            match rc {
                0 => {
                    // SAFETY: the library filled the value in; the transaction stays open, and nothing
                    // is written before `take` is done.
                    take(unsafe { value.bytes() });
                    Ok(true)
                }
                NOT_FOUND => Ok(false),
                _ => store.calls.check("get", rc).map(|()| false),
            }
        })
    }

    fn refresh(&mut self) -> Result<()> {
        if self.txn.is_null() {
            return Ok(());
        }
        self.rest();
        self.begin_reading()
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.read(|store| store.walk(Val::empty(), (FIRST, NEXT), usize::MAX, take))
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let mut place = Number::new();
        let Some(from) = self.keys.given(from, &mut place) else { return no_number("cursor_get") };
        self.read(|store| store.walk(Val::of(from), (SET_RANGE, NEXT), count, take))
    }

    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        self.read(|store| {
            // SAFETY: the transaction is open, and the database is one of its environment.
            let (rc, counts) = unsafe { store.stat.ask(store.txn, store.dbi) };
            store.calls.check("stat", rc).map(|()| counts)
        })
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.read(|store| store.walk(Val::empty(), (LAST, PREVIOUS), usize::MAX, take))
    }
}
