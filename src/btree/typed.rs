//! Tables by keys that are not bytes.

use super::key::{Key, KeyType};
use super::multi::as_bounds;
use super::pairs::Bounds;
use super::range::Range;
use super::source::Names;
use super::table::{Pair, Table};
use super::table_mut::TableMut;
use crate::{Error, Result};
use std::borrow::Borrow;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// A table to read by keys of type `K`; from [`Table::typed`].
#[derive(Debug)]
pub struct Typed<'t, K: ?Sized> {
    table: Table<'t>,
    keys: PhantomData<fn(&K)>,
}

impl<K: ?Sized> Clone for Typed<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized> Copy for Typed<'_, K> {}

/// A key and its value.
pub type TypedPair<'t, K> = (<K as Key>::Owned, &'t [u8]);

impl<'t> Table<'t> {
    /// The table by its keys as they are, not by their bytes.
    ///
    /// ```
    /// use credenza::btree::{BTree, TableOptions};
    /// let store = BTree::in_memory()?;
    /// let mut transaction = store.write()?;
    /// transaction.create_table_with("celsius", &TableOptions::of_keys::<f64>())?;
    /// let mut table = transaction.table("celsius")?.expect("it was just made");
    /// for (degrees, what) in [(0.0, "water freezes"), (-38.83, "mercury freezes")] {
    ///     table.typed::<f64>()?.insert(&degrees, what.as_bytes())?;
    /// }
    /// let coldest = table.read().typed::<f64>()?.first()?;
    /// assert_eq!(coldest, Some((-38.83, &b"mercury freezes"[..])));
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// The table's keys are of another type.
    pub fn typed<K: Key + ?Sized>(self) -> Result<Typed<'t, K>> {
        check::<K>(&self.key_type()?).map_err(|e| self.named(e))?;
        Ok(Typed { table: self, keys: PhantomData })
    }
}

pub(super) fn check<K: Key + ?Sized>(found: &KeyType) -> Result<()> {
    if found.name() == K::NAME {
        return Ok(());
    }
    Err(Error::invalid(format!("the table's keys are of type {found}, not {}", K::NAME)))
}

/// A range of keys as their bytes.
pub(super) fn bytes_of<'k, K: Key + ?Sized + 'k>(keys: &impl RangeBounds<&'k K>) -> Bounds {
    let bytes = |bound: Bound<&&'k K>| bound.map(|key| key.to_bytes());
    (bytes(keys.start_bound()), bytes(keys.end_bound()))
}

/// Records by the bytes of their keys.
pub(super) fn by_bytes<K: Key + ?Sized, Q: Borrow<K>, V>(
    records: impl IntoIterator<Item = Result<(Q, V)>>,
) -> impl Iterator<Item = Result<(Vec<u8>, V)>> {
    records.into_iter().map(|record| {
        let (key, value) = record?;
        Ok((key.borrow().to_bytes(), value))
    })
}

/// The key of a record that was read.
pub(super) fn typed<K: Key + ?Sized, V>((key, value): (Vec<u8>, V)) -> Result<(K::Owned, V)> {
    Ok((key_of::<K>(&key)?, value))
}

/// A key that was read.
pub(super) fn key_of<K: Key + ?Sized>(key: &[u8]) -> Result<K::Owned> {
    K::from_bytes(key).ok_or_else(|| no_key::<K>(key))
}

#[cold]
fn no_key<K: Key + ?Sized>(key: &[u8]) -> Error {
    let (key, name) = (key.escape_ascii(), K::NAME);
    match KeyType::named(name) {
        KeyType::Binary => Error::invalid(format!(
            "a key, \"{key}\", that is longer or shorter than the keys that the table was to be read by"
        )),
        // Whoever puts keys in by their bytes need not know the type, so that any bytes may be there.
        KeyType::Other(_) => Error::invalid(format!(
            "a key, \"{key}\", that is none of type {name}, which the table's keys have: it was put in by its bytes"
        )),
        _ => Error::corrupt(0, format!("a key, \"{key}\", that is no {name}")),
    }
}

