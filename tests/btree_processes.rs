//! Danger: threads and processes that see what cannot have been: half a commit, an older state after
//! a newer one, or in a transaction what others write meanwhile; that lose each other when a store
//! is forked, moved or deleted; and readers whose number or whose patience is too much.
//!
//! The histories are of one store that all write: what commit number `n` changes is made from `n`
//! alone, whoever makes it. So everybody can tell of every state whether it ever was.

mod common;

use common::btree::{Spread, perform, seen_by, seen_within};
use common::history::{Event, check};
use common::subject::{Operation, State, Subject, difference, state_of};
use common::sys::{self, Status, fork, now};
use common::{Rng, child, is_child, ordered, rounds, seed};
use credenza::BTreeLoad;
use credenza::btree::{BTree, Snapshot, Table};
use credenza::{Durability, Get, Scan};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The states that a store goes through.
#[derive(Clone)]
struct Course {
    seed: u64,
    number: u64,
    state: State,
}

impl Course {
    fn new(seed: u64) -> Course {
        Course { seed, number: 0, state: State::new() }
    }

    /// What makes a state of the one before it.
    fn operation(&self, number: u64) -> Operation {
        let mut rng = Rng::new(self.seed << 32 ^ number);
        rng.next();
        match rng.below(60) {
            0 => Operation::Clear,
            1 => Operation::Batch(
                (0..60u64).map(|i| (key_of(&mut rng, i), Some(rng.bytes(300)))).collect(),
            ),
            _ => {
                let changes = (0..1 + rng.below(5)).map(|_| {
                    let id = rng.below(80);
                    let len = [3, 40, 700, 9000][rng.below(4) as usize];
                    let value = if rng.below(3) > 0 { Some(rng.bytes(len)) } else { None };
                    (key_of(&mut rng, id), value)
                });
                Operation::Batch(changes.collect())
            }
        }
    }

    /// Goes on to a state, which is none before this one.
    fn go_to(&mut self, number: u64) {
        assert!(number >= self.number, "state {number} after {}", self.number);
        while self.number < number {
            self.number += 1;
            self.operation(self.number).change(&mut self.state);
        }
    }

    fn check(&mut self, number: u64, found: &State) {
        self.go_to(number);
        let text = difference(found, &self.state);
        assert!(*found == self.state, "seed {}, state {number}: {text}", self.seed);
    }

    /// What a snapshot is of.
    fn check_snapshot(&mut self, snapshot: &Snapshot<'_>) -> u64 {
        let number = number_in(snapshot);
        self.check(number, &seen_by(snapshot).unwrap());
        number
    }
}

/// Some keys are too long for a page.
fn key_of(rng: &mut Rng, id: u64) -> Vec<u8> {
    let mut key = vec![b'k'; [1, 3, 600][id as usize % 3]];
    key.extend(format!("{:02}{}", id, rng.below(3)).bytes());
    key
}

fn number_in(snapshot: &Snapshot<'_>) -> u64 {
    snapshot.table("number").unwrap().map_or(0, number_of)
}

fn number_of(table: Table<'_>) -> u64 {
    let value = table.get(b"").unwrap();
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
}

/// Makes `count` commits; when each began and ended.
fn write(store: &BTree, course: &mut Course, rng: &mut Rng, count: u64) -> Vec<Event> {
    let mut events = Vec::new();
    while (events.len() as u64) < count {
        let begin = now();
        let mut transaction = store.write().unwrap();
        let number = number_of(transaction.create_table("number").unwrap().read());
        course.check(number, &seen_within(&transaction).unwrap());
        let version = number + 1;
        perform(&mut transaction, &course.operation(version)).unwrap();
        if rng.below(8) == 0 {
            // Nobody ever sees it.
            continue;
        }
        course.go_to(version);
        course.check(version, &seen_within(&transaction).unwrap());
        let mut table = transaction.create_table("number").unwrap();
        table.insert(b"", &version.to_le_bytes()).unwrap();
        transaction.commit().unwrap();
        events.push(Event { key: 0, is_write: true, version, begin, end: now() });
        if rng.below(40) == 0 {
            store.sync().unwrap();
        }
    }
    events
}

