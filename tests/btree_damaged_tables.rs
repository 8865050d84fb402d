//! Danger: a change of a damaged table that fails half-way and can be committed all the same, one that
//! comes to no end, or one that says it was done and was not.

mod common;

use common::rounds;
use common::{Rng, seed, sys};
use credenza::Result;
use credenza::btree::{BTree, Duplicates, Key, MultiCursorMut, Position, TableOptions};
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;

fn places(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    (0..bytes.len().saturating_sub(wanted.len()))
        .filter(|at| bytes[*at..].starts_with(wanted))
        .collect()
}

/// A store that is made by `fill`, and closed.
fn made(folder: &Path, fill: impl FnOnce(&BTree)) -> (PathBuf, Vec<u8>) {
    let path = folder.join("store");
    let _ = fs::remove_file(&path);
    let store = BTree::create(&path).unwrap();
    fill(&store);
    drop(store);
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

/// A store of 5,000 records, one leaf of which is damaged.
fn with_a_damaged_leaf(folder: &Path) -> PathBuf {
    let (path, mut bytes) = made(folder, |store| {
        let mut transaction = store.write().unwrap();
        for i in 0..5000 {
            let (key, value) = (format!("key{i:05}"), format!("val{i:05}"));
            transaction.main().insert(key.as_bytes(), value.as_bytes()).unwrap();
        }
        transaction.commit().unwrap();
    });
    let page = places(&bytes, b"val03500")[0] / PAGE * PAGE;
    bytes[page + 8] = 0xee;
    fs::write(&path, &bytes).unwrap();
    path
}

#[test]
fn a_range_that_is_taken_out_in_part_is_not_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_a_damaged_leaf(folder.path());
    let store = BTree::open(&path).unwrap();
    let mut transaction = store.write().unwrap();
    let error = transaction.main().remove_range(..).unwrap_err();
    assert!(error.is_bad_file() && error.path() == Some(&path), "{error}");
    assert!(transaction.main().len() < 5000, "it failed before it began");
    assert!(transaction.commit().is_err());
    assert_eq!(store.read().unwrap().main().len(), 5000);
}

/// A savepoint has what was there when it was set, and that was half of a change already.
#[test]
fn going_back_to_a_savepoint_does_not_undo_what_failed_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = BTree::open(with_a_damaged_leaf(folder.path())).unwrap();
    for is_before in [true, false] {
        let mut transaction = store.write().unwrap();
        let before = transaction.savepoint();
        transaction.main().remove_range(..).unwrap_err();
        assert!(transaction.main().len() < 5000, "it failed before it began");
        let behind = transaction.savepoint();
        transaction.rollback_to(if is_before { before } else { behind }).unwrap();
        assert_eq!(transaction.commit().is_ok(), is_before);
        assert_eq!(store.read().unwrap().main().len(), 5000);
    }
}

#[test]
fn values_that_are_moved_in_part_are_not_committed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut bytes) = made(folder.path(), |store| {
        let mut transaction = store.write().unwrap();
        let options = TableOptions::new().duplicates(Duplicates::Inserted);
        transaction.create_table_with("t", &options).unwrap();
        let mut table = transaction.multi_table("t").unwrap().unwrap();
        table.insert(b"k", &[b'A'; 3000]).unwrap();
        table.insert(b"k", &[b'B'; 3000]).unwrap();
        for i in 0..31 {
            assert!(table.insert_at(b"k", Position::After(0), &vec![b'C'; 3001 + i]).unwrap());
        }
        transaction.commit().unwrap();
    });
    // The reference to one of the values leads outside of the file.
    let mut is_damaged = false;
    for at in places(&bytes, &3028u32.to_le_bytes()) {
        let address = u64::from_le_bytes(bytes[at - 8..at].try_into().unwrap());
        if address % 4096 == 0 && address > 0 && address < bytes.len() as u64 {
            bytes[at - 3] = 0x7f;
            is_damaged = true;
        }
    }
    assert!(is_damaged);
    fs::write(&path, &bytes).unwrap();
    let store = BTree::open(&path).unwrap();
    let mut transaction = store.write().unwrap();
    let mut table = transaction.multi_table("t").unwrap().unwrap();
    let mut failed = 0;
    for _ in 0..40 {
        failed += u64::from(table.insert_at(b"k", Position::After(0), b"new").is_err());
    }
    assert!(failed > 0, "there was always room");
    assert!(transaction.commit().is_err());
    assert_eq!(store.read().unwrap().multi_table("t").unwrap().unwrap().len(), 33);
}

