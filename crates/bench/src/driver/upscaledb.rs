//! upscaledb: `libupscaledb.so`, which no Debian package brings.
//!
//! Tuning: an unlimited cache; keys and records of a fixed size where the data have such. Keys of
//! four and eight bytes are numbers to it, which it searches fastest, with their bytes turned round
//! so that the order of the numbers is that of the keys; where the workload has a type, keys are of that.
//! Values are read in place, or, where several threads share the environment, in a copy of each thread's own. Keys in
//! an order of one's own are compared by a function of ours, whose name is in the file.
//!
//! Without transactions, changes are in a cache of the process until the store is closed. Where each
//! change is to be a transaction of its own, it is written to the journal before the call returns,
//! and forced to the disk only where each is to be there: the library's flag for that does nothing without
//! transactions.

#![allow(unsafe_code)]

use super::on_thread::new_or_there;
use super::upscaledb_abi::*;
use super::upscaledb_keys::{TYPES, register_order};
use super::upscaledb_store::{DATABASE, UpsStore};
use super::{
    Announces, Changes, Committers, Crew, Driver, Identity, Reading, Shape, Sharing, Source,
    Threads, c_path, refused,
};
use crate::settings::{Chosen, Codec, ENCRYPTION_KEY, Name, Takes, Values};
use crate::workload::KeyType;
use credenza::Result;
use std::path::{Path, PathBuf};

pub(super) const CODECS: &[Codec] = &[Codec::None, Codec::Zlib, Codec::Snappy, Codec::Lzf];
/// Those of keys, the last six for numbers of 32 bits.
const KEY_CODECS: &[Codec] = &[
    Codec::None,
    Codec::Zlib,
    Codec::Snappy,
    Codec::Lzf,
    Codec::Varbyte,
    Codec::Simdcomp,
    Codec::GroupVarint,
    Codec::StreamVbyte,
    Codec::FrameOfReference,
    Codec::SimdFrameOfReference,
];

/// Transactions on what was in the file before. A range that begins where a key was removed gives that
/// key in 2.2.1, as long as the file has it and the removal is only in a transaction that was committed.
const COMMITTING_AGAIN: u32 = ENABLE_TRANSACTIONS | FLUSH_TRANSACTIONS_IMMEDIATELY;
/// Transactions of which each is on the disk when it is committed, as the journal then is.
const SYNCING: u32 = ENABLE_TRANSACTIONS | ENABLE_FSYNC;

pub(super) struct Upscaledb {
    pub(super) api: Api,
    thresholds: Thresholds,
    file: PathBuf,
}

/// What an environment is told, made or opened: further flags, and parameters.
fn environment(shape: &Shape, reading: Reading) -> (u32, Vec<Parameter>) {
    let settings = &shape.settings;
    let (mut flags, mut list) = (0, Vec::new());
    match settings.cache() {
        Some(value) => list.push(Parameter { name: PARAM_CACHE_SIZE, value }),
        // In memory all of it is in the cache.
        None if settings.memory() => {}
        // ups_bench leaves it at its 2 MB.
        None if shape.setup.is_ups() && !settings.has_unlimited_cache() => {}
        None => flags |= CACHE_UNLIMITED,
    }
    if settings.mmap() == Some(false) {
        flags |= DISABLE_MMAP;
    }
    if settings.checksums() == Some(true) {
        flags |= ENABLE_CRC32;
    }
    if let Some(is_random) = reading.is_random(shape) {
        list.push(Parameter { name: PARAM_POSIX_FADVISE, value: u64::from(is_random) });
    }
    if settings.encryption() {
        // The key's address is its value; it is copied.
        list.push(Parameter { name: PARAM_ENCRYPTION_KEY, value: ENCRYPTION_KEY.as_ptr() as u64 });
    }
    (flags, list)
}

/// What its transactions are told besides: flags, and a parameter of the journal.
fn journal(settings: &Chosen) -> (u32, Option<Parameter>) {
    let mut flags = 0;
    if !settings.recovery() {
        flags |= DISABLE_RECOVERY;
    }
    if settings.flush() == Some(true) {
        flags |= FLUSH_TRANSACTIONS_IMMEDIATELY;
    }
    (flags, compressor(PARAM_JOURNAL_COMPRESSION, settings.journal_compression()))
}

