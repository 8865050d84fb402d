//! The records of YCSB's core workloads, with their parameters: a key is `user` and a number in decimal
//! digits, a value is its fields, of printable bytes, one behind the other.
//!
//! Invariant: frozen, as all that [`generate`](super::generate) makes.

use super::generate::{self, Keys, push_number, stream};
use super::lengths::Lengths;
use super::parameters::Parameters;
use super::records::{Collector, Records};
use crate::rng::Rng;
use credenza::{Error, Result};

/// What YCSB calls fieldcount, fieldlength, insertorder and zeropadding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ycsb {
    fields: usize,
    field: Lengths,
    /// Whether the number in a key is that of the record; else it is a hash of this.
    is_ordered: bool,
    /// Digits of that number at least.
    padding: usize,
}

impl Default for Ycsb {
    fn default() -> Ycsb {
        Ycsb { fields: 10, field: Lengths::fixed(100), is_ordered: false, padding: 1 }
    }
}

impl Ycsb {
    /// Those that are given, the others as YCSB has them.
    pub(super) fn of(given: &mut Parameters<'_>) -> Result<Ycsb> {
        let usual = Ycsb::default();
        let ycsb = Ycsb {
            fields: given.number("field-count", usual.fields, 1..=10_000)?,
            field: given.take("field-length", usual.field, Lengths::WHAT)?,
            is_ordered: given.take("ordered", usual.is_ordered, "true or false")?,
            padding: given.number("zero-padding", usual.padding, 1..=100)?,
        };
        let most = ycsb.fields.saturating_mul(ycsb.field.most());
        if most > Lengths::LIMIT {
            return Err(Error::invalid(format!(
                "ycsb: {} fields of {} bytes may be {most} together, and a value has {} at most: use fewer \
                 fields, or shorter ones",
                ycsb.fields,
                ycsb.field,
                Lengths::LIMIT
            )));
        }
        Ok(ycsb)
    }

    pub(super) fn records(&self, count: usize, seed: u64) -> Result<Records> {
        const KEY: f64 = 23.0;
        generate::check_memory(count, KEY + self.fields as f64 * self.field.average())?;
        let mut rng = Rng::new(seed, stream::DATA);
        let mut collector = Collector::new(count);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for number in 0.. {
            if collector.is_full() {
                break;
            }
            self.key(number, &mut key);
            value.resize((0..self.fields).map(|_| self.field.draw(&mut rng)).sum(), 0);
            rng.fill(&mut value);
            value.iter_mut().for_each(|byte| *byte = b' ' + (*byte & 63));
            collector.offer(&key, &value)?;
        }
        Ok(collector.records)
    }

    /// Keys of numbers behind those of so many records.
    pub(super) fn keys_behind(&self, count: usize) -> KeysBehind {
        KeysBehind { ycsb: *self, count: count as u64, inserted: 0 }
    }

    /// The key of the record of this number.
    fn key(&self, number: u64, key: &mut Vec<u8>) {
        let number = if self.is_ordered { number } else { fnv_of(number) };
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        key.clear();
        key.extend_from_slice(b"user");
        key.extend((digits..self.padding).map(|_| b'0'));
        push_number(key, number);
    }
}

pub(super) struct KeysBehind {
    ycsb: Ycsb,
    count: u64,
    inserted: u64,
}

impl Keys for KeysBehind {
    fn random(&mut self, rng: &mut Rng, key: &mut Vec<u8>) {
        // Hashes are alike whatever they are of; other numbers should have about as many digits.
        let numbers = if self.ycsb.is_ordered { self.count } else { 1 << 40 };
        self.ycsb.key(self.count + rng.below(numbers), key);
    }

    /// In order one behind the other, as YCSB inserts them; of hashes any will do.
    fn to_insert(&mut self, rng: &mut Rng, key: &mut Vec<u8>) {
        if !self.ycsb.is_ordered {
            return self.random(rng, key);
        }
        self.ycsb.key(self.count + self.inserted, key);
        self.inserted += 1;
    }
}

