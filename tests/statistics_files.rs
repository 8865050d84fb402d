//! Danger: numbers that are lost between processes, or made up by a damaged file; or statistics that
//! stop a store from being used.

mod common;

use common::statistics::{
    KEYS, beside, check_latencies, constant, counted, hash, numbers, open, stores,
};
use common::sys::{self, Status};
use common::{Rng, child, is_child};
use credenza::constant::Constant;
use credenza::stats::{Latency, Observer, Operation, Operations, Outcome, Statistics};
use credenza::{Get, OpenOptions, Scan, Store};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

// --- processes -------------------------------------------------------------------------------

/// Not a test of its own: what [`start`] runs in another process. It makes lookups, and changes where
/// there can be any, says so, and waits to be told to end, or to be killed.
#[test]
fn child_process() {
    if !is_child() {
        return;
    }
    let path = std::env::var("STORE").unwrap();
    let store = open(Path::new(&path), Statistics::new().shared(true));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for key in 0..2 * KEYS {
                    store.get(&key.to_le_bytes()).unwrap();
                }
                change(&store);
            });
        }
    });
    std::fs::write(format!("{path}.done.{}", std::process::id()), "").unwrap();
    std::io::read_to_string(std::io::stdin()).unwrap();
}

/// What a thread of the child changes: 100 updates, of a btree store in a transaction that is undone,
/// and as many that leave a key as it is.
fn change(store: &Store) {
    match store {
        Store::Hash(store) => {
            for _ in 0..100 {
                store.increment(b"sum", 1).unwrap();
            }
        }
        Store::BTree(store) => {
            let mut transaction = store.write().unwrap();
            for i in 0..100u32 {
                let mut main = transaction.main();
                assert!(!main.insert_if_absent(&[0; 4], b"none").unwrap());
                assert!(main.insert_if_absent(format!("new{i}").as_bytes(), b"").unwrap());
            }
        }
        _ => {}
    }
}

/// Starts the child, and waits until it has done what it does.
fn start(path: &Path) -> Child {
    let mut command = child("child_process");
    command.env("STORE", path).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let done = format!("{}.done.{}", path.display(), child.id());
    while !Path::new(&done).exists() {
        assert!(child.try_wait().unwrap().is_none(), "the child has failed");
        std::thread::yield_now();
    }
    child
}

#[test]
fn processes_see_each_others_numbers_and_those_of_the_dead() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        let store = open(&path, Statistics::new().shared(true));
        let changes = if matches!(store, Store::Constant(_)) { 0 } else { 300 };
        let observer = Observer::open(&path).unwrap();
        let all = u64::from(KEYS);
        let check = |children: u64| {
            for seen in [observer.read().unwrap(), counted(&store)] {
                let expected = [6 * all, 3 * all, 3 * all, 0, 6 * all, 9 * all];
                assert_eq!(numbers(&seen, Operation::Get), expected.map(|n| n * children));
                assert!(children == 0 || seen.of(Operation::Get).latency.count() >= children);
                let updates = seen.of(Operation::Update);
                assert_eq!(updates.count(Outcome::Done), changes * children);
                let [left, aborts] =
                    if matches!(store, Store::BTree(_)) { [300, 3] } else { [0; 2] };
                assert_eq!(updates.count(Outcome::Unchanged), left * children);
                assert_eq!(seen.of(Operation::Abort).calls, aborts * children);
                check_latencies(&seen);
            }
        };
        check(0);
        let [mut ended, mut killed] = [start(&path), start(&path)];
        check(2);
        drop(ended.stdin.take());
        assert!(ended.wait().unwrap().success());
        killed.kill().unwrap();
        killed.wait().unwrap();
        check(2);
        // Whoever opens the file next folds what the dead one left; nothing is lost or counted twice.
        let other = open(&path, Statistics::new().shared(true));
        check(2);
        other.get(b"none").unwrap();
        let since = observer.read().unwrap().since(&counted(&store));
        assert_eq!(numbers(&since, Operation::Get), [0; 6]);
        // Each has three threads or more: many times as many as there are slots, were they not
        // given back.
        drop((other, store));
        for _ in 0..25 {
            let mut child = start(&path);
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let [calls, hits, misses, ..] = numbers(&observer.read().unwrap(), Operation::Get);
        assert_eq!([calls, hits, misses], [27 * 6 * all + 1, 27 * 3 * all, 27 * 3 * all + 1]);
    }
}

