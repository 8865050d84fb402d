//! A store that is written, as the tests of crashes see it, and the simplest thing that does the
//! same: a map. Each engine that promises to survive implements [`Subject`].

use super::Rng;
use credenza::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// An engine under test.
pub trait Subject: Sized {
    /// Opens the store, making it if there is none.
    fn open(path: &Path) -> Result<Self>;
    fn apply(&self, operation: &Operation) -> Result<()>;
    fn sync(&self) -> Result<()>;
    fn verify(&self) -> Result<()>;
    fn len(&self) -> Result<u64>;
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// All records as a scan gives them.
    fn records(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;
    /// The files of a store: the first is the one that is opened.
    fn files(path: &Path) -> Vec<PathBuf>;
    /// Changes the bytes of the first file so that the machine seems to have been started anew.
    fn reboot(first: &mut [u8]);
    /// Changes them so that a lock held by this process seems to be that of a dead one.
    fn bury(first: &mut [u8], pid: u32);
}

/// Marks the locks at these places that a process has as the kernel does for robust ones when it dies: the holder's number
/// goes, a mark comes.
pub fn bury_in(first: &mut [u8], locks: &[usize], pid: u32) {
    // In musl the type comes first.
    let word_at = if cfg!(target_env = "musl") { 4 } else { 0 };
    for at in locks.iter().map(|at| at + word_at) {
        let word = &mut first[at..at + 4];
        let held = u32::from_le_bytes(word.try_into().unwrap());
        if held & 0x3fff_ffff == pid {
            word.copy_from_slice(&(1u32 << 30).to_le_bytes());
        }
    }
}

/// A change of a store, all of it or nothing.
#[derive(Clone, Debug)]
pub enum Operation {
    Insert(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Batch(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    Clear,
    /// Moves records, and changes none.
    Compact,
}

impl Operation {
    /// What the change makes of a state.
    pub fn change(&self, state: &mut State) {
        match self {
            Operation::Insert(key, value) => drop(state.insert(key.clone(), value.clone())),
            Operation::Remove(key) => drop(state.remove(key)),
            Operation::Batch(changes) => {
                for (key, value) in changes {
                    match value {
                        Some(value) => drop(state.insert(key.clone(), value.clone())),
                        None => drop(state.remove(key)),
                    }
                }
            }
            Operation::Clear => state.clear(),
            Operation::Compact => {}
        }
    }

    /// A random change of one of so many keys with values of up to so many bytes.
    pub fn random(rng: &mut Rng, keys: u64, largest: u64) -> Operation {
        let key = |rng: &mut Rng| format!("key {}", rng.below(keys)).into_bytes();
        let value = |rng: &mut Rng| {
            let len = rng.below(largest + 1) as usize;
            rng.bytes(len)
        };
        match rng.below(100) {
            0..60 => Operation::Insert(key(rng), value(rng)),
            60..80 => Operation::Remove(key(rng)),
            80..98 => {
                let changes = (0..=rng.below(12)).map(|_| {
                    let value = if rng.below(3) == 0 { None } else { Some(value(rng)) };
                    (key(rng), value)
                });
                Operation::Batch(changes.collect())
            }
            98 => Operation::Compact,
            _ => Operation::Clear,
        }
    }
}

/// What is in a store; its length, its scan and its lookups agree, and `verify` passes.
pub fn state_of(store: &impl Subject, what: &str) -> State {
    let records = store.records().unwrap_or_else(|e| panic!("{what}: scan: {e}"));
    let count = records.len();
    let state: State = records.into_iter().collect();
    assert_eq!(state.len(), count, "{what}: a scan gives a key twice");
    assert_eq!(store.len().unwrap(), count as u64, "{what}: len() and a scan differ");
    for (key, value) in &state {
        let found = store.get(key).unwrap_or_else(|e| panic!("{what}: get: {e}"));
        assert!(found.as_ref() == Some(value), "{what}: get and a scan differ");
    }
    store.verify().unwrap_or_else(|e| panic!("{what}: verify: {e}"));
    state
}

/// In how far two states differ, for people.
pub fn difference(found: &State, wanted: &State) -> String {
    let mut parts = Vec::new();
    for (key, value) in wanted {
        match found.get(key) {
            None => parts.push(format!("-{}", String::from_utf8_lossy(key))),
            Some(other) if other != value => {
                parts.push(format!("~{}", String::from_utf8_lossy(key)));
            }
            Some(_) => {}
        }
    }
    let more = found.keys().filter(|key| !wanted.contains_key(*key));
    parts.extend(more.map(|key| format!("+{}", String::from_utf8_lossy(key))));
    format!("{} of {} differ: {}", parts.len(), wanted.len(), parts[..parts.len().min(8)].join(" "))
}
