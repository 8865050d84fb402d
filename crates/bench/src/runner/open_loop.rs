//! Operations at a rate: each has a time at which it is to start, whatever became of those before it.
//!
//! A loop that starts an operation when the last one has ended (a closed loop) stops asking while a
//! store stalls: one stall is one slow operation, and none of those that would have come meanwhile. Here
//! the latency of an operation counts from when it was to start, so that each of these has its part of
//! the stall. Who does the operations does one at a time: while one waits for the store, later ones wait
//! in line, as in front of a server. Several (see [`super::together`]) have the schedule dealt to them in
//! turn, so that all together have the rate that is asked for, and the operations of one alone.

use super::changes::Outcome;
use super::child::Round;
use super::mixed::{Mixed, StepLatencies, do_step, in_transactions};
use super::passes::Total;
use crate::driver::{Driver, Store, Writer};
use crate::measure::Latencies;
use crate::measure::timeline::Timeline;
use crate::result::over_time::OverTime;
use crate::rng::Rng;
use crate::workload::generate::stream;
use crate::workload::{Phase, Queries, Records};
use clap::ValueEnum;
use credenza::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// How the starts of operations lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// As those of many independent users: the time between two is drawn from the exponential
    /// distribution, by the seed.
    Poisson,
    /// At equal distances.
    Even,
}

impl Arrivals {
    /// The name in results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Arrivals::Poisson => "poisson",
            Arrivals::Even => "even",
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Rate {
    /// Operations in a second.
    pub(crate) per_second: f64,
    pub(crate) arrivals: Arrivals,
    /// For how long, if the phase has so many operations.
    pub(crate) seconds: f64,
}

/// The part of a schedule that is one's own, of so many who do it together.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Share {
    pub(super) number: usize,
    pub(super) of: usize,
}

impl Share {
    /// Of one who is alone.
    pub(super) const ALL: Share = Share { number: 0, of: 1 };

    /// What is one's own of what all do.
    fn take<T>(self, all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        all.skip(self.number).step_by(self.of.max(1))
    }
}

/// What one phase of one store gave in one round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AtRate {
    pub(crate) ops: u64,
    /// When the last operation was to start, and when it had ended.
    pub(crate) scheduled_seconds: f64,
    pub(crate) seconds: f64,
    /// Latencies in nanoseconds with their counts; for `mixed` also kind by kind.
    pub(crate) latencies: Vec<(u64, u64)>,
    pub(crate) operation_latencies: StepLatencies,
    pub(crate) over_time: Option<OverTime>,
    pub(crate) wrong: Option<String>,
}

impl AtRate {
    /// What all gave who did a schedule together; over time nobody is asked for them.
    pub(super) fn of_all<'a>(shares: impl Iterator<Item = &'a AtRate>) -> AtRate {
        let (mut all, mut latencies) = (AtRate::default(), Latencies::new(0.0));
        for share in shares {
            all.ops += share.ops;
            all.scheduled_seconds = all.scheduled_seconds.max(share.scheduled_seconds);
            all.seconds = all.seconds.max(share.seconds);
            latencies.merge(&share.latencies);
            all.wrong = all.wrong.or_else(|| share.wrong.clone());
        }
        AtRate { latencies: latencies.counts(), ..all }
    }

    /// Whether the store was where it was to be in the end, give or take 1 % and a millisecond.
    pub(crate) fn kept_up(&self) -> bool {
        self.seconds <= self.scheduled_seconds * 1.01 + 0.001
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }
}

impl Rate {
    /// How many of `most` operations are to be started.
    pub(super) fn operations(&self, most: usize) -> usize {
        let wanted = (self.per_second * self.seconds).ceil().max(1.0);
        if wanted < most as f64 { wanted as usize } else { most }
    }

    /// The starts of so many operations, in nanoseconds from the beginning.
    pub(super) fn starts(&self, count: usize, seed: u64) -> Vec<u64> {
        let (apart, mut rng) = (1e9 / self.per_second, Rng::new(seed, stream::ARRIVALS));
        let mut at = 0.0;
        let mut next = |i: usize| match self.arrivals {
            Arrivals::Even => (i as f64 * apart) as u64,
            Arrivals::Poisson => {
                // The unit is below 1, so that the logarithm is finite.
                at -= (1.0 - rng.unit()).ln() * apart;
                at as u64
            }
        };
        (0..count).map(&mut next).collect()
    }
}

/// Where a run is in its schedule.
struct Pace {
    starts: Vec<u64>,
    /// What each took from then on: its memory is there before the first operation.
    took: Vec<u64>,
    begun: Instant,
    clock_ns: u64,
    /// Whether others have to have the processor while this one waits.
    yields: bool,
}

