//! Several processes or threads reading one store at once, and one more that changes it beside them if
//! asked for; and several that commit to one.
//!
//! Reading order: here, [`member`] (processes and threads), [`part`] (what each of them does); then
//! [`changers`], of those that all change one store, with [`committers`] and, for mixes, [`mixers`].
//!
//! The measured process starts the others, each of which does its [`Part`]; threads are all in one
//! process that it starts. They are let go together: a member says that it is ready and then waits to be
//! told. The clock of each runs over its first passes, and nobody stops before the clocks of all have
//! stopped: what is timed is timed while all the others are busy, too. A writer opens the store first,
//! as some change it before readers come, and stops last; its clock stops with those of the readers.
//!
//! Invariants: a process ends when the one that started it does, whatever way that goes; a member that
//! fails or crashes ends the others, and the store has failed.

mod changers;
mod committers;
mod member;
mod mixers;
pub(super) mod part;

#[cfg(test)]
mod tests;

use super::child::Round;
use super::mixed::StepLatencies;
use super::open_loop::{AtRate, Share};
use super::protocol::{Message, Spec};
use crate::driver::{Driver, Threads, kernel};
use crate::workload::Phase;
pub(crate) use changers::have_locks;
use credenza::Result;
pub(super) use member::{Coordinator, Pipes};
use member::{Member, Process};
use part::{Reads, Writes};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most processes that `--processes` may ask for, each of which holds the data in memory, and the
/// most threads.
pub(crate) const MOST: usize = 256;

/// What is asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Together {
    /// How many processes are at one store, one number after the other; empty if nobody asks.
    pub(crate) processes: Vec<usize>,
    /// The same for threads of one process.
    pub(crate) threads: Vec<usize>,
    /// Do all of it once more, with one more beside the readers that changes the store.
    pub(crate) with_writer: bool,
    /// Leave these out, which have failed before.
    pub(crate) without: Vec<Group>,
    /// The processors for them, in this order.
    pub(crate) cpus: Vec<usize>,
    /// For a process that takes part: what it does.
    pub(crate) part: Option<Part>,
}

impl Together {
    /// The processor of the member with this number, if they are bound: one of its own where there are
    /// enough; else they share them evenly.
    fn cpu(&self, bound: Option<usize>, number: usize) -> Option<usize> {
        bound.and_then(|_| self.cpus.get(number % self.cpus.len().max(1)).copied())
    }
}

/// What is at one store at once: so many processes, or so many threads of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum By {
    Processes,
    Threads,
}

impl By {
    /// The name in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            By::Processes => "processes",
            By::Threads => "threads",
        }
    }
}

/// Readers that are to be measured; those that commit in the phase `insert-sync`, or do a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) phase: Phase,
    pub(crate) by: By,
    pub(crate) readers: usize,
    pub(crate) with_writer: bool,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = if self.with_writer { " and a writer" } else { "" };
        write!(f, "{} {}{beside}", self.readers, self.by.name())
    }
}

impl Group {
    /// What the reader with this number does of what all do at a rate.
    fn share(&self, number: usize) -> Share {
        Share { number, of: self.readers }
    }
}

/// What a process that takes part does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Looks up what this phase looks up; beside a writer, or not; of lookups at a rate so many.
    Reader(Phase, bool, Share),
    /// Stores values.
    Writer,
    /// Does in this run what the one with this number of the group does, which changes a store.
    Changer(Group, Run, usize),
    /// Has the threads of this group, and measures them.
    Threads(Group),
}

/// What a group that changes a store does with it, each time with a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Run {
    /// Every answer is compared.
    Compared,
    /// All is timed.
    Timed,
    /// Single operations are timed.
    Singly,
    /// Operations start at a rate.
    AtRate,
}

/// What a member says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// The store is open, and the answers before the start were compared.
    Ready,
    /// The clock has stopped, or may: a reader goes on until it is told to stop, and who changes a store closes
    /// it then.
    Enough,
    /// The work has ended.
    Done(Box<Done>),
    /// The threads of this process have ended.
    Measured(Box<Throughput>),
    /// The store refused; nothing more comes.
    Failed(String),
}

/// What a member did while its clock ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) ops: u64,
    pub(super) seconds: f64,
    /// Lookups of one pass, and how many of them found a value.
    pub(super) lookups: u64,
    pub(super) found: u64,
    /// Latencies of single operations of its part of a mix.
    pub(super) operation_latencies: StepLatencies,
    /// What its share of all operations at a rate gave.
    pub(super) at_rate: Option<AtRate>,
    /// Of a process that changes a store: its calls that bring something to the disk.
    pub(super) syncs: u64,
    pub(super) wrong: Option<String>,
}

