//! A store that changes, of whichever engine, as the commands that change it see it.

use crate::additions::Additions;
use crate::any_table::bytes_of;
use crate::table::TableOf;
use credenza::hash::Hash;
use credenza::{Error, Result, Scan, Store};
use std::borrow::Cow;

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
            (Changing::Hash(store), true) => store.insert_if_absent(key, value),
            (Changing::Hash(store), false) => store.insert(key, value).map(|()| true),
            (Changing::BTree(table), true) => {
                table.change(|table| table.insert_if_absent(key, value))
            }
            (Changing::BTree(table), false) => {
                table.change(|table| table.insert(key, value)).map(|()| true)
            }
        }
    }

    /// Calls `f` with something that puts values where there are none, and says whether it did: in
    /// a btree store all in one transaction.
    pub fn put_absent(&self, f: impl FnOnce(PutAbsent<'_>) -> Result<()>) -> Result<()> {
        match self {
            Changing::Hash(store) => f(&mut |key, value| store.insert_if_absent(key, value)),
            Changing::BTree(table) => {
                table.change(|table| f(&mut |key, value| table.insert_if_absent(key, value)))
            }
        }
    }

    /// Calls `f` with something that puts a value under the next number of a table whose records are
    /// numbered, and says which: all in one transaction.
    pub fn append(&self, f: impl FnOnce(Append<'_>) -> Result<()>) -> Result<()> {
        match self {
            Changing::Hash(_) => Err(no_numbers()),
            Changing::BTree(table) => table.change(|table| f(&mut |value| table.append(value))),
        }
    }

    /// Calls `f` with something that takes a key out, and says whether it was there: of a btree
    /// store all in one transaction.
    pub fn delete(&self, f: impl FnOnce(Delete<'_>) -> Result<()>) -> Result<()> {
        match self {
            Changing::Hash(store) => f(&mut |key| store.remove(key)),
            Changing::BTree(table) => table.change(|table| f(&mut |key| table.remove(key))),
        }
    }

    /// Records on their way into it.
    pub fn additions(&self) -> Additions {
        match self {
            Changing::Hash(store) => Additions::to_hash(store.clone()),
            Changing::BTree(table) => Additions::to_table(table),
        }
    }

    /// The key that text stands for.
    pub fn key_of<'k>(&self, text: &'k [u8]) -> Result<Cow<'k, [u8]>> {
        match self {
            Changing::Hash(_) => Ok(Cow::Borrowed(text)),
            Changing::BTree(table) => bytes_of(table.options.keys(), text),
        }
    }

    /// An error if keys that are written as hexadecimal digits are no bytes, but numbers.
    pub fn check_hex(&self, hex: bool) -> Result<()> {
        match self {
            Changing::BTree(table) if hex => table.check_hex(),
            _ => Ok(()),
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

/// What puts a value where there is none.
pub type PutAbsent<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;
/// What puts a value under the next number.
pub type Append<'a> = &'a mut dyn FnMut(&[u8]) -> Result<u64>;
/// What takes a key out.
pub type Delete<'a> = &'a mut dyn FnMut(&[u8]) -> Result<bool>;

/// The error for a store without tables whose records are numbered.
pub fn no_numbers() -> Error {
    Error::invalid(
        "the records of a hash store are not numbered: make a btree store with 'credenza create \
         --engine btree', and in it a table with 'credenza table create --numbered'",
    )
}
