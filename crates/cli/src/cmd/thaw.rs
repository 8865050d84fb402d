//! `credenza thaw`: any store to a hash store.

use crate::args::{ReadArgs, exit_status};
use crate::cmd::load;
use crate::exit::Status;
use crate::progress::{Bar, Unit};
use clap::Args;
use credenza::{Result, Scan};
use std::path::PathBuf;

/// Make a hash store, which can be changed, of a store of any kind.
///
/// TARGET must not exist; it appears in one step, when all is read and on the disk. A hash store has
/// one value a key: a store in which a key has several is refused, and 'dump' and 'load
/// --duplicates first' or 'last' choose one.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza thaw users.constant users\n  \
       credenza thaw old.cdb new\n  \
       credenza dump a.cdb | credenza load b --to hash --duplicates first\n",
    exit_status!()
))]
pub struct Thaw {
    /// The store to read: constant, cdb, cdb64, mcdb, or hash
    #[arg(value_name = "CONSTANT")]
    store: PathBuf,

    /// The hash store to make
    target: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub fn run(args: &Thaw, quiet: bool) -> Result<Status> {
    let store = args.read.open(&args.store)?;
    let bar = Bar::new(quiet);
    bar.begin("thawing", Unit::Records, None);
    let thawed = credenza::thaw(&store, &args.target, |done, _| bar.count(done))?;
    drop(bar);
    let records = Scan::len(&thawed)?;
    load::summary(&args.target, records, records, args.json, quiet)?;
    Ok(Status::Done)
}
