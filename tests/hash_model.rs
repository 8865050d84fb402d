//! The hash store against the simplest thing that does the same: a map in memory.
//!
//! Danger: an operation that answers otherwise than it should, at once, after reopening, or after
//! the index was made again.

mod common;

use common::{Rng, rounds, seed};
use credenza::Scan;
use credenza::hash::{Batch, Hash, Transaction};
use std::collections::BTreeMap;
use std::path::Path;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// One of the changes that there are in a transaction, by number.
fn in_transaction(
    which: u64,
    transaction: &mut Transaction<'_>,
    model: &mut Model,
    key: Vec<u8>,
    value: Vec<u8>,
) {
    let old = model.get(&key).cloned();
    match which {
        0 => {
            transaction.insert(&key, &value).unwrap();
            model.insert(key, value);
        }
        1 => {
            transaction.remove(&key).unwrap();
            model.remove(&key);
        }
        2 => {
            let is_new = transaction.insert_if_absent(&key, &value).unwrap();
            assert_eq!(is_new, old.is_none());
            model.entry(key).or_insert(value);
        }
        3 => {
            let all = [old.unwrap_or_default(), value.clone()].concat();
            assert_eq!(transaction.append(&key, &value).unwrap(), all.len() as u64);
            model.insert(key, all);
        }
        4 => {
            let by = value.len() as i64 - 20;
            let number = |value: &Vec<u8>| std::str::from_utf8(value).ok()?.parse::<i64>().ok();
            match old.as_ref().map_or(Some(0), number) {
                None => assert!(transaction.increment(&key, by).is_err()),
                Some(old) => {
                    assert_eq!(transaction.increment(&key, by).unwrap(), old + by);
                    model.insert(key, (old + by).to_string().into_bytes());
                }
            }
        }
        _ => {
            let turned = |old: Option<&[u8]>| old.map(|old| old.iter().rev().copied().collect());
            assert_eq!(transaction.update(&key, turned).unwrap(), old.is_some());
            if let Some(old) = turned(old.as_deref()) {
                model.insert(key, old);
            }
        }
    }
}

