//! Danger: a store that is told of a type of keys and turns their bytes round wrongly, so that it loses
//! keys, confuses them, or has them in another order; or one that numbers records, and gives another number
//! than the one it is asked for later. Every store that is found is given keys of every type.

use super::*;
use crate::settings::{Choices, Name};
use crate::workload::Types;
use crate::workload::generate::Random;
use std::collections::BTreeMap;

struct Typed(KeyType);

impl ForDriver for Typed {
    type Output = bool;

    fn run<D: Driver>(self) -> bool {
        let has_type = has_keys_of(D::NAME, self.0);
        if D::IS_SERVER || self.0.is_numbered() && !has_type {
            return has_type;
        }
        match D::load(None) {
            Ok(driver) => typed(&driver, self.0, KeyType::Binary),
            Err(e) => eprintln!("not tested: {}: {e}", D::NAME),
        }
        has_type
    }
}

/// Records in random order, and where the store numbers them in that of their numbers; of values with one
/// length, as some stores are told it.
fn records(keys: KeyType, of_values: KeyType) -> Records {
    let types = Types { keys, values: of_values };
    let mut sizes = Random::of_bytes(8, 20).of_types(types);
    let records = sizes.records(sizes.usual_count().min(300), 3).unwrap();
    if keys == KeyType::Custom { of_all_lengths(&records, types) } else { records }
}

/// These with keys of various lengths, of which some are what others begin with, and of bytes of all kinds:
/// what a function that compares may confuse.
fn of_all_lengths(records: &Records, types: Types) -> Records {
    let mut all = Records::of_types(types);
    for (i, (_, value)) in records.iter().enumerate() {
        let ends = [&b""[..], b"\0", b"\0\0", b"\xff", b"!", b"and so on, which is longer"];
        let key =
            [&records.key(i - i % ends.len())[..1 + i / 6 % 8], ends[i % ends.len()]].concat();
        if all.iter().all(|(other, _)| other != key) {
            all.push(&key, value).unwrap();
        }
    }
    assert!(all.len() > 200, "{}", all.len());
    all
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn typed<D: Driver>(driver: &D, keys: KeyType, of_values: KeyType) {
    let what = &format!("{} {keys} {of_values}", D::NAME);
    let records = &records(keys, of_values);
    let (shape, folder) = (Shape::of(records), tempfile::tempdir().unwrap());
    assert_eq!((shape.keys, shape.values), (keys, of_values));
    let path = folder.path().join("store");
    driver.build(records, &shape, &path).unwrap_or_else(|e| panic!("{what}: {e}"));
    let all: Model = records.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    holds(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), &all, records, what);
    if D::THREADS != Threads::One && keys != KeyType::Binary {
        let with_writer = D::HAS_WRITER_THREAD;
        let mut crew = driver.crew(&path, &shape, 2, with_writer).unwrap();
        let others = records.with_other_values();
        if let Some(handle) = &mut crew.writer {
            others.iter().for_each(|(key, value)| handle.store().insert(key, value).unwrap());
        }
        let now = if with_writer { &others } else { records };
        let now: Model = now.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        for handle in &mut crew.readers {
            handle.store().refresh().unwrap();
            holds(handle.store(), &now, records, what);
        }
    }
    if D::Writer::IS_POSSIBLE {
        changed(driver, records, &shape, D::create, what);
    }
    // What keys that are bytes to a store become when each change is a commit, other tests say.
    if keys == KeyType::Binary || !has_keys_of(D::NAME, keys) {
        return;
    }
    let mut shapes = vec![shape];
    if D::SETTINGS.iter().any(|(name, _)| *name == Name::Cursors) {
        let mut choices = Choices::default();
        choices.set("cursors=on").unwrap();
        shapes.push(Shape { settings: choices.of(D::NAME), ..shape });
        let what = &format!("{what} by cursors");
        changed(driver, records, &shapes[1], D::create, what);
    }
    for shape in shapes.iter().filter(|_| D::COMMITS) {
        let what = &format!("{what} committing, {}", shape.settings);
        changed(driver, records, shape, D::create_committing, what);
    }
    if D::DURABLE.is_some() {
        changed(driver, &records.first(10).unwrap(), &shape, D::create_durable, what);
    }
}

