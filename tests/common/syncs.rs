//! Tells a [`Disk`] when this thread makes a file durable or shorter: the calls of the C library
//! that do so are those here, in a program that has this file.

#![allow(unsafe_code)]
#![allow(dead_code, reason = "each test file uses its part")]

use crate::common::power::Disk;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A wait for the disk of a file or folder while a name was watched.
pub struct Wait {
    /// What was waited for, by its number, and how long it was then.
    pub of: u64,
    pub len: u64,
    /// Which file had the name when the wait began.
    pub named: Option<u64>,
}

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
    /// How many syncs there were, and which of them is to fail.
    static SYNCS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    /// Whether the kernel is asked to bring files to the disk, too.
    static IS_REAL: Cell<bool> = const { Cell::new(false) };
    /// The disk as it was when each wait for it began.
    static BEGUN: RefCell<Vec<Disk>> = const { RefCell::new(Vec::new()) };
    /// The name that is watched, and the waits of whole files and folders since then.
    static WATCHED: RefCell<Option<(PathBuf, Vec<Wait>)>> = const { RefCell::new(None) };
    static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// From now on, `disk` is told what this thread syncs. Nobody asks any more for what was before.
pub fn install(disk: Disk) {
    BEGUN.take();
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
    all_begun().pop()
}

/// The disk as it was when each wait for it began since this was asked.
pub fn all_begun() -> Vec<Disk> {
    BEGUN.take()
}

/// What `f` says of the disk that is installed.
pub fn with<R>(f: impl FnOnce(&mut Disk) -> R) -> R {
    DISK.with_borrow_mut(|disk| f(disk.as_mut().expect("a disk was installed")))
}

/// The waits of this thread while `f` runs, each with what then had the name `path`.
pub fn waits_while(path: &Path, f: impl FnOnce()) -> Vec<Wait> {
    WATCHED.set(Some((path.to_owned(), Vec::new())));
    f();
    WATCHED.take().map_or_else(Vec::new, |(_, waits)| waits)
}

fn watch(fd: libc::c_int) {
    WATCHED.with_borrow_mut(|watched| {
        let Some((path, waits)) = watched else { return };
        // SAFETY: who waits for it has it open, and it is not closed here.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        let meta = file.metadata().expect("what is waited for");
        let named = std::fs::symlink_metadata(path).ok().map(|meta| meta.ino());
        waits.push(Wait { of: meta.ino(), len: meta.len(), named });
    });
}

/// What a call brings to the disk.
#[derive(Clone)]
enum What {
    /// All of the file, or folder, with this descriptor.
    File(libc::c_int),
    /// What is mapped at these addresses.
    Map(Range<usize>),
}

/// By which a file is known, whatever its name is: that which the kernel gives for one that was made
/// without a name stays none.
type Inode = Option<u64>;

fn inode_of(path: &Path) -> Inode {
    std::fs::metadata(path).ok().map(|meta| meta.ino())
}

/// The map that `address` is in: the addresses, the offset in the file at which it begins, and the file.
fn map_at(address: usize) -> Option<(Range<usize>, usize, Inode)> {
    let hexadecimal = |text: &str| usize::from_str_radix(text, 16).ok();
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        // From-to, rights, offset, device, inode.
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let addresses = hexadecimal(start)?..hexadecimal(end)?;
        let offset = hexadecimal(fields.nth(1)?)?;
        let inode = fields.nth(1)?.parse().ok();
        addresses.contains(&address).then_some((addresses, offset, inode))
    })
}

/// Which file of the disk a call is about: its number, or none for their folder.
fn file_of(disk: &Disk, wanted: Inode) -> Option<Option<usize>> {
    wanted?;
    if let Some(i) = disk.files().iter().position(|file| inode_of(file) == wanted) {
        return Some(Some(i));
    }
    disk.files()[0].parent().is_some_and(|folder| inode_of(folder) == wanted).then_some(None)
}

fn note(what: What, is_synced: bool) {
    // Not when the disk itself is at work.
    DISK.with(|disk| {
        let Ok(mut disk) = disk.try_borrow_mut() else { return };
        let Some(disk) = disk.as_mut() else { return };
        let (inode, part) = match what {
            What::File(fd) => (inode_of(format!("/proc/self/fd/{fd}").as_ref()), None),
            What::Map(addresses) => {
                let (map, offset, inode) = map_at(addresses.start).expect("something is mapped");
                let at = |address: usize| address - map.start + offset;
                (inode, Some(at(addresses.start)..at(addresses.end)))
            }
        };
        match file_of(disk, inode) {
            Some(Some(i)) if is_synced => {
                disk.look();
                BEGUN.with_borrow_mut(|begun| begun.push(disk.clone()));
                match part {
                    Some(part) => disk.part_synced(i, part),
                    None => disk.synced(i),
                }
            }
            Some(None) if is_synced => disk.names_synced(),
            Some(_) => disk.look(),
            None => {}
        }
    });
}

/// A wait for the disk, which the kernel is asked for by `real`.
fn sync(what: What, real: impl FnOnce() -> libc::c_long) -> libc::c_int {
    if IS_REAL.get() {
        assert_eq!(real(), 0, "the disk is a good one");
    }
    if fails() {
        // Some of it may be on the disk, or all.
        note(what, false);
        // SAFETY: the place is this thread's own.
        unsafe { *libc::__errno_location() = libc::EIO };
        return -1;
    }
    note(what.clone(), true);
    // What is written now may come to the disk with the rest, or not.
    if let Some(work) = MEANWHILE.take() {
        work();
        note(what, false);
    }
    // Nothing is lost: these tests never cut the power.
    0
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: libc::c_int) -> libc::c_int {
    watch(fd);
    // SAFETY: the call takes a number.
    sync(What::File(fd), || unsafe { libc::syscall(libc::SYS_fdatasync, fd) })
}

#[unsafe(no_mangle)]
extern "C" fn msync(
    start: *mut libc::c_void,
    len: libc::size_t,
    flags: libc::c_int,
) -> libc::c_int {
    let what = What::Map(start.addr()..start.addr() + len);
    // SAFETY: the kernel checks the range, and changes no memory.
    sync(what, || unsafe { libc::syscall(libc::SYS_msync, start, len, flags) })
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: libc::c_int) -> libc::c_int {
    watch(fd);
    note(What::File(fd), true);
    0
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: libc::c_int, len: libc::off64_t) -> libc::c_int {
    note(What::File(fd), false);
    // SAFETY: what the caller asked for; no memory is passed.
    let rc = unsafe { libc::syscall(libc::SYS_ftruncate, fd, len) };
    note(What::File(fd), false);
    rc as libc::c_int
}
