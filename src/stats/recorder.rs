//! What counts and times the operations of an engine, which calls it by way of `observe`.
//!
//! An operation is a call of [`Counters::begin`] and one of [`Counters::finish`] around it. One on one key, or on none, that
//! nobody times, which is what most are, is counted behind it, in its thread's [`Own`] words.
//!
//! The lowest 16 bits of a slot's word of calls say how many more calls there are until one is due
//! to be timed. Threads without a slot, and processes forked since the store was opened, whose
//! slots are those of their parent, count in the common one.

use super::clock::{Clock, Start};
use super::histogram::bucket_of;
use super::layout::{self, CALL, CALLS, FAILED, ITEMS, LINE_WORDS, MAX, SECOND, SUM, TRANSFERRED};
use super::operation::{Operation, Outcome};
use super::options::{Callback, Event, Latency, Statistics};
use super::slots::Slots;
use super::snapshot::Operations;
use super::thread::{self, THREADS};
use crate::Result;
use crate::os::area::Area;
use crate::os::process;
use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Calls between two of which a thread without a slot has one timed.
const COMMON_INTERVAL: u64 = 256;
/// Calls between two attempts to get a slot where there was none.
const PATIENCE: u32 = 1 << 16;

/// Counts and times the operations on one store.
pub(crate) struct Counters {
    area: Area,
    /// The slot of each thread, or 0.
    slots: [AtomicU8; THREADS],
    owners: Slots,
    /// What [`process::forks`] is in the process that the slots are of.
    forks: u32,
    latency: Latency,
    clock: Clock,
    callback: Option<Callback>,
    /// Operations that found no slot since one was taken.
    unserved: AtomicU32,
}

/// How an operation ended, and what it moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    pub(crate) moved: Moved,
}

/// What an operation on many keys or records has moved so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    /// Keys or records.
    pub items: u64,
    /// Keys of those that were not there.
    pub misses: u64,
    /// Bytes read or written.
    pub bytes: u64,
}

impl Done {
    /// An operation on one key, or on none.
    #[inline(always)]
    pub(crate) fn one(outcome: Outcome, bytes: usize) -> Done {
        Done { outcome, moved: Moved { bytes: bytes as u64, ..Moved::default() } }
    }

    /// A lookup that has found a value of so many bytes, or none.
    #[inline(always)]
    pub(crate) fn found(bytes: Option<usize>) -> Done {
        Done::one(bytes.map_or(Outcome::Miss, |_| Outcome::Hit), bytes.unwrap_or(0))
    }
}

impl Moved {
    /// A key that was looked up.
    #[inline(always)]
    pub(crate) fn value(&mut self, value: Option<&[u8]>) {
        self.items += 1;
        match value {
            Some(value) => self.bytes += value.len() as u64,
            None => self.misses += 1,
        }
    }

    /// All that something else has moved.
    pub(crate) fn add(&mut self, other: Moved) {
        self.items += other.items;
        self.misses += other.misses;
        self.bytes += other.bytes;
    }

    /// A record that was read or written.
    #[inline(always)]
    pub(crate) fn record(&mut self, key: &[u8], value: &[u8]) {
        self.items += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Begun {
    operation: Operation,
    start: Option<Start>,
}

/// The words in which a thread alone counts an operation of which no call is due to be timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own<'r>(&'r Words);

/// The words of an operation in a slot.
type Words = [AtomicU64; LINE_WORDS];

impl Counters {
    /// A recorder for the store at `store`; none if there are no `options`.
    ///
    /// # Errors
    /// The memory or the file that is asked for cannot be had, or the clock.
    pub(crate) fn new(options: Option<&Statistics>, store: &Path) -> Result<Option<Counters>> {
        let Some(options) = options else { return Ok(None) };
        let clock = options.clock.resolve()?;
        process::prepare();
        let (owners, area) = match options.shared {
            true => Slots::shared(store)?,
            false => Slots::private()?,
        };
        Ok(Some(Counters {
            area,
            slots: [const { AtomicU8::new(0) }; THREADS],
            owners,
            forks: process::forks(),
            latency: options.latency,
            clock,
            callback: options.callback.clone(),
            unserved: AtomicU32::new(0),
        }))
    }

    /// An operation begins; it is counted when [`Counters::finish`] is called.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin(&self, operation: Operation) -> Begun {
        Begun { operation, start: self.start(operation) }
    }

    /// The words in which this thread alone counts an operation, if it has a slot and the next
    /// call is not due.
    #[inline(always)]
    pub(crate) fn own(&self, operation: Operation) -> Option<Own<'_>> {
        let slot = self.slots[usize::from(thread::number())].load(Ordering::Relaxed);
        if slot == 0 || process::forks() != self.forks || operation.is_long() {
            return None;
        }
        let at = layout::line(usize::from(slot), operation);
        let words: &Words = self.area.words().get(at..at + LINE_WORDS)?.first_chunk()?;
        (!words[CALLS].load(Ordering::Relaxed).is_multiple_of(CALL)).then_some(Own(words))
    }

