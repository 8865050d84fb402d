//! `credenza scan`: a look at the records of a store.

use crate::args::{LeaseArgs, ReadArgs, TableArgs, exit_status, number};
use crate::exit::Status;
use crate::json;
use crate::output::{Output, begin, shown_key};
use crate::progress::{Bar, Unit};
use clap::Args;
use credenza::{Error, Result, Scan as _};
use std::path::PathBuf;

/// Bytes of a key or value that are shown without --full.
const SHOWN_BYTES: usize = 200;

/// Show records for people to read.
///
/// One record a line: key, tab, value. Bytes that are not text are shown as \xNN, and long keys
/// and values are cut. To process records, use --json here, or dump. Those of a btree store come in
/// the order of their keys; 'range' shows a part.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza scan words.store --limit 10\n  \
       credenza scan words.store --keys\n  \
       credenza scan words.store --keys -0 | xargs -0 -n 1 echo\n  \
       credenza scan words.store --json | jq -r .key\n",
    exit_status!()
))]
pub struct Scan {
    /// The store to read
    store: PathBuf,

    /// Stop after this many records
    #[arg(short = 'n', long, value_name = "N", value_parser = number)]
    limit: Option<u64>,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    lease: LeaseArgs,

    #[command(flatten)]
    shown: Shown,

    #[command(flatten)]
    read: ReadArgs,
}

/// How records are shown.
#[derive(Clone, Copy, Debug, Args)]
pub struct Shown {
    /// Show keys only; to have other commands read them, such as 'delete --keys-from', say --null, too
    #[arg(long)]
    keys: bool,

    /// With --keys: write whole keys as they are, each ended by a NUL byte, as 'delete -k - -0' and 'get -k - -0' read
    /// them; a key that has such a byte is an error
    #[arg(short = '0', long, requires = "keys", conflicts_with_all = ["full", "json"])]
    null: bool,

    /// Show keys and values in full, however long
    #[arg(long)]
    full: bool,

    /// One JSON object a line; what is not UTF-8 is in key_base64 and value_base64
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Scan, quiet: bool) -> Result<Status> {
    let store = args.read.open_table(&args.store, &args.table)?;
    let store = args.lease.limit(store).map_err(|e| e.at(&args.store))?;
    let mut out = Output::stdout()?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let bar = Bar::new(quiet || out.is_terminal());
    if bar.is_enabled() {
        bar.begin("reading", Unit::Records, Some(store.len()?.min(left)));
    }
    if left > 0 {
        let mut count = 0;
        let scanned = store.scan(|key, value| {
            count += 1;
            bar.count(count);
            args.shown.put(&mut out, key, value)?;
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

impl Shown {
    /// The same with nothing cut.
    pub fn in_full(self) -> Shown {
        Shown { full: true, ..self }
    }

    /// Writes a record on a line, or a key and its end.
    pub fn put(&self, out: &mut Output, key: &[u8], value: &[u8]) -> Result<()> {
        if self.null {
            return put_ended(out, key);
        }
        match (self.json, self.keys) {
            (true, false) => return json::put_record(out, key, Some(value)),
            (true, true) => return json::put_key(out, key),
            (false, false) => {
                self.put_shown(out, key)?;
                out.put(b"\t")?;
                self.put_shown(out, value)?;
            }
            (false, true) => self.put_shown(out, key)?,
        }
        out.put(b"\n")
    }

    fn put_shown(&self, out: &mut Output, bytes: &[u8]) -> Result<()> {
        if self.full || bytes.len() <= SHOWN_BYTES {
            return out.put_escaped(bytes);
        }
        out.put_escaped(begin(bytes, SHOWN_BYTES))?;
        out.put(format!(" ... ({} bytes)", bytes.len()).as_bytes())
    }
}

/// Writes a key with the NUL byte that ends it. Who reads one with such a byte in it would take it for two, and delete others.
fn put_ended(out: &mut Output, key: &[u8]) -> Result<()> {
    if key.contains(&0) {
        let what = format!(
            "the key {} has a NUL byte, as which --null ends each: --json, and 'dump', write such keys",
            shown_key(key)
        );
        return Err(Error::invalid(what));
    }
    out.put(key)?;
    out.put(b"\0")
}
