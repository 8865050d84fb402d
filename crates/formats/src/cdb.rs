//! cdb text: `+klen,dlen:key->data` LF for each record, and an empty line at the end.
//!
//! The empty line is required, so that a text that was cut off is not taken for a whole one; what
//! follows it is an error, since it would be lost without a word.

use crate::input::{Input, KEY, KEY_LIMIT, VALUE, VALUE_LIMIT};
use crate::{Codec, Output};
use credenza::Result;
use std::io::{self, Write};

pub(crate) struct CdbText;

impl Codec for CdbText {
    fn read(&mut self, input: &mut Input, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        let buffered = input.take_buffered(|bytes| {
            let record = Record::parse(bytes)?;
            key.extend_from_slice(record.key);
            value.extend_from_slice(record.value);
            Some(record.bytes)
        })?;
        if buffered { Ok(true) } else { read_slowly(input, key, value) }
    }

    fn write(&self, key: &[u8], value: &[u8], out: &mut Output<'_>) -> io::Result<()> {
        write!(out, "+{},{}:", key.len(), value.len())?;
        out.write_all(key)?;
        out.write_all(b"->")?;
        out.write_all(value)?;
        out.write_all(b"\n")
    }

    fn end(&self, out: &mut Output<'_>) -> io::Result<()> {
        out.write_all(b"\n")
    }
}

/// A record that lies whole in the buffer.
struct Record<'a> {
    key: &'a [u8],
    value: &'a [u8],
    bytes: usize,
}

impl<'a> Record<'a> {
    /// `None` if there is anything unusual: [`read_slowly`] then finds out what.
    fn parse(text: &'a [u8]) -> Option<Record<'a>> {
        let (key_len, rest) = length(text.strip_prefix(b"+")?, b',')?;
        let (value_len, rest) = length(rest, b':')?;
        if key_len > KEY_LIMIT || value_len > VALUE_LIMIT {
            return None;
        }
        let (key, rest) = rest.split_at_checked(key_len)?;
        let (value, rest) = rest.strip_prefix(b"->")?.split_at_checked(value_len)?;
        let rest = rest.strip_prefix(b"\n")?;
        Some(Record { key, value, bytes: text.len() - rest.len() })
    }
}

/// A number of at most ten digits and the byte `stop`, and what follows.
fn length(text: &[u8], stop: u8) -> Option<(usize, &[u8])> {
    let mut number = 0;
    for (at, &byte) in text.iter().enumerate().take(11) {
        match byte {
            b'0'..=b'9' => number = number * 10 + u64::from(byte - b'0'),
            _ if byte == stop && at > 0 => {
                return Some((usize::try_from(number).ok()?, &text[at + 1..]));
            }
            _ => return None,
        }
    }
    None
}

/// Reads a record across buffers, or tells what is wrong with it.
fn read_slowly(input: &mut Input, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
    match input.peek()? {
        Some(b'+') => {}
        Some(b'\n') => {
            input.skip_peeked(b'\n');
            return match input.peek()? {
                None => Ok(false),
                Some(_) => {
                    Err(input.unexpected("nothing after the empty line that ends the records"))
                }
            };
        }
        _ => return Err(input.unexpected("'+', or the empty line that ends the records")),
    }
    input.skip_peeked(b'+');
    let key_len = input.length(b',', KEY)?;
    let value_len = input.length(b':', VALUE)?;
    input.exactly(key_len, key, KEY)?;
    input.expect(b"->")?;
    input.exactly(value_len, value, VALUE)?;
    input.expect(b"\n")?;
    Ok(true)
}

/// Whether a text begins as a record does.
pub(crate) fn is_header(text: &[u8]) -> bool {
    let header = || length(length(text.strip_prefix(b"+")?, b',')?.1, b':');
    header().is_some()
}
