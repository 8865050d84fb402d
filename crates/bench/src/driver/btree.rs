//! Our btree engine, with its default options: it is told nothing about what is to come.
//!
//! As LMDB's driver: one transaction for the build, by a bulk load when the keys come sorted, else by
//! a load that sorts them; lookups in one snapshot; single changes all in one transaction, which is
//! committed at the end, or each in one of its own.

#![allow(unsafe_code)]

use super::btree_tables::{Home, TYPES, several, several_mut};
use super::kept::Kept;
use super::on_thread::new_or_there;
use super::{
    Announces, Changes, Committers, Crew, Driver, Fault, Identity, Noting, OnThread, OwnCount,
    Promise, Reading, Shape, Sharing, Source, Store, Threads, Writer, with_another_boot,
};
use crate::settings::{ALWAYS_MAPPED, Name, Takes, Values};
use crate::workload::{KeyType, Place, Records};
use credenza::btree::{self, Cursor, MultiTable, MultiTableMut, Position, Table};
use credenza::{Durability, Result};
use std::path::Path;

pub(super) struct BTree;

fn options(shape: &Shape, reading: Reading) -> btree::OpenOptions {
    let options = btree::BTree::options().check_reads(shape.settings.checksums() == Some(true));
    match reading.advice(shape) {
        Some(advice) => options.advice(advice),
        None => options,
    }
}

/// For those who change the store.
fn to_change(shape: &Shape) -> btree::OpenOptions {
    options(shape, Reading::Warm)
}

/// A new store, with the table that the records will be in.
fn created(path: &Path, shape: &Shape, durability: Durability) -> Result<btree::BTree> {
    let store = match shape.settings.memory() {
        true => btree::BTree::in_memory()?,
        false => to_change(shape).create(true).durability(durability).open(path)?,
    };
    Home::of(shape).make(&store, shape)?;
    Ok(store)
}

/// A snapshot for all lookups. Fields are dropped in order: the store last.
pub(super) struct Reader {
    /// By which lookups are done, if the user chose that.
    cursor: Option<Cursor<'static>>,
    /// Where the records are, unless keys have several values.
    table: Table<'static>,
    home: Home,
    snapshot: Kept<btree::Snapshot<'static>>,
    store: Kept<btree::BTree>,
}

/// A transaction for all changes, or none where each has its own.
pub(super) struct Changer {
    transaction: Option<btree::Transaction<'static>>,
    home: Home,
    /// Whether lookups and changes of records that are there are done by a cursor.
    uses_cursor: bool,
    store: Kept<btree::BTree>,
}

impl Driver for BTree {
    const NAME: &'static str = "btree";
    const REOPENS: bool = true;
    const HAS_DUPLICATES: bool = true;
    const KEY_TYPES: &'static [KeyType] = TYPES;
    const SOURCE: Option<Source> = None;
    const SETTINGS: &'static [Takes] = &[
        ALWAYS_MAPPED,
        (Name::Checksums, Values::Either),
        (Name::Cursors, Values::Either),
        (Name::Memory, Values::Either),
        (Name::Advice, Values::Either),
    ];
    const NATIVE_GET_MANY: bool = true;
    const ANNOUNCES: Announces = Announces::AsAsked;
    const SYNCS: &'static str = "fdatasync when the last process closes it";
    const CHANGES: Changes = Changes::AtClose;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("Durability::Sync");

    const SHARING: Sharing = Sharing::Writer;
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;
    const HAS_COMMITTING_PROCESSES: bool = true;

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
            "defaults{table}, with its lock between processes, preload, or advice RANDOM for a cold cache; build: {build} in one transaction; single \
             changes: one transaction for the whole phase, or one for each; lookups: one snapshot"
        )
    }

    fn build(&self, records: &Records, shape: &Shape, path: &Path) -> Result<()> {
        let store = created(path, shape, Durability::default())?;
        Home::of(shape).fill(&store, records, shape)
    }

    type Store<'d> = Reader;

    fn open(&self, path: &Path, shape: &Shape, reading: Reading) -> Result<Reader> {
        Reader::of(options(shape, reading).open(path)?, shape)
    }

    type Writer<'d> = Changer;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        Changer::over(created(path, shape, Durability::default())?, shape, true)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        Changer::over(created(path, shape, Durability::default())?, shape, false)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        Changer::over(created(path, shape, Durability::Sync)?, shape, false)
    }

    fn reopen(&self, path: &Path, shape: &Shape, commits: bool) -> Result<Changer> {
        Changer::over(to_change(shape).open(path)?, shape, !commits)
    }

    fn create_noting(&self, path: &Path, shape: &Shape, noting: Noting) -> Result<Option<Changer>> {
        let store = to_change(shape).create(true).statistics(noting.statistics()).open(path)?;
        Home::of(shape).make(&store, shape)?;
        Changer::over(store, shape, true).map(Some)
    }

    /// Each with a snapshot of its own.
    fn handles(
        &self,
        path: &Path,
        count: usize,
        are_opened: bool,
    ) -> Result<Vec<OnThread<Reader>>> {
        let first = btree::BTree::open(path)?;
        let one = |i| match i {
            0 => Ok(first.clone()),
            _ if are_opened => btree::BTree::open(path),
            _ => Ok(first.clone()),
        };
        let reader = |i| Reader::of(one(i)?, &Shape::of_nothing());
        // SAFETY: handles and snapshots are `Send`, and tables go where their snapshots do.
        (0..count).map(|i| Ok(unsafe { OnThread::new(reader(i)?) })).collect()
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<Reader, Changer>> {
        let store = to_change(shape).open(path)?;
        let writer = with_writer.then(|| Changer::over(store.clone(), shape, false)).transpose()?;
        let reader = |_| Reader::of(store.clone(), shape);
        let readers = (0..readers).map(reader).collect::<Result<_>>()?;
        // SAFETY: handles and snapshots are `Send`, and tables and cursors go where their snapshots do.
        Ok(unsafe { Crew::of(readers, writer) })
    }

    fn committers(
        &self,
        path: &Path,
        shape: &Shape,
        count: usize,
        is_durable: bool,
    ) -> Result<Committers<Changer>> {
        let store = new_or_there(self, path, shape, is_durable)?;
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
        Changer::over(to_change(shape).open(path)?, shape, false)
    }
}

