//! Danger: a recording or a replay that says other things than what was done, or that fails without a
//! word that helps.

mod common;
use common::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Records what a shell does with a btree store of this folder, and gives the path of the trace.
fn recorded(folder: &Folder, more: &[&str]) -> String {
    let (store, trace) = (folder.path("users"), folder.path("day.trace"));
    run(&["create", "--engine", "btree", &store]).expect(0);
    run(&["put", &store, "old", "was there"]).expect(0);
    let program = program().to_str().expect("a path that is text").to_owned();
    let script = format!(
        "p='{program}'; s='{store}'; $p put $s bob 1001; $p get $s bob; $p get $s old; \
         $p get $s nobody; $p delete $s bob; $p get $s bob; $p scan $s; exit 7"
    );
    let arguments = [&["record", &trace][..], more, &["--", "sh", "-c", &script]].concat();
    let got = run(&arguments).expect(7);
    assert!(got.err.contains("recorded 11 operations in"), "{}", got.err);
    assert!(got.text().starts_with("1001was there"), "{}", got.text());
    trace
}

#[test]
fn what_is_replayed_is_what_was_recorded() {
    for more in [&[][..], &["--keys", "hashed"]] {
        let folder = Folder::new();
        let trace = recorded(&folder, more);
        let found = parsed(run(&["stat", &trace, "--json"]));
        assert_eq!((found["entries"].as_u64(), found["keys"].as_u64()), (Some(11), Some(3)));
        assert_eq!(found["store"], trace.as_str());
        assert_eq!(found["keys_are_hashed"].as_bool(), Some(!more.is_empty()));
        assert_eq!(found["hit_rate"].as_f64(), Some(0.5));
        assert_eq!(found["stores"][0]["opened"].as_u64(), Some(7));
        assert_eq!(found["operations"]["remove"]["hits"].as_u64(), Some(1));
        let text = run(&["stat", &trace]).expect(0).text();
        assert!(
            text.contains("hit rate     50.0 % of lookups") && text.contains("users"),
            "{text}"
        );
        let json = folder.path("out.json");
        for speed in ["full", "original", "1000"] {
            let stores = ["--stores", "hash,btree", "--speed", speed, "--json", &json];
            let got = run(&[&["replay", &trace][..], &stores].concat()).expect(0).text();
            assert!(got.contains("Stores begin with 1 record."), "{got}");
            for says in ["btree: 5 of 5 answers", "hash: 5 of 5 answers"] {
                assert!(got.contains(says), "{says}: {got}");
            }
            assert!(!got.contains("skipped"), "{got}");
            let text = std::fs::read_to_string(&json).expect("the results");
            let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(found["stores"][1]["store"], "btree");
            assert_eq!(found["stores"][1]["by_operation"]["get"]["count"].as_u64(), Some(4));
            // Transactions are done by both, with what begins and ends them.
            assert_eq!(found["stores"][0]["operations"].as_u64(), Some(11));
            assert_eq!(found["stores"][1]["lost"].as_u64(), Some(0));
            assert!(found["stores"][1]["latency"]["p999"].as_u64() > Some(0));
        }
    }
}

/// It was said to have had 999,999,999 a second.
#[test]
fn a_trace_of_one_operation_has_no_rate() {
    let folder = Folder::new();
    let (store, trace) = (folder.path("store"), folder.path("one.trace"));
    run(&["create", &store]).expect(0);
    run(&["record", &trace, "--", &program().to_string_lossy(), "put", &store, "a", "1"]).expect(0);
    let text = run(&["stat", &trace]).expect(0).text();
    let of = text.lines().find(|line| line.starts_with("entries"));
    assert_eq!(of, Some("entries      1"), "{text}");
}

/// The processes that are told of it in JSON could not be, and no error said of what.
#[test]
fn a_trace_may_have_any_name() {
    let folder = Folder::new();
    let trace = recorded(&folder, &[]);
    let mut name = std::ffi::OsString::from(folder.path("any"));
    name.push(std::ffi::OsStr::from_bytes(b"\xff"));
    std::fs::rename(&trace, &name).expect("renamed");
    for args in [&["replay", "--stores", "hash"][..], &["torture", "--stores", "hash", "--data"]] {
        let got = Command::new(program()).args(args).arg(&name).output().expect("it runs");
        let err = String::from_utf8_lossy(&got.stderr);
        assert_eq!(got.status.code(), Some(0), "{args:?}: {err}");
    }
}

