//! Danger: advice that a user cannot follow, that is not checked, or that is given for work that the
//! store cannot do; files that stay behind.

mod common;
use common::*;
use serde_json::Value;
use std::process::Command;

/// Records whose keys are numbers in no order.
fn tsv(count: u32) -> String {
    let key = |i: u32| 1_000_000 + i * 7919 % count;
    (0..count).map(|i| format!("{}\tvalue {i}\n", key(i))).collect()
}

/// Asks for advice on a file with little time; gives what is printed, and the JSON.
fn advise(folder: &Folder, data: &str, more: &[&str]) -> (String, Value) {
    let (json, dir) = (folder.path("advice.json"), folder.path(""));
    let mut args = vec!["--quiet", "advise", "--data", data, "--no-pin", "--seconds", "0.5"];
    args.extend(["--dir", &dir, "--json", &json]);
    args.extend(more);
    let before = folder.names();
    let text = run(&args).expect(0).text();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains('\x1b'));
    let new: Vec<String> = folder.names().into_iter().filter(|n| !before.contains(n)).collect();
    assert_eq!(new, ["advice.json"], "the measured stores are removed");
    let advice = std::fs::read_to_string(&json).expect("the advice");
    std::fs::remove_file(&json).expect("a file to remove");
    let advice: Value = serde_json::from_str(&advice).expect("JSON");
    check_contract(&advice);
    // Lines may end anywhere between words.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (words, advice)
}

/// What docs/advise.md says of the file.
fn check_contract(advice: &Value) {
    assert_eq!(advice["credenza_advise"], 1);
    assert_eq!(advice["failures"].as_array().map(Vec::len), Some(0), "{advice}");
    let is_above_zero = |value: &Value| value.as_f64().is_some_and(|value| value > 0.0);
    assert!(is_above_zero(&advice["records"]) && is_above_zero(&advice["data"]["key_bytes"]));
    let shares = advice["use"]["shares"].as_object().expect("shares");
    for candidate in advice["candidates"].as_array().expect("candidates") {
        assert!(is_above_zero(&candidate["ns_per_operation"]), "{candidate}");
        let expected = candidate["expected"].as_object().expect("figures");
        for name in ["file_bytes", "memory_bytes"] {
            assert!(is_above_zero(&expected[name]), "{name} in {candidate}");
        }
        for operation in shares.keys().filter(|name| !["begin", "commit"].contains(&&***name)) {
            let name = format!("{}_mean_ns", operation.replace(' ', "_"));
            assert!(expected.contains_key(&name), "{name} in {candidate}");
        }
        let trials = candidate["trials"].as_array().expect("trials");
        assert!(!trials.is_empty() && trials.iter().all(|trial| is_above_zero(&trial["records"])));
        if let Some(measured) = candidate["checked"]["measured"].as_object() {
            let errors = candidate["checked"]["error_percent"].as_object().expect("errors");
            assert!(errors.len() >= 2 && errors.keys().all(|name| measured.contains_key(name)));
        }
    }
    assert!(advice["reads"].as_array().is_some_and(|reads| !reads.is_empty()));
}

