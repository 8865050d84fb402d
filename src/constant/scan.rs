//! Reading every record: first the log, then the blocks, then the lists, each from front to back.
//!
//! Every record is met once, and the records of one key in the order in which they were added:
//! see [`super::lists`] for how lists and log share the work.

use super::block::{HEAD_BYTES, REF_MARK, Shape};
use super::format::{ALIGN, Header, Kind, Region};
use super::lookup::{IN_LOG, LIST_HEAD, LogRecord, RECORD_HEAD, list_places, passes_end};
use super::source::{Memory, Source};
use crate::bytes::{le32, le64};
use crate::{Bytes, Error, Record, Result};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes asked for at once where reading costs a system call.
const WINDOW: u64 = 256 << 10;

/// Where a scan is.
#[derive(Clone, Copy, Debug)]
enum Cursor {
    Log(u64),
    Blocks(u64),
    Lists(u64),
    End,
}

/// A scan under way: each step decodes one window of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'h> {
    header: &'h Header,
    shape: Shape,
    cursor: Cursor,
}

impl<'h> Scanner<'h> {
    pub(crate) fn new(header: &'h Header, shape: Shape) -> Self {
        Scanner { header, shape, cursor: Cursor::Log(header.log.at) }
    }

    /// Reads the next window and gives its bytes and the ranges of key and value in them to `f`;
    /// false when all is read.
    #[inline]
    fn step<'a, S: Source>(
        &mut self,
        source: &'a S,
        mut f: impl FnMut(&S::Bytes<'a>, Range<usize>, Range<usize>) -> Result<()>,
    ) -> Result<bool> {
        self.cursor = match self.cursor {
            Cursor::Log(at) if at < self.header.log.end() => {
                Cursor::Log(log_window(source, self.header.log, at, &mut f)?)
            }
            Cursor::Log(_) => Cursor::Blocks(self.header.blocks.at),
            Cursor::Blocks(at) if at < self.header.blocks.end() => {
                let len = (self.header.blocks.end() - at).min(WINDOW);
                let window = source.read(at, len as usize)?;
                for (i, block) in window.chunks_exact(self.shape.block_bytes).enumerate() {
                    let from = i * self.shape.block_bytes;
                    let shift = |r: Range<usize>| r.start + from..r.end + from;
                    let done = entries(&self.shape, block, |key, value| {
                        f(&window, shift(key), shift(value))
                    })?;
                    if !done {
                        return Err(passes_end(at + from as u64));
                    }
                }
                Cursor::Blocks(at + len)
            }
            Cursor::Blocks(_) => Cursor::Lists(self.header.lists.at),
            Cursor::Lists(at) if at < self.header.lists.end() => {
                Cursor::Lists(list(source, self.header.lists, at, &mut f)?)
            }
            Cursor::Lists(_) | Cursor::End => {
                self.cursor = Cursor::End;
                return Ok(false);
            }
        };
        Ok(true)
    }

    /// Gives every record to `f`.
    #[inline]
    pub(crate) fn scan<S: Source>(
        mut self,
        source: &S,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let part = |window: &S::Bytes<'_>, key: Range<usize>, value: Range<usize>| {
            f(window.get(key).unwrap_or_default(), window.get(value).unwrap_or_default())
        };
        let mut part = part;
        while self.step(source, &mut part)? {}
        Ok(())
    }
}

/// The inline entries of a block as ranges of key and value; false if they pass its end.
#[inline(always)]
fn entries(
    shape: &Shape,
    block: &[u8],
    mut f: impl FnMut(Range<usize>, Range<usize>) -> Result<()>,
) -> Result<bool> {
    let Some(n) = Shape::count(block) else { return Ok(false) };
    match shape.kind {
        Kind::Refs => Ok(true),
        Kind::Fixed { key_len, value_len } => {
            let size = key_len + value_len;
            let mut at = HEAD_BYTES + n;
            if at + n * size > block.len() {
                return Ok(false);
            }
            for _ in 0..n {
                f(at..at + key_len, at + key_len..at + size)?;
                at += size;
            }
            Ok(true)
        }
        Kind::Mixed => {
            let mut at = HEAD_BYTES + 3 * n;
            let Some(lens) = block.get(HEAD_BYTES + n..at) else { return Ok(false) };
            let (key_lens, sizes) = lens.split_at(n);
            for (key_len, size) in key_lens.iter().zip(sizes) {
                let end = at + usize::from(*size);
                if end > block.len() {
                    return Ok(false);
                }
                if *key_len != REF_MARK {
                    let split = at + usize::from(*key_len);
                    if split > end {
                        return Ok(false);
                    }
                    f(at..split, split..end)?;
                }
                at = end;
            }
            Ok(true)
        }
    }
}

