//! Defects of the btree engine that were found and repaired: each with the case that showed it.

use credenza::btree::{BTree, Duplicates, Key, TableOptions};
use credenza::{Get, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A word that says that commits are durable which were never made: nothing would be synced any more, and
/// what verify passed it did not pass after the next commit.
#[test]
fn a_durable_commit_after_the_newest_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    BTree::create(&path).unwrap().insert(b"key", b"value").unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut damaged = bytes.clone();
    const DURABLE: usize = 2096;
    damaged[DURABLE..DURABLE + 2].fill(0x28);
    std::fs::write(&path, &damaged).unwrap();
    let error = BTree::open(&path).map(drop).unwrap_err();
    assert!(error.is_bad_file() && error.path() == Some(&path), "{error}");
    // Also where somebody has it open.
    std::fs::write(&path, &bytes).unwrap();
    let store = BTree::open(&path).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, &[0x28; 2], DURABLE as u64).unwrap();
    let error = store.verify(|_, _| ()).unwrap_err();
    assert!(error.is_bad_file(), "{error}");
}

/// Records that lie in their page's own head, or in another record: they were read, and what verify
/// passed could not be written to any more.
#[test]
fn a_record_that_is_not_in_its_place_is_found() {
    const PAGE: usize = 4096;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let mut transaction = store.write().unwrap();
    for i in 0..1000_usize {
        let key = format!("{i:0len$}", len = 4 + i % 50);
        transaction.main().insert(key.as_bytes(), &vec![7; i % 90]).unwrap();
    }
    transaction.commit().unwrap();
    // Not durable, so that no checksum tells.
    let bytes = std::fs::read(&path).unwrap();
    drop(store);
    let short = |page: &[u8], at: usize| usize::from(u16::from_le_bytes([page[at], page[at + 1]]));
    let copy = folder.path().join("copy");
    let verify = |bytes: &[u8]| {
        std::fs::write(&copy, bytes).unwrap();
        BTree::open(&copy).unwrap().verify(|_, _| ())
    };
    verify(&bytes).unwrap();
    let is_leaf = |page: &&[u8]| page[8..10] == [1, 0] && short(page, 10) > 2;
    let page = bytes.chunks(PAGE).find(is_leaf).expect("a leaf").as_ptr().addr();
    let page = page - bytes.as_ptr().addr();
    let (count, room) = (short(&bytes[page..], 10), short(&bytes[page..], 12));
    let offset = |i: usize| 48 + 4 * room + 2 * i;
    let second = short(&bytes[page..], offset(1));
    for (i, place) in [(count - 1, 0), (count - 1, 8), (0, second), (0, second + 1)] {
        let mut damaged = bytes.clone();
        let at = page + offset(i);
        damaged[at..at + 2].copy_from_slice(&(place as u16).to_le_bytes());
        let error = verify(&damaged).expect_err("a record that is elsewhere");
        assert!(error.is_bad_file() && error.path() == Some(&copy), "{error}");
    }
}

/// A key that lies elsewhere is read from there, and looked for by its head: `verify` passed a store in
/// which the one was not that of the other, and the key was there and not found.
#[test]
fn a_head_that_is_not_that_of_its_key_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let mut transaction = store.write().unwrap();
    for i in 0..20 {
        let key = [format!("{i:05}").as_bytes(), &[b'x'; 700]].concat();
        transaction.main().insert(&key, b"value").unwrap();
    }
    transaction.commit().unwrap();
    // Not durable, so that no checksum tells.
    let bytes = std::fs::read(&path).unwrap();
    drop(store);
    let copy = folder.path().join("copy");
    let verify = |bytes: &[u8]| {
        std::fs::write(&copy, bytes).unwrap();
        BTree::open(&copy).unwrap().verify(|_, _| ())
    };
    verify(&bytes).unwrap();
    let is_leaf = |page: &[u8]| matches!(page[8], 1 | 2) && page[9..12] == [0, 20, 0];
    let page = 4096 * bytes.chunks(4096).position(is_leaf).expect("a leaf of all of them");
    for byte in 0..4 {
        let mut damaged = bytes.clone();
        damaged[page + 48 + 4 * 7 + byte] ^= 1;
        let error = verify(&damaged).expect_err("a key that is not found");
        assert!(error.is_bad_file() && error.path() == Some(&copy), "{error}");
    }
}

/// A key that is longer than what a page cuts off.
fn long_key(i: usize) -> Vec<u8> {
    let mut key = vec![b'a'; 1100];
    key.extend(format!("{i:05}").bytes());
    key
}

