//! libmdbx: `libmdbx.so`, which no Debian package brings.
//!
//! Tuning: the file for this process alone, no sync, a writable map that grows by an
//! eighth of the data, no read-ahead, pages not cleared before use, the last freed used first; one write
//! transaction for the build, appending when the keys come sorted. The rest is in [`super::mdb`].

#![allow(unsafe_code)]

use super::library::symbol;
use super::mdb::{
    Calls, Env, MdbStore, NO_SUBDIR, NO_SYNC, NO_THREAD_SLOTS, READ_ONLY, WRITE_MAP, map_bytes,
    read_ahead,
};
use super::mdb_keys::{KEY_TYPES, Keys, OpenOrdered, SetOrder, keys_in_words};
use super::mdb_stat::Stat;
use super::{
    Announces, Changes, Committers, Crew, Driver, Identity, Reading, Shape, Sharing, Source,
    Threads,
};
use crate::settings::{ALWAYS_MAPPED, Name, Takes, Values};
use crate::workload::{KeyType, Records};
use credenza::Result;
use std::ffi::{c_int, c_uint};
use std::path::{Path, PathBuf};

/// The beginning of `struct MDBX_version_info` of mdbx.h.
#[repr(C)]
struct Version {
    major: u16,
    minor: u16,
    patch: u16,
}

/// Sizes: the least, now, the most; by how much it grows, shrinks; of a page.
type SetGeometry =
    unsafe extern "C" fn(*mut Env, isize, isize, isize, isize, isize, isize) -> c_int;

type SetSyncBytes = unsafe extern "C" fn(*mut Env, usize) -> c_int;
type SetMostDatabases = unsafe extern "C" fn(*mut Env, c_uint) -> c_int;

/// `MDBX_UTTERLY_NOSYNC`, besides `NO_SYNC`.
const UTTERLY: c_uint = 0x10_0000;
const EXCLUSIVE: c_uint = 0x40_0000;
const NO_MEMORY_INIT: c_uint = 0x100_0000;
const LIFO_RECLAIM: c_uint = 0x400_0000;
const WRITING: c_uint = NO_SYNC | UTTERLY | WRITE_MAP | NO_MEMORY_INIT | LIFO_RECLAIM;
/// After so many bytes of small transactions it syncs by itself: until then it uses no freed page
/// again, and the file grows with every commit, which takes five times as long.
const SYNC_BYTES: usize = 1 << 20;
const DEFAULT: isize = -1;

/// By how much the file grows: the library allocates all of it, so that small stores need small steps, and few
/// of them are enough for large ones.
fn growth(shape: &Shape) -> isize {
    let step = (shape.bytes() / 8).next_power_of_two();
    step.clamp(64 << 10, 64 << 20) as isize
}

pub(super) struct Mdbx {
    calls: Calls,
    version: *const Version,
    set_geometry: SetGeometry,
    set_sync_bytes: SetSyncBytes,
    stat: Stat,
    set_most_databases: SetMostDatabases,
    /// Its authors advise against it: a version to come may be without.
    open_ordered: Option<OpenOrdered>,
    file: PathBuf,
}

impl Mdbx {
    /// Opened for changes that are each a transaction of its own.
    fn each_committed(
        &self,
        path: &Path,
        shape: &Shape,
        flags: c_uint,
    ) -> Result<MdbStore<'_, true>> {
        let mut store = self.opened(path, shape, flags | NO_THREAD_SLOTS, Reading::Warm)?;
        store.commit_open()?;
        Ok(store)
    }

    /// The same for changes that are not forced to the disk.
    fn committing(&self, path: &Path, shape: &Shape, flags: c_uint) -> Result<MdbStore<'_, true>> {
        let store = self.each_committed(path, shape, flags)?;
        // SAFETY: the environment is open and has no transaction.
        let rc = unsafe { (self.set_sync_bytes)(store.env(), SYNC_BYTES) };
        self.calls.check("env_set_syncbytes", rc)?;
        Ok(store)
    }

    fn opened(
        &self,
        path: &Path,
        shape: &Shape,
        flags: c_uint,
        reading: Reading,
    ) -> Result<MdbStore<'_, true>> {
        let flags = flags | NO_SUBDIR | read_ahead(shape, reading);
        let page = shape.settings.page_size().map_or(DEFAULT, |bytes| bytes as isize);
        // Its transactions take any number of pages: in a writable map it keeps no list of them.
        let keys = Keys::of(shape, self.open_ordered.map(SetOrder::Open))?;
        let told = (usize::MAX, self.stat);
        MdbStore::open(&self.calls, path, flags, keys, told, |env| {
            if matches!(keys, Keys::Own(_)) {
                // SAFETY: the environment was made and is not open yet.
                let rc = unsafe { (self.set_most_databases)(env, 1) };
                self.calls.check("env_set_maxdbs", rc)?;
            }
            if flags & READ_ONLY != 0 {
                return Ok(());
            }
            let (most, step) = (map_bytes(shape) as isize, growth(shape));
            // SAFETY: the environment was made and is not open yet.
            let rc =
                unsafe { (self.set_geometry)(env, DEFAULT, DEFAULT, most, step, DEFAULT, page) };
            self.calls.check("env_set_geometry", rc)
        })?
        .with_cursor(shape)
    }
}

