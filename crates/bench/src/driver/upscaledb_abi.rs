//! upscaledb as its header `ups/upscaledb.h` has it: types, functions and numbers.

#![allow(unsafe_code)]

use super::library::{api, symbol};
use super::{OwnCount, refused};
use crate::settings::{Chosen, Codec};
use credenza::Result;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

/// `ups_env_t`, `ups_db_t`, `ups_txn_t` and `ups_cursor_t`, only ever pointed to.
pub(super) type Env = c_void;
pub(super) type Db = c_void;
pub(super) type Txn = c_void;
pub(super) type Cursor = c_void;

/// `ups_key_t`.
#[repr(C)]
pub(super) struct Key {
    pub(super) size: u16,
    pub(super) data: *const u8,
    pub(super) flags: u32,
    pub(super) own_flags: u32,
}

impl Key {
    /// Whether the library has put another key here than was looked for (`BtreeKey::kApproximate`).
    #[inline]
    pub(super) fn is_neighbour(&self) -> bool {
        self.own_flags & 0x3_0000 != 0
    }
}

/// `ups_record_t`.
#[repr(C)]
pub(super) struct Record {
    pub(super) size: u32,
    pub(super) data: *const u8,
    pub(super) flags: u32,
}

/// `ups_operation_t` of `ups/upscaledb_int.h`: one of many that are done at once, and how it ended.
#[repr(C)]
pub(super) struct Operation {
    kind: c_int,
    key: Key,
    pub(super) record: Record,
    flags: u32,
    pub(super) result: c_int,
}

impl Operation {
    /// A lookup.
    #[inline]
    pub(super) fn find(key: Key) -> Operation {
        let record = Record { size: 0, data: null(), flags: 0 };
        Operation { kind: FIND, key, record, flags: 0, result: 0 }
    }
}

/// `ups_parameter_t`; the last of a list has the name 0.
#[repr(C)]
pub(super) struct Parameter {
    pub(super) name: u32,
    pub(super) value: u64,
}

/// `ups_env_metrics_t` of `ups/upscaledb_int.h`, version 9.
#[repr(C)]
pub(super) struct Metrics {
    version: u16,
    counts: [u64; METRICS.len()],
    /// Longer than what follows: two structs of 216 bytes about nodes, and a flag.
    _rest: [u64; 64],
}

/// The names of the fields that count.
const METRICS: [&str; 27] = [
    "mem_total_allocations",
    "mem_current_allocations",
    "mem_current_usage",
    "mem_peak_usage",
    "mem_heap_size",
    "page_count_fetched",
    "page_count_flushed",
    "page_count_type_index",
    "page_count_type_blob",
    "page_count_type_page_manager",
    "freelist_hits",
    "freelist_misses",
    "cache_hits",
    "cache_misses",
    "blob_total_allocated",
    "blob_total_read",
    "btree_smo_split",
    "btree_smo_merge",
    "extended_keys",
    "extended_duptables",
    "journal_bytes_flushed",
    "journal_bytes_before_compression",
    "journal_bytes_after_compression",
    "record_bytes_before_compression",
    "record_bytes_after_compression",
    "key_bytes_before_compression",
    "key_bytes_after_compression",
];

impl Metrics {
    const VERSION: u16 = 9;

    pub(super) fn none() -> Metrics {
        Metrics { version: 0, counts: [0; METRICS.len()], _rest: [0; 64] }
    }

    /// Each count with its name; none of another version, whose fields are others.
    pub(super) fn named(&self) -> Vec<OwnCount> {
        match self.version {
            Metrics::VERSION => METRICS.into_iter().zip(self.counts).collect(),
            _ => Vec::new(),
        }
    }
}

/// Two keys of a database.
pub(super) type Compare = unsafe extern "C" fn(*mut Db, *const u8, u32, *const u8, u32) -> c_int;

