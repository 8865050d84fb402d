//! Danger: a file that was written by an earlier version and is not read any more, or otherwise.
//!
//! `tests/fixtures` has a store of each engine as the first version of its format was written (those of
//! constant files are checked in `tests/format.rs`). They are never written again: a change of a format
//! is a new version, with files of its own beside these. `CREDENZA_GOLDEN=write` makes those that are
//! missing.

use credenza::btree::{BTree, Duplicates, Key, Position, TableOptions};
use credenza::hash::Hash;
use credenza::{Get, Scan};
use std::fs;
use std::path::{Path, PathBuf};

/// Records with all that is stored in a way of its own: nothing, zeros, what is too long for a page.
fn records() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records: Vec<_> = (0..60u32)
        .map(|i| (format!("key {i:03}").into_bytes(), format!("{}", i * i).into_bytes()))
        .collect();
    records.push((b"\0".to_vec(), b"zero".to_vec()));
    records.push((b"empty".to_vec(), Vec::new()));
    records.push((vec![b'k'; 700], b"a long key".to_vec()));
    records.push((b"packed".to_vec(), vec![b'p'; 900]));
    records.push((b"long".to_vec(), vec![b'v'; 5000]));
    records.sort();
    records
}

/// A copy of the file of this name; where it is missing, `make` may make it.
fn golden(folder: &Path, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    if !fixture.exists() && std::env::var_os("CREDENZA_GOLDEN").is_some_and(|v| v == "write") {
        let path = folder.join("new");
        make(&path);
        fs::create_dir_all(fixture.parent().unwrap()).unwrap();
        fs::copy(&path, &fixture).unwrap();
    }
    let copy = folder.join("store");
    fs::copy(&fixture, &copy).unwrap_or_else(|e| panic!("{}: {e}", fixture.display()));
    copy
}

fn check(store: &(impl Get + Scan)) {
    for (key, value) in records() {
        assert_eq!(store.get(&key).unwrap().as_deref(), Some(&value[..]), "{key:?}");
    }
    let mut scanned = Vec::new();
    let put = |key: &[u8], value: &[u8]| {
        scanned.push((key.to_vec(), value.to_vec()));
        Ok(())
    };
    store.scan(put).unwrap();
    scanned.sort();
    assert!(scanned == records());
    assert_eq!(store.get(b"absent").unwrap(), None);
}

/// `mixed-v1` is from before checksums were movable, `movable-v1` from before segments named each other by number,
/// `numbered-v1` from before removals of long keys named the put.
#[test]
fn hash_files_of_version_1_are_read_and_written() {
    for name in ["mixed", "movable", "numbered", "removals"].map(|n| format!("hash/{n}-v1.hash")) {
        let folder = tempfile::tempdir().unwrap();
        let path = golden(folder.path(), &name, |path| {
            let store = Hash::create(path).unwrap();
            for (key, value) in records() {
                store.insert(&key, b"replaced").unwrap();
                store.insert(&key, &value).unwrap();
            }
            store.insert(b"removed", b"").unwrap();
            assert!(store.remove(b"removed").unwrap());
            store.insert(&[b'r'; 60], b"").unwrap();
            assert!(store.remove(&[b'r'; 60]).unwrap());
        });
        // Without an index, which is made again.
        let store = Hash::open(&path).unwrap();
        store.verify(|_, _| ()).unwrap();
        check(&store);
        for new in [&b"new"[..], &[b'n'; 60]] {
            store.insert(new, b"value").unwrap();
            assert!(store.remove(new).unwrap());
        }
        // Every record is copied.
        while store.compact(1 << 16).unwrap() {}
        check(&store);
        store.verify(|_, _| ()).unwrap();
    }
}

