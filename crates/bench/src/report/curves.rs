//! Curves of latencies over percentiles: what the slow operations are like, one by one in a thousand.
//!
//! The axis has as much room between 99 % and 99.9 % as between 90 % and 99 %: it is logarithmic in the
//! part that is slower.

use super::compare::Comparison;
use super::lines::{Line, LineChart, Point};
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
}
