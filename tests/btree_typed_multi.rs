//! Tables whose keys are numbers with several values, against lists in memory.
//!
//! Danger: a key that stands for another, above all below and above zero, or a range that ends at its bytes.

mod common;

use common::{Rng, rounds, seed};
use credenza::btree::{
    BTree, Duplicates, Key, Position, TableOptions, TypedMulti, TypedMultiMut, TypedMultiPair,
};
use std::collections::BTreeMap;

type Model = BTreeMap<i64, Vec<Vec<u8>>>;

fn key(rng: &mut Rng) -> i64 {
    match rng.below(10) {
        0 => [i64::MIN, -1, 0, 1, i64::MAX][rng.below(5) as usize],
        _ => rng.below(40) as i64 - 20,
    }
}

#[test]
fn several_values_of_a_typed_key_do_what_lists_do() {
    for round in 0..rounds(20) {
        let mut rng = Rng::new(seed(round));
        let order = [Duplicates::Sorted, Duplicates::Inserted][round as usize % 2];
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        let options = TableOptions::of_keys::<i64>().duplicates(order);
        transaction.create_table_with("t", &options).unwrap();
        let mut table = transaction.multi_table("t").unwrap().unwrap();
        assert!(table.typed::<u64>().is_err() && table.read().typed::<str>().is_err());
        let (mut table, mut model) = (table.typed::<i64>().unwrap(), Model::new());
        for _ in 0..400 {
            change(&mut rng, order, &mut table, &mut model);
            model.retain(|_, values| !values.is_empty());
        }
        compare(&table.read(), &model, &mut rng);
        let flat = model.iter().flat_map(|(key, values)| values.iter().map(|value| (*key, value)));
        table.clear().unwrap();
        assert!(table.read().is_empty());
        let loaded = table.bulk_load(flat.clone().map(Ok)).unwrap();
        assert_eq!(loaded, flat.clone().count() as u64);
        compare(&table.read(), &model, &mut rng);
        walk_and_change(&mut rng, order, table, &mut model);
        transaction.commit().unwrap();
        let snapshot = store.read().unwrap();
        let table = snapshot.multi_table("t").unwrap().unwrap().typed::<i64>().unwrap();
        compare(&table, &model, &mut rng);
        assert_eq!(table.bytes().len(), table.len());
    }
}

fn change(
    rng: &mut Rng,
    order: Duplicates,
    table: &mut TypedMultiMut<'_, '_, i64>,
    model: &mut Model,
) {
    let (key, len) = (key(rng), rng.below(4) as usize);
    let value = rng.bytes(len);
    let values = model.entry(key).or_default();
    let n = rng.below(values.len() as u64 + 1);
    let is_there = (n as usize) < values.len();
    let is_sorted = order == Duplicates::Sorted;
    match rng.below(12) {
        0..6 if is_sorted => {
            let place = values.binary_search(&value);
            assert_eq!(table.insert(&key, &value).unwrap(), place.is_err());
            place.map_or_else(|i| values.insert(i, value), |_| ());
        }
        0..3 => {
            assert!(table.insert(&key, &value).unwrap());
            values.push(value);
        }
        3..6 => {
            assert_eq!(table.insert_at(&key, Position::Before(n), &value).unwrap(), is_there);
            if is_there {
                values.insert(n as usize, value);
            }
        }
        6 => {
            assert_eq!(table.insert_if_absent(&key, &value).unwrap(), values.is_empty());
            if values.is_empty() {
                values.push(value);
            }
        }
        7 => {
            let at = values.iter().position(|other| *other == value);
            assert_eq!(table.remove_value(&key, &value).unwrap(), at.is_some());
            at.map(|at| values.remove(at));
        }
        8 => {
            assert_eq!(table.remove_nth(&key, n).unwrap(), is_there);
            is_there.then(|| values.remove(n as usize));
        }
        9 => {
            assert_eq!(table.replace_nth(&key, n, &value).unwrap(), is_there);
            if is_there {
                values[n as usize] = value;
                if is_sorted {
                    values.sort();
                    values.dedup();
                }
            }
        }
        10 if rng.below(4) == 0 => {
            assert_eq!(table.remove(&key).unwrap(), values.len() as u64);
            values.clear();
        }
        10 => {
            let end = key.saturating_add(2);
            let removed: usize = model.range(key..end).map(|(_, values)| values.len()).sum();
            assert_eq!(table.remove_range(&key..&end).unwrap(), removed as u64);
            model.retain(|other, _| !(key..end).contains(other));
        }
        _ => {
            model.retain(|_, values| !values.is_empty());
            let first = model.first_entry().map(|mut e| (*e.key(), e.get_mut().remove(0)));
            assert_eq!(table.pop_first().unwrap(), first);
            model.retain(|_, values| !values.is_empty());
            let last = model.last_entry().and_then(|mut e| Some((*e.key(), e.get_mut().pop()?)));
            assert_eq!(table.pop_last().unwrap(), last);
        }
    }
}

fn owned(found: Option<TypedMultiPair<'_, i64>>) -> Option<(i64, Vec<u8>)> {
    found.map(|(key, value)| (key, value.into_owned()))
}

