//! Records on their way into a store that is there already.

use crate::progress::Bar;
use crate::spool::Spool;
use crate::table::{TableOf, check_value};
use crate::target::no_budget;
use crate::waiting::for_others;
use credenza::btree::{BTree, Duplicates, TableOptions};
use credenza::hash::{Batch, Hash};
use credenza::{BTreeLoad, Result};
use std::path::Path;

/// Records on their way into a store that is there.
pub enum Additions {
    Hash(Batches),
    BTree(Box<Additional>),
}

/// Records on their way into a table.
pub struct Additional {
    load: BTreeLoad,
    /// What the table is.
    options: TableOptions,
    /// Those that wait until all are there, and for what store.
    spool: Option<(Spool, BTree)>,
}

impl Additions {
    /// A batch at a time, each of which is there whole or not at all.
    pub fn to_hash(store: Hash) -> Additions {
        Additions::Hash(Batches::to(store))
    }

    /// All in one transaction; where they `may_wait` for who brings them, it begins when all are there.
    pub fn to_table(table: &TableOf, may_wait: bool) -> Result<Additions> {
        let spool = || Spool::beside(table.store.path().unwrap_or(Path::new(".")));
        let spool = may_wait.then(|| (spool(), table.store.clone()));
        if spool.is_none() {
            wait_for_turn(&table.store)?;
        }
        let mut load = BTreeLoad::begin(&table.store, table.name.as_deref());
        load.check_kind(table.options.clone())?;
        let options = table.options.clone();
        Ok(Additions::BTree(Box::new(Additional { load, options, spool })))
    }

    /// Memory for records that wait to be sorted.
    pub fn memory_budget(&mut self, bytes: u64) -> Result<()> {
        match self {
            Additions::Hash(_) => Err(no_budget()),
            Additions::BTree(into) => into.load.memory_budget(bytes),
        }
    }

    /// Who is told how many of the records that had to be sorted are written.
    pub fn progress(&mut self, f: impl Fn(u64, u64) + Send + Sync + 'static) -> Result<()> {
        match self {
            Additions::Hash(_) => Ok(()),
            Additions::BTree(into) => into.load.progress(f),
        }
    }

    /// An error if there can be no such record: in time to say where it came from, for who keeps it for later.
    pub fn check(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Additions::Hash(batches) => batches.store.check_record(key, value),
            Additions::BTree(into) => check_value(&into.options, value),
        }
    }

    /// The key, as it is stored, gets the value.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Additions::Hash(batches) => batches.add(key, value),
            Additions::BTree(into) => {
                let Additional { load, options, spool } = &mut **into;
                check_value(options, value)?;
                match spool {
                    None => load.add(key, value),
                    Some((spool, _)) => spool.add(key, value).map(drop),
                }
            }
        }
    }

    /// Writes what is not written yet; returns how many records have a value that their key had already, in a table whose
    /// values are sorted.
    pub fn finish(self, bar: &Bar) -> Result<u64> {
        match self {
            Additions::Hash(batches) => batches.finish().map(|()| 0),
            Additions::BTree(into) => {
                let Additional { mut load, options, spool } = *into;
                if let Some((spool, store)) = spool {
                    wait_for_turn(&store)?;
                    spool.drain("applying", bar, |_, key, value| load.add(key, value))?;
                }
                let already_there = match options.has_duplicates() {
                    Duplicates::Sorted => load.already_there()?,
                    _ => 0,
                };
                load.finish()?;
                Ok(already_there)
            }
        }
    }
}

/// Waits for who writes at the moment, and says so: a load, which begins then, waits without a word.
fn wait_for_turn(store: &BTree) -> Result<()> {
    for_others(|| store.write().map(drop))
}

/// Records on their way into a hash store: a batch at a time.
pub struct Batches {
    store: Hash,
    batch: Batch,
    bytes: usize,
    /// A batch is written when it has so many.
    most: usize,
}

impl Batches {
    const RECORDS: usize = 4096;
    const BYTES: usize = 4 << 20;
    /// In a store with a limit a batch may have such a part of it, lest it drops what is in use.
    const PART: u64 = 64;
    /// No record takes more than so much besides its key and value.
    const HEAD: usize = 24;

    /// Nothing on its way yet.
    fn to(store: Hash) -> Batches {
        let most = match store.limit() {
            0 => Self::BYTES,
            limit => (limit / Self::PART).min(Self::BYTES as u64) as usize,
        };
        Batches { store, batch: Batch::new(), bytes: 0, most }
    }

    /// The key gets the value, with this batch.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let bytes = key.len() + value.len() + Self::HEAD;
        if self.bytes > 0 && self.bytes + bytes > self.most {
            self.write()?;
        }
        if bytes > self.most {
            // Alone, so that an error is about this record.
            return for_others(|| self.store.insert(key, value));
        }
        self.batch.insert(key, value);
        self.bytes += bytes;
        if self.batch.len() < Self::RECORDS { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        self.bytes = 0;
        for_others(|| self.store.batch(&std::mem::take(&mut self.batch)))
    }

    /// Writes the last batch.
    fn finish(mut self) -> Result<()> {
        self.write()
    }
}