#[test]
fn differences_are_counted_and_named() {
    let folder = Folder::new();
    let trace = recorded(&folder, &[]);
    let data = folder.file("data.tsv", "nobody\t1\nsomebody\t2\n");
    let got = run(&["replay", &trace, "--stores", "hash", "--data", &data]).expect(0).text();
    assert!(got.contains("Stores begin with 2 records."), "{got}");
    assert!(got.contains("hash: 3 of 5 answers are as recorded"), "{got}");
    let says =
        "1 key too few and 1 key too many, against the recording; the first: key 'old' was there";
    assert!(got.contains(says), "{got}");
}

#[test]
fn a_trace_of_lookups_is_replayed_on_stores_that_never_change() {
    let folder = Folder::new();
    let store = folder.store("constant", &plain_records(20));
    let trace = folder.path("trace");
    run(&["record", "-q", &trace, "--", program().to_str().unwrap(), "get", &store, "key7"])
        .expect(0);
    let got = run(&["replay", &trace, "--stores", "constant,hash"]).expect(0).text();
    assert!(got.contains("constant: 1 of 1 answers are as recorded"), "{got}");
    let version = env!("CARGO_PKG_VERSION");
    let set_up = format!("\nStores:\n  constant {version}: defaults");
    assert!(got.contains(&set_up), "{got}");
    let changes = recorded(&folder, &[]);
    let got = run(&["replay", &changes, "--stores", "constant,hash"]).expect(111);
    assert!(got.err.contains("constant: it is built once and never changed"), "{}", got.err);
    assert!(got.text().contains("hash: 5 of 5"), "{}", got.text());
    let set_up = format!("\nStores:\n  hash {version} (class buffered): ");
    assert!(got.text().contains(&set_up), "{}", got.text());
}

#[test]
fn a_replay_says_which_stores_it_leaves_out_that_nobody_named() {
    let (folder, libraries) = (Folder::new(), Folder::new());
    let changes = recorded(&folder, &[]);
    let out = with_damaged_lmdb(&mut credenza(&["replay", &changes]), &libraries).output();
    let out = out.expect("the program starts");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(0), "{text}");
    says_who_is_absent(&text);
    assert!(text.contains("constant, cdb are left out: they are built once"), "{text}");
}

#[test]
fn the_records_of_a_trace_are_data_for_bench() {
    let folder = Folder::new();
    let trace = recorded(&folder, &[]);
    let oracle = ["--oracle", "--stores", "hash,btree", "--gets", "50"];
    let got = run(&[&["bench", "--data", &trace][..], &oracle].concat()).expect(0).text();
    assert!(got.contains('2'), "{got}");
}

#[test]
fn a_command_ends_as_it_ends_and_a_file_that_is_there_stays() {
    let folder = Folder::new();
    let trace = folder.path("trace");
    let got = run(&["record", &trace, "--", "true"]).expect(0);
    assert!(got.err.contains("nothing was recorded"), "{}", got.err);
    run(&["record", &trace, "--", "sh", "-c", "kill -TERM $$"]).expect(128 + 15);
    // Who started it does not want to know of the ends of children, and so the kernel keeps none of them.
    let ended = Command::new("env")
        .arg("--ignore-signal=CHLD")
        .args([program().as_os_str(), "record".as_ref(), trace.as_ref(), "--".as_ref()])
        .args(["sh", "-c", "sleep 0.2; exit 3"])
        .stderr(Stdio::null())
        .status();
    assert_eq!(ended.expect("env").code(), Some(3));
    let got = run(&["record", &trace, "--", "/none/such"]).expect(111);
    assert!(got.err.contains("/none/such: cannot run"), "{}", got.err);
    run(&["record", &trace]).expect(111);
    let file = folder.file("mine", "text");
    let got = run(&["record", &file, "--", "true"]).expect(111);
    assert!(got.err.contains("is there already"), "{}", got.err);
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
}