impl Done {
    fn per_second(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }
}

/// What a group did in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) group: Group,
    /// The processors that all members together ran on.
    pub(crate) processors: usize,
    /// Lookups of all readers while their clocks ran; changes of all that commit, operations of all that do
    /// a mix.
    pub(crate) ops: u64,
    /// The sum over the readers; of those that commit or do a mix, all of them in the time of the slowest.
    pub(crate) per_second: f64,
    /// Of the writer.
    pub(crate) writes_per_second: Option<f64>,
    /// Of those that commit, each change durably: calls that bring something to the disk.
    pub(crate) syncs: Option<u64>,
    /// Of those that commit or do a mix: transactions that change something.
    pub(crate) commits: u64,
    pub(crate) lookups: u64,
    pub(crate) found: u64,
    /// Of a mix, latencies of single operations of all that do it; empty where nobody asks for them.
    pub(crate) operation_latencies: StepLatencies,
    /// What all readers gave together at a rate; all that commit or do a mix.
    pub(crate) at_rate: Option<AtRate>,
    /// The first wrong answer, in words; `None` if all were right.
    pub(crate) wrong: Option<String>,
}

/// Whether stores of this kind are read so.
pub(crate) fn allows<D: Driver>(by: By, with_writer: bool) -> bool {
    match by {
        By::Processes => D::SHARING.allows(with_writer),
        By::Threads => D::THREADS != Threads::One && (D::HAS_WRITER_THREAD || !with_writer),
    }
}

