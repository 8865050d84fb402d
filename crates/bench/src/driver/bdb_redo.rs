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
