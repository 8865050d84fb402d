//! An open BerkeleyDB store, of any access method: lookups, changes, and scans in bulk.

#![allow(unsafe_code)]

use super::bdb::{Handle, Method, btree_page_bytes, check, record_bytes};
use super::bdb_abi::*;
use super::bdb_numbers::{NUMBER, each_numbered};
use super::bdb_redo::Change;
use super::{Committers, Shape, Store, Writer, is_number};
use crate::workload::key_type::number_of;
use crate::workload::{KeyType, Place};
use credenza::{Error, Result};
use std::ffi::c_int;
use std::path::Path;

/// An open store; what is in the order of its keys says so.
pub(super) struct BdbStore<'d, const IS_ORDERED: bool> {
    /// By which lookups and changes are done, if the user chose that. Fields are dropped in order: the
    /// database after it.
    cursor: Option<Cursor>,
    /// Whether all ranges are read by one cursor: where nobody changes the database.
    keeps_walker: bool,
    /// That one; none before the first.
    walker: Option<Cursor>,
    pub(super) handle: Handle<'d>,
    /// What was done in the transaction that is open, where it may have to be done again.
    pub(super) done: Vec<Change>,
    get: Access,
    put: Access,
    delete: Delete,
    /// Where one more value of a key goes, where keys have several.
    place: Option<Place>,
    /// The highest number that it has given to a record, where it numbers them.
    last_number: Option<u64>,
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
            handle.set_flags(CHECKSUMMED)?;
        }
        if shape.duplicates.is_some() {
            handle.set_flags(DUPLICATES)?;
        }
        handle.order_keys(method, shape)?;
        handle.open(method, Some(path).filter(|_| !shape.settings.memory()), CREATE)?;
        let mut store = BdbStore::over(handle, shape);
        if store.last_number.is_some() {
            store.last_number = Some(store.handle.last_number()?);
        }
        store.with_cursor(shape)
    }

    /// The same, with lookups and changes done by a cursor if the user chose that. In an environment each
    /// change is a transaction, and a cursor has none unless it is told of one: so these have none.
    pub(super) fn with_cursor(mut self, shape: &Shape) -> Result<Self> {
        if shape.settings.cursors() && self.handle.env.is_null() {
            self.cursor = Some(Cursor::of(self.handle.cursor()?));
        }
        Ok(self)
    }

    /// The same with one cursor for all ranges, as nobody changes the database.
    pub(super) fn with_walker(self) -> Self {
        BdbStore { keeps_walker: true, ..self }
    }

    /// A store over an object that is open.
    pub(super) fn over(handle: Handle<'d>, shape: &Shape) -> Self {
        // SAFETY: the version was checked in `load`; the object is open.
        let (get, put, delete) = unsafe {
            (method(handle.db, at::GET), method(handle.db, at::PUT), method(handle.db, at::DELETE))
        };
        // One byte more than any value, so that a value that is too long shows.
        let buffer = vec![0; shape.longest_value / 4 + 1];
        let (bulk, bulk_record) = (Vec::new(), record_bytes(shape) + 16);
        let least_bulk = btree_page_bytes(shape) as usize;
        let (place, cursor) = (shape.duplicates, None);
        let last_number = (shape.keys == KeyType::Number32).then_some(0);
        BdbStore {
            cursor,
            keeps_walker: false,
            walker: None,
            handle,
            done: Vec::new(),
            get,
            put,
            delete,
            place,
            last_number,
            buffer,
            bulk,
            bulk_record,
            least_bulk,
        }
    }

    /// A key as the library has it: where it numbers records a number, in `place`.
    #[inline]
    fn given(&self, key: &[u8], place: &mut u32) -> Dbt {
        if self.last_number.is_none() {
            return Dbt::of(key);
        }
        // There is no number 0: the library refuses it.
        *place = u32::try_from(number_of(key)).unwrap_or(0);
        Dbt::number(place)
    }

    /// Has the library number a record, which has to be as the key says.
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut number = 0;
        let (mut given, mut value) = (Dbt::number(&mut number), Dbt::of(value));
        // SAFETY: the database is open for writing; a place for the number, and the value is only read.
        let rc = unsafe {
            (self.put)(self.handle.db, self.handle.txn, &raw mut given, &raw mut value, APPEND)
        };
        check(self.handle.api, "put", rc)?;
        NUMBER.with_key(&number.to_le_bytes(), |found| is_number(found, key))?;
        self.last_number = Some(number.into());
        Ok(())
    }

    /// The handles of threads that share this one, which was opened for that.
    pub(super) fn into_committers(self, shape: &Shape, count: usize) -> Result<Committers<Self>> {
        let copy = |owner: &Self| {
            let &Handle { api, env, txn, db, threads, .. } = &owner.handle;
            Ok(BdbStore::over(Handle { api, env, txn, db, threads, is_copy: true }, shape))
        };
        // SAFETY: the environment and the database were opened with `DB_THREAD` and locks.
        unsafe { Committers::of(self, count, copy) }
    }

    /// Gives at most `count` records to `take`, from the first whose key is not below `from`, or all; where the
    /// library refuses to go on for other threads, it begins again at the key that was given last.
    fn walk(
        &mut self,
        from: Option<&[u8]>,
        count: usize,
        buffer: &mut Vec<u32>,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let may_lose = self.handle.threads != 0;
        // The last key, and how many values of it were given.
        let (mut given, mut last, mut of_last) = (0, Vec::new(), 0);
        loop {
            let cursor = match self.walker.take() {
                Some(cursor) => cursor,
                None => Cursor::of(self.handle.cursor()?),
            };
            let again = last.clone();
            let start = if given > 0 { Some(&again[..]) } else { from };
            let mut passed_over = of_last;
            let left = count - given + passed_over;
            let rc = self.walk_once(&cursor, start, left, buffer, |key, value| {
                // Where the one to go on from is gone, there are more than are left.
                if given == count {
                    return;
                }
                if passed_over > 0 && key == last {
                    passed_over -= 1;
                    return;
                }
                passed_over = 0;
                given += 1;
                take(key, value);
                if may_lose && key == last && given > 1 {
                    of_last += 1;
                } else if may_lose {
                    last.clear();
                    last.extend_from_slice(key);
                    of_last = 1;
                }
            });
            if rc != DEADLOCK {
                self.walker = Some(cursor).filter(|_| self.keeps_walker);
                return if rc == NOT_FOUND {
                    Ok(())
                } else {
                    check(self.handle.api, "cursor get", rc)
                };
            }
            drop(cursor);
            let rc = self.lost();
            check(self.handle.api, "cursor get", rc)?;
            if given == count {
                return Ok(());
            }
        }
    }

    /// The same as long as nobody refuses it, by a cursor, which is a new one where all are wanted; `buffer` takes
    /// some of them at a time and grows where it must. Returns what the library said last.
    fn walk_once(
        &self,
        cursor: &Cursor,
        from: Option<&[u8]>,
        mut count: usize,
        buffer: &mut Vec<u32>,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> c_int {
        let cursor = cursor.cursor;
        let mut step = if from.is_some() { SET_RANGE } else { NEXT };
        let mut number = 0;
        let mut first = self.given(from.unwrap_or_default(), &mut number);
        while count > 0 {
            match fetch_bulk(cursor, &mut first, step, buffer) {
                0 if self.last_number.is_some() => count -= each_numbered(buffer, count, &mut take),
                0 => count -= each_of_bulk(buffer, count, &mut take),
                BUFFER_SMALL => {
                    buffer.resize(buffer.len() * 2, 0);
                    continue;
                }
                // A number is looked for as such: where its record was removed, the next one.
                KEY_EMPTY if step == SET_RANGE => {
                    number = number.wrapping_add(1);
                    first = Dbt::number(&mut number);
                    continue;
                }
                rc => return rc,
            }
            step = NEXT;
        }
        0
    }

    /// Stores a value, and says what the library does, which may have refused it.
    pub(super) fn put_once(&self, key: &mut Dbt, value: &mut Dbt) -> c_int {
        // SAFETY: the database is open for writing, and so is the cursor, if there is one; key and value
        // are readable, and only read although the prototypes lack const.
        unsafe {
            match &self.cursor {
                None => (self.put)(self.handle.db, self.handle.txn, key, value, 0),
                Some(cursor) => cursor.put(key, value),
            }
        }
    }

    /// The same before all other values of the key.
    pub(super) fn put_first_once(&self, key: &mut Dbt, value: &mut Dbt) -> c_int {
        let cursor = match self.handle.cursor_raw() {
            Ok(cursor) => cursor,
            Err(rc) => return rc,
        };
        // SAFETY: the cursor is open, and closed once; key and value are readable, and only read.
        unsafe {
            let put: CursorPut = method(cursor, at::CURSOR_PUT);
            let rc = put(cursor, key, value, KEY_FIRST);
            method::<CloseCursor>(cursor, at::CURSOR_CLOSE)(cursor);
            rc
        }
    }

    /// Removes a key, and says what the library does, as above.
    pub(super) fn delete_once(&self, key: &mut Dbt) -> c_int {
        // SAFETY: the database is open for writing, and so is the cursor, if there is one; the key is
        // readable, and only read although the prototypes lack const.
        unsafe {
            match &self.cursor {
                None => (self.delete)(self.handle.db, self.handle.txn, key, 0),
                Some(cursor) => cursor.delete(key),
            }
        }
    }
}

