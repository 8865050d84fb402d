//! Does the steps of a script, each when it is due, looks at the clock, and compares what they see.

use super::model::Seen;
use super::play::{Child, IS_ASKED_TO_END, Replayed, Speed, Task, Values};
use super::script::{Do, Script, Step};
use crate::driver::{Store, Writer};
use crate::measure::{Latencies, wait_until};
use crate::runner::open_loop::kept_up;
use crate::runner::passes::in_words;
use credenza::{Error, Result};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// So long a process that was asked to end may sleep on before it heeds that.
const SLICE: Duration = Duration::from_millis(50);

/// Does the steps, and looks at the clock.
pub(super) struct Player<'a> {
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
    pub(super) done: Replayed,
}

impl<'a> Player<'a> {
    pub(super) fn new(child: &Child<'a>, expected: Vec<Seen>) -> Player<'a> {
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

    pub(super) fn play(
        &mut self,
        mut each: impl FnMut(&mut Self, &Step) -> Result<()>,
    ) -> Result<()> {
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
                if step.what == Do::Scan && step.items != Step::ALL {
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

    pub(super) fn finish(self) -> Replayed {
        let latencies = self.latencies.into_iter();
        let latencies = latencies.map(|(name, all)| (name.to_owned(), all.counts())).collect();
        Replayed { latencies, ..self.done }
    }

    /// Does a step that changes nothing; whether it is one.
    pub(super) fn read<S: Store>(&mut self, store: &mut S, step: &Step) -> Result<bool> {
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

    pub(super) fn change<W: Writer>(&mut self, store: &mut W, step: &Step) -> Result<()> {
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

    pub(super) fn skip(&mut self, what: &str) {
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
    pub(super) fn value_len_to_make(&self) -> u32 {
        if matches!(self.what, Do::Insert | Do::Update) { self.value_len } else { 0 }
    }
}
