//! Danger: a hash store that grows without end, or a process that does, though little lives in it.

mod common;
#[path = "common/syncs.rs"]
mod syncs;

use common::hash::{BOOT_AT, index_of, must};
use common::mount::Mount;
use common::{Rng, rounds, seed, write_sparse};
use credenza::btree::BTree;
use credenza::hash::{Batch, Hash};
use credenza::{Get, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the index says how many of its lines are in use.
const LINES_AT: usize = 288;

/// However often a store is emptied, the process stays within its limits.
#[test]
fn many_stores_and_many_indexes_fit_in_a_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    for i in 0..1500u64 {
        store.insert(b"key", &i.to_le_bytes()).unwrap();
        store.clear().unwrap_or_else(|e| panic!("{i}: {e}"));
    }
    let open = |_| {
        let store = Hash::in_memory().unwrap();
        store.insert(b"a", b"b").unwrap();
        store
    };
    let stores: Vec<Hash> = (0..200).map(open).collect();
    assert!(stores.iter().all(|store| store.len().unwrap() == 1));
}

/// What a map of this process is of, for the files of a store that are gone.
fn maps_of_removed_files(path: &Path) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let is_of_it =
        |line: &&str| line.contains(path.to_str().unwrap()) && line.ends_with("(deleted)");
    maps.lines().filter(is_of_it).count()
}

/// A queue that is filled and emptied again and again has its index made anew each time: what was replaced
/// is given back, by who writes and by who only reads, and not while somebody looks at it.
#[test]
fn replaced_indexes_are_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (store, other) = (Hash::create(&path).unwrap(), Hash::create(&path).unwrap());
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reads = || {
            while !is_over.load(Ordering::Relaxed) {
                for i in 0..2000u64 {
                    let value = other.get(&i.to_le_bytes()).unwrap();
                    assert!(value.is_none_or(|value| *value == i.to_le_bytes()[..]));
                }
                other.stats().unwrap();
            }
        };
        scope.spawn(reads);
        scope.spawn(reads);
        let mut most = 0;
        for round in 0..rounds(40) {
            (0..8000u64).for_each(|i| must(store.insert(&i.to_le_bytes(), &i.to_le_bytes())));
            (0..8000u64).for_each(|i| assert!(store.remove(&i.to_le_bytes()).unwrap(), "{round}"));
            assert_eq!(reader.len().unwrap(), 0, "{round}");
            most = most.max(maps_of_removed_files(&path));
        }
        is_over.store(true, Ordering::Relaxed);
        // Of each of the three the last that was replaced, and one whose epoch is not over; readers leave
        // some more open rather than to wait.
        assert!((1..=16).contains(&most), "{most} files that were removed are mapped");
    });
}

/// By how many bytes the file is longer than twice what lives in it.
fn excess(store: &Hash) -> u64 {
    let stats = store.stats().unwrap();
    stats.file_bytes.saturating_sub(2 * stats.live_bytes)
}

/// What is removed does not keep the file long, whatever is put meanwhile.
#[test]
fn a_file_becomes_short_while_keys_are_removed() {
    let shuffled = [(20, 100), (200, 100), (200, 70), (20_000, 100), (20_000, 70)];
    let shuffled = shuffled.map(|(len, share)| (len, share, true));
    // Those put last first, so that all that lives stays in the oldest segments.
    for (len, share, is_shuffled) in
        shuffled.into_iter().chain([(200, 100, false), (2000, 100, false)])
    {
        let folder = tempfile::tempdir().unwrap();
        let store = Hash::create(folder.path().join("store")).unwrap();
        let mut rng = Rng::new(seed(len));
        let bytes = if is_shuffled { 6 << 20 } else { 60 << 20 };
        let mut keys: Vec<u64> = (0..bytes / len.max(100)).collect();
        let put = |key: &u64| must(store.insert(&key.to_le_bytes(), &vec![7; len as usize]));
        keys.iter().for_each(put);
        if is_shuffled {
            rng.shuffle(&mut keys);
        }
        let mut new = u64::from(u32::MAX);
        let mut most = 0;
        while let Some(key) = keys.pop() {
            assert!(store.remove(&key.to_le_bytes()).unwrap());
            if rng.below(100) >= share {
                new += 1;
                put(&new);
                keys.insert(rng.below(keys.len() as u64 + 1) as usize, new);
            }
            if keys.len().is_multiple_of(64) {
                most = most.max(excess(&store));
            }
        }
        assert!(most <= 4 << 20, "values of {len} bytes: {most} bytes more than twice");
        store.verify(|_, _| ()).unwrap();
    }
}

