//! Danger: records that a program loads at once, or builds a store of, are not in its recording, or are there
//! as what was put into another store, or of a build that came to nothing.

mod common;

use common::is_child;
use common::recording::{entries, folder, in_short, recorded, run};
use credenza::btree::{BTree, Duplicates, TableOptions};
use credenza::constant::{BuildOptions, Builder, Constant};
use credenza::foreign::{Cdb, CdbWriter, Mcdb, McdbWriter};
use credenza::hash::Hash;
use credenza::record::{Entry, Trace};
use credenza::{BTreeBuilder, BTreeLoad, Get, HashBuilder, Scan};

/// What the test of this name records, with the names of its stores' files and tables in place of their numbers.
fn told_by(test: &str) -> (Vec<Entry>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    run(recorded(test, dir.path(), &trace));
    let opened = Trace::open(&trace).unwrap();
    let name_of = |number: u32| {
        let store = &opened.stores()[number as usize - 1];
        let file = store.path.strip_prefix(dir.path()).unwrap_or(&store.path).display();
        format!("{file}{}", store.table)
    };
    let all = entries(&trace);
    let told = all.iter().map(|entry| {
        let text = in_short(entry);
        let (_, rest) = text.split_once(' ').unwrap();
        format!("{} {rest}", name_of(entry.store))
    });
    let told = told.collect();
    (all, told)
}

#[track_caller]
fn is_recorded(test: &str, expected: &[&str]) -> Vec<Entry> {
    let (all, told) = told_by(test);
    for (found, expected) in told.iter().zip(expected) {
        assert_eq!(found, expected, "{told:#?}");
    }
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    all
}

#[test]
fn records_of_bulk_loads_are_recorded_one_by_one() {
    let expected = [
        // By the call
        "b begin done 0 0",
        "b insert a done 1 0",
        "b insert b done 2 0",
        "bmany insert k hit 2 0",
        "bmany insert k hit 1 0",
        "b commit done 10 4",
        // By a load, of which the last value of a key stays, in their order
        "b begin done 0 0",
        "bother insert a done 3 0",
        "bother insert z done 1 0",
        "b commit done 6 2",
        // What did not come in order, or was there
        "b begin done 0 0",
        "bother insert a done 1 0",
        "b commit done 2 1",
        // Out of order: nothing came of it
        "b begin done 0 0",
        "bthird insert y done 1 0",
        "bthird insert x done 1 0",
        "b abort done 0 0",
    ];
    is_recorded("loads_tables", &expected);
}

#[test]
fn loads_tables() {
    if !is_child() {
        return;
    }
    let store = BTree::create(folder().join("b")).unwrap();
    let mut transaction = store.write().unwrap();
    let records = [(b"a", &b"1"[..]), (b"b", b"22")];
    transaction.main().bulk_load(records.map(Ok)).unwrap();
    let options = TableOptions::new().duplicates(Duplicates::Inserted);
    transaction.create_table_with("many", &options).unwrap();
    let mut many = transaction.multi_table("many").unwrap().unwrap();
    many.bulk_load([(b"k", &b"vv"[..]), (b"k", b"w")].map(Ok)).unwrap();
    transaction.create_table("other").unwrap();
    transaction.create_table("third").unwrap();
    transaction.commit().unwrap();
    let mut load = BTreeLoad::begin(&store, Some("other"));
    for (key, value) in [("z", "1"), ("a", "2"), ("a", "333")] {
        load.add(key.as_bytes(), value.as_bytes()).unwrap();
    }
    load.finish().unwrap();
    let mut load = BTreeLoad::begin(&store, Some("other"));
    load.add(b"a", b"4").unwrap();
    load.finish().unwrap();
    let mut transaction = store.write().unwrap();
    let records = [(b"y", b"1"), (b"x", b"1")];
    transaction.table("third").unwrap().unwrap().bulk_load(records.map(Ok)).unwrap_err();
    drop(transaction);
}

