//! What all pages of a tree have in common: their head, the heads of their keys, and the search.
//!
//! A page begins with its head. The bytes that all of its keys begin with are cut off, and stand
//! once at the end of the page. Of what is left of each key the first four bytes, its *head*, stand
//! in an array behind the page's head, as numbers: a lookup searches there, in memory that it asked
//! for as a whole while it was still in the page above. Only keys whose heads are equal are compared
//! byte by byte.
//!
//! Nothing here trusts the bytes: what leads outside of the page is damage, never a panic.

use super::format::PAGE;
use crate::Result;
use crate::bytes::le64;
use std::cmp::Ordering;

/// The bytes of a page.
pub(crate) type Bytes = [u8; PAGE];

/// Offsets in a page's head.
pub(crate) mod at {
    /// The stamp that the page was written under: eight bytes.
    pub(crate) const BIRTH: usize = 0;
    pub(crate) const KIND: usize = 8;
    /// How many levels of pages are below it.
    pub(crate) const LEVEL: usize = 9;
    pub(crate) const COUNT: usize = 10;
    /// For how many heads there is room.
    pub(crate) const ROOM: usize = 12;
    pub(crate) const PREFIX: usize = 14;
    /// Where the heap begins, which ends before the prefix.
    pub(crate) const HEAP: usize = 16;
    /// Bytes of the heap that nobody refers to any more.
    pub(crate) const WASTE: usize = 18;
    /// In a uniform leaf: bytes of each key after the prefix, and of each value.
    pub(crate) const REST: usize = 20;
    pub(crate) const VALUE: usize = 22;
    /// In a uniform leaf: whether the values are references.
    pub(crate) const FLAGS: usize = 24;
    /// The heads.
    pub(crate) const HEADS: usize = 32;
}

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records of any size.
    Leaf = 1,
    /// Records whose keys have one length, and whose values have one length.
    Uniform = 2,
    /// Keys that part pages, and those pages.
    Inner = 3,
}

/// Set in the flags of a uniform leaf whose values are references.
pub(crate) const REFERENCES: u16 = 1;
/// Longest prefix that is cut off.
pub(crate) const MAX_PREFIX: usize = 1024;
/// Bytes of a key that are in its head.
pub(crate) const HEAD: usize = 4;

/// A number of a page, and how many lines of memory the heads in it take: only a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(pub u64);

impl Link {
    const LINES_SHIFT: u32 = 40;

    pub(crate) fn new(page: u64, bytes: &Bytes) -> Link {
        let heads = at::HEADS + HEAD * count(bytes);
        Link(page | (heads.div_ceil(64) as u64) << Self::LINES_SHIFT)
    }

    #[inline(always)]
    pub(crate) fn page(self) -> u64 {
        self.0 & ((1 << Self::LINES_SHIFT) - 1)
    }

    #[inline(always)]
    pub(crate) fn lines(self) -> u64 {
        (self.0 >> Self::LINES_SHIFT) & 63
    }
}

/// The number of two bytes at an offset that is a constant.
#[inline(always)]
pub(crate) fn short(bytes: &Bytes, at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// Writes such a number; what does not fit cannot come from a page.
#[inline(always)]
pub(crate) fn set_short(bytes: &mut Bytes, at: usize, value: usize) {
    debug_assert!(value <= usize::from(u16::MAX));
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

#[inline(always)]
pub(crate) fn birth(bytes: &Bytes) -> u64 {
    le64(bytes, at::BIRTH).unwrap_or(0)
}

pub(crate) fn set_birth(bytes: &mut Bytes, stamp: u64) {
    bytes[at::BIRTH..at::BIRTH + 8].copy_from_slice(&stamp.to_le_bytes());
}

#[inline(always)]
pub(crate) fn kind(bytes: &Bytes) -> Option<Kind> {
    match bytes[at::KIND] {
        1 => Some(Kind::Leaf),
        2 => Some(Kind::Uniform),
        3 => Some(Kind::Inner),
        _ => None,
    }
}

#[inline(always)]
pub(crate) fn count(bytes: &Bytes) -> usize {
    short(bytes, at::COUNT)
}

/// What all keys of the page begin with.
#[inline(always)]
pub(crate) fn prefix(bytes: &Bytes) -> Result<&[u8], &'static str> {
    let len = short(bytes, at::PREFIX);
    PAGE.checked_sub(len).and_then(|from| bytes.get(from..)).ok_or("a prefix longer than the page")
}

/// The heads of the keys, as they stand there.
#[inline(always)]
pub(crate) fn heads(bytes: &Bytes) -> Result<&[[u8; HEAD]], &'static str> {
    let len = HEAD * count(bytes);
    let all = bytes.get(at::HEADS..at::HEADS + len).ok_or("more keys than fit in the page")?;
    Ok(all.as_chunks::<HEAD>().0)
}

