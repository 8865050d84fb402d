//! The processor's own counters, where the kernel gives them (`perf_event_open`).
//!
//! They are switched on before a clock is started and read after it has stopped: what is timed makes no
//! call for them. They count this process and the threads that it starts meanwhile, outside the kernel.

use crate::result::processor::Processor;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware};
use perf_event::{Builder, Counter};
use std::io;

/// Counters that run; those that there are not are left out.
pub(crate) struct Counters([Option<Counter>; 5]);

impl Counters {
    /// Begins to count, in the order of [`Processor::NAMES`].
    pub(crate) fn start() -> Counters {
        Counters([
            started(Hardware::INSTRUCTIONS).ok(),
            started(Hardware::CPU_CYCLES).ok(),
            started(Hardware::CACHE_MISSES).ok(),
            started(Hardware::BRANCH_MISSES).ok(),
            started(DTLB_MISSES).ok(),
        ])
    }

    /// What was counted.
    pub(crate) fn stop(self) -> Processor {
        Processor::of(self.0.map(|counter| counted(&mut counter?)))
    }

    /// Why the kernel gives no counters, and what to do; `None` where it gives the first of them.
    pub(crate) fn refused() -> Option<String> {
        let refused = started(Hardware::INSTRUCTIONS).err()?;
        let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        Some(in_words(&refused, level.unwrap_or_default().trim()))
    }
}

const DTLB_MISSES: Cache =
    Cache { which: CacheId::DTLB, operation: CacheOp::READ, result: CacheResult::MISS };

fn started(event: impl Event) -> io::Result<Counter> {
    Builder::new(event).inherit(true).enabled(true).build()
}

/// What a counter has; one that had to share its place with others is taken to have counted as much in
/// the rest of the time.
fn counted(counter: &mut Counter) -> Option<u64> {
    let read = counter.read_count_and_time().ok()?;
    let scaled = u128::from(read.count) * u128::from(read.time_enabled);
    u64::try_from(scaled.checked_div(u128::from(read.time_running))?).ok()
}

fn in_words(refused: &io::Error, level: &str) -> String {
    let why = match refused.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!(
            "the kernel does not allow them (perf_event_paranoid is {level}; `sysctl \
             kernel.perf_event_paranoid=2`, or less, does; a container may forbid them, too)"
        ),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "the kernel has none to give, as in most virtual machines".to_owned()
        }
        Some(libc::ENOSYS) => "this kernel is built without them".to_owned(),
        _ => refused.to_string(),
    };
    format!("no instructions, cycles and misses, which the processor counts: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;
    use std::hint::black_box;

    #[test]
    fn what_is_done_between_start_and_stop_is_counted() {
        let mut counter = match started(Software::PAGE_FAULTS) {
            Ok(counter) => counter,
            Err(e) => return println!("skipped: {}", in_words(&e, "?")),
        };
        // So much that it is new to the process, and touched by a thread that is started meanwhile.
        let touch = || drop(black_box(vec![1u8; 64 << 20]));
        std::thread::spawn(touch).join().unwrap();
        assert!(counted(&mut counter).unwrap() > 10, "page faults of 64 MiB");
    }

    #[test]
    fn either_something_is_counted_or_it_is_said_why_not() {
        let counters = Counters::start();
        black_box((0..100_000u64).map(black_box).sum::<u64>());
        let (counted, refused) = (counters.stop(), Counters::refused());
        match refused {
            None => assert!(counted.instructions.unwrap() > 100_000, "{counted:?}"),
            Some(why) => assert!(!counted.is_known() && why.contains("kernel"), "{why}"),
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let said = |code| in_words(&io::Error::from_raw_os_error(code), "3");
        assert!(said(libc::EACCES).contains("perf_event_paranoid is 3; `sysctl"));
        assert!(said(libc::ENOENT).contains("virtual machines"));
        assert!(said(libc::ENOSYS).contains("built without"));
        assert!(said(libc::EMFILE).contains("files"));
    }
}
