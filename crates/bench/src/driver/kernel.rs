//! What the measurements ask of the kernel and the standard library does not offer.

#![allow(unsafe_code)]

use credenza::{Error, Result};
use libc::c_int;
use std::ffi::CString;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
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

/// Has the signals that end a run go to other threads than this one and those that it starts: what waits
/// for a server with a limit of time would be interrupted by them, and not begin again.
pub(crate) fn leave_signals_to_others() {
    mask_ends(libc::SIG_BLOCK);
}

/// Has the same signals come to this thread, and to those that it starts from here on: whoever started this
/// process may have left them to others, which is inherited.
pub(crate) fn take_signals() {
    mask_ends(libc::SIG_UNBLOCK);
}

fn mask_ends(how: c_int) {
    // SAFETY: the set is this function's own, and made before it is read; a mask of signals changes no memory.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut());
    }
}

/// Has the kernel keep how processes ended that this one starts until it asks: whoever started this one may have
/// had it otherwise, and then nobody would learn it.
pub fn keep_ends_of_children() {
    // SAFETY: what the signal does is set to what it is by default, which calls no function.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Has a write beyond the limit of the size of files (`ulimit -f`) fail with an error, where the kernel would end this
/// process without a word. Not by ignoring the signal, which the programs that this one starts would inherit:
/// with exec they get back what it does by default.
pub fn take_long_files_for_errors() {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: both actions are this function's own, for which zero is a value; what is called does nothing. A signal
    // that whoever started this process has ignored, or that somebody else handles, is left as it is.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let asked = libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &raw mut action);
        if asked == 0 && action.sa_sigaction == libc::SIG_DFL {
            action.sa_sigaction = nothing as extern "C" fn(c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Whether the descriptor of this number, which this process was started with, leads to the regular file at `path`.
pub fn leads_to(number: i32, path: &Path) -> bool {
    let id = |meta: Metadata| meta.is_file().then(|| (meta.dev(), meta.ino()));
    let opened = inherited(number).and_then(|file| file.metadata()).ok().and_then(id);
    opened.is_some() && opened == std::fs::metadata(path).ok().and_then(id)
}

/// Another descriptor for what the one of this number leads to, which this process was started with: its place in
/// a file, and whether it appends to that, are the same.
///
/// # Errors
/// There is none of this number, or this process opened it itself.
pub fn inherited(number: i32) -> io::Result<File> {
    // SAFETY: the call takes a number, and only asks.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // What this process opens is closed by exec, and what it was started with was not.
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the call takes two numbers, and makes a new descriptor.
    let new = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if new < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made above, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(new) })
}

/// Ends all processes of the group that this one, which was not waited for yet, is the first of.
pub(crate) fn kill_group(leader: u32) {
    if let Some(leader) = i32::try_from(leader).ok().filter(|id| *id > 1) {
        // SAFETY: a signal to processes changes no memory of this one. Nobody has waited for the leader, so
        // that its number is no other's.
        unsafe { libc::kill(-leader, libc::SIGKILL) };
    }
}

/// Asks this process, which was not waited for yet, to end by itself.
pub(crate) fn ask_to_end(process: u32) {
    if let Some(process) = i32::try_from(process).ok().filter(|id| *id > 1) {
        // SAFETY: a signal to a process changes no memory of this one. Nobody has waited for that one, so that
        // its number is no other's.
        unsafe { libc::kill(process, libc::SIGTERM) };
    }
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
        "{left} pages of the file stay in memory, so a cold cache cannot be measured: name \
         another folder, on a disk (not tmpfs), and see that nobody else reads the file"
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
    let name = c_string(path).ok()?;
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

/// Has the kernel kill this process after some time, wherever it is then.
pub(crate) fn kill_after(time: Duration) -> Result<()> {
    // SAFETY: sigevent is numbers and a pointer, for which zero is a value.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = libc::SIGKILL;
    let mut timer: libc::timer_t = std::ptr::null_mut();
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // A time of zero would be none.
    let nanoseconds = time.subsec_nanos().max(1);
    let first = libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(nanoseconds),
    };
    let times = libc::itimerspec { it_interval: none, it_value: first };
    // SAFETY: `event` is read, and `timer` is a place for the answer.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    let set = || {
        // SAFETY: the timer was made, and `times` is read; nobody wants to know the old ones.
        unsafe { libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()) }
    };
    if made != 0 || set() != 0 {
        return Err(Error::io("set a timer", io::Error::last_os_error()));
    }
    Ok(())
}

/// Ends this process at once, as `kill -9` does.
pub(crate) fn kill_this_process() -> ! {
    // SAFETY: a signal to this process alone, which ends it and runs none of its code.
    unsafe { libc::raise(libc::SIGKILL) };
    std::process::abort()
}

/// No file of this process may from now on become longer: writing more is an error, and no signal.
pub(crate) fn limit_file_size(bytes: u64) -> Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is read during the call; the signal is ignored, for which no code runs.
    let rc = unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
    };
    match rc {
        0 => Ok(()),
        _ => Err(Error::io("limit the size of files", io::Error::last_os_error())),
    }
}

/// Has this process, and those that it starts, see mounts of its own from now on: they end with it. For
/// the first thread, before there are others; mostly only root may.
pub(crate) fn own_mounts() -> io::Result<()> {
    // SAFETY: the flag takes nothing and changes no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // What is mounted here is to be seen nowhere else.
    mount(Path::new("none"), Path::new("/"), "", libc::MS_REC | libc::MS_PRIVATE)
}

/// Mounts a file system in memory with so much space at `path`; or changes the space of one.
pub(crate) fn mount_memory(path: &Path, bytes: u64, is_there: bool) -> io::Result<()> {
    let flags = if is_there { libc::MS_REMOUNT } else { 0 };
    mount(Path::new("tmpfs"), path, &format!("size={bytes}"), flags)
}

fn mount(kind: &Path, at: &Path, options: &str, flags: libc::c_ulong) -> io::Result<()> {
    let kind = c_string(kind)?;
    let (at, options) = (c_string(at)?, c_string(Path::new(options))?);
    // SAFETY: C strings, which are read during the call.
    let rc = unsafe {
        let data = options.as_ptr().cast();
        libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, data)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes a mount away.
pub(crate) fn unmount(path: &Path) -> io::Result<()> {
    let path = c_string(path)?;
    // SAFETY: a C string, which is read during the call.
    let rc = unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn c_string(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Where a file has bytes, and not a hole: from, to.
pub(crate) fn parts_with_data(file: &File) -> io::Result<Vec<(u64, u64)>> {
    let seek = |from: u64, what: c_int| {
        let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open, and no memory is passed.
        let at = unsafe { libc::lseek(file.as_raw_fd(), from, what) };
        u64::try_from(at).map_err(|_| io::Error::last_os_error())
    };
    let mut parts = Vec::new();
    let mut at = 0;
    loop {
        match seek(at, libc::SEEK_DATA) {
            Ok(start) => {
                at = seek(start, libc::SEEK_HOLE)?;
                parts.push((start, at));
            }
            // Behind it there is nothing but holes, or nothing.
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => return Ok(parts),
            Err(e) => return Err(e),
        }
    }
}
