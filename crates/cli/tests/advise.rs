//! Danger: advice that a user cannot follow, that is not checked, or that is given for work that the
//! store cannot do; files that stay behind.

mod common;
use common::*;
use serde_json::Value;
use std::process::{Command, Stdio};

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
    // With keys as bytes, and as numbers; and settings that were kept.
    let tried = advice["tried"].as_array().expect("what was tried");
    let kept = tried.iter().filter(|one| one["is_kept"] == true && one["is_candidate"] == false);
    assert_eq!(candidates.len(), 4 + kept.count(), "{text}");
    assert!(tried.iter().any(|one| one["store"] == "btree, u32 keys"), "{tried:?}");
    assert!(advice["durability"].is_null(), "nothing changes");
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
fn a_store_that_is_missing_is_a_failure_and_the_others_are_advised_on() {
    let folder = Folder::new();
    let (data, json, dir) =
        (folder.file("data.tsv", tsv(200)), folder.path("advice.json"), folder.path(""));
    let mut args = vec!["--quiet", "advise", "--data", &data, "--no-pin", "--seconds", "0.2"];
    args.extend(["--dir", &dir, "--json", &json, "--stores", "hash,mcdb", "--lib", "mcdb=/none"]);
    // With changes the candidates are looked for twice.
    args.extend(["--writes", "20"]);
    let got = run(&args).expect(111);
    let text = got.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Left out, a failure: mcdb: it is not here"), "{text}");
    assert!(text.contains("Advice: hash") && text.contains("Checked with all"), "{text}");
    assert_eq!(got.err.matches("credenza advise: mcdb: it is not here").count(), 1, "{}", got.err);
    let advice: Value =
        serde_json::from_slice(&std::fs::read(&json).expect("the advice")).expect("JSON");
    assert_eq!(advice["failures"].as_array().map(Vec::len), Some(1), "{advice}");
    assert_eq!(advice["failures"][0]["store"], "mcdb", "{advice}");
    assert_eq!(advice["ruled_out"][0]["is_missing"], true, "{advice}");
}

#[test]
fn changes_that_wait_for_the_disk_are_measured_so() {
    let folder = Folder::new();
    let data = folder.file("data.tsv", tsv(200));
    let more = ["--writes", "10", "--sync", "--no-check", "--stores", "hash", "--batches"];
    let (text, advice) = advise(&folder, &data, &more);
    let first = &advice["candidates"][0];
    assert!(advice["durability"].is_null() && !text.contains("What durability costs"), "{text}");
    assert_eq!(first["durability"], "sync");
    assert!(first["expected"]["write_p99_ns"].as_f64() > Some(0.0), "{first}");
    // A lookup waits for its batch, and costs a part of it.
    let [mean, p50] = ["get_mean_ns", "get_p50_ns"].map(|name| first["expected"][name].as_f64());
    assert!(mean > Some(0.0) && p50 > mean.map(|ns| 2.0 * ns), "{first}");
    assert!(text.contains("each with the p50 and p99 of its batch"), "{text}");
    assert!(text.contains("Durability::Sync: a change is on the disk"), "{text}");
    assert!(text.contains("durability(Durability::Sync)"), "{text}");
}

/// What docs/advise.md says of how a durability is chosen, by the figures in the file.
fn check_choice(advice: &Value) {
    let durability = &advice["durability"];
    let classes = durability["classes"].as_array().expect("classes");
    let rate = |class: &Value| class["changes_per_second"].as_f64().expect("a rate");
    let names: Vec<&str> = classes.iter().filter_map(|of| of["class"].as_str()).collect();
    assert_eq!(names, ["buffered", "sync every 100", "sync"]);
    for class in classes {
        assert!(rate(class) > 0.0 && class["figures"]["change_p99_ns"].as_f64() > Some(0.0));
        assert_eq!(class["figures"]["sync_p50_ns"].is_null(), class["class"] != "sync every 100");
        assert_eq!(class["lost_with_process"], "nothing");
        assert!(class["lost_with_power"].is_string());
    }
    let enough = match durability["needed_per_second"].as_f64() {
        None => classes.last(),
        Some(needed) => classes.iter().rev().find(|class| rate(class) >= 2.0 * needed),
    };
    let chosen = &durability["chosen"];
    match enough {
        Some(enough) => assert_eq!(chosen, &enough["class"], "{durability}"),
        None => assert!(names.contains(&chosen.as_str().expect("a class")), "{durability}"),
    }
    assert_eq!(&advice["use"]["durability"], chosen);
    for candidate in advice["candidates"].as_array().expect("candidates") {
        assert_eq!(&candidate["durability"], chosen);
    }
    let rust = advice["recipe"]["rust"].as_str().expect("a piece of a program");
    assert_eq!(rust.contains("Durability::Sync"), chosen == "sync", "{rust}");
    assert_eq!(
        rust.contains(".sync()?; // after 100 changes"),
        chosen == "sync every 100",
        "{rust}"
    );
}

