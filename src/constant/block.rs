//! One block: where the hash of a key leads, and what a lookup searches.
//!
//! ```text
//! n (1) | overflow mask (2) | n fingerprints | n key lengths, n sizes (Mixed only) | n entries
//! ```
//!
//! Invariants: n is at most 32; the entries of one home block appear in the order in which they
//! were added; an entry that did not fit went to the next block, and so did all entries of that
//! home block after it; bit `overflow_bit(hash)` of the mask is set in every block that such an
//! entry was pushed out of, so that a lookup of an absent key rarely has to go on.

use super::format::Kind;
use super::view::{LANES, equal_mask, sum_first};
use crate::bytes::{le16, le64};

/// Bytes before the fingerprints.
pub(crate) const HEAD_BYTES: usize = 3;
/// Least size of a block with lengths: the 32 bytes from the last size on must lie within.
pub(crate) const MIN_MIXED_BYTES: usize = 128;
/// Longest key, and longest key and value together, that a block holds itself.
pub(crate) const MAX_INLINE: usize = 255;
/// Key length that marks a reference in a Mixed block; an inline key is shorter.
pub(crate) const REF_MARK: u8 = 255;

/// How many entries of `entry_bytes` (fingerprint included) fit in a block.
pub(crate) fn capacity(block_bytes: usize, entry_bytes: usize) -> usize {
    (block_bytes.saturating_sub(HEAD_BYTES) / entry_bytes.max(1)).min(LANES)
}

/// The byte of a hash that a block stores.
#[inline(always)]
pub(crate) fn fingerprint(hash: u64) -> u8 {
    hash as u8
}

/// The bit of the overflow mask for a hash.
#[inline(always)]
pub(crate) fn overflow_bit(hash: u64) -> u16 {
    1 << ((hash >> 8) & 15)
}

/// The bits of a hash that a reference stores beside the place; taken above the former two.
#[inline(always)]
pub(crate) fn tag(hash: u64) -> u64 {
    hash >> 12
}

/// The home block of a hash among `home_blocks`.
#[inline(always)]
pub(crate) fn home(hash: u64, home_blocks: u64) -> u64 {
    ((u128::from(hash) * u128::from(home_blocks)) >> 64) as u64
}

/// What decides how the bytes of every block of a file are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub kind: Kind,
    pub block_bytes: usize,
    pub ref_bytes: usize,
    pub ref_bits: u32,
    /// Whether a Mixed block can hold references: without, their mark need not be searched.
    pub has_refs: bool,
}

/// Where an entry keeps its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// In the block: the key begins here, the value follows it.
    Inline { at: usize, key_len: usize, value_len: usize },
    /// In the log, or in a list of several.
    Ref(Ref),
}

/// A reference: the place of a record or of a list, with some bits of its key's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ref {
    /// Offset in the file.
    pub at: u64,
    /// Whether a list of the records of one key is there, instead of a record.
    pub list: bool,
    /// Whether the hash that was looked for can be that of this entry.
    pub tag_fits: bool,
}

impl Shape {
    /// The number of entries, unless it is impossible.
    #[inline(always)]
    pub(crate) fn count(block: &[u8]) -> Option<usize> {
        let n = usize::from(*block.first()?);
        (n <= LANES).then_some(n)
    }

    /// Whether entries of this hash may have been pushed to the next block.
    #[inline(always)]
    pub(crate) fn overflowed(block: &[u8], hash: u64) -> bool {
        le16(block, 1).unwrap_or(0) & overflow_bit(hash) != 0
    }

    /// A bit for each entry that may have this hash and key length; `None` if the block is bad.
    #[inline(always)]
    pub(crate) fn candidates(&self, block: &[u8], n: usize, hash: u64, len: usize) -> Option<u32> {
        let lane = |at: usize| block.get(at..)?.first_chunk::<LANES>();
        let mut mask = equal_mask(lane(HEAD_BYTES)?, fingerprint(hash));
        if self.kind == Kind::Mixed {
            let lens = lane(HEAD_BYTES + n)?;
            let inline = if len < MAX_INLINE { equal_mask(lens, len as u8) } else { 0 };
            mask &= if self.has_refs { inline | equal_mask(lens, REF_MARK) } else { inline };
        }
        Some(mask & ((1u64 << n) - 1) as u32)
    }

