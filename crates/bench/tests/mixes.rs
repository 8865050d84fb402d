//! Danger: of several mixes in one file one is measured under another's name, on a store that the others
//! have not been at, or is left out of what a run writes.

mod common;

use common::{bench, bench_workload, json_report, text};
use std::path::Path;

const FILE: &str = "data = \"tokens\"\nrecords = 500\ngets = 400\nphases = [\"build\", \"mixed\"]\n\
    [[mix]]\nname = \"load\"\ninsert = 1\noperations = 600\n\
    [[mix]]\nname = \"read\"\nget = 19\nupdate = 1\ndistribution = \"latest\"\n\
    [[mix]]\nname = \"clear\"\nremove = 4\nscan = 1\n";

/// Runs with the mixes of the file; its output, and its status.
fn run(folder: &Path, args: &[&str]) -> (String, Option<i32>) {
    let file = folder.join("mine.toml");
    std::fs::write(&file, FILE).unwrap();
    let [workload, dir] = [("workload", &*file), ("dir", folder)]
        .map(|(option, path)| format!("--{option}={}", path.display()));
    let done = bench(&[&[&*workload, &*dir], args].concat());
    (format!("{}{}", text(&done.stdout), text(&done.stderr)), done.status.code())
}

#[test]
fn every_output_names_the_mixes_and_each_is_a_phase() {
    let folder = tempfile::tempdir().unwrap();
    let [json, csv, html] = ["json", "csv", "html"].map(|end| folder.path().join(end));
    let outputs = [("json", &json), ("csv", &csv), ("html", &html)]
        .map(|(option, path)| format!("--{option}={}", path.display()));
    let outputs = outputs.each_ref().map(String::as_str);
    let args = [&["--stores=btree,redb", "--rounds=1", "--rate=1e6"][..], &outputs].concat();
    let (said, status) = run(folder.path(), &args);
    assert_eq!(status, Some(0), "{said}");
    let report = json_report(&json);
    let of = |store: &str| {
        let results = report.results.iter().filter(|r| r.store == store && r.phase != "build");
        results.map(|r| (r.phase.clone(), r.ops, r.verified)).collect::<Vec<_>>()
    };
    let all = [("load", 600), ("read", 400), ("clear", 400)]
        .map(|(name, ops)| (format!("mixed-{name}"), ops, true));
    assert_eq!((of("btree"), of("redb")), (all.to_vec(), all.to_vec()));
    // What the second looks up, the first has stored.
    assert!(report.results.iter().all(|r| r.hit_rate.is_none_or(|rate| rate == 1.0)));
    assert_eq!(report.settings.phases, ["build", "mixed-load", "mixed-read", "mixed-clear"]);
    assert!(report.settings.mix.contains("; then mixed-read: get 19, update 1, keys latest"));
    let [csv, html] = [csv, html].map(|path| std::fs::read_to_string(path).unwrap());
    for (name, ..) in &all {
        assert!(csv.contains(&format!("btree,at-close,{name},")), "{name}: {csv}");
        assert!(html.contains(name.as_str()), "{name}");
    }
    // A report with them is read again.
    let same = json.display().to_string();
    let done = bench(&["compare", &same, &same]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
}

#[test]
fn one_of_several_mixes_is_measured_alone_as_after_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("json");
    let to = format!("--json={}", json.display());
    let tee = format!("--tee={}", folder.path().join("trace").display());
    // Two lookups of the mix before the last would be seen; hash cannot scan, and is not in the last.
    let args = ["--stores=hash", "--rounds=1", "--phases=mixed-read", "--gets=50", &to, &tee];
    let (said, status) = run(folder.path(), &args);
    assert_eq!(status, Some(0), "{said}");
    let report = json_report(&json);
    let [result] = &report.results[..] else { panic!("{:?}", report.results) };
    assert_eq!((&*result.phase, result.ops, result.hit_rate), ("mixed-read", 50, Some(1.0)));
    // The trace has what fills the store, and both mixes.
    let trace = credenza::record::Trace::open(folder.path().join("trace")).unwrap();
    let entries = trace.entries().count();
    assert_eq!(entries, 500 + 50 + 50);
}

