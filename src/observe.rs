//! What an engine calls with each operation, where somebody wants to know of it: statistics, a recording,
//! or both.
//!
//! A handle of which nobody wants to know has no [`Recorder`], and runs none of this: engines ask whether
//! there is one, and go out of line if so.

use crate::Result;
pub(crate) use crate::record::Building;
use crate::record::{Action, Ended, Tracer};
use crate::stats::{Begun, Counters, Done, Moved, Operation, Operations, Outcome, Own, Statistics};
use once_cell::race::OnceBox;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Tables of a store that are told apart in a trace.
const TABLES: usize = 1000;
/// What all further ones are together.
const FURTHER: &str = "(further tables)";

/// How an update ended that took its key out: it is counted as one that is done, and recorded as the removal that it
/// was, as a replay would else put an empty value there.
pub(crate) const REMOVED: Outcome = Outcome::Hit;

/// How an insertion ended that put a value beside those that its key may have, in the trace; it is counted as done.
pub(crate) const BESIDE: Outcome = Outcome::Hit;

/// Counts, times and records the operations on one store, or on one table of it.
#[derive(Debug)]
pub(crate) struct Recorder {
    counters: Option<Arc<Counters>>,
    tracer: Option<Tracer>,
    engine: &'static str,
    path: PathBuf,
    /// That of a table with a name, each with the next behind it, as they were first used. Without a lock: a
    /// process that is forked while another thread notes a table in the trace would wait for it for ever.
    next: OnceBox<OfTable>,
}

/// What records the operations on a table.
#[derive(Debug)]
struct OfTable {
    name: Box<str>,
    recorder: Recorder,
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Started {
    operation: Operation,
    counted: Option<Begun>,
    /// When it began, where it is recorded.
    begun: u64,
}

/// An operation on one key, or on none, under way, which is counted and nothing else. Dropped before it came to something,
/// as by an error or by a panic of what its caller gave it, it has failed.
struct Alone<'r> {
    recorder: &'r Recorder,
    operation: Operation,
    own: Own<'r>,
}

/// Does `f`, and counts and records it by what `done` makes of its result, if anybody wants to know.
#[inline(always)]
pub(crate) fn counted<T>(
    recorder: Option<&Recorder>,
    operation: Operation,
    key: Option<&[u8]>,
    f: impl FnOnce() -> Result<T>,
    done: impl FnOnce(&T) -> Done,
) -> Result<T> {
    match recorder {
        None => f(),
        Some(recorder) => recorder.observe(operation, key, f, done),
    }
}

/// Does `f`, which takes all records out of a store or a table. It is recorded only, as a removal that names no key.
#[inline(always)]
pub(crate) fn emptied<T>(recorder: Option<&Recorder>, f: impl FnOnce() -> Result<T>) -> Result<T> {
    match recorder {
        None => f(),
        Some(recorder) => {
            recorder.within(Operation::Remove, None, f, |_| Done::one(Outcome::Done, 0))
        }
    }
}

/// What an operation came to: a result, or a panic of what its caller gave it, which goes on when the operation
/// is counted.
struct Caught<T>(std::thread::Result<Result<T>>);

impl<T> Caught<T> {
    /// What `f` comes to. It is not called again, so that nobody sees what a panic left half done.
    fn of(f: impl FnOnce() -> Result<T>) -> Caught<T> {
        Caught(catch_unwind(AssertUnwindSafe(f)))
    }

    fn done(&self, done: impl FnOnce(&T) -> Done) -> Done {
        let result = self.0.as_ref().ok().and_then(|result| result.as_ref().ok());
        result.map_or(Done::one(Outcome::Failed, 0), done)
    }