/// Who removes all of a synced store, in any order, has not much more copied for it than lived when the file was to become
/// shorter, each time: a pass of the log is not made twice because its last segments wait for the disk.
#[test]
fn removing_all_copies_little() {
    const RECORDS: u64 = 200_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let mut keys: Vec<u64> = (0..RECORDS).collect();
    keys.iter().for_each(|key| must(store.insert(&key.to_le_bytes(), &[7; 16])));
    drop(store);
    let store = Hash::open(&path).unwrap();
    Rng::new(seed(1)).shuffle(&mut keys);
    let before = store.stats().unwrap().changes;
    let mut most = 0;
    for (i, key) in keys.iter().enumerate() {
        assert!(store.remove(&key.to_le_bytes()).unwrap());
        if i % 64 == 0 {
            most = most.max(excess(&store));
        }
    }
    let copies = store.stats().unwrap().changes - before - RECORDS;
    assert!(copies <= 2 * RECORDS, "{copies} copies");
    // What waits for the disk comes on top.
    assert!(most <= 5 << 20, "{most} bytes more than twice");
    store.verify(|_, _| ()).unwrap();
}

/// By whatever changes what lives becomes less, the file becomes shorter.
#[test]
fn a_file_becomes_short_whatever_makes_little_of_much() {
    type Change = fn(&Hash, u64);
    let changes: [(&str, u64, Change); 5] = [
        ("one by one, each followed by an insertion", 5000, |store, key| {
            assert!(store.remove(&key.to_le_bytes()).unwrap());
            must(store.insert(&(key + (1 << 40)).to_le_bytes(), b"x"));
        }),
        ("by a shorter value", 1000, |store, key| must(store.insert(&key.to_le_bytes(), b"x"))),
        ("by a much shorter value", 16_000, |store, key| {
            must(store.insert(&key.to_le_bytes(), &[1; 10]));
        }),
        ("in a batch of one", 1000, |store, key| {
            let mut batch = Batch::new();
            batch.remove(&key.to_le_bytes());
            store.batch(&batch).unwrap();
        }),
        ("in a batch of many", 200, |store, key| {
            if key % 50 == 0 {
                let mut batch = Batch::new();
                (key..key + 50).for_each(|key| {
                    batch.remove(&key.to_le_bytes());
                });
                store.batch(&batch).unwrap();
            }
        }),
    ];
    for (what, len, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        let store = Hash::create(folder.path().join("store")).unwrap();
        let keys = (30 << 20) / len / 50 * 50;
        (0..keys).for_each(|key| must(store.insert(&key.to_le_bytes(), &vec![7; len as usize])));
        let mut most = 0;
        for key in 0..keys {
            change(&store, key);
            if key % 64 == 0 {
                most = most.max(excess(&store));
            }
        }
        assert!(most <= 4 << 20, "{what}: {most} bytes more than twice");
    }
}

/// Nor is it forgotten when much lives again before there was anything to cut, or somebody read only at that moment.
#[test]
fn a_file_becomes_short_also_at_another_time() {
    for reads_only in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        let mut rng = Rng::new(seed(0));
        let mut keys: Vec<u64> = (0..70_000).collect();
        let put = |key: &u64| must(store.insert(&key.to_le_bytes(), &[7; 400]));
        keys.iter().for_each(put);
        rng.shuffle(&mut keys);
        let remove = |key: u64| assert!(store.remove(&key.to_le_bytes()).unwrap());
        while excess(&store) < 2 << 20 {
            (0..16).for_each(|_| remove(keys.pop().unwrap()));
        }
        if reads_only {
            let reader = Hash::options().read_only(true).open(&path).unwrap();
            (0..2000).for_each(|_| remove(keys.pop().unwrap()));
            drop(reader);
            (0..4000).for_each(|_| remove(keys.pop().unwrap()));
        } else {
            keys.extend(1 << 40..(1 << 40) + 60_000 - keys.len() as u64);
            keys.iter().for_each(put);
            rng.shuffle(&mut keys);
        }
        let mut most = 0;
        while let Some(key) = keys.pop() {
            remove(key);
            if keys.len().is_multiple_of(64) {
                most = most.max(excess(&store));
            }
        }
        assert!(most <= 4 << 20, "{reads_only}: {most} bytes more than twice");
    }
}

