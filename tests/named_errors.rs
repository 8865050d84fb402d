//! Danger: a program that has many stores open is told that a name, a type or a key is wrong, and not in which of them.

use credenza::btree::{BTree, Duplicates, Position, TableOptions};
use credenza::{BTreeBuilder, Result};
use std::path::Path;

/// The call fails, and its error names this file.
#[track_caller]
fn names<T>(path: &Path, done: Result<T>) {
    let error = done.map(drop).expect_err("it was to fail");
    assert_eq!(error.path(), Some(path), "{error}");
}

/// A store with a table of each kind.
fn store(path: &Path) -> Result<BTree> {
    let store = BTree::create(path)?;
    let mut transaction = store.write()?;
    transaction.create_table_with("one", &TableOptions::of_keys::<u64>())?;
    let sorted = TableOptions::of_keys::<str>().duplicates(Duplicates::Sorted);
    transaction.create_table_with("several", &sorted)?;
    transaction.multi_table("several")?.unwrap().insert(b"a", b"1")?;
    transaction.commit()?;
    Ok(store)
}

#[test]
fn what_is_wrong_with_a_table_names_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = store(&path).unwrap();
    let snapshot = store.read().unwrap();
    names(&path, snapshot.table("several"));
    names(&path, snapshot.multi_table("one"));
    names(&path, snapshot.main().typed::<u64>());
    let several = snapshot.multi_table("several").unwrap().unwrap();
    names(&path, several.typed::<u64>());
    names(&path, several.at_or_after(b"\xff"));
    names(&path, several.cursor().seek(b"\xff"));

    let mut transaction = store.write().unwrap();
    names(&path, transaction.table("several"));
    names(&path, transaction.multi_table("one"));
    names(&path, transaction.read_table("several"));
    names(&path, transaction.read_multi_table("one"));
    names(&path, transaction.create_table(""));
    names(&path, transaction.create_table("one"));
    names(&path, transaction.create_table_with("n", &TableOptions::new().numbered(true)));
    names(&path, transaction.rename_table("one", ""));
    names(&path, transaction.rename_table("one", "several"));
    names(&path, transaction.main().typed::<u64>());
    names(&path, transaction.main().insert(&[0; 70_000], b""));
    names(&path, transaction.main().insert_if_absent(&[0; 70_000], b""));
    names(&path, transaction.main().append(b""));
    names(&path, transaction.main().skip_numbers(1));
    names(&path, transaction.main().cursor().put(b""));
    names(&path, transaction.main().cursor().remove());
    names(&path, transaction.table("one").unwrap().unwrap().insert(b"short", b""));
    let mut several = transaction.multi_table("several").unwrap().unwrap();
    names(&path, several.typed::<u64>());
    names(&path, several.insert(b"\xff", b""));
    names(&path, several.insert(b"a", &[0; 70_000]));
    names(&path, several.insert_at(b"a", Position::First, b""));
    let mut cursor = several.cursor();
    names(&path, cursor.remove());
    assert!(cursor.first().unwrap());
    names(&path, cursor.insert_after(b""));
    let savepoint = transaction.savepoint();
    transaction.release(savepoint).unwrap();
    names(&path, transaction.rollback_to(savepoint));
    names(&path, transaction.release(savepoint));
    transaction.commit().unwrap();
}

/// Not by the name that it has while it is built.
#[test]
fn what_is_wrong_with_a_table_names_the_store_that_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    names(&path, BTreeBuilder::create(&path).unwrap().begin_table(""));
}
