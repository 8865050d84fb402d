//! An open upscaledb store: its database, lookups and changes, alone or by a cursor, and scans.

#![allow(unsafe_code)]

use super::upscaledb_abi::*;
use super::upscaledb_keys::{Given, Keys, LONGEST_FIXED, number, number_type, order_of_keys};
use super::upscaledb_places::Places;
use super::{Committers, Crew, OwnCount, Shape, Store, Writer, is_number, refused, store};
use crate::settings::Codec;
use crate::workload::key_type::number_of;
use crate::workload::{KeyType, Place};
use credenza::Result;
use std::ffi::c_int;
use std::ptr::{null, null_mut};

/// The number of the only database in the file.
pub(super) const DATABASE: u16 = 1;
/// What its pages are where nobody says.
const PAGE_SIZE: u64 = 16 << 10;

/// An environment with its database, closed when dropped.
pub(super) struct UpsStore<'d> {
    api: &'d Api,
    pub(super) env: *mut Env,
    pub(super) db: *mut Db,
    /// The transaction that all calls belong to, or null.
    txn: *mut Txn,
    /// Whether lookups and insertions are done by a cursor, one for all; not where there are transactions.
    uses_cursor: bool,
    /// That one, or null.
    cursor: *mut Cursor,
    /// Whether all ranges and scans are done by one cursor: where nobody changes the database.
    keeps_walker: bool,
    /// That one; null before the first.
    walker: *mut Cursor,
    keys: Keys,
    /// The highest number that it has given to a record, where it numbers them.
    last_number: Option<u64>,
    /// Where one more value of a key goes, where keys have several.
    place: Option<Place>,
    /// Where the library puts keys and values.
    places: Places,
    /// `DIRECT_ACCESS`, or nothing: for what is given.
    direct: u32,
    /// Whether the environment is another one's, which outlives this.
    is_copy: bool,
}

impl Drop for UpsStore<'_> {
    fn drop(&mut self) {
        // Closing what was read, or after an error that is being reported: no new one.
        let _ = self.release();
    }
}

impl<'d> UpsStore<'d> {
    /// Not open yet.
    pub(super) fn new(api: &'d Api, shape: &Shape) -> UpsStore<'d> {
        let (env, db, txn, cursor) = (null_mut(), null_mut(), null_mut(), null_mut());
        let (keys, place, uses_cursor) =
            (Keys::of(shape), shape.duplicates, shape.settings.cursors());
        let last_number = shape.keys.is_numbered().then_some(0);
        let (places, is_copy) = (Places::Library, false);
        let direct = if shape.settings.direct_access() { DIRECT_ACCESS } else { 0 };
        UpsStore {
            api,
            env,
            db,
            txn,
            uses_cursor,
            cursor,
            keeps_walker: false,
            walker: null_mut(),
            keys,
            last_number,
            place,
            places,
            direct,
            is_copy,
        }
    }

    /// A handle of the same database for another thread.
    fn copy(&self, shape: &Shape) -> UpsStore<'d> {
        let mut store = UpsStore::new(self.api, shape);
        (store.env, store.db, store.last_number) = (self.env, self.db, self.last_number);
        (store.places, store.is_copy) = (Places::own(shape), true);
        store
    }

