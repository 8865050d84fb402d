//! Danger: a driver that misreads a C interface gives wrong answers or none. Every store that is
//! found here is built, read and scanned with values of all sizes, and changed where it can be. A
//! store that is not installed is passed over, and said so.

use super::*;
use crate::settings::Chosen;
use std::collections::BTreeMap;

struct RoundTrip;

impl ForDriver for RoundTrip {
    type Output = ();

    fn run<D: Driver>(self) {
        let driver = match D::load(None) {
            Ok(driver) => driver,
            Err(e) => {
                let advice = e.to_string();
                let wanted = if D::IS_SERVER { "name a server" } else { "to have it" };
                assert!(
                    (D::SOURCE.is_some() || D::IS_SERVER) && advice.contains(wanted),
                    "{advice}"
                );
                eprintln!("not tested: {}: {advice}", D::NAME);
                return;
            }
        };
        for records in [records(), fixed(4, 8), fixed(8, 8), fixed(12, 40)] {
            round_trip(&driver, &records);
        }
        shared_and_reopened(&driver, &records());
    }
}

/// Records of which all keys and all values have one length, in no order.
pub(super) fn fixed(key_len: usize, value_len: usize) -> Records {
    let mut records = Records::default();
    for i in 0..400_u32 {
        let mut bytes = i.wrapping_mul(2_654_435_761).to_le_bytes().to_vec();
        bytes.resize(64, 7);
        records.push(&bytes[..key_len], &bytes[64 - value_len..]).unwrap();
    }
    records
}

fn round_trip<D: Driver>(driver: &D, records: &Records) {
    let shape = Shape::of(records);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    driver.build(records, &shape, &path).unwrap();
    for reading in [Reading::Warm, Reading::ColdRandom, Reading::ColdNormal] {
        check(&mut driver.open(&path, &shape, reading).unwrap(), records, D::NAME);
    }
    assert!(driver.open(&folder.path().join("nothing"), &shape, Reading::Warm).is_err());
    if D::Writer::IS_POSSIBLE {
        changes(driver, records, D::create);
    } else {
        assert!(driver.create(&folder.path().join("new"), &shape).is_err());
    }
    // A disk may take milliseconds for each change.
    let few = &records.first(30).unwrap();
    if D::DURABLE.is_some() {
        changes(driver, few, D::create_durable);
    } else {
        assert!(driver.create_durable(&folder.path().join("new"), &shape).is_err());
    }
    if D::COMMITS {
        changes(driver, records, D::create_committing);
        transactions(driver, records);
    } else {
        assert!(driver.create_committing(&folder.path().join("new"), &shape).is_err());
    }
}

/// How a store is opened for changes.
type Opens<D> = for<'d> fn(&'d D, &Path, &Shape) -> Result<<D as Driver>::Writer<'d>>;

/// What a store can do with several handles, and when it is opened again.
fn shared_and_reopened<D: Driver>(driver: &D, records: &Records) {
    let shape = Shape::of(records);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    driver.build(records, &shape, &path).unwrap();
    together(driver, &shape, &path, records);
    if D::HAS_COMMITTERS {
        if D::DURABLE.is_some() {
            committed(driver, &records.first(30).unwrap(), true);
        }
        committed(driver, &records.first(100).unwrap(), false);
    }
    if D::HAS_COMMITTING_PROCESSES {
        if D::DURABLE.is_some() {
            opened_to_commit(driver, &records.first(30).unwrap(), true);
        }
        opened_to_commit(driver, &records.first(100).unwrap(), false);
    }
    if D::REOPENS {
        reopened(driver, records, D::create, |driver, path, shape| {
            driver.reopen(path, shape, false)
        });
    }
    if D::REOPENS && D::COMMITS {
        reopened(driver, records, D::create_committing, |driver, path, shape| {
            driver.reopen(path, shape, true)
        });
    }
    if D::DURABLE.is_some() {
        let few = &records.first(30).unwrap();
        reopened(driver, few, D::create, D::create_durable);
        reopened(driver, few, D::create_durable, D::create_durable);
        if D::HAS_COMMITTERS {
            reopened(driver, few, D::create, |driver, path, shape| {
                Ok(driver.committers(path, shape, 2, true)?.into_owner())
            });
        }
    }
}

