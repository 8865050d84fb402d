//! How far a process has come with its operations: for whoever looks after it has died.
//!
//! Threads: one does the operations and notes them; any may ask.

use super::judge::At;
use credenza::{Error, Result};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts of operations, in memory, and where a file is given also there: what a write call has put into
/// a file outlives the process.
#[derive(Default)]
pub(super) struct Ledger {
    begun: AtomicUsize,
    done: AtomicUsize,
    synced: AtomicUsize,
    file: Option<File>,
}

impl Ledger {
    pub(super) fn new(path: Option<&Path>) -> Result<Ledger> {
        let create = |path: &Path| File::create(path).map_err(|e| Error::io("create", e).at(path));
        Ok(Ledger { file: path.map(create).transpose()?, ..Ledger::default() })
    }

    pub(super) fn begins(&self, number: usize) {
        self.begun.store(number, Ordering::SeqCst);
    }

    /// So many operations have returned.
    pub(super) fn is_done(&self, number: usize) -> Result<()> {
        self.done.store(number, Ordering::SeqCst);
        let Some(file) = &self.file else { return Ok(()) };
        let written = file.write_all_at(&(number as u64).to_le_bytes(), 0);
        written.map_err(|e| Error::io("note what is done", e))
    }

    /// So many operations had returned when a sync began that is over now.
    pub(super) fn is_synced(&self, number: usize) {
        self.synced.store(number, Ordering::SeqCst);
    }

    /// What had returned, as far as it is sure; ask for [`Ledger::begun`] later.
    pub(super) fn done(&self) -> (usize, usize) {
        (self.done.load(Ordering::SeqCst), self.synced.load(Ordering::SeqCst))
    }

    pub(super) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// What a process that is dead has noted in its file, which goes: it is no other's. The operation
    /// after those that had returned may have begun.
    pub(super) fn take(path: &Path) -> Result<At> {
        let bytes = match fs::read(path).and_then(|bytes| fs::remove_file(path).map(|()| bytes)) {
            // It died before it had one.
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|e| Error::io("read", e).at(path))?,
        };
        let done = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
        Ok(At { begun: done + 1, done, synced: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let ledger = Ledger::new(Some(&path)).unwrap();
        ledger.begins(7);
        ledger.is_done(7).unwrap();
        ledger.is_synced(5);
        assert_eq!((ledger.done(), ledger.begun()), ((7, 5), 7));
        assert_eq!(Ledger::take(&path).unwrap(), At { begun: 8, done: 7, synced: 0 });
        assert_eq!(Ledger::take(&path).unwrap(), At { begun: 1, done: 0, synced: 0 });
    }
}
