//! The bytes of a hash store's two files; `docs/format/hash.md` describes them.
//!
//! This file is the only place that knows offsets in headers, and [`super::record`] what a record looks like. The
//! data file is the truth: a log of records in segments. The index file can always be made again
//! from it.

use crate::bytes::{le32, le64};
use crate::keyhash::KeyHash;
use crate::magic::{self, HAS_COPY, HASH, HASH_INDEX, IGNORABLE_AT, MAGIC};
use crate::os::publish::Further;
use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const VERSION: u32 = 1;

/// What the name of an index ends with, behind that of its data file.
const INDEX: &str = "-index";
/// The index, which lies beside the data file.
pub(crate) const INDEX_FILE: Further = Further { end: INDEX, is_own: is_index };

/// Where the index is of the store whose data file is at `data`, a path without links.
pub(crate) fn index_of(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(INDEX);
    name.into()
}

/// Whether a file that begins so is the index of a hash store, or what is left of one that was cut short.
pub(crate) fn is_index(head: &[u8]) -> bool {
    let engine = HASH_INDEX.to_le_bytes();
    MAGIC.iter().chain(&engine).zip(head).all(|(own, found)| own == found)
}

/// Longest key, in bytes.
pub(crate) const MAX_KEY: u64 = 64 << 10;
/// Longest value, in bytes.
pub(crate) const MAX_VALUE: u64 = u32::MAX as u64;
/// Addresses count units of eight bytes in forty bits.
pub(crate) const MAX_FILE: u64 = 8 << 40;

// --- the data file's header --------------------------------------------------------------------

/// Bytes of the header that never change once written.
pub(crate) const HEADER_BYTES: usize = 512;
const CHECKSUM_AT: usize = HEADER_BYTES - 8;
/// Where the two checkpoints lie, each in a sector of its own.
pub(crate) const CHECKPOINTS: [u64; 2] = [512, 1024];
/// Where the log begins at present, and how far it reached when that was written: as a checkpoint, but of what is in
/// memory. Written in turn, too, as who writes it may be killed.
pub(crate) const PRESENT: [u64; 2] = [1536, 1600];
/// Where what only running processes need begins.
pub(crate) const SESSION_AT: u64 = 2048;
/// Where readers say what they hold: a cache line for each.
pub(crate) const PINS_AT: u64 = 4096;
/// How many readers may hold something at once.
pub(crate) const PINS: u64 = 64;
/// Where the log begins.
pub(crate) const LOG_AT: u64 = 8192;

/// Words of the session, as offsets in the data file.
pub(crate) mod session {
    use super::SESSION_AT;
    /// The first of the four words that say whose session it is.
    pub(crate) const BOOT_LOW: u64 = SESSION_AT;
    /// A line that every reader reads and that rarely changes.
    pub(crate) const EPOCH: u64 = SESSION_AT + 64;
    pub(crate) const INDEX_ID: u64 = SESSION_AT + 72;
    pub(crate) const WRITER_LOCK: u64 = SESSION_AT + 128;
    pub(crate) const SYNC_LOCK: u64 = SESSION_AT + 192;
    /// Records ever appended; and how many of them are durable.
    pub(crate) const CHANGES: u64 = SESSION_AT + 256;
    pub(crate) const DURABLE: u64 = SESSION_AT + 264;
    /// The number of the newest checkpoint.
    pub(crate) const CHECKPOINT: u64 = SESSION_AT + 272;
    /// What the last sync made durable: the oldest segment, and the end of the log.
    pub(crate) const SYNCED_OLDEST: u64 = SESSION_AT + 280;
    pub(crate) const SYNCED_SEQUENCE: u64 = SESSION_AT + 288;
    pub(crate) const SYNCED_END: u64 = SESSION_AT + 296;
    /// Segments below this sequence number may be written over: no checkpoint that may be on the disk needs them.
    pub(crate) const REUSABLE: u64 = SESSION_AT + 304;
    /// Bytes of the data file, and above 48 bits how often it was cut.
    pub(crate) const DATA_LEN: u64 = SESSION_AT + 312;
    /// What watchers sleep on (half words).
    pub(crate) const BELL: u64 = SESSION_AT + 320;
    pub(crate) const WATCHERS: u64 = SESSION_AT + 324;
    /// Half a word, another number after each sync: who waits for one sleeps on it.
    pub(crate) const SYNCS: u64 = SESSION_AT + 328;
    /// Nonzero while somebody waits for the disk; and when that failed, or he died at it, until
    /// everything was written again.
    pub(crate) const UNSURE: u64 = SESSION_AT + 336;
    /// Nonzero since a writer died, until another has put right what he left.
    pub(crate) const DIED: u64 = SESSION_AT + 344;
    /// No checkpoint that may be on the disk, or may come there by a sync that is going on, needs segments above this
    /// sequence number.
    pub(crate) const PROMISED: u64 = SESSION_AT + 352;
    /// How many such segments were ever made free to be used again; how many as of what the last sync made durable;
    /// and as of what the checkpoint that is on the disk names, behind which no other has led to the log since.
    pub(crate) const REUSED: u64 = SESSION_AT + 360;
    pub(crate) const SYNCED_REUSED: u64 = SESSION_AT + 368;
    pub(crate) const NAMED_REUSED: u64 = SESSION_AT + 376;
    /// The right to wait for the disk, which is the last that is taken.
    pub(crate) const DISK_LOCK: u64 = SESSION_AT + 384;
    /// Nonzero from the beginning of the session until an index was found or made: the power may have failed before.
    pub(crate) const FINDING: u64 = SESSION_AT + 448;
    /// Removals, also of keys that were not there, since a key was put or a batch changed some: a hint. With bit 63 when something
    /// was appended since that puts leave the room for: they look before they go on behind it.
    pub(crate) const REMOVALS: u64 = SESSION_AT + 456;
    /// So many bytes that are not of what lives were left when all of the log had been passed for a put, and there was no
    /// room still: what is lost at the ends of segments. A hint.
    pub(crate) const LOST: u64 = SESSION_AT + 464;
    /// How many of [`CHANGES`] everybody sees: what who watches is told. A record is counted there before anybody finds it,
    /// so that who has seen it can wait until it is durable.
    pub(crate) const VISIBLE: u64 = SESSION_AT + 472;
}

