//! What each phase took besides time, as a table of the page: calls that sync, bytes, page faults, and what the
//! files take.

use super::compare::Comparison;
use super::plain::Table;
use super::text;
use crate::result::{PhaseResult, Report};

const HEADS: [&str; 19] = [
    "store",
    "phase",
    "operations",
    "syncs",
    "bytes by calls",
    "commits",
    "syncs a commit",
    "bytes by calls a commit",
    "bytes read",
    "bytes written",
    "disk read",
    "disk written",
    "minor faults",
    "major faults",
    "syncs at close",
    "ns at close",
    "write amplification",
    "file length",
    "allocated",
];
/// The columns for words, which come first.
const WORDS: usize = 2;
const ZERO: &str = "0";

const EXPLAINED: &str = "Of the timed work of all rounds, for an operation: calls that sync; bytes that calls wrote \
    that were seen here, and that calls of any kind read and wrote as the kernel counts; bytes read from a disk, \
    and pages of files on a disk that were changed; page faults without and with reading from a disk. A commit is a \
    transaction that changes something, or a change that is in none of several; there are none where all is \
    committed when the store is closed. Not for an operation are also: syncs when changed stores were closed, and the nanoseconds of that in all, which are in no other figure; bytes that went to the files for \
    each byte of keys and values; and the length of the files, and what they take on the file system, in bytes. \
    Columns in which all is 0 are left out.";

/// A row for each phase of each store that was watched; empty without any.
pub fn table(report: &Report, c: &Comparison) -> String {
    // What a server does is not seen here.
    let is_server =
        |r: &PhaseResult| report.stores.iter().any(|info| info.store == r.store && info.is_server);
    let watched = c.in_order().filter(|r| r.effort.operations > 0 && !is_server(r));
    let rows: Vec<_> = watched.map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let has_figures =
        |column: &usize| rows.iter().any(|row| ![ZERO, text::NONE].contains(&&*row[*column]));
    let columns: Vec<usize> = (0..HEADS.len()).filter(has_figures).collect();
    let of_columns =
        |row: &[String; HEADS.len()]| columns.iter().map(|i| row[*i].clone()).collect();
    let table = Table {
        heads: columns.iter().map(|i| HEADS[*i].to_owned()).collect(),
        rows: rows.iter().map(of_columns).collect(),
        words: WORDS,
    };
    let html = table.sortable_html("Syncs, bytes, page faults and files");
    format!(r#"<p class="note">{EXPLAINED}</p>{html}"#)
}

fn row(r: &PhaseResult) -> [String; HEADS.len()] {
    let e = &r.effort;
    let of_one = |count: u64| match count {
        0 => ZERO.to_owned(),
        count => text::number(count as f64 / e.operations as f64),
    };
    let of_commit = |count: u64| match e.of_one_commit(count) {
        None => text::NONE.to_owned(),
        Some(_) if count == 0 => ZERO.to_owned(),
        Some(figure) => text::number(figure),
    };
    [
        r.store.clone(),
        r.phase.clone(),
        text::count(e.operations),
        of_one(e.calls.syncs()),
        of_one(e.calls.written_bytes),
        text::count(e.commits),
        of_commit(e.calls.syncs()),
        of_commit(e.calls.written_bytes),
        of_one(e.read_bytes),
        of_one(e.written_bytes),
        of_one(e.disk_read_bytes),
        of_one(e.disk_written_bytes),
        of_one(e.minor_faults),
        of_one(e.major_faults),
        text::count(e.closing.syncs()),
        text::count(e.closing_ns),
        r.write_amplification.map_or_else(|| text::NONE.to_owned(), text::number),
        text::count(r.file_length_bytes),
        text::count(r.file_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Calls, Effort};

    #[test]
    fn what_was_watched_has_a_row_and_a_server_has_none() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        let of = |report: &Report| table(report, &Comparison::of(report)[0]);
        assert_eq!(of(&report), "", "nothing was watched");
        let result = &mut report.results[0];
        result.effort = Effort {
            operations: 2000,
            calls: Calls { fsync: 1, msync: 999, written_bytes: 64_000, ..Calls::default() },
            closing: Calls { fdatasync: 3, ..Calls::default() },
            closing_ns: 4500,
            minor_faults: 20,
            read_bytes: 2_000_000,
            written_bytes: 80_000,
            disk_read_bytes: 4096,
            ..Effort::default()
        };
        result.write_amplification = Some(2.25);
        (result.file_length_bytes, result.file_bytes) = (12_345_678, 8_000_000);
        let html = of(&report);
        let cells = html.split("</td>").filter_map(|cell| cell.rsplit('>').next());
        let wanted = [
            "build",
            "2,000",
            "0.50",
            "32.0",
            "1,000",
            "40.0",
            "2.05",
            "0.010",
            "3",
            "4,500",
            "2.25",
            "12,345,678",
            "8,000,000",
        ];
        assert_eq!(cells.take(wanted.len()).collect::<Vec<_>>(), wanted, "{html}");
        assert_eq!(html.matches("<td").count(), wanted.len(), "one row");
        assert!(!html.contains("major faults") && html.contains("minor faults"), "{html}");
        assert!(!html.contains("a commit</"), "a build commits nothing: {html}");
        let result = &mut report.results[0];
        (result.phase, result.effort.commits) = ("mixed".to_owned(), 100);
        let html = of(&report);
        let cells: Vec<_> =
            html.split("</td>").filter_map(|cell| cell.rsplit('>').next()).collect();
        assert_eq!(cells[1..7], ["2,000", "0.50", "32.0", "100", "10.0", "640"], "{html}");
        report.stores[0].is_server = true;
        assert_eq!(of(&report), "");
    }
}
