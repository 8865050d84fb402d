//! Key, tab, value on a line.
//!
//! In both, `\t`, `\n`, `\r`, `\\` and `\xHH` stand for a tab, a line feed, a carriage return, a
//! backslash and any byte; another backslash is an error. The writer escapes control characters and
//! what is not UTF-8, so that its output is a text file of whatever records. A second tab in a line
//! belongs to the value.

use crate::escape::{drop_return, hex_pair, lower_hex, plain_bytes, unescape, write_escaped};
use crate::input::{Field, Input, KEY, Place, VALUE};
use crate::{Codec, Output};
use credenza::Result;
use memchr::memchr2;
use std::io::{self, Write};

pub(crate) struct Tsv;

impl Codec for Tsv {
    fn read(&mut self, input: &mut Input, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        if input.peek()?.is_none() {
            return Ok(false);
        }
        let start = input.place();
        let stop = input.until(|bytes| memchr2(b'\t', b'\n', bytes), key, KEY.escaped())?;
        if stop != Some(b'\t') {
            let what = "the line has no tab between key and value";
            return Err(input.error(start.right(key.len()), what));
        }
        let start_of_value = input.place();
        input.line(value, VALUE.escaped())?;
        drop_return(value);
        decode(input, start, key, KEY)?;
        decode(input, start_of_value, value, VALUE)?;
        Ok(true)
    }

    fn write(&self, key: &[u8], value: &[u8], out: &mut Output<'_>) -> io::Result<()> {
        encode(out, key)?;
        out.write_all(b"\t")?;
        encode(out, value)?;
        out.write_all(b"\n")
    }
}

fn decode(input: &Input, start: Place, bytes: &mut Vec<u8>, field: Field) -> Result<()> {
    unescape(bytes, |rest| match rest {
        [b't', ..] => Some((b'\t', 1)),
        [b'n', ..] => Some((b'\n', 1)),
        [b'r', ..] => Some((b'\r', 1)),
        [b'\\', ..] => Some((b'\\', 1)),
        [b'x', rest @ ..] => Some((hex_pair(rest)?, 3)),
        _ => None,
    })
    .map_err(|at| {
        let what = "a backslash that begins none of \\t \\n \\r \\\\ \\xHH; write it as \\\\";
        input.error(start.right(at), what)
    })?;
    input.check_limit(start, bytes, field)
}

fn encode(out: &mut Output<'_>, bytes: &[u8]) -> io::Result<()> {
    const PLAIN: [bool; 256] = plain_bytes(b' ', 0xff, b"\\\x7f");
    for chunk in bytes.utf8_chunks() {
        write_escaped(out, chunk.valid().as_bytes(), &PLAIN, |out, byte| match byte {
            b'\t' => out.write_all(b"\\t"),
            b'\n' => out.write_all(b"\\n"),
            b'\r' => out.write_all(b"\\r"),
            b'\\' => out.write_all(b"\\\\"),
            _ => write_hex(out, byte),
        })?;
        for &byte in chunk.invalid() {
            write_hex(out, byte)?;
        }
    }
    Ok(())
}

fn write_hex(out: &mut Output<'_>, byte: u8) -> io::Result<()> {
    let [high, low] = lower_hex(byte);
    out.write_all(&[b'\\', b'x', high, low])
}
