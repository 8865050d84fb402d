//! The order in which records come into a store, one after the other.
//!
//! An order is made once, in memory, before anything is measured: the records of the data are put into it, and so
//! are the keys that mixes insert, and whatever stores all of them goes from the first to the last. So every
//! store does the same, `latest` is what came last, and no clock runs meanwhile.
//!
//! Invariants: each record comes once, so that the content is that of the data, whatever the order. A seed
//! gives the same order in every version. The keys that zipfian lookups like best are the same in every order.

use super::distribution::{self, Distribution};
use super::generate::stream;
use super::parameters::Parameters;
use super::ranges::in_order;
use super::records::Records;
use crate::rng::Rng;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An order of records. In options and workload files it is text, as a [`Distribution`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum InsertOrder {
    /// As the data have them.
    #[default]
    Given,
    Random,
    /// By their keys.
    Ascending,
    Descending,
    /// Runs of so many neighbours in the order of the keys, which come in a random one.
    Clustered {
        run: usize,
    },
    /// As zipfian lookups would ask for them first; who is asked for again has come.
    Zipfian {
        theta: f64,
        scrambled: bool,
    },
}

impl InsertOrder {
    const NAMES: [&str; 6] = ["given", "random", "ascending", "descending", "clustered", "zipfian"];

    /// The name of the usual order in results.
    pub(crate) const GIVEN: &str = InsertOrder::NAMES[0];

    /// The order in which this one draws the keys, if that is one.
    fn of(distribution: Distribution) -> Option<InsertOrder> {
        Some(match distribution {
            Distribution::Ascending => InsertOrder::Ascending,
            Distribution::Descending => InsertOrder::Descending,
            Distribution::Clustered { run } => InsertOrder::Clustered { run },
            Distribution::Zipfian { theta, scrambled } => InsertOrder::Zipfian { theta, scrambled },
            _ => return None,
        })
    }

    /// The records of the data in this order.
    pub(super) fn of_data(self, records: Records, seed: u64) -> Result<Records> {
        match self {
            InsertOrder::Given => Ok(records),
            _ => records.in_other_order(&self.numbers(&records, seed, stream::INSERT_ORDER)),
        }
    }

    /// The keys that mixes insert in this order.
    pub(super) fn of_fresh(self, fresh: Records, seed: u64) -> Result<Records> {
        match self {
            InsertOrder::Given => Ok(fresh),
            _ => fresh.picked(&self.numbers(&fresh, seed, stream::FRESH_ORDER)),
        }
    }

    /// The numbers of all records in this order.
    fn numbers(self, records: &Records, seed: u64, stream: u64) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..records.len() as u32).collect();
        let mut rng = Rng::new(seed, stream);
        match self {
            InsertOrder::Given => numbers,
            InsertOrder::Random => {
                rng.shuffle(&mut numbers);
                numbers
            }
            InsertOrder::Ascending => in_order(records),
            InsertOrder::Descending => in_order(records).into_iter().rev().collect(),
            InsertOrder::Clustered { run } => {
                let ascending = in_order(records);
                let mut runs: Vec<&[u32]> = ascending.chunks(run).collect();
                rng.shuffle(&mut runs);
                runs.concat()
            }
            InsertOrder::Zipfian { theta, scrambled: false } => {
                as_first_drawn(numbers, theta, &mut rng)
            }
            InsertOrder::Zipfian { theta, scrambled: true } => {
                as_first_drawn(distribution::dealt_ranks(records, seed), theta, &mut rng)
            }
        }
    }
}

/// The items of these ranks in the order in which Zipf's law draws each for the first time. To draw until the
/// last has come would take for ever: they come in the same order if each waits for a time of its own, drawn
/// from the exponential distribution whose rate is how often the item is drawn.
fn as_first_drawn(ranks: Vec<u32>, theta: f64, rng: &mut Rng) -> Vec<u32> {
    let wait = |rank: u32, rng: &mut Rng| -(1.0 - rng.unit()).ln() * f64::from(rank).powf(theta);
    let mut waits: Vec<(f64, u32)> =
        ranks.into_iter().zip(1..).map(|(item, rank)| (wait(rank, rng), item)).collect();
    waits.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    waits.into_iter().map(|(_, item)| item).collect()
}

impl fmt::Display for InsertOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drawn = match *self {
            InsertOrder::Given => return f.write_str(InsertOrder::GIVEN),
            InsertOrder::Random => return f.write_str("random"),
            InsertOrder::Ascending => Distribution::Ascending,
            InsertOrder::Descending => Distribution::Descending,
            InsertOrder::Clustered { run } => Distribution::Clustered { run },
            InsertOrder::Zipfian { theta, scrambled } => Distribution::Zipfian { theta, scrambled },
        };
        drawn.fmt(f)
    }
}

impl From<InsertOrder> for String {
    fn from(order: InsertOrder) -> String {
        order.to_string()
    }
}

