//! The process that compares: all steps of a script on one store, all of every answer compared with that of
//! a model. Nothing is timed.

use super::model::Model;
use super::play::Values;
use super::script::{Do, Script, Step};
use crate::driver::{Store, Writer};
use crate::runner::passes::{in_words, wrong_answer, wrong_range};
use credenza::Result;
use std::borrow::Cow;

/// Does the steps, and knows the answers.
pub(super) struct Checker<'a, 'm> {
    script: &'a Script,
    values: &'a Values,
    model: &'m mut Model<'a>,
    /// Whether transactions are the store's own.
    pub(super) has_transactions: bool,
    /// The first wrong answer, in words.
    pub(super) wrong: Option<String>,
}

impl<'a, 'm> Checker<'a, 'm> {
    pub(super) fn new(
        script: &'a Script,
        values: &'a Values,
        model: &'m mut Model<'a>,
    ) -> Checker<'a, 'm> {
        Checker { script, values, model, has_transactions: false, wrong: None }
    }

    /// Does all steps, until an answer is wrong.
    pub(super) fn all(
        &mut self,
        mut each: impl FnMut(&mut Self, &Step) -> Result<Option<String>>,
    ) -> Result<()> {
        for (i, step) in self.script.steps.iter().enumerate() {
            let wrong = each(self, step)?;
            self.model.change(step);
            self.wrong = wrong.map(|what| format!("{}: {what}", step.told(i)));
            if self.wrong.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Does a step that changes nothing; what is wrong with its answer.
    pub(super) fn read<S: Store>(&mut self, store: &mut S, step: &Step) -> Result<Option<String>> {
        let key = step.key.map_or(&[][..], |key| self.script.key(key));
        match step.what {
            Do::Get => wrong_answer(store, key, self.model.get(key)),
            Do::GetMany { .. } => self.many(store, step),
            Do::Seek | Do::Scan if S::IS_ORDERED => {
                let (from, count) = self.script.range(step);
                let expected = self.model.range(step);
                let expected = expected.map(|(key, value)| (key, Cow::Borrowed(value)));
                wrong_range(store, from, count, expected)
            }
            Do::Scan if step.key.is_none() => self.model.wrong_record(store),
            Do::FullCheck => self.full(store, step),
            _ => Ok(None),
        }
    }

    /// Reads everything forwards, in their order where there is one, backwards where that can be, and by lookups
    /// of every key of the script, whether it is there or not.
    fn full<S: Store>(&self, store: &mut S, step: &Step) -> Result<Option<String>> {
        let mut wrong = self.model.wrong_record(store)?;
        if wrong.is_none() && S::IS_ORDERED {
            let (from, count) = self.script.range(step);
            let expected = self.model.range(step);
            let expected = expected.map(|(key, value)| (key, Cow::Borrowed(value)));
            wrong = wrong_range(store, from, count, expected)?;
        }
        if wrong.is_none() && S::SCANS_BACK {
            wrong = self.model.wrong_backwards(store)?;
        }
        for key in &self.script.keys {
            if wrong.is_some() {
                break;
            }
            wrong = wrong_answer(store, key, self.model.get(key))?;
        }
        Ok(wrong)
    }

    fn many<S: Store>(&mut self, store: &mut S, step: &Step) -> Result<Option<String>> {
        let batch = self.script.batch(step).iter();
        let keys: Vec<&[u8]> = batch.map(|(key, _)| self.script.key(*key)).collect();
        let (mut answers, mut wrong) = (0, None);
        store.get_many(&keys, |i, value| {
            answers += 1;
            let Some(key) = keys.get(i) else { return };
            let expected = self.model.get(key);
            if expected != value && wrong.is_none() {
                let [key, expected, got] = [Some(*key), expected, value].map(in_words);
                wrong = Some(format!("key {key}: expected {expected}, got {got}"));
            }
        })?;
        let is_short = answers != keys.len();
        Ok(wrong.or_else(|| is_short.then(|| format!("{answers} answers to {} keys", keys.len()))))
    }

    /// Does any step.
    pub(super) fn change<W: Writer>(
        &mut self,
        store: &mut W,
        step: &Step,
    ) -> Result<Option<String>> {
        let number = step.key.unwrap_or(0);
        let key = step.key.map_or(&[][..], |key| self.script.key(key));
        match step.what {
            Do::Insert => store.insert(key, self.values.of(number, step.value_len))?,
            Do::Update => {
                let wrong = wrong_answer(store, key, self.model.get(key))?;
                store.insert(key, self.values.of(number, step.value_len))?;
                return Ok(wrong);
            }
            Do::Remove => {
                let (expected, got) = (self.model.get(key).is_some(), store.remove(key)?);
                let there = |is_there| if is_there { "there" } else { "not there" };
                return Ok((expected != got).then(|| {
                    let (key, expected, got) = (in_words(Some(key)), there(expected), there(got));
                    format!("key {key}: expected that it was {expected}, got that it was {got}")
                }));
            }
            Do::Begin if self.has_transactions => store.begin()?,
            Do::Commit if self.has_transactions => store.commit()?,
            Do::Sync => drop(store.sync()?),
            _ => return self.read(store, step),
        }
        Ok(None)
    }
}
