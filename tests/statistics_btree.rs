//! Danger: an operation on a table of a btree store that is counted twice, as it does its work by means
//! of others, or never, as it goes another way; changes that were undone and count as committed.

mod common;

use common::statistics::{KEYS, btree, check_latencies, numbers, open_btree};
use credenza::btree::{BTree, Duplicates, Position, Snapshot, TableMut, TableOptions, Transaction};
use credenza::stats::{Event, Latency, Operation, Operations, Outcome, Statistics};
use credenza::{BTreeLoad, Durability, Error, Get, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A store of keys 0 to 999 with values of 3 bytes that counts, and times all.
fn store() -> (tempfile::TempDir, BTree) {
    let dir = tempfile::tempdir().unwrap();
    let store = open_btree(&btree(dir.path()), Statistics::new().latency(Latency::Every));
    (dir, store)
}

fn key(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

/// What `f` made of the numbers: every operation that was counted, with its outcomes that are not 0,
/// items and bytes. All of it was timed.
fn seen<R>(store: &BTree, f: impl FnOnce() -> R) -> Vec<String> {
    let before = store.operations().unwrap();
    f();
    lines(&store.operations().unwrap().since(&before))
}

fn lines(operations: &Operations) -> Vec<String> {
    check_latencies(operations);
    let mut lines = Vec::new();
    for (operation, tally) in operations.iter().filter(|(_, tally)| tally.calls > 0) {
        let mut line = operation.to_string();
        for outcome in operation.outcomes() {
            match tally.count(*outcome) {
                0 => {}
                count => line += &format!(" {outcome} {count}"),
            }
        }
        if operation != Operation::Scan {
            assert_eq!(tally.latency.count(), tally.calls, "{operation}");
        }
        if tally.items != tally.calls {
            line += &format!(", {} items", tally.items);
        }
        lines.push(line + &format!(", {} bytes", tally.bytes));
    }
    lines
}

#[test]
fn reading_a_table_is_counted() {
    let (_dir, store) = store();
    read_and_check(&store, &store.read().unwrap());
    read_and_check(&store, &store.read_for(Duration::from_secs(3600)).unwrap());
}

fn read_and_check(store: &BTree, snapshot: &Snapshot<'_>) {
    let main = snapshot.main();
    let seen = |f: &dyn Fn() -> Result<()>| seen(store, || f().unwrap());
    assert_eq!(seen(&|| main.get(&key(1)).map(drop)), ["get hit 1, 3 bytes"]);
    assert_eq!(seen(&|| main.get(b"none").map(drop)), ["get miss 1, 0 bytes"]);
    assert_eq!(seen(&|| main.contains_key(&key(1)).map(drop)), ["get hit 1, 3 bytes"]);
    let many = || main.get_many(&[&key(1)[..], b"none", &key(2)], |_, _| ());
    assert_eq!(seen(&many), ["get_many hit 2 miss 1, 3 items, 6 bytes"]);
    let nearest = || {
        main.first()?;
        main.last()?;
        main.at_or_after(&key(5))?;
        main.after(&key(5))?;
        main.before(&key(5))?;
        main.at_or_before(&key(5)).map(drop)
    };
    assert_eq!(seen(&nearest), ["seek hit 6, 42 bytes"]);
    assert_eq!(seen(&|| main.after(&[0xff; 5]).map(drop)), ["seek miss 1, 0 bytes"]);
    let scan = || main.scan(|_, _| Ok(()));
    assert_eq!(seen(&scan), ["scan done 1, 1000 items, 7000 bytes"]);
    let some = || main.scan_range(&key(7)[..].., |found, _| Ok(found != key(7)));
    assert_eq!(seen(&some), ["scan done 1, 7 bytes"]);
    let stopped = seen(&|| {
        main.scan(|_, _| Err(Error::invalid("enough"))).unwrap_err();
        Ok(())
    });
    assert_eq!(stopped, ["scan failed 1, 7 bytes"]);
    let ends = || {
        let mut range = main.range(&key(0)[..]..);
        range.next().unwrap()?;
        range.next_back().unwrap()?;
        range.next_back().unwrap().map(drop)
    };
    assert_eq!(seen(&ends), ["scan done 1, 3 items, 21 bytes"]);
    let prefix = || main.prefix(&[1]).try_for_each(|record| record.map(drop));
    assert_eq!(seen(&prefix), ["scan done 1, 4 items, 28 bytes"]);
    // What counts records is not counted.
    assert_eq!(seen(&|| main.count_range(..).map(drop)), [""; 0]);
    assert_eq!(seen(&|| store.verify(|_, _| ())), [""; 0]);
    assert_eq!(seen(&|| snapshot.tables().map(drop)), [""; 0]);
    let stat = || store.stats().map(drop);
    assert_eq!(seen(&stat), [""; 0]);
}

#[test]
fn cursors_are_counted_when_they_go_to_a_place_and_not_on_their_way() {
    let (_dir, store) = store();
    let snapshot = store.read().unwrap();
    let mut cursor = snapshot.main().cursor();
    let all = seen(&store, || {
        assert!(cursor.first().unwrap() && cursor.next().unwrap() && cursor.previous().unwrap());
        assert!(cursor.last().unwrap() && !cursor.next().unwrap());
        assert!(cursor.seek(&key(9)).unwrap() && !cursor.find(b"none").unwrap());
        cursor.value().unwrap();
    });
    assert_eq!(all, ["seek hit 3 miss 1, 0 bytes"]);
    let mut transaction = store.write().unwrap();
    let all = seen(&store, || {
        let mut cursor = transaction.main().cursor();
        assert!(cursor.find(&key(9)).unwrap());
        cursor.put(b"12345").unwrap();
        cursor.next().unwrap();
        cursor.remove().unwrap();
    });
    let expected = ["seek hit 1, 0 bytes", "insert done 1, 9 bytes", "remove hit 1, 4 bytes"];
    assert_eq!(all, expected);
    let all = seen(&store, || transaction.commit().unwrap());
    assert_eq!(all, ["commit done 1, 2 items, 13 bytes"]);
}

/// What a transaction changes is counted at once, and what of it was committed, with the commit.
#[test]
fn changes_of_a_transaction_are_counted_as_they_ended() {
    let (_dir, store) = store();
    let mut transaction = store.write().unwrap();
    let all = seen(&store, || {
        let mut main = transaction.main();
        assert!(!main.insert(b"new", b"value").unwrap());
        assert!(main.insert(b"new", b"other").unwrap());
        main.insert(&[0; 70_000], b"").unwrap_err();
        assert!(!main.insert_if_absent(b"new", b"no").unwrap());
        assert!(main.insert_if_absent(b"n", b"yes").unwrap());
        main.append(b"no number").unwrap_err();
        assert!(main.remove(b"n").unwrap() && !main.remove(b"n").unwrap());
        assert!(main.pop_first().unwrap().is_some() && main.pop_last().unwrap().is_some());
        assert_eq!(main.remove_range(..&[1][..]).unwrap(), 3);
        assert_eq!(main.remove_range(..&[1][..]).unwrap(), 0);
        assert_eq!(main.get(&key(1)).unwrap(), Some(&b"abc"[..]));
        assert!(main.read().get(&key(0)).unwrap().is_none());
    });
    let removed = 1 + 4 + 4 + 3 * 4;
    let expected = [
        "get hit 1 miss 1, 3 bytes",
        "insert done 2 failed 2, 16 bytes",
        &format!("remove hit 4 miss 2, {removed} bytes"),
        "update done 1 unchanged 1, 4 bytes",
    ];
    assert_eq!(all, expected);
    let all = seen(&store, || transaction.commit().unwrap());
    let (items, bytes) = (2 + 1 + 3 + 3, 16 + 4 + removed);
    assert_eq!(all, [format!("commit done 1, {items} items, {bytes} bytes")]);
    let all = seen(&store, || {
        assert!(!store.insert(b"own", b"1").unwrap() && store.remove(b"own").unwrap());
        assert!(!store.remove(b"own").unwrap());
        store.insert(&[0; 70_000], b"").unwrap_err();
    });
    let expected = ["insert done 1 failed 1, 4 bytes", "remove hit 1 miss 1, 3 bytes"];
    assert_eq!(all, expected, "commits of their own are no others");
}

#[test]
fn what_was_undone_is_not_among_what_was_committed() {
    let (_dir, store) = store();
    let put = |transaction: &mut Transaction<'_>, key: &[u8]| {
        transaction.main().insert(key, b"").unwrap();
    };
    let all = seen(&store, || {
        let mut transaction = store.write().unwrap();
        put(&mut transaction, b"a");
        let savepoint = transaction.savepoint();
        put(&mut transaction, b"bc");
        put(&mut transaction, b"def");
        transaction.rollback_to(savepoint).unwrap();
        put(&mut transaction, b"ghij");
        put(&mut transaction.nested(), b"undone");
        let mut nested = transaction.nested();
        put(&mut nested, b"klmno");
        nested.commit().unwrap();
        transaction.commit().unwrap();
    });
    let bytes = 1 + 2 + 3 + 4 + 6 + 5;
    assert_eq!(
        all,
        [
            format!("insert done 6, {bytes} bytes"),
            format!("commit done 1, 3 items, {} bytes", 1 + 4 + 5)
        ]
    );
    let all = seen(&store, || {
        store.write().unwrap().abort();
        drop(store.write().unwrap());
        let mut transaction = store.write().unwrap();
        put(&mut transaction, b"undone");
        drop(transaction);
        store.write().unwrap().commit().unwrap();
    });
    let expected =
        ["insert done 1, 6 bytes", "commit done 1, 0 items, 0 bytes", "abort done 3, 0 bytes"];
    assert_eq!(all, expected);
}

#[test]
fn tables_of_all_kinds_are_counted() {
    let (_dir, store) = store();
    let mut transaction = store.write().unwrap();
    let sorted = TableOptions::new().duplicates(Duplicates::Sorted);
    let inserted = TableOptions::new().duplicates(Duplicates::Inserted);
    let numbered = TableOptions::of_keys::<u32>().numbered(true);
    let all = seen(&store, || {
        for (name, options) in [("sorted", sorted), ("inserted", inserted), ("log", numbered)] {
            assert!(transaction.create_table_with(name, &options).unwrap());
        }
    });
    assert_eq!(all, [""; 0]);
    for name in ["sorted", "inserted"] {
        let mut table = transaction.multi_table(name).unwrap().unwrap();
        let all = seen(&store, || {
            for value in [b"1", b"2", b"3"] {
                assert!(table.insert(b"key", value).unwrap());
            }
            assert!(table.replace_nth(b"key", 1, b"4").unwrap());
            assert!(!table.replace_nth(b"key", 9, b"4").unwrap());
            assert!(table.remove_value(b"key", b"1").unwrap());
            assert!(!table.remove_value(b"key", b"1").unwrap());
            assert!(table.remove_nth(b"key", 0).unwrap());
            assert!(table.get(b"key").unwrap().is_some());
        });
        let expected = [
            "get hit 1, 1 bytes",
            "insert done 3, 12 bytes",
            "remove hit 2 miss 1, 7 bytes",
            "update done 1 unchanged 1, 4 bytes",
        ];
        assert_eq!(all, expected, "{name}");
    }
    let all = seen(&store, || {
        let mut log = transaction.table("log").unwrap().unwrap();
        assert_eq!(log.append(b"entry").unwrap(), 1);
        log.typed::<u32>().unwrap().insert(&7, b"seven").unwrap();
        assert!(log.read().typed::<u32>().unwrap().get(&7).unwrap().is_some());
        let mut table = transaction.multi_table("inserted").unwrap().unwrap();
        assert!(table.insert_at(b"key", Position::First, b"0").unwrap());
        assert_eq!(table.remove(b"none").unwrap(), 0);
    });
    let expected = ["get hit 1, 5 bytes", "insert done 3, 22 bytes", "remove miss 1, 0 bytes"];
    assert_eq!(all, expected);
    transaction.commit().unwrap();
    read_several(&store, &store.read().unwrap());
}

/// Reads a table with the values 0 and, of those before, one more.
fn read_several(store: &BTree, snapshot: &Snapshot<'_>) {
    let table = snapshot.multi_table("inserted").unwrap().unwrap();
    let all = seen(store, || {
        assert!(table.contains_key(b"key").unwrap() && table.contains(b"key", b"0").unwrap());
        assert!(table.nth(b"key", 2).unwrap().is_none());
        assert_eq!(table.count(b"key").unwrap(), 2);
    });
    assert_eq!(all, ["get hit 2 miss 1, 2 bytes"]);
    let all = seen(store, || {
        assert!(table.first().unwrap().is_some() && table.last().unwrap().is_some());
        let mut cursor = table.cursor();
        assert!(cursor.first().unwrap() && cursor.next_value().unwrap() && cursor.last().unwrap());
        assert!(!cursor.find(b"none").unwrap() && cursor.seek(b"key").unwrap());
    });
    assert_eq!(all, ["seek hit 5 miss 1, 8 bytes"]);
    let all = seen(store, || {
        assert_eq!(table.values(b"key").count() + table.iter().count(), 4);
        table.scan(|_, _| Ok(())).unwrap();
    });
    assert_eq!(all, ["scan done 3, 6 items, 24 bytes"]);
}

/// A value that the key has, and one for which there is no place, are inserts that change nothing.
#[test]
fn an_insert_of_nothing_is_no_change() {
    let (_dir, store) = store();
    let mut transaction = store.write().unwrap();
    for (name, duplicates) in [("sorted", Duplicates::Sorted), ("inserted", Duplicates::Inserted)] {
        let options = TableOptions::new().duplicates(duplicates);
        transaction.create_table_with(name, &options).unwrap();
        let mut table = transaction.multi_table(name).unwrap().unwrap();
        assert!(table.insert(b"key", b"value").unwrap());
        let all = seen(&store, || {
            let is_one_more = match duplicates {
                Duplicates::Sorted => table.insert(b"key", b"value").unwrap(),
                _ => table.insert_at(b"key", Position::After(1), b"value").unwrap(),
            };
            assert!(!is_one_more);
        });
        assert_eq!(all, ["insert done 1, 0 bytes"], "{name}");
    }
    let all = seen(&store, || transaction.commit().unwrap());
    assert_eq!(all, ["commit done 1, 2 items, 16 bytes"]);
}

#[test]
fn a_bulk_load_is_told_with_its_commit() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("store");
    drop(BTree::create(&path).unwrap());
    let store = open_btree(&path, Statistics::new().latency(Latency::Every));
    let records = (0..100u8).map(|n| Ok(([n], [n; 2])));
    let all = seen(&store, || {
        let mut transaction = store.write().unwrap();
        assert_eq!(transaction.main().bulk_load(records.clone()).unwrap(), 100);
        let options = TableOptions::new().duplicates(Duplicates::Sorted);
        transaction.create_table_with("sorted", &options).unwrap();
        let mut table = transaction.multi_table("sorted").unwrap().unwrap();
        assert_eq!(table.bulk_load(records).unwrap(), 100);
        transaction.commit().unwrap();
    });
    assert_eq!(all, ["commit done 1, 200 items, 600 bytes"]);
}

