//! Several processes or threads at one store: a table for the terminal, and one for the page.

use super::chart::Scale;
use super::committers;
use super::lines::{Line, LineChart, Point};
use super::plain::ByClass;
use super::stats::Ratio;
use super::{figures, text};
use crate::result::{Report, TogetherResult};

/// What the figures are.
const EXPLAINED: &str = "Millions of lookups in a second, of all readers together: medians, and how \
    many times those of one reader (beside a writer: of one reader beside a writer), with the interval. \
    ~ no difference seen (the interval spans 1); ? fewer than three rounds, too few to say. These ratios have no \
    noise floor. Readers are processes (procs) or threads of one. Those of a row, and its writer, had so many \
    processors (cpus), each one of its own where there were enough; free: the kernel chose. \
    * a plain loop of single gets; ! some answers were wrong: the figure is no speed.";

const HEADS: [&str; 7] = ["store", "phase", "readers", "cpus", "M/s", "times one", "changes/s"];

/// The columns for words, which come first.
const WORDS: usize = 3;

/// Whether this is what readers did, and not threads that commit.
pub fn is_of(r: &TogetherResult) -> bool {
    !committers::is_of(r)
}

/// The table and what to say below; nothing without results.
pub fn table(report: &Report) -> Option<(ByClass, &'static str)> {
    let of_these = report.together.iter().filter(|r| is_of(r));
    let rows = of_these.map(|r| (&*r.class, cells(r).to_vec()));
    let heads = HEADS.map(str::to_owned).to_vec();
    Some((ByClass::new(&heads, WORDS, rows)?, EXPLAINED))
}

/// Each round of those results that are wanted; nothing without any.
pub fn rounds(report: &Report, is_wanted: impl Fn(&TogetherResult) -> bool) -> Option<ByClass> {
    let row = |r: &TogetherResult| {
        let s = &r.per_second;
        let mut row = vec![r.store.clone(), r.phase.clone(), readers(r)];
        row.extend([s.median, s.low, s.high].map(text::number));
        row.push(figures::samples(&s.samples));
        let writes = r.writes_per_second.as_ref().map(|writes| figures::samples(&writes.samples));
        row.push(writes.unwrap_or_default());
        row
    };
    let of_these = report.together.iter().filter(|r| is_wanted(r));
    let heads =
        ["store", "phase", "at once", "a second", "low", "high", "rounds", "changes, rounds"];
    ByClass::new(&heads.map(str::to_owned), WORDS, of_these.map(|r| (&*r.class, row(r))))
}

/// Charts of lookups in a second over the number of readers, one for each phase, kind of readers, class, and
/// with a writer or not; none where there is one number of readers.
pub fn charts(report: &Report) -> String {
    let in_words = |rate| format!("{} M", text::number(rate / 1e6));
    line_charts(
        report,
        is_of,
        "lookups in a second, all readers",
        "readers; logarithmic scale",
        in_words,
    )
}

