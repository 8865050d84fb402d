//! Danger: a change that somebody waits for and never hears of, whoever made it and however he ended;
//! a wait that does not end, or ends for nothing.

mod common;

use common::seed;
use common::sys::{self, Status, fork};
use common::{Rng, rounds};
use credenza::Durability;
use credenza::btree::{BTree, Snapshot};
use std::path::Path;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn number_at(snapshot: &Snapshot<'_>, key: &[u8]) -> u64 {
    let text = snapshot.main().get(key).unwrap().unwrap_or(b"0");
    str::from_utf8(text).unwrap().parse().unwrap()
}

/// One of two who each wait for the other's number to go on with theirs: so often that it would take
/// minutes if nobody were woken but by himself.
fn play(store: &BTree, mine: &[u8], other: &[u8], is_first: bool) {
    for i in 0..400 {
        if is_first {
            store.insert(mine, format!("{}", i + 1).as_bytes()).unwrap();
        }
        loop {
            let snapshot = store.read().unwrap();
            if number_at(&snapshot, other) > i {
                break;
            }
            let since = snapshot.number();
            assert_ne!(store.wait_for_change(since, LONG).unwrap(), since);
        }
        if !is_first {
            store.insert(mine, format!("{}", i + 1).as_bytes()).unwrap();
        }
    }
}

#[test]
fn two_processes_wake_each_other() {
    for durability in [Durability::Buffered, Durability::Sync] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let store = BTree::create(&path).unwrap();
        let mut process = fork(|| {
            sys::give_up_after(60);
            let store = BTree::options().durability(durability).open(&path).unwrap();
            play(&store, b"ping", b"pong", true);
        });
        play(&store, b"pong", b"ping", false);
        assert_eq!(process.wait(), Status::Exited(0));
        assert_eq!(store.changes(), store.read().unwrap().number());
        store.verify(|_, _| ()).unwrap();
    }
}

/// All who wait are woken by one commit, in threads and in processes, also in one that was forked with
/// the store open.
#[test]
fn all_who_wait_are_woken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = BTree::create(&path).unwrap();
    for round in 0..5u64 {
        let since = store.changes();
        let waits =
            |store: &BTree| assert_eq!(store.wait_for_change(since, LONG).unwrap(), since + 1);
        let mut forked: Vec<_> = (0..4)
            .map(|i| {
                fork(|| {
                    sys::give_up_after(60);
                    if i % 2 == 0 { waits(&store) } else { waits(&BTree::open(&path).unwrap()) }
                })
            })
            .collect();
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| waits(&store))));
            store.insert(b"key", &round.to_le_bytes()).unwrap();
        });
        forked.iter_mut().for_each(|process| assert_eq!(process.wait(), Status::Exited(0)));
    }
}

#[test]
fn waiting_ends_when_it_shall() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = BTree::create(&path).unwrap();
    let since = store.changes();
    assert_eq!(store.wait_for_change(since, Duration::ZERO).unwrap(), since);
    assert_eq!(store.wait_for_change(since, Duration::from_millis(1)).unwrap(), since);
    // What was before the call is seen at once, whatever the number was.
    assert_eq!(store.wait_for_change(since + 1, Duration::MAX).unwrap(), since);
    store.insert(b"key", b"value").unwrap();
    assert_eq!(store.wait_for_change(since, Duration::MAX).unwrap(), since + 1);
    // What is not committed is no change.
    let mut transaction = store.write().unwrap();
    transaction.main().insert(b"other", b"value").unwrap();
    assert_eq!(store.changes(), since + 1);
    transaction.abort();
    assert!(!store.remove(b"none").unwrap());
    assert_eq!(store.wait_for_change(since + 1, Duration::ZERO).unwrap(), since + 1);
    let memory = BTree::in_memory().unwrap();
    let since = memory.changes();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| memory.wait_for_change(since, LONG).unwrap());
        memory.insert(b"key", b"value").unwrap();
        assert_eq!(waits.join().unwrap(), since + 1);
    });
}

