//! What LevelDB and RocksDB have in common: log-structured merge trees with the same C interface
//! but for the prefix of its names.
//!
//! Tuning: memory tables of 64 MiB, a cache of twice the data, filters of 10 bits a key, no
//! compression. A build puts batches of 1,000 records, and compacts everything once, so that lookups
//! find one file of each key. Single changes go to a log, which is never forced to the disk, and
//! outlive the process: each is a transaction of its own. A removal does not say whether there was
//! such a key, so the key is looked up before.
//!
//! Threads: one process opens a store, and all its threads use the one handle.

#![allow(unsafe_code)]

use super::library::api;
use super::{
    Committers, Crew, Fault, OwnCount, Promise, Shape, Store, Writer, c_path, own_order, refused,
    store,
};
use crate::machine;
use crate::settings::{Codec, Name, Takes, Values};
use crate::workload::{KeyType, Records};
use credenza::Result;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

/// The types of c.h, `leveldb_t` and so on, only ever pointed to.
type Db = c_void;
pub(super) type Options = c_void;
type ReadOptions = c_void;
type WriteOptions = c_void;
type Iter = c_void;
type Batch = c_void;
/// `rocksdb_column_family_handle_t`.
pub(super) type Family = c_void;
type Comparator = c_void;
/// Two keys, and what the library was given for the function.
type Compare = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> c_int;
/// A place for a message.
type Message = *mut *mut c_char;
type Free = unsafe extern "C" fn(*mut c_void);
type NameOf = unsafe extern "C" fn(*mut c_void) -> *const c_char;

api! {
    /// The functions of both, behind `leveldb_` and `rocksdb_`.
    pub(super) struct Calls {
        options_create: unsafe extern "C" fn() -> *mut Options,
        options_destroy: unsafe extern "C" fn(*mut Options),
        options_set_create_if_missing: unsafe extern "C" fn(*mut Options, u8),
        options_set_error_if_exists: unsafe extern "C" fn(*mut Options, u8),
        options_set_write_buffer_size: unsafe extern "C" fn(*mut Options, usize),
        options_set_compression: unsafe extern "C" fn(*mut Options, c_int),
        options_set_comparator: unsafe extern "C" fn(*mut Options, *mut Comparator),
        comparator_create: unsafe extern "C" fn(*mut c_void, Free, Compare, NameOf) -> *mut Comparator,
        comparator_destroy: Free,
        readoptions_create: unsafe extern "C" fn() -> *mut ReadOptions,
        readoptions_destroy: unsafe extern "C" fn(*mut ReadOptions),
        readoptions_set_verify_checksums: unsafe extern "C" fn(*mut ReadOptions, u8),
        writeoptions_create: unsafe extern "C" fn() -> *mut WriteOptions,
        writeoptions_destroy: unsafe extern "C" fn(*mut WriteOptions),
        writeoptions_set_sync: unsafe extern "C" fn(*mut WriteOptions, u8),
        open: unsafe extern "C" fn(*const Options, *const c_char, Message) -> *mut Db,
        close: unsafe extern "C" fn(*mut Db),
        get: unsafe extern "C" fn(*mut Db, *const ReadOptions, *const u8, usize, *mut usize, Message) -> *mut u8,
        put: unsafe extern "C" fn(*mut Db, *const WriteOptions, *const u8, usize, *const u8, usize, Message),
        delete: unsafe extern "C" fn(*mut Db, *const WriteOptions, *const u8, usize, Message),
        write: unsafe extern "C" fn(*mut Db, *const WriteOptions, *mut Batch, Message),
        writebatch_create: unsafe extern "C" fn() -> *mut Batch,
        writebatch_destroy: unsafe extern "C" fn(*mut Batch),
        writebatch_clear: unsafe extern "C" fn(*mut Batch),
        writebatch_put: unsafe extern "C" fn(*mut Batch, *const u8, usize, *const u8, usize),
        compact_range: unsafe extern "C" fn(*mut Db, *const u8, usize, *const u8, usize),
        create_iterator: unsafe extern "C" fn(*mut Db, *const ReadOptions) -> *mut Iter,
        iter_destroy: unsafe extern "C" fn(*mut Iter),
        iter_valid: unsafe extern "C" fn(*const Iter) -> u8,
        iter_seek_to_first: unsafe extern "C" fn(*mut Iter),
        iter_seek_to_last: unsafe extern "C" fn(*mut Iter),
        iter_seek: unsafe extern "C" fn(*mut Iter, *const u8, usize),
        iter_next: unsafe extern "C" fn(*mut Iter),
        iter_prev: unsafe extern "C" fn(*mut Iter),
        iter_key: unsafe extern "C" fn(*const Iter, *mut usize) -> *const u8,
        iter_value: unsafe extern "C" fn(*const Iter, *mut usize) -> *const u8,
        iter_get_error: unsafe extern "C" fn(*const Iter, Message),
        property_value: unsafe extern "C" fn(*mut Db, *const c_char) -> *mut c_char,
        free: unsafe extern "C" fn(*mut c_void),
    }
}

