//! Danger: numbers that are not what was done: lost between threads or processes, counted twice,
//! made up by a damaged file; or statistics that stop a store from being used.

mod common;

use common::sys::{self, Status};
use common::{Rng, child, is_child};
use credenza::constant::{Builder, Constant};
use credenza::hash::{Batch, Hash};
use credenza::stats::{Clock, Latency, Observer, Operation, Operations, Outcome, Statistics};
use credenza::{Access, Error, Get, OpenOptions, Scan, Store};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const KEYS: u32 = 1000;

/// A constant store of keys 0 to 999 with values of 3 bytes.
fn constant(dir: &Path) -> PathBuf {
    let path = dir.join("constant");
    let mut builder = Builder::create(&path).unwrap();
    (0..KEYS).for_each(|key| builder.add(&key.to_le_bytes(), b"abc").unwrap());
    builder.finish().unwrap();
    path
}

/// A hash store of the same records.
fn hash(dir: &Path) -> PathBuf {
    let path = dir.join("hash");
    let store = Hash::create(&path).unwrap();
    for key in 0..KEYS {
        store.insert(&key.to_le_bytes(), b"abc").unwrap();
    }
    path
}

/// One of each.
fn stores(dir: &Path) -> [PathBuf; 2] {
    [constant(dir), hash(dir)]
}

fn open(path: &Path, statistics: Statistics) -> Store {
    OpenOptions::new().statistics(statistics).open(path).unwrap()
}

fn open_hash(path: &Path, statistics: Statistics) -> Hash {
    Hash::options().statistics(statistics).open(path).unwrap()
}

fn counted(store: &Store) -> Operations {
    store.operations().expect("it was opened with statistics")
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-stats");
    name.into()
}

/// Calls, hits, misses, failures, items, bytes.
fn numbers(operations: &Operations, operation: Operation) -> [u64; 6] {
    let tally = operations.of(operation);
    let count = |outcome| tally.count(outcome);
    let [hits, misses, failed] = [Outcome::Hit, Outcome::Miss, Outcome::Failed].map(count);
    [tally.calls, hits, misses, failed, tally.items, tally.bytes]
}

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
}

/// Whatever was timed: percentiles are in their order, and all is within the longest.
fn check_latencies(operations: &Operations) {
    for (operation, tally) in operations.iter() {
        let latency = &tally.latency;
        assert!(latency.count() <= tally.calls, "{operation}");
        let points = [0.0, 50.0, 90.0, 99.0, 99.9, 100.0].map(|p| latency.percentile(p));
        assert!(points.is_sorted() && points[5] == latency.max(), "{operation}: {points:?}");
        assert!(latency.mean() <= latency.max() as f64, "{operation}");
        assert_eq!(latency.buckets().map(|(_, _, n)| n).sum::<u64>(), latency.count());
        assert_eq!(latency.count() == 0, latency.sum() == 0, "{operation}");
    }
}

#[test]
fn every_operation_is_counted_as_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let [constant, hash] = stores(dir.path());
    for latency in [Latency::Off, Latency::Sampled, Latency::Every] {
        let statistics = Statistics::new().latency(latency);
        for access in [Access::Map, Access::Read, Access::Memory] {
            let options = OpenOptions::new().access(access).statistics(statistics.clone());
            read_and_check(&options.open(&constant).unwrap(), latency);
        }
        for is_read_only in [false, true] {
            let options = OpenOptions::new().read_only(is_read_only);
            let store = options.statistics(statistics.clone()).open(&hash).unwrap();
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
    assert_eq!(of(Operation::Update, update), ([4, 1, 1], 6, 2 + 4 + 5 + 1));
    assert_eq!(of(Operation::Commit, [Outcome::Done, miss, failed]), ([2, 0, 0], 4, 3 + 1 + 4 + 2));
    assert_eq!(of(Operation::Sync, [Outcome::Done, miss, failed]), ([1, 0, 0], 1, 0));
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
fn a_handle_without_statistics_counts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        let store = credenza::open(&path).unwrap();
        store.get(b"none").unwrap();
        assert!(store.operations().is_none());
    }
    assert!(Hash::in_memory().unwrap().operations().is_none());
}

#[test]
fn lookups_in_a_damaged_file_are_counted_as_failed() {
    let dir = tempfile::tempdir().unwrap();
    let path = constant(dir.path());
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

// --- processes -------------------------------------------------------------------------------

/// Not a test of its own: what [`start`] runs in another process. It makes lookups, and changes of a
/// hash store, says so, and waits to be told to end, or to be killed.
#[test]
fn child_process() {
    if !is_child() {
        return;
    }
    let path = std::env::var("STORE").unwrap();
    let store = open(Path::new(&path), Statistics::new().shared(true));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for key in 0..2 * KEYS {
                    store.get(&key.to_le_bytes()).unwrap();
                }
                if let Store::Hash(store) = &store {
                    for _ in 0..100 {
                        store.increment(b"sum", 1).unwrap();
                    }
                }
            });
        }
    });
    std::fs::write(format!("{path}.done.{}", std::process::id()), "").unwrap();
    std::io::read_to_string(std::io::stdin()).unwrap();
}

