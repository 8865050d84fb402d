//! Data sets made from a seed: `decimal`, `tokens`, `ups`, `churn`, `random` and `ntdb`.
//!
//! Invariant: frozen. The same seed and count give the same records in every version.

use super::key_type::{KeyType, Types};
use super::lengths::Lengths;
use super::records::{Collector, Records};
use crate::machine;
use crate::rng::Rng;
use credenza::{Error, Result};

/// A source of keys of one shape. Present and absent keys come from the same source, so that a
/// store cannot tell them apart by their looks.
pub(crate) trait Keys {
    /// Writes a random key into `key`.
    fn random(&mut self, rng: &mut Rng, key: &mut Vec<u8>);

    /// Writes the key into `key` that a mix inserts next: any, where they come in no order.
    fn to_insert(&mut self, rng: &mut Rng, key: &mut Vec<u8>) {
        self.random(rng, key);
    }
}

/// Refuses so many records of so many bytes each where the machine cannot hold them.
pub(super) fn check_memory(count: usize, bytes_each: f64) -> Result<()> {
    let bytes = bytes_each * count as f64;
    if bytes > machine::memory_bytes() as f64 {
        return Err(Error::invalid(format!(
            "{count} records of such sizes are about {bytes:.0} bytes, more than this machine \
             has memory: use fewer records, or smaller ones"
        )));
    }
    Ok(())
}

/// The random streams of a seed, so that no two uses share numbers.
pub(crate) mod stream {
    pub(crate) const DATA: u64 = 1;
    pub(crate) const WORDS: u64 = 2;
    pub(crate) const QUERIES: u64 = 3;
    pub(crate) const ABSENT: u64 = 4;
    pub(crate) const ROUNDS: u64 = 5;
    pub(crate) const REMOVAL: u64 = 6;
    pub(crate) const MIXED: u64 = 7;
    pub(crate) const RANGES: u64 = 8;
    pub(crate) const SHUFFLE: u64 = 9;
    pub(crate) const SCRAMBLE: u64 = 10;
    pub(crate) const FRESH: u64 = 11;
    pub(crate) const NEW_VALUES: u64 = 12;
    pub(crate) const BESIDE: u64 = 13;
    pub(crate) const ARRIVALS: u64 = 14;
    pub(crate) const INSERT_ORDER: u64 = 15;
    pub(crate) const FRESH_ORDER: u64 = 16;

    /// That of one of several mixes, by its number; that of the first is the stream itself.
    pub(crate) fn of_mix(stream: u64, number: usize) -> u64 {
        stream | (number as u64) << 32
    }
}

// --- decimal -----------------------------------------------------------------------------------

/// mcdb's own test: the numbers from 0 with leading zeros, each its own value, in order. As all numbers below a
/// key are there, the absent ones are all behind the largest.
pub(crate) struct Decimal {
    width: usize,
}

impl Decimal {
    /// Eight digits, as mcdb has them; more when the absent keys would run out.
    pub(crate) fn new(records: usize) -> Decimal {
        Decimal { width: (records.saturating_mul(2).max(1) - 1).to_string().len().max(8) }
    }

    pub(crate) fn records(&self, count: usize) -> Result<Records> {
        let mut records = Records::default();
        for i in 0..count {
            let text = format!("{i:0width$}", width = self.width);
            records.push(text.as_bytes(), text.as_bytes())?;
        }
        Ok(records)
    }
}

impl Keys for Decimal {
    fn random(&mut self, rng: &mut Rng, key: &mut Vec<u8>) {
        key.clear();
        key.extend((0..self.width).map(|_| b'0' + rng.below(10) as u8));
    }
}

// --- tokens ------------------------------------------------------------------------------------

/// Tokens of a Bayes filter for mail: some words, then pairs of words; 3 to 40 bytes, 12.85 on
/// average. The value is `spam,ham,generation`, 12.0 bytes on average.
pub(crate) struct Tokens {
    words: Vec<Vec<u8>>,
}

