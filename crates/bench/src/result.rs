//! What a run of the workbench found: the JSON contract, as types.
//!
//! The field names are read by programs outside this repository. They stay; fields may be added,
//! and a reader must accept fields it does not know and the absence of those marked as defaulted.
//!
//! A run is one [`Report`]. Each entry of [`Report::results`] is one phase of one store over all
//! rounds. What did not work is never a number here: it is in [`Report::failures`].

mod effort;
pub mod over_time;
pub mod processor;

pub use effort::{Calls, Effort};
use over_time::OverTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the contract, in `credenza_bench`.
pub const CONTRACT: u32 = 1;

/// Everything about one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The version of this contract: [`CONTRACT`].
    pub credenza_bench: u32,
    /// Where it ran.
    pub machine: Machine,
    /// What was asked for.
    pub settings: Settings,
    /// The stores that took part, in the order they were named (also those that failed).
    #[serde(default)]
    pub stores: Vec<StoreInfo>,
    /// One entry for each store and phase that was measured in at least one round; ordered by
    /// phase as they ran, then by store as in `stores`.
    pub results: Vec<PhaseResult>,
    /// What several processes or threads at one store did together (`--processes`, `--threads`); not in
    /// `results`, so that there is one result for each store and phase there. Ordered by phase, store,
    /// writer, `by`, readers.
    #[serde(default)]
    pub together: Vec<TogetherResult>,
    /// The runs with other numbers of records (`--records` with several), in ascending order, and the
    /// largest of them, which all else here is about; empty where there was one number.
    #[serde(default)]
    pub growth: Vec<Growth>,
    /// What went wrong, store by store; empty when all is well.
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// What the reader must know before quoting a figure ("the directory is not on tmpfs", ...).
    #[serde(default)]
    pub notes: Vec<String>,
    /// How far figures are apart by chance; `None` where that was not asked for.
    #[serde(default)]
    pub noise: Option<Noise>,
    /// What the workbench itself takes of an operation, in each phase: the time of a store that does
    /// nothing. It is in every figure, and subtracted nowhere.
    #[serde(default)]
    pub workbench: Vec<OwnCost>,
    /// Whether a signal ended the run before its last round.
    #[serde(default)]
    pub interrupted: bool,
}

impl Report {
    /// How many times as fast a store may look as itself in this phase; 1 where it is not known.
    pub fn noise_floor(&self, phase: &str) -> f64 {
        let phases = self.noise.iter().flat_map(|noise| &noise.phases);
        let floors = phases.filter(|noise| noise.phase == phase).map(|noise| noise.floor);
        floors.filter(|floor| floor.is_finite()).fold(1.0, f64::max)
    }
}

/// The results with one number of records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Growth {
    /// Records in the store.
    pub records: u64,
    /// Bytes of all keys together.
    pub key_bytes: u64,
    /// Bytes of all values together.
    pub value_bytes: u64,
    /// As those of the whole report.
    pub results: Vec<PhaseResult>,
}

/// The workbench's own part of an operation in one phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OwnCost {
    /// The phase's name.
    pub phase: String,
    /// How many do it at once; none where it is one.
    #[serde(default)]
    pub readers: Option<usize>,
    /// `processes` or `threads`, which these are.
    #[serde(default)]
    pub by: Option<String>,
    /// Nanoseconds of one operation, of which a processor does one at a time: the median of the samples.
    pub ns_per_op: f64,
    /// The lowest of them, which other programs disturbed least; `None` in reports from before there was this field.
    #[serde(default)]
    pub lowest_ns_per_op: Option<f64>,
    /// One figure for each time that it was measured; empty in reports from before there was this field.
    #[serde(default)]
    pub samples: Vec<f64>,
    /// Records that an operation takes the values of, where that is more than one: ranges, and mixes that scan.
    #[serde(default)]
    pub records_per_op: Option<f64>,
    /// Nanoseconds of an operation for each of these.
    #[serde(default)]
    pub ns_per_record: Option<f64>,
}

