//! Latencies of a mix by several processes or threads, kind by kind of its operations: a table for the terminal
//! and the page, and charts.

use super::html::{SPAN, latency_chart};
use super::plain::ByClass;
use super::text;
use super::together::readers;
use crate::result::{Latency, Report, TogetherResult};
use std::collections::BTreeSet;

/// The heading of the table.
pub const TITLE: &str = "Latencies of a mix by processes or threads";

/// What the figures are.
const EXPLAINED: &str = "Single operations, kind by kind, of all processes (procs) or threads of a row \
    together: on one more store one in sixteen of each was timed by itself, while the others did theirs. Where \
    there are more of them than processors, they have in them how long they waited for one. ! some answers were wrong.";

const HEADS: [&str; 8] = ["store", "phase", "at once", "operation", "p50", "p99", "p99.9", "max"];

/// The columns for words, which come first.
const WORDS: usize = 4;

/// The table and what to say below; nothing without such latencies.
pub fn table(report: &Report) -> Option<(ByClass, &'static str)> {
    let rows = report.together.iter().flat_map(|r| {
        let kinds = r.operation_latency_ns.iter();
        kinds.map(|(name, latency)| (&*r.class, cells(r, name, latency).to_vec()))
    });
    let heads = HEADS.map(str::to_owned).to_vec();
    Some((ByClass::new(&heads, WORDS, rows)?, EXPLAINED))
}

fn cells(r: &TogetherResult, name: &str, l: &Latency) -> [String; HEADS.len()] {
    let wrong = if r.verified { "" } else { "!" };
    let [p50, p99, p999, max] =
        [l.p50, l.p99, l.p999, l.max].map(|ns| text::nanoseconds(ns as f64));
    [r.store.clone(), r.phase.clone(), readers(r), format!("{name}{wrong}"), p50, p99, p999, max]
}

/// A chart for each kind of operation, number of processes or threads, phase and class, the fastest store first.
pub fn charts(report: &Report) -> String {
    type Key<'a> = (&'a str, &'a str, &'a str, usize);
    fn key(r: &TogetherResult) -> Key<'_> {
        (&r.class, &r.phase, &r.by, r.readers)
    }
    let is_drawn = |r: &&TogetherResult| r.verified && !r.operation_latency_ns.is_empty();
    let of_mixes = || report.together.iter().filter(is_drawn);
    let mut charts = String::new();
    let mut drawn: BTreeSet<Key<'_>> = BTreeSet::new();
    for first in of_mixes().filter(|r| drawn.insert(key(r))) {
        let same: Vec<&TogetherResult> = of_mixes().filter(|r| key(r) == key(first)).collect();
        let names: BTreeSet<&String> =
            same.iter().flat_map(|r| r.operation_latency_ns.keys()).collect();
        for name in names {
            let mut measured: Vec<(&str, &Latency)> = same
                .iter()
                .filter_map(|r| Some((&*r.store, r.operation_latency_ns.get(name)?)))
                .collect();
            measured.sort_by_key(|(_, latency)| latency.p50);
            let title = format!("{}, {}: {name}", first.phase, readers(first));
            let explained = format!("{SPAN}, class {}", first.class);
            charts += &latency_chart(&title, &explained, &measured);
        }
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{committers, rate};

    /// Two stores and two numbers of threads, each with two kinds.
    fn report() -> Report {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        let latency = |ns| Latency { p50: ns, ..rate::some().latency_ns };
        let of = |store: &str, readers, ns| TogetherResult {
            store: store.to_owned(),
            readers,
            phase: "mixed-eighteen-letters-a".to_owned(),
            class: "buffered".to_owned(),
            operation_latency_ns: [("get", ns), ("read-modify-write", 2 * ns)]
                .map(|(name, ns)| (name.to_owned(), latency(ns)))
                .into(),
            ..committers::some()
        };
        report.together =
            vec![of("bdb-btree", 1, 700), of("bdb-btree", 256, 800), of("hash", 256, 300)];
        report.together.push(committers::some());
        report
    }

    #[test]
    fn each_kind_has_a_row_for_each_store_and_number_of_threads() {
        let mut report = report();
        let lines = table(&report).unwrap().0.lines();
        // The class, the headings, and no row of what has no kinds.
        assert_eq!(lines.len(), 2 + 3 * 2, "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
        let row = |words: &[&str]| lines.iter().any(|line| words.iter().all(|w| line.contains(w)));
        assert!(
            row(&["bdb-btree", " 256 threads ", " read-modify-write ", " 1.60 µs ", " 400 ns"]),
            "{lines:#?}"
        );
        assert!(row(&["hash", " 256 threads ", " get ", " 300 ns "]), "{lines:#?}");
        report.together[2].verified = false;
        let lines = table(&report).unwrap().0.lines();
        assert_eq!(lines.iter().filter(|line| line.contains("get! ")).count(), 1, "{lines:#?}");
        report.together.drain(..3);
        assert!(table(&report).is_none() && charts(&report).is_empty());
    }

    #[test]
    fn the_page_has_a_chart_for_each_kind_and_number_of_threads() {
        let report = report();
        let html = charts(&report);
        assert_eq!(html.matches("<figure").count(), 2 * 2, "{html}");
        let (_, many) = html.split_once("letters-a, 256 threads: get<").unwrap();
        // Both stores, the faster one first.
        assert!(many.find("hash: p50 300 ns") < many.find("bdb-btree: p50 800 ns"), "{html}");
        assert!(many.contains("bdb-btree: p50 800 ns"), "{html}");
        // Processes have charts of their own.
        let mut both = report.clone();
        both.together[2].by = "processes".to_owned();
        let apart = charts(&both);
        assert!(apart.contains("letters-a, 256 procs: get<"), "{apart}");
        assert_eq!(apart.matches("<figure").count(), 3 * 2, "{apart}");
        let page = crate::report::html::page(&report);
        assert!(page.contains(TITLE) && page.contains("letters-a, 1 thread: read-modify-write<"));
    }
}
