//! What `ups_bench` does with a store: its operations, each timed by itself.
//!
//! Invariants: what is drawn is a function of the seed, so that the one who makes the keys and the measured
//! process come to the same operations; all of them, and what each must answer, are known before the first is
//! timed.

use super::task::Bench;
use crate::driver::{Driver, Reading, Shape, Writer};
use crate::rng::Rng;
use crate::runner::passes;
use crate::workload::generate::stream;
use crate::workload::records::Index;
use crate::workload::{Content, Inputs, Place, Records};
use credenza::Result;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What the operations of a command are.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Mixture {
    /// Of a hundred; the rest are inserts.
    pub(super) find: u64,
    pub(super) erase: u64,
    /// Operations in a transaction.
    pub(super) transaction: Option<usize>,
    /// Whether a key may have several values, of which the last one is the newest; an insert of a key that is
    /// there is refused else.
    pub(super) has_duplicates: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Insert,
    Find,
    Erase,
}

impl Mixture {
    pub(super) const INSERTS: Mixture =
        Mixture { find: 0, erase: 0, transaction: None, has_duplicates: false };

    /// So many operations, drawn as `ups_bench` does.
    pub(super) fn operations(self, count: usize, seed: u64) -> impl Iterator<Item = Kind> {
        let mut rng = Rng::new(seed, stream::MIXED);
        (0..count).map(move |_| match rng.below(100) {
            ticket if ticket < self.erase => Kind::Erase,
            ticket if ticket < self.erase + self.find => Kind::Find,
            _ => Kind::Insert,
        })
    }
}

/// What one process does. The records are what is inserted, in this order; the fresh keys of the inputs are
/// those that are looked up and erased.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) operations: usize,
    /// Records that a command before inserted; the store is opened again then.
    pub(super) loaded: usize,
    pub(super) mixture: Mixture,
    pub(super) is_in_memory: bool,
}

/// An operation, and what it must answer.
#[derive(Clone, Copy)]
enum Step {
    /// Of this record, which is stored or refused.
    Insert(u32, bool),
    /// Of this fresh key; it has the value of this record.
    Find(u32, Option<u32>),
    /// Of this fresh key, which is there or not.
    Erase(u32, bool),
}

/// All that is done with a store, and what is in it at the end.
struct Script {
    load: Vec<Step>,
    steps: Vec<Step>,
    content: Content,
}

impl Script {
    fn new(inputs: &Inputs, part: &Part, seed: u64) -> Script {
        let Inputs { records, fresh, .. } = inputs;
        let index = Index::over(records);
        // By the number of the first record of a key: that whose value it has now.
        let mut live: Vec<Option<u32>> = vec![None; records.len()];
        let (mut inserted, mut drawn) = (0, 0);
        let mut step = |kind| match kind {
            Kind::Insert => {
                let number = inserted;
                inserted += 1;
                let first = index.find(records, records.key(number as usize)).unwrap_or_default();
                let is_new = live[first].is_none();
                if is_new {
                    live[first] = Some(number);
                }
                Step::Insert(number, is_new)
            }
            Kind::Find | Kind::Erase => {
                let number = drawn;
                drawn += 1;
                let first = index.find(records, fresh.key(number as usize));
                match (kind, first) {
                    (Kind::Erase, Some(first)) => Step::Erase(number, live[first].take().is_some()),
                    (Kind::Erase, None) => Step::Erase(number, false),
                    (_, first) => Step::Find(number, first.and_then(|first| live[first])),
                }
            }
        };
        let load = (0..part.loaded).map(|_| step(Kind::Insert)).collect();
        let steps = part.mixture.operations(part.operations, seed).map(&mut step).collect();
        let content = match part.mixture.has_duplicates {
            true => records.content(),
            false => content_of(records, live.iter().flatten().copied()),
        };
        Script { load, steps, content }
    }
}

fn content_of(records: &Records, numbers: impl Iterator<Item = u32>) -> Content {
    let mut content = Content::default();
    for (key, value) in numbers.map(|number| records.get(number as usize)) {
        content.add(key, value);
    }
    content
}

/// One kind of operation, with the times of all of them.
#[derive(Clone, Copy, Default)]
struct Times {
    count: u64,
    ns: u64,
    shortest: u64,
    longest: u64,
    /// Operations that did what they were to: a key was stored, found or erased.
    done: u64,
    /// Bytes that were stored or found: of an insert key and value, of a find the value.
    bytes: u64,
}

impl Times {
    #[inline]
    fn add(&mut self, start: Instant) {
        let ns = start.elapsed().as_nanos() as u64;
        self.shortest = if self.count == 0 { ns } else { self.shortest.min(ns) };
        self.count += 1;
        self.ns += ns;
        self.longest = self.longest.max(ns);
    }

    /// What the last operation came to.
    #[inline]
    fn came_to(&mut self, is_done: bool, bytes: usize) {
        if is_done {
            self.done += 1;
            self.bytes += bytes as u64;
        }
    }
}

/// The figure of the seconds of all operations and of closing, by which stores are compared: what one leaves until it is closed
/// is to be done, too.
pub(super) const CLOSED: &str = "seconds closed";

