//! A mix by several threads at one new store.
//!
//! The operations are those that one thread does, dealt to the threads: all those of a key are one thread's,
//! in their order, so that every answer, and what the store holds in the end, are as with one thread,
//! whoever is faster. What is about several keys is not so: a mix that scans is not done by threads.
//! Each change is a transaction of its own, which outlives the process, whatever the store does with
//! one thread: the class is "buffered".
//!
//! As with one thread, a first, untimed run compares every answer with the model; in the timed one the
//! answers of each thread must add up to what they are. After each, the store is looked through.

use super::super::changes::{Outcome, Work};
use super::super::child::Round;
use super::super::mixed::{Mixed, begun, check, do_steps, expected};
use super::super::protocol::Sample;
use super::committers::{Committed, at_once};
use super::{Coordinator, Done, Group, Throughput};
use crate::driver::Driver;
use crate::workload::Mix;
use crate::workload::changes::Script;
use credenza::Result;

/// Why several threads do not do a mix at one store; `None` if they do.
pub(crate) fn not_by_threads(mix: &Mix, at_rate: bool, is_opened: bool) -> Option<&'static str> {
    let rate = at_rate.then_some("at a rate a mix is done by one thread only");
    let opened = is_opened.then_some("in a store of --open a mix is done by one thread only");
    mix.not_by_threads().or(rate).or(opened)
}

impl<D: Driver> Round<'_, D> {
    /// Measures such a group, by threads of this process.
    pub(super) fn mixers(&self, group: Group) -> Result<Throughput> {
        self.with_script(group.phase, |round, mix, script| round.mix_at_once(group, mix, &script))
    }

    fn mix_at_once(&self, group: Group, mix: &Mix, script: &Script) -> Result<Throughput> {
        let (spec, inputs, before) = (self.spec, self.inputs, self.before);
        let parts = &script.dealt(group.readers);
        let model = || begun(inputs, mix, before);
        let (outcome, found, after) = expected(script, model());
        let work = Mixed { script, transactions: None, outcome, after };
        let checked = self.by_threads(group, &work, |number, store| {
            check(store, &parts[number], None, model())
        })?;
        let outcomes: Vec<Outcome> = parts.iter().map(|part| expected(part, model()).0).collect();
        let timed = self.by_threads(group, &work, |number, store| {
            let (mut outcome, expected) = (Outcome::default(), outcomes[number]);
            do_steps(store, &parts[number], None, &mut outcome, &mut (), |_| true)?;
            let what = || format!("the steps add up to {outcome:?}, not {expected:?}");
            Ok((outcome != expected).then(what))
        })?;
        Ok(Throughput {
            group,
            processors: spec.together.cpus.len().min(group.readers).max(1),
            ops: script.len() as u64,
            per_second: script.len() as f64 / timed.elapsed.as_secs_f64().max(1e-9),
            writes_per_second: None,
            syncs: None,
            lookups: script.lookups() as u64,
            found,
            at_rate: None,
            wrong: checked.wrong.or(timed.wrong),
        })
    }

    /// Has so many threads do their parts, by number, at a new store that is filled; what they find wrong,
    /// or the store has wrong afterwards, is said.
    fn by_threads(
        &self,
        group: Group,
        work: &Mixed<'_>,
        part: impl Fn(usize, &mut D::Writer<'_>) -> Result<Option<String>> + Sync,
    ) -> Result<Committed> {
        self.empty_folder()?;
        let mut crew = self.driver.committers(&self.path, &self.shape, group.readers, false)?;
        self.fill(crew.owner(), false, true)?;
        let ran = at_once(self.spec, &mut crew, work.operations(), |number, store, to| {
            to.ready()?;
            Ok(Done { wrong: part(number, store)?, ..Done::default() })
        })?;
        let mut sample = Sample::new(group.phase, work.operations());
        self.finish(crew.into_owner(), work, work.content(), &mut sample)?;
        Ok(Committed { wrong: ran.wrong.or(sample.wrong), ..ran })
    }
}