/// What never changes in a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Which store this is: random.
    pub store: u128,
    /// Seed of the checksums of records.
    pub seed: u64,
    /// How many bytes what lives in it may take; 0: as many as there are.
    pub limit: u64,
    /// Whether the checksum of a copied record follows from that of the record: see [`super::record::record_checksum`]. So it is in
    /// every store that is made since there is this feature.
    pub has_movable_sums: bool,
    /// Whether the end of a segment names the next one by its number, too, and the header says where the log begins at
    /// present: then segments that no checkpoint needs are used again without waiting for the disk. So it is in every
    /// store that is made since there is this feature.
    pub has_numbered_ends: bool,
    /// Whether the record of a long key's removal names the put and not the key, which takes a quarter of the room for a path.
    /// So it is in every store that is made since there is this feature.
    pub has_short_removals: bool,
}

/// A feature that a writer must understand: the store has a limit, by which writers drop records.
const HAS_LIMIT: u32 = 1;
/// A feature that a reader must understand: [`Header::has_movable_sums`].
const MOVABLE_SUMS: u32 = 1;
/// The same: [`Header::has_numbered_ends`].
const NUMBERED_ENDS: u32 = 2;
/// The same: [`Header::has_short_removals`].
const SHORT_REMOVALS: u32 = 4;
/// All that there are.
const TO_READ: u32 = MOVABLE_SUMS | NUMBERED_ENDS | SHORT_REMOVALS;

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &HASH.to_le_bytes());
        put(&mut bytes, 12, &VERSION.to_le_bytes());
        put(&mut bytes, IGNORABLE_AT, &HAS_COPY.to_le_bytes());
        let to_write = if self.limit > 0 { HAS_LIMIT } else { 0 };
        let feature = |is_there, feature| if is_there { feature } else { 0 };
        let to_read = feature(self.has_movable_sums, MOVABLE_SUMS)
            | feature(self.has_numbered_ends, NUMBERED_ENDS)
            | feature(self.has_short_removals, SHORT_REMOVALS);
        put(&mut bytes, 20, &to_write.to_le_bytes());
        put(&mut bytes, 24, &to_read.to_le_bytes());
        put(&mut bytes, 32, &self.store.to_le_bytes());
        put(&mut bytes, 48, &self.seed.to_le_bytes());
        put(&mut bytes, 56, &self.limit.to_le_bytes());
        let sum = xxh3_64(&bytes[..CHECKSUM_AT]);
        put(&mut bytes, CHECKSUM_AT, &sum.to_le_bytes());
        bytes
    }

    /// That of a damaged file which begins so.
    pub(crate) fn of_damaged(head: &[u8]) -> Result<Header> {
        magic::header_or_copy::<HEADER_BYTES, _>(head, Header::decode)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Header> {
        let wrong = |found: String| {
            Err(Error::new(ErrorKind::WrongFormat { expected: "a hash store", found }))
        };
        if bytes.is_empty() {
            return wrong("it is empty; `credenza create --if-missing` makes a store of it".into());
        }
        if !bytes.starts_with(&MAGIC) {
            return wrong("it does not begin with the magic number".into());
        }
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(Error::corrupt(bytes.len() as u64, "the file ends within its header"));
        };
        let engine = le32(bytes, 8).unwrap_or(0);
        if engine != HASH {
            return wrong(magic::what_is_of(engine));
        }
        let version = le32(bytes, 12).unwrap_or(0);
        if version > VERSION {
            let what = format!(
                "a hash store of version {version}; this program reads up to {VERSION}: take a newer one"
            );
            return Err(Error::new(ErrorKind::Unsupported(what)));
        }
        if le64(bytes, CHECKSUM_AT) != Some(xxh3_64(&bytes[..CHECKSUM_AT])) {
            return Err(Error::corrupt(0, "the header's checksum does not fit"));
        }
        let [_, to_write, to_read] = [16, 20, 24].map(|at| le32(bytes, at).unwrap_or(0));
        let limit = le64(bytes, 56).unwrap_or(0);
        let is_fit = to_write == if limit > 0 { HAS_LIMIT } else { 0 };
        if version == 0 || !is_fit || to_read & !TO_READ != 0 {
            let what =
                "a hash store with features that this program does not know: take a newer one";
            return Err(Error::new(ErrorKind::Unsupported(what.into())));
        }
        let word = |at| u128::from(le64(bytes, at).unwrap_or(0));
        let (store, seed) = (word(32) | word(40) << 64, le64(bytes, 48).unwrap_or(0));
        let has = |feature| to_read & feature != 0;
        Ok(Header {
            store,
            seed,
            limit,
            has_movable_sums: has(MOVABLE_SUMS),
            has_numbered_ends: has(NUMBERED_ENDS),
            has_short_removals: has(SHORT_REMOVALS),
        })
    }
}

