//! The bytes of a text file, with the line and column of the next one.
//!
//! Invariants: what is asked for is appended to the caller's buffer as it arrives, so that memory
//! follows what the input holds and never what it claims to hold, and where there is no more of it the
//! input is refused; lines and columns count bytes,
//! from 1, also inside binary keys and values. The source's buffer is given back only when all of it
//! has been taken, so that a record costs no call for that, and lines are counted as late as can be.

use crate::escape;
use credenza::{Error, ErrorKind, Result};
use memchr::{memchr, memchr_iter, memrchr};
use std::io::{BufRead, ErrorKind as IoKind};

/// The longest key the library stores.
pub(crate) const KEY_LIMIT: usize = 64 << 10;
/// The longest value the library stores.
pub(crate) const VALUE_LIMIT: usize = u32::MAX as usize;

/// No header line of a dump is longer.
const HEADER_LIMIT: usize = 64 << 10;
/// Digits of the largest number that fits 64 bits.
const MAX_DIGITS: u32 = 20;

/// Where something stands in the input, both counted from 1.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub line: u64,
    pub column: u64,
}

impl Place {
    /// The place `bytes` further right in the same line.
    pub fn right(self, bytes: usize) -> Place {
        Place { line: self.line, column: self.column + bytes as u64 }
    }
}

/// What a field is called in messages, and how long it may be.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    name: &'static str,
    limit: usize,
    /// In how many bytes of text one byte may be written.
    expansion: usize,
}

pub(crate) const KEY: Field = Field::new("key", KEY_LIMIT);
pub(crate) const VALUE: Field = Field::new("value", VALUE_LIMIT);

impl Field {
    pub const fn new(name: &'static str, limit: usize) -> Field {
        Field { name, limit, expansion: 1 }
    }

    pub fn name(self) -> &'static str {
        self.name
    }

    /// The same field as it stands in the input, where a byte may be written as four.
    pub fn escaped(self) -> Field {
        Field { expansion: 4, ..self }
    }

    fn text_limit(self) -> usize {
        self.limit.saturating_mul(self.expansion)
    }
}

/// A text input and the place of its next byte.
pub(crate) struct Input {
    source: Box<dyn BufRead>,
    format: &'static str,
    /// How much of the source's buffer has been taken; the source does not know yet.
    taken: usize,
    /// How much of that `place` has counted.
    counted: usize,
    /// Where the byte behind the counted ones stands.
    place: Place,
    /// Where the record at hand begins, once `place` has come there.
    record: Place,
    /// How much had been taken when it began, until then.
    begun: Option<usize>,
    /// The end has been seen: a terminal is not asked for more.
    ended: bool,
}

impl Input {
    pub fn new(format: &'static str, source: Box<dyn BufRead>) -> Input {
        let place = Place { line: 1, column: 1 };
        let (record, begun) = (place, None);
        Input { source, format, taken: 0, counted: 0, place, record, begun, ended: false }
    }

    /// Where the next byte stands.
    pub fn place(&mut self) -> Place {
        if let Some(begun) = self.begun.take() {
            self.count(begun);
            self.record = self.place;
        }
        self.count(self.taken);
        self.place
    }

    /// Counts the lines of what has been taken up to here.
    fn count(&mut self, end: usize) {
        if self.counted < end {
            // What has been taken is still buffered: no call that could fail.
            let buffer = self.source.fill_buf().unwrap_or_default();
            advance(&mut self.place, buffer.get(self.counted..end).unwrap_or_default());
            self.counted = end;
        }
    }

    /// A record begins at the next byte. Where that is, is counted when somebody asks.
    pub fn begin_record(&mut self) {
        self.begun = Some(self.taken);
    }

    /// An error at the begin of the record at hand.
    #[cold]
    pub fn error_of_record(&mut self, what: impl Into<String>) -> Error {
        self.place();
        self.error(self.record, what)
    }

    #[cold]
    pub fn error(&self, place: Place, what: impl Into<String>) -> Error {
        let Place { line, column } = place;
        Error::new(ErrorKind::Text { format: self.format, line, column, what: what.into() })
    }

