//! How a record lies in the heap of a page, and what lies elsewhere because it is large.
//!
//! A record of the heap: a number of one to three bytes, four times the length of what is left of
//! its key plus two flags; in a leaf, unless the value is elsewhere, the length of the value in the
//! same manner; what is left of the key behind its head, or where the whole key is; the value, or
//! where it is.

use super::format::PAGE_BYTES;
use super::page::HEAD;
use crate::bytes::{append_short, le32, le64};
use std::cmp::Ordering;

/// Set where the key is elsewhere, as a whole.
pub(crate) const FAR_KEY: u32 = 1;
/// Set where the value is elsewhere.
pub(crate) const FAR_VALUE: u32 = 2;
/// Longest key, and value, that are in their page.
pub(crate) const NEAR_KEY: usize = 512;
pub(crate) const NEAR_VALUE: usize = 512;
/// Longest value that shares a page with others; longer ones have pages of their own.
pub(crate) const PACKED_VALUE: usize = 2048;

/// Where bytes are that are too many for a page of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Far {
    /// Their address in the file.
    pub at: u64,
    pub len: u32,
    pub sum: u32,
}

/// Bytes that a reference takes.
pub(crate) const FAR_BYTES: usize = 16;

impl Far {
    /// Whether it shares its page with other values of its leaf.
    #[inline(always)]
    pub(crate) fn is_packed(self) -> bool {
        self.len as usize <= PACKED_VALUE
    }

    /// The page that it begins in.
    pub(crate) fn page(self) -> u64 {
        self.at / PAGE_BYTES
    }

    pub(crate) fn encode(self) -> [u8; FAR_BYTES] {
        let mut bytes = [0; FAR_BYTES];
        bytes[..8].copy_from_slice(&self.at.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    #[inline(always)]
    pub(crate) fn decode(bytes: &[u8]) -> Option<Far> {
        Some(Far { at: le64(bytes, 0)?, len: le32(bytes, 8)?, sum: le32(bytes, 12)? })
    }
}

/// Who can say what is elsewhere.
pub(crate) trait Elsewhere {
    /// The bytes there.
    fn far(&self, far: Far) -> Result<&[u8], &'static str>;
}

/// Tests: of those whose records are all in their page.
#[cfg(test)]
pub(super) struct Nowhere;

#[cfg(test)]
impl Elsewhere for Nowhere {
    fn far(&self, _: Far) -> Result<&[u8], &'static str> {
        Err("nothing is elsewhere")
    }
}

/// What is left of a key that is in a page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tail<'p> {
    /// What comes after the head.
    Near(&'p [u8]),
    /// The whole key.
    Far(Far),
}

/// A value, or where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'p> {
    Near(&'p [u8]),
    Far(Far),
}

/// A record of a heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'p> {
    /// Bytes of the key after the page's prefix.
    pub rest: usize,
    pub tail: Tail<'p>,
    pub value: Value<'p>,
    /// Where the tail is in it, and how long all of it is.
    pub tail_at: usize,
    pub size: usize,
}

/// A number in one to three bytes, seven bits each, the lowest first.
#[inline(always)]
fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (first, after) = bytes.split_first()?;
    if *first < 0x80 {
        return Some((u32::from(*first), after));
    }
    let (second, after) = after.split_first()?;
    let low = u32::from(*first & 0x7f) | u32::from(*second & 0x7f) << 7;
    if *second < 0x80 {
        return Some((low, after));
    }
    let (third, after) = after.split_first()?;
    Some((low | u32::from(*third) << 14, after))
}

/// Such a number, and how many bytes it takes.
#[inline(always)]
fn encoded(number: u32) -> ([u8; 3], usize) {
    debug_assert!(number < 1 << 22);
    let more = |is_last: bool| if is_last { 0 } else { 0x80 };
    let len = number_bytes(number);
    let low = |shift: u32| (number >> shift) as u8 & 0x7f;
    ([low(0) | more(len == 1), low(7) | more(len == 2), low(14)], len)
}

fn push_number(out: &mut Vec<u8>, number: u32) {
    let (bytes, len) = encoded(number);
    out.extend_from_slice(&bytes[..len]);
}

#[inline(always)]
pub(crate) fn number_bytes(number: u32) -> usize {
    match number {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        _ => 3,
    }
}

