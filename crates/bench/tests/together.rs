//! Danger: several processes or threads at one store are counted wrongly, read what nobody stored, or are
//! refused where they may. The workbench is run as its users run it.

mod common;

use common::{bench, json_report, text};
use serde_json::Value;

#[test]
fn several_processes_or_threads_read_one_store_and_one_changes_it_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, out) = (folder.path().join("stores"), folder.path().join("out.json"));
    std::fs::create_dir(&dir).unwrap();
    let done = bench(&[
        "--stores=constant,hash,btree,redb",
        "--records=500",
        "--gets=500",
        "--rounds=2",
        "--phases=get-hit,get-many-miss,scan,remove",
        "--processes=3,2",
        "--threads=2",
        "--with-writer",
        &format!("--dir={}", dir.display()),
        &format!("--json={}", out.display()),
    ]);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "files were left behind");
    assert!(text(&done.stdout).contains("2 threads + writer"), "{}", text(&done.stdout));
    let report = json_report(&out);
    let mut expected = Vec::new();
    for phase in ["get-hit", "get-many-miss"] {
        for store in ["constant", "hash", "btree", "redb"] {
            for writers in 0..=usize::from(store != "constant") {
                // redb lets one process open a store for changes.
                if (store, writers) != ("redb", 1) {
                    let all = [1, 2, 3].map(|n| (phase, store, writers, "processes", n));
                    expected.extend(all);
                }
                expected.extend([1, 2].map(|n| (phase, store, writers, "threads", n)));
            }
        }
    }
    let found = report.together.iter();
    let found: Vec<_> =
        found.map(|r| (&*r.phase, &*r.store, r.writers, &*r.by, r.readers)).collect();
    assert_eq!(found, expected);
    for r in &report.together {
        assert!(r.verified && r.rounds == 2 && r.sample_rounds == [0, 1], "{r:?}");
        assert!(r.bound && r.processors <= r.readers + r.writers, "{r:?}");
        assert!(r.processors <= report.machine.cores.max(1), "{r:?}");
        assert!(r.ops >= 2 * 3 * 500 * r.readers as u64 && r.per_second.median > 0.0, "{r:?}");
        assert_eq!(r.hit_rate, if r.phase == "get-hit" { 1.0 } else { 0.0 }, "{r:?}");
        assert_eq!(r.to_one.map(|s| s.pairs), (r.readers > 1).then_some(2), "{r:?}");
        let writes = r.writes_per_second.as_ref();
        assert_eq!(writes.map(|w| w.median > 0.0), (r.writers > 0).then_some(true), "{r:?}");
    }
    // One result a store and phase, as without the option.
    assert_eq!(report.results.len(), 4 * 3 + 3);
    let told = |what: &str| report.notes.iter().any(|note| note.starts_with(what));
    assert!(told("'--processes --with-writer' leaves out constant, redb: "), "{:?}", report.notes);
    assert!(told("'--threads --with-writer' leaves out constant: "), "{:?}", report.notes);
    let sharing: Vec<&str> = report.stores.iter().map(|store| &*store.sharing).collect();
    assert_eq!(sharing, ["readers", "writer", "writer", "readers"]);
    assert!(report.stores.iter().all(|store| store.threads == "shared"));
}

#[test]
fn several_threads_commit_to_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, out) = (folder.path().join("stores"), folder.path().join("out.json"));
    std::fs::create_dir(&dir).unwrap();
    let done = bench(&[
        "--stores=constant,hash,btree,redb",
        "--records=300",
        "--rounds=2",
        "--phases=insert-sync",
        "--threads=3",
        &format!("--dir={}", dir.display()),
        &format!("--json={}", out.display()),
    ]);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "files were left behind");
    let said = text(&done.stdout);
    assert!(said.contains("Several threads committing to one store"), "{said}");
    assert!(!said.contains("Several readers"), "{said}");
    let report = json_report(&out);
    let found: Vec<_> = report.together.iter().map(|r| (&*r.store, r.readers)).collect();
    let stores = ["hash", "btree", "redb"];
    assert_eq!(found, stores.map(|store| [(store, 1), (store, 3)]).concat());
    for r in &report.together {
        assert!(r.verified && r.rounds == 2 && r.ops == 600, "{r:?}");
        assert_eq!((&*r.phase, &*r.class, &*r.by), ("insert-sync", "sync", "threads"));
        assert!(r.per_second.median > 0.0 && r.syncs_per_change.is_some_and(|s| s > 0.0), "{r:?}");
        assert_eq!(r.to_one.map(|s| s.pairs), (r.readers > 1).then_some(2), "{r:?}");
    }
    assert_eq!(report.results.len(), 3);
    assert!(
        report.notes.iter().all(|note| !note.starts_with("'--threads' ")),
        "{:?}",
        report.notes
    );
}

