//! A small btree store whose file is damaged, and everything that can be done with it then.

use super::subject::State;
use super::{Rng, ordered, sys, write_anew};
use credenza::btree::{BTree, Cursor, Table};
use credenza::{Get, Result, Scan};
use std::fs;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

pub const PAGE: usize = 4096;
/// Where a file says what processes share while the machine runs.
pub const SESSION: usize = 2048;
/// The words of the newest commits, and the places of the durable ones.
pub const COMMITS: [usize; 2] = [2304, 2432];
pub const METAS: [usize; 2] = [512, 1024];
/// Bytes of a durable commit; the last eight are a checksum.
pub const META: usize = 512;
pub const COMMIT_WORDS: usize = 13;
pub const STATE: usize = 2080;

/// A small store that was closed: several tables, long keys, large values, an inner level.
pub struct Sample {
    pub bytes: Vec<u8>,
    pub tables: Vec<(&'static str, State)>,
    pub keys: Vec<Vec<u8>>,
}

pub fn sample(count: u64) -> Sample {
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
        let (key, value) = (ordered(i).to_vec(), rng.bytes(20));
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
        let key = ordered(i);
        let mut transaction = store.write().unwrap();
        transaction.table("numbers").unwrap().unwrap().remove(&key).unwrap();
        transaction.commit().unwrap();
        tables[1].1.remove(&key[..]);
    }
    store.sync().unwrap();
    drop(store);
    Sample { bytes: fs::read(&path).unwrap(), tables, keys }
}

pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

pub fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

impl Sample {
    /// The entry of a page in the table of pages; this store has one block of it.
    pub fn entry(&self, page: usize) -> [u64; 2] {
        [0, 8].map(|more| word(&self.bytes, PAGE + 16 * page + more))
    }

    /// Pages of trees that the newest commit leads to: such have a checksum.
    pub fn pages(&self) -> Vec<usize> {
        let end = word(&self.bytes, self.commit_at() + 16) as usize;
        assert!(end <= 256, "the sample is too large");
        (2..end).filter(|page| self.entry(*page)[1] >> 63 == 1).collect()
    }

    /// Where the long keys and values are, each with a checksum of its own.
    pub fn elsewhere(&self) -> Vec<Range<usize>> {
        let records = self.tables.iter().flat_map(|(_, state)| state);
        let long = records.flat_map(|(key, value)| [key, value]).filter(|part| part.len() > 512);
        let place = |part: &Vec<u8>| {
            let from = self.bytes.windows(part.len()).position(|bytes| bytes == part);
            from.map(|from| from..from + part.len()).expect("it is in the file")
        };
        long.map(place).collect()
    }

    pub fn commit_at(&self) -> usize {
        COMMITS[word(&self.bytes, STATE) as usize % 2]
    }

    /// The place of the durable commit that counts.
    pub fn meta_at(&self) -> usize {
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
fn read_all(path: &Path, sample: &Sample, has_lease: bool) -> Result<()> {
    let store = BTree::open(path)?;
    let bytes = sample.bytes.len();
    for key in sample.keys.iter().step_by(7) {
        let _ = (Get::get(&store, key), Get::contains_key(&store, key));
    }
    let (_, _) = (Scan::len(&store), store.stats());
    let hour = Duration::from_secs(3600);
    if let Ok(snapshot) = if has_lease { store.read_for(hour) } else { store.read() } {
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
pub fn try_all(path: &Path, sample: &Sample, bytes: &[u8], rng: &mut Rng, what: &str) -> bool {
    sys::give_up_after(100);
    write_anew(path, bytes);
    let has_lease = rng.below(4) == 0;
    let done = catch_unwind(AssertUnwindSafe(|| {
        let is_sound = read_all(path, sample, has_lease).is_ok();
        write_anew(path, bytes);
        let _ = change_all(path, sample, rng);
        is_sound
    }));
    done.unwrap_or_else(|_| panic!("{what}: panics"))
}

/// The answers for all keys are right, or errors.
pub fn check_answers(path: &Path, sample: &Sample, what: &str) {
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
