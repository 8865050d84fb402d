//! Danger: a power failure that leaves a store torn: an operation without one before it, half a
//! batch, less than what was synced, or a file that cannot be opened or written any more.
//!
//! No power is cut here. The disk is made up: of every sector any of the contents since the last
//! sync ([`common::power`]), for the data file and the index independently; then the store is
//! told that the machine was started anew, by the boot in its header. What it is then must be what
//! it was after one of the operations since the last sync. This is done again to what the
//! recovery itself has written.

mod common;
#[path = "common/syncs.rs"]
mod syncs;

use common::hash::{index_of, must, room};
use common::power::{Disk, Image, write_image};
use common::subject::{Operation, State, Subject, difference, state_of};
use common::sys::{Status, fork};
use common::{Rng, rounds, seed};
use credenza::hash::{Hash, recover};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How many images are made up of each disk.
const IMAGES: u64 = 5;
/// How often the power fails in a round.
const CUTS: u64 = 7;

/// What a round writes: so many keys with values of up to so many bytes, and how many operations
/// between two failures.
const SHAPES: [(u64, u64, u64); 8] = [
    (6, 90, 30),
    (40, 300, 60),
    (300, 60, 200),
    (4, 3000, 80),
    (3, 20_000, 60),
    (2, 150_000, 12),
    (1000, 20, 900),
    (2, 1_300_000, 4),
];

#[test]
fn what_is_left_is_what_was_after_one_of_the_operations_since_the_last_sync() {
    for round in 0..rounds(16) {
        Round::new(seed(round)).run();
    }
}

/// A store whose power fails now and then.
struct Round {
    rng: Rng,
    folder: tempfile::TempDir,
    what: String,
    /// What the store is after each operation that a failure may leave; the first is durable.
    states: Vec<State>,
    /// An index as it was at some time.
    stale: Option<Vec<u8>>,
}

impl Round {
    fn new(seed: u64) -> Round {
        let folder = tempfile::tempdir().unwrap();
        let (rng, what) = (Rng::new(seed), format!("seed {seed}"));
        Round { rng, folder, what, states: vec![State::new()], stale: None }
    }

