//! Reading every record: first the log, then the buckets, then the lists, each front to back.
//!
//! Every record is met once, and the records of one key in the order in which they were added:
//! see [`super::lists`] for how lists and log share the work.

use super::block::{Block, LINE};
use super::bucket::{Shape, each_record};
use super::directory::{GROUP_BUCKETS, GROUP_BYTES, place, span};
use super::flat::{Flat, Group, Outcome};
use super::format::{ALIGN, Addressing, Header, Kind, Region};
use super::handle::Constant;
use super::lanes::prefetch;
use super::lookup::{List, LogRecord, RECORD_HEAD, passes_end};
use crate::bytes::le32;
use crate::observe::{Recorder, Walk};
use crate::os::file::copied;
use crate::os::source::{Memory, Source};
use crate::stats::Moved;
use crate::{Bytes, Error, Record, Result};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;

/// Bytes asked for at once where reading costs a system call.
const WINDOW: u64 = 1 << 20;

/// Records of the log between the one that is read and the one that is asked for.
const AHEAD: usize = 8;
/// Groups read in one step: a few hundred kilobytes.
const GROUPS_AT_ONCE: u64 = 32;

/// Blocks read in one step: at most as much.
const BLOCKS_AT_ONCE: u64 = 512;

/// Records of one size that are read in one step.
const RECORDS_AT_ONCE: u64 = 8192;

/// Where a scan is.
#[derive(Clone, Copy, Debug)]
enum Cursor {
    Log(u64),
    /// The number of the next group, block or record, and where it must begin.
    Buckets(u64, u64),
    Lists(u64),
    End,
}

/// A scan under way: each step decodes one window of the file.
#[derive(Debug)]
pub(crate) struct Scanner<'h> {
    header: &'h Header,
    shape: Shape,
    cursor: Cursor,
    /// The list at the cursor, if it is longer than a step.
    list: Option<List>,
    /// Records, and bytes of them, that lists may still lead to.
    left: (u64, u64),
}

impl<'h> Scanner<'h> {
    pub(crate) fn new(header: &'h Header, shape: Shape) -> Self {
        let left = (header.records, header.key_bytes.saturating_add(header.value_bytes));
        Scanner { header, shape, cursor: Cursor::Log(header.log.at), list: None, left }
    }

    /// The records there are one after the other.
    fn records(&self) -> u64 {
        match self.header.addressing {
            Addressing::Rows(_) => self.header.records,
            _ => 0,
        }
    }

