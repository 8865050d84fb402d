//! Stores that are read into memory, and have their pages put together, while they change.

mod common;

use common::subject::state_of;
use common::{Rng, ordered};
use credenza::btree::BTree;
use credenza::constant::{BuildOptions, Constant};
use credenza::foreign::CdbWriter;
use credenza::hash::Hash;
use credenza::{Get, OpenOptions, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A folder in memory, where there is one.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

const VALUE: [u8; 190] = [7; 190];

/// Inserts, replaces and removes records by `put`, a removal without a value, while `preload` goes on; what is left.
fn change(
    put: impl Fn(&[u8], Option<&[u8]>) -> Result<bool> + Sync,
    preload: impl Fn() -> Result<()> + Sync,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut state, mut rng, is_done) = (BTreeMap::new(), Rng::new(5), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let preloads = scope.spawn(|| {
            let mut times = 0;
            while !is_done.load(Ordering::Relaxed) || times < 3 {
                preload().unwrap();
                times += 1;
            }
        });
        for i in 0..300_000 {
            let key = ordered(rng.below(190_000));
            if rng.below(4) == 0 {
                assert_eq!(put(&key, None).unwrap(), state.remove(&key[..]).is_some());
            } else {
                let value = [&ordered(i)[..], &VALUE].concat();
                put(&key, Some(&value)).unwrap();
                state.insert(key.to_vec(), value);
            }
        }
        is_done.store(true, Ordering::Relaxed);
        preloads.join().unwrap();
    });
    state
}

#[test]
fn a_hash_store_changes_while_it_is_preloaded() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let put = |key: &[u8], value: Option<&[u8]>| match value {
        Some(value) => store.insert(key, value).map(|()| true),
        None => store.remove(key),
    };
    let expected = change(put, || store.preload());
    assert!(state_of(&store, "after") == expected);
    drop(store);
    assert!(state_of(&Hash::open(&path).unwrap(), "opened again") == expected);
}

#[test]
fn a_btree_store_changes_while_it_is_preloaded() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let put = |key: &[u8], value: Option<&[u8]>| match value {
        Some(value) => store.insert(key, value),
        None => store.remove(key),
    };
    let expected = change(put, || store.preload());
    assert!(state_of(&store, "after") == expected);
    drop(store);
    assert!(state_of(&BTree::open(&path).unwrap(), "opened again") == expected);
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
