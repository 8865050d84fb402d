//! Bytes written as text, and back: hexadecimal pairs and backslash escapes.
//!
//! Decoding works in place, since no encoding is shorter than what it stands for; it moves the
//! stretches between two escapes as a whole. Errors are offsets into the encoded bytes.

use crate::Output;
use memchr::memchr;
use std::io::{Result, Write};

const LOWER: &[u8; 16] = b"0123456789abcdef";
const NO_DIGIT: u8 = 0xff;

/// The value of each byte as a hexadecimal digit.
const DIGITS: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        let lower = LOWER[digit];
        table[lower as usize] = digit as u8;
        table[lower.to_ascii_uppercase() as usize] = digit as u8;
        digit += 1;
    }
    table
};

/// Which bytes stand for themselves: those from `first` to `last`, but not those of `except`.
pub(crate) const fn plain_bytes(first: u8, last: u8, except: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = first as usize;
    while byte <= last as usize {
        table[byte] = true;
        byte += 1;
    }
    let mut i = 0;
    while i < except.len() {
        table[except[i] as usize] = false;
        i += 1;
    }
    table
}

/// The byte that the first two of `bytes` spell in hexadecimal.
pub(crate) fn hex_pair(bytes: &[u8]) -> Option<u8> {
    let &[high, low, ..] = bytes else { return None };
    let (high, low) = (DIGITS[usize::from(high)], DIGITS[usize::from(low)]);
    if high | low > 15 { None } else { Some(high << 4 | low) }
}

/// Decodes pairs of hexadecimal digits. The error is where a digit is missing.
pub(crate) fn decode_hex(field: &mut Vec<u8>) -> std::result::Result<(), usize> {
    if let Some(at) = field.iter().position(|b| DIGITS[usize::from(*b)] == NO_DIGIT) {
        return Err(at);
    }
    if field.len() % 2 == 1 {
        return Err(field.len());
    }
    for to in 0..field.len() / 2 {
        field[to] =
            DIGITS[usize::from(field[2 * to])] << 4 | DIGITS[usize::from(field[2 * to + 1])];
    }
    field.truncate(field.len() / 2);
    Ok(())
}

/// Decodes escapes: `decode` gets what follows a backslash and says which byte it stands for and
/// how many bytes it takes. The error is where the backslash stands that begins none.
pub(crate) fn unescape(
    field: &mut Vec<u8>,
    decode: impl Fn(&[u8]) -> Option<(u8, usize)>,
) -> std::result::Result<(), usize> {
    let Some(first) = memchr(b'\\', field) else { return Ok(()) };
    let (mut from, mut to) = (first, first);
    while from < field.len() {
        let (byte, taken) = decode(&field[from + 1..]).ok_or(from)?;
        field[to] = byte;
        (from, to) = (from + 1 + taken, to + 1);
        let plain = memchr(b'\\', &field[from..]).unwrap_or(field.len() - from);
        field.copy_within(from..from + plain, to);
        (from, to) = (from + plain, to + plain);
    }
    field.truncate(to);
    Ok(())
}

/// What may follow a backslash in Berkeley DB's and MDBM's dumps: a backslash, or two digits.
pub(crate) fn backslash_or_hex(rest: &[u8]) -> Option<(u8, usize)> {
    match rest.first() {
        Some(b'\\') => Some((b'\\', 1)),
        _ => Some((hex_pair(rest)?, 2)),
    }
}

/// Drops a carriage return at the end of a line.
pub(crate) fn drop_return(line: &mut Vec<u8>) {
    line.pop_if(|last| *last == b'\r');
}

/// Writes the bytes that are `plain` as they are, and the others as `other` does.
pub(crate) fn write_escaped(
    out: &mut Output<'_>,
    mut bytes: &[u8],
    plain: &[bool; 256],
    other: impl Fn(&mut Output<'_>, u8) -> Result<()>,
) -> Result<()> {
    while let Some(at) = bytes.iter().position(|b| !plain[usize::from(*b)]) {
        out.write_all(&bytes[..at])?;
        other(out, bytes[at])?;
        bytes = &bytes[at + 1..];
    }
    out.write_all(bytes)
}

/// The two lower-case hexadecimal digits of a byte.
pub(crate) fn lower_hex(byte: u8) -> [u8; 2] {
    [LOWER[usize::from(byte >> 4)], LOWER[usize::from(byte & 15)]]
}

/// Writes a backslash and two lower-case digits.
pub(crate) fn write_backslash_hex(out: &mut Output<'_>, byte: u8) -> Result<()> {
    let [high, low] = lower_hex(byte);
    out.write_all(&[b'\\', high, low])
}
