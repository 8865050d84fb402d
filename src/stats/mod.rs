//! What is done with a store, and how long it takes: counters of every operation, and histograms
//! of their latency.
//!
//! Nothing is counted unless the user asks for it when he opens a store; without that, an operation
//! tests one pointer.
//!
//! How it works: a thread counts in cache lines of its own, with a load, an addition and a store;
//! whoever asks adds up the lines of all threads. What a thread adds to is called its *slot*; all
//! slots of a store lie in one area of memory, or, where [`Statistics::shared`] asks for it, in the
//! file `NAME-stats` beside the store, which other processes count in and read. Of one operation of
//! about 256 the clock is read as well (see `recorder`).
//!
//! Reading order: `operation`, [`Statistics`] in `options`, `docs/format/stats.md`, `layout`,
//! `recorder` (what counts), `histogram`, `slots` (which thread of which process counts
//! where), `snapshot` (adding up), `observer` (another process's view).
//!
//! Invariants: a number that a thread counted is seen once, by everybody who looks after the
//! thread was joined; what lies in a shared file is never trusted: any bytes whatever give numbers
//! or an error.
//!
//! Threads: everything may be used from any thread. Each slot has one writer at a time, except
//! number 0, which is for threads without a slot, for processes forked since the store was opened,
//! and for what dead processes counted: there additions are atomic.

mod clock;
mod histogram;
mod layout;
mod observer;
mod operation;
mod options;
mod recorder;
mod slots;
mod snapshot;
mod thread;

pub use clock::Clock;
pub use histogram::Histogram;
pub(crate) use layout::begin_statistics;
pub use observer::Observer;
pub use operation::{Operation, Outcome};
pub use options::{Event, Latency, Statistics};
pub(crate) use recorder::{Begun, Counters, Done, Moved, Own};
pub use snapshot::{Operations, Tally};
