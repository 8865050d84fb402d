//! Danger: the disk refuses, the kernel says so once and then calls the pages clean that it could not
//! write; the next sync writes nothing, says that all is well, and what was promised is not there.

mod common;
#[path = "common/syncs.rs"]
mod syncs;

use credenza::Durability;
use credenza::btree::{self, BTree};
use credenza::hash::{self, Hash};
use std::path::PathBuf;

/// Bytes that this thread had written to a disk, as the kernel counts them: when a page becomes one to
/// be written.
fn written() -> Option<u64> {
    let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

/// How many of them `f` makes.
fn written_by(f: impl FnOnce()) -> Option<u64> {
    let before = written()?;
    f();
    Some(written()? - before)
}

/// A folder on a disk, if there is one: what is in memory alone is never written.
fn folder() -> Option<tempfile::TempDir> {
    let places = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    let mut folders = places.iter().filter_map(|place| tempfile::tempdir_in(place).ok());
    let folder = folders.find(|folder| {
        let probe = || std::fs::write(folder.path().join("probe"), [1; 8192]).unwrap();
        written_by(probe).is_some_and(|bytes| bytes >= 8192)
    });
    if folder.is_none() {
        println!("not tested: no folder for temporary files is on a disk whose writes are counted");
    }
    folder
}

/// That a sync after one that failed writes all that is not known to be on the disk, and the one after
/// that nothing more of it.
fn check(changed: u64, sync: impl Fn() -> credenza::Result<()>) {
    syncs::wait_for_real();
    for _ in 0..2 {
        syncs::fail_after(Some(0));
        let error = sync().unwrap_err().to_string();
        assert!(error.contains("make durable"), "{error}");
    }
    let again = written_by(|| sync().unwrap()).unwrap();
    assert!(again >= changed, "{again} of {changed} bytes were written again");
    let once_more = written_by(|| sync().unwrap()).unwrap();
    assert!(once_more < changed / 4, "{once_more} bytes were written for nothing");
}

#[test]
fn after_a_sync_of_a_hash_store_that_failed_all_is_written_again() {
    let Some(folder) = folder() else { return };
    let options = || hash::OpenOptions::new().create(true).durability(Durability::Buffered).clone();
    let store: Hash = options().open(folder.path().join("store")).unwrap();
    store.insert(b"first", &[1; 100_000]).unwrap();
    store.sync().unwrap();
    for key in 0u32..200 {
        store.insert(&key.to_le_bytes(), &[2; 5_000]).unwrap();
    }
    check(1_000_000, || store.sync());
    store.verify(|_, _| ()).unwrap();
    // A sync of the end of the log alone, and after it one of everything since, and not only of what
    // has come to the end meanwhile.
    store.insert(b"more", &[3; 100]).unwrap();
    syncs::fail_after(Some(0));
    let error = store.sync().unwrap_err().to_string();
    assert!(error.contains("make durable"), "{error}");
    store.insert(b"yet more", &[3; 100]).unwrap();
    let again = written_by(|| store.sync().unwrap()).unwrap();
    assert!(again > 2 * 4096, "{again} bytes were written again");
}

#[test]
fn after_a_sync_of_a_btree_store_that_failed_all_is_written_again() {
    let Some(folder) = folder() else { return };
    let options =
        || btree::OpenOptions::new().create(true).durability(Durability::Buffered).clone();
    let store: BTree = options().open(folder.path().join("store")).unwrap();
    store.insert(b"first", &[1; 100_000]).unwrap();
    store.sync().unwrap();
    let mut transaction = store.write().unwrap();
    for key in 0u32..200 {
        transaction.main().insert(&key.to_le_bytes(), &[2; 5_000]).unwrap();
    }
    transaction.commit().unwrap();
    check(1_000_000, || store.sync());
    store.verify(|_, _| ()).unwrap();
}

/// Small values are put into pages of values that the durable commit has, too: all of these are
/// written again.
#[test]
fn values_that_joined_others_are_written_again() {
    let Some(folder) = folder() else { return };
    let store = BTree::create(folder.path().join("store")).unwrap();
    let insert = |keys: std::ops::Range<u32>| {
        let mut transaction = store.write().unwrap();
        for key in keys {
            transaction.main().insert(&key.to_le_bytes(), &[1; 600]).unwrap();
        }
        transaction.commit().unwrap();
    };
    insert(0..2000);
    store.sync().unwrap();
    insert(2000..2001);
    syncs::wait_for_real();
    syncs::fail_after(Some(0));
    store.sync().unwrap_err();
    let again = written_by(|| store.sync().unwrap()).unwrap();
    assert!(again >= 2000 * 600, "{again} bytes were written again");
}

/// Pages of trees, and not only of values, that came since the last good sync.
#[test]
fn pages_of_a_tree_are_written_again() {
    let Some(folder) = folder() else { return };
    let store = BTree::create(folder.path().join("store")).unwrap();
    store.insert(b"first", b"value").unwrap();
    store.sync().unwrap();
    let mut transaction = store.write().unwrap();
    for key in 0u32..10_000 {
        transaction.main().insert(&key.to_le_bytes(), &[2; 100]).unwrap();
    }
    transaction.commit().unwrap();
    check(1_000_000, || store.sync());
}

/// An index that could not be written is not called whole by who closes the store the next time, unless all of it is
/// written again.
#[test]
fn an_index_whose_sync_failed_is_written_again() {
    let Some(folder) = folder() else { return };
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    for key in 0u32..20_000 {
        store.insert(&key.to_le_bytes(), b"value").unwrap();
    }
    store.sync().unwrap();
    syncs::wait_for_real();
    // The log is waited for twice, then the index.
    syncs::fail_after(Some(2));
    drop(store);
    syncs::fail_after(None);
    let index = std::fs::metadata(common::hash::index_of(&path)).unwrap().len();
    assert!(index > 150_000, "an index of {index} bytes");
    let again = written_by(|| drop(Hash::open(&path).unwrap())).unwrap();
    assert!(again >= index, "{again} of {index} bytes were written again");
}

/// Who reports that nothing changed makes his user do it twice.
#[test]
fn a_change_whose_sync_fails_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let hash = hash::OpenOptions::new().create(true).durability(Durability::Sync);
    let hash = hash.open(folder.path().join("hash")).unwrap();
    let btree = btree::OpenOptions::new().create(true).durability(Durability::Sync);
    let btree = btree.open(folder.path().join("btree")).unwrap();
    let mut batch = hash::Batch::new();
    batch.insert(b"batch", b"value");
    let transaction = || {
        let mut transaction = hash.transaction()?;
        transaction.insert(b"transaction", b"value")?;
        transaction.commit()
    };
    let changes: [&dyn Fn() -> credenza::Result<()>; 4] =
        [&|| hash.insert(b"single", b"value"), &|| hash.batch(&batch), &transaction, &|| {
            btree.insert(b"single", b"value").map(drop)
        }];
    for change in changes {
        syncs::fail_after(Some(0));
        let error = change().unwrap_err().to_string();
        assert!(error.contains("make durable"), "{error}");
    }
    for key in [&b"single"[..], b"batch", b"transaction"] {
        assert!(hash.contains_key(key).unwrap(), "{key:?}");
    }
    assert!(btree.read().unwrap().main().get(b"single").unwrap().is_some());
}

