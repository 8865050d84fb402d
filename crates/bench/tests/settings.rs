//! Danger: a run says that stores were set up in a way that they were not, or measures a store that cannot
//! be so beside others that are. What is chosen must be in the report, who cannot be so must be named
//! and have no figure, and what makes no sense must be refused before anything runs.

use credenza_bench::result::Report;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_credenza-bench"))
        .args(["--records=200", "--gets=200", "--no-pin", "--stores=constant,hash,btree,redb"])
        .args(args)
        .output()
        .unwrap()
}

/// What was measured with these, and what was printed.
fn report(args: &[&str]) -> (Report, String) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let (dir, json) = (folder.path().display(), out.display());
    let more = ["--rounds=1", &format!("--dir={dir}"), &format!("--json={json}")];
    let done = bench(&[args, &more].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    (report, String::from_utf8_lossy(&done.stdout).into_owned())
}

fn measured(report: &Report) -> Vec<&str> {
    report.stores.iter().map(|info| &*info.store).collect()
}

#[test]
fn who_cannot_be_as_chosen_is_named_and_has_no_figure() {
    let (report, printed) =
        report(&["--set=cache=2M", "--set=redb.cache=1M", "--phases=build,get-hit"]);
    assert_eq!(measured(&report), ["redb"]);
    assert!(report.results.iter().all(|result| result.store == "redb" && result.verified));
    assert_eq!(report.settings.stores, ["cache=2M", "redb.cache=1M"]);
    assert!(
        report.stores[0].tuning.ends_with("as chosen: cache=1M"),
        "{}",
        report.stores[0].tuning
    );
    let note = "'--set' leaves out constant, hash, btree: no setting cache there";
    assert!(report.notes.iter().any(|own| own == note), "{:?}", report.notes);
    // In the first lines, and among the notes.
    assert!(printed.lines().take(3).any(|line| line.contains("redb.cache=1M")), "{printed}");
    assert!(printed.contains(note), "{printed}");
}

#[test]
fn who_is_so_anyway_takes_part() {
    // Neither of these has any codec or encryption, and a cursor for lookups is btree's alone.
    let without = ["compression=none", "encryption=off", "memory=off", "cursors=off", "copy=off"];
    let without = without.map(|value| format!("--set={value}"));
    let without: Vec<&str> = without.iter().map(String::as_str).collect();
    let (report, _) = report(&[&without[..], &["--phases=build,get-hit"]].concat());
    assert_eq!(measured(&report), ["constant", "hash", "btree", "redb"]);
    assert!(report.results.iter().all(|result| result.verified), "{report:?}");

    for (value, all) in [("on", &["constant", "hash", "btree"][..]), ("off", &["constant"])] {
        let (report, printed) =
            self::report(&["--phases=build,get-hit", &format!("--set=mmap={value}")]);
        assert_eq!(measured(&report), all, "{printed}");
        let says = printed.contains("hash, btree: no mmap=off, but on, as always");
        assert_eq!(says, value == "off", "{printed}");
    }
}

#[test]
fn what_is_in_memory_is_changed_and_has_neither_file_nor_durability() {
    let phases = "--phases=insert,insert-random,reinsert,remove,mixed";
    let (report, _) = report(&["--set=memory=on", phases]);
    assert_eq!(measured(&report), ["hash", "btree", "redb"]);
    assert_eq!(report.results.len(), 3 * 5);
    for result in &report.results {
        assert!(result.verified && result.class == "memory", "{result:?}");
        assert_eq!((result.file_bytes, result.file_length_bytes), (0, 0), "{result:?}");
    }
}

#[test]
fn a_workload_file_chooses_and_an_option_wins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.toml");
    let text = "data = \"decimal\"\nphases = [\"build\", \"get-hit\"]\n\
                [settings]\nchecksums = true\n[settings.redb]\ncache = \"1M\"";
    std::fs::write(&path, text).unwrap();
    let workload = format!("--workload={}", path.display());
    let (both, _) = report(&[&workload]);
    assert_eq!(both.settings.stores, ["checksums=on", "redb.cache=1M"]);
    assert_eq!(measured(&both), ["btree"]);
    let left_out = |report: &Report, says: &str| report.notes.iter().any(|own| own == says);
    let by_file = "'[settings]' of the workload file leaves out constant, hash, redb: no setting \
                   checksums there";
    assert!(left_out(&both, by_file), "{:?}", both.notes);
    let (other, _) = report(&[&workload, "--set=checksums=off", "--set=redb.cache=2M"]);
    assert_eq!(other.settings.stores, ["checksums=off", "redb.cache=2M"]);
    let by_option = "'--set' leaves out constant, hash, redb: no setting checksums there";
    assert!(left_out(&other, by_option), "{:?}", other.notes);
}

