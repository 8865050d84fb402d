//! `credenza advise`: which store is best for data and their use, found by the workbench.

use crate::args::exit_status;
use crate::exit::Status;
use clap::Args;
use credenza::Result;
use credenza_bench::AdviseArgs;

/// Say which store is best for your data, with which settings, and what to expect of it.
///
/// Stores that can do what is asked for are measured with parts of the data, of two or three sizes, and
/// what is to be expected of all of the data is worked out from that: times of operations, file and
/// memory. Where records change, what each durability costs is measured, and one is advised unless it is
/// asked for. Settings are tried where they may matter. The store that is advised is then built and measured
/// with all of the data, and the errors of the prediction are printed. Without options the data are only looked
/// up; a trace tells itself what was done.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza advise --data words.tsv                            looked up, and never changed\n  \
       credenza advise --data words.tsv --writes 20 --misses 30    of 100 operations 20 change\n  \
       credenza advise --data words.tsv --writes 20 --rate 3000    3,000 changes in the busiest second\n  \
       credenza advise --data events.tsv --ranges 10 --sync --writes 5 --dir .\n  \
       credenza advise --data users.tsv --records 50000000         when there are so many\n  \
       credenza record day.trace -- ./server && credenza advise --data day.trace\n  \
       credenza advise --data words.tsv --check-all --json advice.json\n",
    exit_status!("  130  stopped by a signal\n")
))]
pub struct Advise {
    #[command(flatten)]
    advise: AdviseArgs,
}

/// Runs the command.
pub fn run(mut args: Advise, quiet: bool) -> Result<Status> {
    args.advise.quiet = quiet;
    credenza_bench::advise(&args.advise).map(Status::Code)
}
