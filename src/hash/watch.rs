//! Learning that a store has changed, in whatever process.
//!
//! Every record appended counts, when everybody sees it: where it counted before, who looked in between had the
//! new number, and what was there before, and waited for the next. Who waits raises a flag and sleeps on a half word, the
//! bell; a writer that sees the flag lowers it, changes the bell and wakes all. Sleepers wake now and then by
//! themselves, for a writer may die before it rings, and before it counts.

use super::core::Core;
use super::format::session;
use super::handle::Hash;
use crate::os::atomic::{AtomicU32, Ordering, fence};
use crate::os::shared::{wait, wake_all};
use crate::{Error, Result};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(200);

impl Core {
    fn half(&self, at: u64) -> Option<&AtomicU32> {
        self.data.half(at)
    }

    /// Wakes those who wait for a change, if there are any.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        if self.half(session::WATCHERS).is_some_and(|flag| flag.load(Ordering::Relaxed) != 0) {
            self.ring_now();
        }
    }

    #[cold]
    fn ring_now(&self) {
        if let (Some(flag), Some(bell)) = (self.half(session::WATCHERS), self.half(session::BELL)) {
            flag.store(0, Ordering::SeqCst);
            bell.fetch_add(1, Ordering::SeqCst);
            wake_all(bell);
        }
    }
}

impl Hash {
    /// How many changes were ever made to the store: a number that only grows; but after a power failure it may be one that
    /// was seen before, as changes may be lost. Moving records when cleaning up counts, too.
    pub fn changes(&self) -> u64 {
        self.core().session(session::VISIBLE).load(Ordering::Acquire)
    }

    /// Sleeps until the number of changes is no longer `since`, or for so long; returns what it is.
    ///
    /// # Errors
    /// The store was opened for reading only: then nobody learns that somebody waits.
    pub fn wait_for_change(&self, since: u64, timeout: Duration) -> Result<u64> {
        let core = self.core();
        let end = Instant::now().checked_add(timeout);
        let (Some(flag), Some(bell)) = (core.half(session::WATCHERS), core.half(session::BELL))
        else {
            return Ok(self.changes());
        };
        if !core.data.is_writable() {
            return Err(self.named(Error::waits_unseen()));
        }
        loop {
            if core.writer_lock().is_of_dead() {
                // Whoever takes the lock next counts what the dead made, and that may be nobody for long.
                let _ = core.try_writer();
            }
            let rung = bell.load(Ordering::SeqCst);
            flag.store(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let changes = self.changes();
            let left = end.map_or(NAP, |end| end.saturating_duration_since(Instant::now()));
            if changes != since || left.is_zero() {
                return Ok(changes);
            }
            wait(bell, rung, left.min(NAP));
        }
    }
}
