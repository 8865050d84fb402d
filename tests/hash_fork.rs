//! Danger: a process that is forked with an open store leaves behind what nobody can get past, or keeps what nobody needs;
//! and so does a value that is held for long. Readers wait for who writes.

mod common;

use common::rounds;
use common::sys::{Status, be_traced, fork, give_up_after, stop_here};
use credenza::Scan;
use credenza::hash::{Batch, Hash};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Whether the store can be opened for reading, and for writing, and is whole.
fn opens(path: &Path) {
    let path = path.to_owned();
    let mut child = fork(move || {
        give_up_after(60);
        let reader = Hash::options().read_only(true).open(&path).unwrap();
        drop(reader);
        let store = Hash::open(&path).unwrap();
        store.insert(b"key", b"value").unwrap();
    });
    assert_eq!(child.wait(), Status::Exited(0), "somebody waits for the dead");
}

/// The kernel's locks are those of all processes that were forked with the file.
#[test]
fn a_forked_process_that_is_killed_while_it_cuts_the_file_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    for call in 0.. {
        let path = folder.path().join(format!("store{call}"));
        let store = Hash::create(&path).unwrap();
        (0..20u32).for_each(|i| {
            store.insert(&i.to_le_bytes(), &[1; 100_000]).unwrap();
        });
        let mut child = fork(|| {
            if !be_traced() {
                return;
            }
            stop_here();
            store.clear().unwrap();
            stop_here();
        });
        if child.wait() == Status::Exited(0) {
            println!("skipped: nobody can be traced here");
            return;
        }
        let is_over = |status| status != Status::Stopped(libc::SIGTRAP);
        let is_cleared = (0..call).any(|_| is_over(child.run_to_call()));
        child.kill();
        opens(&path);
        if is_cleared {
            assert!(call > 10, "nothing was cut");
            return;
        }
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Each index that another took the place of was open, and mapped, as long as the child lived.
#[test]
fn a_forked_process_gives_replaced_indexes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    let other = Hash::open(&path).unwrap();
    // In the middle of a look at the page of an index that is replaced meanwhile.
    let mut child = None;
    store
        .scan(|key, _| {
            assert_eq!(key, b"key");
            child.get_or_insert_with(|| {
                fork(|| {
                    give_up_after(120);
                    let before = descriptors();
                    for _ in 0..60 {
                        other.rebuild_index(false).unwrap();
                        assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
                    }
                    let more = descriptors().saturating_sub(before);
                    assert!(more <= 30, "{more} descriptors more");
                })
            });
            Ok(())
        })
        .unwrap();
    assert_eq!(child.unwrap().wait(), Status::Exited(0));
}

/// A value that was given out needs no index.
#[test]
fn a_value_that_is_held_keeps_no_replaced_index() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    store.insert(b"key", b"value").unwrap();
    let value = store.get(b"key").unwrap().unwrap();
    let leased = store.get_for(b"key", Duration::from_secs(600)).unwrap().unwrap();
    let before = descriptors();
    // Beside others, who look at what is replaced.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let read = || {
            while !is_over.load(Ordering::Relaxed) {
                let found = store.get_with(b"key", |value| value == b"value").unwrap();
                assert_eq!(found, Some(true));
                assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
            }
        };
        scope.spawn(read);
        scope.spawn(read);
        for _ in 0..rounds(200) {
            store.rebuild_index(false).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let more = descriptors().saturating_sub(before);
    assert!(more <= 20, "{more} descriptors more");
    assert_eq!((&*value, leased.to_vec().unwrap()), (&b"value"[..], b"value".to_vec()));
}

/// It waited for the lock, with which a batch is entered, and so for whoever had that next.
#[test]
fn a_lookup_waits_for_a_batch_and_not_for_the_transaction_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    store.insert(&7u32.to_le_bytes(), b"x").unwrap();
    let (lookups, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                store.get_with(&7u32.to_le_bytes(), |_| ()).unwrap();
                lookups.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..rounds(20) {
            let mut batch = Batch::new();
            for i in 0..50_000u32 {
                batch.insert(&i.to_le_bytes(), b"y");
            }
            store.batch(&batch).unwrap();
            let _transaction = store.transaction().unwrap();
            let (before, since) = (lookups.load(Ordering::Relaxed), Instant::now());
            while lookups.load(Ordering::Relaxed) < before + 3 {
                if since.elapsed() > Duration::from_secs(60) {
                    is_over.store(true, Ordering::Relaxed);
                    panic!("no lookup ends while a transaction goes on");
                }
                thread::yield_now();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
