//! The manual of upscaledb's `ups_bench`: each command that it shows.
//!
//! The experiment: a store is given keys of random bytes, or ascending numbers, with values of
//! random bytes; of each hundred operations so many look a key up and so many erase one. As in
//! `ups_bench` every operation is timed by itself, and operations a second are those of the summed
//! times. Other than there, the keys looked up and erased are ones that were inserted before: what
//! `ups_bench` draws for them was hardly ever in the store, so that it measured misses.

use super::lab::{Figures, Lab, Plan};
use super::outcome::{Cell, Outcome, Table, Verdict};
use super::task::{Bench, Work};
use crate::driver::{Driver, Reading, Setup, Writer};
use crate::rng::Rng;
use crate::runner::passes;
use crate::workload::generate::stream;
use crate::workload::{Content, Inputs, QuerySets, Ranges, Records};
use credenza::Result;
use serde::{Deserialize, Serialize};
use std::time::Instant;

pub(super) const STORES: [&str; 3] = ["upscaledb", "btree", "hash"];
/// Operations of a command that says nothing of them.
const OPERATIONS: usize = 1_000_000;

/// A command of the manual.
#[derive(Clone, Copy)]
struct Command {
    line: &'static str,
    operations: usize,
    /// Records that are there before, from a command that loaded them.
    loaded: bool,
    key: Keys,
    value: usize,
    part: Mixture,
    setup: Setup,
    rounds: usize,
    /// What the manual shows of its output, in the order of [`COLUMNS`].
    published: Option<[&'static str; 7]>,
}

#[derive(Clone, Copy)]
enum Keys {
    /// Random bytes of this length.
    Random(usize),
    /// Ascending numbers of 64 bits.
    Ascending,
}

/// What the operations of a command are.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Mixture {
    /// Of a hundred.
    find: u64,
    erase: u64,
    /// Operations in a transaction.
    transaction: Option<usize>,
}

const INSERTS: Mixture = Mixture { find: 0, erase: 0, transaction: None };

const USUAL: Command = Command {
    line: "ups_bench",
    operations: OPERATIONS,
    loaded: false,
    key: Keys::Random(16),
    value: 1024,
    part: INSERTS,
    setup: Setup::Ups,
    rounds: 1,
    published: None,
};

const SIMULATED: Command = Command {
    line: "ups_bench --find-pct=30 --erase-pct=10 --keysize=32 --recsize=128",
    key: Keys::Random(32),
    value: 128,
    part: Mixture { find: 30, erase: 10, ..INSERTS },
    rounds: 3,
    ..USUAL
};

const COMMANDS: [Command; 9] = [
    Command {
        published: Some([
            "9.453202",
            "105784.155906",
            "0.000009",
            "0.255820",
            "",
            "",
            "1016430592",
        ]),
        ..USUAL
    },
    Command {
        line: "ups_bench, a command of 10,001 operations that the manual does not show",
        operations: 10_001,
        part: Mixture { find: 30, erase: 30, ..INSERTS },
        rounds: 5,
        published: Some([
            "0.099174",
            "70337.495855",
            "0.000014",
            "0.000124",
            "140719.583701",
            "145190.417647",
            "4358144",
        ]),
        ..USUAL
    },
    Command { line: "ups_bench --keysize=32", key: Keys::Random(32), ..USUAL },
    Command {
        line: "ups_bench --keysize=32 --find-pct=50 --erase-pct=10 --reopen",
        loaded: true,
        key: Keys::Random(32),
        part: Mixture { find: 50, erase: 10, ..INSERTS },
        ..USUAL
    },
    SIMULATED,
    Command {
        line: "ups_bench --find-pct=30 --erase-pct=10 --keysize=32 --recsize=128 --inmemorydb",
        setup: Setup::UpsInMemory,
        ..SIMULATED
    },
    Command {
        line: "ups_bench --find-pct=30 --erase-pct=10 --keysize=32 --recsize=128 \
               --cache=536870912",
        setup: Setup::UpsCache,
        ..SIMULATED
    },
    Command {
        line: "ups_bench --key=uint64 --recsize=8 --distribution=ascending",
        key: Keys::Ascending,
        value: 8,
        rounds: 3,
        ..USUAL
    },
    Command {
        line: "ups_bench --use-transactions=10 --duplicate=last",
        part: Mixture { transaction: Some(10), ..INSERTS },
        ..USUAL
    },
];

