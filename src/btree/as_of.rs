//! What the table of pages said of a page when a commit was made.
//!
//! What came after the commit is known by its stamps and taken back. If the commit was appended to the
//! journal, any mixture of old and new words may be there after a power failure: then the table is
//! taken back to the base, of which all was on the disk, and what changed since is done again.

use super::changes::{Change, Changed};
use super::core::Core;
use super::format::{self, Commit, FIXED, SUMMED, VALUES};
use super::journal::Since;
use super::page;
use super::source::Source;
use super::tree::Pages;
use crate::Result;
use crate::os::atomic::Ordering;

/// The table of pages as of a commit.
#[derive(Debug)]
pub(crate) struct AsOf<'c> {
    core: &'c Core,
    commit: Commit,
    /// What was changed since the base.
    since: Option<&'c Since>,
}

impl<'c> AsOf<'c> {
    /// That of a store where nobody may write, and so put right what is there.
    pub(crate) fn of_only(core: &'c Core) -> Option<AsOf<'c>> {
        core.only().map(|only| AsOf::new(core, only.commit, only.since.as_ref()))
    }

    /// `since`: what is to be done again.
    pub(crate) fn new(core: &'c Core, commit: Commit, since: Option<&'c Since>) -> AsOf<'c> {
        AsOf { core, commit, since }
    }

    /// The commit that all words of the table are taken back to.
    pub(crate) fn base(&self) -> Commit {
        match self.since {
            None => self.commit,
            Some(since) => Commit { stamp: since.stamp, end: since.end, ..self.commit },
        }
    }

    /// What the table says of a page, and what it should.
    pub(crate) fn words(&self, page: u64) -> Result<[[u64; 2]; 2]> {
        let before = self.core.entry(page)?.map(|word| word.load(Ordering::Relaxed));
        let Some(since) = self.since else {
            return Ok([before, self.taken_back(self.commit.stamp, page, before)]);
        };
        let mut after = self.taken_back(since.stamp, page, before);
        if page >= since.end && after[0] != FIXED {
            // It was behind the end then: what the table says of it is of no commit.
            after = [0, 0];
        }
        let changes = &since.changes;
        if let Ok(i) = changes.binary_search_by_key(&page, |change| change.page) {
            after = self.done_again(changes[i], after)?;
        }
        Ok([before, after])
    }

    fn taken_back(&self, stamp: u64, page: u64, [birth, freed]: [u64; 2]) -> [u64; 2] {
        if birth == FIXED {
            [if self.core.is_fixed(page) { FIXED } else { 0 }, freed]
        } else if format::born(birth) > stamp {
            [0, 0]
        } else if freed & SUMMED == 0 && freed > stamp {
            [birth, 0]
        } else {
            [birth, freed]
        }
    }

    fn done_again(&self, change: Change, [birth, freed]: [u64; 2]) -> Result<[u64; 2]> {
        let source = Source::unchecked(self.core, self.commit.end);
        Ok(match change.kind {
            Changed::Tree => [page::birth(source.page(change.page)?), 0],
            // No older one: nobody is left who reads commits between.
            Changed::Values => [self.commit.stamp | VALUES, 0],
            Changed::Added => [birth, freed],
            // Unless it was taken again meanwhile, and is free by that.
            Changed::Freed if birth == 0 => [birth, freed],
            Changed::Freed => [birth, self.commit.stamp],
        })
    }
}