    fn path(&self, number: u64) -> PathBuf {
        let folder = self.folder.path().join(number.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        folder.join("store")
    }

    fn run(&mut self) {
        let shape = SHAPES[self.rng.below(SHAPES.len() as u64) as usize];
        let mut path = self.path(0);
        let store = Hash::create(&path).unwrap();
        store.sync().unwrap();
        drop(store);
        for cut in 1..=CUTS {
            syncs::install(Disk::of(Hash::files(&path)));
            let store = Hash::open(&path).unwrap();
            syncs::with(Disk::look);
            let store = self.write(store, &path, shape);
            let disk = syncs::take();
            drop(store);
            let what = format!("{}, {shape:?}, cut {cut}", self.what);
            for i in 0..IMAGES {
                let image = self.image(&disk);
                path = self.path(cut * IMAGES + i);
                write_image(&image, &Hash::files(&path));
                let found = self.recover(&path, &image, &format!("{what}, image {i}"));
                if i + 1 == IMAGES {
                    // On with the files as they were before the recovery looked at them.
                    write_image(&image, &Hash::files(&path));
                    self.states = vec![found];
                }
            }
        }
    }

    /// Some operations, with syncs in between; sometimes the store is closed and opened again.
    fn write(
        &mut self,
        mut store: Hash,
        path: &Path,
        (keys, largest, most): (u64, u64, u64),
    ) -> Hash {
        // In one of three rounds nobody waits for the disk.
        // Each state since the last sync is kept.
        let (most_apart, most) = match self.rng.below(3) {
            0 => (u64::MAX, most.min(300)),
            _ => (40, most),
        };
        let pause = 1 + self.rng.below(most_apart);
        for _ in 0..self.rng.below(most + 1) {
            let operation = Operation::random(&mut self.rng, keys, largest);
            store.apply(&operation).unwrap();
            let mut state = self.states.last().unwrap().clone();
            operation.change(&mut state);
            self.states.push(state);
            if self.rng.below(3) == 0 {
                syncs::with(Disk::look);
            }
            let is_closed = self.rng.below(200) == 0;
            if is_closed {
                drop(store);
                store = Hash::open(path).unwrap();
            } else if self.rng.below(pause) == 0 {
                store.sync().unwrap();
            } else {
                continue;
            }
            self.states.drain(..self.states.len() - 1);
            if self.rng.below(4) == 0 {
                self.stale = std::fs::read(index_of(path)).ok();
            }
        }
        store
    }

    /// What may be left of the files. The index is as the disk has it, or is none of this store.
    fn image(&mut self, disk: &Disk) -> Image {
        let mut image = disk.image(&mut self.rng);
        if let Some(data) = &mut image[0] {
            Hash::reboot(data);
        }
        match self.rng.below(12) {
            0 => image[1] = None,
            1 => image[1] = Some(self.rng.bytes(9000)),
            2 => image[1] = Some(Vec::new()),
            3 => {
                if let Some(index) = &mut image[1] {
                    index.truncate(self.rng.below(index.len() as u64 + 1) as usize);
                }
            }
            4 => image[1] = Some(other_index()),
            5 => {
                // One that was in use then does not say that it is whole.
                let is_open = |index: &Vec<u8>| index.get(208..216) == Some(&[0; 8]);
                image[1] = self.stale.clone().filter(is_open);
            }
            _ => {}
        }
        image
    }

    /// Opens an image: what is in it then.
    fn recover(&self, path: &Path, image: &Image, what: &str) -> State {
        let found = {
            let store = Hash::open(path).unwrap_or_else(|e| panic!("{what}: {e}"));
            let found = state_of(&store, what);
            self.check(&found, what);
            // Written, closed and opened it is as good as any.
            store.insert(b"after", b"wards").unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(store.remove(b"after").unwrap());
            found
        };
        let store = Hash::open(path).unwrap_or_else(|e| panic!("{what}: again: {e}"));
        assert!(state_of(&store, what) == found, "{what}: opened again");
        drop(store);
        // The same image without its index says the same.
        write_image(&vec![image[0].clone(), None], &Hash::files(path));
        let store = Hash::open(path).unwrap_or_else(|e| panic!("{what}: without index: {e}"));
        assert!(state_of(&store, what) == found, "{what}: the index makes a difference");
        found
    }

    fn check(&self, found: &State, what: &str) {
        if self.states.contains(found) {
            return;
        }
        let near = self.states.iter().map(|state| difference(found, state));
        let near = near.min_by_key(|text| text.split(' ').next().unwrap().parse::<u64>().unwrap());
        let count = self.states.len();
        panic!("{what}: none of {count} states; the nearest: {}", near.unwrap());
    }
}

/// It is emptied and filled again many times over, in the space that it has.
#[test]
fn a_store_that_nobody_syncs_does_not_wait_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let before = syncs::count();
    let mut rng = Rng::new(1);
    for turn in 0..40_000u64 {
        let key = rng.below(4000).to_le_bytes();
        // Most of it goes now and then.
        if turn / 5000 % 2 == 1 && rng.below(10) > 0 {
            store.remove(&key).unwrap();
        } else {
            store.insert(&key, &rng.bytes(200)).unwrap();
        }
        if turn % 100 == 0 {
            let stats = store.stats().unwrap();
            let most = 2 * stats.live_bytes + (1 << 20);
            assert!(stats.file_bytes <= most, "{turn}: {} of {most}", stats.file_bytes);
        }
    }
    assert_eq!(syncs::count(), before);
    store.verify(|_, _| ()).unwrap();
    // What was synced is moved, and that must be on the disk before its place is used again.
    for key in 0..4000u64 {
        store.insert(&key.to_le_bytes(), &rng.bytes(1000)).unwrap();
    }
    store.sync().unwrap();
    let before = syncs::count();
    for turn in 0..20_000 {
        store.insert(&rng.below(4000).to_le_bytes(), &rng.bytes(1000)).unwrap();
        if turn % 100 == 0 {
            let stats = store.stats().unwrap();
            let most = 2 * stats.live_bytes + (5 << 20) / 2;
            assert!(stats.file_bytes <= most, "{turn}: {} of {most}", stats.file_bytes);
        }
    }
    assert!(syncs::count() > before);
    store.verify(|_, _| ()).unwrap();
}

