//! What came of a replay, for a terminal.

use super::{OfStore, Report};
use crate::report::pen::WIDTH;
use crate::report::stores::{self, SetUp};
use crate::report::{durability, text};
use std::fmt::Write;

/// The whole report.
pub(super) fn of(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(report, &mut out);
    out
}

fn write(report: &Report, out: &mut String) -> std::fmt::Result {
    let speed = match report.speed.as_str() {
        "full" => "at full speed".to_owned(),
        "original" => "at the original times".to_owned(),
        rate => format!("at {rate} operations a second"),
    };
    // What nobody recorded had no time.
    let recorded = match report.recorded_seconds {
        0.0 => String::new(),
        seconds => format!(" in {seconds:.3} s when recorded, here"),
    };
    writeln!(
        out,
        "credenza replay  {}  {}{recorded} {speed}",
        text::clean(&report.trace),
        text::counted(usize::try_from(report.entries).unwrap_or(usize::MAX), "operation"),
    )?;
    let before = usize::try_from(report.records_before).unwrap_or(usize::MAX);
    writeln!(out, "Stores begin with {}.", text::counted(before, "record"))?;
    report.notes.iter().try_for_each(|note| writeln!(out, "{}", text::clean(note)))?;
    if let Some(why) = &report.stopped {
        writeln!(out, "The recording ended before the program did: {why}.")?;
    }
    for (why, count) in &report.left_out {
        writeln!(out, "Left out: {} entries that {why}.", text::count(*count))?;
    }
    if report.interrupted {
        writeln!(
            out,
            "This is not all: it was stopped by a signal, and shows what was done before."
        )?;
    }
    if report.stores.is_empty() {
        return writeln!(out, "\nNothing was replayed.");
    }
    let width = report.stores.iter().map(|of| of.store.len()).max().unwrap_or(0).max(5);
    writeln!(
        out,
        "\n{:<width$}  {:<9} {:>11} {:>11} {:>9} {:>9} {:>9} {:>9}",
        "store", "operation", "count", "per second", "p50", "p99", "p99.9", "max"
    )?;
    report.stores.iter().try_for_each(|of| rows(of, width, out))?;
    writeln!(out)?;
    if report.stores.iter().any(|of| !of.kept_up) {
        writeln!(
            out,
            "BEHIND: it ended more than 1 % and a millisecond later than its schedule: its latencies grow with \
             the length of the run, and are no property of the store."
        )?;
    }
    classes(&report.stores, out)?;
    for OfStore { store, stopped_after, .. } in &report.stores {
        if let Some(done) = stopped_after {
            let done = text::counted(*done as usize, "step");
            writeln!(out, "PARTIAL: {store} had done {done} when the signal came.")?;
        }
    }
    report.stores.iter().try_for_each(|of| remarks(of, out))?;
    let set_up = |of| {
        let OfStore { store, version, class, tuning, .. }: &OfStore = of;
        SetUp { store, version, classes: class.as_deref().into_iter().collect(), tuning }
    };
    let all: Vec<SetUp<'_>> = report.stores.iter().map(set_up).collect();
    write!(out, "\n{}", stores::block(&all, WIDTH))
}

fn rows(of: &OfStore, width: usize, out: &mut String) -> std::fmt::Result {
    let all = of.latency.as_ref().map(|latency| ("all", of.operations, latency));
    let kinds = of.by_operation.iter().map(|(name, of)| (name.as_str(), of.count, &of.latency));
    let mut store = of.store.as_str();
    for (name, count, latency) in all.into_iter().chain(kinds) {
        let rate =
            if name == "all" { text::number(of.operations_per_second) } else { String::new() };
        let marks = [(!of.kept_up, "  BEHIND"), (of.stopped_after.is_some(), "  PARTIAL")];
        let is_marked =
            |(is_so, mark): (bool, &'static str)| (name == "all" && is_so).then_some(mark);
        let marks: String = marks.into_iter().filter_map(is_marked).collect();
        let [p50, p99, p999, max] = [latency.p50, latency.p99, latency.p999, latency.max]
            .map(|ns| text::nanoseconds(ns as f64));
        writeln!(
            out,
            "{store:<width$}  {name:<9} {:>11} {rate:>11} {p50:>9} {p99:>9} {p999:>9} {max:>9}{marks}",
            text::count(count),
        )?;
        store = "";
    }
    Ok(())
}

/// Warns where stores promise unlike things of what was changed.
fn classes(stores: &[OfStore], out: &mut String) -> std::fmt::Result {
    let classes = stores.iter().filter_map(|of| Some((of.class.as_deref()?, &*of.store)));
    let (count, said) = durability::by_class(classes);
    match count {
        0 => Ok(()),
        1 => writeln!(out, "Changes of the class {said}."),
        _ => writeln!(
            out,
            "WARNING: these are not of one durability class, and their changes not alike: {said}."
        ),
    }
}

fn remarks(of: &OfStore, out: &mut String) -> std::fmt::Result {
    let store = &of.store;
    if let Some(built) = of.built {
        let records = text::counted(built.records as usize, "record");
        let took = text::nanoseconds(built.seconds * 1e9);
        writeln!(out, "{store}: built of {records} in {took}, before anything is read")?;
    }
    let differ = of.lost + of.extra;
    if of.compared == 0 {
        writeln!(out, "{store}: no answer to compare with the recording")?;
    } else {
        let (alike, all) = (text::count(of.compared - differ), text::count(of.compared));
        writeln!(out, "{store}: {alike} of {all} answers are as recorded")?;
    }
    if differ > 0 {
        writeln!(
            out,
            "{store}: {} too few and {} too many, against the recording; the first: {}",
            text::counted(of.lost as usize, "key"),
            text::counted(of.extra as usize, "key"),
            text::clean(of.first_difference.as_deref().unwrap_or_default()),
        )?;
    }
    if of.scans > 0 {
        let alike = text::count(of.scans - of.scans_unlike);
        let all = text::counted(of.scans as usize, "scan");
        writeln!(out, "{store}: {alike} of {all} read as many records as recorded")?;
    }
    for (what, count) in &of.skipped {
        writeln!(out, "{store}: skipped {} {what}", text::count(*count))?;
    }
    Ok(())
}