/// One store measured against itself, in the same rounds as all others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Noise {
    /// The store that took part twice, in the first of the phases.
    pub store: String,
    /// What came of it, phase by phase.
    pub phases: Vec<PhaseNoise>,
}

/// How far two runs of one store are apart in one phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseNoise {
    /// The phase's name.
    pub phase: String,
    /// The store that took part twice in it; empty for that of [`Noise`], in reports from before there was
    /// this field.
    #[serde(default)]
    pub store: String,
    /// How many times as fast as itself: the median of the rounds' ratios.
    pub median: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// The larger of `high` and the inverse of `low`: a ratio whose interval lies between this and
    /// its inverse shows no difference.
    pub floor: f64,
}

/// The machine and its state when the run began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's own name for itself.
    pub cpu: String,
    /// Processors this program may run on.
    pub cores: usize,
    /// Caches of the processor that was measured on, smallest level first.
    pub caches: Vec<Cache>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// The distribution's name for itself.
    pub os: String,
    /// The filesystem that held the store files: "tmpfs", "ext4", ...
    pub filesystem: String,
    /// The mode of transparent huge pages: "always", "madvise" or "never"; for shared memory
    /// after a comma. Empty where the kernel does not say.
    pub transparent_huge_pages: String,
    /// How the kernel chooses the clock rate of the processor that was measured on: "performance",
    /// "powersave" or another; empty where it does not say.
    pub governor: String,
    /// Load averages over 1, 5 and 15 minutes, before the run.
    pub load_average: [f64; 3],
    /// What one reading of the clock costs, in nanoseconds; taken off every latency.
    pub clock_ns: f64,
    /// When the run began, in seconds since 1970 (UTC).
    pub started_unix: u64,
    /// The version of this program.
    pub program: String,
}

/// One cache of the processor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3.
    pub level: u32,
    /// "Data", "Instruction" or "Unified", as the kernel says.
    pub kind: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What was measured and how.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The workload's name: "decimal", "tokens", "ups", "churn", "ntdb", "ycsb", "ycsb-a" to
    /// "ycsb-f", those of YCSB with parameters where some were given, "files", or the name in a TOML file.
    pub workload: String,
    /// Where the data came from: "generated", or the file or folder that was read.
    pub data: String,
    /// Records in the store.
    pub records: u64,
    /// What keys are: "string", "u8", ..., as `key-type` of a workload file says it; `None` for bytes.
    pub key_type: Option<String>,
    /// What values are: "u8", ..., as `value-type` of a workload file says it; `None` for bytes.
    pub value_type: Option<String>,
    /// Bytes of all keys together.
    pub key_bytes: u64,
    /// Bytes of all values together.
    pub value_bytes: u64,
    /// Lookups in each get phase of each round, and operations in `mixed`.
    pub gets: u64,
    /// Keys given to one `get_many` call.
    pub batch: usize,
    /// The seed of data, queries and order of rounds.
    pub seed: u64,
    /// Rounds asked for.
    pub rounds: usize,
    /// Phases asked for, by name, in order.
    pub phases: Vec<String>,
    /// Whether every phase started with no page of the store file in memory.
    pub cold: bool,
    /// Whether the kernel read ahead then as it likes (`--read-ahead`).
    pub read_ahead: bool,
    /// Bytes of memory, pages of files among them, that a measured process might have (`--memory-limit`);
    /// `None` without a limit.
    pub memory_limit: Option<u64>,
    /// Whether `build` includes bringing the file to the disk (fdatasync) for every store.
    pub sync: bool,
    /// The folder of the store files.
    pub dir: String,
    /// The folder of the stores that were opened in place of new ones (`--open`); `None` where they were
    /// built, and in reports from before there was this field.
    pub opened: Option<String>,
    /// The processor that every measured process was bound to; `None` when unbound.
    pub cpu: Option<usize>,
    /// The store that the ratios are against; `None` leaves the choice to the reader of the
    /// report (the first store).
    pub baseline: Option<String>,
    /// Seconds after which one process (one store, one round) was given up.
    pub timeout_seconds: u64,
    /// How the keys of the get phases were chosen, those that are there: "uniform",
    /// "zipfian:theta=0.99,scrambled=true", ...
    pub distribution: String,
    /// In which order records came into the stores (`--insert-order`): "given" (as the data have them),
    /// "descending", "clustered:run=100", ...; empty in reports from before there was this field.
    pub insert_order: String,
    /// Operations in a second that were asked for by `--rate`; `None` without it.
    pub rate: Option<f64>,
    /// The stores that were named by `--stores`; `None` where all that were found took part, and in reports
    /// from before there was this field.
    pub named: Option<Vec<String>>,
    /// What was measured besides throughput (`--metrics`): "default", "all" where stores told what they count
    /// themselves, too, or "none" where latencies and what is shown over time were left out; empty in reports
    /// from before there was this field.
    pub metrics: String,
    /// What `mixed` did, in words: "get 50, update 50, keys zipfian:theta=0.99,scrambled=true".
    pub mix: String,
    /// The settings of stores that were chosen (`--set`), each as "page-size=16K" or, for one store alone,
    /// "leveldb.cache=8M"; what is not among them was as each store's authors say that it is fastest.
    pub stores: Vec<String>,
}

