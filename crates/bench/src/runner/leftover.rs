//! Folders of runs that were killed, so that nobody was there to remove them: the next run beside them does.
//!
//! Invariants: a run holds the lock on the file [`ALIVE`] in its folder until it ends, however it ends; the file
//! is not there before it is locked, and is the last to be removed. What belongs to another user, has no such
//! file, or is of another machine or another start of this one, is left alone: locks may not reach so far.

use super::folder::remove;
use crate::progress::say;
use std::fs::File;
use std::io::{self, Write};
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
    let mut file = File::create_new(&unnamed)?;
    file.lock()?;
    file.write_all(boot()?.as_bytes())?;
    std::fs::rename(unnamed, folder.join(ALIVE))?;
    Ok(file)
}

/// Which start of which machine this is.
fn boot() -> io::Result<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
}

/// Empties a folder, of the file that says that it is in use at last: who is stopped meanwhile leaves what
/// another removes.
pub(super) fn empty(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name() != ALIVE && std::fs::remove_dir_all(&path).is_err() {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Removes the folders in `parent` whose runs are gone, as far as that goes, and says so.
pub(super) fn remove_all(parent: &Path) {
    for folder in abandoned(parent) {
        remove(&folder);
        if !folder.exists() {
            say!("credenza: removed {}, which a run that was killed had left", folder.display());
        }
    }
}

/// The folders of this user in `parent` that somebody claimed and nobody works in.
fn abandoned(parent: &Path) -> Vec<PathBuf> {
    // What a process shows of itself belongs to its user.
    let user = Path::new("/proc/self").metadata().map(|of| of.uid());
    let (Ok(user), Ok(boot)) = (user, boot()) else { return Vec::new() };
    let is_named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
    };
    let is_ours = |path: &Path| path.symlink_metadata().is_ok_and(|of| of.uid() == user);
    let entries = std::fs::read_dir(parent).into_iter().flatten();
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_named);
    let is_let_go = |folder: &Path| -> io::Result<bool> {
        let path = folder.join(ALIVE);
        if !path.symlink_metadata()?.is_file() || std::fs::read_to_string(&path)? != boot {
            return Ok(false);
        }
        // Some filesystems lock only what may be written.
        let file = File::options().read(true).write(true).open(path)?;
        Ok(file.try_lock().is_ok())
    };
    folders.filter(|path| is_ours(path) && is_let_go(path).unwrap_or(false)).collect()
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
        let elsewhere = made("credenza-bench-elsewhere");
        let of_elsewhere = claim(&elsewhere).unwrap();
        std::fs::write(elsewhere.join(ALIVE), "another start").unwrap();
        of_elsewhere.unlock().unwrap();
        made("credenza-bench-of-nobody");
        let foreign = made("another");
        claim(&foreign).unwrap().unlock().unwrap();
        assert!(abandoned(parent.path()).is_empty());
        // Closing it would leave it to a process that another test is just starting.
        held.unlock().unwrap();
        assert_eq!(abandoned(parent.path()), vec![other.clone()]);
        remove_all(parent.path());
        assert!(!other.exists() && own.exists() && foreign.exists() && elsewhere.exists());
    }
}
