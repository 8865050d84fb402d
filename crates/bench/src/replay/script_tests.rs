//! Danger: what was committed is taken for aborted, or the other way round, so that a replay does other things
//! than the program did, and stores begin with records that were put in later. A process of its own works with
//! several stores in one thread, and records; what is made of its trace is put beside what it did.

use super::script::{Do, Script};
use credenza::Get;
use credenza::btree::BTree;
use credenza::hash::{Batch, Hash};
use credenza::record::Trace;
use std::path::PathBuf;
use std::process::Command;

/// Names the folder that the process works in.
const FOLDER: &str = "CREDENZA_TEST_FOLDER";

/// What a trace asks for when a process has done what this test does: each step with its key.
fn script_of(test: &str) -> (Script, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("replay::script_tests::{test}")]);
    command.env("CREDENZA_RECORD", &trace).env(FOLDER, folder.path());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let script = Script::of(&Trace::open(&trace).unwrap()).unwrap();
    let steps = script.steps.iter().map(|step| {
        // Behind two bytes for the store.
        let key = step.key.map(|key| script.key(key)[2..].escape_ascii().to_string());
        format!("{} {}", step.what.name(), key.unwrap_or_default()).trim_end().to_owned()
    });
    let steps = steps.collect();
    (script, steps)
}

/// The folder to work in; `None` in the process that only tests.
fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// How many entries are not done, for these reasons.
fn left_out(script: &Script) -> Vec<(&str, u64)> {
    script.left_out.iter().map(|(why, count)| (*why, *count)).collect()
}

#[test]
fn a_transaction_within_one_of_another_store_ends_neither() {
    let (script, steps) = script_of("commits_within_a_transaction");
    let expected =
        ["begin", "insert a", "insert b", "insert c", "commit", "get a", "get c", "get b"];
    assert_eq!(steps, expected);
    assert_eq!((left_out(&script), script.before.len()), (Vec::new(), 0));
}

#[test]
fn commits_within_a_transaction() {
    let Some(folder) = folder() else { return };
    let btree = BTree::create(folder.join("btree")).unwrap();
    let hash = Hash::create(folder.join("hash")).unwrap();
    let mut transaction = btree.write().unwrap();
    transaction.main().insert(b"a", b"1").unwrap();
    hash.batch(Batch::new().insert(b"b", b"2")).unwrap();
    transaction.main().insert(b"c", b"3").unwrap();
    transaction.commit().unwrap();
    assert!(btree.get(b"a").unwrap().is_some() && btree.get(b"c").unwrap().is_some());
    assert!(hash.get(b"b").unwrap().is_some());
}

#[test]
fn what_is_aborted_is_what_its_own_store_undid() {
    let (script, steps) = script_of("aborts_around_and_within_a_transaction");
    let expected = [
        // Around one that is committed.
        "begin", "insert b", "commit", "get a", "get b", // Within one.
        "begin", "insert c", "insert e", "commit", "get c", "get d", "get e",
    ];
    assert_eq!(steps, expected);
    let aborted =
        [("change what was aborted afterwards", 4), ("end a transaction that was aborted", 2)];
    assert_eq!((left_out(&script), script.before.len()), (aborted.to_vec(), 0));
    let was_there: Vec<_> = script.steps.iter().filter(|step| step.what == Do::Get).collect();
    let was_there: Vec<_> = was_there.into_iter().map(|step| step.was_there).collect();
    assert_eq!(was_there, [false, true, true, false, true].map(Some));
}

#[test]
fn aborts_around_and_within_a_transaction() {
    let Some(folder) = folder() else { return };
    let one = BTree::create(folder.join("one")).unwrap();
    let two = BTree::create(folder.join("two")).unwrap();
    let mut outer = one.write().unwrap();
    outer.main().insert(b"a", b"1").unwrap();
    let mut inner = two.write().unwrap();
    inner.main().insert(b"b", b"2").unwrap();
    inner.commit().unwrap();
    // A table is of its store.
    outer.create_table("table").unwrap().insert(b"a", b"3").unwrap();
    outer.abort();
    assert!(one.get(b"a").unwrap().is_none() && two.get(b"b").unwrap().is_some());

    let mut outer = one.write().unwrap();
    outer.main().insert(b"c", b"4").unwrap();
    let mut inner = two.write().unwrap();
    inner.main().insert(b"d", b"5").unwrap();
    inner.create_table("table").unwrap().insert(b"d", b"6").unwrap();
    inner.abort();
    outer.main().insert(b"e", b"7").unwrap();
    outer.commit().unwrap();
    assert!(one.get(b"c").unwrap().is_some() && two.get(b"d").unwrap().is_none());
    assert!(one.get(b"e").unwrap().is_some());
}

#[test]
fn stores_in_memory_and_their_tables_are_told_apart_as_far_as_a_trace_does() {
    let (script, steps) = script_of("works_in_memory");
    let expected = [
        // Two stores without tables are two, and of the first table nothing is left.
        "begin", "insert a", "insert b", "insert c", "commit", "get a", "insert e",
    ];
    assert_eq!(steps, expected);
    let aborted =
        [("change what was aborted afterwards", 2), ("end a transaction that was aborted", 1)];
    assert_eq!((left_out(&script), script.before.len()), (aborted.to_vec(), 0));
}