const MEMORY_TABLE: usize = 64 << 20;
const NO_COMPRESSION: c_int = 0;
pub(super) const FILTER_BITS: u8 = 10;
/// Records put at once in a build.
const BATCH: usize = 1000;

pub(super) fn cache_bytes(shape: &Shape) -> usize {
    let usual = || (2 * shape.bytes()).min(machine::memory_bytes() / 4).max(96 << 20);
    shape.settings.cache().unwrap_or_else(usual) as usize
}

/// What both can be told, but for the codecs. What they call a block is read and compressed at once.
pub(super) const PAGE_SIZE: Takes = (Name::PageSize, Values::Powers(1 << 10, 4 << 20));
pub(super) const CACHE: Takes = (Name::Cache, Values::AtLeast(64 << 10));
pub(super) const CHECKSUMS: Takes = (Name::Checksums, Values::Either);

/// The number of a codec; LevelDB knows the first two.
pub(super) fn compression(codec: Codec) -> c_int {
    match codec {
        Codec::Snappy => 1,
        Codec::Zlib => 2,
        Codec::Bzip2 => 3,
        Codec::Lz4 => 4,
        Codec::Zstd => 7,
        _ => NO_COMPRESSION,
    }
}

/// What both have been told, in words.
pub(super) fn tuning(shape: &Shape) -> String {
    let order = if shape.keys == KeyType::Custom { "a comparator, " } else { "" };
    let checks = if shape.settings.checksums() == Some(true) {
        "verify_checksums"
    } else {
        "no checksums of reads"
    };
    format!(
        "{order}{checks}, write buffer {} MiB, block cache {} MiB, bloom filter {FILTER_BITS} bits, compression {}; \
         build: batches of {BATCH}, then compact_range; removals look the key up before, which is marked",
        MEMORY_TABLE >> 20,
        cache_bytes(shape) >> 20,
        shape.settings.compression().text()
    )
}

/// The properties that are numbers; each library knows its own.
const PROPERTIES: [&CStr; 26] = [
    c"leveldb.num-files-at-level0",
    c"leveldb.num-files-at-level1",
    c"leveldb.num-files-at-level2",
    c"leveldb.num-files-at-level3",
    c"leveldb.num-files-at-level4",
    c"leveldb.num-files-at-level5",
    c"leveldb.num-files-at-level6",
    c"leveldb.approximate-memory-usage",
    c"rocksdb.num-files-at-level0",
    c"rocksdb.num-files-at-level1",
    c"rocksdb.num-files-at-level2",
    c"rocksdb.num-files-at-level3",
    c"rocksdb.num-files-at-level4",
    c"rocksdb.num-files-at-level5",
    c"rocksdb.num-files-at-level6",
    c"rocksdb.num-entries-active-mem-table",
    c"rocksdb.num-immutable-mem-table",
    c"rocksdb.cur-size-all-mem-tables",
    c"rocksdb.estimate-num-keys",
    c"rocksdb.estimate-table-readers-mem",
    c"rocksdb.block-cache-usage",
    c"rocksdb.block-cache-pinned-usage",
    c"rocksdb.live-sst-files-size",
    c"rocksdb.estimate-pending-compaction-bytes",
    c"rocksdb.num-running-flushes",
    c"rocksdb.num-running-compactions",
];

/// The types of keys that both have.
pub(super) const KEY_TYPES: &[KeyType] = &[KeyType::Custom];

