//! Defects of the hash engine that were found and repaired: each with the case that showed it.

mod common;

use common::hash::{BOOT_AT, index_of, must};
use common::subject::state_of;
use common::sys::{self, Status, fork};
use common::{is_child, passes_in_child, rounds, write_anew};
use credenza::btree::BTree;
use credenza::hash::{Batch, Hash};
use credenza::{Result, Scan};
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;

type Record = (Vec<u8>, Vec<u8>);

#[test]
fn child_tries_a_batch_again_and_again() {
    if !is_child() {
        return;
    }
    sys::give_up_after(100);
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    store.insert(b"key", b"value").unwrap();
    let mut batch = Batch::new();
    for i in 0..40u32 {
        batch.insert(&i.to_le_bytes(), &[7; 4000]);
    }
    sys::limit_file_size(Some(64 << 10));
    for attempt in 0..60 {
        let error = store.batch(&batch).unwrap_err();
        assert!(!error.is_bad_file(), "attempt {attempt}: {error}");
    }
    sys::limit_file_size(None);
    store.insert(b"large", &vec![7; 1 << 20]).unwrap();
    store.batch(&batch).unwrap();
    assert_eq!(state_of(&store, "with room again").len(), 42);
}

/// The numbers that it left out were those of its segments times those that it had left out before.
#[test]
fn a_batch_that_finds_no_room_may_be_tried_again_and_again() {
    passes_in_child("child_tries_a_batch_again_and_again");
}

/// What an iterator gives after ten records when the index has another hash then, and the error that it
/// ends with.
fn iterate(store: &Hash, meanwhile: impl FnOnce()) -> (Vec<Record>, Option<String>) {
    let mut records = store.iter();
    let mut given: Vec<Record> = records.by_ref().take(10).map(|record| record.unwrap()).collect();
    meanwhile();
    for record in records.by_ref() {
        match record {
            Ok(record) => given.push(record),
            Err(error) => return (given, Some(error.to_string())),
        }
    }
    (given, None)
}

/// Records were passed over and others given twice: pages were looked for by places that were those of
/// another hash.
#[test]
fn a_scan_does_not_go_on_in_an_index_with_another_hash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    (0..5000u32).for_each(|i| must(store.insert(&i.to_le_bytes(), &[7; 20])));
    let other_hash = || Hash::open(&path).unwrap().rebuild_index(true).unwrap();
    let no_index = || {
        std::fs::remove_file(index_of(&path)).unwrap();
        Hash::open(&path).unwrap().insert(b"one", b"more").unwrap();
    };
    let cases: [(&str, &dyn Fn()); 2] = [("another hash", &other_hash), ("no index", &no_index)];
    for (what, meanwhile) in cases {
        let (given, error) = iterate(&store, meanwhile);
        let keys: BTreeSet<_> = given.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), given.len(), "{what}: given twice");
        let error = error.unwrap_or_else(|| panic!("{what}: it goes on, {} records", given.len()));
        assert!(error.contains("again"), "{what}: {error}");
        let mut count = 0;
        let mut is_first = true;
        let done = store.scan(|_, _| {
            if std::mem::take(&mut is_first) {
                meanwhile();
            }
            count += 1;
            Ok(())
        });
        assert!(done.is_err() && count < 5000, "{what}: {count} records");
        assert!(state_of(&store, what).len() >= 5000);
    }
    // With the same hash it goes on.
    let rebuild = || Hash::open(&path).unwrap().rebuild_index(false).unwrap();
    rebuild();
    let (given, error) = iterate(&store, rebuild);
    assert_eq!((given.len(), error), (5001, None));
}

#[test]
fn child_clears_without_room() {
    if !is_child() {
        return;
    }
    sys::give_up_after(100);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    (0..3000u32).for_each(|i| must(store.insert(&i.to_le_bytes(), b"")));
    store.clear().unwrap();
    let len = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(len(&path) + (8 << 10) < len(&index_of(&path)));
    sys::limit_file_size(Some(len(&index_of(&path))));
    let clear = |store: &Hash| -> Result<()> {
        for _ in 0..10_000 {
            store.insert(b"key", b"value").unwrap();
            store.clear()?;
        }
        Ok(())
    };
    let error = clear(&store).unwrap_err();
    assert!(!error.is_bad_file(), "{error}");
    let is_there = |key: &[u8]| store.get(key).unwrap().is_some();
    assert!(is_there(b"key") && store.len().unwrap() == 1);
    store.insert(b"another", b"value").unwrap();
    store.remove(b"another").unwrap();
    sys::limit_file_size(None);
    store.insert(b"third", b"value").unwrap();
    assert!(is_there(b"key") && is_there(b"third"));
    store.clear().unwrap();
    assert!(state_of(&store, "cleared").is_empty());
}