/// One store: which library, which version, how it was set up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreInfo {
    /// The store's name in results.
    pub store: String,
    /// Durability class of `build`: "buffered" (nothing is forced to disk) or "sync"; of all that a server
    /// does, "memory", too (a change goes with the server).
    pub class: String,
    /// Durability class of the phases that change a store: "buffered" (a change outlives the
    /// process), "at-close" (nothing does before the store was closed) or "memory" (nothing does); `None`
    /// for a store that is built once, which has no such phases.
    pub changes_class: Option<String>,
    /// The same of changes in transactions, where there are any; empty in reports from before there was
    /// this field.
    pub commits_class: String,
    /// The version as the library itself tells it, or its package; "file" and eight digits of a digest of
    /// its file where neither does, or "unknown".
    pub version: String,
    /// The library's file; `None` for our own engines.
    pub library: Option<String>,
    /// Every setting that is not the library's default, and why where it is not plain; behind it, after
    /// "as chosen:", what the user chose for it.
    pub tuning: String,
    /// Whether the store has its own call for many keys. If not, `get-many-*` is a plain loop of
    /// single gets over the same batches, and is to be marked so.
    pub native_get_many: bool,
    /// The same where several threads read one store at once.
    pub native_get_many_by_threads: bool,
    /// Whether each removal has a lookup before it, as the store does not say whether there was such a key;
    /// to be marked, too. False in reports from before there was this field.
    pub looks_up_to_remove: bool,
    /// What syncing to disk the build really did: "none", "fdatasync at publish", ...
    pub syncs: String,
    /// What it forces to disk by itself while it is changed, whatever its class, and why.
    pub syncs_anyway: Option<String>,
    /// Peculiarities a reader of the figures must know.
    pub notes: Vec<String>,
    /// The phases it was not measured in, because there is no such thing: `range` where the records
    /// are in no order, `insert-each` where there are no transactions, changes of what is built once.
    pub lacks: Vec<String>,
    /// What several processes may do with one store at once, the way the workbench opens it: "alone"
    /// (one of them opens it), "readers" (any number read it) or "writer" (and one changes it
    /// meanwhile); empty in reports from before there was this field.
    pub sharing: String,
    /// How several threads of one process read one store at once, the way the workbench does: "one"
    /// (they do not), "handles" (each with a handle of its own) or "shared" (all with one); empty in
    /// reports from before there was this field.
    pub threads: String,
    /// Whether one thread more may change the store meanwhile.
    pub writer_thread: bool,
    /// Whether several threads may commit to it, each change on the disk when its call has returned.
    pub committing_threads: bool,
    /// Whether several processes may all change it at once; false in reports from before there was this field.
    pub committing_processes: bool,
    /// Whether the oracle scans it backwards, too.
    pub scans_back: bool,
    /// Whether it is a server: another process, whose memory and calls are not in the figures, and of
    /// which `file_bytes` are what its memory grew by.
    pub is_server: bool,
}

