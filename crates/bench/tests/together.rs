//! Danger: several processes or threads at one store are counted wrongly, read what nobody stored, or are
//! refused where they may. The workbench is run as its users run it.

mod common;

use common::{bench, bench_workload, json, json_report, text};

/// Those of these rivals that are installed.
fn found<'a>(rivals: &[&'a str]) -> Vec<&'a str> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("list.json");
    assert!(bench(&["--list", &format!("--json={}", out.display())]).status.success());
    let list = json(&out);
    let is_found = |name: &&str| {
        list.as_array().unwrap().iter().any(|c| c["store"] == **name && c["found"] == true)
    };
    rivals.iter().copied().filter(is_found).collect()
}

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
        // redb has no call for many keys.
        assert_eq!(r.native, (&*r.store, &*r.phase) != ("redb", "get-many-miss"), "{r:?}");
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

/// The store was synced when it was built; what is changed in it afterwards is not.
#[test]
fn lookups_beside_a_writer_have_the_class_of_its_changes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let done = bench(&[
        "--stores=hash,btree",
        "--records=200",
        "--gets=200",
        "--rounds=1",
        "--phases=build,get-hit",
        "--threads=1",
        "--with-writer",
        "--sync",
        &format!("--json={}", out.display()),
    ]);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    let report = json_report(&out);
    assert_eq!(report.together.len(), 4);
    for r in &report.together {
        assert_eq!(r.class, ["sync", "buffered"][r.writers], "{r:?}");
    }
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
    assert!(said.contains("Several processes or threads committing to one store"), "{said}");
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

/// Two mixes, of which the second begins with what the first has left, whoever of the threads left it.
#[test]
fn several_threads_do_the_operations_of_mixes_at_one_store() {
    let mixes = "data = \"tokens\"\nrecords = 100\ngets = 5000\nphases = [\"mixed-busy\"]\n\
                [[mix]]\nname = \"load\"\ninsert = 3\nremove = 1\noperations = 400\n\
                [[mix]]\nname = \"busy\"\nget = 3\nupdate = 2\nread-modify-write = 1\n\
                distribution = \"latest\"\n";
    let stores = [vec!["hash", "btree", "redb"], found(&["lmdb", "sqlite", "bdb-btree"])].concat();
    let names = format!("--stores={},constant", stores.join(","));
    let options = [&*names, "--rounds=1", "--threads=3", "--metrics=none"];
    let (done, folder) = bench_workload(mixes, &options);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    assert!(said.contains("Mixes by several processes or threads at one store"), "{said}");
    assert!(!said.contains("Several readers") && !said.contains("committing"), "{said}");
    let report = json_report(&folder.path().join("out.json"));
    let all: Vec<_> = report.together.iter().map(|r| (&*r.store, r.readers)).collect();
    let expected = stores.iter().flat_map(|store| [(*store, 1), (*store, 3)]);
    assert_eq!(all, expected.collect::<Vec<_>>());
    // Threads find as many keys as one does without them.
    let alone = report.results[0].hit_rate.unwrap();
    for r in &report.together {
        assert!(r.verified && r.rounds == 1 && r.per_second.median > 0.0, "{r:?}");
        assert_eq!((&*r.phase, r.ops, r.hit_rate), ("mixed-busy", 5000, alone), "{r:?}");
        assert_eq!((&*r.class, &*r.by), ("buffered", "threads"), "{r:?}");
        assert_eq!(r.to_one.map(|s| s.pairs), (r.readers > 1).then_some(1), "{r:?}");
        assert!(r.operation_latency_ns.is_empty() && r.at_rate.is_none(), "{r:?}");
    }
    assert!(!said.contains("Latencies"), "{said}");
}

/// The syncs are those of the threads, for a change and not for an operation, in stores filled without them.
#[test]
fn several_threads_do_a_synced_mix_at_a_rate_and_without() {
    let mixes = "data = \"tokens\"\nrecords = 200\ngets = 300\nphases = [\"mixed\"]\n\
                [mix]\nget = 9\nupdate = 1\nsync = true\n";
    let stores = [vec!["hash", "btree", "redb"], found(&["leveldb", "bdb-btree"])].concat();
    let names = format!("--stores={},constant", stores.join(","));
    let options = [&*names, "--rounds=1", "--threads=3", "--rate=2000", "--rate-seconds=0.1"];
    let (done, folder) = bench_workload(mixes, &options);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    let report = json_report(&folder.path().join("out.json"));
    let all: Vec<_> = report.together.iter().map(|r| (&*r.store, r.readers)).collect();
    let expected = stores.iter().flat_map(|store| [(*store, 1), (*store, 3)]);
    assert_eq!(all, expected.collect::<Vec<_>>());
    for r in &report.together {
        assert_eq!((&*r.class, r.verified, r.ops), ("sync", true, 300), "{r:?}");
        assert!(r.at_rate.as_ref().is_some_and(|at_rate| at_rate.verified), "{r:?}");
        // Of an operation it would be a tenth, and with what fills the store several more.
        let syncs = r.syncs_per_change.unwrap();
        assert!((0.3..4.0).contains(&syncs), "{}: {syncs}", r.store);
    }
    assert!(report.results.iter().all(|r| r.class == "sync"), "{said}");
    let why = "'mixed' leaves out constant: they are built once and never changed";
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(why), "{said}");
    let compared = bench(
        &["compare", "out.json", "out.json"]
            .map(|name| match name {
                "compare" => name.to_owned(),
                _ => folder.path().join(name).display().to_string(),
            })
            .each_ref()
            .map(String::as_str),
    );
    assert!(compared.status.success(), "{}", text(&compared.stderr));
}

