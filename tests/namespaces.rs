//! Danger: that a process which counts processes otherwise than another, or time, takes it for dead while it lives, and
//! writes over what it reads.

mod common;

use common::sys::{self, Status, fork};
use common::{is_child, passes_in_child};
use credenza::ErrorKind;
use credenza::btree::{self, BTree};
use credenza::hash::{self, Hash};

/// When a process began is told by the clock of who asks.
#[test]
fn a_store_in_use_by_another_clock_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (hash_path, btree_path) = (folder.path().join("hash"), folder.path().join("btree"));
    let hash = Hash::create(&hash_path).unwrap();
    let btree = BTree::create(&btree_path).unwrap();
    hash.insert(b"key", b"value").unwrap();
    let held = btree.read().unwrap();
    let mut other = fork(|| {
        sys::give_up_after(60);
        if !sys::let_children_live_by_another_clock() {
            println!("skipped: this user may not have another clock");
            return;
        }
        let mut child = fork(|| {
            let errors = [Hash::open(&hash_path).map(drop), BTree::open(&btree_path).map(drop)];
            for error in errors.map(Result::unwrap_err) {
                assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
                assert!(error.to_string().contains("time namespace"), "{error}");
            }
            // Of what nobody else has open, its own clock is as good as any.
            let own = BTree::create(folder.path().join("own")).unwrap();
            own.insert(b"key", b"value").unwrap();
        });
        assert_eq!(child.wait(), Status::Exited(0));
    });
    assert_eq!(other.wait(), Status::Exited(0));
    assert!(held.main().is_empty());
}

