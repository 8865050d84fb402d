//! Danger: a number in the head of the index of a store in use, made up or damaged, that makes who
//! opens the store panic, hang, ask for memory or disk without bound, or lose what is in the log.
//!
//! Every word of the head is set to values that make no sense, and to such as make some, while the
//! store counts as in use: it was not closed, and its locks are of this boot. What is promised, and
//! tested here:
//! - Who opens the store then and may write gets right answers, or errors that say that the store
//!   is damaged; only `len` may be wrong, and then `verify` says so.
//! - Nothing is lost: without the index everything is there again.
//! - Who has it open already when that happens may get errors and wrong answers; no more.
//! - What a writer is in the middle of is not taken for damage.

mod common;

use common::hash::{LOCKS_AT, LOG_AT, batch_of, index_of, index_wanted, limited};
use common::subject::State;
use common::{Rng, child, is_child, is_soak, rounds, sys, write_anew};
use credenza::hash::{Hash, recover};
use credenza::{Error, Result};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of the index's head, all of them words.
const HEAD: usize = 640;
/// The number of keys and the bytes of what lives, and what a dead writer noted that they will be:
/// nothing but `verify` can know better.
const COUNTS: [usize; 5] = [128, 136, 176, 184, 192];

/// The files of a store in use, and what is in it.
struct Sample {
    data: Vec<u8>,
    index: Vec<u8>,
    state: State,
}

fn key(i: u64) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

/// A store in which puts wait, space is free in both files, and some waits for readers. A limit that
/// is never reached has nothing dropped.
fn sample(count: u64, limit: u64) -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = limited(limit).open(&path).unwrap();
    let mut rng = Rng::new(count);
    let mut state = State::new();
    for turn in 0..4 {
        for i in (0..count).filter(|i| turn == 0 || i % 4 == turn) {
            let len = [3, 40, 90][i as usize % 3];
            let value = rng.bytes(len);
            store.insert(&key(i), &value).unwrap();
            state.insert(key(i), value);
        }
        store.sync().unwrap();
    }
    for i in (0..count).step_by(7) {
        store.remove(&key(i)).unwrap();
        state.remove(&key(i));
    }
    for i in 0..5 {
        store.insert(&key(i), b"waits").unwrap();
        state.insert(key(i), b"waits".to_vec());
    }
    // As they are while it is open.
    Sample { data: fs::read(&path).unwrap(), index: fs::read(index_of(&path)).unwrap(), state }
}

impl Sample {
    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.index[at..at + 8].try_into().unwrap())
    }

    /// What to set the word at `at` to.
    fn values(&self, at: usize, rng: &mut Rng) -> BTreeSet<u64> {
        let is = self.word(at);
        let mut values = BTreeSet::from([0, 1, u64::MAX, u64::MAX / 2, is ^ 1 << 63, is ^ 1 << 62]);
        values.extend([is.wrapping_add(1), is.wrapping_sub(1), is.wrapping_add(8)]);
        values.extend([is.wrapping_sub(8), is / 2, is.wrapping_mul(2), 1 << 30]);
        values.extend([rng.next(), rng.below(1 << 32), rng.below(1 << 16), rng.below(64)]);
        values.insert(rng.below(self.data.len() as u64) & !7);
        // What makes sense elsewhere.
        let others: Vec<u64> = (64..HEAD).step_by(8).map(|at| self.word(at)).collect();
        let step = if is_soak() { 1 } else { 1 + rng.below(8) as usize };
        values.extend(others.into_iter().step_by(step));
        values.remove(&is);
        values
    }

    /// The files, with the index's word at `at` another, and the lock as if its holder had died.
    fn write(&self, path: &Path, at: usize, value: u64, has_died: bool) {
        let (mut data, mut index) = (self.data.clone(), self.index.clone());
        index[at..at + 8].copy_from_slice(&value.to_le_bytes());
        if has_died {
            data[LOCKS_AT[0]..LOCKS_AT[0] + 4].copy_from_slice(&(1u32 << 30).to_le_bytes());
        }
        write_anew(path, &data);
        write_anew(&index_of(path), &index);
    }
}

