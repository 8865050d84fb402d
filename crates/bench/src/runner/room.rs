//! What is said of a store that failed where the folder of stores is full.
//!
//! Libraries say that in words of their own, some only that a write failed, and none says what to do. So what
//! failed is told with that, where the words speak of space, or where next to nothing is free.
//!
//! Invariant: to be asked where it failed, in the process that did it, before anything of the store is removed.

use crate::driver::kernel;
use credenza::Error;
use std::path::Path;

/// What to do, of any store and phase.
const ADVICE: &str = "make room, name another folder with --dir, or take fewer --records";
/// What says it, in whatever library's words.
const WORDS: [&str; 3] = ["no space left", "disk is full", "quota exceeded"];
/// With less than that a store may find no room for what it writes at once.
const LITTLE: u64 = 64 << 10;

/// The error of a store whose files are in `folder`, in words.
pub(super) fn told(error: &Error, folder: &Path) -> String {
    in_words(&error.to_string(), kernel::free_bytes(folder))
}

fn in_words(what: &str, free: Option<u64>) -> String {
    let what = what.trim_end_matches(" (free some space and run it again)");
    let lower = what.to_lowercase();
    match free {
        // A process that was started by this one has said it.
        _ if what.ends_with(ADVICE) => what.to_owned(),
        _ if WORDS.iter().any(|words| lower.contains(words)) => format!("{what}: {ADVICE}"),
        Some(free) if free < LITTLE => {
            format!("{what}: its folder is full, with {free} bytes free: {ADVICE}")
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
        let told = in_words(&error, None);
        assert!(told.contains("cannot make longer: ") && told.ends_with(ADVICE), "{told}");
        assert!(error.contains("free some space") && !told.contains("free some space"), "{told}");
    }

    #[test]
    fn what_failed_for_want_of_space_says_what_to_do_once() {
        let full = [
            ("put: No space left on device", Some(1 << 40)),
            ("COMMIT: database or disk is full", None),
            ("write: Disk quota exceeded (os error 122)", Some(1 << 40)),
            ("gdbm_store: File write error", Some(100)),
        ];
        for (what, free) in full {
            let told = in_words(what, free);
            assert!(told.starts_with(what) && told.ends_with(ADVICE), "{told}");
            assert_eq!(in_words(&told, free), told);
        }
        for free in [None, Some(LITTLE)] {
            assert_eq!(in_words("a key is too long", free), "a key is too long");
        }
    }
}
