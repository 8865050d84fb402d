//! What MDBM's page published, beside what is measured: tables, and verdicts in words.

use super::lab::{Figures, is_own};
use super::mdbm::{CLOCKS, NOTINGS, PRELOADED, TIMED, counts};
use super::outcome::{Cell, Table, Verdict};
use crate::report::text;

/// A block for MDBM, and one for each of ours.
fn blocks(mut table: Table, columns: &[&str], here: &[&str]) -> Table {
    for store in here {
        table = table.block(format!("{store}, here"), columns);
    }
    table
}

pub(super) fn clock_table(overheads: &[(usize, Figures)], here: &[&str]) -> Table {
    let title = "How much longer operations take with a clock around each, in per cent";
    let mut table = Table::new(title).block("published", &["store", "fetch"]);
    table = blocks(table, &["store", "fetch"], here);
    for (clock, title) in CLOCKS {
        table.row(title, Vec::new());
        for (size, figures) in overheads {
            let of_page = TIMED.iter().find(|(of, bytes, _)| (of, bytes) == (&clock, size));
            let published = of_page.map(|(.., row)| Cell::published(row)).unwrap_or_default();
            let mut cells = vec![published];
            let names = [format!("{clock} store"), format!("{clock} fetch")];
            let names = [&*names[0], &*names[1]];
            cells.extend(here.iter().map(|store| Cell::measured(figures, store, &names)));
            table.row(format!("{size:>6} bytes"), cells);
        }
    }
    table
}

pub(super) fn own_table(overheads: &[(usize, Figures)], here: &[&str]) -> Table {
    let title = "How much longer operations take with the store's own statistics, in per cent";
    let mut table = Table::new(title).block("published", &["store", "fetch"]);
    let here: Vec<&str> = here.iter().copied().filter(|store| *store != "btree").collect();
    table = blocks(table, &["store", "fetch"], &here);
    for (_, noting, title) in NOTINGS {
        table.row(title, Vec::new());
        for (size, figures) in overheads {
            let published: &[&str] = match (noting, size) {
                ("counted", 100) => &["< 1%", "< 1%"],
                ("every, clock", 100) => &["11%", "11%"],
                ("every, tsc", 1024) => &["3.73%", "4.37%"],
                _ => &[],
            };
            let mut cells = vec![Cell::published(published)];
            let names = [format!("{noting} store"), format!("{noting} fetch")];
            let names = [&*names[0], &*names[1]];
            cells.extend(here.iter().map(|store| Cell::measured(figures, store, &names)));
            table.row(format!("{size:>6} bytes"), cells);
        }
    }
    table
}

pub(super) fn preload_table(preloads: &[(u64, Figures)], here: &[&str]) -> Table {
    let title = "Iteration from a cold disk, in seconds, and what preloading improves it by, in per \
                 cent";
    let mut table = Table::new(title).block("published", &["V4", "V3"]);
    table = blocks(table, &["as is", "preloaded", "%"], here);
    for (size, published) in PRELOADED {
        let figures = preloads.iter().find(|(of, _)| *of == size).map(|(_, figures)| figures);
        let mut cells = vec![Cell::published(&published)];
        let names = ["as it is", "preloaded", "improvement"];
        let of_store = |store: &&str| {
            figures.map_or_else(Vec::new, |figures| Cell::measured(figures, store, &names))
        };
        cells.extend(here.iter().map(of_store));
        table.row(format!("{size:>5} MB"), cells);
    }
    table
}

pub(super) fn thread_table(figures: &Figures, here: &[&str], cores: usize) -> Table {
    let title = "Random fetches from 100,000 records, millions a second; no figures were published";
    let mut table = Table::new(title);
    let stores: Vec<&str> = here.iter().copied().filter(|store| *store != "btree").collect();
    table = blocks(table, &["opened in each", "duplicated"], &stores);
    for count in counts(cores) {
        let names = [format!("opened {count}"), format!("duplicated {count}")];
        let names = [&*names[0], &*names[1]];
        let cells = stores.iter().map(|store| Cell::measured(figures, store, &names));
        table.row(text::counted(count, "thread"), cells.collect());
    }
    table
}

