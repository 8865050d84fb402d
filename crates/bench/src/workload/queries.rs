//! The keys that are asked for, in the order in which they are asked.
//!
//! Invariant: the key bytes of a set lie one after the other in that order, so that reading the
//! next key never costs a cache miss of its own: what is measured is the store. Many come in large pages and are
//! asked for before they are read: keys of 90 bytes took 6 ns each, of which a chain of lookups waited for 13.

use super::distribution::{Chooser, Distribution};
use super::generate::{Keys, stream};
use super::records::{Collector, Index, Records, read_each, read_u64};
use super::spec::Phase;
use super::wide::Wide;
use crate::driver::ahead;
use crate::machine;
use crate::rng::Rng;
use credenza::{Error, Result};
use std::cell::LazyCell;
use std::io::{Read, Write};

/// "Not in the store", in place of a record number.
const ABSENT: u32 = u32::MAX;

/// Keys to ask for, with the record that each must find.
#[derive(Default)]
pub(crate) struct Queries {
    keys: Wide,
    lens: Vec<u32>,
    records: Vec<u32>,
}

impl Queries {
    pub(crate) fn len(&self) -> usize {
        self.lens.len()
    }

    /// All keys once, in random order.
    pub(crate) fn of_all(records: &Records, seed: u64) -> Queries {
        let mut order: Vec<u32> = (0..records.len() as u32).collect();
        Rng::new(seed, stream::REMOVAL).shuffle(&mut order);
        let mut queries = Queries::default();
        order.into_iter().for_each(|record| queries.push(records.key(record as usize), record));
        queries
    }

    pub(crate) fn push(&mut self, key: &[u8], record: u32) {
        self.keys.push(key);
        self.lens.push(key.len() as u32);
        self.records.push(record);
    }

    /// The keys in order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.keys;
        self.lens.iter().map(move |len| {
            ahead::ask(rest);
            let (key, after) = rest.split_at(*len as usize);
            rest = after;
            key
        })
    }

    /// Key bytes and key lengths, for loops that keep their own place.
    pub(crate) fn parts(&self) -> (&[u8], &[u32]) {
        (&self.keys, &self.lens)
    }

    /// The record that query `i` must find; `None` if its key is absent.
    pub(crate) fn expected(&self, i: usize) -> Option<usize> {
        let record = self.records[i];
        (record != ABSENT).then_some(record as usize)
    }

    /// Writes the queries for [`Queries::read_from`].
    pub(crate) fn write_to(&self, out: &mut impl Write) -> std::io::Result<()> {
        out.write_all(&(self.len() as u64).to_le_bytes())?;
        for (len, record) in self.lens.iter().zip(&self.records) {
            out.write_all(&(u64::from(*len) << 32 | u64::from(*record)).to_le_bytes())?;
        }
        out.write_all(&self.keys)
    }

    /// Reads what [`Queries::write_to`] wrote.
    pub(crate) fn read_from(input: &mut impl Read) -> std::io::Result<Queries> {
        let mut queries = Queries::default();
        let count = read_u64(input)?;
        read_each(input, count, |pair| {
            let pair = u64::from_le_bytes(pair);
            queries.lens.push((pair >> 32) as u32);
            queries.records.push(pair as u32);
        })?;
        let mut keys = vec![0; queries.lens.iter().map(|len| *len as usize).sum()];
        input.read_exact(&mut keys)?;
        queries.keys = keys.into();
        Ok(queries)
    }
}

/// The three query sets of a run. Keys that are there are chosen by the workload's distribution. What no phase
/// of the run asks for is empty: every measured process reads the sets.
#[derive(Default)]
pub(crate) struct QuerySets {
    /// Keys that are there.
    pub(crate) hit: Queries,
    /// Of every ten keys in a row, nine are there.
    pub(crate) most: Queries,
    /// Keys that are not there.
    pub(crate) miss: Queries,
}

impl QuerySets {
    /// Those of a phase that looks keys up.
    pub(crate) fn of(&self, phase: Phase) -> &Queries {
        match phase {
            Phase::Get90 => &self.most,
            Phase::GetMiss | Phase::GetManyMiss => &self.miss,
            _ => &self.hit,
        }
    }

