//! Danger: what damage made of a record gets a checksum that fits, in a copy that is called good.

mod common;

use credenza::btree::BTree;
use credenza::hash::Hash;
use credenza::{Error, Result};
use std::path::Path;

/// What makes a copy at a path, and its name.
type Copy<'a> = (&'a str, &'a dyn Fn(&Path) -> Result<()>);

const RECORDS: u64 = 400;

fn value(i: u64) -> Vec<u8> {
    format!("the value of number {i}, which is there once").into_bytes()
}

/// Changes one bit of the value of a record.
fn damage(path: &Path, of: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    let value = value(of);
    let at = bytes.windows(value.len()).position(|window| *window == value[..]).unwrap();
    bytes[at + 5] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

/// Each must be refused as damage, leave nothing, and leave what was at the target.
fn all_are_refused(folder: &Path, copies: &[Copy<'_>]) {
    for (name, copy) in copies {
        let target = folder.join("target");
        std::fs::write(&target, "").unwrap();
        let before = std::fs::read_dir(folder).unwrap().count();
        let error: Error = copy(&target).expect_err(name);
        assert!(error.is_bad_file(), "{name}: {error}");
        assert!(!error.to_string().contains("target"), "{name}: {error}");
        assert_eq!(std::fs::read(&target).unwrap(), b"", "{name}");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), before, "{name}");
    }
}

#[test]
fn no_copy_of_a_damaged_btree_looks_whole() {
    let folder = tempfile::tempdir().unwrap();
    for of in [0, 77, RECORDS - 1] {
        let path = folder.path().join("store");
        let store = BTree::create(&path).unwrap();
        for i in 0..RECORDS {
            store.insert(&i.to_le_bytes(), &value(i)).unwrap();
        }
        drop(store);
        damage(&path, of);
        let store = BTree::open(&path).unwrap();
        all_are_refused(
            folder.path(),
            &[
                ("backup", &|target| store.backup(target, |_, _| {}).map(drop)),
                ("backup of a snapshot", &|target| {
                    store.read_for(std::time::Duration::MAX)?.backup(target, |_, _| {}).map(drop)
                }),
                ("freeze", &|target| credenza::freeze(&store, target, |_, _| {}).map(drop)),
                ("scan", &|_| {
                    let mut snapshot = store.read()?;
                    snapshot.check_reads()?;
                    snapshot.main().scan(|_, _| Ok(()))
                }),
            ],
        );
        assert!(store.verify(|_, _| {}).is_err());
        drop(store);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn no_copy_of_a_damaged_hash_store_looks_whole() {
    let folder = tempfile::tempdir().unwrap();
    for of in [0, 77, RECORDS - 1] {
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        for i in 0..RECORDS {
            store.insert(&i.to_le_bytes(), &value(i)).unwrap();
        }
        drop(store);
        damage(&path, of);
        for is_read_only in [false, true] {
            let store = Hash::options().read_only(is_read_only).open(&path).unwrap();
            all_are_refused(
                folder.path(),
                &[
                    ("backup", &|target| store.backup(target, |_, _| {}).map(drop)),
                    ("freeze", &|target| credenza::freeze(&store, target, |_, _| {}).map(drop)),
                    ("records", &|_| store.verify_records(|_, _| {})),
                ],
            );
        }
        std::fs::remove_file(common::hash::index_of(&path)).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}

/// Who writes beside it is no damage.
#[test]
fn records_are_checked_beside_who_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    for i in 0..20_000u64 {
        store.insert(&i.to_le_bytes(), &value(i)).unwrap();
    }
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let other = Hash::open(&path).unwrap();
            for i in 0..100_000u64 {
                other.insert(&(i % 30_000).to_le_bytes(), &value(i)).unwrap();
                if i % 3 == 0 {
                    other.remove(&(i * 7 % 30_000).to_le_bytes()).unwrap();
                }
            }
        });
        let mut checked = 0;
        while !writer.is_finished() {
            let mut last = (0, 1);
            store.verify_records(|done, total| last = (done, total)).unwrap();
            assert!(last.0 <= last.1);
            checked += 1;
        }
        assert!(checked > 3, "{checked}");
    });
    // Within a transaction of this thread, too.
    let transaction = store.transaction().unwrap();
    store.verify_records(|_, _| {}).unwrap();
    drop(transaction);
}

