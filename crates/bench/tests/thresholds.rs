//! Danger: what ups_bench sets in the library itself, past its functions, is said to be set and is not, or is
//! set to what makes it write anywhere. A setting has to show in the file of the store, where there is the
//! library; a store that has no such thing must be left out by name, and values that are none refused.

mod common;

use common::bench_workload;
use credenza_bench::result::Report;
use std::process::Output;

const KEYS: &str = "data = \"random\"\nkey-size = \"60..200\"\nvalue-size = 40\nrecords = 2000\n\
                    gets = 100\nphases = [\"build\", \"get-90\", \"remove\"]";
const DUPLICATES: &str = "data = \"random\"\nvalue-size = 40\nrecords = 20\ngets = 2000\n\
                          phases = [\"mixed\"]\n\
                          [mix]\ninsert = 2\nget = 1\nduplicates = \"last\"";

fn bench(workload: &str, args: &[&str]) -> (Output, tempfile::TempDir) {
    bench_workload(workload, &[&["--rounds=1", "--no-pin"], args].concat())
}

fn report(workload: &str, args: &[&str]) -> Report {
    let (done, folder) = bench(workload, args);
    let json = std::fs::read(folder.path().join("out.json"));
    let json = json.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&done.stderr)));
    serde_json::from_slice(&json).unwrap()
}

/// The bytes of the file that a phase leaves, with this chosen for upscaledb; none where it is not there.
fn file_bytes(workload: &str, setting: &str) -> Option<u64> {
    let report = report(workload, &["--stores=btree,upscaledb", "--set", setting]);
    if report.failures.iter().any(|failure| failure.status == "missing") {
        eprintln!("not tested: {}", report.failures[0].what);
        return None;
    }
    assert!(report.failures.is_empty(), "{setting}: {:?}", report.failures);
    assert!(report.results.iter().all(|result| result.verified), "{setting}");
    let mut of_upscaledb = report.results.iter().filter(|result| result.store == "upscaledb");
    Some(of_upscaledb.next().unwrap().file_bytes)
}

#[test]
fn what_the_library_is_set_to_shows_in_its_file() {
    for (workload, one, other) in [
        (KEYS, "upscaledb.extended-key-threshold=8", "upscaledb.extended-key-threshold=250"),
        (DUPLICATES, "upscaledb.duplicate-threshold=1", "upscaledb.duplicate-threshold=20"),
        (KEYS, "upscaledb.records-inline=on", "upscaledb.records-inline=off"),
    ] {
        let (one_has, other_has) = (file_bytes(workload, one), file_bytes(workload, other));
        assert!(one_has.is_none() || one_has != other_has, "{one}: {one_has:?}");
    }
}

#[test]
fn stores_that_have_no_such_thing_are_left_out_by_name() {
    for setting in ["extended-key-threshold=64", "duplicate-threshold=8", "records-inline=on"] {
        let name = setting.split('=').next().unwrap();
        let (done, _folder) = bench(KEYS, &["--stores=btree,hash", "--set", setting]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success(), "{setting}");
        let why = format!("'--set' leaves out btree, hash: no setting {name} there");
        assert!(said.contains(&why), "{said}");
    }
}

#[test]
fn records_are_not_inline_where_there_is_no_place_for_them() {
    for size in ["\"10..20\"", "3000"] {
        let workload = KEYS.replace("value-size = 40", &format!("value-size = {size}"));
        let report = report(&workload, &["--stores=upscaledb", "--set", "records-inline=on"]);
        let is_told = |what: &str| what.contains("values have to be of one size, of 1638 bytes");
        let failures = report.failures.iter().filter(|failure| failure.status != "missing");
        assert!(failures.into_iter().all(|failure| is_told(&failure.what)));
        assert!(report.results.is_empty() && !report.failures.is_empty(), "{size}");
    }
}
