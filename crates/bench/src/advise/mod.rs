//! `credenza advise`: which store for these data and this use, with which settings, and what to expect.
//!
//! Reading order: [`AdviseArgs`]; `look` (the data) and `usage` (what is done with them); `candidates`
//! (who can do that, and why others cannot); `figures` (what is measured and predicted), `trial`
//! (measuring with a part of the data), `probe` and `predict` (from parts to the whole); `class`,
//! `changing` and `durability` (what may be lost, what it costs that it is not, and which of that is
//! advised); `settings` (what engines can be set to, and whether it is worth it); `rounds` (all of that,
//! in turn); here, which store is advised; `check` (the prediction, measured), `recipe` (how to make and
//! use the store), `report` (what the reader sees).
//!
//! Method: where records change and nobody says when changes must be safe, a durability class is chosen
//! first, and all that follows is in this class. Candidates that can do the work are measured with parts
//! of the data of two or three sizes, in turn, each time in a fresh process, every answer compared; what
//! is to be expected with all of the data follows from these; of engines that are close to the best
//! settings are tried. The candidate with the least time for an operation of the use is advised, and then
//! measured with all of the data. `docs/advise.md` says more.

mod candidates;
mod changing;
mod check;
mod class;
mod durability;
mod figures;
mod look;
mod predict;
mod probe;
mod recipe;
mod report;
mod rounds;
mod settings;
mod trial;
mod usage;

use crate::args::{TIMEOUT, check_stores, count};
use crate::machine;
use crate::progress;
use crate::report::json::publish_value;
use crate::report::outputs;
use crate::report::{Pen, text};
use candidates::{Candidate, RuledOut};
use check::{Checked, Time};
use clap::Args;
use credenza::{Error, Result};
use figures::{Trial, per_operation};
use look::{Facts, Subject};
use probe::Probe;
use report::{Ranked, Report};
use rounds::{Plan, ROUNDS, medians, trials};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use trial::Lab;
use usage::Usage;

/// Times that are this close are alike: then the smaller file decides.
const ALIKE: f64 = 0.1;
/// A check is repeated, as often as a trial, until it has taken so long.
const CHECK_TIME: Duration = Duration::from_secs(5);
/// A trace whose changes wait for the disk may take as long as it was: then a part is checked that takes
/// about so long at most.
const LONGEST_CHECK: f64 = 60.0;

/// Say which store is best for data, or for what a program did.
#[derive(Args, Clone, Debug)]
pub struct AdviseArgs {
    /// Records, in any format 'credenza load' reads; or a trace, which 'credenza record' makes: then it
    /// tells what is done as well
    #[arg(long, value_name = "FILE", required_unless_present = "child")]
    pub data: Option<PathBuf>,
    /// The format of --data, when its content does not tell it
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Of 100 operations so many change a record: two of four store another value, one a new key, one
    /// removes a key. The rest are lookups [default: 0, the data are only read]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub writes: Option<u32>,
    /// Of 100 operations so many read up to 100 records from a key on, in the order of the keys
    /// [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub ranges: Option<u32>,
    /// Of 100 lookups so many are of keys that are not there [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub misses: Option<u32>,
    /// Lookups come many at a time
    #[arg(long)]
    pub batches: bool,
    /// Which keys are asked for how often: uniform, zipfian, latest, hotspot, exponential, ascending,
    /// descending or clustered, with parameters as in zipfian:theta=0.8 [default: uniform]
    #[arg(long, value_name = "NAME[:PARAMETERS]")]
    pub distribution: Option<String>,
    /// So many processes have the store open at once [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub processes: Option<u16>,
    /// A change must be on the disk when its call returns, as --durability sync; --dir must be on that disk
    #[arg(long)]
    pub sync: bool,
    /// When a change is to be safe against the loss of power: sync (when its call returns), buffered (when
    /// the kernel gets to it), or a number: the program calls sync after so many changes [default: what a
    /// trace tells; else it is measured, and one advised]
    #[arg(long, value_name = "CLASS", conflicts_with = "sync")]
    pub durability: Option<String>,
    /// So many changes are made in the busiest second: the strongest durability that makes twice as many is
    /// advised [default: in a trace, as it was; else the strongest]
    #[arg(long, value_name = "CHANGES", value_parser = rate, conflicts_with_all = ["sync", "durability"])]
    pub rate: Option<f64>,
    /// What to expect when there are so many records, more than there are now
    #[arg(long, value_name = "N", value_parser = count)]
    pub records: Option<usize>,
    /// Choose among these stores, separated by commas; 'credenza bench --list' shows all
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "constant,hash,btree"
    )]
    pub stores: Vec<String>,
    /// Measure parts of the data for about so many seconds; checking with all of them comes on top
    #[arg(long, value_name = "BUDGET", default_value_t = 30.0)]
    pub seconds: f64,
    /// Do not check the prediction with all of the data
    #[arg(long, conflicts_with = "check_all")]
    pub no_check: bool,
    /// Check the prediction for every candidate, not only for the one that is advised
    #[arg(long)]
    pub check_all: bool,
    /// Folder for the store files [default: /dev/shm if that is in memory, else the system's folder
    /// for temporary files; /var/tmp where records change, unless nothing is to wait for the disk]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Write everything as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Use this library for a store: NAME=PATH; may be given many times
    #[arg(long = "lib", value_name = "NAME=PATH")]
    pub libraries: Vec<String>,
    /// Seed of queries and order of the stores
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Let the kernel choose the processor
    #[arg(long)]
    pub no_pin: bool,
    /// Give a store up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900,
          value_parser = clap::value_parser!(u64).range(TIMEOUT))]
    pub timeout: u64,
    /// Measure one store: the program starts itself with this
    #[arg(long, hide = true)]
    pub child: bool,
    /// Say nothing of the progress.
    #[arg(skip)]
    pub quiet: bool,
}