    /// An error at the next byte, which is none of those that may stand there.
    #[cold]
    pub fn unexpected(&mut self, expected: &str) -> Error {
        let found = match self.peek() {
            Ok(Some(byte)) => format!("found '{}'", byte.escape_ascii()),
            Ok(None) => "the input ends".to_owned(),
            Err(error) => return error,
        };
        self.error_here(format!("expected {expected}, but {found}"))
    }

    /// An error at the next byte.
    #[cold]
    pub fn error_here(&mut self, what: impl Into<String>) -> Error {
        let place = self.place();
        self.error(place, what)
    }

    #[cold]
    fn too_long(&self, place: Place, field: Field) -> Error {
        let Field { name, limit, .. } = field;
        self.error(place, format!("a {name} of more than {limit} bytes is over the limit"))
    }

    /// There is no memory for a field of so many bytes, which may be part of it.
    #[cold]
    pub fn no_memory(&self, start: Place, field: Field, bytes: usize) -> Error {
        let name = field.name;
        self.error(start, format!("there is no memory for a {name} of {bytes} bytes or more"))
    }

    /// What is buffered and not taken yet, at least one byte; empty at the end of the input.
    fn fill(&mut self) -> Result<&[u8]> {
        while !self.ended {
            match self.source.fill_buf() {
                Ok([]) => self.ended = true,
                Ok(buffer) if buffer.len() > self.taken => break,
                Ok(_) => {
                    self.place();
                    self.source.consume(self.taken);
                    (self.taken, self.counted) = (0, 0);
                }
                Err(error) if error.kind() == IoKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", error)),
            }
        }
        if self.ended {
            return Ok(&[]);
        }
        // The bytes of the call above cannot leave the loop; this one gives the same.
        let buffer = self.source.fill_buf().map_err(|e| Error::io("read", e))?;
        Ok(buffer.get(self.taken..).unwrap_or_default())
    }

    /// The next byte, or `None` at the end of the input.
    pub fn peek(&mut self) -> Result<Option<u8>> {
        Ok(self.fill()?.first().copied())
    }

    /// Takes the byte that `peek` has just shown.
    pub fn skip_peeked(&mut self, byte: u8) {
        self.take_plain(1);
        if byte == b'\n' {
            self.place = Place { line: self.place.line + 1, column: 1 };
        }
    }

    /// Takes bytes that are all in the same line.
    fn take_plain(&mut self, count: usize) {
        self.place = self.place().right(count);
        self.taken += count;
        self.counted = self.taken;
    }

    /// Shows `look` what is buffered and takes as many bytes as it says; `false` if it says `None`.
    pub fn take_buffered(&mut self, look: impl FnOnce(&[u8]) -> Option<usize>) -> Result<bool> {
        let taken = look(self.fill()?);
        self.taken += taken.unwrap_or(0);
        Ok(taken.is_some())
    }

    /// Appends to `out` what comes before the byte that `find` finds, and takes both; returns that
    /// byte, or `None` if the input ends first. What is appended must not contain a line feed.
    pub fn until(
        &mut self,
        find: impl Fn(&[u8]) -> Option<usize>,
        out: &mut Vec<u8>,
        field: Field,
    ) -> Result<Option<u8>> {
        let start = self.place();
        loop {
            let buffer = self.fill()?;
            let found = find(buffer).map(|at| (at, buffer[at]));
            let plain = found.map_or(buffer.len(), |(at, _)| at);
            let ended = buffer.is_empty();
            if plain > field.text_limit().saturating_sub(out.len()) {
                return Err(self.too_long(start, field));
            }
            let appended = append(out, &buffer[..plain]);
            appended.map_err(|bytes| self.no_memory(start, field, bytes))?;
            self.take_plain(plain);
            if let Some((_, byte)) = found {
                self.skip_peeked(byte);
                return Ok(Some(byte));
            }
            if ended {
                return Ok(None);
            }
        }
    }

    /// Appends the rest of the line to `out`; whether a line feed ended it.
    pub fn line(&mut self, out: &mut Vec<u8>, field: Field) -> Result<bool> {
        Ok(self.until(|bytes| memchr(b'\n', bytes), out, field)?.is_some())
    }

    /// Takes the rest of the line, of any length.
    pub fn skip_line(&mut self) -> Result<()> {
        loop {
            let mut more = false;
            self.take_buffered(|bytes| {
                let end = memchr(b'\n', bytes);
                more = end.is_none() && !bytes.is_empty();
                Some(end.map_or(bytes.len(), |at| at + 1))
            })?;
            if !more {
                return Ok(());
            }
        }
    }

