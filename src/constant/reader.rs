//! Reading a constant file that is already in memory.

use super::fast::First;
use super::format::{HEADER_BYTES, Header};
use super::lookup::Index;
use super::scan::{Iter, Scanner};
use super::stats::Stats;
use super::verify::verify;
use crate::os::file::borrowed;
use crate::os::source::Memory;
use crate::{Bytes, Error, Get, Result, Scan};
use std::borrow::Cow;

/// What the header of a file says, decoded and checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub header: Header,
    pub index: Index,
}

impl Layout {
    /// Reads the first bytes of a file of `file_len` bytes.
    pub(crate) fn decode(first: &[u8], file_len: u64) -> Result<Layout> {
        let head = first.get(..HEADER_BYTES.min(first.len())).unwrap_or_default();
        let header = Header::decode(head, file_len)?;
        let index = Index::new(&header);
        let index = index.ok_or_else(|| Error::corrupt(28, "there is no such hash function"))?;
        Ok(Layout { header, index })
    }
}

/// A constant file as bytes in memory: the same lookups as [`super::Constant`], without a file.
///
/// ```
/// use credenza::constant::{BuildOptions, View};
/// let file = BuildOptions::new().build_in_memory([("one", "1"), ("two", "2"), ("two", "zwei")])?;
/// let view = View::new(&file)?;
/// assert_eq!(view.get(b"one")?, Some(&b"1"[..]));
/// assert_eq!(view.get_all(b"two")?, [&b"2"[..], b"zwei"]);
/// assert_eq!(view.get(b"three")?, None);
/// # Ok::<(), credenza::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct View<'d> {
    data: &'d [u8],
    layout: Layout,
}

impl<'d> View<'d> {
    /// Checks the header; costs the same whatever the size. See [`View::verify`] for the rest.
    ///
    /// # Errors
    /// The bytes are not a constant file, or are truncated, or their header is damaged.
    pub fn new(data: &'d [u8]) -> Result<View<'d>> {
        Ok(View { data, layout: Layout::decode(data, data.len() as u64)? })
    }

    /// The first value of `key`, or `None`.
    ///
    /// # Errors
    /// The file is damaged where it was read.
    #[inline(always)]
    pub fn get(&self, key: &[u8]) -> Result<Option<&'d [u8]>> {
        match self.layout.index.first_look(self.data, key) {
            First::Found(value) => Ok(Some(value)),
            First::Absent => Ok(None),
            First::Unclear => self.layout.index.find(&Memory(self.data), key),
        }
    }

    /// Every value of `key`, in the order in which they were added.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn get_all(&self, key: &[u8]) -> Result<Vec<&'d [u8]>> {
        self.layout.index.find_all(&Memory(self.data), key)
    }

    /// Every record, the values of one key in the order in which they were added. After an error
    /// the iterator ends.
    pub fn iter(&self) -> Iter<'_> {
        let scanner = Scanner::new(&self.layout.header, self.layout.index.shape);
        Iter::of_memory(scanner, Memory(self.data))
    }

    /// What is in the file; reads the head of every bucket.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn stats(&self) -> Result<Stats> {
        Stats::read(&self.layout.header, &self.layout.index, &Memory(self.data))
    }

    /// Checks every byte; `progress` is called with bytes done and bytes to do.
    ///
    /// # Errors
    /// The file is damaged: the error names the place.
    pub fn verify(&self, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        let Layout { header, index } = &self.layout;
        verify(header, index, &Memory(self.data), &mut progress)
    }
}

impl Get for View<'_> {
    #[inline(always)]
    fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        Ok(View::get(self, key)?.map(Cow::Borrowed))
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Bytes<'_>>> {
        borrowed(View::get_all(self, key)?)
    }

    fn get_many<K, F>(&self, keys: &[K], mut f: F) -> Result<()>
    where
        K: AsRef<[u8]>,
        F: FnMut(usize, Option<&[u8]>),
    {
        self.layout.index.find_many(self.data, keys, &mut f)
    }
}

impl Scan for View<'_> {
    fn scan<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        Scanner::new(&self.layout.header, self.layout.index.shape).scan(&Memory(self.data), f)
    }

    fn scan_checked<F>(&self, f: F) -> Result<()>
    where
        F: FnMut(&[u8], &[u8]) -> Result<()>,
    {
        self.verify(|_, _| {})?;
        self.scan(f)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.layout.header.records)
    }
}
