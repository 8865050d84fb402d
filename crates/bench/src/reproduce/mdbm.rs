//! MDBM's page on performance: what it costs to time operations, what preloading is worth, and
//! handles for threads.
//!
//! The experiments: records of 32 to 2048 bytes are stored and fetched with a clock read before and
//! after each operation, and without; then with MDBM's own statistics switched on, which call a
//! function with each operation. A half-full store of 256 MB to 8 GB, of which nothing is in memory,
//! is iterated over as it is, and after `mdbm_preload`. Threads fetch with a handle each that they
//! opened, or that was duplicated: the page says which should be faster, and has no figures.

use super::lab::{Figures, Input, Lab, Plan};
use super::mdbm_tables::{clock_table, own_table, preload_table, thread_table, verdicts};
use super::outcome::Outcome;
use super::task::{Bench, Work};
use crate::driver::ticks::{Monotonic, Nothing, ProcessTime, Ticks, TimeOfDay, Tsc, TscWithCpu};
use crate::driver::{Driver, Noting, Reading, Setup, Shape, Store, Writer};
use crate::machine;
use crate::measure;
use crate::report::text;
use crate::rng::Rng;
use crate::runner::passes::{self, Total};
use crate::workload::generate::stream;
use crate::workload::{Data, Inputs, Queries, QuerySets, Ranges, Records};
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

pub(super) const STORES: [&str; 4] = ["mdbm", "hash", "btree", "constant"];
/// Those that are changed.
pub(super) const CHANGED: [&str; 3] = ["mdbm", "hash", "btree"];
/// Records that are timed, and how often all of them are.
const RECORDS: usize = 10_000;
const PASSES: usize = 7;
pub(super) const SIZES: [usize; 4] = [32, 100, 1024, 2048];
/// The sizes of stores that are iterated over, in MiB. Half of each is full.
const ITERATED: [u64; 5] = [256, 1024, 2048, 4096, 8192];
/// A record of theirs: the page does not say what was in them.
const KEY: usize = 16;
const VALUE: usize = 100;
/// How long threads fetch.
const THREAD_TIME: Duration = Duration::from_millis(300);
const THREAD_BATCH: u64 = 256;

pub(super) const CLOCKS: [(&str, &str); 5] = [
    ("gettimeofday", "gettimeofday"),
    ("monotonic", "clock_gettime(CLOCK_MONOTONIC)"),
    ("tsc", "reading the TSC"),
    ("tsc+cpu", "reading the TSC and the CPU's number"),
    ("process", "clock_gettime(PROCESS_CPUTIME_ID)"),
];
pub(super) const NOTINGS: [(Noting, &str, &str); 4] = [
    (Noting::Counted, "counted", "an empty callback, nothing timed"),
    (Noting::Sampled, "sampled", "counted, some timed"),
    (Noting::Clock, "every, clock", "every one timed, clock_gettime, callback"),
    (Noting::Tsc, "every, tsc", "every one timed, TSC, callback"),
];

/// What the page says of timing with a clock, store and fetch: by clock and size. Of V4's clocks it
/// has one figure for both, at 100 bytes.
pub(super) const TIMED: [(&str, usize, [&str; 2]); 9] = [
    ("gettimeofday", 32, ["9.5%", "10%"]),
    ("gettimeofday", 100, ["8.5%", "9.5%"]),
    ("gettimeofday", 1024, ["6.1%", "6.8%"]),
    ("gettimeofday", 2048, ["6.2%", "6.5%"]),
    ("monotonic", 100, ["11%", "11%"]),
    ("tsc", 100, ["3%", "3%"]),
    ("tsc", 1024, ["3.73%", "4.37%"]),
    ("tsc+cpu", 100, ["20%", "20%"]),
    ("process", 100, ["80%", "80%"]),
];
/// What preloading improved: MDBM V4 on RHEL6, V3 on RHEL4.
pub(super) const PRELOADED: [(u64, [&str; 2]); 5] = [
    (256, ["61%", "38.7%"]),
    (1024, ["63.3%", "43.6%"]),
    (2048, ["55.8%", "43.1%"]),
    (4096, ["70.4%", "56.3%"]),
    (8192, ["66.1%", "54.4%"]),
];

