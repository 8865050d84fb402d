//! The comparison of two runs as a table for a terminal: one line for a store and phase.

use super::{Change, Changes, LatencyChange, MEMORY, Speed, ThroughputChange, rate};
use crate::report::pen::{Pen, Style, shortened, width, wrapped};
use crate::report::stats::Ratio;
use crate::report::text;
use crate::report::together::short;
use crate::result::Report;
use std::io::{self, Write};

/// Prints what two runs say of each other; what must be known first comes first.
///
/// # Errors
/// Those of `out`.
pub fn print(
    changes: &Changes,
    before: &Report,
    after: &Report,
    out: &mut impl Write,
    pen: &Pen,
) -> io::Result<()> {
    let name = format!("credenza bench compare  {}", text::clean(&after.settings.workload));
    let records = text::counted(after.settings.records as usize, "record");
    writeln!(out, "{}  {records}", pen.bold(&name))?;
    for (report, when) in [(before, "before"), (after, "after ")] {
        let (machine, rounds) = (&report.machine, text::counted(report.settings.rounds, "round"));
        let facts = [
            text::date(machine.started_unix),
            rounds,
            text::clean(&machine.program),
            text::clean(&machine.cpu),
        ];
        wrapped(out, pen, "", &format!("{when}: {}", facts.join(" · ")))?;
    }
    warning(changes, out, pen)?;
    writeln!(out)?;
    table(&changes.changes, out, pen)?;
    if !changes.together.is_empty() {
        writeln!(
            out,
            "\n{}",
            pen.bold("Several at one store: lookups, changes, or operations of a mix, in a second")
        )?;
        let rows = changes.together.iter().map(|c| (shared_cells(c), style(c.speed)));
        rows_of(&rows.collect::<Vec<_>>(), out, pen)?;
    }
    latencies(&different(&changes.latencies), CLOSED, out, pen)?;
    latencies(&changes.at_rate.iter().collect::<Vec<_>>(), AT_RATE, out, pen)?;
    for of in &changes.growth {
        let with = format!("With {}", text::counted(of.records as usize, "record"));
        writeln!(out, "\n{}", pen.bold(&with))?;
        table(&of.changes, out, pen)?;
        latencies(&different(&of.latencies), &format!("{with}: {CLOSED}"), out, pen)?;
        let at_rate: Vec<_> = of.at_rate.iter().collect();
        latencies(&at_rate, &format!("{with}, at a rate"), out, pen)?;
    }
    lines(changes, out, pen)
}

const AT_RATE_EXPLAINED: &str = "BEHIND its schedule is one regression of a store and phase: more than half of the \
    rounds were, that many more than before. Then no percentile is judged; else each by those of the rounds.";

const AT_RATE: &str = "At a rate: latencies from when an operation was to start";

const CLOSED_EXPLAINED: &str = "p50 and p99, each by those of the rounds; one that differs by no more than a reading \
    of the clock is as before, and is not shown.";

const CLOSED: &str = "Latencies of single operations that are not as before";

/// There are many, and most are as they were: those that are not.
fn different(changes: &[LatencyChange]) -> Vec<&LatencyChange> {
    let is_seen = |change: &&LatencyChange| {
        matches!(change.speed, Speed::Regressed | Speed::Slower | Speed::Faster)
    };
    changes.iter().filter(is_seen).collect()
}

fn latencies(
    changes: &[&LatencyChange],
    title: &str,
    out: &mut impl Write,
    pen: &Pen,
) -> io::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", pen.bold(title))?;
    let rows = changes.iter().map(|c| (latency_cells(c), style(c.speed)));
    rows_of(&rows.collect::<Vec<_>>(), out, pen)
}

/// Why the figures are not to be compared, said before any of them.
fn warning(changes: &Changes, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    if changes.unlike.is_empty() {
        return Ok(());
    }
    let loud = "WARNING: these runs are not alike; what follows is no measurement of a change:";
    writeln!(out, "\n{}", pen.paint(loud, Style::Bad))?;
    changes.unlike.iter().try_for_each(|what| wrapped(out, pen, "  ", &text::clean(what)))
}

const HEADS: [&str; 7] =
    ["store", "phase", "before", "after", "times as fast", "interval", "what is seen"];

fn table(changes: &[Change], out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    let rows = changes.iter().flat_map(|change| {
        let grown = growth_cells(change).into_iter().map(|cells| (cells, Style::Bad));
        std::iter::once((cells(change), style(change.speed))).chain(grown)
    });
    rows_of(&rows.collect::<Vec<_>>(), out, pen)
}

