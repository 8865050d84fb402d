//! Statistics over a handful of rounds: medians, intervals, paired ratios, outliers.
//!
//! Rounds are few and their noise is one-sided, so everything rests on the median. Intervals are
//! **percentile bootstrap** intervals at 95 %: the median of 10,000 resamples, drawn with a fixed
//! seed, so that the same samples always give the same interval. BCa is not used: its correction
//! rests on a jackknife, which has no meaning for the median of a few samples.
//! The medians of resamples of 1,000 samples and more are drawn by how they are distributed, as
//! drawing every sample of 10,000 resamples takes minutes for each figure of 100,000 rounds.
//!
//! With fewer than six samples no method reaches 95 %: the interval is then the range of the
//! samples, and covers the true median with probability [`range_coverage`]. Reports say so.
//!
//! Figures that are not finite are left out everywhere; no function here panics.

use super::text;
use crate::result::{PhaseResult, Scaling, Summary};
use crate::rng::splitmix64;
use serde::Serialize;
use std::collections::HashMap;
use std::f64::consts::TAU;

const RESAMPLES: usize = 10_000;
const SEED: u64 = 0x0063_7265_6465_6e7a;
/// The part of an interval's probability that lies outside, on each side.
const TAIL: f64 = 0.025;
/// Samples from which on the median of a resample is drawn at once.
const MANY: usize = 1000;
/// Tukey's factor: beyond this many interquartile ranges from the quartiles is an outlier.
const FENCE: f64 = 1.5;
/// Below this many pairs a ratio is shown without a verdict.
pub(crate) const PAIRS_FOR_VERDICT: usize = 3;

/// The median: the mean of the two middle figures when their count is even; `None` when there
/// is no finite figure.
pub fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    if sorted.is_empty() { None } else { Some(middle(&sorted)) }
}

/// The 95 % percentile bootstrap interval of the median, as (low, high); `None` without samples.
///
/// One sample gives an interval of no width, which says nothing: look at the count.
pub fn interval(samples: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(samples);
    if sorted.is_empty() {
        return None;
    }
    let (mut random, mut resampler) = (SplitMix(SEED), Resampler::of(&sorted));
    Some(inner((0..RESAMPLES).map(|_| resampler.median(&mut random)).collect()))
}

/// Draws as many figures as there are, at random and again, and takes their median. Of many that is the one whose
/// rank is the median of as many ranks drawn at random: as a part of all it has a beta distribution, which is then
/// as good as normal, around a half.
struct Resampler<'a> {
    /// Sorted.
    samples: &'a [f64],
    drawn: Vec<f64>,
}

