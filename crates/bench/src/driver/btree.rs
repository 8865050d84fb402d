//! Our btree engine, with its default options: it is told nothing about what is to come.
//!
//! As LMDB's driver: one transaction for the build, by a bulk load when the keys come sorted, else by
//! a load that sorts them; lookups in one snapshot; single changes all in one transaction, which is
//! committed at the end, or each in one of its own.

#![allow(unsafe_code)]

use super::btree_tables::{Home, TYPES, TypedTable, several, several_mut, typed, typed_mut};
use super::kept::Kept;
use super::{
    Changes, Committers, Crew, Driver, Fault, Identity, Promise, Reading, Shape, Sharing, Source,
    Store, Threads, Writer, with_another_boot,
};
use crate::settings::{Name, Takes, Values};
use crate::workload::{KeyType, Place, Records};
use credenza::btree::{self, MultiTable, MultiTableMut, Position, Table, TableMut};
use credenza::{Durability, Result};
use std::path::Path;

pub(super) struct BTree;

fn options(shape: &Shape) -> btree::OpenOptions {
    btree::BTree::options().check_reads(shape.settings.checksums() == Some(true))
}

/// A new store, with the table that the records will be in.
fn created(path: &Path, shape: &Shape, durability: Durability) -> Result<btree::BTree> {
    let store = match shape.settings.memory() {
        true => btree::BTree::in_memory()?,
        false => options(shape).create(true).durability(durability).open(path)?,
    };
    Home::of(shape).make(&store, shape)?;
    Ok(store)
}

/// A snapshot for all lookups. Fields are dropped in order: the store last.
pub(super) struct Reader {
    /// Where the records are if keys have a type.
    typed: Option<TypedTable>,
    snapshot: btree::Snapshot<'static>,
    has_several: bool,
    store: Kept<btree::BTree>,
}

/// A transaction for all changes, or none where each has its own.
pub(super) struct Changer {
    transaction: Option<btree::Transaction<'static>>,
    home: Home,
    store: Kept<btree::BTree>,
}

impl Driver for BTree {
    const NAME: &'static str = "btree";
    const REOPENS: bool = true;
    const HAS_DUPLICATES: bool = true;
    const KEY_TYPES: &'static [KeyType] = TYPES;
    const SOURCE: Option<Source> = None;
    const SETTINGS: &'static [Takes] =
        &[(Name::Checksums, Values::Either), (Name::Memory, Values::Either)];
    const NATIVE_GET_MANY: bool = true;
    const SYNCS: &'static str = "fdatasync when the last process closes it";
    const CHANGES: Changes = Changes::AtClose;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("Durability::Sync");

    const SHARING: Sharing = Sharing::Writer;
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;

    fn load(_: Option<&Path>) -> Result<BTree> {
        Ok(BTree)
    }

    fn identity(&self) -> Identity {
        Identity { version: env!("CARGO_PKG_VERSION").to_owned(), file: None }
    }

    fn tuning(&self, shape: &Shape) -> String {
        let build = match shape.is_sorted {
            true if shape.keys.is_numbered() => "one append after the other",
            true => "a bulk load as the keys come sorted",
            false => "a load, which sorts the records first,",
        };
        let table = match Home::of(shape) {
            Home::Typed(keys) if keys.is_numbered() => ", a table that numbers records".to_owned(),
            Home::Typed(keys) => format!(", a table of keys of type {keys}"),
            Home::Main | Home::Several(_) => String::new(),
        };
        format!(
            "defaults{table}, with its lock between processes; build: {build} in one transaction; single \
             changes: one transaction for the whole phase, or one for each; lookups: one snapshot"
        )
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        let store = created(path, shape, Durability::default())?;
        Home::of(shape).fill(&store, records, shape)
    }