    /// Takes blanks and tabs.
    pub fn skip_blanks(&mut self) -> Result<()> {
        while let Some(byte @ (b' ' | b'\t')) = self.peek()? {
            self.skip_peeked(byte);
        }
        Ok(())
    }

    /// Appends the next `count` bytes, whatever they are.
    pub fn exactly(&mut self, mut count: usize, out: &mut Vec<u8>, field: Field) -> Result<()> {
        let start = self.place();
        while count > 0 {
            let (mut taken, mut appended) = (0, Ok(()));
            self.take_buffered(|bytes| {
                taken = bytes.len().min(count);
                appended = append(out, &bytes[..taken]);
                Some(taken)
            })?;
            appended.map_err(|bytes| self.no_memory(start, field, bytes))?;
            if taken == 0 {
                let what =
                    format!("the input ends inside a {}: {count} bytes are missing", field.name);
                return Err(self.error_here(what));
            }
            count -= taken;
        }
        Ok(())
    }

    /// Takes these bytes, of which only the last may be a line feed.
    pub fn expect(&mut self, wanted: &[u8]) -> Result<()> {
        if self.fill()?.starts_with(wanted) {
            self.taken += wanted.len();
            return Ok(());
        }
        for &byte in wanted {
            if self.peek()? != Some(byte) {
                return Err(self.unexpected(&format!("'{}'", byte.escape_ascii())));
            }
            self.skip_peeked(byte);
        }
        Ok(())
    }

    /// Takes a line feed, with or without a carriage return before it.
    pub fn end_of_line(&mut self) -> Result<()> {
        if self.peek()? == Some(b'\r') {
            self.skip_peeked(b'\r');
        }
        self.expect(b"\n")
    }

    /// Takes a decimal length of `field` and the byte after it.
    pub fn length(&mut self, stop: u8, field: Field) -> Result<usize> {
        let start = self.place();
        let (mut number, mut digits) = (0u64, 0);
        while let Some(byte @ b'0'..=b'9') = self.peek()? {
            self.skip_peeked(byte);
            number = number.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
            digits += 1;
            if digits > MAX_DIGITS {
                return Err(self.error(start, format!("a length of over {MAX_DIGITS} digits")));
            }
        }
        if digits == 0 {
            return Err(self.unexpected("a decimal length"));
        }
        self.expect(&[stop])?;
        match usize::try_from(number) {
            Ok(length) if length <= field.limit => Ok(length),
            _ => Err(self.too_long(start, field)),
        }
    }

    /// Takes a header line `name=value` into `line`; returns its place and where the `=` stands.
    pub fn setting(&mut self, line: &mut Vec<u8>) -> Result<(Place, usize)> {
        line.clear();
        let start = self.place();
        let ended = self.line(line, Field::new("header line", HEADER_LIMIT))?;
        escape::drop_return(line);
        if !ended {
            return Err(self.error_here("the input ends inside the header, before HEADER=END"));
        }
        match memchr(b'=', line) {
            Some(at) => Ok((start, at)),
            None => Err(self.error(start, "expected a header line, name=value, or HEADER=END")),
        }
    }

    /// Checks the length of a field that has been decoded.
    pub fn check_limit(&self, start: Place, out: &[u8], field: Field) -> Result<()> {
        if out.len() > field.limit { Err(self.too_long(start, field)) } else { Ok(()) }
    }
}

/// Appends `bytes`; the error is how many there would be, for which there is no memory.
pub(crate) fn append(out: &mut Vec<u8>, bytes: &[u8]) -> std::result::Result<(), usize> {
    out.try_reserve(bytes.len()).map_err(|_| out.len() + bytes.len())?;
    out.extend_from_slice(bytes);
    Ok(())
}

/// Moves `place` behind `bytes`.
fn advance(place: &mut Place, bytes: &[u8]) {
    match memrchr(b'\n', bytes) {
        None => *place = place.right(bytes.len()),
        Some(last) => {
            place.line += 1 + memchr_iter(b'\n', &bytes[..last]).count() as u64;
            place.column = (bytes.len() - last) as u64;
        }
    }
}
