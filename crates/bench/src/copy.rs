//! Copies of store files.
//!
//! Stores have holes: room ahead, a hash table of which few pages are used. A copy that had zeros there
//! would take more than the store, and writing them may take longer than the rest.

use crate::driver::kernel;
use std::fs::File;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

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
        assert!(std::fs::read(&one).unwrap() == std::fs::read(&two).unwrap());
        // Where the file system has no holes neither file has any.
        assert!(copied.blocks() <= file.metadata().unwrap().blocks() + 64);
    }

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        std::fs::write(&one, b"new").unwrap();
        std::fs::write(&two, b"old").unwrap();
        assert_eq!(with_holes(&one, &two).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&two).unwrap(), b"old");
    }
}
