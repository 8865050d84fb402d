//! What a commit changed since the durable one before it: so that both its pages and the word that it
//! is durable can go to the disk at once.
//!
//! A durable commit that was written together with what it needs says which pages it took and freed,
//! and has a digest of those of trees; references have checksums of what they lead to. After a power
//! failure it counts if all of that is there. The table of pages is not asked: any mixture of its
//! old and new words may be on the disk. It is taken back to the commit before, of which all was on
//! the disk, and the changes are made again.
//!
//! What is compared stays as it is as long as the commit may be the one that counts, since it is
//! held: pages of trees are whole, and of pages of values only that is compared which the commit
//! refers to. So also a commit that was followed by much, none of it durable, is found whole.

use super::core::Core;
use super::format::{self, Commit, FIXED, PAGE, SUMMED, VALUES, far_sum, session};
use super::meta::{Change, Changed, MAX_CHANGES, Meta, Since};
use super::page::{self, Bytes, count};
use super::pins::Pin;
use super::record::{Elsewhere, Far, Value};
use super::source::Source;
use super::tree::{Pages, of};
use super::{inner, leaf};
use crate::Result;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::xxh3_64_with_seed;

impl Core {
    /// What `commit`, which is held, has that the durable one has not; `None` if that is not known, or
    /// too much to say.
    pub(crate) fn changes(
        &self,
        durable: &Commit,
        commit: &Commit,
        _held: &Pin<'_>,
    ) -> Result<Option<Since>> {
        let Some(pages) = self.tracked.between(durable.stamp, commit.stamp) else {
            return Ok(None);
        };
        let mut changes = Vec::with_capacity(pages.len().min(MAX_CHANGES));
        for page in pages {
            let kind = self.changed(page, durable, commit)?;
            changes.extend(kind.map(|kind| Change { page, kind }));
        }
        if changes.len() > MAX_CHANGES {
            return Ok(None);
        }
        self.reach(commit)?;
        let source = Source::unchecked(self, commit.end);
        let Ok(digest) = digest(&source, &changes) else { return Ok(None) };
        let since = Since { stamp: durable.stamp, end: durable.end, digest, changes };
        let meta = Meta { commit: *commit, since: Some(since) };
        // Asked as after a power failure: what is damaged already would not be found whole.
        Ok(if self.is_whole(&meta) { meta.since } else { None })
    }

    /// What became of a page between two commits, of which both are held.
    fn changed(&self, page: u64, durable: &Commit, commit: &Commit) -> Result<Option<Changed>> {
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
        Ok(match (born > durable.stamp, is_in_use) {
            (true, true) if birth & VALUES != 0 => Some(Changed::Values),
            (true, true) => Some(Changed::Tree),
            // Taken and freed between the two.
            (true, false) => None,
            (false, true) => (birth & VALUES != 0).then_some(Changed::Added),
            (false, false) => (gone > durable.stamp).then_some(Changed::Freed),
        })
    }

    /// The durable commit that counts after a power failure, and its place.
    pub(crate) fn recoverable(&self) -> Option<(usize, Meta)> {
        let meta = |place| Some((place, self.meta(place)?));
        let mut metas: Vec<(usize, Meta)> = (0..2).filter_map(meta).collect();
        metas.sort_by_key(|(_, meta)| (meta.commit.stamp, meta.since.is_none()));
        metas.into_iter().rev().find(|(_, meta)| self.is_whole(meta))
    }

    /// Whether all that a durable commit needs is there.
    fn is_whole(&self, meta: &Meta) -> bool {
        let Some(since) = &meta.since else { return true };
        let (commit, changes) = (&meta.commit, &since.changes);
        if since.stamp >= commit.stamp || self.check_commit(commit).is_err() {
            return false;
        }
        let source = Source::unchecked(self, commit.end);
        let is_there = |change: &Change| change.page < commit.end;
        changes.iter().all(is_there)
            && digest(&source, changes).is_ok_and(|digest| digest == since.digest)
            && trees(changes).all(|page| is_page_whole(&source, page, meta, since))
    }

    /// What the durable commit of a session that just began says that was written together with it.
    pub(crate) fn changes_to_redo(&self, commit: &Commit) -> Option<Since> {
        if self.load(session::UNSWEPT) == 0 { None } else { self.since_of(commit) }
    }

    /// What a durable commit says that was written together with it.
    pub(crate) fn since_of(&self, commit: &Commit) -> Option<Since> {
        let metas = (0..2).filter_map(|place| self.meta(place));
        metas.filter(|meta| meta.commit.stamp == commit.stamp).find_map(|meta| meta.since)
    }
}

fn trees(changes: &[Change]) -> impl Iterator<Item = u64> {
    changes.iter().filter(|change| change.kind == Changed::Tree).map(|change| change.page)
}

/// The digest of the pages of trees.
fn digest(source: &Source<'_>, changes: &[Change]) -> Result<u64> {
    trees(changes).try_fold(0u64, |digest, page| {
        let bytes: &[u8; PAGE] = source.page(page)?;
        Ok(xxh3_64_with_seed(bytes, digest.wrapping_add(page)))
    })
}

/// Whether a page of a tree is of the right age, and what was written elsewhere for it is there.
fn is_page_whole(source: &Source<'_>, page: u64, meta: &Meta, since: &Since) -> bool {
    let Ok(bytes) = source.page(page) else { return false };
    let is_of_age = (since.stamp + 1..=meta.commit.stamp).contains(&page::birth(bytes));
    let is_new = |page: u64| {
        let kinds = [Changed::Values, Changed::Added];
        since.changes.iter().any(|change| change.page == page && kinds.contains(&change.kind))
    };
    let is_there = |far: Far| {
        // Else it was durable before. All pages of a new one are among the changes.
        !is_new(far.page())
            || far.len as usize <= MAX_CHANGES * PAGE
                && source.far(far).is_ok_and(|bytes| far_sum(bytes) == far.sum)
    };
    is_of_age && each_far(source, page, bytes, is_there).unwrap_or(false)
}

/// Whether all that a page of a tree has elsewhere is as it should be.
fn each_far(
    source: &Source<'_>,
    page: u64,
    bytes: &Bytes,
    is_right: impl Fn(Far) -> bool,
) -> Result<bool> {
    let mut key = Vec::new();
    let is_inner = page::kind(bytes) == Some(page::Kind::Inner);
    for i in 0..count(bytes) {
        let (far, value) = if is_inner {
            // The first key is nowhere.
            let far = if i > 0 { inner::key_of(bytes, i, source, &mut key) } else { Ok(None) };
            (of(page, far)?, None)
        } else {
            let value = match of(page, leaf::value(bytes, i))? {
                Value::Far(far) => Some(far),
                Value::Near(_) => None,
            };
            (of(page, leaf::key_of(bytes, i, source, &mut key))?, value)
        };
        if !far.into_iter().chain(value).all(&is_right) {
            return Ok(false);
        }
    }
    Ok(true)
}
