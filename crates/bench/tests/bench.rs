//! Danger: the workbench as its users run it, from the command line to the files it writes. Every
//! store that is found on the machine takes part; our own one always is.

mod common;

use common::{bench, json, json_report, text};
use credenza_bench::result::{CONTRACT, Report};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const PHASES: [&str; 15] = [
    "build",
    "get-hit",
    "get-90",
    "get-miss",
    "get-many-hit",
    "get-many-miss",
    "get-chain",
    "scan",
    "range",
    "insert",
    "insert-random",
    "insert-each",
    "reinsert",
    "remove",
    "mixed",
];
/// The last of these change a store, which not every one can.
const CHANGING: [&str; 6] =
    ["insert", "insert-random", "insert-each", "reinsert", "remove", "mixed"];

/// The stores with a call of their own for many lookups at once that is used, as it takes no longer than as
/// many single ones.
const HAVE_BATCHES: [&str; 7] =
    ["constant", "hash", "btree", "upscaledb", "sqlite", "rocksdb", "kyotocabinet"];

/// The lines of a table that are about no kind of operation and no stretch of time, behind that of names.
fn lines_of_figures(csv: &str) -> usize {
    let names: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let place = |wanted| names.iter().position(|name| *name == wanted).unwrap();
    let special = ["operation", "to_seconds"].map(place);
    let is_plain = |line: &&str| special.map(|i| line.split(',').nth(i)) == [Some(""); 2];
    csv.lines().filter(is_plain).count()
}

#[test]
fn every_store_found_is_measured_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, out) = (folder.path().join("stores"), folder.path().join("out.json"));
    let page = folder.path().join("out.html");
    let table = folder.path().join("out.csv");
    std::fs::create_dir(&dir).unwrap();
    let done = bench(&[
        "--workload=tokens",
        "--records=2000",
        "--gets=1000",
        "--rounds=2",
        "--seed=5",
        &format!("--dir={}", dir.display()),
        &format!("--json={}", out.display()),
        &format!("--html={}", page.display()),
        &format!("--csv={}", table.display()),
    ]);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "files were left behind");
    assert!(std::fs::read_to_string(&page).unwrap().contains("constant"));
    assert!(text(&done.stdout).contains("constant"));

    let report: Report = serde_json::from_value(json(&out)).unwrap();
    assert!(report.failures.is_empty());
    let table = std::fs::read_to_string(&table).unwrap();
    assert_eq!(lines_of_figures(&table), report.results.len());
    // The other lines, but for that of names, are of kinds of operations and of runs over their time.
    let singly: usize = report.results.iter().map(|result| result.operation_latency_ns.len()).sum();
    let over_time = report.results.iter().filter_map(|result| result.over_time.as_ref());
    let kinds = over_time.flat_map(|run| run.operations.values().chain([&run.all]));
    let stretches: usize = kinds.map(|slots| slots.ops.len()).sum();
    assert_eq!(table.lines().count(), 1 + report.results.len() + singly + stretches);
    assert!(stretches > 0 && singly > 0);
    for store in &report.stores {
        let measured = report.results.iter().filter(|result| result.store == store.store);
        let mut all: Vec<&str> = measured.map(|result| &*result.phase).collect();
        // What is measured only where it is asked for may be lacking, too.
        let lacks = store.lacks.iter().filter(|phase| PHASES.contains(&phase.as_str()));
        all.extend(lacks.clone().map(String::as_str));
        all.sort_unstable();
        let mut phases = PHASES;
        phases.sort_unstable();
        assert_eq!(all, phases, "{store:?}");
        let is_changed = !store.lacks.iter().any(|phase| phase == "insert");
        assert_eq!(store.changes_class.is_some(), is_changed, "{store:?}");
        let told = |phase: &&String| {
            report.notes.iter().any(|note| {
                let phases =
                    note.split_once(" leaves out ").or_else(|| note.split_once(" leave out "));
                phases.is_some_and(|(phases, stores)| {
                    phases.contains(&format!("'{phase}'")) && stores.contains(&store.store)
                })
            })
        };
        assert!(lacks.clone().all(|phase| told(&phase)), "{store:?}");
    }
    assert!(report.stores.iter().any(|store| store.store == "constant"));
    for store in &report.stores {
        assert!(!store.version.is_empty() && !store.tuning.is_empty(), "{store:?}");
        println!("measured: {} {}", store.store, store.version);
    }
    for result in &report.results {
        let info = report.stores.iter().find(|store| store.store == result.store).unwrap();
        assert!(result.verified && result.rounds == 2, "{result:?}");
        let has_own = HAVE_BATCHES.contains(&&*result.store);
        let is_native = match &*result.phase {
            "remove" | "mixed" => !["leveldb", "rocksdb"].contains(&&*result.store),
            phase => has_own || !phase.starts_with("get-many"),
        };
        assert_eq!(result.native, is_native, "{result:?}");
        let is_changing = CHANGING.contains(&result.phase.as_str());
        assert_eq!(result.effort.closing_ns > 0, is_changing, "{result:?}");
        let class = match &*result.phase {
            "insert-each" => Some("buffered"),
            _ if is_changing => info.changes_class.as_deref(),
            _ => Some(&*info.class),
        };
        assert_eq!(Some(&*result.class), class, "{result:?}");
        assert_eq!(result.repeats > 1, is_changing, "{result:?}");
    }
    check_contract(&json(&out));
}