    /// Looks at the clock if an operation is to be timed.
    fn start(&self, operation: Operation) -> Option<Start> {
        let line = self.line(self.slot(), operation);
        let calls = line.words[CALLS].load(Ordering::Relaxed);
        let is_due = match line.is_common {
            true => (calls / CALL).is_multiple_of(COMMON_INTERVAL),
            // The first one of a program that does few is not like those that it does often.
            false if calls == 0 => self.first() == 0,
            false => calls.is_multiple_of(CALL),
        };
        let is_timed = match self.latency {
            Latency::Off => false,
            Latency::Sampled => is_due || operation.is_long(),
            Latency::Every => true,
        };
        is_timed.then(|| self.clock.start())
    }

    /// The operation has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn finish(&self, Begun { operation, start }: Begun, done: Done) {
        // Before anything else, which would be in the operation's time.
        let nanoseconds = start.map(Start::nanoseconds);
        let slot = self.slot();
        let line = self.line(slot, operation);
        match done.outcome {
            Outcome::Miss | Outcome::Unchanged => line.add(SECOND, 1),
            Outcome::Failed => line.add(FAILED, 1),
            Outcome::Hit | Outcome::Done => {}
        }
        line.add(SECOND, done.moved.misses);
        line.add(ITEMS, done.moved.items);
        line.add(TRANSFERRED, done.moved.bytes);
        if let Some(nanoseconds) = nanoseconds {
            line.add(SUM, nanoseconds);
            line.raise(MAX, nanoseconds.max(1));
            let bucket = layout::histogram(slot, operation) + bucket_of(nanoseconds);
            let bucket = self.area.words().get(bucket);
            bucket.into_iter().for_each(|bucket| line.add_to(bucket, 1));
        }
        line.call(self.latency, self.first());
        if let (Some(nanoseconds), Some(callback)) = (nanoseconds, &self.callback) {
            let (outcome, size) = (operation.outcome(done.outcome), done.moved.bytes);
            report(callback, &Event { operation, outcome, size, nanoseconds });
        }
    }

    /// Calls until the first that is due, of this thread of this process.
    fn first(&self) -> u64 {
        let thread = u64::from(process::own_pid()) << 16 | u64::from(thread::number());
        mixed(thread) >> 56
    }

    /// Counts an operation that is not timed, and what it moved so far.
    pub(crate) fn record(&self, operation: Operation) {
        self.line(self.slot(), operation).call(self.latency, self.first());
    }

    /// Counts an operation, on one key or on none, that is not timed as it was not due when it began.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_done(&self, operation: Operation, done: Done) {
        self.finish(Begun { operation, start: None }, done);
    }

    /// An operation that was counted before has failed.
    pub(crate) fn record_failed(&self, operation: Operation) {
        self.line(self.slot(), operation).add(FAILED, 1);
    }

    /// Counts what an operation has moved that was counted before.
    pub(crate) fn record_moved(&self, operation: Operation, moved: Moved) {
        let line = self.line(self.slot(), operation);
        line.add(ITEMS, moved.items);
        line.add(TRANSFERRED, moved.bytes);
    }

    /// What was counted so far, here and, where they share the file, in other processes.
    pub(crate) fn operations(&self) -> Operations {
        let words = self.area.words();
        Operations::read(|at| words.get(at).map_or(0, |word| word.load(Ordering::Acquire)))
    }

    fn line(&self, slot: usize, operation: Operation) -> Line<'_> {
        let at = layout::line(slot, operation);
        let words = self.area.words().get(at..).and_then(|words| words.first_chunk());
        Line { words: words.unwrap_or(&NOWHERE), is_common: slot == 0 }
    }

    /// This thread's slot, or 0; one is taken for it now and then if it has none.
    fn slot(&self) -> usize {
        if process::forks() != self.forks {
            return 0;
        }
        match self.slots[usize::from(thread::number())].load(Ordering::Relaxed) {
            0 => self.take_slot(),
            slot => usize::from(slot),
        }
    }

    #[cold]
    fn take_slot(&self) -> usize {
        let unserved = self.unserved.fetch_add(1, Ordering::Relaxed);
        if !unserved.is_multiple_of(PATIENCE) && !unserved.is_power_of_two() {
            return 0;
        }
        let thread = thread::take_number();
        let known = &self.slots[usize::from(thread)];
        if thread == 0 || known.load(Ordering::Relaxed) != 0 {
            // Nothing to be had; or a slot of the thread that had this number before.
            return usize::from(known.load(Ordering::Relaxed));
        }
        let Some(slot) = self.owners.take(&self.area) else { return 0 };
        known.store(slot, Ordering::Relaxed);
        self.unserved.store(0, Ordering::Relaxed);
        usize::from(slot)
    }
}

