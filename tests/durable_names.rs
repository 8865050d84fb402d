//! Danger: a call returns that makes a store, and a power failure takes the store, or its name, back: the file had
//! its name before it was on the disk, or nobody waited for the folder.

mod common;
#[path = "common/syncs.rs"]
mod syncs;

use common::hash::index_of;
use credenza::btree::BTree;
use credenza::constant::Builder;
use credenza::foreign::CdbWriter;
use credenza::hash::{Hash, recover};
use credenza::{BTreeBuilder, Durability, HashBuilder, freeze, thaw, thaw_btree};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn number_of(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// That `make` has the folder on the disk with the new name in it.
fn check_name(what: &str, path: &Path, make: impl FnOnce()) -> Vec<syncs::Wait> {
    let waits = syncs::waits_while(path, make);
    let folder = number_of(path.parent().unwrap());
    let named = Some(number_of(path));
    let is_durable = waits.iter().any(|wait| wait.of == folder && wait.named == named);
    assert!(is_durable, "{what}: nobody waited for the new name");
    waits
}

/// That `make` has the whole file on the disk before that has its name, and then the name.
fn check(what: &str, path: &Path, make: impl FnOnce()) {
    let waits = check_name(what, path, make);
    let (file, len) = (number_of(path), fs::metadata(path).unwrap().len());
    let is_durable =
        waits.iter().any(|wait| wait.of == file && wait.len == len && wait.named != Some(file));
    assert!(is_durable, "{what}: the file has its name before it is on the disk");
}

#[test]
fn what_is_built_is_durable_before_its_name_and_the_name_before_the_call_returns() {
    let folder = tempfile::tempdir().unwrap();
    for is_new in [true, false] {
        let name = |kind: &str| folder.path().join(kind);
        check("constant", &name("constant"), || {
            let mut builder = Builder::create(name("constant")).unwrap();
            builder.add(b"key", b"value").unwrap();
            if is_new { builder.finish_new() } else { builder.finish() }.unwrap();
        });
        check("cdb", &name("cdb"), || {
            let mut writer = CdbWriter::create(name("cdb")).unwrap();
            writer.add(b"key", b"value").unwrap();
            if is_new { writer.finish_new() } else { writer.finish() }.unwrap();
        });
        let hash = name("hash");
        check("hash", &hash, || {
            let mut builder = HashBuilder::create(&hash).unwrap();
            builder.add(b"key", b"value").unwrap();
            drop(if is_new { builder.finish_new() } else { builder.finish() }.unwrap());
        });
        let btree = name("btree");
        check("btree", &btree, || {
            let mut builder = BTreeBuilder::create(&btree).unwrap();
            builder.add(b"key", b"value").unwrap();
            drop(if is_new { builder.finish_new() } else { builder.finish() }.unwrap());
        });
    }
}

/// The index goes with the store: also it is on the disk before it has its name.
#[test]
fn the_index_of_a_built_store_is_durable_before_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let waits = syncs::waits_while(&index_of(&path), || {
        let mut builder = HashBuilder::create(&path).unwrap();
        builder.add(b"key", b"value").unwrap();
        drop(builder.finish().unwrap());
    });
    let index = number_of(&index_of(&path));
    assert!(waits.iter().any(|wait| wait.of == index && wait.named.is_none()));
}

#[test]
fn what_is_made_of_a_store_is_durable_before_its_name_and_the_name_before_the_call_returns() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name);
    let hash = Hash::create(name("hash")).unwrap();
    hash.insert(b"key", b"value").unwrap();
    let btree = BTree::create(name("btree")).unwrap();
    btree.insert(b"key", b"value").unwrap();
    let file = name("backup of hash");
    check("backup of hash", &file, || {
        hash.backup(&file, |_, _| ()).unwrap();
    });
    let file = name("backup of btree");
    check("backup of btree", &file, || {
        btree.backup(&file, |_, _| ()).unwrap();
    });
    let file = name("frozen");
    check("freeze", &file, || drop(freeze(&hash, &file, |_, _| ()).unwrap()));
    let file = name("thawed");
    check("thaw", &file, || drop(thaw(&hash, &file, |_, _| ()).unwrap()));
    let file = name("thawed to btree");
    check("thaw to btree", &file, || drop(thaw_btree(&hash, &file, |_, _| ()).unwrap()));
    drop((hash, btree));
    let file = name("recovered");
    check("recover", &file, || {
        let found = recover(name("hash"), &file, |_, _| ()).unwrap();
        assert_eq!(found.keys, 1);
    });
    let file = name("recovered btree");
    check("recover a btree", &file, || {
        let found = credenza::btree::recover(name("btree"), &file, |_, _| ()).unwrap();
        assert_eq!(found.records, 1);
    });
}

/// What is synced in a store whose name is lost is lost, too.
#[test]
fn the_name_of_a_new_store_is_durable_when_it_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hash");
    check_name("hash", &path, || drop(Hash::create(&path).unwrap()));
    let path = folder.path().join("btree");
    check_name("btree", &path, || drop(BTree::create(&path).unwrap()));
}

/// What others have there would be lost, if the index that gets its name were on the disk before its new name.
#[test]
fn what_makes_way_for_an_index_has_its_new_name_before_another_has_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fs::write(index_of(&path), b"of somebody else").unwrap();
    let other = number_of(&index_of(&path));
    let waits = syncs::waits_while(&index_of(&path), || drop(Hash::create(&path).unwrap()));
    assert_ne!(number_of(&index_of(&path)), other);
    let of_folder = number_of(folder.path());
    assert!(waits.iter().any(|wait| wait.of == of_folder && wait.named.is_none()));
}

/// It may be a copy, of which nothing is on the disk.
#[test]
fn who_may_only_read_waits_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(Hash::create(&path).unwrap());
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    let waits = syncs::waits_while(&path, || reader.sync().unwrap());
    assert!(waits.iter().any(|wait| wait.of == number_of(&path)), "nobody waited for the disk");
}

/// Also where others have it open, so that it is not closed with this.
#[test]
fn who_closes_a_store_that_is_synced_now_and_then_has_all_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let _other = Hash::create(&path).unwrap();
    let interval = Durability::Interval(3_600_000);
    let store = Hash::options().durability(interval).open(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    reader.sync().unwrap_err();
    drop(store);
    reader.sync().unwrap();
}
