//! What a file will look like, decided from the totals of its records.

use super::block::{Blocks, ENTRIES, LANES, LINE, MAX_CHAIN, MOST_MOVED, STEPS};
use super::bucket::Shape;
use super::directory::{GROUP_BUCKETS, GROUP_BYTES};
use super::format::{ALIGN, Addressing, HEADER_BYTES, Kind};
use super::rows::{MOST_RECORDS, ROW_BYTES, ROW_LANES, Rows};

/// What the builder counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub records: u64,
    pub key_bytes: u64,
    pub value_bytes: u64,
    /// Records whose entry is a reference to the log.
    pub refs: u64,
    /// Bytes of the keys and values of all others.
    pub inline_bytes: u64,
    /// The lengths of key and value of the last inline record.
    pub lens: Option<(usize, usize)>,
    /// How many inline records have other lengths than the one before; the first counts.
    pub changes: u64,
}

impl Totals {
    /// The lengths of key and value, if all inline records agree.
    fn uniform(&self) -> Option<(usize, usize)> {
        self.lens.filter(|_| self.changes == 1)
    }
}

/// The decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub shape: Shape,
    /// Groups of the directory; where there is none, ranges of hashes by which entries are sorted.
    pub groups: u64,
    pub addressing: Addressing,
    /// More bytes than all buckets can take together, without their tail.
    pub most_bytes: u64,
}

/// Bytes of directory up to which buckets are kept small: about what a second-level cache holds
/// beside everything else.
const DIRECTORY_BYTES: u64 = 512 << 10;
/// Bytes of buckets that a group may have on average, so that none comes near 64 KiB.
const GROUP_MEAN_BYTES: f64 = 36_000.0;

impl Plan {
    /// For records with these totals after a log that ends at `log_end`; `lists` says whether
    /// there must be lists, `may_name` whether hashes may name blocks or rows. `crowded` counts attempts that put too much
    /// into one bucket.
    pub(crate) fn new(
        totals: &Totals,
        lists: bool,
        may_name: bool,
        log_end: u64,
        crowded: u32,
    ) -> Plan {
        let inline = totals.records - totals.refs;
        let kind = match totals.uniform() {
            _ if inline == 0 => Kind::Refs,
            Some((key_len, value_len)) if totals.refs == 0 && !lists => {
                Kind::Fixed { key_len, value_len }
            }
            _ => Kind::Mixed,
        };
        let (ref_bytes, ref_bits) = reference_size(totals, log_end);
        let shape = Shape::new(kind, ref_bytes, ref_bits);
        let entries = entry_bytes(&shape, totals);
        let mean = entries as f64 / totals.records.max(1) as f64;
        let blocks = blocks(&shape, totals, mean, crowded).map(Addressing::Blocks);
        let by_hash = blocks.or_else(|| rows(&shape, totals).map(Addressing::Rows));
        let addressing = by_hash.filter(|_| may_name).unwrap_or(Addressing::Directory);
        let group_entries = GROUP_BUCKETS as f64 * per_bucket(kind, totals.records);
        let group_entries = group_entries.min(GROUP_MEAN_BYTES / mean.max(1.0));
        // Where keys crowd together for no reason of chance, smaller groups help a little.
        let group_entries = group_entries * 0.7f64.powi(crowded as i32);
        let groups = (totals.records as f64 / group_entries).ceil().max(1.0) as u64;
        let (groups, most_bytes) = match addressing {
            Addressing::Directory => (groups, entries + groups * GROUP_BUCKETS),
            Addressing::Blocks(Blocks { homes, step }) => {
                (groups, (homes + MAX_CHAIN + 1) * step as u64)
            }
            // Entries are sorted by home.
            Addressing::Rows(Rows { homes }) => (homes / GROUP_BUCKETS, totals.inline_bytes),
        };
        Plan { shape, groups, addressing, most_bytes }
    }

    /// Bytes of the directory, or of the rows.
    pub(crate) fn directory_bytes(&self) -> u64 {
        match self.addressing {
            Addressing::Directory => self.groups * GROUP_BYTES,
            Addressing::Blocks(_) => 0,
            Addressing::Rows(rows) => {
                ((rows.homes + MOST_MOVED) * ROW_BYTES as u64).next_multiple_of(GROUP_BYTES)
            }
        }
    }
}

