//! What operations are timed with.
//!
//! The processor's time stamp counter is read in a third of the time that the kernel's clock
//! takes. Its speed is measured against that clock over the first twentieth of a second in which
//! a process times anything, without waiting for it: until then the kernel's clock is used.

use crate::os::tsc;
use crate::{Error, Result};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What operations are timed with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The time stamp counter where the processor says that it runs at one speed, and the
    /// kernel's monotonic clock elsewhere.
    #[default]
    Auto,
    /// The processor's time stamp counter; its speed is measured once.
    Tsc,
    /// The kernel's monotonic clock (`clock_gettime`).
    Monotonic,
}

impl Clock {
    /// The one to use.
    ///
    /// # Errors
    /// The time stamp counter is asked for, and this processor's cannot be used.
    pub(super) fn resolve(self) -> Result<Clock> {
        match self {
            Clock::Auto if tsc::is_invariant() => Ok(Clock::Tsc),
            Clock::Auto | Clock::Monotonic => Ok(Clock::Monotonic),
            Clock::Tsc if tsc::is_invariant() => Ok(Clock::Tsc),
            Clock::Tsc => Err(Error::invalid(
                "this processor's time stamp counter does not run at one speed; use Clock::Auto",
            )),
        }
    }

    /// Begins to time something; `self` is what [`Clock::resolve`] gave.
    pub(super) fn start(self) -> Start {
        let scale = match self {
            Clock::Tsc => SPEED.scale(),
            Clock::Auto | Clock::Monotonic => None,
        };
        match scale {
            Some(scale) => Start::Tsc { from: tsc::read(), scale },
            None => Start::Monotonic(Instant::now()),
        }
    }
}

/// When something began.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    Tsc { from: u64, scale: u64 },
    Monotonic(Instant),
}

impl Start {
    /// Nanoseconds since then; none where the counter went back.
    pub(super) fn nanoseconds(self) -> u64 {
        match self {
            Start::Tsc { from, scale } => to_nanoseconds(tsc::read().saturating_sub(from), scale),
            Start::Monotonic(from) => u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// Binary digits after the point of a scale.
const SCALE_BITS: u32 = 32;
/// Readings of which the shortest counts: all of them at once are hardly ever interrupted.
const READINGS: u32 = 8;
/// How long the counter's speed is measured: such a reading is off by 100 ns at most.
const MEASURED_FOR: Duration = Duration::from_millis(50);

/// The speed of this process's counter.
static SPEED: Speed = Speed { first: Mutex::new(None), scale: AtomicU64::new(0) };

/// Nanoseconds for a tick of the counter, or since when that is being measured.
struct Speed {
    first: Mutex<Option<(u64, Instant)>>,
    /// 0 until it is known.
    scale: AtomicU64,
}

impl Speed {
    /// `None` as long as it is not known.
    fn scale(&self) -> Option<u64> {
        match self.scale.load(Ordering::Relaxed) {
            0 => self.measure(),
            scale => Some(scale),
        }
    }

    #[cold]
    fn measure(&self) -> Option<u64> {
        // Nobody waits: the other thread may be one that a forked child does not have.
        let mut first = self.first.try_lock().ok()?;
        let (ticks, instant) = *first.get_or_insert_with(both);
        if instant.elapsed() < MEASURED_FOR {
            return None;
        }
        let (now, until) = both();
        let scale = scale(until.saturating_duration_since(instant), now.saturating_sub(ticks))?;
        // Another thread may have measured as well: one of the two stays, for everybody.
        match self.scale.compare_exchange(0, scale, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Some(scale),
            Err(other) => Some(other),
        }
    }
}

/// What the counter and the kernel's clock say at one moment. Who is interrupted between them would have all
/// times wrong for as long as the process lives: of several readings the one that took the shortest counts.
fn both() -> (u64, Instant) {
    let reading = || {
        let (before, instant, after) = (tsc::read(), Instant::now(), tsc::read());
        let took = after.saturating_sub(before);
        (took, before.saturating_add(took / 2), instant)
    };
    let mut best = reading();
    for _ in 1..READINGS {
        let next = reading();
        if next.0 < best.0 {
            best = next;
        }
    }
    (best.1, best.2)
}

/// Nanoseconds for a tick; `None` for a counter that is not one.
fn scale(elapsed: Duration, ticks: u64) -> Option<u64> {
    let scale = (elapsed.as_nanos() << SCALE_BITS).checked_div(u128::from(ticks))?;
    // From 4 GHz times 16 down to 1 MHz.
    u64::try_from(scale).ok().filter(|scale| (1 << 26..1 << 42).contains(scale))
}

fn to_nanoseconds(ticks: u64, scale: u64) -> u64 {
    let nanoseconds = (u128::from(ticks) * u128::from(scale)) >> SCALE_BITS;
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        for hertz in [1_000_000u64, 24_000_000, 1_000_000_000, 3_699_850_000, 6_000_000_000] {
            let scale = scale(Duration::from_millis(50), hertz / 20).unwrap();
            for seconds in [1, 1_000, 1_000_000] {
                let (found, exact) =
                    (to_nanoseconds(hertz * seconds, scale), 1_000_000_000 * seconds);
                assert!(found.abs_diff(exact) <= exact / 10_000_000, "{hertz} Hz: {found}");
            }
        }
        assert_eq!(to_nanoseconds(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn a_counter_that_stands_still_or_races_is_not_used() {
        let fiftieth = Duration::from_millis(20);
        for ticks in [0, 1, 1_000, u64::MAX] {
            assert_eq!(scale(fiftieth, ticks), None, "{ticks}");
        }
    }

    /// Nothing here depends on how fast the machine is: only that the counter's time of a stretch
    /// lies between those of a shorter and of a longer stretch by the kernel's clock.
    #[test]
    fn both_clocks_agree() {
        if Clock::Tsc.resolve().is_err() {
            return;
        }
        let begun = Instant::now();
        while SPEED.scale().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the speed was never measured");
        }
        let (outer, from) = (Instant::now(), Clock::Tsc.start());
        let inner = Instant::now();
        while inner.elapsed() < Duration::from_millis(5) {}
        let least = inner.elapsed().as_nanos() as u64;
        let found = from.nanoseconds();
        let most = outer.elapsed().as_nanos() as u64;
        assert!(
            found >= least - least / 100 && found <= most + most / 100,
            "{least} {found} {most}"
        );
    }
}
