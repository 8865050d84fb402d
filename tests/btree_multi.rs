//! Tables with several values a key against lists in memory.
//!
//! Danger: a value in the wrong place among those of its key, or of another key.

mod common;

use common::{Rng, rounds, seed};
use credenza::Result;
use credenza::btree::{BTree, Duplicates, Key, MultiTable, MultiTableMut, Position, TableOptions};
use std::collections::BTreeMap;
use std::ops::Bound;

type Multi = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// What a table with several values a key is like in a round.
#[derive(Clone, Copy, Debug)]
struct Style {
    order: Duplicates,
    is_typed: bool,
    keys: u64,
    values: u64,
    is_long: bool,
}

impl Style {
    fn random(rng: &mut Rng) -> Style {
        Style {
            order: [Duplicates::Sorted, Duplicates::Inserted][rng.below(2) as usize],
            is_typed: rng.below(2) == 0,
            keys: [2, 20, 1000][rng.below(3) as usize],
            values: [3, 100, 5000][rng.below(3) as usize],
            is_long: rng.below(4) == 0,
        }
    }

    fn options(self) -> TableOptions {
        let options =
            if self.is_typed { TableOptions::of_keys::<u32>() } else { TableOptions::new() };
        options.duplicates(self.order)
    }

    fn key(self, rng: &mut Rng) -> Vec<u8> {
        let id = rng.below(self.keys) as u32;
        // The lowest and the highest there are, too.
        let id = if id.is_multiple_of(2) { id } else { u32::MAX - id + 1 };
        if self.is_typed {
            return id.to_bytes();
        }
        let mut of_key = Rng::new(u64::from(id));
        match of_key.below(3) {
            // Prefixes of one another, with bytes that are marked.
            0 => (0..of_key.below(6)).map(|_| [0, 1, 2, 255][of_key.below(4) as usize]).collect(),
            1 => format!("key {id}").into_bytes(),
            _ => vec![b'k'; of_key.below(if self.is_long { 900 } else { 20 }) as usize],
        }
    }

    fn value(self, rng: &mut Rng) -> Vec<u8> {
        let id = rng.below(self.values);
        let mut of_value = Rng::new(id);
        let len = of_value.below(if self.is_long { 3000 } else { 12 });
        of_value.bytes(len as usize)
    }
}

#[test]
fn several_values_a_key_do_what_lists_do() {
    for round in 0..rounds(12) {
        several_values(seed(round));
    }
}

fn several_values(seed: u64) {
    let mut rng = Rng::new(seed);
    let style = Style::random(&mut rng);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut model = Multi::new();
    let mut store = BTree::create(&path).unwrap();
    let mut transaction = store.write().unwrap();
    assert!(transaction.create_table_with("t", &style.options()).unwrap());
    transaction.commit().unwrap();
    for _ in 0..8 {
        let mut new = model.clone();
        let mut transaction = store.write().unwrap();
        let mut table = transaction.multi_table("t").unwrap().unwrap();
        for _ in 0..rng.below(500) {
            change(&mut rng, style, &mut table, &mut new);
        }
        compare(table.read(), &new, style, &mut rng);
        if rng.below(6) == 0 {
            drop(transaction);
        } else {
            transaction.commit().unwrap();
            model = new;
        }
        store.verify(|_, _| ()).unwrap();
        if rng.below(4) == 0 {
            drop(store);
            store = BTree::open(&path).unwrap();
        }
        let snapshot = store.read().unwrap();
        assert_eq!(snapshot.table_options("t").unwrap(), Some(style.options()));
        compare(snapshot.multi_table("t").unwrap().unwrap(), &model, style, &mut rng);
    }
}

