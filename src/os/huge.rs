//! Huge pages, of 2 MiB: each takes one place of the processor's table of addresses where small ones take 512.
//!
//! The kernel gives files in memory (tmpfs) small pages of its own accord, and puts them together when it is asked to
//! (`MADV_COLLAPSE`, Linux 6.1), which changes no byte and is seen by all who have the file mapped where a huge page may begin.
//! It takes 0.1 to 0.4 ms for each, or 5 in a virtual machine whose host has no memory behind it yet: so it is done for who
//! preloads a store, and not for one who waits for a lookup or a change. Everything here may fail, and then there are small
//! pages.
//!
//! Threads: functions only.

#![allow(unsafe_code)]

use super::map::page_bytes;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};

/// `MADV_COLLAPSE`, which not every C library names.
#[cfg(target_os = "linux")]
const COLLAPSE: libc::c_int = 25;

/// Bytes of a huge page.
pub(crate) const HUGE_BYTES: u64 = 2 << 20;

/// Stores of so many bytes have them. In smaller ones, of which the table has room for much, a lookup took up to a tenth less
/// time; but the next build took an eighth more, as a host takes huge pages away when they are free, and small ones not.
pub(crate) const HUGE_FROM: u64 = 32 << 20;

/// Has the pages of a map of a file that begins at `base` be put together, where they can.
///
/// # Safety
/// So many bytes are mapped there, of a file that has them.
pub(super) unsafe fn put_together(base: *const u8, len: usize) {
    #[cfg(target_os = "linux")]
    for at in (0..len / HUGE_BYTES as usize).map(|page| page * HUGE_BYTES as usize) {
        // SAFETY: the caller promises the range; the call changes no byte of it.
        let rc =
            unsafe { libc::madvise(base.add(at).cast_mut().cast(), HUGE_BYTES as usize, COLLAPSE) };
        let is_busy = || {
            let error = io::Error::last_os_error().raw_os_error();
            matches!(error, Some(libc::EAGAIN | libc::EBUSY))
        };
        if rc != 0 && !is_busy() {
            // This kernel cannot, for this file; or there is no memory for more.
            return;
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (base, len);
}

/// Maps the first `len` bytes of a file, so that huge pages of it can be huge pages of the map: it begins where one may. Of
/// files in memory (tmpfs) the kernel does not see to that, of some others it does.
pub(super) fn map_aligned(
    file: &File,
    protection: i32,
    kind: i32,
    len: usize,
) -> io::Result<NonNull<u8>> {
    // There are none where a limit leaves only what is needed.
    let place = if len < HUGE_BYTES as usize { None } else { reserve(len).ok() };
    let Some(base) = place else { return map_near(file, protection, kind, 0, len) };
    let flags = kind | libc::MAP_FIXED;
    // SAFETY: the addresses were reserved just now, and nobody else has them.
    let found = mapped(unsafe {
        libc::mmap(base.as_ptr().cast(), len, protection, flags, file.as_raw_fd(), 0)
    });
    if found.is_err() {
        unmap(base, len);
    }
    found
}

/// Addresses of `len` bytes, the first of which is one where a huge page may begin.
fn reserve(len: usize) -> io::Result<NonNull<u8>> {
    let huge = HUGE_BYTES as usize;
    let more = len.checked_add(huge).ok_or(io::ErrorKind::OutOfMemory)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new map at an address of the kernel's choice touches no memory in use.
    let found = unsafe { libc::mmap(null_mut(), more, libc::PROT_NONE, flags, -1, 0) };
    let found = mapped(found)?;
    let skipped = found.addr().get().next_multiple_of(huge) - found.addr().get();
    let end = (skipped + len).next_multiple_of(page_bytes());
    // SAFETY: both lie within what was mapped just now, or at its end.
    let [base, behind] = [skipped, end].map(|at| unsafe { found.add(at) });
    for (from, bytes) in [(found, skipped), (behind, more.saturating_sub(end))] {
        if bytes != 0 {
            unmap(from, bytes);
        }
    }
    Ok(base)
}

/// Maps the first `len` bytes of a file, near an address if that is free.
pub(super) fn map_near(
    file: &File,
    protection: i32,
    kind: i32,
    near: usize,
    len: usize,
) -> io::Result<NonNull<u8>> {
    let near = std::ptr::without_provenance_mut(near);
    // Whatever else a caller may ask for.
    let flags = kind & !libc::MAP_FIXED;
    // SAFETY: a new map where nothing is touches no memory in use.
    mapped(unsafe { libc::mmap(near, len, protection, flags, file.as_raw_fd(), 0) })
}

fn mapped(base: *mut libc::c_void) -> io::Result<NonNull<u8>> {
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))
}

/// Gives addresses back.
pub(super) fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: what was mapped there is the caller's, and nobody has it, or has it any more.
    unsafe { libc::munmap(base.as_ptr().cast(), len) };
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::file_map::FileMap;
    use crate::os::shared::memory_file;
    use std::os::unix::fs::FileExt;

    #[test]
    fn maps_begin_where_a_huge_page_may() {
        let file = memory_file().unwrap();
        for len in [1, 4096, HUGE_BYTES - 1, HUGE_BYTES, HUGE_BYTES + 1, 9 * HUGE_BYTES - 4095] {
            file.set_len(len).unwrap();
            file.write_all_at(&[7], len - 1).unwrap();
            let map = FileMap::new(&file, len as usize).unwrap();
            let is_aligned = (map.as_ptr() as u64).is_multiple_of(HUGE_BYTES);
            assert!(is_aligned || len < HUGE_BYTES, "{len}");
            // SAFETY: the map has so many bytes.
            assert_eq!(unsafe { *map.as_ptr().add(len as usize - 1) }, 7);
        }
    }

    /// Bytes of this process's maps that are huge pages of files in memory.
    fn huge_bytes() -> Option<u64> {
        let smaps = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
        let line = smaps.lines().find(|line| line.starts_with("ShmemPmdMapped:"))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
    }

    #[test]
    fn pages_that_are_put_together_keep_what_they_have() {
        const LEN: u64 = 2 * HUGE_BYTES + 5000;
        let file = memory_file().unwrap();
        let bytes: Vec<u8> = (0..LEN).map(|i| (i % 251) as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        let map = FileMap::new(&file, LEN as usize).unwrap();
        let before = huge_bytes();
        map.put_together();
        // SAFETY: the file has so many bytes, and nobody writes to it as long as the slice is there.
        let found = unsafe { std::slice::from_raw_parts(map.as_ptr(), LEN as usize) };
        assert!(found == bytes, "something is lost");
        assert_eq!(file.metadata().unwrap().len(), LEN);
        match (before, huge_bytes()) {
            (Some(before), Some(after)) if after > before => {
                assert!(after - before >= HUGE_BYTES, "{before} to {after}");
            }
            found => println!("no huge pages seen: {found:?}"),
        }
    }
}
