//! What a record of the log looks like: its header, its marks, and its checksum.

use super::format::{Header, MAX_KEY, put};
use crate::bytes::le64;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What a record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The key has this value.
    Put,
    /// The key has no value.
    Delete,
    /// The key of the put that it names has no value: see [`Header::has_short_removals`].
    Remove,
    /// The next `key_len` records belong together: all of them count, or none.
    Batch,
    /// No key has a value.
    Clear,
    /// The segment ends here; the eight bytes that follow name the next one's first unit.
    End,
    /// Whatever the log has before the place that follows has no value: it was copied, or dropped.
    Evict,
}

pub(crate) const SHORT_HEADER: usize = 8;
const LONG_HEADER: usize = 16;
const LONG: u8 = 0x80;
/// Set in the kind of a put when the index no longer leads to it, so that cleaning need not ask.
/// All of these bits or none, lest one that flips takes a record away. The checksum is made without
/// them: after a power failure they mean nothing, for what replaced the record may be lost.
const DEAD: u8 = 0x38;
const PUT: u8 = 1;
const DEAD_PUT: u8 = PUT | DEAD;
const DELETE: u8 = 2;
/// Of the kind, in a store with a limit: somebody has read the record since it was written here.
const READ: u8 = 0x40;
/// The same in a record's first word.
pub(crate) const USED: u64 = (READ as u64) << 32;
/// Bytes behind an eviction's header: a segment's number, and a place in it.
pub(crate) const EVICTION_BYTES: u64 = 16;
/// Bytes behind a removal's header, which count as its value: where the put is, and the sum of its key.
pub(crate) const REMOVAL_BYTES: u64 = 16;
/// Longer keys are not written when they are removed: they would take more room. In debug builds so it is with most keys,
/// and not all, that every test of a store has removals of both ways.
pub(crate) const LONG_KEY: usize = if cfg!(debug_assertions) { 6 } else { REMOVAL_BYTES as usize };
/// Records begin at multiples of this.
pub(crate) const ALIGN: u64 = 8;

/// The header of a record: what it does and how long its parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub kind: Kind,
    pub key_len: u32,
    pub value_len: u32,
}

impl RecordHeader {
    pub(crate) fn new(kind: Kind, key: &[u8], value: &[u8]) -> RecordHeader {
        RecordHeader { kind, key_len: key.len() as u32, value_len: value.len() as u32 }
    }

    fn is_short(&self) -> bool {
        self.key_len <= 0xff && self.value_len <= 0xffff
    }

    /// Bytes of the header itself.
    #[inline(always)]
    pub(crate) fn header_bytes(&self) -> u64 {
        if self.is_short() { SHORT_HEADER as u64 } else { LONG_HEADER as u64 }
    }

    /// Bytes of header, key and value; only puts, deletes and removals have the latter two.
    #[inline(always)]
    fn bytes(&self) -> u64 {
        let payload = match self.kind {
            Kind::Put | Kind::Delete | Kind::Remove => {
                u64::from(self.key_len) + u64::from(self.value_len)
            }
            Kind::Batch | Kind::Clear => 0,
            Kind::End => 8,
            Kind::Evict => EVICTION_BYTES,
        };
        self.header_bytes() + payload
    }

    /// Bytes that the record takes in the log.
    #[inline(always)]
    pub(crate) fn room(&self) -> u64 {
        self.bytes().next_multiple_of(ALIGN)
    }

    /// The header's bytes, the checksum still zero, and how many they are.
    #[inline(always)]
    pub(crate) fn encode(&self) -> ([u8; LONG_HEADER], usize) {
        let mut bytes = [0; LONG_HEADER];
        let kind = match self.kind {
            Kind::Put => PUT,
            Kind::Delete => DELETE,
            Kind::Batch => 3,
            Kind::End => 4,
            Kind::Clear => 5,
            Kind::Evict => 6,
            Kind::Remove => 7,
        };
        if self.is_short() {
            let word = u64::from(kind) << 32
                | u64::from(self.key_len) << 40
                | u64::from(self.value_len) << 48;
            put(&mut bytes, 0, &word.to_le_bytes());
            return (bytes, SHORT_HEADER);
        }
        put(&mut bytes, 4, &[kind | LONG]);
        put(&mut bytes, 8, &self.key_len.to_le_bytes());
        put(&mut bytes, 12, &self.value_len.to_le_bytes());
        (bytes, LONG_HEADER)
    }

