//! The phases that change a store: three of insertion, reinsert, remove; [`super::mixed`] has those of
//! mixes.
//!
//! Each is a [`Work`] that is done on stores of its own: opened new and, but for insertion, filled
//! before the clock starts. Small work is repeated on further new stores until enough operations
//! were timed. After the clock has stopped every key is looked up in the open store, then the
//! store is closed, measured, opened for reading and read through: both must be as the data say.
//!
//! Invariant: for every store a timed loop does the same besides the store's own work, as in
//! [`super::passes`].

use super::child::{Round, ns_per_op};
use super::kept;
use super::mixed;
use super::own_counters::OwnCounters;
use super::passes::{self, Total};
use super::protocol::{Sample, Spec};
use crate::driver::{Changes, Driver, Reading, Store, Writer};
use crate::measure::timeline::Timeline;
use crate::measure::{self, Footprint, Latencies, Meter};
use crate::result::Effort;
use crate::workload::{Action, Content, Phase, Queries, Records};
use credenza::{Error, Result};
use std::borrow::Cow;
use std::time::Instant;

/// Operations that are timed at least, on as many new stores as that takes; fewer where the program
/// is built for debugging, and only tested: some stores take long to be made.
pub(super) const TIMED_OPERATIONS: usize = if cfg!(debug_assertions) { 10_000 } else { 100_000 };
/// New stores at most: each takes up to a millisecond to be made, and with a single record a phase took minutes.
const MOST_STORES: usize = 1000;
/// Operations of `insert-sync` at most, of one thread: a disk may take ten milliseconds for each.
pub(super) const SYNCED_OPERATIONS: usize = 1000;
/// How often `reinsert` stores a value for every key. An odd number: every second pass brings the
/// first values back, so that in the end every key has its other value.
const REINSERT_PASSES: usize = 3;

/// On how many new stores work of so many operations is timed.
pub(super) fn stores_for(operations: usize) -> usize {
    TIMED_OPERATIONS.div_ceil(operations.max(1)).min(MOST_STORES)
}

/// What a timed loop adds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) total: Total,
    /// What scans give: apart from the rest, as it may depend on what others do.
    pub(super) scanned: Total,
    pub(super) removed: u64,
}

/// What a phase does to a store.
pub(super) trait Work {
    /// Whether the store holds all records before.
    const IS_FILLED: bool;

    fn operations(&self) -> usize;

    /// How many commits that is, where each change is one that is in no transaction of several.
    fn commits(&self) -> usize {
        self.operations()
    }

    /// What is timed; `watch` is told of each operation that has ended.
    fn run<W: Writer, O: Watch>(&self, store: &mut W, watch: &mut O) -> Result<Outcome>;

    /// What [`Work::run`] adds up to if every answer is right.
    fn outcome(&self) -> Outcome;

    /// Keys that the store may hold afterwards.
    fn keys(&self) -> usize;

    /// One of these keys, with the value it has afterwards; of several the first.
    fn after(&self, i: usize) -> (&[u8], Option<Cow<'_, [u8]>>);

    /// All that the store holds afterwards. This one is for keys of one value.
    fn content(&self) -> Content {
        let mut content = Content::default();
        for (key, value) in (0..self.keys()).map(|i| self.after(i)) {
            if let Some(value) = value {
                content.add(key, &value);
            }
        }
        content
    }
}

/// Who looks on while operations are done one after the other.
pub(super) trait Watch {
    /// The first one is to begin.
    fn begin(&mut self);

    /// One has ended, and the next one begins.
    fn ended(&mut self, action: Action);
}

/// Nobody: what is timed has nothing of it in it.
impl Watch for () {
    #[inline(always)]
    fn begin(&mut self) {}

    #[inline(always)]
    fn ended(&mut self, _: Action) {}
}

/// Over time.
impl Watch for Timeline {
    fn begin(&mut self) {
        self.begin();
    }

    fn ended(&mut self, action: Action) {
        self.ended(action.name());
    }
}

/// Over time and all together.
struct Each {
    timeline: Timeline,
    latencies: Latencies,
}

impl Watch for Each {
    fn begin(&mut self) {
        self.timeline.begin();
    }

