//! Latencies of single operations in two saved runs, each of which began when the one before had ended.
//!
//! Invariant: what differs by no more than one reading of the clock is no difference. That is taken off every
//! latency, as it was measured once before the run, and is a large part of that of a lookup.

use super::rate::{self, LatencyChange};
use super::{Speed, same_in};
use crate::report::stats::{self, Ratio};
use crate::result::{Latency, Percentiles, PhaseResult, Report};

/// What both runs have, in the order of the later one; wrong answers have no latency, and are told elsewhere.
pub(super) fn changes(before: &Report, after: &Report, part: f64) -> Vec<LatencyChange> {
    let clock_ns = before.machine.clock_ns.max(after.machine.clock_ns);
    let both = after.results.iter().filter_map(|new| Some((same_in(before, new)?, new)));
    let right = both.filter(|(old, new)| old.verified && new.verified);
    let of_phase = |(old, new): (&PhaseResult, &PhaseResult)| -> Vec<LatencyChange> {
        let floor = before.noise_floor(&new.phase).max(after.noise_floor(&new.phase));
        let batch = after.settings.batch as u64;
        let calls = rate::operations_of_a_call(&new.phase, batch);
        let judge = Judge { of: new, calls, floor, clock_ns, part };
        let kinds = new.operation_latency_ns.keys().filter_map(|name| {
            let (old, new) = (Timed::of_kind(old, name)?, Timed::of_kind(new, name)?);
            Some(judge.changes(&format!("{}: {name}", judge.of.phase), &old, &new))
        });
        let all = Timed::of(old).zip(Timed::of(new));
        let all = all.map(|(old, new)| judge.changes(&judge.of.phase, &old, &new));
        all.into_iter().chain(kinds).flatten().collect()
    };
    right.flat_map(of_phase).collect()
}

/// What was timed of one kind of operation.
struct Timed<'a> {
    latency: &'a Latency,
    by_round: &'a Percentiles,
}

impl<'a> Timed<'a> {
    fn of(result: &'a PhaseResult) -> Option<Timed<'a>> {
        let latency = result.latency_ns.as_ref()?;
        Some(Timed { latency, by_round: &result.latency_by_round })
    }

    fn of_kind(result: &'a PhaseResult, name: &str) -> Option<Timed<'a>> {
        let latency = result.operation_latency_ns.get(name)?;
        Some(Timed { latency, by_round: result.operation_latency_by_round.get(name)? })
    }
}

/// What is the same for all percentiles of a phase of a store.
struct Judge<'a> {
    of: &'a PhaseResult,
    calls: u64,
    floor: f64,
    clock_ns: f64,
    part: f64,
}

impl Judge<'_> {
    fn changes(&self, phase: &str, old: &Timed<'_>, new: &Timed<'_>) -> [LatencyChange; 2] {
        let fewest = old.latency.count.min(new.latency.count) / self.calls;
        let (l, m) = (old.latency, new.latency);
        let (s, t) = (old.by_round, new.by_round);
        let change = |percentile, ns, one_beyond_in, samples: [&[u64]; 2]| {
            let ratio = rate::ratio(samples).map(|ratio| Ratio { floor: self.floor, ..ratio });
            let speed = rate::judged_percentile(ratio.as_ref(), fewest, one_beyond_in, self.part);
            LatencyChange {
                store: self.of.store.clone(),
                phase: phase.to_owned(),
                class: self.of.class.clone(),
                percentile,
                ns,
                behind: [None, None],
                ratio,
                speed: match speed.is_judged() && self.is_of_the_clock(samples) {
                    true => Speed::NoDifference,
                    false => speed,
                },
            }
        };
        [
            change("p50", [l.p50, m.p50], 2, [&s.p50, &t.p50]),
            change("p99", [l.p99, m.p99], 100, [&s.p99, &t.p99]),
        ]
    }

    /// Whether the medians of the rounds differ by no more than a reading of the clock.
    fn is_of_the_clock(&self, samples: [&[u64]; 2]) -> bool {
        let median = |all: &[u64]| {
            stats::median(&all.iter().map(|ns| *ns as f64).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let [old, new] = samples.map(median);
        (old - new).abs() <= self.clock_ns
    }
}