/// Who sends a signal to this process, as a supervisor does, asks the command to end, and what was recorded is said.
#[test]
fn signals_are_for_the_command_that_is_recorded() {
    let folder = Folder::new();
    let store = folder.store("btree", &plain_records(1));
    let program = program().to_str().expect("a path that is text").to_owned();
    for (name, status) in [("-INT", 128 + 2), ("-TERM", 128 + 15), ("-HUP", 128 + 1)] {
        let trace = folder.path(name);
        // Who started the tests may have told them to ignore these, as a shell does for what it runs in the background.
        let mut running = Command::new("env")
            .args([
                "--default-signal=INT,TERM,HUP",
                &program,
                "record",
                &trace,
                "--",
                &program,
                "shell",
                &store,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = running.stdin.take().expect("its input");
        stdin.write_all(b"len\n").expect("the shell reads");
        let mut line = String::new();
        let mut stdout = BufReader::new(running.stdout.take().expect("its output"));
        stdout.read_line(&mut line).expect("a line");
        assert_eq!(line, "1\n");
        signal(&running, name);
        // A shell that does not get the signal waits for more.
        let ended = running.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(status), "{name}: {}", ended.status);
        let err = String::from_utf8_lossy(&ended.stderr);
        assert!(err.contains("recorded"), "{name}: {err}");
        drop(stdin);
    }
}

#[test]
fn a_trace_at_its_limit_says_so() {
    let folder = Folder::new();
    let (store, trace) = (folder.path("users"), folder.path("trace"));
    run(&["create", &store]).expect(0);
    let lines: String = (0..3000).map(|i| format!("get key{i}\n")).collect();
    let program = program().to_str().unwrap().to_owned();
    let command = ["record", &trace, "--limit", "1K", "--", &program, "shell", &store];
    let got = run_with(&command, lines.as_bytes());
    assert!(got.err.contains("the recording ended after"), "{}", got.err);
    let text = run(&["stat", &trace]).expect(0).text();
    assert!(text.contains("the trace had reached its limit in bytes"), "{text}");
    run(&["record", &folder.path("t"), "--limit", "much", "--", "true"]).expect(111);
}

#[test]
fn a_place_where_no_trace_can_be_is_found_out_before_the_command_runs() {
    let folder = Folder::new();
    let mark = folder.path("mark");
    let at = folder.path("trace");
    for (file, limit, says) in [
        ("/nonexist/x", "1G", "/nonexist/x: cannot open or create"),
        (&*at, "0", "is to have 0 at most"),
        (&at, "191", "a trace has 192 bytes before its first entry"),
    ] {
        let got = run(&["record", file, "--limit", limit, "--", "touch", &mark]).expect(111);
        assert!(got.err.contains(says), "{}", got.err);
        assert_eq!(folder.names(), [""; 0], "the command ran, or a file is left");
    }
}

/// The limit of file sizes stands for a disk that became full while the command ran.
#[test]
fn a_trace_that_could_not_begin_leaves_no_file_and_is_no_lack_of_stores() {
    let folder = Folder::new();
    let (store, trace) = (folder.store("constant", &plain_records(20)), folder.path("trace"));
    let program = program().to_str().expect("a path that is text").to_owned();
    let script = format!("trap '' XFSZ; ulimit -f 0; '{program}' get '{store}' key7");
    let got = run(&["record", &trace, "--", "bash", "-c", &script]).expect(111);
    assert!(got.err.contains("leaves no room for a trace"), "{}", got.err);
    assert!(got.err.contains("or it could not, and has said why"), "{}", got.err);
    assert!(!std::fs::exists(&trace).expect("the folder"), "an empty file is left");
    // The folder goes while the command runs.
    let sub = folder.path("sub");
    std::fs::create_dir(&sub).expect("a folder");
    let got = run(&["record", &format!("{sub}/trace"), "--", "rmdir", &sub]).expect(0);
    assert!(got.err.contains("there can be no trace now, as the folder"), "{}", got.err);
    assert!(!got.err.contains("built no store"), "{}", got.err);
}

#[test]
fn a_damaged_trace_is_an_error_that_names_the_place() {
    let folder = Folder::new();
    let trace = recorded(&folder, &[]);
    let bytes = std::fs::read(&trace).unwrap();
    let at = bytes.len() - 3;
    let mut damaged = bytes.clone();
    damaged[at] ^= 1;
    let damaged = folder.file("damaged", damaged);
    for command in [
        &["stat", &damaged][..],
        &["replay", &damaged, "--stores", "hash"],
        &["bench", "--data", &damaged, "--stores", "hash"],
    ] {
        let got = run(command).expect(111);
        assert!(got.err.contains("damaged at byte"), "{command:?}: {}", got.err);
        assert!(got.err.contains(&damaged), "{command:?}: {}", got.err);
    }
    // One that was cut off is shorter.
    let cut = folder.file("cut", &bytes[..at]);
    let got = run(&["stat", &cut]).expect(0).text();
    assert!(got.contains("cut off"), "{got}");
    let got = run(&["replay", &cut, "--stores", "hash"]).expect(0).text();
    assert!(got.contains("The trace was cut off"), "{got}");
}

/// The commands that do something with a trace, on one store and in a short time.
fn uses<'a>(trace: &'a str) -> [Vec<&'a str>; 4] {
    let of = |before: &[&'a str], behind: &[&'a str]| [before, &[trace], behind].concat();
    let short = ["--stores", "hash", "--phases", "get-hit", "--rounds", "1", "--gets", "50"];
    [
        of(&["replay"], &["--stores", "hash"]),
        of(&["bench", "--data"], &short),
        of(&["torture", "--data"], &["--stores", "hash", "--rounds", "1"]),
        of(&["advise", "--data"], &["--stores", "hash", "--seconds", "1", "--no-check"]),
    ]
}

