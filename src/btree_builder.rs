//! A new btree store in the making, beside its target until it is whole.

use crate::btree::{BTree, TableOptions};
use crate::btree_load::{BTreeLoad, Listener};
use crate::os::publish::{Staged, keep_mode, named_beside, replace};
use crate::{Error, Result};
use std::fs::File;
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
pub struct BTreeBuilder {
    /// Both are there until it is finished.
    store: Option<BTree>,
    load: Option<BTreeLoad>,
    /// If they were said.
    budget: Option<u64>,
    listener: Option<Listener>,
    temporary: PathBuf,
    target: PathBuf,
}

impl BTreeBuilder {
    /// Starts a store that will appear at, or replace, `path`.
    ///
    /// # Errors
    /// The folder is missing or may not be written, or `path` is no regular file.
    pub fn create(path: impl AsRef<Path>) -> Result<BTreeBuilder> {
        let path = path.as_ref();
        // Looks at the folder and at what is there, in the same words as for every other store.
        drop(Staged::create(path)?);
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (_, temporary) = named_beside(&target)?;
        // From here on the name is this builder's.
        let mut builder = Self::nothing(temporary, target);
        let store = BTree::create(&builder.temporary)?;
        builder.load = Some(BTreeLoad::begin(&store, None));
        builder.store = Some(store);
        Ok(builder)
    }

    fn nothing(temporary: PathBuf, target: PathBuf) -> BTreeBuilder {
        BTreeBuilder { store: None, load: None, budget: None, listener: None, temporary, target }
    }

    /// Calls `f` now and then, on another thread, while records of a table that had to be sorted are
    /// written: with how many are, and of how many.
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`].
    pub fn progress(&mut self, f: impl Fn(u64, u64) + Send + Sync + 'static) -> Result<()> {
        let listener = self.listener.insert(Listener(Arc::new(f))).clone();
        self.load.as_mut().ok_or_else(failed)?.tell(listener)
    }

    /// Bytes of memory for records of a table that do not come in the order of their keys and wait to be
    /// sorted; what is over goes to an unnamed file beside the store. A quarter of the machine's memory
    /// unless said.
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`].
    pub fn memory_budget(&mut self, bytes: u64) -> Result<()> {
        self.budget = Some(bytes);
        self.load.as_mut().ok_or_else(failed)?.memory_budget(bytes)
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
        let (Some(store), Some(load)) = (&self.store, self.load.take()) else {
            return Err(failed());
        };
        load.finish()?;
        let mut transaction = store.write()?;
        transaction.create_table_with(name, options)?;
        transaction.commit()?;
        let load = self.load.insert(BTreeLoad::begin(store, Some(name)));
        self.listener.clone().map_or(Ok(()), |listener| load.tell(listener))?;
        self.budget.map_or(Ok(()), |bytes| load.memory_budget(bytes))
    }

    /// In a table whose records are numbered: those that are appended later have numbers above this
    /// one, as it is the highest that was given where the records come from.
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`].
    pub fn skip_numbers(&mut self, last: u64) -> Result<()> {
        self.load.as_mut().ok_or_else(failed)?.skip_numbers(last)
    }

    /// Adds a record; the value of a key that came before is replaced, unless the table's keys may have
    /// several.
    ///
    /// # Errors
    /// This record, or one before, is over its limit; or the disk is full. Drop the builder then.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.load.as_mut().ok_or_else(failed)?.add(key, value)
    }

    /// How many of the records added so far to this table replaced one that was added before.
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`].
    pub fn replaced(&mut self) -> Result<u64> {
        self.load.as_mut().ok_or_else(failed)?.replaced()
    }

    /// Makes the store durable, puts it in its place and opens it there.
    ///
    /// # Errors
    /// As [`BTreeBuilder::add`]: what was at the path is untouched.
    pub fn finish(mut self) -> Result<BTree> {
        self.load.take().ok_or_else(failed)?.finish()?;
        if let Some(store) = self.store.take() {
            store.sync()?;
        }
        let path = &self.temporary;
        let file = File::open(path).map_err(|e| Error::io("open", e).at(path))?;
        keep_mode(&file, &self.target)?;
        file.sync_all().map_err(|e| Error::io("make durable", e).at(path))?;
        replace(path, &self.target)?;
        // From here on the name may be another's.
        self.temporary.clear();
        BTree::open(&self.target)
    }
}

#[cold]
fn failed() -> Error {
    Error::invalid("building the store failed before: begin it anew")
}

impl Drop for BTreeBuilder {
    fn drop(&mut self) {
        (self.load, self.store) = (None, None);
        if self.temporary.as_os_str().is_empty() {
            return;
        }
        let _ = std::fs::remove_file(&self.temporary);
    }
}