/// Danger: what is looked up afterwards is found in a replay, and the trace does not say why it was not.
#[test]
fn what_takes_everything_out_is_recorded() {
    let expected = [
        "h insert a done 1 0",
        "h remove done 0 0",
        "b begin done 0 0",
        "b insert a done 1 0",
        "b remove done 0 0",
        "bone insert a done 1 0",
        "bone remove done 0 0",
        "btwo insert a done 1 0",
        "btwo remove done 0 0",
        "bmany insert a hit 1 0",
        "bmany remove done 0 0",
        "bnew get a hit 1 0",
        "b commit done 8 4",
    ];
    is_recorded("takes_everything_out", &expected);
}

#[test]
fn takes_everything_out() {
    if !is_child() {
        return;
    }
    let hash = Hash::create(folder().join("h")).unwrap();
    hash.insert(b"a", b"1").unwrap();
    hash.clear().unwrap();
    let store = BTree::create(folder().join("b")).unwrap();
    let mut transaction = store.write().unwrap();
    let mut main = transaction.main();
    main.insert(b"a", b"1").unwrap();
    main.clear().unwrap();
    transaction.create_table("one").unwrap().insert(b"a", b"1").unwrap();
    assert!(transaction.delete_table("one").unwrap());
    assert!(!transaction.delete_table("one").unwrap());
    transaction.create_table("two").unwrap().insert(b"a", b"1").unwrap();
    assert!(transaction.rename_table("two", "new").unwrap());
    let options = TableOptions::new().duplicates(Duplicates::Inserted);
    transaction.create_table_with("many", &options).unwrap();
    let mut many = transaction.multi_table("many").unwrap().unwrap();
    many.insert(b"a", b"1").unwrap();
    many.clear().unwrap();
    assert!(transaction.table("new").unwrap().unwrap().get(b"a").unwrap().is_some());
    transaction.commit().unwrap();
}

#[test]
fn stores_that_are_built_elsewhere_are_recorded_as_what_they_become() {
    let expected = [
        "h begin done 0 0",
        "h insert one done 1 0",
        "h insert two done 2 0",
        "h commit done 9 2",
        "h get one hit 1 0",
        "b begin done 0 0",
        "b insert one done 1 0",
        "b insert two done 2 0",
        "b commit done 9 2",
        "b get one hit 1 0",
        "c begin done 0 0",
        "c insert two done 2 0",
        "c insert one done 1 0",
        "c commit done 9 2",
        "c get one hit 1 0",
        "cdb begin done 0 0",
        "cdb insert one done 1 0",
        "cdb insert one done 2 0",
        "cdb commit done 9 2",
        "cdb get one hit 1 0",
        "cdb get none miss 0 0",
        "cdb get one hit 1 0",
        "cdb get_all one hit 3 0",
        "cdb key none miss 0 0",
        "cdb get_many done 0 1",
        "cdb scan done 9 2",
        "mcdb begin done 0 0",
        "mcdb commit done 0 0",
        "mcdb get one miss 0 0",
    ];
    is_recorded("builds_stores", &expected);
}

#[test]
fn builds_stores() {
    if !is_child() {
        return;
    }
    let at = |name: &str| folder().join(name);
    let mut hash = HashBuilder::create(at("h")).unwrap();
    hash.add(b"one", b"1").unwrap();
    hash.add(b"two", b"22").unwrap();
    hash.finish().unwrap().get(b"one").unwrap();
    let mut btree = BTreeBuilder::create(at("b")).unwrap();
    btree.add(b"one", b"1").unwrap();
    btree.add(b"two", b"22").unwrap();
    btree.finish().unwrap().get(b"one").unwrap();
    let mut constant = Builder::create(at("c")).unwrap();
    constant.add(b"two", b"22").unwrap();
    constant.add(b"one", b"1").unwrap();
    constant.finish().unwrap();
    Constant::open(at("c")).unwrap().get(b"one").unwrap();
    let mut foreign = CdbWriter::create(at("cdb")).unwrap();
    foreign.add(b"one", b"1").unwrap();
    foreign.add(b"one", b"22").unwrap();
    foreign.finish().unwrap();
    let foreign = Cdb::open(at("cdb")).unwrap();
    foreign.get(b"one").unwrap();
    foreign.get(b"none").unwrap();
    assert!(foreign.contains_key(b"one").unwrap());
    foreign.get_all(b"one").unwrap();
    foreign.get_many(&[b"none"], |_, _| ()).unwrap();
    foreign.scan(|_, _| Ok(())).unwrap();
    McdbWriter::create(at("mcdb")).unwrap().finish().unwrap();
    Mcdb::open(at("mcdb")).unwrap().get(b"one").unwrap();
}

