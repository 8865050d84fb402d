//! What one of several processes at one store does.
//!
//! A reader compares every answer before the start, and once more after its clock has stopped where
//! a writer works beside it. It opens the store anew for every pass beside a writer, while its clock
//! stands, so that a store of snapshots sees what was written. Each value must then be one of the two
//! that the writer stores: both have the same length, and no byte of them is the same.

use super::super::child::Round;
use super::super::passes::{self, Checker, Total};
use super::{Done, Part, Word};
use crate::driver::{Driver, Reading, Store, Writer, kernel};
use crate::rng::Rng;
use crate::workload::generate::stream;
use crate::workload::{Phase, Queries, Records};
use credenza::{Error, Result};
use std::io::Write;
use std::time::{Duration, Instant};

/// A reader's clock runs over so many passes at least, and so long; shorter where the program is
/// built for debugging, and only tested.
const PASSES: usize = 3;
const TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 20 } else { 300 });
/// No further pass is timed when the ones before took so long.
const PASSES_TIME: Duration = Duration::from_secs(3);
/// After so many changes the writer looks whether it is to stop.
const CHANGES: usize = 64;

/// The way to the process that started this one.
pub(in super::super) trait Coordinator {
    fn say(&mut self, word: &Word) -> Result<()>;
    /// Waits until it says something.
    fn wait(&mut self) -> Result<()>;
    /// Whether it has said something.
    fn has_spoken(&mut self) -> Result<bool>;

    fn failed(&mut self, why: &Error) -> Result<()> {
        self.say(&Word::Failed(why.to_string()))
    }
}

/// Standard input and output.
pub(in super::super) struct Pipes;

impl Coordinator for Pipes {
    fn say(&mut self, word: &Word) -> Result<()> {
        let line = serde_json::to_string(word).map_err(|e| Error::invalid(e.to_string()))?;
        writeln!(std::io::stdout(), "{line}").map_err(|e| Error::io("write to the parent", e))
    }

    fn wait(&mut self) -> Result<()> {
        let read = std::io::stdin().read_line(&mut String::new());
        match read.map_err(|e| Error::io("read input", e))? {
            0 => Err(Error::invalid("the process that started this one is gone")),
            _ => Ok(()),
        }
    }

    fn has_spoken(&mut self) -> Result<bool> {
        kernel::has_input()
    }
}

impl<D: Driver> Round<'_, D> {
    /// Does its part, and says how it ended.
    pub(in super::super) fn part(&self, to: &mut impl Coordinator) -> Result<()> {
        let done = match self.spec.together.part {
            Some(Part::Reader(phase, is_beside)) => self.reader(phase, is_beside, to),
            Some(Part::Writer) => self.writer(to),
            None => Err(Error::invalid("this process has no part")),
        };
        match done {
            Ok(done) => to.say(&Word::Done(done)),
            Err(e) => to.failed(&e),
        }
    }

    fn reader(&self, phase: Phase, beside: bool, to: &mut impl Coordinator) -> Result<Done> {
        let (records, sets) = (&self.inputs.records, &self.inputs.queries);
        let queries = match phase {
            Phase::Get90 => &sets.most,
            Phase::GetMiss | Phase::GetManyMiss => &sets.miss,
            _ => &sets.hit,
        };
        let others = beside.then(|| records.with_other_values());
        let work = Reads { phase, batch: self.spec.batch, queries, records, others };
        let open = || self.driver.open(&self.path, &self.shape, Reading::Warm);
        let expected = Total::expected(queries, records);
        let mut store = open()?;
        let mut wrong = work.check(&mut store)?;
        work.pass(&mut store)?;
        to.say(&Word::Ready)?;
        to.wait()?;
        let mut done =
            Done { lookups: queries.len() as u64, found: expected.found, ..Done::default() };
        let (mut passes, mut spent) = (0, Duration::ZERO);
        loop {
            let is_timed = (passes < PASSES || spent < TIME) && spent < PASSES_TIME;
            if !is_timed && to.has_spoken()? {
                break;
            }
            if beside {
                store = open()?;
            }
            let start = Instant::now();
            let total = work.pass(&mut store)?;
            if is_timed {
                spent += start.elapsed();
                done.ops += queries.len() as u64;
            }
            let is_right = if beside { total.found == expected.found } else { total == expected };
            if !is_right && wrong.is_none() {
                wrong = Some(format!("a timed pass adds up to {total:?}, not {expected:?}"));
            }
            passes += 1;
            let is_last = passes >= PASSES && spent >= TIME || spent >= PASSES_TIME;
            if is_timed && is_last {
                to.say(&Word::Enough)?;
            }
        }
        to.wait()?;
        if beside {
            wrong = wrong.or(work.check(&mut open()?)?);
        }
        Ok(Done { seconds: spent.as_secs_f64(), wrong, ..done })
    }

    /// Stores the other of two values for random records until it is told to stop; then every record
    /// must have the value that was stored last.
    fn writer(&self, to: &mut impl Coordinator) -> Result<Done> {
        let records = &self.inputs.records;
        let others = records.with_other_values();
        let value = |i: usize, has_other: bool| {
            if has_other { others.get(i).1 } else { records.get(i).1 }
        };
        let mut store = self.driver.open_to_change(&self.path, &self.shape)?;
        let (mut wrong, mut has_other) = (None, Vec::with_capacity(records.len()));
        for (i, (key, other)) in others.iter().enumerate() {
            // An earlier writer has left either.
            let mut is_other = false;
            store.get(key, |got| is_other = got == other)?;
            has_other.push(is_other);
            wrong = wrong.or(passes::wrong_answer(&mut store, key, Some(value(i, is_other)))?);
        }
        to.say(&Word::Ready)?;
        to.wait()?;
        let mut random = Rng::new(self.spec.seed, stream::BESIDE);
        let (start, mut done) = (Instant::now(), Done::default());
        loop {
            for _ in 0..CHANGES {
                let i = random.index(records.len());
                has_other[i] = !has_other[i];
                store.insert(records.key(i), value(i, has_other[i]))?;
            }
            done.ops += CHANGES as u64;
            if to.has_spoken()? {
                break;
            }
        }
        done.seconds = start.elapsed().as_secs_f64();
        to.wait()?;
        for (i, is_other) in has_other.iter().enumerate() {
            let expected = Some(value(i, *is_other));
            wrong = wrong.or(passes::wrong_answer(&mut store, records.key(i), expected)?);
        }
        store.close()?;
        Ok(Done { wrong, ..done })
    }
}

/// The lookups of a reader.
struct Reads<'a> {
    phase: Phase,
    batch: usize,
    queries: &'a Queries,
    records: &'a Records,
    /// The other values that are right, too.
    others: Option<Records>,
}

impl Reads<'_> {
    fn pass<S: Store>(&self, store: &mut S) -> Result<Total> {
        match self.phase {
            Phase::GetChain => passes::get_chain(store, self.queries),
            phase if phase.is_batched() => passes::get_many(store, self.queries, self.batch),
            _ => passes::get(store, self.queries),
        }
    }

    /// Compares every answer; returns the first wrong one, in words.
    fn check<S: Store>(&self, store: &mut S) -> Result<Option<String>> {
        let mut checker = Checker::new(self.queries, self.records);
        checker.others = self.others.as_ref();
        if self.phase.is_batched() {
            checker.get_many(store, self.batch)?;
        } else {
            checker.get(store)?;
        }
        Ok(checker.wrong)
    }
}
