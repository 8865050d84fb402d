//! The addresses at which a file is mapped for reading only.
//!
//! Invariant: they stay as they are until the value is dropped. Threads: any may read there.

#![allow(unsafe_code)]

use super::huge::{HUGE, POPULATE_READ, can_be_huge, map_aligned, put_together, unmap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// The first bytes of a file, mapped.
#[derive(Debug)]
pub(super) struct FileMap {
    base: NonNull<u8>,
    len: usize,
    /// Whether it can have huge pages, and the file, too.
    can_be_huge: bool,
}

// SAFETY: the map stays where it is until this is dropped, and is only read.
unsafe impl Send for FileMap {}
// SAFETY: as above.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps the first `len` bytes, of which there is at least one. They may be read as long as the file has them.
    pub(super) fn new(file: &File, len: usize) -> io::Result<FileMap> {
        let base = map_aligned(file, libc::PROT_READ, libc::MAP_SHARED, len)?;
        let can_be_huge = base.addr().get().is_multiple_of(HUGE) && can_be_huge(file);
        Ok(FileMap { base, len, can_be_huge })
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.base.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Tells the kernel how the pages of a part are used. What it then does with pages of a file that are only read
    /// changes nothing that is read.
    pub(super) fn advise(&self, advice: i32, part: Range<usize>) -> io::Result<()> {
        // Of others some would change the file.
        const HARMLESS: [i32; 6] = [
            libc::MADV_NORMAL,
            libc::MADV_RANDOM,
            libc::MADV_SEQUENTIAL,
            libc::MADV_WILLNEED,
            libc::MADV_DONTNEED,
            POPULATE_READ,
        ];
        if !HARMLESS.contains(&advice) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let part = part.start.min(self.len)..part.end.min(self.len);
        // SAFETY: the part lies within the map; pages that are dropped are read again from the file.
        done(unsafe {
            libc::madvise(self.base.as_ptr().add(part.start).cast(), part.len(), advice)
        })
    }

    pub(super) fn can_be_huge(&self) -> bool {
        self.can_be_huge
    }

    /// Has the pages be huge ones where they can: those that `file`, if others may cut it, still has.
    pub(super) fn put_together(&self, file: Option<&File>) {
        let len_of = |file: &File| file.metadata().map_or(0, |meta| meta.len() as usize);
        let len = || file.map_or(self.len, len_of).min(self.len);
        if self.can_be_huge {
            // SAFETY: these are the addresses of the map.
            unsafe { put_together(self.base.as_ptr(), len) }
        }
    }

    /// Keeps the pages in memory until this is dropped.
    pub(super) fn lock(&self) -> io::Result<()> {
        // SAFETY: these are the addresses of the map; no byte is changed.
        done(unsafe { libc::mlock(self.base.as_ptr().cast(), self.len) })
    }
}

fn done(rc: i32) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        unmap(self.base, self.len);
    }
}
