//! What MDBM's page published, beside what is measured: tables, and verdicts in words.

use super::lab::{Figures, is_own};
use super::mdbm::{CLOCKS, NOTINGS, PRELOADED, TIMED, counts};
use super::outcome::{Cell, Holds, Table, Verdict, trusted};
use crate::report::stats::PAIRS_FOR_VERDICT;
use crate::report::text;
use crate::result::Summary;

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
    table = blocks(table, &["store", "fetch"], here);
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
    table = blocks(table, &["opened in each", "duplicated"], here);
    for count in counts(cores) {
        let names = [format!("opened {count}"), format!("duplicated {count}")];
        let names = [&*names[0], &*names[1]];
        let cells = here.iter().map(|store| Cell::measured(figures, store, &names));
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
        verdicts.extend(
            figures.and_then(|figures| below_limit(figures, store, size, noting, limit, about)),
        );
    }
    verdicts.extend(here.iter().filter_map(|store| preloaded(preloads, store)));
    verdicts.extend(shared_handles(threads, cores, here));
    verdicts
}

/// Whether operations that are noted so take longer by less than the limit, in per cent: that is said where the
/// intervals of both are on one side of it.
fn below_limit(
    figures: &Figures,
    store: &str,
    size: usize,
    noting: &str,
    limit: f64,
    about: &str,
) -> Option<Verdict> {
    let overhead = |what: &str| figures.get(store, &format!("{noting} {what}"));
    let both = [overhead("store")?, overhead("fetch")?];
    let holds = Holds::all(both.iter().map(|percent| {
        let [low, high] = [percent.low, percent.high].map(|percent| 1.0 + percent / 100.0);
        let (low, high) = trusted(low, high, percent.samples.len() < PAIRS_FOR_VERDICT);
        match 1.0 + limit / 100.0 {
            limit if high < limit => Holds::Yes,
            limit if low >= limit => Holds::No,
            _ => Holds::Unsaid,
        }
    }));
    let is_few = both.iter().any(|percent| percent.samples.len() < PAIRS_FOR_VERDICT);
    let word = match holds {
        Holds::Yes => "it holds",
        Holds::No => "it does not hold here",
        _ if is_few => "too few rounds to say",
        _ => "the limit is within the interval, so that nothing can be said",
    };
    let in_words = |percent: &Summary| {
        let [median, low, high] = [percent.median, percent.low, percent.high].map(text::number);
        match percent.samples.len() {
            1 => format!("{median} % (one round)"),
            _ => format!("{median} % ({low} to {high})"),
        }
    };
    let [stores, fetches] = both.each_ref().map(in_words);
    let here = format!("at {size} bytes stores take {stores} longer, fetches {fetches}: {word}");
    Some(Verdict { about: about.to_owned(), here, holds })
}

/// Whether iterations are shorter when a store is preloaded: those of MDBM by 55 per cent, the least that was
/// published for any size, ours by anything.
fn preloaded(preloads: &[(u64, Figures)], store: &str) -> Option<Verdict> {
    let (about, times) = match is_own(store) {
        true => (format!("{store}: preloading makes an iteration shorter"), 1.0),
        false => {
            let about = "preloading makes an iteration of MDBM 55 to 70 % shorter".to_owned();
            (about, 1.0 / (1.0 - 0.55))
        }
    };
    let (mut words, mut each) = (Vec::new(), Vec::new());
    for (size, figures) in preloads {
        let mut pairs = Figures::default();
        for name in ["as it is", "preloaded"] {
            pairs.take((name, "seconds"), figures, (store, name));
        }
        let Some(ratio) = pairs.ratio("preloaded", "as it is", "seconds") else { continue };
        let Some(percent) = figures.median(store, "improvement") else { continue };
        words.push(format!("{} % ({size} MB)", text::number(percent)));
        each.push((Holds::by(&ratio, times), ratio.pairs < PAIRS_FOR_VERDICT));
    }
    if words.is_empty() {
        return None;
    }
    let holds = Holds::all(each.iter().map(|(holds, _)| *holds));
    let is_few = each.iter().any(|(_, is_few)| *is_few);
    let word = match holds {
        Holds::Yes if is_few => "it holds, by so few rounds",
        Holds::Yes => "it holds",
        Holds::Less => "it is shorter, but by less",
        Holds::No => "it does not hold here for each size",
        Holds::Unsaid => "too few rounds to say for each size",
    };
    Some(Verdict { about, here: format!("here by {}: {word}", words.join(", ")), holds })
}

