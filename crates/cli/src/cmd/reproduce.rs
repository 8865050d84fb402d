//! `credenza reproduce`: the experiments of published documents, run again by the workbench.

use crate::args::exit_status;
use crate::exit::Status;
use clap::Args;
use credenza::Result;
use credenza_bench::ReproduceArgs;

/// Run the experiment of a published document again, and compare.
///
/// Its table, with the machine it was measured on, stands beside the one measured here, which has
/// Credenza's own stores in it as well; then a line for each thing that the document says: whether it
/// holds here. Stores that are not installed are said and left out. Each store runs in processes of
/// its own, and every answer is checked.
#[derive(Debug, Args)]
#[command(
    after_long_help = concat!(
        "Examples:\n  \
           credenza reproduce mcdb --scale 0.01                   a first look\n  \
           credenza reproduce all --json all.json                 everything, in half an hour\n  \
           credenza reproduce ntdb --lib ntdb=/opt/libntdb.so     with a library of your own\n",
        exit_status!("  130  stopped by a signal: what was finished is reported\n")
    )
)]
pub struct Reproduce {
    #[command(flatten)]
    reproduce: ReproduceArgs,
}

/// Runs the command.
pub fn run(mut args: Reproduce, quiet: bool) -> Result<Status> {
    args.reproduce.quiet = quiet;
    credenza_bench::reproduce(&args.reproduce).map(Status::Code)
}
