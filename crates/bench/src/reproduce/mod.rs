//! `credenza reproduce`: the experiments of five published documents, run again.
//!
//! Each document has a file here, with the figures that it published, quoted as they stand there,
//! and the experiment as it was: what is stored, how the stores are set up, what is timed. Reading
//! order: [`task`] (what one measured process is told and does), [`lab`] (rounds of processes, and
//! what they found), [`outcome`] (tables and verdicts), [`terminal`] (how they are shown), then a
//! document.
//!
//! Invariants: every store runs in a fresh process, rounds are interleaved, every answer is compared
//! with the data, and a figure that came with a wrong answer is not one. Of a run that ends early what is
//! finished is told, and that it is not all.

mod bayes;
mod lab;
mod mcdb;
mod mdbm;
mod mdbm_tables;
mod ntdb;
mod outcome;
mod task;
mod terminal;
mod upscaledb;
mod upscaledb_run;

use crate::args::{TIMEOUT, check_stores, library_of, rounds};
use crate::machine;
use crate::progress::say;
use crate::report::json::publish_value;
use crate::report::{durability, outputs};
use crate::result::{Failure, Machine, StoreInfo};
use clap::{Args, ValueEnum};
use credenza::{Error, Result};
use lab::Lab;
use outcome::Outcome;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The version of the JSON file, in `credenza_reproduce`.
const CONTRACT: u32 = 2;

/// What is said of a document that was not finished.
const STOPPED: &str = "this is not all: the run ended before what is missing was measured";

/// A published document, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// mcdb against Tokyo Cabinet: 1,000,000 records made and looked up, warm and cold
    Mcdb,
    /// BerkeleyDB, cdb and Tokyo Cabinet with the 11 million tokens of a mail filter
    Bayes,
    /// MDBM: what timing operations costs, what preloading is worth, handles for threads
    Mdbm,
    /// TDB, TDB2 and NTDB: 100 to 1,000,000 small records stored, stored again and fetched
    Ntdb,
    /// upscaledb: each command of its manual that is a call of ups_bench
    Upscaledb,
    /// All of them, one after the other
    All,
}

impl Document {
    const EACH: [Document; 5] =
        [Document::Mcdb, Document::Ntdb, Document::Bayes, Document::Mdbm, Document::Upscaledb];

    /// The stores that it has, and ours beside them.
    fn stores(self) -> &'static [&'static str] {
        match self {
            Document::Mcdb => &mcdb::STORES,
            Document::Bayes => &bayes::STORES,
            Document::Ntdb => &ntdb::STORES,
            Document::Mdbm => &mdbm::STORES,
            Document::Upscaledb => &upscaledb::STORES,
            Document::All => &[],
        }
    }

    /// Whether a part of it has the store files on a disk.
    fn has_disk(self) -> bool {
        matches!(self, Document::Mcdb | Document::Mdbm)
    }
}

/// Run the experiment of a published document again, and compare.
#[derive(Args, Clone, Debug)]
pub struct ReproduceArgs {
    /// Whose experiment
    #[arg(value_enum, required_unless_present = "child")]
    pub documents: Vec<Document>,
    /// Make every number of records so many times as large; 0.01 for a first look
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub scale: f64,
    /// Rounds of each part [default: as many as the document had, else 3]
    #[arg(long, value_name = "N", value_parser = rounds())]
    pub rounds: Option<usize>,
    /// Leave out all stores but these, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub stores: Option<Vec<String>>,
    /// Folder for store files that are to be in memory [default: /dev/shm if that is in memory,
    /// else the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Folder on a disk, for what begins with nothing in memory [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
    /// Use this library for a store: NAME=PATH; may be given many times
    #[arg(long = "lib", value_name = "NAME=PATH")]
    pub libraries: Vec<String>,
    /// Write everything as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Seed of data, queries and order of the stores
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Let the kernel choose the processor
    #[arg(long)]
    pub no_pin: bool,
    /// Give a store up in a round after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
          value_parser = clap::value_parser!(u64).range(TIMEOUT))]
    pub timeout: u64,
    /// Do one round of one store: the program starts itself with this
    #[arg(long, hide = true)]
    pub child: bool,
    /// Say nothing of the progress.
    #[arg(skip)]
    pub quiet: bool,
}

impl ReproduceArgs {
    fn check(&self) -> Result<()> {
        if !(self.scale > 0.0 && self.scale <= 100.0) {
            return Err(Error::invalid("--scale must be above 0, and at most 100"));
        }
        check_stores(self.stores.iter().flatten().map(String::as_str), &[])?;
        // Libraries of all documents may be named for one of them.
        check_stores(std::iter::empty(), &self.libraries)?;
        self.check_documents()
    }

