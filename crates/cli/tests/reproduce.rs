//! Danger: an experiment that is quoted and was never run, a store that is silently absent, files
//! that stay behind. Small runs through the program, with our engines and whatever else is here.

mod common;
use common::*;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs one document small, in folders of its own; gives its text and its JSON.
fn reproduce(document: &str, rounds: usize, more: &[&str]) -> (String, Value) {
    let folder = Folder::new();
    let (json, dir) = (folder.path("out.json"), folder.path(""));
    let rounds = rounds.to_string();
    let mut args = vec!["--quiet", "reproduce", document, "--rounds", &rounds, "--no-pin"];
    args.extend(["--dir", &dir, "--disk", &dir, "--json", &json]);
    args.extend(more);
    let text = run(&args).expect(0).text();
    assert_eq!(folder.names(), ["out.json"], "the measured stores are removed");
    let report = std::fs::read_to_string(&json).expect("the report");
    (text, serde_json::from_str(&report).expect("JSON"))
}

/// What holds of every document's report.
fn check(document: &str, text: &str, report: &Value) {
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(report["credenza_reproduce"], 2);
    assert_eq!(report["failures"].as_array().expect("failures").len(), 0, "{report}");
    let outcome = &report["documents"][0];
    assert_eq!(outcome["document"], document);
    for fact in ["source", "hardware", "year"] {
        assert!(outcome[fact].as_str().is_some_and(|fact| !fact.is_empty()), "{fact}");
    }
    for table in outcome["tables"].as_array().expect("tables") {
        let blocks = table["blocks"].as_array().expect("blocks");
        for row in table["rows"].as_array().expect("rows") {
            for (block, cells) in blocks.iter().zip(row["cells"].as_array().expect("cells")) {
                let (cells, columns) = (cells.as_array().expect("cells"), &block["columns"]);
                let is_whole = cells.len() == columns.as_array().expect("columns").len();
                assert!(cells.is_empty() || is_whole, "{row} in {table}");
            }
        }
    }
    let verdicts = outcome["verdicts"].as_array().expect("verdicts");
    assert!(!verdicts.is_empty() && verdicts.iter().all(|v| !v["here"].is_null()), "{verdicts:?}");
    for verdict in verdicts {
        let mark = verdict["holds"].as_str().expect("a mark");
        assert!(["yes", "less", "no", "?"].contains(&mark), "{verdict}");
        assert!(
            text.lines().any(|line| line.starts_with(&format!("{mark:<5}"))),
            "{verdict}: {text}"
        );
    }
}

/// The samples of a store's figure in the measured block of the table with this in its title.
fn samples(report: &Value, title: &str, label: &str, column: usize) -> Vec<f64> {
    let tables = report["documents"][0]["tables"].as_array().expect("tables");
    let of_title = |table: &&Value| table["title"].as_str().expect("a title").contains(title);
    let table = tables.iter().find(of_title).expect("the table");
    let rows = table["rows"].as_array().expect("rows");
    // Of rows with this label the first that was measured: those of stores left out are empty.
    let measured = |row: &Value| {
        let cell = row["cells"].as_array()?.last()?.get(column)?;
        cell["samples"].as_array().filter(|_| row["label"] == label).cloned()
    };
    let samples = rows.iter().find_map(measured).expect("a row with samples");
    samples.iter().map(|sample| sample.as_f64().expect("a number")).collect()
}

const SMALL: [&str; 4] = ["--scale", "0.001", "--stores", "constant,hash,btree"];
/// The same of documents about stores that are changed.
const CHANGING: [&str; 4] = ["--scale", "0.001", "--stores", "hash,btree"];

#[test]
fn mcdb_is_run_with_our_engines() {
    // Nothing in a folder in memory can be cold.
    if !has_disk() {
        println!("skipped: {} is in memory", std::env::temp_dir().display());
        return;
    }
    let (text, report) = reproduce("mcdb", 3, &SMALL);
    check("mcdb", &text, &report);
    for store in ["constant", "hash", "btree"] {
        assert_eq!(samples(&report, "in memory", store, 2).len(), 3, "{store}");
        assert_eq!(samples(&report, "nothing in memory", store, 1).len(), 3, "{store}");
        assert_eq!(samples(&report, "stats", store, 0).len(), 3, "{store}");
    }
    assert!(text.contains("Pentium-M") && text.contains("Scaled: every number"), "{text}");
}

