//! Danger: a store that goes from one engine to the other loses records, mixes two moments, or
//! appears half.

use credenza::btree::BTree;
use credenza::constant::{Builder, Constant};
use credenza::hash::{Batch, Hash};
use credenza::{BTreeBuilder, BTreeLoad, Get, HashBuilder, Scan, freeze, thaw, thaw_btree};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys and values of many lengths, none among them.
fn records(n: u32) -> Map {
    let record = |i: u32| {
        let key = i.to_string().repeat(i as usize % 7).into_bytes();
        (key, vec![i as u8; (i * i % 1013) as usize])
    };
    (0..n).map(record).collect()
}

fn all(store: &impl Scan) -> Map {
    let mut map = Map::new();
    let put = |key: &[u8], value: &[u8]| {
        assert!(map.insert(key.to_vec(), value.to_vec()).is_none(), "a key twice");
        Ok(())
    };
    store.scan(put).expect("a scan");
    map
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |e: std::io::Result<std::fs::DirEntry>| e.expect("an entry").file_name();
    let mut names: Vec<_> = entries.map(|e| name(e).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn constant_of(path: &Path, records: &[(&str, &str)]) -> Constant {
    let mut builder = Builder::create(path).expect("a builder");
    for (key, value) in records {
        builder.add(key.as_bytes(), value.as_bytes()).expect("it is added");
    }
    builder.finish().expect("a file");
    Constant::open(path).expect("the file")
}

/// Else nobody could write while records are waited for.
/// Somebody makes a store where one is to be while it is being made.
#[test]
fn what_is_made_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Hash::in_memory().expect("a store");
    source.insert(b"key", b"value").expect("a record");
    for (n, thaws) in [(0, true), (1, false)] {
        let path = folder.path().join(format!("target{n}"));
        let theirs = |_, _| std::fs::write(&path, "theirs").expect("a file");
        let error = match thaws {
            true => thaw(&source, &path, theirs).expect_err("it is there"),
            false => thaw_btree(&source, &path, theirs).expect_err("it is there"),
        };
        assert!(error.to_string().contains("there is a file already"), "{error}");
        assert_eq!(std::fs::read(&path).expect("it stays"), b"theirs");
    }
    assert_eq!(names(&folder), ["target0", "target1"]);
}

#[test]
fn a_load_without_records_keeps_nobody_waiting() {
    let store = BTree::in_memory().expect("a store");
    let transaction = store.write().expect("a transaction");
    let mut load = BTreeLoad::begin(&store, None);
    load.memory_budget(1 << 20).expect("it is noted");
    // It ends with nothing done while another has the right to write.
    drop(load);
    transaction.commit().expect("it is committed");
}

#[test]
fn records_go_round_and_progress_ends() {
    let folder = TempDir::new().expect("a folder");
    let records = records(20_000);
    let store = Hash::in_memory().expect("a store");
    for (key, value) in &records {
        store.insert(key, value).expect("it is put");
    }
    let total = records.len() as u64;
    let (frozen, path) = (folder.path().join("frozen"), folder.path().join("thawed"));
    let mut last = (0, 0);
    let stats = freeze(&store, &frozen, |done, of| last = (done, of)).expect("it is frozen");
    assert_eq!((stats.records, last), (total, (total, total)));
    let frozen = Constant::open(&frozen).expect("the file");
    frozen.verify(|_, _| {}).expect("it is whole");
    assert!(all(&frozen) == records);
    let mut last = (0, 0);
    let thawed = thaw(&frozen, &path, |done, of| last = (done, of)).expect("it is thawed");
    assert_eq!(last, (total, total));
    assert!(all(&thawed) == records);
    let stats = thawed.stats().expect("statistics");
    assert_eq!(stats.durable_changes, stats.changes, "it is on the disk");
    drop(thawed);
    let again = Hash::open(&path).expect("the store");
    again.verify(|_, _| {}).expect("it is whole");
    again.insert(b"more", b"").expect("it can be changed");
    assert_eq!(names(&folder), ["frozen", "thawed", "thawed-index"]);
}

/// A batch gives all keys one value, again and again: what `make` makes of the store meanwhile must have one value, too.
fn check_moments(make: impl Fn(&Hash, &Path) -> Map) {
    let folder = TempDir::new().expect("a folder");
    let store = Hash::create(folder.path().join("store")).expect("a store");
    let write = |round: u64| {
        let mut batch = Batch::new();
        (0..2000u32).for_each(|key| {
            batch.insert(&key.to_le_bytes(), &round.to_le_bytes());
        });
        store.batch(&batch).expect("it is written");
    };
    write(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| (1..).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(write));
        for i in 0..20 {
            let made = make(&store, &folder.path().join(format!("made-{i}")));
            let values: Vec<Vec<u8>> = made.into_values().collect();
            assert_eq!(values.len(), 2000);
            assert!(values.iter().all(|value| *value == values[0]), "two moments in one file");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_frozen_file_is_of_one_moment() {
    check_moments(|store, path| {
        freeze(store, path, |_, _| {}).expect("it is frozen");
        all(&Constant::open(path).expect("the file"))
    });
}

/// Also where it is not known to be a hash store.
#[test]
fn a_thawed_store_is_of_one_moment() {
    check_moments(|store, path| all(&thaw(store, path, |_, _| {}).expect("it is thawed")));
    check_moments(|store, path| all(&thaw_btree(store, path, |_, _| {}).expect("it is thawed")));
    let thaw_any = |store: &Hash, path: &Path| {
        let store = credenza::open(store.path().expect("a path")).expect("the store");
        thaw_btree(&store, path, |_, _| {}).expect("it is thawed")
    };
    check_moments(|store, path| all(&thaw_any(store, path)));
}

#[test]
fn a_store_for_reading_and_one_in_a_transaction_are_frozen() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("store");
    let store = Hash::create(&path).expect("a store");
    store.insert(b"k", b"v").expect("it is put");
    let mut transaction = store.transaction().expect("a transaction");
    transaction.insert(b"other", b"").expect("it is put");
    let frozen = folder.path().join("frozen");
    assert_eq!(freeze(&store, &frozen, |_, _| {}).expect("it is frozen").records, 1);
    transaction.commit().expect("it is committed");
    let reader = Hash::options().read_only(true).open(&path).expect("the store");
    assert_eq!(freeze(&reader, &frozen, |_, _| {}).expect("it is frozen").records, 2);
}

#[test]
fn the_store_itself_is_no_target() {
    let folder = TempDir::new().expect("a folder");
    let (path, link) = (folder.path().join("store"), folder.path().join("link"));
    let store = Hash::create(&path).expect("a store");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    for target in [&path, &link] {
        let error = freeze(&store, target, |_, _| {}).expect_err("the store itself");
        assert!(error.to_string().contains("the store itself"), "{error}");
        let error = thaw(&store, target, |_, _| {}).expect_err("it is there");
        assert!(error.to_string().contains("there is a file already"), "{error}");
    }
    store.insert(b"k", b"v").expect("it is as it was");
    // By no name that it had, either.
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    std::fs::create_dir(&old).expect("a folder");
    let hash = Hash::create(old.join("hash")).expect("a store");
    let btree = BTree::create(old.join("btree")).expect("a store");
    std::fs::rename(&old, &new).expect("another name");
    freeze(&hash, new.join("hash"), |_, _| {}).expect_err("the store itself");
    freeze(&btree, new.join("btree"), |_, _| {}).expect_err("the store itself");
    hash.insert(b"k", b"v").expect("it is as it was");
    drop((hash, btree));
    assert_eq!(Hash::open(new.join("hash")).expect("the store").len().expect("its length"), 1);
    BTree::open(new.join("btree")).expect("the store");
}

/// What lies where the index goes, and cannot make way, was met when the store was in its place.
#[test]
fn a_store_that_cannot_have_its_index_does_not_appear() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("store");
    std::fs::create_dir(folder.path().join("store-index")).expect("a folder");
    let records = Hash::in_memory().expect("a store");
    records.insert(b"k", b"v").expect("it is put");
    thaw(&records, &path, |_, _| {}).expect_err("there is a folder");
    assert_eq!(names(&folder), ["store-index"], "nothing else is left");
    std::fs::remove_dir(folder.path().join("store-index")).expect("it is empty");
    assert_eq!(thaw(&records, &path, |_, _| {}).expect("a store").len().expect("its length"), 1);
}

/// Whose folder is renamed while the copy is made, and who is opened only then.
#[test]
fn a_backup_replaces_no_store_that_is_open_also_in_a_renamed_folder() {
    let folder = TempDir::new().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let hash = Hash::in_memory().expect("a store");
    hash.insert(b"k", b"v").expect("it is put");
    let btree = BTree::in_memory().expect("a store");
    std::fs::create_dir(&old).expect("a folder");
    drop((Hash::create(old.join("hash")).unwrap(), BTree::create(old.join("btree")).unwrap()));
    let mut open = None;
    let progress = |_: u64, _: u64| {
        open.get_or_insert_with(|| {
            std::fs::rename(&old, &new).unwrap();
            Hash::open(new.join("hash")).unwrap()
        });
    };
    hash.backup(old.join("hash"), progress).expect_err("it is open");
    open.expect("it is open").insert(b"other", b"v").expect("it is as it was");
    let mut open = None;
    let progress = |_: u64, _: u64| {
        open.get_or_insert_with(|| {
            std::fs::rename(&new, &old).unwrap();
            BTree::open(old.join("btree")).unwrap()
        });
    };
    btree.backup(new.join("btree"), progress).expect_err("it is open");
    let store = Hash::open(old.join("hash")).expect("the store");
    assert_eq!(store.get(b"other").expect("it is read").as_deref(), Some(&b"v"[..]));
}

#[test]
fn several_values_of_a_key_are_never_lost_silently() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("thawed");
    let twice = [("a", "1"), ("b", "2"), ("a", "3"), ("a", "3")];
    let constant = constant_of(&folder.path().join("constant"), &twice);
    let error = thaw(&constant, &path, |_, _| {}).expect_err("two values");
    assert!(error.to_string().contains("2 more than there are keys"), "{error}");
    assert_eq!(names(&folder), ["constant"], "nothing else is left");
}