/// One phase of one store, over all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseResult {
    /// The store's name.
    pub store: String,
    /// The durability class: "memory", "buffered", "sync" or "at-close". Never compare across classes.
    pub class: String,
    /// The phase's name: "build", "get-hit", "get-90", "get-miss", "get-many-hit",
    /// "get-many-miss", "get-chain", "scan", "range", "insert", "insert-random", "insert-each",
    /// "reinsert", "remove", "mixed".
    pub phase: String,
    /// Operations on one store in one round: records for build, scan, insertions and remove, three
    /// times as many for reinsert, ranges of 100 records for range, steps for mixed, else lookups.
    pub ops: u64,
    /// For the phases that change a store: on how many new stores the phase was done within a
    /// round, so that small ones last long enough to be timed.
    #[serde(default = "once")]
    pub repeats: u64,
    /// Rounds that gave a sample.
    pub rounds: usize,
    /// Time of one operation.
    pub ns_per_op: Summary,
    /// Latencies of single lookups, of lookups in batches, each of which has that of its batch, and of ranges, in
    /// a pass of their own, of changes in the run over time, and of changes that are each brought to the disk,
    /// over all rounds together; `None` for phases that have none of these.
    pub latency_ns: Option<Latency>,
    /// For `mixed`: latencies of its operations, by their names in the mix ("get", "update", ...),
    /// sampled in a run of its own, over all rounds together. What a commit of several operations
    /// takes is in none of them.
    #[serde(default)]
    pub operation_latency_ns: BTreeMap<String, Latency>,
    /// Percentiles of `latency_ns` of each round by itself; empty in reports from before there was this field.
    #[serde(default)]
    pub latency_by_round: Percentiles,
    /// The same of `operation_latency_ns`.
    #[serde(default)]
    pub operation_latency_by_round: BTreeMap<String, Percentiles>,
    /// What came of operations at a rate (`--rate`); `None` where that was not asked for, or the phase
    /// has no single operations of this kind.
    #[serde(default)]
    pub at_rate: Option<AtRate>,
    /// For phases of single operations (changes, mixes, single lookups, ranges): a run of its own, in the first
    /// round, each operation timed, over the time that they took (for `insert-sync` the timed run itself).
    #[serde(default)]
    pub over_time: Option<OverTime>,
    /// The part of lookups that found their key; `None` for phases without lookups.
    pub hit_rate: Option<f64>,
    /// Blocks the store's files take on the filesystem when the phase is done and the store
    /// closed, in bytes (the largest of all rounds).
    pub file_bytes: u64,
    /// The most memory the phase took: resident memory, mapped file pages included, beyond what
    /// the process had before it built or opened the store, in bytes (the largest of all rounds).
    pub peak_rss_bytes: u64,
    /// Whether every answer of every round was compared with the data and was right.
    pub verified: bool,
    /// For `get-many-*`: true when the store's own call was measured, false for a plain loop. For `remove`
    /// and mixes that remove: false where each removal has a lookup before it, as the store does not say
    /// whether there was such a key. True for all other phases.
    #[serde(default = "yes")]
    pub native: bool,
    /// The round of each sample in `ns_per_op.samples`, counted from 0: equal rounds of two
    /// stores form the pairs for ratios.
    #[serde(default)]
    pub sample_rounds: Vec<usize>,
    /// Page faults of the timed pass that had to read from the disk, round by round.
    #[serde(default)]
    pub major_faults: Vec<u64>,
    /// What was seen in this phase that a reader must know; the first wrong answer, for one.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The lengths of the store's files together, where `file_bytes` are the blocks they take: holes
    /// and what was allocated in advance make them differ (the largest of all rounds).
    #[serde(default)]
    pub file_length_bytes: u64,
    /// What was seen of the timed work besides its time, over all rounds together.
    #[serde(default)]
    pub effort: Effort,
    /// Bytes that went to the files for each byte of keys and values that was stored: by the kernel's
    /// count where it has one, else by the calls that were seen. `None` for phases that store nothing
    /// or where it is not known how much, and where nothing was seen: writes to a map on tmpfs.
    #[serde(default)]
    pub write_amplification: Option<f64>,
    /// Calls that bring something to the disk, within the timed work, for each of `effort.commits`; `None`
    /// without any, and where they are not seen, of a server.
    #[serde(default)]
    pub syncs_per_commit: Option<f64>,
    /// Bytes that calls wrote which were seen there, for each of these.
    #[serde(default)]
    pub written_bytes_per_commit: Option<f64>,
    /// What the store itself counted (`--metrics all`), in the first round, of several new stores in the
    /// first; empty where that was not asked for, or it counts nothing.
    #[serde(default)]
    pub own_counters: Vec<OwnCounter>,
}

