//! What can be done with a store, and how it can end.

use std::fmt;

/// An operation on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Looking one key up: `get`, `contains_key`.
    Get,
    /// Reading every value of a key: `get_all`.
    GetAll,
    /// Looking many keys up in one call: `get_many`.
    GetMany,
    /// Finding a place in the order of the keys: `first`, `at_or_after`, `before` and their like of a
    /// table; `first`, `last`, `seek` and `find` of a cursor, whose steps from there are not counted.
    Seek,
    /// Reading records one after another: `scan`, `iter`, `range`. Iterators, and the `scan` of a
    /// [`Store`](crate::Store) that is a hash store, which is one, are counted when they begin and never timed: between
    /// two records the time is the caller's.
    Scan,
    /// Adding or replacing a record: `insert`, `replace`.
    Insert,
    /// Removing a record.
    Remove,
    /// Reading a value and writing what follows from it, in one step: `update`, `append`,
    /// `increment`, `insert_if_absent`, `compare_exchange`.
    Update,
    /// Making the changes of a transaction or a batch, all at once: `commit`, `batch`.
    Commit,
    /// The same where it returns when they are safe against the loss of power
    /// ([`Durability::Sync`](crate::Durability::Sync)), which is another order of time.
    CommitSync,
    /// Forgetting the changes of a transaction: `abort`, or that it is dropped.
    Abort,
    /// Making changes durable, by a call of `sync`. What writes that are durable when they return
    /// wait for the disk is in their own time.
    Sync,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The key was there.
    Hit,
    /// The key was not there.
    Miss,
    /// Done, where there is nothing to tell apart.
    Done,
    /// The key was there, or had another value than was expected, so that nothing was written.
    Unchanged,
    /// An error was returned.
    Failed,
}

impl Operation {
    /// How users are told that it ended: that an update took its key out, or that a key may have several values, is for
    /// the trace only.
    pub(super) fn outcome(self, outcome: Outcome) -> Outcome {
        match (self, outcome) {
            (Operation::Insert | Operation::Update, Outcome::Hit) => Outcome::Done,
            _ => outcome,
        }
    }

    /// All of them.
    pub const ALL: [Operation; 12] = [
        Operation::Get,
        Operation::GetAll,
        Operation::GetMany,
        Operation::Seek,
        Operation::Scan,
        Operation::Insert,
        Operation::Remove,
        Operation::Update,
        Operation::Commit,
        Operation::CommitSync,
        Operation::Abort,
        Operation::Sync,
    ];

    /// Its name, most often as a method is called: "get", "get_all", ...
    pub fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::GetAll => "get_all",
            Operation::GetMany => "get_many",
            Operation::Seek => "seek",
            Operation::Scan => "scan",
            Operation::Insert => "insert",
            Operation::Remove => "remove",
            Operation::Update => "update",
            Operation::Commit => "commit",
            Operation::CommitSync => "commit_sync",
            Operation::Abort => "abort",
            Operation::Sync => "sync",
        }
    }

    /// The outcomes that it can have: one or two good ones, and [`Outcome::Failed`].
    pub fn outcomes(self) -> &'static [Outcome] {
        match self {
            Operation::Get
            | Operation::GetAll
            | Operation::GetMany
            | Operation::Seek
            | Operation::Remove => &[Outcome::Hit, Outcome::Miss, Outcome::Failed],
            Operation::Update => &[Outcome::Done, Outcome::Unchanged, Outcome::Failed],
            Operation::Insert
            | Operation::Scan
            | Operation::Commit
            | Operation::CommitSync
            | Operation::Abort
            | Operation::Sync => &[Outcome::Done, Outcome::Failed],
        }
    }

    /// Its number in a slot.
    pub(super) fn number(self) -> usize {
        self as usize
    }

    /// Whether one call is about any number of keys or records.
    pub(super) fn has_items(self) -> bool {
        use Operation::{Commit, CommitSync, GetMany, Scan};
        matches!(self, GetMany | Scan | Commit | CommitSync)
    }

    /// Whether one call takes so long that reading a clock twice is nothing beside it.
    pub(super) fn is_long(self) -> bool {
        use Operation::{Abort, Commit, CommitSync, Scan, Sync};
        matches!(self, Scan | Commit | CommitSync | Abort | Sync)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Outcome {
    /// Its name: "hit", "miss", ...
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Hit => "hit",
            Outcome::Miss => "miss",
            Outcome::Done => "done",
            Outcome::Unchanged => "unchanged",
            Outcome::Failed => "failed",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_format() {
        for (i, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation.number(), i);
        }
    }
}
