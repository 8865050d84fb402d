//! The options of `credenza bench`.

mod idle;
mod rate;
mod settings;
mod several;
mod sync;

use crate::absent::is_missed;
use crate::driver;
use crate::libraries;
use crate::machine;
use crate::runner::kept::Kept;
use crate::runner::open_loop::{Arrivals, Rate};
use crate::runner::tee;
use crate::runner::together::By;
use crate::workload::{Data, Phase, PhaseParser, Place, Workload};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use credenza::{Error, Result};
use credenza_formats::Format;
pub(crate) use settings::check_codec;
pub use several::Several;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// What is measured besides throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Metrics {
    /// Memory, faults, calls and bytes, which are counted around the timed loop and take no time of it
    None,
    /// Latencies as well, and how a run goes over its time, in passes of their own
    Default,
    /// As default, and every chart in the folder credenza-charts, if --charts names no other
    Png,
    /// What stores count themselves as well (pages, cache hits, ...), where they do without being slowed by it
    All,
}

impl Metrics {
    /// What is measured, by its name in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Metrics::None => "none",
            Metrics::Default | Metrics::Png => "default",
            Metrics::All => "all",
        }
    }
}

/// Measure stores: the same work on each, every answer checked.
///
/// Each store runs in a process of its own, round by round in a random order. Exit status: 0 when
/// all is well, 111 when a store failed or gave a wrong answer (the others are still reported). Ctrl-C
/// ends the rounds: what is finished is reported, the store files are removed, and the status is 130.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Stores to measure, separated by commas; without it, all that are found (see --list). A server that
    /// speaks RESP is resp:redis://HOST:PORT/DB, resp:unix:///SOCKET or resp:cluster://HOST:PORT,HOST:PORT,
    /// one of upscaledb's own ups://HOST:PORT/PATH
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub stores: Option<Vec<String>>,
    /// decimal, tokens, ups, churn, random, ntdb, ycsb, ycsb-a to ycsb-f, files, words (the
    /// machine's, of /usr/share/dict), or the path of a .toml file. Those of YCSB have its parameters:
    /// field-count, field-length, ordered and zero-padding, and ycsb-e scan-length, as in
    /// ycsb-a:field-count=1,field-length=10..200
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "decimal")]
    pub workload: String,
    /// Measure with the records of this file, in any format `credenza load` reads, or of a trace
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    pub data: Option<PathBuf>,
    /// The format of --data, when its content does not tell it
    #[arg(long, value_name = "FORMAT", requires = "data", conflicts_with = "workload")]
    pub format: Option<String>,
    /// The folder whose paths are the records of the workload `files` [default: /usr]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Records to store at most; several, as in 1e3,1e4,1e5, are a run each, and the report shows what
    /// an operation costs over them [default: the workload's own number]
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = count)]
    pub records: Vec<usize>,
    /// Lookups in each get phase, records in `range`, operations in `mixed` [default: 1000000]
    #[arg(long, value_name = "N", value_parser = count)]
    pub gets: Option<usize>,
    /// Which keys are asked for how often: uniform, zipfian, latest, hotspot, exponential, ascending,
    /// descending or clustered, with parameters as in zipfian:theta=0.8 [default: the workload's, else uniform]
    #[arg(long, value_name = "NAME[:PARAMETERS]")]
    pub distribution: Option<String>,
    /// In which order records come into a store, in every phase but insert-random, and new keys in `mixed`:
    /// given, random, ascending, descending, clustered or zipfian, with parameters as in clustered:run=1000
    /// [default: the workload's, else given: as the data have them; insert-each and insert-sync: random]
    #[arg(long, value_name = "NAME[:PARAMETERS]")]
    pub insert_order: Option<String>,
    /// Operations of `mixed` in one transaction: tmp (each change has its own), a number, or all;
    /// for stores that have transactions [default: as each store likes it best]
    #[arg(long, value_name = "tmp|N|all")]
    pub transactions: Option<String>,
    /// Close the store, and open it again, between the load and the first operation of `mixed`
    #[arg(long)]
    pub reopen: bool,
    /// Keys may have several values in `mixed`: every second insert of the mix puts one more value before,
    /// or behind, those of a key; for stores that keep them in that order
    #[arg(long, value_name = "first|last")]
    pub(crate) duplicates: Option<Place>,
    /// End `mixed` when so many bytes of keys and values were stored, if --gets is not reached before
    #[arg(long, value_name = "BYTES")]
    pub stop_bytes: Option<u64>,
    /// End `mixed` after about so many seconds, if --gets is not reached before
    #[arg(long, value_name = "SECONDS")]
    pub stop_seconds: Option<u64>,
    /// Keys in one batch of the get-many phases, no more than there are lookups [default: 32]
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// Rounds, each a fresh process for each store
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = rounds())]
    pub rounds: usize,
    /// Phases to measure, separated by commas; mixed-NAME is that of the mix of this name in a workload file,
    /// mixed those of all mixes [default: all; get-hit and get-many-hit with --cold]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = PhaseParser)]
    pub phases: Option<Vec<Phase>>,
    /// Do the get phases also with so many processes reading one store at once, as in 1,2,4; each
    /// has a processor of its own where there are enough [one process is always among them]. In
    /// `insert-sync` so many processes also commit to one new store; in `mixed` they share its operations, each
    /// change a transaction of its own unless the mix has larger ones
    #[arg(long, value_delimiter = ',', value_name = "N,MIN..MAX", conflicts_with_all = ["cold", "oracle"])]
    pub processes: Vec<Several>,
    /// The same with so many threads of one process: they share a handle, or have one each, as the
    /// authors of a store say; stores not made for threads are left out, and named
    #[arg(long, value_delimiter = ',', value_name = "N,MIN..MAX", conflicts_with_all = ["cold", "oracle"])]
    pub threads: Vec<Several>,
    /// With --processes or --threads: do it again beside one more that changes the store without
    /// pause, for stores that allow it
    #[arg(long)]
    pub with_writer: bool,
    /// Do lookups (a batch of them in one call), `range`, `mixed` and `insert-sync` also at so many operations
    /// a second: each has a time to start, and its latency counts from that, so that a stall is in all that it
    /// delays; a store that cannot keep up is named. With --processes or --threads these do the same, the rate being that of
    /// all together
    #[arg(long, value_name = "N", conflicts_with_all = ["cold", "oracle"])]
    pub rate: Option<f64>,
    /// With --rate: how the times to start lie, as those of many users by the seed, or evenly
    #[arg(long, requires = "rate", conflicts_with_all = ["cold", "oracle"], default_value = "poisson")]
    pub arrivals: Arrivals,
    /// With --rate: for how long, if --gets is not reached before; in each of the seconds `insert-sync` does
    /// no more than a thousand changes a thread or process
    #[arg(long, value_name = "SECONDS", requires = "rate", conflicts_with_all = ["cold", "oracle"],
          default_value_t = 5.0)]
    pub rate_seconds: f64,
    /// What to measure besides throughput
    #[arg(long, default_value = "default", conflicts_with = "oracle")]
    pub(crate) metrics: Metrics,
    /// Seed of data, queries and order of the stores [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Folder for the store files [default: /dev/shm if that is in memory, else the system's
    /// folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) kept: Kept,
    /// Write the operations of `mixed`, behind those that fill the store, to this file, which must not be
    /// there yet: 'credenza replay' does them again on any store
    #[arg(long, value_name = "FILE", conflicts_with_all = ["oracle", "stop_seconds"])]
    pub tee: Option<PathBuf>,
    /// What file --tee makes
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "tee",
        default_value = "trace",
        conflicts_with = "oracle"
    )]
    pub(crate) tee_format: tee::Format,
    /// Write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the results as a page with charts to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write every chart of that page to this folder, as SVG and PNG; a Chromium or Chrome in PATH draws them
    #[arg(long, value_name = "DIR", conflicts_with = "oracle")]
    pub charts: Option<PathBuf>,
    /// Write the figures as comma-separated values to this file: one line for a store and phase, and behind these
    /// others whose columns say of which part of one they are (readers, operation, from_seconds)
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// The store that ratios are against
    #[arg(long, value_name = "STORE")]
    pub baseline: Option<String>,
    /// Use this library for a store: NAME=PATH; may be given many times
    #[arg(long = "lib", value_name = "NAME=PATH")]
    pub libraries: Vec<String>,
    /// Set up stores so: NAME=VALUE, for one store STORE.NAME=VALUE, as in page-size=16K, cache=64M, mmap=off,
    /// checksums=on, compression=zlib, key-compression=prefix, journal-compression=zstd, encryption=on,
    /// recovery=off, flush=on, cursors=on, memory=on, direct=on, advice=random, extended-key-threshold=64,
    /// duplicate-threshold=8, records-inline=on; may be given many times. Who cannot be so is left out, and
    /// named; --list says what each store takes [default: as each store is fastest]
    #[arg(long = "set", value_name = "[STORE.]NAME=VALUE")]
    pub settings: Vec<String>,
    /// Start every phase with no page of the store in memory; --dir must be on a disk. A mix starts so,
    /// too, where it is named with --phases
    #[arg(long)]
    pub cold: bool,
    /// Lookups in each phase, and operations of `mixed`, with --cold
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "cold",
          conflicts_with_all = ["processes", "threads", "rate", "oracle"])]
    pub cold_gets: usize,
    /// With --cold: leave read-ahead to the kernel instead of announcing random access; a note names the
    /// stores that cannot do the one or the other
    #[arg(long, requires = "cold", conflicts_with_all = ["processes", "threads", "rate", "oracle"])]
    pub read_ahead: bool,
    /// Let a measured process, and those that are at its store with it, have so much memory at most, pages of
    /// files among it, and no swap, as in 512M: in a control group, or a scope of systemd's; --dir should be
    /// on a disk
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "oracle")]
    pub memory_limit: Option<u64>,
    /// Bring the files to the disk within `build`, for every store, and have each change of `mixed` on the disk
    /// when its call has returned, or each transaction of several operations when it was committed, for stores
    /// that the workbench has do that; of a mix 10000 operations, unless --gets or its `operations` say how
    /// many. All other phases are as ever; `insert-sync` needs no option
    #[arg(long)]
    pub sync: bool,
    /// Do not measure a store against itself. Without this, in each phase that several stores do one takes
    /// part twice in every round (--baseline, or the first that can), if there are 5 rounds or more:
    /// differences as small as between it and itself are not shown as such
    #[arg(long)]
    pub no_noise: bool,
    /// Let the kernel choose the processor
    #[arg(long)]
    pub no_pin: bool,
    /// Give a store up in a round after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900,
          value_parser = clap::value_parser!(u64).range(TIMEOUT))]
    pub timeout: u64,
    /// Time nothing: do the operations of `mixed` on two or more stores in turn, compare every
    /// answer and everything they hold, and stop at the first difference, with status 111
    #[arg(long, conflicts_with_all = ["rounds", "phases", "html", "csv", "baseline", "cold",
          "batch", "no_noise"])]
    pub oracle: bool,
    /// With --oracle: compare everything the stores hold after every N operations [default: as
    /// many as there are records, 1000 at least]
    #[arg(long, value_name = "N", requires = "oracle")]
    pub check_every: Option<usize>,
    /// List the stores that are found, with the settings and types of keys that each takes, and where to get
    /// the others; with --json, to that file
    #[arg(long, conflicts_with_all = ["stores", "settings", "phases", "html", "csv", "tee", "oracle",
          "charts", "keep", "open", "data", "records", "gets", "rounds", "batch", "threads", "processes",
          "no_noise", "cold", "rate", "sync", "memory_limit", "distribution", "insert_order", "metrics",
          "workload", "root", "dir", "seed", "timeout", "with_writer", "transactions", "reopen", "duplicates",
          "stop_bytes", "stop_seconds", "baseline", "no_pin"])]
    pub list: bool,
    /// Do one round of one store: the program starts itself with this
    #[arg(long, hide = true)]
    pub child: bool,
    /// Say nothing of the progress.
    #[arg(skip)]
    pub quiet: bool,
}

