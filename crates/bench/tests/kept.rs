//! Danger: a store that was made before is measured though it holds something else, a run changes it, or
//! one that is kept is not what was built. Every store that is found on the machine takes part.

mod common;

use common::{bench, json_report, text};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What is in the files below a folder: their lengths and first bytes. A map of LMDB has gigabytes, of which the
/// rest is a hole.
fn files(folder: &Path) -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let mut bytes = Vec::new();
            let file = File::open(&path).unwrap();
            let len = file.metadata().unwrap().len();
            file.take(2 << 20).read_to_end(&mut bytes).unwrap();
            all.insert(path, (len, bytes));
        }
    }
    all
}

/// A folder with one for stores that are kept and one for files of a run.
fn folders() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("dir");
    fs::create_dir(&dir).unwrap();
    let kept = folder.path().join("kept").display().to_string();
    (folder, kept, dir.display().to_string())
}

const SMALL: [&str; 3] = ["--workload=churn", "--rounds=1", "--no-pin"];
const GETS: &str = "--gets=10000";
const RECORDS: &str = "--records=1000";

/// Keeps these stores, or all, and gives their names.
fn keep(more: &[&str], kept: &str, dir: &str) -> Vec<String> {
    let (kept, dir) = (format!("--keep={kept}"), format!("--dir={dir}"));
    let args =
        [&SMALL[..], more, &[RECORDS, "--phases=build", "--metrics=none", &kept, &dir]].concat();
    let done = bench(&args);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let stores = fs::read_dir(kept.trim_start_matches("--keep=")).unwrap();
    let mut names: Vec<String> =
        stores.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn every_store_that_is_kept_is_opened_and_stays_as_it_is() {
    let (folder, kept, dir) = folders();
    let names = keep(&[], &kept, &dir);
    for own in ["constant", "hash", "btree"] {
        assert!(names.iter().any(|name| name == own), "{names:?}");
    }
    let before = files(Path::new(&kept));
    let (json, html) = (folder.path().join("out.json"), folder.path().join("out.html"));
    let files_of_run = [
        format!("--dir={dir}"),
        format!("--open={kept}"),
        format!("--json={}", json.display()),
        format!("--html={}", html.display()),
    ];
    let phases = "--phases=build,get-hit,get-many-miss,scan,range,insert,remove,mixed";
    let more = [RECORDS, GETS, phases, "--metrics=none"];
    let done = bench(&[&SMALL[..], &more, &files_of_run.each_ref().map(String::as_str)].concat());
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    assert!(files(Path::new(&kept)) == before, "a store was changed");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "files were left behind");

    let printed = text(&done.stdout);
    let from = format!("opened from {kept}");
    let heading = printed.lines().take(3).flat_map(str::split_whitespace).collect::<Vec<_>>();
    assert!(heading.join(" ").contains(&from), "{printed}");
    assert!(fs::read_to_string(html).unwrap().contains(&format!("opened from <b>{kept}</b>")));
    let report = json_report(&json);
    assert_eq!(report.settings.opened.as_deref(), Some(kept.as_str()));
    assert_eq!(
        report.settings.phases,
        ["get-hit", "get-many-miss", "scan", "range", "remove", "mixed"]
    );
    let left_out = "--open leaves out 'build', 'insert': there a run begins with a new store";
    assert!(report.notes.iter().any(|note| note == left_out), "{:?}", report.notes);
    let mut measured: Vec<&str> = report.stores.iter().map(|info| &*info.store).collect();
    measured.sort_unstable();
    assert_eq!(measured, names);
    for info in &report.stores {
        assert!(info.tuning.starts_with("made before the run"), "{info:?}");
        let of =
            |phase: &str| report.results.iter().find(|r| r.store == info.store && r.phase == phase);
        for phase in &report.settings.phases {
            assert_ne!(of(phase).is_some(), info.lacks.contains(phase), "{} {phase}", info.store);
        }
        assert!(["get-hit", "get-many-miss", "scan"].iter().all(|phase| of(phase).is_some()));
    }
    assert!(report.results.iter().all(|result| result.verified && result.ns_per_op.median > 0.0));
    let changed =
        |store: &str| report.results.iter().any(|r| r.store == store && r.phase == "mixed");
    assert!(changed("hash") && changed("btree") && !changed("constant"));
}

/// A store that is opened for such changes is not made anew, nor left as it was.
#[test]
fn a_synced_mix_goes_on_with_what_was_kept() {
    let (folder, kept, dir) = folders();
    keep(&["--stores=constant,hash,btree,redb"], &kept, &dir);
    let before = files(Path::new(&kept));
    let json = folder.path().join("out.json");
    let (open, dir) = (format!("--open={kept}"), format!("--dir={dir}"));
    let json_option = format!("--json={}", json.display());
    let more =
        [RECORDS, GETS, "--phases=mixed", "--sync", "--metrics=none", &open, &dir, &json_option];
    let done = bench(&[&SMALL[..], &more].concat());
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    assert!(files(Path::new(&kept)) == before, "a store was changed");
    let report = json_report(&json);
    let mut of = report.results.iter().map(|r| (&*r.store, &*r.class, r.verified));
    for store in ["hash", "btree", "redb"] {
        assert_eq!(of.next(), Some((store, "sync", true)));
    }
    assert!(of.next().is_none());
}

