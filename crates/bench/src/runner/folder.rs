//! The folder of a run: everything in it goes when the run ends, or is stopped by a signal. The first
//! signal within the rounds of `bench` ends them, and what is finished is reported; so it is with who else
//! has called `begin`. Any other leaves at once, with a line that says so.
//!
//! A run that was killed could remove nothing: the next one in the same place does ([`super::leftover`]).
//!
//! Threads: the handler of signals runs on a thread of its own, and finds all folders of this
//! process with the measured processes that write to them.

use super::process::Current;
use super::{leftover, limit};
use crate::driver::kernel;
use crate::progress::say;
use crate::report::outputs::no_folder;
use credenza::{Error, Result};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Every folder that is to go, with the process that may be writing to it.
static FOLDERS: Mutex<Vec<(PathBuf, Current)>> = Mutex::new(Vec::new());

fn folders() -> MutexGuard<'static, Vec<(PathBuf, Current)>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new folder with a name of its own.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
    current: Current,
    /// Says that it is in use; without locks on this filesystem nobody will think that it is not.
    _alive: Option<File>,
}

impl Folder {
    /// A folder in `parent`, which `--dir` names.
    ///
    /// # Errors
    /// There can be no folder, or the processes that are to work in it cannot be told of it.
    pub(crate) fn create_in(parent: &Path) -> Result<Folder> {
        let path = resolved(parent);
        if path.to_str().is_none() {
            let what = "--dir: the path of this folder is no UTF-8, as it must be: name another";
            return Err(Error::invalid(what).at(path));
        }
        Folder::named_by("--dir", parent)
    }

    /// The same where another option names it. Its path goes through no symbolic link: so the kernel names
    /// what is in it, and so do libraries that leave something elsewhere.
    pub(crate) fn named_by(option: &str, parent: &Path) -> Result<Folder> {
        clean_up_on_signals();
        let resolved = resolved(parent);
        // With the list locked the handler either sees the folder or comes before it.
        let mut all = folders();
        let folder = tempfile::Builder::new().prefix(leftover::PREFIX).tempdir_in(&resolved);
        let folder = folder.map_err(|e| match e.kind() {
            ErrorKind::NotFound if !parent.exists() => no_folder(option, parent),
            ErrorKind::NotFound => {
                let what =
                    format!("{option}: the system makes no folders in this one: name another");
                Error::invalid(what).at(parent)
            }
            _ => Error::io("create a folder in", e).at(parent),
        })?;
        let current = Current::in_folder(folder.path());
        all.push((folder.path().to_owned(), current.clone()));
        drop(all);
        let alive = leftover::claim(folder.path()).ok();
        leftover::remove_all(&resolved);
        Ok(Folder { folder, current, _alive: alive })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The process that is being measured in this folder.
    pub(crate) fn current(&self) -> &Current {
        &self.current
    }

    /// The folder of one store.
    pub(crate) fn of(&self, store: &str) -> PathBuf {
        self.path().join(file_name(store))
    }

    /// Removes the folder of one store, if there is one.
    pub(crate) fn clear(&self, store: &str) -> Result<()> {
        match std::fs::remove_dir_all(self.of(store)) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(Error::io("empty", e).at(self.of(store)))
            }
            _ => Ok(()),
        }
    }

    /// An empty folder for one store.
    pub(crate) fn empty(&self, store: &str) -> Result<PathBuf> {
        self.clear(store)?;
        let path = self.of(store);
        std::fs::create_dir(&path).map_err(|e| Error::io("create", e).at(&path))?;
        Ok(path)
    }
}

/// A path without symbolic links. What is wrong with one that cannot be resolved is said when something is
/// made in it.
fn resolved(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// The name of a store as that of a folder: the address of a server has `/` in it.
pub(crate) fn file_name(store: &str) -> String {
    store.replace(['/', '?'], "-")
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(self.path());
        folders().retain(|(path, _)| path != self.folder.path());
    }
}

/// Removes a folder, and what MDBM keeps elsewhere of locks on stores in it.
pub(super) fn remove(folder: &Path) {
    leftover::empty(folder);
    // The process that was stopped may just have made another file: then a second look removes it.
    if std::fs::remove_dir_all(folder).is_err() {
        let _ = std::fs::remove_dir_all(folder);
    }
    if let Ok(below) = folder.strip_prefix("/") {
        // Most often there is nothing of the kind.
        let _ = std::fs::remove_dir_all(Path::new("/tmp/.mlock-named").join(below));
    }
}

fn clean_up_on_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A program that handles signals itself keeps its handler.
        let handler = ctrlc::set_handler(|| {
            let all = folders();
            if all.iter().filter(|(_, process)| process.stop()).count() > 0 {
                return;
            }
            all.iter().for_each(|(path, _)| remove(path));
            limit::remove_all();
            say!("credenza: stopped");
            std::process::exit(130);
        });
        // They go to the handler's thread, which is there by now.
        if handler.is_ok() {
            kernel::leave_signals_to_others();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_folder_behind_a_link_has_the_name_that_the_kernel_gives_it() {
        let real = tempfile::tempdir().unwrap();
        let link = real.path().join("link");
        std::os::unix::fs::symlink(real.path(), &link).unwrap();
        let folder = Folder::create_in(&link).unwrap();
        assert_eq!(folder.path(), folder.path().canonicalize().unwrap());
    }

    #[test]
    fn a_folder_whose_path_cannot_be_told_is_refused_by_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let other = parent.path().join(OsStr::from_bytes(b"\xff"));
        std::fs::create_dir(&other).unwrap();
        let refused = Folder::create_in(&other).err().unwrap().to_string();
        assert!(refused.contains("--dir: the path of this folder is no UTF-8"), "{refused}");
    }
}