#[test]
fn a_builder_replaces_whole_stores_or_leaves_nothing() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("store");
    let old = Hash::create(&path).expect("a store");
    old.insert(b"k", b"old").expect("it is put");
    drop(old);
    let old = Hash::options().read_only(true).open(&path).expect("the store");
    let mut builder = HashBuilder::create(&path).expect("a builder");
    for i in 0..10_000u32 {
        builder.add(&i.to_le_bytes(), b"new").expect("it is added");
    }
    assert_eq!(builder.replaced().expect("a number"), 0);
    drop(builder);
    assert_eq!(names(&folder), ["store", "store-index"]);
    let mut builder = HashBuilder::create(&path).expect("a builder");
    builder.add(b"k", b"first").expect("it is added");
    builder.add(b"k", b"new").expect("it is added");
    assert_eq!(builder.replaced().expect("a number"), 1);
    assert_eq!(old.get(b"k").expect("a lookup").as_deref(), Some(&b"old"[..]));
    let new = builder.finish().expect("a store");
    assert_eq!(new.get(b"k").expect("a lookup").as_deref(), Some(&b"new"[..]));
    assert_eq!(old.get(b"k").expect("a lookup").as_deref(), Some(&b"old"[..]));
    assert_eq!(new.len().expect("a number"), 1);
    new.verify(|_, _| {}).expect("it is whole");
    drop((old, new));
    let again = Hash::open(&path).expect("the store");
    assert_eq!(again.get(b"k").expect("a lookup").as_deref(), Some(&b"new"[..]));
    assert_eq!(names(&folder), ["store", "store-index"]);
    drop(again);
    let over = HashBuilder::create(&path).and_then(|mut b| {
        b.add(&[0; 65537], b"")?;
        b.finish()
    });
    assert!(over.expect_err("a long key").to_string().contains("65536 bytes"));
    assert_eq!(Hash::open(&path).expect("the store").len().expect("a number"), 1);
    assert_eq!(names(&folder), ["store", "store-index"]);
}

