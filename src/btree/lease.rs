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
use super::format::{SUMMED, page_sum};
use super::page::Bytes;
use super::pins::Claim;
use crate::os::file::{buffer, read_exact_at};
use crate::{Error, Result};
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
        Error::expired(self.claim.lease(), self.claim.is_of_parent())
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
        #[cfg(test)]
        crate::os::lease::hooks::between();
        let copied = self.copy(at, len).and_then(|bytes| check(&bytes).map(|()| bytes));
        #[cfg(test)]
        crate::os::lease::hooks::between();
        // First: without the pin, what is wrong with it means nothing.
        self.check()?;
        Ok(self.copies.keep(at, copied?))
    }

    fn copy(&self, at: u64, len: usize) -> Result<Box<[u8]>> {
        let mut bytes = buffer(len)?;
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