/// Each process opens the store itself. A rival takes part with its locks.
#[test]
fn several_processes_commit_to_one_store_and_do_the_operations_of_a_mix() {
    let mix = "data = \"tokens\"\nrecords = 200\ngets = 1200\nphases = [\"insert-sync\", \"mixed\"]\n\
               [mix]\nget = 3\nupdate = 2\ninsert = 1\nremove = 1\n";
    let stores = [vec!["hash", "btree"], found(&["lmdb", "sqlite", "tdb"])].concat();
    let unsynced = found(&["ntdb", "tdb2", "mdbm"]);
    let names = format!("--stores={},redb", [&stores[..], &unsynced].concat().join(","));
    let options = [&*names, "--rounds=1", "--processes=2", "--rate=1e5", "--rate-seconds=0.002"];
    let (done, folder) = bench_workload(mix, &options);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    for what in ["committing to one store", " 1 proc ", " 2 procs ", "mixed, 2 procs: update "] {
        assert!(said.contains(what), "{what}: {said}");
    }
    let report = json_report(&folder.path().join("out.json"));
    let all: Vec<_> = report.together.iter().map(|r| (&*r.phase, &*r.store, r.readers)).collect();
    let rows = |phase, store: &&'static str| [(phase, *store, 1), (phase, *store, 2)];
    let of_phase = |phase, stores: &[&'static str]| {
        stores.iter().flat_map(|s| rows(phase, s)).collect::<Vec<_>>()
    };
    let mixing = [&stores[..], &unsynced].concat();
    assert_eq!(all, [of_phase("insert-sync", &stores), of_phase("mixed", &mixing)].concat());
    let alone = report.results.iter().find(|r| r.phase == "mixed").unwrap().hit_rate.unwrap();
    for r in &report.together {
        assert!(r.verified && &*r.by == "processes" && r.per_second.median > 0.0, "{r:?}");
        assert!(r.at_rate.as_ref().is_some_and(|at| at.verified && at.ops == 200), "{r:?}");
        let (class, ops, hits) = match &*r.phase {
            "mixed" => ("buffered", 1200, alone),
            _ => ("sync", 200, 0.0),
        };
        assert_eq!((&*r.class, r.ops, r.hit_rate), (class, ops, hits), "{r:?}");
        assert_eq!(r.operation_latency_ns.len(), if class == "sync" { 0 } else { 4 }, "{r:?}");
        // Each process counts its own.
        assert_eq!(r.syncs_per_change.is_some_and(|s| s > 0.4), class == "sync", "{r:?}");
    }
    let takes_part = |store: &str| report.stores.iter().find(|s| s.store == store).unwrap();
    assert!(takes_part("hash").committing_processes && !takes_part("redb").committing_processes);
    for what in
        ["'insert-sync --processes' leaves out redb: ", "'mixed --processes' leaves out redb: "]
    {
        assert!(report.notes.iter().any(|note| note.starts_with(what)), "{:?}", report.notes);
    }
    let json = folder.path().join("out.json").display().to_string();
    let compared = bench(&["compare", &json, &json]);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
}

