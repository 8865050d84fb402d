//! One bucket: the entries of one small range of hashes.
//!
//! ```text
//! Fixed, Refs:  n fingerprints | n entries
//! Mixed:        n (1) | n fingerprints | n key lengths | n sizes | n entries
//! ```
//!
//! Invariants: entries are sorted by hash, those of one hash in the order in which they were
//! added; n is at most [`MAX_ENTRIES`]; a bucket without entries has no bytes. All entries of a
//! Fixed or Refs bucket have one size, so that n follows from the length of the bucket.

use super::format::Kind;
use super::lanes::{LANES, equal_mask};

/// Most entries of a bucket.
pub(crate) const MAX_ENTRIES: usize = 255;
/// Longest key and value together that a bucket holds itself; the key is shorter.
pub(crate) const MAX_INLINE: usize = 255;
/// Key length that marks a reference in a Mixed bucket.
pub(crate) const REF_MARK: u8 = 255;
/// Bytes after the last bucket, so that wide loads at its end stay in the file.
pub(crate) const TAIL_BYTES: usize = 128;

/// The byte of a hash that a bucket stores.
#[inline(always)]
pub(crate) fn fingerprint(hash: u64) -> u8 {
    hash as u8
}

/// The bits of a hash that a reference stores beside the place; taken above the fingerprint.
#[inline(always)]
pub(crate) fn tag(hash: u64) -> u64 {
    hash >> 8
}

/// What decides how the bytes of every bucket of a file are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub kind: Kind,
    pub ref_bytes: usize,
    pub ref_bits: u32,
    /// The bits of a reference that hold the place, and those that hold the tag.
    place_mask: u64,
    tag_mask: u64,
    /// Bytes of an entry without its fingerprint, where all have one size.
    pub entry_bytes: usize,
    /// 2^32 / (`entry_bytes` + 1), rounded up: multiplying is faster than dividing.
    inverse: u64,
}

/// Where an entry keeps its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// In the bucket: the key begins here, the value follows it.
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
    pub(crate) fn new(kind: Kind, ref_bytes: usize, ref_bits: u32) -> Shape {
        let entry_bytes = match kind {
            Kind::Fixed { key_len, value_len } => key_len + value_len,
            Kind::Refs => ref_bytes,
            Kind::Mixed => 2,
        };
        let inverse = (1u64 << 32).div_ceil(entry_bytes as u64 + 1);
        let place_mask = u64::MAX >> (64 - ref_bits);
        let tag_mask = (u64::MAX >> (64 - 8 * ref_bytes as u32)) & !place_mask;
        Shape { kind, ref_bytes, ref_bits, place_mask, tag_mask, entry_bytes, inverse }
    }

    /// The number of entries of a bucket of `len` bytes, where all entries have one size. Exact
    /// for lengths below 2^16 and entries up to 256 bytes.
    #[inline(always)]
    pub(crate) fn count_by_len(&self, len: usize) -> usize {
        ((len as u64 * self.inverse) >> 32) as usize
    }

    /// The number of entries of a bucket, if it is possible.
    #[inline]
    pub(crate) fn count(&self, bucket: &[u8]) -> Option<usize> {
        match self.kind {
            Kind::Mixed => Some(bucket.first().map_or(0, |n| usize::from(*n))),
            _ => {
                let n = self.count_by_len(bucket.len());
                (n + n * self.entry_bytes == bucket.len() && n <= MAX_ENTRIES).then_some(n)
            }
        }
    }

    /// Where the fingerprints begin.
    #[inline(always)]
    pub(crate) fn prints_at(&self) -> usize {
        usize::from(self.kind == Kind::Mixed)
    }

    /// A bit for each entry from `from` on that may have this hash and key length.
    pub(crate) fn candidates(
        &self,
        bucket: &[u8],
        n: usize,
        from: usize,
        hash: u64,
        len: usize,
    ) -> u32 {
        let count = n.saturating_sub(from).min(LANES);
        let prints_at = self.prints_at() + from;
        let mut mask = equal_mask(&lanes(bucket, prints_at), fingerprint(hash));
        if self.kind == Kind::Mixed {
            let lens = lanes(bucket, prints_at + n);
            let inline = if len < MAX_INLINE { equal_mask(&lens, len as u8) } else { 0 };
            mask &= inline | equal_mask(&lens, REF_MARK);
        }
        mask & ((1u64 << count) - 1) as u32
    }

    /// The slot of entry `i` of `n`; `None` if it would pass the end of the bucket.
    pub(crate) fn slot(&self, bucket: &[u8], n: usize, i: usize, hash: u64) -> Option<Slot> {
        let slot = match self.kind {
            Kind::Fixed { key_len, value_len } => {
                Slot::Inline { at: n + i * (key_len + value_len), key_len, value_len }
            }
            Kind::Refs => self.reference(bucket, n + i * self.ref_bytes, hash)?,
            Kind::Mixed => {
                let sizes = bucket.get(1 + 2 * n..1 + 3 * n)?;
                let before: usize = sizes.iter().take(i).map(|s| usize::from(*s)).sum();
                let at = 1 + 3 * n + before;
                match *bucket.get(1 + n + i)? {
                    REF_MARK => self.reference(bucket, at, hash)?,
                    key_len => {
                        let key_len = usize::from(key_len);
                        let value_len = usize::from(*sizes.get(i)?).checked_sub(key_len)?;
                        Slot::Inline { at, key_len, value_len }
                    }
                }
            }
        };
        match slot {
            Slot::Inline { at, key_len, value_len } => {
                (at + key_len + value_len <= bucket.len()).then_some(slot)
            }
            Slot::Ref(_) => Some(slot),
        }
    }

    /// The reference that lies at `at`.
    fn reference(&self, bucket: &[u8], at: usize, hash: u64) -> Option<Slot> {
        let mut word = [0; 8];
        word.get_mut(..self.ref_bytes)?.copy_from_slice(bucket.get(at..at + self.ref_bytes)?);
        Some(Slot::Ref(self.decode_ref(u64::from_le_bytes(word), hash)))
    }

    /// The reference in the low bytes of `word`.
    #[inline(always)]
    pub(crate) fn decode_ref(&self, word: u64, hash: u64) -> Ref {
        let place = word & self.place_mask;
        let tag_fits = (word ^ self.tag_bits(hash)) & self.tag_mask == 0;
        Ref { at: (place & !1) << 2, list: place & 1 == 1, tag_fits }
    }

    /// As many bits of the tag as there is room for above the place.
    #[inline(always)]
    fn tag_bits(&self, hash: u64) -> u64 {
        // Where the place takes all 64 bits the mask is empty.
        tag(hash).wrapping_shl(self.ref_bits)
    }

    /// The bits of a reference to `at` for an entry with this hash.
    pub(crate) fn encode_ref(&self, at: u64, list: bool, hash: u64) -> u64 {
        (at >> 3) << 1 | u64::from(list) | self.tag_bits(hash) & self.tag_mask
    }
}

