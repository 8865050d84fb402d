//! Our hash engine, with its default options: it is told nothing about what is to come.

#![allow(unsafe_code)]

use super::{
    Committers, Crew, Driver, Fault, Identity, Noting, OnThread, OwnCount, Promise, Reading, Shape,
    Sharing, Source, Store, Threads, Writer, with_another_boot,
};
use crate::settings::{Name, Takes, Values};
use credenza::{Durability, Result, Scan, hash};
use std::path::Path;

pub(super) struct Hash;

impl Driver for Hash {
    const NAME: &'static str = "hash";
    const REOPENS: bool = true;
    const SOURCE: Option<Source> = None;
    const SETTINGS: &'static [Takes] = &[(Name::Memory, Values::Either)];
    const NATIVE_GET_MANY: bool = true;
    const DURABLE: Option<&'static str> = Some("Durability::Sync");
    const SYNCS_ANYWAY: Option<&'static str> =
        Some("what it moved is on the disk before the space that it was in is used again");
    const SYNCS: &'static str = "fdatasync when the last process closes it";

    const SHARING: Sharing = Sharing::Writer;
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;
    const HAS_COMMITTING_PROCESSES: bool = true;

    fn load(_: Option<&Path>) -> Result<Hash> {
        Ok(Hash)
    }

    fn identity(&self) -> Identity {
        Identity { version: env!("CARGO_PKG_VERSION").to_owned(), file: None }
    }

    fn tuning(&self, _: &Shape) -> String {
        "defaults: grows as records come, with its lock between processes, nothing sized".to_owned()
    }

    type Store<'d> = hash::Hash;

    fn open(&self, path: &Path, _: &Shape, _: Reading) -> Result<hash::Hash> {
        hash::Hash::open(path)
    }

    type Writer<'d> = hash::Hash;

    fn create(&self, path: &Path, shape: &Shape) -> Result<hash::Hash> {
        if shape.settings.memory() {
            return hash::Hash::in_memory();
        }
        hash::Hash::create(path)
    }

    fn create_durable(&self, path: &Path, _: &Shape) -> Result<hash::Hash> {
        hash::Hash::options().create(true).durability(Durability::Sync).open(path)
    }

    fn reopen(&self, path: &Path, _: &Shape, _: bool) -> Result<hash::Hash> {
        hash::Hash::open(path)
    }

    fn create_noting(&self, path: &Path, _: &Shape, noting: Noting) -> Result<Option<hash::Hash>> {
        let options = hash::Hash::options().create(true).statistics(noting.statistics());
        options.open(path).map(Some)
    }

    fn handles(
        &self,
        path: &Path,
        count: usize,
        are_opened: bool,
    ) -> Result<Vec<OnThread<hash::Hash>>> {
        let first = hash::Hash::open(path)?;
        let one = |i| match i {
            0 => Ok(first.clone()),
            _ if are_opened => hash::Hash::open(path),
            _ => Ok(first.clone()),
        };
        // SAFETY: handles are `Send`.
        (0..count).map(|i| Ok(unsafe { OnThread::new(one(i)?) })).collect()
    }

    fn crew(
        &self,
        path: &Path,
        _: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<hash::Hash, hash::Hash>> {
        let store = hash::Hash::open(path)?;
        let writer = with_writer.then(|| store.clone());
        // SAFETY: handles are `Send`.
        Ok(unsafe { Crew::of(vec![store; readers], writer) })
    }

    fn committers(
        &self,
        path: &Path,
        shape: &Shape,
        count: usize,
        is_durable: bool,
    ) -> Result<Committers<hash::Hash>> {
        let create = if is_durable { Self::create_durable } else { Self::create };
        let store = create(self, path, shape)?;
        // SAFETY: handles are `Send`.
        unsafe { Committers::of(store, count, |owner| Ok(owner.clone())) }
    }

    /// Every operation is a transaction.
    fn promise(fault: Fault, is_durable: bool) -> Promise {
        match fault {
            Fault::Power if !is_durable => Promise::Moment,
            _ => Promise::All,
        }
    }

    fn verify(&self, path: &Path) -> Result<()> {
        hash::Hash::open(path)?.verify(|_, _| ())
    }

    fn make_rebooted(path: &Path) -> Result<()> {
        with_another_boot(path)
    }

    fn open_to_change(&self, path: &Path, _: &Shape) -> Result<hash::Hash> {
        hash::Hash::open(path)
    }
}

impl Store for hash::Hash {
    #[inline]
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
        Ok(self.get_with(key, take)?.is_some())
    }

    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        hash::Hash::get_many(self, keys, take)
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        Scan::scan(self, |key, value| {
            take(key, value);
            Ok(())
        })
    }

    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        let stats = self.stats()?;
        Ok(vec![
            ("records", stats.records),
            ("live_bytes", stats.live_bytes),
            ("dead_bytes", stats.dead_bytes),
            ("retired_bytes", stats.retired_bytes),
            ("free_bytes", stats.free_bytes),
            ("index_bytes", stats.index_bytes),
            ("page_bytes", stats.page_bytes),
            ("directory_entries", stats.directory_entries),
            ("changes", stats.changes),
            ("durable_changes", stats.durable_changes),
        ])
    }
}

impl Writer for hash::Hash {
    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        hash::Hash::insert(self, key, value)
    }

    fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        hash::Hash::insert_if_absent(self, key, value)
    }

    fn sync(&mut self) -> Result<bool> {
        hash::Hash::sync(self).map(|()| true)
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        hash::Hash::remove(self, key)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}
