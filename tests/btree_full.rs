//! Danger: a full disk, or a limit on the size of files, that harms what is in a btree store, or keeps it from being made smaller.

mod common;

use common::btree::fill;
use common::full::change_with_little_room;
use common::mount::Mount;
use common::subject::{State, state_of};
use common::{Rng, is_child, ordered, passes_in_child, sys};
use credenza::btree::BTree;
use credenza::{Durability, Get, Scan};
use std::fs;

/// The journal lies where this process may not write, as another made it: whoever writes there is killed.
#[test]
fn a_limit_below_the_journal_kills_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = BTree::options().create(true).durability(Durability::Sync);
    let store = options.clone().open(&path).unwrap();
    for i in 0..200u32 {
        store.insert(&i.to_le_bytes(), &[7; 500]).unwrap();
    }
    // What is put leaves room for removals.
    for i in 60..160u32 {
        store.remove(&i.to_le_bytes()).unwrap();
    }
    let mut child = sys::fork(|| {
        sys::give_up_after(60);
        sys::limit_file_size(Some(8192));
        sys::die_beyond_file_size();
        let store = options.open(&path).unwrap();
        for i in 0..20u32 {
            store.insert(&i.to_le_bytes(), &[8; 500]).unwrap();
        }
    });
    assert_eq!(child.wait(), sys::Status::Exited(0));
    assert_eq!(Get::get(&store, &3u32.to_le_bytes()).unwrap().as_deref(), Some(&[8; 500][..]));
    assert!(store.stats().unwrap().is_durable);
}

/// A backup says which disk is full.
#[test]
fn a_copy_without_room_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let store = BTree::create(&path).unwrap();
    for i in 0..200u32 {
        store.insert(&i.to_le_bytes(), &[7; 500]).unwrap();
    }
    let mut child = sys::fork(|| {
        sys::limit_file_size(Some(16 << 10));
        let error = store.backup(&copy, |_, _| ()).unwrap_err();
        assert_eq!(error.path(), Some(&*copy), "{error}");
    });
    assert_eq!(child.wait(), sys::Status::Exited(0));
}

/// A child's work: writes with less and less room, at first none.
#[test]
fn child_fills() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    // Past the second block of the table of pages.
    let errors = change_with_little_room(&store, (2000, 3000), 1300 << 10, |state, text, what| {
        assert!(text.contains("make longer"), "{what}: {text}");
        // Nothing changed; and all is there to be read.
        assert!(&state_of(&store, &format!("{what}: {text}")) == state);
    });
    assert!(errors > 100, "{errors} errors");
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_nothing_changes() {
    passes_in_child("child_fills");
}

/// Where each change is durable, too, which may be in the journal alone: what it needs is held by pages
/// that were replaced.
#[test]
fn on_a_full_disk_durable_changes_make_space() {
    passes_in_child("child_changes_on_a_full_disk");
}

#[test]
fn child_changes_on_a_full_disk() {
    if !is_child() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::options().create(true).durability(Durability::Sync).open(&path).unwrap();
    fill(&store, 0..20_000, 200);
    for i in 0..12 {
        store.insert(&ordered(i), &[2; 200]).unwrap();
    }
    store.sync().unwrap();
    sys::limit_file_size(Some(fs::metadata(&path).unwrap().len()));
    // The next one makes the space that one lacks.
    let mut failed = 0;
    for i in 0..1500 {
        let key = ordered(i * 13);
        if let Err(error) = store.insert(&key, &[3; 200]) {
            failed += 1;
            store.insert(&key, &[3; 200]).unwrap_or_else(|e| panic!("{i}: {error}, again {e}"));
        }
    }
    for i in 0..20_000 {
        assert!(store.remove(&ordered(i)).or_else(|_| store.remove(&ordered(i))).unwrap());
    }
    println!("{failed} changes failed once");
    sys::limit_file_size(None);
    store.verify(|_, _| ()).unwrap();
}