/// What one process does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Part {
    /// Store and fetch with clocks and statistics.
    Timed,
    /// Make a store that would have so many bytes if it were full.
    HalfFull { bytes: u64 },
    /// Iterate over it.
    Iterated { bytes: u64 },
    /// Fetch on so many threads.
    Threads { count: usize, time: Duration },
}

impl Part {
    /// Whether the process must have all processors.
    pub(super) fn is_threaded(self) -> bool {
        matches!(self, Part::Threads { .. })
    }
}

pub(super) fn measure<D: Driver>(bench: &Bench<'_, D>, part: Part) -> Result<()> {
    match part {
        Part::Timed => timed(bench),
        Part::HalfFull { bytes } => half_full(bench, bytes),
        Part::Iterated { bytes } => {
            let ([plain, preloaded], wrong) = iterated(bench, bytes)?;
            bench.tell("as it is", plain, wrong.clone())?;
            bench.tell("preloaded", preloaded, wrong.clone())?;
            bench.tell("improvement", (1.0 - preloaded / plain) * 100.0, wrong)
        }
        Part::Threads { count, time } => threads(bench, count, time),
    }
}

// --- the price of timing --------------------------------------------------------------------------

/// Nanoseconds for storing and for fetching a record, of each pass.
#[derive(Default)]
struct Passes {
    store: Vec<f64>,
    fetch: Vec<f64>,
}

/// One pass with a clock around each operation; adds what was found to `total`.
fn pass<C: Ticks, W: Writer>(
    writer: &mut W,
    records: &Records,
    passes: &mut Passes,
    total: &mut Total,
) -> Result<()> {
    let mut spent = 0_u64;
    let per_record = |start: Instant| start.elapsed().as_nanos() as f64 / records.len() as f64;
    let start = Instant::now();
    for (key, value) in records.iter() {
        let from = C::now();
        writer.insert(key, value)?;
        spent = spent.wrapping_add(C::now().wrapping_sub(from));
    }
    passes.store.push(per_record(start));
    let start = Instant::now();
    for (key, _) in records.iter() {
        let from = C::now();
        writer.get(key, |value| total.add(value))?;
        spent = spent.wrapping_add(C::now().wrapping_sub(from));
    }
    passes.fetch.push(per_record(start));
    black_box(spent);
    Ok(())
}

fn timed<D: Driver>(bench: &Bench<'_, D>) -> Result<()> {
    let records = &bench.inputs.records;
    let mut plain = bench.driver.create(&bench.path, &bench.shape)?;
    let mut noting = Vec::new();
    for (kind, name, _) in NOTINGS {
        let path = bench.task.folder.join(name.replace([',', ' '], "-"));
        if let Some(writer) = bench.driver.create_noting(&path, &bench.shape, kind)? {
            noting.push((name, writer, Passes::default()));
        }
    }
    let (mut base, mut total) = (Passes::default(), Total::default());
    let mut clocks: [Passes; CLOCKS.len()] = Default::default();
    let mut rounds = 0;
    for number in 0..=PASSES {
        let of_pass = &mut total;
        // A store that others were used after is not in the processor's caches, unlike one that was just used.
        pass::<Nothing, _>(&mut plain, records, &mut Passes::default(), of_pass)?;
        pass::<Nothing, _>(&mut plain, records, &mut base, of_pass)?;
        pass::<TimeOfDay, _>(&mut plain, records, &mut clocks[0], of_pass)?;
        pass::<Monotonic, _>(&mut plain, records, &mut clocks[1], of_pass)?;
        pass::<Tsc, _>(&mut plain, records, &mut clocks[2], of_pass)?;
        pass::<TscWithCpu, _>(&mut plain, records, &mut clocks[3], of_pass)?;
        pass::<ProcessTime, _>(&mut plain, records, &mut clocks[4], of_pass)?;
        for (_, writer, passes) in &mut noting {
            pass::<Nothing, _>(writer, records, &mut Passes::default(), of_pass)?;
            pass::<Nothing, _>(writer, records, passes, of_pass)?;
        }
        rounds += CLOCKS.len() + 2 + 2 * noting.len();
        if number == 0 {
            // The first pass filled the stores.
            base = Passes::default();
            clocks = Default::default();
            noting.iter_mut().for_each(|(.., passes)| *passes = Passes::default());
        }
    }
    let mut expected = Total::default();
    for _ in 0..rounds {
        records.iter().for_each(|(_, value)| expected.add(value));
    }
    let wrong =
        (total != expected).then(|| format!("fetches add up to {total:?}, not {expected:?}"));
    for ((name, _), passes) in CLOCKS.iter().zip(&clocks) {
        let is_possible = !name.starts_with("tsc") || Tsc::IS_POSSIBLE;
        if is_possible {
            tell_overhead(bench, name, passes, &base, wrong.as_ref())?;
        }
    }
    for (name, writer, passes) in noting {
        tell_overhead(bench, name, &passes, &base, wrong.as_ref())?;
        writer.close()?;
    }
    plain.close()
}

