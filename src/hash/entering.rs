//! Batches that are being entered in the index, and readers that do not wait for that.
//!
//! A batch is done when the end of the log has moved behind it; then its changes are entered one by one, and nobody is
//! to see a part of them. Meanwhile the state word says that one is being entered, and `BATCH` says which. For a
//! moment a reader waits for it to be over. Then he looks through the records of the batch in the log, and in the
//! pages for what it does not change: so he sees all of it, however long who enters it takes, stands still, or is dead.
//!
//! Invariants. Whoever sets the bit in the state word has written `BATCH` before: where the batch's record is, and how many
//! batches were entered before it, as the state word has it. A word with another number is of another batch, which is
//! over, or not begun; then the pages say all there is to say, or there is damage. The records stay as they are: cleaning waits
//! until the batch is entered, and then for readers.

use super::format::{SEGMENT_HEADER, unit_place, words};
use super::index::{Index, State, damaged, record_at};
use super::record::Kind;
use super::view::{Holds, RecordView};
use super::writer::Writer;
use crate::Result;
use crate::os::atomic::{Ordering, fence, pause};
use crate::os::shared::SharedMap;
use std::collections::HashMap;

/// How often it is looked whether a batch is over before its records are: a small one takes no longer. Not at all in debug
/// builds, so that every test of batches beside readers is one of this.
const SPINS: u32 = if cfg!(any(debug_assertions, credenza_schedules)) { 0 } else { 200 };
/// Bits of the address of a batch, in units of eight bytes, in the word that names it.
const ADDRESS_BITS: u32 = 40;

/// The newest change of each of some keys, a put or a delete, and where its record is.
pub(crate) type Changes<'h> = HashMap<&'h [u8], (u64, RecordView<'h>)>;

/// The value that a put gives its key, and where it is; a delete gives none.
pub(crate) fn value_of<'h>((at, change): &(u64, RecordView<'h>)) -> Option<(u64, &'h [u8])> {
    (change.header.kind == Kind::Put).then_some((*at, change.value))
}

impl State {
    /// The word that names the batch at `at` as the one that is entered in this state.
    fn batch_at(self, at: u64) -> u64 {
        (self.batches() << ADDRESS_BITS) | (at / 8)
    }
}

impl Index {
    /// Where the batch begins that is being entered in this state, if that is known.
    pub(crate) fn entering(&self, state: State) -> Option<u64> {
        let word = self.word(words::BATCH).load(Ordering::Acquire);
        let at = (word & ((1 << ADDRESS_BITS) - 1)) * 8;
        (state.is_busy() && at != 0 && state.batch_at(at) == word).then_some(at)
    }

    /// Whether the batch that is being entered in this state is over soon.
    pub(crate) fn is_over_soon(&self, state: State) -> bool {
        let is_over = || !self.state().is_of_same_batch(state);
        // Not again, if somebody has waited for it.
        if self.waited_for.load(Ordering::Relaxed) == state.batches() {
            return is_over();
        }
        let is_over_soon = (0..SPINS).any(|_| {
            pause();
            is_over()
        });
        if !is_over_soon {
            self.waited_for.store(state.batches(), Ordering::Relaxed);
        }
        is_over_soon
    }

    /// Gives the changes of the batch that is being entered in this state to `f`, the oldest first, and where the record of
    /// each is. None if that batch is over.
    pub(super) fn each_change<'h>(
        &self,
        data: &'h SharedMap,
        held: &'h impl Holds,
        state: State,
        mut f: impl FnMut(u64, RecordView<'h>) -> Result<()>,
    ) -> Result<()> {
        let Some(start) = self.entering(state) else { return Ok(()) };
        let no_batch = |at| damaged(at, "what is said to be entered is no batch");
        let header = record_at(data, held, start)?.header;
        if header.kind != Kind::Batch {
            return Err(no_batch(start));
        }
        let (mut left, mut walked) = (header.key_len, 0);
        let mut at = start + header.room();
        while left > 0 {
            let found = record_at(data, held, at)?;
            walked += found.header.room();
            if walked > data.len() {
                return Err(damaged(at, "the log leads in a circle"));
            }
            at = match found.header.kind {
                Kind::Put | Kind::Delete => {
                    left -= 1;
                    f(at, found)?;
                    at + found.header.room()
                }
                Kind::End => after_end(data, at),
                _ => return Err(no_batch(at)),
            };
        }
        Ok(())
    }

