//! Tables of every kind: typed keys, numbered records, cursors that change what they are at, counting, and transactions
//! within others.
//!
//! Danger: a table opened as what it is not; a number given twice; a cursor that misses a record after a change.

mod common;

use common::{Rng, rounds, seed};
use credenza::ErrorKind;
use credenza::btree::{BTree, Duplicates, Key, KeyType, Position, TableOptions};
use std::collections::BTreeMap;
use std::ops::Bound;

#[test]
fn a_cursor_changes_what_a_map_does() {
    for round in 0..rounds(8) {
        let mut rng = Rng::new(seed(round));
        let store = BTree::in_memory().unwrap();
        let mut map: BTreeMap<u64, Vec<u8>> =
            (0..rng.below(2000)).map(|n| (n * 10, n.to_le_bytes().to_vec())).collect();
        let mut transaction = store.write().unwrap();
        let records = map.iter().map(|(key, value)| Ok((key.to_bytes(), value)));
        transaction.main().bulk_load(records).unwrap();
        let mut cursor = transaction.main().cursor();
        let mut at: Option<u64> = None;
        let mut is_removed = true;
        for _ in 0..3000 {
            match rng.below(10) {
                0 => {
                    let key = rng.below(20_000);
                    cursor.seek(&key.to_bytes()).unwrap();
                    at = map.range(key..).next().map(|(key, _)| *key);
                    is_removed = false;
                }
                1..4 => {
                    let Some(from) = at else { continue };
                    let next = map.range(from + 1..).next().map(|(key, _)| *key);
                    assert_eq!(cursor.next().unwrap(), next.is_some());
                    (at, is_removed) = (next, false);
                }
                4 | 5 => {
                    let Some(from) = at else { continue };
                    let before = map.range(..from).next_back().map(|(key, _)| *key);
                    assert_eq!(cursor.previous().unwrap(), before.is_some());
                    (at, is_removed) = (before, false);
                }
                6 | 7 if at.is_some() && !is_removed => {
                    cursor.remove().unwrap();
                    map.remove(&at.unwrap());
                    is_removed = true;
                }
                _ if at.is_some() && !is_removed => {
                    let len = rng.below(900) as usize;
                    let value = rng.bytes(len);
                    cursor.put(&value).unwrap();
                    map.insert(at.unwrap(), value);
                }
                _ => {
                    assert!(cursor.put(b"").is_err());
                    assert!(cursor.remove().is_err());
                }
            }
            let here = at.filter(|_| !is_removed);
            assert_eq!(cursor.key(), here.map(|key| key.to_bytes()).as_deref());
            assert_eq!(cursor.value().unwrap(), here.map(|key| &map[&key][..]));
        }
        transaction.commit().unwrap();
        store.verify(|_, _| ()).unwrap();
        let snapshot = store.read().unwrap();
        let found = snapshot.main().iter().map(|pair| {
            let (key, value) = pair.unwrap();
            (u64::from_bytes(&key).unwrap(), value.to_vec())
        });
        assert!(found.eq(map));
    }
}

#[test]
fn records_in_a_range_are_counted() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let keys = (0..100_000u64).map(|n| Ok(((n * 2).to_bytes(), b"v")));
    transaction.main().bulk_load(keys).unwrap();
    transaction.commit().unwrap();
    let snapshot = store.read().unwrap();
    let table = snapshot.main();
    let mut rng = Rng::new(seed(0));
    for _ in 0..300 {
        let (from, to) = (rng.below(210_000), rng.below(210_000));
        let (a, b) = (from.to_bytes(), to.to_bytes());
        let is_odd = from % 2;
        let below = |n: u64| n.min(200_000).div_ceil(2);
        let exact = below(to).saturating_sub(below(from));
        assert_eq!(table.count_range(&a[..]..&b[..]).unwrap(), exact, "{from}..{to}");
        let excluded = (Bound::Excluded(&a[..]), Bound::Included(&b[..]));
        let more = below(to + 1).saturating_sub(below(from + 1));
        assert_eq!(table.count_range(excluded).unwrap(), more, "{from}..={to}, odd {is_odd}");
        let mut scanned = Vec::new();
        let scan = table.scan_range(excluded, |key, _| {
            scanned.push(u64::from_bytes(key).unwrap());
            Ok(scanned.len() < 700)
        });
        scan.unwrap();
        let first = (from / 2 + 1) * 2;
        assert_eq!(scanned.len() as u64, more.min(700));
        assert!(scanned.iter().enumerate().all(|(i, key)| *key == first + 2 * i as u64));
        let about = table.estimate_range(&a[..]..&b[..]).unwrap();
        assert!(about.abs_diff(exact) <= 1000, "{about} of {exact}");
    }
    assert_eq!(table.count_range(..).unwrap(), 100_000);
    assert_eq!(table.estimate_range(..).unwrap(), 100_000);
    let (a, b) = (500u64.to_bytes(), 520u64.to_bytes());
    assert_eq!(table.estimate_range(&a[..]..=&b[..]).unwrap(), 11);
    assert_eq!(store.read().unwrap().table("none").unwrap().map(|t| t.len()), None);
}

