//! Danger: what a program reads in a transaction is not in its recording, or is there as what it was not.

mod common;

use common::is_child;
use common::recording::{folder, recorded, run, shorts};
use credenza::Scan;
use credenza::hash::{Batch, Hash};
use credenza::stats::{Operation, Statistics};

/// What is recorded when the test of this name does its work.
#[track_caller]
fn is_recorded(test: &str, expected: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    run(recorded(test, dir.path(), &trace));
    let found = shorts(&trace);
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found, expected, "{found:?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn lookups_within_a_transaction_of_a_hash_store_are_recorded_where_they_were() {
    let expected = [
        "1 insert old done 3 0",
        "1 begin done 0 0",
        "1 get old hit 3 0",
        "1 insert new done 1 0",
        "1 get new hit 1 0",
        "1 insert new done 2 0",
        "1 remove old done 0 0",
        "1 get old miss 0 0",
        "1 scan done 5 1",
        "1 commit done 8 2",
        "1 get new hit 2 0",
        "1 begin done 0 0",
        "1 insert gone done 1 0",
        "1 get gone hit 1 0",
        "1 abort done 0 0",
        "1 begin done 0 0",
        "1 insert a done 1 0",
        "1 remove b done 0 0",
        "1 commit done 3 2",
    ];
    is_recorded("reads_in_a_transaction", &expected);
}

#[test]
fn reads_in_a_transaction() {
    if !is_child() {
        return;
    }
    let options = Hash::options().create(true).statistics(Statistics::new());
    let store = options.open(folder().join("store")).unwrap();
    store.insert(b"old", b"was").unwrap();
    let mut transaction = store.transaction().unwrap();
    assert_eq!(transaction.get(b"old").unwrap(), Some(&b"was"[..]));
    transaction.insert(b"new", b"1").unwrap();
    assert_eq!(transaction.get(b"new").unwrap(), Some(&b"1"[..]));
    transaction.insert(b"new", b"22").unwrap();
    transaction.remove(b"old").unwrap();
    assert_eq!(transaction.get(b"old").unwrap(), None);
    transaction.scan(|_, _| Ok(())).unwrap();
    transaction.commit().unwrap();
    assert!(store.get(b"new").unwrap().is_some());
    let mut transaction = store.transaction().unwrap();
    transaction.insert(b"gone", b"1").unwrap();
    assert_eq!(transaction.get(b"gone").unwrap(), Some(&b"1"[..]));
    drop(transaction);
    store.batch(Batch::new().insert(b"a", b"1").remove(b"b")).unwrap();
    // Statistics know of what was done without them what they knew before.
    let counted = store.operations().unwrap();
    let calls = [Operation::Get, Operation::Scan, Operation::Insert, Operation::Commit]
        .map(|operation| counted.of(operation).calls);
    assert_eq!(calls, [1, 0, 1, 2]);
}