/// The order of keys of our own, as the libraries call it.
///
/// # Safety
/// Both are keys of the library.
unsafe extern "C" fn compare(
    _: *mut c_void,
    one: *const u8,
    one_len: usize,
    other: *const u8,
    other_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { own_order::compare((one, one_len), (other, other_len)) }
}

/// Its name, which a store keeps, and is not opened without.
extern "C" fn name_of_order(_: *mut c_void) -> *const c_char {
    own_order::NAME.as_ptr()
}

/// Of the comparator, which has nothing of its own.
extern "C" fn free_nothing(_: *mut c_void) {}

/// What was written to the log outlives the process; of a log that was not synced some of the end may
/// be lost with the power.
pub(super) fn promise(fault: Fault, is_durable: bool) -> Promise {
    match fault {
        Fault::Power if !is_durable => Promise::Moment,
        _ => Promise::All,
    }
}

pub(super) const NOTE: &str =
    "works in threads of its own, too, which share the processor that the process is bound to";

impl Calls {
    /// What the library said, if it said no.
    pub(super) fn check(&self, call: &str, message: *mut c_char) -> Result<()> {
        if message.is_null() {
            return Ok(());
        }
        // SAFETY: a message is a C string that the library allocated for us, and frees here.
        unsafe {
            let why = CStr::from_ptr(message).to_string_lossy().into_owned();
            (self.free)(message.cast());
            Err(refused(call, why))
        }
    }
}

/// Options of a store, with what lives as long as they; freed when dropped.
pub(super) struct Settings<'d> {
    calls: &'d Calls,
    /// Whether what is read is compared with checksums. By itself RocksDB does that, and LevelDB does not.
    checks_reads: bool,
    pub(super) options: *mut Options,
    /// What frees a cache, filter or comparator that the options refer to, and its argument.
    pub(super) parts: Vec<(Free, *mut c_void)>,
}

impl<'d> Settings<'d> {
    pub(super) fn new(calls: &'d Calls, shape: &Shape, is_created: bool) -> Settings<'d> {
        // SAFETY: no preconditions; the options are new.
        let options = unsafe {
            let options = (calls.options_create)();
            (calls.options_set_create_if_missing)(options, u8::from(is_created));
            (calls.options_set_error_if_exists)(options, u8::from(is_created));
            (calls.options_set_write_buffer_size)(options, MEMORY_TABLE);
            (calls.options_set_compression)(options, compression(shape.settings.compression()));
            options
        };
        let mut parts: Vec<(Free, *mut c_void)> = Vec::new();
        if shape.keys == KeyType::Custom {
            // SAFETY: the options are new; the functions need nothing, and the comparator, which is not
            // theirs, is freed behind them.
            let comparator = unsafe {
                let own =
                    (calls.comparator_create)(null_mut(), free_nothing, compare, name_of_order);
                (calls.options_set_comparator)(options, own);
                own
            };
            parts.push((calls.comparator_destroy, comparator));
        }
        let checks_reads = shape.settings.checksums() == Some(true);
        Settings { calls, checks_reads, options, parts }
    }
}

impl Drop for Settings<'_> {
    fn drop(&mut self) {
        // SAFETY: whoever has these settings dropped its store before; each is freed once.
        unsafe {
            (self.calls.options_destroy)(self.options);
            self.parts.iter().for_each(|(free, part)| free(*part));
        }
    }
}

/// How values are read without a copy where the library can, one by one, or many at once of a column family.
#[derive(Clone, Copy)]
pub(super) struct Pinned {
    pub(super) get: GetPinned,
    pub(super) get_many: GetManyPinned,
    pub(super) value: unsafe extern "C" fn(*const c_void, *mut usize) -> *const u8,
    pub(super) destroy: unsafe extern "C" fn(*mut c_void),
    pub(super) destroy_family: unsafe extern "C" fn(*mut Family),
}

pub(super) type GetPinned =
    unsafe extern "C" fn(*mut Db, *const ReadOptions, *const u8, usize, Message) -> *mut c_void;
/// Keys as their number, starts and lengths; places for values and messages; whether the keys are sorted.
pub(super) type GetManyPinned = unsafe extern "C" fn(
    *mut Db,
    *const ReadOptions,
    *mut Family,
    usize,
    *const *const u8,
    *const usize,
    *mut *mut c_void,
    Message,
    bool,
);

