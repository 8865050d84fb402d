//! mcdb's `t/PERFORMANCE`: mcdb against Tokyo Cabinet's hash, with the decimal numbers as keys and
//! values.
//!
//! The experiment: 1,000,000 records are made and 1,000,000 random keys looked up, of which all,
//! nine of ten, or none are there; in memory, and with nothing in memory, with and without asking
//! for all pages first. Then larger stores are made, and `mcdbctl stats` is run on one of
//! 10,000,000 records: it reads every record and looks its key up. Nothing is tuned: the test
//! programs of mcdb open Tokyo Cabinet as it comes.

use super::lab::{Figures, Input, Lab, Plan};
use super::outcome::{Cell, Classes, Holds, Outcome, Table, Verdict, in_words, rows};
use super::task::{Bench, Work};
use crate::driver::{Driver, Reading, Setup, Store};
use crate::machine;
use crate::report::text;
use crate::runner::passes::{self, Total};
use crate::workload::{Content, Data, Queries};
use credenza::Result;
use serde::{Deserialize, Serialize};
use std::time::Instant;

pub(super) const STORES: [&str; 6] =
    ["constant", "hash", "btree", "mcdb", "cdb", "tokyocabinet-hash"];
/// Those that the document has figures of.
const PUBLISHED: [&str; 2] = ["mcdb", "tokyocabinet-hash"];
/// The records of most of the experiment, and the lookups.
const RECORDS: usize = 1_000_000;
/// Larger stores that are made. Of the largest the document says what mcdb did.
const LARGER: [(usize, &str); 4] =
    [(3_000_000, "3 M"), (4_000_000, "4 M"), (10_000_000, "10 M"), (30_000_000, "30 M")];
/// That of which statistics are taken.
const WITH_STATS: usize = LARGER[2].0;
const LARGEST_STORES: [&str; 2] = ["constant", "mcdb"];
/// What a process with the largest store and its data takes, about.
const LARGEST_MEMORY: u64 = 8 << 30;

/// What one process does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Part {
    /// Make the store and look keys up in it.
    Memory,
    /// Make the store.
    Create,
    /// Look keys up of which nothing is in memory.
    Disk,
    /// Make the store in memory, put it on the disk, and read every record and look its key up.
    Stats,
}

pub(super) fn measure<D: Driver>(bench: &Bench<'_, D>, part: Part) -> Result<()> {
    match part {
        Part::Memory => memory(bench),
        Part::Create => {
            let (seconds, wrong) = bench.build()?;
            bench.tell("create", seconds, wrong)
        }
        Part::Disk => {
            bench.build()?;
            cold(bench, "cold", |_| Ok(()))?;
            cold(bench, "prefault", |store| store.preload(&bench.task.folder))
        }
        Part::Stats => stats(bench),
    }
}

fn memory<D: Driver>(bench: &Bench<'_, D>) -> Result<()> {
    let (seconds, wrong) = bench.build()?;
    bench.tell("create", seconds, wrong)?;
    let bytes = bench.file_bytes()?;
    bench.tell("size", bytes as f64 / f64::from(1 << 20), None)?;
    // Below 0 for a store that compresses.
    let over = bytes as f64 - bench.shape.bytes() as f64;
    bench.tell("over", over / bench.shape.records as f64, None)?;
    let mut store = bench.open(Reading::Warm)?;
    let queries = &bench.inputs.queries;
    for (name, queries) in [("hit", &queries.hit), ("most", &queries.most), ("miss", &queries.miss)]
    {
        let (seconds, wrong) = bench.gets(&mut store, queries)?;
        bench.tell(name, seconds, wrong)?;
    }
    Ok(())
}

