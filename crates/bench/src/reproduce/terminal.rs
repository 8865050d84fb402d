//! Tables and verdicts as text of 80 columns.
//!
//! Blocks of a table stand beside each other as long as they fit, and below each other where they
//! do not; a block too wide for itself is cut into pieces.

use super::lab::{Lab, Noise};
use super::outcome::{Cell, Outcome, Table};
use crate::report::stores::{self, SetUp};
use crate::report::text;
use crate::result::Machine;
use std::fmt::Write;
use std::ops::Range;

/// Columns of the terminal.
const WIDTH: usize = 80;
/// Between two blocks. Between two columns there is one.
const BETWEEN_BLOCKS: usize = 2;

/// What is said before the first experiment.
pub(super) fn opening(machine: &Machine, scale: f64) -> String {
    let mut facts = vec![
        machine.cpu.clone(),
        text::counted(machine.cores, "core"),
        text::binary_bytes(machine.memory_bytes),
        machine.kernel.clone(),
        text::date(machine.started_unix),
    ];
    facts.retain(|fact| !fact.is_empty());
    let mut out = wrapped("Here: ", &facts.join(", "));
    if (scale - 1.0).abs() > f64::EPSILON {
        let what = format!(
            "every number of records is {scale} times what the document had, or the least that its experiment makes sense with"
        );
        out += &wrapped("Scaled: ", &what);
    }
    out
}

fn wrapped(mark: &str, text: &str) -> String {
    text::below(mark, text, WIDTH)
}

/// One experiment.
pub(super) fn show(outcome: &Outcome) -> String {
    let name = format!("=== {} ", outcome.document);
    let mut out = format!("\n{name:=<WIDTH$}\n");
    out += &wrapped("", outcome.source);
    out += &wrapped("Published: ", &format!("{}; {}", outcome.hardware, outcome.year));
    for what in &outcome.differs {
        out += &wrapped("Otherwise here: ", what);
    }
    for table in &outcome.tables {
        out.push('\n');
        out += &wrapped("", &table.title);
        out += &shown(table);
    }
    out.push('\n');
    for verdict in &outcome.verdicts {
        let mark = format!("{:<5}", verdict.holds.mark());
        out += &wrapped(&mark, &format!("{}: {}", verdict.about, verdict.here));
    }
    let used: Vec<&Noise> = outcome.noise.iter().filter(|noise| noise.is_used()).collect();
    if !used.is_empty() {
        out += &wrapped("Noise: ", &noise(&used));
    }
    out
}

/// How many times as fast as itself a store looked in what ratios are of, part by part.
fn noise(all: &[&Noise]) -> String {
    let of_part = |of: &[&Noise]| {
        let figures: Vec<String> = of
            .iter()
            .map(|one| format!("{} {}", one.figure, text::number(one.ratio.floor)))
            .collect();
        format!("{}, {}: {}", of[0].part, of[0].store, figures.join(", "))
    };
    let parts: Vec<String> = all.chunk_by(|one, next| one.part == next.part).map(of_part).collect();
    format!(
        "a store that took part twice in each round looked so many times as fast as itself, and a ratio \
         within that, or its inverse, shows no difference. {}",
        parts.join("; ")
    )
}

/// What is said after the last experiment: how stores were set up, what is missing, what failed.
pub(super) fn closing(lab: &Lab<'_>) -> String {
    // What is published has one class in one part and another in the next: the parts say which.
    let all: Vec<SetUp<'_>> = lab.stores.iter().map(|info| SetUp::of(info, &[])).collect();
    let mut out = format!("\n{}", stores::block(&all, WIDTH));
    for note in &lab.notes {
        out += &wrapped("Note: ", note);
    }
    for failure in &lab.failures {
        let what = format!("{} ({}): {}", failure.store, failure.status, failure.what);
        out += &wrapped("Failed: ", &what);
    }
    out
}

/// Some columns of a block, with their widths.
struct Piece {
    block: usize,
    columns: Range<usize>,
    widths: Vec<usize>,
}

impl Piece {
    fn width(&self) -> usize {
        self.widths.iter().sum::<usize>() + self.widths.len().saturating_sub(1)
    }
}

