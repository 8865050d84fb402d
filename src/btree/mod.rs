//! The btree engine: an ordered store with transactions and snapshots, for many processes.
//!
//! [`BTree`] is the store: records in the order of their keys, in a main table and as many others, with names, as one likes. A
//! [`Transaction`] changes it, one at a time, all of it or nothing; a [`Snapshot`] is one state of it, however long it is read.
//! Any number of threads and processes may do both. Handles are cheap to clone.
//!
//! ```
//! use credenza::btree::{BTree, TableOptions};
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("events");
//! let store = BTree::create(&path)?;
//! store.insert(b"2026-01-30", b"snow")?; // a transaction of its own, in the main table
//!
//! let mut transaction = store.write()?;
//! transaction.main().insert(b"2026-01-31", b"rain")?;
//! transaction.create_table_with("seen", &TableOptions::of_keys::<u64>())?;
//! if let Some(mut seen) = transaction.table("seen")? {
//!     seen.typed::<u64>()?.insert(&1000, b"crane")?;
//! }
//! transaction.commit()?;
//!
//! let snapshot = store.read()?;
//! let january = snapshot.main().prefix(b"2026-01").collect::<credenza::Result<Vec<_>>>()?;
//! assert_eq!(january.len(), 2);
//! let seen = snapshot.table("seen")?.expect("it was just made");
//! assert_eq!(seen.typed::<u64>()?.at_or_after(&7)?, Some((1000, &b"crane"[..])));
//! # Ok::<(), credenza::Error>(())
//! ```
//!
//! [`TableOptions`] says what keys are, and whether they have several values ([`MultiTable`]); [`OpenOptions`] when commits are on
//! the disk, whether pages are compared with their checksums, how long to wait for others. [`credenza::BTreeLoad`](crate::BTreeLoad)
//! adds many records in any order, [`credenza::BTreeBuilder`](crate::BTreeBuilder) makes a new store of them.

// | file | what |
// |---|---|
// | `handle`, `snapshot`, `transaction`, `nested`, `opened` | what users see: the store, what they read and change |
// | `table`, `table_mut`, `range`, `cursor_mut`, `count`, `estimate` | tables whose keys have one value each |
// | `multi`, `multi_mut`, `multi_cursor`, `multi_cursor_mut`, `pairs` | tables whose keys may have several |
// | `key`, `kind` | what keys are, and of which kind a table is |
// | `typed`, `typed_cursor`, `typed_multi`, `typed_multi_cursor` | tables of both kinds by keys that are not bytes |
// | `format` | the bytes of page 0, of a commit, of the table of pages |
// | `page`, `record`, `leaf`, `heap`, `tag`, `records`, `inner` | the bytes of a page of a tree, and changes in it |
// | `items`, `split`, `places` | pages taken apart and written anew, full leaves parted, and whether all in a page is apart |
// | `source`, `probe`, `tree`, `cursor`, `ahead`, `scan` | the pages of a commit, looking up in them, going through |
// | `edit`, `append`, `remove`, `bulk`, `run`, `values` | putting in, taking out, filling a tree, long values |
// | `in_place`, `undo` | single changes that copy no page, and how they are taken back |
// | `writer`, `space`, `held`, `as_of` | the one who writes, and which pages are free |
// | `compact`, `moving`, `closer`, `closer_inner`, `links`, `trim` | making the file smaller |
// | `core`, `only`, `create`, `pins` | processes that share a file, or only read it, how a new one begins, who reads what |
// | `lease`, `copies` | readers whose time is limited, and what they have copied |
// | `sync`, `meta`, `journal`, `changes`, `tracked` | what is durable, and how that is known after a power failure |
// | `watch` | learning that the store has changed |
// | `verify`, `stats`, `backup`, `recover` | checking all of it, counting, copying it, or what is whole of it |
// | `counted` | statistics of operations |
// | `view` | pages of the file as bytes: the only `unsafe` |
//
// Invariants: a page that a commit leads to is never written as long as anybody may read that
// commit. A commit is one store of its number. What a writer does before is known by its stamp, and
// taken back by the next one if it dies.
//
// Threads: any number of readers, which wait for nobody; one writer, who holds a lock that processes
// share and that survives the death of its holder.

mod ahead;
mod append;
mod as_of;
mod backup;
#[cfg(test)]
mod beside;
mod bulk;
mod changes;
mod closer;
mod closer_inner;
mod compact;
mod copies;
mod core;
mod count;
mod counted;
mod create;
mod cursor;
mod cursor_mut;
mod edit;
mod estimate;
#[cfg(test)]
mod expiry;
mod format;
mod gaps;
mod handle;
mod heap;
mod held;
mod in_place;
mod inner;
mod items;
mod journal;
mod key;
mod kind;
mod leaf;
mod lease;
mod links;
mod meta;
mod moving;
mod multi;
mod multi_cursor;
mod multi_cursor_mut;
mod multi_mut;
mod nested;
mod only;
mod opened;
mod page;
mod pairs;
mod pins;
mod places;
mod probe;
#[cfg(test)]
mod random;
mod range;
mod record;
mod records;
mod recover;
mod remove;
mod run;
mod scan;
mod snapshot;
mod source;
mod space;
mod split;
mod stats;
mod sync;
mod table;
mod table_mut;
mod tag;
#[cfg(test)]
mod torn;
mod tracked;
mod transaction;
mod tree;
mod trim;
mod typed;
mod typed_cursor;
mod typed_multi;
mod typed_multi_cursor;
mod undo;
mod values;
mod verify;
mod view;
mod watch;
mod writer;

pub use cursor_mut::CursorMut;
pub use format::{MAX_KEY, MAX_NAME, MAX_SORTED_VALUE, MAX_VALUE};
pub use handle::{BTree, OpenOptions};
pub use key::{Key, KeyType};
pub use kind::{Duplicates, TableOptions};
pub use multi::{MultiPair, MultiRange, MultiTable, Values};
pub use multi_cursor::MultiCursor;
pub use multi_cursor_mut::MultiCursorMut;
pub use multi_mut::{MultiTableMut, Position};
pub use nested::Nested;
pub use pins::Reader;
pub use range::Range;
pub use recover::{Recovered, recover};
pub use snapshot::Snapshot;
pub use stats::Stats;
pub use table::{Cursor, Pair, Table};
pub use table_mut::TableMut;
pub use transaction::{Savepoint, Transaction};
pub use typed::{Typed, TypedMut, TypedPair, TypedPairs, TypedRange};
pub use typed_cursor::{TypedCursor, TypedCursorMut};
pub use typed_multi::{TypedMulti, TypedMultiMut, TypedMultiPair, TypedMultiRange};
pub use typed_multi_cursor::{TypedMultiCursor, TypedMultiCursorMut};

pub(crate) use bulk::KeyValue;
pub(crate) use table_mut::not_numbered;
