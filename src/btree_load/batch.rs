//! Records as they are handed from one thread to the other, and as they lie in runs: many at once, one behind the other.
//!
//! A record is the length of its key and that of its value, four bytes each, the key and the value. It is named by where
//! it begins: whoever looks at records in the order of their keys waits for one place of memory for each.

use crate::btree::{KeyValue, MAX_KEY, MAX_VALUE};
use crate::bytes::le32;
use crate::os::file::make_room;
use crate::{Error, ErrorKind, Result};
use std::rc::Rc;

/// A batch is handed over when it has so many bytes, or records.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_RECORDS: usize = 4096;
/// Bytes of a record before its key.
const LENGTHS: usize = 8;

/// Whole records.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    count: usize,
}

impl Batch {
    /// Adds a record.
    ///
    /// # Errors
    /// Its key or its value is too long for every table.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let lengths = [length("key", key, MAX_KEY as u64)?, length("value", value, MAX_VALUE)?];
        make_room(&mut self.bytes, LENGTHS + key.len() + value.len())?;
        self.bytes.extend(lengths.map(u32::to_le_bytes).as_flattened());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.count += 1;
        Ok(())
    }

    /// The whole records that these bytes begin with.
    pub(super) fn of(bytes: Vec<u8>) -> Batch {
        let mut batch = Batch { bytes, count: 0 };
        let mut end = 0;
        while let Some(next) = record_end(&batch.bytes, end).filter(|end| *end <= batch.bytes.len())
        {
            end = next;
            batch.count += 1;
        }
        batch.bytes.truncate(end);
        batch
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.count >= BATCH_RECORDS
    }

    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Where the last record ends.
    pub(super) fn end(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// The key and the value of the record that begins at `at`.
    #[inline]
    pub(super) fn get(&self, at: usize) -> (&[u8], &[u8]) {
        let bytes = &self.bytes[at..];
        let (lengths, rest) = bytes.split_at(LENGTHS);
        let [key, value] = [0, 4].map(|at| le32(lengths, at).unwrap_or(0) as usize);
        let (key, rest) = rest.split_at(key);
        (key, &rest[..value])
    }

    /// Where the record after the one at `at` begins.
    #[inline]
    pub(super) fn after(&self, at: usize) -> usize {
        record_end(&self.bytes, at).unwrap_or(self.bytes.len())
    }

    /// Where records begin, from the one at `from` on.
    pub(super) fn starts(&self, from: usize) -> impl Iterator<Item = usize> {
        let is_there = |at: &usize| *at < self.bytes.len();
        std::iter::successors(Some(from), |at| Some(self.after(*at))).take_while(is_there)
    }
}

/// Where the record ends that begins at `at`, whether it is whole or not.
#[inline]
pub(super) fn record_end(bytes: &[u8], at: usize) -> Option<usize> {
    let [key, value] = [le32(bytes, at)?, le32(bytes, at + 4)?];
    Some(at + LENGTHS + key as usize + value as usize)
}

/// A length that may be written here: tables have lower limits.
fn length(what: &'static str, part: &[u8], limit: u64) -> Result<u32> {
    let size = part.len() as u64;
    u32::try_from(size).map_err(|_| Error::new(ErrorKind::TooLarge { what, size, limit }))
}

/// A record of a batch.
#[derive(Clone, Debug)]
pub(super) struct Record {
    batch: Rc<Batch>,
    at: usize,
}

impl Record {
    pub(super) fn new(batch: &Rc<Batch>, at: usize) -> Record {
        Record { batch: Rc::clone(batch), at }
    }
}

impl KeyValue for Record {
    #[inline]
    fn parts(&self) -> (&[u8], &[u8]) {
        self.batch.get(self.at)
    }
}
