//! A store that changes, of whichever engine, as the commands that change it see it.

use crate::additions::Additions;
use crate::any_table::AnyTableMut;
use crate::cmd::dump::Sink;
use crate::progress::Bar;
use crate::spool::Spool;
use crate::table::{TableOf, check_value};
use crate::waiting::for_others;
use credenza::btree::TableOptions;
use credenza::hash::Hash;
use credenza::{Error, ErrorKind, Result, Scan, Store};
use std::borrow::Cow;
use std::path::Path;

/// A store that is open to be changed.
#[derive(Clone, Debug)]
pub enum Changing {
    Hash(Hash),
    BTree(TableOf),
}

impl Changing {
    /// Gives a key a value, unless it has one and `if_absent` says to leave it; whether it did.
    pub fn put(&self, key: &[u8], value: &[u8], if_absent: bool) -> Result<bool> {
        match (self, if_absent) {
            (Changing::Hash(store), true) => for_others(|| store.insert_if_absent(key, value)),
            (Changing::Hash(store), false) => {
                for_others(|| store.insert(key, value)).map(|()| true)
            }
            (Changing::BTree(table), true) => {
                table.change(|table| table.insert_if_absent(key, value))
            }
            (Changing::BTree(table), false) => {
                table.change(|table| table.insert(key, value)).map(|()| true)
            }
        }
    }

    /// Puts the records that `read` brings where there are no values, and tells `done` of each whether it
    /// did. In a btree store all in one transaction, as every other method that takes `read`: where they
    /// `may_wait` for who brings them, it begins when all are read, so that others do not.
    pub fn put_absent(
        &self,
        may_wait: bool,
        bar: &Bar,
        read: impl FnOnce(Sink<'_>) -> Result<()>,
        mut done: impl FnMut(bool),
    ) -> Result<()> {
        match self {
            Changing::Hash(store) => read(&mut |key, value| {
                done(for_others(|| store.insert_if_absent(key, value))?);
                Ok(())
            }),
            Changing::BTree(table) => {
                change_all(table, may_wait, bar, read, |table, key, value| {
                    done(table.insert_if_absent(key, value)?);
                    Ok(())
                })
            }
        }
    }

    /// Puts the values that `read` brings, in the place of keys, under the next numbers of a table whose
    /// records are numbered, and tells `done` which.
    pub fn append(
        &self,
        may_wait: bool,
        bar: &Bar,
        read: impl FnOnce(Sink<'_>) -> Result<()>,
        mut done: impl FnMut(u64),
    ) -> Result<()> {
        match self {
            Changing::Hash(_) => Err(no_numbers()),
            Changing::BTree(table) => change_all(table, may_wait, bar, read, |table, value, _| {
                done(table.append(value)?);
                Ok(())
            }),
        }
    }

    /// Takes out the keys that `read` brings, and tells `done` of each whether it was there: of a btree store within
    /// the transaction, while others wait.
    pub fn delete(
        &self,
        may_wait: bool,
        bar: &Bar,
        read: impl FnOnce(Sink<'_>) -> Result<()>,
        mut done: impl FnMut(&[u8], bool) -> Result<()>,
    ) -> Result<()> {
        match self {
            Changing::Hash(store) => {
                read(&mut |key, _| done(key, was_there(for_others(|| store.remove(key)))?))
            }
            Changing::BTree(table) => change_all(table, may_wait, bar, read, |table, key, _| {
                done(key, table.remove(key)?)
            }),
        }
    }

    /// Takes one value of a key out, and the key if that is all it has; whether it was there.
    pub fn delete_value(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        match self {
            Changing::Hash(store) => {
                was_there(for_others(|| store.compare_exchange(key, Some(value), None)))
            }
            Changing::BTree(table) => table.change(|table| table.remove_value(key, value)),
        }
    }

    /// Records on their way into it. Where these `may_wait` for who brings them, others who write to a
    /// btree store do not.
    pub fn additions(&self, may_wait: bool) -> Result<Additions> {
        match self {
            Changing::Hash(store) => Ok(Additions::to_hash(store.clone())),
            Changing::BTree(table) => Additions::to_table(table, may_wait),
        }
    }

    /// An error if there can be no such record: in time to say where it came from, for who keeps it for later.
    pub fn check(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Changing::Hash(store) => store.check_record(key, value),
            Changing::BTree(table) => check_value(&table.options, value),
        }
    }

    /// The key that text stands for.
    pub fn key_of<'k>(&self, text: &'k [u8]) -> Result<Cow<'k, [u8]>> {
        match self {
            Changing::Hash(_) => Ok(Cow::Borrowed(text)),
            Changing::BTree(table) => table.key_of(text),
        }
    }

