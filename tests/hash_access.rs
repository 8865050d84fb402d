//! Danger: who may not write to a store harms it, dies of it, or reads what is old, or not there.

mod common;

use common::hash::index_of;
use common::mount::Mount;
use common::sys::{self, Status};
use credenza::hash::{Batch, Hash};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc::TryRecvError;

/// Who may not write has an index in memory then, however large that is.
#[test]
fn a_large_store_without_an_index_can_be_read_by_who_may_not_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let count = 200_000u32;
    for from in (0..count).step_by(10_000) {
        let mut batch = Batch::new();
        (from..from + 10_000).for_each(|i| {
            batch.insert(&i.to_le_bytes(), b"v");
        });
        store.batch(&batch).unwrap();
    }
    drop(store);
    fs::remove_file(index_of(&path)).unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    assert_eq!(reader.len().unwrap(), u64::from(count));
    let is_there = |i: u32| reader.contains_key(&i.to_le_bytes()).unwrap();
    assert!((0..count).step_by(997).all(is_there) && !is_there(count));
}

/// The number is that of the moment that the copy is of, whatever comes and goes meanwhile.
#[test]
fn a_copy_has_as_many_keys_as_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let store = Hash::create(&path).unwrap();
    std::thread::scope(|scope| {
        // Whatever ends this ends the thread, too.
        let (_end, ends) = std::sync::mpsc::channel::<()>();
        let other = store.clone();
        scope.spawn(move || {
            let goes_on = |_: &u32| ends.try_recv() == Err(TryRecvError::Empty);
            for turn in (0..200u32).cycle().take_while(goes_on) {
                let mut batch = Batch::new();
                for i in 0..turn % 7 {
                    batch.insert(&[turn as u8, i as u8], b"value");
                }
                other.batch(&batch).unwrap();
                other.insert(&turn.to_le_bytes(), &[0; 100]).unwrap();
                other.remove(&(turn / 2).to_le_bytes()).unwrap();
            }
        });
        for round in 0..30 {
            let reader = Hash::options().read_only(true).open(&path).unwrap();
            let keys = match round % 3 {
                // Who may not write is told that he comes too late where others are too quick.
                0 => reader.backup(&copy, |_, _| ()).or_else(|_| store.backup(&copy, |_, _| ())),
                1 => {
                    let _held = store.transaction().unwrap();
                    store.backup(&copy, |_, _| ())
                }
                _ => store.backup(&copy, |_, _| ()),
            };
            assert_eq!(keys.unwrap(), Hash::open(&copy).unwrap().len().unwrap(), "round {round}");
        }
    });
}

/// Records that are replaced while they are copied are marked in the copy, whose log ends before what
/// replaced them.
#[test]
fn a_copy_made_while_others_write_is_whole_also_to_who_may_not_write_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let store = Hash::create(&path).unwrap();
    let key = |i: u32| i.to_le_bytes();
    (0..60_000).for_each(|i| store.insert(&key(i), &[1; 50]).unwrap());
    let mut is_first = true;
    let replace = |_, _| {
        if std::mem::take(&mut is_first) {
            (0..60_000).for_each(|i| store.insert(&key(i), &[2; 50]).unwrap());
        }
    };
    store.backup(&copy, replace).unwrap();
    for is_reader in [true, false] {
        let copied = Hash::options().read_only(is_reader).open(&copy).unwrap();
        copied.verify(|_, _| ()).unwrap_or_else(|e| panic!("read only: {is_reader}: {e}"));
        assert_eq!(copied.get(&key(59_999)).unwrap().as_deref(), Some(&[1; 50][..]));
    }
}

#[test]
fn without_permission_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    for (bits, may_read) in [(0o000, false), (0o444, true)] {
        mode(bits);
        let mut process = sys::fork(|| {
            if !sys::become_nobody() {
                return;
            }
            let error = Hash::open(&path).unwrap_err().to_string();
            assert!(error.contains("Permission denied") && error.contains("store"), "{error}");
            match Hash::options().read_only(true).open(&path) {
                Ok(store) if may_read => {
                    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
                    store.insert(b"key", b"other").unwrap_err();
                }
                Err(_) if !may_read => {}
                other => panic!("{bits:o}: {other:?}"),
            }
        });
        assert_eq!(process.wait(), Status::Exited(0), "{bits:o}");
    }
}

