//! Where the bucket of a hash lies: one cache line of the directory says it exactly.
//!
//! The hash space is divided into groups of 28 buckets. A group is 64 bytes:
//!
//! ```text
//! offset of its first bucket in the file (48 bits) | end of each of its 28 buckets (16 bits each)
//! ```
//!
//! Ends count from the group's first bucket. An offset below 2^48 leaves the two bytes before the
//! first end zero, and zero is where the first bucket starts: so one load of four bytes gives the
//! start and the end of any bucket. Little-endian throughout.
//!
//! A directory of two bytes for a bucket of many records stays in the cache where one of four or
//! eight for a few would not: what made the first prototypes with a directory slow.

use crate::bytes::{array, le32, le64};

/// Buckets of a group.
pub(crate) const GROUP_BUCKETS: u64 = 28;
/// Bytes of a group: a cache line.
pub(crate) const GROUP_BYTES: u64 = 64;
/// Most bytes that the buckets of a group may have together.
pub(crate) const MAX_SPAN: usize = u16::MAX as usize;

/// Where the hash leads: which group, which of its buckets, and how far into that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub group: u64,
    pub bucket: u64,
    /// The hash's place among all hashes of the bucket, as a fraction of 2^64.
    pub fraction: u64,
}

impl Position {
    /// The position of `hash` among `groups` groups. Larger hashes have larger positions.
    #[inline(always)]
    pub(crate) fn of(hash: u64, groups: u64) -> Position {
        let product = u128::from(hash) * u128::from(groups);
        let within = u128::from(product as u64) * u128::from(GROUP_BUCKETS);
        Position {
            group: (product >> 64) as u64,
            bucket: (within >> 64) as u64,
            fraction: within as u64,
        }
    }
}

/// Where a bucket lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub at: u64,
    pub len: usize,
}

/// The place of a bucket, from the bytes of its group; `None` if they make no sense.
#[inline(always)]
pub(crate) fn place(group: &[u8; GROUP_BYTES as usize], bucket: u64) -> Option<Place> {
    let first = le64(group, 0)? & 0xffff_ffff_ffff;
    let pair = le32(group, 6 + 2 * bucket as usize)?;
    let (start, end) = (pair & 0xffff, pair >> 16);
    Some(Place { at: first + u64::from(start), len: end.checked_sub(start)? as usize })
}

/// The place of a whole group's buckets.
pub(crate) fn span(group: &[u8; GROUP_BYTES as usize]) -> Option<Place> {
    let first = le64(group, 0)? & 0xffff_ffff_ffff;
    let end = array(group, 62).map(u16::from_le_bytes)?;
    Some(Place { at: first, len: usize::from(end) })
}

/// A group whose buckets begin at `at`; their ends are counted from there and at most
/// [`MAX_SPAN`].
pub(crate) fn encode(at: u64, ends: &[usize; GROUP_BUCKETS as usize]) -> [u8; 64] {
    let mut group = [0; 64];
    group[..8].copy_from_slice(&at.to_le_bytes());
    for (slot, end) in group[8..].chunks_exact_mut(2).zip(ends) {
        slot.copy_from_slice(&(*end as u16).to_le_bytes());
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_gives_back_its_buckets() {
        let mut ends = [0; 28];
        for (i, end) in ends.iter_mut().enumerate() {
            *end = (i + 1) * 2340;
        }
        let group = encode((1 << 48) - 7, &ends);
        for bucket in 0..28 {
            let at = (1 << 48) - 7 + bucket * 2340;
            assert_eq!(place(&group, bucket), Some(Place { at, len: 2340 }));
        }
        assert_eq!(span(&group), Some(Place { at: (1 << 48) - 7, len: 28 * 2340 }));
        assert_eq!(place(&group, 28), None, "there is no such bucket");
    }

    #[test]
    fn positions_grow_with_the_hash_and_fill_the_range() {
        for groups in [1, 2, 3, 1000, 1 << 33] {
            let mut last = (0, 0, 0);
            for i in 0..=1000u64 {
                let hash = if i == 1000 { u64::MAX } else { i * (u64::MAX / 1000) };
                let p = Position::of(hash, groups);
                assert!(p.group < groups && p.bucket < GROUP_BUCKETS);
                assert!((p.group, p.bucket, p.fraction) >= last);
                last = (p.group, p.bucket, p.fraction);
            }
            assert_eq!((last.0, last.1), (groups - 1, GROUP_BUCKETS - 1));
        }
    }
}
