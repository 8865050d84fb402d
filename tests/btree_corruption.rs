//! Danger: damaged or hostile files that make a btree store panic, hang, die of SIGBUS, take all
//! memory, or answer what it never held; a full disk that harms what is there.
//!
//! What is promised, and tested here:
//! - After a sync or a close, `verify` finds every changed byte in the header, in the durable commit
//!   that counts, and in pages in use.
//! - Whatever bytes a file has, every call gives an answer or an error, and comes to an end.
//! - The two locks in the session are the C library's: what damage made of them is not tried.

mod common;

use common::btree::LOCKS_AT;
use common::mount::Mount;
use common::subject::{Operation, State, Subject, state_of};
use common::sys;
use common::{Rng, child, is_child, is_soak, rounds, seed};
use credenza::btree::{BTree, Cursor, Table};
use credenza::{ErrorKind, Get, Result, Scan};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

const PAGE: usize = 4096;
/// Where a file says what processes share while the machine runs.
const SESSION: usize = 2048;
/// The words of the newest commits, and the places of the durable ones.
const COMMITS: [usize; 2] = [2304, 2432];
const METAS: [usize; 2] = [512, 1024];
const COMMIT_WORDS: usize = 11;
const STATE: usize = 2080;

/// A small store that was closed: several tables, long keys, large values, an inner level.
struct Sample {
    bytes: Vec<u8>,
    tables: Vec<(&'static str, State)>,
    keys: Vec<Vec<u8>>,
}

fn sample(count: u64) -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let mut rng = Rng::new(count);
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut tables =
        vec![("", State::new()), ("numbers", State::new()), ("references", State::new())];
    let mut transaction = store.write().unwrap();
    for i in 0..count {
        let mut key = vec![b'k'; [2, 2, 2, 2, 400, 700][i as usize % 6]];
        key.extend(format!("{i:04}").bytes());
        let len = [0, 9, 40, 200, 500, 20, 5000][i as usize % 7];
        let value = rng.bytes(len);
        transaction.main().insert(&key, &value).unwrap();
        tables[0].1.insert(key.clone(), value);
        keys.push(key);
        let (key, value) = (i.to_be_bytes().to_vec(), rng.bytes(20));
        transaction.create_table("numbers").unwrap().insert(&key, &value).unwrap();
        tables[1].1.insert(key.clone(), value);
        if i % 10 == 0 {
            let value = rng.bytes(600);
            transaction.create_table("references").unwrap().insert(&key, &value).unwrap();
            tables[2].1.insert(key.clone(), value);
        }
        keys.push(key);
    }
    transaction.commit().unwrap();
    // Free pages, and some that were freed and are in use again.
    for i in (0..count).step_by(9) {
        let key = i.to_be_bytes();
        let mut transaction = store.write().unwrap();
        transaction.table("numbers").unwrap().unwrap().remove(&key).unwrap();
        transaction.commit().unwrap();
        tables[1].1.remove(&key[..]);
    }
    store.sync().unwrap();
    drop(store);
    Sample { bytes: fs::read(&path).unwrap(), tables, keys }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

impl Sample {
    /// The entry of a page in the table of pages; this store has one block of it.
    fn entry(&self, page: usize) -> [u64; 2] {
        [0, 8].map(|more| word(&self.bytes, PAGE + 16 * page + more))
    }

    /// Pages that the newest commit leads to: such have a checksum.
    fn pages(&self) -> Vec<usize> {
        let end = word(&self.bytes, self.commit_at() + 16) as usize;
        assert!(end <= 256, "the sample is too large");
        (2..end).filter(|page| self.entry(*page)[1] >> 63 == 1).collect()
    }

    /// Such as are pages of a tree, not bytes of a value.
    fn tree_pages(&self) -> Vec<usize> {
        let birth = |page: &usize| word(&self.bytes, page * PAGE);
        let is_tree = |page: &usize| {
            birth(page) == self.entry(*page)[0] && (1..4).contains(&self.bytes[page * PAGE + 8])
        };
        self.pages().into_iter().filter(is_tree).collect()
    }

    fn commit_at(&self) -> usize {
        COMMITS[word(&self.bytes, STATE) as usize % 2]
    }