impl<const IS_ORDERED: bool> Store for BdbStore<'_, IS_ORDERED> {
    const IS_ORDERED: bool = IS_ORDERED;
    const SCANS_BACK: bool = IS_ORDERED;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let mut number = 0;
        let mut key = self.given(key, &mut number);
        let mut value = Dbt::into_buffer(&mut self.buffer);
        // SAFETY: the database is open, and so is the cursor, if there is one; the key is readable, and
        // the buffer writable for `room`.
        let rc = self.until_won(|store| unsafe {
            let Handle { db, txn, .. } = store.handle;
            match &store.cursor {
                None => (store.get)(db, txn, &raw mut key, &raw mut value, 0),
                Some(cursor) => cursor.get(&raw mut key, &raw mut value),
            }
        });
        match rc {
            0 => {
                // SAFETY: the library wrote `size` bytes, at most `room`, to the buffer.
                take(unsafe { std::slice::from_raw_parts(value.data.cast(), value.size as usize) });
                Ok(true)
            }
            NOT_FOUND | KEY_EMPTY => Ok(false),
            _ => check(self.handle.api, "get", rc).map(|()| false),
        }
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let walker = self.walker.take();
        let done = self.walk(None, usize::MAX, &mut vec![0_u32; (1 << 20) / 4], take);
        self.walker = walker;
        done
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if !IS_ORDERED {
            return Err(Error::invalid("the records of this store are in no order"));
        }
        let mut buffer = std::mem::take(&mut self.bulk);
        if buffer.is_empty() {
            // As large as the records are: it is filled, however few of them are wanted.
            let bytes = self.least_bulk.max(count.saturating_mul(self.bulk_record).min(1 << 20));
            buffer.resize(bytes.next_multiple_of(1024) / 4, 0);
        }
        let done = self.walk(Some(from), count, &mut buffer, take);
        self.bulk = buffer;
        done
    }

    /// One by one: there is no fetching in bulk that way.
    fn scan_back(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if !IS_ORDERED {
            return Err(Error::invalid("the records of this store are in no order"));
        }
        let cursor = Cursor::of(self.handle.cursor()?);
        loop {
            let (mut key, mut value) = (Dbt::of(&[]), Dbt::of(&[]));
            // SAFETY: the cursor is open, and of a database that no threads share, so that the library puts key
            // and value where it has room for them.
            let rc = unsafe { (cursor.get)(cursor.cursor, &raw mut key, &raw mut value, PREVIOUS) };
            match rc {
                0 => {}
                NOT_FOUND => return Ok(()),
                rc => return check(self.handle.api, "cursor get", rc),
            }
            // SAFETY: it has put them there, and they stay to its next call.
            let (key, value) = unsafe { (key.bytes(), value.bytes()) };
            match self.last_number {
                Some(_) => NUMBER.with_key(key, |key| take(key, value)),
                None => take(key, value),
            }
        }
    }
}