/// What programs outside this repository rely on, checked without our own types.
fn check_contract(report: &Value) {
    assert_eq!(report["credenza_bench"], CONTRACT);
    assert!(report["machine"].is_object());
    assert_eq!(report["settings"]["seed"], 5);
    for result in report["results"].as_array().unwrap() {
        let phase = result["phase"].as_str().unwrap();
        assert!(PHASES.contains(&phase), "{result}");
        let classes = if CHANGING.contains(&phase) { "buffered at-close" } else { "buffered" };
        assert!(classes.split(' ').any(|class| result["class"] == class), "{result}");
        assert_eq!(result["rounds"], 2);
        assert_eq!(result["verified"], true);
        let is_get = phase.starts_with("get");
        let ops = match phase {
            "mixed" => 1000,
            "reinsert" => 6000,
            "range" => 10,
            _ if is_get => 1000,
            _ => 2000,
        };
        assert_eq!(result["ops"], ops, "{result}");
        let hit_rate = match phase {
            // Most keys are there all the time, and some are removed.
            "mixed" => result["hit_rate"].as_f64().filter(|rate| (0.9..1.0).contains(rate)),
            "get-miss" | "get-many-miss" => Some(0.0),
            "get-90" => Some(0.9),
            _ => is_get.then_some(1.0),
        };
        assert_eq!(result["hit_rate"].as_f64(), hit_rate, "{result}");
        let time = &result["ns_per_op"];
        assert_eq!(time["samples"].as_array().unwrap().len(), 2);
        let [low, median, high] = ["low", "median", "high"].map(|n| time[n].as_f64().unwrap());
        assert!(0.0 < low && low <= median && median <= high, "{result}");
        let is_change = phase.contains("insert") || phase == "remove";
        let has_latency = is_change || phase == "range" || is_get && phase != "get-chain";
        assert_eq!(result["latency_ns"].is_object(), has_latency, "{result}");
        if has_latency {
            let names = ["p50", "p90", "p99", "p999", "max"];
            let values = names.map(|name| result["latency_ns"][name].as_u64().unwrap());
            assert!(values.is_sorted(), "{result}");
        }
        let kinds = result["operation_latency_ns"].as_object().unwrap();
        assert_eq!(kinds.is_empty(), phase != "mixed", "{result}");
        for (kind, latency) in kinds {
            assert!(["get", "remove", "update"].contains(&&**kind), "{result}");
            assert!(latency["p50"].as_u64() <= latency["p99"].as_u64(), "{result}");
        }
        assert!(result["file_bytes"].as_u64().unwrap() > 0, "{result}");
        assert!(result["peak_rss_bytes"].is_u64(), "{result}");
    }
}

