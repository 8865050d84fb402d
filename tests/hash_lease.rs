//! Danger: a reader of a hash store that is stopped, forgotten or dead and makes the file grow for ever;
//! and one whose lease is over, and that takes for its value what others have written over it since.

mod common;

use common::hash::must;
use common::sys::{self, Status, fork};
use common::{is_expired, rounds};
use credenza::hash::Hash;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const KEYS: u64 = 100;
const HOUR: Duration = Duration::from_secs(3600);

fn key(i: u64) -> Vec<u8> {
    format!("{i}").into_bytes()
}

/// The value that a key gets in a turn: all of it is of that turn.
fn value(i: u64, turn: u8) -> Vec<u8> {
    vec![turn; [30, 700, 9000][i as usize % 3]]
}

fn put_all(store: &Hash, turn: u8) {
    (0..KEYS).for_each(|i| must(store.insert(&key(i), &value(i, turn))));
}

fn churn(store: &Hash, turns: u64) {
    for turn in 0..turns {
        put_all(store, 2 + (turn % 100) as u8);
        if turn % 7 == 0 {
            store.sync().unwrap();
        }
    }
    while store.compact(1 << 20).unwrap() {}
}

/// How long the file is after much was written while a process is stopped that reads a value.
fn len_beside(path: &Path, lease: Option<Duration>, is_kept: bool) -> u64 {
    let store = Hash::create(path).unwrap();
    put_all(&store, 1);
    let reader = || {
        let store = Hash::open(path).unwrap();
        let held = lease.is_none().then(|| store.get(&key(2)).unwrap().unwrap());
        let leased = lease.map(|lease| store.get_for(&key(2), lease).unwrap().unwrap());
        sys::stop_here();
        if let Some(held) = held {
            assert_eq!(*held, value(2, 1));
        }
        if let Some(leased) = leased {
            let found = leased.to_vec();
            assert!(if is_kept { found.unwrap() == value(2, 1) } else { is_expired(&found) });
            assert_eq!(leased.renew(HOUR).is_ok(), is_kept);
        }
        // Others are not harmed by its end.
        assert_ne!(*store.get(&key(2)).unwrap().unwrap(), value(2, 1));
    };
    let len = sys::while_stopped(reader, || {
        churn(&store, 40);
        fs::metadata(path).unwrap().len()
    });
    store.verify(|_, _| ()).unwrap();
    len
}

#[test]
fn a_stopped_reader_whose_lease_is_over_keeps_no_space() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let held = len_beside(&path("held"), None, true);
    let leased = len_beside(&path("leased"), Some(HOUR), true);
    let expired = len_beside(&path("expired"), Some(Duration::ZERO), false);
    let alone = {
        let store = Hash::create(path("alone")).unwrap();
        put_all(&store, 1);
        churn(&store, 40);
        fs::metadata(path("alone")).unwrap().len()
    };
    println!("{held} bytes beside a reader, {leased}, {expired} when it is expired, {alone} alone");
    assert!(held > 2 * alone && leased > 2 * alone, "nothing was held");
    assert!(expired <= alone + alone / 10, "an expired reader holds space");
}

/// Whichever of the two has the first of the places that there are for readers.
#[test]
fn a_lease_is_over_also_beside_one_that_is_not() {
    let store = Hash::in_memory().unwrap();
    put_all(&store, 1);
    for _ in 0..65 {
        let short = store.get_for(&key(2), Duration::ZERO).unwrap().unwrap();
        let long = store.get_for(&key(2), HOUR).unwrap().unwrap();
        churn(&store, 2);
        assert!(is_expired(&short.to_vec()));
        assert_eq!(long.to_vec().unwrap().len(), 9000);
    }
}

