//! Operations at a rate: each has a time at which it is to start, whatever became of those before it.
//!
//! A loop that starts an operation when the last one has ended (a closed loop) stops asking while a
//! store stalls: one stall is one slow operation, and none of those that would have come meanwhile. Here
//! the latency of an operation counts from when it was to start, so that each of these has its part of
//! the stall. Who does the operations does one at a time: while one waits for the store, later ones wait
//! in line, as in front of a server. Several (see [`super::together`]) have the schedule dealt to them, so that
//! all together have the rate that is asked for, and the operations of one alone: in turn, or, of a mix, by
//! the keys of the operations.
//!
//! Here are the schedule and the clock; [`reading`] has what reads a store, [`changing`] what changes it.

pub(super) mod changing;
pub(super) mod reading;

use super::changes::SYNCED_OPERATIONS;
use super::mixed::{self, StepLatencies};
use crate::measure::timeline::Timeline;
use crate::measure::{Latencies, wait_until};
use crate::result::over_time::OverTime;
use crate::rng::Rng;
use crate::workload::generate::stream;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
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
    pub(super) fn take<T>(self, all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
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
    pub(super) fn of_all<'a>(shares: impl Iterator<Item = &'a AtRate> + Clone) -> AtRate {
        let (mut all, mut latencies) = (AtRate::default(), Latencies::new(0.0));
        let of_kinds = mixed::merged(shares.clone().map(|share| &share.operation_latencies));
        for share in shares {
            all.ops += share.ops;
            all.scheduled_seconds = all.scheduled_seconds.max(share.scheduled_seconds);
            all.seconds = all.seconds.max(share.seconds);
            latencies.merge(&share.latencies);
            all.wrong = all.wrong.or_else(|| share.wrong.clone());
        }
        let operation_latencies = mixed::counts(of_kinds);
        AtRate { latencies: latencies.counts(), operation_latencies, ..all }
    }

    /// Whether the store was where it was to be in the end, give or take 1 % and a millisecond.
    pub(crate) fn kept_up(&self) -> bool {
        kept_up(self.seconds, self.scheduled_seconds)
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }
}

/// Whether what took so long ended at most 1 % and a millisecond later than was planned.
pub(crate) fn kept_up(seconds: f64, scheduled_seconds: f64) -> bool {
    seconds <= scheduled_seconds * 1.01 + 0.001
}

impl Rate {
    /// Whether an operation is to be started within the time that was asked for.
    pub(crate) fn begins(&self, seed: u64) -> bool {
        let first = self.starts(1, seed).first().map_or(0.0, |ns| *ns as f64 / 1e9);
        self.per_second * self.seconds >= 1.0 && first <= self.seconds
    }

    /// That of calls which have so many of the operations each, all of which begin with the call.
    pub(crate) fn of_calls(&self, each: usize) -> Rate {
        Rate { per_second: self.per_second / each.max(1) as f64, ..*self }
    }

    /// How many of `most` operations are to be started.
    pub(super) fn operations(&self, most: usize) -> usize {
        let wanted = (self.per_second * self.seconds).ceil().max(1.0);
        if wanted < most as f64 { wanted as usize } else { most }
    }

