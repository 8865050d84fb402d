//! What is asked of the disk: every call that writes a file or brings it to the disk, counted.
//!
//! The program exports the C library's functions of these names, so that a store's library, which is
//! opened at run time, calls these here instead: what it says of its durability is seen, not believed.
//! Our own engines and Rust's standard library are linked against them, too. Each counts, and asks
//! the kernel with the same arguments.
//!
//! A write to a file opened with `O_DSYNC` or `O_SYNC` is a sync. Which descriptors these are the kernel is
//! asked at each write, but only in a process that has opened such a file: the functions that open files
//! are exported for that, and no other process pays for it.
//!
//! Not seen: what the C library writes for itself (`fwrite`), stores into a map, and what a library asks of
//! the kernel by `syscall`. The kernel's own figures in `/proc/self/io` hold the first of these.
//!
//! A [`Watcher`] is told of each such call: `credenza torture` knows by it what a power cut would leave.
//!
//! `build.rs` of every program with the workbench in it names the functions to the linker: the list is
//! in `exported.in`. Any thread may call them.

#![allow(unsafe_code)]

use crate::result::Calls;
use libc::{c_char, c_int, c_long, c_uint, c_void, iovec, mode_t, off_t, size_t, ssize_t};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// All calls of this process so far.
pub(crate) fn so_far() -> Calls {
    std::hint::black_box(EXPORTED);
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Calls {
        fsync: of(&FSYNC),
        fdatasync: of(&FDATASYNC),
        msync: of(&MSYNC),
        sync_file_range: of(&SYNC_FILE_RANGE),
        sync: of(&SYNC),
        writes: of(&WRITES),
        written_bytes: of(&WRITTEN_BYTES),
        synced_writes: of(&SYNCED_WRITES),
    }
}

/// What is brought to the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent {
    /// All of the file, or folder, with this descriptor.
    File(c_int),
    /// What is mapped at these addresses.
    Map { start: usize, len: usize },
    /// All files, or those of the file system that has this descriptor's.
    All(Option<c_int>),
}

/// Who is told of calls, on the thread that makes them. What it calls itself it is told of, too.
pub(crate) trait Watcher: Sync {
    /// Something was written to this descriptor.
    fn wrote(&self, fd: c_int);

    /// Somebody begins to wait for the disk; the number comes again when that is over.
    fn sync_begins(&self, what: Extent) -> u64;

    /// What was in `what` when this began is on the disk.
    fn synced(&self, what: Extent, begun: u64);
}

static WATCHER: OnceLock<&'static dyn Watcher> = OnceLock::new();

/// From now on `watcher` is told of every call of this process; there can be one.
pub(crate) fn watch(watcher: &'static dyn Watcher) {
    let _ = WATCHER.set(watcher);
}

/// Does a sync, and tells of it.
fn waited(what: Extent, call: impl FnOnce() -> c_long) -> c_int {
    let Some(watcher) = WATCHER.get() else { return call() as c_int };
    let begun = watcher.sync_begins(what);
    let answer = call();
    if answer == 0 {
        watcher.synced(what, begun);
    }
    answer as c_int
}

/// Whether what is written to a descriptor is on the disk when the call returns.
fn syncs_each_write(fd: c_int) -> bool {
    // SAFETY: the kernel checks the descriptor, and only answers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags != -1 && flags & libc::O_DSYNC != 0
}

static FSYNC: AtomicU64 = AtomicU64::new(0);
static FDATASYNC: AtomicU64 = AtomicU64::new(0);
static MSYNC: AtomicU64 = AtomicU64::new(0);
static SYNC_FILE_RANGE: AtomicU64 = AtomicU64::new(0);
static SYNC: AtomicU64 = AtomicU64::new(0);
static WRITES: AtomicU64 = AtomicU64::new(0);
static WRITTEN_BYTES: AtomicU64 = AtomicU64::new(0);
static SYNCED_WRITES: AtomicU64 = AtomicU64::new(0);
/// Whether this process has opened a file of which each write is a sync.
static HAS_SYNCED_FILES: AtomicBool = AtomicBool::new(false);

/// A reference to each, without which the linker would leave out those that nothing here calls.
static EXPORTED: [Function; 22] = [
    Function(fsync as *const ()),
    Function(fdatasync as *const ()),
    Function(msync as *const ()),
    Function(sync_file_range as *const ()),
    Function(sync as *const ()),
    Function(syncfs as *const ()),
    Function(write as *const ()),
    Function(writev as *const ()),
    Function(pwrite as *const ()),
    Function(pwrite64 as *const ()),
    Function(pwritev as *const ()),
    Function(pwritev64 as *const ()),
    Function(pwritev2 as *const ()),
    Function(pwritev64v2 as *const ()),
    Function(open as *const ()),
    Function(open64 as *const ()),
    Function(openat as *const ()),
    Function(openat64 as *const ()),
    Function(__open_2 as *const ()),
    Function(__open64_2 as *const ()),
    Function(__openat_2 as *const ()),
    Function(__openat64_2 as *const ()),
];

