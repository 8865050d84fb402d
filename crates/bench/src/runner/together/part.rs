//! What one of several at one store does: a process with its own handle, or a thread with one that was
//! made for it.
//!
//! A reader compares every answer before the start, and once more after its clock has stopped where
//! a writer works beside it. There it looks at the store anew before every pass, while its clock
//! stands, so that a store of snapshots sees what was written. Each value must then be one of the two
//! that the writer stores: both have the same length, and no byte of them is the same.

use super::super::child::Round;
use super::super::open_loop::Share;
use super::super::open_loop::reading::{self, Asked};
use super::super::passes::{self, Checker, Total};
use super::super::protocol::Spec;
use super::{Coordinator, Done, Part, Word};
use crate::driver::{Driver, Store, Writer};
use crate::rng::Rng;
use crate::workload::generate::stream;
use crate::workload::{Inputs, Phase, Queries, Records};
use credenza::{Error, Result};
use std::time::{Duration, Instant};

/// A reader's clock runs over so many passes at least, and so long; shorter where the program is
/// built for debugging, and only tested.
const PASSES: usize = 3;
const TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 20 } else { 300 });
/// No further pass is timed when the ones before took so long.
const PASSES_TIME: Duration = Duration::from_secs(3);
/// After so many changes the writer looks whether it is to stop.
const CHANGES: usize = 64;

impl<D: Driver> Round<'_, D> {
    /// Does the part of a process, and says how it ended.
    pub(in super::super) fn part(&self, to: &mut impl Coordinator) -> Result<()> {
        let done = match self.spec.together.part {
            Some(Part::Reader(phase, is_beside, share)) => self.reader(phase, is_beside, share, to),
            Some(Part::Writer) => self.writer(to),
            Some(Part::Changer(group, run, number)) => self.changer(group, run, number, to),
            Some(Part::Threads(group)) => match match group.phase.is_changing() {
                true => self.changers(group),
                false => self.threads(group),
            } {
                Ok(measured) => return to.say(Word::Measured(Box::new(measured))),
                Err(e) => Err(e),
            },
            None => Err(Error::invalid("this process has no part")),
        };
        to.end(done)
    }

    fn reader(
        &self,
        phase: Phase,
        beside: bool,
        share: Share,
        to: &mut impl Coordinator,
    ) -> Result<Done> {
        let work = Reads::new(phase, self.spec, self.inputs, beside);
        let mut store = match beside {
            true => self.driver.open_beside(&self.path, &self.shape)?,
            false => self.driver.open_shared(&self.path, &self.shape)?,
        };
        work.until_told(&mut store, share, to)
    }

    fn writer(&self, to: &mut impl Coordinator) -> Result<Done> {
        let work = Writes { records: &self.inputs.records, seed: self.spec.seed };
        let mut store = self.driver.open_to_change(&self.path, &self.shape)?;
        let done = work.until_told(&mut store, to)?;
        store.close()?;
        Ok(done)
    }
}

/// The lookups of a reader.
pub(super) struct Reads<'a> {
    phase: Phase,
    spec: &'a Spec,
    queries: &'a Queries,
    records: &'a Records,
    expected: Total,
    /// Beside a writer, the other values that are right, too.
    others: Option<Records>,
}