/// Looks at `count` states, some of which are held, and looked at again later.
fn read(store: &BTree, course: &mut Course, rng: &mut Rng, count: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut held: Vec<(Snapshot<'_>, Course)> = Vec::new();
    for _ in 0..count {
        let begin = now();
        let snapshot = store.read().unwrap();
        let end = now();
        let version = course.check_snapshot(&snapshot);
        events.push(Event { key: 0, is_write: false, version, begin, end });
        match rng.below(6) {
            0 => held.push((snapshot, course.clone())),
            1 if !held.is_empty() => {
                let (snapshot, mut then) = held.swap_remove(rng.below(held.len() as u64) as usize);
                then.check_snapshot(&snapshot);
            }
            _ => {}
        }
    }
    held.into_iter().for_each(|(snapshot, mut then)| {
        then.check_snapshot(&snapshot);
    });
    events
}

/// Two threads that write and one that reads.
fn read_and_write(store: &BTree, seed: u64, who: u64, count: u64) -> Vec<Event> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..3u64)
            .map(|i| {
                scope.spawn(move || {
                    let (mut course, mut rng) = (Course::new(seed), Rng::new(who * 10 + i));
                    match i {
                        0 => read(store, &mut course, &mut rng, count),
                        _ => write(store, &mut course, &mut rng, count),
                    }
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// A child's work: reads and writes, and leaves a history.
#[test]
fn child_reads_and_writes() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let variable = |name: &str| std::env::var(name).unwrap();
    let number = |name: &str| variable(name).parse().unwrap();
    let store = BTree::open(variable("STORE")).unwrap();
    let events = read_and_write(&store, number("SEED"), number("WHO"), number("COUNT"));
    let bytes: Vec<u8> = events.iter().flat_map(Event::encode).collect();
    std::fs::write(variable("HISTORY"), bytes).unwrap();
}

#[test]
fn every_snapshot_is_one_commit_and_one_order_explains_all() {
    let count = 60;
    for round in 0..rounds(2) {
        let seed = seed(round);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = BTree::create(&path).unwrap();
        let start = |i: u64| {
            let mut command = child("child_reads_and_writes");
            let history = folder.path().join(format!("history {i}"));
            command.env("STORE", &path).env("HISTORY", &history).env("WHO", i.to_string());
            command.env("SEED", seed.to_string()).env("COUNT", count.to_string());
            (command.stdout(std::process::Stdio::null()).spawn().unwrap(), history)
        };
        let children: Vec<_> = (1..4).map(start).collect();
        let mut events = read_and_write(&store, seed, 0, count);
        for (mut process, history) in children {
            assert!(process.wait().unwrap().success(), "seed {seed}");
            events.extend(Event::decode_all(&std::fs::read(history).unwrap()));
        }
        check(&events).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let writes = events.iter().filter(|event| event.is_write).count() as u64;
        let last = Course::new(seed).check_snapshot(&store.read().unwrap());
        assert_eq!(last, writes, "seed {seed}: a number for each write");
        state_of(&Spread(store), "at the end");
    }
}

/// Two handles, each of which finds what the other has written, however long the file becomes.
#[test]
fn handles_of_one_store_are_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let handles = [BTree::create(&path).unwrap(), BTree::open(&path).unwrap()];
    let key = |i: u64| format!("{i}").into_bytes();
    for turn in 0..6u64 {
        let (a, b) = (&handles[turn as usize % 2], &handles[(turn as usize + 1) % 2]);
        let value = vec![turn as u8; if turn % 3 == 2 { 3 } else { 300 }];
        let mut transaction = a.write().unwrap();
        for i in 0..3000 * (turn + 1) {
            transaction.main().insert(&key(i), &value).unwrap();
        }
        transaction.main().insert(b"large", &vec![turn as u8; 1 << 20]).unwrap();
        transaction.commit().unwrap();
        let mut transaction = b.write().unwrap();
        for i in 0..3000 * (turn + 1) {
            let mut table = transaction.main();
            assert_eq!(table.get(&key(i)).unwrap(), Some(&value[..]), "turn {turn}, key {i}");
            assert!(table.insert(&key(i), &[9]).unwrap(), "turn {turn}, key {i}");
        }
        assert_eq!(transaction.main().get(b"large").unwrap(), Some(&vec![turn as u8; 1 << 20][..]));
        assert!(transaction.main().remove(b"large").unwrap());
        transaction.commit().unwrap();
        assert_eq!(Scan::len(a).unwrap(), 3000 * (turn + 1));
    }
    state_of(&handles[1], "at the end");
}

/// Another process may make the file much longer than this one has ever known it.
#[test]
fn who_opened_a_small_file_writes_to_the_large_one() {
    for way in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = BTree::create(&path).unwrap();
        let mut process = fork(|| {
            sys::give_up_after(60);
            let store = BTree::open(&path).unwrap();
            let mut transaction = store.write().unwrap();
            for i in 0..4000u64 {
                transaction.main().insert(&ordered(i), &[7; 200]).unwrap();
            }
            transaction.main().insert(b"large", &[5; 100_000]).unwrap();
            transaction.commit().unwrap();
        });
        assert_eq!(process.wait(), Status::Exited(0));
        let mut transaction = store.write().unwrap();
        let mut table = transaction.main();
        match way {
            0 => assert!(table.insert(&ordered(3999), b"new").unwrap()),
            1 => assert!(table.remove(&ordered(3999)).unwrap()),
            2 => assert!(table.insert(b"large", b"small").unwrap()),
            _ => table.clear().unwrap(),
        }
        transaction.commit().unwrap();
        state_of(&store, "at the end");
    }
}

/// A load is another thread's work, which is not in the child: it would be waited for there for ever.
#[test]
fn a_fork_leaves_its_parents_load_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = BTree::create(folder.path().join("store")).unwrap();
    let mut load = BTreeLoad::begin(&store, None);
    load.add(b"parent", b"1").unwrap();
    let mut child = {
        let load = &mut load;
        fork(move || {
            sys::give_up_after(60);
            let error = load.replaced().unwrap_err();
            assert!(error.to_string().contains("before the fork"), "{error}");
            let none = BTreeLoad::begin(&BTree::in_memory().unwrap(), None);
            drop(std::mem::replace(load, none));
        })
    };
    assert_eq!(child.wait(), Status::Exited(0));
    load.add(b"later", b"2").unwrap();
    load.finish().unwrap();
    assert_eq!(store.read().unwrap().main().len(), 2);
}