api! {
    pub(super) struct Api {
        ups_get_version: unsafe extern "C" fn(*mut u32, *mut u32, *mut u32),
        ups_strerror: unsafe extern "C" fn(c_int) -> *const c_char,
        ups_register_compare: unsafe extern "C" fn(*const c_char, Compare) -> c_int,
        ups_env_create: unsafe extern "C" fn(*mut *mut Env, *const c_char, u32, u32, *const Parameter) -> c_int,
        ups_env_open: unsafe extern "C" fn(*mut *mut Env, *const c_char, u32, *const Parameter) -> c_int,
        ups_env_close: unsafe extern "C" fn(*mut Env, u32) -> c_int,
        ups_env_create_db: unsafe extern "C" fn(*mut Env, *mut *mut Db, u16, u32, *const Parameter) -> c_int,
        ups_env_erase_db: unsafe extern "C" fn(*mut Env, u16, u32) -> c_int,
        ups_env_open_db: unsafe extern "C" fn(*mut Env, *mut *mut Db, u16, u32, *const Parameter) -> c_int,
        ups_txn_begin: unsafe extern "C" fn(*mut *mut Txn, *mut Env, *const c_char, *mut c_void, u32) -> c_int,
        ups_txn_commit: unsafe extern "C" fn(*mut Txn, u32) -> c_int,
        ups_txn_abort: unsafe extern "C" fn(*mut Txn, u32) -> c_int,
        ups_db_close: unsafe extern "C" fn(*mut Db, u32) -> c_int,
        ups_db_find: unsafe extern "C" fn(*mut Db, *mut Txn, *mut Key, *mut Record, u32) -> c_int,
        ups_db_insert: unsafe extern "C" fn(*mut Db, *mut Txn, *mut Key, *mut Record, u32) -> c_int,
        ups_db_erase: unsafe extern "C" fn(*mut Db, *mut Txn, *mut Key, u32) -> c_int,
        ups_db_bulk_operations: unsafe extern "C" fn(*mut Db, *mut Txn, *mut Operation, usize, u32) -> c_int,
        ups_cursor_create: unsafe extern "C" fn(*mut *mut Cursor, *mut Db, *mut Txn, u32) -> c_int,
        ups_cursor_move: unsafe extern "C" fn(*mut Cursor, *mut Key, *mut Record, u32) -> c_int,
        ups_cursor_find: unsafe extern "C" fn(*mut Cursor, *mut Key, *mut Record, u32) -> c_int,
        ups_cursor_insert: unsafe extern "C" fn(*mut Cursor, *mut Key, *mut Record, u32) -> c_int,
        ups_cursor_close: unsafe extern "C" fn(*mut Cursor) -> c_int,
        ups_env_get_metrics: unsafe extern "C" fn(*mut Env, *mut Metrics) -> c_int,
    }
}

/// Variables of the library that its own benchmark sets, and no function: 0 leaves the choice to it. They hold
/// for all databases of the process.
pub(super) struct Thresholds {
    extended_key: Option<&'static AtomicU32>,
    duplicate: Option<&'static AtomicU32>,
}

impl Thresholds {
    pub(super) fn of(library: &Library) -> Thresholds {
        let find = |name: &str| {
            // SAFETY: both are `static uint32_t` in its `1globals/globals.h`; only their address is taken.
            let place = unsafe { symbol::<*mut u32>(library, name) }.ok()?;
            // SAFETY: a variable of a library that stays in memory until the process ends, aligned as
            // its type asks. The library only reads it.
            (!place.is_null()).then(|| unsafe { AtomicU32::from_ptr(place) })
        };
        Thresholds {
            extended_key: find("_ZN9upscaledb7Globals21ms_extended_thresholdE"),
            duplicate: find("_ZN9upscaledb7Globals22ms_duplicate_thresholdE"),
        }
    }

    /// Sets both as chosen, or back to what the library has.
    pub(super) fn set(&self, chosen: &Chosen) -> Result<()> {
        let put = |place: Option<&AtomicU32>, wanted: Option<u64>, name: &str| match (place, wanted)
        {
            (Some(place), wanted) => {
                let number = u32::try_from(wanted.unwrap_or(0));
                let number = number.map_err(|_| refused(name, "more than 32 bits hold"))?;
                place.store(number, Ordering::Relaxed);
                Ok(())
            }
            (None, None) => Ok(()),
            (None, Some(_)) => {
                Err(refused(name, "this library has no such variable: leave the setting out"))
            }
        };
        put(self.extended_key, chosen.extended_key_threshold(), "Globals::ms_extended_threshold")?;
        put(self.duplicate, chosen.duplicate_threshold(), "Globals::ms_duplicate_threshold")
    }
}

