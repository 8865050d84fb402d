//! Tables whose keys may have several values, to change.

use super::bulk::{self, KeyValue};
use super::counted::{Change, Counts};
use super::edit::{Old, check_sizes};
use super::format::MAX_SORTED_VALUE;
use super::kind::Kind;
use super::multi::{MultiTable, as_bounds, no_pair};
use super::multi_cursor::{Among, MultiCursor};
use super::multi_cursor_mut::MultiCursorMut;
use super::pairs::{FIRST_LABEL, LABEL_STEP, Pairs, label_bytes, label_of};
use super::table::Cursor;
use super::table_mut::TableMut;
use crate::observe::{Recorder, emptied};
use crate::stats::{Moved, Operation};
use crate::{Bytes, Error, ErrorKind, Result};
use std::ops::{Bound, RangeBounds};

/// A table whose keys may have several values, to change, in a transaction.
#[derive(Debug)]
pub struct MultiTableMut<'t, 'c> {
    /// It counts nothing: what is done by it is part of an operation on this one.
    pub(super) raw: TableMut<'t, 'c>,
    kind: Kind,
    pairs: Pairs,
    pub(super) recorder: Option<&'t Recorder>,
}

/// Where a value goes among the others of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Before all others.
    First,
    /// Behind all others.
    Last,
    /// Before the one of this number, counted from 0.
    Before(u64),
    /// Behind the one of this number, counted from 0.
    After(u64),
}

/// The labels beside a place; `None` where there is none.
pub(super) type Gap = (Option<u64>, Option<u64>);

impl<'t, 'c> MultiTableMut<'t, 'c> {
    pub(crate) fn new(mut raw: TableMut<'t, 'c>, kind: Kind) -> MultiTableMut<'t, 'c> {
        let recorder = raw.recorder.take();
        MultiTableMut { raw, kind, pairs: Pairs::of(kind), recorder }
    }