#[test]
fn what_of_a_trace_is_not_read_is_said_by_all_that_use_it() {
    let folder = Folder::new();
    let bytes = std::fs::read(recorded(&folder, &[])).unwrap();
    let cut = folder.file("cut", &bytes[..bytes.len() - 3]);
    let longer = folder.file("longer", [&bytes[..], &[7; 700]].concat());
    let joined = folder.file("joined", [&bytes[..], &bytes[..]].concat());
    let cases = [
        (&cut, "trace was cut off"),
        (&longer, "trace ends 700 B before its file"),
        (&joined, "before its file does"),
    ];
    for (trace, says) in cases {
        for command in uses(trace) {
            let got = run(&command).expect(0).text();
            let got = got.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(got.contains(says), "{command:?}: {got}");
        }
    }
    let got = run(&["stat", &longer]).expect(0).text();
    assert!(got.contains("700 B behind the end"), "{got}");
}

#[test]
fn a_trace_that_was_cut_off_in_its_first_block_says_so_in_every_error() {
    let folder = Folder::new();
    let bytes = std::fs::read(recorded(&folder, &[])).unwrap();
    let cut = folder.file("cut", &bytes[..200]);
    for command in uses(&cut) {
        let got = run(&command).expect(111);
        assert!(got.err.contains("was cut off") && got.err.contains(&cut), "{}", got.err);
    }
}

/// The steps that `bench` measures, each with the answer that its model has, on stores with and without order.
#[test]
fn what_bench_writes_is_replayed_with_the_same_answers() {
    let folder = Folder::new();
    let (mix, trace) = (folder.path("mix.toml"), folder.path("mixed.trace"));
    let text = "data = \"churn\"\nrecords = 300\ngets = 500\n[mix]\nget = 4\ninsert = 1\nupdate = 2\n\
        remove = 2\nread-modify-write = 1\ntable-scan = 1\ntransactions = 50\n";
    std::fs::write(&mix, text).unwrap();
    let tee = ["bench", "--workload", &mix, "--phases", "mixed", "--rounds", "1", "--tee", &trace];
    run(&[&tee[..], &["--stores", "btree"]].concat()).expect(0);
    let json = folder.path("out.json");
    let stores = ["--stores", "btree,hash", "--json", &json];
    run(&[&["replay", &trace][..], &stores].concat()).expect(0);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    // Filling and each of ten parts of the mix is a transaction, with its beginning and its end.
    assert_eq!(report["entries"], 300 + 500 + 2 * 11);
    for store in report["stores"].as_array().unwrap() {
        assert_eq!((&store["lost"], &store["extra"]), (&0.into(), &0.into()), "{store}");
        let of = |kind: &str| store["by_operation"][kind]["count"].as_u64().unwrap();
        assert_eq!(store["compared"], of("get") + of("remove"));
        let single = of("get") + of("remove") + of("insert") + of("update");
        assert_eq!(single + of("scan all"), 800);
        assert!(
            of("insert") > 300 && of("remove") > 50 && of("get") > 100 && of("scan all") > 20,
            "{store}"
        );
    }
    // Nobody's file is written over, and only what is in a trace can be asked for.
    let got = run(&[&tee[..], &["--stores", "btree"]].concat()).expect(111);
    assert!(got.err.contains("there already"), "{}", got.err);
    let got = run(&["bench", "--phases", "get-hit", "--tee", &json]).expect(111);
    assert!(got.err.contains("'mixed'"), "{}", got.err);
}

