//! A leaf that is being filled with records in order.
//!
//! The usual case of a bulk load, and a fast one: what the page takes is known at every moment, and
//! each record is copied in and out once. [`super::items`] takes records of which a part is
//! elsewhere.

use super::format::PAGE;
use super::items::{begin_heap, heap_room, most_cut, set_head, shape, start};
use super::page::{Bytes, HEAD, MAX_PREFIX, at, common, set_short};
use super::record::{NEAR_KEY, NEAR_VALUE, length_bytes, number_bytes, put_lengths};
use super::tag::Tagged;
use crate::bytes::{append_short, copy_short};

/// The records of a leaf.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Each key with its value behind it.
    bytes: Vec<u8>,
    /// The lengths of each key and value, unless all are those of the first.
    lengths: Vec<(u16, u16)>,
    count: usize,
    /// The lengths of the first key and value, and of the last.
    first: (usize, usize),
    last: (usize, usize),
    /// Bytes that all keys begin with and that the page cuts off.
    prefix: usize,
    /// Bytes that the records take in a heap, if they do not have one size.
    heap: usize,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Yes,
    /// The page has no room for it.
    Full,
    /// One of its parts does not belong in a page.
    Other,
}

/// Bytes that a record takes in a heap: its lengths, what comes after the head of its key, its value.
#[inline(always)]
fn heap_bytes(prefix: usize, (key, value): (usize, usize)) -> usize {
    let rest = key - prefix;
    length_bytes(rest) + number_bytes(value as u32) + rest.saturating_sub(HEAD) + value
}

impl Run {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        self.count = 0;
    }

    fn is_uniform(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Adds a record whose key is above all others; to an empty run, any.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Added {
        if key.len() > NEAR_KEY || value.len() > NEAR_VALUE {
            return Added::Other;
        }
        let lengths = (key.len(), value.len());
        if self.count == 0 {
            self.first = lengths;
            self.prefix = MAX_PREFIX.min(most_cut(key, key));
        }
        let is_added = if self.is_uniform() && lengths == self.first {
            self.fits_uniform(key)
        } else {
            self.fits_heap(key, lengths)
        };
        if !is_added {
            return if self.count == 0 { Added::Other } else { Added::Full };
        }
        append_short(&mut self.bytes, key);
        append_short(&mut self.bytes, value);
        (self.count, self.last) = (self.count + 1, lengths);
        Added::Yes
    }

    /// Counts one more record of the size of the others, if there is room for it.
    #[inline(always)]
    fn fits_uniform(&mut self, key: &[u8]) -> bool {
        let first = self.bytes.get(..self.first.0).unwrap_or(key);
        let prefix = common(first, key).min(self.prefix);
        let tail = (self.first.0 - prefix).saturating_sub(HEAD);
        let records = (self.count + 1) * (HEAD + tail + self.first.1);
        if at::HEADS + prefix + records > PAGE {
            return false;
        }
        self.prefix = prefix;
        true
    }

    /// The same if they are of several sizes.
    #[inline(always)]
    fn fits_heap(&mut self, key: &[u8], lengths: (usize, usize)) -> bool {
        let first = self.first();
        // Between the first and the last key all begin with what these do.
        let prefix = common(first, key).min(MAX_PREFIX);
        let mut heap = self.heap;
        if self.is_uniform() {
            heap = self.count * heap_bytes(prefix, self.first);
        } else if prefix != self.prefix {
            // It gets shorter a few times only.
            heap = self.sizes().map(|lengths| heap_bytes(prefix, lengths)).sum();
        }
        heap += heap_bytes(prefix, lengths);
        if at::HEADS + prefix + (self.count + 1) * (HEAD + 2) + heap > PAGE {
            return false;
        }
        if self.is_uniform() {
            let first = (self.first.0 as u16, self.first.1 as u16);
            self.lengths.resize(self.count, first);
        }
        self.lengths.push((lengths.0 as u16, lengths.1 as u16));
        (self.prefix, self.heap) = (prefix, heap);
        true
    }

    /// The lengths of all keys and values.
    fn sizes(&self) -> impl Iterator<Item = (usize, usize)> {
        let of = |i: usize| self.lengths.get(i).map(|(k, v)| (usize::from(*k), usize::from(*v)));
        (0..self.count).map(move |i| of(i).unwrap_or(self.first))
    }

    /// The keys and values.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.sizes().map(move |(key, value)| {
            let (record, behind) = rest.split_at(key + value);
            rest = behind;
            record.split_at(key)
        })
    }

    /// The first key; nothing if there is none.
    pub(crate) fn first(&self) -> &[u8] {
        self.bytes.get(..self.first.0).unwrap_or(&[])
    }

    /// The last key; nothing if there is none.
    #[inline]
    pub(crate) fn last(&self) -> &[u8] {
        let (key, value) = self.last;
        let from = self.bytes.len().saturating_sub(key + value);
        self.bytes.get(from..from + key).unwrap_or(&[])
    }

    /// Writes the leaf. The birth stays as it is.
    pub(crate) fn write(&self, tagged: Tagged, bytes: &mut Bytes) {
        start(bytes, 0, self.count, &self.first()[..self.prefix]);
        if self.is_uniform() { self.write_uniform(bytes) } else { self.write_heap(tagged, bytes) }
    }

    fn write_uniform(&self, bytes: &mut Bytes) {
        let (key, value) = self.first;
        let mut place = shape(bytes, self.prefix, key, value, false);
        let (record, tail) = (key + value, (key - self.prefix).saturating_sub(HEAD));
        for i in 0..self.count {
            let record = &self.bytes[i * record..(i + 1) * record];
            set_head(bytes, i, &record[self.prefix..key]);
            let stored = &record[key - tail..];
            copy_short(&mut bytes[place..place + stored.len()], stored);
            place += stored.len();
        }
    }

    fn write_heap(&self, tagged: Tagged, bytes: &mut Bytes) {
        let size = at::HEADS + self.prefix + self.count * (HEAD + 2) + self.heap;
        let room = heap_room(self.prefix, self.count, size);
        begin_heap(bytes, room, tagged);
        let (mut heap, mut from) = (PAGE - self.prefix, 0);
        for (i, (key, value)) in self.sizes().enumerate() {
            let record = &self.bytes[from..from + key + value];
            from += record.len();
            let rest = key - self.prefix;
            set_head(bytes, i, &record[self.prefix..key]);
            // What comes after the head, and the value, are one behind the other here as there.
            let stored = &record[key - rest.saturating_sub(HEAD)..];
            heap -= stored.len();
            copy_short(&mut bytes[heap..heap + stored.len()], stored);
            heap = put_lengths(bytes, heap, rest, value);
            let tag = tagged.of_key(&record[..key]);
            set_short(bytes, at::HEADS + HEAD * room + 2 * i, heap | tag);
        }
        set_short(bytes, at::HEAP, heap);
    }
}

