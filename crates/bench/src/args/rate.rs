//! `--rate`: what is done at so many operations a second.

use super::BenchArgs;
use crate::runner::open_loop::Rate;
use crate::workload::{Phase, Workload};
use credenza::{Error, Result};

/// Refuses `--rate` where it would do nothing, or where nothing of it would begin in its time.
pub(super) fn check(args: &BenchArgs, workload: &Workload) -> Result<()> {
    let Some(rate) = args.rate() else { return Ok(()) };
    let is_measured = |is: fn(&Phase) -> bool| {
        workload.phases.as_ref().is_none_or(|phases| phases.iter().any(is))
    };
    let is_for =
        |phase: &Phase| phase.is_paced() || phase.is_mixed() || *phase == Phase::InsertSync;
    if !is_measured(is_for) {
        return Err(Error::invalid(
            "--rate is for get-hit, get-90, get-miss, get-many-hit, get-many-miss, range, mixed and \
             insert-sync, of which none is among the phases to measure",
        ));
    }
    let Rate { per_second, seconds, .. } = rate;
    let none = |what: String, less: &str| {
        Error::invalid(format!(
            "--rate {per_second}: in {seconds} s (--rate-seconds) no {what} would begin: ask for more of them \
             in a second, or for a longer time{less}"
        ))
    };
    if !rate.begins(workload.seed) {
        return Err(none("operation".to_owned(), ""));
    }
    let batch = workload.batch;
    if is_measured(|phase| phase.is_batched()) && !rate.of_calls(batch).begins(workload.seed) {
        let less =
            ", say a smaller --batch, or name other --phases than get-many-hit and get-many-miss";
        return Err(none(format!("batch of {batch} lookups"), less));
    }
    Ok(())
}