impl PhaseResult {
    /// What the figure has in it that is not the store's own, in a word and in words.
    pub fn not_native(&self) -> Option<(&'static str, &'static str)> {
        match self.native {
            true => None,
            false if self.phase.starts_with("get-many") => {
                Some(("loop", "a plain loop of single gets"))
            }
            false => Some(("lookup", "each removal has a lookup before it")),
        }
    }
}

/// A counter of a store's own, which counts since the store was opened, or says how it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OwnCounter {
    /// Its name, as the store calls it.
    pub name: String,
    /// What it was right before the timed work.
    pub before: u64,
    /// What it was right after.
    pub after: u64,
}

/// Operations that were to start at times of a schedule, whatever became of those before them (an open
/// loop), over all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AtRate {
    /// Operations in a second that were asked for.
    pub per_second: f64,
    /// How their starts lay: "poisson" (times between them drawn from the exponential distribution, by
    /// the seed) or "even".
    pub arrivals: String,
    /// Operations of all rounds.
    pub ops: u64,
    /// Operations in a second that were reached, round by round.
    pub reached: Summary,
    /// Whether every round ended when it was to: within 1 % and a millisecond.
    pub kept_up: bool,
    /// How many rounds did not; `None` in reports from before there was this field.
    #[serde(default)]
    pub rounds_behind: Option<usize>,
    /// Latencies, each counted from when the operation was to start: what waited in line behind a slow
    /// one has that in its own. Lookups of a batch start together and have that of their call.
    pub latency_ns: Latency,
    /// Percentiles of each round by itself; empty in reports from before there was this field.
    #[serde(default)]
    pub by_round: Percentiles,
    /// For `mixed`: the same as `latency_ns` by the names of operations; what a commit takes is in the
    /// latency of the operation that ends its transaction.
    #[serde(default)]
    pub operation_latency_ns: BTreeMap<String, Latency>,
    /// The first round over its time; latencies as in `latency_ns`.
    #[serde(default)]
    pub over_time: Option<OverTime>,
    /// Whether the answers added up to what the data say.
    pub verified: bool,
}

/// Percentiles in nanoseconds, one figure for each round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Percentiles {
    /// Half of the operations took at most this.
    pub p50: Vec<u64>,
    /// 99 of 100.
    pub p99: Vec<u64>,
    /// 999 of 1000.
    pub p999: Vec<u64>,
}