/// What was synced lies behind segments that were used again before. After it, sectors of many moments come to the disk.
#[test]
fn strays_of_any_number_hide_nothing_that_was_synced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    store.sync().unwrap();
    let mut rng = Rng::new(1);
    for i in 0..20_000u64 {
        store.insert(&(i % 20).to_le_bytes(), &rng.bytes(100)).unwrap();
    }
    store.insert(b"precious", b"synced").unwrap();
    store.sync().unwrap();
    let base = std::fs::read(&path).unwrap();
    (0..1500u64).for_each(|i| store.insert(&i.to_le_bytes(), &rng.bytes(2000)).unwrap());
    let mut heads = Vec::new();
    for at in places() {
        for _ in 0..500 {
            store.insert(&rng.below(1500).to_le_bytes(), &rng.bytes(2000)).unwrap();
        }
        let now = std::fs::read(&path).unwrap();
        heads.extend(now.get(at..at + 512).map(|head| (at, head.to_vec())));
    }
    let len = std::fs::metadata(&path).unwrap().len() as usize;
    for most in [1, 10, 30, 60] {
        let mut image = base.clone();
        image.resize(len.max(image.len()), 0);
        for (at, head) in heads.iter().rev().take(most) {
            if let Some(place) = image.get_mut(*at..at + 512) {
                place.copy_from_slice(head);
            }
        }
        Hash::reboot(&mut image);
        let copy = folder.path().join(format!("copy{most}"));
        write_image(&vec![Some(image), None], &Hash::files(&copy));
        let found = Hash::open(&copy).unwrap();
        assert_eq!(found.get(b"precious").unwrap().as_deref(), Some(&b"synced"[..]), "{most}");
    }
}

/// Where segments of those places begin that a store of a few megabytes has: eight of 4 KiB, eight of 8 KiB, and so on.
fn places() -> impl Iterator<Item = usize> {
    (0..60).map(|unit| ((8 << (unit / 8)) - 8 + unit % 8 * (1 << (unit / 8))) * 4096 + 8192)
}

/// The note of where the log begins came to the disk, and heads of segments, but not what had been moved there.
#[test]
fn a_note_that_leads_nowhere_keeps_nothing_from_being_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let key = |i: u64| format!("precious {i}").into_bytes();
    (0..500).for_each(|i| store.insert(&key(i), &[7; 100]).unwrap());
    store.sync().unwrap();
    store.insert(b"x", b"y").unwrap();
    store.sync().unwrap();
    let mut image = std::fs::read(&path).unwrap();
    (0..20_000u64).for_each(|i| store.insert(&(i % 50).to_le_bytes(), &[8; 100]).unwrap());
    let now = std::fs::read(&path).unwrap();
    drop(store);
    image.resize(now.len(), 0);
    for at in places().chain([1536]).filter(|at| at + 512 <= now.len()) {
        image[at..at + 512].copy_from_slice(&now[at..at + 512]);
    }
    Hash::reboot(&mut image);
    let (copy, saved) = (folder.path().join("copy"), folder.path().join("saved"));
    write_image(&vec![Some(image), None], &Hash::files(&copy));
    recover(&copy, &saved, |_, _| {}).unwrap();
    for store in [Hash::open(&saved).unwrap(), Hash::open(&copy).unwrap()] {
        assert!((0..500).all(|i| store.get(&key(i)).unwrap().is_some()), "{store:?}");
    }
}

