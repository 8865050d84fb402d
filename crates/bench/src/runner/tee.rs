//! The operations of `mixed` as a trace, so that they can be handed on, and done again on any store.
//!
//! The first entries fill the store, as they do before the clock starts; then come the very steps that are
//! measured, those of several mixes one after the other, with the answers that the model has. Times are those of the rate, where one is asked for,
//! and a microsecond apart, where operations only come one after the other.

use super::open_loop::Rate;
use crate::workload::changes::{Model, Script, Step};
use crate::workload::transactions::Transactions;
use crate::workload::{self, Inputs, Mix, Phase, Workload};
use credenza::Result;
use credenza::record::{Action, NewEntry, Writer};
use credenza::stats::{Operation, Outcome};
use std::path::Path;

/// Nanoseconds between two operations that have no times of their own.
const APART: u64 = 1000;

/// Writes the trace, which must not be there yet. One that could not be written to its end goes again.
pub(super) fn write(
    path: &Path,
    inputs: &Inputs,
    workload: &Workload,
    rate: Option<&Rate>,
) -> Result<()> {
    let writer = Writer::create(path, "mixed")?;
    let written = write_to(writer, inputs, workload, rate);
    if written.is_err() {
        // It was made here; that it stays is no further error.
        let _ = std::fs::remove_file(path);
    }
    written
}

fn write_to(
    writer: Writer,
    inputs: &Inputs,
    workload: &Workload,
    rate: Option<&Rate>,
) -> Result<()> {
    let Inputs { records, fresh, queries, .. } = inputs;
    let (mixes, gets) = (&workload.mixes, queries.hit.len());
    let is_asked = |phase: &Phase| workload.phases.as_ref().is_none_or(|all| all.contains(phase));
    let last = mixes.phases().filter(is_asked).last().unwrap_or(Phase::Mixed);
    let scripts = mixes.scripts(last, records, fresh, gets, workload.seed);
    let mut model = mixes.model(records, fresh);
    let mut trace = Trace { writer, time: 0 };
    let is_in_one = |mix: &Mix| mix.transactions.and_then(Transactions::operations).is_some();
    let in_one = mixes.iter().next().is_some_and(is_in_one);
    trace.begin(in_one);
    for (key, value) in records.iter() {
        trace.add(Operation::Insert, Outcome::Done, Some(key), value.len(), 0);
        trace.time += APART;
    }
    trace.commit(in_one.then_some(records.len()));
    for (mix, script) in mixes.iter().zip(&scripts) {
        let starts = rate.map(|rate| rate.starts(script.len(), workload.seed)).unwrap_or_default();
        trace.mix(mix, script, &starts, &mut model);
    }
    trace.writer.finish()
}

struct Trace {
    writer: Writer,
    time: u64,
}

impl Trace {
    /// All steps of a mix, at these times from now on, or a microsecond apart.
    fn mix(&mut self, mix: &Mix, script: &Script, starts: &[u64], model: &mut Model<'_>) {
        let size = mix.transactions.and_then(Transactions::operations);
        let (begin, mut left) = (self.time + APART, 0);
        for (i, (step, key, value)) in script.iter().enumerate() {
            self.time = begin + starts.get(i).copied().unwrap_or(i as u64 * APART);
            if let Some(size) = size.filter(|_| left == 0) {
                self.begin(true);
                left = size;
            }
            self.step(step, key, value, model);
            model.apply(step);
            left = left.saturating_sub(1);
            let done = size.map(|size| size.min(script.len()));
            self.commit(done.filter(|_| left == 0 || i + 1 == script.len()));
        }
    }

    fn add(
        &mut self,
        operation: Operation,
        outcome: Outcome,
        key: Option<&[u8]>,
        value_len: usize,
        items: usize,
    ) {
        let (value_len, items) = (value_len as u64, items as u64);
        let (time, action) = (self.time, Action::Operation(operation));
        self.writer.add(&NewEntry { time, action, outcome, key, value_len, items });
    }

    fn begin(&mut self, is_wanted: bool) {
        let (time, action, outcome) = (self.time, Action::Begin, Outcome::Done);
        if is_wanted {
            self.writer.add(&NewEntry { time, action, outcome, key: None, value_len: 0, items: 0 });
        }
    }

    /// Ends a transaction of so many operations, if there is one.
    fn commit(&mut self, operations: Option<usize>) {
        if let Some(operations) = operations {
            self.add(Operation::Commit, Outcome::Done, None, 0, operations);
        }
    }

    fn step(&mut self, step: &Step, key: &[u8], value: &[u8], model: &Model<'_>) {
        use workload::Action::{Add, Get, Insert, ReadModifyWrite, Remove, Scan, Update};
        let now = model.now(step.item as usize);
        let hit = if now.is_some() { Outcome::Hit } else { Outcome::Miss };
        let key = Some(key);
        match step.action {
            Get => self.add(Operation::Get, hit, key, now.map_or(0, |value| value.len()), 0),
            // Of several values a key there is no trace: the arguments say so.
            Insert | Update | Add => {
                self.add(Operation::Insert, Outcome::Done, key, value.len(), 0);
            }
            ReadModifyWrite => self.add(Operation::Update, Outcome::Done, key, value.len(), 0),
            Remove => self.add(Operation::Remove, hit, key, 0, 0),
            Scan => {
                self.add(Operation::Scan, Outcome::Done, key, 0, step.scan_len as usize);
            }
        }
    }
}
