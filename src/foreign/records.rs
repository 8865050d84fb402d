//! Walking through the records, which lie one behind the other, and through the slots.

use super::format::{Format, Layout, Slot};
use super::probe::passes_end;
use crate::os::file::make_room;
use crate::os::source::Source;
use crate::{Error, Result};

/// Bytes read ahead.
const WINDOW: u64 = 1 << 16;

/// Reads a file forwards, in pieces of at least [`WINDOW`] where there is so much.
pub(super) struct Window<'s, S: Source> {
    source: &'s S,
    held: Option<S::Bytes<'s>>,
    at: u64,
    /// Nothing is read at or behind this.
    end: u64,
}

impl<'s, S: Source> Window<'s, S> {
    pub(super) fn new(source: &'s S, end: u64) -> Self {
        Window { source, held: None, at: 0, end }
    }

    /// The `len` bytes at `at`, or `None` if they are not all there.
    pub(super) fn read(&mut self, at: u64, len: u64) -> Result<Option<&[u8]>> {
        let room = self.end.saturating_sub(at);
        if len > room {
            return Ok(None);
        }
        let held = self.held.as_ref().map_or(0, |b| b.len() as u64);
        if at < self.at || at + len > self.at + held {
            let bytes = self.source.read(at, len.max(WINDOW).min(room) as usize)?;
            (self.held, self.at) = (Some(bytes), at);
        }
        let start = (at - self.at) as usize;
        Ok(self.held.as_ref().and_then(|b| b.get(start..start + len as usize)))
    }
}

/// A record: where it begins, and its lengths, which fit into the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub at: u64,
    pub key_len: u64,
    pub value_len: u64,
}

impl Record {
    /// Where the record ends.
    pub(super) fn end<F: Format>(&self) -> u64 {
        self.at + F::HEAD_BYTES as u64 + self.key_len + self.value_len
    }

    /// Its key and value.
    pub(super) fn split<'b, F: Format>(&self, bytes: &'b [u8]) -> Option<(&'b [u8], &'b [u8])> {
        bytes.get(F::HEAD_BYTES..)?.split_at_checked(self.key_len as usize)
    }
}

impl<F: Format> Layout<F> {
    /// The record at `at`, or `None` where they end.
    pub(super) fn record<S: Source>(
        &self,
        window: &mut Window<'_, S>,
        at: u64,
    ) -> Result<Option<Record>> {
        let room = self.data_end.saturating_sub(at);
        let head = window.read(at, F::HEAD_BYTES as u64)?.and_then(F::head);
        let Some((key_len, value_len)) = head else {
            return if room < F::ALIGN { Ok(None) } else { Err(passes_end(at)) };
        };
        if room < F::ALIGN && key_len == u64::from(u32::MAX) {
            return Ok(None);
        }
        let room = room - F::HEAD_BYTES as u64;
        if key_len > room || value_len > room - key_len {
            return Err(passes_end(at));
        }
        Ok(Some(Record { at, key_len, value_len }))
    }

    /// Calls `f` with every record's key and value.
    pub(super) fn scan<S: Source>(
        &self,
        source: &S,
        f: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut window = Window::new(source, self.data_end);
        let mut erased = Erased::default();
        let mut at = F::HEADER_BYTES as u64;
        while let Some(record) = self.record(&mut window, at)? {
            let end = record.end::<F>();
            let bytes = window.read(at, end - at)?.ok_or_else(|| passes_end(at))?;
            let (key, value) = record.split::<F>(bytes).ok_or_else(|| passes_end(at))?;
            if !erased.is(self, source, &record, value)? {
                f(key, value)?;
            }
            at = end;
        }
        Ok(())
    }

    /// Calls `f` with every slot, empty or not: its table, its index in it, and its offset.
    pub(super) fn slots<S: Source>(
        &self,
        source: &S,
        f: &mut dyn FnMut(usize, u64, u64, Slot) -> Result<()>,
    ) -> Result<()> {
        let mut window = Window::new(source, self.file_len);
        let size = self.format.slot_bytes();
        for (number, table) in self.tables.iter().enumerate() {
            for index in 0..table.slots {
                let at = self.slot_at(*table, index);
                let slot = window.read(at, size)?.and_then(|bytes| self.format.slot(bytes));
                let slot = slot.ok_or_else(|| Error::corrupt(at, "a slot passes the end"))?;
                f(number, index, at, slot)?;
            }
        }
        Ok(())
    }
}

/// Knows the records that are not there any more. `cdb -c -0` erases a record, in the middle of
/// what it has written, by making it one with an empty key and zeros as its value to which no
/// slot refers. Other records without a slot are damage.
#[derive(Debug, Default)]
pub(super) struct Erased {
    /// The records of the empty key to which slots refer, in order; read when first needed.
    referred: Option<Vec<u64>>,
}

impl Erased {
    pub(super) fn is<F: Format, S: Source>(
        &mut self,
        layout: &Layout<F>,
        source: &S,
        record: &Record,
        value: &[u8],
    ) -> Result<bool> {
        if record.key_len != 0 || value.iter().any(|b| *b != 0) {
            return Ok(false);
        }
        let referred = match &mut self.referred {
            Some(referred) => referred,
            none => none.insert(referred_of_empty_key(layout, source)?),
        };
        Ok(referred.binary_search(&record.at).is_err())
    }
}

fn referred_of_empty_key<F: Format, S: Source>(layout: &Layout<F>, source: &S) -> Result<Vec<u64>> {
    let mut probe = layout.probe(b"");
    let mut referred = Vec::new();
    while let Some(candidate) = layout.advance(source, &mut probe)? {
        make_room(&mut referred, 1)?;
        referred.push(candidate.record);
    }
    referred.sort_unstable();
    Ok(referred)
}
