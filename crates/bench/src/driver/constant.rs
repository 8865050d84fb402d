//! Our constant engine, with its default options.

#![allow(unsafe_code)]

use super::{
    Announces, Crew, Driver, Identity, Make, OnThread, ReadOnly, Reading, Shape, Source, Store,
    Threads,
};
use crate::settings::{Name, Takes, Values};
use crate::workload::Records;
use credenza::{Access, Get, Result, Scan, constant};
use std::path::Path;

pub(super) struct Constant;

fn options(shape: &Shape, reading: Reading) -> constant::OpenOptions {
    let options = match (shape.settings.copy(), shape.settings.mmap()) {
        (true, _) => constant::Constant::options().access(Access::Memory),
        (false, Some(false)) => constant::Constant::options().access(Access::Read),
        (false, _) => constant::Constant::options(),
    };
    match reading.advice(shape) {
        Some(advice) => options.advice(advice),
        None => options,
    }
}

impl Driver for Constant {
    const NAME: &'static str = "constant";
    const ANNOUNCES: Announces = Announces::AsAsked;
    const SOURCE: Option<Source> = None;
    const SETTINGS: &'static [Takes] = &[
        (Name::Mmap, Values::Either),
        (Name::Copy, Values::Either),
        (Name::Advice, Values::Either),
    ];
    const NATIVE_GET_MANY: bool = true;
    const THREADS: Threads = Threads::Shared;
    const SYNCS: &'static str = "fdatasync and fsync of the folder at publish, as always";

    fn load(_: Option<&Path>) -> Result<Constant> {
        Ok(Constant)
    }

    fn identity(&self) -> Identity {
        Identity { version: env!("CARGO_PKG_VERSION").to_owned(), file: None }
    }

    fn tuning(&self, _: &Shape) -> String {
        "defaults; preload, or advice RANDOM for a cold cache".to_owned()
    }

    fn build(&self, records: &Records, _: &Shape, path: &Path) -> Result<()> {
        let mut builder = constant::Builder::create(path)?;
        for (key, value) in records.iter() {
            builder.add(key, value)?;
        }
        builder.finish().map(|_| ())
    }

    fn build_making(&self, path: &Path, _: &Shape, make: Make<'_>) -> Result<()> {
        let mut builder = constant::Builder::create(path)?;
        make(&mut |key, value| builder.add(key, value))?;
        builder.finish().map(|_| ())
    }

    type Writer<'d> = ReadOnly<Self::Store<'d>>;

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<Self::Writer<'_>> {
        self.open(path, shape, Reading::Warm).map(ReadOnly)
    }

    type Store<'d> = constant::Constant;

    fn open(&self, path: &Path, shape: &Shape, reading: Reading) -> Result<constant::Constant> {
        options(shape, reading).open(path)
    }

    fn handles(
        &self,
        path: &Path,
        count: usize,
        are_opened: bool,
    ) -> Result<Vec<OnThread<constant::Constant>>> {
        let first = constant::Constant::open(path)?;
        let one = |i| match i {
            0 => Ok(first.clone()),
            _ if are_opened => constant::Constant::open(path),
            _ => Ok(first.clone()),
        };
        // SAFETY: handles are `Send`.
        (0..count).map(|i| Ok(unsafe { OnThread::new(one(i)?) })).collect()
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        _: bool,
    ) -> Result<Crew<constant::Constant, ReadOnly<constant::Constant>>> {
        let store = options(shape, Reading::Warm).open(path)?;
        // SAFETY: handles are `Send`.
        Ok(unsafe { Crew::of(vec![store; readers], None) })
    }
}

impl Store for constant::Constant {
    const PRELOADS: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let value = Get::get(self, key)?;
        Ok(value.map(|value| take(&value)).is_some())
    }

    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        Get::get_many(self, keys, take)
    }

    fn preload(&mut self, _: &Path) -> Result<()> {
        constant::Constant::preload(self)
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        Scan::scan(self, |key, value| {
            take(key, value);
            Ok(())
        })
    }
}