impl TryFrom<String> for InsertOrder {
    type Error = Error;

    fn try_from(text: String) -> Result<InsertOrder> {
        text.parse()
    }
}

impl FromStr for InsertOrder {
    type Err = Error;

    fn from_str(text: &str) -> Result<InsertOrder> {
        let (name, parameters) = Parameters::split(text);
        let unknown = || {
            let all = InsertOrder::NAMES.join(", ");
            Error::invalid(format!("there is no order '{name}' to insert in; there are {all}"))
        };
        match name {
            "given" | "random" => {
                Parameters::of(name, parameters)?.all_known()?;
                Ok(if name == "given" { InsertOrder::Given } else { InsertOrder::Random })
            }
            _ if !InsertOrder::NAMES.contains(&name) => Err(unknown()),
            _ => InsertOrder::of(text.parse()?).ok_or_else(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::changes::Script;
    use super::super::distribution::Chooser;
    use super::super::mix::MixTable;
    use super::super::{Action, Inputs, Workload};
    use super::*;
    use std::collections::HashMap;

    const ALL: [&str; 7] = [
        "random",
        "ascending",
        "descending",
        "clustered",
        "clustered:run=7",
        "zipfian",
        "zipfian:theta=0.8,scrambled=false",
    ];

    /// Records whose keys are in no order.
    fn records(count: u32) -> Records {
        let mut records = Records::default();
        for i in 0..count {
            let key = i.wrapping_mul(2_654_435_761).to_le_bytes();
            records.push(&key, format!("value {i}").as_bytes()).unwrap();
        }
        records
    }

    fn ordered(text: &str, count: u32, seed: u64) -> Records {
        text.parse::<InsertOrder>().unwrap().of_data(records(count), seed).unwrap()
    }

    fn keys(records: &Records) -> Vec<&[u8]> {
        records.iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn every_order_is_of_the_same_records_each_once_and_that_of_its_seed() {
        let given = records(1000);
        for text in ALL {
            let one = ordered(text, 1000, 7);
            assert_eq!(one.content(), given.content(), "{text}");
            assert_ne!(keys(&one), keys(&given), "{text}");
            assert_eq!(keys(&one), keys(&ordered(text, 1000, 7)), "{text}");
            let is_by_seed = !text.ends_with("scending");
            assert_eq!(keys(&one) != keys(&ordered(text, 1000, 8)), is_by_seed, "{text}");
        }
        assert_eq!(keys(&ordered("given", 1000, 7)), keys(&given));
        for text in ALL {
            assert_eq!(ordered(text, 1, 7).len(), 1, "{text}");
        }
    }

    #[test]
    fn keys_ascend_descend_and_come_in_runs_of_neighbours() {
        let up = ordered("ascending", 100, 1);
        let ascending = keys(&up);
        assert!(ascending.is_sorted());
        let down = ordered("descending", 100, 1);
        assert!(keys(&down).iter().rev().eq(ascending.iter()));
        let clustered = ordered("clustered:run=7", 100, 1);
        let place = |key: &[u8]| ascending.iter().position(|other| *other == key).unwrap();
        let places: Vec<usize> = keys(&clustered).into_iter().map(place).collect();
        let runs: Vec<&[usize]> = places.chunk_by(|one, next| one + 1 == *next).collect();
        // 14 of seven and one of two, some of which may have come behind their neighbour.
        assert!((8..=15).contains(&runs.len()), "{runs:?}");
        assert!(runs.iter().all(|run| run[0].is_multiple_of(7)), "{runs:?}");
        assert!(!places.is_sorted());
        assert_eq!(keys(&ordered("clustered:run=100", 100, 1)), ascending);
    }

    /// Danger: the order is drawn, but not as the law says.
    #[test]
    fn zipfian_is_the_order_of_first_draws() {
        const TIMES: u64 = 20_000;
        let mut waits = [0_u64; 3];
        let mut law = [0_u64; 3];
        let records = records(3);
        for seed in 0..TIMES {
            let text = "zipfian:theta=1,scrambled=false";
            let order: InsertOrder = text.parse().unwrap();
            let first = |items: Vec<u32>| items.iter().take(2).fold(0, |n, item| n * 3 + item);
            // Which item is first, and then how the other two come: 0 1 2 and 0 2 1 are one and the other.
            let numbers = order.numbers(&records, seed, stream::INSERT_ORDER);
            let mut chooser = Chooser::new(text.parse().unwrap(), &records, seed);
            let (mut rng, mut drawn) = (Rng::new(seed, stream::MIXED), Vec::new());
            while drawn.len() < 3 {
                let item = chooser.next(&mut rng, 3) as u32;
                if !drawn.contains(&item) {
                    drawn.push(item);
                }
            }
            for (counts, items) in [(&mut waits, numbers), (&mut law, drawn)] {
                match first(items) {
                    1 => counts[0] += 1,
                    2 => counts[1] += 1,
                    _ => counts[2] += 1,
                }
            }
        }
        // Weights 6, 3 and 2 of 11: the first first, then the second of what is left.
        let expected = [6.0 / 11.0 * 3.0 / 5.0, 6.0 / 11.0 * 2.0 / 5.0, 5.0 / 11.0];
        for counts in [waits, law] {
            for (count, expected) in counts.into_iter().zip(expected) {
                let part = count as f64 / TIMES as f64;
                assert!((part - expected).abs() < 0.02, "{counts:?}: {part}, not {expected}");
            }
        }
    }

    /// Danger: `zipfian` and `random` are the same, as what comes first is not what is asked for most.
    #[test]
    fn the_keys_that_lookups_like_best_are_the_same_in_every_order_and_come_early_in_theirs() {
        const COUNT: u32 = 1000;
        let drawn = |records: &Records| {
            let mut chooser = Chooser::new(Distribution::ZIPFIAN, records, 7);
            let mut rng = Rng::new(7, stream::MIXED);
            let item = |_| records.key(chooser.next(&mut rng, COUNT as usize)).to_vec();
            (0..200).map(item).collect::<Vec<_>>()
        };
        let asked = drawn(&records(COUNT));
        for text in ALL {
            assert_eq!(drawn(&ordered(text, COUNT, 7)), asked, "{text}");
        }
        let mean_place = |text: &str| {
            let records = ordered(text, COUNT, 7);
            let places: HashMap<&[u8], usize> = keys(&records).into_iter().zip(0..).collect();
            asked.iter().map(|key| places[key.as_slice()]).sum::<usize>() / asked.len()
        };
        let (zipfian, random) = (mean_place("zipfian"), mean_place("random"));
        assert!(zipfian < 300 && random > 350, "{zipfian}, {random}");
    }

    #[test]
    fn mixes_insert_their_keys_in_the_order_and_all_that_is_prepared_goes_by_it() {
        let found = Workload::find("tokens").unwrap();
        let table: MixTable = toml::from_str("get = 1\ninsert = 3").unwrap();
        let mixes = table.mix(Distribution::Uniform).unwrap().into();
        let (records, gets) = (Some(200), 300);
        let insert_order = InsertOrder::Descending;
        let workload = Workload { records, gets, mixes, insert_order, ..found };
        let (inputs, _) = Inputs::prepare(&workload).unwrap();
        let descends = |all: &[&[u8]]| all.windows(2).all(|pair| pair[0] > pair[1]);
        assert!(descends(&keys(&inputs.records)));
        let path = tempfile::NamedTempFile::new().unwrap();
        inputs.save(path.path()).unwrap();
        let inputs = Inputs::load(path.path()).unwrap();
        assert!(descends(&keys(&inputs.records)) && inputs.records.are_in_other_order());
        let (mixes, fresh) = (&workload.mixes, &inputs.fresh);
        let scripts = mixes.scripts(mixes.last(), &inputs.records, fresh, gets, workload.seed);
        let steps = scripts.iter().flat_map(Script::iter);
        let inserted: Vec<&[u8]> = steps
            .filter(|(step, ..)| step.action == Action::Insert)
            .map(|(_, key, _)| key)
            .collect();
        assert!(descends(&inserted) && inserted.len() > 150, "{}", inserted.len());
        // Lookups still find what they must find.
        for (i, key) in inputs.queries.hit.iter().enumerate() {
            assert_eq!(inputs.queries.hit.expected(i).map(|i| inputs.records.key(i)), Some(key));
        }
    }

    #[test]
    fn a_seed_gives_the_same_order_in_every_version() {
        let first = |text: &str| {
            let order: InsertOrder = text.parse().unwrap();
            order.numbers(&records(1000), 7, stream::INSERT_ORDER)[..4].to_vec()
        };
        assert_eq!(
            ["random", "clustered:run=2", "zipfian"].map(first),
            [[328, 651, 91, 665], [973, 717, 549, 118], [504, 17, 390, 872]]
        );
    }

    #[test]
    fn what_is_written_is_read_and_nonsense_is_refused() {
        for text in ALL.into_iter().chain(["given"]) {
            let order: InsertOrder = text.parse().unwrap();
            assert_eq!(order.to_string().parse::<InsertOrder>().unwrap(), order, "{text}");
        }
        assert_eq!(InsertOrder::default().to_string(), InsertOrder::GIVEN);
        for (text, what) in [
            ("uniform", "there is no order 'uniform' to insert in; there are given, random, asc"),
            ("latest", "there is no order 'latest'"),
            ("", "there is no order ''"),
            ("random:run=3", "random has no parameter 'run'"),
            ("descending:run=3", "descending has no parameter 'run'"),
            ("clustered:run=0", "run must be at least 1"),
            ("zipfian:theta=-1", "theta is a number from 0 to 20"),
        ] {
            let refused = text.parse::<InsertOrder>().unwrap_err().to_string();
            assert!(refused.contains(what), "{text}: {refused}");
        }
    }
}
