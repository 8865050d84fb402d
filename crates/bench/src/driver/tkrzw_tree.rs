//! Tkrzw's file tree database: a B+ tree whose pages are the records of a hash database.
//!
//! Tuning, besides what [`super::tkrzw`] has: twice as many buckets as pages, and all pages stay in
//! the cache. Pages that were changed are in a cache of the process until the store is closed.

use super::tkrzw::{Tkrzw, TkrzwStore};
use super::{Changes, Crew, Driver, Identity, Reading, Shape, Source, Threads};
use credenza::Result;
use std::path::Path;

fn settings(shape: &Shape) -> String {
    // Pages of 8,130 bytes, its default, at least half full; two bytes for the lengths of a record.
    let pages = ((shape.bytes() + 4 * shape.records) / 4000).max(10_000);
    format!("dbm=TreeDBM,num_buckets={},max_cached_pages={pages}", 2 * pages)
}

pub(super) struct TkrzwTree(Tkrzw);

impl Driver for TkrzwTree {
    const NAME: &'static str = "tkrzw-tree";
    const REOPENS: bool = true;
    const SOURCE: Option<Source> = Some(Tkrzw::SOURCE);
    const CHANGES: Changes = Changes::AtClose;

    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;

    fn load(file: Option<&Path>) -> Result<TkrzwTree> {
        Tkrzw::load(Self::NAME, file).map(TkrzwTree)
    }

    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn tuning(&self, shape: &Shape) -> String {
        format!("{}, no lock of the file; tkrzw_dbm_process", settings(shape))
    }

    fn notes(&self) -> Vec<String> {
        vec!["changes are in a cache of the process until the store is closed".to_owned()]
    }

    type Store<'d> = TkrzwStore<'d, true>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<Self::Store<'_>> {
        self.0.open(path, &settings(shape), false)
    }

    type Writer<'d> = TkrzwStore<'d, true>;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Self::Writer<'_>> {
        self.0.open(path, &settings(shape), true)
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<Self::Store<'_>, Self::Writer<'_>>> {
        self.0.crew(path, &settings(shape), readers, with_writer)
    }
}