fn style(speed: Speed) -> Style {
    match speed {
        _ if speed.regressed() => Style::Bad,
        Speed::Faster => Style::Good,
        _ => Style::Plain,
    }
}

fn rows_of(rows: &[([String; 7], Style)], out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    let widest = |column: usize| {
        let cells = rows.iter().map(|(row, _)| width(&row[column]));
        cells.chain([width(HEADS[column])]).max().unwrap_or(0)
    };
    let widths: [usize; 7] = std::array::from_fn(widest);
    let heads = HEADS.map(str::to_owned);
    writeln!(out, "{}", pen.paint(&line(&heads, &widths), Style::Dim))?;
    rows.iter()
        .try_for_each(|(row, style)| writeln!(out, "{}", pen.paint(&line(row, &widths), *style)))
}

/// Names and words are set to the left, figures to the right.
fn line(cells: &[String; 7], widths: &[usize; 7]) -> String {
    let mut line = String::new();
    for (column, (cell, wide)) in cells.iter().zip(widths).enumerate() {
        let space = " ".repeat(wide.saturating_sub(width(cell)));
        let is_figure = (2..=5).contains(&column);
        line += &if is_figure { space + cell } else { cell.clone() + &space };
        line += "  ";
    }
    line.trim_end().to_owned()
}

/// How many times as fast, if any difference is seen, and the interval.
fn factor(ratio: Option<&Ratio>) -> (String, String) {
    match ratio {
        Some(ratio) => {
            let ends = text::ends(ratio).map(|[low, high]| format!("[{low}, {high}]"));
            (text::ratio(ratio), ends.unwrap_or_default())
        }
        None => (text::NONE.to_owned(), String::new()),
    }
}

fn shared_cells(change: &ThroughputChange) -> [String; 7] {
    let (factor, interval) = factor(change.ratio.as_ref());
    let readers = short(change.readers, &text::clean(&change.by), change.writers);
    let phase = shortened(&text::clean(&change.phase), 15);
    let rate = |rate: f64| match &*change.phase {
        phase if phase.starts_with("get") => format!("{} M", text::number(rate / 1e6)),
        // Of one that waits for the disk there are few.
        _ => text::number(rate),
    };
    let [before, after] = change.per_second.map(rate);
    [
        shortened(&text::clean(&change.store), 18),
        format!("{phase}, {readers}"),
        before,
        after,
        factor,
        interval,
        in_words(change.speed).to_owned(),
    ]
}

fn latency_cells(change: &LatencyChange) -> [String; 7] {
    let (factor, interval) = match change.speed {
        Speed::TooFewOperations => (text::UNJUDGED.to_owned(), String::new()),
        _ => factor(change.ratio.as_ref()),
    };
    let [before, after] = match change.percentile {
        rate::ALL => change.behind.map(|of| of.map_or_else(|| text::NONE.to_owned(), rounds_late)),
        _ => change.ns.map(|ns| text::nanoseconds(ns as f64)),
    };
    [
        shortened(&text::clean(&change.store), 24),
        format!("{}, {}", shortened(&text::clean(&change.phase), 16), change.percentile),
        before,
        after,
        factor,
        interval,
        in_words(change.speed).to_owned(),
    ]
}

fn rounds_late([late, all]: [usize; 2]) -> String {
    format!("{late} of {all} late")
}

fn cells(change: &Change) -> [String; 7] {
    let (factor, interval) = factor(change.ratio.as_ref());
    [
        shortened(&text::clean(&change.store), 24),
        shortened(&text::clean(&change.phase), 24),
        text::number(change.ns_per_op[0]),
        text::number(change.ns_per_op[1]),
        factor,
        interval,
        in_words(change.speed).to_owned(),
    ]
}

fn in_words(speed: Speed) -> &'static str {
    match speed {
        Speed::Regressed => "REGRESSED",
        Speed::Slower => "slower, within the threshold",
        Speed::NoDifference => "no difference seen",
        Speed::Faster => "faster",
        Speed::TooFewRounds => "too few rounds to judge",
        Speed::TooFewOperations => "too few operations to judge",
        Speed::WrongAnswers => "REGRESSED: wrong answers",
        Speed::WrongBefore => "wrong answers before",
        Speed::Behind => "REGRESSED: BEHIND its schedule",
        Speed::BehindBefore => "BEHIND its schedule in either run: not judged",
    }
}

