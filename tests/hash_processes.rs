//! Danger: threads and processes that see what cannot have been: a value of another key or time,
//! half a batch, an older version after a newer one; or that lose each other when a store is
//! forked, moved, or robbed of its index.

mod common;

use common::hash::{index_of, must};
use common::history::{Event, check};
use common::subject::{Subject, state_of};
use common::sys::{self, Status, fork, now};
use common::{Rng, child, is_child, rounds, seed};
use credenza::hash::{Batch, Durability, Hash};
use credenza::{OpenOptions, Scan};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const KEYS: u64 = 12;
/// Of these, each of the first is written by one thread only, which need not look what was there.
const OWN_KEYS: u64 = 6;
/// Puts that one thread makes to such keys, one after the other.
const PUTS: u64 = 12;

fn key_of(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

/// A value that says which version of which key it is, in every byte.
fn value_of(key: u64, version: u64) -> Vec<u8> {
    let mut rng = Rng::new(key << 32 ^ version);
    let len = [0, 10, 200, 3000][rng.below(4) as usize];
    let mut value = version.to_le_bytes().to_vec();
    value.extend(rng.bytes(len));
    value
}

/// The version that a value says it is; every byte is as it must be.
fn version_of(key: u64, value: &[u8]) -> u64 {
    let version = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert!(value == value_of(key, version), "key {key} has a torn value of version {version}");
    version
}

#[test]
fn a_fork_leaves_its_parents_transaction_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    let mut transaction = store.transaction().unwrap();
    transaction.insert(b"key", b"value").unwrap();
    let cell = std::cell::Cell::new(Some(transaction));
    let mut process = fork(|| {
        sys::give_up_after(60);
        let error = cell.take().unwrap().commit().unwrap_err().to_string();
        assert!(error.contains("fork"), "{error}");
    });
    assert_eq!(process.wait(), Status::Exited(0));
    let mut transaction = cell.take().unwrap();
    transaction.insert(b"another", b"value").unwrap();
    transaction.commit().unwrap();
    assert_eq!(state_of(&store, "after the fork").len(), 2);
    store.verify(|_, _| ()).unwrap();
}

/// Writes `count` versions of random keys; what was done. `own` is the key that nobody else
/// writes.
fn write(store: &Hash, own: u64, seed: u64, count: u64) -> Vec<Event> {
    let mut rng = Rng::new(seed);
    let mut events = Vec::new();
    let mut own_version = 0;
    while (events.len() as u64) < count {
        let begin = now();
        // Plain puts one after the other, some to other keys lest one waits for the one before it.
        if rng.below(3) == 0 {
            own_version += 1;
            store.insert(&key_of(own), &value_of(own, own_version)).unwrap();
            let (key, version) = (own, own_version);
            events.push(Event { key, is_write: true, version, begin, end: now() });
            for _ in 0..rng.below(PUTS) {
                store.insert(&rng.below(500).to_le_bytes(), &[7; 30]).unwrap();
            }
            continue;
        }
        let key = OWN_KEYS + rng.below(KEYS - OWN_KEYS);
        let mut version = 0;
        let next = |old: Option<&[u8]>| {
            version = old.map_or(0, |old| version_of(key, old)) + 1;
            Some(value_of(key, version))
        };
        store.update(&key_of(key), next).unwrap();
        events.push(Event { key, is_write: true, version, begin, end: now() });
    }
    events
}

/// Reads `count` random keys, in every way there is.
fn read(store: &Hash, seed: u64, count: u64) -> Vec<Event> {
    let mut rng = Rng::new(seed);
    let mut events = Vec::new();
    for _ in 0..count {
        let key = rng.below(KEYS);
        let event =
            |key, version, begin| Event { key, is_write: false, version, begin, end: now() };
        let begin = now();
        match rng.below(4) {
            0 => {
                let value = store.get(&key_of(key)).unwrap();
                let end = event(key, 0, begin);
                let version = value.as_ref().map_or(0, |value| version_of(key, value));
                events.push(Event { version, ..end });
            }
            1 => {
                let version = store.get_with(&key_of(key), |value| version_of(key, value)).unwrap();
                events.push(event(key, version.unwrap_or(0), begin));
            }
            2 => {
                let keys: Vec<Vec<u8>> = (0..KEYS).map(key_of).collect();
                let keep = |i: usize, value: Option<&[u8]>| {
                    let version = value.map_or(0, |value| version_of(i as u64, value));
                    events.push(event(i as u64, version, begin));
                };
                store.get_many(&keys, keep).unwrap();
            }
            _ => {
                for record in store {
                    let (key, value) = record.unwrap();
                    let Some(key) = key.strip_prefix(b"key ") else { continue };
                    let key = std::str::from_utf8(key).unwrap().parse().unwrap();
                    events.push(event(key, version_of(key, &value), begin));
                }
            }
        }
    }
    events
}