/// One phase of one store by several processes or threads at once, over all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TogetherResult {
    /// The store's name.
    pub store: String,
    /// The durability class of the store that is read; beside a writer, and for a mix, that of changes which are
    /// each a transaction of its own; "sync" for `insert-sync` and a mix that is synced.
    pub class: String,
    /// The phase's name: one of the get phases; or `insert-sync` or that of a mix, where what is said of
    /// readers and lookups here is said of those that commit, and of changes or operations.
    pub phase: String,
    /// What the readers are: "processes", or "threads" of one process.
    #[serde(default = "processes")]
    pub by: String,
    /// How many of them read.
    pub readers: usize,
    /// How many more beside them changed the store without pause: 0 or 1.
    pub writers: usize,
    /// Processors that all of these ran on.
    pub processors: usize,
    /// Whether each of them was bound to one processor: one of its own where there are enough.
    pub bound: bool,
    /// Lookups that were timed, of all readers and rounds.
    pub ops: u64,
    /// Rounds that gave a sample.
    pub rounds: usize,
    /// Lookups in a second, of all readers together; more is better.
    pub per_second: Summary,
    /// The round of each sample in `per_second.samples`, counted from 0.
    pub sample_rounds: Vec<usize>,
    /// How many times as many as one reader of the same kind in the same rounds, with a writer beside it where there
    /// is one here; `None` for one reader, and where an answer was wrong.
    pub to_one: Option<Scaling>,
    /// Changes in a second; `None` without a writer.
    pub writes_per_second: Option<Summary>,
    /// For `insert-sync`: calls that bring something to the disk, for each change, over all rounds; fewer
    /// than one where a store brings the changes of several there at once. Else `None`.
    #[serde(default)]
    pub syncs_per_change: Option<f64>,
    /// The part of lookups that found their key; 0 where nothing is looked up.
    pub hit_rate: f64,
    /// For a mix: latencies of its operations, of all who do it and all rounds together, as in
    /// [`PhaseResult::operation_latency_ns`].
    #[serde(default)]
    pub operation_latency_ns: BTreeMap<String, Latency>,
    /// For `get-hit`, `get-90` and `get-miss`: what came of operations at a rate (`--rate`), which is that of
    /// all readers together; for `insert-sync` and a mix the same of all who do it. `None` where that was not
    /// asked for.
    #[serde(default)]
    pub at_rate: Option<AtRate>,
    /// Whether every answer was right: equal to the data, or beside a writer, one of the two values
    /// that it stores.
    pub verified: bool,
    /// For `get-many-*`: true when the store's own call was measured, false for a plain loop.
    /// True for all other phases, and in reports from before there was this field.
    #[serde(default = "yes")]
    pub native: bool,
    /// The first wrong answer.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A ratio of throughputs, from pairs of samples of the same round.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Scaling {
    /// The median of the pairs' ratios.
    pub median: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// How many rounds have both.
    pub pairs: usize,
}

/// Samples and what they amount to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// The median of the samples.
    pub median: f64,
    /// Lower end of the median's 95 % confidence interval (bootstrap).
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// One figure for each round, in the order of rounds.
    pub samples: Vec<f64>,
}

/// Percentiles, in nanoseconds, with the clock's own cost taken off.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Operations that were timed; 0 in reports from before there was this field.
    #[serde(default)]
    pub count: u64,
    /// Half of the lookups took at most this.
    pub p50: u64,
    /// 90 of 100.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
    /// 9,999 of 10,000; 0 in reports from before there was this field.
    #[serde(default)]
    pub p9999: u64,
    /// The slowest one seen.
    pub max: u64,
    /// More of them, for a curve: the part of all, and the latency that it took at most.
    #[serde(default)]
    pub curve: Vec<(f64, u64)>,
}

/// Something that did not work; the run went on without it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The store's name.
    pub store: String,
    /// The round, counted from 0; `None` if the store could not take part at all.
    pub round: Option<usize>,
    /// The phase it was in, if known.
    pub phase: Option<String>,
    /// "missing" (not installed), "error", "wrong-answer", "crashed" or "timed-out".
    pub status: String,
    /// What happened, in a sentence.
    pub what: String,
}

fn processes() -> String {
    "processes".to_owned()
}

fn once() -> u64 {
    1
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_alone_is_enough() {
        let text = r#"{"credenza_bench": 1, "machine": {}, "settings": {"from": "the future"},
            "results": [{"store": "constant", "class": "buffered", "phase": "get-hit",
            "ops": 1000000, "rounds": 5, "ns_per_op": {"median": 41.2, "low": 40.1, "high": 43.0,
            "samples": [41.2]}, "latency_ns": null, "hit_rate": 1.0, "file_bytes": 18100000,
            "peak_rss_bytes": 1, "verified": true}]}"#;
        let report: Report = serde_json::from_str(text).unwrap();
        assert_eq!(report.credenza_bench, CONTRACT);
        assert!(report.results[0].native);
        let again = serde_json::to_value(&report).unwrap();
        assert_eq!(again["results"][0]["ns_per_op"]["median"], 41.2);
        assert_eq!(again["results"][0]["latency_ns"], serde_json::Value::Null);
    }
}