impl<'a> Resampler<'a> {
    /// For at least one figure, in their order.
    fn of(samples: &'a [f64]) -> Resampler<'a> {
        Resampler { samples, drawn: vec![0.0; samples.len()] }
    }

    fn median(&mut self, random: &mut SplitMix) -> f64 {
        let count = self.samples.len();
        if count >= MANY {
            let part = 0.5 + random.normal() / (2.0 * (count as f64 + 2.0).sqrt());
            return self.samples[((part * count as f64) as usize).min(count - 1)];
        }
        for slot in &mut self.drawn {
            *slot = self.samples[random.below(count)];
        }
        self.drawn.sort_by(f64::total_cmp);
        middle(&self.drawn)
    }
}

/// The part of [`RESAMPLES`] figures that lies between the tails, as (low, high).
fn inner(mut figures: Vec<f64>) -> (f64, f64) {
    figures.sort_by(f64::total_cmp);
    let outside = (RESAMPLES as f64 * TAIL) as usize;
    (figures[outside], figures[RESAMPLES - 1 - outside])
}

/// Median, interval and samples of one figure per round; zeros when there is no finite sample.
pub fn summarise(samples: &[f64]) -> Summary {
    let samples: Vec<f64> = samples.iter().copied().filter(|x| x.is_finite()).collect();
    let (low, high) = interval(&samples).unwrap_or_default();
    Summary { median: median(&samples).unwrap_or_default(), low, high, samples }
}

/// The probability that the true median lies between the smallest and the largest of `n`
/// independent samples: 0 for one, 0.75 for three, 0.9375 for five.
pub fn range_coverage(n: usize) -> f64 {
    if n == 0 { 0.0 } else { 1.0 - 2.0 * 0.5_f64.powi(n.min(1000) as i32) }
}

/// What an interval is worth, where rounds are few.
pub fn coverage_in_words(rounds: usize) -> String {
    if rounds < 2 {
        return "A single round has no interval: nothing tells how far another would be from it."
            .into();
    }
    format!(
        "With {} an interval is the range of the samples: it holds the true median with a probability of \
         {} only.",
        text::counted(rounds, "round"),
        text::percent(range_coverage(rounds))
    )
}

/// Which samples are outliers by Tukey's rule (beyond 1.5 interquartile ranges from the
/// quartiles), in the order given. Below five samples the rule has nothing to go by: none is.
/// Outliers are marked, never dropped.
pub fn outliers(samples: &[f64]) -> Vec<bool> {
    let sorted = sorted(samples);
    if sorted.len() < 5 {
        return vec![false; samples.len()];
    }
    let (first, third) = (quantile(&sorted, 0.25), quantile(&sorted, 0.75));
    let reach = FENCE * (third - first);
    samples.iter().map(|x| *x < first - reach || *x > third + reach).collect()
}

/// How many times as fast one store is as another, from pairs of samples of the same round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median of the pairs' ratios; above 1 is faster.
    pub median: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end of its 95 % interval.
    pub high: f64,
    /// How many rounds both stores finished.
    pub pairs: usize,
    /// The noise floor: how many times as fast a store may look as itself, at least 1. A median
    /// within it, or within its inverse, shows no difference. Asked of the interval, the noise that
    /// makes that wide would have let it through.
    pub floor: f64,
}

/// What a ratio's interval allows to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is above 1, and the median above the noise floor.
    Faster,
    /// The whole interval is below 1, and the median below the inverse of the noise floor.
    Slower,
    /// The interval spans 1, or the median lies within the noise floor.
    NoDifference,
    /// Fewer than three pairs: there is a ratio, but nothing to judge it by.
    TooFewRounds,
}

impl Ratio {
    /// The ratio that these pairs of (own time, other's time) give; `None` without a usable pair.
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Option<Ratio> {
        let usable = pairs.iter().filter(|(own, other)| *own > 0.0 && *other > 0.0);
        let ratios: Vec<f64> = usable.map(|(own, other)| other / own).collect();
        let (low, high) = interval(&ratios)?;
        Some(Ratio { median: median(&ratios)?, low, high, pairs: ratios.len(), floor: 1.0 })
    }

    /// How many times as fast `after` is as `before`, two lists of times of one store in two runs.
    /// Their rounds are no pairs, as nothing that disturbed one run disturbed the other: it is the
    /// ratio of the medians, and both are drawn from by themselves for its interval. `pairs` is
    /// the shorter list's length. `None` if either has no time above 0.
    pub fn of_runs(before: &[f64], after: &[f64]) -> Option<Ratio> {
        let usable = |times: &[f64]| -> Vec<f64> {
            sorted(times).into_iter().filter(|time| *time > 0.0).collect()
        };
        let (before, after) = (usable(before), usable(after));
        let median = median(&before)? / median(&after)?;
        let (mut random, mut old) = (SplitMix(SEED), Resampler::of(&before));
        let mut new = Resampler::of(&after);
        let mut ratio = |_| old.median(&mut random) / new.median(&mut random);
        let (low, high) = inner((0..RESAMPLES).map(&mut ratio).collect());
        Some(Ratio { median, low, high, pairs: before.len().min(after.len()), floor: 1.0 })
    }

    /// What may be said.
    pub fn verdict(&self) -> Verdict {
        if self.pairs < PAIRS_FOR_VERDICT {
            Verdict::TooFewRounds
        } else if self.low > 1.0 && self.median > self.floor {
            Verdict::Faster
        } else if self.high < 1.0 && self.median < 1.0 / self.floor {
            Verdict::Slower
        } else {
            Verdict::NoDifference
        }
    }
}