    fn ended(&mut self, action: Action) {
        let ns = self.timeline.ended(action.name());
        self.latencies.record(ns);
        self.timeline.begin();
    }
}

impl<D: Driver> Round<'_, D> {
    /// One phase that changes stores.
    pub(super) fn change(&self, phase: Phase) -> Result<Sample> {
        let records = &self.inputs.records;
        match phase {
            Phase::Insert => self.measure(phase, &Insert { records, order: records }),
            Phase::InsertEach if self.shape.keys.is_numbered() => {
                self.measure(phase, &Insert { records, order: records })
            }
            Phase::InsertRandom => {
                let order = &records.shuffled(self.spec.seed)?;
                self.measure(phase, &Insert { records, order })
            }
            Phase::InsertEach => {
                let order = &*self.records_to_commit()?;
                self.measure(phase, &Insert { records, order })
            }
            Phase::InsertSync => {
                let all = &*self.records_to_commit()?;
                let order = &all.first(SYNCED_OPERATIONS)?;
                let insert = Insert { records: order, order };
                let mut sample = match self.spec.latencies {
                    true => self.measure_each(phase, &insert)?,
                    false => self.measure(phase, &insert)?,
                };
                if let Some(rate) = &self.spec.rate {
                    let at_rate = self.inserts_at_rate(rate, all)?;
                    sample.wrong = sample.wrong.or(at_rate.wrong.clone());
                    sample.at_rate = Some(at_rate);
                }
                Ok(sample)
            }
            Phase::Reinsert => {
                let others = &records.with_other_values();
                self.measure(phase, &Reinsert { records, others })
            }
            Phase::Remove => {
                let keys = Queries::of_all(records, self.spec.seed);
                self.measure(phase, &Remove { records, keys })
            }
            Phase::Mixed | Phase::OneMix(_) => self.mixed(phase),
            _ => Err(Error::invalid(format!("'{phase}' changes no store"))),
        }
    }

