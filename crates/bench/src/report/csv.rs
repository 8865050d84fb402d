//! The figures as a table that other programs read: comma-separated values as in RFC 4180, one line
//! for each store and phase, the names of the columns first; behind these a line for each number of
//! readers at one store, or of those that commit to one, whose figures are in columns of their own; behind
//! these a line for each kind of operation of a mix, named in `operation`, with its latencies; and behind
//! these a line for each stretch of a run over its time, with the columns `from_seconds` and `to_seconds`,
//! and `operation` where it is about one kind of these. How keys were drawn and what a mix did is said of
//! phases, and not again of each kind or stretch.

use super::{json, work};
use crate::result::over_time::{OverTime, Slots};
use crate::result::{AtRate, Latency, PhaseResult, Report, Settings, Summary, TogetherResult};
use credenza::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The columns, which stay; further ones may come behind them.
const COLUMNS: [&str; 69] = [
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
    "by",
    "readers",
    "writers",
    "processors",
    "per_second",
    "per_second_low",
    "per_second_high",
    "times_one",
    "times_one_low",
    "times_one_high",
    "writes_per_second",
    "records",
    "p9999_ns",
    "rate",
    "reached_per_second",
    "kept_up",
    "at_rate_p50_ns",
    "at_rate_p90_ns",
    "at_rate_p99_ns",
    "at_rate_p999_ns",
    "at_rate_p9999_ns",
    "at_rate_max_ns",
    "syncs_per_change",
    "instructions_per_op",
    "cycles_per_op",
    "cache_misses_per_op",
    "branch_misses_per_op",
    "dtlb_misses_per_op",
    "operation",
    "from_seconds",
    "to_seconds",
    "distribution",
    "mix",
    "insert_order",
    "commits",
    "syncs_per_commit",
    "written_bytes_per_commit",
    "closing_ns",
];

/// How many of them are about several readers, behind these.
const OF_READERS: usize = 11;

/// How many of them are about a phase of one store.
const OF_PHASE: usize = 31;

/// How many of them are what the processor counted, before those over time, those of how keys were drawn,
/// what a mix did and in which order records came, and those for a commit and of closing, which are the last.
const OF_PROCESSOR: usize = 5;
const OF_TIME: usize = 3;
const OF_WORK: usize = 3;
const OF_COMMITS: usize = 4;
/// All that are behind those of what is done at a rate and of those that commit.
const LAST: usize = OF_PROCESSOR + OF_TIME + OF_WORK + OF_COMMITS;

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
        push(&mut text, phase(result, report.settings.records, &report.settings));
    }
    // The last run of a series is the report's own.
    for run in report.growth.iter().filter(|run| run.records != report.settings.records) {
        for result in &run.results {
            push(&mut text, phase(result, run.records, &report.settings));
        }
    }
    for result in &report.together {
        let mut fields = together(result);
        fields.extend([report.settings.records.to_string(), String::new()]);
        fields.extend(result.at_rate.iter().flat_map(at_rate));
        fields.extend(empty(COLUMNS.len() - 1 - LAST - fields.len()));
        fields.push(result.syncs_per_change.map_or_else(String::new, |syncs| syncs.to_string()));
        fields.extend(empty(OF_PROCESSOR + OF_TIME));
        fields.extend(work::of_phase(&report.settings, &result.phase));
        fields.extend(empty(OF_COMMITS));
        push(&mut text, fields);
    }
    mixes(&mut text, report);
    report.results.iter().for_each(|result| over_time(&mut text, result));
    text
}

/// The lines of the kinds of operations of all mixes, by one thread and by several.
fn mixes(text: &mut String, report: &Report) {
    let records = ("records", report.settings.records.to_string());
    for r in &report.results {
        let fields = [
            ("store", r.store.clone()),
            ("class", r.class.clone()),
            ("phase", r.phase.clone()),
            ("verified", r.verified.to_string()),
            records.clone(),
        ];
        kinds(text, &fields, &r.operation_latency_ns, r.at_rate.as_ref());
    }
    for r in &report.together {
        let fields = [
            ("store", r.store.clone()),
            ("class", r.class.clone()),
            ("phase", r.phase.clone()),
            ("verified", r.verified.to_string()),
            ("by", r.by.clone()),
            ("readers", r.readers.to_string()),
            ("writers", r.writers.to_string()),
            ("processors", r.processors.to_string()),
            records.clone(),
        ];
        kinds(text, &fields, &r.operation_latency_ns, r.at_rate.as_ref());
    }
}

