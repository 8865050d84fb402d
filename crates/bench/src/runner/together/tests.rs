//! Danger: who reads beside others, or beside a writer, is believed what nobody would be alone; or one
//! thread that fails leaves the others waiting for ever.

use super::super::child::Round;
use super::super::liar::{Liar, Lie};
use super::super::mixed::StepLatencies;
use super::super::open_loop::{Arrivals, Rate, Share};
use super::super::protocol::Spec;
use super::super::tests::{mix, with_round};
use super::changers::{self, Changed};
use super::member::{self, Thread};
use super::{By, Coordinator, Done, Group, Part, Run, Throughput, Together, Word};
use crate::driver::Driver;
use crate::workload::distribution::Distribution;
use crate::workload::{Mix, Phase, Records};
use credenza::Result;

/// Says "go" at once, and "stop" when it was asked so often.
struct Script {
    heard: Vec<Word>,
    asked: usize,
}

impl Coordinator for Script {
    fn say(&mut self, word: Word) -> Result<()> {
        self.heard.push(word);
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn has_spoken(&mut self) -> Result<bool> {
        self.asked += 1;
        Ok(self.asked > 5)
    }
}

/// What a member says of a store that lies so; `change` makes what is stored from the records.
fn done(lie: Lie, part: Part, change: impl Fn(&Records) -> Records) -> Done {
    let together = Together { part: Some(part), ..Together::default() };
    with_round(lie, &[Phase::GetHit], Mix::default(), together, |round| {
        round.driver.build(&change(&round.inputs.records), &round.shape, &round.path).unwrap();
        let mut script = Script { heard: Vec::new(), asked: 0 };
        round.part(&mut script).unwrap();
        let names: Vec<&str> = script.heard.iter().map(name).collect();
        let expected: &[&str] = match part {
            Part::Reader(..) => &["ready", "enough", "done"],
            Part::Writer => &["ready", "done"],
            Part::Changer(..) => &["ready", "enough", "done"],
            Part::Threads(_) => &["measured"],
        };
        assert_eq!(names, expected);
        match script.heard.pop() {
            Some(Word::Done(done)) => *done,
            other => panic!("{other:?}"),
        }
    })
}

fn name(word: &Word) -> &'static str {
    match word {
        Word::Ready => "ready",
        Word::Enough => "enough",
        Word::Done(_) => "done",
        Word::Measured(_) => "measured",
        Word::Failed(_) => "failed",
    }
}

/// Every second record with its other value.
fn half_changed(records: &Records) -> Records {
    let (others, mut mixed) = (records.with_other_values(), Records::default());
    for (i, (key, value)) in records.iter().enumerate() {
        mixed.push(key, if i % 2 == 0 { others.get(i).1 } else { value }).unwrap();
    }
    mixed
}

fn same(records: &Records) -> Records {
    let mut copy = Records::default();
    records.iter().for_each(|(key, value)| copy.push(key, value).unwrap());
    copy
}

const GETS: [Phase; 6] = [
    Phase::GetHit,
    Phase::Get90,
    Phase::GetMiss,
    Phase::GetManyHit,
    Phase::GetManyMiss,
    Phase::GetChain,
];

#[test]
fn readers_take_what_is_stored_and_beside_a_writer_what_may_be() {
    for phase in GETS {
        for is_beside in [false, true] {
            let done = done(Lie::None, Part::Reader(phase, is_beside, Share::ALL), same);
            assert_eq!(done.wrong, None, "{phase}");
            assert!(done.ops >= 3 * 1200 && done.seconds > 0.0 && done.lookups == 1200);
        }
        let beside = done(Lie::None, Part::Reader(phase, true, Share::ALL), half_changed);
        assert_eq!(beside.wrong, None, "{phase}");
        let alone = done(Lie::None, Part::Reader(phase, false, Share::ALL), half_changed);
        let has_hits = !matches!(phase, Phase::GetMiss | Phase::GetManyMiss);
        assert_eq!(alone.wrong.is_some(), has_hits, "{phase}");
    }
}

