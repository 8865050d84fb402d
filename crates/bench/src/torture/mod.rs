//! `credenza torture`: a user's own operations on any store, and something happening to it meanwhile.
//!
//! Reading order: [`TortureArgs`], [`asked`] (what is wanted), [`plan`] (what is done to a store),
//! [`generations`] (where each change of it is a whole new file), [`judge`] (what it means for what is
//! found), [`child`] (the processes that work and look), [`ledger`] (how far they had come), [`kill`] (when
//! one of them dies), [`disk`] and [`power`] (what a power cut leaves), [`room`] (a folder that fills up),
//! [`subject`] (what is known of a store), [`rounds`] (what happens when), [`keep`] (what is left of a store
//! that lost something), [`outcome`] and [`table`] (what the reader sees).
//!
//! Method: for each store, fault and round a new store, and a process that does the operations one after
//! the other. What has returned without an error is acknowledged. Then something happens at a moment that
//! the seed fixes: the process is killed; or disks are made up that a power cut may leave; or there is no
//! space left. A fresh process opens what is left, as the store's authors say, and puts every record beside
//! the operations. What a store promises is its driver's to say ([`crate::driver::Driver::promise`]).

mod asked;
mod child;
mod disk;
mod generations;
mod judge;
mod keep;
mod kill;
mod ledger;
mod outcome;
mod plan;
mod power;
mod room;
mod rounds;
mod subject;
mod table;

use crate::args::{self, TIMEOUT, check_stores};
use crate::driver::{Fault, Promise};
use crate::machine;
use crate::report::outputs;
use crate::runner::folder::Folder;
use child::Space;
use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use credenza::{Error, Result};
use judge::{At, Judged};
use outcome::Outcome;
use rounds::Run;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status when a store broke its promise.
const BROKEN: u8 = 1;

/// Seconds that a process has, unless it is said otherwise.
const PATIENCE: u64 = 60;

/// What a process of a torture says on standard output.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// All operations were done, and the store took so much on the way.
    Rehearsed(Vec<Space>),
    /// The power fails now.
    At(At),
    /// The store refused an operation, or closing; or nothing.
    Full { at: At, why: Option<String>, is_made: bool },
    /// What is in a store.
    Judged(Judged),
    /// Nothing but that all is done.
    Finished,
}

/// When a change is to be safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Class {
    /// On the disk when its call has returned
    Sync,
    /// With the kernel when its call has returned
    Buffered,
}

/// Kill, cut the power of, and fill up stores; and count what they lose.
#[derive(Args, Clone, Debug)]
pub struct TortureArgs {
    /// Stores, separated by commas; without it, all that are found (see 'credenza bench --list')
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub stores: Option<Vec<String>>,
    /// What is stored and done: decimal, tokens, ups, churn, random, ntdb, ycsb, ycsb-a to ycsb-f, files, or
    /// the path of a .toml file
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "churn")]
    pub workload: String,
    /// Store the records of this file, in any format `credenza load` reads; of a trace, as 'credenza record'
    /// makes it, do the operations
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    pub data: Option<PathBuf>,
    /// The format of --data, when its content does not tell it
    #[arg(long, value_name = "FORMAT", requires = "data")]
    pub format: Option<String>,
    /// Records to store first, at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub records: usize,
    /// Operations to do then, at most
    #[arg(long, value_name = "N", default_value_t = 3000)]
    pub operations: usize,
    /// What happens, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "FAULTS", default_value = "kill,power,full")]
    pub faults: Vec<Fault>,
    /// How often each of it happens to each store
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = args::rounds())]
    pub rounds: usize,
    /// Begin no further round after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(TIMEOUT))]
    pub seconds: Option<u64>,
    /// When a change is to be safe [default: sync where the power fails, else buffered; stores without the
    /// one have the other, and the table says which]
    #[arg(long, value_name = "CLASS")]
    pub durability: Option<Class>,
    /// Judge every store by this, instead of by what it promises
    #[arg(long, value_name = "WHAT")]
    pub expect: Option<Promise>,
    /// Do this round only: the report names it where something was lost
    #[arg(long, value_name = "N", conflicts_with_all = ["rounds", "seconds"],
          value_parser = RangedU64ValueParser::<usize>::new().range(..1_000_000))]
    pub round: Option<usize>,
    /// Seed of data, operations and moments
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Folder for the store files [default: /dev/shm if that is in memory, else the system's folder
    /// for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where something is lost, keep the store's files as they were found in this folder, a new one or an
    /// empty one, with a file that says what is not there [default: nothing is kept]
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
    /// Write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Use this library for a store: NAME=PATH; may be given many times
    #[arg(long = "lib", value_name = "NAME=PATH")]
    pub libraries: Vec<String>,
    /// Set up stores so, as 'credenza bench --set' does: NAME=VALUE, for one store STORE.NAME=VALUE; may be given
    /// many times. Who cannot be so is left out, and named; 'credenza bench --list' says what each store takes
    /// [default: as each store is fastest]
    #[arg(long = "set", value_name = "[STORE.]NAME=VALUE")]
    pub settings: Vec<String>,
    /// Give a process up after so many seconds, and count it as one that crashed
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE,
          value_parser = clap::value_parser!(u64).range(TIMEOUT))]
    pub timeout: u64,
    /// Work on one store, or look at one: the program starts itself with this
    #[arg(long, hide = true)]
    pub child: bool,
    /// Say nothing of the progress.
    #[arg(skip)]
    pub quiet: bool,
}

