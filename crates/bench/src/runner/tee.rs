//! The operations of `mixed` as a trace, so that they can be handed on, and done again on any store.
//!
//! The first entries fill the store, as they do before the clock starts; then come the very steps that are
//! measured, with the answers that the model has. Times are those of the rate, where one is asked for,
//! and a microsecond apart, where operations only come one after the other.

use super::open_loop::Rate;
use crate::workload::changes::{Model, Script, Step};
use crate::workload::transactions::Transactions;
use crate::workload::{self, Inputs, Workload};
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
    let mix = &workload.mix;
    let script = Script::draw(records, fresh, mix, queries.hit.len(), workload.seed);
    let mut model = Model::of(records, fresh, mix);
    let mut trace = Trace { writer, time: 0 };
    let size = mix.transactions.and_then(Transactions::operations);
    trace.begin(size.is_some());
    for (key, value) in records.iter() {
        trace.add(Operation::Insert, Outcome::Done, Some(key), value.len(), 0);
        trace.time += APART;
    }
    trace.commit(size.map(|_| records.len()));
    let filled = trace.time + APART;
    let starts = rate.map(|rate| rate.starts(script.len(), workload.seed)).unwrap_or_default();
    let mut left = 0;
    for (i, (step, key, value)) in script.iter().enumerate() {
        trace.time = filled + starts.get(i).copied().unwrap_or(i as u64 * APART);
        if let Some(size) = size.filter(|_| left == 0) {
            trace.begin(true);
            left = size;
        }
        trace.step(step, key, value, &model);
        model.apply(step);
        left = left.saturating_sub(1);
        let done = size.map(|size| size.min(script.len()));
        trace.commit(done.filter(|_| left == 0 || i + 1 == script.len()));
    }
    trace.writer.finish()
}

struct Trace {
    writer: Writer,
    time: u64,
}

impl Trace {
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
