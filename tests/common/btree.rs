//! The btree engine as a [`Subject`].

use super::subject::{Operation, Subject};
use credenza::btree::BTree;
use credenza::{Get, Result, Scan};
use std::path::{Path, PathBuf};

/// Where the file says which boot of the machine its locks are of.
pub const BOOT_AT: usize = 2048;
/// Where the locks of writers and of those who sync begin.
pub const LOCKS_AT: [usize; 2] = [2176, 2240];

impl Subject for BTree {
    fn open(path: &Path) -> Result<BTree> {
        BTree::create(path)
    }

    fn apply(&self, operation: &Operation) -> Result<()> {
        let mut transaction = self.write()?;
        let mut table = transaction.main();
        match operation {
            Operation::Insert(key, value) => drop(table.insert(key, value)?),
            Operation::Remove(key) => drop(table.remove(key)?),
            Operation::Batch(changes) => {
                for (key, value) in changes {
                    match value {
                        Some(value) => drop(table.insert(key, value)?),
                        None => drop(table.remove(key)?),
                    }
                }
            }
            Operation::Clear => table.clear()?,
            // Nothing to move here: the disk is waited for instead, so that pages become free.
            Operation::Compact => {
                drop(transaction);
                return self.sync();
            }
        }
        transaction.commit()
    }

    fn sync(&self) -> Result<()> {
        BTree::sync(self)
    }

    fn verify(&self) -> Result<()> {
        BTree::verify(self, |_, _| ())
    }

    fn len(&self) -> Result<u64> {
        Scan::len(self)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(Get::get(self, key)?.map(|value| value.to_vec()))
    }

    fn records(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut records = Vec::new();
        self.scan(|key, value| {
            records.push((key.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Ok(records)
    }

    fn files(path: &Path) -> Vec<PathBuf> {
        vec![path.to_owned()]
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
