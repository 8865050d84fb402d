//! Danger: a full disk, or a limit on the size of files, that harms what is there; and a store that has filled it and
//! cannot be emptied: removals are records, cleaning copies, and neither had room.

mod common;

use common::full::change_with_little_room;
use common::hash::{index_of, opened_again};
use common::mount::Mount;
use common::subject::{State, Subject, state_of};
use common::sys;
use common::{Rng, is_child, passes_in_child, rounds, seed};
use credenza::hash::{Batch, Hash};
use std::fs;
use std::path::Path;

/// Puts until there is no room.
fn fill(store: &Hash, len: usize) -> State {
    let mut state = State::new();
    for number in 0u64.. {
        let (key, value) = (number.to_le_bytes().to_vec(), vec![number as u8; len]);
        if let Err(error) = store.insert(&key, &value) {
            let text = error.to_string();
            assert!(text.contains("free some space") || text.contains("ulimit -f"), "{text}");
            break;
        }
        state.insert(key, value);
    }
    state
}

fn shuffled_keys(state: &State, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = state.keys().cloned().collect();
    rng.shuffle(&mut keys);
    keys
}

/// Fills a store, tries to change values that are there, and takes out all keys in some order; half of them, and the log
/// is all that is left for who makes the index again.
fn fill_and_empty(path: &Path, len: usize, rng: &mut Rng, what: &str) {
    let store = Hash::create(path).unwrap();
    let mut state = fill(&store, len);
    let keys = shuffled_keys(&state, rng);
    let is_synced = rng.below(2) == 0;
    for key in keys.iter().take(1000) {
        let value = vec![0; rng.below(len as u64 + 1) as usize];
        if store.insert(key, &value).is_ok() {
            state.insert(key.clone(), value);
        }
    }
    let (first, second) = keys.split_at(keys.len() / 2);
    for (i, key) in first.iter().enumerate() {
        let was_there = store.remove(key).unwrap_or_else(|e| panic!("{what}, removal {i}: {e}"));
        assert_eq!(was_there, state.remove(key).is_some(), "{what}");
        if is_synced && i % 1000 == 0 {
            store.sync().unwrap();
        }
    }
    assert_eq!(state_of(&store, what), state, "{what}");
    store.verify(|_, _| ()).unwrap();
    drop(store);
    fs::remove_file(index_of(path)).unwrap();
    let store = opened_again(path);
    assert_eq!(state_of(&store, what), state, "{what}: made from the log");
    for (i, key) in second.iter().enumerate() {
        assert!(store.remove(key).unwrap_or_else(|e| panic!("{what}, removal {i} of rest: {e}")));
    }
    assert_eq!(store.len().unwrap(), 0);
    assert!(!fill(&store, len).is_empty(), "{what}: filled again");
    store.clear().unwrap_or_else(|e| panic!("{what}, clear: {e}"));
}

#[test]
fn what_fills_its_disk_can_be_taken_out() {
    let sizes = [("500k", 10), ("600k", 10), ("1m", 30), ("3m", 0), ("4m", 100), ("8m", 1000)];
    for round in 0..rounds(1) {
        for (size, len) in sizes.into_iter().chain([("8m", 20_000), ("12m", 100_000)]) {
            let Some(mount) = Mount::of_size(size) else {
                println!("skipped: this user may not mount a small file system");
                return;
            };
            let what = format!("{size}, values of {len}, seed {}", seed(round));
            let mut rng = Rng::new(seed(round));
            fill_and_empty(&mount.path().join("store"), len, &mut rng, &what);
        }
    }
}

