//! A cursor that changes what it is at.

use super::counted;
use super::cursor::Walk;
use super::source::{OfStore, Source};
use super::table_mut::TableMut;
use crate::observe::{self, Recorder, Steps};
use crate::{Error, Result};

/// A place in a table that is being changed: at a record, before the first, behind the last, or where
/// one was that it removed.
///
/// ```
/// use credenza::btree::BTree;
/// let store = BTree::in_memory()?;
/// let mut transaction = store.write()?;
/// for key in [b"a", b"b", b"c"] {
///     transaction.main().insert(key, b"old")?;
/// }
/// let mut cursor = transaction.main().cursor();
/// while cursor.next()? {
///     if cursor.key() == Some(b"b") { cursor.remove()? } else { cursor.put(b"new")? }
/// }
/// drop(cursor);
/// assert_eq!(transaction.main().len(), 2);
/// assert_eq!(transaction.main().get(b"c")?, Some(&b"new"[..]));
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
pub struct CursorMut<'t, 'c> {
    pub(super) table: TableMut<'t, 'c>,
    walk: Walk<'t, Source<'c>>,
    /// A record was removed, and the walk is at the one behind.
    is_between: bool,
    /// The key that was changed last, and how the cursor went since.
    changed: Vec<u8>,
    way: Way,
    /// What records its steps, if that is asked for.
    steps: Option<Box<Steps>>,
}

/// Where a cursor went since it changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Nowhere.
    Stay,
    Forward,
    Back,
    /// Elsewhere.
    Other,
}

impl<'t, 'c> CursorMut<'t, 'c> {
    pub(crate) fn new(table: TableMut<'t, 'c>) -> CursorMut<'t, 'c> {
        let walk = Walk::new(table.source, *table.tree);
        let steps = table.recorder.and_then(Recorder::steps);
        CursorMut { table, walk, is_between: false, changed: Vec::new(), way: Way::Other, steps }
    }

    /// The key here; `None` if it is at no record.
    pub fn key(&self) -> Option<&[u8]> {
        if self.is_between { None } else { self.walk.key() }
    }

    /// The value here; `None` if it is at no record.
    ///
    /// # Errors
    /// The store is damaged where it was read; so for all methods.
    pub fn value(&self) -> Result<Option<&[u8]>> {
        if self.is_between { Ok(None) } else { self.walk.value().of(self.table.source.core()) }
    }

    /// Goes to the first record; whether there is one.
    ///
    /// # Errors
    /// As [`CursorMut::value`].
    pub fn first(&mut self) -> Result<bool> {
        self.go(None, |walk| walk.first())
    }

    /// Goes to the last record; whether there is one.
    ///
    /// # Errors
    /// As [`CursorMut::value`].
    pub fn last(&mut self) -> Result<bool> {
        self.go(None, |walk| walk.last())
    }