/// What a reader says that does its share of 50 lookups at a rate.
fn at_rate(phase: Phase, is_beside: bool, share: Share, change: fn(&Records) -> Records) -> Done {
    let part = Part::Reader(phase, is_beside, share);
    let together = Together { part: Some(part), ..Together::default() };
    with_round(Lie::None, &[phase], Mix::default(), together, |round| {
        let rate = Rate { per_second: 50_000.0, arrivals: Arrivals::Poisson, seconds: 0.001 };
        let spec = Spec { rate: Some(rate), ..round.spec.clone() };
        let round = Round::new(round.driver, &spec, round.inputs);
        round.driver.build(&change(&round.inputs.records), &round.shape, &round.path).unwrap();
        let mut script = Script { heard: Vec::new(), asked: 0 };
        round.part(&mut script).unwrap();
        let names: Vec<&str> = script.heard.iter().map(name).collect();
        let expected: &[&str] = if phase.is_paced() {
            &["ready", "enough", "ready", "done"]
        } else {
            &["ready", "enough", "done"]
        };
        assert_eq!(names, expected, "{phase}");
        match script.heard.pop() {
            Some(Word::Done(done)) => *done,
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn each_of_several_does_its_share_of_the_lookups_at_a_rate() {
    for phase in GETS {
        for is_beside in [false, true] {
            let shares = (0..3).map(|number| Share { number, of: 3 });
            let done: Vec<Done> =
                shares.map(|share| at_rate(phase, is_beside, share, same)).collect();
            let ops: Vec<u64> = done.iter().flat_map(|d| &d.at_rate).map(|at| at.ops).collect();
            // Batches of seven keys begin as often as have the 50: eight, of which one's share is two or three.
            let expected = match phase {
                Phase::GetChain => vec![],
                _ if phase.is_batched() => vec![21, 21, 14],
                _ => vec![17, 17, 16],
            };
            assert_eq!(ops, expected, "{phase}");
            let wrong = done.iter().flat_map(|d| &d.at_rate).find_map(|at| at.wrong.as_ref());
            assert_eq!(wrong, None, "{phase}");
        }
    }
    // Other values than were stored are right beside a writer, and nowhere else.
    for is_beside in [false, true] {
        let done = at_rate(Phase::GetHit, is_beside, Share::ALL, half_changed);
        assert_eq!(done.at_rate.unwrap().wrong.is_none(), is_beside);
    }
}

#[test]
fn readers_tell_lies_beside_a_writer_too() {
    for is_beside in [false, true] {
        let wrong = |lie, phase| done(lie, Part::Reader(phase, is_beside, Share::ALL), same).wrong;
        assert!(wrong(Lie::LastByte, Phase::GetHit).is_some());
        assert!(wrong(Lie::LastByte, Phase::GetManyHit).is_some());
        assert!(wrong(Lie::Missing, Phase::GetChain).is_some());
        assert!(wrong(Lie::FindsAll, Phase::GetMiss).is_some());
        assert!(wrong(Lie::ManyShort, Phase::GetManyMiss).is_some());
    }
}

#[test]
fn a_writer_finds_what_it_stored_or_tells() {
    for change in [same, half_changed] {
        let done = done(Lie::None, Part::Writer, change);
        assert_eq!(done.wrong, None);
        assert!(done.ops > 0 && done.seconds > 0.0);
    }
    for lie in [Lie::KeepsOld, Lie::OnlyFirstByte, Lie::LastByte] {
        assert!(done(lie, Part::Writer, same).wrong.is_some(), "{lie:?}");
    }
}

/// Says "go" at once, "your clock stops" when it was asked five times, and "stop" when it was asked 50 times.
struct InTurn {
    waited: usize,
    asked: usize,
    done: Option<Done>,
}

impl Coordinator for InTurn {
    fn say(&mut self, word: Word) -> Result<()> {
        if let Word::Done(done) = word {
            self.done = Some(*done);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.waited += 1;
        Ok(())
    }

    fn has_spoken(&mut self) -> Result<bool> {
        self.asked += 1;
        Ok(self.asked >= [5, 50][self.waited.saturating_sub(1).min(1)])
    }
}

/// Danger: what a writer does while readers wait for their next lookup is told as what it does beside readers who
/// never wait.
#[test]
fn a_writer_counts_what_it_does_while_the_clocks_run_and_goes_on() {
    let together = Together { part: Some(Part::Writer), ..Together::default() };
    with_round(Lie::None, &[Phase::GetHit], Mix::default(), together, |round| {
        round.driver.build(&same(&round.inputs.records), &round.shape, &round.path).unwrap();
        let mut to = InTurn { waited: 0, asked: 0, done: None };
        round.part(&mut to).unwrap();
        assert_eq!((to.waited, to.asked), (3, 50));
        let done = to.done.unwrap();
        assert_eq!((done.wrong, done.ops), (None, 5 * 64));
    });
}

/// What happened, in turn: who was told something, and what was heard of whom.
type Log = std::rc::Rc<std::cell::RefCell<Vec<String>>>;

struct Noted {
    name: &'static str,
    says: Vec<Word>,
    log: Log,
}

impl member::Member for Noted {
    fn name(&self) -> &str {
        self.name
    }

    fn tell(&mut self) {
        self.log.borrow_mut().push(format!("tell {}", self.name));
    }

    fn hear(&mut self) -> Result<Word> {
        let word = self.says.remove(0);
        self.log.borrow_mut().push(format!("{} {}", self.name, name(&word)));
        Ok(word)
    }
}

/// Danger: as above, from who conducts them.
#[test]
fn a_writers_clock_stops_before_readers_begin_at_a_rate() {
    let rate = Rate { per_second: 50_000.0, arrivals: Arrivals::Poisson, seconds: 0.001 };
    let done = || Word::Done(Box::default());
    for rate in [None, Some(rate)] {
        let log = Log::default();
        let paced = rate.iter().flat_map(|_| [Word::Ready]);
        let says = [Word::Ready, Word::Enough].into_iter().chain(paced).chain([done()]).collect();
        let reader = Noted { name: "reader", says, log: log.clone() };
        let writer = Noted { name: "writer", says: vec![done()], log: log.clone() };
        let (phase, by) = (Phase::GetHit, By::Threads);
        with_round(Lie::None, &[phase], Mix::default(), Together::default(), |round| {
            let spec = Spec { rate, ..round.spec.clone() };
            let group = Group { phase, by, readers: 1, with_writer: true };
            super::conduct(&spec, group, vec![reader], Some(writer)).unwrap();
        });
        let log = log.borrow();
        let begin = ["reader ready", "tell writer", "tell reader", "reader enough", "tell writer"];
        let at_rate = ["tell reader", "reader ready"];
        let end = ["tell reader", "reader done", "tell writer", "writer done"];
        let at_rate = at_rate.iter().filter(|_| rate.is_some());
        let expected: Vec<&str> = begin.iter().chain(at_rate).chain(&end).copied().collect();
        assert_eq!(*log, expected);
    }
}

/// What so many threads of one process say of a store that lies so.
fn threads(lie: Lie, readers: usize, with_writer: bool) -> Result<Throughput> {
    let group = Group { phase: Phase::GetHit, by: By::Threads, readers, with_writer };
    let together = Together { part: Some(Part::Threads(group)), ..Together::default() };
    with_round(lie, &[Phase::GetHit], Mix::default(), together, |round| {
        round.driver.build(&same(&round.inputs.records), &round.shape, &round.path).unwrap();
        let mut script = Script { heard: Vec::new(), asked: 0 };
        round.part(&mut script).unwrap();
        assert_eq!(script.heard.len(), 1);
        match script.heard.pop() {
            Some(Word::Measured(measured)) => Ok(*measured),
            Some(Word::Failed(what)) => Err(credenza::Error::invalid(what)),
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn threads_read_at_once_and_each_is_checked() {
    for with_writer in [false, true] {
        let measured = threads(Lie::None, 3, with_writer).unwrap();
        assert_eq!(measured.wrong, None);
        assert_eq!((measured.lookups, measured.found), (3 * 1200, 3 * 1200));
        assert!(measured.ops >= 3 * 3 * 1200 && measured.per_second > 0.0);
        assert_eq!(measured.writes_per_second.is_some(), with_writer);
        assert!(threads(Lie::LastByte, 2, with_writer).unwrap().wrong.is_some());
    }
    let wrong = threads(Lie::KeepsOld, 2, true).unwrap().wrong.unwrap();
    assert!(wrong.starts_with("the writer: "), "{wrong}");
}

#[test]
fn a_thread_that_fails_ends_the_others() {
    let refused = threads(Lie::RefusesReads, 3, false).unwrap_err().to_string();
    assert!(refused.contains("reading thread") && refused.contains("out of order"), "{refused}");
}

/// The only word of a process whose threads do a part.
fn said_by_threads(round: &Round<'_, Liar>) -> Result<Throughput> {
    let mut script = Script { heard: Vec::new(), asked: 0 };
    round.part(&mut script).unwrap();
    match (script.heard.pop(), script.heard.len()) {
        (Some(Word::Measured(measured)), 0) => Ok(*measured),
        (Some(Word::Failed(what)), 0) => Err(credenza::Error::invalid(what)),
        other => panic!("{other:?}"),
    }
}

/// What so many threads say that commit to a store that lies so, at a rate, too.
fn committers(lie: Lie, readers: usize) -> Result<Throughput> {
    let phase = Phase::InsertSync;
    let group = Group { phase, by: By::Threads, readers, with_writer: false };
    let together = Together { part: Some(Part::Threads(group)), ..Together::default() };
    with_round(lie, &[phase], Mix::default(), together, |round| {
        let rate = Rate { per_second: 1e6, arrivals: Arrivals::Poisson, seconds: 0.001 };
        let spec = Spec { rate: Some(rate), ..round.spec.clone() };
        said_by_threads(&Round::new(round.driver, &spec, round.inputs))
    })
}

#[test]
fn threads_that_commit_store_every_record_once_or_tell() {
    for count in [1, 3, 8] {
        let measured = committers(Lie::None, count).unwrap();
        assert_eq!((measured.wrong, measured.ops), (None, 500), "{count}");
        assert!(measured.per_second > 0.0 && measured.syncs.is_some());
        let at_rate = measured.at_rate.unwrap();
        let timed: u64 = at_rate.latencies.iter().map(|(_, count)| count).sum();
        assert_eq!((at_rate.wrong, at_rate.ops, timed), (None, 500, 500), "{count}");
    }
    for lie in [Lie::LosesOne, Lie::ForgetsLast, Lie::LastByte, Lie::Missing, Lie::ScanShort] {
        let measured = committers(lie, 3).unwrap();
        assert!(measured.wrong.is_some(), "{lie:?}");
        let told = measured.at_rate.unwrap().wrong.unwrap();
        assert!(told.starts_with("at a rate, "), "{lie:?}: {told}");
    }
}

/// What so many threads say that do a mix of lookups and all changes, at a store that lies so; of 1,200
/// operations 1,000 at a rate, too.
fn mixers(lie: Lie, readers: usize) -> Result<Throughput> {
    mixers_of(Mix::of_use(1, 1, 0, Distribution::ZIPFIAN, None), lie, readers)
}

fn mixers_of(mix: Mix, lie: Lie, readers: usize) -> Result<Throughput> {
    let phase = Phase::Mixed;
    let group = Group { phase, by: By::Threads, readers, with_writer: false };
    let together = Together { part: Some(Part::Threads(group)), ..Together::default() };
    with_round(lie, &[phase], mix, together, |round| {
        let rate = Rate { per_second: 1e6, arrivals: Arrivals::Poisson, seconds: 0.001 };
        let spec = Spec { rate: Some(rate), ..round.spec.clone() };
        said_by_threads(&Round::new(round.driver, &spec, round.inputs))
    })
}

#[test]
fn threads_do_all_operations_of_a_mix_once_or_tell() {
    let found = [1, 3, 8].map(|count| {
        let measured = mixers(Lie::None, count).unwrap();
        assert_eq!((measured.wrong, measured.ops), (None, 1200), "{count}");
        assert!(measured.per_second > 0.0 && measured.syncs.is_none());
        let timed = |counts: &[(u64, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
        let of_kinds = |kinds: &StepLatencies| {
            let names = kinds.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names, ["get", "insert", "remove", "update"], "{count}");
            kinds.values().map(|of| timed(of)).sum::<u64>()
        };
        // About one in sixteen.
        let singly = of_kinds(&measured.operation_latencies);
        assert!((55..=95).contains(&singly), "{count}: {singly}");
        let at_rate = measured.at_rate.unwrap();
        assert_eq!((at_rate.wrong, at_rate.ops), (None, 1000), "{count}");
        let all = [timed(&at_rate.latencies), of_kinds(&at_rate.operation_latencies)];
        assert_eq!(all, [1000, 1000], "{count}");
        (measured.lookups, measured.found)
    });
    // The operations are the same ones, whoever does them.
    assert_eq!(found, [found[0]; 3]);
    for lie in [
        Lie::MissesOnce,
        Lie::GetsShort,
        Lie::GetsLong,
        Lie::KeepsOld,
        Lie::LosesOne,
        Lie::OnlyFirstByte,
        Lie::RemovesNot,
        Lie::RemovesAll,
        Lie::ForgetsLast,
        Lie::ScanShort,
        Lie::ScanSwapped,
    ] {
        let measured = mixers(lie, 3).unwrap();
        assert!(measured.wrong.is_some(), "{lie:?}");
        let told = measured.at_rate.unwrap().wrong.unwrap();
        assert!(told.starts_with("at a rate, "), "{lie:?}: {told}");
    }
    let told = mixers(Lie::GetsShort, 3).unwrap().wrong.unwrap();
    assert!(told.starts_with("committing thread 1 of 3: step "), "{told}");
    assert!(mixers(Lie::RefusesChanges, 3).unwrap_err().to_string().contains("no room"));
}

/// A run is compared, timed, timed operation by operation, and at a rate: none of them is believed.
#[test]
fn each_thread_is_checked_in_each_run_of_a_mix() {
    // Of each run the store is opened with, three threads have a handle each, and it is read through.
    const OPENED: usize = 1 + 3 + 1;
    let said =
        ["step ", "the steps add up to", "timed one by one, the steps", "at a rate, the steps"];
    for (run, said) in said.into_iter().enumerate() {
        for thread in 0..3 {
            let wrong = mixers(Lie::OneMissesOnce(run * OPENED + 2 + thread), 3).unwrap().wrong;
            assert!(wrong.as_ref().is_some_and(|wrong| wrong.contains(said)), "{run}: {wrong:?}");
        }
    }
    let none = mixers(Lie::OneMissesOnce(said.len() * OPENED + 2), 3).unwrap();
    assert_eq!(none.wrong, None, "there are no more");
}

#[test]
fn throughput_alone_of_a_mix_has_no_latencies() {
    let (phase, mix) = (Phase::Mixed, Mix::default());
    let group = Group { phase, by: By::Threads, readers: 2, with_writer: false };
    let together = Together { part: Some(Part::Threads(group)), ..Together::default() };
    let measured = with_round(Lie::None, &[phase], mix, together, |round| {
        let spec = Spec { latencies: false, ..round.spec.clone() };
        said_by_threads(&Round::new(round.driver, &spec, round.inputs)).unwrap()
    });
    assert!(measured.wrong.is_none() && measured.operation_latencies.is_empty());
    assert!(measured.at_rate.is_none());
}

/// Danger: the transaction of a thread that failed stays open, and the others wait for it for ever.
#[test]
fn a_thread_that_fails_in_a_transaction_ends_the_others() {
    for transactions in ["7", "\"all\""] {
        let mix = || mix(&format!("get = 1\nupdate = 1\ntransactions = {transactions}"));
        assert_eq!(mixers_of(mix(), Lie::None, 3).unwrap().wrong, None);
        let refused = mixers_of(mix(), Lie::RefusesChanges, 3).unwrap_err().to_string();
        assert!(refused.contains("committing thread") && refused.contains("no room"), "{refused}");
    }
}

#[test]
fn a_thread_that_cannot_commit_ends_the_others() {
    let refused = committers(Lie::RefusesChanges, 3).unwrap_err().to_string();
    assert!(refused.contains("committing thread") && refused.contains("no room"), "{refused}");
}

/// Has so many do a run at a store that lies so, each as a process does: with a handle that it opens itself,
/// of a store that it shares nothing with but what others see of it too.
fn by_processes(
    lie: Lie,
    (phase, mix): (Phase, Mix),
    readers: usize,
    run: Run,
) -> Result<(usize, Changed)> {
    let group = Group { phase, by: By::Processes, readers, with_writer: false };
    with_round(lie, &[phase], mix, Together::default(), |round| {
        let rate = Rate { per_second: 1e6, arrivals: Arrivals::Poisson, seconds: 0.001 };
        let (file, inputs) = (round.driver.committed(), round.inputs);
        let spec = Spec { rate: Some(rate), ..round.spec.clone() };
        let round = Round::new(round.driver, &spec, inputs);
        std::thread::scope(|scope| {
            let start = |number| -> Result<Thread> {
                let (member, mut to) = member::thread(changers::name(group, number));
                let together = Together {
                    part: Some(Part::Changer(group, run, number)),
                    ..Together::default()
                };
                let (spec, file) = (Spec { together, ..spec.clone() }, file.clone());
                scope.spawn(move || {
                    let own = Liar::opened_by(lie, number, file);
                    Round::new(&own, &spec, inputs).part(&mut to)
                });
                Ok(member)
            };
            if phase.is_mixed() {
                return round.with_script(phase, |round, mix, mut script| {
                    round.truncate(&mut script, run);
                    let (work, _) = round.mixed_work(mix, &script);
                    Ok((script.len(), round.mix_by_processes(group, &work, start)?))
                });
            }
            let records = round.records_of(group, run)?;
            Ok((records.len(), round.commit_by_processes(group, &records, start)?))
        })
    })
}

/// A mix of lookups and all changes, of 1,200 operations.
fn all_kinds() -> (Phase, Mix) {
    (Phase::Mixed, Mix::of_use(1, 1, 0, Distribution::ZIPFIAN, None))
}

#[test]
fn processes_store_every_record_once_or_tell() {
    let commits = || (Phase::InsertSync, Mix::default());
    for count in [1, 3, 8] {
        let (records, timed) = by_processes(Lie::None, commits(), count, Run::Timed).unwrap();
        assert_eq!((timed.wrong, records, timed.done.len()), (None, 500, count));
        let (_, at_rate) = by_processes(Lie::None, commits(), count, Run::AtRate).unwrap();
        let at_rate = at_rate.at_rate();
        assert_eq!((at_rate.wrong, at_rate.ops), (None, 500), "{count}");
    }
    let lies = [Lie::LosesOne, Lie::ForgetsLast, Lie::LastByte, Lie::Missing, Lie::ScanShort];
    for lie in lies.into_iter().chain([Lie::LosesOthers]) {
        for run in [Run::Timed, Run::AtRate] {
            let (_, ran) = by_processes(lie, commits(), 3, run).unwrap();
            assert!(ran.wrong.is_some(), "{lie:?}");
        }
    }
    // One alone loses nothing of others.
    let (_, alone) = by_processes(Lie::LosesOthers, commits(), 1, Run::Timed).unwrap();
    assert_eq!(alone.wrong, None);
}

#[test]
fn processes_do_all_operations_of_a_mix_once_or_tell() {
    const RUNS: [Run; 4] = [Run::Compared, Run::Timed, Run::Singly, Run::AtRate];
    for count in [1, 3, 8] {
        for run in RUNS {
            let (steps, ran) = by_processes(Lie::None, all_kinds(), count, run).unwrap();
            assert_eq!((ran.wrong.as_ref(), ran.done.len()), (None, count), "{run:?}");
            assert_eq!(steps, if run == Run::AtRate { 1000 } else { 1200 });
            let is_timed = |done: &Done| !done.operation_latencies.is_empty();
            assert_eq!(ran.done.iter().all(is_timed), run == Run::Singly, "{run:?}");
            assert_eq!(ran.at_rate().ops, if run == Run::AtRate { 1000 } else { 0 });
        }
    }
    for lie in [
        Lie::GetsShort,
        Lie::KeepsOld,
        Lie::LosesOne,
        Lie::RemovesNot,
        Lie::ForgetsLast,
        Lie::ScanSwapped,
        Lie::LosesOthers,
    ] {
        for run in RUNS {
            let (_, ran) = by_processes(lie, all_kinds(), 3, run).unwrap();
            assert!(ran.wrong.is_some(), "{lie:?}, {run:?}");
        }
    }
    let (_, ran) = by_processes(Lie::GetsShort, all_kinds(), 3, Run::Compared).unwrap();
    let told = ran.wrong.unwrap();
    assert!(told.starts_with("committing process 1 of 3: step "), "{told}");
}

/// Danger: what a scan gives beside others is believed whatever it is, as it is not known to the last record; or
/// what several do in transactions is taken for the work of none.
#[test]
fn scans_and_transactions_beside_others_are_right_or_told() {
    const RUNS: [Run; 4] = [Run::Compared, Run::Timed, Run::Singly, Run::AtRate];
    let of = |more: &str| {
        let table = format!("get = 3\ninsert = 2\nupdate = 1\nscan = 3\ntable-scan = 1\n{more}");
        (Phase::Mixed, mix(&table))
    };
    for more in ["", "remove = 1", "transactions = 7", "remove = 1\ntransactions = \"all\""] {
        for run in RUNS {
            for count in [1, 3] {
                let (_, ran) = by_processes(Lie::None, of(more), count, run).unwrap();
                assert_eq!(ran.wrong, None, "{more}: {count}, {run:?}");
            }
        }
        let lies = [Lie::RangeShort, Lie::RangeLate, Lie::RangeSwapped, Lie::ScansShortOnce];
        for lie in lies.into_iter().chain([Lie::KeepsOld, Lie::LosesOne, Lie::GetsShort]) {
            let (_, ran) = by_processes(lie, of(more), 3, Run::Compared).unwrap();
            assert!(ran.wrong.is_some(), "{more}: {lie:?}");
        }
    }
    // Where nobody removes anything there are as many records as one would find alone, at least.
    let ranges = |lie| {
        let work = (Phase::Mixed, mix("get = 3\ninsert = 2\nscan = 3\nscan-length = \"1..40\""));
        by_processes(lie, work, 3, Run::Timed).unwrap().1.wrong
    };
    assert_eq!(ranges(Lie::None), None);
    let short = ranges(Lie::RangeShort).unwrap();
    assert!(short.contains("scans to ") && short.contains("which may be"), "{short}");
}

#[test]
fn a_process_that_cannot_commit_ends_the_others() {
    let commits = (Phase::InsertSync, Mix::default());
    for work in [commits, all_kinds()] {
        let refused = by_processes(Lie::RefusesChanges, work, 3, Run::Timed).err().unwrap();
        let said = refused.to_string();
        assert!(said.contains("committing process 2") && said.contains("no room"), "{said}");
    }
}
