//! From the samples of all rounds to the figures of the report.

use super::protocol::Sample;
use crate::driver::Changes;
use crate::measure::Latencies;
use crate::report::stats::summarise;
use crate::result::{PhaseResult, StoreInfo};
use crate::workload::{Mix, Phase};

/// All samples, each with its store and round.
#[derive(Default)]
pub(super) struct Samples(Vec<(String, usize, Sample)>);

impl Samples {
    pub(super) fn add(&mut self, store: &str, round: usize, sample: Sample) {
        self.0.push((store.to_owned(), round, sample));
    }

    /// One result for each phase and store that has samples, in this order.
    pub(super) fn results(
        &self,
        phases: &[Phase],
        stores: &[StoreInfo],
        class: &str,
        mix: &Mix,
    ) -> Vec<PhaseResult> {
        let mut results = Vec::new();
        for phase in phases {
            for info in stores {
                let of_store = self.0.iter().filter(|(store, ..)| *store == info.store);
                let mut samples: Vec<(usize, &Sample)> = of_store
                    .filter(|(.., sample)| sample.phase == *phase)
                    .map(|(_, round, sample)| (*round, sample))
                    .collect();
                samples.sort_by_key(|(round, _)| *round);
                results.extend(combined(*phase, info, class, mix, &samples));
            }
        }
        results
    }
}

/// What the rounds of one phase of one store amount to; `None` if there was none.
fn combined(
    phase: Phase,
    info: &StoreInfo,
    class: &str,
    mix: &Mix,
    samples: &[(usize, &Sample)],
) -> Option<PhaseResult> {
    let (_, first) = samples.first()?;
    let all = || samples.iter().map(|(_, sample)| *sample);
    let mut latencies = Latencies::new(0.0);
    all().for_each(|sample| latencies.merge(&sample.latencies));
    let lookups: u64 = all().map(|sample| sample.lookups).sum();
    let found: Option<u64> = all().map(|sample| sample.found).sum();
    let times: Vec<f64> = all().map(|sample| sample.ns_per_op).collect();
    Some(PhaseResult {
        store: info.store.clone(),
        class: match phase {
            Phase::InsertEach => Changes::Buffered.class().to_owned(),
            Phase::Mixed if mix.transactions.is_some() => Changes::Buffered.class().to_owned(),
            _ if phase.is_changing() => info.changes_class.clone()?,
            _ => class.to_owned(),
        },
        phase: phase.name().to_owned(),
        ops: first.ops,
        repeats: first.repeats,
        rounds: samples.len(),
        ns_per_op: summarise(&times),
        latency_ns: latencies.percentiles(),
        hit_rate: found.map(|found| found as f64 / lookups.max(1) as f64),
        file_bytes: all().map(|sample| sample.file_bytes).max().unwrap_or(0),
        peak_rss_bytes: all().map(|sample| sample.peak_rss_bytes).max().unwrap_or(0),
        verified: all().all(|sample| sample.wrong.is_none()),
        native: info.native_get_many || !phase.is_batched(),
        sample_rounds: samples.iter().map(|(round, _)| *round).collect(),
        major_faults: all().map(|sample| sample.major_faults).collect(),
        notes: all().find_map(|sample| sample.wrong.clone()).into_iter().collect(),
    })
}
