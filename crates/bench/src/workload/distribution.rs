//! Which keys are asked for how often.
//!
//! A distribution draws *items*: the number of a record, in the order in which records came into the
//! store. What it draws follows from the seed alone. Zipf's law is that of `rand_distr`, exact for any
//! number of items, and scrambling deals the ranks like cards; YCSB approximates the law over ten
//! thousand million ranks, of which a hash puts many on each key.
//!
//! Invariant: frozen, as the generator of the numbers: the test below holds what a seed gives.

use super::generate::stream;
use super::parameters::Parameters;
use super::ranges::in_order;
use super::records::Records;
use crate::rng::Rng;
use credenza::{Error, Result};
use rand_distr::{Distribution as _, Zipf};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How keys are chosen, with its parameters. In options and workload files it is text:
/// `NAME[:PARAMETER=VALUE,...]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Distribution {
    /// Every key as often.
    #[default]
    Uniform,
    /// The key of rank `r` is asked for in proportion to `1 / r^theta`.
    Zipfian {
        theta: f64,
        /// Whether ranks are dealt at random; if not, the first records are the most popular.
        scrambled: bool,
    },
    /// As zipfian, ranked by age: the newest record is the most popular.
    Latest { theta: f64 },
    /// A part of the keys, the oldest, is asked for in a part of the operations.
    Hotspot { keys: f64, operations: f64 },
    /// The newer a key, the more often it is asked for, so that a part of the keys, the newest, has a part of the
    /// operations; frequencies fall by the same factor from each key to the one before.
    Exponential { keys: f64, operations: f64 },
    /// One key after the other in their order, and again from the first.
    Ascending,
    /// The same backwards.
    Descending,
    /// From a random key on, `run` keys in their order; then from another one.
    Clustered { run: usize },
}

impl Distribution {
    const NAMES: &str =
        "uniform, zipfian, latest, hotspot, exponential, ascending, descending and clustered";
    /// YCSB's.
    const THETA: f64 = 0.99;

    /// YCSB's zipfian: its usual skew, scrambled.
    pub(crate) const ZIPFIAN: Distribution =
        Distribution::Zipfian { theta: Distribution::THETA, scrambled: true };
    pub(crate) const LATEST: Distribution = Distribution::Latest { theta: Distribution::THETA };
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => write!(f, "uniform"),
            Distribution::Zipfian { theta, scrambled } => {
                write!(f, "zipfian:theta={theta},scrambled={scrambled}")
            }
            Distribution::Latest { theta } => write!(f, "latest:theta={theta}"),
            Distribution::Hotspot { keys, operations } => {
                write!(f, "hotspot:keys={keys},operations={operations}")
            }
            Distribution::Exponential { keys, operations } => {
                write!(f, "exponential:keys={keys},operations={operations}")
            }
            Distribution::Ascending => write!(f, "ascending"),
            Distribution::Descending => write!(f, "descending"),
            Distribution::Clustered { run } => write!(f, "clustered:run={run}"),
        }
    }
}

impl From<Distribution> for String {
    fn from(distribution: Distribution) -> String {
        distribution.to_string()
    }
}

impl TryFrom<String> for Distribution {
    type Error = Error;

    fn try_from(text: String) -> Result<Distribution> {
        text.parse()
    }
}

impl FromStr for Distribution {
    type Err = Error;

    fn from_str(text: &str) -> Result<Distribution> {
        let (name, parameters) = Parameters::split(text);
        let mut given = Parameters::of(name, parameters)?;
        let found = match name {
            "uniform" => Distribution::Uniform,
            "zipfian" => Distribution::Zipfian {
                theta: given.number("theta", Distribution::THETA, 0.0..=20.0)?,
                scrambled: given.take("scrambled", true, "true or false")?,
            },
            "latest" => Distribution::Latest {
                theta: given.number("theta", Distribution::THETA, 0.0..=20.0)?,
            },
            "hotspot" => Distribution::Hotspot {
                keys: given.number("keys", 0.2, 0.0..=1.0)?,
                operations: given.number("operations", 0.8, 0.0..=1.0)?,
            },
            // YCSB's: 95 % of the operations at six of seven keys.
            "exponential" => Distribution::Exponential {
                keys: given.number("keys", 0.857_142_857_1, 1e-6..=1.0)?,
                operations: given.number("operations", 0.95, 0.01..=0.999_999)?,
            },
            "ascending" => Distribution::Ascending,
            "descending" => Distribution::Descending,
            "clustered" => {
                let run = given.take("run", 100, "a number of keys, at least 1")?;
                if run == 0 {
                    return Err(Error::invalid("clustered: run must be at least 1"));
                }
                Distribution::Clustered { run }
            }
            _ => {
                return Err(Error::invalid(format!(
                    "there is no distribution '{name}'; there are {}",
                    Distribution::NAMES
                )));
            }
        };
        given.all_known()?;
        Ok(found)
    }
}