impl<D: Driver> Round<'_, D> {
    /// All that is asked for, for every phase of single or batched lookups: first without a writer,
    /// as that one leaves other values behind.
    pub(super) fn together(&self, say: &dyn Fn(&Message) -> Result<()>) -> Result<()> {
        let Together { processes, threads, with_writer, .. } = &self.spec.together;
        for writer in [false, true] {
            if writer && !with_writer {
                continue;
            }
            for phase in self.spec.phases.iter().filter(|phase| phase.is_get()) {
                for (by, counts) in [(By::Processes, processes), (By::Threads, threads)] {
                    let is_possible = allows::<D>(by, writer);
                    for readers in counts.iter().filter(|_| is_possible) {
                        let group =
                            Group { phase: *phase, by, readers: *readers, with_writer: writer };
                        self.measure_group(group, say)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Measures a group, and says what came of it.
    fn measure_group(&self, group: Group, say: &dyn Fn(&Message) -> Result<()>) -> Result<()> {
        if self.spec.together.without.contains(&group) {
            return Ok(());
        }
        say(&Message::Gathered(group))?;
        say(&match self.group(group) {
            Ok(measured) => Message::Together(Box::new(measured)),
            Err(e) => Message::Dispersed(group, self.told(&e)),
        })
    }

    /// Measures a group, by processes that it starts.
    fn group(&self, group: Group) -> Result<Throughput> {
        let spec = self.spec;
        if group.by == By::Threads {
            // A process of its own: libraries are slower for ever in one that has had threads.
            let mut process =
                Process::start(spec, "the threads' process".to_owned(), 0, Part::Threads(group))?;
            return process.expect(|word| match word {
                Word::Measured(measured) => Some(*measured),
                _ => None,
            });
        }
        if group.phase.is_changing() {
            return self.changers(group);
        }
        let mut writer = None;
        if group.with_writer {
            let number = group.readers;
            writer = Some(ready(Process::start(spec, writer_name(), number, Part::Writer)?)?);
        }
        let start = |number| {
            let part = Part::Reader(group.phase, group.with_writer, group.share(number));
            Process::start(spec, reader_name(number, &group), number, part)
        };
        let readers = (0..group.readers).map(start).collect::<Result<_>>()?;
        conduct(spec, group, readers, writer)
    }

    /// Measures a group, by threads of this process.
    fn threads(&self, group: Group) -> Result<Throughput> {
        let spec = self.spec;
        let reads = Reads::new(group.phase, spec, self.inputs, group.with_writer);
        let writes = Writes { records: &self.inputs.records, seed: spec.seed };
        let mut crew =
            self.driver.crew(&self.path, &self.shape, group.readers, group.with_writer)?;
        let bind = |number| spec.together.cpu(spec.cpu, number).map_or(Ok(()), kernel::pin_to);
        let (reads, writes, bind) = (&reads, &writes, &bind);
        std::thread::scope(|scope| {
            let mut writer = None;
            if let Some(handle) = &mut crew.writer {
                let (member, mut to) = member::thread(writer_name());
                scope.spawn(move || {
                    let done = bind(group.readers)
                        .and_then(|()| writes.until_told(handle.store(), &mut to));
                    to.end(done)
                });
                writer = Some(ready(member)?);
            }
            let mut readers = Vec::with_capacity(group.readers);
            for (number, handle) in crew.readers.iter_mut().enumerate() {
                let (member, mut to) = member::thread(reader_name(number, &group));
                let share = group.share(number);
                scope.spawn(move || {
                    let done = bind(number)
                        .and_then(|()| reads.until_told(handle.store(), share, &mut to));
                    to.end(done)
                });
                readers.push(member);
            }
            conduct(spec, group, readers, writer)
        })
    }
}

fn reader_name(number: usize, group: &Group) -> String {
    let what = if group.by == By::Threads { "reading thread" } else { "reader" };
    format!("{what} {} of {}", number + 1, group.readers)
}

fn writer_name() -> String {
    "the writer".to_owned()
}

/// Waits until this one has said so.
fn ready<M: Member>(mut member: M) -> Result<M> {
    member.expect(|word| matches!(word, Word::Ready).then_some(()))?;
    Ok(member)
}

/// Waits until all have said so.
fn enough<M: Member>(members: &mut [M]) -> Result<()> {
    let said = |word| matches!(word, Word::Enough).then_some(());
    members.iter_mut().try_for_each(|member| member.expect(said))
}

/// What is wrong first with what members did, in words.
fn wrong<'a, M: Member + 'a>(
    mut members: impl Iterator<Item = (&'a M, &'a Done)>,
) -> Option<String> {
    members.find_map(|(member, done)| {
        done.wrong.as_ref().map(|what| format!("{}: {what}", member.name()))
    })
}

/// Lets readers go, and a writer that is ready, and adds up what they did.
fn conduct<M: Member>(
    spec: &Spec,
    group: Group,
    readers: Vec<M>,
    mut writer: Option<M>,
) -> Result<Throughput> {
    let mut readers = readers.into_iter().map(ready).collect::<Result<Vec<M>>>()?;
    writer.iter_mut().chain(&mut readers).for_each(Member::tell);
    enough(&mut readers)?;
    // Its clock stops with theirs; it goes on until they have ended.
    writer.iter_mut().for_each(Member::tell);
    if spec.rate_of(group.phase).is_some() {
        // They have stopped when they are ready for the rate, and end by themselves once they are let go.
        readers.iter_mut().for_each(Member::tell);
        readers = readers.into_iter().map(ready).collect::<Result<_>>()?;
    }
    let done = all_done(&mut readers)?;
    let written = all_done(writer.as_mut_slice())?;
    let members = readers.iter().zip(&done).chain(writer.iter().zip(&written));
    let at_rate: Vec<&AtRate> = done.iter().filter_map(|done| done.at_rate.as_ref()).collect();
    let at_rate = (!at_rate.is_empty()).then(|| AtRate::of_all(at_rate.iter().copied()));
    let wrong_at_rate = at_rate.as_ref().and_then(|at_rate| at_rate.wrong.clone());
    let count = group.readers + usize::from(group.with_writer);
    Ok(Throughput {
        group,
        processors: spec.together.cpus.len().min(count).max(1),
        ops: done.iter().map(|done| done.ops).sum(),
        per_second: done.iter().map(Done::per_second).sum(),
        writes_per_second: written.first().map(Done::per_second),
        syncs: None,
        commits: 0,
        lookups: done.iter().map(|done| done.lookups).sum(),
        found: done.iter().map(|done| done.found).sum(),
        operation_latencies: StepLatencies::new(),
        at_rate,
        wrong: wrong(members).or(wrong_at_rate),
    })
}

/// Tells members to do the last thing, to stop as a rule, and waits until they have.
fn all_done<M: Member>(members: &mut [M]) -> Result<Vec<Done>> {
    members.iter_mut().for_each(Member::tell);
    let done = |word| if let Word::Done(done) = word { Some(*done) } else { None };
    members.iter_mut().map(|member| member.expect(done)).collect()
}
