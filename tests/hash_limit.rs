//! Danger: a store with a limit that takes more than that, drops what is used or worth much, counts
//! what it dropped as if it were there, brings it back, or lets a write wait for all of it; one that refuses writes because
//! its disk has less room than its limit.

mod common;

use common::hash::{check_limit, index_of, limited, must, opened_again, room, sum};
use common::mount::Mount;
use common::subject::{Operation, State, Subject, state_of};
use common::{Rng, is_child, passes_in_child, rounds, seed, sys, write_anew};
use credenza::ErrorKind;
use credenza::hash::{Batch, Hash, recover};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

fn in_folder(limit: u64) -> (tempfile::TempDir, PathBuf, Hash) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = limited(limit).open(&path).unwrap();
    (folder, path, store)
}

fn key(i: u64) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

#[test]
fn the_limit_holds_after_every_operation() {
    let mut evictions = 0;
    for round in 0..rounds(12) {
        let mut rng = Rng::new(seed(round));
        let limit = [300, 5000, 40_000, 400_000][rng.below(4) as usize];
        let (_folder, path, mut store) = in_folder(limit);
        let largest = [10, 200, limit / 8, limit / 2][rng.below(4) as usize].min(limit / 2);
        let keys = 1 + 3 * limit / (largest + 30);
        let mut written = State::new();
        for step in 0..if limit > 50_000 { 300 } else { 1000 } {
            let what = format!("round {round}, limit {limit}, largest {largest}, step {step}");
            let operation = Operation::random(&mut rng, keys, largest);
            let size: u64 = match &operation {
                Operation::Insert(key, value) => room(key, value),
                Operation::Batch(changes) => {
                    // Of the changes of a key the last one is made.
                    let newest: BTreeMap<_, _> = changes.iter().cloned().collect();
                    let puts = newest.iter();
                    puts.map(|(key, value)| value.as_ref().map_or(0, |v| room(key, v))).sum()
                }
                _ => 0,
            };
            match store.apply(&operation) {
                Ok(()) => {
                    assert!(size <= limit, "{what}");
                    operation.change(&mut written);
                }
                Err(e) => {
                    let is_size = matches!(e.kind(), ErrorKind::TooLarge { .. });
                    assert!(is_size && size > limit, "{what}: {e}");
                }
            }
            check_limit(&store, limit, &what);
            let last = store.stats().unwrap().evictions;
            for _ in 0..rng.below(4) {
                let key = format!("key {}", rng.below(keys)).into_bytes();
                let found = store.get(&key).unwrap().map(|value| value.to_vec());
                assert!(found.is_none() || found.as_ref() == written.get(&key), "{what}: {key:?}");
            }
            if step % 25 == 0 {
                let before = state_of(&store, &what);
                assert_eq!(store.stats().unwrap().live_bytes, sum(&before), "{what}");
                let is_right = |(key, value): (&Vec<u8>, &Vec<u8>)| written.get(key) == Some(value);
                assert!(before.iter().all(is_right), "{what}: an old value");
                match rng.below(8) {
                    0 => drop(fs::remove_file(index_of(&path))),
                    1 => store.rebuild_index(true).unwrap(),
                    2 => while store.compact(10_000).unwrap() {},
                    3 => store.sync().unwrap(),
                    _ => continue,
                }
                drop(store);
                evictions += last;
                store = Hash::open(&path).unwrap();
                assert!(state_of(&store, &what) == before, "{what}: opened again");
            }
        }
    }
    assert!(evictions > 100, "hardly anything was dropped: {evictions}");
}

