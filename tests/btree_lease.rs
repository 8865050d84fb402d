//! Danger: a reader that is stopped, forgotten or dead and makes the file grow for ever; and one whose
//! lease is over, and that takes for its own what others have written over its pages since, at
//! whatever instruction it was stopped.

mod common;

use common::sys::{self, Status, fork};
use common::{Rng, is_expired, ordered, rounds, seed};
use credenza::Result;
use credenza::btree::{BTree, Snapshot};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KEYS: u64 = 200;
const HOUR: Duration = Duration::from_secs(3600);

/// Writes all records anew. Their values are in the pages of the tree, in pages that they share, or in
/// some of their own.
fn put_all(store: &BTree, byte: u8) {
    let mut transaction = store.write().unwrap();
    for i in 0..KEYS {
        let len = [20, 700, 5000][i as usize % 3];
        transaction.main().insert(&ordered(i), &vec![byte; len]).unwrap();
    }
    transaction.commit().unwrap();
}

/// Whether all records are there with this byte; an error if there is one.
fn has_all(snapshot: &Snapshot<'_>, byte: u8) -> Result<bool> {
    let (mut count, mut is_right) = (0, true);
    snapshot.main().scan(|key, value| {
        is_right &= key == ordered(count) && value.iter().all(|b| *b == byte);
        count += 1;
        Ok(())
    })?;
    Ok(is_right && count == KEYS)
}

fn churn(store: &BTree, turns: u64) {
    for turn in 0..turns {
        put_all(store, 2 + turn as u8 % 100);
        if turn % 7 == 0 {
            store.sync().unwrap();
        }
    }
    store.sync().unwrap();
}

/// How long the file is after much was written while a process is stopped that took a snapshot.
fn len_beside(path: &Path, lease: Option<Duration>, wanted: fn(Result<bool>) -> bool) -> u64 {
    let store = BTree::create(path).unwrap();
    put_all(&store, 1);
    let reader = || {
        let store = BTree::open(path).unwrap();
        let held = match lease {
            Some(lease) => store.read_for(lease).unwrap(),
            None => store.read().unwrap(),
        };
        assert!(has_all(&held, 1).unwrap());
        sys::stop_here();
        let found = has_all(&held, 1);
        assert!(wanted(found), "not what was wanted");
        // Others are not harmed by its end.
        drop(held);
        assert!(!has_all(&store.read().unwrap(), 1).unwrap());
    };
    let len = sys::while_stopped(reader, || {
        churn(&store, 30);
        fs::metadata(path).unwrap().len()
    });
    store.verify(|_, _| ()).unwrap();
    len
}

#[test]
fn a_stopped_reader_whose_lease_is_over_keeps_no_space() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let held = len_beside(&path("held"), None, |found| found.unwrap());
    let leased = len_beside(&path("leased"), Some(HOUR), |found| found.unwrap());
    let expired = len_beside(&path("expired"), Some(Duration::ZERO), |found| is_expired(&found));
    let alone = {
        let store = BTree::create(path("alone")).unwrap();
        put_all(&store, 1);
        churn(&store, 30);
        fs::metadata(path("alone")).unwrap().len()
    };
    println!("{held} bytes beside a reader, {leased}, {expired} when it is expired, {alone} alone");
    assert!(held > alone + alone / 10 && leased > alone + alone / 10, "nothing was held");
    assert!(expired <= alone + alone / 20, "an expired reader holds space");
}

/// Readers that nobody lets go, each of another state: the file stays as it is.
#[test]
fn forgotten_readers_do_not_make_the_file_grow_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    put_all(&store, 1);
    let (mut lengths, mut forgotten) = (Vec::new(), Vec::new());
    for turn in 0..40 {
        let snapshot = store.read_for(Duration::ZERO).unwrap();
        assert!(snapshot.main().get(&ordered(turn)).unwrap().is_some());
        forgotten.push(snapshot);
        churn(&store, 2);
        lengths.push(fs::metadata(&path).unwrap().len());
    }
    assert!(lengths[39] <= lengths[4] + lengths[4] / 4, "the file grows: {lengths:?}");
    let stats = store.stats().unwrap();
    assert!(stats.readers.is_empty() && stats.held_bytes == 0, "{stats:?}");
    assert!(forgotten.iter().all(|snapshot| is_expired(&has_all(snapshot, 1))));
    while store.compact(u64::MAX).unwrap() {}
    store.verify(|_, _| ()).unwrap();
}

