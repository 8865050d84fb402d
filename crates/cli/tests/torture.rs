//! Danger: `credenza torture` says that nothing is lost where something is, blames a store that kept what it
//! promised, or leaves files behind.

mod common;
use common::*;
use serde_json::Value;
use std::process::Command;

/// A torture of these stores with little to do; what it says, as JSON, and on standard output.
fn torture(arguments: &str, more: &[&str], status: i32) -> (Value, String) {
    torture_in(&Folder::new(), arguments, more, status)
}

/// The same in a folder that the caller keeps.
fn torture_in(folder: &Folder, arguments: &str, more: &[&str], status: i32) -> (Value, String) {
    let (dir, json) = (folder.path("its stores"), folder.path("out.json"));
    std::fs::create_dir(&dir).expect("a folder");
    let args = ["torture", "-q", "--dir", &dir, "--json", &json].into_iter();
    let args: Vec<&str> = args.chain(arguments.split(' ')).chain(more.iter().copied()).collect();
    let text = run(&args).expect(status).text();
    assert!(names_in(dir.as_ref()).is_empty(), "files are left behind");
    let json = std::fs::read(&json).expect("the report");
    (serde_json::from_slice(&json).expect("JSON"), text)
}

/// A figure of a store's only result; `None` where the store is not found.
fn figure(report: &Value, store: &str, name: &str) -> Option<u64> {
    let results = report["results"].as_array().expect("results");
    let Some(result) = results.iter().find(|result| result["store"] == store) else {
        eprintln!("not tested: {store} is not found");
        return None;
    };
    Some(result[name].as_u64().unwrap_or_else(|| panic!("{name} in {result}")))
}

const SMALL: &str = "--records 60 --operations 400";

#[test]
fn our_engines_keep_everything_through_every_fault() {
    let (report, text) =
        torture(&format!("--stores constant,hash,btree --rounds 1 --seed 3 {SMALL}"), &[], 0);
    assert_eq!(report["credenza_torture"], 1);
    let results = report["results"].as_array().expect("results");
    assert_eq!(results.len(), 9);
    for result in results {
        let name = format!("{} {}", result["store"], result["fault"]);
        assert_eq!(result["promise"], "all", "{name}");
        assert_eq!(result["is_kept"], true, "{name}");
        for count in ["lost", "unchecked", "wrong", "torn", "refused", "crashed"] {
            assert_eq!(result[count], 0, "{name}: {count}");
        }
        assert_eq!((&result["rounds"], &result["is_tested"]), (&1.into(), &true.into()), "{name}");
        assert_eq!(result["faults"], if result["fault"] == "power" { 4 } else { 1 }, "{name}");
        assert_eq!(result["faults"], result["faults_wanted"], "{name}");
        assert!(result["acknowledged"].as_u64() > Some(0), "{name}");
        assert!(text.contains(result["verdict"].as_str().expect("words")), "{text}");
    }
    assert!(text.contains("hash (buffered): kept every one of "), "{text}");
}

/// Every kill, cut and full disk comes upon one of many publications: of each file all is there or nothing.
#[test]
fn what_is_built_once_is_replaced_whole_through_every_fault() {
    for fault in ["kill", "power", "full"] {
        let arguments = format!("--stores constant --faults {fault} --rounds 8 --seed 5 {SMALL}");
        let (report, text) = torture(&arguments, &[], 0);
        let count = |name| figure(&report, "constant", name).expect("our own");
        assert!(count("faults") > 0 && count("acknowledged") > 60, "{text}");
        // A file is on the disk before it has its name: there is no other class.
        assert!(text.contains("constant (sync): kept every one of "), "{text}");
        assert!(text.contains("constant is built anew after every 32 operations"), "{text}");
    }
    let (report, _) = torture(
        &format!("--stores constant --durability buffered --faults power --rounds 2 {SMALL}"),
        &["--expect", "moment"],
        0,
    );
    let result = &report["results"][0];
    assert_eq!((&result["class"], &result["promise"]), (&"sync".into(), &"moment".into()));
    assert_eq!(result["lost"], 0);
}

