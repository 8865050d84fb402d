//! `credenza verify`: is every byte as it was written?

use crate::args::{ReadArgs, WaitArgs, exit_status};
use crate::cmd::table;
use crate::exit::{self, Status};
use crate::progress::{Bar, Unit};
use crate::waiting::{self, for_others};
use crate::{json, output};
use clap::Args;
use credenza::{Error, ErrorKind, Result, Scan, Store};
use indicatif::HumanBytes;
use std::path::{Path, PathBuf};

/// Check every byte of stores.
///
/// Prints one line for each store: ok, or the damaged place on standard error. All are checked, and the
/// exit status is about all of them, also when the reader of the output has gone. A constant store
/// is checked against its checksums; a hash store too, and that its index leads to every record,
/// while its writers wait; a btree store too, all its tables, and that every page is used once, while
/// its writers wait; the formats of cdb and mcdb have none, so that their structure is checked
/// and changed bytes in values cannot be seen.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza verify words.store\n  \
       credenza verify /srv/*.store --json\n  \
       credenza verify new.store && mv new.store live.store\n",
    exit_status!()
))]
pub struct Verify {
    /// The stores to check
    #[arg(required = true, value_name = "STORE")]
    stores: Vec<PathBuf>,

    /// One JSON object a line for each store
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    read: ReadArgs,

    #[command(flatten)]
    wait: WaitArgs,
}

/// Runs the command.
pub fn run(args: &Verify, quiet: bool) -> Result<Status> {
    let (mut status, mut is_read) = (Status::Done, true);
    for path in &args.stores {
        let checked = check(args, path, quiet);
        if checked.is_err() {
            status = Status::Failed;
        }
        let told = match &checked {
            _ if !is_read => Ok(()),
            _ if args.json => print_json(path, &checked),
            Ok(found) if !quiet => print(path, found),
            Err(_) | Ok(_) => Ok(()),
        };
        match told {
            // Whoever has gone still gets the status of all of them.
            Err(e) if exit::is_closed_pipe(&e) => is_read = false,
            told => told?,
        }
        if let (Err(error), false) = (&checked, args.json) {
            exit::report(error);
        }
    }
    Ok(status)
}

fn print(path: &Path, Found { kind, records, bytes }: &Found) -> Result<()> {
    let (path, bytes) = (output::shown(path), HumanBytes(*bytes));
    let records = output::counted(*records, "record");
    output::print(format!("{path}: ok ({kind}, {records}, {bytes})\n"))
}

struct Found {
    kind: &'static str,
    records: u64,
    bytes: u64,
}

fn check(args: &Verify, path: &Path, quiet: bool) -> Result<Found> {
    let store = args.read.waiting(args.wait).open(path)?;
    let bar = Bar::new(quiet);
    bar.begin("checking", Unit::Bytes, None);
    let mut told = bar.of_bytes("checking");
    let progress = |done, total| {
        waiting::is_over();
        told(done, total);
    };
    match &store {
        Store::Hash(_) | Store::BTree(_) => for_others(|| store.verify(progress))?,
        _ => store.verify(progress)?,
    }
    let meta = std::fs::metadata(path).map_err(|e| Error::io("ask the size of", e).at(path))?;
    Ok(Found { kind: store.kind(), records: records(&store)?, bytes: meta.len() })
}

/// How many there are, in all tables.
fn records(store: &Store) -> Result<u64> {
    let Store::BTree(store) = store else { return store.len() };
    table::records_of_all(store)
}

fn print_json(path: &Path, checked: &Result<Found>) -> Result<()> {
    let found = match checked {
        Ok(Found { kind, records, bytes }) => serde_json::json!({
            "ok": true, "kind": kind, "records": records, "file_bytes": bytes,
        }),
        Err(error) => {
            let offset = match error.kind() {
                ErrorKind::Corrupt { offset, .. } => Some(*offset),
                _ => None,
            };
            let text = error.to_string();
            serde_json::json!({ "ok": false, "error": text, "offset": offset })
        }
    };
    json::print(&json::with_paths([("store", path)], found))
}
