//! `credenza bench`: the workbench, which is a crate of its own.

use crate::args::exit_status;
use crate::exit::Status;
use clap::Args;
use credenza::Result;
use credenza_bench::BenchArgs;

/// Measure stores: the same work on each, every answer checked.
///
/// Each store runs in a process of its own, round by round in random order, so that one does not
/// disturb another and a slow minute of the machine falls on all of them.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza bench --list                                which stores are found here\n  \
       credenza bench --stores constant,cdb,mcdb            the workload 'decimal'\n  \
       credenza bench --workload ycsb-a --records 100000    half lookups, half updates\n  \
       credenza bench --oracle --stores btree,lmdb          every answer compared, nothing timed\n  \
       credenza bench --workload files --html report.html   the paths below /usr\n  \
       credenza bench --data mine.tsv --json report.json    your own records\n  \
       credenza bench --workload churn --charts charts      every chart as SVG and PNG\n  \
       credenza bench compare before.json after.json        two saved runs: what became worse\n",
    exit_status!(
        "    1  compare: something regressed\n  130  stopped by a signal: what was finished is reported\n"
    )
))]
pub struct Bench {
    #[command(flatten)]
    bench: BenchArgs,
}

/// Runs the command.
pub fn run(mut args: Bench, quiet: bool) -> Result<Status> {
    args.bench.quiet = quiet;
    credenza_bench::run(args.bench).map(Status::Code)
}
