//! Danger: a full disk whose file system writes no page where it lies, so that each change of what a file has had for long needs
//! room: whoever changed a store there, or only read it, was ended (SIGBUS).

mod common;

use common::mount::Mount;
use common::subject::{Operation, State, Subject, state_of};
use common::{Rng, is_child, passes_in_child, rounds, seed, sys};
use credenza::btree::BTree;
use credenza::constant::{Builder, Constant};
use credenza::hash::Hash;
use credenza::stats::Statistics;
use credenza::{Durability, Error, Get};
use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SIZE: u64 = 128 << 20;
const KEYS: u64 = 20_000;
/// So long a store may say that there is no room when there is some again.
const SOON: Duration = Duration::from_secs(60);

fn key(i: u64) -> Vec<u8> {
    i.to_le_bytes().to_vec()
}

/// Takes all there is, to the last byte.
fn fill(at: &Path) {
    let mut file = OpenOptions::new().create(true).append(true).open(at).unwrap();
    for len in [1 << 20, 4096] {
        while file.write(&vec![1; len]).is_ok_and(|written| written == len) {}
    }
    let _ = file.sync_all();
    while file.write(&[1; 4096]).is_ok_and(|written| written == 4096) {}
}

/// Gives it back: what was removed is free when that is on the disk.
fn free(mount: &Mount, file: &Path) {
    // Whoever another test forked may have it open.
    let _ = File::create(file);
    fs::remove_file(file).unwrap();
    File::open(mount.path()).unwrap().sync_all().unwrap();
}

/// Makes changes until there is no room.
fn change_until_full<S: Subject>(store: &S, state: &mut State, rng: &mut Rng) {
    for round in 0..1_000_000u64 {
        let value = || Some(round.to_le_bytes().to_vec());
        let count = if round % 50 == 0 { 500 } else { 1 };
        let changes = (0..count).map(|_| (key(rng.below(KEYS)), value()));
        let operation = Operation::Batch(changes.collect());
        match store.apply(&operation) {
            Ok(()) => operation.change(state),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("free some space"), "{text}");
                return;
            }
        }
    }
    panic!("there was always room");
}

