//! `credenza scan`: a look at the records of a store.

use crate::args::{ReadArgs, exit_status};
use crate::exit::Status;
use crate::json;
use crate::output::{Output, escaped};
use clap::Args;
use credenza::{Error, Result, Scan as _};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Bytes of a key or value that are shown without --full.
const SHOWN_BYTES: usize = 200;

/// Show records for people to read.
///
/// One record a line: key, tab, value. Bytes that are not text are shown as \xNN, and long keys
/// and values are cut. To process records, use --json here, or dump.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza scan words.store --limit 10\n  \
       credenza scan words.store --keys\n  \
       credenza scan words.store --json | jq -r .key\n",
    exit_status!()
))]
pub struct Scan {
    /// The store to read
    store: PathBuf,

    /// Show keys only
    #[arg(long)]
    keys: bool,

    /// Stop after this many records
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,

    /// Show keys and values in full, however long
    #[arg(long)]
    full: bool,

    /// One JSON object a line; what is not UTF-8 is in key_base64 and value_base64
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    read: ReadArgs,
}

/// Runs the command.
pub fn run(args: &Scan) -> Result<Status> {
    let store = args.read.open(&args.store)?;
    let mut out = Output::stdout()?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    if left > 0 {
        let scanned = store.scan(|key, value| {
            out.put(line(args, key, value).as_bytes())?;
            left -= 1;
            // An error is how a scan is stopped; which one is seen by `left` alone.
            if left == 0 { Err(Error::invalid("the limit is reached")) } else { Ok(()) }
        });
        if left > 0 {
            scanned?;
        }
    }
    out.finish()?;
    Ok(Status::Done)
}

fn line(args: &Scan, key: &[u8], value: &[u8]) -> String {
    match (args.json, args.keys) {
        (true, false) => json::record_line(key, Some(value)),
        (true, true) => {
            let mut object = Map::new();
            json::put_bytes(&mut object, "key", key);
            json::line(&Value::Object(object))
        }
        (false, false) => format!("{}\t{}\n", shown(key, args.full), shown(value, args.full)),
        (false, true) => format!("{}\n", shown(key, args.full)),
    }
}

fn shown(bytes: &[u8], full: bool) -> String {
    match bytes.get(..SHOWN_BYTES) {
        Some(start) if !full && bytes.len() > SHOWN_BYTES => {
            format!("{} ... ({} bytes)", escaped(start), bytes.len())
        }
        _ => escaped(bytes),
    }
}
