//! Cursors that change tables with several values a key, and what else is found there by its place,
//! against a list in memory.
//!
//! Danger: a cursor that is elsewhere after a change, or one that changes another value than it is at.

mod common;

use common::{Rng, rounds, seed};
use credenza::btree::{BTree, Duplicates, Key, MultiCursorMut, MultiTableMut, TableOptions};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Where a cursor is in the list.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// At a pair; -1 is before all, and the length behind.
    At(i64),
    /// Before a pair, where one of this key was taken out.
    Before(i64, Vec<u8>),
}

struct Model {
    is_sorted: bool,
    is_typed: bool,
    pairs: Pairs,
    place: Place,
}

impl Model {
    fn key(&self, rng: &mut Rng) -> Vec<u8> {
        let id = rng.below(12) as u32;
        if self.is_typed { id.to_bytes() } else { vec![(id % 3) as u8; id as usize / 3] }
    }

    fn value(&self, rng: &mut Rng) -> Vec<u8> {
        // Some are long enough to be elsewhere than their records, if they are not part of these.
        let len = if rng.below(20) == 0 { rng.below(3000) } else { rng.below(4) };
        (0..len).map(|_| rng.below(3) as u8).collect()
    }

    fn len(&self) -> i64 {
        self.pairs.len() as i64
    }

    fn get(&self, at: i64) -> Option<&(Vec<u8>, Vec<u8>)> {
        usize::try_from(at).ok().and_then(|at| self.pairs.get(at))
    }

    fn first_of(&self, key: &[u8]) -> i64 {
        self.pairs.partition_point(|(other, _)| &other[..] < key) as i64
    }

    fn end_of(&self, key: &[u8]) -> i64 {
        self.pairs.partition_point(|(other, _)| &other[..] <= key) as i64
    }

    /// The key that the cursor is among the values of.
    fn here(&self) -> Option<Vec<u8>> {
        match &self.place {
            Place::At(at) => self.get(*at).map(|(key, _)| key.clone()),
            Place::Before(_, key) => Some(key.clone()),
        }
    }

    fn before(&self) -> i64 {
        match self.place {
            Place::At(at) => (at - 1).max(-1),
            Place::Before(at, _) => at - 1,
        }
    }

    fn after(&self) -> i64 {
        match self.place {
            Place::At(at) => (at + 1).min(self.len()),
            Place::Before(at, _) => at,
        }
    }

    /// Goes there if it is of the key; whether it is.
    fn go_within(&mut self, at: i64) -> bool {
        let is_there =
            self.here().is_some() && self.get(at).map(|(key, _)| key.clone()) == self.here();
        if is_there {
            self.place = Place::At(at);
        }
        is_there
    }

    fn found(&self) -> Option<&(Vec<u8>, Vec<u8>)> {
        match self.place {
            Place::At(at) => self.get(at),
            Place::Before(..) => None,
        }
    }
}

fn step(rng: &mut Rng, cursor: &mut MultiCursorMut<'_, '_>, model: &mut Model) {
    let at = |at: i64| Place::At(at);
    match rng.below(10) {
        0 => (model.place, _) = (at(0), cursor.first().unwrap()),
        1 => (model.place, _) = (at(model.len() - 1), cursor.last().unwrap()),
        2 => {
            let key = model.key(rng);
            model.place = at(model.first_of(&key));
            let is_there = model.found().is_some_and(|(found, _)| *found == key);
            assert_eq!(cursor.find(&key).unwrap(), is_there);
        }
        3 => (model.place, _) = (at(model.after()), cursor.next().unwrap()),
        4 => (model.place, _) = (at(model.before()), cursor.previous().unwrap()),
        5 => {
            model.place = at(model.here().map_or(model.after(), |key| model.end_of(&key)));
            cursor.next_key().unwrap();
        }
        6 => {
            model.place = at(model.here().map_or(model.before(), |key| model.first_of(&key) - 1));
            cursor.previous_key().unwrap();
        }
        7 => assert_eq!(cursor.next_value().unwrap(), model.go_within(model.after())),
        8 => assert_eq!(cursor.previous_value().unwrap(), model.go_within(model.before())),
        _ => {
            let Some(key) = model.here() else { return };
            let (first, end) = (model.first_of(&key), model.end_of(&key));
            assert_eq!(cursor.count().unwrap() as i64, end - first);
            let position = match model.place {
                Place::At(at) => Some((at - first) as u64),
                Place::Before(..) => None,
            };
            assert_eq!(cursor.position().unwrap(), position);
            if rng.below(2) == 0 {
                assert_eq!(cursor.first_value().unwrap(), model.go_within(first));
            } else {
                assert_eq!(cursor.last_value().unwrap(), model.go_within(end - 1));
            }
        }
    }
}

fn change(rng: &mut Rng, cursor: &mut MultiCursorMut<'_, '_>, model: &mut Model) {
    let value = model.value(rng);
    let Some((key, _)) = model.found().cloned() else {
        assert!(cursor.put(&value).is_err());
        assert!(cursor.insert_after(&value).is_err());
        assert!(cursor.remove().is_err());
        return;
    };
    let Place::At(at) = model.place else { unreachable!() };
    match rng.below(4) {
        0 => {
            cursor.remove().unwrap();
            model.pairs.remove(at as usize);
            model.place = Place::Before(at, key);
        }
        1 if model.is_sorted => {
            assert!(cursor.insert_before(&value).is_err());
            assert!(cursor.insert_after(&value).is_err());
        }
        1 => {
            cursor.insert_before(&value).unwrap();
            model.pairs.insert(at as usize, (key, value));
        }
        2 if !model.is_sorted => {
            cursor.insert_after(&value).unwrap();
            model.pairs.insert(at as usize + 1, (key, value));
            model.place = Place::At(at + 1);
        }
        _ => {
            cursor.put(&value).unwrap();
            model.pairs[at as usize].1 = value.clone();
            if model.is_sorted {
                model.pairs.sort();
                model.pairs.dedup();
                let there = model.pairs.binary_search(&(key, value)).unwrap();
                model.place = Place::At(there as i64);
            }
        }
    }
}