impl<'t, K: Key + ?Sized> Typed<'t, K> {
    /// The same by the bytes of its keys.
    pub fn bytes(&self) -> Table<'t> {
        self.table
    }

    /// The value of `key`; `None` if it is absent.
    ///
    /// # Errors
    /// The store is damaged where it was read; so for all methods. Those that give keys back have one more:
    /// a key of a type of the program's own was put in by bytes that stand for none.
    #[inline]
    pub fn get(&self, key: &K) -> Result<Option<&'t [u8]>> {
        key.with_bytes(|key| self.table.get(key))
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn contains_key(&self, key: &K) -> Result<bool> {
        key.with_bytes(|key| self.table.contains_key(key))
    }

    /// A record that was found, by its key as it is.
    fn found(&self, pair: Result<Option<Pair<'t>>>) -> Result<Option<TypedPair<'t, K>>> {
        pair?.map(typed::<K, _>).transpose().map_err(|e| self.table.named(e))
    }

    /// The value of each key; see [`Table::get_many`].
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn get_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k K>,
        f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()>
    where
        K: 'k,
    {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(Key::to_bytes).collect();
        self.table.get_many(&keys, f)
    }

    /// How many records have keys in a range; see [`Table::count_range`].
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn count_range<'k>(&self, keys: impl RangeBounds<&'k K>) -> Result<u64>
    where
        K: 'k,
    {
        let (start, end) = bytes_of(&keys);
        self.table.count_range(as_bounds(&start, &end))
    }

    /// About how many they are; see [`Table::estimate_range`].
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn estimate_range<'k>(&self, keys: impl RangeBounds<&'k K>) -> Result<u64>
    where
        K: 'k,
    {
        let (start, end) = bytes_of(&keys);
        self.table.estimate_range(as_bounds(&start, &end))
    }

    /// How many records there are.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The records whose keys are in a range, in order, from either end.
    pub fn range<'k>(&self, keys: impl RangeBounds<&'k K>) -> TypedRange<'t, K>
    where
        K: 'k,
    {
        let (start, end) = bytes_of(&keys);
        TypedPairs::new(self.table.range(as_bounds(&start, &end)))
    }

    /// All records, in order.
    pub fn iter(&self) -> TypedRange<'t, K> {
        TypedPairs::new(self.table.iter())
    }

    /// The record with the lowest key.
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn first(&self) -> Result<Option<TypedPair<'t, K>>> {
        self.found(self.table.first())
    }

    /// The record with the highest key.
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn last(&self) -> Result<Option<TypedPair<'t, K>>> {
        self.found(self.table.last())
    }

    /// The first record whose key is not below `key`.
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn at_or_after(&self, key: &K) -> Result<Option<TypedPair<'t, K>>> {
        self.found(key.with_bytes(|key| self.table.at_or_after(key)))
    }

    /// The first record whose key is above `key`.
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn after(&self, key: &K) -> Result<Option<TypedPair<'t, K>>> {
        self.found(key.with_bytes(|key| self.table.after(key)))
    }

    /// The last record whose key is below `key`.
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn before(&self, key: &K) -> Result<Option<TypedPair<'t, K>>> {
        self.found(key.with_bytes(|key| self.table.before(key)))
    }

    /// The last record whose key is not above `key`.
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn at_or_before(&self, key: &K) -> Result<Option<TypedPair<'t, K>>> {
        self.found(key.with_bytes(|key| self.table.at_or_before(key)))
    }
}

/// Records in the order of their keys; from [`Typed::range`] and [`Typed::iter`].
pub type TypedRange<'t, K> = TypedPairs<K, Range<'t>>;

/// Keys of type `K` and values, in order, of a range of bytes and values: a [`TypedRange`], or a
/// [`TypedMultiRange`](super::TypedMultiRange).
#[derive(Debug)]
pub struct TypedPairs<K: ?Sized, R> {
    range: R,
    keys: PhantomData<fn(&K)>,
}

impl<K: ?Sized, R> TypedPairs<K, R> {
    pub(super) fn new(range: R) -> TypedPairs<K, R> {
        TypedPairs { range, keys: PhantomData }
    }
}

#[allow(private_bounds, reason = "there are two ranges, and no others")]
impl<K: Key + ?Sized, R: Names> TypedPairs<K, R> {
    fn found<V>(&self, pair: Result<(Vec<u8>, V)>) -> Result<(K::Owned, V)> {
        typed::<K, _>(pair?).map_err(|e| self.range.named(e))
    }
}

impl<K, V, R> Iterator for TypedPairs<K, R>
where
    K: Key + ?Sized,
    R: Iterator<Item = Result<(Vec<u8>, V)>> + Names,
{
    type Item = Result<(K::Owned, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.range.next()?;
        Some(self.found(pair))
    }
}

impl<K, V, R> DoubleEndedIterator for TypedPairs<K, R>
where
    K: Key + ?Sized,
    R: DoubleEndedIterator<Item = Result<(Vec<u8>, V)>> + Names,
{
    fn next_back(&mut self) -> Option<Self::Item> {
        let pair = self.range.next_back()?;
        Some(self.found(pair))
    }
}

impl<K, V, R> FusedIterator for TypedPairs<K, R>
where
    K: Key + ?Sized,
    R: FusedIterator<Item = Result<(Vec<u8>, V)>> + Names,
{
}

