//! Danger: an hour of measuring is lost for a file that cannot be written, or an option does nothing and
//! nobody says so.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const SMALL: [&str; 4] = ["--gets=1e2", "--rounds=1", "--workload=decimal", "--no-pin"];

fn bench(args: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_credenza-bench"));
    program
        .args(SMALL)
        .arg("--records=1e3")
        .args(args)
        .output()
        .expect("the workbench does not start")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The error of a run that measures nothing.
fn refused(args: &[&str]) -> String {
    let done = bench(args);
    let why = text(&done.stderr);
    assert_eq!(done.status.code(), Some(111), "{args:?}: {why}");
    assert_eq!(text(&done.stdout), "", "{args:?}");
    why
}

#[test]
fn options_without_effect_are_refused() {
    for (args, says) in [
        (&["--stores=cdb", "--phases=mixed"][..], "no store is left"),
        (&["--stores=constant", "--phases=insert,remove,range"], "built once and never changed"),
        (
            &["--stores=hash", "--phases=range"],
            "no store is left to measure: 'range' leaves out hash",
        ),
        (&["--stores=hash", "--baseline=btree"], "not among the --stores"),
        (&["--lib=hash=/etc/passwd"], "built in"),
        (&["--lib=mdbm=/lib/libmdbm.so", "--stores=hash,constant"], "'mdbm' is not among"),
        (&["--lib=lmdb", "--stores=hash"], "say NAME=PATH"),
        (&["--lib=lmdb=/a.so", "--lib=lmdb=/b.so"], "--lib names a library of 'lmdb' twice"),
        (&["--records=100,2000,1e2"], "--records names 100 twice"),
        (&["--check-every=7"], "--check-every is for --oracle"),
        (&["--stores=btree,hash,btree"], "--stores names 'btree' twice"),
        (&["--phases=scan,build,scan"], "--phases names 'scan' twice"),
        (&["--stores=hash", "--set=btree.cursors=on"], "'btree' is not among the stores"),
        (&["--stores=lmdb", "--set=memory=on", "--set=memory=off"], "--set names 'memory' twice"),
        (&["--rate=0.02", "--rate-seconds=1"], "no operation would begin"),
        (&["--distribution=zipfian:theta=1e308"], "not 1e308"),
        (&["--dir=/proc"], "the system makes no folders in this one"),
    ] {
        // A rival that is not installed is told as such.
        let why = refused_or_missing(args);
        assert!(why.contains(says) || why.contains("cannot load"), "{args:?}: {why}");
    }
}

#[test]
fn how_to_name_a_library_is_said_to_who_named_one() {
    let of_stores = refused(&["--stores=nosuch"]);
    assert!(of_stores.contains("there is no store 'nosuch'; there are"), "{of_stores}");
    assert!(!of_stores.contains("--lib"), "{of_stores}");
    let of_library = refused(&["--lib=nosuch=/lib/a.so"]);
    assert!(of_library.contains("(--lib takes NAME=PATH)"), "{of_library}");
}

#[test]
fn options_that_contradict_others_are_refused_with_these() {
    for args in [
        &["--oracle", "--csv=out.csv"][..],
        &["--oracle", "--no-noise"],
        &["--cold", "--arrivals=even"],
        &["--threads=2", "--read-ahead"],
        &["--format=tsv"],
    ] {
        let done = bench(args);
        let why = text(&done.stderr);
        assert!(done.status.code() == Some(2) && why.contains("cannot be used"), "{args:?}: {why}");
    }
}

/// A list is made of no work, and goes to no other file.
#[test]
fn a_list_takes_no_option_that_would_do_nothing() {
    for option in [
        "--stores=hash",
        "--set=cache=1M",
        "--phases=scan",
        "--charts=charts",
        "--keep=kept",
        "--rounds=1",
        "--rate=10",
        "--sync",
        "--memory-limit=64M",
        "--distribution=latest",
        "--insert-order=random",
        "--metrics=none",
        "--workload=churn",
        "--dir=/tmp",
        "--seed=3",
        "--timeout=9",
        "--with-writer",
        "--transactions=5",
        "--baseline=hash",
        "--reopen",
        "--no-pin",
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_credenza-bench"));
        let done = program.args(["--list", option]).output().unwrap();
        let why = text(&done.stderr);
        assert!(done.status.code() == Some(2) && why.contains("cannot be used"), "{option}: {why}");
    }
}

#[test]
fn a_batch_is_no_longer_than_there_are_lookups() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let json_option = format!("--json={}", json.display());
    let batch = ["--stores=hash", "--phases=get-many-hit", "--batch=9999999999", &json_option];
    let done = bench(&batch);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["settings"]["batch"], 100);
}

/// As [`refused`]; a store that is not installed gives a report without figures.
fn refused_or_missing(args: &[&str]) -> String {
    let done = bench(args);
    assert_eq!(done.status.code(), Some(111), "{args:?}: {}", text(&done.stderr));
    text(&done.stderr)
}

#[test]
fn outputs_are_looked_at_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let hash = "--stores=hash";
    for option in ["--json", "--html", "--csv"] {
        let why = refused(&[hash, &format!("{option}=/nodir/out")]);
        assert!(why.contains(option) && why.contains("/nodir"), "{why}");
        assert!(why.contains("make it, or name another"), "{why}");
        let why = refused(&[hash, &format!("{option}={}", folder.path().display())]);
        assert!(why.contains("only a regular file"), "{why}");
    }
    let same = at("x");
    let why = refused(&[hash, &format!("--json={same}"), &format!("--html={same}")]);
    assert!(why.contains("--json and --html name the same file"), "{why}");
    let why = refused(&[hash, "--dir=/nodir"]);
    assert!(why.contains("--dir: there is no such folder"), "{why}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a file was made");
}

/// The table was gone with the file that the report took the place of.
#[test]
fn a_report_does_not_replace_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    for name in [Path::new("/dev/stdout"), &out] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_credenza-bench"));
        program.args(SMALL).args(["--records=1e3", "--stores=hash", "--json"]).arg(name);
        let file = std::fs::File::create(&out).unwrap();
        let done = program.stdout(file).stderr(Stdio::piped()).output().unwrap();
        let why = text(&done.stderr);
        assert_eq!(done.status.code(), Some(111), "{why}");
        assert!(why.contains("--json and standard output are the same file"), "{why}");
        assert_eq!(std::fs::metadata(&out).unwrap().len(), 0);
    }
}

/// The limit of file sizes stands for the full disk.
#[test]
fn a_trace_that_has_no_room_goes_again() {
    let folder = tempfile::tempdir().unwrap();
    let tee = folder.path().join("mixed.trace");
    let run = |limit: &str| {
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_credenza-bench")]).args(SMALL);
        shell.args(["--records=1e3", "--stores=hash", "--phases=mixed", "--tee"]).arg(&tee);
        shell.stdin(Stdio::null()).output().expect("bash")
    };
    let done = run("4");
    let why = text(&done.stderr);
    assert_eq!(done.status.code(), Some(111), "{why}");
    assert!(why.contains("only a part of the trace"), "{why}");
    assert!(!tee.exists(), "a part was left behind");
    let done = run("unlimited");
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(Path::new(&tee).exists());
}
