//! Danger: the disk fills up within a round of the workbench, and the run ends, a store that did not fit is taken
//! for a fast or a wrong one, nobody is told what to do, or files stay where there is no room for any; or what was
//! measured is lost, as there is no room for the file of it.
//!
//! The disk is a file system in memory in a space of mounts that the run has for itself, so that it goes with it.

mod common;
use common::*;
use serde_json::Value;
use std::process::{Command, Output};

/// What the data and queries take, with some hundred KiB for a store.
const SMALL: &str = "980K";
const RECORDS: &str = "--records=20000 --gets=500 --no-pin --rounds=2 --no-noise";
const ADVICE: &str = "make room, name another folder with --dir, or take fewer --records";

/// The small disk, in arguments.
const DISK: &str = "DISK";

thread_local! {
    /// The folder for temporary files of a test's runs.
    static KEPT: Folder = Folder::new();
}

/// `unshare` with what lets this user mount something of their own; `None` where nothing does.
fn own_mounts() -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["-m"], &["-r", "-m"]];
    let folder = Folder::new();
    let is_possible = |way: &&[&str]| {
        let mut tried = Command::new("unshare");
        tried.args(*way).args(["mount", "-t", "tmpfs", "tmpfs"]).arg(folder.0.path());
        tried.output().is_ok_and(|tried| tried.status.success())
    };
    ways.into_iter().find(is_possible)
}

/// A run whose folder has so much space, and the names that are left there; `None`, and why, where this user may
/// mount nothing.
fn bench_in(size: &str, arguments: &str, more: &[&str]) -> Option<(Output, String)> {
    let arguments: Vec<&str> = arguments.split(' ').chain(more.iter().copied()).collect();
    run_in(size, &["bench", "--dir", DISK], &arguments)
}

/// The same of any command; [`DISK`] in the arguments is the folder.
fn run_in(size: &str, command: &[&str], more: &[&str]) -> Option<(Output, String)> {
    let Some(way) = own_mounts() else {
        eprintln!("not tested: this user may mount nothing, not even with `unshare -r -m`");
        return None;
    };
    let folder = Folder::new();
    let (disk, left) = (folder.path("disk"), folder.path("left"));
    std::fs::create_dir(&disk).expect("a folder");
    let script = "mount -t tmpfs -o size=\"$1\" tmpfs \"$2\" || exit 99; left=$3; disk=$2; shift 3; \
                  \"$@\"; status=$?; ls -A \"$disk\" > \"$left\"; exit $status";
    let all = command.iter().chain(more).map(|argument| argument.replace(DISK, &disk));
    let mut command = Command::new("unshare");
    command.args(way).args(["sh", "-c", script, "sh", size, &disk, &left]);
    // Where what does not fit is kept.
    command.env("TMPDIR", KEPT.with(|folder| folder.path("")));
    let ran = command.arg(program()).arg("--quiet").args(all).output().expect("unshare");
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(!err.contains("panicked"), "{err}");
    Some((ran, std::fs::read_to_string(&left).expect("the names that are left")))
}

/// The stores that fill up a disk so small, each in its own way: by an error of ours, of a library that says so, of
/// one that does not, and by the end of the process.
fn filling() -> Vec<&'static str> {
    let listed = run(&["bench", "--list"]).expect(0).text();
    let is_here = |store: &&str| {
        let line = listed.lines().find(|line| line.starts_with(&format!("{store} ")));
        let is_here = line.is_some_and(|line| !line.contains("not found"));
        if !is_here {
            eprintln!("not tested: {store} is not found");
        }
        is_here
    };
    ["hash", "sqlite", "gdbm", "lmdb", "rocksdb", "bdb-btree"].into_iter().filter(is_here).collect()
}

#[test]
fn a_store_that_does_not_fit_is_named_and_the_others_go_on() {
    let folder = Folder::new();
    let (json, filling) = (folder.path("out.json"), filling());
    let stores = format!("constant,{}", filling.join(","));
    let arguments = format!("{RECORDS} --phases build,get-hit,reinsert --stores {stores}");
    let Some((ran, left)) = bench_in(SMALL, &arguments, &["--json", &json]) else { return };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!(ran.status.code(), Some(111), "{out}{err}");
    assert_eq!(left, "", "files are left behind");
    let report: Value =
        serde_json::from_slice(&std::fs::read(&json).expect("the report")).expect("JSON");
    // Who fits is measured in every round.
    let results = report["results"].as_array().expect("results");
    for phase in ["build", "get-hit"] {
        let is_it = |result: &&Value| result["store"] == "constant" && result["phase"] == phase;
        let result = results.iter().find(is_it).unwrap_or_else(|| panic!("{phase} in {out}"));
        assert_eq!((&result["verified"], &result["rounds"]), (&true.into(), &2.into()), "{out}");
    }
    assert!(out.contains("Did not run, or not to the end"), "{out}");
    // Who does not is told once for each phase, with the round, and what to do.
    let failures = report["failures"].as_array().expect("failures");
    for store in filling {
        let of: Vec<&Value> = failures.iter().filter(|failure| failure["store"] == store).collect();
        assert!(!of.is_empty(), "{store}: {out}{err}");
        for failure in of {
            let what = failure["what"].as_str().expect("words");
            let is_told = match failure["status"].as_str() {
                Some("error") => what.ends_with(ADVICE),
                Some("crashed") => what.contains("the folder may be full: make room"),
                _ => false,
            };
            assert!(is_told && failure["round"].is_number(), "{failure}");
            let line = format!("{store} {}, round ", failure["phase"].as_str().expect("a phase"));
            assert_eq!(err.matches(&line).count(), 1, "{line} in {err}");
        }
    }
    assert!(!err.contains("WRONG ANSWER"), "{err}");
}