/// Opens the store and looks all keys up, with nothing of it in memory before.
fn cold<D: Driver>(
    bench: &Bench<'_, D>,
    name: &str,
    prepare: impl FnOnce(&mut D::Store<'_>) -> Result<()>,
) -> Result<()> {
    let reading = if name == "prefault" { Reading::ColdNormal } else { Reading::ColdRandom };
    bench.evict()?;
    let start = Instant::now();
    let mut store = bench.open(reading)?;
    prepare(&mut store)?;
    let opened = start.elapsed().as_secs_f64();
    let (seconds, wrong) = bench.gets_once(&mut store, &bench.inputs.queries.hit)?;
    bench.tell(name, opened + seconds, wrong)
}

/// How long it takes to make the store; then all of it is read with nothing in memory, and once again.
fn stats<D: Driver>(bench: &Bench<'_, D>) -> Result<()> {
    let start = Instant::now();
    bench.driver.build(&bench.inputs.records, &bench.shape, &bench.place_to_make())?;
    let seconds = start.elapsed().as_secs_f64();
    bench.put_in_place()?;
    let (keys, wrong) = keys_in_order(&mut bench.open(Reading::Warm)?, bench.content)?;
    bench.tell("create", seconds, wrong.clone())?;
    bench.tell("size", bench.file_bytes()? as f64 / f64::from(1 << 20), None)?;
    let expected = Total::of_all(&bench.inputs.records);
    bench.evict()?;
    for name in ["cold", "cached"] {
        let start = Instant::now();
        let mut store = bench.open(Reading::ColdNormal)?;
        store.preload(&bench.task.folder)?;
        let read = passes::scan(&mut store)?;
        let found = passes::get(&mut store, &keys)?;
        let seconds = start.elapsed().as_secs_f64();
        let wrong = wrong
            .clone()
            .or_else(|| read.unlike(expected, "what is read"))
            .or_else(|| found.unlike(expected, "what is looked up"));
        bench.tell(name, seconds, wrong)?;
    }
    Ok(())
}

/// The keys in the order in which the store has them, as a store that is being read cannot be asked; and what
/// is wrong with its records, in words.
fn keys_in_order<S: Store>(store: &mut S, expected: Content) -> Result<(Queries, Option<String>)> {
    let (mut keys, mut content) = (Queries::default(), Content::default());
    store.scan(|key, value| {
        keys.push(key, 0);
        content.add(key, value);
    })?;
    let wrong = (content != expected)
        .then(|| format!("it has {} records, not those {}", content.count, expected.count));
    Ok((keys, wrong))
}

// --- the parent's side ---------------------------------------------------------------------------

pub(super) fn run(lab: &mut Lab<'_>) -> Outcome {
    let records = lab.args.scaled(RECORDS, 1000);
    let input = lab.input(Data::Decimal, records, records);
    let stores = &lab.available(&STORES, Setup::Mcdb, &input)[..];
    let number = text::count(records as u64);
    let memory = part(lab, format!("mcdb: {number} records"), stores, &input, Part::Memory);
    let what = format!("mcdb: {number} records, nothing in memory");
    let cold = part(lab, what, stores, &input, Part::Disk);
    let mut created = vec![("1 M", memory.clone())];
    let mut stats = Figures::default();
    for (count, name) in LARGER {
        let (figures, more) = larger(lab, count, stores);
        created.push((name, figures));
        stats.join(more);
    }
    let shown = rows(&STORES, stores, &PUBLISHED);
    let tables = vec![
        creation(&created, &shown),
        lookups(&memory, &shown, &number),
        uncached(&cold, &shown, &number),
        statistics(&stats, &shown),
        sizes(&memory, &shown, &number),
    ];
    Outcome {
        document: "mcdb",
        source: "t/PERFORMANCE of mcdb, https://github.com/gstrauss/mcdb",
        hardware: "Pentium-M laptop, 2 GHz, 1 GB of memory, one 60 GB SATA drive; lookups also on \
                   2 x 4-core Intel Core i7-2600K with SSD",
        year: "no year said; the test programs are of 2011",
        differs: vec![
            "keys and queries are made before the clock starts, not within; the time of a process \
             to start and end is not in it"
                .to_owned(),
            "keys that are not there are drawn as there, and all above the largest that is: btree \
             answers them at its last leaf"
                .to_owned(),
            "the document does not say of which hit rate its lookups are".to_owned(),
            "stats reads all records and then looks up their keys, which were noted before in the \
             order of the file; mcdbctl looks each up when it has read it"
                .to_owned(),
            format!(
                "stores of 3 M records and more are made, and read as a whole, in {}; the document has one figure",
                text::counted(lab.rounds(1), "round")
            ),
            "Tokyo Cabinet is made with 4 M records at most, as there".to_owned(),
            "stores without a call for it are brought into memory by reading their files, as the \
             document does with cat"
                .to_owned(),
        ],
        tables,
        verdicts: verdicts(
            &memory,
            &cold,
            &created,
            &stats,
            stores,
            &lab.classes(Setup::Mcdb, false),
        ),
        noise: std::mem::take(&mut lab.noise),
    }
}

fn part(
    lab: &mut Lab<'_>,
    what: String,
    stores: &[&'static str],
    input: &Input,
    part: Part,
) -> Figures {
    let is_on_disk = matches!(part, Part::Disk | Part::Stats);
    // The document says of larger stores how long each took, once.
    let usual = if matches!(part, Part::Create | Part::Stats) { 1 } else { 3 };
    let (setup, rounds, work) = (Setup::Mcdb, lab.rounds(usual), Work::Mcdb(part));
    lab.measure(&Plan { what, stores, setup, input, rounds, is_on_disk, before: None, work })
}

/// Creation of a larger store, and what `mcdbctl stats` does on that of 10,000,000 records.
fn larger(lab: &mut Lab<'_>, count: usize, stores: &[&'static str]) -> (Figures, Figures) {
    let (records, is_largest) = (lab.args.scaled(count, 1000), count == LARGER[3].0);
    let scale = count as f64 * lab.args.scale;
    if is_largest && scale > 1e7 && machine::memory_bytes() < LARGEST_MEMORY {
        lab.notes.push("mcdb: 30 M records were left out: they need 8 GiB of memory".to_owned());
        return Default::default();
    }
    let input = lab.input(Data::Decimal, records, 0);
    let number = text::count(records as u64);
    // Behind its cliff Tokyo Cabinet takes minutes, of which the document says nothing.
    let is_behind_cliff = count > LARGER[1].0;
    let is_maker = |store: &&'static str| match is_largest {
        true => LARGEST_STORES.contains(store),
        false => !(is_behind_cliff && *store == PUBLISHED[1]),
    };
    let makers: Vec<&'static str> = stores.iter().copied().filter(is_maker).collect();
    if count != WITH_STATS {
        let what = format!("mcdb: creation of {number} records");
        return (part(lab, what, &makers, &input, Part::Create), Figures::default());
    }
    let what = format!("mcdb: creation and stats of {number} records");
    let figures = part(lab, what, &makers, &input, Part::Stats);
    (figures.clone(), figures)
}

