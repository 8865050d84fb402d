//! The measured process: one store, one round, all phases.
//!
//! Order within a phase that reads: open, compare every answer, one untimed pass, the timed passes,
//! the sampled latencies, close. With a cold cache the timed pass comes first and there is one.
//! The phases that change a store come last, each with new stores: see [`super::changes`]. They
//! follow all that read, as they take the built store's place.

use super::limit::Groups;
use super::open_loop::reading::{Asked, Reads};
use super::open_loop::{AtRate, Share};
use super::oracle;
use super::own_counters::OwnCounters;
use super::passes::{self, Checker, Total};
use super::process::follow_parent;
use super::protocol::{self, Message, Sample, Spec, say};
use super::room;
use super::singly::Singly;
use super::together::{Coordinator, Pipes};
use crate::driver::{Driver, ForDriver, Reading, Shape, Store, can_do, kernel, with_driver};
use crate::measure::{self, Footprint, Latencies, Meter};
use crate::result::{Effort, OwnCounter};
use crate::workload::changes::Script;
use crate::workload::{Content, Inputs, Phase, Queries};
use credenza::{Error, Result};
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The name of a store's file, or folder, in the folder that it has for itself.
pub(crate) const STORE: &str = "store";
/// Timed passes of a phase; their median is the round's figure.
pub(super) const PASSES: usize = 3;
/// No further pass begins when the timed ones together took so long.
const PASSES_TIME: Duration = Duration::from_secs(3);

/// Reads a [`Spec`], a line, from standard input, does it, and says what came of it on standard output.
pub(crate) fn main() -> Result<()> {
    follow_parent()?;
    let mut text = String::new();
    std::io::stdin().read_line(&mut text).map_err(|e| Error::io("read input", e))?;
    let spec: Spec = protocol::parsed(&text)?;
    if spec.together.part.is_some() {
        return do_part(&spec);
    }
    measure(&spec)
}

/// Does what a process is told, and says what came of it.
pub(crate) fn measure(spec: &Spec) -> Result<()> {
    match do_spec(spec, &say) {
        Ok(()) => say(&Message::Finished),
        Err(e) => say(&Message::Failed(e.to_string())),
    }
}

fn do_spec(spec: &Spec, say: &dyn Fn(&Message) -> Result<()>) -> Result<()> {
    if let Some(cpu) = spec.cpu {
        kernel::pin_to(cpu)?;
    }
    let inputs = Inputs::load(&spec.inputs)?;
    spec.groups.as_ref().map_or(Ok(()), Groups::enter)?;
    if let Some(oracle) = &spec.oracle {
        return say(&Message::Compared(oracle::compare(spec, oracle, &inputs)?));
    }
    let work = Work { spec, inputs: &inputs, say };
    with_driver(&spec.store, work)
        .unwrap_or_else(|| Err(Error::invalid(format!("there is no store '{}'", spec.store))))
}

/// Does what one of several processes does, and says so.
fn do_part(spec: &Spec) -> Result<()> {
    let work =
        prepared(spec).map(|inputs| with_driver(&spec.store, Member { spec, inputs: &inputs }));
    match work {
        Ok(Some(done)) => done,
        Ok(None) => Pipes.end(Err(Error::invalid(format!("there is no store '{}'", spec.store)))),
        Err(e) => Pipes.end(Err(e)),
    }
}

/// What one of several processes needs before it has the limits that its stores are to have.
fn prepared(spec: &Spec) -> Result<Inputs> {
    spec.cpu.map_or(Ok(()), kernel::pin_to)?;
    spec.groups.as_ref().map_or(Ok(()), Groups::leave)?;
    let inputs = Inputs::load(&spec.inputs)?;
    spec.groups.as_ref().map_or(Ok(()), Groups::enter)?;
    Ok(inputs)
}

struct Member<'a> {
    spec: &'a Spec,
    inputs: &'a Inputs,
}

impl ForDriver for Member<'_> {
    type Output = Result<()>;

    fn run<D: Driver>(self) -> Result<()> {
        match D::load(self.spec.library.as_deref()) {
            Ok(driver) => Round::new(&driver, self.spec, self.inputs).part(&mut Pipes),
            Err(e) => Pipes.end(Err(e)),
        }
    }
}

struct Work<'a> {
    spec: &'a Spec,
    inputs: &'a Inputs,
    say: &'a dyn Fn(&Message) -> Result<()>,
}

