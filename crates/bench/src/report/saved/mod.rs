//! Two saved runs against each other: what has become slower or larger since.
//!
//! Runs are compared store by store, phase by phase, within one durability class; what several readers
//! did, also by how many they were, of which kind, and on how many processors; latencies, where both
//! runs had the same rate. Two runs are
//! *unlike* when their figures were not to be equal anyway: other data, other work, another
//! machine. Then nothing is compared unless the reader insists; [`Changes::unlike`] says why.
//!
//! A figure *regressed* when its whole interval shows it slower and its median is slower by more than the
//! threshold; when its file is larger by more than that, or more was written for each byte; when it took more
//! memory by a tenth and a mebibyte; when it syncs half as often for a commit that it brings to the disk; when its
//! answers were right and are not any more; when most rounds kept to a rate's schedule and do not any more; or
//! when the later run was to give it, and has not (`lost`). What is one fact counts once: a store that is behind
//! its schedule has no percentiles to judge besides.

mod closed;
mod growth;
mod lost;
mod print;
mod rate;
#[cfg(test)]
mod tests;
mod together;

pub use growth::GrowthChanges;
pub use print::print;
pub use rate::LatencyChange;
pub use together::ThroughputChange;

use super::stats::{self, Ratio, Verdict};
use super::{text, work};
use crate::driver;
use crate::machine::about_program;
use crate::result::{Machine, PhaseResult, Report, Settings, StoreInfo};
use crate::workload::{Action, Phase};
use credenza::{Error, Result};
use serde::Serialize;
use std::fmt::Debug;

/// Load average above which other programs were at work.
const BUSY: f64 = 0.5;
/// The part by which memory may grow whatever the threshold: it is the most of all rounds, and has whole pages in it.
const MEMORY: f64 = 0.1;
/// And how much that must be, as what a process takes by itself is not the same every time.
const MEBIBYTE: u64 = 1 << 20;

/// What two runs say of each other.
#[derive(Debug, Serialize)]
pub struct Changes {
    /// The version of the contract of these fields: 1.
    pub credenza_bench_compare: u32,
    /// Why the figures are not to be compared, each as a sentence; empty when they are.
    pub unlike: Vec<String>,
    /// What else is not the same, or must be known before quoting a figure.
    pub notes: Vec<String>,
    /// By how many percent a figure may be worse.
    pub threshold_percent: f64,
    /// The figures of both runs, in the order of the later one.
    pub changes: Vec<Change>,
    /// The same of several readers at one store.
    pub together: Vec<ThroughputChange>,
    /// The same of latencies of single operations, of which each begins when the one before has ended.
    pub latencies: Vec<LatencyChange>,
    /// The same of latencies at a rate.
    pub at_rate: Vec<LatencyChange>,
    /// The same of each number of records but the largest, which all of the above is about.
    pub growth: Vec<GrowthChanges>,
    /// The figures of the earlier run that the later one was to give, and has not, each as a sentence.
    pub lost: Vec<String>,
    /// The figures of the earlier run that the later one was not asked for, each with the reason.
    pub left_out: Vec<String>,
    /// How many of `changes`, `together`, `latencies`, `at_rate`, `growth` and `lost` are regressions.
    pub regressions: usize,
}

impl Changes {
    /// What is said of each time of both runs.
    pub(crate) fn speeds(&self) -> impl Iterator<Item = Speed> + '_ {
        let alone = self.growth.iter().flat_map(|of| &of.changes).chain(&self.changes);
        let at_rate = self.growth.iter().flat_map(|of| &of.at_rate).chain(&self.at_rate);
        alone
            .map(|change| change.speed)
            .chain(self.together.iter().map(|change| change.speed))
            .chain(at_rate.map(|change| change.speed))
    }

    /// Whether there was enough to judge any time by.
    pub(crate) fn is_judged(&self) -> bool {
        self.speeds().any(Speed::is_judged)
    }
}

/// One phase of one store in both runs.
#[derive(Debug, Serialize)]
pub struct Change {
    /// The store's name.
    pub store: String,
    /// The phase's name.
    pub phase: String,
    /// The durability class in both runs.
    pub class: String,
    /// Median nanoseconds of one operation, before and after.
    pub ns_per_op: [f64; 2],
    /// How many times as fast as before, with the ends of its 95 % interval; `None` where answers
    /// were wrong: they have no speed.
    pub ratio: Option<Ratio>,
    /// What the store's files take, before and after, in bytes.
    pub file_bytes: [u64; 2],
    /// What may be said of the speed.
    pub speed: Speed,
    /// Whether the file is larger by more than the threshold.
    pub larger: bool,
    /// The most memory that it took, before and after, in bytes.
    pub peak_rss_bytes: [u64; 2],
    /// Whether that is more by more than a tenth (or the threshold, where that is more) and a mebibyte.
    pub more_memory: bool,
    /// Bytes written for each byte that was stored, before and after.
    pub write_amplification: [Option<f64>; 2],
    /// Whether that is more by more than the threshold.
    pub more_written: bool,
    /// Calls that bring something to the disk, for a commit, before and after.
    pub syncs_per_commit: [Option<f64>; 2],
    /// Whether these are less than half of what they were where each change was to be on the disk: who does not
    /// wait for it is not faster.
    pub fewer_syncs: bool,
}

