//! The hash engine: a mutable store of many processes, safe against their death at any moment.
//!
//! [`Hash`](struct@Hash) is the store: keys and values are bytes, one value a key. Any number of threads and processes may
//! have it open, and change it: each call is a change of its own, a [`Batch`] or a [`Transaction`] makes several of them one.
//! Handles are cheap to clone.
//!
//! ```
//! use credenza::hash::{Batch, Hash};
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("sessions");
//! let sessions = Hash::create(&path)?;
//! sessions.insert(b"alice", b"logged in")?;
//! assert_eq!(sessions.get(b"alice")?.as_deref(), Some(&b"logged in"[..]));
//! assert_eq!(sessions.increment(b"visits", 1)?, 1);
//!
//! let mut batch = Batch::new();
//! batch.insert(b"bob", b"logged in");
//! batch.remove(b"alice");
//! sessions.batch(&batch)?; // both, or none
//!
//! let mut transaction = sessions.transaction()?; // nobody else writes until it ends
//! if transaction.get(b"bob")?.is_some() {
//!     transaction.insert(b"bob", b"logged out")?;
//! }
//! transaction.commit()?;
//! # Ok::<(), credenza::Error>(())
//! ```
//!
//! [`OpenOptions`] has the rest: when changes are on the disk ([`Durability`]), a limit that makes a cache of it, how long to wait
//! for others, statistics.

// How a lookup goes: the hash of the key names an entry of the directory, which names a page of
// the index; the tag in a slot of the page's line says which record of the log it may be; the key
// there is compared; the value lies behind it.
//
// How a write goes: a record is appended to the log, the end of the log moves behind it, and the
// slot changes from the old record to the new one, by one store each. What is replaced is
// garbage; writers move what is alive out of the oldest segment of the log, a little at a time.
//
// Reading order: `docs/format/hash.md`, `format`, `record`, `view`, `page`, `index`, `pins`, `reader`; then
// `writer`, `removal`, `pending`, `entering`, `newer`, `pass`, `count`, `log`, `grow`, `blocks`, `clean`, `reuse`, `reserve`, `haste`,
// `compact`, `evict`, `sync`; then how a store is made, opened and repaired: `create`, `core`, `check`, `scan`, `rebuild`, `fill`; then
// what users see: `options`, `handle`, `lease`, `counted`, `batch`, `transaction`, `iter`, `watch`, `verify`, `backup`, `stats`.
//
// Invariants: the log is the truth, and what is in it never changes before its segment is
// emptied; the index can be made again from it at any time. One writer at a time, by a lock that
// survives the death of its holder; readers wait for nobody, unless all pins are taken.

mod backup;
mod batch;
mod blocks;
mod check;
mod clean;
mod compact;
mod core;
mod count;
mod counted;
mod create;
mod entering;
mod evict;
mod fill;
mod find;
mod format;
mod grow;
mod handle;
mod haste;
mod headless;
mod index;
mod iter;
mod lease;
mod log;
mod newer;
mod options;
mod page;
mod pass;
mod pending;
mod pins;
mod reader;
mod rebuild;
mod record;
mod removal;
mod reserve;
mod reuse;
mod scan;
mod stats;
mod sync;
mod transaction;
mod verify;
mod view;
mod watch;
mod writer;

pub use crate::durability::Durability;
pub use backup::{Recovered, recover};
pub use batch::Batch;
#[allow(unused_imports, reason = "the builder of stores and others use them")]
pub(crate) use format::INDEX_FILE;
pub use handle::Hash;
pub use iter::Iter;
pub use lease::LeasedValue;
pub use options::OpenOptions;
pub use pins::Reader;
pub use reader::Value;
pub use stats::Stats;
pub use transaction::Transaction;
#[allow(unused_imports, reason = "the builder of stores uses it")]
pub(crate) use writer::check_sizes;

/// Whether the file at `path` is the index of a hash store, by its first bytes: it can always be made again. False for a link,
/// whatever it leads to, and for what is not there or may not be read.
///
/// A program that puts another file in the place of a hash store removes `path` with `-index` behind it only if this is
/// so: a file of the user's may have that name.
pub fn is_index(path: impl AsRef<std::path::Path>) -> bool {
    crate::os::aside::head_of(path.as_ref())
        .is_ok_and(|head| !head.is_empty() && format::is_index(&head))
}
