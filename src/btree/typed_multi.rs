//! Tables whose keys are not bytes and may have several values.

use super::key::Key;
use super::multi::{MultiPair, MultiRange, MultiTable, Values, as_bounds};
use super::multi_mut::{MultiTableMut, Position};
use super::typed::{TypedPairs, by_bytes, bytes_of, check, typed};
use crate::{Bytes, Result};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::ops::RangeBounds;

/// A table whose keys may have several values, to read by keys of type `K`; from [`MultiTable::typed`].
#[derive(Debug)]
pub struct TypedMulti<'t, K: ?Sized> {
    table: MultiTable<'t>,
    keys: PhantomData<fn(&K)>,
}

impl<K: ?Sized> Clone for TypedMulti<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized> Copy for TypedMulti<'_, K> {}

/// A key and one of its values.
pub type TypedMultiPair<'t, K> = (<K as Key>::Owned, Bytes<'t>);

impl<'t> MultiTable<'t> {
    /// The table by its keys as they are, not by their bytes.
    ///
    /// ```
    /// use credenza::btree::{BTree, Duplicates, TableOptions};
    /// let store = BTree::in_memory()?;
    /// let mut transaction = store.write()?;
    /// let options = TableOptions::of_keys::<i64>().duplicates(Duplicates::Inserted);
    /// transaction.create_table_with("events", &options)?;
    /// let mut events = transaction.multi_table("events")?.expect("it was just made");
    /// let mut events = events.typed::<i64>()?;
    /// for (year, what) in [(1969, "Moon"), (-44, "Ides of March"), (1969, "Woodstock")] {
    ///     events.insert(&year, what.as_bytes())?;
    /// }
    /// assert_eq!(events.read().count(&1969)?, 2);
    /// assert_eq!(events.read().first()?.map(|(year, _)| year), Some(-44));
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// The table's keys are of another type.
    pub fn typed<K: Key + ?Sized>(self) -> Result<TypedMulti<'t, K>> {
        check::<K>(&self.key_type()?).map_err(|e| self.named(e))?;
        Ok(TypedMulti { table: self, keys: PhantomData })
    }
}