/// A table to change by keys of type `K`; from [`TableMut::typed`].
#[derive(Debug)]
pub struct TypedMut<'t, 'c, K: ?Sized> {
    table: TableMut<'t, 'c>,
    keys: PhantomData<fn(&K)>,
}

impl<'c> TableMut<'_, 'c> {
    /// The table by its keys as they are, not by their bytes; see [`Table::typed`].
    ///
    /// # Errors
    /// The table's keys are of another type.
    pub fn typed<K: Key + ?Sized>(&mut self) -> Result<TypedMut<'_, 'c, K>> {
        let read = self.read();
        check::<K>(&read.key_type()?).map_err(|e| read.named(e))?;
        Ok(TypedMut { table: self.borrowed(), keys: PhantomData })
    }
}

impl<'t, 'c, K: Key + ?Sized> TypedMut<'t, 'c, K> {
    /// The same by the bytes of its keys, for as long.
    pub(super) fn into_bytes(self) -> TableMut<'t, 'c> {
        self.table
    }

    /// The table as it is now, to read.
    pub fn read(&self) -> Typed<'_, K> {
        Typed { table: self.table.read(), keys: PhantomData }
    }

    /// The same, to look at it before a change.
    fn uncounted(&self) -> Typed<'_, K> {
        Typed { table: self.table.uncounted(), keys: PhantomData }
    }

    /// The same by the bytes of its keys.
    pub fn bytes(&mut self) -> TableMut<'_, 'c> {
        self.table.borrowed()
    }

    /// The value of `key`; `None` if it is absent.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn get(&self, key: &K) -> Result<Option<&[u8]>> {
        key.with_bytes(|key| self.table.get(key))
    }

    /// Puts a value; whether it replaced one.
    ///
    /// # Errors
    /// As [`TableMut::insert`]; so for all methods that change something.
    #[inline]
    pub fn insert(&mut self, key: &K, value: &[u8]) -> Result<bool> {
        key.with_bytes(|key| self.table.insert(key, value))
    }

    /// Puts a value if there is none; whether it did.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn insert_if_absent(&mut self, key: &K, value: &[u8]) -> Result<bool> {
        key.with_bytes(|key| self.table.insert_if_absent(key, value))
    }

    /// In a table whose records are numbered: puts a value under the next number; see [`TableMut::append`].
    ///
    /// # Errors
    /// As [`TableMut::append`].
    pub fn append(&mut self, value: &[u8]) -> Result<u64> {
        self.table.append(value)
    }

    /// Fills an empty table with records that come in the order of their keys; see [`TableMut::bulk_load`].
    ///
    /// ```
    /// use credenza::btree::{BTree, TableOptions};
    /// let store = BTree::in_memory()?;
    /// let mut transaction = store.write()?;
    /// transaction.create_table_with("squares", &TableOptions::of_keys::<u32>())?;
    /// let mut table = transaction.table("squares")?.expect("it was just made");
    /// table.typed::<u32>()?.bulk_load((0..1000).map(|i| Ok((i * i, "a square"))))?;
    /// assert_eq!(table.read().typed::<u32>()?.before(&50)?.map(|(key, _)| key), Some(49));
    /// # Ok::<(), credenza::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`TableMut::bulk_load`].
    pub fn bulk_load<Q: Borrow<K>, V: AsRef<[u8]>>(
        &mut self,
        records: impl IntoIterator<Item = Result<(Q, V)>>,
    ) -> Result<u64> {
        self.table.bulk_load(by_bytes::<K, _, _>(records))
    }

    /// Takes all records out.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn clear(&mut self) -> Result<()> {
        self.table.clear()
    }

    /// Takes a key out; whether it was there.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn remove(&mut self, key: &K) -> Result<bool> {
        key.with_bytes(|key| self.table.remove(key))
    }

    /// Takes all keys of a range out; how many.
    ///
    /// # Errors
    /// As [`TableMut::insert`].
    pub fn remove_range<'k>(&mut self, keys: impl RangeBounds<&'k K>) -> Result<u64>
    where
        K: 'k,
    {
        let (start, end) = bytes_of(&keys);
        self.table.remove_range(as_bounds(&start, &end))
    }

    /// Takes the record with the lowest key out.
    ///
    /// # Errors
    /// As [`TableMut::insert`]; or as [`Typed::first`], and then it stays.
    pub fn pop_first(&mut self) -> Result<Option<(K::Owned, Vec<u8>)>> {
        self.uncounted().first()?;
        self.table.pop_first()?.map(typed::<K, _>).transpose()
    }

    /// Takes the record with the highest key out.
    ///
    /// # Errors
    /// As [`TypedMut::pop_first`].
    pub fn pop_last(&mut self) -> Result<Option<(K::Owned, Vec<u8>)>> {
        self.uncounted().last()?;
        self.table.pop_last()?.map(typed::<K, _>).transpose()
    }
}