    /// The newest of that batch's changes of each key that is wanted. What it does not change is to be looked for in the
    /// pages after this.
    pub(crate) fn changes<'h>(
        &self,
        data: &'h SharedMap,
        held: &'h impl Holds,
        state: State,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Changes<'h>> {
        let mut changes = Changes::new();
        self.each_change(data, held, state, |at, change| {
            if is_wanted(change.key) {
                changes.insert(change.key, (at, change));
            }
            Ok(())
        })?;
        fence(Ordering::Acquire);
        Ok(changes)
    }

    /// The newest of that batch's changes of a key.
    #[inline(never)]
    pub(crate) fn change_of<'h>(
        &self,
        data: &'h SharedMap,
        held: &'h impl Holds,
        key: &[u8],
        state: State,
    ) -> Result<Option<(u64, RecordView<'h>)>> {
        let mut newest = None;
        self.each_change(data, held, state, |at, change| {
            if change.key == key {
                newest = Some((at, change));
            }
            Ok(())
        })?;
        fence(Ordering::Acquire);
        Ok(newest)
    }
}

/// Where the first record of the segment is that the end at `at` names: in the lower half of its value in every store, as
/// there are not as many units.
pub(super) fn after_end(data: &SharedMap, at: u64) -> u64 {
    let named = data.word(at + 8).map_or(0, |word| word.load(Ordering::Relaxed));
    unit_place(named & u64::from(u32::MAX)).0 + SEGMENT_HEADER
}

