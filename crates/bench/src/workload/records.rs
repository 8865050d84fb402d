//! Records in memory: one arena for all bytes, so that reading them in order costs no cache miss
//! beyond the bytes themselves, and an index over their keys.
//!
//! Invariant: a key occurs once. Stores differ in what they do with a second value of a key, so
//! no second one is given to them, but where a mix has `duplicates`.

use super::generate::stream;
use super::key_type::{KeyType, Types};
use crate::machine;
use crate::rng::Rng;
use credenza::{Error, ErrorKind, Result};
use std::io::{Read, Write};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Keys with their values, in input order, or in another one that was asked for.
#[derive(Clone, Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    /// Where each record ends in `bytes`: its key, then its value.
    ends: Vec<u64>,
    key_lens: Vec<u32>,
    types: Types,
    /// By the number of each record in the input the one that it has now; empty in input order.
    now_at: Vec<u32>,
}

impl Records {
    /// None yet, whose keys and values are of these types.
    pub(crate) fn of_types(types: Types) -> Records {
        Records { types, ..Records::default() }
    }

    /// What the keys are.
    pub(crate) fn key_type(&self) -> KeyType {
        self.types.keys
    }

    /// What the values are.
    pub(crate) fn value_type(&self) -> KeyType {
        self.types.values
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds a record at the end; the caller sees to it that the key is new.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let key_len = u32::try_from(key.len()).map_err(|_| {
            let limit = u64::from(u32::MAX);
            Error::new(ErrorKind::TooLarge { what: "key", size: key.len() as u64, limit })
        })?;
        if self.len() == MAX_RECORDS {
            return Err(Error::invalid(format!(
                "the workbench takes {MAX_RECORDS} records at most"
            )));
        }
        if self.len().is_multiple_of(1 << 20) {
            machine::check_memory_is_left()?;
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len() as u64);
        self.key_lens.push(key_len);
        Ok(())
    }

    /// The key and value of record `i`.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> (&[u8], &[u8]) {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        self.bytes[start..self.ends[i] as usize].split_at(self.key_lens[i] as usize)
    }

    pub(crate) fn key(&self, i: usize) -> &[u8] {
        self.get(i).0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = self.bytes.as_slice();
        let mut start = 0;
        self.ends.iter().zip(&self.key_lens).map(move |(end, key_len)| {
            let (record, after) = rest.split_at((end - start) as usize);
            (start, rest) = (*end, after);
            record.split_at(*key_len as usize)
        })
    }

    pub(crate) fn key_bytes(&self) -> u64 {
        self.key_lens.iter().map(|len| u64::from(*len)).sum()
    }

    pub(crate) fn value_bytes(&self) -> u64 {
        self.bytes.len() as u64 - self.key_bytes()
    }

    /// The same keys with other values of the same lengths: the lowest bit of every byte flipped.
    /// An empty value has no other and stays.
    pub(crate) fn with_other_values(&self) -> Records {
        let mut bytes = self.bytes.clone();
        let mut start = 0;
        for (end, key_len) in self.ends.iter().zip(&self.key_lens) {
            bytes[start + *key_len as usize..*end as usize].iter_mut().for_each(|b| *b ^= 1);
            start = *end as usize;
        }
        let (ends, key_lens) = (self.ends.clone(), self.key_lens.clone());
        Records { bytes, ends, key_lens, types: self.types, now_at: Vec::new() }
    }

    /// The same records in random order.
    pub(crate) fn shuffled(&self, seed: u64) -> Result<Records> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        Rng::new(seed, stream::SHUFFLE).shuffle(&mut order);
        self.picked(&order)
    }

    /// The records of these numbers.
    pub(super) fn picked(&self, numbers: &[u32]) -> Result<Records> {
        let mut picked = Records::of_types(self.types);
        for (key, value) in numbers.iter().map(|i| self.get(*i as usize)) {
            picked.push(key, value)?;
        }
        Ok(picked)
    }

    /// All records, which are in input order, in that of these numbers; which they were is remembered.
    pub(super) fn in_other_order(&self, numbers: &[u32]) -> Result<Records> {
        let mut now_at = vec![0; numbers.len()];
        numbers.iter().zip(0..).for_each(|(before, now)| now_at[*before as usize] = now);
        Ok(Records { now_at, ..self.picked(numbers)? })
    }

    /// Whether they are in another order than that of the input.
    pub(crate) fn are_in_other_order(&self) -> bool {
        !self.now_at.is_empty()
    }

    /// The number that a record has whose number in the input was this.
    pub(super) fn now_at(&self, number: u32) -> u32 {
        self.now_at.get(number as usize).copied().unwrap_or(number)
    }

    /// The first of them, so many at most.
    pub(crate) fn first(&self, count: usize) -> Result<Records> {
        let mut first = Records::of_types(self.types);
        for (key, value) in self.iter().take(count) {
            first.push(key, value)?;
        }
        Ok(first)
    }

    /// What all records amount to, whatever their order.
    pub(crate) fn content(&self) -> Content {
        let mut content = Content::default();
        self.iter().for_each(|(key, value)| content.add(key, value));
        content
    }

    /// Writes the records for [`Records::read_from`].
    pub(crate) fn write_to(&self, out: &mut impl Write) -> std::io::Result<()> {
        out.write_all(&(self.len() as u64).to_le_bytes())?;
        out.write_all(&[self.types.keys as u8, self.types.values as u8])?;
        for (end, key_len) in self.ends.iter().zip(&self.key_lens) {
            out.write_all(&end.to_le_bytes())?;
            out.write_all(&key_len.to_le_bytes())?;
        }
        out.write_all(&self.bytes)?;
        write_numbers(&self.now_at, out)
    }

    /// Reads what [`Records::write_to`] wrote.
    pub(crate) fn read_from(input: &mut impl Read) -> std::io::Result<Records> {
        let count = read_u64(input)?;
        let mut types = [0; 2];
        input.read_exact(&mut types)?;
        let [keys, values] =
            types.map(|of| KeyType::ALL.get(usize::from(of)).copied().unwrap_or_default());
        let mut records = Records::of_types(Types { keys, values });
        read_each::<12>(input, count, |pair| {
            let (end, key_len) = pair.split_at(8);
            records.ends.push(u64::from_le_bytes(end.try_into().unwrap_or_default()));
            records.key_lens.push(u32::from_le_bytes(key_len.try_into().unwrap_or_default()));
        })?;
        let total = records.ends.last().copied().unwrap_or(0);
        records.bytes = vec![0; total as usize];
        input.read_exact(&mut records.bytes)?;
        records.now_at = read_numbers(input)?;
        Ok(records)
    }
}