impl Driver for Mdbx {
    const NAME: &'static str = "mdbx";
    const ANNOUNCES: Announces = Announces::AsAsked;
    const REOPENS: bool = true;
    const SHARING: Sharing = Sharing::Writer;
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;
    const HAS_COMMITTING_PROCESSES: bool = true;
    const SOURCE: Option<Source> = Some(Source {
        names: &["libmdbx.so"],
        package: None,
        home: "https://libmdbx.dqdkfa.ru or https://github.com/erthink/libmdbx (make libmdbx.so)",
    });

    const VERSIONS: &'static [&'static str] =
        &["0.10.", "0.11.", "0.12.", "0.13.", "0.14.", "0.15.", "0.16.", "0.17.", "0.18.", "0.19."];
    const SETTINGS: &'static [Takes] = &[
        ALWAYS_MAPPED,
        (Name::PageSize, Values::Powers(512, 64 << 10)),
        (Name::Cursors, Values::Either),
        (Name::Advice, Values::Either),
    ];
    const KEY_TYPES: &'static [KeyType] = KEY_TYPES;
    const CHANGES: Changes = Changes::AtClose;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("SYNC_DURABLE with LIFORECLAIM");
    const SYNCS: &'static str = "fdatasync when it is closed";
    const SYNCS_ANYWAY: Option<&'static str> =
        Some("after each MiB of small transactions, as it uses no freed page again before");

    fn dies_when_full(is_durable: bool) -> bool {
        !is_durable
    }

    fn load(file: Option<&Path>) -> Result<Mdbx> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"mdbx_env_create")?;
        // SAFETY: the types are those of mdbx.h; the library stays open in `calls`.
        let (version, set_geometry, set_sync_bytes, set_most_databases) = unsafe {
            (
                symbol::<*const Version>(&opened.library, "mdbx_version")?,
                symbol::<SetGeometry>(&opened.library, "mdbx_env_set_geometry")?,
                symbol::<SetSyncBytes>(&opened.library, "mdbx_env_set_syncbytes")?,
                symbol::<SetMostDatabases>(&opened.library, "mdbx_env_set_maxdbs")?,
            )
        };
        // SAFETY: the same.
        let open_ordered =
            unsafe { symbol::<OpenOrdered>(&opened.library, "mdbx_dbi_open_ex") }.ok();
        let stat = Stat::of_mdbx(&opened.library)?;
        let calls = Calls::load_prefixed(opened.library, "mdbx_")?;
        Ok(Mdbx {
            calls,
            version,
            set_geometry,
            set_sync_bytes,
            set_most_databases,
            stat,
            open_ordered,
            file: opened.file,
        })
    }

    fn identity(&self) -> Identity {
        // SAFETY: a constant of the library, which is open.
        let Version { major, minor, patch } = unsafe { self.version.read() };
        Identity { version: format!("{major}.{minor}.{patch}"), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        let keys = keys_in_words(shape, "mdbx_dbi_open_ex");
        let append = if shape.is_sorted { "MDBX_APPEND as the keys come sorted, " } else { "" };
        format!(
            "{keys}NOSUBDIR, UTTERLY_NOSYNC, WRITEMAP, NORDAHEAD (not with --read-ahead), EXCLUSIVE, NOMEMINIT, LIFORECLAIM, at \
             most {} GiB in steps of {} KiB; build: {append}one write transaction; single changes: \
             one write transaction for the whole phase, or one for each with a sync after {} KiB; \
             lookups: one read transaction, reset and renewed for each where changes have one for each; \
             several processes or threads without EXCLUSIVE, threads and changes of their own with \
             NOSTICKYTHREADS",
            map_bytes(shape) >> 30,
            growth(shape) >> 10,
            SYNC_BYTES >> 10
        )
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        self.create(path, shape)?.fill(records, shape)
    }

    type Store<'d> = MdbStore<'d, true>;

    fn open(&self, path: &Path, shape: &Shape, reading: Reading) -> Result<Self::Store<'_>> {
        self.opened(path, shape, READ_ONLY | EXCLUSIVE, reading)
    }

    type Writer<'d> = MdbStore<'d, true>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        self.opened(path, shape, WRITING | EXCLUSIVE, Reading::Warm)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        self.committing(path, shape, WRITING | EXCLUSIVE)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        self.each_committed(path, shape, EXCLUSIVE | LIFO_RECLAIM)
    }

    fn open_shared(&self, path: &Path, shape: &Shape) -> Result<Self::Store<'_>> {
        self.opened(path, shape, READ_ONLY, Reading::Warm)
    }

    fn open_beside(&self, path: &Path, shape: &Shape) -> Result<Self::Store<'_>> {
        self.open_shared(path, shape)
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
        match is_durable {
            true => self.each_committed(path, shape, LIFO_RECLAIM),
            false => self.committing(path, shape, WRITING),
        }
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<Self::Store<'_>, Self::Writer<'_>>> {
        if !with_writer {
            let flags = READ_ONLY | NO_THREAD_SLOTS;
            return self.opened(path, shape, flags, Reading::Warm)?.into_crew(readers, false);
        }
        self.committing(path, shape, WRITING)?.into_crew(readers, true)
    }
}
