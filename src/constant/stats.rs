//! Facts about a file: what its bytes are used for, and how evenly its blocks are filled.

use super::block::Block;
use super::bucket::MAX_ENTRIES;
use super::directory::{GROUP_BUCKETS, GROUP_BYTES, place};
use super::format::{ALIGN, Header};
use super::lookup::{Index, LogRecord, RECORD_HEAD, more_than_entries, passes_end};
use crate::os::source::Source;
use crate::{Error, Result};

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
    /// Number of buckets.
    pub buckets: u64,
    /// Entries of the largest bucket.
    pub largest_bucket: u64,
    /// How many buckets have 0, 1, 2 ... entries.
    pub fill_histogram: Vec<u64>,
}

/// What is counted bucket by bucket.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    histogram: [u64; MAX_ENTRIES + 1],
    padding: u64,
}

impl Default for Fill {
    fn default() -> Self {
        Fill { histogram: [0; MAX_ENTRIES + 1], padding: 0 }
    }
}

impl Fill {
    /// Counts a bucket of `n` entries.
    #[inline]
    pub(crate) fn count(&mut self, n: usize) {
        if let Some(count) = self.histogram.get_mut(n) {
            *count += 1;
        }
    }

    /// Counts bytes lost to alignment.
    pub(crate) fn pad(&mut self, bytes: u64) {
        self.padding += bytes;
    }

    /// Entries of all buckets.
    pub(crate) fn entries(&self) -> u64 {
        (0..).zip(&self.histogram).map(|(n, buckets)| n * buckets).sum()
    }

    /// Entries of the largest bucket.
    pub(crate) fn largest(&self) -> usize {
        self.histogram.iter().rposition(|n| *n > 0).unwrap_or(0)
    }
}

impl Stats {
    pub(crate) fn new(header: &Header, fill: &Fill) -> Stats {
        let gaps = [
            (header.log, header.directory),
            (header.buckets, header.lists),
            (header.lists, header.sums),
        ];
        let gaps: u64 = gaps.iter().map(|(a, b)| b.at - a.end()).sum();
        let file_bytes = header.file_len();
        let slack_bytes = (fill.padding + gaps + super::bucket::TAIL_BYTES as u64).min(file_bytes);
        let data = header.key_bytes.saturating_add(header.value_bytes).saturating_add(slack_bytes);
        Stats {
            records: header.records,
            key_bytes: header.key_bytes,
            value_bytes: header.value_bytes,
            directory_bytes: file_bytes.saturating_sub(data),
            slack_bytes,
            file_bytes,
            log_bytes: header.log.len,
            list_bytes: header.lists.len,
            buckets: header.groups() * GROUP_BUCKETS + header.block_count() + header.row_count(),
            largest_bucket: u64::from(header.largest_bucket),
            fill_histogram: fill.histogram.get(..=fill.largest()).unwrap_or_default().to_vec(),
        }
    }

    /// Reads the heads of all buckets and of all log records.
    pub(crate) fn read<S: Source>(header: &Header, index: &Index, source: &S) -> Result<Stats> {
        let mut fill = Fill::default();
        let mut at = header.log.at;
        while at < header.log.end() {
            let record = LogRecord::read(source, at)?;
            let len = (RECORD_HEAD + record.key_len + record.value_len) as u64;
            let padded = len.next_multiple_of(ALIGN);
            fill.pad(padded - len);
            at += padded;
        }
        for number in 0..header.block_count() {
            let step = header.blocks().map_or(0, |blocks| blocks.step);
            let at = header.buckets.at + number * step as u64;
            let bytes = source.read(at, step)?;
            let block = Block::new(&bytes).ok_or_else(|| passes_end(at))?;
            let slack = block.slack().ok_or_else(|| more_than_entries(at))?;
            fill.count(block.n);
            fill.pad(slack as u64);
        }
        for number in 0..header.row_count() {
            fill.count(index.row_with_count(source, number)?.1);
        }
        let mut next = header.buckets.at;
        for number in 0..header.groups() {
            let at = header.directory.at + number * GROUP_BYTES;
            let group = source.read(at, GROUP_BYTES as usize)?;
            for bucket in 0..GROUP_BUCKETS {
                let place = group.first_chunk().and_then(|group| place(group, bucket));
                let what = "a group of the directory makes no sense";
                let place = place.filter(|place| place.at == next);
                let place = place.ok_or_else(|| Error::corrupt(at, what))?;
                next += place.len as u64;
                let bytes = source.read(place.at, place.len)?;
                fill.count(index.shape.count(&bytes).ok_or_else(|| passes_end(place.at))?);
            }
        }
        Ok(Stats::new(header, &fill))
    }
}
