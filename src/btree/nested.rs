//! Transactions within a transaction.

use super::transaction::{Savepoint, Transaction};
use crate::Result;
use std::ops::{Deref, DerefMut};

/// A transaction within another: it does all that a [`Transaction`] does, and what it changed stays
/// part of the outer one when it is committed, or is undone when it is dropped. There can be more
/// within it.
///
/// ```
/// use credenza::btree::BTree;
/// let store = BTree::in_memory()?;
/// let mut outer = store.write()?;
/// outer.main().insert(b"a", b"kept")?;
/// let mut inner = outer.nested();
/// inner.main().insert(b"b", b"not kept")?;
/// drop(inner);
/// let mut inner = outer.nested();
/// inner.main().insert(b"c", b"kept")?;
/// inner.commit()?;
/// assert_eq!(outer.main().len(), 2);
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is changed unless it is committed"]
pub struct Nested<'t, 's> {
    outer: &'t mut Transaction<'s>,
    /// `None` when it is committed.
    begin: Option<Savepoint>,
}

impl<'s> Transaction<'s> {
    /// Begins a transaction within this one, which waits for it.
    pub fn nested(&mut self) -> Nested<'_, 's> {
        let begin = Some(self.savepoint());
        Nested { outer: self, begin }
    }
}

impl Nested<'_, '_> {
    /// Leaves the changes to the outer transaction: they are seen by others when that is committed.
    ///
    /// # Errors
    /// The savepoint that it began with, or one before, was given up within it: then the outer one
    /// cannot be committed either.
    pub fn commit(mut self) -> Result<()> {
        let done = self.begin.take().map_or(Ok(()), |begin| self.outer.release(begin));
        done.inspect_err(|_| self.outer.forbid_commit())
    }
}

impl<'s> Deref for Nested<'_, 's> {
    type Target = Transaction<'s>;

    fn deref(&self) -> &Transaction<'s> {
        self.outer
    }
}

impl<'s> DerefMut for Nested<'_, 's> {
    fn deref_mut(&mut self) -> &mut Transaction<'s> {
        self.outer
    }
}

impl Drop for Nested<'_, '_> {
    fn drop(&mut self) {
        let Some(begin) = self.begin.take() else { return };
        let undone = self.outer.rollback_to(begin).and_then(|()| self.outer.release(begin));
        if undone.is_err() {
            self.outer.forbid_commit();
        }
    }
}
