//! What is done to a store while something happens to it: every operation, in order, with the value
//! that it stores.
//!
//! Invariant: every process that has the same [`Source`] makes the same plan of it, so that a number
//! says which operations were done.

use crate::driver::{Setup, Shape};
use crate::replay::script::{self, Do};
use crate::replay::unread;
use crate::settings::Chosen;
use crate::workload::changes::Script;
use crate::workload::transactions::Transactions;
use crate::workload::{Action, Inputs, Mix, Mixes, Records, Types};
use credenza::record::Trace;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where the operations come from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Source {
    /// The records of a workload are stored, and then the operations of its mixes are done, each of which says
    /// how many.
    Mixes { inputs: PathBuf, mixes: Mixes, seed: u64 },
    /// What a trace found there before it is stored, and then the first of its operations are done.
    Trace {
        #[serde(with = "crate::any_path")]
        trace: PathBuf,
        operations: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Get,
    Put,
    Remove,
    /// So many records, in order.
    Scan(u32),
    /// All records.
    TableScan,
    Begin,
    Commit,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) what: What,
    /// The number of its key.
    pub(super) key: u32,
    /// Where its value lies in the plan's bytes.
    value: (usize, u32),
}

impl Operation {
    /// One without key and value.
    pub(super) fn bare(what: What) -> Operation {
        Operation { what, key: 0, value: (0, 0) }
    }
}

/// All operations; the first of them fill the store.
#[derive(Default)]
pub(super) struct Plan {
    keys: Vec<Box<[u8]>>,
    /// What they are, and the values; a trace does not say it.
    pub(super) types: Types,
    bytes: Vec<u8>,
    pub(super) operations: Vec<Operation>,
    /// How many of them fill the store.
    pub(super) filling: usize,
}

impl Plan {
    pub(super) fn of(source: &Source) -> Result<Plan> {
        let plan = match source {
            Source::Mixes { inputs, mixes, seed } => {
                Plan::of_mixes(&Inputs::load(inputs)?, mixes, *seed)
            }
            Source::Trace { trace, operations } => {
                Plan::of_trace(&script::Script::of(&Trace::open(trace)?)?, *operations)
            }
        };
        if plan.changes(0, plan.operations.len()) == plan.changes(0, plan.filling) {
            let what = "behind those that fill the store there is no operation that changes anything: nothing \
                        could be lost; take what changes more, or more operations";
            return Err(match source {
                Source::Mixes { .. } => Error::invalid(what),
                Source::Trace { trace, .. } => unread::nothing(&Trace::open(trace)?, what),
            });
        }
        Ok(plan)
    }

    fn of_mixes(inputs: &Inputs, mixes: &Mixes, seed: u64) -> Plan {
        let keys = [&inputs.records, &inputs.fresh].into_iter().flat_map(keys_of).collect();
        let types = Types { keys: inputs.records.key_type(), values: inputs.records.value_type() };
        let mut plan = Plan { keys, types, ..Plan::default() };
        for (key, (_, value)) in (0..).zip(inputs.records.iter()) {
            plan.push(What::Put, key, value);
        }
        plan.filling = plan.operations.len();
        let Inputs { records, fresh, .. } = inputs;
        // Each says how many operations it has.
        let scripts = mixes.scripts(mixes.last(), records, fresh, 0, seed);
        for (mix, script) in mixes.iter().zip(&scripts) {
            plan.add_mix(mix, script);
        }
        plan
    }

    fn add_mix(&mut self, mix: &Mix, script: &Script) {
        let together = mix.transactions.and_then(Transactions::operations);
        for (i, (step, _, value)) in script.iter().enumerate() {
            if together.is_some_and(|together| i % together == 0) {
                self.push(What::Begin, 0, &[]);
            }
            match step.action {
                Action::Get => self.push(What::Get, step.item, &[]),
                Action::Insert | Action::Update | Action::Add => {
                    self.push(What::Put, step.item, value)
                }
                Action::Remove => self.push(What::Remove, step.item, &[]),
                Action::Scan => self.push(What::Scan(step.scan_len), step.item, &[]),
                Action::TableScan => self.push(What::TableScan, 0, &[]),
                Action::ReadModifyWrite => {
                    self.push(What::Get, step.item, &[]);
                    self.push(What::Put, step.item, value);
                }
            }
            let is_last = i + 1 == script.len();
            if together.is_some_and(|together| is_last || (i + 1) % together == 0) {
                self.push(What::Commit, 0, &[]);
            }
        }
    }

