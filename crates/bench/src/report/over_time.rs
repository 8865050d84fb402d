//! Throughput and latency over the time of a run, as charts: a stall is where nothing ends, and where the
//! slowest operation is.

use super::chart::{Scale, folded};
use super::compare::Comparison;
use super::lines::{Line, LineChart, Point};
use super::text;
use crate::result::over_time::{OverTime, Slots};
use crate::result::{PhaseResult, Report};
use std::collections::BTreeSet;

/// What is said above the charts.
pub const EXPLAINED: &str = "One run of each store, in the first round and in no other figure, in which \
    every operation was timed. The axis below is the part of each run that is over; how long the run of a \
    store took stands beside its name. Each point is for a stretch of time: how many operations ended in \
    it, and how long they took; lookups of a batch and a hundred records of a scan are timed together, \
    and have the latency of all of these. While a store stalls, nothing ends: throughput is zero there, \
    the lines of latencies have a gap, and the slowest one behind it tells for how long.";

/// The same of runs at a rate.
pub const AT_RATE: &str = "Over time: the first round, as the part of it that is over; its time stands beside \
    each name. Each point is for a stretch of it, and where no operation ended the lines of latencies have a \
    gap. Latencies count from when an operation was to start.";

/// One run, and what of it is drawn: all operations, or those of one kind.
struct Drawn<'a> {
    store: &'a str,
    run: &'a OverTime,
    slots: &'a Slots,
}

/// The charts of each phase over time; empty without any.
pub fn of_phases(report: &Report, c: &Comparison) -> String {
    each_phase(report, c, "", |r| r.over_time.as_ref())
}

/// The same of operations at a rate.
pub fn at_rate(report: &Report, c: &Comparison) -> String {
    each_phase(report, c, " at the rate", |r| r.at_rate.as_ref()?.over_time.as_ref())
}

fn each_phase<'a>(
    report: &Report,
    c: &Comparison<'a>,
    how: &str,
    of: impl Fn(&'a PhaseResult) -> Option<&'a OverTime>,
) -> String {
    let mut html = String::new();
    for phase in &c.phases {
        let stores = c.stores.iter().copied();
        let runs: Vec<(&str, &OverTime)> =
            stores.filter_map(|store| Some((store, of(c.result(store, phase)?)?))).collect();
        let drawn = |(store, run)| Drawn { store, run, slots: &run.all };
        let all: Vec<Drawn> = runs.iter().copied().map(drawn).collect();
        if all.is_empty() {
            continue;
        }
        let title = format!("{phase}{how}");
        let content = grid(&charts(report, &title, &all)) + &by_kind(report, &title, &runs);
        // These charts are most of a page.
        html += &folded(&format!("{title}, over time"), &content);
    }
    html
}

/// The same for each kind of operation; nothing where there is one.
fn by_kind(report: &Report, phase: &str, runs: &[(&str, &OverTime)]) -> String {
    let names: BTreeSet<&String> = runs.iter().flat_map(|(_, run)| run.operations.keys()).collect();
    let mut html = String::new();
    for name in &names {
        let of_name = runs.iter().filter_map(|&(store, run)| {
            run.operations.get(*name).map(|slots| Drawn { store, run, slots })
        });
        let of_name: Vec<Drawn> = of_name.collect();
        html += &charts(report, &format!("{phase}: {name}"), &of_name);
    }
    if html.is_empty() {
        return html;
    }
    folded("Kind by kind", &grid(&html))
}

