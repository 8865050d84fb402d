//! The constant engine's one place for `unsafe`: what the compiler will not do by itself.
//!
//! No caller can get out of bounds: functions take arrays of fixed size, and [`Window`] and
//! [`Bucket`] check once what they then rely on. On machines without SSE2 plain loops do the same.

#![allow(unsafe_code)]

use super::bucket::TAIL_BYTES;
use super::directory::{GROUP_BYTES, Place, Position, place};
use super::format::Region;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Bytes compared at once where buckets are large.
pub(crate) const LANES: usize = 32;
/// Bytes compared at once where they are small.
pub(crate) const HALF_LANES: usize = 16;

/// Where directory and buckets lie in a file of a certain length: checked when it is opened, so
/// that lookups need not.
///
/// Invariant: the directory's `groups` groups, and `buckets_end` with the tail after it, lie
/// within `file_len` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    file_len: usize,
    directory_at: usize,
    groups: u64,
    buckets_end: usize,
}

impl Bounds {
    /// `None` if these regions are not within `file_len` bytes.
    pub(crate) fn new(file_len: u64, directory: Region, buckets: Region) -> Option<Bounds> {
        let end = |region: Region| region.at.checked_add(region.len).filter(|e| *e <= file_len);
        end(directory)?;
        buckets.len.checked_sub(TAIL_BYTES as u64)?;
        Some(Bounds {
            file_len: usize::try_from(file_len).ok()?,
            directory_at: usize::try_from(directory.at).ok()?,
            groups: directory.len / GROUP_BYTES,
            buckets_end: usize::try_from(end(buckets)? - TAIL_BYTES as u64).ok()?,
        })
    }

    /// Groups of the directory.
    pub(crate) fn groups(&self) -> u64 {
        self.groups
    }
}

/// The bytes of a file that are all in memory.
///
/// Invariant: `data` has the length that `bounds` were checked for.
#[derive(Clone, Copy)]
pub(crate) struct Window<'d, 'b> {
    data: &'d [u8],
    bounds: &'b Bounds,
}

impl<'d, 'b> Window<'d, 'b> {
    /// `None` if `data` are not as long as the file was.
    #[inline(always)]
    pub(crate) fn new(data: &'d [u8], bounds: &'b Bounds) -> Option<Window<'d, 'b>> {
        (data.len() == bounds.file_len).then_some(Window { data, bounds })
    }

    /// The group of a hash, and which of its buckets.
    #[inline(always)]
    fn group(self, hash: u64) -> (&'d [u8; GROUP_BYTES as usize], Position) {
        let position = Position::of(hash, self.bounds.groups);
        let at = self.bounds.directory_at + position.group as usize * GROUP_BYTES as usize;
        // SAFETY: `position.group` is below `groups`: it is the upper half of hash * groups. So by
        // the invariants of both types, the 64 bytes at `at` lie in `data`, whose lifetime it is;
        // an array of bytes has no alignment.
        (unsafe { &*self.data.as_ptr().add(at).cast() }, position)
    }

    /// Asks for the line of the directory that a hash leads to.
    #[inline(always)]
    pub(crate) fn prefetch_group(self, hash: u64) {
        let (group, _) = self.group(hash);
        prefetch(group, 0);
    }

    /// The bucket of a hash; `None` if the directory is damaged.
    #[inline(always)]
    pub(crate) fn bucket(self, hash: u64) -> Option<Bucket<'d>> {
        self.spot(hash).map(|(bucket, _)| bucket)
    }

    /// The same, with the hash's place among the hashes of the bucket as a fraction of 2^64.
    #[inline(always)]
    pub(crate) fn spot(self, hash: u64) -> Option<(Bucket<'d>, u64)> {
        let (group, position) = self.group(hash);
        let Place { at, len } = place(group, position.bucket)?;
        // An offset has 48 bits and a length 16: the sum does not overflow.
        if at + len as u64 > self.bounds.buckets_end as u64 {
            return None;
        }
        // SAFETY: `at` is at most `buckets_end`, which is in `data`.
        let start = unsafe { NonNull::from(self.data).cast::<u8>().add(at as usize) };
        Some((Bucket { start, len, of: PhantomData }, position.fraction))
    }
}

