//! `credenza replay`: what a program did, done again on any store by the workbench.

use crate::args::exit_status;
use crate::exit::Status;
use clap::Args;
use credenza::Result;
use credenza_bench::ReplayArgs;

/// Do again on any store what a program did, as 'credenza record' recorded it.
///
/// All stores and tables of the trace become one store, and its threads one, in the order of time. Values
/// are made up, of the recorded lengths. A store begins with the records of --data, or else with those
/// that the trace found before anybody had stored them; then every answer of which the trace says whether
/// a key was there is compared with it, and differences are counted. What a store cannot do is said and
/// skipped. Each store runs in a process of its own.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza replay day.trace --stores hash,btree,lmdb          as fast as they can\n  \
       credenza replay day.trace --stores hash --speed original    when it was done\n  \
       credenza replay day.trace --stores hash --speed 50000       so many a second\n  \
       credenza replay day.trace --data users.tsv --json out.json  from these records\n",
    exit_status!("  130  stopped by a signal: what was finished is reported\n")
))]
pub struct Replay {
    #[command(flatten)]
    replay: ReplayArgs,
}

/// Runs the command.
pub fn run(mut args: Replay, quiet: bool) -> Result<Status> {
    args.replay.quiet = quiet;
    credenza_bench::replay(&args.replay).map(Status::Code)
}