impl From<Scaling> for Ratio {
    /// Of several readers no noise floor is measured.
    fn from(s: Scaling) -> Ratio {
        Ratio { median: s.median, low: s.low, high: s.high, pairs: s.pairs, floor: 1.0 }
    }
}

/// How many times as fast `own` is as `other` in the same phase: samples of equal rounds are
/// paired, so that noise that hit a whole round falls out. `None` if they share no round, or if
/// either's answers were not verified: a wrong answer has no speed.
pub fn speed_ratio(own: &PhaseResult, other: &PhaseResult) -> Option<Ratio> {
    Ratio::of_pairs(&pairs(own, other))
}

/// Whether these two have a ratio, and it is of too few rounds to be judged.
pub fn is_unjudged(own: &PhaseResult, other: &PhaseResult) -> bool {
    (1..PAIRS_FOR_VERDICT).contains(&pairs(own, other).len())
}

/// The samples of both in each round that both have; none where there is no ratio of these two.
fn pairs(own: &PhaseResult, other: &PhaseResult) -> Vec<(f64, f64)> {
    let mut pairs = Vec::new();
    if !own.verified || !other.verified || own.class != other.class {
        return pairs;
    }
    let mut others = HashMap::new();
    for (j, sample) in other.ns_per_op.samples.iter().enumerate() {
        others.entry(round_of(other, j)).or_insert(*sample);
    }
    for (i, sample) in own.ns_per_op.samples.iter().enumerate() {
        pairs.extend(others.get(&round_of(own, i)).map(|other| (*sample, *other)));
    }
    pairs
}

/// The round of the i-th sample; a file without `sample_rounds` has one sample a round.
pub fn round_of(result: &PhaseResult, i: usize) -> usize {
    result.sample_rounds.get(i).copied().unwrap_or(i)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|x| x.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median of sorted figures, of which there is at least one.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { sorted[half - 1] / 2.0 + sorted[half] / 2.0 }
}

/// Linear interpolation between the closest ranks (R's type 7); at least one figure.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = part * (sorted.len() - 1) as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

