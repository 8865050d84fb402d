//! Clocks as an operation may be timed with: those that MDBM's authors compared.

#![allow(unsafe_code)]

/// A clock in units of its own.
pub(crate) trait Ticks {
    /// Whether this machine has it.
    const IS_POSSIBLE: bool = true;

    fn now() -> u64;
}

/// No clock: what the others are compared with.
pub(crate) struct Nothing;

impl Ticks for Nothing {
    #[inline]
    fn now() -> u64 {
        0
    }
}

#[inline]
fn kernel_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a place for the answer.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `clock_gettime(CLOCK_MONOTONIC)`.
pub(crate) struct Monotonic;

impl Ticks for Monotonic {
    #[inline]
    fn now() -> u64 {
        kernel_clock(libc::CLOCK_MONOTONIC)
    }
}

/// `clock_gettime(CLOCK_PROCESS_CPUTIME_ID)`.
pub(crate) struct ProcessTime;

impl Ticks for ProcessTime {
    #[inline]
    fn now() -> u64 {
        kernel_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
    }
}

/// `gettimeofday`.
pub(crate) struct TimeOfDay;

impl Ticks for TimeOfDay {
    #[inline]
    fn now() -> u64 {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: `time` is a place for the answer; no time zone is asked for.
        unsafe { libc::gettimeofday(&raw mut time, std::ptr::null_mut()) };
        time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64
    }
}

/// The processor's time stamp counter.
pub(crate) struct Tsc;

impl Ticks for Tsc {
    const IS_POSSIBLE: bool = cfg!(target_arch = "x86_64");

    #[inline]
    fn now() -> u64 {
        time_stamp()
    }
}

/// The same with the number of the processor, which waits for what came before.
pub(crate) struct TscWithCpu;

impl Ticks for TscWithCpu {
    const IS_POSSIBLE: bool = Tsc::IS_POSSIBLE;

    #[inline]
    fn now() -> u64 {
        time_stamp_and_cpu()
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn time_stamp() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, and Linux allows it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn time_stamp_and_cpu() -> u64 {
    let mut cpu = 0;
    // SAFETY: `cpu` is a place for the number; processors of the last fifteen years have the
    // instruction.
    unsafe { std::arch::x86_64::__rdtscp(&raw mut cpu) }
}

#[cfg(not(target_arch = "x86_64"))]
fn time_stamp() -> u64 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn time_stamp_and_cpu() -> u64 {
    0
}
