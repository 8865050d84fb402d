//! What a file will look like, decided from the totals of its records.
//!
//! Measured: a lookup wants the fingerprints and lengths of its block in one cache line, so blocks
//! hold 14 to 28 entries; larger blocks fill more evenly, smaller ones compare fewer candidates.

use super::block::{HEAD_BYTES, MIN_MIXED_BYTES, Shape, capacity};
use super::format::{ALIGN, HEADER_BYTES, Kind};
use super::view::LANES;

/// Entries that a block should have room for at the least.
const ENTRIES: f64 = 14.0;

/// What the builder counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    pub records: u64,
    pub key_bytes: u64,
    pub value_bytes: u64,
    /// Records whose entry is a reference to the log.
    pub refs: u64,
    /// Bytes of the keys and values of all others.
    pub inline_bytes: u64,
    /// The lengths of key and value, as long as all inline records agree.
    pub uniform: Option<(usize, usize)>,
}

/// The decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub shape: Shape,
    pub home_blocks: u64,
    /// Entries of more bytes than this are put in a list by themselves.
    pub max_payload: usize,
}

impl Plan {
    /// For records with these totals after a log that ends at `log_end`; `in_lists` says how many
    /// bytes of entries turned out to be replaced by lists, if there must be any.
    pub(crate) fn new(totals: &Totals, in_lists: Option<u64>, log_end: u64) -> Plan {
        let inline = totals.records - totals.refs;
        let kind = match totals.uniform {
            _ if inline == 0 => Kind::Refs,
            Some((key_len, value_len)) if totals.refs == 0 && in_lists.is_none() => {
                Kind::Fixed { key_len, value_len }
            }
            _ => Kind::Mixed,
        };
        let (ref_bytes, ref_bits) = reference_size(totals, log_end);
        let entry = |payload: f64| match kind {
            Kind::Mixed => payload + 3.0,
            _ => payload + 1.0,
        };
        let total = entry(0.0) * totals.records as f64
            + totals.inline_bytes as f64
            + (totals.refs * ref_bytes as u64) as f64;
        let mean = total / totals.records.max(1) as f64;
        let total = (total - in_lists.unwrap_or(0) as f64).max(mean);
        let block_bytes = block_bytes(kind, mean);
        let shape = Shape { kind, block_bytes, ref_bytes, ref_bits, has_refs: true };
        let home_blocks = (total / mean / room(kind, block_bytes, mean)).ceil() as u64;
        Plan { shape, home_blocks: home_blocks.max(1), max_payload: (block_bytes / 2).min(255) }
    }

    /// Bytes that an entry takes in a block.
    #[inline(always)]
    pub(crate) fn entry_bytes(&self, key_len: u8, payload: usize) -> usize {
        match self.shape.kind {
            Kind::Fixed { .. } => 1 + payload,
            Kind::Refs => 1 + self.shape.ref_bytes,
            Kind::Mixed if key_len == super::block::REF_MARK => 3 + self.shape.ref_bytes,
            Kind::Mixed => 3 + payload,
        }
    }
}

/// The smallest power of two that has room for enough entries of `mean` bytes.
fn block_bytes(kind: Kind, mean: f64) -> usize {
    let least = if kind == Kind::Mixed { MIN_MIXED_BYTES } else { 64 };
    let mut bytes = least;
    while (bytes as f64) < HEAD_BYTES as f64 + entries(kind) * mean && bytes < 4096 {
        bytes *= 2;
    }
    bytes
}

/// How many entries of `mean` bytes a block should hold on average.
fn room(kind: Kind, block_bytes: usize, mean: f64) -> f64 {
    let whole = match kind {
        Kind::Mixed => ((block_bytes - HEAD_BYTES) as f64 / mean).min(LANES as f64),
        _ => capacity(block_bytes, mean as usize) as f64,
    };
    whole * fill(kind)
}

fn entries(kind: Kind) -> f64 {
    let _ = kind;
    std::env::var("CZ_ENTRIES").ok().and_then(|v| v.parse().ok()).unwrap_or(ENTRIES)
}

fn fill(kind: Kind) -> f64 {
    let _ = kind;
    std::env::var("CZ_FILL").ok().and_then(|v| v.parse().ok()).unwrap_or(0.9)
}

/// Bytes of a reference, and how many of its bits are needed for any place in the file.
fn reference_size(totals: &Totals, log_end: u64) -> (usize, u32) {
    // More than the file can become: lists take at most 8 bytes for a record, and a copy of
    // those that are inline with their head and padding.
    let inline = totals.records - totals.refs;
    let most = log_end + 4 * totals.inline_bytes + 48 * inline + 24 * totals.refs;
    let places = (most + HEADER_BYTES as u64 + 8192) / ALIGN;
    let bits = u64::BITS - places.leading_zeros() + 1;
    // A few bits to spare for a tag save most of the reads of records that are not wanted.
    (((bits + 3).div_ceil(8) as usize).clamp(4, 8), bits)
}