    /// The handles of threads that share this one; beside a writer each change is a transaction.
    pub(super) fn into_crew(
        self,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<Self, Self>> {
        let copy = |owner: &Self, _| {
            let mut store = owner.copy(shape);
            if !with_writer {
                store.keep_walker();
                store.open_cursor()?;
            }
            Ok(store)
        };
        // SAFETY: every function of the library takes the lock of the environment first, and puts what it gives
        // into memory of the handle's own before it lets go of it.
        unsafe { Crew::sharing(self, readers, with_writer, copy) }
    }

    /// The handles of threads that share this one, where each change is a transaction.
    pub(super) fn into_committers(self, shape: &Shape, count: usize) -> Result<Committers<Self>> {
        // SAFETY: as above.
        unsafe { Committers::of(self, count, |owner| Ok(owner.copy(shape))) }
    }

    /// What the database is told of keys and records, in words.
    pub(super) fn told(shape: &Shape) -> String {
        let order = if shape.keys == KeyType::Custom { "UPS_TYPE_CUSTOM, " } else { "" };
        let keys = match Keys::of(shape) {
            Keys::Numbers(native) if shape.keys.is_numbered() => {
                format!("UPS_RECORD_NUMBER{}", 8 * native.width())
            }
            Keys::Numbers(native) => number_type(native).1.to_owned(),
            Keys::Fixed(len) => format!("key size {len}"),
            Keys::Varying => "any key size".to_owned(),
        };
        let records = match (number(shape.values), shape.fixed_value) {
            (Some(native), _) => format!("records {}", number_type(native).1),
            (None, Some(len)) => format!("record size {len}"),
            (None, None) => "any record size".to_owned(),
        };
        format!("{order}{keys}, {records}")
    }

    /// Makes the database in an environment that is open.
    pub(super) fn make_database(&mut self, shape: &Shape) -> Result<()> {
        let flags = database(shape)?;
        let mut parameters: Vec<Parameter> = Vec::new();
        match self.keys {
            // Where it numbers records it knows itself of which type they are.
            Keys::Numbers(_) if shape.keys.is_numbered() => {}
            Keys::Numbers(native) => {
                let (value, _) = number_type(native);
                parameters.push(Parameter { name: PARAM_KEY_TYPE, value });
            }
            Keys::Fixed(len) => {
                parameters.push(Parameter { name: PARAM_KEY_SIZE, value: len as u64 });
            }
            Keys::Varying => {}
        }
        if shape.keys == KeyType::Custom {
            parameters.extend(order_of_keys());
        }
        if let Some(len) = shape.fixed_value.filter(|_| !shape.setup.is_ups()) {
            parameters.push(Parameter { name: PARAM_RECORD_SIZE, value: len as u64 });
        }
        if let Some(native) = number(shape.values) {
            let (value, _) = number_type(native);
            parameters.push(Parameter { name: PARAM_RECORD_TYPE, value });
        }
        let settings = &shape.settings;
        parameters.extend(compressor(PARAM_RECORD_COMPRESSION, settings.compression()));
        parameters.extend(compressor(PARAM_KEY_COMPRESSION, codec_of_keys(shape)?));
        parameters.push(Parameter { name: 0, value: 0 });
        // SAFETY: the environment is open; a place for the pointer, and a list with its end.
        let rc = unsafe {
            let (db, list) = (&raw mut self.db, parameters.as_ptr());
            (self.api.ups_env_create_db)(self.env, db, DATABASE, flags, list)
        };
        self.api.check("ups_env_create_db", rc)
    }

    /// Opens the cursor that is used again and again, where there is to be one.
    pub(super) fn open_cursor(&mut self) -> Result<()> {
        if !self.uses_cursor {
            return Ok(());
        }
        // SAFETY: the database is open, and so is the transaction, if there is one; a place for the
        // pointer.
        let rc =
            unsafe { (self.api.ups_cursor_create)(&raw mut self.cursor, self.db, self.txn, 0) };
        self.api.check("ups_cursor_create", rc)
    }

    /// Has ranges and scans be done by one cursor, as nobody changes the database.
    pub(super) fn keep_walker(&mut self) {
        self.keeps_walker = true;
    }

    /// Notes what the highest number is in a database that numbers its records, and was closed.
    pub(super) fn note_last_number(&mut self) -> Result<()> {
        let Some(mut last) = self.last_number else { return Ok(()) };
        self.walk(None, (CURSOR_LAST, CURSOR_LAST), 1, |key, _| last = number_of(key))?;
        self.last_number = Some(last);
        Ok(())
    }

    fn close_cursors(&mut self) {
        for cursor in [&mut self.cursor, &mut self.walker] {
            let cursor = std::mem::replace(cursor, null_mut());
            if !cursor.is_null() {
                // SAFETY: the cursor lives, and was taken out: closed once. It has nothing to say.
                unsafe { (self.api.ups_cursor_close)(cursor) };
            }
        }
    }

    fn release(&mut self) -> Result<()> {
        self.close_cursors();
        let env = std::mem::replace(&mut self.env, null_mut());
        if env.is_null() || self.is_copy {
            return Ok(());
        }
        if !self.txn.is_null() {
            // SAFETY: the transaction was begun and not ended; its environment is open.
            unsafe { (self.api.ups_txn_abort)(self.txn, 0) };
        }
        // SAFETY: the environment is open, and was taken out of the store; it closes its database.
        self.api.check("ups_env_close", unsafe { (self.api.ups_env_close)(env, AUTO_CLEANUP) })
    }

    /// Stores a record by `insert`, a function of the library that does so.
    #[inline]
    fn put(
        &self,
        key: &[u8],
        value: &[u8],
        insert: impl FnOnce(&Self, *mut Key, *mut Record) -> c_int,
    ) -> Result<()> {
        self.api.check("ups_db_insert", self.try_to_put(key, value, insert)?)
    }

    /// The same; gives what the library says of it.
    #[inline]
    fn try_to_put(
        &self,
        key: &[u8],
        value: &[u8],
        insert: impl FnOnce(&Self, *mut Key, *mut Record) -> c_int,
    ) -> Result<c_int> {
        let (true, key) = self.keys.known(key) else {
            return Err(refused("ups_db_insert", "a key of another size than was said"));
        };
        if key.len() > usize::from(u16::MAX) || u32::try_from(value.len()).is_err() {
            return Err(refused("ups_db_insert", "a key over 64 KiB or a value over 4 GiB"));
        }
        let given = Given::of(self.keys, key);
        let mut key = given.key();
        let mut record = Record { size: value.len() as u32, data: value.as_ptr(), flags: 0 };
        Ok(insert(self, &raw mut key, &raw mut record))
    }

    /// Has the library number a record, which has to be as the key says.
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let Keys::Numbers(native) = self.keys else {
            return Err(refused("ups_db_insert", "records without numbers"));
        };
        if self.is_copy {
            // The number is given in a place of the library's.
            return Err(refused("ups_db_insert", "several threads that have records numbered"));
        }
        let mut given = Key { size: 0, data: null(), flags: 0, own_flags: 0 };
        let mut record = Record { size: value.len() as u32, data: value.as_ptr(), flags: 0 };
        // SAFETY: the database is open for writing; a place for the key, and the value is only read.
        let rc = unsafe {
            (self.api.ups_db_insert)(self.db, self.txn, &raw mut given, &raw mut record, 0)
        };
        self.api.check("ups_db_insert", rc)?;
        // SAFETY: the library filled the key in just now.
        let number = unsafe { piece(given.data, given.size as usize) };
        native.with_key(number, |found| is_number(found, key))?;
        self.last_number = Some(number_of(key));
        Ok(())
    }

