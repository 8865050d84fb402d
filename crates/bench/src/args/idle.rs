//! Options that would do nothing, or name a thing twice, where the parser of options lets them pass: whoever
//! gives one means something by it.

use super::BenchArgs;
use crate::driver;
use crate::workload::{Action, InsertOrder, Phase, Workload};
use credenza::{Error, Result};

/// Refuses an option without what it is about, and settings and phases that are named twice.
pub(super) fn check(args: &BenchArgs) -> Result<()> {
    // The parser asks for no --oracle where there is an option, as --rounds, that contradicts it.
    if args.check_every.is_some() && !args.oracle {
        return Err(Error::invalid(
            "--check-every is for --oracle: say that, too, or leave it out",
        ));
    }
    let phases = args.phases.iter().flatten().map(|phase| phase.name());
    once("--phases", phases)?;
    settings(args)
}

/// Refuses what is about the lookups of phases of which none is measured.
pub(super) fn lookups(args: &BenchArgs, workload: &Workload) -> Result<()> {
    let usual = args.cold.then_some(&Phase::COLD[..]);
    let phases = workload.phases.as_deref().or(usual).filter(|_| !args.oracle);
    let is_for_none = |is_for: fn(Phase) -> bool| {
        phases.is_some_and(|phases| !phases.iter().any(|phase| is_for(*phase)))
    };
    let draws = |phase: Phase| match phase {
        // What is not there is drawn from no data.
        Phase::GetMiss | Phase::GetManyMiss => false,
        phase => phase.is_get() || phase.is_mixed(),
    };
    if args.distribution.is_some() && is_for_none(draws) {
        return Err(Error::invalid(
            "--distribution says which keys mixes, and lookups of keys that are there, draw: name such a phase, \
             too, or leave it out",
        ));
    }
    if args.batch.is_some() && is_for_none(Phase::is_batched) {
        return Err(Error::invalid(
            "--batch is for get-many-hit and get-many-miss: name one of them, too, or leave it out",
        ));
    }
    let counts = |phase: Phase| phase.is_get() || phase.is_mixed() || phase == Phase::Range;
    if args.gets.is_some() && is_for_none(counts) {
        return Err(Error::invalid(
            "--gets is for the get phases, range and mixed: name such a phase, too, or leave it out",
        ));
    }
    Ok(())
}

/// Refuses an order of inserts where all that is measured has its own, or is of stores that have their records.
pub(super) fn insert_order(args: &BenchArgs, workload: &Workload) -> Result<()> {
    let opens = args.kept.open.is_some();
    let inserts = workload.mixes.iter().any(|mix| mix.does(Action::Insert));
    let goes_by_it = |phase: &Phase| match phase {
        Phase::Reinsert => true,
        Phase::InsertRandom => false,
        phase => !opens || phase.is_mixed() && inserts,
    };
    let usual = args.cold.then_some(&Phase::COLD[..]);
    let phases = workload.phases.as_deref().or(usual).filter(|_| !args.oracle);
    if args.insert_order.is_some() && phases.is_some_and(|all| !all.iter().any(goes_by_it)) {
        return Err(Error::invalid(
            "--insert-order says in which order records come into a store: insert-random has its own, and where \
             stores are opened (--open) only reinsert, and mixed with inserts, go by it; name such a phase, too, or \
             leave it out",
        ));
    }
    let is_random = |phase: &Phase| matches!(phase, Phase::InsertEach | Phase::InsertSync);
    let has_none = workload.insert_order == InsertOrder::Given;
    if args.insert_order.is_some()
        && has_none
        && phases.is_some_and(|all| all.iter().all(is_random))
    {
        return Err(Error::invalid(
            "insert-each and insert-sync store at random where --insert-order is 'given': name another order, or \
             leave it out",
        ));
    }
    Ok(())
}

/// Refuses what is named twice with one option, and a comma with no name before or behind it.
pub(super) fn once<'a>(option: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut known = Vec::new();
    for name in names {
        if name.is_empty() {
            let what =
                format!("{option} lacks a name before or behind a comma: leave the comma out");
            return Err(Error::invalid(what));
        }
        if known.contains(&name) {
            let what = format!("{option} names '{name}' twice: leave one of both out");
            return Err(Error::invalid(what));
        }
        known.push(name);
    }
    Ok(())
}

/// What the settings are of: NAME, or STORE.NAME.
fn places(args: &BenchArgs) -> impl Iterator<Item = &str> {
    args.settings.iter().map(|text| text.split_once('=').map_or(&**text, |(place, _)| place))
}

/// The stores that have settings of their own.
pub(super) fn stores_set_up(args: &BenchArgs) -> impl Iterator<Item = &str> {
    places(args).filter_map(|place| Some(place.rsplit_once('.')?.0))
}

/// Refuses settings of stores that take no part, and two values for one setting.
fn settings(args: &BenchArgs) -> Result<()> {
    once("--set", places(args))?;
    let Some(named) = args.named_stores() else { return Ok(()) };
    let is_left_out = |store: &&str| !named.iter().any(|name| name == store);
    match stores_set_up(args).find(is_left_out) {
        None => Ok(()),
        Some(store) => driver::settings_of(store).and(Err(Error::invalid(format!(
            "--set {store}.NAME=VALUE: '{store}' is not among the stores that are named ({}): name it there, \
             or leave --set out",
            named.join(", ")
        )))),
    }
}