/// Several threads read at once, without a writer and beside one
/// that stores other values of the same length: readers see these when they look anew. What several
/// processes do, the tests of the workbench's program say.
fn together<D: Driver>(driver: &D, shape: &Shape, path: &Path, records: &Records) {
    check(&mut driver.open_shared(path, shape).unwrap(), records, D::NAME);
    let others = records.with_other_values();
    for with_writer in [false, true] {
        if D::THREADS == Threads::One || with_writer && !D::HAS_WRITER_THREAD {
            continue;
        }
        let mut crew = driver.crew(path, shape, 3, with_writer).unwrap();
        assert_eq!((crew.readers.len(), crew.writer.is_some()), (3, with_writer), "{}", D::NAME);
        let read = |crew: &mut Crew<D::Store<'_>, D::Writer<'_>>, right: [&Records; 2]| {
            std::thread::scope(|scope| {
                for handle in &mut crew.readers {
                    scope.spawn(move || {
                        handle.store().refresh().unwrap();
                        has_either(handle.store(), right, D::NAME);
                    });
                }
                let writes = right[0].key(0) == right[1].key(0) && crew.writer.is_some();
                if let Some(handle) = crew.writer.as_mut().filter(|_| writes) {
                    scope.spawn(move || {
                        for (key, value) in right[1].iter() {
                            handle.store().insert(key, value).unwrap();
                        }
                    });
                }
            });
        };
        read(&mut crew, [records, &others]);
        if with_writer {
            // From here on nothing but the new values is right.
            for handle in &mut crew.readers {
                handle.store().refresh().unwrap();
                has_either(handle.store(), [&others, &others], D::NAME);
            }
            read(&mut crew, [&others, records]);
        }
    }
}

/// Several threads store their parts of the records at once, in a new store, look each up, remove it and
/// store it again: all are there afterwards, and when it was closed.
fn committed<D: Driver>(driver: &D, records: &Records, is_durable: bool) {
    const THREADS: usize = 3;
    let (shape, folder) = (Shape::of(records), tempfile::tempdir().unwrap());
    let path = folder.path().join("store");
    let mut crew = driver.committers(&path, &shape, THREADS, is_durable).unwrap();
    std::thread::scope(|scope| {
        for (number, handle) in crew.handles.iter_mut().enumerate() {
            scope.spawn(move || {
                for i in (number..records.len()).step_by(THREADS) {
                    let ((key, value), store) = (records.get(i), handle.store());
                    store.insert(key, value).unwrap();
                    let mut got = None;
                    store.get(key, |value| got = Some(value.to_vec())).unwrap();
                    assert_eq!(got.as_deref(), Some(value), "{}", D::NAME);
                    assert!(store.remove(key).unwrap() && !store.remove(key).unwrap());
                    assert!(!store.get(key, |_| ()).unwrap(), "{}", D::NAME);
                    store.insert(key, value).unwrap();
                }
            });
        }
    });
    let mut store = crew.into_owner();
    check(&mut store, records, D::NAME);
    store.close().unwrap();
    check(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), records, D::NAME);
    // What was closed has threads that change it again.
    let mut crew = driver.committers(&path, &shape, THREADS, is_durable).unwrap();
    std::thread::scope(|scope| {
        for (number, handle) in crew.handles.iter_mut().enumerate() {
            scope.spawn(move || {
                let (key, value) = records.get(number);
                assert!(handle.store().remove(key).unwrap(), "{}", D::NAME);
                handle.store().insert(key, value).unwrap();
            });
        }
    });
    let mut store = crew.into_owner();
    check(&mut store, records, D::NAME);
    store.close().unwrap();
    check(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), records, D::NAME);
}