const COLUMNS: [&str; 7] =
    ["seconds", "insert/s", "avg sec", "max sec", "find/s", "erase/s", "file bytes"];
const FIGURES: [&str; 7] = ["seconds", "insert", "average", "longest", "find", "erase", "file"];

impl Command {
    /// How many records it stores at most, those that are loaded before included.
    fn records(&self, operations: usize) -> usize {
        let inserts = 100 - self.part.find - self.part.erase;
        // Draws scatter: what is left of the records is not used.
        let drawn = match inserts {
            100 => operations,
            _ => operations * inserts as usize / 100 + operations / 50 + 100,
        };
        drawn + if self.loaded { operations } else { 0 }
    }

    fn data(&self, operations: usize, seed: u64) -> Result<Inputs> {
        let (mut records, mut rng) = (Records::default(), Rng::new(seed, stream::DATA));
        let mut key = match self.key {
            Keys::Random(len) => vec![0; len],
            Keys::Ascending => Vec::new(),
        };
        let mut value = vec![0; self.value];
        for i in 0..self.records(operations) {
            rng.fill(&mut value);
            match self.key {
                Keys::Random(_) => {
                    rng.fill(&mut key);
                    records.push(&key, &value)?;
                }
                // The highest byte first, so that the order of numbers is that of the keys.
                Keys::Ascending => {
                    let mut number = (i as u64).to_le_bytes();
                    number.reverse();
                    records.push(&number, &value)?;
                }
            }
        }
        let (queries, fresh) = (QuerySets::default(), Records::default());
        let ranges = Ranges::draw(&records, 0, seed);
        Ok(Inputs { records, queries, ranges, fresh })
    }
}

/// What one process does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    operations: usize,
    /// Records that are stored before anything is timed.
    loaded: usize,
    mixture: Mixture,
    is_in_memory: bool,
}

/// One kind of operation, with the times of all of them.
#[derive(Clone, Copy, Default)]
struct Times {
    count: u64,
    ns: u64,
    longest: u64,
}

impl Times {
    #[inline]
    fn add(&mut self, start: Instant) {
        let ns = start.elapsed().as_nanos() as u64;
        self.count += 1;
        self.ns += ns;
        self.longest = self.longest.max(ns);
    }
}

pub(super) fn measure<D: Driver>(bench: &Bench<'_, D>, part: Part) -> Result<()> {
    let mut writer = match part.mixture.transaction {
        Some(_) => bench.driver.create_committing(&bench.path, &bench.shape)?,
        None => bench.driver.create(&bench.path, &bench.shape)?,
    };
    let mut run = Run::new(&bench.inputs.records, bench.task.seed);
    for _ in 0..part.loaded {
        run.insert(&mut writer)?;
    }
    run.times = Default::default();
    let mut commits = Times::default();
    let mut left = 0;
    for _ in 0..part.operations {
        if let Some(size) = part.mixture.transaction.filter(|_| left == 0) {
            let start = Instant::now();
            writer.begin()?;
            commits.add(start);
            left = size;
        }
        run.step(&mut writer, part.mixture)?;
        if left > 0 {
            left -= 1;
            if left == 0 {
                commit(&mut writer, &mut commits)?;
            }
        }
    }
    if left > 0 {
        commit(&mut writer, &mut commits)?;
    }
    let (content, [insert, find, erase], mut wrong) = (run.content(), run.times, run.wrong);
    wrong = wrong.or(passes::check_scan(&mut writer, content)?);
    writer.close()?;
    if !part.is_in_memory {
        wrong = wrong.or(passes::check_scan(&mut bench.open(Reading::Warm)?, content)?);
    }
    let seconds = (insert.ns + find.ns + erase.ns + commits.ns) as f64 / 1e9;
    bench.tell("seconds", seconds, wrong.clone())?;
    for (name, times) in [("insert", insert), ("find", find), ("erase", erase)] {
        if times.count > 0 {
            let ns = if name == "insert" { times.ns + commits.ns } else { times.ns };
            bench.tell(name, times.count as f64 * 1e9 / ns.max(1) as f64, wrong.clone())?;
        }
    }
    if insert.count > 0 {
        bench.tell("average", insert.ns as f64 / insert.count as f64 / 1e9, wrong.clone())?;
        bench.tell("longest", insert.longest as f64 / 1e9, wrong.clone())?;
    }
    if !part.is_in_memory {
        bench.tell("file", bench.file_bytes()? as f64, wrong)?;
    }
    Ok(())
}

