//! Danger: numbers that are not what was done: lost between threads, counted twice, or as what they were
//! not.

mod common;

use common::statistics::{
    KEYS, check_latencies, counted, hash, numbers, open, open_btree, open_hash, stores,
};
use common::sys::{Status, fork, give_up_after};
use common::write_anew;
use credenza::btree::{self, BTree};
use credenza::constant::Builder;
use credenza::hash::{Batch, Hash};
use credenza::stats::{Clock, Latency, Operation, Outcome, Statistics};
use credenza::{Access, Durability, Error, Get, OpenOptions, Scan, Store};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Reads in every way there is, keys that are there and that are not, and checks the numbers.
fn read_and_check(store: &Store, latency: Latency) {
    let clone = store.clone();
    for key in 0..2 * KEYS {
        assert_eq!(store.get(&key.to_le_bytes()).unwrap().is_some(), key < KEYS);
        assert_eq!(clone.contains_key(&key.to_le_bytes()).unwrap(), key < KEYS);
    }
    for key in KEYS - 5..KEYS + 7 {
        store.get_all(&key.to_le_bytes()).unwrap();
    }
    let keys: Vec<[u8; 4]> = (KEYS - 50..KEYS + 70).map(u32::to_le_bytes).collect();
    store.get_many(&keys, |_, _| ()).unwrap();
    store.scan(|_, _| Ok(())).unwrap();
    let records = match store {
        Store::Constant(store) => store.iter().count(),
        Store::Hash(store) => store.iter().count(),
        Store::BTree(store) => store.read().unwrap().main().iter().count(),
        _ => 0,
    };
    assert_eq!(records, KEYS as usize);
    let operations = counted(store);
    assert_eq!(operations, counted(&clone));
    let (all, bytes) = (u64::from(KEYS), 2 * 3 * u64::from(KEYS));
    let gets = [4 * all, 2 * all, 2 * all, 0, 4 * all, bytes];
    assert_eq!(numbers(&operations, Operation::Get), gets);
    assert_eq!(numbers(&operations, Operation::GetAll), [12, 5, 7, 0, 12, 15]);
    assert_eq!(numbers(&operations, Operation::GetMany), [1, 50, 70, 0, 120, 150]);
    assert_eq!(numbers(&operations, Operation::Scan), [2, 0, 0, 0, 2 * all, 14 * all]);
    assert_eq!(operations.of(Operation::Scan).count(Outcome::Done), 2);
    check_latencies(&operations);
    let timed = operations.of(Operation::Get).latency.count();
    match latency {
        Latency::Off => assert_eq!(timed, 0),
        Latency::Every => assert_eq!(timed, 4 * all),
        _ => assert!((10..=32).contains(&timed), "{timed}"),
    }
    // Iterators are not, nor is what scans a hash store by one: between two records the time is the caller's.
    let timed = operations.of(Operation::Scan).latency.count();
    let is_timed = latency != Latency::Off && store.kind() != "hash";
    assert_eq!(timed, u64::from(is_timed));
}

#[test]
fn every_operation_is_counted_as_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let [constant, hash, btree] = stores(dir.path());
    for latency in [Latency::Off, Latency::Sampled, Latency::Every] {
        let statistics = Statistics::new().latency(latency);
        for access in [Access::Map, Access::Read, Access::Memory] {
            let options = OpenOptions::new().access(access).statistics(statistics.clone());
            read_and_check(&options.open(&constant).unwrap(), latency);
        }
        for (path, is_read_only) in [(&hash, false), (&hash, true), (&btree, false), (&btree, true)]
        {
            let options = OpenOptions::new().read_only(is_read_only);
            let store = options.statistics(statistics.clone()).open(path).unwrap();
            read_and_check(&store, latency);
        }
    }
}