    /// Reads the next window and gives the keys and values in it to `f`; false when all is read.
    #[inline(always)]
    fn step<S: Source>(
        &mut self,
        source: &S,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<bool> {
        self.cursor = match self.cursor {
            Cursor::Log(at) if at < self.header.log.end() => {
                Cursor::Log(log_window(source, self.header.log, at, &mut f)?)
            }
            Cursor::Log(_) => Cursor::Buckets(0, self.header.buckets.at),
            Cursor::Buckets(..) if self.shape.kind == Kind::Refs => {
                Cursor::Lists(self.header.lists.at)
            }
            Cursor::Buckets(number, at) if number < self.records() => {
                let end = (number + RECORDS_AT_ONCE).min(self.records());
                Cursor::Buckets(end, rows(source, &self.shape, (end - number, at), &mut f)?)
            }
            Cursor::Buckets(number, at) if number < self.header.block_count() => {
                let end = (number + BLOCKS_AT_ONCE).min(self.header.block_count());
                Cursor::Buckets(end, blocks(source, self.header, (end - number, at), &mut f)?)
            }
            Cursor::Buckets(number, mut at) if number < self.header.groups() => {
                let end = (number + GROUPS_AT_ONCE).min(self.header.groups());
                let mut flat = Flat::new();
                for number in number..end {
                    at = group(source, self.header, &self.shape, (number, at), &mut flat, &mut f)?;
                }
                Cursor::Buckets(end, at)
            }
            Cursor::Buckets(..) => Cursor::Lists(self.header.lists.at),
            Cursor::Lists(at) if at < self.header.lists.end() => {
                Cursor::Lists(self.list(source, at, &mut f)?)
            }
            Cursor::Lists(_) | Cursor::End => {
                self.cursor = Cursor::End;
                return Ok(false);
            }
        };
        Ok(true)
    }

    /// The next records of the list at `at`, unless the log's scan met them; where to go on.
    fn list<S: Source>(
        &mut self,
        source: &S,
        at: u64,
        f: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<u64> {
        let mut list = match self.list.take() {
            Some(list) => list,
            None => List::read(source, self.header.log, self.header.lists, at)?,
        };
        if list.in_log {
            return Ok(list.end);
        }
        let mut given = 0;
        while given < WINDOW {
            let Some(place) = list.next(source)? else {
                // After the head of this list at least, so that there is an end of lists.
                return Ok(list.end);
            };
            let record = LogRecord::read(source, place)?;
            let bytes = (record.key_len + record.value_len) as u64;
            let left = (self.left.0.checked_sub(1), self.left.1.checked_sub(bytes));
            let (Some(records), Some(rest)) = left else {
                return Err(Error::corrupt(at, "the lists lead to more records than there are"));
            };
            self.left = (records, rest);
            let len = RECORD_HEAD + record.key_len + record.value_len;
            let bytes = source.read(place, len)?;
            let key_end = RECORD_HEAD + record.key_len;
            f(part(&bytes, RECORD_HEAD..key_end), part(&bytes, key_end..len))?;
            given += len as u64;
        }
        self.list = Some(list);
        Ok(at)
    }

    /// Goes past the record of the log that comes next, if it is longer than a window and no list's: who wants its lengths
    /// only needs no memory for it, and who keeps it no copy.
    fn next_long<S: Source>(&mut self, source: &S) -> Result<Option<LogRecord>> {
        let Cursor::Log(at) = self.cursor else { return Ok(None) };
        let left = self.header.log.end().saturating_sub(at);
        if left <= WINDOW {
            return Ok(None);
        }
        let record = LogRecord::read(source, at)?;
        let len = (RECORD_HEAD + record.key_len + record.value_len) as u64;
        if record.is_listed || !(WINDOW + 1..=left).contains(&len) {
            return Ok(None);
        }
        self.cursor = Cursor::Log(at + len.next_multiple_of(ALIGN));
        Ok(Some(record))
    }

    /// Records, and bytes of their keys and values. Long values that are in no list are not read.
    pub(crate) fn count<S: Source>(mut self, source: &S) -> Result<(u64, u64, u64)> {
        let (mut records, mut key_bytes, mut value_bytes) = (0, 0, 0);
        let mut add = |key_len: usize, value_len: usize| {
            records += 1;
            key_bytes += key_len as u64;
            value_bytes += value_len as u64;
        };
        loop {
            if let Some(record) = self.next_long(source)? {
                add(record.key_len, record.value_len);
                continue;
            }
            let has_more = self.step(source, |key, value| {
                add(key.len(), value.len());
                Ok(())
            })?;
            if !has_more {
                return Ok((records, key_bytes, value_bytes));
            }
        }
    }

    /// Gives every record to `f`.
    #[inline]
    pub(crate) fn scan<S: Source>(
        mut self,
        source: &S,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        while self.step(source, &mut f)? {}
        Ok(())
    }
}

/// So many records of one size, which begin at `start`; where they end.
#[inline(always)]
fn rows<S: Source>(
    source: &S,
    shape: &Shape,
    (count, start): (u64, u64),
    f: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    let Kind::Fixed { key_len, .. } = shape.kind else { return Err(passes_end(start)) };
    let window = source.read(start, count as usize * shape.entry_bytes)?;
    for record in window.chunks_exact(shape.entry_bytes.max(1)) {
        let (key, value) = record.split_at_checked(key_len).ok_or_else(|| passes_end(start))?;
        f(key, value)?;
    }
    Ok(start + window.len() as u64)
}

/// The inline entries of so many blocks, which begin at `start`; where they end.
#[inline(always)]
fn blocks<S: Source>(
    source: &S,
    header: &Header,
    (count, start): (u64, u64),
    f: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    let step = header.blocks().map_or(LINE, |blocks| blocks.step);
    let window = source.read(start, count as usize * step)?;
    for (number, bytes) in (0..).zip(window.chunks_exact(step)) {
        let block = Block::new(bytes);
        let all_are = match block {
            Some(block) => block.records(f)?,
            None => false,
        };
        if !all_are {
            return Err(passes_end(start + number * step as u64));
        }
    }
    Ok(start + window.len() as u64)
}

/// The inline entries of all buckets of a group, which begin at `start`; where they end.
#[inline(always)]
fn group<S: Source>(
    source: &S,
    header: &Header,
    shape: &Shape,
    (number, start): (u64, u64),
    flat: &mut Flat,
    f: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    let at = header.directory.at + number * GROUP_BYTES;
    let directory = source.read(at, GROUP_BYTES as usize)?;
    let directory = directory.first_chunk().ok_or_else(|| senseless(at))?;
    let whole = span(directory).filter(|whole| whole.at == start).ok_or_else(|| senseless(at))?;
    let window = source.read(whole.at, whole.len)?;
    if let Kind::Fixed { key_len, .. } = shape.kind {
        let all = Group { directory, at: whole.at, window: &window };
        match flat.give(shape, key_len, all, f)? {
            Outcome::Done => return Ok(whole.at + whole.len as u64),
            Outcome::Damaged => return Err(passes_end(whole.at)),
            Outcome::Unusual => {}
        }
    }
    for number in 0..GROUP_BUCKETS {
        let bucket = place(directory, number).ok_or_else(|| senseless(at))?;
        let from = (bucket.at - whole.at) as usize;
        let Some(bytes) = window.get(from..from + bucket.len) else { return Err(senseless(at)) };
        if !entries(shape, bytes, f)? {
            return Err(passes_end(bucket.at));
        }
    }
    Ok(whole.at + whole.len as u64)
}

#[cold]
fn senseless(at: u64) -> Error {
    Error::corrupt(at, "a group of the directory makes no sense")
}

/// The inline entries of a bucket; false if they pass its end.
#[inline(always)]
fn entries(
    shape: &Shape,
    bucket: &[u8],
    f: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<bool> {
    match shape.kind {
        Kind::Refs => Ok(true),
        Kind::Fixed { key_len, value_len } => {
            let n = shape.count_by_len(bucket.len());
            let mut rest = bucket.get(n..).unwrap_or_default();
            for _ in 0..n {
                let Some((key, more)) = rest.split_at_checked(key_len) else {
                    return Ok(false);
                };
                let Some((value, more)) = more.split_at_checked(value_len) else {
                    return Ok(false);
                };
                f(key, value)?;
                rest = more;
            }
            Ok(rest.is_empty())
        }
        Kind::Mixed => {
            let n = bucket.first().map_or(0, |n| usize::from(*n));
            let Some((lens, rest)) = bucket.split_at_checked(1 + 3 * n) else {
                return Ok(n == 0);
            };
            let (key_lens, sizes) = lens.get(1 + n..).unwrap_or_default().split_at(n);
            each_record(key_lens, sizes, rest, f)
        }
    }
}

/// The records of a window of the log that begins at `at`; where the next window begins.
#[inline]
fn log_window<S: Source>(
    source: &S,
    log: Region,
    at: u64,
    f: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    let left = log.end() - at;
    let window = source.read(at, left.min(WINDOW) as usize)?;
    let mut from = 0;
    while let Some(record) = decode(&window, from) {
        if record.value.end > window.len() {
            break;
        }
        // The next record's place is known only from this one, so the processor cannot look
        // ahead; but neighbours are often of one size.
        prefetch(&window, record.value.end + AHEAD * (record.value.end - from));
        from = record.value.end.next_multiple_of(ALIGN as usize);
        if !record.listed {
            f(part(&window, record.key), part(&window, record.value))?;
        }
    }
    if from > 0 {
        return Ok(at + from as u64);
    }
    // One record is longer than a window.
    let Some(record) = decode(&window, 0).filter(|r| r.value.end as u64 <= left) else {
        return Err(Error::corrupt(at, "a record passes the end of the log"));
    };
    if !record.listed {
        let whole = source.read(at, record.value.end)?;
        f(part(&whole, record.key), part(&whole, record.value.clone()))?;
    }
    Ok(at + record.value.end.next_multiple_of(ALIGN as usize) as u64)
}

fn part(window: &[u8], range: Range<usize>) -> &[u8] {
    window.get(range).unwrap_or_default()
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

/// An iterator over every record, in the order in which they lie in the file.
#[derive(Debug)]
pub struct Iter<'a> {
    scanner: Scanner<'a>,
    source: Either<'a>,
    /// Decoded and not yet returned.
    queue: VecDeque<Record<'a>>,
    failed: Option<Error>,
    /// What to name in errors.
    path: Option<&'a Path>,
    /// What counts the records, if that is asked for.
    walk: Option<Walk<'a>>,
}

#[derive(Debug)]
enum Either<'a> {
    Memory(Memory<'a>),
    Pread(crate::os::source::Pread<'a>),
}

impl<'a> Iter<'a> {
    pub(crate) fn of_memory(scanner: Scanner<'a>, memory: Memory<'a>) -> Iter<'a> {
        Iter {
            scanner,
            source: Either::Memory(memory),
            queue: VecDeque::new(),
            failed: None,
            path: None,
            walk: None,
        }
    }

    pub(crate) fn of_file(scanner: Scanner<'a>, file: crate::os::source::Pread<'a>) -> Iter<'a> {
        Iter {
            scanner,
            source: Either::Pread(file),
            queue: VecDeque::new(),
            failed: None,
            path: None,
            walk: None,
        }
    }

    /// The same, naming the file in errors, and counted as a scan if that is asked for.
    pub(crate) fn named(self, path: &'a Path, recorder: Option<&'a Recorder>) -> Iter<'a> {
        Iter { path: Some(path), walk: recorder.map(|recorder| recorder.walk(None)), ..self }
    }

    /// Decodes the next window, and counts what is in it; false at the end.
    fn fill(&mut self) -> Result<bool> {
        let filled = self.decode();
        if let Some(walk) = &mut self.walk {
            let mut moved = Moved::default();
            self.queue.iter().for_each(|(key, value)| moved.record(key, value));
            walk.moved(moved);
            if filled.is_err() {
                walk.failed();
            }
        }
        filled
    }

    /// Decodes the next window; false at the end.
    fn decode(&mut self) -> Result<bool> {
        let queue = &mut self.queue;
        match &self.source {
            Either::Memory(memory) => {
                let memory = *memory;
                let start = memory.0.as_ptr().addr();
                // What the scan shows for the time of a call lives as long as the memory does.
                let keep = |part: &[u8]| -> Bytes<'a> {
                    let at = part.as_ptr().addr().wrapping_sub(start);
                    Cow::Borrowed(memory.0.get(at..at.wrapping_add(part.len())).unwrap_or_default())
                };
                self.scanner.step(&memory, |key, value| {
                    queue.push_back((keep(key), keep(value)));
                    Ok(())
                })
            }
            Either::Pread(file) => {
                if let Some(record) = self.scanner.next_long(file)? {
                    let (key, value) = (record.key(file)?, record.value(file)?);
                    queue.push_back((Cow::Owned(key), Cow::Owned(value)));
                    return Ok(true);
                }
                self.scanner.step(file, |key, value| {
                    queue.push_back((copied(key)?, copied(value)?));
                    Ok(())
                })
            }
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
                Err(error) => {
                    self.failed = Some(match self.path {
                        Some(path) => error.at(path),
                        None => error,
                    });
                }
            }
        }
    }
}

impl std::iter::FusedIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Constant {
    type Item = Result<Record<'a>>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