#[derive(Clone, Copy)]
struct Function(#[allow(dead_code, reason = "only there to be referred to")] *const ());

// SAFETY: addresses of functions, which never change and are not called through this.
unsafe impl Sync for Function {}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counts a write by its answer, tells of it, and passes the answer on.
fn wrote(fd: c_int, answer: c_long) -> ssize_t {
    wrote_so(fd, answer, 0)
}

/// The same of a write with these flags.
fn wrote_so(fd: c_int, answer: c_long, flags: c_int) -> ssize_t {
    let Ok(bytes @ 1..) = u64::try_from(answer) else { return answer as ssize_t };
    count(&WRITES);
    WRITTEN_BYTES.fetch_add(bytes, Ordering::Relaxed);
    let watcher = WATCHER.get();
    if let Some(watcher) = watcher {
        watcher.wrote(fd);
    }
    // A descriptor may have come from another process, too: who is told of everything must know.
    let may_sync = watcher.is_some() || HAS_SYNCED_FILES.load(Ordering::Relaxed);
    if flags & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0 || may_sync && syncs_each_write(fd) {
        count(&SYNCED_WRITES);
        waited(Extent::File(fd), || 0);
    }
    answer as ssize_t
}

/// Opens a file as the C library does. `mode` is anything where `flags` ask for none.
fn opened(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if flags & libc::O_DSYNC != 0 {
        HAS_SYNCED_FILES.store(true, Ordering::Relaxed);
    }
    let makes = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
    let mode = if makes { mode } else { 0 };
    // SAFETY: the kernel checks folder, path and flags, and only reads.
    unsafe { libc::syscall(libc::SYS_openat, folder, path, flags, mode) as c_int }
}

// The C library declares these with `...` for the mode. On the processors that Linux runs on here, those with
// 64 bits, an argument there lies where a named one does; one that was not given is never read.

#[unsafe(no_mangle)]
extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    opened(libc::AT_FDCWD, path, flags, mode)
}

#[unsafe(no_mangle)]
extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    opened(libc::AT_FDCWD, path, flags, mode)
}

#[unsafe(no_mangle)]
extern "C" fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    opened(folder, path, flags, mode)
}

#[unsafe(no_mangle)]
extern "C" fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    opened(folder, path, flags, mode)
}

// What programs call that were compiled with `_FORTIFY_SOURCE`, where flags that make no file are not known
// before they run.

#[unsafe(no_mangle)]
extern "C" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    opened(libc::AT_FDCWD, path, flags, 0)
}

#[unsafe(no_mangle)]
extern "C" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    opened(libc::AT_FDCWD, path, flags, 0)
}

#[unsafe(no_mangle)]
extern "C" fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    opened(folder, path, flags, 0)
}

#[unsafe(no_mangle)]
extern "C" fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    opened(folder, path, flags, 0)
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    count(&FSYNC);
    // SAFETY: the kernel checks the descriptor.
    waited(Extent::File(fd), || unsafe { libc::syscall(libc::SYS_fsync, fd) })
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    count(&FDATASYNC);
    // SAFETY: the kernel checks the descriptor.
    waited(Extent::File(fd), || unsafe { libc::syscall(libc::SYS_fdatasync, fd) })
}

#[unsafe(no_mangle)]
extern "C" fn msync(start: *mut c_void, len: size_t, flags: c_int) -> c_int {
    // SAFETY: the kernel checks the range, and changes no memory.
    let call = || unsafe { libc::syscall(libc::SYS_msync, start, len, flags) };
    // With MS_ASYNC it brings nothing to the disk.
    if flags & libc::MS_SYNC == 0 {
        return call() as c_int;
    }
    count(&MSYNC);
    waited(Extent::Map { start: start.addr(), len }, call)
}

#[unsafe(no_mangle)]
extern "C" fn sync_file_range(fd: c_int, start: off_t, len: off_t, flags: c_uint) -> c_int {
    count(&SYNC_FILE_RANGE);
    // SAFETY: the kernel checks descriptor, range and flags.
    unsafe { libc::syscall(libc::SYS_sync_file_range, fd, start, len, flags) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn sync() {
    count(&SYNC);
    // SAFETY: takes nothing, and changes no memory.
    waited(Extent::All(None), || unsafe { libc::syscall(libc::SYS_sync) });
}

#[unsafe(no_mangle)]
extern "C" fn syncfs(fd: c_int) -> c_int {
    count(&SYNC);
    // SAFETY: the kernel checks the descriptor.
    waited(Extent::All(Some(fd)), || unsafe { libc::syscall(libc::SYS_syncfs, fd) })
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the kernel checks descriptor and range, and only reads.
    wrote(fd, unsafe { libc::syscall(libc::SYS_write, fd, from, len) })
}

#[unsafe(no_mangle)]
extern "C" fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: as for `write`.
    wrote(fd, unsafe { libc::syscall(libc::SYS_pwrite64, fd, from, len, at) })
}

#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    pwrite(fd, from, len, at)
}