/// A file has no other place for it than a commit: each change of a synced mix is a transaction there.
#[test]
fn what_bench_writes_of_a_synced_mix_says_so() {
    let folder = Folder::new();
    let [trace, script, json] = ["trace", "script", "json"].map(|name| folder.path(name));
    let mix = ["bench", "--workload", "ycsb-a", "--records", "50", "--gets", "100", "--sync"];
    let usual = ["--phases", "mixed", "--rounds", "1", "--stores", "hash", "--metrics", "none"];
    let tee = [&mix[..], &usual, &["--tee"]].concat();
    run(&[&tee[..], &[&trace]].concat()).expect(0);
    run(&[&tee[..], &[&script, "--tee-format", "script"]].concat()).expect(0);
    let commits = |kind: &str| {
        let all = credenza::record::Trace::open(&trace).unwrap();
        all.entries().filter(|e| e.as_ref().unwrap().action.name() == kind).count()
    };
    let synced = commits("commit_sync");
    assert!((30..70).contains(&synced) && commits("commit") == 0, "{synced}");
    let text = std::fs::read_to_string(&script).unwrap();
    assert_eq!(text.matches("TXN_COMMIT\n").count(), synced);
    assert_eq!(text.matches("--use-fsync\n").count(), 1, "{text}");
    for file in [&trace, &script] {
        run(&["replay", file, "--stores", "btree,hash", "--json", &json]).expect(0);
    }
}

/// The same operations as a script, where a value for a key that was read is two lines.
#[test]
fn a_script_that_bench_writes_is_replayed_as_the_trace_is() {
    let folder = Folder::new();
    let mix = folder.path("mix.toml");
    let text = "data = \"ycsb:field-count=1,field-length=1..50\"\nrecords = 200\ngets = 400\n[mix]\n\
        get = 4\ninsert = 1\nupdate = 2\nremove = 2\nread-modify-write = 1\ntable-scan = 1\n\
        transactions = 50\n";
    std::fs::write(&mix, text).unwrap();
    let usual = ["bench", "--workload", &mix, "--phases", "mixed", "--rounds", "1"];
    let usual = [&usual[..], &["--stores", "btree"]].concat();
    let replayed = |format: &str| {
        let [tee, json] = ["tee", "json"].map(|end| folder.path(&format!("{format}.{end}")));
        run(&[&usual[..], &["--tee", &tee, "--tee-format", format]].concat()).expect(0);
        run(&["replay", &tee, "--stores", "btree", "--json", &json]).expect(0);
        let text = std::fs::read_to_string(&json).unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let store = found["stores"][0].clone();
        assert_eq!((&store["lost"], &store["extra"]), (&0.into(), &0.into()), "{store}");
        let of = |kind: &str| store["by_operation"][kind]["count"].as_u64().unwrap_or(0);
        assert_eq!(store["compared"], of("get") + of("remove"));
        ["get", "insert", "remove", "update", "scan all", "begin", "commit"].map(of)
    };
    let [get, insert, remove, update, scan, begin, commit] = replayed("trace");
    assert!(update > 10 && scan > 10 && begin == 9, "{update} updates, {begin} transactions");
    let as_script = [get + update, insert + update, remove, 0, scan, begin, commit];
    assert_eq!(replayed("script"), as_script);
    // What a script cannot hold is said before anything is measured, and leaves no file.
    let script = folder.path("script");
    let tee = ["--records", "200", "--tee", &script, "--tee-format", "script"];
    let cases = [
        (&["--workload", "tokens"][..], "cannot be in a script of ups_bench, where keys"),
        (&["--workload", "ycsb-e"], "the mix has scans of some records"),
    ];
    for (workload, says) in cases {
        let more = [&["--phases", "mixed", "--stores", "btree"], &tee[..], workload].concat();
        let got = run(&[&["bench"], &more[..]].concat()).expect(111);
        assert!(got.err.contains(says) && !std::path::Path::new(&script).exists(), "{}", got.err);
    }
    let got = run(&["bench", "--tee-format", "script"]).expect(111);
    assert!(got.err.contains("--tee"), "{}", got.err);
}

#[test]
fn a_script_of_ups_bench_is_replayed() {
    let folder = Folder::new();
    let script = folder.path("script");
    let text =
        "CREATE\nINSERT (0, \"one\", 10)\nFIND (0, \"one\")\nERASE (0, \"one\")\nFIND(0, \"one\")";
    std::fs::write(&script, text).unwrap();
    let got = run(&["replay", &script, "--stores", "hash,btree"]).expect(0).text();
    assert_eq!(got.matches("3 of 3 answers are as recorded").count(), 2, "{got}");
    std::fs::write(&script, text.replace("ERASE (", "ERASE [")).unwrap();
    let got = run(&["replay", &script, "--stores", "hash"]).expect(111);
    assert!(got.err.contains("line 4, column 7: expected '('"), "{}", got.err);
    let got = run(&["replay", &script, "--stores", "hash", "--speed", "original"]).expect(111);
    assert!(got.err.contains("line 4"), "{}", got.err);
    std::fs::write(&script, "CREATE\nINSERT (0, \"one\", 4000000000)").unwrap();
    let got = run(&["replay", &script, "--stores", "hash"]).expect(111);
    let says = "nothing in the script of ups_bench that can be replayed: line 2 writes a value of \
                4,000,000,000 bytes";
    assert!(got.err.contains(says), "{}", got.err);
}

