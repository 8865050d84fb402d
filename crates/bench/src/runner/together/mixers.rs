//! A mix by several processes or threads at one new store.
//!
//! The operations are those that one thread does, dealt to all: all those of a key are done by one of them, in
//! their order, so that every answer about one key, and what the store holds in the end, are as with one
//! thread, whoever is faster. What a scan gives is so for the keys that the others leave alone
//! (`super::super::beside`).
//! Each change is a transaction of its own, which outlives the process, whatever the store does with
//! one thread, or each has its operations in transactions of several, where the mix says so: the class is
//! "buffered", or "sync" where the mix is.
//!
//! As with one thread, a first, untimed run compares every answer with the model; in all others the
//! answers of each must add up to what they are: in the timed one, in that with single operations
//! timed, and at a rate, where each operation has the time to start that it has with one thread. After each,
//! the store is looked through.

use super::super::beside::Scanned;
use super::super::changes::{Outcome, Work};
use super::super::child::Round;
use super::super::mixed::{self, Expected, Mixed, Steps, begun, check, do_steps, expected};
use super::super::open_loop::changing::Paced;
use super::super::protocol::{Sample, Spec};
use super::changers::{Changed, by_processes, by_threads};
use super::member::Member;
use super::{By, Coordinator, Done, Group, Run, Throughput};
use crate::driver::{Driver, Writer};
use crate::workload::changes::{Dealt, Script};
use crate::workload::transactions::Transactions;
use crate::workload::{Inputs, Mix};
use credenza::Result;

/// What is the same for all who do a mix together.
struct Common<'a> {
    spec: &'a Spec,
    inputs: &'a Inputs,
    before: &'a [Script],
    mix: &'a Mix,
    /// How many they are.
    of: usize,
    run: Run,
    /// At a rate, when each of the steps of all is to start.
    starts: Vec<u64>,
}

impl Common<'_> {
    /// Does what one of them does.
    fn part<W: Writer>(
        &self,
        dealt: &Dealt,
        store: &mut W,
        to: &mut impl Coordinator,
    ) -> Result<Done> {
        let model = || begun(self.inputs, self.mix, self.before);
        let (script, beside) = (&dealt.script, dealt.beside.as_ref());
        let transactions = self.mix.transactions;
        let (records, outcome) = (model().count(), expected(script, transactions, model()).outcome);
        let scanned = beside.map(|b| Scanned::of(script, b, outcome.scanned.found, records));
        let steps = Steps { script, transactions, outcome, scanned };
        match self.run {
            Run::Compared => {
                let model = model();
                to.ready()?;
                let wrong = check(store, script, transactions, model, beside)?;
                Ok(Done { wrong, ..Done::default() })
            }
            Run::Timed => {
                let mut outcome = Outcome::default();
                to.ready()?;
                do_steps(store, script, transactions, &mut outcome, &mut (), |_| true)?;
                Ok(Done { wrong: steps.unlike(outcome, ""), ..Done::default() })
            }
            Run::Singly => {
                to.ready()?;
                let (operation_latencies, wrong) = steps.one_by_one(store, self.spec)?;
                Ok(Done { operation_latencies, wrong, ..Done::default() })
            }
            Run::AtRate => {
                let (starts, clock_ns) = (dealt.own(&self.starts), self.spec.clock_ns);
                let paced = Paced { steps, starts, of: self.of, clock_ns };
                let at_rate = Some(paced.run(store, || to.ready())?);
                Ok(Done { at_rate, ..Done::default() })
            }
        }
    }
}

