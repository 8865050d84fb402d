//! Rounds of measured processes, one store after the other, and what they found.
//!
//! Invariants: as in [`crate::runner`]: within a round every store runs once, in a random order
//! that the seed fixes, and one of them once more ([`twin`]); two measured processes never run at the same time, only those that make stores
//! before the rounds do, of which nothing is timed; a store that failed is not tried again in the same part,
//! and never stops the others. When a signal comes, or what the workbench itself needs fails, the run is over:
//! nothing more is measured, and what is finished is told.

use super::outcome::Classes;
use super::task::{Task, Work};
use super::{Document, ReproduceArgs};
use crate::absent::is_missed;
use crate::candidates::Describe;
use crate::driver::{Changes, Setup, Shape, kernel, with_driver};
use crate::machine;
use crate::measure;
use crate::progress::{self, say};
pub(super) use crate::report::compare::is_own;
use crate::report::stats::{self, PAIRS_FOR_VERDICT, Ratio};
use crate::report::text;
use crate::result::{Failure, Machine, StoreInfo, Summary};
use crate::rng::Rng;
use crate::runner::folder::Folder;
use crate::runner::process::{self, End, Program};
use crate::runner::protocol::{Figure, Message};
use crate::workload::generate::stream;
use crate::workload::{Data, Inputs, Mixes, Phase, Records, Workload};
use credenza::{Error, Result};
use indicatif::ProgressBar;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many stores are made at a time, where that is not timed: more might not have room in memory together.
const MAKERS: usize = 2;

/// Where experiments are run.
pub(super) struct Lab<'a> {
    pub(super) args: &'a ReproduceArgs,
    pub(super) machine: Machine,
    /// The stores that took part, with how they were set up, once for each way.
    pub(super) stores: Vec<StoreInfo>,
    described: Vec<Described>,
    pub(super) failures: Vec<Failure>,
    /// How far a store was from itself in the parts since somebody took this.
    pub(super) noise: Vec<Noise>,
    /// What a reader must know: above all which stores are missing.
    pub(super) notes: Vec<String>,
    memory: Folder,
    disk: Option<Folder>,
    program: Program,
    cpu: Option<usize>,
    started: Instant,
    /// Processes that measured to their end.
    pub(super) finished: usize,
    /// What ended the run before its time, where that was no signal.
    pub(super) error: Option<Error>,
}

/// A store as it was set up once, with the classes of its changes and of its commits.
struct Described {
    store: &'static str,
    setup: Setup,
    changes: Option<Changes>,
    commits: Option<Changes>,
}

/// Data and queries that were written down for measured processes.
#[derive(Clone, Debug)]
pub(super) struct Input {
    path: PathBuf,
    pub(super) shape: Shape,
}

/// A part of an experiment, for all stores and rounds.
pub(super) struct Plan<'p> {
    /// What is done, for the one who waits.
    pub(super) what: String,
    pub(super) stores: &'p [&'static str],
    pub(super) setup: Setup,
    pub(super) input: &'p Input,
    pub(super) rounds: usize,
    /// Whether the store files must be on a disk.
    pub(super) is_on_disk: bool,
    /// What a process of its own does for each store before the rounds, which all find what it made. Nothing of
    /// it is timed: there are [`MAKERS`] of them at a time.
    pub(super) before: Option<Work>,
    pub(super) work: Work,
}

