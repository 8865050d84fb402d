//! One round of one store: the process that does it, what is heard of it, and what is left of the store's
//! work when something of it fails.
//!
//! Invariant: what a process has begun ends as measured, as refused, or as lost, and is told once.

use super::folder::Folder;
use super::process::{self, End, Program};
use super::protocol::{Message, Spec};
use super::together::Group;
use super::{Run, child};
use crate::args::Metrics;
use crate::driver::{Driver, ForDriver, with_driver};
use crate::workload::{Inputs, Mixes, Phase, Workload};
use credenza::Result;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A store in the run, and what of its work has not failed.
pub(super) struct Entrant {
    pub(super) store: String,
    /// Whether it is there for the second time, to be compared with itself.
    pub(super) again: bool,
    /// The phases that have not failed.
    pub(super) left: Vec<Phase>,
    /// The groups at one store that have.
    pub(super) failed: Vec<Group>,
}

/// What is the same for every process of a run.
pub(super) struct Work<'a> {
    pub(super) workload: &'a Workload,
    pub(super) folder: &'a Folder,
    pub(super) program: &'a Program,
    pub(super) bar: &'a ProgressBar,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Doing {
    Phase(Phase),
    Group(Group),
}

/// What was heard of a process.
#[derive(Default)]
struct Heard {
    /// What it has begun last.
    last: Option<Doing>,
    /// The same, as long as nothing was heard of its end.
    open: Option<Doing>,
    /// What it has begun before that, and of which nothing more was heard.
    lost: Vec<Doing>,
    refused: Vec<Doing>,
}

impl Heard {
    fn begins(&mut self, doing: Doing) {
        self.last = Some(doing);
        self.lost.extend(self.open.replace(doing));
    }

    fn refuses(&mut self, doing: Doing) {
        self.refused.push(doing);
        self.open = None;
    }
}

impl Entrant {
    /// Takes away what has failed; with the build, all phases that read what it builds.
    pub(super) fn without(&mut self, failed: Doing) {
        match failed {
            Doing::Phase(Phase::Build) => self.left.retain(|phase| phase.is_changing()),
            Doing::Phase(failed) => self.left.retain(|phase| *phase != failed),
            Doing::Group(group) => self.failed.push(group),
        }
    }
}

