//! `credenza create`: a new hash store, empty.

use crate::args::{WriteArgs, exit_status, size};
use crate::exit::Status;
use crate::{input, json, output};
use clap::Args;
use credenza::{Error, Result};
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Make a new, empty hash store: one that many processes change and read at the same time.
///
/// An error if the file exists. Of two who make the same store at once, one does.
///
/// With --limit, writes drop the records that were not read or written for longest, so that those
/// that are left never take more, each with its header of 8 or 16 bytes. The limit is the store's
/// for ever, whoever opens it; the file takes up to twice as much and 4 MiB.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza create users\n  \
       credenza create users --if-missing         in a script that may run again\n  \
       credenza create pages --limit 64MiB        a cache\n",
    exit_status!()
))]
pub struct Create {
    /// The store to make
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// Take a hash store that is there as it is
    #[arg(long)]
    if_missing: bool,

    /// How many bytes its records may take, such as 64MiB: a cache
    #[arg(long, value_name = "SIZE", value_parser = size)]
    limit: Option<u64>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    write: WriteArgs,
}

/// Runs the command.
pub fn run(args: &Create, quiet: bool) -> Result<Status> {
    let path = &args.store;
    if args.limit == Some(0) {
        return Err(Error::invalid(
            "--limit 0 leaves no room for any record: leave it out for none",
        ));
    }
    if input::is_dash(path) {
        let what = "a store cannot be written to standard output; name its file";
        return Err(Error::invalid(what));
    }
    let is_new = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => true,
        Err(e) if e.kind() == ErrorKind::AlreadyExists && args.if_missing => false,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            let what = "there is a file already; --if-missing takes a hash store as it is";
            return Err(Error::invalid(what).at(path));
        }
        Err(e) => return Err(Error::io("create", e).at(path)),
    };
    // An empty file becomes a store.
    let store = args.write.create(path, args.limit.unwrap_or(0))?;
    let records = store.len()?;
    if args.json {
        json::print(&serde_json::json!({
            "store": path.to_string_lossy(), "created": is_new, "records": records,
            "limit_bytes": store.limit(),
        }))?;
    } else if !quiet {
        let what = if is_new { "a new hash store" } else { "was there already" };
        output::print(format!("{}: {what}\n", path.display()))?;
    }
    Ok(Status::Done)
}