/// Starts the child, and waits until it has done what it does.
fn start(path: &Path) -> Child {
    let mut command = child("child_process");
    command.env("STORE", path).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let done = format!("{}.done.{}", path.display(), child.id());
    while !Path::new(&done).exists() {
        assert!(child.try_wait().unwrap().is_none(), "the child has failed");
        std::thread::yield_now();
    }
    child
}

#[test]
fn processes_see_each_others_numbers_and_those_of_the_dead() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        let store = open(&path, Statistics::new().shared(true));
        let changes = if matches!(store, Store::Hash(_)) { 300 } else { 0 };
        let observer = Observer::open(&path).unwrap();
        let all = u64::from(KEYS);
        let check = |children: u64| {
            for seen in [observer.read().unwrap(), counted(&store)] {
                let expected = [6 * all, 3 * all, 3 * all, 0, 6 * all, 9 * all];
                assert_eq!(numbers(&seen, Operation::Get), expected.map(|n| n * children));
                assert!(children == 0 || seen.of(Operation::Get).latency.count() >= children);
                let updates = seen.of(Operation::Update);
                assert_eq!(updates.count(Outcome::Done), changes * children);
                check_latencies(&seen);
            }
        };
        check(0);
        let [mut ended, mut killed] = [start(&path), start(&path)];
        check(2);
        drop(ended.stdin.take());
        assert!(ended.wait().unwrap().success());
        killed.kill().unwrap();
        killed.wait().unwrap();
        check(2);
        // Whoever opens the file next folds what the dead one left; nothing is lost or counted twice.
        let other = open(&path, Statistics::new().shared(true));
        check(2);
        other.get(b"none").unwrap();
        let since = observer.read().unwrap().since(&counted(&store));
        assert_eq!(numbers(&since, Operation::Get), [0; 6]);
        // Each has three threads or more: many times as many as there are slots, were they not
        // given back.
        drop((other, store));
        for _ in 0..25 {
            let mut child = start(&path);
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let [calls, hits, misses, ..] = numbers(&observer.read().unwrap(), Operation::Get);
        assert_eq!([calls, hits, misses], [27 * 6 * all + 1, 27 * 3 * all, 27 * 3 * all + 1]);
    }
}

/// The child goes on with the handle it has: its numbers and its parent's are both there, and its
/// end takes no slot from its parent.
#[test]
fn a_fork_disturbs_no_count() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        let store = open(&path, Statistics::new().shared(true));
        let get = |store: &Store, n: u32| {
            (0..n).for_each(|key| drop(store.get(&key.to_le_bytes()).unwrap()));
        };
        let calls = |store: &Store| counted(store).of(Operation::Get).calls;
        get(&store, 100);
        let mut handle = Some(store);
        let mut forked = sys::fork(|| {
            let last = handle.take().unwrap();
            get(&last, 20_000);
            drop(last);
        });
        let store = handle.unwrap();
        get(&store, 20_000);
        assert_eq!(forked.wait(), Status::Exited(0));
        get(&store, 1000);
        assert_eq!(calls(&store), 41_100);
        assert_eq!(Observer::open(&path).unwrap().read().unwrap(), counted(&store));
        // What a handle of one process counts is its own.
        let store = open(&path, Statistics::new());
        get(&store, 10);
        let mut forked = sys::fork(|| {
            get(&store, 10);
            assert_eq!(calls(&store), 20);
        });
        assert_eq!(forked.wait(), Status::Exited(0));
        assert_eq!(calls(&store), 10);
    }
}

// --- files -----------------------------------------------------------------------------------

#[test]
fn no_file_appears_unless_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        credenza::open(&path).unwrap().get(b"none").unwrap();
        open(&path, Statistics::new()).get(b"none").unwrap();
        assert!(!beside(&path).exists());
        Observer::open(&path).unwrap_err();
        // Nor does a folder that may not be written stop anybody; root may write it all the same.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o555)).unwrap();
        credenza::open(&path).unwrap();
        let shared = OpenOptions::new().statistics(Statistics::new().shared(true)).open(&path);
        match shared {
            Ok(_) => assert!(beside(&path).exists()),
            Err(e) => assert_eq!(e.path(), Some(&*beside(&path.canonicalize().unwrap()))),
        }
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[test]
fn numbers_go_on_where_they_were_and_belong_to_the_file_behind_a_link() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        let link = path.with_extension("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for (round, path) in [&path, &link, &path].into_iter().enumerate() {
            let store = open(path, Statistics::new().shared(true));
            store.get(b"none").unwrap();
            assert_eq!(counted(&store).of(Operation::Get).calls, round as u64 + 1);
        }
        let seen = Observer::open(&link).unwrap().read().unwrap();
        assert_eq!(seen.of(Operation::Get).calls, 3);
        assert!(!beside(&link).exists());
    }
}

