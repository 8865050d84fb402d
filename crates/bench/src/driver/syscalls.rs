//! What is asked of the disk: every call that writes a file or brings it to the disk, counted.
//!
//! The program exports the C library's functions of these names, so that a store's library, which is
//! opened at run time, calls these here instead: what it says of its durability is seen, not believed.
//! Our own engines and Rust's standard library are linked against them, too. Each counts, and asks
//! the kernel with the same arguments.
//!
//! Not seen: what the C library writes for itself (`fwrite`), stores into a map, and files opened
//! with `O_DSYNC`. The kernel's own figures in `/proc/self/io` hold the first of these.
//!
//! `build.rs` of every program with the workbench in it names the functions to the linker: the list is
//! in `exported.in`. Any thread may call them.

#![allow(unsafe_code)]

use crate::result::Calls;
use libc::{c_int, c_long, c_uint, c_void, iovec, off_t, size_t, ssize_t};
use std::sync::atomic::{AtomicU64, Ordering};

/// All calls of this process so far.
pub(crate) fn so_far() -> Calls {
    std::hint::black_box(EXPORTED);
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Calls {
        fsync: of(&FSYNC),
        fdatasync: of(&FDATASYNC),
        msync: of(&MSYNC),
        sync_file_range: of(&SYNC_FILE_RANGE),
        writes: of(&WRITES),
        written_bytes: of(&WRITTEN_BYTES),
    }
}

static FSYNC: AtomicU64 = AtomicU64::new(0);
static FDATASYNC: AtomicU64 = AtomicU64::new(0);
static MSYNC: AtomicU64 = AtomicU64::new(0);
static SYNC_FILE_RANGE: AtomicU64 = AtomicU64::new(0);
static WRITES: AtomicU64 = AtomicU64::new(0);
static WRITTEN_BYTES: AtomicU64 = AtomicU64::new(0);

/// A reference to each, without which the linker would leave out those that nothing here calls.
static EXPORTED: [Function; 11] = [
    Function(fsync as *const ()),
    Function(fdatasync as *const ()),
    Function(msync as *const ()),
    Function(sync_file_range as *const ()),
    Function(write as *const ()),
    Function(writev as *const ()),
    Function(pwrite as *const ()),
    Function(pwrite64 as *const ()),
    Function(pwritev as *const ()),
    Function(pwritev64 as *const ()),
    Function(pwritev2 as *const ()),
];

#[derive(Clone, Copy)]
struct Function(#[allow(dead_code, reason = "only there to be referred to")] *const ());

// SAFETY: addresses of functions, which never change and are not called through this.
unsafe impl Sync for Function {}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Counts a write by its answer, and passes that on.
fn wrote(answer: c_long) -> ssize_t {
    if let Ok(bytes @ 1..) = u64::try_from(answer) {
        count(&WRITES);
        WRITTEN_BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
    answer as ssize_t
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    count(&FSYNC);
    // SAFETY: the kernel checks the descriptor.
    unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    count(&FDATASYNC);
    // SAFETY: the kernel checks the descriptor.
    unsafe { libc::syscall(libc::SYS_fdatasync, fd) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn msync(start: *mut c_void, len: size_t, flags: c_int) -> c_int {
    // With MS_ASYNC it brings nothing to the disk.
    if flags & libc::MS_SYNC != 0 {
        count(&MSYNC);
    }
    // SAFETY: the kernel checks the range, and changes no memory.
    unsafe { libc::syscall(libc::SYS_msync, start, len, flags) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn sync_file_range(fd: c_int, start: off_t, len: off_t, flags: c_uint) -> c_int {
    count(&SYNC_FILE_RANGE);
    // SAFETY: the kernel checks descriptor, range and flags.
    unsafe { libc::syscall(libc::SYS_sync_file_range, fd, start, len, flags) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the kernel checks descriptor and range, and only reads.
    wrote(unsafe { libc::syscall(libc::SYS_write, fd, from, len) })
}

#[unsafe(no_mangle)]
extern "C" fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    // SAFETY: as for `write`.
    wrote(unsafe { libc::syscall(libc::SYS_pwrite64, fd, from, len, at) })
}

#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    pwrite(fd, from, len, at)
}

#[unsafe(no_mangle)]
extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the kernel checks the descriptor, the list and what it names, and only reads.
    wrote(unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) })
}

#[unsafe(no_mangle)]
extern "C" fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // The position is given in two halves, of which the first holds all of it where a long has 64 bits.
    // SAFETY: as for `writev`.
    wrote(unsafe { libc::syscall(libc::SYS_pwritev, fd, parts, count, at, 0_i64) })
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
    wrote(unsafe { libc::syscall(libc::SYS_pwritev2, fd, parts, count, at, 0_i64, flags) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

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
        let parts = [std::io::IoSlice::new(b"h"), std::io::IoSlice::new(b"ij")];
        assert_eq!(file.write_vectored(&parts).unwrap(), 3);
        assert_eq!(std::fs::read(&path).unwrap(), b"abchijg");
        // Errors come back as from the C library.
        let read_only = File::open(&path).unwrap();
        let error = (&read_only).write(b"x").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