/// Values put in and taken out by the table itself.
fn change_table(rng: &mut Rng, table: &mut MultiTableMut<'_, '_>, model: &mut Model) {
    for _ in 0..rng.below(60) {
        let (key, value) = (model.key(rng), model.value(rng));
        let (first, end) = (model.first_of(&key) as usize, model.end_of(&key) as usize);
        match rng.below(8) {
            0 => {
                assert_eq!(table.insert_if_absent(&key, &value).unwrap(), first == end);
                if first == end {
                    model.pairs.insert(first, (key, value));
                }
            }
            1 => {
                let pair = (!model.pairs.is_empty()).then(|| model.pairs.remove(0));
                assert_eq!(table.pop_first().unwrap(), pair);
            }
            2 => assert_eq!(table.pop_last().unwrap(), model.pairs.pop()),
            _ => {
                let pair = (key, value);
                let place =
                    if model.is_sorted { model.pairs.binary_search(&pair) } else { Err(end) };
                assert_eq!(table.insert(&pair.0, &pair.1).unwrap(), place.is_err());
                place.map_or_else(|at| model.pairs.insert(at, pair), |_| ());
            }
        }
    }
    let table = table.read();
    for _ in 0..10 {
        let key = model.key(rng);
        let own = |found: credenza::Result<Option<(Vec<u8>, credenza::Bytes<'_>)>>| {
            found.unwrap().map(|(key, value)| (key, value.into_owned()))
        };
        let (first, end) = (model.first_of(&key), model.end_of(&key));
        assert_eq!(own(table.at_or_after(&key)).as_ref(), model.get(first));
        assert_eq!(own(table.after(&key)).as_ref(), model.get(end));
        assert_eq!(own(table.before(&key)).as_ref(), model.get(first - 1));
        assert_eq!(own(table.at_or_before(&key)).as_ref(), model.get(end - 1));
        assert_eq!(own(table.first()).as_ref(), model.pairs.first());
        assert_eq!(own(table.last()).as_ref(), model.pairs.last());
    }
}

fn compare(table: &MultiTableMut<'_, '_>, model: &Model) {
    let pairs: Pairs = table
        .read()
        .iter()
        .map(|pair| pair.map(|(key, value)| (key, value.into_owned())).unwrap())
        .collect();
    assert_eq!(pairs, model.pairs);
}

#[test]
fn a_cursor_changes_what_it_is_at_and_stays_there() {
    for round in 0..rounds(12) {
        let mut rng = Rng::new(seed(round));
        let order = [Duplicates::Sorted, Duplicates::Inserted][rng.below(2) as usize];
        let is_typed = rng.below(2) == 0;
        let options = if is_typed { TableOptions::of_keys::<u32>() } else { TableOptions::new() };
        let is_sorted = order == Duplicates::Sorted;
        let mut model = Model { is_sorted, is_typed, pairs: Vec::new(), place: Place::At(-1) };
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        transaction.create_table_with("t", &options.duplicates(order)).unwrap();
        for _ in 0..40 {
            let mut table = transaction.multi_table("t").unwrap().unwrap();
            change_table(&mut rng, &mut table, &mut model);
            compare(&table, &model);
            let mut cursor = table.cursor();
            model.place = Place::At(-1);
            for _ in 0..60 {
                match rng.below(3) {
                    0 => change(&mut rng, &mut cursor, &mut model),
                    _ => step(&mut rng, &mut cursor, &mut model),
                }
                let found = cursor.key().map(<[u8]>::to_vec);
                let found = found.zip(cursor.value().unwrap().map(|value| value.into_owned()));
                assert_eq!(found.as_ref(), model.found(), "at {:?}", model.place);
            }
            drop(cursor);
            compare(&transaction.multi_table("t").unwrap().unwrap(), &model);
        }
        transaction.commit().unwrap();
        store.verify(|_, _| ()).unwrap();
    }
}

/// Values that are put at one place again and again come to labels that have no room between them.
#[test]
fn a_cursor_puts_any_number_of_values_at_one_place() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let options = TableOptions::new().duplicates(Duplicates::Inserted);
    transaction.create_table_with("t", &options).unwrap();
    let mut table = transaction.multi_table("t").unwrap().unwrap();
    for value in [b"first", b"last!"] {
        table.insert(b"key", value).unwrap();
    }
    let mut cursor = table.cursor();
    assert!(cursor.find(b"key").unwrap());
    for i in 0..500u32 {
        cursor.insert_after(&i.to_le_bytes()).unwrap();
        assert_eq!(cursor.position().unwrap(), Some(1));
        assert!(cursor.previous_value().unwrap());
    }
    drop(cursor);
    let table = transaction.multi_table("t").unwrap().unwrap();
    let values: Vec<_> = table.read().values(b"key").map(|v| v.unwrap().into_owned()).collect();
    let mut expected = vec![b"first".to_vec()];
    expected.extend((0..500u32).rev().map(|i| i.to_le_bytes().to_vec()));
    expected.push(b"last!".to_vec());
    assert_eq!(values, expected);
}
