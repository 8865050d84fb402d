//! The moment when a process is killed: some time after an operation has begun, or after one of the calls
//! that the operation makes.
//!
//! A store that writes everything anew does so for long, and takes the place of the old one at the end, in
//! few calls: only who waits for one of these comes upon them.
//!
//! Threads: whichever makes the call is the one that starts the time, once.

use crate::driver::kernel;
use crate::driver::syscalls::{Extent, Watcher};
use crate::rng::Rng;
use libc::c_int;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the time begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Mark {
    /// The operation.
    Operation,
    /// The last of so many writes, and beginnings and ends of syncs, in it.
    Calls(u64),
    /// The last of so many beginnings and ends of syncs in it.
    Syncs(u64),
}

impl Mark {
    /// One for an operation that writes a new file and syncs it, its name, and little else.
    pub(super) fn draw(rng: &mut Rng) -> Mark {
        match rng.below(4) {
            0 => Mark::Operation,
            1 => Mark::Calls(16_f64.powf(rng.unit()) as u64),
            // Both syncs begin and end.
            _ => Mark::Syncs(1 + rng.below(4)),
        }
    }
}

/// Kills this process.
pub(super) struct Killer {
    mark: Mark,
    after: Duration,
    /// Calls that are waited for; none when the time has begun.
    left: AtomicU64,
}

impl Killer {
    /// An operation is about to begin: so long after the mark in it, or after its end if that comes first.
    pub(super) fn new(mark: Mark, after: Duration) -> Killer {
        let left = match mark {
            Mark::Operation => 1,
            Mark::Calls(count) | Mark::Syncs(count) => count.max(1),
        };
        let killer = Killer { mark, after, left: AtomicU64::new(left) };
        if mark == Mark::Operation {
            killer.ends();
        }
        killer
    }

    /// The operation has ended.
    pub(super) fn ends(&self) {
        if self.left.swap(0, Ordering::SeqCst) > 0 {
            self.begin();
        }
    }

    fn called(&self) {
        let one_less = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) == Ok(1) {
            self.begin();
        }
    }

    fn begin(&self) {
        // Without a timer it is killed all the same, and at once.
        if kernel::kill_after(self.after).is_err() {
            kernel::kill_this_process();
        }
    }
}

impl Watcher for Killer {
    fn wrote(&self, _: c_int) {
        if matches!(self.mark, Mark::Calls(_)) {
            self.called();
        }
    }

    fn sync_begins(&self, _: Extent) -> u64 {
        self.called();
        0
    }

    fn synced(&self, _: Extent, _: u64) {
        self.called();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing dies in an hour.
    fn killer(mark: Mark) -> Killer {
        Killer::new(mark, Duration::from_secs(3600))
    }

    fn left(killer: &Killer) -> u64 {
        killer.left.load(Ordering::SeqCst)
    }

    #[test]
    fn the_time_begins_once_with_the_mark_or_the_end() {
        assert_eq!(left(&killer(Mark::Operation)), 0);
        let calls = killer(Mark::Calls(3));
        calls.wrote(1);
        calls.sync_begins(Extent::File(1));
        assert_eq!(left(&calls), 1);
        calls.synced(Extent::File(1), 0);
        calls.wrote(1);
        assert_eq!(left(&calls), 0);
        let syncs = killer(Mark::Syncs(2));
        syncs.wrote(1);
        syncs.sync_begins(Extent::File(1));
        syncs.wrote(1);
        assert_eq!(left(&syncs), 1);
        syncs.ends();
        syncs.ends();
        assert_eq!(left(&syncs), 0);
    }
}