#[test]
fn the_list_names_every_store() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("list.json");
    let done = bench(&["--list"]);
    let json_done = bench(&["--list", &format!("--json={}", out.display())]);
    assert!(done.status.success() && json_done.status.success());
    let list = json(&out);
    let names = "constant hash btree cdb mcdb tokyocabinet-hash bdb-hash mdbm tdb ntdb tdb2 lmdb mdbx \
                 bdb-btree tokyocabinet-btree tkrzw-tree redb upscaledb sqlite leveldb rocksdb \
                 kyotocabinet tkrzw gdbm sparkey resp";
    for name in names.split(' ') {
        assert!(text(&done.stdout).contains(name));
        let of_name = list.as_array().unwrap().iter().find(|entry| entry["store"] == name);
        let entry = of_name.unwrap_or_else(|| panic!("{name} is not in the list"));
        let found = entry["found"].as_bool().unwrap();
        assert!(found || !entry["missing"].as_str().unwrap().is_empty(), "{entry}");
    }
}

#[test]
fn a_store_that_is_missing_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let done = bench(&[
        "--stores=cdb,constant",
        "--lib=cdb=/nowhere/libcdb.so",
        "--records=100",
        "--gets=100",
        "--rounds=1",
        "--phases=get-hit",
        &format!("--dir={}", folder.path().display()),
        &format!("--json={}", out.display()),
    ]);
    assert_eq!(done.status.code(), Some(111));
    assert!(text(&done.stderr).contains("/nowhere/libcdb.so"), "{}", text(&done.stderr));
    let report = json(&out);
    assert_eq!(report["failures"][0]["status"], "missing");
    assert_eq!(report["results"][0]["store"], "constant");
    assert_eq!(report["results"][0]["verified"], true);
}

#[test]
fn ycsb_runs_by_name_and_says_which_stores_cannot_scan() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let run = |workload: &str, more: &[&str]| {
        let mut args = vec!["--stores=hash,btree,constant", "--records=200", "--gets=5000"];
        let (dir, json) = (folder.path().display(), out.display());
        let paths = [format!("--dir={dir}"), format!("--json={json}")];
        let workload = format!("--workload={workload}");
        args.extend(["--rounds=1", &workload, &paths[0], &paths[1]].iter().chain(more));
        let done = bench(&args);
        assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
        json_report(&out)
    };
    for letter in ["a", "d", "e", "f"] {
        let report = run(&format!("ycsb-{letter}"), &[]);
        let of_phase = |phase: &str| {
            let results = report.results.iter().filter(|result| result.phase == phase);
            results.map(|result| result.store.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of_phase("build").len(), 3);
        let can: &[&str] = if letter == "e" { &["btree"] } else { &["hash", "btree"] };
        assert_eq!(of_phase("mixed"), can, "ycsb-{letter}");
        let told = |start: &str| report.notes.iter().any(|note| note.starts_with(start));
        let is_in_no_order = told("'mixed' leaves out hash: it scans ranges, and their records");
        assert_eq!(is_in_no_order, letter == "e", "{:?}", report.notes);
        assert!(told("'mixed' leaves out constant: they are built once"), "{:?}", report.notes);
        assert_eq!(report.settings.workload, format!("ycsb-{letter}"));
    }
    let report = run("ycsb-a", &["--distribution=hotspot:keys=0.1", "--phases=mixed"]);
    assert_eq!(report.settings.mix, "get 50, update 50, keys hotspot:keys=0.1,operations=0.8");
}