/// It said that nothing had changed, no other write went through, and with room again the keys were gone.
#[test]
fn who_cannot_clear_for_want_of_room_has_not_cleared() {
    passes_in_child("child_clears_without_room");
}

#[test]
fn a_fork_does_not_wait_for_who_compacts_in_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    (0..3000u32).for_each(|i| must(store.insert(&i.to_le_bytes(), &[7; 100])));
    sys::compact_beside_forks(
        rounds(10),
        || store.compact(1 << 20),
        || store.compact(4096),
        || Hash::open(&path)?.compact(4096),
    );
    store.verify(|_, _| ()).unwrap();
}

/// The child took the writers' lock to close the store, which its parent has, who waits for the child.
#[test]
fn a_fork_may_drop_its_parents_transaction_and_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    let mut transaction = store.transaction().unwrap();
    transaction.insert(b"key", b"value").unwrap();
    let Some(mut process) = sys::fork_here() else {
        sys::give_up_after(20);
        drop(transaction);
        drop(store);
        sys::end();
    };
    assert_eq!(process.wait(), Status::Exited(0));
    transaction.commit().unwrap();
    assert_eq!(state_of(&store, "after the fork").len(), 1);
    store.verify(|_, _| ()).unwrap();
}

/// Where all pins are taken one reads under the writers' lock, which this thread had already.
#[test]
fn who_has_the_lock_and_finds_no_pin_reads() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    let key = |i: u64| format!("{i}").into_bytes();
    (0..500).for_each(|i| must(store.insert(&key(i), &[7; 30])));
    let held: Vec<_> = (0..64).map(|i| store.get(&key(i)).unwrap().unwrap()).collect();
    let frozen = folder.path().join("frozen");
    credenza::freeze(&store, &frozen, |_, _| {}).unwrap();
    assert_eq!(credenza::open(&frozen).unwrap().len().unwrap(), 500);
    let copy = folder.path().join("copy");
    store.backup(&copy, |_, _| {}).unwrap();
    assert_eq!(Hash::open(&copy).unwrap().len().unwrap(), 500);
    let transaction = store.transaction().unwrap();
    assert_eq!(store.get(&key(100)).unwrap().as_deref(), Some(&[7; 30][..]));
    assert_eq!(store.iter().filter(|record| record.is_ok()).count(), 500);
    assert_eq!(store.len().unwrap(), 500);
    let mut found = 0;
    store.get_many(&[key(1), key(501)], |_, value| found += usize::from(value.is_some())).unwrap();
    assert_eq!(found, 1);
    drop(transaction);
    let length = |value: Option<&[u8]>| {
        let other = store.get(&key(2)).unwrap().unwrap().len();
        value.map(|value| vec![1; value.len() + other])
    };
    store.update(&key(1), length).unwrap();
    assert_eq!(store.get(&key(1)).unwrap().unwrap().len(), 60);
    drop(held);
}

/// A writer died within a batch while somebody has the store open who writes nothing: whoever may only
/// read was told that others write so much.
#[test]
fn who_may_only_read_does_not_wait_for_who_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let idle = Hash::create(&path).unwrap();
    (0..100u32).for_each(|i| must(idle.insert(&i.to_le_bytes(), &[7; 30])));
    let before = Hash::options().read_only(true).open(&path).unwrap();
    assert_eq!(idle.len().unwrap(), 100);
    let mut writer = fork(|| std::mem::forget(idle.transaction().unwrap()));
    assert_eq!(writer.wait(), Status::Exited(0));
    // As it is while a batch is being entered.
    const STATE_AT: u64 = 64;
    let index = std::fs::OpenOptions::new().read(true).write(true).open(index_of(&path)).unwrap();
    let mut state = [0; 8];
    index.read_exact_at(&mut state, STATE_AT).unwrap();
    state[7] |= 0x80;
    index.write_all_at(&state, STATE_AT).unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    assert_eq!(reader.get(&7u32.to_le_bytes()).unwrap().as_deref(), Some(&[7; 30][..]));
    assert_eq!(state_of(&reader, "only read").len(), 100);
    let error = before.get(&7u32.to_le_bytes()).map(drop).unwrap_err();
    assert!(error.to_string().contains("died") && error.to_string().contains("again"), "{error}");
    idle.insert(b"more", b"value").unwrap();
    for reader in [&reader, &before] {
        assert_eq!(state_of(reader, "others write again").len(), 101);
    }
}