/// The checkpoint in memory is one that a sync that failed was to bring to the disk: who makes the index then must not
/// take what only that one does without.
#[test]
fn an_index_that_is_made_after_a_failed_sync_spoils_nothing() {
    for round in 0..rounds(3) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let mut rng = Rng::new(seed(round));
        let store = Hash::create(&path).unwrap();
        (0..600u64).for_each(|i| store.insert(&i.to_le_bytes(), &rng.bytes(100)).unwrap());
        store.sync().unwrap();
        store.insert(b"x", b"y").unwrap();
        store.sync().unwrap();
        syncs::install(Disk::of(Hash::files(&path)));
        (0..300u64).for_each(|i| store.insert(&i.to_le_bytes(), &rng.bytes(100)).unwrap());
        store.sync().unwrap();
        let oldest_noted = || {
            let data = std::fs::read(&path).unwrap();
            let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
            word(1544).max(word(1608))
        };
        for _ in 0..300 {
            if oldest_noted() > 1 {
                break;
            }
            store.insert(&rng.below(600).to_le_bytes(), &rng.bytes(100)).unwrap();
            store.sync().unwrap();
        }
        let synced = state_of(&store, "synced");
        store.insert(b"x", b"z").unwrap();
        syncs::with(Disk::look);
        syncs::fail_after(Some(0));
        store.sync().unwrap_err();
        syncs::fail_after(None);
        std::fs::remove_file(index_of(&path)).unwrap();
        syncs::all_begun();
        let other = Hash::open(&path).unwrap();
        let disks = syncs::all_begun();
        syncs::take();
        for (wait, disk) in disks.iter().enumerate() {
            for i in 0..20 {
                let mut image = disk.image(&mut rng);
                image[0].iter_mut().for_each(|data| Hash::reboot(data));
                image[1] = None;
                let copy = folder.path().join(format!("image {wait} {i}"));
                write_image(&image, &Hash::files(&copy));
                let what = format!("wait {wait}, image {i}");
                let mut found = state_of(&Hash::open(&copy).expect(&what), &what);
                found.insert(b"x".to_vec(), b"y".to_vec());
                assert!(found == synced, "{what}");
            }
        }
        drop((other, store));
    }
}

/// A process that is killed and a machine that is then shut down in order: all that was written is on the disk, whether or
/// not anybody waited for it, and the index is not trusted. The log must be found whole, though segments that no checkpoint
/// needs were used again.
#[test]
fn what_was_never_synced_is_there_after_a_restart_in_order() {
    for round in 0..rounds(16) {
        let mut round = Round::new(seed(round));
        let shape = SHAPES[round.rng.below(SHAPES.len() as u64) as usize];
        let path = round.path(0);
        let mut store = Hash::create(&path).unwrap();
        for part in 1..=6 {
            let Round { rng, states, what, .. } = &mut round;
            let mut state = states.pop().unwrap();
            for _ in 0..rng.below(2 * shape.2 + 1) {
                let operation = Operation::random(rng, shape.0, shape.1);
                store.apply(&operation).unwrap();
                operation.change(&mut state);
            }
            match rng.below(8) {
                0 => store.sync().unwrap(),
                1 => {
                    drop(store);
                    store = Hash::open(&path).unwrap();
                }
                _ => {}
            }
            states.push(state);
            let what = format!("{what}, {shape:?}, part {part}");
            let mut image: Image = vec![Some(std::fs::read(&path).unwrap()), None];
            image[0].iter_mut().for_each(|data| Hash::reboot(data));
            let copy = round.path(part);
            write_image(&image, &Hash::files(&copy));
            round.recover(&copy, &image, &what);
        }
    }
}

/// The index of another store.
fn other_index() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    let store = Hash::create(&path).unwrap();
    store.insert(b"another", b"store").unwrap();
    drop(store);
    std::fs::read(index_of(&path)).unwrap()
}

/// The store is not yet there, or it is there and opens.
#[test]
fn a_store_that_was_being_made_can_be_made() {
    for round in 0..rounds(28) {
        let mut rng = Rng::new(seed(round));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        std::fs::write(&path, "").unwrap();
        syncs::install(Disk::of(Hash::files(&path)));
        syncs::all_begun();
        let store = Hash::create(&path).unwrap();
        let mut disks = syncs::all_begun();
        assert!(!disks.is_empty(), "nothing waits for the disk");
        syncs::with(Disk::look);
        let mut states = vec![State::new()];
        for _ in 0..rng.below(30) {
            let operation = Operation::random(&mut rng, 20, 100);
            store.apply(&operation).unwrap();
            let mut state = states.last().unwrap().clone();
            operation.change(&mut state);
            states.push(state);
            syncs::with(Disk::look);
        }
        disks.push(syncs::take());
        drop(store);
        for i in 0..20 {
            let disk = &disks[i % disks.len()];
            let mut image = disk.image(&mut rng);
            let has_header = |data: &&mut Vec<u8>| data.len() > 4096 && data[0] != 0;
            if let Some(data) = image[0].as_mut().filter(has_header) {
                Hash::reboot(data);
            }
            let path = folder.path().join(format!("image {i}"));
            write_image(&image, &Hash::files(&path));
            let what = format!("round {round}, image {i}");
            let store = Hash::create(&path).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(states.contains(&state_of(&store, &what)), "{what}");
        }
    }
}