/// What may be said of the speed of one phase of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    /// Slower by more than the threshold.
    Regressed,
    /// Slower, and within the threshold.
    Slower,
    /// The interval spans 1, or the ratio lies within the noise floor.
    NoDifference,
    /// The whole interval is above 1, and the ratio above the noise floor.
    Faster,
    /// Fewer than three rounds in either run: nothing to judge by.
    TooFewRounds,
    /// The answers were right before, and are not any more.
    WrongAnswers,
    /// The answers were wrong before: there is no speed to compare with.
    WrongBefore,
    /// Too few operations beyond a percentile in either run: it is that of a handful.
    TooFewOperations,
    /// At a rate: more than half of the rounds more than before did not keep to their schedule.
    Behind,
    /// At a rate: most rounds of either run did not keep to their schedule, and had no latency of their own;
    /// of the later run not so many more than of the earlier.
    BehindBefore,
}

impl Speed {
    /// Whether it is worse by more than the threshold.
    pub fn regressed(self) -> bool {
        matches!(self, Speed::Regressed | Speed::WrongAnswers | Speed::Behind)
    }

    /// Whether there was enough to judge by.
    fn is_judged(self) -> bool {
        matches!(self, Speed::Regressed | Speed::Slower | Speed::NoDifference | Speed::Faster)
    }

    /// What is said of two medians in relation, `part` being the threshold.
    fn judged(ratio: Option<&Ratio>, were_right: bool, are_right: bool, part: f64) -> Speed {
        match ratio.map(|ratio| (ratio.verdict(), ratio.median)) {
            _ if !were_right => Speed::WrongBefore,
            _ if !are_right => Speed::WrongAnswers,
            None | Some((Verdict::TooFewRounds, _)) => Speed::TooFewRounds,
            Some((Verdict::Faster, _)) => Speed::Faster,
            Some((Verdict::NoDifference, _)) => Speed::NoDifference,
            Some((Verdict::Slower, median)) if 1.0 / median > 1.0 + part => Speed::Regressed,
            Some((Verdict::Slower, _)) => Speed::Slower,
        }
    }
}

impl Change {
    /// Whether anything of it is worse by more than the threshold.
    pub fn regressed(&self) -> bool {
        self.has_grown() || self.speed.regressed()
    }

    /// Whether it is worse by anything but its speed.
    fn has_grown(&self) -> bool {
        self.larger || self.more_memory || self.more_written || self.fewer_syncs
    }
}

/// Compares two runs.
///
/// # Errors
/// The threshold is not a number from 0 on, or the runs have no figure in common.
pub fn compare(before: &Report, after: &Report, threshold_percent: f64) -> Result<Changes> {
    if !threshold_percent.is_finite() || threshold_percent < 0.0 {
        return Err(Error::invalid("--threshold is a percentage: a number from 0 on"));
    }
    let part = threshold_percent / 100.0;
    let changes = figures(before, after, part);
    let together = together::changes(before, after, part);
    let latencies = closed::changes(before, after, part);
    let at_rate = rate::changes(before, after, part);
    let (growth, of_growth) = growth::changes(before, after, part);
    let lost::Missing { mut lost, mut left_out } = lost::missing(before, after);
    lost.extend(of_growth.lost);
    left_out.extend(of_growth.left_out);
    let has_failed = |old: &PhaseResult| lost::failure(after, &old.store, &old.phase).is_some();
    if changes.is_empty() && together.is_empty() && !before.results.iter().any(has_failed) {
        return Err(Error::invalid(
            "the two runs have no store and phase of one durability class in common: name runs of \
             the same --stores and --phases",
        ));
    }
    let regressions = changes.iter().filter(|change| change.regressed()).count()
        + together.iter().filter(|change| change.speed.regressed()).count()
        + latencies.iter().chain(&at_rate).filter(|change| change.speed.regressed()).count()
        + growth.iter().map(GrowthChanges::regressions).sum::<usize>()
        + lost.len();
    Ok(Changes {
        credenza_bench_compare: 1,
        unlike: unlike(before, after),
        notes: notes(before, after),
        threshold_percent,
        changes,
        together,
        latencies,
        at_rate,
        growth,
        lost,
        left_out,
        regressions,
    })
}

