//! `credenza stat`: what a store is made of, or, with `--live`, what is done with it; and what is in a trace.

use super::preload::note_untold;
use super::{live, table, trace};
use crate::args::{ReadArgs, exit_status};
use crate::exit::Status;
use crate::{json, output};
use clap::Args;
use credenza::record::Trace;
use credenza::{Residency, Result, Store, StoreStats, btree, hash};
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use serde_json::Value;
use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Cells of the longest bar of the histogram.
const BAR_CELLS: usize = 40;
/// Bars of a histogram; a longer one is shown with several counts in a bar.
const BARS: usize = 24;

/// Show what a store is made of: records, bytes, how evenly it is filled, what is in memory; or,
/// with --live, what is done with it.
///
/// Keys, values, directory (what finds and checks records) and slack (what is not used) add up
/// to the file. The histogram shows how evenly records are spread: for constant stores how many
/// buckets have how many entries, for cdb and mcdb how far records are from where the search for
/// them begins.
///
/// Of a hash store: live bytes are those of records that are found; dead, of what was replaced or
/// deleted; retired, what is emptied and waits for readers or a sync; free, what new records go to;
/// index, the second file. Limit is what live bytes may be at most, 0 for any; evictions, how many
/// records were dropped to keep below it since the index was last made from the log. Readers are
/// those that hold values, so that the space these are in is not reused: their process, and for how
/// long.
///
/// Of a btree store: records, keys and values are those of the main table, and directory is all else
/// that is in use, other tables too; tables, how many with names there are; all records, those of all
/// tables ('credenza table list' counts those of each); depth, how many
/// pages lead to a record; live bytes, pages that are in use; held, pages of older states that
/// somebody still reads, or that are not replaced on the disk yet; undurable, the latter of these, which
/// a sync lets go; free, pages for what comes; commits, how often the store was changed. Readers are
/// those that read an older state, so that its pages are not reused: their process, for how long,
/// and how much is held for each.
///
/// With --live, what the processes that use a store did with it in the last second, and how long it
/// took: those that share their statistics, which are in the file STORE-stats. A seek finds a place
/// in the order of keys; commit_sync is a commit that was safe against a power cut when it returned.
/// Programs ask for that when they open the store; 'put' and 'shell' do with --statistics. On a
/// terminal a table that is drawn again, as much of it as fits (all of it in 120 columns), elsewhere a
/// line for each second. Latencies are those of the operations that were timed, by default one of 256.
///
/// Of a trace ('credenza record'): how many operations of each kind there are, with how many different
/// keys, which part of all uses the most used keys have, how many lookups found their key, and of which
/// stores. 'key' is a key of a get_many, 'begin' the beginning of a transaction or batch.
#[derive(Debug, Args)]
#[command(after_long_help = concat!(
    "Examples:\n  \
       credenza stat words.store\n  \
       credenza stat words.store --json | jq .records\n  \
       credenza stat day.trace                          what 'credenza record' recorded\n  \
       credenza stat --live words.store                 until it is ended (Ctrl-C)\n  \
       credenza stat --live words.store --json --count 60\n",
    exit_status!()
))]
pub struct Stat {
    /// The store or trace to read
    store: PathBuf,

    /// Print one JSON object; sizes are in bytes
    #[arg(long)]
    json: bool,

    /// Show what is done with the store, every second, by those who share statistics of it
    #[arg(long, conflicts_with_all = ["access", "read_only"])]
    live: bool,

    /// End after N reports
    #[arg(long, value_name = "N", requires = "live")]
    count: Option<u64>,

    /// The time between reports
    #[arg(long, value_name = "SECONDS", requires = "live", default_value = "1", value_parser = pause)]
    interval: Duration,

    #[command(flatten)]
    read: ReadArgs,
}

/// A time of a hundredth of a second to a day.
fn pause(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a number of seconds from 0.01 to 86400".into()),
    }
}

/// Runs the command.
pub fn run(args: &Stat, quiet: bool) -> Result<Status> {
    if args.live {
        live::run(&args.store, args.json, args.interval, args.count)?;
        return Ok(Status::Done);
    }
    if Trace::is_trace(&args.store) {
        trace::run(&args.store, args.json)?;
        return Ok(Status::Done);
    }
    let store = args.read.open(&args.store)?;
    let found = Found::of(&args.store, &store)?;
    note_untold(&args.store, quiet);
    if args.json {
        json::print(&as_json(&found))?;
    } else {
        output::print(as_text(&found))?;
    }
    Ok(Status::Done)
}

