//! "Benchmarking BDB, CDB and Tokyo Cabinet on large datasets": the tokens of a mail filter.
//!
//! The experiment: 11,004,950 keys, character strings of various lengths with a small value each,
//! are put into each store; then 1024 words are looked up, 2000 times over. BerkeleyDB has a cache
//! of 96 MB and Tokyo Cabinet a map of 750 MB and a cache of 12,000,000 records to be written;
//! nothing is tuned to be read. The document compares times of the processor.

use super::lab::{Figures, Lab, Plan, is_own};
use super::outcome::{Cell, Classes, Holds, Outcome, Table, Verdict, rows};
use super::task::{Bench, Work};
use crate::driver::{Driver, Reading, Setup, kernel};
use crate::report::text;
use crate::rng::Rng;
use crate::runner::passes::{self, Total};
use crate::workload::generate::stream;
use crate::workload::{Data, Inputs, Phase, Queries, Workload};
use credenza::Result;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// In the order of the document, then ours.
pub(super) const STORES: [&str; 7] =
    ["bdb-btree", "bdb-hash", "tokyocabinet-hash", "cdb", "btree", "hash", "constant"];
const RECORDS: usize = 11_004_950;
const WORDS: usize = 1024;
const ITERATIONS: usize = 2000;

/// Wall clock, user, system and processor seconds; and, of lookups, iterations a second.
const CREATION: [(&str, [&str; 4]); 4] = [
    ("bdb-btree", ["3394", "410.94", "322.49", "733.43"]),
    ("bdb-hash", ["289", "258.62", "14.97", "273.59"]),
    ("tokyocabinet-hash", ["2038", "185.55", "82.70", "268.25"]),
    ("cdb", ["101", "91.68", "5.58", "97.26"]),
];
const READS: [(&str, [&str; 5]); 4] = [
    ("bdb-btree", ["156", "38.48", "101.73", "140.21", "14.26"]),
    ("bdb-hash", ["125", "31.76", "78.93", "110.69", "18.07"]),
    ("tokyocabinet-hash", ["37", "26.86", "10.40", "37.26", "53.68"]),
    ("cdb", ["21", "12.06", "8.78", "20.84", "95.97"]),
];
const SIZES: [(&str, [&str; 1]); 4] = [
    ("bdb-btree", ["610369536"]),
    ("bdb-hash", ["671383552"]),
    ("tokyocabinet-hash", ["587887360"]),
    ("cdb", ["535773153"]),
];
/// The matrices of the document, whose columns are in the order of its rows: by how many per cent
/// more the one at the left does than the one above.
const CREATION_MATRIX: [(&str, [&str; 5]); 4] = [
    ("bdb-btree", ["733", "--", "-63%", "-63%", "-87%"]),
    ("bdb-hash", ["274", "168%", "--", "-2%", "-64%"]),
    ("tokyocabinet-hash", ["268", "173%", "2%", "--", "-64%"]),
    ("cdb", ["97.3", "654%", "181%", "176%", "--"]),
];
const READS_MATRIX: [(&str, [&str; 5]); 4] = [
    ("bdb-btree", ["14.3/s", "--", "-21%", "-73%", "-85%"]),
    ("bdb-hash", ["18.1/s", "27%", "--", "-66%", "-81%"]),
    ("tokyocabinet-hash", ["53.7/s", "276%", "197%", "--", "-44%"]),
    ("cdb", ["96.0/s", "573%", "431%", "79%", "--"]),
];

/// What one process does: everything, with so many rounds over the words.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    iterations: usize,
}