impl<'a> Reads<'a> {
    pub(super) fn new(
        phase: Phase,
        spec: &'a Spec,
        inputs: &'a Inputs,
        is_beside: bool,
    ) -> Reads<'a> {
        let (records, queries) = (&inputs.records, inputs.queries.of(phase));
        let expected = Total::expected(queries, records);
        let others = is_beside.then(|| records.with_other_values());
        Reads { phase, spec, queries, records, expected, others }
    }

    /// Compares all answers, waits to be told to go, and reads until it is told to stop; then, if that is
    /// asked for, does a share of lookups at a rate in the same way.
    pub(super) fn until_told<S: Store>(
        &self,
        store: &mut S,
        share: Share,
        to: &mut impl Coordinator,
    ) -> Result<Done> {
        let (beside, expected) = (self.others.is_some(), self.expected);
        let mut wrong = self.check(store)?;
        let before = self.pass(store)?;
        wrong = wrong.or_else(|| self.unlike(before, "the pass before the timed ones"));
        to.ready()?;
        let lookups = self.queries.len() as u64;
        let mut done = Done { lookups, found: expected.found, ..Done::default() };
        let (mut passes, mut spent) = (0, Duration::ZERO);
        loop {
            let is_timed = (passes < PASSES || spent < TIME) && spent < PASSES_TIME;
            if !is_timed && to.has_spoken()? {
                break;
            }
            if beside {
                store.refresh()?;
            }
            let start = Instant::now();
            let total = self.pass(store)?;
            if is_timed {
                spent += start.elapsed();
                done.ops += lookups;
            }
            wrong = wrong.or_else(|| self.unlike(total, "a timed pass"));
            passes += 1;
            let is_last = passes >= PASSES && spent >= TIME || spent >= PASSES_TIME;
            if is_timed && is_last {
                to.say(Word::Enough)?;
            }
        }
        to.wait()?;
        if beside {
            store.refresh()?;
            wrong = wrong.or(self.check(store)?);
        }
        if let Some(rate) = self.spec.rate_of(self.phase) {
            let &Reads { queries, records, spec: &Spec { seed, clock_ns, batch, .. }, .. } = self;
            let asked = Asked::of(self.phase, queries, batch);
            let work = reading::Reads { rate, share, asked, records, seed, clock_ns, beside };
            done.at_rate = Some(work.run(store, || to.ready())?);
        }
        Ok(Done { seconds: spent.as_secs_f64(), wrong, ..done })
    }

    fn pass<S: Store>(&self, store: &mut S) -> Result<Total> {
        passes::lookups(self.phase, store, self.queries, self.spec.batch)
    }

    /// What is wrong with what a pass adds up to, in words. Beside a writer other values are right, too.
    fn unlike(&self, total: Total, what: &str) -> Option<String> {
        let is_right = self.others.is_some() && total.found == self.expected.found;
        total.unlike(self.expected, what).filter(|_| !is_right)
    }

    /// Compares every answer; returns the first wrong one, in words.
    fn check<S: Store>(&self, store: &mut S) -> Result<Option<String>> {
        let mut checker = Checker::new(self.queries, self.records);
        checker.others = self.others.as_ref();
        checker.lookups(self.phase, store, self.spec.batch)?;
        Ok(checker.wrong)
    }
}

/// The changes of a writer.
pub(super) struct Writes<'a> {
    pub(super) records: &'a Records,
    pub(super) seed: u64,
}

impl Writes<'_> {
    /// Stores the other of two values for random records, on the clock until it is told that those of the readers
    /// have stopped, and then until it is told to stop; then every record must have the value that was stored last.
    pub(super) fn until_told<W: Writer>(
        &self,
        store: &mut W,
        to: &mut impl Coordinator,
    ) -> Result<Done> {
        let records = self.records;
        let others = records.with_other_values();
        let value = |i: usize, has_other: bool| {
            if has_other { others.get(i).1 } else { records.get(i).1 }
        };
        let (mut wrong, mut has_other) = (None, Vec::with_capacity(records.len()));
        for (i, (key, other)) in others.iter().enumerate() {
            // An earlier writer has left either.
            let mut is_other = false;
            store.get(key, |got| is_other = got == other)?;
            has_other.push(is_other);
            wrong = wrong.or(passes::wrong_answer(store, key, Some(value(i, is_other)))?);
        }
        to.ready()?;
        let mut random = Rng::new(self.seed, stream::BESIDE);
        let mut change = || -> Result<()> {
            for _ in 0..CHANGES {
                let i = random.index(records.len());
                has_other[i] = !has_other[i];
                store.insert(records.key(i), value(i, has_other[i]))?;
            }
            Ok(())
        };
        let (start, mut done) = (Instant::now(), Done::default());
        while done.ops == 0 || !to.has_spoken()? {
            change()?;
            done.ops += CHANGES as u64;
        }
        done.seconds = start.elapsed().as_secs_f64();
        to.wait()?;
        // What readers do after their clocks have stopped takes less from the writer, at a rate much less.
        while !to.has_spoken()? {
            change()?;
        }
        to.wait()?;
        for (i, is_other) in has_other.iter().enumerate() {
            let expected = Some(value(i, *is_other));
            wrong = wrong.or(passes::wrong_answer(store, records.key(i), expected)?);
        }
        Ok(Done { wrong, ..done })
    }
}
