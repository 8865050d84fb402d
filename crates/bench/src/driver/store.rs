//! What is measured: a store that is open for reading, or for changes.

use crate::measure;
use crate::workload::Records;
use credenza::{Error, Result};
use std::fs::File;
use std::io;
use std::path::Path;

/// A counter of a store's own, and how far it is.
pub(crate) type OwnCount = (&'static str, u64);

/// A store open for reading; it closes when dropped.
pub(crate) trait Store {
    /// Whether the records are in the order of their keys, so that there is [`Store::range`].
    const IS_ORDERED: bool = false;
    /// Whether there is [`Store::scan_back`].
    const SCANS_BACK: bool = false;
    /// Whether it has a call of its own for [`Store::preload`].
    const PRELOADS: bool = false;

    /// Gives the value of `key` to `take`, or says `false` if there is none. The bytes need not
    /// live longer than the call.
    fn get(&mut self, key: &[u8], take: impl FnMut(&[u8])) -> Result<bool>;

    /// Calls `take` for each key with its number and value, in order. This one is a plain loop: the way a
    /// user of a store without such a call would do it, or of one whose call takes longer.
    #[inline]
    fn get_many(&mut self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        one_by_one(self, keys, take)
    }

    /// Brings all of the store in `folder` into memory. This one reads its files, as `cat` would.
    fn preload(&mut self, folder: &Path) -> Result<()> {
        read_all(folder)
    }

    /// Sees from here on what a writer beside has stored. Where reads see that anyway there is nothing
    /// to do.
    fn refresh(&mut self) -> Result<()> {
        Ok(())
    }

    /// Gives every record to `take`, in the order the store likes best.
    fn scan(&mut self, take: impl FnMut(&[u8], &[u8])) -> Result<()>;

    /// Gives the first `count` records whose keys are not below `from` to `take`, in order; fewer
    /// when there are no more. Never called where the records are in no order.
    fn range(
        &mut self,
        _from: &[u8],
        _count: usize,
        _take: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        Err(Error::invalid("the records of this store are in no order"))
    }

    /// What the store itself counts or knows of itself, by name; the same names each time. Never called
    /// while anything is timed, so that it may take its time, but counting may not: nothing is switched on
    /// for it.
    fn own_counters(&mut self) -> Result<Vec<OwnCount>> {
        Ok(Vec::new())
    }

    /// Gives every record to `take`, the highest key first, and of several values of a key the last one.
    /// Only called where there is such a thing.
    fn scan_back(&mut self, _take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        Err(Error::invalid("this store is not read backwards here"))
    }
}

/// A store open for changes, one at a time. Its lookups see every change before them.
pub(crate) trait Writer: Store {
    /// Whether there is such a thing.
    const IS_POSSIBLE: bool = true;
    /// Whether there are [`Writer::begin`] and [`Writer::commit`].
    const HAS_TRANSACTIONS: bool = false;
    /// Whether a store is filled in one of those, where its changes are else one each.
    const FILLS_IN_ONE: bool = Self::HAS_TRANSACTIONS;
    /// Whether [`Writer::remove`] looks the key up before, as the store does not say whether it was there.
    const LOOKS_UP_TO_REMOVE: bool = false;

    /// Stores `value` under `key`, in place of any value it had.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Stores `value` under `key` unless that has a value; says whether it did. This one looks first, as a
    /// user of a store without such a call would.
    fn insert_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.get(key, |_| ())? {
            return Ok(false);
        }
        self.insert(key, value).map(|()| true)
    }

    /// Stores `value` as one more of `key`, at the place that the shape says. Only called where the store
    /// was opened for that.
    fn add(&mut self, _key: &[u8], _value: &[u8]) -> Result<()> {
        Err(Error::invalid("keys of this store have one value"))
    }

    /// Begins a transaction, of which all is that follows until [`Writer::commit`]. Only called for a
    /// store of [`Driver::create_committing`] that is in no transaction.
    fn begin(&mut self) -> Result<()> {
        Err(Error::invalid("this store has no transactions of several changes"))
    }

    /// Ends the transaction: what was done in it outlives the process.
    fn commit(&mut self) -> Result<()> {
        Err(Error::invalid("this store has no transactions of several changes"))
    }

    /// Ends the loading of a store: what is stored from here on is done when its call has returned, also
    /// by a store that sends many changes together.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Brings all changes so far to the disk; says whether there is such a call here.
    fn sync(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Removes `key`; says whether it was there.
    fn remove(&mut self, key: &[u8]) -> Result<bool>;

    /// Closes the store: after this another process can open it and find every change.
    fn close(self) -> Result<()>;
}

/// Stores all records, in one transaction or each by itself.
pub(crate) fn fill<W: Writer>(store: &mut W, records: &Records, in_one: bool) -> Result<()> {
    if in_one {
        store.begin()?;
    }
    records.iter().try_for_each(|(key, value)| store.insert(key, value))?;
    if in_one { store.commit() } else { Ok(()) }
}

/// Looks the keys up one after the other.
#[inline]
pub(super) fn one_by_one<S: Store + ?Sized>(
    store: &mut S,
    keys: &[&[u8]],
    mut take: impl FnMut(usize, Option<&[u8]>),
) -> Result<()> {
    for (i, key) in keys.iter().enumerate() {
        if !store.get(key, |value| take(i, Some(value)))? {
            take(i, None);
        }
    }
    Ok(())
}

/// Reads every file in a folder.
fn read_all(folder: &Path) -> Result<()> {
    for path in measure::files_in(folder)? {
        let read = File::open(&path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
        read.map_err(|e| Error::io("read", e).at(&path))?;
    }
    Ok(())
}
