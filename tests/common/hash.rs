//! The hash engine as a [`Subject`].

use super::subject::{Operation, Subject};
use credenza::Result;
use credenza::hash::{Batch, Hash};
use std::path::{Path, PathBuf};

/// Where the data file says which boot of the machine its locks are of.
pub const BOOT_AT: usize = 2048;
/// Where the locks of writers and of those who sync begin.
pub const LOCKS_AT: [usize; 2] = [2176, 2240];
/// Where the log begins.
pub const LOG_AT: usize = 8192;

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

impl Subject for Hash {
    fn open(path: &Path) -> Result<Hash> {
        Hash::create(path)
    }

    fn apply(&self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Insert(key, value) => self.insert(key, value).map(drop),
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
        // As the kernel does for a robust lock: the holder's number goes, a mark comes.
        for at in LOCKS_AT {
            let word = &mut first[at..at + 4];
            let held = u32::from_le_bytes(word.try_into().unwrap());
            if held & 0x3fff_ffff == pid {
                word.copy_from_slice(&(1u32 << 30).to_le_bytes());
            }
        }
    }
}