#[test]
fn a_cursor_that_changes_leaves_out_of_order_comes_to_an_end() {
    sys::give_up_after(600);
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = made(folder.path(), |store| {
        let mut transaction = store.write().unwrap();
        for i in 0..40u32 {
            transaction.main().insert(&(i * 1000).to_bytes(), b"valueABC").unwrap();
        }
        transaction.commit().unwrap();
    });
    let page = places(&bytes, b"valueABC")[0] / PAGE * PAGE;
    for round in 0..rounds(150) {
        let mut rng = Rng::new(seed(round));
        let mut bytes = bytes.clone();
        for _ in 0..rng.below(10) + 1 {
            let at = page + 48 + 4 * rng.below(40) as usize;
            bytes[at..at + 4].copy_from_slice(&(rng.below(60_000) as u32).to_le_bytes());
        }
        for way in 0..3 {
            fs::write(&path, &bytes).unwrap();
            let store = BTree::open(&path).unwrap();
            let mut transaction = store.write().unwrap();
            let mut cursor = transaction.main().cursor();
            let mut steps = 0;
            while let Ok(true) = cursor.next() {
                steps += 1;
                assert!(steps <= 1000, "round {round}, way {way}: no end");
                let done = match way {
                    0 => cursor.put(b"valueXYZ"),
                    1 => cursor.remove(),
                    _ if steps % 2 == 0 => cursor.remove(),
                    _ => Ok(()),
                };
                if done.is_err() {
                    break;
                }
            }
        }
    }
}

/// The same where it goes on by values and by keys.
#[test]
fn a_cursor_that_changes_values_out_of_order_comes_to_an_end() {
    type Step = fn(&mut MultiCursorMut<'_, '_>) -> Result<bool>;
    let steps: [Step; 4] = [
        |cursor| cursor.next(),
        |cursor| if cursor.next_value()? { Ok(true) } else { cursor.next() },
        |cursor| cursor.next_key(),
        |cursor| match cursor.key() {
            None => cursor.last(),
            Some(_) => {
                if cursor.previous_value()? {
                    Ok(true)
                } else {
                    cursor.previous()
                }
            }
        },
    ];
    sys::give_up_after(600);
    let folder = tempfile::tempdir().unwrap();
    let options = TableOptions::of_keys::<u32>().duplicates(Duplicates::Inserted);
    let (path, bytes) = made(folder.path(), |store| {
        let mut transaction = store.write().unwrap();
        transaction.create_table_with("t", &options).unwrap();
        let mut table = transaction.multi_table("t").unwrap().unwrap();
        for i in 0..40u32 {
            table.insert(&(0x4141_4141 + i * 1000).to_bytes(), b"valueABC").unwrap();
        }
        transaction.commit().unwrap();
    });
    let page = places(&bytes, b"valueABC")[0] / PAGE * PAGE;
    for round in 0..rounds(150) {
        let mut rng = Rng::new(seed(round));
        let mut bytes = bytes.clone();
        for _ in 0..rng.below(20) + 1 {
            let [to, from] = [0; 2].map(|_| page + 40 + rng.below(900) as usize);
            let len = [1, 2, 4, 8, 12][rng.below(5) as usize];
            bytes.copy_within(from..from + len, to);
        }
        for (way, step) in steps.iter().enumerate() {
            fs::write(&path, &bytes).unwrap();
            let store = BTree::open(&path).unwrap();
            let mut transaction = store.write().unwrap();
            let Ok(Some(table)) = transaction.multi_table("t") else { continue };
            let (before, inserts) = (table.len(), way == 0 && round % 2 == 0);
            let (mut cursor, mut count, mut done) = (table.cursor(), 0, Ok(()));
            while done.is_ok() && matches!(step(&mut cursor), Ok(true)) {
                count += 1;
                assert!(count <= 1000, "round {round}, way {way}: no end");
                done = if inserts { cursor.insert_before(b"new") } else { cursor.put(b"valueXYZ") };
                done = done.and_then(|()| if inserts { cursor.next().map(drop) } else { Ok(()) });
            }
            // What was said to be done was, and nothing else.
            if done.is_ok() {
                let table = transaction.multi_table("t").unwrap().unwrap();
                let expected = if inserts { before + count } else { before };
                assert_eq!(table.len(), expected, "round {round}, way {way}");
            }
        }
    }
}

/// A store with a table of three numbered records, in whose catalog `damage` changes something: it is
/// told where the table's kind stands.
fn numbered(folder: &Path, damage: impl Fn(&mut [u8], usize)) -> BTree {
    let options = TableOptions::of_keys::<u64>().numbered(true);
    let (path, mut bytes) = made(folder, |store| {
        let mut transaction = store.write().unwrap();
        transaction.create_table_with("log", &options).unwrap();
        let mut log = transaction.table("log").unwrap().unwrap();
        for _ in 0..3 {
            log.append(b"entry").unwrap();
        }
        transaction.commit().unwrap();
    });
    let words = [(5u64 | 1 << 10).to_le_bytes(), 3u64.to_le_bytes()].concat();
    let found = places(&bytes, &words);
    assert!(!found.is_empty());
    found.into_iter().for_each(|at| damage(&mut bytes, at));
    fs::write(&path, &bytes).unwrap();
    BTree::open(&path).unwrap()
}

#[test]
fn a_number_that_was_given_is_an_error_and_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let store = numbered(folder.path(), |bytes, at| bytes[at + 8] = 0);
    assert!(store.verify(|_, _| ()).is_err());
    let mut transaction = store.write().unwrap();
    let mut log = transaction.table("log").unwrap().unwrap();
    assert!(log.append(b"new").unwrap_err().is_bad_file());
    assert_eq!(log.len(), 3);
}

