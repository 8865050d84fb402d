//! The btree store against the simplest thing that does the same: maps in memory.
//!
//! Danger: an operation that answers otherwise than it should, in a transaction, in a snapshot held
//! meanwhile, after a rollback, or after reopening; a page lost or used twice.

mod common;

use common::{Rng, rounds, seed};
use credenza::btree::{BTree, Snapshot, Table, Transaction};
use credenza::{Get, Scan};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The main table, and those with a name.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    main: Map,
    tables: BTreeMap<String, Map>,
}

/// What keys and values are like in a round.
#[derive(Clone, Copy)]
struct Style {
    keys: u64,
    key: u64,
    value: u64,
}

impl Style {
    fn random(rng: &mut Rng) -> Style {
        Style {
            keys: [3, 50, 1000, 20_000][rng.below(4) as usize],
            key: rng.below(6),
            value: rng.below(6),
        }
    }

    fn key(self, rng: &mut Rng) -> Vec<u8> {
        let id = rng.below(self.keys);
        let mut of_key = Rng::new(id);
        match self.key {
            0 => format!("{id:08}").into_bytes(),
            1 => id.wrapping_mul(0x9e37_79b9_7f4a_7c15).swap_bytes().to_le_bytes().to_vec(),
            // Many zeros, and prefixes of one another.
            2 => {
                let len = of_key.below(9) as usize;
                (0..len).map(|_| if of_key.below(3) == 0 { 1 } else { 0 }).collect()
            }
            3 => {
                let mut key = vec![b'p'; of_key.below(30) as usize];
                key.extend(format!("{id}").bytes());
                key
            }
            // Long, and some too long for a page.
            4 => {
                let mut key = vec![b'x'; [10, 500, 505, 600, 5000][of_key.below(5) as usize]];
                key.extend(format!("{id}").bytes());
                key
            }
            _ => {
                let len = of_key.below(40) as usize;
                let mut key = of_key.bytes(len);
                key.extend(id.to_le_bytes());
                key
            }
        }
    }

    fn value(self, rng: &mut Rng) -> Vec<u8> {
        let len = match self.value {
            0 => 8,
            1 => 0,
            2 => rng.below(20),
            3 => rng.below(600),
            4 => [3, 511, 512, 513, 2048, 2049, 4096, 10_000][rng.below(8) as usize],
            _ => 1024,
        };
        rng.bytes(len as usize)
    }
}

#[test]
fn records_put_in_order_are_found() {
    for (count, digits) in [(338, 8), (339, 8), (400, 5), (5000, 8), (3000, 20)] {
        for is_descending in [false, true] {
            let key = |i: usize| {
                let i = if is_descending { count - 1 - i } else { i };
                format!("{i:0digits$}").into_bytes()
            };
            let store = BTree::in_memory().unwrap();
            let mut transaction = store.write().unwrap();
            let mut map = Map::new();
            for i in 0..count {
                let value = format!("{:08}", i * 7).into_bytes();
                assert!(!transaction.main().insert(&key(i), &value).unwrap());
                map.insert(key(i), value);
            }
            transaction.commit().unwrap();
            store.verify(|_, _| ()).unwrap();
            let snapshot = store.read().unwrap();
            let found = snapshot.main().iter().map(|record| own(record.unwrap()));
            assert!(found.eq(map.clone()), "{count} keys of {digits} digits");
            for (key, value) in &map {
                assert_eq!(snapshot.main().get(key).unwrap(), Some(&value[..]));
            }
        }
    }
}

