//! `credenza recover`: what is whole in a damaged hash or btree store.

use crate::args::exit_status;
use crate::exit::Status;
use crate::private::as_private_as;
use crate::progress::{Bar, Unit};
use crate::{input, json, output, way};
use clap::Args;
use credenza::{Error, Result, btree, hash};
use indicatif::HumanBytes;
use serde_json::Value;
use std::path::PathBuf;

/// Copy every record that is whole in a damaged hash or btree store into a new one.
///
/// The damaged store is only read; nobody may write to it meanwhile. After a crash or a power cut this is not needed:
/// opening a store repairs what these leave.
///
/// Of a hash store a key whose last record is lost gets the value it had before, if that is still there, or comes back if
/// it was deleted. Of a file that was cut off it is said how many bytes are missing at least, where the rest tells; not
/// how many records were in them.
///
/// Of a btree store all tables are saved, and it is said how many records are lost. A damaged page costs the records in it;
/// one that leads to others costs nothing, as long as these can be told from those of another table that is damaged, too.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza verify users || credenza recover users users.recovered\n",
    exit_status!()
))]
pub struct Recover {
    /// The damaged store
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// The store to make, which must not exist
    target: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Recover, quiet: bool) -> Result<Status> {
    input::refuse_dash(&args.target)?;
    match credenza::kind_of(&args.store) {
        Ok("btree") => btree_store(args, quiet),
        Ok(kind) if kind != "hash" => Err(Error::invalid(format!(
            "recover is for hash and btree stores, and this is one of kind '{kind}'; of a damaged one \
             'credenza dump --unchecked' writes what can be read"
        ))
        .at(&args.store)),
        // What is no store is told with what it is.
        _ => hash_store(args, quiet),
    }
}

/// What shows how far a recovery is.
fn progress(quiet: bool) -> impl FnMut(u64, u64) {
    let (bar, mut known) = (Bar::new(quiet), None);
    move |done, total| {
        if known != Some(total) {
            known = Some(total);
            bar.begin("recovering", Unit::Bytes, known);
        }
        bar.at(done);
    }
}

fn tell(
    args: &Recover,
    quiet: bool,
    found: Value,
    text: impl FnOnce() -> String,
) -> Result<Status> {
    if args.json {
        json::tell(&json::with_paths([("store", &args.store), ("target", &args.target)], found))?;
    } else if !quiet {
        output::tell(format!("{}: {}\n", output::shown(&args.target), text()))?;
    }
    Ok(Status::Done)
}

fn hash_store(args: &Recover, quiet: bool) -> Result<Status> {
    as_private_as(&args.store, &args.target);
    let recover = || hash::recover(&args.store, &args.target, progress(quiet));
    let found = way::noting(&args.target, recover)?;
    let done = serde_json::json!({
        "records_found": found.records,
        "records": found.keys,
        "lost_bytes": found.lost_bytes,
        "missing_bytes": found.missing_bytes,
    });
    tell(args, quiet, done, || {
        let (keys, lost) = (output::counted(found.keys, "key"), HumanBytes(found.lost_bytes));
        let records = output::counted(found.records, "record");
        let missing = match found.missing_bytes {
            0 => String::new(),
            n => format!(
                "; the file ends early: {} or more are missing, and what was in them",
                HumanBytes(n)
            ),
        };
        format!("{keys} from {records}, {lost} lost{missing}")
    })
}

fn btree_store(args: &Recover, quiet: bool) -> Result<Status> {
    as_private_as(&args.store, &args.target);
    let recover = || btree::recover(&args.store, &args.target, progress(quiet));
    let found = way::noting(&args.target, recover)?;
    let done = serde_json::json!({
        "records": found.records,
        "lost_records": found.lost_records,
        "tables": found.tables,
        "lost_tables": found.lost_tables,
        "lost_pages": found.lost_pages,
    });
    tell(args, quiet, done, || {
        let records = output::counted(found.records, "record");
        let within = match found.tables {
            0 => String::new(),
            n => format!(" in the main table and {}", output::counted(n, "other")),
        };
        let lost = output::counted(found.lost_records, "record");
        let tables = match found.lost_tables {
            0 => String::new(),
            n => format!(", and all of {}", output::counted(n, "table")),
        };
        let pages = output::counted(found.lost_pages, "damaged page");
        format!("{records}{within}; {lost} lost{tables}, {pages}")
    })
}
