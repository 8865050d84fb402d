//! Latencies of operations at a rate in two saved runs.

use super::Speed;
use crate::report::rate::{self, OpenLoop};
use crate::report::stats::Ratio;
use crate::result::Report;
use serde::Serialize;

/// One percentile of the latencies of one phase of one store, at the same rate in both runs.
#[derive(Debug, Serialize)]
pub struct LatencyChange {
    /// The store's name.
    pub store: String,
    /// The phase's name.
    pub phase: String,
    /// The durability class in both runs.
    pub class: String,
    /// "p50", "p99" or "p99.9".
    pub percentile: &'static str,
    /// Nanoseconds from when an operation was to start to its end, of all rounds together, before and after.
    pub ns: [u64; 2],
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
        Some(of_phase(old, &new, part))
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

fn of_phase(old: &OpenLoop<'_>, of: &OpenLoop<'_>, part: f64) -> [LatencyChange; 3] {
    let (old, new) = (old.at, of.at);
    let (l, m) = (&old.latency_ns, &new.latency_ns);
    let (s, t) = (&old.by_round, &new.by_round);
    let change = |percentile, ns, samples: [&Vec<u64>; 2]| {
        // What took no time that the clock could see took less than one nanosecond.
        let [one, other] =
            samples.map(|all| all.iter().map(|ns| (*ns).max(1) as f64).collect::<Vec<_>>());
        let are_comparable = old.verified && new.verified && old.kept_up && new.kept_up;
        let ratio = Ratio::of_runs(&one, &other).filter(|_| are_comparable);
        LatencyChange {
            store: of.store.to_owned(),
            phase: of.phase.clone(),
            class: of.class.to_owned(),
            percentile,
            ns,
            speed: match (old.kept_up, new.kept_up) {
                _ if !old.verified || !new.verified => {
                    Speed::judged(None, old.verified, new.verified, part)
                }
                (true, false) => Speed::Behind,
                (false, _) => Speed::BehindBefore,
                (true, true) => Speed::judged(ratio.as_ref(), true, true, part),
            },
            ratio,
        }
    };
    [
        change("p50", [l.p50, m.p50], [&s.p50, &t.p50]),
        change("p99", [l.p99, m.p99], [&s.p99, &t.p99]),
        change("p99.9", [l.p999, m.p999], [&s.p999, &t.p999]),
    ]
}
