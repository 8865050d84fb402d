//! RocksDB, by its C interface: `librocksdb.so`.
//!
//! Tuning, besides what [`super::lsm`] has: whole filters, tables mapped into memory, no log for
//! the build; a reader opens the store for reading only. Values are read in place
//! (`rocksdb_get_pinned`), many at once, too (`rocksdb_batched_multi_get_cf`), for which the store is opened
//! as its one column family.

#![allow(unsafe_code)]

use super::library::{api, symbol};
use super::lsm::{
    self, Calls, FILTER_BITS, Family, GetManyPinned, GetPinned, LsmStore, Options, Pinned, Settings,
};
use super::on_thread::new_or_there;
use super::{
    Announces, Committers, Crew, Driver, Fault, Identity, Promise, Reading, Shape, Source, Threads,
};
use crate::settings::{Codec, Name, Takes, Values};
use crate::workload::{KeyType, Records};
use credenza::Result;
use std::ffi::{CStr, c_char, c_double, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// Opens a store by its options and name: families are given as their number, names and options, and there are
/// places for their handles.
type OpenFamilies = unsafe extern "C" fn(
    *const Options,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const Options,
    *mut *mut Family,
    *mut *mut c_char,
) -> *mut c_void;
/// The same to read; whether a log that is there is an error.
type OpenFamiliesToRead = unsafe extern "C" fn(
    *const Options,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const Options,
    *mut *mut Family,
    u8,
    *mut *mut c_char,
) -> *mut c_void;
/// `rocksdb::GetRocksVersionAsString` of rocksdb/version.h, of a library that is built with the GNU standard library
/// for C++; whether with the patch level.
type VersionOf = unsafe extern "C" fn(bool) -> CxxString;
const VERSION_OF: &str = "_ZN7rocksdb23GetRocksVersionAsStringB5cxx11Eb";

/// `std::string` of that library, moved here: its bytes, if they are few, are in it, and are not where it says.
#[repr(C)]
struct CxxString {
    start: *const u8,
    len: usize,
    few: [u8; CxxString::FEW],
}

impl CxxString {
    const FEW: usize = 16;

    /// What it has in it; nothing of a longer one, which nobody frees.
    fn text(&self) -> String {
        let few = self.few.get(..self.len).filter(|few| few.len() < CxxString::FEW);
        few.map_or_else(String::new, |few| String::from_utf8_lossy(few).into_owned())
    }
}

type PinnedValue = unsafe extern "C" fn(*const c_void, *mut usize) -> *const u8;
type Free = unsafe extern "C" fn(*mut c_void);

api! {
    #[allow(non_snake_case, reason = "the library's own names")]
    struct Api {
        rocksdb_open_column_families: OpenFamilies,
        rocksdb_open_for_read_only_column_families: OpenFamiliesToRead,
        rocksdb_block_based_options_create: unsafe extern "C" fn() -> *mut c_void,
        rocksdb_block_based_options_destroy: Free,
        rocksdb_block_based_options_set_block_cache: unsafe extern "C" fn(*mut c_void, *mut c_void),
        rocksdb_block_based_options_set_filter_policy: unsafe extern "C" fn(*mut c_void, *mut c_void),
        rocksdb_block_based_options_set_block_size: unsafe extern "C" fn(*mut c_void, usize),
        rocksdb_options_set_block_based_table_factory: unsafe extern "C" fn(*mut Options, *mut c_void),
        rocksdb_cache_create_lru: unsafe extern "C" fn(usize) -> *mut c_void,
        rocksdb_cache_destroy: Free,
        rocksdb_filterpolicy_create_bloom_full: unsafe extern "C" fn(c_double) -> *mut c_void,
        rocksdb_options_set_allow_mmap_reads: unsafe extern "C" fn(*mut Options, u8),
        rocksdb_options_set_use_direct_reads: unsafe extern "C" fn(*mut Options, u8),
        rocksdb_options_set_use_direct_io_for_flush_and_compaction: unsafe extern "C" fn(*mut Options, u8),
        rocksdb_options_set_advise_random_on_open: unsafe extern "C" fn(*mut Options, u8),
        rocksdb_options_set_wal_compression: unsafe extern "C" fn(*mut Options, c_int),
        rocksdb_options_set_env: unsafe extern "C" fn(*mut Options, *mut c_void),
        rocksdb_create_mem_env: unsafe extern "C" fn() -> *mut c_void,
        rocksdb_env_destroy: Free,
        rocksdb_options_set_manifest_preallocation_size: unsafe extern "C" fn(*mut Options, usize),
        rocksdb_writeoptions_disable_WAL: unsafe extern "C" fn(*mut c_void, c_int),
        rocksdb_flushoptions_create: unsafe extern "C" fn() -> *mut c_void,
        rocksdb_flushoptions_destroy: Free,
        rocksdb_flush: unsafe extern "C" fn(*mut c_void, *const c_void, *mut *mut c_char),
    }
}

/// What tells that a library is RocksDB.
const SYMBOL: &CStr = c"rocksdb_batched_multi_get_cf";
/// The family of what is put in none.
const DEFAULT_FAMILY: &CStr = c"default";

pub(super) struct Rocksdb {
    api: Api,
    calls: Calls,
    pinned: Pinned,
    /// As the library tells it, or nothing: its C interface does not.
    version: String,
    file: PathBuf,
}

/// Whether tables are mapped: not by itself, as its cache holds no block of a table that is. Each lookup then makes one anew,
/// which took 1.1 times as long as with the cache, and 1.2 times with checksums.
fn is_mapped(shape: &Shape) -> bool {
    shape.settings.mmap() == Some(true)
}

impl Rocksdb {
    fn settings(&self, shape: &Shape, is_created: bool, reading: Reading) -> Settings<'_> {
        let mut settings = Settings::new(&self.calls, shape, is_created);
        let (api, options, chosen) = (&self.api, settings.options, &shape.settings);
        let is_direct = u8::from(chosen.direct());
        // SAFETY: all are new. The table's options own the filter from here on, and the store's
        // options a copy of them; the cache is counted, and ours to give back.
        unsafe {
            let tables = (api.rocksdb_block_based_options_create)();
            let cache = (api.rocksdb_cache_create_lru)(lsm::cache_bytes(shape));
            let filter = (api.rocksdb_filterpolicy_create_bloom_full)(f64::from(FILTER_BITS));
            (api.rocksdb_block_based_options_set_block_cache)(tables, cache);
            (api.rocksdb_block_based_options_set_filter_policy)(tables, filter);
            if let Some(bytes) = chosen.page_size() {
                (api.rocksdb_block_based_options_set_block_size)(tables, bytes as usize);
            }
            (api.rocksdb_options_set_block_based_table_factory)(options, tables);
            (api.rocksdb_options_set_allow_mmap_reads)(options, u8::from(is_mapped(shape)));
            (api.rocksdb_options_set_use_direct_reads)(options, is_direct);
            (api.rocksdb_options_set_use_direct_io_for_flush_and_compaction)(options, is_direct);
            if let Some(is_random) = reading.is_random(shape) {
                (api.rocksdb_options_set_advise_random_on_open)(options, u8::from(is_random));
            }
            if chosen.journal_compression() == Codec::Zstd {
                (api.rocksdb_options_set_wal_compression)(options, lsm::compression(Codec::Zstd));
            }
            // 4 MiB by default, which would count as the store's.
            (api.rocksdb_options_set_manifest_preallocation_size)(options, 64 << 10);
            settings.parts.push((api.rocksdb_block_based_options_destroy, tables));
            settings.parts.push((api.rocksdb_cache_destroy, cache));
            if chosen.memory() {
                let memory = (api.rocksdb_create_mem_env)();
                (api.rocksdb_options_set_env)(options, memory);
                settings.parts.push((api.rocksdb_env_destroy, memory));
            }
        }
        settings
    }

    /// A store to be changed.
    fn changing(&self, shape: &Shape, path: &Path, is_created: bool) -> Result<LsmStore<'_>> {
        let settings = self.settings(shape, is_created, Reading::Warm);
        let open = self.api.rocksdb_open_column_families;
        let store =
            LsmStore::open(settings, path, Some(self.pinned), false, |all, name, message| {
                let (mut family, names) = (null_mut(), [DEFAULT_FAMILY.as_ptr()]);
                // SAFETY: options and names live, and there are places for a handle and a message.
                let db = unsafe {
                    open(all, name, 1, names.as_ptr(), &raw const all, &raw mut family, message)
                };
                (db, family)
            })?;
        if !shape.settings.recovery() {
            self.leave_out_log(&store);
        }
        Ok(store)
    }

    /// Has changes go to the memory alone, until there are enough of them for a table or it is closed.
    fn leave_out_log(&self, store: &LsmStore<'_>) {
        // SAFETY: the options live as long as the store.
        unsafe { (self.api.rocksdb_writeoptions_disable_WAL)(store.handles().1, 1) };
    }

    /// Has what is in memory alone be in tables: compacting and closing do that as well, and do not say when
    /// they could not.
    fn flush(&self, store: &LsmStore<'_>) -> Result<()> {
        let (api, mut message) = (&self.api, null_mut());
        // SAFETY: the store is open; the options are made here and freed once; a place for a message.
        unsafe {
            let options = (api.rocksdb_flushoptions_create)();
            (api.rocksdb_flush)(store.handles().0, options, &raw mut message);
            (api.rocksdb_flushoptions_destroy)(options);
        }
        self.calls.check("flush", message)
    }
}

