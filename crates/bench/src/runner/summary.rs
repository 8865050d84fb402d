//! From the samples of all rounds to the figures of the report.

use super::protocol::Sample;
use crate::driver::Changes;
use crate::measure::Latencies;
use crate::report::stats::summarise;
use crate::result::{Effort, PhaseResult, StoreInfo};
use crate::workload::{Mix, Phase};

/// All samples, each with its store and round.
#[derive(Default)]
pub(super) struct Samples(Vec<(String, usize, Sample)>);

impl Samples {
    pub(super) fn add(&mut self, store: &str, round: usize, sample: Sample) {
        self.0.push((store.to_owned(), round, sample));
    }

    /// One result for each phase and store that has samples, in this order. `record_bytes` are those
    /// of key and value of a record on average.
    pub(super) fn results(
        &self,
        phases: &[Phase],
        stores: &[StoreInfo],
        class: &str,
        mix: &Mix,
        record_bytes: f64,
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
                results.extend(combined(*phase, info, class, mix, &samples, record_bytes));
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
    record_bytes: f64,
) -> Option<PhaseResult> {
    let (_, first) = samples.first()?;
    let all = || samples.iter().map(|(_, sample)| *sample);
    let mut latencies = Latencies::new(0.0);
    all().for_each(|sample| latencies.merge(&sample.latencies));
    let lookups: u64 = all().map(|sample| sample.lookups).sum();
    let found: Option<u64> = all().map(|sample| sample.found).sum();
    let mut effort = Effort::default();
    all().for_each(|sample| effort += sample.effort);
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
        major_faults: all().map(|sample| sample.effort.major_faults).collect(),
        file_length_bytes: all().map(|sample| sample.file_length).max().unwrap_or(0),
        write_amplification: write_amplification(phase, first, &effort, record_bytes),
        effort,
        notes: all().find_map(|sample| sample.wrong.clone()).into_iter().collect(),
    })
}

/// Bytes written for each byte of a record stored, where every operation stores one. What is written
/// to a map is seen by the kernel, and on a disk only: without it the calls must explain the files.
fn write_amplification(
    phase: Phase,
    first: &Sample,
    effort: &Effort,
    record_bytes: f64,
) -> Option<f64> {
    use Phase::{Build, Insert, InsertEach, InsertRandom, Reinsert};
    let stores = matches!(phase, Build | Insert | InsertRandom | InsertEach | Reinsert);
    let files = effort.operations.checked_div(first.ops)?.saturating_mul(first.file_length);
    let by_calls = effort.calls.written_bytes + effort.closing.written_bytes;
    let written = match effort.disk_written_bytes {
        0 => Some(by_calls).filter(|bytes| *bytes >= files)?,
        bytes => bytes.max(by_calls),
    };
    let stored = record_bytes * effort.operations as f64;
    (stores && written > 0 && stored > 0.0).then(|| written as f64 / stored)
}
