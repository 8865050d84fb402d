//! Operations over the time of a run: a histogram of latencies for each stretch of it.
//!
//! How long a run will be is not known when it begins: slots are short first, and whenever there are
//! too many, each becomes one with its neighbour. So their number is bounded, whatever a run takes.

use crate::result::over_time::{OverTime, Slots};
use hdrhistogram::Histogram;
use std::time::Instant;

/// Slots at most; at the end there are more than half as many, unless the run was very short.
const SLOTS: usize = 80;
/// How long a slot is first, in nanoseconds.
const SHORTEST: u64 = 10_000;

/// Latencies of operations by when they ended.
pub(crate) struct Timeline {
    slot_ns: u64,
    /// When the last operation ended.
    end: u64,
    kinds: Vec<Kind>,
    clock_ns: u64,
    /// When the operation that is under way began.
    begun: Instant,
}

struct Kind {
    name: &'static str,
    slots: Vec<Option<Histogram<u64>>>,
}

impl Timeline {
    pub(crate) fn new(clock_ns: f64) -> Timeline {
        Timeline {
            slot_ns: SHORTEST,
            end: 0,
            kinds: Vec::new(),
            clock_ns: clock_ns.round() as u64,
            begun: Instant::now(),
        }
    }

    /// Operations are done one after the other from here on, each beginning when the one before was
    /// noted: the time of the run is the sum of theirs, without what noting them takes.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// The operation that is under way has ended. Returns what it took.
    #[inline]
    pub(crate) fn ended(&mut self, name: &'static str) -> u64 {
        self.ended_together(name, 1)
    }

    /// So many operations have ended that were under way together, each of which took what all did.
    #[inline]
    pub(crate) fn ended_together(&mut self, name: &'static str, count: u64) -> u64 {
        let ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX >> 1);
        let ns = ns.saturating_sub(self.clock_ns).max(1);
        self.add_together(name, self.end.saturating_add(ns), ns, count);
        self.begin();
        ns
    }

    /// Notes an operation that ended at this nanosecond of the run, none before those that are noted.
    #[cfg(test)]
    pub(crate) fn add(&mut self, name: &'static str, end: u64, ns: u64) {
        self.add_together(name, end, ns, 1);
    }

    /// Notes so many operations that ended together at this nanosecond, none before those that are noted.
    pub(crate) fn add_together(&mut self, name: &'static str, end: u64, ns: u64, count: u64) {
        self.end = end.max(self.end);
        while self.end / self.slot_ns >= SLOTS as u64 {
            self.slot_ns *= 2;
            self.kinds.iter_mut().for_each(Kind::halve);
        }
        let at = (self.end / self.slot_ns) as usize;
        let place = self.kinds.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            self.kinds.push(Kind { name, slots: Vec::new() });
            self.kinds.len() - 1
        });
        self.kinds[place].slot(at).get_or_insert_with(empty).saturating_record_n(ns, count);
    }

    /// Latencies in nanoseconds with their counts, of all operations and the whole run.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        let slots = self.kinds.iter().flat_map(|kind| kind.slots.iter().flatten());
        let mut all = None;
        slots.for_each(|slot| merge(&mut all, Some(slot)));
        let all = all.iter().flat_map(Histogram::iter_recorded);
        all.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }

    /// All of it; `None` if nothing was noted.
    pub(crate) fn finish(mut self) -> Option<OverTime> {
        if self.kinds.is_empty() {
            return None;
        }
        let mut count = (self.end / self.slot_ns) as usize + 1;
        // A few operations in what is hardly a slot would be no rate.
        let is_short = self.end % self.slot_ns < self.slot_ns / 2;
        if is_short && count > 1 {
            count -= 1;
            self.kinds.iter_mut().for_each(|kind| kind.join_last(count));
        }
        let mut all = Kind { name: "", slots: Vec::new() };
        for kind in &self.kinds {
            for (i, slot) in kind.slots.iter().enumerate() {
                merge(all.slot(i), slot.as_ref());
            }
        }
        let several = self.kinds.len() > 1;
        let operations = self.kinds.iter().filter(|_| several);
        Some(OverTime {
            slot_seconds: self.slot_ns as f64 / 1e9,
            seconds: self.end as f64 / 1e9,
            all: all.figures(count),
            operations: operations.map(|k| (k.name.to_owned(), k.figures(count))).collect(),
        })
    }
}

impl Kind {
    fn slot(&mut self, at: usize) -> &mut Option<Histogram<u64>> {
        if self.slots.len() <= at {
            self.slots.resize(at + 1, None);
        }
        &mut self.slots[at]
    }

    /// Makes one of each two neighbours.
    fn halve(&mut self) {
        let pairs = self.slots.chunks_mut(2).map(|pair| {
            let mut one = pair[0].take();
            merge(&mut one, pair.get(1).and_then(Option::as_ref));
            one
        });
        self.slots = pairs.collect();
    }