#[test]
fn numbers_of_records_are_never_given_twice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = TableOptions::of_keys::<u32>().numbered(true);
    let append = |values: &[&str]| -> Vec<u64> {
        let store = BTree::create(&path).unwrap();
        let mut transaction = store.write().unwrap();
        transaction.create_table_with("log", &options).unwrap();
        let mut log = transaction.table("log").unwrap().unwrap();
        let numbers = values.iter().map(|value| log.append(value.as_bytes()).unwrap()).collect();
        transaction.commit().unwrap();
        numbers
    };
    assert_eq!(append(&["a", "b", "c"]), [1, 2, 3]);
    let store = BTree::open(&path).unwrap();
    let mut transaction = store.write().unwrap();
    let mut log = transaction.table("log").unwrap().unwrap();
    assert!(log.typed::<u32>().unwrap().remove(&3).unwrap());
    assert_eq!(log.append(b"not kept").unwrap(), 4);
    drop(transaction);
    let mut transaction = store.write().unwrap();
    let mut log = transaction.table("log").unwrap().unwrap();
    log.typed::<u32>().unwrap().insert(&9, b"chosen").unwrap();
    log.clear().unwrap();
    transaction.rename_table("log", "other").unwrap();
    transaction.rename_table("other", "log").unwrap();
    transaction.commit().unwrap();
    drop(store);
    assert_eq!(append(&["d"]), [10]);
    let store = BTree::open(&path).unwrap();
    let mut transaction = store.write().unwrap();
    let mut log = transaction.table("log").unwrap().unwrap();
    log.typed::<u32>().unwrap().insert(&u32::MAX, b"last").unwrap();
    let error = log.append(b"one more").unwrap_err().to_string();
    assert!(error.contains("used up"), "{error}");
    assert_eq!(log.read().typed::<u32>().unwrap().last().unwrap(), Some((u32::MAX, &b"last"[..])));
    // What failed changed nothing.
    transaction.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
}

/// A number was said to be the highest that could not be a key of the table.
#[test]
fn numbers_that_no_record_can_have_are_not_skipped() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let last = u64::from(u32::MAX);
    for (name, options, most) in [
        ("short", TableOptions::of_keys::<u32>(), last),
        ("long", TableOptions::of_keys::<u64>(), u64::MAX),
    ] {
        transaction.create_table_with(name, &options.numbered(true)).unwrap();
        let mut table = transaction.table(name).unwrap().unwrap();
        table.skip_numbers(7).unwrap();
        for beyond in [last + 1, u64::MAX].into_iter().filter(|number| *number > most) {
            let error = table.skip_numbers(beyond).unwrap_err().to_string();
            assert!(error.contains(&beyond.to_string()), "{error}");
        }
        assert_eq!(table.append(b"").unwrap(), 8);
        table.skip_numbers(most).unwrap();
        assert_eq!(table.read().last_number(), most);
        assert!(table.append(b"").unwrap_err().to_string().contains("used up"));
    }
    transaction.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
}

/// A type of a program's own, for keys of even length.
struct Even;

impl Key for Even {
    type Owned = Vec<u8>;
    const NAME: &'static str = "test.even";

    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(b"even")
    }

    fn from_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
        bytes.len().is_multiple_of(2).then(|| bytes.to_vec())
    }
}

