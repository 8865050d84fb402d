//! Changes that are committed together, or not at all.

use super::core::Core;
use super::counted::Abort;
use super::edit::Old;
use super::format::{MAX_NAME, Tree};
use super::handle::BTree;
use super::key::KeyType;
use super::kind::{self, Kind, TableOptions};
use super::multi::MultiTable;
use super::multi_mut::MultiTableMut;
use super::opened::{Open, Opened};
use super::source::{OfStore, Source};
use super::table::Table;
use super::table_mut::TableMut;
use super::tree;
use super::undo::Change;
use super::writer::Writer;
use crate::observe::{Recorder, emptied};
use crate::os::atomic::{AtomicU64, Ordering};
use crate::stats::Moved;
use crate::{Error, Result};

/// A transaction: what it changes is seen by itself alone until it is committed, and is gone if it
/// is dropped instead. There is one at a time in all processes; others wait for it when they begin
/// theirs. It is its process's alone: a child that is forked meanwhile can neither change,
/// commit nor undo it, and what it reads in it may be half changed.
///
/// ```
/// # use credenza::btree::BTree;
/// let store = BTree::in_memory()?;
/// let mut transaction = store.write()?;
/// transaction.main().insert(b"key", b"value")?;
/// transaction.create_table("users")?.insert(b"bob", b"1001")?;
/// transaction.commit()?;
/// assert_eq!(store.read()?.main().get(b"key")?, Some(&b"value"[..]));
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is changed unless it is committed"]
pub struct Transaction<'s> {
    pub(super) store: &'s BTree,
    source: Source<'s>,
    pub(super) writer: Writer<'s>,
    main: Tree,
    catalog: Tree,
    /// There from when a table is looked up by its name, or a savepoint is made: most transactions need none.
    open: Option<Box<Opened>>,
    savepoints: Vec<Saved>,
    /// What counts operations, if that is asked for, until it is committed.
    pub(super) recorder: Option<&'s Recorder>,
    /// The last to be dropped, when the lock is free again.
    abort: Option<Box<Abort<'s>>>,
}

/// What to go back to.
#[derive(Debug)]
struct Saved {
    id: u64,
    stamp: u64,
    progress: (usize, usize),
    is_broken: bool,
    moved: Moved,
    main: Tree,
    catalog: Tree,
}

/// A moment in a transaction that can be gone back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u64);

