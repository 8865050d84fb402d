//! One entry of a trace: an operation, and how it is written.

use super::format::{put_varint, take, take_varint};
use crate::stats::{Operation, Outcome};
use std::fmt;

/// What an entry tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// An operation, as statistics count them.
    Operation(Operation),
    /// A transaction or batch begins: what its thread does with its store from here to
    /// [`Operation::Commit`], [`Operation::CommitSync`] or [`Operation::Abort`] is part of it.
    Begin,
    /// A key of the [`Operation::GetMany`] that follows in its thread.
    Key,
    /// The records of a range of keys are counted, which statistics do not tell.
    Count,
}

/// A key in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Key {
    /// As it is.
    Plain(Vec<u8>),
    /// Only its hash: equal keys of a recording have equal ones, unless an earlier program made it.
    Hashed {
        /// SipHash-2-4 of 128 bits, with the recording's secret.
        hash: u128,
        /// How many bytes the key has.
        len: u64,
    },
}

impl Key {
    /// How many bytes the key has.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        match self {
            Key::Plain(bytes) => bytes.len() as u64,
            Key::Hashed { len, .. } => *len,
        }
    }
}

/// An operation that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// When it began, in nanoseconds after the recording.
    pub time: u64,
    /// The number of its process.
    pub process: u32,
    /// Its thread, counted from 1 in its process.
    pub thread: u32,
    /// The number of its store or table in [`Trace::stores`](super::Trace::stores).
    pub store: u32,
    /// What was done.
    pub action: Action,
    /// How it ended.
    pub outcome: Outcome,
    /// The key; of a scan or count the first of its range. None where there is none, or several.
    pub key: Option<Key>,
    /// Bytes of the value read or written; of a seek those of the key, too, that was come to; for what is
    /// about many records, of all that was moved. 0 for a removal.
    pub value_len: u64,
    /// Records or keys, for what is about many: a scan, `get_many`, a count, a commit. 0 for all
    /// else.
    pub items: u64,
}

/// How the actions are numbered: the operations as in statistics, then these.
const BEGIN: u8 = 12;
const KEY: u8 = 13;
const COUNT: u8 = 14;
const _: () = assert!(Operation::ALL.len() == BEGIN as usize);

const OUTCOMES: [Outcome; 5] =
    [Outcome::Hit, Outcome::Miss, Outcome::Done, Outcome::Unchanged, Outcome::Failed];

/// Says that the key is hashed, in the byte that has action and outcome.
const HASHED: u8 = 0x80;

/// A key as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyRef<'k> {
    None,
    Plain(&'k [u8]),
    Hashed { hash: u128, len: u64 },
}

/// What of an entry is written in a block's content; the rest is in the block's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written<'k> {
    pub(super) time: u64,
    pub(super) store: u32,
    pub(super) action: Action,
    pub(super) outcome: Outcome,
    pub(super) key: KeyRef<'k>,
    pub(super) value_len: u64,
    pub(super) items: u64,
}

impl Action {
    fn number(self) -> u8 {
        match self {
            Action::Operation(operation) => operation as u8,
            Action::Begin => BEGIN,
            Action::Key => KEY,
            Action::Count => COUNT,
        }
    }

    fn of_number(number: u8) -> Option<Action> {
        match number {
            BEGIN => Some(Action::Begin),
            KEY => Some(Action::Key),
            COUNT => Some(Action::Count),
            number => Operation::ALL.get(usize::from(number)).copied().map(Action::Operation),
        }
    }

    /// Whether the entry says how many records or keys it is about.
    fn has_items(self) -> bool {
        use Operation::{Commit, CommitSync, GetMany, Scan};
        match self {
            Action::Operation(operation) => {
                matches!(operation, GetMany | Scan | Commit | CommitSync)
            }
            Action::Count => true,
            Action::Begin | Action::Key => false,
        }
    }

    /// Its name: that of the operation, "begin", "key", or "count".
    pub fn name(self) -> &'static str {
        match self {
            Action::Operation(operation) => operation.name(),
            Action::Begin => "begin",
            Action::Key => "key",
            Action::Count => "count",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Written<'_> {
    /// Appends the entry; `last` is the time of the one before.
    pub(super) fn put(&self, last: u64, out: &mut Vec<u8>) {
        let is_hashed = matches!(self.key, KeyRef::Hashed { .. });
        let outcome = self.outcome as u8;
        out.push(self.action.number() | outcome << 4 | if is_hashed { HASHED } else { 0 });
        let step = self.time.wrapping_sub(last).cast_signed();
        put_varint(out, (step << 1 ^ step >> 63).cast_unsigned());
        put_varint(out, self.store.into());
        match self.key {
            KeyRef::None => put_varint(out, 0),
            KeyRef::Plain(key) => {
                put_varint(out, key.len() as u64 + 1);
                out.extend_from_slice(key);
            }
            KeyRef::Hashed { hash, len } => {
                put_varint(out, len.saturating_add(1));
                out.extend_from_slice(&hash.to_le_bytes());
            }
        }
        put_varint(out, self.value_len);
        if self.action.has_items() {
            put_varint(out, self.items);
        }
    }
}

impl Entry {
    /// Takes an entry off the front; `None` if there is none that makes sense. `last` is the time of
    /// the one before.
    pub(super) fn take(bytes: &mut &[u8], last: u64, process: u32, thread: u32) -> Option<Entry> {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let action = Action::of_number(first & 0xf)?;
        let outcome = *OUTCOMES.get(usize::from(first >> 4 & 7))?;
        let step = take_varint(bytes)?;
        let step = (step >> 1) ^ (step & 1).wrapping_neg();
        let time = last.wrapping_add(step);
        let store = u32::try_from(take_varint(bytes)?).ok()?;
        let key = match (take_varint(bytes)?, first & HASHED != 0) {
            (0, false) => None,
            (0, true) => return None,
            (len, false) => Some(Key::Plain(take(bytes, len - 1)?.to_vec())),
            (len, true) => {
                let hash = u128::from_le_bytes(*take(bytes, 16)?.first_chunk()?);
                Some(Key::Hashed { hash, len: len - 1 })
            }
        };
        let value_len = take_varint(bytes)?;
        let items = if action.has_items() { take_varint(bytes)? } else { 0 };
        Some(Entry { time, process, thread, store, action, outcome, key, value_len, items })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_numbered_as_in_the_format() {
        for (i, outcome) in OUTCOMES.into_iter().enumerate() {
            assert_eq!(outcome as usize, i);
        }
        for number in 0..16 {
            let action = Action::of_number(number);
            assert_eq!(action.map(Action::number), (number <= COUNT).then_some(number));
        }
    }
}