/// `UPS_OP_FIND`.
const FIND: c_int = 3;
pub(super) const ENABLE_FSYNC: u32 = 0x1;
pub(super) const READ_ONLY: u32 = 0x4;
pub(super) const DISABLE_MMAP: u32 = 0x200;
pub(super) const ENABLE_CRC32: u32 = 0x200_0000;
pub(super) const CACHE_UNLIMITED: u32 = 0x4_0000;
pub(super) const IN_MEMORY: u32 = 0x80;
pub(super) const PARAM_CACHE_SIZE: u32 = 0x100;
pub(super) const PARAM_PAGE_SIZE: u32 = 0x101;
pub(super) const PARAM_POSIX_FADVISE: u32 = 0x110;
pub(super) const PARAM_ENCRYPTION_KEY: u32 = 0x106;
pub(super) const PARAM_JOURNAL_COMPRESSION: u32 = 0x1000;
pub(super) const PARAM_RECORD_COMPRESSION: u32 = 0x1001;
pub(super) const PARAM_KEY_COMPRESSION: u32 = 0x1002;
pub(super) const AUTO_RECOVERY: u32 = 0x1_0000;
pub(super) const DISABLE_RECOVERY: u32 = 0x8_0000;
pub(super) const FLUSH_TRANSACTIONS_IMMEDIATELY: u32 = 0x800_0000;
pub(super) const ENABLE_TRANSACTIONS: u32 = 0x2_0000;
pub(super) const OVERWRITE: u32 = 0x1;
pub(super) const DUPLICATE: u32 = 0x2;
pub(super) const DUPLICATE_INSERT_FIRST: u32 = 0x10;
pub(super) const ENABLE_DUPLICATE_KEYS: u32 = 0x4000;
pub(super) const FORCE_RECORDS_INLINE: u32 = 0x80_0000;
pub(super) const RECORD_NUMBER32: u32 = 0x1000;
pub(super) const RECORD_NUMBER64: u32 = 0x2000;
pub(super) const AUTO_CLEANUP: u32 = 0x1;
/// Of a lookup or a step of a cursor: short values, and those of one size, are given where they lie in their page.
pub(super) const DIRECT_ACCESS: u32 = 0x40;
pub(super) const CURSOR_FIRST: u32 = 0x1;
pub(super) const CURSOR_LAST: u32 = 0x2;
pub(super) const CURSOR_NEXT: u32 = 0x4;
pub(super) const CURSOR_PREVIOUS: u32 = 0x8;
pub(super) const FIND_GREATER: u32 = 0x2000;
pub(super) const FIND_GREATER_OR_EQUAL: u32 = 0x2000 | 0x4000;
pub(super) const PARAM_KEY_SIZE: u32 = 0x102;
pub(super) const PARAM_KEY_TYPE: u32 = 0x104;
pub(super) const PARAM_RECORD_SIZE: u32 = 0x108;
pub(super) const PARAM_CUSTOM_COMPARE_NAME: u32 = 0x111;
pub(super) const PARAM_RECORD_TYPE: u32 = 0x112;
pub(super) const TYPE_CUSTOM: u64 = 1;
/// Of a key and of a record: what is given is put into memory of the caller's.
pub(super) const USER_ALLOC: u32 = 0x1;
pub(super) const KEY_NOT_FOUND: c_int = -11;
pub(super) const DUPLICATE_KEY: c_int = -12;
pub(super) const NOT_IMPLEMENTED: c_int = -20;
pub(super) const DATABASE_NOT_FOUND: c_int = -200;

impl Api {
    pub(super) fn check(&self, call: &str, rc: c_int) -> Result<()> {
        if rc == 0 {
            return Ok(());
        }
        // SAFETY: no preconditions; a C string constant of the library.
        let why = unsafe { CStr::from_ptr((self.ups_strerror)(rc)) };
        Err(refused(call, why.to_string_lossy()))
    }
}

/// # Safety
/// `len` bytes at `data` are readable as long as `'a`, or there are none.
#[inline]
pub(super) unsafe fn piece<'a>(data: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, len) } }
}

impl Record {
    /// # Safety
    /// The library filled this in, and was not called since.
    #[inline]
    pub(super) unsafe fn bytes<'a>(&self) -> &'a [u8] {
        // SAFETY: the caller's promise.
        unsafe { piece(self.data, self.size as usize) }
    }
}

/// A codec for what the parameter of this name is about.
pub(super) fn compressor(name: u32, codec: Codec) -> Option<Parameter> {
    let value = match codec {
        Codec::Zlib => 1,
        Codec::Snappy => 2,
        Codec::Lzf => 3,
        Codec::Varbyte => 5,
        Codec::Simdcomp => 6,
        Codec::GroupVarint => 7,
        Codec::StreamVbyte => 8,
        Codec::FrameOfReference => 10,
        Codec::SimdFrameOfReference => 11,
        _ => return None,
    };
    Some(Parameter { name, value })
}