impl Pace {
    /// `count` operations of all, of which a share is one's own.
    fn new(rate: &Rate, share: Share, count: usize, seed: u64, clock_ns: f64) -> Pace {
        let starts: Vec<u64> = share.take(rate.starts(count, seed).into_iter()).collect();
        let took = vec![u64::MAX; starts.len()];
        let (clock_ns, yields) = (clock_ns.round() as u64, share.of > 1);
        Pace { starts, took, begun: Instant::now(), clock_ns, yields }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Waits until operation `i` is to start; not at all when that is over.
    #[inline]
    fn wait(&self, i: usize) {
        // The kernel wakes a sleeper late by some 60 us: the rest is spun away.
        const SLEEPS_ABOVE: u64 = 1_000_000;
        const SPINS: u64 = 500_000;
        loop {
            match self.starts[i].saturating_sub(self.now()) {
                0 => return,
                left if left > SLEEPS_ABOVE => {
                    std::thread::sleep(Duration::from_nanos(left - SPINS));
                }
                _ if self.yields => std::thread::yield_now(),
                _ => spin_loop(),
            }
        }
    }

    /// How long ago operation `i`, which has ended, was to start.
    #[inline]
    fn since(&mut self, i: usize) -> u64 {
        let ns = self.now().saturating_sub(self.starts[i]).saturating_sub(self.clock_ns);
        self.took[i] = ns;
        ns
    }

    /// All operations, of these names, over the time of the run.
    fn over_time(&self, names: impl Iterator<Item = &'static str>) -> Option<OverTime> {
        let mut timeline = Timeline::new(0.0);
        for ((start, took), name) in self.starts.iter().zip(&self.took).zip(names) {
            timeline.add(name, start.saturating_add(*took), *took);
        }
        timeline.finish()
    }

    /// What came of it, all operations having ended.
    fn end(&self) -> AtRate {
        let last = self.starts.last().copied().unwrap_or(0);
        AtRate {
            ops: self.starts.len() as u64,
            scheduled_seconds: last as f64 / 1e9,
            seconds: self.now() as f64 / 1e9,
            ..AtRate::default()
        }
    }
}

/// Lookups at a rate: of one who does them alone, or of one of several.
pub(super) struct Lookups<'a> {
    pub(super) rate: &'a Rate,
    pub(super) share: Share,
    pub(super) queries: &'a Queries,
    pub(super) records: &'a Records,
    pub(super) seed: u64,
    pub(super) clock_ns: f64,
    /// Whether somebody changes the values meanwhile.
    pub(super) beside: bool,
}

impl Lookups<'_> {
    /// Does one's share of the first keys, when all is prepared and `ready` has returned.
    pub(super) fn run<S: Store>(
        &self,
        store: &mut S,
        ready: impl FnOnce() -> Result<()>,
    ) -> Result<AtRate> {
        /// After so many a store beside which another is open for changes looks what is new.
        const REFRESHES_EVERY: usize = 1024;
        let &Lookups { rate, share, queries, records, beside, .. } = self;
        let count = rate.operations(queries.len());
        let (mut total, mut latencies) = (Total::default(), Latencies::new(0.0));
        let mut pace = Pace::new(rate, share, count, self.seed, self.clock_ns);
        ready()?;
        pace.begun = Instant::now();
        for (i, key) in share.take(queries.iter().take(count)).enumerate() {
            pace.wait(i);
            if beside && i.is_multiple_of(REFRESHES_EVERY) {
                store.refresh()?;
            }
            store.get(key, |value| total.add(value))?;
            latencies.record(pace.since(i));
        }
        let ended = pace.end();
        let over_time = pace.over_time(std::iter::repeat("get"));
        let expected = Total::expected_of(queries, records, share.take(0..count));
        let is_right = if beside { total.found == expected.found } else { total == expected };
        let wrong = (!is_right)
            .then(|| format!("at a rate, the lookups add up to {total:?}, not {expected:?}"));
        Ok(AtRate { latencies: latencies.counts(), over_time, wrong, ..ended })
    }
}