/// A recovery that fails says so each time, and does not leave what the next takes for sound.
#[test]
fn a_recovery_that_fails_fails_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Hash::create(&path).unwrap();
    let key = |i: u64| format!("key {i}").into_bytes();
    (0..100).for_each(|i| must(store.insert(&key(i), &[7; 50])));
    let index = std::fs::read(index_of(&path)).unwrap();
    (100..2000).for_each(|i| must(store.insert(&key(i), &[7; 50])));
    // The second notes on the disk what the first made durable.
    store.sync().unwrap();
    store.insert(b"more", b"").unwrap();
    store.sync().unwrap();
    let mut data = std::fs::read(&path).unwrap();
    Hash::reboot(&mut data);
    let at = data.windows(7).position(|part| part == b"key 500").unwrap();
    data[at + 4] ^= 1;
    let copy = folder.path().join("copy");
    write_image(&vec![Some(data.clone()), Some(index)], &Hash::files(&copy));
    for attempt in 0..3 {
        let error = Hash::open(&copy).map(drop).expect_err(&format!("attempt {attempt}"));
        assert!(error.is_bad_file() && error.to_string().contains("recover"), "{error}");
    }
    let saved = folder.path().join("saved");
    let found = recover(&copy, &saved, |_, _| {}).unwrap();
    assert_eq!(found.keys, 2000);
    state_of(&Hash::open(&saved).unwrap(), "saved");
}

/// The file is shorter than the segment in which the log ends: what ends that segment must have room, and
/// the next one must not lie in it.
#[test]
fn a_log_in_a_segment_that_the_file_ends_within_goes_on() {
    // A record in a segment of its own, of three units from 12,288 on, which begins with 24 bytes; it ends
    // where the second unit does, or eight bytes before, and is there or cut off.
    for (spare, len) in [(0, 20_480), (8, 20_480), (8, 16_384)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let value = vec![7; 20_480 - spare - (12_288 + 24) - 9];
        let store = Hash::create(&path).unwrap();
        store.insert(b"k", &value).unwrap();
        let mut data = std::fs::read(&path).unwrap();
        drop(store);
        assert!(data.len() > 20_480 && room(b"k", &value) as usize == 20_480 - spare - 12_312);
        data.truncate(len);
        let what = format!("{spare} bytes left of {len}");
        let copy = folder.path().join("copy");
        Hash::reboot(&mut data);
        write_image(&vec![Some(data), None], &Hash::files(&copy));
        let store = Hash::open(&copy).unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut state = state_of(&store, &what);
        assert_eq!(state.len(), usize::from(len == 20_480), "{what}");
        // Enough to have the segment emptied, and used again.
        for i in 0..5000u32 {
            let (key, value) = ((i % 100).to_le_bytes().to_vec(), i.to_le_bytes().repeat(20));
            store.insert(&key, &value).unwrap();
            state.insert(key, value);
        }
        assert!(state_of(&store, &what) == state, "{what}: gone on");
        drop(store);
        std::fs::remove_file(index_of(&copy)).unwrap();
        let store = Hash::open(&copy).unwrap_or_else(|e| panic!("{what}: without index: {e}"));
        assert!(state_of(&store, &what) == state, "{what}: without its index");
    }
}

