//! `credenza load`: text to store.

use crate::args::{BuildArgs, exit_status, format_parser};
use crate::duplicates::{Filter, Policy};
use crate::exit::Status;
use crate::progress::Bar;
use crate::target::{Kind, Target};
use crate::{input, json, output};
use clap::Args;
use credenza::{Error, Result};
use credenza_formats::Format;
use indicatif::{HumanBytes, HumanCount};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Build a store from text.
///
/// The format of each input is recognised from its first bytes and its name, or named with --from.
/// The store appears, or replaces the old one, only after the last line was read and found right:
/// after an error, a full disk or a kill the old store is untouched and nothing else is left.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza load words.store words.tsv\n  \
       db_dump -p old.db | credenza load new.store\n  \
       printf '+3,4:key->data\\n\\n' | credenza load s --from cdb\n  \
       credenza load words.cdb words.tsv --to cdb           a store for the cdb tools\n  \
       credenza load s a.jsonl b.jsonl --duplicates last    later records replace earlier ones\n",
    exit_status!()
))]
pub struct Load {
    /// The store to build; replaced in one step if it exists
    store: PathBuf,

    /// Text to read, one after the other; - is standard input
    #[arg(default_value = "-", value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// Format of the input [default: recognised]
    #[arg(long, value_parser = format_parser(), value_name = "FORMAT")]
    from: Option<Format>,

    /// Kind of store to build
    #[arg(long, value_enum, default_value_t = Kind::Constant, value_name = "KIND")]
    to: Kind,

    #[command(flatten)]
    build: BuildArgs,

    /// What becomes of records whose key came before; all but 'keep' hold all keys in memory
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    duplicates: Policy,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Load, quiet: bool) -> Result<Status> {
    let bar = Arc::new(Bar::new(quiet));
    let target = Target::create(args.to, &args.store, &args.build, &bar)?;
    let mut filter = Filter::new(args.duplicates, target, &args.store)?;
    input::hint_if_typed(&args.inputs, quiet);
    let read =
        input::each_record(&args.inputs, args.from, &bar, |key, value| filter.add(key, value))?;
    let records = filter.finish().map_err(|e| e.at(&args.store))?;
    drop(bar);
    summary(&args.store, read, records, args.json, quiet)?;
    Ok(Status::Done)
}

/// Says what was built.
pub fn summary(store: &Path, read: u64, records: u64, json: bool, quiet: bool) -> Result<()> {
    let meta = std::fs::metadata(store);
    let bytes = meta.map_err(|e| Error::io("ask the size of", e).at(store))?.len();
    if json {
        return json::print(&serde_json::json!({
            "store": store.to_string_lossy(),
            "records_read": read,
            "records": records,
            "file_bytes": bytes,
        }));
    }
    if quiet {
        return Ok(());
    }
    let dropped = match read.saturating_sub(records) {
        0 => String::new(),
        n => format!(" ({} more had a repeated key and were left out)", HumanCount(n)),
    };
    let (store, count, bytes) = (store.display(), HumanCount(records), HumanBytes(bytes));
    let noun = if records == 1 { "record" } else { "records" };
    output::print(format!("{store}: {count} {noun}, {bytes}{dropped}\n"))
}
