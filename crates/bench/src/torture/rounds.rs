//! Rounds: the parent process, which has something happen to every store in turn, and adds up what the
//! processes that look afterwards say.
//!
//! Invariants: the moment of a round is drawn from the seed, the fault and the round's number alone; a
//! store with which a process fails in its rehearsal, when nothing happens, is told and left out.

use super::asked::Asked;
use super::child::{Job, Task};
use super::judge::{At, acknowledged, last_boundary};
use super::keep;
use super::kill::Mark;
use super::ledger::Ledger;
use super::outcome::{CONTRACT, Failed, Outcome, Report, Trouble};
use super::plan::{Plan, Source};
use super::power::Cut;
use super::room::Room;
use super::subject::Subject;
use super::{Class, PATIENCE, Said, TortureArgs};
use crate::absent::{Absent, is_missed};
use crate::args::library_of;
use crate::driver::{self, Changes, Fault};
use crate::machine;
use crate::measure;
use crate::progress::{self, say};
use crate::report::text;
use crate::rng::Rng;
use crate::runner::folder::Folder;
use crate::runner::notes::are_bytes;
use crate::runner::process::{self, End, Program};
use crate::runner::protocol::Message;
use crate::runner::room as of_runs;
use crate::settings::Choices;
use crate::shell::quoted;
use credenza::{Error, Result};
use indicatif::ProgressBar;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Disks that one power cut may leave, which are looked at.
const IMAGES: usize = 4;
/// Operations at most between the last writing back of everything and a power cut.
const WINDOW: u64 = 128;
/// Sizes of a disk at most that a round tries: from gigabytes down to a page.
const TRIES: usize = 48;

pub(super) struct Run<'a> {
    args: &'a TortureArgs,
    folder: &'a Folder,
    room: Room,
    /// What this program says of itself is heard, and not what libraries say of a disk that is full.
    programs: [Program; 2],
    source: Source,
    settings: Choices,
    plan: Plan,
    /// The same for stores of which each transaction is a whole new file, if there are any.
    in_generations: Option<Plan>,
    started: Instant,
    report: Report,
}

/// What a disk of some size did to a store.
enum Filled {
    Enough,
    /// Nothing was acknowledged.
    TooLittle,
    /// It was full; what is not as promised.
    Full(Vec<String>),
}

/// How a process that works on a store came to its end.
enum Ended {
    Said(Said),
    Killed,
    Refused(String),
    Crashed(String),
}