/// Danger: stores in no order are left out of a mix that reads everything, or a run with such scans is compared
/// with one without.
#[test]
fn a_table_scan_is_for_stores_in_any_order() {
    let table = "data = \"tokens\"\nrecords = 300\ngets = 400\nphases = [\"mixed\"]\n[mix]\nget = 3\n\
        insert = 1\nremove = 1\n";
    let with = format!("{table}table-scan = 1\n");
    let args = ["--stores=hash,btree,redb", "--rounds=1"];
    let (done, folder) = bench_workload(&with, &args);
    assert_eq!(done.status.code(), Some(0), "{}{}", text(&done.stdout), text(&done.stderr));
    let json = folder.path().join("out.json");
    let report = json_report(&json);
    let stores: Vec<&str> = report.results.iter().map(|result| &*result.store).collect();
    assert_eq!(stores, ["hash", "btree", "redb"]);
    for result in &report.results {
        assert!(result.verified && result.ops == 400, "{result:?}");
        assert!(result.operation_latency_ns.contains_key("table-scan"), "{result:?}");
    }
    let mix = "get 3, insert 1, remove 1, table-scan 1, keys uniform";
    assert_eq!(report.settings.mix, mix);
    // A sixth of the operations are of some 300 records, half of one.
    let records = report.workbench[0].records_per_op.unwrap();
    assert!((30.0..70.0).contains(&records), "{records}");
    let (done, without) = bench_workload(table, &args);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let [with, without] =
        [&folder, &without].map(|folder| folder.path().join("out.json").display().to_string());
    let done = bench(&["compare", &with, &without]);
    let refused = text(&done.stderr);
    assert!(done.status.code() == Some(111) && refused.contains(mix), "{refused}");
    let workload = format!("--workload={}", folder.path().join("workload.toml").display());
    let dir = format!("--dir={}", folder.path().display());
    let done = bench(&[&workload, &dir, "--oracle", "--stores=hash,btree,redb"]);
    let said = text(&done.stdout);
    assert!(said.contains("hash, btree, redb agree: 400 operations"), "{said}");
    let done = bench(&[&workload, &dir, "--stores=btree", "--threads=2", "--rounds=1"]);
    assert_eq!(done.status.code(), Some(0), "{}{}", text(&done.stdout), text(&done.stderr));
}

/// Danger: of a mix something is not done, and nothing says so.
#[test]
fn the_oracle_does_what_the_mix_has_besides_operations() {
    let table = "data = \"tokens\"\nrecords = 100\ngets = 200\n[mix]\nget = 1\nupdate = 1\n";
    for more in ["", "reopen = true\n", "reopen = true\ntransactions = 10\nsync = true\n"] {
        let args = ["--oracle", "--stores=hash,btree"];
        let (done, _folder) = bench_workload(&format!("{table}{more}"), &args);
        let said = text(&done.stdout);
        assert!(done.status.success() && !said.contains("without"), "{more}{said}");
        assert!(said.contains("hash, btree agree: 200 operations"), "{more}{said}");
    }
    // Time is over before so many operations are done.
    let long = table.replace("gets = 200", "gets = 2000000");
    let args = ["--oracle", "--stores=hash,btree", "--stop-seconds=1", "--check-every=100000"];
    let (done, _folder) = bench_workload(&long, &args);
    let said = text(&done.stdout);
    assert!(done.status.success() && !said.contains("2,000,000 operations"), "{said}");
}