fn change(rng: &mut Rng, style: Style, table: &mut MultiTableMut<'_, '_>, model: &mut Multi) {
    let (key, value) = (style.key(rng), style.value(rng));
    let sorted = style.order == Duplicates::Sorted;
    let values = model.entry(key.clone()).or_default();
    let n = rng.below(values.len() as u64 + 2);
    let is_there = (n as usize) < values.len();
    match rng.below(20) {
        0..10 if sorted => {
            let place = values.binary_search(&value);
            assert_eq!(table.insert(&key, &value).unwrap(), place.is_err());
            place.map_or_else(|i| values.insert(i, value), |_| ());
        }
        0..6 => {
            assert!(table.insert(&key, &value).unwrap());
            values.push(value);
        }
        6..10 => {
            let (position, at) = match rng.below(4) {
                0 => (Position::First, Some(0)),
                1 => (Position::Last, Some(values.len())),
                2 => (Position::Before(n), is_there.then_some(n as usize)),
                _ => (Position::After(n), is_there.then_some(n as usize + 1)),
            };
            assert_eq!(table.insert_at(&key, position, &value).unwrap(), at.is_some());
            if let Some(at) = at {
                values.insert(at, value);
            }
        }
        10..13 => {
            assert_eq!(table.remove_nth(&key, n).unwrap(), is_there);
            if is_there {
                values.remove(n as usize);
            }
        }
        13..15 => {
            let place = values.iter().position(|other| *other == value);
            assert_eq!(table.remove_value(&key, &value).unwrap(), place.is_some());
            place.map(|i| values.remove(i));
        }
        15..17 => {
            assert_eq!(table.replace_nth(&key, n, &value).unwrap(), is_there);
            if is_there {
                values[n as usize] = value;
                if sorted {
                    values.sort();
                    values.dedup();
                }
            }
        }
        17 => {
            let count = values.len() as u64;
            values.clear();
            assert_eq!(table.remove(&key).unwrap(), count);
        }
        18 if rng.below(10) == 0 => {
            let (from, to) = bounds(rng, style);
            let is_in = |key: &Vec<u8>| within(key, &from, &to);
            let count: usize = model.iter().filter(|(k, _)| is_in(k)).map(|(_, v)| v.len()).sum();
            model.retain(|key, _| !is_in(key));
            assert_eq!(table.remove_range(borrowed(&from, &to)).unwrap(), count as u64);
        }
        19 if rng.below(30) == 0 => {
            table.clear().unwrap();
            model.retain(|_, values| !values.is_empty());
            let all = pairs(model).into_iter().map(Ok);
            let count = table.bulk_load(all).unwrap();
            assert_eq!(count, table.len());
        }
        _ => assert_eq!(table.get(&key).unwrap().as_deref(), values.first().map(|v| &v[..])),
    }
    model.retain(|_, values| !values.is_empty());
}

fn pairs(model: &Multi) -> Vec<(Vec<u8>, Vec<u8>)> {
    let of_key = |(key, values): (&Vec<u8>, &Vec<Vec<u8>>)| -> Vec<_> {
        values.iter().map(|value| (key.clone(), value.clone())).collect()
    };
    model.iter().flat_map(of_key).collect()
}

fn bounds(rng: &mut Rng, style: Style) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut bound = || match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(style.key(rng)),
        _ => Bound::Excluded(style.key(rng)),
    };
    (bound(), bound())
}

fn within(key: &[u8], from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    let is_from = match from {
        Bound::Unbounded => true,
        Bound::Included(from) => key >= &from[..],
        Bound::Excluded(from) => key > &from[..],
    };
    is_from
        && match to {
            Bound::Unbounded => true,
            Bound::Included(to) => key <= &to[..],
            Bound::Excluded(to) => key < &to[..],
        }
}

fn borrowed<'b>(
    from: &'b Bound<Vec<u8>>,
    to: &'b Bound<Vec<u8>>,
) -> (Bound<&'b [u8]>, Bound<&'b [u8]>) {
    (from.as_ref().map(|key| &key[..]), to.as_ref().map(|key| &key[..]))
}

