//! What several readers at one store did in two saved runs.

use super::Speed;
use crate::report::stats::Ratio;
use crate::result::{Report, TogetherResult};
use serde::Serialize;

/// So many readers of one store, in one phase, in both runs.
#[derive(Debug, Serialize)]
pub struct ThroughputChange {
    /// The store's name.
    pub store: String,
    /// The phase's name.
    pub phase: String,
    /// "processes", or "threads" of one process.
    pub by: String,
    /// How many of them read.
    pub readers: usize,
    /// How many more changed the store meanwhile.
    pub writers: usize,
    /// Lookups in a second of all readers together, before and after.
    pub per_second: [f64; 2],
    /// How many times as many as before, with the ends of its 95 % interval; `None` where answers were
    /// wrong.
    pub ratio: Option<Ratio>,
    /// What may be said of it.
    pub speed: Speed,
}

/// The group of this report that is as the wanted one, on as many processors.
pub(super) fn same_in<'a>(
    report: &'a Report,
    wanted: &TogetherResult,
) -> Option<&'a TogetherResult> {
    fn key(r: &TogetherResult, only_reads: bool) -> (&str, &str, &str, &str, [usize; 3], bool) {
        let counts = [r.readers, r.writers, r.processors];
        // Lookups beside a writer had the class of the run once, and have that of its changes now: the same work.
        let is_any = only_reads || r.writers > 0 && r.syncs_per_change.is_none();
        let class = if is_any { "" } else { &*r.class };
        (&r.store, &r.phase, class, &r.by, counts, r.bound)
    }
    let only_reads = super::only_reads(report, &wanted.phase);
    let wanted = key(wanted, only_reads);
    report.together.iter().find(|result| key(result, only_reads) == wanted)
}

/// What both runs have, in the order of the later one.
pub(super) fn changes(before: &Report, after: &Report, part: f64) -> Vec<ThroughputChange> {
    let both = after.together.iter().filter_map(|new| Some((same_in(before, new)?, new)));
    both.map(|(old, new)| change(old, new, part)).collect()
}

fn change(old: &TogetherResult, new: &TogetherResult, part: f64) -> ThroughputChange {
    // A ratio is of times: what takes half as long is twice as fast.
    let times = |r: &TogetherResult| -> Vec<f64> {
        r.per_second.samples.iter().filter(|rate| **rate > 0.0).map(|rate| 1.0 / rate).collect()
    };
    let are_right = old.verified && new.verified;
    let ratio = Ratio::of_runs(&times(old), &times(new)).filter(|_| are_right);
    ThroughputChange {
        store: new.store.clone(),
        phase: new.phase.clone(),
        by: new.by.clone(),
        readers: new.readers,
        writers: new.writers,
        per_second: [old.per_second.median, new.per_second.median],
        speed: Speed::judged(ratio.as_ref(), old.verified, new.verified, part),
        ratio,
    }
}