impl Run<'_> {
    /// One round of one store: all phases that are left, of which those go that fail. What comes
    /// after a crash is done by a further process.
    pub(super) fn one(
        &mut self,
        entrant: &mut Entrant,
        round: usize,
        work: &Work<'_>,
    ) -> Result<()> {
        let mut due = entrant.left.clone();
        while !due.is_empty() {
            let spec = self.round_spec(entrant, due.clone(), round, work)?;
            let mut heard = Heard::default();
            let timeout = Duration::from_secs(self.args.timeout);
            work.bar.set_message(format!("round {}: {}", round + 1, entrant.store));
            let hear = |message| self.hear(message, &mut heard, entrant, round, work.bar);
            let end = process::run(work.program, &spec, timeout, work.folder.current(), hear)?;
            if let Err(e) = clear(&spec, &spec.folder) {
                work.bar.suspend(|| {
                    self.fail(&entrant.store, Some(round), None, "error", e.to_string());
                });
            }
            if work.folder.current().is_stopping() {
                break;
            }
            due = self.conclude(end, heard, entrant, round, &due, work);
        }
        work.folder.empty(&entrant.store)?;
        Ok(())
    }

    /// The work of a process that does these phases.
    fn round_spec(
        &self,
        entrant: &Entrant,
        due: Vec<Phase>,
        round: usize,
        work: &Work<'_>,
    ) -> Result<Spec> {
        let store = entrant.store.as_str();
        let mut spec = self.spec(store, due, work.workload, work.folder.empty(store)?);
        spec.open = self.args.kept.place_of(store);
        spec.done_in_time = self.done_in_time(store, &work.workload.mixes);
        if !entrant.again {
            spec.keep = self.args.kept.keeping(self.made_in.as_ref(), store, round);
            spec.together = self.together();
            spec.together.without = entrant.failed.clone();
            spec.over_time = round == 0 && spec.latencies;
            spec.own_counters = round == 0 && self.args.metrics == Metrics::All;
        }
        Ok(spec)
    }

    /// How many operations this store did in the time of a mix that has one, in the first round of it: rounds of
    /// other work are no rounds of one figure. Only the last mix may have a time.
    fn done_in_time(&self, store: &str, mixes: &Mixes) -> Option<usize> {
        let has_time =
            |phase: &Phase| mixes.of(*phase).is_some_and(|mix| mix.stop.seconds.is_some());
        let phase = self.phases.iter().copied().find(has_time)?;
        self.samples.operations(store, phase).or_else(|| self.again.operations(store, phase))
    }

    fn hear(
        &mut self,
        message: Message,
        heard: &mut Heard,
        entrant: &Entrant,
        round: usize,
        bar: &ProgressBar,
    ) {
        match message {
            Message::Started(phase) => {
                bar.set_message(format!("round {}: {} {phase}", round + 1, entrant.store));
                heard.begins(Doing::Phase(phase));
            }
            Message::Gathered(group) => {
                let what =
                    format!("round {}: {} {}, {group}", round + 1, entrant.store, group.phase);
                bar.set_message(what);
                heard.begins(Doing::Group(group));
            }
            Message::Measured(sample) => {
                bar.inc(1);
                heard.open = None;
                if let Some(what) = sample.wrong.clone() {
                    let doing = Doing::Phase(sample.phase);
                    self.tell(doing, "wrong-answer", what, entrant, round, bar);
                }
                let samples = if entrant.again { &mut self.again } else { &mut self.samples };
                samples.add(&entrant.store, round, *sample);
            }
            Message::Together(measured) => {
                heard.open = None;
                if let Some(what) = measured.wrong.clone() {
                    let doing = Doing::Group(measured.group);
                    self.tell(doing, "wrong-answer", what, entrant, round, bar);
                }
                self.shared.add(&entrant.store, round, *measured);
            }
            Message::Refused(phase, what) => {
                self.tell(Doing::Phase(phase), "error", what, entrant, round, bar);
                heard.refuses(Doing::Phase(phase));
            }
            Message::Dispersed(group, what) => {
                self.tell(Doing::Group(group), "error", what, entrant, round, bar);
                heard.refuses(Doing::Group(group));
            }
            Message::Amiss(phase, what) => {
                self.tell(Doing::Phase(phase), "error", what, entrant, round, bar);
                heard.open = None;
            }
            Message::Compared(_)
            | Message::Figure(_)
            | Message::Replayed(_)
            | Message::Tortured(_)
            | Message::Failed(_)
            | Message::Finished => {}
        }
    }

    /// Tells what failed, and takes it away; the phases that another process is to do in this round.
    fn conclude(
        &mut self,
        end: End,
        heard: Heard,
        entrant: &mut Entrant,
        round: usize,
        due: &[Phase],
        work: &Work<'_>,
    ) -> Vec<Phase> {
        let Heard { last, open, mut lost, refused } = heard;
        let (status, what) = match end {
            End::Finished => ("", String::new()),
            End::Failed(what) => ("error", what),
            End::Crashed { what, .. } => ("crashed", what),
            End::TimedOut => ("timed-out", format!("no end after {} seconds", self.args.timeout)),
        };
        lost.extend(open.filter(|_| status.is_empty()));
        // One that was only to make the store was not asked for.
        lost.retain(|doing| !matches!(doing, Doing::Phase(phase) if !due.contains(phase)));
        for doing in &lost {
            let what = "it was begun, and nothing was heard of its end".to_owned();
            self.tell(*doing, "error", what, entrant, round, work.bar);
        }
        refused.into_iter().chain(lost).for_each(|doing| entrant.without(doing));
        if status.is_empty() {
            return Vec::new();
        }
        let Some(last) = last else {
            work.bar.suspend(|| self.fail(&entrant.store, Some(round), None, status, what));
            entrant.left.clear();
            return Vec::new();
        };
        self.tell(last, status, what, entrant, round, work.bar);
        entrant.without(last);
        // Who took too long has had the time of this round; groups come after all phases.
        let Doing::Phase(crashed) = last else { return Vec::new() };
        let order = work.workload.mixes.all_phases();
        let is_next = |phase: &&Phase| status == "crashed" && is_after(**phase, crashed, &order);
        entrant.left.iter().filter(is_next).copied().collect()
    }

    /// Remembers a failure of a phase or group, and says it at once.
    fn tell(
        &mut self,
        doing: Doing,
        status: &str,
        what: String,
        entrant: &Entrant,
        round: usize,
        bar: &ProgressBar,
    ) {
        let (phase, what) = match doing {
            Doing::Phase(phase) => (phase, what),
            Doing::Group(group) => (group.phase, format!("{group}: {what}")),
        };
        bar.suspend(|| self.fail(&entrant.store, Some(round), Some(phase), status, what));
    }
}

/// Has a store that takes part twice lose in both what has failed in one of them, so that it is not tried again.
/// `due` is what it had in the one that has just done a round.
pub(super) fn share_failures(entrants: &mut [Entrant], one: usize, due: &[Phase]) {
    let Entrant { store, left, .. } = &entrants[one];
    let failed: Vec<Phase> = due.iter().filter(|phase| !left.contains(phase)).copied().collect();
    let store = store.clone();
    for other in entrants.iter_mut().filter(|other| other.store == store) {
        other.left.retain(|phase| !failed.contains(phase));
    }
}

/// Whether a phase has its turn after another, all being in this order.
pub(super) fn is_after(phase: Phase, other: Phase, order: &[Phase]) -> bool {
    let turn = |phase| order.iter().position(|each| *each == phase);
    turn(phase) > turn(other)
}

/// Takes away what a process that has ended, in whatever way, has left of a store outside `folder`.
pub(super) fn clear(spec: &Spec, folder: &Path) -> Result<()> {
    with_driver(&spec.store, Clear { spec, path: folder.join(child::STORE) }).unwrap_or(Ok(()))
}

struct Clear<'a> {
    spec: &'a Spec,
    path: PathBuf,
}

impl ForDriver for Clear<'_> {
    type Output = Result<()>;

    fn run<D: Driver>(self) -> Result<()> {
        if !D::IS_SERVER || !self.path.exists() {
            return Ok(());
        }
        let inputs = Inputs::load(&self.spec.inputs)?;
        D::load(self.spec.library.as_deref())?.clear(&self.path, inputs.keys())
    }
}