pub(super) fn measure<D: Driver>(bench: &Bench<'_, D>, part: Part) -> Result<()> {
    let script = Script::new(&bench.inputs, &part, bench.task.seed);
    let duplicates = part.mixture.has_duplicates.then_some(Place::Last);
    let shape = Shape { duplicates, ..bench.shape };
    let mut writer = match part.mixture.transaction {
        Some(_) => bench.driver.create_committing(&bench.path, &shape)?,
        None => bench.driver.create(&bench.path, &shape)?,
    };
    let mut run = Run::new(&bench.inputs, part.mixture);
    if part.loaded > 0 {
        for step in &script.load {
            run.step(&mut writer, *step)?;
        }
        writer.close()?;
        writer = bench.driver.reopen(&bench.path, &shape, false)?;
        run.times = Default::default();
    }
    let start = Instant::now();
    let commits = run.steps(&mut writer, &script.steps)?;
    let elapsed = start.elapsed();
    let mut wrong = run.wrong.take();
    wrong = wrong.or(passes::check_scan(&mut writer, script.content)?);
    let start = Instant::now();
    writer.close()?;
    let closing = start.elapsed();
    if !part.is_in_memory {
        let mut store = bench.driver.open(&bench.path, &shape, Reading::Warm)?;
        wrong = wrong.or(passes::check_scan(&mut store, script.content)?);
    }
    bench.tell("elapsed", (elapsed + closing).as_secs_f64(), wrong.clone())?;
    tell(bench, part, run.times, (commits, closing), wrong)
}

/// Says how long it took; operations of a kind that there were none of have no figures.
fn tell<D: Driver>(
    bench: &Bench<'_, D>,
    part: Part,
    [insert, find, erase]: [Times; 3],
    (commits, closing): (Times, Duration),
    wrong: Option<String>,
) -> Result<()> {
    let seconds = (insert.ns + find.ns + erase.ns + commits.ns) as f64 / 1e9;
    bench.tell("seconds", seconds, wrong.clone())?;
    bench.tell(CLOSED, seconds + closing.as_secs_f64(), wrong.clone())?;
    bench.tell("operations", part.operations as f64, wrong.clone())?;
    for (name, times) in [("insert", insert), ("find", find), ("erase", erase)] {
        if times.count > 0 {
            let ns = if name == "insert" { times.ns + commits.ns } else { times.ns };
            let per_second = 1e9 / ns.max(1) as f64;
            bench.tell(name, times.count as f64 * per_second, wrong.clone())?;
            for (what, figure) in [
                ("count", times.count as f64),
                ("done", times.done as f64 * 100.0 / times.count as f64),
                ("bytes", times.bytes as f64 * per_second),
                ("shortest", times.shortest as f64 / 1e9),
                ("average", times.ns as f64 / times.count as f64 / 1e9),
                ("longest", times.longest as f64 / 1e9),
            ] {
                bench.tell(&format!("{name} {what}"), figure, wrong.clone())?;
            }
        }
    }
    if !part.is_in_memory {
        bench.tell("file", bench.file_bytes()? as f64, wrong)?;
    }
    Ok(())
}

/// The operations on a store.
struct Run<'a> {
    inputs: &'a Inputs,
    mixture: Mixture,
    /// Of insert, find and erase.
    times: [Times; 3],
    wrong: Option<String>,
}

impl<'a> Run<'a> {
    fn new(inputs: &'a Inputs, mixture: Mixture) -> Run<'a> {
        Run { inputs, mixture, times: Default::default(), wrong: None }
    }

    /// Does all of them, in transactions where there are such; gives the times of beginnings and commits.
    fn steps<W: Writer>(&mut self, writer: &mut W, steps: &[Step]) -> Result<Times> {
        let mut commits = Times::default();
        for group in steps.chunks(self.mixture.transaction.unwrap_or(usize::MAX)) {
            if self.mixture.transaction.is_some() {
                let start = Instant::now();
                writer.begin()?;
                commits.add(start);
            }
            for step in group {
                self.step(writer, *step)?;
            }
            if self.mixture.transaction.is_some() {
                let start = Instant::now();
                writer.commit()?;
                commits.add(start);
            }
        }
        Ok(commits)
    }

    fn step<W: Writer>(&mut self, writer: &mut W, step: Step) -> Result<()> {
        let Inputs { records, fresh, .. } = self.inputs;
        let is_right = match step {
            Step::Insert(number, is_new) => {
                let (key, value) = records.get(number as usize);
                let start = Instant::now();
                let was_new = match self.mixture.has_duplicates {
                    true => writer.add(key, value).map(|()| is_new)?,
                    false => writer.insert_if_absent(key, value)?,
                };
                self.times[0].add(start);
                self.times[0].came_to(was_new, key.len() + value.len());
                was_new == is_new
            }
            Step::Find(number, record) => {
                let (key, expected) =
                    (fresh.key(number as usize), record.map(|r| records.get(r as usize).1));
                let (mut is_same, start) = (false, Instant::now());
                let is_found = writer.get(key, |got| is_same = expected == Some(got))?;
                self.times[1].add(start);
                self.times[1].came_to(is_found, expected.unwrap_or_default().len());
                is_found == is_same && is_found == expected.is_some()
            }
            Step::Erase(number, is_there) => {
                let start = Instant::now();
                let was_there = writer.remove(fresh.key(number as usize))?;
                self.times[2].add(start);
                self.times[2].came_to(was_there, 0);
                was_there == is_there
            }
        };
        if !is_right {
            self.wrong.get_or_insert_with(|| step.told());
        }
        Ok(())
    }
}

impl Step {
    /// That it was answered wrongly.
    fn told(self) -> String {
        let (what, number, expected) = match self {
            Step::Insert(number, is_new) => ("insert of record", number, is_new),
            Step::Find(number, record) => ("find of key", number, record.is_some()),
            Step::Erase(number, is_there) => ("erase of key", number, is_there),
        };
        format!("{what} {number}: not answered with '{expected}', or with another value")
    }
}
