//! The measured process: one store, all steps of a script. Their answers are compared with those of a model
//! as far as that costs next to nothing while the clock runs, and when it stands all that the store holds.

use super::check::Checker;
use super::model::{Model, Seen};
use super::reopen;
use super::script::{Do, Script, Step};
use crate::driver::{
    Driver, ForDriver, Reading, Setup, Shape, Store, Writer, fill, has_transactions, kernel,
    with_driver,
};
use crate::measure::{Footprint, Latencies, wait_until};
use crate::runner::open_loop::kept_up;
use crate::runner::passes::in_words;
use crate::runner::protocol::{self, Message, say};
use crate::runner::room::{self, Advice};
use crate::settings::Choices;
use crate::workload::{KeyType, Records};
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// So long a process that was asked to end may sleep on before it heeds that.
const SLICE: Duration = Duration::from_millis(50);

/// Whether this process was asked to end: then it does no further step, and tells of those that it has done.
static IS_ASKED_TO_END: AtomicBool = AtomicBool::new(false);

/// When steps are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Speed {
    /// As they were.
    Original,
    /// Each when the one before is done.
    Full,
    /// So many a second.
    Rate(f64),
}

/// What a process is told on standard input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) store: String,
    pub(crate) library: Option<PathBuf>,
    /// An empty folder for the store's files.
    pub(crate) folder: PathBuf,
    pub(crate) trace: PathBuf,
    /// The records that the store has before, written down; without it, those that the trace found.
    pub(crate) records: Option<PathBuf>,
    pub(crate) speed: Speed,
    /// Whether the loads that the trace begins with are what the store is built of, and no steps.
    pub(crate) is_built: bool,
    /// Of the keys of the trace one of so many, and what is done with these; 1 is all.
    pub(crate) one_of: usize,
    /// Whether every change is on the disk when its call has returned.
    pub(crate) is_durable: bool,
    /// After so many changes `sync` is called, which is timed by itself; not within a transaction.
    pub(crate) sync_every: Option<usize>,
    /// How stores are to be set up.
    pub(crate) settings: Choices,
    /// Whether nothing is timed, and all of every answer compared.
    pub(crate) is_check: bool,
    pub(crate) cpu: Option<usize>,
    pub(crate) clock_ns: f64,
}