fn stores(advice: &Value) -> Vec<&str> {
    let candidates = advice["candidates"].as_array().expect("candidates").iter();
    let mut names: Vec<&str> = candidates.filter_map(|of| of["store"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Runs the commands that are advised in this folder, and gives the values that a key then has.
fn followed(folder: &Folder, advice: &Value, get: &str) -> String {
    let commands = advice["recipe"]["commands"].as_array().expect("commands");
    let lines: Vec<&str> = commands.iter().filter_map(Value::as_str).collect();
    let program = program();
    let programs = program.parent().expect("a program in a folder").display();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let script = format!("set -e\n{}\n{get}", lines.join("\n"));
    let command = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path(""))
        .env("PATH", path)
        .output();
    let done = command.expect("bash cannot be run");
    assert!(done.status.success(), "{script}\n{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn what_is_only_read_is_advised_on_checked_and_can_be_followed() {
    let folder = Folder::new();
    let data = folder.file("my data.tsv", tsv(2000));
    let (text, advice) = advise(&folder, &data, &["--misses", "30", "--check-all"]);
    assert_eq!(stores(&advice), ["btree", "constant", "hash"]);
    let candidates = advice["candidates"].as_array().expect("candidates");
    // With keys as bytes, and as numbers.
    assert_eq!(candidates.len(), 4, "{text}");
    assert!(candidates.iter().all(|of| of["checked"]["records"] == 2000), "{text}");
    assert!(candidates.iter().all(|of| of["durability"].is_null()));
    for says in [
        "Advice: ",
        "btree, u32 keys",
        "miss 30 %",
        "Checked with all 2,000 records",
        "nothing changes",
    ] {
        assert!(text.contains(says), "{says} in\n{text}");
    }
    assert!(advice["verdict"].as_str().is_some_and(|words| text.contains(&words[..20])), "{text}");
}

#[test]
fn every_advice_can_be_followed() {
    let data = tsv(300);
    for (more, get) in [
        (&["--stores", "constant"][..], "credenza get my.store 1000007"),
        (&["--stores", "hash", "--writes", "50"], "credenza get my.store 1000007"),
        (
            &["--stores", "btree", "--ranges", "50"],
            "t=; credenza table list my.store | grep -q numbers && t='--table numbers'; credenza get my.store 1000007 $t",
        ),
    ] {
        let folder = Folder::new();
        let file = folder.file("it's.tsv", &data);
        let (text, advice) = advise(&folder, &file, &[more, &["--no-check"]].concat());
        assert!(advice["holds"].is_null() && !text.contains("Checked"), "{text}");
        assert!(followed(&folder, &advice, get).contains("value "), "{text}");
    }
    // Text whose lines are no records, in no order: the load sorts it.
    let folder = Folder::new();
    let file = folder.file("data", "+1,1:b->2\n+1,1:a->1\n\n");
    let (_, advice) = advise(&folder, &file, &["--stores", "btree", "--format", "cdb"]);
    let dump = followed(&folder, &advice, "credenza dump my.store --to tsv");
    assert!(dump.ends_with("a\t1\nb\t2\n"), "{dump}");
}

#[test]
fn stores_that_cannot_do_the_work_are_left_out_with_the_reason() {
    let folder = Folder::new();
    let data = folder.file("data.tsv", tsv(1000));
    let (text, advice) = advise(&folder, &data, &["--writes", "20", "--no-check"]);
    assert_eq!(stores(&advice), ["btree", "hash"]);
    assert!(text.contains("Left out: constant: it is built once and never changed"), "{text}");
    assert!(
        advice["candidates"]
            .as_array()
            .is_some_and(|all| all.iter().all(|of| of["durability"] == "buffered"))
    );
    let (text, advice) =
        advise(&folder, &data, &["--ranges", "20", "--no-check", "--records", "5000"]);
    assert_eq!(stores(&advice), ["btree"]);
    assert!(text.contains("hash: its records are in no order"), "{text}");
    assert!(text.contains("Expected with 5,000 records"), "{text}");
    let only =
        ["advise", "--data", &data, "--stores", "constant,hash", "--ranges", "5", "--writes", "5"];
    let got = run(&only).expect(111);
    assert!(
        got.err.contains("none of these stores can do the work; constant: it is built"),
        "{}",
        got.err
    );
    assert!(got.err.contains("hash: its records are in no order"), "{}", got.err);
}

#[test]
fn changes_that_wait_for_the_disk_are_measured_so() {
    let folder = Folder::new();
    let data = folder.file("data.tsv", tsv(200));
    let more = ["--writes", "10", "--sync", "--no-check", "--stores", "hash", "--batches"];
    let (text, advice) = advise(&folder, &data, &more);
    let first = &advice["candidates"][0];
    assert_eq!(first["durability"], "sync");
    assert!(first["expected"]["write_p99_ns"].as_f64() > Some(0.0), "{first}");
    assert!(first["expected"]["get_p99_ns"].is_null(), "batches have no times of single lookups");
    assert!(text.contains("Durability::Sync: a change is on the disk"), "{text}");
    assert!(text.contains("durability(Durability::Sync)"), "{text}");
}

#[test]
fn a_trace_tells_what_was_done() {
    let folder = Folder::new();
    let (store, trace) = (folder.path("users"), folder.path("day.trace"));
    run(&["create", "--engine", "btree", &store]).expect(0);
    let program = program().to_str().expect("a path that is text").to_owned();
    let mut lines = String::new();
    for i in 0..400 {
        lines += &format!("put key{i} value{i}\nget key{i}\nget none{i}\n");
    }
    lines += "begin\nput a 1\nput b 2\ncommit\n";
    let record = ["record", "-q", &trace, "--", &program, "shell", &store];
    run_with(&record, lines.as_bytes());
    let (text, advice) = advise(&folder, &trace, &["--check-all"]);
    assert_eq!(advice["data"]["kind"], "trace");
    assert_eq!(stores(&advice), ["btree", "hash"]);
    let shares = &advice["use"]["shares"];
    let share = |name: &str| shares[name].as_f64().unwrap_or(0.0);
    assert!((share("get") - 800.0 / 1202.0).abs() < 1e-9, "{shares}");
    assert!((share("insert") - 402.0 / 1202.0).abs() < 1e-9, "{shares}");
    assert_eq!(advice["use"]["misses"], 0.5);
    assert_eq!(advice["use"]["sync"], false);
    for says in ["keys in a trace", "Left out: constant"] {
        assert!(text.contains(says), "{says} in\n{text}");
    }
    let got = run(&["advise", "--data", &trace, "--writes", "5"]).expect(111);
    assert!(got.err.contains("--writes is told by the trace itself"), "{}", got.err);
    let bytes = std::fs::read(&trace).expect("the trace");
    let mut damaged = bytes.clone();
    damaged[bytes.len() - 3] ^= 1;
    let damaged = folder.file("damaged", damaged);
    let got = run(&["advise", "--data", &damaged]).expect(111);
    assert!(got.err.contains("damaged at byte"), "{}", got.err);
}

#[test]
fn what_makes_no_sense_is_an_error_that_says_so() {
    let folder = Folder::new();
    let (data, empty) = (folder.file("data.tsv", tsv(100)), folder.file("empty.tsv", ""));
    let malformed = folder.file("malformed", "+5,3:apple->red\nbanana\n");
    for (arguments, says) in [
        (&["--data", "/none/such"][..], "/none/such"),
        (&["--data", &empty], "there is no record in it"),
        (&["--data", &malformed], "line 2"),
        (&["--data", &data, "--format", "nonsense"], "nonsense"),
        (&["--data", &data, "--writes", "70", "--ranges", "70"], "over 100 percent"),
        (&["--data", &data, "--sync"], "there are none"),
        (&["--data", &data, "--records", "99"], "they have 100 already"),
        (&["--data", &data, "--stores", "none"], "there is no store 'none'"),
        (&["--data", &data, "--seconds", "0"], "--seconds takes"),
        (&["--data", &data, "--seconds", "nan"], "--seconds takes"),
        (&["--data", &data, "--no-check", "--check-all"], "cannot be used with"),
        (&["--data", &data, "--stores", "mcdb", "--lib", "mcdb=/none"], "it is not here"),
        (&["--data", &data, "--dir", "/none/such"], "/none/such"),
        (&[], "--data"),
    ] {
        let got = run(&[&["advise"], arguments].concat()).expect(111);
        assert!(
            got.err.starts_with("error: ") && got.err.contains(says),
            "{arguments:?}: {}",
            got.err
        );
    }
}

#[test]
fn a_signal_leaves_a_line_and_no_files() {
    let (folder, stores) = (Folder::new(), Folder::new());
    let (data, dir) = (folder.file("data.tsv", tsv(2000)), stores.path(""));
    let mut running = Command::new(env!("CARGO_BIN_EXE_credenza"))
        .args(["--quiet", "advise", "--data", &data, "--seconds", "86400", "--dir", &dir])
        .args(["--stores", "hash", "--timeout", "86400"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    // As long as there is no folder nothing is to be removed, and nobody listens.
    while stores.names().is_empty() {
        assert!(running.try_wait().expect("its state").is_none(), "the run ended");
        std::thread::yield_now();
    }
    let id = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "credenza: stopped\n");
    assert!(stores.names().is_empty(), "{:?}", stores.names());
}
