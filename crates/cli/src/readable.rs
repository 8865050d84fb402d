//! What a command reads: a store of any kind, or a table of a btree store.

use crate::exit;
use crate::output::counted;
use crate::table::TableOf;
use crate::waiting::for_others;
use credenza::hash::Transaction;
use credenza::{Bytes, ErrorKind, Get, Result, Scan, Store};
use std::borrow::Cow;

/// What is read.
#[derive(Debug)]
pub enum Readable {
    /// All of it; of a btree store the main table.
    Store(Store),
    Table(TableOf),
}

impl Readable {
    /// Whether others may change it meanwhile, who wait for, or cannot use, what is held.
    pub fn is_changing(&self) -> bool {
        matches!(self, Readable::Table(_) | Readable::Store(Store::Hash(_) | Store::BTree(_)))
    }

    /// The table that is read, of a btree store.
    pub fn btree(&self) -> Option<Cow<'_, TableOf>> {
        match self {
            Readable::Table(table) => Some(Cow::Borrowed(table)),
            Readable::Store(Store::BTree(store)) => Some(Cow::Owned(TableOf::main(store.clone()))),
            Readable::Store(_) => None,
        }
    }

    /// Whether no key can have several values.
    pub fn has_single_values(&self) -> bool {
        match self {
            Readable::Store(store) => matches!(store, Store::Hash(_) | Store::BTree(_)),
            Readable::Table(table) => !table.has_several_values(),
        }
    }

    /// Keeps others from writing to a hash store, so that all that is read of it until this is dropped is of one moment.
    /// Nothing where a scan is so by itself; nor where the store is open for reading only, as then nobody can be kept from it.
    pub fn keep_as_it_is(&self) -> Result<Option<Transaction<'_>>> {
        let Readable::Store(Store::Hash(store)) = self else { return Ok(None) };
        match for_others(|| store.transaction()) {
            Ok(transaction) => Ok(Some(transaction)),
            Err(e) if matches!(e.kind(), ErrorKind::Invalid(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Says that there is more in the store than is read, lest somebody takes a part for the whole.
    pub fn note_other_tables(&self, quiet: bool) -> Result<()> {
        if quiet {
            return Ok(());
        }
        let main = match self {
            Readable::Store(Store::BTree(store))
            | Readable::Table(TableOf { store, name: None, .. }) => Some(store),
            _ => None,
        };
        if let Some(store) = main {
            let count = store.read()?.tables()?.len();
            if count > 0 {
                let more = counted(count as u64, "more table");
                exit::note(format_args!(
                    "this is the main table; {more} can be named with --table"
                ));
            }
        }
        Ok(())
    }
}

impl Get for Readable {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        match self {
            Readable::Store(store) => store.get(key),
            Readable::Table(table) => table.get(key),
        }
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        match self {
            Readable::Store(store) => store.get_all(key),
            Readable::Table(table) => table.get_all(key),
        }
    }

    fn get_many<K, F>(&self, keys: &[K], f: F) -> Result<()>
    where
        K: AsRef<[u8]>,
        F: FnMut(usize, Option<&[u8]>),
    {
        match self {
            Readable::Store(store) => store.get_many(keys, f),
            Readable::Table(table) => table.get_many(keys, f),
        }
    }
}

impl Scan for Readable {
    fn scan<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        match self {
            Readable::Store(store) => store.scan(f),
            Readable::Table(table) => table.scan(f),
        }
    }

    /// What is opened as a whole has been compared with its checksums, or is while it is read.
    fn scan_moment<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        let _writers_wait = self.keep_as_it_is()?;
        self.scan(f)
    }

    fn len(&self) -> Result<u64> {
        match self {
            Readable::Store(store) => store.len(),
            Readable::Table(table) => Scan::len(table),
        }
    }
}