impl Task {
    /// The store, in its folder.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// The records that were written down for it.
    pub(super) fn records(&self) -> Result<Option<Records>> {
        let Some(path) = &self.records else { return Ok(None) };
        let file = std::fs::File::open(path).map_err(|e| Error::io("open", e).at(path))?;
        let read = Records::read_from(&mut std::io::BufReader::new(file));
        read.map(Some).map_err(|e| Error::io("read", e).at(path))
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Replayed {
    /// Steps that were done.
    pub(crate) operations: u64,
    /// The steps, with those that were skipped, after which it was asked to end; `None` where it went on to the last.
    pub(crate) stopped_after: Option<u64>,
    pub(crate) seconds: f64,
    /// Latencies in nanoseconds with their counts, by the names of operations.
    pub(crate) latencies: BTreeMap<String, Vec<(u64, u64)>>,
    /// Keys that were looked up or removed, and whether they were there is recorded.
    pub(crate) compared: u64,
    /// Of these: there in the recording, and not here.
    pub(crate) lost: u64,
    /// Not there in the recording, but here.
    pub(crate) extra: u64,
    /// Scans, and those that read another number of records than in the recording.
    pub(crate) scans: u64,
    pub(crate) scans_unlike: u64,
    /// Whether it ended no later than operations at times of their own should have.
    pub(crate) kept_up: bool,
    /// The first difference, in words.
    pub(crate) first_difference: Option<String>,
    /// The first answer that is not what the replay itself had stored, in words; `None` if all are right.
    pub(crate) wrong: Option<String>,
    /// What the store cannot do: how often it was skipped, by why.
    pub(crate) skipped: BTreeMap<String, u64>,
    pub(crate) file_bytes: u64,
    /// Keys in the trace, or in the part of it, and bytes of these with the last values they had.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// The most memory that was resident beyond what was so before the store was opened.
    pub(crate) peak_rss_bytes: u64,
    /// What the store was built of, where that is what the trace loads first.
    pub(crate) built: Option<Built>,
    /// Whether transactions were the store's own.
    pub(crate) has_transactions: bool,
    /// The durability class of its changes; none where nothing was changed.
    pub(crate) class: Option<String>,
    /// Every setting of the store that is not the default.
    pub(crate) tuning: String,
}

/// Of the building of a store.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Built {
    pub(crate) records: u64,
    pub(crate) seconds: f64,
}

/// Reads a [`Task`], does it, and says what came of it on standard output.
pub(super) fn main() -> Result<()> {
    // Whoever started this process may have been stopped before it could say what to do.
    let Some(task) = protocol::task::<Task>()? else { return Ok(()) };
    // Whoever kills the one that reports would else leave this one to a schedule of hours.
    kernel::end_with_parent()?;
    // One that compares has nothing to tell before its end.
    if !task.is_check {
        heed_requests_to_end();
    }
    measure(&task)
}

/// Notes it when this process is asked to end. The signal goes to a thread of its own: what waits for a server with
/// a limit of time would be interrupted by it.
fn heed_requests_to_end() {
    kernel::take_signals();
    // Without a handler the process ends at once, as any other.
    if ctrlc::set_handler(|| IS_ASKED_TO_END.store(true, Ordering::Relaxed)).is_ok() {
        kernel::leave_signals_to_others();
    }
}

/// Does what a process is told, and says what came of it.
pub(crate) fn measure(task: &Task) -> Result<()> {
    match run(task) {
        Ok(replayed) => {
            say(&Message::Replayed(Box::new(replayed)))?;
            say(&Message::Finished)
        }
        Err(e) => say(&Message::Failed(room::told(&e, &task.folder, Advice::OtherFolder))),
    }
}

fn run(task: &Task) -> Result<Replayed> {
    if let Some(cpu) = task.cpu {
        kernel::pin_to(cpu)?;
    }
    let script = Script::read(&task.trace)?.0;
    let script = if task.is_built { script.built() } else { script }.part(task.one_of);
    let before = match task.records()? {
        None => records_before(&script)?,
        Some(records) => records,
    };
    let before = with_loaded(before, &script)?;
    let longest = script.steps.iter().map(|step| step.value_len_to_make()).max();
    let values = Values::new(longest.unwrap_or(0));
    let child = Child { task, script: &script, before: &before, values: &values };
    with_driver(&task.store, child)
        .unwrap_or_else(|| Err(Error::invalid(format!("there is no store '{}'", task.store))))
}

/// The records that the trace found before anybody had stored them.
fn records_before(script: &Script) -> Result<Records> {
    let longest = script.before.iter().map(|(_, len)| *len).max().unwrap_or(0);
    let values = Values::new(longest);
    let mut records = Records::default();
    for (key, len) in &script.before {
        records.push(script.key(*key), values.of(*key, *len))?;
    }
    Ok(records)
}

/// These and what the script loads, in place of those that have the same keys.
fn with_loaded(before: Records, script: &Script) -> Result<Records> {
    if script.loaded.is_empty() {
        return Ok(before);
    }
    let values = Values::new(script.loaded.iter().map(|(_, len)| *len).max().unwrap_or(0));
    let loaded = || script.loaded.iter().map(|(key, len)| (script.key(*key), *key, *len));
    let keys: HashSet<&[u8]> = loaded().map(|(key, ..)| key).collect();
    let mut records = Records::default();
    for (key, value) in before.iter().filter(|(key, _)| !keys.contains(key)) {
        records.push(key, value)?;
    }
    for (key, number, len) in loaded() {
        records.push(key, values.of(number, len))?;
    }
    Ok(records)
}

/// The records that the trace of this script found or stored, `limit` at most, each with a value of the length
/// that it had last.
pub(crate) fn records_of(script: &Script, limit: usize) -> Result<Records> {
    let stored = script.steps.iter().filter(|s| matches!(s.what, Do::Insert | Do::Update));
    let there = script.before.iter().chain(&script.loaded).map(|(key, _)| *key);
    let all = there.chain(stored.filter_map(|s| s.key));
    let mut is_known = vec![false; script.keys.len()];
    let values = Values::new(script.value_lens.iter().copied().max().unwrap_or(0));
    let mut records = Records::default();
    for key in all {
        let at = key as usize;
        if records.len() == limit {
            break;
        }
        if !std::mem::replace(&mut is_known[at], true) {
            records.push(script.key(key), values.of(key, script.value_lens[at]))?;
        }
    }
    Ok(records)
}

/// Values of whatever length, made up; cheaper than drawing each, and not the same for all keys.
pub(super) struct Values(Vec<u8>);

impl Values {
    const OFFSETS: u32 = 4096;

