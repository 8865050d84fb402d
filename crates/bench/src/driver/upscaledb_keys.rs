//! Keys as upscaledb has them: numbers, of a fixed size, or of any; and their order, where it is one of ours.

#![allow(unsafe_code)]

use super::native_keys::Native;
use super::upscaledb_abi::{
    Api, Db, Key, PARAM_CUSTOM_COMPARE_NAME, PARAM_KEY_TYPE, Parameter, TYPE_CUSTOM,
};
use super::{Shape, own_order};
use crate::settings::Codec;
use crate::workload::KeyType;
use credenza::Result;
use std::ffi::c_int;

/// The longest keys that are said to be of a fixed size.
pub(super) const LONGEST_FIXED: usize = 256;

/// The types that a database may have, but bytes; it gives the numbers of records itself.
pub(super) const TYPES: &[KeyType] = &[
    KeyType::Custom,
    KeyType::U8,
    KeyType::U16,
    KeyType::U32,
    KeyType::U64,
    KeyType::F32,
    KeyType::F64,
    KeyType::Number32,
    KeyType::Number64,
];

/// Those of a server's database: the function that compares is one of the program that serves it.
pub(super) const TYPES_OF_SERVERS: &[KeyType] = TYPES.split_at(1).1;

/// The order of keys of our own, as the library calls it.
///
/// # Safety
/// Both are keys of the library.
unsafe extern "C" fn compare(
    _: *mut Db,
    one: *const u8,
    one_len: u32,
    other: *const u8,
    other_len: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { own_order::compare((one, one_len as usize), (other, other_len as usize)) }
}

/// Tells the library of that order, for all of its databases that have it by its name, made or opened.
pub(super) fn register_order(api: &Api, shape: &Shape) -> Result<()> {
    if shape.keys != KeyType::Custom {
        return Ok(());
    }
    // SAFETY: a C string, and a function that compares two keys; the library keeps both, told again or not.
    let rc = unsafe { (api.ups_register_compare)(own_order::NAME.as_ptr(), compare) };
    api.check("ups_register_compare", rc)
}

/// What a new database is told of it; the name's address is its value.
pub(super) fn order_of_keys() -> [Parameter; 2] {
    let name = own_order::NAME.as_ptr() as u64;
    [
        Parameter { name: PARAM_KEY_TYPE, value: TYPE_CUSTOM },
        Parameter { name: PARAM_CUSTOM_COMPARE_NAME, value: name },
    ]
}

/// What the library has of keys or values of this type; `None` for bytes.
pub(super) fn number(of: KeyType) -> Option<Native> {
    match of {
        KeyType::F32 => Some(Native::Float),
        KeyType::F64 => Some(Native::Double),
        of => of.width().map(Native::Unsigned),
    }
}

/// `UPS_TYPE_UINT8` and so on: the number of the type, and its name.
pub(super) fn number_type(native: Native) -> (u64, &'static str) {
    match native {
        Native::Unsigned(1) => (3, "UPS_TYPE_UINT8"),
        Native::Unsigned(2) => (5, "UPS_TYPE_UINT16"),
        Native::Unsigned(4) => (7, "UPS_TYPE_UINT32"),
        Native::Unsigned(_) => (9, "UPS_TYPE_UINT64"),
        Native::Float => (11, "UPS_TYPE_REAL32"),
        Native::Double => (12, "UPS_TYPE_REAL64"),
    }
}

/// What the library is told of the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    Numbers(Native),
    Fixed(usize),
    Varying,
}

impl Keys {
    pub(super) fn of(shape: &Shape) -> Keys {
        let settings = &shape.settings;
        let has_any_size = settings.key_compression() != Codec::None
            || settings.extended_key_threshold().is_some();
        match (shape.keys, shape.fixed_key) {
            // Keys that are compressed, or go elsewhere where they are long, can have any size, as the
            // library has it.
            (KeyType::Binary | KeyType::String | KeyType::Custom, _) if has_any_size => {
                Keys::Varying
            }
            (keys, _) if TYPES_OF_SERVERS.contains(&keys) => {
                number(keys).map_or(Keys::Varying, Keys::Numbers)
            }
            (_, Some(len)) if shape.setup.is_ups() && len != 8 => Keys::Varying,
            (KeyType::Binary, Some(len @ (4 | 8))) => Keys::Numbers(Native::Unsigned(len)),
            (_, Some(len @ 1..=LONGEST_FIXED)) => Keys::Fixed(len),
            _ => Keys::Varying,
        }
    }

    /// Whether there can be such a key, and if not, the longest beginning of it that there can be.
    pub(super) fn known(self, key: &[u8]) -> (bool, &[u8]) {
        let len = match self {
            Keys::Numbers(native) => native.width(),
            Keys::Fixed(len) => len,
            Keys::Varying => return (true, key),
        };
        (key.len() == len, &key[..key.len().min(len)])
    }
}

/// A key as the library has it: in place, or a number.
pub(super) struct Given<'k> {
    key: &'k [u8],
    number: [u8; 8],
    len: Option<usize>,
}

impl<'k> Given<'k> {
    /// `key` is not longer than the fixed size, if there is one; what is shorter is filled up with
    /// zeros if it is a number.
    #[inline]
    pub(super) fn of(keys: Keys, key: &'k [u8]) -> Given<'k> {
        let Keys::Numbers(native) = keys else { return Given { key, number: [0; 8], len: None } };
        Given { key, number: native.number(key), len: Some(native.width()) }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.len.map_or(self.key, |len| &self.number[..len])
    }

    /// For the library, to read; it must not outlive `self`.
    #[inline]
    pub(super) fn key(&self) -> Key {
        let bytes = self.bytes();
        Key { size: bytes.len() as u16, data: bytes.as_ptr(), flags: 0, own_flags: 0 }
    }
}
