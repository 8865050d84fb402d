//! How many addresses a map takes of a file that may grow: it cannot be moved while somebody reads in it.
//!
//! They cost no memory, but a process has no more than 2^47 of them, for all that it does. So each map takes a part of what
//! is left of half of them: the first a terabyte, the sixtieth 400 gigabytes, the three hundredth nine. Each took what it
//! might ever need before, and sixty open stores left nothing for the others, nor for the heap.

use super::atomic::{AtomicU64, Ordering};

/// What all maps together take, but for that which each needs.
const ALL: u64 = 1 << 46;
/// The part of what is left.
const PART: u64 = 64;
/// What each may take however many there are.
const LEAST: u64 = 4 << 30;
/// No process has as many: whoever needs them, for a file of holes, cannot map it.
const TOO_MANY: u64 = 1 << 62;

static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Addresses that a map has taken; given back when dropped.
#[derive(Debug)]
pub(super) struct Room(u64);

impl Room {
    /// How many a map of a file of `len` bytes is to take that would have `wanted`.
    pub(super) fn part(wanted: u64, len: u64) -> u64 {
        let left = ALL.saturating_sub(TAKEN.load(Ordering::Relaxed));
        wanted.min((left / PART).max(LEAST)).max(len.saturating_mul(2)).min(TOO_MANY)
    }

    pub(super) fn taken(addresses: u64) -> Room {
        TAKEN.fetch_add(addresses, Ordering::Relaxed);
        Room(addresses)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}
