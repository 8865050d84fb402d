//! Stores that are read into memory, and have their pages put together, while they change.

mod common;

use common::subject::{Operation, State, Subject, state_of};
use common::{Rng, ordered};
use credenza::btree::BTree;
use credenza::constant::{BuildOptions, Constant};
use credenza::foreign::CdbWriter;
use credenza::hash::Hash;
use credenza::{Get, OpenOptions, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A folder in memory, where there is one.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

const VALUE: [u8; 190] = [7; 190];

/// Inserts, replaces and removes records while another thread preloads the store, and looks at what is left.
fn changes_while_it_is_preloaded<S: Subject + Sync>(
    remove: fn(&S, &[u8]) -> Result<bool>,
    preload: fn(&S) -> Result<()>,
) {
    let folder = folder();
    let path = folder.path().join("store");
    let store = S::open(&path).unwrap();
    let (mut state, mut rng, is_done) = (State::new(), Rng::new(5), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let preloads = scope.spawn(|| {
            let mut times = 0;
            while !is_done.load(Ordering::Relaxed) || times < 3 {
                preload(&store).unwrap();
                times += 1;
            }
        });
        for i in 0..300_000 {
            let key = ordered(rng.below(190_000)).to_vec();
            if rng.below(4) == 0 {
                assert_eq!(remove(&store, &key).unwrap(), state.remove(&key).is_some());
            } else {
                let put = Operation::Insert(key, [&ordered(i)[..], &VALUE].concat());
                store.apply(&put).unwrap();
                put.change(&mut state);
            }
        }
        is_done.store(true, Ordering::Relaxed);
        preloads.join().unwrap();
    });
    assert!(state_of(&store, "after") == state);
    drop(store);
    assert!(state_of(&S::open(&path).unwrap(), "opened again") == state);
}

#[test]
fn a_hash_store_changes_while_it_is_preloaded() {
    changes_while_it_is_preloaded(Hash::remove, Hash::preload);
}

#[test]
fn a_btree_store_changes_while_it_is_preloaded() {
    changes_while_it_is_preloaded(BTree::remove, BTree::preload);
}

/// Asks for all records, preloads, and asks again.
fn is_the_same(path: &Path, count: u64) {
    let store = OpenOptions::new().open(path).unwrap();
    for _ in 0..2 {
        for i in 0..count {
            let value = store.get(&ordered(i)).unwrap();
            assert_eq!(value.as_deref(), Some(&VALUE[..]));
        }
        store.preload().unwrap();
        let residency = store.residency().unwrap();
        assert_eq!(residency.resident, residency.total);
    }
}

#[test]
fn a_file_has_the_same_records_when_it_is_preloaded() {
    let folder = folder();
    let [constant, cdb] = ["constant", "cdb"].map(|name| folder.path().join(name));
    let mut builder = BuildOptions::new().create(&constant).unwrap();
    let mut writer = CdbWriter::create(&cdb).unwrap();
    const COUNT: u64 = 180_000;
    for i in 0..COUNT {
        builder.add(&ordered(i), &VALUE).unwrap();
        writer.add(&ordered(i), &VALUE).unwrap();
    }
    builder.finish().unwrap();
    writer.finish().unwrap();
    is_the_same(&constant, COUNT);
    is_the_same(&cdb, COUNT);
    Constant::open(&constant).unwrap().verify(|_, _| ()).unwrap();
}

#[test]
fn a_store_in_memory_is_there_already() {
    Hash::in_memory().unwrap().preload().unwrap();
    BTree::in_memory().unwrap().preload().unwrap();
}
