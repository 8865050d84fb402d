//! What is stored and what is asked for.
//!
//! Reading order: [`key_type`] and [`records`] (data in memory), [`generate`], [`ycsb`] and [`files`] (where
//! data come from), [`distribution`] and [`lengths`] (what is drawn), [`insert_order`] (in which order records
//! are stored), [`queries`] and [`ranges`] (what is asked), [`mix`], [`mixes`] and [`changes`] (what is done in
//! turn), then here: a workload by name or file, and its preparation.
//!
//! A run prepares its workload once, in the parent process, and every measured process reads the
//! same bytes from one file: all stores are given equal input.

pub(crate) mod changes;
mod count;
pub(crate) mod distribution;
pub(crate) mod files;
pub(crate) mod generate;
mod insert_order;
pub(crate) mod key_type;
mod lengths;
pub(crate) mod mix;
pub(crate) mod mixes;
mod parameters;
pub(crate) mod queries;
pub(crate) mod ranges;
pub(crate) mod records;
mod sample;
mod spec;
pub(crate) mod transactions;
mod wide;
mod ycsb;

pub(crate) use insert_order::InsertOrder;
pub(crate) use key_type::{KeyType, Types};
pub(crate) use mix::{Action, Mix, Place};
pub(crate) use mixes::Mixes;
pub(crate) use queries::{Queries, QuerySets};
pub(crate) use ranges::Ranges;
pub(crate) use records::{Content, Records};
pub(crate) use sample::are_in_part;
pub use spec::Phase;
pub(crate) use spec::{Data, PhaseParser, Workload};

use crate::report::text;
use credenza::{Error, Result};
use generate::{Decimal, Integers, NotGiven, Random, Tokens};
use queries::{Alike, LazyIndex, fresh_keys};
use records::{Index, MAX_RECORDS};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Write};
use std::path::Path;

/// Everything a measured process works from.
pub(crate) struct Inputs {
    pub(crate) records: Records,
    pub(crate) queries: QuerySets,
    /// Empty where the phase `range` is not asked for: putting all keys in order takes its time.
    pub(crate) ranges: Ranges,
    /// Keys that `mixed` inserts, in this order; they have no values of their own.
    pub(crate) fresh: Records,
}