#[test]
fn a_fork_goes_on_with_the_store_that_its_parent_has_open() {
    for durability in [Durability::Buffered, Durability::Interval(5), Durability::Sync] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = BTree::options().create(true).durability(durability).open(&path).unwrap();
        let mut course = Course::new(7);
        write(&store, &mut course, &mut Rng::new(1), 20);
        let held = store.read().unwrap();
        let mut children: Vec<_> = (0..3u64)
            .map(|i| {
                let (store, held, mut course) = (store.clone(), &held, course.clone());
                fork(move || {
                    // What hangs does not pass.
                    sys::give_up_after(60);
                    let mut then = course.clone();
                    for turn in 0..10 {
                        write(&store, &mut course, &mut Rng::new(i * 100 + turn), 4);
                        read(&store, &mut course, &mut Rng::new(turn), 4);
                        then.check_snapshot(held);
                    }
                })
            })
            .collect();
        let mut then = course.clone();
        write(&store, &mut course, &mut Rng::new(2), 40);
        for process in &mut children {
            assert_eq!(process.wait(), Status::Exited(0), "{durability:?}");
        }
        // The children's end did not let go what the parent holds.
        write(&store, &mut course, &mut Rng::new(3), 40);
        then.check_snapshot(&held);
        drop(held);
        assert_eq!(course.check_snapshot(&store.read().unwrap()), 20 + 3 * 40 + 80);
        // A child that ends its use altogether takes nothing from the parent.
        let mine = store.clone();
        let mut process = fork(move || {
            sys::give_up_after(60);
            drop((mine, store));
        });
        assert_eq!(process.wait(), Status::Exited(0), "{durability:?}");
        state_of(&Spread(BTree::open(&path).unwrap()), "opened again");
    }
}

/// The child has not the thread that compacts its parent's store, and does not wait for it.
#[test]
fn a_fork_does_not_wait_for_who_compacts_in_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    write(&store, &mut Course::new(9), &mut Rng::new(1), 40);
    sys::compact_beside_forks(
        rounds(15),
        || store.compact(4096),
        || store.compact(4096),
        || BTree::open(&path)?.compact(4096),
    );
    store.verify(|_, _| ()).unwrap();
}

