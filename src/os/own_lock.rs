//! A mutex that a forked process does not wait for.
//!
//! Invariant: whoever has it is a thread of this process, or of the one that made it. A thread that had it when
//! the process was forked is only in the parent: in the child nobody will ever let it go.

use super::process::{forks, own_pid};
use crate::{Error, Result};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How often who does not want to wait for long looks whether it is free.
const NAP: Duration = Duration::from_millis(1);

/// Something for one thread at a time of the process that made it, and of those forked from that one.
#[derive(Debug)]
pub(crate) struct OwnLock<T> {
    value: Mutex<T>,
    /// What [`forks`] was where it was made.
    forks: u32,
}

impl<T> OwnLock<T> {
    pub(crate) fn new(value: T) -> OwnLock<T> {
        OwnLock { value: Mutex::new(value), forks: forks() }
    }

    /// It, for this thread alone; in a forked process `None` while some thread has it, be it one of the parent.
    /// What a thread that panicked left is taken as it is.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, T>> {
        if forks() == self.forks {
            return Some(self.value.lock().unwrap_or_else(PoisonError::into_inner));
        }
        self.try_lock()
    }

    /// The same, an error if some thread of this process has it for so long.
    pub(crate) fn lock_within(&self, limit: Duration) -> Result<Option<MutexGuard<'_, T>>> {
        let begin = Instant::now();
        loop {
            let found = self.try_lock();
            if found.is_some() || forks() != self.forks {
                return Ok(found);
            }
            let waited = begin.elapsed();
            if waited >= limit {
                return Err(Error::busy(waited, Some(own_pid())));
            }
            std::thread::sleep(NAP.min(limit - waited));
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.value.try_lock() {
            Ok(value) => Some(value),
            Err(TryLockError::Poisoned(value)) => Some(value.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