/// By how many per cent passes took longer than those without a clock beside them.
fn tell_overhead<D: Driver>(
    bench: &Bench<'_, D>,
    name: &str,
    passes: &Passes,
    base: &Passes,
    wrong: Option<&String>,
) -> Result<()> {
    let of = [("store", &passes.store, &base.store), ("fetch", &passes.fetch, &base.fetch)];
    for (what, times, plain) in of {
        let ratios = times.iter().zip(plain).map(|(time, plain)| time / plain);
        let percent = (measure::median(&mut ratios.collect::<Vec<_>>()) - 1.0) * 100.0;
        bench.tell(&format!("{name} {what}"), percent, wrong.cloned())?;
    }
    Ok(())
}

// --- preloading -----------------------------------------------------------------------------------

/// The shape of a store that would have so many bytes if it were full.
fn half_full_shape(shape: Shape, bytes: u64) -> Shape {
    let count = bytes / 2 / (KEY + VALUE) as u64;
    Shape {
        records: count,
        key_bytes: count * KEY as u64,
        value_bytes: count * VALUE as u64,
        longest_value: VALUE,
        fixed_key: Some(KEY),
        fixed_value: Some(VALUE),
        is_sorted: true,
        ..shape
    }
}

/// The values of such a store, one after the other.
fn each_value(count: u64, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    let mut value = [0; VALUE];
    (0..count).try_for_each(|i| {
        value[..8].copy_from_slice(&i.to_le_bytes());
        take(i, &value)
    })
}

fn half_full<D: Driver>(bench: &Bench<'_, D>, bytes: u64) -> Result<()> {
    let shape = half_full_shape(bench.shape, bytes);
    // A hash is filled in no order: on a disk several times as much was written as the store has.
    bench.driver.build_making(&bench.place_to_make(), &shape, &mut |store| {
        each_value(shape.records, |i, value| store(format!("{i:016x}").as_bytes(), value))
    })?;
    bench.put_in_place()?;
    bench.tell("size", bench.file_bytes()? as f64 / f64::from(1 << 20), None)
}

/// Gives the seconds of both iterations and what is wrong with what they gave, which is compared before either is told:
/// the improvement is made of both.
fn iterated<D: Driver>(bench: &Bench<'_, D>, bytes: u64) -> Result<([f64; 2], Option<String>)> {
    let shape = half_full_shape(bench.shape, bytes);
    let mut expected = Total::default();
    each_value(shape.records, |_, value| {
        expected.add(value);
        Ok(())
    })?;
    let (mut seconds, mut wrong) = ([0.0; 2], None);
    for (is_preloaded, seconds) in [false, true].into_iter().zip(&mut seconds) {
        bench.evict()?;
        let start = Instant::now();
        let mut store = bench.driver.open(&bench.path, &shape, Reading::ColdNormal)?;
        if is_preloaded {
            store.preload(&bench.task.folder)?;
        }
        let total = passes::scan(&mut store)?;
        *seconds = start.elapsed().as_secs_f64();
        if total != expected {
            wrong = Some(format!("it adds up to {total:?}, not {expected:?}"));
        }
    }
    Ok((seconds, wrong))
}

// --- threads --------------------------------------------------------------------------------------