#[test]
fn where_nobody_asks_for_a_durability_one_is_advised_by_what_it_costs() {
    let folder = Folder::new();
    let data = folder.file("data.tsv", tsv(400));
    for (rate, says) in [
        (&[][..], "How many changes the use makes is not known"),
        (&["--rate", "0.5"], "It is the strongest that makes at least twice the 0.5"),
        (&["--rate", "1e15"], "None makes twice the"),
    ] {
        let (text, advice) = advise(&folder, &data, &[&["--writes", "50"], rate].concat());
        check_choice(&advice);
        assert_eq!(advice["durability"]["needed_per_second"].is_null(), rate.is_empty());
        let checked = &advice["candidates"][0]["checked"];
        assert!(checked["error_percent"]["write_p99_ns"].is_number(), "{checked}");
        for says in
            [says, "What durability costs with", "loses nothing in any of them", "as advised"]
        {
            assert!(text.contains(says), "{says} in\n{text}");
        }
    }
}

#[test]
fn a_durability_that_is_asked_for_is_measured_advised_and_checked() {
    let folder = Folder::new();
    let data = folder.file("data.tsv", tsv(400));
    let more = ["--writes", "50", "--durability", "50"];
    let (text, advice) = advise(&folder, &data, &more);
    assert_eq!(advice["use"]["durability"], "sync every 50");
    assert_eq!((&advice["use"]["told"], &advice["use"]["sync"]), (&"asked".into(), &false.into()));
    assert_eq!(advice["use"]["shares"]["sync"], 0.01);
    assert!(advice["durability"].is_null() && !text.contains("What durability costs"), "{text}");
    let measured = &advice["candidates"][0]["checked"]["measured"];
    for figure in ["sync_p99_ns", "write_p99_ns", "get_mean_ns"] {
        assert!(measured[figure].as_f64() > Some(0.0), "{figure} in {measured}");
    }
    for says in ["store.sync()?; // after 50 changes", "the last 50 changes at most"] {
        assert!(text.contains(says), "{says} in\n{text}");
    }
    let more = ["--writes", "50", "--durability", "buffered", "--no-check"];
    let (text, advice) = advise(&folder, &data, &more);
    assert_eq!(advice["candidates"][0]["durability"], "buffered");
    assert!(text.contains("Durability::Buffered") && !text.contains(".sync()"), "{text}");
    assert!(advice["durability"].is_null());
}

