//! Changes that belong together, and what is read in between.
//!
//! They wait in memory; the lock keeps others from writing until they are committed, as a batch, or dropped. What is read goes
//! by them first. After a fork the lock is the parent's, and so is all that the child has a copy of.

use super::batch::{change, make_changes};
use super::handle::{Hash, sum};
use super::writer::{Writer, check_sizes};
use crate::os::atomic::Ordering;
use crate::os::process::forks;
use crate::stats::{Done, Operation, Outcome};
use crate::{Error, Result, Scan};
use std::collections::BTreeMap;

impl Hash {
    /// Begins a transaction, when others do not write: nobody else does then until it is committed or dropped. Use it in one
    /// thread, and soon.
    ///
    /// # Errors
    /// Others wrote for longer than [`OpenOptions::lock_timeout`](super::OpenOptions::lock_timeout)
    /// ([`ErrorKind::Busy`](crate::ErrorKind::Busy)); the store was opened for reading only, or this thread is writing to it already; or what was put in before cannot be
    /// entered in the index, as the disk is full or the store damaged.
    pub fn transaction(&self) -> Result<Transaction<'_>> {
        let writer = self.core().changer().map_err(|e| self.named(e))?;
        self.core().transactions.fetch_add(1, Ordering::Relaxed);
        self.record_begin(std::iter::empty());
        Ok(Transaction {
            store: self,
            writer: Some(writer),
            forks: forks(),
            changes: BTreeMap::new(),
        })
    }
}

/// Reads and writes with nobody writing in between; dropped without [`Transaction::commit`], it
/// changes nothing. Once a lookup has seen one of the changes, every later one sees all of them.
///
/// ```
/// # let store = credenza::hash::Hash::in_memory()?;
/// let mut transaction = store.transaction()?;
/// transaction.insert(b"a", b"1")?;
/// assert_eq!(transaction.get(b"a")?, Some(&b"1"[..]));
/// assert_eq!(store.len()?, 0);
/// transaction.commit()?;
/// assert_eq!(store.len()?, 1);
/// # Ok::<(), credenza::Error>(())
/// ```
#[must_use = "nothing is changed unless it is committed"]
pub struct Transaction<'s> {
    pub(super) store: &'s Hash,
    /// There until it is committed.
    writer: Option<Writer<'s>>,
    /// What [`forks`] is in the process that has the lock: after a fork the child has what is the parent's.
    pub(super) forks: u32,
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("changes", &self.changes.len()).finish()
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // In a fork the lock stays its parent's: there the store must not be closed as if it were free.
        let writer = self.writer.take();
        if self.forks != forks() {
            // What everybody sees is its parent's to say, and that it is undone, if it is.
            std::mem::forget(writer);
            return;
        }
        self.store.core().transactions.fetch_sub(1, Ordering::Relaxed);
        if let Some(writer) = writer {
            let undo = || {
                drop(writer);
                Ok(())
            };
            let undone = |(): &()| Done::one(Outcome::Done, 0);
            // Nothing that can fail.
            let _ = self.store.counted(Operation::Abort, None, undo, undone);
        }
    }
}

