//! Danger: a new store takes the place of one that somebody writes to, whose writes are lost; or what somebody left who was
//! killed while he built one comes to life in the next.
//!
//! No test here forks: a child has the stores of all other tests open as long as it runs, and none of these can
//! be replaced then.

use credenza::btree::BTree;
use credenza::constant::Builder;
use credenza::foreign::CdbWriter;
use credenza::hash::Hash;
use credenza::{BTreeBuilder, Get, HashBuilder};
use std::path::{Path, PathBuf};

/// Stores as one of this process's number may have left them, under all names that it would give next.
fn leftovers(target: &Path, left: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let bytes = std::fs::read(left).unwrap();
    let name = |serial| format!(".store.{}.{serial}.tmp", std::process::id());
    let paths = (0..300).map(|serial| target.with_file_name(name(serial)));
    let leave = |path: PathBuf| {
        std::fs::write(&path, &bytes).unwrap();
        (path, bytes.clone())
    };
    paths.map(leave).collect()
}

#[test]
fn what_a_killed_builder_left_is_in_no_other_store() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("store");
    let ghost = folder.path().join("ghost");
    let hash = Hash::create(&ghost).unwrap();
    hash.insert(b"ghost", b"1").unwrap();
    drop(hash);
    let left = leftovers(&target, &ghost);
    let mut builder = HashBuilder::create(&target).unwrap();
    builder.add(b"key", b"1").unwrap();
    builder.add(b"key", b"2").unwrap();
    assert_eq!(builder.replaced().unwrap(), 1);
    let store = builder.finish().unwrap();
    assert_eq!((store.len().unwrap(), store.get(b"ghost").unwrap().is_none()), (1, true));
    drop(store);

    std::fs::remove_file(&ghost).unwrap();
    let btree = BTree::create(&ghost).unwrap();
    btree.insert(b"ghost", b"1").unwrap();
    drop(btree);
    let left_too = leftovers(&target, &ghost);
    let mut builder = BTreeBuilder::create(&target).unwrap();
    builder.add(b"key", b"1").unwrap();
    assert_eq!(builder.finish().unwrap().read().unwrap().main().len(), 1);

    let mut builder = Builder::create(&target).unwrap();
    builder.add(b"key", b"1").unwrap();
    builder.finish().unwrap();
    assert!(credenza::open(&target).unwrap().get(b"ghost").unwrap().is_none());
    assert_eq!(left.len(), left_too.len());
    // Builders remove what nobody builds, and take nothing of it.
    let is_there = |path: &Path| path.try_exists().unwrap();
    for (path, bytes) in left_too.iter().filter(|(path, _)| is_there(path)) {
        assert!(std::fs::read(path).unwrap() == *bytes, "{}: another's file", path.display());
    }
    assert!(!is_there(&left_too[299].0));
}

/// A copy in its own place, or in that of another that is open, has nothing of what is written from then on.
#[test]
fn no_copy_takes_the_place_of_an_open_store() {
    let folder = tempfile::tempdir().unwrap();
    let [path, other, tree_path] = ["store", "other", "tree"].map(|name| folder.path().join(name));
    let (store, tree) = (Hash::create(&path).unwrap(), BTree::create(&tree_path).unwrap());
    let another = Hash::create(&other).unwrap();
    for target in [&path, &other, &tree_path] {
        let error = store.backup(target, |_, _| ()).unwrap_err().to_string();
        assert!(error.contains("open to write"), "{error}");
        let error = tree.backup(target, |_, _| ()).unwrap_err().to_string();
        assert!(error.contains("open to write"), "{error}");
    }
    store.insert(b"later", b"value").unwrap();
    drop((store, another));
    let store = Hash::open(&path).unwrap();
    assert!(store.contains_key(b"later").unwrap());
    // Closed, it may go; and what is no index of it stays.
    std::fs::write(other.with_file_name("other-index"), "notes").unwrap();
    store.backup(&other, |_, _| ()).unwrap();
    assert_eq!(std::fs::read(other.with_file_name("other-index")).unwrap(), b"notes");
    assert!(Hash::open(&other).unwrap().contains_key(b"later").unwrap());
}

/// What a program writes into a store that has no name any more is lost.
#[test]
fn nothing_that_is_built_takes_the_place_of_a_store_that_is_open_to_write() {
    type Build = fn(&Path) -> credenza::Result<Box<dyn FnOnce() -> credenza::Result<()>>>;
    let builds: [Build; 4] = [
        |path| Builder::create(path).map(|b| Box::new(|| b.finish().map(drop)) as _),
        |path| CdbWriter::create(path).map(|b| Box::new(|| b.finish()) as _),
        |path| HashBuilder::create(path).map(|b| Box::new(|| b.finish().map(drop)) as _),
        |path| BTreeBuilder::create(path).map(|b| Box::new(|| b.finish().map(drop)) as _),
    ];
    let folder = tempfile::tempdir().unwrap();
    let [hash, btree] = ["hash", "btree"].map(|name| folder.path().join(name));
    Hash::create(&hash).unwrap().insert(b"before", b"1").unwrap();
    BTree::create(&btree).unwrap().insert(b"before", b"1").unwrap();
    let refused = |done: credenza::Result<()>, path: &Path| {
        let error = done.unwrap_err();
        assert!(error.to_string().contains("open to write"), "{error}");
        assert_eq!(error.path(), Some(path));
    };
    for build in builds {
        // Opened before it begins, and opened while it is built.
        let begun = [build(&hash).unwrap(), build(&btree).unwrap()];
        let (store, tree) = (Hash::open(&hash).unwrap(), BTree::open(&btree).unwrap());
        for (finish, path) in begun.into_iter().zip([&hash, &btree]) {
            refused(build(path).map(drop), path);
            refused(finish(), path);
        }
        store.insert(b"later", b"2").unwrap();
        tree.insert(b"later", b"2").unwrap();
        drop((store, tree));
        assert!(Hash::open(&hash).unwrap().remove(b"later").unwrap());
        assert!(BTree::open(&btree).unwrap().remove(b"later").unwrap());
        let is_left = |name: &str| name.ends_with(".tmp");
        let left = std::fs::read_dir(folder.path()).unwrap();
        let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(left.filter(|name| is_left(name)).count(), 0);
    }
    // Who only reads goes on to read the old one.
    let reader = Hash::options().read_only(true).open(&hash).unwrap();
    builds[2](&hash).unwrap()().unwrap();
    assert!(reader.contains_key(b"before").unwrap());
    assert_eq!(Hash::open(&hash).unwrap().len().unwrap(), 0);
}