pub(super) fn measure<D: Driver>(bench: &Bench<'_, D>, part: Part) -> Result<()> {
    let (clocks, start) = (Clocks::start(), Instant::now());
    bench.driver.build(&bench.inputs.records, &bench.shape, &bench.path)?;
    let times = clocks.read(start);
    let wrong = passes::check_scan(&mut bench.open(Reading::Warm)?, bench.content)?;
    tell(bench, "create", times, wrong.clone())?;
    bench.tell("size", bench.file_bytes()? as f64, wrong)?;
    let words = &bench.inputs.queries.hit;
    let mut store = bench.open(Reading::Warm)?;
    let (_, mut wrong) = bench.gets(&mut store, words)?;
    // Before the clock starts: it reads as much of the data as a store does.
    let expected = Total::expected(words, &bench.inputs.records);
    let (clocks, start) = (Clocks::start(), Instant::now());
    for _ in 0..part.iterations {
        let total = passes::get(&mut store, words)?;
        wrong = wrong.or_else(|| total.unlike(expected, "the lookups"));
    }
    let times = clocks.read(start);
    tell(bench, "read", times, wrong.clone())?;
    bench.tell("read rate", part.iterations as f64 / times[3].max(1e-6), wrong)
}

/// The processor's time so far.
struct Clocks((f64, f64));

impl Clocks {
    fn start() -> Clocks {
        Clocks(kernel::cpu_seconds())
    }

    /// Seconds since then: by the wall, of the process, of the kernel for it, of both.
    fn read(&self, start: Instant) -> [f64; 4] {
        let wall = start.elapsed().as_secs_f64();
        let (user, system) = kernel::cpu_seconds();
        let (user, system) = (user - self.0.0, system - self.0.1);
        [wall, user, system, user + system]
    }
}

fn tell<D: Driver>(
    bench: &Bench<'_, D>,
    what: &str,
    times: [f64; 4],
    wrong: Option<String>,
) -> Result<()> {
    for (name, seconds) in ["wall", "usr", "sys", "cpu"].into_iter().zip(times) {
        bench.tell(&format!("{what} {name}"), seconds, wrong.clone())?;
    }
    Ok(())
}

// --- the parent's side ---------------------------------------------------------------------------

pub(super) fn run(lab: &mut Lab<'_>) -> Outcome {
    let records = lab.args.scaled(RECORDS, 10_000);
    let iterations = lab.args.scaled(ITERATIONS, 20);
    let input = &lab.write_down(inputs(records, lab.args.seed));
    let stores = &lab.available(&STORES, Setup::Bayes, input)[..];
    let figures = lab.measure(&Plan {
        what: format!("bayes: {} tokens", text::count(records as u64)),
        stores,
        setup: Setup::Bayes,
        input,
        rounds: lab.rounds(1),
        is_on_disk: false,
        before: None,
        work: Work::Bayes(Part { iterations }),
    });
    let times = ["wallclock", "usr", "sys", "CPU"];
    let reads = ["wallclock", "usr", "sys", "CPU", "1/s"];
    let title = format!("Creation, {} tokens, in seconds", text::count(records as u64));
    let creation_names = ["create wall", "create usr", "create sys", "create cpu"];
    let read_names = ["read wall", "read usr", "read sys", "read cpu", "read rate"];
    let mut tables = vec![
        beside(title, &times, &CREATION, &creation_names, &figures, stores),
        published_matrix(
            "Creation by CPU seconds: the document's matrix",
            "s/iter",
            &CREATION_MATRIX,
        ),
    ];
    tables.extend(measured_matrix(
        "The same, measured here",
        "create cpu",
        false,
        &figures,
        stores,
    ));
    tables.push(beside("Sizes in bytes", &["bytes"], &SIZES, &["size"], &figures, stores));
    let title = format!("Lookups, {iterations} times {WORDS} words, in seconds");
    tables.push(beside(title, &reads, &READS, &read_names, &figures, stores));
    tables.push(published_matrix("Lookups by CPU: the document's matrix", "rate", &READS_MATRIX));
    tables.extend(measured_matrix("The same, measured here", "read rate", true, &figures, stores));
    Outcome {
        document: "bayes",
        source: "\"Benchmarking BDB, CDB and Tokyo Cabinet on large datasets\", an article on the \
                 Bayes tokens of a mail filter",
        hardware: "no hardware said; Perl with DB_File, CDB_File and TokyoCabinet, ext2",
        year: "no year said; the data are those of an April 24",
        differs: vec![
            "the tokens are made: as many, of lengths as like as can be; the words looked up are \
             1024 of the single words among them, all there, as nobody has the original data"
                .to_owned(),
            "no Perl, and files in memory, not on ext2: --dir chooses a disk".to_owned(),
            format!("{}; the document had one", text::counted(lab.rounds(1), "round")),
        ],
        tables,
        verdicts: verdicts(&figures, stores, &lab.classes(Setup::Bayes, false)),
        noise: std::mem::take(&mut lab.noise),
    }
}