impl Upscaledb {
    fn created(&self, path: &Path, shape: &Shape, flags: u32) -> Result<UpsStore<'_>> {
        let (api, name) = (&self.api, c_path(path)?);
        self.thresholds.set(&shape.settings)?;
        register_order(api, shape)?;
        let mut store = UpsStore::new(api, shape);
        let last = || Parameter { name: 0, value: 0 };
        let (more, mut environment) = environment(shape, Reading::Warm);
        let mut flags = flags | more | if shape.settings.memory() { IN_MEMORY } else { 0 };
        if flags & ENABLE_TRANSACTIONS != 0 {
            let (more, compressed) = journal(&shape.settings);
            flags |= more;
            environment.extend(compressed);
        }
        if let Some(value) = shape.settings.page_size() {
            environment.push(Parameter { name: PARAM_PAGE_SIZE, value });
        }
        environment.push(last());
        // SAFETY: a place for the pointer, a C string, and a list with its end.
        let rc = unsafe {
            let (env, list) = (&raw mut store.env, environment.as_ptr());
            (api.ups_env_create)(env, name.as_ptr(), flags, 0o644, list)
        };
        api.check("ups_env_create", rc)?;
        store.make_database(shape)?;
        // In transactions a range beside such a cursor was found to miss records (2.2.1).
        if flags & ENABLE_TRANSACTIONS == 0 {
            store.open_cursor()?;
        }
        Ok(store)
    }
}

impl Upscaledb {
    /// Opens what was closed, or what a process has left that died.
    fn opened(
        &self,
        path: &Path,
        shape: &Shape,
        flags: u32,
        reading: Reading,
    ) -> Result<UpsStore<'_>> {
        let (api, name) = (&self.api, c_path(path)?);
        self.thresholds.set(&shape.settings)?;
        register_order(api, shape)?;
        let mut store = UpsStore::new(api, shape);
        let none = [Parameter { name: 0, value: 0 }];
        let (more, mut environment) = environment(shape, reading);
        let mut all = flags | more;
        if flags & ENABLE_TRANSACTIONS != 0 {
            let (of_journal, compressed) = journal(&shape.settings);
            all |= of_journal;
            environment.extend(compressed);
        }
        environment.push(Parameter { name: 0, value: 0 });
        // SAFETY: a place for the pointer, a C string, and a list with its end.
        let rc = unsafe {
            let (env, list) = (&raw mut store.env, environment.as_ptr());
            (api.ups_env_open)(env, name.as_ptr(), all, list)
        };
        api.check("ups_env_open", rc).map_err(|e| e.at(path))?;
        // SAFETY: the environment is open; the same.
        let rc = unsafe {
            let (db, list) = (&raw mut store.db, none.as_ptr());
            (api.ups_env_open_db)(store.env, db, DATABASE, flags & READ_ONLY, list)
        };
        api.check("ups_env_open_db", rc)?;
        Ok(store)
    }

    /// Opens what was closed for changes in transactions.
    fn committing_again(&self, path: &Path, shape: &Shape, flags: u32) -> Result<UpsStore<'_>> {
        if shape.settings.flush() == Some(false) {
            let why =
                "opened again for transactions, 2.2.1 gives removed keys in ranges without flush";
            return Err(refused("flush=off", why));
        }
        let mut store = self.opened(path, shape, flags | COMMITTING_AGAIN, Reading::Warm)?;
        store.note_last_number()?;
        Ok(store)
    }
}