impl<const IS_ORDERED: bool> Writer for BdbStore<'_, IS_ORDERED> {
    /// Where there is an environment, which the workbench has for the btree alone.
    const HAS_TRANSACTIONS: bool = IS_ORDERED;
    /// One of all records would have a lock for every page to its end where threads share the store.
    const FILLS_IN_ONE: bool = false;

    fn begin(&mut self) -> Result<()> {
        self.handle.begin()
    }

    fn commit(&mut self) -> Result<()> {
        self.done.clear();
        self.handle.commit()
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.place != Some(Place::First) {
            // Behind the others, as there is no order of values.
            return self.insert(key, value);
        }
        let (mut given, mut stored) = (Dbt::of(key), Dbt::of(value));
        // What a cursor does is in no transaction unless it is told of one.
        let is_alone = !self.handle.env.is_null() && self.handle.txn.is_null();
        if is_alone {
            self.handle.begin()?;
        }
        let rc = self.until_won(|store| store.put_first_once(&mut given, &mut stored));
        self.note(|| Change::PutFirst(key.to_vec(), value.to_vec()));
        check(self.handle.api, "cursor put", rc)?;
        if is_alone { self.commit() } else { Ok(()) }
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.last_number.is_some_and(|last| number_of(key) > last) {
            return self.append(key, value);
        }
        let mut number = 0;
        let (mut given, mut stored) = (self.given(key, &mut number), Dbt::of(value));
        let rc = self.until_won(|store| store.put_once(&mut given, &mut stored));
        self.note(|| Change::Put(key.to_vec(), value.to_vec()));
        check(self.handle.api, "put", rc)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let mut number = 0;
        let mut given = self.given(key, &mut number);
        let rc = self.until_won(|store| store.delete_once(&mut given));
        self.note(|| Change::Delete(key.to_vec()));
        match rc {
            NOT_FOUND | KEY_EMPTY => Ok(false),
            rc => check(self.handle.api, "del", rc).map(|()| true),
        }
    }

    fn close(mut self) -> Result<()> {
        self.cursor = None;
        self.handle.close()
    }
}

