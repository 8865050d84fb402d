//! Changes that belong together, known beforehand.

use super::grow::is_skewed;
use super::handle::Hash;
use super::writer::{Change, Writer};
use crate::Result;
use std::collections::HashSet;

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
    changes: Vec<KeyChange>,
}

/// A key, and the value that it gets; none if it is taken out.
type KeyChange = (Vec<u8>, Option<Vec<u8>>);

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

pub(super) fn change<'a>(key: &'a [u8], value: Option<&'a [u8]>) -> Change<'a> {
    match value {
        Some(value) => Change::Put(key, value),
        None => Change::Delete(key),
    }
}

fn changed((key, value): &KeyChange) -> Change<'_> {
    change(key, value.as_deref())
}

/// Makes all changes, as this writer's last ones.
pub(super) fn make_changes<'a>(
    writer: &Writer<'_>,
    changes: impl ExactSizeIterator<Item = Change<'a>> + Clone,
) -> Result<()> {
    writer.batch(changes)?;
    writer.shrink_index();
    Ok(())
}

impl Hash {
    /// Makes the changes of a batch, in its order; of those of one key the last one alone. While they are entered in the index, some 0.2 us for each, who looks something up
    /// reads all of the batch for it, 10 to 40 ns for each of its changes: where that matters, make smaller ones of a large
    /// batch. Nobody waits for it, but for [`Hash::len`], as long as it goes on.
    ///
    /// # Errors
    /// As [`Hash::insert`], of which all changes together are not to be over the limit of the store: nothing
    /// changed. Only if the disk is full for the index but not for the data, everybody sees the
    /// changes, and the next writer who finds room has the index know them. Or waiting for the disk failed, with
    /// [`Durability::Sync`](crate::Durability::Sync): the changes are there, but may not be durable.
    pub fn batch(&self, batch: &Batch) -> Result<()> {
        let newest = self.newest_of(batch);
        let all = || batch.changes.iter().map(|(key, value)| (&key[..], value.as_deref()));
        self.record_begin(all());
        self.counted_commit(all(), || {
            let writer = self.core().changer();
            self.finish_batch(writer.and_then(|writer| match &newest {
                None => make_changes(&writer, batch.changes.iter().map(changed)),
                Some(newest) => make_changes(&writer, newest.iter().copied().map(changed)),
            }))
        })
    }

    /// Of the changes of one key the last one alone, where there are several: changes are entered one by one, and who has begun
    /// to look before that would see one that never was the newest. `None` if each is of a key of its own.
    fn newest_of<'b>(&self, batch: &'b Batch) -> Option<Vec<&'b KeyChange>> {
        let hash = {
            // As short as can be: what others have replaced is kept meanwhile.
            let _held = self.core().newest.hold();
            self.core().newest.get().hash
        };
        let mut hashes: Vec<u64> = batch.changes.iter().map(|(key, _)| hash.hash(key)).collect();
        hashes.sort_unstable();
        if hashes.array_windows().all(|[hash, next]| hash != next) {
            return None;
        }
        let mut seen = HashSet::new();
        let changes = batch.changes.iter().rev();
        let mut newest: Vec<_> = changes.filter(|(key, _)| seen.insert(key.as_slice())).collect();
        newest.reverse();
        Some(newest)
    }

    /// Ends a batch, when the lock is free again.
    pub(super) fn finish_batch(&self, done: Result<()>) -> Result<()> {
        self.finish(match done {
            // It is published, and waits to be entered: whoever writes next takes another hash for that. This one, however
            // long others write, as the batch is done.
            Err(error) if is_skewed(&error) => self.core().writer().map(drop),
            done => done,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::hash::OpenOptions;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{scope, sleep};
    use std::time::Duration;

    /// Danger: who is in the middle of a lookup when a batch is entered sees a change that another of the batch follows.
    #[test]
    fn of_the_changes_of_a_key_the_last_one_is_made() {
        let store = Hash::in_memory().unwrap();
        store.insert(b"key", b"1").unwrap();
        let mut batch = Batch::new();
        batch.insert(b"one", b"1").remove(b"key").insert(b"other", b"1");
        assert!(store.newest_of(&batch).is_none(), "each is of a key of its own");
        batch.insert(b"key", b"2").remove(b"other");
        let newest: Vec<_> = store.newest_of(&batch).unwrap().into_iter().map(changed).collect();
        let keys = newest.iter().map(|change| match change {
            Change::Put(key, value) => (*key, Some(*value)),
            Change::Delete(key) => (*key, None),
        });
        let expected: [(&[u8], Option<&[u8]>); 3] =
            [(b"one", Some(b"1")), (b"key", Some(b"2")), (b"other", None)];
        assert!(keys.eq(expected));
        store.batch(&batch).unwrap();
        let found = |key: &[u8]| store.get(key).unwrap().map(|value| value.to_vec());
        assert_eq!([found(b"one"), found(b"key")], [Some(b"1".into()), Some(b"2".into())]);
        assert_eq!((found(b"other"), store.len().unwrap()), (None, 2));
        store.verify(|_, _| ()).unwrap();
    }

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
