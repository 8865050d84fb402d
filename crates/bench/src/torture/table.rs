//! What came of a torture, for a terminal.

use super::outcome::Report;
use crate::driver::Fault;
use crate::report::text;
use std::fmt::Write;

/// The whole report.
pub(super) fn of(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(report, &mut out);
    out
}

fn write(report: &Report, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "credenza torture  {}  {}, {} a round  seed {}",
        text::clean(&report.workload),
        text::counted(report.records as usize, "record"),
        text::counted(report.operations, "operation"),
        report.seed,
    )?;
    if report.results.iter().any(|of| of.fault == Fault::Full) {
        writeln!(out, "A full disk is here {}.", report.room)?;
    }
    if !report.results.is_empty() {
        write_rows(report, out)?;
    }
    writeln!(out)?;
    report.results.iter().try_for_each(|of| writeln!(out, "{}.", of.verdict))?;
    for of in report.results.iter().filter(|of| of.is_broken()) {
        writeln!(out, "\n{} broke its promise ({}):", of.store, of.fault.name())?;
        for trouble in &of.troubles {
            writeln!(out, "  round {}: {}", trouble.round, text::clean(&trouble.what))?;
            writeln!(out, "    again: {}", text::clean(&trouble.command))?;
        }
    }
    report.notes.iter().try_for_each(|note| writeln!(out, "{note}"))
}

fn write_rows(report: &Report, out: &mut String) -> std::fmt::Result {
    let width = report.results.iter().map(|of| of.store.len()).max().unwrap_or(0).max(5);
    writeln!(
        out,
        "\n{:<width$}  {:<8} {:<5} {:<10} {:>6} {:>5} {:>12} {:>9} {:>9} {:>6} {:>5} {:>7} {:>7}",
        "store",
        "class",
        "fault",
        "promise",
        "rounds",
        "times",
        "acknowledged",
        "lost",
        "unchecked",
        "wrong",
        "torn",
        "refused",
        "crashed"
    )?;
    for of in &report.results {
        writeln!(
            out,
            "{:<width$}  {:<8} {:<5} {:<10} {:>6} {:>5} {:>12} {:>9} {:>9} {:>6} {:>5} {:>7} {:>7}",
            of.store,
            of.class,
            of.fault.name(),
            of.judged_by(),
            of.rounds,
            of.faults,
            text::count(of.acknowledged),
            text::count(of.lost),
            text::count(of.unchecked),
            of.wrong,
            of.torn,
            of.refused,
            of.crashed,
        )?;
    }
    Ok(())
}