/// As often as a commit waits for the disk it is one of those that do.
#[test]
fn commits_are_told_apart_by_their_durability() {
    let dir = tempfile::tempdir().unwrap();
    let path = btree(dir.path());
    for (durability, commits, durable) in [
        (Durability::Buffered, 3, 0),
        (Durability::Interval(3_600_000), 3, 0),
        (Durability::Sync, 0, 3),
    ] {
        let options = BTree::options().durability(durability);
        let store = options.statistics(Statistics::new()).open(&path).unwrap();
        for i in 0..3 {
            let mut transaction = store.write().unwrap();
            transaction.main().insert(b"key", &[i]).unwrap();
            transaction.commit().unwrap();
        }
        let all = store.operations().unwrap();
        let of = |operation| numbers(&all, operation);
        assert_eq!(of(Operation::Commit), [commits, 0, 0, 0, commits, 4 * commits]);
        assert_eq!(of(Operation::CommitSync), [durable, 0, 0, 0, durable, 4 * durable]);
        assert_eq!(of(Operation::Sync)[0], 0);
        store.sync().unwrap();
        assert_eq!(numbers(&store.operations().unwrap(), Operation::Sync)[0], 1);
        check_latencies(&store.operations().unwrap());
    }
}

#[test]
fn what_fails_is_counted_as_failed() {
    let (dir, store) = store();
    let all = seen(&store, || {
        let mut transaction = store.write().unwrap();
        let fails = |table: &mut TableMut<'_, '_>| {
            let records = [Ok((b"b", b"")), Err(Error::invalid("on purpose"))];
            table.clear().unwrap();
            table.bulk_load(records).unwrap_err();
        };
        fails(&mut transaction.main());
        transaction.commit().unwrap_err();
    });
    assert_eq!(all, ["commit failed 1, 0 items, 0 bytes"]);
    drop(store);
    let options = BTree::options().read_only(true).statistics(Statistics::new());
    let store = options.open(dir.path().join("btree")).unwrap();
    store.insert(b"a", b"1").unwrap_err();
    store.remove(b"a").unwrap_err();
    store.write().unwrap_err();
    assert!(Get::contains_key(&store, &key(1)).unwrap());
    let all = store.operations().unwrap();
    for operation in [Operation::Insert, Operation::Remove] {
        assert_eq!(all.of(operation).count(Outcome::Failed), 1);
    }
    assert_eq!(numbers(&all, Operation::Get), [1, 1, 0, 0, 1, 3]);
    assert_eq!(all.of(Operation::Abort).calls, 0, "nothing had begun");
}

