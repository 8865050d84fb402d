//! A value that is replaced now and then while others read it: reading costs one load.
//!
//! Replaced values are kept until the whole is dropped, so this is for what is replaced rarely.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// The newest of a row of values.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    newest: AtomicPtr<T>,
    /// Each from `Box::into_raw`, freed when this is dropped.
    all: Mutex<Vec<Owned<T>>>,
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
        Newest { newest: AtomicPtr::new(owned.0), all: Mutex::new(vec![owned]) }
    }

    /// The newest value.
    #[inline(always)]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: points to a value in `all`, which is freed only when `self` is dropped.
        unsafe { &*self.newest.load(Ordering::Acquire) }
    }

    /// Puts `value` in the place of the newest, and gives it back.
    pub(crate) fn push(&self, value: T) -> &T {
        let owned = Owned(Box::into_raw(Box::new(value)));
        let pointer = owned.0;
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(owned);
        self.newest.store(pointer, Ordering::Release);
        // SAFETY: as in `get`.
        unsafe { &*pointer }
    }
}
