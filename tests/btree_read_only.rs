//! Danger: a btree store that is opened to be read only and is written to all the same; or whose pages
//! are written over while somebody reads them who could not say so.

mod common;

use common::{child, is_child, ordered, sys, write_anew};
use credenza::btree::BTree;
use credenza::{ErrorKind, Get, Scan};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

fn filled(path: &Path) -> BTree {
    let store = BTree::create(path).unwrap();
    let mut transaction = store.write().unwrap();
    for i in 0..3000 {
        transaction.main().insert(&ordered(i), &vec![i as u8; (i % 700) as usize]).unwrap();
    }
    transaction.create_table("other").unwrap().insert(b"key", b"value").unwrap();
    transaction.commit().unwrap();
    store
}

/// Opens a store that nobody has open but, for a moment, a process that is being started.
fn open(path: &Path, is_read_only: bool) -> BTree {
    for _ in 0..100_000 {
        match BTree::options().read_only(is_read_only).open(path) {
            Err(error) if matches!(error.kind(), ErrorKind::Invalid(_)) => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
    panic!("somebody has the store open");
}

#[test]
fn everything_can_be_read_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(filled(&path));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let state = || {
        let meta = fs::metadata(&path).unwrap();
        (fs::read(&path).unwrap(), meta.mtime(), meta.mtime_nsec())
    };
    let before = state();
    // Any number of them.
    let stores: Vec<BTree> = (0..3).map(|_| open(&path, true)).collect();
    for store in &stores {
        assert_eq!(Scan::len(store).unwrap(), 3000);
        assert_eq!(Get::get(store, &ordered(600)).unwrap().as_deref(), Some(&[88; 600][..]));
        let leased = store.read_for(Duration::ZERO).unwrap();
        assert_eq!(leased.main().count_range(..).unwrap(), 3000);
        let snapshot = store.read().unwrap();
        assert_eq!(
            snapshot.table("other").unwrap().unwrap().get(b"key").unwrap(),
            Some(&b"value"[..])
        );
        assert_eq!(snapshot.main().iter().count(), 3000);
        store.verify(|_, _| ()).unwrap();
        store.sync().unwrap();
        let error = store.wait_for_change(store.changes(), Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("permission to write"), "{error}");
        let stats = store.stats().unwrap();
        assert!(stats.is_durable && stats.readers.is_empty(), "{stats:?}");
        for error in [
            store.insert(b"key", b"value").unwrap_err(),
            store.remove(b"key").unwrap_err(),
            store.write().unwrap_err(),
            store.compact(1 << 20).unwrap_err(),
        ] {
            assert!(error.to_string().contains("open it to write"), "{error}");
        }
        let copy = folder.path().join("copy");
        store.backup(&copy, |_, _| ()).unwrap();
        assert_eq!(Scan::len(&BTree::open(&copy).unwrap()).unwrap(), 3000);
    }
    drop(stores);
    assert!(before == state(), "the file was written to");
    let made = BTree::options().read_only(true).create(true).open(folder.path().join("new"));
    assert!(made.unwrap_err().to_string().contains("leave out one"));
    let error = BTree::options().read_only(true).open(folder.path().join("new")).unwrap_err();
    assert!(error.to_string().contains("new"), "{error}");
}

#[test]
fn who_may_write_and_who_may_not_keep_each_other_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let read_only = || BTree::options().read_only(true).open(&path);
    let store = filled(&path);
    let error = read_only().unwrap_err().to_string();
    assert!(error.contains("wait until the store is closed") && error.contains("store"), "{error}");
    drop(store);
    let (first, second) = (open(&path, true), open(&path, true));
    let error = BTree::open(&path).unwrap_err().to_string();
    assert!(error.contains("before he closes it"), "{error}");
    drop(first);
    BTree::open(&path).unwrap_err();
    // A snapshot is part of its store.
    assert_eq!(second.read().unwrap().main().len(), 3000);
    drop(second);
    let store = open(&path, false);
    store.insert(b"key", b"value").unwrap();
    read_only().unwrap_err();
    drop(store);
    assert_eq!(Scan::len(&open(&path, true)).unwrap(), 3001);
}

/// A child's work: commits, and waits to be killed.
#[test]
fn child_commits() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let store = BTree::open(std::env::var("STORE").unwrap()).unwrap();
    store.insert(b"key", b"value").unwrap();
    let mut transaction = store.write().unwrap();
    transaction.main().clear().unwrap();
    println!("committed");
    std::io::stdin().lines().next();
}

/// What a writer had committed who was killed is there, and nothing else of him.
#[test]
fn what_was_committed_before_a_kill_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(filled(&path));
    let mut writer = child("child_commits");
    writer.env("STORE", &path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("committed")));
    BTree::options().read_only(true).open(&path).unwrap_err();
    writer.kill().unwrap();
    writer.wait().unwrap();
    let store = open(&path, true);
    assert_eq!(Scan::len(&store).unwrap(), 3001);
    assert!(!store.stats().unwrap().is_durable);
    let error = store.sync().unwrap_err().to_string();
    assert!(error.contains("open it to write"), "{error}");
    store.verify(|_, _| ()).unwrap();
    drop(store);
    open(&path, false).verify(|_, _| ()).unwrap();
}

/// Who was killed while he made it durable may have it in memory alone, be it whole in the file.
#[test]
fn what_somebody_was_about_to_make_durable_is_not_said_to_be() {
    /// Where a session says which commit is being made durable.
    const SYNCING_AT: usize = 2104;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(filled(&path));
    let mut bytes = fs::read(&path).unwrap();
    for (syncing, is_durable) in [(0, true), (2, false)] {
        bytes[SYNCING_AT] = syncing;
        write_anew(&path, &bytes);
        let store = open(&path, true);
        assert_eq!(store.stats().unwrap().is_durable, is_durable);
        assert_eq!(store.sync().is_ok(), is_durable);
        assert_eq!(Scan::len(&store).unwrap(), 3000);
    }
}