/// What was durable when this was written: segments below `oldest` hold nothing any more, and
/// the log is whole up to `end` in segment `sequence`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub number: u64,
    pub oldest: u64,
    pub sequence: u64,
    pub end: u64,
    /// Records appended up to there.
    pub changes: u64,
}

impl Checkpoint {
    pub(crate) fn words(&self, header: &Header) -> [u64; 6] {
        let fields = [self.number, self.oldest, self.sequence, self.end, self.changes];
        let mut bytes = [0; 40];
        for (i, field) in fields.iter().enumerate() {
            put(&mut bytes, 8 * i, &field.to_le_bytes());
        }
        let [number, oldest, sequence, end, changes] = fields;
        [number, oldest, sequence, end, changes, xxh3_64_with_seed(&bytes, header.seed)]
    }

    pub(crate) fn decode(words: [u64; 6], header: &Header) -> Option<Checkpoint> {
        let [number, oldest, sequence, end, changes, _] = words;
        let checkpoint = Checkpoint { number, oldest, sequence, end, changes };
        // No store has so many segments: nothing that is added to a number overflows.
        let is_fit = number > 0 && (number | oldest | sequence | changes) < 1 << 62;
        (checkpoint.words(header) == words && is_fit).then_some(checkpoint)
    }
}

// --- segments ------------------------------------------------------------------------------------

/// Bytes of the smallest segment; each eight are followed by eight of twice the size.
const FIRST_SEGMENT: u64 = 4096;
const SEGMENTS_OF_A_SIZE: u64 = 8;
/// How often the size doubles: up to 1 MiB.
const DOUBLINGS: u64 = 8;
pub(crate) const LARGEST_UNIT: u64 = FIRST_SEGMENT << DOUBLINGS;
/// Bytes at the beginning of a segment that say which it is.
pub(crate) const SEGMENT_HEADER: u64 = 24;
/// Bytes kept free at its end for the record that names the next segment.
pub(crate) const SEGMENT_END: u64 = 16;

/// Where unit `unit` of the file lies: its offset and its size.
pub(crate) fn unit_place(unit: u64) -> (u64, u64) {
    let doublings = (unit / SEGMENTS_OF_A_SIZE).min(DOUBLINGS);
    let before = SEGMENTS_OF_A_SIZE * FIRST_SEGMENT * ((1 << doublings) - 1);
    let size = FIRST_SEGMENT << doublings;
    // Damaged numbers of units lead anywhere: to be refused where they are followed.
    let after = (unit - doublings * SEGMENTS_OF_A_SIZE).saturating_mul(size);
    (after.saturating_add(LOG_AT + before), size)
}

