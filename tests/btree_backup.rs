//! Danger: a copy of a btree store in use that has a part of this moment and a part of that, or not all
//! tables, or not their kinds; and one that is half there.

mod common;

use common::subject::{Operation, State, state_of};
use common::{Rng, rounds, seed};
use credenza::ErrorKind;
use credenza::btree::{BTree, Duplicates, TableOptions};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn files_in(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Every table is there with its kind, and the file has no room that it does not need.
#[test]
fn a_copy_has_all_tables_and_nothing_else() {
    for round in 0..rounds(10) {
        let mut rng = Rng::new(seed(round));
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("store"), folder.path().join("copy"));
        let store = BTree::create(&path).unwrap();
        let mut state = State::new();
        let largest = [10, 300, 3000, 50_000][rng.below(4) as usize];
        for _ in 0..rng.below(300) {
            let operation = Operation::random(&mut rng, 100, largest);
            common::subject::Subject::apply(&store, &operation).unwrap();
            operation.change(&mut state);
        }
        let visits = TableOptions::of_keys::<u64>().duplicates(Duplicates::Sorted);
        let log = TableOptions::of_keys::<u32>().numbered(true);
        let mut transaction = store.write().unwrap();
        transaction.create_table_with("visits", &visits).unwrap();
        transaction.create_table_with("log", &log).unwrap();
        transaction.create_table("empty").unwrap();
        let mut table = transaction.multi_table("visits").unwrap().unwrap();
        for i in 0..rng.below(2000) {
            table.insert(&[0, 0, 0, 0, 0, 0, 0, i as u8 % 7], &rng.bytes(6)).unwrap();
        }
        transaction.commit().unwrap();
        let what = format!("round {round}");
        fs::write(&target, "what was there").unwrap();
        let mut last = (0, 0);
        let progress = |done, total| {
            assert!(done <= total && done >= last.0, "{what}: {done} of {total} after {last:?}");
            last = (done, total);
        };
        let records = match rng.below(2) {
            0 => store.backup(&target, progress).unwrap(),
            _ => store.read_for(HOUR).unwrap().backup(&target, progress).unwrap(),
        };
        assert!(last.0 == last.1 && last.1 > 0, "{what}: {last:?}");
        let names = ["copy".to_owned(), "store".to_owned()];
        assert_eq!(files_in(folder.path()), BTreeSet::from(names), "{what}");
        let copy = BTree::open(&target).unwrap();
        assert!(state_of(&copy, &what) == state, "{what}");
        let (old, new) = (store.read().unwrap(), copy.read().unwrap());
        assert_eq!(new.tables().unwrap(), ["empty", "log", "visits"], "{what}");
        for name in new.tables().unwrap() {
            assert_eq!(old.table_options(&name).unwrap(), new.table_options(&name).unwrap());
        }
        let all = |table: credenza::btree::MultiTable<'_>| {
            let mut all = Vec::new();
            table
                .scan(|key, value| {
                    all.push((key.to_vec(), value.to_vec()));
                    Ok(())
                })
                .unwrap();
            all
        };
        let lens = ["log", "empty"].map(|name| new.table(name).unwrap().unwrap().len());
        let visits = new.multi_table("visits").unwrap().unwrap().len();
        let all_of_them = new.main().len() + visits + lens.iter().sum::<u64>();
        assert_eq!(records, all_of_them, "{what}");
        let visits = [&old, &new].map(|s| all(s.multi_table("visits").unwrap().unwrap()));
        assert!(visits[0] == visits[1], "{what}");
        drop((old, new));
        // It is as good as any.
        let stats = copy.stats().unwrap();
        assert!(stats.free_bytes == 0 && stats.held_bytes == 0 && stats.is_durable, "{stats:?}");
        copy.insert(b"new", b"value").unwrap();
        drop(copy);
        let copy = BTree::open(&target).unwrap();
        state.insert(b"new".to_vec(), b"value".to_vec());
        assert!(state_of(&copy, &what) == state, "{what}: opened again");
    }
}