impl Transaction<'_> {
    /// The value of `key`, as this transaction left it.
    ///
    /// # Errors
    /// As [`Hash::get`]; or the transaction is that of the process that this one was forked from.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.check_own()?;
        self.store.get_recorded(key, || {
            if let Some(changed) = self.changes.get(key) {
                return Ok(changed.as_deref());
            }
            match &self.writer {
                Some(writer) => writer.get(key).map_err(|e| self.store.named(e)),
                None => Ok(None),
            }
        })
    }

    /// Every record as this transaction left it.
    pub(super) fn scan_all(&self, mut f: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.check_own()?;
        self.store.scan_all(|key, value| match self.changes.contains_key(key) {
            true => Ok(()),
            false => f(key, value),
        })?;
        let kept = |(key, value): (&'_ Vec<u8>, &'_ Option<Vec<u8>>)| match value {
            Some(value) => f(key, value),
            None => Ok(()),
        };
        self.changes.iter().try_for_each(kept)
    }

    /// Gives `key` the value, when this transaction is committed.
    ///
    /// # Errors
    /// Key or value is over its limit.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, value)?;
        self.record_change(key, Some(value));
        self.changes.insert(key.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    /// Takes `key` out, when this transaction is committed.
    ///
    /// # Errors
    /// The key is over its limit.
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        check_sizes(key, &[])?;
        self.record_change(key, None);
        self.changes.insert(key.to_vec(), None);
        Ok(())
    }

    /// Whether `key` has a value, as this transaction left it.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Reads the value of `key` and writes what `f` makes of it: `None` takes the key out. Returns whether the key has a value now.
    ///
    /// # Errors
    /// As [`Transaction::get`] and [`Transaction::insert`].
    pub fn update(
        &mut self,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        let new = f(self.get(key)?);
        match &new {
            Some(value) => self.insert(key, value)?,
            None => self.remove(key)?,
        }
        Ok(new.is_some())
    }

    /// Gives `key` the value if it has none; returns whether it did.
    ///
    /// # Errors
    /// As [`Transaction::get`] and [`Transaction::insert`].
    pub fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let is_absent = !self.contains_key(key)?;
        if is_absent {
            self.insert(key, value)?;
        }
        Ok(is_absent)
    }

    /// Puts `more` behind the value of `key`, or gives it that value; returns the value's length.
    ///
    /// # Errors
    /// As [`Transaction::get`] and [`Transaction::insert`].
    pub fn append(&mut self, key: &[u8], more: &[u8]) -> Result<u64> {
        let value = [self.get(key)?.unwrap_or_default(), more].concat();
        self.insert(key, &value)?;
        Ok(value.len() as u64)
    }

    /// Adds to the number that the value of `key` is; as [`Hash::increment`].
    ///
    /// # Errors
    /// The value is no number, or the sum is beyond 64 bits: nothing changed. Or as [`Transaction::get`].
    pub fn increment(&mut self, key: &[u8], by: i64) -> Result<i64> {
        let sum = sum(self.get(key)?, by)?;
        self.insert(key, sum.to_string().as_bytes())?;
        Ok(sum)
    }

    /// Makes all changes, at once.
    ///
    /// # Errors
    /// The transaction is that of the process that this one was forked from. Or as [`Hash::batch`].
    pub fn commit(mut self) -> Result<()> {
        self.check_own()?;
        let writer = self.writer.take();
        let all = self.changes.iter().map(|(key, value)| (&key[..], value.as_deref()));
        let changes = self.changes.iter().map(|(key, value)| change(key, value.as_deref()));
        self.store.counted_commit(all, || {
            let done = writer.map_or(Ok(()), |writer| make_changes(&writer, changes));
            self.store.finish_batch(done)
        })
    }

    /// Changes nothing; the same as dropping it.
    pub fn abort(self) {}

    /// After a fork the lock is the parent's alone, and so is what it keeps others from changing.
    fn check_own(&self) -> Result<()> {
        if self.forks == forks() {
            return Ok(());
        }
        Err(self.store.named(Error::invalid(
            "the transaction is that of the process that this one was forked from: begin one here",
        )))
    }
}

impl Scan for Transaction<'_> {
    /// Every record as this transaction left it, in no order that means anything: nobody else changes one
    /// meanwhile.
    ///
    /// # Errors
    /// What `f` returned, or the file is damaged or could not be read.
    fn scan<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        self.scan_recorded(f)
    }

    fn scan_checked<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        self.store.verify_records(|_, _| {})?;
        self.scan(f)
    }

    /// As many as there were, and what this transaction adds and takes out: each of its changes is looked
    /// up.
    fn len(&self) -> Result<u64> {
        self.check_own()?;
        let mut count = self.store.len()?;
        let Some(writer) = &self.writer else { return Ok(count) };
        for (key, value) in &self.changes {
            let was_there = writer.get(key).map_err(|e| self.store.named(e))?.is_some();
            match (was_there, value.is_some()) {
                (true, false) => count = count.saturating_sub(1),
                (false, true) => count += 1,
                _ => {}
            }
        }
        Ok(count)
    }
}