/// Who keeps what is emptied, or the file as long as it is, must not have writers copy again and again what lives.
#[test]
fn what_cannot_become_short_is_not_copied_again_and_again() {
    for reads_only in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        let mut keys: Vec<u64> = (0..40_000).collect();
        keys.iter().for_each(|key| must(store.insert(&key.to_le_bytes(), &[7; 400])));
        Rng::new(seed(0)).shuffle(&mut keys);
        let held = if reads_only { None } else { store.get(&keys[0].to_le_bytes()).unwrap() };
        let reader = reads_only.then(|| Hash::options().read_only(true).open(&path).unwrap());
        let before = store.changes();
        keys[1..].iter().for_each(|key| assert!(store.remove(&key.to_le_bytes()).unwrap()));
        let (copies, len) = (store.changes() - before - 39_999, store.stats().unwrap().file_bytes);
        assert!(copies <= 60_000, "{reads_only}: {copies} records were copied");
        assert!(len <= 48 << 20, "{reads_only}: {len} bytes");
        drop((held, reader));
    }
}

/// What a large value leaves is paid for by who removes it, and not by who comes next.
#[test]
fn who_removes_a_large_value_pays_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    store.insert(b"large", &vec![7; 30 << 20]).unwrap();
    (0..100_000u64).for_each(|key| must(store.insert(&key.to_le_bytes(), &[7; 100])));
    store.remove(b"large").unwrap();
    assert!(excess(&store) <= 4 << 20, "{} bytes more than twice", excess(&store));
    for key in 0..100u64 {
        let before = store.changes();
        store.remove(&key.to_le_bytes()).unwrap();
        let changes = store.changes() - before;
        assert!(changes < 5000, "{key}: {changes} records");
    }
}

/// A store of values of any size, which become less and more, shorter and longer, is at most twice as long as they are and
/// 6 MiB, and four of the longest.
#[test]
fn a_file_of_values_of_all_sizes_stays_short() {
    for round in 0..rounds(6) {
        let folder = tempfile::tempdir().unwrap();
        let store = Hash::create(folder.path().join("store")).unwrap();
        let mut rng = Rng::new(seed(round));
        let mut sizes = std::collections::BTreeMap::new();
        for phase in 0..5 {
            let top = 1 << (10 + rng.below(14));
            let least = rng.below(3) * top / 2;
            let top = top.max(least);
            let keys = ((24 << 20) / top).clamp(4, 20_000).max(rng.below(32));
            let removes = [5, 40][rng.below(2) as usize];
            let (mut written, mut i) = (0, 0);
            while written < 96 << 20 && i < 30_000 {
                let key = rng.below(keys.max(sizes.len() as u64));
                if rng.below(100) < removes {
                    sizes.remove(&key);
                    store.remove(&key.to_le_bytes()).unwrap();
                } else {
                    let size = least + rng.below(top - least + 1);
                    sizes.insert(key, size);
                    written += size;
                    must(store.insert(&key.to_le_bytes(), &vec![7; size as usize]));
                }
                i += 1;
                if i % 32 == 0 {
                    let longest = sizes.values().copied().max().unwrap_or(0);
                    let (more, most) = (excess(&store), (6 << 20) + 4 * longest.max(top));
                    assert!(more <= most, "seed {}, phase {phase}, {i}: {more}", round + 1);
                }
            }
        }
        store.verify(|_, _| ()).unwrap();
    }
}