/// The bytes of a bucket.
///
/// Invariant: `len + TAIL_BYTES` bytes at `start` may be read for `'d`.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'d> {
    start: NonNull<u8>,
    len: usize,
    of: PhantomData<&'d [u8]>,
}

impl<'d> Bucket<'d> {
    /// Its length in bytes.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Its first bytes and, where it is shorter, those that follow it.
    #[inline(always)]
    pub(crate) fn head(self) -> &'d [u8; TAIL_BYTES] {
        // SAFETY: by the invariant there are that many; an array of bytes has no alignment.
        unsafe { self.start.cast().as_ref() }
    }

    /// The `len` bytes at `at`.
    #[inline(always)]
    pub(crate) fn get(self, at: usize, len: usize) -> Option<&'d [u8]> {
        let end = at.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: `at..end` was just found to lie within the bucket, which may be read.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), len) })
    }

    /// The eight bytes at `at`, little-endian; some of them may come after the bucket.
    #[inline(always)]
    pub(crate) fn word(self, at: usize) -> Option<u64> {
        if at > self.len {
            return None;
        }
        // SAFETY: `at` is at most `len`, and TAIL_BYTES after that may be read, which are more
        // than 8; an array of bytes has no alignment.
        Some(u64::from_le_bytes(unsafe { *self.start.add(at).cast().as_ref() }))
    }

    /// Asks for the cache line at `at`.
    #[inline(always)]
    pub(crate) fn prefetch(self, at: usize) {
        prefetch_at(self.start.as_ptr().wrapping_add(at));
    }
}

/// A bit for each of the bytes that equals `byte`; the first byte is the lowest bit.
#[inline(always)]
pub(crate) fn equal_mask(bytes: &[u8; LANES], byte: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of x86_64; both unaligned loads lie within the 32 bytes.
        unsafe {
            let wanted = _mm_set1_epi8(byte.cast_signed());
            let low = _mm_loadu_si128(bytes.as_ptr().cast());
            let high = _mm_loadu_si128(bytes.as_ptr().add(16).cast());
            let low = _mm_movemask_epi8(_mm_cmpeq_epi8(low, wanted)).cast_unsigned();
            let high = _mm_movemask_epi8(_mm_cmpeq_epi8(high, wanted)).cast_unsigned();
            low | high << 16
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let bit = |(i, b): (usize, &u8)| u32::from(*b == byte) << i;
        bytes.iter().enumerate().map(bit).fold(0, |mask, bit| mask | bit)
    }
}

/// The same for half as many bytes.
#[inline(always)]
pub(crate) fn equal_mask_half(bytes: &[u8; HALF_LANES], byte: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of x86_64; the unaligned load is of the 16 bytes.
        unsafe {
            let lanes = _mm_loadu_si128(bytes.as_ptr().cast());
            let equal = _mm_cmpeq_epi8(lanes, _mm_set1_epi8(byte.cast_signed()));
            _mm_movemask_epi8(equal).cast_unsigned()
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let bit = |(i, b): (usize, &u8)| u32::from(*b == byte) << i;
        bytes.iter().enumerate().map(bit).fold(0, |mask, bit| mask | bit)
    }
}

