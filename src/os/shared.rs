//! A file mapped by many processes that write it and make it longer.
//!
//! The map is made once, far longer than the file, so that no address ever changes: pages appear
//! under it as the file grows. Space is allocated before it is written through the map, so that a
//! full disk is an error and not SIGBUS; where that is not enough, room is kept for it ([`super::ballast`]).
//!
//! Invariants: every access checks the length of the file that this process last learned, which
//! is never more than the map. Numbers that several processes change are atomic words; all other
//! bytes are written by one writer before anybody else learns where they are, and never after.

#![allow(unsafe_code)]

pub(crate) mod advice;

use super::addresses::Addresses;
pub(crate) use super::ballast::no_room_for_changes;
use super::ballast::{Ballast, Part};
use super::file::check_length;
use super::holes::{allocate, is_in_memory, refuse_holes, room_on_disk};
use super::map::page_bytes;
use super::process::longest_file;
use crate::os::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32};

/// Every file has at least this many bytes, which never go away: its words are reached unchecked.
pub(crate) const HEAD_BYTES: u64 = 4096;

/// Bits of a length of a file; above them is how often it was cut.
const LEN_BITS: u32 = 48;
const LEN_MASK: u64 = (1 << LEN_BITS) - 1;
/// A file that grows little by little does so by a sixteenth, but at least by so much; and at most by so much where a page
/// is a page of memory, of which a step takes 25 us, and where each step is noted in a file system's journal, which takes
/// as long as 100 pages.
const SHORTEST_STEP: u64 = 4096;
const STEPS_IN_MEMORY: u64 = 32 << 10;
const STEPS_ON_DISK: u64 = 256 << 10;

/// A shared map of a file that may grow.
#[derive(Debug)]
pub(crate) struct SharedMap {
    base: NonNull<u8>,
    addresses: ManuallyDrop<Addresses>,
    /// Bytes of the file as far as this process knows, at most as many as there are addresses; and how often it was cut as far
    /// as [`SharedMap::settle_len`] knows: who asks for the length without a lock, and is overtaken by a cut,
    /// then finds another word here and asks again, rather than take the old length for the new one.
    len: AtomicU64,
    file: ManuallyDrop<File>,
    is_writable: bool,
    /// Where each change takes room on the disk.
    ballast: Option<Ballast>,
    /// Whether others see what is written, and this process what they write.
    is_shared: bool,
    /// How the kernel was last told that pages are read (`MADV_NORMAL` and so on), or [`advice::UNSAID`].
    advice: AtomicI32,
    /// Whether the kernel says which pages are in memory: of a file that is neither this user's nor open for
    /// writing it says that all are.
    shows_pages: bool,
    /// Whether the file's pages are all there is of it.
    is_in_memory: bool,
    /// Never to be unmapped.
    is_kept: AtomicBool,
}

// SAFETY: the map is plain memory that stays mapped until the struct is dropped; what is in it is
// reached through atomics, or by the rules that the unsafe methods state.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}

impl SharedMap {
    /// Maps `file`, with room to grow to `room` bytes, or as much of that as there are addresses for ([`Addresses`]).
    pub(crate) fn new(file: File, is_writable: bool, room: u64) -> Result<SharedMap> {
        let write = if is_writable { libc::PROT_WRITE } else { 0 };
        SharedMap::mapped(file, write, libc::MAP_SHARED, room)
    }

