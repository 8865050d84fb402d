//! The btree engine as a [`Subject`].

use super::pieces;
use super::subject::{Operation, State, Subject, bury_in};
use super::write_anew;
use credenza::btree::{BTree, MultiTable, Snapshot, Table, Transaction};
use credenza::{Get, Result, Scan};
use std::path::{Path, PathBuf};

/// Where the file says which boot of the machine its locks are of.
pub const BOOT_AT: usize = 2048;
/// Where the locks of writers and of those who sync begin.
pub const LOCKS_AT: [usize; 2] = [2176, 2240];

/// The same store with its records in three tables: the last byte of a key says in which.
pub struct Spread(pub BTree);

/// The tables that have a name: one with a value for each key, and one where it is in [`pieces`].
const WHOLE: &str = "whole";
const IN_PIECES: &str = "in pieces";
/// A name that a table has for a part of a transaction.
const AWAY: &str = "away";

fn number_of(key: &[u8]) -> usize {
    key.last().map_or(0, |last| usize::from(*last % 3))
}

/// Makes changes in their tables, half of them after something that is undone.
pub fn change(
    transaction: &mut Transaction<'_>,
    changes: &[(Vec<u8>, Option<Vec<u8>>)],
) -> Result<()> {
    for (i, (key, value)) in changes.iter().enumerate() {
        if i > 0 && i == changes.len() / 2 {
            let savepoint = transaction.savepoint();
            transaction.main().clear()?;
            transaction.create_table("undone")?.insert(key, &[1; 3000])?;
            transaction.delete_table(WHOLE)?;
            transaction.rename_table(IN_PIECES, WHOLE)?;
            transaction.rollback_to(savepoint)?;
            if transaction.rename_table(IN_PIECES, AWAY)? {
                transaction.rename_table(AWAY, IN_PIECES)?;
            }
        }
        match (number_of(key), value) {
            (2, Some(value)) => pieces::put(transaction, IN_PIECES, key, value)?,
            (2, None) => pieces::take_out(transaction, IN_PIECES, key)?,
            (i, value) => {
                let mut table = match i {
                    0 => transaction.main(),
                    _ => transaction.create_table(WHOLE)?,
                };
                match value {
                    Some(value) => drop(table.insert(key, value)?),
                    None => drop(table.remove(key)?),
                }
            }
        }
    }
    Ok(())
}

/// Makes an operation's changes.
pub fn perform(transaction: &mut Transaction<'_>, operation: &Operation) -> Result<()> {
    match operation {
        Operation::Insert(key, value) => change(transaction, &[(key.clone(), Some(value.clone()))]),
        Operation::Remove(key) => change(transaction, &[(key.clone(), None)]),
        Operation::Batch(changes) => change(transaction, changes),
        Operation::Clear => {
            transaction.main().clear()?;
            transaction.delete_table(WHOLE)?;
            transaction.delete_table(IN_PIECES).map(drop)
        }
        Operation::Compact => Ok(()),
    }
}

/// What is in tables: the main one, and those that are there of the others.
fn all_of(
    main: Table<'_>,
    whole: Option<Table<'_>>,
    multi: Option<MultiTable<'_>>,
) -> Result<State> {
    let mut state = State::new();
    for table in [Some(main), whole].into_iter().flatten() {
        let before = state.len() as u64;
        table.scan(|key, value| {
            state.insert(key.to_vec(), value.to_vec());
            Ok(())
        })?;
        assert_eq!(
            state.len() as u64 - before,
            table.len(),
            "a table's length and its scan differ"
        );
    }
    multi.map_or(Ok(()), |multi| pieces::put_together(&mut state, multi))?;
    Ok(state)
}

/// What is in the three tables of a snapshot.
pub fn seen_by(snapshot: &Snapshot<'_>) -> Result<State> {
    all_of(snapshot.main(), snapshot.table(WHOLE)?, snapshot.multi_table(IN_PIECES)?)
}

/// The same of a transaction.
pub fn seen_within(transaction: &Transaction<'_>) -> Result<State> {
    let whole = transaction.read_table(WHOLE)?;
    all_of(transaction.read_main(), whole, transaction.read_multi_table(IN_PIECES)?)
}

/// What is in a copy of a store that is opened to be read only; nothing is written to it. A copy, for
/// processes that other tests fork may have its locks for longer than this one.
pub fn read_only(path: &Path, what: &str) -> State {
    let bytes = std::fs::read(path).unwrap();
    let path = &path.with_extension("only");
    write_anew(path, &bytes);
    let open = |is_checked| {
        let store = BTree::options().read_only(true).check_reads(is_checked).open(path);
        store.unwrap_or_else(|e| panic!("{what}, read only: {e}"))
    };
    let store = open(false);
    let state = seen_by(&store.read().unwrap()).unwrap();
    let checked = seen_by(&open(true).read().unwrap());
    let checked = checked.unwrap_or_else(|e| panic!("{what}, read only, checked: {e}"));
    assert!(checked == state, "{what}, read only: checked it is another state");
    store.verify(|_, _| ()).unwrap_or_else(|e| panic!("{what}, read only: {e}"));
    assert!(bytes == std::fs::read(path).unwrap(), "{what}: reading changed the file");
    state
}