impl Inputs {
    /// All keys that a store may be given.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.records.iter().chain(self.fresh.iter()).map(|(key, _)| key)
    }

    /// Makes or reads the data, draws the queries; returns what the reader of the report must
    /// know about them, too.
    pub(crate) fn prepare(workload: &Workload) -> Result<(Inputs, Vec<String>)> {
        let mut notes = Vec::new();
        let records = workload.data.records(workload, &mut notes)?;
        Ok((Inputs::over(records, workload)?, notes))
    }

    /// Draws the queries for these records: those of the workload's data, or some of them.
    pub(crate) fn over(records: Records, workload: &Workload) -> Result<Inputs> {
        if records.len() == 0 {
            return Err(Error::invalid("there is no record to measure with in the data"));
        }
        let order = workload.insert_order;
        let records = order.of_data(records, workload.seed)?;
        // Made when it is first needed: of millions of records that nobody looks up it takes seconds.
        let index = LazyIndex::new(Box::new(|| Index::over(&records)));
        let (seed, count) = (workload.seed, records.len());
        let is_asked = |phase| workload.phases.as_ref().is_none_or(|all| all.contains(&phase));
        let wants = |phase| is_asked(phase) && workload.leaves_out(phase).is_none();
        let inserts = match workload.mixes.phases().any(wants) {
            true => workload.mixes.inserts(&records, workload.gets, seed),
            false => 0,
        };
        let (distribution, phases) = (workload.distribution, workload.phases.as_deref());
        let draw = |keys: &mut dyn generate::Keys| {
            let fresh = fresh_keys(&records, &index, keys, inserts, seed)?;
            let fresh = order.of_fresh(fresh, seed)?;
            let queries =
                QuerySets::draw(&records, &index, keys, distribution, workload.gets, seed, phases)?;
            Ok((queries, fresh))
        };
        let (queries, fresh) = match workload.data {
            Data::Decimal => draw(&mut Decimal::new(count)),
            Data::Tokens => draw(&mut Tokens::new(count, seed)),
            Data::Ups => draw(&mut { Random::UPS }),
            Data::Churn => draw(&mut { Random::CHURN }),
            Data::Random(_) if records.key_type().is_numbered() => {
                draw(&mut NotGiven::behind(&records))
            }
            Data::Random(mut sizes) => draw(&mut sizes),
            Data::Ntdb => draw(&mut Integers::new(count)),
            Data::Ycsb(ycsb) => draw(&mut ycsb.keys_behind(count)),
            Data::Files { .. } | Data::Words | Data::File { .. } => draw(&mut Alike(&records)),
        }?;
        let count = if wants(Phase::Range) { workload.gets.div_ceil(Ranges::RECORDS) } else { 0 };
        let ranges = Ranges::draw(&records, count, seed);
        drop(index);
        Ok(Inputs { records, queries, ranges, fresh })
    }

    /// Writes everything for [`Inputs::load`].
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let write = || {
            let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
            self.write_to(&mut out)?;
            out.flush()
        };
        write().map_err(|e| match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                let mut needed = Counter(0);
                // Counting cannot fail.
                let _ = self.write_to(&mut needed);
                Error::invalid(format!(
                    "{e}: the data and queries take {} here, and each store comes on top of that: make room, \
                     name another folder with --dir, or take fewer --records or --gets",
                    text::bytes(needed.0)
                ))
                .at(path)
            }
            _ => Error::io("write", e).at(path),
        })
    }

    fn write_to(&self, out: &mut impl Write) -> std::io::Result<()> {
        self.records.write_to(out)?;
        self.queries.write_to(out)?;
        self.ranges.write_to(out)?;
        self.fresh.write_to(out)
    }

    /// Reads what [`Inputs::save`] wrote.
    pub(crate) fn load(path: &Path) -> Result<Inputs> {
        let read = || {
            let mut input = BufReader::with_capacity(1 << 20, File::open(path)?);
            let records = Records::read_from(&mut input)?;
            let queries = QuerySets::read_from(&mut input)?;
            let ranges = Ranges::read_from(&mut input)?;
            Ok(Inputs { records, queries, ranges, fresh: Records::read_from(&mut input)? })
        };
        read().map_err(|e| Error::io("read", e).at(path))
    }
}

/// Counts what is written, and keeps nothing.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Data {
    fn records(&self, workload: &Workload, notes: &mut Vec<String>) -> Result<Records> {
        let (seed, wanted) = (workload.seed, workload.records);
        let limit = wanted.unwrap_or(MAX_RECORDS);
        match self {
            Data::Decimal => {
                let count = wanted.unwrap_or(1_000_000);
                Decimal::new(count).records(count)
            }
            Data::Tokens => {
                let count = wanted.unwrap_or(11_004_950);
                Tokens::new(count, seed).records(count, seed)
            }
            Data::Ups => { Random::UPS }.records(wanted.unwrap_or(1_000_000), seed),
            Data::Churn => { Random::CHURN }.records(wanted.unwrap_or(1_000_000), seed),
            Data::Random(sizes) => { *sizes }.records(wanted.unwrap_or(sizes.usual_count()), seed),
            Data::Ntdb => Integers::new(wanted.unwrap_or(1_000_000)).records(),
            Data::Ycsb(ycsb) => ycsb.records(wanted.unwrap_or(1_000_000), seed),
            Data::Files { root } => files::paths_below(root, limit),
            Data::Words => files::words(Path::new(files::WORDS), limit),
            Data::File { path, format } => {
                let files::Found { records, repeated, notes: of_file } =
                    files::records_of(path, *format, limit)?;
                if records.len() == 0 && limit > 0 {
                    return Err(Error::invalid("there is no record in it to measure with").at(path));
                }
                notes.extend(of_file);
                if repeated > 0 {
                    let were = if repeated == 1 { "record was" } else { "records were" };
                    notes.push(format!(
                        "{repeated} {were} left out because a record with its key had come before: \
                         stores differ in what they do with a second value"
                    ));
                }
                Ok(records)
            }
        }
    }
}

#[cfg(test)]
mod tests;
