//! Waiting for a mutex for so long and no longer, whatever somebody sets the time of day to meanwhile.
//!
//! POSIX has one wait until a time of day: set back by an hour, it was an hour longer. glibc has a call that goes by another
//! clock since version 2.30. It is looked for by its name, so that programs start with older ones, too, where waits are
//! as they were. musl looks at the time of day once, and then sleeps for what is left.
//!
//! Threads: any, also of a forked process.

#![allow(unsafe_code)]

use super::process::clock;
use std::ffi::c_int;
use std::time::Duration;

/// Takes the mutex if it can be had within so long; what the C library says of that, `ETIMEDOUT` if not.
///
/// # Safety
/// There is memory of a mutex, which was made one once.
pub(super) unsafe fn lock_within(mutex: *mut libc::pthread_mutex_t, time: Duration) -> c_int {
    #[cfg(target_env = "gnu")]
    if let Some(lock) = by_clock::found() {
        let until = after(libc::CLOCK_MONOTONIC, time);
        // SAFETY: as the caller says; the time is read during the call.
        return unsafe { lock(mutex, libc::CLOCK_MONOTONIC, &raw const until) };
    }
    let until = after(libc::CLOCK_REALTIME, time);
    // SAFETY: as above.
    unsafe { libc::pthread_mutex_timedlock(mutex, &raw const until) }
}

/// What a clock shows when so long has passed.
fn after(id: libc::clockid_t, time: Duration) -> libc::timespec {
    const SECOND: i64 = 1_000_000_000;
    let mut end = clock(id);
    let nanoseconds = end.tv_nsec + i64::from(time.subsec_nanos());
    end.tv_sec += time.as_secs().min(1 << 32).cast_signed() + nanoseconds / SECOND;
    end.tv_nsec = nanoseconds % SECOND;
    end
}

#[cfg(target_env = "gnu")]
mod by_clock {
    use std::ffi::{c_int, c_void};
    use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

    type Lock = unsafe extern "C" fn(
        *mut libc::pthread_mutex_t,
        libc::clockid_t,
        *const libc::timespec,
    ) -> c_int;

    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    static IS_ASKED: AtomicBool = AtomicBool::new(false);

    /// The call, if this C library has it.
    pub(super) fn found() -> Option<Lock> {
        // Two who come here at once find the same.
        if !IS_ASKED.load(Ordering::Acquire) {
            // SAFETY: the name ends with a NUL; the symbol may be of any library of this program.
            let found =
                unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"pthread_mutex_clocklock".as_ptr()) };
            FOUND.store(found, Ordering::Relaxed);
            IS_ASKED.store(true, Ordering::Release);
        }
        let found = FOUND.load(Ordering::Relaxed);
        // SAFETY: what has this name has this type.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Lock>(found) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::lock::RobustLock;
    use super::super::shared::SharedMap;
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::time::Duration;

    /// Who sets that clock would make the wait longer, or shorter.
    #[test]
    fn who_waits_for_a_lock_does_not_go_by_the_time_of_day() {
        const BY_TIME_OF_DAY: u64 = libc::FUTEX_CLOCK_REALTIME as u64;
        let map = SharedMap::of_head();
        let lock = RobustLock::in_head(&map, 0);
        lock.init().unwrap();
        lock.lock().unwrap();
        let waiter = AtomicI32::new(0);
        let call = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                // SAFETY: the call has no effect.
                waiter.store(unsafe { libc::gettid() }, Ordering::Release);
                lock.lock_for(|| Some(Duration::from_secs(60))).unwrap();
                lock.unlock();
            });
            // The number of the system call that it sleeps in, and what that was given.
            let call = loop {
                let id = waiter.load(Ordering::Acquire);
                let Ok(call) = std::fs::read_to_string(format!("/proc/self/task/{id}/syscall"))
                else {
                    if id == 0 {
                        continue;
                    }
                    break None;
                };
                if call.starts_with(&format!("{} ", libc::SYS_futex)) {
                    break Some(call);
                }
            };
            lock.unlock();
            waiting.join().unwrap();
            call
        });
        let Some(call) = call else {
            println!("skipped: this kernel does not say what a thread waits for");
            return;
        };
        let operation = call.split(' ').nth(2).and_then(|word| word.strip_prefix("0x")).unwrap();
        let operation = u64::from_str_radix(operation, 16).unwrap();
        assert_eq!(operation & BY_TIME_OF_DAY, 0, "{call}");
    }
}
