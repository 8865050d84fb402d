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
use super::view::lower_in_window;
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
    /// In a uniform leaf: whether the values are references. In any other: whether it has tags.
    pub(crate) const FLAGS: usize = 24;
    /// In a leaf: the address behind the last value that was put in a page of values, eight bytes.
    pub(crate) const TAIL: usize = 32;
    /// In a leaf: bytes of its pages of values that nobody refers to any more, about; four bytes.
    pub(crate) const DEAD: usize = 40;
    /// The heads.
    pub(crate) const HEADS: usize = 48;
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
/// Set in the flags of a leaf with a heap whose keys have tags.
pub(crate) const TAGGED: u16 = 2;
pub(crate) const BAD_PREFIX: &str = "a prefix longer than the page";
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

    /// Whether the last of so many heads is the first in its line.
    #[inline(always)]
    pub(crate) fn is_new_line(count: usize) -> bool {
        (at::HEADS + HEAD * count) % 64 == HEAD
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
    // As one slice: of two bytes the compiler makes two loads.
    bytes[at..].first_chunk::<2>().map_or(0, |two| usize::from(u16::from_le_bytes(*two)))
}

/// Writes such a number; what does not fit cannot come from a page.
#[inline(always)]
pub(crate) fn set_short(bytes: &mut Bytes, at: usize, value: usize) {
    debug_assert!(value <= usize::from(u16::MAX));
    bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

/// Moves part of a page; whether it lies within.
pub(crate) fn shift(bytes: &mut Bytes, from: usize, len: usize, to: usize) -> bool {
    let fits = from + len <= PAGE && to + len <= PAGE;
    if fits {
        bytes.copy_within(from..from + len, to);
    }
    fits
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

/// Whether it is a page that may have so many levels below it.
#[inline(always)]
pub(crate) fn is_on_level(bytes: &Bytes, level: u64) -> bool {
    const { assert!(at::LEVEL == at::KIND + 1) };
    // Both as one number: a lookup asks this of every page on its way.
    let found = short(bytes, at::KIND) as u64;
    match level {
        0 => found == Kind::Leaf as u64 || found == Kind::Uniform as u64,
        _ => found == Kind::Inner as u64 | level << 8,
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
    PAGE.checked_sub(len).and_then(|from| bytes.get(from..)).ok_or(BAD_PREFIX)
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
    let byte = |i: usize| u32::from(rest.get(i).copied().unwrap_or(0));
    match rest.first_chunk::<HEAD>() {
        Some(first) => u32::from_le_bytes(*first).swap_bytes(),
        None => byte(0) << 24 | byte(1) << 16 | byte(2) << 8,
    }
}

#[inline(always)]
pub(crate) fn head(heads: &[[u8; HEAD]], i: usize) -> u32 {
    heads.get(i).map_or(u32::MAX, |head| u32::from_le_bytes(*head))
}

/// Whether the prefix and the head of an entry are those of its key: else no search finds it.
pub(crate) fn is_head_of(bytes: &Bytes, i: usize, key: &[u8]) -> Result<bool, &'static str> {
    let rest = key.strip_prefix(prefix(bytes)?);
    let stored = head(heads(bytes)?, i);
    Ok(rest.is_some_and(|rest| head_of(rest) == stored))
}

/// The bytes of a key that a head stands for.
#[inline(always)]
pub(crate) fn bytes_of(head: u32) -> [u8; HEAD] {
    head.swap_bytes().to_le_bytes()
}

/// How many heads are compared at once at the end of a search.
pub(crate) const WINDOW: usize = 16;
/// How many heads are passed over at once at its beginning.
pub(crate) const STRIDE: usize = 4 * WINDOW;

/// How many heads are lower.
#[inline(always)]
pub(crate) fn lower(heads: &[[u8; HEAD]], wanted: u32) -> usize {
    match pass::<STRIDE>(heads, wanted) {
        Some((from, stride)) => from + lower_in(stride, wanted),
        None => lower_in(heads, wanted),
    }
}

/// The same among at most so many as a stride has.
#[inline(always)]
pub(crate) fn lower_in(heads: &[[u8; HEAD]], wanted: u32) -> usize {
    match pass::<WINDOW>(heads, wanted) {
        Some((from, window)) => from + lower_in_window(window, wanted),
        None => heads.iter().filter(|head| u32::from_le_bytes(**head) < wanted).count(),
    }
}

/// Passes over groups of `N` heads that are all lower: from where the search goes on, in so many;
/// `None` if there are not as many.
///
/// The last heads of all groups are looked at, and the lower ones counted: those loads do not wait for
/// each other, while a search by halves waits for the memory of each before it knows the next.
#[inline(always)]
pub(crate) fn pass<const N: usize>(
    heads: &[[u8; HEAD]],
    wanted: u32,
) -> Option<(usize, &[[u8; HEAD]; N])> {
    let last = heads.len().checked_sub(N)?;
    let (groups, _) = heads.as_chunks::<N>();
    let lower = groups.iter().filter(|group| u32::from_le_bytes(group[N - 1]) < wanted).count();
    let from = (N * lower).min(last);
    Some((from, heads.get(from..from + N)?.first_chunk::<N>()?))
}

/// In which line of memory of its page a head is.
#[inline(always)]
pub(crate) fn line_of(i: usize) -> usize {
    (at::HEADS + HEAD * i) / 64
}

/// How many heads, from `from` on, are the same.
#[inline(always)]
pub(crate) fn run(heads: &[[u8; HEAD]], from: usize, wanted: u32) -> usize {
    // Nearly always none or one.
    let mut len = 0;
    while len < 4 && head(heads, from + len) == wanted && from + len < heads.len() {
        len += 1;
    }
    if len < 4 { len } else { long_run(heads, from, wanted) }
}

/// The same where they are many. By halves, each step of which waits for the one before, it took three times as long.
#[inline(never)]
fn long_run(heads: &[[u8; HEAD]], from: usize, wanted: u32) -> usize {
    let behind = heads.get(from..).unwrap_or_default();
    wanted.checked_add(1).map_or(behind.len(), |more| lower(behind, more))
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

/// The place among keys `from..from + len`, whose heads are equal, by comparing each with `compare`,
/// which says how the key at a number is to the one that is looked for.
///
/// Tried and dropped: comparisons that begin where the nearer neighbours differ from the key, by eight bytes without a call.
/// Lookups among paths took a fifth longer: each step then waits for what the one before it found, while the processor runs
/// ahead of whole comparisons. Nor three comparisons at once, without a branch, by which there are half as many steps: a tenth
/// slower, it is their number that counts. Nor one comparison with what the first and the last have in common, and then of the eight
/// bytes behind it as numbers, without branches: twice the time, as of each key its place and its length have to be read first.
/// Nor further heads in inner pages, of what comes behind that which three keys or more with one head have in common, and of those
/// with one head again, passed unseen, with one comparison at the end: four tenths of the comparisons were left, and lookups among paths
/// took 0.97 of the time, for a sixth more bytes in each inner page.
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
#[inline]
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    let (first, second) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let mut len = 0;
    for (a, b) in first.iter().zip(second) {
        let difference = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if difference != 0 {
            return len + difference.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    let rest = a[len..].iter().zip(&b[len..]);
    len + rest.take_while(|(a, b)| a == b).count()
}

/// Whether one key is below another: as `a < b`, for keys that often differ in their first bytes.
#[inline]
pub(crate) fn is_below(a: &[u8], b: &[u8]) -> bool {
    if let (Some(first), Some(second)) = (a.first_chunk::<8>(), b.first_chunk::<8>()) {
        let [first, second] = [first, second].map(|key| u64::from_le_bytes(*key).swap_bytes());
        if first != second {
            return first < second;
        }
    }
    a < b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_agrees_with_a_plain_one() {
        for len in [0usize, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 79, 100, 127, 128, 333, 500] {
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
    fn keys_are_compared_as_slices_are() {
        let keys: [&[u8]; 9] = [
            b"",
            b"a",
            b"abcdefg",
            b"abcdefgh",
            b"abcdefgi",
            b"abcdefgha",
            b"abcdefghabcdefgh",
            b"abcdefghabcdefghx",
            b"\xffbcdefgh",
        ];
        for a in keys {
            for b in keys {
                assert_eq!(is_below(a, b), a < b);
                let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
                assert_eq!(common(a, b), same);
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
}
