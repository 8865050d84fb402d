//! The dump of MDBM's `mdbm_export`: a header of `name=value` lines up to `HEADER=END`, then a line
//! for each key and each value.
//!
//! It resembles Berkeley DB's printable dump, but has no version, no leading blanks and no
//! trailer, so that `db_load` cannot read it. A backslash, NUL, line feed and carriage return are
//! escaped, other bytes stand as they are. Keys are never empty.

use crate::escape::{
    backslash_or_hex, drop_return, plain_bytes, unescape, write_backslash_hex, write_escaped,
};
use crate::input::{Field, Input, KEY, VALUE};
use crate::{Codec, Output};
use credenza::Result;
use std::io::{self, Write};

#[derive(Default)]
pub(crate) struct MdbmExport {
    begun: bool,
    line: Vec<u8>,
}

impl MdbmExport {
    fn header(&mut self, input: &mut Input) -> Result<()> {
        loop {
            let (place, equals) = input.setting(&mut self.line)?;
            match (&self.line[..equals], &self.line[equals + 1..]) {
                (b"HEADER", b"END") => return Ok(()),
                (b"format", format) if format != b"print" => {
                    let what = "mdbm_export writes format=print only";
                    return Err(input.error(place.right(equals + 1), what));
                }
                (b"VERSION", _) => {
                    let what = "this is a dump of Berkeley DB or LMDB; read it as db_dump";
                    return Err(input.error(place, what));
                }
                _ => {}
            }
        }
    }
}

impl Codec for MdbmExport {
    fn read(&mut self, input: &mut Input, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        if !self.begun {
            self.header(input)?;
            self.begun = true;
            input.begin_record();
        }
        if input.peek()?.is_none() {
            return Ok(false);
        }
        let place = input.place();
        read_field(input, key, KEY)?;
        if key.is_empty() {
            return Err(input.error(place, "an empty key, which MDBM does not have"));
        }
        read_field(input, value, VALUE)?;
        Ok(true)
    }

    fn begin(&self, out: &mut Output<'_>) -> io::Result<()> {
        out.write_all(b"format=print\ntype=hash\nHEADER=END\n")
    }

    fn refusal(&self, key: &[u8], _value: &[u8]) -> Option<&'static str> {
        key.is_empty().then_some("MDBM has no empty keys")
    }

    fn write(&self, key: &[u8], value: &[u8], out: &mut Output<'_>) -> io::Result<()> {
        const PLAIN: [bool; 256] = plain_bytes(0, 0xff, b"\\\0\n\r");
        for bytes in [key, value] {
            write_escaped(out, bytes, &PLAIN, |out, byte| match byte {
                b'\\' => out.write_all(b"\\\\"),
                _ => write_backslash_hex(out, byte),
            })?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

fn read_field(input: &mut Input, out: &mut Vec<u8>, field: Field) -> Result<()> {
    let start = input.place();
    if !input.line(out, field.escaped())? {
        let what = format!("the input ends inside a record, in the {}", field.name());
        return Err(input.error_here(what));
    }
    drop_return(out);
    unescape(out, backslash_or_hex).map_err(|at| {
        input.error(start.right(at), "a backslash that begins neither \\\\ nor \\hh")
    })?;
    input.check_limit(start, out, field)
}
