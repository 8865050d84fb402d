//! `credenza replay`: what a program did, done again on any store.
//!
//! Reading order: [`ReplayArgs`], `script` (what of a trace one thread can do on one store), `named` (its keys), `part` (what of that
//! is about some of the keys), `built` (loads that come first), `told` (what it says beside), `ups` (scripts of
//! ups_bench), `play` (the measured process), `reopen`, `model` (what a store must answer), `check` (the process
//! that compares), `unread` (what of a trace is missing), `table` (what the reader sees).
//!
//! Method: each store in a fresh process bound to one processor, one after the other. A store begins with
//! the records of `--data`, or with those that the trace found before anybody had stored them. Before
//! anything is timed, another process does the same and compares all of every answer with what the replay
//! itself has stored: a wrong one is a failure, and the store's times are not told. Every lookup and removal
//! of which the recording says whether the key was there is compared with that, too; what is otherwise
//! there is told, and no failure, as a recording may begin in the middle of a store's life. Where
//! operations are due at times of their own, latencies count from these: who is late makes the next one
//! wait, and that is in its latency.
//!
//! A signal ends the pass that runs: one that compares at once; one that is timed behind the step that it is at,
//! and what was done by then is told as a part. How far the run has come is told between
//! the passes only: a process that is being timed says nothing.

mod built;
mod check;
#[cfg(test)]
mod entries_tests;
mod model;
mod named;
mod part;
mod play;
mod player;
mod reopen;
pub(crate) mod script;
#[cfg(test)]
mod script_tests;
mod table;
#[cfg(test)]
mod tests;
mod told;
pub(crate) mod unread;
mod ups;

use play::Built;
pub(crate) use play::{Replayed, Speed, Task, measure as measure_replay, records_of};
pub(crate) use script::{Do, Script};
use told::Told;

use crate::absent::{Absent, is_missed};
use crate::args::{TIMEOUT, check_stores_and_servers, library_of, named_stores};
use crate::candidates::version_of;
use crate::driver::{self, Driver, ForDriver, Writer, kernel, tried, with_driver};
use crate::machine;
use crate::measure::{self, Latencies};
use crate::progress::{self, say};
use crate::report::{outputs, text};
use crate::result::{Latency, Machine};
use crate::runner::folder::Folder;
use crate::runner::process::{self, End, Program};
use crate::runner::protocol::Message;
use crate::settings::Choices;
use crate::workload::files;
use clap::Args;
use credenza::record::Trace;
use credenza::{Error, Result};
use credenza_formats::Format;
use indicatif::ProgressBar;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Of the form of `--json`.
const CONTRACT: u32 = 1;

/// Do again what a program did, on any store.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The trace, as 'credenza record' and `bench --tee` make it, or a script of upscaledb's ups_bench
    pub trace: PathBuf,
    /// Stores to replay on, separated by commas, servers among them (as for bench); without it, all that are
    /// found
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub stores: Option<Vec<String>>,
    /// When operations are due: 'full', each when the one before is done; 'original', as they were; or so
    /// many a second. With the latter two, latencies count from when an operation was due
    #[arg(long, value_name = "full|original|RATE", default_value = "full")]
    pub speed: String,
    /// Begin with the records of this file, in any format `credenza load` reads [default: with those that
    /// the trace found before anybody had stored them]
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// The format of --data, when its content does not tell it
    #[arg(long, value_name = "FORMAT", requires = "data")]
    pub format: Option<String>,
    /// Folder for the store files [default: /dev/shm if that is in memory, else the system's folder
    /// for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Use this library for a store: NAME=PATH; may be given many times
    #[arg(long = "lib", value_name = "NAME=PATH")]
    pub libraries: Vec<String>,
    /// Let the kernel choose the processor
    #[arg(long)]
    pub no_pin: bool,
    /// Give a store up after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600,
          value_parser = clap::value_parser!(u64).range(TIMEOUT))]
    pub timeout: u64,
    /// Replay on one store: the program starts itself with this
    #[arg(long, hide = true)]
    pub child: bool,
    /// Say nothing of the progress.
    #[arg(skip)]
    pub quiet: bool,
}

