//! `credenza stat --live`: what the processes that use a store do with it, second by second.
//!
//! Each report is about the time since the one before; where nothing was timed in it, latencies
//! are left out.

use crate::json::with_paths;
use crate::output::{self, Output};
use credenza::record::Trace;
use credenza::stats::{Histogram, Observer, Operation, Operations, Outcome, Tally};
use credenza::{Error, ErrorKind, Result};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use terminal_size::{Height, Width, terminal_size_of};

/// How reports are shown.
#[derive(Clone, Copy, Debug)]
enum Style {
    /// A table that is drawn again in its place.
    Table,
    Lines,
    Json,
}

/// Names and values of the percentiles that are shown.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p999", 99.9), ("p9999", 99.99)];

/// What happened between two reports, and until the second of them.
struct Report {
    total: Operations,
    since: Operations,
    seconds: f64,
}

/// Reports every `interval`, `count` times or until the reader of the output has gone.
pub fn run(store: &Path, json: bool, interval: Duration, count: Option<u64>) -> Result<()> {
    let observer = Observer::open(store).map_err(|e| explained(store, e))?;
    let mut out = Output::stdout()?;
    // One that cannot go back to where it wrote says so.
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let style = match (json, out.is_terminal() && !is_dumb) {
        (true, _) => Style::Json,
        (false, true) => Style::Table,
        (false, false) => Style::Lines,
    };
    let (mut before, mut then) = (observer.read()?, Instant::now());
    let mut drawn = 0;
    for _ in 0..count.unwrap_or(u64::MAX) {
        std::thread::sleep(interval);
        let (total, now) = (observer.read()?, Instant::now());
        let seconds = (now - then).as_secs_f64().max(f64::MIN_POSITIVE);
        let report = Report { since: total.since(&before), total, seconds };
        let text = match style {
            Style::Json => format!("{}\n", report.json(store)),
            Style::Lines => report.line(),
            Style::Table => {
                let size = terminal_size_of(std::io::stdout());
                let size = size.map(|(Width(columns), Height(rows))| (columns.into(), rows.into()));
                let table = cut(&report.table(observer.path()), size);
                let text = format!("{}{table}", up(drawn));
                drawn = table.lines().count();
                text
            }
        };
        out.put(text.as_bytes())?;
        out.flush().map_err(|e| Error::io("write", e).at(out.name()))?;
        (before, then) = (report.total, now);
    }
    out.finish()
}

/// Says what to do where there is no file of statistics, or what there is in the place of a store.
fn explained(store: &Path, error: Error) -> Error {
    let ErrorKind::Io { source, .. } = error.kind() else { return error };
    let (std::io::ErrorKind::NotFound, Some(path)) = (source.kind(), error.path()) else {
        return error;
    };
    if Trace::is_trace(store) {
        let what = "this is a trace, of what is over: leave out --live";
        return Error::invalid(what).at(store);
    }
    if let Err(error) = credenza::kind_of(store) {
        return error;
    }
    let what = "there is no such file: nobody who uses the store shares statistics of it; 'put' and \
                'shell' do with --statistics, and programs when they open it so (Statistics::shared)";
    Error::invalid(what).at(path)
}

/// As much of the table as fits in a terminal of so many columns and rows: a line that is wrapped, or
/// scrolled away, could not be drawn over. The cursor stands in the row below.
fn cut(table: &str, size: Option<(usize, usize)>) -> String {
    let Some((columns, rows)) = size else { return table.to_owned() };
    let line = |line: &str| line.chars().take(columns).chain(['\n']).collect::<String>();
    table.lines().take(rows.saturating_sub(1)).map(line).collect()
}

