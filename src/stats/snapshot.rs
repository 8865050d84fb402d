//! What was counted, added up over all slots.

use super::histogram::{BUCKETS, Histogram};
use super::layout::{
    self, CALL, CALLS, FAILED, ITEMS, MAX, MOVING, OWNER, SECOND, SLOTS, SUM, TRANSFERRED,
};
use super::operation::{Operation, Outcome};
use crate::Result;
use crate::bytes::le64;

/// Attempts to read while nothing moves from slot to slot: a process killed meanwhile leaves the
/// sign that something does.
const ATTEMPTS: u32 = 100;

/// What was done with a store, by operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operations {
    tallies: [Tally; Operation::ALL.len()],
}

/// How often an operation was done, with what outcome, and how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Calls that have ended.
    pub calls: u64,
    /// Keys looked up by [`Operation::GetMany`], records read by [`Operation::Scan`], changes made
    /// by [`Operation::Commit`] and [`Operation::CommitSync`]; of other operations the same as
    /// `calls`.
    pub items: u64,
    /// Bytes of the values that were found; of scans, and of seeks that give the record, of keys and
    /// values; of operations that write, of keys and values written.
    pub bytes: u64,
    /// The latencies of the calls that were timed ([`super::Latency`]).
    pub latency: Histogram,
    operation: Operation,
    second: u64,
    failed: u64,
}

impl Operations {
    /// Reads the bytes of a file of statistics.
    ///
    /// # Errors
    /// They are none of this format and version, or damaged. Numbers have no checksum: changed
    /// ones are other numbers.
    pub fn from_bytes(bytes: &[u8]) -> Result<Operations> {
        layout::check(bytes, bytes.len() as u64)?;
        Ok(Operations::add_up(&|at| le64(bytes, 8 * at).unwrap_or_default()))
    }

    /// Adds the words of an area up, again as long as others move numbers in it.
    pub(super) fn read(word: impl Fn(usize) -> u64) -> Operations {
        for _ in 1..ATTEMPTS {
            let moving = word(MOVING);
            let operations = Operations::add_up(&word);
            if moving.is_multiple_of(2) && word(MOVING) == moving {
                return operations;
            }
            std::thread::yield_now();
        }
        Operations::add_up(&word)
    }

    fn add_up(word: &impl Fn(usize) -> u64) -> Operations {
        let mut tallies = Operation::ALL.map(Tally::none);
        for slot in (0..SLOTS).filter(|slot| *slot == 0 || word(layout::slot(*slot) + OWNER) != 0) {
            for tally in &mut tallies {
                tally.add(slot, word);
            }
        }
        for tally in &mut tallies {
            if !tally.operation.has_items() {
                tally.items = tally.calls;
            }
        }
        Operations { tallies }
    }

    /// What was counted of an operation.
    pub fn of(&self, operation: Operation) -> &Tally {
        &self.tallies[operation.number()]
    }

    /// Every operation, done or not.
    pub fn iter(&self) -> impl Iterator<Item = (Operation, &Tally)> {
        Operation::ALL.into_iter().zip(&self.tallies)
    }

    /// What came after `earlier`, a snapshot of the same store.
    #[must_use]
    pub fn since(&self, earlier: &Operations) -> Operations {
        let mut tallies = self.tallies.clone();
        for (tally, earlier) in tallies.iter_mut().zip(&earlier.tallies) {
            let less = |now: &mut u64, then: u64| *now = now.saturating_sub(then);
            less(&mut tally.calls, earlier.calls);
            less(&mut tally.items, earlier.items);
            less(&mut tally.bytes, earlier.bytes);
            less(&mut tally.second, earlier.second);
            less(&mut tally.failed, earlier.failed);
            tally.latency = tally.latency.since(&earlier.latency);
        }
        Operations { tallies }
    }
}

impl Tally {
    fn none(operation: Operation) -> Tally {
        Tally {
            calls: 0,
            items: 0,
            bytes: 0,
            latency: Histogram::default(),
            operation,
            second: 0,
            failed: 0,
        }
    }

    /// Adds what is in a slot; wrapping, for in a shared file there may be anything.
    fn add(&mut self, slot: usize, word: &impl Fn(usize) -> u64) {
        let line = layout::line(slot, self.operation);
        let add = |sum: &mut u64, n: u64| *sum = sum.wrapping_add(n);
        add(&mut self.calls, word(line + CALLS) / CALL);
        add(&mut self.items, word(line + ITEMS));
        add(&mut self.bytes, word(line + TRANSFERRED));
        add(&mut self.second, word(line + SECOND));
        add(&mut self.failed, word(line + FAILED));
        let (sum, max) = (word(line + SUM), word(line + MAX));
        if max != 0 {
            let histogram = layout::histogram(slot, self.operation);
            self.latency.add((histogram..histogram + BUCKETS).map(word), sum, max);
        }
    }

    /// How often it ended so: calls; of [`Operation::GetMany`], keys that were there and keys that
    /// were not, and calls that failed. 0 for what cannot be the outcome of this operation.
    pub fn count(&self, outcome: Outcome) -> u64 {
        let first = match self.operation {
            Operation::GetMany => self.items.saturating_sub(self.second),
            _ => self.calls.saturating_sub(self.second).saturating_sub(self.failed),
        };
        match outcome {
            _ if !self.operation.outcomes().contains(&outcome) => 0,
            Outcome::Hit | Outcome::Done => first,
            Outcome::Miss | Outcome::Unchanged => self.second,
            Outcome::Failed => self.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_words_give_numbers() {
        for value in [0, 1, u64::MAX, u64::MAX / 2] {
            let operations = Operations::read(|at| if at == MOVING { 1 } else { value });
            for (operation, tally) in operations.iter() {
                let total: u64 =
                    operation.outcomes().iter().fold(0, |s, o| s.wrapping_add(tally.count(*o)));
                std::hint::black_box(total);
                std::hint::black_box(tally.latency.percentile(99.0) as f64 + tally.latency.mean());
                assert!(tally.latency.percentile(50.0) <= tally.latency.max());
            }
            assert_eq!(operations.since(&operations).of(Operation::Get).calls, 0);
        }
    }
}