/// The same of those results that are wanted, with a rate as `in_words` says it.
pub fn line_charts(
    report: &Report,
    is_wanted: impl Fn(&TogetherResult) -> bool,
    explained: &str,
    below: &'static str,
    in_words: impl Fn(f64) -> String,
) -> String {
    type Key<'a> = (&'a str, &'a str, usize, &'a str);
    fn key(r: &TogetherResult) -> Key<'_> {
        (&r.phase, &r.by, r.writers, &r.class)
    }
    let wanted = || report.together.iter().filter(|r| is_wanted(r));
    let counts: Vec<f64> = wanted().map(|r| r.readers as f64).collect();
    let scale = Scale::logarithmic(&counts);
    let mut keys: Vec<Key<'_>> = Vec::new();
    for r in wanted().filter(|r| r.readers > 1) {
        if !keys.contains(&key(r)) {
            keys.push(key(r));
        }
    }
    let chart = |of: &Key<'_>| {
        let all: Vec<&TogetherResult> = wanted().filter(|r| r.verified && key(r) == *of).collect();
        let points = |store: &str| -> Vec<Point> {
            let point = |r: &&TogetherResult| {
                let rate = r.per_second.median;
                let words = format!("{}: {}/s", many(r.readers, &r.by), in_words(rate));
                (scale.place(r.readers as f64), rate, words)
            };
            all.iter().filter(|r| r.store == store).map(point).collect()
        };
        let stores: Vec<&str> = report.stores.iter().map(|info| &*info.store).collect();
        let lines = stores.iter().map(|store| Line::through(store, points(store)));
        let mut readers: Vec<usize> = all.iter().map(|r| r.readers).collect();
        readers.sort_unstable();
        readers.dedup();
        let (phase, by, writers, class) = of;
        let beside = if *writers > 0 { ", beside a writer" } else { "" };
        let tick = |count: &usize| (scale.place(*count as f64), count.to_string());
        LineChart {
            title: format!("{phase}, {by}{beside}"),
            explained: format!("{explained}, class {class}"),
            ticks: readers.iter().map(tick).collect(),
            below,
            lines: lines.filter(|line| !line.stretches.is_empty()).collect(),
            stores: stores.clone(),
        }
        .html(|rate| text::round(&in_words(rate)))
    };
    keys.iter().map(chart).collect()
}

/// So many processes or threads in words: "2 threads", "1 process".
pub fn many(count: usize, by: &str) -> String {
    let one = match by {
        "processes" => "process",
        "threads" => "thread",
        by => by,
    };
    format!("{count} {}", if count == 1 { one } else { by })
}

/// The readers in short: "2 threads", "1 proc + writer".
pub fn readers(r: &TogetherResult) -> String {
    short(r.readers, &r.by, r.writers)
}

/// So many readers, beside so many writers, in short.
pub fn short(readers: usize, by: &str, writers: usize) -> String {
    let beside = if writers > 0 { " + writer" } else { "" };
    let many = match (readers, by) {
        (1, "processes") => "1 proc".to_owned(),
        (_, "processes") => format!("{readers} procs"),
        _ => many(readers, by),
    };
    many + beside
}

fn cells(r: &TogetherResult) -> [String; HEADS.len()] {
    let mark = text::mark(r.verified, r.native);
    [
        r.store.clone(),
        r.phase.clone(),
        readers(r),
        processors(r),
        format!("{}{mark}", text::number(r.per_second.median / 1e6)),
        ratio(r),
        r.writes_per_second
            .as_ref()
            .map_or_else(String::new, |w| text::count(w.median.max(0.0) as u64)),
    ]
}

/// How many times as many as one, if any difference is seen, with the interval where there is one.
pub fn ratio(r: &TogetherResult) -> String {
    let in_words = |ratio: Ratio| match text::ends(&ratio) {
        None => text::ratio(&ratio),
        Some([low, high]) => format!("{} [{low}, {high}]", text::ratio(&ratio)),
    };
    r.to_one.map(Ratio::from).map_or_else(String::new, in_words)
}

/// The processors that all had.
pub fn processors(r: &TogetherResult) -> String {
    match r.bound {
        true => r.processors.to_string(),
        false => format!("{} free", r.processors),
    }
}