/// What many lookups at once are asked with, and answered in: used again for the next ones.
#[derive(Default)]
struct Places {
    starts: Vec<*const u8>,
    lens: Vec<usize>,
    values: Vec<*mut c_void>,
    messages: Vec<*mut c_char>,
}

impl Places {
    fn set(&mut self, keys: &[&[u8]]) {
        self.starts.clear();
        self.starts.extend(keys.iter().map(|key| key.as_ptr()));
        self.lens.clear();
        self.lens.extend(keys.iter().map(|key| key.len()));
        self.values.clear();
        self.values.resize(keys.len(), null_mut());
        self.messages.clear();
        self.messages.resize(keys.len(), null_mut());
    }
}

/// An open store, closed when dropped, before its settings.
pub(super) struct LsmStore<'d> {
    calls: &'d Calls,
    db: *mut Db,
    reading: *mut ReadOptions,
    writing: *mut WriteOptions,
    pinned: Option<Pinned>,
    /// The column family of all records, where values are read without a copy, or null.
    family: *mut Family,
    places: Places,
    /// A reader's one iterator, for all scans and ranges; null before the first.
    iter: *mut Iter,
    is_reader: bool,
    /// None where the store is another one's, which outlives this.
    settings: Option<Settings<'d>>,
}

impl Drop for LsmStore<'_> {
    fn drop(&mut self) {
        // SAFETY: each was made by the library and is freed once; iterator and family before the store.
        unsafe {
            if !self.iter.is_null() {
                (self.calls.iter_destroy)(self.iter);
            }
            if self.settings.is_none() {
                return;
            }
            if let Some(pinned) = self.pinned.filter(|_| !self.family.is_null()) {
                (pinned.destroy_family)(self.family);
            }
            if !self.db.is_null() {
                (self.calls.close)(self.db);
            }
            (self.calls.readoptions_destroy)(self.reading);
            (self.calls.writeoptions_destroy)(self.writing);
        }
    }
}

impl<'d> LsmStore<'d> {
    /// Opens the store in the folder `path` by `open`, functions of the library that give it and its family.
    pub(super) fn open(
        settings: Settings<'d>,
        path: &Path,
        pinned: Option<Pinned>,
        is_reader: bool,
        open: impl FnOnce(*const Options, *const c_char, Message) -> (*mut Db, *mut Family),
    ) -> Result<Self> {
        let (calls, name) = (settings.calls, c_path(path)?);
        let mut message = null_mut();
        let (db, family) = open(settings.options, name.as_ptr(), &raw mut message);
        // SAFETY: no preconditions.
        let (reading, writing) =
            unsafe { ((calls.readoptions_create)(), (calls.writeoptions_create)()) };
        let checks_reads = u8::from(settings.checks_reads);
        // SAFETY: the options are new.
        unsafe { (calls.readoptions_set_verify_checksums)(reading, checks_reads) };
        let (iter, settings, places) = (null_mut(), Some(settings), Places::default());
        let store = LsmStore {
            calls,
            db,
            reading,
            writing,
            pinned,
            family,
            places,
            iter,
            is_reader,
            settings,
        };
        calls.check("open", message).map_err(|e| e.at(path))?;
        Ok(store)
    }

    /// The same by the function that both have, for one that knows no families.
    pub(super) fn open_usual(settings: Settings<'d>, path: &Path, is_reader: bool) -> Result<Self> {
        let open = settings.calls.open;
        LsmStore::open(settings, path, None, is_reader, |options, name, message| {
            // SAFETY: options and name live, and there is a place for a message.
            (unsafe { open(options, name, message) }, null_mut())
        })
    }

    /// Has each write be on the disk when its call returns.
    pub(super) fn sync_writes(&self) {
        // SAFETY: the options live as long as the store.
        unsafe { (self.calls.writeoptions_set_sync)(self.writing, 1) };
    }

    /// The store, and what every write does; for what a library has more of than the other.
    pub(super) fn handles(&self) -> (*mut Db, *mut WriteOptions) {
        (self.db, self.writing)
    }