/// The figures of both runs, in the order of the later one.
fn figures(before: &Report, after: &Report, part: f64) -> Vec<Change> {
    let both = after.results.iter().filter_map(|new| Some((same_in(before, new)?, new)));
    both.map(|(old, new)| change(before, after, old, new, part)).collect()
}

/// The figure of this report that has the same store, phase and class.
fn same_in<'a>(report: &'a Report, wanted: &PhaseResult) -> Option<&'a PhaseResult> {
    let is_of_phase = |r: &&PhaseResult| (&r.store, &r.phase) == (&wanted.store, &wanted.phase);
    let mut of_phase = report.results.iter().filter(is_of_phase);
    match only_reads(report, &wanted.phase) {
        true => of_phase.next(),
        false => of_phase.find(|result| result.class == wanted.class),
    }
}

/// Whether this phase does a mix that changes nothing. Such had the class of a store's changes once, and have that
/// of the run now: the same work.
fn only_reads(report: &Report, phase: &str) -> bool {
    let does = |action: &Action| report.settings.mix.contains(&format!("{} ", action.name()));
    phase.starts_with("mixed") && !Action::ALL.iter().any(|action| action.changes() && does(action))
}

fn change(
    before: &Report,
    after: &Report,
    old: &PhaseResult,
    new: &PhaseResult,
    part: f64,
) -> Change {
    let are_right = old.verified && new.verified;
    let ratio = Ratio::of_runs(&old.ns_per_op.samples, &new.ns_per_op.samples);
    let floor = [before, after].map(|report| report.noise_floor(&new.phase));
    let ratio =
        ratio.filter(|_| are_right).map(|ratio| Ratio { floor: floor[0].max(floor[1]), ..ratio });
    let speed = Speed::judged(ratio.as_ref(), old.verified, new.verified, part);
    Change {
        store: new.store.clone(),
        phase: new.phase.clone(),
        class: new.class.clone(),
        ns_per_op: [old.ns_per_op.median, new.ns_per_op.median],
        ratio,
        file_bytes: [old.file_bytes, new.file_bytes],
        speed,
        larger: is_more(old.file_bytes as f64, new.file_bytes as f64, part),
        peak_rss_bytes: [old.peak_rss_bytes, new.peak_rss_bytes],
        more_memory: is_more(
            old.peak_rss_bytes as f64,
            new.peak_rss_bytes as f64,
            part.max(MEMORY),
        ) && new.peak_rss_bytes - old.peak_rss_bytes > MEBIBYTE,
        write_amplification: [old.write_amplification, new.write_amplification],
        more_written: old
            .write_amplification
            .zip(new.write_amplification)
            .is_some_and(|(old, new)| is_more(old, new, part)),
        syncs_per_commit: [old.syncs_per_commit, new.syncs_per_commit],
        fewer_syncs: new.class == driver::Changes::Sync.class()
            && old
                .syncs_per_commit
                .zip(new.syncs_per_commit)
                .is_some_and(|(old, new)| new < old / 2.0),
    }
}

/// Whether something is more by more than this part; what was not known before is not.
fn is_more(old: f64, new: f64, part: f64) -> bool {
    old > 0.0 && new > old * (1.0 + part)
}

/// Adds a sentence if the two are not the same.
fn differ<T: PartialEq + Debug>(says: &mut Vec<String>, what: &str, before: &T, after: &T) {
    if before != after {
        let said = |value: &T| format!("{value:?}").replace('"', "'");
        says.push(format!("{what}: {} before, {} after", said(before), said(after)));
    }
}