    fn of_trace(script: &script::Script, operations: usize) -> Plan {
        let mut plan = Plan { keys: script.keys.clone(), ..Plan::default() };
        for (key, len) in &script.before {
            plan.put_made_up(*key, *len);
        }
        // What it loads first fills the store, if there is anything behind that could be lost.
        let is_change = |step: &script::Step| step.what.is_change();
        let loads = script.loads();
        let loads = if script.steps[loads..].iter().any(is_change) { loads } else { 0 };
        let (loads, steps) = script.steps.split_at(loads);
        for step in loads.iter().filter(|step| step.what == Do::Insert) {
            plan.put_made_up(step.key.unwrap_or_default(), step.value_len);
        }
        plan.filling = plan.operations.len();
        let mut is_open = false;
        for step in steps.iter().take(operations) {
            let key = step.key.unwrap_or_default();
            match step.what {
                Do::Get => plan.push(What::Get, key, &[]),
                Do::GetMany { first } => {
                    let batch = script.batches.get(first..first + step.items as usize);
                    batch.unwrap_or_default().iter().for_each(|(key, _)| {
                        plan.push(What::Get, *key, &[]);
                    });
                }
                Do::Seek => plan.push(What::Scan(1), key, &[]),
                Do::Scan => plan.push(What::Scan(step.items), key, &[]),
                Do::Insert => plan.put_made_up(key, step.value_len),
                Do::Update => {
                    plan.push(What::Get, key, &[]);
                    plan.put_made_up(key, step.value_len);
                }
                Do::Remove => plan.push(What::Remove, key, &[]),
                Do::Begin => plan.push(What::Begin, 0, &[]),
                Do::Commit => plan.push(What::Commit, 0, &[]),
                Do::FullCheck => plan.push(What::TableScan, 0, &[]),
                // The faults are in their place.
                Do::Sync | Do::Reopen => {}
            }
            is_open = step.what == Do::Begin || is_open && step.what != Do::Commit;
        }
        if is_open {
            plan.push(What::Commit, 0, &[]);
        }
        plan
    }

    fn push(&mut self, what: What, key: u32, value: &[u8]) {
        let place = (self.bytes.len(), value.len() as u32);
        self.bytes.extend_from_slice(value);
        self.operations.push(Operation { what, key, value: place });
    }

    /// A trace has no values: one that tells which operation it is of.
    fn put_made_up(&mut self, key: u32, len: u32) {
        let number = (self.operations.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let value: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(len as usize).collect();
        self.push(What::Put, key, &value);
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &key[..])
    }

    pub(super) fn key(&self, operation: &Operation) -> &[u8] {
        self.keys.get(operation.key as usize).map_or(&[], |key| &key[..])
    }

    pub(super) fn value(&self, operation: &Operation) -> &[u8] {
        let (from, len) = operation.value;
        &self.bytes[from..from + len as usize]
    }

    /// Changes among these operations.
    pub(super) fn changes(&self, from: usize, to: usize) -> u64 {
        let is_change = |o: &&Operation| matches!(o.what, What::Put | What::Remove);
        self.operations[from..to].iter().filter(is_change).count() as u64
    }

    /// What a user who tunes a store would know of the data.
    pub(super) fn shape(&self) -> Shape {
        let lens = || {
            let puts = self.operations.iter().filter(|o| o.what == What::Put);
            puts.map(|o| u64::from(o.value.1))
        };
        let longest = lens().max().unwrap_or(0);
        let (puts, bytes) = (lens().count() as u64, lens().sum::<u64>());
        let records = self.keys.len() as u64;
        let Types { keys, values } = self.types;
        Shape {
            records,
            keys,
            values,
            key_bytes: self.keys().map(|key| key.len() as u64).sum(),
            value_bytes: bytes / puts.max(1) * records,
            longest_value: longest as usize,
            fixed_key: keys.width(),
            fixed_value: values.width(),
            is_sorted: false,
            setup: Setup::Tuned,
            duplicates: None,
            settings: Chosen::default(),
        }
    }
}

fn keys_of(records: &Records) -> impl Iterator<Item = Box<[u8]>> {
    records.iter().map(|(key, _)| key.into())
}

#[cfg(test)]
impl Plan {
    /// So many keys, of one byte each, and these operations: a value, or none for a removal.
    pub(super) fn of_changes(keys: u8, changes: &[(What, u32, &[u8])]) -> Plan {
        let keys = (0..keys).map(|key| [key].into()).collect();
        let mut plan = Plan { keys, ..Plan::default() };
        changes.iter().for_each(|(what, key, value)| plan.push(*what, *key, value));
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trace_loads_first_fills_the_store_if_something_changes_afterwards() {
        let step = |(what, key)| script::Step {
            time: 0,
            what,
            key,
            value_len: 3,
            items: 0,
            was_there: None,
        };
        let load = [(Do::Begin, None), (Do::Insert, Some(0)), (Do::Commit, None)];
        for (behind, filling, operations) in [(Do::Remove, 1, 2), (Do::Get, 0, 4)] {
            let steps = load.into_iter().chain([(behind, Some(0))]).map(step).collect();
            let script = script::Script { steps, keys: vec![[7].into()], ..Default::default() };
            let plan = Plan::of_trace(&script, 9);
            assert_eq!((plan.filling, plan.operations.len()), (filling, operations), "{behind:?}");
        }
    }
}