#[unsafe(no_mangle)]
extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the kernel checks the descriptor, the list and what it names, and only reads.
    wrote(fd, unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) })
}

#[unsafe(no_mangle)]
extern "C" fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // The position is given in two halves, of which the first holds all of it where a long has 64 bits.
    // SAFETY: as for `writev`.
    wrote(fd, unsafe { libc::syscall(libc::SYS_pwritev, fd, parts, count, at, 0_i64) })
}

#[unsafe(no_mangle)]
extern "C" fn pwritev64(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    pwritev(fd, parts, count, at)
}

#[unsafe(no_mangle)]
extern "C" fn pwritev2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as for `writev`.
    let answer = unsafe { libc::syscall(libc::SYS_pwritev2, fd, parts, count, at, 0_i64, flags) };
    wrote_so(fd, answer, flags)
}

#[unsafe(no_mangle)]
extern "C" fn pwritev64v2(
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    pwritev2(fd, parts, count, at, flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
    use std::process::Command;

    /// Other tests of this process write, too: at least so much must have been counted.
    #[test]
    fn calls_are_counted_and_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = File::create_new(&path).unwrap();
        let before = so_far();
        file.write_all(b"abc").unwrap();
        file.write_all_at(b"defg", 3).unwrap();
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        let calls = so_far() - before;
        assert!(calls.writes >= 2 && calls.written_bytes >= 7, "{calls:?}");
        assert!(calls.fdatasync >= 1 && calls.fsync >= 1 && calls.syncs() >= 2, "{calls:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdefg");
        // Of none: one on a disk might have much to do.
        // SAFETY: a descriptor that never is one.
        assert_eq!(unsafe { libc::syncfs(-1) }, -1);
        assert!((so_far() - before).sync >= 1);
        let parts = [std::io::IoSlice::new(b"h"), std::io::IoSlice::new(b"ij")];
        assert_eq!(file.write_vectored(&parts).unwrap(), 3);
        assert_eq!(std::fs::read(&path).unwrap(), b"abchijg");
        // Errors come back as from the C library.
        let read_only = File::open(&path).unwrap();
        let error = (&read_only).write(b"x").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        let error = File::open(folder.path().join("none")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }

    /// In a process of its own: what is counted is that of a whole process, and libraries that other tests of
    /// this one run write so, too.
    #[test]
    fn writes_that_wait_for_the_disk_are_syncs() {
        const ALONE: &str = "CREDENZA_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let test = "driver::syscalls::tests::writes_that_wait_for_the_disk_are_syncs";
            let mut command = Command::new(std::env::current_exe().unwrap());
            let done = command.args(["--exact", test]).env(ALONE, "1").output().unwrap();
            let told = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && told.contains("1 passed"), "{told}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let options = || OpenOptions::new().write(true).create(true).truncate(false).clone();
        let count = || so_far().synced_writes;
        let plain = options().mode(0o640).open(&path).unwrap();
        plain.write_all_at(b"a", 0).unwrap();
        // A write with these flags is one whatever the file was opened with; 4 is RWF_SYNC.
        for flags in [libc::RWF_DSYNC, libc::RWF_SYNC, libc::RWF_DSYNC | libc::RWF_SYNC, 0] {
            let part = iovec { iov_base: b"b".as_ptr().cast_mut().cast(), iov_len: 1 };
            let before = count();
            for write in [pwritev2, pwritev64v2] {
                assert_eq!(write(plain.as_raw_fd(), &raw const part, 1, 1, flags), 1);
            }
            assert_eq!(count() - before, if flags == 0 { 0 } else { 2 }, "{flags}");
        }
        for flag in [libc::O_DSYNC, libc::O_SYNC] {
            let mut synced = options().custom_flags(flag).open(&path).unwrap();
            let before = count();
            synced.write_all(b"cd").unwrap();
            synced.write_all_at(b"e", 2).unwrap();
            // One that writes nothing waits for nothing, and other files are written as before.
            let _ = synced.write(b"").unwrap();
            plain.write_all_at(b"f", 3).unwrap();
            assert_eq!(count() - before, 2);
            // It is known by whatever descriptor it is written.
            synced.try_clone().unwrap().write_all(b"g").unwrap();
            assert_eq!(count() - before, 3);
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"cdgf");
        let mode = plain.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "the mode is passed on");
    }
}
