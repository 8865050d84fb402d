//! Tells a [`Disk`] when this thread makes a file durable or shorter: the calls of the C library
//! that do so are those here, in a program that has this file.

#![allow(unsafe_code)]
#![allow(dead_code, reason = "each test file uses its part")]

use crate::common::power::Disk;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
    /// How many syncs there were, and which of them is to fail.
    static SYNCS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    /// Whether the kernel is asked to bring files to the disk, too.
    static IS_REAL: Cell<bool> = const { Cell::new(false) };
    /// The disk as it was when the last wait for it began.
    static BEGUN: RefCell<Option<Disk>> = const { RefCell::new(None) };
    static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// From now on, `disk` is told what this thread syncs.
pub fn install(disk: Disk) {
    DISK.set(Some(disk));
}

/// No longer; the disk as it is now.
pub fn take() -> Disk {
    let mut disk = DISK.take().expect("a disk was installed");
    disk.look();
    disk
}

/// How many times this thread has waited for the disk without an error.
pub fn count() -> u64 {
    SYNCS.get().0
}

/// The disk fails this thread's next wait for it, or after so many others; without them, not at all.
pub fn fail_after(others: Option<u64>) {
    let (count, _) = SYNCS.get();
    SYNCS.set((count, others.map_or(0, |others| count + others + 1)));
}

/// From now on this thread waits for the real disk, too, also where it is told then that it failed:
/// so it is when the kernel has given pages up, and calls them clean.
pub fn wait_for_real() {
    IS_REAL.set(true);
}

/// Counts a wait; whether it fails.
fn fails() -> bool {
    let (count, failing) = SYNCS.get();
    let fails = count + 1 == failing;
    SYNCS.set(if fails { (count, 0) } else { (count + 1, failing) });
    fails
}

/// What others do while this thread waits for the disk the next time.
pub fn meanwhile(work: Option<Box<dyn FnOnce()>>) {
    MEANWHILE.set(work);
}

/// The disk as it was when the last wait for it began, if there was one since this was asked.
pub fn begun() -> Option<Disk> {
    BEGUN.take()
}

/// What `f` says of the disk that is installed.
pub fn with<R>(f: impl FnOnce(&mut Disk) -> R) -> R {
    DISK.with_borrow_mut(|disk| f(disk.as_mut().expect("a disk was installed")))
}

/// Which file, and which bytes of it, are in memory from `start` on.
fn part_of(disk: &Disk, start: usize, len: usize) -> Option<(usize, Range<u64>)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    maps.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let within = (start as u64).checked_sub(number(from)?)?;
        if start as u64 >= number(to)? {
            return None;
        }
        let from = number(fields.nth(1)?)? + within;
        let wanted: u64 = fields.nth(1)?.parse().ok()?;
        let inode = |path: &PathBuf| std::fs::metadata(path).ok().map(|meta| meta.ino());
        let file = disk.files().iter().position(|path| inode(path) == Some(wanted))?;
        Some((file, from..from + len as u64))
    })
}

/// Which file of the disk a descriptor is: its number, or all of them for their folder. Not by the
/// name that the kernel gives: that of a file which was made without one stays none.
fn file_of(disk: &Disk, fd: libc::c_int) -> Option<Option<usize>> {
    let inode = |path: &Path| std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let wanted = inode(format!("/proc/self/fd/{fd}").as_ref())?;
    if let Some(i) = disk.files().iter().position(|file| inode(file) == Some(wanted)) {
        return Some(Some(i));
    }
    disk.files()[0].parent().is_some_and(|folder| inode(folder) == Some(wanted)).then_some(None)
}

/// Tells the disk, unless it is itself at work.
fn tell(f: impl FnOnce(&mut Disk)) {
    DISK.with(|disk| {
        let Ok(mut disk) = disk.try_borrow_mut() else { return };
        disk.as_mut().map(f);
    });
}

fn note(fd: libc::c_int, is_synced: bool) {
    tell(|disk| match file_of(disk, fd) {
        Some(Some(i)) if is_synced => {
            disk.look();
            BEGUN.set(Some(disk.clone()));
            disk.synced(i);
        }
        Some(None) if is_synced => disk.names_synced(),
        Some(_) => disk.look(),
        None => {}
    });
}

/// What is now in a part of memory that is a part of a file is durable.
fn note_part(start: usize, len: usize) {
    tell(|disk| {
        disk.look();
        if let Some((i, part)) = part_of(disk, start, len) {
            BEGUN.set(Some(disk.clone()));
            disk.part_synced(i, part);
        }
    });
}

/// Says that the disk failed.
fn failed() -> libc::c_int {
    // SAFETY: the place is this thread's own.
    unsafe { *libc::__errno_location() = libc::EIO };
    -1
}

#[unsafe(no_mangle)]
extern "C" fn msync(start: *mut libc::c_void, len: usize, flags: libc::c_int) -> libc::c_int {
    if IS_REAL.get() {
        // SAFETY: the call changes no byte, and what is not mapped is an error.
        assert_eq!(unsafe { libc::syscall(libc::SYS_msync, start, len, flags) }, 0, "a good disk");
    }
    if fails() {
        // Some of it may be on the disk, or all.
        tell(Disk::look);
        return failed();
    }
    note_part(start as usize, len);
    if let Some(work) = MEANWHILE.take() {
        work();
        tell(Disk::look);
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: libc::c_int) -> libc::c_int {
    if IS_REAL.get() {
        // SAFETY: the call takes a number.
        assert_eq!(unsafe { libc::syscall(libc::SYS_fdatasync, fd) }, 0, "the disk is a good one");
    }
    if fails() {
        // Some of it may be on the disk, or all.
        note(fd, false);
        return failed();
    }
    note(fd, true);
    // What is written now may come to the disk with the rest, or not.
    if let Some(work) = MEANWHILE.take() {
        work();
        note(fd, false);
    }
    // Nothing is lost: these tests never cut the power.
    0
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: libc::c_int) -> libc::c_int {
    note(fd, true);
    0
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: libc::c_int, len: libc::off64_t) -> libc::c_int {
    note(fd, false);
    // SAFETY: what the caller asked for; no memory is passed.
    let rc = unsafe { libc::syscall(libc::SYS_ftruncate, fd, len) };
    note(fd, false);
    rc as libc::c_int
}
