//! What the tests share: reading and writing whole texts, and random records.

#![allow(dead_code, reason = "each test file uses its part")]

use credenza::{Error, ErrorKind};
use credenza_formats::{Format, reader, writer};
use std::io::{BufReader, Cursor};

pub type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// The records of `text` up to its end or the first error, read through a buffer of `buffer` bytes.
pub fn read_through(format: Format, text: &[u8], buffer: usize) -> (Records, Option<Error>) {
    let input = BufReader::with_capacity(buffer, Cursor::new(text.to_vec()));
    let mut reader = reader(format, input);
    let (mut records, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match reader.next_record(&mut key, &mut value) {
            Ok(true) => records.push((key.clone(), value.clone())),
            Ok(false) => return (records, None),
            Err(error) => {
                assert!(reader.next_record(&mut key, &mut value).is_err(), "an error must stay");
                return (records, Some(error));
            }
        }
    }
}

/// The records of a good text.
pub fn read(format: Format, text: &[u8]) -> Records {
    let (records, error) = read_through(format, text, 8192);
    assert!(error.is_none(), "{format}: {}", error.unwrap());
    records
}

/// The error that a bad text gives: line, column, what. Buffers of all sizes must agree.
pub fn error_of(format: Format, text: &[u8]) -> (u64, u64, String) {
    let [one, two, ..] = [8192, 1, 7].map(|buffer| {
        let (_, error) = read_through(format, text, buffer);
        let error = error.unwrap_or_else(|| panic!("{format}: no error: {}", text.escape_ascii()));
        match error.kind() {
            ErrorKind::Text { line, column, what, .. } => (*line, *column, what.clone()),
            other => panic!("{format}: {other:?}"),
        }
    });
    assert_eq!(one, two, "{format}");
    one
}

/// The text of records that the format can all hold.
pub fn write(format: Format, records: &Records) -> Vec<u8> {
    let mut text = Vec::new();
    let mut writer = writer(format, &mut text);
    for (key, value) in records {
        writer.write(key, value).unwrap();
    }
    writer.finish().unwrap();
    text
}

/// A small generator; the same seed gives the same numbers for ever.
pub struct Rng(u64);

impl Rng {
    /// The generator of this seed, or of CREDENZA_SEED; printed so that a failure can be repeated.
    pub fn new(seed: u64) -> Rng {
        let set = std::env::var("CREDENZA_SEED").ok().and_then(|n| n.parse().ok());
        let seed: u64 = set.unwrap_or(seed);
        println!("CREDENZA_SEED={seed}");
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Any bytes, or those that formats treat in a special way, or words, or UTF-8.
    pub fn bytes(&mut self, longest: u64) -> Vec<u8> {
        const SPECIAL: &[u8] = b"\\\"\n\r\t #{}+,:->=xn07\0\x7f\x80\xff";
        let len = self.below(longest + 1);
        match self.below(4) {
            0 => (0..len).map(|_| (self.next() >> 56) as u8).collect(),
            1 => (0..len).map(|_| SPECIAL[self.below(SPECIAL.len() as u64) as usize]).collect(),
            2 => (0..len).map(|_| b'a' + self.below(26) as u8).collect(),
            _ => "жёлтый \u{1f9c0} tab\t"
                .chars()
                .cycle()
                .take(len as usize)
                .collect::<String>()
                .into(),
        }
    }
}
