//! Durability: which commit is on the disk, and how that is known.
//!
//! A sync of all pages makes those of the newest commit durable, then writes the commit to one of two
//! places, and makes that durable, too: it is the *base* then. After few changes what they are is appended
//! to the journal of the base, and nothing else waited for: see [`super::journal`]. The pages of the
//! base and of the durable commit are held, and of one that is being made durable, as long as it is not
//! certain whether it is. After a sync that failed everything since the base is written again. Those who
//! want to sync at the same time do it as a group.

use super::core::Core;
use super::format::{Commit, FIXED, PAGE_BYTES, VALUES, born, page_sum, session};
use super::meta::{Journal, Meta};
use super::pins::{self, Pin};
use super::trim::Trim;
use super::view;
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::Ordering;
use crate::os::process::random_word;

/// What a sync leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// What was committed is durable, in the journal or where it belongs.
    Commits,
    /// All of it is where it belongs: what only the base before had is free.
    Pages,
    /// The same, without a journal.
    Bare,
    /// As `Pages`, and every page that is in use has a checksum.
    Sums,
    /// As `Sums`, without a journal.
    Closed,
}

impl How {
    fn has_sums(self) -> bool {
        matches!(self, How::Sums | How::Closed)
    }

    /// The same, and no journal is left.
    pub(super) fn without_journal(self) -> How {
        if self.has_sums() { How::Closed } else { How::Bare }
    }

    fn keeps_journal(self) -> bool {
        !matches!(self, How::Bare | How::Closed)
    }
}

impl Core {
    /// Returns when everything that was committed before the call is durable; every page that is in
    /// use has a checksum then.
    pub(crate) fn sync(&self) -> Result<()> {
        if let Some(only) = self.only() {
            // Who may only read cannot make it durable.
            return if self.is_durable(only.commit.stamp)? {
                Ok(())
            } else {
                self.check_writable()
            };
        }
        self.sync_commits(self.newest().stamp, How::Sums)
    }

    /// Returns when the commit with this stamp and those before it are durable.
    pub(crate) fn sync_commits(&self, wanted: u64, how: How) -> Result<()> {
        let is_done = || self.is_synced(wanted, how);
        if self.only().is_some() || !how.has_sums() && (self.is_in_memory() || is_done()) {
            return Ok(());
        }
        if self.is_in_memory() {
            // There is no disk to wait for, and memory to be given back.
            return self.trim(Trim::Much, how);
        }
        // The table of pages must be what the durable commit says of it before another says what
        // came after. Not in the turn, which somebody may want who is writing.
        self.ensure_swept()?;
        if how.has_sums() && self.load(session::WRITING) != 0 {
            // A writer who died has taken the checksums of pages away that are in use still. Who is alive, or puts that right
            // at the moment, leaves some for the next sync.
            drop(Writer::try_begin(self)?);
        }
        // Before the turn: a slot may have to be made by who writes, and he may wait for the turn.
        // Where there is none, somebody else's sync is as good.
        let pin = pins::reserve(self);
        let turns = self.sync_turns();
        if how.has_sums() {
            turns.take()?;
        } else if !turns.take_unless(None, is_done)? {
            return Ok(());
        }
        let has_synced = !is_done();
        let done = match (pin, has_synced) {
            (Ok(pin), true) => {
                turns.gather(|| self.load(session::STATE));
                self.sync_newest(&pin, how)
            }
            (Err(error), true) => Err(error),
            (_, false) => Ok(true),
        };
        // Who opens a store and closes it leaves it as it is.
        turns.end(has_synced || !how.has_sums());
        match (done?, how) {
            // What the base has stays where it is.
            (false, _) => Ok(()),
            (true, How::Commits) => self.trim(Trim::Much, How::Pages),
            (true, _) => self.trim(Trim::Much, how),
        }
    }

    /// The same with the newest commit, and nothing else.
    pub(crate) fn sync_only(&self, how: How) -> Result<()> {
        if self.is_in_memory() {
            return Ok(());
        }
        let pin = pins::reserve(self)?;
        let turns = self.sync_turns();
        turns.take()?;
        let done = self.sync_newest(&pin, how);
        turns.end(true);
        done.map(drop)
    }

    /// Whether a commit is durable in such a way.
    fn is_synced(&self, wanted: u64, how: How) -> bool {
        match how {
            How::Commits => self.load(session::DURABLE) >= wanted,
            _ => {
                self.load(session::BASE) >= wanted
                    && (how.keeps_journal() || self.journal().is_none())
                    && (!how.has_sums() || self.load(session::UNSUMMED) == 0)
                    // The file may be a copy, of which nothing is on the disk: who asks for it is not told so.
                    && (how != How::Sums || self.load(session::SETTLED) == 1)
            }
        }
    }

