//! The dumps of Berkeley DB (`db_dump`) and LMDB (`mdb_dump`), version 3.
//!
//! A header of `name=value` lines from `VERSION=3` to `HEADER=END`, then a line for each key and
//! each value that begins with a blank, then `DATA=END`. The header says whether bytes are written
//! in hexadecimal (`format=bytevalue`) or as text with `\hh` and `\\` (`format=print`). Several such
//! parts may follow each other: their records come in turn, as those of one database. A name
//! (`database=` or `subdatabase=`) that comes a second time is an error, since then the same
//! database was dumped twice or two files were mixed up. Parts without a name may repeat. In names `db_dump`
//! writes `\hh` and `\\` too, with both formats; `mdb_dump` writes them as they are.
//!
//! Numbered databases (`type=recno`, `queue`, `heap`) have no keys unless they were dumped with
//! `-k`; then their keys are the decimal numbers. What else a header says of keys and duplicates is
//! kept for who asks ([`Database`]); other settings are skipped. The writer says `type=btree`, and `duplicates=1` unless it
//! knows that no key comes twice: `db_load` wants that word and `mdb_load` says that it does not know it. It does not say
//! `mapsize=`, without which `mdb_load` takes 1 MiB: `db_load` refuses that.

use crate::escape::{
    backslash_or_hex, decode_hex, drop_return, lower_hex, plain_bytes, unescape,
    write_backslash_hex, write_escaped,
};
use crate::input::{Field, Input, KEY, Place, VALUE};
use crate::{Codec, Database, Output, Repeats};
use credenza::Result;
use std::collections::HashSet;
use std::io::{self, Write};

#[derive(Clone, Copy)]
pub(crate) enum Flavour {
    Hex,
    Print,
}

pub(crate) struct DbDump {
    /// How to write.
    flavour: Flavour,
    /// How the part at hand is written; `None` between parts.
    part: Option<Flavour>,
    begun: bool,
    names: HashSet<Vec<u8>>,
    databases: Vec<Database>,
    /// Whether no key that is written comes twice.
    is_single: bool,
    line: Vec<u8>,
}

impl DbDump {
    pub fn new(flavour: Flavour) -> DbDump {
        DbDump {
            flavour,
            part: None,
            begun: false,
            names: HashSet::new(),
            databases: Vec::new(),
            is_single: false,
            line: Vec::new(),
        }
    }

    /// Reads the header of the next part; `None` at the end of the input.
    fn header(&mut self, input: &mut Input) -> Result<Option<Flavour>> {
        if self.begun && input.peek()?.is_none() {
            return Ok(None);
        }
        self.begun = true;
        let (place, _) = input.setting(&mut self.line)?;
        if self.line != b"VERSION=3" {
            return Err(input.error(place, "expected VERSION=3, which begins a dump"));
        }
        let (mut flavour, mut unnumbered, mut keys) = (None, None, false);
        let mut says = Header::default();
        loop {
            let (place, equals) = input.setting(&mut self.line)?;
            let (name, value) = (&self.line[..equals], &self.line[equals + 1..]);
            says.note(name, value);
            match (name, value) {
                (b"HEADER", b"END") => break,
                (b"format", b"bytevalue") => flavour = Some(Flavour::Hex),
                (b"format", b"print") => flavour = Some(Flavour::Print),
                (b"format", _) => {
                    let what = "a format other than bytevalue and print";
                    return Err(input.error(place.right(equals + 1), what));
                }
                (b"type", b"recno" | b"queue" | b"heap") => unnumbered = Some(place),
                (b"keys", b"1") => keys = true,
                (b"database" | b"subdatabase", _) if !self.names.insert(value.to_vec()) => {
                    let what =
                        format!("a second database '{}'; dump each once", value.escape_ascii());
                    return Err(input.error(place, what));
                }
                _ => {}
            }
        }
        match (flavour, unnumbered) {
            (None, _) => Err(input.error_here("the header has no format= line")),
            (_, Some(place)) if !keys => Err(input.error(
                place,
                "this database was dumped without its keys, the record numbers; dump it with db_dump -k",
            )),
            (Some(flavour), _) => {
                self.databases.push(says.database(unnumbered.is_some()));
                Ok(Some(flavour))
            }
        }
    }

    /// Reads a line of data into `out`, or `DATA=END`: then `false`.
    fn data(
        &self,
        input: &mut Input,
        flavour: Flavour,
        out: &mut Vec<u8>,
        field: Field,
    ) -> Result<bool> {
        match input.peek()? {
            Some(b' ') => input.skip_peeked(b' '),
            Some(b'D') => {
                input.expect(b"DATA=END")?;
                if input.peek()?.is_some() {
                    input.end_of_line()?;
                }
                return Ok(false);
            }
            _ => return Err(input.unexpected("a blank and data, or DATA=END")),
        }
        let start = input.place();
        if !input.line(out, field.escaped())? {
            return Err(input.error_here("the input ends inside a line, before DATA=END"));
        }
        drop_return(out);
        decode(input, start, flavour, out)?;
        input.check_limit(start, out, field)?;
        Ok(true)
    }
}