/// Two store their parts of the records, opened one after the other as each of several processes is: all are
/// there for who opens the store behind them, and when it was closed. What they do at once, the tests of the
/// workbench's program say.
fn opened_to_commit<D: Driver>(driver: &D, records: &Records, is_durable: bool) {
    let (shape, folder) = (Shape::of(records), tempfile::tempdir().unwrap());
    let path = folder.path().join("store");
    driver.create_one_by_one(&path, &shape, is_durable).unwrap().close().unwrap();
    for number in 0..2 {
        let mut store = driver.open_to_commit(&path, &shape, is_durable).unwrap();
        for (key, value) in records.iter().skip(number).step_by(2) {
            store.insert(key, value).unwrap();
        }
        store.close().unwrap();
    }
    let mut store = driver.reopen_one_by_one(&path, &shape, is_durable).unwrap();
    check(&mut store, records, D::NAME);
    store.close().unwrap();
    check(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), records, D::NAME);
}

/// Whether every key has one of these two values, looked up by itself and, some, many at once.
fn has_either<S: Store>(store: &mut S, right: [&Records; 2], name: &str) {
    let some: Vec<&[u8]> = (0..right[0].len().min(100)).map(|i| right[0].key(i)).collect();
    let mut answers = 0;
    store
        .get_many(&some, |i, value| {
            assert_eq!(i, answers, "{name}");
            assert!(right.iter().any(|of| Some(of.get(i).1) == value), "{name}: {i} of many");
            answers += 1;
        })
        .unwrap();
    assert_eq!(answers, some.len(), "{name}");
    for (i, (key, _)) in right[0].iter().enumerate() {
        let mut got = None;
        store.get(key, |value| got = Some(value.to_vec())).unwrap();
        let got = got.unwrap_or_else(|| panic!("{name}: {} is not there", key.escape_ascii()));
        assert!(right.iter().any(|of| of.get(i).1 == got), "{name}: {}", key.escape_ascii());
    }
}

/// What was stored before the store was closed is there when it is opened again for changes, and with
/// these afterwards.
fn reopened<D: Driver>(driver: &D, records: &Records, create: Opens<D>, reopen: Opens<D>) {
    let shape = Shape::of(records);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut writer = create(driver, &path, &shape).unwrap();
    let mut model = BTreeMap::new();
    let mut insert = |writer: &mut D::Writer<'_>, i: usize, of: usize| {
        let (key, value) = (records.key(i), records.get(of).1);
        writer.insert(key, value).unwrap();
        model.insert(key.to_vec(), value.to_vec());
    };
    let half = records.len() / 2;
    (0..half).for_each(|i| insert(&mut writer, i, i));
    writer.close().unwrap();
    let mut writer = reopen(driver, &path, &shape).unwrap();
    // New keys, and other values for some that are there.
    (half / 2..records.len()).for_each(|i| insert(&mut writer, i, i / 2));
    assert!(writer.remove(records.key(0)).unwrap(), "{}", D::NAME);
    model.remove(records.key(0));
    holds(&mut writer, &model, records, D::NAME);
    writer.close().unwrap();
    holds(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), &model, records, D::NAME);
}