/// Where keys have the same hash another function or seed is asked for: a store that had the other function
/// already kept both.
#[test]
fn another_hash_is_another_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    // The function's number, and its seed.
    let hash = || {
        let index = std::fs::read(index_of(&path)).unwrap();
        (index[12..16].to_vec(), index[40..48].to_vec())
    };
    let mut seen = BTreeSet::from([hash()]);
    for turn in 1..5 {
        store.rebuild_index(true).unwrap();
        seen.insert(hash());
        assert_eq!(seen.len(), turn + 1);
    }
    // As small as it can be, and in the order that those who iterate have begun with.
    store.rebuild_index(false).unwrap();
    assert!(!seen.insert(hash()));
    assert_eq!(state_of(&store, "hashed anew").len(), 1);
}

/// A store that is emptied has its index made small: by the hash that it has, which protects it from keys that
/// were chosen for the other, and by which those who iterate go on.
#[test]
fn a_store_with_the_other_hash_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    store.rebuild_index(true).unwrap();
    for i in 0..20_000u32 {
        store.insert(&i.to_le_bytes(), b"value").unwrap();
    }
    let function = || std::fs::read(index_of(&path)).unwrap()[12..16].to_vec();
    let other = function();
    for record in store.iter() {
        assert!(store.remove(&record.unwrap().0).unwrap());
    }
    assert_eq!((store.len().unwrap(), function()), (0, other.clone()));
    // An index so large is made small at once.
    for i in 0..150_000u32 {
        store.insert(&i.to_le_bytes(), b"").unwrap();
    }
    let bytes = || std::fs::metadata(index_of(&path)).unwrap().len();
    assert!(bytes() > 1 << 20);
    store.clear().unwrap();
    assert!(bytes() < 1 << 20 && function() == other);
}

/// What threads wait for that have the lock must not be what others have who wait for it: a turn at syncing, or at compacting.
#[test]
fn child_asks_for_all_in_a_transaction() {
    if !is_child() {
        return;
    }
    sys::give_up_after(60);
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    let tree = BTree::create(folder.path().join("tree")).unwrap();
    store.insert(b"key", b"value").unwrap();
    tree.insert(b"key", b"value").unwrap();
    std::thread::scope(|scope| {
        let transaction = store.transaction().unwrap();
        let written = tree.write().unwrap();
        scope.spawn(|| store.sync().unwrap());
        scope.spawn(|| while store.compact(1).unwrap() {});
        scope.spawn(|| while tree.compact(1).unwrap() {});
        for _ in 0..3000 {
            std::thread::yield_now();
            for done in [store.sync(), store.compact(1).map(drop), tree.compact(1).map(drop)] {
                assert!(done.unwrap_err().to_string().contains("writing to the store already"));
            }
        }
        drop((transaction, written));
    });
}

#[test]
fn who_syncs_or_compacts_in_a_transaction_waits_for_nobody() {
    passes_in_child("child_asks_for_all_in_a_transaction");
}

/// Where what lives has half of the file, and larger segments than it would need, the log moved from one half to the other
/// and back for ever.
#[test]
fn compaction_comes_to_an_end_and_makes_no_file_longer() {
    for seed in 1..rounds(30) + 1 {
        let mut rng = common::Rng::new(seed);
        let store = Hash::in_memory().unwrap();
        let (count, longest) = (20 + rng.below(400), [1000, 5000, 20_000][rng.below(3) as usize]);
        for _ in 0..count * (1 + rng.below(4)) {
            let len = rng.below(longest) as usize;
            store.insert(&rng.below(count).to_le_bytes(), &vec![1; len]).unwrap();
            if rng.below(50) == 0 {
                store.sync().unwrap();
            }
        }
        let budget = [1000, 100_000, 1 << 20, u64::MAX][rng.below(4) as usize];
        // What lives twice, and what does not, in pieces of that size.
        let most = 4 + 4 * store.stats().unwrap().file_bytes / budget;
        let mut calls = 1;
        while store.compact(budget).unwrap() {
            calls += 1;
            assert!(calls <= most, "seed {seed}: {calls} calls of {budget} bytes");
        }
        let stats = store.stats().unwrap();
        // Where there is no room for all of it before the log it stays where it is.
        let bound = 2 * stats.live_bytes + stats.live_bytes / 8 + (2 << 20);
        assert!(stats.file_bytes <= bound, "seed {seed}: {stats:?}");
        store.verify(|_, _| ()).unwrap();
    }
    for count in [1000u32, 50_000] {
        let store = Hash::in_memory().unwrap();
        (0..count).for_each(|i| store.insert(&i.to_le_bytes(), b"some value").unwrap());
        let before = store.stats().unwrap().file_bytes;
        for _ in 0..3 {
            while store.compact(1 << 20).unwrap() {}
            let now = store.stats().unwrap().file_bytes;
            assert!(now <= before + before / 4 + (24 << 10), "{before} bytes became {now}");
        }
    }
}

