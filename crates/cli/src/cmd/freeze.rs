//! `credenza freeze`: a hash store to a constant one.

use crate::args::{exit_status, open_hash};
use crate::cmd::load;
use crate::exit::Status;
use crate::progress::{Bar, Unit};
use clap::Args;
use credenza::Result;
use std::path::PathBuf;

/// Make a constant store of what a hash store has at this moment.
///
/// The constant store is smaller, faster to read, and never changes. The hash store stays as it
/// is; who writes to it waits until it is read, who reads does not. TARGET appears, or is replaced,
/// in one step.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza freeze users users.constant\n  \
       credenza freeze users /srv/users.new && mv /srv/users.new /srv/users.constant\n",
    exit_status!()
))]
pub struct Freeze {
    /// The hash store to read
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// The constant store to write
    target: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Freeze, quiet: bool) -> Result<Status> {
    let store = open_hash(&args.store)?;
    let bar = Bar::new(quiet);
    bar.begin("freezing", Unit::Records, Some(store.len()?));
    let stats = credenza::freeze(&store, &args.target, |done, _| bar.count(done))?;
    drop(bar);
    load::summary(&args.target, stats.records, stats.records, args.json, quiet)?;
    Ok(Status::Done)
}
