//! Which process this is, which others still live, and which boot of the machine.

#![allow(unsafe_code)]

use super::own_opening::{begin_fork, end_fork, let_go};
use crate::{Error, Result};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

static PID: AtomicU32 = AtomicU32::new(0);
static START: AtomicU64 = AtomicU64::new(0);
/// How often this process, or one that it was forked from, was forked into another namespace of process numbers.
static MOVES: AtomicU32 = AtomicU32::new(0);
/// One more than how often this process, or one that it comes from, was forked.
static FORKS: AtomicU32 = AtomicU32::new(1);

/// This process: its number, right also after a fork. [`prepare`] was called before.
#[inline(always)]
pub(crate) fn own_pid() -> u32 {
    PID.load(Ordering::Relaxed)
}

/// When this process began, in ticks since the boot; 0 if that cannot be known.
#[inline(always)]
pub(crate) fn own_start() -> u64 {
    match START.load(Ordering::Relaxed) {
        0 => start_unless_asked(),
        start => start,
    }
}

/// The same in a process that was forked since it was known, or that cannot know it: that asks once.
#[cold]
fn start_unless_asked() -> u64 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    if ASKED.load(Ordering::Relaxed) != own_pid() {
        learn_start();
        ASKED.store(own_pid(), Ordering::Relaxed);
    }
    START.load(Ordering::Relaxed)
}

/// What no process has in common with those that it comes from by forks, and never 0: whoever noted another has it from one
/// of those. Numbers of processes do not tell: the first of each namespace is 1, and those of the dead are given again.
/// [`prepare`] was called before.
#[inline(always)]
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// The same, with what also a child has whom nobody told that it is one: by `_Fork`, or the system call.
pub(crate) fn forks_and_pid() -> (u32, u32) {
    prepare();
    (forks(), std::process::id())
}

/// How often this process came into another namespace of process numbers, as far as that was by being forked. It takes nobody
/// for dead then, and never knows its start: who asks for that finds that it moved.
#[inline(always)]
pub(crate) fn moves() -> u32 {
    MOVES.load(Ordering::Relaxed)
}

/// The error of who takes part in a store, by a handle that was opened before a move.
#[cold]
pub(crate) fn has_moved() -> Error {
    Error::invalid(
        "this process was forked into another process namespace than the store was opened in, where those who use it have \
         other numbers: open it there, when nobody has it open elsewhere",
    )
}

fn learn_start() {
    if moves() == 0
        && is_proc_ours()
        && let Seen::Since(start) = look_at(std::process::id())
    {
        START.store(start, Ordering::Relaxed);
    }
}

/// Learns who this process is, now and after each fork.
pub(crate) fn prepare() {
    extern "C" fn learn() {
        let pid = std::process::id();
        // Who made this process is not where it is.
        if std::os::unix::process::parent_id() == 0 {
            MOVES.fetch_add(1, Ordering::Relaxed);
        }
        // Between fork and exec only calls that are safe in signal handlers are: no reading of
        // /proc here. A child asks for its start when it needs that.
        FORKS.fetch_add(1, Ordering::Relaxed);
        START.store(0, Ordering::Relaxed);
        PID.store(pid, Ordering::Relaxed);
        let_go();
    }
    // Not a `Once`: a child that is forked while another thread is in that waits for ever. Who comes here
    // at the same time makes it known twice, which is as good. Until it is, nobody has noted a start.
    static IS_KNOWN: AtomicBool = AtomicBool::new(false);
    if !IS_KNOWN.load(Ordering::Acquire) {
        PID.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the handlers ask for two numbers, store some, and close files.
        let rc = unsafe { libc::pthread_atfork(Some(begin_fork), Some(end_fork), Some(learn)) };
        // Without memory it fails, and is asked for again by who opens the next store.
        IS_KNOWN.store(rc == 0, Ordering::Release);
    }
    // Who could not be told it before, for want of descriptors perhaps, asks again.
    if START.load(Ordering::Relaxed) == 0 {
        learn_start();
    }
}

/// What `/proc` says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// It began then, in ticks since the boot.
    Since(u64),
    /// It has ended, and nobody has asked yet how.
    Zombie,
    /// There is none; or `/proc` hides it (`hidepid`), or is not there.
    Nothing,
}

