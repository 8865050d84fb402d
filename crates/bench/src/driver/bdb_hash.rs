//! BerkeleyDB's hash access method.
//!
//! Tuning, besides what [`super::bdb`] has: 4 KiB pages, the number of records and the fill factor
//! told in advance.

use super::bdb::{self, Bdb, Method, cache_bytes};
use super::bdb_store::BdbStore;
use super::{Changes, Driver, Identity, Reading, Setup, Shape, Source, Threads};
use crate::settings::Takes;
use credenza::Result;
use std::path::Path;

fn page_bytes(shape: &Shape) -> u32 {
    shape.settings.page_size().map_or(4096, |bytes| bytes as u32)
}

/// Records on a page, as the documentation of `set_h_ffactor` computes it.
fn fill_factor(shape: &Shape) -> u32 {
    let record = shape.bytes() / shape.records.max(1) + 8;
    (u64::from(page_bytes(shape) - 32) / record).max(1) as u32
}

pub(super) struct BdbHash(Bdb);

impl Driver for BdbHash {
    const NAME: &'static str = "bdb-hash";
    const REOPENS: bool = true;
    const THREADS: Threads = Threads::Handles;
    const SOURCE: Option<Source> = Some(Bdb::SOURCE);
    const SETTINGS: &'static [Takes] =
        &[bdb::PAGE_SIZE, bdb::CACHE, bdb::CHECKSUMS, bdb::ENCRYPTION, bdb::CURSORS, bdb::MEMORY];
    const CHANGES: Changes = Changes::AtClose;
    const SYNCS: &'static str = "fdatasync when it is closed";

    fn load(file: Option<&Path>) -> Result<BdbHash> {
        Bdb::load(Self::NAME, file).map(BdbHash)
    }

    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn tuning(&self, shape: &Shape) -> String {
        if shape.setup == Setup::Bayes {
            return bdb::BAYES.to_owned();
        }
        format!(
            "no environment, {}-byte pages, h_nelem {}, h_ffactor {}, cache {} MiB; USERMEM gets, \
             bulk scans",
            page_bytes(shape),
            shape.records,
            fill_factor(shape),
            cache_bytes(shape) >> 20
        )
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "changes are in a cache of the process until the store is closed, as there is no \
             environment"
                .to_owned(),
        ]
    }

    type Store<'d> = BdbStore<'d, false>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<Self::Store<'_>> {
        self.0.open(Method::Hash, path, shape)
    }

    type Writer<'d> = BdbStore<'d, false>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        let handle = self.0.handle(shape)?;
        if shape.setup != Setup::Bayes {
            handle.set_page_size(page_bytes(shape))?;
            handle.set_fill(shape.records as u32, fill_factor(shape))?;
        }
        BdbStore::create(handle, Method::Hash, path, shape)
    }
}