/// What is done with runs that were saved.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    Compare(Compare),
}

/// Compare two saved runs, and say by the exit status whether anything became worse.
///
/// Both files are from `--json`. A figure regressed when its whole 95 % interval shows it slower and
/// its median is slower by more than the threshold; when the file is larger by more than that; when
/// the answers are not right any more; when the store fails; or when it is not in the later run, unless that
/// was asked for less (--stores, --phases). That takes three rounds in both runs.
/// Where runs were made with several numbers of records, those that both have are compared, each number by
/// itself. Runs of other data, other work or another machine are not compared.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  credenza bench --json before.json                     a run, and after the change another
  credenza bench compare before.json after.json         what has changed
  credenza bench compare before.json after.json --threshold 10 || echo slower

Exit status:
    0  nothing regressed; or nothing could be judged, as of fewer than three rounds, and that is said
    1  something did
  111  any error: a damaged file, unlike runs; nothing was compared
")]
pub(crate) struct Compare {
    /// The earlier run, as JSON
    #[arg(value_name = "BEFORE.json")]
    pub(crate) before: PathBuf,
    /// The later run
    #[arg(value_name = "AFTER.json")]
    pub(crate) after: PathBuf,
    /// By how many percent a figure may be worse
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) threshold: f64,
    /// Compare unlike runs, too: the figures then say nothing of a change alone
    #[arg(long)]
    pub(crate) anyway: bool,
    /// Write the comparison as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl BenchArgs {
    /// The workload that the options ask for.
    pub(crate) fn workload(&self) -> Result<Workload> {
        let mut workload = match &self.data {
            Some(path) => {
                let format = self.format.as_deref().map(str::parse::<Format>).transpose()?;
                Workload::of_records(path, format)
            }
            None => Workload::find(&self.workload)?,
        };
        match (&mut workload.data, &self.root) {
            (Data::Files { root }, Some(wanted)) => *root = wanted.clone(),
            (_, Some(_)) => return Err(Error::invalid("--root is for the workload `files`")),
            (_, None) => {}
        }
        workload.records = match *self.records {
            [] => workload.records,
            [records] => Some(records),
            _ => return Err(Error::invalid("--oracle takes one number of --records")),
        };
        workload.gets = self.gets.unwrap_or(workload.gets);
        workload.batch = self.batch.unwrap_or(workload.batch);
        workload.seed = self.seed.unwrap_or(workload.seed);
        let phases = self.phases.as_deref().or(workload.phases.as_deref());
        workload.phases = phases.map(|phases| workload.mixes.named_in(phases));
        if let Some(text) = &self.distribution {
            workload.distribution = text.parse()?;
            let distribution = workload.distribution;
            workload.mixes.iter_mut().for_each(|mix| mix.distribution = distribution);
        }
        if let Some(text) = &self.insert_order {
            workload.insert_order = text.parse()?;
        }
        let transactions = self.transactions.as_deref().map(str::parse).transpose()?;
        for mix in workload.mixes.iter_mut() {
            mix.transactions = transactions.or(mix.transactions);
            // What is cold was closed and is opened again.
            mix.reopen |= self.reopen || self.cold;
            mix.duplicates = self.duplicates.or(mix.duplicates);
            mix.stop.bytes = self.stop_bytes.or(mix.stop.bytes);
            mix.stop.seconds = self.stop_seconds.or(mix.stop.seconds);
            if self.gets.is_some() || self.cold {
                mix.operations = None;
            }
        }
        if self.cold {
            workload.gets = self.cold_gets;
        }
        sync::apply(self, &mut workload);
        // A longer batch is all lookups in one, and its place in memory would be for keys that there are not.
        workload.batch = workload.batch.min(workload.gets);
        self.settings.iter().try_for_each(|text| workload.settings.set(text))?;
        workload.check()?;
        settings::check(self, &workload)?;
        sync::check(self, &workload)?;
        idle::insert_order(self, &workload)?;
        let is_about_mixed = self.transactions.is_some()
            || self.reopen
            || self.duplicates.is_some()
            || self.stop_bytes.is_some()
            || self.stop_seconds.is_some();
        let is_mixed = |phases: &Vec<Phase>| phases.iter().any(|phase| phase.is_mixed());
        let has_mixed = workload.phases.as_ref().map_or(!self.cold, is_mixed)
            && workload.leaves_out(Phase::Mixed).is_none();
        if self.tee.is_some() && !has_mixed {
            return Err(Error::invalid(
                "--tee writes the operations of 'mixed', which is not among the phases to measure",
            ));
        }
        if self.tee.is_some() && workload.mixes.duplicates().is_some() {
            return Err(Error::invalid(
                "--tee writes one value for each key: leave duplicates out",
            ));
        }
        let has_time = workload.mixes.iter().any(|mix| mix.stop.seconds.is_some());
        if self.tee.is_some() && has_time {
            return Err(Error::invalid(
                "--tee cannot tell which operations a store does in some seconds: leave stop-seconds out",
            ));
        }
        if is_about_mixed && !has_mixed && !self.oracle {
            return Err(Error::invalid(
                "--transactions, --reopen, --duplicates, --stop-bytes and --stop-seconds are for the \
                 phase 'mixed', which is not among those to measure",
            ));
        }
        let has_get = workload.phases.as_ref().is_none_or(|p| p.iter().any(|phase| phase.is_get()));
        let has_sync = workload.phases.iter().flatten().any(|p| *p == Phase::InsertSync);
        let is_together =
            self.with_writer || !self.processes.is_empty() || !self.threads.is_empty();
        if is_together && !has_get && (self.with_writer || !has_sync) {
            self.check_mixes_by_several(&workload)?;
        }
        rate::check(self, &workload)?;
        let is_filled_first = |phase: &&Phase| phase.is_changing() && !phase.is_mixed();
        let changing = workload.phases.iter().flatten().find(is_filled_first);
        if let Some(phase) = changing.filter(|_| self.cold) {
            let what = format!(
                "--cold is for what reads, and for mixed; '{phase}' begins with a new store"
            );
            return Err(Error::invalid(what));
        }
        idle::lookups(self, &workload)?;
        Ok(workload)
    }

    /// Refuses several at one store where nobody reads and no `insert-sync` is done, unless they do a mix.
    fn check_mixes_by_several(&self, workload: &Workload) -> Result<()> {
        let is_mixed = workload.phases.iter().flatten().any(|phase| phase.is_mixed());
        if is_mixed && !self.with_writer {
            return Ok(());
        }
        Err(Error::invalid(
            "--processes, --threads and --with-writer are for the get phases, and without --with-writer for \
             mixed and insert-sync, too: there is nothing for them among those to measure",
        ))
    }

    /// How many of these are to read one store at once: in ascending order, and first one, which
    /// the others are put in relation to.
    pub(crate) fn reader_counts(&self, by: By) -> Vec<usize> {
        let of_all = match by {
            By::Processes => &self.processes,
            By::Threads => &self.threads,
        };
        let mut counts: Vec<usize> = of_all.iter().flat_map(Several::each).collect();
        if !counts.is_empty() {
            counts.push(1);
        }
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// The operations at a rate that are asked for.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let (arrivals, seconds) = (self.arrivals, self.rate_seconds);
        self.rate.map(|per_second| Rate { per_second, arrivals, seconds })
    }

    /// The folder for store files.
    pub(crate) fn folder(&self) -> PathBuf {
        match &self.dir {
            Some(dir) => dir.clone(),
            None if self.is_about_memory() => std::env::temp_dir(),
            None => machine::usual_folder(),
        }
    }

    /// The stores that were named.
    pub(crate) fn named_stores(&self) -> Option<Vec<String>> {
        self.stores.as_deref().map(named_stores)
    }

    /// Whether something is done with a store's files that is not done with a server.
    pub(crate) fn is_about_files(&self) -> bool {
        self.is_about_memory() || self.kept.keep.is_some() || self.kept.open.is_some()
    }

    /// Whether what is in memory of a store's files matters, so that they are to be on a disk.
    pub(crate) fn is_about_memory(&self) -> bool {
        self.cold || self.memory_limit.is_some()
    }

    /// The library that the user named for a store.
    pub(crate) fn library(&self, store: &str) -> Option<PathBuf> {
        library_of(&self.libraries, store)
    }

    /// Whether an option, or the environment, is about this store: then it is missed where it is not there.
    pub(crate) fn is_about(&self, store: &str) -> bool {
        is_missed(store, &self.libraries) || idle::stores_set_up(self).any(|named| named == store)
    }

    /// The folder that the charts are written to, if they are wanted.
    pub(crate) fn charts_folder(&self) -> Option<&Path> {
        let chosen = (self.metrics == Metrics::Png).then_some(Path::new("credenza-charts"));
        self.charts.as_deref().or(chosen)
    }

    /// Refuses options that name what is not there.
    pub(crate) fn check(&self) -> Result<()> {
        self.kept.check(&self.records)?;
        let mut counts = self.records.clone();
        counts.sort_unstable();
        if let Some(twice) = counts.windows(2).find(|two| two[0] == two[1]) {
            let what = format!("--records names {} twice: leave one of both out", twice[0]);
            return Err(Error::invalid(what));
        }
        if self.tee.is_some() && self.records.len() > 1 {
            return Err(Error::invalid("--tee is for one number of --records"));
        }
        if self.check_every == Some(0) {
            return Err(Error::invalid("--check-every must be at least 1"));
        }
        if !self.rate.is_none_or(|rate| (1e-3..=1e9).contains(&rate)) {
            return Err(Error::invalid("--rate takes operations a second, from 0.001 to 1e9"));
        }
        if !(1e-3..=86_400.0).contains(&self.rate_seconds) {
            return Err(Error::invalid("--rate-seconds takes seconds, from 0.001 to 86400"));
        }
        if self.rate.is_some() && self.metrics == Metrics::None {
            return Err(Error::invalid(
                "--metrics none contradicts --rate, which measures latencies: leave one of both out",
            ));
        }
        if self.cold && self.metrics == Metrics::All {
            return Err(Error::invalid(
                "--metrics all contradicts --cold: who is asked for counters reads pages before anything is timed; \
                 leave one of both out",
            ));
        }
        if self.with_writer && self.processes.is_empty() && self.threads.is_empty() {
            return Err(Error::invalid(
                "--with-writer is for readers: say --processes or --threads, too",
            ));
        }
        idle::check(self)?;
        let named = self.named_stores();
        let stores = || named.iter().flatten().map(String::as_str);
        check_stores_and_servers(stores(), &self.libraries)?;
        check_stores_and_servers(self.baseline.as_deref().into_iter(), &[])?;
        let is_among = |baseline: &String| stores().any(|store| store == baseline);
        match self.baseline.as_ref().filter(|baseline| named.is_some() && !is_among(baseline)) {
            None => Ok(()),
            Some(baseline) => Err(Error::invalid(format!(
                "--baseline {baseline}: it is not among the --stores: name it there, or another one here"
            ))),
        }
    }
}