/// The records of a window of the log that begins at `at`; where the next window begins.
#[inline]
fn log_window<'a, S: Source>(
    source: &'a S,
    log: Region,
    at: u64,
    f: &mut impl FnMut(&S::Bytes<'a>, Range<usize>, Range<usize>) -> Result<()>,
) -> Result<u64> {
    let left = log.end() - at;
    let window = source.read(at, left.min(WINDOW) as usize)?;
    let mut from = 0;
    while let Some(record) = decode(&window, from) {
        if record.value.end > window.len() {
            break;
        }
        from = record.value.end.next_multiple_of(ALIGN as usize);
        if !record.listed {
            f(&window, record.key, record.value)?;
        }
    }
    if from > 0 {
        return Ok(at + from as u64);
    }
    // One record is longer than a window.
    let Some(record) = decode(&window, 0).filter(|r| r.value.end as u64 <= left) else {
        return Err(Error::corrupt(at, "a record passes the end of the log"));
    };
    let whole = source.read(at, record.value.end)?;
    if !record.listed {
        f(&whole, record.key, record.value.clone())?;
    }
    Ok(at + record.value.end.next_multiple_of(ALIGN as usize) as u64)
}

/// A log record within a window.
struct Decoded {
    key: Range<usize>,
    value: Range<usize>,
    listed: bool,
}

#[inline(always)]
fn decode(window: &[u8], from: usize) -> Option<Decoded> {
    let key_word = le32(window, from)?;
    let value_len = le32(window, from + 4)? as usize;
    let key_at = from + RECORD_HEAD;
    let value_at = key_at.checked_add((key_word & !super::lookup::LISTED) as usize)?;
    let end = value_at.checked_add(value_len)?;
    let listed = key_word & super::lookup::LISTED != 0;
    Some(Decoded { key: key_at..value_at, value: value_at..end, listed })
}

/// The records of the list at `at`, unless the log's scan met them; where the next list begins.
fn list<'a, S: Source>(
    source: &'a S,
    lists: Region,
    at: u64,
    f: &mut impl FnMut(&S::Bytes<'a>, Range<usize>, Range<usize>) -> Result<()>,
) -> Result<u64> {
    let head = source.read(at, LIST_HEAD)?;
    let count = le64(&head, 0).unwrap_or_default();
    let next = at.checked_add(le64(&head, 8).unwrap_or_default());
    let next = match next {
        Some(next) if next >= at + LIST_HEAD as u64 && next <= lists.end() => next,
        _ => return Err(Error::corrupt(at, "a list passes the end of the lists")),
    };
    if count & IN_LOG == 0 {
        for place in list_places(source, at)? {
            let record = LogRecord::read(source, place)?;
            let len = RECORD_HEAD + record.key_len + record.value_len;
            let bytes = source.read(place, len)?;
            let key_end = RECORD_HEAD + record.key_len;
            f(&bytes, RECORD_HEAD..key_end, key_end..len)?;
        }
    }
    Ok(next)
}

/// An iterator over every record, in the order of [`Scanner`].
#[derive(Debug)]
pub struct Iter<'a> {
    scanner: Scanner<'a>,
    source: Either<'a>,
    /// Decoded and not yet returned.
    queue: VecDeque<Record<'a>>,
    failed: Option<Error>,
}

#[derive(Debug)]
enum Either<'a> {
    Memory(Memory<'a>),
    Pread(super::source::Pread<'a>),
}

impl<'a> Iter<'a> {
    pub(crate) fn of_memory(scanner: Scanner<'a>, memory: Memory<'a>) -> Iter<'a> {
        Iter { scanner, source: Either::Memory(memory), queue: VecDeque::new(), failed: None }
    }

    pub(crate) fn of_file(scanner: Scanner<'a>, file: super::source::Pread<'a>) -> Iter<'a> {
        Iter { scanner, source: Either::Pread(file), queue: VecDeque::new(), failed: None }
    }

    /// Decodes the next window; false at the end.
    fn fill(&mut self) -> Result<bool> {
        let queue = &mut self.queue;
        match &self.source {
            Either::Memory(memory) => {
                let memory = *memory;
                let cut = |w: &'a [u8], r: Range<usize>| -> Bytes<'a> {
                    Cow::Borrowed(w.get(r).unwrap_or_default())
                };
                self.scanner.step(&memory, |window, key, value| {
                    queue.push_back((cut(window, key), cut(window, value)));
                    Ok(())
                })
            }
            Either::Pread(file) => self.scanner.step(file, |window: &Vec<u8>, key, value| {
                let own = |r: Range<usize>| Cow::Owned(window.get(r).unwrap_or_default().to_vec());
                queue.push_back((own(key), own(value)));
                Ok(())
            }),
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.queue.pop_front() {
                return Some(Ok(record));
            }
            if let Some(error) = self.failed.take() {
                self.scanner.cursor = Cursor::End;
                return Some(Err(error));
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) if self.queue.is_empty() => return None,
                Ok(false) => {}
                Err(error) => self.failed = Some(error),
            }
        }
    }
}

impl std::iter::FusedIterator for Iter<'_> {}
