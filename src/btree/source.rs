//! The pages of a commit, for those who read it.

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
    /// Pages behind are not of this commit.
    end: u64,
}

impl Holds for Source<'_> {}

impl<'c> Source<'c> {
    pub(crate) fn new(map: &'c SharedMap, end: u64) -> Source<'c> {
        Source { map, end }
    }

    #[cold]
    fn look_again(&self, number: u64) -> Result<&Bytes> {
        // Another process may have made the file longer.
        self.map.refresh_len()?;
        view::page(self.map, self, number).ok_or_else(|| no_page(number))
    }
}

impl Elsewhere for Source<'_> {
    fn far(&self, far: Far) -> Result<&[u8], &'static str> {
        const OUTSIDE: &str = "what is elsewhere is outside of the file";
        if far.at / super::format::PAGE_BYTES >= self.end {
            return Err(OUTSIDE);
        }
        if let Some(bytes) = view::far(self.map, self, far) {
            return Ok(bytes);
        }
        self.map.refresh_len().map_err(|_| OUTSIDE)?;
        view::far(self.map, self, far).ok_or(OUTSIDE)
    }
}

impl Pages for Source<'_> {
    #[inline(always)]
    fn page(&self, number: u64) -> Result<&Bytes> {
        if number >= self.end {
            return Err(no_page(number));
        }
        match view::page(self.map, self, number) {
            Some(bytes) => Ok(bytes),
            None => self.look_again(number),
        }
    }

    #[inline(always)]
    fn prefetch(&self, at: u64) {
        self.map.prefetch(at);
    }
}
