//! A mix by several threads at one new store.
//!
//! The operations are those that one thread does, dealt to the threads: all those of a key are one thread's,
//! in their order, so that every answer, and what the store holds in the end, are as with one thread,
//! whoever is faster. What is about several keys is not so: a mix that scans is not done by threads.
//! Each change is a transaction of its own, which outlives the process, whatever the store does with
//! one thread: the class is "buffered", or "sync" where the mix is.
//!
//! As with one thread, a first, untimed run compares every answer with the model; in all others the
//! answers of each thread must add up to what they are: in the timed one, in that with single operations
//! timed, and at a rate, where each operation has the time to start that it has with one thread. After each,
//! the store is looked through.

use super::super::changes::{Outcome, Work};
use super::super::child::Round;
use super::super::mixed::{
    self, Expected, Mixed, StepLatencies, Steps, begun, check, do_steps, expected,
};
use super::super::open_loop::changing::Paced;
use super::super::open_loop::{AtRate, Rate};
use super::super::protocol::{Sample, Spec};
use super::committers::{Committed, at_once};
use super::member::Channel;
use super::{Coordinator, Done, Group, Throughput};
use crate::driver::Driver;
use crate::workload::Mix;
use crate::workload::changes::{Dealt, Script};
use credenza::Result;

/// Why several threads do not do a mix at one store; `None` if they do.
pub(crate) fn not_by_threads(mix: &Mix, is_opened: bool) -> Option<&'static str> {
    let opened = is_opened.then_some("in a store of --open a mix is done by one thread only");
    mix.not_by_threads().or(opened)
}

/// A mix that is dealt to threads.
struct Shared<'a> {
    all: Mixed<'a>,
    /// How many lookups find something.
    found: u64,
    /// The part of each thread, and what it adds up to.
    parts: Vec<(Dealt, Outcome)>,
}

impl Shared<'_> {
    /// The steps of a thread, and how they were dealt.
    fn part(&self, number: usize) -> (Steps<'_>, &Dealt) {
        let (dealt, outcome) = &self.parts[number];
        (Steps { script: &dealt.script, transactions: None, outcome: *outcome }, dealt)
    }
}

impl<D: Driver> Round<'_, D> {
    /// Measures such a group, by threads of this process.
    pub(super) fn mixers(&self, group: Group) -> Result<Throughput> {
        self.with_script(group.phase, |round, mix, script| round.mix_at_once(group, mix, script))
    }

    fn mix_at_once(&self, group: Group, mix: &Mix, mut script: Script) -> Result<Throughput> {
        let (spec, shared) = (self.spec, self.shared(group, mix, &script));
        let checked = self.by_threads(group, &shared, |(Steps { script, .. }, _), store, to| {
            let model = begun(self.inputs, mix, self.before);
            to.ready()?;
            Ok(Done { wrong: check(store, script, None, model)?, ..Done::default() })
        })?;
        let timed = self.by_threads(group, &shared, |(steps, _), store, to| {
            let mut outcome = Outcome::default();
            to.ready()?;
            do_steps(store, steps.script, None, &mut outcome, &mut (), |_| true)?;
            Ok(Done { wrong: steps.unlike(outcome, ""), ..Done::default() })
        })?;
        let wrong = checked.wrong.or(timed.wrong);
        let (operation_latencies, wrong_singly) = match spec.latencies {
            true => self.latencies_at_once(group, &shared)?,
            false => (StepLatencies::new(), None),
        };
        let (found, lookups, ops) = (shared.found, script.lookups(), script.len());
        let changes = script.changes().count();
        let mut at_rate = None;
        if let Some(rate) = &spec.rate {
            script.truncate(rate.operations(script.len()));
            at_rate = Some(self.mix_at_rate(group, mix, &script, rate)?);
        }
        let wrong_at_rate = at_rate.as_ref().and_then(|at_rate| at_rate.wrong.clone());
        Ok(Throughput {
            group,
            processors: spec.together.cpus.len().min(group.readers).max(1),
            ops: ops as u64,
            per_second: ops as f64 / timed.elapsed.as_secs_f64().max(1e-9),
            writes_per_second: None,
            syncs: mix.sync.then(|| timed.effort.calls.syncs()),
            changes: changes as u64,
            lookups: lookups as u64,
            found,
            operation_latencies,
            at_rate,
            wrong: wrong.or(wrong_singly).or(wrong_at_rate),
        })
    }

    /// Deals the steps to the threads of the group.
    fn shared<'a>(&'a self, group: Group, mix: &Mix, script: &'a Script) -> Shared<'a> {
        let model = || begun(self.inputs, mix, self.before);
        let Expected { outcome, found, commits, after } = expected(script, None, model());
        let own = |part: Dealt| {
            let outcome = expected(&part.script, None, model()).outcome;
            (part, outcome)
        };
        Shared {
            all: Mixed { steps: Steps { script, transactions: None, outcome }, commits, after },
            found,
            parts: script.dealt(group.readers).into_iter().map(own).collect(),
        }
    }

    /// Has the threads time single steps, each of its own part: the latencies of all, kind by kind, and what is
    /// wrong first, in words.
    fn latencies_at_once(
        &self,
        group: Group,
        shared: &Shared<'_>,
    ) -> Result<(StepLatencies, Option<String>)> {
        let ran = self.by_threads(group, shared, |(steps, _), store, to| {
            to.ready()?;
            let (operation_latencies, wrong) = steps.one_by_one(store, self.spec)?;
            Ok(Done { operation_latencies, wrong, ..Done::default() })
        })?;
        let of_threads = ran.done.iter().map(|done| &done.operation_latencies);
        Ok((mixed::counts(mixed::merged(of_threads)), ran.wrong))
    }

    /// Has the threads do these steps at a rate, which is that of all together.
    fn mix_at_rate(&self, group: Group, mix: &Mix, script: &Script, rate: &Rate) -> Result<AtRate> {
        let &Spec { seed, clock_ns, .. } = self.spec;
        let (shared, starts) = (self.shared(group, mix, script), rate.starts(script.len(), seed));
        let ran = self.by_threads(group, &shared, |(steps, dealt), store, to| {
            let paced = Paced { steps, starts: dealt.own(&starts), of: group.readers, clock_ns };
            let at_rate = Some(paced.run(store, || to.ready())?);
            Ok(Done { at_rate, ..Done::default() })
        })?;
        Ok(ran.at_rate())
    }

    /// Has the threads do their parts at a new store that is filled; what they find wrong, or the store has
    /// wrong afterwards, is said.
    fn by_threads(
        &self,
        group: Group,
        shared: &Shared<'_>,
        part: impl Fn((Steps<'_>, &Dealt), &mut D::Writer<'_>, &mut Channel) -> Result<Done> + Sync,
    ) -> Result<Committed> {
        let work = &shared.all;
        self.empty_folder()?;
        let is_synced = self.spec.mixes.is_synced(group.phase);
        let is_filled_before = is_synced && Self::is_filled_before();
        if is_filled_before {
            self.fill_and_close(false)?;
        }
        let mut crew = self.driver.committers(&self.path, &self.shape, group.readers, is_synced)?;
        if !is_filled_before {
            self.fill(crew.owner(), false, true)?;
        }
        let ran = at_once(self.spec, &mut crew, work.operations(), |number, store, to| {
            part(shared.part(number), store, to)
        })?;
        let mut sample = Sample::new(group.phase, work.operations());
        self.finish(crew.into_owner(), work, work.content(), &mut sample)?;
        Ok(Committed { wrong: ran.wrong.or(sample.wrong), ..ran })
    }
}