#[test]
fn targets_that_cannot_be_are_refused() {
    let folder = TempDir::new().expect("a folder");
    let store = Hash::in_memory().expect("a store");
    for target in
        [folder.path().to_owned(), folder.path().join("no/such/folder"), "/dev/null".into()]
    {
        assert!(HashBuilder::create(&target).is_err(), "{}", target.display());
        assert!(BTreeBuilder::create(&target).is_err(), "{}", target.display());
        assert!(thaw(&store, &target, |_, _| {}).is_err(), "{}", target.display());
        assert!(freeze(&store, &target, |_, _| {}).is_err(), "{}", target.display());
    }
    assert!(names(&folder).is_empty());
}

/// What a btree store has in its main table.
fn btree_of(path: &Path, records: &Map) -> BTree {
    let store = BTree::create(path).expect("a store");
    let mut load = BTreeLoad::begin(&store, None);
    for (key, value) in records {
        load.add(key, value).expect("it is added");
    }
    load.finish().expect("it is committed");
    store
}

#[test]
fn btree_stores_go_round_and_progress_ends() {
    let folder = TempDir::new().expect("a folder");
    let records = records(20_000);
    let total = records.len() as u64;
    let [tree, frozen, hash, back] =
        ["tree", "frozen", "hash", "back"].map(|name| folder.path().join(name));
    let store = btree_of(&tree, &records);
    store.verify(|_, _| {}).expect("it is whole");
    let mut last = (0, 0);
    let stats = freeze(&store, &frozen, |done, of| last = (done, of)).expect("it is frozen");
    assert_eq!((stats.records, last), (total, (total, total)));
    let frozen = Constant::open(&frozen).expect("the file");
    assert!(all(&frozen) == records);
    assert!(all(&thaw(&store, &hash, |_, _| {}).expect("it is thawed")) == records);
    let mut last = (0, 0);
    // A constant file is in no order of keys.
    let thawed = thaw_btree(&frozen, &back, |done, of| last = (done, of)).expect("it is thawed");
    assert_eq!(last, (total, total));
    assert!(all(&thawed) == records);
    thawed.verify(|_, _| {}).expect("it is whole");
    assert!(thawed.stats().expect("statistics").is_durable, "it is on the disk");
    thawed.insert(b"more", b"").expect("it can be changed");
    for target in [&tree, &back] {
        let error = thaw_btree(&frozen, target, |_, _| {}).expect_err("it is there");
        assert!(error.to_string().contains("there is a file already"), "{error}");
    }
    let error = freeze(&store, &tree, |_, _| {}).expect_err("the store itself");
    assert!(error.to_string().contains("the store itself"), "{error}");
    assert_eq!(names(&folder), ["back", "frozen", "hash", "hash-index", "tree"]);
}