#[test]
fn ntdb_is_run_with_our_engines() {
    let (text, report) = reproduce("ntdb", 3, &CHANGING);
    check("ntdb", &text, &report);
    let title = "nanoseconds";
    assert!(samples(&report, title, "    100", 4).iter().all(|speed| *speed > 0.0));
    assert!(text.contains("TDB (10000 hashsize)"), "what was published is there:\n{text}");
}

#[test]
fn bayes_is_run_with_our_engines() {
    let (text, report) = reproduce("bayes", 3, &SMALL);
    check("bayes", &text, &report);
    assert!(
        text.contains("--     -63%    -63%     -87%"),
        "the published matrix is there:\n{text}"
    );
    assert_eq!(samples(&report, "Sizes", "constant", 0).len(), 3);
}

#[test]
fn mdbm_is_run_with_our_engines() {
    if !has_disk() {
        println!("skipped: {} is in memory", std::env::temp_dir().display());
        return;
    }
    let (text, report) = reproduce("mdbm", 1, &SMALL);
    check("mdbm", &text, &report);
    let all = ["hash, here", "btree, here", "constant, here"];
    for (title, label, stores) in [
        ("clock around each", "   100 bytes", &all[..2]),
        ("own statistics", "   100 bytes", &all[..2]),
        ("Iteration", "  256 MB", &all),
        ("Random fetches", "1 thread", &all),
    ] {
        let tables = report["documents"][0]["tables"].as_array().expect("tables");
        let of_title = |table: &&Value| table["title"].as_str().expect("a title").contains(title);
        let table = tables.iter().find(of_title).expect("the table");
        let blocks = table["blocks"].as_array().expect("blocks");
        let rows = table["rows"].as_array().expect("rows");
        for store in stores {
            let block = blocks.iter().position(|block| block["title"] == *store).expect(store);
            let is_measured = |row: &&Value| {
                row["label"] == label && !row["cells"][block][0]["samples"].is_null()
            };
            assert!(rows.iter().any(|row| is_measured(&row)), "{store} in {title}: {table}");
        }
    }
    for says in ["reading the TSC", "CLOCK_MONOTONIC", "every one timed", "handle"] {
        assert!(text.contains(says), "{says}:\n{text}");
    }
}

#[test]
fn upscaledb_is_run_with_our_engines() {
    let (text, report) = reproduce("upscaledb", 3, &CHANGING);
    check("upscaledb", &text, &report);
    let tables = report["documents"][0]["tables"].as_array().expect("tables");
    // Each has a table of its own for the other lines of its output.
    assert_eq!(tables.len(), 20, "as many as the manual has commands, and one whose finds find");
    assert!(text.contains("find_throughput, bytes/s") && text.contains("4121208.803951"), "{text}");
    assert_eq!(samples(&report, "--use-transactions=10", "btree", 1).len(), 3);
    assert_eq!(samples(&report, "--inmemorydb", "hash", 4).len(), 3);
    assert!(text.contains("9.453202"), "{text}");
}

#[test]
fn a_missing_store_is_said_and_its_place_is_no_figure() {
    let folder = Folder::new();
    let dir = folder.path("");
    let lib = "tdb=/nowhere/libtdb.so";
    let args = ["reproduce", "ntdb", "--stores", "hash,tdb", "--lib", lib, "--rounds", "1"];
    let got = run(&[&args[..], &["--scale", "0.0001", "--dir", &dir]].concat()).expect(111);
    assert!(got.err.contains("/nowhere/libtdb.so"), "{}", got.err);
    assert!(got.text().contains("Failed: tdb (missing)"), "{}", got.text());
    // Not asked for by name it is a note, and no failure.
    let args = ["reproduce", "ntdb", "--stores", "hash", "--rounds", "1", "--scale", "0.0001"];
    run(&[&args[..], &["--dir", &dir]].concat()).expect(0);
}