impl Driver for Rocksdb {
    const NAME: &'static str = "rocksdb";
    const ANNOUNCES: Announces = Announces::AsAsked;
    const REOPENS: bool = true;
    const NATIVE_GET_MANY: bool = true;
    const SYNCS_ANYWAY: Option<&'static str> =
        Some("a table is on the disk before the log of what is in it is removed");
    const SYNCS: &'static str = "fdatasync of every table and list of tables it writes";
    const SOURCE: Option<Source> = Some(Source {
        names: &["librocksdb.so.7.8", "librocksdb.so.9.10", "librocksdb.so"],
        package: Some("librocksdb7.8"),
        home: "https://rocksdb.org",
    });
    const VERSIONS: &'static [&'static str] = &["7.8.", "7.9.", "7.10.", "8.", "9."];
    const SETTINGS: &'static [Takes] = &[
        lsm::PAGE_SIZE,
        lsm::CACHE,
        (Name::Mmap, Values::Either),
        lsm::CHECKSUMS,
        (
            Name::Compression,
            Values::Codecs(&[
                Codec::None,
                Codec::Snappy,
                Codec::Zlib,
                Codec::Bzip2,
                Codec::Lz4,
                Codec::Zstd,
            ]),
        ),
        (Name::JournalCompression, Values::Codecs(&[Codec::None, Codec::Zstd])),
        (Name::Recovery, Values::Either),
        (Name::Memory, Values::Either),
        (Name::Direct, Values::Either),
        (Name::Advice, Values::Either),
    ];
    const KEY_TYPES: &'static [KeyType] = lsm::KEY_TYPES;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("the write option sync");
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;

    fn load(file: Option<&Path>) -> Result<Rocksdb> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, SYMBOL)?;
        // Opened once more, as each struct of functions holds the library.
        let again = source.open(Self::NAME, Some(&opened.file), SYMBOL)?;
        let library = &opened.library;
        // SAFETY: the types are the prototypes of rocksdb's c.h; the library stays open in `calls`.
        let pinned = unsafe {
            Pinned {
                get: symbol::<GetPinned>(library, "rocksdb_get_pinned")?,
                get_many: symbol::<GetManyPinned>(library, "rocksdb_batched_multi_get_cf")?,
                value: symbol::<PinnedValue>(library, "rocksdb_pinnableslice_value")?,
                destroy: symbol::<Free>(library, "rocksdb_pinnableslice_destroy")?,
                destroy_family: symbol::<Free>(library, "rocksdb_column_family_handle_destroy")?,
            }
        };
        // SAFETY: the type is that of the function which has this name; the library is open.
        let version = unsafe { symbol::<VersionOf>(library, VERSION_OF).map(|of| of(true).text()) };
        let version = version.unwrap_or_default();
        let api = Api::load(again.library)?;
        let calls = Calls::load_prefixed(opened.library, "rocksdb_")?;
        Ok(Rocksdb { api, calls, pinned, version, file: opened.file })
    }

    fn identity(&self) -> Identity {
        Identity { version: self.version.clone(), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        let mapped =
            if is_mapped(shape) { " allow_mmap_reads, whose blocks no cache holds;" } else { "" };
        format!(
            "{}, without a log;{mapped} rocksdb_get_pinned, rocksdb_batched_multi_get_cf",
            lsm::tuning(shape)
        )
    }

    fn notes(&self) -> Vec<String> {
        vec![lsm::NOTE.to_owned()]
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        let store = self.create(path, shape)?;
        self.leave_out_log(&store);
        store.fill(records).and_then(|()| self.flush(&store))
    }

    type Store<'d> = LsmStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, reading: Reading) -> Result<LsmStore<'_>> {
        let settings = self.settings(shape, false, reading);
        let open = self.api.rocksdb_open_for_read_only_column_families;
        LsmStore::open(settings, path, Some(self.pinned), true, |all, name, message| {
            let (mut family, names) = (null_mut(), [DEFAULT_FAMILY.as_ptr()]);
            // SAFETY: options and names live, and there are places for a handle and a message. A log may be
            // there: it is read.
            let db = unsafe {
                open(all, name, 1, names.as_ptr(), &raw const all, &raw mut family, 0, message)
            };
            (db, family)
        })
    }

    type Writer<'d> = LsmStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<LsmStore<'_>> {
        self.changing(shape, path, true)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<LsmStore<'_>> {
        self.create(path, shape)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<LsmStore<'_>> {
        let store = self.changing(shape, path, !path.exists())?;
        store.sync_writes();
        Ok(store)
    }

    fn promise(fault: Fault, is_durable: bool) -> Promise {
        lsm::promise(fault, is_durable)
    }

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<LsmStore<'_>> {
        self.changing(shape, path, false)
    }

    fn committers(
        &self,
        path: &Path,
        shape: &Shape,
        count: usize,
        is_durable: bool,
    ) -> Result<Committers<LsmStore<'_>>> {
        new_or_there(self, path, shape, is_durable)?.into_committers(count)
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<LsmStore<'_>, LsmStore<'_>>> {
        let store = match with_writer {
            true => self.reopen(path, shape, true)?,
            false => self.open(path, shape, Reading::Warm)?,
        };
        store.into_crew(readers, with_writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Danger: a library is asked for functions that another version has with other arguments.
    #[test]
    fn the_version_is_told_and_is_one_that_is_known() {
        let string =
            |len: usize| CxxString { start: null_mut(), len, few: *b"7.8.3\0\0\0\0\0\0\0\0\0\0\0" };
        assert_eq!(string(5).text(), "7.8.3");
        assert_eq!([0, 16, 17, usize::MAX].map(|len| string(len).text()), [""; 4]);
        let Ok(driver) = Rocksdb::load(None) else { return };
        let version = driver.identity().version;
        assert!(Rocksdb::VERSIONS.iter().any(|known| version.starts_with(known)), "{version:?}");
    }
}
