//! Single lookups and ranges over the time of a run, in a pass of their own in which each is timed: once more
//! on the store that was measured, opened anew, so that nothing of it is in any other figure.
//!
//! What is given in batches, follows from the last value, or is one call for all has no single operations.

use super::child::Round;
use super::passes::{self, Total};
use super::protocol::Sample;
use crate::driver::{Driver, Store};
use crate::measure::timeline::Timeline;
use crate::workload::{Inputs, Phase, Queries, Ranges};
use credenza::Result;

impl<D: Driver> Round<'_, D> {
    /// Adds to what was measured of a phase that reads how it goes over time, where it has single operations.
    pub(super) fn with_reads_over_time(&self, phase: Phase, mut sample: Sample) -> Result<Sample> {
        if !phase.is_single_get() && phase != Phase::Range {
            return Ok(sample);
        }
        if self.spec.cold {
            self.evict()?;
        }
        let Inputs { records, queries, ranges, .. } = self.inputs;
        let mut store = self.driver.open(&self.path, &self.shape, self.reading())?;
        let mut timeline = Timeline::new(self.spec.clock_ns);
        let (total, expected) = if phase == Phase::Range {
            if !self.spec.cold {
                passes::ranges(&mut store, ranges)?;
            }
            (each_range(&mut store, ranges, &mut timeline)?, Total::of_ranges(ranges, records))
        } else {
            let queries = queries.of(phase);
            if !self.spec.cold {
                passes::get(&mut store, queries)?;
            }
            (each_get(&mut store, queries, &mut timeline)?, Total::expected(queries, records))
        };
        sample.over_time = timeline.finish();
        sample.wrong = sample.wrong.or_else(|| total.unlike(expected, "over time, it"));
        Ok(sample)
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

fn each_range<S: Store>(store: &mut S, ranges: &Ranges, timeline: &mut Timeline) -> Result<Total> {
    let mut total = Total::default();
    timeline.begin();
    for from in ranges.starts().iter() {
        store.range(from, Ranges::RECORDS, |_, value| total.add(value))?;
        timeline.ended("range");
    }
    Ok(total)
}
