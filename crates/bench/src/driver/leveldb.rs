//! LevelDB, by its C interface: `libleveldb.so.1d`.
//!
//! Its tuning is in [`super::lsm`]. There is no opening for reading only.

#![allow(unsafe_code)]

use super::library::symbol;
use super::lsm::{self, Calls, FILTER_BITS, LsmStore, Options, Settings};
use super::on_thread::new_or_there;
use super::{
    Committers, Crew, Driver, Fault, Identity, Promise, Reading, Shape, Sharing, Source, Threads,
};
use crate::settings::{Codec, Name, Takes, Values};
use crate::workload::{KeyType, Records};
use credenza::Result;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};

type Number = unsafe extern "C" fn() -> c_int;
type NewCache = unsafe extern "C" fn(usize) -> *mut c_void;
type NewFilter = unsafe extern "C" fn(c_int) -> *mut c_void;
type SetPart = unsafe extern "C" fn(*mut Options, *mut c_void);
type SetSize = unsafe extern "C" fn(*mut Options, usize);
type Free = unsafe extern "C" fn(*mut c_void);

pub(super) struct Leveldb {
    calls: Calls,
    version: [Number; 2],
    new_cache: NewCache,
    set_cache: SetPart,
    free_cache: Free,
    new_filter: NewFilter,
    set_filter: SetPart,
    free_filter: Free,
    set_block_size: SetSize,
    file: PathBuf,
}

impl Leveldb {
    fn opened(
        &self,
        path: &Path,
        shape: &Shape,
        is_created: bool,
        is_reader: bool,
    ) -> Result<LsmStore<'_>> {
        let mut settings = Settings::new(&self.calls, shape, is_created);
        if let Some(bytes) = shape.settings.page_size() {
            // SAFETY: the options are new.
            unsafe { (self.set_block_size)(settings.options, bytes as usize) };
        }
        // SAFETY: cache and filter are new, live as long as the options, and are freed behind the
        // store, as the library asks.
        unsafe {
            let cache = (self.new_cache)(lsm::cache_bytes(shape));
            let filter = (self.new_filter)(c_int::from(FILTER_BITS));
            (self.set_cache)(settings.options, cache);
            (self.set_filter)(settings.options, filter);
            settings.parts.extend([(self.free_cache, cache), (self.free_filter, filter)]);
        }
        LsmStore::open_usual(settings, path, is_reader)
    }
}

impl Driver for Leveldb {
    const NAME: &'static str = "leveldb";
    const REOPENS: bool = true;
    const SYNCS_ANYWAY: Option<&'static str> =
        Some("a table is on the disk before the log of what is in it is removed");
    const SYNCS: &'static str = "fdatasync of every table it writes";
    // Alone: its LOCK file is of one process.
    const SHARING: Sharing = Sharing::Alone;
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;
    const SOURCE: Option<Source> = Some(Source {
        names: &["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"],
        package: Some("libleveldb1d"),
        home: "https://github.com/google/leveldb",
    });
    const VERSIONS: &'static [&'static str] = &["1."];
    const SETTINGS: &'static [Takes] = &[
        lsm::PAGE_SIZE,
        lsm::CACHE,
        lsm::CHECKSUMS,
        (Name::Compression, Values::Codecs(&[Codec::None, Codec::Snappy])),
    ];
    const KEY_TYPES: &'static [KeyType] = lsm::KEY_TYPES;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("the write option sync");

    fn load(file: Option<&Path>) -> Result<Leveldb> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"leveldb_open")?;
        let library = &opened.library;
        // SAFETY: the types are the prototypes of leveldb's c.h; the library stays open in `calls`.
        unsafe {
            let version = [
                symbol::<Number>(library, "leveldb_major_version")?,
                symbol::<Number>(library, "leveldb_minor_version")?,
            ];
            Ok(Leveldb {
                version,
                new_cache: symbol::<NewCache>(library, "leveldb_cache_create_lru")?,
                set_cache: symbol::<SetPart>(library, "leveldb_options_set_cache")?,
                free_cache: symbol::<Free>(library, "leveldb_cache_destroy")?,
                new_filter: symbol::<NewFilter>(library, "leveldb_filterpolicy_create_bloom")?,
                set_filter: symbol::<SetPart>(library, "leveldb_options_set_filter_policy")?,
                free_filter: symbol::<Free>(library, "leveldb_filterpolicy_destroy")?,
                set_block_size: symbol::<SetSize>(library, "leveldb_options_set_block_size")?,
                calls: Calls::load_prefixed(opened.library, "leveldb_")?,
                file: opened.file,
            })
        }
    }

    fn identity(&self) -> Identity {
        // SAFETY: no preconditions.
        let [major, minor] = self.version.map(|number| unsafe { number() });
        Identity { version: format!("{major}.{minor}"), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        lsm::tuning(shape)
    }

    fn notes(&self) -> Vec<String> {
        vec![lsm::NOTE.to_owned()]
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        self.create(path, shape)?.fill(records)
    }

    type Store<'d> = LsmStore<'d>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<LsmStore<'_>> {
        self.opened(path, shape, false, true)
    }

    type Writer<'d> = LsmStore<'d>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<LsmStore<'_>> {
        self.opened(path, shape, true, false)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<LsmStore<'_>> {
        self.create(path, shape)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<LsmStore<'_>> {
        let store = self.opened(path, shape, !path.exists(), false)?;
        store.sync_writes();
        Ok(store)
    }

    fn promise(fault: Fault, is_durable: bool) -> Promise {
        lsm::promise(fault, is_durable)
    }

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<LsmStore<'_>> {
        self.opened(path, shape, false, false)
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
        self.reopen(path, shape, true)?.into_crew(readers, with_writer)
    }
}