impl Own<'_> {
    /// Counts a call that came to this; `false` if the next one is due by now, by what was done in this one.
    #[inline(always)]
    pub(crate) fn count(self, outcome: Outcome, bytes: u64) -> bool {
        let words = self.0;
        let calls = words[CALLS].load(Ordering::Relaxed);
        if calls.is_multiple_of(CALL) {
            return false;
        }
        words[CALLS].store(calls.wrapping_add(CALL - 1), Ordering::Relaxed);
        match outcome {
            Outcome::Miss | Outcome::Unchanged => bump(&words[SECOND], 1),
            Outcome::Failed => bump(&words[FAILED], 1),
            Outcome::Hit | Outcome::Done => {}
        }
        if bytes != 0 {
            bump(&words[TRANSFERRED], bytes);
        }
        true
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        if process::forks() == self.forks {
            let mine = self.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
            self.owners.give_back(&self.area, mine.filter(|slot| *slot != 0));
        }
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counters")
            .field("latency", &self.latency)
            .field("clock", &self.clock)
            .field("owners", &self.owners)
            .finish_non_exhaustive()
    }
}

/// The counters of an operation in a slot, which others may write if it is the common one.
struct Line<'a> {
    words: &'a Words,
    is_common: bool,
}

/// The counters of a slot outside the area, which there is not.
static NOWHERE: Words = [const { AtomicU64::new(0) }; LINE_WORDS];

/// Adds to a word that only this thread writes.
#[inline(always)]
fn bump(word: &AtomicU64, n: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl Line<'_> {
    fn add(&self, word: usize, n: u64) {
        if n != 0 {
            self.add_to(&self.words[word], n);
        }
    }

    fn add_to(&self, word: &AtomicU64, n: u64) {
        if self.is_common {
            word.fetch_add(n, Ordering::Relaxed);
        } else {
            bump(word, n);
        }
    }

    fn raise(&self, word: usize, to: u64) {
        let word = &self.words[word];
        if word.load(Ordering::Relaxed) < to {
            word.fetch_max(to, Ordering::Relaxed);
        }
    }

    /// Counts a call, and says after one that was due when the next one is.
    fn call(&self, latency: Latency, first: u64) {
        if self.is_common {
            self.words[CALLS].fetch_add(CALL, Ordering::Relaxed);
            return;
        }
        let now = self.words[CALLS].load(Ordering::Relaxed);
        let calls = (now / CALL).wrapping_add(1);
        let left = match (now % CALL, latency) {
            (0, Latency::Sampled) if now == 0 && first > 0 => first - 1,
            (0, Latency::Sampled) => interval(calls),
            // Nothing is to be done: as late as can be.
            (0, Latency::Off) => CALL - 1,
            (0, Latency::Every) => 0,
            (left, _) => left - 1,
        };
        self.words[CALLS].store(calls.wrapping_mul(CALL) + left, Ordering::Relaxed);
    }
}

/// Calls until the next that is due: 128 to 383, with nothing in common with any rhythm of the
/// program.
fn interval(calls: u64) -> u64 {
    128 + (mixed(calls) >> 56)
}