/// What a store says is durable is so where it was written, and not in its copies: the first sync of one
/// makes all of it durable, also what the original had on the disk.
#[test]
fn the_first_sync_of_a_copy_is_one_of_all_of_it() {
    for round in 0..rounds(7) {
        let mut rng = Rng::new(seed(round));
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
        let store = Hash::create(&path).unwrap();
        (0..1000u32).for_each(|i| must(store.insert(&i.to_le_bytes(), &[7; 30])));
        store.sync().unwrap();
        store.insert(b"one", b"more").unwrap();
        store.sync().unwrap();
        drop(store);
        Hash::files(&copy).iter().for_each(|file| std::fs::write(file, "").unwrap());
        syncs::install(Disk::of(Hash::files(&copy)));
        for (from, to) in Hash::files(&path).iter().zip(Hash::files(&copy)) {
            std::fs::write(to, std::fs::read(from).unwrap()).unwrap();
        }
        syncs::with(Disk::look);
        let store = Hash::open(&copy).unwrap();
        // Also where nothing was changed: what is asked for is that the file is on the disk.
        let is_changed = rng.below(2) == 0;
        if is_changed {
            store.insert(b"two", b"more").unwrap();
        }
        store.sync().unwrap();
        let disk = syncs::take();
        drop(store);
        for i in 0..IMAGES {
            let mut image = disk.image(&mut rng);
            Hash::reboot(image[0].as_mut().unwrap());
            let path = folder.path().join(format!("image {i}"));
            write_image(&image, &Hash::files(&path));
            let what = format!("round {round}, image {i}");
            let store = Hash::open(&path).unwrap_or_else(|e| panic!("{what}: {e}"));
            let count = 1001 + usize::from(is_changed);
            assert_eq!(state_of(&store, &what).len(), count, "{what}");
        }
    }
}

/// The power fails while a store is closed: what an index says that calls itself clean is all on the disk.
#[test]
fn an_index_is_not_called_clean_before_it_is_on_the_disk() {
    for round in 0..rounds(1) {
        let mut rng = Rng::new(seed(round));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let put = |store: &Hash, keys: std::ops::Range<u32>, byte: u8| {
            keys.for_each(|key| must(store.insert(&key.to_le_bytes(), &[byte; 20])));
        };
        put(&Hash::create(&path).unwrap(), 0..400, 1);
        let store = Hash::open(&path).unwrap();
        syncs::install(Disk::of(Hash::files(&path)));
        // As many as before, so that nothing but the places differs.
        put(&store, 100..300, 2);
        store.sync().unwrap();
        let state = state_of(&store, "synced");
        syncs::all_begun();
        drop(store);
        let disks = syncs::all_begun();
        let last = syncs::take();
        for (wait, disk) in disks.iter().chain([&last]).enumerate() {
            for i in 0..25 {
                let mut image = disk.image(&mut rng);
                Hash::reboot(image[0].as_mut().unwrap());
                let copy = folder.path().join(format!("image {wait} {i}"));
                write_image(&image, &Hash::files(&copy));
                let what = format!("round {round}, wait {wait}, image {i}");
                let store = Hash::open(&copy).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(state_of(&store, &what) == state, "{what}");
            }
        }
    }
}

/// An index that a later one has replaced is no index, however clean it says it is.
#[test]
fn an_index_from_an_earlier_close_is_not_believed() {
    for is_rebooted in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let write = |from: u64| {
            let store = Hash::create(&path).unwrap();
            (from..from + 100).for_each(|i| must(store.insert(&i.to_le_bytes(), &[7; 50])));
        };
        write(0);
        let index = std::fs::read(index_of(&path)).unwrap();
        write(100);
        let mut data = std::fs::read(&path).unwrap();
        if is_rebooted {
            Hash::reboot(&mut data);
        }
        write_image(&vec![Some(data), Some(index)], &Hash::files(&path));
        let store = Hash::open(&path).unwrap();
        assert_eq!(state_of(&store, "a stale index").len(), 200, "rebooted: {is_rebooted}");
    }
}

/// A writer died after it had written a batch that it never published, and the disk has some of that. What
/// is wiped then is so on the disk before anything is written in its place: else the end of the batch would
/// follow a record that comes later, where one of them ended.
#[test]
fn what_was_never_published_is_not_back_after_a_power_failure() {
    check_unpublished(|store, batch| {
        store.sync().unwrap();
        batch.leave();
        let mut writer = fork(|| std::mem::forget(store.transaction().unwrap()));
        assert_eq!(writer.wait(), Status::Exited(0));
    });
}

