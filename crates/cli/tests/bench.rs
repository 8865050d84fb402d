//! Danger: the program does not find its way back into the workbench when it starts itself again.

mod common;
use common::*;

#[test]
fn a_small_run_is_measured_and_verified() {
    let folder = Folder::new();
    let (json, dir) = (folder.path("report.json"), folder.path(""));
    let args = "bench --stores constant --records 2000 --gets 500 --rounds 1 --no-pin".split(' ');
    let args: Vec<&str> = args.chain(["--dir", &dir, "--json", &json]).collect();
    let table = run(&args).expect(0).text();
    assert!(table.contains("constant"), "{table}");
    let report = std::fs::read_to_string(&json).expect("the report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["credenza_bench"], 1);
    let results = report["results"].as_array().expect("results");
    assert!(!results.is_empty() && results.iter().all(|result| result["verified"] == true));
    assert_eq!(folder.names(), ["report.json"], "the measured stores are removed");
}

#[test]
fn wrong_options_and_missing_data_are_errors() {
    let folder = Folder::new();
    for args in [
        &["bench", "--stores", "nonsense"][..],
        &["bench", "--workload", "nonsense"],
        &["bench", "--data", &folder.path("absent")],
        &["bench", "--rounds", "x"],
    ] {
        let got = run(args).expect(111);
        assert!(got.err.starts_with("error: "), "{args:?}: {}", got.err);
    }
    // Of all other commands --json takes no file: what stands behind it is a store.
    let store = folder.store("hash", &plain_records(1));
    let before = std::fs::read(&store).expect("the store");
    for args in [&["bench", "--list", "--json", &store][..], &["bench", "--html", &store]] {
        let got = run(args).expect(111);
        assert!(got.err.contains("none that this option writes"), "{}", got.err);
        assert!(std::fs::read(&store).expect("the store") == before, "{args:?}");
    }
    let listed = parsed(run(&["bench", "--list", "--json", "-"]));
    assert!(listed.as_array().is_some_and(|stores| !stores.is_empty()));
    assert!(!std::path::Path::new("-").exists());
    assert!(run(&["bench", "--list"]).expect(0).text().contains("constant"));
}
