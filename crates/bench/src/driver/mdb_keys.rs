//! Keys as LMDB and libmdbx have them: bytes, numbers without sign, or bytes in an order of one's own.

use super::native_keys::Native;
use super::{Shape, refused};
use crate::workload::KeyType;
use credenza::Result;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The types of keys that both have.
pub(super) const KEY_TYPES: &[KeyType] = &[KeyType::U32, KeyType::U64, KeyType::Custom];

/// What of [`Driver::tuning`](super::Driver::tuning) is about keys; `by` is the function that sets an order.
pub(super) fn keys_in_words(shape: &Shape, by: &str) -> String {
    match shape.keys {
        KeyType::U32 | KeyType::U64 => "INTEGERKEY, ".to_owned(),
        KeyType::Custom => format!("{by}, "),
        _ => String::new(),
    }
}

/// A function that compares keys, as the library calls it: with two values.
pub(super) type Compare = *const c_void;

/// In a transaction, for the database of a number.
pub(super) type SetCompare = unsafe extern "C" fn(*mut c_void, c_uint, Compare) -> c_int;

/// In a transaction, the database of a name, with flags; a place for its number, and functions that compare
/// keys and values.
pub(super) type OpenOrdered = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    c_uint,
    *mut c_uint,
    Compare,
    Compare,
) -> c_int;

/// How a library is told of an order of one's own.
#[derive(Clone, Copy)]
pub(super) enum SetOrder {
    /// Of a database that is open: `mdb_set_compare`.
    Set(SetCompare),
    /// When it is opened, by its name, as that of the main one is fixed: `mdbx_dbi_open_ex`.
    Open(OpenOrdered),
}

/// What keys are to the library.
#[derive(Clone, Copy)]
pub(super) enum Keys {
    Bytes,
    Integers(Native),
    /// Bytes in an order of our own.
    Own(SetOrder),
}

impl Keys {
    /// `order` is how the library is told of one, if it can be.
    pub(super) fn of(shape: &Shape, order: Option<SetOrder>) -> Result<Keys> {
        match shape.keys {
            KeyType::U32 => Ok(Keys::Integers(Native::Unsigned(4))),
            KeyType::U64 => Ok(Keys::Integers(Native::Unsigned(8))),
            KeyType::Custom => order.map(Keys::Own).ok_or_else(|| {
                refused("key-type", "this library takes no order of one's own: use another type")
            }),
            _ => Ok(Keys::Bytes),
        }
    }

    /// The key as the library has it, in `place` if it is a number; `None` where there can be no such key.
    #[inline]
    pub(super) fn given<'k>(self, key: &'k [u8], place: &'k mut Number) -> Option<&'k [u8]> {
        let Keys::Integers(native) = self else { return Some(key) };
        place.0 = native.number(key);
        (key.len() == native.width()).then_some(&place.0[..key.len()])
    }
}

/// Where the library reads a key that is a number.
#[repr(align(8))]
pub(super) struct Number([u8; 8]);

impl Number {
    pub(super) fn new() -> Number {
        Number([0; 8])
    }
}
