//! What is in the way of a file that this library makes under a name that nobody chose: as the index of a store, which
//! lies beside it.
//!
//! A file of the user's may have that name, or a link that somebody laid there who wants another's file to be written
//! over. Neither is lost, and no link is followed: it gets another name.

use super::opening::refuse_open;
use super::place::sync_folder_of;
use super::publish::{rename_new, with};
use crate::{Error, Result};
use std::fs::{Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// So much of a file says whose it is.
const HEAD: u64 = 16;
/// So many names are tried.
const NAMES: u32 = 1000;

/// An error if what is at `path` is no file, and so will not make way for one.
pub(crate) fn check_way(path: &Path) -> Result<()> {
    path.symlink_metadata().map_or(Ok(()), |meta| check_movable(path, &meta))
}

fn check_movable(path: &Path, meta: &Metadata) -> Result<()> {
    if meta.is_file() || meta.is_symlink() {
        return Ok(());
    }
    let what = "a file of the store beside it belongs here: give this another name";
    Err(Error::invalid(what).at(path))
}

/// Gives what is at `path` another name, `path` and a number, unless it may be replaced: a file whose first bytes are of
/// this kind, as `is_own` says.
///
/// # Errors
/// It is no file, or a store that somebody has open; or it cannot be read now, or have another name.
pub(crate) fn make_way(path: &Path, is_own: fn(&[u8]) -> bool) -> Result<()> {
    let meta = match path.symlink_metadata() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        meta => meta.map_err(|e| Error::io("look at", e).at(path))?,
    };
    match head_of(path) {
        Ok(head) if is_own(&head) => return Ok(()),
        // A store would not be found by its name any more.
        Ok(_) => refuse_open(path)?,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        // It may be one of these, at another time; a link, and what may not be read, is not.
        Err(e) if meta.is_file() && e.kind() != ErrorKind::PermissionDenied => {
            return Err(Error::io("read", e).at(path));
        }
        _ => {}
    }
    check_movable(path, &meta)?;
    for number in 1..=NAMES {
        match rename_new(path, &with(path, format!(".{number}"))) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            done => {
                done.map_err(|e| Error::io("give another name to", e).at(path))?;
                return sync_folder_of(path);
            }
        }
    }
    let what = "a file of the store beside it belongs here, and there are many that had to make way: remove them";
    Err(Error::invalid(what).at(path))
}

/// The first bytes of the file at `path`, which is no link.
pub(crate) fn head_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
    let mut head = Vec::new();
    options.open(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read, read_link, write};
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_of_others_gets_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store-index");
        let is_own = |head: &[u8]| head.starts_with(b"own");
        let way = || make_way(&path, is_own);
        way().unwrap();
        write(&path, "own file").unwrap();
        way().unwrap();
        assert_eq!(read(&path).unwrap(), b"own file");
        for (number, text) in [(1, "notes"), (2, "")] {
            write(&path, text).unwrap();
            way().unwrap();
            assert!(!path.exists());
            assert_eq!(read(with(&path, format!(".{number}"))).unwrap(), text.as_bytes());
        }
        // A link stays one, whether or not it leads to anything.
        let other = folder.path().join("other");
        for number in [3, 4] {
            symlink(&other, &path).unwrap();
            way().unwrap();
            assert_eq!(read_link(with(&path, format!(".{number}"))).unwrap(), other);
            write(&other, "own too").unwrap();
        }
        assert_eq!(read(&other).unwrap(), b"own too");
        std::fs::create_dir(&path).unwrap();
        assert!(way().unwrap_err().to_string().contains("store-index"));
    }
}
