//! The figures as a table that other programs read: comma-separated values as in RFC 4180, one line
//! for each store and phase, the names of the columns first.

use super::json;
use crate::result::{PhaseResult, Report};
use credenza::Result;
use std::path::Path;

/// The columns, which stay; further ones may come behind them.
const COLUMNS: [&str; 31] = [
    "store",
    "class",
    "phase",
    "ops",
    "repeats",
    "rounds",
    "ns_per_op",
    "ns_per_op_low",
    "ns_per_op_high",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "hit_rate",
    "file_bytes",
    "file_length_bytes",
    "peak_rss_bytes",
    "verified",
    "native",
    "timed_operations",
    "syncs",
    "writes",
    "written_bytes",
    "closing_syncs",
    "closing_written_bytes",
    "minor_faults",
    "major_faults",
    "disk_read_bytes",
    "disk_written_bytes",
    "write_amplification",
];

/// Writes the report's figures in place of `path`, whole or not at all.
///
/// # Errors
/// The folder is missing, full or may not be written, or `path` is not a regular file.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    json::publish(table(report).as_bytes(), path)
}

fn table(report: &Report) -> String {
    let mut text = COLUMNS.join(",") + "\r\n";
    for result in &report.results {
        text += &line(result).map(|field| quoted(&field)).join(",");
        text += "\r\n";
    }
    text
}

/// The fields of a figure; empty where there is none.
fn line(r: &PhaseResult) -> [String; COLUMNS.len()] {
    let (l, e) = (r.latency_ns.as_ref(), &r.effort);
    let latency = |ns: Option<u64>| ns.map(|ns| ns.to_string()).unwrap_or_default();
    let part = |part: Option<f64>| part.map(|part| part.to_string()).unwrap_or_default();
    [
        r.store.clone(),
        r.class.clone(),
        r.phase.clone(),
        r.ops.to_string(),
        r.repeats.to_string(),
        r.rounds.to_string(),
        r.ns_per_op.median.to_string(),
        r.ns_per_op.low.to_string(),
        r.ns_per_op.high.to_string(),
        latency(l.map(|l| l.p50)),
        latency(l.map(|l| l.p90)),
        latency(l.map(|l| l.p99)),
        latency(l.map(|l| l.p999)),
        latency(l.map(|l| l.max)),
        part(r.hit_rate),
        r.file_bytes.to_string(),
        r.file_length_bytes.to_string(),
        r.peak_rss_bytes.to_string(),
        r.verified.to_string(),
        r.native.to_string(),
        e.operations.to_string(),
        e.calls.syncs().to_string(),
        e.calls.writes.to_string(),
        e.calls.written_bytes.to_string(),
        e.closing.syncs().to_string(),
        e.closing.written_bytes.to_string(),
        e.minor_faults.to_string(),
        e.major_faults.to_string(),
        e.disk_read_bytes.to_string(),
        e.disk_written_bytes.to_string(),
        part(r.write_amplification),
    ]
}

fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_for_each_figure_with_every_column() {
        let bytes = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(bytes).unwrap();
        let text = table(&report);
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 1 + report.results.len());
        assert!(lines.iter().all(|line| line.split(',').count() == COLUMNS.len()), "{text}");
        let first = &report.results[0];
        let start = format!("{},{},{},{}", first.store, first.class, first.phase, first.ops);
        assert!(lines[1].starts_with(&start), "{}", lines[1]);
        report.results[0].store = "resp:\"a\",b".to_owned();
        assert!(table(&report).contains("\r\n\"resp:\"\"a\"\",b\","));
    }
}
