//! Danger: what a store takes at a rate is counted for another operation than the one that waited for it,
//! or from when it came to its turn; operations or kinds of them are left out; a store that loses
//! something at a rate only is believed. The time is made up here, and the stores pass it on.

use super::super::super::liar::Lie;
use super::super::super::mixed::expected;
use super::super::super::tests::{mix, with_round};
use super::super::Arrivals;
use super::*;
use crate::driver::Store;
use crate::runner::protocol::Message;
use crate::runner::together::Together;
use crate::workload::changes::{Model, Script};
use crate::workload::{Inputs, Mix, Workload};
use std::cell::{Cell, RefCell};

const MS: u64 = 1_000_000;
/// What the store takes for each, all different.
const GET: u64 = MS;
const INSERT: u64 = 2 * MS;
const REMOVE: u64 = 4 * MS;
const BEGIN: u64 = 8 * MS;
const COMMIT: u64 = 16 * MS;

/// A time that goes on only where somebody waits or works.
#[derive(Default)]
struct MadeUp(Cell<u64>);

impl Time for &MadeUp {
    fn begin(&mut self) {
        self.0.set(0);
    }

    fn now(&self) -> u64 {
        self.0.get()
    }

    fn wait_until(&self, then: u64) {
        self.0.set(self.0.get().max(then));
    }
}

/// A store whose calls take their time.
struct Slow<'t> {
    time: &'t MadeUp,
    index: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The keys that were stored, in their order.
    stored: Vec<Vec<u8>>,
}

impl Slow<'_> {
    fn holding<'t>(time: &'t MadeUp, records: &Records) -> Slow<'t> {
        let index = records.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        Slow { time, index, stored: Vec::new() }
    }

    fn take(&self, ns: u64) {
        self.time.0.set(self.time.0.get() + ns);
    }
}

impl Store for Slow<'_> {
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        self.take(GET);
        Ok(self.index.get(key).map(|value| take(value)).is_some())
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.index.iter().for_each(|(key, value)| take(key, value));
        Ok(())
    }
}

