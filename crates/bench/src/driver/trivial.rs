//! What TDB, NTDB and TDB2 have in common: how they pass bytes, and call back, and what can be set.

#![allow(unsafe_code)]

use super::Shape;
use crate::settings::{Name, Takes, Values};
use std::ffi::{c_int, c_void};

/// `struct tdb_context` and `struct ntdb_context`, only ever pointed to.
pub(super) type Context = c_void;
/// Takes a key, its value, and a pointer of the caller's.
pub(super) type Parse = unsafe extern "C" fn(Data, Data, *mut c_void) -> c_int;
/// Takes the database, too.
pub(super) type Visit = unsafe extern "C" fn(*mut Context, Data, Data, *mut c_void) -> c_int;

const INTERNAL: c_int = 2;
const NO_MMAP: c_int = 8;

/// What all of them can be told. Without a file (`INTERNAL`) TDB alone is: the others fail to close it.
pub(super) const MMAP: Takes = (Name::Mmap, Values::Either);

/// The flags that say so.
pub(super) fn chosen_flags(shape: &Shape) -> c_int {
    let unmapped = if shape.settings.mmap() == Some(false) { NO_MMAP } else { 0 };
    unmapped | if shape.settings.memory() { INTERNAL } else { 0 }
}

/// `TDB_DATA`.
#[repr(C)]
pub(super) struct Data {
    start: *const u8,
    len: usize,
}

impl Data {
    /// Bytes for the library to read.
    pub(super) fn of(bytes: &[u8]) -> Data {
        Data { start: bytes.as_ptr(), len: bytes.len() }
    }

    /// # Safety
    /// The library made this, and the bytes stay readable and unchanged as long as `'a`.
    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the caller's promise: `len` bytes at `start`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

/// The function that gives a value to a closure of this type, which its last argument points to.
pub(super) fn parser<F: FnMut(&[u8])>(_: &F) -> Parse {
    parse::<F>
}

/// The function that gives a record to a closure of this type, which its last argument points to.
pub(super) fn visitor<F: FnMut(&[u8], &[u8])>(_: &F) -> Visit {
    visit::<F>
}

/// # Safety
/// The library calls this with a value that it holds, and `take` points to an `F` that nobody
/// else uses.
unsafe extern "C" fn parse<F: FnMut(&[u8])>(_: Data, value: Data, take: *mut c_void) -> c_int {
    // SAFETY: the caller's promise; the bytes are not kept.
    unsafe { (*take.cast::<F>())(value.bytes()) };
    0
}

/// # Safety
/// As for [`parse`], with a record.
unsafe extern "C" fn visit<F: FnMut(&[u8], &[u8])>(
    _: *mut Context,
    key: Data,
    value: Data,
    take: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise; the bytes are not kept.
    unsafe { (*take.cast::<F>())(key.bytes(), value.bytes()) };
    0
}
