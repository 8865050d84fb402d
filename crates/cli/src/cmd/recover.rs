//! `credenza recover`: what is whole in a damaged hash or btree store.

use crate::args::exit_status;
use crate::exit::{self, Status};
use crate::interrupt::leave_nothing_of;
use crate::private::as_private_as;
use crate::progress::Bar;
use crate::{input, json, output, way};
use clap::Args;
use credenza::{Error, Result, btree, hash};
use indicatif::HumanBytes;
use serde_json::Value;
use std::path::PathBuf;

/// Copy every record that is whole in a damaged hash or btree store into a new one.
///
/// The damaged store is only read; nobody may write to it meanwhile. After a crash or a power cut this is not needed:
/// opening a store repairs what these leave. Where its first 512 bytes were written over, a copy of them is taken.
///
/// Of a hash store a key whose last record is lost gets the value it had before, if that is still there, or comes back if
/// it was deleted. Of a file that was cut off it is said how many bytes are missing at least, where the rest tells; not
/// how many records were in them.
///
/// Of a btree store all tables are saved, and it is said how many records are lost. A damaged page costs the records in it;
/// one that leads to others costs nothing, as long as these can be told from those of another table that is damaged, too.
/// Where the names of tables are lost, what is whole of these is in tables called 'recovered 1' and so on; nobody knows then how
/// many records they had, and 'lost_records' counts those of the others. Pages without a
/// checksum, as of a store that was not closed, are taken as they are, and counted.
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

    /// Print the result as JSON, in which 'source' and 'target' are the two files
    #[arg(long)]
    json: bool,
}

/// How a store of one engine is recovered.
type Way = fn(&Recover, bool) -> Result<Status>;

/// Runs the command.
pub fn run(args: &Recover, quiet: bool) -> Result<Status> {
    input::refuse_dash(&args.target)?;
    let kind = credenza::kind_of(&args.store);
    let (by_kind, other): (Way, Way) = match &kind {
        Ok("btree") => (btree_store, hash_store),
        _ => (hash_store, btree_store),
    };
    // What its first bytes say may be damaged, too.
    let done = by_kind(args, quiet).or_else(|error| match error.is_bad_file() {
        true => other(args, quiet).map_err(|e| if e.is_bad_file() { error } else { e }),
        false => Err(error),
    });
    let is_empty = std::fs::metadata(&args.store).is_ok_and(|meta| meta.len() == 0);
    let done = done.map_err(|error| match kind {
        Ok(kind) if error.is_bad_file() && !matches!(kind, "hash" | "btree") => {
            let what_to_do = match exit::can_be_dumped(&args.store) {
                true => "of a damaged one 'credenza dump --unchecked' writes what can be read",
                false => "nothing of it can be read, so restore the file from a copy, or build it again",
            };
            Error::invalid(format!(
                "recover is for hash and btree stores, and this is one of kind '{kind}'; {what_to_do}"
            ))
            .at(&args.store)
        }
        // What is no store is told with what it is; of an empty one the engine says what can be made of it.
        Err(of_kind) if error.is_bad_file() && !is_empty => of_kind,
        _ => error,
    });
    done.or_else(|error| match exit::is_closed_pipe(&error) {
        true => Err(error),
        // What to do about damage is this command.
        false => {
            exit::say(&error);
            Ok(Status::Failed)
        }
    })
}

fn tell(
    args: &Recover,
    quiet: bool,
    found: Value,
    text: impl FnOnce() -> String,
) -> Result<Status> {
    if args.json {
        json::tell(&json::of_copy(&args.store, (&args.store, &args.target), found))?;
    } else if !quiet {
        output::tell(format!("{}: {}\n", output::shown(&args.target), text()))?;
    }
    Ok(Status::Done)
}

fn hash_store(args: &Recover, quiet: bool) -> Result<Status> {
    as_private_as(&args.store, &args.target);
    leave_nothing_of(&args.target);
    let bar = Bar::new(quiet);
    let progress = bar.of_bytes("recovering");
    let found = way::noting(&args.target, || hash::recover(&args.store, &args.target, progress))?;
    drop(bar);
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
    leave_nothing_of(&args.target);
    let bar = Bar::new(quiet);
    let progress = bar.of_bytes("recovering");
    let found = way::noting(&args.target, || btree::recover(&args.store, &args.target, progress))?;
    drop(bar);
    let done = serde_json::json!({
        "records": found.records,
        "lost_records": found.lost_records,
        "tables": found.tables,
        "lost_tables": found.lost_tables,
        "nameless_tables": found.nameless_tables,
        "lost_pages": found.lost_pages,
        "unchecked_pages": found.unchecked_pages,
        "is_older": found.is_older,
    });
    tell(args, quiet, done, || {
        let counted = output::counted;
        let mut text = counted(found.records, "record");
        if found.tables > 0 {
            text += &format!(" in the main table and {}", counted(found.tables, "other"));
        }
        text += &format!(
            "; {} lost, {}",
            counted(found.lost_records, "record"),
            counted(found.lost_pages, "damaged page")
        );
        if found.lost_tables > 0 {
            text += ", not counting what is lost of tables whose names are";
        }
        if found.unchecked_pages > 0 {
            let pages = counted(found.unchecked_pages, "page");
            text += &format!(", {pages} without a checksum taken as they are");
        }
        if found.lost_tables > 0 {
            let (lost, nameless) = (found.lost_tables, found.nameless_tables);
            text += &format!(
                "; the names of {} are lost, and what is whole of them is in {} called 'recovered N'",
                counted(lost, "table"),
                counted(nameless, "table")
            );
        }
        if found.is_older {
            text += "; what was committed last is lost, and all is as it was before";
        }
        text
    })
}
