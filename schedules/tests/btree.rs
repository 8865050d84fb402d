//! Danger: a snapshot of the btree engine that shows two commits at once, or pages that were given to another.

use credenza::btree::{BTree, Snapshot};
use credenza_schedules::{Versions, folder, in_many_orders, value, version};
use shuttle::thread;
use std::sync::Arc;

const KEYS: u64 = 3;

fn name(key: u64) -> Vec<u8> {
    format!("key {key:03}").into_bytes()
}

/// A store with a tree of another size in each round, and a handle for each of two threads.
fn store(round: u64) -> (tempfile::TempDir, [Arc<BTree>; 2]) {
    let (folder, path) = folder();
    let store = Arc::new(BTree::create(&path).unwrap());
    let mut transaction = store.write().unwrap();
    for i in 0..round * 37 % 700 {
        transaction.main().insert(format!("key {i:05}").as_bytes(), &value(i, i)).unwrap();
    }
    for key in 0..KEYS {
        transaction.main().insert(&name(key * 100), &value(key, 0)).unwrap();
    }
    transaction.commit().unwrap();
    let other =
        if round.is_multiple_of(2) { store.clone() } else { Arc::new(BTree::open(&path).unwrap()) };
    (folder, [store, other])
}

/// The one version that all keys have in a snapshot.
fn seen(snapshot: &Snapshot<'_>) -> u64 {
    let versions: Vec<u64> = (0..KEYS)
        .map(|key| {
            // What is read is no shared word: here somebody else may be next.
            thread::yield_now();
            version(key, snapshot.main().get(&name(key * 100)).unwrap().unwrap())
        })
        .collect();
    assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
    versions[0]
}

fn commit(store: &BTree, number: u64, i: u64) {
    let mut transaction = store.write().unwrap();
    for key in 0..KEYS {
        transaction.main().insert(&name(key * 100), &value(key, number)).unwrap();
        transaction.main().remove(format!("key {:05}", i * 7 + key).as_bytes()).unwrap();
        transaction
            .main()
            .insert(format!("new {:05}", i * 3 + key).as_bytes(), &value(1, i))
            .unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn snapshots_are_of_one_commit_beside_a_writer() {
    in_many_orders(|round| {
        let (_folder, [store, other]) = store(round);
        let versions = Arc::new(Versions::default());
        let readers = [1, 3].map(|times| {
            let (store, versions) = (other.clone(), versions.clone());
            thread::spawn(move || {
                for _ in 0..4 {
                    let mut snapshot = None;
                    let now = versions.check(|| {
                        snapshot = Some(store.read().unwrap());
                        snapshot.as_ref().map(seen)
                    });
                    let snapshot = snapshot.unwrap();
                    (0..times).for_each(|_| assert_eq!(seen(&snapshot), now, "in one snapshot"));
                    let count =
                        snapshot.main().iter().inspect(|record| assert!(record.is_ok())).count();
                    assert_eq!(count as u64, snapshot.main().len());
                }
            })
        });
        for i in 0..8 {
            versions.next(|number| commit(&store, number, i));
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        store.verify(|_, _| ()).unwrap();
    });
}

/// One record after the other is changed where it is: a snapshot is between two of these, and stays.
#[test]
fn snapshots_are_of_one_commit_beside_single_changes() {
    in_many_orders(|round| {
        let (_folder, [store, other]) = store(round);
        let readers = [other.clone(), store.clone()].map(|store| {
            thread::spawn(move || {
                for _ in 0..4 {
                    let snapshot = store.read().unwrap();
                    let look = || {
                        [0, 1, 2].map(|key| {
                            thread::yield_now();
                            version(key, snapshot.main().get(&name(key * 100)).unwrap().unwrap())
                        })
                    };
                    let now = look();
                    assert!(
                        now[0] >= now[1] && now[1] >= now[2] && now[2] + 1 >= now[0],
                        "{now:?}"
                    );
                    assert_eq!(look(), now, "in one snapshot");
                    assert_eq!(snapshot.main().iter().count() as u64, snapshot.main().len());
                }
            })
        });
        for number in 1..8 {
            for key in 0..KEYS {
                store.insert(&name(key * 100), &value(key, number)).unwrap();
            }
            store.insert(format!("new {number:05}").as_bytes(), &value(1, number)).unwrap();
            store.remove(format!("new {:05}", number / 2).as_bytes()).unwrap();
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        store.verify(|_, _| ()).unwrap();
    });
}

#[test]
fn snapshots_stay_beside_a_compaction() {
    in_many_orders(|round| {
        let (_folder, [store, other]) = store(round);
        let compacted = other.clone();
        let reader = thread::spawn(move || {
            for _ in 0..3 {
                let snapshot = other.read().unwrap();
                let now = seen(&snapshot);
                (0..4).for_each(|_| assert_eq!(seen(&snapshot), now, "in one snapshot"));
            }
        });
        // The one thread that waits for the disk.
        let compaction = thread::spawn(move || while compacted.compact(1 << 15).unwrap() {});
        for i in 0..6 {
            commit(&store, i + 1, i);
        }
        reader.join().unwrap();
        compaction.join().unwrap();
        assert_eq!(seen(&store.read().unwrap()), 6);
        store.verify(|_, _| ()).unwrap();
    });
}