/// What the command tells about an open store, as it tells it to people.
pub fn text_of(path: &Path, store: &Store) -> Result<String> {
    Found::of(path, store).map(|found| as_text(&found))
}

struct Found {
    path: PathBuf,
    kind: &'static str,
    stats: StoreStats,
    residency: Residency,
    /// Of a store that changes.
    readers: Option<Vec<Reader>>,
}

/// A process that keeps space from being reused.
struct Reader {
    pid: u32,
    age_ms: u64,
    /// What it holds, in the engine's word for it.
    holds: (&'static str, u64),
    /// How much that is, if the engine can tell.
    bytes: Option<u64>,
    /// How long its lease is, and what is left of it, in milliseconds.
    lease: Option<(u64, u64)>,
}

impl Reader {
    fn of_hash(reader: &hash::Reader) -> Reader {
        let (holds, lease) = (("epoch", reader.epoch), reader.lease_ms.zip(reader.left_ms));
        Reader { pid: reader.pid, age_ms: reader.age_ms, holds, bytes: None, lease }
    }

    fn of_btree(reader: &btree::Reader) -> Reader {
        let (holds, bytes) = (("stamp", reader.stamp), Some(reader.held_bytes));
        let lease = reader.lease_ms.zip(reader.left_ms);
        Reader { pid: reader.pid, age_ms: reader.age_ms, holds, bytes, lease }
    }
}

impl Found {
    fn of(path: &Path, store: &Store) -> Result<Found> {
        // Before the statistics, which read the file into memory.
        let residency = store.residency()?;
        let readers = match store {
            Store::Hash(store) => Some(store.readers().iter().map(Reader::of_hash).collect()),
            Store::BTree(store) => {
                Some(store.stats()?.readers.iter().map(Reader::of_btree).collect())
            }
            _ => None,
        };
        let mut stats = store.stats()?;
        if let Store::BTree(store) = store
            // Where the catalog is damaged the rest is to be told all the same.
            && let Ok(records) = table::records_of_all(store)
        {
            let behind_tables = stats.more.len().min(1);
            stats.more.insert(behind_tables, ("all_records", records));
        }
        Ok(Found { path: path.to_owned(), kind: store.kind(), stats, residency, readers })
    }
}

fn as_json(found: &Found) -> Value {
    let Found { path, kind, stats, residency, readers } = found;
    let mut object = serde_json::json!({
        "kind": kind,
        "records": stats.records,
        "file_bytes": stats.file_bytes,
        "key_bytes": stats.key_bytes,
        "value_bytes": stats.value_bytes,
        "directory_bytes": stats.directory_bytes,
        "slack_bytes": stats.slack_bytes,
        "resident_bytes": residency.resident,
        "mapped_bytes": residency.total,
    });
    for (name, number) in &stats.more {
        object[*name] = (*number).into();
    }
    if let Some((name, counts)) = &stats.histogram {
        object[*name] = counts.as_slice().into();
    }
    if let Some(readers) = readers {
        let reader = |reader: &Reader| {
            let (name, number) = reader.holds;
            let mut object =
                serde_json::json!({ "pid": reader.pid, "age_ms": reader.age_ms, name: number });
            if let Some(bytes) = reader.bytes {
                object["held_bytes"] = bytes.into();
            }
            if let Some((lease, left)) = reader.lease {
                object["lease_ms"] = lease.into();
                object["left_ms"] = left.into();
            }
            object
        };
        object["readers"] = readers.iter().map(reader).collect();
    }
    json::with_paths([("store", path)], object)
}

fn as_text(found: &Found) -> String {
    let Found { path, kind, stats, residency, readers } = found;
    let mut text = String::new();
    row(&mut text, "store", output::shown(path));
    row(&mut text, "kind", kind);
    row(&mut text, "records", HumanCount(stats.records));
    let file = stats.file_bytes;
    row(&mut text, "file", format!("{} ({} bytes)", HumanBytes(file), HumanCount(file)));
    row(&mut text, "  keys", part(stats.key_bytes, file));
    row(&mut text, "  values", part(stats.value_bytes, file));
    row(&mut text, "  directory", part(stats.directory_bytes, file));
    row(&mut text, "  slack", part(stats.slack_bytes, file));
    row(&mut text, "in memory", part(residency.resident, residency.total));
    for (name, number) in &stats.more {
        match name.strip_suffix("_bytes") {
            Some(_) => row(&mut text, &words(name), HumanBytes(*number)),
            None => row(&mut text, &words(name), HumanCount(*number)),
        }
    }
    if let Some(readers) = readers {
        row(&mut text, "readers", readers.len());
        for Reader { pid, age_ms, bytes, lease, .. } in readers {
            let age = HumanDuration(Duration::from_millis(*age_ms));
            let held = bytes.map_or(String::new(), |bytes| format!(", {}", HumanBytes(bytes)));
            let lease = lease.map_or(String::new(), |(lease, left)| {
                let [lease, left] =
                    [lease, left].map(|ms| HumanDuration(Duration::from_millis(ms)));
                format!(", lease of {lease}, {left} left")
            });
            row(&mut text, "", format!("process {pid}, for {age}{held}{lease}"));
        }
    }
    if let Some((name, counts)) = &stats.histogram
        && counts.iter().any(|count| *count > 0)
    {
        let _ = writeln!(text, "\n{}", caption(name));
        draw(&mut text, counts);
    }
    text
}

/// A line of label and value, the values in one column.
fn row(text: &mut String, label: &str, value: impl Display) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{label:<14} {value}");
}

