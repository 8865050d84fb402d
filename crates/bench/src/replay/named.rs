//! The keys of a script: what an entry names, and what is made up for the hash of a key, another for each.
//!
//! A trace is not trusted: a hash may claim any length, and its key takes memory. So a key that no store has is none,
//! and long ones are made up as long as there is room for them.

use credenza::record::{Entry, Key};
use credenza::{Error, Result};
use std::collections::HashMap;

/// A key that is longer is none that every store of ours has.
const LONGEST: usize = 64 << 10;
/// So many bytes of a key that is made up are no more than its entry in the trace takes, about.
const SHORT: usize = 64;
/// Bytes of keys that are made up, beyond those, in all.
const MADE: usize = 256 << 20;

const TOO_LONG: &str =
    "have a key of over 64 KiB, with the two bytes before it that say which store it is of";
const TOO_MUCH: &str =
    "have a long key that is hashed, for which there is no room: 256 MiB of such are made up";

/// What an entry names.
pub(super) enum Named {
    /// The key of this number.
    Key(u32),
    None,
    /// None that it can be done with, and why.
    Unfit(&'static str),
}

/// The numbers of keys.
#[derive(Default)]
pub(super) struct Keys {
    numbers: HashMap<Box<[u8]>, u32>,
    /// The numbers of hashes among those of short keys of one length, and how many there are of each.
    short: HashMap<(u128, usize), u64>,
    short_of_len: HashMap<usize, u64>,
    /// Bytes that were made up of long ones.
    made: usize,
}

impl Keys {
    /// The key of an entry of this store, if there are several; one that is new is put behind those that there are.
    ///
    /// # Errors
    /// There are more keys than have numbers.
    pub(super) fn name(
        &mut self,
        entry: &Entry,
        space: Option<u16>,
        all: &mut Vec<Box<[u8]>>,
    ) -> Result<Named> {
        let Some(key) = &entry.key else { return Ok(Named::None) };
        let mut bytes = Vec::new();
        if let Some(space) = space {
            // The higher byte first, so that each has its keys together.
            bytes.extend_from_slice(&space.swap_bytes().to_le_bytes());
        }
        if key.len() > (LONGEST - bytes.len()) as u64 {
            return Ok(Named::Unfit(TOO_LONG));
        }
        match key {
            Key::Plain(key) => bytes.extend_from_slice(key),
            Key::Hashed { hash, len } => self.make(*hash, *len as usize, &mut bytes),
            _ => return Ok(Named::None),
        }
        if let Some(number) = self.numbers.get(&bytes[..]) {
            return Ok(Named::Key(*number));
        }
        if matches!(key, Key::Hashed { .. }) {
            let made = self.made + bytes.len().saturating_sub(SHORT);
            if made > MADE {
                return Ok(Named::Unfit(TOO_MUCH));
            }
            self.made = made;
        }
        let number = u32::try_from(self.numbers.len())
            .map_err(|_| Error::invalid("the trace has more keys than the workbench takes"))?;
        let bytes: Box<[u8]> = bytes.into();
        all.push(bytes.clone());
        self.numbers.insert(bytes, number);
        Ok(Named::Key(number))
    }

    /// Makes a key of this length up for a hash.
    fn make(&mut self, hash: u128, len: usize, out: &mut Vec<u8>) {
        if len >= 16 {
            let mut repeated = hash.to_le_bytes().repeat(len.div_ceil(16));
            repeated.truncate(len);
            return out.append(&mut repeated);
        }
        let next = self.short_of_len.entry(len).or_default();
        let number = *self.short.entry((hash, len)).or_insert_with(|| {
            *next += 1;
            *next - 1
        });
        // Odd, so that no two numbers of so many bytes become one.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        out.extend(mixed.iter().chain(&hash.to_le_bytes()).take(len));
    }
}
