//! A value that is replaced now and then while others read it: reading costs one load.
//!
//! Whoever replaces a value knows how its readers say that they look at it, as by a pin; those who do not
//! say so are counted ([`Newest::hold`]). When nobody does, replaced values can be dropped.

#![allow(unsafe_code)]

use super::own_lock::OwnLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

/// The newest of a row of values.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    newest: AtomicPtr<T>,
    /// Each from `Box::into_raw`, freed when this is dropped, or before.
    all: OwnLock<Vec<Owned<T>>>,
    /// How many [`Held`] there are.
    held: AtomicU64,
}

/// As long as it lives no value is dropped.
#[derive(Debug)]
pub(crate) struct Held<'n>(&'n AtomicU64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[derive(Debug)]
struct Owned<T>(*mut T);

// SAFETY: owns the value, as a Box does.
unsafe impl<T: Send> Send for Owned<T> {}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `push`, and dropped once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<T: Send + Sync> Newest<T> {
    pub(crate) fn new(first: T) -> Newest<T> {
        let owned = Owned(Box::into_raw(Box::new(first)));
        let newest = AtomicPtr::new(owned.0);
        Newest { newest, all: OwnLock::new(vec![owned]), held: AtomicU64::new(0) }
    }

    /// The newest value.
    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: points to a value in `all`, which is dropped with `self`, or when `drop_replaced` was
        // promised that nobody looks at it.
        // In one order with what readers say of themselves before: on x86 that costs nothing.
        unsafe { &*self.newest.load(Ordering::SeqCst) }
    }

    /// Keeps every value, the newest and those that are still to come, until it is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.held.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Held(&self.held)
    }

    /// Puts `value` in the place of the newest, unless that is as good, and gives back which it is then.
    pub(crate) fn push_unless(&self, value: T, is_as_good: impl FnOnce(&T) -> bool) -> &T {
        let all = self.all.lock();
        let newest = self.get();
        if is_as_good(newest) {
            return newest;
        }
        let owned = Owned(Box::into_raw(Box::new(value)));
        let pointer = owned.0;
        match all {
            Some(mut all) => {
                all.push(owned);
                // Before anybody else can take it for one that was replaced.
                self.newest.store(pointer, Ordering::SeqCst);
            }
            None => {
                // Never dropped: nobody knows it but by the pointer.
                std::mem::forget(owned);
                self.newest.store(pointer, Ordering::SeqCst);
            }
        }
        // SAFETY: as in `get`.
        unsafe { &*pointer }
    }

    /// How many values there are, with those that were replaced.
    pub(crate) fn count(&self) -> usize {
        self.all.lock().map_or(0, |all| all.len())
    }

    /// Puts `value` in the place of the newest, and gives it back.
    pub(crate) fn push(&self, value: T) -> &T {
        self.push_unless(value, |_| false)
    }

    /// Drops the replaced values for which `may_go` says so, if no value is held.
    ///
    /// # Safety
    /// Who has a reference to one of these that is not used up has a [`Held`] since before he got it.
    pub(crate) unsafe fn drop_replaced(&self, mut may_go: impl FnMut(&T) -> bool) {
        let Some(mut all) = self.all.lock() else { return };
        fence(Ordering::SeqCst);
        if self.held.load(Ordering::SeqCst) != 0 {
            return;
        }
        let newest = self.newest.load(Ordering::SeqCst);
        // SAFETY: each points to a value that is dropped with its `Owned`.
        all.retain(|owned| owned.0 == newest || !may_go(unsafe { &*owned.0 }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// The thread that has the values when the process is forked is not in the child.
    #[test]
    fn a_fork_does_not_wait_for_who_drops_values_in_its_parent() {
        super::super::process::prepare();
        let newest = Newest::new(1);
        newest.push(2);
        let (begun, is_begun) = mpsc::channel();
        let (end, is_over) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let newest = &newest;
            scope.spawn(move || {
                let may_go = |_: &i32| {
                    begun.send(()).unwrap();
                    is_over.recv().is_ok()
                };
                // SAFETY: nobody has a reference to a value.
                unsafe { newest.drop_replaced(may_go) };
            });
            is_begun.recv().unwrap();
            // SAFETY: the child has one thread, allocates at most, and ends without what its parent
            // registered for its end.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: as above; what hangs does not pass.
                unsafe { libc::alarm(20) };
                let is_right = *newest.push(3) == 3 && *newest.get() == 3 && newest.count() <= 3;
                // SAFETY: as above.
                unsafe { libc::_exit(i32::from(!is_right)) };
            }
            let mut status = -1;
            // SAFETY: the status is written during the call.
            unsafe { libc::waitpid(pid, &raw mut status, 0) };
            end.send(()).unwrap();
            assert_eq!(status, 0);
        });
    }
}