/// What takes the cursor to where a table of so many lines begins, and clears what is below.
fn up(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\x1b[J") }
}

impl Report {
    /// The operations that were ever done, with what came since and in all.
    fn rows(&self) -> impl Iterator<Item = (Operation, &Tally, &Tally)> {
        let all = self.since.iter().zip(self.total.iter());
        all.filter(|(_, (_, total))| total.calls > 0)
            .map(|((op, since), (_, total))| (op, since, total))
    }

    fn rate(&self, n: u64) -> f64 {
        n as f64 / self.seconds
    }

    fn table(&self, path: &Path) -> String {
        let mut text = format!("{}\n", output::shown(path));
        let _ = writeln!(
            text,
            "{:<11} {:>12} {:>15} {:>7} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "operation",
            "per second",
            "in all",
            "hits",
            "bytes/s",
            "p50",
            "p90",
            "p99",
            "p99.9",
            "p99.99",
            "max"
        );
        for (operation, since, total) in self.rows() {
            let _ = write!(
                text,
                "{operation:<11} {:>12} {:>15} {:>7} {:>11}",
                HumanCount(self.rate(since.items) as u64).to_string(),
                HumanCount(total.items).to_string(),
                hits(since).unwrap_or_default(),
                HumanBytes(self.rate(since.bytes) as u64).to_string(),
            );
            let latency = &since.latency;
            for (_, percent) in PERCENTILES {
                let _ = write!(text, " {:>9}", shown(latency, latency.percentile(percent)));
            }
            let _ = writeln!(text, " {:>9}", shown(latency, latency.max()));
        }
        if self.rows().next().is_none() {
            text.push_str("nothing was done yet\n");
        }
        text
    }

    fn line(&self) -> String {
        let parts: Vec<String> = self
            .rows()
            .map(|(operation, since, _)| {
                let latency = &since.latency;
                let mut part = format!("{operation} {:.0}/s", self.rate(since.items));
                if let Some(hits) = hits(since) {
                    let _ = write!(part, " hits {hits}");
                }
                if latency.count() > 0 {
                    let (p50, p99) = (latency.percentile(50.0), latency.percentile(99.0));
                    let _ = write!(
                        part,
                        " p50 {} p99 {} max {}",
                        time(p50),
                        time(p99),
                        time(latency.max())
                    );
                }
                part
            })
            .collect();
        if parts.is_empty() { "nothing was done yet\n".into() } else { parts.join("; ") + "\n" }
    }

    fn json(&self, store: &Path) -> Value {
        let operations: Map<String, Value> = self
            .rows()
            .map(|(operation, since, total)| {
                let value = json!({
                    "total": numbers(operation, total),
                    "since": numbers(operation, since),
                    "items_per_second": self.rate(since.items),
                    "bytes_per_second": self.rate(since.bytes),
                });
                (operation.name().to_owned(), value)
            })
            .collect();
        let report = json!({ "seconds": self.seconds, "operations": operations });
        with_paths([("store", store)], report)
    }
}

fn numbers(operation: Operation, tally: &Tally) -> Value {
    let mut object = json!({ "calls": tally.calls, "items": tally.items, "bytes": tally.bytes });
    for outcome in operation.outcomes() {
        object[outcome.name()] = tally.count(*outcome).into();
    }
    let latency = &tally.latency;
    object["timed"] = latency.count().into();
    object["latency_ns"] = Value::Null;
    if latency.count() > 0 {
        let mut values: Map<String, Value> = PERCENTILES
            .iter()
            .map(|(name, percent)| ((*name).to_owned(), latency.percentile(*percent).into()))
            .collect();
        values.insert("max".into(), latency.max().into());
        values.insert("mean".into(), latency.mean().into());
        object["latency_ns"] = values.into();
    }
    object
}

/// The share of keys that were there, where there are any to ask for.
fn hits(tally: &Tally) -> Option<String> {
    let (hit, miss) = (tally.count(Outcome::Hit), tally.count(Outcome::Miss));
    let asked = hit.saturating_add(miss);
    (asked > 0).then(|| format!("{:.1} %", hit as f64 * 100.0 / asked as f64))
}

fn shown(latency: &Histogram, nanoseconds: u64) -> String {
    if latency.count() == 0 { "-".into() } else { time(nanoseconds) }
}

/// A time in three digits at least, and the unit that fits.
fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0..10_000 => format!("{nanoseconds} ns"),
        10_000..10_000_000 => format!("{} us", nanoseconds / 1_000),
        10_000_000..10_000_000_000 => format!("{} ms", nanoseconds / 1_000_000),
        _ => format!("{} s", nanoseconds / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (nanoseconds, text) in [
            (0, "0 ns"),
            (9_999, "9999 ns"),
            (10_000, "10 us"),
            (12_345_678, "12 ms"),
            (u64::MAX, "18446744073 s"),
        ] {
            assert_eq!(time(nanoseconds), text);
        }
    }

    #[test]
    fn a_table_is_cut_to_the_terminal() {
        let table = "path\noperation per second\nget é 1\n";
        assert_eq!(cut(table, None), table);
        assert_eq!(cut(table, Some((80, 24))), table);
        assert_eq!(cut(table, Some((5, 24))), "path\nopera\nget é\n");
        assert_eq!(cut(table, Some((80, 3))), "path\noperation per second\n");
        assert_eq!(cut(table, Some((0, 0))), "");
    }

    #[test]
    fn a_table_is_drawn_over_the_one_before() {
        assert_eq!((up(0).as_str(), up(3).as_str()), ("", "\x1b[3A\x1b[J"));
    }
}
