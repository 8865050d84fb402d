//! Danger: a process that is forked with an open store leaves behind what nobody can get past, or keeps what nobody needs;
//! and so does a value that is held for long. Somebody waits for who waits for him, or for a change that he was not told of.

mod common;

use common::sys::{Status, be_traced, fork, give_up_after, stop_here};
use common::{is_sanitized, rounds};
use credenza::btree::BTree;
use credenza::hash::{Batch, Hash};
use credenza::{Durability, Scan};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Where a store says how many changes everybody sees.
const VISIBLE_AT: u64 = 2048 + 472;

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

/// Runs in a process of its own, which must come to its end.
fn ends(f: impl FnOnce()) {
    let mut child = fork(|| {
        give_up_after(60);
        f();
    });
    assert_eq!(child.wait(), Status::Exited(0), "somebody waits for ever");
}

/// The thread that syncs waited for the lock of who waited for it to end.
#[test]
fn a_store_that_is_synced_now_and_then_can_be_closed_in_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = || Hash::options().create(true).durability(Durability::Interval(1000)).open(&path);
    ends(|| {
        let (one, other) = (Hash::create(&path).unwrap(), open().unwrap());
        one.insert(b"key", b"value").unwrap();
        let mut transaction = one.transaction().unwrap();
        drop(other);
        transaction.insert(b"other", b"value").unwrap();
        transaction.commit().unwrap();
        one.update(b"key", |_| {
            drop(open().unwrap());
            None::<Vec<u8>>
        })
        .unwrap();
        let forgotten = open().unwrap();
        std::mem::forget(forgotten.transaction().unwrap());
        drop(forgotten);
    });
    let store = Hash::open(&path).unwrap();
    assert_eq!(store.len().unwrap(), 1);
    assert!(store.contains_key(b"other").unwrap());
}

/// It closed the store as the last one, as nobody but its relatives had it open.
#[test]
fn a_child_that_closes_the_store_does_not_wait_for_its_parents_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    ends(|| {
        let mut store = Some(Hash::create(&path).unwrap());
        store.as_ref().unwrap().insert(b"key", b"value").unwrap();
        let (say, said) = std::io::pipe().map(|(from, to)| (to, from)).unwrap();
        let mut child = fork(|| {
            let mut said = said;
            std::io::Read::read_exact(&mut said, &mut [0]).unwrap();
            drop(store.take());
        });
        let mut transaction = store.as_ref().unwrap().transaction().unwrap();
        transaction.insert(b"other", b"value").unwrap();
        std::io::Write::write_all(&mut { say }, b"!").unwrap();
        assert_eq!(child.wait(), Status::Exited(0));
        transaction.commit().unwrap();
    });
    assert_eq!(Hash::open(&path).unwrap().len().unwrap(), 2);
}

/// The thread is its parent's, and kept the store open.
#[test]
fn a_child_can_close_a_store_that_its_parent_syncs_now_and_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let hash = Hash::options().create(true).durability(Durability::Interval(1000));
    let mut hash = Some(hash.open(path("hash")).unwrap());
    let btree = BTree::options().create(true).durability(Durability::Interval(1000));
    let mut btree = Some(btree.open(path("btree")).unwrap());
    ends(|| {
        drop((hash.take(), btree.take()));
        let left = std::fs::read_dir("/proc/self/fd").unwrap();
        let left = left.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
        assert_eq!(left.filter(|open| open.starts_with(folder.path())).count(), 0);
    });
}

/// Who looks at any moment of a change, and sees what was there before, is told of it later.
#[test]
fn whoever_waits_for_a_change_is_told_of_what_he_has_not_seen() {
    type Change = fn(&Hash);
    let changes: [Change; 4] = [
        |store| store.insert(b"key", b"new").unwrap(),
        |store| assert!(store.insert_if_absent(b"other", b"new").unwrap()),
        |store| assert!(store.remove(b"key").unwrap()),
        |store| store.clear().unwrap(),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (i, change) in changes.into_iter().enumerate() {
        let path = folder.path().join(i.to_string());
        let store = Hash::create(&path).unwrap();
        store.insert(b"key", b"old").unwrap();
        let mut child = fork(|| {
            let own = Hash::open(&path).unwrap();
            assert!(own.contains_key(b"key").unwrap());
            if !be_traced() {
                return;
            }
            stop_here();
            change(&own);
            stop_here();
        });
        if child.wait() == Status::Exited(0) {
            println!("skipped: nobody can be traced here");
            return;
        }
        let look = || {
            let number = store.changes();
            let value = |key| store.get(key).unwrap().map(|value| value.to_vec());
            (number, [value(b"key"), value(b"other")])
        };
        let mut seen = vec![look()];
        while child.step() == Status::Stopped(libc::SIGTRAP) {
            let now = look();
            if *seen.last().unwrap() != now {
                seen.push(now);
            }
        }
        let last = look();
        let missed = seen.iter().find(|(number, values)| *number == last.0 && *values != last.1);
        assert_eq!(missed, None, "change {i}: {last:?}");
        assert_ne!(seen[0].1, last.1, "change {i}");
        child.kill();
    }
}

/// What a transaction's process has made so far it alone says to those who wait for a change: a forked one, which drops its
/// copy at any moment, would say it before anybody sees that, or what was so before.
#[test]
fn a_fork_says_nothing_of_its_parents_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    let transaction = store.transaction().unwrap();
    // As in the middle of a change, which is counted already, and not seen.
    let seen = store.changes() - 1;
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&seen.to_le_bytes(), VISIBLE_AT).unwrap();
    let cell = std::cell::Cell::new(Some(transaction));
    let mut child = fork(|| drop(cell.take()));
    assert_eq!(child.wait(), Status::Exited(0));
    assert_eq!(store.changes(), seen);
    drop(cell.take());
    assert_eq!(store.changes(), seen + 1);
}

/// A writer that dies before it counts what everybody sees is counted by who waits.
#[test]
fn whoever_waits_for_a_change_is_told_of_what_the_dead_made() {
    let folder = tempfile::tempdir().unwrap();
    // Sanitizers take some fifty times as many instructions.
    for step in (0..).step_by(if is_sanitized() { 2000 } else { 20 }) {
        let path = folder.path().join(step.to_string());
        let store = Hash::create(&path).unwrap();
        store.insert(b"key", b"old").unwrap();
        let before = store.changes();
        let mut child = fork(|| {
            if !be_traced() {
                return;
            }
            stop_here();
            store.remove(b"key").unwrap();
            stop_here();
        });
        if child.wait() == Status::Exited(0) {
            println!("skipped: nobody can be traced here");
            return;
        }
        let is_over = |status| status != Status::Stopped(libc::SIGTRAP);
        let is_done = (0..step).any(|_| is_over(child.step()));
        child.kill();
        if !store.contains_key(b"key").unwrap() {
            let now = store.wait_for_change(before, Duration::from_secs(60)).unwrap();
            assert_ne!(now, before, "step {step}");
        }
        if is_done {
            return;
        }
    }
}

/// It waited for the lock, with which a batch is entered, and so for whoever had that next.
#[test]
fn a_lookup_waits_neither_for_a_batch_nor_for_the_transaction_after_it() {
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
