//! `credenza torture`: the user's own operations on stores that the workbench kills, fills up, and cuts the
//! power of.

use crate::args::exit_status;
use crate::exit::Status;
use clap::Args;
use credenza::Result;
use credenza_bench::TortureArgs;

/// Kill, fill up, and cut the power of stores while they do your operations, and count what they lose.
///
/// Each round is a new store, and a process that stores the records and does the operations. Then it is
/// killed; or disks are made up that a power cut may leave; or there is no space left. What had returned
/// without an error counts as acknowledged. A fresh process opens what is left and compares every record.
/// What each store promises is in the table: to keep all, to be of one moment since the last sync, or
/// nothing. No power is cut: what was not synced is kept, lost or torn at random, also of what is stored
/// into maps. The constant engine is built anew after every few operations, in the place of the file
/// before; other stores that are built once take no part. A store to which a fault never happened is marked
/// NOT TESTED, and the status is 111.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza torture --stores hash,btree,lmdb                  with records that are made up\n  \
       credenza torture --stores hash --data users.tsv            with your records\n  \
       credenza torture --stores btree --data day.trace           what a program did\n  \
       credenza torture --stores constant --data users.tsv        publishing file after file\n  \
       credenza torture --stores hash --durability buffered \\\n    \
         --faults power --expect all                              would it lose anything?\n",
    exit_status!(
        "    1  a store did not keep what it promises, or what --expect says\n  \
           130  stopped by a signal: what was finished is reported\n"
    )
))]
pub struct Torture {
    #[command(flatten)]
    torture: TortureArgs,
}

/// Runs the command.
pub fn run(mut args: Torture, quiet: bool) -> Result<Status> {
    args.torture.quiet = quiet;
    credenza_bench::torture(&args.torture).map(Status::Code)
}