/// The item of each rank where these are dealt at random: the same keys, whatever order they came in.
pub(super) fn dealt_ranks(records: &Records, seed: u64) -> Vec<u32> {
    let mut ranks: Vec<u32> = (0..records.len() as u32).collect();
    Rng::new(seed, stream::SCRAMBLE).shuffle(&mut ranks);
    ranks.iter_mut().for_each(|item| *item = records.now_at(*item));
    ranks
}

/// Draws items.
pub(crate) struct Chooser {
    distribution: Distribution,
    /// The item of each rank, or of each place in the order of the keys; empty where neither matters.
    order: Vec<u32>,
    /// The next place in `order`.
    place: usize,
    /// Keys left of a run.
    left: usize,
    /// Zipf's law over so many items; a new one when there are more.
    zipf: Option<(usize, Zipf<f64>)>,
}

impl Chooser {
    pub(crate) fn new(distribution: Distribution, records: &Records, seed: u64) -> Chooser {
        let order = match distribution {
            Distribution::Zipfian { scrambled: true, .. } => dealt_ranks(records, seed),
            Distribution::Ascending | Distribution::Clustered { .. } => in_order(records),
            Distribution::Descending => {
                let mut order = in_order(records);
                order.reverse();
                order
            }
            _ => Vec::new(),
        };
        Chooser { distribution, order, place: 0, left: 0, zipf: None }
    }

    /// An item below `items`, of which there is at least one. Where keys are in an order, it is
    /// that of the records from the beginning; records that came later are passed over.
    #[inline]
    pub(crate) fn next(&mut self, rng: &mut Rng, items: usize) -> usize {
        match self.distribution {
            Distribution::Uniform => rng.index(items),
            Distribution::Zipfian { theta, .. } => {
                let rank = self.rank(rng, items, theta);
                self.order.get(rank).map_or(rank, |item| *item as usize)
            }
            Distribution::Latest { theta } => items - 1 - self.rank(rng, items, theta),
            Distribution::Hotspot { keys, operations } => {
                let hot = ((items as f64 * keys).ceil() as usize).clamp(1, items);
                if rng.unit() < operations || hot == items {
                    rng.index(hot)
                } else {
                    hot + rng.index(items - hot)
                }
            }
            Distribution::Exponential { keys, operations } => {
                // By the inverse of the law that ends at the oldest key.
                let rate = -(1.0 - operations).ln() / keys;
                let age = -(1.0 - rng.unit() * (1.0 - (-rate).exp())).ln() / rate;
                items - 1 - ((age * items as f64) as usize).min(items - 1)
            }
            Distribution::Ascending | Distribution::Descending => self.step(),
            Distribution::Clustered { run } => {
                if self.left == 0 {
                    (self.place, self.left) = (rng.index(self.order.len()), run);
                }
                self.left -= 1;
                self.step()
            }
        }
    }

    fn step(&mut self) -> usize {
        let item = self.order[self.place];
        self.place = (self.place + 1) % self.order.len();
        item as usize
    }

    /// A rank from 0 on.
    fn rank(&mut self, rng: &mut Rng, items: usize, theta: f64) -> usize {
        let law = match self.zipf {
            Some((of, law)) if of == items => law,
            _ => {
                let law = Zipf::new(items as f64, theta)
                    .expect("the parameters were looked at and there is an item");
                self.zipf = Some((items, law));
                law
            }
        };
        // Rounding may give one more than there are.
        (law.sample(rng) as usize).clamp(1, items) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    /// A seed of its own for each run, printed for the case that it fails.
    fn seed() -> u64 {
        let given = std::env::var("CREDENZA_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |time| u64::from(time.subsec_nanos()))
        });
        println!("CREDENZA_SEED={seed}");
        seed
    }