/// What is synced is known by the names that the kernel gives to files.
#[test]
fn a_folder_behind_a_link_loses_nothing() {
    let folder = Folder::new();
    let (real, link) = (folder.path("real"), folder.path("link"));
    std::fs::create_dir(&real).expect("a folder");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    let arguments = "--stores hash,btree --faults power --rounds 1 --records 20 --operations 30";
    let words: Vec<&str> =
        ["torture", "-q", "--dir", &link].into_iter().chain(arguments.split(' ')).collect();
    let text = run(&words).expect(0).text();
    assert!(text.contains("btree (sync): kept every one of "), "{text}");
    assert!(names_in(real.as_ref()).is_empty(), "files are left behind");
}

#[test]
fn after_a_power_cut_what_was_not_synced_is_of_one_moment() {
    let faults = format!("--faults power --durability buffered --seed 1 {SMALL}");
    let (report, text) = torture(&format!("--stores hash,btree --rounds 2 {faults}"), &[], 0);
    for result in report["results"].as_array().expect("results") {
        assert_eq!((&result["promise"], &result["torn"]), (&"moment".into(), &0.into()), "{text}");
    }
    // Who takes that for safe is told what would be lost, and how to have it happen again.
    let arguments = format!("--stores btree --rounds 4 {faults} --expect all --timeout 600");
    let folder = Folder::new();
    let (report, text) = torture_in(&folder, &arguments, &[], 1);
    assert!(figure(&report, "btree", "lost").expect("our own") > 0, "{text}");
    assert!(text.contains("btree broke its promise (power)"), "{text}");
    let (_, command) = text.split_once("again: credenza ").expect("a command");
    let command = command.lines().next().unwrap_or("");
    for option in ["--round ", "--expect all", "--timeout 600"] {
        assert!(command.contains(option), "{command}");
    }
    // As whoever reads it types it, in a shell.
    let typed = Command::new("sh")
        .args(["-c", &format!("exec \"$0\" {command}")])
        .arg(program())
        .output()
        .expect("a shell");
    let again = String::from_utf8_lossy(&typed.stdout);
    assert!(again.contains("btree  buffered power all"), "{command}: {typed:?}");
    assert!(typed.status.code().is_some_and(|status| status <= 1), "{command}: {typed:?}");
}

/// What is kept is what the store was before anybody opened it, and only where something is lost.
#[test]
fn a_store_with_a_loss_is_kept_as_it_was_found() {
    let folder = Folder::new();
    let (keep, none) = (folder.path("kept"), folder.path("none"));
    let faults = format!("--faults power --durability buffered --seed 1 --rounds 4 {SMALL}");
    let arguments = format!("--stores btree {faults} --expect all");
    let (report, text) = torture(&arguments, &["--keep", &keep], 1);
    let names = names_in(keep.as_ref());
    assert!(
        !names.is_empty() && names.iter().all(|name| name.starts_with("btree-power-")),
        "{names:?}"
    );
    let mut lost = 0;
    for name in &names {
        let of = |part: &str| format!("{keep}/{name}/{part}");
        let found: Value =
            serde_json::from_slice(&std::fs::read(of("found.json")).unwrap()).unwrap();
        lost += found["judged"]["lost"].as_u64().unwrap();
        assert!(name.starts_with(&format!("btree-power-{}-", found["round"])), "{found}");
        assert!(found["command"].as_str().unwrap().contains("--round "), "{found}");
        assert!(!found["what"].as_str().unwrap().is_empty(), "{found}");
        assert!(std::fs::metadata(of("files/store")).is_ok_and(|store| store.len() > 0), "{found}");
    }
    assert_eq!(Some(lost), figure(&report, "btree", "lost"), "{text}");
    // A folder with something in it is not added to; without a loss there is nothing.
    let got = run(&["torture", "-q", "--stores", "btree", "--keep", &keep]).expect(111);
    assert!(got.err.contains("something in this"), "{}", got.err);
    let nowhere = folder.path("nowhere/kept");
    let got = run(&["torture", "-q", "--stores", "btree", "--keep", &nowhere]).expect(111);
    assert!(got.err.contains("--keep: there is no such folder"), "{}", got.err);
    torture(&format!("--stores btree --faults kill --rounds 1 {SMALL}"), &["--keep", &none], 0);
    assert!(names_in(none.as_ref()).is_empty());
}