/// Two threads that write, each with one of two keys of its own, and two that read.
fn read_and_write(store: &Hash, own: u64, seed: u64, count: u64) -> Vec<Event> {
    thread::scope(|scope| {
        let handles: Vec<_> = (0..4u64)
            .map(|i| {
                let seed = seed * 10 + i;
                scope.spawn(move || match i % 2 {
                    0 => write(store, own + i / 2, seed, count),
                    _ => read(store, seed, count / 2),
                })
            })
            .collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
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
    let (path, seed, count) = (variable("STORE"), variable("SEED"), variable("COUNT"));
    let (seed, count) = (seed.parse().unwrap(), count.parse().unwrap());
    let own = variable("OWN").parse().unwrap();
    let events = match variable("RIGHTS").as_str() {
        "read" => {
            let store = Hash::options().read_only(true).open(&path).unwrap();
            read(&store, seed, count / 4)
        }
        _ => read_and_write(&Hash::open(&path).unwrap(), own, seed, count),
    };
    let bytes: Vec<u8> = events.iter().flat_map(Event::encode).collect();
    std::fs::write(variable("HISTORY"), bytes).unwrap();
}

#[test]
fn one_order_explains_what_everybody_saw() {
    let count = 700;
    for round in 0..rounds(2) {
        let seed = seed(round);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        let rights = ["write", "write", "read"];
        let start = |(i, rights): (usize, &&str)| {
            let mut command = child("child_reads_and_writes");
            let history = folder.path().join(format!("history {i}"));
            command.env("STORE", &path).env("HISTORY", &history).env("RIGHTS", rights);
            command
                .env("SEED", (seed * 100 + i as u64).to_string())
                .env("OWN", (2 + 2 * i).to_string())
                .env("COUNT", count.to_string());
            (command.stdout(std::process::Stdio::null()).spawn().unwrap(), history)
        };
        let children: Vec<_> = rights.iter().enumerate().map(start).collect();
        let mut events = read_and_write(&store, 0, seed * 100 + 50, count);
        for (mut process, history) in children {
            assert!(process.wait().unwrap().success(), "seed {seed}");
            events.extend(Event::decode_all(&std::fs::read(history).unwrap()));
        }
        check(&events).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let writes = events.iter().filter(|event| event.is_write).count() as u64;
        let last: u64 = (0..KEYS).map(|key| read_version(&store, key)).sum();
        assert_eq!(last, writes, "seed {seed}: a version for each write");
        state_of(&store, "at the end");
    }
}

fn read_version(store: &Hash, key: u64) -> u64 {
    store.get_with(&key_of(key), |value| version_of(key, value)).unwrap().unwrap_or(0)
}

/// While keys come, `len` is no less than what was there before it was asked for, and no more than
/// what is there after it.
#[test]
fn who_may_not_write_counts_what_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
    const COUNT: u64 = 100_000;
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..COUNT {
                begun.store(i + 1, Ordering::SeqCst);
                store.insert(&i.to_le_bytes(), b"").unwrap();
                done.store(i + 1, Ordering::SeqCst);
            }
        });
        let mut before = 0;
        while before < COUNT {
            before = done.load(Ordering::SeqCst);
            let len = reader.len().unwrap();
            let after = begun.load(Ordering::SeqCst);
            assert!((before..=after).contains(&len), "{len} keys, where {before} to {after} were");
        }
    });
}

/// Nor are the bytes of what waits those of what was replaced: they add up for who may not write, too.
#[test]
fn who_may_not_write_knows_the_bytes_of_what_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let key = |i: u64| i.to_le_bytes();
    (0..1000).for_each(|i| must(store.insert(&key(i), &[1; 50])));
    (995..1005).for_each(|i| must(store.insert(&key(i), &[2; 1000])));
    must(store.insert(b"large", &vec![3; 4 << 20]));
    let read = || {
        let reader = OpenOptions::new().read_only(true).open(&path).unwrap();
        (
            reader.stats().unwrap(),
            Hash::options().read_only(true).open(&path).unwrap().stats().unwrap(),
        )
    };
    let (all, seen) = read();
    assert_eq!(
        all.key_bytes + all.value_bytes + all.directory_bytes + all.slack_bytes,
        all.file_bytes
    );
    // Who may write enters what waits before.
    let known = store.stats().unwrap();
    assert_eq!((seen.records, seen.live_bytes), (known.records, known.live_bytes));
    assert_eq!(seen.dead_bytes, known.dead_bytes);
    assert_eq!(read().1.live_bytes, known.live_bytes);
}