fn when_there_is_room(mut change: impl FnMut() -> credenza::Result<()>) {
    let begin = Instant::now();
    while let Err(error) = change() {
        assert!(begin.elapsed() < SOON, "{error}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Fills the disk while a store is open, changes and reads it, and makes room again.
fn fill_beside<S: Subject>(mount: &Mount, rng: &mut Rng) {
    let (path, other) = (mount.path().join("store"), mount.path().join("other"));
    let store = S::open(&path).unwrap();
    let mut state = State::new();
    for i in 0..KEYS {
        let operation = Operation::Insert(key(i), b"first".to_vec());
        store.apply(&operation).unwrap();
        operation.change(&mut state);
    }
    for _ in 0..3 {
        // What is on the disk is met anew.
        store.sync().unwrap();
        fill(&other);
        change_until_full(&store, &mut state, rng);
        for i in 0..1000 {
            assert_eq!(store.get(&key(i)).unwrap().as_ref(), state.get(&key(i)), "{i}");
        }
        free(mount, &other);
        when_there_is_room(|| store.apply(&Operation::Insert(key(0), b"again".to_vec())));
        state.insert(key(0), b"again".to_vec());
        assert_eq!(state_of(&store, "with room"), state);
    }
    drop(store);
    // What is given back is free when that is on the disk.
    File::open(mount.path()).unwrap().sync_all().unwrap();
    fill(&other);
    // What cannot be changed is not opened for that, and is read by who does not want it.
    let error = S::open(&path).err().expect("there is no room").to_string();
    assert!(error.contains("set room aside"), "{error}");
    let store = credenza::open(&path).unwrap();
    assert_eq!(store.get(&key(0)).unwrap().as_deref(), Some(&b"again"[..]));
    drop(store);
    free(mount, &other);
    when_there_is_room(|| S::open(&path)?.verify());
    S::files(&path).iter().for_each(|file| fs::remove_file(file).unwrap());
}

fn made() -> Option<Mount> {
    if std::env::var_os("TSAN_OPTIONS").is_some() {
        println!(
            "skipped: in an atomic operation the thread sanitizer holds a lock, which the handler waits for"
        );
        return None;
    }
    let mount = Mount::of_kind("btrfs", &[], SIZE);
    if mount.is_none() {
        println!("skipped: a btrfs can be made and mounted by root alone, with mkfs.btrfs");
    }
    mount
}

/// What was begun before is ended, each time by words of the store: a transaction that is given up, a value that is let go.
#[test]
fn what_was_begun_before_the_disk_is_full_is_ended() {
    let Some(mount) = made() else { return };
    let other = mount.path().join("other");
    let (hash, btree) = (mount.path().join("store.hash"), mount.path().join("store.btree"));
    let (hash, btree) = (Hash::create(&hash).unwrap(), BTree::create(&btree).unwrap());
    for i in 0..KEYS {
        hash.insert(&key(i), b"first").unwrap();
        btree.insert(&key(i), b"first").unwrap();
    }
    let value = hash.get(&key(7)).unwrap().unwrap();
    let (mut one, mut two) = (hash.transaction().unwrap(), btree.write().unwrap());
    for i in 0..1000 {
        one.insert(&key(i), b"second").unwrap();
        two.main().insert(&key(i), b"second").unwrap();
    }
    fill(&other);
    drop((one, two));
    fill(&other);
    drop(value);
    for i in 0..1000 {
        // Others have taken what was given up for readers, too: that is an error then.
        let is_first = |found: credenza::Result<Option<Vec<u8>>>| match found {
            Ok(found) => assert_eq!(found.as_deref(), Some(&b"first"[..])),
            Err(error) => assert!(error.to_string().contains("free some space"), "{error}"),
        };
        is_first(Get::get(&hash, &key(i)).map(|value| value.map(Cow::into_owned)));
        is_first(Get::get(&btree, &key(i)).map(|value| value.map(Cow::into_owned)));
    }
    free(&mount, &other);
    when_there_is_room(|| hash.insert(b"key", b"value").map(drop));
    when_there_is_room(|| btree.insert(b"key", b"value").map(drop));
    hash.verify(|_, _| ()).unwrap();
    btree.verify(|_, _| ()).unwrap();
}

type Insert<'a> = &'a dyn Fn(&[u8], &[u8]) -> credenza::Result<()>;

/// Who reports that nothing changed makes his user do it twice: what cannot be done without room is refused before the change, or
/// says that it is there.
#[test]
fn a_change_that_is_refused_is_not_there() {
    let Some(mount) = made() else { return };
    let (path, other) = (mount.path().join("store"), mount.path().join("other"));
    let hash = Hash::options().create(true).durability(Durability::Sync);
    let hash = hash.open(path.with_extension("hash")).unwrap();
    let btree = BTree::options().create(true).durability(Durability::Sync);
    let btree = btree.open(path.with_extension("btree")).unwrap();
    let get = |store: &dyn Get, key: &[u8]| {
        let begin = Instant::now();
        loop {
            match store.get(key) {
                Ok(value) => break value.map(Cow::into_owned),
                Err(error) => assert!(begin.elapsed() < SOON, "{error}"),
            }
        }
    };
    let check = |store: &dyn Get, insert: Insert<'_>, round: u64| {
        for i in 0..KEYS {
            let (key, value) = (key(i % 2000), (round * KEYS + i).to_le_bytes());
            let Err(error) = insert(&key, &value) else { continue };
            free(&mount, &other);
            let is_there = get(store, &key).is_some_and(|found| found == value);
            assert_eq!(is_there, error.to_string().contains("make durable"), "{error}");
            return;
        }
        panic!("there was always room");
    };
    for round in 0..10 {
        fill(&other);
        check(&hash, &|key, value| hash.insert(key, value), round);
        fill(&other);
        check(&btree, &|key, value| btree.insert(key, value).map(drop), round);
        when_there_is_room(|| hash.insert(b"key", b"value"));
        when_there_is_room(|| btree.insert(b"key", b"value").map(drop));
    }
}

/// Others may take the room between that a store is in its place and that it is open there: who is told of an error then believes
/// that there is none.
#[test]
fn what_is_built_while_the_disk_fills_is_there_or_refused() {
    if !is_child() {
        // What other tests fork would have the new store open for longer than whoever opens it to read waits.
        return passes_in_child("what_is_built_while_the_disk_fills_is_there_or_refused");
    }
    let Some(mount) = made() else { return };
    let (path, other) = (mount.path().join("store"), mount.path().join("other"));
    let few = Hash::in_memory().unwrap();
    few.insert(b"key", b"value").unwrap();
    for round in 0..20 {
        // Removed for this, as what is cut needs room itself.
        let spare = mount.path().join("spare");
        let bytes = vec![1; (10 + round % 6) << 20];
        when_there_is_room(|| fs::write(&spare, &bytes).map_err(|e| Error::io("write", e)));
        File::open(&spare).unwrap().sync_all().unwrap();
        fill(&other);
        free(&mount, &spare);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !path.exists() && !is_over.load(Ordering::SeqCst) {}
                fill(&other);
            });
            let done = match round % 2 {
                0 => credenza::thaw(&few, &path, |_, _| ()).map(drop),
                _ => credenza::thaw_btree(&few, &path, |_, _| ()).map(drop),
            };
            is_over.store(true, Ordering::SeqCst);
            assert_eq!(done.is_ok(), path.exists(), "{done:?}");
        });
        Hash::files(&path).iter().for_each(|file| drop(fs::remove_file(file)));
        free(&mount, &other);
    }
}

