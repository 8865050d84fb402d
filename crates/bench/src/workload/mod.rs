//! What is stored and what is asked for.
//!
//! Reading order: [`records`] (data in memory), [`generate`] and [`files`] (where data come
//! from), [`queries`] and [`ranges`] (what is asked), [`changes`] (what is changed), then here: a workload by name
//! or file, and its preparation.
//!
//! A run prepares its workload once, in the parent process, and every measured process reads the
//! same bytes from one file: all stores are given equal input.

pub(crate) mod changes;
pub(crate) mod files;
pub(crate) mod generate;
pub(crate) mod queries;
pub(crate) mod ranges;
pub(crate) mod records;
mod spec;

pub(crate) use queries::{Queries, QuerySets};
pub(crate) use ranges::Ranges;
pub(crate) use records::{Content, Records};
pub use spec::Phase;
pub(crate) use spec::{Data, Workload};

use credenza::{Error, Result};
use generate::{Decimal, Integers, Random, Tokens};
use queries::Alike;
use records::{Index, MAX_RECORDS};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

/// Everything a measured process works from.
pub(crate) struct Inputs {
    pub(crate) records: Records,
    pub(crate) queries: QuerySets,
    /// Empty where the phase `range` is not asked for: putting all keys in order takes its time.
    pub(crate) ranges: Ranges,
}

impl Inputs {
    /// Makes or reads the data, draws the queries; returns what the reader of the report must
    /// know about them, too.
    pub(crate) fn prepare(workload: &Workload) -> Result<(Inputs, Vec<String>)> {
        let mut notes = Vec::new();
        let records = workload.data.records(workload, &mut notes)?;
        if records.len() == 0 {
            return Err(Error::invalid("there is no record to measure with in the data"));
        }
        let index = Index::over(&records);
        let (seed, count) = (workload.seed, records.len());
        let draw = |keys: &mut dyn generate::Keys| {
            QuerySets::draw(&records, &index, keys, workload.gets, seed)
        };
        let queries = match workload.data {
            Data::Decimal => draw(&mut Decimal::new(count)),
            Data::Tokens => draw(&mut Tokens::new(count, seed)),
            Data::Ups => draw(&mut { Random::UPS }),
            Data::Churn => draw(&mut { Random::CHURN }),
            Data::Ntdb => draw(&mut Integers::new(count)),
            Data::Files { .. } | Data::File { .. } => draw(&mut Alike(&records)),
        }?;
        let has_ranges = workload.phases.as_ref().is_none_or(|all| all.contains(&Phase::Range));
        let count = if has_ranges { workload.gets.div_ceil(Ranges::RECORDS) } else { 0 };
        let ranges = Ranges::draw(&records, count, seed);
        Ok((Inputs { records, queries, ranges }, notes))
    }

    /// Writes everything for [`Inputs::load`].
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let write = || {
            let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
            self.records.write_to(&mut out)?;
            self.queries.write_to(&mut out)?;
            self.ranges.write_to(&mut out)?;
            out.flush()
        };
        write().map_err(|e| Error::io("write", e).at(path))
    }

    /// Reads what [`Inputs::save`] wrote.
    pub(crate) fn load(path: &Path) -> Result<Inputs> {
        let read = || {
            let mut input = BufReader::with_capacity(1 << 20, File::open(path)?);
            let records = Records::read_from(&mut input)?;
            let queries = QuerySets::read_from(&mut input)?;
            Ok(Inputs { records, queries, ranges: Ranges::read_from(&mut input)? })
        };
        read().map_err(|e| Error::io("read", e).at(path))
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
            Data::Ntdb => Integers::new(wanted.unwrap_or(1_000_000)).records(),
            Data::Files { root } => files::paths_below(root, limit),
            Data::File { path, format } => {
                let (records, repeated) = files::records_of(path, *format, limit)?;
                if repeated > 0 {
                    notes.push(format!(
                        "{repeated} records were left out because their key had come before: \
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
