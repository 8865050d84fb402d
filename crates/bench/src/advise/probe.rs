//! What a read of memory costs on this machine, where it must be waited for: in so many bytes, at random.
//!
//! It is what grows when a store does: the same lookup waits for the second-level cache, then for the
//! third, then for memory, and for the tables of pages, too.

use crate::driver::kernel;
use crate::machine;
use crate::rng::Rng;
use serde::Serialize;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

/// Words of a line of the cache.
const LINE: usize = 8;
const LEAST_BYTES: f64 = 4096.0;
const MOST_BYTES: f64 = (1_u64 << 30) as f64;
/// A reading of the machine's speed is wanted, and no disturbance of it: the best of so many.
const TURNS: usize = 5;
const READS: usize = if cfg!(debug_assertions) { 2_000 } else { 100_000 };

/// Measures reads, and remembers what they took.
pub(super) struct Probe {
    cpu: Option<usize>,
    most_bytes: f64,
    /// Nanoseconds, by the number of quarters of a doubling.
    known: BTreeMap<i32, f64>,
}

/// A read in so many bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Reading {
    bytes: u64,
    ns: f64,
}

impl Probe {
    /// For measured processes that run on this processor.
    pub(super) fn new(cpu: Option<usize>) -> Probe {
        let most_bytes = (machine::memory_bytes() as f64 / 8.0).clamp(LEAST_BYTES, MOST_BYTES);
        Probe { cpu, most_bytes, known: BTreeMap::new() }
    }

    /// Nanoseconds of a read in so many bytes.
    pub(super) fn read_ns(&mut self, bytes: f64) -> f64 {
        let bytes = bytes.clamp(LEAST_BYTES, self.most_bytes);
        let place = bytes.log2() * 4.0;
        let (below, part) = (place.floor() as i32, place.fract());
        let (one, other) = (self.at(below), self.at(below + 1));
        one + (other - one) * part
    }

    /// What was measured, the smallest first.
    pub(super) fn readings(&self) -> Vec<Reading> {
        let reading = |(quarters, ns): (&i32, &f64)| Reading {
            bytes: (f64::from(*quarters) / 4.0).exp2() as u64,
            ns: *ns,
        };
        self.known.iter().map(reading).collect()
    }

    fn at(&mut self, quarters: i32) -> f64 {
        let cpu = self.cpu;
        *self.known.entry(quarters).or_insert_with(|| {
            let bytes = (f64::from(quarters) / 4.0).exp2();
            // A thread of its own: binding it binds nobody else.
            let measured = std::thread::spawn(move || {
                // Unbound it is measured as well, only less well.
                let _ = cpu.map(kernel::pin_to);
                measured(bytes as usize)
            });
            measured.join().unwrap_or(0.0)
        })
    }
}

fn measured(bytes: usize) -> f64 {
    let lines = (bytes / (LINE * 8)).max(1);
    let mut memory = vec![0_u64; lines * LINE];
    let mut rng = Rng::new(1, 0);
    memory.iter_mut().step_by(LINE).for_each(|word| *word = rng.next());
    let walk = || {
        let start = Instant::now();
        let mut at = 0;
        for step in 0..READS as u64 {
            // What was read says where to read next; the step keeps the way from becoming a circle.
            let word = memory[at * LINE].wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            at = ((u128::from(word) * lines as u128) >> 64) as usize;
        }
        black_box(at);
        start.elapsed().as_nanos() as f64 / READS as f64
    };
    (0..TURNS).map(|_| walk()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_time_and_is_measured_once() {
        let mut probe = Probe::new(None);
        probe.most_bytes = 1e6;
        for bytes in [0.0, 1e5, 1e5, 1e30, f64::MAX] {
            assert!(probe.read_ns(bytes) > 0.0);
        }
        assert_eq!(probe.readings().len(), 6);
        assert_eq!(probe.read_ns(1e30), probe.read_ns(1e6));
    }
}
