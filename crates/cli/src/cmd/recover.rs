//! `credenza recover`: what is whole in a damaged hash store.

use crate::args::exit_status;
use crate::exit::Status;
use crate::private::as_private_as;
use crate::progress::{Bar, Unit};
use crate::{input, json, output, way};
use clap::Args;
use credenza::hash::recover;
use credenza::{Error, Result};
use indicatif::HumanBytes;
use std::path::PathBuf;

/// Copy every record that is whole in a damaged hash store into a new one.
///
/// The damaged store is only read; nobody may write to it meanwhile. A key whose last record is
/// lost gets the value it had before, if that is still there, or comes back if it was deleted. Of a file that was
/// cut off it is said how many bytes are missing at least, where the rest tells; not how many records were in them. After
/// a crash or a power cut this is not needed: opening a store repairs what these leave.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza verify users || credenza recover users users.recovered\n",
    exit_status!()
))]
pub struct Recover {
    /// The damaged hash store
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
    if credenza::kind_of(&args.store).is_ok_and(|kind| kind == "btree") {
        let what = "recover is for hash stores; of a damaged btree store 'credenza dump' and 'credenza \
                    range', with --table for its tables, write what can still be read";
        return Err(Error::invalid(what).at(&args.store));
    }
    let bar = Bar::new(quiet);
    as_private_as(&args.store, &args.target);
    let mut known = None;
    let progress = |done, total| {
        if known != Some(total) {
            known = Some(total);
            bar.begin("recovering", Unit::Bytes, known);
        }
        bar.at(done);
    };
    let found = way::noting(&args.target, || recover(&args.store, &args.target, progress))?;
    drop(bar);
    if args.json {
        let done = serde_json::json!({
            "records_found": found.records,
            "records": found.keys,
            "lost_bytes": found.lost_bytes,
            "missing_bytes": found.missing_bytes,
        });
        json::tell(&json::with_paths([("store", &args.store), ("target", &args.target)], done))?;
    } else if !quiet {
        let target = output::shown(&args.target);
        let keys = output::counted(found.keys, "key");
        let records = output::counted(found.records, "record");
        let lost = HumanBytes(found.lost_bytes);
        let missing = match found.missing_bytes {
            0 => String::new(),
            n => format!(
                "; the file ends early: {} or more are missing, and what was in them",
                HumanBytes(n)
            ),
        };
        output::tell(format!("{target}: {keys} from {records}, {lost} lost{missing}\n"))?;
    }
    Ok(Status::Done)
}
