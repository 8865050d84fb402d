//! Danger: one bad phase of one store costs the figures of all its other phases, or one bad store
//! those of the others. The measured processes are scripts here, which crash where a test wants it.

use super::protocol::Sample;
use super::together::Group;
use super::*;
use crate::workload::Mixes;
use clap::Parser;
use indicatif::ProgressBar;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    bench: BenchArgs,
}

/// A shell script that measures what it is asked for: it reads its work, and answers a sample of `scan`
/// where that is asked for. Before that it does `otherwise` where `get-hit` is asked for.
fn script(otherwise: &str) -> String {
    let sample = Sample { ns_per_op: 7.0, ..Sample::new(Phase::Scan, 1) };
    let sample = serde_json::to_string(&Message::Measured(Box::new(sample))).unwrap();
    format!(
        "spec=$(cat); case $spec in *'\"get-hit\"'*) echo '{{\"Started\":\"get-hit\"}}'; {otherwise};; \
         esac; echo '{{\"Started\":\"scan\"}}'; echo '{sample}'; echo '\"Finished\"'"
    )
}

/// The phases that are left after a round of a store that is this script; what failed, and how many
/// samples there are.
fn round_of(script: &str) -> (Vec<Phase>, Vec<String>, usize) {
    let (entrant, failures, results) = entrant_after(script);
    (entrant.left, failures, results)
}

fn entrant_after(script: &str) -> (Entrant, Vec<String>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let args = Arguments::parse_from(["bench", "--timeout=600", "--dir", dir]).bench;
    let run_folder = Folder::create_in(&args.folder()).unwrap();
    let mut run = Run {
        args: &args,
        phases: Phase::ALL.to_vec(),
        cpu: None,
        clock_ns: 0.0,
        class: "buffered",
        inputs: PathBuf::new(),
        groups: None,
        made_in: None,
        failures: Vec::new(),
        left_out: Vec::new(),
        samples: Samples::default(),
        again: Samples::default(),
        shared: Shared::default(),
        own: OwnCosts::default(),
    };
    let workload = Workload::find("decimal").unwrap();
    let left = vec![Phase::GetHit, Phase::Scan];
    let mut entrant = Entrant { store: "hash".into(), again: false, left, failed: Vec::new() };
    let program = Program::of_script(script);
    let bar = ProgressBar::hidden();
    let work = Work { workload: &workload, folder: &run_folder, program: &program, bar: &bar };
    run.one(&mut entrant, 0, &work).unwrap();
    let said = |f: &Failure| format!("{} {}", f.phase.as_deref().unwrap_or("start"), f.status);
    let failures = run.failures.iter().map(said).collect();
    let info = StoreInfo { store: "hash".into(), ..StoreInfo::default() };
    let results =
        run.samples.results(&Phase::ALL, &[info], "buffered", &Mixes::default(), 16.0, None);
    (entrant, failures, results.len())
}

#[test]
fn what_follows_a_crash_is_measured_all_the_same() {
    let failed = |status: &str| vec![format!("get-hit {status}")];
    let sample = Sample { ns_per_op: 5.0, ..Sample::new(Phase::GetHit, 1) };
    let sample = serde_json::to_string(&Message::Measured(Box::new(sample))).unwrap();
    let measures = script(&format!("echo '{sample}'"));
    assert_eq!(round_of(&measures), (vec![Phase::GetHit, Phase::Scan], vec![], 2));
    assert_eq!(round_of(&script("kill -SEGV $$")), (vec![Phase::Scan], failed("crashed"), 1));
    let refuses = "echo '{\"Refused\":[\"get-hit\",\"no\"]}'";
    assert_eq!(round_of(&script(refuses)), (vec![Phase::Scan], failed("error"), 1));
}

/// As where a library writes to the same place.
#[test]
fn a_phase_of_which_nothing_more_is_heard_has_failed() {
    let lost = |phase: &str| vec![format!("{phase} error")];
    assert_eq!(round_of(&script("true")), (vec![Phase::Scan], lost("get-hit"), 1));
    let (left, failures, results) = round_of(&script("true").replace("{\"Measured", "{\"Mea"));
    assert_eq!((left, results), (vec![], 0));
    assert_eq!(failures, [lost("get-hit"), lost("scan")].concat());
}