/// A machine may hide from a user that processes of others are there (`hidepid`): they live all the same.
#[test]
fn a_reader_that_a_writer_cannot_see_is_not_taken_for_dead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let course = Course::new(7);
    write(&store, &mut course.clone(), &mut Rng::new(1), 40);
    let held = store.read().unwrap();
    let leased = store.read_for(Duration::from_secs(3600)).unwrap();
    let mut writer = fork(|| {
        sys::give_up_after(60);
        let hides = sys::hide_processes_of_others();
        let store = BTree::open(&path).unwrap();
        if !hides || !sys::become_nobody() {
            println!("this user cannot hide processes");
            return;
        }
        assert_eq!(store.stats().unwrap().readers.len(), 0, "of the newest state");
        let mut now = course.clone();
        now.check_snapshot(&store.read().unwrap());
        write(&store, &mut now, &mut Rng::new(2), 100);
        assert_eq!(store.stats().unwrap().readers.len(), 2);
    });
    assert_eq!(writer.wait(), Status::Exited(0));
    for snapshot in [&held, &leased] {
        assert_eq!(course.clone().check_snapshot(snapshot), 40);
    }
    store.verify(|_, _| ()).unwrap();
}

/// The transaction of a parent is not the child's to undo or to commit.
#[test]
fn a_fork_leaves_its_parents_transaction_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    for is_committed in [false, true] {
        let mut transaction = store.write().unwrap();
        transaction.create_table("other").unwrap().insert(b"key", b"").unwrap();
        let savepoint = transaction.savepoint();
        for i in 0..500u64 {
            transaction.main().insert(&ordered(i), &[1; 100]).unwrap();
        }
        let cell = std::cell::Cell::new(Some(transaction));
        let mut process = fork(|| {
            sys::give_up_after(60);
            let mut transaction = cell.take().unwrap();
            // Its pages are the parent's, and both would write to them.
            let mut errors = vec![
                transaction.main().insert(&ordered(0), &[3; 100]).unwrap_err(),
                transaction.main().insert(&ordered(1000), &[3; 5000]).unwrap_err(),
                transaction.main().remove(&ordered(1)).unwrap_err(),
                transaction.main().remove_range(&b""[..]..).unwrap_err(),
                transaction.main().pop_first().unwrap_err(),
                transaction.main().clear().unwrap_err(),
                transaction.delete_table("other").map(drop).unwrap_err(),
                transaction.rollback_to(savepoint).unwrap_err(),
            ];
            let mut cursor = transaction.main().cursor();
            assert!(cursor.first().unwrap());
            errors.extend([cursor.put(&[3; 100]).unwrap_err(), cursor.remove().unwrap_err()]);
            drop(cursor);
            let table = transaction.create_table("empty");
            errors.extend(table.and_then(|mut table| table.bulk_load([Ok((b"key", b""))])).err());
            for error in errors.iter().map(ToString::to_string) {
                assert!(error.contains("fork"), "{error}");
            }
            assert_eq!(errors.len(), 11);
            if is_committed {
                let error = transaction.commit().unwrap_err().to_string();
                assert!(error.contains("fork"), "{error}");
            }
        });
        assert_eq!(process.wait(), Status::Exited(0), "committed: {is_committed}");
        let mut transaction = cell.take().unwrap();
        for i in 500..1000u64 {
            transaction.main().insert(&ordered(i), &[2; 100]).unwrap();
        }
        transaction.commit().unwrap();
        assert_eq!(state_of(&store, "after the fork").len(), 1000);
        let mut transaction = store.write().unwrap();
        transaction.main().clear().unwrap();
        transaction.commit().unwrap();
        state_of(&store, "emptied");
    }
}

#[test]
fn a_moved_or_deleted_store_is_the_same_store() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let store = BTree::create(&old).unwrap();
    let write = |store: &BTree, from: u64| {
        for i in (from..1000).step_by(2) {
            store.insert(&i.to_le_bytes(), &[from as u8; 60]).unwrap();
        }
    };
    write(&store, 0);
    std::fs::rename(&old, &new).unwrap();
    // Another store takes the old name.
    let other = BTree::create(&old).unwrap();
    other.insert(b"other", b"").unwrap();
    let mut process = fork(|| {
        sys::give_up_after(60);
        write(&BTree::open(&new).unwrap(), 1);
    });
    write(&store, 0);
    assert_eq!(process.wait(), Status::Exited(0));
    let state = state_of(&store, "moved");
    assert!(state.len() == 1000 && state.values().all(|value| value.len() == 60));
    assert!(state_of(&BTree::open(&new).unwrap(), "by its new name") == state);
    assert_eq!(state_of(&other, "the other").len(), 1);
    std::fs::remove_file(&new).unwrap();
    store.insert(b"still", &[5; 5000]).unwrap();
    store.sync().unwrap();
    assert_eq!(state_of(&store, "deleted").len(), 1001);
    assert!(BTree::open(&new).is_err(), "nothing is made in the place of a store that is gone");
    drop(store);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a stray file");
}