impl AdviseArgs {
    fn check(&self) -> Result<()> {
        if !(self.seconds > 0.0 && self.seconds <= 86_400.0) {
            return Err(Error::invalid("--seconds takes a time above 0, and at most 86400"));
        }
        check_stores(self.stores.iter().map(String::as_str), &self.libraries)
    }

    /// Refuses options that tell what a trace tells.
    fn refuse_use(&self) -> Result<()> {
        let told = [
            (self.writes.is_some(), "--writes"),
            (self.ranges.is_some(), "--ranges"),
            (self.misses.is_some(), "--misses"),
            (self.batches, "--batches"),
            (self.distribution.is_some(), "--distribution"),
            (self.processes.is_some(), "--processes"),
            (self.rate.is_some(), "--rate"),
        ];
        match told.into_iter().find(|(is_told, _)| *is_told) {
            None => Ok(()),
            Some((_, option)) => Err(Error::invalid(format!(
                "{option} is told by the trace itself: leave it out, or name a file of records"
            ))),
        }
    }

    /// The folder for store files.
    fn folder(&self, usage: &Usage) -> PathBuf {
        match &self.dir {
            Some(dir) => dir.clone(),
            None if usage.wants_class() || usage.durability.waits() => PathBuf::from("/var/tmp"),
            None => machine::usual_folder(),
        }
    }
}

/// Advises on the data that `args` name, prints the advice and how far the prediction was off. The status
/// is 0, 111 when a store failed, gave a wrong answer, or is not here, or 130 when a signal ended the run: what was
/// measured by then is printed.
///
/// As for [`crate::run`], the program starts itself again with its own arguments and `--child`.
///
/// # Errors
/// The options make no sense, the data cannot be read, no store can do the work, or the results cannot be
/// written.
pub fn advise(args: &AdviseArgs) -> Result<ExitCode> {
    crate::driver::tried::answer();
    if args.child {
        trial::main()?;
        return Ok(ExitCode::SUCCESS);
    }
    args.check()?;
    outputs::check(&[("--json", args.json.as_ref())], &[args.data.as_ref()])?;
    let (subject, facts) = look::look(args)?;
    let target = target(args, &facts)?;
    let mut usage = Usage::of(args, &subject)?;
    let mut stores = args.stores.clone();
    let mut known = std::collections::BTreeSet::new();
    stores.retain(|store| known.insert(store.clone()));
    let (mut found, ruled_out) = candidates::find(&stores, &args.libraries, &facts, &usage);
    if found.is_empty() {
        return Err(nobody(&ruled_out));
    }
    let mut lab = Lab::new(args, &subject, &usage)?;
    // A signal ends what is measured from here on, and what was is told.
    lab.folder().current().begin();
    let mut probe = Probe::new(lab.cpu);
    let mut report = Report::begin(&lab, facts, usage.clone(), ruled_out, target);
    let parts = parts(report.data.records);
    let agreed = match usage.wants_class() {
        true => rounds::durability(args, &mut lab, &found, &parts, &mut report)?,
        false => None,
    };
    if report.interrupted {
        return stopped(args, report);
    }
    if let Some(agreed) = agreed {
        usage = usage.with(agreed.class);
        lab.use_so(&usage);
        let mut ruled_out;
        (found, ruled_out) = candidates::find(&stores, &args.libraries, &report.data, &usage);
        found.retain(|one| !one.is_own() || agreed.of_store(&one.name()).is_some());
        ruled_out.extend(found.iter().filter_map(|one| agreed.too_slow(&one.name())));
        found.retain(|one| agreed.too_slow(&one.name()).is_none());
        report.take(agreed, usage, ruled_out);
    }
    let plan = Plan { rounds: ROUNDS, seconds: args.seconds, parts: &parts };
    let trials = trials(args, &mut lab, &found, plan, &mut report)?;
    if report.interrupted {
        return stopped(args, report);
    }
    rounds::compare_keys(&found, &trials, &mut report);
    rank(found, medians(trials), &mut report, &mut probe);
    rounds::try_settings(args, &mut lab, &parts, &mut report, &mut probe)?;
    if report.interrupted {
        report.note_interrupted("settings were not all tried, and nothing was checked");
    }
    report.note_remarks(&lab);
    report.take_advised();
    let Some(advised) = report.candidates.first() else {
        return Err(Error::invalid("every store that could do the work failed; see above"));
    };
    report.recipe = Some(recipe::of(&advised.candidate, &subject, &report.data, &report.usage));
    let steps = match &subject {
        Subject::Trace { script, .. } => script.steps.len(),
        Subject::Records { .. } => 0,
    };
    tell_and_check(args, &mut lab, report, steps, &mut probe)
}

