//! Turns at waiting for the disk: one of those who need a sync does it for all.
//!
//! A lock says whose turn it is, and a half word beside it changes with each sync. Who needs a sync
//! and finds the lock taken sleeps on that half word: all who wait wake up together, those whose
//! changes are on the disk go on, and one of the others has the next turn. When each took the lock to
//! see whether it was its turn, they woke one after the other, and whoever had just synced came back
//! before them: most syncs were of one change, and eight threads did fewer than one.
//!
//! Threads: any, of any process. Who dies in his turn leaves the lock to the next; whoever waits asks
//! for it now and then.

use super::lock::RobustLock;
use super::process::monotonic_ns;
use super::shared::{SharedMap, wait, wake_all};
use crate::Result;
use crate::os::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// So long somebody waits for another's sync before he asks the lock who has it.
const LONG: Duration = Duration::from_millis(100);

/// In the half word: somebody waited for the last sync. The other bits count.
const WAITED_FOR: u32 = 1;
const ONE: u32 = 2;
/// How often who has a turn lets others run to see whether they have something for him, at most; and
/// how often without any that has; and where others have the processor for longer than that, he goes on.
const LOOKS: u32 = 64;
const LOOKS_FOR_NOTHING: u32 = 3;
const LONG_LOOK_NS: u64 = 100_000;

/// Who syncs, and how often that was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns<'m> {
    lock: RobustLock<'m>,
    /// Another number after each sync; see [`WAITED_FOR`].
    syncs: &'m AtomicU32,
}

impl<'m> Turns<'m> {
    /// Those whose lock and whose half word are at these places in the head of a map.
    pub(crate) fn in_head(map: &'m SharedMap, lock: u64, syncs: u64) -> Turns<'m> {
        Turns { lock: RobustLock::in_head(map, lock), syncs: map.half_in_head(syncs) }
    }

    /// As [`RobustLock::opened_after`].
    pub(crate) fn opened_after(self, moves: u32) -> Turns<'m> {
        Turns { lock: self.lock.opened_after(moves), ..self }
    }

    /// Makes the lock; nobody may use it at the same time.
    pub(crate) fn init(&self) -> Result<()> {
        self.lock.init()
    }

    /// Waits for a turn, in any case.
    pub(crate) fn take(&self) -> Result<()> {
        // A syncer that died leaves nothing half done that the next would not see.
        self.lock.lock().map(drop)
    }

    /// Waits for a turn as long as it is needed, and not much longer than `limit`, if there is one; `false` if it is not:
    /// `is_done` says that somebody else's sync was the one that is wanted.
    pub(crate) fn take_unless(
        &self,
        limit: Option<Duration>,
        is_done: impl Fn() -> bool,
    ) -> Result<bool> {
        let (mut has_waited, begun) = (false, Instant::now());
        loop {
            let count = self.syncs.load(Ordering::SeqCst);
            if self.lock.try_lock()?.is_some() {
                if has_waited {
                    // He who woke this one may not have come to say so.
                    self.syncs.fetch_or(WAITED_FOR, Ordering::SeqCst);
                }
                return Ok(true);
            }
            let left = || limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            wait(self.syncs, count, left().map_or(LONG, |left| left.min(LONG)));
            has_waited = true;
            if is_done() {
                return Ok(false);
            }
            if self.syncs.load(Ordering::SeqCst) == count {
                // He takes long, is dead, or is this thread.
                return self.lock.lock_for(left).map(|_| true);
            }
        }
    }

    /// Lets others who are at it finish their changes, which this turn's sync then has, too: if the last
    /// sync was waited for, those who waited come with their next ones now. `changes` counts them. A
    /// wait of this kind is a few microseconds where a sync is hundreds, and two threads that commit
    /// did half as many without it: each had all syncs to itself, in turn.
    pub(crate) fn gather(&self, changes: impl Fn() -> u64) {
        if self.syncs.load(Ordering::SeqCst) & WAITED_FOR == 0 {
            return;
        }
        let (mut seen, mut in_vain) = (changes(), 0);
        for _ in 0..LOOKS {
            let begin = monotonic_ns();
            std::thread::yield_now();
            if monotonic_ns() - begin > LONG_LOOK_NS {
                break;
            }
            let now = changes();
            in_vain = if now == seen { in_vain + 1 } else { 0 };
            seen = now;
            if in_vain == LOOKS_FOR_NOTHING {
                break;
            }
        }
    }

    /// Ends a turn and wakes those who wait: those who still need a sync find the lock free. Without
    /// `is_noted` the store stays as it is, and who was about to sleep does so for a moment.
    pub(crate) fn end(&self, is_noted: bool) {
        self.lock.unlock();
        if !is_noted {
            wake_all(self.syncs);
            return;
        }
        self.syncs.fetch_add(ONE, Ordering::SeqCst);
        if wake_all(self.syncs) {
            self.syncs.fetch_or(WAITED_FOR, Ordering::SeqCst);
        } else {
            self.syncs.fetch_and(!WAITED_FOR, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::atomic::AtomicU64;

    /// A map with a lock at 0 and a half word at 64.
    fn map() -> SharedMap {
        let map = SharedMap::of_head();
        Turns::in_head(&map, 0, 64).init().unwrap();
        map
    }

    #[test]
    fn one_turn_is_enough_for_all_who_wait() {
        let map = map();
        let turns = Turns::in_head(&map, 0, 64);
        let [changes, durable, syncs] = [const { AtomicU64::new(0) }; 3];
        turns.take().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let wanted = changes.fetch_add(1, Ordering::SeqCst) + 1;
                    let is_done = || durable.load(Ordering::SeqCst) >= wanted;
                    if turns.take_unless(None, is_done).unwrap() {
                        let is_needed = !is_done();
                        if is_needed {
                            turns.gather(|| changes.load(Ordering::SeqCst));
                            syncs.fetch_add(1, Ordering::SeqCst);
                            durable.store(changes.load(Ordering::SeqCst), Ordering::SeqCst);
                        }
                        turns.end(is_needed);
                    }
                });
            }
            while changes.load(Ordering::SeqCst) < 8 {
                std::thread::yield_now();
            }
            turns.end(true);
        });
        assert_eq!(syncs.into_inner(), 1);
    }

    #[test]
    fn who_is_done_waits_for_no_further_turn() {
        let map = map();
        let turns = Turns::in_head(&map, 0, 64);
        for _ in 0..100 {
            let [wants, is_durable] = [const { AtomicU64::new(0) }; 2];
            turns.take().unwrap();
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    wants.store(1, Ordering::SeqCst);
                    if turns.take_unless(None, || is_durable.load(Ordering::SeqCst) == 1).unwrap() {
                        turns.end(false);
                    }
                });
                while wants.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                is_durable.store(1, Ordering::SeqCst);
                turns.end(true);
                // Somebody is always at it.
                turns.take().unwrap();
                waiter.join().unwrap();
                turns.end(false);
            });
        }
    }
}
