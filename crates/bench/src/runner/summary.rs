//! From the samples of all rounds to the figures of the report.

use super::mixed::{StepLatencies, merged};
use super::protocol::Sample;
use super::together::{By, Group, Throughput};
use crate::driver::Changes;
use crate::measure::Latencies;
use crate::report::stats::{self, Ratio, summarise};
use crate::result::{
    AtRate, Effort, Latency, Noise, OwnCost, Percentiles, PhaseNoise, PhaseResult, Scaling,
    StoreInfo, TogetherResult,
};
use crate::runner::open_loop::{self, Rate};
use crate::workload::{Action, Mixes, Phase};
use std::collections::{BTreeMap, BTreeSet};

/// All samples, each with its store and round.
#[derive(Default)]
pub(super) struct Samples(Vec<(String, usize, Sample)>);

impl Samples {
    pub(super) fn add(&mut self, store: &str, round: usize, sample: Sample) {
        self.0.push((store.to_owned(), round, sample));
    }

    /// The operations of a phase of a store, as its first sample has them.
    pub(super) fn operations(&self, store: &str, phase: Phase) -> Option<usize> {
        let is_wanted =
            |(of, _, sample): &&(String, usize, Sample)| of == store && sample.phase == phase;
        self.0.iter().find(is_wanted).and_then(|(.., sample)| usize::try_from(sample.ops).ok())
    }

    /// One result for each phase and store that has samples, in this order. `record_bytes` are those
    /// of key and value of a record on average.
    pub(super) fn results(
        &self,
        phases: &[Phase],
        stores: &[StoreInfo],
        class: &str,
        mixes: &Mixes,
        record_bytes: f64,
        rate: Option<&Rate>,
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
                results.extend(combined(*phase, info, class, mixes, &samples, record_bytes, rate));
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
    mixes: &Mixes,
    samples: &[(usize, &Sample)],
    record_bytes: f64,
    rate: Option<&Rate>,
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
    let asked = |sample: &Sample| Some(sample.own_counters.clone()).filter(|all| !all.is_empty());
    let in_transactions = mixes.of(phase).is_some_and(|mix| mix.transactions.is_some());
    let result = PhaseResult {
        store: info.store.clone(),
        class: match phase {
            _ if info.is_server => info.class.clone(),
            // Nothing that could be lost: as lookups, of stores that are built once, too.
            _ if mixes.only_reads(phase) => class.to_owned(),
            _ if mixes.is_synced(phase) => Changes::Sync.class().to_owned(),
            Phase::InsertEach => info.commits_class.clone(),
            _ if in_transactions => info.commits_class.clone(),
            _ if phase.is_changing() => info.changes_class.clone()?,
            _ => class.to_owned(),
        },
        phase: phase.name().to_owned(),
        ops: first.ops,
        repeats: first.repeats,
        rounds: samples.len(),
        ns_per_op: summarise(&times),
        latency_ns: latencies.percentiles(),
        operation_latency_ns: percentiles(all().map(|sample| &sample.operation_latencies)),
        latency_by_round: by_round(all().map(|sample| &sample.latencies)),
        operation_latency_by_round: kinds_by_round(all().map(|sample| &sample.operation_latencies)),
        at_rate: rate.and_then(|rate| at_rate(rate, all().filter_map(|s| s.at_rate.as_ref()))),
        over_time: all().find_map(|sample| sample.over_time.clone()),
        hit_rate: found.map(|found| found as f64 / lookups.max(1) as f64),
        file_bytes: all().map(|sample| sample.file_bytes).max().unwrap_or(0),
        peak_rss_bytes: all().map(|sample| sample.peak_rss_bytes).max().unwrap_or(0),
        verified: all().all(|sample| sample.wrong.is_none()),
        native: is_native(info, phase, mixes, info.native_get_many),
        sample_rounds: samples.iter().map(|(round, _)| *round).collect(),
        major_faults: all().map(|sample| sample.effort.major_faults).collect(),
        file_length_bytes: all().map(|sample| sample.file_length).max().unwrap_or(0),
        write_amplification: write_amplification(phase, first, &effort, record_bytes)
            .filter(|_| !info.is_server),
        syncs_per_commit: None,
        written_bytes_per_commit: None,
        effort,
        own_counters: all().find_map(asked).unwrap_or_default(),
        notes: all().find_map(|sample| sample.wrong.clone()).into_iter().collect(),
    };
    let in_transactions = in_transactions || phase == Phase::InsertEach;
    Some(with_commits(result, in_transactions, info.is_server))
}

/// The same with what there was for a commit. A change that is in no transaction is one in two classes: in the
/// others nothing is committed before the store is closed, or ever.
fn with_commits(mut result: PhaseResult, in_transactions: bool, is_server: bool) -> PhaseResult {
    let by_itself = [Changes::Buffered, Changes::Sync].map(Changes::class);
    let effort = &mut result.effort;
    if !in_transactions && !by_itself.contains(&&*result.class) {
        effort.commits = 0;
    }
    let of_commit = |count| effort.of_one_commit(count).filter(|_| !is_server);
    result.syncs_per_commit = of_commit(effort.calls.syncs());
    result.written_bytes_per_commit = of_commit(effort.calls.written_bytes);
    result
}

/// The percentiles of each kind of operation, of all rounds together.
fn percentiles<'a>(rounds: impl Iterator<Item = &'a StepLatencies>) -> BTreeMap<String, Latency> {
    let of_kind = |(name, of): (&str, Latencies)| Some((name.to_owned(), of.percentiles()?));
    merged(rounds).into_iter().filter_map(of_kind).collect()
}

