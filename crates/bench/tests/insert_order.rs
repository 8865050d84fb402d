//! Danger: records come in another order than the one that a report says, or results of two orders are taken for
//! the same work.

mod common;

use common::{bench, bench_workload, json_report, text};
use credenza::record::{Action, Key, Trace};
use credenza::stats::Operation;
use std::path::Path;

const FILE: &str = "data = \"tokens\"\nrecords = 400\ngets = 300\n\
    phases = [\"build\", \"get-hit\", \"insert\", \"insert-each\", \"insert-sync\", \"reinsert\", \"mixed\"]\n\
    [mix]\nget = 1\ninsert = 3\nremove = 1\n";

/// The keys that a trace stores.
fn inserted(trace: &Path) -> Vec<Key> {
    let trace = Trace::open(trace).unwrap();
    let entries = trace.entries().map(|entry| entry.unwrap());
    let inserts = entries.filter(|e| e.action == Action::Operation(Operation::Insert));
    inserts.map(|entry| entry.key.unwrap()).collect()
}

#[test]
fn our_engines_take_records_in_the_order_that_every_output_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let option = |name: &str| format!("--{name}={}", path(name).display());
    let outputs = ["tee", "csv", "html"].map(option);
    let outputs = outputs.each_ref().map(String::as_str);
    let usual = ["--stores=constant,hash,btree", "--rounds=1", "--threads=2", "--metrics=none"];
    let args = [&usual[..], &["--insert-order=descending"], &outputs].concat();
    let (done, run) = bench_workload(FILE, &args);
    let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
    assert!(done.status.success() && said.contains("inserts: keys descending"), "{said}");
    let json = run.path().join("out.json");
    let report = json_report(&json);
    let of = |store: &str| {
        let results = report.results.iter().filter(|r| r.store == store && r.verified);
        results.map(|r| &*r.phase).collect::<Vec<_>>()
    };
    let all = ["build", "get-hit", "insert", "insert-each", "insert-sync", "reinsert", "mixed"];
    assert_eq!((of("constant"), of("btree")), (all[..2].to_vec(), all.to_vec()));
    let without_transactions: Vec<&str> =
        all.into_iter().filter(|phase| *phase != "insert-each").collect();
    assert!([&all[..], &without_transactions].contains(&&of("hash")[..]), "{:?}", of("hash"));
    assert!(report.together.iter().any(|r| r.phase == "insert-sync" && r.readers == 2));
    assert!(report.together.iter().all(|r| r.verified));
    assert_eq!(report.settings.insert_order, "descending");
    let [csv, html] = ["csv", "html"].map(|name| std::fs::read_to_string(path(name)).unwrap());
    let line = csv.lines().find(|line| line.starts_with("btree,at-close,insert,")).unwrap();
    assert!(line.contains(",descending,"), "{line}");
    assert!(html.contains("inserts: keys descending"));

    let keys = inserted(&path("tee"));
    let (filled, of_mix) = keys.split_at(400);
    assert!(of_mix.len() > 100, "{}", of_mix.len());
    for keys in [filled, of_mix] {
        assert!(keys.windows(2).all(|pair| pair[0] > pair[1]));
    }

    // Given is what it is without the option, and not the same work.
    let (done, given) = bench_workload(FILE, &["--stores=btree", "--rounds=1", "--metrics=none"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let other = given.path().join("out.json");
    assert_eq!(json_report(&other).settings.insert_order, "given");
    let [before, after] = [&other, &json].map(|path| path.display().to_string());
    let refused = bench(&["compare", &before, &after]);
    let why = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(111), "{why}");
    assert!(why.contains("order of inserts: 'given' before, 'descending' after"), "{why}");
    assert_eq!(bench(&["compare", &after, &after]).status.code(), Some(0));
}

#[test]
fn a_workload_file_has_an_order_which_the_option_overrides_and_the_oracle_goes_by() {
    let file = format!("insert-order = \"clustered:run=7\"\n{FILE}");
    let quick = ["--stores=btree", "--rounds=1", "--phases=insert", "--metrics=none"];
    for (more, order) in [(None, "clustered:run=7"), (Some("--insert-order=random"), "random")] {
        let args: Vec<&str> = quick.into_iter().chain(more).collect();
        let (done, folder) = bench_workload(&file, &args);
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(json_report(&folder.path().join("out.json")).settings.insert_order, order);
    }
    let args = ["--oracle", "--stores=btree,hash", "--insert-order=zipfian:theta=0.8"];
    let folder = tempfile::tempdir().unwrap();
    let workload = folder.path().join("mine.toml");
    std::fs::write(&workload, file).unwrap();
    let workload = format!("--workload={}", workload.display());
    let dir = format!("--dir={}", folder.path().display());
    let done = bench(&[&[&*workload, &*dir], &args[..]].concat());
    assert!(text(&done.stdout).contains("btree, hash agree"), "{}", text(&done.stderr));
}

#[test]
fn orders_that_contradict_what_is_asked_for_or_do_nothing_are_refused() {
    let kept = tempfile::tempdir().unwrap();
    let open = format!("--open={}", kept.path().display());
    for (args, says) in [
        (
            &["--insert-order=uniform"][..],
            "there is no order 'uniform' to insert in; there are given",
        ),
        (&["--insert-order=clustered:run=0"], "run must be at least 1"),
        (&["--insert-order=random", "--phases=insert-random"], "insert-random has its own"),
        (&["--insert-order=given", "--phases=insert-each"], "store at random where"),
        (&["--insert-order=random", "--phases=get-hit,mixed", &open], "stores are opened (--open)"),
        (&["--insert-order=random", "--cold", &open], "stores are opened (--open)"),
    ] {
        let done = bench(args);
        let why = text(&done.stderr);
        assert!(done.status.code() == Some(111) && why.contains(says), "{args:?}: {why}");
    }
    let numbered = "data = \"random\"\nkey-type = \"record-number32\"\nphases = [\"insert\"]\n";
    let (done, _) = bench_workload(numbered, &["--stores=btree", "--insert-order=descending"]);
    let why = text(&done.stderr);
    assert!(why.contains("contradicts keys of type record-number32"), "{why}");
    let (done, _) = bench_workload(
        &format!("records = 100\n{numbered}"),
        &["--stores=btree", "--insert-order=given", "--rounds=1", "--metrics=none"],
    );
    assert!(done.status.success(), "{}", text(&done.stderr));
}