impl ForDriver for Work<'_> {
    type Output = Result<()>;

    fn run<D: Driver>(self) -> Result<()> {
        let driver = D::load(self.spec.library.as_deref())?;
        Round::new(&driver, self.spec, self.inputs).run(self.say)
    }
}

/// One round of one store.
pub(super) struct Round<'a, D> {
    pub(super) driver: &'a D,
    pub(super) spec: &'a Spec,
    pub(super) inputs: &'a Inputs,
    pub(super) shape: Shape,
    pub(super) path: PathBuf,
    pub(super) content: Content,
    /// What is done to a store that is filled, besides: the mixes before the one that is measured.
    pub(super) before: &'a [Script],
}

/// What a phase gave, before it is put together with what all phases have.
struct Timed {
    ops: usize,
    ns_per_op: f64,
    latencies: Vec<(u64, u64)>,
    at_rate: Option<AtRate>,
    found: Option<u64>,
    taken: u64,
    effort: Effort,
    own_counters: Vec<OwnCounter>,
    wrong: Option<String>,
}

impl<'a, D: Driver> Round<'a, D> {
    pub(super) fn new(driver: &'a D, spec: &'a Spec, inputs: &'a Inputs) -> Self {
        Round {
            driver,
            spec,
            inputs,
            shape: Shape { settings: spec.settings.of(&spec.store), ..Shape::of(&inputs.records) },
            content: inputs.records.content(),
            before: &[],
            path: spec.folder.join(STORE),
        }
    }

    /// Builds the store if it is read, or opens one, and measures all phases that are asked for and that the
    /// store can do. A phase that the store refuses takes no other with it, unless it is the build.
    pub(super) fn run(&self, say: &dyn Fn(&Message) -> Result<()>) -> Result<()> {
        let phases = &self.spec.phases;
        let mut is_built = false;
        if let Some(place) = &self.spec.open {
            self.take(place)?;
            is_built = true;
        } else if phases.iter().any(|phase| !phase.is_changing()) {
            say(&Message::Started(Phase::Build))?;
            let built = self.with_footprint(Phase::Build, || self.build());
            match built {
                Ok(sample) => {
                    is_built = true;
                    let kept = self.keep(&sample);
                    if phases.contains(&Phase::Build) {
                        say(&Message::Measured(Box::new(sample)))?;
                    }
                    if let Err(e) = kept {
                        say(&Message::Amiss(Phase::Build, e.to_string()))?;
                    }
                }
                Err(e) => say(&Message::Refused(Phase::Build, self.told(&e)))?,
            }
        }
        let (changing, reading): (Vec<Phase>, Vec<Phase>) = phases
            .iter()
            .filter(|phase| **phase != Phase::Build && self.can_do(**phase))
            .partition(|phase| phase.is_changing());
        if is_built {
            reading.iter().try_for_each(|phase| self.measure_and_say(*phase, say))?;
            self.together(say)?;
        }
        changing.iter().try_for_each(|phase| self.measure_and_say(*phase, say))?;
        self.committing(say)
    }

    fn measure_and_say(&self, phase: Phase, say: &dyn Fn(&Message) -> Result<()>) -> Result<()> {
        say(&Message::Started(phase))?;
        say(&match self.measure_one(phase) {
            Ok(sample) => Message::Measured(Box::new(sample)),
            Err(e) => Message::Refused(phase, self.told(&e)),
        })
    }

    /// What the store says that failed, in words, with what to do where its folder is full.
    pub(super) fn told(&self, error: &Error) -> String {
        room::told(error, &self.spec.folder, self.spec.advice)
    }

    pub(super) fn can_do(&self, phase: Phase) -> bool {
        can_do::<D>(phase, &self.spec.mixes, self.spec.open.is_some())
    }

    /// Any phase but the build.
    fn measure_one(&self, phase: Phase) -> Result<Sample> {
        if phase.is_changing() {
            return self.change(phase);
        }
        if self.spec.cold {
            self.evict()?;
        }
        let sample = self.with_footprint(phase, || self.read(phase))?;
        if self.spec.over_time { self.with_reads_over_time(phase, sample) } else { Ok(sample) }
    }

    /// Drops every page of the store's files from memory.
    pub(super) fn evict(&self) -> Result<()> {
        let files = measure::files_in(&self.spec.folder)?;
        files.iter().try_for_each(|file| kernel::evict(file))
    }

