//! The files of others: cdb, cdb64 and mcdb, read in place and written.
//!
//! All three have one shape: a header with 256 entries, the records one behind the other, and 256
//! open hash tables whose slots hold the hash of a key and the offset of its record. So there is
//! one reader and one writer, written over the trait `format::Format`, which says how a number
//! is laid down and little else; the types for users are aliases of the two.
//!
//! Reading order: `docs/format/foreign.md`, `format`, `cdb` and `mcdb`, `probe` (lookup),
//! `records` (scan), `check` (verify and statistics), `reader`, `writer`; `unread` (what is not read here).
//!
//! Invariants: every access is checked against the file's length, and every probe sequence ends
//! after as many slots as its table has, so that any bytes whatever give an answer or an error.

mod cdb;
mod check;
mod format;
mod mcdb;
mod probe;
mod reader;
mod records;
mod unread;
mod writer;

pub use cdb::{Cdb, Cdb64, Cdb64Writer, CdbWriter};
pub use check::Stats;
pub(crate) use format::Format;
pub use mcdb::{Mcdb, McdbWriter};
pub use reader::{OpenOptions, Reader};
pub use unread::{unread, unread_folder};
pub use writer::Writer;
