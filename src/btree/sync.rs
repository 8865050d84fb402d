//! Durability: which commit is on the disk, and how that is known.
//!
//! A sync makes the pages of the newest commit durable, then writes the commit to one of two places,
//! and makes that durable, too. After few changes it does both at once, and says in the commit what
//! must be there for it to count: see [`super::changes`]. As long as it is not certain which of the
//! two is on the disk, the pages of both commits are held. After a sync that failed everything since the
//! durable commit is written again. Those who want to sync at the same time do
//! it as a group.

use super::core::Core;
use super::format::{Commit, FIXED, PAGE_BYTES, VALUES, born, page_sum, session};
use super::meta::{Meta, Since};
use super::pins::{self, Pin};
use super::trim::Trim;
use super::view;
use super::writer::Writer;
use crate::Result;
use std::sync::atomic::Ordering;

impl Core {
    /// Returns when everything that was committed before the call is durable; every page that is in
    /// use has a checksum then.
    pub(crate) fn sync(&self) -> Result<()> {
        self.sync_group(self.newest().stamp, true)
    }

    /// The same for the commit with this stamp and those before it, and without checksums.
    pub(crate) fn sync_commits(&self, wanted: u64) -> Result<()> {
        self.sync_group(wanted, false)
    }

    fn sync_group(&self, wanted: u64, with_sums: bool) -> Result<()> {
        if self.only().is_some() || self.is_in_memory() || self.is_durable(wanted) && !with_sums {
            return Ok(());
        }
        if self.load(session::UNSWEPT) != 0 {
            // The table of pages must be what the durable commit says of it before another says what
            // came after. Not under the lock, which somebody may want who is writing.
            drop(Writer::begin(self)?);
        }
        let turns = self.sync_turns();
        if with_sums {
            turns.take()?;
        } else if !turns.take_unless(|| self.is_durable(wanted))? {
            return Ok(());
        }
        let has_synced = !self.is_durable(wanted) || with_sums && self.load(session::UNSUMMED) != 0;
        if has_synced {
            turns.gather(|| self.load(session::STATE));
        }
        let done = if has_synced { self.sync_newest(with_sums) } else { Ok(()) };
        // Who opens a store and closes it leaves it as it is.
        turns.end(has_synced || !with_sums);
        done?;
        self.trim(Trim::Much, with_sums)
    }

    /// The same, and nothing else.
    pub(crate) fn sync_only(&self, with_sums: bool) -> Result<()> {
        if self.is_in_memory() {
            return Ok(());
        }
        let turns = self.sync_turns();
        turns.take()?;
        let done = self.sync_newest(with_sums);
        turns.end(true);
        done
    }

    fn is_durable(&self, stamp: u64) -> bool {
        self.load(session::DURABLE) >= stamp
    }

    fn sync_newest(&self, with_sums: bool) -> Result<()> {
        let store = |at, value| self.word(at).store(value, Ordering::SeqCst);
        let (pin, commit) = pins::pin(self)?;
        let unsummed = self.note_unsummed();
        if with_sums {
            self.sum(&commit, &pin)?;
        }
        let place = self.place_of(self.load(session::DURABLE));
        let since = if with_sums { None } else { self.since(place, &commit, &pin)? };
        if self.load(session::SYNCING) != 0 {
            // Somebody died at it, or the disk failed: the commit that it wrote must not come to
            // light when its pages are in use for others.
            self.write_meta(1 - place, None);
            self.write_again(&commit)?;
            self.map.sync()?;
        }
        store(session::SYNCING, commit.stamp);
        if since.is_none() {
            self.map.sync()?;
        }
        self.write_meta(1 - place, Some(&Meta { commit, since }));
        self.map.sync()?;
        store(session::DURABLE, commit.stamp);
        store(session::SYNCING, 0);
        store(session::SETTLED, 1);
        store(session::RETAINED, 0);
        self.tracked.forget(commit.stamp);
        if with_sums {
            // Unless somebody has given pages back meanwhile that he had freed.
            let word = self.word(session::UNSUMMED);
            let _ = word.compare_exchange(unsummed, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Has everything count as changed that is not on the disk for certain: after a failed sync the
    /// kernel may call pages clean that it could not write, and say the next time that all is well.
    #[cold]
    fn write_again(&self, commit: &Commit) -> Result<()> {
        self.reach(commit)?;
        let durable = self.load(session::DURABLE);
        for page in 0..commit.end {
            // The table of pages never gets another stamp, nor do pages of values that get more.
            let birth = self.entry(page)?[0].load(Ordering::Acquire);
            if birth == FIXED || birth & VALUES != 0 || born(birth) > durable {
                self.map.write_again(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)?;
            }
        }
        // What a transaction has written that is not committed yet.
        self.map.write_again(commit.end * PAGE_BYTES, self.map.refresh_len()?)
    }

    /// What a commit has that the durable one has not, if it can go to the disk together with that.
    fn since(&self, place: usize, commit: &Commit, pin: &Pin<'_>) -> Result<Option<Since>> {
        // After a power failure, and after a sync that failed, nobody knows what is on the disk of
        // what is in memory.
        if self.load(session::SYNCING) != 0 || self.load(session::SETTLED) == 0 {
            return Ok(None);
        }
        match self.meta(place) {
            Some(durable) if durable.commit.stamp == self.load(session::DURABLE) => {
                self.changes(&durable.commit, commit, pin)
            }
            _ => Ok(None),
        }
    }

    /// Notes that there may be pages without checksums; what the word is then.
    pub(crate) fn note_unsummed(&self) -> u64 {
        self.word(session::UNSUMMED).fetch_add(1, Ordering::SeqCst).wrapping_add(1)
    }

    /// Which of the two places has the durable commit.
    fn place_of(&self, durable: u64) -> usize {
        usize::from(self.meta(1).is_some_and(|meta| meta.commit.stamp == durable))
    }

    /// Enters the checksums of pages that have none. `_pin` holds the commit.
    fn sum(&self, commit: &Commit, pin: &Pin<'_>) -> Result<()> {
        self.reach(commit)?;
        for page in 0..commit.end {
            let [birth, freed] = self.entry(page)?;
            // In this order: a free page that is taken meanwhile is no longer of an old birth when it
            // is in use.
            if freed.load(Ordering::Acquire) != 0 {
                continue;
            }
            let born = birth.load(Ordering::Acquire);
            if born == 0 || born > commit.stamp || born == FIXED || born & VALUES != 0 {
                continue;
            }
            // Whoever frees it meanwhile leaves its bytes as they are as long as it is held.
            if let Some(bytes) = view::page(&self.map, pin, page) {
                let sum = page_sum(bytes, page);
                let _ = freed.compare_exchange(0, sum, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