impl Writer for Slow<'_> {
    const HAS_TRANSACTIONS: bool = true;

    fn begin(&mut self) -> Result<()> {
        self.take(BEGIN);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.take(COMMIT);
        Ok(())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.take(INSERT);
        self.stored.push(key.to_vec());
        self.index.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.take(REMOVE);
        Ok(self.index.remove(key).is_some())
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

/// Starts at equal distances.
fn starts(count: usize, apart: u64) -> Vec<u64> {
    (0..count as u64).map(|i| i * apart).collect()
}

/// What the store takes for a step, without a transaction.
fn itself(action: Action) -> u64 {
    match action {
        Action::Get => GET,
        Action::Remove => REMOVE,
        _ => INSERT,
    }
}

const STEPS: usize = 22;

/// What such steps of a mix took that were to start so far apart, each from when it was to start; what
/// each takes of itself; and what came of the run.
fn mixed(transactions: &str, apart: u64) -> (Vec<u64>, Vec<u64>, AtRate) {
    let mix = mix(&format!("get = 1\nupdate = 1\nremove = 1\n{transactions}"));
    let found = Workload::find("tokens").unwrap();
    let mixes = mix.clone().into();
    let workload = Workload { records: Some(50), gets: STEPS, mixes, ..found };
    let (Inputs { records, fresh, .. }, _) = Inputs::prepare(&workload).unwrap();
    let (mix, time) = (&mix, MadeUp::default());
    let script = &Script::draw(&records, &fresh, mix, STEPS, 1);
    let outcome = expected(script, mix.transactions, Model::of(&records, &fresh, mix)).outcome;
    let steps = Steps::alone(script, mix.transactions, outcome);
    let mut pace = Pace::of(starts(STEPS, apart), 0.0, &time);
    let done = do_paced(&mut Slow::holding(&time, &records), steps, &mut pace).unwrap();
    (pace.took, script.iter().map(|(step, ..)| itself(step.action)).collect(), done)
}

#[test]
fn a_commit_counts_for_the_operation_that_ends_its_transaction() {
    for (transactions, size) in
        [("", 0), ("transactions = 4", 4), ("transactions = \"all\"", STEPS)]
    {
        let (took, mut expected, done) = mixed(transactions, 1000 * MS);
        for (i, ns) in expected.iter_mut().enumerate().filter(|_| size > 0) {
            *ns += if i % size == 0 { BEGIN } else { 0 };
            *ns += if i % size == size - 1 || i == STEPS - 1 { COMMIT } else { 0 };
        }
        assert_eq!(took, expected, "{transactions}");
        assert_eq!((done.ops, done.wrong.as_ref(), done.kept_up()), (22, None, true));
    }
}

#[test]
fn every_operation_is_counted_once_and_by_its_kind() {
    let (_, _, done) = mixed("", 1000 * MS);
    let count = |counts: &[(u64, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
    let kinds: Vec<&str> = done.operation_latencies.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["get", "remove", "update"]);
    assert!(done.operation_latencies.values().all(|of| of.len() == 1), "{done:?}");
    assert_eq!(done.operation_latencies.values().map(|of| count(of)).sum::<u64>(), 22);
    assert_eq!(count(&done.latencies), 22);
    assert!(done.over_time.is_some());
}

/// What a store that cannot keep up shows: each operation later than the one before it.
#[test]
fn latencies_count_from_when_operations_were_to_start() {
    let (took, itself, done) = mixed("", MS / 2);
    let mut ended = 0;
    for (i, (took, itself)) in took.iter().zip(&itself).enumerate() {
        ended += itself;
        assert_eq!(*took, ended - i as u64 * MS / 2, "{i}");
    }
    assert_eq!((done.seconds, done.kept_up()), (ended as f64 / 1e9, false));
}

/// Threads whose time is their own: who is slow delays nobody else, and an operation starts when it was to,
/// or behind those of its own thread.
#[test]
fn each_thread_does_its_steps_when_these_were_to_start() {
    let found = Workload::find("tokens").unwrap();
    let workload = Workload { records: Some(50), gets: 300, ..found };
    let (Inputs { records, fresh, .. }, _) = Inputs::prepare(&workload).unwrap();
    let mix = &mix("get = 1\nupdate = 1\nremove = 1");
    let (script, starts) = (Script::draw(&records, &fresh, mix, 300, 1), starts(300, MS));
    let mut all = AtRate::default();
    for part in script.dealt(3) {
        let time = MadeUp::default();
        let outcome = expected(&part.script, None, Model::of(&records, &fresh, mix)).outcome;
        let steps = Steps::alone(&part.script, None, outcome);
        let mut pace = Pace::of(part.own(&starts), 0.0, &time);
        let done = do_paced(&mut Slow::holding(&time, &records), steps, &mut pace).unwrap();
        let (mut ended, mut waited) = (0, 0);
        for (i, (step, ..)) in part.script.iter().enumerate() {
            let start = pace.starts[i];
            waited += u64::from(ended > start);
            ended = start.max(ended) + itself(step.action);
            assert_eq!(pace.took[i], ended - start, "{i}");
        }
        // Some wait for the one before, and some are free to start.
        assert!(waited > 0 && waited < done.ops, "{waited} of {}", done.ops);
        assert_eq!(done.wrong, None);
        all = AtRate::of_all([all, done].iter());
    }
    let last = *starts.last().unwrap() as f64 / 1e9;
    assert_eq!((all.ops, all.scheduled_seconds), (300, last));
}

#[test]
fn each_thread_stores_its_share_by_its_part_of_the_schedule() {
    let mut records = Records::default();
    (0..10_u8).for_each(|i| records.push(&[i], &[i, 1]).unwrap());
    let rate = Rate { per_second: 1000.0, arrivals: Arrivals::Even, seconds: 1.0 };
    let mut all = Vec::new();
    for (number, expected) in [(0, 4), (1, 3), (2, 3)] {
        let (time, share) = (MadeUp::default(), Share { number, of: 3 });
        let inserts = Inserts { rate: &rate, share, records: &records, seed: 1, clock_ns: 0.0 };
        let mut store = Slow::holding(&time, &Records::default());
        let own: Vec<u64> = share.take(starts(10, MS).into_iter()).collect();
        let mut pace = Pace::of(own.clone(), 0.0, &time);
        let done = inserts.insert(&mut store, &mut pace).unwrap();
        assert_eq!((done.ops, store.stored.len()), (expected, expected as usize));
        // Two milliseconds each, and three apart: nobody waits for the one before.
        assert_eq!(pace.took, vec![INSERT; expected as usize]);
        let stored: Vec<u64> = store.stored.iter().map(|key| u64::from(key[0]) * MS).collect();
        assert_eq!(stored, own);
        all.append(&mut store.stored);
    }
    all.sort_unstable();
    assert_eq!(all.len(), 10);
    all.dedup();
    assert_eq!(all.len(), 10);
}

/// What a phase gave of a store that lies so: as fast as can be, and all that there is at a rate.
fn at_rate(lie: Lie, phase: Phase, mix: Mix) -> AtRate {
    with_round(lie, &[phase], mix, Together::default(), |round| {
        let rate = Rate { per_second: 1e9, arrivals: Arrivals::Poisson, seconds: 0.001 };
        let spec = Spec { rate: Some(rate), ..round.spec.clone() };
        let samples = RefCell::new(Vec::new());
        let hear = |message: &Message| {
            if let Message::Measured(sample) = message {
                samples.borrow_mut().push((**sample).clone());
            }
            Ok(())
        };
        Round::new(round.driver, &spec, round.inputs).run(&hear).unwrap();
        let sample = samples.into_inner().remove(0);
        assert!(lie == Lie::None || sample.wrong.is_some(), "{lie:?}");
        sample.at_rate.unwrap()
    })
}

#[test]
fn what_a_store_loses_at_a_rate_is_told() {
    for (phase, count) in [(Phase::InsertSync, 500), (Phase::Mixed, 1200)] {
        let honest = at_rate(Lie::None, phase, Mix::default());
        assert_eq!((honest.ops, honest.wrong.as_ref()), (count, None), "{phase}");
        assert_eq!(honest.operation_latencies.is_empty(), phase == Phase::InsertSync);
        assert!(honest.over_time.is_some());
        for lie in [Lie::LosesOne, Lie::ForgetsLast, Lie::ScanShort] {
            let told = at_rate(lie, phase, Mix::default()).wrong.unwrap();
            assert!(told.starts_with("at a rate, "), "{phase}, {lie:?}: {told}");
        }
    }
    for (table, lie) in [("get = 1\nupdate = 1", Lie::KeepsOld), ("remove = 1", Lie::RemovesAll)] {
        let told = at_rate(lie, Phase::Mixed, mix(table)).wrong.unwrap();
        assert!(told.contains("the steps add up to"), "{lie:?}: {told}");
    }
    let all = mix("get = 1\nupdate = 1\ntransactions = \"all\"");
    assert_eq!(at_rate(Lie::None, Phase::Mixed, all).wrong, None);
}
