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

use super::holes::is_in_memory;
use super::map::page_bytes;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};

/// `MADV_COLLAPSE`, which not every C library names.
#[cfg(target_os = "linux")]
const COLLAPSE: libc::c_int = 25;

/// `MADV_POPULATE_READ`, Linux from 5.14 on.
#[cfg(target_os = "linux")]
pub(super) const POPULATE_READ: libc::c_int = libc::MADV_POPULATE_READ;
#[cfg(not(target_os = "linux"))]
pub(super) const POPULATE_READ: libc::c_int = libc::MADV_NORMAL;

/// Bytes of a huge page.
pub(crate) const HUGE: usize = 2 << 20;

/// Stores of so many bytes have them. In smaller ones, of which the table has room for much, a lookup took up to a tenth less
/// time; but the next build took an eighth more, as a host takes huge pages away when they are free, and small ones not.
pub(crate) const HUGE_FROM: u64 = 32 << 20;

/// Whether `file` can have huge pages: if it is in memory. Some kernels can give them to others, too, and forget all that they
/// know of such a file when somebody opens it to write.
pub(super) fn can_be_huge(file: &File) -> bool {
    cfg!(target_os = "linux") && page_bytes() == 4096 && is_in_memory(file)
}

/// Has the pages of a map of such a file be put together, where they can, up to `len`, which is asked anew for each: what was
/// cut off meanwhile would be made again.
///
/// # Safety
/// So many bytes are mapped at `base`.
pub(super) unsafe fn put_together(base: *const u8, len: impl Fn() -> usize) {
    #[cfg(target_os = "linux")]
    {
        let (mut at, mut is_any) = (0, false);
        while at + HUGE <= len() {
            let ask = |len: usize, advice: libc::c_int| {
                // SAFETY: the caller promises the range; neither call changes a byte of it.
                unsafe { libc::madvise(base.add(at).cast_mut().cast(), len, advice) }
            };
            // Kernels before 6.14 do not where no page was met yet. If there is none this fails, and no signal comes.
            ask(page_bytes(), POPULATE_READ);
            let rc = ask(HUGE, COLLAPSE);
            match io::Error::last_os_error().raw_os_error() {
                _ if rc == 0 => is_any = true,
                // Somebody uses it just now; or there is nothing.
                Some(libc::EAGAIN) => {}
                Some(libc::EINVAL) if is_any => {}
                // This kernel cannot; or there is no memory for more.
                _ => return,
            }
            at += HUGE;
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
    // 0, which is none, where a limit leaves only what is needed.
    let near = if len < HUGE { 0 } else { free_and_aligned(len).unwrap_or(0) };
    map_near(file, protection, kind, near, len)
}

/// An address where a huge page may begin, and behind which `len` bytes are free: if another thread takes them first, the kernel
/// has others. Nothing is mapped over what there is, as is done with addresses that are kept: where that fails they may be
/// another's by the time when they are given back.
fn free_and_aligned(len: usize) -> Option<usize> {
    let more = len.checked_add(HUGE)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new map at an address of the kernel's choice touches no memory in use.
    let found = unsafe { libc::mmap(null_mut(), more, libc::PROT_NONE, flags, -1, 0) };
    let found = mapped(found).ok()?;
    unmap(found, more);
    Some(found.addr().get().next_multiple_of(HUGE))
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
        for len in [1, 4096, HUGE - 1, HUGE, HUGE + 1, 9 * HUGE - 4095] {
            file.set_len(len as u64).unwrap();
            file.write_all_at(&[7], len as u64 - 1).unwrap();
            let map = FileMap::new(&file, len).unwrap();
            let is_aligned = map.as_ptr().addr().is_multiple_of(HUGE);
            // Another thread may have taken the addresses.
            if !is_aligned && len >= HUGE {
                println!("not where a huge page may begin: {len}");
            }
            // SAFETY: the map has so many bytes.
            assert_eq!(unsafe { *map.as_ptr().add(len - 1) }, 7);
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
        const LEN: usize = 2 * HUGE + 5000;
        let file = memory_file().unwrap();
        let bytes: Vec<u8> = (0..LEN).map(|i| (i % 251) as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        let map = FileMap::new(&file, LEN).unwrap();
        let before = huge_bytes();
        map.put_together(Some(&file));
        // SAFETY: the file has so many bytes, and nobody writes to it as long as the slice is there.
        let found = unsafe { std::slice::from_raw_parts(map.as_ptr(), LEN) };
        assert!(found == bytes, "something is lost");
        assert_eq!(file.metadata().unwrap().len(), LEN as u64);
        match (before, huge_bytes()) {
            (Some(before), Some(after)) if after > before => {
                assert!(after - before >= HUGE as u64, "{before} to {after}");
            }
            found => println!("no huge pages seen: {found:?}"),
        }
    }
}
