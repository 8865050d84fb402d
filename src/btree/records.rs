//! The records of a leaf, one after the other.
//!
//! What all keys of the page begin with is written once, and in a uniform leaf nothing is looked up
//! for a single record: heads and records are two arrays. In any other leaf the bytes after a head
//! are copied with more behind them, as many for every record, where they are few: calls that copy
//! each as many as it has are half of what such a scan takes. Values that are elsewhere are asked
//! for some records ahead, as they wait for memory each.

use super::heap;
use super::leaf::{DAMAGED, Uniform, far_key};
use super::page::{Bytes, HEAD, Kind, bytes_of, head, heads, kind, prefix};
use super::record::{Far, MIDDLE, Tail, Value};
use super::tree::{Pages, of};
use crate::Result;
use crate::bytes::le64;
use std::ops::Range;

/// After so many records of middle size in a leaf the others probably are now this, now that; fewer are
/// what a leaf of short ones has.
const MANY: usize = 4;

/// How many records ahead a value is asked for.
const AHEAD: usize = 8;

/// Calls `f` with the records of a leaf that have these numbers, until it says `false`; whether it
/// never did. `key` is where keys are put together.
#[inline(always)]
pub(crate) fn each<P: Pages>(
    pages: &P,
    page: u64,
    numbers: Range<usize>,
    key: &mut Vec<u8>,
    f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<bool> {
    let bytes = pages.page(page)?;
    if kind(bytes) == Some(Kind::Uniform) {
        let leaf = of(page, UniformLeaf::new(bytes, numbers, key))?;
        if leaf.uniform.is_far { leaf.each_far(pages, page, f) } else { leaf.each_near(page, f) }
    } else {
        each_in_heap(pages, page, bytes, numbers, key, f)
    }
}

/// Some records of a uniform leaf.
struct UniformLeaf<'p, 'k> {
    uniform: Uniform,
    heads: &'p [[u8; HEAD]],
    records: &'p [u8],
    /// What all keys begin with, and room for the rest.
    key: &'k mut [u8],
    prefix: usize,
    key_len: usize,
}

impl<'p, 'k> UniformLeaf<'p, 'k> {
    fn new(
        bytes: &'p Bytes,
        numbers: Range<usize>,
        key: &'k mut Vec<u8>,
    ) -> Result<Self, &'static str> {
        let (uniform, prefix) = (Uniform::of(bytes), prefix(bytes)?);
        let heads = heads(bytes)?.get(numbers.clone()).ok_or(DAMAGED)?;
        let from = uniform.from + numbers.start * uniform.stride();
        let records = bytes.get(from..from + numbers.len() * uniform.stride()).ok_or(DAMAGED)?;
        key.clear();
        key.extend_from_slice(prefix);
        key.resize(prefix.len() + HEAD + uniform.tail, 0);
        let (prefix, key_len) = (prefix.len(), prefix.len() + uniform.rest);
        Ok(UniformLeaf { uniform, heads, records, key, prefix, key_len })
    }

    /// The key with number `i`, and what of the record is behind the key.
    #[inline(always)]
    fn get(&mut self, i: usize) -> Option<(&[u8], &'p [u8])> {
        let (stride, tail) = (self.uniform.stride(), self.uniform.tail);
        let head = self.heads.get(i)?;
        let record = self.records.get(i * stride..(i + 1) * stride)?;
        let rest = self.key.get_mut(self.prefix..)?;
        *rest.first_chunk_mut()? = [head[3], head[2], head[1], head[0]];
        let (tail, value) = record.split_at_checked(tail)?;
        if !tail.is_empty() {
            rest.get_mut(HEAD..)?.copy_from_slice(tail);
        }
        Some((self.key.get(..self.key_len)?, value))
    }

    #[inline(always)]
    fn each_near(
        mut self,
        page: u64,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<bool> {
        for i in 0..self.heads.len() {
            let (key, value) = of(page, self.get(i).ok_or(DAMAGED))?;
            if !f(key, value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn each_far(
        mut self,
        pages: &impl Pages,
        page: u64,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<bool> {
        for i in 0..self.heads.len() {
            let ahead = (i + AHEAD) * self.uniform.stride() + self.uniform.tail;
            if let Some(at) = le64(self.records, ahead) {
                pages.prefetch(at);
            }
            let (key, value) = of(page, self.get(i).ok_or(DAMAGED))?;
            let far = of(page, Far::decode(value).ok_or(DAMAGED))?;
            if !f(key, pages.value(page, Value::Far(far))?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Some records of any other leaf.
fn each_in_heap(
    pages: &impl Pages,
    page: u64,
    bytes: &Bytes,
    numbers: Range<usize>,
    key: &mut Vec<u8>,
    mut f: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<bool> {
    let (prefix, heads) = (of(page, prefix(bytes))?, of(page, heads(bytes))?);
    key.clear();
    key.reserve(prefix.len() + HEAD + MIDDLE);
    key.extend_from_slice(prefix);
    key.resize(prefix.len() + HEAD + MIDDLE, 0);
    let prefix = prefix.len();
    let mut long = 0;
    for i in numbers {
        let head = bytes_of(head(heads, i));
        if long < MANY {
            if let Some((rest, tail, value)) = heap::short_record(bytes, i) {
                of(page, begin_key(key, prefix, head, tail).ok_or(DAMAGED))?;
                let key = of(page, key.get(..prefix + rest).ok_or(DAMAGED))?;
                if !f(key, value)? {
                    return Ok(false);
                }
                continue;
            }
            // Else it is only for want of bytes behind it.
            long += usize::from(heap::has_long_lengths(bytes, i));
        }
        if long > 0
            && let Some((rest, tail, value)) = heap::middle_record(bytes, i)
        {
            of(page, begin_key(key, prefix, head, tail).ok_or(DAMAGED))?;
            let key = of(page, key.get(..prefix + rest).ok_or(DAMAGED))?;
            if !f(key, value)? {
                return Ok(false);
            }
            continue;
        }
        let record = of(page, heap::record(bytes, i))?;
        if let (Value::Far(_), Ok(next)) = (record.value, heap::record(bytes, i + AHEAD))
            && let Value::Far(far) = next.value
        {
            pages.prefetch(far.at);
        }
        let key = match record.tail {
            Tail::Near(tail) => {
                key.resize(key.len().max(prefix + HEAD + tail.len()), 0);
                of(page, begin_key(key, prefix, head, &[0; 0]).ok_or(DAMAGED))?;
                key[prefix + HEAD..][..tail.len()].copy_from_slice(tail);
                &key[..prefix + record.rest]
            }
            Tail::Far(far) => of(page, far_key(far, pages))?,
        };
        if !f(key, pages.value(page, record.value)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the head and what comes after it, of a length that the compiler knows.
#[inline(always)]
fn begin_key<const N: usize>(
    key: &mut [u8],
    prefix: usize,
    head: [u8; HEAD],
    tail: &[u8; N],
) -> Option<()> {
    let rest = key.get_mut(prefix..)?;
    *rest.first_chunk_mut()? = head;
    *rest.get_mut(HEAD..)?.first_chunk_mut()? = *tail;
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::btree::BTree;
    use std::collections::BTreeMap;

    #[test]
    fn records_of_all_lengths_are_read_in_turn() {
        // On both sides of what each way to read them takes, short ones between long ones.
        let lengths = [0, 1, 4, 31, 32, 35, 36, 63, 64, 65, 68, 69, 100, 127, 128, 300];
        let mut records = BTreeMap::new();
        for i in 0..4000_usize {
            let (len, value) = (lengths[i % 16], lengths[i / 16 % 16]);
            let tail: Vec<u8> = (0..len).map(|n| (i + n) as u8).collect();
            let key = [format!("all/{:02}/{i:04}", i / 100 % 3).as_bytes(), &tail].concat();
            records.insert(key, vec![i as u8; value]);
        }
        for is_bulk in [false, true] {
            let store = BTree::in_memory().unwrap();
            let mut transaction = store.write().unwrap();
            let mut main = transaction.main();
            if is_bulk {
                main.bulk_load(records.iter().map(Ok)).unwrap();
            } else {
                for (key, value) in &records {
                    main.insert(key, value).unwrap();
                }
            }
            transaction.commit().unwrap();
            let (snapshot, mut all) = (store.read().unwrap(), records.iter());
            snapshot
                .main()
                .scan(|key, value| {
                    let (known, known_value) = all.next().unwrap();
                    assert_eq!((key, value), (&known[..], &known_value[..]));
                    Ok(())
                })
                .unwrap();
            assert_eq!(all.next(), None);
        }
    }
}