#[cfg(test)]
mod tests {
    use super::super::items::Items;
    use super::super::random::Rng;
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
                run.write(Tagged(true), &mut one);
                items.write_leaf(0, count, Tagged(true), &mut other);
                assert!(one == other, "keys of {len} bytes, {same} the same, values of {value}");
            }
        }
    }

    /// The same for records of several sizes, of which the first so many have one.
    #[test]
    fn a_run_of_several_sizes_is_written_as_a_list_is() {
        for (seed, alike) in (0..40_u32).flat_map(|seed| [(seed, 0), (seed, 3), (seed, 50)]) {
            let mut rng = Rng::new(u64::from(seed));
            let mut below = |n: u32| rng.below(u64::from(n));
            let (same, longest) =
                ([0, 2, 9, 400][seed as usize % 4], [5, 40, 100][seed as usize % 3]);
            let most = [1, 30, 300, NEAR_VALUE][seed as usize % 4];
            let mut keys: Vec<_> = (0..2000)
                .map(|_| {
                    let mut key = vec![b'k'; same];
                    key.extend(
                        (0..below(longest)).map(|_| [0, b'a', b'b', 0xff][below(4) as usize]),
                    );
                    key
                })
                .collect();
            keys.sort_unstable();
            keys.dedup();
            let (mut run, mut items, mut count) = (Run::default(), Items::default(), 0);
            for (i, key) in keys.iter().enumerate() {
                let value =
                    vec![i as u8; if i < alike { 2 } else { below(most as u32 + 1) as usize }];
                items.insert(count, key, None, ValueToStore::Near(&value));
                let fits = items.fits(0, count + 1, false, 0);
                assert_eq!(run.add(key, &value), if fits { Added::Yes } else { Added::Full });
                if !fits {
                    break;
                }
                assert_eq!(run.records().last(), Some((key.as_slice(), value.as_slice())));
                assert_eq!((run.first(), run.last()), (keys[0].as_slice(), key.as_slice()));
                count += 1;
            }
            let (mut one, mut other) = ([0xee; PAGE], [0xee; PAGE]);
            run.write(Tagged(true), &mut one);
            items.write_leaf(0, count, Tagged(true), &mut other);
            assert!(one == other, "seed {seed}, {alike} of one size, {count} records");
        }
    }

    #[test]
    fn what_does_not_belong_in_a_page_is_not_taken() {
        let mut run = Run::default();
        assert_eq!(run.add(&[0; NEAR_KEY + 1], b""), Added::Other);
        assert_eq!(run.add(b"", &[0; NEAR_VALUE + 1]), Added::Other);
        assert!(run.is_empty());
        assert_eq!(run.add(b"ab", b"value"), Added::Yes);
        assert_eq!(run.add(b"abc", &[0; NEAR_VALUE + 1]), Added::Other);
        assert_eq!(run.add(b"ac", b"other"), Added::Yes);
        assert_eq!((run.first(), run.last()), (&b"ab"[..], &b"ac"[..]));
    }
}