impl<'a> Run<'a> {
    pub(super) fn new(args: &'a TortureArgs, folder: &'a Folder, room: Room) -> Result<Run<'a>> {
        let Asked { source, settings, name, notes } = Asked::by(args, folder)?;
        let plan = Plan::of(&source)?;
        let report = Report {
            credenza_torture: CONTRACT,
            machine: machine::facts(folder.path(), None, measure::clock_ns()),
            workload: name,
            settings: settings.in_words(),
            records: plan.changes(0, plan.filling),
            operations: plan.operations.len(),
            seed: args.seed,
            rounds: args.rounds,
            room: room.in_words(),
            results: Vec::new(),
            failures: Vec::new(),
            notes,
            interrupted: false,
        };
        let programs = [Program::this()?, Program::this()?.silent()];
        let started = Instant::now();
        let in_generations = None;
        Ok(Run {
            args,
            folder,
            room,
            programs,
            source,
            settings,
            plan,
            in_generations,
            started,
            report,
        })
    }

    pub(super) fn into_report(mut self) -> Report {
        self.report.interrupted = self.is_stopping();
        if self.report.interrupted {
            self.report.notes.push("Stopped by a signal: what was finished is above.".to_owned());
        }
        self.report.results.iter_mut().for_each(Outcome::end);
        self.report
    }

    fn is_stopping(&self) -> bool {
        self.folder.current().is_stopping()
    }

    /// Every round of every fault on every store.
    pub(super) fn all(&mut self) -> Result<()> {
        self.folder.current().begin();
        let mut subjects = self.subjects()?;
        let faults: Vec<Fault> =
            Fault::ALL.into_iter().filter(|fault| self.args.faults.contains(fault)).collect();
        let rounds = match self.args.round {
            Some(round) => round..round + 1,
            None => 0..self.args.rounds,
        };
        let steps = subjects.len() * faults.len() * rounds.len();
        let bar = progress::bar_unless(self.args.quiet, steps as u64);
        self.rehearse_all(&mut subjects, &faults, &bar)?;
        for subject in &subjects {
            for fault in &faults {
                self.report.results.push(self.new_outcome(subject, *fault));
            }
        }
        for round in rounds {
            if self.args.seconds.is_some_and(|most| self.started.elapsed().as_secs() >= most) {
                break;
            }
            let due = subjects.iter().flat_map(|subject| faults.iter().map(move |f| (subject, *f)));
            for (number, (subject, fault)) in due.enumerate() {
                bar.set_message(format!("{} {} {round}", subject.name, fault.name()));
                self.one(number, subject, fault, round)?;
                if self.is_stopping() {
                    return Ok(());
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// The stores that are asked for, or that are here.
    fn subjects(&mut self) -> Result<Vec<Subject>> {
        let is_named = self.args.stores.is_some();
        let all = || driver::NAMES.iter().map(|name| (*name).to_owned()).collect();
        let mut names: Vec<String> = self.args.stores.clone().unwrap_or_else(all);
        let mut known = HashSet::new();
        names.retain(|name| known.insert(name.clone()));
        let (mut subjects, mut absent) = (Vec::new(), Absent::default());
        let mut unfit: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
        for name in names {
            let library = library_of(&self.args.libraries, &name);
            match Subject::find(&name, library.as_deref(), self.settings.of(&name)) {
                Some(Ok(Ok(subject))) => match subject.unfit() {
                    None => subjects.push(subject),
                    Some(why) => {
                        let origin = Choices::origin(&self.args.settings, &name, &why)?;
                        unfit.entry((origin, why)).or_default().push(name);
                    }
                },
                Some(Ok(Err(what))) if is_named || library.is_some() => {
                    self.fail(&name, format!("it is {what}"));
                }
                Some(Ok(Err(what))) => absent.add_unfit(&name, what),
                Some(Err(e)) if is_named || is_missed(&name, &self.args.libraries) => {
                    self.fail(&name, e.to_string());
                }
                Some(Err(e)) => absent.add(&name, &e),
                None => {}
            }
        }
        let left_out = |((origin, why), names): ((&str, String), Vec<String>)| {
            format!("{origin} leaves out {}: {why}", names.join(", "))
        };
        let left_out: Vec<String> = unfit.into_iter().map(left_out).collect();
        if subjects.is_empty() && self.report.failures.is_empty() && !left_out.is_empty() {
            let left_out = left_out.join("; ");
            return Err(Error::invalid(format!("no store is left to torture: {left_out}")));
        }
        self.report.notes.extend(left_out.iter().map(|note| format!("{note}.")));
        self.report.notes.extend(absent.sentences());
        let names: Vec<&str> = subjects.iter().map(|subject| &*subject.name).collect();
        let notes = are_bytes(&names, self.plan.types).into_iter();
        self.report.notes.extend(notes.map(|note| format!("{note}.")));
        for subject in subjects.iter().filter(|subject| subject.replaces) {
            self.report.notes.push(format!(
                "{} is built anew after every {}, in the place of the file before: a change is \
                 acknowledged when the file that has it was published.",
                subject.name,
                text::counted(self.plan.generation(), "operation"),
            ));
            self.in_generations = Some(Plan::of(&self.source)?.in_generations());
        }
        Ok(subjects)
    }

    /// What is done to a store.
    fn plan_of(&self, subject: &Subject) -> &Plan {
        self.in_generations.as_ref().filter(|_| subject.replaces).unwrap_or(&self.plan)
    }

    fn fail(&mut self, store: &str, what: String) {
        say!("credenza torture: {store}: {what}");
        self.report.failures.push(Failed { store: store.to_owned(), what });
    }

    /// Whether each change is to be synced.
    fn is_durable(&self, subject: &Subject, fault: Fault) -> bool {
        let is_wanted = match self.args.durability {
            Some(class) => class == Class::Sync,
            None => fault == Fault::Power,
        };
        is_wanted && subject.has_durable
    }

    fn new_outcome(&self, subject: &Subject, fault: Fault) -> Outcome {
        let is_durable = self.is_durable(subject, fault);
        let promise = self.args.expect.unwrap_or_else(|| subject.promises(fault, is_durable));
        let class = if is_durable { Changes::Sync.class() } else { subject.class };
        let may_die = fault == Fault::Full && (subject.dies_when_full)(is_durable);
        let new = Outcome::new(&subject.name, &subject.version, class, fault, promise);
        Outcome { may_die, ..new }
    }

    /// All operations on each store without anything happening. A store that cannot do them is left out.
    fn rehearse_all(
        &mut self,
        subjects: &mut Vec<Subject>,
        faults: &[Fault],
        bar: &ProgressBar,
    ) -> Result<()> {
        let mut well = Vec::new();
        for mut subject in std::mem::take(subjects) {
            bar.set_message(format!("{} rehearses", subject.name));
            let mut classes: Vec<bool> =
                faults.iter().map(|fault| self.is_durable(&subject, *fault)).collect();
            classes.sort_unstable();
            classes.dedup();
            let mut wrong = None;
            for is_durable in classes {
                wrong = wrong.or(self.rehearse(&mut subject, is_durable)?);
            }
            match wrong {
                _ if self.is_stopping() => return Ok(()),
                None => well.push(subject),
                Some(what) => {
                    let what = format!("left out, as without any fault {what}");
                    bar.suspend(|| self.fail(&subject.name, what));
                }
            }
        }
        *subjects = well;
        Ok(())
    }

    /// What went wrong, in words.
    fn rehearse(&self, subject: &mut Subject, is_durable: bool) -> Result<Option<String>> {
        let folder = self.folder.empty(&subject.name)?;
        let sizes = match self.process(subject, is_durable, &folder, Job::Rehearse)? {
            Ended::Said(Said::Rehearsed(sizes)) => sizes,
            Ended::Refused(what) | Ended::Crashed(what) => return Ok(Some(what)),
            _ => return Ok(Some("it said nothing".to_owned())),
        };
        subject.sizes[usize::from(is_durable)] = sizes;
        let end = self.plan_of(subject).operations.len();
        let at = At { begun: end, done: end, synced: end };
        let look = Job::Check { at, after: None };
        let ended = self.process(subject, is_durable, &folder, look)?;
        self.folder.empty(&subject.name)?;
        Ok(match ended {
            Ended::Said(Said::Judged(judged)) => judged.what,
            Ended::Refused(what) | Ended::Crashed(what) => Some(what),
            _ => Some("it said nothing".to_owned()),
        })
    }

    /// One round of one fault on one store.
    fn one(&mut self, number: usize, subject: &Subject, fault: Fault, round: usize) -> Result<()> {
        let folder = self.folder.empty(&subject.name)?;
        let is_durable = self.is_durable(subject, fault);
        let mut rng = Rng::new(self.args.seed, 1000 * (round as u64 + 1) + fault as u64);
        let place = Place { subject, is_durable, folder: &folder, round };
        let mut outcome = self.report.results[number].clone();
        let troubles = match fault {
            Fault::Kill => self.kill(&place, &mut outcome, &mut rng),
            Fault::Power => self.cut_power(&place, &mut outcome, &mut rng),
            Fault::Full => self.fill(&place, &mut outcome, &mut rng),
        };
        // What a signal interrupted says nothing of the store.
        if !self.is_stopping() {
            outcome.rounds += 1;
            outcome.faults_wanted += if fault == Fault::Power { IMAGES } else { 1 };
            for what in troubles? {
                let command = self.command(&subject.name, fault, round);
                outcome.break_promise(Trouble { round, what, command });
            }
            self.report.results[number] = outcome;
        }
        self.folder.empty(&subject.name).map(drop)
    }

    fn kill(&self, place: &Place<'_>, outcome: &mut Outcome, rng: &mut Rng) -> Result<Vec<String>> {
        let plan = self.plan_of(place.subject);
        let (at, ledger) = (place.subject.draw(plan, rng), self.folder.path().join("ledger"));
        // Between microseconds and some milliseconds, all magnitudes alike.
        let after = (500.0 * 10_000_f64.powf(rng.unit())) as u64;
        let mark = if place.subject.replaces { Mark::draw(rng) } else { Mark::Operation };
        let job = Job::BeKilled { at, mark, after, ledger: ledger.clone() };
        Ok(match self.process_at(place, job)? {
            Ended::Killed => {
                outcome.faults += 1;
                let at = Ledger::take(&ledger)?;
                let at = At { begun: at.begun.min(plan.operations.len()), ..at };
                self.look(place, outcome, at)?
            }
            other => failed(outcome, other),
        })
    }

    fn cut_power(
        &self,
        place: &Place<'_>,
        outcome: &mut Outcome,
        rng: &mut Rng,
    ) -> Result<Vec<String>> {
        let at = place.subject.draw(self.plan_of(place.subject), rng);
        let window = (WINDOW as f64).powf(rng.unit()) as usize;
        let images = self.folder.empty("images")?;
        let cut = Cut {
            from: at.saturating_sub(window),
            at,
            events: 16_f64.powf(rng.unit()) as u64,
            images: images.clone(),
            count: IMAGES,
            seed: rng.next(),
        };
        let job = Job::LosePower { cut, sync_every: 1 + rng.index(64) };
        let at = match self.process_at(place, job)? {
            Ended::Said(Said::At(at)) => at,
            other => return Ok(failed(outcome, other)),
        };
        let mut troubles = Vec::new();
        for number in 0..IMAGES {
            outcome.faults += 1;
            // By the name that the store had: some have it in their files.
            fs::remove_dir_all(place.folder)
                .and_then(|()| fs::rename(images.join(number.to_string()), place.folder))
                .map_err(|e| Error::io("put an image at", e).at(place.folder))?;
            troubles.extend(self.look(place, outcome, at)?);
        }
        Ok(troubles)
    }

    /// Has the disk be full: with less and less space where a store gets along with it, as many take more than
    /// they need while there is some; and with more where the store could not even be made.
    fn fill(&self, place: &Place<'_>, outcome: &mut Outcome, rng: &mut Rng) -> Result<Vec<String>> {
        let sizes = &place.subject.sizes[usize::from(place.is_durable)];
        let Some(mut search) = self.room.search(sizes, rng) else { return Ok(Vec::new()) };
        for _ in 0..TRIES {
            let was_enough = match self.fill_to(place, outcome, search.bytes, false)? {
                _ if self.is_stopping() => return Ok(Vec::new()),
                Filled::Full(troubles) => return Ok(troubles),
                Filled::Enough => true,
                Filled::TooLittle => false,
            };
            if !search.goes_on(was_enough, rng) {
                break;
            }
        }
        // A store that is either not made or whole: then it is that what happens to it.
        let Some(bytes) = search.too_little else { return Ok(Vec::new()) };
        match self.fill_to(place, outcome, bytes, true)? {
            Filled::Full(troubles) => Ok(troubles),
            _ => Ok(Vec::new()),
        }
    }

    /// All operations with so much space. Whether a fault before the first of them returns is one, too, is to
    /// be said.
    fn fill_to(
        &self,
        place: &Place<'_>,
        outcome: &mut Outcome,
        bytes: u64,
        is_any_one: bool,
    ) -> Result<Filled> {
        // What got along is no part of the next try.
        self.folder.empty(&place.subject.name)?;
        let limit = self.room.make(place.folder, bytes)?;
        let filled = self.fill_up(place, outcome, limit, is_any_one);
        self.room.clear(place.folder)?;
        filled
    }

    fn fill_up(
        &self,
        place: &Place<'_>,
        outcome: &mut Outcome,
        limit: Option<u64>,
        is_any_one: bool,
    ) -> Result<Filled> {
        let ledger = self.folder.path().join("ledger");
        let job = Job::FillUp { limit, ledger: ledger.clone() };
        let end = self.plan_of(place.subject).operations.len();
        let ended = self.process_at(place, job)?;
        let noted = Ledger::take(&ledger)?;
        let at = match &ended {
            Ended::Said(Said::Full { why: None, .. }) => return Ok(Filled::Enough),
            Ended::Said(Said::Full { at, .. }) => *at,
            _ => At { begun: noted.begun.min(end), ..noted },
        };
        // Who dies of it, or does not end, is told wherever that was.
        let is_told = matches!(ended, Ended::Said(_) | Ended::Refused(_));
        if at.done == 0 && !is_any_one && is_told {
            return Ok(Filled::TooLittle);
        }
        outcome.faults += 1;
        self.room.give_more(place.folder)?;
        if let Ended::Said(Said::Full { is_made: false, .. }) = ended {
            let check = Job::Check { at, after: Some(outcome.fault) };
            if let Ended::Refused(_) = self.process_at(place, check)? {
                return self.make_again(place, outcome).map(Filled::Full);
            }
        }
        let mut troubles = match ended {
            Ended::Said(Said::Full { .. }) => Vec::new(),
            other => failed(outcome, other),
        };
        troubles.extend(self.look_and_go_on(place, outcome, at)?);
        Ok(Filled::Full(troubles))
    }

    /// All operations once more, where the store could not be made, and what is left of it is none: that must not be in the way.
    fn make_again(&self, place: &Place<'_>, outcome: &mut Outcome) -> Result<Vec<String>> {
        let ledger = self.folder.path().join("ledger");
        let job = Job::FillUp { limit: None, ledger: ledger.clone() };
        let ended = self.process_at(place, job)?;
        Ledger::take(&ledger)?;
        match ended {
            Ended::Said(Said::Full { at, why: None, .. }) => self.look(place, outcome, at),
            Ended::Said(Said::Full { why: Some(what), .. }) => {
                Ok(failed(outcome, Ended::Refused(what)))
            }
            other => Ok(failed(outcome, other)),
        }
    }

    /// Looks at a store that there is space for again, and does with it what is left to do.
    fn look_and_go_on(
        &self,
        place: &Place<'_>,
        outcome: &mut Outcome,
        at: At,
    ) -> Result<Vec<String>> {
        let mut troubles = self.look(place, outcome, at)?;
        if !troubles.is_empty() {
            return Ok(troubles);
        }
        let operations = &self.plan_of(place.subject).operations;
        let from = last_boundary(operations, at.done, place.subject.has_transactions);
        match self.process_at(place, Job::GoOn { from })? {
            Ended::Said(Said::Finished) => {
                let end = operations.len();
                let at = At { begun: end, done: end, synced: end };
                troubles.extend(self.look(place, outcome, at)?);
            }
            other => troubles.extend(failed(outcome, other)),
        }
        Ok(troubles)
    }

    /// Has a fresh process look at what is left; what is not as promised.
    fn look(&self, place: &Place<'_>, outcome: &mut Outcome, at: At) -> Result<Vec<String>> {
        let kept = self.args.keep.as_deref();
        let copy = kept.map(|_| keep::copy(place.folder, self.folder)).transpose()?;
        let before = outcome.damage();
        let ended = self.process_at(place, Job::Check { at, after: Some(outcome.fault) })?;
        let (judged, what) = match &ended {
            Ended::Said(Said::Judged(judged)) => (Some(judged.clone()), judged.what.clone()),
            Ended::Refused(what) | Ended::Crashed(what) => (None, Some(what.clone())),
            _ => (None, None),
        };
        let troubles = match ended {
            Ended::Said(Said::Judged(judged)) => outcome.add(judged).into_iter().collect(),
            other => {
                let plan = self.plan_of(place.subject);
                let changes = acknowledged(plan, place.subject.has_transactions, at);
                let (is_crash, what) = failure(other);
                outcome.add_unchecked(changes, is_crash, what).into_iter().collect()
            }
        };
        let is_damaged = outcome.damage() > before && !self.is_stopping();
        if let Some((folder, copy)) = kept.zip(copy).filter(|_| is_damaged) {
            let command = self.command(&place.subject.name, outcome.fault, place.round);
            let what = what.unwrap_or_default();
            let (round, judged) = (place.round, judged.as_ref());
            keep::keep(
                &copy,
                folder,
                outcome,
                &keep::Look { round, at, what: &what, judged, command },
            )?;
        }
        Ok(troubles)
    }

    fn process_at(&self, place: &Place<'_>, job: Job) -> Result<Ended> {
        self.process(place.subject, place.is_durable, place.folder, job)
    }

    /// Runs one process, and says how it ended.
    fn process(
        &self,
        subject: &Subject,
        is_durable: bool,
        folder: &Path,
        job: Job,
    ) -> Result<Ended> {
        let task = Task {
            store: subject.name.clone(),
            library: subject.library.clone(),
            folder: folder.to_owned(),
            source: self.source.clone(),
            settings: subject.settings,
            is_durable,
            job,
        };
        let timeout = Duration::from_secs(self.args.timeout);
        let mut said = None;
        let current = self.folder.current();
        let program = &self.programs[usize::from(subject.is_library)];
        let end = process::run(program, &task, timeout, current, |message| {
            if let Message::Tortured(what) = message {
                said = Some(*what);
            }
        })?;
        Ok(match (end, said) {
            (End::Failed(what), _) => Ended::Refused(what),
            (End::Finished, said) => Ended::Said(said.unwrap_or(Said::Finished)),
            (End::Crashed { signal: Some(libc::SIGKILL), .. }, said) => {
                said.map_or(Ended::Killed, Ended::Said)
            }
            // The folder of the store may be a file system of its own.
            (End::Crashed { signal: Some(libc::SIGBUS), .. }, _) => Ended::Crashed(format!(
                "it was ended by SIGBUS{}",
                of_runs::told_of_sigbus(Some(folder))
            )),
            (End::Crashed { what, .. }, _) => Ended::Crashed(what),
            (End::TimedOut, _) => {
                Ended::Crashed(format!("no end after {} seconds", self.args.timeout))
            }
        })
    }

    /// The command that does a round again, for a shell.
    fn command(&self, store: &str, fault: Fault, round: usize) -> String {
        let args = self.args;
        let mut words = vec!["credenza torture".to_owned()];
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name} {}", quoted(&value))));
        };
        let of_path = |path: &PathBuf| path.display().to_string();
        option("stores", Some(store.to_owned()));
        option("faults", Some(fault.name().to_owned()));
        option("records", Some(args.records.to_string()));
        option("operations", Some(args.operations.to_string()));
        option("seed", Some(args.seed.to_string()));
        option("round", Some(round.to_string()));
        match &args.data {
            Some(data) => option("data", Some(of_path(data))),
            None => option("workload", Some(args.workload.clone())),
        }
        option("format", args.format.clone());
        let class = |class| if class == Class::Sync { "sync" } else { "buffered" };
        option("durability", args.durability.map(|wanted| class(wanted).to_owned()));
        option("expect", args.expect.map(|promise| promise.name().to_owned()));
        option("dir", args.dir.as_ref().map(of_path));
        option("timeout", (args.timeout != PATIENCE).then(|| args.timeout.to_string()));
        let settings = args.settings.iter();
        settings.for_each(|setting| option("set", Some(setting.clone())));
        let is_its = |lib: &&String| lib.split_once('=').is_some_and(|(name, _)| name == store);
        let own = args.libraries.iter().filter(is_its);
        own.for_each(|library| option("lib", Some(library.clone())));
        words.join(" ")
    }
}

/// Where a round takes place.
struct Place<'a> {
    subject: &'a Subject,
    is_durable: bool,
    folder: &'a Path,
    round: usize,
}

/// A process did not do what it was there for.
fn failed(outcome: &mut Outcome, ended: Ended) -> Vec<String> {
    let (is_crash, what) = failure(ended);
    outcome.add_failure(is_crash, what).into_iter().collect()
}

/// Whether it died, and what is known of it.
fn failure(ended: Ended) -> (bool, String) {
    match ended {
        Ended::Refused(what) => (false, what),
        Ended::Crashed(what) => (true, what),
        Ended::Killed => (true, "it was killed, and not by this program".to_owned()),
        Ended::Said(_) => (true, "it said something else than what was asked".to_owned()),
    }
}
