//! Every line is a key with an empty value; an empty line is the empty key. Or, for whoever numbers them, a value.

use crate::input::{Input, KEY, VALUE};
use crate::{Codec, Output};
use credenza::Result;
use memchr::memchr;
use std::io::{self, Write};

pub(crate) struct Lines {
    /// Whether what is read are the values of records without keys.
    pub are_values: bool,
}

impl Codec for Lines {
    fn read(&mut self, input: &mut Input, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        let (line, field) = if self.are_values { (value, VALUE) } else { (key, KEY) };
        Ok(input.line(line, field)? || !line.is_empty())
    }

    fn refusal(&self, key: &[u8], value: &[u8]) -> Option<&'static str> {
        if !value.is_empty() {
            Some("it has a value, and lines hold keys only")
        } else if memchr(b'\n', key).is_some() {
            Some("the key contains a line feed")
        } else {
            None
        }
    }

    fn write(&self, key: &[u8], _value: &[u8], out: &mut Output<'_>) -> io::Result<()> {
        out.write_all(key)?;
        out.write_all(b"\n")
    }
}
