//! Writing the regions of a file, each from front to back, with a checksum for each segment.

use super::format::{Region, SEGMENT_BYTES};
use crate::os::file::{read_exact_at, write_all_at};
use crate::{Error, Result};
use std::fs::File;
use std::sync::Mutex;
use xxhash_rust::xxh3::xxh3_64;

/// Where a build writes to.
#[derive(Debug)]
pub(crate) enum Sink {
    File(File),
    Memory(Mutex<Vec<u8>>),
}

impl Sink {
    /// Writes all of `bytes` at `at`.
    pub(crate) fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
        match self {
            Sink::File(file) => write_all_at(file, bytes, at).map_err(|e| Error::io("write", e)),
            Sink::Memory(memory) => {
                let mut memory = memory.lock().unwrap_or_else(|e| e.into_inner());
                let start = at as usize;
                if memory.len() < start + bytes.len() {
                    memory.resize(start + bytes.len(), 0);
                }
                if let Some(place) = memory.get_mut(start..start + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
                Ok(())
            }
        }
    }

    /// Reads back what was written.
    pub(crate) fn read_at(&self, buf: &mut [u8], at: u64) -> Result<()> {
        match self {
            Sink::File(file) => read_exact_at(file, buf, at),
            Sink::Memory(memory) => {
                let memory = memory.lock().unwrap_or_else(|e| e.into_inner());
                match memory.get(at as usize..at as usize + buf.len()) {
                    Some(bytes) => buf.copy_from_slice(bytes),
                    None => return Err(Error::corrupt(at, "nothing was written here")),
                }
                Ok(())
            }
        }
    }

    /// Cuts off everything from `len` on.
    pub(crate) fn truncate(&self, len: u64) -> Result<()> {
        match self {
            Sink::File(file) => file.set_len(len).map_err(|e| Error::io("truncate", e)),
            Sink::Memory(memory) => {
                memory.lock().unwrap_or_else(|e| e.into_inner()).truncate(len as usize);
                Ok(())
            }
        }
    }
}

/// Appends to a region. Invariant: `buffer` holds the bytes from `region.end() - buffer.len()`
/// on, less than a segment, and all before it are written and summed.
#[derive(Debug)]
pub(crate) struct RegionWriter {
    region: Region,
    buffer: Vec<u8>,
    sums: Vec<u64>,
}

impl RegionWriter {
    /// An empty region that begins at `at`.
    pub(crate) fn new(at: u64) -> RegionWriter {
        RegionWriter { region: Region { at, len: 0 }, buffer: Vec::new(), sums: Vec::new() }
    }

    /// Whether nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.region.len == 0
    }

    /// Where the next byte goes.
    pub(crate) fn position(&self) -> u64 {
        self.region.end()
    }

    /// Appends `bytes`.
    #[inline]
    pub(crate) fn write(&mut self, sink: &Sink, mut bytes: &[u8]) -> Result<()> {
        self.region.len += bytes.len() as u64;
        let segment = SEGMENT_BYTES as usize;
        while self.buffer.len() + bytes.len() >= segment {
            let room = segment - self.buffer.len();
            let (now, later) = bytes.split_at(room);
            self.buffer.extend_from_slice(now);
            bytes = later;
            let at = self.region.at + self.sums.len() as u64 * SEGMENT_BYTES;
            self.flush(sink, at)?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self, sink: &Sink, at: u64) -> Result<()> {
        self.sums.push(xxh3_64(&self.buffer));
        sink.write_at(&self.buffer, at)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the rest; the region and the sums of its segments.
    pub(crate) fn finish(mut self, sink: &Sink) -> Result<(Region, Vec<u64>)> {
        if !self.buffer.is_empty() {
            let at = self.region.at + self.sums.len() as u64 * SEGMENT_BYTES;
            self.flush(sink, at)?;
        }
        Ok((self.region, self.sums))
    }
}

/// Sums segment `index` of a written region again, after something in it was changed.
pub(crate) fn sum_again(sink: &Sink, region: Region, index: u64) -> Result<u64> {
    let at = index * SEGMENT_BYTES;
    let mut buf = vec![0; (region.len - at).min(SEGMENT_BYTES) as usize];
    sink.read_at(&mut buf, region.at + at)?;
    Ok(xxh3_64(&buf))
}
