//! Keys as upscaledb has them: numbers, of a fixed size, or of any.

use super::Shape;
use super::upscaledb::Key;
use crate::settings::Codec;

/// The longest keys that are said to be of a fixed size.
pub(super) const LONGEST_FIXED: usize = 256;

/// What the library is told of the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// Numbers of this many bytes.
    Numbers(usize),
    Fixed(usize),
    Varying,
}

impl Keys {
    pub(super) fn of(shape: &Shape) -> Keys {
        match shape.fixed_key {
            // Keys that are compressed can have any size, as the library has it.
            _ if shape.settings.key_compression() != Codec::None => Keys::Varying,
            Some(len) if shape.setup.is_ups() && len != 8 => Keys::Varying,
            Some(len @ (4 | 8)) => Keys::Numbers(len),
            Some(len @ 1..=LONGEST_FIXED) => Keys::Fixed(len),
            _ => Keys::Varying,
        }
    }

    /// Whether there can be such a key, and if not, the longest beginning of it that there can be.
    pub(super) fn known(self, key: &[u8]) -> (bool, &[u8]) {
        match self {
            Keys::Numbers(len) | Keys::Fixed(len) => (key.len() == len, &key[..key.len().min(len)]),
            Keys::Varying => (true, key),
        }
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
        let mut number = [0; 8];
        let Keys::Numbers(len) = keys else { return Given { key, number, len: None } };
        number[..key.len()].copy_from_slice(key);
        number[..len].reverse();
        Given { key, number, len: Some(len) }
    }

    /// For the library, to read; it must not outlive `self`.
    #[inline]
    pub(super) fn key(&self) -> Key {
        let bytes = self.len.map_or(self.key, |len| &self.number[..len]);
        Key { size: bytes.len() as u16, data: bytes.as_ptr(), flags: 0, own_flags: 0 }
    }
}