impl<D: Driver> Round<'_, D> {
    /// Measures such a group.
    pub(super) fn mixers(&self, group: Group) -> Result<Throughput> {
        self.with_script(group.phase, |round, mix, script| round.mix_at_once(group, mix, script))
    }

    fn mix_at_once(&self, group: Group, mix: &Mix, mut script: Script) -> Result<Throughput> {
        let spec = self.spec;
        let (work, found) = self.mixed_work(mix, &script);
        let compared = self.mix_run(group, mix, &work, Run::Compared)?;
        let timed = self.mix_run(group, mix, &work, Run::Timed)?;
        let singly = match spec.latencies {
            true => Some(self.mix_run(group, mix, &work, Run::Singly)?),
            false => None,
        };
        let of_each = singly.iter().flat_map(|ran| &ran.done).map(|done| &done.operation_latencies);
        let operation_latencies = mixed::counts(mixed::merged(of_each));
        let (lookups, ops) = (script.lookups(), script.len());
        let commits = self.commits(group, mix, &work);
        let mut at_rate = None;
        if spec.rate.is_some() {
            self.truncate(&mut script, Run::AtRate);
            let (work, _) = self.mixed_work(mix, &script);
            at_rate = Some(self.mix_run(group, mix, &work, Run::AtRate)?.at_rate());
        }
        let wrong_at_rate = at_rate.as_ref().and_then(|at_rate| at_rate.wrong.clone());
        let wrong_singly = singly.and_then(|ran| ran.wrong);
        Ok(Throughput {
            group,
            processors: spec.together.cpus.len().min(group.readers).max(1),
            ops: ops as u64,
            per_second: timed.per_second(ops),
            writes_per_second: None,
            syncs: mix.sync.then_some(timed.syncs),
            commits: commits as u64,
            lookups: lookups as u64,
            found,
            operation_latencies,
            at_rate,
            wrong: compared.wrong.or(timed.wrong).or(wrong_singly).or(wrong_at_rate),
        })
    }

    /// How many transactions of all of them change something: of several operations each has its own, else they
    /// are those of one.
    fn commits(&self, group: Group, mix: &Mix, work: &Mixed<'_>) -> usize {
        if mix.transactions.and_then(Transactions::operations).is_none() {
            return work.commits;
        }
        let model = || begun(self.inputs, mix, self.before);
        let of = |part: &Dealt| expected(&part.script, mix.transactions, model()).commits;
        work.steps.script.dealt(group.readers).iter().map(of).sum()
    }

    /// What the process with this number of such a group does.
    pub(super) fn mixer(
        &self,
        group: Group,
        run: Run,
        number: usize,
        to: &mut impl Coordinator,
    ) -> Result<Done> {
        let is_synced = self.spec.mixes.is_synced(group.phase);
        self.with_script(group.phase, |round, mix, mut script| {
            round.truncate(&mut script, run);
            let common = round.common(group, mix, &script, run);
            let dealt = script.dealt(group.readers).swap_remove(number);
            drop(script);
            round.beside_others(is_synced, to, |store, to| common.part(&dealt, store, to))
        })
    }

    /// Leaves of the steps those that are done at a rate, in a run at one.
    pub(super) fn truncate(&self, script: &mut Script, run: Run) {
        if let Some(rate) = self.spec.rate.filter(|_| run == Run::AtRate) {
            script.truncate(rate.operations(script.len()));
        }
    }

    /// All that is done, whoever does it, and how many lookups find something.
    pub(super) fn mixed_work<'a>(&'a self, mix: &Mix, script: &'a Script) -> (Mixed<'a>, u64) {
        let Expected { outcome, found, commits, after } =
            expected(script, None, begun(self.inputs, mix, self.before));
        (Mixed { steps: Steps::alone(script, None, outcome), commits, after }, found)
    }

    fn common<'a>(&'a self, group: Group, mix: &'a Mix, script: &Script, run: Run) -> Common<'a> {
        let &Round { spec, inputs, before, .. } = self;
        let rate = spec.rate.filter(|_| run == Run::AtRate);
        let starts = rate.map_or_else(Vec::new, |rate| rate.starts(script.len(), spec.seed));
        Common { spec, inputs, before, mix, of: group.readers, run, starts }
    }

    /// Has the group do the mix once at a new store that is filled; what they find wrong, or the store has
    /// wrong afterwards, is said.
    fn mix_run(&self, group: Group, mix: &Mix, work: &Mixed<'_>, run: Run) -> Result<Changed> {
        match group.by {
            By::Threads => self.mix_by_threads(group, mix, work, run),
            By::Processes => {
                self.mix_by_processes(group, work, |number| self.start(group, run, number))
            }
        }
    }

    fn mix_by_threads(
        &self,
        group: Group,
        mix: &Mix,
        work: &Mixed<'_>,
        run: Run,
    ) -> Result<Changed> {
        let script = work.steps.script;
        let (common, parts) = (self.common(group, mix, script, run), script.dealt(group.readers));
        let is_synced = self.spec.mixes.is_synced(group.phase);
        let is_filled_before =
            mix.reopen || self.spec.open.is_some() || is_synced && Self::is_filled_before();
        if is_filled_before {
            self.filled_and_closed(is_synced)?;
        } else {
            self.empty_folder()?;
        }
        let mut crew = self.driver.committers(&self.path, &self.shape, group.readers, is_synced)?;
        if !is_filled_before {
            self.fill(crew.owner(), false, true)?;
        }
        let ran = by_threads(self.spec, group, &mut crew, |number, store, to| {
            common.part(&parts[number], store, to)
        })?;
        self.looked_through(group, crew.into_owner(), work, ran)
    }

    /// The same by processes, each of which `start` starts.
    pub(super) fn mix_by_processes<M: Member>(
        &self,
        group: Group,
        work: &Mixed<'_>,
        start: impl FnMut(usize) -> Result<M>,
    ) -> Result<Changed> {
        let is_synced = self.spec.mixes.is_synced(group.phase);
        self.filled_and_closed(is_synced)?;
        let ran = by_processes(group, start)?;
        let store = self.driver.reopen_one_by_one(&self.path, &self.shape, is_synced)?;
        self.looked_through(group, store, work, ran)
    }

    /// A store that holds what the mix begins with, for changes of this kind, closed.
    pub(super) fn filled_and_closed(&self, is_synced: bool) -> Result<()> {
        self.empty_folder()?;
        let opened = self.spec.open.as_deref();
        opened.map_or(Ok(()), |place| self.copy_of(place))?;
        let is_there = opened.is_some();
        if is_synced && Self::is_filled_before() {
            return self.fill_and_close(is_there);
        }
        let make = if is_there { D::reopen_one_by_one } else { D::create_one_by_one };
        let mut store = make(self.driver, &self.path, &self.shape, is_synced)?;
        self.fill(&mut store, is_there, true)?;
        store.close()
    }

    /// What they did, with what the store has wrong afterwards.
    fn looked_through(
        &self,
        group: Group,
        store: D::Writer<'_>,
        work: &Mixed<'_>,
        ran: Changed,
    ) -> Result<Changed> {
        let mut sample = Sample::new(group.phase, work.operations());
        self.finish(store, work, work.content(), &mut sample)?;
        Ok(Changed { wrong: ran.wrong.or(sample.wrong), ..ran })
    }
}