/// Prints what was measured until a signal came, before there was any advice, and writes it.
fn stopped(args: &AdviseArgs, mut report: Report) -> Result<ExitCode> {
    report.note_interrupted("this is not all, and no advice");
    let published = args.json.as_ref().map_or(Ok(()), |path| publish_value(&report, path));
    let printed = print(|out| report::measured(&report, out, &Pen::of(&std::io::stdout())));
    published.and(printed)?;
    Ok(ExitCode::from(crate::INTERRUPTED))
}

/// Prints the advice, checks it unless that is not wanted, and writes everything.
fn tell_and_check(
    args: &AdviseArgs,
    lab: &mut Lab<'_>,
    mut report: Report,
    steps: usize,
    probe: &mut Probe,
) -> Result<ExitCode> {
    // Expected figures, with these trials, are in the candidates.
    report.measured.clear();
    let mut told = print(|out| report::advice(&report, out, &Pen::of(&std::io::stdout())));
    if args.json.is_none() {
        // Nobody is there to be told the rest.
        std::mem::replace(&mut told, Ok(()))?;
    }
    if !args.no_check && !report.interrupted {
        check_all(args, lab, &mut report, steps, probe)?;
        if report.interrupted {
            report.note_interrupted("what was checked before it stands");
        }
        let checked = print(|out| report::check(&report, out, &Pen::of(&std::io::stdout())));
        told = told.and(checked);
    }
    report.reads = probe.readings();
    report.note_remarks(lab);
    if let Some(path) = &args.json {
        publish_value(&report, path)?;
    }
    told?;
    if report.interrupted {
        return Ok(ExitCode::from(crate::INTERRUPTED));
    }
    let is_well = report.failures.is_empty();
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(crate::FAILED) })
}

/// Writes to standard output.
fn print(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Result<()> {
    let mut bytes = Vec::new();
    let mut out = std::io::stdout().lock();
    let written = write(&mut bytes).and_then(|()| out.write_all(&bytes)).and_then(|()| out.flush());
    written.map_err(|e| Error::io("write to standard output", e))
}

/// The number of records that the advice is for.
fn target(args: &AdviseArgs, facts: &Facts) -> Result<u64> {
    match args.records {
        Some(records) if (records as u64) < facts.records => Err(Error::invalid(format!(
            "--records is the size that the data will grow to, and they have {} already",
            text::count(facts.records)
        ))),
        Some(records) => Ok(records as u64),
        None => Ok(facts.records),
    }
}

fn nobody(ruled_out: &[RuledOut]) -> Error {
    let reasons: Vec<String> =
        ruled_out.iter().map(|r| format!("{}: {}", r.store, r.why)).collect();
    Error::invalid(format!("none of these stores can do the work; {}", reasons.join("; ")))
}

/// Of so many records one is in each of the parts to measure, the smallest first.
fn parts(records: u64) -> Vec<usize> {
    match records {
        0..64 => vec![1],
        64..16_000 => vec![8, 4, 2],
        _ => vec![64, 16, 4],
    }
}

/// A number of changes in a second, as the user wrote it.
fn rate(text: &str) -> std::result::Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite());
    rate.ok_or_else(|| format!("'{text}' is no number of changes above 0"))
}

