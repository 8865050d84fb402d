//! Danger: a store that answers or keeps wrongly is measured as a fast one. A store that lies in one
//! way at a time ([`Liar`]) is run here: each lie must be told.

use super::changes::{TIMED_OPERATIONS, stores_for};
use super::child::{PASSES, Round};
use super::liar::{Liar, Lie};
use super::mixed;
use super::passes::Total;
use super::protocol::{Message, Sample, Spec};
use super::room::Advice;
use super::round::{self, Doing, Entrant};
use super::summary;
use super::together::Together;
use crate::workload::changes::{Model, Script};
use crate::workload::{Action, Inputs, Mix, Mixes, Phase, Workload};
use std::cell::RefCell;

/// All samples of one round of a store that lies so.
fn samples_of(lie: Lie) -> Vec<Sample> {
    samples(lie, &Phase::ALL)
}

fn samples(lie: Lie, phases: &[Phase]) -> Vec<Sample> {
    samples_of_mix(lie, phases, Mix::default())
}

fn samples_of_mix(lie: Lie, phases: &[Phase], mix: impl Into<Mixes>) -> Vec<Sample> {
    let is_sample = |message| match message {
        Message::Measured(sample) => Some(*sample),
        _ => None,
    };
    messages(lie, phases, mix).into_iter().filter_map(is_sample).collect()
}

/// All that the measured process says.
fn messages(lie: Lie, phases: &[Phase], mix: impl Into<Mixes>) -> Vec<Message> {
    let messages = RefCell::new(Vec::new());
    let hear = |message: &Message| {
        messages.borrow_mut().push(message.clone());
        Ok(())
    };
    with_round(lie, phases, mix, Together::default(), |round| round.run(&hear).unwrap());
    messages.into_inner()
}

