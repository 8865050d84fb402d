//! Says that a command waits for others who write, where that takes so long that it seems to hang.
//!
//! Threads: one looks twice a second, once the first such call was made, and ends with the process. Calls are made by one
//! thread at a time.

use crate::exit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SAID_AFTER: Duration = Duration::from_secs(2);
const LOOKS_EVERY: Duration = Duration::from_millis(500);

/// When the call began that is going on, in nanoseconds of this program; 0 between calls.
static SINCE: AtomicU64 = AtomicU64::new(0);
/// Nothing is to be said, or it was.
static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// Nothing is said: the user wants quiet.
pub fn silence() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Does what can take long only where others write at the same time, or the disk is slow.
pub fn for_others<T>(f: impl FnOnce() -> T) -> T {
    if IS_SILENT.load(Ordering::Relaxed) {
        return f();
    }
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let begun = *BEGUN.get_or_init(|| {
        let begun = Instant::now();
        // Where there can be no thread nothing is said.
        let _ = thread::Builder::new().spawn(move || watch(begun));
        begun
    });
    SINCE.store((begun.elapsed().as_nanos() as u64).max(1), Ordering::Relaxed);
    let done = f();
    is_over();
    done
}

/// The call that is going on waits no longer: what it does from now on is its own work, which may take long.
pub fn is_over() {
    SINCE.store(0, Ordering::Relaxed);
}

fn watch(begun: Instant) {
    while !IS_SILENT.load(Ordering::Relaxed) {
        thread::sleep(LOOKS_EVERY);
        let since = SINCE.load(Ordering::Relaxed);
        if since > 0 && begun.elapsed() > Duration::from_nanos(since) + SAID_AFTER {
            exit::note("waiting for somebody else who writes to this store, or for the disk");
            silence();
        }
    }
}
