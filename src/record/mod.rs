//! Recording what a program does with its stores, and reading it again.
//!
//! A recording is a file, called a *trace*: one entry for each operation, with its time, thread, store,
//! key, the length of the value, and how it ended; values themselves are not in it. It is switched on
//! for a whole process: by [`start`], or from outside by the environment, so that no program has to
//! know of it:
//!
//! | variable | what it says |
//! |---|---|
//! | `CREDENZA_RECORD` | the file to record to; one that is there already is continued |
//! | `CREDENZA_RECORD_KEYS` | `plain` (as they are, the default) or `hashed` |
//! | `CREDENZA_RECORD_LIMIT` | bytes that the file may have, as in `500M`; 1 GiB by default. Who continues it asks for the same, or for none |
//! | `CREDENZA_RECORD_SECRET` | 32 hexadecimal digits that keys are hashed with; needed where several processes record `hashed` keys to one file |
//!
//! The environment is not believed in a process with more rights than whoever started it.
//!
//! Handles that are opened, and builds that are begun, while a recording is on are recorded, until they are
//! dropped or it ends. The recorder never stands in the program's way: where the trace cannot grow (its limit, a
//! full disk, a lock that another keeps), the recording ends, the trace says why if that can be, and the program
//! goes on.
//!
//! How it works: each thread collects what it does in a buffer of its own, which goes to the file as a
//! block when it has 64 KiB or is a second old, when a store is closed, and when thread or process end.
//! Whoever adds a block opens the file, takes its lock, and notes at last in the file's head how far it
//! is valid: so a process killed at any moment leaves a trace up to its last block, several processes
//! share one, and a fork needs nothing but to begin with empty buffers.
//!
//! Reading order: `docs/format/trace.md`, `format`, [`Entry`] in `entry`, `session` (who writes where), `tracer`
//! (what the engines call, by way of `observe`), `building` (the same for what is built once), `switch` (on and
//! off), [`Trace`] in `trace`, [`Writer`] in `writer` for entries that nobody recorded.
//!
//! Invariants: nothing read from a file is trusted: any bytes give a trace or an error. Of one thread
//! all entries are in the order in which its operations ended.
//!
//! Threads: everything may be used from any thread. Only the thread, or build, whose buffer it is, who closes a
//! store, and who ends the recording or the process touch a buffer.

mod building;
mod entry;
mod format;
mod session;
mod switch;
mod trace;
mod tracer;
mod writer;

pub(crate) use building::Building;
pub use entry::{Action, Entry, Key};
pub use format::Stopped;
pub(crate) use format::begins_a_trace;
pub use switch::{Keys, Options, flush, is_on, start, stop};
pub use trace::{Entries, Trace, TracedStore};
pub(crate) use tracer::{Ended, Tracer};
pub use writer::{NewEntry, Writer};

#[cfg(test)]
mod tests;
