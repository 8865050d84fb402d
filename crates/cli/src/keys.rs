//! Keys to look up: one argument, or a file of many in batches.

use crate::input::{Input, Refusal};
use crate::output::counted;
use credenza::{Error, Result};
use credenza_formats::{Format, MARK};
use std::ffi::OsStr;
use std::io::{BufRead as _, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Keys that are looked up together: enough to overlap their waits for memory.
const BATCH_KEYS: usize = 4096;
/// And not so many that long keys fill the memory.
const BATCH_BYTES: usize = 4 << 20;

/// Longer is no key of a file: one without any end, such as a device, would fill the memory. A cdb of others may have
/// longer ones than our stores take.
const LONGEST: usize = 16 << 20;

/// How a file holds keys.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// A key a line, which ends with a line feed, or a carriage return and a line feed; the last one may lack it. The
    /// mark of UTF-8 at the begin is no part of the first.
    Lines,
    /// Keys that each end with a NUL byte, whatever else is in them; the last one may lack it.
    EndedByNul,
    /// The keys of the records of a text format.
    Records(Format),
}

impl Layout {
    /// That of a file that is no text of a format.
    pub fn of_keys(is_null: bool) -> Layout {
        if is_null { Layout::EndedByNul } else { Layout::Lines }
    }
}

/// Calls `f` with the keys in the file at `path` (`-` is standard input), a batch at a time. What `check` says against a
/// key is said with its place.
pub fn each_batch(
    path: &Path,
    layout: Layout,
    hex: bool,
    check: impl Fn(&[u8]) -> Result<()>,
    mut f: impl FnMut(&[Vec<u8>]) -> Result<()>,
) -> Result<()> {
    let mut batch = Batch::default();
    let input = Input::open(path)?;
    let name = input.name.clone();
    match layout {
        Layout::Lines | Layout::EndedByNul => {
            let is_text = matches!(layout, Layout::Lines);
            let end = if is_text { b'\n' } else { 0 };
            let longest = if hex { 2 * LONGEST } else { LONGEST };
            let mut reader = input.into_reader();
            let mut number = 0u64;
            loop {
                let mut key = Vec::new();
                // With what ends it, or with more than that.
                let read = (&mut reader).take(longest as u64 + 2).read_until(end, &mut key);
                if read.map_err(|e| Error::io("read", e).at(&name))? == 0 {
                    break;
                }
                number += 1;
                let is_ended = key.pop_if(|last| *last == end).is_some();
                if is_text {
                    // As others write them, whose lines end so.
                    key.pop_if(|last| is_ended && *last == b'\r');
                    if number == 1 && key.starts_with(MARK) {
                        key.drain(..MARK.len());
                    }
                }
                if key.len() > longest {
                    let end = if is_text { "newline" } else { "NUL byte" };
                    let what = format!(
                        "key {number} has more than {longest} bytes, which none has: name a file of keys that \
                         each end with a {end}"
                    );
                    return Err(Error::invalid(what).at(&name));
                }
                let refused =
                    |what: String| Error::invalid(format!("key {number}: {what}")).at(&name);
                if hex {
                    key = from_hex(&key).map_err(refused)?;
                }
                check(&key).map_err(|e| refused(e.to_string()))?;
                batch.push(key, &mut f)?;
            }
        }
        Layout::Records(format) => {
            let mut records = input.into_records(Some(format), &Arc::default())?;
            let (mut key, mut value) = (Vec::new(), Vec::new());
            while records.next(&mut key, &mut value)? {
                check(&key).map_err(|e| records.refused(Refusal::Record(e)))?;
                batch.push(key.clone(), &mut f)?;
            }
        }
    }
    f(&batch.keys)
}

#[derive(Default)]
struct Batch {
    keys: Vec<Vec<u8>>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, key: Vec<u8>, f: &mut impl FnMut(&[Vec<u8>]) -> Result<()>) -> Result<()> {
        self.bytes += key.len();
        self.keys.push(key);
        if self.keys.len() >= BATCH_KEYS || self.bytes >= BATCH_BYTES {
            f(&self.keys)?;
            *self = Batch::default();
        }
        Ok(())
    }
}

/// The key that an argument is, or, in hexadecimal digits, stands for.
pub fn of_argument(argument: &OsStr, hex: bool) -> Result<Vec<u8>> {
    let bytes = argument.as_bytes();
    let key = if hex { from_hex(bytes) } else { Ok(bytes.to_vec()) };
    key.map_err(|what| Error::invalid(format!("KEY: {what}")))
}

/// Bytes written as pairs of hexadecimal digits.
pub fn from_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let digit = |(i, c): (usize, &u8)| match char::from(*c).to_digit(16) {
        Some(digit) => Ok(digit as u8),
        None => Err(format!("not a hexadecimal digit at position {}", i + 1)),
    };
    let digits = text.iter().enumerate().map(digit).collect::<Result<Vec<u8>, String>>()?;
    match digits.as_chunks::<2>() {
        (pairs, []) => Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect()),
        _ => {
            let digits = counted(digits.len() as u64, "hexadecimal digit");
            Err(format!("{digits}; a byte has two"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::from_hex;

    #[test]
    fn hex_is_pairs_of_digits() {
        assert_eq!(from_hex(b""), Ok(vec![]));
        assert_eq!(from_hex(b"00fFa0"), Ok(vec![0, 255, 160]));
        assert!(from_hex(b"0").is_err_and(|e| e.contains("a byte has two")));
        assert!(from_hex(b"00g0").is_err_and(|e| e.contains("position 3")));
        assert!(from_hex(b"0x00").is_err());
    }
}
