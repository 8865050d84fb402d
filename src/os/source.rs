//! Where the bytes of an open file come from: memory, or `pread`.
//!
//! Lookup, scan and verify of an engine are written once over this trait; for memory every call
//! is inlined to a bounds check.

#![allow(unsafe_code)]

use super::file::{buffer, read_exact_at};
use crate::{Error, Result};
use std::fs::File;
use std::ops::Deref;

/// Random access to the bytes of a file.
pub(crate) trait Source {
    /// What a read returns: borrowed where the bytes are in memory.
    type Bytes<'a>: Deref<Target = [u8]>
    where
        Self: 'a;

    /// The `len` bytes at `at`; not having them is damage.
    fn read(&self, at: u64, len: usize) -> Result<Self::Bytes<'_>>;

    /// Asks for the cache line at `at`, where that means something.
    fn prefetch(&self, _at: u64) {}
}

/// Bytes in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory<'d>(pub &'d [u8]);

impl<'d> Source for Memory<'d> {
    type Bytes<'a>
        = &'d [u8]
    where
        Self: 'a;

    #[inline(always)]
    fn read(&self, at: u64, len: usize) -> Result<&'d [u8]> {
        let start = at as usize;
        match self.0.get(start..start.wrapping_add(len)) {
            Some(bytes) => Ok(bytes),
            None => Err(outside(at)),
        }
    }

    #[inline(always)]
    fn prefetch(&self, at: u64) {
        prefetch(self.0, at as usize);
    }
}

/// Bytes read at once to bring a file into memory.
const PRELOAD_BYTES: u64 = 1 << 20;

/// A file read with `pread`.
#[derive(Debug)]
pub(crate) struct Pread<'f> {
    pub file: &'f File,
    pub len: u64,
}

impl Pread<'_> {
    /// Reads all of it, so that the kernel has it in memory.
    pub(crate) fn preload(&self) -> Result<()> {
        let mut buf = buffer(PRELOAD_BYTES.min(self.len) as usize)?;
        for at in (0..self.len).step_by(PRELOAD_BYTES as usize) {
            let len = PRELOAD_BYTES.min(self.len - at) as usize;
            read_exact_at(self.file, buf.get_mut(..len).unwrap_or_default(), at)?;
        }
        Ok(())
    }
}

impl Source for Pread<'_> {
    type Bytes<'a>
        = Vec<u8>
    where
        Self: 'a;

    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        // Checked against the length first: a damaged length must not allocate.
        if at.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Err(outside(at));
        }
        // And a hole is as long as one likes.
        let mut buf = buffer(len)?;
        read_exact_at(self.file, &mut buf, at)?;
        Ok(buf)
    }
}

#[cold]
fn outside(at: u64) -> Error {
    Error::corrupt(at, "a reference leads past the end of the file")
}

/// Asks for the cache line at `bytes[at]`, if there is one; only a hint.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(at) {
        use std::arch::x86_64::*;
        // SAFETY: prefetching has no effect on memory, and the address is that of a live byte.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at);
}