/// Whoever put keys in by their bytes was told that the store is damaged, and to restore it.
#[test]
fn keys_that_are_none_of_an_own_type_are_no_damage() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    transaction.create_table_with("own", &TableOptions::of_keys::<Even>()).unwrap();
    let mut table = transaction.table("own").unwrap().unwrap();
    table.typed::<Even>().unwrap().insert(&Even, b"").unwrap();
    table.insert(b"odd", b"").unwrap();
    transaction.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
    let snapshot = store.read().unwrap();
    let table = snapshot.table("own").unwrap().unwrap().typed::<Even>().unwrap();
    assert_eq!(table.first().unwrap(), Some((b"even".to_vec(), &b""[..])));
    for error in [table.last().unwrap_err(), table.iter().nth(1).unwrap().unwrap_err()] {
        assert!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("test.even") && text.contains("odd"), "{text}");
    }
}

/// A cursor by keys as they are goes where one by their bytes goes, and changes what it is at.
#[test]
fn cursors_go_by_keys_as_they_are() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    transaction.create_table_with("t", &TableOptions::of_keys::<i64>()).unwrap();
    let mut table = transaction.table("t").unwrap().unwrap();
    let mut table = table.typed::<i64>().unwrap();
    (-300..300).for_each(|key| assert!(!table.insert(&(key * 3), b"old").unwrap()));
    let mut cursor = table.cursor();
    assert_eq!((cursor.key().unwrap(), cursor.value().unwrap()), (None, None));
    assert!(cursor.seek(&-4).unwrap() && cursor.key().unwrap() == Some(-3));
    cursor.put(b"new").unwrap();
    assert_eq!(cursor.value().unwrap(), Some(&b"new"[..]));
    assert!(cursor.next().unwrap() && cursor.key().unwrap() == Some(0));
    cursor.remove().unwrap();
    assert_eq!(cursor.key().unwrap(), None);
    assert!(cursor.previous().unwrap() && cursor.key().unwrap() == Some(-3));
    assert!(!cursor.find(&0).unwrap() && cursor.key().unwrap() == Some(3));
    assert!(cursor.first().unwrap() && cursor.key().unwrap() == Some(-900));
    assert!(cursor.last().unwrap() && cursor.key().unwrap() == Some(897));
    drop(cursor);
    transaction.commit().unwrap();
    let snapshot = store.read().unwrap();
    let table = snapshot.table("t").unwrap().unwrap().typed::<i64>().unwrap();
    let (mut cursor, mut keys) = (table.cursor(), Vec::new());
    while cursor.next().unwrap() {
        keys.extend(cursor.key().unwrap());
    }
    assert!(keys.is_sorted() && keys.len() == 599 && !keys.contains(&0));
    assert!(!cursor.seek(&898).unwrap() && cursor.key().unwrap().is_none());
    assert!(cursor.previous().unwrap() && cursor.key().unwrap() == Some(897));
    assert!(cursor.find(&-3).unwrap() && cursor.value().unwrap() == Some(b"new"));
    assert!(cursor.first().unwrap() && cursor.key().unwrap() == Some(-900));
    assert!(cursor.last().unwrap() && cursor.key().unwrap() == Some(897));
}

/// Numbers below zero and above come in their order, found and taken out by what they are.
#[test]
fn keys_of_a_type_are_found_counted_and_taken_out_by_what_they_are() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    transaction.create_table_with("t", &TableOptions::of_keys::<f64>()).unwrap();
    let mut table = transaction.table("t").unwrap().unwrap();
    let mut table = table.typed::<f64>().unwrap();
    let keys: Vec<f64> = (-500..500).map(|i| f64::from(i) * 0.75).collect();
    for key in &keys {
        table.insert(key, &key.to_le_bytes()).unwrap();
    }
    let read = table.read();
    assert!(read.contains_key(&-0.75).unwrap() && !read.contains_key(&0.5).unwrap());
    let wanted = [-375.0, 0.1, 374.25];
    let mut found = Vec::new();
    read.get_many(&wanted, |i, value| found.push((i, value.map(<[u8]>::to_vec)))).unwrap();
    let value = |key: f64| Some(key.to_le_bytes().to_vec());
    assert_eq!(found, [(0, value(-375.0)), (1, None), (2, value(374.25))]);
    assert_eq!(read.count_range(&-1.0..&1.0).unwrap(), 3);
    assert_eq!(read.count_range(..&-375.0).unwrap(), 0);
    for (low, high) in keys.iter().zip(keys.iter().rev()).take(500) {
        assert_eq!(table.pop_first().unwrap(), Some((*low, low.to_le_bytes().to_vec())));
        assert_eq!(table.pop_last().unwrap(), Some((*high, high.to_le_bytes().to_vec())));
    }
    assert_eq!(table.pop_first().unwrap(), None);
    assert_eq!(table.pop_last().unwrap(), None);

    transaction.create_table_with("own", &TableOptions::of_keys::<Even>()).unwrap();
    let mut own = transaction.table("own").unwrap().unwrap();
    own.insert(b"odd", b"").unwrap();
    // What cannot be given back stays.
    assert!(own.typed::<Even>().unwrap().pop_first().is_err());
    assert!(own.typed::<Even>().unwrap().pop_last().is_err());
    assert_eq!(own.len(), 1);
    let several = TableOptions::of_keys::<Even>().duplicates(Duplicates::Sorted);
    transaction.create_table_with("several", &several).unwrap();
    let mut own = transaction.multi_table("several").unwrap().unwrap();
    own.insert(b"odd", b"").unwrap();
    assert!(own.typed::<Even>().unwrap().pop_first().is_err());
    assert!(own.typed::<Even>().unwrap().pop_last().is_err());
    assert_eq!(own.len(), 1);
    transaction.commit().unwrap();
}