/// Inserts, replaces, removes, and looks at what is there before and after closing.
fn changes<D: Driver>(driver: &D, records: &Records, create: Opens<D>) {
    let shape = Shape::of(records);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut model = BTreeMap::new();
    let mut writer = create(driver, &path, &shape).unwrap();
    for (i, (key, value)) in records.iter().enumerate() {
        writer.insert(key, value).unwrap();
        // Every value is replaced at once, in part by a longer or shorter one.
        let value = records.get((i + i % 3) % records.len()).1;
        writer.insert(key, value).unwrap();
        model.insert(key.to_vec(), value.to_vec());
    }
    for (key, _) in records.iter().step_by(2) {
        assert!(writer.remove(key).unwrap(), "{}: {}", D::NAME, key.escape_ascii());
        assert!(!writer.remove(key).unwrap(), "{}: {} again", D::NAME, key.escape_ascii());
        model.remove(key);
    }
    for i in (0..records.len()).step_by(3) {
        let (key, value) = (records.key(i), records.get((i + 1) % records.len()).1);
        let is_new = !model.contains_key(key);
        assert_eq!(writer.insert_if_absent(key, value).unwrap(), is_new, "{}", D::NAME);
        model.entry(key.to_vec()).or_insert_with(|| value.to_vec());
    }
    holds(&mut writer, &model, records, D::NAME);
    writer.close().unwrap();
    holds(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), &model, records, D::NAME);

    let path = folder.path().join("empty");
    let mut writer = create(driver, &path, &shape).unwrap();
    let (key, value) = records.get(3);
    writer.insert(key, value).unwrap();
    assert!(writer.remove(key).unwrap(), "{}", D::NAME);
    writer.close().unwrap();
    let mut empty = driver.open(&path, &shape, Reading::Warm).unwrap();
    holds(&mut empty, &BTreeMap::new(), records, D::NAME);
}

/// Changes in transactions of several are there after each, and when the store was closed.
fn transactions<D: Driver>(driver: &D, records: &Records) {
    let shape = Shape::of(records);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut writer = driver.create_committing(&path, &shape).unwrap();
    if !D::Writer::HAS_TRANSACTIONS {
        assert!(writer.begin().is_err() && writer.commit().is_err(), "{}", D::NAME);
        return;
    }
    let mut model = BTreeMap::new();
    for i in 0..records.len() {
        if i % 100 == 0 {
            writer.begin().unwrap();
        }
        let (key, value) = records.get(i);
        writer.insert(key, value).unwrap();
        assert!(writer.get(key, |got| assert_eq!(got, value)).unwrap(), "{}", D::NAME);
        model.insert(key.to_vec(), value.to_vec());
        if i % 3 == 0 {
            assert!(writer.remove(key).unwrap(), "{}", D::NAME);
            model.remove(key);
        }
        // Every way of reading sees what the transaction has done, but ranges of upscaledb 2.2.1, which end at
        // keys that were removed.
        if i == 299 && D::NAME != "upscaledb" {
            holds(&mut writer, &model, records, D::NAME);
        }
        if i % 100 == 99 || i + 1 == records.len() {
            writer.commit().unwrap();
        }
    }
    holds(&mut writer, &model, records, D::NAME);
    writer.close().unwrap();
    holds(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), &model, records, D::NAME);
}

/// Whether every key of `records` has the value that the model says, and there is no other.
fn holds<S: Store>(
    store: &mut S,
    model: &BTreeMap<Vec<u8>, Vec<u8>>,
    records: &Records,
    name: &str,
) {
    for (key, _) in records.iter() {
        let mut got = None;
        let found = store.get(key, |value| got = Some(value.to_vec())).unwrap();
        assert_eq!(found, got.is_some(), "{name}: {}", key.escape_ascii());
        assert!(got.as_ref() == model.get(key), "{name}: {}", key.escape_ascii());
    }
    let (all, count) = scanned(store);
    assert!(count == model.len() && all == *model, "{name}: {count} of {}", model.len());
    batches(store, model, name);
    ranges(store, model, name);
    backwards(store, name);
}

/// Keys that no records here have, in part of a length that none has.
const ABSENT: [&[u8]; 4] = [b"key", b"key 3000", b"zzz", b"0"];