impl Driver for Upscaledb {
    const NAME: &'static str = "upscaledb";
    const ANNOUNCES: Announces = Announces::AsAsked;
    const REOPENS: bool = true;
    const NATIVE_GET_MANY: bool = true;
    /// What is found in bulk lies in a place that the next call of any thread changes.
    const NATIVE_GET_MANY_BY_THREADS: bool = false;
    const HAS_DUPLICATES: bool = true;
    const KEY_TYPES: &'static [KeyType] = TYPES;
    const VALUE_TYPES: &'static [KeyType] = &KeyType::OF_VALUES;
    // Alone: it locks the file for one process, also to read.
    const SHARING: Sharing = Sharing::Alone;
    // Every call is one at a time, under a lock of the environment.
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;
    const SOURCE: Option<Source> = Some(Source {
        names: &["libupscaledb.so.0", "libupscaledb.so"],
        package: None,
        home: "https://github.com/cruppstahl/upscaledb",
    });
    const VERSIONS: &'static [&'static str] = &["2.2."];
    const SETTINGS: &'static [Takes] = &[
        (Name::PageSize, Values::Powers(1 << 10, 64 << 10)),
        (Name::Cache, Values::AtLeastOrUnlimited(64 << 10)),
        (Name::Mmap, Values::Either),
        (Name::Checksums, Values::Either),
        (Name::Compression, Values::Codecs(CODECS)),
        (Name::KeyCompression, Values::Codecs(KEY_CODECS)),
        (Name::JournalCompression, Values::Codecs(CODECS)),
        (Name::Encryption, Values::Either),
        (Name::Recovery, Values::Either),
        (Name::Flush, Values::Either),
        (Name::Cursors, Values::Either),
        (Name::Memory, Values::Either),
        (Name::Advice, Values::Either),
        // In a place of 255 bytes, and a number of 7 bits.
        (Name::ExtendedKeyThreshold, Values::Between(1, 250)),
        (Name::DuplicateThreshold, Values::Between(1, 127)),
        (Name::RecordsInline, Values::Either),
        (Name::DirectAccess, Values::Either),
    ];
    const CHANGES: Changes = Changes::AtClose;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("UPS_ENABLE_TRANSACTIONS with UPS_ENABLE_FSYNC");

    fn load(file: Option<&Path>) -> Result<Upscaledb> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"ups_env_create")?;
        let thresholds = Thresholds::of(&opened.library);
        Ok(Upscaledb { api: Api::load(opened.library)?, thresholds, file: opened.file })
    }

    fn identity(&self) -> Identity {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three places for numbers.
        unsafe { (self.api.ups_get_version)(&raw mut major, &raw mut minor, &raw mut patch) };
        Identity { version: format!("{major}.{minor}.{patch}"), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        if shape.setup.is_ups() {
            let place = match shape.settings.cache() {
                Some(bytes) => format!("{} MB of cache", bytes >> 20),
                None if shape.settings.memory() => "UPS_IN_MEMORY".to_owned(),
                None => "2 MB of cache".to_owned(),
            };
            return format!("as ups_bench has it: {place}, any key size");
        }
        let cache = match shape.settings.cache() {
            Some(bytes) => format!("cache {} KiB", bytes >> 10),
            None => "UPS_CACHE_UNLIMITED".to_owned(),
        };
        format!(
            "{cache}, posix_fadvise RANDOM for a cold cache, {}; many lookups: ups_db_bulk_operations; one transaction for each change: \
             UPS_ENABLE_TRANSACTIONS, no fsync; several threads: UPS_RECORD_USER_ALLOC",
            UpsStore::told(shape)
        )
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "changes are in a cache of the process until the store is closed, but where each is a \
             transaction"
                .to_owned(),
            "opened again it has UPS_FLUSH_TRANSACTIONS_IMMEDIATELY where changes are transactions: 2.2.1 \
             gives removed keys in ranges without"
                .to_owned(),
        ]
    }

    type Store<'d> = UpsStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, reading: Reading) -> Result<UpsStore<'_>> {
        let mut store = self.opened(path, shape, READ_ONLY, reading)?;
        store.keep_walker();
        store.open_cursor()?;
        Ok(store)
    }

    type Writer<'d> = UpsStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<UpsStore<'_>> {
        self.created(path, shape, 0)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<UpsStore<'_>> {
        self.created(path, shape, ENABLE_TRANSACTIONS)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<UpsStore<'_>> {
        match path.exists() {
            true => self.committing_again(path, shape, SYNCING),
            false => self.created(path, shape, SYNCING),
        }
    }

    fn reopen(&self, path: &Path, shape: &Shape, commits: bool) -> Result<UpsStore<'_>> {
        if commits {
            return self.committing_again(path, shape, ENABLE_TRANSACTIONS);
        }
        let mut store = self.opened(path, shape, 0, Reading::Warm)?;
        store.note_last_number()?;
        store.open_cursor()?;
        Ok(store)
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<UpsStore<'_>, UpsStore<'_>>> {
        let store = match with_writer {
            true => self.reopen(path, shape, true)?,
            false => self.opened(path, shape, READ_ONLY, Reading::Warm)?,
        };
        store.into_crew(shape, readers, with_writer)
    }

    fn committers(
        &self,
        path: &Path,
        shape: &Shape,
        count: usize,
        is_durable: bool,
    ) -> Result<Committers<UpsStore<'_>>> {
        new_or_there(self, path, shape, is_durable)?.into_committers(shape, count)
    }

    fn recover(&self, path: &Path, shape: &Shape) -> Result<UpsStore<'_>> {
        let mut store =
            self.opened(path, shape, COMMITTING_AGAIN | AUTO_RECOVERY, Reading::Warm)?;
        store.note_last_number()?;
        Ok(store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Records, Store, Writer};
    use crate::settings::Choices;

    /// Every second key of a store with several leaves, with values of so many bytes.
    fn records(value_len: usize) -> Records {
        let mut records = Records::default();
        for i in (0..4000_u32).step_by(2) {
            let value = format!("{:0>1$}", i.wrapping_mul(7919) % 10_000, value_len);
            records.push(format!("key {i:05}").as_bytes(), value.as_bytes()).unwrap();
        }
        records
    }

    /// A store in memory with these records, looked at in all ways; where the values of two keys lay.
    fn looked_at(driver: &Upscaledb, records: &Records, settings: &[&str]) -> [usize; 2] {
        let (mut choices, folder) = (Choices::default(), tempfile::tempdir().unwrap());
        settings.iter().chain(&["memory=on"]).for_each(|text| choices.set(text).unwrap());
        let shape = Shape { settings: choices.of("upscaledb"), ..Shape::of(records) };
        let mut store = driver.create(&folder.path().join("store"), &shape).unwrap();
        records.iter().for_each(|(key, value)| store.insert(key, value).unwrap());
        for (i, (key, value)) in records.iter().enumerate() {
            let mut got = None;
            assert!(store.get(key, |value| got = Some(value.to_vec())).unwrap(), "{settings:?}");
            assert_eq!(got.as_deref(), Some(value), "{settings:?}: {}", key.escape_ascii());
            let between = format!("key {:05}", 2 * i + 1);
            assert!(!store.get(between.as_bytes(), |_| {}).unwrap(), "{settings:?}: {between}");
        }
        for (from, first) in [(&b"key 01001"[..], 501), (b"", 0), (b"key 03998", 1999)] {
            let mut ranged = Vec::new();
            let mut take = |key: &[u8], value: &[u8]| ranged.push((key.to_vec(), value.to_vec()));
            store.range(from, 30, &mut take).unwrap();
            let expected = records.iter().skip(first).take(30);
            let expected: Vec<_> = expected.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
            assert_eq!(ranged, expected, "{settings:?}");
        }
        let mut scanned = Vec::new();
        store.scan_back(|key, value| scanned.push((key.to_vec(), value.to_vec()))).unwrap();
        let all = records.iter().map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert!(scanned.into_iter().rev().eq(all), "{settings:?}");
        let mut place = |key| {
            let mut place = 0;
            assert!(store.get(key, |value| place = value.as_ptr().addr()).unwrap());
            place
        };
        let places = [place(records.key(0)), place(records.key(1999))];
        store.close().unwrap();
        places
    }

    /// Danger: with the flag a key that is not there has its neighbour's value, or the flag does nothing.
    #[test]
    fn values_that_are_given_where_they_lie_are_those_of_their_keys() {
        let driver = match Upscaledb::load(None) {
            Ok(driver) => driver,
            Err(e) => return eprintln!("not tested: {e}"),
        };
        for value_len in [5, 8, 300] {
            let records = &records(value_len);
            for cursors in ["cursors=off", "cursors=on"] {
                let [one, other] = looked_at(&driver, records, &[cursors, "direct-access=on"]);
                assert!(one != other || value_len > 8, "a copy in one place: {value_len}");
                let [one, other] = looked_at(&driver, records, &[cursors]);
                assert!(one == other || value_len > 8, "no copy: {value_len}");
            }
        }
    }
}