/// What else became worse of a phase of a store, each in a line of its own.
fn growth_cells(change: &Change) -> Vec<[String; 7]> {
    let [file, memory] = [change.file_bytes, change.peak_rss_bytes].map(|of| of.map(text::bytes));
    let figures = |of: [Option<f64>; 2]| of.map(|of| text::number(of.unwrap_or(0.0)));
    let (written, syncs) = (figures(change.write_amplification), figures(change.syncs_per_commit));
    let all = [
        (change.larger, "file", file, "REGRESSED: larger"),
        (change.more_memory, "memory", memory, "REGRESSED: more memory"),
        (change.more_written, "written", written, "REGRESSED: more bytes written for one"),
        (change.fewer_syncs, "syncs", syncs, "REGRESSED: fewer syncs for a commit"),
    ];
    let row = |(_, what, [before, after], seen): (bool, &str, [String; 2], &str)| {
        let phase = shortened(&text::clean(&change.phase), 16);
        let store = shortened(&text::clean(&change.store), 24);
        let none = String::new();
        [store, format!("{phase}, {what}"), before, after, none.clone(), none, seen.to_owned()]
    };
    all.into_iter().filter(|(is_worse, ..)| *is_worse).map(row).collect()
}

fn lines(changes: &Changes, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    if !changes.lost.is_empty() {
        let title = "REGRESSED: only in the earlier run, and wanted of the later one";
        writeln!(out, "\n{}", pen.paint(title, Style::Bad))?;
    }
    changes.lost.iter().try_for_each(|lost| wrapped(out, pen, "  ", &text::clean(lost)))?;
    if !changes.left_out.is_empty() {
        writeln!(out, "\n{}", pen.bold("Only in the earlier run"))?;
    }
    changes.left_out.iter().try_for_each(|what| wrapped(out, pen, "  ", &text::clean(what)))?;
    writeln!(out)?;
    let threshold = text::number(changes.threshold_percent);
    let memory = text::number(changes.threshold_percent.max(100.0 * MEMORY));
    let legend = format!(
        "Medians of nanoseconds per operation. REGRESSED: the whole 95 % interval is below 1, and \
         the median is more than {threshold} % slower; or the file is larger, or for each byte more was \
         written, by more than that; memory by more than {memory} % and 1 MiB; or less than half the syncs for a \
         commit that is on the disk."
    );
    wrapped(out, pen, "", &legend)?;
    let singly = changes.growth.iter().flat_map(|of| &of.latencies).chain(&changes.latencies);
    let singly: Vec<Speed> = singly.map(|change| change.speed).collect();
    let all: Vec<Speed> = changes.speeds().collect();
    let judged = singly.iter().filter(|speed| speed.is_judged()).count();
    if judged > 0 {
        let judged = text::counted(judged, "percentile");
        wrapped(
            out,
            pen,
            "",
            &format!("{judged} of single operations judged, {CLOSED_EXPLAINED}"),
        )?;
    }
    let is_few = |speed: &&Speed| matches!(speed, Speed::TooFewRounds | Speed::TooFewOperations);
    let few = singly.iter().filter(is_few).count();
    if few > 0 {
        let few = text::counted(few, "percentile");
        let takes = "that takes 3 rounds and 100 operations beyond it, in both runs";
        wrapped(out, pen, "", &format!("{few} of single operations not judged: {takes}."))?;
    }
    if !changes.at_rate.is_empty() || changes.growth.iter().any(|of| !of.at_rate.is_empty()) {
        wrapped(out, pen, "", AT_RATE_EXPLAINED)?;
    }
    for (few, takes) in [
        (Speed::TooFewRounds, "3 rounds in both runs"),
        (Speed::TooFewOperations, "100 operations beyond the percentile in both runs"),
    ] {
        let few = all.iter().filter(|speed| **speed == few).count();
        if few > 0 {
            let few = text::counted(few, "figure");
            wrapped(out, pen, "", &format!("{few} not judged: that takes {takes}."))?;
        }
    }
    changes.notes.iter().try_for_each(|note| wrapped(out, pen, "", &text::clean(note)))?;
    let verdict = match changes.regressions {
        0 if !changes.is_judged() => pen.paint("Nothing could be judged.", Style::Bad),
        0 => pen.paint("Nothing regressed.", Style::Bold),
        n => pen.paint(&format!("{} regressed.", text::counted(n, "figure")), Style::Bad),
    };
    writeln!(out, "\n{verdict}")
}
