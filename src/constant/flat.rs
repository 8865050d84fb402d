//! The buckets of a group as one run of records, for a scan of records of one size.
//!
//! How many records a bucket has is chance, so a loop over each bucket's ends in a misprediction
//! that costs as much as several records. Here the records of a whole group are noted first, for
//! each bucket as many as none has more of, which takes no branch; then one loop goes over all:
//! 1.4 instead of 2.1 ns a record. For records of several sizes the same took half as long again
//! as bucket by bucket, as each place depends on the one before.

use super::bucket::Shape;
use super::directory::{GROUP_BUCKETS, GROUP_BYTES, place};
use super::lanes::LANES;
use crate::Result;

/// Records of a group that are noted at most: 32 for each of its buckets.
const MAX_RECORDS: usize = 1024;

/// What went wrong, or did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All records were given.
    Done,
    /// None was: a bucket or the group is too large, or damaged, so do it bucket by bucket.
    Unusual,
    /// Some were, then a record passed the end.
    Damaged,
}

/// The directory's entry of a group, and its buckets.
#[derive(Clone, Copy)]
pub(super) struct Group<'g> {
    pub directory: &'g [u8; GROUP_BYTES as usize],
    pub at: u64,
    pub window: &'g [u8],
}

impl Group<'_> {
    /// Calls `f` with the bounds of each bucket in the window, as long as it returns true.
    #[inline(always)]
    fn all_buckets(&self, mut f: impl FnMut(usize, usize) -> bool) -> bool {
        (0..GROUP_BUCKETS).all(|number| {
            let Some(bucket) = place(self.directory, number) else { return false };
            f((bucket.at - self.at) as usize, bucket.len)
        })
    }
}

/// Notes of the records of a group.
pub(super) struct Flat {
    /// Where each record lies in the window.
    places: [u16; MAX_RECORDS],
}

impl Flat {
    pub(super) fn new() -> Flat {
        Flat { places: [0; MAX_RECORDS] }
    }

    /// Gives the records of a group of which all have one size.
    #[inline(always)]
    pub(super) fn give(
        &mut self,
        shape: &Shape,
        key_len: usize,
        group: Group,
        f: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<Outcome> {
        let size = shape.entry_bytes;
        let steps: [u16; LANES] = std::array::from_fn(|i| (i * size) as u16);
        let mut count = 0;
        let usual = group.all_buckets(|from, len| {
            let n = shape.count_by_len(len);
            let Some(places) = lanes_mut(&mut self.places, count) else { return false };
            // Not `steps.map`: that becomes a call, and a loop over single numbers.
            for (place, step) in places.iter_mut().zip(&steps) {
                *place = step.wrapping_add((from + n) as u16);
            }
            count += n;
            n <= LANES && n + n * size == len
        });
        if !usual {
            return Ok(Outcome::Unusual);
        }
        // Numbers of few bits show the compiler that no sum of them overflows.
        let size = usize::from(size as u16);
        for at in self.places.get(..count).unwrap_or_default() {
            let at = usize::from(*at);
            let record = group.window.get(at..at + size);
            let Some((key, value)) = record.and_then(|r| r.split_at_checked(key_len)) else {
                return Ok(Outcome::Damaged);
            };
            f(key, value)?;
        }
        Ok(Outcome::Done)
    }
}

#[inline(always)]
fn lanes_mut<T>(notes: &mut [T], at: usize) -> Option<&mut [T; LANES]> {
    notes.get_mut(at..)?.first_chunk_mut()
}

#[cfg(test)]
mod tests {
    use super::super::directory::encode;
    use super::super::format::Kind;
    use super::*;

    /// The outcome and the records of a group whose buckets have these numbers of entries, each
    /// of a key and a value byte.
    fn give(counts: &[usize]) -> (Outcome, Vec<(u8, u8)>) {
        let shape = Shape::new(Kind::Fixed { key_len: 1, value_len: 1 }, 4, 28);
        let (mut window, mut ends, mut next) = (Vec::new(), [0; GROUP_BUCKETS as usize], 0u8);
        for (number, end) in ends.iter_mut().enumerate() {
            let n = counts.get(number).copied().unwrap_or(0);
            window.extend(vec![0xff; n]);
            for _ in 0..n {
                window.extend([next, !next]);
                next = next.wrapping_add(1);
            }
            *end = window.len();
        }
        let directory = encode(1000, &ends);
        let group = Group { directory: &directory, at: 1000, window: &window };
        let mut seen = Vec::new();
        let mut take = |key: &[u8], value: &[u8]| {
            seen.push((key[0], value[0]));
            Ok(())
        };
        (Flat::new().give(&shape, 1, group, &mut take).unwrap(), seen)
    }

    #[test]
    fn all_records_of_a_usual_group_are_given_in_order() {
        for counts in [vec![], vec![3, 0, LANES, 1], vec![5; GROUP_BUCKETS as usize]] {
            let expected: Vec<(u8, u8)> =
                (0..counts.iter().sum::<usize>() as u8).map(|i| (i, !i)).collect();
            assert_eq!(give(&counts), (Outcome::Done, expected), "{counts:?}");
        }
    }

    #[test]
    fn none_of_an_unusual_group_is() {
        assert_eq!(give(&[3, LANES + 1]), (Outcome::Unusual, vec![]));
        assert_eq!(give(&[LANES; GROUP_BUCKETS as usize]).0, Outcome::Done);
        assert_eq!(give(&[100; GROUP_BUCKETS as usize]), (Outcome::Unusual, vec![]));
    }
}
