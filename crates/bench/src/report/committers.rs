//! Several processes or threads that commit to one store, and several that do a mix there: a table of each for the
//! terminal and the page, and charts.

use super::plain::ByClass;
use super::text;
use super::together::{line_charts, processors, ratio, readers};
use crate::result::{Report, TogetherResult};
use crate::workload::Phase;

/// What those do together that change one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// `insert-sync`.
    Committing,
    /// A mix.
    Mixing,
}

/// What the figures of both are, the first part and the last.
const OPERATIONS: &str = "Operations in a second, of all processes (procs) or threads together: medians, and how many \
    times those of one, with the interval (~ no difference seen; ? fewer than three rounds, too few to say; these \
    ratios have no noise floor)";
const PROCESSORS: &str = "Those of a row had so many processors (cpus), each one of its own where there \
    were enough; free: the kernel chose. ! some answers were wrong, or records not there: the figure is no speed.";

const SYNCED: &str = "; of class sync, each change is on the disk when its call has returned. syncs: calls that \
    bring something to the disk, a change; below one where a store takes the changes of several there at once";

const HEADS: [&str; 7] = ["store", "phase", "at once", "cpus", "ops/s", "times one", "syncs"];

/// The columns for words, which come first.
const WORDS: usize = 3;

/// Whether this is what those did that change a store, and not readers.
pub fn is_of(r: &TogetherResult) -> bool {
    Work::ALL.iter().any(|work| work.is_of(r))
}

impl Work {
    /// Both, in the order in which they are shown.
    pub const ALL: [Work; 2] = [Work::Committing, Work::Mixing];

    /// The heading of the table.
    pub const fn title(self) -> &'static str {
        match self {
            Work::Committing => "Several processes or threads committing to one store",
            Work::Mixing => "Mixes by several processes or threads at one store",
        }
    }

    /// The name of the section in the page, and what a link to it says.
    pub const fn section(self) -> (&'static str, &'static str) {
        match self {
            Work::Committing => ("committers", "Several committing"),
            Work::Mixing => ("mixers", "Mixes by several"),
        }
    }

    /// What the figures are.
    fn explained(self, is_synced: bool, has_loops: bool) -> String {
        let own = match self {
            Work::Committing => "",
            Work::Mixing => {
                "; each change is a transaction of its own, and the operations of a key are done by one of them"
            }
        };
        let synced = if is_synced { SYNCED } else { "" };
        let looks_up =
            if has_loops { format!("; {}", text::LOOKUP_EXPLAINED) } else { String::new() };
        format!("{OPERATIONS}{own}{synced}{looks_up}. {PROCESSORS}")
    }

    /// Whether this is what these did.
    pub fn is_of(self, r: &TogetherResult) -> bool {
        Phase::named(&r.phase).is_some_and(|phase| match self {
            Work::Committing => phase == Phase::InsertSync,
            Work::Mixing => phase.is_mixed(),
        })
    }

    /// The table and what to say below; nothing without results.
    pub fn table(self, report: &Report) -> Option<(ByClass, String)> {
        let of_these = || report.together.iter().filter(|r| self.is_of(r));
        // A mix that is not synced brings nothing to the disk.
        let is_synced = of_these().any(|r| r.syncs_per_change.is_some());
        let columns = HEADS.len() - usize::from(!is_synced);
        let rows = of_these().map(|r| (&*r.class, cells(r)[..columns].to_vec()));
        let heads: Vec<String> = HEADS[..columns].iter().map(|head| (*head).to_owned()).collect();
        Some((
            ByClass::new(&heads, WORDS, rows)?,
            self.explained(is_synced, of_these().any(|r| !r.native)),
        ))
    }

    /// Charts of operations in a second over the number of processes or threads, one for each phase, kind and
    /// class; none where there is one number.
    pub fn charts(self, report: &Report) -> String {
        line_charts(
            report,
            |r| self.is_of(r),
            "operations in a second, all together",
            "how many at once; logarithmic scale",
            text::number,
        )
    }
}

