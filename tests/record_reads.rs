//! Danger: what a program reads in a transaction, step by step or by counting is not in its recording, or
//! is there as what it was not.

mod common;

use common::is_child;
use common::recording::{folder, recorded, run, shorts};
use credenza::Scan;
use credenza::btree::{BTree, CursorMut, Duplicates, MultiTableMut, TableMut, TableOptions};
use credenza::hash::{Batch, Hash};
use credenza::record::Trace;
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

/// Puts k1 to k9 into a table.
fn fill(table: &mut TableMut<'_, '_>) {
    for i in b'1'..=b'9' {
        table.insert(&[b'k', i], b"v").unwrap();
    }
}

#[test]
fn the_steps_of_a_cursor_are_scans_of_what_they_came_to() {
    let expected = [
        // All, from before the first record on.
        "1 scan done 18 9",
        // On from a place, and from another.
        "1 seek k3 hit 0 0",
        "1 scan k4 done 4 2",
        "1 seek k6 hit 0 0",
        "1 scan k7 done 6 3",
        // Back as if from the last that it came to, and a turn.
        "1 seek hit 0 0",
        "1 scan k7 done 4 2",
        "1 scan k8 done 2 1",
        // Nowhere.
        "1 seek k9 hit 0 0",
        "1 seek k1 hit 0 0",
        // In a transaction, to the end; and only to the first.
        "1 begin done 0 0",
        "1 scan done 18 9",
        "1 commit done 0 0",
        "1 scan k1 done 2 1",
    ];
    let mut all = vec!["1 begin done 0 0"];
    let puts: Vec<String> = (1..=9).map(|i| format!("1 insert k{i} done 1 0")).collect();
    all.extend(puts.iter().map(|put| &**put));
    all.push("1 commit done 27 9");
    all.extend(expected);
    is_recorded("goes_with_a_cursor", &all);
}

#[test]
fn goes_with_a_cursor() {
    if !is_child() {
        return;
    }
    let store = BTree::create(folder().join("store")).unwrap();
    let mut transaction = store.write().unwrap();
    fill(&mut transaction.main());
    transaction.commit().unwrap();
    let snapshot = store.read().unwrap();
    let mut cursor = snapshot.main().cursor();
    while cursor.next().unwrap() {}
    drop(cursor);
    let mut cursor = snapshot.main().cursor();
    assert!(cursor.seek(b"k3").unwrap() && cursor.next().unwrap() && cursor.next().unwrap());
    assert!(cursor.find(b"k6").unwrap());
    while cursor.next().unwrap() {}
    assert!(cursor.last().unwrap() && cursor.previous().unwrap() && cursor.previous().unwrap());
    assert!(cursor.next().unwrap());
    assert!(cursor.seek(b"k9").unwrap() && !cursor.next().unwrap());
    assert!(cursor.seek(b"k1").unwrap() && !cursor.previous().unwrap());
    // It borrows no longer than it is used: this is a matter of the compiler.
    drop(snapshot);
    // Dropped behind the commit, but nothing was left to come to before it.
    let mut transaction = store.write().unwrap();
    let mut cursor = transaction.main().cursor();
    while cursor.next().unwrap() {}
    transaction.commit().unwrap();
    // One that took a step from where it began has not read everything.
    let snapshot = store.read().unwrap();
    assert!(snapshot.main().cursor().next().unwrap());
}

#[test]
fn a_cursor_that_changes_what_it_is_at_is_recorded_in_the_order_of_what_it_did() {
    let mut expected = vec!["1 begin done 0 0"];
    let puts: Vec<String> = (1..=9).map(|i| format!("1 insert k{i} done 1 0")).collect();
    expected.extend(puts.iter().map(|put| &**put));
    expected.extend([
        "1 scan k1 done 2 1",
        "1 insert k1 done 3 0",
        "1 scan k2 done 4 2",
        "1 remove k3 hit 0 0",
        "1 scan k4 done 2 1",
        "1 scan k2 done 2 1",
        "1 commit done 34 11",
    ]);
    is_recorded("changes_with_a_cursor", &expected);
}