/// Far more readers than have a slot in the first page, of several threads and processes, each with
/// a state of its own.
#[test]
fn a_thousand_readers_hold_a_thousand_states() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let hold = |store: &BTree, count: u64| {
        let mut course = Course::new(3);
        let mut held = Vec::new();
        for _ in 0..count {
            let snapshot = store.read().unwrap();
            course.check_snapshot(&snapshot);
            held.push((snapshot.number(), snapshot, course.clone()));
        }
        for (number, snapshot, then) in &mut held {
            then.check_snapshot(snapshot);
            assert_eq!(*number, snapshot.number());
        }
    };
    let mut children: Vec<_> = (0..2)
        .map(|_| {
            fork(|| {
                sys::give_up_after(100);
                hold(&BTree::open(&path).unwrap(), 300);
            })
        })
        .collect();
    thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(|| hold(&store, 200))));
        write(&store, &mut Course::new(3), &mut Rng::new(3), 300);
    });
    for process in &mut children {
        assert_eq!(process.wait(), Status::Exited(0));
    }
    // A page of slots comes with a commit of its own, which changes nothing else.
    let snapshots: Vec<_> = (0..1000).map(|_| store.read().unwrap()).collect();
    let last = snapshots[999].number();
    let records = |snapshot: &Snapshot<'_>| -> Vec<_> {
        snapshot.main().iter().map(|record| record.unwrap().0).collect()
    };
    let before = records(&snapshots[0]);
    let mut process = fork(|| {
        sys::give_up_after(60);
        let store = BTree::open(&path).unwrap();
        let _ = Course::new(3).check_snapshot(&store.read().unwrap());
        write(&store, &mut Course::new(3), &mut Rng::new(4), 3);
    });
    assert_eq!(process.wait(), Status::Exited(0));
    assert!(snapshots.iter().all(|snapshot| snapshot.number() <= last));
    assert!(snapshots.iter().all(|snapshot| records(snapshot) == before));
    drop(snapshots);
    let stats = store.stats().unwrap();
    assert!(stats.readers.is_empty(), "{:?}", stats.readers);
    state_of(&Spread(store), "at the end");
}

/// There is an end to the slots: who finds none is told so, and the others go on.
#[test]
fn a_reader_too_many_is_refused_and_harms_nobody() {
    let store = BTree::in_memory().unwrap();
    store.insert(b"key", b"value").unwrap();
    let mut snapshots = Vec::new();
    let error = loop {
        match store.read() {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("readers") && snapshots.len() > 4000, "{error}, {}", snapshots.len());
    store.insert(b"key", b"other").unwrap();
    for snapshot in &snapshots {
        assert_eq!(snapshot.main().get(b"key").unwrap(), Some(&b"value"[..]));
    }
    drop(snapshots);
    assert_eq!(Get::get(&store, b"key").unwrap().as_deref(), Some(&b"other"[..]));
    store.verify(|_, _| ()).unwrap();
}

/// Slots of readers that there are while somebody writes, if there were few readers before; and if there were several.
const SLOTS: [usize; 2] = [32, 160];

/// Danger: a lookup that comes when no slot is free sleeps until the end of a load, or for ever.
#[test]
fn who_finds_no_slot_waits_for_one_and_not_for_who_writes() {
    let mut process = fork(|| {
        sys::give_up_after(30);
        for (before, slots) in [1, 9].into_iter().zip(SLOTS) {
            let store = BTree::in_memory().unwrap();
            drop((0..before).map(|_| store.read().unwrap()).collect::<Vec<_>>());
            let transaction = store.write().unwrap();
            thread::scope(|scope| {
                // This thread would be told that it writes.
                let reads = scope.spawn(|| {
                    let mut held: Vec<_> = (0..slots).map(|_| store.read().unwrap()).collect();
                    thread::scope(|scope| {
                        let waits = scope.spawn(|| store.read().unwrap().main().len());
                        thread::sleep(Duration::from_millis(20));
                        assert!(!waits.is_finished(), "there are more slots than {slots}");
                        held.pop();
                        assert_eq!(waits.join().unwrap(), 0);
                    });
                });
                reads.join().unwrap();
            });
            drop(transaction);
        }
    });
    assert_eq!(process.wait(), Status::Exited(0));
}

/// A page of slots is made by a writer: who is one cannot make it meanwhile, and is told so.
#[test]
fn who_writes_may_read_what_was_before() {
    let store = BTree::in_memory().unwrap();
    store.insert(b"key", b"value").unwrap();
    let mut transaction = store.write().unwrap();
    transaction.main().insert(b"key", b"other").unwrap();
    let mut snapshots: Vec<_> = (0..30).map(|_| store.read().unwrap()).collect();
    assert!(snapshots.iter().all(|s| s.main().get(b"key").unwrap() == Some(&b"value"[..])));
    let error = loop {
        match store.read() {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(error) => break error.to_string(),
        }
        assert!(snapshots.len() < 100);
    };
    assert!(error.contains("transaction"), "{error}");
    transaction.commit().unwrap();
    assert_eq!(store.read().unwrap().main().get(b"key").unwrap(), Some(&b"other"[..]));
    drop(snapshots);
    store.verify(|_, _| ()).unwrap();
}

/// Who syncs has his slot before his turn: it may have to be made by who writes, who may wait for the turn.
#[test]
fn who_syncs_without_a_slot_does_not_wait_for_who_waits_for_him() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut process = fork(|| {
        sys::give_up_after(20);
        let store = BTree::create(&path).unwrap();
        let mut transaction = store.write().unwrap();
        transaction.main().insert(b"key", b"value").unwrap();
        let mut snapshots = Vec::new();
        while let Ok(snapshot) = store.read() {
            snapshots.push(snapshot);
        }
        thread::scope(|scope| {
            let other = scope.spawn(|| store.sync());
            // He waits for the end of the transaction by now, as a rule.
            thread::sleep(Duration::from_millis(50));
            let error = store.sync().unwrap_err().to_string();
            assert!(error.contains("transaction"), "{error}");
            transaction.commit().unwrap();
            other.join().unwrap().unwrap();
        });
    });
    assert_eq!(process.wait(), Status::Exited(0));
}

