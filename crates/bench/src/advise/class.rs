//! When a change is safe against the loss of power: what a program asks a store for, and what it loses
//! otherwise. The death of the process takes nothing in any of these classes.

use credenza::{Error, Result};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// What a program asks for; each promises more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Class {
    /// Nothing: the kernel brings changes to the disk when it gets to it.
    #[default]
    Buffered,
    /// The program calls `sync` after so many changes.
    Every(usize),
    /// Each change is on the disk when its call returns.
    Sync,
}

impl Class {
    /// Whether anything waits for the disk.
    pub(super) fn waits(self) -> bool {
        self != Class::Buffered
    }

    /// Changes between two calls of `sync`, where the program makes such calls.
    pub(super) fn every(self) -> Option<usize> {
        match self {
            Class::Every(changes) => Some(changes),
            Class::Buffered | Class::Sync => None,
        }
    }

    /// What is done, in words.
    pub(super) fn in_words(self) -> String {
        match self {
            Class::Buffered => "no waiting".to_owned(),
            Class::Every(1) => "sync() after each change".to_owned(),
            Class::Every(changes) => format!("sync() after {changes} changes"),
            Class::Sync => "each change synced".to_owned(),
        }
    }

    /// What the loss of power takes of acknowledged changes.
    pub(super) fn lost_with_power(self) -> String {
        match self {
            Class::Buffered => {
                "what the kernel had not written: mostly the last half minute".to_owned()
            }
            Class::Every(changes) => format!(
                "the last {changes} changes at most, or the last transaction if it has more"
            ),
            Class::Sync => "nothing".to_owned(),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Buffered => write!(f, "buffered"),
            Class::Every(changes) => write!(f, "sync every {changes}"),
            Class::Sync => write!(f, "sync"),
        }
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Class {
    type Err = Error;

    fn from_str(text: &str) -> Result<Class> {
        match (text, text.parse()) {
            ("sync", _) => Ok(Class::Sync),
            ("buffered", _) => Ok(Class::Buffered),
            (_, Ok(changes)) if changes > 0 => Ok(Class::Every(changes)),
            _ => Err(Error::invalid(format!(
                "--durability is sync, buffered, or after how many changes the program calls sync, at \
                 least 1, not '{text}'"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read_and_ordered_by_what_they_promise() {
        for (text, class) in
            [("sync", Class::Sync), ("buffered", Class::Buffered), ("20", Class::Every(20))]
        {
            assert_eq!(text.parse::<Class>().unwrap(), class);
        }
        for text in ["0", "-1", "Sync", "", "1.5"] {
            assert!(text.parse::<Class>().is_err(), "{text}");
        }
        assert!(Class::Buffered < Class::Every(1) && Class::Every(1000) < Class::Sync);
    }
}
