//! Tests: commits that were appended to the journal, and a power failure after which the disk has any
//! mixture of what was written to it.
//!
//! Danger: a commit that counts although something of it is missing, one that was durable and does
//! not count, or pages of one that was in the journal alone and are not made again. The disk is made
//! up: of each sector one of the contents that it had since the last sync of all pages, and in the
//! journal since the last commit was appended. What is left must be one of the commits, whole, with a
//! table of pages that fits it.

use super::format::session;
use super::handle::BTree;
use super::random::Rng;
use super::sync::How;
use super::transaction::Transaction;
use crate::Result;
use crate::bytes::le64;
use crate::durability::Durability;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

const SECTOR: usize = 512;
pub(super) const PAGE: usize = 4096;
/// The words that say which boot of the machine the session is of.
const BOOT: usize = 2048;
/// Where the number of the newest commit is.
const STATE: usize = 2080;

/// How many times as many rounds as usual are asked for.
pub(super) fn times() -> u64 {
    std::env::var("CREDENZA_TIMES").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// Whether the long tests were asked for.
fn is_soak() -> bool {
    std::env::var_os("CREDENZA_SOAK").is_some()
}

pub(super) type State = BTreeMap<(bool, Vec<u8>), Vec<u8>>;

/// What a round writes.
struct Shape {
    keys: u64,
    /// Values have one of these lengths, or less.
    lengths: &'static [u64],
    /// Records that are there before.
    before: u64,
}

const SHAPES: [Shape; 6] = [
    Shape { keys: 8, lengths: &[60], before: 0 },
    Shape { keys: 400, lengths: &[20, 20, 100], before: 300 },
    // In pages that several share; appended behind those that are durable.
    Shape { keys: 20, lengths: &[600, 700, 2048], before: 10 },
    Shape { keys: 12, lengths: &[5000, 2049, 9000, 30], before: 6 },
    Shape { keys: 200, lengths: &[600, 5000, 300], before: 100 },
    // The table of pages gets its second block meanwhile.
    Shape { keys: 60, lengths: &[40_000, 600, 5000], before: 80 },
];

struct Round {
    rng: Rng,
    what: String,
    folder: tempfile::TempDir,
    shape: &'static Shape,
    state: State,
    /// Commits that were appended, and images.
    appended: u64,
    images: u64,
}

fn key_of(number: u64) -> (bool, Vec<u8>) {
    let mut key = number.swap_bytes().to_le_bytes().to_vec();
    if number % 7 == 3 {
        key.resize(600, b'k');
    }
    (number.is_multiple_of(3), key)
}

fn put(transaction: &mut Transaction<'_>, state: &mut State, number: u64, value: Option<&[u8]>) {
    let (is_named, key) = key_of(number);
    let mut table =
        if is_named { transaction.create_table("named").unwrap() } else { transaction.main() };
    match value {
        Some(value) => {
            table.insert(&key, value).unwrap();
            state.insert((is_named, key), value.to_vec());
        }
        None => {
            table.remove(&key).unwrap();
            state.remove(&(is_named, key));
        }
    }
}

pub(super) fn read(store: &BTree) -> Result<State> {
    let mut state = State::new();
    let snapshot = store.read()?;
    for is_named in [false, true] {
        let table = if is_named { snapshot.table("named")? } else { Some(snapshot.main()) };
        let Some(table) = table else { continue };
        table.scan(|key, value| {
            state.insert((is_named, key.to_vec()), value.to_vec());
            Ok(())
        })?;
    }
    Ok(state)
}

/// What the disk may have of a file.
struct Disk {
    /// The bytes at some moments since the last sync of all pages.
    moments: Vec<Vec<u8>>,
    /// Where the journal is, and from which moment on it is certain.
    journal: Range<usize>,
    certain: usize,
}

impl Disk {
    /// The file of a store, all of which is on the disk.
    fn of(store: &BTree) -> Disk {
        let (page, pages) = store.core().journal().unwrap_or((0, 0));
        let journal = page as usize * PAGE..(page + pages) as usize * PAGE;
        let mut disk = Disk { moments: Vec::new(), journal, certain: 0 };
        disk.look(store.path().unwrap());
        disk
    }

    fn look(&mut self, path: &Path) {
        self.moments.push(fs::read(path).unwrap());
    }

    fn last(&self) -> usize {
        self.moments.len() - 1
    }

    /// What is in the journal now is on the disk.
    fn appended(&mut self) {
        self.certain = self.last();
    }

    /// The sectors that differ.
    fn differing(&self) -> Vec<usize> {
        let len = self.moments.iter().map(Vec::len).max().unwrap_or(0);
        let sector = |i: usize, at| self.moments[i].get(at..at + SECTOR);
        let differs =
            |at: &usize| (1..self.moments.len()).any(|i| sector(i, *at) != sector(0, *at));
        (0..len).step_by(SECTOR).filter(differs).collect()
    }

    /// Each sector as it was at the moment that `choose` says, or later if it is certain by then.
    fn image(&self, mut choose: impl FnMut(usize) -> usize) -> Vec<u8> {
        let mut image = self.moments.iter().max_by_key(|bytes| bytes.len()).unwrap().to_vec();
        for at in self.differing() {
            let chosen = choose(at);
            let first = if self.journal.contains(&at) { self.certain } else { 0 };
            let from = self.moments[chosen.max(first)].get(at..at + SECTOR).unwrap_or(&[0; SECTOR]);
            image[at..at + SECTOR].copy_from_slice(from);
        }
        // That a commit is durable is said when it is.
        let said = |bytes: &[u8]| le64(bytes, session::DURABLE as usize).unwrap_or(0);
        let certain = said(&self.moments[self.certain]).min(said(&image));
        image[session::DURABLE as usize..][..8].copy_from_slice(&certain.to_le_bytes());
        image
    }

    /// Nothing of the pages is there but what the base has; of the journal everything.
    fn journal_alone(&self) -> Vec<u8> {
        self.image(|at| if self.journal.contains(&at) { self.last() } else { 0 })
    }

    fn any_mixture(&self, rng: &mut Rng) -> Vec<u8> {
        let last = self.last();
        let differing = self.differing();
        let one = differing.get(rng.below(differing.len() as u64) as usize).copied();
        let style = rng.below(6);
        self.image(|at| {
            let is_old = match style {
                0 => return rng.below(last as u64 + 1) as usize,
                1 => rng.below(8) == 0,
                2 => one == Some(at),
                // Of the table of pages nothing, or some.
                3 => (PAGE..2 * PAGE).contains(&at),
                4 => (PAGE..2 * PAGE).contains(&at) && rng.below(2) == 0,
                _ => self.journal.contains(&at) == (rng.below(16) == 0),
            };
            if is_old { rng.below(last.max(1) as u64) as usize } else { last }
        })
    }
}

fn open(path: &Path) -> BTree {
    BTree::options().create(true).durability(Durability::Sync).open(path).unwrap()
}

impl Round {
    fn new(seed: u64) -> Round {
        println!("seed {seed}");
        let rng = Rng::new(seed);
        let shape = &SHAPES[seed as usize % SHAPES.len()];
        let folder = tempfile::tempdir().unwrap();
        let what = format!("seed {seed}, {} keys", shape.keys);
        Round { rng, what, folder, shape, state: State::new(), appended: 0, images: 0 }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn value(&mut self) -> Vec<u8> {
        let most = self.shape.lengths[self.rng.below(self.shape.lengths.len() as u64) as usize];
        let len = self.rng.below(most + 1).max(most / 2);
        let byte = self.rng.below(256) as u8;
        (0..len).map(|i| byte.wrapping_add((i / 97) as u8)).collect()
    }

    /// Changes that are committed or given up; some are undone before.
    fn transact(&mut self, store: &BTree) {
        let mut transaction = store.write().unwrap();
        let mut state = self.state.clone();
        for _ in 0..1 + self.rng.below(3) {
            let saved = (self.rng.below(4) == 0).then(|| (transaction.savepoint(), state.clone()));
            for _ in 0..1 + self.rng.below(2) {
                let number = self.rng.below(self.shape.keys);
                let value = (self.rng.below(5) > 0).then(|| self.value());
                put(&mut transaction, &mut state, number, value.as_deref());
            }
            if let Some((savepoint, then)) = saved
                && self.rng.below(2) == 0
            {
                transaction.rollback_to(savepoint).unwrap();
                state = then;
            }
        }
        if self.rng.below(4) > 0 {
            transaction.commit_unsynced().unwrap();
            self.state = state;
        }
    }

    /// A store that has a journal, and what the disk has of it.
    fn begin(&mut self) -> (BTree, Disk) {
        let store = open(&self.path());
        let mut transaction = store.write().unwrap();
        for number in 0..self.shape.before {
            let value = self.value();
            put(&mut transaction, &mut self.state, number, Some(&value));
        }
        transaction.commit().unwrap();
        while store.core().journal().is_none() {
            let mut transaction = store.write().unwrap();
            put(&mut transaction, &mut self.state, 1, Some(&[1]));
            transaction.commit().unwrap();
        }
        store.core().sync_commits(store.core().newest().stamp, How::Pages).unwrap();
        let disk = Disk::of(&store);
        (store, disk)
    }

    fn run(&mut self) {
        let path = self.path();
        let (mut store, mut disk) = self.begin();
        let mut durable = self.state.clone();
        for step in 0..if is_soak() { 8 } else { 2 } {
            let what = format!("{}, step {step}", self.what);
            for _ in 0..1 + self.rng.below(3) {
                self.transact(&store);
                disk.look(&path);
            }
            let base = store.core().load(session::BASE);
            store.core().sync_commits(store.core().newest().stamp, How::Commits).unwrap();
            disk.look(&path);
            assert_eq!(store.core().durable().unwrap().unwrap(), store.core().newest(), "{what}");
            if store.core().load(session::BASE) == base {
                self.appended += 1;
                self.cut_during(&disk, &durable, &what);
                disk.appended();
            } else {
                disk = Disk::of(&store);
            }
            durable = self.state.clone();
            self.cut_after(&store, &mut disk, &what);
            match self.rng.below(5) {
                0 => {
                    drop(store);
                    let image = disk.any_mixture(&mut self.rng);
                    (store, disk) = go_on(&path, &image);
                    self.state = read(&store).unwrap();
                    durable = self.state.clone();
                }
                1 => {
                    // What is not durable is made so, and there is no journal any more.
                    drop(store);
                    (store, disk) = self.begin();
                    durable = self.state.clone();
                }
                _ => {}
            }
        }
    }

    /// The power fails in the sync: the disk has the commit before, or this one.
    fn cut_during(&mut self, disk: &Disk, durable: &State, what: &str) {
        let last = disk.last();
        let now = self.state.clone();
        let either = [durable, &now];
        assert!(self.recover(&disk.image(|_| last), &[&now], &format!("{what}, all of it")));
        assert!(self.recover(&disk.journal_alone(), &[&now], &format!("{what}, the journal")));
        // All of them in the long run.
        let every = if is_soak() { 1 } else { 8 };
        let first = self.rng.below(every as u64) as usize;
        for missing in disk.differing().into_iter().skip(first).step_by(every) {
            let what = format!("{what}, without {missing}");
            let old = self.rng.below(last as u64) as usize;
            let image = disk.image(|at| if at == missing { old } else { last });
            self.recover(&image, &either, &what);
            let what = format!("{what}, but with the journal");
            let is_there = |at: usize| at != missing && disk.journal.contains(&at);
            let image = disk.image(|at| if is_there(at) { last } else { 0 });
            self.recover(&image, &either, &what);
        }
        for i in 0..6 {
            let what = format!("{what}, mixture {i}");
            let image = disk.any_mixture(&mut self.rng);
            if self.recover(&image, &either, &what) {
                self.cut_again(&image, &what);
            }
        }
    }

    /// It fails later, when others have begun and done more: the disk has this commit.
    fn cut_after(&mut self, store: &BTree, disk: &mut Disk, what: &str) {
        let path = self.path();
        let durable = self.state.clone();
        for _ in 0..self.rng.below(4) {
            self.transact(store);
            disk.look(&path);
        }
        let mut transaction = store.write().unwrap();
        let value = self.value();
        put(&mut transaction, &mut State::new(), 1, Some(&value));
        disk.look(&path);
        drop(transaction);
        disk.look(&path);
        for i in 0..12 {
            let image = disk.any_mixture(&mut self.rng);
            self.recover(&image, &[&durable], &format!("{what}, later, mixture {i}"));
        }
    }

    /// It fails once more, before the store that was recovered is synced.
    fn cut_again(&mut self, image: &[u8], what: &str) {
        let path = self.folder.path().join("again");
        let (store, mut disk) = go_on(&path, image);
        let state = read(&store).unwrap();
        if self.rng.below(2) == 0 {
            // Before anybody has written.
            store.sync().unwrap();
            disk = Disk::of(&store);
        }
        for i in 0..3 {
            let mut transaction = store.write().unwrap();
            (i..i + 3).for_each(|i| put(&mut transaction, &mut State::new(), i, Some(&[3; 700])));
            transaction.commit_unsynced().unwrap();
            disk.look(&path);
        }
        for i in 0..4 {
            let image = disk.any_mixture(&mut self.rng);
            self.recover(&image, &[&state], &format!("{what}, cut again {i}"));
        }
    }

    /// Opens an image: it has one of these states. Whether that is the last of them.
    fn recover(&mut self, image: &[u8], states: &[&State], what: &str) -> bool {
        self.images += 1;
        let path = self.folder.path().join("image");
        write_anew(&path, &rebooted(image.to_vec()));
        let store = BTree::open(&path).unwrap_or_else(|e| panic!("{what}: {e}"));
        let found = read(&store).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(states.contains(&&found), "{what}: none of these");
        store.verify(|_, _| ()).unwrap_or_else(|e| panic!("{what}: {e}"));
        // No page is in use that is free.
        let mut then = found.clone();
        for i in 0..2 {
            let mut transaction = store.write().unwrap();
            let value = self.value();
            put(&mut transaction, &mut then, self.rng.below(self.shape.keys) + i, Some(&value));
            transaction.commit().unwrap();
        }
        assert!(read(&store).unwrap() == then, "{what}: written to");
        store.verify(|_, _| ()).unwrap_or_else(|e| panic!("{what}: written to: {e}"));
        states.last() == Some(&&found)
    }
}

/// Opens a store of which this was left; what the disk may have of it then.
fn go_on(path: &Path, image: &[u8]) -> (BTree, Disk) {
    write_anew(path, &rebooted(image.to_vec()));
    let before = fs::read(path).unwrap();
    let store = open(path);
    let mut disk = Disk::of(&store);
    disk.moments.insert(0, before);
    (store, disk)
}

/// Writes another file of that name: what other tests fork may have the one before open for longer.
pub(super) fn write_anew(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
}

pub(super) fn rebooted(mut image: Vec<u8>) -> Vec<u8> {
    image[BOOT..BOOT + 16].fill(0x5a);
    // Nothing of the session may be believed.
    image[STATE..STATE + 8].fill(0x77);
    image
}

#[test]
fn what_was_appended_is_there_and_nothing_else() {
    let (mut appended, mut images) = (0, 0);
    for seed in 1..=times() * SHAPES.len() as u64 {
        let mut round = Round::new(seed);
        round.run();
        appended += round.appended;
        images += round.images;
    }
    println!("{appended} commits appended, {images} images");
    assert!(appended > 0, "no commit was appended");
}

/// The places of the blocks of the table of pages are in a sector that the kernel may have written
/// while they were others: when a transaction that was given up had made one.
#[test]
fn a_block_of_the_table_that_was_never_made_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let store = durable_store(&folder.path().join("store"));
    for i in 0..200u64 {
        if store.core().newest().end >= 248 {
            break;
        }
        store.insert(&i.to_le_bytes(), &[i as u8; 5000]).unwrap();
    }
    for i in 0..3u64 {
        store.insert(&i.to_le_bytes(), &[i as u8; 300]).unwrap();
    }
    let mut transaction = store.write().unwrap();
    transaction.main().insert(b"big", &vec![1; 40 * PAGE]).unwrap();
    let during = fs::read(store.path().unwrap()).unwrap();
    transaction.abort();
    assert_ne!(second_block(&during), 0, "it made no block");
    // Until the page is in use where the block would have been.
    for n in 0u8.. {
        store.insert(&[9, 9, n], &vec![7; 3 * PAGE]).unwrap();
        if store.core().newest().end > second_block(&during) {
            break;
        }
    }
    check_with_old_blocks(&store, &during, &folder.path().join("image"));
}

/// The same after the end of the file was given back, and a block with it.
#[test]
fn a_block_of_the_table_that_was_cut_off_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let store = durable_store(&folder.path().join("store"));
    let mut n = 0u64;
    let mut fill = |end: u64, len: usize| {
        while store.core().newest().end < end {
            store.insert(&n.to_le_bytes(), &vec![n as u8; len]).unwrap();
            n += 1;
        }
        n
    };
    let (kept, all) = (fill(200, 5000), fill(400, 9000));
    let long = fs::read(store.path().unwrap()).unwrap();
    let mut transaction = store.write().unwrap();
    for i in kept..all {
        transaction.main().remove(&i.to_le_bytes()).unwrap();
    }
    transaction.commit().unwrap();
    while store.compact(1 << 30).unwrap() {}
    assert!(store.core().newest().end <= second_block(&long), "the block is not cut off");
    store.insert(b"long", &vec![5; 55 * PAGE]).unwrap();
    check_with_old_blocks(&store, &long, &folder.path().join("image"));
}

