//! Several processes or threads that change one new store: what `insert-sync` and mixes have in common.
//!
//! Who conducts makes the store. Threads have handles that are made with it; each process opens it by
//! itself, when it was closed, with the locks that several of them need. One clock runs from the moment when all
//! are let go to that when the last has said that it has ended, so that what a slow one does alone is in the
//! figure. Only then they close the store: what the last to do so brings to the disk is in none. Calls that sync
//! are counted meanwhile, by each process its own: stores that bring the changes of several there with one
//! of them show fewer than one for a change.
//!
//! Then who conducts looks the store through, before it is closed and after it was opened again.

use super::super::child::Round;
use super::super::mixed;
use super::super::open_loop::AtRate;
use super::super::protocol::{Message, Spec};
use super::member::{self, Channel, Coordinator, Member, Process};
use super::{By, Done, Group, Part, Run, Throughput, all_done, enough, ready, wrong};
use crate::driver::{Committers, Driver, Writer, kernel, syscalls};
use crate::measure::Meter;
use crate::workload::Phase;
use credenza::Result;
use std::time::{Duration, Instant};

/// Whether several of these may all change one store of this kind.
pub(crate) fn have_locks<D: Driver>(by: By) -> bool {
    match by {
        By::Processes => D::HAS_COMMITTING_PROCESSES,
        By::Threads => D::HAS_COMMITTERS,
    }
}