    type Store<'d> = Reader;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<Reader> {
        Reader::of(options(shape).open(path)?, Home::of(shape))
    }

    type Writer<'d> = Changer;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        let store = Kept::new(created(path, shape, Durability::default())?);
        Ok(Changer { transaction: Some(store.get().write()?), home: Home::of(shape), store })
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        Ok(Changer::of(created(path, shape, Durability::default())?, Home::of(shape)))
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        Ok(Changer::of(created(path, shape, Durability::Sync)?, Home::of(shape)))
    }

    fn reopen(&self, path: &Path, shape: &Shape, commits: bool) -> Result<Changer> {
        let store = Kept::new(options(shape).open(path)?);
        let transaction = if commits { None } else { Some(store.get().write()?) };
        Ok(Changer { transaction, home: Home::of(shape), store })
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<Reader, Changer>> {
        let (store, home) = (options(shape).open(path)?, Home::of(shape));
        let writer = with_writer.then(|| Changer::of(store.clone(), home));
        let reader = |_| Reader::of(store.clone(), home);
        let readers = (0..readers).map(reader).collect::<Result<_>>()?;
        // SAFETY: handles and snapshots are `Send`, and a table goes where its snapshot does.
        Ok(unsafe { Crew::of(readers, writer) })
    }

    fn committers(&self, path: &Path, shape: &Shape, count: usize) -> Result<Committers<Changer>> {
        let store = self.create_durable(path, shape)?;
        let handle = |owner: &Changer| Ok(Changer::of(owner.store.get().clone(), owner.home));
        // SAFETY: handles are `Send`.
        unsafe { Committers::of(store, count, handle) }
    }

    fn promise(fault: Fault, is_durable: bool) -> Promise {
        match fault {
            Fault::Power if !is_durable => Promise::Moment,
            _ => Promise::All,
        }
    }

    fn verify(&self, path: &Path) -> Result<()> {
        btree::BTree::open(path)?.verify(|_, _| ())
    }

    fn make_rebooted(path: &Path) -> Result<()> {
        with_another_boot(path)
    }

    fn open_to_change(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        Ok(Changer::of(options(shape).open(path)?, Home::of(shape)))
    }
}

impl Reader {
    fn of(store: btree::BTree, home: Home) -> Result<Reader> {
        let store = Kept::new(store);
        let is_typed = matches!(home, Home::Typed(_));
        let typed = is_typed.then(|| TypedTable::now(store.get())).transpose()?;
        let has_several = matches!(home, Home::Several(_));
        Ok(Reader { typed, snapshot: store.get().read()?, has_several, store })
    }

    /// The table whose keys have one value each.
    #[inline]
    fn table(&self) -> Table<'_> {
        self.typed.as_ref().map_or_else(|| self.snapshot.main(), |typed| typed.table)
    }
}

impl Changer {
    /// One whose changes each have a transaction of their own.
    fn of(store: btree::BTree, home: Home) -> Changer {
        Changer { transaction: None, home, store: Kept::new(store) }
    }

    fn has_several(&self) -> bool {
        matches!(self.home, Home::Several(_))
    }

    fn is_typed(&self) -> bool {
        matches!(self.home, Home::Typed(_))
    }

