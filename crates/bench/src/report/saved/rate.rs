//! Latencies of operations at a rate in two saved runs, and how a percentile is judged.

use super::Speed;
use crate::report::rate::{self, OpenLoop};
use crate::report::stats::Ratio;
use crate::result::{AtRate, Report};
use serde::Serialize;

/// What stands in the place of a percentile where none is judged, as a store was behind or answers were wrong.
pub(super) const ALL: &str = "all";

/// Operations that must lie beyond a percentile in each run: that of fewer is what happened to a handful.
const BEYOND: u64 = 100;

/// One percentile of the latencies of one phase of one store, in a closed loop or at the same rate in both runs;
/// or, with the percentile "all", that nothing can be said of any of them.
#[derive(Debug, Serialize)]
pub struct LatencyChange {
    /// The store's name.
    pub store: String,
    /// The phase's name, with that of the operation where it has several: "mixed: get".
    pub phase: String,
    /// The durability class in both runs.
    pub class: String,
    /// "p50", "p99" or "p99.9"; or "all".
    pub percentile: &'static str,
    /// Nanoseconds from when an operation was to start (or did, in a closed loop) to its end, of all rounds
    /// together, before and after; of "all" the 50th percentile.
    pub ns: [u64; 2],
    /// At a rate: how many rounds were behind their schedule, and of how many, before and after; `None` in reports that
    /// do not tell.
    pub behind: [Option<[usize; 2]>; 2],
    /// How many times as fast as before, with the ends of its 95 % interval, by the rounds; `None` where
    /// answers were wrong, or a store was behind its schedule.
    pub ratio: Option<Ratio>,
    /// What may be said of it.
    pub speed: Speed,
}

/// What both runs have at one rate, in the order of the later one.
pub(super) fn changes(before: &Report, after: &Report, part: f64) -> Vec<LatencyChange> {
    let known: Vec<OpenLoop<'_>> = rate::results(before).collect();
    let both = rate::results(after).filter_map(|new| {
        let old = known.iter().find(|old| is_same(old, &new))?;
        Some(of_phase(old, &new, after.settings.batch as u64, part))
    });
    both.flatten().collect()
}

/// Whether both did the same at the same rate.
fn is_same(one: &OpenLoop<'_>, other: &OpenLoop<'_>) -> bool {
    fn key<'a>(of: &'a OpenLoop<'_>) -> (&'a str, &'a str, &'a str, Option<(usize, bool)>) {
        (of.store, of.class, &of.phase, of.processors)
    }
    let rate = |of: &OpenLoop<'_>| (of.at.per_second, of.at.arrivals.clone());
    key(one) == key(other) && rate(one) == rate(other)
}

/// Lookups of a batch have the latency of one call.
pub(super) fn operations_of_a_call(phase: &str, batch: u64) -> u64 {
    if phase.starts_with("get-many") { batch.max(1) } else { 1 }
}

/// What is said of a percentile that one operation of so many lies beyond, in runs of which the shorter has
/// `fewest` of them.
pub(super) fn judged_percentile(
    ratio: Option<&Ratio>,
    fewest: u64,
    one_beyond_in: u64,
    part: f64,
) -> Speed {
    match Speed::judged(ratio, true, true, part) {
        Speed::TooFewRounds => Speed::TooFewRounds,
        _ if fewest / one_beyond_in < BEYOND => Speed::TooFewOperations,
        judged => judged,
    }
}

fn of_phase(old: &OpenLoop<'_>, of: &OpenLoop<'_>, batch: u64, part: f64) -> Vec<LatencyChange> {
    let (old, new) = (old.at, of.at);
    let (l, m) = (&old.latency_ns, &new.latency_ns);
    let change = |percentile, ns, ratio, speed| LatencyChange {
        store: of.store.to_owned(),
        phase: of.phase.clone(),
        class: of.class.to_owned(),
        percentile,
        ns,
        behind: [old, new].map(|at| at.rounds_behind.map(|behind| [behind, rounds(at)])),
        ratio,
        speed,
    };
    if let Some(speed) = of_all(old, new) {
        return vec![change(ALL, [l.p50, m.p50], None, speed)];
    }
    let fewest = old.ops.min(new.ops) / operations_of_a_call(&of.phase, batch);
    let (s, t) = (&old.by_round, &new.by_round);
    let judged = |percentile, ns, one_beyond_in: u64, samples: [&[u64]; 2]| {
        let ratio = ratio(samples);
        let speed = judged_percentile(ratio.as_ref(), fewest, one_beyond_in, part);
        change(percentile, ns, ratio, speed)
    };
    vec![
        judged("p50", [l.p50, m.p50], 2, [&s.p50, &t.p50]),
        judged("p99", [l.p99, m.p99], 100, [&s.p99, &t.p99]),
        judged("p99.9", [l.p999, m.p999], 1000, [&s.p999, &t.p999]),
    ]
}

/// What is said of all percentiles at once: wrong answers, and a store that is behind, which has latencies
/// that grow with the length of the run. One round that something disturbed is none of these.
fn of_all(old: &AtRate, new: &AtRate) -> Option<Speed> {
    let (before, after) = (part_behind(old), part_behind(new));
    match () {
        () if !old.verified => Some(Speed::WrongBefore),
        () if !new.verified => Some(Speed::WrongAnswers),
        () if before <= 0.5 && after > 0.5 && after - before >= 0.5 => Some(Speed::Behind),
        () if before.max(after) > 0.5 => Some(Speed::BehindBefore),
        () => None,
    }
}

/// The part of the rounds that were behind; all of them where a report says only that some were.
fn part_behind(at: &AtRate) -> f64 {
    match at.rounds_behind {
        Some(behind) => behind as f64 / rounds(at).max(1) as f64,
        None => f64::from(u8::from(!at.kept_up)),
    }
}

fn rounds(at: &AtRate) -> usize {
    at.reached.samples.len()
}

/// How many times as fast, by the percentiles of the rounds of both runs.
pub(super) fn ratio(samples: [&[u64]; 2]) -> Option<Ratio> {
    // What took no time that the clock could see took less than one nanosecond.
    let times = |all: &[u64]| all.iter().map(|ns| (*ns).max(1) as f64).collect::<Vec<_>>();
    let [one, other] = samples.map(times);
    Ratio::of_runs(&one, &other)
}
