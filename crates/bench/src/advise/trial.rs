//! Measuring a candidate with a part of the data, or with all of them: in a process of its own, every
//! answer compared.
//!
//! Records are measured as `bench` does it, phase by phase; a trace is replayed as `replay` does it.

use super::AdviseArgs;
use super::candidates::{Candidate, Form};
use super::changing::{self, CHANGE, Changing};
use super::class::Class;
use super::figures::{Figure, Figures, Of, Trial};
use super::look::Subject;
use super::usage::{GET, MISS, RANGE, Usage, WRITE};
use crate::driver::kernel;
use crate::measure::{self, Latencies};
use crate::replay::{self, Replayed, Speed, Task};
use crate::runner::child;
use crate::runner::folder::Folder;
use crate::runner::process::{self, End, Program};
use crate::runner::protocol::{self, Message, Sample, Spec};
use crate::runner::room::Advice;
use crate::runner::together::Together;
use crate::workload::distribution::Distribution;
use crate::workload::transactions::Transactions;
use crate::workload::{Inputs, Mix, Phase, Records, Workload};
use credenza::btree::KeyType;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Lookups, ranges' records and changes in one trial: as many as there are records, within these. With few
/// there is no 99th percentile; a program that is built for debugging is only tested.
const LEAST_GETS: usize = if cfg!(debug_assertions) { 1_000 } else { 64_000 };
const MOST_GETS: usize = 1_000_000;
/// Changes want new keys that are like those of the data, of which there are only so many.
const MOST_CHANGES_A_RECORD: usize = 8;
const BATCH: usize = 32;
/// Changes that cost of a class is measured with: where nothing waits for the disk; calls of `sync`; and
/// changes, or transactions, that each wait for it, as a disk may take ten milliseconds.
const BUFFERED_CHANGES: usize = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
const SYNCS: usize = 50;
const SYNCED_CHANGES: usize = if cfg!(debug_assertions) { 40 } else { 200 };

/// What a measured process is told.
#[derive(Serialize, Deserialize)]
enum Work {
    Phases(Box<Spec>),
    Replay(Box<Task>),
    Changing(Box<Changing>),
}

/// Does what a process is told on standard input.
pub(super) fn main() -> Result<()> {
    // Whoever started this process may have been stopped before it could say what to do.
    match protocol::task::<Work>()? {
        None => Ok(()),
        Some(Work::Phases(spec)) => child::measure(&spec),
        Some(Work::Replay(task)) => replay::measure_replay(&task),
        Some(Work::Changing(task)) => changing::measure(&task),
    }
}

/// Where candidates are measured.
pub(super) struct Lab<'a> {
    args: &'a AdviseArgs,
    subject: &'a Subject,
    usage: Usage,
    folder: Folder,
    program: Program,
    pub(super) cpu: Option<usize>,
    pub(super) clock_ns: f64,
    /// Parts of the records that were written down, with how many there are, and their bytes.
    written: HashMap<(usize, Form), (PathBuf, u64, u64)>,
    /// The same parts without what is asked of them.
    bare: HashMap<(usize, Form), PathBuf>,
    /// The candidates whose answers to the operations of a trace were compared.
    compared: BTreeSet<String>,
    /// What a reader must know of how a store replayed the trace.
    pub(super) remarks: BTreeSet<String>,
}

/// What a measured process said.
#[derive(Default)]
struct Heard {
    samples: Vec<Sample>,
    replayed: Option<Replayed>,
    refused: Option<String>,
}