    /// Goes to the first record whose key is not below `key`; if there is none, behind the last.
    /// Whether there is one.
    ///
    /// # Errors
    /// As [`CursorMut::value`].
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Some(key), |walk| walk.seek(key))
    }

    /// The same; whether its key is `key`.
    ///
    /// # Errors
    /// As [`CursorMut::value`].
    pub fn find(&mut self, key: &[u8]) -> Result<bool> {
        self.go(Some(key), |walk| walk.find(key))
    }

    /// Goes to the next record; whether there is one. From before the first, to the first.
    ///
    /// # Errors
    /// As [`CursorMut::value`].
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        self.step(Way::Forward);
        let step = match std::mem::take(&mut self.is_between) {
            true => Ok(self.walk.key().is_some()),
            false => self.walk.next().of(self.table.source.core()),
        };
        counted::stepped(&mut self.steps, observe::Way::Forward, step, self.walk.key())
    }

    /// Goes to the record before; whether there is one. From behind the last, to the last.
    ///
    /// # Errors
    /// As [`CursorMut::value`].
    #[inline]
    pub fn previous(&mut self) -> Result<bool> {
        self.step(Way::Back);
        self.is_between = false;
        let step = self.walk.previous().of(self.table.source.core());
        counted::stepped(&mut self.steps, observe::Way::Back, step, self.walk.key())
    }

    /// The key of the record that was here, where one was removed.
    pub(super) fn removed(&self) -> Option<&[u8]> {
        self.is_between.then_some(&self.changed[..])
    }

    /// Makes a step if it leads to a record whose key is such a one; whether it did.
    pub(super) fn step_if(
        &mut self,
        way: observe::Way,
        is_such: impl FnOnce(&[u8]) -> bool,
    ) -> Result<bool> {
        let was = (self.is_between, self.way);
        match way {
            observe::Way::Forward => self.next()?,
            observe::Way::Back => self.previous()?,
        };
        if self.walk.key().is_some_and(is_such) {
            return Ok(true);
        }
        // Back to where it was, which is at the record behind where one was removed.
        match way {
            observe::Way::Forward if was.0 => false,
            observe::Way::Forward => self.previous()?,
            observe::Way::Back => self.next()?,
        };
        (self.is_between, self.way) = was;
        Ok(false)
    }

    /// Goes to the first record whose key is not below `key`, which is on its way so.
    pub(super) fn seek_on(&mut self, way: observe::Way, key: &[u8]) -> Result<bool> {
        let was = self.way;
        let is_there = self.seek(key)?;
        self.way = was;
        self.step(match way {
            observe::Way::Forward => Way::Forward,
            observe::Way::Back => Way::Back,
        });
        Ok(is_there)
    }

    /// Goes elsewhere; whether there is a record.
    fn go(
        &mut self,
        key: Option<&[u8]>,
        go: impl FnOnce(&mut Walk<'t, Source<'c>>) -> Result<bool>,
    ) -> Result<bool> {
        (self.is_between, self.way) = (false, Way::Other);
        self.end_steps();
        let (walk, core) = (&mut self.walk, self.table.source.core());
        counted::seek(self.table.recorder, key, || go(walk).of(core))
    }

    /// What the steps so far came to is recorded before what comes now.
    fn end_steps(&mut self) {
        self.steps.iter_mut().for_each(|steps| steps.end());
    }

    fn step(&mut self, way: Way) {
        let is_same = self.way == Way::Stay || self.way == way;
        self.way = if is_same { way } else { Way::Other };
    }

    /// Gives the key here another value.
    ///
    /// # Errors
    /// It is at no record, or as [`TableMut::insert`].
    pub fn put(&mut self, value: &[u8]) -> Result<()> {
        let key = self.here()?;
        self.end_steps();
        self.table.insert(&key, value)?;
        self.came_to(key)
    }

    /// Goes to the record that was put under this key.
    pub(super) fn came_to(&mut self, key: Vec<u8>) -> Result<()> {
        self.walk_to(&key)?;
        let is_here = self.walk.key() == Some(&key[..]);
        self.changed = key;
        if is_here { Ok(()) } else { Err(self.lost()) }
    }

    /// Takes the record here out; [`CursorMut::next`] goes to the one behind it then, and
    /// [`CursorMut::previous`] to the one before.
    ///
    /// # Errors
    /// As [`CursorMut::put`].
    pub fn remove(&mut self) -> Result<()> {
        let key = self.here()?;
        self.end_steps();
        let was_there = self.table.remove(&key)?;
        self.walk_to(&key)?;
        self.is_between = true;
        let is_behind = self.walk.key().is_none_or(|next| next > &key[..]);
        self.changed = key;
        if was_there && is_behind { Ok(()) } else { Err(self.lost()) }
    }

    /// The key here, to be changed. As after a change it is looked for anew, whoever goes from one to
    /// the next might come to no end where keys are not in order: so they must be.
    pub(super) fn here(&mut self) -> Result<Vec<u8>> {
        let Some(key) = self.key() else {
            let error = Error::invalid("the cursor is at no record");
            return Err(self.table.source.core().named(error));
        };
        let is_in_order = match self.way {
            Way::Forward => key > &self.changed[..],
            Way::Back => key < &self.changed[..],
            Way::Stay | Way::Other => true,
        };
        if is_in_order { Ok(key.to_vec()) } else { Err(self.lost()) }
    }

    /// Finds a key again: where the pages are that lead to it may be others after a change.
    fn walk_to(&mut self, key: &[u8]) -> Result<()> {
        self.walk = Walk::new(self.table.source, *self.table.tree);
        self.way = Way::Stay;
        self.walk.seek(key).map(drop).of(self.table.source.core())
    }

    #[cold]
    fn lost(&self) -> Error {
        let error = Error::corrupt(0, "keys that are not in order");
        self.table.source.core().named(error)
    }
}