#[test]
fn a_table_is_only_opened_as_what_it_is() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let sorted = TableOptions::of_keys::<u64>().duplicates(Duplicates::Sorted);
    let own = TableOptions::new().key_type(KeyType::named("mine"));
    assert!(transaction.create_table_with("sorted", &sorted).unwrap());
    assert!(!transaction.create_table_with("sorted", &sorted).unwrap());
    assert!(transaction.create_table_with("own", &own).unwrap());
    transaction.create_table("plain").unwrap();
    let text = |error: credenza::Error| error.to_string();
    assert!(text(transaction.table("sorted").unwrap_err()).contains("multi_table"));
    assert!(text(transaction.multi_table("plain").unwrap_err()).contains("one value"));
    assert!(text(transaction.create_table("own").unwrap_err()).contains("another kind"));
    let mut plain = transaction.table("own").unwrap().unwrap();
    assert!(text(plain.typed::<u64>().unwrap_err()).contains("mine"));
    assert!(text(plain.append(b"").unwrap_err()).contains("not numbered"));
    let numbered = TableOptions::of_keys::<str>().numbered(true);
    assert!(text(transaction.create_table_with("n", &numbered).unwrap_err()).contains("u32"));
    let nameless = TableOptions::new().key_type(KeyType::named(""));
    assert!(transaction.create_table_with("n", &nameless).is_err());

    let mut table = transaction.multi_table("sorted").unwrap().unwrap();
    assert!(text(table.insert(b"short", b"").unwrap_err()).contains("u64"));
    assert!(table.insert_at(&1u64.to_bytes(), Position::First, b"").is_err());
    assert!(table.insert(&1u64.to_bytes(), &[0; 65_536]).unwrap());
    assert!(text(table.insert(&1u64.to_bytes(), &[0; 65_537]).unwrap_err()).contains("65536"));
    assert_eq!(table.read().count(b"short").unwrap(), 0);
    assert_eq!(table.remove(b"short").unwrap(), 0);
    // What was refused changed nothing.
    transaction.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
    let snapshot = store.read().unwrap();
    assert_eq!(snapshot.table_options("own").unwrap(), Some(own));
    assert_eq!(snapshot.multi_table("sorted").unwrap().unwrap().len(), 1);
    assert!(snapshot.table("sorted").is_err());
}

/// Among them such as are not in their page, which differ in their last byte alone.
#[test]
fn keys_that_begin_alike_are_told_apart() {
    let key = |i: usize, len: usize| [&[b'k'; 4][..], &vec![b'x'; len], &[i as u8]].concat();
    let all: Vec<Vec<u8>> =
        (0..60).map(|i| key(i, [10, 507, 508, 900][i % 4])).chain([vec![0]]).collect();
    let mut sorted = all.clone();
    sorted.sort();
    for is_bulk in [false, true] {
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        if is_bulk {
            transaction.main().bulk_load(sorted.iter().map(|key| Ok((key, key)))).unwrap();
        } else {
            for key in &all {
                transaction.main().insert(key, key).unwrap();
            }
        }
        transaction.commit().unwrap();
        store.verify(|_, _| ()).unwrap();
        let snapshot = store.read().unwrap();
        let mut found = Vec::new();
        snapshot.main().get_many(&all, |i, value| found.push(value == Some(&all[i][..]))).unwrap();
        assert!(found == vec![true; all.len()]);
        for (i, is_there) in (0..240).map(|i| (i, i < 60)) {
            for len in [10, 507, 508, 900] {
                let key = key(i, len);
                let value = snapshot.main().get(&key).unwrap();
                assert_eq!(value == Some(&key[..]), is_there && len == [10, 507, 508, 900][i % 4]);
                assert!(value.is_none_or(|value| value == key));
            }
        }
    }
}

