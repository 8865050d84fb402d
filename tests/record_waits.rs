//! Danger: a thread or a process that waits for another one's file, or for ever, because of a recording.

mod common;

use common::is_child;
use common::recording::{entries, folder, lock_the_trace, recorded, run};
use common::sys::{self, Status, fork};
use credenza::btree::BTree;
use credenza::hash::Hash;
use credenza::record::{self, Trace};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Less than the lock of a trace is waited for.
const SHORT: Duration = Duration::from_millis(100);

/// A process that is forked while another thread waits to note a table in the trace notes others itself.
#[test]
fn a_child_that_is_forked_while_a_table_is_noted_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    run(recorded("forks_while_a_table_is_noted", dir.path(), &trace));
    Trace::open(&trace).unwrap();
}

#[test]
fn forks_while_a_table_is_noted() {
    if !is_child() {
        return;
    }
    let path = folder().join("store");
    let store = BTree::create(&path).unwrap();
    let mut transaction = store.write().unwrap();
    for name in ["one", "other"] {
        transaction.create_table(name).unwrap();
    }
    transaction.commit().unwrap();
    drop(store);
    // What this one notes is not noted yet.
    let store = BTree::open(&path).unwrap();
    let look = |name: &str| {
        let snapshot = store.read().unwrap();
        assert_eq!(snapshot.table(name).unwrap().unwrap().get(b"key").unwrap(), None);
    };
    let lock = lock_the_trace();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| look("one"));
        std::thread::sleep(SHORT);
        let mut child = fork(|| {
            sys::give_up_after(60);
            look("other");
            look("one");
        });
        drop(lock);
        assert_eq!(child.wait(), Status::Exited(0));
        waiting.join().unwrap();
    });
}

/// Who closes a store waits for the lock of its trace; who uses another one meanwhile does not.
#[test]
fn nobody_waits_for_who_closes_a_store_while_the_trace_is_locked() {
    let dir = tempfile::tempdir().unwrap();
    // A machine may stand still for longer than the lock is waited for: then the recording ends, rightly.
    let is_told_once = (0..8).any(|round| {
        let trace = dir.path().join(format!("trace{round}"));
        run(recorded("closes_while_the_trace_is_locked", dir.path(), &trace));
        let is_all_there = entries(&trace).len() == 2;
        is_all_there && Trace::open(&trace).unwrap().stopped().is_none()
    });
    assert!(is_told_once, "a lookup waited for another thread each time");
}

#[test]
fn closes_while_the_trace_is_locked() {
    if !is_child() {
        return;
    }
    sys::give_up_after(120);
    let [closed, used] = [(), ()].map(|()| Hash::in_memory().unwrap());
    let lock = lock_the_trace();
    let (is_looked_up, go_on) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            used.get(b"in this thread's buffer").unwrap();
            is_looked_up.store(true, Ordering::Release);
            while !go_on.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            used.get(b"while a store is being closed").unwrap();
            // Only now: if that had waited, then until the recording was over.
            drop(lock);
        });
        while !is_looked_up.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let closing = scope.spawn(|| drop(closed));
        std::thread::sleep(SHORT);
        go_on.store(true, Ordering::Release);
        closing.join().unwrap();
    });
    record::flush();
}