#[test]
fn kinds_and_counts_that_cannot_be_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for kind in [1 << 10, 4 << 10 | 5, 1 << 10 | 1 << 8 | 5, 9, 3 << 8] {
        let store = numbered(folder.path(), |bytes, at| {
            bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(kind));
        });
        assert!(store.read().unwrap().table("log").is_err(), "{kind:#x}");
        assert!(store.write().unwrap().table("log").is_err(), "{kind:#x}");
        assert!(store.verify(|_, _| ()).is_err(), "{kind:#x}");
    }
    let store = numbered(folder.path(), |bytes, at| bytes[at - 8..at].fill(0xff));
    let mut transaction = store.write().unwrap();
    let mut log = transaction.table("log").unwrap().unwrap();
    for _ in 0..3 {
        log.append(b"a count that cannot be").unwrap();
    }
    drop(transaction);
    assert!(store.verify(|_, _| ()).is_err());
}

/// Danger: damage that is found only when keys are made of their bytes, or a place among values is looked for, and of which
/// nobody says in which file it is.
#[test]
fn damage_names_its_file_wherever_it_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let [name, key] = ["a table of texts", "a key that is a text"];
    let (path, bytes) = made(folder.path(), |store| {
        let mut transaction = store.write().unwrap();
        let texts = TableOptions::of_keys::<str>();
        let several = texts.clone().duplicates(Duplicates::Sorted);
        transaction.create_table_with(name, &texts).unwrap();
        transaction.create_table_with("several", &several).unwrap();
        transaction.table(name).unwrap().unwrap().insert(key.as_bytes(), b"1").unwrap();
        let mut several = transaction.multi_table("several").unwrap().unwrap();
        several.insert(key.as_bytes(), b"1").unwrap();
        let inserted = TableOptions::new().duplicates(Duplicates::Inserted);
        transaction.create_table_with("inserted", &inserted).unwrap();
        let mut inserted = transaction.multi_table("inserted").unwrap().unwrap();
        for key in [b"aaaa", &b"aaaaa"[..]] {
            inserted.insert(key, b"value").unwrap();
        }
        transaction.commit().unwrap();
    });
    let open = |wanted: &[u8], now: u8| {
        let mut bytes = bytes.clone();
        let found = places(&bytes, wanted);
        assert!(!found.is_empty());
        found.into_iter().for_each(|at| bytes[at + wanted.len() - 1] = now);
        fs::write(&path, &bytes).unwrap();
        BTree::open(&path).unwrap()
    };
    fn check<T>(path: &Path, found: Result<T>) {
        let error = found.err().unwrap();
        assert!(error.is_bad_file() && error.path() == Some(path), "{error}");
    }
    let store = open(&name.as_bytes()[8..], 0xff);
    check(&path, store.read().unwrap().tables());
    check(&path, store.write().unwrap().tables());
    drop(store);

    let store = open(&key.as_bytes()[..8], 0xff);
    let snapshot = store.read().unwrap();
    // Tables of one value a key and of several have types of their own.
    macro_rules! check_reads {
        ($table:expr) => {
            let table = $table;
            check(&path, table.first());
            check(&path, table.last());
            check(&path, table.at_or_after(""));
            check(&path, table.after(""));
            check(&path, table.before("b"));
            check(&path, table.at_or_before("b"));
            check(&path, table.iter().next().unwrap());
            check(&path, table.range(.."b").next_back().unwrap());
            let mut cursor = table.cursor();
            assert!(cursor.first().unwrap());
            check(&path, cursor.key());
        };
    }
    check_reads!(snapshot.table(name).unwrap().unwrap().typed::<str>().unwrap());
    check_reads!(snapshot.multi_table("several").unwrap().unwrap().typed::<str>().unwrap());
    let mut transaction = store.write().unwrap();
    let mut table = transaction.table(name).unwrap().unwrap();
    check(&path, table.typed::<str>().unwrap().pop_first());
    check(&path, table.typed::<str>().unwrap().pop_last());
    let mut cursor = table.typed::<str>().unwrap().cursor();
    assert!(cursor.first().unwrap());
    check(&path, cursor.key());
    let mut table = transaction.multi_table("several").unwrap().unwrap();
    check(&path, table.typed::<str>().unwrap().pop_first());
    check(&path, table.typed::<str>().unwrap().pop_last());
    let mut cursor = table.typed::<str>().unwrap().cursor();
    assert!(cursor.first().unwrap());
    check(&path, cursor.key());
    drop(transaction);
    drop(snapshot);
    drop(store);

    // The heads of both pairs, of which the second becomes one of the first key, with a label of nine bytes.
    let store = open(&[0, 0, 0x80, 0, 0, 0x80, 0, b'a'], 0);
    let mut transaction = store.write().unwrap();
    let mut table = transaction.multi_table("inserted").unwrap().unwrap();
    check(&path, table.insert(b"aaaa", b"last"));
    check(&path, table.insert_at(b"aaaa", Position::After(0), b"behind"));
    let mut cursor = table.cursor();
    assert!(cursor.find(b"aaaa").unwrap());
    check(&path, cursor.insert_after(b"behind"));
}