impl<'s> Transaction<'s> {
    pub(crate) fn new(store: &'s BTree, recorder: Option<&'s Recorder>) -> Result<Transaction<'s>> {
        let core = store.core();
        let mut writer = Writer::begin_change(core)?;
        if let Some(recorder) = recorder {
            recorder.begin_transaction();
            writer.scratch.moved = Moved::default();
        }
        core.count_transactions(1);
        let (main, catalog) = (writer.base.main, writer.base.catalog);
        let source = Source::new(core, u64::MAX);
        let (open, savepoints, abort) = (None, Vec::new(), None);
        Ok(Transaction { store, source, writer, main, catalog, open, savepoints, recorder, abort })
    }

    fn core(&self) -> &'s Core {
        self.store.core()
    }

    /// The table without a name, which every store has.
    #[inline]
    pub fn main(&mut self) -> TableMut<'_, 's> {
        let (tree, recorder) = (&mut self.main, self.recorder);
        TableMut { writer: &mut self.writer, source: &self.source, tree, key_name: "", recorder }
    }

    /// The table of this name, whose keys have one value each; `None` if there is none.
    ///
    /// # Errors
    /// Its keys may have several values: then it is a [`Transaction::multi_table`]; or the store is
    /// damaged where it was read.
    pub fn table(&mut self, name: &str) -> Result<Option<TableMut<'_, 's>>> {
        let Some(i) = self.find(name)? else { return Ok(None) };
        let kind = Kind::of(&self.open().get(i).tree);
        kind.and_then(|kind| kind.check_duplicates(name, false)).of(self.core())?;
        Ok(Some(self.opened(i)))
    }

    /// The table of this name, whose keys may have several values; `None` if there is none.
    ///
    /// # Errors
    /// Its keys have one value each: then it is a [`Transaction::table`]; or the store is damaged where
    /// it was read.
    pub fn multi_table(&mut self, name: &str) -> Result<Option<MultiTableMut<'_, 's>>> {
        let Some(i) = self.find(name)? else { return Ok(None) };
        let kind = Kind::of(&self.open().get(i).tree).of(self.core())?;
        kind.check_duplicates(name, true).of(self.core())?;
        Ok(Some(MultiTableMut::new(self.opened(i), kind)))
    }

    /// The table without a name, as it is now, to read in it and in others at the same time.
    pub fn read_main(&self) -> Table<'_> {
        Table::new(&self.source, self.main, "").counted_by(self.recorder)
    }

    /// The table of this name, as it is now, to read in it and in others at the same time; `None` if there is none.
    ///
    /// ```
    /// # use credenza::btree::BTree;
    /// # let store = BTree::in_memory()?;
    /// let mut transaction = store.write()?;
    /// transaction.create_table("prices")?.insert(b"tea", b"3")?;
    /// transaction.create_table("orders")?.insert(b"1", b"tea")?;
    /// let prices = transaction.read_table("prices")?.expect("it was just made");
    /// let orders = transaction.read_table("orders")?.expect("it was just made");
    /// for order in orders.iter() {
    ///     let (_, what) = order?;
    ///     assert_eq!(prices.get(&what)?, Some(&b"3"[..]));
    /// }
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::table`].
    pub fn read_table(&self, name: &str) -> Result<Option<Table<'_>>> {
        let Some((table, kind)) = self.found(name)? else { return Ok(None) };
        kind.check_duplicates(name, false).of(self.core())?;
        Ok(Some(table))
    }

    /// The table of this name, whose keys may have several values, as it is now, to read in it and in others at the same time;
    /// `None` if there is none.
    ///
    /// # Errors
    /// As [`Transaction::multi_table`].
    pub fn read_multi_table(&self, name: &str) -> Result<Option<MultiTable<'_>>> {
        let Some((table, kind)) = self.found(name)? else { return Ok(None) };
        kind.check_duplicates(name, true).of(self.core())?;
        Ok(Some(MultiTable::new(table, kind)))
    }

    /// A table as this transaction left it, looked up before or not.
    fn found(&self, name: &str) -> Result<Option<(Table<'_>, Kind)>> {
        let opened = self.open.as_ref().and_then(|open| Some(open.get(open.find(name)?)));
        let (tree, key_name) = match opened {
            Some(Open { tree, key_name, .. }) => (*tree, &**key_name),
            None => match self.in_catalog(name)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let recorder = self.recorder.map(|recorder| recorder.of_table(name));
        let table = Table::new(&self.source, tree, key_name).counted_by(recorder);
        Ok(Some((table, Kind::of(&tree)?)))
    }

    fn open(&mut self) -> &mut Opened {
        self.open.get_or_insert_default()
    }

    fn opened(&mut self, i: usize) -> TableMut<'_, 's> {
        let Open { name, tree, key_name, .. } = self.open.get_or_insert_default().change(i);
        let name = name.as_deref().unwrap_or_default();
        let recorder = self.recorder.map(|recorder| recorder.of_table(name));
        TableMut { writer: &mut self.writer, source: &self.source, tree, key_name, recorder }
    }

    /// What the table of this name was made for; `None` if there is none.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn table_options(&mut self, name: &str) -> Result<Option<TableOptions>> {
        let Some(i) = self.find(name)? else { return Ok(None) };
        let Open { tree, key_name, .. } = self.open().get(i);
        kind::options(tree, key_name).map(Some)
    }

    /// What the catalog says of a table: its tree, and the name of its type of keys.
    fn in_catalog(&self, name: &str) -> Result<Option<(Tree, &str)>> {
        let core = self.source.core();
        let found = tree::get(&self.source, &self.catalog, name.as_bytes()).of(core)?;
        found.map(|bytes| kind::decode(name, bytes)).transpose().of(core)
    }

    /// The number of a table among those that were looked up.
    fn find(&mut self, name: &str) -> Result<Option<usize>> {
        if let Some(i) = self.open.as_ref().and_then(|open| open.find(name)) {
            return Ok(Some(i));
        }
        let Some((tree, key_name)) = self.in_catalog(name)? else { return Ok(None) };
        let opened = Open::new(name, key_name, tree);
        Ok(Some(self.open().add(opened)))
    }

    /// Makes a table of this name for keys that are bytes, each with one value, unless there is one of
    /// this name.
    ///
    /// # Errors
    /// The name is empty or over its limit, or there is a table of another kind; or as
    /// [`TableMut::insert`].
    pub fn create_table(&mut self, name: &str) -> Result<TableMut<'_, 's>> {
        let (i, _) = self.made(name, &TableOptions::new())?;
        Ok(self.opened(i))
    }

    /// Makes a table of this name, unless there is one like it; whether it did.
    ///
    /// # Errors
    /// As [`Transaction::create_table`]; or there can be no such table.
    pub fn create_table_with(&mut self, name: &str, options: &TableOptions) -> Result<bool> {
        self.made(name, options).map(|(_, is_new)| is_new)
    }

    /// The number of the table of this name, which is made unless there is one; whether it was.
    fn made(&mut self, name: &str, options: &TableOptions) -> Result<(usize, bool)> {
        check_name(name).and_then(|()| options.check()).of(self.core())?;
        if let Some(i) = self.find(name)? {
            let Open { tree, key_name, .. } = self.open().get(i);
            if kind::options(tree, key_name)? == *options {
                return Ok((i, false));
            }
            let other = format!("there is a table {name:?} of another kind already");
            return Err(Error::invalid(other)).of(self.core());
        }
        let tree = Tree { kind: options.kind().word(), ..Tree::default() };
        let key_name = match options.keys() {
            KeyType::Other(name) => name,
            _ => "",
        };
        self.enter(name, &tree, key_name)?;
        Ok((self.open().add(Open::new(name, key_name, tree)), true))
    }

    fn enter(&mut self, name: &str, tree: &Tree, key_name: &str) -> Result<()> {
        let bytes = kind::encode(tree, key_name);
        let done = self.writer.insert(&mut self.catalog, name.as_bytes(), &bytes, Old::Replace);
        done.map(drop).of(self.source.core())
    }

    /// Gives a table another name; whether there is one of the old name.
    ///
    /// # Errors
    /// There is a table of the new name, which is left as it is; or as
    /// [`Transaction::create_table`].
    pub fn rename_table(&mut self, from: &str, to: &str) -> Result<bool> {
        check_name(to).of(self.core())?;
        let Some(i) = self.find(from)? else { return Ok(false) };
        if from == to {
            return Ok(true);
        }
        if self.find(to)?.is_some() {
            return Err(Error::invalid(format!("there is a table {to:?} already"))).of(self.core());
        }
        // That the new name has them no entry of a trace can say.
        let recorder = self.recorder.map(|recorder| recorder.of_table(from));
        emptied(recorder, || {
            let Open { tree, key_name, .. } = self.open().get(i).clone();
            let core = self.source.core();
            self.writer.remove(&mut self.catalog, from.as_bytes()).of(core)?;
            self.enter(to, &tree, &key_name)?;
            self.open().rename(i, Some(to));
            self.open().change(i).known = tree;
            Ok(true)
        })
    }

    /// Takes a table away with all that is in it; whether there was one.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn delete_table(&mut self, name: &str) -> Result<bool> {
        let Some(i) = self.find(name)? else { return Ok(false) };
        let mut tree = self.open().get(i).tree;
        self.open().rename(i, None);
        let catalog = &mut self.catalog;
        emptied(self.recorder.map(|recorder| recorder.of_table(name)), || {
            let deleted = self.writer.whole(|writer| {
                writer.clear(&mut tree)?;
                writer.remove(catalog, name.as_bytes())
            });
            deleted.of(self.source.core())
        })
    }

    /// The names of all tables that have one, in order.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn tables(&self) -> Result<Vec<String>> {
        names(Table::new(&self.source, self.catalog, ""))
    }

    /// Notes this moment, to go back to it with [`Transaction::rollback_to`]. There can be many, one
    /// within the other.
    pub fn savepoint(&mut self) -> Savepoint {
        // Of no other transaction either.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let space = &mut self.writer.scratch.space;
        space.hold(self.writer.stamp);
        self.savepoints.push(Saved {
            id,
            stamp: self.writer.stamp,
            progress: space.progress(),
            is_broken: self.writer.is_broken,
            moved: self.writer.scratch.moved,
            main: self.main,
            catalog: self.catalog,
        });
        self.open().hold();
        self.writer.begin_stamp();
        Savepoint(id)
    }

    /// The number of a savepoint among those that there are.
    fn number_of(&self, savepoint: Savepoint) -> Result<usize> {
        let found = self.savepoints.binary_search_by_key(&savepoint.0, |saved| saved.id);
        found.map_err(|_| self.store.named(no_savepoint()))
    }

    /// Undoes everything since that moment; later savepoints are gone, this one stays.
    ///
    /// # Errors
    /// The savepoint is none of this transaction, or not any more; or the store is damaged.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.writer.check_process()?;
        let i = self.number_of(savepoint)?;
        for later in self.savepoints.drain(i + 1..).rev() {
            self.writer.scratch.space.release(later.stamp);
        }
        let saved = &self.savepoints[i];
        (self.main, self.catalog) = (saved.main, saved.catalog);
        self.open.get_or_insert_default().go_back(i);
        let (taken, freed) = saved.progress;
        self.writer.is_broken = true;
        self.writer.scratch.space.take_back_to(self.store.core(), taken, freed)?;
        self.writer.forget_places();
        // Whatever failed half-way since is undone.
        (self.writer.is_broken, self.writer.scratch.moved) = (saved.is_broken, saved.moved);
        Ok(())
    }

    /// Forgets a savepoint, and those after it: what was changed since then stays.
    ///
    /// # Errors
    /// The savepoint is none of this transaction, or not any more.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        let i = self.number_of(savepoint)?;
        self.open().release(i);
        let (_, freed) = self.savepoints[i].progress;
        let space = &mut self.writer.scratch.space;
        for gone in self.savepoints.drain(i..).rev() {
            space.release(gone.stamp);
        }
        space.hint_freed(self.store.core(), freed);
        Ok(())
    }

    /// Makes the changes the store's newest state. When this returns they are safe against the death
    /// of the process; and against the loss of power as the store's [`Durability`] says. Where there are none it does
    /// nothing: the store stays as it is, nobody is woken who waits for a change, and nobody waits for the disk.
    ///
    /// # Errors
    /// An earlier change failed half-way, or the disk is full, or the store is damaged: nothing was
    /// changed. Or waiting for the disk failed: the changes are there, but may not be durable.
    ///
    /// [`Durability`]: crate::Durability
    pub fn commit(mut self) -> Result<()> {
        // What fails is a commit, and is not counted as an abort.
        if let Some(recorder) = self.recorder.take() {
            return self.commit_counted(recorder);
        }
        if !self.commit_unsynced().map_err(|e| self.store.named(e))? {
            return Ok(());
        }
        let (store, stamp) = (self.store, self.writer.stamp);
        drop(self);
        store.after_commit(stamp)
    }

    /// Makes one change of one record of the main table, and commits that; whether the key was there. Nothing may have been
    /// done in the transaction before.
    pub(super) fn change_and_commit(self, change: Change<'_>) -> Result<bool> {
        let store = self.store;
        let (done, stamp) = match self.change_once(change) {
            // Nothing was committed. Who begins then has what only waits for the disk be free.
            Err(error) if error.is_no_room() => store.write_uncounted()?.change_once(change)?,
            done => done?,
        };
        if done || matches!(change, Change::Put(..)) {
            store.after_commit(stamp)?;
        }
        Ok(done)
    }

    /// The same without waiting for the disk; and its stamp.
    fn change_once(mut self, change: Change<'_>) -> Result<(bool, u64)> {
        let done = self.writer.change_and_commit(change).map_err(|e| self.store.named(e))?;
        Ok((done, self.writer.stamp))
    }

    /// The same without waiting for the disk; whether there was anything to commit.
    pub(crate) fn commit_unsynced(&mut self) -> Result<bool> {
        self.writer.check_process()?;
        for i in self.open.as_ref().map_or_else(Vec::new, |open| open.changed()) {
            let Open { name, key_name, tree, .. } = self.open().get(i).clone();
            self.enter(name.as_deref().unwrap_or_default(), &tree, &key_name)?;
        }
        let has_changed = self.writer.has_changed(&self.main, &self.catalog);
        if has_changed {
            self.writer.commit(self.main, self.catalog)?;
        }
        Ok(has_changed)
    }

    /// Nothing of it is committed any more: what should be undone cannot be.
    pub(super) fn forbid_commit(&mut self) {
        self.writer.is_broken = true;
    }

    /// Undoes everything, as dropping it does.
    pub fn abort(self) {}
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.core().count_transactions(-1);
        // In a fork it is its parent's, which undoes it, or does not.
        let is_own = self.writer.check_process().is_ok();
        self.abort = self.recorder.filter(|_| is_own).map(Abort::begin);
    }
}

/// The names in a catalog.
pub(crate) fn names(catalog: Table<'_>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    catalog.scan(|name, _| {
        names.push(utf8(name).map_err(|e| catalog.named(e))?.to_owned());
        Ok(())
    })?;
    Ok(names)
}

/// A name in a catalog.
pub(crate) fn utf8(name: &[u8]) -> Result<&str> {
    str::from_utf8(name).map_err(|_| {
        let name = name.escape_ascii();
        Error::corrupt(0, format!("the name \"{name}\" of a table, which is not UTF-8"))
    })
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid("a table's name cannot be empty"));
    }
    if name.len() > MAX_NAME {
        let (size, limit) = (name.len() as u64, MAX_NAME as u64);
        return Err(Error::new(crate::ErrorKind::TooLarge { what: "table name", size, limit }));
    }
    Ok(())
}

#[cold]
fn no_savepoint() -> Error {
    Error::invalid("this savepoint is none of the transaction's, or was given up")
}