#[test]
fn a_lease_is_renewed_or_over() {
    let store = Hash::in_memory().unwrap();
    put_all(&store, 1);
    let short = store.get_for(&key(2), Duration::ZERO).unwrap().unwrap();
    let renewed = store.get_for(&key(2), Duration::ZERO).unwrap().unwrap();
    renewed.renew(HOUR).unwrap();
    assert_eq!(store.readers().iter().filter(|reader| reader.lease_ms.is_some()).count(), 2);
    // A lease that is over counts as long as nobody needs the space.
    assert_eq!(short.to_vec().unwrap(), value(2, 1));
    assert!(store.get_for(b"none", HOUR).unwrap().is_none());
    churn(&store, 20);
    assert!(is_expired(&short.to_vec()) && is_expired(&short.renew(HOUR)));
    assert_eq!(renewed.to_vec().unwrap(), value(2, 1));
    let mut piece = [0; 100];
    assert_eq!(renewed.read_at(&mut piece, 8950).unwrap(), 50);
    assert_eq!(renewed.read_at(&mut piece, 9000).unwrap(), 0);
    assert_eq!(renewed.read_at(&mut piece, u64::MAX).unwrap(), 0);
    // Where there is no pin it is a copy.
    let all: Vec<_> = (0..64).map(|_| store.get(&key(2)).unwrap().unwrap()).collect();
    let copied = store.get_for(&key(2), Duration::ZERO).unwrap().unwrap();
    drop(all);
    assert_eq!(copied.read_at(&mut piece, 8950).unwrap(), 50);
    assert_eq!(copied.read_at(&mut piece, 9001).unwrap(), 0);
    churn(&store, 20);
    assert_eq!(copied.to_vec().unwrap().len(), 9000);
    copied.renew(HOUR).unwrap();
    assert_eq!(store.readers().len(), 1, "one that is gone holds nothing");
    // A child has neither its parent's pins nor its own.
    let mut child = fork(|| {
        let refused = renewed.to_vec();
        assert!(is_expired(&refused));
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("belongs to the process that began it"), "{text}");
    });
    assert_eq!(child.wait(), Status::Exited(0));
    assert_eq!(renewed.to_vec().unwrap(), value(2, 1));
    drop((short, renewed));
    assert!(store.readers().is_empty());
}

/// Readers whose leases are over all the time, beside a writer who needs the space.
#[test]
fn what_is_read_is_the_value_or_expired() {
    let store = Hash::in_memory().unwrap();
    put_all(&store, 1);
    let (is_over, read, expired) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (store, is_over, read, expired) = (&store, &is_over, &read, &expired);
            scope.spawn(move || {
                let mut i = reader;
                while !is_over.load(Ordering::Relaxed) {
                    i = (i + 7) % KEYS;
                    let found = store.get_for(&key(i), Duration::ZERO).unwrap().unwrap();
                    for _ in 0..20 {
                        let value = found.to_vec();
                        if is_expired(&value) {
                            expired.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                        let value = value.unwrap();
                        assert!(value.iter().all(|byte| *byte == value[0]), "torn: {value:?}");
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        // Both kinds are to be seen: each round is of some milliseconds.
        for round in 0.. {
            churn(&store, 5);
            let counts = [&read, &expired].map(|count| count.load(Ordering::Relaxed));
            if round >= rounds(20) && counts.iter().all(|count| *count > 0) {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    println!("{} values, {} expired", read.into_inner(), expired.into_inner());
    store.verify(|_, _| ()).unwrap();
}

/// What is left in the place of a reader who was killed is not taken for the lease of the next.
#[test]
fn the_lease_of_a_dead_reader_is_not_that_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    put_all(&store, 1);
    let mut reader = fork(|| {
        let store = Hash::open(&path).unwrap();
        let all: Vec<_> =
            (0..64).map(|i| store.get_for(&key(i), Duration::ZERO).unwrap().unwrap()).collect();
        sys::stop_here();
        drop(all);
    });
    assert_eq!(reader.wait(), Status::Stopped(sys::SIGSTOP));
    assert_eq!(store.readers().len(), 64);
    reader.kill();
    let held: Vec<_> = (0..64).map(|i| store.get(&key(i)).unwrap().unwrap()).collect();
    assert!(store.readers().iter().all(|reader| reader.lease_ms.is_none()));
    assert_eq!(store.readers().len(), 64);
    churn(&store, 30);
    assert!(held.iter().enumerate().all(|(i, held)| **held == value(i as u64, 1)));
}

/// Has three threads read a large value that is put in and removed again, and the file cut each time.
fn read_while_the_file_is_cut(store: &Hash, reader: &Hash) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // It may say that others write too much.
                    if let Ok(Some(value)) = reader.get(b"large") {
                        assert!(value.iter().all(|byte| *byte == 7) && value.len() == 4_000_000);
                    }
                }
            });
        }
        for _ in 0..rounds(60) {
            must(store.insert(b"large", &vec![7; 4_000_000]));
            std::thread::yield_now();
            store.clear().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn who_holds_nothing_may_read_while_the_file_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    read_while_the_file_is_cut(&store, &reader);
    drop(reader);
    store.insert(b"held", b"value").unwrap();
    let held: Vec<_> =
        (0..64).map(|_| store.get_for(b"held", Duration::ZERO).unwrap().unwrap()).collect();
    read_while_the_file_is_cut(&store, &store);
    drop(held);
    // What is not cut is used again.
    let len = fs::metadata(&path).unwrap().len();
    assert!(len < 20_000_000, "{len} bytes");
}
