//! What is counted and timed, as the user wants it.

use super::clock::Clock;
use super::operation::{Operation, Outcome};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// Which operations are timed. Counters are exact in every mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Latency {
    /// None: histograms stay empty, and the callback is never called.
    Off,
    /// Of each thread one operation of about 256, at irregular distances, so that no rhythm of the
    /// program decides which; and every scan but by an iterator, commit, abort and sync.
    #[default]
    Sampled,
    /// Every operation but iterators ([`Operation::Scan`]). The clock waits until what is timed has ended, so that a processor can no
    /// longer overlap the waits for memory of successive lookups, and a lookup that takes tens of
    /// nanoseconds takes hundreds.
    Every,
}

/// An operation that was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What was done.
    pub operation: Operation,
    /// How it ended; for many keys at once [`Outcome::Done`] or [`Outcome::Failed`].
    pub outcome: Outcome,
    /// Bytes of the values read, or of the keys and values scanned or written.
    pub size: u64,
    /// How long it took, in nanoseconds.
    pub nanoseconds: u64,
}

/// What is called with each operation that is timed. A panic in it leaves the numbers right, so
/// that a store may be used after it.
#[derive(Clone)]
pub(super) struct Callback(pub Arc<dyn Fn(&Event) + Send + Sync>);

impl UnwindSafe for Callback {}
impl RefUnwindSafe for Callback {}

/// What is counted and timed of a store, and who may see it.
///
/// A store that is opened without it counts nothing. With it a lookup takes some hundred instructions
/// more, on cache lines of its thread's own (see `docs/benchmarks.md`); and for each store
/// opened 3.4 MB of addresses, of which each thread that counts uses up to 52 KB, or a file of them.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("users.constant");
/// # let mut builder = credenza::constant::Builder::create(&path)?;
/// # builder.add(b"bob", b"1001")?;
/// # builder.finish()?;
/// use credenza::Get;
/// use credenza::constant::Constant;
/// use credenza::stats::{Latency, Operation, Outcome, Statistics};
///
/// let statistics = Statistics::new().latency(Latency::Every);
/// let users = Constant::options().statistics(statistics).open(&path)?;
/// users.get(b"bob")?;
/// users.get(b"alice")?;
///
/// let operations = users.operations().expect("it was opened with statistics");
/// let gets = operations.of(Operation::Get);
/// assert_eq!(gets.count(Outcome::Hit), 1);
/// assert_eq!(gets.count(Outcome::Miss), 1);
/// assert_eq!(gets.bytes, 4);
/// println!("p99 {} ns, max {} ns", gets.latency.percentile(99.0), gets.latency.max());
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Statistics {
    pub(super) latency: Latency,
    pub(super) clock: Clock,
    pub(super) callback: Option<Callback>,
    pub(super) shared: bool,
}

impl Statistics {
    /// Counters, latencies sampled with the best clock, no callback, in this process's memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which operations are timed; [`Latency::Sampled`] by default.
    #[must_use]
    pub fn latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    /// What operations are timed with; [`Clock::Auto`] by default. Opening fails for
    /// [`Clock::Tsc`] where the processor has none that can be used.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Calls `callback` with each operation that is timed (see [`Statistics::latency`]), on the
    /// thread that did it and after it has ended, so that its own time counts for nothing but the
    /// caller's. Operations on a store within a callback are counted and not reported. If it
    /// panics, the panic goes through the operation; the numbers are right all the same. What a panic undoes
    /// on its way, as a transaction that is dropped, is not reported. Of what is
    /// done within a transaction of a btree store it hears while that goes on, so that it cannot
    /// write to the same store then.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("users.constant");
    /// # let mut builder = credenza::constant::Builder::create(&path)?;
    /// # builder.add(b"bob", b"1001")?;
    /// # builder.finish()?;
    /// use credenza::Get;
    /// use credenza::constant::Constant;
    /// use credenza::stats::Statistics;
    ///
    /// let slow = |event: &credenza::stats::Event| {
    ///     if event.nanoseconds > 1_000_000 {
    ///         eprintln!("{} of {} bytes took {} ns", event.operation, event.size, event.nanoseconds);
    ///     }
    /// };
    /// let users = Constant::options().statistics(Statistics::new().callback(slow)).open(&path)?;
    /// users.get(b"bob")?;
    /// # Ok::<(), credenza::Error>(())
    /// ```
    #[must_use]
    pub fn callback(mut self, callback: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.callback = Some(Callback(Arc::new(callback)));
        self
    }

    /// Whether the numbers lie in the file `NAME-stats` beside the store, where other processes
    /// add theirs and read them ([`super::Observer`], `credenza stat --live NAME`); false by
    /// default. The file has 3.4 MB whatever the size of the store, and stays: numbers go on where
    /// they were. 63 threads of all processes together count without disturbing each other, more
    /// of them at a few times the cost, and so does a process forked since it opened the store.
    ///
    /// Opening fails if the file can neither be opened nor made, as in a folder that may not be
    /// written; if it is damaged, removing it is the remedy.
    #[must_use]
    pub fn shared(mut self, shared: bool) -> Self {
        self.shared = shared;
        self
    }
}

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statistics")
            .field("latency", &self.latency)
            .field("clock", &self.clock)
            .field("callback", &self.callback.is_some())
            .field("shared", &self.shared)
            .finish()
    }
}