fn compare(table: MultiTable<'_>, model: &Multi, style: Style, rng: &mut Rng) {
    let all = pairs(model);
    assert_eq!(table.len(), all.len() as u64);
    let own = |pair: Result<(Vec<u8>, credenza::Bytes<'_>)>| {
        let (key, value) = pair.unwrap();
        (key, value.into_owned())
    };
    assert!(table.iter().map(own).eq(all.iter().cloned()));
    assert!(table.iter().rev().map(own).eq(all.iter().rev().cloned()));
    let mut scanned = Vec::new();
    let put = |key: &[u8], value: &[u8]| {
        scanned.push((key.to_vec(), value.to_vec()));
        Ok(())
    };
    table.scan(put).unwrap();
    assert!(scanned == all);
    for _ in 0..10 {
        let (from, to) = bounds(rng, style);
        let part: Vec<_> = all.iter().filter(|(key, _)| within(key, &from, &to)).cloned().collect();
        assert!(table.range(borrowed(&from, &to)).map(own).eq(part.iter().cloned()));
        assert_eq!(table.count_range(borrowed(&from, &to)).unwrap(), part.len() as u64);
        let (mut scanned, most) = (Vec::new(), 1 + rng.below(40) as usize);
        let put = |key: &[u8], value: &[u8]| {
            scanned.push((key.to_vec(), value.to_vec()));
            Ok(scanned.len() < most)
        };
        table.scan_range(borrowed(&from, &to), put).unwrap();
        assert!(scanned == part[..part.len().min(most)]);
        assert!(table.estimate_range(borrowed(&from, &to)).unwrap() <= table.len());
        let key = style.key(rng);
        let prefix = &key[..rng.below(key.len() as u64 + 1) as usize];
        let part = all.iter().filter(|(key, _)| key.starts_with(prefix)).cloned();
        assert!(table.prefix(prefix).map(own).eq(part), "prefix {prefix:?} of {style:?}");
        let values = model.get(&key).map_or(&[][..], |values| &values[..]);
        assert_eq!(table.count(&key).unwrap(), values.len() as u64);
        assert!(table.values(&key).map(|v| v.unwrap().into_owned()).eq(values.iter().cloned()));
        let n = rng.below(values.len() as u64 + 1);
        let nth = table.nth(&key, n).unwrap().map(|value| value.into_owned());
        assert_eq!(nth.as_ref(), values.get(n as usize));
        let value = style.value(rng);
        assert_eq!(table.contains(&key, &value).unwrap(), values.contains(&value));
    }
    walk(table, model, style, rng);
}

/// A cursor against a place in the list of all pairs.
fn walk(table: MultiTable<'_>, model: &Multi, style: Style, rng: &mut Rng) {
    let all = pairs(model);
    let mut cursor = table.cursor();
    // From -1, before the first, to the length, behind the last.
    let (mut at, end) = (-1i64, all.len() as i64);
    let here = |at: i64| usize::try_from(at).ok().and_then(|at| all.get(at));
    for _ in 0..40 {
        let key = here(at).map(|(key, _)| key.clone());
        let first_of = |key: &[u8]| all.partition_point(|(k, _)| &k[..] < key) as i64;
        let end_of = |key: &[u8]| all.partition_point(|(k, _)| &k[..] <= key) as i64;
        match rng.below(10) {
            0 => (at, _) = (0, cursor.first().unwrap()),
            1 => (at, _) = (end - 1, cursor.last().unwrap()),
            2 => {
                let key = style.key(rng);
                at = first_of(&key);
                assert_eq!(cursor.find(&key).unwrap(), model.contains_key(&key));
            }
            3 => (at, _) = ((at + 1).min(end), cursor.next().unwrap()),
            4 => (at, _) = ((at - 1).max(-1), cursor.previous().unwrap()),
            5 => {
                at = key.as_ref().map_or((at + 1).min(end), |key| end_of(key));
                cursor.next_key().unwrap();
            }
            6 => {
                at = key.as_ref().map_or((at - 1).max(-1), |key| first_of(key) - 1);
                cursor.previous_key().unwrap();
            }
            7 => {
                let is_there = key.is_some() && here(at + 1).map(|(key, _)| key) == key.as_ref();
                assert_eq!(cursor.next_value().unwrap(), is_there);
                at += i64::from(is_there);
            }
            8 => {
                let is_there = key.is_some() && here(at - 1).map(|(key, _)| key) == key.as_ref();
                assert_eq!(cursor.previous_value().unwrap(), is_there);
                at -= i64::from(is_there);
            }
            _ => {
                if let Some(key) = &key {
                    let count = end_of(key) - first_of(key);
                    assert_eq!(cursor.count().unwrap() as i64, count);
                    let position = cursor.position().unwrap().unwrap() as i64;
                    assert_eq!(position, at - first_of(key));
                    at = if rng.below(2) == 0 {
                        cursor.first_value().unwrap();
                        first_of(key)
                    } else {
                        cursor.last_value().unwrap();
                        end_of(key) - 1
                    };
                }
            }
        }
        let found = cursor.key().map(|key| (key.to_vec(), cursor.value().unwrap().unwrap()));
        let found = found.map(|(key, value)| (key, value.into_owned()));
        assert_eq!(found.as_ref(), here(at), "at {at} of {end}, {style:?}");
    }
}