#[test]
fn settings_are_tried_and_what_they_gave_is_said() {
    let folder = Folder::new();
    let data = folder.file("data.tsv", tsv(400));
    let (text, advice) = advise(&folder, &data, &["--stores", "constant"]);
    let tried = advice["tried"].as_array().expect("what was tried");
    assert_eq!(tried.len(), 1);
    let (tried, candidates) = (&tried[0], advice["candidates"].as_array().expect("candidates"));
    assert_eq!(
        (&tried["store"], &tried["against"]),
        (&"constant, copy=on".into(), &"constant".into())
    );
    assert!(tried["ratio"]["pairs"].as_u64() > Some(0), "{tried}");
    for figure in ["low", "median", "high", "floor"] {
        assert!(tried["ratio"][figure].as_f64() > Some(0.0), "{figure} in {tried}");
    }
    // Only what is kept is a candidate, and then the program that is printed has it.
    let kept = candidates.iter().filter(|of| of["setting"] == "copy=on").count();
    assert_eq!(kept == 1, tried["is_kept"] == true, "{tried}");
    let rust = advice["recipe"]["rust"].as_str().expect("a piece of a program");
    assert_eq!(rust.contains("Access::Memory"), candidates[0]["setting"] == "copy=on", "{rust}");
    for says in ["Settings tried", "constant, copy=on", "faster by more than a tenth"] {
        assert!(text.contains(says), "{says} in\n{text}");
    }
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
    let more = ["--check-all", "--durability", "buffered"];
    let (text, advice) = advise(&folder, &trace, &more);
    assert_eq!(advice["data"]["kind"], "trace");
    assert_eq!(stores(&advice), ["btree", "hash"]);
    let shares = &advice["use"]["shares"];
    let share = |name: &str| shares[name].as_f64().unwrap_or(0.0);
    assert!((share("get") - 800.0 / 1202.0).abs() < 1e-9, "{shares}");
    assert!((share("insert") - 402.0 / 1202.0).abs() < 1e-9, "{shares}");
    assert_eq!(advice["use"]["misses"], 0.5);
    for says in ["keys in a trace", "Left out: constant"] {
        assert!(text.contains(says), "{says} in\n{text}");
    }
    // Its durability the trace does not tell, and how many changes a second it had it does.
    let (_, advice) = advise(&folder, &trace, &[]);
    assert!(advice["use"]["told"].is_null());
    assert!(advice["durability"]["needed_per_second"].as_f64() > Some(0.0), "{advice}");
    check_choice(&advice);
    let (_, advice) = advise(&folder, &trace, &["--durability", "20", "--stores", "btree"]);
    let checked = &advice["candidates"][0]["checked"]["measured"];
    assert!(checked["sync_p99_ns"].as_f64() > Some(0.0), "{advice}");
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
        (&["--data", &data, "--writes", "5", "--durability", "never"], "not 'never'"),
        (&["--data", &data, "--writes", "5", "--rate", "0"], "no number of changes"),
        (&["--data", &data, "--writes", "5", "--rate", "9", "--sync"], "cannot be used with"),
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

/// Runs advice, has a signal end it when there is a file of this name in the folder of the run, and gives what it
/// printed and wrote.
fn interrupted(name: &str, more: &[&str]) -> (String, Value) {
    let (folder, stores) = (Folder::new(), Folder::new());
    let (data, json, dir) =
        (folder.file("data.tsv", tsv(2000)), folder.path("advice.json"), stores.path(""));
    let mut running = Command::new(program())
        .args(["--quiet", "advise", "--data", &data, "--seconds", "86400", "--dir", &dir])
        .args(["--timeout", "86400", "--json", &json])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let has_begun = || {
        let run = std::fs::read_dir(&dir).ok()?.flatten().next()?;
        Some(run.path().join(name).exists())
    };
    while has_begun() != Some(true) {
        assert!(running.try_wait().expect("its state").is_none(), "the run ended");
        std::thread::yield_now();
    }
    let id = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    let output = running.wait_with_output().expect("its end");
    let (text, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{text}{err}");
    assert!(
        err.starts_with("credenza advise: stopped by a signal: ") && err.lines().count() == 1,
        "{err}"
    );
    assert!(stores.names().is_empty(), "{:?}", stores.names());
    let advice = std::fs::read(&json).expect("what was measured");
    (text.into_owned(), serde_json::from_slice(&advice).expect("JSON"))
}

#[test]
fn a_signal_before_the_advice_leaves_what_was_measured_and_no_files() {
    for (name, more, measured) in [
        // Of the first store, and of none yet.
        ("stores", &["--stores", "hash"][..], None),
        // What is asked of the second part is written when the first was measured.
        ("inputs-1", &["--stores", "hash"], Some((Value::Null, "the use, 255 records"))),
        // And of the first part, when a durability was chosen.
        (
            "inputs-0",
            &["--stores", "btree", "--writes", "20"],
            Some(("sync".into(), "a change, sync")),
        ),
    ] {
        let (text, found) = interrupted(name, more);
        assert_eq!(
            (&found["interrupted"], &found["recipe"]),
            (&true.into(), &Value::Null),
            "{found}"
        );
        let none = Some(0);
        assert_eq!(found["candidates"].as_array().map(Vec::len), none, "{found}");
        assert_eq!(found["failures"].as_array().map(Vec::len), none, "{found}");
        let said = "Measured before a signal ended it: this is not all, and no advice";
        assert!(text.contains(said) && !text.contains("Advice:"), "{text}");
        let rows = found["measured"].as_array().expect("what was measured");
        assert_eq!(rows.is_empty(), text.contains("Nothing was measured"), "{text}{found}");
        if let Some((class, says)) = measured {
            assert!(rows.iter().any(|row| row["class"] == class), "{found}");
            assert!(rows.iter().all(|row| !row["trials"][0]["figures"].is_null()), "{found}");
            assert!(text.contains(says), "{says}: {text}");
        }
    }
}