/// The head of what is left of a key.
#[inline(always)]
pub(crate) fn head_of(rest: &[u8]) -> u32 {
    match rest.first_chunk::<HEAD>() {
        Some(first) => u32::from_le_bytes(*first).swap_bytes(),
        None => {
            let mut padded = [0; HEAD];
            padded[..rest.len()].copy_from_slice(rest);
            u32::from_le_bytes(padded).swap_bytes()
        }
    }
}

#[inline(always)]
pub(crate) fn head(heads: &[[u8; HEAD]], i: usize) -> u32 {
    heads.get(i).map_or(u32::MAX, |head| u32::from_le_bytes(*head))
}

/// The bytes of a key that a head stands for.
#[inline(always)]
pub(crate) fn bytes_of(head: u32) -> [u8; HEAD] {
    head.swap_bytes().to_le_bytes()
}

/// How many heads are lower.
#[inline(always)]
pub(crate) fn lower(heads: &[[u8; HEAD]], wanted: u32) -> usize {
    // Both parts are free of branches that nobody can predict; the second compares four at once.
    let mut from = 0;
    let mut len = heads.len();
    while len > 32 {
        let half = len / 2;
        from = if head(heads, from + half - 1) < wanted { from + half } else { from };
        len -= half;
    }
    let last = heads.get(from..from + len).unwrap_or(&[]);
    from + last.iter().map(|head| usize::from(u32::from_le_bytes(*head) < wanted)).sum::<usize>()
}

/// How many heads, from `from` on, are the same.
#[inline(always)]
pub(crate) fn run(heads: &[[u8; HEAD]], from: usize, wanted: u32) -> usize {
    // Nearly always none or one.
    let mut len = 0;
    while len < 4 && head(heads, from + len) == wanted && from + len < heads.len() {
        len += 1;
    }
    if len < 4 {
        return len;
    }
    heads.get(from..).unwrap_or(&[]).partition_point(|head| u32::from_le_bytes(*head) == wanted)
}

/// Where a key belongs among those of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is there, at this number.
    Found(usize),
    /// It would be at this number.
    Missing(usize),
}

impl Place {
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        let (Place::Found(i) | Place::Missing(i)) = self;
        i
    }
}

/// What is left of a key after the page's prefix; or, if it does not begin so, where it is of all
/// keys of the page.
#[inline(always)]
pub(crate) fn cut<'k>(key: &'k [u8], prefix: &[u8]) -> Result<&'k [u8], Ordering> {
    match key.split_at_checked(prefix.len()) {
        Some((start, rest)) if start == prefix => Ok(rest),
        // Not equal: shorter, or another.
        _ => Err(key.cmp(prefix)),
    }
}

/// The place among keys `from..from + len`, whose heads are equal, by comparing each with `compare`,
/// which says how the key at a number is to the one that is looked for.
#[inline(always)]
pub(crate) fn place_in_run(
    mut from: usize,
    mut len: usize,
    mut compare: impl FnMut(usize) -> Result<Ordering, &'static str>,
) -> Result<Place, &'static str> {
    while len > 0 {
        let half = len / 2;
        match compare(from + half)? {
            Ordering::Equal => return Ok(Place::Found(from + half)),
            Ordering::Less => {
                from += half + 1;
                len -= half + 1;
            }
            Ordering::Greater => len = half,
        }
    }
    Ok(Place::Missing(from))
}

/// How many bytes two keys have in common at their beginning.
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_agrees_with_a_plain_one() {
        for len in [0usize, 1, 2, 31, 32, 33, 64, 65, 100, 333, 500] {
            let numbers: Vec<u32> = (0..len).map(|i| (i / 3 * 10) as u32).collect();
            let heads: Vec<[u8; 4]> = numbers.iter().map(|n| n.to_le_bytes()).collect();
            for wanted in (0..len as u32 * 4 + 20).chain([u32::MAX]) {
                let at = numbers.partition_point(|n| *n < wanted);
                assert_eq!(lower(&heads, wanted), at, "{wanted} in {len}");
                let same = numbers.iter().filter(|n| **n == wanted).count();
                assert_eq!(run(&heads, at, wanted), same, "{wanted} in {len}");
            }
        }
    }

    #[test]
    fn heads_are_ordered_as_keys_are() {
        let keys: [&[u8]; 8] = [b"", b"\0", b"a", b"a\0", b"ab", b"abcd", b"abcde", b"\xff"];
        for (a, b) in keys.iter().zip(&keys[1..]) {
            assert!(head_of(a) <= head_of(b), "{a:?} {b:?}");
        }
        assert_eq!(bytes_of(head_of(b"abcdef")), *b"abcd");
    }

    #[test]
    fn a_key_without_the_prefix_is_before_or_after_all_others() {
        assert_eq!(cut(b"abcd", b"ab"), Ok(&b"cd"[..]));
        assert_eq!(cut(b"ab", b"ab"), Ok(&b""[..]));
        assert_eq!(cut(b"a", b"ab"), Err(Ordering::Less));
        assert_eq!(cut(b"ac", b"ab"), Err(Ordering::Greater));
        assert_eq!(cut(b"aazz", b"ab"), Err(Ordering::Less));
    }
}