    /// Gives at most `count` records to `take`, from the first whose key is not below `from`, or those that
    /// a cursor comes to with the first and then with further steps.
    fn walk(
        &mut self,
        from: Option<&[u8]>,
        (first, further): (u32, u32),
        count: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let api = self.api;
        let mut cursor = self.walker;
        if cursor.is_null() {
            // SAFETY: the database is open; a place for the pointer.
            let rc = unsafe { (api.ups_cursor_create)(&raw mut cursor, self.db, self.txn, 0) };
            api.check("ups_cursor_create", rc)?;
        }
        let mut rc = 0;
        for i in 0..count {
            if let Some(from) = from.filter(|_| i == 0) {
                rc = self.find(cursor, from, &mut take);
                if rc != 0 {
                    break;
                }
                continue;
            }
            let step = if i == 0 { first } else { further };
            let (mut key, mut record) = (self.places.key(&[]), self.places.record());
            // SAFETY: the cursor lives; places for key and record.
            rc = unsafe {
                let how = step | self.direct;
                (api.ups_cursor_move)(cursor, &raw mut key, &raw mut record, how)
            };
            if rc != 0 {
                break;
            }
            // SAFETY: the library filled both in; they stay until its next call.
            unsafe { self.give(&key, &record, &mut take) };
        }
        let closed = if self.keeps_walker {
            self.walker = cursor;
            0
        } else {
            // SAFETY: the cursor lives, and is closed once.
            unsafe { (api.ups_cursor_close)(cursor) }
        };
        if rc != KEY_NOT_FOUND {
            api.check("ups_cursor_move", rc)?;
        }
        api.check("ups_cursor_close", closed)
    }

    /// Goes to the first record whose key is not below `from`, and gives it to `take`.
    fn find(
        &mut self,
        cursor: *mut Cursor,
        from: &[u8],
        take: &mut impl FnMut(&[u8], &[u8]),
    ) -> c_int {
        let (_, beginning) = self.keys.known(from);
        // A key with zeros at its end is the least one that begins so.
        let mut filled = [0; LONGEST_FIXED];
        filled[..beginning.len().min(LONGEST_FIXED)]
            .copy_from_slice(&beginning[..beginning.len().min(LONGEST_FIXED)]);
        let beginning = match self.keys {
            Keys::Fixed(len) => &filled[..len],
            Keys::Numbers(_) | Keys::Varying => beginning,
        };
        let is_cut = self.keys != Keys::Varying && from.len() > beginning.len();
        let how = self.direct | if is_cut { FIND_GREATER } else { FIND_GREATER_OR_EQUAL };
        let given = Given::of(self.keys, beginning);
        let (mut key, mut record) = (self.places.key(given.bytes()), self.places.record());
        // SAFETY: the cursor lives; the key is readable, and a place for the one that is found.
        let rc = unsafe { (self.api.ups_cursor_find)(cursor, &raw mut key, &raw mut record, how) };
        if rc == 0 {
            // Asked where it is, a cursor forgets values of committed transactions: so it is not.
            // SAFETY: the library filled both in just now, but a key that is the one looked for,
            // which is still where it was.
            unsafe { self.give(&key, &record, take) };
        }
        rc
    }