/// How often words of 3, 4, 5, ... 19 letters are drawn. Words are distinct, so that some short
/// ones are drawn in vain: 5.96 letters remain on average, and a pair with its space has 12.9.
const WORDS_OF_LENGTH: [u64; 17] =
    [6400, 22500, 24500, 18000, 11700, 7750, 4450, 2450, 1250, 720, 370, 185, 93, 46, 23, 14, 9];

/// Letters about as often as in English: each as many times as it comes in 64.
const LETTERS: &[u8; 64] = b"eeeeeeeettttttaaaaaooooooiiiiinnnnsssshhhrrrrddlllcuummwfggypbvk";

impl Tokens {
    pub(crate) fn new(records: usize, seed: u64) -> Tokens {
        let count = (records / 10).clamp(64, 100_000);
        let mut rng = Rng::new(seed, stream::WORDS);
        let mut seen = std::collections::HashSet::new();
        let mut words = Vec::with_capacity(count);
        while words.len() < count {
            let word = random_word(&mut rng);
            if seen.insert(word.clone()) {
                words.push(word);
            }
        }
        Tokens { words }
    }

    pub(crate) fn records(&mut self, count: usize, seed: u64) -> Result<Records> {
        let mut rng = Rng::new(seed, stream::DATA);
        let mut collector = Collector::new(count);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for word in self.words.iter().take(count) {
            random_counts(&mut rng, &mut value);
            collector.offer(word, &value)?;
        }
        while !collector.is_full() {
            self.random(&mut rng, &mut key);
            random_counts(&mut rng, &mut value);
            collector.offer(&key, &value)?;
        }
        Ok(collector.records)
    }
}

impl Keys for Tokens {
    fn random(&mut self, rng: &mut Rng, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&self.words[rng.index(self.words.len())]);
        key.push(b' ');
        key.extend_from_slice(&self.words[rng.index(self.words.len())]);
    }
}

fn random_word(rng: &mut Rng) -> Vec<u8> {
    let mut ticket = rng.below(WORDS_OF_LENGTH.iter().sum());
    let mut len = 3;
    for count in WORDS_OF_LENGTH {
        if ticket < count {
            break;
        }
        ticket -= count;
        len += 1;
    }
    (0..len).map(|_| LETTERS[rng.index(64)]).collect()
}

/// Two counts of one to four digits, each length as often, and a generation of five.
fn random_counts(rng: &mut Rng, value: &mut Vec<u8>) {
    value.clear();
    for _ in 0..2 {
        let low = 10_u64.pow(rng.below(4) as u32);
        push_number(value, low + rng.below(low * 9));
        value.push(b',');
    }
    push_number(value, 10_000 + rng.below(90_000));
}

pub(super) fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(number.to_string().as_bytes());
}

// --- ups, churn, random ------------------------------------------------------------------------

/// Random keys, where nobody says of what type of letters and digits, and values of random bytes, which
/// no compression shortens but where they say so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    pub(super) types: Types,
    pub(super) key: Lengths,
    pub(super) value: Lengths,
    /// The part of a value that is random; the rest has the same bytes again.
    pub(super) novel: f64,
}

impl Random {
    /// As upscaledb's benchmark has them.
    pub(crate) const UPS: Random = Random::of_bytes(16, 1024);
    /// Records of a middle size, to be changed.
    pub(crate) const CHURN: Random = Random::of_bytes(32, 128);

    pub(crate) const fn of_bytes(key: usize, value: usize) -> Random {
        let (key, value) = (Lengths::fixed(key), Lengths::fixed(value));
        let types = Types { keys: KeyType::Binary, values: KeyType::Binary };
        Random { types, key, value, novel: 1.0 }
    }

    /// The types of keys and values, which have their sizes.
    pub(crate) fn of_types(self, types: Types) -> Random {
        let size = |of: KeyType, usual| of.width().map_or(usual, Lengths::fixed);
        let (key, value) = (size(types.keys, self.key), size(types.values, self.value));
        Random { types, key, value, ..self }
    }

    /// Records where nobody says how many: of few keys one half, as some have to be absent.
    pub(crate) fn usual_count(&self) -> usize {
        self.types.keys.few().map_or(1_000_000, |keys| keys / 2)
    }

