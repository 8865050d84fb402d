//! Danger: a writer that dies, or a power failure, while records are dropped to keep a store within its
//! limit: counts that are wrong for ever, a record that is there and is not, or one that is back.

mod common;
#[path = "common/syncs.rs"]
mod syncs;

use common::hash::{check_limit, index_number, index_of, index_wanted, limited, must, sum};
use common::power::{Disk, write_image};
use common::steps::states_during;
use common::subject::{Operation, State, Subject, difference, state_of};
use common::sys;
use common::{Rng, child, is_child, rounds, seed, write_anew};
use credenza::hash::{Batch, Hash};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

fn key(i: u64) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

/// Whether `found` is `before` after some were dropped, none of them one that is unchanged `after`.
fn is_between(found: &State, before: &State, after: &State) -> bool {
    found.iter().all(|(key, value)| before.get(key) == Some(value))
        && after
            .iter()
            .all(|(key, value)| before.get(key) != Some(value) || found.contains_key(key))
}

/// A child's work: writes and reads a store with a limit, until it is killed.
#[test]
fn child_fills() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let store = Hash::open(std::env::var("STORE").unwrap()).unwrap();
    let mut rng = Rng::new(std::env::var("SEED").unwrap().parse().unwrap());
    loop {
        fill_step(&store, &mut rng);
    }
}

/// The value tells the key, so that whoever reads knows whether it may be.
fn value_of(key: u64, rng: &mut Rng) -> Vec<u8> {
    let mut value = key.to_le_bytes().to_vec();
    let most = [40, 40, 40, 3000][rng.below(4) as usize];
    value.resize(8 + rng.below(most) as usize, key as u8);
    value
}

fn fill_step(store: &Hash, rng: &mut Rng) {
    let id = rng.below(3000);
    match rng.below(20) {
        0 => {
            let mut batch = Batch::new();
            for _ in 0..rng.below(10) {
                let id = rng.below(3000);
                batch.insert(&key(id), &value_of(id, rng));
            }
            store.batch(&batch).unwrap();
        }
        1 => must(store.remove(&key(id))),
        2..10 => {
            if let Some(value) = store.get(&key(id)).unwrap() {
                assert_eq!(value[..8], id.to_le_bytes());
            }
        }
        _ => must(store.insert(&key(id), &value_of(id, rng))),
    }
}