#[test]
fn the_oracle_does_them_all_and_names_that_are_not_there_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (said, status) = run(folder.path(), &["--oracle", "--stores=btree,redb"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("btree, redb agree: 1,400 operations"), "{said}");
    for (args, status, says) in [
        (
            &["--phases=mixed-other"][..],
            111,
            "no mix for the phase 'mixed-other'; it has mixed-load",
        ),
        (&["--phases=mixed-"], 2, "possible values"),
        (&["--stop-seconds=1"], 111, "for the last of several"),
        (&["--duplicates=last"], 111, "in place of another"),
    ] {
        let (said, code) = run(folder.path(), args);
        assert!(code == Some(status) && said.contains(says), "{args:?}: {said}");
    }
}

/// Danger: stores that are built once are left out of mixes that change nothing, or take part in one that comes
/// behind changes.
#[test]
fn stores_that_are_built_once_do_mixes_that_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let [file, json] = ["mine.toml", "out.json"].map(|name| folder.path().join(name));
    let workload = |mixes: &str| {
        let data = "data = \"tokens\"\nrecords = 300\ngets = 400\nphases = [\"mixed\"]\n";
        std::fs::write(&file, format!("{data}{mixes}")).unwrap();
    };
    let [named, dir, out] = [("workload", &*file), ("dir", folder.path()), ("json", &json)]
        .map(|(option, path)| format!("--{option}={}", path.display()));
    let rest = [&*named, &dir, "--stores=constant,hash,btree"];
    let reading = "[[mix]]\nname = \"read\"\nget = 30\ntable-scan = 1\n";
    workload(reading);
    let done = bench(&[&rest[..], &["--rounds=1", "--rate=1e6", "--reopen", &out]].concat());
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    let report = json_report(&json);
    let found: Vec<_> = report.results.iter().map(|r| (&*r.store, &*r.class)).collect();
    let all = ["constant", "hash", "btree"].map(|store| (store, "buffered"));
    assert_eq!(found, all, "in one class, as nothing can be lost");
    for r in &report.results {
        assert!(r.verified && r.hit_rate == Some(1.0) && r.effort.operations >= 400, "{r:?}");
        assert!(r.at_rate.as_ref().is_some_and(|at| at.verified), "{r:?}");
        assert!(r.operation_latency_ns.contains_key("table-scan") && r.file_bytes > 0, "{r:?}");
    }
    let done = bench(&[&rest[..], &["--oracle"]].concat());
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    assert!(said.contains("constant") && !said.contains("leaves out"), "{said}");

    // What comes behind changes, or in transactions, is not for them.
    workload(&format!("[[mix]]\nname = \"write\"\nupdate = 1\n{}", reading));
    let done = bench(&[&rest[..], &["--rounds=1", "--phases=mixed-read"]].concat());
    assert!(
        text(&done.stdout).contains("'mixed-read' leaves out constant"),
        "{}",
        text(&done.stdout)
    );
    workload("[mix]\nget = 1\ntransactions = 5\n");
    let done = bench(&[&rest[..], &["--rounds=1"]].concat());
    assert!(text(&done.stdout).contains("'mixed' leaves out constant"), "{}", text(&done.stdout));
}

/// On a disk, where a second is over long before all operations are done.
#[test]
fn a_mix_that_ends_after_a_time_is_the_same_work_in_every_round() {
    let folder = tempfile::tempdir().unwrap();
    let [file, json] = ["mine.toml", "json"].map(|name| folder.path().join(name));
    let mix = "[mix]\nupdate = 1\nsync = true\nstop-seconds = 1\noperations = 300000\n";
    std::fs::write(&file, format!("data = \"tokens\"\nrecords = 50\nphases = [\"mixed\"]\n{mix}"))
        .unwrap();
    let [workload, dir, json_at] = [("workload", &*file), ("dir", folder.path()), ("json", &json)]
        .map(|(option, path)| format!("--{option}={}", path.display()));
    let args = ["--stores=hash", "--rounds=3", "--metrics=none", &workload, &dir, &json_at];
    let done = bench(&args);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let report = json_report(&json);
    let result = &report.results[0];
    assert_eq!((result.rounds, result.repeats), (3, 1));
    assert_eq!(result.effort.operations, 3 * result.ops, "{:?}", result.ns_per_op);
}