    pub(super) fn new(longest: u32) -> Values {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        Values(std::iter::repeat_with(byte).take((longest + Values::OFFSETS) as usize).collect())
    }

    pub(super) fn of(&self, key: u32, len: u32) -> &[u8] {
        let from = (key.wrapping_mul(0x9e37_79b1) % Values::OFFSETS) as usize;
        &self.0[from..from + len as usize]
    }
}

struct Child<'a> {
    task: &'a Task,
    script: &'a Script,
    before: &'a Records,
    values: &'a Values,
}

impl ForDriver for Child<'_> {
    type Output = Result<Replayed>;

    fn run<D: Driver>(self) -> Result<Replayed> {
        self.on(&D::load(self.task.library.as_deref())?)
    }
}

impl<'a> Child<'a> {
    fn on<D: Driver>(&self, driver: &D) -> Result<Replayed> {
        let mut model = Model::of(self.script, self.before, self.values);
        let mut done = if self.task.is_check {
            self.check(driver, &mut model)?
        } else {
            self.time(driver, &mut model)?
        };
        let (shape, path) = (self.shape(), self.task.path());
        (done.records, done.bytes) = (shape.records, shape.bytes());
        done.file_bytes = driver.size(&path)?.allocated;
        let class = driver.changes_one_by_one(self.task.is_durable).class();
        done.class = self.script.has_changes().then(|| class.to_owned());
        done.tuning = driver.tuning(&shape);
        // Who was asked to end may have no time to read all: what every step saw was compared.
        if done.wrong.is_none() && done.stopped_after.is_none() {
            let mut store = driver.open(&path, &shape, Reading::Warm)?;
            done.wrong = model.wrong_record(&mut store)?.map(|what| format!("in the end, {what}"));
        }
        Ok(done)
    }

    /// Does the steps and compares all of every answer.
    fn check<D: Driver>(&self, driver: &D, model: &mut Model<'a>) -> Result<Replayed> {
        let mut checker = Checker::new(self.script, self.values, model);
        if !self.script.has_changes() {
            let mut store = Some(self.built(driver)?);
            checker.all(|checker, step| match step.what {
                Do::Reopen => {
                    reopen::to_read(driver, self.task, &self.shape(), &mut store).map(|()| None)
                }
                _ => checker.read(reopen::held(&mut store)?, step),
            })?;
        } else {
            let mut store = Some(self.filled(driver)?);
            checker.has_transactions = has_transactions::<D>();
            checker.all(|checker, step| match step.what {
                Do::Reopen => {
                    reopen::to_change(driver, self.task, &self.shape(), &mut store).map(|_| None)
                }
                _ => checker.change(reopen::held(&mut store)?, step),
            })?;
            // A wrong answer ends it anywhere, within a transaction, too: what closing says of that is
            // not what is to be told.
            if checker.wrong.is_none() {
                store.map_or(Ok(()), Writer::close)?;
            }
        }
        Ok(Replayed { wrong: checker.wrong, ..Replayed::default() })
    }

    /// Does the steps and looks at the clock.
    fn time<D: Driver>(&self, driver: &D, model: &mut Model<'a>) -> Result<Replayed> {
        let is_ordered = match self.script.has_changes() {
            true => <D::Writer<'_> as Store>::IS_ORDERED,
            false => <D::Store<'_> as Store>::IS_ORDERED,
        };
        let mut player = Player::new(self, model.answers(is_ordered));
        let footprint = Footprint::start();
        if !self.script.has_changes() {
            let begun = Instant::now();
            let (shape, path) = (self.shape(), self.task.path());
            driver.build(self.before, &shape, &path)?;
            let (seconds, records) = (begun.elapsed().as_secs_f64(), self.before.len() as u64);
            player.done.built = self.task.is_built.then_some(Built { records, seconds });
            let mut store = Some(driver.open(&path, &shape, Reading::Warm)?);
            (0..self.script.scans_before).for_each(|_| player.skip("scans before it was built"));
            player.play(|player, step| match step.what {
                Do::Reopen => reopen::to_read(driver, self.task, &self.shape(), &mut store),
                _ => {
                    if !player.read(reopen::held(&mut store)?, step)? {
                        player.skip("waits for the disk: it is open for reading");
                    }
                    Ok(())
                }
            })?;
            player.done.peak_rss_bytes = footprint.peak_rss_bytes();
        } else {
            let mut store = Some(self.filled(driver)?);
            player.done.has_transactions = has_transactions::<D>();
            player.play(|player, step| match step.what {
                Do::Reopen => {
                    if !reopen::to_change(driver, self.task, &self.shape(), &mut store)? {
                        player.skip(
                            "closings with an opening: it is not opened for changes again here",
                        );
                    }
                    Ok(())
                }
                _ => player.change(reopen::held(&mut store)?, step),
            })?;
            player.done.peak_rss_bytes = footprint.peak_rss_bytes();
            store.map_or(Ok(()), Writer::close)?;
        }
        Ok(player.finish())
    }