/// The hash FNV-1a of a number's eight bytes, the lowest first, without its sign, as in YCSB.
fn fnv_of(number: u64) -> u64 {
    let hash = number.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::super::{Data, Inputs, Workload};
    use super::*;

    fn prepared(name: &str, records: usize, gets: usize) -> Inputs {
        let found = Workload::find(name).unwrap();
        let wanted = Workload { records: Some(records), gets, seed: 7, phases: None, ..found };
        Inputs::prepare(&wanted).unwrap().0
    }

    fn lens(records: &Records) -> Vec<usize> {
        records.iter().map(|(_, value)| value.len()).collect()
    }

    #[test]
    fn a_value_is_all_fields() {
        let of =
            |parameters: &str| lens(&prepared(&format!("ycsb:{parameters}"), 2000, 10).records);
        assert!(of("field-count=3,field-length=7").iter().all(|len| *len == 21));
        assert!(of("field-count=1").iter().all(|len| *len == 100));
        // Each field is drawn by itself: sums of five are hardly ever at an end.
        let sums = of("field-count=5,field-length=1..100");
        let average = sums.iter().sum::<usize>() / sums.len();
        assert!((240..265).contains(&average), "{average}");
        assert!(sums.iter().filter(|len| (50..450).contains(*len)).count() > 1950);
        let short = of("field-count=1,field-length=zipfian:0..500");
        assert!(short.iter().filter(|len| **len < 50).count() > 1000);
    }

    #[test]
    fn numbers_are_padded_and_in_order_where_that_is_asked_for() {
        let padded = prepared("ycsb:zero-padding=20", 500, 10).records;
        assert!(padded.iter().all(|(key, _)| key.len() == 24 && key.starts_with(b"user")));
        let plain = prepared("ycsb", 500, 10).records;
        let digits = |key: &[u8]| key[4..].iter().skip_while(|b| **b == b'0').copied().collect();
        let numbers = |records: &Records| -> Vec<Vec<u8>> {
            records.iter().map(|(key, _)| digits(key)).collect()
        };
        assert_eq!(numbers(&padded), numbers(&plain));
        let inputs = prepared("ycsb-d:ordered=true,zero-padding=6,field-count=1", 300, 1000);
        // Records first, then what the mix inserts.
        for (number, key) in inputs.keys().enumerate() {
            assert_eq!(str::from_utf8(key).unwrap(), format!("user{number:06}"));
        }
        assert!(inputs.fresh.len() > 20);
        let missed: Vec<&str> =
            inputs.queries.miss.iter().map(|key| str::from_utf8(key).unwrap()).collect();
        assert!(missed.iter().all(|key| ("user000300".."user000600").contains(key)));
        assert!(!missed.is_sorted());
        assert_eq!(prepared("ycsb:ordered=true", 12, 10).records.key(11), b"user11");
    }

    #[test]
    fn options_and_files_take_the_same_parameters_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, "data = \"ycsb:field-count=2,field-length=10..20\"").unwrap();
        let Data::Ycsb(of_file) = Workload::find(path.to_str().unwrap()).unwrap().data else {
            panic!("other data")
        };
        let field = "10..20".parse().unwrap();
        assert_eq!(of_file, Ycsb { fields: 2, field, ..Ycsb::default() });
        let found = Workload::find("ycsb-e:scan-length=zipfian:5..9,ordered=true").unwrap();
        assert_eq!(found.name, "ycsb-e:scan-length=zipfian:5..9,ordered=true");
        assert!(found.mixes.to_string().contains("scan 95 (of zipfian:5..9 records)"));
        assert!(matches!(found.data, Data::Ycsb(Ycsb { is_ordered: true, .. })));
        for (name, what) in [
            ("ycsb-a:fieldcount=1", "ycsb-a has no parameter 'fieldcount', or it is given twice"),
            ("ycsb-a:fieldcount=1", "there are field-count, field-length, ordered, zero-padding"),
            ("ycsb-a:scan-length=5", "ycsb-a has no parameter 'scan-length'"),
            ("ycsb-e:scan-length=0", "scan-length must be at least 1"),
            ("ycsb:field-count=0", "field-count is a number from 1 to 10000, not 0"),
            ("ycsb:field-count=x", "field-count is a number from 1 to 10000, not 'x'"),
            ("ycsb:field-length=9..1", "field-length is a number, MIN..MAX or zipfian:MIN..MAX"),
            ("ycsb:field-length=1073741824", "10 fields of 1073741824 bytes may be 10737418240"),
            ("ycsb:ordered=yes", "ordered is true or false, not 'yes'"),
            ("ycsb:zero-padding=101", "zero-padding is a number from 1 to 100, not 101"),
            ("ycsb:ordered", "'ordered' is no parameter: say NAME=VALUE"),
            ("decimal:ordered=true", "there is no workload 'decimal:ordered=true'"),
            ("ycsb-g:ordered=true", "there is no workload"),
        ] {
            let refused = Workload::find(name).err().unwrap().to_string();
            assert!(refused.contains(what), "{name}: {refused}");
        }
        let large = Workload::find("ycsb:field-count=1,field-length=1073741824").unwrap();
        let large = Workload { records: Some(1_000_000), ..large };
        let refused = Inputs::prepare(&large).err().unwrap().to_string();
        assert!(refused.contains("more than this machine has memory"), "{refused}");
    }
}