#[test]
fn changes_with_a_cursor() {
    if !is_child() {
        return;
    }
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    fill(&mut transaction.main());
    let mut cursor: CursorMut<'_, '_> = transaction.main().cursor();
    assert!(cursor.next().unwrap());
    cursor.put(b"new").unwrap();
    assert!(cursor.next().unwrap() && cursor.next().unwrap());
    cursor.remove().unwrap();
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), Some(&b"k4"[..]));
    assert!(cursor.previous().unwrap());
    drop(cursor);
    transaction.commit().unwrap();
}

#[test]
fn counts_of_ranges_are_recorded() {
    let mut expected = vec!["1 begin done 0 0"];
    let puts: Vec<String> = (1..=9).map(|i| format!("1 insert k{i} done 1 0")).collect();
    expected.extend(puts.iter().map(|put| &**put));
    expected.extend([
        "2 insert a hit 1 0",
        "2 insert b hit 1 0",
        "2 insert b hit 1 0",
        "2 insert c hit 1 0",
        "1 commit done 35 13",
        "1 count k3 done 0 7",
        "1 count done 0 9",
        "2 count b done 0 2",
        "2 count a done 0 3",
        // Of the cursor in it: step by step, key by key, and what is counted beside.
        "2 seek a hit 0 0",
        "2 count b done 0 2",
        "2 count b done 0 1",
        "2 scan b done 3 3",
        "2 scan b done 1 1",
    ]);
    is_recorded("counts_ranges", &expected);
}

#[test]
fn counts_ranges() {
    if !is_child() {
        return;
    }
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    fill(&mut transaction.main());
    let options = TableOptions::new().duplicates(Duplicates::Sorted);
    transaction.create_table_with("multi", &options).unwrap();
    let mut multi: MultiTableMut<'_, '_> = transaction.multi_table("multi").unwrap().unwrap();
    for (key, value) in [(b"a", b"1"), (b"b", b"1"), (b"b", b"2"), (b"c", b"1")] {
        multi.insert(key, value).unwrap();
    }
    transaction.commit().unwrap();
    let snapshot = store.read().unwrap();
    assert_eq!(snapshot.main().count_range(&b"k3"[..]..).unwrap(), 7);
    assert_eq!(snapshot.main().count_range(..).unwrap(), 9);
    let multi = snapshot.multi_table("multi").unwrap().unwrap();
    assert_eq!(multi.count(b"b").unwrap(), 2);
    assert_eq!(multi.count_range(&b"a"[..]..=b"b").unwrap(), 3);
    let mut cursor = multi.cursor();
    assert!(cursor.seek(b"a").unwrap() && cursor.next().unwrap() && cursor.next_value().unwrap());
    assert_eq!((cursor.count().unwrap(), cursor.position().unwrap()), (2, Some(1)));
    assert!(!cursor.next_value().unwrap() && cursor.next_key().unwrap());
    assert!(cursor.previous_key().unwrap());
}

/// Danger: what is done with further tables than are told apart is what was done with the last of these.
#[test]
fn further_tables_are_recorded_apart_from_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    run(recorded("uses_many_tables", dir.path(), &trace));
    let stores = Trace::open(&trace).unwrap().stores().to_vec();
    // The main one is the first.
    let tables: Vec<_> = stores[1..].iter().map(|store| &*store.table).collect();
    assert_eq!((tables.len(), tables[999], tables[1000]), (1001, "t999", "(further tables)"));
    let found = shorts(&trace);
    let last: Vec<_> = found[1000..].iter().map(|entry| &**entry).collect();
    let expected = ["1001 insert k done 1 0", "1002 insert k done 2 0", "1002 insert k done 3 0"];
    assert_eq!(last[..3], expected);
    assert!(last[3].starts_with("1 commit"), "{last:?}");
}

#[test]
fn uses_many_tables() {
    if !is_child() {
        return;
    }
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    for i in 0..1002_usize {
        let value = vec![7; i.saturating_sub(998).max(1)];
        transaction.create_table(&format!("t{i}")).unwrap().insert(b"k", &value).unwrap();
    }
    transaction.commit().unwrap();
}
