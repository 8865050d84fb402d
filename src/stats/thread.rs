//! A small number for each thread, by which it finds its slot in any store.
//!
//! A thread gets the lowest free number when it first counts, and gives it back when it ends: the
//! next one to get it goes on in the same slots, and sees everything that the one before has
//! written. There is no lock that a fork could leave locked in the child.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Threads that may have a number each; 0 is for those that have none.
pub(super) const THREADS: usize = 256;

thread_local! {
    /// 0 is for threads without a number. Constant and without a destructor, so that reading it
    /// is one instruction.
    static NUMBER: Cell<u8> = const { Cell::new(0) };
    /// What gives the number back.
    static LEASE: Lease = const { Lease };
}

/// Numbers that threads have.
static TAKEN: [AtomicBool; THREADS] = [const { AtomicBool::new(false) }; THREADS];

/// This thread's number, or 0.
#[inline(always)]
pub(super) fn number() -> u8 {
    NUMBER.with(Cell::get)
}

/// This thread's number, a new one if it has none; 0 if there is none left, or if the thread is
/// ending.
pub(super) fn take_number() -> u8 {
    match number() {
        0 => LEASE.try_with(Lease::take).unwrap_or(0),
        number => number,
    }
}

#[derive(Debug)]
struct Lease;

impl Lease {
    fn take(&self) -> u8 {
        let is_mine = |taken: &AtomicBool| {
            let free = !taken.load(Ordering::Relaxed);
            free && !taken.swap(true, Ordering::Acquire)
        };
        let free = TAKEN.iter().skip(1).position(is_mine);
        let Some(number) = free.and_then(|free| u8::try_from(free + 1).ok()) else { return 0 };
        NUMBER.with(|cell| cell.set(number));
        number
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let number = NUMBER.with(|cell| cell.replace(0));
        if number != 0 {
            TAKEN[usize::from(number)].store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn threads_that_live_at_once_have_different_numbers() {
        let all_have = Barrier::new(8);
        let mut numbers: Vec<u8> = std::thread::scope(|scope| {
            let take = || {
                let number = take_number();
                assert_eq!(number, take_number());
                assert_eq!(number, super::number());
                all_have.wait();
                number
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), numbers.contains(&0)), (8, false), "{numbers:?}");
    }

    #[test]
    fn numbers_come_back() {
        for _ in 0..10 * THREADS {
            let number = std::thread::spawn(take_number).join().unwrap();
            assert_ne!(number, 0);
        }
    }
}