/// Some containers show those in them a boot of their own. Who believed it made the locks anew that others had, and wrote over
/// what they read.
#[test]
fn a_store_in_use_by_who_sees_another_boot_is_refused() {
    if !is_child() {
        return passes_in_child("a_store_in_use_by_who_sees_another_boot_is_refused");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("id"), "01234567-89ab-4def-8123-456789abcdef\n").unwrap();
    // Before this process has opened anything.
    let mut other = fork(|| {
        sys::give_up_after(60);
        if !sys::see_boot_id_of(&path("id")) {
            println!("skipped: this user may mount nothing");
            return;
        }
        sys::stop_here();
        let errors = [Hash::open(path("hash")).map(drop), BTree::open(path("btree")).map(drop)];
        for error in errors.map(Result::unwrap_err) {
            assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
            assert!(error.to_string().contains("another boot"), "{error}");
        }
        // What nobody has open is as after a new start of the machine.
        BTree::open(path("closed")).unwrap().insert(b"key", b"other").unwrap();
    });
    drop(BTree::create(path("closed")).unwrap());
    let hash = Hash::create(path("hash")).unwrap();
    let btree = BTree::create(path("btree")).unwrap();
    hash.insert(b"key", b"value").unwrap();
    let mut transaction = btree.write().unwrap();
    transaction.main().insert(b"key", b"value").unwrap();
    if other.wait() == Status::Stopped(sys::SIGSTOP) {
        sys::signal(other.pid(), sys::SIGCONT);
        assert_eq!(other.wait(), Status::Exited(0));
    }
    transaction.commit().unwrap();
    assert_eq!(hash.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(btree.read().unwrap().main().get(b"key").unwrap(), Some(&b"value"[..]));
}

/// Who makes a namespace of processes and mounts no `/proc` there sees others by the numbers of his own.
#[test]
fn a_proc_of_another_namespace_is_not_believed() {
    if !is_child() {
        return passes_in_child("a_proc_of_another_namespace_is_not_believed");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut outside = fork(|| {
        sys::give_up_after(60);
        // Seen by its number there, the reader is dead.
        let mut dead = fork(|| ());
        while state_of(dead.pid()) != 'Z' {
            std::thread::yield_now();
        }
        if !children_count_anew() {
            return;
        }
        let mut first = fork(|| {
            let store = BTree::create(&path).unwrap();
            fill(&store, 1);
            if !sys::count_on_from(dead.pid()) {
                println!("skipped: this user may not choose the number of a process");
                return;
            }
            let mut reader = fork(|| {
                let store = BTree::open(&path).unwrap();
                let held = store.read().unwrap();
                sys::stop_here();
                assert!(held.main().iter().all(|record| record.unwrap().1 == [1; 100]));
            });
            assert_eq!(reader.pid(), dead.pid());
            assert_eq!(reader.wait(), Status::Stopped(sys::SIGSTOP));
            (2..20).for_each(|byte| fill(&store, byte));
            assert_eq!(store.stats().unwrap().readers.len(), 1);
            sys::signal(reader.pid(), sys::SIGCONT);
            assert_eq!(reader.wait(), Status::Exited(0));
        });
        assert_eq!(first.wait(), Status::Exited(0));
        dead.wait();
    });
    assert_eq!(outside.wait(), Status::Exited(0));
}

/// A number is another's soon: a reader is known by when it began, too, also in a fork that opens nothing.
#[test]
fn who_gets_the_number_of_a_dead_fork_does_not_hold_what_it_held() {
    if !is_child() {
        return passes_in_child("who_gets_the_number_of_a_dead_fork_does_not_hold_what_it_held");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut outside = fork(|| {
        sys::give_up_after(60);
        if !children_count_anew() {
            return;
        }
        let mut first = fork(|| {
            assert!(sys::see_own_namespace());
            let store = BTree::create(&path).unwrap();
            fill(&store, 1);
            let mut reader = fork(|| {
                std::mem::forget(store.read().unwrap());
                sys::stop_here();
            });
            assert_eq!(reader.wait(), Status::Stopped(sys::SIGSTOP));
            reader.kill();
            // Some ticks later, of which a second has a hundred: by them the two differ.
            let since_boot = || -> f64 {
                let times = std::fs::read_to_string("/proc/uptime").unwrap();
                times.split(' ').next().unwrap().parse().unwrap()
            };
            let now = since_boot();
            while since_boot() < now + 0.05 {
                std::thread::yield_now();
            }
            if !sys::count_on_from(reader.pid()) {
                println!("skipped: this user may not choose the number of a process");
                return;
            }
            let mut later = fork(sys::stop_here);
            assert_eq!(later.pid(), reader.pid());
            assert_eq!(later.wait(), Status::Stopped(sys::SIGSTOP));
            (2..20).for_each(|byte| fill(&store, byte));
            assert_eq!(store.stats().unwrap().readers, []);
        });
        assert_eq!(first.wait(), Status::Exited(0));
    });
    assert_eq!(outside.wait(), Status::Exited(0));
}

/// Its numbers are others' where it comes from, and theirs are others' where it is: each took the other for dead.
#[test]
fn a_fork_in_another_namespace_takes_no_part_in_what_it_inherits() {
    let folder = tempfile::tempdir().unwrap();
    let (hash_path, btree_path) = (folder.path().join("hash"), folder.path().join("btree"));
    let mut outside = fork(|| {
        sys::give_up_after(60);
        let hash = Hash::create(&hash_path).unwrap();
        let btree = BTree::create(&btree_path).unwrap();
        hash.insert(b"key", b"value").unwrap();
        fill(&btree, 1);
        let held = btree.read().unwrap();
        let value = hash.get(b"key").unwrap();
        let transaction = hash.transaction().unwrap();
        btree.insert(b"newer", b"value").unwrap();
        if !children_count_anew() {
            return;
        }
        let mut inside = fork(|| {
            let refused = [
                hash.insert(b"key", b"other"),
                hash.sync(),
                hash.transaction().map(drop),
                hash.get(b"key").map(drop),
                hash.contains_key(b"key").map(drop),
                hash.get_for(b"key", std::time::Duration::ZERO).map(drop),
                hash.get_many(&[b"key"], |_, _| ()),
                credenza::Scan::scan(&hash, |_, _| Ok(())),
                hash.backup(folder.path().join("copy"), |_, _| ()).map(drop),
                btree.insert(b"key", b"other").map(drop),
                btree.sync(),
                btree.write().map(drop),
                btree.read().map(drop),
                btree.read_for(std::time::Duration::ZERO).map(drop),
                btree.stats().map(drop),
            ];
            for error in refused.map(Result::unwrap_err) {
                assert!(error.to_string().contains("another process namespace"), "{error}");
            }
            let opened = [Hash::open(&hash_path).map(drop), BTree::open(&btree_path).map(drop)];
            for error in opened.map(Result::unwrap_err) {
                assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
            }
            // What it opens itself is as good as any.
            let own = BTree::create(folder.path().join("own")).unwrap();
            fill(&own, 1);
            let mut child = fork(|| fill(&own, 2));
            assert_eq!(child.wait(), Status::Exited(0));
            assert_eq!(own.read().unwrap().main().len(), 2000);
        });
        assert_eq!(inside.wait(), Status::Exited(0));
        transaction.commit().unwrap();
        assert_eq!((btree.stats().unwrap().readers.len(), hash.readers().len()), (1, 1));
        (2..20).for_each(|byte| fill(&btree, byte));
        assert!(held.main().iter().all(|record| record.unwrap().1 == [1; 100]));
        drop(value);
    });
    assert_eq!(outside.wait(), Status::Exited(0));
}

/// The first process of a namespace has the number 1, and so has its fork in another one: taken for each other, the fork let go
/// of what its parent held, and went on with what that had begun.
#[test]
fn a_fork_with_the_number_of_its_parent_leaves_what_is_its_parents() {
    if !is_child() {
        return passes_in_child("a_fork_with_the_number_of_its_parent_leaves_what_is_its_parents");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut outside = fork(|| {
        sys::give_up_after(60);
        if !children_count_anew() {
            return;
        }
        let mut first = fork(|| {
            // Before this process has other numbers for its children.
            let mut another = fork(|| {
                sys::stop_here();
                let lock_timeout = std::time::Duration::from_millis(1);
                let hash = hash::OpenOptions::new().lock_timeout(lock_timeout).open(path("hash"));
                let btree =
                    btree::OpenOptions::new().lock_timeout(lock_timeout).open(path("btree"));
                let (hash, btree) = (hash.unwrap(), btree.unwrap());
                let errors = [hash.remove(b"key").map(drop), btree.insert(b"a", b"b").map(drop)];
                for error in errors.map(Result::unwrap_err) {
                    assert!(matches!(error.kind(), ErrorKind::Busy { .. }), "{error}");
                }
                assert_eq!((btree.stats().unwrap().readers.len(), hash.readers().len()), (1, 1));
            });
            assert_eq!(another.wait(), Status::Stopped(sys::SIGSTOP));
            let hash = Hash::create(path("hash")).unwrap();
            let btree = BTree::create(path("btree")).unwrap();
            hash.insert(b"key", b"value").unwrap();
            fill(&btree, 1);
            let held = btree.read().unwrap();
            let value = hash.get(b"key").unwrap();
            let mut change = hash.transaction().unwrap();
            change.insert(b"key", b"other").unwrap();
            btree.insert(b"newer", b"value").unwrap();
            let mut transaction = btree.write().unwrap();
            transaction.main().insert(b"key", b"other").unwrap();
            let built = credenza::constant::Builder::create(path("built")).unwrap();
            assert!(sys::let_children_count_anew());
            let Some(mut inside) = sys::fork_here() else {
                assert_eq!(std::process::id(), 1);
                let errors = [
                    transaction.main().insert(b"key", b"third").map(drop).unwrap_err(),
                    transaction.commit().map(drop).unwrap_err(),
                    change.commit().unwrap_err(),
                ];
                for error in errors.map(|error| error.to_string()) {
                    assert!(error.contains("fork"), "{error}");
                }
                drop((held, value, built));
                drop((hash, btree));
                sys::end();
            };
            assert_eq!(std::process::id(), 1);
            assert_eq!(inside.wait(), Status::Exited(0));
            // Nobody else comes in, and what is read is kept.
            sys::signal(another.pid(), sys::SIGCONT);
            assert_eq!(another.wait(), Status::Exited(0));
            assert_eq!(hash.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
            change.commit().unwrap();
            transaction.commit().unwrap();
            (2..20).for_each(|byte| fill(&btree, byte));
            assert!(held.main().iter().all(|record| record.unwrap().1 == [1; 100]));
            assert_eq!(value.as_deref(), Some(&b"value"[..]));
            built.finish().unwrap();
            assert!(path("built").exists());
        });
        assert_eq!(first.wait(), Status::Exited(0));
    });
    assert_eq!(outside.wait(), Status::Exited(0));
}

/// Has the children of this process be in a namespace of process numbers of their own; else says that the test is skipped.
fn children_count_anew() -> bool {
    let may = sys::let_children_count_anew();
    if !may {
        println!("skipped: this user may not have another namespace of processes");
    }
    may
}

/// What `/proc` says of what a process does.
fn state_of(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

/// Has each of 2000 records have a value of these bytes.
fn fill(store: &BTree, byte: u8) {
    let mut transaction = store.write().unwrap();
    for key in 0..2000u32 {
        transaction.main().insert(&key.to_le_bytes(), &[byte; 100]).unwrap();
    }
    transaction.commit().unwrap();
    store.sync().unwrap();
}