/// Whether the process that had this number, and began then (0: not known), still lives; so does everybody for who was forked
/// into another namespace, where the number may be of the one that he comes from.
pub(crate) fn is_alive(pid: u32, start: u64) -> bool {
    if moves() != 0 {
        return true;
    }
    if !is_there(pid) {
        return false;
    }
    let is_dead = match look_at(pid) {
        // It holds nothing any more.
        Seen::Zombie => true,
        Seen::Since(now) => start != 0 && now != start,
        // It ended meanwhile; else it is taken to live.
        Seen::Nothing => return is_there(pid),
    };
    !(is_dead && is_proc_ours())
}

/// Whether `/proc` calls processes by the numbers that the kernel knows them by where this process is: that of another
/// namespace stays there for who makes one and mounts none.
fn is_proc_ours() -> bool {
    let Ok(status) = fs::read("/proc/self/status") else { return false };
    let own = std::process::id().to_string();
    let mut lines = status.split(|byte| *byte == b'\n');
    // This process's number there, and in each namespace within that one, down to its own.
    match lines.find_map(|line| line.strip_prefix(b"NSpid:")) {
        Some(numbers) => numbers.trim_ascii() == own.as_bytes(),
        None => fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == own.as_str()),
    }
}

/// Whether the kernel knows a process of this number, which may be a zombie.
fn is_there(pid: u32) -> bool {
    // No other number is a process's: the kernel takes some for groups of them.
    let Some(pid) = i32::try_from(pid).ok().filter(|pid| *pid > 0) else { return false };
    // SAFETY: signal 0 is sent to nobody; the call only asks.
    let rc = unsafe { libc::kill(pid, 0) };
    rc == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// The process that the thread of this number is of; `None` if there is none, or it cannot be known here.
pub(super) fn process_of(thread: u32) -> Option<u32> {
    if moves() != 0 || !is_proc_ours() {
        return None;
    }
    let status = fs::read(format!("/proc/{thread}/status")).ok()?;
    let mut lines = status.split(|byte| *byte == b'\n');
    let number = lines.find_map(|line| line.strip_prefix(b"Tgid:"))?;
    std::str::from_utf8(number.trim_ascii()).ok()?.parse().ok()
}

fn look_at(pid: u32) -> Seen {
    let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { return Seen::Nothing };
    // The name, in parentheses, may hold any bytes; fields are counted after it.
    let after = stat.iter().rposition(|byte| *byte == b')').map_or(0, |end| end + 1);
    let fields = stat.get(after..).and_then(|fields| std::str::from_utf8(fields).ok());
    let mut fields = fields.unwrap_or_default().split_ascii_whitespace();
    let is_zombie = matches!(fields.next(), Some("Z" | "X"));
    // A process whose main thread has ended is in that state, too, as long as another thread lives.
    let threads = fields.nth(16).and_then(|threads| threads.parse::<u64>().ok());
    if is_zombie && threads.is_none_or(|threads| threads <= 1) {
        return Seen::Zombie;
    }
    fields.nth(1).and_then(|start| start.parse().ok()).map_or(Seen::Nothing, Seen::Since)
}

/// Where the kernel tells a number that no other boot of any machine has.
pub(super) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A number for the machine's current boot, 0 if nobody tells. It is asked for until it is known: a process that has no
/// descriptor left cannot ask, and took the boot for another.
fn boot() -> u128 {
    /// Its halves, neither of which is 0 where it is known. No lock, which another thread may have at the moment of a fork.
    static HALVES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let [low, high] = HALVES.each_ref().map(|half| half.load(Ordering::Relaxed));
    if low != 0 && high != 0 {
        return u128::from(low) | u128::from(high) << 64;
    }
    let text = fs::read_to_string(BOOT_ID).unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let boot = u128::from_str_radix(&digits, 16).unwrap_or(0);
    HALVES[0].store(boot as u64, Ordering::Relaxed);
    HALVES[1].store((boot >> 64) as u64, Ordering::Relaxed);
    boot
}

/// The time namespace that the machine starts with: the same number in every kernel.
const FIRST_TIME_NAMESPACE: u64 = 0xefff_fffa;

/// A number for the machine's current boot, and one for the namespace that process numbers are of and the one that clocks
/// are of: by another clock processes began at another time, and leases are over at another.
pub(crate) fn boot_and_namespace() -> (u128, u64) {
    let number = |kind| fs::metadata(format!("/proc/self/ns/{kind}")).map_or(0, |meta| meta.ino());
    // The first is 0, as it is where the kernel has none: so it was before time namespaces counted here.
    let time = number("time");
    let time = if time == FIRST_TIME_NAMESPACE { 0 } else { time };
    (boot(), number("pid") | time << 32)
}

/// Both namespaces in 32 bits: that of process numbers alone if clocks are the machine's. Multiplied, since their numbers
/// are near each other, and sums of them would often be equal.
fn folded(namespaces: u64) -> u32 {
    (namespaces as u32).wrapping_add(((namespaces >> 32) as u32).wrapping_mul(0x9e37_79b1))
}

/// A process, such that no two that ever were are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its number; never 0.
    pub pid: u32,
    /// A number for the namespaces of that number and of that time, 0 where the kernel does not tell.
    pub namespace: u32,
    /// When it began, in clock ticks after the boot; 0 where the kernel does not tell.
    pub start: u64,
    /// A number that stands for the boot; 0 where the kernel does not tell.
    pub boot: u64,
}

