//! The manual of upscaledb's `ups_bench`: each command that it shows.
//!
//! The experiment: a store is given keys of letters and digits, of 1 byte up to the size that the command says,
//! or ascending numbers; of each hundred operations so many look a key up and so many erase one. The keys of
//! both are drawn as those of inserts are, so that few are there, and an insert of a key that is there is
//! refused: the bytes for an insert and a find that the manual shows, 900 and 29, are those of such draws.
//! Every operation is timed by itself, and operations a second are those of the summed times.
//! [`super::upscaledb_run`] does it.

use super::lab::{Figures, Lab, Plan};
use super::outcome::{Cell, Classes, Outcome, Table, Verdict};
use super::task::Work;
use super::upscaledb_run::{CLOSED, Kind, Mixture, Part};
use crate::driver::Setup;
use crate::rng::Rng;
use crate::workload::generate::stream;
use crate::workload::{Inputs, QuerySets, Ranges, Records};
use credenza::Result;

pub(super) const STORES: [&str; 3] = ["upscaledb", "btree", "hash"];
/// Operations of a command that says nothing of them.
const OPERATIONS: usize = 1_000_000;

/// A command of the manual.
#[derive(Clone, Copy)]
struct Command {
    line: &'static str,
    operations: usize,
    /// Whether so many records are there before, from the command that loaded them.
    loaded: bool,
    key: Keys,
    value: usize,
    part: Mixture,
    /// Whether what is looked up and erased was inserted before.
    is_of_stored: bool,
    setup: Setup,
    rounds: usize,
    /// What the manual shows of its output, in the order of [`COLUMNS`].
    published: Option<[&'static str; 7]>,
    /// The rest of that, in the order of [`LINES`].
    published_lines: Option<[&'static str; LINES.len()]>,
}

#[derive(Clone, Copy)]
enum Keys {
    /// Random letters and digits, as many as this at most.
    Random(usize),
    /// Ascending numbers of 64 bits.
    Ascending,
}

const USUAL: Command = Command {
    line: "ups_bench",
    operations: OPERATIONS,
    loaded: false,
    key: Keys::Random(16),
    value: 1024,
    part: Mixture::INSERTS,
    is_of_stored: false,
    setup: Setup::Ups,
    rounds: 3,
    published: None,
    published_lines: None,
};

const SIMULATED: Command = Command {
    line: "ups_bench --find-pct=30 --erase-pct=10 --keysize=32 --recsize=128",
    key: Keys::Random(32),
    value: 128,
    part: Mixture { find: 30, erase: 10, ..Mixture::INSERTS },
    ..USUAL
};

const COMMANDS: [Command; 10] = [
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
        published_lines: Some([
            "11.239185",
            "1000001",
            "999999",
            "",
            "95224190.254546",
            "0.000000",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
        ]),
        ..USUAL
    },
    Command {
        line: "ups_bench, a command of 10,001 operations that the manual does not show",
        operations: 10_001,
        part: Mixture { find: 30, erase: 30, ..Mixture::INSERTS },
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
        published_lines: Some([
            "0.747461",
            "10001",
            "4046",
            "",
            "70224427.374380",
            "0.000002",
            "2972",
            "",
            "4121208.803951",
            "0.000002",
            "0.000007",
            "0.000093",
            "2981",
            "",
            "0.000002",
            "0.000007",
            "0.000049",
        ]),
        ..USUAL
    },
    Command { line: "ups_bench --keysize=32", key: Keys::Random(32), ..USUAL },
    Command {
        line: "ups_bench --keysize=32 --find-pct=50 --erase-pct=10 --reopen",
        loaded: true,
        key: Keys::Random(32),
        part: Mixture { find: 50, erase: 10, ..Mixture::INSERTS },
        ..USUAL
    },
    SIMULATED,
    Command {
        line: "the same, but what is looked up and erased was inserted before, which no option of ups_bench does",
        is_of_stored: true,
        ..SIMULATED
    },
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
        ..USUAL
    },
    Command {
        line: "ups_bench --use-transactions=10 --duplicate=last",
        part: Mixture { transaction: Some(10), has_duplicates: true, ..Mixture::INSERTS },
        ..USUAL
    },
];

const COLUMNS: [&str; 7] =
    ["seconds", "insert/s", "avg sec", "max sec", "find/s", "erase/s", "file bytes"];
const FIGURES: [&str; 7] =
    ["seconds", "insert", "insert average", "insert longest", "find", "erase", "file"];