    /// The place of the durable commit that counts.
    fn meta_at(&self) -> usize {
        METAS.into_iter().max_by_key(|at| word(&self.bytes, at + 8)).unwrap()
    }
}

/// Asks a table everything, and whether what it says is of `right`, if that is known.
fn ask_table(table: Table<'_>, keys: &[Vec<u8>], bytes: usize) {
    let _ = table.get_many(keys, |_, _| ());
    let mut records = 0;
    let _ = table.scan(|_, _| {
        records += 1;
        assert!(records <= bytes, "a scan does not end");
        Ok(())
    });
    assert!(table.iter().count() <= bytes + 1, "a walk does not end");
    assert!(table.iter().rev().count() <= bytes + 1, "a walk back does not end");
    let (low, high) = (&keys[0][..], &keys[keys.len() / 2][..]);
    let mut range = table.range(low.min(high)..=high.max(low));
    let mut count = 0;
    while let (Some(_), Some(_)) = (range.next(), range.next_back()) {
        count += 1;
        assert!(count <= bytes, "a range does not end");
    }
    assert!(table.prefix(&keys[0][..1]).count() <= bytes + 1);
    for key in keys.iter().step_by(3) {
        let _ = (table.get(key), table.contains_key(key));
        let _ =
            (table.at_or_after(key), table.after(key), table.before(key), table.at_or_before(key));
    }
    let _ = (table.first(), table.last());
    walk(table.cursor(), keys);
}

fn walk(mut cursor: Cursor<'_>, keys: &[Vec<u8>]) {
    for (i, key) in keys.iter().enumerate().step_by(5) {
        let _ = if i % 2 == 0 { cursor.seek(key) } else { cursor.find(key) };
        for _ in 0..3 {
            let _ = if i % 4 < 2 { cursor.next() } else { cursor.previous() };
            let _ = (cursor.key().map(<[u8]>::len), cursor.value().map(|v| v.map(<[u8]>::len)));
        }
        let _ = if i % 3 == 0 { cursor.first() } else { cursor.last() };
    }
}

/// Reads everything that a store has, if it opens; what verify says.
fn read_all(path: &Path, sample: &Sample) -> Result<()> {
    let store = BTree::open(path)?;
    let bytes = sample.bytes.len();
    for key in sample.keys.iter().step_by(7) {
        let _ = (Get::get(&store, key), Get::contains_key(&store, key));
    }
    let (_, _) = (Scan::len(&store), store.stats());
    if let Ok(snapshot) = store.read() {
        ask_table(snapshot.main(), &sample.keys, bytes);
        for name in snapshot.tables().unwrap_or_default() {
            if let Ok(Some(table)) = snapshot.table(&name) {
                ask_table(table, &sample.keys, bytes);
            }
        }
    }
    store.verify(|_, _| ())
}

/// Changes everything that a store has, if it opens.
fn change_all(path: &Path, sample: &Sample, rng: &mut Rng) -> Result<()> {
    let store = BTree::open(path)?;
    for _ in 0..4 {
        let Ok(mut transaction) = store.write() else { break };
        let mut done = Ok(());
        for _ in 0..1 + rng.below(12) {
            let savepoint = (rng.below(4) == 0).then(|| transaction.savepoint());
            done = change_something(&mut transaction, sample, rng);
            if let Some(savepoint) = savepoint.filter(|_| done.is_err() || rng.below(2) == 0) {
                let _ = transaction.rollback_to(savepoint);
            }
        }
        if done.is_err() && rng.below(2) == 0 {
            continue;
        }
        let _ = transaction.commit();
    }
    let _ = store.sync();
    let _ = store.verify(|_, _| ());
    let _ = store.stats();
    Ok(())
}

fn change_something(
    transaction: &mut credenza::btree::Transaction<'_>,
    sample: &Sample,
    rng: &mut Rng,
) -> Result<()> {
    let name = ["", "numbers", "references", "new"][rng.below(4) as usize];
    match rng.below(24) {
        0 => return transaction.delete_table(name).map(drop),
        1 => return transaction.rename_table(name, "renamed").map(drop),
        _ => {}
    }
    let mut table = match name {
        "" => transaction.main(),
        name => transaction.create_table(name)?,
    };
    let mut key = sample.keys[rng.below(sample.keys.len() as u64) as usize].clone();
    if rng.below(4) == 0 {
        key.push(b'!');
    }
    let len = [0, 9, 100, 500, 600, 9000][rng.below(6) as usize];
    match rng.below(16) {
        0 => table.clear(),
        1 => table.pop_first().map(drop),
        2 => table.pop_last().map(drop),
        3 => table.remove_range(&key[..]..).map(drop),
        4 => table.remove_range(..&key[..]).map(drop),
        5 => table.insert_if_absent(&key, &rng.bytes(len)).map(drop),
        6 => {
            while table.pop_first()?.is_some() {}
            Ok(())
        }
        7..11 => table.remove(&key).map(drop),
        _ => table.insert(&key, &rng.bytes(len)).map(drop),
    }
}

/// Writes a file and does everything with it; whether verify passed. It has so much time, and memory.
fn try_all(path: &Path, sample: &Sample, bytes: &[u8], rng: &mut Rng, what: &str) -> bool {
    sys::give_up_after(10);
    if std::env::var_os("SHOW").is_some() {
        eprintln!("AT {what}");
    }
    fs::write(path, bytes).unwrap();
    let done = catch_unwind(AssertUnwindSafe(|| {
        let is_sound = read_all(path, sample).is_ok();
        fs::write(path, bytes).unwrap();
        let _ = change_all(path, sample, rng);
        is_sound
    }));
    done.unwrap_or_else(|_| panic!("{what}: panics"))
}

/// The answers for all keys are right, or errors.
fn check_answers(path: &Path, sample: &Sample, what: &str) {
    let Ok(store) = BTree::open(path) else { return };
    let Ok(snapshot) = store.read() else { return };
    for (name, state) in &sample.tables {
        let table = match *name {
            "" => snapshot.main(),
            name => match snapshot.table(name) {
                Ok(Some(table)) => table,
                _ => continue,
            },
        };
        for (key, value) in state {
            if let Ok(found) = table.get(key) {
                assert!(found == Some(value), "{what}: a wrong answer that verify does not find");
            }
        }
    }
}

#[test]
fn verify_finds_every_flipped_byte_of_pages_in_use_and_of_the_durable_commit() {
    sys::give_up_after(3000);
    let sample = sample(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut bytes = sample.bytes.clone();
    fs::write(&path, &bytes).unwrap();
    BTree::open(&path).unwrap().verify(|_, _| ()).unwrap();
    let pages = sample.pages();
    assert!(
        sample.tree_pages().iter().any(|page| sample.bytes[page * PAGE + 9] > 0),
        "no inner page"
    );
    assert!(pages.len() > sample.tree_pages().len(), "nothing that is elsewhere");
    let step = if is_soak() { 1 } else { 67 };
    let meta = sample.meta_at();
    let heads = pages.iter().flat_map(|page| page * PAGE..page * PAGE + 64);
    let others = pages.iter().flat_map(|page| page * PAGE + 64..(page + 1) * PAGE).step_by(step);
    let checked = (0..64).chain(meta..meta + 8 * (COMMIT_WORDS + 1)).chain(heads).chain(others);
    let (mut count, step) = (0, if is_soak() { 1 } else { 3 });
    for at in checked.step_by(step) {
        let flip = if at % 2 == 0 { 0xff } else { 1 << (at % 8) };
        bytes[at] ^= flip;
        fs::write(&path, &bytes).unwrap();
        let found = BTree::open(&path).and_then(|store| store.verify(|_, _| ()));
        assert!(found.is_err(), "byte {at} ^ {flip:#x}: not found");
        bytes[at] ^= flip;
        count += 1;
    }
    println!("{count} bytes");
}

/// A page that a transaction freed that was given up, or died, has its checksum again when the store
/// is synced; and so have those that another process wrote.
#[test]
fn after_a_sync_every_page_has_its_checksum() {
    let sample = sample(60);
    for way in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        fs::write(&path, &sample.bytes).unwrap();
        let store = BTree::open(&path).unwrap();
        let mut transaction = store.write().unwrap();
        transaction.main().insert(&sample.keys[0], b"not kept").unwrap();
        match way {
            0 => drop(transaction),
            1 => {
                // A commit of nothing else.
                let savepoint = transaction.savepoint();
                transaction.main().clear().unwrap();
                transaction.rollback_to(savepoint).unwrap();
                transaction.commit().unwrap();
            }
            2 => {
                drop(transaction);
                let mut process = sys::fork(|| {
                    let store = BTree::open(&path).unwrap();
                    let mut transaction = store.write().unwrap();
                    transaction.main().clear().unwrap();
                    // Its death is that of a writer.
                    std::mem::forget(transaction);
                });
                process.wait();
                store.insert(b"after", b"").unwrap();
            }
            3 => {
                // While it is synced.
                transaction.main().clear().unwrap();
                std::thread::scope(|scope| {
                    scope.spawn(|| store.sync().unwrap());
                });
                drop(transaction);
            }
            _ => {
                drop(transaction);
                let mut process = sys::fork(|| {
                    let store = BTree::open(&path).unwrap();
                    store.insert(b"large", &[7; 1 << 20]).unwrap();
                });
                process.wait();
            }
        }
        store.sync().unwrap();
        store.verify(|_, _| ()).unwrap();
        let bytes = fs::read(&path).unwrap();
        let at = COMMITS[word(&bytes, STATE) as usize % 2];
        let (stamp, end) = (word(&bytes, at + 8), word(&bytes, at + 16) as usize);
        for page in 2..end.min(250) {
            let [birth, freed] = [0, 8].map(|more| word(&bytes, PAGE + 16 * page + more));
            let is_in_use = birth != 0 && birth <= stamp && (freed == 0 || freed >> 63 == 1);
            assert!(!is_in_use || freed >> 63 == 1, "way {way}: page {page} has no checksum");
        }
    }
}

/// Words that a hostile file may have where numbers are.
fn hostile(rng: &mut Rng, old: u64) -> u64 {
    match rng.below(12) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => 1 << rng.below(64),
        4 => old.wrapping_add(1),
        5 => old.wrapping_sub(1),
        6 => old ^ 1 << rng.below(64),
        7 => rng.below(300),
        8 => (1 << 62) - rng.below(3),
        9 => (1 << 63) + rng.below(300),
        10 => rng.below(1 << 40),
        _ => rng.next(),
    }
}