    fn with_footprint(
        &self,
        phase: Phase,
        measured: impl FnOnce() -> Result<Timed>,
    ) -> Result<Sample> {
        let footprint = Footprint::start();
        let timed = measured()?;
        let size = self.driver.size(&self.path)?;
        Ok(Sample {
            ns_per_op: timed.ns_per_op,
            latencies: timed.latencies,
            at_rate: timed.at_rate,
            found: timed.found,
            lookups: timed.found.map_or(0, |_| timed.ops as u64),
            taken: timed.taken,
            file_bytes: size.allocated,
            file_length: size.length,
            peak_rss_bytes: footprint.peak_rss_bytes(),
            effort: timed.effort,
            own_counters: timed.own_counters,
            wrong: timed.wrong,
            ..Sample::new(phase, timed.ops)
        })
    }

    fn build(&self) -> Result<Timed> {
        let (records, meter) = (&self.inputs.records, Meter::start());
        let start = Instant::now();
        self.driver.build(records, &self.shape, &self.path)?;
        let built = start.elapsed();
        // What follows is the workbench's own.
        let effort = meter.stop(records.len());
        let start = Instant::now();
        if self.spec.sync {
            for file in measure::files_in(&self.spec.folder)? {
                let synced = File::open(&file).and_then(|f| f.sync_data());
                synced.map_err(|e| Error::io("bring to disk", e).at(&file))?;
            }
        }
        let elapsed = built + start.elapsed();
        let mut store = self.driver.open(&self.path, &self.shape, Reading::Warm)?;
        Ok(Timed {
            ops: records.len(),
            ns_per_op: ns_per_op(elapsed, records.len()),
            latencies: Vec::new(),
            at_rate: None,
            found: None,
            taken: 0,
            effort,
            own_counters: Vec::new(),
            wrong: passes::check_scan(&mut store, self.content)?,
        })
    }

    /// Brings a store that is to be warm into memory by its own call for that, if it has one. Others were written just now, and are
    /// in memory.
    pub(super) fn preload<S: Store>(&self, store: &mut S) -> Result<()> {
        let is_wanted = S::PRELOADS && !self.spec.cold;
        if is_wanted { store.preload(&self.spec.folder) } else { Ok(()) }
    }

    /// How the store is opened to be read.
    pub(super) fn reading(&self) -> Reading {
        match (self.spec.cold, self.spec.read_ahead) {
            (false, _) => Reading::Warm,
            (true, false) => Reading::ColdRandom,
            (true, true) => Reading::ColdNormal,
        }
    }

    fn read(&self, phase: Phase) -> Result<Timed> {
        let mut reader = Reader {
            store: self.driver.open(&self.path, &self.shape, self.reading())?,
            spec: self.spec,
            cold: self.spec.cold,
            inputs: self.inputs,
        };
        self.preload(&mut reader.store)?;
        match phase {
            _ if phase.is_get() => reader.gets(phase, self.inputs.queries.of(phase)),
            Phase::Scan => reader.scan(self.content),
            Phase::Range => reader.ranges(),
            _ => Err(Error::invalid(format!("'{phase}' is no phase that reads"))),
        }
    }
}

/// An open store, and what is done to it.
struct Reader<'a, S> {
    store: S,
    spec: &'a Spec,
    cold: bool,
    inputs: &'a Inputs,
}