    /// An error if keys that are written as hexadecimal digits are no bytes, but numbers.
    pub fn check_hex(&self, hex: bool) -> Result<()> {
        match self {
            Changing::BTree(table) if hex => table.check_hex(),
            _ => Ok(()),
        }
    }

    /// The table that is changed, of a btree store.
    pub fn table(&self) -> Option<&TableOptions> {
        match self {
            Changing::Hash(_) => None,
            Changing::BTree(table) => Some(&table.options),
        }
    }

    /// Whether a key may have several values.
    pub fn has_several_values(&self) -> bool {
        match self {
            Changing::Hash(_) => false,
            Changing::BTree(table) => table.has_several_values(),
        }
    }

    /// How many records it has.
    pub fn len(&self) -> Result<u64> {
        match self {
            Changing::Hash(store) => store.len(),
            Changing::BTree(table) => Scan::len(table),
        }
    }

    /// Bytes of its file.
    pub fn file_bytes(&self) -> Result<u64> {
        match self {
            Changing::Hash(store) => Ok(store.stats()?.file_bytes),
            Changing::BTree(table) => Ok(table.store.stats()?.file_bytes),
        }
    }

    /// All of it, not one table.
    pub fn whole(&self) -> Store {
        match self {
            Changing::Hash(store) => Store::Hash(store.clone()),
            Changing::BTree(table) => Store::BTree(table.store.clone()),
        }
    }

    /// The keys that begin so, at most `most` of them; they are searched for among the first
    /// `look_at` records.
    pub fn keys(&self, prefix: &[u8], most: usize, look_at: usize) -> Result<Vec<Vec<u8>>> {
        match self {
            Changing::Hash(store) => {
                let keys = store.iter().take(look_at).map(|record| Ok(record?.0));
                let fits = |key: &Result<Vec<u8>>| {
                    key.as_ref().map_or(true, |key| key.starts_with(prefix))
                };
                keys.filter(fits).take(most).collect()
            }
            Changing::BTree(table) => table.read(|table| {
                let mut keys: Vec<Vec<u8>> = Vec::new();
                for record in table.prefix(prefix).take(look_at) {
                    let (key, _) = record?;
                    // A key with several values comes several times.
                    if keys.last() != Some(&key) {
                        keys.push(key);
                    }
                    if keys.len() == most {
                        break;
                    }
                }
                Ok(keys)
            }),
        }
    }
}

/// Does `change` with each record, in one transaction, which begins when all are read if they `may_wait`.
fn change_all(
    table: &TableOf,
    may_wait: bool,
    bar: &Bar,
    read: impl FnOnce(Sink<'_>) -> Result<()>,
    mut change: impl FnMut(&mut AnyTableMut<'_, '_>, &[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    if !may_wait {
        return table.change(|table| read(&mut |key, value| change(table, key, value)));
    }
    let spool = Spool::of(table.store.path().unwrap_or(Path::new(".")), read)?;
    table.change(|table| spool.drain("applying", bar, |_, key, value| change(table, key, value)))
}

/// Whether a key was in a hash store that was to be removed: one that no store can have is in none.
pub fn was_there(removed: Result<bool>) -> Result<bool> {
    match removed {
        Err(e) if matches!(e.kind(), ErrorKind::TooLarge { .. }) => Ok(false),
        removed => removed,
    }
}

/// The error for a store without tables whose records are numbered.
pub fn no_numbers() -> Error {
    Error::invalid(
        "the records of a hash store are not numbered: make a btree store with 'credenza create \
         --engine btree', and in it a table with 'credenza table create --numbered'",
    )
}