    fn go_on(self) -> Result<T> {
        self.0.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Recorder {
    /// One for the store at `path`, which is of this engine; none if nobody wants to know of it. The path
    /// is empty for a store in memory.
    ///
    /// # Errors
    /// The memory or the file for statistics cannot be had, or the clock; or the recording that the
    /// environment asks for cannot be begun.
    pub(crate) fn new(
        statistics: Option<&Statistics>,
        engine: &'static str,
        path: &Path,
    ) -> Result<Option<Recorder>> {
        let counters = Counters::new(statistics, path)?.map(Arc::new);
        let tracer = Tracer::new(engine, path)?;
        let (path, next) = (path.to_owned(), OnceBox::new());
        let is_wanted = counters.is_some() || tracer.is_some();
        Ok(is_wanted.then_some(Recorder { counters, tracer, engine, path, next }))
    }

    /// The same for a table of the store. Of two threads who are the first to ask for it both note it in the trace, and
    /// one number is never used.
    pub(crate) fn of_table(&self, name: &str) -> &Recorder {
        let Some(tracer) = &self.tracer else { return self };
        let mut last = self;
        for i in 0..=TABLES {
            let name = if i < TABLES { name } else { FURTHER };
            let new = || {
                let recorder = Recorder {
                    counters: self.counters.clone(),
                    tracer: Some(tracer.of_table(self.engine, &self.path, name)),
                    engine: self.engine,
                    path: self.path.clone(),
                    next: OnceBox::new(),
                };
                Box::new(OfTable { name: name.into(), recorder })
            };
            let next = last.next.get_or_init(new);
            last = &next.recorder;
            if &*next.name == name {
                break;
            }
        }
        last
    }

    /// What was counted so far; `None` if nothing is.
    pub(crate) fn operations(&self) -> Option<Operations> {
        self.counters.as_ref().map(|counters| counters.operations())
    }

    /// Does `f`, an operation on one key or on none, and counts and records it by what `done` makes of its
    /// result, or as failed. Cold, so that what it is given is not prepared where nobody wants to know.
    #[cold]
    #[inline(never)]
    pub(crate) fn observe<T>(
        &self,
        operation: Operation,
        key: Option<&[u8]>,
        f: impl FnOnce() -> Result<T>,
        done: impl FnOnce(&T) -> Done,
    ) -> Result<T> {
        self.observe_here(operation, key, f, done)
    }

    /// The same in line: for what is called for nothing else.
    #[inline(always)]
    pub(crate) fn observe_here<T>(
        &self,
        operation: Operation,
        key: Option<&[u8]>,
        f: impl FnOnce() -> Result<T>,
        done: impl FnOnce(&T) -> Done,
    ) -> Result<T> {
        let Some(own) = self.own(operation) else {
            return self.observe_more(operation, key, f, done);
        };
        let alone = Alone { recorder: self, operation, own };
        let value = f()?;
        alone.came_to(done(&value));
        Ok(value)
    }

    /// The same where it is timed, counted together with others', or recorded. In one function with that, what is only counted
    /// took a third to a half more instructions for it.
    #[cold]
    #[inline(never)]
    fn observe_more<T>(
        &self,
        operation: Operation,
        key: Option<&[u8]>,
        f: impl FnOnce() -> Result<T>,
        done: impl FnOnce(&T) -> Done,
    ) -> Result<T> {
        let started = self.begin(operation);
        let result = Caught::of(f);
        self.finish(started, key, result.done(done));
        result.go_on()
    }

    /// Does `f`, an operation on many keys or records, which notes what it has moved; `key` is where it
    /// begins.
    #[cold]
    #[inline(never)]
    pub(crate) fn observe_many(
        &self,
        operation: Operation,
        key: Option<&[u8]>,
        f: impl FnOnce(&mut Moved) -> Result<()>,
    ) -> Result<()> {
        let started = self.begin(operation);
        let mut moved = Moved::default();
        let result = Caught::of(|| f(&mut moved));
        let outcome = result.done(|_| Done::one(Outcome::Done, 0)).outcome;
        self.finish(started, key, Done { outcome, moved });
        result.go_on()
    }

    /// A key of the [`Operation::GetMany`] that is under way has this value.
    #[inline]
    pub(crate) fn looked_up(&self, moved: &mut Moved, key: &[u8], value: Option<&[u8]>) {
        moved.value(value);
        self.trace(self.now(), Action::Key, Some(key), Done::found(value.map(<[u8]>::len)));
    }

    /// What counts an operation on one key, or on none, that begins, if nothing else is to be done: when it has ended, by
    /// [`Recorder::count_own`].
    #[inline(always)]
    pub(crate) fn own(&self, operation: Operation) -> Option<Own<'_>> {
        if self.tracer.is_some() {
            return None;
        }
        self.counters.as_ref()?.own(operation)
    }

    /// Counts such an operation, which has ended.
    #[inline(always)]
    pub(crate) fn count_own(&self, own: Own<'_>, operation: Operation, done: Done) {
        if !own.count(done.outcome, done.moved.bytes)
            && let Some(counters) = &self.counters
        {
            counters.record_done(operation, done);
        }
    }

    /// An operation begins; it is counted and recorded when [`Recorder::finish`] is called.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin(&self, operation: Operation) -> Started {
        let begun = self.now();
        let counted = self.counters.as_ref().map(|counters| counters.begin(operation));
        Started { operation, counted, begun }
    }

