//! The header of a constant file and its limits; `docs/format/constant.md` describes the bytes.
//!
//! This file, [`super::directory`], [`super::bucket`], [`super::block`] and [`super::rows`] are the only
//! places that know offsets.

use super::block::{Blocks, LINE, MAX_CHAIN, STEPS};
use super::bucket::{MAX_INLINE, Shape, TAIL_BYTES};
use super::directory::{GROUP_BUCKETS, GROUP_BYTES};
use super::rows::{MOST_RECORDS, ROW_BYTES, Rows};
use crate::bytes::{le32, le64};
use crate::keyhash::KeyHash;
use crate::magic::{self, CONSTANT, MAGIC};
use crate::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64;

/// The version of the format that this program writes and reads.
const VERSION: u32 = 1;
/// A feature that readers must understand: buckets are blocks, which no directory leads to.
const BLOCKS: u32 = 1;
/// Another: there are rows, and no buckets but one record after the other.
const ROWS: u32 = 2;
/// Bytes of the header; regions begin after it.
pub(crate) const HEADER_BYTES: usize = 256;
/// Where the header's checksum lies: over all bytes before it.
const CHECKSUM_AT: usize = 248;
/// Where the header names the regions.
const REGIONS_AT: usize = 104;
/// Every region is summed in pieces of this many bytes.
pub(crate) const SEGMENT_BYTES: u64 = 256 << 10;
/// Log records and lists begin at multiples of this.
pub(crate) const ALIGN: u64 = 8;
/// Longest key, in bytes.
pub(crate) const MAX_KEY: u64 = 64 << 10;
/// Longest value, in bytes.
pub(crate) const MAX_VALUE: u64 = u32::MAX as u64;
/// Longest file, in bytes.
pub(crate) const MAX_FILE: u64 = 1 << 48;

/// What the entries of all buckets look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All keys have one length and all values have one: no lengths are stored.
    Fixed { key_len: usize, value_len: usize },
    /// Lengths are stored for each entry; an entry may refer to the log.
    Mixed,
    /// Every entry refers to the log.
    Refs,
}

/// How a hash leads to its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressing {
    /// By a directory of buckets.
    Directory,
    /// It names a block.
    Blocks(Blocks),
    /// It names a row, which has the number of a record.
    Rows(Rows),
}

/// A part of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub at: u64,
    pub len: u64,
}

impl Region {
    pub(crate) fn end(self) -> u64 {
        self.at + self.len
    }

    /// How many segment sums it has.
    pub(crate) fn segments(self) -> u64 {
        self.len.div_ceil(SEGMENT_BYTES)
    }
}

/// Everything the header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub kind: Kind,
    pub hash_id: u32,
    pub seed: u64,
    pub records: u64,
    pub key_bytes: u64,
    pub value_bytes: u64,
    pub log: Region,
    pub directory: Region,
    pub buckets: Region,
    pub lists: Region,
    pub sums: Region,
    pub sums_checksum: u64,
    /// Entries of the largest bucket.
    pub largest_bucket: u32,
    /// Bytes of a reference to the log.
    pub ref_bytes: u32,
    /// Bits of a reference that hold the place; the others are a tag of the hash.
    pub ref_bits: u32,
    pub addressing: Addressing,
    /// By how many blocks or rows an entry was moved on at most.
    pub chain: u32,
}

impl Header {
    /// The length that the file must have.
    pub(crate) fn file_len(&self) -> u64 {
        self.sums.end()
    }

    /// Groups of the directory; none if there is no directory.
    pub(crate) fn groups(&self) -> u64 {
        match self.addressing {
            Addressing::Directory => self.directory.len / GROUP_BYTES,
            _ => 0,
        }
    }

    /// How blocks are laid out, if there are blocks.
    pub(crate) fn blocks(&self) -> Option<Blocks> {
        match self.addressing {
            Addressing::Blocks(blocks) => Some(blocks),
            _ => None,
        }
    }