fn threads<D: Driver>(bench: &Bench<'_, D>, count: usize, time: Duration) -> Result<()> {
    let (_, wrong) = bench.build()?;
    for (name, are_opened) in [("opened", true), ("duplicated", false)] {
        let handles = bench.driver.handles(&bench.path, count, are_opened)?;
        if handles.is_empty() {
            continue;
        }
        let barrier = &Barrier::new(count);
        let outcomes: Vec<Result<(u64, u64, Duration)>> = std::thread::scope(|scope| {
            let workers: Vec<_> = handles
                .into_iter()
                .enumerate()
                .map(|(i, mut handle)| {
                    let (seed, records) = (bench.task.seed + i as u64, &bench.inputs.records);
                    scope.spawn(move || {
                        barrier.wait();
                        fetch(handle.store(), records, seed, time)
                    })
                })
                .collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|_| Err(Error::invalid("a thread panicked")))
            };
            workers.into_iter().map(join).collect()
        });
        let (mut fetched, mut right, mut longest) = (0, 0, Duration::ZERO);
        for outcome in outcomes {
            let (one, of_them, elapsed) = outcome?;
            fetched += one;
            right += of_them;
            longest = longest.max(elapsed);
        }
        let wrong = wrong
            .clone()
            .or_else(|| (right != fetched).then(|| format!("{right} right answers of {fetched}")));
        let ns = longest.as_nanos() as f64 / fetched.max(1) as f64;
        bench.tell(&format!("{name} {count}"), 1e3 / ns, wrong.clone())?;
        bench.tell(&format!("{name} {count} ns"), ns, wrong)?;
    }
    Ok(())
}

/// Fetches random records for a while; gives how many, how many were right, and how long that was: until a batch ended.
fn fetch<S: Store>(
    store: &mut S,
    records: &Records,
    seed: u64,
    time: Duration,
) -> Result<(u64, u64, Duration)> {
    let mut rng = Rng::new(seed, stream::QUERIES);
    let (mut fetched, mut right, start) = (0, 0, Instant::now());
    while start.elapsed() < time {
        for _ in 0..THREAD_BATCH {
            let (key, value) = records.get(rng.index(records.len()));
            store.get(key, |got| right += u64::from(got == value))?;
        }
        fetched += THREAD_BATCH;
    }
    Ok((fetched, right, start.elapsed()))
}

// --- the parent's side ----------------------------------------------------------------------------

pub(super) fn run(lab: &mut Lab<'_>) -> Outcome {
    let (mut overheads, mut changed) = (Vec::new(), Vec::new());
    for size in SIZES {
        if lab.is_over() {
            break;
        }
        let made = records_of(lab.args.scaled(RECORDS, 100), size, lab.args.seed);
        let input = &lab.write_down(made);
        changed = lab.available(&CHANGED, Setup::Tuned, input);
        let figures = lab.measure(&Plan {
            what: format!("mdbm: operations of {size} bytes timed"),
            stores: &changed,
            setup: Setup::Tuned,
            input,
            rounds: lab.rounds(3),
            is_on_disk: false,
            before: None,
            work: Work::Mdbm(Part::Timed),
        });
        overheads.push((size, figures));
    }
    let records = lab.args.scaled(100_000, 1000);
    let input = &lab.input(Data::Decimal, records, 1);
    let here = lab.available(&STORES, Setup::Tuned, input);
    let threads = on_threads(lab, &here, input);
    let preloads = preloads(lab, &here);
    let cores = lab.machine.cores;
    let verdicts = verdicts(&overheads, &preloads, &threads, cores, &here);
    Outcome {
        document: "mdbm",
        source: "\"Performance\" of MDBM's documentation",
        hardware: "no hardware said; MDBM V3 on RHEL4, V4 on RHEL6",
        year: "no year said",
        differs: vec![
            "ysys_get_usec of V3 is gettimeofday here; the CPU's number comes with the TSC \
             (rdtscp)"
                .to_owned(),
            "a library that MDBM's own Makefile built has no TSC (DISABLE_TSC=1): its statistics read the \
             other clock then"
                .to_owned(),
            format!(
                "{RECORDS} records are timed, in turns with and without a clock; the page does not say how many it had"
            ),
            "constant is not changed, and built whole: it takes part in the iteration and on threads"
                .to_owned(),
            format!(
                "records iterated over have {KEY} + {VALUE} bytes, which the page does not say; our files have no empty half"
            ),
        ],
        tables: vec![
            clock_table(&overheads, &changed),
            own_table(&overheads, &changed),
            preload_table(&preloads, &here),
            thread_table(&threads, &here, cores),
        ],
        verdicts,
        noise: std::mem::take(&mut lab.noise),
    }
}

