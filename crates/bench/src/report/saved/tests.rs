//! Danger: a change that made something slower passes, or one that did not is stopped.

use super::*;
use crate::report::{Pen, stats};
use crate::result::{AtRate, Failure, Growth, Latency, Percentiles};

fn fixture() -> Report {
    let bytes = include_bytes!("../../../tests/fixtures/report.json");
    let mut report: Report = serde_json::from_slice(bytes).unwrap();
    let few = ["constant", "cdb", "sparkey", "lmdb"];
    report.results.retain(|r| few.contains(&&*r.store) && !r.phase.contains("-m"));
    report
}

fn of<'a>(report: &'a mut Report, store: &str, phase: &str) -> &'a mut PhaseResult {
    let wanted = |r: &&mut PhaseResult| r.store == store && r.phase == phase;
    report.results.iter_mut().find(wanted).unwrap()
}

/// The figure with all its samples so many times as large.
fn slower(report: &mut Report, store: &str, phase: &str, factor: f64) {
    let result = of(report, store, phase);
    let samples: Vec<f64> = result.ns_per_op.samples.iter().map(|ns| ns * factor).collect();
    result.ns_per_op = stats::summarise(&samples);
}

fn found<'a>(changes: &'a Changes, store: &str, phase: &str) -> &'a Change {
    changes.changes.iter().find(|c| c.store == store && c.phase == phase).unwrap()
}