/// Bytes of all entries in buckets, with what is noted of each in the head.
fn entry_bytes(shape: &Shape, totals: &Totals) -> u64 {
    let head = if shape.kind == Kind::Mixed { 3 } else { 1 };
    head * totals.records + totals.inline_bytes + totals.refs * shape.ref_bytes as u64
}

/// The largest entries, on average, that are kept in blocks. What blocks do not use is a quarter of the data: where
/// records are large, that is more than a faster lookup is worth. Those that all have one size need no slack: a row has
/// the number of one.
const BLOCK_ENTRY_BYTES: f64 = 40.0;
/// How many times the bytes of its entries a block may have on average.
const MOST_SPENT: f64 = 1.5;
/// How full a block is meant to be. Some 5 % of the entries are then not at home; at 0.85 it were 15 %.
const FILL: f64 = 0.78;

/// The blocks for entries that with their heads have `mean` bytes on average; `None` if a directory is better. Where
/// keys crowd together it is.
fn blocks(shape: &Shape, totals: &Totals, mean: f64, crowded: u32) -> Option<Blocks> {
    if shape.kind != Kind::Mixed || mean > BLOCK_ENTRY_BYTES || crowded > 1 {
        return None;
    }
    let size = (mean - 3.0).max(1.0);
    // Room for as many entries as it has lanes.
    let step = (ENTRIES + (size * LANES as f64) as usize).max(*STEPS.start());
    let step = step.next_multiple_of(LINE).min(*STEPS.end());
    let most = ((step - ENTRIES) as f64 / size).min(LANES as f64);
    let homes = (totals.records as f64 / (most * FILL)).ceil().max(1.0) as u64;
    // The smallest blocks are too large for the smallest records.
    let suits = step as f64 / (most * FILL) <= MOST_SPENT * mean;
    suits.then_some(Blocks { step, homes })
}

/// How full a row is meant to be: eight of twelve lanes. Some 2 % of the entries are then in the row after their home; at 0.75
/// it were 5 %, and batches took a tenth longer.
const ROW_FILL: f64 = 2.0 / 3.0;

/// The rows for records of one size; `None` if there are more than a row can count. So many rows would be in no cache, and
/// a lookup in a cold file would have to wait for two pages where a directory makes it wait for one.
fn rows(shape: &Shape, totals: &Totals) -> Option<Rows> {
    let Kind::Fixed { key_len: 1.., .. } = shape.kind else { return None };
    let homes = (totals.records as f64 / (ROW_LANES as f64 * ROW_FILL)).ceil().max(1.0);
    let homes = (homes as u64).next_multiple_of(GROUP_BUCKETS);
    (totals.records < MOST_RECORDS).then_some(Rows { homes })
}

/// How many entries a bucket should have on average.
///
/// Small buckets need fewer cache lines, but more directory: they are as small as lets the
/// directory stay in the second-level cache, within bounds between which nothing was gained.
fn per_bucket(kind: Kind, records: u64) -> f64 {
    let groups = DIRECTORY_BYTES / GROUP_BYTES;
    let cached = records as f64 / (groups * GROUP_BUCKETS) as f64;
    match kind {
        // More than 16 in one bucket take another compare: with eight that is rare, with sixteen
        // on average, lookups in ten million records took a quarter longer.
        Kind::Refs | Kind::Fixed { .. } => cached.clamp(6.0, 8.0),
        Kind::Mixed => cached.clamp(8.0, 16.0),
    }
}

/// Bytes of a reference, and how many of its bits are needed for any place in the file.
fn reference_size(totals: &Totals, log_end: u64) -> (usize, u32) {
    // More than the file can become: lists take at most 8 bytes for a record, and a copy of
    // those that are inline with their head and padding.
    let inline = totals.records - totals.refs;
    let most = log_end + 4 * totals.inline_bytes + 56 * inline + 32 * totals.refs;
    let places = (most + HEADER_BYTES as u64 + 8192) / ALIGN;
    let bits = u64::BITS - places.leading_zeros() + 1;
    // A few bits to spare for a tag save most of the reads of records that are not wanted.
    (((bits + 3).div_ceil(8) as usize).clamp(4, 8), bits)
}
