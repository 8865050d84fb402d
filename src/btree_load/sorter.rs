//! Records that come in any order, to be read in that of a table: in memory, or, what is over its
//! budget, in runs on the disk that are merged when they are read; before that to fewer and longer ones,
//! where memory has no room for a record of each.
//!
//! Invariants: of records that belong at one place those that came first come first. Nothing is left
//! on the disk: the file of runs has no name.

use super::batch::{Batch, Record};
use super::order::{Entry, Order, sort};
use super::runs::{Reader, Runs};
use crate::Result;
use crate::btree::KeyValue;
use crate::os::file::make_room;
use crate::os::place::Place;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::rc::Rc;

/// How many records are brought near at once.
const READY: usize = 64;

/// Records that are collected.
pub(super) struct Sorter {
    order: Order,
    budget: u64,
    /// Beside which file runs are written; none if everything shall stay in memory.
    beside: Option<Place>,
    batches: Vec<Rc<Batch>>,
    entries: Vec<Entry>,
    /// Bytes of memory that these take.
    held: u64,
    /// How many records there are.
    count: u64,
    runs: Runs,
}

impl Sorter {
    pub(super) fn new(order: Order, budget: u64, beside: Option<Place>) -> Sorter {
        let (batches, entries, runs) = (Vec::new(), Vec::new(), Runs::default());
        Sorter { order, budget, beside, batches, entries, held: 0, count: 0, runs }
    }

    /// How many records were added.
    pub(super) fn len(&self) -> u64 {
        self.count
    }

    /// Adds the records of a batch from the one at `from` on.
    pub(super) fn add(&mut self, batch: Rc<Batch>, from: usize) -> Result<()> {
        // A list that grows is there twice for a moment.
        let list = 2 * size_of::<Entry>() * batch.len();
        let held = (batch.memory() + list) as u64;
        if self.held + held > self.budget {
            self.spill()?;
        }
        self.held += held;
        let (number, before) = (self.batches.len(), self.entries.len());
        self.batches.push(Rc::clone(&batch));
        make_room(&mut self.entries, batch.len())?;
        let entries = batch.starts(from).map(|at| Entry::new(&self.batches, number, at));
        self.entries.extend(entries);
        self.count += (self.entries.len() - before) as u64;
        Ok(())
    }

    /// Writes what is in memory as a run, if there may be any.
    fn spill(&mut self) -> Result<()> {
        let Some(beside) = self.beside.as_ref().filter(|_| !self.entries.is_empty()) else {
            return Ok(());
        };
        sort(&mut self.entries, &self.batches, self.order);
        let records = self.entries.iter().map(|entry| Ok(entry.record(&self.batches)));
        self.runs.write(beside, records)?;
        self.batches.clear();
        self.entries.clear();
        self.held = 0;
        Ok(())
    }

    /// Makes longer runs of those there are until all can be read at once; what is in memory is one, too.
    fn merge(&mut self) -> Result<()> {
        self.spill()?;
        while let Some(beside) = self.beside.clone().filter(|_| !self.runs.fit(self.budget)) {
            let mut longer = Runs::default();
            for group in self.runs.groups(self.budget) {
                let merged = Merged::of(&self.runs, group, self.order, self.budget)?;
                longer.write(&beside, merged)?;
            }
            self.runs = longer;
        }
        Ok(())
    }

    /// All records, in order.
    pub(super) fn finish(mut self) -> Result<Sorted> {
        if !self.runs.fit(self.budget / 4) {
            self.merge()?;
        }
        let memory = if self.entries.is_empty() { self.budget } else { self.budget / 4 };
        sort(&mut self.entries, &self.batches, self.order);
        let (order, batches, entries) = (self.order, self.batches, self.entries.into_iter());
        let (runs, readers, ready) = (self.runs, Vec::new(), Vec::new());
        let (heads, next, replaced) = (BinaryHeap::new(), None, 0);
        let mut sorted =
            Sorted { order, batches, entries, ready, runs, readers, heads, next, replaced };
        if !sorted.runs.is_empty() {
            sorted.readers = sorted.runs.all_readers(memory);
            // What is in memory came last: it is one more run.
            (0..=sorted.readers.len()).try_for_each(|run| sorted.refill(run))?;
        }
        sorted.next = sorted.next_of_all()?;
        Ok(sorted)
    }
}

