//! Clock, histogram and sizes: the instruments.

pub(crate) mod timeline;

use crate::counters::Counters;
use crate::driver::{kernel, syscalls};
use crate::machine::{self, Io};
use crate::result::{Calls, Effort};
use credenza::{Error, Result};
use hdrhistogram::Histogram;
use std::hint::{black_box, spin_loop};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What one reading of the clock costs, in nanoseconds: the median of many pairs of readings.
pub(crate) fn clock_ns() -> f64 {
    const PAIRS: usize = 1000;
    let batch_ns = || {
        let start = Instant::now();
        (0..PAIRS).for_each(|_| {
            black_box(Instant::now());
        });
        start.elapsed().as_nanos() as f64 / PAIRS as f64
    };
    let mut costs: Vec<f64> = (0..31).map(|_| batch_ns()).collect();
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// Waits until then, asleep at first and awake at the end, so as to be there in time; not at all when that is
/// over. With `yields` others have the processor meanwhile.
#[inline]
pub(crate) fn wait_until(due: Instant, yields: bool) {
    // The kernel wakes a sleeper late by some 60 us: the rest is spun away.
    const SLEEPS_ABOVE: Duration = Duration::from_micros(300);
    const AWAKE: Duration = Duration::from_micros(200);
    loop {
        match due.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return,
            left if left > SLEEPS_ABOVE => std::thread::sleep(left.saturating_sub(AWAKE)),
            _ if yields => std::thread::yield_now(),
            _ => spin_loop(),
        }
    }
}

/// The quantiles of a curve: each further step halves what is slower, about.
const CURVE: [f64; 15] =
    [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 1.0];

/// Latencies to three digits, the clock's cost taken off.
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
    clock_ns: u64,
}

impl Latencies {
    pub(crate) fn new(clock_ns: f64) -> Latencies {
        let mut histogram = Histogram::new_with_bounds(1, 1 << 40, 3)
            .expect("bounds and digits are constants that the histogram takes");
        histogram.auto(true);
        Latencies { histogram, clock_ns: clock_ns.round() as u64 }
    }

    /// Records the time since `start`.
    #[inline]
    pub(crate) fn record_since(&mut self, start: Instant) {
        self.record_call(start, 1);
    }

    /// Records a latency that has nothing in it to be taken off.
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.record_of(ns, 1);
    }

    /// The same of so many operations that were one call, each of which took what all did.
    #[inline]
    pub(crate) fn record_of(&mut self, ns: u64, count: u64) {
        self.histogram.saturating_record_n(ns, count);
    }

    /// Records the time since `start` for each of so many operations that were one call.
    #[inline]
    pub(crate) fn record_call(&mut self, start: Instant, count: u64) {
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX >> 1);
        self.record_of(ns.saturating_sub(self.clock_ns), count);
    }

    /// All latencies with their counts, to be merged with other processes' ones.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        let recorded = self.histogram.iter_recorded();
        recorded.map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
    }

    /// Adds what another process counted.
    pub(crate) fn merge(&mut self, counts: &[(u64, u64)]) {
        counts.iter().for_each(|(ns, count)| self.record_of(*ns, *count));
    }

    /// The mean, in which the slowest hundredth counts as the 99th percentile; `None` if nothing was
    /// recorded. One operation that was held up by another program would be most of a plain mean.
    pub(crate) fn steady_mean(&self) -> Option<f64> {
        let most = self.histogram.value_at_quantile(0.99);
        let steady = |(ns, count): (u64, u64)| ns.min(most) as f64 * count as f64;
        let sum: f64 = self.counts().into_iter().map(steady).sum();
        (!self.histogram.is_empty()).then(|| sum / self.histogram.len() as f64)
    }

    /// The percentiles; `None` if nothing was recorded.
    pub(crate) fn percentiles(&self) -> Option<crate::result::Latency> {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        (!self.histogram.is_empty()).then(|| crate::result::Latency {
            count: self.histogram.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: self.histogram.max(),
            curve: CURVE.map(|part| (part, at(part))).to_vec(),
        })
    }
}

/// The memory that a phase takes: started before the store is opened or built.
pub(crate) struct Footprint {
    rss_before: u64,
}

impl Footprint {
    pub(crate) fn start() -> Footprint {
        kernel::give_back_memory();
        machine::reset_peak();
        Footprint { rss_before: machine::rss_bytes() }
    }

    /// The most memory that was resident beyond what was so before, in bytes.
    pub(crate) fn peak_rss_bytes(&self) -> u64 {
        machine::peak_rss_bytes().saturating_sub(self.rss_before)
    }
}

