//! A value that others borrow which live beside it, in one struct.

#![allow(unsafe_code)]

use std::ptr::NonNull;

/// Lives until it is dropped or taken back, wherever it is moved: what is borrowed from it may be in
/// a field above it, which is dropped before.
pub(super) struct Kept<T>(NonNull<T>);

impl<T> Kept<T> {
    pub(super) fn new(value: T) -> Kept<T> {
        Kept(NonNull::from(Box::leak(Box::new(value))))
    }

    /// The value, for longer than the compiler sees: whoever calls this keeps what was borrowed no
    /// longer than `self`.
    pub(super) fn get(&self) -> &'static T {
        // SAFETY: it lives until `self` is dropped or taken back, and those who call this drop what
        // they got before.
        unsafe { self.0.as_ref() }
    }

    /// The value itself; nothing that was borrowed from it is there any more.
    pub(super) fn into_inner(self) -> T {
        let kept = std::mem::ManuallyDrop::new(self);
        // SAFETY: leaked in `new`, and taken back once, as `self` is not dropped.
        *unsafe { Box::from_raw(kept.0.as_ptr()) }
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        // SAFETY: leaked in `new`, and taken back once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