/// SplitMix64: small, fixed for ever, and random enough to draw resamples.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// A number below `n` (which is not 0), by the high half of a wide product.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// A number of the normal distribution around 0 whose deviation is 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        // Between 0 and 1, and never 0, which has no logarithm.
        let mut part = || ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-2.0 * part().ln()).sqrt() * (TAU * part()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Effort;

    #[test]
    fn medians_of_known_samples() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[1.0, f64::INFINITY, 3.0]), Some(2.0));
        assert_eq!(median(&[f64::MAX, f64::MAX]), Some(f64::MAX));
    }

    #[test]
    fn quartiles_as_r_gives_them() {
        // quantile(c(1, 2, 4, 8, 16, 32), c(.25, .75)) in R: 2.5 and 14.
        let sorted = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
        assert_eq!(quantile(&sorted, 0.25), 2.5);
        assert_eq!(quantile(&sorted, 0.75), 14.0);
    }

    #[test]
    fn outliers_beyond_the_fences_only() {
        // Quartiles 2 and 4, fences -1 and 7.
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 7.0]), [false; 5]);
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 7.1]), [false, false, false, false, true]);
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 90.0]), [false; 4]);
        assert_eq!(outliers(&[]), [false; 0]);
    }

    #[test]
    fn few_samples_give_their_range() {
        for n in 2..=5_u32 {
            let samples: Vec<f64> = (0..n).map(|i| 10.0 + f64::from(i)).collect();
            assert_eq!(interval(&samples), Some((10.0, 9.0 + f64::from(n))), "{n} samples");
        }
        assert_eq!(interval(&[5.0]), Some((5.0, 5.0)));
        assert_eq!(interval(&[]), None);
        assert_eq!((range_coverage(1), range_coverage(3)), (0.0, 0.75));
        assert_eq!((range_coverage(5), range_coverage(0)), (0.9375, 0.0));
    }

    /// For nine samples the chance that a resample's median is at most the k-th smallest is
    /// binomial: 0.0014 for the smallest, 0.0304 for the second. So 2.5 % falls on the second.
    #[test]
    fn the_interval_of_nine_is_as_theory_says() {
        let samples = [9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0, 5.0];
        assert_eq!(interval(&samples), Some((2.0, 8.0)));
    }

    /// The interval of many samples has the ranks that resamples drawn sample by sample would give it, half of them
    /// and 0.98 of their root to both sides, and takes no minutes.
    #[test]
    fn the_interval_of_many_is_as_theory_says() {
        for count in [MANY - 1, MANY, MANY + 1, 200_000] {
            let samples: Vec<f64> = (0..count).map(|i| i as f64).collect();
            let start = std::time::Instant::now();
            let (low, high) = interval(&samples).expect("there are samples");
            let took = start.elapsed();
            let (half, reach) = (count as f64 / 2.0, 0.98 * (count as f64).sqrt());
            let is_near = |got: f64, wanted: f64| (got - wanted).abs() < 0.1 * reach;
            assert!(is_near(low, half - reach) && is_near(high, half + reach), "{low} to {high}");
            // Sample by sample the most of them take many minutes.
            assert!(count < 100_000 || took.as_secs() < 60, "{count} samples took {took:?}");
        }
    }

    #[test]
    fn pairs_of_many_rounds_are_found_at_once() {
        let start = std::time::Instant::now();
        let rounds: Vec<usize> = (0..300_000).rev().collect();
        let own = phase(&vec![1.0; 300_000], &rounds, true);
        let other = phase(&vec![2.0; 300_000], &[], true);
        assert_eq!(speed_ratio(&own, &other).map(|ratio| ratio.pairs), Some(300_000));
        assert!(start.elapsed().as_secs() < 60, "it took {:?}", start.elapsed());
    }

    /// Known distribution, known median: over many draws the interval must hold it about as
    /// often as it says.
    #[test]
    fn intervals_cover_the_true_median() {
        let mut random = SplitMix(7);
        let mut covered = 0;
        for _ in 0..200 {
            let uniform = |r: &mut SplitMix| (r.next() >> 11) as f64 / (1_u64 << 53) as f64;
            let samples: Vec<f64> = (0..15).map(|_| -uniform(&mut random).ln()).collect();
            let (low, high) = interval(&samples).expect("there are samples");
            covered += u32::from(low <= 2_f64.ln() && 2_f64.ln() <= high);
        }
        assert!((180..=199).contains(&covered), "{covered} of 200 intervals hold the median");
    }

    #[test]
    fn ratios_pair_rounds() {
        // Every round is twice as slow as the one before, for both: only pairs can see 2.0.
        let pairs: Vec<(f64, f64)> =
            (0..5).map(|i| (f64::from(1 << i), f64::from(2 << i))).collect();
        let ratio = Ratio::of_pairs(&pairs).expect("there are pairs");
        assert_eq!(ratio, Ratio { median: 2.0, low: 2.0, high: 2.0, pairs: 5, floor: 1.0 });
        assert_eq!(ratio.verdict(), Verdict::Faster);
        assert_eq!(Ratio::of_pairs(&[(0.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0)]), None);
    }

    #[test]
    fn verdicts() {
        let verdict = |own: &[f64]| {
            let pairs: Vec<(f64, f64)> = own.iter().map(|own| (*own, 10.0)).collect();
            Ratio::of_pairs(&pairs).expect("there are pairs").verdict()
        };
        assert_eq!(verdict(&[5.0, 6.0, 5.5]), Verdict::Faster);
        assert_eq!(verdict(&[50.0, 60.0, 55.0]), Verdict::Slower);
        assert_eq!(verdict(&[9.0, 11.0, 9.5, 10.5]), Verdict::NoDifference);
        assert_eq!(verdict(&[1.0, 1.0]), Verdict::TooFewRounds);
    }

    #[test]
    fn what_lies_within_the_noise_floor_is_no_difference() {
        let verdict =
            |low, median, high| Ratio { median, low, high, pairs: 5, floor: 1.25 }.verdict();
        assert_eq!(verdict(1.1, 1.15, 1.2), Verdict::NoDifference);
        assert_eq!(verdict(1.1, 1.3, 1.4), Verdict::Faster);
        assert_eq!(verdict(0.85, 0.87, 0.9), Verdict::NoDifference);
        assert_eq!(verdict(0.7, 0.75, 0.9), Verdict::Slower);
        // As wide as noise can make it, and no more than that.
        assert_eq!(verdict(1.03, 1.2, 6.9), Verdict::NoDifference);
        assert_eq!(verdict(0.1, 0.9, 0.97), Verdict::NoDifference);
        assert_eq!(verdict(0.9, 3.0, 6.9), Verdict::NoDifference);
    }

    #[test]
    fn two_runs_are_compared_by_their_medians() {
        let ratio = Ratio::of_runs(&[10.0, 12.0, 11.0], &[5.0, 4.0, 6.0, 0.0, f64::NAN]).unwrap();
        assert_eq!((ratio.median, ratio.pairs), (2.2, 3));
        // The ends of both ranges against each other: three samples are drawn alike often enough.
        assert_eq!((ratio.low, ratio.high), (10.0 / 6.0, 12.0 / 4.0));
        assert_eq!(ratio.verdict(), Verdict::Faster);
        assert_eq!(Ratio::of_runs(&[], &[1.0]), None);
        let same = Ratio::of_runs(&[9.0, 11.0, 10.0], &[9.5, 10.5, 10.0]).unwrap();
        assert_eq!(same.verdict(), Verdict::NoDifference);
    }

    #[test]
    fn only_equal_rounds_of_verified_answers_count() {
        let own = phase(&[1.0, 2.0, 4.0], &[0, 1, 3], true);
        let other = phase(&[3.0, 90.0, 12.0], &[0, 2, 3], true);
        let ratio = speed_ratio(&own, &other).expect("they share rounds 0 and 3");
        assert_eq!((ratio.median, ratio.pairs), (3.0, 2));
        assert!(is_unjudged(&own, &other) && !is_unjudged(&own, &own.clone()));
        assert!(!is_unjudged(&own, &phase(&[3.0], &[0], false)));
        assert_eq!(speed_ratio(&own, &phase(&[3.0], &[0], false)), None);
        assert_eq!(speed_ratio(&own, &phase(&[3.0], &[2], true)), None);
        let by_index = speed_ratio(&phase(&[1.0], &[], true), &phase(&[2.0], &[], true));
        assert_eq!(by_index.expect("both have a first sample").median, 2.0);
        let synced = PhaseResult { class: "sync".into(), ..other };
        assert_eq!(speed_ratio(&own, &synced), None, "classes never mix");
    }

    fn phase(samples: &[f64], rounds: &[usize], verified: bool) -> PhaseResult {
        PhaseResult {
            store: "a".into(),
            class: "buffered".into(),
            phase: "get-hit".into(),
            ops: 1,
            repeats: 1,
            rounds: samples.len(),
            ns_per_op: summarise(samples),
            latency_ns: None,
            operation_latency_ns: std::collections::BTreeMap::new(),
            latency_by_round: Default::default(),
            operation_latency_by_round: std::collections::BTreeMap::new(),
            at_rate: None,
            over_time: None,
            hit_rate: None,
            file_bytes: 0,
            peak_rss_bytes: 0,
            verified,
            native: true,
            sample_rounds: rounds.to_vec(),
            major_faults: Vec::new(),
            notes: Vec::new(),
            file_length_bytes: 0,
            effort: Effort::default(),
            write_amplification: None,
            syncs_per_commit: None,
            written_bytes_per_commit: None,
            own_counters: Vec::new(),
        }
    }
}