/// Writes numbers for [`read_numbers`].
pub(super) fn write_numbers(numbers: &[u32], out: &mut impl Write) -> std::io::Result<()> {
    out.write_all(&(numbers.len() as u64).to_le_bytes())?;
    numbers.iter().try_for_each(|number| out.write_all(&number.to_le_bytes()))
}

/// Reads what [`write_numbers`] wrote.
pub(super) fn read_numbers(input: &mut impl Read) -> std::io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let count = read_u64(input)?;
    read_each(input, count, |bytes| numbers.push(u32::from_le_bytes(bytes)))?;
    Ok(numbers)
}

/// Gives `count` rows of `N` bytes each to `take`. They are read many at a time: every measured process reads
/// millions.
pub(super) fn read_each<const N: usize>(
    input: &mut impl Read,
    count: u64,
    mut take: impl FnMut([u8; N]),
) -> std::io::Result<()> {
    let mut block = vec![[0; N]; count.min(4096) as usize];
    let mut left = count;
    while left > 0 {
        let rows = &mut block[..left.min(4096) as usize];
        input.read_exact(rows.as_flattened_mut())?;
        rows.iter().for_each(|row| take(*row));
        left -= rows.len() as u64;
    }
    Ok(())
}

pub(crate) fn read_u64(input: &mut impl Read) -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// An index is 32 bits, and one value of them says "none".
pub(crate) const MAX_RECORDS: usize = u32::MAX as usize - 1;

/// The count and an order-free checksum of records: equal only if the same values belong to the
/// same keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) count: u64,
    sum: u64,
}

impl Content {
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(xxh3_64_with_seed(value, xxh3_64(key)));
    }
}

/// Finds a record by its key: open addressing over record numbers.
pub(crate) struct Index {
    slots: Vec<u32>,
    used: usize,
}

const EMPTY: u32 = u32::MAX;

impl Index {
    /// An index with room for `records` keys; it grows when there are more.
    pub(crate) fn with_room(records: usize) -> Index {
        Index { slots: vec![EMPTY; (records.max(4) * 3 / 2).next_power_of_two()], used: 0 }
    }

    /// An index over all of `records`.
    pub(crate) fn over(records: &Records) -> Index {
        let mut index = Index::with_room(records.len());
        (0..records.len()).for_each(|i| {
            index.add(records, i);
        });
        index
    }

    /// The number of the record with this key.
    pub(crate) fn find(&self, records: &Records, key: &[u8]) -> Option<usize> {
        let i = self.slots[self.slot_of(records, key)];
        (i != EMPTY).then_some(i as usize)
    }

    /// Adds record `i`; returns false and changes nothing if its key is there already.
    pub(crate) fn add(&mut self, records: &Records, i: usize) -> bool {
        if (self.used + 1) * 8 > self.slots.len() * 7 {
            self.grow(records);
        }
        let slot = self.slot_of(records, records.key(i));
        let is_new = self.slots[slot] == EMPTY;
        if is_new {
            self.slots[slot] = i as u32;
            self.used += 1;
        }
        is_new
    }