    /// The operation has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn finish(&self, started: Started, key: Option<&[u8]>, done: Done) {
        if let (Some(counters), Some(begun)) = (&self.counters, started.counted) {
            counters.finish(begun, done);
        }
        self.trace(started.begun, Action::Operation(started.operation), key, done);
    }

    /// A transaction or batch begins, which is recorded only.
    pub(crate) fn begin_transaction(&self) {
        let done = Done::one(Outcome::Done, 0);
        self.trace(self.now(), Action::Begin, None, done);
    }

    /// Does `f`, a part of a transaction that is recorded only, as its commit is counted for all of it.
    pub(crate) fn within<T>(
        &self,
        operation: Operation,
        key: Option<&[u8]>,
        f: impl FnOnce() -> Result<T>,
        done: impl FnOnce(&T) -> Done,
    ) -> Result<T> {
        self.note(Action::Operation(operation), key, f, done)
    }

    /// Does `f`, which counts the records of a range that begins with `key`, and is recorded only.
    pub(crate) fn count(&self, key: Option<&[u8]>, f: impl FnOnce() -> Result<u64>) -> Result<u64> {
        self.note(Action::Count, key, f, |records| {
            let moved = Moved { items: *records, ..Moved::default() };
            Done { outcome: Outcome::Done, moved }
        })
    }

    /// Does `f`, and records it only, by what `done` makes of its result, or as failed.
    #[cold]
    #[inline(never)]
    fn note<T>(
        &self,
        action: Action,
        key: Option<&[u8]>,
        f: impl FnOnce() -> Result<T>,
        done: impl FnOnce(&T) -> Done,
    ) -> Result<T> {
        let begun = self.now();
        let result = Caught::of(f);
        self.trace(begun, action, key, result.done(done));
        result.go_on()
    }

    /// A change of the batch that is being made, which is recorded only: its commit is counted.
    pub(crate) fn batched(&self, key: &[u8], value: Option<&[u8]>) {
        let (operation, bytes) = match value {
            Some(value) => (Operation::Insert, key.len() + value.len()),
            None => (Operation::Remove, key.len()),
        };
        let done = Done::one(Outcome::Done, bytes);
        self.trace(self.now(), Action::Operation(operation), Some(key), done);
    }

    /// The same of a value that is put beside those that its key may have.
    pub(crate) fn batched_beside(&self, key: &[u8], value: &[u8]) {
        let done = Done::one(BESIDE, key.len() + value.len());
        self.trace(self.now(), Action::Operation(Operation::Insert), Some(key), done);
    }

    /// The reading of one record after the other begins, with `key` if that is known; it is counted now,
    /// and recorded when what this gives is dropped, as done if nothing says otherwise until then.
    pub(crate) fn walk(&self, key: Option<&[u8]>) -> Walk<'_> {
        if let Some(counters) = &self.counters {
            counters.record(Operation::Scan);
        }
        let key = key.filter(|_| self.tracer.is_some()).map(<[u8]>::to_vec);
        let (begun, moved, outcome) = (self.now(), Moved::default(), Outcome::Done);
        Walk { recorder: self, key, begun, moved, outcome }
    }

    /// What records the steps of a new cursor; none if that is not asked for.
    pub(crate) fn steps(&self) -> Option<Box<Steps>> {
        let tracer = self.tracer.as_ref()?.beside();
        let (way, key, moved) = (Way::Forward, Vec::new(), Moved::default());
        Some(Box::new(Steps { tracer, way, key, begun: 0, moved, is_set: false }))
    }

    /// When something begins that may be recorded.
    #[inline(always)]
    fn now(&self) -> u64 {
        self.tracer.as_ref().map_or(0, Tracer::now)
    }

    #[inline(always)]
    fn trace(&self, begun: u64, action: Action, key: Option<&[u8]>, done: Done) {
        if let Some(tracer) = &self.tracer {
            record(tracer, begun, action, key, done);
        }
    }
}