#[test]
fn a_btree_store_has_one_value_a_key() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("thawed");
    let twice = [("a", "1"), ("b", "2"), ("a", "3"), ("a", "3")];
    let constant = constant_of(&folder.path().join("constant"), &twice);
    let error = thaw_btree(&constant, &path, |_, _| {}).expect_err("two values");
    assert!(error.to_string().contains("2 more than there are keys"), "{error}");
    assert_eq!(names(&folder), ["constant"], "nothing else is left");
}

/// Sorted up to a point, and from there on in any order, with keys that come again.
#[test]
fn a_load_takes_records_in_any_order() {
    let number = |i: u32| format!("{i:05}").into_bytes();
    for sorted in [0, 1, 2, 5000, 10_000] {
        for is_empty in [true, false] {
            let store = BTree::in_memory().expect("a store");
            if !is_empty {
                store.insert(&number(9), b"old").expect("it is put");
            }
            let mut load = BTreeLoad::begin(&store, None);
            let others = (sorted..10_000).rev().chain(0..sorted / 2);
            for (added, i) in (0..).zip((0..sorted).chain(others)) {
                load.add(&number(i), &number(added)).expect("it is added");
            }
            let replaced = u64::from(sorted / 2) + u64::from(!is_empty);
            assert_eq!(load.replaced().expect("a number"), replaced, "{sorted} {is_empty}");
            let seen = store.len().expect("a number");
            assert_eq!(seen, u64::from(!is_empty), "nothing is seen before it is finished");
            load.finish().expect("it is committed");
            assert_eq!(store.len().expect("a number"), 10_000);
            let snapshot = store.read().expect("a snapshot");
            for i in 0..10_000 {
                let last = match i {
                    i if i < sorted / 2 => 10_000 + i,
                    i if i < sorted => i,
                    i => sorted + (9999 - i),
                };
                let value = snapshot.main().get(&number(i)).expect("a lookup");
                assert_eq!(value, Some(&number(last)[..]), "{i} of {sorted} {is_empty}");
            }
            drop(snapshot);
            store.verify(|_, _| {}).expect("it is whole");
        }
    }
}