fn commit<W: Writer>(writer: &mut W, commits: &mut Times) -> Result<()> {
    let start = Instant::now();
    writer.commit()?;
    commits.add(start);
    Ok(())
}

/// The operations on a store, with what it must hold.
struct Run<'a> {
    records: &'a Records,
    rng: Rng,
    /// How many records were inserted so far.
    inserted: usize,
    is_live: Vec<bool>,
    /// Of insert, find and erase.
    times: [Times; 3],
    wrong: Option<String>,
}

impl<'a> Run<'a> {
    fn new(records: &'a Records, seed: u64) -> Run<'a> {
        Run {
            records,
            rng: Rng::new(seed, stream::MIXED),
            inserted: 0,
            is_live: Vec::with_capacity(records.len()),
            times: Default::default(),
            wrong: None,
        }
    }

    fn step<W: Writer>(&mut self, writer: &mut W, mixture: Mixture) -> Result<()> {
        let ticket = self.rng.below(100);
        let is_out = self.inserted == self.records.len();
        if self.inserted == 0 || (ticket >= mixture.find + mixture.erase && !is_out) {
            return self.insert(writer);
        }
        let record = self.rng.index(self.inserted);
        let (key, value) = self.records.get(record);
        if ticket < mixture.find || is_out {
            let (mut is_right, start) = (false, Instant::now());
            let is_found = writer.get(key, |got| is_right = got == value)?;
            self.times[1].add(start);
            if is_found != self.is_live[record] || is_found != is_right {
                self.wrong.get_or_insert_with(|| format!("record {record}: found is {is_found}"));
            }
        } else {
            let start = Instant::now();
            let was_there = writer.remove(key)?;
            self.times[2].add(start);
            if was_there != self.is_live[record] {
                self.wrong.get_or_insert_with(|| format!("record {record}: erased is {was_there}"));
            }
            self.is_live[record] = false;
        }
        Ok(())
    }

    fn insert<W: Writer>(&mut self, writer: &mut W) -> Result<()> {
        let (key, value) = self.records.get(self.inserted);
        let start = Instant::now();
        writer.insert(key, value)?;
        self.times[0].add(start);
        self.inserted += 1;
        self.is_live.push(true);
        Ok(())
    }

    /// What the store must hold.
    fn content(&self) -> Content {
        let mut content = Content::default();
        for (i, _) in self.is_live.iter().enumerate().filter(|(_, is_live)| **is_live) {
            let (key, value) = self.records.get(i);
            content.add(key, value);
        }
        content
    }
}

// --- the parent's side ----------------------------------------------------------------------------

pub(super) fn run(lab: &mut Lab<'_>) -> Outcome {
    let (mut tables, mut verdicts) = (Vec::new(), Vec::new());
    for command in &COMMANDS {
        if lab.is_over() {
            break;
        }
        let operations = lab.args.scaled(command.operations, 1000);
        let input = &lab.write_down(command.data(operations, lab.args.seed));
        let can_do = |store: &&'static str| *store != "hash" || command.part.transaction.is_none();
        let wanted: Vec<&'static str> = STORES.into_iter().filter(can_do).collect();
        let here = lab.available(&wanted, command.setup, input);
        let part = Part {
            operations,
            loaded: if command.loaded { operations } else { 0 },
            mixture: command.part,
            is_in_memory: command.setup == Setup::UpsInMemory,
        };
        let figures = lab.measure(&Plan {
            what: format!("upscaledb: {}", command.line),
            stores: &here,
            setup: command.setup,
            input,
            rounds: lab.rounds(command.rounds),
            is_on_disk: false,
            work: Work::Upscaledb(part),
        });
        tables.push(table(command, &figures, &here));
        let about = format!("ours, {}", command.line);
        verdicts.extend(Verdict::on_ours(about, &figures, &here, "seconds"));
    }
    Outcome {
        document: "upscaledb",
        source: "the manual of ups_bench, upscaledb's benchmark",
        hardware: "no hardware said; upscaledb 2.1.11",
        year: "no year said; its output has a copyright of 2005 to 2015",
        differs: differs(),
        tables,
        verdicts,
    }
}

fn differs() -> Vec<String> {
    [
        "keys looked up and erased are random ones of those inserted: those of ups_bench were \
         hardly ever there",
        "all keys have the length that the command says; the seconds are the summed times of the \
         operations, as 'upscaledb elapsed time' is",
        "--reopen goes on with the store that the command before it made, without closing it",
        "--duplicate=last only allows duplicates: keys are random and none comes twice; hash has no \
         transactions, and is left out of --use-transactions",
        "changes of btree are all in one transaction but with --use-transactions; only upscaledb \
         has a cache to be set",
    ]
    .map(str::to_owned)
    .into()
}

fn table(command: &Command, figures: &Figures, here: &[&str]) -> Table {
    let mut table = Table::new(command.line);
    let has_mix = command.part.find > 0;
    let has_file = command.setup != Setup::UpsInMemory;
    let is_shown = |i: &usize| (has_mix || !matches!(i, 4 | 5)) && (has_file || *i != 6);
    let shown: Vec<usize> = (0..COLUMNS.len()).filter(is_shown).collect();
    let columns: Vec<&str> = shown.iter().map(|i| COLUMNS[*i]).collect();
    let names: Vec<&str> = shown.iter().map(|i| FIGURES[*i]).collect();
    if command.published.is_some() {
        table = table.block("published", &columns);
    }
    table = table.block("measured here", &columns);
    let is_row = |store: &&&str| {
        here.contains(*store) || (command.published.is_some() && **store == STORES[0])
    };
    for store in STORES.iter().filter(is_row) {
        let measured = Cell::measured(figures, store, &names);
        let cells = match command.published {
            Some(texts) if *store == STORES[0] => {
                let texts: Vec<&'static str> = shown.iter().map(|i| texts[*i]).collect();
                vec![Cell::published(&texts), measured]
            }
            Some(_) => vec![Vec::new(), measured],
            None => vec![measured],
        };
        table.row(*store, cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::outcome::number_in;

    #[test]
    fn what_was_published_is_all_numbers_and_agrees_with_itself() {
        let number = |text: &str| number_in(text).expect("a number");
        let [first, second] = [0, 1].map(|i| COMMANDS[i].published.expect("it has output"));
        // So many inserts took so long.
        assert_eq!((number(first[0]) * number(first[1]) / 1000.0).round(), 1000.0);
        // 4046 inserts, 2972 finds and 2981 erasures.
        let seconds =
            4046.0 / number(second[1]) + 2972.0 / number(second[4]) + 2981.0 / number(second[5]);
        assert!((seconds - number(second[0])).abs() < 0.001, "{seconds}");
        for command in COMMANDS {
            let table = table(&command, &Figures::default(), &STORES);
            assert_eq!(table.rows.len(), STORES.len());
            for row in &table.rows {
                for (cells, block) in row.cells.iter().zip(&table.blocks) {
                    assert!(cells.is_empty() || cells.len() == block.columns.len());
                }
            }
        }
    }

    #[test]
    fn a_command_has_records_enough_for_what_it_inserts() {
        for command in COMMANDS {
            let operations = 5000;
            let inputs = command.data(operations, 1).unwrap();
            let (mut rng, mut inserts) = (Rng::new(1, stream::MIXED), 0);
            for _ in 0..operations {
                let ticket = rng.below(100);
                inserts += usize::from(ticket >= command.part.find + command.part.erase);
                rng.next();
            }
            let loaded = if command.loaded { operations } else { 0 };
            assert!(inputs.records.len() >= inserts + loaded, "{}", command.line);
        }
    }
}
