//! Tkrzw's file tree database: a B+ tree whose pages are the records of a hash database.
//!
//! Tuning, besides what [`super::tkrzw`] has: twice as many buckets as pages, and all pages stay in
//! the cache. Pages that were changed are in a cache of the process until the store is closed.

use super::tkrzw::{COMPRESSION, READS, Tkrzw, TkrzwStore, file_settings};
use super::{Announces, Changes, Crew, Driver, Identity, Reading, Shape, Source, Threads};
use crate::settings::{Name, Takes, Values};
use credenza::Result;
use std::path::Path;

fn settings(shape: &Shape) -> String {
    let page = shape.settings.page_size().unwrap_or(PAGE);
    // At least half full; two bytes for the lengths of a record.
    let pages = (2 * (shape.bytes() + 4 * shape.records) / page).max(10_000);
    let cached = match shape.settings.cache() {
        Some(bytes) => bytes / page + 1,
        // More than there can be.
        None if shape.settings.has_unlimited_cache() => 1 << 30,
        None => pages,
    };
    let (buckets, file) = (2 * pages, file_settings(shape));
    format!(
        "dbm=TreeDBM,num_buckets={buckets},max_page_size={page},max_cached_pages={cached},{file}"
    )
}

/// The size of its pages, unless told otherwise.
const PAGE: u64 = 8130;

pub(super) struct TkrzwTree(Tkrzw);

impl Driver for TkrzwTree {
    const NAME: &'static str = "tkrzw-tree";
    const ANNOUNCES: Announces = Announces::Random;
    const REOPENS: bool = true;
    const SOURCE: Option<Source> = Some(Tkrzw::SOURCE);
    const VERSIONS: &'static [&'static str] = &["1.0."];
    const SETTINGS: &'static [Takes] = &[
        (Name::PageSize, Values::Powers(512, 1 << 20)),
        (Name::Cache, Values::AtLeastOrUnlimited(1 << 20)),
        (Name::Mmap, Values::Either),
        COMPRESSION,
        (Name::Direct, Values::Either),
    ];
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
        format!("{}, no lock of the file; {READS}", settings(shape))
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