/// Whether each of many keys that are looked up at once is answered, in their order: none, some that are all
/// missing, and those that are there, each twice and with one that is missing in between, so many that a library
/// may do them in several parts; and values that are empty.
fn batches<S: Store>(store: &mut S, model: &BTreeMap<Vec<u8>, Vec<u8>>, name: &str) {
    let empty = model.iter().filter(|(_, value)| value.is_empty()).take(5).map(|(key, _)| key);
    let there = model.keys().step_by(3).take(70).chain(empty);
    let mixed = there.zip(ABSENT.into_iter().cycle());
    let mixed: Vec<&[u8]> = mixed.flat_map(|(key, absent)| [&key[..], absent, key]).collect();
    for keys in [&[], &ABSENT[..1], &ABSENT, &mixed, &mixed[..mixed.len().min(1)]] {
        let mut answers = Vec::new();
        store.get_many(keys, |i, value| answers.push((i, value.map(<[u8]>::to_vec)))).unwrap();
        let expected: Vec<_> =
            keys.iter().map(|key| model.get(*key).cloned()).enumerate().collect();
        let first = answers.iter().zip(&expected).position(|(a, b)| a != b);
        assert!(answers == expected, "{name}: {first:?} of {} keys", keys.len());
    }
}

/// Whether ranges from keys that are there and from some that are not, before and behind all, too,
/// are as the model says, of all lengths.
fn ranges<S: Store>(store: &mut S, model: &BTreeMap<Vec<u8>, Vec<u8>>, name: &str) {
    if !S::IS_ORDERED {
        assert!(store.range(b"key", 1, |_, _| panic!("{name} gives a record")).is_err());
        return;
    }
    let mut starts: Vec<Vec<u8>> = model.keys().step_by(97).cloned().collect();
    for i in 0..5 {
        let after = model.keys().rev().nth(i * i).map(|key| [key, &b"!"[..]].concat());
        starts.extend(after);
    }
    starts.extend(["0", "key 1", "key 17!", "key 9999", "zzz"].map(|key| key.as_bytes().to_vec()));
    for (i, start) in starts.iter().enumerate() {
        let count = [0, 1, 2, 100, 5000][i % 5];
        let mut got = Vec::new();
        store.range(start, count, |key, value| got.push((key.to_vec(), value.to_vec()))).unwrap();
        let expected = model.range(start.clone()..).take(count);
        let is_right = got.iter().map(|(key, value)| (key, value)).eq(expected);
        assert!(is_right, "{name}: {count} from {}, got {}", start.escape_ascii(), got.len());
    }
}

/// Whether a scan backwards, where there is one, gives what one forwards does, the highest key first, and the
/// last value of each first.
pub(super) fn backwards<S: Store>(store: &mut S, name: &str) {
    let mut all = Vec::new();
    store.scan(|key, value| all.push((key.to_vec(), value.to_vec()))).unwrap();
    // What is in an order may give all faster in another one.
    all.reverse();
    all.sort_by(|(a, _), (b, _)| b.cmp(a));
    let mut back = Vec::new();
    let done = store.scan_back(|key, value| back.push((key.to_vec(), value.to_vec())));
    assert_eq!(done.is_ok(), S::SCANS_BACK, "{name}");
    if S::SCANS_BACK {
        let first = all.iter().zip(&back).position(|(a, b)| a != b);
        assert!(first.is_none() && back.len() == all.len(), "{name}: {first:?}, {}", back.len());
    }
}

/// What a scan gives, and how many records that were.
fn scanned<S: Store>(store: &mut S) -> (BTreeMap<Vec<u8>, Vec<u8>>, usize) {
    let mut all = BTreeMap::new();
    let mut count = 0;
    store
        .scan(|key, value| {
            count += 1;
            all.insert(key.to_vec(), value.to_vec());
        })
        .unwrap();
    (all, count)
}

pub(super) fn records() -> Records {
    let mut records = Records::default();
    for i in 0..3000_u32 {
        let len = [0, 1, 7, 100, 255, 256, 1024, 5000][i as usize % 8];
        let value: Vec<u8> = (0..len).map(|at| (at * 31 + i) as u8).collect();
        records
            .push(format!("key {i} {}", "x".repeat(i as usize % 50)).as_bytes(), &value)
            .unwrap();
    }
    records
}