impl<D: Driver> Round<'_, D> {
    /// `insert-sync`, and mixes that several do, by all numbers of processes and threads that are asked for,
    /// each at a new store, if stores of this kind can do that.
    pub(in super::super) fn committing(&self, say: &dyn Fn(&Message) -> Result<()>) -> Result<()> {
        let Spec { phases, mixes, together, .. } = self.spec;
        let is_done = |phase: &&Phase| mixes.of(**phase).is_some() || **phase == Phase::InsertSync;
        let all = [(By::Processes, &together.processes), (By::Threads, &together.threads)];
        let groups = |phase: Phase| {
            let of_kind = all.iter().filter(|(by, _)| have_locks::<D>(*by));
            let group = move |by, readers| Group { phase, by, readers, with_writer: false };
            of_kind.flat_map(move |(by, counts)| counts.iter().map(move |n| group(*by, *n)))
        };
        for phase in phases.iter().filter(is_done).filter(|phase| self.can_do(**phase)) {
            let mut groups = groups(*phase).peekable();
            if groups.peek().is_some() {
                self.in_operations(*phase, |round| {
                    groups.try_for_each(|group| round.measure_group(group, say))
                })?;
            }
        }
        Ok(())
    }

    /// Does `work` with a mix that has a number of operations, which is that of one where it has a time: so all
    /// numbers of processes and threads do the same.
    fn in_operations(
        &self,
        phase: Phase,
        work: impl FnOnce(&Round<'_, D>) -> Result<()>,
    ) -> Result<()> {
        let Some(seconds) = self.spec.mixes.of(phase).and_then(|mix| mix.stop.seconds) else {
            return work(self);
        };
        let (time, is_synced) = (Duration::from_secs(seconds), self.spec.mixes.is_synced(phase));
        let done = self.with_script(phase, |round, mix, script| {
            round.filled_and_closed(is_synced)?;
            let store = round.driver.reopen_one_by_one(&round.path, &round.shape, is_synced)?;
            mixed::steps_in(store, &script, mix.transactions, time)
        })?;
        let spec =
            Spec { mixes: self.spec.mixes.with_operations(phase, done), ..self.spec.clone() };
        work(&Round { spec: &spec, path: self.path.clone(), ..*self })
    }

    /// Measures a group that changes a store, by threads of this process or by processes that it starts.
    pub(super) fn changers(&self, group: Group) -> Result<Throughput> {
        match group.phase {
            Phase::InsertSync => self.committers(group),
            _ => self.mixers(group),
        }
    }

    /// What the process with this number does in a run of such a group.
    pub(super) fn changer(
        &self,
        group: Group,
        run: Run,
        number: usize,
        to: &mut impl Coordinator,
    ) -> Result<Done> {
        match group.phase {
            Phase::InsertSync => self.committer(group, run, number, to),
            _ => self.mixer(group, run, number, to),
        }
    }

    /// Starts that process.
    pub(super) fn start(&self, group: Group, run: Run, number: usize) -> Result<Process> {
        let part = Part::Changer(group, run, number);
        Process::start(self.spec, name(group, number), number, part)
    }

    /// Does a part at the store that other processes change meanwhile, and closes it when all have done theirs.
    pub(super) fn beside_others<C: Coordinator>(
        &self,
        is_durable: bool,
        to: &mut C,
        part: impl FnOnce(&mut D::Writer<'_>, &mut C) -> Result<Done>,
    ) -> Result<Done> {
        let mut store = self.driver.open_to_commit(&self.path, &self.shape, is_durable)?;
        // No whole meter: what that reads at the end would be in the time of all.
        let before = syscalls::so_far();
        let done = part(&mut store, to)?;
        let syncs = (syscalls::so_far() - before).syncs();
        to.enough()?;
        store.close()?;
        Ok(Done { syncs, ..done })
    }
}

/// The name of one of a group that changes a store.
pub(super) fn name(group: Group, number: usize) -> String {
    let what = if group.by == By::Threads { "thread" } else { "process" };
    format!("committing {what} {} of {}", number + 1, group.readers)
}

/// Has each thread of the crew do its part, given its number, which says that it is ready and is then let
/// go with the others.
pub(super) fn by_threads<W: Writer>(
    spec: &Spec,
    group: Group,
    crew: &mut Committers<W>,
    part: impl Fn(usize, &mut W, &mut Channel) -> Result<Done> + Sync,
) -> Result<Changed> {
    let part = &part;
    let bind = &|number| spec.together.cpu(spec.cpu, number).map_or(Ok(()), kernel::pin_to);
    std::thread::scope(|scope| {
        let mut members = Vec::with_capacity(group.readers);
        for (number, mut handle) in crew.handles.drain(..).enumerate() {
            let (member, mut to) = member::thread(name(group, number));
            scope.spawn(move || {
                let done = bind(number).and_then(|()| part(number, handle.store(), &mut to));
                let done = done.and_then(|done| to.enough().map(|()| done));
                // With a transaction that is open, after an error: the others wait for its end.
                drop(handle);
                to.end(done)
            });
            members.push(member);
        }
        conducted(members)
    })
}

/// Has the processes of a group, each of which `start` starts by its number, do their parts at a store
/// that is there, and closed.
pub(super) fn by_processes<M: Member>(
    group: Group,
    start: impl FnMut(usize) -> Result<M>,
) -> Result<Changed> {
    conducted((0..group.readers).map(start).collect::<Result<_>>()?)
}

/// Lets all go when they are ready, stops the clock when all have ended, and adds up what they did.
fn conducted<M: Member>(members: Vec<M>) -> Result<Changed> {
    let mut members = members.into_iter().map(ready).collect::<Result<Vec<_>>>()?;
    let (meter, start) = (Meter::start(), Instant::now());
    members.iter_mut().for_each(Member::tell);
    enough(&mut members)?;
    let (elapsed, own) = (start.elapsed(), meter.stop(0).calls.syncs());
    let done = all_done(&mut members)?;
    let syncs = own + done.iter().map(|done| done.syncs).sum::<u64>();
    let wrong = wrong(members.iter().zip(&done));
    Ok(Changed { elapsed, syncs, done, wrong })
}

/// What came of those who have changed a store.
pub(super) struct Changed {
    /// From when all were let go to when the last had ended.
    pub(super) elapsed: Duration,
    /// Calls that brought something to the disk.
    pub(super) syncs: u64,
    /// What each of them did.
    pub(super) done: Vec<Done>,
    /// What is wrong first, in words.
    pub(super) wrong: Option<String>,
}

impl Changed {
    /// Operations in a second, of which there were so many.
    pub(super) fn per_second(&self, operations: usize) -> f64 {
        operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// What all of them gave together at a rate.
    pub(super) fn at_rate(self) -> AtRate {
        let all = AtRate::of_all(self.done.iter().filter_map(|done| done.at_rate.as_ref()));
        let wrong = self.wrong.map(|what| format!("at a rate, {what}"));
        AtRate { wrong: all.wrong.or(wrong), ..all }
    }
}