/// Whoever reads counts that in a file, which other processes look at.
#[test]
fn who_counts_operations_in_a_file_is_not_ended() {
    let Some(mount) = made() else { return };
    let path = mount.path().join("store");
    let mut builder = Builder::create(&path).unwrap();
    builder.add(b"key", b"value").unwrap();
    builder.finish().unwrap();
    let statistics = Statistics::new().shared(true);
    let store = Constant::options().statistics(statistics).open(&path).unwrap();
    for _ in 0..2 {
        assert!(store.get(b"key").unwrap().is_some());
        let _ = File::open(mount.path()).unwrap().sync_all();
        fill(&mount.path().join("other"));
    }
    for _ in 0..1000 {
        assert!(store.get(b"key").unwrap().is_some());
    }
}

/// A child has what its parent set aside only as long as that does not need it, and sets its own aside.
#[test]
fn who_was_forked_has_room_of_his_own() {
    let Some(mount) = made() else { return };
    let (path, other) = (mount.path().join("store"), mount.path().join("other"));
    let mut rng = Rng::new(seed(0));
    let store = Hash::create(&path).unwrap();
    (0..KEYS).for_each(|i| store.insert(&key(i), b"first").map(drop).unwrap());
    let mut children = [1, 2].map(|number| {
        let mut rng = Rng::new(seed(number));
        sys::fork(|| {
            sys::give_up_after(120);
            for _ in 0..20_000 {
                match store.insert(&key(rng.below(KEYS)), b"second") {
                    Ok(_) => std::thread::sleep(Duration::from_micros(50)),
                    Err(error) => assert!(error.to_string().contains("free some space"), "{error}"),
                }
            }
        })
    });
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        store.sync().unwrap();
        fill(&other);
        for _ in 0..20_000 {
            let _ = store.insert(&key(rng.below(KEYS)), b"third");
        }
        free(&mount, &other);
        when_there_is_room(|| store.sync());
    }
    for child in &mut children {
        assert_eq!(child.wait(), sys::Status::Exited(0));
    }
    when_there_is_room(|| store.insert(b"key", b"value").map(drop));
    store.verify(|_, _| ()).unwrap();
    assert_eq!(store.len().unwrap(), KEYS + 1);
}

#[test]
fn a_full_disk_that_copies_on_write_ends_nobody() {
    for round in 0..rounds(1) {
        let mut rng = Rng::new(seed(round));
        let Some(mount) = made() else { return };
        fill_beside::<Hash>(&mount, &mut rng);
        fill_beside::<BTree>(&mount, &mut rng);
    }
}

/// The room that is kept is a file of 8 MiB, and the kernel ends whoever makes one longer than he may.
#[test]
fn a_limit_on_the_size_of_files_ends_nobody() {
    let Some(mount) = Mount::of_kind("btrfs", &[], SIZE) else {
        println!("skipped: no file system that copies on write can be made and mounted here");
        return;
    };
    let path = |name: &str| mount.path().join(name);
    drop(Hash::options().create(true).open(path("hash")).unwrap());
    drop(BTree::options().create(true).open(path("btree")).unwrap());
    let mut child = sys::fork(|| {
        sys::limit_file_size(Some(4 << 20));
        sys::die_beyond_file_size();
        Hash::open(path("hash")).unwrap().insert(b"key", b"value").unwrap();
        BTree::options().open(path("btree")).unwrap().insert(b"key", b"value").unwrap();
    });
    assert_eq!(child.wait(), sys::Status::Exited(0));
}