#[test]
fn transactions_are_for_stores_that_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let (out, file) = (folder.path().join("out.json"), folder.path().join("mine.toml"));
    let mix = "data = \"random\"\nvalue-size = \"1..50\"\nphases = [\"mixed\"]\n[mix]\nget = 1\n\
               update = 1\ntransactions = 50\n";
    std::fs::write(&file, mix).unwrap();
    let [workload, dir, json] = [("workload", &*file), ("dir", folder.path()), ("json", &*out)]
        .map(|(option, path)| format!("--{option}={}", path.display()));
    let usual = ["--stores=constant,hash,btree,redb", "--records=300", "--gets=5000", "--rounds=1"];
    for (transactions, seconds) in [("50", None), ("tmp", Some("--stop-seconds=1"))] {
        let transactions = format!("--transactions={transactions}");
        let mut args = vec![&*workload, &*dir, &*json, &*transactions];
        args.extend(usual.iter().chain(&seconds));
        let done = bench(&args);
        assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
        let report = json_report(&out);
        let stores: Vec<&str> = report.results.iter().map(|result| &*result.store).collect();
        assert_eq!(stores, ["hash", "btree", "redb"]);
        assert!(report.results.iter().all(|result| result.class == "buffered"));
        assert!(report.results.iter().all(|result| (1..=5000).contains(&result.ops)));
        let left_out = "'mixed' leaves out constant: they are built once";
        assert!(report.notes.iter().any(|note| note.starts_with(left_out)), "{:?}", report.notes);
    }
}