/// Stores that take more than they need while there is space get along with less: each round goes on until
/// a disk is too small, or promises are called kept that nothing put to the test.
#[test]
fn a_full_disk_happens_in_every_round_and_is_survived() {
    for workload in ["ups", "churn"] {
        let faults = format!("--faults full --rounds 6 --workload {workload} {SMALL} --seed 2");
        let (report, text) = torture(&format!("--stores constant,hash,btree {faults}"), &[], 0);
        for store in ["constant", "hash", "btree"] {
            for count in ["rounds", "faults_wanted", "faults"] {
                assert_eq!(figure(&report, store, count), Some(6), "{store} {count}: {text}");
            }
        }
        let results = report["results"].as_array().expect("results");
        assert!(
            results.iter().all(|of| of["is_tested"] == true && of["is_kept"] == true),
            "{text}"
        );
        assert!(!text.contains("NOT TESTED"), "{text}");
    }
}

/// Its file has 256 KiB from the beginning, of which a small store needs a part.
#[test]
fn a_disk_is_full_for_a_store_that_takes_more_than_it_needs() {
    let arguments = format!("--faults full --rounds 2 {SMALL} --stores mdbx");
    let listed = run(&["bench", "--list"]).expect(0).text();
    if listed.lines().any(|line| line.starts_with("mdbx ") && line.contains("not found")) {
        return eprintln!("not tested: mdbx is not found");
    }
    let (report, text) = torture(&arguments, &[], 0);
    assert_eq!(figure(&report, "mdbx", "faults"), Some(2), "{text}");
}

/// A workload file with these lines before its mix.
fn workload(folder: &Folder, lines: &str, mixes: &str) -> String {
    folder.file("own.toml", format!("data = \"random\"\n{lines}\n{mixes}\n"))
}

const MIX: &str = "[mix]\nget = 1\ninsert = 3\nupdate = 3\nremove = 1";

/// Stores have the types of the file, as bench sets them up, and who has no such types is named.
#[test]
fn stores_have_the_types_of_the_workload_file() {
    let folder = Folder::new();
    for key_type in ["u32", "f64", "string"] {
        let types = format!("key-type = \"{key_type}\"\nvalue-type = \"u64\"");
        let file = workload(&folder, &types, MIX);
        let keep = folder.path(&format!("kept-{key_type}"));
        // What is not synced is lost, and so kept here: a store whose table tells its type.
        let arguments = format!(
            "--stores hash,btree --faults power --durability buffered --expect all --rounds 4 {SMALL}"
        );
        let (_, text) = torture(&arguments, &["--workload", &file, "--keep", &keep], 1);
        assert!(text.contains(&format!("keys of type {key_type} are bytes to hash: ")), "{text}");
        assert!(text.contains("values of type u64 are bytes to hash, btree: "), "{text}");
        let kept = names_in(keep.as_ref());
        let kept = kept.iter().filter(|name| name.starts_with("btree-"));
        let has_type = |name: &String| {
            let tables = run(&["table", "list", &format!("{keep}/{name}/files/store")]);
            // Of a power cut on this machine some copies are called damaged.
            tables.status == 0 && tables.text().contains(&format!("typed\tkeys {key_type}"))
        };
        assert!(kept.clone().any(has_type), "{key_type}: {text}");
    }
    let (_, text) = torture(
        &format!("--stores hash,btree --rounds 3 {SMALL}"),
        &["--workload", &workload(&folder, "key-type = \"u32\"", MIX)],
        0,
    );
    assert!(text.contains("btree (buffered): kept every one of "), "{text}");
    let file = workload(&folder, "key-type = \"record-number32\"", MIX);
    let got = run(&["torture", "-q", "--stores", "btree", "--workload", &file]).expect(111);
    assert!(got.err.contains("with keys of type record-number32 there is nothing"), "{}", got.err);
}