/// Changes that find room in turn with such that do not, then removals, compaction and `clear`.
#[test]
fn a_full_disk_that_is_written_to_can_be_emptied() {
    for (len, is_compacted) in [(100, true), (1000, false), (4000, true), (40_000, false)] {
        let Some(mount) = Mount::of_size("8m") else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let path = mount.path().join("store");
        let store = Hash::create(&path).unwrap();
        let mut state = fill(&store, len);
        let keys = shuffled_keys(&state, &mut Rng::new(1));
        let mut rng = Rng::new(len as u64);
        for _ in 0..20_000 {
            let key = &keys[rng.below(keys.len() as u64) as usize];
            let value = vec![2; rng.below(len as u64 + 1) as usize];
            if rng.below(2) == 0 && store.insert(key, &value).is_ok() {
                state.insert(key.clone(), value);
            } else {
                assert_eq!(store.remove(key).unwrap(), state.remove(key).is_some());
            }
        }
        assert_eq!(state_of(&store, "changed"), state);
        if is_compacted {
            while store.compact(1 << 20).unwrap() {}
        }
        let mut batch = Batch::new();
        let (first, second) = keys.split_at(keys.len() / 4);
        for key in first {
            batch.remove(key);
        }
        store.batch(&batch).unwrap();
        for key in second.iter().step_by(2) {
            store.remove(key).unwrap();
        }
        store.clear().unwrap();
        assert_eq!(store.len().unwrap(), 0);
    }
}

/// What a batch adds to the index may need room there, and what it takes out does not.
#[test]
fn a_batch_of_removals_needs_no_room_in_the_index() {
    for len in [1000, 20_000, 300_000] {
        let Some(mount) = Mount::of_size("4m") else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let store = Hash::create(mount.path().join("store")).unwrap();
        let state = fill(&store, len);
        for key in state.keys() {
            let mut batch = Batch::new();
            batch.remove(key);
            store.batch(&batch).unwrap();
        }
        assert_eq!(store.len().unwrap(), 0);
    }
}

/// Of records as short as what removes them. The segment that a removal was about to take was counted twice.
#[test]
fn the_shortest_records_can_be_taken_out() {
    let Some(mount) = Mount::of_size("12m") else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let store = Hash::create(mount.path().join("store")).unwrap();
    for key in fill(&store, 0).keys().take(100_000) {
        assert!(store.remove(key).unwrap());
    }
}

/// Puts must not fill what a removal has the file longer by.
#[test]
fn whoever_puts_after_each_removal_leaves_room_for_the_next() {
    for (size, len) in [("1m", 200), ("4m", 0), ("4m", 1000)] {
        let Some(mount) = Mount::of_size(size) else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let store = Hash::create(mount.path().join("store")).unwrap();
        let mut keys = shuffled_keys(&fill(&store, len), &mut Rng::new(2));
        for (i, key) in keys.drain(..keys.len() / 2).enumerate() {
            let was_there = store.remove(&key);
            assert!(was_there.unwrap_or_else(|e| panic!("{size}, values of {len}, {i}: {e}")));
            for number in 0..200u64 {
                let key = (u64::MAX - i as u64 * 200 - number).to_le_bytes();
                if store.insert(&key, &vec![1; len]).is_err() {
                    break;
                }
            }
        }
    }
}

/// What is lost at the ends of segments is no garbage: each of these puts had all of the log copied.
#[test]
fn puts_that_are_refused_copy_nothing() {
    for len in [530_000, 700_000, 1_100_000] {
        let Some(mount) = Mount::of_size("40m") else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let path = mount.path().join("store");
        let store = Hash::create(&path).unwrap();
        fill(&store, len);
        let put = |key: u32| store.insert(&key.to_le_bytes(), &vec![1; len]).is_ok();
        // The first may clean, and find room.
        while (0..10).any(put) {}
        let log = || fs::read(&path).unwrap().split_off(8192);
        let before = log();
        assert!(!(0..10).any(put));
        assert!(log() == before, "values of {len}");
    }
}

/// A child's work: with a limit on the size of files.
#[test]
fn child_fills_and_empties() {
    if !is_child() {
        return;
    }
    sys::give_up_after(300);
    for (limit, len) in [(500 << 10, 10), (3 << 20, 100), (8 << 20, 1000)] {
        let folder = tempfile::tempdir().unwrap();
        sys::limit_file_size(Some(limit));
        let what = format!("limit {limit}, values of {len}");
        fill_and_empty(&folder.path().join("store"), len, &mut Rng::new(limit), &what);
    }
}