    /// Maps `file` so that what is changed in memory is this process's alone: the file, which nobody
    /// may change meanwhile, stays as it is. The map has at least `end` bytes, behind those of the
    /// file zeros.
    pub(crate) fn private(file: File, end: u64) -> Result<SharedMap> {
        let map = SharedMap::mapped(file, libc::PROT_WRITE, libc::MAP_PRIVATE, 2 * end)?;
        let from = map.len().next_multiple_of(page_bytes() as u64);
        if from < end {
            let limit = map.addresses.len();
            if end > limit {
                let size = end;
                return Err(Error::new(ErrorKind::TooLarge { what: "file", size, limit }));
            }
            // SAFETY: the range lies within the map, behind the pages of the file; nothing was borrowed
            // from it yet.
            let place = unsafe {
                libc::mmap(
                    map.base.as_ptr().add(from as usize).cast(),
                    (end - from) as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if place == libc::MAP_FAILED {
                return Err(Error::io("map", io::Error::last_os_error()));
            }
        }
        map.len.fetch_max(end & LEN_MASK, Ordering::Relaxed);
        Ok(map)
    }

    fn mapped(file: File, write: i32, kind: i32, room: u64) -> Result<SharedMap> {
        let meta = file.metadata().map_err(|e| Error::io("ask the size of", e))?;
        let len = meta.len();
        // SAFETY: the call takes nothing and cannot fail.
        let is_own = meta.uid() == unsafe { libc::geteuid() };
        if len < HEAD_BYTES {
            return Err(Error::corrupt(len, "the file ends within its header"));
        }
        if write == 0 || kind != libc::MAP_SHARED {
            refuse_holes(&file, &meta)?;
        }
        let addresses = Addresses::of(&file, libc::PROT_READ | write, kind, room, len)?;
        let is_in_memory = is_in_memory(&file);
        let is_writable = write != 0 && kind == libc::MAP_SHARED;
        let ballast = if is_writable { Ballast::beside(&file, addresses.range())? } else { None };
        let map = SharedMap {
            base: addresses.base(),
            is_in_memory,
            len: AtomicU64::new(len.min(addresses.len()) & LEN_MASK),
            addresses: ManuallyDrop::new(addresses),
            file: ManuallyDrop::new(file),
            is_writable,
            ballast,
            is_shared: kind == libc::MAP_SHARED,
            advice: AtomicI32::new(advice::UNSAID),
            shows_pages: is_own || is_writable,
            is_kept: AtomicBool::new(false),
        };
        map.advise_by_size(len);
        Ok(map)
    }

    #[cfg(test)]
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.addresses.range()
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether there is room to change pages that the file has; where the file system writes them in their place, always.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.ballast.is_none() || self.has_room_for(Part::Changes)
    }

    /// An error if there is none.
    #[inline(always)]
    pub(crate) fn check_room(&self) -> Result<()> {
        if self.has_room() { Ok(()) } else { Err(no_room_for_changes()) }
    }

    #[cold]
    fn has_room_for(&self, part: Part) -> bool {
        self.ballast.as_ref().is_none_or(|ballast| ballast.is_held(&self.file, part))
    }

    /// Whether there is room for the words in which a reader says what he reads.
    #[inline(always)]
    pub(crate) fn has_room_to_read(&self) -> bool {
        self.ballast.is_none() || self.has_room_for(Part::Reads)
    }

    /// By how many bytes to make the file longer that grows little by little: a part of its size.
    pub(crate) fn step(&self) -> u64 {
        let longest = if self.is_in_memory { STEPS_IN_MEMORY } else { STEPS_ON_DISK };
        (self.len() / 16).clamp(SHORTEST_STEP, longest)
    }

    /// The length of the file when it was last looked at.
    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed) & LEN_MASK
    }

    /// Of such a word as [`SharedMap::len_and_cuts`], the part that says how often the file was cut.
    pub(crate) const CUTS: u64 = !LEN_MASK;

    /// The same, and how often the file was cut, in one word.
    #[inline(always)]
    pub(crate) fn len_and_cuts(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Asks the kernel for the length of the file, which nobody changes meanwhile, and notes it; with how
    /// often the file was cut, which is in `known` as it is in the word that is returned, and `more`. A file
    /// that is longer than this map is an error: who took it for shorter would end it there.
    pub(crate) fn settle_len(&self, known: u64, more: u64) -> Result<u64> {
        let len = self.within_addresses(self.asked_len()?)?;
        let word = len | (known >> LEN_BITS).wrapping_add(more) << LEN_BITS;
        self.len.store(word, Ordering::Relaxed);
        Ok(word)
    }

    /// Has addresses for a file of `len` bytes; whether there are.
    fn reach(&self, len: u64) -> bool {
        let is_reached = self.addresses.reach(len);
        if let Some(ballast) = &self.ballast {
            ballast.note_end(self.addresses.range().end);
        }
        is_reached
    }

    /// An error where the file is longer than this map can be.
    pub(crate) fn check_addresses(&self) -> Result<()> {
        self.within_addresses(self.asked_len()?).map(drop)
    }

    fn within_addresses(&self, len: u64) -> Result<u64> {
        if self.reach(len) { Ok(len) } else { Err(outgrown()) }
    }

    fn asked_len(&self) -> Result<u64> {
        let len = self.file.metadata().map_err(|e| Error::io("ask the size of", e))?.len();
        if len < HEAD_BYTES {
            return Err(Error::corrupt(len, "somebody made the file shorter than its header"));
        }
        Ok(len)
    }

    /// Asks the kernel for the length of the file, which others may have changed.
    #[cold]
    pub(crate) fn refresh_len(&self) -> Result<u64> {
        loop {
            let before = self.len_and_cuts();
            if !self.is_shared {
                return Ok(before & LEN_MASK);
            }
            let len = self.asked_len()?;
            // Where they cannot reach so far, somebody is told when he needs what is there.
            let len = if self.reach(len) { len } else { self.addresses.len().min(len) };
            self.advise_by_size(len);
            if self.note_len(before, len) {
                return Ok(len);
            }
        }
    }

    /// Notes a length that was asked for after `before` was known, unless another thread has made the file
    /// longer, or cut it, or asked, meanwhile: this one may be older.
    fn note_len(&self, before: u64, len: u64) -> bool {
        let after = len | before & !LEN_MASK;
        self.len.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// By how many bytes the file could become longer, as far as its file system and the limit on the size of files say.
    pub(crate) fn room(&self) -> u64 {
        room_on_disk(&self.file).unwrap_or(u64::MAX).min(self.room_below_limit())
    }

    fn room_below_limit(&self) -> u64 {
        longest_file().saturating_sub(self.len())
    }

    /// The error of who would leave too little of that.
    pub(crate) fn no_room(&self, action: &'static str) -> Error {
        let is_limit = room_on_disk(&self.file).is_none_or(|room| room > self.room_below_limit());
        let code = if is_limit { libc::EFBIG } else { libc::ENOSPC };
        Error::io(action, io::Error::from_raw_os_error(code))
    }

    /// Makes the file at least `end` bytes long, with disk space and pages behind the new bytes. If that
    /// fails some of them may be there, of which the caller is to give back what is of no use: then `tried`
    /// is set.
    pub(crate) fn grow_to(&self, end: u64, tried: &mut bool) -> Result<()> {
        let len = self.refresh_len()?;
        if end <= len {
            return Ok(());
        }
        if !self.reach(end) {
            return Err(outgrown());
        }
        check_length(end).map_err(|e| Error::io("make longer", e))?;
        self.check_room()?;
        *tried = true;
        allocate(&self.file, len, end).map_err(|e| Error::io("make longer", e))?;
        self.len.store(end | self.len_and_cuts() & !LEN_MASK, Ordering::Relaxed);
        if !self.is_in_memory {
            self.write_zeros(len, end);
        }
        self.back(len, end);
        self.advise_by_size(end);
        Ok(())
    }

    /// Writes zeros where the file has space and nothing else: on ext4 a page that is first met through the map takes
    /// 3.9 us, so 0.6. An error is none, as the pages then come through the map.
    fn write_zeros(&self, from: u64, to: u64) {
        const ZEROS: [u8; 4096] = [0; 4096];
        let pieces = [IoSlice::new(&ZEROS); 64];
        let mut at = from;
        while at < to {
            let left = (to - at) as usize;
            let whole = pieces.get(..left / ZEROS.len()).unwrap_or(&pieces);
            let written = match whole {
                [] => self.file.write_at(ZEROS.get(..left).unwrap_or_default(), at),
                whole => pwritev(&self.file, whole, at),
            };
            match written {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(written) => at += written as u64,
            }
        }
    }

    /// Has the pages of a range ready for writing, all at once rather than fault by fault.
    pub(crate) fn back(&self, from: u64, to: u64) {
        // Kernels before 5.14 refuse: the pages then come one by one.
        let _ = self.populate(from, to);
    }

    /// Has the pages of a range count as changed, so that the next sync writes them: for after one that
    /// failed, when the kernel calls pages clean that it could not write. What is in them stays.
    pub(crate) fn write_again(&self, from: u64, to: u64) -> Result<()> {
        const AGAIN: &str = "write again, after a failed sync,";
        match self.populate(from, to) {
            // Kernels before 5.14 have no such call: a word of each page is written over with itself,
            // unless another has changed it, which is as good.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                let pages = (from..to.min(self.len())).step_by(page_bytes());
                for word in pages.filter_map(|at| self.word(at - at % page_bytes() as u64)) {
                    let is = word.load(Ordering::Relaxed);
                    let _ = word.compare_exchange(is, is, Ordering::Relaxed, Ordering::Relaxed);
                }
                Ok(())
            }
            // Cut off since its length was asked: what is not in the file any more need not be on the disk.
            Err(e) if e.raw_os_error() == Some(libc::EFAULT) && self.refresh_len()? < to => Ok(()),
            // No signal comes for what the kernel cannot change itself.
            Err(e) if e.raw_os_error() == Some(libc::EFAULT) && self.ballast.is_some() => {
                Err(Error::io(AGAIN, io::Error::from_raw_os_error(libc::ENOSPC)))
            }
            done => done.map_err(|e| Error::io(AGAIN, e)),
        }
    }

    fn populate(&self, from: u64, to: u64) -> io::Result<()> {
        let page = page_bytes() as u64;
        let (from, to) = (from - from % page, to.min(self.len()));
        if from >= to {
            return Ok(());
        }
        // SAFETY: the range lies within the map and within the file; the call changes no byte of it.
        let rc = unsafe {
            let start = self.base.as_ptr().add(from as usize).cast();
            libc::madvise(start, (to - from) as usize, libc::MADV_POPULATE_WRITE)
        };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Makes the file `end` bytes long; nobody may use what lies after.
    pub(crate) fn shrink_to(&self, end: u64) -> Result<()> {
        let end = end.max(HEAD_BYTES);
        self.len.store(end | self.len_and_cuts() & !LEN_MASK, Ordering::Relaxed);
        self.file.set_len(end).map_err(|e| Error::io("shorten", e))?;
        Ok(())
    }

    /// The words that every file begins with.
    #[inline(always)]
    pub(crate) fn head(&self) -> &[AtomicU64; HEAD_BYTES as usize / 8] {
        // SAFETY: checked when it was mapped, and `shrink_to` keeps it; the map is aligned to pages
        // and these bytes are only reached as atomic words.
        unsafe { self.base.cast().as_ref() }
    }

    /// The word at `at`, if it is within the file and aligned.
    #[inline(always)]
    pub(crate) fn word(&self, at: u64) -> Option<&AtomicU64> {
        if !at.is_multiple_of(8) || at.checked_add(8)? > self.len() {
            return None;
        }
        // SAFETY: the eight bytes lie within the map and the file, aligned; they are only ever
        // read and written as atomic words while the map lives.
        Some(unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at as usize).cast()) })
    }

    /// The half word at `at`, if it is within the file and aligned.
    pub(crate) fn half(&self, at: u64) -> Option<&AtomicU32> {
        if !at.is_multiple_of(4) || at.checked_add(4)? > self.len() {
            return None;
        }
        // SAFETY: as for `word`.
        Some(unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at as usize).cast()) })
    }

    /// A half word of those that every file begins with; `at` is a multiple of four.
    pub(crate) fn half_in_head(&self, at: u64) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at < HEAD_BYTES);
        let at = (at % HEAD_BYTES) & !3;
        // SAFETY: as for `word`: within the head, which is always there, and aligned.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at as usize).cast()) }
    }

    /// The cache line at `at`, if it is within the file and aligned: eight words.
    #[inline(always)]
    pub(crate) fn line(&self, at: u64) -> Option<&[AtomicU64; 8]> {
        if !at.is_multiple_of(64) || at.checked_add(64)? > self.len() {
            return None;
        }
        // SAFETY: the 64 bytes lie within the map and the file, aligned; `AtomicU64` has the size
        // and alignment of `u64`, and they are only reached as atomic words.
        Some(unsafe { &*self.base.as_ptr().add(at as usize).cast() })
    }

    /// The bytes of a range, if it is within the file.
    ///
    /// # Safety
    /// Nobody writes them as long as the slice lives.
    #[inline(always)]
    pub(crate) unsafe fn bytes(&self, at: u64, len: u64) -> Option<&[u8]> {
        if at.checked_add(len)? > self.len() {
            return None;
        }
        // SAFETY: the range lies within the map and the file; the caller promises the rest.
        Some(unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().add(at as usize), len as usize)
        })
    }

    /// The bytes of a range to write, if it is within the file.
    ///
    /// # Safety
    /// Nobody else reads or writes them as long as the slice lives, and the map is writable.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn bytes_mut(&self, at: u64, len: u64) -> Option<&mut [u8]> {
        if at.checked_add(len)? > self.len() {
            return None;
        }
        // SAFETY: the range lies within the map and the file; the caller promises the rest.
        Some(unsafe {
            std::slice::from_raw_parts_mut(self.base.as_ptr().add(at as usize), len as usize)
        })
    }

    /// Copies `bytes` to `at`; `false` if that is not within the file.
    ///
    /// # Safety
    /// Nobody reads or writes there during the call, and the map is writable.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let fits = at.checked_add(bytes.len() as u64).is_some_and(|end| end <= self.len());
        if fits {
            // SAFETY: the range lies within the map and the file; the caller promises the rest, and
            // `bytes` is no part of a range that nobody else may reach.
            unsafe {
                let place = self.base.as_ptr().add(at as usize);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
            }
        }
        fits
    }

    /// Asks for the cache line at `at`; only a hint.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::*;
            // SAFETY: a prefetch reads nothing that the program can see and never faults.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(self.base.as_ptr().wrapping_add(at as usize).cast());
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    /// Waits until the bytes written are on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io("make durable", e))
    }

    /// The same for a part of the file alone, which had its space on the disk before: what else was
    /// written stays where it is, and need not be waited for.
    pub(crate) fn sync_part(&self, from: u64, to: u64) -> Result<()> {
        let from = from - from % page_bytes() as u64;
        if from >= to || to > self.len() {
            return self.sync();
        }
        // SAFETY: the range lies within the map, and begins with a page; the call changes no byte.
        let rc = unsafe {
            let start = self.base.as_ptr().add(from as usize).cast();
            libc::msync(start, (to - from) as usize, libc::MS_SYNC)
        };
        if rc == 0 { Ok(()) } else { Err(Error::io("make durable", io::Error::last_os_error())) }
    }
}

