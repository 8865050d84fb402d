//! Several threads that commit to one new store: `insert-sync` by each of them, at once.
//!
//! Each thread stores its own part of the records, of which there are so many for each thread as the
//! phase has with one; each change is on the disk when its call has returned. One clock runs from the
//! moment when all are let go to that when the last has ended, so that what a slow one does alone is in
//! the figure. Calls that sync are counted meanwhile: stores that bring the changes of several threads to
//! the disk with one of them show fewer than one for a change.
//!
//! At a rate the same is done once more at another new store: the schedule of all is dealt to the threads
//! in turn, and the latencies are what comes of it.
//!
//! Every record of every thread must then be there, by lookups and by a scan, before the store is closed
//! and after it was opened again.

use super::super::changes::{Insert, SYNCED_OPERATIONS, Work, check_keys};
use super::super::child::Round;
use super::super::mixed::StepLatencies;
use super::super::open_loop::changing::Inserts;
use super::super::open_loop::{AtRate, Rate, Share};
use super::super::passes;
use super::super::protocol::{Message, Sample, Spec};
use super::member::{self, Channel, Member};
use super::{By, Coordinator, Done, Group, Throughput, all_done, not_by_threads, ready};
use crate::driver::{Committers, Driver, Reading, Writer, kernel};
use crate::measure::Meter;
use crate::result::Effort;
use crate::workload::{Phase, Records};
use credenza::Result;
use std::time::{Duration, Instant};

impl<D: Driver> Round<'_, D> {
    /// `insert-sync`, and mixes that threads do, by all numbers of threads that are asked for, each at a new
    /// store, if stores of this kind can do that.
    pub(in super::super) fn committing(&self, say: &dyn Fn(&Message) -> Result<()>) -> Result<()> {
        let Spec { phases, mixes, open, .. } = self.spec;
        let is_done = |phase: &&Phase| match mixes.of(**phase) {
            Some(mix) => not_by_threads(mix, open.is_some()).is_none(),
            None => **phase == Phase::InsertSync,
        };
        let can_do = |phase: &&Phase| D::HAS_COMMITTERS && self.can_do(**phase);
        for phase in phases.iter().filter(is_done).filter(can_do) {
            for threads in &self.spec.together.threads {
                let (phase, readers) = (*phase, *threads);
                let group = Group { phase, by: By::Threads, readers, with_writer: false };
                self.measure_group(group, say)?;
            }
        }
        Ok(())
    }

    /// Measures such a group, by threads of this process.
    pub(super) fn committers(&self, group: Group) -> Result<Throughput> {
        let (spec, count) = (self.spec, group.readers);
        let all = &*self.records_to_commit()?;
        let records = &all.first(SYNCED_OPERATIONS * count)?;
        let Committed { elapsed, effort, wrong, .. } = self.commit(records, count, None)?;
        let mut at_rate = None;
        if let Some(rate) = &spec.rate {
            let records = &all.first(rate.changes(all.len(), count))?;
            at_rate = Some(self.commit(records, count, Some(rate))?.at_rate());
        }
        let wrong_at_rate = at_rate.as_ref().and_then(|at_rate| at_rate.wrong.clone());
        Ok(Throughput {
            group,
            processors: spec.together.cpus.len().min(count).max(1),
            ops: records.len() as u64,
            per_second: records.len() as f64 / elapsed.as_secs_f64().max(1e-9),
            writes_per_second: None,
            syncs: Some(effort.calls.syncs()),
            changes: records.len() as u64,
            lookups: 0,
            found: 0,
            operation_latencies: StepLatencies::new(),
            at_rate,
            wrong: wrong.or(wrong_at_rate),
        })
    }

    /// Has so many threads store these records in a new store, at a rate or as fast as they can.
    fn commit(&self, records: &Records, count: usize, rate: Option<&Rate>) -> Result<Committed> {
        let spec = self.spec;
        self.empty_folder()?;
        let mut crew = self.driver.committers(&self.path, &self.shape, count, true)?;
        let ran = at_once(spec, &mut crew, records.len(), |number, store, to| {
            let share = Share { number, of: count };
            StorePart { spec, records, rate, share }.run(store, to)
        })?;
        let wrong = self.wrong_afterwards(crew.into_owner(), records)?;
        Ok(Committed { wrong: ran.wrong.or(wrong), ..ran })
    }

    /// What is wrong first in a store that all records were stored in, before it is closed and after.
    fn wrong_afterwards(
        &self,
        mut store: D::Writer<'_>,
        records: &Records,
    ) -> Result<Option<String>> {
        let work = Insert { records, order: records };
        let content = work.content();
        let wrong = check_keys(&mut store, &work)?;
        let wrong = wrong.or(passes::check_scan(&mut store, content)?);
        let mut sample = Sample::new(Phase::InsertSync, records.len());
        self.finish(store, &work, content, &mut sample)?;
        let mut reader = self.driver.open(&self.path, &self.shape, Reading::Warm)?;
        let wrong_later = check_keys(&mut reader, &work)?;
        Ok(wrong.or(sample.wrong).or(wrong_later))
    }
}

