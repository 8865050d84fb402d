//! Runs: records in order, written one behind the other to a file without a name, and read again.
//!
//! A record is the length of its key and that of its value, four bytes each, the key and the value.

use super::batch::{Batch, Record, record};
use crate::bytes::le32;
use crate::os::file::read_exact_at;
use crate::os::process::longest_file;
use crate::os::publish::scratch_beside;
use crate::{Error, ErrorKind, Result};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What is written, or read, at once at most, unless a record is longer.
const BUFFER: usize = 256 << 10;
const LEAST_BUFFER: usize = 16 << 10;
/// Before each record: the lengths.
const LENGTHS: usize = 8;

/// The runs of a sort.
#[derive(Default)]
pub(super) struct Runs {
    scratch: Option<Scratch>,
    runs: Vec<Run>,
}

/// One of them.
struct Run {
    /// Where it begins and ends.
    place: (u64, u64),
    /// Bytes of its longest record.
    longest: u64,
}

impl Run {
    /// Bytes of memory that reading it takes at least: of what was read, and as records.
    fn least_memory(&self) -> u64 {
        2 * self.longest.max(LEAST_BUFFER as u64)
    }
}

/// The file that they are in, and beside which one it is.
struct Scratch {
    file: File,
    beside: PathBuf,
}

impl Scratch {
    fn named(&self, action: &'static str) -> impl Fn(std::io::Error) -> Error {
        move |e| Error::io(action, e).at(&self.beside)
    }
}

impl Runs {
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether all can be read at once with so many bytes of memory, or there are no more than two.
    pub(super) fn fit(&self, memory: u64) -> bool {
        self.runs.len() <= 2 || self.runs.iter().map(Run::least_memory).sum::<u64>() <= memory
    }

    /// As many neighbours as can be read at once, two at least, from the first to the last.
    pub(super) fn groups(&self, memory: u64) -> Vec<Range<usize>> {
        let (mut groups, mut start, mut taken) = (Vec::new(), 0, 0);
        for (i, run) in self.runs.iter().enumerate() {
            if taken + run.least_memory() > memory && i - start >= 2 {
                groups.push(start..i);
                (start, taken) = (i, 0);
            }
            taken += run.least_memory();
        }
        groups.push(start..self.runs.len());
        groups
    }

    /// Writes one more.
    pub(super) fn write<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        beside: &Path,
        records: impl Iterator<Item = Result<(K, V)>>,
    ) -> Result<()> {
        let scratch = match &self.scratch {
            Some(scratch) => scratch,
            None => {
                let file = scratch_beside(beside)?;
                self.scratch.insert(Scratch { file, beside: beside.to_owned() })
            }
        };
        let start = self.runs.last().map_or(0, |run| run.place.1);
        let (mut end, mut longest, mut buffer) = (start, 0, Vec::with_capacity(BUFFER));
        let mut flush = |buffer: &mut Vec<u8>| {
            // Beyond it the kernel would end the process.
            let written = match end + buffer.len() as u64 > longest_file() {
                true => Err(std::io::ErrorKind::FileTooLarge.into()),
                false => scratch.file.write_all_at(buffer, end),
            };
            written.map_err(scratch.named("write records to a file beside"))?;
            end += buffer.len() as u64;
            buffer.clear();
            Ok(())
        };
        for record in records {
            let (key, value) = record?;
            let (key, value) = (key.as_ref(), value.as_ref());
            let len = LENGTHS + key.len() + value.len();
            longest = longest.max(len as u64);
            if buffer.len() + len > BUFFER {
                flush(&mut buffer)?;
            }
            for part in [key, value] {
                buffer.extend(length(part)?.to_le_bytes());
            }
            buffer.extend_from_slice(key);
            buffer.extend_from_slice(value);
        }
        flush(&mut buffer)?;
        self.runs.push(Run { place: (start, end), longest });
        Ok(())
    }

    /// Readers of some, with so many bytes of memory together, if that is enough.
    pub(super) fn readers(&self, some: Range<usize>, memory: u64) -> Vec<Reader> {
        let each = memory / 2 / some.len().max(1) as u64;
        let buffer = each.clamp(LEAST_BUFFER as u64, BUFFER as u64) as usize;
        let reader = |run: &Run| {
            let ((at, end), batch, next) = (run.place, Rc::default(), 0);
            Reader { at, end, buffer, batch, next }
        };
        self.runs.get(some).unwrap_or_default().iter().map(reader).collect()
    }

    /// Readers of all.
    pub(super) fn all_readers(&self, memory: u64) -> Vec<Reader> {
        self.readers(0..self.runs.len(), memory)
    }
}

/// A run that is being read.
pub(super) struct Reader {
    /// What was not read yet.
    at: u64,
    end: u64,
    buffer: usize,
    batch: Rc<Batch>,
    next: usize,
}

impl Reader {
    /// The next record; `None` at the end.
    pub(super) fn next(&mut self, runs: &Runs) -> Result<Option<Record>> {
        if self.next >= self.batch.len() {
            let Some(scratch) = runs.scratch.as_ref().filter(|_| self.at < self.end) else {
                return Ok(None);
            };
            self.fill(scratch)?;
        }
        self.next += 1;
        Ok(Some(record(&self.batch, self.next - 1)))
    }

    /// Reads as many records as the buffer has room for, and one at least.
    fn fill(&mut self, scratch: &Scratch) -> Result<()> {
        let changed = || Error::invalid("the file of sorted records changed").at(&scratch.beside);
        let (mut batch, mut wanted) = (Batch::default(), self.buffer as u64);
        while batch.len() == 0 {
            let mut bytes = vec![0; wanted.min(self.end - self.at) as usize];
            read_exact_at(&scratch.file, &mut bytes, self.at).map_err(|e| e.at(&scratch.beside))?;
            let mut rest = bytes.as_slice();
            while let Some((key, value, behind)) = split(rest) {
                batch.push(key, value);
                rest = behind;
            }
            self.at += (bytes.len() - rest.len()) as u64;
            // A record that is longer than the buffer.
            wanted = record_bytes(rest).filter(|need| *need > wanted).unwrap_or(0);
            if batch.len() == 0 && wanted == 0 {
                return Err(changed());
            }
        }
        (self.batch, self.next) = (Rc::new(batch), 0);
        Ok(())
    }
}

/// The length of a key or a value; what is too long for a run is so for every table.
fn length(part: &[u8]) -> Result<u32> {
    let too_large = |_| {
        let (size, limit) = (part.len() as u64, u64::from(u32::MAX));
        Error::new(ErrorKind::TooLarge { what: "a key or a value", size, limit })
    };
    u32::try_from(part.len()).map_err(too_large)
}

/// How many bytes the record that begins there takes.
fn record_bytes(bytes: &[u8]) -> Option<u64> {
    let [key, value] = [le32(bytes, 0)?, le32(bytes, 4)?].map(u64::from);
    Some(LENGTHS as u64 + key + value)
}

/// The record that begins there, if it is whole, and what is behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let key = le32(bytes, 0)? as usize;
    let (record, behind) = bytes.split_at_checked(usize::try_from(record_bytes(bytes)?).ok()?)?;
    let (key, value) = record.get(LENGTHS..)?.split_at_checked(key)?;
    Some((key, value, behind))
}
