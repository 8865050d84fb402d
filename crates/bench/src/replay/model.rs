//! What a store must answer in a replay: the simplest thing that does the same steps.
//!
//! A replay puts into the store itself whatever it asks it for, so that it knows every answer. That of the
//! recording is none: the program's store may have held what the trace does not show, and its threads may
//! have done things in another order.
//!
//! While the clock runs, of an answer only a [`Seen`] is noted, and compared with one that was worked out
//! before; all of an answer is compared where nothing is timed (`check`).

use super::play::Values;
use super::script::{Do, Script, Step};
use crate::driver::Store;
use crate::runner::passes::in_words;
use crate::workload::Records;
use credenza::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What is noted of the values that a step was given: as much as costs next to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    values: u32,
    bytes: u64,
    /// Of the length and the first byte of each value, times its place.
    sum: u64,
}

impl Seen {
    /// A value was given, in this place among several: it is looked at, as whoever asked for it would.
    #[inline]
    pub(super) fn see(&mut self, place: usize, value: &[u8]) {
        let first = value.first().copied().unwrap_or(0);
        let of_value = (value.len() as u64) << 8 | u64::from(first);
        self.values = self.values.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(value.len() as u64);
        self.sum = self.sum.wrapping_add(of_value.wrapping_mul(place as u64 + 1));
    }

    /// The next of several values was given.
    #[inline]
    pub(super) fn see_next(&mut self, value: &[u8]) {
        self.see(self.values as usize, value);
    }

    /// The answer of a removal.
    pub(super) fn of_removal(was_there: bool) -> Seen {
        Seen { values: u32::from(was_there), ..Seen::default() }
    }

    /// Whether that is one value, or none, as the store says.
    pub(super) fn is_found(&self, is_found: bool) -> bool {
        self.values == u32::from(is_found)
    }

    /// Whether that is so many values.
    pub(super) fn is_of(&self, values: u32) -> bool {
        self.values == values
    }

    pub(super) fn in_words(&self, what: Do) -> String {
        match (what, self.values) {
            (Do::Remove, 0) => "that the key was not there".to_owned(),
            (Do::Remove, _) => "that the key was there".to_owned(),
            (_, 0) => "nothing".to_owned(),
            (_, 1) => format!("a value of {} bytes", self.bytes),
            (_, values) => format!("{values} values of {} bytes together", self.bytes),
        }
    }
}

/// The records that the store must have now.
pub(super) struct Model<'a> {
    script: &'a Script,
    values: &'a Values,
    held: BTreeMap<&'a [u8], &'a [u8]>,
}

impl<'a> Model<'a> {
    /// Where nothing is done yet.
    pub(super) fn of(script: &'a Script, before: &'a Records, values: &'a Values) -> Model<'a> {
        Model { script, values, held: before.iter().collect() }
    }

    /// What a store must answer to all steps, which are done here.
    pub(super) fn answers(&mut self, is_ordered: bool) -> Vec<Seen> {
        let script = self.script;
        script.steps.iter().map(|step| self.answer(step, is_ordered)).collect()
    }

    fn answer(&mut self, step: &Step, is_ordered: bool) -> Seen {
        let script = self.script;
        let mut seen = Seen::default();
        let key = step.key.map_or(&[][..], |key| script.key(key));
        match step.what {
            Do::Get | Do::Update => self.get(key).into_iter().for_each(|v| seen.see(0, v)),
            Do::GetMany { .. } => {
                for (place, (key, _)) in script.batch(step).iter().enumerate() {
                    let value = self.get(script.key(*key));
                    value.into_iter().for_each(|value| seen.see(place, value));
                }
            }
            Do::Seek | Do::Scan | Do::FullCheck if is_ordered => {
                self.range(step).for_each(|(_, value)| seen.see_next(value));
            }
            // A store without an order may give them in any.
            Do::Scan | Do::FullCheck if step.key.is_none() => {
                self.held.values().for_each(|value| seen.see(0, value));
            }
            Do::Remove => seen = Seen::of_removal(self.get(key).is_some()),
            _ => {}
        }
        self.change(step);
        seen
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&'a [u8]> {
        self.held.get(key).copied()
    }

    /// The records that a seek or scan of an ordered store gives.
    pub(super) fn range(&self, step: &Step) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let (from, count) = self.script.range(step);
        let range = self.held.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        range.map(|(key, value)| (*key, *value)).take(count)
    }

    /// Does what the step changes.
    pub(super) fn change(&mut self, step: &Step) {
        let Some(number) = step.key else { return };
        let key = self.script.key(number);
        match step.what {
            Do::Insert | Do::Update => {
                self.held.insert(key, self.values.of(number, step.value_len));
            }
            Do::Remove => drop(self.held.remove(key)),
            _ => {}
        }
    }

    /// Reads the store through backwards, which has its records in an order; what is wrong, in words.
    pub(super) fn wrong_backwards<S: Store>(&self, store: &mut S) -> Result<Option<String>> {
        let (mut held, mut wrong) = (self.held.iter().rev(), None);
        store.scan_back(|key, value| {
            let expected = held.next();
            if wrong.is_none() && expected != Some((&key, &value)) {
                let expected = in_words(expected.map(|(key, _)| *key));
                let (key, value) = (in_words(Some(key)), in_words(Some(value)));
                wrong = Some(format!("expected key {expected}, got {key}: {value}"));
            }
        })?;
        let left = held.count();
        let wrong = wrong.or_else(|| (left > 0).then(|| format!("{left} records are missing")));
        Ok(wrong.map(|what| format!("a scan of everything backwards: {what}")))
    }

    /// Reads the store through; the first record that is not as it must be, in words.
    pub(super) fn wrong_record<S: Store>(&self, store: &mut S) -> Result<Option<String>> {
        let mut missing: BTreeSet<&[u8]> = self.held.keys().copied().collect();
        let mut wrong = None;
        store.scan(|key, value| {
            let expected = self.get(key);
            let is_first = missing.remove(key);
            if wrong.is_none() && (expected != Some(value) || !is_first) {
                let again = if expected == Some(value) { " once more" } else { "" };
                wrong = Some((in_words(Some(key)), expected, in_words(Some(value)) + again));
            }
        })?;
        let lost = missing.first();
        let lost = lost.map(|key| (in_words(Some(key)), self.get(key), in_words(None)));
        Ok(wrong.or(lost).map(|(key, expected, found)| {
            let expected = in_words(expected);
            format!("a scan of everything, key {key}: expected {expected}, got {found}")
        }))
    }
}

impl Step {
    /// It for a message: its number, from 1, and what it is.
    pub(super) fn told(&self, i: usize) -> String {
        format!("operation {}, {}", i + 1, self.name())
    }
}
