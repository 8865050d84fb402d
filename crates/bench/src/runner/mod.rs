//! Rounds: the parent process, which prepares the work, starts one fresh process for each store
//! and round, and puts their samples together.
//!
//! Reading order: [`protocol`], [`process`], [`folder`], here, [`round`]; then what the measured process does:
//! [`child`], [`passes`], [`changes`], [`mixed`], [`open_loop`], [`together`]; [`oracle`] compares and measures
//! nothing, and [`notes`] says what a reader must know.
//!
//! Invariants: within a round every store runs once, in a random order that the seed fixes; two
//! measured processes never run at the same time, but those that [`together`] starts. A phase that
//! failed, crashed or took too long is
//! told once and not tried again; the store's other phases go on, and so do the other stores.

mod beside;
mod changes;
pub(crate) mod child;
pub(crate) mod folder;
pub(crate) mod kept;
mod leftover;
mod limit;
mod mixed;
pub(crate) mod notes;
pub(crate) mod open_loop;
pub(crate) mod oracle;
mod own_counters;
pub(crate) mod passes;
pub(crate) mod process;
pub(crate) mod protocol;
mod reads_over_time;
pub(crate) mod room;
mod round;
mod singly;
mod summary;
pub(crate) mod tee;
pub(crate) mod together;
mod twice;

#[cfg(test)]
pub(crate) mod liar;
#[cfg(test)]
mod parent_tests;
#[cfg(test)]
pub(crate) mod tests;

use crate::absent::Absent;
use crate::args::{BenchArgs, Metrics};
use crate::candidates::{self, Candidate, Describe};
use crate::counters::Counters;
use crate::driver::{self, NULL, Shape, kernel, with_driver};
use crate::machine;
use crate::measure;
use crate::progress::{self, say};
use crate::report::durability;
use crate::result::{AtRate, CONTRACT, Failure, Growth, PhaseResult, Report, Settings, StoreInfo};
use crate::rng::Rng;
use crate::settings::Choices;
use crate::workload::generate::stream;
use crate::workload::{Inputs, Phase, Workload};
use credenza::{Error, Result};
use folder::Folder;
use limit::{Groups, Limit};
use process::Program;
use protocol::{Message, Spec};
use room::Advice;
use round::{Entrant, Work};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use summary::{OwnCosts, Samples, Shared, noise};
use together::{By, Together};

