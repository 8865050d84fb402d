//! Cursors in tables whose keys are not bytes and may have several values.

use super::cursor_mut::CursorMut;
use super::key::Key;
use super::multi_cursor::{Among, MultiCursor};
use super::table::Cursor;
use super::typed::key_of;
use super::typed_multi::{TypedMulti, TypedMultiMut};
use crate::{Bytes, Result};
use std::marker::PhantomData;

/// A place in a table whose keys may have several values, by keys of type `K`, as a [`MultiCursor`]; from
/// [`TypedMulti::cursor`].
///
/// ```
/// use credenza::btree::{BTree, Duplicates, TableOptions};
/// let store = BTree::in_memory()?;
/// let mut transaction = store.write()?;
/// let options = TableOptions::of_keys::<u32>().duplicates(Duplicates::Sorted);
/// transaction.create_table_with("words", &options)?;
/// let mut words = transaction.multi_table("words")?.expect("it was just made");
/// let mut words = words.typed::<u32>()?;
/// for word in ["bee", "ant", "wasp"] {
///     words.insert(&(word.len() as u32), word.as_bytes())?;
/// }
/// let reading = words.read();
/// let mut cursor = reading.cursor();
/// assert!(cursor.find(&3)? && cursor.next_value()?);
/// assert_eq!((cursor.key()?, cursor.value()?.as_deref()), (Some(3), Some(&b"bee"[..])));
/// assert!(cursor.next_key()?);
/// assert_eq!(cursor.key()?, Some(4));
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
pub struct TypedMultiCursor<'t, K: ?Sized, C = Cursor<'t>> {
    cursor: MultiCursor<'t, C>,
    keys: PhantomData<fn(&K)>,
}

/// One in a table that is being changed; from [`TypedMultiMut::cursor`].
pub type TypedMultiCursorMut<'t, 'c, K> = TypedMultiCursor<'t, K, CursorMut<'t, 'c>>;

impl<'t, K: Key + ?Sized> TypedMulti<'t, K> {
    /// A cursor before the first value of the lowest key.
    pub fn cursor(&self) -> TypedMultiCursor<'t, K> {
        TypedMultiCursor { cursor: self.bytes().cursor(), keys: PhantomData }
    }
}

impl<'t, 'c, K: Key + ?Sized> TypedMultiMut<'t, 'c, K> {
    /// A cursor before the first value of the lowest key, which changes what it is at.
    pub fn cursor(self) -> TypedMultiCursorMut<'t, 'c, K> {
        TypedMultiCursor { cursor: self.into_bytes().cursor(), keys: PhantomData }
    }
}

#[allow(private_bounds, reason = "there are two cursors, and no others")]
impl<K: Key + ?Sized, C: Among> TypedMultiCursor<'_, K, C> {
    /// The key here; `None` before the first value, behind the last, and where one was taken out.
    ///
    /// # Errors
    /// A key of a type of the program's own was put in by bytes that stand for none.
    pub fn key(&self) -> Result<Option<K::Owned>> {
        let key = self.cursor.key().map(key_of::<K>).transpose();
        key.map_err(|e| self.cursor.raw.table().named(e))
    }

    /// Goes to the first value of the lowest key; whether there is one.
    ///
    /// # Errors
    /// The store is damaged where it was read; so for all methods that go somewhere, or count.
    pub fn first(&mut self) -> Result<bool> {
        self.cursor.first()
    }

    /// Goes to the last value of the highest key; whether there is one.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn last(&mut self) -> Result<bool> {
        self.cursor.last()
    }

    /// Goes to the first value of the first key that is not below `key`; if there is none, behind the last. Whether
    /// there is one.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn seek(&mut self, key: &K) -> Result<bool> {
        key.with_bytes(|key| self.cursor.seek(key))
    }

    /// The same; whether its key is `key`.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn find(&mut self, key: &K) -> Result<bool> {
        key.with_bytes(|key| self.cursor.find(key))
    }

    /// Where values are sorted: goes to the first value of `key` that is not below `value`; see
    /// [`MultiCursor::seek_value`].
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`]; or values are not sorted.
    pub fn seek_value(&mut self, key: &K, value: &[u8]) -> Result<bool> {
        key.with_bytes(|key| self.cursor.seek_value(key, value))
    }

    /// Goes to the next value, of this key or of the next; whether there is one.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<bool> {
        self.cursor.next()
    }

    /// Goes to the value before, of this key or of the one before; whether there is one.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn previous(&mut self) -> Result<bool> {
        self.cursor.previous()
    }

    /// Goes to the first value of the next key; whether there is one.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn next_key(&mut self) -> Result<bool> {
        self.cursor.next_key()
    }

    /// Goes to the last value of the key before; whether there is one.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn previous_key(&mut self) -> Result<bool> {
        self.cursor.previous_key()
    }

    /// Goes to the next value of this key; if there is none it stays where it is. Whether there is one.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn next_value(&mut self) -> Result<bool> {
        self.cursor.next_value()
    }

    /// Goes to the value of this key before; if there is none it stays where it is. Whether there is one.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn previous_value(&mut self) -> Result<bool> {
        self.cursor.previous_value()
    }

    /// Goes to the first value of this key; whether the cursor is at one.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn first_value(&mut self) -> Result<bool> {
        self.cursor.first_value()
    }

    /// Goes to the last value of this key; whether the cursor is at one.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn last_value(&mut self) -> Result<bool> {
        self.cursor.last_value()
    }

    /// How many values this key has, also where one of them was taken out; 0 before the first value and behind the last.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn count(&self) -> Result<u64> {
        self.cursor.count()
    }

    /// How many values of this key are before this one; `None` if the cursor is at none.
    ///
    /// # Errors
    /// As [`TypedMultiCursor::first`].
    pub fn position(&self) -> Result<Option<u64>> {
        self.cursor.position()
    }
}

impl<'t, K: Key + ?Sized> TypedMultiCursor<'t, K> {
    /// The value here; `None` if the cursor is at none.
    ///
    /// # Errors
    /// As [`TypedMulti::get`].
    pub fn value(&self) -> Result<Option<Bytes<'t>>> {
        self.cursor.value()
    }
}

impl<K: Key + ?Sized> TypedMultiCursorMut<'_, '_, K> {
    /// The value here; `None` if the cursor is at none.
    ///
    /// # Errors
    /// The store is damaged where it was read.
    pub fn value(&self) -> Result<Option<Bytes<'_>>> {
        self.cursor.value()
    }

    /// Puts another value in the place of the one here; see
    /// [`MultiCursorMut::put`](super::MultiCursorMut::put) for where it goes.
    ///
    /// # Errors
    /// The cursor is at no value, or as [`MultiTableMut::insert`](super::MultiTableMut::insert).
    pub fn put(&mut self, value: &[u8]) -> Result<()> {
        self.cursor.put(value)
    }

    /// Where values are not sorted: puts a value before the one here, and goes to it.
    ///
    /// # Errors
    /// Values are sorted, or as [`TypedMultiCursorMut::put`].
    pub fn insert_before(&mut self, value: &[u8]) -> Result<()> {
        self.cursor.insert_before(value)
    }

    /// Where values are not sorted: puts a value behind the one here, and goes to it.
    ///
    /// # Errors
    /// As [`TypedMultiCursorMut::insert_before`].
    pub fn insert_after(&mut self, value: &[u8]) -> Result<()> {
        self.cursor.insert_after(value)
    }

    /// Takes the value here out.
    ///
    /// # Errors
    /// As [`TypedMultiCursorMut::put`].
    pub fn remove(&mut self) -> Result<()> {
        self.cursor.remove()
    }
}
