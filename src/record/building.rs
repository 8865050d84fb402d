//! What records the making of a store that is built once, and published whole or not at all.
//!
//! In the trace it is a transaction: a beginning, an insert for each record, and a commit when the file is in its
//! place, or else an abort. That it is durable then goes without saying: a sync would tell of other stores, too.
//! It has a buffer of its own, as a thread has, so that it is one transaction whichever threads it was handed to,
//! and what these do with the old file meanwhile is no part of it.

use super::entry::{Action, KeyRef, Written};
use super::session::{self, Mine, Session};
use super::switch;
use crate::Result;
use crate::stats::{Operation, Outcome};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Records the making of one store. Dropped unpublished, it says that nothing came of it.
pub(crate) struct Building {
    session: Arc<Session>,
    own: Option<Mine>,
    engine: &'static str,
    path: PathBuf,
    /// The one, or the table of it, that what is added now goes to.
    store: u32,
    records: u64,
    /// Of all keys and values.
    bytes: u64,
    is_published: bool,
}

impl Building {
    /// That of the store that will be at `path`, if a recording is on.
    ///
    /// # Errors
    /// The recording that the environment asks for cannot be begun.
    pub(crate) fn begin(engine: &'static str, path: &Path) -> Result<Option<Box<Building>>> {
        let Some(session) = switch::current()?.filter(|session| !session.is_over()) else {
            return Ok(None);
        };
        let store = session.define(engine, path, "");
        let mut building = Building {
            session,
            own: None,
            engine,
            path: path.to_owned(),
            store,
            records: 0,
            bytes: 0,
            is_published: false,
        };
        building.record(session::now(), Action::Begin, None, (0, 0));
        Ok(Some(Box::new(building)))
    }

    /// What is added from here on goes to the table of this name; to the one without, if that is empty.
    pub(crate) fn table(&mut self, name: &str) {
        self.store = self.session.define(self.engine, &self.path, name);
    }

    /// A record is added. Cold, so that nothing is prepared for it where nobody records.
    #[cold]
    #[inline(never)]
    pub(crate) fn added(&mut self, key: &[u8], value: &[u8]) {
        self.records += 1;
        self.bytes += (key.len() + value.len()) as u64;
        let insert = Action::Operation(Operation::Insert);
        self.record(session::now(), insert, Some(key), (value.len() as u64, 0));
    }

    /// Has the store be put in its place, durable, and says that it is there.
    ///
    /// # Errors
    /// Those of `publish`.
    pub(crate) fn publishing<T>(
        recording: &mut Option<Box<Building>>,
        publish: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let begun = recording.as_ref().map_or(0, |_| session::now());
        let published = publish()?;
        if let Some(building) = recording {
            building.is_published = true;
            let commit = Action::Operation(Operation::Commit);
            building.record(begun, commit, None, (building.bytes, building.records));
        }
        Ok(published)
    }

    fn record(&mut self, begun: u64, action: Action, key: Option<&[u8]>, moved: (u64, u64)) {
        let (store, time, no_key, outcome) = (self.store, 0, KeyRef::None, Outcome::Done);
        let (value_len, items) = moved;
        let entry = Written { time, store, action, outcome, key: no_key, value_len, items };
        self.session.record_apart(&mut self.own, begun, key, entry);
    }
}

/// Without what a hashed recording hides.
impl fmt::Debug for Building {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Building").field("records", &self.records).finish_non_exhaustive()
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        if !self.is_published {
            self.record(session::now(), Action::Operation(Operation::Abort), None, (0, 0));
        }
        self.session.flush();
    }
}