/// What a header says of its database.
#[derive(Default)]
struct Header {
    name: Option<Vec<u8>>,
    /// Settings that are on.
    has_duplicates: bool,
    is_sorted: bool,
    /// LMDB says so of values that are compared in a way of their own.
    is_sorted_otherwise: bool,
    has_integer_keys: bool,
    has_reverse_keys: bool,
    is_lmdb: bool,
}

impl Header {
    fn note(&mut self, name: &[u8], value: &[u8]) {
        let is_on = value == b"1";
        match name {
            b"database" | b"subdatabase" => self.name = Some(value.to_vec()),
            b"duplicates" => self.has_duplicates = is_on,
            b"dupsort" => self.is_sorted = is_on,
            b"integerdup" | b"reversedup" => self.is_sorted_otherwise |= is_on,
            b"integerkey" => self.has_integer_keys = is_on,
            b"reversekey" => self.has_reverse_keys = is_on,
            b"mapsize" | b"maxreaders" => self.is_lmdb = true,
            _ => {}
        }
    }

    fn database(self, is_numbered: bool) -> Database {
        // LMDB sorts what it calls duplicates; Berkeley DB if it says dupsort, too.
        let is_sorted = (self.is_sorted || self.is_lmdb) && !self.is_sorted_otherwise;
        let name = if self.is_lmdb { self.name } else { self.name.map(plain_name) };
        Database {
            name,
            repeats: match (self.has_duplicates || self.is_sorted, is_sorted) {
                (false, _) => Repeats::None,
                (true, true) => Repeats::Sorted,
                (true, false) => Repeats::InOrder,
            },
            has_integer_keys: self.has_integer_keys,
            is_numbered,
            has_reverse_keys: self.has_reverse_keys,
            has_odd_values: self.is_sorted_otherwise,
        }
    }
}

impl Codec for DbDump {
    fn databases(&self) -> &[Database] {
        &self.databases
    }

    fn read(&mut self, input: &mut Input, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        loop {
            let flavour = match self.part {
                Some(flavour) => flavour,
                None => match self.header(input)? {
                    Some(flavour) => flavour,
                    None => return Ok(false),
                },
            };
            self.part = Some(flavour);
            input.begin_record();
            if self.data(input, flavour, key, KEY)? {
                let place = input.place();
                if !self.data(input, flavour, value, VALUE)? {
                    return Err(input.error(place, "expected the value of the key above"));
                }
                return Ok(true);
            }
            self.part = None;
        }
    }

    fn expect_single_values(&mut self) {
        self.is_single = true;
    }

    fn begin(&self, out: &mut Output<'_>) -> io::Result<()> {
        let format = match self.flavour {
            Flavour::Hex => "bytevalue",
            Flavour::Print => "print",
        };
        let repeats = if self.is_single { "" } else { "duplicates=1\n" };
        write!(out, "VERSION=3\nformat={format}\ntype=btree\n{repeats}HEADER=END\n")
    }

    fn write(&self, key: &[u8], value: &[u8], out: &mut Output<'_>) -> io::Result<()> {
        for bytes in [key, value] {
            out.write_all(b" ")?;
            match self.flavour {
                Flavour::Hex => encode_hex(out, bytes)?,
                Flavour::Print => encode_print(out, bytes)?,
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn end(&self, out: &mut Output<'_>) -> io::Result<()> {
        out.write_all(b"DATA=END\n")
    }
}

/// The name of a database of Berkeley DB, which writes it as `format=print` has data, whatever the format.
/// One that is no UTF-8 then, and so none for a table, stays as it is written, as does one that was not escaped.
fn plain_name(written: Vec<u8>) -> Vec<u8> {
    let mut name = written.clone();
    let is_escaped = unescape(&mut name, backslash_or_hex).is_ok();
    if is_escaped && std::str::from_utf8(&name).is_ok() { name } else { written }
}

fn decode(input: &Input, start: Place, flavour: Flavour, bytes: &mut Vec<u8>) -> Result<()> {
    match flavour {
        Flavour::Hex => decode_hex(bytes)
            .map_err(|at| input.error(start.right(at), "expected a hexadecimal digit")),
        Flavour::Print => unescape(bytes, backslash_or_hex).map_err(|at| {
            let what = "a backslash that begins neither \\\\ nor \\hh (mdb_dump -p before LMDB 0.9.25 \
                        does not escape backslashes: dump without -p)";
            input.error(start.right(at), what)
        }),
    }
}

fn encode_hex(out: &mut Output<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut digits = [0; 256];
    for chunk in bytes.chunks(digits.len() / 2) {
        for (pair, &byte) in digits.as_chunks_mut().0.iter_mut().zip(chunk) {
            *pair = lower_hex(byte);
        }
        out.write_all(&digits[..2 * chunk.len()])?;
    }
    Ok(())
}

fn encode_print(out: &mut Output<'_>, bytes: &[u8]) -> io::Result<()> {
    const PLAIN: [bool; 256] = plain_bytes(b' ', b'~', b"\\");
    // A backslash, too: mdb_load before LMDB 0.9.25 misreads two of them behind another byte that is written so.
    write_escaped(out, bytes, &PLAIN, write_backslash_hex)
}