impl<D: Driver> Round<'_, D> {
    /// Does the steps at a rate, on a store of their own. What a transaction of several takes to commit
    /// delays the step behind it.
    pub(super) fn mixed_at_rate(&self, rate: &Rate, work: &Mixed<'_>) -> Result<AtRate> {
        let mut store = self.new_store(Phase::Mixed, true)?;
        let (mut outcome, mut all) = (Outcome::default(), Latencies::new(0.0));
        let mut of_kinds: BTreeMap<&str, Latencies> = BTreeMap::new();
        let (script, seed) = (work.script, self.spec.seed);
        let mut pace = Pace::new(rate, Share::ALL, script.len(), seed, self.spec.clock_ns);
        in_transactions(
            &mut store,
            script,
            work.transactions,
            |_| true,
            |store, i, step| {
                pace.wait(i);
                do_step(store, step, &mut outcome)?;
                let ns = pace.since(i);
                all.record(ns);
                let name = step.0.action.name();
                of_kinds.entry(name).or_insert_with(|| Latencies::new(0.0)).record(ns);
                Ok(())
            },
        )?;
        let ended = pace.end();
        store.close()?;
        let over_time = pace.over_time(script.iter().map(|(step, ..)| step.action.name()));
        let expected = work.outcome;
        let wrong = (outcome != expected)
            .then(|| format!("at a rate, the steps add up to {outcome:?}, not {expected:?}"));
        let operation_latencies =
            of_kinds.into_iter().map(|(name, of)| (name.to_owned(), of.counts())).collect();
        let latencies = all.counts();
        Ok(AtRate { latencies, operation_latencies, over_time, wrong, ..ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_second: f64, arrivals: Arrivals) -> Rate {
        Rate { per_second, arrivals, seconds: 2.0 }
    }

    #[test]
    fn starts_are_as_many_in_a_second_as_asked_for() {
        assert_eq!(rate(4.0, Arrivals::Even).starts(3, 1), [0, 250_000_000, 500_000_000]);
        for seed in 1..20 {
            let starts = rate(1000.0, Arrivals::Poisson).starts(10_000, seed);
            assert!(starts.is_sorted());
            let seconds = *starts.last().unwrap() as f64 / 1e9;
            // Ten standard deviations of the sum of so many.
            assert!((9.0..11.0).contains(&seconds), "seed {seed}: {seconds}");
            // An exponential distribution is longer than its mean in one case of e.
            let long = starts.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count();
            assert!((3200..4200).contains(&long), "seed {seed}: {long}");
        }
        let [one, other] = [1, 2].map(|seed| rate(9.0, Arrivals::Poisson).starts(5, seed));
        assert_eq!(one, rate(9.0, Arrivals::Poisson).starts(5, 1));
        assert_ne!(one, other);
    }

    #[test]
    fn no_more_operations_than_there_are_or_than_the_time_takes() {
        assert_eq!(rate(100.0, Arrivals::Even).operations(1000), 200);
        assert_eq!(rate(100.0, Arrivals::Even).operations(50), 50);
        assert_eq!(rate(1e-9, Arrivals::Even).operations(50), 1);
        assert_eq!(rate(1e300, Arrivals::Even).operations(50), 50);
    }

    #[test]
    fn shares_are_the_whole_schedule_together() {
        let asked = rate(1000.0, Arrivals::Poisson);
        let whole = asked.starts(1001, 3);
        let shares: Vec<Vec<u64>> = (0..4)
            .map(|number| Pace::new(&asked, Share { number, of: 4 }, 1001, 3, 0.0).starts)
            .collect();
        assert_eq!(shares.iter().map(Vec::len).collect::<Vec<_>>(), [251, 250, 250, 250]);
        assert!(shares.iter().all(|own| own.is_sorted()));
        let mut all = shares.concat();
        all.sort_unstable();
        assert_eq!(all, whole);
        // More of them than operations: who has none ends at once.
        let none = Pace::new(&asked, Share { number: 7, of: 8 }, 3, 3, 0.0);
        assert_eq!(none.end().ops, 0);
    }

    #[test]
    fn what_several_gave_is_that_of_the_slowest() {
        let of = |ops, seconds, latency, wrong: Option<&str>| AtRate {
            ops,
            scheduled_seconds: 1.0,
            seconds,
            latencies: vec![(latency, ops)],
            wrong: wrong.map(str::to_owned),
            ..AtRate::default()
        };
        let all = AtRate::of_all([of(10, 1.0, 5, None), of(9, 2.0, 7, Some("no"))].iter());
        assert_eq!((all.ops, all.wrong.as_deref()), (19, Some("no")));
        assert_eq!(all.latencies, [(5, 10), (7, 9)]);
        assert!(!all.kept_up() && (all.per_second() - 9.5).abs() < 1e-9);
        assert!(AtRate::of_all([of(10, 1.0, 5, None)].iter()).kept_up());
    }

    /// A stall of 30 intended starts is in the latencies of all of them, and a closed loop would have
    /// seen one of them.
    #[test]
    fn a_stall_delays_all_that_were_to_start_meanwhile() {
        let asked = rate(1000.0, Arrivals::Even);
        let mut pace = Pace::new(&asked, Share::ALL, 100, 1, 0.0);
        // The clock is 50 ms further than the schedule: nobody waits, and all are late.
        pace.begun = Instant::now().checked_sub(Duration::from_millis(50)).unwrap();
        let late: Vec<u64> = (0..30)
            .map(|i| {
                pace.wait(i);
                pace.since(i)
            })
            .collect();
        for (i, ns) in late.iter().enumerate() {
            assert!(*ns >= 50_000_000 - i as u64 * 1_000_000, "{i}: {ns}");
        }
        pace.wait(99);
        assert!(pace.end().seconds >= 0.099);
        let took = |seconds| AtRate { scheduled_seconds: 1.0, seconds, ..AtRate::default() };
        assert!(took(1.005).kept_up() && !took(1.1).kept_up());
    }
}