#[test]
fn what_reaches_the_limit_on_files_can_be_taken_out() {
    passes_in_child("child_fills_and_empties");
}

/// A child's work: writes with less and less room, at first none.
#[test]
fn child_fills_with_less_and_less_room() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let errors = change_with_little_room(&store, (300, 2000), 400 << 10, |state, text, what| {
        assert!(text.contains("store"), "{what}: {text}");
        // It says that nothing changed, so nothing did; and all is there to be read.
        for (key, value) in state {
            let found = Subject::get(&store, key).unwrap();
            assert!(found.as_ref() == Some(value), "{what}: {text}");
        }
        assert_eq!(store.len().unwrap(), state.len() as u64, "{what}");
    });
    assert!(errors > 20, "{errors} errors");
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_nothing_changes() {
    passes_in_child("child_fills_with_less_and_less_room");
}

#[test]
fn a_full_disk_is_an_error_and_the_store_stays_usable() {
    for size in ["100k", "1m"] {
        let Some(mount) = Mount::of_size(size) else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let path = mount.path().join("store");
        let store = Hash::create(&path).unwrap();
        let ballast = mount.path().join("ballast");
        fs::write(&ballast, vec![0; 32 << 10]).unwrap();
        let mut count = 0u64;
        let error = loop {
            match store.insert(&count.to_le_bytes(), &[count as u8; 500]) {
                Ok(_) => count += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("free some space") && error.contains("store"), "{error}");
        assert_eq!(store.len().unwrap(), count);
        for i in 0..count {
            assert_eq!(store.get(&i.to_le_bytes()).unwrap().as_deref(), Some(&[i as u8; 500][..]));
        }
        fs::remove_file(&ballast).unwrap();
        for i in 0..count / 2 {
            store
                .remove(&i.to_le_bytes())
                .unwrap_or_else(|e| panic!("{size}, {i} of {count}: {e}"));
        }
        while store.compact(1 << 16).unwrap() {}
        for i in 0..count / 4 {
            store.insert(&i.to_le_bytes(), &[3; 400]).unwrap();
        }
        state_of(&store, size);
        drop(store);
        state_of(&Hash::open(&path).unwrap(), size);
    }
}

/// Where the index can become no longer, a batch uses what its pages have left, and leaves nothing where that is not enough.
#[test]
fn a_batch_that_finds_room_in_pages_alone_is_whole_or_refused() {
    let (mut done, mut refused) = (0, 0);
    for round in 0..rounds(40) {
        let Some(mount) = Mount::of_size("2m") else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let mut rng = Rng::new(seed(round));
        let store = Hash::create(mount.path().join("store")).unwrap();
        let mut state = State::new();
        let (keys, most) = (50 + rng.below(2000), 1 + rng.below(150));
        for number in 0..keys {
            let (key, value) = (number.to_le_bytes().to_vec(), vec![1; 100]);
            store.insert(&key, &value).unwrap();
            state.insert(key, value);
        }
        // Room in the file, and in some pages, but none on the disk.
        for number in 0..rng.below(keys) {
            let key = (number * 7 % keys).to_le_bytes().to_vec();
            assert_eq!(store.remove(&key).unwrap(), state.remove(&key).is_some());
        }
        let _ = fs::write(mount.path().join("ballast"), vec![0; 4 << 20]);
        for number in 0..200 {
            let mut batch = Batch::new();
            let mut after = state.clone();
            for _ in 0..1 + rng.below(most) {
                let (key, value) = (rng.below(1 << 30).to_le_bytes().to_vec(), vec![2; 4]);
                batch.insert(&key, &value);
                after.insert(key, value);
            }
            match store.batch(&batch) {
                Ok(()) => (state, done) = (after, done + 1),
                Err(_) => refused += 1,
            }
            assert_eq!(store.len().unwrap(), state.len() as u64, "seed {round}, batch {number}");
        }
        assert!(state_of(&store, "batches") == state, "seed {round}");
        store.verify(|_, _| ()).unwrap();
    }
    println!("{done} batches, {refused} refused");
}
