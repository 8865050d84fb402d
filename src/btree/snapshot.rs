//! A commit to read, as long as one likes.

use super::core::Core;
use super::format::{Commit, Tree};
use super::kind::{self, Kind, TableOptions};
use super::multi::MultiTable;
use super::pins::{self, Pin};
use super::source::{OfStore, Source};
use super::table::Table;
use super::tree;
use crate::Result;
use crate::observe::Recorder;
use std::time::Duration;

/// A state of the store that stays as it is: whatever others write meanwhile is not seen. Reading it
/// waits for nobody, and keeps nobody waiting; but the space of what is replaced or removed meanwhile
/// cannot be used again until it is dropped, unless it has a lease ([`BTree::read_for`]).
///
/// A process that is forked may use its parent's snapshots as long as the parent has them, and no
/// longer: it should take its own.
///
/// [`BTree::read_for`]: super::BTree::read_for
#[derive(Debug)]
pub struct Snapshot<'s> {
    source: Source<'s>,
    commit: Commit,
    /// What counts operations on its tables, if that is asked for.
    recorder: Option<&'s Recorder>,
    /// What keeps the pages as they are.
    _pin: Pin<'s>,
}

impl<'s> Snapshot<'s> {
    pub(crate) fn new(core: &'s Core, recorder: Option<&'s Recorder>) -> Result<Snapshot<'s>> {
        let (pin, commit, before) = pins::pin_to_read(core)?;
        let source = Source::new(core, commit.end).with(before);
        Ok(Snapshot { source, commit, recorder, _pin: pin })
    }

    /// One that can be taken away when its lease is over.
    pub(crate) fn leased(
        core: &'s Core,
        recorder: Option<&'s Recorder>,
        lease: Duration,
    ) -> Result<Snapshot<'s>> {
        let mut snapshot = Snapshot::new(core, recorder)?;
        if let Some(claim) = pins::lease(&snapshot._pin, lease) {
            snapshot.source = snapshot.source.to_leased(claim);
        }
        Ok(snapshot)
    }

    /// Has the lease of a snapshot ([`BTree::read_for`]) end so long from now, which may make it longer or shorter: also
    /// when it is over already, as long as nobody needed the space. It can be called while
    /// others read the snapshot, and within a scan of it. A snapshot without a lease stays as it is.
    ///
    /// ```
    /// use credenza::btree::BTree;
    /// use std::time::{Duration, Instant};
    /// let store = BTree::in_memory()?;
    /// store.insert(b"key", b"value")?;
    /// let minute = Duration::from_secs(60);
    /// let (snapshot, mut begin) = (store.read_for(minute)?, Instant::now());
    /// snapshot.main().scan(|key, value| {
    ///     // As long as this goes on the space is kept, and hardly longer.
    ///     if begin.elapsed() > minute / 2 {
    ///         snapshot.renew(minute)?;
    ///         begin = Instant::now();
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// It expired ([`ErrorKind::Expired`]), or was the parent's of a process that was forked: then it
    /// cannot be read any more.
    ///
    /// [`BTree::read_for`]: super::BTree::read_for
    /// [`ErrorKind::Expired`]: crate::ErrorKind::Expired
    pub fn renew(&self, lease: Duration) -> Result<()> {
        self.source.renew(lease)
    }

    /// Lets go of the memory that a snapshot with a lease ([`BTree::read_for`]) took for what was read
    /// of it; it can be read on. One without a lease takes none.
    ///
    /// [`BTree::read_for`]: super::BTree::read_for
    pub fn release_memory(&mut self) {
        if let Some(source) = self.source.afresh() {
            self.source = source;
        }
    }

    /// Compares every page that is read from now on with its checksum, if it has one: damage is an error then, and never a wrong
    /// answer. For whoever reads all of it to make something new; [`OpenOptions::check_reads`] is the same for all that is
    /// read.
    ///
    /// # Errors
    /// The table of pages is damaged; or this thread has a transaction, and nobody has written since a power failure.
    ///
    /// [`OpenOptions::check_reads`]: super::OpenOptions::check_reads
    pub fn check_reads(&mut self) -> Result<()> {
        self.source = self.source.checked().of(&self.source)?;
        Ok(())
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
        Table::new(&self.source, self.commit.main, "").counted_by(self.recorder)
    }

    /// The table of this name, whose keys have one value each; `None` if there is none.
    ///
    /// # Errors
    /// Its keys may have several values: then it is a [`Snapshot::multi_table`]; or the store is
    /// damaged where it was read.
    pub fn table(&self, name: &str) -> Result<Option<Table<'_>>> {
        let Some((tree, key_name)) = self.find(name)? else { return Ok(None) };
        Kind::of(&tree).and_then(|kind| kind.check_duplicates(name, false)).of(&self.source)?;
        Ok(Some(Table::new(&self.source, tree, key_name).counted_by(self.recorder_of(name))))
    }

    /// The table of this name, whose keys may have several values; `None` if there is none.
    ///
    /// # Errors
    /// Its keys have one value each: then it is a [`Snapshot::table`]; or the store is damaged where
    /// it was read.
    pub fn multi_table(&self, name: &str) -> Result<Option<MultiTable<'_>>> {
        let Some((tree, key_name)) = self.find(name)? else { return Ok(None) };
        let kind = Kind::of(&tree).of(&self.source)?;
        kind.check_duplicates(name, true).of(&self.source)?;
        let recorder = self.recorder_of(name);
        let table = Table::new(&self.source, tree, key_name).counted_by(recorder);
        Ok(Some(MultiTable::new(table, kind)))
    }

    fn recorder_of(&self, table: &str) -> Option<&'s Recorder> {
        self.recorder.map(|recorder| recorder.of_table(table))
    }

    /// What the table of this name was made for; `None` if there is none.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn table_options(&self, name: &str) -> Result<Option<TableOptions>> {
        let found = self.find(name)?;
        found.map(|(tree, key_name)| kind::options(&tree, key_name)).transpose().of(&self.source)
    }

    fn find(&self, name: &str) -> Result<Option<(Tree, &str)>> {
        let found = tree::get(&self.source, &self.commit.catalog, name.as_bytes());
        let found = found.of(&self.source)?;
        found.map(|bytes| kind::decode(name, bytes)).transpose().of(&self.source)
    }

    /// The names of all tables that have one, in order.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn tables(&self) -> Result<Vec<String>> {
        super::transaction::names(Table::new(&self.source, self.commit.catalog, ""))
    }

    pub(crate) fn commit(&self) -> &Commit {
        &self.commit
    }

    pub(crate) fn source(&self) -> &Source<'s> {
        &self.source
    }
}