#[test]
fn a_larger_record_or_batch_is_refused_and_nothing_changes() {
    let limit = 10_000;
    let (_folder, _, store) = in_folder(limit);
    (0..90).for_each(|i| must(store.insert(&key(i), &[1; 90])));
    let before = (state_of(&store, "before"), store.changes());
    let is_refused = |done: credenza::Result<()>, wanted: &str| match done.unwrap_err().kind() {
        ErrorKind::TooLarge { what, limit: 10_000, .. } => assert_eq!(*what, wanted),
        other => panic!("{other:?}"),
    };
    is_refused(store.insert(b"k", &[0; 10_000]), "record");
    is_refused(store.append(&key(0), &[0; 10_000]).map(drop), "record");
    is_refused(store.update(b"new", |_| Some(vec![0; 10_000])).map(drop), "record");
    let mut batch = Batch::new();
    for i in 0..3 {
        batch.insert(&key(i), &[2; 4000]);
    }
    is_refused(store.batch(&batch), "batch");
    let mut transaction = store.transaction().unwrap();
    (0..3).for_each(|i| must(transaction.insert(&key(i), &[2; 4000])));
    is_refused(transaction.commit(), "batch");
    assert!((state_of(&store, "after"), store.changes()) == before);
    // Just as large as the limit it takes the place of everything.
    assert!(!store.replace(b"k", &[0; 9991]).unwrap());
    assert_eq!((store.len().unwrap(), store.stats().unwrap().live_bytes), (1, limit));
    store.insert(b"k", &[1; 9991]).unwrap();
    assert_eq!(store.get(b"k").unwrap().as_deref(), Some(&[1; 9991][..]));
}

#[test]
fn the_limit_is_the_stores() {
    let (folder, path, store) = in_folder(1 << 20);
    assert_eq!(store.limit(), 1 << 20);
    drop(store);
    for options in [limited(1 << 20), limited(0), Hash::options(), Hash::options().read_only(true)]
    {
        assert_eq!(options.open(&path).unwrap().limit(), 1 << 20);
    }
    for options in [limited(2 << 20), Hash::options().limit(7)] {
        let error = options.open(&path).unwrap_err().to_string();
        assert!(error.contains("a limit of 1048576 bytes"), "{error}");
    }
    let free = folder.path().join("free");
    drop(Hash::create(&free).unwrap());
    let error = limited(5000).open(&free).unwrap_err().to_string();
    assert!(error.contains("no limit"), "{error}");
    // Every byte of the header counts, the limit's among them; and the bit that says there is one.
    let data = fs::read(&path).unwrap();
    assert_eq!((data[20], &data[56..64]), (1, &(1u64 << 20).to_le_bytes()[..]));
    for at in (56..64).chain([20]) {
        let mut changed = data.clone();
        changed[at] ^= 1;
        write_anew(&path, &changed);
        let error = Hash::open(&path).unwrap_err();
        assert!(
            error.is_bad_file() && error.to_string().contains("checksum"),
            "byte {at}: {error}"
        );
    }
    for (at, byte) in [(20, 0), (20, 3), (58, 0)] {
        let mut changed = data.clone();
        changed[at] = byte;
        if at == 58 {
            changed[56..64].fill(0);
        }
        let sum = xxhash_rust::xxh3::xxh3_64(&changed[..504]).to_le_bytes();
        changed[504..512].copy_from_slice(&sum);
        write_anew(&path, &changed);
        let error = Hash::open(&path).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "byte {at}: {error}");
    }
}

/// How often a hot key is still there, when cold ones many times the limit were written meanwhile.
fn hits(read: impl Fn(&Hash, &[u8]) -> bool) -> (u64, u64) {
    let (_folder, _, store) = in_folder(1 << 20);
    let hot = 2000;
    let value = [7; 84];
    (0..hot).for_each(|i| must(store.insert(&key(i), &value)));
    let mut rng = Rng::new(9);
    let (mut hits, mut tries) = (0, 0);
    for cold in 0..80_000 {
        store.insert(&key(1_000_000 + cold), &value).unwrap();
        for _ in 0..2 {
            let hot = key(rng.below(hot));
            tries += 1;
            if read(&store, &hot) {
                hits += 1;
            } else {
                store.insert(&hot, &value).unwrap();
            }
        }
    }
    check_limit(&store, 1 << 20, "hot and cold");
    assert!(store.stats().unwrap().evictions > 60_000);
    (hits, tries)
}