/// Whatever threads a builder is handed to, and whatever these do with the old file meanwhile, its records are
/// one transaction; one that is dropped is aborted.
#[test]
fn a_build_is_one_transaction_whoever_makes_it() {
    let expected = [
        "c begin done 0 0",
        "c insert old done 1 0",
        "c commit done 4 1",
        "c begin done 0 0",
        "c get old hit 1 0",
        "c insert new done 2 0",
        "c insert newer done 1 0",
        "c commit done 11 2",
        "c begin done 0 0",
        "c insert lost done 1 0",
        "c abort done 0 0",
    ];
    let all = is_recorded("hands_a_builder_on", &expected);
    let threads: Vec<u32> = all.iter().map(|entry| entry.thread).collect();
    let of = |build: &[usize]| build.iter().map(|i| threads[*i]).collect::<Vec<_>>();
    for build in [&[0, 1, 2][..], &[3, 5, 6, 7], &[8, 9, 10]] {
        assert!(of(build).iter().all(|thread| *thread == threads[build[0]]), "{threads:?}");
    }
    assert!(threads.iter().filter(|thread| **thread == threads[4]).count() == 1, "{threads:?}");
}

#[test]
fn hands_a_builder_on() {
    if !is_child() {
        return;
    }
    let path = folder().join("c");
    let mut first = Builder::create(&path).unwrap();
    first.add(b"old", b"1").unwrap();
    first.finish().unwrap();
    let mut builder = Builder::create(&path).unwrap();
    Constant::open(&path).unwrap().get(b"old").unwrap();
    let of_another = std::thread::spawn(move || {
        builder.add(b"new", b"12").unwrap();
        builder
    });
    let mut builder = of_another.join().unwrap();
    builder.add(b"newer", b"1").unwrap();
    // Refused, and so no part of it.
    builder.add(&[0; 70_000], b"").unwrap_err();
    builder.finish().unwrap();
    let mut builder = Builder::create(&path).unwrap();
    builder.add(b"lost", b"1").unwrap();
    drop(builder);
    BuildOptions::new().build_in_memory([(b"in", b"memory")]).unwrap();
}

#[test]
fn a_build_that_comes_to_nothing_is_aborted() {
    let expected = [
        "h begin done 0 0",
        "h insert one done 1 0",
        "h abort done 0 0",
        "b begin done 0 0",
        "b insert one done 1 0",
        "btable insert two done 2 0",
        "b insert three done 3 0",
        "b abort done 0 0",
        "c begin done 0 0",
        "c insert one done 1 0",
        "c abort done 0 0",
    ];
    // More than a batch of the hash store's has.
    let many = (0..5000).map(|_| expected[1]);
    let all: Vec<&str> =
        expected[..1].iter().copied().chain(many).chain(expected[2..].iter().copied()).collect();
    let told = told_by("builds_nothing").1;
    let of_btree = |line: &&String| line.starts_with('b') && !line.contains("insert");
    assert_eq!(told.len(), all.len(), "{:#?}", &told[told.len().saturating_sub(10)..]);
    // The table is another store of the trace, which the end is said of, too.
    assert_eq!(told.iter().filter(of_btree).count(), 2, "{told:?}");
    assert_eq!(told, all);
}

#[test]
fn builds_nothing() {
    if !is_child() {
        return;
    }
    let mut hash = HashBuilder::create(folder().join("h")).unwrap();
    (0..5000).for_each(|_| hash.add(b"one", b"1").unwrap());
    drop(hash);
    let mut btree = BTreeBuilder::create(folder().join("b")).unwrap();
    btree.add(b"one", b"1").unwrap();
    btree.begin_table("table").unwrap();
    btree.add(b"two", b"22").unwrap();
    btree.begin_main().unwrap();
    btree.add(b"three", b"333").unwrap();
    drop(btree);
    let mut constant = Builder::create(folder().join("c")).unwrap();
    constant.add(b"one", b"1").unwrap();
    drop(constant);
}
