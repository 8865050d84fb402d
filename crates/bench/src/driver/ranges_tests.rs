//! Danger: a range is read by a cursor that another range has left somewhere, or that is of a transaction that is
//! over: it begins elsewhere, ends too early, or gives what was there before.

use super::tests::fixed;
use super::*;
use std::collections::BTreeMap;

type Model<'a> = BTreeMap<&'a [u8], &'a [u8]>;

struct Ranges;

impl ForDriver for Ranges {
    type Output = ();

    fn run<D: Driver>(self) {
        let Ok(driver) = D::load(None) else { return };
        if !<D::Store<'_> as Store>::IS_ORDERED {
            return;
        }
        let (records, folder) = (&fixed(8, 40), tempfile::tempdir().unwrap());
        let (shape, path) = (Shape::of(records), folder.path().join("store"));
        driver.build(records, &shape, &path).unwrap();
        let model: Model<'_> = records.iter().collect();
        let mut store = driver.open(&path, &shape, Reading::Warm).unwrap();
        after_one_another(&mut store, &model, D::NAME);
        drop(store);
        if D::THREADS != Threads::One {
            let mut crew = driver.crew(&path, &shape, 2, false).unwrap();
            crew.readers.iter_mut().for_each(|reader| {
                after_one_another(reader.store(), &model, D::NAME);
            });
        }
        if <D::Writer<'_> as Writer>::IS_POSSIBLE {
            beside_changes(&driver, records, &shape);
        }
        if D::HAS_WRITER_THREAD {
            beside_a_writer(&driver, records, &shape, &path);
        }
    }
}

/// From everywhere, past the end, backwards, and with lookups and scans between them.
fn after_one_another<S: Store>(store: &mut S, model: &Model<'_>, what: &str) {
    let keys: Vec<&[u8]> = model.keys().copied().collect();
    let (lowest, highest) = (&[0; 8][..], &[255; 8][..]);
    for time in 0..2 {
        for (i, key) in keys.iter().enumerate() {
            let others = [lowest, highest, key, keys[keys.len() - 1 - i]];
            for from in others {
                is_range(store, model, from, 1 + i % 7, what);
            }
            assert!(store.get(key, |_| ()).unwrap(), "{what}");
        }
        for _ in 0..=time {
            let mut count = 0;
            store.scan(|key, value| count += usize::from(model.get(key) == Some(&value))).unwrap();
            assert_eq!(count, model.len(), "{what}");
        }
        is_range(store, model, lowest, usize::MAX, what);
    }
}

fn is_range<S: Store>(store: &mut S, model: &Model<'_>, from: &[u8], count: usize, what: &str) {
    let mut given = Vec::new();
    store.range(from, count, |key, value| given.push((key.to_vec(), value.to_vec()))).unwrap();
    let wanted = model.range(from..).take(count);
    let wanted: Vec<_> = wanted.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert_eq!(given, wanted, "{what}: {}", from.escape_ascii());
}

/// Each change in a transaction of its own, or all in one, with ranges between them.
fn beside_changes<D: Driver>(driver: &D, records: &Records, shape: &Shape) {
    for commits in [false, true] {
        if commits && !D::COMMITS {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let create = if commits { D::create_committing } else { D::create };
        let (mut store, mut model) = (create(driver, &path, shape).unwrap(), Model::new());
        for (i, (key, value)) in records.iter().enumerate() {
            store.insert(key, value).unwrap();
            model.insert(key, value);
            is_range(&mut store, &model, key, 3, D::NAME);
            is_range(&mut store, &model, &[0; 8], 3, D::NAME);
            if i % 3 == 0 {
                assert!(store.remove(key).unwrap());
                model.remove(key);
                is_range(&mut store, &model, key, 2, D::NAME);
            }
        }
        store.close().unwrap();
    }
}

/// A reader sees in ranges what was changed before it was told to look again.
fn beside_a_writer<D: Driver>(driver: &D, records: &Records, shape: &Shape, path: &Path) {
    let others = records.with_other_values();
    let mut crew = driver.crew(path, shape, 1, true).unwrap();
    let (Some(writer), [reader]) = (&mut crew.writer, &mut crew.readers[..]) else {
        panic!("{}", D::NAME)
    };
    let (writer, reader) = (writer.store(), reader.store());
    let mut model: Model<'_> = records.iter().collect();
    for (key, value) in others.iter() {
        is_range(reader, &model, key, 5, D::NAME);
        writer.insert(key, value).unwrap();
        model.insert(key, value);
        reader.refresh().unwrap();
        is_range(reader, &model, key, 5, D::NAME);
    }
}

#[test]
fn ranges_are_right_after_one_another_and_beside_changes() {
    NAMES.iter().for_each(|name| with_driver(name, Ranges).unwrap());
}