#[test]
fn what_is_read_often_survives_a_scan_of_what_is_not() {
    let is_there = |value: Option<bool>| value.unwrap_or(false);
    for (way, read) in [
        (|store: &Hash, key: &[u8]| store.get(key).unwrap().is_some()) as fn(&Hash, &[u8]) -> bool,
        |store, key| store.get_with(key, |_| true).unwrap().unwrap_or(false),
        |store, key| {
            let mut found = false;
            store.get_many(&[key], |_, value| found = value.is_some()).unwrap();
            found
        },
        |store, key| !store.compare_exchange(key, None, None).unwrap(),
    ]
    .into_iter()
    .enumerate()
    {
        let (hits, tries) = hits(read);
        println!("way {way}: {hits} of {tries}");
        assert!(hits * 1000 >= tries * 995, "way {way}: {hits} of {tries}");
    }
    // Iterating is no use: what is only seen so goes like what is not.
    let (hits, tries) = hits(|store, key| {
        let mut found = None;
        if key == b"key 5" {
            found = store.iter().map(Result::unwrap).find(|(k, _)| k == key).map(|_| true);
        }
        is_there(found)
    });
    assert!(hits * 10 < tries, "{hits} of {tries} without reading");
}

/// Everything was read, every time: a write copies a bounded number of records all the same.
#[test]
fn where_all_is_used_a_write_waits_for_little() {
    let limit = 4 << 20;
    let (_folder, _, store) = in_folder(limit);
    let value = [7; 84];
    let size = room(&key(1_000_000), &value);
    (0..limit / size).for_each(|i| must(store.insert(&key(1_000_000 + i), &value)));
    let (mut most, mut all) = (0, 0);
    for i in 0..6000 {
        if i % 1000 == 0 {
            store.iter().for_each(|record| must(store.get(&record.unwrap().0).map(drop)));
        }
        let before = store.changes();
        store.insert(&key(2_000_000 + i), &value).unwrap();
        check_limit(&store, limit, "all is used");
        most = most.max(store.changes() - before);
        all += store.changes() - before;
    }
    // 4 KiB of records, a group of sixteen, the record itself and two that say what was dropped.
    let bound = 4096 / size + 16 + 1 + 4;
    assert!(most <= bound, "{most} records appended by one write, {bound} promised");
    assert!(most > 20, "nothing was used: {most}");
    println!("{most} at most, {} on average", all as f64 / 6000.0);
}

/// Everything was read, all the time: the limit holds nevertheless.
#[test]
fn where_nothing_else_is_left_used_records_go() {
    fn worth(_: &[u8], value: &[u8]) -> u64 {
        if value[0] == 1 { u64::MAX } else { 0 }
    }
    let limit = 256 << 10;
    let folder = tempfile::tempdir().unwrap();
    for (i, options) in [limited(limit), limited(limit).worth(worth)].into_iter().enumerate() {
        let store = options.open(folder.path().join(i.to_string())).unwrap();
        for i in 0..1500u64 {
            let before = store.changes();
            store.insert(&key(i), &vec![1; 1000]).unwrap();
            check_limit(&store, limit, "nothing else is left");
            // Eight times its size, two groups of sixteen, and what says where the log begins.
            assert!(
                store.changes() - before <= 8 + 2 * 16 + 6,
                "{i}: {}",
                store.changes() - before
            );
            store.iter().for_each(|record| must(store.get(&record.unwrap().0).map(drop)));
            assert!(store.get(&key(i)).unwrap().is_some());
        }
        assert!(store.stats().unwrap().evictions > 1000);
        state_of(&store, "nothing else is left");
    }
}

/// As long as they are few against the limit, those that are used are never dropped.
#[test]
fn used_records_below_a_quarter_of_the_limit_stay() {
    let limit = 1 << 20;
    let (_folder, _, store) = in_folder(limit);
    let value = [7; 500];
    let hot = limit / 4 / (room(&key(100), &value)) - 1;
    (0..hot).for_each(|i| must(store.insert(&key(i), &value)));
    let mut rng = Rng::new(3);
    for cold in 0..3000 {
        // All of them together in the log, and all used when they are passed.
        if cold % 20 == 0 {
            for i in 0..hot {
                assert!(store.get(&key(i)).unwrap().is_some(), "{i} was dropped, at {cold}");
            }
        }
        let len = rng.below(limit / 32 - 40) as usize;
        store.insert(&key(1_000_000 + cold), &vec![1; len]).unwrap();
        check_limit(&store, limit, "a quarter");
    }
}