/// The record of a leaf that begins there.
#[inline(always)]
pub(crate) fn decode(bytes: &[u8]) -> Option<Record<'_>> {
    let (key, after) = number(bytes)?;
    let rest = (key >> 2) as usize;
    let (value_len, after) =
        if key & FAR_VALUE == 0 { number(after)? } else { (FAR_BYTES as u32, after) };
    let tail_at = bytes.len() - after.len();
    let (tail, after) = tail(key, after)?;
    let size = bytes.len() - after.len() + value_len as usize;
    let value = after.get(..value_len as usize)?;
    let value =
        if key & FAR_VALUE == 0 { Value::Near(value) } else { Value::Far(Far::decode(value)?) };
    Some(Record { rest, tail, value, tail_at, size })
}

/// At least as many bytes as a short record has after the head of its key.
pub(crate) const SHORT: usize = 32;

/// The record that begins there if it is of the usual sizes and nothing of it is elsewhere: bytes of
/// the key after the prefix; what comes after its head, and what stands behind that; the value.
#[inline(always)]
pub(crate) fn decode_short(bytes: &[u8]) -> Option<(usize, &[u8; SHORT], &[u8])> {
    let ([key, value], after) = bytes.split_first_chunk()?;
    // One byte each, and no flags.
    if (key & 0x83) | (value & 0x80) != 0 {
        return None;
    }
    let rest = usize::from(key >> 2);
    let tail = rest.saturating_sub(HEAD);
    Some((rest, after.first_chunk()?, after.get(tail..tail + usize::from(*value))?))
}

/// At least as many bytes as a record of middle size has after the head of its key.
pub(crate) const MIDDLE: usize = 64;

/// The same of up to two bytes for each length. Which of them have two cannot be foreseen: so there
/// is no branch.
#[inline(always)]
pub(crate) fn decode_middle(bytes: &[u8]) -> Option<(usize, &[u8; MIDDLE], &[u8])> {
    // Of two bytes at most.
    let number = |word: u32| {
        let is_two = word >> 7 & 1;
        ((word & 0x7f) | ((word >> 1 & 0x3f80) * is_two), 1 + is_two, word >> 8 & is_two << 7)
    };
    let word = le32(bytes, 0)?;
    let (key, key_len, key_goes_on) = number(word);
    let (value, value_len, value_goes_on) = number(word >> (8 * key_len));
    let (rest, from) = ((key >> 2) as usize, (key_len + value_len) as usize);
    let tail = rest.saturating_sub(HEAD);
    if key_goes_on | value_goes_on | key & (FAR_KEY | FAR_VALUE) != 0 || tail > MIDDLE {
        return None;
    }
    let after = bytes.get(from..)?;
    Some((rest, after.first_chunk()?, after.get(tail..tail + value as usize)?))
}

/// The key of an inner page that begins there: how many bytes are left of it, and those.
#[inline(always)]
pub(crate) fn decode_key(bytes: &[u8]) -> Option<(usize, Tail<'_>)> {
    let (key, after) = number(bytes)?;
    Some(((key >> 2) as usize, tail(key, after)?.0))
}

#[inline(always)]
fn tail(key: u32, bytes: &[u8]) -> Option<(Tail<'_>, &[u8])> {
    if key & FAR_KEY == 0 {
        let (near, after) = bytes.split_at_checked(((key >> 2) as usize).saturating_sub(HEAD))?;
        Some((Tail::Near(near), after))
    } else {
        let (far, after) = bytes.split_at_checked(FAR_BYTES)?;
        Some((Tail::Far(Far::decode(far)?), after))
    }
}

/// What is to be stored of a key in a page: what is left of it, and where the whole is if it is not
/// in the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyToStore<'a> {
    pub rest: &'a [u8],
    pub far: Option<Far>,
}

impl<'a> KeyToStore<'a> {
    fn number(&self) -> u32 {
        (self.rest.len() as u32) << 2 | if self.far.is_some() { FAR_KEY } else { 0 }
    }

    /// What of it comes behind its head, or where it is.
    pub(crate) fn tail(&self) -> Tail<'a> {
        match self.far {
            Some(far) => Tail::Far(far),
            None => Tail::Near(self.rest.get(HEAD..).unwrap_or_default()),
        }
    }

    fn tail_bytes(&self) -> usize {
        if self.far.is_some() { FAR_BYTES } else { self.rest.len().saturating_sub(HEAD) }
    }
}