/// Compacts a store, a little at a time.
pub fn compact(store: &BTree) -> Result<()> {
    let mut calls = 0;
    while store.compact(64 << 10)? {
        calls += 1;
        assert!(calls < 10_000, "a compaction comes to no end");
    }
    store.sync()
}

impl Subject for Spread {
    fn open(path: &Path) -> Result<Spread> {
        BTree::create(path).map(Spread)
    }

    fn apply(&self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Compact => return compact(&self.0),
            // Operations of their own, which may be done where the record is.
            Operation::Insert(key, value) if number_of(key) == 0 => {
                return self.0.insert(key, value).map(drop);
            }
            Operation::Remove(key) if number_of(key) == 0 => return self.0.remove(key).map(drop),
            _ => {}
        }
        let mut transaction = self.0.write()?;
        perform(&mut transaction, operation)?;
        transaction.commit()
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn verify(&self) -> Result<()> {
        self.0.verify(|_, _| ())
    }

    fn len(&self) -> Result<u64> {
        let snapshot = self.0.read()?;
        let whole = snapshot.table(WHOLE)?.map_or(0, |table| table.len());
        let in_pieces = snapshot.multi_table(IN_PIECES)?.map_or(Ok(0), pieces::keys)?;
        Ok(snapshot.main().len() + whole + in_pieces)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let snapshot = self.0.read()?;
        let table = match number_of(key) {
            0 => Some(snapshot.main()),
            1 => snapshot.table(WHOLE)?,
            _ => {
                let table = snapshot.multi_table(IN_PIECES)?;
                return table.map_or(Ok(None), |table| pieces::get(table, key));
            }
        };
        let Some(table) = table else { return Ok(None) };
        Ok(table.get(key)?.map(<[u8]>::to_vec))
    }

    fn records(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Ok(seen_by(&self.0.read()?)?.into_iter().collect())
    }

    fn files(path: &Path) -> Vec<PathBuf> {
        BTree::files(path)
    }

    fn reboot(first: &mut [u8]) {
        BTree::reboot(first);
    }

    fn bury(first: &mut [u8], pid: u32) {
        BTree::bury(first, pid);
    }
}

impl Subject for BTree {
    fn open(path: &Path) -> Result<BTree> {
        BTree::create(path)
    }

    fn apply(&self, operation: &Operation) -> Result<()> {
        let mut transaction = match operation {
            // Operations of their own, which may be done where the record is.
            Operation::Insert(key, value) => return self.insert(key, value).map(drop),
            Operation::Remove(key) => return self.remove(key).map(drop),
            Operation::Compact => return compact(self),
            _ => self.write()?,
        };
        let mut table = transaction.main();
        match operation {
            Operation::Insert(..) | Operation::Remove(_) | Operation::Compact => {}
            Operation::Batch(changes) => {
                for (key, value) in changes {
                    match value {
                        Some(value) => drop(table.insert(key, value)?),
                        None => drop(table.remove(key)?),
                    }
                }
            }
            Operation::Clear => table.clear()?,
        }
        transaction.commit()
    }

    fn sync(&self) -> Result<()> {
        BTree::sync(self)
    }

    fn verify(&self) -> Result<()> {
        BTree::verify(self, |_, _| ())
    }

    fn len(&self) -> Result<u64> {
        Scan::len(self)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(Get::get(self, key)?.map(|value| value.to_vec()))
    }

    fn records(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut records = Vec::new();
        self.scan(|key, value| {
            records.push((key.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Ok(records)
    }

    fn files(path: &Path) -> Vec<PathBuf> {
        vec![path.to_owned()]
    }

    fn reboot(first: &mut [u8]) {
        // No boot that ever was; also where the one there is that of an earlier image.
        if let Some(words) = first.get_mut(BOOT_AT..BOOT_AT + 16) {
            words.fill(0x5a);
        }
    }

    fn bury(first: &mut [u8], pid: u32) {
        bury_in(first, &LOCKS_AT, pid);
    }
}

/// Puts records with such keys and values of `len` bytes, in one transaction.
pub fn fill(store: &BTree, keys: std::ops::Range<u64>, len: usize) {
    let mut transaction = store.write().unwrap();
    for i in keys {
        transaction.main().insert(&super::ordered(i), &vec![i as u8; len]).unwrap();
    }
    transaction.commit().unwrap();
}