/// Stores all, replaces every value, takes half of them away, puts some back, and looks at what is there
/// before and after closing, and when it was opened for changes again.
pub(super) fn changed<D: Driver>(
    driver: &D,
    records: &Records,
    shape: &Shape,
    create: for<'d> fn(&'d D, &Path, &Shape) -> Result<D::Writer<'d>>,
    what: &str,
) {
    let (folder, others) = (tempfile::tempdir().unwrap(), records.with_other_values());
    let path = folder.path().join("store");
    let mut writer = create(driver, &path, shape).unwrap_or_else(|e| panic!("{what}: {e}"));
    let mut model = Model::new();
    for all in [records, &others] {
        for (key, value) in all.iter() {
            writer.insert(key, value).unwrap_or_else(|e| panic!("{what}: {e}"));
            model.insert(key.to_vec(), value.to_vec());
        }
    }
    holds(&mut writer, &model, records, what);
    // The last of them, too, whose number must not be given to another.
    let last = (records.len() - 1) % 2;
    for (key, _) in records.iter().skip(last).step_by(2) {
        assert!(writer.remove(key).unwrap(), "{what}");
        assert!(!writer.remove(key).unwrap(), "{what}: {key:?} again");
        model.remove(key);
    }
    holds(&mut writer, &model, records, what);
    writer.close().unwrap();
    holds(&mut driver.open(&path, shape, Reading::Warm).unwrap(), &model, records, what);
    if D::REOPENS && has_keys_of(D::NAME, shape.keys) {
        let mut writer = driver.reopen(&path, shape, false).unwrap();
        let last = (records.len() - 1) % 3;
        for (key, value) in records.iter().skip(last).step_by(3) {
            writer.insert(key, value).unwrap_or_else(|e| panic!("{what}: {e}"));
            model.insert(key.to_vec(), value.to_vec());
        }
        holds(&mut writer, &model, records, what);
        writer.close().unwrap();
    }
}

/// Whether the store has what the model has and nothing else, in the order of keys if it has an order.
fn holds<S: Store>(store: &mut S, model: &Model, records: &Records, what: &str) {
    has_all(store, model, records, what);
    for (key, _) in records.iter().step_by(17).filter(|_| S::IS_ORDERED) {
        let mut some = Vec::new();
        store.range(key, 9, |key, value| some.push((key.to_vec(), value.to_vec()))).unwrap();
        let expected = model.range(key.to_vec()..).take(9);
        assert!(some.iter().map(|(key, value)| (key, value)).eq(expected), "{what}");
    }
    tests::backwards(store, what);
}

/// The same by lookups and a scan.
fn has_all<S: Store>(store: &mut S, model: &Model, records: &Records, what: &str) {
    for (key, _) in records.iter() {
        let mut got = None;
        let found = store.get(key, |value| got = Some(value.to_vec())).unwrap();
        assert_eq!((found, got.as_ref()), (model.contains_key(key), model.get(key)), "{what}");
    }
    let keys: Vec<&[u8]> = (0..records.len().min(50)).map(|i| records.key(i)).collect();
    store
        .get_many(&keys, |i, value| assert_eq!(value, model.get(keys[i]).map(|v| &v[..]), "{what}"))
        .unwrap();
    let mut all = Vec::new();
    store.scan(|key, value| all.push((key.to_vec(), value.to_vec()))).unwrap();
    if !S::IS_ORDERED {
        all.sort();
    }
    assert!(all.iter().map(|(key, value)| (key, value)).eq(model), "{what}: {}", all.len());
}

