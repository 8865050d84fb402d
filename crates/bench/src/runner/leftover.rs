//! Folders of runs that were killed, so that nobody was there to remove them: the next run beside them does.
//!
//! Invariants: a run holds the lock on the file [`ALIVE`] in its folder until it ends, however it ends; the file
//! is not there before it is locked. What belongs to another user, or has no such file, is left alone.

use super::folder::remove;
use crate::progress::say;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the names of all folders begin with.
pub(super) const PREFIX: &str = "credenza-bench-";
/// The file whose lock says that somebody works in its folder.
const ALIVE: &str = "alive";

/// Says that this process works in the folder, as long as what it gives is kept.
///
/// # Errors
/// The file cannot be made or locked.
pub(super) fn claim(folder: &Path) -> io::Result<File> {
    let unnamed = folder.join("alive.new");
    let file = File::create_new(&unnamed)?;
    file.lock()?;
    std::fs::rename(unnamed, folder.join(ALIVE))?;
    Ok(file)
}

/// Removes the folders in `parent` whose runs are gone, as far as that goes, and says so.
pub(super) fn remove_all(parent: &Path, own: &Path) {
    for folder in abandoned(parent, own) {
        remove(&folder);
        if !folder.exists() {
            say!("credenza: removed {}, which a run that was killed had left", folder.display());
        }
    }
}

/// The folders in `parent`, of who has `own`, that somebody claimed and nobody works in.
fn abandoned(parent: &Path, own: &Path) -> Vec<PathBuf> {
    let Ok(user) = own.symlink_metadata().map(|of| of.uid()) else { return Vec::new() };
    let is_named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
    };
    let is_ours = |path: &Path| path.symlink_metadata().is_ok_and(|of| of.uid() == user);
    let entries = std::fs::read_dir(parent).into_iter().flatten();
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_named);
    folders
        .filter(|path| {
            is_ours(path) && path.join(ALIVE).symlink_metadata().is_ok_and(|of| of.is_file())
        })
        .filter(|path| File::open(path.join(ALIVE)).is_ok_and(|file| file.try_lock().is_ok()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_were_claimed_and_are_let_go_are_abandoned() {
        let parent = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let own = made("credenza-bench-own");
        let _own = claim(&own).unwrap();
        let other = made("credenza-bench-other");
        let held = claim(&other).unwrap();
        made("credenza-bench-of-nobody");
        let foreign = made("another");
        drop(claim(&foreign).unwrap());
        assert!(abandoned(parent.path(), &own).is_empty());
        drop(held);
        assert_eq!(abandoned(parent.path(), &own), vec![other.clone()]);
        remove_all(parent.path(), &own);
        assert!(!other.exists() && own.exists() && foreign.exists());
    }
}