/// Whoever compacts while others write much, a little at a time, comes to an end.
#[test]
fn compaction_ends_beside_who_writes() {
    let store = Hash::in_memory().unwrap();
    let write = || (0..200u32).for_each(|i| store.insert(&i.to_le_bytes(), &[1; 100]).unwrap());
    for budget in [1, 4096, 1 << 20] {
        (0..20).for_each(|_| write());
        let mut calls = 1;
        while store.compact(budget).unwrap() {
            (0..20).for_each(|_| write());
            calls += 1;
            assert!(calls < 50, "{calls} calls of {budget} bytes");
        }
    }
}

/// What is fragmented, and has little garbage, is no longer after every other compaction.
#[test]
fn repeated_compactions_make_no_file_longer() {
    for seed in 1..rounds(20) + 1 {
        let mut rng = common::Rng::new(seed);
        let store = Hash::in_memory().unwrap();
        for _ in 0..1200 {
            let len = rng.below(3000) as usize;
            store.insert(&rng.below(300).to_le_bytes(), &vec![1; len]).unwrap();
        }
        let before = store.stats().unwrap().file_bytes;
        for _ in 0..6 {
            while store.compact(1 << 20).unwrap() {}
            let stats = store.stats().unwrap();
            // More where the last segment found no place but behind the end.
            let bound = (before / 4 * 5).max(stats.live_bytes / 2 * 5 + (64 << 10));
            assert!(stats.file_bytes <= bound, "seed {seed}: {before}, {stats:?}");
        }
    }
}

/// One that nobody went on with is not what the next is to do, if all of it has been passed.
#[test]
fn a_compaction_that_was_left_is_begun_anew() {
    let store = Hash::in_memory().unwrap();
    let fill = |turns: u8| {
        for turn in 0..turns {
            (0..10_000u32).for_each(|i| store.insert(&i.to_le_bytes(), &[turn; 20]).unwrap());
        }
    };
    fill(2);
    assert!(store.compact(1).unwrap());
    fill(6);
    while store.compact(1 << 20).unwrap() {}
    let stats = store.stats().unwrap();
    assert!(stats.dead_bytes <= stats.live_bytes / 8, "{stats:?}");
}

/// However keys are taken out, an index that is nearly empty becomes short.
#[test]
fn an_index_becomes_short_however_keys_are_taken_out() {
    const COUNT: u32 = 40_000;
    type Take = fn(&Hash, &[u8]);
    let ways: [(&str, Take); 4] = [
        ("update", |store, key| assert!(!store.update(key, |_| None).unwrap())),
        ("compare", |store, key| assert!(store.compare_exchange(key, Some(b"v"), None).unwrap())),
        ("batch", |store, key| store.batch(Batch::new().remove(key)).unwrap()),
        ("transaction", |store, key| {
            let mut transaction = store.transaction().unwrap();
            transaction.remove(key).unwrap();
            transaction.commit().unwrap();
        }),
    ];
    for (way, take) in ways {
        let store = Hash::in_memory().unwrap();
        (0..COUNT).for_each(|i| store.insert(&i.to_le_bytes(), b"v").unwrap());
        let before = store.stats().unwrap().index_bytes;
        (10..COUNT).for_each(|i| take(&store, &i.to_le_bytes()));
        let after = store.stats().unwrap().index_bytes;
        assert!(after < before / 4, "{way}: {after} bytes of {before}");
        assert_eq!(store.len().unwrap(), 10);
        store.verify(|_, _| ()).unwrap();
    }
}

/// After a fork nobody keeps from being written over what the transaction sees in its parent.
#[test]
fn a_fork_does_not_read_in_the_transaction_of_its_parent() {
    let store = Hash::in_memory().unwrap();
    store.insert(b"key", b"value").unwrap();
    let transaction = store.transaction().unwrap();
    let mut process = fork(|| {
        assert!(transaction.get(b"key").is_err());
        assert!(Scan::len(&transaction).is_err());
        assert!(transaction.scan(|_, _| Ok(())).is_err());
    });
    assert_eq!(process.wait(), Status::Exited(0));
    assert_eq!(transaction.get(b"key").unwrap(), Some(&b"value"[..]));
}

