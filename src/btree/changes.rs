//! What a commit changed since the durable one before it, for the journal.
//!
//! A page that was taken for a tree is kept there whole; of pages of values only what these trees refer
//! to in them. What the table of pages shall say follows from what became of each page.

use super::core::Core;
use super::format::{self, Commit, FIXED, PAGE_BYTES, SUMMED, VALUES, session};
use super::page::{self, Bytes, count};
use super::pins::Pin;
use super::record::{Elsewhere, Far};
use super::source::Source;
use super::tree::{Pages, of};
use super::{inner, leaf, tracked};
use crate::Result;
use crate::os::atomic::Ordering;

/// Most pages of a store whose whole table is looked at for the few that changed: 256 MiB, for which that
/// takes less time than what is saved, a second wait for the disk.
const MOST_PAGES: u64 = 1 << 16;

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

/// Which pages a commit changed since the durable one.
#[derive(Debug)]
struct ChangedPages {
    /// In the order of the pages.
    changes: Vec<Change>,
    /// Whether they name the pages of values that got more.
    name_added: bool,
}

/// What a commit has that the durable one has not.
#[derive(Debug)]
pub(crate) struct Changes<'a> {
    /// In the order of the pages.
    pub changes: Vec<Change>,
    pub pieces: Vec<Piece<'a>>,
}

impl Core {
    /// What `commit`, which is held like the durable one, has that this has not; `None` if that is not known,
    /// or is too much: more than `most` bytes. What is damaged is an error.
    pub(crate) fn changes<'a>(
        &self,
        source: &'a Source<'_>,
        durable: u64,
        commit: &Commit,
        most: u64,
        held: &Pin<'_>,
    ) -> Result<Option<Changes<'a>>> {
        let Some(pages) = self.changed_pages(durable, commit, held)? else { return Ok(None) };
        let ChangedPages { changes, name_added } = pages;
        let is_new = |far: Far| {
            // All pages of a new one that shares none are among the changes.
            if is_written(&changes, far.page()) {
                return Ok(true);
            }
            // Perhaps it was put behind others, and perhaps it was durable before.
            let may_be_added = !name_added && far.is_packed();
            Ok(may_be_added && self.changed(far.page(), durable, commit)? == Some(Changed::Added))
        };
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        for change in changes.iter().filter(|change| change.kind == Changed::Tree) {
            let page = source.page(change.page)?;
            pieces.push(Piece { at: change.page * PAGE_BYTES, bytes: page });
            bytes += PAGE_BYTES;
            each_far(change.page, page, |far| {
                if is_new(far)? {
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

    /// The pages that were changed; `None` if they are not known, or too many.
    fn changed_pages(
        &self,
        durable: u64,
        commit: &Commit,
        held: &Pin<'_>,
    ) -> Result<Option<ChangedPages>> {
        let Some(pages) = self.tracked.between(durable, commit.stamp) else {
            return self.changed_by_table(durable, commit, held);
        };
        let mut changes = Vec::with_capacity(pages.len());
        for page in pages {
            let kind = self.changed(page, durable, commit)?;
            changes.extend(kind.map(|kind| Change { page, kind }));
        }
        Ok(Some(ChangedPages { changes, name_added: true }))
    }

    /// The same as the whole table of pages tells it, which has the commits of other processes, too.
    fn changed_by_table(
        &self,
        durable: u64,
        commit: &Commit,
        _held: &Pin<'_>,
    ) -> Result<Option<ChangedPages>> {
        if commit.end > MOST_PAGES || self.load(session::MOVED) > durable {
            return Ok(None);
        }
        let mut changes = Vec::new();
        for page in 1..commit.end {
            match self.changed(page, durable, commit)? {
                // Any page of values in use may have got more.
                None | Some(Changed::Added) => {}
                Some(_) if changes.len() == tracked::MAX => return Ok(None),
                Some(kind) => changes.push(Change { page, kind }),
            }
        }
        Ok(Some(ChangedPages { changes, name_added: false }))
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

#[cfg(test)]
mod tests {
    use super::super::BTree;
    use super::super::format::FIRST_TABLE;
    use super::session;
    use crate::durability::Durability;
    use std::path::Path;

    /// Two openings as two processes have them: neither knows what the other changed, and only the commits
    /// of the second are durable.
    fn open_both(path: &Path) -> [BTree; 2] {
        [Durability::Buffered, Durability::Sync].map(|durability| {
            BTree::options().create(true).durability(durability).open(path).unwrap()
        })
    }

    fn put(store: &BTree, key: u64, len: usize) {
        let mut transaction = store.write().unwrap();
        transaction.main().insert(&key.to_le_bytes(), &vec![key as u8; len]).unwrap();
        transaction.commit().unwrap();
    }

    /// Whether a commit of the second one, with that of the first before it, goes to the journal.
    fn is_appended([first, second]: &[BTree; 2], key: u64, len: usize) -> bool {
        let word = |at| second.core().load(at);
        put(first, key, len);
        let (durable, base) = (word(session::DURABLE), word(session::BASE));
        put(second, key + 1, len);
        assert!(word(session::DURABLE) > durable + 1);
        word(session::BASE) == base
    }

    /// Who commits beside another process must not wait for all pages each time.
    #[test]
    fn what_another_process_committed_is_appended_too() {
        let folder = tempfile::tempdir().unwrap();
        let both = open_both(&folder.path().join("store"));
        // Some of the values lie in pages that have others.
        let lens = [8, 2000, 700, 3000];
        let appended =
            (0..200).filter(|i| is_appended(&both, i * 2 % 50, lens[*i as usize % 4])).count();
        assert!(appended > 100, "{appended} of 200");
        both[0].verify(|_, _| ()).unwrap();
    }

    /// The table of pages does not tell of its own blocks, nor of where the store ends.
    #[test]
    fn what_the_table_of_pages_does_not_tell_is_not_appended() {
        let folder = tempfile::tempdir().unwrap();
        let both = open_both(&folder.path().join("store"));
        (0..20).for_each(|i| _ = is_appended(&both, i * 2, 8));
        assert!(is_appended(&both, 40, 8), "there is no journal");
        let pages = |store: &BTree| store.core().newest().end;
        let is_told = |at: u64| both[1].core().load(session::MOVED) <= at;
        // A new block, with few pages that are not durable yet.
        let mut key = 100;
        let mut fill = |store: &BTree, end: u64| {
            while pages(store) < end {
                put(store, key, 3000);
                key += 1;
            }
            key
        };
        assert!(pages(&both[0]) < FIRST_TABLE - 8);
        fill(&both[1], FIRST_TABLE - 8);
        let before = both[1].core().newest().stamp;
        let key = fill(&both[0], FIRST_TABLE);
        assert!(!is_told(before));
        assert!(!is_appended(&both, key, 8), "with a new block");
        assert!(is_appended(&both, key, 8), "after it");
        // A lower end.
        let mut transaction = both[0].write().unwrap();
        transaction.main().clear().unwrap();
        transaction.commit().unwrap();
        let (before, end) = (both[1].core().newest().stamp, pages(&both[0]));
        both[0].sync().unwrap();
        assert!(pages(&both[0]) < end && !is_told(before), "the end was not lowered");
        both[0].verify(|_, _| ()).unwrap();
    }
}
