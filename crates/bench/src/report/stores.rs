//! How each store of a run was set up: its version, its durability class, and every setting, as the last
//! block of what a terminal shows.

use super::text;
use crate::result::{Report, StoreInfo};

/// One store.
pub(crate) struct SetUp<'a> {
    pub(crate) store: &'a str,
    pub(crate) version: &'a str,
    /// The durability classes of its figures: none where nothing of it has one.
    pub(crate) classes: Vec<&'a str>,
    pub(crate) tuning: &'a str,
}

impl<'a> SetUp<'a> {
    /// One whose figures are of these classes.
    pub(crate) fn of(info: &'a StoreInfo, classes: &[&'a str]) -> SetUp<'a> {
        let StoreInfo { store, version, tuning, .. } = info;
        SetUp { store, version, classes: classes.to_vec(), tuning }
    }
}

/// Those of a report, each with the classes that its figures are of, or would have been.
pub(crate) fn of_report(report: &Report) -> Vec<SetUp<'_>> {
    report.stores.iter().map(|info| SetUp::of(info, &classes(info, report))).collect()
}

fn classes<'a>(info: &'a StoreInfo, report: &'a Report) -> Vec<&'a str> {
    let alone = report.results.iter().map(|r| (&r.store, &r.class));
    let together = report.together.iter().map(|r| (&r.store, &r.class));
    let mut classes: Vec<&str> = Vec::new();
    for (_, class) in alone.chain(together).filter(|(store, _)| **store == info.store) {
        if !classes.contains(&class.as_str()) {
            classes.push(class);
        }
    }
    if classes.is_empty() {
        classes.push(&info.class);
    }
    classes
}

/// All of them in lines of at most `width` columns.
pub(crate) fn block(stores: &[SetUp<'_>], width: usize) -> String {
    let mut out = String::from("Stores:\n");
    for SetUp { store, version, classes, tuning } in stores {
        let classes = match &classes[..] {
            [] => String::new(),
            [class] => format!(" (class {class})"),
            classes => format!(" (classes {})", classes.join(", ")),
        };
        let tuning = if tuning.is_empty() { "every setting as it comes" } else { tuning };
        out += &text::below("  ", &format!("{store} {version}{classes}: {tuning}"), width);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_has_its_version_its_classes_and_its_settings() {
        let bytes = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(bytes).unwrap();
        let later = report.results.iter_mut().rfind(|r| r.store == "tokyocabinet-hash").unwrap();
        later.class = "sync".to_owned();
        let shown = block(&of_report(&report), 60);
        assert_eq!(shown.lines().next(), Some("Stores:"));
        assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for says in [
            "constant 0.1.0 (class buffered): every setting as it comes",
            "tokyocabinet-hash 1.4.48 (classes buffered, sync): bnum = 2 x records, xmsiz 6 GiB",
        ] {
            assert!(words.contains(says), "{says}: {words}");
        }
        // That it failed does not hide how it was set up.
        assert!(report.stores.iter().all(|info| words.contains(&*info.store)), "{words}");
    }
}
