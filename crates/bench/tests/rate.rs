//! Danger: changes at a rate, or latencies of a mix by threads, are left out of a report, or of one of its
//! forms; a run that was to measure throughput alone measures more, or one that contradicts itself begins.

use credenza_bench::result::Report;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;

fn bench(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_credenza-bench");
    Command::new(program).args(args).output().expect("the workbench does not start")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a run in this folder prints, and its report; there is `out.csv` as well, and `out.html`.
fn run(folder: &Path, args: &[&str]) -> (String, Report) {
    let file = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
    let [json, csv] = [file("json", "out.json"), file("csv", "out.csv")];
    let [html, dir] = [file("html", "out.html"), file("dir", "stores")];
    let _ = std::fs::create_dir(folder.join("stores"));
    let usual = ["--records=200", "--gets=300", &json, &csv, &html, &dir];
    let done = bench(&[&usual[..], args].concat());
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    let report = std::fs::read(folder.join("out.json")).unwrap();
    (said, serde_json::from_slice(&report).unwrap())
}

/// How many lines of a table have this in these columns.
fn lines(csv: &str, wanted: &[(&str, &str)]) -> usize {
    let columns = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let heads = columns(csv.lines().next().unwrap());
    let place = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let is_wanted =
        |line: &Vec<String>| wanted.iter().all(|(name, field)| line[place(name)] == *field);
    csv.lines().map(columns).filter(is_wanted).count()
}

#[test]
fn changes_at_a_rate_are_in_every_form_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let (said, report) = run(
        folder.path(),
        &[
            "--stores=hash,btree",
            "--rounds=3",
            "--phases=mixed,insert-sync",
            "--rate=1e5",
            "--rate-seconds=0.001",
            "--threads=1,3..3",
        ],
    );
    let alone = ["insert-sync", "mixed", "mixed: update", "insert-sync, 1 thread"];
    let threads = ["insert-sync, 3 threads", "mixed, 1 thread: get", "mixed, 3 threads"];
    for phase in alone.into_iter().chain(threads).chain(["mixed, 3 threads: remove"]) {
        assert!(said.contains(&format!(" {phase} ")), "{phase}: {said}");
    }
    assert!(said.contains("\nLatencies of a mix by processes or threads\n"), "{said}");
    assert_eq!(report.results.len(), 4);
    for r in &report.results {
        // A hundred operations in a thousandth of a second, in each of three rounds.
        let at = r.at_rate.as_ref().unwrap();
        assert_eq!((at.ops, at.reached.samples.len(), at.verified), (300, 3, true), "{r:?}");
        assert!(at.latency_ns.p50 > 0 && at.over_time.is_some(), "{r:?}");
        assert_eq!((at.rounds_behind == Some(0), at.by_round.p99.len()), (at.kept_up, 3), "{r:?}");
        let kinds = kinds(&r.phase);
        assert!(at.operation_latency_ns.keys().eq(kinds), "{r:?}");
        assert!(r.operation_latency_ns.keys().eq(kinds), "{r:?}");
    }
    let groups: Vec<_> =
        report.together.iter().map(|r| (&*r.phase, &*r.store, r.readers)).collect();
    let of_phase =
        |phase| [(phase, "hash", 1), (phase, "hash", 3), (phase, "btree", 1), (phase, "btree", 3)];
    assert_eq!(groups, ["insert-sync", "mixed"].map(of_phase).concat());
    for r in &report.together {
        let at = r.at_rate.as_ref().unwrap();
        assert_eq!((at.ops, at.per_second, at.verified), (300, 1e5, true), "{r:?}");
        assert_eq!(
            (r.verified, r.syncs_per_change.is_some()),
            (true, r.phase == "insert-sync"),
            "{r:?}"
        );
        // The same kinds as with one thread, at the rate and without it.
        let kinds = kinds(&r.phase);
        assert!(at.operation_latency_ns.keys().eq(kinds), "{r:?}");
        assert!(r.operation_latency_ns.keys().eq(kinds), "{r:?}");
    }
    let csv = std::fs::read_to_string(folder.path().join("out.csv")).unwrap();
    // A line of figures for each store and number of threads, and one at least over the time.
    for phase in ["insert-sync", "mixed"] {
        let found = lines(&csv, &[("phase", phase), ("rate", "100000")]);
        assert!(found >= 2 * (1 + 2 + 1), "{phase}: {csv}");
    }
    for kind in kinds("mixed") {
        for threads in ["1", "3"] {
            let wanted = [("operation", &**kind), ("readers", threads), ("rate", "100000")];
            assert_eq!(lines(&csv, &wanted), 2, "{csv}");
        }
    }
    let page = std::fs::read_to_string(folder.path().join("out.html")).unwrap();
    // Who cannot keep up has that behind the phase.
    assert!(page.contains(">insert-sync, 3 threads") && page.contains(">mixed: get</td>"));
    assert!(
        page.contains(">mixed, 3 threads: get</td>")
            && page.contains(">mixed, 3 threads: get</h3>")
    );

    // Both runs are one: nothing of it may be called slower.
    let json = folder.path().join("out.json").display().to_string();
    let compared = bench(&["compare", &json, &json]);
    let said = text(&compared.stdout);
    assert_eq!(compared.status.code(), Some(0), "{said}");
    for what in ["insert-sync, 3 threads", "mixed, 3 threads", "At a rate: latencies"] {
        assert!(said.contains(what), "{what}: {said}");
    }
}

