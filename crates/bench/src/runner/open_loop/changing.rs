//! Changes at a rate, of one or of one of several: the steps of a mix, and insertions of which each is
//! on the disk when its call has returned.
//!
//! A transaction of several operations begins after its first one was to start, and what its commit takes
//! is in the latency of the operation that ends it: who asked for that one waits for the commit.
//!
//! Invariant: what a store answers and holds is compared as after a run as fast as can be.

use super::super::changes::{Insert, Outcome, Work};
use super::super::child::Round;
use super::super::mixed::{self, Grouping, Mixed, Steps, do_step};
use super::super::protocol::{Sample, Spec};
use super::{AtRate, Pace, Rate, Share, Time};
use crate::driver::{Driver, Writer};
use crate::measure::Latencies;
use crate::workload::{Action, Phase, Records};
use credenza::Result;
use std::collections::BTreeMap;

impl<D: Driver> Round<'_, D> {
    /// Does the steps at a rate, on a store of their own.
    pub(in super::super) fn mixed_at_rate(
        &self,
        phase: Phase,
        rate: &Rate,
        work: &Mixed<'_>,
    ) -> Result<AtRate> {
        let mut store = self.new_store(phase, true)?;
        let &Spec { seed, clock_ns, .. } = self.spec;
        let starts = rate.starts(work.operations(), seed);
        let paced = Paced { steps: work.steps, starts, of: 1, clock_ns };
        let done = paced.run(&mut store, || Ok(()))?;
        self.compared(phase, store, work, done)
    }

    /// Stores the first of these records at a rate, each brought to the disk, in a new store.
    pub(in super::super) fn inserts_at_rate(
        &self,
        rate: &Rate,
        shuffled: &Records,
    ) -> Result<AtRate> {
        let records = &shuffled.first(rate.changes(shuffled.len(), 1))?;
        let mut store = self.new_store(Phase::InsertSync, false)?;
        let &Spec { seed, clock_ns, .. } = self.spec;
        let inserts = Inserts { rate, share: Share::ALL, records, seed, clock_ns };
        let done = inserts.run(&mut store, || Ok(()))?;
        self.compared(Phase::InsertSync, store, &Insert { records, order: records }, done)
    }

    /// Compares what a store holds that this was done to.
    fn compared<W: Work>(
        &self,
        phase: Phase,
        store: D::Writer<'_>,
        work: &W,
        done: AtRate,
    ) -> Result<AtRate> {
        let mut checked = Sample::new(phase, work.operations());
        self.finish(store, work, work.content(), &mut checked)?;
        let wrong = checked.wrong.map(|what| format!("at a rate, {what}"));
        Ok(AtRate { wrong: done.wrong.or(wrong), ..done })
    }
}

/// Steps of a mix at a rate: of one, or of one of several.
pub(in super::super) struct Paced<'a> {
    pub(in super::super) steps: Steps<'a>,
    /// When each of them is to start.
    pub(in super::super) starts: Vec<u64>,
    /// Of so many who do it together.
    pub(in super::super) of: usize,
    pub(in super::super) clock_ns: f64,
}

impl Paced<'_> {
    /// Does them, when all is prepared and `ready` has returned.
    pub(in super::super) fn run<W: Writer>(
        self,
        store: &mut W,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<AtRate> {
        let mut pace = Pace::by_clock(self.starts, self.clock_ns, self.of);
        ready()?;
        do_paced(store, self.steps, &mut pace)
    }
}

/// Does all steps, each when it is to start.
fn do_paced<W: Writer, T: Time>(
    store: &mut W,
    steps: Steps<'_>,
    pace: &mut Pace<T>,
) -> Result<AtRate> {
    let Steps { script, transactions, .. } = steps;
    let (mut outcome, mut all) = (Outcome::default(), Latencies::new(0.0));
    let mut of_kinds: BTreeMap<&str, Latencies> = BTreeMap::new();
    let mut grouping = Grouping::new(transactions);
    pace.begin();
    for (i, step) in script.iter().enumerate() {
        pace.wait(i);
        grouping.before(store)?;
        do_step(store, step, &mut outcome)?;
        grouping.after(store)?;
        if i + 1 == script.len() {
            grouping.end(store)?;
        }
        let ns = pace.since(i);
        all.record(ns);
        let name = step.0.action.name();
        of_kinds.entry(name).or_insert_with(|| Latencies::new(0.0)).record(ns);
    }
    let ended = pace.end();
    let over_time = pace.over_time(script.iter().map(|(step, ..)| step.action.name()));
    let wrong = steps.unlike(outcome, "at a rate, ");
    let (latencies, operation_latencies) = (all.counts(), mixed::counts(of_kinds));
    Ok(AtRate { latencies, operation_latencies, over_time, wrong, ..ended })
}

/// Insertions at a rate into a store that brings each to the disk: of one, or of one of several.
pub(in super::super) struct Inserts<'a> {
    pub(in super::super) rate: &'a Rate,
    pub(in super::super) share: Share,
    /// Those of all, in the order in which they are stored.
    pub(in super::super) records: &'a Records,
    pub(in super::super) seed: u64,
    pub(in super::super) clock_ns: f64,
}

impl Inserts<'_> {
    /// Stores one's share, when all is prepared and `ready` has returned.
    pub(in super::super) fn run<W: Writer>(
        &self,
        store: &mut W,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<AtRate> {
        let &Inserts { rate, share, records, seed, clock_ns } = self;
        let mut pace = Pace::new(rate, share, records.len(), seed, clock_ns);
        ready()?;
        self.insert(store, &mut pace)
    }

    fn insert<W: Writer, T: Time>(&self, store: &mut W, pace: &mut Pace<T>) -> Result<AtRate> {
        let mut latencies = Latencies::new(0.0);
        pace.begin();
        for (i, (key, value)) in self.share.take(self.records.iter()).enumerate() {
            pace.wait(i);
            store.insert(key, value)?;
            latencies.record(pace.since(i));
        }
        let ended = pace.end();
        let over_time = pace.over_time(std::iter::repeat(Action::Insert.name()));
        Ok(AtRate { latencies: latencies.counts(), over_time, ..ended })
    }
}

#[cfg(test)]
mod tests;
