//! A folder in which there is only so much space: a file system of its own in memory, or, where this user
//! may make none, a limit on the length of every file.
//!
//! A small file system is the real thing: the kernel says that there is no space, also to who stores into
//! a map where no page is yet, which is the end of the process. A limit on the length of files says so to
//! calls alone. Mounts are seen by this process and those it starts, and end with them.

use super::child::Space;
use crate::driver::kernel;
use crate::rng::Rng;
use credenza::{Error, Result};
use std::path::Path;

/// More than any store takes here.
const PLENTY: u64 = 64 << 30;
/// No file system is smaller.
const PAGE: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Mounted,
    LimitedFiles,
}

impl Room {
    /// Which of them it is; to be asked before this process has a second thread.
    pub(super) fn prepare(is_wanted: bool) -> Room {
        match is_wanted.then(kernel::own_mounts) {
            Some(Ok(())) => Room::Mounted,
            _ => Room::LimitedFiles,
        }
    }

    /// In words, for the report.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Room::Mounted => "a file system in memory without space",
            Room::LimitedFiles => "a limit on the length of files",
        }
    }

    /// Begins with less than a store takes that had these sizes, and where it grew, as much as it had at
    /// some time; `None` if it took nothing.
    pub(super) fn search(self, sizes: &[Space], rng: &mut Rng) -> Option<Search> {
        let of = |space: &Space| match self {
            Room::Mounted => space.allocated,
            Room::LimitedFiles => space.longest,
        };
        let most = sizes.iter().map(of).max().filter(|most| *most > 0)?;
        let least = sizes.iter().map(of).min().filter(|least| *least < most);
        let least = least.unwrap_or(most / 2);
        // A file system of no size has no limit.
        let bytes = (least + rng.below(most - least)).max(1);
        Some(Search { bytes, too_little: None, enough: most })
    }

    /// Makes the space of an empty folder so small; what a process must observe itself, where it has to.
    pub(super) fn make(self, folder: &Path, bytes: u64) -> Result<Option<u64>> {
        match self {
            Room::LimitedFiles => Ok(Some(bytes)),
            Room::Mounted => kernel::mount_memory(folder, bytes, false)
                .map(|()| None)
                .map_err(|e| Error::io("mount a file system at", e).at(folder)),
        }
    }

    /// There is space again.
    pub(super) fn give_more(self, folder: &Path) -> Result<()> {
        match self {
            Room::LimitedFiles => Ok(()),
            Room::Mounted => kernel::mount_memory(folder, PLENTY, true)
                .map_err(|e| Error::io("give more space to", e).at(folder)),
        }
    }

    /// Takes it away, with all that is in it.
    pub(super) fn clear(self, folder: &Path) -> Result<()> {
        match self {
            Room::LimitedFiles => Ok(()),
            Room::Mounted => {
                kernel::unmount(folder).map_err(|e| Error::io("unmount", e).at(folder))
            }
        }
    }
}

/// The search for a size at which a disk gets full when something is in the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// What is to be tried.
    pub(super) bytes: u64,
    /// The most with which the store could not be made.
    pub(super) too_little: Option<u64>,
    enough: u64,
}

impl Search {
    /// What was tried was enough, or too little to begin with; whether there is something between, to be tried
    /// next.
    pub(super) fn goes_on(&mut self, was_enough: bool, rng: &mut Rng) -> bool {
        match was_enough {
            true => self.enough = self.bytes,
            false => self.too_little = Some(self.bytes),
        }
        let between = self.enough - self.too_little.unwrap_or(0).min(self.enough);
        if between <= PAGE {
            return false;
        }
        self.bytes = match self.too_little {
            Some(least) => least + 1 + rng.below(between - 1),
            // About half: the store may need a hundredth of what it takes.
            None => (between / 4 + rng.below(between / 2)).max(PAGE),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(longest: &[u64]) -> Vec<Space> {
        longest.iter().map(|longest| Space { longest: *longest, ..Space::default() }).collect()
    }

    #[test]
    fn what_is_drawn_is_too_little() {
        let mut rng = Rng::new(1, 1);
        for longest in [&[100, 150, 150, 400][..], &[5, 9, 3], &[700, 700], &[0, 0, 90]] {
            let (most, least) = (*longest.iter().max().unwrap(), *longest.iter().min().unwrap());
            let least = if least == most { most / 2 } else { least.max(1) };
            for _ in 0..100 {
                let drawn = Room::LimitedFiles.search(&sizes(longest), &mut rng).unwrap().bytes;
                assert!((least..most).contains(&drawn), "{longest:?}: {drawn}");
            }
        }
        assert!(Room::LimitedFiles.search(&sizes(&[0, 0]), &mut rng).is_none());
        assert!(Room::LimitedFiles.search(&[], &mut rng).is_none());
    }

    /// Of a store that needs so much to be made, and so much to the end.
    fn found(made: u64, whole: u64, taken: u64, seed: u64) -> Option<u64> {
        let mut rng = Rng::new(seed, 1);
        let mut search = Room::LimitedFiles.search(&sizes(&[taken]), &mut rng).unwrap();
        for _ in 0..48 {
            assert!((1..taken).contains(&search.bytes));
            if (made..whole).contains(&search.bytes) {
                return Some(search.bytes);
            }
            if !search.goes_on(search.bytes >= whole, &mut rng) {
                return None;
            }
        }
        panic!("{search:?}: no end");
    }

    #[test]
    fn a_size_is_found_at_which_there_is_something_in_the_store() {
        for seed in 0..100 {
            for (made, whole, taken) in
                [(0, 300_000, 64 << 20), (200_000, 300_000, 64 << 30), (1, 2 * PAGE, 1 << 20)]
            {
                assert!(found(made, whole, taken, seed).is_some(), "{made} to {whole}");
            }
            // Made and whole at once, or whole in a page.
            assert_eq!(found(70_000, 70_000, 1 << 20, seed), None);
            assert_eq!(found(0, 1, 1 << 20, seed), None);
        }
    }
}
