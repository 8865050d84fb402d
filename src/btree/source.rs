//! The pages of a commit, for those who read it.

use super::core::Core;
use super::format::{BAD_FAR_SUM, far_sum};
use super::page::Bytes;
use super::record::{Elsewhere, Far};
use super::tree::Pages;
use super::view::{self, Holds};
use super::writer::no_page;
use crate::Result;
use crate::os::shared::SharedMap;

/// Part of a snapshot, or of a transaction: what is borrowed from it lives no longer than those, and
/// they see to it that the pages stay as they are meanwhile.
#[derive(Debug)]
pub(crate) struct Source<'c> {
    map: &'c SharedMap,
    core: &'c Core,
    /// Whether pages are compared with their checksums.
    is_checked: bool,
    /// Pages behind are not of this commit.
    end: u64,
}

impl Holds for Source<'_> {}

impl<'c> Source<'c> {
    pub(crate) fn new(core: &'c Core, end: u64) -> Source<'c> {
        Source { map: &core.map, core, is_checked: core.checks_reads(), end }
    }

    pub(crate) fn core(&self) -> &'c Core {
        self.core
    }

    /// The same without checksums: where the table of pages may not say the right ones, or the pages
    /// are compared in another way.
    pub(crate) fn unchecked(core: &'c Core, end: u64) -> Source<'c> {
        Source { map: &core.map, core, is_checked: false, end }
    }

    #[cold]
    fn checked<'p>(&self, number: u64, bytes: &'p Bytes) -> Result<&'p Bytes> {
        self.core.check_page(number, bytes).map(|()| bytes)
    }

    #[cold]
    fn look_again(&self, number: u64) -> Result<&Bytes> {
        // Another process may have made the file longer.
        self.map.refresh_len()?;
        view::page(self.map, self, number).ok_or_else(|| no_page(number))
    }
}

/// What a store says, naming its file if it is an error: for all that users call.
pub(crate) trait OfStore {
    fn of(self, core: &Core) -> Self;
}

impl<T> OfStore for Result<T> {
    #[inline(always)]
    fn of(self, core: &Core) -> Result<T> {
        self.map_err(|error| core.named(error))
    }
}

impl Elsewhere for Source<'_> {
    fn far(&self, far: Far) -> Result<&[u8], &'static str> {
        const OUTSIDE: &str = "what is elsewhere is outside of the file";
        // As a whole: the file may be shorter than this process knows.
        let end = far.at.saturating_add(u64::from(far.len));
        if end.div_ceil(super::format::PAGE_BYTES) > self.end {
            return Err(OUTSIDE);
        }
        let bytes = match view::far(self.map, self, far) {
            Some(bytes) => bytes,
            None => {
                self.map.refresh_len().map_err(|_| OUTSIDE)?;
                view::far(self.map, self, far).ok_or(OUTSIDE)?
            }
        };
        if self.is_checked && far_sum(bytes) != far.sum {
            return Err(BAD_FAR_SUM);
        }
        Ok(bytes)
    }
}

impl Pages for Source<'_> {
    #[inline(always)]
    fn page(&self, number: u64) -> Result<&Bytes> {
        if number >= self.end {
            return Err(no_page(number));
        }
        let bytes = match view::page(self.map, self, number) {
            Some(bytes) => bytes,
            None => self.look_again(number)?,
        };
        if self.is_checked { self.checked(number, bytes) } else { Ok(bytes) }
    }

    #[inline(always)]
    fn prefetch(&self, at: u64) {
        self.map.prefetch(at);
    }
}