    /// Keys in an order that is not that of the records.
    fn records(count: u32) -> Records {
        let mut records = Records::default();
        for i in 0..count {
            records.push(&(i.wrapping_mul(2_654_435_761)).to_le_bytes(), b"").unwrap();
        }
        records
    }

    /// How often each item of `count` is drawn.
    fn drawn(text: &str, count: u32, seed: u64) -> Vec<u64> {
        let mut chooser = Chooser::new(text.parse().unwrap(), &records(count), seed);
        let mut rng = Rng::new(seed, stream::MIXED);
        let mut counts = vec![0; count as usize];
        (0..DRAWS).for_each(|_| counts[chooser.next(&mut rng, count as usize)] += 1);
        counts
    }

    /// Pearson's test: fails for one seed of a thousand million if the counts are as `expected` says.
    fn fits(counts: &[u64], expected: impl Fn(usize) -> f64) {
        let total: f64 = (0..counts.len()).map(&expected).sum();
        let terms = counts.iter().enumerate().map(|(i, count)| {
            let want = expected(i) / total * DRAWS as f64;
            assert!(want >= 5.0, "too few draws for the test: {want} of item {i}");
            (*count as f64 - want).powi(2) / want
        });
        let chi_square: f64 = terms.sum();
        // Wilson and Hilferty: the cube root of chi-square is about normal.
        let freedom = (counts.len() - 1) as f64;
        let part = 2.0 / (9.0 * freedom);
        let z = ((chi_square / freedom).cbrt() - (1.0 - part)) / part.sqrt();
        assert!(z < 6.0, "chi-square {chi_square} with {freedom} degrees of freedom: z = {z}");
    }

    #[test]
    fn uniform_and_hotspot_are_what_they_say() {
        let seed = seed();
        fits(&drawn("uniform", 1000, seed), |_| 1.0);
        fits(&drawn("hotspot", 1000, seed), |i| if i < 200 { 0.8 / 200.0 } else { 0.2 / 800.0 });
        let hot = "hotspot:keys=0.01,operations=0.5";
        fits(&drawn(hot, 1000, seed), |i| if i < 10 { 0.5 / 10.0 } else { 0.5 / 990.0 });
        fits(&drawn("hotspot:keys=1,operations=0.1", 100, seed), |_| 1.0);
        assert_eq!(drawn("hotspot:keys=0,operations=1", 100, seed)[0], DRAWS as u64);
    }

    #[test]
    fn exponential_falls_by_the_same_factor_from_key_to_key() {
        let seed = seed();
        // One half is left after ten keys of 100.
        let steep = drawn("exponential:keys=0.1,operations=0.5", 100, seed);
        fits(&steep, |i| 0.5_f64.powf((99 - i) as f64 / 10.0));
        let usual = drawn("exponential", 700, seed);
        fits(&usual, |i| 0.05_f64.powf((699 - i) as f64 / 600.0));
        let newest: u64 = usual[100..].iter().sum();
        // 95 % of what an endless law has, of which it has 97 %.
        let part = newest as f64 / DRAWS as f64;
        assert!((0.97..0.99).contains(&part), "{part}");
        let lowest = drawn("exponential:keys=0.000001,operations=0.01", 100, seed);
        assert_eq!(lowest[99], DRAWS as u64);
    }

    #[test]
    fn zipfian_and_latest_follow_zipfs_law() {
        let seed = seed();
        for theta in ["0", "0.5", "0.99", "1", "1.2"] {
            let power: f64 = theta.parse().unwrap();
            let plain = format!("zipfian:theta={theta},scrambled=false");
            fits(&drawn(&plain, 300, seed), |i| ((i + 1) as f64).powf(-power));
            let latest = format!("latest:theta={theta}");
            fits(&drawn(&latest, 300, seed), |i| ((300 - i) as f64).powf(-power));
            // Scrambled: the same counts, each at another item.
            let mut order: Vec<u32> = (0..300).collect();
            Rng::new(seed, stream::SCRAMBLE).shuffle(&mut order);
            let scrambled = drawn(&format!("zipfian:theta={theta}"), 300, seed);
            let by_rank: Vec<u64> = order.iter().map(|item| scrambled[*item as usize]).collect();
            fits(&by_rank, |i| ((i + 1) as f64).powf(-power));
        }
    }