/// `mixed-v1` is from before keys had tags.
#[test]
fn btree_files_of_version_1_are_read_and_written() {
    for (name, features) in [("mixed", 0u32), ("tags", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let path = golden(folder.path(), &format!("btree/{name}-v1.btree"), make_btree);
        // What programs must understand that read it: it stays as it was.
        assert_eq!(fs::read(&path).unwrap()[28..32], features.to_le_bytes());
        use_btree(&path);
        assert_eq!(fs::read(&path).unwrap()[28..32], features.to_le_bytes());
    }
}

fn use_btree(path: &Path) {
    let store = BTree::open(path).unwrap();
    store.verify(|_, _| ()).unwrap();
    check(&store);
    let snapshot = store.read().unwrap();
    assert_eq!(snapshot.tables().unwrap(), ["inserted", "log", "mine", "numbers", "sorted"]);
    let numbers = snapshot.table("numbers").unwrap().unwrap().typed::<i64>().unwrap();
    let keys: Vec<i64> = numbers.iter().map(|pair| pair.unwrap().0).collect();
    assert_eq!(keys, [-300, -1, 0, 7]);
    let mine = snapshot.table_options("mine").unwrap().unwrap();
    assert_eq!(mine.keys().name(), "a program's own");
    let values = |name: &str| -> Vec<Vec<u8>> {
        let table = snapshot.multi_table(name).unwrap().unwrap();
        table.values(b"k\x01").map(|value| value.unwrap().into_owned()).collect()
    };
    assert_eq!(values("sorted"), [b"1", b"2", b"3"]);
    assert_eq!(values("inserted"), [b"2", b"3", b"1"]);
    let log = snapshot.table("log").unwrap().unwrap();
    assert_eq!((log.len(), log.last_number()), (1, 2));
    drop(snapshot);
    let mut transaction = store.write().unwrap();
    assert_eq!(transaction.table("log").unwrap().unwrap().append(b"third").unwrap(), 3);
    transaction.main().insert(b"new", &[7; 3000]).unwrap();
    transaction.main().remove(b"new").unwrap();
    // Enough for leaves to be parted, and written anew.
    let more = |i: u32| format!("more of them {i:04}").into_bytes();
    for i in 0..2000 {
        transaction.main().insert(&more(i), &vec![b'm'; i as usize % 50]).unwrap();
    }
    for i in 0..2000 {
        assert_eq!(
            transaction.main().get(&more(i)).unwrap().map(<[u8]>::len),
            Some(i as usize % 50)
        );
    }
    transaction.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
    let mut transaction = store.write().unwrap();
    for i in 0..2000 {
        assert!(transaction.main().remove(&more(i)).unwrap());
    }
    transaction.commit().unwrap();
    check(&store);
    store.verify(|_, _| ()).unwrap();
}

fn make_btree(path: &Path) {
    let store = BTree::create(path).unwrap();
    let mut transaction = store.write().unwrap();
    for (key, value) in records() {
        transaction.main().insert(&key, &value).unwrap();
    }
    transaction.create_table_with("numbers", &TableOptions::of_keys::<i64>()).unwrap();
    let mut numbers = transaction.table("numbers").unwrap().unwrap();
    for key in [7, -1, 0, -300i64] {
        numbers.insert(&key.to_bytes(), b"").unwrap();
    }
    let mine = TableOptions::new().key_type(credenza::btree::KeyType::named("a program's own"));
    transaction.create_table_with("mine", &mine).unwrap();
    for (name, order) in [("sorted", Duplicates::Sorted), ("inserted", Duplicates::Inserted)] {
        let options = TableOptions::new().duplicates(order);
        transaction.create_table_with(name, &options).unwrap();
        let mut table = transaction.multi_table(name).unwrap().unwrap();
        table.insert(b"k\x01", b"2").unwrap();
        table.insert(b"k\x01", b"1").unwrap();
        if order == Duplicates::Inserted {
            table.insert_at(b"k\x01", Position::After(0), b"3").unwrap();
        } else {
            table.insert(b"k\x01", b"3").unwrap();
        }
    }
    let log = TableOptions::of_keys::<u64>().numbered(true);
    transaction.create_table_with("log", &log).unwrap();
    let mut log = transaction.table("log").unwrap().unwrap();
    assert_eq!([log.append(b"first").unwrap(), log.append(b"second").unwrap()], [1, 2]);
    log.remove(&2u64.to_bytes()).unwrap();
    transaction.commit().unwrap();
}