/// Others write meanwhile: the copy is of one moment.
#[test]
fn a_copy_is_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("store"), folder.path().join("copy"));
    let store = BTree::create(&path).unwrap();
    let write = |turn: u32| {
        let mut transaction = store.write().unwrap();
        for i in 0..40u8 {
            let value = turn.to_le_bytes().repeat(1 + 30 * usize::from(i));
            transaction.main().insert(&[i], &value).unwrap();
            transaction.create_table("other").unwrap().insert(&[i], &value).unwrap();
        }
        transaction.commit().unwrap();
    };
    write(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| (1..).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(write));
        for _ in 0..20 {
            assert_eq!(store.backup(&target, |_, _| ()).unwrap(), 80);
            let copy = BTree::open(&target).unwrap();
            copy.verify(|_, _| ()).unwrap();
            let snapshot = copy.read().unwrap();
            let mut turns = BTreeSet::new();
            for table in [snapshot.main(), snapshot.table("other").unwrap().unwrap()] {
                assert_eq!(table.len(), 40);
                let turn = |pair: credenza::Result<(Vec<u8>, &[u8])>| pair.unwrap().1[..4].to_vec();
                turns.extend(table.iter().map(turn));
            }
            assert_eq!(turns.len(), 1, "a copy of several moments: {turns:?}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Others write over all of it meanwhile: the copy is of the snapshot as long as its lease goes on, else
/// there is none.
#[test]
fn a_copy_of_a_snapshot_with_a_lease_is_of_its_moment_or_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("store"), folder.path().join("copy"));
    let store = BTree::create(&path).unwrap();
    let write = |byte: u8| {
        let mut transaction = store.write().unwrap();
        for i in 0..3000u32 {
            transaction.main().insert(&i.to_le_bytes(), &[byte; 1500]).unwrap();
            let mut table = transaction.create_table("other").unwrap();
            table.insert(&i.to_le_bytes(), &[byte; 50]).unwrap();
        }
        transaction.commit().unwrap();
        store.sync().unwrap();
    };
    write(1);
    fs::write(&target, "what was there").unwrap();
    for (lease, is_made) in [(Duration::ZERO, false), (HOUR, true)] {
        let snapshot = store.read_for(lease).unwrap();
        let mut turn = 0;
        let made = snapshot.backup(&target, |done, total| {
            if done < total / 2 {
                turn += 1;
                write(10 + turn);
            }
        });
        let least = if is_made { 3 } else { 1 };
        assert!(turn >= least, "{turn} times something was written meanwhile");
        if !is_made {
            let error = made.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Expired { .. }), "{error}");
            assert_eq!(fs::read(&target).unwrap(), b"what was there");
            write(1);
            continue;
        }
        made.unwrap();
        let copy = BTree::open(&target).unwrap();
        let copied = copy.read().unwrap();
        for table in [copied.main(), copied.table("other").unwrap().unwrap()] {
            assert_eq!(table.len(), 3000);
            assert!(table.iter().all(|record| record.unwrap().1.iter().all(|byte| *byte == 1)));
        }
    }
    assert_eq!(files_in(folder.path()), BTreeSet::from(["copy", "store"].map(str::to_owned)));
}

/// What cannot be copied leaves what was there.
#[test]
fn a_copy_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (folder.path().join("store"), folder.path().join("copy"));
    let store = BTree::create(&path).unwrap();
    for i in 0..2000u32 {
        store.insert(&i.to_le_bytes(), &[7; 100]).unwrap();
    }
    store.sync().unwrap();
    fs::write(&target, "what was there").unwrap();
    let mut bytes = fs::read(&path).unwrap();
    // Somewhere in the leaves.
    let len = bytes.len();
    bytes[len / 4..len / 2].fill(0xa5);
    fs::write(folder.path().join("damaged"), bytes).unwrap();
    let damaged = BTree::open(folder.path().join("damaged")).unwrap();
    let error = damaged.backup(&target, |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("damaged"), "{error}");
    assert_eq!(fs::read(&target).unwrap(), b"what was there");
    let error = store.backup(folder.path().join("none/copy"), |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("none"), "{error}");
    let error = store.backup(folder.path(), |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("regular file"), "{error}");
    let names = ["copy", "damaged", "store"].map(str::to_owned);
    assert_eq!(files_in(folder.path()), BTreeSet::from(names));
}