/// The percentiles of each round that timed something.
fn by_round<'a>(rounds: impl Iterator<Item = &'a Vec<(u64, u64)>>) -> Percentiles {
    let mut all = Percentiles::default();
    for counts in rounds {
        let mut own = Latencies::new(0.0);
        own.merge(counts);
        if let Some(Latency { p50, p99, p999, .. }) = own.percentiles() {
            all.p50.push(p50);
            all.p99.push(p99);
            all.p999.push(p999);
        }
    }
    all
}

/// The same of each kind of operation.
fn kinds_by_round<'a>(
    rounds: impl Iterator<Item = &'a StepLatencies> + Clone,
) -> BTreeMap<String, Percentiles> {
    let names: BTreeSet<&String> = rounds.clone().flat_map(BTreeMap::keys).collect();
    let of = |name: &String| by_round(rounds.clone().filter_map(|round| round.get(name)));
    names.into_iter().map(|name| (name.clone(), of(name))).collect()
}

/// What the rounds at a rate amount to; `None` if there was none.
fn at_rate<'a>(
    rate: &Rate,
    rounds: impl Iterator<Item = &'a open_loop::AtRate> + Clone,
) -> Option<AtRate> {
    let all = || rounds.clone();
    let mut latencies = Latencies::new(0.0);
    all().for_each(|round| latencies.merge(&round.latencies));
    Some(AtRate {
        per_second: rate.per_second,
        arrivals: rate.arrivals.name().to_owned(),
        ops: all().map(|round| round.ops).sum(),
        reached: summarise(&all().map(|round| round.per_second()).collect::<Vec<_>>()),
        kept_up: all().all(|round| round.kept_up()),
        rounds_behind: Some(all().filter(|round| !round.kept_up()).count()),
        latency_ns: latencies.percentiles()?,
        by_round: by_round(all().map(|round| &round.latencies)),
        operation_latency_ns: percentiles(all().map(|round| &round.operation_latencies)),
        over_time: all().find_map(|round| round.over_time.clone()),
        verified: all().all(|round| round.wrong.is_none()),
    })
}

/// Bytes written for each byte of a record stored, where every operation stores one. What is written to a map is seen by
/// the kernel, on a disk only, and not of pages that wait for it already: unless what is seen explains the files, nobody knows.
fn write_amplification(
    phase: Phase,
    first: &Sample,
    effort: &Effort,
    record_bytes: f64,
) -> Option<f64> {
    use Phase::{Build, Insert, InsertEach, InsertRandom, InsertSync, Reinsert};
    let stores =
        matches!(phase, Build | Insert | InsertRandom | InsertEach | InsertSync | Reinsert);
    let files = effort.operations.checked_div(first.ops)?.saturating_mul(first.file_length);
    let by_calls = effort.calls.written_bytes + effort.closing.written_bytes;
    let written = by_calls.max(effort.disk_written_bytes + effort.closing_disk_written_bytes);
    let stored = record_bytes * effort.operations as f64;
    let is_known = stores && written > 0 && written >= files && stored > 0.0;
    is_known.then(|| written as f64 / stored)
}

/// What several readers, or those that commit or do a mix, did at once, each with its store and round.
#[derive(Default)]
pub(super) struct Shared(Vec<(String, usize, Throughput)>);

impl Shared {
    pub(super) fn add(&mut self, store: &str, round: usize, measured: Throughput) {
        self.0.push((store.to_owned(), round, measured));
    }