    /// `gets` queries of each kind that one of the phases asks for (`None` is all phases), the same whatever else
    /// is asked; `keys` makes candidates for absent keys.
    pub(crate) fn draw(
        records: &Records,
        index: &LazyIndex<'_>,
        keys: &mut dyn Keys,
        distribution: Distribution,
        gets: usize,
        seed: u64,
        phases: Option<&[Phase]>,
    ) -> Result<QuerySets> {
        let mut sets = QuerySets::default();
        let is_any = |asks: fn(&Phase) -> bool| phases.is_none_or(|all| all.iter().any(asks));
        let hits = is_any(asks_for_hits);
        let most = is_any(|phase| *phase == Phase::Get90);
        let misses = is_any(|phase| matches!(phase, Phase::GetMiss | Phase::GetManyMiss));
        if !(hits || most || misses) {
            return Ok(sets);
        }
        let mut present = Rng::new(seed, stream::QUERIES);
        // One for each set, as some go through the keys in order.
        let [mut of_hit, mut of_most] =
            std::array::from_fn(|_| Chooser::new(distribution, records, seed));
        let make = &mut |rng: &mut Rng, key: &mut Vec<u8>| keys.random(rng, key);
        let mut absent =
            AbsentKeys { records, index, make, rng: Rng::new(seed, stream::ABSENT), key: vec![] };
        let mut skipped = 0;
        for i in 0..gets {
            if i.is_multiple_of(1 << 20) {
                machine::check_memory_is_left()?;
            }
            // Whatever is not kept is drawn all the same, and what is kept does not depend on it; but for keys that
            // are not there, which come from numbers of their own.
            let record = of_hit.next(&mut present, records.len());
            if hits {
                sets.hit.push(records.key(record), record as u32);
            }
            if misses {
                sets.miss.push(absent.next()?, ABSENT);
            } else if most {
                absent.next()?;
            }
            if i % 10 == 0 {
                skipped = i + present.index(10);
            }
            let record = of_most.next(&mut present, records.len());
            if i == skipped && (most || misses) {
                let key = absent.next()?;
                if most {
                    sets.most.push(key, ABSENT);
                }
            } else if most {
                sets.most.push(records.key(record), record as u32);
            }
        }
        Ok(sets)
    }

    pub(crate) fn write_to(&self, out: &mut impl Write) -> std::io::Result<()> {
        self.hit.write_to(out)?;
        self.most.write_to(out)?;
        self.miss.write_to(out)
    }

    pub(crate) fn read_from(input: &mut impl Read) -> std::io::Result<QuerySets> {
        Ok(QuerySets {
            hit: Queries::read_from(input)?,
            most: Queries::read_from(input)?,
            miss: Queries::read_from(input)?,
        })
    }
}

/// Whether a phase looks up keys that are there, or goes by how many lookups there are.
fn asks_for_hits(phase: &Phase) -> bool {
    use Phase::{Build, Get90, GetManyMiss, GetMiss, Insert, InsertRandom};
    use Phase::{Range, Reinsert, Remove, Scan};
    let does_not =
        matches!(phase, Build | Scan | Range | Insert | InsertRandom | Reinsert | Remove);
    !does_not && !matches!(phase, Get90 | GetMiss | GetManyMiss)
}

/// An index that is made when somebody looks something up in it.
pub(super) type LazyIndex<'r> = LazyCell<Index, Box<dyn FnOnce() -> Index + 'r>>;

/// `count` keys that are not in the store, each once; `keys` makes candidates for them.
pub(super) fn fresh_keys(
    records: &Records,
    index: &LazyIndex<'_>,
    keys: &mut dyn Keys,
    count: usize,
    seed: u64,
) -> Result<Records> {
    let rng = Rng::new(seed, stream::FRESH);
    let make = &mut |rng: &mut Rng, key: &mut Vec<u8>| keys.to_insert(rng, key);
    let mut absent = AbsentKeys { records, index, make, rng, key: Vec::new() };
    let mut fresh = Collector::new(count);
    let mut repeated = 0;
    while !fresh.is_full() {
        repeated = if fresh.offer(absent.next()?, b"")? { 0 } else { repeated + 1 };
        if repeated == AbsentKeys::TRIES {
            return Err(Error::invalid(format!(
                "only {} of {count} keys to insert were found that the data do not hold: use fewer \
                 operations, or fewer inserts among them",
                fresh.records.len()
            )));
        }
    }
    Ok(fresh.records)
}

/// Draws candidates until one is not in the store.
struct AbsentKeys<'a, 'r> {
    records: &'a Records,
    index: &'a LazyIndex<'r>,
    make: &'a mut dyn FnMut(&mut Rng, &mut Vec<u8>),
    rng: Rng,
    key: Vec<u8>,
}

impl AbsentKeys<'_, '_> {
    const TRIES: usize = 10_000;

    fn next(&mut self) -> Result<&[u8]> {
        for _ in 0..AbsentKeys::TRIES {
            (self.make)(&mut self.rng, &mut self.key);
            if self.index.find(self.records, &self.key).is_none() {
                return Ok(&self.key);
            }
        }
        Err(Error::invalid(format!(
            "no absent key was found among {} random ones: the data hold nearly every key of \
             their shape; use fewer records",
            AbsentKeys::TRIES
        )))
    }
}

/// Keys like those of given data: an existing key with one to four bytes replaced by bytes that
/// occur at the same place in other keys.
pub(crate) struct Alike<'a>(pub(crate) &'a Records);

impl Keys for Alike<'_> {
    fn random(&mut self, rng: &mut Rng, key: &mut Vec<u8>) {
        let records = self.0;
        key.clear();
        key.extend_from_slice(records.key(rng.index(records.len())));
        for _ in 0..=rng.below(4) {
            let other = records.key(rng.index(records.len()));
            let place = rng.index(key.len().min(other.len()));
            match (key.get_mut(place), other.get(place)) {
                (Some(byte), Some(with)) => *byte = *with,
                _ => key.push(b'0' + rng.below(10) as u8),
            }
        }
        // Data with few keys, or keys of a byte, have no such neighbours: then a longer key.
        if rng.below(16) == 0 {
            key.push(b'0' + rng.below(10) as u8);
        }
    }
}