impl<S: Store> Reader<'_, S> {
    fn gets(&mut self, phase: Phase, queries: &Queries) -> Result<Timed> {
        let &Spec { batch, clock_ns, .. } = self.spec;
        let expected = Total::expected(queries, &self.inputs.records);
        let mut latencies = Latencies::new(clock_ns);
        let is_timed_singly = self.spec.latencies && (phase.is_single_get() || phase.is_batched());
        let is_cold = self.cold;
        let which = || if is_cold { Singly::all() } else { Singly::some() };
        let singly = |store: &mut S, latencies: &mut Latencies| match phase.is_batched() {
            true => passes::batch_latencies(store, queries, batch, latencies),
            false => passes::latencies(store, queries, which(), latencies),
        };
        let cold_singly = self.cold && is_timed_singly;
        let pass = |store: &mut S, latencies: &mut Latencies| match cold_singly {
            true => singly(store, latencies),
            false => passes::lookups(phase, store, queries, batch),
        };
        let mut checker = Checker::new(queries, &self.inputs.records);
        if !self.cold {
            checker.lookups(phase, &mut self.store, batch)?;
        }
        let mut clock = self.timed(queries.len(), expected, |store| pass(store, &mut latencies))?;
        if self.cold {
            checker.lookups(phase, &mut self.store, batch)?;
        } else if is_timed_singly {
            let total = singly(&mut self.store, &mut latencies)?;
            clock.wrong = clock.wrong.or_else(|| total.unlike(expected, "timed one by one, it"));
        }
        let clock = self.with_rate(phase, Asked::of(phase, queries, batch), clock)?;
        Ok(Timed {
            found: Some(checker.found),
            latencies: latencies.counts(),
            wrong: checker.wrong.or(clock.wrong.clone()),
            ..clock
        })
    }

    /// Adds what comes of the same at a rate, if that is asked for.
    fn with_rate(&mut self, phase: Phase, asked: Asked<'_>, timed: Timed) -> Result<Timed> {
        let Some(rate) = self.spec.rate_of(phase) else { return Ok(timed) };
        let (&Spec { clock_ns, seed, .. }, records) = (self.spec, &self.inputs.records);
        let (share, beside) = (Share::ALL, false);
        let reads = Reads { rate, share, asked, records, seed, clock_ns, beside };
        let at_rate = reads.run(&mut self.store, || Ok(()))?;
        let wrong = timed.wrong.or_else(|| at_rate.wrong.clone());
        Ok(Timed { at_rate: Some(at_rate), wrong, ..timed })
    }

    fn scan(&mut self, content: Content) -> Result<Timed> {
        let records = &self.inputs.records;
        let mut wrong = None;
        if !self.cold {
            wrong = passes::check_scan(&mut self.store, content)?;
        }
        let timed = self.timed(records.len(), Total::of_all(records), passes::scan)?;
        if self.cold {
            wrong = passes::check_scan(&mut self.store, content)?;
        }
        Ok(Timed { wrong: wrong.or(timed.wrong.clone()), ..timed })
    }

    fn ranges(&mut self) -> Result<Timed> {
        let Inputs { records, ranges, .. } = self.inputs;
        let mut wrong = None;
        if !self.cold {
            wrong = passes::check_ranges(&mut self.store, ranges, records)?;
        }
        let expected = Total::of_ranges(ranges, records);
        let pass = |store: &mut S| passes::ranges(store, ranges);
        let mut timed = self.timed(ranges.starts().len(), expected, pass)?;
        let mut latencies = Latencies::new(self.spec.clock_ns);
        if self.cold {
            wrong = passes::check_ranges(&mut self.store, ranges, records)?;
        } else if self.spec.latencies {
            let total = passes::range_latencies(&mut self.store, ranges, &mut latencies)?;
            timed.wrong = timed.wrong.or_else(|| total.unlike(expected, "timed one by one, it"));
        }
        let timed = self.with_rate(Phase::Range, Asked::Range(ranges), timed)?;
        let latencies = latencies.counts();
        Ok(Timed { wrong: wrong.or(timed.wrong.clone()), latencies, ..timed })
    }

    /// Warms up and times passes; each must add up to `expected`.
    fn timed(
        &mut self,
        ops: usize,
        expected: Total,
        mut pass: impl FnMut(&mut S) -> Result<Total>,
    ) -> Result<Timed> {
        let mut wrong = None;
        let passes = if self.cold { 1 } else { PASSES };
        if !self.cold {
            wrong = pass(&mut self.store)?.unlike(expected, "the pass before the timed ones");
        }
        let own_counters = OwnCounters::before(&mut self.store, self.spec.own_counters)?;
        let meter = Meter::start();
        let mut times = Vec::with_capacity(passes);
        let (mut spent, mut taken) = (Duration::ZERO, 0);
        while times.len() < passes && (times.is_empty() || spent < PASSES_TIME) {
            let start = Instant::now();
            let total = pass(&mut self.store)?;
            let elapsed = start.elapsed();
            spent += elapsed;
            taken = total.found;
            times.push(ns_per_op(elapsed, ops));
            wrong = wrong.or_else(|| total.unlike(expected, "a timed pass"));
        }
        let effort = meter.stop(ops * times.len());
        Ok(Timed {
            ops,
            ns_per_op: measure::median(&mut times),
            latencies: Vec::new(),
            at_rate: None,
            found: None,
            taken,
            effort,
            own_counters: own_counters.after(&mut self.store)?,
            wrong,
        })
    }
}

pub(super) fn ns_per_op(elapsed: Duration, ops: usize) -> f64 {
    elapsed.as_nanos() as f64 / ops.max(1) as f64
}