    pub(crate) fn records(&mut self, count: usize, seed: u64) -> Result<Records> {
        check_memory(count, self.key.average() + self.value.average())?;
        if let Some(keys) = self.types.keys.few().filter(|keys| *keys <= count) {
            return Err(Error::invalid(format!(
                "there are {keys} keys of type {}, of which some have to be absent: use fewer than \
                 {count} records, or another key-type",
                self.types.keys
            )));
        }
        let mut rng = Rng::new(seed, stream::DATA);
        let mut collector = Collector::of_types(self.types, count);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut repeated = 0;
        while !collector.is_full() {
            if self.types.keys.is_numbered() {
                self.types.keys.numbered(collector.records.len() as u64 + 1, &mut key);
            } else {
                self.random(&mut rng, &mut key);
            }
            value.resize(self.value.draw(&mut rng), 0);
            self.fill(&mut rng, &mut value);
            repeated = if collector.offer(&key, &value)? { 0 } else { repeated + 1 };
            if repeated == Random::TRIES {
                return Err(Error::invalid(format!(
                    "only {} of {count} random keys were different: use longer keys, or fewer \
                     records",
                    collector.records.len()
                )));
            }
        }
        Ok(collector.records)
    }

    /// What part of a value a codec leaves at least.
    pub(crate) fn compression_ratio(&self) -> f64 {
        self.novel
    }

    /// Whether a codec could make values shorter.
    pub(crate) fn is_compressible(&self) -> bool {
        self.novel < 1.0
    }

    /// Fills a value: bytes that are new, and these again and again, as a codec finds repetitions in real ones.
    fn fill(&self, rng: &mut Rng, value: &mut [u8]) {
        let novel = ((value.len() as f64 * self.novel).ceil() as usize).min(value.len());
        rng.fill(&mut value[..novel]);
        for i in novel..value.len() {
            value[i] = value[i - novel];
        }
    }

    /// So many keys in a row that were there already: there are hardly any others.
    const TRIES: usize = 10_000;
}

impl Keys for Random {
    fn random(&mut self, rng: &mut Rng, key: &mut Vec<u8>) {
        const LETTERS: &[u8; 62] =
            b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        if self.types.keys.width().is_some() {
            return self.types.keys.random_number(rng, key);
        }
        key.clear();
        let len = self.key.draw(rng);
        if self.types.keys == KeyType::String {
            key.extend((0..len).map(|_| b' ' + rng.below(95) as u8));
        } else {
            key.extend((0..len).map(|_| LETTERS[rng.index(62)]));
        }
    }
}

/// The numbers behind those that the store has given.
pub(crate) struct NotGiven {
    keys: KeyType,
    count: u64,
}

impl NotGiven {
    pub(super) fn behind(records: &Records) -> NotGiven {
        NotGiven { keys: records.key_type(), count: records.len() as u64 }
    }
}

impl Keys for NotGiven {
    fn random(&mut self, rng: &mut Rng, key: &mut Vec<u8>) {
        self.keys.numbered(self.count + 1 + rng.below(self.count), key);
    }
}

// --- ntdb --------------------------------------------------------------------------------------

/// NTDB's own benchmark, `tools/speed.c`: the numbers from 0 in four bytes, each its own value, in
/// order. The lowest byte comes first on every machine.
pub(crate) struct Integers {
    count: u32,
}

impl Integers {
    pub(crate) fn new(count: usize) -> Integers {
        Integers { count: u32::try_from(count).unwrap_or(u32::MAX) }
    }

    pub(crate) fn records(&self) -> Result<Records> {
        let mut records = Records::default();
        for i in 0..self.count {
            records.push(&i.to_le_bytes(), &i.to_le_bytes())?;
        }
        Ok(records)
    }
}

impl Keys for Integers {
    /// A number up to twice the count: those behind the count are absent, as NTDB's test has it.
    fn random(&mut self, rng: &mut Rng, key: &mut Vec<u8>) {
        let i = rng.below(2 * u64::from(self.count)) as u32;
        key.clear();
        key.extend_from_slice(&i.to_le_bytes());
    }
}
