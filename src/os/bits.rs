//! Which of very many numbers were met: a bit for each.
//!
//! How many there are, files say, which may be sparse or hostile. So the bits lie in memory of the kernel that is taken
//! where they are set, and where there is no room for all of them that is an error, and not the end of the program.

use crate::{Error, Result};
use memmap2::MmapMut;

/// A set of numbers below a limit, which is empty at first.
#[derive(Debug)]
pub(crate) struct Bits {
    /// None where the limit is 0.
    map: Option<MmapMut>,
    limit: u64,
}

impl Bits {
    pub(crate) fn below(limit: u64) -> Result<Bits> {
        let bytes = limit.div_ceil(64).saturating_mul(8);
        let map =
            (limit > 0).then(|| MmapMut::map_anon(usize::try_from(bytes).unwrap_or(usize::MAX)));
        let map = map.transpose().map_err(|e| Error::io("get memory to look at all of", e))?;
        Ok(Bits { map, limit })
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    fn words(&self) -> &[[u8; 8]] {
        self.map.as_deref().unwrap_or_default().as_chunks().0
    }

    fn words_mut(&mut self) -> &mut [[u8; 8]] {
        self.map.as_deref_mut().unwrap_or_default().as_chunks_mut().0
    }

    /// Whether a number is in the set; `None` if it is not below the limit.
    pub(crate) fn has(&self, number: u64) -> Option<bool> {
        let word = self.words().get((number / 64) as usize).filter(|_| number < self.limit)?;
        Some(u64::from_le_bytes(*word) >> (number % 64) & 1 == 1)
    }

    /// Adds a number; whether it was new, `None` if it is not below the limit.
    pub(crate) fn add(&mut self, number: u64) -> Option<bool> {
        (number < self.limit).then(|| self.add_range(number, number + 1))
    }

    /// Adds the numbers from `from` to before `to`, unless one is in the set, or not below the limit; then only some of
    /// them. Whether all were added.
    pub(crate) fn add_range(&mut self, from: u64, to: u64) -> bool {
        if to > self.limit {
            return false;
        }
        let mut at = from;
        while at < to {
            let (bit, rest) = (at % 64, to - at);
            let mask = (u64::MAX >> (64 - rest.min(64 - bit))) << bit;
            let Some(bytes) = self.words_mut().get_mut((at / 64) as usize) else { return false };
            let word = u64::from_le_bytes(*bytes);
            if word & mask != 0 {
                return false;
            }
            *bytes = (word | mask).to_le_bytes();
            at += 64 - bit;
        }
        true
    }

    /// The numbers below the limit that are not in the set.
    pub(crate) fn others(&self) -> impl Iterator<Item = u64> {
        (0..self.limit).filter(|number| self.has(*number) == Some(false))
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn numbers_are_added_once() {
        let mut bits = Bits::below(130).unwrap();
        for number in [0, 63, 64, 129] {
            assert_eq!(bits.has(number), Some(false));
            assert_eq!((bits.add(number), bits.add(number)), (Some(true), Some(false)));
            assert_eq!(bits.has(number), Some(true));
        }
        assert_eq!((bits.add(130), bits.has(130), bits.add(u64::MAX)), (None, None, None));
        assert_eq!(bits.others().count(), 126);
        let mut none = Bits::below(0).unwrap();
        assert_eq!((none.add(0), none.others().next()), (None, None));
    }

    #[test]
    fn ranges_that_overlap_are_told() {
        let mut bits = Bits::below(1000).unwrap();
        assert!(bits.add_range(11, 64) && bits.add_range(64, 128) && bits.add_range(128, 329));
        assert!([11, 63, 64, 127, 328].into_iter().all(|at| !bits.add_range(at, at + 1)));
        assert!(!bits.add_range(330, 1001) && bits.add_range(330, 1000));
    }

    /// As the end of a sparse file may say.
    #[test]
    fn more_than_there_is_memory_is_an_error_or_taken_as_needed() {
        if let Ok(mut bits) = Bits::below(1 << 36) {
            assert_eq!(bits.add((1 << 36) - 1), Some(true));
        }
        assert!(Bits::below(1 << 60).is_err() && Bits::below(u64::MAX).is_err());
    }
}