/// The bytes of a durable commit with its checksum.
fn seal(bytes: &mut [u8], at: usize) {
    let sum =
        xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[at..at + 8 * COMMIT_WORDS], word(bytes, 32));
    put(bytes, at + 8 * COMMIT_WORDS, sum);
}

#[test]
fn hostile_words_of_the_session_and_of_commits_do_no_harm() {
    sys::limit_memory(2 << 30);
    let sample = sample(40);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let is_lock = |at: &usize| (LOCKS_AT[0]..LOCKS_AT[1] + 64).contains(at);
    for round in 0..rounds(6) {
        let mut rng = Rng::new(seed(round));
        for at in (SESSION..PAGE).step_by(8).filter(|at| !is_lock(at)) {
            // Of the slots some are enough.
            if at > 3100 && at % 64 > 0 {
                continue;
            }
            let mut bytes = sample.bytes.clone();
            let value = hostile(&mut rng, word(&bytes, at));
            put(&mut bytes, at, value);
            let what = format!("seed {}, word {at} is {value:#x}", round + 1);
            try_all(&path, &sample, &bytes, &mut rng, &what);
        }
        for i in 0..COMMIT_WORDS {
            let mut bytes = sample.bytes.clone();
            for place in METAS {
                let value = hostile(&mut rng, word(&bytes, place + 8 * i));
                put(&mut bytes, place + 8 * i, value);
                seal(&mut bytes, place);
            }
            BTree::reboot(&mut bytes);
            let what = format!("seed {}, word {i} of the durable commits", round + 1);
            try_all(&path, &sample, &bytes, &mut rng, &what);
            let mut bytes = sample.bytes.clone();
            let at = sample.commit_at() + 8 * i;
            let value = hostile(&mut rng, word(&bytes, at));
            put(&mut bytes, at, value);
            let what = format!("seed {}, word {i} of the newest commit is {value:#x}", round + 1);
            try_all(&path, &sample, &bytes, &mut rng, &what);
        }
    }
}