/// The lines of its output that are in no column, with the names of their figures.
const LINES: [(&str, &str); 17] = [
    ("total elapsed sec", "elapsed"),
    ("total_#ops", "operations"),
    ("insert_#ops", "insert count"),
    ("of these new, %", "insert done"),
    ("insert_throughput, bytes/s", "insert bytes"),
    ("insert_latency min, sec", "insert shortest"),
    ("find_#ops", "find count"),
    ("of these found, %", "find done"),
    ("find_throughput, bytes/s", "find bytes"),
    ("find_latency min, sec", "find shortest"),
    ("find_latency avg, sec", "find average"),
    ("find_latency max, sec", "find longest"),
    ("erase_#ops", "erase count"),
    ("of these there, %", "erase done"),
    ("erase_latency min, sec", "erase shortest"),
    ("erase_latency avg, sec", "erase average"),
    ("erase_latency max, sec", "erase longest"),
];

/// What random keys are made of.
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl Keys {
    /// Makes the next key; `number` were made before.
    fn draw(self, number: usize, rng: &mut Rng, key: &mut Vec<u8>) {
        key.clear();
        match self {
            Keys::Random(longest) => {
                let len = 1 + rng.index(longest);
                key.extend((0..len).map(|_| ALPHABET[rng.index(ALPHABET.len())]));
            }
            // The highest byte first, so that the order of numbers is that of the keys.
            Keys::Ascending => key.extend((number as u64).to_le_bytes().iter().rev()),
        }
    }
}

impl Command {
    fn part(&self, operations: usize) -> Part {
        Part {
            operations,
            loaded: if self.loaded { operations } else { 0 },
            mixture: self.part,
            is_in_memory: self.setup == Setup::UpsInMemory,
        }
    }

    /// The records that are inserted, and the keys that are looked up and erased.
    fn data(&self, operations: usize, seed: u64) -> Result<Inputs> {
        let (mut records, mut fresh) = (Records::default(), Records::default());
        let (mut rng, mut key, mut value) = (Rng::new(seed, stream::DATA), Vec::new(), Vec::new());
        let part = self.part(operations);
        let load = (0..part.loaded).map(|_| Kind::Insert);
        for kind in load.chain(self.part.operations(operations, seed)) {
            let number = records.len() + fresh.len();
            match kind {
                Kind::Insert => {
                    self.key.draw(number, &mut rng, &mut key);
                    // As ups_bench has it: the number of the operation, and a count of the bytes.
                    value.clear();
                    value.extend((0..self.value).map(|i| i as u8));
                    let len = self.value.min(8);
                    value[..len].copy_from_slice(&(number as u64).to_le_bytes()[..len]);
                    records.push(&key, &value)?;
                }
                Kind::Find | Kind::Erase if self.is_of_stored && records.len() > 0 => {
                    fresh.push(records.key(rng.index(records.len())), b"")?;
                }
                Kind::Find | Kind::Erase => {
                    self.key.draw(number, &mut rng, &mut key);
                    fresh.push(&key, b"")?;
                }
            }
        }
        let ranges = Ranges::draw(&records, 0, seed);
        Ok(Inputs { records, queries: QuerySets::default(), ranges, fresh })
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
        let can_do = |store: &&'static str| *store != "hash" || !command.part.has_duplicates;
        let wanted: Vec<&'static str> = STORES.into_iter().filter(can_do).collect();
        let here = lab.available(&wanted, command.setup, input);
        let figures = lab.measure(&Plan {
            what: format!("upscaledb: {}", command.line),
            stores: &here,
            setup: command.setup,
            input,
            rounds: lab.rounds(command.rounds),
            is_on_disk: false,
            before: None,
            work: Work::Upscaledb(command.part(operations)),
        });
        tables.push(table(command, &figures, &here));
        tables.push(rest(command, &figures, &here));
        let about = format!("ours, {}", command.line);
        let classes = lab.classes(command.setup, command.part.transaction.is_some());
        verdicts.extend(verdict(about, &figures, &here, &classes));
    }
    Outcome {
        document: "upscaledb",
        source: "the manual of ups_bench, upscaledb's benchmark",
        hardware: "no hardware said; upscaledb 2.1.11",
        year: "no year said; its output has a copyright of 2005 to 2015",
        differs: differs(),
        tables,
        verdicts,
        noise: std::mem::take(&mut lab.noise),
    }
}