    /// # Safety
    /// The library filled both in, and was not called since.
    #[inline]
    unsafe fn give(&self, key: &Key, record: &Record, take: &mut impl FnMut(&[u8], &[u8])) {
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (piece(key.data, key.size as usize), record.bytes()) };
        match self.keys {
            Keys::Numbers(native) => native.with_key(key, |key| take(key, value)),
            Keys::Fixed(_) | Keys::Varying => take(key, value),
        }
    }
}

impl Store for UpsStore<'_> {
    const IS_ORDERED: bool = true;
    const SCANS_BACK: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (true, key) = self.keys.known(key) else { return Ok(false) };
        let given = Given::of(self.keys, key);
        let (mut found, mut record) = (given.key(), self.places.record());
        let (key, value, how) = (&raw mut found, &raw mut record, self.direct);
        // SAFETY: the database is open; the key is readable, and there is a place for the record.
        let rc = unsafe {
            match self.cursor.is_null() {
                true => (self.api.ups_db_find)(self.db, self.txn, key, value, how),
                false => (self.api.ups_cursor_find)(self.cursor, key, value, how),
            }
        };
        match rc {
            // With the flag 2.2.1 gives a neighbour of a key that is not there.
            0 if how != 0 && found.is_neighbour() => Ok(false),
            0 => {
                // SAFETY: the library filled it in just now.
                take(unsafe { record.bytes() });
                Ok(true)
            }
            KEY_NOT_FOUND => Ok(false),
            rc => self.api.check("ups_db_find", rc).map(|()| false),
        }
    }

    fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        if matches!(self.places, Places::Own(..)) {
            // What is found in bulk lies in a place that the next call of any thread changes.
            return store::one_by_one(self, keys, take);
        }
        // A key of another size than was said is not asked for.
        let known = |key: &&[u8]| self.keys.known(key).0;
        let given: Vec<Given<'_>> =
            keys.iter().filter(|key| known(key)).map(|key| Given::of(self.keys, key)).collect();
        let mut all: Vec<_> = given.iter().map(|given| Operation::find(given.key())).collect();
        if !all.is_empty() {
            // SAFETY: the database is open; the keys are readable, and there is a place for each record.
            let rc = unsafe {
                let (start, count) = (all.as_mut_ptr(), all.len());
                (self.api.ups_db_bulk_operations)(self.db, self.txn, start, count, 0)
            };
            self.api.check("ups_db_bulk_operations", rc)?;
        }
        let mut done = all.iter();
        for (i, key) in keys.iter().enumerate() {
            match if known(key) { done.next() } else { None } {
                Some(operation) if operation.result != KEY_NOT_FOUND => {
                    self.api.check("ups_db_bulk_operations", operation.result)?;
                    // SAFETY: the library filled it in just now; the bytes are its own until its next call.
                    take(i, Some(unsafe { operation.record.bytes() }));
                }
                _ => take(i, None),
            }
        }
        Ok(())
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.walk(None, (CURSOR_FIRST, CURSOR_NEXT), usize::MAX, take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.walk(Some(from), (CURSOR_FIRST, CURSOR_NEXT), count, take)
    }

    /// What the environment counts; a client of a server is told nothing.
    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        let mut metrics = Metrics::none();
        // SAFETY: the environment is open; a place for the answer, which is longer than that.
        let rc = unsafe { (self.api.ups_env_get_metrics)(self.env, &raw mut metrics) };
        match rc {
            NOT_IMPLEMENTED => Ok(Vec::new()),
            rc => self.api.check("ups_env_get_metrics", rc).map(|()| metrics.named()),
        }
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.walk(None, (CURSOR_LAST, CURSOR_PREVIOUS), usize::MAX, take)
    }
}

