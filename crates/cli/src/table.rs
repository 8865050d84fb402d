//! One table of a btree store, read and changed as if it were a store of its own.

use crate::any_table::{self, AnyTable, AnyTableMut};
use crate::args::TableArgs;
use crate::waiting::for_others;
use credenza::btree::{BTree, Duplicates, MAX_SORTED_VALUE, Snapshot, TableOptions, Transaction};
use credenza::{Bytes, Error, ErrorKind, Freeze, Get, Result, Scan};
use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::time::Duration;

/// A table of a btree store: the main one, or one with a name.
#[derive(Clone, Debug)]
pub struct TableOf {
    pub store: BTree,
    pub name: Option<String>,
    pub options: TableOptions,
    /// For how long what is read is kept; without it, as long as it is read.
    pub lease: Option<Duration>,
}

impl TableOf {
    /// The table of `store` that is asked for, which must be there.
    pub fn of(store: BTree, asked: &TableArgs) -> Result<TableOf> {
        let mut table = TableOf::main(store);
        if let Some(name) = asked.name() {
            table.name = Some(name.to_owned());
            let found = table.store.read()?.table_options(name);
            let found = found.map_err(|e| table.named(e))?;
            table.options = found.ok_or_else(|| table.missing())?;
        }
        Ok(table)
    }

    /// The main table.
    pub fn main(store: BTree) -> TableOf {
        TableOf { store, name: None, options: TableOptions::new(), lease: None }
    }

    /// An error if keys are numbers, of which hexadecimal digits would be no bytes.
    pub fn check_hex(&self) -> Result<()> {
        if any_table::is_text(self.options.keys()) {
            return Ok(());
        }
        let keys = self.options.keys();
        Err(Error::invalid(format!(
            "the keys of this table are of type {keys}, written in decimal digits: leave out --hex"
        )))
    }

    /// The key that text stands for.
    pub fn key_of<'k>(&self, text: &'k [u8]) -> Result<Cow<'k, [u8]>> {
        any_table::bytes_of(self.options.keys(), text)
    }

    /// Whether a key may have several values.
    pub fn has_several_values(&self) -> bool {
        self.options.has_duplicates() != Duplicates::None
    }

    /// Calls `f` with the table as it is now.
    pub fn read<R>(&self, f: impl FnOnce(AnyTable<'_>) -> Result<R>) -> Result<R> {
        self.moment()?.read(f)
    }

    /// The table as it is now, to read it again and again.
    pub fn moment(&self) -> Result<Moment<'_>> {
        let snapshot = match self.lease {
            None => self.store.read()?,
            Some(lease) => self.store.read_for(lease)?,
        };
        Ok(Moment { table: self, snapshot })
    }

    /// An error if the table is another one now.
    fn check_options(&self, name: &str, now: Option<TableOptions>) -> Result<()> {
        if now.is_none_or(|now| now == self.options) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "table {name:?} was made anew, as one of another kind: begin anew"
        )))
    }

    fn within_snapshot<'t>(&self, snapshot: &'t Snapshot<'_>) -> Result<Option<AnyTable<'t>>> {
        if let Some(name) = &self.name {
            self.check_options(name, snapshot.table_options(name)?)?;
        }
        let keys = self.options.keys().clone();
        Ok(match &self.name {
            None => Some(AnyTable::one(keys, snapshot.main())),
            Some(name) if self.has_several_values() => {
                snapshot.multi_table(name)?.map(|table| AnyTable::several(keys, table))
            }
            Some(name) => snapshot.table(name)?.map(|table| AnyTable::one(keys, table)),
        })
    }

    /// Calls `f` with the table to change, in a transaction that is committed if `f` succeeds.
    pub fn change<R>(&self, f: impl FnOnce(&mut AnyTableMut<'_, '_>) -> Result<R>) -> Result<R> {
        let mut transaction = for_others(|| self.store.write())?;
        let done = self.within(&mut transaction, f)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Calls `f` with the table as it is in a transaction, to read and to change.
    pub fn within<R>(
        &self,
        transaction: &mut Transaction<'_>,
        f: impl FnOnce(&mut AnyTableMut<'_, '_>) -> Result<R>,
    ) -> Result<R> {
        let found = self.within_transaction(transaction);
        let done = found.and_then(|table| f(&mut table.ok_or_else(|| self.missing())?));
        done.map_err(|e| self.named(e))
    }

    fn within_transaction<'t, 's>(
        &self,
        transaction: &'t mut Transaction<'s>,
    ) -> Result<Option<AnyTableMut<'t, 's>>> {
        if let Some(name) = &self.name {
            self.check_options(name, transaction.table_options(name)?)?;
        }
        let keys = self.options.keys().clone();
        Ok(match &self.name {
            None => Some(AnyTableMut::one(keys, transaction.main())),
            Some(name) if self.has_several_values() => {
                transaction.multi_table(name)?.map(|table| AnyTableMut::several(keys, table))
            }
            Some(name) => transaction.table(name)?.map(|table| AnyTableMut::one(keys, table)),
        })
    }

    /// The error, naming the store's file.
    fn named(&self, error: Error) -> Error {
        match self.store.path() {
            Some(path) => error.at(path),
            None => error,
        }
    }

    fn missing(&self) -> Error {
        self.named(no_table(self.name.as_deref().unwrap_or_default()))
    }
}