// --- what was published, beside what is measured --------------------------------------------------

fn creation(created: &[(&'static str, Figures)], stores: &[&str]) -> Table {
    let columns: Vec<&str> = created.iter().map(|(name, _)| *name).collect();
    let mut table = Table::new("Creation of so many records, in seconds")
        .block("published, Pentium-M", &columns)
        .block("measured here", &columns);
    for store in stores {
        let published = match *store {
            "mcdb" => Cell::published(&["", "", "", "~15", "~60"]),
            "tokyocabinet-hash" => Cell::published(&["", "~21", "~2m 45s", "", ""]),
            _ => Vec::new(),
        };
        let cell = |figures: &Figures| Cell::measured(figures, store, &["create"]).remove(0);
        let measured = created.iter().map(|(_, figures)| cell(figures)).collect();
        table.row(*store, vec![published, measured]);
    }
    table
}

fn lookups(figures: &Figures, stores: &[&str], number: &str) -> Table {
    let mut table = Table::new(format!("{number} random lookups in memory, in seconds"))
        .block("Pentium-M", &["lookups"])
        .block("i7-2600K", &["lookups"])
        .block("measured here, by hit rate", &["100 %", "90 %", "0 %"]);
    for store in stores {
        let [old, new] = match *store {
            "mcdb" => [["< 0.37"], ["0.19"]].map(|texts| Cell::published(&texts)),
            "tokyocabinet-hash" => [["> 1.1"], ["0.32"]].map(|texts| Cell::published(&texts)),
            _ => [Vec::new(), Vec::new()],
        };
        let measured = Cell::measured(figures, store, &["hit", "most", "miss"]);
        table.row(*store, vec![old, new, measured]);
    }
    table
}

fn uncached(figures: &Figures, stores: &[&str], number: &str) -> Table {
    let columns = ["as it is", "prefault"];
    let title = format!("{number} random lookups, nothing in memory before, in seconds");
    let mut table =
        Table::new(title).block("published, Pentium-M", &columns).block("measured here", &columns);
    for store in stores {
        let published = match *store {
            "mcdb" => Cell::published(&["40", "3.1"]),
            "tokyocabinet-hash" => Cell::published(&["5.8", ""]),
            _ => Vec::new(),
        };
        let measured = Cell::measured(figures, store, &["cold", "prefault"]);
        table.row(*store, vec![published, measured]);
    }
    table
}

fn statistics(figures: &Figures, stores: &[&str]) -> Table {
    let columns = ["cold", "cached", "MiB"];
    let title = "mcdbctl stats: every record of 10 M read and its key looked up, in seconds";
    let mut table =
        Table::new(title).block("published, Pentium-M", &columns).block("measured here", &columns);
    for store in stores.iter().filter(|store| **store != PUBLISHED[1]) {
        let published = match *store {
            "mcdb" => Cell::published(&["41.5", "2.3", "534"]),
            _ => Vec::new(),
        };
        let measured = Cell::measured(figures, store, &["cold", "cached", "size"]);
        table.row(*store, vec![published, measured]);
    }
    table
}

fn sizes(figures: &Figures, stores: &[&str], number: &str) -> Table {
    let columns = ["MiB", "bytes a record over its own"];
    let mut table = Table::new(format!("The file of {number} records of 8 + 8 bytes"))
        .block("published", &["MiB", "over"])
        .block("measured here", &columns);
    for store in stores {
        let published = match *store {
            "mcdb" => Cell::published(&["38.2", "24"]),
            "tokyocabinet-hash" => Cell::published(&["31.0", "16"]),
            _ => Vec::new(),
        };
        let measured = Cell::measured(figures, store, &["size", "over"]);
        table.row(*store, vec![published, measured]);
    }
    table
}

fn verdicts(
    memory: &Figures,
    cold: &Figures,
    created: &[(&'static str, Figures)],
    stats: &Figures,
    stores: &[&str],
    classes: &Classes,
) -> Vec<Verdict> {
    const AGAINST: (&str, &str) = ("mcdb", "tokyocabinet-hash");
    let claim =
        |about: &str, pair, name, times| Verdict::on_claim(about, memory, pair, name, times);
    let on_laptop = "lookups in memory: mcdb 3 times as fast as Tokyo Cabinet (Pentium-M)";
    let on_server = "lookups in memory: mcdb 1.7 times as fast as Tokyo Cabinet (i7-2600K)";
    let mut verdicts = vec![
        claim(on_laptop, AGAINST, "hit", 3.0),
        claim(on_server, AGAINST, "hit", 1.7),
        claim("lookups: mcdb almost 33 % faster than cdb", ("mcdb", "cdb"), "hit", 1.33),
        claim("creation: mcdb 3 times as fast as cdb", ("mcdb", "cdb"), "create", 3.0),
    ];
    verdicts.extend(prefaulting(cold));
    verdicts.extend(cliff(created));
    let ours = [
        ("our creation", memory, "create"),
        ("our lookups, 100 % there", memory, "hit"),
        ("our lookups, 90 % there", memory, "most"),
        ("our lookups, none there", memory, "miss"),
        ("our lookups from a cold cache", cold, "cold"),
        ("our lookups from a cold cache, prefaulted", cold, "prefault"),
        ("our stats from a cold cache", stats, "cold"),
        ("our stats in memory", stats, "cached"),
    ];
    let ours = ours.into_iter();
    let none = Classes::default();
    verdicts.extend(ours.filter_map(|(what, figures, name)| {
        let classes = if name == "create" { classes } else { &none };
        Verdict::on_ours(what, figures, stores, name, classes)
    }));
    verdicts
}

/// From 40 seconds to 3.1; and then faster than Tokyo Cabinet, which has no such call.
fn prefaulting(cold: &Figures) -> Vec<Verdict> {
    let mut pairs = Figures::default();
    for (store, from, to) in [
        ("mcdb", "prefault", "prefaulted"),
        ("mcdb", "cold", "as it is"),
        ("tokyocabinet-hash", "cold", "tokyocabinet"),
    ] {
        pairs.take((to, "seconds"), cold, (store, from));
    }
    let claim = |about: &str, slow, times| {
        Verdict::on_claim(about, &pairs, ("prefaulted", slow), "seconds", times)
    };
    vec![
        claim("cold lookups: prefaulting makes mcdb 13 times as fast", "as it is", 13.0),
        claim(
            "cold lookups: prefaulted, mcdb 1.9 times as fast as Tokyo Cabinet",
            "tokyocabinet",
            1.9,
        ),
    ]
}

/// The time for a record with 4,000,000 of them, as a multiple of that with 3,000,000. Below twice as long it is
/// no cliff.
fn cliff(created: &[(&'static str, Figures)]) -> Option<Verdict> {
    let mut of_record = Figures::default();
    for (name, millions) in [("3 M", 3.0), ("4 M", 4.0)] {
        let (_, figures) = created.iter().find(|(of, _)| *of == name)?;
        for (round, seconds) in figures.of("tokyocabinet-hash", "create") {
            of_record.add(name, "a record", *round, seconds / millions);
        }
    }
    let ratio = of_record.ratio("3 M", "4 M", "a record")?;
    let holds = match Holds::by(&ratio, 5.9) {
        Holds::Yes | Holds::Less if ratio.median < 2.0 => Holds::No,
        holds => holds,
    };
    let word = match holds {
        Holds::Yes => "it holds",
        Holds::Less => "it is more, but by less",
        Holds::No => "no such thing is seen here",
        Holds::Unsaid => "too few rounds to say",
    };
    Some(Verdict {
        about: "Tokyo Cabinet falls off a cliff between 3 and 4 million records: each takes 5.9 \
                times as long"
            .to_owned(),
        here: format!("here {}: {word}", in_words(&ratio).replace("as fast", "as long")),
        holds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::outcome::number_in;

    #[test]
    fn what_was_published_is_in_its_place() {
        let none = Figures::default();
        let all: Vec<(&str, Figures)> =
            ["1 M", "3 M", "4 M", "10 M", "30 M"].map(|name| (name, none.clone())).into();
        let mut numbers = Vec::new();
        let tables = [
            creation(&all, &STORES),
            lookups(&none, &STORES, "1"),
            uncached(&none, &STORES, "1"),
            sizes(&none, &STORES, "1"),
        ];
        for table in tables {
            assert_eq!(table.rows.len(), STORES.len());
            for row in &table.rows {
                for (block, cells) in table.blocks.iter().zip(&row.cells) {
                    assert!(cells.is_empty() || cells.len() == block.columns.len(), "{row:?}");
                }
                for cell in row.cells.iter().flatten() {
                    if let Cell::Published(text) = cell {
                        numbers.push(number_in(text).unwrap_or_else(|| panic!("{text}")));
                    }
                }
            }
        }
        // Those of mcdb, then those of Tokyo Cabinet, table by table.
        let published =
            [15., 60., 21., 165., 0.37, 0.19, 1.1, 0.32, 40., 3.1, 5.8, 38.2, 24., 31.0, 16.];
        assert_eq!(numbers, published);
    }
}
