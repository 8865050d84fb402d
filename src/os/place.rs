//! Where files are: paths that mean the same later on.
//!
//! Folders are given other names while a file is built in them, and programs go to other folders. A [`Place`] holds its
//! folder open, and finds what it is called at the moment.

use super::file::{FileId, is_same};
use crate::{Error, Result};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A path of which the folder may be given another name.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// `None` where it could not be opened: then the path is taken as it is.
    folder: Option<Arc<File>>,
}

impl Place {
    /// Whatever folder the program goes to, and whatever becomes of that of `path`.
    ///
    /// # Errors
    /// There is no such folder, or it may not be read.
    pub(crate) fn new(path: PathBuf) -> Result<Place> {
        let path = whole_path(path);
        let folder = Some(Arc::new(open_folder_of(&path)?));
        Ok(Place { path, folder })
    }

    /// The same where `path` will do if the folder cannot be opened.
    pub(crate) fn near(path: &Path) -> Place {
        let path = whole_path(path.to_owned());
        let folder = open_folder_of(&path).ok().map(Arc::new);
        Place { path, folder }
    }

    /// That of an open file, wherever it was moved since it was opened at `path`.
    pub(crate) fn of(file: &File, path: &Path) -> Place {
        let now = std::fs::read_link(proc_path(file)).ok();
        let now = now.filter(|now| is_same(file, now.metadata()));
        Place::near(now.as_deref().unwrap_or(path))
    }

    /// Another file of the same folder.
    pub(crate) fn other(&self, path: PathBuf) -> Place {
        Place { path, folder: self.folder.clone() }
    }

    /// Where it was when it was named.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is now.
    pub(crate) fn now(&self) -> PathBuf {
        self.found().unwrap_or_else(|| self.path.clone())
    }

    /// `None` if it is where it was, or nobody can tell.
    fn found(&self) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        if is_same(folder, folder_of(&self.path).metadata()) {
            return None;
        }
        let now = std::fs::read_link(proc_path(folder)).ok()?;
        if is_same(folder, now.metadata()) { Some(now.join(self.path.file_name()?)) } else { None }
    }
}

/// What an open file is called now that was opened at `path`; `None` if it has lost that name, whatever others it has.
pub(crate) fn path_of(file: &File, path: &Path) -> Option<PathBuf> {
    let Ok(now) = std::fs::read_link(proc_path(file)) else { return Some(path.to_owned()) };
    // So the kernel marks a name that is gone; but a file may be called so.
    let is_marked = now.as_os_str().as_bytes().ends_with(b" (deleted)");
    if is_marked && !is_same(file, now.metadata()) { None } else { Some(now) }
}

/// Makes the name of the file at `path` durable.
pub(crate) fn sync_folder_of(path: &Path) -> Result<()> {
    match open_folder_of(path)?.sync_all() {
        // A file system that has nothing to do for it.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        done => {
            done.map_err(|e| Error::io("make the new name durable in the folder of", e).at(path))
        }
    }
}

fn open_folder_of(path: &Path) -> Result<File> {
    let folder = folder_of(path);
    // Nothing else is waited for or opened.
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_CLOEXEC).open(folder);
    opened.map_err(|e| Error::io("open the folder", e).at(folder))
}

/// What a symbolic link leads to, which need not be there; every other path itself. A link stays a link.
pub(super) fn led_to(path: &Path) -> PathBuf {
    if let Ok(whole) = std::fs::canonicalize(path) {
        return whole;
    }
    let mut path = path.to_owned();
    // The kernel follows no more than so many, one after the other.
    for _ in 0..40 {
        let Ok(next) = std::fs::read_link(&path) else { break };
        path = folder_of(&path).join(next);
    }
    path
}

/// The path from the root on, which leads there from whatever folder the program is in. It stays as it is where nobody can
/// follow it from there, as below a folder that this user may not search.
pub(crate) fn whole_path(path: PathBuf) -> PathBuf {
    let id = |path: &Path| std::fs::metadata(folder_of(path)).map(|meta| FileId::of(&meta));
    match std::path::absolute(&path) {
        Ok(whole) if matches!((id(&path), id(&whole)), (Ok(one), Ok(other)) if one == other) => {
            whole
        }
        _ => path,
    }
}

/// The folder that holds `path`.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A path to what is open, whatever it is called: an unnamed file is given a name by it. For this thread only: the process's
/// is of its first thread's files, and another may have others.
pub(super) fn proc_path(file: &File) -> String {
    format!("/proc/thread-self/fd/{}", file.as_raw_fd())
}