    /// The slot that holds this key, or the empty one where it belongs.
    fn slot_of(&self, records: &Records, key: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = xxh3_64(key) as usize & mask;
        while self.slots[slot] != EMPTY && records.key(self.slots[slot] as usize) != key {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self, records: &Records) {
        let double = vec![EMPTY; self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, double);
        for i in old.into_iter().filter(|i| *i != EMPTY) {
            let slot = self.slot_of(records, records.key(i as usize));
            self.slots[slot] = i;
        }
    }
}

/// Collects records, of which the first of each key counts.
pub(crate) struct Collector {
    pub(crate) records: Records,
    pub(crate) index: Index,
    /// Records left out because their key was there already.
    pub(crate) repeated: u64,
    limit: usize,
}

impl Collector {
    /// Collects at most `limit` records.
    pub(crate) fn new(limit: usize) -> Collector {
        Collector::of_types(Types::default(), limit)
    }

    /// The same of records whose keys and values are of these types.
    pub(crate) fn of_types(types: Types, limit: usize) -> Collector {
        let index = Index::with_room(limit.min(1 << 20));
        Collector { records: Records::of_types(types), index, repeated: 0, limit }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.records.len() >= self.limit
    }

    /// Adds the record if its key is new; says whether it was.
    pub(crate) fn offer(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.index.find(&self.records, key).is_some() {
            self.repeated += 1;
            return Ok(false);
        }
        self.records.push(key, value)?;
        Ok(self.index.add(&self.records, self.records.len() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_key_counts_and_is_found() {
        let mut collector = Collector::new(10_000);
        for i in 0..5000_u32 {
            let (key, value) = ((i % 3000).to_string(), i.to_string());
            let is_new = collector.offer(key.as_bytes(), value.as_bytes()).unwrap();
            assert_eq!(is_new, i < 3000);
        }
        let Collector { records, index, repeated, .. } = collector;
        assert_eq!((records.len(), repeated), (3000, 2000));
        let i = index.find(&records, b"2999").unwrap();
        assert_eq!(records.get(i), (&b"2999"[..], &b"2999"[..]));
        assert_eq!(index.find(&records, b"3000"), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let types = Types { keys: KeyType::Number64, values: KeyType::F32 };
        let mut records = Records::of_types(types);
        records.push(b"", b"").unwrap();
        records.push(b"a", b"").unwrap();
        records.push(b"", b"bc").unwrap();
        let mut file = Vec::new();
        records.write_to(&mut file).unwrap();
        let again = Records::read_from(&mut file.as_slice()).unwrap();
        assert!(again.iter().eq(records.iter()) && !again.are_in_other_order());
        assert_eq!((again.key_type(), again.value_type()), (types.keys, types.values));
        assert_eq!((again.key_bytes(), again.value_bytes()), (1, 2));
        // Which they were in the input is kept, too.
        let mut file = Vec::new();
        records.in_other_order(&[2, 0, 1]).unwrap().write_to(&mut file).unwrap();
        let again = Records::read_from(&mut file.as_slice()).unwrap();
        for i in 0..3 {
            assert_eq!(again.get(again.now_at(i) as usize), records.get(i as usize));
        }
        assert_eq!((again.get(0), again.value_type()), ((&b""[..], &b"bc"[..]), types.values));
    }

    #[test]
    fn other_values_differ_in_every_byte_and_keys_stay() {
        let mut records = Records::default();
        records.push(b"a", b"01").unwrap();
        records.push(b"b", b"").unwrap();
        records.push(b"", b"1").unwrap();
        let others = records.with_other_values();
        let all: Vec<_> = others.iter().collect();
        assert_eq!(all, [(&b"a"[..], &b"10"[..]), (b"b", b""), (b"", b"0")]);
        assert!(others.with_other_values().iter().eq(records.iter()));
    }

    #[test]
    fn shuffled_records_are_the_same_ones_in_another_order() {
        let mut records = Records::default();
        (0..100_u8).for_each(|i| records.push(&[i], &[i, 1]).unwrap());
        let shuffled = records.shuffled(3).unwrap();
        assert_eq!(shuffled.content(), records.content());
        assert!(!shuffled.iter().map(|(key, _)| key[0]).is_sorted());
    }

    #[test]
    fn content_knows_which_value_belongs_to_which_key() {
        let (mut one, mut two, mut three) = <(Content, Content, Content)>::default();
        one.add(b"a", b"1");
        one.add(b"b", b"2");
        two.add(b"b", b"2");
        two.add(b"a", b"1");
        three.add(b"a", b"2");
        three.add(b"b", b"1");
        assert_eq!(one, two);
        assert_ne!(one, three);
    }
}