impl<'a> Lab<'a> {
    pub(super) fn new(args: &'a AdviseArgs, subject: &'a Subject, usage: &Usage) -> Result<Self> {
        Ok(Lab {
            args,
            subject,
            usage: usage.clone(),
            folder: Folder::create_in(&args.folder(usage))?,
            program: Program::this()?,
            cpu: kernel::allowed_cpus().pop().filter(|_| !args.no_pin),
            clock_ns: measure::clock_ns(),
            written: HashMap::new(),
            bare: HashMap::new(),
            compared: BTreeSet::new(),
            remarks: BTreeSet::new(),
        })
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Measures the candidate with one of so many records; the inner error says what the store did wrong.
    pub(super) fn measure(
        &mut self,
        candidate: &Candidate,
        one_of: usize,
    ) -> Result<std::result::Result<Trial, String>> {
        // While the clock runs, a replay compares only what costs next to nothing: all of it once before.
        let is_trace = matches!(self.subject, Subject::Trace { .. });
        if is_trace && !self.compared.contains(&candidate.name()) {
            if let Err(what) = self.run(candidate, one_of, true)? {
                return Ok(Err(what));
            }
            self.compared.insert(candidate.name());
        }
        let measured = self.run(candidate, one_of, false)?;
        match (measured, self.usage.durability) {
            // Nothing in a mix waits for the disk: what its changes cost then is measured beside it.
            (Ok(mut trial), class @ Class::Every(_)) if !is_trace && self.usage.does(WRITE) => {
                let figures = match self.changing(candidate, class, one_of)? {
                    Ok(figures) => figures,
                    Err(what) => return Ok(Err(what)),
                };
                trial.figures.extend(figures.into_iter().filter_map(|(figure, ns)| match figure {
                    Figure::Time(name, of) if name == CHANGE => {
                        Some((Figure::Time(WRITE.to_owned(), of), ns))
                    }
                    time @ Figure::Time(..) => Some((time, ns)),
                    _ => None,
                }));
                Ok(Ok(trial))
            }
            (measured, _) => Ok(measured),
        }
    }

    /// What is measured from here on is in this use; what was written down was for another.
    pub(super) fn use_so(&mut self, usage: &Usage) {
        self.usage = usage.clone();
        self.written.clear();
    }

    /// What changes of this class cost with one of so many records: times of a change and of a call of
    /// `sync`, and in [`Figure::Build`] what a change takes with all waiting in it.
    pub(super) fn changing(
        &mut self,
        candidate: &Candidate,
        class: Class,
        one_of: usize,
    ) -> Result<std::result::Result<Figures, String>> {
        let folder = self.folder.empty("stores")?;
        // Of more a trial would take as long as nobody asked for; a call of `sync` is then next to nothing for each.
        let every = class.every().map(|every| every.min(BUFFERED_CHANGES));
        let task = Changing {
            store: candidate.store.clone(),
            folder,
            records: self.bare(candidate.form, one_of)?,
            is_durable: class == Class::Sync,
            sync_every: every,
            together: self.usage.changes_together,
            changes: match class {
                Class::Buffered => BUFFERED_CHANGES,
                Class::Every(every) => every.saturating_mul(SYNCS).min(BUFFERED_CHANGES),
                Class::Sync => SYNCED_CHANGES.saturating_mul(self.usage.changes_together),
            },
            seed: self.args.seed,
            cpu: self.cpu,
            clock_ns: self.clock_ns,
        };
        let heard = match self.done(&Work::Changing(Box::new(task)))? {
            Ok(heard) => heard,
            Err(what) => return Ok(Err(what)),
        };
        let Some(sample) = heard.samples.into_iter().next() else {
            return Ok(Err("nothing was measured".to_owned()));
        };
        if let Some(what) = sample.wrong {
            return Ok(Err(format!("WRONG ANSWER: changed in the class {class}, {what}")));
        }
        let mut figures = Figures::from([(Figure::Build, sample.ns_per_op)]);
        for (name, counts) in &sample.operation_latencies {
            times(name, &[counts], &mut figures);
        }
        Ok(Ok(figures))
    }

    /// A part of the records in this form, in a file; of a trace those that it found or stored.
    fn bare(&mut self, form: Form, one_of: usize) -> Result<PathBuf> {
        if let Some(path) = self.bare.get(&(one_of, form)) {
            return Ok(path.clone());
        }
        let part = |records: &Records| match one_of {
            1 => formed(records, form),
            _ => formed(&records.part(one_of)?, form),
        };
        let part = match self.subject {
            Subject::Records { records, .. } => part(records)?,
            Subject::Trace { script, .. } => part(&replay::records_of(script, usize::MAX)?)?,
        };
        let part = match part.len() {
            // A trace may have nothing but removals of keys that are not there.
            0 => {
                let mut one = Records::default();
                one.push(b"key", b"value")?;
                one
            }
            _ => part,
        };
        let path = self.folder.path().join(format!("records-{}", self.bare.len()));
        let file = File::create(&path).map_err(|e| Error::io("create", e).at(&path))?;
        let mut out = BufWriter::new(file);
        let written = part.write_to(&mut out).and_then(|()| out.flush());
        written.map_err(|e| Error::io("write", e).at(&path))?;
        self.bare.insert((one_of, form), path.clone());
        Ok(path)
    }

    /// One process with the candidate; with `is_check` one that times nothing, and compares all of every answer.
    fn run(
        &mut self,
        candidate: &Candidate,
        one_of: usize,
        is_check: bool,
    ) -> Result<std::result::Result<Trial, String>> {
        let place = self.folder.empty("stores")?;
        let (work, records, bytes) = self.work(candidate, one_of, is_check, place)?;
        Ok(match self.done(&work)? {
            Ok(heard) => self.trial(candidate, heard, records, bytes),
            Err(what) => Err(what),
        })
    }

    /// What a process said that did this work, and whose files are gone; else what became of it.
    fn done(&mut self, work: &Work) -> Result<std::result::Result<Heard, String>> {
        let timeout = Duration::from_secs(self.args.timeout);
        let mut heard = Heard::default();
        let current = self.folder.current();
        let end = process::run(&self.program, work, timeout, current, |message| match message {
            Message::Measured(sample) => heard.samples.push(*sample),
            Message::Replayed(replayed) => heard.replayed = Some(*replayed),
            Message::Refused(phase, what) | Message::Amiss(phase, what) => {
                heard.refused.get_or_insert(format!("{phase}: {what}"));
            }
            _ => {}
        })?;
        self.folder.empty("stores")?;
        Ok(match end {
            End::Finished => Ok(heard),
            End::Failed(what) | End::Crashed { what, .. } => Err(what),
            End::TimedOut => Err(format!("no end after {} seconds", self.args.timeout)),
        })
    }

    fn trial(
        &mut self,
        candidate: &Candidate,
        heard: Heard,
        records: u64,
        bytes: u64,
    ) -> std::result::Result<Trial, String> {
        if let Some(what) = heard.refused {
            return Err(what);
        }
        if let Some(done) = heard.replayed {
            if let Some(what) = done.wrong {
                return Err(format!("WRONG ANSWER: {what}"));
            }
            self.remarks.extend(remarks(&candidate.name(), &done));
            return Ok(of_replay(&done));
        }
        let is_wrong =
            |sample: &Sample| Some(format!("{}: {}", sample.phase, sample.wrong.as_ref()?));
        if let Some(what) = heard.samples.iter().find_map(is_wrong) {
            return Err(format!("WRONG ANSWER: {what}"));
        }
        Ok(Trial { records, bytes, figures: of_samples(&heard.samples) })
    }

    /// What a process has to do; for records how many they are, and their bytes.
    fn work(
        &mut self,
        candidate: &Candidate,
        one_of: usize,
        is_check: bool,
        folder: PathBuf,
    ) -> Result<(Work, u64, u64)> {
        let (store, library) = (candidate.store.clone(), candidate.library.clone());
        let (cpu, clock_ns) = (self.cpu, self.clock_ns);
        let subject = self.subject;
        match subject {
            Subject::Trace { path, script } => {
                let task = Task {
                    store,
                    library,
                    folder,
                    trace: path.clone(),
                    records: None,
                    speed: Speed::Full,
                    is_built: !script.loaded.is_empty(),
                    one_of,
                    is_durable: self.usage.sync,
                    sync_every: self.usage.durability.every(),
                    settings: candidate.choices()?,
                    is_check,
                    cpu,
                    clock_ns,
                };
                Ok((Work::Replay(Box::new(task)), 0, 0))
            }
            Subject::Records { records, .. } => {
                let (inputs, count, bytes) = self.written(records, candidate.form, one_of)?;
                let spec = Spec {
                    store,
                    library,
                    folder,
                    keep: None,
                    open: None,
                    groups: None,
                    inputs,
                    phases: phases(&self.usage),
                    mixes: mix(&self.usage, candidate.commits)?.into(),
                    done_in_time: None,
                    settings: candidate.choices()?,
                    batch: BATCH,
                    seed: self.args.seed,
                    cold: false,
                    read_ahead: false,
                    sync: self.usage.sync,
                    oracle: None,
                    together: Together::default(),
                    latencies: true,
                    over_time: false,
                    own_counters: false,
                    rate: None,
                    advice: Advice::OtherFolder,
                    cpu,
                    clock_ns,
                };
                Ok((Work::Phases(Box::new(spec)), count, bytes))
            }
        }
    }

    /// A part of the records in this form, in a file with what is asked of them.
    fn written(
        &mut self,
        records: &Records,
        form: Form,
        one_of: usize,
    ) -> Result<(PathBuf, u64, u64)> {
        if let Some(written) = self.written.get(&(one_of, form)) {
            return Ok(written.clone());
        }
        let part = if one_of == 1 { None } else { Some(records.part(one_of)?) };
        let part = formed(part.as_ref().unwrap_or(records), form)?;
        let (count, bytes) = (part.len() as u64, part.key_bytes() + part.value_bytes());
        let mut workload = Workload::of_records(&PathBuf::new(), None);
        workload.gets = part.len().clamp(LEAST_GETS, MOST_GETS);
        if self.usage.does(WRITE) {
            workload.gets = workload.gets.min(part.len() * MOST_CHANGES_A_RECORD);
        }
        workload.phases = Some(phases(&self.usage));
        workload.seed = self.args.seed;
        workload.distribution = self.distribution()?;
        workload.mixes = mix(&self.usage, false)?.into();
        let path = self.folder.path().join(format!("inputs-{}", self.written.len()));
        Inputs::over(part, &workload)?.save(&path)?;
        self.written.insert((one_of, form), (path.clone(), count, bytes));
        Ok((path, count, bytes))
    }

    fn distribution(&self) -> Result<Distribution> {
        self.usage.distribution.parse()
    }
}

/// The records as a store is given them.
fn formed(records: &Records, form: Form) -> Result<Records> {
    let mut formed = Records::default();
    let keys = form.keys.map(KeyType::named);
    let order = if form.sorted_first { records.in_order() } else { Vec::new() };
    let in_order = order.iter().map(|i| records.get(*i as usize));
    let as_they_come = records.iter().filter(|_| !form.sorted_first);
    for (key, value) in in_order.chain(as_they_come) {
        match &keys {
            Some(keys) => formed.push(&keys.parse(key)?, value)?,
            None => formed.push(key, value)?,
        }
    }
    Ok(formed)
}

/// What is measured of records that are used so.
fn phases(usage: &Usage) -> Vec<Phase> {
    // Where records change, lookups and ranges are between the changes.
    let is_mixed = usage.does(WRITE) && !usage.sync;
    let [hit, miss] = match usage.batches {
        true => [Phase::GetManyHit, Phase::GetManyMiss],
        false => [Phase::GetHit, Phase::GetMiss],
    };
    let wanted = [
        (Phase::Build, true),
        (hit, usage.does(GET) && (!is_mixed || usage.batches)),
        (miss, usage.does(MISS)),
        (Phase::Range, usage.does(RANGE) && !is_mixed),
        (Phase::InsertSync, usage.does(WRITE) && usage.sync),
        (Phase::Mixed, is_mixed),
    ];
    wanted.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(phase, _)| phase).collect()
}