/// Two results for tests.
#[cfg(test)]
pub fn some() -> Vec<TogetherResult> {
    use crate::result::{Scaling, Summary};
    let summary = |median| Summary { median, low: median, high: median, samples: vec![median] };
    let result = |readers, writers| TogetherResult {
        store: "tokyocabinet-btree<script>".to_owned(),
        class: "buffered".to_owned(),
        phase: "get-many-miss".to_owned(),
        by: if writers == 0 { "threads" } else { "processes" }.to_owned(),
        readers,
        writers,
        processors: readers,
        bound: writers == 0,
        ops: 3000,
        rounds: 1,
        per_second: summary(12_345_678.9),
        sample_rounds: vec![0],
        to_one: Some(Scaling { median: 1.95, low: 1.9312, high: 1.9876, pairs: 5 }),
        writes_per_second: (writers > 0).then(|| summary(1_234_567.8)),
        syncs_per_change: None,
        hit_rate: 0.0,
        operation_latency_ns: Default::default(),
        at_rate: None,
        verified: writers == 0,
        native: writers > 0,
        notes: Vec::new(),
    };
    vec![result(2, 0), result(16, 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Scaling;

    fn report() -> Report {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        report.together = some();
        report
    }

    #[test]
    fn one_is_no_plural() {
        let both = |n| ["threads", "processes"].map(|by| many(n, by));
        assert_eq!(both(1), ["1 thread", "1 process"]);
        assert_eq!(both(2), ["2 threads", "2 processes"]);
        assert_eq!(short(1, "processes", 1), "1 proc + writer");
        assert_eq!(short(3, "processes", 0), "3 procs");
        assert_eq!(short(1, "threads", 0), "1 thread");
    }

    #[test]
    fn rows_say_how_many_processes_and_processors_within_the_width() {
        let lines = table(&report()).unwrap().0.lines();
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
        assert!(lines[2].contains(" 2 threads ") && lines[2].contains("12.3* "), "{lines:#?}");
        assert!(lines[2].contains("1.95x [1.93, 1.99]"), "{lines:#?}");
        assert!(
            lines[3].contains("16 procs + writer") && lines[3].contains("1,234,567"),
            "{lines:#?}"
        );
        assert!(lines[3].contains('!') && lines[3].contains("16 free"), "{lines:#?}");
        assert!(table(&Report { together: Vec::new(), ..report() }).is_none());
    }

    #[test]
    fn a_ratio_whose_interval_spans_one_is_none() {
        let of = |low, high, pairs| {
            let to_one = Some(Scaling { median: 1.12, low, high, pairs });
            ratio(&TogetherResult { to_one, ..some().remove(0) })
        };
        assert_eq!(of(0.82, 1.24, 5), "~ [0.82, 1.24]");
        assert_eq!(of(1.02, 1.24, 5), "1.12x [1.02, 1.24]");
        assert_eq!(of(1.02, 1.24, 3), "1.12x [1.02, 1.24]");
        // What two rounds agree in is chance as often as not.
        assert_eq!([of(1.02, 1.24, 2), of(0.82, 1.24, 2), of(1.12, 1.12, 1)], ["?"; 3]);
    }

    #[test]
    fn every_round_is_in_a_table_of_its_own() {
        let mut report = report();
        report.together[1].per_second.samples = vec![1_000_000.0, 1_250_000.0];
        let rounds = rounds(&report, is_of).unwrap();
        let [one, beside] = &rounds.of("buffered").rows[..] else { panic!("two rows") };
        assert_eq!(
            one[2..],
            ["2 threads", "12,345,679", "12,345,679", "12,345,679", "12,345,679", ""]
        );
        assert_eq!(beside[6..], ["1,000,000  1,250,000", "1,234,568"]);
        let page = super::super::html::page(&report);
        assert!(
            page.contains("<summary>Every round</summary>")
                && page.contains(">1,000,000  1,250,000<")
        );
        assert!(super::rounds(&report, committers::is_of).is_none());
    }

    #[test]
    fn the_page_has_the_same_cells() {
        let report = report();
        let page = super::super::html::page(&report);
        assert!(page.contains(r#"id="together""#) && page.contains(">16 procs + writer</td>"));
        assert!(!page.contains("btree<scr"));
        let page = super::super::html::page(&Report { together: Vec::new(), ..report });
        assert!(!page.contains(r#"id="together""#));
    }

    #[test]
    fn a_chart_has_a_line_for_each_store_and_a_point_for_each_number_of_readers() {
        let mut report = report();
        let store = report.stores[0].store.clone();
        let of = |readers| TogetherResult { readers, store: store.clone(), ..some().remove(0) };
        report.together = vec![of(1), of(2), of(4)];
        let html = charts(&report);
        assert_eq!(html.matches("<figure").count(), 1);
        assert_eq!(html.matches("<circle").count(), 3);
        assert!(html.contains("get-many-miss, threads<") && html.contains("4 threads: "), "{html}");
        report.together.truncate(1);
        assert_eq!(charts(&report), "");
    }
}
