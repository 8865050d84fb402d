//! Phases that read over the time of a run, in a pass of its own in which each operation is timed: once more on
//! the store that was measured, opened anew, so that nothing of it is in any other figure.
//!
//! What a caller gets together is timed together: a batch of lookups, and, as a clock would take longer than a
//! record of it does, a stretch of a scan. Every lookup and every record counts in what a second has; the
//! latency of each is that of all it came with.

use super::child::Round;
use super::passes::{self, Total};
use super::protocol::Sample;
use crate::driver::{Driver, Store};
use crate::measure::timeline::Timeline;
use crate::workload::{Inputs, Phase, Queries, Ranges};
use credenza::Result;

/// Records of a scan that are timed together; as many as a range has.
const STRETCH: u64 = Ranges::RECORDS as u64;

impl<D: Driver> Round<'_, D> {
    /// Adds to what was measured of a phase that reads how it goes over time.
    pub(super) fn with_reads_over_time(&self, phase: Phase, mut sample: Sample) -> Result<Sample> {
        if self.spec.cold {
            self.evict()?;
        }
        let (batch, is_warm) = (self.spec.batch, !self.spec.cold);
        let Inputs { records, queries, ranges, .. } = self.inputs;
        let mut store = self.driver.open(&self.path, &self.shape, self.reading())?;
        self.preload(&mut store)?;
        let mut timeline = Timeline::new(self.spec.clock_ns);
        let (total, expected) = match phase {
            Phase::Range => {
                if is_warm {
                    passes::ranges(&mut store, ranges)?;
                }
                (each_range(&mut store, ranges, &mut timeline)?, Total::of_ranges(ranges, records))
            }
            Phase::Scan => {
                if is_warm {
                    passes::scan(&mut store)?;
                }
                (each_stretch(&mut store, &mut timeline)?, Total::of_all(records))
            }
            _ => {
                let queries = queries.of(phase);
                if is_warm {
                    passes::lookups(phase, &mut store, queries, batch)?;
                }
                let total = each_lookup(phase, &mut store, queries, batch, &mut timeline)?;
                (total, Total::expected(queries, records))
            }
        };
        sample.over_time = timeline.finish();
        sample.wrong = sample.wrong.or_else(|| total.unlike(expected, "over time, it"));
        Ok(sample)
    }
}

/// As [`passes::lookups`].
fn each_lookup<S: Store>(
    phase: Phase,
    store: &mut S,
    queries: &Queries,
    batch: usize,
    timeline: &mut Timeline,
) -> Result<Total> {
    match phase {
        Phase::GetChain => {
            timeline.begin();
            passes::get_chain(store, queries, || _ = timeline.ended("get"))
        }
        _ if phase.is_batched() => each_batch(store, queries, batch, timeline),
        _ => each_get(store, queries, timeline),
    }
}

fn each_get<S: Store>(store: &mut S, queries: &Queries, timeline: &mut Timeline) -> Result<Total> {
    let mut total = Total::default();
    timeline.begin();
    for key in queries.iter() {
        store.get(key, |value| total.add(value))?;
        timeline.ended("get");
    }
    Ok(total)
}

fn each_batch<S: Store>(
    store: &mut S,
    queries: &Queries,
    batch: usize,
    timeline: &mut Timeline,
) -> Result<Total> {
    let mut total = Total::default();
    let keys: Vec<&[u8]> = queries.iter().collect();
    timeline.begin();
    for keys in keys.chunks(batch) {
        store.get_many(keys, |_, value| value.into_iter().for_each(|value| total.add(value)))?;
        timeline.ended_together("get", keys.len() as u64);
    }
    Ok(total)
}

fn each_range<S: Store>(store: &mut S, ranges: &Ranges, timeline: &mut Timeline) -> Result<Total> {
    let mut total = Total::default();
    timeline.begin();
    for from in ranges.starts().iter() {
        store.range(from, Ranges::RECORDS, |_, value| total.add(value))?;
        timeline.ended("range");
    }
    Ok(total)
}

fn each_stretch<S: Store>(store: &mut S, timeline: &mut Timeline) -> Result<Total> {
    let (mut total, mut records) = (Total::default(), 0);
    timeline.begin();
    store.scan(|_, value| {
        // When the next one comes: what a store does at the end of a scan is of the last stretch.
        if records == STRETCH {
            timeline.ended_together("scan", records);
            records = 0;
        }
        total.add(value);
        records += 1;
    })?;
    if records > 0 {
        timeline.ended_together("scan", records);
    }
    Ok(total)
}
