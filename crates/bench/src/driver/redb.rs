//! redb: a crate, and so part of this program.
//!
//! Tuning: a cache of twice the data; nothing is forced to the disk. Lookups are in one read
//! transaction. Single changes are all in one write transaction, which is committed at the end, or
//! each in one of its own, which is in the file when it is committed. Threads share a database, which
//! one process opens, and have each a transaction.

#![allow(unsafe_code)]

use super::kept::Kept;
use super::on_thread::new_or_there;
use super::{
    Changes, Committers, Crew, Driver, Identity, Reading, Shape, Source, Store, Threads, Writer,
    refused,
};
use crate::machine;
use crate::settings::{Name, Takes, Values};
use credenza::{Error, Result};
use redb::backends::{FileBackend, InMemoryBackend};
use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend, Table,
    TableDefinition, WriteTransaction,
};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The version in `Cargo.lock`; a test compares them.
const VERSION: &str = "4.5.0";

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("kv");

fn cache_bytes(shape: &Shape) -> usize {
    let usual = || (2 * shape.bytes()).min(machine::memory_bytes() / 4).max(96 << 20);
    shape.settings.cache().unwrap_or_else(usual) as usize
}

/// A file that is never forced to the disk: redb knows commits that are, and commits that do not
/// outlive the process, but none between them.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

pub(super) struct Redb;

/// An error of redb's; `call` is what it was asked for.
fn said<T, E: std::fmt::Display>(call: &str, answer: std::result::Result<T, E>) -> Result<T> {
    answer.map_err(|e| refused(call, e))
}

fn created(path: &Path, shape: &Shape) -> Result<Arc<Database>> {
    if shape.settings.memory() {
        let mut builder = Builder::new();
        let store = builder.set_cache_size(cache_bytes(shape));
        return said("create", store.create_with_backend(InMemoryBackend::new())).map(Arc::new);
    }
    opened(OpenOptions::new().read(true).write(true).create_new(true), path, shape)
}

/// Opens a store for changes; one that has nothing in it yet is made.
fn opened(options: &OpenOptions, path: &Path, shape: &Shape) -> Result<Arc<Database>> {
    let file = options.open(path).map_err(|e| Error::io("open", e).at(path))?;
    let backend = Unsynced(said("open", FileBackend::new(file))?);
    let mut builder = Builder::new();
    let store = builder.set_cache_size(cache_bytes(shape)).create_with_backend(backend);
    said("create", store).map(Arc::new)
}

impl Driver for Redb {
    const NAME: &'static str = "redb";
    const REOPENS: bool = true;
    const SOURCE: Option<Source> = None;
    const SETTINGS: &'static [Takes] =
        &[(Name::Cache, Values::AtLeast(64 << 10)), (Name::Memory, Values::Either)];
    const CHANGES: Changes = Changes::AtClose;
    const COMMITS: bool = true;
    const DURABLE: Option<&'static str> = Some("the library's own file backend");
    const THREADS: Threads = Threads::Shared;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;

    fn load(_: Option<&Path>) -> Result<Redb> {
        Ok(Redb)
    }

    fn identity(&self) -> Identity {
        Identity { version: VERSION.to_owned(), file: None }
    }

    fn tuning(&self, shape: &Shape) -> String {
        format!(
            "cache {} MiB, a file backend that does not sync; keys and values are &[u8]; changes: \
             one write transaction for the whole phase, or one for each; lookups: one read \
             transaction",
            cache_bytes(shape) >> 20
        )
    }

    type Store<'d> = Reader;

    fn open(&self, path: &Path, shape: &Shape, _: Reading) -> Result<Reader> {
        let opened = Builder::new().set_cache_size(cache_bytes(shape)).open_read_only(path);
        Reader::of(Arc::new(said("open", opened).map_err(|e| e.at(path))?))
    }

    type Writer<'d> = Changer;

    fn create(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        let mut changer = Changer { open: None, store: created(path, shape)? };
        changer.begin()?;
        Ok(changer)
    }

    fn reopen(&self, path: &Path, shape: &Shape, commits: bool) -> Result<Changer> {
        let store = opened(OpenOptions::new().read(true).write(true), path, shape)?;
        let mut changer = Changer { open: None, store };
        if !commits {
            changer.begin()?;
        }
        Ok(changer)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        let created = Builder::new().set_cache_size(cache_bytes(shape)).create(path);
        let store = Arc::new(said("create", created).map_err(|e| e.at(path))?);
        let mut changer = Changer { open: None, store };
        changer.within(|_| Ok(()))?;
        Ok(changer)
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<Changer> {
        let mut changer = Changer { open: None, store: created(path, shape)? };
        // A table that nobody wrote to is none for readers.
        changer.within(|_| Ok(()))?;
        Ok(changer)
    }

    fn committers(
        &self,
        path: &Path,
        shape: &Shape,
        count: usize,
        is_durable: bool,
    ) -> Result<Committers<Changer>> {
        let store = new_or_there(self, path, shape, is_durable)?;
        let handle = |owner: &Changer| Ok(Changer { open: None, store: owner.store.clone() });
        // SAFETY: a database and its transactions are `Send`, and a database is `Sync`.
        unsafe { Committers::of(store, count, handle) }
    }

    fn crew(
        &self,
        path: &Path,
        shape: &Shape,
        readers: usize,
        with_writer: bool,
    ) -> Result<Crew<Reader, Changer>> {
        let (store, writer): (Arc<dyn ReadableDatabase>, _) = if with_writer {
            let store = opened(OpenOptions::new().read(true).write(true), path, shape)?;
            (store.clone(), Some(Changer { open: None, store }))
        } else {
            let builder = Builder::new().set_cache_size(cache_bytes(shape)).open_read_only(path);
            (Arc::new(said("open", builder).map_err(|e| e.at(path))?), None)
        };
        let readers = (0..readers).map(|_| Reader::of(store.clone())).collect::<Result<_>>()?;
        // SAFETY: a database and its transactions are `Send`, and a database is `Sync`.
        Ok(unsafe { Crew::of(readers, writer) })
    }
}

fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
    mut take: impl FnMut(&[u8]),
) -> Result<bool> {
    Ok(said("get", table.get(key))?.map(|value| take(value.value())).is_some())
}

