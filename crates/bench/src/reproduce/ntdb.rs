//! The benchmark of NTDB against TDB and TDB2, from the message of the change in Samba that removed
//! expanding hash tables from NTDB.
//!
//! The experiment: the numbers from 0 are stored under themselves, four bytes each, then stored
//! again, then fetched, in a new store each time; its size is taken. Then smbtorture's `tdb_speed`:
//! a store gets so many pairs of records, from a security identifier to a user's number and back,
//! and for a while pairs are looked up at random; one look-up of both is an operation. Sizes of hash
//! tables are those of the document, and every call takes the locks that it takes by default.

use super::lab::{Figures, Lab, Plan};
use super::outcome::{Cell, Classes, Holds, Outcome, Pair, Table, Verdict, rows};
use super::task::{Bench, Work};
use crate::driver::{Driver, Reading, Setup, Store, Writer};
use crate::report::stats::Ratio;
use crate::report::text;
use crate::rng::Rng;
use crate::runner::passes;
use crate::workload::Data;
use crate::workload::generate::stream;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

pub(super) const STORES: [&str; 5] = ["tdb", "tdb2", "ntdb", "hash", "btree"];
const SIZES: [usize; 5] = [100, 1000, 10_000, 100_000, 1_000_000];
/// Runs of each size, as the document had them.
const ROUNDS: usize = 10;
/// How long pairs are looked up, untimed and then timed. The original has ten seconds, and does not warm up.
const SPEED_TIME: Duration = Duration::from_millis(100);
/// Operations between two looks at the clock.
const SPEED_BATCH: u64 = 64;

const FIGURES: [&str; 5] = ["insert", "reinsert", "fetch", "size", "speed"];
const COLUMNS: [&str; 5] = ["ins", "re-ins", "fetch", "size", "speed"];

/// What the document printed: insert, re-insert and fetch in nanoseconds, the size in KB, and
/// operations a second, for each number of records.
const PUBLISHED: [(&str, &str, [[&str; 5]; 5]); 3] = [
    (
        "tdb",
        "TDB (10000 hashsize)",
        [
            ["3882", "3320", "1609", "53", "203204"],
            ["3651", "3281", "1571", "115", "218021"],
            ["3404", "3326", "1595", "880", "202874"],
            ["4317", "3825", "2097", "8262", "126811"],
            ["11568", "11578", "9320", "77005", "25046"],
        ],
    ),
    (
        "tdb2",
        "TDB2 (1024 hashsize, expandable)",
        [
            ["3867", "3329", "1699", "17", "187100"],
            ["4040", "3249", "1639", "154", "186255"],
            ["4143", "3300", "1695", "1226", "185110"],
            ["4481", "3425", "1800", "17848", "163483"],
            ["4055", "3534", "1878", "106386", "160774"],
        ],
    ),
    (
        "ntdb",
        "NTDB (8192 hashsize)",
        [
            ["4259", "3376", "1692", "82", "190852"],
            ["3640", "3275", "1566", "130", "195106"],
            ["4337", "3438", "1614", "773", "188362"],
            ["4750", "5165", "1746", "9001", "169197"],
            ["4897", "5180", "2341", "83838", "121901"],
        ],
    ),
];

/// What one process does with one number of records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Part {
    /// Store, store again and fetch.
    Numbers,
    /// Store so many pairs of names. They fall into few chains of TDB, so that storing two million of them takes
    /// minutes, of which nothing is timed: it is done once, and looked up in all runs.
    Pairs(u64),
    /// Look so many pairs of names up for so long.
    Speed(u64, Duration),
}

pub(super) fn measure<D: Driver>(bench: &Bench<'_, D>, part: &Part) -> Result<()> {
    match part {
        Part::Numbers => {
            let (figures, wrong) = numbers(bench)?;
            let mut figures = figures.into_iter();
            figures.try_for_each(|(name, figure)| bench.tell(name, figure, wrong.clone()))
        }
        Part::Pairs(count) => pairs(bench, *count),
        Part::Speed(count, time) => speed(bench, *count, *time),
    }
}

