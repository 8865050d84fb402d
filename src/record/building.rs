//! What records the making of a store that is built once, and published whole or not at all.
//!
//! In the trace it is a transaction: a beginning, an insert for each record, and a commit when the file is in its
//! place, or else an abort. That it is durable then goes without saying: a sync would tell of other stores, too. It has a buffer of its own, as a thread has, so that it is one
//! transaction whichever threads it was handed to, and what these do with the old file meanwhile is no part
//! of it.

use super::entry::{Action, KeyRef, Written};
use super::session::{self, Mine, Session};
use super::switch;
use crate::Result;
use crate::stats::{Operation, Outcome};
use std::path::Path;
use std::sync::Arc;

/// Records the making of one store. Dropped unpublished, it says that nothing came of it.
#[derive(Debug)]
pub(crate) struct Building {
    session: Arc<Session>,
    own: Option<Mine>,
    store: u32,
    records: u64,
    /// Of all keys and values.
    bytes: u64,
    is_published: bool,
}

impl Building {
    /// That of the store that will be at `path`, if a recording is on; the path is empty for one in memory.
    ///
    /// # Errors
    /// The recording that the environment asks for cannot be begun.
    pub(crate) fn begin(engine: &str, path: &Path) -> Result<Option<Box<Building>>> {
        let Some(session) = switch::current()?.filter(|session| !session.is_over()) else {
            return Ok(None);
        };
        let store = session.define(engine, path, "");
        let (records, bytes, is_published) = (0, 0, false);
        let mut building = Building { session, own: None, store, records, bytes, is_published };
        building.record(session::now(), Action::Begin, None, (0, 0));
        Ok(Some(Box::new(building)))
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

    /// When the store begins to be published.
    pub(crate) fn now(&self) -> u64 {
        session::now()
    }

    /// The store is in its place, and durable; that began at `begun`.
    pub(crate) fn published(&mut self, begun: u64) {
        self.is_published = true;
        let commit = Action::Operation(Operation::Commit);
        self.record(begun, commit, None, (self.bytes, self.records));
    }

    fn record(&mut self, begun: u64, action: Action, key: Option<&[u8]>, moved: (u64, u64)) {
        let (store, time, no_key, outcome) = (self.store, 0, KeyRef::None, Outcome::Done);
        let (value_len, items) = moved;
        let entry = Written { time, store, action, outcome, key: no_key, value_len, items };
        self.session.record_apart(&mut self.own, begun, key, entry);
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