/// The same where somebody waits for the disk when it is wiped, whose end says nothing of what was wiped meanwhile, and he who
/// wiped it dies before he could wait himself.
#[test]
fn what_was_wiped_while_others_synced_is_not_back_after_a_power_failure() {
    check_unpublished(|store, batch| {
        let other = store.clone();
        syncs::meanwhile(Some(Box::new(move || {
            let mut writer = fork(|| std::mem::forget(other.transaction().unwrap()));
            assert_eq!(writer.wait(), Status::Exited(0));
            batch.leave();
            // He cannot wait for the disk before this thread has.
            let mut next = fork(|| drop(other.transaction()));
            let begun = Instant::now();
            while !batch.is_wiped() {
                assert!(begun.elapsed().as_secs() < 60, "nobody wipes it");
                std::thread::yield_now();
            }
            next.kill();
        })));
        store.sync().unwrap();
    });
}

/// A part of a batch, as one leaves it behind the end of the log who dies before he publishes it.
struct Unpublished {
    file: std::fs::File,
    bytes: Vec<u8>,
    at: u64,
}

impl Unpublished {
    fn leave(&self) {
        self.file.write_all_at(&self.bytes, self.at).unwrap();
        syncs::with(Disk::look);
    }

    /// Whether somebody has wiped it, and noted that this is to be on the disk first.
    fn is_wiped(&self) -> bool {
        let (mut bytes, mut mark) = (vec![0; self.bytes.len()], [0]);
        self.file.read_exact_at(&mut bytes, self.at).unwrap();
        self.file.read_exact_at(&mut mark, 2384).unwrap();
        bytes.iter().all(|byte| *byte == 0) && mark[0] & 16 != 0
    }
}

/// Has `die` leave a part of a batch, and what comes next be written in its place.
fn check_unpublished(die: impl FnOnce(&Hash, Unpublished)) {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let store = Hash::create(&path).unwrap();
    store.insert(b"first", &[3; 100]).unwrap();
    let data = std::fs::read(&path).unwrap();
    let find = |data: &[u8], part: &[u8]| data.windows(part.len()).position(|p| p == part).unwrap();
    let end = (find(&data, &[3; 100]) + 100).next_multiple_of(8);
    // The batch's own record and its first put end with a sector.
    let len = 1024 - end % 512;
    let (first, second) = (vec![1; len - 8 - 8 - 1], [2; 600]);
    // The same store goes on elsewhere with the batch, which is brought here as a dying writer leaves it.
    write_image(&vec![Some(data), std::fs::read(index_of(&path)).ok()], &Hash::files(&copy));
    let mut batch = credenza::hash::Batch::new();
    batch.insert(b"a", &first).insert(b"b", &second);
    let other = Hash::open(&copy).unwrap();
    other.batch(&batch).unwrap();
    let written = std::fs::read(&copy).unwrap();
    drop(other);
    let second_at = end + len;
    assert_eq!(find(&written, &second), second_at + 8 + 1);
    syncs::install(Disk::of(Hash::files(&path)));
    syncs::with(Disk::look);
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    die(
        &store,
        Unpublished { file, bytes: written[end..second_at + 616].to_vec(), at: end as u64 },
    );
    let later = vec![4; len - 8 - 1];
    store.insert(b"x", &later).unwrap();
    let disk = syncs::take();
    drop(store);
    let mut rng = Rng::new(seed(0));
    for i in 0..20_000 {
        let mut image = disk.image(&mut rng);
        let data = image[0].as_mut().unwrap();
        let has = |at: usize, part: &[u8]| data.get(at..at + part.len()) == Some(part);
        // Others are as those of other tests.
        if !(has(end + 9, &later) && has(second_at + 9, &second)) {
            continue;
        }
        Hash::reboot(data);
        let path = folder.path().join(format!("image {i}"));
        write_image(&image, &Hash::files(&path));
        let store = Hash::open(&path).unwrap();
        assert_eq!(
            state_of(&store, "cut").len(),
            2,
            "image {i}: what was never published is there"
        );
    }
}