fn mixed(number: u64) -> u64 {
    (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Calls `callback`, unless this is an operation that a callback does, or one that ends as something
/// panicked, be it the callback: its next panic would end the process.
fn report(callback: &Callback, event: &Event) {
    thread_local! {
        static REPORTING: Cell<bool> = const { Cell::new(false) };
    }
    /// Ends the report, also by a panic.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            REPORTING.set(false);
        }
    }
    if !std::thread::panicking() && !REPORTING.replace(true) {
        let _end = End;
        (callback.0)(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::sync::{Arc, Barrier, Mutex};

    fn recorder(options: &Statistics) -> Counters {
        Counters::new(Some(options), Path::new("unused")).unwrap().unwrap()
    }

    impl Counters {
        /// Does `f`, an operation on one key or on none, and counts it by what `done` makes of its
        /// result, or as failed.
        pub(crate) fn observe<T>(
            &self,
            operation: Operation,
            f: impl FnOnce() -> Result<T>,
            done: impl FnOnce(&T) -> Done,
        ) -> Result<T> {
            let (own, begun) = match self.own(operation) {
                Some(own) => (Some(own), None),
                None => (None, Some(self.begin(operation))),
            };
            let result = f();
            let failed = |_| Done::one(Outcome::Failed, 0);
            let done = result.as_ref().map_or_else(failed, done);
            match (own, begun) {
                (_, Some(begun)) => self.finish(begun, done),
                (Some(own), _) if own.count(done.outcome, done.moved.bytes) => {}
                _ => self.record_done(operation, done),
            }
            result
        }
    }

    fn get(recorder: &Counters, hit: bool) {
        let bytes = hit.then_some(5);
        recorder.observe(Operation::Get, || Ok(bytes), |bytes| Done::found(*bytes)).unwrap();
    }

    fn many(recorder: &Counters, operation: Operation, moved: Moved) {
        recorder.finish(recorder.begin(operation), Done { outcome: Outcome::Done, moved });
    }

    /// Of many processes that do little each, the first operations alone were timed: 5.5 us, where the others took 0.8.
    #[test]
    fn the_first_operation_is_timed_as_seldom_as_others() {
        for first in [0, 1, 2, 255] {
            let words: Words = [const { AtomicU64::new(0) }; LINE_WORDS];
            let line = Line { words: &words, is_common: false };
            let is_due =
                |calls: u64| if calls == 0 { first == 0 } else { calls.is_multiple_of(CALL) };
            let due = (0..300).find(|_| {
                let is_due = is_due(words[CALLS].load(Ordering::Relaxed));
                line.call(Latency::Sampled, first);
                is_due
            });
            assert_eq!(due, Some(first));
        }
        let firsts = (0..25_600u64).filter(|pid| mixed(pid << 16) >> 56 == 0).count();
        assert!((50..200).contains(&firsts), "{firsts}");
    }

    #[test]
    fn counts_are_exact_in_every_mode() {
        for (latency, least, most) in
            [(Latency::Off, 0, 0), (Latency::Sampled, 250, 800), (Latency::Every, 99_999, 99_999)]
        {
            let recorder = recorder(&Statistics::new().latency(latency));
            (0..99_999).for_each(|i| get(&recorder, i % 3 != 0));
            let operations = recorder.operations();
            let gets = operations.of(Operation::Get);
            assert_eq!((gets.calls, gets.items, gets.bytes), (99_999, 99_999, 5 * 66_666));
            assert_eq!(gets.count(Outcome::Hit), 66_666);
            assert_eq!(gets.count(Outcome::Miss), 33_333);
            let timed = gets.latency.count();
            assert!((least..=most).contains(&timed), "{latency:?}: {timed}");
        }
    }

    #[test]
    fn samples_follow_no_rhythm() {
        for period in [2, 8, 32, 64, 96] {
            let seen = Arc::new(Mutex::new(vec![0u32; period]));
            let counts = Arc::clone(&seen);
            let options = Statistics::new().callback(move |event| {
                counts.lock().unwrap()[event.size as usize] += 1;
            });
            let recorder = recorder(&options);
            for i in 0..24_000 * period {
                let found = |i: &usize| Done::found(Some(*i));
                recorder.observe(Operation::Get, || Ok(i % period), found).unwrap();
            }
            let seen = seen.lock().unwrap();
            let (least, most) = (seen.iter().min().unwrap(), seen.iter().max().unwrap());
            assert!(*least > 40 && *most < 3 * least, "{period}: {seen:?}");
        }
    }

    /// More threads than slots, all alive at once, and others after them.
    #[test]
    fn counts_are_exact_after_threads_are_joined() {
        let recorder = recorder(&Statistics::new());
        let barrier = Barrier::new(80);
        for _ in 0..2 {
            std::thread::scope(|scope| {
                for _ in 0..80 {
                    scope.spawn(|| {
                        barrier.wait();
                        (0..1000).for_each(|i| get(&recorder, i % 2 == 0));
                        let moved = Moved { items: 7, misses: 3, bytes: 11 };
                        many(&recorder, Operation::GetMany, moved);
                        barrier.wait();
                    });
                }
            });
        }
        let operations = recorder.operations();
        let (gets, many) = (operations.of(Operation::Get), operations.of(Operation::GetMany));
        assert_eq!((gets.calls, gets.count(Outcome::Miss)), (160_000, 80_000));
        assert_eq!(gets.bytes, 5 * 80_000);
        assert_eq!((many.calls, many.items, many.bytes), (160, 160 * 7, 160 * 11));
        assert_eq!((many.count(Outcome::Hit), many.count(Outcome::Miss)), (160 * 4, 160 * 3));
    }

    #[test]
    fn each_outcome_is_counted_as_what_it_is() {
        let recorder = recorder(&Statistics::new().latency(Latency::Every));
        for operation in Operation::ALL {
            for (i, outcome) in operation.outcomes().iter().enumerate() {
                for _ in 0..=i {
                    let misses = u64::from(*outcome == Outcome::Miss);
                    let moved = Moved { items: 1, misses, bytes: 2 };
                    match *outcome {
                        Outcome::Failed => {
                            let failed = || Err::<(), _>(Error::invalid("on purpose"));
                            let none = |(): &()| Done::one(Outcome::Done, 9);
                            recorder.observe(operation, failed, none).unwrap_err();
                        }
                        _ if operation.has_items() => many(&recorder, operation, moved),
                        outcome => {
                            let one = |(): &()| Done::one(outcome, 2);
                            recorder.observe(operation, || Ok(()), one).unwrap();
                        }
                    }
                }
            }
        }
        let operations = recorder.operations();
        for (operation, tally) in operations.iter() {
            for (i, outcome) in operation.outcomes().iter().enumerate() {
                assert_eq!(tally.count(*outcome), i as u64 + 1, "{operation} {outcome}");
            }
            assert_eq!(tally.bytes, 2 * (tally.calls - tally.count(Outcome::Failed)));
            assert_eq!(tally.latency.count(), tally.calls);
            let sum: u64 = tally.latency.sum();
            assert!(
                tally.latency.max() >= tally.latency.percentile(50.0)
                    && sum >= tally.latency.max() - 1
            );
        }
        assert_eq!(operations.of(Operation::Insert).count(Outcome::Hit), 0);
    }

    #[test]
    fn a_callback_may_use_the_store_and_panic() {
        let calls = Arc::new(AtomicU32::new(0));
        let shared: Arc<Mutex<Option<Arc<Counters>>>> = Arc::default();
        let (counted, reached) = (Arc::clone(&calls), Arc::clone(&shared));
        let options = Statistics::new().latency(Latency::Every).callback(move |event| {
            let recorder = reached.lock().unwrap().clone().unwrap();
            get(&recorder, true);
            assert_eq!((event.operation, event.outcome), (Operation::Get, Outcome::Miss));
            assert!(counted.fetch_add(1, Ordering::Relaxed) < 1, "as it was asked to");
        });
        let recorder = Arc::new(recorder(&options));
        *shared.lock().unwrap() = Some(Arc::clone(&recorder));
        get(&recorder, false);
        std::panic::catch_unwind(|| get(&recorder, false)).unwrap_err();
        std::panic::catch_unwind(|| get(&recorder, false)).unwrap_err();
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        let operations = recorder.operations();
        let gets = operations.of(Operation::Get);
        assert_eq!((gets.count(Outcome::Miss), gets.count(Outcome::Hit)), (3, 3));
        // Lest the recorder and its callback keep each other.
        shared.lock().unwrap().take();
    }
}
