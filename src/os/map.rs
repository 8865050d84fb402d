//! Read-only memory: a mapped file, or a private copy of it in huge pages.
//!
//! Invariant: a [`Map`] never extends past the end the file had when it was mapped, so that
//! reading it cannot raise SIGBUS unless somebody truncates the file in place. Files of this
//! library are replaced by rename and never truncated; whoever cannot promise that opens with
//! [`Access::Read`].
//!
//! Threads: a map is immutable and may be read by any number of threads.

#![allow(unsafe_code)]

use super::file::buffer;
use super::file_map::FileMap;
use super::holes::lacks_pages;
#[cfg(target_os = "linux")]
use super::huge::POPULATE_READ;
use super::huge::{HUGE, HUGE_FROM};
use crate::{Error, Result};
use memmap2::MmapMut;
use std::fs::File;
use std::ops::Range;
use std::ptr::NonNull;

/// How a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Through a read-only memory map: no copies, the fastest. If another program truncates the
    /// file in place, the next access to the lost part ends this process with SIGBUS; replacing
    /// the file by rename, as every tool of this library does, is always safe. A file with holes in a file
    /// system in memory (tmpfs), such as a sparse copy, is read as by `Read`: its missing pages would be
    /// made when they are looked at, and where there is no room for them that ends the process, too.
    #[default]
    Map,
    /// With `pread`, copying: a file truncated behind our back is an error and nothing worse.
    Read,
    /// Copied once into private memory backed by huge pages where the kernel grants them: as
    /// fast as memory gets, independent of the file, and uses as much memory as the file is long.
    Memory,
}

impl Access {
    /// How to read a file that this was asked for.
    pub(crate) fn to(self, file: &File) -> Result<Access> {
        let meta = file.metadata().map_err(|e| Error::io("ask the size of", e))?;
        let is_unsafe = self == Access::Map && lacks_pages(file, &meta);
        Ok(if is_unsafe { Access::Read } else { self })
    }
}

/// What to tell the kernel about coming accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// The kernel's default read-ahead.
    Normal,
    /// Single lookups in a file larger than memory: read one page for a fault, not its neighbours.
    Random,
    /// One pass from start to end.
    Sequential,
    /// The whole file is wanted soon: start reading it in the background.
    WillNeed,
    /// Not wanted any more: pages may be dropped; they are read again when touched.
    DontNeed,
}

/// How much of a file is in memory. Of a file that this user neither owns nor may write to, Linux says that all of
/// it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Bytes in memory, counted in whole pages.
    pub resident: u64,
    /// Bytes of the whole map, counted in whole pages.
    pub total: u64,
}

/// Bytes of which the kernel will read all when told that they are needed.
pub(crate) const PIECE_BYTES: u64 = 128 << 10;

/// Read-only bytes of a whole file.
#[derive(Debug)]
pub(crate) struct Map {
    memory: Memory,
    /// The bytes of `memory` that belong to the file: looked up here, a lookup need not ask which
    /// of the two it is.
    start: *const u8,
    len: usize,
}

#[derive(Debug)]
enum Memory {
    Nothing,
    File(FileMap),
    Copy(MmapMut),
}

// SAFETY: the pointer leads into the map that the value owns, which is never written again.
unsafe impl Send for Map {}
// SAFETY: as above: shared access is reading only.
unsafe impl Sync for Map {}

impl Map {
    /// A map of no bytes.
    pub(crate) fn nothing() -> Map {
        Map { start: NonNull::dangling().as_ptr(), len: 0, memory: Memory::Nothing }
    }

    /// Maps the first `len` bytes of `file`, which must not be shorter.
    pub(crate) fn of_file(file: &File, len: u64) -> Result<Map> {
        let len = to_usize(len)?;
        if len == 0 {
            return Ok(Map::nothing());
        }
        let map = FileMap::new(file, len).map_err(|e| Error::io("map", e))?;
        Ok(Map { start: map.as_ptr(), len: map.len(), memory: Memory::File(map) })
    }

    /// Copies the first `len` bytes of `file` into huge pages, where the kernel grants them.
    pub(crate) fn copy_of(file: &File, len: u64) -> Result<Map> {
        let len = to_usize(len)?;
        let mut map = huge_buffer(len).map_err(|e| Error::io("allocate memory", e))?;
        let buf = map.get_mut(..len).unwrap_or_default();
        super::file::read_exact_at(file, buf, 0)?;
        Ok(Map { start: map.as_ptr(), len, memory: Memory::Copy(map) })
    }

    /// The bytes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` and `len` describe bytes of the map that `self` owns: all of a file's
        // map, or the first `len` of a copy's, which was made at least that long; or no bytes. Those of a file may
        // change only if another program writes into the published file, which the documentation of `Access`
        // forbids; every read of them is bounds-checked against the slice, so that even then decoding stays
        // within the map.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// Passes `advice` on; a private copy needs none.
    pub(crate) fn advise(&self, advice: Advice) -> Result<()> {
        let Memory::File(map) = &self.memory else { return Ok(()) };
        let advice = match advice {
            Advice::Normal => libc::MADV_NORMAL,
            Advice::Random => libc::MADV_RANDOM,
            Advice::Sequential => libc::MADV_SEQUENTIAL,
            Advice::DontNeed => libc::MADV_DONTNEED,
            Advice::WillNeed => {
                self.will_need(0, self.len);
                return Ok(());
            }
        };
        let done = map.advise(advice, 0..self.len);
        done.map_err(|e| Error::io("advise the kernel about", e))
    }