impl Process {
    /// This process.
    pub(crate) fn current() -> Process {
        prepare();
        let (boot, namespace) = boot_and_namespace();
        let boot = (boot >> 64) as u64 ^ boot as u64;
        Process { pid: own_pid(), namespace: folded(namespace), start: own_start(), boot }
    }

    /// Whether it has ended, as far as `observer`, who asks, can tell for certain.
    pub(crate) fn is_dead(&self, observer: &Process) -> bool {
        if self.boot != observer.boot {
            return observer.boot != 0;
        }
        // Who does not see itself in /proc does not see others there.
        let is_seen = self.namespace == observer.namespace && observer.start != 0;
        is_seen && !is_alive(self.pid, self.start)
    }
}

/// What a clock of the kernel shows.
#[inline]
pub(super) fn clock(id: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written during the call.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time
}

/// Time since the machine was started, that in which it slept included: the same for all processes of
/// a boot, whatever is done to the time of day.
pub(crate) fn since_boot() -> Duration {
    let time = clock(libc::CLOCK_BOOTTIME);
    Duration::from_secs(time.tv_sec.cast_unsigned())
        + Duration::from_nanos(time.tv_nsec.cast_unsigned())
}

/// Milliseconds since 1970, as of the kernel's last tick: a few too few. Readers note when they began at
/// each lookup, and the exact time took half of it.
#[inline]
pub(crate) fn unix_ms() -> u64 {
    let time = clock(libc::CLOCK_REALTIME_COARSE);
    // Before 1970 it is zero.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1000 + time.tv_nsec.cast_unsigned() / 1_000_000
}

/// Nanoseconds of the kernel's monotonic clock: the same for all processes of a boot, never going back,
/// and standing still while the machine sleeps.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    let time = clock(libc::CLOCK_MONOTONIC);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Whether this process has rights that whoever started it has not, as a set-user-id program has: then
/// the environment is a stranger's.
pub(crate) fn has_more_rights_than_its_starter() -> bool {
    // SAFETY: the call reads what the kernel gave the process at its start.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Has `f` called when the process ends by `exit` or by the return of `main`.
pub(crate) fn at_exit(f: extern "C" fn()) {
    // SAFETY: a function of the type that the call wants, which lives as long as its code.
    unsafe {
        libc::atexit(f);
    }
}

/// What the kernel limits for a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// How long it may make a file: who writes beyond is sent a signal that ends it.
    File,
    /// How many addresses it may have mapped.
    Addresses,
    /// How much memory that is no file's.
    Data,
}