/// What a stretch of work takes besides time: started right before the clock, stopped right after.
pub(crate) struct Meter {
    calls: Calls,
    faults: (u64, u64),
    io: Io,
    counters: Counters,
}

impl Meter {
    pub(crate) fn start() -> Meter {
        let (calls, faults) = (syscalls::so_far(), kernel::faults());
        Meter { io: Io::so_far(), calls, faults, counters: Counters::start() }
    }

    /// What was done since, which were so many operations.
    pub(crate) fn stop(self, operations: usize) -> Effort {
        let processor = self.counters.stop();
        let (faults, calls, io) = (kernel::faults(), syscalls::so_far(), Io::so_far());
        let read = io.read_bytes.saturating_sub(self.io.read_bytes);
        Effort {
            operations: operations as u64,
            commits: 0,
            calls: calls - self.calls,
            closing: Calls::default(),
            closing_ns: 0,
            minor_faults: faults.0.saturating_sub(self.faults.0),
            major_faults: faults.1.saturating_sub(self.faults.1),
            read_bytes: read.saturating_sub(self.io.asking_bytes),
            written_bytes: io.written_bytes.saturating_sub(self.io.written_bytes),
            disk_read_bytes: io.disk_read_bytes.saturating_sub(self.io.disk_read_bytes),
            disk_written_bytes: io.disk_written_bytes.saturating_sub(self.io.disk_written_bytes),
            closing_disk_written_bytes: 0,
            processor,
        }
    }
}

/// The files in a folder and in those below it.
pub(crate) fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = || -> std::io::Result<_> {
        let mut files = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let is_folder = entry.file_type()?.is_dir();
                if is_folder { &mut folders } else { &mut files }.push(entry.path());
            }
        }
        Ok(files)
    };
    list().map_err(|e| Error::io("list", e).at(folder))
}

/// The size of a store's files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// What they take on the disk, in whole blocks.
    pub(crate) allocated: u64,
    /// Their lengths.
    pub(crate) length: u64,
}

impl Size {
    /// That of all files in a folder.
    pub(crate) fn of(folder: &Path) -> Result<Size> {
        let mut size = Size::default();
        for path in files_in(folder)? {
            let file = path.metadata().map_err(|e| Error::io("look at", e).at(&path))?;
            size.allocated += file.blocks() * 512;
            size.length += file.len();
        }
        Ok(size)
    }
}

/// The median; 0 if there is nothing.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this process write and read, too: at least so much must have been seen.
    #[test]
    fn what_work_takes_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let meter = Meter::start();
        std::fs::write(&path, vec![1; 300_000]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        let read = std::fs::read(&path).unwrap();
        // So much that it is new to the process, whatever was given back before.
        drop(black_box(vec![1u8; 64 << 20]));
        let effort = meter.stop(3);
        assert_eq!((effort.operations, read.len()), (3, 300_000));
        assert!(effort.calls.fsync >= 1 && effort.calls.written_bytes >= 300_000, "{effort:?}");
        assert!(effort.read_bytes >= 300_000 && effort.written_bytes >= 300_000, "{effort:?}");
        assert!(effort.minor_faults > 0, "{effort:?}");
        // A hole of a megabyte has a length, and no blocks.
        let holey = std::fs::File::create(folder.path().join("hole")).unwrap();
        holey.set_len(1 << 20).unwrap();
        let size = Size::of(folder.path()).unwrap();
        assert_eq!(size.length, 300_000 + (1 << 20));
        assert!((300_000..1 << 20).contains(&size.allocated), "{size:?}");
    }

    #[test]
    fn counts_of_two_processes_make_one_histogram() {
        let (mut one, mut both) = (Latencies::new(0.0), Latencies::new(0.0));
        assert!(one.percentiles().is_none());
        one.merge(&(1..=100).map(|ns| (ns, 1)).collect::<Vec<_>>());
        both.merge(&one.counts());
        both.merge(&one.counts());
        let percentiles = both.percentiles().unwrap();
        assert_eq!((percentiles.p50, percentiles.p99, percentiles.max), (50, 99, 100));
        assert!(both.steady_mean().is_some_and(|mean| (50.0..51.0).contains(&mean)));
        both.record(1 << 30);
        assert!(both.steady_mean().is_some_and(|mean| (50.0..52.0).contains(&mean)));
        assert_eq!(Latencies::new(0.0).steady_mean(), None);
    }
}