/// The tokens, and words among them.
fn inputs(records: usize, seed: u64) -> Result<Inputs> {
    let mut workload = Workload::over("reproduce", Data::Tokens);
    workload.records = Some(records);
    workload.gets = 1;
    workload.seed = seed;
    workload.phases = Some(vec![Phase::Build]);
    let (mut inputs, _) = Inputs::prepare(&workload)?;
    // Single words come first, then pairs of them.
    let singles = inputs.records.iter().position(|(key, _)| key.contains(&b' '));
    let singles = singles.unwrap_or(records);
    let mut rng = Rng::new(seed, stream::QUERIES);
    inputs.queries.hit = Queries::default();
    for _ in 0..WORDS {
        let record = rng.index(singles);
        inputs.queries.hit.push(inputs.records.key(record), record as u32);
    }
    Ok(inputs)
}

// --- what was published, beside what is measured --------------------------------------------------

fn beside<const N: usize>(
    title: impl Into<String>,
    columns: &[&str],
    published: &[(&'static str, [&'static str; N])],
    names: &[&str],
    figures: &Figures,
    stores: &[&str],
) -> Table {
    let mut table = Table::new(title).block("published", columns).block("measured here", columns);
    for store in rows(&STORES, stores, &STORES[..4]) {
        let of_store = published.iter().find(|(name, _)| *name == store);
        let of_store = of_store.map(|(_, row)| Cell::published(row)).unwrap_or_default();
        table.row(short(store), vec![of_store, Cell::measured(figures, store, names)]);
    }
    table
}

/// The names of the document, so that seven of them fit beside each other.
fn short(store: &str) -> &str {
    match store {
        "bdb-btree" => "bdb_btree",
        "bdb-hash" => "bdb_hash",
        "tokyocabinet-hash" => "tc_hash",
        "cdb" => "cdb_hash",
        own => own,
    }
}

fn published_matrix(
    title: &str,
    first: &'static str,
    matrix: &[(&'static str, [&'static str; 5]); 4],
) -> Table {
    let mut columns = vec![first];
    columns.extend(matrix.iter().map(|(store, _)| short(store)));
    let mut table = Table::new(title).block("published", &columns);
    for (store, row) in matrix {
        table.row(short(store), vec![Cell::published(row)]);
    }
    table
}

/// The same of what was measured, the slowest first, as Perl's `cmpthese` prints it.
fn measured_matrix(
    title: &str,
    name: &str,
    is_rate: bool,
    figures: &Figures,
    stores: &[&str],
) -> Option<Table> {
    let mut medians: Vec<(&str, f64)> = Vec::new();
    for store in stores {
        if let Some(median) = figures.median(store, name) {
            medians.push((short(store), median.max(1e-6)));
        }
    }
    let rate = |value: f64| if is_rate { value } else { 1.0 / value };
    medians.sort_by(|one, other| rate(one.1).total_cmp(&rate(other.1)));
    if medians.len() < 2 {
        return None;
    }
    let mut columns = vec![if is_rate { "rate" } else { "s/iter" }];
    columns.extend(medians.iter().map(|(store, _)| *store));
    let mut table = Table::new(title).block("measured here", &columns);
    for (store, own) in &medians {
        let unit = if is_rate { "/s" } else { "" };
        let mut cells = vec![Cell::Derived(format!("{}{unit}", text::number(*own)))];
        cells.extend(medians.iter().map(|(other, value)| {
            Cell::Derived(match other == store {
                true => "--".to_owned(),
                false => format!("{:.0}%", 100.0 * rate(*own) / rate(*value) - 100.0),
            })
        }));
        table.row(*store, vec![cells]);
    }
    Some(table)
}

