//! Danger: locks and readers that are in a file and nowhere else, as in a copy of a store in use or in
//! one that another container left, make somebody wait for ever, or keep a store from being opened; or
//! they are taken from those who have them.

mod common;

use common::hash::index_of;
use common::sys::{self, Status};
use common::{is_child, passes_in_child};
use credenza::btree::{BTree, OpenOptions};
use credenza::hash::Hash;
use credenza::{ErrorKind, Get};
use std::fs::{File, copy};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Where both engines say in which boot of the machine locks were made, by which program, and which namespaces of processes and time, the locks are of.
const BOOT_AT: u64 = 2048;
const LAYOUT_AT: u64 = 2064;
const NAMESPACE_AT: u64 = 2072;

fn patch(path: &Path, at: u64) {
    File::options().write(true).open(path).unwrap().write_all_at(&[0x5a; 8], at).unwrap();
}

#[test]
fn a_copy_of_a_hash_store_in_use_waits_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    for key in 0u32..1000 {
        store.insert(&key.to_le_bytes(), b"value").unwrap();
    }
    let reader = store.get(&7u32.to_le_bytes()).unwrap();
    // This thread has the lock now, and so it seems to have that of the copy.
    let mut transaction = store.transaction().unwrap();
    transaction.insert(b"later", b"").unwrap();
    for has_index in [true, false] {
        let copied = folder.path().join(format!("copy {has_index}"));
        copy(&path, &copied).unwrap();
        if has_index {
            copy(index_of(&path), index_of(&copied)).unwrap();
        }
        let copied = Hash::open(&copied).unwrap();
        copied.insert(b"new", b"").unwrap();
        assert_eq!(copied.len().unwrap(), 1001);
        assert_eq!(Get::get(&copied, &7u32.to_le_bytes()).unwrap().as_deref(), Some(&b"value"[..]));
        copied.sync().unwrap();
        copied.verify(|_, _| ()).unwrap();
    }
    transaction.commit().unwrap();
    drop(reader);
    assert_eq!(store.len().unwrap(), 1001);
    store.verify(|_, _| ()).unwrap();
}

#[test]
fn a_copy_of_a_btree_store_in_use_waits_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let fill = |store: &BTree, keys: std::ops::Range<u32>| {
        let mut transaction = store.write().unwrap();
        for key in keys {
            transaction.main().insert(&key.to_le_bytes(), b"value").unwrap();
        }
        transaction.commit().unwrap();
    };
    fill(&store, 0..1000);
    let reader = store.read().unwrap();
    fill(&store, 1000..2000);
    let mut transaction = store.write().unwrap();
    transaction.main().insert(b"later", b"").unwrap();
    let copied = folder.path().join("copy");
    copy(&path, &copied).unwrap();

    let copied = BTree::open(&copied).unwrap();
    assert_eq!(copied.stats().unwrap().readers, [], "whoever reads reads another file");
    fill(&copied, 2000..2001);
    assert_eq!(copied.read().unwrap().main().len(), 2001);
    copied.sync().unwrap();
    copied.verify(|_, _| ()).unwrap();
    transaction.commit().unwrap();
    assert_eq!(reader.main().len(), 1000);
    assert_eq!(store.read().unwrap().main().len(), 2001);
}

/// Who may not have a store has nothing to close.
#[test]
fn an_opening_that_is_refused_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    store.insert(b"durable", b"").unwrap();
    store.sync().unwrap();
    store.insert(b"lost", b"").unwrap();
    // As after a power failure: what was committed since the last sync is there in part, perhaps.
    let after = folder.path().join("after");
    copy(&path, &after).unwrap();
    patch(&after, BOOT_AT);
    let before = std::fs::read(&after).unwrap();
    let reader = OpenOptions::new().read_only(true).open(&after).unwrap();
    let error = BTree::open(&after).unwrap_err();
    assert!(error.to_string().contains("somebody reads the store"), "{error}");
    assert!(std::fs::read(&after).unwrap() == before, "it was written to");
    assert_eq!(reader.read().unwrap().main().len(), 1);
}

/// Whatever opens the store; an error if that is refused.
fn check_namespaces<S>(path: &Path, open: impl Fn(&Path) -> credenza::Result<S>) {
    let is_refused = || match open(path) {
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
            true
        }
        Ok(_) => false,
    };
    for at in [NAMESPACE_AT, LAYOUT_AT] {
        patch(path, at);
        let store = open(path).expect("nobody else has it open");
        patch(path, at);
        assert!(is_refused(), "somebody has it open with whom no lock can be shared");
        drop(store);
        assert!(!is_refused());
    }
}

#[test]
fn what_another_container_left_can_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hash");
    Hash::create(&path).unwrap().insert(b"key", b"value").unwrap();
    check_namespaces(&path, |path| {
        let store = Hash::open(path)?;
        store.insert(b"key", b"other")?;
        Ok(store)
    });
    let path = folder.path().join("btree");
    BTree::create(&path).unwrap();
    check_namespaces(&path, |path| {
        let store = BTree::open(path)?;
        let mut transaction = store.write()?;
        transaction.main().insert(b"key", b"other")?;
        transaction.commit()?;
        Ok(store)
    });
}

/// A process that is forked while a store is open has it open until it runs another program.
#[test]
fn who_was_forked_is_in_nobodys_way_for_long() {
    let in_a_fork = || sys::fork(|| std::thread::sleep(Duration::from_millis(20)));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hash");
    let store = Hash::create(&path).unwrap();
    patch(&path, NAMESPACE_AT);
    let mut child = in_a_fork();
    drop(store);
    Hash::open(&path).unwrap().insert(b"key", b"value").unwrap();
    assert_eq!(child.wait(), Status::Exited(0));

    let path = folder.path().join("btree");
    let store = BTree::create(&path).unwrap();
    patch(&path, NAMESPACE_AT);
    let mut child = in_a_fork();
    drop(store);
    let store = BTree::open(&path).unwrap();
    assert_eq!(child.wait(), Status::Exited(0));
    let mut child = in_a_fork();
    drop(store);
    let reader = OpenOptions::new().read_only(true).open(&path).unwrap();
    assert_eq!(child.wait(), Status::Exited(0));
    let mut child = in_a_fork();
    drop(reader);
    BTree::open(&path).unwrap().insert(b"key", b"value").unwrap();
    assert_eq!(child.wait(), Status::Exited(0));
}

#[test]
fn a_store_with_a_forgotten_transaction_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    std::mem::forget(store.write().unwrap());
    drop(store);
    // The lock is this thread's as long as it lives: it must not be made anew.
    let error = BTree::open(&path).unwrap().write().unwrap_err();
    assert!(error.to_string().contains("this thread is writing to the store already"), "{error}");
}

/// A child's work: who has no descriptor left looks whether what others did is on the disk.
#[test]
fn child_looks_without_descriptors() {
    if !is_child() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    for is_full in [false, true] {
        let files = if is_full { sys::forbid_files() } else { Vec::new() };
        let done = reader.sync();
        assert_eq!(is_full, File::open("/dev/null").is_err());
        drop(files);
        assert!(done.is_err(), "it is not on the disk (all descriptors in use: {is_full})");
    }
}

/// Danger: that it cannot be asked in which boot of the machine it is taken for another boot, after which nobody has what he
/// had before.
#[test]
fn who_has_no_descriptors_left_knows_the_boot() {
    passes_in_child("child_looks_without_descriptors");
}