/// Predicts for these, too, and puts the candidate to be advised first and the others in the order of their
/// times.
fn rank(found: Vec<Candidate>, trials: Vec<Vec<Trial>>, report: &mut Report, probe: &mut Probe) {
    for (candidate, trials) in found.into_iter().zip(trials).filter(|(_, t)| !t.is_empty()) {
        let bytes = candidate.form.bytes(&report.data, report.records);
        let expected = predict::expected(&trials, report.records, bytes, probe);
        let ns_per_operation = per_operation(&expected, &report.usage);
        let ranked = Ranked { candidate, trials, expected, ns_per_operation, checked: None };
        report.candidates.push(ranked);
    }
    let ranked = &mut report.candidates;
    ranked.sort_by(|one, other| one.ns_per_operation.total_cmp(&other.ns_per_operation));
    let Some(least) = ranked.first().map(|first| first.ns_per_operation) else { return };
    let alike = ranked.iter().take_while(|r| r.ns_per_operation <= least * (1.0 + ALIKE));
    let smallest = alike
        .enumerate()
        .min_by(|(_, one), (_, other)| one.file_bytes().total_cmp(&other.file_bytes()))
        .map_or(0, |(i, _)| i);
    ranked[..=smallest].rotate_right(1);
}

/// Of so many records one is in the part that is checked: all of them, unless that would take too long, as a
/// trace of so many steps does whose changes wait for the disk.
fn part_to_check(ranked: &Ranked, usage: &Usage, steps: usize) -> usize {
    let seconds = ranked.ns_per_operation * steps as f64 / 1e9;
    match usage.durability.waits() {
        false => 1,
        // Its answers are compared once before.
        true => [1, 4, 16]
            .into_iter()
            .find(|of| 2.0 * seconds / *of as f64 <= LONGEST_CHECK)
            .unwrap_or(64),
    }
}

/// Measures with all of the data what is advised, and with --check-all every candidate.
fn check_all(
    args: &AdviseArgs,
    lab: &mut Lab<'_>,
    report: &mut Report,
    steps: usize,
    probe: &mut Probe,
) -> Result<()> {
    let count = if args.check_all { report.candidates.len() } else { 1 };
    let bar = progress::bar_unless(args.quiet, count as u64);
    for i in 0..count {
        let candidate = report.candidates[i].candidate.clone();
        let one_of = part_to_check(&report.candidates[i], &report.usage, steps);
        bar.set_message(format!("{} with all records", candidate.name()));
        let (begun, mut trials) = (Instant::now(), Vec::new());
        while trials.len() < ROUNDS && (trials.is_empty() || begun.elapsed() < CHECK_TIME) {
            let measured = lab.measure(&candidate, one_of)?;
            report.interrupted = lab.folder().current().is_stopping();
            match measured {
                Ok(trial) => trials.push(trial),
                // What a signal ended says nothing of the store.
                Err(_) if report.interrupted => break,
                Err(what) => {
                    bar.suspend(|| report.fail(candidate.name(), what));
                    break;
                }
            }
        }
        if let Some(Trial { records, figures, .. }) = Trial::median(&trials) {
            let expected = report.candidates[i].expected_with(records, report, probe);
            let times = [&expected, &figures].map(|f| per_operation(f, &report.usage));
            report.candidates[i].checked = Some(Checked::new(records, expected, figures, times));
        }
        bar.inc(1);
        if report.interrupted {
            break;
        }
    }
    bar.finish_and_clear();
    let records = report.data.records;
    let of = |ranked: &Ranked| Time {
        name: ranked.candidate.name(),
        expected: per_operation(&ranked.expected_with(records, report, probe), &report.usage),
        measured: ranked.checked.as_ref().map(|checked| checked.measured_ns),
    };
    let times: Vec<Time> = report.candidates.iter().map(of).collect();
    if times.first().is_some_and(|advised| advised.measured.is_some()) {
        let (holds, mut verdict) = check::verdict(&times);
        let checked = report.candidates.first().and_then(|advised| advised.checked.as_ref());
        if let Some(far) = checked.and_then(Checked::far_off) {
            verdict = format!("{verdict} {far}");
        }
        (report.holds, report.verdict) = (Some(holds), Some(verdict));
    }
    Ok(())
}
