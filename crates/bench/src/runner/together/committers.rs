//! Several processes or threads that commit to one new store: `insert-sync` by each of them, at once.
//!
//! Each stores its own part of the records, of which there are so many for each as the phase has with one
//! thread; each change is on the disk when its call has returned.
//!
//! At a rate the same is done once more at another new store: the schedule of all is dealt to them in turn, and
//! the latencies are what comes of it.
//!
//! Every record that any of them stored must then be there, by lookups and by a scan, before the store is
//! closed and after it was opened again.

use super::super::changes::{Insert, SYNCED_OPERATIONS, Work, check_keys};
use super::super::child::Round;
use super::super::mixed::StepLatencies;
use super::super::open_loop::changing::Inserts;
use super::super::open_loop::{Rate, Share};
use super::super::passes;
use super::super::protocol::{Sample, Spec};
use super::changers::{Changed, by_processes, by_threads};
use super::member::Member;
use super::{By, Coordinator, Done, Group, Run, Throughput};
use crate::driver::{Driver, Reading, Writer};
use crate::workload::{Phase, Records};
use credenza::Result;

impl<D: Driver> Round<'_, D> {
    /// Measures such a group.
    pub(super) fn committers(&self, group: Group) -> Result<Throughput> {
        let spec = self.spec;
        let (records, timed) = self.commit(group, Run::Timed)?;
        let mut at_rate = None;
        if spec.rate.is_some() {
            at_rate = Some(self.commit(group, Run::AtRate)?.1.at_rate());
        }
        let wrong_at_rate = at_rate.as_ref().and_then(|at_rate| at_rate.wrong.clone());
        Ok(Throughput {
            group,
            processors: spec.together.cpus.len().min(group.readers).max(1),
            ops: records as u64,
            per_second: timed.per_second(records),
            writes_per_second: None,
            syncs: Some(timed.syncs),
            commits: records as u64,
            lookups: 0,
            found: 0,
            operation_latencies: StepLatencies::new(),
            at_rate,
            wrong: timed.wrong.or(wrong_at_rate),
        })
    }

    /// What the process with this number of such a group does.
    pub(super) fn committer(
        &self,
        group: Group,
        run: Run,
        number: usize,
        to: &mut impl Coordinator,
    ) -> Result<Done> {
        let records = &self.records_of(group, run)?;
        let part = StorePart { spec: self.spec, records, run, share: group.share(number) };
        self.beside_others(true, to, |store, to| part.run(store, to))
    }

    /// The records that a group stores in a run.
    pub(super) fn records_of(&self, group: Group, run: Run) -> Result<Records> {
        let (all, count) = (&*self.records_to_commit()?, group.readers);
        match self.spec.rate.filter(|_| run == Run::AtRate) {
            Some(rate) => all.first(rate.changes(all.len(), count)),
            None => all.first(SYNCED_OPERATIONS * count),
        }
    }

    /// Has the group store its records, of which there are so many, in a new store.
    fn commit(&self, group: Group, run: Run) -> Result<(usize, Changed)> {
        let (spec, records) = (self.spec, &self.records_of(group, run)?);
        if group.by == By::Processes {
            let start = |number| self.start(group, run, number);
            return Ok((records.len(), self.commit_by_processes(group, records, start)?));
        }
        self.empty_folder()?;
        let mut crew = self.driver.committers(&self.path, &self.shape, group.readers, true)?;
        let ran = by_threads(spec, group, &mut crew, |number, store, to| {
            StorePart { spec, records, run, share: group.share(number) }.run(store, to)
        })?;
        let wrong = self.wrong_afterwards(crew.into_owner(), records)?;
        Ok((records.len(), Changed { wrong: ran.wrong.or(wrong), ..ran }))
    }

    /// The same by processes, each of which `start` starts, that store these records.
    pub(super) fn commit_by_processes<M: Member>(
        &self,
        group: Group,
        records: &Records,
        start: impl FnMut(usize) -> Result<M>,
    ) -> Result<Changed> {
        self.empty_folder()?;
        self.driver.create_one_by_one(&self.path, &self.shape, true)?.close()?;
        let ran = by_processes(group, start)?;
        let store = self.driver.reopen_one_by_one(&self.path, &self.shape, true)?;
        let wrong = self.wrong_afterwards(store, records)?;
        Ok(Changed { wrong: ran.wrong.or(wrong), ..ran })
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

/// What one of them does.
struct StorePart<'a> {
    spec: &'a Spec,
    records: &'a Records,
    run: Run,
    share: Share,
}

impl StorePart<'_> {
    /// Stores its share of the records.
    fn run<W: Writer>(&self, store: &mut W, to: &mut impl Coordinator) -> Result<Done> {
        let &StorePart { spec, records, run, share } = self;
        let rate: Option<&Rate> = spec.rate.as_ref().filter(|_| run == Run::AtRate);
        match rate {
            None => {
                to.ready()?;
                for (key, value) in share.take(records.iter()) {
                    store.insert(key, value)?;
                }
                Ok(Done::default())
            }
            Some(rate) => {
                let &Spec { seed, clock_ns, .. } = spec;
                let inserts = Inserts { rate, share, records, seed, clock_ns };
                let at_rate = Some(inserts.run(store, || to.ready())?);
                Ok(Done { at_rate, ..Done::default() })
            }
        }
    }
}
