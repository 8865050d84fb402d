//! The pages of a commit, for those who read it.
//!
//! They are where they are in the map of the file; but who reads under a lease has copies of them, and
//! nothing that is borrowed from the map: see [`super::lease`].

use super::core::Core;
use super::format::{BAD_FAR_SUM, PAGE, PAGE_BYTES, far_sum};
use super::in_place::Before;
use super::lease::Leased;
use super::page::Bytes;
use super::pins::Claim;
use super::record::{Elsewhere, Far};
use super::tree::Pages;
use super::view::{self, Holds};
use super::writer::no_page;
use crate::os::atomic::{AtomicU64, Ordering};
use crate::os::shared::SharedMap;
use crate::{Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// So much is copied before those who read much in turn begin afresh.
const PART_BYTES: u64 = 1 << 20;

/// Part of a snapshot, or of a transaction: what is borrowed from it lives no longer than those, and
/// they see to it that the pages stay as they are meanwhile.
#[derive(Debug)]
pub(crate) struct Source<'c> {
    map: &'c SharedMap,
    core: &'c Core,
    /// Whether what is read is compared with its checksum.
    checks: bool,
    /// The page that was compared last, and 1: who reads its records one by one comes by it for each of them, and to compare
    /// it takes longer than all else. That two threads note theirs in turn costs only that.
    compared: AtomicU64,
    /// Whether it is, or there is a lease, or a leaf that is read elsewhere.
    is_careful: bool,
    /// What a leaf was when this was begun, which somebody was changing.
    before: Option<Arc<Before>>,
    /// What was copied under a lease.
    lease: Option<Box<Leased<'c>>>,
    /// Pages behind are not of this commit.
    end: u64,
}

impl Holds for Source<'_> {}

impl<'c> Source<'c> {
    pub(crate) fn new(core: &'c Core, end: u64) -> Source<'c> {
        let checks = core.checks_reads();
        Source {
            map: &core.map,
            core,
            checks,
            compared: AtomicU64::new(0),
            is_careful: checks,
            before: None,
            lease: None,
            end,
        }
    }

    /// The same with a leaf that is what it was before.
    pub(crate) fn with(self, before: Option<Before>) -> Source<'c> {
        match before {
            None => self,
            Some(before) => Source { is_careful: true, before: Some(Arc::new(before)), ..self },
        }
    }

    /// The same pages, which are held as long as nobody takes the pin away; nothing is copied yet.
    pub(crate) fn to_leased(&self, claim: Claim<'c>) -> Source<'c> {
        let lease = Some(Box::new(Leased::new(self.core, claim)));
        let (checks, before) = (self.checks, self.before.clone());
        Source { checks, is_careful: true, before, lease, ..Source::new(self.core, self.end) }
    }

    /// The same pages with no copies yet, for those who read much in turn; `None` if there are none.
    pub(crate) fn afresh(&self) -> Option<Source<'c>> {
        let lease = self.lease.as_ref()?;
        Some(self.to_leased(*lease.claim()))
    }