#[test]
fn a_library_that_dies_is_named_by_the_oracle_and_the_others_go_on() {
    if text(&bench(&["--list"]).stdout)
        .lines()
        .any(|l| l.starts_with("lmdb") && l.contains("not found"))
    {
        println!("skipped: there is no LMDB");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The kernel kills who makes a file larger than the limit, as LMDB does when it opens one.
    let script = format!(
        "ulimit -c 0; ulimit -f 20000; exec {} --oracle --stores=hash,lmdb,btree --records=200 \
         --gets=300 --dir={}",
        env!("CARGO_BIN_EXE_credenza-bench"),
        folder.path().display()
    );
    let done = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = text(&done.stdout);
    assert_eq!(done.status.code(), Some(111), "{said}{}", text(&done.stderr));
    assert!(said.contains("DIED at operation 0, opening, key '': lmdb: it was ended by"), "{said}");
    assert!(said.contains("hash, btree agree: 300 operations"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_oracle_compares_every_store_found() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let run = |args: &[&str]| {
        let paths = [folder.path(), &out].map(|path| path.display().to_string());
        let usual = ["--oracle".to_owned(), format!("--dir={}", paths[0])];
        let all: Vec<&str> = usual.iter().map(String::as_str).chain(args.iter().copied()).collect();
        bench(&all)
    };
    let json_to = format!("--json={}", out.display());
    let usual = ["--records=500", "--gets=1500", "--check-every=350", "--seed=3"];
    let done = run(&[&usual[..], &["--workload=ycsb-e", &json_to]].concat());
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    assert!(said.contains("agree: 1,500 operations") && said.contains("seed 3"), "{said}");
    assert!(said.contains("'mixed' leaves out") && said.contains("hash"), "{said}");
    let verdict = json(&out);
    assert_eq!(verdict["operations"], 1500);
    assert_eq!(verdict["full_checks"], 7);
    assert_eq!(verdict["difference"], Value::Null);
    let stores = verdict["stores"].as_array().unwrap();
    assert!(stores.iter().any(|store| store == "btree"), "{verdict}");

    let done = run(&[&usual[..], &["--workload=tokens"]].concat());
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    let one = run(&["--stores=hash,btree", "--workload=ycsb-e", "--records=10", "--gets=10"]);
    assert_eq!(one.status.code(), Some(111));
    assert!(text(&one.stderr).contains("compares two stores at least"), "{}", text(&one.stderr));
    assert_eq!(run(&["--rounds=3"]).status.code(), Some(2));
}

#[test]
fn what_cannot_be_measured_is_refused_in_a_sentence() {
    // These are the argument parser's to refuse.
    for option in ["--rounds=0", "--timeout=0", "--timeout=18446744073709551615"] {
        let done = bench(&[option]);
        assert_eq!(done.status.code(), Some(2), "{option}");
        assert!(text(&done.stderr).contains(&option[..8]), "{}", text(&done.stderr));
    }
    for option in
        ["--processes=2,0", "--processes=257", "--threads=0", "--threads=3..2", "--threads=1..257"]
    {
        let done = bench(&[option]);
        assert_eq!(done.status.code(), Some(2), "{option}");
        let said = text(&done.stderr);
        assert!(said.contains(&option[..9]) && said.contains("numbers from 1 to 256"), "{said}");
    }
    let cases: [(&[&str], &str); 31] = [
        (&["--stores=nothing"], "there is no store 'nothing'"),
        (&["--workload=nothing"], "there is no workload 'nothing'"),
        (&["--records=0"], "--records"),
        (&["--records=5e9"], "--records takes 4294967294 at most"),
        (&["--gets=5e9"], "--gets takes 4294967294 at most"),
        (&["--batch=0"], "--batch"),
        (&["--root=/etc"], "--root"),
        (&["--transactions=0"], "transactions are 'tmp'"),
        (&["--transactions=9", "--phases=get-hit"], "are for the phase 'mixed'"),
        (&["--workload=ycsb-c", "--stop-bytes=5"], "the mix stores nothing"),
        (&["--oracle", "--check-every=0"], "--check-every must be at least 1"),
        (&["--distribution=zipf"], "there is no distribution 'zipf'; there are uniform, zipfian"),
        (&["--processes=2", "--phases=scan,insert"], "--with-writer are for the get phases"),
        (&["--threads=2", "--phases=scan"], "for mixed and insert-sync, too: there is nothing"),
        (&["--threads=2", "--with-writer", "--phases=insert-sync"], "are for the get phases"),
        (&["--with-writer"], "--with-writer is for readers"),
        (&["--reopen", "--phases=get-hit"], "are for the phase 'mixed'"),
        (&["--sync", "--phases=get-hit,insert"], "--sync is for build"),
        (&["--sync", "--workload=ycsb-c", "--phases=mixed"], "for mixes that change something"),
        (&["--distribution=latest", "--phases=insert"], "which keys mixes, and lookups"),
        (&["--distribution=latest", "--phases=get-miss,get-many-miss"], "which keys mixes, and"),
        (&["--batch=8", "--phases=build,get-hit"], "--batch is for get-many-hit and"),
        (&["--gets=8", "--phases=build,insert"], "--gets is for the get phases, range and mixed"),
        (&["--rate=0"], "--rate takes operations a second"),
        (&["--rate=nan"], "--rate takes operations a second"),
        (&["--rate=5", "--rate-seconds=0"], "--rate-seconds takes seconds"),
        (&["--rate=5", "--phases=scan"], "--rate is for get-hit"),
        (&["--oracle", "--records=5,6"], "--oracle takes one number of --records"),
        (&["--cold", "--phases=insert"], "--cold is for what reads, and for mixed"),
        (&["--memory-limit=1M"], "--memory-limit takes 4M at least"),
        (&["--data=/nowhere/data.tsv"], "/nowhere/data.tsv"),
    ];
    for (args, what) in cases {
        let done = bench(args);
        assert_eq!(done.status.code(), Some(111), "{args:?}");
        assert!(text(&done.stderr).contains(what), "{}", text(&done.stderr));
    }
}

/// A run that never ends by itself, of which the first round of `constant` has begun.
fn endless(dir: &Path, json: &Path) -> std::process::Child {
    let mut running = Command::new(env!("CARGO_BIN_EXE_credenza-bench"))
        .args(["--stores=constant", "--workload=ups", "--records=2000", "--rounds=1000000"])
        .arg("--phases=build,get-hit")
        .arg(format!("--dir={}", dir.display()))
        .arg(format!("--json={}", json.display()))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let store = || {
        let run = std::fs::read_dir(dir).ok()?.flatten().next()?;
        Some(run.path().join("constant").exists())
    };
    while store() != Some(true) {
        assert!(running.try_wait().unwrap().is_none(), "the run ended");
        std::thread::yield_now();
    }
    running
}

fn send(signal: &str, process: &std::process::Child) {
    let id = process.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
}

#[test]
fn an_interrupt_reports_what_is_finished_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, out) = (folder.path().join("stores"), folder.path().join("out.json"));
    for signal in ["-INT", "-TERM"] {
        std::fs::create_dir(&dir).unwrap();
        let running = endless(&dir, &out);
        send(signal, &running);
        let done = running.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(130));
        let said = text(&done.stdout);
        assert!(said.contains("stopped by a signal"), "{said}");
        let report: Report = serde_json::from_value(json(&out)).unwrap();
        assert!(report.interrupted && report.failures.is_empty(), "{:?}", report.failures);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::remove_dir(&dir).unwrap();
    }
}

