//! Tests: a journal that is made, filled and given up beside others who write, sync, verify and compact.
//!
//! Danger: a durable commit names a journal that it does not have, or one that others have taken the
//! pages of; somebody calls a store damaged that is not, or waits for one who waits for him.

use super::format::session;
use super::handle::BTree;
use super::torn::{PAGE, durable_store, read, rebooted, times, write_anew};
use std::fs;
use std::path::Path;

/// A power failure after everything came to the disk.
fn after_power_failure(store: &BTree, image: &Path) -> BTree {
    write_anew(image, &rebooted(fs::read(store.path().unwrap()).unwrap()));
    BTree::open(image).unwrap()
}

/// A transaction that is undone in part leaves the end where it was: far behind that of the base.
#[test]
fn what_was_appended_counts_however_far_the_end_went() {
    let folder = tempfile::tempdir().unwrap();
    for pages in [1100, 4500] {
        let store = durable_store(&folder.path().join(format!("store {pages}")));
        store.insert(b"large", &vec![1; 5000 * PAGE]).unwrap();
        for i in 0..12u8 {
            store.insert(&[i], &[i; 10]).unwrap();
        }
        assert!(store.core().journal().is_some());
        let end = store.core().newest().end;
        // Who reads keeps the free end from being cut.
        let _held = store.read().unwrap();
        let mut transaction = store.write().unwrap();
        let savepoint = transaction.savepoint();
        transaction.main().insert(b"undone", &vec![2; pages * PAGE]).unwrap();
        transaction.rollback_to(savepoint).unwrap();
        transaction.main().insert(b"first", b"durable").unwrap();
        transaction.commit().unwrap();
        store.insert(b"second", b"durable").unwrap();
        assert!(store.core().newest().end > end + 1000, "the end is where it was");
        let again = after_power_failure(&store, &folder.path().join("image"));
        let snapshot = again.read().unwrap();
        for key in [&b"first"[..], b"second"] {
            assert_eq!(snapshot.main().get(key).unwrap(), Some(&b"durable"[..]));
        }
    }
}

/// A base names no journal that lies behind its end, whenever that was made.
#[test]
fn threads_that_sync_while_a_journal_is_made_can_be_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for _ in 0..4 * times() {
        let _ = fs::remove_file(&path);
        let store = durable_store(&path);
        let mut transaction = store.write().unwrap();
        for i in 0..20_000u64 {
            transaction.main().insert(&i.swap_bytes().to_le_bytes(), &[1; 100]).unwrap();
        }
        transaction.commit().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let store = &store;
                scope.spawn(move || {
                    for i in 0..15u64 {
                        if thread == 0 {
                            store.sync().unwrap();
                        } else {
                            let key = (100 * i + thread).swap_bytes().to_le_bytes();
                            store.insert(&key, &[2; 100]).unwrap();
                        }
                        store.core().recovered().unwrap();
                    }
                });
            }
        });
        let again = after_power_failure(&store, &folder.path().join("image"));
        assert!(read(&again).unwrap() == read(&store).unwrap());
    }
}

fn store_with_journal(path: &Path) -> BTree {
    let store = durable_store(path);
    let mut transaction = store.write().unwrap();
    for i in 0..20_000u64 {
        transaction.main().insert(&i.swap_bytes().to_le_bytes(), &[1; 100]).unwrap();
    }
    transaction.commit().unwrap();
    for i in 0..12u64 {
        store.insert(&i.swap_bytes().to_le_bytes(), &[2; 100]).unwrap();
    }
    assert!(store.core().journal().is_some());
    store
}

#[test]
fn a_journal_may_be_given_up_while_the_store_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_with_journal(&folder.path().join("store"));
    let mut has_begun = false;
    std::thread::scope(|scope| {
        let store = &store;
        let found = store.verify(|_, _| {
            if !std::mem::replace(&mut has_begun, true) {
                scope.spawn(|| while store.compact(1 << 30).unwrap() {});
                while store.core().journal().is_some() {
                    std::thread::yield_now();
                }
            }
        });
        found.unwrap();
    });
    assert!(has_begun);
    store.verify(|_, _| ()).unwrap();
    assert!(store.core().journal_pages().is_empty(), "nobody has freed it");
}

/// Who makes all durable while another transaction is going on waits for nobody's.
#[test]
fn a_journal_may_be_given_up_during_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_with_journal(&folder.path().join("store"));
    let mut transaction = store.write().unwrap();
    transaction.main().insert(b"key", b"value").unwrap();
    std::thread::scope(|scope| {
        let store = &store;
        let compaction = scope.spawn(|| store.compact(1 << 30).unwrap());
        while store.core().journal().is_some() {
            std::thread::yield_now();
        }
        store.sync().unwrap();
        transaction.commit().unwrap();
        compaction.join().unwrap();
    });
    store.verify(|_, _| ()).unwrap();
    let again = after_power_failure(&store, &folder.path().join("image"));
    assert_eq!(again.read().unwrap().main().get(b"key").unwrap(), Some(&b"value"[..]));
}

/// Who has a copy synced is not told that it is on the disk as the store was that it was copied from.
#[test]
fn the_first_sync_of_a_copy_waits_for_the_disk_also_if_nothing_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_with_journal(&folder.path().join("store"));
    store.sync().unwrap();
    let path = folder.path().join("copy");
    fs::copy(store.path().unwrap(), &path).unwrap();
    let copy = BTree::create(&path).unwrap();
    assert_ne!(copy.core().load(session::SETTLED), 1);
    copy.sync().unwrap();
    assert_eq!(copy.core().load(session::SETTLED), 1, "nothing was waited for");
}

/// In a copy of a store in use nothing is on the disk: the first durable commit makes all of it so.
#[test]
fn a_copy_of_a_store_in_use_is_durable_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_with_journal(&folder.path().join("store"));
    let path = folder.path().join("copy");
    fs::copy(store.path().unwrap(), &path).unwrap();
    let copy = durable_store(&path);
    let base = copy.core().load(session::BASE);
    assert!(base < copy.core().newest().stamp);
    copy.insert(b"key", b"value").unwrap();
    assert_eq!(copy.core().load(session::BASE), copy.core().newest().stamp);
    copy.insert(b"key", b"other").unwrap();
    assert!(copy.core().load(session::BASE) < copy.core().newest().stamp, "never appended");
}