fn compare(table: &TypedMulti<'_, i64>, model: &Model, rng: &mut Rng) {
    let all: Vec<(i64, Vec<u8>)> =
        model.iter().flat_map(|(key, values)| values.iter().map(|v| (*key, v.clone()))).collect();
    assert_eq!((table.len(), table.is_empty()), (all.len() as u64, all.is_empty()));
    let read = table.iter().map(|pair| owned(Some(pair.unwrap())).unwrap());
    assert_eq!(read.collect::<Vec<_>>(), all);
    let back = table.range(..).rev().map(|pair| owned(Some(pair.unwrap())).unwrap());
    assert!(back.eq(all.iter().rev().cloned()));
    assert_eq!(owned(table.first().unwrap()), all.first().cloned());
    assert_eq!(owned(table.last().unwrap()), all.last().cloned());
    for _ in 0..60 {
        let key = key(rng);
        let values = model.get(&key).cloned().unwrap_or_default();
        assert_eq!(table.get(&key).unwrap().as_deref(), values.first().map(|value| &value[..]));
        assert_eq!(table.contains_key(&key).unwrap(), !values.is_empty());
        assert_eq!(table.count(&key).unwrap(), values.len() as u64);
        let found: Vec<_> = table.values(&key).map(|value| value.unwrap().into_owned()).collect();
        assert_eq!(found, values);
        let n = rng.below(4);
        let nth = table.nth(&key, n).unwrap();
        assert_eq!(nth.as_deref(), values.get(n as usize).map(|value| &value[..]));
        let value = rng.bytes(1);
        assert_eq!(table.contains(&key, &value).unwrap(), values.contains(&value));
        let first = |found: Option<&(i64, Vec<u8>)>| found.cloned();
        let at_or_after = first(all.iter().find(|(other, _)| *other >= key));
        assert_eq!(owned(table.at_or_after(&key).unwrap()), at_or_after);
        let after = first(all.iter().find(|(other, _)| *other > key));
        assert_eq!(owned(table.after(&key).unwrap()), after);
        let before = first(all.iter().rfind(|(other, _)| *other < key));
        assert_eq!(owned(table.before(&key).unwrap()), before);
        let at_or_before = first(all.iter().rfind(|(other, _)| *other <= key));
        assert_eq!(owned(table.at_or_before(&key).unwrap()), at_or_before);
        let end = key.saturating_add(rng.below(10) as i64);
        let within = all.iter().filter(|(other, _)| (key..=end).contains(other));
        assert_eq!(table.count_range(&key..=&end).unwrap(), within.clone().count() as u64);
        assert_eq!(table.estimate_range(&end..&key).unwrap(), 0);
        assert_eq!(
            table.estimate_range(&key..=&end).unwrap(),
            table.bytes().estimate_range(&key.to_bytes()[..]..=&end.to_bytes()).unwrap()
        );
        let range = table.range(&key..=&end).map(|pair| owned(Some(pair.unwrap())).unwrap());
        assert!(range.eq(within.cloned()));
    }
}

/// A cursor goes to each key, by its number, and changes the first value, or takes it out, or one is put beside it.
fn walk_and_change(
    rng: &mut Rng,
    order: Duplicates,
    table: TypedMultiMut<'_, '_, i64>,
    model: &mut Model,
) {
    let mut cursor = table.cursor();
    for (key, values) in model.iter_mut() {
        assert!(cursor.find(key).unwrap());
        assert_eq!(cursor.key().unwrap(), Some(*key));
        assert_eq!(cursor.count().unwrap(), values.len() as u64);
        assert!(cursor.last_value().unwrap());
        assert_eq!(cursor.position().unwrap(), Some(values.len() as u64 - 1));
        assert_eq!(cursor.previous_value().unwrap(), values.len() > 1);
        assert!(cursor.first_value().unwrap() && cursor.value().unwrap().unwrap() == values[0]);
        match rng.below(4) {
            0 if order == Duplicates::Sorted => {
                assert!(cursor.seek_value(key, &values[0]).unwrap());
                assert_eq!(cursor.next_value().unwrap(), values.len() > 1);
            }
            0 => {
                cursor.insert_before(b"before").unwrap();
                assert!(cursor.next().unwrap());
                cursor.insert_after(b"after").unwrap();
                values.insert(0, b"before".to_vec());
                values.insert(2, b"after".to_vec());
            }
            1 => {
                cursor.put(b"\0another").unwrap();
                values[0] = b"\0another".to_vec();
                if order == Duplicates::Sorted {
                    values.sort();
                    values.dedup();
                }
            }
            2 => {
                cursor.remove().unwrap();
                assert_eq!(cursor.key().unwrap(), None);
                values.remove(0);
            }
            _ => {}
        }
    }
    model.retain(|_, values| !values.is_empty());
    assert_eq!(cursor.seek(&i64::MIN).unwrap(), !model.is_empty());
    let mut keys = Vec::new();
    while let Some(key) = cursor.key().unwrap() {
        keys.push(key);
        cursor.next_key().unwrap();
    }
    assert!(keys.iter().eq(model.keys()));
    assert_eq!(cursor.previous_key().unwrap(), !model.is_empty());
    assert_eq!(cursor.key().unwrap(), model.keys().last().copied());
    assert_eq!(cursor.first().unwrap() && cursor.last().unwrap(), !model.is_empty());
}
