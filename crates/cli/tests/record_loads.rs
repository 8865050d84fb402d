//! Danger: what a program loads, or builds a store of, is lost on the way to another store, to data or to
//! advice, or is there where it was replaced since.

mod common;
use common::*;

/// Records what a shell does with `$p`, the program, in the folder, and gives the path of the trace.
fn recorded(folder: &Folder, more: &[&str], script: &str) -> String {
    let trace = folder.path("trace");
    let script = format!("p='{}'; cd '{}'; {script}", program().display(), folder.path(""));
    run(&[&["record", &trace][..], more, &["-q", "--", "sh", "-c", &script]].concat()).expect(0);
    trace
}

#[test]
fn a_load_is_replayed_as_inserts_or_as_the_build_of_what_never_changes() {
    for kind in ["constant", "btree", "hash", "cdb"] {
        for more in [&[][..], &["--keys", "hashed"]] {
            let folder = Folder::new();
            folder.file("records", cdb_text(&plain_records(300)));
            let script = format!(
                "$p load -q --from cdb --to {kind} s records; $p get s key7; $p get s none || true"
            );
            let trace = recorded(&folder, more, &script);
            let found = parsed(run(&["stat", &trace, "--json"]));
            assert_eq!(found["operations"]["insert"]["count"].as_u64(), Some(300), "{found}");
            let json = folder.path("json");
            let stores = ["--stores", "constant,cdb,hash,btree", "--json", &json];
            let text = run(&[&["replay", &trace][..], &stores].concat()).expect(0).text();
            assert!(text.contains("Stores begin with 0 records."), "{text}");
            assert!(!text.contains("does not name"), "{text}");
            assert_eq!(text.matches("2 of 2 answers are as recorded").count(), 4, "{text}");
            assert_eq!(text.matches("built of 300 records in").count(), 2, "{text}");
            let report = std::fs::read_to_string(&json).expect("the results");
            let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
            for of in report["stores"].as_array().expect("stores") {
                let is_built = of["store"] == "constant" || of["store"] == "cdb";
                let inserted = of["by_operation"]["insert"]["count"].as_u64();
                assert_eq!(inserted, (!is_built).then_some(300), "{of}");
                let built = of["built"]["records"].as_u64();
                assert_eq!(built, is_built.then_some(300), "{of}");
            }
        }
    }
}

#[test]
fn what_a_store_is_frozen_to_is_read_where_nothing_changes() {
    let folder = Folder::new();
    let store = folder.store("hash", &plain_records(20));
    let script = format!("$p freeze -q {store} frozen; $p get frozen key7");
    let trace = recorded(&folder, &[], &script);
    let text = run(&["replay", &trace, "--stores", "constant,btree"]).expect(0).text();
    assert!(text.contains("constant: built of 20 records in"), "{text}");
    assert!(text.contains("constant: skipped 1 scans before it was built"), "{text}");
    assert_eq!(text.matches("1 of 1 answers are as recorded").count(), 2, "{text}");
}

/// A file that takes the place of another has nothing of it, and of several values of a key the first is found.
#[test]
fn what_a_build_replaces_is_gone_when_it_is_replayed() {
    let folder = Folder::new();
    folder.file("one", cdb_text(&records_of(&[("a", "1"), ("b", "2")])));
    folder.file("two", cdb_text(&records_of(&[("b", "33"), ("c", "4"), ("b", "555")])));
    let script = "$p load -q --from cdb s one; $p get s a; $p load -q --from cdb s two; \
                  $p get s a || true; $p get s b; $p get s c";
    let trace = recorded(&folder, &[], script);
    let text = run(&["replay", &trace, "--stores", "btree,hash"]).expect(0).text();
    assert_eq!(text.matches("4 of 4 answers are as recorded").count(), 2, "{text}");
    assert!(text.contains("Left out: 1 entries that add a further value to a key"), "{text}");
    let got = run(&["replay", &trace, "--stores", "constant"]).expect(111);
    assert!(got.err.contains("it is built once and never changed"), "{}", got.err);
}

#[test]
fn what_is_loaded_is_data_for_bench_torture_and_advice() {
    let folder = Folder::new();
    folder.file("records", cdb_text(&plain_records(300)));
    let load = "$p load -q --from cdb s records; $p get s key7; $p get s key9";
    let trace = recorded(&folder, &[], load);
    let bench = ["bench", "--stores", "btree", "--rounds", "1", "--phases", "get-hit"];
    let text = run(&[&bench[..], &["--gets", "9", "--metrics", "none", "--data", &trace]].concat());
    let text = text.expect(0).text();
    assert!(text.contains("300 records"), "{text}");
    let json = folder.path("json");
    let advise = ["advise", "--data", &trace, "--stores", "constant,btree", "--json", &json];
    let text = run(&advise).expect(0).text();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line.contains("the trace loads 300 records first, which stores have before"), "{text}");
    let report = std::fs::read_to_string(&json).expect("the results");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["use"]["writes"].as_f64(), Some(0.0), "{report}");
    let stores = report["candidates"].as_array().expect("candidates");
    assert!(stores.iter().any(|of| of["store"] == "constant"), "{report}");
    // Where changes are behind it, it fills the store that dies meanwhile.
    std::fs::remove_file(&trace).expect("the trace");
    let load = "$p load -q --from cdb --to btree t records; $p put t a 1; $p put t b 2";
    let trace = recorded(&folder, &[], load);
    let torture = ["torture", "--stores", "btree", "--rounds", "1", "--faults", "kill", "--data"];
    run(&[&torture[..], &[&trace]].concat()).expect(0);
}
