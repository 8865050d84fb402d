//! `credenza compact`: the space of what was replaced and deleted, back.

use crate::args::{WriteArgs, exit_status, size, unchanging};
use crate::exit::Status;
use crate::progress::{Bar, Unit};
use crate::waiting::for_others;
use crate::{json, output};
use clap::Args;
use credenza::{Error, Result, Store, btree, hash};
use indicatif::HumanBytes;
use std::path::PathBuf;

/// Bytes looked at while others wait to write.
const STEP_BYTES: u64 = 4 << 20;

/// Make a hash or btree store small again.
///
/// The writers of a hash store clean up as they go, and those of a btree store use the space of what was
/// replaced and deleted again, so that this is never necessary; it is worth while after much was
/// deleted. Others may read and write meanwhile: they wait for a few megabytes at a time. As long as
/// somebody reads an older state of a btree store, its file gets no shorter. Of a hash store, garbage of no
/// more than an eighth of what lives in it is left where it is.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza compact users\n  \
       credenza compact users --budget 100M       a little now, the rest another time\n  \
       credenza compact users --index             the index, too\n  \
       credenza compact users --other-hash        the index, where many keys have the same hash\n",
    exit_status!()
))]
pub struct Compact {
    /// The hash or btree store to make smaller
    #[arg(value_name = "FILE")]
    store: PathBuf,

    /// Look at so many bytes of records or pages, such as 100M, and leave the rest [default: all]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    budget: Option<u64>,

    /// Make the index of a hash store anew as well, as small as it can be
    #[arg(long)]
    index: bool,

    /// The same with another hash, for a store that refuses keys as over a thousand have the same
    #[arg(long)]
    other_hash: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    write: WriteArgs,
}

/// Runs the command.
pub fn run(args: &Compact, quiet: bool) -> Result<Status> {
    let bar = Bar::new(quiet);
    match args.write.open_changing(&args.store)? {
        Store::Hash(store) => {
            let before = store.stats()?;
            let is_done = steps(args, &bar, before.live_bytes + before.dead_bytes, |n| {
                for_others(|| store.compact(n))
            })?;
            if args.index || args.other_hash {
                bar.begin("indexing", Unit::Records, None);
                store.rebuild_index(args.other_hash)?;
            }
            drop(bar);
            report_hash(args, &before, &store.stats()?, is_done, quiet)?;
        }
        Store::BTree(_) if args.index || args.other_hash => {
            let what = "a btree store has no index beside it: leave out --index and --other-hash";
            return Err(Error::invalid(what).at(&args.store));
        }
        Store::BTree(store) => {
            let before = store.stats()?;
            let is_done =
                steps(args, &bar, before.live_bytes, |n| for_others(|| store.compact(n)))?;
            store.sync()?;
            drop(bar);
            report_btree(args, &before, &store.stats()?, is_done, quiet)?;
        }
        other => {
            return Err(unchanging(other.kind(), "it is as small as it can be").at(&args.store));
        }
    }
    Ok(Status::Done)
}

/// Compacts a little at a time, until there is nothing more to do or the budget is used up; whether
/// there is nothing more. `bytes`: about so many are to be looked at.
fn steps(
    args: &Compact,
    bar: &Bar,
    bytes: u64,
    compact: impl Fn(u64) -> Result<bool>,
) -> Result<bool> {
    let total = args.budget.map_or(bytes, |budget| budget.min(bytes));
    bar.begin("compacting", Unit::Bytes, Some(total));
    let (mut left, mut is_done) = (args.budget.unwrap_or(u64::MAX), false);
    while left > 0 && !is_done {
        let step = STEP_BYTES.min(left);
        is_done = !compact(step)?;
        left -= step;
        bar.at((args.budget.unwrap_or(u64::MAX) - left).min(total));
    }
    Ok(is_done)
}

fn report_hash(
    args: &Compact,
    before: &hash::Stats,
    after: &hash::Stats,
    is_done: bool,
    quiet: bool,
) -> Result<()> {
    if args.json {
        let done = serde_json::json!({
            "file_bytes_before": before.file_bytes,
            "file_bytes_after": after.file_bytes,
            "dead_bytes_before": before.dead_bytes,
            "dead_bytes_after": after.dead_bytes,
            "index_bytes_before": before.index_bytes,
            "index_bytes_after": after.index_bytes,
            "done": is_done,
        });
        return json::tell(&json::with_paths([("store", &args.store)], done));
    }
    let sizes = |stats: &hash::Stats| {
        let (file, dead) = (HumanBytes(stats.file_bytes), HumanBytes(stats.dead_bytes));
        format!("{file} ({dead} dead, index {})", HumanBytes(stats.index_bytes))
    };
    say(args, &sizes(before), &sizes(after), is_done, quiet)
}

fn report_btree(
    args: &Compact,
    before: &btree::Stats,
    after: &btree::Stats,
    is_done: bool,
    quiet: bool,
) -> Result<()> {
    if args.json {
        let done = serde_json::json!({
            "file_bytes_before": before.file_bytes,
            "file_bytes_after": after.file_bytes,
            "live_bytes_before": before.live_bytes,
            "live_bytes_after": after.live_bytes,
            "held_bytes_before": before.held_bytes,
            "held_bytes_after": after.held_bytes,
            "free_bytes_before": before.free_bytes,
            "free_bytes_after": after.free_bytes,
            "readers": after.readers.len(),
            "done": is_done,
        });
        return json::tell(&json::with_paths([("store", &args.store)], done));
    }
    let sizes = |stats: &btree::Stats| {
        let sizes = [stats.file_bytes, stats.held_bytes, stats.free_bytes].map(HumanBytes);
        format!("{} ({} held, {} free)", sizes[0], sizes[1], sizes[2])
    };
    say(args, &sizes(before), &sizes(after), is_done, quiet)
}

fn say(args: &Compact, before: &str, after: &str, is_done: bool, quiet: bool) -> Result<()> {
    if quiet {
        return Ok(());
    }
    let path = output::shown(&args.store);
    let more = if is_done { "" } else { "; there is more to do" };
    output::tell(format!("{path}: {before} before, {after} now{more}\n"))
}