/// Danger: a page that is damaged goes elsewhere, and gets a checksum that fits.
#[test]
fn a_compaction_hides_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for of in [3, 600, 1999] {
        let store = BTree::create(&path).unwrap();
        let key = |i: u64| format!("key {i:05}").into_bytes();
        for i in 0..2000 {
            store.insert(&key(i), &value(i)).unwrap();
        }
        drop(store);
        damage(&path, of);
        let store = BTree::open(&path).unwrap();
        let mut transaction = store.write().unwrap();
        for i in (0..2000u64).filter(|i| i.abs_diff(of) > 150) {
            transaction.main().remove(&key(i)).unwrap();
        }
        transaction.commit().unwrap();
        let done = (0..10_000).find_map(|_| match store.compact(1 << 16) {
            Ok(true) => None,
            done => Some(done),
        });
        let error = done.unwrap().unwrap_err();
        assert!(error.is_bad_file(), "{of}: {error}");
        assert!(store.verify(|_, _| {}).is_err());
        drop(store);
        std::fs::remove_file(&path).unwrap();
    }
}

/// A scan compares no checksums of itself, and so thawing did what it was said to refuse.
#[test]
fn what_is_thawed_with_reads_checked_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("store"), folder.path().join("target"));
    let store = BTree::create(&path).unwrap();
    for i in 0..RECORDS {
        store.insert(&i.to_le_bytes(), &value(i)).unwrap();
    }
    drop(store);
    damage(&path, 77);
    let store = BTree::options().check_reads(true).open(&path).unwrap();
    let error = credenza::thaw(&store, &target, |_, _| {}).unwrap_err();
    assert!(error.is_bad_file() && !target.exists(), "{error}");
}

/// Opened as what it is, and as any store.
#[test]
fn no_damaged_store_is_thawed() {
    let folder = tempfile::tempdir().unwrap();
    let records = || (0..RECORDS).map(|i| (i.to_le_bytes(), value(i)));
    let [frozen, hash, btree] = ["frozen", "hash", "btree"].map(|name| folder.path().join(name));
    let mut builder = credenza::constant::Builder::create(&frozen).unwrap();
    records().for_each(|(key, value)| builder.add(&key, &value).unwrap());
    builder.finish().unwrap();
    let store = Hash::create(&hash).unwrap();
    records().for_each(|(key, value)| store.insert(&key, &value).unwrap());
    drop(store);
    let store = BTree::create(&btree).unwrap();
    for (key, value) in records() {
        store.insert(&key, &value).unwrap();
    }
    drop(store);
    type Thaw<'a> = &'a dyn Fn(&Path, bool) -> Result<u64>;
    let thawed = |source: Thaw<'_>| {
        [false, true].map(|is_ordered| {
            let target = folder.path().join("target");
            let done = source(&target, is_ordered);
            let is_there = target.exists();
            let left = std::fs::read_dir(folder.path()).unwrap();
            for left in left.map(|entry| entry.unwrap().path()) {
                if left.file_name().unwrap().to_string_lossy().contains("target") {
                    std::fs::remove_file(left).unwrap();
                }
            }
            assert_eq!(done.is_ok(), is_there);
            done
        })
    };
    let all: [Thaw<'_>; 6] = [
        &|to, is_ordered| thaw(&credenza::constant::Constant::open(&frozen)?, to, is_ordered),
        &|to, is_ordered| {
            let bytes = std::fs::read(&frozen).unwrap();
            thaw(&credenza::constant::View::new(&bytes)?, to, is_ordered)
        },
        &|to, is_ordered| thaw(&credenza::open(&frozen)?, to, is_ordered),
        &|to, is_ordered| thaw(&Hash::open(&hash)?, to, is_ordered),
        &|to, is_ordered| thaw(&credenza::open(&hash)?, to, is_ordered),
        &|to, is_ordered| thaw(&BTree::open(&btree)?, to, is_ordered),
    ];
    for source in all {
        assert!(thawed(source).into_iter().all(|done| done.unwrap() == RECORDS));
    }
    for path in [&frozen, &hash, &btree] {
        damage(path, 77);
    }
    for source in all {
        for done in thawed(source) {
            assert!(done.unwrap_err().is_bad_file());
        }
    }
}

/// How many records the new store has, a btree or a hash store.
fn thaw(store: &impl credenza::Scan, to: &Path, is_ordered: bool) -> Result<u64> {
    match is_ordered {
        true => Ok(credenza::thaw_btree(store, to, |_, _| {})?.read()?.main().len()),
        false => credenza::thaw(store, to, |_, _| {})?.len(),
    }
}
