//! LMDB: `liblmdb.so.0`.
//!
//! Tuning: no lock, no sync, a writable map, no read-ahead; one write transaction for the build,
//! appending when the keys come sorted. Beside a writer, and where several commit, it has its lock and its
//! table of readers. The rest is in [`super::mdb`].

#![allow(unsafe_code)]

use super::library::symbol;
use super::mdb::{
    Calls, Env, MdbStore, NO_SUBDIR, NO_SYNC, NO_THREAD_SLOTS, READ_ONLY, WRITE_MAP, at_once,
    map_bytes, read_ahead,
};
use super::mdb_keys::{KEY_TYPES, Keys, SetCompare, SetOrder, keys_in_words};
use super::mdb_stat::Stat;
use super::{
    Announces, Changes, Committers, Crew, Driver, Identity, Reading, Shape, Sharing, Source,
    Threads,
};
use crate::settings::{ALWAYS_MAPPED, Name, Takes, Values};
use crate::workload::{KeyType, Records};
use credenza::Result;
use std::ffi::{c_char, c_int, c_uint};
use std::path::{Path, PathBuf};

type Version = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char;
type SetMapSize = unsafe extern "C" fn(*mut Env, usize) -> c_int;

const NO_META_SYNC: c_uint = 0x40000;
const NO_LOCK: c_uint = 0x40_0000;
const WRITING: c_uint = NO_SYNC | NO_META_SYNC | WRITE_MAP;

pub(super) struct Lmdb {
    calls: Calls,
    version: Version,
    set_map_size: SetMapSize,
    stat: Stat,
    set_compare: SetCompare,
    file: PathBuf,
}

impl Lmdb {
    /// Opened for changes that are each a transaction of its own.
    fn committing(&self, path: &Path, shape: &Shape, flags: c_uint) -> Result<MdbStore<'_, false>> {
        let mut store = self.opened(path, shape, flags | NO_THREAD_SLOTS, Reading::Warm)?;
        store.commit_open()?;
        Ok(store)
    }

    fn opened(
        &self,
        path: &Path,
        shape: &Shape,
        flags: c_uint,
        reading: Reading,
    ) -> Result<MdbStore<'_, false>> {
        let flags = flags | NO_SUBDIR | read_ahead(shape, reading);
        let keys = Keys::of(shape, Some(SetOrder::Set(self.set_compare)))?;
        let told = (at_once(shape), self.stat);
        MdbStore::open(&self.calls, path, flags, keys, told, |env| {
            // SAFETY: the environment was made and is not open yet.
            let rc = unsafe { (self.set_map_size)(env, map_bytes(shape)) };
            self.calls.check("env_set_mapsize", rc)
        })?
        .with_cursor(shape)
    }
}

impl Driver for Lmdb {
    const NAME: &'static str = "lmdb";
    const ANNOUNCES: Announces = Announces::AsAsked;
    const REOPENS: bool = true;
    const SOURCE: Option<Source> = Some(Source {
        names: &["liblmdb.so.0", "liblmdb.so"],
        package: Some("liblmdb0"),
        home: "https://www.symas.com/lmdb",
    });

    const VERSIONS: &'static [&'static str] = &["0.9."];
    const SETTINGS: &'static [Takes] =
        &[ALWAYS_MAPPED, (Name::Cursors, Values::Either), (Name::Advice, Values::Either)];
    const KEY_TYPES: &'static [KeyType] = KEY_TYPES;
    const CHANGES: Changes = Changes::AtClose;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("neither NOSYNC, NOMETASYNC nor WRITEMAP");
    const SHARING: Sharing = Sharing::Writer;
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;
    const HAS_COMMITTING_PROCESSES: bool = true;

    fn dies_when_full(is_durable: bool) -> bool {
        !is_durable
    }

    fn load(file: Option<&Path>) -> Result<Lmdb> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"mdb_env_create")?;
        // SAFETY: the types are the prototypes of lmdb.h; the library stays open in `calls`.
        let (version, set_map_size, set_compare) = unsafe {
            (
                symbol::<Version>(&opened.library, "mdb_version")?,
                symbol::<SetMapSize>(&opened.library, "mdb_env_set_mapsize")?,
                symbol::<SetCompare>(&opened.library, "mdb_set_compare")?,
            )
        };
        let stat = Stat::of_lmdb(&opened.library)?;
        let calls = Calls::load_prefixed(opened.library, "mdb_")?;
        Ok(Lmdb { calls, version, set_map_size, stat, set_compare, file: opened.file })
    }

    fn identity(&self) -> Identity {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three places for numbers.
        unsafe { (self.version)(&raw mut major, &raw mut minor, &raw mut patch) };
        Identity { version: format!("{major}.{minor}.{patch}"), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        let keys = keys_in_words(shape, "mdb_set_compare");
        let append = if shape.is_sorted { "MDB_APPEND as the keys come sorted, " } else { "" };
        // A transaction cannot take more than 131,071 pages.
        let transactions = match at_once(shape) {
            usize::MAX => "one write transaction for the whole phase".to_owned(),
            changes => format!(
                "one write transaction for all that is put into a new store, else one for every {changes} changes"
            ),
        };
        format!(
            "{keys}NOSUBDIR, NOSYNC, NOMETASYNC, WRITEMAP, NORDAHEAD (not with --read-ahead), NOLOCK, map {} GiB; build: \
             {append}as single changes; single changes: {transactions}, or one for each; lookups: \
             one read transaction, reset and renewed for each where changes have one for each; beside a \
             writer with its lock, several threads and changes of their own with NOTLS, and threads or \
             processes with its lock where they commit",
            map_bytes(shape) >> 30
        )
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        self.create(path, shape)?.fill(records, shape)
    }

    type Store<'d> = MdbStore<'d, false>;

    fn open(&self, path: &Path, shape: &Shape, reading: Reading) -> Result<Self::Store<'_>> {
        self.opened(path, shape, READ_ONLY | NO_LOCK, reading)
    }

    type Writer<'d> = MdbStore<'d, false>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        let store = self.opened(path, shape, WRITING | NO_LOCK, Reading::Warm)?;
        Ok(store.only_adding())
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        self.committing(path, shape, WRITING | NO_LOCK)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        self.committing(path, shape, NO_LOCK)
    }

    fn open_beside(&self, path: &Path, shape: &Shape) -> Result<Self::Store<'_>> {
        self.opened(path, shape, READ_ONLY, Reading::Warm)
    }

    fn open_to_change(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        self.committing(path, shape, WRITING)
    }

    fn committers(
        &self,
        path: &Path,
        shape: &Shape,
        count: usize,
        is_durable: bool,
    ) -> Result<Committers<Self::Writer<'_>>> {
        self.open_to_commit(path, shape, is_durable)?.into_committers(count)
    }

    fn open_to_commit(
        &self,
        path: &Path,
        shape: &Shape,
        is_durable: bool,
    ) -> Result<Self::Writer<'_>> {
        self.committing(path, shape, if is_durable { 0 } else { WRITING })
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<Self::Store<'_>, Self::Writer<'_>>> {
        let flags = if with_writer { WRITING } else { READ_ONLY | NO_LOCK };
        self.opened(path, shape, flags | NO_THREAD_SLOTS, Reading::Warm)?
            .into_crew(readers, with_writer)
    }
}