    /// Reads the table of keys with a type, as it is now.
    fn read_typed<T>(&mut self, work: impl FnOnce(Table<'_>) -> Result<T>) -> Result<T> {
        match &mut self.transaction {
            Some(transaction) => work(typed_mut(transaction)?.read()),
            None => work(typed(&self.store.get().read()?)?),
        }
    }

    /// Changes it, in the transaction that is open or in one of its own.
    fn change_typed<T>(
        &mut self,
        work: impl FnOnce(&mut TableMut<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        if let Some(transaction) = &mut self.transaction {
            return work(&mut typed_mut(transaction)?);
        }
        let mut transaction = self.store.get().write()?;
        let done = work(&mut typed_mut(&mut transaction)?)?;
        transaction.commit().map(|()| done)
    }

    /// Reads the table of keys with several values, as it is now.
    fn read_several<T>(&mut self, work: impl FnOnce(MultiTable<'_>) -> Result<T>) -> Result<T> {
        match &mut self.transaction {
            Some(transaction) => work(several_mut(transaction)?.read()),
            None => work(several(&self.store.get().read()?)?),
        }
    }

    /// Changes it, in the transaction that is open or in one of its own.
    fn change_several<T>(
        &mut self,
        work: impl FnOnce(&mut MultiTableMut<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        if let Some(transaction) = &mut self.transaction {
            return work(&mut several_mut(transaction)?);
        }
        let mut transaction = self.store.get().write()?;
        let done = work(&mut several_mut(&mut transaction)?)?;
        transaction.commit().map(|()| done)
    }
}

fn scan(table: Table<'_>, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
    table.scan(|key, value| {
        take(key, value);
        Ok(())
    })
}

fn range(
    table: Table<'_>,
    from: &[u8],
    count: usize,
    take: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    if count == 0 { Ok(()) } else { table.scan_range(from.., up_to(count, take)) }
}

fn range_of_several(
    table: MultiTable<'_>,
    from: &[u8],
    count: usize,
    take: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    if count == 0 { Ok(()) } else { table.scan_range(from.., up_to(count, take)) }
}

/// Takes so many records, and then says that it is enough.
fn up_to(
    count: usize,
    mut take: impl FnMut(&[u8], &[u8]),
) -> impl FnMut(&[u8], &[u8]) -> Result<bool> {
    let mut left = count;
    move |key, value| {
        take(key, value);
        left -= 1;
        Ok(left > 0)
    }
}

impl Store for Reader {
    const IS_ORDERED: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        if self.has_several {
            return Ok(several(&self.snapshot)?.get(key)?.map(|value| take(&value)).is_some());
        }
        Ok(self.table().get(key)?.map(take).is_some())
    }

    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.table().get_many(keys, take)
    }

    fn refresh(&mut self) -> Result<()> {
        self.snapshot = self.store.get().read()?;
        if self.typed.is_some() {
            self.typed = Some(TypedTable::now(self.store.get())?);
        }
        Ok(())
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.has_several {
            return range_of_several(several(&self.snapshot)?, b"", usize::MAX, take);
        }
        scan(self.table(), take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.has_several {
            return range_of_several(several(&self.snapshot)?, from, count, take);
        }
        range(self.table(), from, count, take)
    }
}

impl Store for Changer {
    const IS_ORDERED: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        if self.has_several() {
            let first =
                |table: MultiTable<'_>| Ok(table.get(key)?.map(|value| take(&value)).is_some());
            return self.read_several(first);
        }
        if self.is_typed() {
            return self.read_typed(|table| Ok(table.get(key)?.map(take).is_some()));
        }
        Ok(match &mut self.transaction {
            Some(transaction) => transaction.main().get(key)?.map(take).is_some(),
            None => self.store.get().read()?.main().get(key)?.map(take).is_some(),
        })
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.has_several() {
            return self.range(b"", usize::MAX, take);
        }
        if self.is_typed() {
            return self.read_typed(|table| scan(table, take));
        }
        match &mut self.transaction {
            Some(transaction) => scan(transaction.main().read(), take),
            None => scan(self.store.get().read()?.main(), take),
        }
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.has_several() {
            return self.read_several(|table| range_of_several(table, from, count, take));
        }
        if self.is_typed() {
            return self.read_typed(|table| range(table, from, count, take));
        }
        match &mut self.transaction {
            Some(transaction) => range(transaction.main().read(), from, count, take),
            None => range(self.store.get().read()?.main(), from, count, take),
        }
    }
}

impl Writer for Changer {
    const HAS_TRANSACTIONS: bool = true;

    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.store.get().write()?);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.transaction.take().map_or(Ok(()), btree::Transaction::commit)
    }

    fn sync(&mut self) -> Result<bool> {
        self.store.get().sync().map(|()| true)
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.has_several() {
            return self.change_several(|table| {
                table.remove(key)?;
                table.insert(key, value).map(drop)
            });
        }
        if self.is_typed() {
            let home = self.home;
            return self.change_typed(|table| home.put(table, key, value));
        }
        let is_new = match &mut self.transaction {
            Some(transaction) => transaction.main().insert(key, value),
            None => self.store.get().insert(key, value),
        };
        is_new.map(drop)
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let is_first = self.home == Home::Several(Place::First);
        let position = if is_first { Position::First } else { Position::Last };
        self.change_several(|table| table.insert_at(key, position, value).map(drop))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        if self.has_several() {
            return self.change_several(|table| Ok(table.remove(key)? > 0));
        }
        if self.is_typed() {
            return self.change_typed(|table| table.remove(key));
        }
        match &mut self.transaction {
            Some(transaction) => transaction.main().remove(key),
            None => self.store.get().remove(key),
        }
    }

    fn close(self) -> Result<()> {
        let Changer { transaction, store, .. } = self;
        transaction.map_or(Ok(()), btree::Transaction::commit)?;
        drop(store);
        Ok(())
    }
}