/// Flushed, checked, closed and opened again: done by whoever can, and told of whoever cannot.
#[test]
fn a_script_that_checks_and_reopens_is_done_so() {
    let (folder, mut text) = (Folder::new(), "CREATE\n".to_owned());
    let (script, json) = (folder.path("script"), folder.path("json"));
    for i in 0..300 {
        text += &format!("BEGIN_TXN INSERT (0, \"key {i}\", {}) FLUSH COMMIT_TXN\n", 10 + i % 50);
    }
    text += "FULLCHECK ERASE (0, \"key 7\") CLOSE OPEN FULLCHECK INSERT (0, \"key 7\", 5) FLUSH FULLCHECK CLOSE\n";
    std::fs::write(&script, text).unwrap();
    let listed = run(&["bench", "--list"]).expect(0).text();
    let is_here = |store: &&str| {
        let line = listed.lines().find(|line| line.starts_with(&format!("{store} ")));
        line.is_some_and(|line| !line.contains("not found"))
    };
    let all = ["hash", "btree", "redb", "lmdb", "sqlite", "bdb-btree", "gdbm", "rocksdb", "tdb"];
    let stores: Vec<&str> = all.into_iter().filter(is_here).collect();
    let named = stores.join(",");
    let got = run(&["replay", &script, "--stores", &named, "--json", &json]).expect(0).text();
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert!(report["left_out"].as_object().unwrap().is_empty(), "{got}");
    assert_eq!(report["stores"].as_array().unwrap().len(), stores.len());
    for of in report["stores"].as_array().unwrap() {
        let store = of["store"].as_str().unwrap();
        let done = |name: &str| of["by_operation"][name]["count"].as_u64().unwrap_or(0);
        assert_eq!((done("full check"), done("reopen")), (3, 1), "{store}");
        let skipped = of["skipped"].as_object().unwrap().iter();
        let waits = skipped.filter(|(what, _)| what.starts_with("waits for the disk"));
        let waits: u64 = waits.filter_map(|(_, count)| count.as_u64()).sum();
        assert_eq!(done("sync") + waits, 301, "{store}: {of}");
        // The hash does not within a transaction.
        let own = [("hash", 300), ("btree", 0)].into_iter().find(|(name, _)| *name == store);
        assert!(own.is_none_or(|(_, expected)| waits == expected), "{store}: {waits}");
    }
    // What is only read may be opened again by stores that are never changed.
    std::fs::write(&script, "OPEN FIND (0, \"a\") CLOSE OPEN FULLCHECK FLUSH CLOSE").unwrap();
    let got = run(&["replay", &script, "--stores", "constant,btree"]).expect(0).text();
    assert_eq!(
        got.matches("skipped 1 waits for the disk: it is open for reading").count(),
        2,
        "{got}"
    );
}

/// A server has data of others: they are neither deleted nor taken for the trace's own.
#[test]
fn a_trace_is_replayed_on_a_server_that_is_left_as_it_was() {
    let folder = Folder::new();
    let (socket, script) = (folder.path("socket"), folder.path("script"));
    let started = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--unixsocket", &socket, "--dir", &folder.path("")])
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut server) = started else {
        println!("skipped: redis-server is not installed");
        return;
    };
    let mut log = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(log.any(|line| line.contains("eady to accept connections")));
    let ask = |command: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        write!(stream, "{command}\r\n").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    };
    let text =
        "CREATE INSERT(0, \"one\", 10) INSERT(0, \"two\", 20) FIND(0, \"one\") ERASE(0, \"one\")";
    std::fs::write(&script, text).unwrap();
    let store = format!("resp:unix://{socket}?db=0");
    let got = run(&["replay", &script, "--stores", &format!("{store},hash")]);
    let (size, set) = (ask("DBSIZE"), ask("SET two mine"));
    let refused = run(&["replay", &script, "--stores", &store]);
    let kept = (ask("DBSIZE"), ask("STRLEN two"));
    ask("DEL two");
    // With one key stored the next operation is due in a quarter of an hour.
    let mut slow = Command::new(program());
    slow.args(["replay", &script, "--stores", &store, "--speed", "0.001"]);
    let mut running = slow.stdout(Stdio::null()).spawn().unwrap();
    while ask("DBSIZE").trim() == ":0" {
        assert!(running.try_wait().unwrap().is_none(), "the replay ended");
    }
    interrupt(&running);
    let stopped = (running.wait().unwrap().code(), ask("DBSIZE"));
    server.kill().unwrap();
    server.wait().unwrap();
    let got = got.expect(0).text();
    assert_eq!(got.matches("2 of 2 answers are as recorded").count(), 2, "{got}");
    assert_eq!((size.trim(), set.trim()), (":0", "+OK"));
    assert!(refused.expect(111).err.contains("not empty (1 key)"));
    assert_eq!((kept.0.trim(), kept.1.trim()), (":1", ":4"));
    assert_eq!((stopped.0, stopped.1.trim()), (Some(130), ":0"));
}

