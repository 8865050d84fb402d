//! Where the bytes of a constant file come from: memory, or `pread`.
//!
//! Lookup, scan and verify are written once over this trait; for memory every call is inlined to
//! a bounds check.

use crate::os::file::read_exact_at;
use crate::{Error, Result};
use std::fs::File;
use std::ops::{Deref, Range};

/// Random access to the bytes of a file.
pub(crate) trait Source {
    /// What a read returns: borrowed where the bytes are in memory.
    type Bytes<'a>: Deref<Target = [u8]>
    where
        Self: 'a;

    /// The `len` bytes at `at`; not having them is damage.
    fn read(&self, at: u64, len: usize) -> Result<Self::Bytes<'_>>;

    /// A part of what was read; the range lies within it.
    fn part<'a>(bytes: Self::Bytes<'a>, range: Range<usize>) -> Self::Bytes<'a>
    where
        Self: 'a;

    /// Asks for the cache line at `at`, where that means something.
    fn prefetch(&self, _at: u64) {}

    /// The bytes, if they are all in memory.
    fn memory(&self) -> Option<&[u8]> {
        None
    }
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
    fn part<'a>(bytes: &'d [u8], range: Range<usize>) -> &'d [u8]
    where
        Self: 'a,
    {
        bytes.get(range).unwrap_or_default()
    }

    #[inline(always)]
    fn prefetch(&self, at: u64) {
        super::view::prefetch(self.0, at as usize);
    }

    fn memory(&self) -> Option<&[u8]> {
        Some(self.0)
    }
}

/// A file read with `pread`.
#[derive(Debug)]
pub(crate) struct Pread<'f> {
    pub file: &'f File,
    pub len: u64,
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
        let mut buf = vec![0; len];
        read_exact_at(self.file, &mut buf, at)?;
        Ok(buf)
    }

    fn part<'a>(mut bytes: Vec<u8>, range: Range<usize>) -> Vec<u8>
    where
        Self: 'a,
    {
        bytes.truncate(range.end);
        bytes.drain(..range.start.min(bytes.len()));
        bytes
    }
}

#[cold]
fn outside(at: u64) -> Error {
    Error::corrupt(at, "a reference leads past the end of the file")
}