#[test]
fn a_store_that_another_program_made_is_opened() {
    let (folder, kept, dir) = folders();
    let (data, place) = (folder.path().join("data.tsv"), Path::new(&kept).join("constant"));
    fs::create_dir_all(&place).unwrap();
    fs::write(&data, "apple\tred\nbanana\tyellow\n").unwrap();
    let mut builder = credenza::constant::Builder::create(place.join("store")).unwrap();
    builder.add(b"banana", b"yellow").unwrap();
    builder.add(b"apple", b"red").unwrap();
    builder.finish().unwrap();
    let json = folder.path().join("out.json");
    let args = [
        format!("--data={}", data.display()),
        format!("--open={kept}"),
        format!("--dir={dir}"),
        format!("--json={}", json.display()),
    ];
    let open = |more: &[&str]| bench(&[&args.each_ref().map(String::as_str), more].concat());
    // Those that are not there are named, and are no failure before they are asked for.
    let done = open(&["--rounds=1", "--phases=get-hit", "--gets=100"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report = json_report(&json);
    assert_eq!(report.results.len(), 1);
    let note = format!(": there is no folder of that name in {kept}");
    let names = |note: &&String| note.starts_with("--open leaves out ") && note.contains("btree");
    assert!(report.notes.iter().find(names).is_some_and(|said| said.ends_with(&note)));
    let asked = ["--rounds=1", "--phases=get-hit", "--gets=100", "--stores=constant,hash"];
    let done = open(&asked);
    assert_eq!(done.status.code(), Some(111));
    assert!(
        text(&done.stderr).contains("hash: --open: there is no folder"),
        "{}",
        text(&done.stderr)
    );
    assert_eq!(json_report(&json).results.len(), 1);
}

#[test]
fn other_records_than_those_of_the_workload_are_named() {
    let (_folder, kept, dir) = folders();
    keep(&["--stores=constant,hash,btree"], &kept, &dir);
    let broken = Path::new(&kept).join("hash/store");
    File::options().write(true).open(broken).unwrap().set_len(5000).unwrap();
    let (open, dir) = (format!("--open={kept}"), format!("--dir={dir}"));
    let more = [GETS, "--phases=get-hit,mixed", &open, &dir];
    for (other, what) in [
        (&["--records=999"][..], "the scan gives 1000 records of 999"),
        (&[RECORDS, "--seed=2"], "the scan gives other keys or values than were stored"),
    ] {
        let done = bench(&[&SMALL[..], &more, other].concat());
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(111), "{said}");
        for store in ["constant", "btree"] {
            let refused = format!(
                "{store}, round 1: the store in {kept}/{store} does not hold the records of this \
                 workload: {what}; keep it with the same workload, records and seed"
            );
            assert!(said.contains(&refused), "{said}");
        }
        assert!(said.contains(&format!("the store in {kept}/hash cannot be read: ")), "{said}");
        assert!(text(&done.stdout).contains("Nothing was measured."));
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    let (folder, kept, _) = folders();
    fs::create_dir(&kept).unwrap();
    let full = folder.path().display();
    let (into_full, keep, open) =
        (format!("--keep={full}"), format!("--keep={kept}"), format!("--open={kept}"));
    let nowhere = format!("--open={full}/nowhere");
    let (resp, ups) = ("--stores=resp:redis://127.0.0.1:1/0", "--stores=ups://127.0.0.1:1/env.db");
    for (args, what) in [
        (&[&into_full[..]][..], "--keep takes a new folder or an empty one"),
        (&[&keep, "--phases=insert"], "none of the phases to measure builds a store"),
        (&[&keep, "--records=10,20"], "--keep and --open are for one number of --records"),
        (&[&keep, "--phases=insert", "--set=memory=on"], "memory=on contradicts --keep"),
        (&[&nowhere], "nowhere: --open: there is no such folder"),
        (&[&open, "--phases=build,insert-sync"], "all others begin with a new store"),
        (&[&open, "--phases=mixed", "--set=memory=on"], "memory=on contradicts --open"),
        (&[&open, "--workload=ycsb-d", "--duplicates=last"], "leave duplicates out"),
        (
            &[&open, "--sync", "--phases=build,get-hit"],
            "--sync is for build, where nothing is opened",
        ),
        (&[&open, "--records=10"], "no store is left to measure: --open leaves out constant, hash"),
        (&[&open, "--records=10", "--phases=scan", resp], "--open are not for a server"),
        (&[&keep, "--records=10", "--phases=scan", ups], "--open are not for a server"),
    ] {
        let done = bench(args);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(111), "{args:?}: {said}");
        assert!(said.contains(what), "{args:?}: {said}");
        assert_eq!(fs::read_dir(&kept).unwrap().count(), 0, "{args:?}");
    }
    for other in [&keep, "--oracle"] {
        let said = text(&bench(&[&open, other]).stderr);
        assert!(said.contains("cannot be used with"), "{said}");
    }
}
