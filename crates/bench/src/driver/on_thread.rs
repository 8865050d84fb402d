//! A handle of a store that goes to a thread of its own.

#![allow(unsafe_code)]

/// What may be moved to another thread, whatever is in it.
pub(crate) struct OnThread<S>(S);

// SAFETY: who makes one promises it.
unsafe impl<S> Send for OnThread<S> {}

impl<S> OnThread<S> {
    /// # Safety
    /// The store may be used by another thread than the one that opened it, one at a time, while
    /// other threads use other handles of the same store.
    pub(super) unsafe fn new(store: S) -> OnThread<S> {
        OnThread(store)
    }

    pub(crate) fn store(&mut self) -> &mut S {
        &mut self.0
    }
}