    /// One result for each phase, store, writer or none, processes or threads, and number of readers, in
    /// this order.
    pub(super) fn results(
        &self,
        phases: &[Phase],
        stores: &[StoreInfo],
        class: &str,
        mixes: &Mixes,
        is_bound: bool,
        rate: Option<&Rate>,
    ) -> Vec<TogetherResult> {
        let mut results = Vec::new();
        for phase in phases {
            for info in stores {
                for (with_writer, by) in GROUPS {
                    let of = |(store, _, t): &&(String, usize, Throughput)| {
                        let group = &t.group;
                        *store == info.store
                            && (group.phase, group.with_writer, group.by)
                                == (*phase, with_writer, by)
                    };
                    let all: Vec<(usize, &Throughput)> =
                        self.0.iter().filter(of).map(|(_, round, t)| (*round, t)).collect();
                    let mut counts: Vec<usize> = all.iter().map(|(_, t)| t.group.readers).collect();
                    counts.sort_unstable();
                    counts.dedup();
                    for count in counts {
                        let result = of_count(info, class, mixes, is_bound, count, &all);
                        results.extend(result.map(|r| TogetherResult {
                            at_rate: rate.and_then(|rate| at_rate(rate, at_rate_of(&all, count))),
                            ..r
                        }));
                    }
                }
            }
        }
        results
    }
}

const GROUPS: [(bool, By); 4] =
    [(false, By::Processes), (false, By::Threads), (true, By::Processes), (true, By::Threads)];

/// What so many readers gave at a rate, round by round.
fn at_rate_of<'a>(
    all: &'a [(usize, &'a Throughput)],
    count: usize,
) -> impl Iterator<Item = &'a open_loop::AtRate> + Clone {
    let own = all.iter().filter(move |(_, t)| t.group.readers == count);
    own.filter_map(|(_, t)| t.at_rate.as_ref())
}

/// What the rounds with so many readers amount to; `all` has those with other numbers of them, too.
fn of_count(
    info: &StoreInfo,
    class: &str,
    mixes: &Mixes,
    bound: bool,
    count: usize,
    all: &[(usize, &Throughput)],
) -> Option<TogetherResult> {
    let with = |count: usize| {
        let mut of: Vec<_> =
            all.iter().filter(|(_, t)| t.group.readers == count).copied().collect();
        of.sort_by_key(|(round, _)| *round);
        of
    };
    let (own, one) = (with(count), with(1));
    let (_, first) = own.first()?;
    let is_right = |of: &[(usize, &Throughput)]| of.iter().all(|(_, t)| t.wrong.is_none());
    let in_round = |round: usize| one.iter().find(|(other, _)| *other == round);
    // A ratio is of times: what takes half as long is twice as fast.
    let pairs: Vec<(f64, f64)> = own
        .iter()
        .filter_map(|(round, t)| Some((1.0 / t.per_second, 1.0 / in_round(*round)?.1.per_second)))
        .collect();
    let ratio = Ratio::of_pairs(&pairs).filter(|_| count > 1 && is_right(&own) && is_right(&one));
    let sum = |of: fn(&Throughput) -> u64| own.iter().map(|(_, t)| of(t)).sum::<u64>();
    let rates: Vec<f64> = own.iter().map(|(_, t)| t.per_second).collect();
    let writes: Vec<f64> = own.iter().filter_map(|(_, t)| t.writes_per_second).collect();
    let is_batch_native = match first.group.by {
        By::Processes => info.native_get_many,
        By::Threads => info.native_get_many_by_threads,
    };
    Some(TogetherResult {
        store: info.store.clone(),
        class: match first.group.phase {
            _ if info.is_server => info.class.clone(),
            phase if mixes.only_reads(phase) => class.to_owned(),
            phase if mixes.is_synced(phase) => Changes::Sync.class().to_owned(),
            // What the writer beside them changes, nobody syncs.
            phase if phase.is_mixed() || first.group.with_writer => info.commits_class.clone(),
            _ => class.to_owned(),
        },
        phase: first.group.phase.name().to_owned(),
        by: first.group.by.name().to_owned(),
        readers: count,
        writers: usize::from(first.group.with_writer),
        processors: first.processors,
        bound,
        ops: sum(|t| t.ops),
        rounds: own.len(),
        per_second: summarise(&rates),
        sample_rounds: own.iter().map(|(round, _)| *round).collect(),
        to_one: ratio.map(|r| Scaling {
            median: r.median,
            low: r.low,
            high: r.high,
            pairs: r.pairs,
        }),
        writes_per_second: first.group.with_writer.then(|| summarise(&writes)),
        syncs_per_change: first
            .syncs
            .map(|_| sum(|t| t.syncs.unwrap_or(0)) as f64 / sum(|t| t.commits).max(1) as f64),
        hit_rate: sum(|t| t.found) as f64 / sum(|t| t.lookups).max(1) as f64,
        operation_latency_ns: percentiles(own.iter().map(|(_, t)| &t.operation_latencies)),
        at_rate: None,
        verified: is_right(&own),
        native: is_native(info, first.group.phase, mixes, is_batch_native),
        notes: own.iter().find_map(|(_, t)| t.wrong.clone()).into_iter().collect(),
    })
}