impl Alone<'_> {
    #[inline(always)]
    fn came_to(self, done: Done) {
        let this = ManuallyDrop::new(self);
        this.recorder.count_own(this.own, this.operation, done);
    }
}

impl Drop for Alone<'_> {
    #[cold]
    fn drop(&mut self) {
        self.recorder.count_own(self.own, self.operation, Done::one(Outcome::Failed, 0));
    }
}

#[cold]
#[inline(never)]
fn record(tracer: &Tracer, begun: u64, action: Action, key: Option<&[u8]>, done: Done) {
    let Done { outcome, moved: Moved { items, bytes, .. } } = done;
    let action = match action {
        Action::Operation(Operation::Update) if outcome == REMOVED => {
            Action::Operation(Operation::Remove)
        }
        action => action,
    };
    // Of a change statistics count the bytes of key and value together.
    let value_len = match action {
        Action::Operation(Operation::Insert | Operation::Update) => {
            bytes.saturating_sub(key.map_or(0, <[u8]>::len) as u64)
        }
        Action::Operation(Operation::Remove) => 0,
        _ => bytes,
    };
    tracer.record(begun, action, key, Ended { outcome, value_len, items });
}

/// Records that are read one after the other.
#[derive(Debug)]
pub(crate) struct Walk<'r> {
    recorder: &'r Recorder,
    key: Option<Vec<u8>>,
    begun: u64,
    moved: Moved,
    outcome: Outcome,
}

impl Walk<'_> {
    /// It has come to an error.
    #[cold]
    pub(crate) fn failed(&mut self) {
        if self.outcome != Outcome::Failed
            && let Some(counters) = &self.recorder.counters
        {
            counters.record_failed(Operation::Scan);
        }
        self.outcome = Outcome::Failed;
    }

    /// It has come to these.
    pub(crate) fn moved(&mut self, moved: Moved) {
        if let Some(counters) = &self.recorder.counters {
            counters.record_moved(Operation::Scan, moved);
        }
        self.moved.add(moved);
    }

    /// It has come to this one, or to an error.
    #[cold]
    #[inline(never)]
    pub(crate) fn came_to(&mut self, record: &Result<(impl AsRef<[u8]>, impl AsRef<[u8]>)>) {
        let Ok((key, value)) = record else { return self.failed() };
        let mut moved = Moved::default();
        moved.record(key.as_ref(), value.as_ref());
        self.moved(moved);
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        let done = Done { outcome: self.outcome, moved: self.moved };
        let scan = Action::Operation(Operation::Scan);
        self.recorder.trace(self.begun, scan, self.key.as_deref(), done);
    }
}

/// Which way a cursor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Back,
}

/// The steps of a cursor, of which those one way are recorded as a scan of the records that they came to:
/// when it turns, is set elsewhere, changes something, or is dropped. They are not counted.
///
/// It borrows nothing, so that a cursor borrows no longer than it is used.
#[derive(Debug)]
pub(crate) struct Steps {
    tracer: Tracer,
    way: Way,
    /// The first key of the records.
    key: Vec<u8>,
    begun: u64,
    /// Of the bytes only the keys': whether anybody looks at a value a step does not know.
    moved: Moved,
    is_set: bool,
}

impl Steps {
    /// The cursor has made a step, and come to the record with this key, if to any.
    #[cold]
    #[inline(never)]
    pub(crate) fn stepped(&mut self, way: Way, key: Option<&[u8]>) {
        // There is none further on: what is done next, as a commit, is behind it in the trace.
        let Some(key) = key else { return self.end_with(!self.is_set) };
        if self.way != way {
            self.end();
        }
        if self.moved.items == 0 {
            (self.way, self.begun) = (way, self.tracer.now());
        }
        if self.moved.items == 0 || way == Way::Back {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.moved.record(key, &[]);
    }

    /// The cursor goes no further this way.
    #[cold]
    #[inline(never)]
    pub(crate) fn end(&mut self) {
        self.end_with(false);
    }

    /// The same; a scan of everything has no first key.
    fn end_with(&mut self, is_all: bool) {
        self.is_set = true;
        if self.moved.items > 0 {
            let done = Done { outcome: Outcome::Done, moved: std::mem::take(&mut self.moved) };
            let (scan, key) = (Action::Operation(Operation::Scan), (!is_all).then_some(&*self.key));
            record(&self.tracer, self.begun, scan, key, done);
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.end();
    }
}
