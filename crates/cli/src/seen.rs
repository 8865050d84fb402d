//! Which keys have come before, with what is known of each: in memory, which is asked for, since nobody knows
//! how many come.

use credenza::{Error, Result};
use std::collections::HashMap;
use std::hint::black_box;
use std::io::ErrorKind;

/// So much is left to everybody else, who ends the program where there is none.
const LEFT: usize = 16 << 20;
/// How much is taken until one looks whether that is left.
const STEP: usize = 1 << 20;
/// About what a key takes besides its bytes.
const HEAD: usize = 64;

/// Keys that have come, and of each something.
pub struct Seen<T> {
    keys: HashMap<Box<[u8]>, T>,
    /// What may be taken until the next look.
    step: usize,
}

impl<T> Seen<T> {
    /// No key has come.
    pub fn new() -> Seen<T> {
        Seen { keys: HashMap::new(), step: 0 }
    }

    /// What is known of a key, if it has come.
    pub fn get(&self, key: &[u8]) -> Option<&T> {
        self.keys.get(key)
    }

    /// A key has come, of which this is known from now on; whether it is the first time. Without memory for it, all
    /// keys are forgotten, lest there be none for the error.
    pub fn put(&mut self, key: &[u8], known: T) -> Result<bool> {
        if let Some(old) = self.keys.get_mut(key) {
            *old = known;
            return Ok(false);
        }
        let Some(key) = self.copied(key) else {
            self.keys = HashMap::new();
            return Err(no_memory());
        };
        self.keys.insert(key, known);
        Ok(true)
    }

    /// A copy of a key, for which there is room.
    fn copied(&mut self, key: &[u8]) -> Option<Box<[u8]>> {
        if self.step < key.len() + HEAD {
            check_left()?;
            self.step = STEP.max(key.len() + HEAD);
        }
        self.step -= key.len() + HEAD;
        self.keys.try_reserve(1).ok()?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(key.len()).ok()?;
        copy.extend_from_slice(key);
        Some(copy.into_boxed_slice())
    }
}

/// Whether enough is left to everybody else.
fn check_left() -> Option<()> {
    let mut room: Vec<u8> = Vec::new();
    room.try_reserve_exact(LEFT).ok()?;
    // Else nobody asks for it.
    black_box(&room);
    Some(())
}

#[cold]
fn no_memory() -> Error {
    let action = "get memory for all keys of the input, which --duplicates holds but for 'keep'";
    Error::io(action, ErrorKind::OutOfMemory.into())
}