impl<'t, K: Key + ?Sized> TypedMulti<'t, K> {
    /// The same by the bytes of its keys.
    pub fn bytes(&self) -> MultiTable<'t> {
        self.table
    }

    /// The first value of `key`; `None` if it has none.
    ///
    /// # Errors
    /// The store is damaged where it was read; so for all methods. Those that give keys back have one more:
    /// a key of a type of the program's own was put in by bytes that stand for none.
    pub fn get(&self, key: &K) -> Result<Option<Bytes<'t>>> {
        key.with_bytes(|key| self.table.get(key))
    }

    /// A value that was found, with its key as it is.
    fn found(&self, pair: Result<Option<MultiPair<'t>>>) -> Result<Option<TypedMultiPair<'t, K>>> {
        pair?.map(typed::<K, _>).transpose().map_err(|e| self.table.named(e))
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn contains_key(&self, key: &K) -> Result<bool> {
        key.with_bytes(|key| self.table.contains_key(key))
    }

    /// Whether `key` has this value; see [`MultiTable::contains`].
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn contains(&self, key: &K, value: &[u8]) -> Result<bool> {
        key.with_bytes(|key| self.table.contains(key, value))
    }

    /// The values of `key`, in their order, from either end.
    pub fn values(&self, key: &K) -> Values<'t> {
        key.with_bytes(|key| self.table.values(key))
    }

    /// How many values `key` has; looks at every page that has some of them.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn count(&self, key: &K) -> Result<u64> {
        key.with_bytes(|key| self.table.count(key))
    }

    /// Value number `n` of `key`, counted from 0; `None` if there are not as many.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn nth(&self, key: &K, n: u64) -> Result<Option<Bytes<'t>>> {
        key.with_bytes(|key| self.table.nth(key, n))
    }

    /// How many values there are in all.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// How many values the keys of a range have; looks at every page that has some of them.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn count_range<'k>(&self, keys: impl RangeBounds<&'k K>) -> Result<u64>
    where
        K: 'k,
    {
        let (start, end) = bytes_of(&keys);
        self.table.count_range(as_bounds(&start, &end))
    }

    /// About how many they are; see [`MultiTable::estimate_range`].
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn estimate_range<'k>(&self, keys: impl RangeBounds<&'k K>) -> Result<u64>
    where
        K: 'k,
    {
        let (start, end) = bytes_of(&keys);
        self.table.estimate_range(as_bounds(&start, &end))
    }

    /// The keys of a range with their values, in order, from either end.
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k K>) -> TypedMultiRange<'t, K>
    where
        K: 'k,
    {
        let (start, end) = bytes_of(&keys);
        TypedPairs::new(self.table.range(as_bounds(&start, &end)))
    }

    /// All keys with their values, in order.
    pub fn iter(&self) -> TypedMultiRange<'t, K> {
        TypedPairs::new(self.table.iter())
    }

    /// The first value of the lowest key.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn first(&self) -> Result<Option<TypedMultiPair<'t, K>>> {
        self.found(self.table.first())
    }

    /// The last value of the highest key.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn last(&self) -> Result<Option<TypedMultiPair<'t, K>>> {
        self.found(self.table.last())
    }

    /// The first value of the first key that is not below `key`.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn at_or_after(&self, key: &K) -> Result<Option<TypedMultiPair<'t, K>>> {
        self.found(key.with_bytes(|key| self.table.at_or_after(key)))
    }

    /// The first value of the first key that is above `key`.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn after(&self, key: &K) -> Result<Option<TypedMultiPair<'t, K>>> {
        self.found(key.with_bytes(|key| self.table.after(key)))
    }

    /// The last value of the last key that is below `key`.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn before(&self, key: &K) -> Result<Option<TypedMultiPair<'t, K>>> {
        self.found(key.with_bytes(|key| self.table.before(key)))
    }

    /// The last value of the last key that is not above `key`.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn at_or_before(&self, key: &K) -> Result<Option<TypedMultiPair<'t, K>>> {
        self.found(key.with_bytes(|key| self.table.at_or_before(key)))
    }
}

/// Keys with their values, in order; from [`TypedMulti::range`] and [`TypedMulti::iter`].
pub type TypedMultiRange<'t, K> = TypedPairs<K, MultiRange<'t>>;

/// A table whose keys may have several values, to change by keys of type `K`; from [`MultiTableMut::typed`].
#[derive(Debug)]
pub struct TypedMultiMut<'t, 'c, K: ?Sized> {
    table: MultiTableMut<'t, 'c>,
    keys: PhantomData<fn(&K)>,
}

impl<'c> MultiTableMut<'_, 'c> {
    /// The table by its keys as they are, not by their bytes; see [`MultiTable::typed`].
    ///
    /// # Errors
    /// The table's keys are of another type.
    pub fn typed<K: Key + ?Sized>(&mut self) -> Result<TypedMultiMut<'_, 'c, K>> {
        let read = self.uncounted();
        check::<K>(&read.key_type()?).map_err(|e| read.named(e))?;
        Ok(TypedMultiMut { table: self.borrowed(), keys: PhantomData })
    }
}

impl<'t, 'c, K: Key + ?Sized> TypedMultiMut<'t, 'c, K> {
    /// The same by the bytes of its keys, for as long.
    pub(super) fn into_bytes(self) -> MultiTableMut<'t, 'c> {
        self.table
    }