    /// The handles of threads that share this store.
    pub(super) fn into_crew(self, readers: usize, with_writer: bool) -> Result<Crew<Self, Self>> {
        // SAFETY: any number of threads may use a store at once, and the options are only read.
        unsafe { Crew::sharing(self, readers, with_writer, |owner, _| Ok(owner.copy())) }
    }

    /// The same for threads that all change it.
    pub(super) fn into_committers(self, count: usize) -> Result<Committers<Self>> {
        // SAFETY: as above.
        unsafe { Committers::of(self, count, |owner| Ok(owner.copy())) }
    }

    /// A handle of the same store.
    fn copy(&self) -> Self {
        let &LsmStore { calls, db, reading, writing, pinned, family, .. } = self;
        let (iter, is_reader, settings, places) = (null_mut(), false, None, Places::default());
        LsmStore { calls, db, reading, writing, pinned, family, places, iter, is_reader, settings }
    }

    /// Stores all records, and compacts.
    pub(super) fn fill(&self, records: &Records) -> Result<()> {
        let calls = self.calls;
        // SAFETY: no preconditions.
        let batch = unsafe { (calls.writebatch_create)() };
        let mut filled = Ok(());
        let mut all = records.iter();
        loop {
            let mut count = 0;
            for (key, value) in all.by_ref().take(BATCH) {
                count += 1;
                let (k, v) = (key.as_ptr(), value.as_ptr());
                // SAFETY: the batch lives; key and value are readable.
                unsafe { (calls.writebatch_put)(batch, k, key.len(), v, value.len()) };
            }
            if count == 0 || filled.is_err() {
                break;
            }
            let mut message = null_mut();
            // SAFETY: store, options and batch live.
            unsafe {
                (calls.write)(self.db, self.writing, batch, &raw mut message);
                (calls.writebatch_clear)(batch);
            }
            filled = calls.check("write", message);
        }
        // SAFETY: made above, freed once; the store is open, and null is the first and last key.
        unsafe {
            (calls.writebatch_destroy)(batch);
            (calls.compact_range)(self.db, null(), 0, null(), 0);
        }
        filled
    }

    /// Gives at most `count` records to `take`: those that an iterator comes to from where `first` puts it,
    /// with the further steps.
    fn walk(
        &mut self,
        first: impl FnOnce(&Calls, *mut Iter),
        further: unsafe extern "C" fn(*mut Iter),
        count: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let calls = self.calls;
        if self.iter.is_null() {
            // SAFETY: the store is open and the options live.
            self.iter = unsafe { (calls.create_iterator)(self.db, self.reading) };
        }
        let iter = self.iter;
        first(calls, iter);
        for i in 0..count {
            let (mut key_len, mut value_len) = (0, 0);
            // SAFETY: the iterator lives; where it is valid it is at a record, whose bytes stay
            // where they are until it moves, which all callers name a function of the library for.
            unsafe {
                if i > 0 {
                    further(iter);
                }
                if (calls.iter_valid)(iter) == 0 {
                    break;
                }
                let key = (calls.iter_key)(iter, &raw mut key_len);
                let value = (calls.iter_value)(iter, &raw mut value_len);
                take(
                    std::slice::from_raw_parts(key, key_len),
                    std::slice::from_raw_parts(value, value_len),
                );
            }
        }
        let mut message = null_mut();
        // SAFETY: the iterator lives, and there is a place for a message.
        unsafe { (calls.iter_get_error)(iter, &raw mut message) };
        if !self.is_reader {
            // It would not see later changes.
            self.iter = null_mut();
            // SAFETY: freed once, as it was taken out of the store.
            unsafe { (calls.iter_destroy)(iter) };
        }
        calls.check("iterator", message)
    }
}