pub(super) fn durable_store(path: &Path) -> BTree {
    let options = BTree::options().create(true).durability(Durability::Sync);
    options.open(path).unwrap()
}

/// Where the second block of the table is.
fn second_block(image: &[u8]) -> u64 {
    le64(image, session::TABLES as usize + 8).unwrap()
}

/// After a power failure with that sector as it was: the store has all its records, and keeps them.
fn check_with_old_blocks(store: &BTree, old: &[u8], image: &Path) {
    let all = |store: &BTree| -> Vec<(Vec<u8>, Vec<u8>)> {
        let snapshot = store.read().unwrap();
        let own = |pair: Result<(Vec<u8>, &[u8])>| pair.map(|(k, v)| (k, v.to_vec()));
        snapshot.main().iter().map(own).collect::<Result<_>>().unwrap()
    };
    let expected = all(store);
    let mut bytes = fs::read(store.path().unwrap()).unwrap();
    let sector = session::TABLES as usize / 512 * 512..session::TABLES as usize / 512 * 512 + 512;
    bytes[sector.clone()].copy_from_slice(&old[sector]);
    bytes[session::BOOT_LOW as usize..][..16].fill(0x5a);
    write_anew(image, &bytes);
    let store = durable_store(image);
    store.verify(|_, _| ()).unwrap();
    assert!(all(&store) == expected);
    for i in 0..60u64 {
        store.insert(&(100_000 + i).to_le_bytes(), &[3; 9000]).unwrap();
        store.remove(&(100_000 + i / 2).to_le_bytes()).unwrap();
    }
    for i in 0..60u64 {
        store.remove(&(100_000 + i).to_le_bytes()).unwrap();
    }
    store.verify(|_, _| ()).unwrap();
    assert!(all(&store) == expected);
}
