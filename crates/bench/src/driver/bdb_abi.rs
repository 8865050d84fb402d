//! BerkeleyDB as its header `db.h` has it: types, numbers, and where its objects have their functions.
//!
//! BerkeleyDB is called through function pointers inside its structs. Where they are is known
//! for one version on 64-bit machines, and any other version is refused.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

/// `DB_ENV`, `DB_TXN`, `DB` and `DBC` of db.h, only ever pointed to.
pub(super) type Env = c_void;
pub(super) type Txn = c_void;
pub(super) type Db = c_void;
pub(super) type Dbc = c_void;

/// `DBT` of db.h.
#[repr(C)]
pub(super) struct Dbt {
    pub(super) data: *mut c_void,
    pub(super) size: u32,
    pub(super) room: u32,
    pub(super) partial_len: u32,
    pub(super) partial_offset: u32,
    pub(super) app_data: *mut c_void,
    pub(super) flags: u32,
}

impl Dbt {
    /// Bytes for the library to read.
    pub(super) fn of(bytes: &[u8]) -> Dbt {
        let data = bytes.as_ptr().cast_mut().cast();
        Dbt { size: bytes.len() as u32, ..Dbt::place(data, 0, 0) }
    }

    /// A place for the library to write to.
    pub(super) fn into_buffer(buffer: &mut [u32]) -> Dbt {
        Dbt::place(buffer.as_mut_ptr().cast(), size_of_val(buffer) as u32, USER_MEMORY)
    }

    /// What the library has put here.
    ///
    /// # Safety
    /// It has, and was not called since.
    pub(super) unsafe fn bytes<'a>(&self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.size as usize) }
    }

    /// The number of a record, for the library to read, or a place for it.
    pub(super) fn number(number: &mut u32) -> Dbt {
        let len = size_of::<u32>() as u32;
        Dbt { size: len, ..Dbt::place((&raw mut *number).cast(), len, USER_MEMORY) }
    }

    /// A place for no byte of what is there: `DB_DBT_PARTIAL`, of length 0.
    pub(super) fn nothing() -> Dbt {
        Dbt::place(null_mut(), 0, USER_MEMORY | PARTIAL)
    }

    pub(super) fn place(data: *mut c_void, room: u32, flags: u32) -> Dbt {
        let (partial_len, partial_offset, app_data) = (0, 0, null_mut());
        Dbt { data, size: 0, room, partial_len, partial_offset, app_data, flags }
    }
}

/// The version whose `DB` struct is described by [`at`].
pub(super) const VERSION: (c_int, c_int, c_int) = (5, 3, 28);

/// Byte offsets of function pointers in `DB`, in `DBC` for the cursor's, in `DB_ENV`, and in `DB_TXN`.
pub(super) mod at {
    pub(in crate::driver) const CLOSE: usize = 568;
    pub(in crate::driver) const CURSOR: usize = 584;
    pub(in crate::driver) const DELETE: usize = 592;
    pub(in crate::driver) const GET: usize = 632;
    pub(in crate::driver) const OPEN: usize = 1008;
    pub(in crate::driver) const PUT: usize = 1024;
    pub(in crate::driver) const SET_COMPARE: usize = 1064;
    pub(in crate::driver) const SET_CACHE_SIZE: usize = 1096;
    pub(in crate::driver) const SET_KEY_COMPRESSION: usize = 1072;
    pub(in crate::driver) const SET_ENCRYPT: usize = 1120;
    pub(in crate::driver) const SET_TELLING: usize = 1128;
    pub(in crate::driver) const SET_FLAGS: usize = 1160;
    pub(in crate::driver) const SET_FILL_FACTOR: usize = 1176;
    pub(in crate::driver) const SET_RECORDS: usize = 1192;
    pub(in crate::driver) const SET_PAGE_SIZE: usize = 1248;
    pub(in crate::driver) const CURSOR_CLOSE: usize = 352;
    pub(in crate::driver) const CURSOR_DELETE: usize = 376;
    pub(in crate::driver) const CURSOR_GET: usize = 392;
    pub(in crate::driver) const CURSOR_PUT: usize = 416;
    pub(in crate::driver) const ENV_CLOSE: usize = 488;
    pub(in crate::driver) const ENV_OPEN: usize = 1328;
    pub(in crate::driver) const ENV_SET_CACHE_SIZE: usize = 1632;
    pub(in crate::driver) const ENV_SET_ENCRYPT: usize = 1680;
    pub(in crate::driver) const ENV_SET_TELLING: usize = 1688;
    pub(in crate::driver) const ENV_SET_FLAGS: usize = 1728;
    pub(in crate::driver) const ENV_SET_LOCK_DETECT: usize = 1800;
    pub(in crate::driver) const ENV_TXN_BEGIN: usize = 2040;
    pub(in crate::driver) const TXN_ABORT: usize = 232;
    pub(in crate::driver) const TXN_COMMIT: usize = 240;
}

