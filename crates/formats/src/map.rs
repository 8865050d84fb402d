//! The map format of tinycdb's `-m`: key, blanks, value on a line.
//!
//! Blanks are spaces and tabs; those before the key and between key and value do not count, those
//! after the value do. A line of a key alone gives an empty value. Empty lines, and those whose
//! first character after blanks is `#`, are skipped. There are no escapes; unlike in
//! tinycdb, which ends a line at NUL, NUL is a byte as any other.

use crate::input::{Input, KEY, VALUE};
use crate::{Codec, Output};
use credenza::Result;
use memchr::{memchr, memchr3};
use std::io::{self, Write};

pub(crate) struct Map;

impl Codec for Map {
    fn read(&mut self, input: &mut Input, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        loop {
            input.skip_blanks()?;
            match input.peek()? {
                None => return Ok(false),
                Some(b'#' | b'\n') => input.skip_line()?,
                Some(_) => break,
            }
        }
        input.begin_record();
        let stop = input.until(|bytes| memchr3(b' ', b'\t', b'\n', bytes), key, KEY)?;
        if matches!(stop, Some(b' ' | b'\t')) {
            input.skip_blanks()?;
            input.line(value, VALUE)?;
        }
        Ok(true)
    }

    fn refusal(&self, key: &[u8], value: &[u8]) -> Option<&'static str> {
        if key.is_empty() {
            Some("it has no empty keys")
        } else if key[0] == b'#' {
            Some("the key begins with '#' and would be a comment")
        } else if memchr3(b' ', b'\t', b'\n', key).is_some() {
            Some("the key contains a blank, a tab or a line feed")
        } else if matches!(value.first(), Some(b' ' | b'\t')) {
            Some("the value begins with a blank or a tab, which would be lost")
        } else if memchr(b'\n', value).is_some() {
            Some("the value contains a line feed")
        } else {
            None
        }
    }

    fn write(&self, key: &[u8], value: &[u8], out: &mut Output<'_>) -> io::Result<()> {
        out.write_all(key)?;
        out.write_all(b" ")?;
        out.write_all(value)?;
        out.write_all(b"\n")
    }
}