/// Whether what is measured are the store's own calls: for batches where these are, for removals where none has a
/// lookup before it.
fn is_native(info: &StoreInfo, phase: Phase, mixes: &Mixes, is_batch_native: bool) -> bool {
    let removes =
        phase == Phase::Remove || mixes.of(phase).is_some_and(|mix| mix.does(Action::Remove));
    match phase {
        _ if phase.is_batched() => is_batch_native,
        _ => !(removes && info.looks_up_to_remove),
    }
}

/// What the workbench itself takes, each time that it was measured.
#[derive(Default)]
pub(super) struct OwnCosts(Vec<OwnCost>);

impl OwnCosts {
    pub(super) fn add(&mut self, cost: OwnCost) {
        let key = |cost: &OwnCost| (cost.phase.clone(), cost.readers, cost.by.clone());
        match self.0.iter_mut().find(|known| key(known) == key(&cost)) {
            Some(known) => known.samples.extend(cost.samples),
            None => self.0.push(cost),
        }
    }

    /// The median of each, as one figure that another program disturbed would pass for the workbench's own.
    pub(super) fn results(self) -> Vec<OwnCost> {
        let result = |cost: OwnCost| {
            let median = stats::median(&cost.samples).unwrap_or(cost.ns_per_op);
            OwnCost {
                ns_per_op: median,
                lowest_ns_per_op: cost.samples.iter().copied().reduce(f64::min),
                ns_per_record: cost.records_per_op.map(|records| median / records),
                ..cost
            }
        };
        self.0.into_iter().map(result).collect()
    }
}

/// What a phase of the store that does nothing says of the workbench, once.
pub(super) fn own_cost(sample: &Sample) -> OwnCost {
    let of_one = sample.taken as f64 / sample.ops.max(1) as f64;
    let records_per_op = Some(of_one).filter(|records| *records > 1.0);
    let phase = sample.phase.name().to_owned();
    OwnCost { records_per_op, ..own_cost_of(phase, sample.ns_per_op) }
}

/// The same of what several did at once, each of their processors.
pub(super) fn own_cost_together(measured: &Throughput) -> OwnCost {
    let Group { phase, by, readers, .. } = measured.group;
    let ns = 1e9 * measured.processors as f64 / measured.per_second.max(1e-9);
    let (readers, by) = (Some(readers), Some(by.name().to_owned()));
    OwnCost { readers, by, ..own_cost_of(phase.name().to_owned(), ns) }
}

fn own_cost_of(phase: String, ns_per_op: f64) -> OwnCost {
    OwnCost {
        phase,
        readers: None,
        by: None,
        ns_per_op,
        lowest_ns_per_op: None,
        samples: vec![ns_per_op],
        records_per_op: None,
        ns_per_record: None,
    }
}

/// What the figures of stores and those of the same stores again say of chance; `None` without the latter.
pub(super) fn noise(results: &[PhaseResult], again: &[PhaseResult]) -> Option<Noise> {
    let phase = |other: &PhaseResult| {
        let own = results.iter().find(|r| (&r.store, &r.phase) == (&other.store, &other.phase))?;
        let Ratio { median, low, high, .. } = stats::speed_ratio(other, own)?;
        Some(PhaseNoise {
            phase: other.phase.clone(),
            store: other.store.clone(),
            median,
            low,
            high,
            floor: high.max(1.0 / low),
        })
    };
    let store = again.first()?.store.clone();
    Some(Noise { store, phases: again.iter().filter_map(phase).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Calls;

    /// 100 records of 10 bytes in files of 2,000 bytes.
    fn amplification(effort: Effort) -> Option<f64> {
        let first = Sample { file_length: 2000, ..Sample::new(Phase::Insert, 100) };
        write_amplification(Phase::Insert, &first, &Effort { operations: 100, ..effort }, 10.0)
    }

    #[test]
    fn what_is_written_when_a_store_is_closed_counts() {
        let effort = Effort { disk_written_bytes: 500, ..Effort::default() };
        assert_eq!(amplification(effort), None, "a quarter of the file was seen");
        let effort = Effort { closing_disk_written_bytes: 2500, ..effort };
        assert_eq!(amplification(effort), Some(3.0));
        let calls = Calls { written_bytes: 4000, ..Calls::default() };
        assert_eq!(amplification(Effort { closing: calls, ..effort }), Some(4.0));
        let calls = Calls { written_bytes: 1999, ..Calls::default() };
        assert_eq!(amplification(Effort { calls, ..Effort::default() }), None);
    }
}
