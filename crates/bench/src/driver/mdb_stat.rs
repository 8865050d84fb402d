//! What LMDB and libmdbx know of a database: `MDB_stat` and `MDBX_stat`, which begin alike.

#![allow(unsafe_code)]

use super::OwnCount;
use super::library::symbol;
use super::mdb::Txn;
use credenza::Result;
use libloading::Library;
use std::ffi::{c_int, c_uint};

/// `MDBX_stat`; `MDB_stat` ends before the last field.
#[derive(Default)]
#[repr(C)]
pub(super) struct Counts {
    page_size: u32,
    depth: u32,
    branch_pages: u64,
    leaf_pages: u64,
    overflow_pages: u64,
    entries: u64,
    _changed_by: u64,
}

type OfLmdb = unsafe extern "C" fn(*mut Txn, c_uint, *mut Counts) -> c_int;
type OfMdbx = unsafe extern "C" fn(*mut Txn, c_uint, *mut Counts, usize) -> c_int;

/// The function that tells it.
#[derive(Clone, Copy)]
pub(super) enum Stat {
    Lmdb(OfLmdb),
    Mdbx(OfMdbx),
}

impl Stat {
    /// `mdb_stat`.
    pub(super) fn of_lmdb(library: &Library) -> Result<Stat> {
        // SAFETY: the type is the prototype of lmdb.h; whoever has this holds the library.
        unsafe { symbol(library, "mdb_stat") }.map(Stat::Lmdb)
    }

    /// `mdbx_dbi_stat`.
    pub(super) fn of_mdbx(library: &Library) -> Result<Stat> {
        // SAFETY: the type is the prototype of mdbx.h; whoever has this holds the library.
        unsafe { symbol(library, "mdbx_dbi_stat") }.map(Stat::Mdbx)
    }

    /// The answer's status, and what it says.
    ///
    /// # Safety
    /// The transaction is open, of the library that this is of, and the database is its environment's.
    pub(super) unsafe fn ask(self, txn: *mut Txn, dbi: c_uint) -> (c_int, Vec<OwnCount>) {
        let mut counts = Counts::default();
        // SAFETY: the caller's promise, and a place for the answer, which is as long as said.
        let rc = unsafe {
            match self {
                Stat::Lmdb(call) => call(txn, dbi, &raw mut counts),
                Stat::Mdbx(call) => call(txn, dbi, &raw mut counts, size_of::<Counts>()),
            }
        };
        let named = vec![
            ("page_size", u64::from(counts.page_size)),
            ("depth", u64::from(counts.depth)),
            ("branch_pages", counts.branch_pages),
            ("leaf_pages", counts.leaf_pages),
            ("overflow_pages", counts.overflow_pages),
            ("entries", counts.entries),
        ];
        (rc, named)
    }
}