    /// The table as it is now, to read.
    pub fn read(&self) -> MultiTable<'_> {
        MultiTable::new(self.raw.read().counted_by(self.recorder), self.kind)
    }

    /// The same to change, for as long as this is lent.
    pub(super) fn borrowed(&mut self) -> MultiTableMut<'_, 'c> {
        let (kind, pairs, recorder) = (self.kind, self.pairs, self.recorder);
        MultiTableMut { raw: self.raw.borrowed(), kind, pairs, recorder }
    }

    /// The same, to read in it for a change.
    pub(super) fn uncounted(&self) -> MultiTable<'_> {
        MultiTable::new(self.raw.read(), self.kind)
    }

    /// Whether the values of a key are sorted.
    pub(crate) fn is_sorted(&self) -> bool {
        self.pairs.is_sorted()
    }

    /// The first value of `key`; `None` if it has none.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        self.read().get(key)
    }

    /// How many values there are in all.
    pub fn len(&self) -> u64 {
        self.raw.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Adds a value to a key: where values are sorted, in its place, unless the key has it; else
    /// behind the others. Whether there is one more now.
    ///
    /// # Errors
    /// Key or value are over their limit, or the key is none of the table's type; or the disk is full,
    /// or the store is damaged. After the latter two the transaction cannot be committed.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let put = |table: &mut Self| {
            if !table.pairs.is_sorted() {
                return table.put_at(key, Position::Last, value);
            }
            let pair = sorted_pair(table.pairs, key, value)?;
            Ok(!table.raw.put_stored(&pair, &[], Old::Keep)?)
        };
        self.change(Operation::Insert, Some(key), put, |is_added| {
            Change::added(*is_added, key, value)
        })
    }

    /// Gives a key a value if it has none; whether it did.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let put = |table: &mut Self| {
            check_sizes(key, value)?;
            if table.uncounted().contains_key(key)? {
                return Ok(false);
            }
            MultiTableMut::new(table.raw.borrowed(), table.kind).insert(key, value)
        };
        self.change(Operation::Update, Some(key), put, |is_new| Change::put_if(*is_new, key, value))
    }

    /// Where values are not sorted: puts one at this place among those of its key. `false` if there is
    /// no such place, as the key has too few.
    ///
    /// # Errors
    /// Values are sorted, or as [`MultiTableMut::insert`].
    pub fn insert_at(&mut self, key: &[u8], position: Position, value: &[u8]) -> Result<bool> {
        let put = |table: &mut Self| table.put_at(key, position, value);
        self.change(Operation::Insert, Some(key), put, |is_added| {
            Change::added(*is_added, key, value)
        })
    }

    fn put_at(&mut self, key: &[u8], position: Position, value: &[u8]) -> Result<bool> {
        if self.pairs.is_sorted() {
            return Err(has_no_places());
        }
        check_sizes(key, value)?;
        self.pairs.check_key(key)?;
        let begin = self.pairs.begin(key).unwrap_or_default();
        let Some(gap) = self.gap(&begin, position)? else { return Ok(false) };
        self.put_between(&begin, gap, value)?;
        Ok(true)
    }

    /// Puts a value between those with these labels, of a key whose pairs begin so; its pair.
    pub(super) fn put_between(&mut self, begin: &[u8], gap: Gap, value: &[u8]) -> Result<Vec<u8>> {
        if let Some(label) = between(gap) {
            return put_new(&mut self.raw, pair_of(begin, label), value);
        }
        let pairs = self.pairs;
        self.raw.whole(|raw| {
            let raw = raw.borrowed();
            let mut table = MultiTableMut { raw, kind: self.kind, pairs, recorder: None };
            let pair = pair_of(begin, table.make_room(begin, gap)?);
            put_new(&mut table.raw, pair, value)
        })
    }

    /// The labels beside a place among the pairs that begin so; `None` if there is no such place.
    fn gap(&self, begin: &[u8], position: Position) -> Result<Option<Gap>> {
        let mut cursor = self.raw.read().cursor();
        match position {
            Position::First => {
                cursor.seek(begin)?;
                Ok(Some((None, label_here(&cursor, begin)?)))
            }
            Position::Last => {
                cursor.last_with(begin)?;
                Ok(Some((label_here(&cursor, begin)?, None)))
            }
            Position::Before(n) | Position::After(n) => {
                cursor.seek(begin)?;
                cursor.skip(n, begin)?;
                let Some(here) = label_here(&cursor, begin)? else { return Ok(None) };
                if matches!(position, Position::After(_)) {
                    cursor.next()?;
                    return Ok(Some((Some(here), label_here(&cursor, begin)?)));
                }
                cursor.previous()?;
                Ok(Some((label_here(&cursor, begin)?, Some(here))))
            }
        }
    }

    /// Gives the values around a place other labels, so many of them that there is room between all;
    /// the label for the place.
    fn make_room(&mut self, begin: &[u8], (left, right): Gap) -> Result<u64> {
        // So far from each other that there is less to do each time; more where values are probably put
        // one behind the other.
        let mut room = if left.is_some() && right.is_some() { 1 << 16 } else { LABEL_STEP / 16 };
        let mut reach = 16;
        loop {
            let before = self.labels(begin, left, reach, |cursor| cursor.previous())?;
            let after = self.labels(begin, right, reach, |cursor| cursor.next())?;
            let low = before.beyond.map_or(0, |label| label.saturating_add(1));
            let high = after.beyond.unwrap_or(u64::MAX);
            let count = (before.labels.len() + after.labels.len() + 1) as u64;
            let step = high.checked_sub(low).ok_or_else(|| self.no_pair())? / (count + 1);
            if step < room && (before.beyond.is_some() || after.beyond.is_some()) {
                reach *= 2;
                // The more values get other labels, the more room is left between them, so that as many
                // must be put in before it is their turn again. What those have that were put one behind
                // the other is always enough.
                room = (2 * room).min(LABEL_STEP / 2);
                continue;
            }
            if step == 0 {
                return Err(too_many());
            }
            let place = before.labels.len() as u64;
            let new = |i: u64| low + step * (i + 1 + u64::from(i >= place));
            let old = before.labels.into_iter().rev().chain(after.labels);
            let moves: Vec<_> = old.zip(0..).map(|(old, i)| (old, new(i))).collect();
            self.label_anew(begin, &moves)?;
            return Ok(low + step * (place + 1));
        }
    }

    /// So many labels on one side of a place, from the label beside it on.
    fn labels(
        &self,
        begin: &[u8],
        from: Option<u64>,
        reach: usize,
        step: fn(&mut Cursor<'_>) -> Result<bool>,
    ) -> Result<Side> {
        let mut labels = Vec::new();
        let Some(from) = from else { return Ok(Side { labels, beyond: None }) };
        let table = self.raw.read();
        let mut cursor = table.cursor();
        cursor.seek(&pair_of(begin, from))?;
        while let Some(label) = label_here(&cursor, begin)? {
            if labels.len() == reach {
                return Ok(Side { labels, beyond: Some(label) });
            }
            labels.push(label);
            step(&mut cursor)?;
        }
        Ok(Side { labels, beyond: None })
    }

    /// Moves values, in order, from their labels to others.
    fn label_anew(&mut self, begin: &[u8], moves: &[(u64, u64)]) -> Result<()> {
        // One after the other, so that no label is met that is still another's: those that go up from
        // the last on, then those that go down from the first on.
        let up = moves.iter().rev().filter(|(old, new)| new > old);
        let down = moves.iter().filter(|(old, new)| new < old);
        for (old, new) in up.chain(down) {
            let pair = pair_of(begin, *old);
            let value = self.raw.get(&pair)?.ok_or_else(|| self.no_pair())?.to_vec();
            self.raw.remove(&pair)?;
            if self.raw.put_stored(&pair_of(begin, *new), &value, Old::Keep)? {
                return Err(self.no_pair());
            }
        }
        Ok(())
    }

    #[cold]
    fn no_pair(&self) -> Error {
        self.raw.uncounted().named(no_pair())
    }

    /// Puts another value in the place of number `n` of `key`, counted from 0; whether there
    /// is one. Where values are sorted it goes where it belongs, and is one with an equal one.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn replace_nth(&mut self, key: &[u8], n: u64, value: &[u8]) -> Result<bool> {
        let put = |table: &mut Self| table.put_nth(key, n, value);
        self.change(Operation::Update, Some(key), put, |is_put| Change::put_if(*is_put, key, value))
    }

    fn put_nth(&mut self, key: &[u8], n: u64, value: &[u8]) -> Result<bool> {
        check_sizes(key, value)?;
        let Some(pair) = self.nth_pair(key, n)? else { return Ok(false) };
        self.put_for(key, pair, value)?;
        Ok(true)
    }

    /// Puts another value in the place of that of a pair of `key`; the pair that it has now.
    pub(super) fn put_for(&mut self, key: &[u8], pair: Vec<u8>, value: &[u8]) -> Result<Vec<u8>> {
        check_sizes(key, value)?;
        if !self.pairs.is_sorted() {
            return self.raw.whole(|raw| {
                if raw.put_stored(&pair, value, Old::Replace)? {
                    return Ok(pair);
                }
                // It is one more now, as only a walk finds the other.
                Err(raw.uncounted().named(no_pair()))
            });
        }
        let new = sorted_pair(self.pairs, key, value)?;
        self.raw.whole(|raw| {
            raw.remove_read(&pair)?;
            raw.put_stored(&new, &[], Old::Keep)
        })?;
        Ok(new)
    }

    /// The pair of the value that has so many before it.
    fn nth_pair(&self, key: &[u8], n: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.uncounted().nth_pair(key, n)?.map(|(_, (pair, _))| pair))
    }

    /// Takes a key out with all of its values; how many they were.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn remove(&mut self, key: &[u8]) -> Result<u64> {
        self.take_bounds(Some(key), (Bound::Included(key), Bound::Included(key)))
    }

    /// Takes a value of a key out, the first one if it has several that are equal; whether it had it.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn remove_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let take = |table: &mut Self| table.take_value(key, value);
        self.change(Operation::Remove, None, take, |was| {
            Change::removed(*was, key.len() + value.len())
        })
    }

    fn take_value(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.pairs.is_sorted() {
            let Some(mut pair) = self.pairs.begin(key) else { return Ok(false) };
            pair.extend_from_slice(value);
            return self.raw.remove(&pair);
        }
        let mut n = None;
        for (i, found) in self.uncounted().values(key).enumerate() {
            if found? == value {
                n = Some(i as u64);
                break;
            }
        }
        n.map_or(Ok(false), |n| self.take_nth(key, n))
    }

    /// Takes value number `n` of a key out, counted from 0; whether there was one.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn remove_nth(&mut self, key: &[u8], n: u64) -> Result<bool> {
        let take = |table: &mut Self| table.take_nth(key, n);
        self.change(Operation::Remove, None, take, |was_there| {
            Change::removed(*was_there, key.len())
        })
    }

    fn take_nth(&mut self, key: &[u8], n: u64) -> Result<bool> {
        match self.nth_pair(key, n)? {
            Some(pair) => self.raw.remove(&pair),
            None => Ok(false),
        }
    }

    /// Takes all keys of a range out; how many values they had.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn remove_range<'k>(&mut self, keys: impl RangeBounds<&'k [u8]>) -> Result<u64> {
        self.take_bounds(None, (keys.start_bound().cloned(), keys.end_bound().cloned()))
    }

    /// Takes all keys of a range out, which is that of `key` if there is one.
    fn take_bounds(
        &mut self,
        key: Option<&[u8]>,
        (start, end): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<u64> {
        let (start, end) = self.pairs.bounds(start, end);
        let take = |table: &mut Self| table.raw.take_range(as_bounds(&start, &end));
        let (removed, _) = self.change(Operation::Remove, key, take, Change::removed_all)?;
        Ok(removed)
    }

    /// Takes the first value of the lowest key out; with its key, what it was.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn pop_first(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(|cursor| cursor.first())
    }

    /// Takes the last value of the highest key out; with its key, what it was.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn pop_last(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(|cursor| cursor.last())
    }

    fn pop(
        &mut self,
        go: impl for<'a> FnOnce(&mut MultiCursor<'a>) -> Result<bool>,
    ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let pop = |table: &mut Self| {
            let mut cursor = table.uncounted().cursor();
            go(&mut cursor)?;
            let Some((key, value)) = cursor.record()? else { return Ok(None) };
            let (record, pair) = ((key, value.into_owned()), cursor.raw.key().map(<[u8]>::to_vec));
            table.raw.remove_read(&pair.unwrap_or_default())?;
            Ok(Some(record))
        };
        self.change(Operation::Remove, None, pop, Change::popped)
    }

    /// Takes everything out.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn clear(&mut self) -> Result<()> {
        emptied(self.recorder, || self.raw.clear())
    }

    /// A cursor before the first value of the lowest key, that can change what it is at.
    pub fn cursor(self) -> MultiCursorMut<'t, 'c> {
        MultiCursor::new(self.raw.cursor(), self.pairs, self.recorder)
    }

    /// Fills an empty table with keys and values that come in their order; a key comes again for each
    /// of its values. Returns how many values.
    ///
    /// # Errors
    /// The table is not empty: nothing was changed then. Or the keys, or values that shall be sorted, are
    /// not in order, or as [`MultiTableMut::insert`], or what the iterator says: then the transaction cannot
    /// be committed.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = Result<(K, V)>>,
    ) -> Result<u64> {
        self.load_all(records)
    }

    /// The same of whatever has a key and a value.
    pub(crate) fn load_all<P: KeyValue>(
        &mut self,
        records: impl IntoIterator<Item = Result<P>>,
    ) -> Result<u64> {
        let pairs = self.pairs;
        let (mut last, mut label) = (None, FIRST_LABEL);
        let (recorder, mut loaded) = (self.recorder, Moved::default());
        // What the iterator says is about the file that it reads, if about any.
        let mut is_of_theirs = false;
        let records = records.into_iter().inspect(|record| is_of_theirs |= record.is_err());
        let stored = records.map(|record| {
            let record = record?;
            let (key, value) = record.parts();
            if let Some(recorder) = recorder {
                loaded.record(key, value);
                recorder.batched_beside(key, value);
            }
            if pairs.is_sorted() {
                return Ok((sorted_pair(pairs, key, value)?, Vec::new()));
            }
            check_sizes(key, value)?;
            pairs.check_key(key)?;
            let begin = pairs.begin(key).unwrap_or_default();
            label = match last.as_ref() == Some(&begin) {
                true => between((Some(label), None)).ok_or_else(too_many)?,
                false => FIRST_LABEL,
            };
            let pair = pair_of(&begin, label);
            last = Some(begin);
            Ok((pair, value.to_vec()))
        });
        let count = bulk::load(self.raw.writer, self.raw.tree, stored, |_, _| Ok(()));
        let count = count.map_err(|e| match is_of_theirs {
            true => e,
            false => self.raw.source.core().named(e),
        })?;
        self.raw.writer.scratch.moved.add(loaded);
        Ok(count)
    }
}

