//! Records as they are handed from one thread to the other: many at once, one behind the other.

use std::ops::Range;
use std::rc::Rc;

/// A batch is handed over when it has so many bytes, or records.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_RECORDS: usize = 4096;

/// Keys and values, one behind the other, and where each of them ends.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Batch {
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let end_of_key = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((end_of_key, self.bytes.len()));
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.len() >= BATCH_RECORDS
    }

    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<(usize, usize)>()
    }

    fn ranges(&self, i: usize) -> (Range<usize>, Range<usize>) {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (middle, end) = self.ends[i];
        (start..middle, middle..end)
    }

    /// The key and the value of number `i`.
    pub(super) fn get(&self, i: usize) -> (&[u8], &[u8]) {
        let (key, value) = self.ranges(i);
        (&self.bytes[key], &self.bytes[value])
    }
}

/// A key or a value of a batch.
#[derive(Clone, Debug)]
pub(super) struct Part {
    batch: Rc<Batch>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.batch.bytes[self.range.clone()]
    }
}

/// A key and its value.
pub(super) type Record = (Part, Part);

/// The record with number `i`.
pub(super) fn record(batch: &Rc<Batch>, i: usize) -> Record {
    let (key, value) = batch.ranges(i);
    let part = |range| Part { batch: Rc::clone(batch), range };
    (part(key), part(value))
}
