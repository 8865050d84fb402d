//! Durability as it was seen: the calls that bring something to the disk, against what stores say.
//!
//! A figure's class says what a store promises; these calls, counted in the measured process, say what
//! it does. They differ where a library is set up otherwise than its driver believes.

use super::text;
use crate::result::{PhaseResult, Report, StoreInfo};
use std::collections::BTreeMap;

/// Where a store says that it syncs and was not seen to, or the other way round, each as a sentence.
pub fn warnings(stores: &[StoreInfo], results: &[PhaseResult]) -> Vec<String> {
    let warning = |result: &PhaseResult| {
        let info = stores.iter().find(|info| info.store == result.store && !info.is_server)?;
        warning(info, result)
    };
    results.iter().filter(|result| result.effort.operations > 0).filter_map(warning).collect()
}

fn warning(info: &StoreInfo, result: &PhaseResult) -> Option<String> {
    let (store, phase) = (&result.store, &result.phase);
    let (timed, closing) = (result.effort.calls.syncs(), result.effort.closing.syncs());
    let is_build = phase == "build";
    // What the workbench itself adds for the class "sync" is not in these counts.
    let says_so = if is_build { !info.syncs.starts_with("none") } else { result.class == "sync" };
    match (says_so, timed) {
        (true, 0) if is_build && closing == 0 => Some(format!(
            "{store}, {phase}: it is to sync ({}), and no call that does was seen",
            info.syncs
        )),
        (true, 0) if !is_build => {
            Some(format!("{store}, {phase}: class sync, and no call that syncs was seen"))
        }
        (false, 1..) => {
            let why = info.syncs_anyway.as_ref().filter(|_| !is_build);
            Some(format!(
                "{store}, {phase}: {} within the timed work, though class {} asks for none{}",
                text::counted(usize::try_from(timed).unwrap_or(usize::MAX), "sync"),
                result.class,
                why.map(|why| format!(": {why}")).unwrap_or_default()
            ))
        }
        _ => None,
    }
}

/// One line for each store that stored something: syncs and bytes written for an operation, in each
/// phase that does.
pub fn lines(report: &Report) -> Vec<String> {
    let line = |info: &StoreInfo| {
        let of_store = report.results.iter().filter(|r| r.store == info.store && stores(r));
        let phases: Vec<String> = of_store.map(in_words).collect();
        (!phases.is_empty()).then(|| format!("{}: {}", info.store, phases.join(" · ")))
    };
    // What a server asks of the disk is not seen here.
    report.stores.iter().filter(|info| !info.is_server).filter_map(line).collect()
}

/// Whether the phase stores something, and it was watched.
fn stores(result: &PhaseResult) -> bool {
    let reads = result.phase.starts_with("get") || matches!(&*result.phase, "scan" | "range");
    !reads && result.effort.operations > 0
}

fn in_words(result: &PhaseResult) -> String {
    let effort = &result.effort;
    let operations = effort.operations as f64;
    let of_one = |count: u64| text::number(count as f64 / operations);
    let mut says = Vec::new();
    if effort.calls.syncs() > 0 {
        // A single sync of a million operations is one of the whole phase.
        let syncs = match effort.calls.syncs() as f64 / operations {
            part if part < 0.001 => format!("{} in all", effort.calls.syncs()),
            _ => of_one(effort.calls.syncs()),
        };
        says.push(format!("{syncs} syncs"));
    }
    if effort.calls.written_bytes > 0 {
        says.push(format!("{} B", of_one(effort.calls.written_bytes)));
    }
    if effort.closing.syncs() > 0 {
        says.push("synced at close".to_owned());
    }
    if says.is_empty() {
        says.push("nothing".to_owned());
    }
    format!("{} {}", result.phase, says.join(" "))
}

/// How many classes there are among these, each with a store of it, and the stores of each in words.
pub(crate) fn by_class<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> (usize, String) {
    let mut classes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (class, store) in all {
        let stores = classes.entry(class).or_default();
        // One that is set up in several ways is named once.
        if !stores.contains(&store) {
            stores.push(store);
        }
    }
    let said = |(class, stores): (&&str, &Vec<&str>)| format!("{class}: {}", stores.join(", "));
    (classes.len(), classes.iter().map(said).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Calls;

    /// A report with one figure of this phase and class: a store that says it syncs so in its build.
    fn report(phase: &str, class: &str, says: &str, timed: u64, closing: u64) -> Report {
        let bytes = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(bytes).unwrap();
        report.stores.truncate(1);
        report.stores[0].syncs = says.to_owned();
        report.results.truncate(1);
        let result = &mut report.results[0];
        (result.phase, result.class) = (phase.to_owned(), class.to_owned());
        result.effort.operations = 100;
        result.effort.calls = Calls { fdatasync: timed, written_bytes: 1600, ..Calls::default() };
        result.effort.closing = Calls { fsync: closing, ..Calls::default() };
        report
    }

    fn warned(phase: &str, class: &str, says: &str, timed: u64, closing: u64) -> Vec<String> {
        let report = report(phase, class, says, timed, closing);
        warnings(&report.stores, &report.results)
    }

    #[test]
    fn who_syncs_otherwise_than_it_says_is_told() {
        assert!(warned("build", "buffered", "none", 0, 0).is_empty());
        assert!(warned("build", "buffered", "fdatasync at publish", 1, 0).is_empty());
        assert!(warned("insert", "buffered", "fdatasync at publish", 0, 1).is_empty());
        assert!(warned("insert-each", "sync", "none", 100, 0).is_empty());
        for (phase, class, says, timed, told) in [
            ("build", "buffered", "fdatasync at publish", 0, "no call that does was seen"),
            ("build", "buffered", "none", 3, "3 syncs within the timed work"),
            ("insert-each", "buffered", "none", 100, "class buffered asks for none"),
            ("insert-each", "sync", "none", 0, "no call that syncs was seen"),
        ] {
            let said = warned(phase, class, says, timed, 0);
            assert!(said.len() == 1 && said[0].contains(told), "{said:?}");
        }
    }

    #[test]
    fn who_syncs_anyway_says_why() {
        let mut report = report("remove", "buffered", "none", 7, 0);
        report.stores[0].syncs_anyway = Some("space".to_owned());
        let said = warnings(&report.stores, &report.results);
        let what = "constant, remove: 7 syncs within the timed work, though class buffered asks for none: space";
        assert_eq!(said, [what]);
    }

    #[test]
    fn a_report_that_was_not_watched_says_nothing() {
        let mut report = report("build", "buffered", "fdatasync", 0, 0);
        report.results[0].effort.operations = 0;
        assert!(warnings(&report.stores, &report.results).is_empty() && lines(&report).is_empty());
    }

    #[test]
    fn syncs_and_bytes_are_for_one_operation() {
        let said = lines(&report("insert-each", "sync", "none", 100, 1));
        assert_eq!(said, ["constant: insert-each 1.00 syncs 16.0 B synced at close"]);
        assert!(lines(&report("get-hit", "buffered", "none", 0, 0)).is_empty());
    }
}