/// The unit that the byte at `offset` is in; `None` for the header.
pub(crate) fn unit_of(offset: u64) -> Option<u64> {
    let at = offset.checked_sub(LOG_AT)?;
    let doublings = (at / (SEGMENTS_OF_A_SIZE * FIRST_SEGMENT) + 1).ilog2().min(DOUBLINGS as u32);
    let first = SEGMENTS_OF_A_SIZE * u64::from(doublings);
    let (start, size) = unit_place(first);
    Some(first + (offset - start) / size)
}

/// What stands at the beginning of a segment: one unit, or several for a record that needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub sequence: u64,
    pub units: u32,
}

impl SegmentHeader {
    pub(crate) fn encode(&self, header: &Header, at: u64) -> [u8; SEGMENT_HEADER as usize] {
        let mut bytes = [0; SEGMENT_HEADER as usize];
        put(&mut bytes, 0, &self.sequence.to_le_bytes());
        put(&mut bytes, 8, &self.units.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..16], header.seed ^ at);
        put(&mut bytes, 16, &sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], header: &Header, at: u64) -> Option<SegmentHeader> {
        let bytes = bytes.first_chunk::<{ SEGMENT_HEADER as usize }>()?;
        let found = SegmentHeader { sequence: le64(bytes, 0)?, units: le32(bytes, 8)? };
        let is_whole = found.encode(header, at) == *bytes;
        (is_whole && found.sequence > 0 && found.units > 0).then_some(found)
    }
}

// --- the index file ------------------------------------------------------------------------------

/// Bytes of the index's words; blocks begin after it.
pub(crate) const INDEX_HEADER: u64 = 640;
/// How the directory and the pages are found, changed, and counted: offsets in the index file.
pub(crate) mod words {
    /// Where the directory is and how deep, whether a batch is being applied, and whether puts wait.
    pub(crate) const STATE: u64 = 64;
    /// Where the batch is that is being applied, and which one it is: see [`super::super::entering`].
    pub(crate) const BATCH: u64 = 72;
    pub(crate) const COUNT: u64 = 128;
    pub(crate) const LIVE: u64 = 136;
    /// The end of the log; up to where the index knows it; the segment it is in.
    pub(crate) const TAIL: u64 = 144;
    pub(crate) const APPLIED: u64 = 152;
    pub(crate) const TAIL_UNIT: u64 = 160;
    pub(crate) const TAIL_END: u64 = 168;
    /// The record whose application has begun, and what the counts are after it.
    pub(crate) const INTENT_AT: u64 = 176;
    pub(crate) const INTENT_COUNT: u64 = 184;
    pub(crate) const INTENT_LIVE: u64 = 192;
    /// Bytes of the log's segments from the oldest that holds something.
    pub(crate) const CHAIN: u64 = 200;
    /// The checkpoint that the index was durable with when it was closed; 0 since it changed.
    pub(crate) const CLEAN: u64 = 208;
    /// The oldest segment that holds something; up to where it was emptied.
    pub(crate) const OLDEST_UNIT: u64 = 216;
    pub(crate) const CLEANED: u64 = 224;
    /// The oldest segment that was emptied and cannot be used yet.
    pub(crate) const RETIRED_UNIT: u64 = 232;
    /// The newest segment's sequence number.
    pub(crate) const SEQUENCE: u64 = 240;
    /// Bytes of garbage made that no cleaning was done for.
    pub(crate) const DEBT: u64 = 248;
    /// Where the table of segments is, in lines, and for how many units there is room.
    pub(crate) const SEGMENTS_AT: u64 = 256;
    pub(crate) const SEGMENTS_ROOM: u64 = 264;
    /// Units of the data file.
    pub(crate) const UNITS: u64 = 272;
    /// No unit below is free.
    pub(crate) const FREE_UNIT: u64 = 280;
    /// Lines of the index file in use.
    pub(crate) const BUMP: u64 = 288;
    /// Blocks that readers may still look at: first, last, how many.
    pub(crate) const RETIRED_FIRST: u64 = 296;
    pub(crate) const RETIRED_LAST: u64 = 304;
    pub(crate) const RETIRED_COUNT: u64 = 312;
    /// Lines of all pages.
    pub(crate) const PAGE_LINES: u64 = 320;
    /// How many sequence numbers to leave out behind that of the newest published segment.
    pub(crate) const SKIPPED: u64 = 336;
    /// Records dropped by the limit; and what that count is after the drop that has begun.
    pub(crate) const EVICTED: u64 = 344;
    pub(crate) const INTENT_EVICTED: u64 = 352;
    /// Bytes of the index file.
    pub(crate) const INDEX_LEN: u64 = 328;
    /// Bytes of the segments that were emptied and cannot be used yet: by a writer that died it may be more, until
    /// there are none.
    pub(crate) const EMPTIED: u64 = 368;
    /// Up to which segment the log is passed in haste, or from which on that may begin again: see [`super::super::haste`].
    pub(crate) const HASTE: u64 = 376;
    /// Which slot of the ring is the next.
    pub(crate) const RING_NEXT: u64 = 360;
    /// The first free block of each size.
    pub(crate) const FREE_BLOCKS: u64 = 384;
    /// The records that the pages do not lead to yet, as slots; and the places of their keys.
    pub(crate) const RING: u64 = 512;
    pub(crate) const RING_PLACES: u64 = 576;
}