/// Records of one size, without queries.
fn records_of(count: usize, size: usize, seed: u64) -> Result<Inputs> {
    let (mut records, mut rng) = (Records::default(), Rng::new(seed, stream::DATA));
    let mut value = vec![0; size];
    for i in 0..count {
        rng.fill(&mut value);
        records.push(format!("{i:08}").as_bytes(), &value)?;
    }
    let queries = QuerySets { hit: Queries::default(), ..QuerySets::default() };
    let ranges = Ranges::draw(&records, 0, seed);
    Ok(Inputs { records, queries, ranges, fresh: Records::default() })
}

fn on_threads(lab: &mut Lab<'_>, stores: &[&'static str], input: &Input) -> Figures {
    let mut all = Figures::default();
    for count in counts(lab.machine.cores) {
        all.join(lab.measure(&Plan {
            what: format!("mdbm: fetches on {}", text::counted(count, "thread")),
            stores,
            setup: Setup::Tuned,
            input,
            rounds: lab.rounds(5),
            is_on_disk: false,
            before: None,
            work: Work::Mdbm(Part::Threads { count, time: lab.args.time(THREAD_TIME) }),
        }));
    }
    all
}

/// One thread, and as many as there are processors.
pub(super) fn counts(cores: usize) -> Vec<usize> {
    if cores > 1 { vec![1, cores] } else { vec![1] }
}

/// Figures by the size of the document; of those that disk and memory here do not allow there are
/// none: a store is made in memory, and must not leave it while it is iterated over.
fn preloads(lab: &mut Lab<'_>, here: &[&'static str]) -> Vec<(u64, Figures)> {
    let input = &lab.input(Data::Decimal, 1, 1);
    let mut all = Vec::new();
    for mib in ITERATED {
        let bytes = (((mib << 20) as f64 * lab.args.scale) as u64).max(1 << 16);
        let (disk, memory) = (lab.args.disk(), lab.args.memory());
        // All four are on the disk, two of them in memory before, which may be the same.
        let of_disk = if machine::are_on_one_filesystem(disk, &memory) { 5 } else { 3 };
        let has_room = of_disk * bytes <= machine::free_bytes(disk)
            && 2 * bytes <= machine::free_bytes(&memory)
            && 5 * bytes <= 2 * machine::memory_bytes();
        if !has_room {
            lab.notes.push(format!(
                "mdbm: the iteration over {mib} MB was left out: it is to fit two fifths of the memory, and to \
                 have twice as much free in {} and {of_disk} times as much in {}",
                memory.display(),
                disk.display()
            ));
            continue;
        }
        let figures = lab.measure(&Plan {
            what: format!("mdbm: iteration over {}, half full", text::binary_bytes(bytes)),
            stores: here,
            setup: Setup::HalfFull,
            input,
            // Three of the smallest are quick; of the larger ones one takes minutes.
            rounds: lab.rounds(if mib == ITERATED[0] { 3 } else { 1 }),
            is_on_disk: true,
            before: Some(Work::Mdbm(Part::HalfFull { bytes })),
            work: Work::Mdbm(Part::Iterated { bytes }),
        });
        all.push((mib, figures));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::task::with_bench;
    use crate::runner::liar::Lie;

    #[test]
    fn iterations_do_not_count_if_one_of_them_is_wrong() {
        let bytes = 1 << 16;
        for (lie, is_wrong) in [(Lie::None, false), (Lie::ScanShort, true)] {
            let work = Work::Mdbm(Part::Iterated { bytes });
            let (_, wrong) = with_bench(lie, work, |bench| {
                half_full(bench, bytes)?;
                iterated(bench, bytes)
            })
            .unwrap();
            assert_eq!(wrong.is_some(), is_wrong, "{lie:?}: {wrong:?}");
        }
    }
}
