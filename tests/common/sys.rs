//! What tests ask of the kernel that the standard library does not: forks, signals, limits, and
//! another process's progress instruction by instruction.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// A process forked from this one; killed when dropped.
pub struct Forked {
    pid: libc::pid_t,
    is_gone: bool,
}

/// How a process that was waited for is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Exited(i32),
    Killed(i32),
    Stopped(i32),
}

/// Runs `work` in a fork of this process, which stops itself once; meanwhile `others`, then the fork to its
/// end. What `others` returns.
pub fn while_stopped<R>(work: impl FnOnce(), others: impl FnOnce() -> R) -> R {
    let mut stopped = fork(|| {
        give_up_after(100);
        work();
    });
    assert_eq!(stopped.wait(), Status::Stopped(SIGSTOP));
    let done = others();
    signal(stopped.pid(), SIGCONT);
    assert_eq!(stopped.wait(), Status::Exited(0));
    done
}

/// Runs `work` in a fork of this process, which ends with 0 when it is done, with 101 after a panic.
pub fn fork(work: impl FnOnce()) -> Forked {
    // SAFETY: the child has one thread and runs what any thread may; the C library makes its
    // allocator usable after a fork. It ends without running what the parent registered for its end.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "cannot fork");
        if pid > 0 {
            return Forked { pid, is_gone: false };
        }
        let done = catch_unwind(AssertUnwindSafe(work));
        if let Err(panic) = &done {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            let text = format!("in the child: {text}\n");
            libc::write(2, text.as_ptr().cast(), text.len());
        }
        libc::_exit(if done.is_ok() { 0 } else { 101 })
    }
}

/// Forks this process, and goes on in both: without a [`Forked`] in the child, which is to end with
/// [`end`].
pub fn fork_here() -> Option<Forked> {
    // SAFETY: as for `fork`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "cannot fork");
    (pid > 0).then(|| Forked { pid, is_gone: false })
}

/// Ends a child that [`fork_here`] made.
pub fn end() -> ! {
    // SAFETY: ends the process without running what its parent registered for its end.
    unsafe { libc::_exit(0) }
}

impl Forked {
    pub fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    /// Waits until it ends or stops.
    pub fn wait(&mut self) -> Status {
        let mut status = 0;
        // SAFETY: the status is written during the call.
        let got = unsafe { libc::waitpid(self.pid, &raw mut status, libc::WUNTRACED) };
        assert_eq!(got, self.pid, "cannot wait for a child");
        if libc::WIFSTOPPED(status) {
            return Status::Stopped(libc::WSTOPSIG(status));
        }
        self.is_gone = true;
        if libc::WIFEXITED(status) {
            Status::Exited(libc::WEXITSTATUS(status))
        } else {
            Status::Killed(libc::WTERMSIG(status))
        }
    }

    pub fn kill(&mut self) {
        signal(self.pid(), libc::SIGKILL);
        assert_eq!(self.wait(), Status::Killed(libc::SIGKILL));
    }

    /// Lets a traced process that is stopped do one instruction; how it is then.
    pub fn step(&mut self) -> Status {
        self.go_on(libc::PTRACE_SINGLESTEP)
    }

    /// Lets a traced process that is stopped go on until it calls the kernel, or comes back from there;
    /// how it is then.
    pub fn run_to_call(&mut self) -> Status {
        self.go_on(libc::PTRACE_SYSCALL)
    }

    /// The same until a signal stops it.
    pub fn run(&mut self) -> Status {
        self.go_on(libc::PTRACE_CONT)
    }

    fn go_on(&mut self, how: Request) -> Status {
        loop {
            // SAFETY: the process is traced by this thread and stopped; no memory is passed.
            let rc = unsafe { libc::ptrace(how, self.pid, 0usize, 0usize) };
            assert_eq!(rc, 0, "cannot let it go on: {}", std::io::Error::last_os_error());
            let status = self.wait();
            // Sent by who halts all processes of a machine, and lets them go on.
            if status != Status::Stopped(SIGCONT) {
                return status;
            }
        }
    }
}

/// C libraries differ in the type.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

impl Drop for Forked {
    fn drop(&mut self) {
        if !self.is_gone {
            signal(self.pid(), libc::SIGKILL);
            // SAFETY: nothing is written.
            unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
        }
    }
}

/// Lets the parent trace this process; whether it may.
pub fn be_traced() -> bool {
    // SAFETY: no memory is passed.
    unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0usize, 0usize) == 0 }
}

/// Stops this process until somebody lets it go on.
pub fn stop_here() {
    // SAFETY: stops this process, which changes nothing in it.
    unsafe { libc::raise(SIGSTOP) };
}

/// Sends a signal to a process of this test.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: the process is a child that was not waited for: its number is still its own.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

pub const SIGCONT: i32 = libc::SIGCONT;
pub const SIGSTOP: i32 = libc::SIGSTOP;

/// Has a signal ignored by this process, or do what it does of itself.
pub fn forget_handler(signal: i32, is_ignored: bool) {
    let what = if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: nothing is called when the signal comes.
    unsafe { libc::signal(signal, what) };
}

/// Files of this process may from now on be no longer than so many bytes: writing more is an
/// error, and no signal.
pub fn limit_file_size(bytes: Option<u64>) {
    let limit = libc::rlimit {
        rlim_cur: bytes.unwrap_or(libc::RLIM_INFINITY),
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is read during the call; the signal is ignored, for which no code runs.
    let rc = unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
    };
    assert_eq!(rc, 0, "cannot limit the size of files");
}