    /// A store that is only read, with what is there before.
    fn built<'d, D: Driver>(&self, driver: &'d D) -> Result<D::Store<'d>> {
        let (shape, path) = (self.shape(), self.task.path());
        driver.build(self.before, &shape, &path)?;
        driver.open(&path, &shape, Reading::Warm)
    }

    /// A store that is changed, with what is there before: where each change of that would wait for the disk,
    /// it is opened for such only behind it.
    fn filled<'d, D: Driver>(&self, driver: &'d D) -> Result<D::Writer<'d>> {
        let (shape, path, is_durable) = (self.shape(), self.task.path(), self.task.is_durable);
        let in_one = has_transactions::<D>() && <D::Writer<'_> as Writer>::FILLS_IN_ONE;
        let is_filled_before = is_durable && !in_one && self.before.len() > 0;
        let is_durable_first = is_durable && !is_filled_before;
        let mut store = driver.create_one_by_one(&path, &shape, is_durable_first)?;
        if self.before.len() > 0 {
            fill(&mut store, self.before, in_one)?;
        }
        if !is_filled_before {
            return Ok(store);
        }
        store.close()?;
        driver.create_durable(&path, &shape)
    }

    /// What a user who tunes a store would know of the data.
    fn shape(&self) -> Shape {
        let before = Shape::of(self.before);
        let lens = || self.script.value_lens.iter().map(|len| u64::from(*len));
        let keys = || self.script.keys.iter().map(|key| key.len() as u64);
        let (key_bytes, value_bytes): (u64, u64) = (keys().sum(), lens().sum());
        Shape {
            records: before.records.max(self.script.keys.len() as u64).max(1),
            keys: KeyType::Binary,
            values: KeyType::Binary,
            key_bytes: before.key_bytes.max(key_bytes),
            value_bytes: before.value_bytes.max(value_bytes),
            longest_value: before.longest_value.max(lens().max().unwrap_or(0) as usize),
            fixed_key: None,
            fixed_value: None,
            is_sorted: before.is_sorted && !self.script.has_changes(),
            setup: Setup::Tuned,
            duplicates: None,
            settings: self.task.settings.of(&self.task.store),
        }
    }
}

/// Does the steps, and looks at the clock.
struct Player<'a> {
    script: &'a Script,
    task: &'a Task,
    values: &'a Values,
    /// What each step must see.
    expected: Vec<Seen>,
    /// What this one saw.
    seen: Seen,
    latencies: BTreeMap<&'static str, Latencies>,
    /// Changes since the last `sync`, and whether a transaction is open.
    unsynced: usize,
    is_within: bool,
    /// What calls of `sync` took within a step.
    waited: Duration,
    done: Replayed,
}