#[test]
fn the_longest_keys_and_sorted_values_are_stored() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let options = TableOptions::new().duplicates(Duplicates::Sorted);
    transaction.create_table_with("t", &options).unwrap();
    let mut table = transaction.multi_table("t").unwrap().unwrap();
    let (key, values) = (vec![0; 65_536], [vec![0; 65_536], vec![1; 65_536]]);
    for value in &values {
        assert!(table.insert(&key, value).unwrap());
    }
    assert!(table.insert(&[0; 65_537], b"").is_err());
    transaction.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
    let snapshot = store.read().unwrap();
    let table = snapshot.multi_table("t").unwrap().unwrap();
    assert!(table.values(&key).map(|value| value.unwrap().into_owned()).eq(values));
}

/// Looks at no more of a table than the values of the key.
#[test]
fn a_value_too_far_is_none_at_once() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let options = TableOptions::of_keys::<u32>().duplicates(Duplicates::Inserted);
    transaction.create_table_with("t", &options).unwrap();
    let mut table = transaction.multi_table("t").unwrap().unwrap();
    for i in 0..5000u32 {
        table.insert(&i.to_bytes(), b"value").unwrap();
    }
    let key = 7u32.to_bytes();
    for n in [1, 2, 400, u64::MAX] {
        assert_eq!(table.read().nth(&key, n).unwrap(), None);
        assert!(!table.remove_nth(&key, n).unwrap());
        assert!(!table.insert_at(&key, Position::After(n), b"").unwrap());
    }
    assert_eq!(table.read().nth(&key, 0).unwrap().as_deref(), Some(&b"value"[..]));
}

/// Danger: a load that is refused tells whoever gave a key for each of its values to give each key once, or not which store it is.
#[test]
fn a_load_in_no_order_says_what_the_order_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = BTree::create(folder.path().join("store")).unwrap();
    let refused = |kind: Duplicates, records: &[(&str, &str)]| {
        let mut transaction = store.write().unwrap();
        transaction.create_table_with("t", &TableOptions::new().duplicates(kind)).unwrap();
        let mut table = transaction.multi_table("t").unwrap().unwrap();
        let error = table.bulk_load(records.iter().map(|record| Ok(*record))).unwrap_err();
        assert_eq!(error.path(), store.path(), "{error}");
        error.to_string()
    };
    for records in [[("k", "b"), ("k", "a")], [("k", "a"), ("k", "a")], [("k", "a"), ("j", "b")]] {
        let said = refused(Duplicates::Sorted, &records);
        assert!(said.contains("the values of a key in theirs, each once"), "{said}");
    }
    for records in [&[("k", "a"), ("j", "b")][..], &[("k", "a"), ("l", "b"), ("k", "c")]] {
        let said = refused(Duplicates::Inserted, records);
        assert!(said.contains("in order: sort them first"), "{said}");
    }
    let too_long = "v".repeat(65_537);
    refused(Duplicates::Sorted, &[("k", &too_long)]);
}