/// A cursor that is used again and again, closed when dropped.
struct Cursor {
    cursor: *mut Dbc,
    get: CursorGet,
    put: CursorPut,
    delete: CursorDelete,
}

impl Cursor {
    /// Over an open cursor, which it takes.
    fn of(cursor: *mut Dbc) -> Cursor {
        // SAFETY: the cursor is open, of a library whose version was checked in `load`.
        let (get, put, delete) = unsafe {
            (
                method(cursor, at::CURSOR_GET),
                method(cursor, at::CURSOR_PUT),
                method(cursor, at::CURSOR_DELETE),
            )
        };
        Cursor { cursor, get, put, delete }
    }

    /// # Safety
    /// The key is readable, and `value` a place.
    unsafe fn get(&self, key: *mut Dbt, value: *mut Dbt) -> c_int {
        // SAFETY: the cursor is open; the caller's promise.
        unsafe { (self.get)(self.cursor, key, value, SET) }
    }

    /// # Safety
    /// The database is open for writing, key and value are readable.
    unsafe fn put(&self, key: *mut Dbt, value: *mut Dbt) -> c_int {
        // SAFETY: the cursor is open; the caller's promise. Where keys have one value, it is replaced.
        unsafe { (self.put)(self.cursor, key, value, KEY_LAST) }
    }

    /// # Safety
    /// The database is open for writing, the key is readable.
    unsafe fn delete(&self, key: *mut Dbt) -> c_int {
        // No bytes of the value are asked for.
        let mut none = Dbt::nothing();
        // SAFETY: the cursor is open; the caller's promise.
        unsafe {
            match self.get(key, &raw mut none) {
                0 => (self.delete)(self.cursor, 0),
                rc => rc,
            }
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, closed once, and before its database.
        unsafe { method::<CloseCursor>(self.cursor, at::CURSOR_CLOSE)(self.cursor) };
    }
}

/// Fetches as many records as fit into `buffer`.
fn fetch_bulk(cursor: *mut Dbc, key: &mut Dbt, step: u32, buffer: &mut [u32]) -> c_int {
    let mut bulk = Dbt::into_buffer(buffer);
    // SAFETY: the cursor is open; the key is readable, and the buffer writable for `room`, a
    // multiple of 1024.
    unsafe {
        let get: CursorGet = method(cursor, at::CURSOR_GET);
        get(cursor, &raw mut *key, &raw mut bulk, step | MULTIPLE_KEY)
    }
}

/// So many bytes of what bulk fetching left, from `place` on.
pub(super) fn piece(buffer: &[u32], place: u32, len: u32) -> &[u8] {
    // SAFETY: the same memory as bytes, which have no alignment and no invalid values.
    let bytes =
        unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), size_of_val(buffer)) };
    bytes.get(place as usize..).and_then(|rest| rest.get(..len as usize)).unwrap_or_default()
}

/// Reads at most `count` records that bulk fetching left: from the buffer's end downwards, four
/// numbers for each record (place and length of the key, then of the value), then -1. This is
/// `DB_MULTIPLE_KEY_NEXT`. Returns how many it were.
fn each_of_bulk(buffer: &[u32], count: usize, take: &mut impl FnMut(&[u8], &[u8])) -> usize {
    let mut numbers = buffer.rchunks_exact(4);
    let mut given = 0;
    while let Some(&[value_len, value, key_len, key]) = numbers.next()
        && key != u32::MAX
        && given < count
    {
        take(piece(buffer, key, key_len), piece(buffer, value, value_len));
        given += 1;
    }
    given
}
