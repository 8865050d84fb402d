//! `credenza compact`: the space of what was replaced and deleted, back.

use crate::args::{WriteArgs, exit_status, size};
use crate::exit::Status;
use crate::progress::{Bar, Unit};
use crate::{json, output};
use clap::Args;
use credenza::Result;
use credenza::hash::Stats;
use indicatif::HumanBytes;
use std::path::PathBuf;

/// Bytes looked at while others wait to write.
const STEP_BYTES: u64 = 4 << 20;

/// Make a hash store as small as it can be.
///
/// Writers clean up as they go, so that this is never necessary; it is worth while after much was
/// deleted. Others may read and write meanwhile: they wait for a few megabytes at a time.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza compact users\n  \
       credenza compact users --budget 100M       a little now, the rest another time\n  \
       credenza compact users --index             the index, too\n",
    exit_status!()
))]
pub struct Compact {
    /// The hash store to make smaller
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// Look at so many bytes of records, such as 100M, and leave the rest [default: all]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    budget: Option<u64>,

    /// Make the index anew as well, as small as it can be
    #[arg(long)]
    index: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    write: WriteArgs,
}

/// Runs the command.
pub fn run(args: &Compact, quiet: bool) -> Result<Status> {
    let store = args.write.open_hash(
        &args.store,
        "a btree store uses the space of what was replaced and deleted again, and keeps its file as \
         long as it is; 'credenza convert SRC DST --to btree' makes a copy of it that is as small as \
         can be",
    )?;
    let before = store.stats()?;
    let bar = Bar::new(quiet);
    let log_bytes = before.live_bytes + before.dead_bytes;
    let total = args.budget.map_or(log_bytes, |budget| budget.min(log_bytes));
    bar.begin("compacting", Unit::Bytes, Some(total));
    let (mut left, mut is_done) = (args.budget.unwrap_or(u64::MAX), false);
    while left > 0 && !is_done {
        let step = STEP_BYTES.min(left);
        is_done = !store.compact(step)?;
        left -= step;
        bar.at((args.budget.unwrap_or(u64::MAX) - left).min(total));
    }
    if args.index {
        bar.begin("indexing", Unit::Records, None);
        store.rebuild_index(false)?;
    }
    drop(bar);
    report(args, &before, &store.stats()?, is_done, quiet)?;
    Ok(Status::Done)
}

fn report(args: &Compact, before: &Stats, after: &Stats, is_done: bool, quiet: bool) -> Result<()> {
    if args.json {
        return json::print(&serde_json::json!({
            "store": args.store.to_string_lossy(),
            "file_bytes_before": before.file_bytes,
            "file_bytes_after": after.file_bytes,
            "dead_bytes_before": before.dead_bytes,
            "dead_bytes_after": after.dead_bytes,
            "index_bytes_before": before.index_bytes,
            "index_bytes_after": after.index_bytes,
            "done": is_done,
        }));
    }
    if quiet {
        return Ok(());
    }
    let sizes = |stats: &Stats| {
        let (file, dead) = (HumanBytes(stats.file_bytes), HumanBytes(stats.dead_bytes));
        format!("{file} ({dead} dead, index {})", HumanBytes(stats.index_bytes))
    };
    let path = args.store.display();
    let more = if is_done { "" } else { "; there is more to do" };
    output::print(format!("{path}: {} before, {} now{more}\n", sizes(before), sizes(after)))
}