/// Most go to the leaf of those before them, whatever became of it meanwhile.
#[test]
fn records_put_beside_one_another_are_found() {
    for round in 0..rounds(6) {
        let seed = seed(round);
        let mut rng = Rng::new(seed);
        let store = BTree::in_memory().unwrap();
        let longest = [8, 60, 600][rng.below(3) as usize];
        let mut model = [Map::new(), Map::new()];
        let mut transaction = store.write().unwrap();
        transaction.create_table("other").unwrap();
        let (mut at, mut which, mut saved) = (0, 0, Vec::new());
        for _ in 0..6000 {
            match rng.below(400) {
                0..20 => at = rng.below(3000),
                20..28 => which = 1 - which,
                28..32 => saved.push((transaction.savepoint(), model.clone())),
                32..34 => {
                    if let Some((savepoint, before)) = saved.pop() {
                        transaction.rollback_to(savepoint).unwrap();
                        model = before;
                    }
                }
                34 => {
                    transaction.commit().unwrap();
                    saved.clear();
                    transaction = store.write().unwrap();
                }
                35 => {
                    transaction.main().clear().unwrap();
                    model[0].clear();
                }
                _ => {}
            }
            let key = format!("{:06}", at + rng.below(60)).into_bytes();
            let len = rng.below(longest) as usize;
            let value = rng.bytes(len);
            let mut table = match which {
                0 => transaction.main(),
                _ => transaction.table("other").unwrap().unwrap(),
            };
            let map = &mut model[which];
            match rng.below(12) {
                0 => assert_eq!(table.remove(&key).unwrap(), map.remove(&key).is_some()),
                1 => {
                    let is_there = map.contains_key(&key);
                    assert_eq!(table.insert_if_absent(&key, &value).unwrap(), !is_there);
                    map.entry(key).or_insert(value);
                }
                _ => {
                    assert_eq!(
                        table.insert(&key, &value).unwrap(),
                        map.insert(key, value).is_some(),
                        "seed {seed}"
                    );
                }
            }
        }
        transaction.commit().unwrap();
        store.verify(|_, _| ()).unwrap();
        let snapshot = store.read().unwrap();
        let other = snapshot.table("other").unwrap().unwrap();
        for (table, map) in [snapshot.main(), other].into_iter().zip(model) {
            assert!(table.iter().map(|record| own(record.unwrap())).eq(map), "seed {seed}");
        }
    }
}

#[test]
fn a_store_that_another_handle_made_longer_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let stores = [BTree::create(&path).unwrap(), BTree::create(&path).unwrap()];
    for i in 0..3000u32 {
        let mut transaction = stores[i as usize % 2].write().unwrap();
        for j in 0..10 {
            transaction.main().insert(format!("{}", i * 7919 + j).as_bytes(), &[7; 100]).unwrap();
        }
        transaction.commit().unwrap();
    }
    stores[0].sync().unwrap();
    stores[1].verify(|_, _| ()).unwrap();
}