    /// The header that begins with the word `first`; `second` gives the word after it.
    #[inline(always)]
    pub(crate) fn decode(first: u64, second: impl FnOnce() -> Option<u64>) -> Option<RecordHeader> {
        let tag = (first >> 32) as u8;
        let kind = match tag & !(LONG | READ) {
            PUT | DEAD_PUT => Kind::Put,
            DELETE => Kind::Delete,
            3 => Kind::Batch,
            4 => Kind::End,
            5 => Kind::Clear,
            6 => Kind::Evict,
            7 => Kind::Remove,
            _ => return None,
        };
        let (key_len, value_len) = if tag & LONG == 0 {
            ((first >> 40) as u32 & 0xff, (first >> 48) as u32)
        } else {
            let second = second()?;
            (second as u32, (second >> 32) as u32)
        };
        let header = RecordHeader { kind, key_len, value_len };
        // A long header where a short one would do is not what a writer writes.
        let is_fit = match kind {
            Kind::Batch => true,
            Kind::Remove => (u64::from(key_len), u64::from(value_len)) == (0, REMOVAL_BYTES),
            _ => u64::from(key_len) <= MAX_KEY,
        };
        ((tag & LONG == 0) == header.is_short() && is_fit).then_some(header)
    }
}

/// The lengths of key and value of a put with a short header that begins with this word.
#[inline(always)]
pub(crate) fn short_put(first: u64) -> Option<(u64, u64)> {
    let is_put = (first >> 32) as u8 & !(DEAD | READ) == PUT;
    is_put.then_some((first >> 40 & 0xff, first >> 48))
}

/// Whether a put that begins with this word is marked as dead.
#[inline(always)]
pub(crate) fn is_dead(first: u64) -> bool {
    (first >> 32) as u8 & DEAD == DEAD
}

/// Whether a put with a short header begins with this word, and no mark of what is dead.
#[inline(always)]
pub(crate) fn is_short_put(first: u64) -> bool {
    (first >> 32) as u8 & !READ == PUT
}

/// The room of what begins with this word, if the word says that it is garbage in the oldest segment: a put with a short
/// header that is marked as dead, or a delete of a short key.
#[inline(always)]
pub(crate) fn room_if_passed(first: u64) -> Option<u64> {
    let (key_len, value_len) = (first >> 40 & 0xff, first >> 48);
    let is_passed = match (first >> 32) as u8 & !READ {
        DEAD_PUT => true,
        DELETE => value_len == 0,
        _ => false,
    };
    is_passed.then(|| short_room(key_len, value_len))
}

/// The room of a record with a short header, and so many bytes of key and value.
#[inline(always)]
pub(crate) fn short_room(key_len: u64, value_len: u64) -> u64 {
    (SHORT_HEADER as u64 + key_len + value_len).next_multiple_of(ALIGN)
}

/// The first word of a put with the mark, or without.
#[inline(always)]
pub(crate) fn marked(first: u64, is_dead: bool) -> u64 {
    const MARK: u64 = (DEAD as u64) << 32;
    if is_dead { first | MARK } else { first & !MARK }
}

/// The checksum of a record: its lengths, key and value, and where it is, so that what an earlier
/// use of the segment left there does not fit. Key and value are summed one after the other, not
/// as one piece, lest a writer reads back what it has just written in parts.
///
/// The place is added to the sum of the rest, so that one look at a record checks it and sums its copy. (In stores from
/// before the place is the seed of the rest.)
#[inline(always)]
pub(crate) fn record_checksum(
    store: &Header,
    record: &RecordHeader,
    place: (u64, u64),
    (key, value): (&[u8], &[u8]),
) -> u32 {
    match store.has_movable_sums {
        true => content_sum(store, record, 0, (key, value)) ^ place_sum(store, place),
        false => content_sum(store, record, place_word(place), (key, value)),
    }
}

/// The checksum of a copy at `to` of the record that has the checksum `sum` at `from`; `None` if that does not fit.
#[inline]
pub(crate) fn copied_checksum(
    store: &Header,
    (record, sum): (&RecordHeader, u32),
    (from, to): ((u64, u64), (u64, u64)),
    content: (&[u8], &[u8]),
) -> Option<u32> {
    if store.has_movable_sums {
        let own = content_sum(store, record, 0, content);
        return (own ^ place_sum(store, from) == sum).then(|| own ^ place_sum(store, to));
    }
    let at = |place| record_checksum(store, record, place, content);
    (at(from) == sum).then(|| at(to))
}

