//! BerkeleyDB's btree access method; where it numbers the records, the one that is a btree of such numbers.
//!
//! Tuning, besides what [`super::bdb`] has: 4 KiB pages, or 16 KiB ones where records have more than
//! 512 bytes, so that a page holds many.

use super::bdb::{self, Bdb, Handle, Method, btree_page_bytes, cache_bytes};
use super::bdb_abi::TXN_WRITE_NO_SYNC;
use super::bdb_store::BdbStore;
use super::{
    Changes, Committers, Driver, Fault, Identity, Promise, Reading, Setup, Shape, Source, Threads,
    refused,
};
use crate::settings::{Codec, Name, Takes, Values};
use crate::workload::KeyType;
use credenza::Result;
use std::path::Path;

pub(super) struct BdbBtree(Bdb);

fn method(shape: &Shape) -> Method {
    if shape.keys == KeyType::Number32 { Method::Recno } else { Method::BTree }
}

/// What a new database is told besides what both access methods are.
fn set_up(handle: &Handle<'_>, shape: &Shape) -> Result<()> {
    handle.set_page_size(btree_page_bytes(shape))?;
    match shape.settings.key_compression() {
        Codec::Prefix if shape.keys.is_numbered() => Err(refused(
            "key-compression=prefix",
            "BerkeleyDB does not compress the numbers of records: leave it out",
        )),
        Codec::Prefix => handle.compress_keys(),
        _ => Ok(()),
    }
}

impl Driver for BdbBtree {
    const NAME: &'static str = "bdb-btree";
    const REOPENS: bool = true;
    const HAS_DUPLICATES: bool = true;
    // Numbers of 64 bits it does not have.
    const KEY_TYPES: &'static [KeyType] = &[KeyType::Number32, KeyType::Custom];
    const THREADS: Threads = Threads::Handles;
    const HAS_COMMITTERS: bool = true;
    const SOURCE: Option<Source> = Some(Bdb::SOURCE);
    const SETTINGS: &'static [Takes] = &[
        bdb::PAGE_SIZE,
        bdb::CACHE,
        bdb::CHECKSUMS,
        (Name::KeyCompression, Values::Codecs(&[Codec::None, Codec::Prefix])),
        bdb::ENCRYPTION,
        (Name::Recovery, Values::Either),
        bdb::CURSORS,
        bdb::MEMORY,
    ];
    const CHANGES: Changes = Changes::AtClose;
    const SYNCS: &'static str = "fdatasync when it is closed";
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> =
        Some("an environment whose log is synced with each commit");

    fn load(file: Option<&Path>) -> Result<BdbBtree> {
        Bdb::load(Self::NAME, file).map(BdbBtree)
    }

    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn tuning(&self, shape: &Shape) -> String {
        if shape.setup == Setup::Bayes {
            return bdb::BAYES.to_owned();
        }
        let method = match shape.keys {
            KeyType::Number32 => "DB_RECNO, ",
            KeyType::Custom => "set_bt_compare, ",
            _ => "",
        };
        format!(
            "{method}no environment, {}-byte pages, cache {} MiB; USERMEM gets, bulk scans and ranges; one \
             transaction for each change: DB_PRIVATE environment, no locks, TXN_WRITE_NOSYNC; \
             several threads that commit: with locks and DB_THREAD",
            btree_page_bytes(shape),
            cache_bytes(shape) >> 20
        )
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "changes are in a cache of the process until the store is closed, as there is no \
             environment but where each is a transaction"
                .to_owned(),
        ]
    }

    type Store<'d> = BdbStore<'d, true>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<Self::Store<'_>> {
        self.0.open(method(shape), path, shape)
    }

    type Writer<'d> = BdbStore<'d, true>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        let handle = self.0.handle(shape)?;
        if shape.setup != Setup::Bayes {
            set_up(&handle, shape)?;
        }
        BdbStore::create(handle, method(shape), path, shape)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let handle = self.0.committing_handle(shape, folder, TXN_WRITE_NO_SYNC)?;
        set_up(&handle, shape)?;
        BdbStore::create(handle, method(shape), path, shape)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let handle = self.0.committing_handle(shape, folder, 0)?;
        set_up(&handle, shape)?;
        BdbStore::create(handle, method(shape), path, shape)
    }

    /// Integrity without durability, the documentation of `DB_TXN_WRITE_NOSYNC` says.
    fn promise(fault: Fault, is_durable: bool) -> Promise {
        match fault {
            Fault::Power if !is_durable => Promise::Moment,
            _ => Promise::All,
        }
    }

    fn recover(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let handle = self.0.recovering_handle(shape, folder)?;
        BdbStore::create(handle, method(shape), path, shape)
    }

    fn committers(
        &self,
        path: &Path,
        shape: &Shape,
        count: usize,
        is_durable: bool,
    ) -> Result<Committers<Self::Writer<'_>>> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let flags = if is_durable { 0 } else { TXN_WRITE_NO_SYNC };
        let handle = self.0.shared_handle(shape, folder, flags)?;
        set_up(&handle, shape)?;
        BdbStore::create(handle, method(shape), path, shape)?.into_committers(shape, count)
    }
}
