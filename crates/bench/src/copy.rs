//! Copies of store files.
//!
//! Stores have holes: room ahead, a hash table of which few pages are used. A copy that had zeros there
//! would take more than the store, and writing them may take longer than the rest.

use crate::driver::kernel;
use credenza::{Error, Result};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Copies a file into a new one, holes as holes.
pub(crate) fn with_holes(from: &Path, to: &Path) -> io::Result<File> {
    let mut from = File::open(from)?;
    let mut to = File::create_new(to)?;
    for (start, end) in kernel::parts_with_data(&from)? {
        from.seek(SeekFrom::Start(start))?;
        to.seek(SeekFrom::Start(start))?;
        // By file descriptors, so that the kernel copies.
        io::copy(&mut (&from).take(end - start), &mut to)?;
    }
    to.set_len(from.metadata()?.len())?;
    Ok(to)
}

/// Copies the files in a folder and in those below it, also where they are links. What is no file has no
/// content to be lost. Whoever may read a file may write to its copy.
pub(crate) fn all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(|e| Error::io("create", e).at(to))?;
    let list = || fs::read_dir(from)?.collect::<io::Result<Vec<_>>>();
    for entry in list().map_err(|e| Error::io("list", e).at(from))? {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        let kind = path.metadata().map_err(|e| Error::io("look at", e).at(&path))?;
        if kind.is_dir() {
            all(&path, &to)?;
        } else if kind.is_file() {
            with_holes(&path, &to).map_err(|e| Error::io("copy", e).at(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};

    #[test]
    fn holes_stay_holes_and_bytes_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        let file = File::create_new(&one).unwrap();
        let length = 64 << 20;
        for (at, byte) in [(0, 1), (32 << 20, 2), ((48 << 20) + 17, 3)] {
            file.write_all_at(&[byte; 5000], at).unwrap();
        }
        file.set_len(length).unwrap();
        let copied = with_holes(&one, &two).unwrap().metadata().unwrap();
        assert_eq!(copied.len(), length);
        assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap());
        // Where the file system has no holes neither file has any.
        assert!(copied.blocks() <= file.metadata().unwrap().blocks() + 64);
    }

    /// Danger: a copy is another store than what it was made of, or its owner cannot change it.
    #[test]
    fn all_files_are_copied_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("below")).unwrap();
        fs::write(from.join("empty"), "").unwrap();
        fs::write(from.join("below/log"), "log").unwrap();
        fs::set_permissions(from.join("below/log"), fs::Permissions::from_mode(0o444)).unwrap();
        symlink(from.join("below/log"), from.join("link")).unwrap();
        all(&from, &to).unwrap();
        for name in ["empty", "below/log", "link"] {
            assert_eq!(fs::read(from.join(name)).unwrap(), fs::read(to.join(name)).unwrap());
            let copied = to.join(name).symlink_metadata().unwrap();
            assert!(copied.is_file() && !copied.permissions().readonly(), "{name}");
        }
    }

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        fs::write(&one, b"new").unwrap();
        fs::write(&two, b"old").unwrap();
        assert_eq!(with_holes(&one, &two).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&two).unwrap(), b"old");
    }
}