    /// The same pages, and what is read of them is compared with its checksum.
    pub(crate) fn checked(&self) -> Result<Source<'c>> {
        // After a power failure the table of pages may not say the right ones.
        self.core.ensure_swept()?;
        let source = match &self.lease {
            Some(lease) => self.to_leased(*lease.claim()),
            None => Source { before: self.before.clone(), ..Source::new(self.core, self.end) },
        };
        Ok(Source { checks: true, is_careful: true, ..source })
    }

    /// Whether what is read is copied, under a lease.
    #[inline(always)]
    pub(crate) fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// Has the lease end so long from now, if there is one; an error if the pin is gone.
    pub(crate) fn renew(&self, lease: Duration) -> Result<()> {
        self.lease.as_ref().map_or(Ok(()), |leased| leased.renew(lease)).of(self)
    }

    /// Whether so much was copied that it is better to begin afresh.
    pub(crate) fn is_full(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.copied_bytes() >= PART_BYTES)
    }

    pub(crate) fn core(&self) -> &'c Core {
        self.core
    }

    /// The same without checksums: where the table of pages may not say the right ones, or the pages
    /// are compared in another way.
    pub(crate) fn unchecked(core: &'c Core, end: u64) -> Source<'c> {
        Source { checks: false, is_careful: false, ..Source::new(core, end) }
    }

    #[inline(always)]
    fn in_map(&self, number: u64) -> Result<&Bytes> {
        match view::page(self.map, self, number) {
            Some(bytes) => Ok(bytes),
            None => self.look_again(number),
        }
    }

    #[cold]
    fn with_care(&self, number: u64) -> Result<&Bytes> {
        if let Some(before) = self.before.as_ref().filter(|before| before.page == number) {
            // It has no checksum, or it would not be changed.
            return Ok(&before.bytes);
        }
        let Some(lease) = &self.lease else {
            let bytes = self.in_map(number)?;
            if self.checks && self.compared.load(Ordering::Relaxed) != number + 1 {
                self.core.check_page(number, bytes)?;
                self.compared.store(number + 1, Ordering::Relaxed);
            }
            return Ok(bytes);
        };
        let check = |bytes: &[u8]| match bytes.first_chunk::<PAGE>() {
            Some(bytes) if self.checks => lease.check_page(number, bytes),
            _ => Ok(()),
        };
        let bytes = lease.bytes(number.saturating_mul(PAGE_BYTES), PAGE, check)?;
        bytes.first_chunk().ok_or_else(|| no_page(number))
    }

    #[cold]
    fn look_again(&self, number: u64) -> Result<&Bytes> {
        // Another process may have made the file longer.
        self.map.refresh_len()?;
        if let Some(page) = view::page(self.map, self, number) {
            return Ok(page);
        }
        self.map.check_addresses()?;
        Err(no_page(number))
    }
}

/// Who says of an error whose it is.
pub(crate) trait Names {
    fn named(&self, error: Error) -> Error;
}

impl Names for Core {
    #[cold]
    fn named(&self, error: Error) -> Error {
        Core::named(self, error)
    }
}

impl Names for Source<'_> {
    /// Whatever seems to be wrong: without the pin it means nothing.
    #[cold]
    fn named(&self, error: Error) -> Error {
        let expired = self.lease.as_ref().and_then(|lease| lease.check().err());
        self.core.named(expired.unwrap_or(error))
    }
}

/// What a store says, naming its file if it is an error: for all that users call.
pub(crate) trait OfStore {
    fn of(self, names: &impl Names) -> Self;
}

impl<T> OfStore for Result<T> {
    #[inline(always)]
    fn of(self, names: &impl Names) -> Result<T> {
        self.map_err(|error| names.named(error))
    }
}

impl Elsewhere for Source<'_> {
    fn far(&self, far: Far) -> Result<&[u8], &'static str> {
        const OUTSIDE: &str = "what is elsewhere is outside of the file";
        const UNREAD: &str = "what is elsewhere could not be read, or its checksum does not fit";
        // As a whole: the file may be shorter than this process knows.
        let end = far.at.saturating_add(u64::from(far.len));
        if end.div_ceil(PAGE_BYTES) > self.end {
            return Err(OUTSIDE);
        }
        if let Some(lease) = &self.lease {
            let is_right = |bytes: &[u8]| !self.checks || far_sum(bytes) == far.sum;
            let check = |bytes: &[u8]| match is_right(bytes) {
                true => Ok(()),
                false => Err(Error::corrupt(far.at, BAD_FAR_SUM)),
            };
            // What it is exactly is told by what names it.
            return lease.bytes(far.at, far.len as usize, check).map_err(|_| UNREAD);
        }
        let bytes = match view::far(self.map, self, far) {
            Some(bytes) => bytes,
            None => {
                self.map.refresh_len().map_err(|_| OUTSIDE)?;
                view::far(self.map, self, far).ok_or(OUTSIDE)?
            }
        };
        if self.checks && far_sum(bytes) != far.sum {
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
        if self.is_careful { self.with_care(number) } else { self.in_map(number) }
    }

    #[inline(always)]
    fn prefetch(&self, at: u64) {
        self.map.prefetch(at);
    }

    fn map(&self) -> &SharedMap {
        self.map
    }
}
