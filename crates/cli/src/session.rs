//! What the shell's commands do, on whichever engine: at once, or collected in a transaction.

use crate::any_table::Records;
use crate::changing::{Changing, no_numbers, was_there};
use crate::output::Output;
use crate::table::TableOf;
use crate::waiting::for_others;
use credenza::btree;
use credenza::hash::{self, Hash};
use credenza::{Error, Get, Result};

/// A store, and the transaction that has begun, if one has.
pub enum Session<'s> {
    Hash(&'s Hash, Option<hash::Transaction<'s>>),
    BTree(&'s TableOf, Option<Box<btree::Transaction<'s>>>),
}

/// Takes a record; false if it wants no more.
pub type Take<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

impl<'s> Session<'s> {
    /// Nothing has begun.
    pub fn of(store: &'s Changing) -> Session<'s> {
        match store {
            Changing::Hash(store) => Session::Hash(store, None),
            Changing::BTree(table) => Session::BTree(table, None),
        }
    }

    /// Whether a transaction has begun.
    pub fn is_in_transaction(&self) -> bool {
        matches!(self, Session::Hash(_, Some(_)) | Session::BTree(_, Some(_)))
    }

    /// Writes the value of a key as people read it; several, one a line. Whether there is one.
    pub fn get(&mut self, key: &[u8], out: &mut Output) -> Result<bool> {
        match self {
            Session::Hash(_, Some(transaction)) => put_lines(out, transaction.get(key)?),
            // A copy: nothing is held while somebody is slow to read.
            Session::Hash(store, None) => put_lines(out, Get::get(*store, key)?),
            Session::BTree(table, Some(transaction)) => {
                table.within(transaction, |table| put_lines(out, table.read().get_all(key)?))
            }
            Session::BTree(table, None) => put_lines(out, table.get_all(key)?),
        }
    }

    /// Gives a key a value.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Session::Hash(_, Some(transaction)) => transaction.insert(key, value),
            Session::Hash(store, None) => for_others(|| store.insert(key, value)),
            Session::BTree(table, Some(transaction)) => {
                table.within(transaction, |table| table.insert(key, value))
            }
            Session::BTree(table, None) => table.change(|table| table.insert(key, value)),
        }
    }

    /// Puts a value under the next number, and says which.
    pub fn append(&mut self, value: &[u8]) -> Result<u64> {
        match self {
            Session::Hash(..) => Err(no_numbers()),
            Session::BTree(table, Some(transaction)) => {
                table.within(transaction, |table| table.append(value))
            }
            Session::BTree(table, None) => table.change(|table| table.append(value)),
        }
    }

    /// Takes a key out; whether it was there.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        match self {
            Session::Hash(_, Some(transaction)) => {
                let was_there = transaction.get(key)?.is_some();
                if was_there {
                    transaction.remove(key)?;
                }
                Ok(was_there)
            }
            Session::Hash(store, None) => was_there(for_others(|| store.remove(key))),
            Session::BTree(table, Some(transaction)) => {
                table.within(transaction, |table| table.remove(key))
            }
            Session::BTree(table, None) => table.change(|table| table.remove(key)),
        }
    }

    /// Calls `take` with the records whose keys begin so. Of a hash store those that are committed.
    pub fn scan(&mut self, prefix: &[u8], take: Take<'_>) -> Result<()> {
        match self {
            Session::Hash(store, _) => {
                for record in *store {
                    let (key, value) = record?;
                    if key.starts_with(prefix) && !take(&key, &value)? {
                        break;
                    }
                }
                Ok(())
            }
            Session::BTree(table, Some(transaction)) => {
                table.within(transaction, |table| each(table.read().prefix(prefix), take))
            }
            Session::BTree(table, None) => table.read(|table| each(table.prefix(prefix), take)),
        }
    }

    /// How many records there are. Of a hash store those that are committed.
    pub fn len(&mut self) -> Result<u64> {
        match self {
            Session::Hash(store, _) => store.len(),
            Session::BTree(table, Some(transaction)) => {
                table.within(transaction, |table| Ok(table.read().len()))
            }
            Session::BTree(table, None) => table.read(|table| Ok(table.len())),
        }
    }

    pub fn begin(&mut self) -> Result<()> {
        match self {
            Session::Hash(_, Some(_)) | Session::BTree(_, Some(_)) => {
                Err(Error::invalid("a transaction has begun already: commit or abort it"))
            }
            Session::Hash(store, none) => {
                *none = Some(for_others(|| store.transaction())?);
                Ok(())
            }
            Session::BTree(table, none) => {
                *none = Some(Box::new(for_others(|| table.store.write())?));
                Ok(())
            }
        }
    }

    pub fn commit(&mut self) -> Result<()> {
        match self {
            Session::Hash(_, transaction) => transaction.take().ok_or_else(none)?.commit(),
            Session::BTree(_, transaction) => transaction.take().ok_or_else(none)?.commit(),
        }
    }

    /// Forgets the transaction that has begun.
    pub fn abort(&mut self) -> Result<()> {
        match self {
            Session::Hash(_, transaction) => transaction.take().ok_or_else(none).map(drop),
            Session::BTree(_, transaction) => transaction.take().ok_or_else(none).map(drop),
        }
    }
}

fn none() -> Error {
    Error::invalid("there is no transaction: 'begin' begins one")
}

/// Writes values as people read them, one a line; whether there are any.
fn put_lines(out: &mut Output, values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<bool> {
    let mut are_any = false;
    for value in values {
        are_any = true;
        out.put_escaped(value.as_ref())?;
        out.put(b"\n")?;
    }
    Ok(are_any)
}

fn each(records: Records<'_>, take: Take<'_>) -> Result<()> {
    for record in records {
        let (key, value) = record?;
        if !take(&key, &value)? {
            break;
        }
    }
    Ok(())
}