/// A queue of a few records needs little more than they do, however many pass, also where who takes them out is another.
#[test]
fn a_queue_in_a_small_file_stays_small() {
    for by_another in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        let taker = if by_another { Hash::open(&path).unwrap() } else { store.clone() };
        for turn in 0..400u64 {
            let length = if turn % 40 == 39 { 500 } else { 20 };
            let keys = 500 * turn..500 * turn + length;
            keys.clone().for_each(|key| must(store.insert(&key.to_le_bytes(), &[7; 100])));
            keys.for_each(|key| assert!(taker.remove(&key.to_le_bytes()).unwrap()));
        }
        let stats = store.stats().unwrap();
        assert!(stats.file_bytes <= 256 << 10, "{stats:?}");
    }
}

/// Also one that was made when nothing was used again without waiting for the disk.
#[test]
fn a_store_of_an_earlier_format_stays_short() {
    for name in ["mixed-v1", "movable-v1", "numbered-v1", "removals-v1"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        std::fs::copy(format!("tests/fixtures/hash/{name}.hash"), &path).unwrap();
        let store = Hash::open(&path).unwrap();
        for i in 0..60_000u64 {
            must(store.insert(&(i % 20).to_le_bytes(), &[7; 200]));
        }
        let stats = store.stats().unwrap();
        assert!(stats.file_bytes <= 2 * stats.live_bytes + (3 << 20), "{name}: {stats:?}");
    }
}

/// A little of what was synced, at the end of the file, must not keep all that was before it.
#[test]
fn a_file_becomes_short_behind_what_was_synced() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    (0..20_000u64).for_each(|i| must(store.insert(&i.to_le_bytes(), &[7; 1000])));
    store.sync().unwrap();
    (0..19_500u64).for_each(|i| assert!(store.remove(&i.to_le_bytes()).unwrap()));
    for i in 0..10_000u64 {
        must(store.insert(&(19_500 + i % 500).to_le_bytes(), &[7; 1000]));
    }
    let stats = store.stats().unwrap();
    assert!(stats.file_bytes <= 4 * stats.live_bytes + (5 << 20), "{stats:?}");
}

/// While somebody reads only, the file is not cut: that is no reason to wait for the disk again and again.
#[test]
fn a_long_file_that_cannot_be_cut_makes_nobody_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    (0..20_000u64).for_each(|i| must(store.insert(&i.to_le_bytes(), &[7; 1000])));
    store.sync().unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    (0..19_900u64).for_each(|i| assert!(store.remove(&i.to_le_bytes()).unwrap()));
    let before = syncs::count();
    for i in 0..10_000u64 {
        must(store.insert(&(19_900 + i % 100).to_le_bytes(), &[7; 1000]));
    }
    let waits = syncs::count() - before;
    assert!(waits < 30, "{waits}");
    drop(reader);
    while store.compact(1 << 16).unwrap() {}
    let len = std::fs::metadata(&path).unwrap().len();
    assert!(len < 3 << 20, "{len}");
}

/// Who looks while the file is cut must not take its old length for the new one: what is then written behind
/// the end ends the process.
#[test]
fn who_looks_while_the_file_is_cut_writes_nothing_behind_its_end() {
    for is_one in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        let other = if is_one { store.clone() } else { Hash::create(&path).unwrap() };
        let is_over = AtomicBool::new(false);
        let fill = |store: &Hash, count: u64| {
            (0..count).for_each(|i| must(store.insert(&i.to_le_bytes(), &[1; 20_000])));
        };
        let mut cuts = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    other.stats().unwrap();
                }
            });
            for _ in 0..rounds(20) {
                fill(&store, 100);
                let before = std::fs::metadata(&path).unwrap().len();
                store.clear().unwrap();
                store.sync().unwrap();
                store.sync().unwrap();
                store.compact(1 << 30).unwrap();
                cuts += usize::from(std::fs::metadata(&path).unwrap().len() < before);
                fill(&other, 50);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(cuts > 0, "nothing was cut");
        store.verify(|_, _| ()).unwrap();
    }
}