#[test]
fn what_is_worth_more_stays() {
    let limit = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    // The value says what it is worth; the last byte of the key has it, too.
    fn worth(_: &[u8], value: &[u8]) -> u64 {
        match value[0] {
            255 => u64::MAX,
            worth => u64::from(worth) * value.len() as u64,
        }
    }
    let store = limited(limit).worth(worth).open(folder.path().join("store")).unwrap();
    let mut rng = Rng::new(5);
    let precious = 1000;
    (0..precious).for_each(|i| must(store.insert(&key(i), &[255; 80])));
    let count = 60_000;
    let worths: Vec<u8> = (0..count).map(|_| rng.below(4) as u8).collect();
    for (i, worth) in worths.iter().enumerate() {
        let len = 40 + rng.below(100) as usize;
        store.insert(&key(1_000_000 + i as u64), &vec![*worth; len]).unwrap();
    }
    check_limit(&store, limit, "worth");
    for i in 0..precious {
        let is_there = Hash::get(&store, &key(i)).unwrap().is_some();
        assert!(is_there, "{i} was worth more than anything, and is gone");
    }
    let mut left = [0u64; 4];
    for record in store.iter().map(Result::unwrap).filter(|(_, value)| value[0] < 4) {
        left[usize::from(record.1[0])] += 1;
    }
    println!("left of each worth: {left:?}");
    assert!(left[3] > 2 * left[0] && left[3] > left[2] && left[2] > left[0], "{left:?}");
    // Where nothing is worth less they go, too: nothing is ever over the limit.
    (0..20_000).for_each(|i| must(store.insert(&key(5_000_000 + i), &[255; 80])));
    check_limit(&store, limit, "all worth the most");
    state_of(&store, "all worth the most");
}

/// What was dropped is still whole in the file, before the place where the log begins now.
#[test]
fn recovery_brings_nothing_back_that_was_dropped() {
    let (folder, path, store) = in_folder(20_000);
    (0..150).for_each(|i| must(store.insert(&key(i), &[7; 90])));
    // Not the oldest are dropped, as would be done again by writing the same.
    (0..30).for_each(|i| drop(store.get(&key(i)).unwrap()));
    (150..190).for_each(|i| must(store.insert(&key(i), &[7; 90])));
    assert!(store.stats().unwrap().evictions > 5);
    (150..190).for_each(|i| must(store.remove(&key(i))));
    let state = state_of(&store, "before");
    drop(store);
    let saved = folder.path().join("saved");
    let found = recover(&path, &saved, |_, _| {}).unwrap();
    assert!(found.records > 190, "nothing that was dropped is there: {found:?}");
    assert!(state_of(&Hash::open(&saved).unwrap(), "saved") == state);
}

