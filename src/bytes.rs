//! Bounded decoding of integers: past the end is `None`, never a panic; and copies of short pieces.
//!
//! Our own formats are little-endian; [`be32`] and [`be64`] exist for mcdb files alone.

/// The `N` bytes at `at`, if they are all there.
#[inline]
pub(crate) fn array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.first_chunk::<N>().copied()
}

/// The little-endian `u32` at `at`.
#[inline]
pub(crate) fn le32(data: &[u8], at: usize) -> Option<u32> {
    array(data, at).map(u32::from_le_bytes)
}

/// The little-endian `u64` at `at`.
#[inline]
pub(crate) fn le64(data: &[u8], at: usize) -> Option<u64> {
    array(data, at).map(u64::from_le_bytes)
}

/// The big-endian `u32` at `at`: swapped from little-endian, the lint forbids the direct way.
#[inline]
pub(crate) fn be32(data: &[u8], at: usize) -> Option<u32> {
    le32(data, at).map(u32::swap_bytes)
}

/// The big-endian `u64` at `at`.
#[inline]
pub(crate) fn be64(data: &[u8], at: usize) -> Option<u64> {
    le64(data, at).map(u64::swap_bytes)
}

/// Copies `from` to `to`, which is as long: short pieces as two that overlap, without a call.
#[inline(always)]
pub(crate) fn copy_short(to: &mut [u8], from: &[u8]) {
    #[inline(always)]
    fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
        if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
            *to = *from;
        }
        if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
            *to = *from;
        }
    }
    match from.len() {
        4..8 => ends::<4>(to, from),
        8..16 => ends::<8>(to, from),
        16..=32 => ends::<16>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Appends `from` to `to`, short pieces as [`copy_short`] does.
#[inline(always)]
pub(crate) fn append_short(to: &mut Vec<u8>, from: &[u8]) {
    #[inline(always)]
    fn ends<const N: usize>(to: &mut Vec<u8>, from: &[u8]) {
        if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
            let end = to.len() + from.len();
            to.extend_from_slice(first);
            to.truncate(end - N);
            to.extend_from_slice(last);
        }
    }
    match from.len() {
        4..8 => ends::<4>(to, from),
        8..16 => ends::<8>(to, from),
        16..=32 => ends::<16>(to, from),
        _ => to.extend_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_pieces_are_copied_whole() {
        let from: Vec<u8> = (1..=140).collect();
        for len in 0..from.len() {
            let piece = &from[..len];
            let mut to = vec![0; len];
            copy_short(&mut to, piece);
            assert_eq!(to, piece);
            let mut to = vec![200, 201];
            append_short(&mut to, piece);
            assert_eq!(to, [&[200, 201], piece].concat());
        }
    }
}
