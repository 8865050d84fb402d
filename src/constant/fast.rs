//! The common case of a lookup in memory, in as few instructions as it can be.
//!
//! A processor overlaps the cache misses of successive lookups as far as their instructions fit
//! in its window of a few hundred: a lookup written without regard to that, of 250 instructions,
//! took twice the time. So here only the first candidate of a bucket is looked at, and buckets of
//! up to 32 entries; whatever else there is to do, [`Index::find`] does from the start.
//!
//! Within a lookup, the lines that will be wanted are asked for as soon as the directory has said
//! where the bucket lies: entries are sorted by hash, so the hash tells about where in the bucket
//! its entry is.

use super::bucket::{MAX_INLINE, REF_MARK, Shape, TAIL_BYTES, fingerprint, same};
use super::directory::{GROUP_BYTES, Place, Position, place};
use super::format::Kind;
use super::lookup::{Index, LISTED, RECORD_HEAD};
use super::view::{HALF_LANES, LANES, equal_mask, equal_mask_half, prefetch};
use crate::Result;
use crate::bytes::{le32, le64};
use crate::os::source::Memory;

/// What the first look at a bucket told.
pub(crate) enum First<'d> {
    /// The value.
    Found(&'d [u8]),
    /// The key is not in the file.
    Absent,
    /// There is more to look at, or something is wrong.
    Unclear,
}

/// Where the bucket of a hash lies in memory, and where in it the hash's entry is expected.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spot {
    pub at: usize,
    pub len: usize,
    /// Bytes from the bucket's start to the expected entry.
    pub expected: usize,
}