pub(super) type Close = unsafe extern "C" fn(*mut Db, u32) -> c_int;
pub(super) type OpenCursor = unsafe extern "C" fn(*mut Db, *mut Txn, *mut *mut Dbc, u32) -> c_int;
pub(super) type Access = unsafe extern "C" fn(*mut Db, *mut Txn, *mut Dbt, *mut Dbt, u32) -> c_int;
pub(super) type Delete = unsafe extern "C" fn(*mut Db, *mut Txn, *mut Dbt, u32) -> c_int;
pub(super) type BeginTxn = unsafe extern "C" fn(*mut Env, *mut Txn, *mut *mut Txn, u32) -> c_int;
pub(super) type CommitTxn = unsafe extern "C" fn(*mut Txn, u32) -> c_int;
pub(super) type AbortTxn = unsafe extern "C" fn(*mut Txn) -> c_int;
pub(super) type Open = unsafe extern "C" fn(
    *mut Db,
    *mut Txn,
    *const c_char,
    *const c_char,
    c_int,
    u32,
    c_int,
) -> c_int;
pub(super) type SetCacheSize = unsafe extern "C" fn(*mut Db, u32, u32, c_int) -> c_int;
pub(super) type OpenEnv = unsafe extern "C" fn(*mut Env, *const c_char, u32, c_int) -> c_int;
pub(super) type SetFlags = unsafe extern "C" fn(*mut Env, u32, c_int) -> c_int;
pub(super) type SetLockDetect = unsafe extern "C" fn(*mut Env, u32) -> c_int;
pub(super) type SetEncrypt = unsafe extern "C" fn(*mut c_void, *const c_char, u32) -> c_int;
/// `set_errcall`: what is called with each of the library's messages.
pub(super) type SetTelling = unsafe extern "C" fn(*mut c_void, Tell);
pub(super) type Tell = unsafe extern "C" fn(*const Env, *const c_char, *const c_char);
/// Two functions of ours, or null for the library's own.
pub(super) type SetKeyCompression =
    unsafe extern "C" fn(*mut Db, *const c_void, *const c_void) -> c_int;
/// Two keys of a `DB`.
pub(super) type Compare = unsafe extern "C" fn(*mut Db, *const Dbt, *const Dbt) -> c_int;
pub(super) type SetCompare = unsafe extern "C" fn(*mut Db, Compare) -> c_int;
pub(super) type SetNumber = unsafe extern "C" fn(*mut Db, u32) -> c_int;
pub(super) type CloseCursor = unsafe extern "C" fn(*mut Dbc) -> c_int;
pub(super) type CursorPut = CursorGet;
pub(super) type CursorDelete = unsafe extern "C" fn(*mut Dbc, u32) -> c_int;
pub(super) type CursorGet = unsafe extern "C" fn(*mut Dbc, *mut Dbt, *mut Dbt, u32) -> c_int;

pub(super) const CREATE: u32 = 0x1;
pub(super) const ENCRYPTED: u32 = 0x1;
pub(super) const NOT_DURABLE: u32 = 0x4;
pub(super) const CHECKSUMMED: u32 = 0x8;
pub(super) const DUPLICATES: u32 = 0x10;
pub(super) const APPEND: u32 = 2;
pub(super) const KEY_FIRST: u32 = 13;
pub(super) const KEY_LAST: u32 = 14;
pub(super) const READ_ONLY: u32 = 0x400;
pub(super) const LAST: u32 = 15;
pub(super) const NEXT: u32 = 16;
/// From where a cursor is not yet anywhere, to the last.
pub(super) const PREVIOUS: u32 = 23;
pub(super) const SET: u32 = 26;
pub(super) const SET_RANGE: u32 = 27;
pub(super) const MULTIPLE_KEY: u32 = 0x4000;
pub(super) const USER_MEMORY: u32 = 0x800;
pub(super) const PARTIAL: u32 = 0x40;
pub(super) const NOT_FOUND: c_int = -30988;
/// Of a record that is numbered: it was removed.
pub(super) const KEY_EMPTY: c_int = -30995;
pub(super) const BUFFER_SMALL: c_int = -30999;
pub(super) const DEADLOCK: c_int = -30993;
/// Of a deadlock that transaction loses which was begun last: `DB_LOCK_YOUNGEST`.
pub(super) const LOCK_YOUNGEST: u32 = 9;
pub(super) const RECOVER: u32 = 0x2;
pub(super) const THREAD: u32 = 0x20;
pub(super) const INIT_LOCK: u32 = 0x100;
pub(super) const AUTO_COMMIT: u32 = 0x100;
pub(super) const TXN_WRITE_NO_SYNC: u32 = 0x20;
/// `DB_CREATE | DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_TXN | DB_PRIVATE`.
pub(super) const PRIVATE_WITH_TRANSACTIONS: u32 = 0x1 | 0x400 | 0x200 | 0x2000 | 0x10000;

/// The function pointer of type `F` at `offset` of a `DB`, `DBC`, `DB_ENV` or `DB_TXN`.
///
/// # Safety
/// `object` was made by the version of the library that the offsets are for, and `F` is the type
/// that its header declares there.
#[inline]
pub(super) unsafe fn method<F: Copy>(object: *mut c_void, offset: usize) -> F {
    // SAFETY: the caller's promise; function pointers are aligned in the struct.
    unsafe { object.cast::<u8>().add(offset).cast::<F>().read() }
}