fn interrupt(running: &Child) {
    signal(running, "-INT");
}

fn signal(running: &Child, signal: &str) {
    let id = running.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
}

/// A server that is empty and answers all but SET, and the names of commands that it was told to change
/// something with.
fn server_that_never_stores() -> (String, Receiver<&'static str>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("resp:redis://{}/0", listener.local_addr().unwrap());
    let (told, heard) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let told = told.clone();
            std::thread::spawn(move || answer(&stream, &told));
        }
    });
    (address, heard)
}

fn answer(mut stream: &TcpStream, told: &Sender<&'static str>) {
    let mut reader = BufReader::new(stream);
    for line in reader.by_ref().lines().map_while(Result::ok) {
        let answer = match &*line {
            "INFO" => "$16\r\nused_memory:100\n\r\n",
            "DBSIZE" => ":0\r\n",
            "SETINFO" => "+OK\r\n",
            "CONFIG" => "-ERR not for you\r\n",
            "DEL" => {
                let _ = told.send("DEL");
                ":1\r\n"
            }
            "SET" => {
                let _ = told.send("SET");
                break;
            }
            _ => continue,
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
    // The connection stays until the other end is gone.
    let _ = std::io::copy(&mut reader, &mut std::io::sink());
}

#[test]
fn what_is_finished_is_told_when_a_signal_ends_a_replay() {
    let folder = Folder::new();
    let (dir, json) = (folder.path(""), folder.path("out.json"));
    let script = folder.file("script", "CREATE INSERT(0, \"one\", 10) FIND(0, \"one\")");
    let (address, heard) = server_that_never_stores();
    let stores = format!("hash,{address},btree");
    let args = ["replay", &script, "--stores", &stores, "--dir", &dir, "--json", &json];
    let mut replay = Command::new(program());
    let running = replay.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(heard.recv(), Ok("SET"));
    interrupt(&running);
    let done = running.wait_with_output().unwrap();
    let (out, err) =
        (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert_eq!(done.status.code(), Some(130), "{out}{err}");
    assert_eq!(err, "");
    assert!(out.contains("stopped by a signal") && out.contains("hash: 1 of 1 answers"), "{out}");
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["DEL"], "the keys are taken away");
    assert_eq!(folder.names(), ["out.json", "script"]);
    let found: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).unwrap()).expect("JSON");
    assert_eq!(
        (&found["interrupted"], &found["failures"]),
        (&true.into(), &Vec::<()>::new().into())
    );
    assert_eq!(found["stores"].as_array().map(Vec::len), Some(1), "{found}");
    let again = run(&["replay", &script, "--stores", "hash", "--json", &json]).expect(0).text();
    let found: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).unwrap()).expect("JSON");
    assert_eq!(found["interrupted"], false);
    assert!(!again.contains("signal"), "{again}");
}

/// Whether a process that this one started handles it when it is asked to end.
fn heeds_requests(running: &Child) -> bool {
    const SIGTERM: u32 = 15;
    let parent = format!("PPid:\t{}\n", running.id());
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let mut all = processes.filter_map(|of| std::fs::read_to_string(of.path().join("status")).ok());
    all.any(|status| {
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
        let caught = caught.and_then(|set| u64::from_str_radix(set, 16).ok()).unwrap_or(0);
        status.contains(&parent) && caught >> (SIGTERM - 1) & 1 == 1
    })
}

