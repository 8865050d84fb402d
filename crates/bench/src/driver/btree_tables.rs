//! Where a btree store of ours has the records of a workload: in its main table, whose keys are bytes, or,
//! where keys have a type or one key several values, in a table made for that.
//!
//! Keys of a table with a type are given as the bytes that its type makes of them, which is what the typed
//! interface does with a number.

use super::{Shape, is_number};
use crate::workload::key_type::number_of;
use crate::workload::{KeyType, Place, Records};
use credenza::btree::{
    self, BTree, Duplicates, Key, MultiTable, MultiTableMut, Table, TableMut, TableOptions,
};
use credenza::{BTreeLoad, Error, Result};

/// The types that a table may have: all but bytes, which are in the main one.
pub(super) const TYPES: &[KeyType] = KeyType::ALL.split_at(1).1;

/// The table of keys with a type, each with one value.
const TYPED: &str = "typed";
/// The table of keys with several values.
const SEVERAL: &str = "several";

/// Which table the records are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Main,
    Typed(KeyType),
    /// With where one more value of a key goes.
    Several(Place),
}

impl Home {
    pub(super) fn of(shape: &Shape) -> Home {
        match (shape.duplicates, shape.keys) {
            (Some(place), _) => Home::Several(place),
            (None, KeyType::Binary) => Home::Main,
            (None, keys) => Home::Typed(keys),
        }
    }

    /// Whether keys may have several values.
    #[inline]
    pub(super) fn has_several(self) -> bool {
        matches!(self, Home::Several(_))
    }

    /// Makes the table in a new store, if it is not there anyway.
    pub(super) fn make(self, store: &BTree, shape: &Shape) -> Result<()> {
        let options = TableOptions::new().key_type(match shape.keys {
            KeyType::Number32 => btree::KeyType::U32,
            KeyType::Number64 => btree::KeyType::U64,
            keys => btree::KeyType::named(keys.name()),
        });
        let (name, options) = match self {
            Home::Main => return Ok(()),
            Home::Typed(keys) => (TYPED, options.numbered(keys.is_numbered())),
            Home::Several(_) => (SEVERAL, options.duplicates(Duplicates::Inserted)),
        };
        let mut transaction = store.write()?;
        transaction.create_table_with(name, &options)?;
        transaction.commit()
    }

    /// Stores all records in a new store, in one transaction: sorted first if they do not come so.
    pub(super) fn fill(self, store: &BTree, records: &Records, shape: &Shape) -> Result<()> {
        let is_typed = matches!(self, Home::Typed(_));
        if !shape.is_sorted {
            let mut load = BTreeLoad::begin(store, is_typed.then_some(TYPED));
            records.iter().try_for_each(|(key, value)| load.add(key, value))?;
            return load.finish();
        }
        let mut transaction = store.write()?;
        match self {
            Home::Typed(keys) if keys.is_numbered() => {
                let mut table = typed_mut(&mut transaction)?;
                records.iter().try_for_each(|(key, value)| append(&mut table, key, value))?;
            }
            Home::Typed(_) => {
                typed_mut(&mut transaction)?.bulk_load(records.iter().map(Ok))?;
            }
            Home::Main | Home::Several(_) => {
                transaction.main().bulk_load(records.iter().map(Ok))?;
            }
        }
        transaction.commit()
    }

    /// The table of keys with one value each.
    #[inline]
    pub(super) fn table<'t>(self, snapshot: &'t btree::Snapshot<'_>) -> Result<Table<'t>> {
        match self {
            Home::Typed(_) => typed(snapshot),
            Home::Main | Home::Several(_) => Ok(snapshot.main()),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn table_mut<'t, 's>(
        self,
        transaction: &'t mut btree::Transaction<'s>,
    ) -> Result<TableMut<'t, 's>> {
        match self {
            Home::Typed(_) => typed_mut(transaction),
            Home::Main | Home::Several(_) => Ok(transaction.main()),
        }
    }

    /// Puts a record into the table of keys with a type: where the store numbers records, and this one has
    /// no number yet, by appending it.
    #[inline]
    pub(super) fn put(self, table: &mut TableMut<'_, '_>, key: &[u8], value: &[u8]) -> Result<()> {
        let is_new = || number_of(key) > table.read().last_number();
        if matches!(self, Home::Typed(keys) if keys.is_numbered()) && is_new() {
            return append(table, key, value);
        }
        table.insert(key, value).map(drop)
    }
}

/// Has the store number a record, which has to be as the key says.
fn append(table: &mut TableMut<'_, '_>, key: &[u8], value: &[u8]) -> Result<()> {
    let given = table.append(value)?;
    given.with_bytes(|given| is_number(&given[8 - key.len().min(8)..], key))
}

fn no_table(name: &str) -> Error {
    Error::invalid(format!("there is no table '{name}'"))
}

pub(super) fn several<'t>(snapshot: &'t btree::Snapshot<'_>) -> Result<MultiTable<'t>> {
    snapshot.multi_table(SEVERAL)?.ok_or_else(|| no_table(SEVERAL))
}

pub(super) fn several_mut<'t, 's>(
    transaction: &'t mut btree::Transaction<'s>,
) -> Result<MultiTableMut<'t, 's>> {
    transaction.multi_table(SEVERAL)?.ok_or_else(|| no_table(SEVERAL))
}

fn typed<'t>(snapshot: &'t btree::Snapshot<'_>) -> Result<Table<'t>> {
    snapshot.table(TYPED)?.ok_or_else(|| no_table(TYPED))
}

fn typed_mut<'t, 's>(transaction: &'t mut btree::Transaction<'s>) -> Result<TableMut<'t, 's>> {
    transaction.table(TYPED)?.ok_or_else(|| no_table(TYPED))
}