/// What several do at one store comes after all phases, and costs none of them their figures.
#[test]
fn a_group_that_fails_is_taken_away_and_no_phase_is() {
    let two = Group { phase: Phase::GetHit, by: By::Threads, readers: 2, with_writer: false };
    let [group, failed] = [Message::Gathered(two), Message::Dispersed(two, "no".to_owned())]
        .map(|message| serde_json::to_string(&message).unwrap());
    for (ends, status) in [
        (format!("echo '{failed}'; echo '\"Finished\"'"), "error"),
        ("echo '\"Finished\"'".to_owned(), "error"),
        ("kill -SEGV $$".to_owned(), "crashed"),
        ("echo '{\"Failed\":\"no\"}'".to_owned(), "error"),
    ] {
        let script = script("exit 9").replace("'\"get-hit\"'", "'none'");
        let script = script.replace("echo '\"Finished\"'", &format!("echo '{group}'; {ends}"));
        let (entrant, failures, results) = entrant_after(&script);
        assert_eq!(entrant.left, [Phase::GetHit, Phase::Scan], "{ends}");
        assert_eq!((entrant.failed, results), (vec![two], 1), "{ends}");
        assert_eq!(failures, [format!("get-hit {status}")], "{ends}");
    }
}

#[test]
fn a_store_that_cannot_begin_is_given_up() {
    let (left, failures, results) = round_of("echo '{\"Failed\":\"no library\"}'");
    assert_eq!((left, results), (vec![], 0));
    assert_eq!(failures, ["start error"]);
    assert_eq!(round_of("exit 3").1, ["start crashed"]);
}

/// A store that is measured against itself is two in a round, and what it cannot do is told once all the same.
#[test]
fn what_fails_in_one_of_a_store_that_is_there_twice_is_left_out_of_both() {
    let entrant = |store: &str, again, left: &[Phase]| Entrant {
        store: store.to_owned(),
        again,
        left: left.to_vec(),
        failed: Vec::new(),
    };
    let (all, own) = ([Phase::GetHit, Phase::Scan, Phase::Remove], [Phase::GetHit, Phase::Scan]);
    let after = |one: usize, left: &[Phase]| {
        let mut entrants = [
            entrant("hash", false, &all),
            entrant("btree", false, &all),
            entrant("hash", true, &own),
        ];
        let due = std::mem::replace(&mut entrants[one].left, left.to_vec());
        round::share_failures(&mut entrants, one, &due);
        entrants.map(|entrant| entrant.left)
    };
    let btree = all.to_vec();
    let scan = vec![Phase::Scan];
    assert_eq!(after(0, &all[1..]), [all[1..].to_vec(), btree.clone(), scan.clone()]);
    assert_eq!(after(2, &scan), [all[1..].to_vec(), btree.clone(), scan]);
    assert_eq!(after(0, &[]), [vec![], btree.clone(), vec![]]);
    assert_eq!(after(0, &all), [all.to_vec(), btree, own.to_vec()]);
}

/// Danger: one moment of another program is printed as what the workbench takes.
#[test]
fn the_workbench_itself_is_measured_several_times_between_the_rounds() {
    for (rounds, before) in [
        (1, vec![3]),
        (2, vec![2, 1]),
        (3, vec![1; 3]),
        (5, vec![1; 5]),
        (10, vec![1, 0, 1, 0, 1, 0, 1, 0, 1, 0]),
    ] {
        let seen: Vec<usize> = (0..rounds).map(|round| own_costs_before(round, rounds)).collect();
        assert_eq!(seen, before, "{rounds} rounds");
    }
    let mut own = OwnCosts::default();
    for ns in [8.0, 29.0, 9.0] {
        let sample = Sample { ns_per_op: ns, taken: 20, ..Sample::new(Phase::Mixed, 10) };
        own.add(summary::own_cost(&sample));
        own.add(summary::own_cost(&Sample { ns_per_op: 1.0, ..Sample::new(Phase::Scan, 1) }));
    }
    let costs = own.results();
    let [mixed, scan] = &costs[..] else { panic!("{costs:?}") };
    assert_eq!((mixed.ns_per_op, mixed.lowest_ns_per_op), (9.0, Some(8.0)));
    assert_eq!((mixed.ns_per_record, &mixed.samples[..]), (Some(4.5), &[8.0, 29.0, 9.0][..]));
    assert_eq!((scan.ns_per_op, scan.samples.len()), (1.0, 3));
}