fn unlike(before: &Report, after: &Report) -> Vec<String> {
    let mut says = Vec::new();
    let (old, new): (&Settings, &Settings) = (&before.settings, &after.settings);
    differ(&mut says, "workload", &old.workload, &new.workload);
    differ(&mut says, "data", &old.data, &new.data);
    differ(&mut says, "records", &old.records, &new.records);
    differ(&mut says, "type of keys", &old.key_type, &new.key_type);
    differ(&mut says, "type of values", &old.value_type, &new.value_type);
    differ(&mut says, "bytes of keys", &old.key_bytes, &new.key_bytes);
    differ(&mut says, "bytes of values", &old.value_bytes, &new.value_bytes);
    growth::unlike(before, after, &mut says);
    differ(&mut says, "lookups in a phase", &old.gets, &new.gets);
    differ(&mut says, "keys in a batch", &old.batch, &new.batch);
    differ(&mut says, "distribution of keys", &old.distribution, &new.distribution);
    let orders = [old, new].map(work::insert_order);
    differ(&mut says, "order of inserts", &orders[0], &orders[1]);
    if after.results.iter().any(|result| is_of_a_mix(result) && same_in(before, result).is_some()) {
        differ(&mut says, "operations of the mix", &old.mix, &new.mix);
    }
    differ(&mut says, "seed", &old.seed, &new.seed);
    differ(&mut says, "cold cache", &old.cold, &new.cold);
    differ(&mut says, "read-ahead when cold", &old.read_ahead, &new.read_ahead);
    differ(&mut says, "memory limit", &old.memory_limit, &new.memory_limit);
    differ(&mut says, "synced (--sync)", &old.sync, &new.sync);
    differ(&mut says, "bound to a processor", &old.cpu.is_some(), &new.cpu.is_some());
    let (old, new): (&Machine, &Machine) = (&before.machine, &after.machine);
    differ(&mut says, "processor", &old.cpu, &new.cpu);
    differ(&mut says, "cores", &old.cores, &new.cores);
    differ(&mut says, "filesystem", &old.filesystem, &new.filesystem);
    let pages = [old, new].map(|machine| &machine.transparent_huge_pages);
    differ(&mut says, "huge pages", pages[0], pages[1]);
    // What the kernel keeps for itself changes with every boot.
    let [least, most] =
        [old.memory_bytes.min(new.memory_bytes), old.memory_bytes.max(new.memory_bytes)];
    if most as f64 > least as f64 * 1.05 {
        let said = [old, new].map(|machine| text::binary_bytes(machine.memory_bytes));
        differ(&mut says, "memory", &said[0], &said[1]);
    }
    says
}

fn is_of_a_mix(result: &PhaseResult) -> bool {
    Phase::named(&result.phase).is_some_and(Phase::is_mixed)
}

fn notes(before: &Report, after: &Report) -> Vec<String> {
    let mut says = Vec::new();
    let machines = [&before.machine, &after.machine];
    differ(&mut says, "rate", &before.settings.rate, &after.settings.rate);
    let stores = [before, after].map(|report| match &report.settings.opened {
        Some(folder) => format!("opened from {folder}"),
        None => "built".to_owned(),
    });
    differ(&mut says, "stores", &stores[0], &stores[1]);
    differ(&mut says, "--set", &before.settings.stores, &after.settings.stores);
    differ(&mut says, "kernel", &machines[0].kernel, &machines[1].kernel);
    differ(&mut says, "governor", &machines[0].governor, &machines[1].governor);
    differ(&mut says, "system", &machines[0].os, &machines[1].os);
    for (machine, when) in machines.into_iter().zip(["earlier", "later"]) {
        if about_program(machine).is_some() {
            says.push(format!("the program of the {when} run was built without optimisation"));
        }
        let load = machine.load_average[0];
        if load > BUSY {
            says.push(format!("other programs ran beside the {when} run (load average {load:.1})"));
        }
    }
    for info in &after.stores {
        let Some(old) = before.stores.iter().find(|old| old.store == info.store) else { continue };
        let mut of_store = Vec::new();
        differ(&mut of_store, "version", &old.version, &info.version);
        differ(&mut of_store, "settings", &old.tuning, &info.tuning);
        says.extend(of_store.iter().map(|what| format!("{}, {what}", info.store)));
    }
    says.extend(only_later(before, after));
    says.extend(growth::only_later(before, after));
    says.extend(drift(before, after));
    says
}

/// The figures that only the later run has.
fn only_later(before: &Report, after: &Report) -> Option<String> {
    let missing = after.results.iter().filter(|result| same_in(before, result).is_none());
    let names: Vec<String> =
        missing.map(|r| format!("{} {} ({})", r.store, r.phase, r.class)).collect();
    let more = names.len().saturating_sub(8);
    let first = names[..names.len() - more].join(", ");
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("only in the later run: {first}{rest}"))
}

/// Libraries that did not change are the witnesses of the machine: how much they all have changed.
fn drift(before: &Report, after: &Report) -> Option<String> {
    let is_same = |new: &&PhaseResult| {
        let of = |report: &'_ Report| -> Option<(String, String)> {
            let named = |info: &&StoreInfo| info.store == new.store && info.library.is_some();
            report.stores.iter().find(named).map(|info| (info.version.clone(), info.tuning.clone()))
        };
        of(before).is_some_and(|old| Some(old) == of(after))
    };
    let ratio = |new: &PhaseResult| {
        let old = same_in(before, new)?.ns_per_op.median;
        let new = new.ns_per_op.median;
        (old > 0.0 && new > 0.0).then(|| old / new)
    };
    let ratios: Vec<f64> = after.results.iter().filter(is_same).filter_map(ratio).collect();
    let median = stats::median(&ratios)?;
    (!(0.95..=1.05).contains(&median)).then(|| {
        format!(
            "libraries that are the same in both runs are {} as fast as before (median of {}): the \
             machine or its load has changed",
            text::factor(median),
            text::counted(ratios.len(), "figure")
        )
    })
}