fn printed(changes: &Changes, before: &Report, after: &Report) -> String {
    let mut out = Vec::new();
    print(changes, before, after, &mut out, &Pen { colour: false, width: 100 }).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_run_against_itself_shows_no_difference() {
    let report = fixture();
    let changes = compare(&report, &report, 5.0).unwrap();
    assert_eq!((changes.regressions, changes.lost.len()), (0, 0));
    assert!(changes.unlike.is_empty() && changes.notes.is_empty(), "{:?}", changes.notes);
    assert_eq!(changes.changes.len(), report.results.len());
    for change in &changes.changes {
        let result = of(&mut fixture(), &change.store, &change.phase).clone();
        let few = result.rounds < 3;
        let expected = match result.verified {
            false => Speed::WrongBefore,
            true if few => Speed::TooFewRounds,
            true => Speed::NoDifference,
        };
        assert_eq!(change.speed, expected, "{change:?}");
    }
    assert!(printed(&changes, &report, &report).contains("Nothing regressed."));
}

#[test]
fn what_became_slower_is_marked_from_the_threshold_on() {
    let (before, mut after) = (fixture(), fixture());
    slower(&mut after, "constant", "get-hit", 1.5);
    slower(&mut after, "constant", "scan", 0.5);
    let changes = compare(&before, &after, 5.0).unwrap();
    assert_eq!(found(&changes, "constant", "get-hit").speed, Speed::Regressed);
    assert_eq!(found(&changes, "constant", "scan").speed, Speed::Faster);
    assert_eq!(changes.regressions, 1);
    let text = printed(&changes, &before, &after);
    assert!(text.contains("REGRESSED\n") && text.contains("1 figure regressed."), "{text}");
    assert!(text.lines().all(|line| line.trim_end() == line));

    let changes = compare(&before, &after, 60.0).unwrap();
    assert_eq!(found(&changes, "constant", "get-hit").speed, Speed::Slower);
    assert_eq!(changes.regressions, 0);
}

#[test]
fn two_rounds_are_too_few_to_judge() {
    let (before, mut after) = (fixture(), fixture());
    slower(&mut after, "constant", "scan", 9.0);
    let result = of(&mut after, "constant", "scan");
    result.ns_per_op = stats::summarise(&result.ns_per_op.samples[..2]);
    let changes = compare(&before, &after, 5.0).unwrap();
    assert_eq!(found(&changes, "constant", "scan").speed, Speed::TooFewRounds);
    assert!(printed(&changes, &before, &after).contains("1 figure not judged"));
}

/// A series with these numbers of records, the last of which is the largest.
fn series(numbers: &[u64]) -> Report {
    let mut report = fixture();
    report.settings.records = *numbers.last().unwrap();
    let (key_bytes, value_bytes) = (report.settings.key_bytes, report.settings.value_bytes);
    let of = |records: &u64| Growth {
        records: *records,
        key_bytes,
        value_bytes,
        results: report.results.clone(),
    };
    report.growth = numbers.iter().map(of).collect();
    report
}

/// What is slower with few records only is slower.
#[test]
fn each_number_of_records_is_compared_by_itself() {
    let before = series(&[100, 1000, 9000]);
    let changes = compare(&before, &before, 5.0).unwrap();
    assert_eq!((changes.regressions, changes.unlike.len()), (0, 0));
    assert_eq!(changes.growth.iter().map(|of| of.records).collect::<Vec<_>>(), [100, 1000]);
    assert!(changes.growth.iter().all(|of| of.changes.len() == before.results.len()));

    let mut after = before.clone();
    let mut small = Report { results: after.growth[0].results.clone(), ..fixture() };
    slower(&mut small, "constant", "get-hit", 1.5);
    small.results.retain(|r| (&*r.store, &*r.phase) != ("lmdb", "build"));
    after.growth[0].results = small.results;
    // What failed with another number of records is not the reason.
    after.failures.push(Failure {
        store: "lmdb".into(),
        round: Some(0),
        phase: Some("build".into()),
        status: "error".into(),
        what: "with 1000 records: no room".into(),
    });
    let changes = compare(&before, &after, 5.0).unwrap();
    assert_eq!(changes.regressions, 2);
    let lost =
        "with 100 records: lmdb, build (buffered): not in the later run, which does not say why";
    assert_eq!(changes.lost, [lost]);
    let regressed = |change: &&Change| change.speed == Speed::Regressed;
    assert_eq!(changes.growth[0].changes.iter().filter(regressed).count(), 1);
    assert_eq!(found(&changes, "constant", "get-hit").speed, Speed::NoDifference);
    let text = printed(&changes, &before, &after);
    let at = |says: &str| text.find(says).unwrap_or_else(|| panic!("'{says}' is not in\n{text}"));
    assert!(
        at("\nWith 100 records\n") < at("REGRESSED\n")
            && at("REGRESSED\n") < at("\nWith 1,000 records\n")
    );

    // What was not asked for again is named, and no regression.
    let less = compare(&before, &series(&[500, 1000, 9000]), 5.0).unwrap();
    assert_eq!(less.regressions, 0);
    assert_eq!(less.left_out, ["with 100 records: not asked for in the later run (--records)"]);
    assert!(less.notes.contains(&"only in the later run: with 500 records".to_owned()));
    let mut other = before.clone();
    other.growth[1].value_bytes += 1;
    assert_eq!(compare(&before, &other, 5.0).unwrap().unlike.len(), 1);
}

#[test]
fn larger_files_wrong_answers_and_failures_regress() {
    let (mut before, mut after) = (fixture(), fixture());
    of(&mut after, "cdb", "scan").file_bytes *= 2;
    of(&mut after, "cdb", "get-hit").verified = false;
    after.results.retain(|r| !(r.store == "lmdb" && r.phase == "build"));
    after.failures.push(Failure {
        store: "lmdb".into(),
        round: Some(0),
        phase: Some("build".into()),
        status: "error".into(),
        what: "no room".into(),
    });
    // What was wrong before is no loss.
    of(&mut before, "sparkey", "scan").verified = false;
    after.results.retain(|r| !(r.store == "sparkey" && r.phase == "scan"));
    let changes = compare(&before, &after, 5.0).unwrap();
    assert!(found(&changes, "cdb", "scan").larger);
    assert_eq!(found(&changes, "cdb", "get-hit").speed, Speed::WrongAnswers);
    assert_eq!(changes.lost, ["lmdb, build (buffered): error: no room"]);
    assert_eq!(changes.regressions, 3);
    let text = printed(&changes, &before, &after);
    for says in ["file ", "wrong answers", "no room", "\n  sparkey, scan (buffered): its answers"] {
        assert!(text.contains(says), "'{says}' is not in\n{text}");
    }
}

#[test]
fn figures_that_are_gone_without_a_word_regress_each_on_a_line() {
    let (before, mut after) = (fixture(), fixture());
    // As where a library is not installed any more.
    after.stores.retain(|info| info.store != "lmdb");
    after.results.retain(|r| r.store != "lmdb" && !(r.store == "constant" && r.phase == "scan"));
    let gone = before.results.len() - after.results.len();
    assert!(gone > 2, "the fixture has too little of lmdb");
    let changes = compare(&before, &after, 5.0).unwrap();
    assert_eq!((changes.lost.len(), changes.regressions), (gone, gone));
    assert!(changes.left_out.is_empty(), "{:?}", changes.left_out);
    let text = printed(&changes, &before, &after);
    for store_and_phase in ["lmdb, build", "lmdb, get-hit", "constant, scan"] {
        let line = format!("\n  {store_and_phase} (buffered): not in the later run");
        assert!(text.contains(&line), "{text}");
    }
    assert!(text.contains(&format!("{gone} figures regressed.")), "{text}");
    // A run that was stopped has its reason, and lacks them all the same.
    after.interrupted = true;
    after.failures.clear();
    let stopped = compare(&before, &after, 5.0).unwrap();
    assert_eq!((stopped.lost.len(), stopped.regressions), (gone, gone));
    assert!(stopped.lost.iter().all(|line| line.ends_with("which a signal stopped")));
}

#[test]
fn figures_that_were_not_asked_for_again_are_named_and_do_not_regress() {
    let (before, mut after) = (fixture(), fixture());
    after.failures.clear();
    after.settings.named = Some(vec!["constant".to_owned(), "cdb".to_owned()]);
    after.settings.phases.retain(|phase| phase != "scan");
    after.results.retain(|r| ["constant", "cdb"].contains(&&*r.store) && r.phase != "scan");
    let changes = compare(&before, &after, 5.0).unwrap();
    assert_eq!((changes.regressions, changes.lost.len()), (0, 0), "{:?}", changes.lost);
    assert_eq!(changes.left_out.len(), before.results.len() - after.results.len());
    let text = printed(&changes, &before, &after);
    for line in ["constant, scan (buffered): not asked", "lmdb, build (buffered): not asked"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("(--phases)") && text.contains("(--stores)"), "{text}");
    assert!(text.contains("Nothing regressed."), "{text}");
}

/// Danger: all of ours is many times slower in such a run, and the libraries are not.
#[test]
fn a_run_of_a_program_without_optimisation_is_told() {
    let (before, mut after) = (fixture(), fixture());
    let told = |after: &Report| compare(&before, after, 5.0).unwrap().notes;
    let says = |note: &String| note.contains("without optimisation");
    assert!(!told(&after).iter().any(says), "{:?}", told(&after));
    after.machine.program = "credenza 0.1.0, without optimisation".to_owned();
    let notes = told(&after);
    let later = "the program of the later run was built without optimisation";
    assert!(notes.iter().filter(|note| says(note)).eq([later]), "{notes:?}");
}

#[test]
fn unlike_runs_are_told_apart() {
    let (before, mut after) = (fixture(), fixture());
    after.settings.records += 1;
    after.settings.workload = "ups\x1b[31m".into();
    after.machine.cpu = "another".into();
    after.machine.memory_bytes *= 2;
    after.machine.kernel = "Linux 9".into();
    let changes = compare(&before, &after, 5.0).unwrap();
    assert_eq!(changes.unlike.len(), 4, "{:?}", changes.unlike);
    assert!(changes.notes.iter().any(|note| note.starts_with("kernel")), "{:?}", changes.notes);
    let text = printed(&changes, &before, &after);
    assert!(text.contains("WARNING") && !text.contains('\x1b'), "{text}");
}

#[test]
fn other_operations_of_a_mix_are_other_work_where_both_runs_did_some() {
    let (before, mut after) = (fixture(), fixture());
    after.settings.mix = "get 1, remove 1".to_owned();
    assert!(compare(&before, &after, 5.0).unwrap().unlike.is_empty());
    let mixed = |mut report: Report| {
        of(&mut report, "constant", "scan").phase = "mixed".to_owned();
        report
    };
    let unlike = compare(&mixed(before), &mixed(after.clone()), 5.0).unwrap().unlike;
    assert!(unlike.len() == 1 && unlike[0].starts_with("operations of the mix"), "{unlike:?}");

    after.settings.distribution = "zipfian:theta=0.99,scrambled=true".to_owned();
    // A report from before there were orders is of that of the data.
    after.settings.insert_order = "given".to_owned();
    assert_eq!(compare(&fixture(), &after, 5.0).unwrap().unlike.len(), 1);
    after.settings.insert_order = "descending".to_owned();
    after.settings.memory_limit = Some(1 << 29);
    after.settings.read_ahead = true;
    after.settings.stores = vec!["page-size=16K".to_owned()];
    let changes = compare(&fixture(), &after, 5.0).unwrap();
    for what in ["distribution of keys", "order of inserts", "memory limit", "read-ahead"] {
        assert!(changes.unlike.iter().any(|says| says.starts_with(what)), "{:?}", changes.unlike);
    }
    assert!(changes.notes.iter().any(|note| note.contains("page-size=16K")), "{:?}", changes.notes);
}

#[test]
fn unchanged_libraries_witness_that_the_machine_changed() {
    let (before, mut after) = (fixture(), fixture());
    for (store, phase) in after.results.clone().iter().map(|r| (&r.store, &r.phase)) {
        slower(&mut after, store, phase, 2.0);
    }
    let notes = compare(&before, &after, 5.0).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("0.50x as fast")), "{notes:?}");
}