/// Those of one mix, each with these fields: their latencies as fast as can be, and at a rate.
fn kinds(
    text: &mut String,
    of: &[(&str, String)],
    plain: &BTreeMap<String, Latency>,
    at_rate: Option<&AtRate>,
) {
    let paced = at_rate.into_iter().flat_map(|at| &at.operation_latency_ns);
    let names: BTreeSet<&String> = plain.keys().chain(paced.map(|(name, _)| name)).collect();
    for name in names {
        let mut fields = of.to_vec();
        fields.push(("operation", name.clone()));
        if let Some(latency) = plain.get(name) {
            let columns = ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns"];
            fields.extend(columns.into_iter().zip(percentiles(latency)));
        }
        if let Some((at, latency)) =
            at_rate.and_then(|at| Some((at, at.operation_latency_ns.get(name)?)))
        {
            let columns = COLUMNS.iter().copied().filter(|name| name.starts_with("at_rate_"));
            fields.extend(columns.zip(percentiles(latency)));
            fields.push(("rate", at.per_second.to_string()));
            fields.push(("kept_up", at.kept_up.to_string()));
        }
        push(text, named(fields));
    }
}

/// A line with these fields, and nothing in the other columns.
fn named<'n>(fields: impl IntoIterator<Item = (&'n str, String)>) -> Vec<String> {
    let mut line: Vec<String> = empty(COLUMNS.len()).collect();
    for (column, field) in fields {
        if let Some(place) = COLUMNS.iter().position(|name| *name == column) {
            line[place] = field;
        }
    }
    line
}

/// From p50 to the slowest, in the order of the columns at a rate.
fn percentiles(l: &Latency) -> [String; 6] {
    [l.p50, l.p90, l.p99, l.p999, l.p9999, l.max].map(|ns| ns.to_string())
}

/// All fields of a phase of one store with so many records.
fn phase(r: &PhaseResult, records: u64, settings: &Settings) -> Vec<String> {
    let mut fields: Vec<String> = line(r).into();
    fields.extend(empty(OF_READERS));
    fields.push(records.to_string());
    let p9999 = r.latency_ns.as_ref().map(|l| l.p9999.to_string());
    fields.push(p9999.unwrap_or_default());
    fields.extend(r.at_rate.iter().flat_map(at_rate));
    fields.extend(empty(COLUMNS.len() - LAST - fields.len()));
    let counted = r.effort.processor.of_one(r.effort.operations);
    fields.extend(counted.map(|count| count.map_or_else(String::new, |n| n.to_string())));
    fields.extend(empty(OF_TIME));
    fields.extend(work::of_phase(settings, &r.phase));
    let of_commit = [r.syncs_per_commit, r.written_bytes_per_commit].map(part);
    fields.push(r.effort.commits.to_string());
    fields.extend(of_commit);
    fields.push(r.effort.closing_ns.to_string());
    fields
}

/// A figure that there may be none of.
fn part(part: Option<f64>) -> String {
    part.map(|part| part.to_string()).unwrap_or_default()
}

/// What is there of operations at a rate.
fn at_rate(at: &AtRate) -> Vec<String> {
    let mut fields = vec![at.per_second.to_string(), at.reached.median.to_string()];
    fields.push(at.kept_up.to_string());
    fields.extend(percentiles(&at.latency_ns));
    fields
}

fn push(text: &mut String, fields: Vec<String>) {
    *text += &fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(",");
    *text += "\r\n";
}

fn empty(count: usize) -> impl Iterator<Item = String> {
    std::iter::repeat_n(String::new(), count)
}

/// The lines of a phase over its time, as fast as can be and at a rate.
fn over_time(text: &mut String, r: &PhaseResult) {
    let at_rate = r.at_rate.as_ref();
    let at_rate = at_rate.and_then(|at| Some((Some(at.per_second), at.over_time.as_ref()?)));
    let plain = r.over_time.as_ref().map(|run| (None, run));
    for (rate, run) in plain.into_iter().chain(at_rate) {
        let kinds = run.operations.iter().map(|(name, slots)| (name.as_str(), slots));
        for (name, slots) in [("", &run.all)].into_iter().chain(kinds) {
            for i in 0..slots.ops.len() {
                push(text, stretch(r, rate, run, name, slots, i));
            }
        }
    }
}

