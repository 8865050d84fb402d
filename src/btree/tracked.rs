//! Which pages the commits of this process changed since the durable one: so that a sync need not
//! look at the whole table of pages for those few.
//!
//! What is noted may be too much, and never too little: a page that was taken and given back, or
//! changed twice, is sorted out by what the table says of it. Commits of other processes break the
//! row, and so do commits that change much, or the place of the table itself: the next sync then looks at
//! the whole table, or does without, and the row begins anew.
//!
//! Threads: written by who has the writer's lock, read by who has that for syncs.

use crate::os::atomic::{AtomicU32, Ordering};
use crate::os::process::forks;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Most pages that are noted: those of a few commits of which a sync can tell.
pub(crate) const MAX: usize = 512;

/// What was changed in a row of commits.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// What [`forks`] is in the process that does so; 0: nobody. A child that was forked does not: a
    /// thread that it does not have may have been at it.
    forks: AtomicU32,
    row: Mutex<Row>,
}

#[derive(Debug, Default)]
struct Row {
    /// The stamps of the commit before the first, and of the last.
    from: u64,
    to: u64,
    /// Under which commit each page was changed.
    pages: VecDeque<(u64, u64)>,
}

impl Tracked {
    /// Begins to note.
    pub(crate) fn begin(&self) {
        self.forks.store(forks(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.forks.load(Ordering::Relaxed) == forks()
    }

    fn with<R>(&self, f: impl FnOnce(&mut Row) -> R) -> Option<R> {
        if !self.is_on() {
            return None;
        }
        self.row.lock().ok().map(|mut row| f(&mut row))
    }

    /// Notes what a commit changed since the one before it; `None` if that is too much.
    pub(crate) fn note(&self, before: u64, stamp: u64, pages: Option<impl Iterator<Item = u64>>) {
        self.with(|row| {
            if row.to != before {
                (row.from, row.to) = (before, before);
                row.pages.clear();
            }
            row.to = stamp;
            let is_known = pages.is_some();
            let room = MAX + 1 - row.pages.len();
            row.pages.extend(pages.into_iter().flatten().take(room).map(|page| (stamp, page)));
            if !is_known || row.pages.len() > MAX {
                row.from = stamp;
                row.pages.clear();
            }
        });
    }

    /// The pages that were changed between two commits, each once, in order; `None` if that is not
    /// known.
    pub(crate) fn between(&self, before: u64, stamp: u64) -> Option<Vec<u64>> {
        let mut pages: Vec<u64> = self.with(|row| {
            let is_known = row.from <= before && stamp <= row.to;
            is_known.then(|| {
                let noted = row.pages.iter().filter(|(at, _)| (before + 1..=stamp).contains(at));
                noted.map(|(_, page)| *page).collect()
            })
        })??;
        pages.sort_unstable();
        pages.dedup();
        Some(pages)
    }

    /// Forgets what was changed up to a commit.
    pub(crate) fn forget(&self, stamp: u64) {
        self.with(|row| {
            if (row.from..=row.to).contains(&stamp) {
                row.from = stamp;
                let old = row.pages.iter().take_while(|(at, _)| *at <= stamp).count();
                row.pages.drain(..old);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_known_of_commits_in_a_row() {
        let tracked = Tracked::default();
        let note = |before, stamp, pages: &[u64]| {
            tracked.note(before, stamp, Some(pages.iter().copied()));
        };
        crate::os::process::prepare();
        note(1, 2, &[7]);
        assert_eq!(tracked.between(1, 2), None, "not begun");
        tracked.begin();
        note(5, 6, &[9, 8, 9]);
        note(6, 8, &[3]);
        assert_eq!(tracked.between(5, 8), Some(vec![3, 8, 9]));
        assert_eq!(tracked.between(5, 6), Some(vec![8, 9]));
        assert_eq!(tracked.between(6, 8), Some(vec![3]));
        assert_eq!(tracked.between(4, 8), None);
        assert_eq!(tracked.between(5, 9), None);
        tracked.forget(6);
        assert_eq!(tracked.between(5, 8), None);
        assert_eq!(tracked.between(6, 8), Some(vec![3]));
        // Somebody else's commit came between.
        note(9, 10, &[4]);
        assert_eq!(tracked.between(6, 10), None);
        assert_eq!(tracked.between(9, 10), Some(vec![4]));
        // Too much at once, and too much in all.
        tracked.note(10, 11, None::<std::iter::Empty<u64>>);
        assert_eq!(tracked.between(10, 11), None);
        note(11, 12, &[1]);
        assert_eq!(tracked.between(11, 12), Some(vec![1]));
        for stamp in 12..13 + MAX as u64 {
            note(stamp, stamp + 1, &[stamp]);
        }
        assert_eq!(tracked.between(11, 13 + MAX as u64), None);
        note(13 + MAX as u64, 14 + MAX as u64, &[1]);
        assert_eq!(tracked.between(13 + MAX as u64, 14 + MAX as u64), Some(vec![1]));
    }
}