impl ReplayArgs {
    fn speed(&self) -> Result<Speed> {
        match (self.speed.as_str(), self.speed.parse::<f64>()) {
            ("full", _) => Ok(Speed::Full),
            ("original", _) => Ok(Speed::Original),
            (_, Ok(rate)) if (1e-3..=1e12).contains(&rate) => Ok(Speed::Rate(rate)),
            (other, _) => Err(Error::invalid(format!(
                "--speed takes 'full', 'original', or a number of operations a second, and not '{other}'"
            ))),
        }
    }

    fn folder(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(machine::usual_folder)
    }
}

/// What a store can do with a script; an error if it is not here.
struct Look<'a> {
    library: Option<&'a Path>,
}

impl ForDriver for Look<'_> {
    type Output = Result<(bool, String)>;

    fn run<D: Driver>(self) -> Result<(bool, String)> {
        let driver = tried::load::<D>(self.library)?;
        driver.admit()?;
        Ok((<D::Writer<'_> as Writer>::IS_POSSIBLE, version_of(&driver).0))
    }
}

/// Whether the workbench has the store do changes that are on the disk when their calls have returned.
struct CanSync;

impl ForDriver for CanSync {
    type Output = bool;

    fn run<D: Driver>(self) -> bool {
        D::DURABLE.is_some()
    }
}

/// What of the recording is another thing here, in sentences.
fn notes_of(script: &Script, speed: Speed, folder: &Folder) -> Vec<String> {
    let Told { synced, unsynced, threads, .. } = script.told;
    let mut notes = Vec::new();
    if script.told.is_synced() {
        notes.push(
            "All changes were in commits that waited for the disk: here they wait, too, where the workbench \
             has the store do that."
                .to_owned(),
        );
        if machine::filesystem_of(folder.path()) == "tmpfs" {
            notes.push(
                "The folder is in memory (tmpfs), where syncs cost nothing: name one on a disk \
                        with --dir."
                    .to_owned(),
            );
        }
    } else if synced > 0 {
        notes.push(format!(
            "{} commits waited for the disk when they were recorded, and {} other commits and changes are not \
             known to have: here none does.",
            text::count(synced),
            text::count(unsynced)
        ));
    }
    if threads > 1 && speed != Speed::Full {
        notes.push(format!(
            "{threads} threads did what one does here: where it is late, operations wait for each other that did \
             not when they were recorded."
        ));
    }
    notes
}

/// Takes away what was stored outside the workbench's files, however the process ended.
struct Clear<'a> {
    task: &'a Task,
    script: &'a Script,
}

impl ForDriver for Clear<'_> {
    type Output = Result<()>;

    fn run<D: Driver>(self) -> Result<()> {
        let path = self.task.path();
        if !D::IS_SERVER || !path.exists() {
            return Ok(());
        }
        let records = self.task.records()?.unwrap_or_default();
        let own = self.script.keys.iter().map(|key| &key[..]);
        let keys = own.chain(records.iter().map(|(key, _)| key));
        D::load(self.task.library.as_deref())?.clear(&path, keys)
    }
}

/// Everything that is found, as JSON.
#[derive(Serialize)]
struct Report {
    credenza_replay: u32,
    machine: Machine,
    trace: String,
    /// Entries in the trace, and steps that were made of them.
    entries: u64,
    steps: u64,
    /// From the first to the last of the recording.
    recorded_seconds: f64,
    /// Bytes that are missing from the end of the trace.
    missing_bytes: u64,
    /// What of the trace, and of that of `--data`, is not read, and which stores nobody named take no part, in
    /// sentences.
    notes: Vec<String>,
    /// Why the recording ended before the programs did.
    stopped: Option<String>,
    /// "full", "original", or operations a second.
    speed: String,
    /// Records that stores had before.
    records_before: u64,
    /// Entries that no store was asked to do, by why.
    left_out: BTreeMap<String, u64>,
    stores: Vec<OfStore>,
    failures: Vec<Failed>,
    /// Whether a signal ended the run: what is here was done before.
    interrupted: bool,
}

