//! The dump of Samba's `tdbdump`: for each record the lines `{`, `key(LENGTH) = "BYTES"`,
//! `data(LENGTH) = "BYTES"` and `}`.
//!
//! A byte that is not printable, a quote and a backslash are written `\HH`. With `tdbdump -x` all
//! bytes are `HH` without backslash: that is told by the length, which counts bytes. There is no
//! trailer: a dump that was cut off between two records is taken for a whole one.

use crate::escape::{decode_hex, hex_pair, lower_hex, plain_bytes, unescape, write_escaped};
use crate::input::{Field, Input, KEY, VALUE};
use crate::{Codec, Output};
use credenza::Result;
use memchr::{memchr, memchr2};
use std::io::{self, Write};

pub(crate) struct TdbDump;

impl Codec for TdbDump {
    fn read(&mut self, input: &mut Input, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        match input.peek()? {
            None => return Ok(false),
            Some(b'{') => input.skip_peeked(b'{'),
            Some(_) => return Err(input.unexpected("'{', which begins a record")),
        }
        input.end_of_line()?;
        read_field(input, b"key(", key, KEY)?;
        read_field(input, b"data(", value, VALUE)?;
        input.expect(b"}")?;
        if input.peek()?.is_some() {
            input.end_of_line()?;
        }
        Ok(true)
    }

    fn write(&self, key: &[u8], value: &[u8], out: &mut Output<'_>) -> io::Result<()> {
        write!(out, "{{\nkey({}) = \"", key.len())?;
        encode(out, key)?;
        write!(out, "\"\ndata({}) = \"", value.len())?;
        encode(out, value)?;
        out.write_all(b"\"\n}\n")
    }
}

fn read_field(input: &mut Input, opening: &[u8], out: &mut Vec<u8>, field: Field) -> Result<()> {
    input.expect(opening)?;
    let length = input.length(b')', field)?;
    input.expect(b" = \"")?;
    let start = input.place();
    if input.until(|bytes| memchr2(b'"', b'\n', bytes), out, field.escaped())? != Some(b'"') {
        return Err(input.error(start.right(out.len()), "the closing quote is missing"));
    }
    let all_hex = length > 0 && out.len() == 2 * length && memchr(b'\\', out).is_none();
    if !all_hex || decode_hex(out).is_err() {
        unescape(out, |rest| Some((hex_pair(rest)?, 2))).map_err(|at| {
            let what = "a backslash without two hexadecimal digits; write it as \\5C";
            input.error(start.right(at), what)
        })?;
    }
    if out.len() != length {
        let what =
            format!("a {} of {} bytes, but {length} were announced", field.name(), out.len());
        return Err(input.error(start, what));
    }
    input.end_of_line()
}

fn encode(out: &mut Output<'_>, bytes: &[u8]) -> io::Result<()> {
    const PLAIN: [bool; 256] = plain_bytes(b' ', b'~', b"\\\"");
    write_escaped(out, bytes, &PLAIN, |out, byte| {
        let [high, low] = lower_hex(byte).map(|digit| digit.to_ascii_uppercase());
        out.write_all(&[b'\\', high, low])
    })
}