/// A table as it was at one moment, for as long as its lease, or else as this is kept.
#[derive(Debug)]
pub struct Moment<'s> {
    table: &'s TableOf,
    snapshot: Snapshot<'s>,
}

impl Moment<'_> {
    /// Calls `f` with the table as it was; what is read under a lease is in memory until `f` returns.
    pub fn read<R>(&mut self, f: impl FnOnce(AnyTable<'_>) -> Result<R>) -> Result<R> {
        let table = self.table;
        let found = table.within_snapshot(&self.snapshot);
        let done = found.and_then(|found| f(found.ok_or_else(|| table.missing())?));
        self.snapshot.release_memory();
        done.map_err(|e| table.named(e))
    }

    /// Whether it has a lease.
    pub fn has_lease(&self) -> bool {
        self.table.lease.is_some()
    }
}

/// A copy of a value, for which there may be no memory.
fn owned(value: Bytes<'_>) -> Result<Bytes<'static>> {
    let value = match value {
        Cow::Owned(value) => return Ok(Cow::Owned(value)),
        Cow::Borrowed(value) => value,
    };
    let mut copy = Vec::new();
    let room = copy.try_reserve_exact(value.len());
    room.map_err(|_| Error::io("get memory", io::ErrorKind::OutOfMemory.into()))?;
    copy.extend_from_slice(value);
    Ok(Cow::Owned(copy))
}

/// An error if a value is longer than those may be that a table keeps sorted. A load finds that out when it has
/// taken others: here it is known which record it is.
pub fn check_value(options: &TableOptions, value: &[u8]) -> Result<()> {
    if options.has_duplicates() != Duplicates::Sorted || value.len() <= MAX_SORTED_VALUE {
        return Ok(());
    }
    let (what, size, limit) = ("sorted value", value.len() as u64, MAX_SORTED_VALUE as u64);
    Err(Error::new(ErrorKind::TooLarge { what, size, limit }))
}

/// There is no table of this name.
pub fn no_table(name: &str) -> Error {
    Error::invalid(format!(
        "there is no table {name:?}: 'credenza table list' names those that there are, and \
         'credenza table create' makes one"
    ))
}

impl Get for TableOf {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        self.read(|table| table.get(key)?.map(owned).transpose())
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        self.read(|table| table.get_all(key)?.into_iter().map(owned).collect())
    }
}

impl Scan for TableOf {
    fn scan<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        self.read(|table| table.scan(f))
    }

    fn len(&self) -> Result<u64> {
        self.read(|table| Ok(table.len()))
    }
}

impl Freeze for TableOf {
    fn is_at(&self, path: &Path) -> bool {
        self.store.is_at(path)
    }
}
