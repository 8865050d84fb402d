//! Runs: records in order, written one behind the other to a file without a name, as batches have them, and read again.

use super::batch::{Batch, Record, record_end};
use crate::btree::KeyValue;
use crate::os::file::{buffer, read_exact_at, write_all_at};
use crate::os::place::Place;
use crate::os::publish::scratch_beside;
use crate::{Error, Result};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

/// What is written at once, to the end of a record, and what is read at most, unless a record is longer.
const BUFFER: usize = 256 << 10;
const LEAST_BUFFER: usize = 16 << 10;

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
    /// Bytes of memory that reading it takes at least: of what is read, and of the batch before, as long as a record of
    /// that waits.
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
    pub(super) fn write<R: KeyValue>(
        &mut self,
        beside: &Place,
        records: impl Iterator<Item = Result<R>>,
    ) -> Result<()> {
        let scratch = match &self.scratch {
            Some(scratch) => scratch,
            None => {
                let file = scratch_beside(beside)?;
                self.scratch.insert(Scratch { file, beside: beside.path().to_owned() })
            }
        };
        let start = self.runs.last().map_or(0, |run| run.place.1);
        let (mut end, mut longest, mut batch) = (start, 0, Batch::default());
        let mut flush = |batch: &mut Batch| {
            let bytes = batch.bytes();
            let written = write_all_at(&scratch.file, bytes, end);
            written.map_err(scratch.named("write records to a file beside"))?;
            end += bytes.len() as u64;
            batch.clear();
            Ok(())
        };
        for record in records {
            let record = record?;
            let (key, value) = record.parts();
            let before = batch.end();
            batch.push(key, value)?;
            longest = longest.max((batch.end() - before) as u64);
            if batch.end() >= BUFFER {
                flush(&mut batch)?;
            }
        }
        flush(&mut batch)?;
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
        if self.next >= self.batch.end() {
            let Some(scratch) = runs.scratch.as_ref().filter(|_| self.at < self.end) else {
                return Ok(None);
            };
            self.fill(scratch)?;
        }
        let record = Record::new(&self.batch, self.next);
        self.next = self.batch.after(self.next);
        Ok(Some(record))
    }

    /// Reads as many records as the buffer has room for, and one at least.
    fn fill(&mut self, scratch: &Scratch) -> Result<()> {
        let changed = || Error::invalid("the file of sorted records changed").at(&scratch.beside);
        let mut wanted = self.buffer as u64;
        let batch = loop {
            let mut bytes = buffer(wanted.min(self.end - self.at) as usize)?;
            read_exact_at(&scratch.file, &mut bytes, self.at).map_err(|e| e.at(&scratch.beside))?;
            // A record that is longer than the buffer.
            let first = record_end(&bytes, 0).ok_or_else(changed)?;
            if first > bytes.len() {
                wanted = Some(first as u64).filter(|first| *first > wanted).ok_or_else(changed)?;
                continue;
            }
            break Batch::of(bytes);
        };
        self.at += batch.end() as u64;
        (self.batch, self.next) = (Rc::new(batch), 0);
        Ok(())
    }
}
