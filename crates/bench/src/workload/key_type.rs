//! What keys are: bytes, text, numbers, or numbers that the store gives; and what values are.
//!
//! Invariant: whatever they are, in the workbench keys are bytes whose order is theirs, as
//! [`credenza::btree::Key`] makes them, so that the model, the checks and every store without types go by
//! bytes alone. No floating-point key is NaN, infinite or -0, which stores do not all have in one place.
//! Values are any bytes of the size of their type: nothing compares them with each other.

use super::spec::Phase;
use crate::rng::Rng;
use credenza::btree::Key;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of all keys of a workload, or of all values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeyType {
    /// Bytes of which nothing is said.
    #[default]
    Binary,
    /// Printable text.
    String,
    U8,
    U16,
    U32,
    U64,
    I64,
    F32,
    F64,
    /// From 1 on in 32 bits, by the store, in the order in which records are put there.
    Number32,
    /// The same in 64 bits.
    Number64,
    /// Bytes of which nothing is said, in an order that a function of ours makes: that of the bytes.
    Custom,
}

impl KeyType {
    pub(crate) const ALL: [KeyType; 12] = [
        KeyType::Binary,
        KeyType::String,
        KeyType::U8,
        KeyType::U16,
        KeyType::U32,
        KeyType::U64,
        KeyType::I64,
        KeyType::F32,
        KeyType::F64,
        KeyType::Number32,
        KeyType::Number64,
        KeyType::Custom,
    ];

    /// What values can be: those that have a size, and no more.
    pub(crate) const OF_VALUES: [KeyType; 7] = [
        KeyType::Binary,
        KeyType::U8,
        KeyType::U16,
        KeyType::U32,
        KeyType::U64,
        KeyType::F32,
        KeyType::F64,
    ];

    /// The name in workload files and results: that of our btree, where it has such a type.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            KeyType::Binary => "binary",
            KeyType::String => "string",
            KeyType::U8 => "u8",
            KeyType::U16 => "u16",
            KeyType::U32 => "u32",
            KeyType::U64 => "u64",
            KeyType::I64 => "i64",
            KeyType::F32 => "f32",
            KeyType::F64 => "f64",
            KeyType::Number32 => "record-number32",
            KeyType::Number64 => "record-number64",
            KeyType::Custom => "custom",
        }
    }

    /// The name in results, where bytes of which nothing is said need none.
    pub(crate) fn name_unless_bytes(self) -> Option<String> {
        (self != KeyType::Binary).then(|| self.name().to_owned())
    }

    /// Bytes of a key; `None` where keys may have any number.
    pub(crate) const fn width(self) -> Option<usize> {
        match self {
            KeyType::Binary | KeyType::String | KeyType::Custom => None,
            KeyType::U8 => Some(1),
            KeyType::U16 => Some(2),
            KeyType::U32 | KeyType::F32 | KeyType::Number32 => Some(4),
            KeyType::U64 | KeyType::I64 | KeyType::F64 | KeyType::Number64 => Some(8),
        }
    }

    /// Whether the store gives the keys.
    pub(crate) const fn is_numbered(self) -> bool {
        matches!(self, KeyType::Number32 | KeyType::Number64)
    }

    /// How many keys there are, where that is few.
    pub(crate) const fn few(self) -> Option<usize> {
        match self {
            KeyType::U8 => Some(1 << 8),
            KeyType::U16 => Some(1 << 16),
            _ => None,
        }
    }

    /// Why a phase is not done with such keys; `None` if it is.
    pub(crate) fn leaves_out(self, phase: Phase) -> Option<&'static str> {
        match phase {
            _ if !self.is_numbered() => None,
            Phase::InsertRandom | Phase::InsertSync => {
                Some("the store gives the numbers, in the order of the inserts")
            }
            Phase::Mixed | Phase::OneMix(_) => {
                Some("its operations are of keys in any order, and the store gives these")
            }
            _ => None,
        }
    }

    /// Writes a random key of a type of numbers into `key`.
    pub(super) fn random_number(self, rng: &mut Rng, key: &mut Vec<u8>) {
        key.clear();
        match self {
            KeyType::F32 => loop {
                let number = f32::from_bits(rng.next() as u32);
                if number.is_finite() && number.to_bits() != (-0.0_f32).to_bits() {
                    return number.with_bytes(|bytes| key.extend_from_slice(bytes));
                }
            },
            KeyType::F64 => loop {
                let number = f64::from_bits(rng.next());
                if number.is_finite() && number.to_bits() != (-0.0_f64).to_bits() {
                    return number.with_bytes(|bytes| key.extend_from_slice(bytes));
                }
            },
            _ => {
                key.resize(self.width().unwrap_or(0), 0);
                rng.fill(key);
            }
        }
    }

    /// Writes the key of a record's number into `key`.
    pub(super) fn numbered(self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        number.with_bytes(|bytes| {
            key.extend_from_slice(&bytes[8 - self.width().unwrap_or(8).min(8)..]);
        });
    }
}