impl Store for LsmStore<'_> {
    const IS_ORDERED: bool = true;
    const SCANS_BACK: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let (start, len) = (key.as_ptr(), key.len());
        let (mut value_len, mut message) = (0, null_mut());
        if let Some(pinned) = self.pinned {
            // SAFETY: store and options live; the key is readable; the value stays where it is until
            // it is given back.
            unsafe {
                let value = (pinned.get)(self.db, self.reading, start, len, &raw mut message);
                if value.is_null() {
                    return self.calls.check("get", message).map(|()| false);
                }
                let bytes = (pinned.value)(value, &raw mut value_len);
                take(std::slice::from_raw_parts(bytes, value_len));
                (pinned.destroy)(value);
            }
            return Ok(true);
        }
        // SAFETY: store and options live; the key is readable; the value is a copy for us, which is
        // given back.
        unsafe {
            let value = (self.calls.get)(
                self.db,
                self.reading,
                start,
                len,
                &raw mut value_len,
                &raw mut message,
            );
            if value.is_null() {
                return self.calls.check("get", message).map(|()| false);
            }
            take(std::slice::from_raw_parts(value, value_len));
            (self.calls.free)(value.cast());
        }
        Ok(true)
    }

    fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let Some(pinned) = self.pinned.filter(|_| !keys.is_empty()) else {
            return store::one_by_one(self, keys, take);
        };
        let (calls, places) = (self.calls, &mut self.places);
        places.set(keys);
        let (starts, lens) = (places.starts.as_ptr(), places.lens.as_ptr());
        let (values, messages) = (places.values.as_mut_ptr(), places.messages.as_mut_ptr());
        let (db, reading, family, count) = (self.db, self.reading, self.family, keys.len());
        // SAFETY: store, options and family live; the keys are readable, and there is a place for the value
        // and for the message of each.
        unsafe {
            (pinned.get_many)(db, reading, family, count, starts, lens, values, messages, false);
        }
        // Whatever was refused, the others are given, and what was allocated is given back.
        let mut done = Ok(());
        for (i, (value, message)) in places.values.iter().zip(&places.messages).enumerate() {
            if value.is_null() {
                match calls.check("batched_multi_get_cf", *message) {
                    Ok(()) => take(i, None),
                    Err(e) => done = done.and(Err(e)),
                }
                continue;
            }
            let mut len = 0;
            // SAFETY: the value stays where it is until it is given back, once.
            unsafe {
                let bytes = (pinned.value)(*value, &raw mut len);
                take(i, Some(std::slice::from_raw_parts(bytes, len)));
                (pinned.destroy)(*value);
            }
        }
        done
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        // SAFETY: the iterator lives.
        let first = |calls: &Calls, iter| unsafe { (calls.iter_seek_to_first)(iter) };
        self.walk(first, self.calls.iter_next, usize::MAX, take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        // SAFETY: the iterator lives; the key is readable.
        let first =
            |calls: &Calls, iter| unsafe { (calls.iter_seek)(iter, from.as_ptr(), from.len()) };
        self.walk(first, self.calls.iter_next, count, take)
    }

    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        let of = |name: &'static CStr| {
            // SAFETY: the store is open; the name is a C string. The answer, if there is one, is a C string
            // that the library allocated for us, and frees here.
            let text = unsafe {
                let value = (self.calls.property_value)(self.db, name.as_ptr());
                if value.is_null() {
                    return None;
                }
                let text = CStr::from_ptr(value).to_string_lossy().into_owned();
                (self.calls.free)(value.cast());
                text
            };
            Some((name.to_str().ok()?, text.trim().parse().ok()?))
        };
        Ok(PROPERTIES.into_iter().filter_map(of).collect())
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        // SAFETY: the iterator lives.
        let last = |calls: &Calls, iter| unsafe { (calls.iter_seek_to_last)(iter) };
        self.walk(last, self.calls.iter_prev, usize::MAX, take)
    }
}

impl Writer for LsmStore<'_> {
    const LOOKS_UP_TO_REMOVE: bool = true;

    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (k, v) = (key.as_ptr(), value.as_ptr());
        let mut message = null_mut();
        // SAFETY: store and options live; key and value are readable.
        unsafe {
            let (db, writing) = (self.db, self.writing);
            (self.calls.put)(db, writing, k, key.len(), v, value.len(), &raw mut message);
        }
        self.calls.check("put", message)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        if !self.get(key, |_| {})? {
            return Ok(false);
        }
        let mut message = null_mut();
        // SAFETY: store and options live; the key is readable.
        unsafe {
            (self.calls.delete)(self.db, self.writing, key.as_ptr(), key.len(), &raw mut message);
        }
        self.calls.check("delete", message).map(|()| true)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}
