//! A table in which a key has its value in pieces, as several values of one key: what is stored, moved and
//! saved of such tables is checked wherever records of others are.

use super::subject::State;
use credenza::Result;
use credenza::btree::{Duplicates, MultiTable, MultiTableMut, Position, TableOptions, Transaction};

/// Most pieces of a value.
const MOST: usize = 12;

/// A value in pieces of one length, but for the last: at least one, also of a value of no bytes.
fn pieces(value: &[u8]) -> Vec<&[u8]> {
    let len = value.len().div_ceil(MOST).max(5);
    if value.is_empty() { vec![value] } else { value.chunks(len).collect() }
}

/// Stores a value, in one of several ways, by its length: the pieces before each other, behind each
/// other, or in the places of those that are there.
pub fn put(transaction: &mut Transaction<'_>, name: &str, key: &[u8], value: &[u8]) -> Result<()> {
    transaction.create_table_with(name, &TableOptions::new().duplicates(Duplicates::Inserted))?;
    let mut table = transaction.multi_table(name)?.expect("a table that is there");
    let pieces = pieces(value);
    let way = value.len() % 3;
    if way == 0 {
        return put_in_places(&mut table, key, &pieces);
    }
    table.remove(key)?;
    if way == 1 {
        return pieces.iter().try_for_each(|piece| table.insert(key, piece).map(drop));
    }
    for piece in pieces.iter().rev() {
        assert!(table.insert_at(key, Position::First, piece)?);
    }
    Ok(())
}

/// Puts pieces where others are, and more behind these, or takes out what is left.
fn put_in_places(table: &mut MultiTableMut<'_, '_>, key: &[u8], pieces: &[&[u8]]) -> Result<()> {
    let before = table.read().count(key)?;
    for (i, piece) in (0..).zip(pieces) {
        if i < before {
            assert!(table.replace_nth(key, i, piece)?);
        } else if i == 0 {
            assert!(table.insert(key, piece)?);
        } else {
            assert!(table.insert_at(key, Position::After(i - 1), piece)?);
        }
    }
    for i in (pieces.len() as u64..before).rev() {
        assert!(table.remove_nth(key, i)?);
    }
    Ok(())
}

/// Takes a key out, one piece after the other if it has an even number.
pub fn take_out(transaction: &mut Transaction<'_>, name: &str, key: &[u8]) -> Result<()> {
    let Some(mut table) = transaction.multi_table(name)? else { return Ok(()) };
    let count = table.read().count(key)?;
    if count % 2 == 1 {
        assert_eq!(table.remove(key)?, count);
        return Ok(());
    }
    (0..count).try_for_each(|_| table.remove_nth(key, 0).map(|was| assert!(was)))
}

/// The value of a key.
pub fn get(table: MultiTable<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut value = table.get(key)?.map(|_| Vec::new());
    for piece in table.values(key) {
        value.as_mut().expect("values of a key that has none").extend_from_slice(&piece?);
    }
    Ok(value)
}

/// How many keys there are.
pub fn keys(table: MultiTable<'_>) -> Result<u64> {
    let mut state = State::new();
    put_together(&mut state, table)?;
    Ok(state.len() as u64)
}

/// Adds all keys and their values to a state.
pub fn put_together(state: &mut State, table: MultiTable<'_>) -> Result<()> {
    let mut count = 0;
    table.scan(|key, piece| {
        count += 1;
        state.entry(key.to_vec()).or_default().extend_from_slice(piece);
        Ok(())
    })?;
    assert_eq!(count, table.len(), "a table's length and its scan differ");
    Ok(())
}
