//! Our btree engine, with its default options: it is told nothing about what is to come.
//!
//! As LMDB's driver: one transaction for the build, by a bulk load when the keys come sorted, else by
//! a load that sorts them; lookups in one snapshot; single changes all in one transaction, which is
//! committed at the end, or each in one of its own.

#![allow(unsafe_code)]

use super::kept::Kept;
use super::{
    Changes, Committers, Crew, Driver, Fault, Identity, Promise, Reading, Shape, Sharing, Source,
    Store, Threads, Writer, with_another_boot,
};
use crate::settings::{Name, Takes, Values};
use crate::workload::{Place, Records};
use credenza::btree::{self, Duplicates, MultiTable, MultiTableMut, Position, TableOptions};
use credenza::{BTreeLoad, Durability, Error, Result};
use std::path::Path;

pub(super) struct BTree;

fn options(shape: &Shape) -> btree::OpenOptions {
    btree::BTree::options().check_reads(shape.settings.checksums() == Some(true))
}

/// A new store, with a table for keys with several values if they have such.
fn created(path: &Path, shape: &Shape) -> Result<btree::BTree> {
    let store = match shape.settings.memory() {
        true => btree::BTree::in_memory()?,
        false => options(shape).create(true).open(path)?,
    };
    if shape.duplicates.is_some() {
        let mut transaction = store.write()?;
        let several = TableOptions::new().duplicates(Duplicates::Inserted);
        transaction.create_table_with(SEVERAL, &several)?;
        transaction.commit()?;
    }
    Ok(store)
}

/// The table of keys with several values.
const SEVERAL: &str = "several";

fn no_table() -> Error {
    Error::invalid(format!("there is no table '{SEVERAL}'"))
}

fn several<'t>(snapshot: &'t btree::Snapshot<'_>) -> Result<MultiTable<'t>> {
    snapshot.multi_table(SEVERAL)?.ok_or_else(no_table)
}

fn several_mut<'t, 's>(
    transaction: &'t mut btree::Transaction<'s>,
) -> Result<MultiTableMut<'t, 's>> {
    transaction.multi_table(SEVERAL)?.ok_or_else(no_table)
}

/// A snapshot for all lookups. Fields are dropped in order: the store last.
pub(super) struct Reader {
    /// By which lookups are done, if the user chose that.
    cursor: Option<btree::Cursor<'static>>,
    snapshot: Kept<btree::Snapshot<'static>>,
    has_several: bool,
    store: Kept<btree::BTree>,
}

/// A transaction for all changes, or none where each has its own.
pub(super) struct Changer {
    transaction: Option<btree::Transaction<'static>>,
    /// Where one more value of a key goes, where keys have several.
    place: Option<Place>,
    /// Whether lookups and changes of records that are there are done by a cursor.
    uses_cursor: bool,
    store: Kept<btree::BTree>,
}

impl Driver for BTree {
    const NAME: &'static str = "btree";
    const REOPENS: bool = true;
    const HAS_DUPLICATES: bool = true;
    const SOURCE: Option<Source> = None;
    const SETTINGS: &'static [Takes] = &[
        (Name::Checksums, Values::Either),
        (Name::Cursors, Values::Either),
        (Name::Memory, Values::Either),
    ];
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
            true => "a bulk load as the keys come sorted",
            false => "a load, which sorts the records first,",
        };
        format!(
            "defaults, with its lock between processes; build: {build} in one transaction; single \
             changes: one transaction for the whole phase, or one for each; lookups: one snapshot"
        )
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        let store = created(path, shape)?;
        if !shape.is_sorted {
            let mut load = BTreeLoad::begin(&store, None);
            records.iter().try_for_each(|(key, value)| load.add(key, value))?;
            return load.finish();
        }
        let mut transaction = store.write()?;
        transaction.main().bulk_load(records.iter().map(Ok))?;
        transaction.commit()
    }

    type Store<'d> = Reader;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<Reader> {
        Reader::of(options(shape).open(path)?, shape)
    }

    type Writer<'d> = Changer;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        Changer::over(created(path, shape)?, shape, true)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        Changer::over(created(path, shape)?, shape, false)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        let options = options(shape).create(true).durability(Durability::Sync);
        Changer::over(options.open(path)?, shape, false)
    }

    fn reopen(&self, path: &Path, shape: &Shape, commits: bool) -> Result<Changer> {
        Changer::over(options(shape).open(path)?, shape, !commits)
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<Reader, Changer>> {
        let store = options(shape).open(path)?;
        let writer = with_writer.then(|| Changer::over(store.clone(), shape, false)).transpose()?;
        let reader = |_| Reader::of(store.clone(), shape);
        let readers = (0..readers).map(reader).collect::<Result<_>>()?;
        // SAFETY: handles and snapshots are `Send`.
        Ok(unsafe { Crew::of(readers, writer) })
    }

    fn committers(&self, path: &Path, shape: &Shape, count: usize) -> Result<Committers<Changer>> {
        let store = self.create_durable(path, shape)?;
        let handle = |owner: &Changer| Changer::over(owner.store.get().clone(), shape, false);
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
        Changer::over(options(shape).open(path)?, shape, false)
    }
}