/// Of one stretch, what is there of it in the columns of a phase.
fn stretch(
    r: &PhaseResult,
    rate: Option<f64>,
    run: &OverTime,
    name: &str,
    slots: &Slots,
    i: usize,
) -> Vec<String> {
    let (from, to) = run.slot(i, slots.ops.len());
    let ops = slots.ops[i];
    let per_second = if to > from { (ops as f64 / (to - from)).to_string() } else { String::new() };
    let mut fields = vec![
        ("store", r.store.clone()),
        ("class", r.class.clone()),
        ("phase", r.phase.clone()),
        ("ops", ops.to_string()),
        ("per_second", per_second),
        ("rate", rate.map(|rate| rate.to_string()).unwrap_or_default()),
        ("operation", name.to_owned()),
        ("from_seconds", from.to_string()),
        ("to_seconds", to.to_string()),
    ];
    let latencies =
        [("p50_ns", &slots.p50_ns), ("p99_ns", &slots.p99_ns), ("max_ns", &slots.max_ns)];
    for (column, all) in latencies.into_iter().filter(|_| ops > 0) {
        fields.push((column, all.get(i).map(u64::to_string).unwrap_or_default()));
    }
    named(fields)
}

/// What several readers did: first what is there for every figure.
fn together(r: &TogetherResult) -> Vec<String> {
    let summary = |s: &Summary| [s.median, s.low, s.high].map(|x| x.to_string());
    let to_one = r
        .to_one
        .map_or_else(Default::default, |s| [s.median, s.low, s.high].map(|x| x.to_string()));
    let mut fields = vec![r.store.clone(), r.class.clone(), r.phase.clone(), r.ops.to_string()];
    fields.extend([String::new(), r.rounds.to_string()]);
    let place = |name| COLUMNS.iter().position(|column| *column == name).unwrap_or(OF_PHASE);
    fields.extend(empty(place("hit_rate") - fields.len()));
    // Who commits looks nothing up.
    fields.push(r.syncs_per_change.map_or_else(|| r.hit_rate.to_string(), |_| String::new()));
    fields.extend(empty(place("verified") - fields.len()));
    fields.extend([r.verified, r.native].map(|is| is.to_string()));
    fields.extend(empty(OF_PHASE - fields.len()));
    fields.extend([r.by.clone(), r.readers.to_string()]);
    fields.extend([r.writers.to_string(), r.processors.to_string()]);
    fields.extend(summary(&r.per_second));
    fields.extend(to_one);
    fields.push(r.writes_per_second.as_ref().map_or_else(String::new, |w| w.median.to_string()));
    fields
}

