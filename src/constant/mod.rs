//! The constant engine: a file that is built once, published atomically, and read by everyone.
//!
//! A [`Builder`] makes the file, of records in any order; a [`Constant`] reads it, through [`Get`](crate::Get) and
//! [`Scan`](crate::Scan), which other stores have, too. A key may have several values. What is built anew takes the place of the old
//! file in one step, and disturbs nobody: [`Constant::refresh`] goes on to it.
//!
//! ```
//! use credenza::constant::{Builder, Constant};
//! use credenza::Get;
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("colours");
//! let mut builder = Builder::create(&path)?;
//! builder.add(b"red", b"#ff0000")?;
//! builder.add(b"green", b"#00ff00")?;
//! builder.add(b"green", b"#008000")?;
//! builder.finish()?; // the file appears now, whole, or not at all
//!
//! let colours = Constant::open(&path)?;
//! assert_eq!(colours.get(b"red")?.as_deref(), Some(&b"#ff0000"[..]));
//! assert_eq!(colours.get_all(b"green")?.len(), 2);
//! # Ok::<(), credenza::Error>(())
//! ```

// How a lookup goes: the hash of the key names a bucket, and one cache line of the directory
// says where the bucket lies, or, for small records, the hash alone names a row or a block; one
// comparison of 12 to 32 bytes at once finds the entries whose fingerprint (and key length) fit; the
// key is compared; the value lies behind it, or, where it is large, in the log that the entry refers to.
//
// Reading order: `docs/format/constant.md`, `format`, `directory`, `bucket`, `rows`, `block`,
// `lookup`, `view`, `fast`, `batch`; then how a file comes to be: `builder`, `partition`, `plan`, `emit`, `lists`, `output`.
//
// Invariants: a published file never changes; readers trust nothing in it beyond its header's
// checksum and check every offset; the same input gives the same file.

mod batch;
mod block;
mod bucket;
mod builder;
mod directory;
mod emit;
mod fast;
mod flat;
mod format;
mod handle;
mod lanes;
mod lists;
mod lookup;
mod output;
mod partition;
mod plan;
mod reader;
mod rows;
mod scan;
mod stats;
mod verify;
mod view;
mod wanted;

pub use builder::{BuildOptions, Builder, Phase, Progress};
pub use handle::{Constant, OpenOptions};
pub use reader::View;
pub use scan::Iter;
pub use stats::Stats;