/// What is to be stored of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueToStore<'a> {
    Near(&'a [u8]),
    Far(Far),
}

impl ValueToStore<'_> {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            ValueToStore::Near(value) => value.len(),
            ValueToStore::Far(_) => FAR_BYTES,
        }
    }
}

impl<'a> From<Value<'a>> for ValueToStore<'a> {
    fn from(value: Value<'a>) -> Self {
        match value {
            Value::Near(value) => ValueToStore::Near(value),
            Value::Far(far) => ValueToStore::Far(far),
        }
    }
}

/// Bytes that a record takes in a heap.
pub(crate) fn record_bytes(key: KeyToStore<'_>, value: ValueToStore<'_>) -> usize {
    let lengths = number_bytes(key.number())
        + if let ValueToStore::Near(value) = value { number_bytes(value.len() as u32) } else { 0 };
    lengths + key.tail_bytes() + value.bytes()
}

/// Writes the lengths of a record whose parts are in its page before those parts, which are at `end`;
/// where they begin.
#[inline(always)]
pub(crate) fn put_lengths(bytes: &mut [u8], end: usize, rest: usize, value: usize) -> usize {
    let numbers = [(rest as u32) << 2, value as u32];
    if numbers[0] < 0x80 && numbers[1] < 0x80 {
        bytes[end - 2..end].copy_from_slice(&numbers.map(|number| number as u8));
        return end - 2;
    }
    numbers.into_iter().rev().fold(end, |end, number| {
        let (number, len) = encoded(number);
        bytes[end - len..end].copy_from_slice(&number[..len]);
        end - len
    })
}

/// How many bytes say how long the rest of a key is.
#[inline(always)]
pub(crate) fn length_bytes(rest: usize) -> usize {
    number_bytes((rest as u32) << 2)
}

/// Bytes that a key of an inner page takes in a heap where it is.
pub(crate) fn stored_key_bytes(rest: usize, tail: Tail<'_>) -> usize {
    length_bytes(rest)
        + match tail {
            Tail::Near(tail) => tail.len(),
            Tail::Far(_) => FAR_BYTES,
        }
}

/// Puts a record behind `out`, of whose key `rest` bytes are left.
pub(crate) fn encode(out: &mut Vec<u8>, rest: usize, tail: Tail<'_>, value: ValueToStore<'_>) {
    let far_key = if let Tail::Far(_) = tail { FAR_KEY } else { 0 };
    let number = (rest as u32) << 2 | far_key;
    match value {
        ValueToStore::Near(value) => {
            push_number(out, number);
            push_number(out, value.len() as u32);
            push_tail(out, tail);
            append_short(out, value);
        }
        ValueToStore::Far(far) => {
            push_number(out, number | FAR_VALUE);
            push_tail(out, tail);
            out.extend_from_slice(&far.encode());
        }
    }
}

#[inline(always)]
fn push_tail(out: &mut Vec<u8>, tail: Tail<'_>) {
    match tail {
        Tail::Near(tail) => append_short(out, tail),
        Tail::Far(far) => out.extend_from_slice(&far.encode()),
    }
}

/// Bytes that a key takes in the heap of an inner page; 0 if its head says all.
pub(crate) fn key_bytes(key: KeyToStore<'_>) -> usize {
    if is_head_enough(key) { 0 } else { number_bytes(key.number()) + key.tail_bytes() }
}

/// Puts a key of an inner page behind `out`; nothing if its head says all.
pub(crate) fn encode_key(out: &mut Vec<u8>, key: KeyToStore<'_>) {
    if !is_head_enough(key) {
        push_number(out, key.number());
        push_tail(out, key.tail());
    }
}

/// A short key without zeros at its end: its head is of no other.
fn is_head_enough(key: KeyToStore<'_>) -> bool {
    key.far.is_none() && key.rest.len() <= HEAD && key.rest.last() != Some(&0)
}

/// How a key in a page, of which `rest` bytes are left, is to one with the same head, of which
/// `wanted` is left, the whole being `key`.
#[inline(always)]
pub(crate) fn compare(
    rest: usize,
    tail: Tail<'_>,
    wanted: &[u8],
    key: &[u8],
    elsewhere: &impl Elsewhere,
) -> Result<Ordering, &'static str> {
    match tail {
        Tail::Near(tail) => Ok(compare_near(rest, tail, wanted)),
        Tail::Far(far) => Ok(elsewhere.far(far)?.cmp(key)),
    }
}

