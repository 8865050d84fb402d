//! What an operation costs over the number of records: a table for the terminal, and one with charts for
//! the page.

use super::chart::Scale;
use super::lines::{Line, LineChart, Point};
use super::plain::ByClass;
use super::{figures, text};
use crate::result::{Growth, PhaseResult, Report};

const EXPLAINED: &str = "Nanoseconds of an operation, medians, by the number of records in the store. \
    ! some answers were wrong. Each number was a run of its own; all other figures here are those of \
    the largest.";

/// The phases and stores of all runs: those of the largest, which is last, and then others.
fn all(growth: &[Growth]) -> Vec<(&str, &str, &str)> {
    let mut found: Vec<(&str, &str, &str)> = Vec::new();
    for result in growth.iter().rev().flat_map(|run| &run.results) {
        let key = (&*result.phase, &*result.store, &*result.class);
        if !found.contains(&key) {
            found.push(key);
        }
    }
    found
}

fn result<'a>(run: &'a Growth, key: &(&str, &str, &str)) -> Option<&'a PhaseResult> {
    run.results.iter().find(|r| (&*r.phase, &*r.store, &*r.class) == *key)
}

/// The table and what to say below; nothing without a series of runs.
pub fn table(report: &Report) -> Option<(ByClass, &'static str)> {
    let growth = &report.growth;
    let mut heads = vec!["store".to_owned(), "phase".to_owned()];
    heads.extend(growth.iter().map(|run| text::count(run.records)));
    let keys = all(growth);
    let rows = keys.iter().map(|key| {
        let mut row = vec![key.1.to_owned(), key.0.to_owned()];
        row.extend(growth.iter().map(|run| match result(run, key) {
            Some(r) if r.verified => text::number(r.ns_per_op.median),
            Some(r) => format!("{}!", text::number(r.ns_per_op.median)),
            None => text::NONE.to_owned(),
        }));
        (key.2, row)
    });
    Some((ByClass::new(&heads, 2, rows)?, EXPLAINED))
}

/// Each round of all runs; nothing without a series of runs.
pub fn rounds(report: &Report) -> Option<ByClass> {
    let growth = &report.growth;
    let keys = all(growth);
    let each = keys.iter().flat_map(|key| growth.iter().map(move |run| (run, key)));
    let row = |(run, key): (&'_ Growth, &(&'_ str, &'_ str, &'_ str))| {
        let s = &result(run, key)?.ns_per_op;
        let mut row = vec![key.1.to_owned(), key.0.to_owned(), text::count(run.records)];
        row.extend([s.median, s.low, s.high].map(text::number));
        row.push(figures::samples(&s.samples));
        Some(row)
    };
    let rows = each.filter_map(|of| Some((of.1.2, row(of)?)));
    let heads = ["store", "phase", "records", "median ns", "low", "high", "rounds"];
    ByClass::new(&heads.map(str::to_owned), 2, rows)
}

/// A chart for each phase and class, with a line for each store; empty without a series of runs.
pub fn charts(report: &Report) -> String {
    let growth = &report.growth;
    let counts: Vec<f64> = growth.iter().map(|run| run.records as f64).collect();
    let scale = Scale::logarithmic(&counts);
    let keys = all(growth);
    let mut drawn: Vec<(&str, &str)> = Vec::new();
    let mut html = String::new();
    for (phase, _, class) in &keys {
        if drawn.contains(&(phase, class)) {
            continue;
        }
        drawn.push((phase, class));
        let of_phase = keys.iter().filter(|(p, _, c)| (p, c) == (phase, class));
        let line = |key: &(&'_ str, &'_ str, &'_ str)| -> Vec<Point> {
            let runs = growth.iter().filter_map(|run| Some((run.records, result(run, key)?)));
            let right = runs.filter(|(_, r)| r.verified && r.ns_per_op.median > 0.0);
            let point = |(records, r): (u64, &PhaseResult)| {
                let ns = r.ns_per_op.median;
                let many = text::counted(records as usize, "record");
                let words = format!("{many}: {}", text::nanoseconds(ns));
                (scale.place(records as f64), ns, words)
            };
            right.map(point).collect()
        };
        let lines = of_phase.map(|key| Line::through(key.1, line(key)));
        let ticks = scale.ticks().into_iter();
        let chart = LineChart {
            title: (*phase).to_owned(),
            explained: format!("time of one operation, class {class}"),
            ticks: ticks.map(|n| (scale.place(n), text::count(n as u64))).collect(),
            below: "records in the store; logarithmic scale",
            lines: lines.filter(|line| !line.stretches.is_empty()).collect(),
            stores: report.stores.iter().map(|info| &*info.store).collect(),
        };
        html += &chart.html(|ns| text::round(&text::nanoseconds(ns)));
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_records_has_a_column_and_a_point() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        assert!(table(&report).is_none() && charts(&report).is_empty());
        let run = |records| Growth {
            records,
            key_bytes: 1,
            value_bytes: 1,
            results: report.results.clone(),
        };
        let mut growth = vec![run(1000), run(10_000), run(1_000_000)];
        let gone = growth[0].results.remove(0);
        growth[1].results[0].verified = false;
        report.growth = growth;
        let table = table(&report).unwrap().0;
        let table = table.of(&gone.class);
        assert_eq!(table.heads[2..], ["1,000", "10,000", "1,000,000"]);
        let row = table.rows.iter().find(|r| r[0] == gone.store && r[1] == gone.phase).unwrap();
        assert!(row[2] == text::NONE && row[3].ends_with('!') && !row[4].ends_with('!'), "{row:?}");
        assert!(table.lines().iter().all(|line| line.chars().count() <= 100));
        assert!(charts(&report).matches("<circle").count() > report.results.len());
        let rounds = rounds(&report).unwrap();
        let rows = &rounds.of(&gone.class).rows;
        assert_eq!(rows.len(), 3 * report.results.len() - 1, "what was not measured has no row");
        let of_gone = |row: &&Vec<String>| row[0] == gone.store && row[1] == gone.phase;
        let row = rows.iter().find(of_gone).unwrap();
        assert_eq!(row[2], "10,000");
        assert_eq!(row[6].split_whitespace().count(), gone.ns_per_op.samples.len());
    }
}