/// A key that was dropped and then removed does not come back, whatever the index is made from.
#[test]
fn what_was_dropped_stays_away() {
    let (folder, path, store) = in_folder(100_000);
    let mut rng = Rng::new(8);
    for i in 0..20_000 {
        store.insert(&key(rng.below(3000)), &rng.bytes(60)).unwrap();
        let other = key(rng.below(3000));
        if i % 3 == 0 {
            drop(store.get(&other).unwrap());
        }
        if i % 500 == 0 {
            store.sync().unwrap();
        }
    }
    // With room to spare nothing is dropped again that comes back.
    let all = state_of(&store, "full");
    all.keys().step_by(4).for_each(|key| must(store.remove(key)));
    let state = state_of(&store, "before");
    let stats = store.stats().unwrap();
    assert!(stats.evictions > 5000 && stats.records < 1200, "{stats:?}");
    let copy = folder.path().join("copy");
    store.backup(&copy, |_, _| ()).unwrap();
    let other = Hash::open(&copy).unwrap();
    assert!(state_of(&other, "backup") == state);
    assert_eq!(other.limit(), 100_000);
    other.insert(b"new", &[0; 50_000]).unwrap();
    check_limit(&other, 100_000, "backup");
    let thawed = credenza::thaw(&store, folder.path().join("thawed"), |_, _| {}).unwrap();
    assert!(state_of(&thawed, "thawed") == state && thawed.limit() == 0);
    drop(store);
    let saved = folder.path().join("saved");
    recover(&path, &saved, |_, _| {}).unwrap();
    let found = Hash::open(&saved).unwrap();
    assert_eq!(found.limit(), 100_000);
    let found = state_of(&found, "saved");
    let missing = state.len() - found.len();
    assert!(found.iter().all(|(key, value)| state.get(key) == Some(value)), "brought back");
    // What is recovered is within its own limit, with its own reserve.
    assert!(missing * 8 < state.len(), "{missing} of {} lost", state.len());
    fs::remove_file(index_of(&path)).unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    assert!(state_of(&reader, "read only") == state);
    drop(reader);
    let store = Hash::open(&path).unwrap();
    assert!(state_of(&store, "without index") == state);
    assert_eq!(store.stats().unwrap().evictions, 0);
}

/// Changes of all kinds where there is room for no more than a part of the limit: each of them is made.
fn fill_beyond_room(path: &Path, limit: u64, longest: u64, rng: &mut Rng, what: &str) {
    let store = limited(limit).open(path).unwrap();
    let mut written = State::new();
    let made = |done: credenza::Result<()>, i| done.unwrap_or_else(|e| panic!("{what}, {i}: {e}"));
    let (mut bytes, mut hits, mut tries) = (0, 0, 0);
    // Some are read all the time.
    let hot = limit / 40 / (longest / 2 + 30) + 1;
    let mut i = 0;
    while bytes < 4 * limit {
        i += 1;
        let lens = [rng.below(longest + 1), rng.below(longest + 1)];
        let [value, other] = lens.map(|len| rng.bytes(len as usize));
        let new = key(hot + i);
        let old = key(hot + i - i.min(rng.below(50)));
        bytes += room(&new, &value) + room(&old, &other);
        match rng.below(8) {
            0 => {
                let mut batch = Batch::new();
                batch.insert(&new, &value).remove(&key(hot + i / 2)).insert(&old, &other);
                made(store.batch(&batch), i);
                written.extend([(new, value), (old, other)]);
                written.remove(&key(hot + i / 2));
            }
            1 => {
                made(store.remove(&old).map(drop), i);
                written.remove(&old);
            }
            2 => {
                made(store.replace(&old, &value).map(drop), i);
                written.insert(old, value);
            }
            _ => {
                made(store.insert(&new, &value), i);
                written.insert(new, value);
            }
        }
        for _ in 0..2 {
            let read = key(rng.below(hot));
            tries += 1;
            match store.get(&read).unwrap() {
                Some(_) => hits += 1,
                None => {
                    made(store.insert(&read, &vec![1; longest as usize / 2]), i);
                    written.insert(read, vec![1; longest as usize / 2]);
                }
            }
        }
        if i % 500 == 0 && rng.below(4) == 0 {
            store.sync().unwrap();
        }
    }
    let found = state_of(&store, what);
    let is_right = |(key, value): (&Vec<u8>, &Vec<u8>)| written.get(key) == Some(value);
    assert!(found.iter().all(is_right), "{what}: an old value");
    let stats = store.stats().unwrap();
    assert_eq!(stats.live_bytes, sum(&found), "{what}");
    // No more is dropped than makes room: a good part of what there is room for is there.
    assert!(stats.evictions > 0 && stats.live_bytes > stats.file_bytes / 4, "{what}: {stats:?}");
    println!("{what}: {stats:?}, {hits} hits of {tries}");
    assert!(hits * 10 > tries * 8, "{what}: {hits} hits of {tries} of what is read all the time");
    store.verify(|_, _| ()).unwrap();
    drop(store);
    fs::remove_file(index_of(path)).unwrap();
    let store = opened_again(path);
    assert!(state_of(&store, what) == found, "{what}: made from the log");
    store.insert(b"new", b"value").unwrap();
}

