//! The random numbers of the workbench: xoshiro256++ seeded by splitmix64.
//!
//! Invariant: frozen. The same seed gives the same numbers in every version and on every machine,
//! so that a run can be repeated years later with the same data and the same queries.

use rand_core::TryRng;
use std::convert::Infallible;

/// A stream of random numbers.
pub(crate) struct Rng([u64; 4]);

impl Rng {
    /// The stream number `stream` of `seed`: different streams share nothing.
    pub(crate) fn new(seed: u64, stream: u64) -> Rng {
        let mut state = seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        Rng(std::array::from_fn(|_| splitmix64(&mut state)))
    }

    /// The next 64 random bits.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `n`, or 0 if `n` is 0. The bias is below n / 2^64.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// An index below `n`, or 0 if `n` is 0.
    #[inline]
    pub(crate) fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number from 0 to 1, 1 excluded.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Fills `out` with random bytes.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// Puts `items` in a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.index(i + 1));
        }
    }
}

/// So that distributions of other crates draw from this stream.
impl TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next())
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Infallible> {
        self.fill(out);
        Ok(())
    }
}

pub(crate) fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_algorithms() {
        // The first outputs of splitmix64 from 0, and of xoshiro256++ from the state 1, 2, 3, 4,
        // as the reference code of their authors gives them.
        let mut state = 0;
        assert_eq!(splitmix64(&mut state), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix64(&mut state), 0x6e78_9e6a_a1b9_65f4);
        let mut rng = Rng([1, 2, 3, 4]);
        assert_eq!(rng.next(), 41_943_041);
        assert_eq!(rng.next(), 58_720_359);
        assert_eq!(rng.next(), 3_588_806_011_781_223);
    }

    #[test]
    fn streams_of_a_seed_differ() {
        assert_ne!(Rng::new(1, 0).next(), Rng::new(1, 1).next());
        assert_ne!(Rng::new(1, 0).next(), Rng::new(2, 0).next());
    }
}
