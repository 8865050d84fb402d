//! Danger: a lookup of the hash engine that meets a change half done, or memory that was given to another.

use credenza::hash::{Batch, Hash};
use credenza_schedules::{Versions, folder, in_many_orders, value, version};
use shuttle::thread;
use std::sync::Arc;

const KEYS: u64 = 4;
const OTHERS: u64 = 300;

fn name(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

/// A store in which the next changes move records, split buckets or empty segments, another in each round,
/// and a handle for each of two threads.
fn store(round: u64) -> (tempfile::TempDir, [Arc<Hash>; 2]) {
    let (folder, path) = folder();
    let store = Arc::new(Hash::create(&path).unwrap());
    for i in 0..round * 37 % 900 {
        store.insert(format!("other {}", i % OTHERS).as_bytes(), &value(i, i)).unwrap();
    }
    (0..KEYS).for_each(|key| store.insert(&name(key), &value(key, 0)).unwrap());
    // As two processes, or as two threads with one handle.
    let other =
        if round.is_multiple_of(2) { store.clone() } else { Arc::new(Hash::open(&path).unwrap()) };
    (folder, [store, other])
}

/// How many others there are.
fn others_of(round: u64) -> u64 {
    OTHERS.min(round * 37 % 900)
}

fn found(store: &Hash, key: u64) -> Option<u64> {
    let found = store.get(&name(key)).unwrap()?;
    // It is held in place: others go on for a while.
    (0..3).for_each(|_| thread::yield_now());
    Some(version(key, &found))
}

#[test]
fn lookups_find_whole_values_beside_a_writer() {
    in_many_orders(|round| {
        let (_folder, [store, other]) = store(round);
        let versions: Arc<[Versions; KEYS as usize]> = Arc::default();
        let readers = [0, 1].map(|reader| {
            let (store, versions) = (other.clone(), versions.clone());
            thread::spawn(move || {
                let mut last = [0; KEYS as usize];
                for i in 0..30u64 {
                    let key = (i * (reader + 1) + round) % KEYS;
                    let now = versions[key as usize].check(|| found(&store, key));
                    assert!(now >= last[key as usize], "key {key}: {now} after {last:?}");
                    last[key as usize] = now;
                }
            })
        });
        for i in 0..40u64 {
            let key = (i * i + round) % KEYS;
            versions[key as usize].next(|version| match version % 2 {
                1 => assert!(store.remove(&name(key)).unwrap()),
                _ => store.insert(&name(key), &value(key, version)).unwrap(),
            });
            store.insert(format!("new {round} {i}").as_bytes(), &value(i, i)).unwrap();
            if i % 4 == 3 {
                // What was emptied before may be written over now, if nobody reads it.
                store.sync().unwrap();
                store.sync().unwrap();
            }
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        store.verify(|_, _| ()).unwrap();
    });
}

#[test]
fn who_saw_of_a_batch_sees_all_of_it() {
    in_many_orders(|round| {
        let (_folder, [store, other]) = store(round);
        let coming = |number: u64| format!("of batch {number}").into_bytes();
        store.insert(&coming(0), b"").unwrap();
        let reader = thread::spawn(move || {
            let mut last = 0;
            for _ in 0..10 {
                for key in 0..KEYS {
                    let now = found(&other, key).unwrap();
                    assert!(now >= last, "key {key} of batch {now} after {last}");
                    last = now;
                }
                assert_eq!(other.len().unwrap(), others_of(round) + KEYS + 1);
                let names: Vec<_> = (0..KEYS).map(name).collect();
                let mut all = Vec::new();
                let add = |i, found: Option<&[u8]>| all.push(version(i as u64, found.unwrap()));
                other.get_many(&names, add).unwrap();
                assert!(
                    all[0] >= last && all.iter().all(|now| *now == all[0]),
                    "{all:?} after {last}"
                );
                last = all[0];
            }
        });
        for number in 1..8 {
            let mut batch = Batch::new();
            for key in 0..KEYS {
                batch.insert(&name(key), &value(key, number));
            }
            batch.remove(&coming(number - 1)).insert(&coming(number), b"");
            store.batch(&batch).unwrap();
        }
        reader.join().unwrap();
        store.verify(|_, _| ()).unwrap();
    });
}

#[test]
fn writers_take_turns() {
    in_many_orders(|round| {
        let (_folder, stores) = store(round);
        let writers = stores.clone().map(|store| {
            thread::spawn(move || {
                for _ in 0..6 {
                    store.increment(b"sum", 1).unwrap();
                }
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(stores[0].increment(b"sum", 0).unwrap(), 12);
        stores[1].verify(|_, _| ()).unwrap();
    });
}

#[test]
fn what_nobody_changes_is_iterated_once_beside_a_writer_and_a_compaction() {
    in_many_orders(|round| {
        let (_folder, [store, other]) = store(round);
        let versions: Arc<[Versions; KEYS as usize]> = Arc::default();
        let (reading, seen) = (other.clone(), versions.clone());
        let reader = thread::spawn(move || {
            for key in (0..KEYS).cycle().take(8) {
                seen[key as usize].check(|| found(&reading, key));
            }
            let mut others: Vec<Vec<u8>> = reading
                .iter()
                .map(|record| record.unwrap().0.to_vec())
                .filter(|key| key.starts_with(b"other"))
                .collect();
            let count = others.len() as u64;
            others.sort();
            others.dedup();
            assert_eq!((count, others.len() as u64), (others_of(round), others_of(round)));
        });
        let compacting = thread::spawn(move || {
            while other.compact(4096).unwrap() {
                thread::yield_now();
            }
        });
        for i in 0..8u64 {
            // Twice, so that what is there is never a removal.
            let key = (i + round) % KEYS;
            versions[key as usize].next(|_| assert!(store.remove(&name(key)).unwrap()));
            versions[key as usize].next(|now| store.insert(&name(key), &value(key, now)).unwrap());
        }
        reader.join().unwrap();
        compacting.join().unwrap();
        store.verify(|_, _| ()).unwrap();
    });
}