/// Values written anew in a leaf whose prefix has become longer: the keys are elsewhere, so that the
/// prefix saves nothing, and the page was too small for it.
#[test]
fn values_are_packed_anew_in_a_full_leaf_of_long_keys() {
    for count in [76, 84, 90, 98] {
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        transaction.main().insert(b"b", &[9; 600]).unwrap();
        for i in 0..count {
            transaction.main().insert(&long_key(i), &[i as u8; 600]).unwrap();
        }
        transaction.commit().unwrap();
        store.remove(b"b").unwrap();
        for (round, step) in [1, 7, 11, 13, 17, 19].into_iter().enumerate() {
            for i in (0..count).map(|i| i * step % count).filter(|i| i % 5 != 0) {
                store.insert(&long_key(i), &vec![i as u8; 601 + round]).unwrap();
            }
            store.verify(|_, _| ()).unwrap();
        }
        for i in 0..count {
            let value = store.get(&long_key(i)).unwrap().unwrap();
            assert!(value.iter().all(|byte| *byte == i as u8), "{count}: {i}");
        }
    }
}

/// A short key between long ones made a bulk load think that a leaf takes less than it does.
#[test]
fn a_bulk_load_fills_no_leaf_too_far() {
    let with = |tail: &[u8]| [&[b'a'; 510], tail].concat();
    for len in 100..140 {
        let mut records = vec![(with(&[b'a'; 100]), vec![1; 401]), (with(b"b"), vec![2; 400])];
        let many = |first: u8, i: u8| with(&[&[first, i][..], &[b'z'; 98]].concat());
        records.extend((0..6).map(|i| (many(b'c', i), vec![3 + i; 400])));
        records.push((with(&[&[b'd'][..], &[b'z'; 99]].concat()), vec![77; len]));
        records.extend((0..6).map(|i| (many(b'e', i), vec![88; 512])));
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        transaction.main().bulk_load(records.iter().cloned().map(Ok)).unwrap();
        transaction.commit().unwrap();
        store.verify(|_, _| ()).unwrap();
        for (key, value) in &records {
            assert_eq!(store.get(key).unwrap().as_deref(), Some(&value[..]), "{len}");
        }
    }
}

/// What failed half-way before a savepoint is not made good by going back to that.
#[test]
fn a_savepoint_after_a_failure_mends_nothing() {
    let store = BTree::in_memory().unwrap();
    store.insert(b"before", b"").unwrap();
    store.remove(b"before").unwrap();
    let mut transaction = store.write().unwrap();
    let records = (0..1000).map(|i| Ok((format!("{i:05}"), [0; 100])));
    let wrong = std::iter::once(Ok(("0".to_owned(), [0; 100])));
    assert!(transaction.main().bulk_load(records.chain(wrong)).is_err());
    let savepoint = transaction.savepoint();
    transaction.rollback_to(savepoint).unwrap();
    assert!(transaction.commit().is_err());
    store.verify(|_, _| ()).unwrap();
    // One before it does.
    let mut transaction = store.write().unwrap();
    let savepoint = transaction.savepoint();
    let records: Vec<Result<(&[u8], &[u8])>> = vec![Ok((b"b", b"")), Ok((b"a", b""))];
    assert!(transaction.main().bulk_load(records).is_err());
    transaction.rollback_to(savepoint).unwrap();
    transaction.main().insert(b"key", b"value").unwrap();
    transaction.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
    assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// The documents said that it spoils the transaction to fill a table that is not empty.
#[test]
fn a_bulk_load_into_what_is_not_empty_changes_nothing() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let options = TableOptions::new().duplicates(Duplicates::Sorted);
    transaction.create_table_with("several", &options).unwrap();
    let mut several = transaction.multi_table("several").unwrap().unwrap();
    several.insert(b"key", b"value").unwrap();
    several.bulk_load([Ok((b"other", b"value"))]).unwrap_err();
    transaction.main().insert(b"key", b"value").unwrap();
    transaction.main().bulk_load([Ok((b"other", b"value"))]).unwrap_err();
    transaction.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
    let snapshot = store.read().unwrap();
    let several = snapshot.multi_table("several").unwrap().unwrap();
    assert_eq!((snapshot.main().len(), several.len()), (1, 1));
}

#[test]
fn a_change_that_panics_half_way_is_not_committed() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let records = (0..1000).map(|i| {
        assert!(i < 999, "as it should");
        Ok((format!("{i:05}"), [0; 100]))
    });
    catch_unwind(AssertUnwindSafe(|| transaction.main().bulk_load(records))).unwrap_err();
    assert!(transaction.commit().is_err());
    store.verify(|_, _| ()).unwrap();
}

