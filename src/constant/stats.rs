//! Facts about a file: what its bytes are used for, and how evenly its blocks are filled.

use super::block::{HEAD_BYTES, Shape};
use super::format::{Header, Kind};
use super::lookup::{Index, LogRecord, RECORD_HEAD};
use super::source::Source;
use super::view::LANES;
use crate::Result;

/// What is in a constant file. Sizes are in bytes; keys, values, directory and slack add up to
/// the size of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Records: a key with three values counts three times.
    pub records: u64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Bytes that find and check records: header, fingerprints, lengths, references, checksums.
    pub directory_bytes: u64,
    /// Bytes not used: room left in blocks, and padding.
    pub slack_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the log, where large records lie.
    pub log_bytes: u64,
    /// Bytes of the lists of duplicates.
    pub list_bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of one block.
    pub block_bytes: u64,
    /// Blocks that the farthest record is away from its home: 0 means that every lookup ends in
    /// the first block.
    pub longest_chain: u64,
    /// How many blocks have 0, 1, 2 ... entries.
    pub fill_histogram: Vec<u64>,
}

/// What is counted block by block.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    histogram: [u64; LANES + 1],
    slack: u64,
}

impl Default for Fill {
    fn default() -> Self {
        Fill { histogram: [0; LANES + 1], slack: 0 }
    }
}

impl Fill {
    /// Counts a block of `n` entries that uses `used` of its bytes.
    #[inline]
    pub(crate) fn count(&mut self, n: usize, used: usize, block_bytes: usize) {
        if let Some(count) = self.histogram.get_mut(n) {
            *count += 1;
        }
        self.slack += block_bytes.saturating_sub(used) as u64;
    }

    /// Counts bytes lost to alignment.
    pub(crate) fn pad(&mut self, bytes: u64) {
        self.slack += bytes;
    }
}

impl Stats {
    pub(crate) fn new(header: &Header, fill: &Fill) -> Stats {
        let gap = header.blocks.at - header.log.end();
        let file_bytes = header.file_len();
        let slack_bytes = (fill.slack + gap).min(file_bytes);
        let data = header.key_bytes.saturating_add(header.value_bytes).saturating_add(slack_bytes);
        let used = fill.histogram.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
        Stats {
            records: header.records,
            key_bytes: header.key_bytes,
            value_bytes: header.value_bytes,
            directory_bytes: file_bytes.saturating_sub(data),
            slack_bytes,
            file_bytes,
            log_bytes: header.log.len,
            list_bytes: header.lists.len,
            blocks: header.blocks.len / u64::from(header.block_bytes),
            block_bytes: u64::from(header.block_bytes),
            longest_chain: u64::from(header.longest_chain),
            fill_histogram: fill.histogram.get(..used).unwrap_or_default().to_vec(),
        }
    }

    /// Reads the heads of all blocks and of all log records.
    pub(crate) fn read<S: Source>(header: &Header, index: &Index, source: &S) -> Result<Stats> {
        let mut fill = Fill::default();
        let mut at = header.log.at;
        while at < header.log.end() {
            let record = LogRecord::read(source, at)?;
            let len = (RECORD_HEAD + record.key_len + record.value_len) as u64;
            let padded = len.next_multiple_of(super::format::ALIGN);
            fill.pad(padded - len);
            at += padded;
        }
        let shape = &index.shape;
        let mut at = header.blocks.at;
        while at < header.blocks.end() {
            let block = source.read(at, shape.block_bytes)?;
            let (n, used) =
                used_bytes(shape, &block).ok_or_else(|| super::lookup::passes_end(at))?;
            fill.count(n, used, shape.block_bytes);
            at += shape.block_bytes as u64;
        }
        Ok(Stats::new(header, &fill))
    }
}

/// The number of entries of a block and the bytes it uses.
pub(crate) fn used_bytes(shape: &Shape, block: &[u8]) -> Option<(usize, usize)> {
    let n = Shape::count(block)?;
    let used = match shape.kind {
        Kind::Fixed { key_len, value_len } => HEAD_BYTES + n * (1 + key_len + value_len),
        Kind::Refs => HEAD_BYTES + n * (1 + shape.ref_bytes),
        Kind::Mixed => {
            let sizes = block.get(HEAD_BYTES + 2 * n..HEAD_BYTES + 3 * n)?;
            HEAD_BYTES + 3 * n + sizes.iter().map(|s| usize::from(*s)).sum::<usize>()
        }
    };
    (used <= block.len()).then_some((n, used))
}
