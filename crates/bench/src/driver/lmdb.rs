//! LMDB: `liblmdb.so.0`.
//!
//! Tuning: no lock, no sync, a writable map, no read-ahead; one write transaction for the build,
//! appending when the keys come sorted. The rest is in [`super::mdb`].

#![allow(unsafe_code)]

use super::library::symbol;
use super::mdb::{
    Calls, Env, MdbStore, NO_READ_AHEAD, NO_SUBDIR, NO_SYNC, READ_ONLY, WRITE_MAP, at_once,
    map_bytes,
};
use super::{Changes, Driver, Identity, Reading, Shape, Source};
use crate::workload::Records;
use credenza::Result;
use std::ffi::{c_char, c_int, c_uint};
use std::path::{Path, PathBuf};

type Version = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int) -> *const c_char;
type SetMapSize = unsafe extern "C" fn(*mut Env, usize) -> c_int;

const NO_META_SYNC: c_uint = 0x40000;
const NO_LOCK: c_uint = 0x40_0000;

pub(super) struct Lmdb {
    calls: Calls,
    version: Version,
    set_map_size: SetMapSize,
    file: PathBuf,
}

impl Lmdb {
    fn opened(&self, path: &Path, shape: &Shape, flags: c_uint) -> Result<MdbStore<'_, false>> {
        let flags = flags | NO_SUBDIR | NO_LOCK | NO_READ_AHEAD;
        MdbStore::open(&self.calls, path, flags, at_once(shape), |env| {
            // SAFETY: the environment was made and is not open yet.
            let rc = unsafe { (self.set_map_size)(env, map_bytes(shape)) };
            self.calls.check("env_set_mapsize", rc)
        })
    }
}

impl Driver for Lmdb {
    const NAME: &'static str = "lmdb";
    const SOURCE: Option<Source> = Some(Source {
        names: &["liblmdb.so.0", "liblmdb.so"],
        package: Some("liblmdb0"),
        home: "https://www.symas.com/lmdb",
    });

    const CHANGES: Changes = Changes::AtClose;
    const COMMITS: bool = true;

    fn load(file: Option<&Path>) -> Result<Lmdb> {
        let source = const { Self::SOURCE.unwrap() };
        let opened = source.open(Self::NAME, file, c"mdb_env_create")?;
        // SAFETY: the types are the prototypes of lmdb.h; the library stays open in `calls`.
        let (version, set_map_size) = unsafe {
            (
                symbol::<Version>(&opened.library, "mdb_version")?,
                symbol::<SetMapSize>(&opened.library, "mdb_env_set_mapsize")?,
            )
        };
        let calls = Calls::load_prefixed(opened.library, "mdb_")?;
        Ok(Lmdb { calls, version, set_map_size, file: opened.file })
    }

    fn identity(&self) -> Identity {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three places for numbers.
        unsafe { (self.version)(&raw mut major, &raw mut minor, &raw mut patch) };
        Identity { version: format!("{major}.{minor}.{patch}"), file: Some(self.file.clone()) }
    }

    fn tuning(&self, shape: &Shape) -> String {
        let append = if shape.is_sorted { "MDB_APPEND as the keys come sorted, " } else { "" };
        // A transaction cannot take more than 131,071 pages.
        let transactions = match at_once(shape) {
            usize::MAX => "one write transaction for the whole phase".to_owned(),
            changes => format!("a write transaction for every {changes} changes"),
        };
        format!(
            "NOSUBDIR, NOSYNC, NOMETASYNC, WRITEMAP, NORDAHEAD, NOLOCK, map {} GiB; build: \
             {append}as single changes; single changes: {transactions}, or one for each; lookups: \
             one read transaction",
            map_bytes(shape) >> 30
        )
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        self.create(path, shape)?.fill(records, shape)
    }

    type Store<'d> = MdbStore<'d, false>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<Self::Store<'_>> {
        self.opened(path, shape, READ_ONLY)
    }

    type Writer<'d> = MdbStore<'d, false>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        self.opened(path, shape, NO_SYNC | NO_META_SYNC | WRITE_MAP)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        let mut store = self.create(path, shape)?;
        store.commit_open()?;
        Ok(store)
    }
}
