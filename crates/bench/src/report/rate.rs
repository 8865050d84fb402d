//! Operations at a rate: a table for the terminal, and one for the page.

use super::plain::Table;
use super::text;
use crate::result::{AtRate, Latency, PhaseResult, Report};

const EXPLAINED: &str = "Each operation had a time to start. Latencies count from it to the end of the \
    operation, so that what waited in line behind a slow one has that in its own. Reached: operations a \
    second, the median of the rounds; BEHIND marks a store that in some round ended more than 1 % and a \
    millisecond later than its schedule: its latencies grow with the length of the run, and are no \
    property of the store. ! some answers were wrong.";

const HEADS: [&str; 9] =
    ["store", "phase", "reached/s", "p50", "p90", "p99", "p99.9", "p99.99", "slowest"];

/// The results at a rate, in the report's order.
pub fn results(report: &Report) -> impl Iterator<Item = (&PhaseResult, &AtRate)> {
    report.results.iter().filter_map(|r| Some((r, r.at_rate.as_ref()?)))
}

/// The title, the table and what to say below; nothing without results.
pub fn table(report: &Report) -> Option<(String, Table, &'static str)> {
    let first = results(report).next()?.1;
    let arrivals = match &*first.arrivals {
        "poisson" => "at random times (Poisson)".to_owned(),
        "even" => "at equal distances".to_owned(),
        other => other.to_owned(),
    };
    let rate = text::number(first.per_second);
    let title = format!("At {rate} operations a second, {arrivals}");
    let rows = results(report).flat_map(|(r, at)| rows(r, at)).collect();
    let heads = HEADS.map(str::to_owned).to_vec();
    Some((title, Table { heads, rows, words: 2 }, EXPLAINED))
}

/// A row for all operations, and for `mixed` one for each kind.
fn rows(r: &PhaseResult, at: &AtRate) -> Vec<Vec<String>> {
    let wrong = if at.verified { "" } else { "!" };
    let behind = if at.kept_up { "" } else { " BEHIND" };
    let reached = format!("{}{wrong}{behind}", text::count(at.reached.median.max(0.0) as u64));
    let mut rows = vec![row(&r.store, r.phase.clone(), reached, &at.latency_ns)];
    for (name, latency) in &at.operation_latency_ns {
        rows.push(row(&r.store, format!("{}: {name}", r.phase), String::new(), latency));
    }
    rows
}

fn row(store: &str, phase: String, reached: String, l: &Latency) -> Vec<String> {
    let mut row = vec![store.to_owned(), phase, reached];
    let all = [l.p50, l.p90, l.p99, l.p999, l.p9999, l.max];
    row.extend(all.map(|ns| text::nanoseconds(ns as f64)));
    row
}
