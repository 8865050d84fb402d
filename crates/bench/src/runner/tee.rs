//! The operations of `mixed` as a file, so that they can be handed on, and done again on any store: as a trace,
//! or as a script of ups_bench.
//!
//! The first entries fill the store, as they do before the clock starts; then come the very steps that are
//! measured, those of several mixes one after the other, in a trace with the answers that the model has, and with
//! times: those of the rate, where one is asked for, and a microsecond apart, where operations only come one after
//! the other. Of a mix whose changes are synced each is a transaction, as only of a commit a file can say that it
//! waits for the disk.

mod script;

use super::open_loop::Rate;
use crate::workload::changes::{self, Model, Step};
use crate::workload::transactions::Transactions;
use crate::workload::{self, Inputs, Mix, Phase, Workload};
use clap::ValueEnum;
use credenza::Result;
use credenza::record::{Action, NewEntry, Writer};
use credenza::stats::{Operation, Outcome};
use std::path::Path;

/// What file `--tee` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A trace, with times and answers, of any keys and operations
    Trace,
    /// A script of upscaledb's ups_bench: text, of keys without blanks, quotes, commas and brackets, lengths
    /// in place of values, no times, and no scans of a part
    Script,
}

/// Nanoseconds between two operations that have no times of their own.
const APART: u64 = 1000;

/// What takes the operations, each with its time in nanoseconds.
trait Out {
    /// A transaction begins.
    fn begin(&mut self, time: u64) -> Result<()>;
    /// It ends, after so many operations, and is on the disk then, or not.
    fn commit(&mut self, time: u64, operations: usize, is_synced: bool) -> Result<()>;
    /// A record is put into the store, before the mix.
    fn fill(&mut self, time: u64, key: &[u8], value: &[u8]) -> Result<()>;
    /// A step of a mix with its key and value, in a store that is as the model says.
    fn step(&mut self, time: u64, step: (Step, &[u8], &[u8]), model: &Model<'_>) -> Result<()>;
}

/// Writes the file, which must not be there yet. One that could not be written to its end goes again.
pub(super) fn write(
    path: &Path,
    format: Format,
    inputs: &Inputs,
    workload: &Workload,
    rate: Option<&Rate>,
) -> Result<()> {
    let tell = |out: &mut dyn Out| tell(out, inputs, workload, rate);
    match format {
        Format::Trace => write_trace(path, tell),
        Format::Script => script::write(path, inputs.records.key_type(), tell),
    }
}

/// Tells all operations: those that fill the store, and those of the mixes up to the last that is asked for.
fn tell(
    out: &mut dyn Out,
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
    let mut time = 0;
    let is_in_one = |mix: &Mix| mix.transactions.and_then(Transactions::operations).is_some();
    let in_one = mixes.iter().next().is_some_and(is_in_one);
    if in_one {
        out.begin(time)?;
    }
    for (key, value) in records.iter() {
        out.fill(time, key, value)?;
        time += APART;
    }
    if in_one {
        out.commit(time, records.len(), false)?;
    }
    for (mix, script) in mixes.iter().zip(&scripts) {
        let starts = rate.map(|rate| rate.starts(script.len(), workload.seed)).unwrap_or_default();
        let start = |i: usize| starts.get(i).copied().unwrap_or(i as u64 * APART);
        time = tell_mix(out, mix, script, |i| time + APART + start(i), &mut model)?;
    }
    Ok(())
}

/// Tells all steps of a mix, which begin `at` these times; the time of the last.
fn tell_mix(
    out: &mut dyn Out,
    mix: &Mix,
    script: &changes::Script,
    at: impl Fn(usize) -> u64,
    model: &mut Model<'_>,
) -> Result<u64> {
    let together = mix.transactions.and_then(Transactions::operations);
    let (mut time, mut left) = (at(0), 0);
    for (i, (step, key, value)) in script.iter().enumerate() {
        time = at(i);
        let size = together.or((mix.sync && step.action.changes()).then_some(1));
        if let Some(size) = size.filter(|_| left == 0) {
            out.begin(time)?;
            left = size;
        }
        out.step(time, (step, key, value), model)?;
        model.apply(step);
        left = left.saturating_sub(1);
        if let Some(size) = size.filter(|_| left == 0 || i + 1 == script.len()) {
            out.commit(time, size - left, mix.sync)?;
        }
    }
    Ok(time)
}

fn write_trace(path: &Path, tell: impl FnOnce(&mut dyn Out) -> Result<()>) -> Result<()> {
    let mut writer = Writer::create(path, "mixed")?;
    let told = tell(&mut writer);
    let written = told.and_then(|()| writer.finish());
    if written.is_err() {
        // It was made here; that it stays is no further error.
        let _ = std::fs::remove_file(path);
    }
    written
}

/// A trace says in the end whether all was written.
impl Out for Writer {
    fn begin(&mut self, time: u64) -> Result<()> {
        let (action, outcome) = (Action::Begin, Outcome::Done);
        self.add(&NewEntry { time, action, outcome, key: None, value_len: 0, items: 0 });
        Ok(())
    }

