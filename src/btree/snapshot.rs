//! A commit to read, as long as one likes.

use super::core::Core;
use super::format::{Commit, Tree};
use super::pins::{self, Pin};
use super::source::Source;
use super::table::Table;
use super::tree;
use crate::Result;

/// A state of the store that stays as it is: whatever others write meanwhile is not seen. Reading it
/// waits for nobody, and keeps nobody waiting; but the space of what is replaced or removed meanwhile
/// cannot be used again until it is dropped.
///
/// A process that is forked may use its parent's snapshots as long as the parent has them, and no
/// longer: it should take its own.
#[derive(Debug)]
pub struct Snapshot<'s> {
    source: Source<'s>,
    commit: Commit,
    /// What keeps the pages as they are.
    _pin: Pin<'s>,
}

impl<'s> Snapshot<'s> {
    pub(crate) fn new(core: &'s Core) -> Result<Snapshot<'s>> {
        let (pin, commit) = pins::pin(core)?;
        Ok(Snapshot { source: Source::new(&core.map, commit.end), commit, _pin: pin })
    }

    /// Notes since when it is held, for those who look at who holds what.
    pub(crate) fn note_time(&self) {
        pins::note_time(&self._pin);
    }

    /// The number of this state: each commit has a higher one than those before.
    pub fn number(&self) -> u64 {
        self.commit.number
    }

    /// The table without a name, which every store has.
    pub fn main(&self) -> Table<'_> {
        Table::new(&self.source, self.commit.main)
    }

    /// The table of this name; `None` if there is none.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn table(&self, name: &str) -> Result<Option<Table<'_>>> {
        let found = tree::get(&self.source, &self.commit.catalog, name.as_bytes())?;
        let Some(bytes) = found else { return Ok(None) };
        let tree = Tree::decode(bytes).ok_or_else(|| super::transaction::bad_table(name))?;
        Ok(Some(Table::new(&self.source, tree)))
    }

    /// The names of all tables that have one, in order.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn tables(&self) -> Result<Vec<String>> {
        super::transaction::names(Table::new(&self.source, self.commit.catalog))
    }

    pub(crate) fn commit(&self) -> &Commit {
        &self.commit
    }

    pub(crate) fn source(&self) -> &Source<'s> {
        &self.source
    }
}