/// Mixes come one after the other, each with what those before it have left.
#[test]
fn several_mixes_are_done_one_after_the_other() {
    let folder = Folder::new();
    let mixes = "[[mix]]\nname = \"load\"\ninsert = 1\noperations = 100\n\
                 [[mix]]\nname = \"use\"\nget = 1\nupdate = 1\noperations = 60\ntransactions = 7\n\
                 [[mix]]\nname = \"clear\"\nremove = 1\noperations = 40";
    let file = workload(&folder, "key-size = 16", mixes);
    let arguments = "--stores constant,hash,btree --rounds 2 --records 60";
    let (report, text) = torture(arguments, &["--workload", &file], 0);
    // The records, all operations, and the ends of nine transactions.
    assert_eq!(report["operations"], 60 + 200 + 2 * 9, "{text}");
    assert!(text.contains("btree (buffered): kept every one of "), "{text}");
}

/// What is chosen holds for the store that is tortured, or it takes no part and is named.
#[test]
fn stores_are_set_up_as_the_file_and_the_options_say() {
    let folder = Folder::new();
    let mixes = format!("{MIX}\n[settings]\nchecksums = true");
    let file = workload(&folder, "key-size = 16", &mixes);
    let faults = format!("--faults power --durability buffered --expect all --rounds 3 {SMALL}");
    let more = ["--workload", &file, "--set", "btree.checksums=off"];
    let (report, text) = torture(&format!("--stores hash,btree {faults}"), &more, 1);
    assert_eq!(report["settings"], serde_json::json!(["checksums=on", "btree.checksums=off"]));
    let left_out = "'[settings]' of the workload file leaves out hash: no setting checksums there.";
    assert!(text.contains(left_out), "{text}");
    assert_eq!(figure(&report, "btree", "faults"), Some(12), "{text}");
    // The command has the options; the file has its own.
    assert!(text.contains("--set 'btree.checksums=off'"), "{text}");
    let listed = run(&["bench", "--list"]).expect(0).text();
    if listed.lines().any(|line| line.starts_with("sqlite ") && line.contains("not found")) {
        eprintln!("not tested: sqlite is not found");
    } else {
        // It says in its file which pages it has.
        let keep = folder.path("kept");
        let more = ["--set", "page-size=16K", "--keep", &keep];
        torture(&format!("--stores sqlite {faults}"), &more, 1);
        let has_pages = |name: &String| {
            let store = std::fs::read(format!("{keep}/{name}/files/store")).unwrap_or_default();
            store.starts_with(b"SQLite format 3\0") && store[16..18] == [0x40, 0]
        };
        assert!(names_in(keep.as_ref()).iter().any(has_pages), "pages of 16 KiB");
    }
    for (arguments, says) in [
        (&["--stores", "hash", "--set", "page-size=4K"][..], "no store is left to torture"),
        (&["--set", "memory=on"], "memory=on: what is in the memory of a process goes with it"),
        (&["--set", "recovery=off", "--durability", "sync"], "contradicts --durability sync"),
        (&["--set", "key-compression=zint32-for"], "contradicts keys of type binary"),
        (&["--set", "colour=red"], "no setting 'colour'"),
    ] {
        let got = run(&[&["torture", "-q"], arguments].concat()).expect(111);
        assert!(got.err.contains(says), "{arguments:?}: {}", got.err);
    }
}

#[test]
fn stores_that_lose_are_found_out() {
    // A map that nobody syncs, and a cache that nobody writes, each taken for safe.
    let power = format!("--faults power --durability buffered --expect all --rounds 3 {SMALL}");
    let kill = format!("--faults kill --expect all --rounds 2 {SMALL}");
    for (store, arguments) in [("lmdb", power), ("tokyocabinet-btree", kill)] {
        let listed = run(&["bench", "--list"]).expect(0).text();
        let line = listed.lines().find(|line| line.starts_with(&format!("{store} ")));
        if line.is_none_or(|line| line.contains("not found")) {
            eprintln!("not tested: {store} is not found");
            continue;
        }
        let (report, text) = torture(&arguments, &["--stores", store], 1);
        let bad = ["lost", "wrong", "torn", "refused", "crashed"];
        let bad = bad.iter().filter_map(|name| figure(&report, store, name)).sum::<u64>();
        assert!(bad > 0, "{text}");
    }
}