impl Limit {
    /// How much; `u64::MAX` for no limit.
    pub(super) fn bytes(self) -> u64 {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let limit_at = &raw mut limit;
        // The type of the numbers is not the same in all C libraries.
        // SAFETY: the limit is written during the call.
        let rc = unsafe {
            match self {
                Limit::File => libc::getrlimit(libc::RLIMIT_FSIZE, limit_at),
                Limit::Addresses => libc::getrlimit(libc::RLIMIT_AS, limit_at),
                Limit::Data => libc::getrlimit(libc::RLIMIT_DATA, limit_at),
            }
        };
        if rc == 0 { limit.rlim_cur } else { u64::MAX }
    }
}

/// How long this process may make a file.
pub(crate) fn longest_file() -> u64 {
    Limit::File.bytes()
}

/// Random bits that nobody can guess.
pub(crate) fn random_word() -> Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the buffer is writable for its length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        return Err(Error::io("get random bytes", io::Error::last_os_error()));
    }
    Ok(u64::from_le_bytes(bytes))
}

/// A number that nothing else has.
pub(crate) fn random_id() -> Result<u128> {
    Ok(u128::from(random_word()?) | u128::from(random_word()?) << 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_others_with_its_number_are_not() {
        let me = Process::current();
        assert!(me.pid != 0 && me.start != 0 && me.boot != 0 && me.namespace != 0, "{me:?}");
        assert!(!me.is_dead(&me));
        assert!(Process { start: me.start + 1, ..me }.is_dead(&me));
        assert!(Process { boot: me.boot ^ 1, ..me }.is_dead(&me));
        assert!(!me.is_dead(&Process { boot: 0, ..me }), "who does not know the boot cannot tell");
        assert!(Process { pid: u32::MAX, ..me }.is_dead(&me));
        assert!(!Process { pid: u32::MAX, namespace: 1, ..me }.is_dead(&me));
        assert!(!Process { start: me.start + 1, ..me }.is_dead(&Process { start: 0, ..me }));
    }

    #[test]
    fn a_process_of_any_name_is_alive() {
        prepare();
        let pid = std::process::id();
        let (name, start) = (fs::read("/proc/self/comm").unwrap(), look_at(pid));
        assert!(matches!(start, Seen::Since(1..)), "{start:?}");
        for strange in [&b"a) Z (b"[..], b"\xff\xfe", b""] {
            fs::write("/proc/self/comm", strange).unwrap();
            assert_eq!(look_at(pid), start, "{strange:?}");
            assert!(is_alive(pid, own_start()), "{strange:?}");
        }
        fs::write("/proc/self/comm", name.trim_ascii_end()).unwrap();
    }

    #[test]
    fn a_killed_child_is_dead_also_before_it_is_waited_for() {
        let me = Process::current();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let Seen::Since(start) = look_at(child.id()) else { panic!("it is not there") };
        let process = Process { pid: child.id(), start, ..me };
        assert!(!process.is_dead(&me));
        child.kill().unwrap();
        while !process.is_dead(&me) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(process.is_dead(&me));
    }

    /// Its main thread is a zombie then, as that of a process that has ended.
    #[test]
    fn a_process_whose_main_thread_has_ended_is_alive() {
        extern "C" fn rest(_: *mut libc::c_void) -> *mut libc::c_void {
            loop {
                // SAFETY: waits for a signal.
                unsafe { libc::pause() };
            }
        }
        // SAFETY: the child begins a thread that touches nothing, and ends its own.
        let pid = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let mut thread = std::mem::zeroed();
                let none = std::ptr::null();
                libc::pthread_create(&raw mut thread, none, rest, std::ptr::null_mut());
                libc::syscall(libc::SYS_exit, 0);
            }
            pid
        };
        assert!(pid > 0);
        let id = pid.cast_unsigned();
        let state = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.rsplit_once(')').unwrap().1.trim_start().chars().next().unwrap()
        };
        while state() != 'Z' {
            std::thread::yield_now();
        }
        let seen = (look_at(id), is_alive(id, 0));
        // SAFETY: the child of this test; the status is not asked for.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        while is_alive(id, 0) {
            std::thread::yield_now();
        }
        // SAFETY: as above.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        assert!(matches!(seen, (Seen::Since(1..), true)), "{seen:?}");
    }
}