/// Whoever asked how long the file is set back what a writer knew who made it longer meanwhile.
#[test]
fn a_writer_is_not_told_that_the_file_is_shorter() {
    for _ in 0..8 {
        let store = BTree::in_memory().unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        store.stats().unwrap();
                    }
                });
            }
            let mut transaction = store.write().unwrap();
            let mut put =
                |i: u32| transaction.main().insert(format!("{i:08}").as_bytes(), &[0; 500]);
            let done: Result<Vec<bool>> = (0..2000).map(&mut put).collect();
            is_done.store(true, Ordering::Relaxed);
            done.unwrap();
            transaction.commit().unwrap();
        });
    }
}

/// Readers need not wait for a writer to get a slot, not even beside a transaction of their own.
#[test]
fn there_are_slots_for_readers_before_they_are_needed() {
    let store = BTree::in_memory().unwrap();
    let mut held = Vec::new();
    // As many as there are slots in page 0.
    for i in 0..32u32 {
        held.push(store.read().unwrap());
        store.insert(&i.to_le_bytes(), b"").unwrap();
    }
    let transaction = store.write().unwrap();
    for _ in 0..30 {
        held.push(store.read().unwrap());
    }
    drop(transaction);
    store.verify(|_, _| ()).unwrap();
    assert_eq!(held.iter().map(|snapshot| snapshot.main().len()).max(), Some(32));
}

/// What the keys of a page begin with stands in it once, also when none of them is left: with a thousand
/// bytes of it an empty page was not taken for one in which little is left, stayed in the tree, and whoever
/// came to it said that the file was damaged. A long run of random changes found it.
#[test]
fn pages_whose_keys_begin_with_much_go_when_they_are_empty() {
    let start = "all keys begin with this ".repeat(48);
    let key = |i: u32| format!("{start}{:05}", i.wrapping_mul(7919) % 3000);
    for others in [40, 5, 1] {
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        for i in 0..3000 {
            transaction.main().insert(key(i).as_bytes(), &[7; 20]).unwrap();
        }
        for i in (0..3000).filter(|i| i % others != 0 || others == 1) {
            assert!(transaction.main().remove(key(i).as_bytes()).unwrap());
            if i % 100 == 0 {
                let table = transaction.main();
                let (mut cursor, mut count) = (table.read().cursor(), 0);
                while cursor.next().unwrap() {
                    count += 1;
                }
                assert_eq!(count, table.len());
            }
        }
        transaction.commit().unwrap();
        store.verify(|_, _| ()).unwrap();
        let left = if others == 1 { 0 } else { 3000_u64.div_ceil(others.into()) };
        assert_eq!(store.read().unwrap().main().len(), left);
    }
}

/// What a nested transaction replaced was free again only with the commit: a transaction of many of them made
/// the file four hundred times as long as what was in it.
#[test]
fn nested_transactions_use_space_of_those_before_them() {
    let store = BTree::in_memory().unwrap();
    let overwrite = |turns: u32| {
        let mut transaction = store.write().unwrap();
        for i in 0..turns {
            let mut inner = transaction.nested();
            inner.main().insert(&(i % 1000).to_bytes(), &[1; 100]).unwrap();
            inner.main().insert(b"long", &[i as u8; 5000]).unwrap();
            inner.commit().unwrap();
        }
        transaction.commit().unwrap();
    };
    overwrite(1000);
    let before = store.stats().unwrap();
    overwrite(20_000);
    let after = store.stats().unwrap();
    assert!(after.file_bytes <= 3 * before.file_bytes, "from {before:?} to {after:?}");
    assert!(after.file_bytes <= 10 * after.live_bytes, "{after:?}");
    store.verify(|_, _| ()).unwrap();
}

/// Places for values of several pages were looked for only where the file had grown: a transaction that put and
/// removed them made it grow for ever.
#[test]
fn long_values_use_space_of_those_removed_before_them() {
    let store = BTree::in_memory().unwrap();
    let churn = |turns: usize| {
        let mut transaction = store.write().unwrap();
        for i in 0..turns {
            transaction.main().insert(&(i as u32 % 100).to_bytes(), &[1; 100]).unwrap();
            let long = vec![i as u8; 5000 + i % 7 * 3000];
            transaction.main().insert(b"long", &long).unwrap();
            transaction.main().remove(b"long").unwrap();
        }
        transaction.commit().unwrap();
    };
    churn(500);
    let before = store.stats().unwrap();
    churn(20_000);
    let after = store.stats().unwrap();
    assert!(after.file_bytes <= 3 * before.file_bytes, "from {before:?} to {after:?}");
    store.verify(|_, _| ()).unwrap();
}

