//! The measured process: one store, all steps of a script. Their answers are compared with those of a model
//! as far as that costs next to nothing while the clock runs, and when it stands all that the store holds.

use super::check::Checker;
use super::model::Model;
use super::player::Player;
use super::reopen;
use super::script::{Do, Script};
use crate::driver::{
    Driver, ForDriver, Reading, Setup, Shape, Store, Writer, fill, has_transactions, kernel,
    with_driver,
};
use crate::measure::Footprint;
use crate::runner::protocol::{self, Message, say};
use crate::runner::room::{self, Advice};
use crate::settings::Choices;
use crate::workload::{KeyType, Records};
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether this process was asked to end: then it does no further step, and tells of those that it has done.
pub(super) static IS_ASKED_TO_END: AtomicBool = AtomicBool::new(false);

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
    #[serde(with = "crate::any_path")]
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

pub(super) struct Child<'a> {
    pub(super) task: &'a Task,
    pub(super) script: &'a Script,
    before: &'a Records,
    pub(super) values: &'a Values,
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
        // What was replaced by a shorter value was read, too.
        let longest_put = self.script.steps.iter().map(|step| step.value_len_to_make()).max();
        let longest = lens().max().max(longest_put.map(u64::from)).unwrap_or(0) as usize;
        let (key_bytes, value_bytes): (u64, u64) = (keys().sum(), lens().sum());
        Shape {
            records: before.records.max(self.script.keys.len() as u64).max(1),
            keys: KeyType::Binary,
            values: KeyType::Binary,
            key_bytes: before.key_bytes.max(key_bytes),
            value_bytes: before.value_bytes.max(value_bytes),
            longest_value: before.longest_value.max(longest),
            fixed_key: None,
            fixed_value: None,
            is_sorted: before.is_sorted && !self.script.has_changes(),
            setup: Setup::Tuned,
            duplicates: None,
            settings: self.task.settings.of(&self.task.store),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::runner::liar::{Liar, Lie};
    use std::path::Path;

    /// What comes of a store that lies so, where all answers are compared and where they are timed.
    pub(crate) fn replayed(lie: Lie, script: &Script, before: &Records) -> [Replayed; 2] {
        [true, false].map(|is_check| {
            let folder = tempfile::tempdir().unwrap();
            let task = task(folder.path(), is_check);
            let longest = script.value_lens.iter().max();
            let values = Values::new(*longest.unwrap());
            let child = Child { task: &task, script, before, values: &values };
            child.on(&Liar::who(lie)).unwrap()
        })
    }

    fn task(folder: &Path, is_check: bool) -> Task {
        Task {
            store: "liar".to_owned(),
            library: None,
            folder: folder.to_owned(),
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
        }
    }

    /// Danger: stores that are given room for the longest value are said to cut what was read before a shorter one came.
    #[test]
    fn the_longest_value_is_one_that_was_replaced() {
        let text = b"CREATE\nINSERT (0, \"a\", 1000)\nFIND (0, \"a\")\nINSERT (1, \"a\", 10)\n";
        let script = super::super::ups::script(text).unwrap();
        assert_eq!(script.value_lens, [10]);
        let before = records_before(&script).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (task, values) = (task(folder.path(), true), Values::new(1000));
        let child = Child { task: &task, script: &script, before: &before, values: &values };
        assert_eq!(child.shape().longest_value, 1000);
    }
}