#[test]
fn changes_are_counted_as_they_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = hash(dir.path());
    let store = open_hash(&path, Statistics::new().latency(Latency::Every));
    store.insert(b"new", b"value").unwrap();
    assert!(store.replace(b"new", b"other").unwrap());
    assert!(store.remove(b"new").unwrap() && !store.remove(b"new").unwrap());
    store.insert(&vec![0; 70_000], b"").unwrap_err();
    assert!(store.update(b"n", |_| Some(b"1".to_vec())).unwrap());
    assert_eq!(store.increment(b"n", 99).unwrap(), 100);
    assert_eq!(store.append(b"n", b"x").unwrap(), 4);
    store.increment(b"n", 1).unwrap_err();
    assert!(!store.insert_if_absent(b"n", b"no").unwrap());
    let refused = store.try_update(b"n", |_| Err(Error::invalid("mine")));
    assert!(refused.unwrap_err().to_string().contains("mine"));
    assert!(store.compare_exchange(b"n", Some(b"100x"), None).unwrap());
    let mut batch = Batch::new();
    store.batch(batch.insert(b"a", b"12").insert(b"b", b"").remove(b"none")).unwrap();
    let mut transaction = store.transaction().unwrap();
    transaction.insert(b"a", b"3").unwrap();
    transaction.insert(b"a", b"4").unwrap();
    transaction.commit().unwrap();
    store.transaction().unwrap().abort();
    store.sync().unwrap();
    assert!(store.get_with(b"a", |value| value == b"4").unwrap().unwrap());
    assert_eq!(store.get(b"a").unwrap().as_deref(), Some(&b"4"[..]));
    let all = store.operations().unwrap();
    check_latencies(&all);
    let of = |operation, outcomes: [Outcome; 3]| {
        let tally = all.of(operation);
        assert_eq!(tally.latency.count(), tally.calls, "{operation}");
        (outcomes.map(|outcome| tally.count(outcome)), tally.items, tally.bytes)
    };
    let [done, hit, miss, failed] = [Outcome::Done, Outcome::Hit, Outcome::Miss, Outcome::Failed];
    assert_eq!(of(Operation::Insert, [done, miss, failed]), ([2, 0, 1], 3, 16));
    assert_eq!(of(Operation::Remove, [hit, miss, failed]), ([1, 1, 0], 2, 3));
    let update = [Outcome::Done, Outcome::Unchanged, failed];
    assert_eq!(of(Operation::Update, update), ([4, 1, 2], 7, 2 + 4 + 5 + 1));
    assert_eq!(of(Operation::Commit, [Outcome::Done, miss, failed]), ([2, 0, 0], 4, 3 + 1 + 4 + 2));
    assert_eq!(of(Operation::Sync, [Outcome::Done, miss, failed]), ([1, 0, 0], 1, 0));
    assert_eq!(of(Operation::Abort, [Outcome::Done, miss, failed]), ([1, 0, 0], 1, 0));
    let options = Hash::options().durability(Durability::Sync).statistics(Statistics::new());
    let store = options.open(&path).unwrap();
    store.batch(Batch::new().insert(b"a", b"5")).unwrap();
    let all = store.operations().unwrap();
    assert_eq!(numbers(&all, Operation::CommitSync), [1, 0, 0, 0, 1, 2]);
    assert_eq!(numbers(&all, Operation::Commit)[0], 0);
    assert_eq!(of(Operation::Get, [hit, miss, failed]), ([2, 0, 0], 2, 2));
}

#[test]
fn what_may_not_be_written_is_counted_as_failed() {
    let dir = tempfile::tempdir().unwrap();
    let path = hash(dir.path());
    let options = Hash::options().read_only(true).statistics(Statistics::new());
    let store = options.open(&path).unwrap();
    store.insert(b"a", b"1").unwrap_err();
    store.remove(b"a").unwrap_err();
    store.append(b"a", b"1").unwrap_err();
    store.batch(Batch::new().insert(b"a", b"1")).unwrap_err();
    let all = store.operations().unwrap();
    for operation in [Operation::Insert, Operation::Remove, Operation::Update, Operation::Commit] {
        let tally = all.of(operation);
        assert_eq!((tally.calls, tally.count(Outcome::Failed), tally.bytes), (1, 1, 0));
    }
}