/// The child goes on with the handle it has: its numbers and its parent's are both there, and its
/// end takes no slot from its parent.
#[test]
fn a_fork_disturbs_no_count() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        let store = open(&path, Statistics::new().shared(true));
        let get = |store: &Store, n: u32| {
            (0..n).for_each(|key| drop(store.get(&key.to_le_bytes()).unwrap()));
        };
        let calls = |store: &Store| counted(store).of(Operation::Get).calls;
        get(&store, 100);
        let mut handle = Some(store);
        let mut forked = sys::fork(|| {
            let last = handle.take().unwrap();
            get(&last, 20_000);
            drop(last);
        });
        let store = handle.unwrap();
        get(&store, 20_000);
        assert_eq!(forked.wait(), Status::Exited(0));
        get(&store, 1000);
        assert_eq!(calls(&store), 41_100);
        assert_eq!(Observer::open(&path).unwrap().read().unwrap(), counted(&store));
        // What a handle of one process counts is its own.
        let store = open(&path, Statistics::new());
        get(&store, 10);
        let mut forked = sys::fork(|| {
            get(&store, 10);
            assert_eq!(calls(&store), 20);
        });
        assert_eq!(forked.wait(), Status::Exited(0));
        assert_eq!(calls(&store), 10);
    }
}

// --- files -----------------------------------------------------------------------------------

#[test]
fn no_file_appears_unless_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        credenza::open(&path).unwrap().get(b"none").unwrap();
        open(&path, Statistics::new()).get(b"none").unwrap();
        assert!(!beside(&path).exists());
        Observer::open(&path).unwrap_err();
        // Nor does a folder that may not be written stop anybody; root may write it all the same.
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o555)).unwrap();
        credenza::open(&path).unwrap();
        let shared = OpenOptions::new().statistics(Statistics::new().shared(true)).open(&path);
        match shared {
            Ok(_) => assert!(beside(&path).exists()),
            Err(e) => assert_eq!(e.path(), Some(&*beside(&path.canonicalize().unwrap()))),
        }
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    }
}

/// Another who may change the store could not open it with its statistics, and everybody could read those of a private one.
#[test]
fn statistics_have_the_rights_of_their_store() {
    let dir = tempfile::tempdir().unwrap();
    for (store, expected) in [(0o600, 0o600), (0o660, 0o660), (0o666, 0o666), (0o444, 0o644)] {
        for path in stores(dir.path()) {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(store)).unwrap();
            let statistics = Statistics::new().shared(true);
            let options = OpenOptions::new().read_only(store == 0o444).statistics(statistics);
            options.open(&path).unwrap();
            let mode = std::fs::metadata(beside(&path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, expected, "{path:?} {store:o}");
            std::fs::remove_file(beside(&path)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

#[test]
fn numbers_go_on_where_they_were_and_belong_to_the_file_behind_a_link() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        let link = path.with_extension("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for (round, path) in [&path, &link, &path].into_iter().enumerate() {
            let store = open(path, Statistics::new().shared(true));
            store.get(b"none").unwrap();
            assert_eq!(counted(&store).of(Operation::Get).calls, round as u64 + 1);
        }
        let seen = Observer::open(&link).unwrap().read().unwrap();
        assert_eq!(seen.of(Operation::Get).calls, 3);
        assert!(!beside(&link).exists());
    }
}

/// A store that is built anew and put in the old one's place goes on with its numbers.
#[test]
fn a_replaced_store_goes_on_counting() {
    let dir = tempfile::tempdir().unwrap();
    let path = constant(dir.path());
    let options = Constant::options().statistics(Statistics::new().shared(true));
    let mut store = options.open(&path).unwrap();
    store.get(b"none").unwrap();
    constant(dir.path());
    assert!(store.refresh().unwrap());
    store.get(&5u32.to_le_bytes()).unwrap();
    let other = open(&path, Statistics::new().shared(true));
    other.get(b"none").unwrap();
    assert_eq!(numbers(&store.operations().unwrap(), Operation::Get), [3, 1, 2, 0, 3, 3]);
}

/// An observer would tell of a store that is not used any more, whatever is done with the one that took its name.
#[test]
fn who_observes_is_told_that_the_file_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        let store = open(&path, Statistics::new().shared(true));
        store.get(b"none").unwrap();
        let observer = Observer::open(&path).unwrap();
        std::fs::remove_file(beside(&path)).unwrap();
        let error = observer.read().unwrap_err().to_string();
        assert!(error.contains("removed") && error.contains("-stats"), "{error}");
        let other = open(&path, Statistics::new().shared(true));
        other.get(b"none").unwrap();
        observer.read().unwrap_err();
        let seen = Observer::open(&path).unwrap().read().unwrap();
        assert_eq!(seen.of(Operation::Get).calls, 1);
    }
}

