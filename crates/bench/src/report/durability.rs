//! Durability as it was seen: the calls that bring something to the disk, against what stores say.
//!
//! A figure's class says what a store promises; these calls, counted in the measured process, say what
//! it does. They differ where a library is set up otherwise than its driver believes.

use super::text;
use super::together::many;
use crate::result::{Calls, PhaseResult, Report, StoreInfo, TogetherResult};
use std::collections::BTreeMap;

/// Where a store says that it syncs and was not seen to, or the other way round, each as a sentence.
pub fn warnings(
    stores: &[StoreInfo],
    results: &[PhaseResult],
    together: &[TogetherResult],
) -> Vec<String> {
    let info_of = |store: &str| stores.iter().find(|info| info.store == store && !info.is_server);
    let alone = results.iter().filter(|result| result.effort.operations > 0);
    let alone = alone.filter_map(|result| warning(info_of(&result.store)?, result));
    let is_unsynced = |r: &&TogetherResult| r.class == "sync" && r.syncs_per_change == Some(0.0);
    let several = together.iter().filter(is_unsynced).filter_map(|r| {
        let (store, several) = (&info_of(&r.store)?.store, many(r.readers, &r.by));
        let phase = &r.phase;
        Some(format!("{store}, {phase}, {several}: class sync, and no call that syncs was seen"))
    });
    alone.chain(several).collect()
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

/// One line for each store that stored something: syncs and bytes written for a commit, in each phase that does;
/// for an operation, too, where that is not the same, and alone where there is no commit within the timed work.
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
    let operation = if result.phase == "build" { "a record" } else { "an operation" };
    let (count, unit) = match effort.commits {
        0 => (effort.operations, operation),
        commits => (commits, "a commit"),
    };
    let (few, of_one) = for_each(&effort.calls, count, unit);
    let mut says: Vec<String> = few.into_iter().chain(of_one).collect();
    if count != effort.operations {
        let (_, of_one) = for_each(&effort.calls, effort.operations, operation);
        says.extend(of_one.map(|of| format!("({of})")));
    }
    if effort.closing.syncs() > 0 {
        says.push("synced at close".to_owned());
    }
    if says.is_empty() {
        says.push("nothing".to_owned());
    }
    format!("{} {}", result.phase, says.join(" "))
}

/// What there was of these calls: syncs of the whole phase, where they are few beside so many, and all else for
/// each of these.
fn for_each(calls: &Calls, count: u64, unit: &str) -> (Option<String>, Option<String>) {
    let of_one = |calls: u64| calls as f64 / count as f64;
    let mut says = Vec::new();
    let are_few = of_one(calls.syncs()) < 0.001;
    if calls.syncs() > 0 && !are_few {
        says.push(format!("{} syncs", text::number(of_one(calls.syncs()))));
    }
    if calls.written_bytes > 0 {
        says.push(format!("{} B", text::number(of_one(calls.written_bytes))));
    }
    let few = (calls.syncs() > 0 && are_few).then(|| {
        let syncs = usize::try_from(calls.syncs()).unwrap_or(usize::MAX);
        format!("{} in all", text::counted(syncs, "sync"))
    });
    (few, (!says.is_empty()).then(|| format!("{} {unit}", says.join(" "))))
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
        warnings(&report.stores, &report.results, &report.together)
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
    fn threads_that_sync_nothing_are_told() {
        let mut report = report("remove", "buffered", "none", 0, 0);
        let one = TogetherResult {
            store: report.stores[0].store.clone(),
            phase: "mixed".to_owned(),
            class: "sync".to_owned(),
            readers: 4,
            syncs_per_change: Some(0.5),
            ..crate::report::together::some().remove(0)
        };
        report.together = vec![one.clone(), TogetherResult { syncs_per_change: Some(0.0), ..one }];
        let said = warnings(&report.stores, &report.results, &report.together);
        let what = "constant, mixed, 4 threads: class sync, and no call that syncs was seen";
        assert_eq!(said, [what]);
    }

    #[test]
    fn who_syncs_anyway_says_why() {
        let mut report = report("remove", "buffered", "none", 7, 0);
        report.stores[0].syncs_anyway = Some("space".to_owned());
        let said = warnings(&report.stores, &report.results, &report.together);
        let what = "constant, remove: 7 syncs within the timed work, though class buffered asks for none: space";
        assert_eq!(said, [what]);
    }

    #[test]
    fn a_report_that_was_not_watched_says_nothing() {
        let mut report = report("build", "buffered", "fdatasync", 0, 0);
        report.results[0].effort.operations = 0;
        assert!(
            warnings(&report.stores, &report.results, &report.together).is_empty()
                && lines(&report).is_empty()
        );
    }

    #[test]
    fn syncs_and_bytes_are_for_one_commit() {
        let mut each = report("insert-each", "sync", "none", 100, 1);
        each.results[0].effort.commits = 100;
        let said = "constant: insert-each 1.00 syncs 16.0 B a commit synced at close";
        assert_eq!(lines(&each), [said]);
        // A hundred operations in four transactions.
        let mut mixed = report("mixed", "buffered", "none", 8, 0);
        mixed.results[0].effort.commits = 4;
        let said = "constant: mixed 2.00 syncs 400 B a commit (0.080 syncs 16.0 B an operation)";
        assert_eq!(lines(&mixed), [said]);
        // A sync of ten thousand commits is one of the whole phase.
        let mut remove = report("remove", "buffered", "none", 1, 0);
        (remove.results[0].effort.operations, remove.results[0].effort.commits) = (20_000, 10_000);
        let said = "constant: remove 1 sync in all 0.16 B a commit (0.080 B an operation)";
        assert_eq!(lines(&remove), [said]);
        assert!(lines(&report("get-hit", "buffered", "none", 0, 0)).is_empty());
    }

    #[test]
    fn without_commits_the_unit_is_another_and_is_said() {
        // Committed when the store is closed, or of a report from before commits were counted.
        let said = lines(&report("insert", "at-close", "none", 0, 1));
        assert_eq!(said, ["constant: insert 16.0 B an operation synced at close"]);
        let said = lines(&report("build", "buffered", "fdatasync", 1, 0));
        assert_eq!(said, ["constant: build 0.010 syncs 16.0 B a record"]);
    }
}
