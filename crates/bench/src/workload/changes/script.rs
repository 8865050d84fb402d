//! The steps of a mix, as the loops that are timed take them.
//!
//! Invariant: the keys of a script lie one after the other in its order, as those of queries do, and so do
//! the values that it stores, apart from them: taking the next step costs no cache miss of its own. With
//! values of 1,000 bytes between them, each key was one.
//!
//! A loop reads of each step its key and sixteen bytes, and asks for the keys to come: a script is
//! longer than the caches, and what only a model looks at, 12 bytes more a step, came from memory with the rest.

use super::{Held, Model};
use crate::driver::ahead;
use crate::rng::Rng;
use crate::workload::generate::stream;
use crate::workload::mix::{Action, Mix};
#[cfg(test)]
use crate::workload::records::Records;
use crate::workload::wide::Wide;

/// One step. What is about an item is about the record of this number: those of the data first, then
/// the inserted ones. What is about all records has no key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) action: Action,
    pub(crate) item: u32,
    /// What the step stores, if it stores a value.
    pub(crate) stored: Held,
    /// Records of a scan.
    pub(crate) scan_len: u32,
}

/// What a loop that is timed takes of a step.
struct Call {
    action: Action,
    scan_len: u32,
    key_len: u32,
    value_len: u32,
}

/// What a model wants of it.
struct About {
    item: u32,
    stored: Held,
}

/// Steps over a store that holds all records.
#[derive(Default)]
pub(crate) struct Script {
    keys: Wide,
    values: Vec<u8>,
    calls: Vec<Call>,
    about: Vec<About>,
}

/// A script of which more steps come.
#[derive(Default)]
pub(super) struct Draft {
    keys: Vec<u8>,
    script: Script,
}

impl Draft {
    pub(super) fn push(&mut self, step: Step, key: &[u8], value: &[u8]) {
        let Step { action, item, stored, scan_len } = step;
        let (key_len, value_len) = (key.len() as u32, value.len() as u32);
        self.keys.extend_from_slice(key);
        self.script.values.extend_from_slice(value);
        self.script.calls.push(Call { action, scan_len, key_len, value_len });
        self.script.about.push(About { item, stored });
    }

    pub(super) fn finish(self) -> Script {
        Script { keys: self.keys.into(), ..self.script }
    }
}

impl Script {
    /// `count` steps; `fresh` has the keys that are inserted, in this order. A value that is stored
    /// is that of a random record, so that lengths are those of the data, and never the one that
    /// the key has already, but for empty ones.
    #[cfg(test)]
    pub(crate) fn draw(
        records: &Records,
        fresh: &Records,
        mix: &Mix,
        count: usize,
        seed: u64,
    ) -> Script {
        Script::draw_on(&mut Model::new(records, fresh, false, mix.duplicates), mix, 0, count, seed)
    }

    /// The same for a store that holds what the model says, which goes on to what the steps leave; `number`
    /// is the mix's own among several.
    pub(in crate::workload) fn draw_on(
        model: &mut Model<'_>,
        mix: &Mix,
        number: usize,
        count: usize,
        seed: u64,
    ) -> Script {
        let mut rng = Rng::new(seed, stream::of_mix(stream::NEW_VALUES, number));
        let records = model.records;
        let mut draft = Draft::default();
        let mut stored = 0;
        for draw in mix.draws(records, model.had, number, seed).take(count) {
            if mix.stop.bytes.is_some_and(|bytes| stored >= bytes) {
                break;
            }
            let is_of_all = draw.action == Action::TableScan;
            let key = if is_of_all { &[] } else { model.key(draw.item) };
            let held = match draw.action.stores() {
                true => model.another(draw.item, rng.index(records.len()) as u32),
                false => Held::Nothing,
            };
            let value = model.value(held).unwrap_or_default();
            if draw.action.stores() {
                stored += (key.len() + value.len()) as u64;
            }
            let step = Step {
                action: draw.action,
                item: draw.item as u32,
                stored: held,
                scan_len: draw.scan_len as u32,
            };
            draft.push(step, key, &value);
            model.apply(step);
        }
        draft.finish()
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Leaves only the first `count` steps.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.calls.truncate(count);
        self.about.truncate(count);
    }

    /// How many steps look a key up.
    pub(crate) fn lookups(&self) -> usize {
        let is_lookup = |step: &Step| matches!(step.action, Action::Get | Action::ReadModifyWrite);
        self.steps().filter(is_lookup).count()
    }

    /// The steps that change something, as [`Script::iter`] gives them.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (Step, &[u8], &[u8])> + Clone {
        self.iter().filter(|(step, ..)| step.action.changes())
    }

    /// The steps in order.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step> {
        self.iter().map(|(step, ..)| step)
    }

    /// The steps in order, each with its key and the value to store. Of what a loop does not look at nothing
    /// is read.
    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Step, &[u8], &[u8])> + Clone {
        let (mut keys, mut values) = (&*self.keys, self.values.as_slice());
        self.calls.iter().zip(&self.about).map(move |(call, about)| {
            ahead::ask(keys);
            let (key, other_keys) = keys.split_at(call.key_len as usize);
            let (value, other_values) = values.split_at(call.value_len as usize);
            (keys, values) = (other_keys, other_values);
            let Call { action, scan_len, .. } = *call;
            let About { item, stored } = *about;
            (Step { action, item, stored, scan_len }, key, value)
        })
    }
}