/// A store that appends what is committed to a journal.
fn appending(path: &std::path::Path) -> BTree {
    let options = BTree::options().create(true).durability(Durability::Sync);
    let store = options.open(path).unwrap();
    for i in 0u32..100 {
        let before = syncs::count();
        store.insert(b"first", &i.to_le_bytes()).unwrap();
        // A sync of all pages waits twice.
        if syncs::count() == before + 1 {
            return store;
        }
    }
    panic!("nothing was appended");
}

/// The kernel tells of an error once, also of pages that it wrote by itself, and also to who waits for the journal alone:
/// all that is not known to be on the disk is written again.
#[test]
fn after_an_append_that_failed_all_since_the_base_is_written_again() {
    let Some(folder) = folder() else { return };
    let path = folder.path().join("store");
    let store = appending(&path);
    store.sync().unwrap();
    for key in 0u32..40 {
        store.insert(&key.to_le_bytes(), &[2; 9_000]).unwrap();
    }
    syncs::wait_for_real();
    // The kernel has written all of it, and calls it clean.
    std::fs::File::open(&path).unwrap().sync_data().unwrap();
    syncs::fail_after(Some(0));
    store.insert(b"first", b"not durable").unwrap_err();
    let again = written_by(|| store.sync().unwrap()).unwrap();
    assert!(again >= 40 * 9_000, "{again} bytes were written again");
    let once_more = written_by(|| store.sync().unwrap()).unwrap();
    assert!(once_more < 40_000, "{once_more} bytes were written for nothing");
    store.verify(|_, _| ()).unwrap();
}

/// Who is killed while he waits for the journal leaves a commit there that is whole, and in memory alone: nobody says that
/// it is durable before it was waited for.
#[test]
fn what_was_appended_and_not_waited_for_is_not_said_to_be_durable() {
    let folder = tempfile::tempdir().unwrap();
    let store = appending(&folder.path().join("store"));
    let copy = folder.path().join("copy");
    let is_durable = |value: &[u8]| {
        common::write_anew(&copy, &std::fs::read(store.path().unwrap()).unwrap());
        let left = BTree::options().read_only(true).open(&copy).unwrap();
        assert_eq!(left.read().unwrap().main().get(b"first").unwrap(), Some(value));
        assert_eq!(left.sync().is_ok(), left.stats().unwrap().is_durable);
        left.stats().unwrap().is_durable
    };
    store.insert(b"first", b"durable").unwrap();
    assert!(is_durable(b"durable"));
    syncs::fail_after(Some(0));
    store.insert(b"first", b"appended").unwrap_err();
    assert!(!store.stats().unwrap().is_durable);
    assert!(!is_durable(b"appended"));
    store.insert(b"second", b"durable").unwrap();
    assert!(is_durable(b"appended"));
}