#[test]
fn a_load_that_fails_or_is_dropped_leaves_the_store_as_it_was() {
    let store = BTree::in_memory().expect("a store");
    store.insert(b"k", b"v").expect("it is put");
    let mut load = BTreeLoad::begin(&store, None);
    load.add(b"k", b"new").expect("it is added");
    drop(load);
    let mut load = BTreeLoad::begin(&store, None);
    load.add(b"k", b"new").expect("it is added");
    load.add(&[0; 65_537], b"").expect("it is noted");
    let error = load.replaced().expect_err("a long key").to_string();
    assert!(error.contains("65536 bytes"), "{error}");
    let error = load.add(b"k", b"").and_then(|()| load.finish()).expect_err("it is over");
    assert!(error.to_string().contains("failed before"), "{error}");
    let error = BTreeLoad::begin(&store, Some("none")).finish().expect_err("no table");
    assert!(error.to_string().contains("no table \"none\""), "{error}");
    assert_eq!(store.get(b"k").expect("a lookup").as_deref(), Some(&b"v"[..]));
    store.insert(b"k", b"still").expect("nobody has the lock");
}

#[test]
fn a_btree_builder_replaces_whole_stores_or_leaves_nothing() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("store");
    let old = BTree::create(&path).expect("a store");
    old.insert(b"k", b"old").expect("it is put");
    drop(old);
    let read = || BTree::options().read_only(true).open(&path).expect("the store");
    let old = read();
    let mut builder = BTreeBuilder::create(&path).expect("a builder");
    for i in 0..10_000u32 {
        builder.add(&i.to_le_bytes(), b"new").expect("it is added");
    }
    assert_eq!(builder.replaced().expect("a number"), 0);
    drop(builder);
    assert_eq!(names(&folder), ["store"]);
    let mut builder = BTreeBuilder::create(&path).expect("a builder");
    builder.add(b"k", b"first").expect("it is added");
    builder.add(b"k", b"new").expect("it is added");
    assert_eq!(builder.replaced().expect("a number"), 1);
    builder.begin_table("more").expect("a table");
    builder.add(b"a", b"1").expect("it is added");
    let new = builder.finish().expect("a store");
    assert_eq!(new.get(b"k").expect("a lookup").as_deref(), Some(&b"new"[..]));
    assert_eq!(old.get(b"k").expect("a lookup").as_deref(), Some(&b"old"[..]));
    new.verify(|_, _| {}).expect("it is whole");
    drop((old, new));
    let again = read();
    let snapshot = again.read().expect("a snapshot");
    let table = snapshot.table("more").expect("a lookup").expect("the table");
    assert_eq!((snapshot.main().len(), table.len()), (1, 1));
    drop(snapshot);
    let over = BTreeBuilder::create(&path).and_then(|mut b| {
        b.add(&[0; 65537], b"")?;
        b.finish()
    });
    assert!(over.expect_err("a long key").to_string().contains("65536 bytes"));
    let mut builder = BTreeBuilder::create(&path).expect("a builder");
    assert!(builder.begin_table("").is_err(), "a table without a name");
    drop(builder);
    assert_eq!(again.len().expect("a number"), 1);
    assert_eq!(names(&folder), ["store"]);
}
