//! Danger: a power failure that leaves a store torn: a commit without one before it, half a commit,
//! less than what was synced, or a file that cannot be opened or written any more.
//!
//! No power is cut here. The disk is made up: of every sector any of the contents since the last
//! sync ([`common::power`]); then the store is told that the machine was started anew, by the boot
//! in its header. What it is then must be what it was after one of the commits since the last sync.
//! Some syncs fail, at each of their waits for the disk; some are the store's own; in some the power
//! fails, or others commit while the disk is waited for.

mod common;
#[path = "common/syncs.rs"]
mod syncs;

use common::btree::{Spread, change, read_only};
use common::power::{Disk, Image, write_image};
use common::subject::{Operation, State, Subject, difference, state_of};
use common::{Rng, rounds, seed};
use credenza::Durability;
use credenza::btree::BTree;
use std::cell::Cell;
use std::iter;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How many images are made up of each disk.
const IMAGES: u64 = 4;
/// How often the power fails in a round.
const CUTS: u64 = 5;

/// What a round writes: so many keys with values of up to so many bytes, and how many operations
/// between two failures.
const SHAPES: [(u64, u64, u64); 7] = [
    (6, 90, 30),
    (40, 300, 60),
    (300, 60, 150),
    (4, 3000, 60),
    (3, 20_000, 40),
    (1500, 20, 300),
    // The store syncs by itself.
    (5, 400_000, 40),
];

#[test]
fn what_is_left_is_what_was_after_one_of_the_commits_since_the_last_sync() {
    let (mut syncs, mut at_once) = (0, 0);
    for round in 0..rounds(10) {
        let mut round = Round::new(seed(round));
        round.run();
        syncs += round.own_syncs;
        at_once += round.at_once;
    }
    println!("{syncs} syncs of the store's own, {at_once} commits that waited for the disk once");
    assert!(at_once > 0, "nothing was appended");
}

/// A store whose power fails now and then.
struct Round {
    rng: Rng,
    folder: tempfile::TempDir,
    what: String,
    durability: Durability,
    /// What the store is after each commit that a failure may leave; the first is durable.
    states: Vec<State>,
    /// Syncs that nobody asked for, and those that waited for the disk once.
    own_syncs: u64,
    at_once: u64,
}