/// What is done between each other where records change.
fn mix(usage: &Usage, commits: bool) -> Result<Mix> {
    let gets = if usage.batches { 0 } else { usage.weight(GET) };
    let (changes, ranges) = (usage.weight(WRITE), usage.weight(RANGE));
    let transactions = commits.then_some(Transactions::Each);
    if changes == 0 {
        return Ok(Mix::default());
    }
    Ok(Mix::of_use(gets, changes, ranges, usage.distribution.parse()?, transactions))
}

/// The figures of a measured process.
fn of_samples(samples: &[Sample]) -> Figures {
    let mut figures = Figures::new();
    for sample in samples {
        // The store as it is after changes counts, not as it was built; what waits for the disk is done
        // with a few records only.
        if matches!(sample.phase, Phase::Build | Phase::Mixed) {
            figures.insert(Figure::File, sample.file_bytes as f64);
        }
        if sample.phase == Phase::Build {
            figures.insert(Figure::Build, sample.ns_per_op);
            continue;
        }
        let memory = figures.entry(Figure::Memory).or_default();
        *memory = memory.max(sample.peak_rss_bytes as f64);
        let operation = match sample.phase {
            Phase::Mixed => {
                of_mix(sample, &mut figures);
                continue;
            }
            Phase::GetMiss | Phase::GetManyMiss => MISS,
            Phase::Range => RANGE,
            Phase::InsertSync => WRITE,
            _ => GET,
        };
        times(operation, &[&sample.latencies], &mut figures);
        if sample.phase.is_batched() {
            // The percentiles are of what each lookup waits, which is its batch; the mean is its part of it.
            figures.insert(Figure::Time(operation.to_owned(), Of::Mean), sample.ns_per_op);
        }
    }
    figures
}

