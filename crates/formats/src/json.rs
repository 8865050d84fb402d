//! A JSON object a line, with the fields `key` and `value`.
//!
//! Text that is UTF-8 stands there as a string; other bytes are base64 (RFC 4648, with padding) in
//! `key_base64` and `value_base64`. Other fields, missing and repeated ones are errors; empty lines
//! are not records and are skipped.

use crate::input::{Field, Input, KEY, Place, VALUE, VALUE_LIMIT, append};
use crate::{Codec, Output};
use base64::Engine;
use base64::decoded_len_estimate;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use credenza::{Error, Result};
use memchr::memchr;
use serde::Deserialize;
use std::borrow::Cow;
use std::hint::black_box;
use std::io::{self, Write};

/// A line of JSON may be this long: a value of the greatest size in base64 fits.
const LINE: Field = Field::new("line", VALUE_LIMIT.saturating_add(VALUE_LIMIT / 2));

#[derive(Default)]
pub(crate) struct JsonLines {
    line: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object<'a> {
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    key_base64: Option<Text<'a>>,
    #[serde(borrow)]
    value: Option<Text<'a>>,
    #[serde(borrow)]
    value_base64: Option<Text<'a>>,
}

/// A string without escapes is not copied; serde sees that only in a field of its own.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Codec for JsonLines {
    fn read(&mut self, input: &mut Input, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        let start = loop {
            input.skip_blanks()?;
            match input.peek()? {
                None => return Ok(false),
                Some(b'{') => break input.place(),
                Some(b'\r' | b'\n') => input.end_of_line()?,
                Some(_) => return Err(input.unexpected("'{', which begins an object")),
            }
        };
        input.begin_record();
        self.line.clear();
        input.line(&mut self.line, LINE)?;
        if !is_room_for_copies(&self.line) {
            return Err(input.no_memory(start, LINE, self.line.len()));
        }
        let line = std::str::from_utf8(&self.line).map_err(|e| {
            let what = "a byte that is not UTF-8; key_base64 and value_base64 are for such keys and values";
            input.error(start.right(e.valid_up_to()), what)
        })?;
        let object: Object<'_> =
            serde_json::from_str(line).map_err(|e| at(input, start, line, &e))?;
        put(input, start, (object.key, object.key_base64), key, KEY)?;
        put(input, start, (object.value, object.value_base64), value, VALUE)?;
        Ok(true)
    }

    fn write(&self, key: &[u8], value: &[u8], out: &mut Output<'_>) -> io::Result<()> {
        out.write_all(b"{")?;
        encode(out, "key", key)?;
        out.write_all(b",")?;
        encode(out, "value", value)?;
        out.write_all(b"}\n")
    }
}

/// Whether there is memory for what `serde_json` makes of a line with escapes, which ends the program where there is
/// none: the text without them, in room that doubles as it grows, and a copy.
fn is_room_for_copies(line: &[u8]) -> bool {
    if memchr(b'\\', line).is_none() {
        return true;
    }
    let mut room: Vec<u8> = Vec::new();
    let is_there = room.try_reserve_exact(line.len().saturating_mul(3)).is_ok();
    // Else nobody asks for it.
    black_box(&room);
    is_there
}

/// Where serde_json saw an error; its own text without its place, which is relative to the line.
fn at(input: &Input, start: Place, line: &str, error: &serde_json::Error) -> Error {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    // It is at the byte that it saw last, and what is missing is behind that.
    let before = if error.is_eof() { line.len() } else { error.column().saturating_sub(1) };
    input.error(start.right(before), what)
}

/// Puts a key or value, which is there either as text or as base64, into `out`.
fn put(
    input: &Input,
    start: Place,
    forms: (Option<Text<'_>>, Option<Text<'_>>),
    out: &mut Vec<u8>,
    field: Field,
) -> Result<()> {
    let name = field.name();
    let no_memory = |bytes| input.no_memory(start, field, bytes);
    match forms {
        (Some(Text(text)), None) => append(out, text.as_bytes()).map_err(no_memory)?,
        (None, Some(Text(text))) => {
            let bytes = decoded_len_estimate(text.len());
            out.try_reserve(bytes).map_err(|_| no_memory(bytes))?;
            STANDARD
                .decode_vec(&*text, out)
                .map_err(|e| input.error(start, format!("{name}_base64 is not base64: {e}")))?;
        }
        (None, None) => {
            return Err(
                input.error(start, format!("neither \"{name}\" nor \"{name}_base64\", or null"))
            );
        }
        (Some(_), Some(_)) => {
            return Err(input.error(start, format!("both \"{name}\" and \"{name}_base64\"")));
        }
    }
    input.check_limit(start, out, field)
}

/// Whether text is longer than so many bytes when it stands in a string: a line that is too long to be read
/// again is not written. A control character takes six bytes.
fn is_longer_with_escapes(text: &[u8], most: usize) -> bool {
    let escapes = |byte: &u8| match byte {
        b'"' | b'\\' => 1,
        ..b' ' => 5,
        _ => 0,
    };
    let len = text.len();
    // Most texts are not worth a look.
    len > most / 6 && len + text.iter().map(escapes).sum::<usize>() > most
}

fn encode(out: &mut Output<'_>, name: &str, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !is_longer_with_escapes(bytes, VALUE_LIMIT / 3 * 4) => {
            write!(out, "\"{name}\":")?;
            serde_json::to_writer(out, text).map_err(io::Error::from)
        }
        _ => write!(out, "\"{name}_base64\":\"{}\"", Base64Display::new(bytes, &STANDARD)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_many_escapes_counts_as_what_it_takes() {
        let long = [0; 100];
        assert!(is_longer_with_escapes(&long, 599) && !is_longer_with_escapes(&long, 600));
        assert!(is_longer_with_escapes(b"a\"b\\c\n", 12));
        assert!(!is_longer_with_escapes(b"a\"b\\c\n", 13));
        assert!(!is_longer_with_escapes("käse".as_bytes(), 5));
    }
}