impl Writer<'_> {
    /// Has readers look into the batch at `at`, which is done and about to be entered.
    pub(crate) fn begin_batch(&self, at: u64) {
        let state = self.index.state();
        self.index.word(words::BATCH).store(state.batch_at(at), Ordering::Release);
        self.index.set_state(state.busy());
    }

    /// Has readers look in the pages alone, as it is entered.
    pub(crate) fn end_batch(&self) {
        let state = self.index.state();
        if state.is_busy() {
            self.index.set_state(state.done());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;
    use crate::hash::record::RecordHeader;
    use std::collections::BTreeMap;

    type Records = BTreeMap<Vec<u8>, Vec<u8>>;

    fn key(i: u64) -> Vec<u8> {
        format!("key {i}").into_bytes()
    }

    /// What all ways of reading find, none of which waits for who has the lock: this thread.
    fn check(store: &Hash, wanted: &Records, what: &str) {
        let keys: Vec<_> = (0..700).map(key).collect();
        for key in &keys {
            let found = store.get(key).unwrap();
            assert_eq!(found.as_deref(), wanted.get(key).map(|value| &value[..]), "{what}");
            assert_eq!(store.contains_key(key).unwrap(), wanted.contains_key(key), "{what}");
        }
        let mut found = Vec::new();
        store.get_many(&keys, |_, value| found.push(value.map(<[u8]>::to_vec))).unwrap();
        assert!(
            keys.iter().zip(&found).all(|(key, found)| found.as_ref() == wanted.get(key)),
            "{what}"
        );
        let mut all: Vec<_> = store.iter().collect::<Result<_>>().unwrap();
        all.sort();
        assert!(all.iter().map(|(key, value)| (key, value)).eq(wanted), "{what}, iterated");
        assert_eq!(store.len().unwrap(), wanted.len() as u64, "{what}");
    }

    type Change = (Vec<u8>, Option<Vec<u8>>);

    /// Has the log end behind a batch of these changes, which is not entered; where each of them is, and where they end.
    fn publish(writer: &Writer<'_>, changes: &[Change], before: impl FnOnce()) -> Vec<u64> {
        let (mut cursor, mut steps) = (writer.cursor(), Vec::new());
        let header =
            RecordHeader { kind: Kind::Batch, key_len: changes.len() as u32, value_len: 0 };
        writer.append_record(&mut cursor, header, &[], &[]).unwrap();
        for (key, value) in changes {
            steps.push(cursor.at);
            let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
            writer.append(&mut cursor, kind, key, value.as_deref().unwrap_or_default()).unwrap();
        }
        before();
        writer.publish(&cursor);
        steps.push(cursor.at);
        steps
    }

    /// Enters what there is up to `step`, as if the log ended there for so long.
    fn enter_up_to(writer: &Writer<'_>, step: u64) {
        let tail = writer.index.load(words::TAIL);
        writer.index.store(words::TAIL, step);
        writer.finish_others().unwrap();
        writer.index.store(words::TAIL, tail);
    }

    /// A writer that stands still behind every one of its steps.
    #[test]
    fn readers_see_all_of_a_batch_wherever_its_writer_stands_still() {
        let store = Hash::in_memory().unwrap();
        let mut before = Records::new();
        for i in 0..600 {
            before.insert(key(i), b"old".to_vec());
            store.insert(&key(i), b"old").unwrap();
        }
        let writer = store.core().writer().unwrap();
        // Some keys twice: put and taken out, taken out and put, and put again.
        let changes =
            (580..650).chain(560..600).map(|i| (key(i), (i % 3 != 0).then(|| vec![b'n'; 90])));
        let changes: Vec<_> = changes.chain([(key(580), None), (key(582), Some(vec![]))]).collect();
        let mut after = before.clone();
        for (key, value) in changes.iter().cloned() {
            match value {
                Some(value) => after.insert(key, value),
                None => after.remove(&key),
            };
        }
        let steps = publish(&writer, &changes, || check(&store, &before, "not published"));
        check(&store, &before, "not begun");
        for (i, step) in steps.into_iter().enumerate() {
            enter_up_to(&writer, step);
            check(&store, &after, &format!("after step {i}"));
        }
        writer.end_batch();
        check(&store, &after, "entered");
        drop(writer);
        store.verify(|_, _| ()).unwrap();
    }

    /// As one who finds no room in the index leaves it, who holds nothing any more.
    #[test]
    fn a_batch_that_could_not_be_entered_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Hash::create(&path).unwrap();
        (0..600).for_each(|i| store.insert(&key(i), b"old").unwrap());
        let reader = Hash::options().read_only(true).open(&path).unwrap();
        let writer = store.core().writer().unwrap();
        let index = writer.index;
        let change = |i| (key(i), (i % 7 != 0).then(|| b"new".to_vec()));
        let steps = publish(&writer, &(0..700).map(change).collect::<Vec<_>>(), || ());
        enter_up_to(&writer, steps[300]);
        drop(writer);
        let late = Hash::options().read_only(true).open(&path).unwrap();
        for reader in [&reader, &late] {
            reader.verify(|_, _| ()).unwrap();
            assert_eq!(reader.len().unwrap(), 600);
            assert_eq!(reader.iter().count(), 600);
            assert_eq!(reader.get(&key(650)).unwrap().as_deref(), Some(&b"new"[..]));
        }
        assert!(index.state().is_busy(), "nobody who may write has looked at it");
        store.verify(|_, _| ()).unwrap();
        assert!(!index.state().is_busy());
    }

    /// Of a batch that is over, or of one that is not begun, the word says nothing.
    #[test]
    fn only_the_batch_that_is_being_entered_is_looked_into() {
        let store = Hash::in_memory().unwrap();
        store.insert(b"key", b"value").unwrap();
        let writer = store.core().writer().unwrap();
        let index = writer.index;
        writer.begin_batch(8192);
        assert_eq!(index.entering(index.state()), Some(8192));
        let begun = index.state();
        writer.end_batch();
        assert_eq!(index.entering(begun), Some(8192), "for who looks at it still");
        assert_eq!(index.entering(index.state().busy()), None);
        writer.begin_batch(1 << 42);
        assert_eq!(index.entering(begun), None);
        assert_eq!(index.entering(index.state()), Some(1 << 42));
        writer.end_batch();
    }
}