#[test]
fn nothing_in_common_and_bad_thresholds_are_errors() {
    let (before, mut after) = (fixture(), fixture());
    assert!(compare(&before, &after, -1.0).is_err());
    assert!(compare(&before, &after, f64::NAN).is_err());
    after.results.clear();
    after.failures.clear();
    let error = compare(&before, &after, 5.0).unwrap_err().to_string();
    assert!(error.contains("in common"), "{error}");
}

#[test]
fn what_several_readers_do_is_compared_too() {
    let (mut before, mut after) = (fixture(), fixture());
    let group = |rate: f64| {
        let mut group = crate::report::together::some().remove(0);
        group.store = "constant".to_owned();
        let samples: Vec<f64> = (0..6).map(|i| rate * (1.0 + 0.001 * f64::from(i))).collect();
        group.per_second = stats::summarise(&samples);
        group
    };
    before.together = vec![group(2e6)];
    let regressed_at = |after: &Report| {
        let changes = compare(&before, after, 5.0).unwrap();
        (changes.regressions, changes.together.first().map(|change| change.speed))
    };
    for (rate, expected) in
        [(2e6, Speed::NoDifference), (1.96e6, Speed::Slower), (1.5e6, Speed::Regressed)]
    {
        after.together = vec![group(rate)];
        let count = usize::from(expected == Speed::Regressed);
        assert_eq!(regressed_at(&after), (count, Some(expected)));
    }
    let changes = compare(&before, &after, 5.0).unwrap();
    let text = printed(&changes, &before, &after);
    let row = text.lines().find(|line| line.contains("2 threads")).unwrap();
    assert!(row.contains("REGRESSED") && row.contains("0.75x"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    after.together[0].verified = false;
    assert_eq!(regressed_at(&after), (1, Some(Speed::WrongAnswers)));
    // What is gone while others as many were there is lost.
    after.together[0].store = "cdb".to_owned();
    assert_eq!(regressed_at(&after), (1, None));
    after.together[0].store = "constant".to_owned();
    // On other processors it is another thing; that it failed is said, if it did.
    after.together[0].processors = 1;
    assert_eq!(regressed_at(&after), (0, None));
    after.together.clear();
    after.failures.push(Failure {
        store: "constant".to_owned(),
        round: Some(0),
        phase: Some("get-many-miss".to_owned()),
        status: "error".to_owned(),
        what: "the writer: no room".to_owned(),
    });
    assert_eq!(regressed_at(&after), (1, None));
}

fn latency(p99: u64) -> Latency {
    let curve = Vec::new();
    Latency {
        count: 600_000,
        p50: 500,
        p90: 600,
        p99,
        p999: 10 * p99,
        p9999: 20 * p99,
        max: 30 * p99,
        curve,
    }
}

/// Percentiles of six rounds.
fn six_rounds(p99: u64) -> Percentiles {
    let of = |ns: u64| (0..6).map(|i| ns + i * (ns / 1000)).collect::<Vec<_>>();
    Percentiles { p50: of(500), p99: of(p99), p999: of(10 * p99) }
}

/// A phase at a rate, of which so many of six rounds were behind.
fn at(p99: u64, behind: usize) -> AtRate {
    AtRate {
        per_second: 1000.0,
        arrivals: "poisson".to_owned(),
        ops: 600_000,
        reached: stats::summarise(&[1000.0; 6]),
        kept_up: behind == 0,
        rounds_behind: Some(behind),
        latency_ns: latency(p99),
        by_round: six_rounds(p99),
        operation_latency_ns: Default::default(),
        over_time: None,
        verified: true,
    }
}

fn with(at: AtRate) -> Report {
    let mut report = fixture();
    of(&mut report, "constant", "get-hit").at_rate = Some(at);
    report
}

/// How many regressions there are, and what is said of latencies at a rate.
fn at_rate(before: &Report, after: &Report) -> (usize, Vec<Speed>) {
    let changes = compare(before, after, 5.0).unwrap();
    (changes.regressions, changes.at_rate.iter().map(|change| change.speed).collect())
}

#[test]
fn latencies_at_a_rate_are_compared_where_it_is_the_same() {
    use Speed::{Faster, NoDifference, Regressed, TooFewOperations, TooFewRounds, WrongAnswers};
    let before = with(at(1_000_000, 0));
    assert_eq!(at_rate(&before, &before), (0, vec![NoDifference; 3]));
    let slower = with(at(2_000_000, 0));
    assert_eq!(at_rate(&before, &slower), (2, vec![NoDifference, Regressed, Regressed]));
    assert_eq!(at_rate(&slower, &before), (0, vec![NoDifference, Faster, Faster]));
    let wrong = with(AtRate { verified: false, ..at(1_000_000, 0) });
    assert_eq!(at_rate(&before, &wrong), (1, vec![WrongAnswers]));
    // Of another rate nothing is said; in reports without rounds there is nothing to judge by.
    let other = with(AtRate { per_second: 2000.0, ..at(9_000_000, 0) });
    assert_eq!(at_rate(&before, &other), (0, Vec::new()));
    // What is gone at the same rate is lost.
    let asked = |mut report: Report| {
        report.settings.rate = Some(1000.0);
        report
    };
    let gone = compare(&asked(before.clone()), &asked(fixture()), 5.0).unwrap();
    assert_eq!((gone.regressions, gone.lost.len()), (1, 1), "{:?}", gone.lost);
    let old = with(AtRate { by_round: Percentiles::default(), ..at(1_000_000, 0) });
    assert_eq!(at_rate(&old, &slower), (0, vec![TooFewRounds; 3]));
    // The percentile of a handful of operations is what happened to these, in whichever run there are few.
    for (ops, said) in [
        (99_999, [NoDifference, Regressed, TooFewOperations]),
        (9_999, [NoDifference, TooFewOperations, TooFewOperations]),
        (199, [TooFewOperations; 3]),
    ] {
        let few = with(AtRate { ops, ..at(2_000_000, 0) });
        let count = said.iter().filter(|speed| **speed == Regressed).count();
        assert_eq!(at_rate(&before, &few), (count, said.to_vec()), "{ops} operations");
        let few_before = with(AtRate { ops, ..at(1_000_000, 0) });
        assert_eq!(at_rate(&few_before, &slower), (count, said.to_vec()), "{ops} operations");
        let changes = compare(&before, &few, 5.0).unwrap();
        let text = printed(&changes, &before, &few);
        let row = text.lines().find(|line| line.contains("get-hit, p99.9")).unwrap();
        assert!(row.contains(" ? ") && row.ends_with("too few operations to judge"), "{text}");
        assert!(text.contains("100 operations beyond the percentile"), "{text}");
    }
}

/// Lookups of a batch are one call: a hundred of them are not a hundred latencies.
#[test]
fn lookups_of_a_batch_are_one_operation_of_a_percentile() {
    let of_batches = |p99| {
        let mut report = with(at(p99, 0));
        report.settings.batch = 1000;
        of(&mut report, "constant", "get-hit").phase = "get-many-hit".to_owned();
        report
    };
    let (before, slower) = (of_batches(1_000_000), of_batches(2_000_000));
    let few = Speed::TooFewOperations;
    assert_eq!(at_rate(&before, &slower), (0, vec![Speed::NoDifference, few, few]));
}

/// Danger: one round that something else disturbed is three regressions.
#[test]
fn a_store_that_is_behind_is_one_regression_and_only_where_most_rounds_are() {
    use Speed::{Behind, BehindBefore, NoDifference};
    let run = |behind| with(at(1_000_000, behind));
    for (before, after, said) in [
        (0, 1, vec![NoDifference; 3]),
        (0, 3, vec![NoDifference; 3]),
        (0, 4, vec![Behind]),
        (0, 6, vec![Behind]),
        (1, 5, vec![Behind]),
        (2, 5, vec![Behind]),
        (3, 4, vec![BehindBefore]),
        (3, 3, vec![NoDifference; 3]),
        (4, 0, vec![BehindBefore]),
        (6, 6, vec![BehindBefore]),
    ] {
        let count = usize::from(said == [Behind]);
        assert_eq!(at_rate(&run(before), &run(after)), (count, said), "{before} to {after}");
    }
    // A report from before says only whether all kept up.
    let old = |behind| with(AtRate { rounds_behind: None, ..at(1_000_000, behind) });
    assert_eq!(at_rate(&old(0), &old(1)), (1, vec![Behind]));
    assert_eq!(at_rate(&old(0), &run(1)), (0, vec![NoDifference; 3]));
    assert_eq!(at_rate(&old(1), &run(6)), (0, vec![BehindBefore]));

    let (before, after) = (run(0), run(4));
    let text = printed(&compare(&before, &after, 5.0).unwrap(), &before, &after);
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("get-hit, ")).collect();
    let [row] = rows[..] else { panic!("{text}") };
    assert!(row.contains("0 of 6 late") && row.contains("4 of 6 late"), "{text}");
    assert!(row.ends_with("REGRESSED: BEHIND its schedule"), "{text}");
    assert!(text.contains("one regression of a store and phase"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

/// Danger: a store that takes twice the memory, writes everything twice or does not wait for the disk any more
/// is said to be as good as before.
#[test]
fn what_grows_beside_the_time_regresses_in_a_line_of_its_own() {
    const MIB: u64 = 1 << 20;
    let run = |memory: u64, written: Option<f64>, syncs: Option<f64>, class: &str| {
        let mut report = fixture();
        let result = of(&mut report, "constant", "build");
        (result.peak_rss_bytes, result.write_amplification) = (memory, written);
        (result.syncs_per_commit, result.class) = (syncs, class.to_owned());
        report
    };
    let seen = |before: &Report, after: &Report| {
        let changes = compare(before, after, 5.0).unwrap();
        let build = found(&changes, "constant", "build");
        let marks = [build.more_memory, build.more_written, build.fewer_syncs];
        assert_eq!(changes.regressions, usize::from(marks.contains(&true)));
        (marks, printed(&changes, before, after))
    };
    let usual = |memory| run(memory, Some(1.5), Some(1.0), "sync");
    let before = usual(20 * MIB);
    for (before, after, marks) in [
        (&before, before.clone(), [false; 3]),
        // A tenth and a mebibyte, both.
        (&before, usual(22 * MIB), [false; 3]),
        (&before, usual(22 * MIB + 1), [true, false, false]),
        (&usual(MIB), usual(2 * MIB), [false; 3]),
        (&usual(MIB), usual(2 * MIB + 1), [true, false, false]),
        // What was not known before has not grown.
        (&usual(0), usual(90 * MIB), [false; 3]),
        (&before, run(MIB, Some(1.57), Some(0.5), "sync"), [false; 3]),
        (&before, run(MIB, Some(1.58), Some(0.49), "sync"), [false, true, true]),
        (&before, run(MIB, Some(1.5), Some(0.0), "sync"), [false, false, true]),
        (&before, run(MIB, None, None, "sync"), [false; 3]),
        (&run(MIB, None, None, "sync"), before.clone(), [true, false, false]),
        (&run(MIB, None, Some(1.0), "buffered"), run(MIB, None, Some(0.0), "buffered"), [false; 3]),
    ] {
        assert_eq!(seen(before, &after).0, marks);
    }
    let (_, text) = seen(&before, &run(64 * MIB, Some(3.0), Some(0.0), "sync"));
    for (what, seen) in [
        ("build, memory", "REGRESSED: more memory"),
        ("build, written", "REGRESSED: more bytes written for one"),
        ("build, syncs", "REGRESSED: fewer syncs for a commit"),
    ] {
        let row = text.lines().find(|line| line.contains(what));
        assert!(row.is_some_and(|row| row.ends_with(seen)), "{text}");
    }
    assert!(text.contains("1 figure regressed."), "one phase of one store: {text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

/// Danger: what one operation of a hundred waits for is not seen, as the mean hardly knows it.
#[test]
fn latencies_of_single_operations_are_compared_by_their_rounds() {
    use Speed::{Faster, NoDifference, Regressed, TooFewOperations, TooFewRounds};
    let run = |p99: u64| {
        let mut report = fixture();
        report.machine.clock_ns = 20.0;
        let result = of(&mut report, "constant", "get-hit");
        result.latency_ns = Some(latency(p99));
        result.latency_by_round = six_rounds(p99);
        result.operation_latency_ns = [("get".to_owned(), latency(p99))].into();
        result.operation_latency_by_round = [("get".to_owned(), six_rounds(p99))].into();
        report
    };
    let seen = |before: &Report, after: &Report| {
        let changes = compare(before, after, 5.0).unwrap();
        let is_wanted =
            |change: &&LatencyChange| (&*change.store, &*change.phase) == ("constant", "get-hit");
        let of_all = changes.latencies.iter().filter(is_wanted);
        let speeds: Vec<Speed> = of_all.map(|change| change.speed).collect();
        (changes.regressions, speeds)
    };
    let (before, slower) = (run(1_000_000), run(2_000_000));
    assert_eq!(seen(&before, &before), (0, vec![NoDifference; 2]));
    assert_eq!(seen(&before, &slower), (2, vec![NoDifference, Regressed]), "of all, and of gets");
    assert_eq!(seen(&slower, &before), (0, vec![NoDifference, Faster]));
    let text = printed(&compare(&before, &slower, 5.0).unwrap(), &before, &slower);
    for row in ["get-hit, p99 ", "get-hit: get, p99 "] {
        assert!(
            text.lines().any(|line| line.contains(row) && line.ends_with("REGRESSED")),
            "{text}"
        );
    }
    assert!(!text.contains("get-hit, p50"), "what is as before is not shown: {text}");
    assert!(text.contains("4 percentiles of single operations judged"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    // What a reading of the clock takes was measured once in each run.
    let mut coarse = before.clone();
    coarse.machine.clock_ns = 2_000_000.0;
    assert_eq!(seen(&coarse, &slower), (0, vec![NoDifference; 2]));
    // Of few operations, or rounds, as in reports from before.
    let mut few = slower.clone();
    of(&mut few, "constant", "get-hit").latency_ns =
        Some(Latency { count: 9_999, ..latency(2_000_000) });
    assert_eq!(seen(&before, &few), (1, vec![NoDifference, TooFewOperations]));
    of(&mut few, "constant", "get-hit").latency_by_round = Percentiles::default();
    of(&mut few, "constant", "get-hit").latency_ns = Some(latency(2_000_000));
    assert_eq!(seen(&before, &few), (1, vec![TooFewRounds; 2]));
    // Wrong answers are told once, by the phase.
    of(&mut few, "constant", "get-hit").verified = false;
    assert_eq!(seen(&before, &few), (1, Vec::new()));
}

/// Danger: a mix that only reads, which had the class of a store's changes once, is lost to whoever compares with a
/// report of that time.
#[test]
fn a_mix_that_only_reads_is_the_same_in_another_class() {
    let of_class = |class: &str, mix: &str| {
        let mut report = fixture();
        mix.clone_into(&mut report.settings.mix);
        report.settings.phases.clear();
        let result = of(&mut report, "lmdb", "get-hit");
        "mixed".clone_into(&mut result.phase);
        class.clone_into(&mut result.class);
        report
    };
    for (mix, lost) in [("get 100, keys uniform", 0), ("get 6, update 3, keys uniform", 1)] {
        let (before, after) = (of_class("at-close", mix), of_class("buffered", mix));
        let changes = compare(&before, &after, 5.0).unwrap();
        assert_eq!((changes.lost.len(), changes.regressions), (lost, lost), "{:?}", changes.lost);
    }
}
