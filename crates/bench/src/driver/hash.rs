//! Our hash engine, with its default options: it is told nothing of how many records are to come.

#![allow(unsafe_code)]

use super::kept::Kept;
use super::on_thread::new_or_there;
use super::{
    Announces, Committers, Crew, Driver, Fault, Identity, Noting, OnThread, OwnCount, Promise,
    Reading, Shape, Sharing, Source, Store, Threads, Writer, with_another_boot,
};
use crate::settings::{ALWAYS_MAPPED, Name, Takes, Values};
use credenza::{Durability, Result, Scan, hash};
use std::path::Path;

pub(super) struct Hash;

fn options(shape: &Shape, reading: Reading) -> hash::OpenOptions {
    match reading.advice(shape) {
        Some(advice) => hash::Hash::options().advice(advice),
        None => hash::Hash::options(),
    }
}

/// For those who change the store.
fn to_change(shape: &Shape) -> hash::OpenOptions {
    options(shape, Reading::Warm)
}

/// A handle for changes: each is a transaction, or all are part of the one that was begun.
pub(super) struct Changer {
    /// Fields are dropped in order: the store last.
    transaction: Option<hash::Transaction<'static>>,
    store: Kept<hash::Hash>,
}

impl Changer {
    fn of(store: hash::Hash) -> Changer {
        Changer { transaction: None, store: Kept::new(store) }
    }
}

impl Driver for Hash {
    const NAME: &'static str = "hash";
    const REOPENS: bool = true;
    const SOURCE: Option<Source> = None;
    const ANNOUNCES: Announces = Announces::AsAsked;
    const SETTINGS: &'static [Takes] =
        &[ALWAYS_MAPPED, (Name::Memory, Values::Either), (Name::Advice, Values::Either)];
    const NATIVE_GET_MANY: bool = true;
    const COMMITS: bool = true;
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
        "defaults: grows as records come, with its lock between processes, nothing sized; preload, or \
         advice RANDOM for a cold cache"
            .to_owned()
    }

    type Store<'d> = hash::Hash;

    fn open(&self, path: &Path, shape: &Shape, reading: Reading) -> Result<hash::Hash> {
        options(shape, reading).open(path)
    }

    type Writer<'d> = Changer;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        let store = match shape.settings.memory() {
            true => hash::Hash::in_memory(),
            false => to_change(shape).create(true).open(path),
        };
        store.map(Changer::of)
    }

    /// Every change is a transaction anyway.
    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        self.create(path, shape)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        let options = to_change(shape).create(true).durability(Durability::Sync);
        options.open(path).map(Changer::of)
    }

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<Changer> {
        to_change(shape).open(path).map(Changer::of)
    }

    fn create_noting(&self, path: &Path, shape: &Shape, noting: Noting) -> Result<Option<Changer>> {
        let options = to_change(shape).create(true).statistics(noting.statistics());
        options.open(path).map(Changer::of).map(Some)
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
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<hash::Hash, Changer>> {
        let store = to_change(shape).open(path)?;
        let writer = with_writer.then(|| Changer::of(store.clone()));
        // SAFETY: handles are `Send`.
        Ok(unsafe { Crew::of(vec![store; readers], writer) })
    }

    fn committers(
        &self,
        path: &Path,
        shape: &Shape,
        count: usize,
        is_durable: bool,
    ) -> Result<Committers<Changer>> {
        let store = new_or_there(self, path, shape, is_durable)?;
        // SAFETY: handles are `Send`.
        unsafe { Committers::of(store, count, |owner| Ok(Changer::of(owner.store.get().clone()))) }
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

    fn open_to_change(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        to_change(shape).open(path).map(Changer::of)
    }
}

impl Store for hash::Hash {
    const PRELOADS: bool = true;

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

    fn preload(&mut self, _: &Path) -> Result<()> {
        hash::Hash::preload(self)
    }

    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        own_counters(self)
    }
}

fn own_counters(store: &hash::Hash) -> Result<Vec<OwnCount>> {
    let stats = store.stats()?;
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

impl Store for Changer {
    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        match &self.transaction {
            Some(transaction) => Ok(transaction.get(key)?.map(take).is_some()),
            None => Ok(self.store.get().get_with(key, &mut take)?.is_some()),
        }
    }

    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        match &self.transaction {
            Some(_) => super::store::one_by_one(self, keys, take),
            None => self.store.get().get_many(keys, take),
        }
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let each = |key: &[u8], value: &[u8]| {
            take(key, value);
            Ok(())
        };
        match &self.transaction {
            Some(transaction) => transaction.scan(each),
            None => self.store.get().scan(each),
        }
    }

    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        own_counters(self.store.get())
    }
}

impl Writer for Changer {
    const HAS_TRANSACTIONS: bool = true;
    /// A transaction keeps its changes in memory, so that one of all records is not how a store is filled.
    const FILLS_IN_ONE: bool = false;

    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.store.get().transaction()?);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.transaction.take().map_or(Ok(()), hash::Transaction::commit)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match &mut self.transaction {
            Some(transaction) => transaction.insert(key, value),
            None => self.store.get().insert(key, value),
        }
    }

    fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let Some(transaction) = &mut self.transaction else {
            return self.store.get().insert_if_absent(key, value);
        };
        let is_new = transaction.get(key)?.is_none();
        if is_new {
            transaction.insert(key, value)?;
        }
        Ok(is_new)
    }

    /// Not within a transaction, whose thread has the lock that it takes.
    fn sync(&mut self) -> Result<bool> {
        match self.transaction {
            Some(_) => Ok(false),
            None => self.store.get().sync().map(|()| true),
        }
    }

    /// A transaction does not say whether the key was there: it is looked up before.
    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let Some(transaction) = &mut self.transaction else {
            return self.store.get().remove(key);
        };
        let was_there = transaction.get(key)?.is_some();
        if was_there {
            transaction.remove(key)?;
        }
        Ok(was_there)
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}