fn shown(table: &Table) -> String {
    // A heading over rows may be longer than their labels.
    let with_cells = table.rows.iter().filter(|row| !row.cells.is_empty());
    let labels = with_cells.map(|row| row.label.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut used = labels;
    for piece in (0..table.blocks.len()).flat_map(|block| pieces_of(table, block, WIDTH - labels)) {
        if !pieces.is_empty() && used + BETWEEN_BLOCKS + piece.width() > WIDTH {
            out += &beside(table, &pieces, labels);
            pieces.clear();
            used = labels;
        }
        used += BETWEEN_BLOCKS + piece.width();
        pieces.push(piece);
    }
    if !pieces.is_empty() {
        out += &beside(table, &pieces, labels);
    }
    out
}

/// A block in pieces that each fit in `room`.
fn pieces_of(table: &Table, block: usize, room: usize) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for column in 0..table.blocks[block].columns.len() {
        let cells = table.rows.iter().filter_map(|row| row.cells.get(block)?.get(column));
        let widest = cells.map(|cell| cell.text().chars().count()).max().unwrap_or(0);
        let width = widest.max(table.blocks[block].columns[column].chars().count());
        let fits = |piece: &&mut Piece| BETWEEN_BLOCKS + piece.width() + 1 + width <= room;
        match pieces.last_mut().filter(fits) {
            Some(piece) => {
                piece.columns.end = column + 1;
                piece.widths.push(width);
            }
            None => pieces.push(Piece { block, columns: column..column + 1, widths: vec![width] }),
        }
    }
    // The title must not reach into the next block.
    let title = table.blocks[block].title.chars().count();
    for piece in &mut pieces {
        let lacking = title.saturating_sub(piece.width());
        if let Some(width) = piece.widths.first_mut() {
            *width += lacking;
        }
    }
    pieces
}

/// Pieces beside each other, with the rows that have anything in them.
fn beside(table: &Table, pieces: &[Piece], labels: usize) -> String {
    let (gap, mut out) = (" ".repeat(BETWEEN_BLOCKS), String::new());
    let (mut titles, mut heads) = (" ".repeat(labels), " ".repeat(labels));
    for piece in pieces {
        let block = &table.blocks[piece.block];
        let _ = write!(titles, "{gap}{:<width$}", block.title, width = piece.width());
        heads += &gap;
        heads += &line(block.columns[piece.columns.clone()].iter().map(String::as_str), piece);
    }
    let _ = writeln!(out, "{}\n{}", titles.trim_end(), heads.trim_end());
    let mut heading = None;
    for row in &table.rows {
        if row.cells.is_empty() {
            heading = Some(&row.label);
            continue;
        }
        let mut text = format!("{:<labels$}", row.label);
        let mut is_empty = true;
        for piece in pieces {
            let all = row.cells.get(piece.block).map_or(&[][..], Vec::as_slice);
            let cells = all.get(piece.columns.clone()).unwrap_or_default();
            is_empty &= !cells.iter().any(|cell| !matches!(cell, Cell::None));
            let cells: Vec<String> = cells.iter().map(Cell::text).collect();
            text += &gap;
            text += &match cells.is_empty() {
                true => " ".repeat(piece.width()),
                false => line(cells.iter().map(String::as_str), piece),
            };
        }
        if !is_empty {
            if let Some(heading) = heading.take() {
                let _ = writeln!(out, "{heading}");
            }
            let _ = writeln!(out, "{}", text.trim_end());
        }
    }
    out
}

fn line<'a>(cells: impl Iterator<Item = &'a str>, piece: &Piece) -> String {
    let cells: Vec<String> =
        cells.zip(&piece.widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
    cells.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: usize) -> Table {
        let names: Vec<String> = (0..columns).map(|i| format!("column{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut table = Table::new("t").block("published", &names).block("measured here", &names);
        let cells = || vec![Cell::Published("12345"); columns];
        table.row("a store", vec![cells(), cells()]);
        table.row("ours", vec![Vec::new(), cells()]);
        table
    }

    #[test]
    fn blocks_are_beside_or_below_each_other_and_never_too_wide() {
        let heads = |columns| {
            let text = shown(&table(columns));
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            text.lines().filter(|line| line.contains("column0")).count()
        };
        assert_eq!(heads(3), 1, "beside");
        assert_eq!(heads(6), 2, "below");
        assert_eq!(heads(20), 2, "and in pieces");
        let text = shown(&table(6));
        assert_eq!(text.matches("ours").count(), 1, "no line where there is nothing:\n{text}");
    }

    #[test]
    fn long_sentences_are_broken_at_blanks() {
        let text = wrapped("mark: ", &"word ".repeat(40));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(
            text.starts_with("mark: word")
                && text.lines().nth(1).unwrap().starts_with("      word")
        );
    }
}
