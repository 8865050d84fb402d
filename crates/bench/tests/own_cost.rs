//! Danger: what the workbench itself takes of an operation is said of some phases and not of others, without a
//! word, so that a reader takes its own work for the store's.

mod common;

use common::{bench, json_report, text};

/// The phases of a small run of btree, and those of the store that does nothing.
fn phases(args: &[&str]) -> [Vec<String>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let paths = [format!("--dir={}", folder.path().display()), format!("--json={}", out.display())];
    let usual = ["--stores=btree", "--rounds=1", "--records=200"];
    let done = bench(&[&usual[..], &[&*paths[0], &*paths[1]], args].concat());
    let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{args:?}: {said}");
    let report = json_report(&out);
    for cost in &report.workbench {
        // One round, and yet more than one figure: another program disturbs one of them.
        let [lowest, .., highest] = sorted(&cost.samples)[..] else { panic!("{cost:?}") };
        assert!(cost.samples.len() == 3 && lowest > 0.0, "{cost:?}");
        assert_eq!(cost.lowest_ns_per_op, Some(lowest), "{cost:?}");
        assert!((lowest..=highest).contains(&cost.ns_per_op), "{cost:?}");
    }
    [
        report.results.into_iter().map(|result| result.phase).collect(),
        report.workbench.into_iter().map(|cost| cost.phase).collect(),
    ]
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Danger: what several do at once is said to be the store's, as there is no figure of the workbench for it.
#[test]
fn what_several_do_at_once_has_its_own_cost_too() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.json");
    let paths = [format!("--dir={}", folder.path().display()), format!("--json={}", out.display())];
    let phases = "--phases=get-hit,mixed,insert-sync";
    let usual = ["--stores=btree", "--rounds=1", "--records=200", "--gets=300", phases];
    let several = ["--threads=2", "--processes=2", &*paths[0], &*paths[1]];
    let done = bench(&[&usual[..], &several].concat());
    let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{said}");
    let report = json_report(&out);
    let of_store = report.together.iter().map(|r| (&*r.phase, &*r.by, r.readers));
    let costs = report.workbench.iter();
    let of_workbench: Vec<_> =
        costs.filter_map(|cost| Some((&*cost.phase, cost.by.as_deref()?, cost.readers?))).collect();
    assert_eq!(of_store.count(), 12, "{said}");
    for row in &report.together {
        let row = (&*row.phase, &*row.by, row.readers);
        assert!(of_workbench.contains(&row), "{row:?} in {of_workbench:?}");
    }
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(words.join(" ").contains("get-hit, 2 threads: "), "{said}");
}

#[test]
fn every_phase_has_the_cost_of_the_workbench_itself() {
    for args in [
        &["--gets=100", "--phases=mixed", "--transactions=10"][..],
        &["--gets=100", "--phases=mixed", "--transactions=all"],
        &["--gets=100", "--phases=mixed", "--sync"],
        &["--gets=100", "--phases=mixed", "--sync", "--transactions=10"],
        &["--gets=100", "--phases=mixed", "--reopen"],
        &["--gets=100", "--workload=ycsb-d", "--phases=mixed", "--duplicates=last"],
        &[
            "--gets=100",
            "--workload=ycsb-e",
            "--phases=mixed",
            "--duplicates=first",
            "--transactions=10",
        ],
        &["--phases=insert-sync,insert-each"],
        // All that are measured when nobody says.
        &["--gets=100"],
    ] {
        let [of_store, of_workbench] = phases(args);
        assert!(!of_store.is_empty(), "{args:?}");
        assert_eq!(of_workbench, of_store, "{args:?}");
    }
}