impl Index {
    /// The first value of `key` in a file that is in memory. Inlined into the caller's loop only
    /// for the kind of file where every instruction counts.
    #[inline(always)]
    pub(crate) fn find_in<'d>(&self, data: &'d [u8], key: &[u8]) -> Result<Option<&'d [u8]>> {
        if let Kind::Fixed { key_len, .. } = self.shape.kind {
            let hash = self.hash(key);
            let first = match self.bucket(data, hash) {
                Some(place) => self.fixed(data, key, hash, place, key_len),
                None => None,
            };
            match first {
                Some(First::Found(value)) => Ok(Some(value)),
                Some(First::Absent) => Ok(None),
                Some(First::Unclear) | None => self.find_slowly(data, key),
            }
        } else {
            self.find_unequal(data, key)
        }
    }

    /// The same for files whose records differ in size or lie in the log.
    #[inline(always)]
    fn find_unequal<'d>(&self, data: &'d [u8], key: &[u8]) -> Result<Option<&'d [u8]>> {
        let hash = self.hash(key);
        let first = match self.bucket(data, hash) {
            Some(Place { len: 0, .. }) => Some(First::Absent),
            Some(Place { at, len }) => {
                let spot = Spot { at: at as usize, len, expected: 0 };
                if self.shape.kind == Kind::Mixed {
                    for line in 1..4 {
                        prefetch(data, spot.at + 64 * line);
                    }
                    self.mixed(data, key, hash, spot)
                } else {
                    self.refs(data, key, hash, spot)
                }
            }
            None => None,
        };
        match first {
            Some(First::Found(value)) => Ok(Some(value)),
            Some(First::Absent) => Ok(None),
            Some(First::Unclear) | None => self.find_slowly(data, key),
        }
    }

    /// The bucket of a hash.
    #[inline(always)]
    fn bucket(&self, data: &[u8], hash: u64) -> Option<Place> {
        let position = Position::of(hash, self.groups);
        let at = self.directory_at.wrapping_add(position.group * GROUP_BYTES) as usize;
        place(data.get(at..)?.first_chunk()?, position.bucket)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn find_slowly<'d>(&self, data: &'d [u8], key: &[u8]) -> Result<Option<&'d [u8]>> {
        self.find(&Memory(data), key)
    }

    /// Where in the directory a hash leads.
    #[inline(always)]
    pub(crate) fn group_at(&self, hash: u64) -> usize {
        let group = Position::of(hash, self.groups).group;
        self.directory_at.wrapping_add(group * GROUP_BYTES) as usize
    }

    /// The bucket of a hash.
    #[inline(always)]
    pub(crate) fn spot(&self, data: &[u8], hash: u64) -> Option<Spot> {
        let position = Position::of(hash, self.groups);
        let Place { at, len } =
            place(data.get(self.group_at(hash)..)?.first_chunk()?, position.bucket)?;
        // The upper halves of the fraction and of the share are exact enough for a guess.
        let head = (len as u64 * self.head_share) >> 16;
        let expected = head + (((position.fraction >> 32) * (len as u64 - head)) >> 32);
        Some(Spot { at: at as usize, len, expected: expected as usize })
    }

    /// Asks for the lines of a bucket that a lookup will want.
    #[inline(always)]
    pub(crate) fn prefetch_bucket(&self, data: &[u8], spot: Spot) {
        match self.shape.kind {
            Kind::Refs => {}
            Kind::Fixed { .. } => prefetch(data, (spot.at + spot.len).wrapping_sub(1)),
            Kind::Mixed => {
                prefetch(data, spot.at + 64);
                prefetch(data, spot.at + spot.expected);
                prefetch(data, (spot.at + spot.expected).wrapping_sub(48));
            }
        }
    }

    /// Looks at the first candidate for `key` in its bucket.
    #[inline(always)]
    pub(crate) fn first_look<'d>(
        &self,
        data: &'d [u8],
        key: &[u8],
        hash: u64,
        spot: Spot,
    ) -> First<'d> {
        if spot.len == 0 {
            return First::Absent;
        }
        let found = match self.shape.kind {
            Kind::Fixed { key_len, .. } => {
                let place = Place { at: spot.at as u64, len: spot.len };
                self.fixed(data, key, hash, place, key_len)
            }
            Kind::Mixed => self.mixed(data, key, hash, spot),
            Kind::Refs => self.refs(data, key, hash, spot),
        };
        found.unwrap_or(First::Unclear)
    }

    #[inline(always)]
    fn fixed<'d>(
        &self,
        data: &'d [u8],
        key: &[u8],
        hash: u64,
        Place { at, len }: Place,
        key_len: usize,
    ) -> Option<First<'d>> {
        let (at, n) = (at as usize, self.shape.count_by_len(len));
        let mask = uniform(data, at, n, hash)?;
        if mask == 0 || key.len() != key_len {
            return Some(First::Absent);
        }
        let size = self.shape.entry_bytes - 1;
        let at = at + n + mask.trailing_zeros() as usize * size;
        let (stored, value) = data.get(at..at + size)?.split_at_checked(key.len())?;
        Some(if same(stored, key) { First::Found(value) } else { First::Unclear })
    }

    #[inline(always)]
    fn mixed<'d>(&self, data: &'d [u8], key: &[u8], hash: u64, spot: Spot) -> Option<First<'d>> {
        let head: &[u8; TAIL_BYTES] = data.get(spot.at..)?.first_chunk()?;
        let n = usize::from(head[0]);
        if n > LANES {
            return None;
        }
        let prints: &[u8; LANES] = head[1..].first_chunk()?;
        let lens: &[u8; LANES] = head[1 + n..].first_chunk()?;
        let mut same_len = equal_mask(lens, key.len().min(MAX_INLINE) as u8);
        if self.shape.has_refs {
            same_len |= equal_mask(lens, REF_MARK);
        }
        let mask = equal_mask(prints, fingerprint(hash)) & same_len & ((1u64 << n) - 1) as u32;
        if mask == 0 {
            return Some(First::Absent);
        }
        let i = mask.trailing_zeros() as usize;
        let sizes: &[u8; LANES] = head[1 + 2 * n..].first_chunk()?;
        let at = spot.at + Shape::mixed_offset(sizes, n, i);
        if self.shape.has_refs && lens[i] == REF_MARK {
            return self.referred(data, at, key, hash);
        }
        let record = data.get(at..)?.get(..usize::from(sizes[i]))?;
        let (stored, value) = record.split_at_checked(key.len())?;
        Some(if same(stored, key) { First::Found(value) } else { First::Unclear })
    }

    #[inline(always)]
    fn refs<'d>(&self, data: &'d [u8], key: &[u8], hash: u64, spot: Spot) -> Option<First<'d>> {
        let n = self.shape.count_by_len(spot.len);
        let mask = uniform(data, spot.at, n, hash)?;
        if mask == 0 {
            return Some(First::Absent);
        }
        let i = mask.trailing_zeros() as usize;
        self.referred(data, spot.at + n + i * self.shape.ref_bytes, key, hash)
    }

    /// The record that the reference at `at` leads to, if it is a single one and the right one.
    #[inline(always)]
    fn referred<'d>(&self, data: &'d [u8], at: usize, key: &[u8], hash: u64) -> Option<First<'d>> {
        let to = self.shape.decode_ref(le64(data, at)?, hash);
        if to.list || !to.tag_fits {
            return None;
        }
        let record = data.get(to.at as usize..)?;
        let stored_len = le32(record, 0)? & !LISTED;
        let value_len = le32(record, 4)? as usize;
        let value_at = RECORD_HEAD + key.len();
        if stored_len as usize != key.len() || !same(record.get(RECORD_HEAD..value_at)?, key) {
            return None;
        }
        Some(First::Found(record.get(value_at..)?.get(..value_len)?))
    }

    /// Where the record of the first candidate in a bucket of references lies.
    #[inline(always)]
    pub(crate) fn first_reference(&self, data: &[u8], hash: u64, spot: Spot) -> Option<u64> {
        if self.shape.kind != Kind::Refs || spot.len == 0 {
            return None;
        }
        let n = self.shape.count_by_len(spot.len);
        let mask = uniform(data, spot.at, n, hash)?;
        if mask == 0 {
            return None;
        }
        let at = spot.at + n + mask.trailing_zeros() as usize * self.shape.ref_bytes;
        Some(self.shape.decode_ref(le64(data, at)?, hash).at)
    }
}

/// The candidates in a bucket that begins with `n` fingerprints; `None` if there are too many.
#[inline(always)]
fn uniform(data: &[u8], at: usize, n: usize, hash: u64) -> Option<u32> {
    if n > HALF_LANES {
        return None;
    }
    let prints: &[u8; HALF_LANES] = data.get(at..)?.first_chunk()?;
    Some(equal_mask_half(prints, fingerprint(hash)) & ((1u32 << n) - 1))
}