impl Reader {
    fn of(store: btree::BTree, shape: &Shape) -> Result<Reader> {
        Reader::now(Kept::new(store), Home::of(shape), shape.settings.cursors())
    }

    /// One that sees the store as it is now.
    fn now(store: Kept<btree::BTree>, home: Home, uses_cursor: bool) -> Result<Reader> {
        let snapshot = Kept::new(store.get().read()?);
        let table = home.table(snapshot.get())?;
        let cursor = uses_cursor.then(|| table.cursor());
        Ok(Reader { cursor, table, home, snapshot, store })
    }
}

/// What a lookup gives to `take`, by a cursor; whether there is such a key.
#[inline]
fn found(cursor: &mut Cursor<'_>, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
    let is_there = cursor.find(key)?;
    Ok(cursor.value()?.filter(|_| is_there).map(take).is_some())
}

impl Changer {
    /// One whose changes are all in one transaction, or each in one of its own.
    fn over(store: btree::BTree, shape: &Shape, in_one: bool) -> Result<Changer> {
        let store = Kept::new(store);
        let transaction = in_one.then(|| store.get().write()).transpose()?;
        let (home, uses_cursor) = (Home::of(shape), shape.settings.cursors());
        Ok(Changer { transaction, home, uses_cursor, store })
    }

    /// Whether changes are of the main table, and not by a cursor.
    #[inline]
    fn is_plain(&self) -> bool {
        self.home == Home::Main && !self.uses_cursor
    }

    /// Reads the table of keys with one value each, as it is now.
    #[inline]
    fn read<T>(&mut self, work: impl FnOnce(Table<'_>) -> Result<T>) -> Result<T> {
        match &mut self.transaction {
            Some(transaction) => work(self.home.table_mut(transaction)?.read()),
            None => work(self.home.table(&self.store.get().read()?)?),
        }
    }

    /// Does `work` in the transaction that is open or in one of its own.
    fn change<T>(
        &mut self,
        work: impl FnOnce(&mut btree::Transaction<'static>) -> Result<T>,
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
        self.change(|transaction| work(&mut several_mut(transaction)?))
    }
}

fn scan(table: Table<'_>, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
    table.scan(|key, value| {
        take(key, value);
        Ok(())
    })
}

/// What the last commit has.
fn own_counters(store: &btree::BTree) -> Result<Vec<OwnCount>> {
    let stats = store.stats()?;
    Ok(vec![
        ("depth", stats.depth),
        ("live_bytes", stats.live_bytes),
        ("held_bytes", stats.held_bytes),
        ("undurable_bytes", stats.undurable_bytes),
        ("free_bytes", stats.free_bytes),
        ("commits", stats.commits),
    ])
}

/// Gives each of these records to `take`, the last one first.
fn back<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    records: impl DoubleEndedIterator<Item = Result<(K, V)>>,
    mut take: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    for record in records.rev() {
        let (key, value) = record?;
        take(key.as_ref(), value.as_ref());
    }
    Ok(())
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
    const SCANS_BACK: bool = true;
    const PRELOADS: bool = true;

    fn preload(&mut self, _: &Path) -> Result<()> {
        self.store.get().preload()
    }

    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        if self.home.has_several() {
            return Ok(several(self.snapshot.get())?.get(key)?.map(|value| take(&value)).is_some());
        }
        match &mut self.cursor {
            Some(cursor) => found(cursor, key, take),
            None => Ok(self.table.get(key)?.map(take).is_some()),
        }
    }

    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.table.get_many(keys, take)
    }

    fn refresh(&mut self) -> Result<()> {
        let snapshot = Kept::new(self.store.get().read()?);
        self.table = self.home.table(snapshot.get())?;
        self.cursor = self.cursor.take().map(|_| self.table.cursor());
        // Nothing borrows from the one before any more.
        self.snapshot = snapshot;
        Ok(())
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.home.has_several() {
            return range_of_several(several(self.snapshot.get())?, b"", usize::MAX, take);
        }
        scan(self.table, take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.home.has_several() {
            return range_of_several(several(self.snapshot.get())?, from, count, take);
        }
        range(self.table, from, count, take)
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.home.has_several() {
            return back(several(self.snapshot.get())?.iter(), take);
        }
        back(self.table.iter(), take)
    }

    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        own_counters(self.store.get())
    }
}

