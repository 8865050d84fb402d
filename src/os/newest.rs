//! A value that is replaced now and then while others read it: reading costs one load.
//!
//! Whoever replaces a value knows how its readers say that they look at it, as by a pin; those who do not
//! say so are counted ([`Newest::hold`]). When nobody does, replaced values can be dropped.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// The newest of a row of values.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    newest: AtomicPtr<T>,
    /// Each from `Box::into_raw`, freed when this is dropped, or before.
    all: Mutex<Vec<Owned<T>>>,
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
        Newest { newest, all: Mutex::new(vec![owned]), held: AtomicU64::new(0) }
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
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = self.get();
        if is_as_good(newest) {
            return newest;
        }
        let owned = Owned(Box::into_raw(Box::new(value)));
        let pointer = owned.0;
        all.push(owned);
        // Before anybody else can take it for one that was replaced.
        self.newest.store(pointer, Ordering::SeqCst);
        drop(all);
        // SAFETY: as in `get`.
        unsafe { &*pointer }
    }

    /// How many values there are, with those that were replaced.
    pub(crate) fn count(&self) -> usize {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).len()
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
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        fence(Ordering::SeqCst);
        if self.held.load(Ordering::SeqCst) != 0 {
            return;
        }
        let newest = self.newest.load(Ordering::SeqCst);
        // SAFETY: each points to a value that is dropped with its `Owned`.
        all.retain(|owned| owned.0 == newest || !may_go(unsafe { &*owned.0 }));
    }
}
