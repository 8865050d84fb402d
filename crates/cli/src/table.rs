//! One table of a btree store, read and changed as if it were a store of its own.

use crate::args::TableArgs;
use credenza::btree::{BTree, Table, TableMut, Transaction};
use credenza::{Bytes, Error, Freeze, Get, Result, Scan};
use std::borrow::Cow;
use std::path::Path;

/// A table of a btree store: the main one, or one with a name.
#[derive(Clone, Debug)]
pub struct TableOf {
    pub store: BTree,
    pub name: Option<String>,
}

impl TableOf {
    /// The table of `store` that is asked for, which must be there.
    pub fn of(store: BTree, asked: &TableArgs) -> Result<TableOf> {
        let table = TableOf { store, name: asked.name().map(str::to_owned) };
        table.read(|_| Ok(()))?;
        Ok(table)
    }

    /// Calls `f` with the table as it is now.
    pub fn read<R>(&self, f: impl FnOnce(Table<'_>) -> Result<R>) -> Result<R> {
        let snapshot = self.store.read()?;
        let found = match &self.name {
            None => Ok(Some(snapshot.main())),
            Some(name) => snapshot.table(name),
        };
        let done = found.and_then(|table| f(table.ok_or_else(|| self.missing())?));
        done.map_err(|e| self.named(e))
    }

    /// Calls `f` with the table to change, in a transaction that is committed if `f` succeeds.
    pub fn change<R>(&self, f: impl FnOnce(&mut TableMut<'_, '_>) -> Result<R>) -> Result<R> {
        let mut transaction = self.store.write()?;
        let done = self.within(&mut transaction, f)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Calls `f` with the table as it is in a transaction, to read and to change.
    pub fn within<R>(
        &self,
        transaction: &mut Transaction<'_>,
        f: impl FnOnce(&mut TableMut<'_, '_>) -> Result<R>,
    ) -> Result<R> {
        let found = match &self.name {
            None => Ok(Some(transaction.main())),
            Some(name) => transaction.table(name),
        };
        let done = found.and_then(|table| f(&mut table.ok_or_else(|| self.missing())?));
        done.map_err(|e| self.named(e))
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

/// There is no table of this name.
pub fn no_table(name: &str) -> Error {
    Error::invalid(format!(
        "there is no table {name:?}: 'credenza table list' names those that there are, and \
         'credenza table create' makes one"
    ))
}

impl Get for TableOf {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        self.read(|table| Ok(table.get(key)?.map(|value| Cow::Owned(value.to_vec()))))
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        Ok(self.get(key)?.into_iter().collect())
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
    fn file(&self) -> Option<&Path> {
        self.store.path()
    }

    fn scan_moment<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        self.scan(f)
    }
}