impl Writer for UpsStore<'_> {
    const HAS_TRANSACTIONS: bool = true;

    fn begin(&mut self) -> Result<()> {
        // SAFETY: the environment is open, with transactions; a place for the pointer.
        let rc =
            unsafe { (self.api.ups_txn_begin)(&raw mut self.txn, self.env, null(), null_mut(), 0) };
        self.api.check("ups_txn_begin", rc)
    }

    fn commit(&mut self) -> Result<()> {
        let txn = std::mem::replace(&mut self.txn, null_mut());
        // SAFETY: the transaction was begun, and was taken out of the store, so that it ends once.
        self.api.check("ups_txn_commit", unsafe { (self.api.ups_txn_commit)(txn, 0) })
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.last_number.is_some_and(|last| number_of(key) > last) {
            return self.append(key, value);
        }
        self.put(key, value, |store, key, record| {
            // SAFETY: the database is open for writing, and so is the cursor, if there is one; key and
            // value are readable, and only read.
            unsafe {
                match store.cursor.is_null() {
                    true => (store.api.ups_db_insert)(store.db, store.txn, key, record, OVERWRITE),
                    false => (store.api.ups_cursor_insert)(store.cursor, key, record, OVERWRITE),
                }
            }
        })
    }

    fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let rc = self.try_to_put(key, value, |store, key, record| {
            // SAFETY: as above.
            unsafe { (store.api.ups_db_insert)(store.db, store.txn, key, record, 0) }
        })?;
        match rc {
            DUPLICATE_KEY => Ok(false),
            rc => self.api.check("ups_db_insert", rc).map(|()| true),
        }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.place != Some(Place::First) {
            return self.put(key, value, |store, key, record| {
                // SAFETY: as above.
                unsafe { (store.api.ups_db_insert)(store.db, store.txn, key, record, DUPLICATE) }
            });
        }
        let (api, mut cursor) = (self.api, null_mut());
        // SAFETY: the database is open; a place for the pointer.
        let rc = unsafe { (api.ups_cursor_create)(&raw mut cursor, self.db, self.txn, 0) };
        api.check("ups_cursor_create", rc)?;
        let put = self.put(key, value, |_, key, record| {
            // SAFETY: the cursor lives; as above.
            unsafe { (api.ups_cursor_insert)(cursor, key, record, DUPLICATE_INSERT_FIRST) }
        });
        // SAFETY: the cursor lives, and is closed once.
        let closed = unsafe { (api.ups_cursor_close)(cursor) };
        put.and(api.check("ups_cursor_close", closed))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let (true, key) = self.keys.known(key) else { return Ok(false) };
        let given = Given::of(self.keys, key);
        let mut key = given.key();
        // Never by the cursor: in 2.2.1 `ups_cursor_erase` says that it did, and leaves what lies in a leaf
        // with its record of a fixed size.
        // SAFETY: the database is open for writing; the key is readable.
        let rc = unsafe { (self.api.ups_db_erase)(self.db, self.txn, &raw mut key, 0) };
        match rc {
            KEY_NOT_FOUND => Ok(false),
            rc => self.api.check("ups_db_erase", rc).map(|()| true),
        }
    }

    fn close(mut self) -> Result<()> {
        self.release()
    }
}

/// The flags of its database.
fn database(shape: &Shape) -> Result<u32> {
    let flags = match shape.keys {
        KeyType::Number32 => RECORD_NUMBER32,
        KeyType::Number64 => RECORD_NUMBER64,
        _ if shape.duplicates.is_some() => ENABLE_DUPLICATE_KEYS,
        _ => 0,
    };
    if !shape.settings.records_inline() {
        return Ok(flags);
    }
    // Its leaves have places of one size for them: told of none, or where there are few, it writes anywhere.
    let most = shape.settings.page_size().unwrap_or(PAGE_SIZE) / 10;
    if shape.fixed_value.filter(|_| !shape.setup.is_ups()).is_none_or(|len| len as u64 > most) {
        let why = format!("values have to be of one size, of {most} bytes at most in such pages");
        return Err(refused("records-inline=on", why));
    }
    Ok(flags | FORCE_RECORDS_INLINE)
}

/// The codec of its keys, if it takes one for keys of such a type.
fn codec_of_keys(shape: &Shape) -> Result<Codec> {
    let codec = shape.settings.key_compression();
    let is_fit = match shape.keys {
        KeyType::Binary | KeyType::String => !codec.is_of_numbers(),
        KeyType::U32 => codec.is_of_numbers(),
        _ => false,
    };
    if is_fit || codec == Codec::None {
        return Ok(codec);
    }
    let (setting, keys) = (format!("key-compression={}", codec.text()), shape.keys);
    Err(refused(
        &setting,
        format!("upscaledb does not compress keys of type {keys} so: leave it out"),
    ))
}
