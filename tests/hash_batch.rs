//! Danger: who looks something up waits for who enters a batch, which may take as long as he likes, or sees a part of it.

mod common;

use common::rounds;
use common::sys::{self, Status, be_traced, fork, stop_here};
use credenza::Scan;
use credenza::hash::{Batch, Hash};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

const STOPPED: Status = Status::Stopped(sys::SIGSTOP);
/// Far more than anything takes here: who waits so long waits for ever.
const LONG: Duration = Duration::from_secs(100);

fn key(i: u64) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

/// What is in a store, which all ways of reading say.
fn records(store: &Hash, keys: &[Vec<u8>], what: &str) -> Records {
    fn good<T>(read: credenza::Result<T>, what: &str) -> T {
        read.unwrap_or_else(|e| panic!("{what}: {e}"))
    }
    let mut found = Records::new();
    for key in keys {
        if let Some(value) = good(store.get(key), what) {
            found.insert(key.clone(), value.to_vec());
        }
    }
    assert_eq!(good(store.len(), what), found.len() as u64, "{what}");
    let mut many = Vec::new();
    good(store.get_many(keys, |_, value| many.push(value.map(<[u8]>::to_vec))), what);
    assert!(keys.iter().zip(many).all(|(key, value)| found.get(key) == value.as_ref()), "{what}");
    let mut all = Records::new();
    let add = |key: &[u8], value: &[u8]| {
        assert!(all.insert(key.to_vec(), value.to_vec()).is_none(), "{what}: {key:?} twice");
        Ok(())
    };
    good(store.scan(add), what);
    assert!(all == found, "{what}, scanned: {all:?}");
    found
}

/// The writer is another process, which stands still behind each of its instructions, and dies behind one.
#[test]
fn readers_see_all_of_a_batch_or_nothing_at_every_instruction_of_its_writer() {
    for round in 0..rounds(4) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        // The page where they go is about to be full.
        let count = 44 + round % 20;
        let before: Records = (0..count).map(|i| (key(i), vec![1; 9])).collect();
        before.iter().for_each(|(key, value)| store.insert(key, value).unwrap());
        let (mut batch, mut after) = (Batch::new(), before.clone());
        for i in count - 3..count + 3 {
            batch.insert(&key(i), b"new");
            after.insert(key(i), b"new".to_vec());
        }
        for i in [count - 1, count + 1] {
            batch.remove(&key(i));
            after.remove(&key(i));
        }
        let reader = Hash::options().read_only(true).open(&path).unwrap();
        let keys: Vec<_> = (0..count + 4).map(key).collect();
        let see = |what: &str| {
            let seen = records(&store, &keys, &format!("{what}, who may write"));
            assert!(seen == before || seen == after, "{what}: {seen:?}");
            let again = records(&reader, &keys, &format!("{what}, who only reads"));
            assert!(seen == again, "{what}: {seen:?} and {again:?}");
            seen == after
        };
        let mut writer = fork(|| {
            let store = Hash::open(&path).unwrap();
            if be_traced() {
                stop_here();
                store.batch(&batch).unwrap();
                stop_here();
            }
        });
        if writer.wait() != STOPPED {
            println!("skipped: this process may not trace another");
            return;
        }
        // From when it is seen on.
        let dies_at = if round % 2 == 0 { u64::MAX } else { round * 1117 % 5000 };
        let (mut is_seen, mut since, mut step) = (false, 0, 0);
        while writer.step() != STOPPED && since < dies_at {
            step += 1;
            since += u64::from(is_seen);
            // Most change nothing in the file; others are looked behind in other rounds.
            if step % 23 == round % 23 {
                let what = format!("round {round}, behind instruction {step}");
                let is_there = see(&what);
                assert!(is_there || !is_seen, "{what}: it was there");
                is_seen = is_there;
            }
        }
        assert!(is_seen && step > 1000);
        writer.kill();
        assert!(see("it is dead"));
        store.insert(&keys[0], &[1; 9]).unwrap();
        assert!(see("somebody else has finished it"));
        store.verify(|_, _| ()).unwrap();
    }
}