    /// The same of changes that are each brought to the disk, by so many at once. For each second that was
    /// asked for each has as many as `insert-sync` without a rate: a disk that is much too slow for
    /// the rate does not take hours to show it.
    pub(super) fn changes(&self, most: usize, at_once: usize) -> usize {
        let of_all = SYNCED_OPERATIONS as f64 * self.seconds.max(1.0) * at_once as f64;
        self.operations(most.min(of_all as usize))
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

/// The time of a run, in nanoseconds from its beginning: the machine's, or one that tests make up.
trait Time {
    fn begin(&mut self);

    fn now(&self) -> u64;

    /// Waits until then; not at all when that is over.
    fn wait_until(&self, then: u64);
}

/// The machine's.
struct Clock {
    begun: Instant,
    /// Whether others have to have the processor while this one waits.
    yields: bool,
}

impl Time for Clock {
    fn begin(&mut self) {
        self.begun = Instant::now();
    }

    #[inline]
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[inline]
    fn wait_until(&self, then: u64) {
        wait_until(self.begun + Duration::from_nanos(then), self.yields);
    }
}

/// Where a run is in its schedule.
struct Pace<T> {
    starts: Vec<u64>,
    /// What each took from then on: its memory is there before the first operation.
    took: Vec<u64>,
    clock_ns: u64,
    time: T,
}

impl Pace<Clock> {
    /// `count` operations of all, of which a share is one's own.
    fn new(rate: &Rate, share: Share, count: usize, seed: u64, clock_ns: f64) -> Pace<Clock> {
        let starts = share.take(rate.starts(count, seed).into_iter()).collect();
        Pace::by_clock(starts, clock_ns, share.of)
    }

    /// Of one of so many who do a schedule together, who has these starts of it.
    fn by_clock(starts: Vec<u64>, clock_ns: f64, of: usize) -> Pace<Clock> {
        Pace::of(starts, clock_ns, Clock { begun: Instant::now(), yields: of > 1 })
    }
}

impl<T: Time> Pace<T> {
    fn of(starts: Vec<u64>, clock_ns: f64, time: T) -> Pace<T> {
        let (took, clock_ns) = (vec![u64::MAX; starts.len()], clock_ns.round() as u64);
        Pace { starts, took, clock_ns, time }
    }

    fn begin(&mut self) {
        self.time.begin();
    }

    /// Waits until operation `i` is to start; not at all when that is over.
    #[inline]
    fn wait(&self, i: usize) {
        self.time.wait_until(self.starts[i]);
    }

    /// How long ago operation `i`, which has ended, was to start.
    #[inline]
    fn since(&mut self, i: usize) -> u64 {
        let ns = self.time.now().saturating_sub(self.starts[i]).saturating_sub(self.clock_ns);
        self.took[i] = ns;
        ns
    }

    /// All operations, of these names, over the time of the run.
    fn over_time(&self, names: impl Iterator<Item = &'static str>) -> Option<OverTime> {
        self.calls_over_time(names.map(|name| (name, 1)))
    }

    /// Calls over the time of the run, each with the name and the number of the operations that it has.
    fn calls_over_time(
        &self,
        calls: impl Iterator<Item = (&'static str, u64)>,
    ) -> Option<OverTime> {
        let mut timeline = Timeline::new(0.0);
        for ((start, took), (name, count)) in self.starts.iter().zip(&self.took).zip(calls) {
            timeline.add_together(name, start.saturating_add(*took), *took, count);
        }
        timeline.finish()
    }

    /// What came of it, all operations having ended.
    fn end(&self) -> AtRate {
        let last = self.starts.last().copied().unwrap_or(0);
        AtRate {
            ops: self.starts.len() as u64,
            scheduled_seconds: last as f64 / 1e9,
            seconds: self.time.now() as f64 / 1e9,
            ..AtRate::default()
        }
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
        // Of changes that wait for a disk so many for each thread and second.
        assert_eq!(rate(100.0, Arrivals::Even).changes(1000, 1), 200);
        assert_eq!(rate(1e300, Arrivals::Even).changes(50, 1), 50);
        assert_eq!(rate(1e300, Arrivals::Even).changes(1 << 30, 1), 2 * SYNCED_OPERATIONS);
        assert_eq!(rate(1e300, Arrivals::Even).changes(1 << 30, 8), 16 * SYNCED_OPERATIONS);
        let short = Rate { seconds: 0.001, ..rate(1e300, Arrivals::Even) };
        assert_eq!(short.changes(1 << 30, 3), 3 * SYNCED_OPERATIONS);
    }

    #[test]
    fn a_rate_begins_if_its_first_operation_is_within_the_time() {
        for arrivals in [Arrivals::Even, Arrivals::Poisson] {
            assert!(rate(100.0, arrivals).begins(1));
            assert!(!rate(0.49, arrivals).begins(1), "less than one operation in two seconds");
        }
        assert!(rate(0.5, Arrivals::Even).begins(1));
        // By some seeds the first comes too late, as often as it does.
        let late = (0..1000).filter(|seed| !rate(0.5, Arrivals::Poisson).begins(*seed)).count();
        assert!((300..440).contains(&late), "{late}");
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
            operation_latencies: [
                (format!("of {ops}"), vec![(latency, ops)]),
                ("get".to_owned(), vec![(1, 2)]),
            ]
            .into(),
            wrong: wrong.map(str::to_owned),
            ..AtRate::default()
        };
        let all = AtRate::of_all([of(10, 1.0, 5, None), of(9, 2.0, 7, Some("no"))].iter());
        assert_eq!((all.ops, all.wrong.as_deref()), (19, Some("no")));
        assert_eq!(all.latencies, [(5, 10), (7, 9)]);
        let kinds = [("get", vec![(1, 4)]), ("of 10", vec![(5, 10)]), ("of 9", vec![(7, 9)])];
        assert_eq!(all.operation_latencies, kinds.map(|(name, of)| (name.to_owned(), of)).into());
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
        pace.time.begun = Instant::now().checked_sub(Duration::from_millis(50)).unwrap();
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