#[test]
fn wrong_options_are_errors() {
    for (args, what) in [
        (&["reproduce"][..], "DOCUMENTS"),
        (&["reproduce", "nothing"], "nothing"),
        (&["reproduce", "ntdb", "--scale", "0"], "--scale"),
        (&["reproduce", "ntdb", "--scale", "nan"], "--scale"),
        (&["reproduce", "ntdb", "--rounds", "0"], "--rounds"),
        (&["reproduce", "ntdb", "--stores", "nothing"], "there is no store 'nothing'"),
        (&["reproduce", "ntdb", "--dir", "/nowhere/at/all"], "/nowhere/at/all"),
    ] {
        let got = run(args).expect(111);
        assert!(got.err.contains(what), "{args:?}: {}", got.err);
    }
}

#[test]
fn a_signal_leaves_no_files() {
    let folder = Folder::new();
    let (dir, stores) = (folder.path(""), "hash");
    let mut running = Command::new(env!("CARGO_BIN_EXE_credenza"))
        .args(["--quiet", "reproduce", "ntdb", "--stores", stores, "--rounds", "100000"])
        .args(["--dir", &dir])
        .spawn()
        .expect("the program starts");
    // Until a measured process has its folder; a run this long never ends by itself.
    let has_begun = || {
        let run = std::fs::read_dir(&dir).ok()?.flatten().next()?;
        Some(run.path().join(stores).exists())
    };
    while has_begun() != Some(true) {
        assert!(running.try_wait().expect("its state").is_none(), "the run ended");
        std::thread::yield_now();
    }
    let id = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    assert_eq!(running.wait().expect("its end").code(), Some(130));
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

/// A report that was written, and the words that were printed, wherever their lines ended.
fn told(json: &str, text: &[u8]) -> (Value, String) {
    let report = std::fs::read_to_string(json).expect("the report");
    let text = String::from_utf8_lossy(text);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (serde_json::from_str(&report).expect("JSON"), words)
}

#[test]
fn what_is_finished_is_told_when_a_signal_comes() {
    let folder = Folder::new();
    let (dir, json) = (folder.path(""), folder.path("out.json"));
    let mut running = Command::new(env!("CARGO_BIN_EXE_credenza"))
        .args(["reproduce", "ntdb", "bayes", "--stores", "hash", "--rounds", "1"])
        .args(["--dir", &dir, "--disk", &dir, "--json", &json])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The second part is begun when the first is finished; those behind it take minutes.
    // It is read to its end: who writes to nobody would fail.
    let mut said = BufReader::new(running.stderr.take().expect("standard error")).lines();
    let mut begun = said.by_ref().map_while(Result::ok).filter(|line| line.contains(" s: ntdb: "));
    assert!(begun.next().is_some() && begun.next().is_some());
    let id = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    said.for_each(drop);
    let output = running.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(folder.names(), ["out.json"], "the measured stores are removed");
    let (report, words) = told(&json, &output.stdout);
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["failures"].as_array().map(Vec::len), Some(0), "{report}");
    assert_eq!(report["documents"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(samples(&report, "Times", "    100", 0).len(), 1);
    for says in ["this is not all", "stopped by a signal", "=== ntdb"] {
        assert!(words.contains(says), "{says}: {words}");
    }
    assert!(!words.contains("=== bayes"), "{words}");
}

#[test]
fn what_is_finished_is_told_before_an_error() {
    if !has_disk() {
        println!("skipped: {} is in memory", std::env::temp_dir().display());
        return;
    }
    let folder = Folder::new();
    let on_disk = Folder::new();
    let (dir, json, disk) = (folder.path(""), folder.path("out.json"), deep(&on_disk));
    let args = ["--quiet", "reproduce", "mcdb", "--rounds", "1", "--dir", &dir, "--disk", &disk];
    let got = run(&[&args[..], &SMALL, &["--json", &json]].concat()).expect(111);
    assert!(got.err.contains("name too long"), "{}", got.err);
    assert_eq!(folder.names(), ["out.json"], "the measured stores are removed");
    let (report, words) = told(&json, &got.out);
    assert_eq!(report["interrupted"], false);
    assert_eq!(samples(&report, "in memory", "constant", 2).len(), 1);
    for says in ["this is not all", "ended by an error"] {
        assert!(words.contains(says), "{says}: {words}");
    }
}

/// A folder in which a folder of the run can be made, and nothing in that: its path is then as long as the
/// system takes them.
fn deep(folder: &Folder) -> String {
    const LONGEST: usize = 4095;
    let wanted = LONGEST - "/credenza-bench-XXXXXX".len();
    let mut path = folder.path("d");
    while path.len() < wanted - 200 {
        path = format!("{path}/{}", "d".repeat(99));
    }
    path = format!("{path}/{}", "d".repeat(wanted - path.len() - 1));
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is() {
    for (args, says) in [
        (&["bayes", "--stores", "sparkey"][..], "'sparkey' is in no document that is asked for"),
        (&["bayes", "--stores", "constant,mcdb"], "'mcdb' is in no document"),
        (&["bayes", "--lib", "mcbd=/lib/libmcdb.so"], "there is no store 'mcbd'"),
        (&["bayes", "--lib", "hash=/lib/libhash.so"], "'hash' is built in"),
        (&["all", "--stores", "sparkey"], "'sparkey' is in no document"),
        (&["ntdb", "mcdb", "--disk", "/nowhere"], "/nowhere: --disk: there is no such folder"),
    ] {
        let got = run(&[&["reproduce"][..], args].concat()).expect(111);
        assert!(got.err.contains(says) && got.out.is_empty(), "{args:?}: {}", got.err);
    }
}

#[test]
fn a_folder_in_memory_is_no_disk_and_refused_before_anything_is_measured() {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() || is_on_disk(memory) {
        println!("skipped: {} is not in memory", memory.display());
        return;
    }
    let args = ["reproduce", "mcdb", "--rounds", "1", "--disk", "/dev/shm"];
    let got = run(&[&args[..], &SMALL].concat()).expect(111);
    assert!(got.out.is_empty() && got.err.lines().count() == 1, "{}", got.err);
    assert!(got.err.contains("/dev/shm: this folder is in memory (tmpfs)"), "{}", got.err);
    assert!(got.err.contains("--disk") && !got.err.contains("--dir"), "{}", got.err);
}

#[test]
fn libraries_that_a_document_does_not_use_may_be_named_all_the_same() {
    let folder = Folder::new();
    let (dir, more) = (folder.path(""), "mcdb=/nowhere/libmcdb.so");
    let args =
        ["--quiet", "reproduce", "ntdb", "--rounds", "1", "--scale", "0.0001", "--dir", &dir];
    let libraries = ["--lib", more, "--lib", "tdb2=/nowhere/libtdb2.so", "--stores", "hash"];
    let text = run(&[&args[..], &libraries].concat()).expect(0).text();
    assert!(text.contains("Note: --lib names what nothing here uses: mcdb, tdb2"), "{text}");
    // What is used is missed, whoever named it.
    let mut named = credenza(&args);
    named.env("CREDENZA_LIB_MCDB", "/nowhere/libmcdb.so");
    named.env("CREDENZA_LIB_TDB2", "/nowhere/libtdb2.so");
    let output = named.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(111), "{text}");
    assert!(text.contains("Failed: tdb2 (missing)") && !text.contains("mcdb"), "{text}");
}

/// Whether the folder of the tests is on a disk, so that something in it can be cold.
fn has_disk() -> bool {
    is_on_disk(&std::env::temp_dir())
}

fn is_on_disk(folder: &Path) -> bool {
    let output = Command::new("stat").args(["-f", "-c", "%T"]).arg(folder).output();
    output.is_ok_and(|output| output.status.success() && !output.stdout.starts_with(b"tmpfs"))
}