#[test]
fn threads_that_write_and_read_lose_no_count() {
    const THREADS: u64 = 8;
    let dir = tempfile::tempdir().unwrap();
    let store = open_btree(&btree(dir.path()), Statistics::new().shared(true));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                for i in 0..300u64 {
                    let mut transaction = store.write().unwrap();
                    transaction.main().insert(format!("{thread} {i:6}").as_bytes(), b"v").unwrap();
                    if i % 3 > 0 {
                        transaction.commit().unwrap();
                    }
                    let snapshot = store.read().unwrap();
                    let found = snapshot.main().get(format!("{thread} {i:6}").as_bytes()).unwrap();
                    assert_eq!(found.is_some(), i % 3 > 0);
                }
            });
        }
    });
    let all = store.operations().unwrap();
    let inserts = 300 * THREADS;
    assert_eq!(numbers(&all, Operation::Insert), [inserts, 0, 0, 0, inserts, 9 * inserts]);
    let commits = 200 * THREADS;
    assert_eq!(numbers(&all, Operation::Commit), [commits, 0, 0, 0, commits, 9 * commits]);
    assert_eq!(all.of(Operation::Abort).calls, 100 * THREADS);
    assert_eq!(
        numbers(&all, Operation::Get),
        [inserts, commits, 100 * THREADS, 0, inserts, commits]
    );
    check_latencies(&all);
}

