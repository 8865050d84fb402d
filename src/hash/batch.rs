//! Changes that belong together.

use super::grow::is_skewed;
use super::handle::Hash;
use super::writer::{Change, Writer, check_sizes};
use crate::os::atomic::Ordering;
use crate::os::process::own_pid;
use crate::stats::{Done, Operation, Outcome};
use crate::{Error, Result, Scan};
use std::collections::BTreeMap;

/// Changes to be made together: all of them, or none, whatever happens to the process or the
/// machine. Once a lookup has seen one of the changes, every later one sees all of them.
///
/// ```
/// use credenza::hash::{Batch, Hash};
/// let store = Hash::in_memory()?;
/// let mut batch = Batch::new();
/// batch.insert(b"from", b"90").insert(b"to", b"110");
/// store.batch(&batch)?;
/// assert_eq!(store.len()?, 2);
/// let many: Batch = (0..100).map(|i| (format!("key {i}"), "value")).collect();
/// store.batch(&many)?;
/// assert_eq!(store.len()?, 102);
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Batch {
    /// No changes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// `key` gets the value.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        self.changes.push((key.to_vec(), Some(value.to_vec())));
        self
    }

    /// `key` is taken out.
    pub fn remove(&mut self, key: &[u8]) -> &mut Self {
        self.changes.push((key.to_vec(), None));
        self
    }

    /// Forgets all of them, to be used again.
    pub fn clear(&mut self) {
        self.changes.clear();
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// Keys that get values.
impl<K: Into<Vec<u8>>, V: Into<Vec<u8>>> Extend<(K, V)> for Batch {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, records: I) {
        let puts = records.into_iter().map(|(key, value)| (key.into(), Some(value.into())));
        self.changes.extend(puts);
    }
}

impl<K: Into<Vec<u8>>, V: Into<Vec<u8>>> FromIterator<(K, V)> for Batch {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(records: I) -> Batch {
        let mut batch = Batch::new();
        batch.extend(records);
        batch
    }
}

fn change<'a>(key: &'a [u8], value: Option<&'a [u8]>) -> Change<'a> {
    match value {
        Some(value) => Change::Put(key, value),
        None => Change::Delete(key),
    }
}

/// Makes all changes, as this writer's last ones.
fn make_changes<'a>(
    writer: &Writer<'_>,
    changes: impl ExactSizeIterator<Item = Change<'a>> + Clone,
) -> Result<()> {
    writer.batch(changes)?;
    writer.shrink_index();
    Ok(())
}

impl Hash {
    /// Makes the changes of a batch, in its order. While they are entered in the index, some 0.2 us for each, who looks something up
    /// reads all of the batch for it, a few nanoseconds for each of its changes: where that matters, make smaller ones of a
    /// large batch. Nobody waits.
    ///
    /// # Errors
    /// As [`Hash::insert`], of which all changes together are not to be over the limit of the store: nothing
    /// changed. Only if the disk is full for the index but not for the data, everybody sees the
    /// changes, and the next writer who finds room has the index know them. Or waiting for the disk failed, with
    /// [`Durability::Sync`](crate::Durability::Sync): the changes are there, but may not be durable.
    pub fn batch(&self, batch: &Batch) -> Result<()> {
        let changes = batch.changes.iter().map(|(key, value)| change(key, value.as_deref()));
        let all = || batch.changes.iter().map(|(key, value)| (&key[..], value.as_deref()));
        self.record_begin(all());
        self.counted_commit(all(), || {
            let writer = self.core().changer();
            self.finish_batch(writer.and_then(|writer| make_changes(&writer, changes)))
        })
    }

    /// Ends a batch, when the lock is free again.
    fn finish_batch(&self, done: Result<()>) -> Result<()> {
        self.finish(match done {
            // It is published, and waits to be entered: whoever writes next takes another hash for that. This one, however
            // long others write, as the batch is done.
            Err(error) if is_skewed(&error) => self.core().writer().map(drop),
            done => done,
        })
    }

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
        let pid = own_pid();
        self.record_begin(std::iter::empty());
        Ok(Transaction { store: self, writer: Some(writer), pid, changes: BTreeMap::new() })
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
pub struct Transaction<'s> {
    pub(super) store: &'s Hash,
    /// There until it is committed.
    writer: Option<Writer<'s>>,
    /// The process that has the lock: after a fork the child has what is the parent's.
    pub(super) pid: u32,
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
        if self.pid != own_pid() {
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
        if self.pid == own_pid() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::hash::OpenOptions;
    use std::sync::atomic::AtomicBool;
    use std::thread::{scope, sleep};
    use std::time::Duration;

    /// It is published when it is found that the index cannot take it by its hash, and the lock is waited for once more: who
    /// gave up then was told that it was not done.
    #[test]
    fn a_batch_is_done_or_given_up() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = folder.path().join(round.to_string());
            let options = OpenOptions::new().create(true).lock_timeout(Duration::ZERO);
            let (store, other) = (options.open(&path).unwrap(), Hash::open(&path).unwrap());
            let index = store.core().newest.get();
            let keys = (0u64..).map(u64::to_le_bytes).filter(|key| index.place(key) >> 52 == 7);
            let keys: Vec<_> = keys.take(1500).collect();
            let mut batch = Batch::new();
            for key in &keys {
                batch.insert(key, b"value");
            }
            let is_over = AtomicBool::new(false);
            let write = || {
                while !is_over.load(Ordering::Relaxed) {
                    let transaction = other.transaction().unwrap();
                    sleep(Duration::from_millis(3));
                    drop(transaction);
                    sleep(Duration::from_millis(1));
                }
            };
            let is_there = |key: &[u8; 8]| other.contains_key(key).unwrap();
            scope(|scope| {
                (0..3).for_each(|_| drop(scope.spawn(write)));
                while let Err(error) = store.batch(&batch) {
                    assert!(matches!(error.kind(), ErrorKind::Busy { .. }), "{error}");
                    if keys.iter().any(is_there) {
                        is_over.store(true, Ordering::Relaxed);
                        panic!("it was called refused: {error}");
                    }
                }
                is_over.store(true, Ordering::Relaxed);
            });
            assert!(keys.iter().all(is_there));
        }
    }
}