/// What one store did.
#[derive(Serialize)]
struct OfStore {
    store: String,
    version: String,
    operations: u64,
    /// So many of the steps were done, or skipped, when a signal ended the run: the figures are of these; none
    /// where all were.
    stopped_after: Option<u64>,
    seconds: f64,
    operations_per_second: f64,
    /// Nanoseconds, of all operations together, and of each kind.
    latency: Option<Latency>,
    by_operation: BTreeMap<String, OfKind>,
    /// Answers that were compared with the recording, and those that differ: keys that were there then and
    /// not here, and the other way round.
    compared: u64,
    lost: u64,
    extra: u64,
    first_difference: Option<String>,
    /// Scans, and those that read another number of records than in the recording.
    scans: u64,
    scans_unlike: u64,
    /// Whether it ended at most 1 % and a millisecond later than operations at times of their own should have;
    /// true at full speed.
    kept_up: bool,
    /// What the store cannot do, and how often it was skipped.
    skipped: BTreeMap<String, u64>,
    /// Where a store is built once, of what the trace loads first: of how many records, and in how many seconds;
    /// none of the operations.
    built: Option<Built>,
    file_bytes: u64,
    /// Whether the transactions of the trace were transactions here.
    transactions: bool,
    /// The durability class of its changes: "buffered" (a change outlives the process), "at-close" (nothing
    /// does before the store was closed), "memory" or "sync"; none where nothing was changed.
    class: Option<String>,
    /// Every setting that is not the store's default.
    tuning: String,
}

/// What one kind of operation took, in nanoseconds.
#[derive(Serialize)]
struct OfKind {
    count: u64,
    latency: Latency,
}

/// A store that could not be replayed on.
#[derive(Serialize)]
struct Failed {
    store: String,
    what: String,
}

/// Replays the trace that `args` name, prints what came of it, and writes it. The status is 0, or 111 when
/// a store failed, answered wrongly, or was asked for and is not here; 130 when a signal ended the run.
/// Answers that differ from the recording only are told, and change no status: a store may have begun with
/// other records.
///
/// As for [`crate::run`], the program starts itself again with its own arguments and `--child`.
///
/// # Errors
/// The options make no sense, the trace or the data cannot be read, or the results cannot be written.
pub fn replay(args: &ReplayArgs) -> Result<ExitCode> {
    tried::answer();
    if args.child {
        play::main()?;
        return Ok(ExitCode::SUCCESS);
    }
    let named = args.stores.as_deref().map(named_stores);
    check_stores_and_servers(named.iter().flatten().map(String::as_str), &args.libraries)?;
    let speed = args.speed()?;
    let inputs = [Some(&args.trace), args.data.as_ref()];
    outputs::check(&[("--json", args.json.as_ref())], &inputs)?;
    // How many passes there will be is not known yet.
    let bar = progress::bar_unless(args.quiet, 1);
    bar.set_message("the trace is read");
    let (script, trace) = Script::read(&args.trace)?;
    if trace.is_none() && speed == Speed::Original {
        let what = "a script of ups_bench has no times: say --speed full, or a number";
        return Err(Error::invalid(what).at(&args.trace));
    }
    if script.steps.is_empty() {
        return Err(match &trace {
            Some(trace) => {
                unread::nothing(trace, "there is nothing in the trace that can be replayed")
            }
            None => nothing_in_script(&script).at(&args.trace),
        });
    }
    let folder = Folder::create_in(&args.folder())?;
    let mut run = Run::new(args, speed, trace.as_ref(), &script, &folder, bar)?;
    run.all(&script)?;
    let report = run.report;
    outputs::tell(&table::of(&report), &report, args.json.as_ref())?;
    Ok(match (report.interrupted, report.failures.is_empty()) {
        (true, _) => ExitCode::from(crate::INTERRUPTED),
        (_, true) => ExitCode::SUCCESS,
        (_, false) => ExitCode::from(crate::FAILED),
    })
}

fn nothing_in_script(script: &Script) -> Error {
    let why = script.too_long.as_ref().map(|says| format!(": {says}")).unwrap_or_default();
    Error::invalid(format!("there is nothing in the script of ups_bench that can be replayed{why}"))
}

struct Run<'a> {
    args: &'a ReplayArgs,
    speed: Speed,
    folder: &'a Folder,
    bar: ProgressBar,
    records: Option<PathBuf>,
    trace: PathBuf,
    cpu: Option<usize>,
    clock_ns: f64,
    report: Report,
}

/// A store that is here and can do what is in the trace.
struct Entrant {
    /// Whether it is built once, of what the trace loads first.
    is_built: bool,
    store: String,
    version: String,
    library: Option<PathBuf>,
}

/// The passes of a store: one that compares, and one that is timed.
const PASSES: u64 = 2;

