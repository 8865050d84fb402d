//! Danger: CI takes a slower program for a good one, or stops at a file that nobody can make sense of.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A saved run of two stores.
fn saved() -> String {
    let mut report: Value = serde_json::from_str(include_str!("fixtures/report.json")).unwrap();
    let results = report["results"].as_array_mut().unwrap();
    results.retain(|result| result["store"] == "constant" || result["store"] == "cdb");
    report.to_string()
}

fn compare(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_credenza-bench");
    Command::new(program).arg("compare").args(args).output().expect("the workbench does not start")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file in a folder of the test, and its path as text.
fn file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The same run with every sample of `constant` twice as large.
fn slower() -> String {
    let mut report: Value = serde_json::from_str(&saved()).unwrap();
    for result in report["results"].as_array_mut().unwrap() {
        if result["store"] == "constant" {
            let figures = &mut result["ns_per_op"];
            let twice = |figure: &mut Value| *figure = (figure.as_f64().unwrap() * 2.0).into();
            figures["samples"].as_array_mut().unwrap().iter_mut().for_each(twice);
            ["median", "low", "high"].iter().for_each(|name| twice(&mut figures[*name]));
        }
    }
    report.to_string()
}

#[test]
fn the_exit_status_tells_whether_something_regressed() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) =
        (file(folder.path(), "a.json", saved()), file(folder.path(), "b.json", slower()));
    let same = compare(&[&before, &before]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    assert!(text(&same.stdout).contains("Nothing regressed."));

    let out = folder.path().join("out.json");
    let worse = compare(&[&before, &after, "--json", out.to_str().unwrap()]);
    assert_eq!(worse.status.code(), Some(1), "{}", text(&worse.stderr));
    assert!(text(&worse.stdout).contains("REGRESSED"), "{}", text(&worse.stdout));
    let json: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(json["credenza_bench_compare"], 1);
    assert!(json["regressions"].as_u64().unwrap() > 3, "{json}");
    let of_constant =
        json["changes"].as_array().unwrap().iter().find(|c| c["store"] == "constant").unwrap();
    assert_eq!(of_constant["speed"], "regressed");
    assert!((of_constant["ratio"]["median"].as_f64().unwrap() - 0.5).abs() < 0.01, "{of_constant}");

    // The other way round everything became faster; and who expects half the speed is content.
    assert_eq!(compare(&[&after, &before]).status.code(), Some(0));
    assert_eq!(compare(&[&before, &after, "--threshold=150"]).status.code(), Some(0));
}

/// A median that is not that of the samples was taken for what the run gave.
#[test]
fn a_median_that_the_samples_contradict_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut report: Value = serde_json::from_str(&saved()).unwrap();
    report["results"][0]["ns_per_op"]["median"] = 1.0.into();
    let before = file(folder.path(), "a.json", saved());
    let after = file(folder.path(), "b.json", report.to_string());
    let got = compare(&[&before, &after]);
    assert_eq!(got.status.code(), Some(111));
    assert!(text(&got.stderr).contains("is not that of the samples"), "{}", text(&got.stderr));
}

#[test]
fn unlike_runs_are_refused_or_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let other = saved().replace("AMD EPYC 9R14", "Another").replace("tmpfs", "ext4");
    let (before, after) =
        (file(folder.path(), "a.json", saved()), file(folder.path(), "b.json", other));
    let refused = compare(&[&before, &after]);
    assert_eq!(refused.status.code(), Some(111));
    let why = text(&refused.stderr);
    for says in ["AMD EPYC 9R14", "Another", "ext4", "--anyway"] {
        assert!(why.contains(says), "{why}");
    }
    let warned = compare(&[&before, &after, "--anyway"]);
    assert_eq!(warned.status.code(), Some(0), "{}", text(&warned.stderr));
    assert!(text(&warned.stdout).contains("WARNING"), "{}", text(&warned.stdout));
}

#[test]
fn damaged_files_are_errors_that_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), "good.json", saved());
    let cut = file(folder.path(), "cut.json", &saved()[..900]);
    let empty = file(folder.path(), "empty.json", "");
    let binary = file(folder.path(), "binary.json", [0xff, 0, 1]);
    let wrong = file(folder.path(), "wrong.json", r#"{"credenza_bench": 2, "results": "none"}"#);
    for bad in [&cut, &empty, &binary, &wrong] {
        for args in [[bad, &good], [&good, bad]] {
            let done = compare(&args.map(String::as_str));
            assert_eq!(done.status.code(), Some(111), "{bad}");
            let why = text(&done.stderr);
            assert!(why.contains(bad.as_str()) && why.contains("credenza bench --json"), "{why}");
        }
    }
    let folder = folder.path().to_str().unwrap();
    for bad in ["/nowhere/run.json", folder] {
        let done = compare(&[bad, &good]);
        assert_eq!(done.status.code(), Some(111));
        assert!(text(&done.stderr).contains(bad), "{}", text(&done.stderr));
    }
    for threshold in ["--threshold=-1", "--threshold=nan", "--threshold=x"] {
        let done = compare(&[&good, &good, threshold]);
        assert!(!done.status.success() && done.status.code() != Some(1), "{threshold}");
    }
}

/// The saved run with its results changed.
fn changed(change: impl Fn(&mut Vec<Value>)) -> String {
    let mut report: Value = serde_json::from_str(&saved()).unwrap();
    change(report["results"].as_array_mut().unwrap());
    report.to_string()
}

#[test]
fn figures_that_no_run_gives_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), "good.json", saved());
    let samples = |value: Value| changed(|r| r[1]["ns_per_op"]["samples"] = value.clone());
    let cases = [
        (samples(serde_json::json!([])), "samples: 0, rounds: "),
        (samples(serde_json::json!([1.0, 2.0])), "samples: 2, rounds: "),
        (samples(serde_json::json!([-1, 0, 0, 1, 1, 1, 1])), "the sample -1 is not above 0"),
        (samples(serde_json::json!([1, 1, 0, 1, 1, 1, 1])), "the sample 0 is not above 0"),
        (changed(|r| r[1]["phase"] = "get-lots".into()), "there is no phase 'get-lots'"),
        (changed(|r| r[1]["class"] = "nosuch".into()), "there is no class \"nosuch\""),
        (changed(|r| r[1]["hit_rate"] = 5.0.into()), "hit_rate: 5.0 is not from 0 to 1"),
        (changed(|r| r[1]["store"] = "a\u{1b}[2J".into()), "is no name of a store"),
        (changed(|r| r[1] = r[0].clone()), "are those of a result before it"),
        (
            changed(|r| r[1]["sample_rounds"] = serde_json::json!([0, 0, 0, 0, 0, 0, 0])),
            "sample_rounds",
        ),
    ];
    for (i, (text_of, says)) in cases.iter().enumerate() {
        let bad = file(folder.path(), &format!("bad{i}.json"), text_of);
        for args in [[&bad, &good], [&good, &bad]] {
            let done = compare(&args.map(String::as_str));
            let why = text(&done.stderr);
            assert_eq!(done.status.code(), Some(111), "{says}: {why}");
            assert!(why.contains(says) && why.contains("results[1]"), "{why}");
            assert!(why.contains(&bad) && !why.contains('\u{1b}'), "{why}");
        }
    }
}

#[test]
fn a_figure_that_is_gone_gives_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), "good.json", saved());
    let less = file(folder.path(), "less.json", changed(|r| drop(r.remove(1))));
    let done = compare(&[&good, &less]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("not in the later run"), "{}", text(&done.stdout));
    assert_eq!(compare(&[&less, &good]).status.code(), Some(0), "more is not worse");
}
