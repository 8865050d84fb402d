//! What a store can do, as traits: one small trait for each capability.
//!
//! What an engine cannot do it does not implement, so that it does not compile. Values are
//! [`Cow`]: borrowed from the map where a file that never changes is mapped, and copied where it is read with `pread`, and of
//! hash and btree stores. These have ways of their own that copy nothing: [`Hash::get`](crate::hash::Hash::get), and a
//! [`Snapshot`](crate::btree::Snapshot).

use crate::Result;
use std::borrow::Cow;

/// A value, or a key: borrowed from the store's map, or a copy.
pub type Bytes<'a> = Cow<'a, [u8]>;

/// A key with its value.
pub type Record<'a> = (Bytes<'a>, Bytes<'a>);

/// Looking keys up.
pub trait Get {
    /// The first value of `key`, or `None` if the key is absent.
    ///
    /// # Errors
    /// The file is damaged where it was read, or could not be read.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>>;

    /// Every value of `key`, in the order in which they were added; empty if the key is absent.
    ///
    /// # Errors
    /// As [`Get::get`].
    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>>;

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Get::get`].
    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The first value of each of `keys`, in their order: `f` is called once for each with its
    /// index. Stores that can overlap the waits for memory or disk of many lookups do so.
    ///
    /// # Errors
    /// As [`Get::get`]; `f` may then have been called for some of the keys.
    fn get_many<K, F>(&self, keys: &[K], mut f: F) -> Result<()>
    where
        K: AsRef<[u8]>,
        F: FnMut(usize, Option<&[u8]>),
        Self: Sized,
    {
        for (i, key) in keys.iter().enumerate() {
            f(i, self.get(key.as_ref())?.as_deref());
        }
        Ok(())
    }
}

/// Reading every record.
pub trait Scan {
    /// Calls `f` with every key and value; the values of one key come in the order in which they
    /// were added. Stops at the first error, of `f` or of the store, and returns it.
    ///
    /// Where `f` does something that has errors of the system, [`Error::io`](crate::Error::io) makes one of the library of them:
    ///
    /// ```
    /// use credenza::{Error, Scan, hash::Hash};
    /// use std::io::Write;
    /// # let mut out = Vec::new();
    /// let users = Hash::in_memory()?;
    /// users.insert(b"bob", b"1001")?;
    /// users.scan(|key, _| out.write_all(key).map_err(|e| Error::io("write the list", e)))?;
    /// # assert_eq!(out, b"bob");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// What `f` returned, or the file is damaged or could not be read.
    fn scan<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
        Self: Sized;

    /// The same, for who makes another store of the records: whatever the store has checksums of is compared with them
    /// before it is given, so that what damage made of a record gets none that fits. Constant and hash stores are read twice.
    ///
    /// # Errors
    /// As [`Scan::scan`].
    fn scan_checked<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
        Self: Sized,
    {
        self.scan(f)
    }

    /// The same, with the records that the store has at one moment, whatever others write meanwhile. Of a hash store that
    /// many can write, they wait until it returns: what `f` does is to be done soon, and is not to wait for one of them.
    ///
    /// # Errors
    /// As [`Scan::scan`].
    fn scan_moment<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
        Self: Sized,
    {
        self.scan_checked(f)
    }

    /// The number of records: a key with three values counts three times.
    ///
    /// # Errors
    /// For formats that do not record it, counting reads the file: as [`Scan::scan`].
    fn len(&self) -> Result<u64>;

    /// Whether there is no record.
    ///
    /// # Errors
    /// As [`Scan::len`].
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}