/// The times of operations that were done between each other.
fn of_mix(sample: &Sample, figures: &mut Figures) {
    for (operation, names) in
        [(GET, &["get"][..]), (RANGE, &["scan"]), (WRITE, &["insert", "update", "remove"])]
    {
        let all = names.iter().filter_map(|name| sample.operation_latencies.get(*name));
        times(operation, &all.collect::<Vec<_>>(), figures);
    }
}

/// What was found when a trace was replayed.
fn of_replay(done: &Replayed) -> Trial {
    let mut figures = Figures::from([
        (Figure::File, done.file_bytes as f64),
        (Figure::Memory, done.peak_rss_bytes as f64),
    ]);
    for (operation, counts) in &done.latencies {
        times(operation, &[counts], &mut figures);
    }
    Trial { records: done.records, bytes: done.bytes, figures }
}

/// What was otherwise than when the trace was recorded.
fn remarks(store: &str, done: &Replayed) -> Vec<String> {
    let skipped = |what: &String| format!("{store} skipped {what}");
    let mut remarks: Vec<String> = done.skipped.keys().map(skipped).collect();
    if let Some(first) = &done.first_difference {
        remarks.push(format!("not all answers of {store} are as they were recorded: {first}"));
    }
    remarks
}

/// The mean and the percentiles of these latencies, which are those of one operation.
fn times(operation: &str, all: &[&Vec<(u64, u64)>], figures: &mut Figures) {
    // The clock's cost was taken off when they were measured.
    let mut latencies = Latencies::new(0.0);
    all.iter().for_each(|counts| latencies.merge(counts));
    let mut add = |of, ns| figures.insert(Figure::Time(operation.to_owned(), of), ns);
    if let (Some(mean), Some(found)) = (latencies.steady_mean(), latencies.percentiles()) {
        add(Of::Mean, mean);
        add(Of::P50, found.p50 as f64);
        add(Of::P99, found.p99 as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_put_into_the_form_that_is_asked_for() {
        let mut records = Records::default();
        for key in ["0300", "0001", "0002"] {
            records.push(key.as_bytes(), key.as_bytes()).unwrap();
        }
        let keys = |form| -> Vec<Vec<u8>> {
            let formed = formed(&records, form).unwrap();
            formed.iter().map(|(key, _)| key.to_vec()).collect()
        };
        assert!(keys(Form::default()).iter().map(|k| &k[..]).eq(records.iter().map(|(k, _)| k)));
        let sorted = keys(Form { keys: None, sorted_first: true });
        assert_eq!(sorted, [b"0001", b"0002", b"0300"]);
        let numbers = keys(Form { keys: Some("u32"), sorted_first: true });
        assert_eq!(numbers, [[0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 1, 44]]);
        let mut text = Records::default();
        text.push(b"x", b"").unwrap();
        assert!(formed(&text, Form { keys: Some("u32"), sorted_first: false }).is_err());
    }

    #[test]
    fn what_is_done_is_what_is_measured() {
        let usage = |shares: &[(&str, f64)], batches, sync| Usage {
            shares: shares.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect(),
            batches,
            sync,
            ..Usage::only(GET)
        };
        use Phase::{Build, GetHit, GetManyHit, GetMiss, InsertSync, Mixed, Range};
        let all = [(GET, 0.4), (MISS, 0.2), (RANGE, 0.2), (WRITE, 0.2)];
        for (usage, wanted) in [
            (usage(&all[..1], false, false), &[Build, GetHit][..]),
            (usage(&all[..1], true, false), &[Build, GetManyHit]),
            (usage(&all[..3], false, false), &[Build, GetHit, GetMiss, Range]),
            (usage(&all, false, false), &[Build, GetMiss, Mixed]),
            (usage(&all, false, true), &[Build, GetHit, GetMiss, Range, InsertSync]),
        ] {
            assert_eq!(phases(&usage), wanted, "{usage:?}");
        }
        let mix = mix(&usage(&all, false, false), true).unwrap().to_string();
        let done =
            "get 16000, insert 2000, update 4000, remove 2000, scan 8000 (of 1..100 records)";
        assert_eq!(mix, format!("{done}, keys uniform, transactions tmp"));
    }
}
