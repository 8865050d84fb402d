//! A new btree store in the making, beside its target until it is whole.

use crate::btree::{BTree, TableOptions};
use crate::btree_load::{BTreeLoad, Listener};
use crate::observe::Building;
use crate::open::OpenOptions;
use crate::os::publish::Named;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A new btree store in the making: it appears at its path whole, or not at all. Dropped before
/// [`BTreeBuilder::finish`], it leaves nothing.
///
/// Records may come in any order: in that of their keys they are written as they come, else they are
/// sorted first ([`BTreeBuilder::memory_budget`]). Either way pages are full, and in order.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("users.btree");
/// let mut builder = credenza::BTreeBuilder::create(&path)?;
/// builder.add(b"bob", b"1001")?;
/// builder.begin_table("groups")?;
/// builder.add(b"staff", b"50")?;
/// assert!(!path.exists());
/// let users = builder.finish()?;
/// assert_eq!(users.read()?.tables()?, ["groups"]);
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing appears unless it is finished"]
pub struct BTreeBuilder {
    /// There until it is finished, or has failed.
    load: Option<BTreeLoad>,
    store: BTree,
    /// If they were said.
    budget: Option<u64>,
    listener: Option<Listener>,
    /// What records what is added, if that is asked for.
    recording: Option<Box<Building>>,
    /// Dropped last: when nobody has the store open.
    place: Named,
}

impl BTreeBuilder {
    /// Starts a store that will appear at, or replace, `path`.
    ///
    /// # Errors
    /// The folder is missing or may not be written; `path` is no regular file, or a hash or btree store that somebody has
    /// open to write, as [`is_open`](crate::is_open) says; or the recording that the environment asks for
    /// ([`record`](crate::record)) cannot be begun.
    pub fn create(path: impl AsRef<Path>) -> Result<BTreeBuilder> {
        let place = Named::create(path.as_ref(), None)?;
        let store = BTree::options().create(true).unrecorded().open(place.path());
        let store = store.map_err(|e| place.named(e))?;
        let recording = Building::begin("btree", path.as_ref())?;
        let load = Some(BTreeLoad::begin_beside(&store, None, Some(place.place())));
        Ok(BTreeBuilder { load, store, budget: None, listener: None, recording, place })
    }

    /// Calls `f` now and then, on another thread, while records of a table that had to be sorted are
    /// written: with how many are, and of how many.
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`].
    pub fn progress(&mut self, f: impl Fn(u64, u64) + Send + Sync + 'static) -> Result<()> {
        let listener = self.listener.insert(Listener(Arc::new(f))).clone();
        self.with_load(|load| load.tell(listener))
    }

    /// Bytes of memory for records of a table that do not come in the order of their keys and wait to be
    /// sorted; what is over goes to an unnamed file beside the store. A quarter of the machine's memory,
    /// or of what the process or its control group may have, unless said.
    /// Said before records are added: what has begun to be sorted goes on with what it had.
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`].
    pub fn memory_budget(&mut self, bytes: u64) -> Result<()> {
        self.budget = Some(bytes);
        self.with_load(|load| load.memory_budget(bytes))
    }

    /// What is added from here on goes into a table of this name, which is made if it is not there.
    ///
    /// # Errors
    /// The name is empty or too long, or as [`BTreeBuilder::add`].
    pub fn begin_table(&mut self, name: &str) -> Result<()> {
        self.begin_table_with(name, &TableOptions::new())
    }

    /// The same for a table of any kind.
    ///
    /// # Errors
    /// As [`BTreeBuilder::begin_table`]; or there can be no such table, or there is one of another
    /// kind.
    pub fn begin_table_with(&mut self, name: &str, options: &TableOptions) -> Result<()> {
        self.finish_load()?;
        let made = self.store.write().and_then(|mut transaction| {
            transaction.create_table_with(name, options)?;
            transaction.commit()
        });
        made.map_err(|e| self.place.named(e))?;
        self.begin_load(Some(name))
    }

    /// Writes what was added since the last table was begun.
    fn finish_load(&mut self) -> Result<()> {
        let load = self.load.take().ok_or_else(failed)?;
        load.finish().map_err(|e| self.place.named(e))
    }

    /// What is added from here on goes into the table without a name again, as at first.
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`].
    pub fn begin_main(&mut self) -> Result<()> {
        self.finish_load()?;
        self.begin_load(None)
    }

    fn begin_load(&mut self, table: Option<&str>) -> Result<()> {
        if let Some(recording) = &mut self.recording {
            recording.table(table.unwrap_or_default());
        }
        self.load = Some(BTreeLoad::begin_beside(&self.store, table, Some(self.place.place())));
        let (listener, budget) = (self.listener.clone(), self.budget);
        listener.map_or(Ok(()), |listener| self.with_load(|load| load.tell(listener)))?;
        budget.map_or(Ok(()), |bytes| self.with_load(|load| load.memory_budget(bytes)))
    }

    /// In a table whose records are numbered: those that are appended later have numbers above this
    /// one, as it is the highest that was given where the records come from.
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`]; that records are not numbered, or cannot have this number, is one of what
    /// ends the table.
    pub fn skip_numbers(&mut self, last: u64) -> Result<()> {
        self.with_load(|load| load.skip_numbers(last))
    }

    /// Adds a record; the value of a key that came before is replaced, unless the table's keys may have
    /// several.
    ///
    /// # Errors
    /// This record, or one before, is over its limit; or the disk is full. Drop the builder then.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.with_load(|load| load.add(key, value))?;
        if let Some(recording) = &mut self.recording {
            recording.added(key, value);
        }
        Ok(())
    }

    /// How many of the records added so far to this table replaced one that was added before.
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`].
    pub fn replaced(&mut self) -> Result<u64> {
        self.with_load(BTreeLoad::replaced)
    }

    /// What the load says of this, with the store called as it will be.
    #[inline]
    fn with_load<T>(&mut self, f: impl FnOnce(&mut BTreeLoad) -> Result<T>) -> Result<T> {
        let load = self.load.as_mut().ok_or_else(failed)?;
        f(load).map_err(|e| self.place.named(e))
    }

    /// Makes the store durable, puts it in its place and opens it there: for reading only where the mode that
    /// it took over from the file that it replaced does not allow more, or others took the room that writing needs
    /// ([`btree::OpenOptions::open`](crate::btree::OpenOptions::open)).
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`], or what is at the path was opened to write meanwhile: it is untouched.
    pub fn finish(self) -> Result<BTree> {
        OpenOptions::new().btree(&self.published(Named::publish)?)
    }

    /// The same where nothing is to be replaced: a store that somebody else makes there at the same moment stays.
    ///
    /// # Errors
    /// There is something at the path; or as [`BTreeBuilder::finish`].
    pub fn finish_new(self) -> Result<BTree> {
        OpenOptions::new().btree(&self.published(Named::publish_new)?)
    }

    /// Makes the store durable and puts it in its place; where that is.
    fn published(mut self, publish: fn(Named) -> Result<PathBuf>) -> Result<PathBuf> {
        self.finish_load()?;
        // The other way round these are dropped.
        let BTreeBuilder { place, store, mut recording, .. } = self;
        store.sync_and_cut().map_err(|e| place.named(e))?;
        drop(store);
        Building::publishing(&mut recording, || publish(place))
    }
}

fn failed() -> Error {
    Error::failed_before("building the store")
}
