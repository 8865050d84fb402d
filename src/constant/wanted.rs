//! Keys as a lookup has them: to be hashed, and to be compared with what is stored.
//!
//! Unsafe, since what is compared is read where the caller says that it lies: see [`super::view`].

#![allow(unsafe_code)]

use super::bucket::same;
use crate::keyhash::KeyHash;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A key to hash, and to compare with those that are stored.
pub(crate) trait Wanted: Copy {
    /// Its length in bytes.
    fn len(self) -> usize;

    /// Its hash in a file with this function.
    fn hash(self, hash: &KeyHash) -> u64;

    /// Whether the key at `stored`, which is as long, is this one.
    ///
    /// # Safety
    /// As many bytes as this key has may be read at `stored`.
    unsafe fn is_at(self, stored: *const u8) -> bool;

    /// Whether the key that is stored here is this one.
    #[inline(always)]
    fn is(self, stored: &[u8]) -> bool {
        // SAFETY: what is stored was just found to have as many bytes.
        stored.len() == self.len() && unsafe { self.is_at(stored.as_ptr()) }
    }
}

impl Wanted for &[u8] {
    #[inline(always)]
    fn len(self) -> usize {
        <[u8]>::len(self)
    }

    #[inline(always)]
    fn hash(self, hash: &KeyHash) -> u64 {
        hash.hash(self)
    }

    #[inline(always)]
    unsafe fn is_at(self, stored: *const u8) -> bool {
        // SAFETY: the caller says that so many bytes may be read.
        same(unsafe { std::slice::from_raw_parts(stored, <[u8]>::len(self)) }, self)
    }
}

/// A key of 8 to 16 bytes, as most are. It is read as two words, its first and its last eight
/// bytes, which overlap where it is shorter than 16; and what is known of its length is asked
/// once, not by hashing and comparing each for itself.
///
/// Invariant: `len` is between 8 and 16, and so many bytes at `start` may be read for `'k`.
#[derive(Clone, Copy)]
pub(crate) struct Short<'k> {
    start: NonNull<u8>,
    len: usize,
    of: PhantomData<&'k [u8]>,
}

/// A length that a [`Short`] key may have, or none.
///
/// Invariant: it is between 8 and 16, or that of no slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortLen(usize);

impl ShortLen {
    /// No key is as long.
    pub(crate) const NONE: ShortLen = ShortLen(usize::MAX);

    /// This length, or none if it is not that of a short key.
    pub(crate) fn new(len: usize) -> ShortLen {
        if (8..=16).contains(&len) { ShortLen(len) } else { ShortLen::NONE }
    }
}

impl<'k> Short<'k> {
    /// `None` if the key has another length.
    #[inline(always)]
    pub(crate) fn of(key: &'k [u8]) -> Option<Short<'k>> {
        let (start, len) = (NonNull::from(key).cast(), key.len());
        (len.wrapping_sub(8) <= 8).then_some(Short { start, len, of: PhantomData })
    }

    /// The same, where the length is one that was asked for before; `None` if the key has another.
    #[inline(always)]
    pub(crate) fn of_len(key: &'k [u8], len: ShortLen) -> Option<Short<'k>> {
        let start = NonNull::from(key).cast();
        (key.len() == len.0).then_some(Short { start, len: len.0, of: PhantomData })
    }

    /// The first and the last eight bytes, little-endian.
    #[inline(always)]
    pub(crate) fn words(self) -> [u64; 2] {
        // SAFETY: there are `len` bytes, by the invariant.
        unsafe { ends(self.start.as_ptr(), self.len) }
    }
}

impl Wanted for Short<'_> {
    #[inline(always)]
    fn len(self) -> usize {
        self.len
    }

    #[inline(always)]
    fn hash(self, hash: &KeyHash) -> u64 {
        let [first, last] = self.words();
        hash.hash_words(first, last, self.len)
    }

    #[inline(always)]
    unsafe fn is_at(self, stored: *const u8) -> bool {
        // SAFETY: the caller says that so many bytes may be read, which are 8 at least.
        unsafe { ends(stored, self.len) == self.words() }
    }
}

/// The first and the last eight of `len` bytes, little-endian.
///
/// # Safety
/// `len` is at least 8, and so many bytes at `start` may be read.
#[inline(always)]
unsafe fn ends(start: *const u8, len: usize) -> [u64; 2] {
    // SAFETY: both are within the bytes; an array of bytes has no alignment.
    let words: [[u8; 8]; 2] = unsafe { [*start.cast(), *start.add(len - 8).cast()] };
    words.map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyhash::RAPID;

    /// A key of 8 to 16 bytes is hashed and compared as any other is.
    #[test]
    fn a_short_key_is_the_key() {
        let hash = KeyHash::new(RAPID, 5).unwrap();
        let key: Vec<u8> = (1..=40).collect();
        for len in 0..=40 {
            let key = &key[..len];
            let short = Short::of(key);
            assert_eq!(short.is_some(), (8..=16).contains(&len), "{len}");
            let by_len = Short::of_len(key, ShortLen::new(len));
            assert_eq!(by_len.map(Short::words), short.map(Short::words), "{len}");
            assert!(Short::of_len(key, ShortLen::new(len + 1)).is_none(), "{len}");
            let Some(short) = short else { continue };
            assert_eq!((short.len(), short.hash(&hash)), (len, hash.hash(key)));
            for changed in 0..=len {
                let mut other = key.to_vec();
                if let Some(byte) = other.get_mut(changed) {
                    *byte ^= 0x40;
                }
                // SAFETY: `other` is as long as the key.
                let are = unsafe { (short.is_at(other.as_ptr()), key.is_at(other.as_ptr())) };
                assert_eq!(are, (changed == len, changed == len), "{len} {changed}");
            }
        }
    }
}
