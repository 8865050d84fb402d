//! Files with holes: parts that no page of the disk stands for, as copies may have.
//!
//! Who writes to one through a map needs a page then, and if there is none the process ends (SIGBUS). In a
//! file system in memory (tmpfs) so does who only reads.
//!
//! Threads: functions only.

#![allow(unsafe_code)]

use super::file::check_length;
use super::map::page_bytes;
use crate::{Error, Result};
use std::fs::{File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

/// What takes less than the time between the signals of a profiler to allocate.
const SMALL_PIECE: u64 = 1 << 20;
const TMPFS: u32 = libc::TMPFS_MAGIC as u32;
const OVERLAY: u32 = libc::OVERLAYFS_SUPER_MAGIC as u32;

/// Has the disk keep room for every byte of a file that nobody else cuts, also where a copy has holes: what
/// is written there through a map finds no full disk then. Nothing is done where the file system cannot.
pub(crate) fn fill_holes(file: &File) -> Result<()> {
    let meta = file.metadata().map_err(|e| Error::io("ask the size of", e))?;
    if has_every_page(file, &meta) {
        return Ok(());
    }
    let (fd, len) = (file.as_raw_fd(), meta.len().cast_signed());
    // SAFETY: the descriptor is open; the call takes no pointers. Nobody reads where it stands.
    let next = |from, what| unsafe { libc::lseek(fd, from, what) };
    let mut at = 0;
    while at < len {
        let hole = next(at, libc::SEEK_HOLE);
        if !(at..len).contains(&hole) {
            // There is none, or the file system does not know.
            return Ok(());
        }
        // None behind the last.
        at = Some(next(hole, libc::SEEK_DATA)).filter(|data| *data > hole).unwrap_or(len);
        // SAFETY: as above.
        while unsafe { libc::fallocate(fd, 0, hole, at - hole) } != 0 {
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                // Where nothing is missing there may be no room for it twice.
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                    if meta.blocks().saturating_mul(512) < meta.len() =>
                {
                    return Err(Error::io("make room for the holes that the file has", error));
                }
                _ => return Ok(()),
            }
        }
    }
    Ok(())
}

/// Has disk space for a range of a file, which becomes so long. A signal ends the call, and some file systems give back then
/// what it had done: where one came, the rest is done in pieces that take less time than there is between signals.
///
/// Some file systems have no such call, as ext2 and many a FUSE: there, zeros are written behind the end of the file. Not by
/// `posix_fallocate`: musl's gives up there, and glibc's reads and writes a byte of each block, also where others count.
pub(super) fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    check_length(to)?;
    let (mut from, mut piece) = (from, to - from);
    while from < to {
        let len = piece.min(to - from);
        // SAFETY: the descriptor is open; the call takes no pointers.
        let rc =
            unsafe { libc::fallocate(file.as_raw_fd(), 0, from.cast_signed(), len.cast_signed()) };
        if rc == 0 {
            from += len;
            continue;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => piece = SMALL_PIECE,
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => {
                return write_zeros(file, from.max(file.metadata()?.len()), to);
            }
            _ => return Err(error),
        }
    }
    Ok(())
}