/// Gives the records of a bucket of entries of several sizes to `f`, of which these are the lengths of keys, the sizes, and
/// the entries with what follows them; false if they pass the end.
#[inline(always)]
pub(crate) fn each_record<'b, E>(
    key_lens: &[u8],
    sizes: &[u8],
    mut entries: &'b [u8],
    f: &mut impl FnMut(&'b [u8], &'b [u8]) -> Result<(), E>,
) -> Result<bool, E> {
    for (key_len, size) in key_lens.iter().zip(sizes) {
        let Some((entry, more)) = entries.split_at_checked(usize::from(*size)) else {
            return Ok(false);
        };
        entries = more;
        if *key_len != REF_MARK {
            let Some((key, value)) = entry.split_at_checked(usize::from(*key_len)) else {
                return Ok(false);
            };
            f(key, value)?;
        }
    }
    Ok(true)
}

/// The bytes from `at` on, as many as there are, and zeros for those that are missing.
fn lanes(bytes: &[u8], at: usize) -> [u8; LANES] {
    let rest = bytes.get(at..).unwrap_or_default();
    let mut lanes = [0; LANES];
    for (lane, byte) in lanes.iter_mut().zip(rest) {
        *lane = *byte;
    }
    lanes
}

/// Whether two keys are equal; those of usual lengths are compared without a call.
#[inline(always)]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    /// The first and the last `N` bytes of both, which are at least as long.
    #[inline(always)]
    fn ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk() && a.last_chunk::<N>() == b.last_chunk()
    }
    #[inline(never)]
    fn whole(a: &[u8], b: &[u8]) -> bool {
        a == b
    }
    match a.len() {
        _ if a.len() != b.len() => false,
        8..=16 => ends::<8>(a, b),
        17..=32 => ends::<16>(a, b),
        _ => whole(a, b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_keeps_its_place_and_tag() {
        for (ref_bytes, ref_bits) in [(4usize, 28u32), (4, 32), (5, 37), (6, 46), (8, 50), (8, 64)]
        {
            let shape = Shape::new(Kind::Refs, ref_bytes, ref_bits);
            let hash = 0x1234_5678_9abc_def0;
            let word = shape.encode_ref(8 * 1234, true, hash);
            let mut bucket = [0u8; 7 * 9];
            let at = 7 + 2 * ref_bytes;
            bucket[at..at + ref_bytes].copy_from_slice(&word.to_le_bytes()[..ref_bytes]);
            let found = shape.slot(&bucket, 7, 2, hash).unwrap();
            assert_eq!(found, Slot::Ref(Ref { at: 8 * 1234, list: true, tag_fits: true }));
            let other = shape.slot(&bucket, 7, 2, !hash).unwrap();
            let tagless = 8 * ref_bytes as u32 == ref_bits;
            assert_eq!(other, Slot::Ref(Ref { at: 8 * 1234, list: true, tag_fits: tagless }));
        }
    }

    #[test]
    fn counting_by_multiplication_is_exact() {
        for entry in 1..=256usize {
            let kind = Kind::Fixed { key_len: entry - 1, value_len: 0 };
            let shape = Shape::new(kind, 4, 28);
            for len in 0..=65535 {
                assert_eq!(shape.count_by_len(len), len / entry, "{len} / {entry}");
            }
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