    fn commit(&mut self, time: u64, operations: usize, is_synced: bool) -> Result<()> {
        let commit = if is_synced { Operation::CommitSync } else { Operation::Commit };
        let (action, outcome) = (Action::Operation(commit), Outcome::Done);
        let items = operations as u64;
        self.add(&NewEntry { time, action, outcome, key: None, value_len: 0, items });
        Ok(())
    }

    fn fill(&mut self, time: u64, key: &[u8], value: &[u8]) -> Result<()> {
        let (action, outcome) = (Action::Operation(Operation::Insert), Outcome::Done);
        let value_len = value.len() as u64;
        self.add(&NewEntry { time, action, outcome, key: Some(key), value_len, items: 0 });
        Ok(())
    }

    fn step(
        &mut self,
        time: u64,
        (step, key, value): (Step, &[u8], &[u8]),
        model: &Model<'_>,
    ) -> Result<()> {
        use workload::Action::{
            Add, Get, Insert, ReadModifyWrite, Remove, Scan, TableScan, Update,
        };
        let now = model.now(step.item as usize);
        let hit = if now.is_some() { Outcome::Hit } else { Outcome::Miss };
        let (operation, outcome, value_len) = match step.action {
            Get => (Operation::Get, hit, now.map_or(0, |value| value.len())),
            // Of several values a key there is no trace: the arguments say so.
            Insert | Update | Add => (Operation::Insert, Outcome::Done, value.len()),
            ReadModifyWrite => (Operation::Update, Outcome::Done, value.len()),
            Remove => (Operation::Remove, hit, 0),
            Scan | TableScan => (Operation::Scan, Outcome::Done, 0),
        };
        // Without a key it begins with the first record, and reads as many as there are.
        let (key, items) = match step.action {
            TableScan => (None, model.count()),
            _ => (Some(key), u64::from(step.scan_len)),
        };
        let (action, value_len) = (Action::Operation(operation), value_len as u64);
        self.add(&NewEntry { time, action, outcome, key, value_len, items });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::tests::mixes;
    use crate::workload::InsertOrder;

    /// What is told, in short.
    #[derive(Default)]
    struct Told {
        filled: Vec<Vec<u8>>,
        inserted: Vec<Vec<u8>>,
        steps: usize,
        begun: usize,
        /// Operations of each transaction.
        committed: Vec<usize>,
    }

    impl Out for Told {
        fn begin(&mut self, _: u64) -> Result<()> {
            self.begun += 1;
            Ok(())
        }

        fn commit(&mut self, _: u64, operations: usize, _: bool) -> Result<()> {
            self.committed.push(operations);
            Ok(())
        }

        fn fill(&mut self, _: u64, key: &[u8], _: &[u8]) -> Result<()> {
            self.filled.push(key.to_vec());
            Ok(())
        }

        fn step(
            &mut self,
            _: u64,
            (step, key, _): (Step, &[u8], &[u8]),
            _: &Model<'_>,
        ) -> Result<()> {
            self.steps += 1;
            if step.action == workload::Action::Insert {
                self.inserted.push(key.to_vec());
            }
            Ok(())
        }
    }

    fn told(tables: &str, insert_order: InsertOrder) -> Told {
        let found = Workload::find("tokens").unwrap();
        let (records, mixes) = (Some(30), mixes(tables));
        let workload = Workload { records, gets: 20, mixes, insert_order, ..found };
        let (inputs, _) = Inputs::prepare(&workload).unwrap();
        let mut told = Told::default();
        tell(&mut told, &inputs, &workload, None).unwrap();
        assert_eq!((told.begun, told.filled.len(), told.steps), (told.committed.len(), 30, 20));
        told
    }

    /// Danger: who replays a trace takes the last transaction for one of as many operations as the others.
    #[test]
    fn every_transaction_says_how_many_operations_it_has() {
        let committed = |transactions: &str| {
            told(&format!("[mix]\nget = 1\ntransactions = {transactions}"), InsertOrder::Given)
                .committed
        };
        assert_eq!(committed("8"), [30, 8, 8, 4]);
        assert_eq!(committed("10"), [30, 10, 10]);
        assert_eq!(committed("50"), [30, 20]);
        assert_eq!(committed("\"all\""), [30, 20]);
        assert_eq!(committed("\"tmp\""), [] as [usize; 0]);
    }

    #[test]
    fn keys_are_told_in_the_order_in_which_they_are_inserted() {
        let descends = |keys: &[Vec<u8>]| keys.windows(2).all(|pair| pair[0] > pair[1]);
        let table = "[mix]\ninsert = 3\nget = 1";
        let descending = told(table, InsertOrder::Descending);
        assert!(descends(&descending.filled) && descends(&descending.inserted));
        assert!(descending.inserted.len() > 8, "{}", descending.inserted.len());
        let given = told(table, InsertOrder::Given);
        assert!(!descends(&given.filled) && !descends(&given.inserted));
    }
}