/// The fields of a figure; empty where there is none.
fn line(r: &PhaseResult) -> [String; OF_PHASE] {
    let (l, e) = (r.latency_ns.as_ref(), &r.effort);
    let latency = |ns: Option<u64>| ns.map(|ns| ns.to_string()).unwrap_or_default();
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
    use crate::result::Growth;

    #[test]
    fn one_line_for_each_figure_with_every_column() {
        let bytes = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(bytes).unwrap();
        report.together = crate::report::together::some();
        let run = |records| Growth {
            records,
            key_bytes: 1,
            value_bytes: 1,
            results: report.results.clone(),
        };
        report.growth = vec![run(77), run(report.settings.records)];
        let text = table(&report);
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 1 + 2 * report.results.len() + report.together.len());
        assert_eq!(text.matches(",77,").count(), report.results.len());
        let last: Vec<&str> = lines[lines.len() - 1].split(',').collect();
        let field = |name| last[COLUMNS.iter().position(|column| *column == name).unwrap()];
        let of = report.together.last().unwrap();
        assert_eq!(field("store"), of.store);
        assert_eq!((field("by"), field("readers"), field("writers")), ("processes", "16", "1"));
        assert_eq!((field("rounds"), field("ns_per_op"), field("hit_rate")), ("1", "", "0"));
        assert_eq!((field("verified"), field("times_one_high")), ("false", "1.9876"));
        assert_eq!(field("writes_per_second"), "1234567.8");
        assert!(lines.iter().all(|line| line.split(',').count() == COLUMNS.len()), "{text}");
        report.together.push(crate::report::committers::some());
        let text = table(&report);
        let last: Vec<&str> = text.trim_end().rsplit("\r\n").next().unwrap().split(',').collect();
        let field = |name| last[COLUMNS.iter().position(|column| *column == name).unwrap()];
        assert_eq!(
            (field("class"), field("phase"), field("readers")),
            ("sync", "insert-sync", "8")
        );
        assert_eq!((field("per_second"), field("syncs_per_change")), ("4321.4", "0.1254"));
        assert_eq!((field("hit_rate"), last.len()), ("", COLUMNS.len()));
        kinds_have_lines(&mut report);
        let slots = || Slots {
            ops: vec![10, 0],
            p50_ns: vec![5, 0],
            p99_ns: vec![6, 0],
            max_ns: vec![77, 0],
        };
        report.results[0].over_time = Some(OverTime {
            slot_seconds: 0.5,
            seconds: 0.75,
            all: slots(),
            operations: [("get".to_owned(), slots())].into(),
        });
        let text = table(&report);
        let last: Vec<Vec<&str>> =
            text.lines().rev().take(4).map(|l| l.split(',').collect()).collect();
        let field =
            |line: usize, name| last[line][COLUMNS.iter().position(|c| *c == name).unwrap()];
        assert_eq!(
            (field(1, "per_second"), field(1, "max_ns"), field(1, "ops")),
            ("20", "77", "10")
        );
        assert_eq!((field(0, "from_seconds"), field(0, "to_seconds")), ("0.5", "0.75"));
        assert_eq!(
            (field(0, "p50_ns"), field(0, "operation"), field(2, "operation")),
            ("", "get", "")
        );
        assert!(last.iter().all(|line| line.len() == COLUMNS.len()), "{text}");
        let first = &report.results[0];
        let start = format!("{},{},{},{}", first.store, first.class, first.phase, first.ops);
        assert!(lines[1].starts_with(&start), "{}", lines[1]);
        report.settings.mix = "get 6, update 4, keys uniform".to_owned();
        report.settings.distribution = "latest:theta=0.99".to_owned();
        report.settings.insert_order = "descending".to_owned();
        report.results[0].phase = "mixed".to_owned();
        report.results[0].effort.commits = 4;
        (report.results[0].syncs_per_commit, report.results[0].written_bytes_per_commit) =
            (Some(0.5), Some(400.0));
        let text = table(&report);
        let lines: Vec<&str> = text.lines().collect();
        let names = ",to_seconds,distribution,mix,insert_order,commits,syncs_per_commit,\
                     written_bytes_per_commit,closing_ns";
        assert!(lines[0].ends_with(names), "{}", lines[0]);
        let of_mix = ",,\"get 6, update 4, keys uniform\",descending,4,0.5,400,0";
        assert!(lines[1].ends_with(of_mix), "{}", lines[1]);
        let of_hits = ",latest:theta=0.99,,descending,0,,,0";
        let hits = |line: &&&str| line.contains(",get-hit,");
        assert!(lines.iter().filter(hits).count() > 1);
        assert!(lines.iter().filter(hits).all(|line| line.ends_with(of_hits)), "{text}");
        assert!(text.trim_end().ends_with(",,,,,,"), "a stretch of time has it with its phase");
        report.results[0].store = "resp:\"a\",b".to_owned();
        assert!(table(&report).contains("\r\n\"resp:\"\"a\"\",b\","));
    }

    /// Of a mix with one thread and of one with eight, the latter at a rate, too.
    fn kinds_have_lines(report: &mut Report) {
        let latency =
            |ns| Latency { p50: ns, max: 2 * ns, ..crate::report::rate::some().latency_ns };
        report.results[0].operation_latency_ns = [("get".to_owned(), latency(5))].into();
        let threads = report.together.last_mut().unwrap();
        threads.operation_latency_ns = [("update".to_owned(), latency(7))].into();
        threads.at_rate = Some(crate::report::rate::some());
        let text = table(report);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let place = |name| COLUMNS.iter().position(|column| *column == name).unwrap();
        let of_kinds: Vec<_> =
            lines[1..].iter().filter(|l| !l[place("operation")].is_empty()).collect();
        let names =
            ["operation", "readers", "verified", "p50_ns", "max_ns", "at_rate_p50_ns", "kept_up"];
        let found: Vec<_> =
            of_kinds.iter().map(|line| names.map(|name| line[place(name)])).collect();
        assert_eq!(
            found,
            [
                ["get", "", "true", "5", "10", "", ""],
                ["get", "8", "true", "", "", "300", "false"],
                ["update", "8", "true", "7", "14", "", ""]
            ]
        );
        let first = &report.results[0];
        assert_eq!(
            (of_kinds[0][place("store")], of_kinds[0][place("phase")]),
            (&*first.store, &*first.phase)
        );
        assert!(lines.iter().all(|line| line.len() == COLUMNS.len()), "{text}");
    }
}