fn walk(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    count: usize,
    mut take: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    for record in said("range", table.range(from..))?.take(count) {
        let (key, value) = said("range", record)?;
        take(key.value(), value.value());
    }
    Ok(())
}

fn back(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    mut take: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    for record in said("iter", table.iter())?.rev() {
        let (key, value) = said("iter", record)?;
        take(key.value(), value.value());
    }
    Ok(())
}

/// A table in a read transaction, which it keeps.
pub(super) struct Reader {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
    store: Arc<dyn ReadableDatabase>,
}

impl Reader {
    fn of(store: Arc<dyn ReadableDatabase>) -> Result<Reader> {
        Ok(Reader { table: Reader::table(&*store)?, store })
    }

    /// The table in a new transaction.
    fn table(store: &dyn ReadableDatabase) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>> {
        let transaction = said("begin_read", store.begin_read())?;
        said("open_table", transaction.open_table(TABLE))
    }
}

impl Store for Reader {
    const IS_ORDERED: bool = true;
    const SCANS_BACK: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
        get(&self.table, key, take)
    }

    fn refresh(&mut self) -> Result<()> {
        self.table = Reader::table(&*self.store)?;
        Ok(())
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        walk(&self.table, &[], usize::MAX, take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        walk(&self.table, from, count, take)
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        back(&self.table, take)
    }
}

type OpenTable<'t> = Table<'t, &'static [u8], &'static [u8]>;

/// A table in the one write transaction, or none where each change has its own. Fields are dropped
/// in order: the table before the transaction that it borrows.
pub(super) struct Changer {
    open: Option<(OpenTable<'static>, Kept<WriteTransaction>)>,
    store: Arc<Database>,
}

impl Changer {
    /// Changes the table in a transaction of its own.
    fn alone<T>(&self, work: impl FnOnce(&mut OpenTable<'_>) -> Result<T>) -> Result<T> {
        let transaction = said("begin_write", self.store.begin_write())?;
        let mut table = said("open_table", transaction.open_table(TABLE))?;
        let done = work(&mut table)?;
        drop(table);
        said("commit", transaction.commit())?;
        Ok(done)
    }

    /// The same in the transaction that is open, if there is one.
    #[inline]
    fn within<T>(&mut self, work: impl FnOnce(&mut OpenTable<'_>) -> Result<T>) -> Result<T> {
        match &mut self.open {
            Some((table, _)) => work(table),
            None => self.alone(work),
        }
    }

    /// Reads the table as it is now.
    fn read<T>(
        &self,
        table: impl FnOnce(&ReadOnlyTable<&'static [u8], &'static [u8]>) -> Result<T>,
    ) -> Result<T> {
        let transaction = said("begin_read", self.store.begin_read())?;
        table(&said("open_table", transaction.open_table(TABLE))?)
    }
}

impl Store for Changer {
    const IS_ORDERED: bool = true;
    const SCANS_BACK: bool = true;

    #[inline]
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool> {
        match &self.open {
            Some((table, _)) => get(table, key, take),
            None => self.read(|table| get(table, key, take)),
        }
    }

    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.range(&[], usize::MAX, take)
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        match &self.open {
            Some((table, _)) => walk(table, from, count, take),
            None => self.read(|table| walk(table, from, count, take)),
        }
    }

    fn scan_back(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        match &self.open {
            Some((table, _)) => back(table, take),
            None => self.read(|table| back(table, take)),
        }
    }
}

impl Writer for Changer {
    const HAS_TRANSACTIONS: bool = true;

    fn begin(&mut self) -> Result<()> {
        let transaction = Kept::new(said("begin_write", self.store.begin_write())?);
        let table = said("open_table", transaction.get().open_table(TABLE))?;
        self.open = Some((table, transaction));
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let Some((table, transaction)) = self.open.take() else { return Ok(()) };
        drop(table);
        said("commit", transaction.into_inner().commit())
    }

    #[inline]
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.within(|table| said("insert", table.insert(key, value)).map(drop))
    }

    #[inline]
    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.within(|table| Ok(said("remove", table.remove(key))?.is_some()))
    }

    fn close(mut self) -> Result<()> {
        self.commit()?;
        // A store that threads share is closed when the last of them lets it go.
        Arc::into_inner(self.store).map_or(Ok(()), |store| said("close", store.close()))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_that_of_the_lock_file() {
        let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
        let lock = std::fs::read_to_string(lock).unwrap();
        let expected = format!("name = \"redb\"\nversion = \"{}\"\n", super::VERSION);
        assert!(lock.contains(&expected), "no {expected:?} in Cargo.lock");
    }
}