/// Two handles, each of which finds what the other has written, however the files grow and shrink.
#[test]
fn handles_of_one_store_are_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let handles = [Hash::create(&path).unwrap(), Hash::open(&path).unwrap()];
    let key = |i: u64| format!("{i}").into_bytes();
    for turn in 0..8u64 {
        let (a, b) = (&handles[turn as usize % 2], &handles[(turn as usize + 1) % 2]);
        let len = if turn % 3 == 2 { 3 } else { 300 };
        (0..3000).for_each(|i| must(a.insert(&key(i), &vec![turn as u8; len])));
        while a.compact(1 << 20).unwrap() {}
        for i in 0..3000 {
            let found = b.get_with(&key(i), |value| value == vec![turn as u8; len]).unwrap();
            assert_eq!(found, Some(true), "turn {turn}, key {i}");
        }
        for i in 0..3000 {
            assert!(b.replace(&key(i), &[9]).unwrap(), "turn {turn}, key {i}");
        }
        b.clear().unwrap();
        assert!(a.is_empty().unwrap());
    }
    let mut transaction = handles[0].transaction().unwrap();
    transaction.insert(b"a", b"b").unwrap();
    let message = handles[0].insert(b"c", b"d").unwrap_err().to_string();
    assert!(message.contains("transaction"), "{message}");
    transaction.commit().unwrap();
    state_of(&handles[1], "at the end");
}

/// Also more than there can be pins: who finds none has copies.
#[test]
fn a_thread_holds_any_number_of_values() {
    let store = Hash::in_memory().unwrap();
    let key = |i: u64| format!("{i}").into_bytes();
    let fill = |turn: u8| {
        (0..500).for_each(|i| must(store.insert(&key(i), &[turn; 3000])));
    };
    fill(1);
    let held: Vec<_> = (0..200).map(|i| store.get(&key(i)).unwrap().unwrap()).collect();
    // What was held is not written over, however often the store is.
    for turn in 2..40 {
        fill(turn);
        while store.compact(1 << 20).unwrap() {}
    }
    assert!(held.iter().all(|value| **value == [1; 3000]));
    assert_eq!(store.get_with(&key(7), <[u8]>::to_vec).unwrap(), Some(vec![39; 3000]));
    assert_eq!(store.get_with(b"none", <[u8]>::to_vec).unwrap(), None);
    let keys: Vec<Vec<u8>> = (300..700).map(key).collect();
    let mut found = 0;
    store.get_many(&keys, |_, value| found += usize::from(value == Some(&[39; 3000][..]))).unwrap();
    assert_eq!(found, 200);
    assert_eq!(store.iter().filter(|record| record.as_ref().unwrap().1 == [39; 3000]).count(), 500);
    drop(held);
}

/// The thread of the parent that syncs is not in the child, where another thread may be in its place.
#[test]
fn a_fork_that_closes_a_store_does_nothing_to_its_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = Hash::options().create(true).durability(Durability::Interval(1));
    let store = options.open(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    let forked = store.clone();
    let mut child = fork(move || {
        sys::give_up_after(60);
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || receiver.recv().unwrap());
        drop((store, forked));
        sender.send(()).unwrap();
        thread.join().unwrap();
    });
    assert_eq!(child.wait(), Status::Exited(0));
}

#[test]
fn a_fork_goes_on_with_the_store_that_its_parent_has_open() {
    for durability in [Durability::Buffered, Durability::Interval(5), Durability::Sync] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::options().create(true).durability(durability).open(&path).unwrap();
        store.insert(b"shared", &[1; 1000]).unwrap();
        let held = store.get(b"shared").unwrap().unwrap();
        let mut children: Vec<_> = (0..3u64)
            .map(|number| {
                let store = store.clone();
                let held = &held;
                fork(move || {
                    // What hangs does not pass.
                    sys::give_up_after(60);
                    for i in 0..500u64 {
                        store
                            .insert(format!("{number}:{i}").as_bytes(), &[number as u8; 90])
                            .unwrap();
                        store.increment(b"count", 1).unwrap();
                        assert!(**held == [1; 1000]);
                    }
                    assert!(store.get(b"shared").unwrap().is_some());
                    drop(store);
                })
            })
            .collect();
        for i in 0..500u64 {
            store.insert(b"shared", &[i as u8; 1000]).unwrap();
            store.increment(b"count", 1).unwrap();
        }
        for process in &mut children {
            assert_eq!(process.wait(), Status::Exited(0), "{durability:?}");
        }
        assert!(*held == [1; 1000], "the children's end let the parent's value go");
        drop(held);
        assert_eq!(store.get(b"count").unwrap().as_deref(), Some(&b"2000"[..]));
        assert_eq!(state_of(&store, "parent").len(), 1502);
        // A child that ends its use altogether takes nothing from the parent.
        let (mine, theirs) = (store.clone(), store);
        let mut process = fork(move || {
            sys::give_up_after(60);
            drop((mine, theirs));
        });
        assert_eq!(process.wait(), Status::Exited(0), "{durability:?}");
        let store = Hash::open(&path).unwrap();
        assert_eq!(state_of(&store, "opened again").len(), 1502);
    }
}

