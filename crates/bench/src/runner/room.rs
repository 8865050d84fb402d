//! What is said of a store that failed where the folder of stores is full.
//!
//! Libraries say that in words of their own, some only that a write failed, and none says what to do. So what
//! failed is told with that, where the words speak of space, or where next to nothing is free; where less is free
//! than the store has, which grows by a part of its size at once, that it may be so.
//!
//! Invariant: to be asked where it failed, in the process that did it, before anything of the store is removed.

use crate::driver::kernel;
use crate::measure::Size;
use credenza::Error;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What to do, of any store and phase: the command that runs has options for it, and not each has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Advice {
    FewerRecords,
    SmallerScale,
    OtherFolder,
}

impl Advice {
    fn in_words(self) -> &'static str {
        match self {
            Advice::FewerRecords => {
                "make room, name another folder with --dir, or take fewer --records"
            }
            Advice::SmallerScale => {
                "make room, name another folder with --dir or --disk, or take a smaller --scale"
            }
            Advice::OtherFolder => "make room, or name another folder with --dir",
        }
    }
}

/// What SIGBUS tells of where there is room, and where there may be none.
const DAMAGED: &str = ": a file may be damaged, or shorter than it says";
const FULL: &str = ": the folder may be full: make room, or name another with --dir";
/// Where nobody knows which.
const EITHER: &str = ": the folder may be full, or a file be damaged";

/// What says it, in whatever library's words.
const WORDS: [&str; 3] = ["no space left", "disk is full", "quota exceeded"];
/// With less than that a store may find no room for what it writes at once.
const LITTLE: u64 = 64 << 10;

/// The error of a store whose files are in `folder`, in words.
pub(crate) fn told(error: &Error, folder: &Path, advice: Advice) -> String {
    let taken = Size::of(folder).map_or(0, |size| size.allocated);
    in_words(&error.to_string(), kernel::free_bytes(folder), taken, advice.in_words())
}

/// What SIGBUS tells of, in a process with a store in this folder, before anything of it is removed: who has a file
/// mapped gets it where there is no space for a page, and where the file ends before it.
pub(crate) fn told_of_sigbus(folder: Option<&Path>) -> &'static str {
    let taken = folder.and_then(|folder| Size::of(folder).ok()).map_or(0, |size| size.allocated);
    of_sigbus(folder.and_then(kernel::free_bytes), taken)
}

fn of_sigbus(free: Option<u64>, taken: u64) -> &'static str {
    match free {
        Some(free) if free < taken.max(LITTLE) => FULL,
        Some(_) => DAMAGED,
        None => EITHER,
    }
}

fn in_words(what: &str, free: Option<u64>, taken: u64, advice: &str) -> String {
    let what = what.trim_end_matches(" (free some space and run it again)");
    let lower = what.to_lowercase();
    match free {
        // A process that was started by this one has said it.
        _ if what.ends_with(advice) => what.to_owned(),
        _ if WORDS.iter().any(|words| lower.contains(words)) => format!("{what}: {advice}"),
        Some(free) if free < LITTLE => {
            format!("{what}: its folder is full, with {free} bytes free: {advice}")
        }
        Some(free) if free < taken => {
            format!("{what}: it may want space, as its folder has {free} bytes free: {advice}")
        }
        _ => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_our_own_engines_advise_is_not_said_twice() {
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let error = Error::io("make longer", full).to_string();
        let advice = Advice::OtherFolder.in_words();
        let told = in_words(&error, None, 0, advice);
        assert!(told.contains("cannot make longer: ") && told.ends_with(advice), "{told}");
        assert!(error.contains("free some space") && !told.contains("free some space"), "{told}");
    }

    #[test]
    fn a_folder_with_room_is_not_said_to_be_full() {
        assert_eq!(of_sigbus(Some(1 << 40), 1 << 30), DAMAGED);
        assert_eq!(of_sigbus(Some(LITTLE), 0), DAMAGED);
        assert_eq!(of_sigbus(Some(LITTLE - 1), 0), FULL);
        assert_eq!(of_sigbus(Some(1 << 20), 1 << 30), FULL);
        assert_eq!(told_of_sigbus(None), EITHER);
    }

    #[test]
    fn what_failed_for_want_of_space_says_what_to_do_once() {
        let full = [
            ("put: No space left on device", Some(1 << 40)),
            ("COMMIT: database or disk is full", None),
            ("write: Disk quota exceeded (os error 122)", Some(1 << 40)),
            ("gdbm_store: File write error", Some(100)),
        ];
        let advice = Advice::FewerRecords.in_words();
        for (what, free) in full {
            let told = in_words(what, free, 0, advice);
            assert!(told.starts_with(what) && told.ends_with(advice), "{told}");
            assert_eq!(in_words(&told, free, 1 << 40, advice), told);
        }
        // Some give back what they had taken when that was not enough.
        let told = in_words("tdb_store: Success", Some(300_000), 1_000_000, advice);
        assert!(told.contains("may want space") && told.ends_with(advice), "{told}");
        assert_eq!(in_words(&told, Some(300_000), 1_000_000, advice), told);
        for free in [None, Some(LITTLE)] {
            assert_eq!(in_words("a key is too long", free, LITTLE, advice), "a key is too long");
        }
    }
}