/// Whether duplicated handles are faster than opened ones.
fn shared_handles(threads: &Figures, cores: usize, here: &[&str]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for store in here {
        let mut pairs = Figures::default();
        for name in ["opened", "duplicated"] {
            pairs.take((name, "ns"), threads, (store, &format!("{name} {cores} ns")));
        }
        if pairs.get("opened", "ns").is_some() {
            let about = match is_own(store) {
                true => {
                    format!("{store}: a cloned handle is faster than one opened in each thread")
                }
                false => "a duplicated handle is faster than one opened in each thread".to_owned(),
            };
            verdicts.push(Verdict::on_claim(about, &pairs, ("duplicated", "opened"), "ns", 1.0));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::mdbm::{CHANGED, SIZES, STORES};
    use super::*;
    use crate::reproduce::outcome::number_in;

    #[test]
    fn what_was_published_is_all_numbers_and_in_its_place() {
        let none: Vec<(usize, Figures)> = SIZES.map(|size| (size, Figures::default())).into();
        let numbers = |table: &Table| -> Vec<f64> {
            let cells = table.rows.iter().flat_map(|row| row.cells.first()).flatten();
            cells.map(|cell| number_in(&cell.text()).expect("a number")).collect()
        };
        let timed = numbers(&clock_table(&none, &CHANGED));
        let published = [
            9.5, 10., 8.5, 9.5, 6.1, 6.8, 6.2, 6.5, 11., 11., 3., 3., 3.73, 4.37, 20., 20., 80.,
            80.,
        ];
        assert_eq!(timed, published);
        assert_eq!(numbers(&own_table(&none, &CHANGED)), [1., 1., 11., 11., 3.73, 4.37]);
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

    /// What counting costs, round by round.
    fn counted(percents: &[f64]) -> Figures {
        let mut figures = Figures::default();
        for (round, percent) in percents.iter().enumerate() {
            figures.add("mdbm", "counted store", round, *percent);
            figures.add("mdbm", "counted fetch", round, *percent);
        }
        figures
    }

    /// An iteration of a second that takes so many when the store is preloaded, round by round.
    fn iterated(seconds: &[f64]) -> Figures {
        let mut figures = Figures::default();
        for (round, seconds) in seconds.iter().enumerate() {
            figures.add("mdbm", "as it is", round, 1.0);
            figures.add("mdbm", "preloaded", round, *seconds);
            figures.add("mdbm", "improvement", round, (1.0 - seconds) * 100.0);
        }
        figures
    }

    #[test]
    fn what_an_interval_leaves_open_is_left_open() {
        let on = |overheads: &[f64], seconds: &[f64]| {
            let (timed, iterated) = ([(100, counted(overheads))], [(256, iterated(seconds))]);
            let verdicts = verdicts(&timed, &iterated, &Figures::default(), 2, &["mdbm"]);
            let [overhead, preloading] = &verdicts[..] else { panic!("{verdicts:?}") };
            assert!(overhead.about.contains("less than 1 %"), "{overhead:?}");
            (overhead.holds, preloading.holds)
        };
        assert_eq!(on(&[0.5, 0.7, 0.9], &[0.4, 0.5, 0.4]), (Holds::Yes, Holds::Yes));
        assert_eq!(on(&[0.5, 0.7, 1.1], &[0.8, 0.9, 0.8]), (Holds::Unsaid, Holds::Less));
        assert_eq!(on(&[1.5, 1.7, 1.1], &[0.9, 1.0, 1.1]), (Holds::No, Holds::No));
        // One round says only what is plain.
        assert_eq!(on(&[0.5], &[0.9]), (Holds::Unsaid, Holds::Unsaid));
        assert_eq!(on(&[1.5], &[0.4]), (Holds::Unsaid, Holds::Yes));
        assert_eq!(on(&[150.0], &[2.1]), (Holds::No, Holds::No));
    }
}
