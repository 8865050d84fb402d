//! What the kernel is told about reading a map of a file that grows.
//!
//! Invariants: a file that nobody has said anything of is told to be read at random when it takes more than
//! half of the memory, and never back. Advice changes no byte that is read, and what the kernel does not want
//! to hear only costs time.

use super::SharedMap;
use crate::os::atomic::Ordering;
use crate::os::map::{Advice, PIECE_BYTES, page_bytes};
use crate::os::memory::memory_bytes;
use crate::{Error, Result};
#[cfg(test)]
use std::fs::File;
use std::io;
#[cfg(test)]
use std::os::fd::AsRawFd;

/// Nobody has said how the file is read.
pub(super) const UNSAID: i32 = -1;
/// A file of so many bytes is in memory anyway, wherever it is.
const SMALL_BYTES: u64 = 64 << 20;
/// Of so many bytes the last page says whether they are in memory.
const WINDOW: u64 = 1 << 20;

impl SharedMap {
    /// Tells the kernel how the file will be read: its pages that are there, and those that are still to come.
    pub(crate) fn advise(&self, advice: Advice) -> Result<()> {
        let (all, len) = (self.addresses.len(), self.len());
        let how = |how| {
            self.advice.store(how, Ordering::Relaxed);
            self.tell(how, 0, all)
        };
        match advice {
            Advice::Normal => how(libc::MADV_NORMAL),
            Advice::Random => how(libc::MADV_RANDOM),
            Advice::Sequential => how(libc::MADV_SEQUENTIAL),
            Advice::WillNeed => {
                self.begin_reading(0, len);
                Ok(())
            }
            // What is changed in a private map is nowhere else.
            Advice::DontNeed if !self.is_shared => Ok(()),
            Advice::DontNeed => self.tell(libc::MADV_DONTNEED, 0, len),
        }
    }

    /// Where nobody has said anything, a file that takes more than half of the memory is taken to be read at
    /// random: else the kernel reads the neighbours of each page along, and what is used makes place for them.
    #[inline]
    pub(super) fn advise_by_size(&self, len: u64) {
        if len > SMALL_BYTES && self.advice.load(Ordering::Relaxed) == UNSAID {
            self.advise_if_large(len, memory_bytes());
        }
    }

    #[cold]
    fn advise_if_large(&self, len: u64, memory: u64) {
        let (before, after) = (UNSAID, libc::MADV_RANDOM);
        let is_first = || {
            self.advice
                .compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        if len > memory / 2 && is_first() {
            // A kernel that does not listen is merely slower.
            let _ = self.tell(after, 0, self.addresses.len());
        }
    }

    /// Whether the kernel was told that pages are read at random, so that it reads no others along.
    #[inline]
    pub(crate) fn is_random(&self) -> bool {
        self.advice.load(Ordering::Relaxed) == libc::MADV_RANDOM
    }

    /// For who reads a range one piece after the other although pages are said to be read at random: has the
    /// kernel begin to read what is not in memory of it.
    pub(crate) fn will_need(&self, from: u64, to: u64) {
        if !self.is_random() {
            return;
        }
        let page = page_bytes() as u64;
        let (from, to) = (from - from % page, to.min(self.len()));
        for window in (from..to).step_by(WINDOW as usize) {
            let end = to.min(window + WINDOW);
            if self.is_in_memory(end - 1) {
                continue;
            }
            self.begin_reading(window, end);
        }
    }

    /// For a range that begins with a page; only a hint. The kernel may forget what is more at a time.
    fn begin_reading(&self, from: u64, to: u64) {
        for piece in (from..to).step_by(PIECE_BYTES as usize) {
            let _ = self.tell(libc::MADV_WILLNEED, piece, to.min(piece + PIECE_BYTES));
        }
    }

    /// Whether the page of a byte is known to be in memory.
    pub(crate) fn is_in_memory(&self, at: u64) -> bool {
        let at = at - at % page_bytes() as u64;
        if at >= self.len() {
            return true;
        }
        let mut state = 0;
        // SAFETY: the page begins within the map; the kernel writes one byte for it.
        unsafe { libc::mincore(self.base.as_ptr().add(at as usize).cast(), 1, &raw mut state) };
        self.shows_pages && state & 1 == 1
    }

    /// For a range that begins with a page.
    fn tell(&self, advice: i32, from: u64, to: u64) -> Result<()> {
        // SAFETY: the range lies within the map, and no byte that is read through it changes: pages of a
        // shared map of a file that are dropped are read again from it.
        let rc = unsafe {
            let start = self.base.as_ptr().add(from as usize).cast();
            libc::madvise(start, (to - from) as usize, advice)
        };
        if rc == 0 {
            return Ok(());
        }
        Err(Error::io("advise the kernel about", io::Error::last_os_error()))
    }

    /// Has the kernel told the same of this file as of another, as far as it listens.
    pub(crate) fn advise_as(&self, other: &SharedMap) {
        let advice = match other.advice.load(Ordering::Relaxed) {
            libc::MADV_RANDOM => Advice::Random,
            libc::MADV_SEQUENTIAL => Advice::Sequential,
            libc::MADV_NORMAL => Advice::Normal,
            _ => return,
        };
        let _ = self.advise(advice);
    }
}

/// Has the kernel forget what it has of a file, where that is on a disk.
#[cfg(test)]
pub(crate) fn drop_from_memory(file: &File) -> Result<()> {
    file.sync_all().map_err(|e| Error::io("make durable", e))?;
    // SAFETY: the descriptor is open; the call takes no pointers.
    let rc = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if rc == 0 { Ok(()) } else { Err(Error::io("drop", io::Error::from_raw_os_error(rc))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_large_file_of_which_nobody_said_anything_counts_as_read_at_random() {
        let map = || {
            let file = tempfile::tempfile().unwrap();
            file.set_len(1 << 20).unwrap();
            SharedMap::new(file, true, 1 << 20).unwrap()
        };
        let (said, unsaid) = (map(), map());
        said.advise(Advice::Normal).unwrap();
        for map in [&said, &unsaid] {
            map.advise_by_size(1 << 20);
            map.advise_if_large(1 << 20, 2 << 20);
            assert!(!map.is_random());
        }
        unsaid.advise_if_large(1 << 20, (2 << 20) - 1);
        assert!(unsaid.is_random());
        said.advise_by_size(u64::MAX);
        assert!(!said.is_random());
    }

    #[test]
    fn what_is_needed_of_a_file_that_is_read_at_random_comes_from_the_disk() {
        let len = 4 << 20;
        // Beside the program: what is for temporary files may be memory itself, which drops nothing.
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR"));
        let file = file.or_else(|_| tempfile::tempfile()).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![7; len as usize], 0).unwrap();
        drop_from_memory(&file).unwrap();
        let map = SharedMap::new(file, true, len).unwrap();
        if map.is_in_memory(0) {
            return; // A file system without a disk behind it.
        }
        map.will_need(0, len);
        assert!(!map.is_in_memory(len - 1), "the kernel was not told anything else");
        map.advise(Advice::Random).unwrap();
        map.will_need(1 << 20, u64::MAX);
        let begun = std::time::Instant::now();
        while !map.is_in_memory(len - 1) {
            assert!(begun.elapsed().as_secs() < 60, "nothing was read");
            std::thread::yield_now();
        }
        assert!(!map.is_in_memory(0), "what was not asked for was read");
    }
}