fn check<S: Store>(store: &mut S, records: &Records, name: &str) {
    for (key, value) in records.iter() {
        let mut got = None;
        let found = store.get(key, |value| got = Some(value.to_vec())).unwrap();
        assert!(found && got.as_deref() == Some(value), "{name}: {}", key.escape_ascii());
    }
    for absent in ABSENT {
        let found =
            store.get(absent, |_| panic!("{name} found {}", absent.escape_ascii())).unwrap();
        assert!(!found, "{name}: {}", absent.escape_ascii());
    }
    let (all, count) = scanned(store);
    let expected: BTreeMap<_, _> =
        records.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert!(count == records.len() && all == expected, "{name}");
    batches(store, &all, name);
    ranges(store, &all, name);
    backwards(store, name);
}

#[test]
fn every_store_found_gives_back_what_it_was_given() {
    for name in NAMES {
        with_driver(name, RoundTrip).unwrap();
    }
    assert!(with_driver("no such store", RoundTrip).is_none());
}

/// However a store is opened for changes, where each of them takes long.
fn few_changes<D: Driver>(driver: &D, records: &Records) {
    let few = &records.first(40).unwrap();
    changes(driver, few, D::create);
    changes(driver, few, D::create_committing);
    changes(driver, few, D::create_durable);
    reopened(driver, few, D::create_committing, D::create_durable);
    transactions(driver, records);
}

#[test]
fn what_is_changed_by_new_files_has_every_change() {
    let driver = replaced::Replaced::load(None).unwrap();
    few_changes(&driver, &records());
    few_changes(&driver, &fixed(8, 8));
}

/// What the experiments of MDBM's page do with a store: it is built of records that are made on the way, threads
/// have handles that were opened or copied, and it notes its operations.
struct AsMdbmHasIt;

impl ForDriver for AsMdbmHasIt {
    type Output = ();

    fn run<D: Driver>(self) {
        let Ok(driver) = D::load(None) else {
            return;
        };
        let (records, is_own) = (&records(), ["constant", "hash", "btree"].contains(&D::NAME));
        let (shape, folder) = (Shape::of(records), tempfile::tempdir().unwrap());
        let path = folder.path().join("store");
        let made = driver.build_making(&path, &shape, &mut |store| {
            records.iter().try_for_each(|(key, value)| store(key, value))
        });
        assert_eq!(made.is_ok(), is_own || D::Writer::IS_POSSIBLE, "{}", D::NAME);
        if made.is_err() {
            return;
        }
        check(&mut driver.open(&path, &shape, Reading::Warm).unwrap(), records, D::NAME);
        for are_opened in [true, false] {
            let mut handles = driver.handles(&path, 3, are_opened).unwrap();
            assert!(handles.len() == 3 || handles.is_empty() && !is_own, "{}", D::NAME);
            std::thread::scope(|scope| {
                for handle in &mut handles {
                    scope.spawn(|| check(handle.store(), records, D::NAME));
                }
            });
        }
        for noting in [Noting::Counted, Noting::Sampled, Noting::Clock, Noting::Tsc] {
            let path = folder.path().join(format!("{noting:?}"));
            let noted = driver.create_noting(&path, &shape, noting).unwrap();
            let must = is_own && D::Writer::IS_POSSIBLE;
            assert!(noted.is_some() || !must, "{}: {noting:?}", D::NAME);
            let Some(mut writer) = noted else { continue };
            records.iter().for_each(|(key, value)| writer.insert(key, value).unwrap());
            check(&mut writer, records, D::NAME);
            writer.close().unwrap();
        }
    }
}

#[test]
fn what_the_page_of_mdbm_asks_for_is_done() {
    for name in ["mdbm", "hash", "btree", "constant"] {
        with_driver(name, AsMdbmHasIt).unwrap();
    }
}

struct WrongLibrary;

impl ForDriver for WrongLibrary {
    /// What to do to have the library, and what is said of a file that the user named.
    type Output = Option<[String; 2]>;

    fn run<D: Driver>(self) -> Option<[String; 2]> {
        let advice = D::SOURCE?.advice(D::NAME);
        Some([advice, D::load(Some(Path::new("/nowhere/lib.so"))).err()?.to_string()])
    }
}