#[test]
fn transactions_within_transactions_are_undone_alone() {
    let store = BTree::in_memory().unwrap();
    let mut outer = store.write().unwrap();
    outer.create_table("t").unwrap().insert(b"outer", b"1").unwrap();
    {
        let mut middle = outer.nested();
        middle.table("t").unwrap().unwrap().insert(b"middle", b"2").unwrap();
        {
            let mut inner = middle.nested();
            inner.table("t").unwrap().unwrap().remove(b"outer").unwrap();
            inner.delete_table("t").unwrap();
        }
        assert_eq!(middle.table("t").unwrap().unwrap().len(), 2);
        let mut inner = middle.nested();
        inner.table("t").unwrap().unwrap().insert(b"inner", b"3").unwrap();
        inner.commit().unwrap();
        middle.commit().unwrap();
    }
    {
        let mut dropped = outer.nested();
        dropped.table("t").unwrap().unwrap().clear().unwrap();
    }
    outer.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
    let snapshot = store.read().unwrap();
    let keys: Vec<_> =
        snapshot.table("t").unwrap().unwrap().iter().map(|pair| pair.unwrap().0).collect();
    assert_eq!(keys, [&b"inner"[..], b"middle", b"outer"]);
}

/// A savepoint is itself alone: no later one, and none of another transaction, is taken for it.
/// As the transaction left each of them: changed, made, renamed, gone, or gone back.
#[test]
fn tables_of_a_transaction_are_read_together() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    for name in ["kept", "renamed", "deleted", "changed"] {
        transaction.create_table(name).unwrap().insert(b"name", name.as_bytes()).unwrap();
    }
    transaction.commit().unwrap();
    let mut transaction = store.write().unwrap();
    transaction.main().insert(b"key", b"main").unwrap();
    transaction.table("changed").unwrap().unwrap().insert(b"name", b"new").unwrap();
    transaction.rename_table("renamed", "other").unwrap();
    transaction.delete_table("deleted").unwrap();
    let several = TableOptions::of_keys::<u64>().duplicates(Duplicates::Sorted);
    transaction.create_table_with("several", &several).unwrap();
    let mut table = transaction.multi_table("several").unwrap().unwrap();
    for i in 0..3u8 {
        table.insert(&7u64.to_bytes(), &[i]).unwrap();
    }
    let savepoint = transaction.savepoint();
    transaction.table("kept").unwrap().unwrap().clear().unwrap();
    assert!(transaction.read_table("kept").unwrap().unwrap().is_empty());
    transaction.rollback_to(savepoint).unwrap();

    let main = transaction.read_main();
    let read = |name| transaction.read_table(name).unwrap();
    let tables = ["kept", "other", "changed"].map(|name| read(name).unwrap());
    let found = tables.map(|table| table.get(b"name").unwrap().unwrap());
    assert_eq!(found, [&b"kept"[..], b"renamed", b"new"]);
    assert_eq!(main.get(b"key").unwrap(), Some(&b"main"[..]));
    assert!(read("renamed").is_none() && read("deleted").is_none() && read("none").is_none());
    let several = transaction.read_multi_table("several").unwrap().unwrap();
    let several = several.typed::<u64>().unwrap();
    assert_eq!(several.count(&7).unwrap(), 3);
    assert!(transaction.read_table("several").is_err());
    assert!(transaction.read_multi_table("kept").is_err());
    assert_eq!(transaction.tables().unwrap(), ["changed", "kept", "other", "several"]);
}

