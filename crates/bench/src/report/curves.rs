//! Curves of latencies over percentiles: what the slow operations are like, one by one in a thousand.
//!
//! The axis has as much room between 99 % and 99.9 % as between 90 % and 99 %: it is logarithmic in the
//! part that is slower.

use super::compare::Comparison;
use super::lines::{Line, LineChart, Point};
use super::plain::Table;
use super::text;
use crate::result::{Latency, PhaseResult, Report};

/// The percentiles at the axis, which ends where the last of them does.
const TICKS: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// The place of a quantile in per cent, between the first tick and the last.
fn place(quantile: f64) -> f64 {
    let rarity = |quantile: f64| -(1.0 - quantile).log10();
    let (first, last) = (rarity(TICKS[0].0), rarity(TICKS[4].0));
    ((rarity(quantile) - first) / (last - first) * 100.0).clamp(0.0, 100.0)
}

/// A chart for each phase with latencies of single operations: as fast as can be, and at a rate.
pub fn of_phases(report: &Report, c: &Comparison) -> String {
    let mut charts = String::new();
    for phase in &c.phases {
        charts += &chart(report, c, phase, "one after the other", |r| r.latency_ns.as_ref());
    }
    charts
}

/// The same of operations at a rate.
pub fn at_rate(report: &Report, c: &Comparison) -> String {
    let mut charts = String::new();
    for phase in &c.phases {
        charts +=
            &chart(report, c, phase, "at the rate", |r| Some(&r.at_rate.as_ref()?.latency_ns));
    }
    charts
}

/// The percentiles of all operations, and kind by kind where a phase mixes several; empty without any.
pub fn table(c: &Comparison) -> String {
    let rows: Vec<Vec<String>> = c.in_order().flat_map(rows).collect();
    if rows.is_empty() {
        return String::new();
    }
    let heads = ["store", "phase", "p50", "p90", "p99", "p99.9", "p99.99", "slowest"];
    Table { heads: heads.map(str::to_owned).to_vec(), rows, words: 2 }.html("Percentiles")
}

fn rows(r: &PhaseResult) -> Vec<Vec<String>> {
    let row = |phase: String, l: &Latency| {
        // Reports from before there was this figure have 0.
        let all = [l.p50, l.p90, l.p99, l.p999].map(Some).into_iter();
        let all = all.chain([Some(l.p9999).filter(|ns| *ns > 0), Some(l.max)]);
        let in_words = |ns: Option<u64>| {
            ns.map_or_else(|| text::NONE.to_owned(), |ns| text::nanoseconds(ns as f64))
        };
        [r.store.clone(), phase].into_iter().chain(all.map(in_words)).collect()
    };
    let of_all = r.latency_ns.iter().map(|l| row(r.phase.clone(), l));
    let kinds = r.operation_latency_ns.iter();
    of_all.chain(kinds.map(|(name, l)| row(format!("{}: {name}", r.phase), l))).collect()
}

fn chart(
    report: &Report,
    c: &Comparison,
    phase: &str,
    how: &str,
    of: impl Fn(&PhaseResult) -> Option<&Latency>,
) -> String {
    let line = |store: &&'_ str| -> Option<(u64, String)> {
        let latency = of(c.result(store, phase)?)?;
        (!latency.curve.is_empty()).then(|| (latency.p50, (*store).to_owned()))
    };
    let mut stores: Vec<(u64, String)> = c.stores.iter().filter_map(line).collect();
    stores.sort();
    let line = |(_, store): &'_ (u64, String)| points(of(c.result(store, phase)?)?);
    let lines = stores.iter().filter_map(|store| Some(Line::through(&store.1, line(store)?)));
    LineChart {
        title: phase.to_owned(),
        explained: how.to_owned(),
        ticks: TICKS.map(|(quantile, label)| (place(quantile), label.to_owned())).to_vec(),
        below: "percentile",
        lines: lines.collect(),
        stores: report.stores.iter().map(|info| &*info.store).collect(),
    }
    .html(|ns| text::round(&text::nanoseconds(ns)))
}

/// The points between the first tick and the last.
fn points(latency: &Latency) -> Option<Vec<Point>> {
    let is_drawn = |(quantile, _): &&(f64, u64)| (TICKS[0].0..=TICKS[4].0).contains(quantile);
    let point = |&(quantile, ns): &(f64, u64)| {
        let ns = ns.max(1) as f64;
        // Digits that a float adds are no part of a percentile.
        let percent = (quantile * 1e6).round() / 1e4;
        (place(quantile), ns, format!("p{percent}: {}", text::nanoseconds(ns)))
    };
    let points: Vec<_> = latency.curve.iter().filter(is_drawn).map(point).collect();
    (!points.is_empty()).then_some(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decade_of_rarity_has_always_the_same_room() {
        assert_eq!((place(0.5), place(0.0), place(1.0)), (0.0, 0.0, 100.0));
        let steps = [0.9, 0.99, 0.999, 0.9999].map(place);
        assert!(steps.windows(2).all(|w| (w[1] - w[0] - (steps[1] - steps[0])).abs() < 1e-6));
    }

    #[test]
    fn the_kinds_of_a_mix_have_rows_of_their_own() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        let latency = |p9999| Latency {
            count: 1000,
            p50: 400,
            p90: 500,
            p99: 9000,
            p999: 10_000,
            p9999,
            max: 2_000_000,
            curve: Vec::new(),
        };
        report.results.truncate(2);
        report.results.iter_mut().for_each(|result| result.latency_ns = None);
        assert_eq!(table(&Comparison::of(&report)[0]), "");
        report.results[0].phase = "mixed".to_owned();
        report.results[0].operation_latency_ns =
            [("get".to_owned(), latency(0)), ("update <b>".to_owned(), latency(20_000))].into();
        let html = table(&Comparison::of(&report)[0]);
        assert_eq!(html.matches("<tr").count(), 3, "{html}");
        let row = "mixed: get</td><td>400 ns</td><td>500 ns</td><td>9.00 µs</td><td>10.0 µs</td>\
                   <td>–</td><td>2.00 ms</td>";
        assert!(html.contains(row), "{html}");
        assert!(
            html.contains("update &lt;b&gt;</td>") && html.contains("<td>20.0 µs</td>"),
            "{html}"
        );
    }
}
