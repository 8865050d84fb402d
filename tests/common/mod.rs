//! What several test files share: a random number generator with a printed seed, and records; in
//! files of their own what tests of stores that are written need.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod btree;
pub mod damage;
pub mod full;
pub mod hash;
pub mod history;
pub mod mount;
pub mod pieces;
pub mod power;
pub mod recording;
pub mod sample;
pub mod statistics;
pub mod steps;
pub mod subject;
pub mod sys;

use credenza::ErrorKind;
use std::collections::BTreeMap;
use std::path::Path;

/// Writes another file of that name: processes that other tests fork may have locks of the one before for longer than this
/// process.
pub fn write_anew(path: &Path, bytes: &[u8]) {
    let _ = std::fs::remove_file(path);
    std::fs::write(path, bytes).unwrap();
}

/// Whether a lease was over, and the space needed.
pub fn is_expired<T>(found: &credenza::Result<T>) -> bool {
    matches!(found.as_ref().map_err(|e| e.kind()), Err(ErrorKind::Expired { .. }))
}

/// A small generator; the same seed gives the same numbers for ever.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`, or 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 56) as u8).collect()
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// A key that is in the order of its number.
pub fn ordered(number: u64) -> [u8; 8] {
    number.swap_bytes().to_le_bytes()
}

/// How many rounds a random test does: in the long run so many times as many as usual.
pub fn rounds(usual: u64) -> u64 {
    let times = std::env::var("CREDENZA_TIMES").ok().and_then(|n| n.parse().ok());
    let repeat = std::env::var("CREDENZA_SEED").is_ok();
    if repeat { 1 } else { usual * times.unwrap_or(1) }
}

/// The seed of a round, printed so that a failure can be repeated.
pub fn seed(round: u64) -> u64 {
    let set = std::env::var("CREDENZA_SEED").ok().and_then(|n| n.parse().ok());
    let seed = set.unwrap_or(round + 1);
    println!("CREDENZA_SEED={seed}");
    seed
}

pub type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Records of a random style: fixed or mixed sizes, small or large, unique or with duplicates.
pub fn random_records(rng: &mut Rng) -> Records {
    let count = [0, 1, 2, 30, 300, 3000][rng.below(6) as usize];
    let count = rng.below(count + 1);
    let style = rng.below(8);
    let (fixed_key, fixed_value) = (rng.below(20) as usize, rng.below(30) as usize);
    let distinct = [1, 3, count / 4 + 1, count * 100 + 1][rng.below(4) as usize];
    let times = rng.below(8) + 1;
    (0..count)
        .map(|i| {
            // As many values a key as need no list, so that all records have one size, or any number.
            let id = if style == 7 { i / times } else { rng.below(distinct) };
            // The key's bytes and length follow from its number alone.
            let mut of_key = Rng::new(id.wrapping_mul(77) + style);
            let (key_len, value_len) = match style {
                0 | 7 => (fixed_key.max(3), fixed_value),
                1 => (of_key.below(30) as usize, rng.below(40) as usize),
                2 => (of_key.below(300) as usize, rng.below(300) as usize),
                3 => (16, 256 + rng.below(2000) as usize),
                4 => (of_key.below(12) as usize, [0, 3, 250, 5000][rng.below(4) as usize]),
                5 => (fixed_key.max(3), 0),
                _ => (of_key.below(4) as usize, rng.below(3) as usize * 120),
            };
            (of_key.bytes(key_len), rng.bytes(value_len))
        })
        .collect()
}

/// The same records as a map of vectors.
pub fn model_of(records: &Records) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let mut model = BTreeMap::new();
    for (key, value) in records {
        model.entry(key.clone()).or_insert_with(Vec::new).push(value.clone());
    }
    model
}

/// A command that runs the test named `test` of this program in a process of its own, for which
/// [`is_child`] holds.
pub fn child(test: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env("CREDENZA_CHILD", "1");
    command
}

/// Runs the test named `test` in a process of its own; it has to pass.
pub fn passes_in_child(test: &str) {
    let output = child(test).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {text}", output.status);
}

/// Whether this process was started by [`child`]: what only a child does returns at once if not.
pub fn is_child() -> bool {
    std::env::var_os("CREDENZA_CHILD").is_some()
}

/// What the system says of this process, in bytes: `VmHWM` is its peak memory.
pub fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// Whether a sanitizer has reserved terabytes of addresses for itself: it then uses much memory,
/// too, which is not what is tested.
pub fn is_sanitized() -> bool {
    status("VmPeak") > 1 << 40
}

/// Whether the long tests were asked for.
pub fn is_soak() -> bool {
    std::env::var_os("CREDENZA_SOAK").is_some()
}

/// Writes these bytes to a new file at `path`, with holes where pages are zero.
pub fn write_sparse(path: &Path, bytes: &[u8]) -> std::fs::File {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).unwrap();
    for (page, at) in bytes.chunks(4096).zip((0..).step_by(4096)) {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, at).unwrap();
        }
    }
    file.set_len(bytes.len() as u64).unwrap();
    file
}
