//! What each phase took besides time, as a table of the page: calls that sync, bytes, page faults, and what the
//! files take.

use super::compare::{Comparison, is_own};
use super::durability::of_one;
use super::figures::{number_cell, sortable};
use super::{chart::escape, text};
use crate::result::{PhaseResult, Report};

const HEADS: [&str; 15] = [
    "store",
    "phase",
    "operations",
    "syncs",
    "syncs at close",
    "bytes by calls",
    "bytes read",
    "bytes written",
    "disk read",
    "disk written",
    "minor faults",
    "major faults",
    "write amplification",
    "file length",
    "allocated",
];

const EXPLAINED: &str = "Of the timed work of all rounds, for an operation: calls that sync (those at close, \
    which is not timed, in all), bytes that calls seen here wrote, bytes that calls of any kind read and wrote \
    as the kernel counts them, bytes read from a disk and pages of files on a disk that were changed (none on \
    tmpfs), and page faults. Write amplification: bytes that went to the files for each byte of keys and values. \
    Length of the files and what they take on the file system, in bytes, when the phase was done.";

/// A row for each phase of each store that was watched; empty without any.
pub fn table(report: &Report, c: &Comparison) -> String {
    // What a server does is not seen here.
    let is_server =
        |r: &PhaseResult| report.stores.iter().any(|info| info.store == r.store && info.is_server);
    let watched = c.in_order().filter(|r| r.effort.operations > 0 && !is_server(r));
    let rows: String = watched.map(row).collect();
    if rows.is_empty() {
        return rows;
    }
    let label = "Syncs, bytes, page faults and files";
    format!(r#"<p class="note">{EXPLAINED}</p>{}"#, sortable(label, &HEADS, &rows))
}

fn row(r: &PhaseResult) -> String {
    let class = if is_own(&r.store) { "own" } else { "" };
    let e = &r.effort;
    // What cells are sorted by needs no more digits than this.
    let cell = |figure: f64, shown: &str| number_cell(Some((figure * 1e4).round() / 1e4), shown);
    let whole = |count: u64| cell(count as f64, &text::count(count));
    let times = |count: u64| cell(count as f64 / e.operations as f64, &of_one(count, e.operations));
    let bytes = |count: u64| {
        let of_one = count as f64 / e.operations as f64;
        cell(of_one, &if count == 0 { "0".to_owned() } else { text::number(of_one) })
    };
    let amplification = r.write_amplification;
    [
        format!(
            r#"<tr class="{class}"><th scope="row">{}</th><td class="text">{}</td>"#,
            escape(&r.store),
            escape(&r.phase)
        ),
        whole(e.operations),
        times(e.calls.syncs()),
        whole(e.closing.syncs()),
        bytes(e.calls.written_bytes),
        bytes(e.read_bytes),
        bytes(e.written_bytes),
        bytes(e.disk_read_bytes),
        bytes(e.disk_written_bytes),
        times(e.minor_faults),
        times(e.major_faults),
        number_cell(amplification, &amplification.map(text::number).unwrap_or_default()),
        whole(r.file_length_bytes),
        whole(r.file_bytes),
        "</tr>".to_owned(),
    ]
    .concat()
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
            minor_faults: 1,
            major_faults: 20,
            read_bytes: 2_000_000,
            written_bytes: 80_000,
            disk_read_bytes: 4096,
            disk_written_bytes: 160_000,
            ..Effort::default()
        };
        result.write_amplification = Some(2.25);
        (result.file_length_bytes, result.file_bytes) = (12_345_678, 8_000_000);
        let html = of(&report);
        let cells: Vec<&str> =
            html.split("</td>").filter_map(|cell| cell.rsplit('>').next()).collect();
        let wanted = [
            "build",
            "2,000",
            "0.50",
            "3",
            "32.0",
            "1,000",
            "40.0",
            "2.05",
            "80.0",
            "1 in all",
            "0.010",
            "2.25",
            "12,345,678",
            "8,000,000",
        ];
        assert_eq!(cells[..wanted.len()], wanted, "{html}");
        assert_eq!(html.matches("<th ").count(), HEADS.len() + 1, "one row");
        assert_eq!(html.matches("<td").count(), HEADS.len() - 1);
        report.stores[0].is_server = true;
        assert_eq!(of(&report), "");
    }
}