/// Everything that a handle can do, of one that may only read: answers or errors, and no signal.
#[test]
fn a_reader_without_rights_reads_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let key = |i: u64| format!("key {i}").into_bytes();
    for i in 0..3000 {
        store.insert(&key(i), &[1; 30]).unwrap();
    }
    let use_it = |path: &Path, is_alone: bool| {
        let reader = Hash::options().read_only(true).open(path).unwrap();
        assert_eq!(reader.get(&key(5)).unwrap().as_deref(), Some(&[1; 30][..]));
        assert_eq!((reader.len().unwrap(), reader.iter().count()), (3000, 3000));
        let refused = [
            reader.insert(b"a", b"b").err(),
            reader.remove(b"a").err(),
            reader.clear().err(),
            reader.transaction().err(),
            reader.compact(1).err(),
            reader.rebuild_index(true).err(),
            reader.wait_for_change(0, std::time::Duration::ZERO).err(),
        ];
        assert!(refused.iter().all(Option::is_some), "{refused:?}");
        let _ = reader.sync();
        let _ = reader.stats().unwrap();
        let _ = reader.readers();
        if is_alone {
            reader.verify(|_, _| ()).unwrap();
        }
        let copy = folder.path().join("copy");
        if reader.backup(&copy, |_, _| ()).is_ok() {
            assert_eq!(Hash::open(&copy).unwrap().len().unwrap(), 3000);
        }
        // The end of its life is an end of nothing else.
        Hash::options()
            .read_only(true)
            .durability(credenza::hash::Durability::Interval(1))
            .open(path)
            .map(drop)
            .unwrap_or(());
    };
    let in_a_child = |path: &Path, is_alone: bool| {
        let mut process = sys::fork(|| use_it(path, is_alone));
        assert_eq!(process.wait(), Status::Exited(0), "alone: {is_alone}");
    };
    in_a_child(&path, true);
    drop(store);
    in_a_child(&path, true);
    let mount = Mount::read_only(folder.path());
    for index in [index_of(&path), folder.path().join("none")] {
        let _ = fs::remove_file(index);
        in_a_child(&path, true);
        match &mount {
            Some(mount) => {
                let path = mount.path().join("store");
                let reader = Hash::options().read_only(true).open(&path).unwrap();
                assert_eq!(reader.len().unwrap(), 3000);
                assert!(Hash::open(&path).unwrap_err().to_string().contains("ead-only"));
            }
            None => println!("skipped: this user may not mount a folder for reading only"),
        }
    }
}

/// A reader that made an index for itself learns of those who write later.
#[test]
fn a_reader_without_rights_sees_what_is_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let put = |store: &Hash, byte: u8| {
        for i in 0..50u8 {
            store.insert(&[i], &[byte; 90]).unwrap();
        }
    };
    put(&store, 1);
    drop(store);
    fs::remove_file(index_of(&path)).unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    let store = Hash::open(&path).unwrap();
    for turn in 2..60 {
        put(&store, turn);
        if turn % 3 == 0 {
            store.sync().unwrap();
        }
        for i in 0..50u8 {
            assert_eq!(reader.get(&[i]).unwrap().as_deref(), Some(&[turn; 90][..]), "turn {turn}");
        }
    }
}

/// A store that others made longer since a handle of it was opened is not damaged: neither for who may only
/// read, nor for who may write and does so by another handle.
#[test]
fn what_grew_since_it_was_opened_is_checked_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let readers = [true, false].map(|is_reader| {
        let reader = Hash::options().read_only(is_reader).open(&path).unwrap();
        assert_eq!(reader.get(b"none").unwrap().as_deref(), None);
        reader
    });
    let all = 20_000u32;
    (0..all).for_each(|i| store.insert(&i.to_le_bytes(), &[1; 90]).unwrap());
    let _transaction = store.transaction().unwrap();
    for (reader, copy) in readers.into_iter().zip(["copy", "other copy"]) {
        // Not in the place of the one before: a process that another test starts may have that open still.
        let copy = folder.path().join(copy);
        reader.verify_records(|_, _| ()).unwrap();
        reader.backup(&copy, |_, _| ()).unwrap();
        assert_eq!(Hash::open(&copy).unwrap().len().unwrap(), u64::from(all));
    }
}

/// Who may only read cannot have on the disk what others wrote, and is not told that it is there.
#[test]
fn who_may_only_read_is_not_told_that_all_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    for i in 0..3u8 {
        store.insert(&[i], b"value").unwrap();
        let error = reader.sync().unwrap_err().to_string();
        assert!(error.contains("not all of it is on the disk"), "{error}");
        store.sync().unwrap();
        reader.sync().unwrap();
    }
}

/// It was shown as where it lies: addresses, the file, the pin.
#[test]
fn a_value_is_shown_as_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    store.insert(b"key", &[7, 8]).unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    for store in [store, reader] {
        assert_eq!(format!("{:?}", store.get(b"key").unwrap().unwrap()), "Value([7, 8])");
    }
}