/// A store, and what should be in it: for each key one value, or more where an operation failed
/// that may have been done.
struct Checked<'s> {
    what: &'s str,
    state: RefCell<State>,
    maybe: RefCell<BTreeSet<Vec<u8>>>,
}

impl<'s> Checked<'s> {
    fn new(sample: &Sample, what: &'s str) -> Checked<'s> {
        let state = RefCell::new(sample.state.clone());
        Checked { what, state, maybe: RefCell::default() }
    }

    /// What went well; an error must be about damage.
    fn done<T>(&self, result: Result<T>) -> Option<T> {
        let is_clear = |e: &Error| e.is_bad_file();
        result.inspect_err(|e| assert!(is_clear(e), "{}: {e}", self.what)).ok()
    }

    fn is_right(&self, key: &[u8], found: Option<&[u8]>) {
        if !self.maybe.borrow().contains(key) {
            let state = self.state.borrow();
            let wanted = state.get(key).map(|value| &value[..]);
            let name = String::from_utf8_lossy(key);
            assert!(found == wanted, "{}: {name}: {found:?}, not {wanted:?}", self.what);
        }
    }

    fn change(&self, store: &Hash, changes: &[(Vec<u8>, Option<Vec<u8>>)]) {
        let done = match changes {
            [(key, Some(value))] => store.insert(key, value),
            [(key, None)] => store.remove(key).map(drop),
            _ => store.batch(&batch_of(changes)),
        };
        let is_done = self.done(done).is_some();
        for (key, value) in changes {
            match value {
                Some(value) => self.state.borrow_mut().insert(key.clone(), value.clone()),
                None => self.state.borrow_mut().remove(key),
            };
            if !is_done {
                self.maybe.borrow_mut().insert(key.clone());
            }
        }
    }

    fn look(&self, store: &Hash, keys: impl Iterator<Item = u64>) {
        for i in keys {
            if let Some(found) = self.done(store.get(&key(i))) {
                self.is_right(&key(i), found.as_deref());
            }
        }
    }

    /// Every record that a scan gives, and that it gives all if there is no error.
    fn scan(&self, store: &Hash) {
        let most = 4 * self.state.borrow().len() + 1000;
        let mut seen = BTreeSet::new();
        for (count, record) in store.iter().enumerate() {
            assert!(count < most, "{}: a scan does not end", self.what);
            let Some((key, value)) = self.done(record) else { return };
            self.is_right(&key, Some(&value));
            seen.insert(key);
        }
        for key in self.state.borrow().keys().filter(|key| !seen.contains(*key)) {
            assert!(self.maybe.borrow().contains(key), "{}: {key:?} not scanned", self.what);
        }
    }

    fn use_all_of(&self, store: &Hash, is_count: bool) {
        self.look(store, (0..40).chain([99, 123, 100_000]));
        let len = self.done(store.len());
        let counted = self.state.borrow().len() as u64;
        if len.is_some_and(|len| len != counted) {
            assert!(is_count && store.verify(|_, _| ()).is_err(), "{}: {len:?}", self.what);
        }
        self.done(store.stats());
        for i in 0..30 {
            self.change(store, &[(key(1000 + i), Some(vec![7; 60]))]);
            self.change(store, &[(key(i * 3), if i % 2 == 0 { None } else { Some(vec![8; 90]) })]);
        }
        let batch: Vec<_> = (0..20).map(|i| (key(2000 + i), Some(vec![9; 30]))).collect();
        self.change(store, &batch);
        let mut values = Vec::new();
        let keys: Vec<_> = (0..100).map(key).collect();
        let all = store.get_many(&keys, |i, value| values.push((i, value.map(<[u8]>::to_vec))));
        if self.done(all).is_some() {
            values.iter().for_each(|(i, value)| self.is_right(&keys[*i], value.as_deref()));
        }
        self.scan(store);
        self.done(store.sync());
        for _ in 0..1000 {
            if self.done(store.compact(1 << 14)) != Some(true) {
                break;
            }
        }
        let verified = self.done(store.verify(|_, _| ()));
        if verified.is_some() && self.maybe.borrow().is_empty() {
            assert_eq!(store.len().unwrap(), self.state.borrow().len() as u64, "{}", self.what);
        }
        self.done(store.rebuild_index(false));
        self.look(store, (0..100).chain(1000..1010));
    }

    /// Everything that a handle can do; whatever the answers are.
    fn use_anyhow(&self, store: &Hash, folder: &Path) {
        for i in 0..200 {
            self.done(store.insert(&key(i * 5), &[5; 100]));
            self.done(store.get(&key(i)));
            self.done(store.remove(&key(i * 3)));
        }
        let batch: Vec<_> = (0..20).map(|i| (key(2000 + i), Some(vec![9; 30]))).collect();
        self.done(store.batch(&batch_of(&batch)));
        self.done(store.len());
        self.done(store.stats());
        let most = 100_000;
        assert!(store.iter().take(most).count() < most, "{}: a scan does not end", self.what);
        self.done(store.compact(1 << 20));
        self.done(store.verify(|_, _| ()));
        self.done(store.backup(folder.join("copy"), |_, _| ()));
        self.done(store.rebuild_index(true));
        self.done(store.clear());
        self.done(store.sync());
    }

    /// Without the index everything is there.
    fn is_all_there(&self, path: &Path) {
        fs::remove_file(index_of(path)).unwrap();
        let store = Hash::open(path).unwrap_or_else(|e| panic!("{}: {e}", self.what));
        self.scan(&store);
        store.verify(|_, _| ()).unwrap_or_else(|e| panic!("{}: {e}", self.what));
    }
}

/// Each word of the head and each value for it, `every` so many of them.
fn each_word(sample: &Sample, every: u64, f: impl Fn(usize, u64)) {
    let mut rng = Rng::new(every);
    for at in (0..HEAD).step_by(8) {
        for value in sample.values(at, &mut rng) {
            if is_soak() || rng.below(every) == 0 {
                // The last that is printed is where it ended.
                println!("word {at}: {} -> {value}", sample.word(at));
                f(at, value);
            }
        }
    }
}

/// Runs a test of this file in a process that may have little memory and disk; what hangs fails.
fn within_bounds(test: &str) {
    let output = child(test).output().unwrap();
    let (text, said) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    let last = said.lines().rev().find(|line| line.starts_with("word")).unwrap_or_default();
    assert!(output.status.success(), "{:?} at {last}: {text}", output.status);
}

fn set_bounds() {
    sys::give_up_after(900);
    sys::limit_file_size(Some(64 << 20));
    sys::limit_memory(1 << 30);
}

#[test]
fn child_opens() {
    if !is_child() {
        return;
    }
    set_bounds();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // The first has a directory of more than one entry.
    for (count, limit, every) in [(1000, 0, 90), (150, 0, 8), (150, 4 << 20, 25)] {
        let sample = sample(count, limit);
        for has_died in [false, true] {
            each_word(&sample, if has_died { 2 * every } else { every }, |at, value| {
                let what = format!("{count} records, {at}: {value}, died {has_died}");
                sample.write(&path, at, value, has_died);
                let checked = Checked::new(&sample, &what);
                if let Some(store) = checked.done(Hash::open(&path)) {
                    checked.use_all_of(&store, COUNTS.contains(&at));
                }
                checked.is_all_there(&path);
            });
        }
    }
}

#[test]
fn who_opens_a_store_in_use_trusts_no_word_of_its_index() {
    within_bounds("child_opens");
}

#[test]
fn child_meets_several() {
    if !is_child() {
        return;
    }
    set_bounds();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for (count, limit) in [(1000, 0), (150, 0), (150, 4 << 20)] {
        let mut sample = sample(count, limit);
        let sound = sample.index.clone();
        let mut rng = Rng::new(count);
        for turn in 0..rounds(50) {
            let mut what = format!("turn {turn}");
            for _ in 0..1 + rng.below(4) {
                let end = if rng.below(2) == 0 { HEAD } else { sound.len() };
                let at = 64 + 8 * rng.below((end as u64 - 64) / 8) as usize;
                let values: Vec<u64> = sample.values(at, &mut rng).into_iter().collect();
                let value = values[rng.below(values.len() as u64) as usize];
                sample.index[at..at + 8].copy_from_slice(&value.to_le_bytes());
                what += &format!(", {at}: {value}");
            }
            println!("word {what}");
            sample.write(&path, 0, sample.word(0), rng.below(3) == 0);
            let checked = Checked::new(&sample, &what);
            if let Some(store) = checked.done(Hash::open(&path)) {
                checked.use_anyhow(&store, folder.path());
            }
            sample.index.clone_from(&sound);
        }
    }
}

/// Of several numbers, in pages as well, nobody can say what is right.
#[test]
fn whatever_is_in_the_index_who_uses_it_ends_well() {
    within_bounds("child_meets_several");
}

#[test]
fn child_reads() {
    if !is_child() {
        return;
    }
    set_bounds();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let sample = sample(150, 0);
    each_word(&sample, 10, |at, value| {
        sample.write(&path, at, value, false);
        // For reading only: nothing can be checked that others may be changing.
        let Ok(reader) = Hash::options().read_only(true).open(&path) else { return };
        let _ = reader.get(&key(3));
        let _ = (reader.len(), reader.stats());
        assert!(reader.iter().take(100_000).count() < 100_000, "a scan does not end");
        let _ = reader.verify(|_, _| ());
        let copy = folder.path().join("copy");
        let _ = reader.backup(&copy, |_, _| ());
        let saved = folder.path().join("saved");
        recover(&path, &saved, |_, _| {}).unwrap();
        let store = Hash::open(&saved).unwrap();
        Checked::new(&sample, "recovered").scan(&store);
        drop(store);
        fs::remove_file(&saved).unwrap();
        fs::remove_file(index_of(&saved)).unwrap();
    });
}

#[test]
fn who_may_only_read_ends_well_and_recovery_needs_no_index() {
    within_bounds("child_reads");
}

#[test]
fn child_is_surprised() {
    if !is_child() {
        return;
    }
    set_bounds();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let sample = sample(150, 0);
    for is_another_first in [true, false] {
        each_word(&sample, 10, |at, value| {
            let what = format!("{at}: {value}, another first: {is_another_first}");
            sample.write(&path, 0, sample.word(0), false);
            let store = Hash::open(&path).unwrap();
            assert!(store.replace(&key(1), b"waits").unwrap());
            store.insert(&key(2), b"waits").unwrap();
            let index = OpenOptions::new().write(true).open(index_of(&path)).unwrap();
            index.write_all_at(&value.to_le_bytes(), at as u64).unwrap();
            let checked = Checked::new(&sample, &what);
            if is_another_first {
                // It puts right what there is, for all.
                let Some(other) = checked.done(Hash::open(&path)) else { return };
                checked.use_all_of(&other, COUNTS.contains(&at));
                checked.look(&store, 0..40);
                drop((other, store));
                checked.is_all_there(&path);
                return;
            }
            checked.use_anyhow(&store, folder.path());
        });
    }
}

#[test]
fn who_has_the_store_open_ends_well() {
    within_bounds("child_is_surprised");
}

/// While others write, numbers that belong together do not agree: none of that is damage.
#[test]
fn what_others_are_writing_is_no_damage() {
    sys::give_up_after(300);
    let folder = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let path = folder.path().join(format!("store {round}"));
        drop(Hash::create(&path).unwrap());
        let done = path.with_extension("done");
        let mut writer = sys::fork(|| {
            let store = Hash::open(&path).unwrap();
            // Many segments at once, most of which are not in the file yet.
            store.insert(b"large", &vec![7; 40 << 20]).unwrap();
            for i in 0..6000 {
                store.insert(&key(i), &[3; 10]).unwrap();
            }
            fs::write(&done, b"").unwrap();
        });
        let file = fs::File::open(&path).unwrap();
        let index = || {
            let mut bytes = [0; LOG_AT];
            file.read_exact_at(&mut bytes, 0).unwrap();
            index_wanted(&bytes).to_vec()
        };
        let first = index();
        while !done.exists() {
            drop(Hash::open(&path).unwrap());
            assert!(index() == first, "the index was made again");
        }
        assert_eq!(writer.wait(), sys::Status::Exited(0));
        // Nor does who opens it wait for who is writing.
        let store = Hash::open(&path).unwrap();
        let transaction = store.transaction().unwrap();
        assert_eq!(Hash::open(&path).unwrap().len().unwrap(), 6001);
        drop(transaction);
        store.verify(|_, _| ()).unwrap();
        fs::remove_file(&path).unwrap();
    }
}