/// Does something with a round of a store that lies so.
pub(super) fn with_round<T>(
    lie: Lie,
    phases: &[Phase],
    mix: impl Into<Mixes>,
    together: Together,
    work: impl FnOnce(&Round<'_, Liar>) -> T,
) -> T {
    let folder = tempfile::tempdir().unwrap();
    let found = Workload::find("tokens").unwrap();
    let workload = Workload { records: Some(500), gets: 1200, mixes: mix.into(), ..found };
    let (inputs, _) = Inputs::prepare(&workload).unwrap();
    let spec = Spec {
        store: "liar".to_owned(),
        library: None,
        folder: folder.path().to_owned(),
        keep: None,
        open: None,
        inputs: folder.path().join("inputs"),
        phases: phases.to_vec(),
        mixes: workload.mixes,
        done_in_time: None,
        settings: workload.settings,
        batch: 7,
        seed: 1,
        cold: false,
        groups: None,
        read_ahead: false,
        sync: false,
        oracle: None,
        together,
        latencies: true,
        over_time: true,
        own_counters: false,
        rate: None,
        advice: Advice::FewerRecords,
        cpu: None,
        clock_ns: 0.0,
    };
    work(&Round::new(&Liar::who(lie), &spec, &inputs))
}

/// The phases in which the lie must be told. `build` here is not done by a writer; what a scan of
/// a closed store hides is told wherever a changed store is read through and not empty.
fn told(lie: Lie) -> Vec<Phase> {
    use Phase::{
        Build, Get90, GetChain, GetHit, GetManyHit, GetManyMiss, GetMiss, Insert, InsertEach,
        InsertRandom, InsertSync, Mixed, Range, Reinsert, Remove, Scan,
    };
    match lie {
        Lie::None
        | Lie::RefusesRemoval
        | Lie::RefusesBuild
        | Lie::RefusesReads
        | Lie::RefusesChanges
        | Lie::LosesOthers
        | Lie::ScansShortOnce
        | Lie::WrongWhenOpenedAgain
        | Lie::BackShort
        | Lie::BackSwapped
        | Lie::MissesAt(_)
        | Lie::OneMissesOnce(_) => vec![],
        Lie::LastByte | Lie::Missing => vec![GetHit, Get90, GetManyHit, GetChain, Range],
        Lie::FindsAll => vec![Get90, GetMiss],
        Lie::ScanShort | Lie::ScanSwapped => {
            vec![Build, Scan, Insert, InsertRandom, InsertEach, InsertSync, Reinsert, Mixed]
        }
        Lie::RangeShort | Lie::RangeLate | Lie::RangeSwapped => vec![Range],
        Lie::ManyReversed => vec![GetManyHit],
        Lie::ManyShort => vec![GetManyHit, GetManyMiss],
        Lie::KeepsOld | Lie::OnlyFirstByte => vec![Reinsert, Mixed],
        Lie::LosesOne => {
            vec![Insert, InsertRandom, InsertEach, InsertSync, Reinsert, Remove, Mixed]
        }
        Lie::RemovesNot => vec![Remove, Mixed],
        Lie::RemovesAll => vec![Mixed],
        Lie::ForgetsLast | Lie::MissesOnce | Lie::GetsShort | Lie::GetsLong => {
            vec![Insert, InsertRandom, InsertEach, InsertSync, Reinsert, Mixed]
        }
    }
}

#[test]
fn every_lie_is_told_in_its_phases_and_in_no_other() {
    use Lie::*;
    let reading = [LastByte, Missing, FindsAll, ScanShort, ScanSwapped, ManyReversed, ManyShort];
    let ranges = [RangeShort, RangeLate, RangeSwapped];
    let changing = [KeepsOld, LosesOne, OnlyFirstByte, RemovesNot, RemovesAll, ForgetsLast];
    let beside = [MissesOnce, GetsShort, GetsLong];
    for lie in [None].into_iter().chain(reading).chain(ranges).chain(changing).chain(beside) {
        let samples = samples_of(lie);
        assert_eq!(samples.len(), Phase::ALL.len(), "{lie:?}");
        let wrong = samples.iter().filter(|s| s.wrong.is_some()).map(|s| s.phase);
        assert_eq!(wrong.collect::<Vec<_>>(), told(lie), "{lie:?}");
    }
}

/// In the passes that nobody times, too: they compare, warm up, and time single lookups.
#[test]
fn a_lookup_that_finds_nothing_once_is_told_whichever_it_is() {
    let of = |lie| samples(lie, &[Phase::GetHit]).remove(0);
    let passes = 3 + PASSES;
    for pass in 0..passes {
        let lie = Lie::MissesAt(pass * 1200 + 600);
        assert!(of(lie).wrong.is_some(), "pass {pass}");
    }
    assert_eq!(of(Lie::MissesAt(passes * 1200 + 600)).wrong, None, "there are no more");
}

/// A bench of a record or two took minutes, as each phase made as many stores as operations are timed.
#[test]
fn few_operations_are_timed_on_a_bounded_number_of_stores() {
    assert_eq!([0, 1, 2].map(stores_for), [1000; 3]);
    assert_eq!(stores_for(TIMED_OPERATIONS / 1000), 1000);
    assert_eq!([TIMED_OPERATIONS / 2, TIMED_OPERATIONS, usize::MAX].map(stores_for), [2, 1, 1]);
}

#[test]
fn an_honest_store_has_exact_counts() {
    let samples = samples_of(Lie::None);
    let stores = |ops: usize| TIMED_OPERATIONS.div_ceil(ops) as u64;
    let counts = |s: &Sample| (s.phase, s.ops, s.found, s.lookups, s.repeats);
    let found: Vec<_> = samples.iter().map(counts).collect();
    let (mixed, others) = found.split_last().unwrap();
    assert_eq!(
        others,
        [
            (Phase::Build, 500, None, 0, 1),
            (Phase::GetHit, 1200, Some(1200), 1200, 1),
            (Phase::Get90, 1200, Some(1080), 1200, 1),
            (Phase::GetMiss, 1200, Some(0), 1200, 1),
            (Phase::GetManyHit, 1200, Some(1200), 1200, 1),
            (Phase::GetManyMiss, 1200, Some(0), 1200, 1),
            (Phase::GetChain, 1200, Some(1200), 1200, 1),
            (Phase::Scan, 500, None, 0, 1),
            (Phase::Range, 12, None, 0, 1),
            (Phase::Insert, 500, None, 0, stores(500)),
            (Phase::InsertRandom, 500, None, 0, stores(500)),
            (Phase::InsertEach, 500, None, 0, stores(500)),
            (Phase::InsertSync, 500, None, 0, 1),
            (Phase::Reinsert, 1500, None, 0, stores(1500)),
            (Phase::Remove, 500, None, 0, stores(500)),
        ]
    );
    let (phase, ops, Some(found), lookups, repeats) = *mixed else { panic!("{mixed:?}") };
    assert_eq!((phase, ops, repeats), (Phase::Mixed, 1200, stores(1200)));
    // Six of ten, of which some find that their key was removed.
    assert!((660..780).contains(&lookups), "{mixed:?}");
    assert!(lookups * 8 / 10 < found && found < lookups, "{mixed:?}");
}

/// The mix of a `[mix]` table.
pub(super) fn mix(table: &str) -> Mix {
    mixes(&format!("[mix]\n{table}")).only().unwrap().clone()
}

/// The mixes of these tables.
pub(crate) fn mixes(tables: &str) -> Mixes {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mix.toml");
    std::fs::write(&path, format!("data = \"tokens\"\n{tables}")).unwrap();
    Workload::find(path.to_str().unwrap()).unwrap().mixes
}

/// Three mixes: the first stores keys, which the second looks up, and of which the third removes some.
pub(super) const THREE: &str = "[[mix]]\nname = \"load\"\ninsert = 1\noperations = 300\n\
    [[mix]]\nname = \"read\"\nget = 9\nupdate = 1\ndistribution = \"latest\"\n\
    [[mix]]\nname = \"clear\"\nremove = 1\nscan = 1\ndistribution = \"latest\"\n";

#[test]
fn each_of_several_mixes_begins_with_what_those_before_have_left() {
    let of = |lie| {
        let mixes = mixes(THREE);
        let phases: Vec<Phase> = mixes.phases().collect();
        samples_of_mix(lie, &phases, mixes)
    };
    let samples = of(Lie::None);
    let names: Vec<&str> = samples.iter().map(|sample| sample.phase.name()).collect();
    assert_eq!(names, ["mixed-load", "mixed-read", "mixed-clear"]);
    assert!(samples.iter().all(|sample| sample.wrong.is_none()), "{samples:?}");
    assert_eq!(samples.iter().map(|sample| sample.ops).collect::<Vec<_>>(), [300, 1200, 1200]);
    // The latest keys are those that were loaded; without them a lookup finds nothing.
    assert_eq!(samples[1].found, Some(samples[1].lookups));
    // The last one by itself is the same work.
    let mixes = mixes(THREE);
    let alone = samples_of_mix(Lie::None, &[mixes.last()], mixes).remove(0);
    assert_eq!((alone.ops, alone.wrong.as_deref()), (1200, None));
    // What a mix before does wrong is seen in that, and in what begins with it.
    let wrong = |lie| of(lie).iter().map(|sample| sample.wrong.is_some()).collect::<Vec<_>>();
    assert_eq!(wrong(Lie::LosesOne), [true, true, true]);
    assert_eq!(wrong(Lie::RemovesNot), [false, false, true]);
}

#[test]
fn every_operation_of_a_mix_is_checked() {
    use Lie::*;
    let cases = [
        ("get = 1", vec![]),
        ("insert = 1", vec![LosesOne, ForgetsLast]),
        ("get = 1\nupdate = 1\ndistribution = \"zipfian\"", vec![KeepsOld, OnlyFirstByte]),
        ("read-modify-write = 1\ndistribution = \"latest\"", vec![KeepsOld, OnlyFirstByte]),
        ("remove = 1", vec![RemovesNot, RemovesAll]),
        ("scan = 1", vec![RangeShort, RangeLate, RangeSwapped]),
        ("get = 20\nremove = 1\ntable-scan = 1", vec![ScansShortOnce, RemovesNot]),
        ("insert = 20\nupdate = 1\ntable-scan = 1", vec![ScansShortOnce, LosesOne]),
        ("scan = 1\ninsert = 1\ndistribution = \"clustered\"", vec![LosesOne, RangeLate]),
    ];
    for (table, lies) in cases {
        for lie in [None].into_iter().chain(lies) {
            let samples = samples_of_mix(lie, &[Phase::Mixed], mix(table));
            assert_eq!(samples.len(), 1);
            assert_eq!(samples[0].wrong.is_some(), lie != None, "{table}, {lie:?}: {samples:?}");
            assert_eq!(samples[0].ops, 1200);
        }
    }
}

/// Danger: what the timed runs must add up to does not follow the changes between two scans of everything, or
/// nothing of a scan is compared there.
#[test]
fn a_table_scan_takes_what_is_there_at_that_moment() {
    let table = "insert = 3\nupdate = 3\nremove = 3\nread-modify-write = 1\ntable-scan = 1";
    let mix = mix(table);
    with_round(Lie::None, &[Phase::Mixed], mix.clone(), Together::default(), |round| {
        let Inputs { records, fresh, .. } = round.inputs;
        let script = Script::draw(records, fresh, &mix, 400, 3);
        let given = mixed::expected(&script, None, Model::of(records, fresh, &mix)).outcome;
        let (mut model, mut scans) = (Model::of(records, fresh, &mix), 0);
        let (mut total, mut scanned) = (Total::default(), Total::default());
        for (step, ..) in script.iter() {
            match step.action {
                Action::TableScan => {
                    scanned += Total::of_model(&model);
                    scans += 1;
                }
                Action::ReadModifyWrite => {
                    model.now(step.item as usize).iter().for_each(|value| total.add(value));
                }
                _ => {}
            }
            model.apply(step);
        }
        assert!(scans > 20 && scanned.found > scans * 400, "{scans}, {scanned:?}");
        assert_eq!((given.total, given.scanned), (total, scanned));
    });
    let sample = samples_of_mix(Lie::None, &[Phase::Mixed], mix).remove(0);
    assert_eq!((sample.wrong, sample.ops), (None, 1200));
    // One operation each, and its records are those that were taken.
    assert!(sample.taken > 50 * 400, "{}", sample.taken);
    let only = samples_of_mix(Lie::None, &[Phase::Mixed], self::mix("table-scan = 1")).remove(0);
    assert_eq!(summary::own_cost(&only).records_per_op, Some(500.0));
}

#[test]
fn transactions_of_several_operations_are_begun_and_committed() {
    let sample = |transactions: &str, lie| {
        let table = format!("get = 50\nupdate = 50\ntable-scan = 1\ntransactions = {transactions}");
        samples_of_mix(lie, &[Phase::Mixed], mix(&table)).remove(0)
    };
    for transactions in ["1", "7", "5000", "\"all\"", "\"tmp\""] {
        assert_eq!(sample(transactions, Lie::None).wrong, None, "{transactions}");
        assert!(sample(transactions, Lie::KeepsOld).wrong.is_some(), "{transactions}");
    }
}

#[test]
fn a_store_that_keeps_one_value_of_a_key_is_told() {
    for place in ["first", "last"] {
        let table = format!("get = 1\ninsert = 3\nduplicates = \"{place}\"");
        let sample = samples_of_mix(Lie::None, &[Phase::Mixed], mix(&table)).remove(0);
        assert!(sample.wrong.is_some(), "{place}");
    }
    // The same store, where each key has one.
    let sample = samples_of_mix(Lie::None, &[Phase::Mixed], mix("get = 1\ninsert = 3")).remove(0);
    assert_eq!(sample.wrong, None);
}

#[test]
fn a_mix_stops_after_its_bytes_or_its_time() {
    let ops = |table: &str| samples_of_mix(Lie::None, &[Phase::Mixed], mix(table)).remove(0).ops;
    let by_bytes = ops("update = 1\nget = 1\nstop-bytes = 1000");
    assert!((50..150).contains(&by_bytes), "{by_bytes}");
    // Whether there is time for all depends on the machine; some are always done.
    assert!((1..=1200).contains(&ops("get = 1\nstop-seconds = 1")));
}

#[test]
fn only_lookups_of_a_mix_have_a_hit_rate() {
    let sample = |table| samples_of_mix(Lie::None, &[Phase::Mixed], mix(table)).remove(0);
    let of_scans = sample("scan = 1");
    assert_eq!((of_scans.found, of_scans.lookups), (None, 0));
    let of_both = sample("read-modify-write = 1\nscan = 1");
    assert!((500..700).contains(&of_both.lookups), "{of_both:?}");
    assert_eq!(of_both.found, Some(of_both.lookups));
}

#[test]
fn changes_alone_need_no_build() {
    let only = |lie| samples(lie, &[Phase::Insert, Phase::Mixed]);
    assert_eq!(
        only(Lie::None).iter().map(|s| s.phase).collect::<Vec<_>>(),
        [Phase::Insert, Phase::Mixed]
    );
}

/// What was measured and what was refused.
fn outcome(lie: Lie) -> (Vec<Phase>, Vec<(Phase, String)>) {
    let (mut measured, mut refused) = (Vec::new(), Vec::new());
    for message in messages(lie, &Phase::ALL, Mix::default()) {
        match message {
            Message::Measured(sample) => measured.push(sample.phase),
            Message::Refused(phase, what) => refused.push((phase, what)),
            _ => {}
        }
    }
    (measured, refused)
}

#[test]
fn a_phase_that_fails_takes_no_other_with_it() {
    let (measured, refused) = outcome(Lie::RefusesRemoval);
    let fails = |phase: &Phase| matches!(phase, Phase::Remove | Phase::Mixed);
    let others: Vec<Phase> = Phase::ALL.into_iter().filter(|phase| !fails(phase)).collect();
    assert_eq!(measured, others);
    assert_eq!(
        refused.iter().map(|(phase, _)| *phase).collect::<Vec<_>>(),
        [Phase::Remove, Phase::Mixed]
    );
    assert!(refused.iter().all(|(_, what)| what == "no room to remove"), "{refused:?}");
}

#[test]
fn without_a_build_there_are_changes_only() {
    let (measured, refused) = outcome(Lie::RefusesBuild);
    let changing: Vec<Phase> = Phase::ALL.into_iter().filter(|p| p.is_changing()).collect();
    assert_eq!(measured, changing);
    assert_eq!(refused, [(Phase::Build, "no room to build".to_owned())]);
}

#[test]
fn what_failed_is_not_tried_again() {
    let (left, failed) = (Phase::ALL.to_vec(), Vec::new());
    let mut entrant = Entrant { store: "hash".into(), again: false, left, failed };
    entrant.without(Doing::Phase(Phase::Remove));
    let left = &entrant.left;
    assert!(left.len() == Phase::ALL.len() - 1 && !left.contains(&Phase::Remove));
    entrant.without(Doing::Phase(Phase::Build));
    let left = &entrant.left;
    assert!(left.iter().all(|phase| phase.is_changing()) && left.contains(&Phase::Mixed));
    let is_after = |phase, other| round::is_after(phase, other, &mixes(THREE).all_phases());
    let [load, _, clear] = [0, 1, 2].map(|i| mixes(THREE).phases().nth(i).unwrap());
    assert!(is_after(load, Phase::Remove) && is_after(clear, load));
    assert!(!is_after(Phase::Scan, Phase::Scan) && !is_after(load, clear));
}

/// Every operation of a phase is somewhere in its time, but of the build, which is one call.
#[test]
fn each_phase_is_seen_over_its_time() {
    let all = samples(Lie::None, &Phase::ALL);
    for sample in &all {
        let over_time = sample.over_time.as_ref();
        let phase = sample.phase;
        assert_eq!(over_time.is_some(), phase != Phase::Build, "{phase}");
        let Some(over_time) = over_time else { continue };
        assert_eq!(over_time.all.ops.iter().sum::<u64>(), sample.ops, "{}", sample.phase);
        assert_eq!(over_time.operations.len(), if sample.phase == Phase::Mixed { 3 } else { 0 });
        assert!(over_time.seconds > 0.0 && sample.wrong.is_none(), "{:?}", sample.wrong);
    }
    assert_eq!(all.iter().filter(|sample| sample.over_time.is_some()).count(), 15);
    // What is wrong only there is told.
    for phase in [Phase::GetHit, Phase::GetManyHit, Phase::GetChain, Phase::Scan, Phase::Range] {
        let wrong = |lie| samples(lie, &[phase]).remove(0).wrong;
        let what = wrong(Lie::WrongWhenOpenedAgain).unwrap();
        assert!(what.starts_with("over time, it adds up to"), "{phase}: {what}");
    }
}