    /// The records as they are stored that are committed one by one: in random order, if no other was asked for.
    pub(super) fn records_to_commit(&self) -> Result<Cow<'_, Records>> {
        let records = &self.inputs.records;
        match records.are_in_other_order() {
            true => Ok(Cow::Borrowed(records)),
            false => records.shuffled(self.spec.seed).map(Cow::Owned),
        }
    }

    /// Times the work, and every operation by itself: next to a wait for the disk that takes nothing.
    fn measure_each<W: Work>(&self, phase: Phase, work: &W) -> Result<Sample> {
        let timeline = Timeline::new(self.spec.clock_ns);
        let mut each = Each { timeline, latencies: Latencies::new(0.0) };
        let sample = self.measure_watched(phase, work, &mut each)?;
        let over_time = each.timeline.finish().filter(|_| self.spec.over_time);
        Ok(Sample { latencies: each.latencies.counts(), over_time, ..sample })
    }

    /// Times the work, and does it once more on a store of its own to see it over time if that is asked for.
    pub(super) fn measure<W: Work>(&self, phase: Phase, work: &W) -> Result<Sample> {
        let mut sample = self.measure_watched(phase, work, &mut ())?;
        if self.spec.over_time {
            let mut store = self.new_store(phase, W::IS_FILLED)?;
            let mut timeline = Timeline::new(self.spec.clock_ns);
            timeline.begin();
            let outcome = work.run(&mut store, &mut timeline)?;
            // Of a mix each kind of operation has its own.
            if !phase.is_mixed() {
                sample.latencies = timeline.counts();
            }
            sample.over_time = timeline.finish();
            let (is_wrong, expected) = (outcome != work.outcome(), work.outcome());
            let wrong = match is_wrong {
                true => Some(format!("over time, it adds up to {outcome:?}, not {expected:?}")),
                false => check_keys(&mut store, work)?,
            };
            store.close()?;
            sample.wrong = sample.wrong.or(wrong);
        }
        Ok(sample)
    }

    fn measure_watched<W: Work, O: Watch>(
        &self,
        phase: Phase,
        work: &W,
        watch: &mut O,
    ) -> Result<Sample> {
        let stores = match phase {
            _ if self.spec.cold || self.spec.mixes.is_synced(phase) => 1,
            _ => stores_for(work.operations()),
        };
        let content = work.content();
        let mut times = Vec::with_capacity(stores);
        let mut sample = Sample::new(phase, work.operations());
        sample.repeats = stores as u64;
        let footprint = Footprint::start();
        for number in 0..stores {
            let mut store = self.new_store(phase, W::IS_FILLED)?;
            let asks = self.spec.own_counters && number == 0;
            let own_counters = OwnCounters::before(&mut store, asks)?;
            let meter = Meter::start();
            watch.begin();
            let start = Instant::now();
            let outcome = work.run(&mut store, watch)?;
            let elapsed = start.elapsed();
            sample.effort +=
                Effort { commits: work.commits() as u64, ..meter.stop(work.operations()) };
            times.push(ns_per_op(elapsed, work.operations()));
            sample.taken = outcome.total.found + outcome.scanned.found;
            // Later stores find memory that was given back to the allocator, not to the kernel.
            if number == 0 {
                sample.peak_rss_bytes = footprint.peak_rss_bytes();
                sample.own_counters = own_counters.after(&mut store)?;
            }
            if outcome != work.outcome() && sample.wrong.is_none() {
                let expected = work.outcome();
                sample.wrong = Some(format!("the phase adds up to {outcome:?}, not {expected:?}"));
            }
            self.finish(store, work, content, &mut sample)?;
        }
        sample.ns_per_op = measure::median(&mut times);
        Ok(sample)
    }

    /// An empty store in an empty folder, or one with all records, stored here or opened so, and what the
    /// mixes before have left; for a mix opened again if that says so.
    pub(super) fn new_store(&self, phase: Phase, is_filled: bool) -> Result<D::Writer<'_>> {
        self.empty_folder()?;
        let Spec { mixes, cold, .. } = self.spec;
        let (mix, is_synced) = (mixes.of(phase), mixes.is_synced(phase));
        let opened = self.spec.open.as_deref();
        opened.map_or(Ok(()), |place| self.copy_of(place))?;
        if !<D::Writer<'_> as Writer>::IS_POSSIBLE {
            return self.built_once(opened.is_some());
        }
        let class = match phase {
            _ if is_synced => Changes::Sync,
            Phase::InsertEach => Changes::Buffered,
            _ if mix.is_some_and(|mix| mix.transactions.is_some()) => Changes::Buffered,
            _ => Changes::AtClose,
        };
        let is_filled_before = is_filled && is_synced && Self::is_filled_before();
        if is_filled_before {
            self.fill_and_close(opened.is_some())?;
        }
        let mut store = self.opened_for(class, is_filled_before || opened.is_some())?;
        if is_filled && !is_filled_before {
            self.fill(&mut store, opened.is_some(), class != Changes::AtClose)?;
        }
        if mix.is_some_and(|mix| mix.reopen) {
            store.close()?;
            if *cold {
                self.evict()?;
            }
            store = self.opened_for(class, true)?;
        }
        Ok(store)
    }

    /// A store that is built once, for what changes nothing, if it is not there.
    fn built_once(&self, is_there: bool) -> Result<D::Writer<'_>> {
        let (driver, path, shape) = (self.driver, &self.path, &self.shape);
        if !is_there {
            driver.build(&self.inputs.records, shape, path)?;
        }
        if self.spec.cold {
            self.evict()?;
        }
        driver.reopen(path, shape, false)
    }

    /// Opens the store for changes of at least this class, new or where there is one.
    fn opened_for(&self, class: Changes, is_there: bool) -> Result<D::Writer<'_>> {
        let (driver, path, shape) = (self.driver, &self.path, &self.shape);
        match class {
            Changes::Sync => driver.create_durable(path, shape),
            Changes::Buffered if is_there => driver.reopen(path, shape, true),
            Changes::Buffered => driver.create_committing(path, shape),
            _ if is_there => driver.reopen(path, shape, false),
            _ => driver.create(path, shape),
        }
    }

    /// Whether a store whose changes are to be synced is filled before it is opened for them: what has no
    /// transaction for all records would wait for the disk at each.
    pub(super) fn is_filled_before() -> bool {
        !<D::Writer<'_> as Writer>::FILLS_IN_ONE
    }

    /// Fills a store, has nothing of that left for whoever syncs next, and leaves it closed.
    pub(super) fn fill_and_close(&self, is_there: bool) -> Result<()> {
        let mut store = self.opened_for(Changes::AtClose, is_there)?;
        self.fill(&mut store, is_there, false)?;
        store.close()?;
        kept::all_to_disk(&self.spec.folder)
            .map_err(|e| Error::io("bring to the disk what is in", e).at(&self.spec.folder))
    }

    /// Stores all records, if they are not there, and what the mixes before have left; in one transaction,
    /// where there is such a thing, if changes are else one each.
    pub(super) fn fill<W: Writer>(
        &self,
        store: &mut W,
        has_records: bool,
        commits: bool,
    ) -> Result<()> {
        let in_one = commits && W::FILLS_IN_ONE;
        if in_one {
            store.begin()?;
        }
        if !has_records {
            insert_all(store, &self.inputs.records, Action::Insert, &mut ())?;
        }
        self.before.iter().try_for_each(|script| mixed::do_changes(store, script))?;
        store.settle()?;
        if in_one { store.commit() } else { Ok(()) }
    }

    /// Takes the last store away.
    pub(super) fn empty_folder(&self) -> Result<()> {
        self.driver.clear(&self.path, self.inputs.keys())?;
        let folder = &self.spec.folder;
        let emptied = std::fs::remove_dir_all(folder).and_then(|()| std::fs::create_dir(folder));
        emptied.map_err(|e| Error::io("empty", e).at(folder))
    }

    /// Compares what the store holds, before and after closing it, of one in memory twice before; takes its
    /// size when closed.
    pub(super) fn finish<W: Work>(
        &self,
        mut store: D::Writer<'_>,
        work: &W,
        content: Content,
        sample: &mut Sample,
    ) -> Result<()> {
        let mut wrong = check_keys(&mut store, work)?;
        let is_in_memory = self.shape.settings.memory();
        if is_in_memory {
            wrong = wrong.or(passes::check_scan(&mut store, content)?);
        }
        let (meter, start) = (Meter::start(), Instant::now());
        store.close()?;
        let elapsed = start.elapsed();
        let closing = meter.stop(0);
        sample.effort.closing += closing.calls;
        sample.effort.closing_disk_written_bytes += closing.disk_written_bytes;
        sample.effort.closing_ns += u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let size = self.driver.size(&self.path)?;
        sample.file_bytes = sample.file_bytes.max(size.allocated);
        sample.file_length = sample.file_length.max(size.length);
        if !is_in_memory {
            let mut reader = self.driver.open(&self.path, &self.shape, Reading::Warm)?;
            let wrong_later = passes::check_scan(&mut reader, content)?;
            wrong = wrong.or(wrong_later.map(|what| format!("after closing: {what}")));
        }
        sample.wrong = sample.wrong.take().or(wrong);
        Ok(())
    }
}

