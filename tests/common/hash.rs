//! The hash engine as a [`Subject`].

use super::subject::{Operation, State, Subject, bury_in};
use credenza::Result;
use credenza::hash::{Batch, Hash, OpenOptions};
use std::path::{Path, PathBuf};

/// Where the data file says which boot of the machine its locks are of.
pub const BOOT_AT: usize = 2048;
/// Where the locks of writers, of those who sync, and of who waits for the disk begin.
pub const LOCKS_AT: [usize; 3] = [2176, 2240, 2432];
/// Where the log begins.
pub const LOG_AT: usize = 8192;

/// The number of the index that belongs to a data file; and of an index.
pub fn index_wanted(data: &[u8]) -> &[u8] {
    &data[BOOT_AT + 72..BOOT_AT + 80]
}

pub fn index_number(index: &[u8]) -> &[u8] {
    &index[32..40]
}

/// The name of a store's index.
pub fn index_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-index");
    name.into()
}

/// Whatever the answer is: it is none of failure.
pub fn must<T>(result: Result<T>) {
    result.unwrap_or_else(|e| panic!("{e}"));
}

pub fn batch_of(changes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Batch {
    let mut batch = Batch::new();
    for (key, value) in changes {
        match value {
            Some(value) => batch.insert(key, value),
            None => batch.remove(key),
        };
    }
    batch
}

/// How to make a store with a limit.
pub fn limited(limit: u64) -> OpenOptions {
    Hash::options().create(true).limit(limit)
}

/// What records take: a header of 8 or 16 bytes, and up to a multiple of eight.
pub fn room(key: &[u8], value: &[u8]) -> u64 {
    let head = if key.len() < 256 && value.len() < 65_536 { 8 } else { 16 };
    (head + key.len() as u64 + value.len() as u64).next_multiple_of(8)
}

/// The same of all records of a store.
pub fn sum(state: &State) -> u64 {
    state.iter().map(|(key, value)| room(key, value)).sum()
}

/// The limit holds for what lives, and the file is in proportion to it.
pub fn check_limit(store: &Hash, limit: u64, what: &str) {
    // Besides twice the limit there are segments that wait, and the space that the file grows by.
    const CONSTANT: u64 = 4 << 20;
    let stats = store.stats().unwrap();
    assert!(stats.live_bytes <= limit, "{what}: {} of {limit}", stats.live_bytes);
    assert!(stats.file_bytes <= 2 * limit + CONSTANT, "{what}: {stats:?}");
}

impl Subject for Hash {
    fn open(path: &Path) -> Result<Hash> {
        Hash::create(path)
    }

    fn apply(&self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Insert(key, value) => self.insert(key, value),
            Operation::Remove(key) => self.remove(key).map(drop),
            Operation::Batch(changes) => self.batch(&batch_of(changes)),
            Operation::Clear => self.clear(),
            Operation::Compact => self.compact(5000).map(drop),
        }
    }

    fn sync(&self) -> Result<()> {
        Hash::sync(self)
    }

    fn verify(&self) -> Result<()> {
        Hash::verify(self, |_, _| ())
    }

    fn len(&self) -> Result<u64> {
        Hash::len(self)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(Hash::get(self, key)?.map(|value| value.to_vec()))
    }

    fn records(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.iter().collect()
    }

    fn files(path: &Path) -> Vec<PathBuf> {
        vec![path.to_owned(), index_of(path)]
    }

    fn reboot(first: &mut [u8]) {
        // No boot that ever was; also where the one there is that of an earlier image.
        if let Some(words) = first.get_mut(BOOT_AT..BOOT_AT + 16) {
            words.fill(0x5a);
        }
    }

    fn bury(first: &mut [u8], pid: u32) {
        bury_in(first, &LOCKS_AT, pid);
    }
}

/// The store at `path` on a full disk, whose index was removed. A process that another test is starting may have that open
/// for a moment still, and the disk has its bytes as long.
pub fn opened_again(path: &Path) -> Hash {
    for _ in 0..500 {
        match Hash::open(path) {
            Err(e) if e.to_string().contains("free some space") => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            done => return done.unwrap(),
        }
    }
    Hash::open(path).unwrap()
}