    #[test]
    fn sequences_go_through_the_keys_in_order() {
        let records = records(50);
        let key = |item: usize| records.key(item).to_vec();
        let mut rng = Rng::new(seed(), stream::MIXED);
        let mut drawn = |text: &str, count: usize| {
            let mut chooser = Chooser::new(text.parse().unwrap(), &records, 1);
            (0..count).map(|_| key(chooser.next(&mut rng, 50))).collect::<Vec<_>>()
        };
        let ascending = drawn("ascending", 100);
        assert!(ascending[..50].is_sorted() && ascending[..50] == ascending[50..]);
        let mut descending = drawn("descending", 50);
        descending.reverse();
        assert_eq!(descending, ascending[..50]);
        let follows = |pair: &[Vec<u8>]| {
            let at = ascending.iter().position(|key| *key == pair[0]).unwrap();
            ascending[(at + 1) % 50] == pair[1]
        };
        for run in drawn("clustered:run=7", 700).chunks(7) {
            assert!(run.windows(2).all(follows));
        }
        let starts: std::collections::HashSet<_> =
            drawn("clustered:run=7", 7000).into_iter().step_by(7).collect();
        assert_eq!(starts.len(), 50, "a run may begin anywhere");
    }

    #[test]
    fn more_items_are_drawn_as_they_come() {
        let records = records(10);
        let seed = seed();
        for text in ["uniform", "zipfian", "latest", "hotspot", "exponential"] {
            let mut chooser = Chooser::new(text.parse().unwrap(), &records, seed);
            let mut rng = Rng::new(seed, stream::MIXED);
            for items in [10, 11, 20] {
                let mut seen = vec![false; items];
                (0..20_000).for_each(|_| seen[chooser.next(&mut rng, items)] = true);
                assert!(seen.iter().all(|seen| *seen), "{text} of {items}");
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_items_in_every_version() {
        let drawn = |text: &str| {
            let mut chooser = Chooser::new(text.parse().unwrap(), &records(1000), 7);
            let mut rng = Rng::new(7, stream::MIXED);
            (0..6).map(|_| chooser.next(&mut rng, 1000)).collect::<Vec<_>>()
        };
        let all = "uniform zipfian latest hotspot clustered:run=3 exponential";
        assert_eq!(
            all.split(' ').map(drawn).collect::<Vec<_>>(),
            [
                [411, 831, 893, 275, 453, 390],
                [116, 916, 872, 914, 319, 192],
                [989, 557, 985, 654, 999, 993],
                [166, 420, 78, 550, 120, 52],
                [569, 313, 394, 532, 101, 869],
                [854, 530, 424, 910, 834, 863],
            ]
        );
    }

    #[test]
    fn what_is_written_is_read_and_nonsense_is_refused() {
        let all = "uniform zipfian zipfian:theta=0.5,scrambled=false latest:theta=2 hotspot ascending \
                   hotspot:keys=0.1,operations=1 exponential exponential:keys=0.5,operations=0.9 \
                   descending clustered clustered:run=8";
        for text in all.split(' ') {
            let found: Distribution = text.parse().unwrap();
            assert_eq!(found.to_string().parse::<Distribution>().unwrap(), found, "{text}");
        }
        for (text, what) in [
            ("exponential:operations=1", "operations is a number from 0.01 to 0.999999, not 1"),
            ("zipf", "there is no distribution 'zipf'; there are uniform"),
            ("", "there is no distribution ''"),
            ("uniform:theta=1", "uniform has no parameter 'theta'"),
            ("zipfian:theta=-1", "theta is a number from 0 to 20, not -1"),
            ("zipfian:theta=NaN", "not NaN"),
            ("latest:theta=1e308", "not 1e308"),
            ("zipfian:theta=1,theta=2", "or it is given twice"),
            ("zipfian:scrambled=yes", "scrambled is true or false, not 'yes'"),
            ("hotspot:keys", "'keys' is no parameter: say NAME=VALUE"),
            ("hotspot:keys=1.5", "keys is a number from 0 to 1, not 1.5"),
            ("clustered:run=0", "run must be at least 1"),
        ] {
            let refused = text.parse::<Distribution>().unwrap_err().to_string();
            assert!(refused.contains(what), "{text}: {refused}");
        }
    }
}