/// Danger: a kind of mix is left to one thread, or what several do of it is not what is asked for.
#[test]
fn several_do_whatever_one_does() {
    let mix = |more: &str| {
        format!(
            "data = \"tokens\"\nrecords = 100\ngets = 300\nphases = [\"mixed\"]\n\
             [mix]\nget = 3\ninsert = 1\n{more}"
        )
    };
    let rivals = found(&["lmdb", "bdb-btree"]);
    let ordered = [vec!["btree"], rivals].concat();
    let both = [vec!["hash"], ordered.clone()].concat();
    let (btree, several) = (vec!["btree"], [vec!["btree"], found(&["bdb-btree"])].concat());
    for (more, options, stores) in [
        ("remove = 1\nupdate = 1\ntable-scan = 1\n", &[][..], &both),
        ("remove = 1\nupdate = 1\nscan = 3\n", &[], &ordered),
        ("remove = 1\nupdate = 1\nscan = 3\nsync = true\n", &["--transactions=7"], &ordered),
        ("remove = 1\nupdate = 1\ntable-scan = 1\n", &["--transactions=all", "--reopen"], &both),
        ("remove = 1\nupdate = 1\n", &["--reopen", "--sync"], &both),
        ("remove = 1\nupdate = 1\n", &["--stop-seconds=1"], &btree),
        ("remove = 1\nscan = 1\n", &["--duplicates=last"], &several),
        ("remove = 1\nscan = 1\n", &["--duplicates=first", "--transactions=9"], &several),
        ("remove = 1\n", &["--duplicates=first", "--sync"], &several),
        // Where nothing is removed scans give as many records as one would find alone, at least.
        ("update = 1\nscan = 3\n", &[], &ordered),
        ("update = 1\ntable-scan = 1\n", &[], &both),
    ] {
        let names = format!("--stores={}", stores.join(","));
        let fixed = ["--rounds=1", "--threads=3", "--processes=2", "--metrics=none", &names];
        let (done, folder) = bench_workload(&mix(more), &[&fixed[..], options].concat());
        let said = text(&done.stdout);
        assert!(done.status.success(), "{more}{options:?}: {said}{}", text(&done.stderr));
        let report = json_report(&folder.path().join("out.json"));
        for store in stores {
            let rows = report.together.iter().filter(|r| r.store == *store && r.by == "threads");
            assert_eq!(rows.count(), 2, "{more}{options:?}: {store}");
        }
        let processes = report.together.iter().filter(|r| r.by == "processes").count();
        let have_locks = report.stores.iter().filter(|info| info.committing_processes).count();
        assert_eq!(processes, 2 * have_locks, "{more}{options:?}");
        for r in &report.together {
            assert!(r.verified && r.per_second.median > 0.0, "{more}{options:?}: {r:?}");
        }
    }
}

#[test]
fn what_is_not_for_several_is_refused_with_the_reason() {
    let mixed = ["--stores=hash", "--records=10", "--gets=10", "--threads=2", "--phases=mixed"];
    let done = bench(&[&mixed[..], &["--with-writer"]].concat());
    assert_eq!(done.status.code(), Some(111));
    assert!(text(&done.stderr).contains("are for the get phases"), "{}", text(&done.stderr));
    // Before anything is measured with the first of several numbers of records, which has no folder here.
    let options = ["--records=20,10", "--dir=/nodir", "--with-writer"];
    let done = bench(&[&["--stores=hash", "--threads=2", "--phases=mixed"], &options[..]].concat());
    assert!(text(&done.stderr).contains("are for the get phases"), "{}", text(&done.stderr));
}

#[test]
fn rivals_are_read_beside_a_writer_with_the_locks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, out) = (folder.path().join("stores"), folder.path().join("out.json"));
    std::fs::create_dir(&dir).unwrap();
    let json = format!("--json={}", out.display());
    let rivals = ["lmdb", "mdbx", "sqlite", "tdb", "ntdb", "tdb2", "mdbm", "leveldb", "tkrzw"];
    let stores = found(&rivals);
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
        "--phases=get-miss,get-many-hit,get-chain",
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
    // One and three threads, one and two processes, with and without a writer, three phases, two stores.
    assert_eq!(report.together.len(), 4 * 2 * 3 * 2);
    for r in &report.together {
        assert_eq!(r.at_rate.is_some(), r.phase != "get-chain", "{r:?}");
        let Some(at) = &r.at_rate else { continue };
        // A hundred lookups in a thousandth of a second, of all together, in each of two rounds: in batches as many of
        // these as have them.
        let ops = if r.phase == "get-many-hit" { 2 * 4 * 32 } else { 200 };
        assert_eq!((at.ops, at.reached.samples.len(), at.per_second), (ops, 2, 1e5), "{r:?}");
        assert!(at.verified && r.verified && at.latency_ns.p50 > 0, "{r:?}");
    }
    let csv = std::fs::read_to_string(&csv).unwrap();
    let columns = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let place =
        columns(csv.lines().next().unwrap()).iter().position(|name| name == "rate").unwrap();
    let of_threads = csv.lines().map(columns).filter(|line| line.contains(&"threads".to_owned()));
    let rates: Vec<String> = of_threads.map(|line| line[place].clone()).collect();
    assert_eq!(rates.iter().filter(|rate| *rate == "100000").count(), 2 * 2 * 2 * 2, "{rates:?}");
}