/// Some runs as one.
struct Merged<'r> {
    runs: &'r Runs,
    readers: Vec<Reader>,
    heads: BinaryHeap<Head>,
    order: Order,
}

impl<'r> Merged<'r> {
    fn of(runs: &'r Runs, some: Range<usize>, order: Order, memory: u64) -> Result<Merged<'r>> {
        let readers = runs.readers(some, memory);
        let mut merged = Merged { runs, readers, heads: BinaryHeap::new(), order };
        (0..merged.readers.len()).try_for_each(|run| merged.refill(run))?;
        Ok(merged)
    }

    fn refill(&mut self, run: usize) -> Result<()> {
        let (runs, order) = (self.runs, self.order);
        let next = self.readers.get_mut(run).map(|reader| reader.next(runs)).transpose()?;
        self.heads.extend(next.flatten().map(|record| Head { record, run, order }));
        Ok(())
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let Head { record, run, .. } = self.heads.pop()?;
        Some(self.refill(run).map(|()| record))
    }
}

/// Records in order. Of those of which only one counts, the last that came.
pub(super) struct Sorted {
    order: Order,
    batches: Vec<Rc<Batch>>,
    /// Those in memory.
    entries: std::vec::IntoIter<Entry>,
    /// The next of those, the first at the end.
    ready: Vec<Record>,
    runs: Runs,
    readers: Vec<Reader>,
    /// The next of each run.
    heads: BinaryHeap<Head>,
    next: Option<Record>,
    /// How many were left out.
    pub replaced: u64,
}

impl Sorted {
    fn next_in_memory(&mut self) -> Option<Record> {
        if self.ready.is_empty() {
            self.make_ready();
        }
        self.ready.pop()
    }

    /// Brings some records near: they are anywhere in memory, and together they wait for it once.
    fn make_ready(&mut self) {
        let places = self.entries.by_ref().take(READY).map(Entry::place);
        self.ready.extend(places.map(|(batch, at)| Record::new(&self.batches[batch], at)));
        let touch = |sum, record: &Record| sum ^ record.parts().1.last().copied().unwrap_or(0);
        std::hint::black_box(self.ready.iter().fold(0, touch));
        self.ready.reverse();
    }

    /// Brings in the next of a run.
    fn refill(&mut self, run: usize) -> Result<()> {
        let next = match self.readers.get_mut(run) {
            Some(reader) => reader.next(&self.runs)?,
            None => self.next_in_memory(),
        };
        let order = self.order;
        self.heads.extend(next.map(|record| Head { record, run, order }));
        Ok(())
    }

    /// The next, whether it counts or not.
    fn next_of_all(&mut self) -> Result<Option<Record>> {
        if self.runs.is_empty() {
            return Ok(self.next_in_memory());
        }
        let Some(Head { record, run, .. }) = self.heads.pop() else { return Ok(None) };
        self.refill(run)?;
        Ok(Some(record))
    }

    fn next_that_counts(&mut self) -> Result<Option<Record>> {
        while let Some(record) = self.next.take() {
            self.next = self.next_of_all()?;
            let is_one = |next: &Record| self.order.is_one(record.parts(), next.parts());
            if !self.next.as_ref().is_some_and(is_one) {
                return Ok(Some(record));
            }
            self.replaced += 1;
        }
        Ok(None)
    }
}

impl Iterator for Sorted {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        self.next_that_counts().transpose()
    }
}

/// The next record of a run.
struct Head {
    record: Record,
    /// Its number: what is in runs with lower ones came before.
    run: usize,
    order: Order,
}

impl Ord for Head {
    /// The highest of a heap is taken first.
    fn cmp(&self, other: &Head) -> Ordering {
        let places = self.order.places(self.record.parts(), other.record.parts());
        places.then(self.run.cmp(&other.run)).reverse()
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}
