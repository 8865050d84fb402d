//! How a new file takes the place of an old one.
//!
//! Order, so that a reader, a killed process and a power cut see the old file or the new one and
//! nothing else: write an unnamed (or, where the filesystem cannot, a temporarily named) file in
//! the target's folder; fdatasync it; name it; rename it over the target; fsync the folder.
//!
//! The unnamed file (`O_TMPFILE`) is why a builder killed at any moment leaves nothing behind:
//! only between naming and renaming, two system calls, could a stray name survive.

#![allow(unsafe_code)]

use crate::{Error, Result};
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The mode of a file that only its owner may read.
const OWN: u32 = 0o600;

/// A file being written that will replace `target`; dropped unpublished, it leaves nothing.
#[derive(Debug)]
pub struct Staged {
    file: File,
    target: PathBuf,
    /// The temporary name, where the filesystem has no unnamed files.
    named: Option<PathBuf>,
}

impl Staged {
    /// Starts a new file beside `target`, which need not exist.
    ///
    /// # Errors
    /// The folder is missing or may not be written, or `target` is not a regular file.
    pub fn create(target: impl AsRef<Path>) -> Result<Staged> {
        let target = target.as_ref();
        if let Ok(meta) = std::fs::metadata(target)
            && !meta.is_file()
        {
            let what = "only a regular file can be replaced; name another target";
            return Err(Error::invalid(what).at(target));
        }
        // A symbolic link stays a link: what it points to is replaced.
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if target.file_name().is_none() {
            return Err(Error::invalid("this does not name a file").at(target));
        }
        let (file, named) = create_beside(&target)?;
        Ok(Staged { file, target, named })
    }

    /// Gives the file the mode (and, where allowed, owner) of one that it belongs to; that of a file which is
    /// replaced comes before.
    pub(crate) fn belongs_to(&self, other: &File) -> io::Result<()> {
        give_mode(&self.file, &other.metadata()?)
    }

    /// The file to write; it is also readable.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes the written bytes durable and puts them in the target's place, with the mode (and,
    /// where allowed, owner) of the file that is replaced.
    ///
    /// # Errors
    /// The disk is full or failed, or the folder may not be written: the old file is untouched.
    pub fn publish(mut self) -> Result<()> {
        keep_mode(&self.file, &self.target)?;
        if let Err(e) = self.file.sync_data() {
            return Err(Error::io("make durable", e).at(&self.target));
        }
        let temporary = match self.named.take() {
            Some(path) => path,
            None => link_unnamed(&self.file, &self.target)?,
        };
        replace(&temporary, &self.target)
    }
}

/// Gives a file the mode (and, where allowed, owner) of the one at `target`, if there is one.
pub(crate) fn keep_mode(file: &File, target: &Path) -> Result<()> {
    let Ok(old) = std::fs::metadata(target) else { return Ok(()) };
    let done = give_mode(file, &old);
    done.map_err(|e| Error::io("keep the permissions of", e).at(target))
}

/// Gives a file the mode of another, and its owner and group as far as that is allowed. Only root may give a
/// file away, but who belongs to its group may keep that; what a group had is no other group's, which has what
/// all others have.
fn give_mode(file: &File, old: &Metadata) -> io::Result<()> {
    let mut mode = old.mode() & 0o7777;
    if fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
        let has_group = fchown(file, None, Some(old.gid())).is_ok();
        mode &= 0o777;
        if !has_group {
            mode = mode & 0o707 | (mode & 0o7) << 3;
        }
    }
    // Not all file systems have modes to be set.
    match file.metadata()?.mode() & 0o7777 == mode {
        true => Ok(()),
        false => file.set_permissions(Permissions::from_mode(mode)),
    }
}

/// Puts what is called `temporary`, and is durable, in the place of `target`, in the same folder;
/// if that fails it is removed.
pub(crate) fn replace(temporary: &Path, target: &Path) -> Result<()> {
    if let Err(e) = std::fs::rename(temporary, target) {
        let _ = std::fs::remove_file(temporary);
        return Err(Error::io("replace", e).at(target));
    }
    sync_folder_of(target)
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(path) = &self.named {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// An unnamed file beside `target`, for data that does not fit in memory; gone when closed.
pub(crate) fn scratch_beside(target: &Path) -> Result<File> {
    let (file, named) = create_beside(target)?;
    if let Some(path) = named {
        std::fs::remove_file(&path).map_err(|e| Error::io("unlink", e).at(&path))?;
    }
    Ok(file)
}

/// Makes the name of the file at `path` durable.
pub(crate) fn sync_folder_of(path: &Path) -> Result<()> {
    let done = File::open(folder_of(path)).and_then(|folder| folder.sync_all());
    done.map_err(|e| Error::io("make the new name durable in the folder of", e).at(path))
}

/// The folder that holds `path`.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new file in the folder of `target`: unnamed where the filesystem can, else with a name.
fn create_beside(target: &Path) -> Result<(File, Option<PathBuf>)> {
    let folder = folder_of(target);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o666);
    #[cfg(target_os = "linux")]
    match options.clone().custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC).open(folder) {
        Ok(file) => return Ok((file, None)),
        // Filesystems without unnamed files say one of these; anything else is the user's error.
        Err(e)
            if matches!(
                e.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL | libc::ENOENT)
            ) && folder.is_dir() => {}
        Err(e) => return Err(Error::io("create a file in the folder", e).at(folder)),
    }
    named_beside(target).map(|(file, path)| (file, Some(path)))
}

/// A new, empty file with a temporary name beside `target`. If there is one, whose mode nobody looks at
/// yet, it is for its maker alone until [`keep_mode`]; else it has the mode of any new file in the folder.
pub(crate) fn named_beside(target: &Path) -> Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    let mode = if target.exists() { OWN } else { 0o666 };
    options.read(true).write(true).create_new(true).mode(mode);
    let made = with_new_name(target, |path| options.open(path));
    made.map_err(|e| Error::io("create a file in the folder", e).at(folder_of(target)))
}

/// Gives the unnamed `file` a temporary name beside `target`.
fn link_unnamed(file: &File, target: &Path) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let link = |path: &Path| {
        let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let to = CString::new(path.as_os_str().as_bytes())?;
        let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
        // SAFETY: both paths are NUL-terminated strings that live across the call.
        let rc = unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    let named = with_new_name(target, link).map(|((), path)| path);
    named.map_err(|e| Error::io("name the new file", e).at(target))
}

/// Does `make` with a name beside `target` that nobody has: one that somebody left who was killed, and had
/// the number of this process, is passed over.
fn with_new_name<T>(
    target: &Path,
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(T, PathBuf)> {
    loop {
        let path = temporary_name(target);
        match make(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done.map(|made| (made, path)),
        }
    }
}

/// A name beside `target` that no other file of this process has. Of a long name only the beginning is in
/// it, for names may have 255 bytes.
fn temporary_name(target: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    let whole = target.file_name().unwrap_or_default().as_bytes();
    name.push(OsStr::from_bytes(whole.get(..200).unwrap_or(whole)));
    let serial = COUNTER.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}.{serial}.tmp", std::process::id()));
    folder_of(target).join(name)
}