#[test]
fn rivals_are_read_beside_a_writer_with_the_locks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, out) = (folder.path().join("stores"), folder.path().join("out.json"));
    std::fs::create_dir(&dir).unwrap();
    let json = format!("--json={}", out.display());
    assert!(bench(&["--list", &json]).status.success());
    let list: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let found = |name: &&str| {
        list.as_array().unwrap().iter().any(|c| c["store"] == **name && c["found"] == true)
    };
    let rivals = ["lmdb", "mdbx", "sqlite", "tdb", "ntdb", "tdb2", "mdbm", "leveldb", "tkrzw"];
    let stores: Vec<&str> = rivals.into_iter().filter(found).collect();
    if stores.is_empty() {
        println!("skipped: none of {rivals:?} is installed");
        return;
    }
    let done = bench(&[
        &format!("--stores={}", stores.join(",")),
        "--records=300",
        "--gets=300",
        "--rounds=1",
        "--phases=get-hit",
        "--processes=2",
        "--threads=2",
        "--with-writer",
        &format!("--dir={}", dir.display()),
        &json,
    ]);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    let report = json_report(&out);
    for info in &report.stores {
        let groups = report.together.iter().filter(|r| r.store == info.store && r.writers == 1);
        let groups: Vec<_> = groups.map(|r| (&*r.by, r.readers)).collect();
        let [mut expected, threads] = ["processes", "threads"].map(|by| vec![(by, 1), (by, 2)]);
        expected.retain(|_| info.sharing == "writer");
        expected.extend(threads.into_iter().filter(|_| info.writer_thread));
        assert!(!groups.is_empty() && groups == expected, "{}: {groups:?}", info.store);
    }
}

#[test]
fn a_rate_is_that_of_all_who_read_together() {
    let folder = tempfile::tempdir().unwrap();
    let [out, csv] = ["out.json", "out.csv"].map(|name| folder.path().join(name));
    let done = bench(&[
        "--stores=hash,btree",
        "--records=200",
        "--gets=300",
        "--rounds=2",
        "--phases=get-miss,get-many-hit",
        "--rate=1e5",
        "--rate-seconds=0.001",
        "--threads=3",
        "--processes=2",
        "--with-writer",
        &format!("--dir={}", folder.path().display()),
        &format!("--json={}", out.display()),
        &format!("--csv={}", csv.display()),
    ]);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    assert!(said.contains("get-miss, 3 threads ") && said.contains("get-miss, 1 proc + writer "));
    let report = json_report(&out);
    // One and three threads, one and two processes, with and without a writer, two phases, two stores.
    assert_eq!(report.together.len(), 4 * 2 * 2 * 2);
    for r in &report.together {
        assert_eq!(r.at_rate.is_some(), r.phase == "get-miss", "{r:?}");
        let Some(at) = &r.at_rate else { continue };
        // A hundred lookups in a thousandth of a second, of all together, in each of two rounds.
        assert_eq!((at.ops, at.reached.samples.len(), at.per_second), (200, 2, 1e5), "{r:?}");
        assert!(at.verified && r.verified && at.latency_ns.p50 > 0, "{r:?}");
    }
    let csv = std::fs::read_to_string(&csv).unwrap();
    let columns = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let place =
        columns(csv.lines().next().unwrap()).iter().position(|name| name == "rate").unwrap();
    let of_threads = csv.lines().map(columns).filter(|line| line.contains(&"threads".to_owned()));
    let rates: Vec<String> = of_threads.map(|line| line[place].clone()).collect();
    assert_eq!(rates.iter().filter(|rate| *rate == "100000").count(), 2 * 2 * 2, "{rates:?}");
}
