//! Where upscaledb puts the keys and values that it gives.
//!
//! By itself it puts them into one place of the database, which the next call of whatever thread changes, or says
//! where they lie in its file. Where several threads share a database each has places of its own: the library
//! copies there what it gives, as long as it holds the lock of the environment.

use super::Shape;
use super::upscaledb_abi::{Key, Record, USER_ALLOC};
use std::ptr::null;

/// A key has a length of 16 bits.
const LONGEST_KEY: usize = u16::MAX as usize;

pub(super) enum Places {
    /// Those of the library.
    Library,
    /// One for a key, and one for a value.
    Own(Box<[u8]>, Box<[u8]>),
}

impl Places {
    /// For keys of any length, and values as the records have them: the library does not ask how much room there is.
    pub(super) fn own(shape: &Shape) -> Places {
        let place = |len: usize| vec![0; len].into_boxed_slice();
        Places::Own(place(LONGEST_KEY), place(shape.longest_value))
    }

    /// A key to look for, and a place for the one that is found. It must not outlive `key`, nor `self`, and is
    /// void when the next one is made.
    pub(super) fn key(&mut self, key: &[u8]) -> Key {
        let key = &key[..key.len().min(LONGEST_KEY)];
        let size = key.len() as u16;
        match self {
            Places::Library => {
                let data = if key.is_empty() { null() } else { key.as_ptr() };
                Key { size, data, flags: 0, own_flags: 0 }
            }
            Places::Own(place, _) => {
                place[..key.len()].copy_from_slice(key);
                Key { size, data: place.as_mut_ptr().cast_const(), flags: USER_ALLOC, own_flags: 0 }
            }
        }
    }

    /// A place for a value, which must not outlive `self`, and is void when the next one is made.
    #[inline]
    pub(super) fn record(&mut self) -> Record {
        match self {
            Places::Library => Record { size: 0, data: null(), flags: 0 },
            Places::Own(_, place) => {
                Record { size: 0, data: place.as_mut_ptr().cast_const(), flags: USER_ALLOC }
            }
        }
    }
}