    /// The slot of entry `i` of `n`; `None` if it would pass the end of the block.
    #[inline(always)]
    pub(crate) fn slot(&self, block: &[u8], n: usize, i: usize, hash: u64) -> Option<Slot> {
        match self.kind {
            Kind::Fixed { key_len, value_len } => {
                let at = HEAD_BYTES + n + i * (key_len + value_len);
                Some(Slot::Inline { at, key_len, value_len })
            }
            Kind::Refs => self.reference(block, HEAD_BYTES + n + i * self.ref_bytes, hash),
            Kind::Mixed => {
                let sizes_at = HEAD_BYTES + 2 * n;
                let sizes = block.get(sizes_at..)?.first_chunk::<LANES>()?;
                let at = sizes_at + n + sum_first(sizes, i);
                let key_len = *block.get(HEAD_BYTES + n + i)?;
                if key_len == REF_MARK {
                    return self.reference(block, at, hash);
                }
                let key_len = usize::from(key_len);
                let value_len = usize::from(*sizes.get(i)?).checked_sub(key_len)?;
                Some(Slot::Inline { at, key_len, value_len })
            }
        }
    }

    /// The reference that lies at `at`.
    #[inline(always)]
    fn reference(&self, block: &[u8], at: usize, hash: u64) -> Option<Slot> {
        let width = 8 * self.ref_bytes as u32;
        // One load of eight bytes that ends with the reference: entries never begin a block.
        let word = le64(block, (at + self.ref_bytes).checked_sub(8)?)? >> (64 - width);
        let place = word & (u64::MAX >> (64 - self.ref_bits));
        let tag_bits = width - self.ref_bits;
        let wanted = tag(hash) & !(u64::MAX << tag_bits);
        let tag_fits = tag_bits == 0 || word >> self.ref_bits == wanted;
        Some(Slot::Ref(Ref { at: (place >> 1) << 3, list: place & 1 == 1, tag_fits }))
    }

    /// The bits of a reference to `at` for an entry with this hash.
    pub(crate) fn encode_ref(&self, at: u64, list: bool, hash: u64) -> u64 {
        let tag_bits = 8 * self.ref_bytes as u32 - self.ref_bits;
        let tag = tag(hash) & !(u64::MAX << tag_bits);
        let high = if tag_bits == 0 { 0 } else { tag << self.ref_bits };
        (at >> 3) << 1 | u64::from(list) | high
    }
}

/// Whether two keys are equal; short ones are compared without a call.
#[inline(always)]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.first_chunk::<8>(), b.first_chunk::<8>(), a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(a0), Some(b0), Some(a1), Some(b1)) if a.len() <= 16 => {
            let differ = (u64::from_le_bytes(*a0) ^ u64::from_le_bytes(*b0))
                | (u64::from_le_bytes(*a1) ^ u64::from_le_bytes(*b1));
            differ == 0
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_keeps_its_place_and_tag() {
        for (ref_bytes, ref_bits) in [(4usize, 28u32), (4, 32), (5, 37), (6, 46), (8, 50)] {
            let kind = Kind::Refs;
            let shape = Shape { kind, block_bytes: 64, ref_bytes, ref_bits, has_refs: true };
            let hash = 0x1234_5678_9abc_def0;
            let word = shape.encode_ref(8 * 1234, true, hash);
            let mut block = [0u8; 64];
            block[0] = 7;
            let at = HEAD_BYTES + 7 + 2 * ref_bytes;
            block[at..at + ref_bytes].copy_from_slice(&word.to_le_bytes()[..ref_bytes]);
            let found = shape.slot(&block, 7, 2, hash).unwrap();
            assert_eq!(found, Slot::Ref(Ref { at: 8 * 1234, list: true, tag_fits: true }));
            let other = shape.slot(&block, 7, 2, !hash).unwrap();
            let tagless = 8 * ref_bytes as u32 == ref_bits;
            assert_eq!(other, Slot::Ref(Ref { at: 8 * 1234, list: true, tag_fits: tagless }));
        }
    }

    #[test]
    fn keys_of_any_length_are_compared_whole() {
        let a: Vec<u8> = (0..40).collect();
        for len in 0..40 {
            assert!(same(&a[..len], &a.clone()[..len]));
            assert!(len == 0 || !same(&a[..len], &a[..len - 1]));
            for flipped in 0..len {
                let mut b = a.clone();
                b[flipped] ^= 1;
                assert!(!same(&a[..len], &b[..len]));
            }
        }
    }
}