/// What the dead hold is free before their lease is over.
#[test]
fn a_dead_reader_needs_no_end_of_its_lease() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    put_all(&store, 1);
    let mut reader = fork(|| {
        let store = BTree::open(&path).unwrap();
        let _held = store.read_for(HOUR).unwrap();
        sys::stop_here();
    });
    assert_eq!(reader.wait(), Status::Stopped(sys::SIGSTOP));
    put_all(&store, 2);
    let readers = store.stats().unwrap().readers;
    let hour = HOUR.as_millis() as u64;
    assert_eq!(readers.len(), 1);
    assert_eq!((readers[0].pid, readers[0].lease_ms), (reader.pid(), Some(hour)));
    assert!(readers[0].left_ms <= Some(hour) && readers[0].held_bytes > 0, "{readers:?}");
    reader.kill();
    assert_eq!(store.stats().unwrap().readers, []);
    // Its slot is as good as any other.
    let held = store.read().unwrap();
    churn(&store, 5);
    assert!(has_all(&held, 2).unwrap());
}

/// A child cannot know when its parent lets go of a snapshot: it reads nothing of it.
#[test]
fn a_child_cannot_read_what_its_parent_has_leased() {
    let folder = tempfile::tempdir().unwrap();
    let store = BTree::create(folder.path().join("store")).unwrap();
    put_all(&store, 1);
    let held = store.read_for(HOUR).unwrap();
    let mut child = fork(|| {
        for refused in [has_all(&held, 1).map(drop), held.renew(HOUR)] {
            assert!(is_expired(&refused));
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("belongs to the process that began it"), "{text}");
        }
        assert!(has_all(&store.read_for(HOUR).unwrap(), 1).unwrap());
    });
    assert_eq!(child.wait(), Status::Exited(0));
    put_all(&store, 2);
    assert!(has_all(&held, 1).unwrap());
}

/// Also where another thread of the parent was reading it when it was forked, and will never go on in the
/// child.
#[test]
fn a_child_does_not_wait_for_who_reads_in_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let store = BTree::create(folder.path().join("store")).unwrap();
    put_all(&store, 1);
    let held = store.read_for(HOUR).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for i in 0..2 {
            let (held, is_over) = (&held, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(held.main().get(&ordered(i)).unwrap().is_some());
                }
            });
        }
        let ends = (0..100 * rounds(1)).map(|_| {
            let mut child = fork(|| {
                sys::give_up_after(10);
                assert!(is_expired(&held.main().get(&ordered(7))) && is_expired(&held.renew(HOUR)));
                assert!(is_expired(&has_all(&held, 1)));
            });
            child.wait()
        });
        let ends: Vec<_> = ends.filter(|end| *end != Status::Exited(0)).take(1).collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(ends, []);
    });
}

/// Readers renew leases that are over, again and again, while others take them away: of the two one is
/// done, so that what is read behind is right, or was said not to be.
#[test]
fn a_lease_is_renewed_or_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = &folder.path().join("store");
    let store = BTree::create(path).unwrap();
    put_all(&store, 1);
    for round in 0..rounds(1) {
        let signs = [0, 1].map(|i| folder.path().join(format!("{round} {i}")));
        let mut readers: Vec<_> = (0..)
            .zip(&signs)
            .map(|(i, sign)| fork(move || renew_for_long(path, i, sign)))
            .collect();
        let mut rng = Rng::new(seed(round));
        for turn in 0..1_000_000 {
            put_all(&store, turn as u8);
            if rng.below(10) == 0 {
                store.sync().unwrap();
            }
            if signs.iter().all(|sign| sign.exists()) {
                break;
            }
        }
        for reader in &mut readers {
            assert_eq!(reader.wait(), Status::Exited(0));
        }
        store.verify(|_, _| ()).unwrap();
    }
}