#[test]
fn a_full_disk_is_an_error_and_the_store_stays_usable() {
    for size in ["100k", "2m"] {
        let Some(mount) = Mount::of_size(size) else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let path = mount.path().join("store");
        let store = BTree::create(&path).unwrap();
        let ballast = mount.path().join("ballast");
        fs::write(&ballast, vec![0; 32 << 10]).unwrap();
        let key = |i: u64| ordered(i);
        let mut count = 0u64;
        let error = loop {
            match store.insert(&key(count), &[count as u8; 500]) {
                Ok(_) => count += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("free some space") && error.contains("store"), "{error}");
        assert_eq!(Scan::len(&store).unwrap(), count);
        let mut transaction = store.write().unwrap();
        assert!(
            (count..).take(100).any(|i| transaction.main().insert(&key(i), &[1; 500]).is_err())
        );
        let error = transaction.commit().unwrap_err().to_string();
        assert!(error.contains("half-way"), "{error}");
        for i in 0..count {
            let found = Get::get(&store, &key(i)).unwrap();
            assert_eq!(found.as_deref(), Some(&[count.min(i) as u8; 500][..]));
        }
        state_of(&store, size);
        store.sync().unwrap();
        fs::remove_file(&ballast).unwrap();
        for i in 0..count / 2 {
            assert!(
                store.remove(&key(i)).unwrap_or_else(|e| panic!("{size}, {i} of {count}: {e}"))
            );
        }
        store.sync().unwrap();
        for i in 0..count / 4 {
            store.insert(&key(i), &[3; 400]).unwrap_or_else(|e| panic!("{size}, {i}: {e}"));
        }
        state_of(&store, size);
        drop(store);
        state_of(&BTree::open(&path).unwrap(), size);
    }
}

/// Puts random keys and values of `len` bytes until there is no room.
fn fill_up(store: &BTree, len: usize, rng: &mut Rng) -> State {
    let mut state = State::new();
    loop {
        let (key, value) = (rng.bytes(8), vec![1; len]);
        match store.insert(&key, &value) {
            Ok(_) => state.insert(key, value),
            Err(error) => {
                assert!(error.to_string().contains("free some space"), "{error}");
                return state;
            }
        };
    }
}

/// A store that had filled its disk could not be emptied: removals copy pages, and there were none.
#[test]
fn what_fills_its_disk_can_be_taken_out() {
    for (size, len) in [("500k", 10), ("2m", 100), ("4m", 1000), ("8m", 30), ("8m", 20_000)] {
        let Some(mount) = Mount::of_size(size) else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let what = format!("{size}, values of {len}");
        let path = mount.path().join("store");
        let store = BTree::create(&path).unwrap();
        let mut rng = Rng::new(len as u64);
        let mut state = fill_up(&store, len, &mut rng);
        if len % 1000 == 0 {
            store.sync().unwrap();
        }
        let mut keys: Vec<Vec<u8>> = state.keys().cloned().collect();
        rng.shuffle(&mut keys);
        let (first, second) = keys.split_at(keys.len() / 2);
        for (i, key) in first.iter().enumerate() {
            // In between, what is put takes nothing of what is left for removals.
            let value = vec![2; len];
            if i % 5 == 0 && store.insert(&second[i], &value).is_ok() {
                state.insert(second[i].clone(), value);
            }
            assert!(store.remove(key).unwrap_or_else(|e| panic!("{what}, removal {i}: {e}")));
            state.remove(key);
        }
        drop(store);
        let store = BTree::open(&path).unwrap();
        assert_eq!(state_of(&store, &what), state, "{what}");
        state.extend(fill_up(&store, len, &mut rng));
        let keys: Vec<Vec<u8>> = state.keys().cloned().collect();
        for pair in keys.chunks(2) {
            let mut transaction = store.write().unwrap();
            pair.iter().for_each(|key| assert!(transaction.main().remove(key).unwrap()));
            transaction.commit().unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        assert!(store.read().unwrap().main().is_empty());
        store.verify(|_, _| ()).unwrap();
    }
}

/// Where each change is another process's, and values lie in pages of values: what was free in the file was put in to the last
/// page, and removals failed as they wanted to put those pages in order.
#[test]
fn who_opens_a_store_anew_leaves_room_for_removals_too() {
    let Some(mount) = Mount::of_size("256k") else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let path = mount.path().join("store");
    let mut state = State::new();
    let mut rng = Rng::new(1);
    let put = |state: &mut State, rng: &mut Rng| {
        let (key, value) = (rng.bytes(8), vec![1; 1000]);
        let is_done = BTree::create(&path).unwrap().insert(&key, &value).is_ok();
        is_done.then(|| state.insert(key, value)).is_some()
    };
    for round in 0..3 {
        while put(&mut state, &mut rng) {}
        let some: Vec<Vec<u8>> = state.keys().step_by(6).cloned().collect();
        // Much at once may be refused, and then changes nothing.
        let done = (|| {
            let store = BTree::open(&path)?;
            let mut transaction = store.write()?;
            for key in &some {
                transaction.main().remove(key)?;
            }
            transaction.commit()
        })();
        if done.is_ok() {
            some.iter().for_each(|key| drop(state.remove(key)));
        }
        while put(&mut state, &mut rng) {}
        let mut keys: Vec<Vec<u8>> = state.keys().cloned().collect();
        rng.shuffle(&mut keys);
        for (i, key) in keys.iter().take(keys.len() / 2).enumerate() {
            let removed = BTree::open(&path).unwrap().remove(key);
            assert!(removed.unwrap_or_else(|e| panic!("round {round}, removal {i}: {e}")));
            state.remove(key);
        }
        let store = BTree::open(&path).unwrap();
        assert_eq!(state_of(&store, "a full disk"), state);
        store.verify(|_, _| ()).unwrap();
    }
}