#[test]
fn a_savepoint_that_was_given_up_is_none() {
    let store = BTree::in_memory().unwrap();
    let other = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let gone = transaction.savepoint();
    transaction.release(gone).unwrap();
    let kept = transaction.savepoint();
    assert_ne!(gone, kept);
    transaction.main().insert(b"key", b"").unwrap();
    assert!(transaction.rollback_to(gone).is_err());
    assert!(other.write().unwrap().rollback_to(kept).is_err());
    // Undone alone, whatever is released and made within.
    let outer = transaction.savepoint();
    let mut inner = transaction.nested();
    inner.main().insert(b"inner", b"").unwrap();
    inner.release(outer).unwrap();
    inner.savepoint();
    inner.savepoint();
    drop(inner);
    assert!(transaction.commit().is_err(), "what should be undone was committed");
    let mut transaction = store.write().unwrap();
    let outer = transaction.savepoint();
    let mut inner = transaction.nested();
    inner.release(outer).unwrap();
    assert!(inner.commit().is_err());
    assert!(transaction.commit().is_err());
}

#[test]
fn bounds_that_are_no_keys_are_compared_all_the_same() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let options = TableOptions::of_keys::<u16>().duplicates(Duplicates::Sorted);
    transaction.create_table_with("several", &options).unwrap();
    for i in 0..1000u16 {
        transaction.main().insert(&i.to_bytes(), b"").unwrap();
        let mut table = transaction.multi_table("several").unwrap().unwrap();
        table.insert(&i.to_bytes(), b"value").unwrap();
    }
    transaction.commit().unwrap();
    let snapshot = store.read().unwrap();
    let (one, several) = (snapshot.main(), snapshot.multi_table("several").unwrap().unwrap());
    let keys =
        [&b""[..], b"\x01", b"\x01\0", b"\x01\0\0", b"\x01\x05\x07", b"\x03\xff", b"\xff\xff\xff"];
    let bounds =
        |key: &'static [u8]| [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
    for start in keys.iter().flat_map(|key| bounds(key)) {
        for end in keys.iter().flat_map(|key| bounds(key)) {
            let expected = one.count_range((start, end)).unwrap();
            let what = format!("{start:?} to {end:?}");
            assert_eq!(several.count_range((start, end)).unwrap(), expected, "{what}");
            assert_eq!(several.range((start, end)).count() as u64, expected, "{what}");
        }
    }
    assert_eq!(several.count(b"\x01").unwrap() + several.count(b"\x01\0\0").unwrap(), 0);
    assert!(several.prefix(b"\x01\0\0").next().is_none());
}

#[test]
fn a_program_cannot_name_its_keys_as_those_that_are_known() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let options = TableOptions::new().key_type(KeyType::Other("u64".into()));
    assert_eq!(options, TableOptions::of_keys::<u64>());
    transaction.create_table_with("t", &options).unwrap();
    assert!(transaction.table("t").unwrap().unwrap().insert(b"abc", b"").is_err());
}

#[test]
fn estimates_are_near_also_at_the_ends_of_tables_filled_in_order() {
    let rising: Vec<u64> = (0..60_000).collect();
    let mut mixed = rising.clone();
    Rng::new(seed(1)).shuffle(&mut mixed);
    let falling = rising.iter().rev().copied().collect();
    for (name, order) in [("rising", rising), ("falling", falling), ("mixed", mixed)] {
        // Also of trees whose last pages have only just been begun.
        for count in [20_000, 40_000, 50_001, 60_000] {
            let filled = &order[..count];
            let store = BTree::in_memory().unwrap();
            let mut transaction = store.write().unwrap();
            for n in filled {
                transaction.main().insert(&n.to_bytes(), &[0; 40]).unwrap();
            }
            transaction.commit().unwrap();
            let snapshot = store.read().unwrap();
            let table = snapshot.main();
            assert_eq!(table.estimate_range(..).unwrap(), count as u64);
            for (from, to) in ranges_at_both_ends(filled) {
                let keys = &from.to_bytes()[..]..&to.to_bytes()[..];
                let exact = table.count_range(keys.clone()).unwrap();
                let about = table.estimate_range(keys).unwrap();
                let allowed = 100 + exact / 4;
                assert!(
                    about.abs_diff(exact) <= allowed,
                    "{name}, {count}: {from}..{to} has {exact}, not {about}"
                );
            }
        }
    }
}

/// Ranges of a hundredth to half of what is between the lowest and the highest key, at the ends and between them.
fn ranges_at_both_ends(keys: &[u64]) -> Vec<(u64, u64)> {
    let (low, high) = (*keys.iter().min().unwrap(), keys.iter().max().unwrap() + 1);
    let at_part = |part| {
        let len = (high - low) / part;
        [(low, low + len), (high - len, high), (low + len, low + 2 * len)]
    };
    [100, 50, 20, 10, 5, 2].into_iter().flat_map(at_part).collect()
}
