//! Danger: a store that brings nothing to the disk passes for one that does, or the other way round.
//! The calls of libraries that were opened at run time are seen by nobody unless they bind to those of
//! the program.

use serde_json::Value;
use std::process::Command;

/// The report of a small run of these stores.
fn report(stores: &str, phases: &str) -> Value {
    report_with(stores, phases, &[])
}

fn report_with(stores: &str, phases: &str, args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let done = Command::new(env!("CARGO_BIN_EXE_credenza-bench"))
        .args(["--records=300", "--rounds=2", "--no-pin"])
        .args(phases.contains("mixed").then_some("--gets=100"))
        .args([format!("--stores={stores}"), format!("--phases={phases}")])
        .args(args)
        .arg(format!("--dir={}", folder.path().display()))
        .arg(format!("--json={}", out.display()))
        .output()
        .unwrap();
    // A store that is not installed is told, and is no failure of this test.
    let code = done.status.code();
    assert!(matches!(code, Some(0 | 111)), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap()
}

/// Calls that sync and bytes written by calls in a phase, in all; `None` if the store was not found.
fn seen(report: &Value, store: &str, phase: &str) -> Option<(u64, u64)> {
    let is_wanted = |r: &&Value| r["store"] == store && r["phase"] == phase;
    let Some(result) = report["results"].as_array().unwrap().iter().find(is_wanted) else {
        eprintln!("not tested: {store} is not found");
        return None;
    };
    let (mut syncs, mut bytes) = (0, 0);
    for part in ["calls", "closing"] {
        let calls = &result["effort"][part];
        let names = ["fsync", "fdatasync", "msync", "sync_file_range", "sync", "synced_writes"];
        syncs += names.iter().map(|name| calls[name].as_u64().unwrap()).sum::<u64>();
        bytes += calls["written_bytes"].as_u64().unwrap();
    }
    Some((syncs, bytes))
}

/// Whoever has all programs recorded is not to have the engines timed that record, and no others.
#[test]
fn what_is_measured_is_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let done = Command::new(env!("CARGO_BIN_EXE_credenza-bench"))
        .args(["--stores=hash,btree", "--records=50", "--gets=50", "--rounds=1", "--threads=2"])
        .args(["--processes=2", "--phases=build,get-hit", "--no-pin"])
        .env("CREDENZA_RECORD", &trace)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!trace.exists());
}

#[test]
fn who_syncs_and_who_does_not_is_seen() {
    let report = report("constant,cdb,gdbm,leveldb,tdb", "build,insert");
    // Ours: fdatasync of the file and fsync of its folder, in each of two rounds.
    let (syncs, bytes) = seen(&report, "constant", "build").expect("our own engine");
    assert!(syncs >= 4 && bytes >= 2 * 300 * 16, "{syncs} {bytes}");
    if let Some((syncs, bytes)) = seen(&report, "cdb", "build") {
        assert!(syncs == 0 && bytes >= 2 * 300 * 16, "cdb: {syncs} {bytes}");
    }
    if let Some((syncs, bytes)) = seen(&report, "gdbm", "build") {
        assert!(syncs >= 2 && bytes >= 2 * 300 * 16, "gdbm: {syncs} {bytes}");
    }
    if let Some((syncs, bytes)) = seen(&report, "leveldb", "build") {
        assert!(syncs >= 2 && bytes >= 2 * 300 * 16, "leveldb: {syncs} {bytes}");
    }
    if let Some((syncs, _)) = seen(&report, "tdb", "insert") {
        assert_eq!(syncs, 0, "tdb");
    }
}

/// LMDB brings its data to the disk by `fdatasync`, and the page that says which of them count by a write
/// to a descriptor with `O_DSYNC`: what is counted by calls alone is half of its syncs.
#[test]
fn writes_that_wait_for_the_disk_are_seen() {
    let report = report("lmdb,hash", "insert-sync");
    let counts = |store: &str| {
        let mut results = report["results"].as_array().unwrap().iter();
        let calls = &results.find(|result| result["store"] == store)?["effort"]["calls"];
        let count = |name: &str| calls[name].as_u64().unwrap();
        Some((count("fsync") + count("fdatasync") + count("msync"), count("synced_writes")))
    };
    let (calls, written) = counts("hash").expect("our own engine");
    assert!(calls >= 600 && written == 0, "{calls} {written}");
    match counts("lmdb") {
        Some((calls, written)) => assert!(calls >= 600 && written >= 600, "{calls} {written}"),
        None => eprintln!("not tested: lmdb is not found"),
    }
}

/// Stores that can have each change on the disk: of the libraries those that are found.
const SYNCING: &str = "hash,btree,redb,tdb,lmdb,mdbx,bdb-btree,upscaledb,sqlite,leveldb,rocksdb";

/// What this phase of theirs has of the class "sync": the phase, calls that sync, and operations.
fn synced(report: &Value, phase: &str) -> Vec<(String, u64, u64)> {
    let of = report["results"].as_array().unwrap().iter().filter(|r| r["phase"] == phase);
    let told = of.map(|r| {
        assert_eq!((&r["class"], &r["verified"]), (&"sync".into(), &true.into()), "{r}");
        let store = r["store"].as_str().unwrap();
        let (syncs, _) = seen(report, store, phase).unwrap();
        (store.to_owned(), syncs, r["effort"]["operations"].as_u64().unwrap())
    });
    told.collect()
}