/// Seconds after which a process is given up; longer than a year nobody waits.
pub(crate) const TIMEOUT: RangeInclusive<u64> = 1..=31_536_000;

/// An option that is given a number below zero says what is wrong with that, and is not itself in question.
pub fn numbers_may_be_negative(command: clap::Command) -> clap::Command {
    let takes = |arg: clap::Arg| match arg.get_long().is_some() && arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    command.mut_args(takes).mut_subcommands(numbers_may_be_negative)
}

/// What the words of a command line ask a program for, whose options may all be given such numbers.
pub fn parsed<P: Parser>(words: impl IntoIterator<Item = OsString>) -> Result<P, clap::Error> {
    let mut command = numbers_may_be_negative(P::command());
    let mut found = command.try_get_matches_from_mut(words)?;
    P::from_arg_matches_mut(&mut found).map_err(|error| error.format(&mut command))
}

/// How often something is done.
pub(crate) fn rounds() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=1_000_000)
}

/// A whole number, also as 1e6.
pub(crate) fn count(text: &str) -> std::result::Result<usize, String> {
    let most = 1u64 << 40;
    let whole = |number: &f64| number.fract() == 0.0 && (0.0..=most as f64).contains(number);
    let number = text.parse::<usize>().ok().filter(|number| *number as u64 <= most);
    let as_power = || text.parse::<f64>().ok().filter(whole).map(|number| number as usize);
    number.or_else(as_power).ok_or_else(|| "a whole number is wanted, as 1000 or 1e6".to_owned())
}

