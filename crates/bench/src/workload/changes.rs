//! What the phase `mixed` does to a store, and what the store must answer: a model that was
//! computed before anything is timed.
//!
//! Invariant: the bytes of a script lie one after the other in its order, as those of queries do,
//! so that taking the next step costs no cache miss of its own.

use super::generate::stream;
use super::records::Records;
use crate::rng::Rng;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Get,
    Put,
    Remove,
}

/// What a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    /// The value that the data have.
    Own,
    /// The other value, of [`Records::with_other_values`].
    Other,
}

/// One step, with what its key has before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) action: Action,
    pub(crate) before: State,
    pub(crate) record: u32,
    key_len: u32,
    value_len: u32,
}

/// Steps over a store that holds all records.
pub(crate) struct Script {
    bytes: Vec<u8>,
    steps: Vec<Step>,
    /// What each key has in the end.
    pub(crate) after: Vec<State>,
}

impl Script {
    /// `count` steps on random keys: of ten, six look up, three store a value that the key does
    /// not have, and one removes, on average.
    pub(crate) fn draw(records: &Records, others: &Records, count: usize, seed: u64) -> Script {
        let mut rng = Rng::new(seed, stream::MIXED);
        let after = vec![State::Own; records.len()];
        let mut script = Script { bytes: Vec::new(), steps: Vec::with_capacity(count), after };
        for _ in 0..count {
            let record = rng.index(records.len());
            let before = script.after[record];
            let action = match rng.below(10) {
                0..6 => Action::Get,
                6..9 => Action::Put,
                _ => Action::Remove,
            };
            let (key, mut value) = (records.key(record), &[][..]);
            match (action, before) {
                (Action::Get, _) => {}
                (Action::Put, State::Own) => {
                    value = others.get(record).1;
                    script.after[record] = State::Other;
                }
                (Action::Put, State::Absent | State::Other) => {
                    value = records.get(record).1;
                    script.after[record] = State::Own;
                }
                (Action::Remove, _) => script.after[record] = State::Absent,
            }
            script.bytes.extend_from_slice(key);
            script.bytes.extend_from_slice(value);
            let (key_len, value_len) = (key.len() as u32, value.len() as u32);
            let record = record as u32;
            script.steps.push(Step { action, before, record, key_len, value_len });
        }
        script
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// How many steps do this.
    pub(crate) fn count(&self, action: Action) -> usize {
        self.steps.iter().filter(|step| step.action == action).count()
    }

    /// The steps in order, each with its key and the value to store.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Step, &[u8], &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.steps.iter().map(move |step| {
            let (key, after) = rest.split_at(step.key_len as usize);
            let (value, after) = after.split_at(step.value_len as usize);
            rest = after;
            (step, key, value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_model_is_what_a_map_does() {
        let mut records = Records::default();
        for i in 0..100_u8 {
            records.push(&[i], &[i, 7]).unwrap();
        }
        let others = records.with_other_values();
        let script = Script::draw(&records, &others, 10_000, 3);
        let mut map: HashMap<&[u8], &[u8]> = records.iter().collect();
        let of = |state, record| match state {
            State::Absent => None,
            State::Own => Some(records.get(record).1),
            State::Other => Some(others.get(record).1),
        };
        for (step, key, value) in script.iter() {
            assert_eq!(key, records.key(step.record as usize));
            assert_eq!(map.get(key).copied(), of(step.before, step.record as usize));
            match step.action {
                Action::Get => {}
                Action::Put => assert_ne!(map.insert(key, value), Some(value)),
                Action::Remove => drop(map.remove(key)),
            }
        }
        for (record, state) in script.after.iter().enumerate() {
            assert_eq!(map.get(records.key(record)).copied(), of(*state, record));
        }
        for (action, part) in [(Action::Get, 6000), (Action::Put, 3000), (Action::Remove, 1000)] {
            assert!(script.count(action).abs_diff(part) < 150, "{action:?}");
        }
        assert_eq!(script.len(), 10_000);
    }

    #[test]
    fn a_seed_gives_the_same_script_in_every_version() {
        let mut records = Records::default();
        (0..100_u8).for_each(|i| records.push(&[i], &[i]).unwrap());
        let script = Script::draw(&records, &records.with_other_values(), 20, 7);
        let steps: Vec<_> = script.iter().map(|(step, ..)| (step.record, step.action)).collect();
        assert_eq!(format!("{:?}", &steps[..3]), "[(41, Put), (89, Get), (45, Get)]");
    }
}