#[test]
fn what_is_timed_takes_as_long_as_it_took() {
    let dir = tempfile::tempdir().unwrap();
    let path = hash(dir.path());
    for clock in [Clock::Auto, Clock::Monotonic] {
        let statistics = Statistics::new().latency(Latency::Every).clock(clock);
        let store = open_hash(&path, statistics);
        let pause = Duration::from_millis(20);
        let begun = std::time::Instant::now();
        for _ in 0..3 {
            store.get_with(&7u32.to_le_bytes(), |_| std::thread::sleep(pause)).unwrap();
        }
        let most = begun.elapsed().as_nanos() as f64 * 1.01;
        let least = pause.as_nanos() as f64 * 0.99;
        let latency = store.operations().unwrap().of(Operation::Get).latency.clone();
        assert!(latency.percentile(1.0) as f64 >= least * 0.968, "{latency:?}");
        assert!((least * 3.0..=most).contains(&(latency.sum() as f64)), "{latency:?}");
    }
}

#[test]
fn scans_that_are_stopped_are_counted_as_failed() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        let store = open(&path, Statistics::new());
        store.scan(|_, _| Err(Error::invalid("enough"))).unwrap_err();
        let [calls, _, _, failed, ..] = numbers(&counted(&store), Operation::Scan);
        // Of a hash store this way goes through its iterator, which did not fail.
        let is_hash = matches!(store, Store::Hash(_));
        assert_eq!((calls, failed), (1, u64::from(!is_hash)));
    }
    let store = open_hash(&dir.path().join("hash"), Statistics::new());
    Scan::scan(&store, |_, _| Err(Error::invalid("enough"))).unwrap_err();
    assert_eq!(numbers(&store.operations().unwrap(), Operation::Scan), [1, 0, 0, 1, 1, 7]);
}

#[test]
fn what_ends_by_a_panic_of_the_caller_is_counted_as_failed() {
    fn fails<T>(f: impl FnOnce() -> T) {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        assert_eq!(done.err().and_then(|e| e.downcast::<&str>().ok()).as_deref(), Some(&"mine"));
    }
    let dir = tempfile::tempdir().unwrap();
    let statistics = || Statistics::new().latency(Latency::Every);
    for path in stores(dir.path()) {
        let store = open(&path, statistics());
        fails(|| Scan::scan(&store, |_, _| panic!("mine")));
        fails(|| store.get_many(&[0u32.to_le_bytes()], |_, _| panic!("mine")));
        let all = counted(&store);
        // Of a hash store this way goes through its iterator, which did not fail.
        let is_hash = matches!(store, Store::Hash(_));
        let [calls, _, _, failed, ..] = numbers(&all, Operation::Scan);
        assert_eq!((calls, failed), (1, u64::from(!is_hash)), "{path:?}");
        let [calls, _, _, failed, ..] = numbers(&all, Operation::GetMany);
        let tally = all.of(Operation::GetMany);
        assert_eq!((calls, tally.count(Outcome::Failed)), (1, 1), "{path:?} {failed}");
        assert_eq!(tally.latency.count(), 1);
    }
    let store = open_hash(&hash(dir.path()), statistics());
    fails(|| store.update(b"n", |_| panic!("mine")));
    fails(|| store.get_with(&0u32.to_le_bytes(), |_| panic!("mine")));
    let all = store.operations().unwrap();
    for operation in [Operation::Update, Operation::Get] {
        assert_eq!((all.of(operation).calls, all.of(operation).count(Outcome::Failed)), (1, 1));
    }
    store.insert(b"n", b"goes on").unwrap();
}

#[test]
fn a_handle_without_statistics_counts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        let store = credenza::open(&path).unwrap();
        store.get(b"none").unwrap();
        assert!(store.operations().is_none());
    }
    assert!(Hash::in_memory().unwrap().operations().is_none());
    assert!(BTree::in_memory().unwrap().operations().is_none());
}

