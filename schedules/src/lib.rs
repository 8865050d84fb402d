//! Runs the engines through orders of their steps on shared memory that no machine comes to by itself.
//!
//! All threads of a test are one to the kernel: before each operation on shared memory a scheduler of
//! [shuttle](https://docs.rs/shuttle) says which of them is next. What a thread sees must be what some order of
//! whole operations gives. Every operation is sequentially consistent here; that the orderings given suffice is
//! for the thread sanitizer, and processes are for the tests that kill them.

mod bursts;

use bursts::Bursts;
use shuttle::sync::atomic::AtomicBool;
use shuttle::{Config, MaxSteps, Runner};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// Runs `work` so many times, each in another order, and tells it the number: `SCHEDULES` is how many, 600 when
/// nobody says, from number `FIRST` on.
pub fn in_many_orders(work: impl Fn(u64) + Send + Sync + 'static) {
    let number = |name, otherwise| {
        std::env::var(name).map_or(otherwise, |n| n.parse().expect("a number in the environment"))
    };
    let (first, count) = (number("FIRST", 0), number("SCHEDULES", 600));
    assert!(count > 0, "SCHEDULES=0 tests nothing");
    // To look at a word of the scheduler's own is a step.
    let step = || {
        AtomicBool::new(false).load(Ordering::SeqCst);
    };
    credenza::set_steps(step, shuttle::thread::yield_now);
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = MaxSteps::None;
    let next = AtomicU64::new(first);
    let runner = Runner::new(Bursts::new(first, count), config);
    runner.run(move || work(next.fetch_add(1, Ordering::Relaxed)));
}

/// A folder for a store, and where the store is to be in it.
pub fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    (folder, path)
}

/// The versions of one key: what the writer has begun to store, and what it has stored. A lookup that begins
/// after one was stored gives that or a later one, and none that was not begun when it ended.
#[derive(Default)]
pub struct Versions {
    begun: AtomicU64,
    stored: AtomicU64,
}

impl Versions {
    /// Stores the next version by `store`; odd ones are removals.
    pub fn next(&self, store: impl FnOnce(u64)) {
        let version = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        store(version);
        self.stored.store(version, Ordering::SeqCst);
    }

    /// What `look` finds, which must be one of those that may be found; the removed ones are 1, 3, 5 ...
    pub fn check(&self, look: impl FnOnce() -> Option<u64>) -> u64 {
        let stored = self.stored.load(Ordering::SeqCst);
        let found = look();
        let begun = self.begun.load(Ordering::SeqCst);
        match found {
            Some(version) => {
                assert!((stored..=begun).contains(&version), "{version} of {stored} to {begun}");
                version
            }
            None => {
                let is_removed = (stored..=begun).any(|version| !version.is_multiple_of(2));
                assert!(is_removed, "nothing was found of {stored} to {begun}");
                stored | 1
            }
        }
    }
}

/// A value that tells its version, of a length that changes with it, and which cannot be torn unseen.
pub fn value(key: u64, version: u64) -> Vec<u8> {
    let words = if version.is_multiple_of(5) { 600 } else { 1 + (key * 7 + version * 13) % 40 };
    (0..=words).flat_map(|_| (key << 32 | version).to_le_bytes()).collect()
}

/// The version that a value tells.
pub fn version(key: u64, value: &[u8]) -> u64 {
    let (words, rest) = value.as_chunks::<8>();
    let word = u64::from_le_bytes(words[0]);
    assert!(rest.is_empty() && words.iter().all(|other| *other == words[0]), "a torn value");
    assert_eq!(word >> 32, key, "the value of another key");
    word & 0xffff_ffff
}