#[test]
fn what_a_store_did_before_a_signal_ends_its_replay_is_told_as_a_part() {
    let folder = Folder::new();
    let (stores, json) = (Folder::new(), folder.path("out.json"));
    let script = folder.file("script", "CREATE INSERT(0, \"one\", 10) FIND(0, \"one\")");
    // The key may be there by the pass that compares, and the signal come before the first timed operation: then again.
    let stopped = || stopped_after_one(&script, &stores, &json);
    let told = |out: &String| !out.contains("Nothing was replayed");
    let out = std::iter::repeat_with(stopped).take(20).find(told).expect("one that came later");
    for says in ["stopped by a signal", "  PARTIAL\n", "PARTIAL: hash had done 1 step when"] {
        assert!(out.contains(says), "{says}: {out}");
    }
    assert!(!out.contains("btree"), "{out}");
    let found: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).unwrap()).expect("JSON");
    assert_eq!(found["interrupted"], true);
    assert_eq!(found["stores"].as_array().map(Vec::len), Some(1), "{found}");
    let of = &found["stores"][0];
    assert_eq!((&of["stopped_after"], &of["operations"]), (&1.into(), &1.into()), "{of}");
}

/// What a replay says that is stopped when its key is there.
fn stopped_after_one(script: &str, stores: &Folder, json: &str) -> String {
    // The second operation is due in a quarter of an hour.
    let mut replay = Command::new(program());
    replay.args(["replay", script, "--stores", "hash,btree", "--speed", "0.001"]);
    replay.args(["--dir", &stores.path(""), "--json", json]);
    let mut running = replay.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The pass that compares takes no requests; the one that is timed has done its first operation when the key
    // is there.
    let has_begun = || {
        let run = std::fs::read_dir(stores.path("")).ok()?.flatten().next()?.path();
        let store = run.join("hash/store");
        Some(run_with(&["get", store.to_str()?, "one"], b"").status == 0)
    };
    while !heeds_requests(&running) || has_begun() != Some(true) {
        assert!(running.try_wait().unwrap().is_none(), "the run ended");
        std::thread::yield_now();
    }
    interrupt(&running);
    let done = running.wait_with_output().unwrap();
    let (out, err) =
        (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert_eq!((done.status.code(), err.as_str()), (Some(130), ""), "{out}");
    assert!(stores.names().is_empty(), "{:?}", stores.names());
    out
}

#[test]
fn replay_says_what_makes_no_sense() {
    let folder = Folder::new();
    let trace = recorded(&folder, &[]);
    let text = folder.file("text", "no trace");
    for (arguments, says) in [
        (&[&text[..]][..], "this is not a trace"),
        (&["/none/such"], "/none/such"),
        (&[&trace, "--stores", "none"], "there is no store 'none'"),
        (&[&trace, "--speed=-1"], "--speed takes"),
        (&[&trace, "--speed=0"], "--speed takes"),
        (&[&trace, "--timeout", "0"], "--timeout"),
        (&[&trace, "--data", "/none/such"], "/none/such"),
        (&[&trace, "--stores", "mcdb", "--lib", "mcdb=/none"], "mcdb"),
    ] {
        let got = run(&[&["replay"], arguments].concat()).expect(111);
        assert!(got.err.contains(says), "{arguments:?}: {}", got.err);
    }
}

#[test]
fn tables_transactions_and_ranges_are_replayed() {
    let folder = Folder::new();
    let (store, trace) = (folder.path("users"), folder.path("trace"));
    run(&["create", "--engine", "btree", &store]).expect(0);
    run(&["table", "create", &store, "other"]).expect(0);
    // The same key in two tables, a transaction that is undone, and one that is not.
    let main = "put k main\\nbegin\\nput lost 1\\nget lost\\nabort\\nget lost\\nbegin\\nput a 1\\nput b 2\\ncommit";
    let program = program().to_str().expect("a path that is text").to_owned();
    let script = format!(
        "p='{program}'; s='{store}'; printf '{main}\\n' | $p shell $s; $p get $s --table other k; \
         printf 'put k other\\nget k\\n' | $p shell $s --table other; $p delete $s k; \
         $p range $s a --limit 1; $p get $s k; $p get $s --table other k"
    );
    run(&["record", "-q", &trace, "--", "sh", "-c", &script]).expect(0);
    let found = parsed(run(&["stat", &trace, "--json"]));
    let stores = found["stores"].as_array().expect("stores");
    assert_eq!(stores.len(), 2, "{found}");
    assert_eq!(stores[1]["table"], "other");
    let got = run(&["replay", &trace, "--stores", "btree,hash"]).expect(0).text();
    assert!(got.contains("Stores begin with 0 records."), "{got}");
    assert!(got.contains("entries that change what was aborted afterwards"), "{got}");
    // What was to be undone was found within its transaction only: that is nobody's to compare.
    assert!(got.contains("btree: 6 of 6 answers") && got.contains("hash: 6 of 6 answers"), "{got}");
    assert!(got.contains("hash: skipped 1 scans of a range"), "{got}");
    assert!(!got.contains("btree: skipped"), "{got}");
}
