//! Comparing and adding many bytes at once, and asking for cache lines.
//!
//! No caller can get out of bounds: functions take arrays of fixed size. On machines without SSE2 plain loops do the
//! same.

#![allow(unsafe_code)]

/// Bytes compared at once where buckets are large.
pub(crate) const LANES: usize = 32;
/// Bytes compared at once where they are small.
pub(crate) const HALF_LANES: usize = 16;

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

/// A bit for each place at which both of these bytes equal those wanted.
#[inline(always)]
pub(crate) fn equal_mask_both(a: (&[u8; HALF_LANES], u8), b: (&[u8; HALF_LANES], u8)) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of x86_64; the unaligned loads are of 16 bytes each.
        unsafe {
            let equal = |(bytes, wanted): (&[u8; HALF_LANES], u8)| {
                let lanes = _mm_loadu_si128(bytes.as_ptr().cast());
                _mm_cmpeq_epi8(lanes, _mm_set1_epi8(wanted.cast_signed()))
            };
            _mm_movemask_epi8(_mm_and_si128(equal(a), equal(b))).cast_unsigned()
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        equal_mask_half(a.0, a.1) & equal_mask_half(b.0, b.1)
    }
}

/// The sum of the first `count` bytes; `count` is at most [`HALF_LANES`].
#[inline(always)]
pub(crate) fn sum_first_half(bytes: &[u8; HALF_LANES], count: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        let start = LANES - count.min(HALF_LANES);
        // SAFETY: SSE2 is part of x86_64; the load of `bytes` is of its 16 bytes, that of the mask
        // within `start..start + 16`, and `start` is at most 32 of 64.
        unsafe {
            let mask = _mm_loadu_si128(SET_BYTES.as_ptr().add(start).cast());
            let kept = _mm_and_si128(_mm_loadu_si128(bytes.as_ptr().cast()), mask);
            let sum = _mm_sad_epu8(kept, _mm_setzero_si128());
            let sum = _mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum));
            _mm_cvtsi128_si64(sum).cast_unsigned() as usize
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        bytes.iter().take(count).map(|b| usize::from(*b)).sum()
    }
}

/// A window of it that starts at `LANES - count` has `count` set bytes first.
#[cfg(target_arch = "x86_64")]
static SET_BYTES: [u8; 2 * LANES] = {
    let mut mask = [0u8; 2 * LANES];
    let mut i = 0;
    while i < LANES {
        mask[i] = 0xff;
        i += 1;
    }
    mask
};

/// The sum of the first `count` bytes; `count` is at most [`LANES`].
#[inline(always)]
pub(crate) fn sum_first(bytes: &[u8; LANES], count: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        let start = LANES - count.min(LANES);
        // SAFETY: SSE2 is part of x86_64; the loads of `bytes` lie within its 32 bytes, those of
        // `SET_BYTES` within `start..start + 32`, and `start` is at most 32 of 64.
        unsafe {
            let mask = SET_BYTES.as_ptr().add(start);
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
pub(crate) fn prefetch_at(place: *const u8) {
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
    fn masks_and_sums_agree_with_plain_loops() {
        let mut bytes = [0u8; LANES];
        let mut x = 1u32;
        for _ in 0..1000 {
            for b in &mut bytes {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *b = (x >> 24) as u8 & 7;
            }
            let mask = equal_mask(&bytes, 3);
            let [low, high] = [&bytes[..16], &bytes[16..]].map(|half| half.try_into().unwrap());
            assert_eq!(equal_mask_half(low, 3), mask & 0xffff);
            let both = equal_mask_both((low, 3), (high, 2));
            assert_eq!(both, mask & 0xffff & equal_mask(&bytes, 2) >> 16);
            for count in 0..=HALF_LANES {
                assert_eq!(sum_first_half(low, count), sum_first(&bytes, count));
            }
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