/// A run of some stores, none of which is a rival, and its report.
fn small(args: &[&str]) -> (String, Report) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let paths = [format!("--dir={}", folder.path().display()), format!("--json={}", out.display())];
    let usual = ["--records=200", "--gets=100", &paths[0], &paths[1]];
    let done = bench(&[&usual, args].concat());
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    (text(&done.stdout), json_report(&out))
}

/// Danger: chance passes for a difference, as nobody has looked how far a store is from itself.
#[test]
fn noise_and_the_workbench_itself_are_measured() {
    let stores = "--stores=constant,hash,btree";
    let (said, report) = small(&[stores, "--phases=build,get-many-hit,range,remove"]);
    // Each by the first store that can do it; a range is what one of these does alone.
    assert!(said.contains("Noise, constant against itself in the same rounds: build ["), "{said}");
    assert!(said.contains("subtracted nowhere"), "{said}");
    let noise = report.noise.as_ref().unwrap();
    let phases: Vec<_> = noise.phases.iter().map(|p| (&*p.phase, &*p.store)).collect();
    assert_eq!(phases, [("build", "constant"), ("get-many-hit", "constant"), ("remove", "hash")]);
    for phase in &noise.phases {
        assert!(phase.low <= phase.median && phase.median <= phase.high, "{phase:?}");
        let floor = phase.high.max(1.0 / phase.low);
        assert!((phase.floor / floor - 1.0).abs() < 1e-9, "{phase:?}");
        assert!(report.noise_floor(&phase.phase) >= 1.0);
    }
    let costs: Vec<_> =
        report.workbench.iter().map(|cost| (&*cost.phase, cost.records_per_op)).collect();
    let of_phases =
        [("build", None), ("get-many-hit", None), ("range", Some(100.0)), ("remove", None)];
    assert_eq!(costs, of_phases);
    assert!(report.workbench.iter().all(|cost| cost.ns_per_op > 0.0));
    let range = &report.workbench[2];
    assert_eq!(range.ns_per_record, Some(range.ns_per_op / 100.0));
    assert!(said.contains(" a record, of 100 in an operation)"), "{said}");
    // Neither is a store of the report, and no store is there twice.
    let mut names: Vec<&str> = report.results.iter().map(|r| &*r.store).collect();
    names.sort_unstable();
    let times = [("btree", 4), ("constant", 2), ("hash", 3)];
    assert_eq!(names, times.map(|(name, count)| vec![name; count]).concat());
}