impl<'a> Player<'a> {
    fn new(child: &Child<'a>, expected: Vec<Seen>) -> Player<'a> {
        Player {
            script: child.script,
            task: child.task,
            values: child.values,
            expected,
            seen: Seen::default(),
            latencies: BTreeMap::new(),
            unsynced: 0,
            is_within: false,
            waited: Duration::ZERO,
            done: Replayed::default(),
        }
    }

    fn play(&mut self, mut each: impl FnMut(&mut Self, &Step) -> Result<()>) -> Result<()> {
        let script = self.script;
        for step in &script.steps {
            // Made now: the first of each kind would have it in its time.
            let new = || Latencies::new(self.task.clock_ns);
            self.latencies.entry(step.name()).or_insert_with(new);
        }
        let (begun, mut is_within) = (Instant::now(), false);
        for (i, step) in script.steps.iter().enumerate() {
            let due = match self.task.speed {
                Speed::Full => None,
                Speed::Original => Some(begun + Duration::from_nanos(step.time)),
                Speed::Rate(rate) => Some(begun + Duration::from_secs_f64(i as f64 / rate)),
            };
            // A transaction is done to its end.
            if let Some(ended) = wait_for(due, !is_within) {
                self.done.stopped_after = Some(i as u64);
                self.ends(ended - begun, i);
                return Ok(());
            }
            let intended = due.unwrap_or_else(Instant::now);
            is_within = match step.what {
                Do::Begin => self.done.has_transactions,
                Do::Commit => false,
                _ => is_within,
            };
            let before = self.done.skipped.values().sum::<u64>();
            self.seen = Seen::default();
            self.waited = Duration::ZERO;
            each(self, step)?;
            if self.done.skipped.values().sum::<u64>() == before {
                self.done.operations += 1;
                if let Some(of_kind) = self.latencies.get_mut(step.name()) {
                    of_kind.record_since(intended + self.waited);
                }
                self.judge(i, step);
                if step.what == Do::Scan {
                    self.done.scans += 1;
                    self.done.scans_unlike += u64::from(!self.seen.is_of(step.items));
                }
            }
        }
        self.ends(begun.elapsed(), script.steps.len());
        Ok(())
    }

    /// Notes that it took so long to do so many steps.
    fn ends(&mut self, took: Duration, steps: usize) {
        self.done.seconds = took.as_secs_f64();
        let last = steps.saturating_sub(1);
        let scheduled = match self.task.speed {
            Speed::Full => self.done.seconds,
            Speed::Original => {
                self.script.steps.get(last).map_or(0.0, |step| step.time as f64 / 1e9)
            }
            Speed::Rate(rate) => last as f64 / rate,
        };
        self.done.kept_up = kept_up(self.done.seconds, scheduled);
    }

    fn finish(self) -> Replayed {
        let latencies = self.latencies.into_iter();
        let latencies = latencies.map(|(name, all)| (name.to_owned(), all.counts())).collect();
        Replayed { latencies, ..self.done }
    }

    /// Does a step that changes nothing; whether it is one.
    fn read<S: Store>(&mut self, store: &mut S, step: &Step) -> Result<bool> {
        let script = self.script;
        let key = step.key.map(|key| script.key(key));
        match (step.what, key) {
            (Do::Get, Some(key)) => {
                let is_there = self.get(store, key)?;
                self.compare(key, step.was_there, is_there);
            }
            (Do::GetMany { .. }, _) => {
                let batch = script.batch(step);
                let keys: Vec<&[u8]> = batch.iter().map(|(key, _)| script.key(*key)).collect();
                let mut found = vec![false; keys.len()];
                let seen = &mut self.seen;
                store.get_many(&keys, |i, value| {
                    value.into_iter().for_each(|value| seen.see(i, value));
                    if let Some(found) = found.get_mut(i) {
                        *found = value.is_some();
                    }
                })?;
                for ((key, (_, was_there)), is_there) in keys.iter().zip(batch).zip(found) {
                    self.compare(key, *was_there, is_there);
                }
            }
            (Do::Seek | Do::Scan | Do::FullCheck, _) if S::IS_ORDERED => {
                let ((from, count), seen) = (script.range(step), &mut self.seen);
                store.range(from, count, |_, value| seen.see_next(value))?;
            }
            (Do::Scan | Do::FullCheck, None) => {
                let seen = &mut self.seen;
                store.scan(|_, value| seen.see(0, value))?;
            }
            (Do::Seek, _) => self.skip("seeks: its records are in no order"),
            (Do::Scan, Some(_)) => self.skip("scans of a range: its records are in no order"),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn change<W: Writer>(&mut self, store: &mut W, step: &Step) -> Result<()> {
        if self.read(store, step)? {
            return Ok(());
        }
        let script = self.script;
        let key = step.key.map_or(&[][..], |key| script.key(key));
        let value = self.values.of(step.key.unwrap_or(0), step.value_len_to_make());
        match step.what {
            Do::Insert => store.insert(key, value)?,
            Do::Update => {
                self.get(store, key)?;
                store.insert(key, value)?;
            }
            Do::Remove => {
                let was_there = store.remove(key)?;
                self.seen = Seen::of_removal(was_there);
                self.compare(key, step.was_there, was_there);
            }
            Do::Begin if self.done.has_transactions => store.begin()?,
            Do::Commit if self.done.has_transactions => store.commit()?,
            Do::Sync if store.sync()? => {}
            Do::Sync => self.skip("waits for the disk: the workbench has no call of it for that, or none in a transaction"),
            Do::Begin | Do::Commit => {
                self.skip("begins and commits: the workbench has no transactions of several changes for it");
            }
            _ => {}
        }
        self.sync_if_due(store, step)
    }

    /// Calls `sync` after as many changes as the task says.
    fn sync_if_due<W: Writer>(&mut self, store: &mut W, step: &Step) -> Result<()> {
        let Some(every) = self.task.sync_every else { return Ok(()) };
        match step.what {
            Do::Begin | Do::Commit => {
                self.is_within = step.what == Do::Begin && self.done.has_transactions;
            }
            _ => self.unsynced += 1,
        }
        if self.unsynced < every || self.is_within {
            return Ok(());
        }
        self.unsynced = 0;
        let start = Instant::now();
        if !store.sync()? {
            return Err(Error::invalid("it has no call that brings changes to the disk"));
        }
        let new = || Latencies::new(self.task.clock_ns);
        self.latencies.entry(Do::SYNC).or_insert_with(new).record_since(start);
        self.waited = start.elapsed();
        Ok(())
    }

    /// Looks a key up.
    #[inline]
    fn get<S: Store>(&mut self, store: &mut S, key: &[u8]) -> Result<bool> {
        let seen = &mut self.seen;
        let is_found = store.get(key, |value| seen.see(0, value))?;
        if !self.seen.is_found(is_found) && self.done.wrong.is_none() {
            let (key, found) = (in_words(Some(key)), self.seen.in_words(Do::Get));
            self.done.wrong =
                Some(format!("get of key {key}: got {found}, and that found is {is_found}"));
        }
        Ok(is_found)
    }

    /// Compares what a step saw with what it must see.
    fn judge(&mut self, i: usize, step: &Step) {
        let expected = self.expected.get(i).filter(|expected| **expected != self.seen);
        let Some(expected) = expected.filter(|_| self.done.wrong.is_none()) else { return };
        let [expected, mut got] = [expected, &self.seen].map(|seen| seen.in_words(step.what));
        if got == expected {
            got += ", with other bytes or in another order";
        }
        let key = step.key.map(|key| in_words(Some(self.script.key(key))));
        let key = key.map(|key| format!("key {key}: "));
        let (operation, key) = (step.told(i), key.unwrap_or_default());
        self.done.wrong = Some(format!("{operation}: {key}expected {expected}, got {got}"));
    }

    fn skip(&mut self, what: &str) {
        match self.done.skipped.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.done.skipped.insert(what.to_owned(), 1)),
        }
    }

    fn compare(&mut self, key: &[u8], was_there: Option<bool>, is_there: bool) {
        let Some(was_there) = was_there else { return };
        self.done.compared += 1;
        if was_there == is_there {
            return;
        }
        self.done.lost += u64::from(was_there);
        self.done.extra += u64::from(is_there);
        self.done.first_difference.get_or_insert_with(|| {
            let (was, is) = if was_there { ("", "not ") } else { ("not ", "") };
            let key = in_words(Some(key));
            format!("key {key} was {was}there when it was recorded, and is {is}there here")
        });
    }
}

/// Waits until a step is due, if it is at some time; where this process is asked to end meanwhile, and may, since when
/// it waited.
#[inline]
fn wait_for(due: Option<Instant>, may_end: bool) -> Option<Instant> {
    let is_over = || may_end && IS_ASKED_TO_END.load(Ordering::Relaxed);
    let Some(due) = due else { return is_over().then(Instant::now) };
    let since = Instant::now();
    loop {
        if is_over() {
            return Some(since);
        }
        if due.saturating_duration_since(Instant::now()) <= SLICE {
            wait_until(due, false);
            return None;
        }
        std::thread::sleep(SLICE / 2);
    }
}

impl Step {
    /// Bytes of the value that this writes.
    fn value_len_to_make(&self) -> u32 {
        if matches!(self.what, Do::Insert | Do::Update) { self.value_len } else { 0 }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::runner::liar::{Liar, Lie};

    /// What comes of a store that lies so, where all answers are compared and where they are timed.
    pub(crate) fn replayed(lie: Lie, script: &Script, before: &Records) -> [Replayed; 2] {
        [true, false].map(|is_check| {
            let folder = tempfile::tempdir().unwrap();
            let task = Task {
                store: "liar".to_owned(),
                library: None,
                folder: folder.path().to_owned(),
                trace: PathBuf::new(),
                records: None,
                speed: Speed::Full,
                is_built: false,
                one_of: 1,
                is_durable: false,
                sync_every: None,
                settings: Choices::default(),
                is_check,
                cpu: None,
                clock_ns: 0.0,
            };
            let longest = script.value_lens.iter().max();
            let values = Values::new(*longest.unwrap());
            let child = Child { task: &task, script, before, values: &values };
            child.on(&Liar::who(lie)).unwrap()
        })
    }
}