impl<'a> Run<'a> {
    fn new(
        args: &'a ReplayArgs,
        speed: Speed,
        trace: Option<&Trace>,
        script: &Script,
        folder: &'a Folder,
        bar: ProgressBar,
    ) -> Result<Run<'a>> {
        let (mut records, mut records_before) = (None, script.before.len() as u64);
        let says = trace.map(unread::of).unwrap_or_default();
        let unnamed = unread::unnamed(&script.told).into_iter();
        // With records of the user's own nothing is taken from the trace.
        let unnamed = unnamed.filter(|_| args.data.is_none());
        let says = says.into_iter().chain(unnamed);
        let mut notes: Vec<String> = says.map(|says| format!("The trace {says}.")).collect();
        notes.extend(notes_of(script, speed, folder));
        if let Some(path) = &args.data {
            bar.set_message("--data is read");
            let format = args.format.as_deref().map(str::parse::<Format>).transpose()?;
            let files::Found { records: read, notes: of_data, .. } =
                files::records_of(path, format, usize::MAX)?;
            notes.extend(of_data.iter().map(|note| format!("Of --data: {note}.")));
            records_before = read.len() as u64;
            let path = folder.path().join("records");
            let write = || {
                let mut out = BufWriter::new(std::fs::File::create(&path)?);
                read.write_to(&mut out)?;
                out.flush()
            };
            write().map_err(|e| Error::io("write", e).at(&path))?;
            records = Some(path);
        }
        let cpu = kernel::allowed_cpus().pop().filter(|_| !args.no_pin);
        let clock_ns = measure::clock_ns();
        let left_out = script.left_out.iter().map(|(why, count)| ((*why).to_owned(), *count));
        let report = Report {
            credenza_replay: CONTRACT,
            machine: machine::facts(folder.path(), cpu, clock_ns),
            trace: args.trace.display().to_string(),
            entries: script.entries,
            steps: script.steps.len() as u64,
            recorded_seconds: script.span as f64 / 1e9,
            missing_bytes: trace.map_or(0, Trace::missing),
            notes,
            stopped: trace.and_then(Trace::stopped).map(|(why, _)| why.to_string()),
            speed: args.speed.clone(),
            records_before,
            left_out: left_out.collect(),
            stores: Vec::new(),
            failures: Vec::new(),
            interrupted: false,
        };
        let path = std::path::absolute(&args.trace);
        let trace = path.map_err(|e| Error::io("find", e).at(&args.trace))?;
        Ok(Run { args, speed, folder, bar, records, trace, cpu, clock_ns, report })
    }

    /// Replays on every store that is asked for, or that is here.
    fn all(&mut self, script: &Script) -> Result<()> {
        let entrants = self.entrants(script);
        self.bar.set_length(PASSES * entrants.len() as u64);
        let current = self.folder.current();
        current.begin();
        for (i, entrant) in entrants.into_iter().enumerate() {
            if current.is_stopping() {
                break;
            }
            self.bar.set_position(PASSES * i as u64);
            self.one(entrant, script)?;
        }
        self.bar.finish_and_clear();
        self.report.interrupted = current.is_stopping();
        Ok(())
    }

    /// The stores to replay on, each once.
    fn entrants(&mut self, script: &Script) -> Vec<Entrant> {
        let named = self.args.stores.as_deref().map(named_stores);
        let is_named = named.is_some();
        let all = || driver::NAMES.iter().map(|name| (*name).to_owned()).collect();
        let mut names: Vec<String> = named.unwrap_or_else(all);
        let mut known = std::collections::HashSet::new();
        names.retain(|name| known.insert(name.clone()));
        let (mut entrants, mut absent) = (Vec::new(), Absent::default());
        for store in names {
            let library = library_of(&self.args.libraries, &store);
            let look = with_driver(&store, Look { library: library.as_deref() });
            match look {
                Some(Ok((is_changing, _)))
                    if script.has_changes() && !is_changing && !script.is_loaded_first() =>
                {
                    let what = "built once and never changed, and the trace has changes";
                    match is_named {
                        true => self.fail(store, format!("it is {what}")),
                        false => absent.add_unfit(&store, what),
                    }
                }
                Some(Ok((is_changing, version))) => {
                    let is_built = script.has_changes() && !is_changing;
                    entrants.push(Entrant { is_built, store, version, library });
                }
                Some(Err(e)) if is_named || is_missed(&store, &self.args.libraries) => {
                    self.fail(store, e.to_string());
                }
                Some(Err(e)) => absent.add(&store, &e),
                None => {}
            }
        }
        self.report.notes.extend(absent.sentences());
        entrants
    }

    /// Compares all answers of a store, and if they are right replays on it again to time them.
    fn one(&mut self, entrant: Entrant, script: &Script) -> Result<()> {
        let Entrant { is_built, store, version, library } = entrant;
        let is_durable =
            !is_built && script.told.is_synced() && with_driver(&store, CanSync).unwrap_or(false);
        let mut task = Task {
            store,
            library,
            folder: PathBuf::new(),
            trace: self.trace.clone(),
            records: self.records.clone(),
            speed: Speed::Full,
            is_built,
            one_of: 1,
            is_durable,
            sync_every: None,
            settings: Choices::default(),
            is_check: true,
            cpu: self.cpu,
            clock_ns: self.clock_ns,
        };
        self.bar.set_message(format!("{} is checked", task.store));
        if self.replayed(&mut task, script)?.is_none() || self.folder.current().is_stopping() {
            return Ok(());
        }
        (task.is_check, task.speed) = (false, self.speed);
        self.bar.inc(1);
        self.bar.set_message(format!("{} is timed", task.store));
        self.folder.current().ask(true);
        let done = self.replayed(&mut task, script)?;
        self.folder.current().ask(false);
        // Of one that was ended before it began there is nothing to tell.
        if let Some(done) = done.filter(|done| done.stopped_after != Some(0)) {
            self.report.stores.push(of_store(task.store, version, done, self.clock_ns));
        }
        Ok(())
    }

    /// What a process did with a store; none where that failed, was wrong, or is no longer wanted.
    fn replayed(&mut self, task: &mut Task, script: &Script) -> Result<Option<Replayed>> {
        let store = task.store.clone();
        task.folder = self.folder.empty(&store)?;
        let timeout = Duration::from_secs(self.args.timeout);
        let mut replayed = None;
        let current = self.folder.current();
        let end = process::run(&Program::this()?, &task, timeout, current, |message| {
            if let Message::Replayed(done) = message {
                replayed = Some(*done);
            }
        })?;
        let cleared = with_driver(&store, Clear { task, script }).unwrap_or(Ok(()));
        self.folder.empty(&store)?;
        if let Err(e) = cleared {
            self.fail(store.clone(), e.to_string());
        }
        match (end, replayed) {
            (End::Finished, Some(Replayed { wrong: Some(what), .. })) => {
                self.fail(store, format!("WRONG ANSWER: {what}"));
            }
            (End::Finished, Some(done)) => return Ok(Some(done)),
            // It was ended, as is told of the whole run.
            _ if self.folder.current().is_stopping() => {}
            (End::Finished, None) => self.fail(store, "it said nothing of what it did".to_owned()),
            (End::Failed(what) | End::Crashed { what, .. }, _) => self.fail(store, what),
            (End::TimedOut, _) => {
                self.fail(store, format!("no end after {} seconds", timeout.as_secs()));
            }
        }
        Ok(None)
    }

    /// Remembers a failure, and says it at once.
    fn fail(&mut self, store: String, what: String) {
        self.bar.suspend(|| say!("credenza replay: {store}: {what}"));
        self.report.failures.push(Failed { store, what });
    }
}

fn of_store(store: String, version: String, done: Replayed, clock_ns: f64) -> OfStore {
    let mut all = Latencies::new(clock_ns);
    let mut by_operation = BTreeMap::new();
    for (name, counts) in &done.latencies {
        let mut of_kind = Latencies::new(clock_ns);
        of_kind.merge(counts);
        all.merge(counts);
        if let Some(latency) = of_kind.percentiles() {
            let count = counts.iter().map(|(_, count)| count).sum();
            by_operation.insert(name.clone(), OfKind { count, latency });
        }
    }
    OfStore {
        store,
        version,
        operations: done.operations,
        stopped_after: done.stopped_after,
        seconds: done.seconds,
        operations_per_second: done.operations as f64 / done.seconds.max(1e-9),
        latency: all.percentiles(),
        by_operation,
        compared: done.compared,
        lost: done.lost,
        extra: done.extra,
        first_difference: done.first_difference,
        scans: done.scans,
        scans_unlike: done.scans_unlike,
        kept_up: done.kept_up,
        skipped: done.skipped,
        built: done.built,
        file_bytes: done.file_bytes,
        transactions: done.has_transactions,
        class: done.class,
        tuning: done.tuning,
    }
}
