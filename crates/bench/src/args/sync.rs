//! `--sync`, and `sync = true` of a mix: what is on the disk when its call has returned.

use super::BenchArgs;
use crate::workload::{Phase, Workload};
use credenza::{Error, Result};

/// Operations of a synced mix where nobody says how many: a disk may take ten milliseconds for each change.
const OPERATIONS: usize = 10_000;

/// Has the changes of all mixes be synced, if that is asked for, and has synced ones do fewer operations unless
/// they are told how many.
pub(super) fn apply(args: &BenchArgs, workload: &mut Workload) {
    let operations = workload.gets.min(OPERATIONS);
    for mix in workload.mixes.iter_mut() {
        if args.sync {
            mix.sync_changes();
        }
        if mix.sync && args.gets.is_none() && !args.cold {
            mix.operations = mix.operations.or(Some(operations));
        }
    }
}

/// Refuses `--sync` where it would do nothing.
pub(super) fn check(args: &BenchArgs, workload: &Workload) -> Result<()> {
    let is_synced = |phase: &Phase| {
        let is_built = *phase == Phase::Build && args.kept.open.is_none();
        is_built || workload.mixes.of(*phase).is_some_and(|mix| mix.sync)
    };
    let usual = || match args.cold {
        true => Phase::COLD.to_vec(),
        false => workload.mixes.all_phases(),
    };
    let phases = workload.phases.clone().unwrap_or_else(usual);
    if !args.sync || phases.iter().any(is_synced) {
        return Ok(());
    }
    Err(Error::invalid(
        "--sync is for build, where nothing is opened with --open, and for mixes that change something: name \
         such a phase, too, or leave it out",
    ))
}