#[test]
fn lookups_in_a_damaged_file_are_counted_as_failed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged");
    let mut builder = Builder::create(&path).unwrap();
    for key in 0..KEYS {
        // Of two sizes, and too large for blocks.
        builder.add(&key.to_le_bytes(), &[7; 101][key as usize % 2..]).unwrap();
    }
    builder.finish().unwrap();
    let mut file = std::fs::read(&path).unwrap();
    // The directory leads to nowhere.
    let at = u64::from_le_bytes(*file[120..].first_chunk().unwrap()) as usize;
    let len = u64::from_le_bytes(*file[128..].first_chunk().unwrap()) as usize;
    file[at..at + len].fill(0xff);
    std::fs::write(&path, file).unwrap();
    let store = open(&path, Statistics::new());
    for key in 0..KEYS {
        store.get(&key.to_le_bytes()).unwrap_err();
    }
    store.get_all(b"1234").unwrap_err();
    store.get_many(&[b"1234"], |_, _| ()).unwrap_err();
    store.scan(|_, _| Ok(())).unwrap_err();
    let operations = counted(&store);
    let all = u64::from(KEYS);
    assert_eq!(numbers(&operations, Operation::Get), [all, 0, 0, all, all, 0]);
    assert_eq!(numbers(&operations, Operation::GetAll), [1, 0, 0, 1, 1, 0]);
    assert_eq!(numbers(&operations, Operation::GetMany), [1, 0, 0, 1, 0, 0]);
    assert_eq!(numbers(&operations, Operation::Scan), [1, 0, 0, 1, 0, 0]);
    let Store::Constant(store) = &store else { panic!("{store:?}") };
    // An iterator, too, which goes on to its end; one that nobody asks anything has not failed.
    assert_eq!(store.iter().filter(Result::is_err).count(), 1);
    drop(store.iter());
    assert_eq!(numbers(&store.operations().unwrap(), Operation::Scan), [3, 0, 0, 2, 0, 0]);
}

#[test]
fn an_iterator_that_comes_to_damage_is_counted_as_failed() {
    let dir = tempfile::tempdir().unwrap();
    let path = common::statistics::btree(dir.path());
    let mut file = std::fs::read(&path).unwrap();
    let pages = file.len().div_ceil(4096);
    for page in 3..pages {
        file[page * 4096 + 8] ^= 0xff;
    }
    write_anew(&path, &file);
    let options = btree::OpenOptions::new().check_reads(true).statistics(Statistics::new());
    let store = options.open(&path).unwrap();
    assert!(store.read().unwrap().main().iter().any(|record| record.is_err()));
    let [calls, _, _, failed, ..] = numbers(&store.operations().unwrap(), Operation::Scan);
    assert_eq!((calls, failed), (1, 1));
}

/// What a process has from the one that forked it is not undone when it drops that.
#[test]
fn a_child_that_drops_a_transaction_of_its_parent_counts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let hash = open_hash(&hash(dir.path()), Statistics::new());
    let btree = open_btree(&common::statistics::btree(dir.path()), Statistics::new());
    let aborted = || {
        let both = [hash.operations().unwrap(), btree.operations().unwrap()];
        both.map(|operations| operations.of(Operation::Abort).calls)
    };
    let transactions = (hash.transaction().unwrap(), btree.write().unwrap());
    let mut child = fork(|| {
        give_up_after(60);
        drop(transactions);
        assert_eq!(aborted(), [0, 0]);
    });
    assert_eq!(child.wait(), Status::Exited(0));
    // The parent has dropped them by now, too.
    assert_eq!(aborted(), [1, 1]);
}

#[test]
fn threads_lose_no_count() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        for shared in [false, true] {
            let store = open(&path, Statistics::new().shared(shared));
            // More at once than there are slots, and others after them.
            for round in 1..=2 {
                std::thread::scope(|scope| {
                    for _ in 0..70 {
                        scope.spawn(|| {
                            for key in 0..500 + KEYS {
                                store.get(&key.to_le_bytes()).unwrap();
                            }
                        });
                    }
                });
                let threads = 70 * round;
                let expected = [1500, 1000, 500, 0, 1500, 3000].map(|n| n * threads);
                assert_eq!(numbers(&counted(&store), Operation::Get), expected);
            }
        }
    }
}