impl SharedMap {
    /// Leaves the map where it is when this is dropped, and the file open: somebody still refers to it,
    /// and others must see that it is in use.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        if self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        // Before somebody else's map is at these addresses.
        self.ballast = None;
        // SAFETY: nothing borrowed from the map is left; both are used no more.
        unsafe {
            ManuallyDrop::drop(&mut self.addresses);
            ManuallyDrop::drop(&mut self.file);
        }
    }
}

#[cold]
fn outgrown() -> Error {
    Error::invalid(
        "the store has outgrown the addresses that this process has for it: raise their limit, which `ulimit -v` \
         tells; without one, open the store again",
    )
}

/// Writes all pieces, one behind the other, at `at`; how many bytes it has written.
fn pwritev(file: &File, pieces: &[IoSlice], at: u64) -> io::Result<usize> {
    // SAFETY: the descriptor is open; an `IoSlice` is what the call takes, and its bytes are only read.
    let written = unsafe {
        let (first, count) = (pieces.as_ptr().cast(), pieces.len() as libc::c_int);
        libc::pwritev(file.as_raw_fd(), first, count, at.cast_signed())
    };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// A file that exists in memory only.
pub(crate) fn memory_file() -> Result<File> {
    use std::os::fd::FromRawFd;
    // SAFETY: the name is a C string; the descriptor returned is new and owned by nobody.
    let fd = unsafe { libc::memfd_create(c"credenza".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(Error::io("create a file in memory", io::Error::last_os_error()));
    }
    // SAFETY: as above.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Sleeps while the half word still has this value, until woken or for so long.
pub(crate) fn wait(word: &AtomicU32, value: u32, timeout: std::time::Duration) {
    let limit = libc::timespec {
        tv_sec: timeout.as_secs().min(i64::MAX as u64).cast_signed(),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // SAFETY: the word lives across the call; the kernel only compares it, and the limit is read.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const limit);
    }
}

/// Wakes all that sleep on the half word, in whatever process; whether there was anybody.
pub(crate) fn wake_all(word: &AtomicU32) -> bool {
    // SAFETY: the word lives across the call; its address is all the kernel takes.
    let woken =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    woken > 0
}

#[cfg(test)]
impl SharedMap {
    /// A file in memory that has nothing but a head, of zeros: for tests of what lies there.
    pub(crate) fn of_head() -> SharedMap {
        let file = memory_file().unwrap();
        file.set_len(HEAD_BYTES).unwrap();
        SharedMap::new(file, true, 1 << 20).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of holes may be as long as numbers go.
    #[test]
    fn a_file_that_is_too_long_to_be_mapped_is_an_error() {
        let file = memory_file().unwrap();
        file.set_len(i64::MAX.cast_unsigned()).unwrap();
        SharedMap::new(file, true, 1 << 20).unwrap_err();
    }

    /// Were it taken for the new one, what is written next could be behind the end of the file.
    #[test]
    fn a_length_from_before_a_cut_is_not_taken_for_the_new_one() {
        let (long, short) = (64 << 10, 16 << 10);
        let file = tempfile::tempfile().unwrap();
        file.set_len(long).unwrap();
        let map = SharedMap::new(file, true, 1 << 20).unwrap();
        let mut known = map.settle_len(0, 0).unwrap();
        for cut in [short, short - 4096] {
            // Another thread asks before each step of a cut, and notes the answer after it.
            let asked_first = map.len_and_cuts();
            known = map.settle_len(known, 1).unwrap();
            assert!(!map.note_len(asked_first, long));
            map.len.store(cut | known & !LEN_MASK, Ordering::Relaxed);
            let asked_between = map.len_and_cuts();
            map.shrink_to(cut).unwrap();
            known = map.settle_len(known, 1).unwrap();
            assert!(!map.note_len(asked_between, long));
            assert_eq!((map.len(), map.len_and_cuts()), (cut, known));
            // Who asks now is told, and what he notes is known to who has noted the cut.
            assert_eq!(map.refresh_len().unwrap(), cut);
            assert_eq!(map.len_and_cuts(), known);
        }
    }
}