impl Round {
    fn new(seed: u64) -> Round {
        let folder = tempfile::tempdir().unwrap();
        let (mut rng, what) = (Rng::new(seed), format!("seed {seed}"));
        let durability = if rng.below(2) == 0 { Durability::Sync } else { Durability::Buffered };
        let states = vec![State::new()];
        Round { rng, folder, what, durability, states, own_syncs: 0, at_once: 0 }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn open(&self, path: &Path) -> Spread {
        let options = BTree::options().create(true).durability(self.durability);
        Spread(options.open(path).unwrap_or_else(|e| panic!("{}: {e}", self.what)))
    }

    fn run(&mut self) {
        let shape = SHAPES[self.rng.below(SHAPES.len() as u64) as usize];
        self.what = format!("{}, {shape:?}, {:?}", self.what, self.durability);
        let path = self.path();
        let store = self.open(&path);
        store.sync().unwrap();
        drop(store);
        for cut in 1..=CUTS {
            syncs::install(Disk::of(Spread::files(&path)));
            let store = self.open(&path);
            syncs::with(Disk::look);
            let store = self.write(store, &path, shape, cut);
            let disk = syncs::take();
            drop(store);
            for i in 0..IMAGES {
                let image = self.image(&disk);
                let found = self.recover(&image, &format!("cut {cut}, image {i}"));
                if i + 1 == IMAGES {
                    // On with the file as it was before the recovery looked at it.
                    write_image(&image, &Spread::files(&path));
                    self.states = vec![found];
                }
            }
        }
    }

    /// Some transactions, with syncs in between; sometimes the store is closed and opened again.
    fn write(
        &mut self,
        mut store: Spread,
        path: &Path,
        (keys, largest, most): (u64, u64, u64),
        cut: u64,
    ) -> Spread {
        let pause = 1 + self.rng.below(40);
        let mut others = BTree::open(path).unwrap();
        for number in 0..self.rng.below(most + 1) {
            let operation = match self.rng.below(15) {
                0 => Operation::Compact,
                _ => Operation::random(&mut self.rng, keys, largest),
            };
            let before = syncs::count();
            let fails = self.rng.below(12) == 0;
            syncs::fail_after(fails.then(|| self.rng.below(2)));
            let meanwhile = (self.rng.below(8) == 0).then(|| {
                let key = vec![self.rng.below(keys) as u8; 3];
                let len = self.rng.below(largest + 1) as usize;
                Operation::Insert(key, self.rng.bytes(len))
            });
            let is_done = Rc::new(Cell::new(false));
            syncs::meanwhile(meanwhile.clone().map(|operation| -> Box<dyn FnOnce()> {
                let (others, is_done) = (Spread(others.clone()), is_done.clone());
                Box::new(move || {
                    // If it is time to sync, that fails: somebody does so.
                    let _ = others.apply(&operation);
                    is_done.set(true);
                })
            }));
            drop(syncs::begun());
            // As another process, which syncs nothing: the next sync has what it did, too.
            let by_others = self.rng.below(4) == 0;
            let done = match by_others {
                true => self.apply(&Spread(others.clone()), &operation),
                false => self.apply(&store, &operation),
            };
            syncs::meanwhile(None);
            let begun = syncs::begun();
            let waits = syncs::count() - before;
            let meanwhile = meanwhile.filter(|_| is_done.get());
            // What was committed meanwhile may be lost yet.
            let kept = 1 + usize::from(meanwhile.is_some());
            let is_compaction = matches!(operation, Operation::Compact);
            // Nothing is committed for keys that are not there.
            let state = self.states.last().unwrap();
            let is_nothing = match &operation {
                Operation::Remove(key) => !state.contains_key(key),
                Operation::Batch(changes) => {
                    changes.iter().all(|(key, value)| value.is_none() && !state.contains_key(key))
                }
                Operation::Clear => state.is_empty(),
                _ => false,
            };
            for operation in iter::once(operation).chain(meanwhile) {
                let mut state = self.states.last().unwrap().clone();
                operation.change(&mut state);
                self.states.push(state);
            }
            if self.rng.below(8) == 0 {
                syncs::with(Disk::look);
            }
            // Where all is durable, and in its place, a compaction has nothing to wait for.
            let mut is_durable = done.is_ok() && (waits > 0 || is_compaction);
            assert!(done.is_ok() || fails, "{}: {done:?}", self.what);
            let syncs_each = self.durability == Durability::Sync && !by_others;
            assert!(is_durable || done.is_err() || !syncs_each || is_nothing);
            self.own_syncs += u64::from(is_durable && !syncs_each);
            self.at_once += u64::from(is_durable && waits == 1);
            if fails {
                // Whether it fails or not: there may be nothing to sync.
                let done = store.sync();
                syncs::fail_after(None);
                let image = syncs::with(|disk| disk.image(&mut self.rng));
                let image = rebooted(image);
                syncs::fail_after(None);
                self.recover(&image, &format!("cut {cut}, in sync {number}: {done:?}"));
                is_durable |= done.is_ok();
            }
            if let Some(disk) = begun.filter(|_| self.rng.below(3) == 0) {
                let image = self.image(&disk);
                self.recover(&image, &format!("cut {cut}, while {number} waits"));
            }
            if self.rng.below(60) == 0 {
                drop((store, others));
                store = self.open(path);
                others = BTree::open(path).unwrap();
                is_durable = true;
            } else if self.rng.below(pause) == 0 {
                store.sync().unwrap();
                is_durable = true;
            }
            if is_durable {
                self.states.drain(..self.states.len() - kept);
            }
        }
        store
    }

    /// The disk may have looked at any moment of it.
    fn apply(&mut self, store: &Spread, operation: &Operation) -> credenza::Result<()> {
        let Operation::Batch(changes) = operation else { return store.apply(operation) };
        let mut transaction = store.0.write()?;
        let (some, others) = changes.split_at(self.rng.below(changes.len() as u64 + 1) as usize);
        change(&mut transaction, some)?;
        if self.rng.below(4) == 0 {
            syncs::with(Disk::look);
        }
        change(&mut transaction, others)?;
        if self.rng.below(4) == 0 {
            syncs::with(Disk::look);
        }
        transaction.commit()
    }

    fn image(&mut self, disk: &Disk) -> Image {
        rebooted(disk.image(&mut self.rng))
    }

    /// Opens an image: what is in it then.
    fn recover(&mut self, image: &Image, what: &str) -> State {
        let path = &self.folder.path().join("image");
        let what = format!("{}, {what}", self.what);
        write_image(image, &Spread::files(path));
        // Who may not write sees the same as he who puts it right.
        let only = read_only(path, &what);
        let is_checked = self.rng.below(2) == 0;
        let store = BTree::options().create(true).check_reads(is_checked).open(path);
        let store = Spread(store.unwrap_or_else(|e| panic!("{what}: {e}")));
        // Before anybody has written: readers see the same.
        let seen = store.records().unwrap_or_else(|e| panic!("{what}, {is_checked}: {e}"));
        let seen: State = seen.into_iter().collect();
        let live = || store.0.stats().unwrap().live_bytes;
        let live_before = live();
        let found = state_of(&store, &what);
        assert_eq!(live_before, live(), "{what}: of pages in use");
        assert!(seen == found, "{what}: {}", difference(&seen, &found));
        assert!(only == found, "{what}, read only: {}", difference(&only, &found));
        self.check(&found, &what);
        // Written, closed and opened it is as good as any.
        let mut state = found.clone();
        for _ in 0..6 {
            let operation = Operation::random(&mut self.rng, 50, 2000);
            store.apply(&operation).unwrap_or_else(|e| panic!("{what}: {e}"));
            operation.change(&mut state);
        }
        assert!(state_of(&store, &what) == state, "{what}: written to");
        drop(store);
        let store = Spread::open(path).unwrap_or_else(|e| panic!("{what}: again: {e}"));
        assert!(state_of(&store, &what) == state, "{what}: opened again");
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

fn rebooted(mut image: Image) -> Image {
    image.iter_mut().flatten().for_each(|bytes| Spread::reboot(bytes));
    image
}

/// The store is not yet there, or it is there and opens.
#[test]
fn a_store_that_was_being_made_can_be_made() {
    for round in 0..rounds(12) {
        let mut rng = Rng::new(seed(round));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        std::fs::write(&path, "").unwrap();
        syncs::install(Disk::of(Spread::files(&path)));
        let store = Spread::open(&path).unwrap();
        syncs::with(Disk::look);
        let mut states = vec![State::new()];
        for _ in 0..rng.below(20) {
            let operation = Operation::random(&mut rng, 20, 100);
            store.apply(&operation).unwrap();
            let mut state = states.last().unwrap().clone();
            operation.change(&mut state);
            states.push(state);
            syncs::with(Disk::look);
        }
        let disk = syncs::take();
        drop(store);
        for i in 0..20 {
            let image = rebooted(disk.image(&mut rng));
            let path = folder.path().join(format!("image {i}"));
            write_image(&image, &Spread::files(&path));
            let what = format!("round {round}, image {i}");
            let store = Spread::open(&path).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(states.contains(&state_of(&store, &what)), "{what}");
        }
    }
}

/// Somebody is killed before what he committed is on the disk, and the boot is another by what is told: what
/// is gone on from is on the disk before what only the commit before needs is written over.
#[test]
fn what_is_gone_on_from_is_on_the_disk_first() {
    for round in 0..rounds(3) {
        let mut rng = Rng::new(seed(round));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let killed = BTree::create(&path).unwrap();
        let put = |store: &BTree, byte: u8| {
            let mut transaction = store.write().unwrap();
            for key in 0u32..300 {
                transaction.main().insert(&key.to_le_bytes(), &[byte; 200]).unwrap();
            }
            transaction.commit().unwrap();
        };
        put(&killed, 1);
        killed.sync().unwrap();
        syncs::install(Disk::of(vec![path.clone()]));
        put(&killed, 2);
        // The pages are on the disk, but not what says so.
        syncs::fail_after(Some(1));
        killed.sync().unwrap_err();
        syncs::fail_after(None);
        // What he left is another file here, as nobody closes it.
        let mut bytes = std::fs::read(&path).unwrap();
        BTree::reboot(&mut bytes);
        let other = folder.path().join("other");
        std::fs::write(&other, &bytes).unwrap();
        let mut disk = syncs::take();
        disk.move_to(vec![other.clone()]);
        syncs::install(disk);
        let store = BTree::open(&other).unwrap();
        for byte in 3..8 {
            put(&store, byte);
            syncs::with(Disk::look);
        }
        let disk = syncs::take();
        drop((store, killed));
        for i in 0..20 {
            let image = rebooted(disk.image(&mut rng));
            let path = folder.path().join(format!("image {i}"));
            write_image(&image, std::slice::from_ref(&path));
            let what = format!("round {round}, image {i}");
            let store = BTree::open(&path).unwrap_or_else(|e| panic!("{what}: {e}"));
            let snapshot = store.read().unwrap();
            let first = snapshot.main().get(&[0; 4]).unwrap().expect(&what)[0];
            assert!((1..8).contains(&first), "{what}: {first}");
            for key in 0u32..300 {
                let value = snapshot.main().get(&key.to_le_bytes()).unwrap();
                assert_eq!(value, Some(&[first; 200][..]), "{what}, {key}");
            }
        }
    }
}

/// A sync that failed is an error of every sync until one has waited for the disk again.
#[test]
fn after_a_sync_that_failed_the_next_one_waits_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::fs::write(&path, "").unwrap();
    syncs::install(Disk::of(Spread::files(&path)));
    let store = BTree::create(&path).unwrap();
    for others in [0, 1, 0, 1] {
        store.insert(b"key", &[others as u8; 5000]).unwrap();
        for _ in 0..3 {
            syncs::fail_after(Some(others));
            let error = store.sync().unwrap_err().to_string();
            assert!(error.contains("make durable") && error.contains("store"), "{error}");
            assert!(!store.stats().unwrap().is_durable);
        }
        syncs::fail_after(None);
        let before = syncs::count();
        store.sync().unwrap();
        assert!(syncs::count() >= before + 2, "it did not wait for the disk");
        assert!(store.stats().unwrap().is_durable);
        store.verify(|_, _| ()).unwrap();
    }
    drop(syncs::take());
}