#[test]
fn foreign_files_refuse_statistics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.cdb");
    let mut writer = credenza::foreign::CdbWriter::create(&path).unwrap();
    writer.add(b"key", b"value").unwrap();
    writer.finish().unwrap();
    let options = OpenOptions::new();
    options.clone().statistics(Statistics::new()).open(&path).unwrap_err();
    assert!(options.open(&path).unwrap().operations().is_none());
}

#[test]
fn damaged_files_of_statistics_are_errors_and_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    for path in stores(dir.path()) {
        refuse_damaged(&path, dir.path());
        // With or without them, the store is what it was.
        let store = credenza::open(&path).unwrap();
        store.verify(|_, _| ()).unwrap();
        assert_eq!(store.len().unwrap(), u64::from(KEYS));
    }
}

fn refuse_damaged(path: &Path, dir: &Path) {
    let shared = Statistics::new().shared(true);
    drop(open(path, shared.clone()));
    let whole = std::fs::read(beside(path)).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(beside(path), bytes).unwrap();
        Operations::from_bytes(bytes).unwrap_err();
        let e = Observer::open(path).unwrap_err();
        assert!(e.path().is_some() && e.to_string().contains("remove"), "{e}");
        let e = OpenOptions::new().statistics(shared.clone()).open(path).unwrap_err();
        assert!(e.path().is_some() && e.to_string().contains("remove"), "{e}");
        credenza::open(path).unwrap().get(b"none").unwrap();
        assert_eq!(std::fs::read(beside(path)).unwrap(), bytes, "it was changed");
    };
    for len in [1, 8, 63, 64, 4096, whole.len() - 1] {
        refused(&whole[..len]);
    }
    for bit in 0..64 * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if bit % 37 == 0 {
            refused(&flipped);
        }
        Operations::from_bytes(&flipped).unwrap_err();
    }
    refused(&[whole.clone(), vec![0]].concat());
    refused(b"this is text that somebody keeps here");
    // One of zeros is one whose maker was killed.
    for len in [0, 64, whole.len()] {
        std::fs::write(beside(path), vec![0; len]).unwrap();
        Observer::open(path).unwrap_err();
        drop(open(path, shared.clone()));
        Observer::open(path).unwrap();
    }
    for kind in ["folder", "link"] {
        std::fs::remove_file(beside(path)).unwrap();
        match kind {
            "folder" => std::fs::create_dir(beside(path)).unwrap(),
            _ => std::os::unix::fs::symlink(dir.join("victim"), beside(path)).unwrap(),
        }
        let e = OpenOptions::new().statistics(shared.clone()).open(path).unwrap_err();
        assert!(e.path().is_some(), "{e}");
        if kind == "folder" {
            std::fs::remove_dir(beside(path)).unwrap();
            std::fs::write(beside(path), "").unwrap();
        }
    }
    assert!(!dir.join("victim").exists());
}

#[test]
fn any_numbers_behind_a_true_header_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let path = hash(dir.path());
    let shared = Statistics::new().shared(true).latency(Latency::Every);
    drop(open(&path, shared.clone()));
    let mut rng = Rng::new(5);
    let mut bytes = std::fs::read(beside(&path)).unwrap();
    for round in 0..6 {
        for at in (64..bytes.len()).step_by(8) {
            let word = match round {
                0 => u64::MAX,
                1 => rng.below(1 << 40) << 24 | rng.below(1 << 24),
                _ => [0, 1, u64::MAX, 1 << 63, 0xffff][rng.below(5) as usize],
            };
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        std::fs::write(beside(&path), &bytes).unwrap();
        for operations in [
            Operations::from_bytes(&bytes).unwrap(),
            Observer::open(&path).unwrap().read().unwrap(),
        ] {
            for (operation, tally) in operations.iter() {
                for outcome in operation.outcomes() {
                    std::hint::black_box(tally.count(*outcome));
                }
                assert!(tally.latency.percentile(99.0) <= tally.latency.max());
                assert!(tally.latency.mean() >= 0.0 && tally.latency.buckets().count() <= 512);
            }
        }
        // Who counts in it counts right from where it is.
        let store = open(&path, shared.clone());
        let before = counted(&store);
        for key in 0..200u32 {
            store.get(&key.to_le_bytes()).unwrap();
        }
        let calls = |operations: &Operations| operations.of(Operation::Get).calls;
        let difference = calls(&counted(&store)).wrapping_sub(calls(&before));
        assert_eq!(difference % (1 << 48), 200, "round {round}");
    }
}