/// Who may not write can say nowhere what he holds.
#[test]
fn nothing_is_cut_off_under_who_may_not_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    (0..1500u32).for_each(|key| must(store.insert(&key.to_le_bytes(), &[1; 4000])));
    store.sync().unwrap();
    let reader = Hash::options().read_only(true).open(&path).unwrap();
    let value = reader.get(&1499u32.to_le_bytes()).unwrap().unwrap();
    let len = || std::fs::metadata(&path).unwrap().len();
    let before = len();
    (0..1500u32).for_each(|key| assert!(store.remove(&key.to_le_bytes()).unwrap()));
    while store.compact(u64::MAX).unwrap() {}
    assert!(len() >= before, "{} of {before} bytes are left", len());
    assert_eq!(value.len(), 4000);
    drop(value);
    drop(reader);
    store.insert(b"key", b"value").unwrap();
    while store.compact(u64::MAX).unwrap() {}
    assert!(len() < before / 2, "{} of {before} bytes are left", len());
}

/// A copy has room on the disk for every byte, lest a full disk ends who writes to it.
#[test]
fn a_copy_has_no_holes() {
    check_copies(&tempfile::tempdir().unwrap());
    // Files in memory are asked in another way.
    if Path::new("/dev/shm").is_dir() {
        check_copies(&tempfile::tempdir_in("/dev/shm").unwrap());
    }
}

fn check_copies(folder: &tempfile::TempDir) {
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let store = Hash::create(&path).unwrap();
    let fill = |from: u64| {
        (from..from + 20_000u64).for_each(|i| must(store.insert(&i.to_le_bytes(), &[1; 100])));
    };
    fill(0);
    // The oldest part of the log is given up, so that the copy begins somewhere behind it.
    (0..20_000u64).for_each(|i| assert!(store.remove(&i.to_le_bytes()).unwrap()));
    fill(100_000);
    store.backup(&copy, |_, _| ()).unwrap();
    let room = |path: &Path| {
        let meta = std::fs::metadata(path).unwrap();
        (meta.blocks() * 512, meta.len())
    };
    let (blocks, len) = room(&copy);
    assert!(blocks >= len, "{blocks} of {len}");
    // One that somebody else has made, with holes, has none when it is opened.
    drop(store);
    let bytes = std::fs::read(&path).unwrap();
    let sparse = write_sparse(&copy, &bytes);
    sparse.set_len(bytes.len() as u64 + (1 << 20)).unwrap();
    let store = Hash::open(&copy).unwrap();
    let (blocks, len) = room(&copy);
    assert!(blocks >= len, "{blocks} of {len}");
    assert_eq!(store.len().unwrap(), 20_000);
}

/// Whoever may only read such a copy, in a file system in memory that is full, was ended by the first hole (SIGBUS).
#[test]
fn holes_that_cannot_be_filled_are_an_error() {
    let Some(mount) = Mount::of_size("2m") else {
        println!("skipped: this user may not mount a small file system");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (hash, btree) = (folder.path().join("hash"), folder.path().join("btree"));
    Hash::create(&hash).unwrap().insert(b"zeros", &[0; 300_000]).unwrap();
    BTree::create(&btree).unwrap().insert(b"zeros", &[0; 300_000]).unwrap();
    let sparse_copy = |path: &Path| {
        let copy = mount.path().join(path.file_name().unwrap());
        write_sparse(&copy, &std::fs::read(path).unwrap());
        copy
    };
    let read = |path: &Path| -> credenza::Result<usize> {
        let store = OpenOptions::new().read_only(true).open(path)?;
        Ok(store.get(b"zeros")?.map_or(0, |value| value.len()))
    };
    let copies = [&hash, &btree].map(|path| sparse_copy(path));
    copies.iter().for_each(|copy| assert_eq!(read(copy).unwrap(), 300_000));
    // What was read has no holes any more.
    let copies = [hash, btree].map(|path| sparse_copy(&path));
    std::fs::write(mount.path().join("rest"), vec![1; 2 << 20]).unwrap_err();
    for copy in &copies {
        let error = read(copy).unwrap_err().to_string();
        assert!(
            error.contains("for the holes that the file has") && error.contains("free some space"),
            "{error}"
        );
    }
}

/// Values larger than the largest piece of the log are written over and over.
#[test]
fn space_of_large_values_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    for len in [200_000, 3 << 20] {
        let value = vec![1; len];
        for _ in 0..25 {
            store.insert(b"large", &value).unwrap();
            store.sync().unwrap();
        }
        let stats = store.stats().unwrap();
        assert!(stats.file_bytes < 8 * stats.live_bytes, "{stats:?}");
    }
}

