//! Several processes at one store: a table for the terminal, and one for the page.

use super::chart::escape;
use super::compare::is_own;
use super::text;
use crate::result::{Report, TogetherResult};
use std::fmt::Write;

/// What the figures are.
const EXPLAINED: &str = "Millions of lookups in a second, of all readers together: medians, and how \
    many times those of one reader (beside a writer: of one reader beside a writer), with the interval. \
    All processes of a row had so many processors, each one of its own where there were enough. \
    ! some answers were wrong: the figure is no speed.";

const HEADS: [&str; 7] =
    ["store", "phase", "readers", "processors", "M gets/s", "times one", "changes/s"];

/// The columns for words, which come first.
const WORDS: usize = 3;

/// Stores with longer names are cut, so that lines fit a terminal.
const NAME: usize = 18;

/// The lines of the table for the terminal, and what to say below; nothing without results.
pub fn lines(report: &Report) -> Option<(Vec<String>, &'static str)> {
    if report.together.is_empty() {
        return None;
    }
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(report.together.iter().map(|r| cells(r).map(|cell| text::clean(&cell))));
    let mut widths = [0; HEADS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; HEADS.len()]| {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            // Words are set to the left, numbers to the right. Writing to a string cannot fail.
            let _ = if i < WORDS {
                write!(line, "{cell:<width$}  ")
            } else {
                write!(line, "{cell:>width$}  ")
            };
        }
        line.trim_end().to_owned()
    };
    Some((rows.iter().map(line).collect(), EXPLAINED))
}

/// The table for the page; empty without results.
pub fn table(report: &Report) -> String {
    if report.together.is_empty() {
        return String::new();
    }
    let head = |name| format!(r#"<th scope="col">{name}</th>"#);
    let heads: String = HEADS.map(head).concat();
    let rows: String = report.together.iter().map(row).collect();
    format!(
        r#"<p class="note">{EXPLAINED}</p><div class="scroll" tabindex="0" role="region" aria-label="Several processes at one store"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"#
    )
}

fn row(r: &TogetherResult) -> String {
    let class = if is_own(&r.store) { "own" } else { "" };
    let [store, rest @ ..] = cells(r);
    let mut row = format!(r#"<tr class="{class}"><th scope="row">{}</th>"#, escape(&store));
    for cell in rest {
        let _ = write!(row, "<td>{}</td>", escape(&cell));
    }
    row.push_str("</tr>");
    row
}

fn cells(r: &TogetherResult) -> [String; HEADS.len()] {
    let processes = match r.writers {
        0 => r.readers.to_string(),
        _ => format!("{} + writer", r.readers),
    };
    let wrong = if r.verified { "" } else { "!" };
    let ratio = r.to_one.map_or_else(String::new, |s| match s.pairs {
        1 => text::factor(s.median),
        _ => {
            let (low, high) = (text::number(s.low), text::number(s.high));
            format!("{} [{low}, {high}]", text::factor(s.median))
        }
    });
    let processors = match r.bound {
        true => r.processors.to_string(),
        false => format!("{} unbound", r.processors),
    };
    [
        r.store.chars().take(NAME).collect(),
        r.phase.clone(),
        processes,
        processors,
        format!("{}{wrong}", text::number(r.per_second.median / 1e6)),
        ratio,
        r.writes_per_second
            .as_ref()
            .map_or_else(String::new, |w| text::count(w.median.max(0.0) as u64)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Scaling, Summary};

    fn report() -> Report {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        let summary = |median| Summary { median, low: median, high: median, samples: vec![median] };
        let result = |readers, writers| TogetherResult {
            store: "tokyocabinet-btree<script>".to_owned(),
            class: "buffered".to_owned(),
            phase: "get-many-miss".to_owned(),
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
            hit_rate: 0.0,
            verified: writers == 0,
            notes: Vec::new(),
        };
        report.together = vec![result(2, 0), result(16, 1)];
        report
    }

    #[test]
    fn rows_say_how_many_processes_and_processors_within_the_width() {
        let (lines, _) = lines(&report()).unwrap();
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:#?}");
        assert!(lines[1].contains(" 2 ") && lines[1].contains("12.3"), "{lines:#?}");
        assert!(lines[1].contains("1.95x [1.93, 1.99]"), "{lines:#?}");
        assert!(lines[2].contains("16 + writer") && lines[2].contains("1,234,567"), "{lines:#?}");
        assert!(lines[2].contains('!') && lines[2].contains("16 unbound"), "{lines:#?}");
        assert!(super::lines(&Report { together: Vec::new(), ..report() }).is_none());
    }

    #[test]
    fn the_page_has_the_same_cells() {
        let report = report();
        let page = super::super::html::page(&report);
        assert!(page.contains(r#"id="together""#) && page.contains("<td>16 + writer</td>"));
        assert!(!page.contains("btree<scr"));
        let page = super::super::html::page(&Report { together: Vec::new(), ..report });
        assert!(!page.contains(r#"id="together""#));
    }
}