#[test]
fn keys_have_several_values_where_stores_can() {
    for place in ["first", "last"] {
        let duplicates = format!("--duplicates={place}");
        let (report, _) = report(&["--workload=ycsb-d", "--phases=mixed", &duplicates]);
        assert!(report.settings.mix.contains("one more value"), "{}", report.settings.mix);
        assert!(report.results.iter().all(|result| result.verified));
        let measured: Vec<_> = report.results.iter().map(|result| &*result.store).collect();
        assert_eq!(measured, ["btree"]);
        let named = |note: &String| note.starts_with("'mixed' leaves out hash, redb: ");
        assert!(report.notes.iter().any(named), "{:?}", report.notes);
    }
}

#[test]
fn the_oracle_compares_stores_that_are_set_up_so() {
    let done = bench(&["--oracle", "--set=btree.checksums=on", "--set=redb.cache=1M"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    for (args, what) in [
        (&["--set=colour=red"][..], "no setting 'colour'; there are page-size, cache"),
        (&["--set=mmap=yes"], "mmap=yes is no value of this setting: say on or off"),
        (&["--set=hash.cache=1M"], "hash: no setting cache there"),
        (&["--set=nobody.cache=1M"], "there is no store 'nobody'"),
        (&["--set=page-size=4K"], "no store is left to measure"),
        (&["--set=memory=on"], "there is no 'build' as it is asked for: say --phases"),
        (&["--set=memory=on", "--phases=mixed", "--reopen"], "there is no 'mixed'"),
        (&["--set=memory=on", "--phases=mixed", "--transactions=5"], "there is no 'mixed'"),
        (&["--set=memory=on", "--phases=insert", "--set=cache=1M"], "contradicts cache"),
        (&["--set=memory=on", "--phases=insert", "--cold"], "memory=on contradicts --cold"),
        (&["--set=memory=on", "--oracle"], "memory=on contradicts --oracle"),
        (&["--set=direct=on", "--set=mmap=on"], "direct=on contradicts mmap=on"),
        (&["--set=recovery=off", "--phases=insert-sync"], "contradicts the phase insert-sync"),
        (&["--set=recovery=off", "--sync"], "contradicts the phase mixed with --sync"),
        (&["--set=memory=on", "--phases=mixed", "--sync"], "there is no 'mixed'"),
        (&["--cold", "--read-ahead", "--set=advice=normal"], "leave one of them out"),
        (
            &["--set=key-compression=zint32-for"],
            "contradicts keys of type binary: it is for numbers",
        ),
        (&["--duplicates=last"], "but the mix inserts nothing"),
        (&["--duplicates=last", "--workload=ycsb-d", "--phases=build"], "for the phase 'mixed'"),
    ] {
        let done = bench(args);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(111), "{args:?}: {said}");
        assert!(said.contains(what) && !said.contains("  "), "{args:?}: {said}");
        assert!(done.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn the_list_says_what_each_store_takes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("list.json");
    let program = || Command::new(env!("CARGO_BIN_EXE_credenza-bench"));
    let printed = program().arg("--list").output().unwrap();
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(text.contains("--set page-size: powers of two from 512 to 64K"), "{text}");
    let written = program().args(["--list", &format!("--json={}", out.display())]).output();
    assert!(written.unwrap().status.success());
    let list: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let of = |store: &str| list.as_array().unwrap().iter().find(|entry| entry["store"] == store);
    assert_eq!(of("btree").unwrap()["settings"]["checksums"], "on, off");
    assert_eq!(of("upscaledb").unwrap()["settings"]["cache"], "64K or more, unlimited");
    assert_eq!(of("lmdb").unwrap()["key_types"], serde_json::json!(["u32", "u64", "custom"]));
    assert!(text.contains(" key-type: u32, u64, custom\n"), "{text}");
    assert_eq!(of("cdb").unwrap()["settings"], serde_json::json!({"mmap": "on, as always"}));
}