/// The sum of a key alone, by which a removal knows it.
#[inline]
pub(crate) fn key_sum(store: &Header, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, store.seed)
}

/// The sum of lengths, key and value.
#[inline(always)]
fn content_sum(
    store: &Header,
    record: &RecordHeader,
    seed: u64,
    (key, value): (&[u8], &[u8]),
) -> u32 {
    let (bytes, _) = record.encode();
    let word = |at| le64(&bytes, at).unwrap_or(0);
    let lengths = word(0) ^ word(8).rotate_left(17);
    let key_sum = xxh3_64_with_seed(key, store.seed ^ seed ^ lengths);
    xxh3_64_with_seed(value, key_sum) as u32
}

/// An offset and the number of its segment as one word.
#[inline]
fn place_word((at, sequence): (u64, u64)) -> u64 {
    at.rotate_left(24) ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What a place adds to a checksum: its word and the store's seed, mixed as SplitMix64 does it.
#[inline]
fn place_sum(store: &Header, place: (u64, u64)) -> u32 {
    let mut word = place_word(place) ^ store.seed;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_decode_to_what_was_encoded() {
        for (key_len, value_len) in [(0, 0), (255, 65535), (256, 0), (0, 65536), (65536, u32::MAX)]
        {
            let header = RecordHeader { kind: Kind::Put, key_len, value_len };
            let (bytes, len) = header.encode();
            assert_eq!(len as u64, header.header_bytes());
            let first = le64(&bytes, 0).unwrap();
            assert_eq!(RecordHeader::decode(first, || le64(&bytes, 8)), Some(header));
        }
        // That a record was read is no part of what it says.
        let read = RecordHeader { kind: Kind::Put, key_len: 3, value_len: 4 };
        let first = le64(&read.encode().0, 0).unwrap();
        assert_eq!(RecordHeader::decode(first | USED, || None), Some(read));
        assert_eq!(RecordHeader::decode(0, || None), None);
        assert_eq!(RecordHeader::decode(0x81 << 32, || Some(0)), None);
        let put = RecordHeader { kind: Kind::Put, key_len: 3, value_len: 4 };
        let first = le64(&put.encode().0, 0).unwrap();
        assert_eq!(RecordHeader::decode(marked(first, true), || None), Some(put));
        assert!(is_dead(marked(first, true)) && !is_dead(first));
        assert_eq!(marked(marked(first, true), false), first);
        for bit in (0..8).filter(|bit| 1 << bit != READ) {
            let flipped = RecordHeader::decode(first ^ 1 << (32 + bit), || None);
            assert!(flipped.is_none_or(|found| found.kind != Kind::Put), "bit {bit}");
        }
    }

    /// Danger: a copy that hides what became of the record, or what an earlier use of a place left there, which fits.
    #[test]
    fn the_checksum_of_a_copy_fits_if_that_of_the_record_did() {
        let store = Header {
            store: 1,
            seed: 99,
            limit: 0,
            has_movable_sums: true,
            has_numbered_ends: true,
            has_short_removals: true,
        };
        let (from, to) = ((8216, 1), (123_456, 7));
        let record = RecordHeader::new(Kind::Put, b"key", b"value");
        let sum = |place, value| record_checksum(&store, &record, place, (b"key", value));
        for store in [store, Header { has_movable_sums: false, ..store }] {
            let sum = |place, value| record_checksum(&store, &record, place, (b"key", value));
            let of = (&record, sum(from, b"value"));
            let copied = |of, value| copied_checksum(&store, of, (from, to), (b"key", value));
            assert_eq!(copied(of, b"value"), Some(sum(to, b"value")));
            assert_eq!(copied(of, b"velue"), None);
            assert_eq!(copied((of.0, of.1 ^ 1), b"value"), None);
        }
        let places = (1..2000u64).flat_map(|sequence| [(4096, sequence), (8 * sequence + 8192, 1)]);
        let mut sums: Vec<u32> = places.map(|place| sum(place, b"value")).collect();
        sums.sort_unstable();
        sums.dedup();
        assert!(sums.len() > 3990, "{} of 3998 places have one of their own", sums.len());
    }
}
