//! What BerkeleyDB does again where it loses.
//!
//! Of threads that wait for each other's pages one is refused. A single operation has then done nothing, and
//! tries again; a transaction has lost all that was done in it, so that it is given up, begun anew, and its
//! changes are done once more, as the library's authors say. The one that was begun last is refused, so that
//! the oldest always comes to its end.

#![allow(unsafe_code)]

use super::bdb_abi::*;
use super::bdb_store::BdbStore;
use std::ffi::c_int;

/// A change within a transaction that may lose.
pub(super) enum Change {
    Put(Vec<u8>, Vec<u8>),
    PutFirst(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
}

impl<const IS_ORDERED: bool> BdbStore<'_, IS_ORDERED> {
    /// Does a call until it is not refused for others.
    #[inline]
    pub(super) fn until_won(&mut self, mut call: impl FnMut(&Self) -> c_int) -> c_int {
        loop {
            match call(self) {
                DEADLOCK => match self.lost() {
                    0 => {}
                    rc => return rc,
                },
                rc => return rc,
            }
        }
    }

    /// After a call was refused: the transaction, if there is one, is where it was before.
    #[cold]
    pub(super) fn lost(&mut self) -> c_int {
        if self.handle.txn.is_null() {
            return 0;
        }
        loop {
            self.handle.abort();
            let begun = self.handle.begin_raw();
            if begun != 0 {
                return begun;
            }
            let rcs = self.done.iter().map(|change| self.redo(change));
            match rcs.into_iter().find(|rc| *rc != 0) {
                Some(DEADLOCK) => {}
                rc => return rc.unwrap_or(0),
            }
        }
    }

    /// A key that is not there is none to be removed, as before.
    fn redo(&self, change: &Change) -> c_int {
        let rc = match change {
            Change::Put(key, value) => self.put_once(&mut Dbt::of(key), &mut Dbt::of(value)),
            Change::PutFirst(key, value) => {
                self.put_first_once(&mut Dbt::of(key), &mut Dbt::of(value))
            }
            Change::Delete(key) => self.delete_once(&mut Dbt::of(key)),
        };
        if rc == NOT_FOUND { 0 } else { rc }
    }

    /// Notes what was done, if it may be lost: in a transaction beside other threads.
    #[inline]
    pub(super) fn note(&mut self, change: impl FnOnce() -> Change) {
        if self.handle.threads != 0 && !self.handle.txn.is_null() {
            self.done.push(change());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bdb_btree::BdbBtree;
    use super::super::tests::fixed;
    use super::super::{Driver, Reading, Shape, Store, Writer};
    use crate::workload::Records;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Danger: a transaction that lost to another one is committed without what it had done before, or never
    /// ends. Each of two has a page that the other one wants.
    #[test]
    fn a_transaction_that_lost_is_done_again_as_a_whole() {
        let driver = match BdbBtree::load(None) {
            Ok(driver) => driver,
            Err(e) => return eprintln!("not tested: {}: {e}", BdbBtree::NAME),
        };
        let records = fixed(8, 40);
        let (shape, folder) = (Shape::of(&records), tempfile::tempdir().unwrap());
        let path = folder.path().join("store");
        let mut crew = driver.committers(&path, &shape, 2, false).unwrap();
        for (key, value) in records.iter() {
            crew.owner().insert(key, value).unwrap();
        }
        let sorted = sorted(&records);
        let [low, high] = [&sorted[..2], &sorted[sorted.len() - 2..]];
        // One changes the lowest key and then the highest but one, the other the highest and then the second.
        let changes = [[&low[0], &high[0]], [&high[1], &low[1]]];
        let (barrier, forgotten) = (Barrier::new(2), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for (handle, [first, second]) in crew.handles.iter_mut().zip(changes) {
                let (barrier, forgotten) = (&barrier, &forgotten);
                scope.spawn(move || {
                    let store = handle.store();
                    for time in 0..20 {
                        barrier.wait();
                        store.begin().unwrap();
                        store.insert(first, &[time; 40]).unwrap();
                        barrier.wait();
                        store.insert(second, &[time; 40]).unwrap();
                        // No panic here: the other one would wait for ever.
                        let mut is_there = false;
                        store.get(first, |got| is_there = got == [time; 40]).unwrap();
                        is_there &= store.remove(second).unwrap();
                        forgotten.fetch_add(u32::from(!is_there), Ordering::Relaxed);
                        store.insert(second, &[time; 40]).unwrap();
                        store.commit().unwrap();
                    }
                });
            }
        });
        assert_eq!(forgotten.into_inner(), 0, "transactions without what they had done");
        crew.into_owner().close().unwrap();
        let mut store = driver.open(&path, &shape, Reading::Warm).unwrap();
        for key in low.iter().chain(high) {
            assert!(store.get(key, |got| assert_eq!(got, [19; 40])).unwrap());
        }
    }

    fn sorted(records: &Records) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> = records.iter().map(|(key, _)| key.to_vec()).collect();
        keys.sort();
        keys
    }
}