#[test]
fn hostile_tables_of_pages_do_no_harm() {
    sys::limit_memory(2 << 30);
    let sample = sample(40);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for round in 0..rounds(40) {
        let mut rng = Rng::new(seed(round));
        let mut bytes = sample.bytes.clone();
        let end = word(&bytes, sample.commit_at() + 16);
        for _ in 0..1 + rng.below(8) {
            let at = PAGE + 8 * rng.below(2 * end) as usize;
            let value = hostile(&mut rng, word(&bytes, at));
            put(&mut bytes, at, value);
        }
        if rng.below(3) == 0 {
            BTree::reboot(&mut bytes);
        }
        try_all(&path, &sample, &bytes, &mut rng, &format!("seed {}", round + 1));
    }
}

/// One hostile change of a page of a tree.
fn harm(bytes: &mut [u8], pages: &[usize], rng: &mut Rng) {
    let any = |rng: &mut Rng| pages[rng.below(pages.len() as u64) as usize];
    let page = any(rng) * PAGE;
    let short = |rng: &mut Rng| {
        let some = [0, 1, 2, 31, 32, 33, 255, 1016, 1017, 2048, 4064, 4095, 4096, 4097, 65535];
        if rng.below(3) == 0 { rng.below(65536) as u16 } else { some[rng.below(15) as usize] }
    };
    let room = usize::from(u16::from_le_bytes([bytes[page + 12], bytes[page + 13]]));
    let arrays = (page + 32 + 4 * room.min(500)).next_multiple_of(8);
    match rng.below(10) {
        // Kind, level, count, room, prefix, heap, waste, lengths, flags.
        0..3 => {
            let at = page + 8 + 2 * rng.below(9) as usize;
            let value = short(rng);
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        3 => bytes[page + 8 + rng.below(2) as usize] = rng.below(5) as u8,
        // Offsets and links, wherever those are.
        4..6 => {
            let at = arrays + 2 * rng.below(100) as usize;
            let value = short(rng);
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        6 => {
            let at = arrays + 8 * rng.below(20) as usize;
            let to = any(rng) as u64;
            put(bytes, at, to);
        }
        7 => {
            let at = page + 32 + rng.below(4064) as usize;
            let len = (1 + rng.below(64) as usize).min(page + PAGE - at);
            let noise = rng.bytes(len);
            bytes[at..at + len].copy_from_slice(&noise);
        }
        8 => {
            // Another page's bytes, under this one's stamp.
            let other = any(rng) * PAGE;
            bytes.copy_within(other + 8..other + PAGE, page + 8);
        }
        _ => {
            let at = page + 32 + rng.below(4064) as usize;
            bytes[at] = rng.next() as u8;
        }
    }
}

#[test]
fn hostile_pages_do_no_harm() {
    sys::limit_memory(2 << 30);
    let sample = sample(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let pages = sample.tree_pages();
    let mut sound = 0;
    for round in 0..rounds(200) {
        let mut rng = Rng::new(seed(round));
        let mut bytes = sample.bytes.clone();
        for _ in 0..1 + rng.below(5) {
            harm(&mut bytes, &pages, &mut rng);
        }
        // With checksums that fit, or without any.
        let has_sums = rng.below(2) == 0;
        for page in &pages {
            let part = &bytes[page * PAGE..(page + 1) * PAGE];
            let sum = xxhash_rust::xxh3::xxh3_64_with_seed(part, *page as u64) | 1 << 63;
            put(&mut bytes, PAGE + 16 * page + 8, if has_sums { sum } else { 0 });
        }
        let what = format!("seed {}", round + 1);
        sound += u64::from(try_all(&path, &sample, &bytes, &mut rng, &what));
    }
    println!("{sound} passed verify");
}

/// Every page leads to the same one below: a walk that believed it would come to no end.
#[test]
fn links_that_meet_again_end_a_walk() {
    sys::give_up_after(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    for i in 0..3000u64 {
        store.insert(&i.to_be_bytes(), &[1; 8]).unwrap();
    }
    drop(store);
    let template = fs::read(&path).unwrap();
    let at = COMMITS[word(&template, STATE) as usize % 2];
    let root = (word(&template, at + 24) & 0xff_ffff) as usize;
    assert_eq!(word(&template, at + 32), 2, "a root and its leaves");
    for is_empty in [false, true] {
        let mut bytes = template.clone();
        let length = bytes.len() / PAGE;
        let room =
            usize::from(u16::from_le_bytes([bytes[root * PAGE + 12], bytes[root * PAGE + 13]]));
        let count =
            usize::from(u16::from_le_bytes([bytes[root * PAGE + 10], bytes[root * PAGE + 11]]));
        let links = (32 + 4 * room).next_multiple_of(8);
        let leaf = (word(&bytes, root * PAGE + links) & 0xff_ffff) as usize;
        if is_empty {
            bytes[leaf * PAGE + 10..leaf * PAGE + 12].fill(0);
        }
        let page = bytes[root * PAGE..(root + 1) * PAGE].to_vec();
        for level in 1..30u8 {
            let mut page = page.clone();
            let below = if level == 1 { leaf } else { length + usize::from(level) - 2 };
            (0..count).for_each(|i| put(&mut page, links + 8 * i, below as u64));
            page[9] = level;
            bytes.extend(page);
        }
        put(&mut bytes, at + 24, length as u64 + 28);
        put(&mut bytes, at + 32, 30);
        put(&mut bytes, at + 16, length as u64 + 29);
        fs::write(&path, &bytes).unwrap();
        let store = BTree::open(&path).unwrap();
        let snapshot = store.read().unwrap();
        let table = snapshot.main();
        assert!(table.scan(|_, _| Ok(())).is_err(), "a scan");
        assert!(table.iter().any(|pair| pair.is_err()), "a walk");
        assert!(table.iter().rev().any(|pair| pair.is_err()), "a walk back");
        store.verify(|_, _| ()).unwrap_err();
        drop(snapshot);
        let mut transaction = store.write().unwrap();
        let _ = transaction.main().remove_range(..);
        let _ = transaction.main().clear();
        drop(transaction);
    }
}

#[test]
fn truncated_files_are_refused() {
    sys::give_up_after(600);
    let sample = sample(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let end = word(&sample.bytes, sample.commit_at() + 16) as usize;
    let pages = (0..sample.bytes.len() / PAGE).map(|page| page * PAGE);
    for len in pages.flat_map(|at| [at, at + 1, at + 100, at + PAGE - 1]) {
        for is_rebooted in [false, true] {
            let mut bytes = sample.bytes[..len].to_vec();
            if is_rebooted && len > SESSION + 16 {
                BTree::reboot(&mut bytes);
            }
            fs::write(&path, &bytes).unwrap();
            match BTree::open(&path) {
                Ok(store) => {
                    assert!(len >= end * PAGE, "{len} bytes: opens");
                    store.verify(|_, _| ()).unwrap();
                    drop(store);
                    check_answers(&path, &sample, &format!("{len} bytes"));
                }
                Err(error) => {
                    assert!(len < end * PAGE, "{len} bytes: {error}");
                    assert!(error.is_bad_file() && error.path() == Some(&path), "{error}");
                }
            }
        }
    }
}

/// Whatever verify passes is answered right; and what it does not pass is at least no crash.
#[test]
fn random_changes_are_found_or_mean_nothing() {
    sys::limit_memory(2 << 30);
    let sample = sample(60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for round in 0..rounds(150) {
        let mut rng = Rng::new(seed(round));
        let mut bytes = sample.bytes.clone();
        for _ in 0..1 + rng.below(6) {
            let at = rng.below(bytes.len() as u64) as usize;
            // The locks stay; and what says whose these are.
            if !(SESSION..COMMITS[0]).contains(&at) {
                bytes[at] = rng.next() as u8;
            }
        }
        let what = format!("seed {}", round + 1);
        if try_all(&path, &sample, &bytes, &mut rng, &what) {
            fs::write(&path, &bytes).unwrap();
            check_answers(&path, &sample, &what);
        }
    }
}

#[test]
fn what_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let refusal = |path: &Path| {
        let error = BTree::open(path).unwrap_err();
        assert_eq!(error.path(), Some(path), "{error}");
        error
    };
    assert!(refusal(&path).to_string().contains("No such file"));
    assert!(refusal(folder.path()).to_string().contains("directory"));
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if made.is_ok_and(|status| status.success()) {
        assert!(refusal(&fifo).to_string().contains("FIFO"));
        BTree::create(&fifo).unwrap_err();
    }
    fs::write(&path, "").unwrap();
    refusal(&path);
    let mut rng = Rng::new(1);
    for bytes in [rng.bytes(100), rng.bytes(20_000), b"\x89CRDNZA\n".to_vec(), vec![0; 3 * PAGE]] {
        fs::write(&path, bytes).unwrap();
        assert!(refusal(&path).is_bad_file());
        assert!(BTree::create(&path).unwrap_err().is_bad_file(), "it is not written over");
    }
    let sample = sample(10);
    let sealed = |at: usize, byte: u8| {
        let mut bytes = sample.bytes.clone();
        bytes[at] = byte;
        let sum = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[..56], 0);
        put(&mut bytes, 56, sum);
        fs::write(&path, bytes).unwrap();
        refusal(&path)
    };
    assert!(matches!(sealed(8, 1).kind(), ErrorKind::WrongFormat { .. }), "another engine");
    assert!(matches!(sealed(12, 9).kind(), ErrorKind::Unsupported(_)), "a later version");
    assert!(matches!(sealed(28, 1).kind(), ErrorKind::Unsupported(_)), "features");
    assert!(matches!(sealed(0, b'x').kind(), ErrorKind::WrongFormat { .. }), "magic");
    // Neither of the two durable commits is whole.
    let mut bytes = sample.bytes.clone();
    METAS.iter().for_each(|at| bytes[at + 8] ^= 1);
    BTree::reboot(&mut bytes);
    fs::write(&path, bytes).unwrap();
    assert!(refusal(&path).is_bad_file());
}

/// A child's work: writes with less and less room, at first none.
#[test]
fn child_fills() {
    if !is_child() {
        return;
    }
    sys::give_up_after(600);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let mut state = State::new();
    let mut rng = Rng::new(3);
    let (mut errors, mut limit) = (0, 12 << 10);
    // Past the second block of the table of pages.
    while limit < 1300 << 10 {
        sys::limit_file_size(Some(limit));
        let operation = Operation::random(&mut rng, 2000, 3000);
        let mut after = state.clone();
        operation.change(&mut after);
        match store.apply(&operation) {
            Ok(()) => state = after,
            Err(error) => {
                errors += 1;
                let text = error.to_string();
                assert!(
                    text.contains("make longer") && text.contains("large"),
                    "limit {limit}: {text}"
                );
                // Nothing changed; and all is there to be read.
                assert!(state_of(&store, &format!("limit {limit}: {text}")) == state);
                limit += 4096;
            }
        }
    }
    sys::limit_file_size(None);
    store.insert(b"after", b"wards").unwrap();
    state.insert(b"after".to_vec(), b"wards".to_vec());
    assert!(state_of(&store, "with room again") == state);
    assert!(errors > 100, "{errors} errors");
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_nothing_changes() {
    let output = child("child_fills").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {}", output.status, text);
}

#[test]
fn a_full_disk_is_an_error_and_the_store_stays_usable() {
    for size in ["100k", "2m"] {
        let Some(mount) = Mount::of_size(size) else {
            println!("skipped: this user may not mount a small file system");
            return;
        };
        let path = mount.path().join("store");
        let store = BTree::create(&path).unwrap();
        let ballast = mount.path().join("ballast");
        fs::write(&ballast, vec![0; 32 << 10]).unwrap();
        let key = |i: u64| i.to_be_bytes();
        let mut count = 0u64;
        let error = loop {
            match store.insert(&key(count), &[count as u8; 500]) {
                Ok(_) => count += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("free some space") && error.contains("store"), "{error}");
        assert_eq!(Scan::len(&store).unwrap(), count);
        let mut transaction = store.write().unwrap();
        assert!(
            (count..).take(100).any(|i| transaction.main().insert(&key(i), &[1; 500]).is_err())
        );
        let error = transaction.commit().unwrap_err().to_string();
        assert!(error.contains("half-way"), "{error}");
        for i in 0..count {
            let found = Get::get(&store, &key(i)).unwrap();
            assert_eq!(found.as_deref(), Some(&[count.min(i) as u8; 500][..]));
        }
        state_of(&store, size);
        store.sync().unwrap();
        fs::remove_file(&ballast).unwrap();
        for i in 0..count / 2 {
            assert!(
                store.remove(&key(i)).unwrap_or_else(|e| panic!("{size}, {i} of {count}: {e}"))
            );
        }
        store.sync().unwrap();
        for i in 0..count / 4 {
            store.insert(&key(i), &[3; 400]).unwrap_or_else(|e| panic!("{size}, {i}: {e}"));
        }
        state_of(&store, size);
        drop(store);
        state_of(&BTree::open(&path).unwrap(), size);
    }
}