/// Each time that the index was made from the log the rest of a segment was left behind, and where little was changed in
/// between nobody ever cleaned it.
#[test]
fn a_store_whose_index_is_made_again_and_again_stays_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    (0..1000u64).for_each(|i| store.insert(&i.to_le_bytes(), b"1").unwrap());
    drop(store);
    for turn in 0..100u64 {
        std::fs::remove_file(index_of(&path)).unwrap();
        let store = Hash::open(&path).unwrap();
        store.insert(&(turn % 1000).to_le_bytes(), b"2").unwrap();
        store.sync().unwrap();
        let len = std::fs::metadata(&path).unwrap().len();
        assert!(len < 16 << 20, "{len} bytes after {turn} times");
    }
    let store = Hash::open(&path).unwrap();
    store.verify(|_, _| ()).unwrap();
    assert_eq!(store.len().unwrap(), 1000);
}

/// The same where the power fails again and again, and nothing is changed in between.
#[test]
fn a_store_that_is_only_read_between_power_failures_stays_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut store = Hash::create(&path).unwrap();
    (0..1000u64).for_each(|i| store.insert(&i.to_le_bytes(), b"1").unwrap());
    store.sync().unwrap();
    let mut path = path;
    for turn in 0..100u64 {
        // As it is on the disk while it is open, at another start of the machine.
        let next = folder.path().join(turn.to_string());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[BOOT_AT] ^= 1;
        std::fs::write(&next, bytes).unwrap();
        std::fs::copy(index_of(&path), index_of(&next)).unwrap();
        store = Hash::open(&next).unwrap();
        assert_eq!(store.len().unwrap(), 1000);
        let len = std::fs::metadata(&next).unwrap().len();
        assert!(len < 1 << 20, "{len} bytes after {turn} times");
        std::fs::remove_file(&path).unwrap();
        path = next;
    }
    store.verify(|_, _| ()).unwrap();
}

/// What pages give up as they grow is used by others, also where there are few.
#[test]
fn a_small_store_has_a_small_index() {
    for count in [1000, 3000, 10_000u32] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        (0..count).for_each(|i| must(store.insert(&i.to_le_bytes(), &i.to_le_bytes())));
        // What is behind is room for puts that wait, which a small store has in debug builds only.
        let index = std::fs::read(index_of(&path)).unwrap();
        let lines = u64::from_le_bytes(index[LINES_AT..LINES_AT + 8].try_into().unwrap());
        assert!(lines * 64 <= 18 * u64::from(count), "{lines} lines for {count} keys");
        store.verify(|_, _| ()).unwrap();
    }
}

/// The records of a batch may be anywhere, also before its beginning.
#[test]
fn a_batch_may_begin_at_the_end_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    for round in 0..40u64 {
        for i in 0..1000u64 {
            store.insert(&i.to_le_bytes(), &[7; 300]).unwrap();
        }
        for i in 0..1000u64 {
            store.remove(&i.to_le_bytes()).unwrap();
        }
        store.sync().unwrap();
        (0..round * 3).for_each(|i| must(store.insert(&i.to_le_bytes(), &[7; 90])));
        for is_put in [true, false] {
            let mut batch = Batch::new();
            for i in 0..5000u32 {
                let key = &i.to_le_bytes()[..3];
                if is_put {
                    batch.insert(key, b"")
                } else {
                    batch.remove(key)
                };
            }
            store.batch(&batch).unwrap_or_else(|e| panic!("round {round}: {e}"));
        }
        store.clear().unwrap();
    }
}

/// Danger: what was begun so that the file can be cut is given up where much waits for the disk for a moment.
#[test]
fn a_store_that_is_synced_often_becomes_short() {
    const COUNT: u32 = 3000;
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    let put = |value: &[u8], keys: u32| {
        for i in 0..keys {
            store.insert(&(i % COUNT).to_le_bytes(), value).unwrap();
            if i % 125 == 0 {
                store.sync().unwrap();
            }
        }
    };
    put(&[1; 8192], COUNT);
    put(&[2; 8], 2 * COUNT);
    let stats = store.stats().unwrap();
    assert!(stats.file_bytes <= 2 * stats.live_bytes + (6 << 20), "{stats:?}");
}