fn part(bytes: u64, of: u64) -> String {
    let share = if of == 0 { 0.0 } else { bytes as f64 * 100.0 / of as f64 };
    format!("{:<11} {share:5.1} %", HumanBytes(bytes).to_string())
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// What the rows and the bars of a histogram are.
fn caption(name: &str) -> String {
    match name {
        "fill_histogram" => "entries in a bucket: number of buckets".into(),
        "distance_histogram" => {
            "slots away from home (the last: or more): number of records".into()
        }
        other => words(other),
    }
}

/// Draws counts as bars, one a line, without the empty lines before the first and after the last.
fn draw(text: &mut String, counts: &[u64]) {
    let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
    let step = (last - first + 1).div_ceil(BARS);
    let shown = counts.get(first..=last).unwrap_or_default();
    let sums: Vec<u64> = shown.chunks(step).map(|group| group.iter().sum()).collect();
    let most = sums.iter().max().copied().unwrap_or(0).max(1);
    for (i, sum) in sums.iter().enumerate() {
        let from = first + i * step;
        let to = (from + step - 1).min(last);
        let label = if from == to { from.to_string() } else { format!("{from}-{to}") };
        // Rounded up, so that no count above zero is shown as nothing.
        let cells = (u128::from(*sum) * BAR_CELLS as u128).div_ceil(u128::from(most));
        let bar = "#".repeat(cells as usize);
        let _ = writeln!(text, "{label:>7} |{bar:<BAR_CELLS$} {}", HumanCount(*sum));
    }
}

#[cfg(test)]
mod tests {
    use super::{BARS, draw, pause};
    use std::time::Duration;

    #[test]
    fn intervals_are_within_reason() {
        assert_eq!(pause("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "0", "-1", "nan", "inf", "1e9", "1s"] {
            assert!(pause(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bars_are_in_proportion() {
        let mut text = String::new();
        draw(&mut text, &[0, 0, 80, 40, 0, 1]);
        let bars: Vec<usize> = text.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(bars, [40, 20, 0, 1]);
        assert!(text.starts_with("      2 |####"), "{text}");
    }

    #[test]
    fn long_histograms_share_bars() {
        for len in [1, BARS - 1, BARS, BARS + 1, 1000] {
            let mut text = String::new();
            draw(&mut text, &vec![u64::MAX / 2000; len]);
            assert!(text.lines().count() <= BARS, "{len}");
            let last = text.lines().last().expect("a bar");
            let label = last.split('|').next().expect("a label").trim();
            assert!(label.ends_with(&(len - 1).to_string()), "{label}");
        }
    }
}