/// Puts a pair that is not there; which it is.
fn put_new(table: &mut TableMut<'_, '_>, pair: Vec<u8>, value: &[u8]) -> Result<Vec<u8>> {
    match table.put_stored(&pair, value, Old::Keep)? {
        false => Ok(pair),
        // Only a lookup finds it.
        true => Err(table.uncounted().named(no_pair())),
    }
}

#[cold]
pub(super) fn has_no_places() -> Error {
    Error::invalid("the values of this table are sorted: their place is not to be chosen")
}

#[cold]
fn too_many() -> Error {
    Error::invalid("a key with as many values as there can be")
}

/// Labels on one side of a place, the nearest first, and the one beyond them.
struct Side {
    labels: Vec<u64>,
    beyond: Option<u64>,
}

/// The label where a cursor is, if that is one of the pairs that begin so.
pub(super) fn label_here(cursor: &Cursor<'_>, begin: &[u8]) -> Result<Option<u64>> {
    match cursor.key().filter(|pair| pair.starts_with(begin)) {
        Some(pair) if pair.len() == begin.len() + 8 => Ok(label_of(pair)),
        Some(_) => Err(cursor.table().named(no_pair())),
        None => Ok(None),
    }
}

/// A label between two, or beyond one; `None` if there is no room.
fn between(gap: Gap) -> Option<u64> {
    match gap {
        (None, None) => Some(FIRST_LABEL),
        (Some(left), None) => {
            let step = LABEL_STEP.min((u64::MAX - left) / 2);
            (step > 0).then_some(left + step)
        }
        (None, Some(right)) => {
            let step = LABEL_STEP.min(right / 2);
            (step > 0).then_some(right - step)
        }
        (Some(left), Some(right)) => {
            let middle = left + right.saturating_sub(left) / 2;
            (middle > left).then_some(middle)
        }
    }
}

