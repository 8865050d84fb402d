//! Cursors in tables by keys that are not bytes.

use super::cursor_mut::CursorMut;
use super::key::Key;
use super::multi_cursor::Among;
use super::table::Cursor;
use super::typed::{Typed, TypedMut, key_of};
use crate::Result;
use std::marker::PhantomData;

/// A place in a table by keys of type `K`, as a [`Cursor`]; from [`Typed::cursor`].
///
/// ```
/// use credenza::btree::{BTree, TableOptions};
/// let store = BTree::in_memory()?;
/// let mut transaction = store.write()?;
/// transaction.create_table_with("heights", &TableOptions::of_keys::<i64>())?;
/// let mut table = transaction.table("heights")?.expect("it was just made");
/// let mut table = table.typed::<i64>()?;
/// for (metres, what) in [(8849, "Everest"), (-10935, "Challenger Deep"), (4806, "Mont Blanc")] {
///     table.insert(&metres, what.as_bytes())?;
/// }
/// let reading = table.read();
/// let mut cursor = reading.cursor();
/// assert!(cursor.seek(&0)?);
/// assert_eq!((cursor.key()?, cursor.value()?), (Some(4806), Some(&b"Mont Blanc"[..])));
/// assert!(cursor.previous()?);
/// assert_eq!(cursor.key()?, Some(-10935));
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Debug)]
pub struct TypedCursor<'t, K: ?Sized> {
    cursor: Cursor<'t>,
    keys: PhantomData<fn(&K)>,
}

/// A place in a table that is being changed, by keys of type `K`, as a [`CursorMut`]; from [`TypedMut::cursor`].
#[derive(Debug)]
pub struct TypedCursorMut<'t, 'c, K: ?Sized> {
    cursor: CursorMut<'t, 'c>,
    keys: PhantomData<fn(&K)>,
}

impl<'t, K: Key + ?Sized> Typed<'t, K> {
    /// A cursor before the first record.
    pub fn cursor(&self) -> TypedCursor<'t, K> {
        TypedCursor { cursor: self.bytes().cursor(), keys: PhantomData }
    }
}

impl<'t, 'c, K: Key + ?Sized> TypedMut<'t, 'c, K> {
    /// A cursor before the first record, which changes what it is at.
    pub fn cursor(self) -> TypedCursorMut<'t, 'c, K> {
        TypedCursorMut { cursor: self.into_bytes().cursor(), keys: PhantomData }
    }
}

/// What both kinds of cursors do.
macro_rules! moves {
    ($error:literal) => {
        /// The key here; `None` if it is at no record.
        ///
        /// # Errors
        #[doc = $error]
        /// Or a key of a type of the program's own was put in by bytes that stand for none.
        pub fn key(&self) -> Result<Option<K::Owned>> {
            let key = self.cursor.key().map(key_of::<K>).transpose();
            key.map_err(|e| Among::table(&self.cursor).named(e))
        }

        /// Goes to the first record; whether there is one.
        ///
        /// # Errors
        #[doc = $error]
        pub fn first(&mut self) -> Result<bool> {
            self.cursor.first()
        }

        /// Goes to the last record; whether there is one.
        ///
        /// # Errors
        #[doc = $error]
        pub fn last(&mut self) -> Result<bool> {
            self.cursor.last()
        }

        /// Goes to the first record whose key is not below `key`; if there is none, behind the last. Whether there is
        /// one.
        ///
        /// # Errors
        #[doc = $error]
        pub fn seek(&mut self, key: &K) -> Result<bool> {
            key.with_bytes(|key| self.cursor.seek(key))
        }

        /// The same; whether its key is `key`.
        ///
        /// # Errors
        #[doc = $error]
        pub fn find(&mut self, key: &K) -> Result<bool> {
            key.with_bytes(|key| self.cursor.find(key))
        }

        /// Goes to the next record; whether there is one. From before the first, to the first.
        ///
        /// # Errors
        #[doc = $error]
        #[allow(clippy::should_implement_trait)]
        pub fn next(&mut self) -> Result<bool> {
            self.cursor.next()
        }

        /// Goes to the record before; whether there is one. From behind the last, to the last.
        ///
        /// # Errors
        #[doc = $error]
        pub fn previous(&mut self) -> Result<bool> {
            self.cursor.previous()
        }
    };
}

impl<'t, K: Key + ?Sized> TypedCursor<'t, K> {
    /// The value here; `None` if it is at no record.
    ///
    /// # Errors
    /// As [`Typed::get`].
    pub fn value(&self) -> Result<Option<&'t [u8]>> {
        self.cursor.value()
    }

    moves!("As [`Typed::get`].");
}

impl<K: Key + ?Sized> TypedCursorMut<'_, '_, K> {
    /// The value here; `None` if it is at no record.
    ///
    /// # Errors
    /// As [`CursorMut::value`].
    pub fn value(&self) -> Result<Option<&[u8]>> {
        self.cursor.value()
    }

    moves!("As [`CursorMut::value`].");

    /// Gives the key here another value.
    ///
    /// # Errors
    /// It is at no record, or as [`TableMut::insert`](super::TableMut::insert).
    pub fn put(&mut self, value: &[u8]) -> Result<()> {
        self.cursor.put(value)
    }

    /// Takes the record here out; [`TypedCursorMut::next`] goes to the one behind it then, and
    /// [`TypedCursorMut::previous`] to the one before.
    ///
    /// # Errors
    /// As [`TypedCursorMut::put`].
    pub fn remove(&mut self) -> Result<()> {
        self.cursor.remove()
    }
}