#[test]
fn no_store_is_measured_against_itself_where_that_says_nothing() {
    let two = "--stores=hash,constant";
    for (args, says) in [
        (&[two, "--no-noise"][..], true),
        (&[two, "--rounds=4"], true),
        (&["--stores=hash"], false),
    ] {
        let (said, report) = small(&[args, &["--phases=get-hit"]].concat());
        assert!(report.noise.is_none(), "{args:?}");
        assert_eq!(said.contains("No noise floor was measured"), says, "{said}");
    }
}

/// A run in a folder that should be on a disk, and its report if there is one.
fn on_disk(args: &[&str]) -> (Output, Option<Report>) {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = folder.path().join("out.json");
    let dir = format!("--dir={}", folder.path().display());
    let json = format!("--json={}", out.display());
    let usual = ["--stores=hash,btree", "--records=20000", "--rounds=1", &*dir, &*json];
    let done = bench(&[&usual, args].concat());
    (done, out.exists().then(|| json_report(&out)))
}

#[test]
fn a_cold_mix_reads_from_the_disk() {
    let (done, report) = on_disk(&["--cold", "--cold-gets=200", "--phases=get-hit,mixed"]);
    let report = report.unwrap();
    // Nothing of that which does nothing is on a disk.
    let costs: Vec<&str> = report.workbench.iter().map(|cost| &*cost.phase).collect();
    assert_eq!(costs, ["get-hit", "mixed"]);
    // Both are alike.
    assert!(!report.notes.iter().any(|note| note.contains("announce")), "{:?}", report.notes);
    if report.failures.iter().any(|failure| failure.what.contains("cannot be measured")) {
        println!("skipped: /var/tmp is in memory");
        return;
    }
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    let mixed = report.results.iter().filter(|result| result.phase == "mixed");
    assert_eq!(mixed.clone().filter(|result| result.verified && result.repeats == 1).count(), 2);
    // With the first page that opening a store reads the kernel may read all of so small a file.
    assert!(mixed.clone().any(|result| result.effort.disk_read_bytes > 0), "{:?}", report.results);
    assert!(report.settings.mix.contains("opened again"), "{}", report.settings.mix);
}

#[test]
fn memory_is_limited_or_the_run_is_refused() {
    let (done, report) = on_disk(&["--memory-limit=96M", "--gets=500", "--phases=build,get-hit"]);
    let Some(report) = report else {
        let said = text(&done.stderr);
        assert!(said.contains("may not limit the memory") && said.contains("Run it"), "{said}");
        println!("skipped: {said}");
        return;
    };
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    assert_eq!(report.settings.memory_limit, Some(96 << 20));
    assert!(report.results.len() == 4 && report.results.iter().all(|result| result.verified));
}

/// All who are at a store share its limit, and none of them has the workbench's data in it.
#[test]
fn the_memory_of_several_is_limited_together() {
    let (done, report) = on_disk(&[
        "--memory-limit=96M",
        "--gets=500",
        "--phases=get-hit,mixed",
        "--processes=2",
        "--threads=2",
        "--with-writer",
    ]);
    let Some(report) = report else {
        return println!("skipped: {}", text(&done.stderr));
    };
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    let together = &report.together;
    // Of two stores lookups by processes and threads, with a writer and without, and a mix by either; each
    // by one, too, which two are compared with.
    assert_eq!(together.len(), 2 * (2 * 2 + 2) * 2, "{together:?}");
    assert!(together.iter().all(|of| of.verified), "{together:?}");
}

