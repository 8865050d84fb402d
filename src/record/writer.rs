//! Writing a trace of what no program did with a store of this library: a workload that is made up, or
//! operations that another program noted.
//!
//! Invariant: a trace that [`Writer::finish`] passed has every entry, in the order in which they were
//! added.

use super::entry::{Action, KeyRef, Written};
use super::session::{Session, Wanted};
use super::trace::Trace;
use crate::stats::Outcome;
use crate::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// An entry to be written. See [`Entry`](super::Entry) for what its fields say.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'k> {
    /// When it began, in nanoseconds after the first; none before that of the entry before it.
    pub time: u64,
    /// What was done.
    pub action: Action,
    /// How it ended.
    pub outcome: Outcome,
    /// The key; one of more than 4096 bytes is hashed.
    pub key: Option<&'k [u8]>,
    /// Bytes of the value read or written.
    pub value_len: u64,
    /// Records or keys, for what is about many.
    pub items: u64,
}

/// A trace that is being written, of one store and one thread.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("made.trace");
/// use credenza::record::{Action, NewEntry, Trace, Writer};
/// use credenza::stats::{Operation, Outcome};
///
/// let mut trace = Writer::create(&path, "made up")?;
/// let (action, outcome) = (Action::Operation(Operation::Insert), Outcome::Done);
/// let key = Some(&b"bob"[..]);
/// trace.add(&NewEntry { time: 0, action, outcome, key, value_len: 4, items: 0 });
/// trace.finish()?;
/// assert_eq!(Trace::open(&path)?.len(), 1);
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    session: Arc<Session>,
    store: u32,
}

impl Writer {
    /// A new trace at `path`, of a store of this kind.
    ///
    /// # Errors
    /// There is a file already, or it cannot be made.
    pub fn create(path: impl AsRef<Path>, kind: &str) -> Result<Writer> {
        // Keys as they are: nothing is hashed with this but what is too long.
        let wanted = Wanted { is_hashed: false, limit: Some(u64::MAX), secret: Some((0, 0)) };
        let session = Arc::new(Session::open(path.as_ref(), wanted, false)?);
        let store = session.define(kind, Path::new(""), "");
        Ok(Writer { session, store })
    }

    /// Adds an entry. Whether it could be written, [`Writer::finish`] says.
    pub fn add(&mut self, entry: &NewEntry<'_>) {
        let NewEntry { time, action, outcome, key, value_len, items } = *entry;
        let store = self.store;
        let written =
            Written { time: 0, store, action, outcome, key: KeyRef::None, value_len, items };
        self.session.record(self.session.begun().saturating_add(time), key, written);
    }

    /// Writes what is not in the file yet.
    ///
    /// # Errors
    /// The disk is full, or writing failed otherwise: what is in the file is a part.
    pub fn finish(self) -> Result<()> {
        self.session.flush();
        if !self.session.is_over() {
            return Ok(());
        }
        let path = self.session.path();
        let stopped = Trace::open(path)?.stopped().map(|(why, _)| why);
        let stopped = stopped.or_else(|| self.session.untold());
        let why = stopped.map_or("it cannot be written".to_owned(), |why| why.to_string());
        Err(Error::invalid(format!("only a part of the trace was written: {why}")).at(path))
    }
}