#[test]
fn random_operations_do_what_maps_do() {
    for round in 0..rounds(7) {
        run(seed(round));
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let style = Style::random(&mut rng);
    let mut model = Model::default();
    let mut store = BTree::create(&path).unwrap();
    for _ in 0..[3, 10, 25][rng.below(3) as usize] {
        let mut held: Vec<(Snapshot<'_>, Model)> = Vec::new();
        for _ in 0..rng.below(12) {
            transact(&mut rng, &store, &mut model, style);
            match rng.below(12) {
                0..4 => held.push((store.read().unwrap(), model.clone())),
                4 if !held.is_empty() => {
                    let i = rng.below(held.len() as u64) as usize;
                    let (snapshot, then) = held.swap_remove(i);
                    compare(&snapshot, &then, &mut rng, style);
                }
                5 => store.sync().unwrap(),
                6 => single(&mut rng, &store, &mut model, style),
                _ => {}
            }
        }
        for (snapshot, then) in held {
            compare(&snapshot, &then, &mut rng, style);
        }
        store.verify(|_, _| ()).unwrap();
        check_stats(&store, &model);
        compare(&store.read().unwrap(), &model, &mut rng, style);
        if rng.below(4) == 0 {
            drop(store);
            store = BTree::open(&path).unwrap();
        }
        if rng.below(6) == 0 {
            store.sync().unwrap();
            start_anew(&path, dir.path(), &model, &mut rng, style);
        }
    }
}

/// A copy of a store that was synced, on a machine that was started since.
fn start_anew(path: &Path, dir: &Path, model: &Model, rng: &mut Rng, style: Style) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[common::btree::BOOT_AT..][..16].fill(0x5a);
    let copy = dir.join("copy");
    std::fs::write(&copy, bytes).unwrap();
    let store = BTree::open(&copy).unwrap();
    compare(&store.read().unwrap(), model, rng, style);
    let mut model = model.clone();
    transact(rng, &store, &mut model, style);
    store.verify(|_, _| ()).unwrap();
    compare(&store.read().unwrap(), &model, rng, style);
    drop(store);
    std::fs::remove_file(&copy).unwrap();
}

fn check_stats(store: &BTree, model: &Model) {
    let stats = store.stats().unwrap();
    assert_eq!(stats.records, model.main.len() as u64);
    assert_eq!(stats.tables, model.tables.len() as u64);
    let sum = stats.header_bytes + stats.live_bytes + stats.held_bytes + stats.free_bytes;
    assert_eq!(sum, stats.file_bytes, "{stats:?}");
}

/// One change with no transaction around.
fn single(rng: &mut Rng, store: &BTree, model: &mut Model, style: Style) {
    let key = style.key(rng);
    if rng.below(3) == 0 {
        let was = model.main.remove(&key).is_some();
        assert_eq!(store.remove(&key).unwrap(), was);
    } else {
        let value = style.value(rng);
        let was = model.main.insert(key.clone(), value.clone()).is_some();
        assert_eq!(store.insert(&key, &value).unwrap(), was);
    }
    assert_eq!(Get::get(store, &key).unwrap().as_deref(), model.main.get(&key).map(|v| &v[..]));
    assert_eq!(Scan::len(store).unwrap(), model.main.len() as u64);
}

fn transact(rng: &mut Rng, store: &BTree, model: &mut Model, style: Style) {
    let mut new = model.clone();
    let mut transaction = store.write().unwrap();
    let steps = [1, 10, 200, 2000][rng.below(4) as usize];
    let mut saved = Vec::new();
    for _ in 0..rng.below(steps) + 1 {
        change(rng, &mut transaction, &mut new, style);
        if rng.below(100) == 0 {
            saved.push((transaction.savepoint(), new.clone()));
        }
        if !saved.is_empty() && rng.below(60) == 0 {
            let i = rng.below(saved.len() as u64) as usize;
            if rng.below(3) == 0 {
                transaction.release(saved[i].0).unwrap();
                saved.truncate(i);
            } else {
                transaction.rollback_to(saved[i].0).unwrap();
                saved.truncate(i + 1);
                new = saved[i].1.clone();
            }
        }
    }
    let main: Vec<_> = transaction.main().read().iter().map(|r| own(r.unwrap())).collect();
    assert!(main.iter().map(|(k, v)| (k, v)).eq(new.main.iter()));
    match rng.below(8) {
        0 => drop(transaction),
        1 => transaction.abort(),
        _ => {
            transaction.commit().unwrap();
            *model = new;
        }
    }
}

fn own((key, value): (Vec<u8>, &[u8])) -> (Vec<u8>, Vec<u8>) {
    (key, value.to_vec())
}

/// A change of some table.
fn change(rng: &mut Rng, transaction: &mut Transaction<'_>, model: &mut Model, style: Style) {
    let name = format!("table {}", rng.below(3));
    if rng.below(150) == 0 {
        return change_tables(rng, transaction, model, &name);
    }
    let (mut table, map) = match model.tables.get_mut(&name) {
        Some(map) if rng.below(3) == 0 => (transaction.table(&name).unwrap().unwrap(), map),
        _ => (transaction.main(), &mut model.main),
    };
    let key = style.key(rng);
    match rng.below(100) {
        0..55 => {
            let value = style.value(rng);
            let was = table.insert(&key, &value).unwrap();
            assert_eq!(was, map.insert(key, value).is_some());
        }
        55..60 => {
            let value = style.value(rng);
            let is_new = table.insert_if_absent(&key, &value).unwrap();
            assert_eq!(is_new, !map.contains_key(&key));
            map.entry(key).or_insert(value);
        }
        60..90 => assert_eq!(table.remove(&key).unwrap(), map.remove(&key).is_some()),
        90..92 => assert_eq!(table.pop_first().unwrap(), map.pop_first()),
        92..94 => assert_eq!(table.pop_last().unwrap(), map.pop_last()),
        94 => {
            let other = style.key(rng);
            let (from, to) = if key < other { (key, other) } else { (other, key) };
            let before = map.len();
            map.retain(|key, _| *key < from || *key >= to);
            let removed = table.remove_range(&from[..]..&to[..]).unwrap();
            assert_eq!(removed, (before - map.len()) as u64);
        }
        95 if rng.below(20) == 0 => {
            table.clear().unwrap();
            let records: Map =
                (0..rng.below(3000)).map(|_| (style.key(rng), style.value(rng))).collect();
            let loaded = table.bulk_load(records.iter().map(|(k, v)| Ok((k, v)))).unwrap();
            assert_eq!(loaded, records.len() as u64);
            *map = records;
        }
        _ => assert_eq!(table.get(&key).unwrap(), map.get(&key).map(|v| &v[..])),
    }
    assert_eq!(table.len(), map.len() as u64);
}

fn change_tables(rng: &mut Rng, transaction: &mut Transaction<'_>, model: &mut Model, name: &str) {
    let other = format!("table {}", rng.below(3));
    match rng.below(4) {
        0 => {
            let was = model.tables.remove(name).is_some();
            assert_eq!(transaction.delete_table(name).unwrap(), was);
        }
        1 if model.tables.contains_key(name) && !model.tables.contains_key(&other) => {
            assert!(transaction.rename_table(name, &other).unwrap());
            let map = model.tables.remove(name).unwrap();
            model.tables.insert(other, map);
        }
        _ => {
            let table = transaction.create_table(name).unwrap();
            let map = model.tables.entry(name.to_owned()).or_default();
            assert_eq!(table.len(), map.len() as u64);
        }
    }
    assert!(transaction.tables().unwrap().iter().eq(model.tables.keys()));
}

fn compare(snapshot: &Snapshot<'_>, model: &Model, rng: &mut Rng, style: Style) {
    assert!(snapshot.tables().unwrap().iter().eq(model.tables.keys()));
    compare_table(snapshot.main(), &model.main, rng, style);
    for (name, map) in &model.tables {
        compare_table(snapshot.table(name).unwrap().unwrap(), map, rng, style);
    }
    assert!(snapshot.table("none of this name").unwrap().is_none());
}

fn compare_table(table: Table<'_>, map: &Map, rng: &mut Rng, style: Style) {
    let mut found = Vec::new();
    table
        .scan(|key, value| {
            found.push((key.to_vec(), value.to_vec()));
            Ok(())
        })
        .unwrap();
    assert!(found.iter().map(|(k, v)| (k, v)).eq(map.iter()), "{} {}", found.len(), map.len());
    assert!(table.iter().rev().map(|r| own(r.unwrap())).eq(found.into_iter().rev()));
    assert_eq!(table.len(), map.len() as u64);
    assert_eq!(
        table.first().unwrap().map(own),
        map.first_key_value().map(|(k, v)| (k.clone(), v.clone()))
    );
    assert_eq!(
        table.last().unwrap().map(own),
        map.last_key_value().map(|(k, v)| (k.clone(), v.clone()))
    );
    let keys: Vec<Vec<u8>> = (0..60).map(|_| style.key(rng)).collect();
    for key in &keys {
        assert_eq!(table.get(key).unwrap(), map.get(key).map(|v| &v[..]));
        near(table, map, key);
    }
    let mut seen = 0;
    table
        .get_many(&keys, |i, value| {
            assert_eq!(i, seen);
            assert_eq!(value, map.get(&keys[i]).map(|v| &v[..]));
            seen += 1;
        })
        .unwrap();
    assert_eq!(seen, keys.len());
    for pair in keys.chunks_exact(2).take(8) {
        range(table, map, rng, &pair[0], &pair[1]);
    }
}

/// The neighbours of a key.
fn near(table: Table<'_>, map: &Map, key: &[u8]) {
    let pair = |(k, v): (&Vec<u8>, &Vec<u8>)| (k.clone(), v.clone());
    let (at, above) = (Bound::Included(key), Bound::Excluded(key));
    let first = |from| map.range::<[u8], _>((from, Bound::Unbounded)).next().map(pair);
    let last = |to| map.range::<[u8], _>((Bound::Unbounded, to)).next_back().map(pair);
    assert_eq!(table.at_or_after(key).unwrap().map(own), first(at));
    assert_eq!(table.after(key).unwrap().map(own), first(above));
    assert_eq!(table.at_or_before(key).unwrap().map(own), last(at));
    assert_eq!(table.before(key).unwrap().map(own), last(above));
    let prefix = &key[..key.len().min(3)];
    let with_prefix = map.iter().filter(|(key, _)| key.starts_with(prefix)).map(pair);
    assert!(table.prefix(prefix).map(|r| own(r.unwrap())).eq(with_prefix));
}

/// A range, read from both ends at random.
fn range(table: Table<'_>, map: &Map, rng: &mut Rng, a: &[u8], b: &[u8]) {
    let (from, to) = if a <= b { (a, b) } else { (b, a) };
    let mut bound = |key| match rng.below(3) {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    };
    let bounds = (bound(from), bound(to));
    if matches!(bounds, (Bound::Excluded(a), Bound::Excluded(b)) if a == b) {
        return;
    }
    let mut expected = map.range::<[u8], _>(bounds);
    let mut range = table.range(bounds);
    loop {
        let (found, wanted) = if rng.below(3) == 0 {
            (range.next_back(), expected.next_back())
        } else {
            (range.next(), expected.next())
        };
        assert_eq!(found.map(|r| own(r.unwrap())), wanted.map(|(k, v)| (k.clone(), v.clone())));
        if wanted.is_none() {
            break;
        }
    }
    assert!(range.next().is_none() && range.next_back().is_none());
}

/// Records that have one size for a while, then another: each leaf is begun in one way and may have to
/// go on in the other.
#[test]
fn bulk_loads_of_changing_sizes_hold_what_they_were_given() {
    for round in 0..rounds(2) {
        let mut rng = Rng::new(seed(round));
        let mut records: Map = Map::new();
        let mut number = 0u32;
        while number < 20_000 {
            let (key_tail, value) = match rng.below(12) {
                0 => (rng.below(700) as usize, rng.below(40) as usize),
                1 => (rng.below(8) as usize, rng.below(2500) as usize),
                _ => (rng.below(8) as usize, rng.below(40) as usize),
            };
            for _ in 0..=rng.below(if value > 512 || key_tail > 512 { 5 } else { 900 }) {
                number += 1 + rng.below(300) as u32 / 299;
                let mut key = format!("{:07}", number).into_bytes();
                key.resize(7 + key_tail, b'k');
                records.insert(key, vec![number as u8; value]);
            }
        }
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        transaction.main().bulk_load(records.iter().map(|(k, v)| Ok((k, v)))).unwrap();
        transaction.commit().unwrap();
        store.verify(|_, _| ()).unwrap();
        let snapshot = store.read().unwrap();
        let mut all = records.iter();
        let scanned = snapshot.main().scan(|key, value| {
            assert_eq!(all.next().map(|(k, v)| (&k[..], &v[..])), Some((key, value)));
            Ok(())
        });
        scanned.unwrap();
        assert!(all.next().is_none());
    }
}
