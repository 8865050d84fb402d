//! How often which latency was: buckets that grow with the value, so that every percentile is
//! right within 3.2 %.
//!
//! Values below 16 have a bucket each; every power of two after that is divided into 16 buckets
//! of equal width, and a value is shown as the middle of its bucket. Values of 2^35 ns (34 s) and
//! more are in the last bucket; the largest of all is kept exactly, beside the buckets.

/// Buckets of a histogram.
pub(super) const BUCKETS: usize = 512;
/// Buckets for each power of two, as a power of two.
const PART_BITS: u32 = 4;
const PARTS: u64 = 1 << PART_BITS;

/// The bucket of a value.
pub(super) fn bucket_of(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let exponent = value.ilog2();
    let part = (value >> (exponent - PART_BITS)) & (PARTS - 1);
    let bucket = u64::from(exponent - PART_BITS + 1) * PARTS + part;
    (bucket as usize).min(BUCKETS - 1)
}

/// The least value of a bucket, and how many values it has.
fn range_of(bucket: usize) -> (u64, u64) {
    let (power, part) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    match power {
        0 => (part, 1),
        power => ((PARTS + part) << (power - 1), 1 << (power - 1)),
    }
}

/// The latencies of an operation, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// As many as there are buckets, or none if nothing was timed.
    counts: Vec<u64>,
    sum: u64,
    max: u64,
}

impl Histogram {
    /// Adds what others counted.
    pub(super) fn add(&mut self, counts: impl Iterator<Item = u64>, sum: u64, max: u64) {
        self.counts.resize(BUCKETS, 0);
        for (total, count) in self.counts.iter_mut().zip(counts) {
            // Wrapping, for what lies in a shared file may be anything.
            *total = total.wrapping_add(count);
        }
        self.sum = self.sum.wrapping_add(sum);
        self.max = self.max.max(max);
    }

    /// How many operations were timed.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The latency in nanoseconds that `percent` of the operations that were timed did not
    /// exceed, within 3.2 % up to 33 seconds, and of longer ones the longest; 0 if none was timed.
    pub fn percentile(&self, percent: f64) -> u64 {
        let count = self.count();
        // A conversion from float ends at the bounds of the type, and takes NaN for 0.
        let rank = ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count.max(1));
        if rank == count {
            return self.max;
        }
        let mut seen = 0u64;
        // The last bucket has no end.
        let (_, bounded) = self.counts.split_last().unwrap_or((&0, &[]));
        for (bucket, n) in bounded.iter().enumerate() {
            seen = seen.saturating_add(*n);
            if seen >= rank {
                let (least, width) = range_of(bucket);
                return (least + width / 2).min(self.max);
            }
        }
        self.max
    }

    /// The longest, exactly; of a difference between two snapshots ([`super::Operations::since`])
    /// within 6.3 %.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean in nanoseconds; 0 if none was timed.
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }

    /// What all of them took together, in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The buckets that are not empty, from short to long: the least latency in nanoseconds that
    /// belongs to the bucket, the greatest, and how many operations took that long.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bucket, count)| {
            let (least, width) = range_of(bucket);
            let last = if bucket + 1 == BUCKETS { u64::MAX } else { least + width - 1 };
            (least, last, *count)
        })
    }

    /// What came after `earlier`.
    pub(super) fn since(&self, earlier: &Histogram) -> Histogram {
        let before = earlier.counts.iter().copied().chain(std::iter::repeat(0));
        let counts: Vec<u64> =
            self.counts.iter().zip(before).map(|(now, then)| now.saturating_sub(then)).collect();
        let sum = self.sum.saturating_sub(earlier.sum);
        let mut later = Histogram { counts, sum, max: 0 };
        // The longest may have been before: then only the bucket of the longest since is known.
        let longest = later.buckets().last().map_or(0, |(_, last, _)| last);
        later.max = if self.max > earlier.max { self.max } else { longest.min(self.max) };
        later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_values_without_gap() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let (least, width) = range_of(bucket);
            assert_eq!(least, next, "bucket {bucket}");
            assert_eq!(bucket_of(least), bucket);
            assert_eq!(bucket_of(least + width - 1), bucket);
            next = least + width;
        }
        assert_eq!(next, 1 << 35);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    fn histogram(values: &[u64]) -> Histogram {
        let mut counts = vec![0; BUCKETS];
        values.iter().for_each(|value| counts[bucket_of(*value)] += 1);
        let mut histogram = Histogram::default();
        let max = values.iter().max().copied().unwrap_or(0);
        histogram.add(counts.into_iter(), values.iter().sum(), max);
        histogram
    }

    /// Values of every size, from a generator (xorshift64*).
    fn values(seed: u64, count: usize, most_bits: u64) -> Vec<u64> {
        let mut x = seed;
        let mut next = || {
            x ^= x >> 12;
            x ^= x << 25;
            x ^= x >> 27;
            x.wrapping_mul(0x2545_f491_4f6c_dd1d)
        };
        (0..count).map(|_| next() >> (64 - 1 - next() % most_bits)).collect()
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        for (seed, count) in [(1, 1), (2, 2), (3, 99), (4, 1000), (5, 100_000)] {
            let mut values = values(seed, count, 34);
            let histogram = histogram(&values);
            values.sort_unstable();
            assert_eq!(histogram.count(), count as u64);
            assert_eq!(histogram.max(), values[count - 1]);
            for percent in [0.0, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0] {
                let rank = ((percent / 100.0 * count as f64).ceil() as usize).clamp(1, count);
                let (exact, found) = (values[rank - 1], histogram.percentile(percent));
                let off = found.abs_diff(exact) as f64 / (exact as f64).max(1.0);
                assert!(off <= 0.032, "p{percent} of {count}: {found} is not {exact}");
            }
        }
    }

    #[test]
    fn a_difference_is_what_came_between() {
        let (early, late) = (values(6, 5000, 30), values(7, 5000, 20));
        let all: Vec<u64> = early.iter().chain(&late).copied().collect();
        let difference = histogram(&all).since(&histogram(&early));
        assert_eq!(difference.counts, histogram(&late).counts);
        assert_eq!(difference.sum(), late.iter().sum::<u64>());
        let max = late.iter().max().copied().unwrap();
        assert!(difference.max() >= max && difference.max() <= max + max / 16);
        assert_eq!(histogram(&all).since(&histogram(&all)).max(), 0);
        assert_eq!(histogram(&all).since(&Histogram::default()), histogram(&all));
    }

    #[test]
    fn an_empty_one_and_odd_percentages_have_answers() {
        let empty = Histogram::default();
        let answers = (empty.count(), empty.percentile(99.0), empty.max(), empty.mean());
        assert_eq!(answers, (0, 0, 0, 0.0));
        let one = histogram(&[1000]);
        for percent in [f64::NAN, f64::NEG_INFINITY, -1.0, f64::MIN_POSITIVE, 1e300] {
            assert_eq!(one.percentile(percent), 1000);
        }
        let long = histogram(&[1000, 60_000_000_000, 600_000_000_000]);
        assert_eq!(long.percentile(50.0), 600_000_000_000);
        assert_eq!(histogram(&[u64::MAX]).buckets().last(), Some(((31u64) << 30, u64::MAX, 1)));
    }
}