pub(super) fn verdicts(
    overheads: &[(usize, Figures)],
    preloads: &[(u64, Figures)],
    threads: &Figures,
    cores: usize,
    here: &[&str],
) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let below = [
        ("mdbm", 100, "counted", 1.0, "an empty callback costs less than 1 %"),
        ("mdbm", 1024, "every, tsc", 5.0, "timing with the TSC costs 5 % at most"),
        ("hash", 100, "counted", 1.0, "hash: counting costs less than 1 %"),
        ("hash", 100, "sampled", 2.0, "hash: sampled latencies cost less than 2 %"),
        ("hash", 100, "every, tsc", 5.0, "hash: timing every operation costs less than 5 %"),
    ];
    for (store, size, noting, limit, about) in below {
        let figures = overheads.iter().find(|(of, _)| *of == size).map(|(_, figures)| figures);
        let median = |what: &str| figures?.median(store, &format!("{noting} {what}"));
        let Some((stores, fetches)) = median("store").zip(median("fetch")) else { continue };
        let holds = stores < limit && fetches < limit;
        let word = if holds { "it holds" } else { "it does not hold here" };
        let [stores, fetches] = [stores, fetches].map(text::number);
        let here =
            format!("at {size} bytes stores take {stores} % longer, fetches {fetches} %: {word}");
        verdicts.push(Verdict { about: about.to_owned(), here, holds: Some(holds) });
    }
    for store in here {
        let improved = |(size, figures): &(u64, Figures)| {
            let percent = figures.median(store, "improvement")?;
            Some((percent, format!("{} % ({size} MB)", text::number(percent))))
        };
        let all: Vec<(f64, String)> = preloads.iter().filter_map(improved).collect();
        if all.is_empty() {
            continue;
        }
        let about = match is_own(store) {
            true => format!("{store}: preloading makes an iteration shorter"),
            false => "preloading makes an iteration of MDBM 55 to 70 % shorter".to_owned(),
        };
        let words: Vec<String> = all.iter().map(|(_, words)| words.clone()).collect();
        let holds = Some(all.iter().all(|(percent, _)| *percent > 5.0));
        verdicts.push(Verdict { about, here: format!("here by {}", words.join(", ")), holds });
    }
    verdicts.extend(shared_handles(threads, cores, here));
    verdicts
}

/// Whether duplicated handles are faster than opened ones.
fn shared_handles(threads: &Figures, cores: usize, here: &[&str]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for store in here {
        let mut pairs = Figures::default();
        for name in ["opened", "duplicated"] {
            let figure = threads.get(store, &format!("{name} {cores} ns"));
            for (round, ns) in figure.iter().flat_map(|f| f.samples.iter().enumerate()) {
                pairs.add(name, "ns", round, *ns);
            }
        }
        if pairs.get("opened", "ns").is_some() {
            let about = match is_own(store) {
                true => {
                    format!("{store}: a cloned handle is faster than one opened in each thread")
                }
                false => "a duplicated handle is faster than one opened in each thread".to_owned(),
            };
            verdicts.push(Verdict::on_claim(about, &pairs, ("duplicated", "opened"), "ns"));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::mdbm::{SIZES, STORES};
    use super::*;
    use crate::reproduce::outcome::number_in;

    #[test]
    fn what_was_published_is_all_numbers_and_in_its_place() {
        let none: Vec<(usize, Figures)> = SIZES.map(|size| (size, Figures::default())).into();
        let numbers = |table: &Table| -> Vec<f64> {
            let cells = table.rows.iter().flat_map(|row| row.cells.first()).flatten();
            cells.map(|cell| number_in(&cell.text()).expect("a number")).collect()
        };
        let timed = numbers(&clock_table(&none, &STORES));
        let published = [
            9.5, 10., 8.5, 9.5, 6.1, 6.8, 6.2, 6.5, 11., 11., 3., 3., 3.73, 4.37, 20., 20., 80.,
            80.,
        ];
        assert_eq!(timed, published);
        assert_eq!(numbers(&own_table(&none, &STORES)), [1., 1., 11., 11., 3.73, 4.37]);
        let preloaded = numbers(&preload_table(&[], &STORES));
        assert_eq!(preloaded, [61., 38.7, 63.3, 43.6, 55.8, 43.1, 70.4, 56.3, 66.1, 54.4]);
    }

    /// The page has fourteen runs of `tsc_get_usec` at 1024 bytes, and their average; that of fetches,
    /// 4.376, it cut off.
    #[test]
    fn the_published_averages_are_those_of_the_published_runs() {
        let stores =
            [3.97, 3.42, 3.53, 3.79, 2.76, 4.16, 4.05, 3.64, 4.18, 3.98, 3.72, 3.41, 3.45, 4.12];
        let fetches =
            [4.86, 4.02, 4.39, 5.09, 4.06, 4.44, 4.65, 4.41, 4.79, 3.58, 5.08, 3.67, 4.22, 4.00];
        let average = |runs: [f64; 14]| format!("{:.2}%", runs.iter().sum::<f64>() / 14.0);
        assert_eq!([average(stores), average(fetches)], ["3.73%", "4.38%"].map(str::to_owned));
    }
}
