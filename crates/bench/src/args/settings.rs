//! Settings that contradict other options.

use super::BenchArgs;
use crate::settings::Choices;
use crate::workload::{KeyType, Phase, Workload};
use credenza::{Error, Result};

/// Refuses settings that contradict other options.
pub(super) fn check(args: &BenchArgs, workload: &Workload) -> Result<()> {
    if workload.settings.has_advice() && args.read_ahead {
        return Err(Error::invalid(
            "advice and --read-ahead both say what the kernel is told: leave one of them out",
        ));
    }
    // What is synced unless it is named is a mix.
    let all = || workload.mixes.phases().collect();
    let named: Vec<Phase> = workload.phases.clone().unwrap_or_else(all);
    let synced = named.iter().find(|phase| workload.mixes.is_synced(**phase));
    if let Some(phase) = synced.filter(|_| workload.settings.has_no_recovery()) {
        let option = if args.sync && phase.is_mixed() { " with --sync" } else { "" };
        return Err(Error::invalid(format!(
            "recovery=off contradicts the phase {phase}{option}: without a log no change is on the disk \
             before the store is closed; leave one of both out"
        )));
    }
    check_codec(&workload.settings, workload.key_type())?;
    if !workload.settings.has_memory() {
        return Ok(());
    }
    let stays_open = |phase: &Phase| match workload.mixes.of(*phase) {
        Some(mix) => !mix.reopen && !mix.sync && mix.transactions.is_none(),
        None => Phase::IN_MEMORY.contains(phase),
    };
    let all = || workload.mixes.all_phases();
    let named = workload.phases.clone().unwrap_or_else(all);
    let other = named.iter().find(|phase| !stays_open(phase));
    if let Some(phase) = other.filter(|_| !args.oracle) {
        return Err(Error::invalid(format!(
            "memory=on: what is in the memory of a process is gone when it was closed, and outlives \
             nothing, so that there is no '{phase}' as it is asked for: say --phases with some of \
             insert, insert-random, reinsert, remove and mixed, without --reopen, --transactions and --sync"
        )));
    }
    let opens_again = [
        (args.oracle, "--oracle"),
        (args.cold, "--cold"),
        (args.sync, "--sync"),
        (args.kept.keep.is_some(), "--keep"),
        (args.kept.open.is_some(), "--open"),
        (!args.processes.is_empty(), "--processes"),
        (!args.threads.is_empty(), "--threads"),
    ];
    match opens_again.into_iter().find(|(is_wanted, _)| *is_wanted) {
        None => Ok(()),
        Some((_, option)) => Err(Error::invalid(format!(
            "memory=on contradicts {option}, for which stores are opened again, or have files: \
             leave one of both out"
        ))),
    }
}

/// Refuses a codec for numbers where the keys are something else.
pub(crate) fn check_codec(settings: &Choices, keys: KeyType) -> Result<()> {
    let codec = settings.codec_of_numbers().filter(|_| keys != KeyType::U32);
    codec.map_or(Ok(()), |codec| {
        let codec = codec.text();
        Err(Error::invalid(format!(
            "key-compression={codec} contradicts keys of type {keys}: it is for numbers of 32 bits, which \
             data = \"random\" with key-type = \"u32\" in a workload file has; leave it out, or have such keys"
        )))
    })
}