/// What never changes in an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexHeader {
    pub store: u128,
    /// Which index of the store: random.
    pub id: u64,
    pub hash_id: u32,
    pub seed: u64,
}

impl IndexHeader {
    pub(crate) fn encode(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &HASH_INDEX.to_le_bytes());
        put(&mut bytes, 12, &self.hash_id.to_le_bytes());
        put(&mut bytes, 16, &self.store.to_le_bytes());
        put(&mut bytes, 32, &self.id.to_le_bytes());
        put(&mut bytes, 40, &self.seed.to_le_bytes());
        put(&mut bytes, 48, &u64::from(VERSION).to_le_bytes());
        let sum = xxh3_64(&bytes[..56]);
        put(&mut bytes, 56, &sum.to_le_bytes());
        bytes
    }

    /// `None` if this is no index of this version, or one by a hash that it does not know: it is then made again.
    pub(crate) fn decode(bytes: &[u8; 64]) -> Option<IndexHeader> {
        let word = |at| le64(bytes, at).unwrap_or(0);
        let found = IndexHeader {
            store: u128::from(word(16)) | u128::from(word(24)) << 64,
            id: word(32),
            hash_id: le32(bytes, 12)?,
            seed: word(40),
        };
        let is_known =
            found.encode() == *bytes && KeyHash::new(found.hash_id, found.seed).is_some();
        is_known.then_some(found)
    }
}

/// Copies `part` to `at`; both are chosen by this file, so that it fits.
#[inline(always)]
pub(super) fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + part.len()) {
        place.copy_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_each_other() {
        let mut end = LOG_AT;
        for unit in 0..200 {
            let (at, size) = unit_place(unit);
            assert_eq!(at, end);
            assert_eq!(unit_of(at), Some(unit));
            assert_eq!(unit_of(at + size - 1), Some(unit));
            end = at + size;
        }
        assert_eq!(unit_of(LOG_AT - 1), None);
        assert_eq!(unit_place(64).1, 1 << 20);
    }

    #[test]
    fn headers_decode_to_what_was_encoded() {
        let header = Header {
            store: 1 << 100,
            seed: 7,
            limit: 0,
            has_movable_sums: true,
            has_numbered_ends: true,
            has_short_removals: true,
        };
        let limited = Header { limit: 5 << 20, ..header };
        assert_eq!(Header::decode(&limited.encode()).unwrap(), limited);
        let old = Header { has_movable_sums: false, ..header };
        assert_eq!(Header::decode(&old.encode()).unwrap(), old);
        let mut bytes = header.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        let segment = SegmentHeader { sequence: 9, units: 2 };
        let encoded = segment.encode(&header, 8192);
        assert_eq!(SegmentHeader::decode(&encoded, &header, 8192), Some(segment));
        assert_eq!(SegmentHeader::decode(&encoded, &header, 4096), None);
        let checkpoint = Checkpoint { number: 1, oldest: 1, sequence: 3, end: 9000, changes: 7 };
        let words = checkpoint.words(&header);
        assert_eq!(Checkpoint::decode(words, &header), Some(checkpoint));
        bytes[40] ^= 1;
        assert!(Header::decode(&bytes).unwrap_err().to_string().contains("checksum"));
        let index = IndexHeader { store: 5, id: 6, hash_id: 1, seed: 7 };
        assert_eq!(IndexHeader::decode(&index.encode()), Some(index));
    }
}
