//! Which operations are timed by themselves.
//!
//! One in sixteen, at distances that vary. *Dropped*: every sixteenth. Where work has a rhythm that shares a factor with that,
//! such as transactions of sixteen operations or keys in runs, each one that was timed was the first of its kind, or
//! none was: the median of a transaction's operations was half as long again as with one operation more or less in each.

use crate::rng::splitmix64;

/// The farthest from one to the next.
const FARTHEST: u64 = 31;

/// Says of one operation after the other whether it is timed.
#[derive(Debug)]
pub(crate) struct Singly {
    /// Operations before the next that is timed.
    left: u64,
    farthest: u64,
    state: u64,
}

impl Singly {
    /// One in sixteen.
    pub(crate) fn some() -> Singly {
        Singly { left: FARTHEST / 2, farthest: FARTHEST, state: 0 }
    }

    /// All of them.
    pub(crate) fn all() -> Singly {
        Singly { left: 0, farthest: 1, state: 0 }
    }

    /// Whether the next operation is timed.
    #[inline(always)]
    pub(crate) fn takes_next(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        // The distance is from 1 on, each as often.
        self.left = ((splitmix64(&mut self.state) >> 32) * self.farthest) >> 32;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of work in any rhythm each beat is timed about as often.
    #[test]
    fn no_rhythm_of_the_work_is_that_of_the_sample() {
        for period in [2, 3, 10, 15, 16, 17, 31, 32, 64] {
            let (mut singly, mut taken) = (Singly::some(), vec![0u32; period]);
            let count = 16 * 1000 * period;
            for i in 0..count {
                taken[i % period] += u32::from(singly.takes_next());
            }
            assert!(taken.iter().all(|n| (850..1150).contains(n)), "{period}: {taken:?}");
        }
        let mut all = Singly::all();
        assert!((0..100).all(|_| all.takes_next()));
    }
}