/// Large batches, one after the other, whose writer is stopped now and then.
#[test]
fn who_reads_goes_on_while_who_enters_a_batch_is_stopped() {
    const COUNT: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let enter = |store: &Hash, number: u64| {
        // As many come as go, of which there were none.
        let (new, old) = (format!("last {number}"), format!("last {}", number.wrapping_sub(1)));
        let mut batch: Batch = (0..COUNT).map(|i| (key(i), number.to_string())).collect();
        batch.insert(new.as_bytes(), b"").remove(old.as_bytes());
        store.batch(&batch).unwrap();
    };
    enter(&store, 0);
    let writer = fork(|| {
        let store = Hash::open(&path).unwrap();
        let mut number = 0;
        loop {
            number += 1;
            enter(&store, number);
        }
    });
    let (sender, receiver) = channel();
    let reading = store.clone();
    thread::spawn(move || {
        let keys: Vec<_> = (0..COUNT).step_by(97).map(key).collect();
        for wait in 0..rounds(30) {
            thread::sleep(Duration::from_millis(1 + wait * 7 % 40));
            sys::signal(writer.pid(), sys::SIGSTOP);
            let first = reading.get(&keys[0]).unwrap().unwrap().to_vec();
            for key in &keys {
                assert_eq!(reading.get(key).unwrap().as_deref(), Some(&first[..]));
            }
            reading.get_many(&keys, |_, value| assert_eq!(value, Some(&first[..]))).unwrap();
            assert_eq!(reading.len().unwrap(), COUNT + 1);
            let mut count = 0;
            let of_this = |key: &[u8], value: &[u8]| {
                count += 1;
                assert!(value == first || key.starts_with(b"last"), "{key:?}: {value:?}");
                Ok(())
            };
            reading.scan(of_this).unwrap();
            assert_eq!(count, COUNT + 1);
            sys::signal(writer.pid(), sys::SIGCONT);
            sender.send(()).unwrap();
        }
        drop(writer);
    });
    for _ in 0..rounds(30) {
        receiver.recv_timeout(LONG).expect("a reader waits for who is stopped, or has failed");
    }
    store.verify(|_, _| ()).unwrap();
}

/// Whoever makes a batch looked at an index before he had the lock, and others may have replaced it twice by then, and let go of
/// it. (What is read of it then is found by the address sanitizer.)
#[test]
fn a_batch_is_made_beside_who_makes_the_index_anew() {
    let store = Hash::in_memory().unwrap();
    store.insert(&key(0), b"value").unwrap();
    // The store stays small, so that indexes are made faster than all keys can be looked at.
    let mut batch = Batch::new();
    for i in 1..200_000 {
        batch.remove(&key(i));
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                store.rebuild_index(false).unwrap();
            }
        });
        (0..rounds(10)).for_each(|_| store.batch(&batch).unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.len().unwrap(), 1);
    store.verify(|_, _| ()).unwrap();
}

/// Each look of who looks for many keys meets a batch of who makes one after the other.
#[test]
fn who_looks_for_many_keys_comes_to_an_end_beside_batches() {
    let mut process = fork(|| {
        sys::give_up_after(60);
        let store = Hash::in_memory().unwrap();
        let keys: Vec<_> = (0..100_000).map(key).collect();
        store.batch(&keys.iter().map(|key| (key.as_slice(), [0; 8])).collect()).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..u64::MAX {
                    let mut transaction = store.transaction().unwrap();
                    for key in &keys[..2] {
                        transaction.insert(key, &round.to_le_bytes()).unwrap();
                    }
                    transaction.commit().unwrap();
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            for _ in 0..5 {
                let mut values = Vec::new();
                let found =
                    store.get_many(&keys, |_, value| values.push(value.map(<[u8]>::to_vec)));
                found.unwrap();
                assert_eq!((values.len(), &values[0]), (keys.len(), &values[1]));
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
    assert_eq!(process.wait(), Status::Exited(0));
}