impl<'a> Lab<'a> {
    pub(super) fn new(args: &'a ReproduceArgs) -> Result<Lab<'a>> {
        let memory = Folder::create_in(&args.memory())?;
        memory.current().begin();
        // What is on the disk comes after minutes: whether there is a place for it is seen now.
        // So is what somebody named for nothing.
        let has_disk = args.disk.is_some() || args.documents().into_iter().any(Document::has_disk);
        let disk = has_disk.then(|| Folder::named_by("--disk", args.disk())).transpose()?;
        if args.documents().into_iter().any(Document::has_disk) {
            refuse_memory(args.disk())?;
        }
        disk.iter().for_each(|disk| disk.current().begin());
        let cpu = kernel::allowed_cpus().pop().filter(|_| !args.no_pin);
        let machine = machine::facts(memory.path(), cpu, measure::clock_ns());
        let mut notes: Vec<String> = args.unused().into_iter().collect();
        if machine.filesystem != "tmpfs" {
            notes.push(format!(
                "store files that are to be in memory are on {}: creating them may wait for the disk",
                machine.filesystem
            ));
        }
        notes.extend(machine::about_program(&machine));
        let [load, ..] = machine.load_average;
        if load > 0.5 {
            notes.push(format!(
                "other programs were running (load average {load:.1} on {}): single figures \
                 are not to be quoted",
                text::counted(machine.cores, "core")
            ));
        }
        Ok(Lab {
            args,
            machine,
            stores: Vec::new(),
            described: Vec::new(),
            failures: Vec::new(),
            noise: Vec::new(),
            notes,
            memory,
            disk,
            program: Program::this()?,
            cpu,
            started: Instant::now(),
            finished: 0,
            error: None,
        })
    }

    /// Rounds of a part for which the document had, or would have had, so many.
    pub(super) fn rounds(&self, usual: usize) -> usize {
        self.args.rounds.unwrap_or(usual)
    }

    /// Whether a signal asked for the end of the run.
    pub(super) fn is_interrupted(&self) -> bool {
        self.memory.current().is_stopping()
    }

    /// Whether nothing more is measured.
    pub(super) fn is_over(&self) -> bool {
        self.error.is_some() || self.is_interrupted()
    }

    /// Makes data and `gets` queries of each kind, and writes them down.
    pub(super) fn input(&mut self, data: Data, records: usize, gets: usize) -> Input {
        let mut workload = Workload::over("reproduce", data);
        // Of a run that is over nobody reads them.
        (workload.records, workload.gets) =
            if self.is_over() { (Some(1), 1) } else { (Some(records), gets) };
        workload.seed = self.args.seed;
        // Whatever a part times itself, it has no ranges.
        workload.phases = Some(vec![Phase::GetHit, Phase::Get90, Phase::GetMiss]);
        self.write_down(Inputs::prepare(&workload).map(|(inputs, _)| inputs))
    }

    /// Writes down what was made; where that fails the run is over.
    pub(super) fn write_down(&mut self, made: Result<Inputs>) -> Input {
        let path = self.memory.path().join("inputs");
        let written =
            made.and_then(|inputs| inputs.save(&path).map(|()| Shape::of(&inputs.records)));
        let shape = written.unwrap_or_else(|e| {
            self.error.get_or_insert(e);
            Shape::of(&Records::default())
        });
        Input { path, shape }
    }

    /// Those of `wanted` that are here and not left out; says which are missing.
    pub(super) fn available(
        &mut self,
        wanted: &[&'static str],
        setup: Setup,
        input: &Input,
    ) -> Vec<&'static str> {
        let shape = input.shape.set_up(setup);
        let mut here = Vec::new();
        for name in wanted {
            let named = self.args.stores.as_ref().map(|names| names.iter().any(|n| n == name));
            if named == Some(false) {
                continue;
            }
            let library = self.args.library(name);
            let (library, mixes) = (library.as_deref(), &Mixes::default());
            let class = "buffered";
            let work = Describe { name, library, shape: &shape, class, mixes, is_opened: false };
            match with_driver(name, work) {
                Some(Ok(info)) => {
                    // Of sizes that depend on the data the first stand for all.
                    let is_known = |of: &Described| (of.store, of.setup) == (*name, setup);
                    if !self.is_over() && !self.described.iter().any(is_known) {
                        let changes = info.changes_class.as_deref().and_then(Changes::named);
                        let commits = changes.and(Changes::named(&info.commits_class));
                        self.described.push(Described { store: name, setup, changes, commits });
                        let alike =
                            |s: &StoreInfo| (&s.store, &s.tuning) == (&info.store, &info.tuning);
                        if !self.stores.iter().any(alike) {
                            self.stores.push(info);
                        }
                    }
                    here.push(*name);
                }
                Some(Err(e)) if named == Some(true) || is_missed(name, &self.args.libraries) => {
                    self.fail(name, None, "missing", e.to_string());
                }
                Some(Err(e)) => {
                    let note = format!("{name} is not here and was left out: {e}");
                    if !self.notes.contains(&note) {
                        self.notes.push(note);
                    }
                }
                None => {}
            }
        }
        here
    }

    /// What is safe of changes of the stores that were set up so, all at once or in transactions.
    pub(super) fn classes(&self, setup: Setup, in_transactions: bool) -> Classes {
        let of_setup = self.described.iter().filter(|of| of.setup == setup);
        let class = |of: &Described| if in_transactions { of.commits } else { of.changes };
        Classes(of_setup.filter_map(|of| Some((of.store, class(of)?))).collect())
    }

    /// Runs all rounds of a part, as far as the run is not over.
    pub(super) fn measure(&mut self, plan: &Plan<'_>) -> Figures {
        let mut figures = Figures::default();
        if self.is_over() {
            return figures;
        }
        let makes = usize::from(plan.before.is_some());
        let twin = twin(plan.stores, plan.rounds);
        let takers = plan.stores.len() + usize::from(twin.is_some());
        let bar = self.begin(plan, plan.rounds * takers + makes * plan.stores.len());
        let mut given_up = match &plan.before {
            Some(work) => self.make(plan, work, &mut figures, &bar),
            None => Vec::new(),
        };
        let mut again = Figures::default();
        'rounds: for round in 0..plan.rounds {
            let mut order: Vec<(&str, bool)> = plan.stores.iter().map(|&of| (of, false)).collect();
            order.extend(twin.map(|store| (store, true)));
            let seed = self.args.seed.wrapping_add(round as u64);
            Rng::new(seed, stream::ROUNDS).shuffle(&mut order);
            for (store, is_again) in order {
                if self.is_over() {
                    break 'rounds;
                }
                bar.set_message(format!("round {}: {store}", round + 1));
                if !given_up.contains(&store) {
                    let ended = self.one(store, plan);
                    let into = if is_again { &mut again } else { &mut figures };
                    if self.may_go_on(store, Some(round), plan, ended, into) {
                        self.finished += 1;
                    } else {
                        given_up.push(store);
                    }
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        self.clear(plan, plan.stores);
        if let Some(store) = twin {
            self.noise.extend(figures.judge_by(&plan.what, store, &again));
        }
        figures
    }

    /// Removes what these stores left.
    fn clear(&mut self, plan: &Plan<'_>, stores: &[&str]) {
        let folder = self.folder(plan);
        // All of them, whatever one of them says.
        let failed: Vec<Error> =
            stores.iter().filter_map(|store| folder.clear(store).err()).collect();
        self.error = self.error.take().or(failed.into_iter().next());
    }

    /// Says what begins: in a line, and with a bar where a person looks.
    fn begin(&self, plan: &Plan<'_>, steps: usize) -> ProgressBar {
        if self.args.quiet {
            return ProgressBar::hidden();
        }
        say!(
            "credenza reproduce: {} s: {}, {}, {}",
            self.started.elapsed().as_secs(),
            plan.what,
            text::counted(plan.stores.len(), "store"),
            text::counted(plan.rounds, "round"),
        );
        progress::bar(steps as u64)
    }

    /// Has the stores made, several at once; gives those that failed.
    fn make(
        &mut self,
        plan: &Plan<'_>,
        work: &Work,
        figures: &mut Figures,
        bar: &ProgressBar,
    ) -> Vec<&'static str> {
        bar.set_message("stores are made");
        let (next, ends) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let this = &*self;
        std::thread::scope(|scope| {
            for _ in 0..MAKERS {
                scope.spawn(|| {
                    // Those that come first in the document take longest, as a rule.
                    while let Some(store) = plan.stores.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if this.is_over() {
                            break;
                        }
                        let end = this.process(store, plan, work, None, false);
                        let is_over = end.is_err();
                        ends.lock().unwrap_or_else(PoisonError::into_inner).push((*store, end));
                        bar.inc(1);
                        if is_over {
                            next.store(plan.stores.len(), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let mut ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
        ends.sort_by_key(|(store, _)| plan.stores.iter().position(|of| of == store));
        let failed = ends.into_iter().filter_map(|(store, ended)| {
            (!self.may_go_on(store, None, plan, ended, figures)).then_some(store)
        });
        failed.collect()
    }

    /// One round of one store.
    fn one(&self, store: &'static str, plan: &Plan<'_>) -> Result<Ended> {
        let work = &plan.work;
        let cpu = self.cpu.filter(|_| !work.is_threaded());
        let ended = self.process(store, plan, work, cpu, plan.before.is_some())?;
        if plan.before.is_none() {
            self.folder(plan).clear(store)?;
        }
        Ok(ended)
    }

    /// The folder for the stores of a part.
    fn folder(&self, plan: &Plan<'_>) -> &Folder {
        self.disk.as_ref().filter(|_| plan.is_on_disk).unwrap_or(&self.memory)
    }

    /// Runs one process to its end, in the folder of its store: an empty one, or, if it was made before, as it is.
    fn process(
        &self,
        store: &'static str,
        plan: &Plan<'_>,
        work: &Work,
        cpu: Option<usize>,
        is_made: bool,
    ) -> Result<Ended> {
        let folder = self.folder(plan);
        let is_copied = plan.is_on_disk && self.disk.is_some() && !is_made;
        let task = Task {
            store: store.to_owned(),
            library: self.args.library(store),
            folder: if is_made { folder.of(store) } else { folder.empty(store)? },
            made_in: is_copied.then(|| self.memory.empty(store)).transpose()?,
            inputs: plan.input.path.clone(),
            setup: plan.setup,
            cpu,
            seed: self.args.seed,
            work: work.clone(),
        };
        let timeout = Duration::from_secs(self.args.timeout);
        let mut told = Vec::new();
        let end = process::run(&self.program, &task, timeout, folder.current(), |message| {
            if let Message::Figure(figure) = message {
                told.push(figure);
            }
        })?;
        if is_copied {
            self.memory.clear(store)?;
        }
        // What a signal ended says nothing of the store.
        Ok(Ended { end, told, is_interrupted: self.is_interrupted() })
    }

    /// Takes down what came of a process, and whether its store may go on; of one that may not, nothing is left.
    fn may_go_on(
        &mut self,
        store: &'static str,
        round: Option<usize>,
        plan: &Plan<'_>,
        ended: Result<Ended>,
        figures: &mut Figures,
    ) -> bool {
        let is_well = match ended {
            Ok(ended) => self.note(store, round, plan, ended, figures),
            Err(e) => {
                self.error = Some(e);
                false
            }
        };
        if !is_well {
            self.clear(plan, &[store]);
        }
        is_well
    }

    /// Takes down what a process told, and whether it ended well.
    fn note(
        &mut self,
        store: &'static str,
        round: Option<usize>,
        plan: &Plan<'_>,
        ended: Ended,
        figures: &mut Figures,
    ) -> bool {
        let mut wrong = Vec::new();
        for figure in ended.told {
            match figure.wrong {
                None => figures.add(store, &figure.name, round.unwrap_or(0), figure.value),
                Some(what) => wrong.push(format!("{}: {what}", figure.name)),
            }
        }
        if ended.is_interrupted {
            return false;
        }
        for what in wrong {
            self.fail(store, round, "wrong-answer", format!("{}: {what}", plan.what));
        }
        let seconds = self.args.timeout;
        let (status, what) = match ended.end {
            End::Finished => return true,
            End::Failed(what) => ("error", what),
            End::Crashed { what, .. } => ("crashed", what),
            End::TimedOut => ("timed-out", format!("no end after {seconds} seconds")),
        };
        self.fail(store, round, status, format!("{}: {what}", plan.what));
        false
    }

    /// Remembers a failure, and says it at once.
    fn fail(&mut self, store: &str, round: Option<usize>, status: &str, what: String) {
        let loud = if status == "wrong-answer" { "WRONG ANSWER: " } else { "" };
        let time = round.map_or_else(String::new, |round| format!(", round {}", round + 1));
        let (store, status) = (store.to_owned(), status.to_owned());
        let failure = Failure { store, round, phase: None, status, what };
        let is_known = |known: &Failure| {
            (&known.store, &known.status, &known.what)
                == (&failure.store, &failure.status, &failure.what)
        };
        // A missing store is missing in every part, and a wrong answer often is in every round.
        if !self.failures.iter().any(is_known) {
            say!("credenza reproduce: {loud}{}{time}: {}", failure.store, failure.what);
            self.failures.push(failure);
        }
    }
}

/// Refuses a folder for what is to begin with nothing in memory whose files are always there.
fn refuse_memory(folder: &Path) -> Result<()> {
    match &*machine::filesystem_of(folder) {
        kind @ ("tmpfs" | "ramfs") => Err(Error::invalid(format!(
            "this folder is in memory ({kind}), where nothing can be cold: name one on a disk with --disk"
        ))
        .at(folder)),
        _ => Ok(()),
    }
}

/// The store that takes part twice in every round of a part, as if it were two: one of ours, as they take the
/// least time. What is one store's alone is in no ratio, and fewer rounds allow no verdict.
fn twin<'s>(stores: &[&'s str], rounds: usize) -> Option<&'s str> {
    let one = stores.iter().find(|store| is_own(store)).or(stores.first());
    one.copied().filter(|_| stores.len() > 1 && rounds >= PAIRS_FOR_VERDICT)
}

/// How many times as fast as itself a store looked, and whether a ratio was judged by that.
#[derive(Clone, Debug)]
struct Floor(f64, Arc<AtomicBool>);

/// How far a store was from itself in one figure of a part.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Noise {
    /// What was done, as it is told while it is measured.
    pub(super) part: String,
    pub(super) store: &'static str,
    pub(super) figure: String,
    /// How many times as fast as itself, with its interval. [`Ratio::floor`] is what follows for others.
    pub(super) ratio: Ratio,
    /// Whether any ratio was judged by it: of others it need not be told.
    #[serde(skip)]
    is_used: Arc<AtomicBool>,
}

impl Noise {
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }
}

/// How a process ended, and what it told before.
struct Ended {
    end: End,
    told: Vec<Figure>,
    /// Whether a signal had come by then.
    is_interrupted: bool,
}

/// What the rounds of a part found.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// Samples by store and name, each with its round.
    samples: BTreeMap<(String, String), Vec<(usize, f64)>>,
    /// The noise floor of each name, where a store was measured against itself.
    floors: BTreeMap<String, Floor>,
}

impl Figures {
    pub(super) fn add(&mut self, store: &str, name: &str, round: usize, value: f64) {
        let of = self.samples.entry((store.to_owned(), name.to_owned())).or_default();
        of.push((round, value));
    }

    /// The samples of a store, each with its round.
    pub(super) fn of(&self, store: &str, name: &str) -> &[(usize, f64)] {
        self.samples.get(&(store.to_owned(), name.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// Median, interval and samples; `None` where nothing was measured.
    pub(super) fn get(&self, store: &str, name: &str) -> Option<Summary> {
        let samples: Vec<f64> = self.of(store, name).iter().map(|(_, value)| *value).collect();
        (!samples.is_empty()).then(|| stats::summarise(&samples))
    }

    pub(super) fn median(&self, store: &str, name: &str) -> Option<f64> {
        self.get(store, name).map(|summary| summary.median)
    }

    /// How many times as fast `fast` is as `slow` in what takes time: rounds are paired.
    pub(super) fn ratio(&self, fast: &str, slow: &str, name: &str) -> Option<Ratio> {
        let others = self.of(slow, name);
        let pair = |(round, own): &(usize, f64)| {
            others.iter().find(|(other, _)| other == round).map(|(_, other)| (*own, *other))
        };
        let pairs: Vec<_> = self.of(fast, name).iter().filter_map(pair).collect();
        Some(Ratio { floor: self.floor(name), ..Ratio::of_pairs(&pairs)? })
    }

    /// How many times as fast as itself a store looked in this: 1 where it was not measured.
    fn floor(&self, name: &str) -> f64 {
        let Some(Floor(times, is_used)) = self.floors.get(name) else { return 1.0 };
        is_used.store(true, Ordering::Relaxed);
        *times
    }

    /// Takes another floor for this name, unless that which is there is higher.
    fn set_floor(&mut self, name: &str, floor: Floor) {
        let is_higher = |old: &Floor| old.0 >= floor.0;
        if !self.floors.get(name).is_some_and(is_higher) {
            self.floors.insert(name.to_owned(), floor);
        }
    }

    /// Takes the samples of a store for those that `from` has of it, under other names, with their noise.
    pub(super) fn take(&mut self, (store, name): (&str, &str), from: &Figures, of: (&str, &str)) {
        for (round, value) in from.of(of.0, of.1) {
            self.add(store, name, *round, *value);
        }
        if let Some(floor) = from.floors.get(of.1) {
            self.set_floor(name, floor.clone());
        }
    }

    /// Takes the noise floors that follow from what a store found `again` in the same rounds, and tells them.
    /// What does not scatter has none.
    fn judge_by(&mut self, part: &str, store: &'static str, again: &Figures) -> Vec<Noise> {
        let mut noise = Vec::new();
        for (_, name) in again.samples.keys() {
            let other = |round| again.of(store, name).iter().find(|(of, _)| *of == round);
            let pair = |(round, own): &(usize, f64)| Some((*own, other(*round)?.1));
            let pairs: Vec<_> = self.of(store, name).iter().filter_map(pair).collect();
            let Some(mut ratio) = Ratio::of_pairs(&pairs) else { continue };
            if ratio.pairs < PAIRS_FOR_VERDICT || (ratio.low, ratio.high) == (1.0, 1.0) {
                continue;
            }
            ratio.floor = ratio.high.max(1.0 / ratio.low);
            let is_used = Arc::default();
            self.set_floor(name, Floor(ratio.floor, Arc::clone(&is_used)));
            noise.push(Noise {
                part: part.to_owned(),
                store,
                figure: name.clone(),
                ratio,
                is_used,
            });
        }
        noise
    }

    /// The store with the lowest median of this figure among `stores`.
    pub(super) fn lowest<'s>(&self, stores: &[&'s str], name: &str) -> Option<&'s str> {
        let medians = stores.iter().filter_map(|s| Some((*s, self.median(s, name)?)));
        medians.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(store, _)| store)
    }

    /// The samples of other figures added to these.
    pub(super) fn join(&mut self, more: Figures) {
        self.samples.extend(more.samples);
        more.floors.into_iter().for_each(|(name, floor)| self.set_floor(&name, floor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::stats::Verdict;

    #[test]
    fn one_of_ours_takes_part_twice_where_rounds_allow_a_verdict() {
        assert_eq!(twin(&["cdb", "hash", "btree"], 3), Some("hash"));
        assert_eq!(twin(&["cdb", "mcdb"], 3), Some("cdb"));
        assert_eq!(twin(&["cdb", "hash"], 2), None);
        assert_eq!(twin(&["hash"], 3), None, "one store is in no ratio");
    }

    #[test]
    fn what_a_store_is_from_itself_judges_the_ratios_of_all() {
        let (mut figures, mut again) = (Figures::default(), Figures::default());
        for (round, factor) in [1.0, 1.1, 1.3].into_iter().enumerate() {
            figures.add("hash", "get", round, 1.0);
            figures.add("cdb", "get", round, 1.2);
            figures.add("cdb", "size", round, 7.0);
            again.add("hash", "get", round, factor);
            figures.add("hash", "size", round, 5.0);
            again.add("hash", "size", round, 5.0);
        }
        let verdict = |of: &Figures, name| of.ratio("hash", "cdb", name).unwrap().verdict();
        assert_eq!(verdict(&figures, "get"), Verdict::Faster);
        let noise = figures.judge_by("a part", "hash", &again);
        let found: Vec<_> = noise.iter().map(|of| (&*of.figure, of.ratio.floor)).collect();
        assert_eq!(found, [("get", 1.3)], "what does not scatter has no noise");
        assert_eq!(verdict(&figures, "get"), Verdict::NoDifference);
        assert_eq!(verdict(&figures, "size"), Verdict::Faster);
        // Under another name it stays so.
        let mut pairs = Figures::default();
        for store in ["hash", "cdb"] {
            pairs.take((store, "seconds"), &figures, (store, "get"));
        }
        assert_eq!(verdict(&pairs, "seconds"), Verdict::NoDifference);
    }
}