/// A callback that writes to the store it hears of: no lock of what the handle did is left. Within a
/// transaction it may read.
#[test]
fn a_callback_may_use_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = btree(dir.path());
    let log = BTree::open(&path).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&heard);
    let write = move |event: &Event| {
        let number = names.lock().unwrap().len();
        let written = log.insert(format!("log{number}").as_bytes(), b"").is_ok();
        assert!(Get::get(&log, &key(1)).unwrap().is_some());
        names.lock().unwrap().push((event.operation, written));
    };
    let store = open_btree(&path, Statistics::new().latency(Latency::Every).callback(write));
    store.insert(b"a", b"1").unwrap();
    let mut transaction = store.write().unwrap();
    transaction.main().insert(b"b", b"2").unwrap();
    transaction.commit().unwrap();
    store.write().unwrap().abort();
    Get::get(&store, b"a").unwrap();
    store.sync().unwrap();
    let expected = [
        (Operation::Insert, true),
        (Operation::Insert, false),
        (Operation::Commit, true),
        (Operation::Abort, true),
        (Operation::Get, true),
        (Operation::Sync, true),
    ];
    assert_eq!(*heard.lock().unwrap(), expected);
    let records = store.read().unwrap().main().len();
    assert_eq!(records, u64::from(KEYS) + 2 + 5);
}

/// A callback that panics: what it undoes on its way is counted, and no second panic ends the process.
#[test]
fn the_panic_of_a_callback_goes_through_a_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let statistics =
        Statistics::new().latency(Latency::Every).callback(|_| panic!("of the callback"));
    let path = btree(dir.path());
    let store = open_btree(&path, statistics);
    let of_transaction = || {
        let mut transaction = store.write().unwrap();
        transaction.main().insert(b"new", b"value").unwrap();
    };
    catch_unwind(AssertUnwindSafe(of_transaction)).unwrap_err();
    let all = store.operations().unwrap();
    assert_eq!(all.of(Operation::Insert).count(Outcome::Done), 1);
    assert_eq!(all.of(Operation::Abort).count(Outcome::Done), 1);
    let of_load = || {
        let mut load = BTreeLoad::begin(&store, None);
        load.add(b"new", b"value").unwrap();
        load.finish().unwrap();
    };
    catch_unwind(AssertUnwindSafe(of_load)).unwrap_err();
    let reader = BTree::open(&path).unwrap();
    assert_eq!(reader.read().unwrap().main().get(b"new").unwrap(), None);
    reader.insert(b"new", b"value").unwrap();
}
