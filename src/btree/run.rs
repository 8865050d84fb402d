//! A leaf that is being filled with records of one size, in order.
//!
//! The usual case of a bulk load, and a fast one: the records lie one behind the other as they will
//! in the page, so that each is copied in and out once, and nothing is kept about a single one.
//! [`super::items`] takes a leaf of any records.

use super::format::PAGE;
use super::items::{most_cut, set_head, shape, start};
use super::page::{Bytes, HEAD, MAX_PREFIX, at, common};
use super::record::{NEAR_KEY, NEAR_VALUE};

/// The records of a leaf: the lengths of all keys and values are those of the first.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Each key with its value behind it.
    bytes: Vec<u8>,
    count: usize,
    key: usize,
    value: usize,
    /// Bytes that all keys begin with and that the page cuts off.
    prefix: usize,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Yes,
    /// The page has no room for it.
    Full,
    /// It is of another size, or one of its parts does not belong in a page.
    Other,
}

impl Run {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Adds a record whose key is above all others; to an empty run, any.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Added {
        if self.count == 0 {
            if key.len() > NEAR_KEY || value.len() > NEAR_VALUE {
                return Added::Other;
            }
            (self.key, self.value) = (key.len(), value.len());
            self.prefix = MAX_PREFIX.min(most_cut(key, key));
        } else if key.len() != self.key || value.len() != self.value {
            return Added::Other;
        }
        let first = self.bytes.get(..self.key).unwrap_or(key);
        let prefix = common(first, key).min(self.prefix);
        let tail = (self.key - prefix).saturating_sub(HEAD);
        let records = (self.count + 1) * (HEAD + tail + self.value);
        if at::HEADS + prefix + records > PAGE {
            return if self.count == 0 { Added::Other } else { Added::Full };
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        (self.count, self.prefix) = (self.count + 1, prefix);
        Added::Yes
    }

    /// The keys and values.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let record = self.key + self.value;
        (0..self.count).map(move |i| self.bytes[i * record..(i + 1) * record].split_at(self.key))
    }

    /// The first key; nothing if there is none.
    pub(crate) fn first(&self) -> &[u8] {
        self.bytes.get(..self.key).unwrap_or(&[])
    }

    /// The last key; nothing if there is none.
    #[inline]
    pub(crate) fn last(&self) -> &[u8] {
        let from = self.bytes.len().saturating_sub(self.key + self.value);
        self.bytes.get(from..from + self.key).unwrap_or(&[])
    }

    /// Writes the leaf. The birth stays as it is.
    pub(crate) fn write(&self, bytes: &mut Bytes) {
        start(bytes, 0, self.count, &self.first()[..self.prefix]);
        let mut place = shape(bytes, self.prefix, self.key, self.value, false);
        let record = self.key + self.value;
        let tail = (self.key - self.prefix).saturating_sub(HEAD);
        for i in 0..self.count {
            let record = &self.bytes[i * record..(i + 1) * record];
            set_head(bytes, i, &record[self.prefix..self.key]);
            let stored = &record[self.key - tail..];
            bytes[place..place + stored.len()].copy_from_slice(stored);
            place += stored.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::items::Items;
    use super::super::record::ValueToStore;
    use super::*;

    /// Keys of one length with a beginning of their own, in order.
    fn key(len: usize, same: usize, i: usize) -> Vec<u8> {
        let mut key = vec![b'k'; same.min(len)];
        key.extend((i as u32 * 3).swap_bytes().to_le_bytes());
        key.resize(len.max(key.len()), b'.');
        key
    }

    /// A run fills the page that a list of the same records fills, to the byte.
    #[test]
    fn a_run_is_written_as_a_list_is() {
        for (len, same) in [(4, 0), (5, 0), (8, 4), (8, 2), (9, 0), (40, 0), (40, 33), (512, 508)] {
            for value in [0, 1, 8, 100, 512] {
                let (mut run, mut items) = (Run::default(), Items::default());
                let mut count = 0;
                loop {
                    let (key, value) = (key(len, same, count), vec![count as u8; value]);
                    let added = run.add(&key, &value);
                    items.insert(count, &key, None, ValueToStore::Near(&value));
                    let fits = items.fits(0, count + 1, false, 0);
                    assert_eq!(added, if fits { Added::Yes } else { Added::Full });
                    if !fits {
                        break;
                    }
                    count += 1;
                    assert_eq!(run.last(), key);
                }
                assert!(count > 2 && run.records().count() == count);
                let (mut one, mut other) = ([0xee; PAGE], [0xee; PAGE]);
                run.write(&mut one);
                items.write_leaf(0, count, &mut other);
                assert!(one == other, "keys of {len} bytes, {same} the same, values of {value}");
            }
        }
    }

    #[test]
    fn what_is_of_another_size_is_not_taken() {
        let mut run = Run::default();
        assert_eq!(run.add(&[0; NEAR_KEY + 1], b""), Added::Other);
        assert_eq!(run.add(b"", &[0; NEAR_VALUE + 1]), Added::Other);
        assert!(run.is_empty());
        assert_eq!(run.add(b"ab", b"value"), Added::Yes);
        assert_eq!(run.add(b"abc", b"value"), Added::Other);
        assert_eq!(run.add(b"ac", b"values"), Added::Other);
        assert_eq!(run.add(b"ac", b"other"), Added::Yes);
        assert_eq!((run.first(), run.last()), (&b"ab"[..], &b"ac"[..]));
    }
}
