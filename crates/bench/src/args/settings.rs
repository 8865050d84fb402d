//! Settings that contradict other options.

use super::BenchArgs;
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
    let codec = workload.settings.codec_of_numbers();
    if let Some(codec) = codec.filter(|_| workload.key_type() != KeyType::U32) {
        let (codec, keys) = (codec.text(), workload.key_type());
        return Err(Error::invalid(format!(
            "key-compression={codec} contradicts keys of type {keys}: it is for numbers of 32 bits, which \
             data = \"random\" with key-type = \"u32\" in a workload file has; leave it out, or have such keys"
        )));
    }
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
