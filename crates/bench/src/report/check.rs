//! Whether the figures of a report that was read are such as a run gives.
//!
//! A file that was cut, edited or put together by hand may be a report by its fields, and nonsense by what is
//! in them: who compares with that would be told that all is well.

use super::together::many;
use crate::driver::Changes;
use crate::result::{PhaseResult, Report, Summary, TogetherResult};
use crate::workload::Phase;
use credenza::{Error, ErrorKind, Result};
use std::collections::HashSet;

/// Refuses a report with figures that no run gives.
///
/// # Errors
/// A phase or a class that there is not; a name of a store with characters that are not to be seen; a part that
/// is more than all; a number of samples that is not that of the rounds; a sample that is no time or
/// no rate; one result twice. The error names the place in the report.
pub(super) fn figures(report: &Report) -> Result<()> {
    results("results", &report.results)?;
    for (i, growth) in report.growth.iter().enumerate() {
        results(&format!("growth[{i}].results"), &growth.results)?;
    }
    let mut known = HashSet::new();
    for (i, result) in report.together.iter().enumerate() {
        let TogetherResult { store, phase, class, by, .. } = result;
        let readers = many(result.readers, by);
        let place = format!("together[{i}] ({}, {phase}, {readers})", store.escape_debug());
        of_store(&place, store, class)?;
        of_phase(&place, phase)?;
        part(&place, result.hit_rate)?;
        samples(&format!("{place}: per_second"), result.rounds, &result.per_second)?;
        rounds(&place, result.rounds, &result.sample_rounds)?;
        let counts = [result.readers, result.writers, result.processors];
        if !known.insert((store, phase, class, by, counts, result.bound)) {
            return Err(unfit(&place, "the same is there before"));
        }
    }
    Ok(())
}

fn results(list: &str, results: &[PhaseResult]) -> Result<()> {
    let mut known = HashSet::new();
    for (i, result) in results.iter().enumerate() {
        let PhaseResult { store, phase, class, .. } = result;
        let place = format!("{list}[{i}] ({}, {phase})", store.escape_debug());
        of_store(&place, store, class)?;
        of_phase(&place, phase)?;
        part(&place, result.hit_rate.unwrap_or(0.0))?;
        samples(&format!("{place}: ns_per_op"), result.rounds, &result.ns_per_op)?;
        rounds(&place, result.rounds, &result.sample_rounds)?;
        if !known.insert((store, phase, class)) {
            let what =
                format!("store, phase and class ('{class}') are those of a result before it");
            return Err(unfit(&place, &what));
        }
    }
    Ok(())
}

/// The name is of a store of any version of this program, or of a server: one that a terminal shows as it is.
fn of_store(place: &str, store: &str, class: &str) -> Result<()> {
    if store.is_empty() || store.contains(char::is_control) {
        return Err(unfit(place, &format!("{store:?} is no name of a store")));
    }
    match Changes::ALL.iter().any(|known| known.class() == class) {
        true => Ok(()),
        false => Err(unfit(place, &format!("there is no class {class:?}"))),
    }
}

fn part(place: &str, hit_rate: f64) -> Result<()> {
    match (0.0..=1.0).contains(&hit_rate) {
        true => Ok(()),
        false => Err(unfit(place, &format!("hit_rate: {hit_rate:?} is not from 0 to 1"))),
    }
}

fn of_phase(place: &str, name: &str) -> Result<()> {
    Phase::try_from(name.to_owned()).map(drop).map_err(|what| unfit(place, &what))
}

/// One sample for each round, each of them a time that passed.
fn samples(place: &str, rounds: usize, summary: &Summary) -> Result<()> {
    let count = summary.samples.len();
    if rounds == 0 || count != rounds {
        return Err(unfit(place, &format!("samples: {count}, rounds: {rounds}")));
    }
    if let Some(sample) =
        summary.samples.iter().find(|sample| !(sample.is_finite() && **sample > 0.0))
    {
        return Err(unfit(place, &format!("the sample {sample} is not above 0")));
    }
    let &Summary { median, low, high, .. } = summary;
    let of_samples = super::stats::median(&summary.samples).unwrap_or_default();
    // Each was written with seven digits.
    if (median - of_samples).abs() > 1e-5 * of_samples
        || !(low <= high && low <= median && median <= high)
    {
        let what =
            format!("the median {median} [{low}, {high}] is not that of the samples, {of_samples}");
        return Err(unfit(place, &what));
    }
    Ok(())
}

/// The rounds of the samples, where the report has them, are as many, and different ones.
fn rounds(place: &str, rounds: usize, of_samples: &[usize]) -> Result<()> {
    let different: HashSet<&usize> = of_samples.iter().collect();
    if of_samples.is_empty() || (of_samples.len(), different.len()) == (rounds, rounds) {
        return Ok(());
    }
    Err(unfit(place, "sample_rounds are not one round for each sample"))
}

fn unfit(place: &str, what: &str) -> Error {
    let found = format!(
        "{place}: {what}; the file is damaged or was changed: measure again with `credenza bench --json`"
    );
    Error::new(ErrorKind::WrongFormat { expected: "the figures of a run", found })
}