/// Savepoints within one that is held: what it goes back to is not used again meanwhile.
#[test]
fn savepoints_that_are_given_up_spare_what_others_hold() {
    let store = BTree::in_memory().unwrap();
    let insert = |transaction: &mut credenza::btree::Transaction<'_>, i: u32, byte: u8| {
        transaction.main().insert(&(i % 300).to_bytes(), &[byte; 200]).unwrap();
    };
    let churn = |transaction: &mut credenza::btree::Transaction<'_>, turns: u32, byte: u8| {
        for i in 0..turns {
            let savepoint = transaction.savepoint();
            insert(transaction, i, byte);
            transaction.release(savepoint).unwrap();
        }
    };
    let is_all = |found: &[u8], byte: u8| {
        assert_eq!(found, [byte; 200]);
        Ok(())
    };
    let mut transaction = store.write().unwrap();
    (0..300).for_each(|i| insert(&mut transaction, i, 1));
    transaction.commit().unwrap();
    let held = store.read().unwrap();
    let mut transaction = store.write().unwrap();
    churn(&mut transaction, 900, 2);
    let outer = transaction.savepoint();
    churn(&mut transaction, 900, 3);
    let inner = transaction.savepoint();
    churn(&mut transaction, 3000, 4);
    for (savepoint, byte) in [(inner, 3), (inner, 3), (outer, 2), (outer, 2)] {
        churn(&mut transaction, 100, 5);
        transaction.rollback_to(savepoint).unwrap();
        let table = transaction.main();
        table.read().scan(|_, value| is_all(value, byte)).unwrap();
        assert_eq!(table.len(), 300);
    }
    transaction.release(outer).unwrap();
    churn(&mut transaction, 20_000, 6);
    held.main().scan(|_, value| is_all(value, 1)).unwrap();
    transaction.commit().unwrap();
    held.main().scan(|_, value| is_all(value, 1)).unwrap();
    drop(held);
    store.read().unwrap().main().scan(|_, value| is_all(value, 6)).unwrap();
    let stats = store.stats().unwrap();
    assert!(stats.file_bytes <= 10 * stats.live_bytes, "{stats:?}");
    store.verify(|_, _| ()).unwrap();
    // All of it is undone with the transaction.
    let mut transaction = store.write().unwrap();
    churn(&mut transaction, 900, 7);
    drop(transaction);
    store.read().unwrap().main().scan(|_, value| is_all(value, 6)).unwrap();
    store.verify(|_, _| ()).unwrap();
}

/// Each savepoint, and each page that was taken, went through all savepoints: a hundred thousand of them took
/// minutes.
#[test]
fn many_savepoints_are_held_at_once() {
    let begun = Instant::now();
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let count = 100_000;
    let mut savepoints = Vec::new();
    for i in 0..count as u32 {
        savepoints.push(transaction.savepoint());
        transaction.main().insert(&i.to_bytes(), b"").unwrap();
    }
    for i in [count - 1, count / 2, 1] {
        transaction.rollback_to(savepoints[i]).unwrap();
        assert_eq!(transaction.main().len(), i as u64);
    }
    transaction.release(savepoints[0]).unwrap();
    transaction.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
    // It takes two seconds.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// Each table was looked for among all that the transaction had looked up, and each savepoint copied all of
/// them: twenty thousand of both took minutes.
#[test]
fn savepoints_cost_the_same_however_many_tables_there_are() {
    let begun = Instant::now();
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    let name = |i: u32| format!("table {i}");
    let count = 20_000;
    for i in 0..count {
        transaction.create_table(&name(i)).unwrap();
    }
    let outer = transaction.savepoint();
    for i in 0..count {
        let mut inner = transaction.nested();
        inner.table(&name(i)).unwrap().unwrap().insert(b"key", b"value").unwrap();
        inner.commit().unwrap();
    }
    let len = |transaction: &mut credenza::btree::Transaction<'_>, i| {
        transaction.table(&name(i)).unwrap().unwrap().len()
    };
    assert!((0..count).all(|i| len(&mut transaction, i) == 1));
    transaction.rollback_to(outer).unwrap();
    assert!((0..count).all(|i| len(&mut transaction, i) == 0));
    transaction.commit().unwrap();
    store.verify(|_, _| ()).unwrap();
    // It takes two seconds.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// Whoever shows how far a check is never heard of that of a small store, and of no other that it was done.
#[test]
fn a_check_says_that_it_is_done() {
    for count in [0, 10, 20_000u64] {
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        for i in 0..count {
            transaction.main().insert(&i.to_le_bytes(), &[0; 100]).unwrap();
        }
        transaction.commit().unwrap();
        // Most pages are free now.
        let mut transaction = store.write().unwrap();
        transaction.main().remove_range(&[][..]..&[0x80][..]).unwrap();
        transaction.commit().unwrap();
        let mut told = Vec::new();
        store.verify(|done, total| told.push((done, total))).unwrap();
        assert!(told.is_sorted() && told.iter().all(|(done, total)| done <= total), "{told:?}");
        assert!(told.last().is_some_and(|(done, total)| done == total), "{count}: {told:?}");
    }
}
