//! Learning that a store has changed, in whatever process.
//!
//! Every commit counts. Who waits makes the bell, a half word, odd and sleeps on it; a writer that
//! finds it odd after a commit makes it even, by counting it up, and wakes all. Sleepers wake now and
//! then by themselves, for a writer may die before it rings.
//!
//! Order: a writer stores the number of its commit and then looks at the bell, and who waits makes the
//! bell odd and then looks at the number. So one of the two sees the other.

use super::core::Core;
use super::format::session;
use super::handle::BTree;
use crate::os::atomic::{AtomicU32, Ordering, fence};
use crate::os::shared::{wait, wake_all};
use crate::{Error, Result};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(200);

impl Core {
    fn bell(&self) -> Option<&AtomicU32> {
        self.map.half(session::BELL)
    }

    /// Wakes those who wait for a commit, if there are any.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        if let Some(bell) = self.bell()
            && !bell.load(Ordering::SeqCst).is_multiple_of(2)
        {
            ring_now(bell);
        }
    }
}

#[cold]
fn ring_now(bell: &AtomicU32) {
    let even = |rung: u32| (!rung.is_multiple_of(2)).then(|| rung.wrapping_add(1));
    if bell.try_update(Ordering::SeqCst, Ordering::SeqCst, even).is_ok() {
        wake_all(bell);
    }
}

impl BTree {
    /// The number of the newest commit, which every commit makes greater: that of
    /// [`Snapshot::number`](super::Snapshot::number). Compacting the store, and giving back the end of
    /// its file, counts, too. After a power failure it is that of the newest commit that was durable.
    pub fn changes(&self) -> u64 {
        self.core().newest().number
    }

    /// Sleeps until the number of the newest commit is no longer `since`, or for so long; returns what
    /// it is.
    ///
    /// ```
    /// # use credenza::btree::BTree;
    /// # use std::time::Duration;
    /// let store = BTree::in_memory()?;
    /// let seen = store.changes();
    /// std::thread::scope(|scope| {
    ///     let waits = scope.spawn(|| store.wait_for_change(seen, Duration::MAX));
    ///     store.insert(b"key", b"value")?;
    ///     assert!(waits.join().unwrap()? > seen);
    ///     Ok::<(), credenza::Error>(())
    /// })?;
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// The store was opened for reading only: then nobody learns that somebody waits.
    pub fn wait_for_change(&self, since: u64, timeout: Duration) -> Result<u64> {
        let core = self.core();
        let end = Instant::now().checked_add(timeout);
        if core.only().is_some() {
            return Err(self.named(Error::waits_unseen()));
        }
        let Some(bell) = core.bell() else { return Ok(self.changes()) };
        loop {
            let waiting = bell.fetch_or(1, Ordering::SeqCst) | 1;
            // The number is read by a load that some processors would do before.
            fence(Ordering::SeqCst);
            let changes = self.changes();
            let left = end.map_or(NAP, |end| end.saturating_duration_since(Instant::now()));
            if changes != since || left.is_zero() {
                return Ok(changes);
            }
            wait(bell, waiting, left.min(NAP));
        }
    }
}
