//! What a driver is told of the data and of how its store is to be set up, before it builds or opens it.

use crate::settings::Chosen;
use crate::workload::{KeyType, Place, Records};
use credenza::stats::{Clock, Latency, Statistics};
use serde::{Deserialize, Serialize};

/// How a store is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Setup {
    /// As its authors say that it is fastest.
    #[default]
    Tuned,
    /// As mcdb's benchmark has it: nothing is tuned.
    Mcdb,
    /// As the comparison on Bayes tokens has it: what the stores needed to end in time.
    Bayes,
    /// As the benchmark of NTDB has it: sizes of hash tables fixed, locks taken.
    Ntdb,
    /// As `ups_bench` has it unless told otherwise: upscaledb's own cache of 2 MB, keys of any size.
    Ups,
    /// The same with a cache of 512 MB.
    UpsCache,
    /// The same in the memory of the process, for stores that can be so.
    UpsInMemory,
    /// As the iteration of MDBM's authors has it: the store is half full.
    HalfFull,
}

impl Setup {
    /// Whether it is one of upscaledb's manual.
    pub(super) fn is_ups(self) -> bool {
        matches!(self, Setup::Ups | Setup::UpsCache | Setup::UpsInMemory)
    }

    /// What it is of the settings that a user chooses.
    pub(super) fn settings(self) -> Chosen {
        match self {
            Setup::UpsCache => Chosen::with_cache(512 << 20),
            Setup::UpsInMemory => Chosen::in_memory(),
            _ => Chosen::default(),
        }
    }
}

/// What a store itself does with each operation, besides doing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noting {
    /// It is counted, or an empty function is called with it.
    Counted,
    /// It is counted, and some are timed.
    Sampled,
    /// It is timed by the kernel's clock, and an empty function is called with it.
    Clock,
    /// It is timed by the processor's time stamp counter, and an empty function is called with it.
    Tsc,
}

impl Noting {
    /// The statistics of our own engines that do so.
    pub(super) fn statistics(self) -> Statistics {
        let timed = |clock| {
            Statistics::new().latency(Latency::Every).clock(clock).callback(|event| {
                std::hint::black_box(event);
            })
        };
        match self {
            Noting::Counted => Statistics::new().latency(Latency::Off),
            Noting::Sampled => Statistics::new(),
            Noting::Clock => timed(Clock::Monotonic),
            Noting::Tsc => timed(Clock::Auto),
        }
    }
}

/// What a driver may know of the data before it builds or opens a store: everything a user who
/// tunes a store would know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) records: u64,
    /// What the keys are; whatever it is, they are given as bytes whose order is theirs.
    pub(crate) keys: KeyType,
    /// What the values are: any bytes of that size.
    pub(crate) values: KeyType,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    pub(crate) longest_value: usize,
    /// The length of every key, if all have the same.
    pub(crate) fixed_key: Option<usize>,
    /// The length of every value, if all have the same.
    pub(crate) fixed_value: Option<usize>,
    /// Whether the keys come in ascending order.
    pub(crate) is_sorted: bool,
    pub(crate) setup: Setup,
    /// Where one more value of a key goes, where keys may have several.
    pub(crate) duplicates: Option<Place>,
    /// What the user chose; what is not among it is as the setup has it.
    pub(crate) settings: Chosen,
}

impl Shape {
    pub(crate) fn of(records: &Records) -> Shape {
        let keys = || records.iter().map(|(key, _)| key);
        Shape {
            records: records.len() as u64,
            keys: records.key_type(),
            values: records.value_type(),
            key_bytes: records.key_bytes(),
            value_bytes: records.value_bytes(),
            longest_value: records.iter().map(|(_, value)| value.len()).max().unwrap_or(0),
            fixed_key: the_same(keys().map(<[u8]>::len)),
            fixed_value: the_same(records.iter().map(|(_, value)| value.len())),
            is_sorted: keys().zip(keys().skip(1)).all(|(one, next)| one < next),
            setup: Setup::Tuned,
            duplicates: None,
            settings: Chosen::default(),
        }
    }

    /// That of no data.
    pub(super) fn of_nothing() -> Shape {
        Shape::of(&Records::default())
    }

    /// The same data for stores that are set up so.
    pub(crate) fn set_up(self, setup: Setup) -> Shape {
        Shape { setup, settings: setup.settings(), ..self }
    }

    /// The shape of the data with further keys, each with a value of one of the records.
    pub(crate) fn with(self, fresh: &Records) -> Shape {
        let mut lens = fresh.iter().map(|(key, _)| Some(key.len()));
        let count = fresh.len() as u64;
        Shape {
            records: self.records + count,
            key_bytes: self.key_bytes + fresh.key_bytes(),
            value_bytes: self.value_bytes + count * self.value_bytes / self.records.max(1),
            fixed_key: self.fixed_key.filter(|_| lens.all(|len| len == self.fixed_key)),
            ..self
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.key_bytes + self.value_bytes
    }
}

/// What all of these are, if they are the same.
fn the_same(mut lens: impl Iterator<Item = usize>) -> Option<usize> {
    let first = lens.next()?;
    lens.all(|len| len == first).then_some(first)
}
