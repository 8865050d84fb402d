//! The order of keys of the type `custom`, as a function that a C library calls for each two keys that it
//! compares. Each driver wraps it as its library declares such functions.
//!
//! Invariant: it is the order of the bytes, as the workbench and every store without such a type have it.

#![allow(unsafe_code)]

use std::cmp::Ordering;
use std::ffi::{CStr, c_int};

/// Its name, which some libraries keep in their files.
pub(super) const NAME: &CStr = c"credenza.custom";

/// How two keys compare, each given by its address and its length: below 0, 0, or above.
///
/// # Safety
/// So many bytes are readable at each address, or there are none.
#[inline]
pub(super) unsafe fn compare(one: (*const u8, usize), other: (*const u8, usize)) -> c_int {
    let bytes = |(data, len)| match len {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(data, len) },
    };
    match bytes(one).cmp(bytes(other)) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Danger: a store whose keys are in another order than the workbench takes them to be.
    #[test]
    fn it_is_the_order_of_the_bytes() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0", b"ab", b"\xff"];
        for (i, one) in keys.iter().enumerate() {
            for (j, other) in keys.iter().enumerate() {
                let told = |key: &[u8]| {
                    (if key.is_empty() { std::ptr::null() } else { key.as_ptr() }, key.len())
                };
                // SAFETY: both are there.
                let found = unsafe { compare(told(one), told(other)) };
                assert_eq!(found.cmp(&0), i.cmp(&j));
            }
        }
    }
}