/// Has each thread of the crew do its part, given its number, which says that it is ready and is then let
/// go with the others; all parts together are so many operations.
pub(super) fn at_once<W: Writer>(
    spec: &Spec,
    crew: &mut Committers<W>,
    operations: usize,
    part: impl Fn(usize, &mut W, &mut Channel) -> Result<Done> + Sync,
) -> Result<Committed> {
    let (count, part) = (crew.handles.len(), &part);
    let bind = &|number| spec.together.cpu(spec.cpu, number).map_or(Ok(()), kernel::pin_to);
    std::thread::scope(|scope| {
        let mut members = Vec::with_capacity(count);
        for (number, handle) in crew.handles.iter_mut().enumerate() {
            let name = format!("committing thread {} of {count}", number + 1);
            let (member, mut to) = member::thread(name);
            scope.spawn(move || {
                let done = bind(number).and_then(|()| part(number, handle.store(), &mut to));
                to.end(done)
            });
            members.push(member);
        }
        let mut members = members.into_iter().map(ready).collect::<Result<Vec<_>>>()?;
        let meter = Meter::start();
        let start = Instant::now();
        let done = all_done(&mut members)?;
        let (elapsed, effort) = (start.elapsed(), meter.stop(operations));
        let wrong = members.iter().zip(&done).find_map(|(member, done)| {
            done.wrong.as_ref().map(|what| format!("{}: {what}", member.name()))
        });
        Ok(Committed { elapsed, effort, done, wrong })
    })
}

/// What came of threads that have committed.
pub(super) struct Committed {
    /// From when all were let go to when the last had ended.
    pub(super) elapsed: Duration,
    pub(super) effort: Effort,
    /// What each of them did.
    pub(super) done: Vec<Done>,
    /// What is wrong first, in words.
    pub(super) wrong: Option<String>,
}

impl Committed {
    /// What all of them gave together at a rate.
    pub(super) fn at_rate(self) -> AtRate {
        let all = AtRate::of_all(self.done.iter().filter_map(|done| done.at_rate.as_ref()));
        let wrong = self.wrong.map(|what| format!("at a rate, {what}"));
        AtRate { wrong: all.wrong.or(wrong), ..all }
    }
}

/// What one of these threads does.
struct StorePart<'a> {
    spec: &'a Spec,
    records: &'a Records,
    rate: Option<&'a Rate>,
    share: Share,
}

impl StorePart<'_> {
    /// Stores its share of the records.
    fn run<W: Writer>(&self, store: &mut W, to: &mut impl Coordinator) -> Result<Done> {
        let &StorePart { spec: &Spec { seed, clock_ns, .. }, records, rate, share } = self;
        match rate {
            None => {
                to.ready()?;
                for (key, value) in share.take(records.iter()) {
                    store.insert(key, value)?;
                }
                Ok(Done::default())
            }
            Some(rate) => {
                let inserts = Inserts { rate, share, records, seed, clock_ns };
                let at_rate = Some(inserts.run(store, || to.ready())?);
                Ok(Done { at_rate, ..Done::default() })
            }
        }
    }
}