/// Whether a key in a page is one with the same head.
#[inline(always)]
pub(crate) fn is_same(
    rest: usize,
    tail: Tail<'_>,
    wanted: &[u8],
    key: &[u8],
    elsewhere: &impl Elsewhere,
) -> Result<bool, &'static str> {
    match tail {
        Tail::Near(tail) => {
            Ok(rest == wanted.len() && tail == wanted.get(HEAD..).unwrap_or_default())
        }
        Tail::Far(far) => Ok(elsewhere.far(far)? == key),
    }
}

/// How a key that is in its page is to one with the same head.
#[inline(always)]
pub(crate) fn compare_near(rest: usize, tail: &[u8], wanted: &[u8]) -> Ordering {
    // Heads of keys shorter than a head are filled with zeros, which others may have.
    let lengths = rest.min(HEAD).cmp(&wanted.len().min(HEAD));
    lengths.then_with(|| tail.cmp(wanted.get(HEAD..).unwrap_or(&[])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let long = [7; 600];
        let far = Far { at: 0x1234_5678_9abc, len: 99_999, sum: 5 };
        for len in [0, 1, 4, 5, 31, 32, 40, 127, 128, 500] {
            for value in [ValueToStore::Near(&long[..len]), ValueToStore::Far(far)] {
                for far in [None, Some(far)] {
                    let key = KeyToStore { rest: &long[..len], far };
                    let mut out = Vec::new();
                    encode(&mut out, len, key.tail(), value);
                    assert_eq!(out.len(), record_bytes(key, value));
                    let record = decode(&out).unwrap();
                    assert_eq!((record.rest, record.size), (len, out.len()));
                    match (record.tail, key.far) {
                        (Tail::Near(tail), None) => assert_eq!(tail.len(), len.saturating_sub(4)),
                        (Tail::Far(found), Some(far)) => assert_eq!(found, far),
                        other => panic!("{other:?}"),
                    }
                    match (record.value, value) {
                        (Value::Near(a), ValueToStore::Near(b)) => assert_eq!(a, b),
                        (Value::Far(a), ValueToStore::Far(b)) => assert_eq!(a, b),
                        other => panic!("{other:?}"),
                    }
                    for cut in 0..out.len() {
                        assert!(
                            decode(&out[..cut]).is_none()
                                && decode_short(&out[..cut]).is_none()
                                && decode_middle(&out[..cut]).is_none()
                        );
                    }
                    out.extend([1; MIDDLE]);
                    let record = decode(&out).unwrap();
                    match (decode_middle(&out), record.tail, record.value) {
                        (Some((rest, tail, value)), Tail::Near(whole), Value::Near(same)) => {
                            assert_eq!((rest, &tail[..whole.len()], value), (len, whole, same));
                        }
                        (None, Tail::Near(_), Value::Near(_)) => assert!(len > HEAD + MIDDLE),
                        (found, ..) => assert_eq!(found, None),
                    }
                    match (decode_short(&out), record.tail, record.value) {
                        (Some((rest, tail, value)), Tail::Near(whole), Value::Near(same)) => {
                            assert_eq!((rest, &tail[..whole.len()], value), (len, whole, same));
                        }
                        (None, Tail::Near(_), Value::Near(value)) => {
                            assert!(len > 31 || value.len() > 127);
                        }
                        (found, ..) => assert_eq!(found, None),
                    }
                }
            }
        }
    }

    #[test]
    fn a_length_in_more_bytes_than_it_needs_counts_as_it_is() {
        let record = [0x80 | 20, 0, 0x83, 0, 7, 1, 2, 3, 9, 9];
        let found = decode(&record).unwrap();
        assert!(matches!((found.tail, found.value), (Tail::Near([7]), Value::Near([1, 2, 3]))));
        assert_eq!((found.tail_at, found.size), (4, 8));
    }

    #[test]
    fn keys_with_equal_heads_are_ordered_by_what_follows() {
        let keys: [&[u8]; 6] = [b"a", b"a\0", b"a\0\0", b"a\0\0\0", b"a\0\0\0\0", b"a\0\0\0b"];
        for (i, a) in keys.iter().enumerate() {
            for (j, b) in keys.iter().enumerate() {
                let tail = a.get(HEAD..).unwrap_or(&[]);
                assert_eq!(compare_near(a.len(), tail, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }
}