#[test]
fn random_operations_do_what_a_map_does() {
    for round in 0..rounds(20) {
        run(seed(round));
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut model = Model::new();
    let mut store = Hash::create(&path).unwrap();
    let keys = [3, 50, 500, 5000][rng.below(4) as usize];
    let largest = [1, 20, 200, 3000, 70_000][rng.below(5) as usize];
    let steps = [10, 200, 3000, if largest > 200 { 500 } else { 20_000 }][rng.below(4) as usize];
    for _ in 0..steps {
        step(&mut rng, &store, &mut model, keys, largest);
        match rng.below(2000) {
            0 => {
                drop(store);
                store = Hash::open(&path).unwrap();
            }
            1 => {
                drop(store);
                let _ = std::fs::remove_file(dir.path().join("store-index"));
                store = Hash::open(&path).unwrap();
            }
            2 => compare(&store, &model),
            3 => while store.compact(10_000).unwrap() {},
            4 => store.rebuild_index(rng.below(2) == 0).unwrap(),
            5 => store.sync().unwrap(),
            6 => {
                store.clear().unwrap();
                model.clear();
            }
            7 => back_up(&store, &model, &dir.path().join("copy")),
            8..12 => {
                // Puts wait in the index's ring: who may not write has to find them there.
                for _ in 0..rng.below(12) {
                    let (key, value) = (key_of(&mut rng, keys), value_of(&mut rng, largest));
                    store.insert(&key, &value).unwrap();
                    model.insert(key, value);
                }
                let reader = Hash::options().read_only(true).open(&path).unwrap();
                compare(&reader, &model);
                assert_eq!(reader.stats().unwrap().records, model.len() as u64);
            }
            _ => {}
        }
    }
    compare(&store, &model);
    let stats = store.stats().unwrap();
    let sum = stats.header_bytes
        + stats.live_bytes
        + stats.dead_bytes
        + stats.retired_bytes
        + stats.free_bytes;
    assert_eq!(sum, stats.file_bytes, "{stats:?}");
}

fn key_of(rng: &mut Rng, keys: u64) -> Vec<u8> {
    let id = rng.below(keys);
    let len = Rng::new(id).below(40) as usize;
    let mut key = format!("{id}:").into_bytes();
    key.resize(key.len() + len, b'k');
    if id == 7 { Vec::new() } else { key }
}

fn value_of(rng: &mut Rng, largest: u64) -> Vec<u8> {
    let len = rng.below(largest + 1) as usize;
    rng.bytes(len)
}

fn step(rng: &mut Rng, store: &Hash, model: &mut Model, keys: u64, largest: u64) {
    let key = key_of(rng, keys);
    match rng.below(20) {
        0..5 => {
            let value = value_of(rng, largest);
            store.insert(&key, &value).unwrap();
            model.insert(key, value);
        }
        5..8 => {
            let value = value_of(rng, largest);
            let replaced = store.replace(&key, &value).unwrap();
            assert_eq!(replaced, model.insert(key, value).is_some());
        }
        8..12 => assert_eq!(store.remove(&key).unwrap(), model.remove(&key).is_some()),
        12..15 => {
            assert_eq!(store.get(&key).unwrap().as_deref(), model.get(&key).map(|v| &v[..]));
            assert_eq!(store.contains_key(&key).unwrap(), model.contains_key(&key));
        }
        15 => {
            let more = value_of(rng, largest.min(100));
            let value = model.entry(key.clone()).or_default();
            value.extend(&more);
            assert_eq!(store.append(&key, &more).unwrap(), value.len() as u64);
        }
        16 => {
            let new = if rng.below(3) == 0 { None } else { Some(value_of(rng, largest)) };
            let expected = if rng.below(2) == 0 { model.get(&key).cloned() } else { None };
            let fits = model.get(&key) == expected.as_ref();
            let done = store.compare_exchange(&key, expected.as_deref(), new.as_deref()).unwrap();
            assert_eq!(done, fits);
            if fits {
                match new {
                    Some(value) => drop(model.insert(key, value)),
                    None => drop(model.remove(&key)),
                }
            }
        }
        17 => {
            let mut batch = Batch::new();
            for _ in 0..rng.below(20) {
                let key = key_of(rng, keys);
                if rng.below(3) == 0 {
                    batch.remove(&key);
                    model.remove(&key);
                } else {
                    let value = value_of(rng, largest);
                    batch.insert(&key, &value);
                    model.insert(key, value);
                }
            }
            store.batch(&batch).unwrap();
        }
        18 => {
            let mut transaction = store.transaction().unwrap();
            let mut after = model.clone();
            for _ in 0..1 + rng.below(6) {
                let (key, value) = (key_of(rng, keys), value_of(rng, largest));
                let (is_there, found) = (after.contains_key(&key), after.get(&key));
                assert_eq!(transaction.contains_key(&key).unwrap(), is_there);
                assert_eq!(transaction.get(&key).unwrap(), found.map(|v| &v[..]));
                in_transaction(rng.below(6), &mut transaction, &mut after, key, value);
            }
            let mut scanned = Vec::new();
            let keep = |key: &[u8], value: &[u8]| {
                scanned.push((key.to_vec(), value.to_vec()));
                Ok(())
            };
            transaction.scan(keep).unwrap();
            scanned.sort();
            assert_eq!(Scan::len(&transaction).unwrap(), scanned.len() as u64);
            assert!(scanned.into_iter().eq(after.clone()), "a scan in a transaction");
            if rng.below(2) == 0 {
                transaction.commit().unwrap();
                *model = after;
            }
        }
        _ => {
            let wanted: Vec<Vec<u8>> = (0..50).map(|_| key_of(rng, keys)).collect();
            let mut asked = 0;
            store
                .get_many(&wanted, |i, value| {
                    assert_eq!(i, asked);
                    asked += 1;
                    assert_eq!(value, model.get(&wanted[i]).map(|v| &v[..]));
                })
                .unwrap();
            assert_eq!(asked, 50);
        }
    }
}

fn compare(store: &Hash, model: &Model) {
    let mut seen = Model::new();
    for record in store {
        let (key, value) = record.unwrap();
        assert!(seen.insert(key, value).is_none(), "a key was given twice");
    }
    assert!(seen == *model, "iter");
    let mut scanned = 0;
    let count = |_: &[u8], _: &[u8]| {
        scanned += 1;
        Ok(())
    };
    store.scan(count).unwrap();
    assert_eq!(scanned, model.len());
    assert_eq!(store.len().unwrap(), model.len() as u64);
    for (key, value) in model {
        assert_eq!(store.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    store.verify(|_, _| ()).unwrap();
}

fn back_up(store: &Hash, model: &Model, copy: &Path) {
    assert_eq!(store.backup(copy, |_, _| ()).unwrap(), model.len() as u64);
    compare(&Hash::open(copy).unwrap(), model);
    let saved = copy.with_extension("saved");
    let found = credenza::hash::recover(copy, &saved, |_, _| {}).unwrap();
    assert_eq!((found.keys, found.lost_bytes), (model.len() as u64, 0));
    assert_eq!(found.missing_bytes, 0);
    compare(&Hash::open(&saved).unwrap(), model);
    std::fs::remove_file(&saved).unwrap();
    std::fs::remove_file(saved.with_extension("saved-index")).unwrap();
}

#[test]
fn a_store_in_memory_is_a_store() {
    let store = Hash::in_memory().unwrap();
    let mut model = Model::new();
    let mut rng = Rng::new(1);
    for _ in 0..30_000 {
        step(&mut rng, &store, &mut model, 2000, 100);
    }
    compare(&store, &model);
}
