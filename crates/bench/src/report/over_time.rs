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

/// Throughput, and three latencies.
fn charts(report: &Report, title: &str, drawn: &[Drawn]) -> String {
    let seconds: Vec<f64> = drawn.iter().map(|d| d.run.seconds).collect();
    let time = Scale::from_zero(&seconds);
    let ticks = time.ticks().into_iter().map(|s| {
        let label = if s == 0.0 { "0".to_owned() } else { text::round(&duration(s)) };
        (time.place(s), label)
    });
    let ticks: Vec<(f64, String)> = ticks.collect();
    let chart = |what: &str,
                 explained: &str,
                 line: &dyn Fn(&Drawn) -> Vec<Option<f64>>,
                 words: fn(f64) -> String| {
        let line = |d: &&'_ Drawn| points(d, &time, &line(d), words);
        LineChart {
            title: format!("{title}: {what}"),
            explained: explained.to_owned(),
            ticks: ticks.clone(),
            below: "time in the store",
            lines: drawn.iter().map(|d| Line { store: d.store, points: line(&d) }).collect(),
            stores: report.stores.iter().map(|info| &*info.store).collect(),
        }
    };
    let latency = |of: fn(&Slots) -> &Vec<u64>| {
        move |d: &Drawn| -> Vec<Option<f64>> {
            let all = of(d.slots).iter().zip(&d.slots.ops);
            all.map(|(ns, ops)| (*ops > 0).then(|| ns.max(&1)).map(|ns| *ns as f64)).collect()
        }
    };
    let rates = |d: &Drawn| d.run.per_second(d.slots).collect::<Vec<_>>();
    let highest: Vec<f64> = drawn.iter().flat_map(|d| rates(d).into_iter().flatten()).collect();
    let mut html = chart("throughput", "operations a second", &rates, text::per_second)
        .html_on(&Scale::from_zero(&highest), |x| text::round(&text::per_second(x)));
    for (what, explained, of) in [
        ("p50", "half took at most", (|s| &s.p50_ns) as fn(&Slots) -> &Vec<u64>),
        ("p99", "99 of 100 took at most", |s| &s.p99_ns),
        ("slowest", "the one that took longest", |s| &s.max_ns),
    ] {
        html += &chart(what, explained, &latency(of), text::nanoseconds)
            .html(|ns| text::round(&text::nanoseconds(ns)));
    }
    html
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
        Some((time.place(middle), figure, format!("{}: {}", duration(middle), words(figure))))
    };
    figures.iter().enumerate().filter_map(point).collect()
}

fn duration(seconds: f64) -> String {
    text::nanoseconds(seconds * 1e9)
}