/// Measures what `args` ask for; with several numbers of records, a run for each, in ascending order.
/// The last is the report, and has the others in it. Several readers at one store are for that one only.
pub(crate) fn series(args: &BenchArgs) -> Result<Report> {
    args.check()?;
    let mut counts = args.records.clone();
    counts.sort_unstable();
    counts.dedup();
    let (mut growth, mut failures, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let Some((last, others)) = counts.split_last().filter(|(_, others)| !others.is_empty()) else {
        return run(&BenchArgs { records: counts, ..args.clone() });
    };
    // What only the last one has is found out before the others are measured.
    BenchArgs { records: vec![*last], ..args.clone() }.workload()?;
    for (i, records) in others.iter().chain([last]).enumerate() {
        let mut wanted = BenchArgs { records: vec![*records], ..args.clone() };
        if i < others.len() {
            (wanted.processes, wanted.threads) = (Vec::new(), Vec::new());
            wanted.with_writer = false;
            // Nor is there a ratio for each number of records.
            wanted.no_noise = true;
        }
        let mut report = run(&wanted)?;
        let Settings { records, key_bytes, value_bytes, .. } = report.settings;
        let results = report.results.iter().map(without_time).collect();
        growth.push(Growth { records, key_bytes, value_bytes, results });
        for mut failure in report.failures.drain(..) {
            failure.what = format!("with {records} records: {}", failure.what);
            failures.push(failure);
        }
        notes.push((records, std::mem::take(&mut report.notes)));
        if i == others.len() || report.interrupted {
            let notes = notes::of_series(notes);
            return Ok(Report { growth, failures, notes, ..report });
        }
    }
    Err(Error::invalid("no run was made"))
}

/// The figures of a number of records; over time those of the last are enough.
fn without_time(result: &PhaseResult) -> PhaseResult {
    let at_rate = result.at_rate.clone().map(|at| AtRate { over_time: None, ..at });
    PhaseResult { over_time: None, at_rate, ..result.clone() }
}

/// Measures what `args` ask for, with one number of records.
fn run(args: &BenchArgs) -> Result<Report> {
    let workload = args.workload()?;
    // First of all: it may start this program again.
    let limit = args.memory_limit.map(Limit::set).transpose()?;
    let folder = Folder::create_in(&args.folder())?;
    let mut run = Run::new(args, &workload, &folder);
    run.made_in = args.kept.prepare(&workload, &run.phases)?;
    let (inputs, mut notes) = Inputs::prepare(&workload)?;
    let shape = Shape::of(&inputs.records);
    run.groups = limit.as_ref().map(Limit::groups);
    let machine = machine::facts(folder.path(), run.cpu, run.clock_ns);
    notes.extend(notes::about_folder(args, &run.phases, &workload.mixes, &machine.filesystem));
    notes.extend(machine::about_program(&machine));
    notes.extend(notes::about_load(&machine));
    let stores = run.stores(&shape, &workload)?;
    notes.extend(notes::about_builds(args, &run.phases, &stores, &machine.filesystem));
    notes.append(&mut run.left_out);
    let asked_for = phases_asked_for(&workload, args.cold);
    notes.extend(notes::about_types(&stores, &asked_for, &workload));
    notes.extend(notes::about_compression(&workload));
    notes.extend(notes::about_absent_keys(&workload, &run.phases, &stores));
    notes.extend(args.kept.left_out(&asked_for));
    let (mixes, opens) = (&workload.mixes, args.kept.open.is_some());
    let left_out = notes::about_what_is_left_out(&stores, &run.phases, mixes, opens);
    let does_nothing = |info: &StoreInfo| {
        run.phases.iter().all(|phase| info.lacks.iter().any(|name| name == phase.name()))
    };
    if !stores.is_empty() && stores.iter().all(does_nothing) {
        return Err(nothing_left(&left_out));
    }
    // Of a run that ends before it begins nothing is left that the next one would not write over.
    if let Some(path) = args.tee.as_ref().filter(|_| !stores.is_empty()) {
        tee::write(path, args.tee_format, &inputs, &workload, args.rate().as_ref())?;
    }
    notes.extend(left_out);
    notes.extend(notes::about_baseline(args, &stores));
    notes.extend(notes::about_sharing(args, &run.phases, &stores, machine.cores));
    notes.extend(notes::about_servers(&stores));
    notes.extend(notes::about_cold(args, &run.phases, &stores));
    notes.extend(Counters::refused());
    let seed = workload.seed;
    notes
        .push(format!("seed {seed}: --seed {seed} draws the same data, keys and operations again"));
    let settings = run.settings(&workload, &shape);
    inputs.save(&run.inputs)?;
    // From here on only the measured processes need the data.
    drop(inputs);
    folder.current().begin();
    run.rounds(&stores, &workload, &folder)?;
    notes.extend(args.kept.note());
    let Run { samples, again, shared, own, failures, phases, class, .. } = run;
    let workbench = own.results();
    let interrupted = folder.current().is_stopping();
    if interrupted {
        notes.push("stopped by a signal: figures rest on the rounds that were finished".to_owned());
    }
    let record_bytes = shape.bytes() as f64 / shape.records.max(1) as f64;
    let rate = args.rate();
    let rate = rate.as_ref();
    let results = samples.results(&phases, &stores, class, &workload.mixes, record_bytes, rate);
    let again = again.results(&phases, &stores, class, &workload.mixes, record_bytes, rate);
    let noise = noise(&results, &again);
    let together =
        shared.results(&phases, &stores, class, &workload.mixes, settings.cpu.is_some(), rate);
    notes.extend(durability::warnings(&stores, &results, &together));
    let credenza_bench = CONTRACT;
    Ok(Report {
        credenza_bench,
        machine,
        settings,
        stores,
        results,
        together,
        growth: Vec::new(),
        failures,
        notes,
        noise,
        workbench,
        interrupted,
    })
}

/// The phases in the order in which they run, without those that the type of the keys leaves out, and of
/// stores that are opened those that begin with a new one.
fn phases(workload: &Workload, cold: bool, are_opened: bool) -> Vec<Phase> {
    let is_left = |phase: &Phase| {
        workload.leaves_out(*phase).is_none() && !(are_opened && phase.begins_empty())
    };
    phases_asked_for(workload, cold).into_iter().filter(is_left).collect()
}

/// All of them, whatever the order they were named in.
fn phases_asked_for(workload: &Workload, cold: bool) -> Vec<Phase> {
    let is_usual = |phase: &Phase| match cold {
        true => Phase::COLD.contains(phase),
        // It says something on a disk only, and takes long there.
        false => *phase != Phase::InsertSync,
    };
    let is_wanted = |phase: &Phase| match &workload.phases {
        Some(phases) => phases.contains(phase),
        None => is_usual(phase),
    };
    workload.mixes.all_phases().into_iter().filter(is_wanted).collect()
}

/// The error of a run in which no store can do what is asked for; these say why.
fn nothing_left(left_out: &[String]) -> Error {
    Error::invalid(format!("no store is left to measure: {}", left_out.join("; ")))
}

/// How many times the workbench itself is measured before this round: in each of few rounds, in some of many,
/// and of fewer than three several times in one, so that a median has something to choose from.
fn own_costs_before(round: usize, rounds: usize) -> usize {
    let all = rounds.clamp(3, 5);
    let until = |round: usize| (round * all).div_ceil(rounds.max(1));
    until(round + 1) - until(round)
}

struct Run<'a> {
    args: &'a BenchArgs,
    phases: Vec<Phase>,
    cpu: Option<usize>,
    clock_ns: f64,
    class: &'static str,
    inputs: PathBuf,
    /// The control groups of measured processes.
    groups: Option<Groups>,
    /// Where stores are put together that are kept.
    made_in: Option<Folder>,
    failures: Vec<Failure>,
    /// The stores that are not here, or cannot be set up as it is asked for, and why, in words.
    left_out: Vec<String>,
    samples: Samples,
    /// Those of the store that is measured a second time, against itself.
    again: Samples,
    shared: Shared,
    own: OwnCosts,
}