fn verdicts(figures: &Figures, stores: &[&str], classes: &Classes) -> Vec<Verdict> {
    const TC: &str = "tokyocabinet-hash";
    let claims = [
        (
            "creation: cdb 2.8 times as fast as BerkeleyDB's hash",
            "cdb",
            "bdb-hash",
            "create cpu",
            2.8,
        ),
        ("creation: cdb 2.8 times as fast as Tokyo Cabinet", "cdb", TC, "create cpu", 2.8),
        (
            "creation: BerkeleyDB's hash 7 times as fast as Tokyo Cabinet by the wall clock",
            "bdb-hash",
            TC,
            "create wall",
            7.0,
        ),
        ("lookups: cdb 1.8 times as fast as Tokyo Cabinet", "cdb", TC, "read cpu", 1.8),
        ("lookups: cdb 5.3 times as fast as BerkeleyDB's hash", "cdb", "bdb-hash", "read cpu", 5.3),
        (
            "lookups: Tokyo Cabinet 3 times as fast as BerkeleyDB's hash",
            TC,
            "bdb-hash",
            "read cpu",
            3.0,
        ),
    ];
    let claim = |(about, fast, slow, name, times)| {
        Verdict::on_claim(about, figures, (fast, slow), name, times)
    };
    let mut verdicts: Vec<Verdict> = claims.map(claim).into();
    let none = &Classes::default();
    for (what, name, classes) in [
        ("our creation", "create cpu", classes),
        ("our lookups", "read cpu", none),
        ("our size", "size", none),
    ] {
        let ours = Verdict::on_ours(what, figures, stores, name, classes);
        verdicts.extend(ours.map(|mut verdict| {
            if name == "size" {
                // Sizes do not scatter: one round tells them.
                let smallest = figures.lowest(stores, name).map(is_own);
                verdict.holds = match smallest {
                    Some(true) => Holds::Yes,
                    Some(false) => Holds::No,
                    None => Holds::Unsaid,
                };
                verdict.here = verdict.here.replace("times as fast", "times as small");
                verdict.here = verdict.here.replace("fastest", "smallest");
            }
            verdict
        }));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::outcome::number_in;

    #[test]
    fn the_published_matrices_follow_from_the_published_times() {
        let numbers = |texts: &[&str]| -> Vec<Option<f64>> {
            texts.iter().map(|text| number_in(text)).collect()
        };
        let cpu = CREATION.map(|(_, row)| numbers(&row)[3].expect("a number"));
        let rates = READS.map(|(_, row)| numbers(&row)[4].expect("a number"));
        for (i, (_, row)) in CREATION_MATRIX.iter().enumerate() {
            for (j, cell) in row[1..].iter().enumerate().filter(|(j, _)| *j != i) {
                let percent = 100.0 * cpu[j] / cpu[i] - 100.0;
                assert_eq!(format!("{percent:.0}%"), *cell, "{i}, {j}");
            }
        }
        for (i, (_, row)) in READS_MATRIX.iter().enumerate() {
            for (j, cell) in row[1..].iter().enumerate().filter(|(j, _)| *j != i) {
                let percent = 100.0 * rates[i] / rates[j] - 100.0;
                assert_eq!(format!("{percent:.0}%"), *cell, "{i}, {j}");
            }
        }
    }

    #[test]
    fn user_and_system_time_add_up() {
        let all = CREATION
            .map(|(_, row)| row)
            .into_iter()
            .chain(READS.map(|(_, [a, b, c, d, _])| [a, b, c, d]));
        for row in all {
            let [_, usr, sys, cpu] = row.map(|text| number_in(text).expect("a number"));
            assert!((usr + sys - cpu).abs() < 0.011, "{row:?}");
        }
        for (_, [bytes]) in SIZES {
            assert!(number_in(bytes).expect("a number") > 5e8);
        }
    }

    #[test]
    fn words_are_single_and_there() {
        let inputs = inputs(10_000, 1).unwrap();
        let words = &inputs.queries.hit;
        assert_eq!(words.len(), WORDS);
        for (i, word) in words.iter().enumerate() {
            assert!(!word.contains(&b' '));
            assert_eq!(inputs.records.key(words.expected(i).unwrap()), word);
        }
    }
}
