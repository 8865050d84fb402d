//! Throughput and latency over the time of a run, as charts: a stall is where nothing ends, and where the
//! slowest operation is.

use super::chart::Scale;
use super::compare::Comparison;
use super::lines::{Line, LineChart};
use super::text;
use crate::result::over_time::{OverTime, Slots};
use crate::result::{PhaseResult, Report};
use std::collections::BTreeSet;

/// What is said above the charts.
pub const EXPLAINED: &str = "One run of each store, in the first round and in no other figure, in which \
    every operation was timed. The time is that of the operations; a line ends when its store is done. \
    Each point is for a stretch of time: how many operations ended in it, and how long they took. While a \
    store stalls, nothing ends, and the slowest one tells for how long.";

/// The same of runs at a rate.
pub const AT_RATE: &str = "Over time: the first round. Each point is for a stretch of it. Latencies count \
    from when an operation was to start.";

/// One run, and what of it is drawn: all operations, or those of one kind.
struct Drawn<'a> {
    store: &'a str,
    run: &'a OverTime,
    slots: &'a Slots,
}

/// The charts of each phase that has single operations over time; empty without any.
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
        html += &grid(&charts(report, &format!("{phase}{how}"), &all));
        html += &by_kind(report, &format!("{phase}{how}"), &runs);
    }
    html
}

/// The same for each kind of operation, to be opened; nothing where there is one.
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
    format!("<details><summary>Kind by kind</summary>{}</details>", grid(&html))
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

/// A chart for each panel, all over the same time.
fn charts(report: &Report, title: &str, drawn: &[Drawn]) -> String {
    let seconds: Vec<f64> = drawn.iter().map(|d| d.run.seconds).collect();
    let time = Scale::from_zero(&seconds);
    let tick =
        |s: f64| (time.place(s), if s == 0.0 { "0".to_owned() } else { text::round(&duration(s)) });
    let chart = |panel: &Panel| {
        let line = |d: &'_ Drawn| points(d, &time, &(panel.figures)(d), panel.words);
        let chart = LineChart {
            title: format!("{title}: {}", panel.what),
            explained: panel.explained.to_owned(),
            ticks: time.ticks().into_iter().map(tick).collect(),
            below: "time",
            seconds: Some(time.end()),
            lines: drawn.iter().map(|d| Line { store: d.store, points: line(d) }).collect(),
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

fn points(
    d: &Drawn,
    time: &Scale,
    figures: &[Option<f64>],
    words: fn(f64) -> String,
) -> Vec<(f64, f64, String)> {
    let point = |(i, figure): (usize, &Option<f64>)| {
        let (begin, end) = d.run.slot(i, figures.len());
        let middle = f64::midpoint(begin, end);
        let figure = (*figure)?;
        Some((time.place(middle), figure, words(figure)))
    };
    figures.iter().enumerate().filter_map(point).collect()
}

fn duration(seconds: f64) -> String {
    text::nanoseconds(seconds * 1e9)
}