/// Looks every key up; returns what is wrong first, in words.
pub(super) fn check_keys<W: Work, S: Store>(store: &mut S, work: &W) -> Result<Option<String>> {
    for (key, expected) in (0..work.keys()).map(|i| work.after(i)) {
        if let Some(what) = passes::wrong_answer(store, key, expected.as_deref())? {
            return Ok(Some(format!("afterwards: {what}")));
        }
    }
    Ok(None)
}

#[inline(never)]
fn insert_all<W: Writer, O: Watch>(
    store: &mut W,
    records: &Records,
    action: Action,
    watch: &mut O,
) -> Result<()> {
    for (key, value) in records.iter() {
        store.insert(key, value)?;
        watch.ended(action);
    }
    Ok(())
}

/// Every record into an empty store.
pub(super) struct Insert<'a> {
    pub(super) records: &'a Records,
    /// The same in the order in which they are stored.
    pub(super) order: &'a Records,
}

impl Work for Insert<'_> {
    const IS_FILLED: bool = false;

    fn operations(&self) -> usize {
        self.records.len()
    }

    fn run<W: Writer, O: Watch>(&self, store: &mut W, watch: &mut O) -> Result<Outcome> {
        insert_all(store, self.order, Action::Insert, watch)?;
        Ok(Outcome::default())
    }

    fn outcome(&self) -> Outcome {
        Outcome::default()
    }

    fn keys(&self) -> usize {
        self.records.len()
    }

    fn after(&self, i: usize) -> (&[u8], Option<Cow<'_, [u8]>>) {
        let (key, value) = self.records.get(i);
        (key, Some(value.into()))
    }
}

/// Another value of the same length for every key, in the order of the data, and again.
struct Reinsert<'a> {
    records: &'a Records,
    others: &'a Records,
}

impl Work for Reinsert<'_> {
    const IS_FILLED: bool = true;

    fn operations(&self) -> usize {
        self.records.len() * REINSERT_PASSES
    }

    fn run<W: Writer, O: Watch>(&self, store: &mut W, watch: &mut O) -> Result<Outcome> {
        for pass in 0..REINSERT_PASSES {
            let values = if pass % 2 == 0 { self.others } else { self.records };
            insert_all(store, values, Action::Update, watch)?;
        }
        Ok(Outcome::default())
    }

    fn outcome(&self) -> Outcome {
        Outcome::default()
    }

    fn keys(&self) -> usize {
        self.others.len()
    }

    fn after(&self, i: usize) -> (&[u8], Option<Cow<'_, [u8]>>) {
        let (key, value) = self.others.get(i);
        (key, Some(value.into()))
    }
}

/// Every key, in random order.
struct Remove<'a> {
    records: &'a Records,
    keys: Queries,
}

impl Work for Remove<'_> {
    const IS_FILLED: bool = true;

    fn operations(&self) -> usize {
        self.keys.len()
    }

    #[inline(never)]
    fn run<W: Writer, O: Watch>(&self, store: &mut W, watch: &mut O) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        for key in self.keys.iter() {
            outcome.removed += u64::from(store.remove(key)?);
            watch.ended(Action::Remove);
        }
        Ok(outcome)
    }

    fn outcome(&self) -> Outcome {
        Outcome { removed: self.keys.len() as u64, ..Outcome::default() }
    }

    fn keys(&self) -> usize {
        self.keys.len()
    }

    fn after(&self, i: usize) -> (&[u8], Option<Cow<'_, [u8]>>) {
        (self.records.key(i), None)
    }
}
