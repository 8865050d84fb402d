//! What tests of statistics share: stores of each engine with the same records, and what was counted.

use credenza::btree::BTree;
use credenza::constant::Builder;
use credenza::hash::Hash;
use credenza::stats::{Operation, Operations, Outcome, Statistics};
use credenza::{OpenOptions, Store};
use std::path::{Path, PathBuf};

pub const KEYS: u32 = 1000;

/// A constant store of keys 0 to 999 with values of 3 bytes.
pub fn constant(dir: &Path) -> PathBuf {
    let path = dir.join("constant");
    let mut builder = Builder::create(&path).unwrap();
    (0..KEYS).for_each(|key| builder.add(&key.to_le_bytes(), b"abc").unwrap());
    builder.finish().unwrap();
    path
}

/// A hash store of the same records.
pub fn hash(dir: &Path) -> PathBuf {
    let path = dir.join("hash");
    let store = Hash::create(&path).unwrap();
    for key in 0..KEYS {
        store.insert(&key.to_le_bytes(), b"abc").unwrap();
    }
    path
}

/// A btree store of the same records.
pub fn btree(dir: &Path) -> PathBuf {
    let path = dir.join("btree");
    let store = BTree::create(&path).unwrap();
    let mut transaction = store.write().unwrap();
    for key in 0..KEYS {
        transaction.main().insert(&key.to_le_bytes(), b"abc").unwrap();
    }
    transaction.commit().unwrap();
    path
}

/// One of each.
pub fn stores(dir: &Path) -> [PathBuf; 3] {
    [constant(dir), hash(dir), btree(dir)]
}

pub fn open(path: &Path, statistics: Statistics) -> Store {
    OpenOptions::new().statistics(statistics).open(path).unwrap()
}

pub fn open_hash(path: &Path, statistics: Statistics) -> Hash {
    Hash::options().statistics(statistics).open(path).unwrap()
}

pub fn open_btree(path: &Path, statistics: Statistics) -> BTree {
    BTree::options().statistics(statistics).open(path).unwrap()
}

pub fn counted(store: &Store) -> Operations {
    store.operations().expect("it was opened with statistics")
}

pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-stats");
    name.into()
}

/// Calls, hits, misses, failures, items, bytes.
pub fn numbers(operations: &Operations, operation: Operation) -> [u64; 6] {
    let tally = operations.of(operation);
    let count = |outcome| tally.count(outcome);
    let [hits, misses, failed] = [Outcome::Hit, Outcome::Miss, Outcome::Failed].map(count);
    [tally.calls, hits, misses, failed, tally.items, tally.bytes]
}

/// Whatever was timed: percentiles are in their order, and all is within the longest.
pub fn check_latencies(operations: &Operations) {
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