/// What keys and values are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Types {
    pub(crate) keys: KeyType,
    pub(crate) values: KeyType,
}

/// The type of this name among those that there are for what `setting` sets.
pub(super) fn find(setting: &str, types: &[KeyType], text: &str) -> Result<KeyType> {
    types.iter().copied().find(|known| known.name() == text).ok_or_else(|| {
        let all: Vec<&str> = types.iter().map(|known| known.name()).collect();
        Error::invalid(format!("there is no {setting} '{text}': say {}", all.join(", ")))
    })
}

/// The number of a record by its key.
#[inline]
pub(crate) fn number_of(key: &[u8]) -> u64 {
    key.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(of: KeyType, seed: u64) -> Vec<Vec<u8>> {
        let (mut rng, mut key) = (Rng::new(seed, 0), Vec::new());
        let mut next = || {
            of.random_number(&mut rng, &mut key);
            key.clone()
        };
        (0..2000).map(|_| next()).collect()
    }

    /// Danger: a store that compares numbers has another order than the workbench, which compares bytes.
    fn is_in_order<K: Key<Owned = K> + PartialOrd + Copy>(of: KeyType) {
        assert_eq!(of.name(), K::NAME);
        let mut all = keys(of, 7);
        assert_eq!(all, keys(of, 7));
        assert_ne!(all, keys(of, 8));
        all.sort();
        all.dedup();
        let numbers: Vec<K> = all.iter().map(|key| K::from_bytes(key).unwrap()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{of}");
        assert!(all.iter().all(|key| Some(key.len()) == of.width()), "{of}");
        let zero = K::from_bytes(&vec![0; all[0].len()]).map(|_| all.len());
        assert!(zero.is_some() && all.len() > 200, "{of}: {}", all.len());
    }

    #[test]
    fn the_order_of_bytes_is_that_of_the_type() {
        is_in_order::<u8>(KeyType::U8);
        is_in_order::<u16>(KeyType::U16);
        is_in_order::<u32>(KeyType::U32);
        is_in_order::<u64>(KeyType::U64);
        is_in_order::<i64>(KeyType::I64);
        is_in_order::<f32>(KeyType::F32);
        is_in_order::<f64>(KeyType::F64);
    }

    #[test]
    fn floats_of_all_sizes_and_both_signs_are_drawn() {
        let floats = keys(KeyType::F32, 1).into_iter().map(|key| f32::from_bytes(&key).unwrap());
        let all: Vec<f32> = floats.collect();
        let count = |is: fn(&f32) -> bool| all.iter().filter(|number| is(number)).count();
        assert_eq!(count(|number| number.is_finite()), 2000);
        assert!((900..1100).contains(&count(|number| *number < 0.0)));
        assert!((900..1100).contains(&count(|number| number.abs() < 1.0)));
    }

    #[test]
    fn records_are_numbered_in_their_order() {
        for (of, last) in [(KeyType::Number32, u64::from(u32::MAX)), (KeyType::Number64, u64::MAX)]
        {
            let (mut key, mut before) = (Vec::new(), Vec::new());
            for number in [1, 2, 255, 256, 70_000, last] {
                of.numbered(number, &mut key);
                assert!(key > before && number_of(&key) == number && Some(key.len()) == of.width());
                before.clone_from(&key);
            }
        }
    }

    #[test]
    fn types_have_the_names_of_the_btree() {
        let of_keys = |name: &str| find("key-type", &KeyType::ALL, name);
        for of in KeyType::ALL {
            assert_eq!(of_keys(of.name()).unwrap(), of);
        }
        for known in credenza::btree::KeyType::known() {
            assert_eq!(of_keys(known.name()).unwrap().name(), known.name());
        }
        let refused = of_keys("uint8").unwrap_err().to_string();
        assert!(refused.contains("no key-type 'uint8': say binary, string, u8"), "{refused}");
    }
}
