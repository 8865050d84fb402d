//! A store that does nothing: what is measured of it is the workbench itself.
//!
//! It gives every key as its own value and keeps nothing, so that its answers are wrong and are not
//! looked at. It is in no list of stores. Whatever may be asked of a store it can do, so that every phase of
//! every run has its figure: that of a transaction, of a value more, of opening again is that of doing nothing.
//!
//! Invariant: the compiler knows nothing of what is given, as it would not of a store's values. Those of
//! ranges and scans lie in an array that it knows nothing of: to hide each of them by itself took longer than
//! all that the workbench does with it.

#![allow(unsafe_code)]

use super::{Committers, Crew, Driver, Identity, Reading, Shape, Source, Store, Threads, Writer};
use crate::workload::Records;
use credenza::Result;
use std::hint::black_box;
use std::path::Path;

pub(super) struct Null;

/// Knows how many records there would be.
pub(super) struct NullStore {
    records: u64,
    /// The values of ranges and scans, over and over again.
    values: [&'static [u8]; VALUES],
}

const VALUES: usize = 8;

impl NullStore {
    fn new(shape: &Shape) -> NullStore {
        NullStore { records: shape.records, values: black_box([b"value"; VALUES]) }
    }

    /// As many as there would be at most: all that follow a key are asked for as the most that a number can be.
    #[inline]
    fn give(&self, key: &[u8], count: usize, mut take: impl FnMut(&[u8], &[u8])) {
        (0..count.min(self.records as usize)).for_each(|i| take(key, self.values[i % VALUES]));
    }
}

impl Driver for Null {
    const NAME: &'static str = "null";
    const SOURCE: Option<Source> = None;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("nothing is kept");
    const REOPENS: bool = true;
    const HAS_DUPLICATES: bool = true;
    const THREADS: Threads = Threads::Shared;
    const HAS_COMMITTERS: bool = true;
    const HAS_COMMITTING_PROCESSES: bool = true;

    fn load(_: Option<&Path>) -> Result<Null> {
        Ok(Null)
    }

    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn tuning(&self, _: &Shape) -> String {
        "does nothing".to_owned()
    }

    fn build(&self, records: &Records, _: &Shape, _: &Path) -> Result<()> {
        records.iter().for_each(|record| {
            black_box(record);
        });
        Ok(())
    }

    type Store<'d> = NullStore;

    fn open(&self, _: &Path, shape: &Shape, _: Reading) -> Result<NullStore> {
        Ok(NullStore::new(shape))
    }

    type Writer<'d> = NullStore;

    fn create(&self, _: &Path, shape: &Shape) -> Result<NullStore> {
        Ok(NullStore::new(shape))
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<NullStore> {
        self.create(path, shape)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<NullStore> {
        self.create(path, shape)
    }

    fn crew(
        &self,
        _: &Path,
        shape: &Shape,
        readers: usize,
        _: bool,
    ) -> Result<Crew<NullStore, NullStore>> {
        let readers = (0..readers).map(|_| NullStore::new(shape)).collect();
        // SAFETY: there is nothing in it that could be shared.
        Ok(unsafe { Crew::of(readers, None) })
    }

    fn committers(
        &self,
        _: &Path,
        shape: &Shape,
        count: usize,
        _: bool,
    ) -> Result<Committers<NullStore>> {
        // SAFETY: the same.
        unsafe { Committers::of(NullStore::new(shape), count, |_| Ok(NullStore::new(shape))) }
    }
}

impl Store for NullStore {
    const IS_ORDERED: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        take(black_box(key));
        Ok(true)
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.give(b"key", self.records as usize, take);
        Ok(())
    }

    #[inline]
    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.give(from, count, take);
        Ok(())
    }
}

impl Writer for NullStore {
    const HAS_TRANSACTIONS: bool = true;

    #[inline]
    fn begin(&mut self) -> Result<()> {
        black_box(());
        Ok(())
    }

    #[inline]
    fn commit(&mut self) -> Result<()> {
        black_box(());
        Ok(())
    }

    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        black_box(key);
        Ok(true)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}
