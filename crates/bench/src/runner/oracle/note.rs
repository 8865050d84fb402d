//! What the comparing process is about to ask of which store, in a file: when a library takes the process
//! with it, the parent reads there whose call it was. Every call costs a write, as nothing is timed.

use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A question to all stores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The number of the operation, from 1; in a full check, of the last one before it, and 0 before
    /// there was one.
    pub(super) operation: u64,
    pub(super) what: String,
    /// The key it is about, escaped.
    pub(super) key: String,
}

/// Before the question: the number of the store that is asked.
const STORE_BYTES: usize = 4;

/// The file, for the process that writes it.
pub(super) struct Note(File);

impl Note {
    /// Where it is, in the folder of the comparison.
    fn path(folder: &Path) -> PathBuf {
        folder.join("asked")
    }

    pub(super) fn create(folder: &Path) -> Result<Note> {
        let path = Note::path(folder);
        File::create(&path).map(Note).map_err(|e| Error::io("create", e).at(&path))
    }

    /// All stores are going to be asked this.
    pub(super) fn question(&self, asked: &Asked) -> Result<()> {
        let text = serde_json::to_vec(asked).map_err(|e| Error::invalid(e.to_string()))?;
        let write = || {
            self.0.set_len(STORE_BYTES as u64)?;
            self.0.write_all_at(&text, STORE_BYTES as u64)
        };
        write().map_err(|e| Error::io("write what is asked", e))
    }

    /// The store of this number is asked now.
    pub(super) fn store(&self, number: usize) -> Result<()> {
        let number = (number as u32).to_le_bytes();
        self.0.write_all_at(&number, 0).map_err(|e| Error::io("write what is asked", e))
    }

    /// Which store was asked last, and what; none if there was no question yet.
    pub(super) fn read(folder: &Path) -> Option<(usize, Asked)> {
        let bytes = std::fs::read(Note::path(folder)).ok()?;
        let (number, text) = bytes.split_first_chunk::<STORE_BYTES>()?;
        Some((u32::from_le_bytes(*number) as usize, serde_json::from_slice(text).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_question_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Note::read(folder.path()), None);
        let note = Note::create(folder.path()).unwrap();
        assert_eq!(Note::read(folder.path()), None);
        let asked =
            |operation, key: &str| Asked { operation, what: "get".to_owned(), key: key.to_owned() };
        note.question(&asked(1, &"long ".repeat(100))).unwrap();
        note.store(7).unwrap();
        note.question(&asked(2, "short")).unwrap();
        note.store(1).unwrap();
        assert_eq!(Note::read(folder.path()), Some((1, asked(2, "short"))));
    }
}
