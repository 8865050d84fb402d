//! Ranges to read: where each begins, and which records it must give.

use super::Queries;
use super::generate::stream;
use super::records::{Records, read_numbers, write_numbers};
use crate::rng::Rng;
use std::io::{Read, Write};

/// Ranges that begin at random keys.
#[derive(Default)]
pub(crate) struct Ranges {
    /// The first key of each, with its record.
    starts: Queries,
    /// Where the records of each end in `records`.
    ends: Vec<u32>,
    /// The records of all ranges, one range after the other, each in the order of the keys.
    records: Vec<u32>,
}

impl Ranges {
    /// Records in a range; one that begins near the end of the data has less.
    pub(crate) const RECORDS: usize = 100;

    /// `count` ranges.
    pub(crate) fn draw(records: &Records, count: usize, seed: u64) -> Ranges {
        let mut ranges = Ranges::default();
        if count == 0 {
            return ranges;
        }
        let order = in_order(records);
        let mut rng = Rng::new(seed, stream::RANGES);
        for _ in 0..count {
            let place = rng.index(order.len());
            let range = &order[place..order.len().min(place + Ranges::RECORDS)];
            ranges.starts.push(records.key(range[0] as usize), range[0]);
            ranges.records.extend_from_slice(range);
            ranges.ends.push(ranges.records.len() as u32);
        }
        ranges
    }

    /// The first key of each range.
    pub(crate) fn starts(&self) -> &Queries {
        &self.starts
    }

    /// The numbers of the records of range `i`.
    pub(crate) fn of(&self, i: usize) -> &[u32] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.records[start as usize..self.ends[i] as usize]
    }

    /// Writes the ranges for [`Ranges::read_from`].
    pub(crate) fn write_to(&self, out: &mut impl Write) -> std::io::Result<()> {
        self.starts.write_to(out)?;
        write_numbers(&self.ends, out)?;
        write_numbers(&self.records, out)
    }

    /// Reads what [`Ranges::write_to`] wrote.
    pub(crate) fn read_from(input: &mut impl Read) -> std::io::Result<Ranges> {
        let starts = Queries::read_from(input)?;
        let (ends, records) = (read_numbers(input)?, read_numbers(input)?);
        Ok(Ranges { starts, ends, records })
    }
}

/// The numbers of all records in the order of their keys. The first bytes of a key are compared as
/// one number, as each look at a key itself is a cache miss.
pub(super) fn in_order(records: &Records) -> Vec<u32> {
    let first_bytes = |key: &[u8]| {
        let bytes = key.iter().copied().chain(std::iter::repeat(0)).take(8);
        bytes.fold(0_u64, |number, byte| number << 8 | u64::from(byte))
    };
    let mut order: Vec<(u64, u32)> =
        records.iter().zip(0..).map(|((key, _), i)| (first_bytes(key), i)).collect();
    let key = |(_, i): &(u64, u32)| records.key(*i as usize);
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a).cmp(key(b))));
    order.into_iter().map(|(_, i)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn ranges_are_what_a_map_gives() {
        let mut records = Records::default();
        let mut map = BTreeMap::new();
        for i in 0..1000_u32 {
            // Keys of which one begins as the other, and ones that differ behind eight bytes.
            let key = match i % 4 {
                0 => vec![0; i as usize / 4 % 12],
                1 => format!("the same {}", i * 7919 % 1000).into_bytes(),
                2 => (i * 7919).to_le_bytes()[..3].to_vec(),
                _ => (i * 7919).to_string().into_bytes(),
            };
            if map.insert(key.clone(), i).is_none() {
                records.push(&key, b"").unwrap();
            }
        }
        let ranges = Ranges::draw(&records, 300, 5);
        let mut bytes = Vec::new();
        ranges.write_to(&mut bytes).unwrap();
        let ranges = Ranges::read_from(&mut bytes.as_slice()).unwrap();
        assert_eq!(ranges.starts().len(), 300);
        for (i, start) in ranges.starts().iter().enumerate() {
            let got = ranges.of(i).iter().map(|record| records.key(*record as usize));
            let from = map.range(start.to_vec()..).take(Ranges::RECORDS);
            assert!(got.eq(from.map(|(key, _)| key.as_slice())), "{}", start.escape_ascii());
        }
        assert!((0..300).any(|i| ranges.of(i).len() < Ranges::RECORDS));
        assert_eq!(Ranges::draw(&records, 0, 5).starts().len(), 0);
    }
}