impl TortureArgs {
    fn check(&self) -> Result<()> {
        if self.records == 0 || self.operations == 0 {
            return Err(Error::invalid("--records and --operations must be at least 1"));
        }
        check_stores(self.stores.iter().flatten().map(String::as_str), &self.libraries)
    }

    fn folder(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(machine::usual_folder)
    }
}

/// Tortures the stores that `args` name, prints what came of it, and writes it. The status is 0 when every
/// store kept what it promises, 1 when one did not, 111 when one could not be run or none of what was to
/// happen to it did, and 130 after a signal.
///
/// As for [`crate::run`], the program starts itself again with its own arguments and `--child`. To be called
/// on the first thread, before there are others: the processes it starts may see mounts of their own.
///
/// # Errors
/// The options make no sense, the data cannot be read, or the results cannot be written.
pub fn torture(args: &TortureArgs) -> Result<ExitCode> {
    crate::driver::tried::answer();
    if args.child {
        child::main()?;
        return Ok(ExitCode::SUCCESS);
    }
    args.check()?;
    outputs::check(&[("--json", args.json.as_ref())], &[args.data.as_ref()])?;
    args.keep.as_deref().map_or(Ok(()), outputs::prepare_to_keep)?;
    let room = room::Room::prepare(args.faults.contains(&Fault::Full));
    let folder = Folder::create_in(&args.folder())?;
    let mut run = Run::new(args, &folder, room)?;
    run.all()?;
    let report = run.into_report();
    outputs::tell(&table::of(&report), &report, args.json.as_ref())?;
    Ok(match report.interrupted {
        true => ExitCode::from(crate::INTERRUPTED),
        false => ExitCode::from(status(&report.results, !report.failures.is_empty())),
    })
}

/// The exit status of a torture that came to its end.
fn status(results: &[Outcome], has_failures: bool) -> u8 {
    match results.iter().any(Outcome::is_broken) {
        true => BROKEN,
        false if has_failures || results.iter().any(|of| !of.is_tested) => crate::FAILED,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_tested_is_not_a_success() {
        let of = |faults, is_kept| {
            let new = Outcome::new("it", "1", "sync", Fault::Full, Promise::All);
            let mut outcome = Outcome { faults, is_kept, ..new };
            outcome.end();
            outcome
        };
        let (never, well, broken) = (of(0, true), of(1, true), of(1, false));
        assert_eq!(status(std::slice::from_ref(&well), false), 0);
        assert_eq!(status(&[well.clone(), never.clone()], false), 111);
        assert_eq!(status(&[well], true), 111);
        assert_eq!(status(&[never, broken], true), 1);
    }
}
