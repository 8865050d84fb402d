//! Several threads that commit to one new store: `insert-sync` by each of them, at once.
//!
//! Each thread stores its own part of the records, of which there are so many for each thread as the
//! phase has with one; each change is on the disk when its call has returned. One clock runs from the
//! moment when all are let go to that when the last has ended, so that what a slow one does alone is in
//! the figure. Calls that sync are counted meanwhile: stores that bring the changes of several threads to
//! the disk with one of them show fewer than one for a change.
//!
//! Every record of every thread must then be there, by lookups and by a scan, before the store is closed
//! and after it was opened again.

use super::super::changes::{Insert, SYNCED_OPERATIONS, Work, check_keys};
use super::super::child::Round;
use super::super::passes;
use super::super::protocol::{Message, Sample};
use super::member::{self, Member};
use super::{By, Coordinator, Done, Group, Throughput, Word, ready};
use crate::driver::{Driver, Reading, Writer, kernel};
use crate::measure::Meter;
use crate::workload::{Phase, Records};
use credenza::Result;
use std::time::Instant;

impl<D: Driver> Round<'_, D> {
    /// `insert-sync` by all numbers of threads that are asked for, each at a new store, if stores of this
    /// kind can do that.
    pub(in super::super) fn committing(&self, say: &dyn Fn(&Message) -> Result<()>) -> Result<()> {
        let phase = Phase::InsertSync;
        let is_wanted = self.spec.phases.contains(&phase) && D::HAS_COMMITTERS;
        for threads in self.spec.together.threads.iter().filter(|_| is_wanted) {
            let group = Group { phase, by: By::Threads, readers: *threads, with_writer: false };
            self.measure_group(group, say)?;
        }
        Ok(())
    }

    /// Measures such a group, by threads of this process.
    pub(super) fn committers(&self, group: Group) -> Result<Throughput> {
        let (spec, count) = (self.spec, group.readers);
        let records = &self.inputs.records.shuffled(spec.seed)?.first(SYNCED_OPERATIONS * count)?;
        self.empty_folder()?;
        let mut crew = self.driver.committers(&self.path, &self.shape, count)?;
        let bind = &|number| spec.together.cpu(spec.cpu, number).map_or(Ok(()), kernel::pin_to);
        let (elapsed, effort) = std::thread::scope(|scope| {
            let mut members = Vec::with_capacity(count);
            for (number, handle) in crew.handles.iter_mut().enumerate() {
                let name = format!("committing thread {} of {count}", number + 1);
                let (member, mut to) = member::thread(name);
                scope.spawn(move || {
                    let store = handle.store();
                    let done = bind(number)
                        .and_then(|()| store_part(store, records, number, count, &mut to));
                    to.end(done)
                });
                members.push(member);
            }
            let mut members = members.into_iter().map(ready).collect::<Result<Vec<_>>>()?;
            let meter = Meter::start();
            let start = Instant::now();
            members.iter_mut().for_each(Member::tell);
            let done = |word| matches!(word, Word::Done(_)).then_some(());
            members.iter_mut().try_for_each(|member| member.expect(done))?;
            Ok::<_, credenza::Error>((start.elapsed(), meter.stop(records.len())))
        })?;
        let wrong = self.wrong_afterwards(crew.into_owner(), records)?;
        Ok(Throughput {
            group,
            processors: spec.together.cpus.len().min(count).max(1),
            ops: records.len() as u64,
            per_second: records.len() as f64 / elapsed.as_secs_f64().max(1e-9),
            writes_per_second: None,
            syncs: Some(effort.calls.syncs()),
            lookups: 0,
            found: 0,
            at_rate: None,
            wrong,
        })
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

/// Stores every record whose number leaves `number` when divided by `count`.
fn store_part<W: Writer>(
    store: &mut W,
    records: &Records,
    number: usize,
    count: usize,
    to: &mut impl Coordinator,
) -> Result<Done> {
    to.say(Word::Ready)?;
    to.wait()?;
    for i in (number..records.len()).step_by(count) {
        let (key, value) = records.get(i);
        store.insert(key, value)?;
    }
    Ok(Done::default())
}
