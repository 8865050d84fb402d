//! Danger: a store that is said to keep several values of a key in the order in which they were put there,
//! and loses one, gives another first, or leaves some behind when the key is removed.

use super::tests::backwards;
use super::*;
use crate::workload::Place;

struct Several(Place);

impl ForDriver for Several {
    type Output = bool;

    fn run<D: Driver>(self) -> bool {
        if D::HAS_DUPLICATES {
            assert!(<D::Writer<'_> as Store>::IS_ORDERED, "{}", D::NAME);
            match D::load(None) {
                Ok(driver) => several(&driver, self.0),
                Err(e) => eprintln!("not tested: {}: {e}", D::NAME),
            }
        }
        D::HAS_DUPLICATES
    }
}

/// Keys with 1 to 40 values of 0 to 300 bytes, put round by round.
const KEYS: usize = 60;

pub(super) fn several<D: Driver>(driver: &D, place: Place) {
    let key = |i: usize| format!("key {i:02}").into_bytes();
    let mut model: Vec<(Vec<u8>, Vec<Vec<u8>>)> = (0..KEYS).map(|i| (key(i), Vec::new())).collect();
    let mut records = Records::default();
    (0..KEYS).for_each(|i| records.push(&key(i), &[b'v'; 300]).unwrap());
    let shape = Shape { duplicates: Some(place), ..Shape::of(&records) };
    let shape = Shape { fixed_value: None, ..shape };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut writer = driver.create(&path, &shape).unwrap();
    for round in 0..40 {
        for (i, (key, values)) in model.iter_mut().enumerate().filter(|(i, _)| i % 40 >= round) {
            let value = format!("{round} of {i}").repeat(round * 7 % 30).into_bytes();
            writer.add(key, &value).unwrap();
            match place {
                Place::First => values.insert(0, value),
                Place::Last => values.push(value),
            }
        }
    }
    holds(&mut writer, &model, D::NAME);
    for (key, values) in model.iter_mut().step_by(7) {
        assert!(writer.remove(key).unwrap(), "{}", D::NAME);
        assert!(!writer.remove(key).unwrap(), "{}: again", D::NAME);
        values.clear();
    }
    // What comes back has none of the values that it had.
    writer.add(&model[7].0, b"back").unwrap();
    model[7].1.push(b"back".to_vec());
    holds(&mut writer, &model, D::NAME);
    writer.close().unwrap();
    holds(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), &model, D::NAME);
}

/// Whether the first value of every key is what is found, and all are given in their order.
fn holds<S: Store>(store: &mut S, model: &[(Vec<u8>, Vec<Vec<u8>>)], name: &str) {
    for (i, (key, values)) in model.iter().enumerate() {
        let mut first = None;
        let found = store.get(key, |value| first = Some(value.to_vec())).unwrap();
        assert_eq!((found, first.as_ref()), (!values.is_empty(), values.first()), "{name}: {i}");
    }
    let pairs = |from: usize| {
        let of_key = |(key, values): &(Vec<u8>, Vec<Vec<u8>>)| {
            let key = key.clone();
            values.clone().into_iter().map(move |value| (key.clone(), value))
        };
        model[from..].iter().flat_map(of_key).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    store.scan(|key, value| all.push((key.to_vec(), value.to_vec()))).unwrap();
    assert!(all == pairs(0), "{name}: {} of {}", all.len(), pairs(0).len());
    backwards(store, name);
    for (from, count) in [(0, 1), (3, 100), (50, 5000)] {
        let mut some = Vec::new();
        let take = |key: &[u8], value: &[u8]| some.push((key.to_vec(), value.to_vec()));
        store.range(&model[from].0, count, take).unwrap();
        let expected = pairs(from);
        assert!(some == expected[..count.min(expected.len())], "{name}: {count} from {from}");
    }
}

#[test]
fn several_values_a_key_are_kept_in_their_order() {
    for place in [Place::First, Place::Last] {
        let count = NAMES.iter().filter(|name| with_driver(name, Several(place)).unwrap()).count();
        assert!(count > 1, "{count}");
    }
}