fn pair_of(begin: &[u8], label: u64) -> Vec<u8> {
    [begin, &label_bytes(label)].concat()
}

fn sorted_pair(pairs: Pairs, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
    check_sizes(key, value)?;
    if value.len() > MAX_SORTED_VALUE {
        let (size, limit) = (value.len() as u64, MAX_SORTED_VALUE as u64);
        return Err(Error::new(ErrorKind::TooLarge { what: "sorted value", size, limit }));
    }
    pairs.check_key(key)?;
    let mut pair = pairs.begin(key).unwrap_or_default();
    pair.extend_from_slice(value);
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use super::super::{BTree, Duplicates, Position, TableOptions};
    use std::collections::HashSet;

    /// Puts values at places, in a table and in a list, and compares.
    fn fill(positions: impl Iterator<Item = Position>, count: usize) {
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        let options = TableOptions::new().duplicates(Duplicates::Inserted);
        transaction.create_table_with("t", &options).unwrap();
        let mut table = transaction.multi_table("t").unwrap().unwrap();
        table.insert(b"j", b"before").unwrap();
        table.insert(b"l", b"behind").unwrap();
        let mut list: Vec<Vec<u8>> = vec![b"one".to_vec()];
        table.insert(b"k", b"one").unwrap();
        for (n, position) in positions.take(count).enumerate() {
            let value = format!("{n}").into_bytes();
            let at = match position {
                Position::First => 0,
                Position::Last => list.len(),
                Position::Before(n) => n as usize,
                Position::After(n) => n as usize + 1,
            };
            assert!(table.insert_at(b"k", position, &value).unwrap());
            list.insert(at, value);
        }
        let found: Vec<Vec<u8>> =
            table.read().values(b"k").map(|value| value.unwrap().into_owned()).collect();
        assert_eq!(found, list);
        assert_eq!(table.read().count(b"j").unwrap() + table.read().count(b"l").unwrap(), 2);
    }

    #[test]
    fn a_place_takes_any_number_of_values() {
        fill(std::iter::repeat(Position::Before(0)), 300);
        fill(std::iter::repeat(Position::After(0)), 3000);
        fill(std::iter::repeat(Position::First), 300);
        fill(std::iter::repeat(Position::Last), 300);
        fill(
            (0..)
                .map(|n| if n % 2 == 0 { Position::Before(n / 2) } else { Position::After(n / 2) }),
            3000,
        );
    }

    /// All labels of a key.
    fn labels(table: &super::MultiTableMut<'_, '_>) -> Vec<u64> {
        let table = table.raw.read();
        table.iter().map(|pair| super::label_of(&pair.unwrap().0).unwrap()).collect()
    }

    /// Whatever was given more room than it needed was at once in need of it again: most values got
    /// another label with every few that were put at one place.
    #[test]
    fn few_values_move_for_those_put_at_one_place() {
        for place in [Position::After(0), Position::Before(1000)] {
            let store = BTree::in_memory().unwrap();
            let mut transaction = store.write().unwrap();
            let options = TableOptions::new().duplicates(Duplicates::Inserted);
            transaction.create_table_with("t", &options).unwrap();
            let mut table = transaction.multi_table("t").unwrap().unwrap();
            for i in 0..2000u64 {
                assert!(table.insert(b"k", &i.to_le_bytes()).unwrap());
            }
            let (mut moved, count) = (0, 6000u64);
            for i in 0..count {
                let gap = table.gap(b"k\0", place).unwrap().unwrap();
                let before = super::between(gap).is_none().then(|| labels(&table));
                assert!(table.insert_at(b"k", place, &i.to_le_bytes()).unwrap());
                let Some(before) = before else { continue };
                let now: HashSet<u64> = labels(&table).into_iter().collect();
                moved += before.iter().filter(|label| !now.contains(label)).count() as u64;
            }
            assert!(moved < 8 * count, "{place:?}: {moved}");
        }
    }

    #[test]
    fn labels_at_the_ends_of_their_range_are_given_anew() {
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        let options = TableOptions::new().duplicates(Duplicates::Inserted);
        transaction.create_table_with("t", &options).unwrap();
        let mut table = transaction.multi_table("t").unwrap().unwrap();
        for label in [0, 1, 2, u64::MAX - 1, u64::MAX] {
            let pair = super::pair_of(b"k\0", label);
            table.raw.put_stored(&pair, &label.to_le_bytes()[..1], super::Old::Replace).unwrap();
        }
        assert!(table.insert_at(b"k", Position::First, b"first").unwrap());
        assert!(table.insert_at(b"k", Position::Last, b"last").unwrap());
        assert!(table.insert_at(b"k", Position::After(1), b"second").unwrap());
        assert!(!table.insert_at(b"k", Position::After(8), b"none").unwrap());
        let found: Vec<Vec<u8>> =
            table.read().values(b"k").map(|value| value.unwrap().into_owned()).collect();
        let expected = [&b"first"[..], &[0], b"second", &[1], &[2], &[254], &[255], b"last"];
        assert_eq!(found, expected);
    }
    /// A queue whose labels have come to the end of their range goes on.
    #[test]
    fn a_queue_at_the_end_of_its_labels_goes_on() {
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        let options = TableOptions::new().duplicates(Duplicates::Inserted);
        transaction.create_table_with("t", &options).unwrap();
        let mut table = transaction.multi_table("t").unwrap().unwrap();
        let count = 300u64;
        for i in 0..count {
            let pair = super::pair_of(b"k\0", u64::MAX - (count - i) * super::LABEL_STEP);
            table.raw.put_stored(&pair, &i.to_le_bytes(), super::Old::Replace).unwrap();
        }
        for i in count..count + 3000 {
            assert!(table.insert(b"k", &i.to_le_bytes()).unwrap());
            assert!(table.remove_nth(b"k", 0).unwrap());
        }
        let found: Vec<Vec<u8>> =
            table.read().values(b"k").map(|value| value.unwrap().into_owned()).collect();
        let expected: Vec<_> = (3000..count + 3000).map(|i| i.to_le_bytes().to_vec()).collect();
        assert_eq!(found, expected);
    }
}
