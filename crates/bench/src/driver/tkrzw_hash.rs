//! Tkrzw's file hash database.
//!
//! Tuning, besides what [`super::tkrzw`] has: twice as many buckets as records, addresses of four
//! bytes, alignment 4; changes in place, which is its default.

use super::tkrzw::{COMPRESSION, READS, Tkrzw, TkrzwStore, file_settings};
use super::{Announces, Crew, Driver, Identity, Reading, Shape, Source, Threads};
use crate::settings::{Name, Takes, Values};
use credenza::Result;
use std::path::Path;

fn settings(shape: &Shape) -> String {
    let buckets = (2 * shape.records).max(64);
    // Four bytes and an alignment of 4 reach 16 GiB.
    let width = if 2 * shape.bytes() + 64 * shape.records < 8 << 30 { 4 } else { 5 };
    let file = file_settings(shape);
    format!("dbm=HashDBM,num_buckets={buckets},offset_width={width},align_pow=2,{file}")
}

pub(super) struct TkrzwHash(Tkrzw);

impl Driver for TkrzwHash {
    const NAME: &'static str = "tkrzw";
    const ANNOUNCES: Announces = Announces::Random;
    const REOPENS: bool = true;
    const SOURCE: Option<Source> = Some(Tkrzw::SOURCE);
    const VERSIONS: &'static [&'static str] = &["1.0."];
    const SETTINGS: &'static [Takes] =
        &[(Name::Mmap, Values::Either), COMPRESSION, (Name::Direct, Values::Either)];

    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;

    fn load(file: Option<&Path>) -> Result<TkrzwHash> {
        Tkrzw::load(Self::NAME, file).map(TkrzwHash)
    }

    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn tuning(&self, shape: &Shape) -> String {
        format!("{}, no lock of the file; {READS}", settings(shape))
    }

    type Store<'d> = TkrzwStore<'d, false>;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<Self::Store<'_>> {
        self.0.open(path, &settings(shape), false)
    }

    type Writer<'d> = TkrzwStore<'d, false>;

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