    /// Asks the kernel to start reading the pages of a range; only a hint.
    pub(crate) fn will_need(&self, at: u64, len: usize) {
        let Memory::File(map) = &self.memory else { return };
        let page = page_bytes() as u64;
        let start = at - at % page;
        let end = at.saturating_add(len as u64).min(map.len() as u64);
        // The kernel reads no more than its read-ahead limit for one call, and forgets the rest.
        for piece in (start..end).step_by(PIECE_BYTES as usize) {
            let piece = piece as usize..end.min(piece + PIECE_BYTES) as usize;
            let _ = map.advise(libc::MADV_WILLNEED, piece);
        }
    }

    /// Reads every page in now, and returns when they are in memory: in huge pages where the kernel can.
    pub(crate) fn preload(&self) -> Result<()> {
        let Memory::File(map) = &self.memory else { return Ok(()) };
        self.populate(map)?;
        if (self.len as u64) < HUGE_FROM || !map.can_be_huge() {
            return Ok(());
        }
        map.put_together(None);
        // Some kernels have taken them off the page table.
        self.populate(map)
    }

    /// Has the pages be huge ones where the kernel can, as long as `file`, which others may cut, has them.
    pub(crate) fn put_together(&self, file: &File) {
        if let Memory::File(map) = &self.memory {
            map.put_together(Some(file));
        }
    }

    fn populate(&self, map: &FileMap) -> Result<()> {
        // WILLNEED starts the reads in large pieces, POPULATE_READ waits for them and fills the
        // page table. Kernels before 5.14 lack the latter; touching the pages does the same.
        let _ = map.advise(libc::MADV_WILLNEED, 0..self.len);
        #[cfg(target_os = "linux")]
        match map.advise(POPULATE_READ, 0..self.len) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() != std::io::ErrorKind::InvalidInput => {
                // Whoever touched these pages would be ended.
                return Err(Error::io("read into memory", e));
            }
            Err(_) => {}
        }
        let sum =
            self.bytes().iter().step_by(page_bytes()).fold(0u8, |sum, b| sum.wrapping_add(*b));
        std::hint::black_box(sum);
        Ok(())
    }

    /// Keeps the pages in memory until the map is dropped; needs RLIMIT_MEMLOCK to allow it.
    pub(crate) fn lock(&self) -> Result<()> {
        let done = match &self.memory {
            Memory::Nothing => Ok(()),
            Memory::File(map) => map.lock(),
            Memory::Copy(map) => map.lock(),
        };
        done.map_err(|e| Error::io("lock in memory (raise `ulimit -l` if it is too low)", e))
    }

    /// How many of the pages are in memory.
    pub(crate) fn residency(&self) -> Result<Residency> {
        let page = page_bytes();
        let (address, len) = match &self.memory {
            Memory::Nothing => return Ok(Residency { resident: 0, total: 0 }),
            Memory::File(map) => (map.as_ptr(), map.len()),
            Memory::Copy(map) => (map.as_ptr(), map.len()),
        };
        let pages = len.div_ceil(page);
        let mut states = buffer(pages)?;
        // SAFETY: `address` is the page-aligned start of a live map of `len` bytes, and `states`
        // has one byte for each of its pages, as mincore asks.
        let rc = unsafe { libc::mincore(address.cast_mut().cast(), len, states.as_mut_ptr()) };
        if rc != 0 {
            return Err(Error::io("ask which pages are in memory", last_error()));
        }
        let resident = states.iter().filter(|s| **s & 1 == 1).count();
        Ok(Residency { resident: (resident * page) as u64, total: (pages * page) as u64 })
    }
}

/// At least `len` bytes of zeros, in huge pages where the kernel grants them: a process that fills
/// them takes one page fault where it would take 512.
pub(crate) fn huge_buffer(len: usize) -> std::io::Result<MmapMut> {
    let map = MmapMut::map_anon(len.max(1).next_multiple_of(HUGE))?;
    #[cfg(target_os = "linux")]
    // A kernel without huge pages refuses: the memory is then merely slower.
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

/// `len` bytes of zeros, in huge pages if asked for and there are any: they take a fifth of the time.
pub(crate) fn anonymous_buffer(len: usize, huge: bool) -> Result<MmapMut> {
    let map = if huge { huge_buffer(len) } else { MmapMut::map_anon(len) };
    map.map_err(|e| Error::io("allocate memory", e))
}

/// Backs a part of a buffer that is about to be filled with pages at once, which takes a quarter less time than a
/// fault for each.
pub(crate) fn back(buffer: &MmapMut, part: Range<usize>) {
    #[cfg(target_os = "linux")]
    // Kernels before 5.14 refuse: the pages then come one by one.
    let _ = buffer.advise_range(memmap2::Advice::PopulateWrite, part.start, part.len());
    #[cfg(not(target_os = "linux"))]
    let _ = (buffer, part);
}

/// Has a part of a buffer that is not backed yet have no huge pages.
pub(crate) fn with_small_pages(buffer: &MmapMut, part: Range<usize>) {
    #[cfg(target_os = "linux")]
    // Who has no huge pages refuses.
    let _ = buffer.advise_range(memmap2::Advice::NoHugePage, part.start, part.len());
    #[cfg(not(target_os = "linux"))]
    let _ = (buffer, part);
}

fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

/// The size of a page of memory.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|s| *s > 0).unwrap_or(4096)
}

/// The machine's memory in bytes, as the kernel reports it.
pub(crate) fn physical_memory_bytes() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(page_bytes() as u64)
}

/// A length that one slice can have.
fn to_usize(len: u64) -> Result<usize> {
    let len = usize::try_from(len).ok().filter(|len| isize::try_from(*len).is_ok());
    len.ok_or_else(|| {
        Error::invalid("the file is larger than this machine can map; open it with Access::Read")
    })
}
