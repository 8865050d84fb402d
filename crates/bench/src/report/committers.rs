//! Several threads that commit to one store, or do a mix there: a table for the terminal and the page, and
//! charts.

use super::plain::ByClass;
use super::text;
use super::together::{line_charts, processors, ratio};
use crate::result::{Report, TogetherResult};
use crate::workload::Phase;

/// The heading of the table.
pub const TITLE: &str = "Several threads committing to one store";

/// What the figures are.
const EXPLAINED: &str = "Operations in a second, of all threads together: medians, and how many times \
    those of one thread, with the interval (~ no difference seen; ? fewer than three rounds, too few to say; these ratios have no noise \
    floor); each change is a transaction of its own. insert-sync stores, \
    each change on the disk when its call has returned; a mix does its operations, those of a key by \
    one thread. syncs: calls that bring something to the disk, a change; below one where a store takes the \
    changes of several threads there at once. The threads of a row had so many processors (cpus), each \
    one of its own where there were enough; free: the kernel chose. ! some answers were wrong, or records \
    not there: the figure is no speed.";

const HEADS: [&str; 7] = ["store", "phase", "threads", "cpus", "ops/s", "times one", "syncs"];

/// The columns for words, which come first.
const WORDS: usize = 2;

/// Whether this is what threads did that commit, and not readers.
pub fn is_of(r: &TogetherResult) -> bool {
    Phase::named(&r.phase).is_some_and(|phase| phase == Phase::InsertSync || phase.is_mixed())
}

/// The table and what to say below; nothing without results.
pub fn table(report: &Report) -> Option<(ByClass, &'static str)> {
    let of_these = report.together.iter().filter(|r| is_of(r));
    let rows = of_these.map(|r| (&*r.class, cells(r).to_vec()));
    let heads = HEADS.map(str::to_owned).to_vec();
    Some((ByClass::new(&heads, WORDS, rows)?, EXPLAINED))
}

/// Charts of operations in a second over the number of threads, one for each phase and class; none where
/// there is one number.
pub fn charts(report: &Report) -> String {
    line_charts(
        report,
        is_of,
        "operations in a second, all threads",
        "threads; logarithmic scale",
        text::number,
    )
}

fn cells(r: &TogetherResult) -> [String; HEADS.len()] {
    let wrong = if r.verified { "" } else { "!" };
    [
        r.store.clone(),
        r.phase.clone(),
        r.readers.to_string(),
        processors(r),
        format!("{}{wrong}", text::number(r.per_second.median)),
        ratio(r),
        r.syncs_per_change.map_or_else(String::new, text::number),
    ]
}

/// A result for tests.
#[cfg(test)]
pub fn some() -> TogetherResult {
    TogetherResult {
        phase: "insert-sync".to_owned(),
        class: "sync".to_owned(),
        readers: 8,
        per_second: crate::result::Summary { median: 4321.4, ..Default::default() },
        syncs_per_change: Some(0.1254),
        ..super::together::some().remove(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_commit_have_a_table_of_their_own() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        report.together = vec![some()];
        let lines = table(&report).unwrap().0.lines();
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
        for what in [" 8 ", " 4,321 ", "1.95x [1.93, 1.99]", " 0.13"] {
            assert!(lines[2].contains(what), "{what}: {lines:#?}");
        }
        assert!(super::super::together::table(&report).is_none());
        let page = super::super::html::page(&report);
        assert!(page.contains(r#"id="committers""#) && page.contains(">4,321</td>"));
        assert!(!page.contains(r#"id="together""#) && !page.contains("btree<scr"));
        report.together[0].verified = false;
        assert!(table(&report).unwrap().0.lines()[2].contains("4,321!"));
        // A mix has a class of its own, and the longest of names fits.
        let phase = "mixed-eighteen-letters-a".to_owned();
        let class = "buffered".to_owned();
        report.together.push(TogetherResult { phase, class, syncs_per_change: None, ..some() });
        let lines = table(&report).unwrap().0.lines();
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("mixed-eighteen")), "{lines:#?}");
        assert!(["class sync", "class buffered"].iter().all(|of| lines.iter().any(|l| l == of)));
        report.together = super::super::together::some();
        assert!(table(&report).is_none());
    }

    #[test]
    fn their_chart_is_of_changes() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        let store = report.stores[0].store.clone();
        let of = |readers| TogetherResult { readers, store: store.clone(), ..some() };
        report.together = vec![of(1), of(8)];
        let html = charts(&report);
        assert_eq!(html.matches("<figure").count(), 1, "{html}");
        assert!(
            html.contains("operations in a second") && html.contains("8 threads: 4,321"),
            "{html}"
        );
        assert_eq!(super::super::together::charts(&report), "");
    }
}