#[test]
fn several_that_commit_to_a_full_disk_are_told_what_to_do() {
    let arguments = "--records=20000 --gets=500 --no-pin --rounds=1 --no-noise --phases build,mixed --threads 1,2 \
                     --stores hash,btree";
    let Some((ran, left)) = bench_in("700K", arguments, &[]) else { return };
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), left.as_str()), (Some(111), ""), "{err}");
    for place in ["hash mixed, round 1: 2 threads: ", "btree mixed, round 1: 2 threads: "] {
        let line = err.lines().find(|line| line.contains(place));
        let line = line.unwrap_or_else(|| panic!("{place} in {err}"));
        assert!(line.contains("No space left") && line.ends_with(ADVICE), "{line}");
    }
    // Ours name the file.
    for store in ["hash", "btree"] {
        let line = err.lines().find(|line| line.contains(&format!("{store} build, round 1: ")));
        let line = line.unwrap_or_else(|| panic!("{store} in {err}"));
        assert!(line.contains(&format!("/{store}/store: cannot make longer")), "{line}");
    }
}

#[test]
fn a_folder_without_room_for_the_data_is_refused_before_anything_runs() {
    let arguments = format!("{RECORDS} --stores constant,hash");
    let Some((ran, left)) = bench_in("64K", &arguments, &[]) else { return };
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), left.as_str()), (Some(111), ""), "{err}");
    assert!(err.contains("the data and queries take ") && err.contains("--dir"), "{err}");
}

#[test]
fn stores_that_do_not_fit_where_they_are_replayed_or_reproduced_are_told_what_to_do() {
    let folder = Folder::new();
    let trace = folder.path("day.trace");
    let work = ["--records", "20000", "--gets", "500", "--no-pin", "--rounds", "1", "--no-noise"];
    let tee = ["--quiet", "bench", "--stores", "hash", "--tee", &trace];
    run(&[&tee[..], &work].concat()).expect(0);
    let command = ["replay", &trace, "--dir", DISK, "--no-pin"];
    let Some((ran, left)) = run_in("300K", &command, &["--stores", "hash,sqlite"]) else { return };
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), left.as_str()), (Some(111), ""), "{err}");
    for store in ["hash", "sqlite"] {
        let begin = format!("credenza replay: {store}: ");
        let line = err.lines().find(|line| line.starts_with(&begin));
        let line = line.unwrap_or_else(|| panic!("{store} in {err}"));
        let is_told = line.ends_with("make room, or name another folder with --dir");
        assert!(is_told || line.contains("apt-get install"), "{line}");
    }
    let command = ["reproduce", "ntdb", "--dir", DISK, "--scale", "0.1", "--rounds", "1"];
    let Some((ran, left)) = run_in("3M", &command, &["--stores", "hash,tdb"]) else { return };
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), left.as_str()), (Some(111), ""), "{err}");
    for store in ["hash", "tdb"] {
        let begin = format!("credenza reproduce: {store}");
        let mut lines = err.lines().filter(|line| line.starts_with(&begin)).peekable();
        assert!(lines.peek().is_some(), "{store} in {err}");
        for line in lines {
            let is_told = line.ends_with("--dir or --disk, or take a smaller --scale");
            assert!(is_told || line.contains("apt-get install"), "{line}");
        }
    }
}

#[test]
fn figures_that_there_is_no_room_for_are_kept_elsewhere() {
    let folder = Folder::new();
    let (stores, trace) = (folder.path(""), folder.path("day.trace"));
    let begin = ["bench", "--stores", "hash", "--records", "300", "--gets", "300", "--no-pin"];
    let bench = [&begin[..], &["--rounds", "1", "--no-noise", "--dir", &stores]].concat();
    run(&[&["--quiet"], &bench[..], &["--tee", &trace]].concat()).expect(0);
    let replay = ["replay", &trace, "--stores", "hash", "--no-pin", "--dir", &stores];
    for (command, files) in [(&bench[..], &["json", "csv", "html"][..]), (&replay, &["json"])] {
        let options: Vec<String> = files
            .iter()
            .flat_map(|kind| [format!("--{kind}"), format!("{DISK}/run.{kind}")])
            .collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        // A page is all there is.
        let Some((ran, left)) = run_in("4K", command, &options) else { return };
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!((ran.status.code(), left.as_str()), (Some(111), ""), "{err}");
        assert!(!ran.stdout.is_empty(), "the table is printed all the same");
        let places: Vec<&str> = err
            .lines()
            .filter_map(|line| line.split_once("what was to be there is in "))
            .map(|(_, place)| place)
            .collect();
        assert_eq!(places.len(), files.len(), "{err}");
        for kind in files {
            let place = places.iter().find(|place| place.ends_with(&format!("-run.{kind}")));
            let kept = std::fs::read(place.unwrap_or_else(|| panic!("{kind} in {err}")));
            assert!(kept.expect("what was kept").len() > 4096, "{kind}");
        }
    }
}