impl Reader {
    fn of(store: btree::BTree, shape: &Shape) -> Result<Reader> {
        let store = Kept::new(store);
        let snapshot = Kept::new(store.get().read()?);
        let cursor = shape.settings.cursors().then(|| snapshot.get().main().cursor());
        Ok(Reader { cursor, snapshot, has_several: shape.duplicates.is_some(), store })
    }
}

impl Changer {
    /// One whose changes are all in one transaction, or each in one of its own.
    fn over(store: btree::BTree, shape: &Shape, in_one: bool) -> Result<Changer> {
        let store = Kept::new(store);
        let transaction = in_one.then(|| store.get().write()).transpose()?;
        let (place, uses_cursor) = (shape.duplicates, shape.settings.cursors());
        Ok(Changer { transaction, place, uses_cursor, store })
    }

    /// Does `work`, which changes the main table, in the transaction that is open or in one of its own.
    fn change_main<T>(
        &mut self,
        work: impl FnOnce(&mut btree::Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        if let Some(transaction) = &mut self.transaction {
            return work(transaction);
        }
        let mut transaction = self.store.get().write()?;
        let done = work(&mut transaction)?;
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

fn scan(table: btree::Table<'_>, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
    table.scan(|key, value| {
        take(key, value);
        Ok(())
    })
}

fn range(
    table: btree::Table<'_>,
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
            return Ok(several(self.snapshot.get())?.get(key)?.map(|value| take(&value)).is_some());
        }
        if let Some(cursor) = &mut self.cursor {
            let is_there = cursor.find(key)?;
            return Ok(cursor.value()?.filter(|_| is_there).map(take).is_some());
        }
        Ok(self.snapshot.get().main().get(key)?.map(take).is_some())
    }

    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.snapshot.get().main().get_many(keys, take)
    }

    fn refresh(&mut self) -> Result<()> {
        let has_cursor = self.cursor.take().is_some();
        self.snapshot = Kept::new(self.store.get().read()?);
        self.cursor = has_cursor.then(|| self.snapshot.get().main().cursor());
        Ok(())
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.has_several {
            return range_of_several(several(self.snapshot.get())?, b"", usize::MAX, take);
        }
        scan(self.snapshot.get().main(), take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.has_several {
            return range_of_several(several(self.snapshot.get())?, from, count, take);
        }
        range(self.snapshot.get().main(), from, count, take)
    }
}

impl Store for Changer {
    const IS_ORDERED: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        if self.place.is_some() {
            let first =
                |table: MultiTable<'_>| Ok(table.get(key)?.map(|value| take(&value)).is_some());
            return self.read_several(first);
        }
        Ok(match &mut self.transaction {
            Some(transaction) if self.uses_cursor => {
                let mut cursor = transaction.main().cursor();
                let is_there = cursor.find(key)?;
                cursor.value()?.filter(|_| is_there).map(take).is_some()
            }
            None if self.uses_cursor => {
                let snapshot = self.store.get().read()?;
                let mut cursor = snapshot.main().cursor();
                let is_there = cursor.find(key)?;
                cursor.value()?.filter(|_| is_there).map(take).is_some()
            }
            Some(transaction) => transaction.main().get(key)?.map(take).is_some(),
            None => self.store.get().read()?.main().get(key)?.map(take).is_some(),
        })
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.place.is_some() {
            return self.range(b"", usize::MAX, take);
        }
        match &mut self.transaction {
            Some(transaction) => scan(transaction.main().read(), take),
            None => scan(self.store.get().read()?.main(), take),
        }
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.place.is_some() {
            return self.read_several(|table| range_of_several(table, from, count, take));
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
        if self.place.is_some() {
            return self.change_several(|table| {
                table.remove(key)?;
                table.insert(key, value).map(drop)
            });
        }
        if self.uses_cursor {
            return self.change_main(|transaction| {
                let mut cursor = transaction.main().cursor();
                if cursor.find(key)? {
                    return cursor.put(value);
                }
                drop(cursor);
                transaction.main().insert(key, value).map(drop)
            });
        }
        let is_new = match &mut self.transaction {
            Some(transaction) => transaction.main().insert(key, value),
            None => self.store.get().insert(key, value),
        };
        is_new.map(drop)
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let is_first = self.place == Some(Place::First);
        let position = if is_first { Position::First } else { Position::Last };
        self.change_several(|table| table.insert_at(key, position, value).map(drop))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        if self.place.is_some() {
            return self.change_several(|table| Ok(table.remove(key)? > 0));
        }
        if self.uses_cursor {
            return self.change_main(|transaction| {
                let mut cursor = transaction.main().cursor();
                let is_there = cursor.find(key)?;
                if is_there { cursor.remove().map(|()| true) } else { Ok(false) }
            });
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
