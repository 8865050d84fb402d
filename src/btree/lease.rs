//! Reading under a lease: a reader that stays longer than that is sent away when space is needed.
//!
//! A pin holds pages as long as its reader likes, since nobody can take back what he has borrowed from
//! the map. Who reads under a lease borrows nothing there: he copies what he reads by a call of the
//! kernel into memory of his own, then looks whether his pin is still there, and believes what he has
//! copied only if it is. Whoever takes the pin away does so before he gives its pages to others.
//!
//! Invariants: nothing of the map is borrowed, and no word of it read that the file may lose when it is
//! cut, but the slot itself, which stays. Nothing that was read is believed, no error either, unless
//! the pin was there after it was read. A pin that is gone never comes back.
//!
//! Order: the reader copies, then looks at the word of his slot; the writer takes that word, then
//! writes. So if anything of what he wrote was copied, the word is seen as taken, however long the
//! reader was stopped in between.
//!
//! *Dropped*: to give out copies as vectors of their own. All ways of reading would be there twice, and
//! pages that are read again, those at the top of the tree above all, would be copied again.

use super::copies::Copies;
use super::core::{Core, bad_page_sum, no_entry};
use super::format::{PAGE, SUMMED, page_sum};
use super::page::Bytes;
use super::pins::Claim;
use crate::os::file::read_exact_at;
use crate::{Error, ErrorKind, Result};
use std::time::Duration;

/// How often a word of the table of pages is read that does not fit: others may be writing it.
const TRIES: usize = 3;

/// What a reader with a lease has copied.
#[derive(Debug)]
pub(crate) struct Leased<'c> {
    core: &'c Core,
    claim: Claim<'c>,
    copies: Copies,
}

impl<'c> Leased<'c> {
    pub(crate) fn new(core: &'c Core, claim: Claim<'c>) -> Leased<'c> {
        Leased { core, claim, copies: Copies::new() }
    }

    pub(crate) fn claim(&self) -> &Claim<'c> {
        &self.claim
    }

    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copies.bytes()
    }

    /// An error if the pin is gone.
    pub(crate) fn check(&self) -> Result<()> {
        if self.claim.is_held() {
            return Ok(());
        }
        Err(self.expired())
    }

    /// Has the lease end so long from now; an error if the pin is gone.
    pub(crate) fn renew(&self, lease: Duration) -> Result<()> {
        if self.claim.renew(lease) { Ok(()) } else { Err(self.expired()) }
    }

    #[cold]
    fn expired(&self) -> Error {
        Error::new(ErrorKind::Expired { lease: self.claim.lease() })
    }

    /// What is at an address of the file; `check` says whether it is right.
    pub(crate) fn bytes(
        &self,
        at: u64,
        len: usize,
        check: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<&[u8]> {
        // Before the copies are looked at: a thread may have had their lock that a forked process lacks.
        self.check()?;
        if let Some(bytes) = self.copies.get(at, len) {
            return Ok(bytes);
        }
        let copied = self.copy(at, len).and_then(|bytes| check(&bytes).map(|()| bytes));
        #[cfg(test)]
        hooks::between();
        // First: without the pin, what is wrong with it means nothing.
        self.check()?;
        Ok(self.copies.keep(at, copied?))
    }

    fn copy(&self, at: u64, len: usize) -> Result<Box<[u8]>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| {
            Error::io("get memory for a copy", std::io::ErrorKind::OutOfMemory.into())
        })?;
        while bytes.len() < len {
            let part = PAGE.min(len - bytes.len());
            bytes.extend_from_slice(&[0; PAGE][..part]);
        }
        read_exact_at(self.core.map.file(), &mut bytes, at)?;
        Ok(bytes.into_boxed_slice())
    }

    /// Compares a copy of a page with the page's checksum.
    pub(crate) fn check_page(&self, number: u64, bytes: &Bytes) -> Result<()> {
        let at = self.core.entry_at(number).ok_or_else(|| no_entry(number))?;
        let wanted = page_sum(bytes, number);
        for _ in 0..TRIES {
            // Not through the map: its end may be cut off when the pin is gone.
            let mut sum = [0; 8];
            read_exact_at(self.core.map.file(), &mut sum, at.saturating_add(8))?;
            let sum = u64::from_le_bytes(sum);
            if sum & SUMMED == 0 || sum == wanted {
                return Ok(());
            }
        }
        Err(bad_page_sum(number))
    }
}

/// When a lease begins that begins now, and when it is over, in milliseconds since the machine was
/// started. Whoever gets any time gets all of it: begun milliseconds are not his.
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
    let now = crate::os::process::since_boot();
    #[cfg(test)]
    let now = hooks::clock(now);
    now
}

/// What tests do with the clock, and between a copy and the look at the pin.
#[cfg(test)]
pub(super) mod hooks {
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

    /// Has something done between the next copy and the look at the pin.
    pub(crate) fn do_between(work: impl FnMut() + 'static) {
        BETWEEN.set(Some(Box::new(work)));
    }

    pub(crate) fn between() {
        if let Some(mut work) = BETWEEN.take() {
            work();
        }
    }
}