#[test]
fn keys_of_every_type_come_back_in_their_order() {
    for keys in KeyType::ALL {
        let have = NAMES.iter().filter(|name| with_driver(name, Typed(keys)).unwrap()).count();
        assert!(have > 0, "{keys}");
    }
}

/// The same of values: none is turned round, and every bit of them has to come back.
struct TypedValues(KeyType);

impl ForDriver for TypedValues {
    type Output = bool;

    fn run<D: Driver>(self) -> bool {
        let has_type = has_values_of(D::NAME, self.0);
        match D::load(None) {
            _ if !has_type || D::IS_SERVER => {}
            Ok(driver) => [KeyType::Binary, KeyType::String, KeyType::F64, KeyType::Number32]
                .map(|keys| typed(&driver, keys, self.0))
                .into_iter()
                .collect(),
            Err(e) => eprintln!("not tested: {}: {e}", D::NAME),
        }
        has_type
    }
}

#[test]
fn values_of_every_type_come_back_bit_for_bit() {
    for of_values in KeyType::OF_VALUES.into_iter().filter(|of| *of != KeyType::Binary) {
        let of = |name: &&&str| with_driver(name, TypedValues(of_values)).unwrap();
        assert!(NAMES.iter().filter(of).count() > 0, "{of_values}");
    }
}

fn with_codec(codec: &str, shape: Shape) -> Shape {
    let mut choices = Choices::default();
    choices.set(&format!("key-compression={codec}")).unwrap();
    Shape { settings: choices.of("upscaledb"), ..shape }
}

/// Three of six: 2.2.1 itself answers wrongly with the others where a key that is there is stored again, and
/// with all of them leaves a record out of ranges that begin where there is no key.
fn compressed<D: Driver>(driver: &D) {
    let records = records(KeyType::U32, KeyType::Binary);
    for codec in ["zint32-varbyte", "zint32-streamvbyte", "zint32-for"] {
        let shape = with_codec(codec, Shape::of(&records));
        for commits in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let create = if commits { D::create_committing } else { D::create };
            let (mut writer, mut model) = (create(driver, &path, &shape).unwrap(), Model::new());
            for (key, value) in records.iter().chain(records.with_other_values().iter()) {
                writer.insert(key, value).unwrap();
                model.insert(key.to_vec(), value.to_vec());
            }
            for (key, _) in records.iter().step_by(2) {
                assert!(writer.remove(key).unwrap(), "{codec}");
                model.remove(key);
            }
            has_all(&mut writer, &model, &records, codec);
            writer.close().unwrap();
            has_all(
                &mut driver.open(&path, &shape, Reading::Warm).unwrap(),
                &model,
                &records,
                codec,
            );
        }
    }
    for (codec, keys) in [("zint32-for", KeyType::Custom), ("zlib", KeyType::U32)] {
        let shape = with_codec(codec, Shape { keys, ..Shape::of(&records) });
        let folder = tempfile::tempdir().unwrap();
        let refused = driver.create(&folder.path().join("store"), &shape).map(drop).unwrap_err();
        let what =
            format!("key-compression={codec}: upscaledb does not compress keys of type {keys} so");
        assert!(refused.to_string().contains(&what), "{refused}");
    }
}

#[test]
fn numbers_that_are_compressed_are_changed_as_others_are() {
    match upscaledb::Upscaledb::load(None) {
        Ok(driver) => compressed(&driver),
        Err(e) => eprintln!("not tested: {e}"),
    }
}

#[test]
fn a_number_that_is_not_the_next_is_refused() {
    let records = records(KeyType::Number32, KeyType::Binary);
    let (shape, folder) = (Shape::of(&records), tempfile::tempdir().unwrap());
    let store = btree::BTree::load(None).unwrap();
    let mut writer = store.create(&folder.path().join("store"), &shape).unwrap();
    let refused = writer.insert(records.key(1), b"value").unwrap_err().to_string();
    assert!(refused.contains("numbered a record 1 that is number 2"), "{refused}");
}