/// Takes leases that are over when they begin, and renews them as such. Makes a file when it has seen enough
/// of both ends.
fn renew_for_long(path: &Path, number: u64, sign: &Path) {
    sys::give_up_after(100);
    let store = BTree::open(path).unwrap();
    let mut counts = [0; 2];
    while counts.iter().any(|count| *count < 100) {
        let mut leased = store.read_for(Duration::ZERO).unwrap();
        let Ok(Some(value)) = leased.main().get(&ordered(number)) else { continue };
        let byte = value[0];
        loop {
            if let Err(error) = leased.renew(Duration::ZERO) {
                assert!(is_expired::<()>(&Err(error)) && is_expired(&has_all(&leased, byte)));
                counts[1] += 1;
                break;
            }
            counts[0] += 1;
            leased.release_memory();
            let found = has_all(&leased, byte);
            assert!(is_expired(&found) || found.unwrap(), "not what its commit has");
        }
    }
    fs::write(sign, "").unwrap();
}

/// A reader whose lease is over is stopped in a lookup until all is written over, before and behind each
/// of its calls of the kernel, and some instructions later. It goes on then, and has the right value or
/// the right error.
#[test]
fn a_reader_may_be_stopped_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    put_all(&store, 1);
    for round in 0..rounds(1) {
        let mut rng = Rng::new(seed(round));
        for key in 0..3 {
            let counts = folder.path().join("counts");
            let mut reader = fork(|| look_up_and_stop(&path, key, &counts));
            if reader.wait() != STOPPED {
                println!("tracing is not allowed here");
                return;
            }
            let mut calls = 0;
            while is_within(reader.run_to_call()) {
                calls += 1;
            }
            assert_eq!(reader.run(), STOPPED);
            for (call, most) in (0..calls).flat_map(|call| [(call, 1), (call, 2000)]) {
                let steps = rng.below(most);
                let is_stopped = (0..call).all(|_| is_within(reader.run_to_call()))
                    && (0..steps).all(|_| is_within(reader.step()));
                churn(&store, 3);
                let what = format!("key {key}, {steps} steps after call {call}");
                if is_stopped {
                    assert_eq!(reader.run(), STOPPED, "{what}");
                }
                put_all(&store, 1);
                assert_eq!(reader.run(), STOPPED, "{what}");
            }
            let counts = fs::read_to_string(counts).unwrap();
            println!("key {key}, {calls} calls: {counts}");
            assert!(!counts.contains(" 0 "), "{counts}");
        }
    }
}

const STOPPED: Status = Status::Stopped(sys::SIGSTOP);

/// Whether a process is within the lookup, at whose end it stops itself.
fn is_within(status: Status) -> bool {
    assert!(matches!(status, Status::Stopped(_)), "the reader came to an end: {status:?}");
    status != STOPPED
}

/// Looks a key up under a lease that is over, again and again; stops before each time, and behind.
fn look_up_and_stop(path: &Path, key: u64, counts: &Path) {
    let store = BTree::open(path).unwrap();
    // Where it may not be traced, it says so by ending.
    if !sys::be_traced() {
        return;
    }
    let (mut values, mut errors) = (0, 0);
    loop {
        let leased = store.read_for(Duration::ZERO).unwrap();
        sys::stop_here();
        let value = leased.main().get(&ordered(key));
        sys::stop_here();
        match &value {
            Ok(Some(value)) if value.iter().all(|byte| *byte == 1) => values += 1,
            _ if is_expired(&value) => errors += 1,
            other => panic!("a reader found {other:?}"),
        }
        fs::write(counts, format!(" {values} values, {errors} errors")).unwrap();
    }
}