/// Writers are killed at any moment, also between a commit and the waking of those who wait: who waits
/// sees every number that they had committed, and goes on.
#[test]
fn who_waits_for_writers_that_are_killed_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = BTree::create(&path).unwrap();
    for round in 0..rounds(15) {
        let seed = seed(round);
        let mut rng = Rng::new(seed);
        let since = store.changes();
        let mut writer = fork(|| write_for_ever(&path));
        let mut seen = since;
        for _ in 0..1 + rng.below(40) {
            let changes = store.wait_for_change(seen, LONG).unwrap();
            assert!(changes > seen, "seed {seed}: {changes} after {seen}");
            seen = changes;
        }
        writer.kill();
        // Nobody is left who would change it.
        let last = store.changes();
        assert_eq!(store.wait_for_change(last, Duration::ZERO).unwrap(), last);
        assert!(last >= seen);
        store.insert(b"own", &round.to_le_bytes()).unwrap();
        assert_eq!(store.wait_for_change(last, LONG).unwrap(), last + 1);
    }
    store.verify(|_, _| ()).unwrap();
}

fn write_for_ever(path: &Path) {
    sys::give_up_after(60);
    let store = BTree::open(path).unwrap();
    for i in 0u64.. {
        store.insert(b"key", &i.to_le_bytes()).unwrap();
    }
}

/// One who waited and was killed leaves the sign that somebody waits: it costs the next commit a call,
/// and nothing else.
#[test]
fn who_was_killed_while_he_waited_disturbs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = BTree::create(&path).unwrap();
    for _ in 0..20 {
        let since = store.changes();
        let mut waiter = fork(|| {
            let store = BTree::open(&path).unwrap();
            let _ = store.wait_for_change(since, Duration::MAX);
        });
        waiter.kill();
        store.insert(b"key", b"value").unwrap();
        assert_eq!(store.wait_for_change(since, LONG).unwrap(), since + 1);
    }
    store.verify(|_, _| ()).unwrap();
}

/// Two workers at an empty queue woke each other with their empty transactions, without an end.
#[test]
fn who_changes_nothing_wakes_nobody() {
    for durability in [Durability::Buffered, Durability::Sync] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = BTree::options().create(true).durability(durability);
        let (store, other) = (options.open(&path).unwrap(), BTree::open(&path).unwrap());
        store.insert(b"key", b"value").unwrap();
        let since = other.changes();
        store.write().unwrap().commit().unwrap();
        let mut transaction = store.write().unwrap();
        assert!(!transaction.main().remove(b"none").unwrap());
        assert_eq!(transaction.main().get(b"key").unwrap(), Some(&b"value"[..]));
        transaction.commit().unwrap();
        assert_eq!(other.changes(), since);
        let number = other.wait_for_change(since, Duration::from_millis(50)).unwrap();
        assert_eq!(number, since);
        // In the place of another one of the same length, and back again.
        for value in [b"other", b"value"] {
            let mut transaction = store.write().unwrap();
            transaction.main().insert(b"key", value).unwrap();
            transaction.commit().unwrap();
            let snapshot = other.read().unwrap();
            assert_eq!(snapshot.main().get(b"key").unwrap(), Some(&value[..]));
        }
        assert_eq!(other.changes(), since + 2);
        let mut transaction = store.write().unwrap();
        transaction.create_table("table").unwrap();
        transaction.commit().unwrap();
        assert_eq!(other.changes(), since + 3);
        let mut transaction = store.write().unwrap();
        assert!(transaction.delete_table("table").unwrap());
        transaction.commit().unwrap();
        assert_eq!(other.read().unwrap().tables().unwrap().len(), 0);
        store.insert(b"values", &[1; 1000]).unwrap();
        let since = other.changes();
        // What was undone is no change, though it was put behind other values, or the file grew for it.
        for (key, bytes) in [(&b"long"[..], 1000), (b"longer", 3_000_000)] {
            let mut transaction = store.write().unwrap();
            let savepoint = transaction.savepoint();
            transaction.main().insert(key, &vec![1; bytes]).unwrap();
            transaction.rollback_to(savepoint).unwrap();
            transaction.commit().unwrap();
            assert_eq!(other.changes(), since, "{bytes}");
        }
    }
}