    /// Puts what is in slot `at`, the last, to the one before.
    fn join_last(&mut self, at: usize) {
        if let Some(last) = self.slots.get_mut(at).and_then(Option::take) {
            self.slots.truncate(at);
            merge(self.slot(at - 1), Some(&last));
        }
    }

    fn figures(&self, count: usize) -> Slots {
        let mut figures = Slots::default();
        for i in 0..count {
            let slot = self.slots.get(i).and_then(Option::as_ref);
            let at = |quantile| slot.map_or(0, |slot| slot.value_at_quantile(quantile));
            figures.ops.push(slot.map_or(0, Histogram::len));
            figures.p50_ns.push(at(0.5));
            figures.p99_ns.push(at(0.99));
            figures.max_ns.push(at(1.0));
        }
        figures
    }
}

/// Two digits: there are many of them, and a chart shows no more.
fn empty() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 1 << 40, 2)
        .expect("bounds and digits are constants that the histogram takes");
    histogram.auto(true);
    histogram
}

fn merge(into: &mut Option<Histogram<u64>>, from: Option<&Histogram<u64>>) {
    let Some(from) = from else { return };
    let into = into.get_or_insert_with(empty);
    for value in from.iter_recorded() {
        into.saturating_record_n(value.value_iterated_to(), value.count_at_value());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However long a run is, its slots are few, every operation is in one of them, and the slowest one
    /// of all is where it was.
    #[test]
    fn slots_are_bounded_and_keep_every_operation_and_the_stall() {
        for (operations, took) in [(1, 1), (7, 3000), (50_000, 900), (3000, 40_000_000)] {
            let mut timeline = Timeline::new(0.0);
            let (stalled, stall) = (operations / 3, took * 500);
            let (mut end, mut stall_end) = (0, 0);
            for i in 0..operations {
                let ns = if i == stalled { stall } else { took };
                end += ns;
                stall_end = if i == stalled { end } else { stall_end };
                timeline.add(if i % 4 == 0 { "get" } else { "insert" }, end, ns);
            }
            let counts = timeline.counts();
            assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), operations);
            let longest = counts.iter().map(|(ns, _)| *ns).max().unwrap();
            assert!((stall..=stall + stall / 50 + 1).contains(&longest), "{longest} of {stall}");
            let over = timeline.finish().unwrap();
            let count = over.all.ops.len();
            assert!(count <= SLOTS && (count >= SLOTS / 2 || over.slot_seconds == 1e-5), "{count}");
            assert_eq!(over.all.ops.iter().sum::<u64>(), operations);
            assert!((over.seconds - end as f64 / 1e9).abs() < 1e-9);
            let slots = (0..count).map(|i| over.slot(i, count));
            let at = slots.clone().position(|(_, end)| stall_end as f64 / 1e9 <= end + 1e-12);
            let most = *over.all.max_ns.iter().max().unwrap();
            assert!((stall..=stall + stall / 50 + 1).contains(&most), "{most} of {stall}");
            assert_eq!(over.all.max_ns.iter().position(|ns| *ns == most), at);
            assert!(slots.clone().all(|(begin, end)| begin <= end));
            if operations > 1 {
                let kinds = over.operations.values().flat_map(|kind| &kind.ops);
                assert_eq!(kinds.sum::<u64>(), operations);
                assert!(over.operations.values().all(|kind| kind.ops.len() == count));
            } else {
                assert!(over.operations.is_empty(), "one kind is all there is");
            }
        }
        assert_eq!(Timeline::new(0.0).finish(), None);
    }

    #[test]
    fn while_a_store_stalls_nothing_ends() {
        let mut timeline = Timeline::new(0.0);
        (1..=1000).for_each(|i| timeline.add("get", i * 1000, 1000));
        timeline.add("get", 2_000_000, 1_000_000);
        let over = timeline.finish().unwrap();
        let rates: Vec<f64> = over.per_second(&over.all).map(Option::unwrap).collect();
        assert!((rates[3] - 1e6).abs() < 2e5 && rates[rates.len() * 3 / 4] == 0.0, "{rates:?}");
    }

    #[test]
    fn what_ended_together_took_the_time_once() {
        let mut timeline = Timeline::new(0.0);
        timeline.begin();
        let took = [7, 3].map(|count| timeline.ended_together("get", count));
        let over = timeline.finish().unwrap();
        assert_eq!((over.seconds * 1e9).round() as u64, took.iter().sum::<u64>());
        assert_eq!(over.all.ops.iter().sum::<u64>(), 10);
        let longest = *over.all.max_ns.iter().max().unwrap();
        let expected = *took.iter().max().unwrap();
        assert!(
            (expected..=expected + expected / 50 + 1).contains(&longest),
            "{longest}, {took:?}"
        );
    }

    #[test]
    fn the_time_of_a_run_is_that_of_its_operations() {
        let mut timeline = Timeline::new(0.0);
        timeline.begin();
        let sum: u64 = (0..100).map(|_| timeline.ended("get")).sum();
        let over = timeline.finish().unwrap();
        assert_eq!((over.seconds * 1e9).round() as u64, sum);
    }
}
