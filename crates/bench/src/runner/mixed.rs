//! The phase `mixed`: the steps of a script, in turn.
//!
//! A first, untimed run compares every answer with the model; the timed ones, what they add up to.
//! All runs begin with a new store that holds the records.

use super::changes::{Outcome, Work, content_after};
use super::child::Round;
use super::passes;
use super::protocol::Sample;
use crate::driver::{Driver, Writer};
use crate::workload::changes::{Model, Script, Step};
use crate::workload::{Action, Phase};
use credenza::Result;
use std::borrow::Cow;

impl<D: Driver> Round<'_, D> {
    /// The same for stores that will hold further keys, too.
    pub(super) fn with_fresh_keys(&self) -> Self {
        let shape = self.shape.with(&self.inputs.fresh);
        Round { shape, path: self.path.clone(), ..*self }
    }

    pub(super) fn mixed(&self) -> Result<Sample> {
        let (records, fresh, mix) = (&self.inputs.records, &self.inputs.fresh, &self.spec.mix);
        let count = self.inputs.queries.hit.len();
        let script = &Script::draw(records, fresh, mix, count, self.spec.seed);
        let new_model = || Model::new(records, fresh, mix.does(Action::Scan));
        let (outcome, found, after) = expected(script, new_model());
        let work = Mixed { script, outcome, after };

        let mut checked = Sample::new(Phase::Mixed, script.len());
        let mut store = self.new_store(Phase::Mixed, true)?;
        checked.wrong = check(&mut store, script, new_model())?;
        self.finish(store, &work, content_after(&work), &mut checked)?;
        let sample = self.measure(Phase::Mixed, &work)?;
        let lookups = script.lookups() as u64;
        Ok(Sample {
            found: (lookups > 0).then_some(found),
            lookups,
            wrong: checked.wrong.or(sample.wrong.clone()),
            ..sample
        })
    }
}

/// What the model says that a script adds up to, how many lookups find something, and the model
/// after it.
fn expected<'a>(script: &Script, mut model: Model<'a>) -> (Outcome, u64, Model<'a>) {
    let (mut outcome, mut found) = (Outcome::default(), 0);
    for (step, ..) in script.iter() {
        let now = model.now(step.item as usize);
        match step.action {
            Action::Get | Action::ReadModifyWrite => {
                found += u64::from(now.is_some());
                now.iter().for_each(|value| outcome.total.add(value));
            }
            Action::Remove => outcome.removed += u64::from(now.is_some()),
            Action::Scan => {
                let range = model.range(step.item as usize).take(step.scan_len as usize);
                range.for_each(|(_, value)| outcome.total.add(&value));
            }
            Action::Insert | Action::Update => {}
        }
        model.apply(step);
    }
    (outcome, found, model)
}

/// Does every step and compares every answer with the model; returns what is wrong first, in words.
fn check<W: Writer>(
    store: &mut W,
    script: &Script,
    mut model: Model<'_>,
) -> Result<Option<String>> {
    let mut wrong = None;
    for (i, (step, key, value)) in script.iter().enumerate() {
        let what = wrong_step(store, step, key, value, &model)?;
        wrong = wrong.or_else(|| what.map(|what| format!("step {i}, {what}")));
        model.apply(step);
    }
    Ok(wrong)
}

/// Does one step; returns what is wrong with the answer, in words.
fn wrong_step<W: Writer>(
    store: &mut W,
    step: &Step,
    key: &[u8],
    value: &[u8],
    model: &Model<'_>,
) -> Result<Option<String>> {
    let item = step.item as usize;
    match step.action {
        Action::Get => passes::wrong_answer(store, key, model.now(item).as_deref()),
        Action::Insert | Action::Update => store.insert(key, value).map(|()| None),
        Action::ReadModifyWrite => {
            let wrong = passes::wrong_answer(store, key, model.now(item).as_deref())?;
            store.insert(key, value).map(|()| wrong)
        }
        Action::Remove => {
            let removed = store.remove(key)?;
            let is_wrong = removed != model.now(item).is_some();
            Ok(is_wrong.then(|| format!("key '{}': removed is {removed}", key.escape_ascii())))
        }
        Action::Scan => {
            let range = model.range(item).take(step.scan_len as usize);
            passes::wrong_range(store, key, step.scan_len as usize, range)
        }
    }
}

/// The steps of a script.
struct Mixed<'a> {
    script: &'a Script,
    outcome: Outcome,
    after: Model<'a>,
}

impl Work for Mixed<'_> {
    const IS_FILLED: bool = true;

    fn operations(&self) -> usize {
        self.script.len()
    }

    #[inline(never)]
    fn run<W: Writer>(&self, store: &mut W) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        for (step, key, value) in self.script.iter() {
            match step.action {
                Action::Get => {
                    store.get(key, |value| outcome.total.add(value))?;
                }
                Action::Insert | Action::Update => store.insert(key, value)?,
                Action::Remove => outcome.removed += u64::from(store.remove(key)?),
                Action::Scan => {
                    store
                        .range(key, step.scan_len as usize, |_, value| outcome.total.add(value))?;
                }
                Action::ReadModifyWrite => {
                    store.get(key, |value| outcome.total.add(value))?;
                    store.insert(key, value)?;
                }
            }
        }
        Ok(outcome)
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn keys(&self) -> usize {
        self.after.items()
    }

    fn after(&self, i: usize) -> (&[u8], Option<Cow<'_, [u8]>>) {
        (self.after.key(i), self.after.now(i))
    }
}