impl<'a> Run<'a> {
    fn new(args: &'a BenchArgs, workload: &Workload, folder: &Folder) -> Run<'a> {
        Run {
            args,
            phases: phases(workload, args.cold, args.kept.open.is_some()),
            cpu: kernel::allowed_cpus().pop().filter(|_| !args.no_pin),
            clock_ns: measure::clock_ns(),
            class: if args.sync { "sync" } else { "buffered" },
            inputs: folder.path().join("inputs"),
            groups: None,
            made_in: None,
            failures: Vec::new(),
            left_out: Vec::new(),
            samples: Samples::default(),
            again: Samples::default(),
            shared: Shared::default(),
            own: OwnCosts::default(),
        }
    }

    /// What several processes or threads are to do with one store.
    fn together(&self) -> Together {
        Together {
            processes: self.args.reader_counts(By::Processes),
            threads: self.args.reader_counts(By::Threads),
            with_writer: self.args.with_writer,
            without: Vec::new(),
            cpus: kernel::allowed_cpus().into_iter().rev().collect(),
            part: None,
        }
    }

    /// The stores that are found, with those that are missed where they are not; and the others.
    fn found(&self) -> (Vec<String>, Absent) {
        let (mut names, mut absent) = (Vec::new(), Absent::default());
        for Candidate { store, error, .. } in candidates::all(self.args) {
            match error.filter(|_| !self.args.is_about(store)) {
                None => names.push(store.to_owned()),
                Some(error) => absent.add(store, &error),
            }
        }
        (names, absent)
    }

    /// The stores that take part: those that were named, or all that are found.
    fn stores(&mut self, shape: &Shape, workload: &Workload) -> Result<Vec<StoreInfo>> {
        let named = self.args.named_stores().map(|names| (names, Absent::default()));
        let (names, absent) = named.unwrap_or_else(|| self.found());
        let mut stores: Vec<StoreInfo> = Vec::new();
        let mut unfit: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
        let (keys, mut unnumbered) = (shape.keys, Vec::new());
        for name in names {
            let library = self.args.library(&name);
            let (file, class) = (library.as_deref(), self.class);
            let settings = workload.settings.of(&name);
            if let Some(why) = settings.unfit(driver::settings_of(&name)?) {
                let origin = Choices::origin(&self.args.settings, &name, &why)?;
                unfit.entry((origin, why)).or_default().push(name);
                continue;
            }
            if self.args.is_about_files() && driver::address_of(&name).is_some() {
                let what = "--cold, --memory-limit, --keep and --open are not for a server";
                self.fail(&name, None, None, "missing", what.to_owned());
                continue;
            }
            if let Some(why) = self.args.kept.missing(&name) {
                match self.args.stores {
                    Some(_) => self.fail(&name, None, None, "missing", format!("--open: {why}")),
                    None => unfit.entry(("--open", why)).or_default().push(name),
                }
                continue;
            }
            if keys.is_numbered() && !driver::has_keys_of(&name, keys) {
                unnumbered.push(name);
                continue;
            }
            let shape = &Shape { settings, ..*shape };
            let (mixes, is_opened) = (&workload.mixes, self.args.kept.open.is_some());
            let work = Describe { name: &name, library: file, shape, class, mixes, is_opened };
            match with_driver(&name, work) {
                Some(Ok(info)) => stores.push(info),
                Some(Err(e)) => self.fail(&name, None, None, "missing", e.to_string()),
                None => return Err(Error::invalid(format!("there is no store '{name}'"))),
            }
        }
        let left_out = |((option, why), names): ((&str, String), Vec<String>)| {
            format!("{option} leaves out {}: {why}", names.join(", "))
        };
        self.left_out.extend(unfit.into_iter().map(left_out));
        if !unnumbered.is_empty() {
            self.left_out.push(format!(
                "'key-type = \"{keys}\"' leaves out {}: they do not number records so, or the \
                 workbench does not have them do it",
                unnumbered.join(", ")
            ));
        }
        if stores.is_empty() && self.failures.is_empty() && !self.left_out.is_empty() {
            return Err(nothing_left(&self.left_out));
        }
        self.left_out.extend(absent.notes());
        Ok(stores)
    }

    fn settings(&self, workload: &Workload, shape: &Shape) -> Settings {
        Settings {
            workload: workload.name.clone(),
            data: workload.data.origin(),
            records: shape.records,
            key_type: shape.keys.name_unless_bytes(),
            value_type: shape.values.name_unless_bytes(),
            key_bytes: shape.key_bytes,
            value_bytes: shape.value_bytes,
            gets: workload.gets as u64,
            batch: workload.batch,
            seed: workload.seed,
            rounds: self.args.rounds,
            phases: self.phases.iter().map(|phase| phase.name().to_owned()).collect(),
            cold: self.args.cold,
            read_ahead: self.args.read_ahead,
            memory_limit: self.args.memory_limit,
            sync: self.args.sync,
            dir: self.args.folder().display().to_string(),
            opened: self.args.kept.open.as_ref().map(|folder| folder.display().to_string()),
            cpu: self.cpu,
            baseline: self.args.baseline.clone(),
            timeout_seconds: self.args.timeout,
            distribution: workload.distribution.to_string(),
            insert_order: workload.insert_order.to_string(),
            rate: self.args.rate,
            named: self.args.named_stores(),
            metrics: self.args.metrics.name().to_owned(),
            mix: workload.mixes.to_string(),
            stores: workload.settings.in_words(),
        }
    }

    fn rounds(&mut self, stores: &[StoreInfo], workload: &Workload, folder: &Folder) -> Result<()> {
        let program = Program::this()?;
        let mut entrants = self.entrants(stores);
        let steps = self.args.rounds * entrants.len() * self.phases.len();
        let bar = progress::bar_unless(self.args.quiet, steps as u64);
        let work = Work { workload, folder, program: &program, bar: &bar };
        for round in 0..self.args.rounds {
            let mut order: Vec<usize> = (0..entrants.len()).collect();
            Rng::new(workload.seed.wrapping_add(round as u64), stream::ROUNDS).shuffle(&mut order);
            self.own_cost(round, &work)?;
            for (place, i) in order.into_iter().enumerate() {
                if folder.current().is_stopping() {
                    break;
                }
                let due = entrants[i].left.clone();
                self.one(&mut entrants[i], round, &work)?;
                round::share_failures(&mut entrants, i, &due);
                let done = (round * entrants.len() + place + 1) * self.phases.len();
                bar.set_position(done as u64);
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Every store, and behind them those that are measured against themselves.
    fn entrants(&self, stores: &[StoreInfo]) -> Vec<Entrant> {
        let entrant = |info: &StoreInfo, again, left| Entrant {
            store: info.store.clone(),
            again,
            left,
            failed: Vec::new(),
        };
        let mut entrants: Vec<Entrant> =
            stores.iter().map(|info| entrant(info, false, self.phases.clone())).collect();
        if !self.args.no_noise && self.args.rounds >= twice::ROUNDS {
            let again = twice::stores(&self.phases, stores, self.args.baseline.as_deref());
            entrants.extend(again.into_iter().map(|(info, left)| entrant(info, true, left)));
        }
        entrants
    }

    /// Measures the store that does nothing, before some of the rounds, also with several at it, but none that
    /// changes it beside them: its answers are wrong, and are not looked at.
    fn own_cost(&mut self, round: usize, work: &Work<'_>) -> Result<()> {
        let Work { workload, folder, program, bar } = *work;
        let timeout = Duration::from_secs(self.args.timeout);
        for _ in 0..own_costs_before(round, self.args.rounds) {
            if folder.current().is_stopping() {
                break;
            }
            bar.set_message(format!("round {}: the workbench itself", round + 1));
            let all = self.spec(NULL, self.phases.clone(), workload, folder.empty(NULL)?);
            // At a rate it would do nothing but wait.
            let together = Together { with_writer: false, ..self.together() };
            let spec = Spec { rate: None, together, ..all };
            process::run(program, &spec, timeout, folder.current(), |message| match message {
                Message::Measured(sample) => self.own.add(summary::own_cost(&sample)),
                Message::Together(measured) => self.own.add(summary::own_cost_together(&measured)),
                _ => {}
            })?;
            folder.empty(NULL)?;
        }
        Ok(())
    }

    /// The work of one process.
    fn spec(&self, store: &str, phases: Vec<Phase>, workload: &Workload, folder: PathBuf) -> Spec {
        Spec {
            store: store.to_owned(),
            library: self.args.library(store),
            folder,
            keep: None,
            open: None,
            inputs: self.inputs.clone(),
            phases,
            mixes: workload.mixes.clone(),
            done_in_time: None,
            settings: workload.settings.clone(),
            batch: workload.batch,
            seed: workload.seed,
            cold: self.args.cold,
            read_ahead: self.args.read_ahead,
            groups: self.groups.clone(),
            sync: self.args.sync,
            oracle: None,
            together: Together::default(),
            latencies: self.args.metrics != Metrics::None,
            over_time: false,
            own_counters: false,
            rate: self.args.rate(),
            advice: Advice::FewerRecords,
            cpu: self.cpu,
            clock_ns: self.clock_ns,
        }
    }

    /// Remembers a failure, and says it at once.
    fn fail(
        &mut self,
        store: &str,
        round: Option<usize>,
        phase: Option<Phase>,
        status: &str,
        what: String,
    ) {
        let loud = if status == "wrong-answer" { "WRONG ANSWER: " } else { "" };
        let place = phase.map_or_else(String::new, |phase| format!(" {phase}"));
        let time = round.map_or_else(String::new, |round| format!(", round {}", round + 1));
        say!("credenza bench: {loud}{store}{place}{time}: {what}");
        self.failures.push(Failure {
            store: store.to_owned(),
            round,
            phase: phase.map(|phase| phase.name().to_owned()),
            status: status.to_owned(),
            what,
        });
    }
}
