//! What the processor itself counted of the timed work.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Events that the processor counted in the program, the kernel's part left out, over all timed work;
/// `None` for those that it does not count, or that the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processor {
    /// Instructions that were carried out.
    pub instructions: Option<u64>,
    /// Cycles of its clock.
    pub cycles: Option<u64>,
    /// Accesses that no cache had, as the processor's maker defines it.
    pub cache_misses: Option<u64>,
    /// Branches that were predicted wrongly.
    pub branch_misses: Option<u64>,
    /// Loads whose page was in no buffer of translations.
    pub dtlb_misses: Option<u64>,
}

impl Processor {
    /// The names of all events, in the order of [`Processor::all`].
    pub const NAMES: [&str; 5] =
        ["instructions", "cycles", "cache misses", "branch misses", "dTLB misses"];

    /// All counts, in the order of [`Processor::NAMES`].
    pub fn all(&self) -> [Option<u64>; 5] {
        [self.instructions, self.cycles, self.cache_misses, self.branch_misses, self.dtlb_misses]
    }

    /// The other way round.
    pub fn of(
        [instructions, cycles, cache_misses, branch_misses, dtlb_misses]: [Option<u64>; 5],
    ) -> Self {
        Processor { instructions, cycles, cache_misses, branch_misses, dtlb_misses }
    }

    /// All counts for one of so many operations.
    pub fn of_one(&self, operations: u64) -> [Option<f64>; 5] {
        self.all().map(|count| Some(count? as f64 / operations.max(1) as f64))
    }

    /// Whether there is any count.
    pub fn is_known(&self) -> bool {
        self.all().iter().any(Option::is_some)
    }
}

impl AddAssign for Processor {
    /// Where one of the two has no count, the other's stays: before the first round there is none.
    fn add_assign(&mut self, other: Processor) {
        let (mut sums, others) = (self.all(), other.all());
        for (sum, count) in sums.iter_mut().zip(others) {
            *sum = match (*sum, count) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                (one, other) => one.or(other),
            };
        }
        *self = Processor::of(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_are_for_one_operation() {
        let mut sum = Processor::default();
        assert!(!sum.is_known());
        sum += Processor::of([Some(300), None, Some(3), None, None]);
        sum += Processor::of([Some(100), None, Some(1), None, None]);
        assert!(sum.is_known());
        assert_eq!(sum.all(), [Some(400), None, Some(4), None, None]);
        assert_eq!(sum.of_one(200), [Some(2.0), None, Some(0.02), None, None]);
        assert_eq!(sum.of_one(0)[0], Some(400.0));
    }
}