    /// The table as it is now, to read.
    pub fn read(&self) -> TypedMulti<'_, K> {
        TypedMulti { table: self.table.read(), keys: PhantomData }
    }

    /// The same, to look at it before a change.
    fn uncounted(&self) -> TypedMulti<'_, K> {
        TypedMulti { table: self.table.uncounted(), keys: PhantomData }
    }

    /// The same by the bytes of its keys.
    pub fn bytes(&mut self) -> MultiTableMut<'_, 'c> {
        self.table.borrowed()
    }

    /// The first value of `key`; `None` if it has none.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn get(&self, key: &K) -> Result<Option<Bytes<'_>>> {
        key.with_bytes(|key| self.table.get(key))
    }

    /// Adds a value to a key; see [`MultiTableMut::insert`]. Whether there is one more now.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`]; so for all methods that change something.
    pub fn insert(&mut self, key: &K, value: &[u8]) -> Result<bool> {
        key.with_bytes(|key| self.table.insert(key, value))
    }

    /// Gives a key a value if it has none; whether it did.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn insert_if_absent(&mut self, key: &K, value: &[u8]) -> Result<bool> {
        key.with_bytes(|key| self.table.insert_if_absent(key, value))
    }

    /// Where values are not sorted: puts one at this place among those of its key. `false` if there is
    /// no such place, as the key has too few.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert_at`].
    pub fn insert_at(&mut self, key: &K, position: Position, value: &[u8]) -> Result<bool> {
        key.with_bytes(|key| self.table.insert_at(key, position, value))
    }

    /// Puts another value in the place of one of `key`; see [`MultiTableMut::replace_nth`].
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn replace_nth(&mut self, key: &K, n: u64, value: &[u8]) -> Result<bool> {
        key.with_bytes(|key| self.table.replace_nth(key, n, value))
    }

    /// Takes a key out with all of its values; how many they were.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn remove(&mut self, key: &K) -> Result<u64> {
        key.with_bytes(|key| self.table.remove(key))
    }

    /// Takes a value of a key out, the first one if it has several that are equal; whether it had it.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn remove_value(&mut self, key: &K, value: &[u8]) -> Result<bool> {
        key.with_bytes(|key| self.table.remove_value(key, value))
    }

    /// Takes value number `n` of a key out, counted from 0; whether there was one.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn remove_nth(&mut self, key: &K, n: u64) -> Result<bool> {
        key.with_bytes(|key| self.table.remove_nth(key, n))
    }

    /// Takes all keys of a range out; how many values they had.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn remove_range<'k>(&mut self, keys: impl RangeBounds<&'k K>) -> Result<u64>
    where
        K: 'k,
    {
        let (start, end) = bytes_of(&keys);
        self.table.remove_range(as_bounds(&start, &end))
    }

    /// Takes everything out.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`].
    pub fn clear(&mut self) -> Result<()> {
        self.table.clear()
    }

    /// Fills an empty table with keys and values that come in their order, a key again for each of its values; see
    /// [`MultiTableMut::bulk_load`].
    ///
    /// ```
    /// use credenza::btree::{BTree, Duplicates, TableOptions};
    /// let store = BTree::in_memory()?;
    /// let mut transaction = store.write()?;
    /// let options = TableOptions::of_keys::<u32>().duplicates(Duplicates::Sorted);
    /// transaction.create_table_with("lengths", &options)?;
    /// let mut table = transaction.multi_table("lengths")?.expect("it was just made");
    /// let words = [(3, "ant"), (3, "bee"), (4, "moth")];
    /// assert_eq!(table.typed::<u32>()?.bulk_load(words.map(Ok))?, 3);
    /// assert_eq!(table.read().typed::<u32>()?.count(&3)?, 2);
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`MultiTableMut::bulk_load`].
    pub fn bulk_load<Q: Borrow<K>, V: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = Result<(Q, V)>>,
    ) -> Result<u64> {
        self.table.bulk_load(by_bytes::<K, _, _>(records))
    }

    /// Takes the first value of the lowest key out.
    ///
    /// # Errors
    /// As [`MultiTableMut::insert`]; or as [`TypedMulti::first`], and then it stays.
    pub fn pop_first(&mut self) -> Result<Option<(K::Owned, Vec<u8>)>> {
        self.uncounted().first()?;
        self.table.pop_first()?.map(typed::<K, _>).transpose()
    }

    /// Takes the last value of the highest key out.
    ///
    /// # Errors
    /// As [`TypedMultiMut::pop_first`].
    pub fn pop_last(&mut self) -> Result<Option<(K::Owned, Vec<u8>)>> {
        self.uncounted().last()?;
        self.table.pop_last()?.map(typed::<K, _>).transpose()
    }
}