fn grid(charts: &str) -> String {
    format!(r#"<div class="charts">{charts}</div>"#)
}

/// What of a run one chart shows.
struct Panel {
    what: &'static str,
    explained: &'static str,
    /// One for each slot; none where there is no such figure.
    figures: fn(&Drawn) -> Vec<Option<f64>>,
    words: fn(f64) -> String,
    /// Whether the axis begins with zero, where the line is while nothing ends.
    from_zero: bool,
}

const PANELS: [Panel; 4] = [
    Panel {
        what: "throughput",
        explained: "operations a second",
        figures: |d| d.run.per_second(d.slots).collect(),
        words: text::per_second,
        from_zero: true,
    },
    Panel {
        what: "p50",
        explained: "half took at most",
        figures: |d| latencies(d.slots, &d.slots.p50_ns),
        words: text::nanoseconds,
        from_zero: false,
    },
    Panel {
        what: "p99",
        explained: "99 of 100 took at most",
        figures: |d| latencies(d.slots, &d.slots.p99_ns),
        words: text::nanoseconds,
        from_zero: false,
    },
    Panel {
        what: "slowest",
        explained: "the one that took longest",
        figures: |d| latencies(d.slots, &d.slots.max_ns),
        words: text::nanoseconds,
        from_zero: false,
    },
];

/// Where no operation ended, there is no latency.
fn latencies(slots: &Slots, ns: &[u64]) -> Vec<Option<f64>> {
    let all = ns.iter().zip(&slots.ops);
    all.map(|(ns, ops)| (*ops > 0).then_some((*ns).max(1) as f64)).collect()
}

/// The ticks of the axis below: the part of each run that is over, in per cent.
const TICKS: [(f64, &str); 5] =
    [(0.0, "0"), (25.0, "25 %"), (50.0, "50 %"), (75.0, "75 %"), (100.0, "100 %")];

/// A chart for each panel. Each line is as wide as the chart, however long its run took: over one time of
/// all, a store that is done in a tenth of another's would be a mark at the edge.
fn charts<'a>(report: &'a Report, title: &str, drawn: &[Drawn<'a>]) -> String {
    let chart = |panel: &Panel| {
        let line = |d: &Drawn<'a>| Line {
            store: d.store,
            stretches: stretches(d, &(panel.figures)(d), panel.words),
            seconds: Some(d.run.seconds),
        };
        let chart = LineChart {
            title: format!("{title}: {}", panel.what),
            explained: panel.explained.to_owned(),
            ticks: TICKS.map(|(place, label)| (place, label.to_owned())).to_vec(),
            below: "part of each run",
            lines: drawn.iter().map(line).collect(),
            stores: report.stores.iter().map(|info| &*info.store).collect(),
        };
        let label = |x| text::round(&(panel.words)(x));
        if !panel.from_zero {
            return chart.html(label);
        }
        let all = drawn.iter().flat_map(|d| (panel.figures)(d).into_iter().flatten());
        chart.html_on(&Scale::from_zero(&all.collect::<Vec<_>>()), label)
    };
    PANELS.iter().map(chart).collect()
}

/// The points of a line; where there is no figure, a stretch of them ends.
fn stretches(d: &Drawn, figures: &[Option<f64>], words: fn(f64) -> String) -> Vec<Vec<Point>> {
    let place = |i: usize| {
        let (begin, end) = d.run.slot(i, figures.len());
        let part = f64::midpoint(begin, end) / d.run.seconds;
        // A report may say that a run took no time.
        if part.is_finite() { part.clamp(0.0, 1.0) * 100.0 } else { 0.0 }
    };
    let all: Vec<(usize, Option<f64>)> = figures.iter().copied().enumerate().collect();
    let stretch = |slots: &[(usize, Option<f64>)]| -> Vec<Point> {
        slots.iter().filter_map(|&(i, figure)| Some((place(i), figure?, words(figure?)))).collect()
    };
    let stretches = all.split(|(_, figure)| figure.is_none()).map(stretch);
    stretches.filter(|points| !points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(run: &OverTime) -> Vec<Vec<f64>> {
        let d = Drawn { store: "hash", run, slots: &run.all };
        let figures = latencies(&run.all, &run.all.p50_ns);
        let of_places = |points: Vec<Point>| points.iter().map(|point| point.0.round()).collect();
        stretches(&d, &figures, text::nanoseconds).into_iter().map(of_places).collect()
    }

    #[test]
    fn a_run_fills_the_axis_but_for_where_nothing_ended() {
        let all = Slots {
            ops: vec![0, 5, 5, 0, 0, 5, 0, 5, 5, 0],
            p50_ns: vec![0, 9, 9, 0, 0, 9, 0, 9, 9, 0],
            ..Slots::default()
        };
        let run = |slot_seconds: f64| OverTime {
            slot_seconds,
            seconds: slot_seconds * 10.0,
            all: all.clone(),
            ..OverTime::default()
        };
        let places = [vec![15.0, 25.0], vec![55.0], vec![75.0, 85.0]];
        for seconds in [0.5, 500.0] {
            assert_eq!(drawn(&run(seconds)), places);
        }
        assert_eq!(drawn(&run(0.0)).concat(), [0.0; 5]);
    }
}