#[test]
fn a_missing_library_says_where_to_get_it() {
    // Our own engines, crates and servers are no libraries.
    let no_library = ["constant", "hash", "btree", "redb", "resp", "ups"];
    for name in NAMES.iter().filter(|name| !no_library.contains(name)) {
        let [advice, named] = with_driver(name, WrongLibrary).flatten().expect("a load that fails");
        assert!(advice.contains("apt-get install") || advice.contains("--lib"), "{advice}");
        assert!(named.contains("name a shared library of"), "{named}");
        assert!(!named.contains("apt-get"), "{named}");
    }
}

#[test]
fn shape_knows_sorted_keys() {
    let mut records = Records::default();
    records.push(b"a", b"12").unwrap();
    records.push(b"b", b"").unwrap();
    assert!(Shape::of(&records).is_sorted);
    records.push(b"aa", b"1234").unwrap();
    let shape = Shape::of(&records);
    assert!(!shape.is_sorted);
    assert_eq!((shape.records, shape.bytes(), shape.longest_value), (3, 10, 4));
}

#[test]
fn lmdb_changes_more_than_one_transaction_can_take() {
    let records = 40_000;
    let shape = |value_bytes| Shape {
        records,
        keys: KeyType::Binary,
        values: KeyType::Binary,
        key_bytes: 8 * records,
        value_bytes: value_bytes * records,
        longest_value: value_bytes as usize,
        fixed_key: Some(8),
        fixed_value: Some(value_bytes as usize),
        is_sorted: false,
        setup: Setup::Tuned,
        duplicates: None,
        settings: Chosen::default(),
    };
    assert_eq!(mdb::at_once(&shape(16)), usize::MAX);
    assert!(mdb::at_once(&shape(16_000)) < records as usize);
    let Ok(lmdb) = lmdb::Lmdb::load(None) else {
        eprintln!("not tested: liblmdb is not found");
        return;
    };
    // The shape says that values are large, so that the transaction changes; the values are small.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut writer = lmdb.create(&path, &shape(16_000)).unwrap();
    let mut reader = lmdb.open(&path, &shape(16_000), Reading::Warm).unwrap();
    // What another transaction finds was committed on the way.
    let mut committed = || {
        reader.refresh().unwrap();
        scanned(&mut reader).1
    };
    for i in 0..records {
        writer.insert(&i.to_le_bytes(), b"value").unwrap();
    }
    assert_eq!(committed(), 0, "records are put into a new store in one transaction");
    // What replaces them, or takes them away, is in several.
    writer.settle().unwrap();
    assert_eq!(committed(), records as usize);
    for i in 0..records {
        assert!(writer.remove(&i.to_le_bytes()).unwrap());
    }
    assert_eq!(committed(), records as usize - mdb::at_once(&shape(16_000)));
    writer.close().unwrap();
    let again = folder.path().join("again");
    let mut writer = lmdb.create(&again, &shape(16_000)).unwrap();
    for i in 0..records {
        writer.insert(&i.to_le_bytes(), b"value").unwrap();
    }
    // Nobody said that the store is filled.
    assert!(writer.remove(&7_u64.to_le_bytes()).unwrap());
    let mut reader = lmdb.open(&again, &shape(16_000), Reading::Warm).unwrap();
    assert_eq!(scanned(&mut reader).1, records as usize);
}

struct StaysLoaded;

impl ForDriver for StaysLoaded {
    type Output = ();

    fn run<D: Driver>(self) {
        let Ok(driver) = D::load(None) else {
            return;
        };
        let Some(file) = driver.identity().file else {
            return;
        };
        drop(driver);
        let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(mapped.contains(file.to_str().unwrap()), "{}: {}", D::NAME, file.display());
    }
}

/// LevelDB's thread is there after its last store was closed: without the library, it went on in
/// whatever had come to lie there, and the program was aborted once in a dozen runs ("stack smashing
/// detected").
#[test]
fn libraries_stay_in_memory() {
    for name in NAMES {
        with_driver(name, StaysLoaded).unwrap();
    }
}