/// A store that is built anew and put in the old one's place goes on with its numbers.
#[test]
fn a_replaced_store_goes_on_counting() {
    let dir = tempfile::tempdir().unwrap();
    let path = constant(dir.path());
    let options = Constant::options().statistics(Statistics::new().shared(true));
    let mut store = options.open(&path).unwrap();
    store.get(b"none").unwrap();
    constant(dir.path());
    assert!(store.refresh().unwrap());
    store.get(&5u32.to_le_bytes()).unwrap();
    let other = open(&path, Statistics::new().shared(true));
    other.get(b"none").unwrap();
    assert_eq!(numbers(&store.operations().unwrap(), Operation::Get), [3, 1, 2, 0, 3, 3]);
}

#[test]
fn foreign_files_refuse_statistics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.cdb");
    let mut writer = credenza::foreign::CdbWriter::create(&path).unwrap();
    writer.add(b"key", b"value").unwrap();
    writer.finish().unwrap();
    let options = OpenOptions::new();
    options.clone().statistics(Statistics::new()).open(&path).unwrap_err();
    assert!(options.open(&path).unwrap().operations().is_none());
}

#[test]
fn damaged_files_of_statistics_are_errors_and_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        refuse_damaged(&path, dir.path());
        // With or without them, the store is what it was.
        let store = credenza::open(&path).unwrap();
        store.verify(|_, _| ()).unwrap();
        assert_eq!(store.len().unwrap(), u64::from(KEYS));
    }
}

fn refuse_damaged(path: &Path, dir: &Path) {
    let shared = Statistics::new().shared(true);
    drop(open(path, shared.clone()));
    let whole = std::fs::read(beside(path)).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(beside(path), bytes).unwrap();
        Operations::from_bytes(bytes).unwrap_err();
        let e = Observer::open(path).unwrap_err();
        assert!(e.path().is_some() && e.to_string().contains("remove"), "{e}");
        let e = OpenOptions::new().statistics(shared.clone()).open(path).unwrap_err();
        assert!(e.path().is_some() && e.to_string().contains("remove"), "{e}");
        credenza::open(path).unwrap().get(b"none").unwrap();
        assert_eq!(std::fs::read(beside(path)).unwrap(), bytes, "it was changed");
    };
    for len in [1, 8, 63, 64, 4096, whole.len() - 1] {
        refused(&whole[..len]);
    }
    for bit in 0..64 * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if bit % 37 == 0 {
            refused(&flipped);
        }
        Operations::from_bytes(&flipped).unwrap_err();
    }
    refused(&[whole.clone(), vec![0]].concat());
    refused(b"this is text that somebody keeps here");
    // One of zeros is one whose maker was killed.
    for len in [0, 64, whole.len()] {
        std::fs::write(beside(path), vec![0; len]).unwrap();
        Observer::open(path).unwrap_err();
        drop(open(path, shared.clone()));
        Observer::open(path).unwrap();
    }
    for kind in ["folder", "link"] {
        std::fs::remove_file(beside(path)).unwrap();
        match kind {
            "folder" => std::fs::create_dir(beside(path)).unwrap(),
            _ => std::os::unix::fs::symlink(dir.join("victim"), beside(path)).unwrap(),
        }
        let e = OpenOptions::new().statistics(shared.clone()).open(path).unwrap_err();
        assert!(e.path().is_some(), "{e}");
        if kind == "folder" {
            std::fs::remove_dir(beside(path)).unwrap();
            std::fs::write(beside(path), "").unwrap();
        }
    }
    assert!(!dir.join("victim").exists());
}

#[test]
fn any_numbers_behind_a_true_header_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let path = hash(dir.path());
    let shared = Statistics::new().shared(true).latency(Latency::Every);
    drop(open(&path, shared.clone()));
    let mut rng = Rng::new(5);
    let mut bytes = std::fs::read(beside(&path)).unwrap();
    for round in 0..6 {
        for at in (64..bytes.len()).step_by(8) {
            let word = match round {
                0 => u64::MAX,
                1 => rng.below(1 << 40) << 24 | rng.below(1 << 24),
                _ => [0, 1, u64::MAX, 1 << 63, 0xffff][rng.below(5) as usize],
            };
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        std::fs::write(beside(&path), &bytes).unwrap();
        for operations in [
            Operations::from_bytes(&bytes).unwrap(),
            Observer::open(&path).unwrap().read().unwrap(),
        ] {
            for (operation, tally) in operations.iter() {
                for outcome in operation.outcomes() {
                    std::hint::black_box(tally.count(*outcome));
                }
                assert!(tally.latency.percentile(99.0) <= tally.latency.max());
                assert!(tally.latency.mean() >= 0.0 && tally.latency.buckets().count() <= 512);
            }
        }
        // Who counts in it counts right from where it is.
        let store = open(&path, shared.clone());
        let before = counted(&store);
        for key in 0..200u32 {
            store.get(&key.to_le_bytes()).unwrap();
        }
        let calls = |operations: &Operations| operations.of(Operation::Get).calls;
        let difference = calls(&counted(&store)).wrapping_sub(calls(&before));
        assert_eq!(difference % (1 << 48), 200, "round {round}");
    }
}