    /// The rows there are, those for what was moved among them.
    pub(crate) fn row_count(&self) -> u64 {
        match self.addressing {
            Addressing::Rows(_) => self.directory.len / ROW_BYTES as u64,
            _ => 0,
        }
    }

    /// The blocks there are, those for what was moved among them; none if there is a directory.
    pub(crate) fn block_count(&self) -> u64 {
        let len = self.buckets.len.saturating_sub(TAIL_BYTES as u64);
        self.blocks().map_or(0, |blocks| len / blocks.step as u64)
    }

    /// Bytes of entries in a block, on average, as far as the header tells.
    pub(crate) fn mean_used(&self) -> usize {
        let Some(blocks) = self.blocks() else { return 0 };
        let inline = self.key_bytes.saturating_add(self.value_bytes).saturating_sub(self.log.len);
        ((inline / blocks.homes.max(1)) as usize).min(blocks.step)
    }

    /// How entries are read.
    pub(crate) fn shape(&self) -> Shape {
        Shape::new(self.kind, self.ref_bytes as usize, self.ref_bits)
    }

    /// The header's bytes.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0u8; HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        let (kind, key_len, value_len) = match self.kind {
            Kind::Fixed { key_len, value_len } => (1, key_len as u32, value_len as u32),
            Kind::Mixed => (2, 0, 0),
            Kind::Refs => (3, 0, 0),
        };
        let (features, step, homes) = match self.addressing {
            Addressing::Directory => (0, 0, 0),
            Addressing::Blocks(Blocks { step, homes }) => (BLOCKS, step, homes),
            Addressing::Rows(Rows { homes }) => (ROWS, 0, homes),
        };
        let words32 = [
            (8, CONSTANT),
            (12, VERSION),
            (24, features),
            (28, self.hash_id),
            (72, kind),
            (76, key_len),
            (80, value_len),
            (84, self.largest_bucket),
            (88, self.ref_bytes),
            (92, self.ref_bits),
            (96, step as u32),
            (100, self.chain),
        ];
        let regions = [self.log, self.directory, self.buckets, self.lists, self.sums];
        let words64 = [
            (32, self.seed),
            (40, self.file_len()),
            (48, self.records),
            (56, self.key_bytes),
            (64, self.value_bytes),
            (184, self.sums_checksum),
            (192, homes),
        ];
        for (at, region) in (REGIONS_AT..).step_by(16).zip(regions) {
            out[at..at + 8].copy_from_slice(&region.at.to_le_bytes());
            out[at + 8..at + 16].copy_from_slice(&region.len.to_le_bytes());
        }
        for (at, word) in words32 {
            out[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        for (at, word) in words64 {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let checksum = xxh3_64(&out[..CHECKSUM_AT]);
        out[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads the header of a file of `file_len` bytes from its first bytes.
    pub(crate) fn decode(data: &[u8], file_len: u64) -> Result<Header> {
        check_identity(data)?;
        let word = |at| le32(data, at).unwrap_or_default();
        let long = |at| le64(data, at).unwrap_or_default();
        let region = |at| Region { at: long(at), len: long(at + 8) };
        let said = long(40);
        if said != file_len {
            let what = format!("the file has {file_len} bytes, its header says {said}");
            return Err(Error::corrupt(file_len.min(said), what));
        }
        let kind = match word(72) {
            1 => Kind::Fixed { key_len: word(76) as usize, value_len: word(80) as usize },
            2 => Kind::Mixed,
            3 => Kind::Refs,
            other => return Err(Error::corrupt(72, format!("there is no kind of bucket {other}"))),
        };
        let header = Header {
            kind,
            hash_id: word(28),
            seed: long(32),
            records: long(48),
            key_bytes: long(56),
            value_bytes: long(64),
            log: region(REGIONS_AT),
            directory: region(REGIONS_AT + 16),
            buckets: region(REGIONS_AT + 32),
            lists: region(REGIONS_AT + 48),
            sums: region(REGIONS_AT + 64),
            sums_checksum: long(184),
            largest_bucket: word(84),
            ref_bytes: word(88),
            ref_bits: word(92),
            addressing: match word(24) {
                0 => Addressing::Directory,
                BLOCKS => Addressing::Blocks(Blocks { step: word(96) as usize, homes: long(192) }),
                _ => Addressing::Rows(Rows { homes: long(192) }),
            },
            chain: word(100),
        };
        header.check(file_len)?;
        Ok(header)
    }

    /// Whether the parts fit each other and the file; a checksum does not stop a hostile writer.
    fn check(&self, file_len: u64) -> Result<()> {
        let wrong = |at: usize, what: &str| Err(Error::corrupt(at as u64, what));
        if KeyHash::new(self.hash_id, self.seed).is_none() {
            return wrong(28, "there is no such hash function");
        }
        let regions = [self.log, self.directory, self.buckets, self.lists, self.sums];
        let mut end = HEADER_BYTES as u64;
        for region in regions {
            let stop = region.at.checked_add(region.len).filter(|stop| *stop <= file_len);
            match stop {
                Some(stop) if region.at >= end && stop <= MAX_FILE => {
                    if region.at - end >= GROUP_BYTES {
                        return wrong(REGIONS_AT, "there are unused bytes between the regions");
                    }
                    end = stop;
                }
                _ => return wrong(REGIONS_AT, "the regions of the file overlap or pass its end"),
            }
        }
        if end != file_len {
            return wrong(REGIONS_AT, "the file goes on after its last region");
        }
        let sizes = [self.directory.len, self.directory.at];
        if (self.directory.len == 0) != self.blocks().is_some()
            || !sizes.iter().all(|n| n.is_multiple_of(GROUP_BYTES))
        {
            return wrong(REGIONS_AT + 16, "the directory is not made of whole groups");
        }
        if self.buckets.len < TAIL_BYTES as u64 {
            return wrong(REGIONS_AT + 32, "the buckets lack their tail");
        }
        match self.addressing {
            Addressing::Directory => {}
            Addressing::Blocks(blocks) => self.check_blocks(blocks)?,
            Addressing::Rows(rows) => self.check_rows(rows)?,
        }
        let edges = [self.log.at, self.log.len, self.lists.at, self.lists.len, self.sums.at];
        if !edges.iter().all(|edge| edge.is_multiple_of(ALIGN)) {
            return wrong(REGIONS_AT, "the log or the lists are not aligned");
        }
        let sums: u64 = self.summed().iter().map(|(_, r)| r.segments()).sum();
        if self.sums.len != sums * 8 {
            return wrong(REGIONS_AT + 64, "the table of checksums has the wrong length");
        }
        let bytes = self.ref_bytes;
        if !(4..=8).contains(&bytes) || !(2..=8 * bytes).contains(&self.ref_bits) {
            return wrong(88, "references have an impossible size");
        }
        // Every record takes a byte at least, and nothing is compressed.
        let bytes = self.key_bytes.checked_add(self.value_bytes);
        if self.records > file_len || bytes.is_none_or(|bytes| bytes > file_len) {
            return wrong(48, "there are more records than there is room for");
        }
        if let Kind::Fixed { key_len, value_len } = self.kind
            && (key_len >= MAX_INLINE || key_len + value_len > MAX_INLINE)
        {
            return wrong(76, "records of this size do not belong in buckets");
        }
        Ok(())
    }

    /// Whether blocks are of a possible size, and there are as many as the buckets have bytes for.
    fn check_blocks(&self, Blocks { step, homes }: Blocks) -> Result<()> {
        let wrong = |at: usize, what: &str| Err(Error::corrupt(at as u64, what));
        if !step.is_multiple_of(LINE) || !STEPS.contains(&step) {
            return wrong(96, "blocks have an impossible size");
        }
        if self.kind != Kind::Mixed {
            return wrong(72, "records of this kind are not kept in blocks");
        }
        let count = self.block_count();
        let whole = count.checked_mul(step as u64);
        if whole != self.buckets.len.checked_sub(TAIL_BYTES as u64) || homes == 0 || homes > count {
            return wrong(192, "the buckets are not made of whole blocks");
        }
        if u64::from(self.chain) > MAX_CHAIN || !self.buckets.at.is_multiple_of(LINE as u64) {
            return wrong(100, "blocks lie where they cannot, or entries too far from home");
        }
        Ok(())
    }

    /// Whether rows are as many as hashes name, and there is one record after the other and nothing else.
    fn check_rows(&self, Rows { homes }: Rows) -> Result<()> {
        let wrong = |at: usize, what: &str| Err(Error::corrupt(at as u64, what));
        let Kind::Fixed { key_len, value_len } = self.kind else {
            return wrong(72, "rows lead to records of one size only");
        };
        let bytes = self.records.checked_mul(key_len as u64 + value_len as u64);
        if key_len == 0
            || self.records >= MOST_RECORDS
            || bytes != self.buckets.len.checked_sub(TAIL_BYTES as u64)
            || (self.log.len, self.lists.len) != (0, 0)
        {
            return wrong(48, "the records are more or fewer than there is room for");
        }
        // Some for what was moved, and some that make whole groups: a file with holes may claim any number of rows.
        let most = homes.saturating_add(MAX_CHAIN + 4);
        if homes == 0
            || !(homes..=most).contains(&self.row_count())
            || homes - 1 > self.records + GROUP_BUCKETS
        {
            return wrong(192, "there are fewer rows than hashes name, or more than are of use");
        }
        if u64::from(self.chain) > MAX_CHAIN || !self.buckets.at.is_multiple_of(LINE as u64) {
            return wrong(100, "records lie where they cannot, or entries too far from home");
        }
        Ok(())
    }

    /// The regions that have checksums, with their names.
    pub(crate) fn summed(&self) -> [(&'static str, Region); 4] {
        [
            ("log", self.log),
            ("directory", self.directory),
            ("buckets", self.buckets),
            ("lists", self.lists),
        ]
    }
}

/// Checks magic, engine, version, features and checksum, in the order of the better message.
fn check_identity(data: &[u8]) -> Result<()> {
    let wrong = |found: &str| {
        let expected = "a constant file of Credenza";
        Err(Error::new(ErrorKind::WrongFormat { expected, found: found.into() }))
    };
    if data.is_empty() {
        return wrong("it is empty; build it with `credenza load`");
    }
    if !data.starts_with(&MAGIC[..data.len().min(8)]) {
        return wrong(
            "it begins with other bytes; `credenza load` builds one from text, \
                      `credenza convert` from another store",
        );
    }
    let word = |at| le32(data, at).unwrap_or_default();
    // Their headers have their checksums elsewhere: by ours they would all be damaged.
    let what_it_is = || magic::what_is_of(word(8));
    match word(8) {
        magic::HASH | magic::BTREE => {
            return wrong(&format!(
                "{}; `credenza freeze` makes a constant file of it",
                what_it_is()
            ));
        }
        magic::HASH_INDEX => return wrong(&what_it_is()),
        _ => {}
    }
    if data.len() < HEADER_BYTES {
        return wrong("it ends within its header: it was truncated; build or copy it again");
    }
    let sum = data.get(..CHECKSUM_AT).map(xxh3_64);
    if sum != le64(data, CHECKSUM_AT) {
        if word(12) != VERSION {
            // Another version may have another header.
            return unsupported(word(12), word(24));
        }
        return Err(Error::corrupt(CHECKSUM_AT as u64, "the checksum of the header is wrong"));
    }
    if word(8) != CONSTANT {
        return wrong(&what_it_is());
    }
    if word(12) != VERSION || word(24) > ROWS {
        return unsupported(word(12), word(24));
    }
    Ok(())
}

fn unsupported(version: u32, features: u32) -> Result<()> {
    let found = format!(
        "version {version} with features {features:#x} of the constant format: this program reads \
         version {VERSION}; use a newer program, or dump the file with the one that wrote it"
    );
    Err(Error::new(ErrorKind::Unsupported(found)))
}