#[test]
fn what_a_program_did_is_done_again_while_it_is_killed() {
    let folder = Folder::new();
    let (store, trace) = (folder.path("store"), folder.path("day.trace"));
    let script: String =
        (0..60).map(|i| format!("begin\nput a{i} {i}\nput b{} {i}\ncommit\n", i % 7)).collect();
    run(&["create", &store, "--engine", "btree"]).expect(0);
    let program = program();
    let program = program.to_str().expect("a path that is text");
    let record = ["record", &trace, "--", program, "shell", &store];
    run_with(&record, script.as_bytes()).expect(0);
    let arguments = "--stores btree,hash,constant --faults kill,power --rounds 2 --data";
    let (report, text) = torture(arguments, &[&trace], 0);
    assert!(figure(&report, "btree", "acknowledged").is_some_and(|count| count > 0), "{text}");
    // Kills may all come before the first file is there.
    let results = report["results"].as_array().expect("results");
    let is_it = |of: &&Value| of["store"] == "constant" && of["fault"] == "power";
    let cut = results.iter().find(is_it).expect("our own");
    assert!(cut["acknowledged"].as_u64() > Some(0), "{text}");
}

#[test]
fn what_makes_no_sense_is_an_error() {
    let folder = Folder::new();
    let text = folder.file("text", "no records: \u{1}\n");
    for (arguments, says) in [
        (&["--stores", "none"][..], "there is no store 'none'"),
        (&["--rounds", "0"], "--rounds"),
        (&["--round", "18446744073709551615"], "--round"),
        (&["--timeout", "18446744073709551615"], "--timeout"),
        (&["--seconds", "0"], "--seconds"),
        (&["--records", "0"], "--records"),
        (&["--faults", "flood"], "flood"),
        (&["--durability", "none"], "none"),
        (&["--workload", "nonsense"], "nonsense"),
        (&["--data", "/none/such"], "/none/such"),
        (&["--data", &text], "text"),
        (&["--workload", "ycsb-c", "--stores", "hash"], "could be lost; take what changes more"),
        (&["--stores", "lmdb", "--lib", "lmdb=/none"], "lmdb"),
    ] {
        let got = run(&[&["torture"], arguments].concat()).expect(111);
        assert!(got.err.contains(says), "{arguments:?}: {}", got.err);
    }
}

#[test]
fn a_signal_reports_what_is_finished_and_leaves_no_files() {
    let folder = Folder::new();
    let (dir, out) = (folder.path(""), folder.path("out.json"));
    for faults in ["full", "power"] {
        let mut running = Command::new(program())
            .args(["--quiet", "torture", "--stores", "hash", "--rounds", "100000"])
            .args(["--faults", faults, "--dir", &dir, "--json", &out])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("the program starts");
        // Until a store has its folder; a run this long never ends by itself.
        let has_begun = || {
            let entries = std::fs::read_dir(&dir).ok()?.flatten();
            Some(entries.into_iter().any(|run| run.path().join("hash").exists()))
        };
        while has_begun() != Some(true) {
            assert!(running.try_wait().expect("its state").is_none(), "the run ended");
            std::thread::yield_now();
        }
        let id = running.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
        assert_eq!(running.wait().expect("its end").code(), Some(130));
        let report = std::fs::read(&out).expect("the report");
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        assert_eq!(
            (&report["interrupted"], &report["failures"]),
            (&true.into(), &Vec::<Value>::new().into())
        );
        assert_eq!(folder.names(), ["out.json"]);
    }
}

#[test]
fn stores_that_nobody_named_are_told_when_they_are_left_out() {
    let (folder, libraries) = (Folder::new(), Folder::new());
    let dir = folder.path("");
    let least = ["--records", "3", "--operations", "5", "--faults", "kill", "--rounds", "1"];
    let mut command = credenza(&[&["torture", "-q", "--dir", &dir][..], &least].concat());
    let out = with_damaged_lmdb(&mut command, &libraries).output().expect("the program starts");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(0), "{text}");
    says_who_is_absent(&text);
    // Of what is built once, only what takes the place of an old file whole can lose nothing.
    assert!(text.contains("constant (sync): "), "{text}");
    let listed = run(&["bench", "--list"]).expect(0).text();
    let is_here = |line: &&str| line.starts_with("cdb ") && !line.contains("not found");
    if listed.lines().any(|line| is_here(&line)) {
        let left_out = text.lines().find(|line| line.ends_with("built once and never changed."));
        assert!(left_out.is_some_and(|line| line.starts_with("cdb")), "{text}");
    }
}