    /// The stores of the documents, each once.
    fn known(&self) -> Vec<&'static str> {
        let mut known: Vec<&str> = Vec::new();
        for store in self.documents().iter().flat_map(|document| document.stores()) {
            if !known.contains(store) {
                known.push(store);
            }
        }
        known
    }

    /// What is to be known of libraries that were named and that nothing here uses.
    fn unused(&self) -> Option<String> {
        let is_named = |store: &&str| {
            self.stores.as_ref().is_none_or(|named| named.iter().any(|name| name == store))
        };
        let used: Vec<&str> = self.known().into_iter().filter(is_named).collect();
        let named = self.libraries.iter().filter_map(|lib| Some(lib.split_once('=')?.0));
        let unused: Vec<&str> = named.filter(|store| !used.contains(store)).collect();
        let what = || format!("--lib names what nothing here uses: {}", unused.join(", "));
        (!unused.is_empty()).then(what)
    }

    /// Refuses a store that is named and in none of the documents: nothing would be said of it.
    fn check_documents(&self) -> Result<()> {
        let known = self.known();
        let mut named = self.stores.iter().flatten().map(String::as_str);
        match named.find(|store| !known.contains(store)) {
            None => Ok(()),
            Some(store) => Err(Error::invalid(format!(
                "'{store}' is in no document that is asked for: there are {}",
                known.join(", ")
            ))),
        }
    }

    fn documents(&self) -> Vec<Document> {
        let is_asked = |document: &Document| {
            self.documents.contains(document) || self.documents.contains(&Document::All)
        };
        Document::EACH.into_iter().filter(is_asked).collect()
    }

    /// A number of records or operations of a document, scaled; at least `least`.
    fn scaled(&self, count: usize, least: usize) -> usize {
        ((count as f64 * self.scale) as usize).max(least.min(count))
    }

    /// A time of an experiment: shorter where less is asked for, never longer.
    fn time(&self, usual: Duration) -> Duration {
        usual.mul_f64(self.scale.clamp(0.05, 1.0))
    }

    fn library(&self, store: &str) -> Option<PathBuf> {
        library_of(&self.libraries, store)
    }

    /// The folder for store files that are in memory.
    fn memory(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(machine::usual_folder)
    }

    /// The folder for those that are on a disk.
    fn disk(&self) -> &Path {
        self.disk.as_deref().unwrap_or(Path::new("/var/tmp"))
    }
}

/// Everything that is found, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    credenza_reproduce: u32,
    machine: &'a Machine,
    scale: f64,
    seed: u64,
    stores: &'a [StoreInfo],
    documents: &'a [Outcome],
    failures: &'a [Failure],
    notes: &'a [String],
    /// Whether a signal ended the run: what was not measured by then is missing.
    interrupted: bool,
}

/// Runs the experiments that `args` ask for and prints each when it is done. The status is 0, or
/// 111 when a store failed, gave a wrong answer, or was asked for by name and is not there, and 130 when a
/// signal ended the run: what is finished is reported all the same.
///
/// As for [`crate::run`], the program starts itself again with its own arguments and `--child`.
///
/// # Errors
/// The options make no sense, a folder cannot be written, or the results cannot be. What was finished before
/// is reported first.
pub fn reproduce(args: &ReproduceArgs) -> Result<ExitCode> {
    crate::driver::tried::answer();
    if args.child {
        task::main()?;
        return Ok(ExitCode::SUCCESS);
    }
    args.check()?;
    outputs::check(&[("--json", args.json.as_ref())], &[])?;
    let mut lab = Lab::new(args)?;
    let mut told = outputs::print(&terminal::opening(&lab.machine, args.scale));
    let mut outcomes = Vec::new();
    for document in args.documents() {
        let finished = lab.finished;
        let mut outcome = match document {
            Document::Mcdb => mcdb::run(&mut lab),
            Document::Bayes => bayes::run(&mut lab),
            Document::Ntdb => ntdb::run(&mut lab),
            Document::Mdbm => mdbm::run(&mut lab),
            Document::Upscaledb => upscaledb::run(&mut lab),
            Document::All => continue,
        };
        if lab.is_over() {
            outcome.differs.insert(0, STOPPED.to_owned());
        }
        if lab.finished > finished {
            told = told.and(outputs::print(&terminal::show(&outcome)));
            outcomes.push(outcome);
        }
        // Nobody is there to be told the rest, unless it goes into a file.
        if lab.is_over() || told.is_err() && args.json.is_none() {
            break;
        }
    }
    let is_interrupted = lab.is_interrupted();
    if is_interrupted {
        lab.notes
            .push("stopped by a signal: figures rest on the rounds that were finished".to_owned());
    }
    let error = lab.error.take();
    lab.notes.extend(error.iter().map(|e| format!("ended by an error: {e}")));
    lab.notes.extend(unlike_classes(&lab.stores));
    told = told.and(outputs::print(&terminal::closing(&lab)));
    if let Some(path) = &args.json {
        match write_json(path, args, &lab, &outcomes) {
            // What came first is what the user must know, and where the figures are.
            Err(e) if error.is_some() => say!("credenza reproduce: {e}"),
            written => written?,
        }
    }
    if let Some(error) = error {
        return Err(error);
    }
    told?;
    if is_interrupted {
        return Ok(ExitCode::from(crate::INTERRUPTED));
    }
    let is_well = lab.failures.is_empty();
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(crate::FAILED) })
}

/// What is to be known of stores whose changes are not safe at the same time, as in the documents.
fn unlike_classes(stores: &[StoreInfo]) -> Option<String> {
    let classes =
        stores.iter().filter_map(|info| Some((info.changes_class.as_deref()?, &*info.store)));
    let (count, said) = durability::by_class(classes);
    (count > 1).then(|| {
        format!(
            "what is stored one by one is not of one durability class, as in the documents: {said}"
        )
    })
}

fn write_json(
    path: &Path,
    args: &ReproduceArgs,
    lab: &Lab<'_>,
    outcomes: &[Outcome],
) -> Result<()> {
    let report = Report {
        credenza_reproduce: CONTRACT,
        machine: &lab.machine,
        scale: args.scale,
        seed: args.seed,
        stores: &lab.stores,
        documents: outcomes,
        failures: &lab.failures,
        notes: &lab.notes,
        interrupted: lab.is_interrupted(),
    };
    publish_value(&report, path)
}