/// The number of a change that somebody has seen is not that of another after a start of the machine.
#[test]
fn changes_do_not_count_down_when_the_machine_starts_anew() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copy] = ["store", "copy"].map(|name| folder.path().join(name));
    let store = Hash::create(&path).unwrap();
    for is_synced in [false, true] {
        store.insert(b"first", b"").unwrap();
        if is_synced {
            store.sync().unwrap();
        }
        (0..1000u32).for_each(|i| store.insert(&i.to_le_bytes(), b"").unwrap());
        let seen = store.changes();
        let mut data = std::fs::read(&path).unwrap();
        data[BOOT_AT] ^= 1;
        write_anew(&copy, &data);
        let again = Hash::open(&copy).unwrap();
        assert_eq!(again.len().unwrap(), 1001);
        assert!(again.changes() > seen, "{} after {seen}", again.changes());
        drop(again);
        std::fs::remove_file(index_of(&copy)).unwrap();
    }
}

/// What a reader holds when the index is made from the log was never used again, whatever came later.
#[test]
fn what_was_held_when_the_index_was_lost_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let put = |store: &Hash, i: u64, byte| {
        must(store.insert(&i.to_le_bytes(), &[byte; 1000]));
    };
    for i in 0..20_000 {
        put(&store, i, 7);
    }
    let held = store.get(&0u64.to_le_bytes()).unwrap();
    (0..19_000u64).for_each(|i| assert!(store.remove(&i.to_le_bytes()).unwrap()));
    std::fs::remove_file(index_of(&path)).unwrap();
    let other = Hash::open(&path).unwrap();
    must(other.insert(b"key", b"value"));
    drop(held);
    for round in 0..20 {
        for i in 19_000..20_000 {
            put(&other, i, round);
        }
    }
    while other.compact(1 << 20).unwrap() {}
    other.verify(|_, _| ()).unwrap();
    let stats = other.stats().unwrap();
    assert!(stats.file_bytes < 2 * stats.live_bytes + (4 << 20), "{stats:?}");
}

/// The rest of a segment that the log left, and that the file ended within, counted as dead.
#[test]
fn what_a_file_has_adds_up_to_its_length() {
    let check = |store: &Hash| {
        let s = store.stats().unwrap();
        let sum = s.header_bytes + s.live_bytes + s.dead_bytes + s.retired_bytes + s.free_bytes;
        assert_eq!(sum, s.file_bytes, "{s:?}");
    };
    for (len, keys) in [(100_000, 276), (100_000, 100), (5000, 300), (1000, 150), (1000, 380)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        for i in 0..keys as u64 {
            must(store.insert(&i.to_le_bytes(), &vec![1; len]));
        }
        for i in 0..keys as u64 / 2 {
            must(store.remove(&i.to_le_bytes()));
        }
        // There is no room for it in the segment.
        must(store.insert(b"longer", &vec![1; len * 3]));
        check(&store);
        std::fs::remove_file(index_of(&path)).unwrap();
        check(&Hash::open(&path).unwrap());
        while store.compact(1 << 14).unwrap() {
            check(&store);
        }
    }
}

/// The last of what it said was up to a megabyte before the end, and of a smaller store it said nothing.
#[test]
fn who_verifies_records_is_told_of_the_end() {
    let store = Hash::in_memory().unwrap();
    for count in [10u32, 20_000] {
        (0..count).for_each(|i| store.insert(&i.to_le_bytes(), &[7; 100]).unwrap());
        let mut told = Vec::new();
        store.verify_records(|done, total| told.push((done, total))).unwrap();
        assert!(told.is_sorted());
        assert!(told.last().is_some_and(|(done, total)| done == total && *total > 0), "{told:?}");
    }
}

#[test]
fn child_opens_in_its_transaction_what_another_opens() {
    if !is_child() {
        return;
    }
    sys::give_up_after(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    let transaction = store.transaction().unwrap();
    std::fs::remove_file(index_of(&path)).unwrap();
    std::thread::scope(|scope| {
        // Without an index it waits for the transaction, and keeps others from opening the store.
        let other = scope.spawn(|| Hash::open(&path).unwrap().len().unwrap());
        let error = loop {
            match Hash::options().read_only(true).open(&path) {
                Ok(_) => std::thread::yield_now(),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("somebody who is opening it waits for that"), "{error}");
        drop(transaction);
        assert_eq!(other.join().unwrap(), 1);
    });
}

/// The one waited for the transaction, and the transaction for the one.
#[test]
fn who_opens_in_a_transaction_does_not_wait_for_who_waits_for_it() {
    passes_in_child("child_opens_in_its_transaction_what_another_opens");
}
