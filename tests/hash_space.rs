//! Danger: a hash store that grows without end, or a process that does, though little lives in it.

mod common;

use common::hash::{index_of, must};
use credenza::hash::{Batch, Hash};

/// Where the index says how many of its lines are in use.
const LINES_AT: usize = 288;

/// However often a store is emptied, the process stays within its limits.
#[test]
fn many_stores_and_many_indexes_fit_in_a_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    for i in 0..1500u64 {
        store.insert(b"key", &i.to_le_bytes()).unwrap();
        store.clear().unwrap_or_else(|e| panic!("{i}: {e}"));
    }
    let open = |_| {
        let store = Hash::in_memory().unwrap();
        store.insert(b"a", b"b").unwrap();
        store
    };
    let stores: Vec<Hash> = (0..200).map(open).collect();
    assert!(stores.iter().all(|store| store.len().unwrap() == 1));
}

/// Values larger than the largest piece of the log are written over and over.
#[test]
fn space_of_large_values_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    for len in [200_000, 3 << 20] {
        let value = vec![1; len];
        for _ in 0..25 {
            store.insert(b"large", &value).unwrap();
            store.sync().unwrap();
        }
        let stats = store.stats().unwrap();
        assert!(stats.file_bytes < 8 * stats.live_bytes, "{stats:?}");
    }
}

/// What pages give up as they grow is used by others, also where there are few.
#[test]
fn a_small_store_has_a_small_index() {
    for count in [1000, 3000, 10_000u32] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        (0..count).for_each(|i| must(store.insert(&i.to_le_bytes(), &i.to_le_bytes())));
        // What is behind is room for puts that wait, which a small store has in debug builds only.
        let index = std::fs::read(index_of(&path)).unwrap();
        let lines = u64::from_le_bytes(index[LINES_AT..LINES_AT + 8].try_into().unwrap());
        assert!(lines * 64 <= 18 * u64::from(count), "{lines} lines for {count} keys");
        store.verify(|_, _| ()).unwrap();
    }
}

/// The records of a batch may be anywhere, also before its beginning.
#[test]
fn a_batch_may_begin_at_the_end_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    for round in 0..40u64 {
        for i in 0..1000u64 {
            store.insert(&i.to_le_bytes(), &[7; 300]).unwrap();
        }
        for i in 0..1000u64 {
            store.remove(&i.to_le_bytes()).unwrap();
        }
        store.sync().unwrap();
        (0..round * 3).for_each(|i| must(store.insert(&i.to_le_bytes(), &[7; 90])));
        for is_put in [true, false] {
            let mut batch = Batch::new();
            for i in 0..5000u32 {
                let key = &i.to_le_bytes()[..3];
                if is_put {
                    batch.insert(key, b"")
                } else {
                    batch.remove(key)
                };
            }
            store.batch(&batch).unwrap_or_else(|e| panic!("round {round}: {e}"));
        }
        store.clear().unwrap();
    }
}