/// What the kernel does by default to who writes beyond [`limit_file_size`]: it ends the process.
pub fn die_beyond_file_size() {
    // SAFETY: what the signal does is set to what it is by default, which calls no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
}

/// This process can open no file from now on, nor whatever else takes a descriptor, until what this returns is dropped.
pub fn forbid_files() -> Vec<std::fs::File> {
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: the limit is read during the call.
    let rc = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(rc, 0, "cannot limit the number of files");
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

/// This process, of a user with more than one, can start no thread from now on.
pub fn forbid_threads() {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is read during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) }, 0);
}

/// Memory of this process that is not shared may from now on be no more than so many bytes: asking
/// for more ends it. Not where it has more already, as a sanitizer sets aside for its own notes.
pub fn limit_memory(bytes: u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:")?.strip_suffix("kB"));
    if data.unwrap().trim().parse::<u64>().unwrap() >= bytes >> 10 {
        println!("memory is not limited: this process has more");
        return;
    }
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is read during the call.
    let rc = unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) };
    assert_eq!(rc, 0, "cannot limit memory");
}

/// Has `/proc` show to this process what the option `hidepid=2` shows, which is no process of another
/// user; whether this one may.
pub fn hide_processes_of_others() -> bool {
    mount_proc(c"hidepid=2")
}

/// Has `/proc` show the namespace of process numbers that this process is in; whether this one may.
pub fn see_own_namespace() -> bool {
    mount_proc(c"")
}

/// Has this process see what is in the file `id` where the kernel tells which boot of the machine it is, as some containers
/// have it for those that are in them; whether this one may.
pub fn see_boot_id_of(id: &std::path::Path) -> bool {
    let id = std::ffi::CString::new(id.to_str().unwrap()).unwrap();
    mount_alone(&id, c"/proc/sys/kernel/random/boot_id", libc::MS_BIND, c"")
}

fn mount_proc(options: &CStr) -> bool {
    mount_alone(c"proc", c"/proc", 0, options)
}

/// Mounts something that only this process sees, and those that it forks.
fn mount_alone(what: &CStr, place: &CStr, flags: libc::c_ulong, options: &CStr) -> bool {
    let mount = |what: &CStr, place: &CStr, flags, options: &CStr| {
        let (what, place, kind) = (what.as_ptr(), place.as_ptr(), c"proc".as_ptr());
        // SAFETY: strings that live across the call; the new place of mounts is this process's alone.
        unsafe { libc::mount(what, place, kind, flags, options.as_ptr().cast()) == 0 }
    };
    // SAFETY: no memory is passed.
    let is_alone = unsafe { libc::unshare(libc::CLONE_NEWNS) == 0 };
    is_alone
        && mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE, c"")
        && mount(what, place, flags, options)
}

/// Has the processes that are forked from this one from now on be in a namespace of process numbers of their own, with the
/// `/proc` of this one; whether it may. When the first of them ends, so do the others.
pub fn let_children_count_anew() -> bool {
    // SAFETY: no memory is passed.
    unsafe { libc::unshare(libc::CLONE_NEWPID) == 0 }
}

/// Has the next process of this one's namespace get the number `pid`, if no process has it and none begins meanwhile;
/// whether this one may.
pub fn count_on_from(pid: u32) -> bool {
    std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).is_ok()
}

/// Has the processes that are forked from this one from now on live by a clock that shows another time since the boot;
/// whether this one may.
pub fn let_children_live_by_another_clock() -> bool {
    const CLONE_NEWTIME: i32 = 0x80;
    // SAFETY: no memory is passed.
    let is_alone = unsafe { libc::unshare(CLONE_NEWTIME) == 0 };
    is_alone && std::fs::write("/proc/self/timens_offsets", "boottime 100000 0").is_ok()
}

/// Becomes a user without rights; whether this one may.
pub fn become_nobody() -> bool {
    become_user(65534)
}

/// Becomes the user of that number, in the group of that number; whether this one may.
pub fn become_user(id: u32) -> bool {
    // SAFETY: no memory is passed.
    unsafe { libc::setgid(id) == 0 && libc::setuid(id) == 0 }
}

/// Nanoseconds of a clock that all processes share and that only goes forward.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written during the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Ends this process if it is not done in so many seconds: what hangs fails.
pub fn give_up_after(seconds: u32) {
    // SAFETY: no memory is passed; the signal ends the process.
    unsafe { libc::alarm(seconds) };
}

/// The bytes of a file that others may be writing, all of whom are stopped when it is looked at.
pub struct View(memmap2::Mmap);

impl View {
    pub fn of(file: &std::fs::File) -> View {
        // SAFETY: the only writer is a traced process, which is stopped whenever the bytes are read;
        // it does not shorten the file below what is mapped before the length was asked for again.
        View(unsafe { memmap2::Mmap::map(file) }.unwrap())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Has a thread compact a store over and over, while `forks` processes are forked, one after the other, each of
/// which compacts `in_fork`, which may be refused, and then what it opens itself: all of them end well.
pub fn compact_beside_forks(
    forks: u64,
    here: impl Fn() -> credenza::Result<bool> + Sync,
    in_fork: impl Fn() -> credenza::Result<bool>,
    opened_again: impl Fn() -> credenza::Result<bool>,
) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                here().unwrap();
            }
        });
        let ends = (0..forks).map(|_| {
            let mut child = fork(|| {
                give_up_after(20);
                if let Err(error) = in_fork() {
                    assert!(error.to_string().contains("open it again"), "{error}");
                }
                // As good as any.
                opened_again().unwrap();
            });
            child.wait()
        });
        let ends: Vec<_> = ends.filter(|end| *end != Status::Exited(0)).take(1).collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(ends, []);
    });
}