#[test]
fn a_moved_store_is_the_same_store_by_its_new_name() {
    for is_index_moved in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        let store = Hash::create(&old).unwrap();
        (0..500u64).for_each(|i| must(store.insert(&i.to_le_bytes(), b"first")));
        std::fs::rename(&old, &new).unwrap();
        if is_index_moved {
            std::fs::rename(index_of(&old), index_of(&new)).unwrap();
        }
        // Another store takes the old name.
        let other = Hash::create(&old).unwrap();
        other.insert(b"other", b"").unwrap();
        let write = |store: &Hash, from: u64| {
            for i in (from..1000).step_by(2) {
                store.insert(&i.to_le_bytes(), &[from as u8; 60]).unwrap();
            }
        };
        let mut process = fork(|| {
            sys::give_up_after(60);
            write(&Hash::open(&new).unwrap(), 1);
        });
        write(&store, 0);
        assert_eq!(process.wait(), Status::Exited(0));
        let state = state_of(&store, "moved");
        assert!(state.len() == 1000 && state.values().all(|value| value.len() == 60));
        assert!(state_of(&Hash::open(&new).unwrap(), "by its new name") == state);
        assert_eq!(state_of(&other, "the other").len(), 1);
    }
}

#[test]
fn an_index_that_is_deleted_while_it_is_used_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    for turn in 0..6u64 {
        std::fs::remove_file(index_of(&path)).unwrap();
        let write = |store: &Hash, who: u64| {
            for i in 0..300u64 {
                store.insert(format!("{turn}:{who}:{i}").as_bytes(), &[who as u8; 40]).unwrap();
            }
        };
        let start = |who| {
            let (path, write) = (&path, &write);
            fork(move || {
                sys::give_up_after(60);
                write(&Hash::open(path).unwrap(), who);
            })
        };
        let mut children = [start(1), start(2)];
        write(&store, 0);
        for process in &mut children {
            assert_eq!(process.wait(), Status::Exited(0));
        }
        assert_eq!(state_of(&store, "index deleted").len() as u64, (turn + 1) * 900);
    }
    // Nothing is made in the place of a store that is gone.
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(index_of(&path)).unwrap();
    store.clear().unwrap();
    store.insert(b"still", b"here").unwrap();
    assert_eq!(state_of(&store, "deleted").len(), 1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a stray file");
}

/// Tells other threads to come to an end, also after a failure.
struct Done<'d>(&'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_see_batches_whole() {
    const SIZE: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let writer = Hash::create(&path).unwrap();
    let keys: Vec<Vec<u8>> = (0..SIZE).map(key_of).collect();
    let put = |generation: u64| {
        let mut batch = Batch::new();
        for key in &keys {
            batch.insert(key, &generation.to_le_bytes());
        }
        writer.batch(&batch).unwrap();
    };
    put(0);
    let (done, other) = (AtomicBool::new(false), Hash::open(&path).unwrap());
    let generation = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
    thread::scope(|scope| {
        for store in [&writer, &other] {
            let (done, keys) = (&done, &keys);
            scope.spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let mut all = Vec::new();
                    let keep =
                        |_: usize, value: Option<&[u8]>| all.push(generation(value.unwrap()));
                    store.get_many(keys, keep).unwrap();
                    assert!(all.iter().all(|one| *one == all[0]), "a part of a batch: {all:?}");
                    // One key after the other: what is seen first is never newer than what follows.
                    for key in keys {
                        let seen = store.get_with(key, generation).unwrap().unwrap();
                        assert!(seen >= last, "{seen} after {last}");
                        last = seen;
                    }
                }
            });
        }
        let _done = Done(&done);
        (1..600).for_each(put);
    });
}