/// How far what lives goes, and how long the longest value is, on disks of so many KiB.
const BEYOND_ROOM: [(u64, u64); 5] =
    [(500, 40), (1 << 10, 300), (4 << 10, 1000), (12 << 10, 8000), (12 << 10, 300_000)];

#[test]
fn where_the_disk_is_full_the_oldest_go() {
    for (round, (size, longest)) in BEYOND_ROOM.into_iter().enumerate() {
        let Some(mount) = Mount::of_size(&format!("{size}k")) else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let what = format!("{size} KiB, values up to {longest}");
        let mut rng = Rng::new(seed(round as u64));
        fill_beyond_room(&mount.path().join("store"), size << 11, longest, &mut rng, &what);
    }
}

/// A child's work: with a limit on the size of files.
#[test]
fn child_reaches_the_limit_on_files() {
    if !is_child() {
        return;
    }
    sys::give_up_after(300);
    for (round, (size, longest)) in BEYOND_ROOM.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        sys::limit_file_size(Some(size << 10));
        let what = format!("files of {size} KiB, values up to {longest}");
        let mut rng = Rng::new(seed(round as u64));
        fill_beyond_room(&folder.path().join("store"), size << 11, longest, &mut rng, &what);
    }
}

#[test]
fn where_files_may_not_become_so_long_the_oldest_go() {
    passes_in_child("child_reaches_the_limit_on_files");
}

/// Half of a store would pass for all of it.
#[test]
fn what_is_recovered_is_whole_or_refused() {
    let Some(mount) = Mount::of_size("1m") else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let (_folder, path, store) = in_folder(4 << 20);
    (0..3000).for_each(|i| must(store.insert(&key(i), &[7; 1000])));
    drop(store);
    let saved = mount.path().join("saved");
    let error = recover(&path, &saved, |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("free some space"), "{error}");
    assert!(!saved.exists());
}

/// What is dropped while somebody holds a value makes no room: it would all be gone, for nothing.
#[test]
fn while_a_reader_keeps_all_space_little_is_dropped() {
    let Some(mount) = Mount::of_size("4m") else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let store = limited(8 << 20).open(mount.path().join("store")).unwrap();
    (0..10_000).for_each(|i| must(store.insert(&key(i), &[7; 1000])));
    let count = store.len().unwrap();
    let held = store.get(&key(9999)).unwrap().unwrap();
    let refused = (0..10_000).filter(|i| store.insert(&key(20_000 + i), &[8; 1000]).is_err());
    assert!(refused.count() > 1000);
    assert!(store.len().unwrap() > count / 2, "{} of {count}", store.len().unwrap());
    assert!(held.iter().all(|byte| *byte == 7));
    drop(held);
    (0..10_000).for_each(|i| must(store.insert(&key(i), &[9; 1000])));
    assert!(store.len().unwrap() > count / 2, "{} of {count}", store.len().unwrap());
    // Whoever finds no room looks whether those who held it are gone.
    for round in 0..300 {
        store.insert(b"held", &[1; 1000]).unwrap();
        let held = store.get(b"held").unwrap();
        (0..1000).take_while(|i| store.insert(&key(*i), &[2; 1000]).is_ok()).for_each(drop);
        drop(held);
        store.insert(&key(round), &[3; 1000]).unwrap();
    }
}

/// What was dropped can be used when the readers are gone who had begun before.
#[test]
fn readers_who_come_and_go_keep_no_put_from_its_room() {
    let Some(mount) = Mount::of_size("4m") else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let store = limited(8 << 20).open(mount.path().join("store")).unwrap();
    let put = |i: u64| store.insert(&key(i), &[i as u8; 1000]);
    (0..5000).for_each(|i| must(put(i)));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    let held = store.get(&key(4999)).unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                    drop(held);
                }
            });
        }
        let refused: Vec<_> = (5000..9000).filter_map(|i| put(i).err()).collect();
        is_over.store(true, Relaxed);
        assert!(refused.is_empty(), "{} of 4000: {}", refused.len(), refused[0]);
    });
}