#[test]
fn killed_writers_leave_exact_counts_within_the_limit() {
    let limit = 60_000;
    let kills = rounds(10);
    let seed = seed(kills);
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut store = limited(limit).open(&path).unwrap();
    let start = |seed: u64| {
        let mut command = child("child_fills");
        command.env("STORE", &path).env("SEED", seed.to_string()).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let mut writers: Vec<_> = (0..3).map(|i| start(seed * 1000 + i)).collect();
    for kill in 0..kills {
        std::thread::sleep(Duration::from_micros(rng.below(20_000)));
        let what = format!("seed {seed}, kill {kill}");
        let number = rng.below(3) as usize;
        writers[number].kill().unwrap();
        assert_eq!(writers[number].wait().unwrap().code(), None, "{what}: it failed by itself");
        fill_step(&store, &mut rng);
        // A reader may have to wait for a processor while it holds what the others retire: the file has room
        // for that, and is cut when they are gone.
        let live = store.stats().unwrap().live_bytes;
        assert!(live <= limit, "{what}: {live} of {limit}");
        // The log is read, and the index must say the same.
        store.verify(|_, _| ()).unwrap_or_else(|e| panic!("{what}: {e}"));
        if kill % 20 == 19 {
            for writer in &mut writers {
                let _ = writer.kill();
                writer.wait().unwrap();
            }
            // Whoever writes next finishes what the dead have begun.
            assert!(!store.remove(b"none").unwrap());
            let state = state_of(&store, &what);
            assert_eq!(store.stats().unwrap().live_bytes, sum(&state), "{what}");
            (0..2000).for_each(|_| fill_step(&store, &mut rng));
            check_limit(&store, limit, &what);
            let state = state_of(&store, &what);
            drop(store);
            fs::remove_file(index_of(&path)).unwrap();
            store = Hash::open(&path).unwrap();
            assert!(state_of(&store, &what) == state, "{what}: without index");
            (0..3).for_each(|i| writers[i] = start(seed * 1000 + kill * 10 + i as u64));
        } else {
            writers[number] = start(seed * 1000 + kill * 10 + 5);
        }
    }
    for mut writer in writers {
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    assert!(store.stats().unwrap().changes > 1000, "the writers hardly wrote anything");
}

/// A store that is full: the next write drops something; some keys were read.
fn full(path: &Path, limit: u64, rng: &mut Rng) {
    let store = limited(limit).open(path).unwrap();
    for i in 0.. {
        let evictions = store.stats().unwrap().evictions;
        if evictions > 20 && i % 3 == 0 && store.stats().unwrap().live_bytes > limit * 29 / 32 {
            break;
        }
        store.insert(&key(i), &rng.bytes(40)).unwrap();
        drop(store.get(&key(i / 5 * 5)).unwrap());
    }
}

#[test]
fn who_drops_may_die_at_every_instruction() {
    let mut count = 0;
    let mut dropped = 0;
    for round in 0..rounds(1) {
        let mut rng = Rng::new(seed(round));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let limit = [900, 1200][round as usize % 2];
        full(&path, limit, &mut rng);
        let operation = match round % 3 {
            0 => Operation::Insert(b"new".to_vec(), vec![1; 180]),
            1 => Operation::Insert(b"new".to_vec(), vec![1; 90]),
            // Stepping through a batch takes minutes.
            _ => Operation::Batch((0..4).map(|i| (key(i), Some(vec![i as u8; 60]))).collect()),
        };
        let before = state_of(&Hash::open(&path).unwrap(), "before");
        let Some(states) = states_during(&path, |store: &Hash| store.apply(&operation).unwrap())
        else {
            println!("skipped: this process may not trace another");
            return;
        };
        let after = state_of(&Hash::open(&path).unwrap(), "after");
        dropped += before.keys().filter(|key| !after.contains_key(*key)).count();
        let mut counts = Vec::new();
        // Each is opened twice, and closing waits for the disk.
        let looks = if rounds(1) > 1 { 200 } else { 24 };
        let step = (states.len() / looks).max(1);
        for (i, state) in states.iter().enumerate().step_by(step) {
            let what = format!("round {round}, {operation:.60?}, state {i} of {}", states.len());
            let copy = folder.path().join("copy");
            for (bytes, file) in state.iter().zip(Hash::files(&copy)) {
                write_anew(&file, bytes);
            }
            count += 1;
            let store = Hash::open(&copy).unwrap_or_else(|e| panic!("{what}: {e}"));
            // Whoever comes next finishes it, and changes nothing else.
            assert!(!store.remove(b"none").unwrap_or_else(|e| panic!("{what}: {e}")));
            let has_index = index_number(&state[1]) == index_wanted(&state[0]);
            let is_kept = index_wanted(&fs::read(&copy).unwrap()) == index_wanted(&state[0]);
            assert!(is_kept || !has_index, "{what}: the index was made again");
            let found = state_of(&store, &what);
            let is_right = found == after || is_between(&found, &before, &after);
            assert!(is_right, "{what}: {}", difference(&found, &after));
            let stats = store.stats().unwrap();
            assert_eq!(stats.live_bytes, sum(&found), "{what}");
            assert!(stats.live_bytes <= limit, "{what}");
            let gone = before.keys().filter(|key| !found.contains_key(*key)).count() as u64;
            counts.push(stats.evictions);
            // Dropped and written again is dropped all the same.
            assert!(stats.evictions >= counts[0] + gone, "{what}: {gone} are gone");
            drop(store);
            fs::remove_file(index_of(&copy)).unwrap();
            let store = Hash::open(&copy).unwrap_or_else(|e| panic!("{what}: without index: {e}"));
            assert!(state_of(&store, &what) == found, "{what}: the index makes a difference");
        }
        // What is dropped is counted with it, and once.
        let first = counts[0];
        let evictions = counts.last().unwrap() - first;
        let gone = before.keys().filter(|key| !after.contains_key(*key)).count() as u64;
        let again = before.keys().filter(|key| after.get(*key) != before.get(*key)).count() as u64;
        assert!((gone..=again).contains(&evictions), "round {round}: {evictions} counted");
        println!("round {round}: {} states, {evictions} dropped", states.len());
    }
    assert!(dropped > 0, "nothing was dropped");
    println!("{count} states");
}

/// How the power fails: limit, keys, largest value, operations between two failures.
const SHAPES: [(u64, u64, u64, u64); 4] = [
    (3000, 60, 200, 80),
    (20_000, 500, 100, 300),
    (60_000, 40, 5000, 60),
    (300_000, 9, 90_000, 20),
];

/// After a power failure the store is as it was after one of its operations since the last sync, or
/// while the next was making room; and so what was dropped before is not back.
#[test]
fn what_was_dropped_for_good_is_not_back_after_a_power_failure() {
    for round in 0..rounds(2) {
        let mut rng = Rng::new(seed(round));
        let (limit, keys, largest, most) = SHAPES[rng.below(4) as usize];
        let folder = tempfile::tempdir().unwrap();
        let path_of = |number: u64| {
            let folder = folder.path().join(number.to_string());
            fs::create_dir_all(&folder).unwrap();
            folder.join("store")
        };
        let mut path = path_of(0);
        limited(limit).open(&path).unwrap().sync().unwrap();
        let mut states = vec![State::new()];
        for cut in 1..=6 {
            syncs::install(Disk::of(Hash::files(&path)));
            let store = Hash::open(&path).unwrap();
            syncs::with(Disk::look);
            for _ in 0..rng.below(most) {
                let mut operation = Operation::random(&mut rng, keys, largest);
                if let Operation::Batch(changes) = &mut operation {
                    changes.truncate(2);
                }
                store.apply(&operation).unwrap();
                for _ in 0..rng.below(3) {
                    drop(store.get(format!("key {}", rng.below(keys)).as_bytes()).unwrap());
                }
                states.push(store.iter().map(Result::unwrap).collect());
                if rng.below(3) == 0 {
                    syncs::with(Disk::look);
                }
                if rng.below(20) == 0 {
                    store.sync().unwrap();
                    states.drain(..states.len() - 1);
                }
            }
            check_limit(&store, limit, "before the cut");
            let disk = syncs::take();
            drop(store);
            for i in 0..4 {
                let mut image = disk.image(&mut rng);
                if let Some(data) = &mut image[0] {
                    Hash::reboot(data);
                }
                let what = format!("round {round}, limit {limit}, cut {cut}, image {i}");
                path = path_of(cut * 10 + i);
                write_image(&image, &Hash::files(&path));
                let store = Hash::open(&path).unwrap_or_else(|e| panic!("{what}: {e}"));
                let found = state_of(&store, &what);
                let is_known = states.contains(&found)
                    || states.windows(2).any(|two| is_between(&found, &two[0], &two[1]));
                let near = difference(&found, states.last().unwrap());
                assert!(is_known, "{what}: none of {} states; {near}", states.len());
                check_limit(&store, limit, &what);
                must(store.insert(b"after", b"wards"));
                drop(store);
                let data = vec![image[0].clone(), None];
                write_image(&data, &Hash::files(&path));
                let store = Hash::open(&path).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(state_of(&store, &what) == found, "{what}: the index makes a difference");
                drop(store);
                if i == 3 {
                    write_image(&image, &Hash::files(&path));
                    states = vec![found];
                }
            }
        }
    }
}