/// The sum of the first `count` bytes; `count` is at most [`LANES`].
#[inline(always)]
pub(crate) fn sum_first(bytes: &[u8; LANES], count: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        /// A window of it that starts at `LANES - count` has `count` set bytes first.
        static MASK: [u8; 2 * LANES] = {
            let mut mask = [0u8; 2 * LANES];
            let mut i = 0;
            while i < LANES {
                mask[i] = 0xff;
                i += 1;
            }
            mask
        };
        let start = LANES - count.min(LANES);
        // SAFETY: SSE2 is part of x86_64; the loads of `bytes` lie within its 32 bytes, those of
        // `MASK` within `start..start + 32`, and `start` is at most 32 of 64.
        unsafe {
            let mask = MASK.as_ptr().add(start);
            let low = _mm_loadu_si128(bytes.as_ptr().cast());
            let high = _mm_loadu_si128(bytes.as_ptr().add(16).cast());
            let low = _mm_and_si128(low, _mm_loadu_si128(mask.cast()));
            let high = _mm_and_si128(high, _mm_loadu_si128(mask.add(16).cast()));
            let zero = _mm_setzero_si128();
            let sum = _mm_add_epi64(_mm_sad_epu8(low, zero), _mm_sad_epu8(high, zero));
            let sum = _mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum));
            _mm_cvtsi128_si64(sum).cast_unsigned() as usize
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        bytes.iter().take(count).map(|b| usize::from(*b)).sum()
    }
}

/// Asks for the cache line at `bytes[at]`; only a hint, and none if there is no such byte.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    prefetch_at(bytes.as_ptr().wrapping_add(at));
}

#[inline(always)]
fn prefetch_at(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        // SAFETY: a prefetch reads nothing that the program can see and never faults, whatever
        // the address, and nothing else is made of the pointer.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_a_file_is_looked_at() {
        let region = |at, len| Region { at, len };
        let (directory, buckets) = (region(256, 64), region(320, 30 + TAIL_BYTES as u64));
        let len = 320 + 30 + TAIL_BYTES;
        let bounds = Bounds::new(len as u64, directory, buckets).unwrap();
        assert!(Bounds::new(len as u64 - 1, directory, buckets).is_none());
        assert!(Bounds::new(len as u64, directory, region(320, 127)).is_none());
        assert!(Bounds::new(len as u64, region(u64::MAX, 64), buckets).is_none());

        let mut file = vec![0; len];
        assert!(Window::new(&file[1..], &bounds).is_none());
        // All buckets are empty but the last, which has what is there; or one byte more.
        file[256..264].copy_from_slice(&320u64.to_le_bytes());
        for (end, fits) in [(30u16, true), (31, false), (u16::MAX, false)] {
            file[318..320].copy_from_slice(&end.to_le_bytes());
            let bucket = Window::new(&file, &bounds).unwrap().bucket(u64::MAX);
            assert_eq!(bucket.map(Bucket::len), fits.then_some(30));
            if let Some(bucket) = bucket {
                assert_eq!(bucket.get(0, 30).map(<[u8]>::len), Some(30));
                assert_eq!((bucket.get(1, 30), bucket.get(usize::MAX, 2)), (None, None));
                assert_eq!((bucket.word(30), bucket.word(31)), (Some(0), None));
            }
        }
        file[256..264].copy_from_slice(&0xffff_ffff_ffffu64.to_le_bytes());
        assert!(Window::new(&file, &bounds).unwrap().bucket(0).is_none());
    }

    #[test]
    fn masks_and_sums_agree_with_plain_loops() {
        let mut bytes = [0u8; LANES];
        let mut x = 1u32;
        for _ in 0..1000 {
            for b in &mut bytes {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *b = (x >> 24) as u8 & 7;
            }
            let mask = equal_mask(&bytes, 3);
            assert_eq!(equal_mask_half(bytes.first_chunk().unwrap(), 3), mask & 0xffff);
            for (i, b) in bytes.iter().enumerate() {
                assert_eq!(mask >> i & 1 == 1, *b == 3);
            }
            for count in 0..=LANES {
                let sum: usize = bytes[..count].iter().map(|b| usize::from(*b)).sum();
                assert_eq!(sum_first(&bytes, count), sum);
            }
        }
        assert_eq!(sum_first(&[255; LANES], LANES), 255 * LANES);
    }
}