/// The figures of some records, and what is wrong with the answers.
type Numbers = ([(&'static str, f64); 4], Option<String>);

/// Gives the figures and what is wrong with the answers, which are compared before any figure is told.
fn numbers<D: Driver>(bench: &Bench<'_, D>) -> Result<Numbers> {
    let records = &bench.inputs.records;
    let ns = |start: Instant| start.elapsed().as_nanos() as f64 / records.len() as f64;
    let mut writer = bench.driver.create(&bench.path, &bench.shape)?;
    let mut stored = [0.0; 2];
    for stored in &mut stored {
        let start = Instant::now();
        for (key, value) in records.iter() {
            writer.insert(key, value)?;
        }
        *stored = ns(start);
    }
    let (mut found, start) = (0, Instant::now());
    for (key, value) in records.iter() {
        writer.get(key, |got| found += usize::from(got == value))?;
    }
    let fetched = ns(start);
    writer.close()?;
    let kilobytes = bench.file_bytes()? as f64 / 1024.0;
    // Nothing of it is timed: a lock for each record would be most of it.
    let unlocked = bench.shape.set_up(Setup::Tuned);
    let mut store = bench.driver.open(&bench.path, &unlocked, Reading::Warm)?;
    let scanned = passes::check_scan(&mut store, bench.content)?;
    let missed = (found != records.len()).then(|| format!("{found} right of {}", records.len()));
    let wrong = missed.or(scanned);
    let [insert, reinsert] = stored;
    let figures =
        [("insert", insert), ("reinsert", reinsert), ("fetch", fetched), ("size", kilobytes)];
    Ok((figures, wrong))
}

/// Writes one of a pair's two names, as the original does: with a byte 0 at its end.
fn name_of(number: u64, is_user: bool, into: &mut Vec<u8>) {
    use std::io::Write;
    into.clear();
    // Writing to a vector cannot fail.
    let _ = match is_user {
        true => write!(into, "UID {number}\0"),
        false => write!(into, "S-1-5-21-53173311-3623041448-2049097239-{number}\0"),
    };
}

/// What smbtorture's `tdb_speed` stores.
fn pairs<D: Driver>(bench: &Bench<'_, D>, count: u64) -> Result<()> {
    let mut writer = bench.driver.create(&bench.path, &bench.shape)?;
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for i in 0..count {
        for is_user in [false, true] {
            name_of(i, is_user, &mut key);
            name_of(i + 10_000, !is_user, &mut value);
            // It is new: told so, TDB goes through its chain once and not twice.
            if !writer.insert_if_absent(&key, &value)? {
                return Err(Error::invalid(format!("'{}' is there already", key.escape_ascii())));
            }
        }
    }
    writer.close()
}

/// What `tdb_speed` times: as there, by a handle that could write.
fn speed<D: Driver>(bench: &Bench<'_, D>, pairs: u64, time: Duration) -> Result<()> {
    let mut writer = bench.driver.reopen(&bench.path, &bench.shape, false)?;
    let mut rng = Rng::new(bench.task.seed, stream::MIXED);
    let found = look_up_warm(&mut writer, pairs, &mut rng, time)?;
    let LookedUp { count, seconds, wrong } = found;
    bench.tell("speed", count as f64 / seconds, wrong.clone())?;
    bench.tell("speed ns", seconds * 1e9 / count as f64, wrong)?;
    writer.close()
}

/// Pairs that were looked up, how long it took, and what was wrong.
struct LookedUp {
    count: u64,
    seconds: f64,
    wrong: Option<String>,
}

/// Looks random pairs up for so long, after it was done for as long untimed: the process is new, and its first
/// touches of the pages of a map, which the kernel answers, are not what a lookup takes.
fn look_up_warm<S: Store>(
    store: &mut S,
    pairs: u64,
    rng: &mut Rng,
    time: Duration,
) -> Result<LookedUp> {
    let before = look_up(store, pairs, rng, time)?;
    let timed = look_up(store, pairs, rng, time)?;
    Ok(LookedUp { wrong: before.wrong.or(timed.wrong), ..timed })
}

/// Looks random pairs up for so long.
fn look_up<S: Store>(store: &mut S, pairs: u64, rng: &mut Rng, time: Duration) -> Result<LookedUp> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let (mut count, mut wrong, start) = (0, None, Instant::now());
    while start.elapsed() < time {
        for _ in 0..SPEED_BATCH {
            let i = rng.below(pairs);
            for is_user in [false, true] {
                name_of(i, is_user, &mut key);
                name_of(i + 10_000, !is_user, &mut value);
                let mut is_right = false;
                store.get(&key, |got| is_right = got == value)?;
                if !is_right {
                    wrong = Some(format!("key '{}' has not its value", key.escape_ascii()));
                }
            }
        }
        count += SPEED_BATCH;
    }
    Ok(LookedUp { count, seconds: start.elapsed().as_secs_f64(), wrong })
}

// --- the parent's side ---------------------------------------------------------------------------

pub(super) fn run(lab: &mut Lab<'_>) -> Outcome {
    let mut sizes: Vec<Size> = Vec::new();
    let mut here = Vec::new();
    let scaled = |lab: &Lab<'_>, size| lab.args.scaled(size, 100);
    let speed_time = lab.args.time(SPEED_TIME);
    for size in SIZES {
        let records = scaled(lab, size);
        if lab.is_over() || sizes.iter().any(|(of, ..)| *of == records) {
            continue;
        }
        let input = &lab.input(Data::Ntdb, records, 0);
        here = lab.available(&STORES, Setup::Ntdb, input);
        let number = text::count(records as u64);
        let rounds = lab.rounds(ROUNDS);
        let plan = |what, input, before: Option<Part>, part| Plan {
            what: format!("ntdb: {number} {what}"),
            stores: &here,
            setup: Setup::Ntdb,
            input,
            rounds,
            is_on_disk: false,
            before: before.map(Work::Ntdb),
            work: Work::Ntdb(part),
        };
        let mut figures = lab.measure(&plan("records", input, None, Part::Numbers));
        // Each of the many processes would read a million numbers that it does not look at.
        let (no_input, pairs) = (&lab.input(Data::Ntdb, 1, 0), records as u64);
        let (before, part) = (Part::Pairs(pairs), Part::Speed(pairs, speed_time));
        figures.join(lab.measure(&plan("pairs, speed", no_input, Some(before), part)));
        // A smaller store stands in the place of the document's one: there are no figures of it.
        sizes.push((records, (records == size).then_some(size), figures));
    }
    Outcome {
        document: "ntdb",
        source: "the message of the change that removed the expanding hash table from NTDB, in Samba",
        hardware: "no hardware said; compiled with -O2, 10 runs, on tmpfs",
        year: "no year said; NTDB came into Samba in 2012",
        differs: differs(lab),
        tables: vec![table(&sizes, &here)],
        verdicts: verdicts(&sizes, &here, &lab.classes(Setup::Ntdb, false)),
        noise: std::mem::take(&mut lab.noise),
    }
}

fn differs(lab: &Lab<'_>) -> Vec<String> {
    vec![
        format!("every figure is a median of {}", text::counted(lab.rounds(ROUNDS), "run")),
        "pairs of names are stored once, and looked up in each run by a new process".to_owned(),
        format!(
            "speed is measured for {0} s each, not 10, after {0} s that are not timed",
            lab.args.time(SPEED_TIME).as_secs_f64()
        ),
        "speed has in it, as there, that four names are written for each pair, for every store alike"
            .to_owned(),
        "hash takes its lock between processes for each change, as TDB and its successors do; btree \
         makes all changes in one transaction"
            .to_owned(),
    ]
}

/// Records here, records of the document if there are as many, and what was found.
type Size = (usize, Option<usize>, Figures);

fn table(sizes: &[Size], stores: &[&str]) -> Table {
    let title = "Times in nanoseconds for an operation, sizes in KB, speed in operations a second";
    let mut table = Table::new(title).block("published", &COLUMNS).block("measured here", &COLUMNS);
    for store in rows(&STORES, stores, &STORES[..3]) {
        let document = PUBLISHED.iter().find(|(name, ..)| *name == store);
        table.row(document.map_or(store, |(_, title, _)| *title), Vec::new());
        for (records, size, figures) in sizes {
            let published = document.zip(*size).and_then(|((.., rows), size)| {
                let i = SIZES.iter().position(|of| *of == size)?;
                Some(Cell::published(&rows[i]))
            });
            let measured = Cell::measured(figures, store, &FIGURES);
            table.row(format!("{records:>7}"), vec![published.unwrap_or_default(), measured]);
        }
    }
    table
}

fn verdicts(sizes: &[Size], stores: &[&str], classes: &Classes) -> Vec<Verdict> {
    let none = Figures::default();
    let of = |size| {
        sizes.iter().find(|(_, of, _)| *of == Some(size)).map_or(&none, |(.., figures)| figures)
    };
    let (small, long, longest) = (1000, 100_000, 1_000_000);
    let claims = [
        ("1,000 records: TDB beats TDB2 by 15 % in speed", small, "tdb", "tdb2", "speed ns", 1.15),
        ("1,000 records: TDB beats NTDB by 10 % in speed", small, "tdb", "ntdb", "speed ns", 1.1),
        (
            "100,000 records: TDB2 fetches faster than TDB, by 10 %",
            long,
            "tdb2",
            "tdb",
            "fetch",
            1.1,
        ),
        (
            "100,000 records: NTDB fetches faster than TDB, by 10 %",
            long,
            "ntdb",
            "tdb",
            "fetch",
            1.1,
        ),
        ("1,000,000: NTDB fetches 4 times as fast as TDB", longest, "ntdb", "tdb", "fetch", 4.0),
        ("1,000,000: TDB2 fetches 5 times as fast as TDB", longest, "tdb2", "tdb", "fetch", 5.0),
        (
            "1,000,000: NTDB inserts 2 to 3 times as fast as TDB",
            longest,
            "ntdb",
            "tdb",
            "insert",
            2.0,
        ),
    ];
    let claim = |(about, size, fast, slow, name, times)| {
        Verdict::on_claim(about, of(size), (fast, slow), name, times)
    };
    let mut verdicts: Vec<Verdict> = claims.map(claim).into();
    // By its own table they are so much larger: more cannot be asked for.
    verdicts.extend(larger(
        of(longest),
        "tdb2",
        "TDB2 databases are 40 % larger than those of TDB (38 % in the table)",
        38.0,
    ));
    verdicts.extend(larger(
        of(longest),
        "ntdb",
        "NTDB databases are 15 % larger than those of TDB (9 % in the table)",
        9.0,
    ));
    let none = &Classes::default();
    let ours = [
        ("insert", "insert", classes),
        ("re-insert", "reinsert", classes),
        ("fetch", "fetch", none),
        ("speed", "speed ns", none),
    ];
    let ours = ours.into_iter();
    verdicts.extend(
        ours.filter_map(|(what, name, classes)| on_ours(what, sizes, stores, name, classes)),
    );
    verdicts
}

/// Sizes do not scatter: one round tells them.
fn larger(figures: &Figures, store: &str, about: &str, published: f64) -> Option<Verdict> {
    let percent = (figures.median(store, "size")? / figures.median("tdb", "size")? - 1.0) * 100.0;
    let (holds, word) = match percent {
        _ if percent.round() >= published => (Holds::Yes, "it holds"),
        _ if percent > 0.0 => (Holds::Less, "they are larger, but by less"),
        _ => (Holds::No, "it does not hold here"),
    };
    let here = format!("here they are {} % larger: {word}", text::number(percent));
    Some(Verdict { about: about.to_owned(), here, holds })
}

/// The best of ours against the best of the rivals, for every size in one line.
fn on_ours(
    what: &str,
    sizes: &[Size],
    stores: &[&str],
    name: &str,
    classes: &Classes,
) -> Option<Verdict> {
    let (mut here, mut seen) = (String::new(), Vec::new());
    for (records, _, figures) in sizes {
        let Some(pair) = Pair::of(figures, stores, name, classes) else { continue };
        let ratio: Ratio = figures.ratio(pair.own, pair.rival, name)?;
        let (number, times) = (text::count(*records as u64), text::number(ratio.median));
        let unlike = |(own, rival)| format!("; {own}, {} {rival}", pair.rival);
        let unlike = pair.classes.map(unlike).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = write!(here, ", {} {times} ({number}{unlike})", pair.own);
        seen.push(pair.holds(&ratio));
    }
    Some(Verdict {
        about: format!("our {what}, times as fast as the fastest rival (with so many records)"),
        here: here.strip_prefix(", ")?.to_owned(),
        holds: Holds::all(seen),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Changes;
    use crate::reproduce::outcome::number_in;
    use crate::reproduce::task::with_bench;
    use crate::runner::liar::Lie;

    #[test]
    fn what_was_published_is_all_numbers_and_keeps_its_sense() {
        for (_, title, rows) in PUBLISHED {
            let numbers = rows.map(|row| row.map(|text| number_in(text).expect("a number")));
            assert!(numbers.iter().all(|row| row[0] > row[2]), "{title}: fetch is the fastest");
            assert!(numbers.map(|row| row[3]).is_sorted(), "{title}: sizes grow");
        }
        let sizes: Vec<Size> = SIZES.map(|size| (size, Some(size), Figures::default())).into();
        let table = table(&sizes, &STORES);
        assert_eq!(table.rows.len(), 5 * (1 + SIZES.len()));
        let published = table.rows.iter().flat_map(|row| row.cells.first()).flatten();
        assert_eq!(published.count(), 3 * 5 * 5);
    }

    /// Who asks for one round only must not lose what is plain in it.
    #[test]
    fn one_round_of_what_is_plain_is_enough() {
        let sizes = |ours: f64| {
            let mut figures = Figures::default();
            for (store, ns) in [("tdb", 900.0), ("ntdb", 800.0), ("hash", ours)] {
                figures.add(store, "speed ns", 0, ns);
            }
            vec![(1_000_000, Some(1_000_000), figures)]
        };
        let none = Classes::default();
        let holds =
            |ours| on_ours("speed", &sizes(ours), &STORES, "speed ns", &none).unwrap().holds;
        assert_eq!(holds(100.0), Holds::Yes);
        assert_eq!(holds(700.0), Holds::Unsaid);
        assert_eq!(holds(9000.0), Holds::No);
    }

    #[test]
    fn a_figure_that_was_published_is_not_reached_by_less() {
        let figures = |fetch: f64, size: f64| {
            let mut figures = Figures::default();
            for round in 0..3 {
                for (store, ns, kb) in [("tdb", 1000.0, 1000.0), ("ntdb", 1000.0 / fetch, size)] {
                    figures.add(store, "fetch", round, ns);
                    figures.add(store, "size", round, kb);
                }
            }
            vec![(1_000_000, Some(1_000_000), figures)]
        };
        let on = |fetch, size| {
            let all = verdicts(&figures(fetch, size), &STORES, &Classes::default());
            let about = |what: &str| all.iter().find(|v| v.about.contains(what)).unwrap().holds;
            (about("NTDB fetches 4 times"), about("NTDB databases"))
        };
        assert_eq!(on(1.2, 1010.0), (Holds::Less, Holds::Less));
        assert_eq!(on(4.0, 1087.0), (Holds::Yes, Holds::Yes));
        assert_eq!(on(0.9, 990.0), (Holds::No, Holds::No));
    }

    #[test]
    fn a_transaction_for_all_changes_does_not_beat_changes_that_are_safe() {
        let mut figures = Figures::default();
        for (store, ns) in [("tdb", 900.0), ("hash", 300.0), ("btree", 100.0)] {
            figures.add(store, "insert", 0, ns);
        }
        let sizes = vec![(1000, Some(1000), figures)];
        let (buffered, closed) = (Changes::Buffered, Changes::AtClose);
        let classes = Classes(vec![("tdb", buffered), ("hash", buffered), ("btree", closed)]);
        let on = |stores: &[&str]| on_ours("insert", &sizes, stores, "insert", &classes).unwrap();
        assert_eq!(on(&STORES).here, "hash 3.00 (1,000)");
        let unlike = on(&["tdb", "btree"]);
        assert_eq!(unlike.here, "btree 9.00 (1,000; at-close, tdb buffered)");
        assert_eq!(unlike.holds, Holds::Unsaid);
    }

    /// Has all pairs, and counts its lookups; the first answer is wrong.
    #[derive(Default)]
    struct Counting(u64);

    impl Store for Counting {
        fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
            self.0 += 1;
            let (is_user, mut value) = (key.starts_with(b"UID"), Vec::new());
            let number = key.rsplit(|b| matches!(b, b'-' | b' ')).next().unwrap_or_default();
            let number = std::str::from_utf8(&number[..number.len() - 1]).unwrap();
            name_of(number.parse::<u64>().unwrap() + 10_000, !is_user, &mut value);
            take(if self.0 == 1 { b"wrong" } else { &value });
            Ok(true)
        }

        fn scan(&mut self, _: impl FnMut(&[u8], &[u8])) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pairs_are_looked_up_before_the_clock_starts() {
        let (mut store, mut rng) = (Counting::default(), Rng::new(1, stream::MIXED));
        let time = Duration::from_millis(1);
        let found = look_up_warm(&mut store, 100, &mut rng, time).unwrap();
        // Two lookups are one operation; what was not counted is at least a batch.
        assert!(found.count >= SPEED_BATCH && found.seconds > 0.0);
        assert!(store.0 >= 2 * (found.count + SPEED_BATCH), "{} of {}", found.count, store.0);
        let wrong = found.wrong.expect("what is untimed is compared, too");
        assert!(wrong.contains("has not its value"), "{wrong}");
        assert!(look_up(&mut store, 100, &mut rng, time).unwrap().wrong.is_none());
    }

    #[test]
    fn what_is_stored_does_not_count_if_answers_are_wrong() {
        for (lie, is_wrong) in [(Lie::None, false), (Lie::MissesOnce, true), (Lie::ScanShort, true)]
        {
            let part = Work::Ntdb(Part::Numbers);
            let (figures, wrong) = with_bench(lie, part, numbers).unwrap();
            assert_eq!(figures.map(|(name, _)| name), FIGURES[..4], "{lie:?}");
            assert_eq!(wrong.is_some(), is_wrong, "{lie:?}: {wrong:?}");
        }
    }

    #[test]
    fn a_pair_is_named_as_in_the_original() {
        let mut name = Vec::new();
        name_of(7, false, &mut name);
        assert_eq!(name, b"S-1-5-21-53173311-3623041448-2049097239-7\0");
        name_of(10_007, true, &mut name);
        assert_eq!(name, b"UID 10007\0");
    }
}