/// The kinds of operations that a phase has latencies of.
fn kinds(phase: &str) -> &'static [String] {
    static KINDS: LazyLock<[String; 3]> =
        LazyLock::new(|| ["get", "remove", "update"].map(str::to_owned));
    if phase == "mixed" { &*KINDS } else { &[] }
}

#[test]
fn throughput_alone_has_no_latencies_and_nothing_over_time() {
    let folder = tempfile::tempdir().unwrap();
    let phases = "--phases=get-hit,get-many-hit,range,mixed,insert-sync,insert-random";
    let usual = ["--stores=btree", "--rounds=1", phases];
    for (metrics, is_all) in [("none", false), ("default", true)] {
        let chosen = format!("--metrics={metrics}");
        let (_, report) = run(folder.path(), &[&usual[..], &[&chosen]].concat());
        assert_eq!((&*report.settings.metrics, report.results.len()), (metrics, 6));
        for r in &report.results {
            assert!(r.verified && r.ns_per_op.median > 0.0 && r.effort.operations > 0, "{r:?}");
            assert_eq!(r.latency_ns.is_some(), is_all && r.phase != "mixed", "{r:?}");
            assert_eq!(!r.operation_latency_ns.is_empty(), is_all && r.phase == "mixed", "{r:?}");
            assert_eq!(r.over_time.is_some(), is_all, "{r:?}");
            // `compare` judges by the rounds, and by how many were timed.
            let kinds = r.operation_latency_ns.values().zip(r.operation_latency_by_round.values());
            let all = r.latency_ns.iter().map(|latency| (latency, &r.latency_by_round));
            for (latency, rounds) in all.chain(kinds) {
                assert!(latency.count > 0 && rounds.p50 == [latency.p50], "{r:?}");
                assert!(rounds.p99 == [latency.p99], "{r:?}");
            }
            let names = r.operation_latency_by_round.keys();
            assert!(names.eq(r.operation_latency_ns.keys()), "{r:?}");
        }
    }
}

#[test]
fn what_contradicts_itself_is_refused_in_a_sentence() {
    for (args, status, what) in [
        (&["--rate=5", "--phases=build,reinsert"][..], 111, "--rate is for get-hit"),
        (&["--rate=5", "--phases=insert-each"], 111, "mixed and insert-sync"),
        (&["--rate=5", "--phases=get-many-hit,range"], 111, "no batch of 32 lookups would begin"),
        (&["--rate=5", "--phases=get-many-hit", "--batch=32"], 111, "say a smaller --batch"),
        (&["--rate=5", "--metrics=none"], 111, "--metrics none contradicts --rate"),
        (&["--rate=5", "--phases=mixed", "--cold"], 2, "cannot be used with"),
        (&["--metrics=none", "--oracle"], 2, "cannot be used with"),
        (&["--metrics=most"], 2, "invalid value 'most'"),
    ] {
        let done = bench(args);
        assert_eq!(done.status.code(), Some(status), "{args:?}");
        assert!(text(&done.stderr).contains(what), "{args:?}: {}", text(&done.stderr));
    }
}