/// Rivals have other locks beside a writer than alone: each that is found is read by two processes, or
/// two threads, and changed by one more.
#[test]
fn operations_at_a_rate_and_a_series_of_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, out) = (folder.path().join("stores"), folder.path().join("out.json"));
    let csv = folder.path().join("out.csv");
    std::fs::create_dir(&dir).unwrap();
    let done = bench(&[
        "--stores=hash,btree,constant",
        "--records=2e2,100",
        "--gets=300",
        "--rounds=2",
        "--phases=build,get-hit,get-many-hit,range,mixed",
        "--rate=1e5",
        "--arrivals=even",
        "--rate-seconds=0.001",
        &format!("--dir={}", dir.display()),
        &format!("--json={}", out.display()),
        &format!("--csv={}", csv.display()),
    ]);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.contains("At 100,000 operations a second, at equal distances"), "{said}");
    assert!(said.contains("Growth with the number of records"), "{said}");
    let report = json_report(&out);
    assert_eq!((report.settings.records, report.settings.rate), (200, Some(1e5)));
    let growth: Vec<_> = report.growth.iter().map(|run| (run.records, run.results.len())).collect();
    // Hash and constant have no order, and constant does not change.
    let figures = 3 * 3 + 1 + 2;
    assert_eq!(growth, [(100, figures), (200, figures)]);
    for r in report.growth.iter().flat_map(|run| &run.results).chain(&report.results) {
        assert_eq!(r.at_rate.is_some(), r.phase != "build", "{} {}", r.store, r.phase);
        let Some(at) = &r.at_rate else { continue };
        // A hundred operations in a thousandth of a second, in each of two rounds: as many batches of 32 as
        // have them, and no more ranges than there are for 300 lookups.
        let ops = match &*r.phase {
            "get-many-hit" => 2 * 4 * 32,
            "range" => 2 * 3,
            _ => 200,
        };
        assert_eq!((at.ops, at.reached.samples.len(), &*at.arrivals), (ops, 2, "even"), "{r:?}");
        assert!(at.verified && at.per_second == 1e5 && at.reached.median > 0.0, "{at:?}");
        assert!(at.latency_ns.p50 <= at.latency_ns.p9999 && at.latency_ns.curve.len() > 10);
        assert_eq!(at.operation_latency_ns.len(), if r.phase == "mixed" { 3 } else { 0 });
    }
    // The largest alone is shown over time.
    let over_time = report.results.iter().filter(|r| r.at_rate.is_some());
    assert!(over_time.flat_map(|r| &r.at_rate).all(|at| at.over_time.is_some()));
    let csv = std::fs::read_to_string(&csv).unwrap();
    assert_eq!(lines_of_figures(&csv), 2 * figures);
}

#[test]
fn a_mix_may_begin_with_a_store_that_was_closed_and_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, out) = (folder.path().join("stores"), folder.path().join("out.json"));
    std::fs::create_dir(&dir).unwrap();
    for transactions in [&["--transactions=tmp"][..], &[]] {
        let paths = [format!("--dir={}", dir.display()), format!("--json={}", out.display())];
        let usual = ["--stores=constant,hash,btree,redb", "--records=200", "--gets=500"];
        let rest = ["--rounds=1", "--phases=mixed", "--reopen", &paths[0], &paths[1]];
        let done = bench(&[&usual[..], &rest, transactions].concat());
        assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
        let report = json_report(&out);
        let stores: Vec<&str> = report.results.iter().map(|r| &*r.store).collect();
        assert_eq!(stores, ["hash", "btree", "redb"]);
        assert!(report.settings.mix.contains("closed and opened again"), "{}", report.settings.mix);
        let told = |note: &String| note.starts_with("'mixed' leaves out constant");
        assert!(report.notes.iter().any(told), "{:?}", report.notes);
    }
}

/// Whoever reads the table may be gone when a long run is over.
#[test]
fn the_files_are_written_where_the_table_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let [json, csv, page] =
        ["out.json", "out.csv", "out.html"].map(|name| folder.path().join(name));
    let status = Command::new(env!("CARGO_BIN_EXE_credenza-bench"))
        .args(["--stores=hash", "--records=100", "--rounds=1", "--phases=scan"])
        .args([&"--json".into(), &json, &"--csv".into(), &csv, &"--html".into(), &page])
        .stdout(std::fs::File::create("/dev/full").unwrap())
        .status()
        .unwrap();
    assert!(!status.success());
    assert_eq!(json_report(&json).results.len(), 1);
    assert!(csv.exists() && page.exists());
}
