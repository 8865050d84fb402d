//! What the measurements ask of the kernel and the standard library does not offer.

#![allow(unsafe_code)]

use credenza::{Error, Result};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// The processors this process may run on, in ascending order.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a cpu_set_t is an array of bits, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a place of the size that is named.
    let rc = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    if rc != 0 {
        return Vec::new();
    }
    // SAFETY: CPU_ISSET reads the bit `cpu`, which is below CPU_SETSIZE and so inside the set.
    let is_allowed = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(is_allowed).collect()
}

/// Binds this process to one processor.
pub(crate) fn pin_to(cpu: usize) -> Result<()> {
    // SAFETY: as in `allowed_cpus`.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(Error::invalid(format!("there is no processor {cpu}")));
    }
    // SAFETY: `cpu` is below CPU_SETSIZE, so the bit is inside the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is initialised and of the size that is named.
    let rc = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if rc != 0 {
        return Err(Error::io("bind to one processor (try --no-pin)", io::Error::last_os_error()));
    }
    Ok(())
}

/// Has the kernel end this process when the one that started it ends.
pub(crate) fn end_with_parent() -> Result<()> {
    // SAFETY: this option takes a number and changes no memory.
    let rc = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if rc != 0 {
        return Err(Error::io("follow the parent process", io::Error::last_os_error()));
    }
    Ok(())
}

/// Whether there is something to read on standard input, or nothing will come any more.
pub(crate) fn has_input() -> Result<bool> {
    let mut input = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, which lives during the call; a time of 0 does not wait.
    match unsafe { libc::poll(&raw mut input, 1, 0) } {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::io("look at the input", io::Error::last_os_error())),
    }
}

/// How often a file is dropped from memory before it is said that it stays, and the time between:
/// the kernel leaves a page that it has just in hand itself, as when it looks for pages to free.
const EVICTIONS: usize = 10;
const BETWEEN_EVICTIONS: Duration = Duration::from_millis(20);

/// Brings a file to the disk and drops its pages from memory. Fails if any page stays: then the
/// next access would not be cold.
pub(crate) fn evict(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|e| Error::io("open", e).at(path))?;
    file.sync_data().map_err(|e| Error::io("bring to disk", e).at(path))?;
    let mut left = 0;
    for time in 0..EVICTIONS {
        if time > 0 {
            std::thread::sleep(BETWEEN_EVICTIONS);
        }
        // SAFETY: the descriptor is open; the call changes no memory of ours.
        let rc = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if rc != 0 {
            return Err(Error::io("drop from memory", io::Error::from_raw_os_error(rc)).at(path));
        }
        left = resident_pages(&file).map_err(|e| Error::io("ask for pages of", e).at(path))?;
        if left == 0 {
            return Ok(());
        }
    }
    Err(Error::invalid(format!(
        "{left} pages of the file stay in memory, so a cold cache cannot be measured: choose \
         a folder on a disk with --dir (not tmpfs), and see that nobody else reads the file"
    ))
    .at(path))
}

/// How many pages of a file are in memory.
fn resident_pages(file: &File) -> io::Result<usize> {
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if len == 0 {
        return Ok(0);
    }
    // SAFETY: a new shared read-only map at an address of the kernel's choice touches no memory of
    // ours; it is never read, only asked about.
    let map = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if map == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: sysconf has no preconditions.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let mut states = vec![0_u8; len.div_ceil(page)];
    // SAFETY: `map` is a live map of `len` bytes, and `states` has one byte for each page of it.
    let rc = unsafe { libc::mincore(map, len, states.as_mut_ptr()) };
    let asked = if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the map was made above with this length and nothing refers to it.
    unsafe { libc::munmap(map, len) };
    asked?;
    Ok(states.iter().filter(|state| **state & 1 == 1).count())
}

/// Gives memory that was freed back to the kernel, so that it does not hide what is taken next.
pub(crate) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Seconds of the processor that this process has used so far: its own, and the kernel's for it.
pub(crate) fn cpu_seconds() -> (f64, f64) {
    // SAFETY: rusage is numbers only, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a place for the answer.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// Bytes that whoever runs this may still write to the filesystem that holds `path`.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: statvfs is numbers only, for which zero is a value.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a C string, and `facts` a place for the answer.
    let rc = unsafe { libc::statvfs(name.as_ptr(), &raw mut facts) };
    (rc == 0).then(|| facts.f_bavail.saturating_mul(facts.f_frsize))
}

/// Page faults of this process so far: those that needed no reading from the disk, and those that did.
pub(crate) fn faults() -> (u64, u64) {
    // SAFETY: rusage is numbers only, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a place for the answer.
    let rc = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let count = |n: libc::c_long| if rc == 0 { u64::try_from(n).unwrap_or(0) } else { 0 };
    (count(usage.ru_minflt), count(usage.ru_majflt))
}
