//! Random multisets against the simplest thing that can be right: a map of vectors.
//!
//! Danger: a lookup, a duplicate, a scan or a count that is wrong for some mix of sizes, of
//! duplicates, of memory budgets. Every run prints its seed; `CREDENZA_SEED=n` repeats one, and
//! `CREDENZA_TIMES=n` does n times as many.

mod common;

use common::{Rng, model_of, random_records, rounds, seed};
use credenza::constant::{BuildOptions, Constant, View};
use credenza::{Access, Get, Scan};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// Everything that can be asked, asked of `store`.
fn agree<S: Get + Scan>(store: &S, model: &Model, rng: &mut Rng, what: &str) {
    let records: usize = model.values().map(Vec::len).sum();
    assert_eq!(store.len().unwrap(), records as u64, "{what}: len");
    for (key, values) in model {
        let first = store.get(key).unwrap();
        assert_eq!(first.as_deref(), Some(&values[0][..]), "{what}: get {key:?}");
        assert_eq!(store.get_all(key).unwrap(), *values, "{what}: get_all {key:?}");
        assert!(store.contains_key(key).unwrap());
    }
    let absent: Vec<Vec<u8>> = (0..100)
        .map(|_| {
            let len = rng.below(40) as usize;
            rng.bytes(len)
        })
        .filter(|key| !model.contains_key(key))
        .collect();
    for key in &absent {
        assert_eq!(store.get(key).unwrap(), None, "{what}: {key:?} is absent");
        assert!(store.get_all(key).unwrap().is_empty());
    }
    many(store, model, &absent, rng, what);
    let mut seen = Model::new();
    store
        .scan(|key, value| {
            seen.entry(key.to_vec()).or_default().push(value.to_vec());
            Ok(())
        })
        .unwrap();
    assert!(seen == *model, "{what}: scan");
}

fn many<S: Get>(store: &S, model: &Model, absent: &[Vec<u8>], rng: &mut Rng, what: &str) {
    let mut keys: Vec<&Vec<u8>> = model.keys().chain(absent).collect();
    rng.shuffle(&mut keys);
    let mut asked = 0;
    store
        .get_many(&keys, |i, value| {
            assert_eq!(i, asked, "{what}: answers come in the order of the keys");
            asked += 1;
            let wanted = model.get(keys[i]).map(|values| &values[0][..]);
            assert_eq!(value, wanted, "{what}: get_many {:?}", keys[i]);
        })
        .unwrap();
    assert_eq!(asked, keys.len());
}

#[test]
fn constant_agrees_with_a_map_of_vectors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    for round in 0..rounds(200) {
        let seed = seed(round);
        let mut rng = Rng::new(seed);
        let records = random_records(&mut rng);
        let model = model_of(&records);
        let bytes = BuildOptions::new()
            .build_in_memory(records.iter().map(|(k, v)| (k, v)))
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let view = View::new(&bytes).unwrap();
        agree(&view, &model, &mut rng, &format!("seed {seed}, view"));
        view.verify(|_, _| ()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let stats = view.stats().unwrap();
        let sum = stats.key_bytes + stats.value_bytes + stats.directory_bytes + stats.slack_bytes;
        assert_eq!(sum, bytes.len() as u64, "seed {seed}: {stats:?}");
        std::fs::write(&path, &bytes).unwrap();
        for access in [Access::Map, Access::Read, Access::Memory] {
            let store = Constant::options().access(access).open(&path).unwrap();
            agree(&store, &model, &mut rng, &format!("seed {seed}, {access:?}"));
            let mut seen = Model::new();
            for record in store.iter() {
                let (key, value) = record.unwrap();
                seen.entry(key.into_owned()).or_default().push(value.into_owned());
            }
            assert!(seen == model, "seed {seed}: iter, {access:?}");
            assert_eq!(store.stats().unwrap(), stats);
            store.verify(|_, _| ()).unwrap();
        }
    }
}

#[test]
fn the_memory_budget_never_changes_the_file() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..rounds(4) {
        let seed = seed(1_000_000 + round);
        let mut rng = Rng::new(seed);
        // More than the least budget of 8 MiB, so that partitions are spilled and read back.
        let records: Vec<(Vec<u8>, Vec<u8>)> = (0..150_000)
            .map(|i| {
                let (key_len, value_len) = (rng.below(60) as usize, rng.below(200) as usize);
                let mut key = rng.bytes(key_len);
                if i % 7 == 0 {
                    key = b"one key with very many values".to_vec();
                }
                (key, rng.bytes(value_len))
            })
            .collect();
        let path = dir.path().join("store");
        let mut built = Vec::new();
        for budget in [8 << 20, 1 << 30] {
            let mut builder = BuildOptions::new().memory_budget(budget).create(&path).unwrap();
            for (key, value) in &records {
                builder.add(key, value).unwrap();
            }
            let told = builder.finish().unwrap();
            let store = Constant::open(&path).unwrap();
            assert_eq!(store.stats().unwrap(), told, "seed {seed}");
            store.verify(|_, _| ()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            built.push(std::fs::read(&path).unwrap());
        }
        assert!(built[0] == built[1], "seed {seed}: the budget changed the bytes");
        let model = model_of(&records);
        let store = Constant::open(&path).unwrap();
        agree(&store, &model, &mut rng, &format!("seed {seed}"));
    }
}