#[test]
fn a_scan_gives_what_stays_exactly_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    for i in 0..2000u64 {
        store.insert(format!("stays {i}").as_bytes(), &i.to_le_bytes()).unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..2u64 {
            let (store, done) = (Hash::open(&path).unwrap(), &done);
            scope.spawn(move || {
                let mut rng = Rng::new(number);
                while !done.load(Ordering::Relaxed) {
                    let key = format!("comes and goes {number} {}", rng.below(8000));
                    match rng.below(1000) {
                        0 => store.rebuild_index(false).unwrap(),
                        1 => drop(store.compact(100_000).unwrap()),
                        2..600 => must(store.insert(key.as_bytes(), &[1; 20])),
                        _ => must(store.remove(key.as_bytes())),
                    }
                }
            });
        }
        let _done = Done(&done);
        let reader = Hash::options().read_only(true).open(&path).unwrap();
        for turn in 0..30 {
            let mut seen: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            let store = if turn % 10 == 9 { &reader } else { &store };
            let mut count = |key: &[u8], _: &[u8]| {
                *seen.entry(key.to_vec()).or_default() += 1;
                Ok(())
            };
            if turn % 2 == 0 {
                Scan::scan(store, count).unwrap();
            } else {
                store
                    .iter()
                    .map(Result::unwrap)
                    .for_each(|(key, value)| count(&key, &value).unwrap());
            }
            let stays = seen.iter().filter(|(key, _)| key.starts_with(b"stays")).count();
            assert_eq!(stays, 2000, "turn {turn}: what stays is missing");
            let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
            assert!(twice.is_empty(), "turn {turn}: given twice: {twice:?}");
        }
    });
}

#[test]
fn transactions_see_and_are_seen_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let accounts = 8u64;
    (0..accounts).for_each(|i| must(store.insert(&[i as u8], &100u64.to_le_bytes())));
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
    let transfer = |store: &Hash, seed: u64, count: u64| {
        let mut rng = Rng::new(seed);
        for _ in 0..count {
            let (from, to) = (rng.below(accounts) as u8, rng.below(accounts) as u8);
            let mut transaction = store.transaction().unwrap();
            let sum: u64 =
                (0..accounts).map(|i| number(transaction.get(&[i as u8]).unwrap().unwrap())).sum();
            assert_eq!(sum, 100 * accounts);
            let left = number(transaction.get(&[from]).unwrap().unwrap());
            if left == 0 {
                transaction.abort();
                continue;
            }
            transaction.insert(&[from], &(left - 1).to_le_bytes()).unwrap();
            let had = number(transaction.get(&[to]).unwrap().unwrap());
            transaction.insert(&[to], &(had + 1).to_le_bytes()).unwrap();
            if rng.below(10) > 0 {
                transaction.commit().unwrap();
            }
        }
    };
    let mut children: Vec<_> = (0..2)
        .map(|seed| {
            let (path, transfer) = (&path, &transfer);
            fork(move || {
                sys::give_up_after(60);
                transfer(&Hash::open(path).unwrap(), seed, 800);
            })
        })
        .collect();
    thread::scope(|scope| {
        (2..4).for_each(|seed| {
            drop(scope.spawn({
                let (store, transfer) = (&store, &transfer);
                move || transfer(store, seed, 800)
            }))
        });
    });
    for process in &mut children {
        assert_eq!(process.wait(), Status::Exited(0));
    }
    let sum: u64 = state_of(&store, "at the end").values().map(|value| number(value)).sum();
    assert_eq!(sum, 100 * accounts);
}

#[test]
fn a_change_wakes_who_waits_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    // Each waits for the other's numbers: without being woken they come to no end in the time that they have, as
    // who waits looks himself five times a second.
    let play = |store: &Hash, mine: &[u8], other: &[u8], is_first: bool| {
        for i in 0..400i64 {
            if is_first {
                assert_eq!(store.increment(mine, 1).unwrap(), i + 1);
            }
            loop {
                let since = store.changes();
                let seen =
                    store.get_with(other, |v| String::from_utf8_lossy(v).parse::<i64>().unwrap());
                if seen.unwrap().unwrap_or(0) > i {
                    break;
                }
                let changes = store.wait_for_change(since, Duration::from_secs(60)).unwrap();
                assert_ne!(changes, since, "the other has given up");
            }
            if !is_first {
                assert_eq!(store.increment(mine, 1).unwrap(), i + 1);
            }
        }
    };
    let mut process = fork(|| {
        sys::give_up_after(60);
        play(&Hash::open(&path).unwrap(), b"ping", b"pong", true);
    });
    play(&store, b"pong", b"ping", false);
    assert_eq!(process.wait(), Status::Exited(0));
    let since = store.changes();
    assert_eq!(store.wait_for_change(since, Duration::ZERO).unwrap(), since);
    assert!(Subject::len(&store).unwrap() == 2 && Path::exists(&path));
}
