//! What the recorder of a store calls, where a recording is on.

use super::entry::{Action, KeyRef, Written};
use super::session::{self, Session};
use super::switch;
use crate::Result;
use crate::stats::Outcome;
use std::path::Path;
use std::sync::Arc;

/// Records what is done with one store, or with one table of it.
#[derive(Debug)]
pub(crate) struct Tracer {
    session: Arc<Session>,
    store: u32,
    /// Whether this is of a part of it, as a table, with which nothing ends.
    is_part: bool,
}

/// How an operation ended, and what it moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// Bytes of the value, or of all.
    pub(crate) value_len: u64,
    pub(crate) items: u64,
}

impl Tracer {
    /// That of the store at `path`, which is of this engine, if a recording is on.
    pub(crate) fn new(engine: &str, path: &Path) -> Result<Option<Tracer>> {
        let Some(session) = switch::current()?.filter(|session| !session.is_over()) else {
            return Ok(None);
        };
        let store = session.define(engine, path, "");
        Ok(Some(Tracer { session, store, is_part: false }))
    }

    /// That of a table of the store.
    pub(crate) fn of_table(&self, engine: &str, path: &Path, table: &str) -> Tracer {
        let session = Arc::clone(&self.session);
        let store = session.define(engine, path, table);
        Tracer { session, store, is_part: true }
    }

    /// The same, for what may outlive the store: it ends nothing.
    pub(crate) fn beside(&self) -> Tracer {
        Tracer { session: Arc::clone(&self.session), store: self.store, is_part: true }
    }

    /// The time, as an operation begins.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        session::now()
    }

    /// An operation that began at `begun` has ended.
    pub(crate) fn record(&self, begun: u64, action: Action, key: Option<&[u8]>, ended: Ended) {
        let Ended { outcome, value_len, items } = ended;
        let (store, time, no_key) = (self.store, 0, KeyRef::None);
        let entry = Written { time, store, action, outcome, key: no_key, value_len, items };
        self.session.record(begun, key, entry);
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if !self.is_part {
            self.session.flush();
        }
    }
}
