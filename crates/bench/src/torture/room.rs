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

    /// Less than a store takes that had these sizes, and where it grew, as much as it had at some time;
    /// `None` if it took nothing.
    pub(super) fn draw(self, sizes: &[Space], rng: &mut Rng) -> Option<u64> {
        let of = |space: &Space| match self {
            Room::Mounted => space.allocated,
            Room::LimitedFiles => space.longest,
        };
        let most = sizes.iter().map(of).max().filter(|most| *most > 0)?;
        let least = sizes.iter().map(of).min().filter(|least| *least < most);
        let least = least.unwrap_or(most / 2);
        // A file system of no size has no limit.
        Some((least + rng.below(most - least)).max(1))
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

/// About half of a space that was enough; `None` if there is no less.
pub(super) fn less(bytes: u64, rng: &mut Rng) -> Option<u64> {
    let half = bytes / 2;
    (bytes > PAGE).then(|| (half / 2 + rng.below(half)).max(PAGE))
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
                let drawn = Room::LimitedFiles.draw(&sizes(longest), &mut rng).unwrap();
                assert!((least..most).contains(&drawn), "{longest:?}: {drawn}");
            }
        }
        assert_eq!(Room::LimitedFiles.draw(&sizes(&[0, 0]), &mut rng), None);
        assert_eq!(Room::LimitedFiles.draw(&[], &mut rng), None);
    }

    #[test]
    fn what_was_enough_becomes_less_until_it_is_a_page() {
        for seed in 0..100 {
            let (mut rng, mut bytes, mut tries) = (Rng::new(seed, 1), 64 << 30, 0);
            while let Some(next) = less(bytes, &mut rng) {
                assert!(next < bytes && next >= (bytes / 4).max(PAGE), "{bytes}: {next}");
                (bytes, tries) = (next, tries + 1);
            }
            assert!(bytes == PAGE && tries < 48, "{tries}");
        }
        assert_eq!(less(1, &mut Rng::new(1, 1)), None);
    }
}