fn cells(r: &TogetherResult) -> [String; HEADS.len()] {
    let mark = text::mark(r.verified, r.native);
    [
        r.store.clone(),
        r.phase.clone(),
        readers(r),
        processors(r),
        format!("{}{mark}", text::number(r.per_second.median)),
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
        native: true,
        ..super::together::some().remove(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_commit_and_those_that_do_a_mix_have_tables_of_their_own() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        report.together = vec![some()];
        let of = |report: &Report, work: Work| work.table(report).map(|(table, _)| table.lines());
        let lines = of(&report, Work::Committing).unwrap();
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
        for what in [" 8 threads ", " 4,321 ", "1.95x [1.93, 1.99]", " 0.13"] {
            assert!(lines[2].contains(what), "{what}: {lines:#?}");
        }
        assert!(super::super::together::table(&report).is_none());
        assert!(of(&report, Work::Mixing).is_none());
        let page = super::super::html::page(&report);
        assert!(page.contains(r#"id="committers""#) && page.contains(">4,321</td>"));
        assert!(!page.contains(r#"id="mixers""#));
        assert!(!page.contains(r#"id="together""#) && !page.contains("btree<scr"));
        report.together[0].verified = false;
        assert!(of(&report, Work::Committing).unwrap()[2].contains("4,321!"));
        // Processes have rows beside those of threads, and say what they are.
        report.together.push(TogetherResult { by: "processes".to_owned(), ..some() });
        let lines = of(&report, Work::Committing).unwrap();
        assert!(lines[2].contains(" 8 threads ") && lines[3].contains(" 8 procs "), "{lines:#?}");
        report.together.pop();
        // A mix has a class of its own, and the longest of names fits.
        let phase = "mixed-eighteen-letters-a".to_owned();
        let class = "buffered".to_owned();
        report.together.push(TogetherResult { phase, class, syncs_per_change: None, ..some() });
        let lines = of(&report, Work::Mixing).unwrap();
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("mixed-eighteen")), "{lines:#?}");
        let both = [of(&report, Work::Committing).unwrap(), lines];
        let has = |i: usize, what: &str| both[i].iter().any(|line| line.contains(what));
        assert!(has(0, "insert-sync") && !has(0, "mixed-") && has(0, "syncs"), "{both:#?}");
        assert!(has(1, "mixed-") && !has(1, "insert-sync") && !has(1, "syncs"), "{both:#?}");
        let page = super::super::html::page(&report);
        for work in Work::ALL {
            let (id, link) = work.section();
            let heading = format!(">{}</h2>", work.title());
            assert!(page.contains(&format!(r##"<a href="#{id}">{link}</a>"##)), "{id}");
            assert!(page.contains(&format!(r#"id="{id}""#)) && page.contains(&heading), "{id}");
        }
        // One that is synced says so, and what it asked of the disk.
        report.together[1].class = "sync".to_owned();
        report.together[1].syncs_per_change = Some(1.0);
        let (table, said) = Work::Mixing.table(&report).unwrap();
        assert!(table.lines().iter().any(|line| line.contains("syncs")), "{:#?}", table.lines());
        assert!(said.contains("on the disk when") && said.contains("transaction of its own"));
        report.together = super::super::together::some();
        assert!(Work::ALL.iter().all(|work| of(&report, *work).is_none()));
    }

    #[test]
    fn their_chart_is_of_changes() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        let store = report.stores[0].store.clone();
        let of = |readers| TogetherResult { readers, store: store.clone(), ..some() };
        report.together = vec![of(1), of(8)];
        let html = Work::Committing.charts(&report);
        assert_eq!(html.matches("<figure").count(), 1, "{html}");
        assert!(
            html.contains("operations in a second") && html.contains("8 threads: 4,321"),
            "{html}"
        );
        assert_eq!(super::super::together::charts(&report), "");
        assert_eq!(Work::Mixing.charts(&report), "");
    }
}