/// A number of bytes with an optional suffix K, M, G or T (powers of 1024).
pub fn size(text: &str) -> std::result::Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err("write a number of bytes, with K, M, G or T behind it if you like".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "write a whole number, such as 512M")?;
    number.checked_mul(1 << shift).ok_or_else(|| "this is more than 16 EiB".into())
}

/// The library that the user named for a store, as NAME=PATH; of a server, the address in its name.
pub(crate) fn library_of(libraries: &[String], store: &str) -> Option<PathBuf> {
    if let Some(address) = driver::address_of(store) {
        return Some(PathBuf::from(address));
    }
    let named = libraries.iter().filter_map(|lib| lib.split_once('='));
    named.filter(|(name, _)| *name == store).map(|(_, path)| PathBuf::from(path)).next_back()
}

/// The stores that were named between commas. What stands between the commas in the address of a cluster,
/// which it has as well, is put together again.
pub(crate) fn named_stores(parts: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in parts {
        let is_node = part.contains(':') && driver::address_of(part).is_none();
        match names.last_mut().filter(|name| is_node && name.starts_with(driver::CLUSTER)) {
            Some(cluster) => *cluster += &format!(",{part}"),
            None => names.push(part.clone()),
        }
    }
    names
}

/// Refuses names of stores that there are not, and addresses of servers that make no sense.
pub(crate) fn check_stores_and_servers<'a>(
    stores: impl Iterator<Item = &'a str>,
    libraries: &'a [String],
) -> Result<()> {
    let named: Vec<&str> = stores.collect();
    idle::once("--stores", named.iter().copied())?;
    let is_server = |name: &&&str| driver::address_of(name).is_some();
    // Before anything is printed or written: the names are in all of it.
    named.iter().filter(is_server).try_for_each(|name| driver::check_address(name))?;
    check_names(named.iter().filter(|name| !is_server(name)).copied(), libraries)?;
    libraries::check(libraries, &named)
}

/// Refuses names of stores that there are not, also in the libraries that are named.
pub(crate) fn check_stores<'a>(
    stores: impl Iterator<Item = &'a str>,
    libraries: &'a [String],
) -> Result<()> {
    let named: Vec<&str> = stores.collect();
    idle::once("--stores", named.iter().copied())?;
    check_names(named.iter().copied(), libraries)?;
    libraries::check(libraries, &named)
}

fn check_names<'a>(stores: impl Iterator<Item = &'a str>, libraries: &'a [String]) -> Result<()> {
    let of_libraries = libraries.iter().filter_map(|lib| Some(lib.split_once('=')?.0));
    let of_libraries = of_libraries.map(|name| (name, " (--lib takes NAME=PATH)"));
    for (name, how) in stores.map(|name| (name, "")).chain(of_libraries) {
        if driver::address_of(name).is_some() {
            let what = format!(
                "'{name}' is a server: `credenza bench --stores` and `credenza replay --stores` take it, nothing else"
            );
            return Err(Error::invalid(what));
        }
        if !driver::NAMES.contains(&name) {
            return Err(Error::invalid(format!(
                "there is no store '{name}'; there are {}{how}",
                driver::NAMES.join(", ")
            )));
        }
    }
    Ok(())
}
