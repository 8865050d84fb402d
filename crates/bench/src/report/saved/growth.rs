//! Several numbers of records (`--records`) in two saved runs: each number by itself, as if it were a run.

use super::lost::{self, Missing};
use super::{Change, LatencyChange, closed, differ, figures, rate};
use crate::result::{Growth, Report, Settings};
use serde::Serialize;

/// The figures with one number of records, which is not the largest: those are in [`super::Changes`].
#[derive(Debug, Serialize)]
pub struct GrowthChanges {
    /// Records in the stores.
    pub records: u64,
    /// The figures of both runs, in the order of the later one.
    pub changes: Vec<Change>,
    /// The same of latencies of single operations.
    pub latencies: Vec<LatencyChange>,
    /// The same of latencies at a rate.
    pub at_rate: Vec<LatencyChange>,
}

impl GrowthChanges {
    /// How many of these figures are regressions.
    pub(super) fn regressions(&self) -> usize {
        self.changes.iter().filter(|change| change.regressed()).count()
            + self
                .latencies
                .iter()
                .chain(&self.at_rate)
                .filter(|change| change.speed.regressed())
                .count()
    }
}

/// The numbers of records of a report but the largest, which all else in it is about.
fn others(report: &Report) -> impl Iterator<Item = &Growth> {
    report.growth.iter().filter(|run| run.records != report.settings.records)
}

/// What a report has with so many records: it may be the largest number of that one, or the only one.
fn of(report: &Report, records: u64) -> Option<Growth> {
    let of_series = report.growth.iter().find(|run| run.records == records).cloned();
    of_series.or_else(|| {
        let Settings { key_bytes, value_bytes, .. } = report.settings;
        let is_only = report.settings.records == records;
        is_only.then(|| Growth { records, key_bytes, value_bytes, results: report.results.clone() })
    })
}

/// The run with one number of records, as if it had been the only one.
fn alone(report: &Report, run: &Growth) -> Report {
    let Growth { records, key_bytes, value_bytes, results } = run.clone();
    let settings = Settings { records, key_bytes, value_bytes, ..report.settings.clone() };
    // What failed says itself with how many records it did.
    let prefix = format!("with {records} records: ");
    let mut failures = report.failures.clone();
    failures.retain(|failure| failure.what.starts_with(&prefix));
    let (together, growth, noise) = (Vec::new(), Vec::new(), None);
    Report { settings, results, failures, together, growth, noise, ..report.clone() }
}

/// What all numbers of records that both runs have say of each other, and what is not there any more.
pub(super) fn changes(before: &Report, after: &Report, part: f64) -> (Vec<GrowthChanges>, Missing) {
    let (mut all, mut missing) = (Vec::new(), Missing::default());
    for run in others(before) {
        let with = format!("with {} records", run.records);
        let Some(later) = of(after, run.records) else {
            if after.interrupted {
                missing.lost.push(format!("{with}: the later run was stopped before"));
            } else {
                missing
                    .left_out
                    .push(format!("{with}: not asked for in the later run (--records)"));
            }
            continue;
        };
        let (old, new) = (alone(before, run), alone(after, &later));
        let changes = figures(&old, &new, part);
        let latencies = closed::changes(&old, &new, part);
        let at_rate = rate::changes(&old, &new, part);
        all.push(GrowthChanges { records: run.records, changes, latencies, at_rate });
        let prefixed = |says: Vec<String>| says.into_iter().map(|says| format!("{with}: {says}"));
        let of_run = lost::missing(&old, &new);
        missing.lost.extend(prefixed(of_run.lost));
        missing.left_out.extend(prefixed(of_run.left_out));
    }
    (all, missing)
}

/// Why the figures with a number of records are not to be compared.
pub(super) fn unlike(before: &Report, after: &Report, says: &mut Vec<String>) {
    for run in others(before) {
        let Some(later) = of(after, run.records) else { continue };
        let bytes = |run: &Growth| [run.key_bytes, run.value_bytes];
        let what = format!("bytes of keys and values with {} records", run.records);
        differ(says, &what, &bytes(run), &bytes(&later));
    }
}

/// The numbers of records that only the later run has.
pub(super) fn only_later(before: &Report, after: &Report) -> Option<String> {
    let is_old = |run: &&Growth| others(before).any(|old| old.records == run.records);
    let new = others(after).filter(|run| !is_old(run));
    let numbers: Vec<String> = new.map(|run| run.records.to_string()).collect();
    (!numbers.is_empty())
        .then(|| format!("only in the later run: with {} records", numbers.join(", ")))
}
