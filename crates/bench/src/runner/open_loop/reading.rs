//! What reads a store at a rate, of one or of one of several: single lookups, lookups in batches, ranges.
//!
//! The rate of batches is that of their keys, so that it asks of a store what the same rate of single lookups
//! asks: a call of 32 keys comes as often as 32 of these, begins when its first key is due, and is the latency
//! of each. A range is one operation, however many records it has.
//!
//! Invariant: what the answers add up to is compared with the data.

use super::super::passes::Total;
use super::{AtRate, Pace, Rate, Share};
use crate::driver::Store;
use crate::measure::Latencies;
use crate::workload::{Phase, Queries, Ranges, Records};
use credenza::Result;

/// What one call reads.
#[derive(Clone, Copy)]
pub(in super::super) enum Asked<'a> {
    Key(&'a Queries),
    /// So many keys at once.
    Keys(&'a Queries, usize),
    Range(&'a Ranges),
}

impl<'a> Asked<'a> {
    /// What a phase of lookups asks for, `batch` keys at once where it does so.
    pub(in super::super) fn of(phase: Phase, queries: &'a Queries, batch: usize) -> Asked<'a> {
        match phase.is_batched() {
            true => Asked::Keys(queries, batch),
            false => Asked::Key(queries),
        }
    }

    /// How many operations of the rate a call has, but for the last one.
    fn each(&self) -> usize {
        match self {
            Asked::Keys(_, batch) => *batch,
            Asked::Key(_) | Asked::Range(_) => 1,
        }
    }

    /// What calls are given, one key after the other.
    fn keys(&self) -> &Queries {
        match self {
            Asked::Key(queries) | Asked::Keys(queries, _) => queries,
            Asked::Range(ranges) => ranges.starts(),
        }
    }

    /// How many calls there are to be made at most.
    fn calls(&self) -> usize {
        self.keys().len().div_ceil(self.each())
    }

    /// How many operations call `i` has.
    fn operations(&self, i: usize) -> usize {
        (self.keys().len() - i * self.each()).min(self.each())
    }

    /// The name of what is asked for in results over time.
    fn name(&self) -> &'static str {
        match self {
            Asked::Key(_) | Asked::Keys(..) => "get",
            Asked::Range(_) => "range",
        }
    }

    /// What the data say that these calls add up to.
    fn expected(&self, records: &Records, calls: impl Iterator<Item = usize>) -> Total {
        match self {
            Asked::Key(queries) | Asked::Keys(queries, _) => {
                let keys = |i| i * self.each()..i * self.each() + self.operations(i);
                Total::expected_of(queries, records, calls.flat_map(keys))
            }
            Asked::Range(ranges) => Total::of_these_ranges(ranges, records, calls),
        }
    }
}

/// Calls at a rate: of one who makes them alone, or of one of several.
pub(in super::super) struct Reads<'a> {
    pub(in super::super) rate: &'a Rate,
    pub(in super::super) share: Share,
    pub(in super::super) asked: Asked<'a>,
    pub(in super::super) records: &'a Records,
    pub(in super::super) seed: u64,
    pub(in super::super) clock_ns: f64,
    /// Whether somebody changes the values meanwhile.
    pub(in super::super) beside: bool,
}

impl Reads<'_> {
    /// Makes one's share of the first calls, when all is prepared and `ready` has returned.
    pub(in super::super) fn run<S: Store>(
        &self,
        store: &mut S,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<AtRate> {
        /// After so many calls a store beside which another is open for changes looks what is new.
        const REFRESHES_EVERY: usize = 1024;
        let &Reads { share, asked, records, beside, .. } = self;
        let rate = self.rate.of_calls(asked.each());
        let count = rate.operations(asked.calls());
        let (mut total, mut latencies) = (Total::default(), Latencies::new(0.0));
        let mut pace = Pace::new(&rate, share, count, self.seed, self.clock_ns);
        // Who has many keys to ask for at once has them in a list already.
        let keys: Vec<&[u8]> = asked.keys().iter().take(count * asked.each()).collect();
        ready()?;
        pace.begin();
        for (i, keys) in share.take(keys.chunks(asked.each())).enumerate() {
            pace.wait(i);
            if beside && i.is_multiple_of(REFRESHES_EVERY) {
                store.refresh()?;
            }
            match asked {
                Asked::Key(_) => _ = store.get(keys[0], |value| total.add(value))?,
                Asked::Keys(..) => store.get_many(keys, |_, found| {
                    found.into_iter().for_each(|value| total.add(value));
                })?,
                Asked::Range(_) => store.range(keys[0], Ranges::RECORDS, |_, v| total.add(v))?,
            }
            latencies.record_of(pace.since(i), keys.len() as u64);
        }
        let ended = pace.end();
        let operations = || share.take(0..count).map(|i| asked.operations(i) as u64);
        let over_time = pace.calls_over_time(operations().map(|n| (asked.name(), n)));
        let expected = asked.expected(records, share.take(0..count));
        let is_right = if beside { total.found == expected.found } else { total == expected };
        let wrong = (!is_right)
            .then(|| format!("at a rate, what was read adds up to {total:?}, not {expected:?}"));
        let (ops, latencies) = (operations().sum(), latencies.counts());
        Ok(AtRate { ops, latencies, over_time, wrong, ..ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_operations_of_all_keys_and_no_more() {
        let queries = queries(70);
        let keys = Asked::Keys(&queries, 32);
        assert_eq!((keys.each(), keys.calls()), (32, 3));
        assert_eq!([0, 1, 2].map(|i| keys.operations(i)), [32, 32, 6]);
        let whole = Asked::Keys(&queries, 70);
        assert_eq!((whole.calls(), whole.operations(0)), (1, 70));
        let single = Asked::Key(&queries);
        assert_eq!((single.each(), single.calls(), single.operations(69)), (1, 70, 1));
    }

    #[test]
    fn what_calls_add_up_to_is_that_of_their_keys() {
        let (records, queries) = (records(70), queries(70));
        let single =
            |numbers: &[usize]| Asked::Key(&queries).expected(&records, numbers.iter().copied());
        let batches = |numbers: &[usize]| {
            Asked::Keys(&queries, 32).expected(&records, numbers.iter().copied())
        };
        let numbers = |of: std::ops::Range<usize>| of.collect::<Vec<_>>();
        assert!(batches(&[0, 1, 2]) == single(&numbers(0..70)));
        assert!(batches(&[2]) == single(&numbers(64..70)));
        assert!(batches(&[0, 1]) != single(&numbers(0..63)));
    }

    fn records(count: u32) -> Records {
        let mut records = Records::default();
        for i in 0..count {
            records.push(&i.to_le_bytes(), &vec![1; i as usize]).unwrap();
        }
        records
    }

    /// Of each of these records.
    fn queries(count: u32) -> Queries {
        let mut queries = Queries::default();
        (0..count).for_each(|i| queries.push(&i.to_le_bytes(), i));
        queries
    }
}