#[test]
fn works_in_memory() {
    if folder().is_none() {
        return;
    }
    let (one, two) = (Hash::in_memory().unwrap(), Hash::in_memory().unwrap());
    let btree = BTree::in_memory().unwrap();
    let mut transaction = btree.write().unwrap();
    transaction.main().insert(b"a", b"1").unwrap();
    one.batch(Batch::new().insert(b"b", b"2")).unwrap();
    two.batch(Batch::new().insert(b"c", b"3")).unwrap();
    transaction.commit().unwrap();
    assert!(btree.get(b"a").unwrap().is_some());
    let mut transaction = btree.write().unwrap();
    transaction.main().insert(b"d", b"4").unwrap();
    transaction.create_table("table").unwrap().insert(b"d", b"5").unwrap();
    transaction.abort();
    one.insert(b"e", b"6").unwrap();
}

#[test]
fn a_transaction_within_one_of_the_same_store_is_part_of_it() {
    let (script, steps) = script_of("goes_back_within_a_transaction");
    assert_eq!(steps, ["begin", "insert a", "insert b", "insert c", "commit", "get a"]);
    assert!(left_out(&script).is_empty());
}

#[test]
fn goes_back_within_a_transaction() {
    let Some(folder) = folder() else { return };
    let btree = BTree::create(folder.join("btree")).unwrap();
    // A second store, so that keys say which they are of.
    let other = Hash::in_memory().unwrap();
    let mut outer = btree.write().unwrap();
    outer.main().insert(b"a", b"1").unwrap();
    let mut inner = outer.nested();
    inner.main().insert(b"b", b"2").unwrap();
    inner.commit().unwrap();
    outer.main().insert(b"c", b"3").unwrap();
    outer.commit().unwrap();
    assert!(btree.get(b"a").unwrap().is_some());
    drop(other);
}

#[test]
fn what_was_read_within_a_transaction_and_by_steps_is_read_there() {
    let (script, steps) = script_of("reads_by_steps");
    let expected = [
        "begin", "insert b", "insert c", "insert d", "commit", // A batch.
        "begin", "get b", "insert a", "get a", "commit", // A cursor, there and back.
        "begin", "insert a", "insert b", "insert c", "seek b", "scan c", "scan b", "insert b",
        "commit",
    ];
    assert_eq!(steps, expected);
    let scans = script.steps.iter().filter(|step| step.what == Do::Scan);
    assert_eq!(scans.map(|step| step.items).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(left_out(&script), [("count the records of a range", 1)]);
    // What the transaction had put there itself was not there before.
    assert_eq!(script.before.len(), 0);
}

#[test]
fn reads_by_steps() {
    let Some(folder) = folder() else { return };
    let hash = Hash::create(folder.join("hash")).unwrap();
    hash.batch(Batch::new().insert(b"b", b"1").insert(b"c", b"2").insert(b"d", b"3")).unwrap();
    let mut transaction = hash.transaction().unwrap();
    assert!(transaction.get(b"b").unwrap().is_some());
    transaction.insert(b"a", b"1").unwrap();
    assert!(transaction.get(b"a").unwrap().is_some());
    transaction.commit().unwrap();
    let btree = BTree::create(folder.join("btree")).unwrap();
    let mut transaction = btree.write().unwrap();
    for key in [b"a", b"b", b"c"] {
        transaction.main().insert(key, b"1").unwrap();
    }
    assert_eq!(transaction.main().read().count_range(..).unwrap(), 3);
    let mut cursor = transaction.main().cursor();
    assert!(cursor.seek(b"b").unwrap() && cursor.next().unwrap() && cursor.previous().unwrap());
    cursor.put(b"2").unwrap();
    drop(cursor);
    transaction.commit().unwrap();
}

/// Danger: our own stores refuse the key, with the two bytes that stand before it here.
#[test]
fn a_key_that_is_too_long_with_what_says_its_store_is_left_out() {
    let (script, steps) = script_of("puts_the_longest_keys");
    let lens: Vec<usize> = script.keys.iter().map(|key| key.len()).collect();
    assert_eq!((lens, steps.len()), (vec![65_536, 3], 2));
    let [(why, 3)] = left_out(&script)[..] else { panic!("{:?}", script.left_out) };
    assert!(why.contains("the two bytes"), "{why}");
}

#[test]
fn puts_the_longest_keys() {
    if folder().is_none() {
        return;
    }
    let (one, two) = (Hash::in_memory().unwrap(), Hash::in_memory().unwrap());
    for len in [65_534, 65_535, 65_536] {
        one.insert(&vec![7; len], b"1").unwrap();
    }
    assert!(one.get(&[7; 65_535]).unwrap().is_some());
    two.insert(b"a", b"2").unwrap();
}