/// Makes a file longer by zeros that are written, so that the disk has room for them.
fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    const ZEROS: [u8; 16 << 10] = [0; 16 << 10];
    let mut at = from;
    while at < to {
        let piece = ZEROS.get(..(to - at) as usize).unwrap_or(&ZEROS);
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// Whether a file in memory (tmpfs) has all of its pages. There what it takes is its pages and nothing else, while to ask
/// for a hole is to look at each: a store of 390 MB took 6 ms to open.
fn has_every_page(file: &File, meta: &Metadata) -> bool {
    // With huge pages, of which the last may reach behind the end, blocks are reported as large.
    let page = meta.blksize();
    let is_full = page == page_bytes() as u64
        && meta.blocks().checked_mul(512) == Some(meta.len().next_multiple_of(page));
    is_full && is_in_memory(file)
}

/// Whether a file in memory (tmpfs) has fewer pages than bytes: those it lacks are made when they are looked at through
/// a map, while `pread` needs none. Of a file that others lie below (overlay) nobody says where it is: one with a hole may
/// be in memory. One that is only compressed has none.
pub(crate) fn lacks_pages(file: &File, meta: &Metadata) -> bool {
    meta.blocks().saturating_mul(512) < meta.len()
        && match file_system(file) {
            Some(TMPFS) => true,
            Some(OVERLAY) => has_hole(file, meta.len()),
            _ => false,
        }
}

/// Whether a part of a file has no page; `false` also where its file system does not know.
fn has_hole(file: &File, len: u64) -> bool {
    // SAFETY: the descriptor is open; the call takes no pointers. Nobody reads where it stands.
    let hole = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_HOLE) };
    (0..len.cast_signed()).contains(&hole)
}

/// An error for a file that lacks pages, of which nobody who only reads it would be given the rest: the file system is full.
pub(crate) fn refuse_holes(file: &File, meta: &Metadata) -> Result<()> {
    if !lacks_pages(file, meta) {
        return Ok(());
    }
    let missing = meta.len().saturating_sub(meta.blocks().saturating_mul(512));
    if room_on_disk(file).is_some_and(|room| room < missing) {
        let error = io::Error::from_raw_os_error(libc::ENOSPC);
        return Err(Error::io("make room in memory for the holes that the file has", error));
    }
    Ok(())
}

/// How many bytes the file system of a file has for this process, as far as it says; `None` where it has no limit, or does
/// not say. Some keep blocks for root.
pub(super) fn room_on_disk(file: &File) -> Option<u64> {
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open, and there is room for the answer.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, and written it.
    let found = unsafe { found.assume_init() };
    // SAFETY: the call takes nothing, and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let blocks = if is_root { found.f_bfree } else { found.f_bavail };
    // Without a limit all numbers are 0.
    (found.f_blocks > 0).then(|| blocks.saturating_mul(found.f_frsize))
}

/// Whether a file's pages are all there is of it (tmpfs).
pub(super) fn is_in_memory(file: &File) -> bool {
    file_system(file) == Some(TMPFS)
}

/// What the kernel calls the kind of a file's file system: a number of 32 bits, whatever type the C library gives it.
pub(super) fn file_system(file: &File) -> Option<u32> {
    let mut found = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and there is room for the answer.
    if unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, and written it.
    Some(unsafe { found.assume_init() }.f_type as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Where the file system cannot set blocks aside: stores could not grow with musl, and with glibc what others counted
    /// was written over.
    #[test]
    fn room_is_had_where_it_can_only_be_written() {
        let (folder, image) =
            (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
        image.as_file().set_len(2 << 20).unwrap();
        let run = |program: &str, arguments: &[&str], at: &std::path::Path| {
            let mut command = Command::new(program);
            let command =
                command.args(arguments).arg(at).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let options = ["-t", "ext2", "-o", "loop", image.path().to_str().unwrap()];
        if !run("mkfs.ext2", &["-q"], image.path()) || !run("mount", &options, folder.path()) {
            println!("skipped: ext2 may not be made or mounted here");
            return;
        }
        let file = File::create_new(folder.path().join("file")).unwrap();
        file.write_all_at(&[7; 5000], 0).unwrap();
        let of_two = allocate(&file, 0, 70_001);
        let meta = file.metadata().unwrap();
        let no_room = allocate(&file, 70_001, 8 << 20);
        let is_kept = std::fs::read(folder.path().join("file")).unwrap();
        drop(file);
        run("umount", &["--lazy"], folder.path());
        of_two.unwrap();
        assert!(meta.len() == 70_001 && meta.blocks() * 512 >= 70_001, "{meta:?}");
        assert_eq!(no_room.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(is_kept[..5000].iter().all(|byte| *byte == 7), "it wrote over what was there");
        assert!(is_kept[5000..].iter().all(|byte| *byte == 0));
    }
}