    /// Whether the newest commit is the base then, which the pin holds meanwhile.
    fn sync_newest(&self, pin: &Pin<'_>, how: How) -> Result<bool> {
        // Before the commit: what one without it is not to name came after that.
        let journal = self.journal().filter(|_| how.keeps_journal());
        let commit = pin.hold_newest(self)?;
        let unsummed = self.note_unsummed();
        if how.has_sums() {
            self.sum(&commit, pin)?;
        }
        // After a power failure, and after a sync that failed, nobody knows what is on the disk of what
        // is in memory.
        let is_known = self.load(session::SYNCING) == 0 && self.load(session::SETTLED) == 1;
        if how == How::Commits
            && is_known
            && let Some((_, base)) = self.base()
            && self.append(&base, &commit, pin)?
        {
            return Ok(false);
        }
        self.sync_pages(&commit, journal)?;
        if !how.keeps_journal() {
            self.give_journal_up();
        }
        if how.has_sums() {
            // Unless somebody has given pages back meanwhile that he had freed.
            let word = self.word(session::UNSUMMED);
            let _ = word.compare_exchange(unsummed, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Makes all pages of a commit durable, and then the commit, which is the base from then on, with this
    /// journal.
    fn sync_pages(&self, commit: &Commit, journal: Option<(u64, u64)>) -> Result<()> {
        let store = |at, value| self.word(at).store(value, Ordering::SeqCst);
        let (place, turn) = self.base().map_or((0, 0), |(place, base)| (place, base.turn));
        let salt = random_word()?;
        if self.load(session::SYNCING) != 0 {
            // Somebody died at it, or the disk failed: the commit that it wrote must not come to
            // light when its pages are in use for others.
            self.write_again(commit)?;
            self.map.sync()?;
            self.write_meta(1 - place, None);
            self.map.sync_part(0, PAGE_BYTES)?;
        }
        store(session::SYNCING, commit.stamp);
        self.map.sync()?;
        let journal = journal.filter(|(page, pages)| page.saturating_add(*pages) <= commit.end);
        let journal = journal.map(|(page, pages)| Journal { page, pages, salt });
        self.write_meta(
            1 - place,
            Some(&Meta { commit: *commit, turn: turn.saturating_add(1), journal }),
        );
        self.map.sync_part(0, PAGE_BYTES)?;
        store(session::JOURNAL_END, 0);
        store(session::JOURNAL_SUM, salt);
        store(session::BASE, commit.stamp);
        store(session::DURABLE, commit.stamp);
        store(session::SETTLED, 1);
        store(session::SYNCING, 0);
        store(session::RETAINED, 0);
        self.tracked.forget(commit.stamp);
        Ok(())
    }

    /// The base, and its place.
    fn base(&self) -> Option<(usize, Meta)> {
        let stamp = self.load(session::BASE);
        let metas = (0..2).filter_map(|place| Some((place, self.meta(place)?)));
        metas.filter(|(_, meta)| meta.commit.stamp == stamp).max_by_key(|(_, meta)| meta.turn)
    }

    /// Has everything count as changed that is not on the disk for certain: after a failed sync the
    /// kernel may call pages clean that it could not write, and say the next time that all is well.
    #[cold]
    fn write_again(&self, commit: &Commit) -> Result<()> {
        self.reach(commit)?;
        let base = self.load(session::BASE);
        for page in 0..commit.end {
            // The table of pages never gets another stamp, nor do pages of values that get more.
            let birth = self.entry(page)?[0].load(Ordering::Acquire);
            if birth == FIXED || birth & VALUES != 0 || born(birth) > base {
                self.map.write_again(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)?;
            }
        }
        // What a transaction has written that is not committed yet.
        self.map.write_again(commit.end * PAGE_BYTES, self.map.refresh_len()?)
    }

    /// Notes that there may be pages without checksums; what the word is then.
    pub(crate) fn note_unsummed(&self) -> u64 {
        self.word(session::UNSUMMED).fetch_add(1, Ordering::SeqCst).wrapping_add(1)
    }

    /// Enters the checksums of pages that have none. `pin` holds the commit.
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

#[cfg(test)]
mod tests {
    use super::super::BTree;
    use super::super::torn::{durable_store, rebooted, write_anew};
    use super::*;

    fn words(store: &BTree) -> [u64; 3] {
        [session::BASE, session::DURABLE, session::SYNCING].map(|at| store.core().load(at))
    }

    /// Danger: of a base that is let go too early pages are written over that what was appended needs; one that stays
    /// too long keeps the file from getting shorter, and its place is taken for the wrong one of the two.
    #[test]
    fn the_base_is_the_same_while_commits_are_appended_and_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let store = durable_store(&folder.path().join("store"));
        let core = store.core();
        let insert = |i: u64| _ = store.insert(&i.to_le_bytes(), b"value").unwrap();
        let newest = || core.newest().stamp;
        (0..100).take_while(|_| core.journal().is_none()).for_each(insert);
        core.sync_commits(newest(), How::Pages).unwrap();
        for how in [How::Pages, How::Sums, How::Bare] {
            let base = newest();
            assert_eq!(words(&store), [base, base, 0], "before {how:?}");
            for i in 200..203 {
                insert(i);
                assert_eq!(words(&store), [base, newest(), 0], "before {how:?}");
                assert_eq!(core.base().map(|(_, meta)| meta.commit.stamp), Some(base));
                assert!(core.pins().any(|stamp| stamp == base));
            }
            let (_, before) = core.base().unwrap();
            // Who opens it after a power failure goes on with the same.
            let copy = folder.path().join(format!("{how:?}"));
            write_anew(&copy, &rebooted(std::fs::read(store.path().unwrap()).unwrap()));
            assert_eq!(words(&BTree::open(&copy).unwrap()), [base, newest(), 0], "{how:?}");
            core.sync_commits(newest(), how).unwrap();
            assert_eq!(words(&store), [newest(), newest(), 0], "after {how:?}");
            assert_eq!(core.journal().is_some(), how.keeps_journal());
            let (_, after) = core.base().unwrap();
            assert!(after.turn > before.turn && after.commit.stamp == newest());
            assert!(core.pins().all(|stamp| stamp > base), "what the base before had is not free");
        }
    }
}
