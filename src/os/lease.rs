//! Leases: how long a reader may keep others from writing over what he reads.
//!
//! A word of the reader's slot says when his lease ends, in milliseconds since the machine was started.
//! Who needs the space and finds it over marks the word as taken, by compare-and-swap; after that the slot
//! holds nothing. The reader renews it by an exchange of the same word, so that one of the two is done.
//! A reader copies what he reads, and believes the copy if his word is not taken afterwards.
//!
//! Order: the reader copies, then looks at the word; the writer takes the word, then writes. So if
//! anything of what was written was copied, the word is seen as taken.

use super::process::since_boot;
use crate::os::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

/// Set in the word of a slot with a lease; the other bits are the millisecond at which it ends.
const LEASED: u64 = 1 << 63;
/// Set there, too, when it was taken away: the slot holds nothing more.
const TAKEN: u64 = 1 << 62;
/// The end of a lease that never ends.
const NEVER: u64 = TAKEN - 1;

/// The word of a slot whose lease ends at a millisecond.
pub(crate) fn lease_to(end: u64) -> u64 {
    LEASED | end.min(NEVER)
}

/// Whether a word is that of a slot with a lease, taken away or not.
#[inline(always)]
pub(crate) fn is_leased(word: u64) -> bool {
    word & LEASED != 0
}

/// Whether it is, and nobody took it away.
pub(crate) fn has_lease(word: u64) -> bool {
    word & (LEASED | TAKEN) == LEASED
}

/// Whether somebody took it away.
pub(crate) fn is_taken(word: u64) -> bool {
    word & (LEASED | TAKEN) == LEASED | TAKEN
}

/// When the lease ends.
pub(crate) fn end_of(word: u64) -> u64 {
    word & NEVER
}

/// How long the lease of a word is that began at a millisecond, with what it was renewed by, and what is
/// left of it, in milliseconds; `None` if the word has none.
pub(crate) fn lengths(word: u64, begin: u64) -> Option<(u64, u64)> {
    let end = is_leased(word).then(|| end_of(word))?;
    // The millisecond that it begins in is not counted.
    Some((end.saturating_sub(begin), end.saturating_sub(now_ms().max(begin))))
}

/// Has the lease end so long from now, unless it was taken away; whether it was not.
pub(crate) fn renew(word: &AtomicU64, lease: Duration) -> bool {
    let renewed = lease_to(term(lease).1);
    let (new, old) = (Ordering::SeqCst, Ordering::Relaxed);
    word.try_update(new, old, |now| has_lease(now).then_some(renewed)).is_ok()
}

/// Takes the lease away that a word was seen to have, if it is over; whether this did it.
#[cold]
pub(crate) fn take_if_over(word: &AtomicU64, seen: u64) -> bool {
    let end = end_of(seen);
    if end == NEVER || end > now_ms() {
        return false;
    }
    // If it is another's meanwhile, the word is another, or that lease is over as well.
    let (new, old) = (Ordering::SeqCst, Ordering::Relaxed);
    let is_done = word.compare_exchange(seen, seen | TAKEN, new, old).is_ok();
    // Before anything is written to what it held.
    fence(Ordering::SeqCst);
    is_done
}

/// When a lease begins that begins now, and when it is over. Whoever gets any time gets all of it: begun
/// milliseconds are not his.
pub(crate) fn term(lease: Duration) -> (u64, u64) {
    let begin = if lease.is_zero() { now_ms() } else { ms(now().as_nanos().div_ceil(MS)) };
    (begin, begin.saturating_add(ms(lease.as_nanos().div_ceil(MS))))
}

/// Whole milliseconds since the machine was started: by these leases end.
#[inline]
pub(crate) fn now_ms() -> u64 {
    ms(now().as_nanos() / MS)
}

/// Nanoseconds of a millisecond.
const MS: u128 = 1_000_000;

fn ms(ms: u128) -> u64 {
    u64::try_from(ms).unwrap_or(u64::MAX)
}

#[inline]
fn now() -> Duration {
    let now = since_boot();
    #[cfg(test)]
    let now = hooks::clock(now);
    now
}

/// What tests do with the clock, and between a look at the word, a copy, and the look behind it.
#[cfg(test)]
pub(crate) mod hooks {
    use std::cell::{Cell, RefCell};
    use std::time::Duration;

    type Work = Box<dyn FnMut()>;

    thread_local! {
        /// What the clock shows to this thread.
        static CLOCK: Cell<Option<Duration>> = const { Cell::new(None) };
        static BETWEEN: RefCell<Option<Work>> = const { RefCell::new(None) };
    }

    /// Sets the clock, which stands still from now on.
    pub(crate) fn set_clock(ms: u64) {
        set_clock_to(Duration::from_millis(ms));
    }

    pub(crate) fn set_clock_to(now: Duration) {
        CLOCK.set(Some(now));
    }

    pub(crate) fn clock(now: Duration) -> Duration {
        CLOCK.get().unwrap_or(now)
    }

    /// Has something done between the next two of a look at the word, a copy, and the look behind it.
    pub(crate) fn do_between(work: impl FnMut() + 'static) {
        BETWEEN.set(Some(Box::new(work)));
    }

    pub(crate) fn between() {
        if let Some(mut work) = BETWEEN.take() {
            work();
        }
    }
}
