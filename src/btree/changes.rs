//! What a commit changed since the durable one before it, for the journal.
//!
//! A page that was taken for a tree is kept there whole; of pages of values only what these trees refer
//! to in them. What the table of pages shall say follows from what became of each page.

use super::core::Core;
use super::format::{self, Commit, FIXED, PAGE_BYTES, SUMMED, VALUES};
use super::page::{self, Bytes, count};
use super::pins::Pin;
use super::record::{Elsewhere, Far};
use super::source::Source;
use super::tree::{Pages, of};
use super::{inner, leaf};
use crate::Result;
use crate::os::atomic::Ordering;

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub page: u64,
    pub kind: Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// It was free, and is one of a tree.
    Tree,
    /// It was free, and has values in it, or keys.
    Values,
    /// Values were put behind those that it had.
    Added,
    /// It was in use, and is free.
    Freed,
}

/// Bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub at: u64,
    pub bytes: &'a [u8],
}

/// What a commit has that the durable one has not.
#[derive(Debug)]
pub(crate) struct Changes<'a> {
    /// In the order of the pages.
    pub changes: Vec<Change>,
    pub pieces: Vec<Piece<'a>>,
}

impl Core {
    /// The pages that `commit`, which is held like the durable one, changed since that; `None` if that
    /// is not known.
    pub(crate) fn changed_pages(
        &self,
        durable: u64,
        commit: &Commit,
        _held: &Pin<'_>,
    ) -> Result<Option<Vec<Change>>> {
        let Some(pages) = self.tracked.between(durable, commit.stamp) else {
            return Ok(None);
        };
        let mut changes = Vec::with_capacity(pages.len());
        for page in pages {
            let kind = self.changed(page, durable, commit)?;
            changes.extend(kind.map(|kind| Change { page, kind }));
        }
        Ok(Some(changes))
    }

    /// What became of a page between two commits, of which both are held.
    fn changed(&self, page: u64, durable: u64, commit: &Commit) -> Result<Option<Changed>> {
        let [birth, freed] = self.entry(page)?;
        // In this order: a free page that is taken meanwhile is no longer of an old birth when it is in
        // use.
        let gone = freed.load(Ordering::Acquire);
        let birth = birth.load(Ordering::Acquire);
        let born = format::born(birth);
        let is_in_use = gone == 0 || gone & SUMMED != 0 || gone > commit.stamp;
        if birth == 0 || birth == FIXED || born > commit.stamp {
            return Ok(None);
        }
        Ok(match (born > durable, is_in_use) {
            (true, true) if birth & VALUES != 0 => Some(Changed::Values),
            (true, true) => Some(Changed::Tree),
            // Taken and freed between the two.
            (true, false) => None,
            (false, true) => (birth & VALUES != 0).then_some(Changed::Added),
            (false, false) => (gone > durable).then_some(Changed::Freed),
        })
    }
}

impl<'a> Changes<'a> {
    /// These changes with what was written, if that has no more than so many bytes. What is damaged is
    /// an error.
    pub(crate) fn of(
        source: &'a Source<'_>,
        changes: Vec<Change>,
        most: u64,
    ) -> Result<Option<Changes<'a>>> {
        let mut pieces = Vec::new();
        let mut bytes = 0;
        for change in changes.iter().filter(|change| change.kind == Changed::Tree) {
            let page = source.page(change.page)?;
            pieces.push(Piece { at: change.page * PAGE_BYTES, bytes: page });
            bytes += PAGE_BYTES;
            each_far(change.page, page, |far| {
                // Else it was durable before. All pages of a new one are among the changes.
                if is_written(&changes, far.page()) {
                    bytes += u64::from(far.len);
                    let far_bytes = of(change.page, source.far(far))?;
                    pieces.push(Piece { at: far.at, bytes: far_bytes });
                }
                Ok(())
            })?;
            if bytes > most {
                return Ok(None);
            }
        }
        Ok(Some(Changes { changes, pieces }))
    }
}

/// Whether values were written to a page.
fn is_written(changes: &[Change], page: u64) -> bool {
    let found = changes.binary_search_by_key(&page, |change| change.page);
    found.is_ok_and(|i| [Changed::Values, Changed::Added].contains(&changes[i].kind))
}

/// Tells of all that a page of a tree has elsewhere.
fn each_far(page: u64, bytes: &Bytes, mut tell: impl FnMut(Far) -> Result<()>) -> Result<()> {
    if page::kind(bytes) == Some(page::Kind::Inner) {
        // The first key is nowhere.
        return (1..count(bytes))
            .try_for_each(|i| of(page, inner::elsewhere_of(bytes, i))?.map_or(Ok(()), &mut tell));
    }
    let records = if leaf::is_all_near(bytes) { 0 } else { count(bytes) };
    (0..records).try_for_each(|i| {
        let (key, value) = of(page, leaf::elsewhere_of(bytes, i))?;
        key.into_iter().chain(value).try_for_each(&mut tell)
    })
}