/// By the seconds with closing: a store that leaves its work to that has not done it sooner.
fn verdict(about: String, figures: &Figures, here: &[&str], classes: &Classes) -> Option<Verdict> {
    Verdict::on_ours(about, figures, here, CLOSED, classes)
}

fn differs() -> Vec<String> {
    [
        "the seconds are the summed times of the operations, as 'upscaledb elapsed time' is; \
         operations that begin and end a transaction are not among those counted, but their time is, \
         and inserts a second have it. Which is faster is said of these and the time of closing: some of what a \
         store has not done before it does then",
        "the total seconds are those from the first operation to the last and of closing; ups_bench's have \
         making its keys in them. Bytes are those of keys and values that were stored, and of values that \
         were found: how few of the keys are there shows in them",
        "hash has one value for a key, and is left out of --duplicate",
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

/// The rest of a command's output, line by line.
fn rest(command: &Command, figures: &Figures, here: &[&str]) -> Table {
    let mut table = Table::new(format!("{}: the other lines of its output", command.line));
    if command.published_lines.is_some() {
        table = table.block("published", &STORES[..1]);
    }
    table = table.block("measured here", here);
    let has_mix = command.part.find > 0;
    let measured =
        |figure| here.iter().flat_map(|store| Cell::measured(figures, store, &[figure])).collect();
    // It has no such line.
    let unpublished = command.published_lines.map(|_| Vec::new());
    table.row("seconds, with closing", unpublished.into_iter().chain([measured(CLOSED)]).collect());
    for (i, (line, figure)) in LINES.iter().enumerate() {
        if !has_mix && (figure.starts_with("find") || figure.starts_with("erase")) {
            continue;
        }
        let published = command.published_lines.map(|texts| Cell::published(&[texts[i]]));
        table.row(*line, published.into_iter().chain([measured(*figure)]).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::outcome::{Holds, number_in};
    use std::collections::HashSet;

    #[test]
    fn work_that_is_left_to_closing_is_judged() {
        let mut figures = Figures::default();
        for round in 0..3 {
            for (store, seconds, closed) in [("btree", 1.0, 9.0), ("upscaledb", 2.0, 3.0)] {
                figures.add(store, "seconds", round, seconds);
                figures.add(store, CLOSED, round, closed);
            }
        }
        let here = ["btree", "upscaledb"];
        let judged = verdict("so".to_owned(), &figures, &here, &Classes::default());
        assert_eq!(judged.unwrap().holds, Holds::No);
    }

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
        // The bytes of an insert and of a find: few of the keys that were looked up were there.
        let lines = COMMANDS.map(|command| command.published_lines);
        let [first_lines, lines] = [0, 1].map(|i| lines[i].expect("it has output"));
        assert_eq!((number(first_lines[4]) / number(first[1]) * 100.0).round(), 90_017.0);
        assert_eq!((number(lines[8]) / number(second[4])).round(), 29.0);
        assert_eq!(number(lines[2]) + number(lines[6]) + number(lines[12]), 9_999.0);
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

    /// Of the manual's million inserts of keys up to 16 bytes, each inserted 900.17 bytes.
    #[test]
    fn as_many_keys_come_again_as_in_the_manual() {
        let inputs = USUAL.data(100_000, 1).unwrap();
        assert_eq!((inputs.records.len(), inputs.fresh.len()), (100_000, 0));
        let keys: HashSet<&[u8]> = inputs.records.iter().map(|(key, _)| key).collect();
        let lens: HashSet<usize> = keys.iter().map(|key| key.len()).collect();
        assert_eq!(lens, (1..=16).collect());
        // 62 keys of one byte, 3,844 of two; of a hundred thousand draws a sixteenth has either length.
        let refused = 100_000 - keys.len();
        assert!((6_188 + 3_100..6_188 + 3_900).contains(&refused), "{refused}");
    }

    #[test]
    fn keys_that_are_to_be_there_were_inserted_before() {
        for command in COMMANDS.iter().filter(|command| command.part.find > 0) {
            let inputs = command.data(2000, 1).unwrap();
            let stored: HashSet<&[u8]> = inputs.records.iter().map(|(key, _)| key).collect();
            let there = inputs.fresh.iter().filter(|(key, _)| stored.contains(key)).count();
            let (all, is_all) = (inputs.fresh.len(), there == inputs.fresh.len());
            assert!(is_all || (!command.is_of_stored && there < all / 5), "{}", command.line);
        }
    }
}