/// Who has no class for it is left out, and not measured beside the others.
#[test]
fn a_synced_mix_waits_for_the_disk_at_every_change() {
    let more = ["--workload=ycsb-a", "--sync", "--metrics=none"];
    let report = report_with(&format!("{SYNCING},gdbm"), "mixed", &more);
    let all = synced(&report, "mixed");
    assert!(all.len() >= 3 && all.iter().all(|(store, ..)| store != "gdbm"), "{all:?}");
    for (store, syncs, operations) in &all {
        assert_eq!(*operations, 200, "{store}");
        // About half of them change something. TDB has eight calls for each, and others two.
        assert!((80..200 * 5).contains(syncs), "{store}: {syncs}");
    }
    let mix = report["settings"]["mix"].as_str().unwrap();
    assert!(mix.ends_with(", every change synced"), "{mix}");
    let notes = report["notes"].to_string();
    assert!(!notes.contains("no call that syncs was seen"), "{notes}");
}

/// With several operations in a transaction its end is synced.
#[test]
fn a_synced_mix_of_transactions_waits_at_their_ends() {
    let more = ["--workload=ycsb-a", "--sync", "--transactions=20", "--metrics=none", "--reopen"];
    let report = report_with(SYNCING, "mixed", &more);
    let all = synced(&report, "mixed");
    let has = |store: &str| all.iter().any(|(one, ..)| one == store);
    assert!(has("btree") && has("redb") && has("hash"), "{all:?}");
    for (store, syncs, operations) in &all {
        // Ten transactions in two rounds, with up to four calls each, and what a log is emptied with.
        assert!(*operations == 200 && (10..100).contains(syncs), "{store}: {syncs}");
    }
}

/// What syncs though its class asks for none would look like a fault of the driver, were it not told why.
#[test]
fn who_syncs_unasked_says_why() {
    let report = report("hash,lmdb,mdbx,sqlite,leveldb,rocksdb", "insert-each");
    let notes: Vec<&str> =
        report["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    if report["stores"].as_array().unwrap().iter().all(|info| info["store"] != "mdbx") {
        return eprintln!("not tested: mdbx is not found");
    }
    assert!(notes.iter().any(|note| note.starts_with("mdbx, insert-each: ")), "{notes:?}");
    let unsaid = notes.iter().find(|note| note.ends_with("asks for none"));
    assert_eq!(unsaid, None);
}

#[test]
fn every_build_does_what_its_driver_says() {
    let all = "constant,hash,btree,cdb,tokyocabinet-hash,bdb-hash,tdb,lmdb,bdb-btree,\
               tokyocabinet-btree,tkrzw-tree,redb,sqlite,leveldb,rocksdb,kyotocabinet,tkrzw,gdbm";
    let report = report(all, "build");
    let notes: Vec<&str> =
        report["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    let of_builds: Vec<&&str> = notes.iter().filter(|note| note.contains(", build: ")).collect();
    assert!(of_builds.is_empty(), "{of_builds:?}");
    for result in report["results"].as_array().unwrap() {
        let effort = &result["effort"];
        assert_eq!(effort["operations"], 600, "{result}");
        assert!(effort["minor_faults"].as_u64().unwrap() > 0, "{result}");
        assert!(result["file_length_bytes"].as_u64().unwrap() > 0, "{result}");
    }
}

/// A commit is a transaction, however many operations it has, and a lookup is none: what is divided by
/// operations makes a store the cheaper the more of them are one transaction.
#[test]
fn syncs_and_bytes_are_told_for_a_commit() {
    let of = |report: &Value, store: &str, phase: &str| {
        let mut results = report["results"].as_array().unwrap().iter();
        let result = results.find(|r| r["store"] == store && r["phase"] == phase).unwrap();
        let of_commit =
            ["syncs_per_commit", "written_bytes_per_commit"].map(|name| result[name].as_f64());
        let effort = &result["effort"];
        let counts = [&effort["operations"], &effort["commits"], &effort["calls"]["written_bytes"]];
        (counts.map(|count| count.as_u64().unwrap()), of_commit)
    };
    let plain = report("hash,btree", "build,insert-sync,mixed");
    for store in ["hash", "btree"] {
        let ([operations, commits, written], [syncs, bytes]) = of(&plain, store, "insert-sync");
        assert!(commits == operations && syncs >= Some(1.0), "{store}: {syncs:?}");
        assert_eq!(bytes, Some(written as f64 / commits as f64), "{store}");
    }
    // Changes are four of ten operations; those of btree are one transaction, committed at the end.
    let ([operations, changes, _], _) = of(&plain, "hash", "mixed");
    assert!((operations * 3 / 10..operations / 2).contains(&changes), "{changes} of {operations}");
    assert_eq!(of(&plain, "btree", "mixed").1, [None; 2]);
    assert_eq!(of(&plain, "btree", "build").0[1], 0);
    let each = report_with("btree", "mixed", &["--transactions=tmp"]);
    assert_eq!(of(&each, "btree", "mixed").0[1], changes);
    let some = report_with("btree", "mixed", &["--transactions=20"]);
    let ([operations, commits, written], [syncs, bytes]) = of(&some, "btree", "mixed");
    assert_eq!((commits, syncs), (operations / 20, Some(0.0)));
    assert_eq!(bytes, Some(written as f64 / commits as f64));
}
