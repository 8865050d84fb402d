//! Memory of one size that other threads, and other processes, count in while we read it.
//!
//! Invariants: an [`Area`] gives out atomic words and nothing else, so that whatever others write,
//! a read gives some number; a file's area is never longer than the file, and all of its blocks
//! are allocated before it is written, so that a full disk is an error and not SIGBUS.
//!
//! Threads: everything here may be used by any number of threads at once.

#![allow(unsafe_code)]

use super::ballast::Ballast;
use super::file::open_or_make;
use super::holes::allocate;
use crate::{Error, Result};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Words of zeros at first, in memory or in a file.
#[derive(Debug)]
pub(crate) struct Area {
    /// Where each change takes room: who counts has no way to say that there is none. Given back before the map is.
    _ballast: Option<Ballast>,
    map: MmapRaw,
}

impl Area {
    /// Memory of this process; pages that nobody writes take none.
    pub(crate) fn private(len: usize) -> Result<Area> {
        let map = MmapOptions::new().len(len).no_reserve_swap().map_anon();
        let map = map.map_err(|e| Error::io("allocate memory", e))?;
        Ok(Area { map: MmapRaw::from(map), _ballast: None })
    }

    /// The first `len` bytes of `file`, which is open for writing; allocates its blocks first.
    pub(crate) fn of_file(file: &File, len: usize) -> Result<Area> {
        allocate(file, 0, len as u64).map_err(|e| Error::io("allocate room for", e))?;
        let map = MmapOptions::new().len(len).map_raw(file);
        let map = map.map_err(|e| Error::io("map", e))?;
        let start = map.as_mut_ptr() as usize;
        let ballast = Ballast::beside(file, start..start + map.len())?;
        Ok(Area { map, _ballast: ballast })
    }

    /// All whole words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let (start, bytes) = (self.map.as_mut_ptr(), self.map.len());
        // SAFETY: the map lives as long as `self`, may be read and written, and starts on a page,
        // so that its words are aligned. Everybody in this process reaches them through this
        // function alone, as atomics; what other processes write is to us as if by another thread.
        unsafe { std::slice::from_raw_parts(start.cast(), bytes / size_of::<AtomicU64>()) }
    }
}

/// Opens a regular file for reading and writing, or makes it; never follows a symbolic link,
/// which others may have put in its place, and never blocks.
pub(crate) fn open_or_create(path: &Path) -> Result<File> {
    let at = |action, e| Error::io(action, e).at(path);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o666);
    options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOFOLLOW);
    let file = open_or_make(&options, path).map_err(|e| at("open or create", e))?;
    let meta = file.metadata().map_err(|e| at("ask the size of", e))?;
    if meta.is_file() {
        return Ok(file);
    }
    Err(Error::invalid("this is not a regular file; remove it, and a new one is made").at(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_maps_of_a_file_are_the_same_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("area");
        let (one, two) = (open_or_create(&path).unwrap(), open_or_create(&path).unwrap());
        let one = Area::of_file(&one, 4096).unwrap();
        let two = Area::of_file(&two, 4096).unwrap();
        one.words()[3].store(17, Ordering::Relaxed);
        assert_eq!(two.words()[3].load(Ordering::Relaxed), 17);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
    }

    #[test]
    fn links_and_folders_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("victim"), &link).unwrap();
        open_or_create(&link).unwrap_err();
        open_or_create(dir.path()).unwrap_err();
        assert!(!dir.path().join("victim").exists());
    }
}