impl Store for Changer {
    const IS_ORDERED: bool = true;
    const SCANS_BACK: bool = true;
    #[inline]
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        if self.home.has_several() {
            let first =
                |table: MultiTable<'_>| Ok(table.get(key)?.map(|value| take(&value)).is_some());
            return self.read_several(first);
        }
        let uses_cursor = self.uses_cursor;
        self.read(|table| match uses_cursor {
            true => found(&mut table.cursor(), key, take),
            false => Ok(table.get(key)?.map(take).is_some()),
        })
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.home.has_several() {
            return self.range(b"", usize::MAX, take);
        }
        self.read(|table| scan(table, take))
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.home.has_several() {
            return self.read_several(|table| range_of_several(table, from, count, take));
        }
        self.read(|table| range(table, from, count, take))
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        if self.home.has_several() {
            return self.read_several(|table| back(table.iter(), take));
        }
        self.read(|table| back(table.iter(), take))
    }

    /// None within a transaction, of which a commit knows nothing yet.
    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        match self.transaction {
            None => own_counters(self.store.get()),
            Some(_) => Ok(Vec::new()),
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
        if self.home.has_several() {
            return self.change_several(|table| {
                table.remove(key)?;
                table.insert(key, value).map(drop)
            });
        }
        if !self.is_plain() {
            let (home, uses_cursor) = (self.home, self.uses_cursor);
            return self.change(|transaction| {
                if uses_cursor {
                    let mut cursor = home.table_mut(transaction)?.cursor();
                    if cursor.find(key)? {
                        return cursor.put(value);
                    }
                }
                home.put(&mut home.table_mut(transaction)?, key, value)
            });
        }
        let is_new = match &mut self.transaction {
            Some(transaction) => transaction.main().insert(key, value),
            None => self.store.get().insert(key, value),
        };
        is_new.map(drop)
    }

    fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.home == Home::Main
            && let Some(transaction) = &mut self.transaction
        {
            return transaction.main().insert_if_absent(key, value);
        }
        if self.get(key, |_| ())? {
            return Ok(false);
        }
        self.insert(key, value).map(|()| true)
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let is_first = self.home == Home::Several(Place::First);
        let position = if is_first { Position::First } else { Position::Last };
        self.change_several(|table| table.insert_at(key, position, value).map(drop))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        if self.home.has_several() {
            return self.change_several(|table| Ok(table.remove(key)? > 0));
        }
        if !self.is_plain() {
            let (home, uses_cursor) = (self.home, self.uses_cursor);
            return self.change(|transaction| {
                let mut table = home.table_mut(transaction)?;
                if !uses_cursor {
                    return table.remove(key);
                }
                let mut cursor = table.cursor();
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

#[cfg(test)]
mod tests {
    use super::*;
    use credenza::stats::{Operation, Outcome};

    #[test]
    fn what_is_noted_in_the_one_transaction_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        for noting in [Noting::Counted, Noting::Sampled, Noting::Clock, Noting::Tsc] {
            let path = folder.path().join(format!("{noting:?}"));
            let noted = BTree.create_noting(&path, &Shape::of_nothing(), noting).unwrap();
            let mut changer = noted.expect("it can note");
            changer.insert(b"key", b"value").unwrap();
            changer.insert(b"other", b"value").unwrap();
            assert!(changer.get(b"key", |got| assert_eq!(got, b"value")).unwrap());
            let counted = changer.store.get().operations().expect("statistics");
            let of = |operation, outcome| counted.of(operation).count(outcome);
            assert_eq!(of(Operation::Insert, Outcome::Done), 2, "{noting:?}");
            assert_eq!(of(Operation::Get, Outcome::Hit), 1, "{noting:?}");
        }
    }
}