/// Tells other threads to come to an end, also after a failure.
struct Done<'d>(&'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whoever waits for the lock gets it when its holder is done, or dead; and nobody waits for himself.
#[test]
fn who_waits_for_the_lock_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let transaction = store.write().unwrap();
    let error = store.write().map(drop).unwrap_err().to_string();
    assert!(error.contains("transaction") && error.contains("store"), "{error}");
    let other = BTree::open(&path).unwrap();
    let error = other.insert(b"a", b"b").unwrap_err().to_string();
    assert!(error.contains("transaction"), "by another handle: {error}");
    assert_eq!(store.read().unwrap().main().len(), 0);
    let (turn, ready) = (AtomicU64::new(0), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            ready.wait();
            other.insert(b"waited", b"").unwrap();
            assert_eq!(turn.load(Ordering::SeqCst), 1, "the lock was not waited for");
        });
        ready.wait();
        // However long it takes: the other one is behind the first.
        thread::sleep(Duration::from_millis(20));
        turn.store(1, Ordering::SeqCst);
        drop(transaction);
    });
    assert_eq!(Scan::len(&store).unwrap(), 1);
    // A thread that ends with the lock leaves it to others.
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut transaction = store.write().unwrap();
            transaction.main().insert(b"forgotten", &[1; 9000]).unwrap();
            std::mem::forget(transaction);
        });
    });
    let mut process = fork(|| {
        sys::give_up_after(60);
        BTree::open(&path).unwrap().insert(b"after", b"").unwrap();
    });
    assert_eq!(process.wait(), Status::Exited(0));
    assert_eq!(state_of(&other, "at the end").len(), 2);
}

/// Readers in threads of the process, while others write and sync: nobody waits for anybody.
#[test]
fn readers_and_syncs_disturb_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = &folder.path().join("store");
    let (store, done) = (BTree::create(path).unwrap(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let store = BTree::open(path).unwrap();
            while !done.load(Ordering::Relaxed) {
                store.sync().unwrap();
                store.stats().unwrap();
            }
        });
        scope.spawn(|| {
            let (store, mut course) = (BTree::open(path).unwrap(), Course::new(11));
            while !done.load(Ordering::Relaxed) {
                read(&store, &mut course, &mut Rng::new(5), 5);
            }
        });
        let _done = Done(&done);
        let mut course = Course::new(11);
        for i in 0..20 {
            write(&store, &mut course, &mut Rng::new(i), 15);
            store.verify(|_, _| ()).unwrap();
        }
    });
    assert!(Subject::verify(&store).is_ok());
}