#[test]
fn threads_that_write_lose_no_count() {
    const THREADS: u64 = 8;
    const CHANGES: u64 = 3000;
    let dir = tempfile::tempdir().unwrap();
    let store = open_hash(&hash(dir.path()), Statistics::new().shared(true));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                for i in 0..CHANGES {
                    store.insert(format!("{thread} {i:6}").as_bytes(), b"value").unwrap();
                    store.increment(b"sum", 1).unwrap();
                }
                store.batch(Batch::new().insert(b"x", b"1").insert(b"y", b"2")).unwrap();
            });
        }
    });
    let all = store.operations().unwrap();
    let inserts = all.of(Operation::Insert);
    assert_eq!(inserts.count(Outcome::Done), THREADS * CHANGES);
    assert_eq!((inserts.calls, inserts.bytes), (THREADS * CHANGES, THREADS * CHANGES * 13));
    assert_eq!(all.of(Operation::Update).count(Outcome::Done), THREADS * CHANGES);
    assert_eq!(store.increment(b"sum", 0).unwrap() as u64, THREADS * CHANGES);
    let commits = all.of(Operation::Commit);
    assert_eq!((commits.calls, commits.items, commits.bytes), (THREADS, 2 * THREADS, 4 * THREADS));
    check_latencies(&all);
}

#[test]
fn the_callback_hears_of_what_is_timed() {
    let dir = tempfile::tempdir().unwrap();
    for (path, clock) in stores(dir.path()).iter().zip([Clock::Auto, Clock::Monotonic]) {
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&events);
        let statistics = Statistics::new().latency(Latency::Every).clock(clock);
        let statistics = statistics.callback(move |event| heard.lock().unwrap().push(*event));
        let store = open(path, statistics);
        store.get(&1u32.to_le_bytes()).unwrap();
        store.get(b"none").unwrap();
        store.get_many(&[1u32.to_le_bytes(), 2u32.to_le_bytes()], |_, _| ()).unwrap();
        match &store {
            Store::Hash(hash) => Scan::scan(hash, |_, _| Ok(())).unwrap(),
            store => store.scan(|_, _| Ok(())).unwrap(),
        }
        let events = events.lock().unwrap();
        let short: Vec<_> = events.iter().map(|e| (e.operation, e.outcome, e.size)).collect();
        assert_eq!(
            short,
            [
                (Operation::Get, Outcome::Hit, 3),
                (Operation::Get, Outcome::Miss, 0),
                (Operation::GetMany, Outcome::Done, 6),
                (Operation::Scan, Outcome::Done, 7 * u64::from(KEYS)),
            ]
        );
        assert_eq!(events[3].nanoseconds, counted(&store).of(Operation::Scan).latency.max());
    }
}

#[test]
fn the_callback_hears_of_a_sample_or_of_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        for (latency, range) in [(Latency::Off, 0..=0), (Latency::Sampled, 40..=200)] {
            let calls = Arc::new(Mutex::new(0u64));
            let heard = Arc::clone(&calls);
            let statistics = Statistics::new().latency(latency);
            let store = open(&path, statistics.callback(move |_| *heard.lock().unwrap() += 1));
            (0..20_000u32).for_each(|key| drop(store.get(&key.to_le_bytes()).unwrap()));
            let (calls, timed) =
                (*calls.lock().unwrap(), counted(&store).of(Operation::Get).latency.count());
            assert!(range.contains(&calls) && calls == timed, "{latency:?}: {calls} {timed}");
        }
    }
}

/// A callback that writes to the store it hears of: no lock or pin of the operation is left.
#[test]
fn a_callback_may_change_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = hash(dir.path());
    let log = Hash::open(&path).unwrap();
    let write = move |event: &credenza::stats::Event| {
        log.append(b"log", event.operation.name().as_bytes()).unwrap();
    };
    let store = open_hash(&path, Statistics::new().latency(Latency::Every).callback(write));
    store.insert(b"a", b"1").unwrap();
    store.batch(Batch::new().insert(b"b", b"2")).unwrap();
    let transaction = store.transaction().unwrap();
    transaction.commit().unwrap();
    store.sync().unwrap();
    store.get_with(b"a", |_| ()).unwrap();
    let log = Hash::open(&path).unwrap().get_with(b"log", <[u8]>::to_vec).unwrap().unwrap();
    assert_eq!(String::from_utf8(log).unwrap(), "insertcommitcommitsyncget");
}
