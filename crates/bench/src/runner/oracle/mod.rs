//! `--oracle`: every operation of a mix on several stores in turn, every answer compared with that of
//! a model and so with each other's, and everything the stores hold, again and again. Nothing is timed.
//!
//! All stores are in one process, so that each operation is done by all before the next one: a
//! difference is told at the first operation that shows it. That process is a child of the one that
//! reports, which outlives a library that crashes.

mod compare;
mod subject;
mod verdict;

pub(super) use compare::{Compared, compare};
pub(crate) use verdict::Verdict;

use super::Run;
use super::folder::{Folder, file_name};
use super::process::{self, End, Program};
use super::protocol::{Message, Spec};
use crate::args::BenchArgs;
use crate::driver::Shape;
use crate::workload::{Inputs, Phase, Workload};
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// What the comparing process is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Oracle {
    /// The stores, each with its library where the user named one.
    pub(crate) stores: Vec<(String, Option<PathBuf>)>,
    /// Everything is compared after so many operations.
    pub(crate) every: usize,
}

/// Compares the stores that `args` name, or all that are found.
pub(crate) fn run(args: &BenchArgs) -> Result<Verdict> {
    args.check()?;
    let mut workload = Workload { phases: Some(vec![Phase::Mixed]), ..args.workload()? };
    if let Some(why) = workload.leaves_out(Phase::Mixed) {
        let keys = workload.key_type();
        return Err(Error::invalid(format!(
            "--oracle does a mix, and with keys of type {keys} {why}"
        )));
    }
    let folder = Folder::create_in(&args.folder())?;
    let (inputs, mut notes) = Inputs::prepare(&workload)?;
    let left_out =
        (workload.mix.transactions.take().is_some(), workload.mix.stop.seconds.take().is_some());
    if left_out != (false, false) {
        notes.push("without the workload's transactions and limit of time".to_owned());
    }
    let mut run = Run::new(args, &workload, &folder);
    let stores = run.stores(&Shape::of(&inputs.records), &workload)?;
    notes.append(&mut run.left_out);
    if let Some(missing) = run.failures.first() {
        return Err(Error::invalid(format!("{}: {}", missing.store, missing.what)));
    }
    let mut verdict = Verdict {
        workload: workload.name.clone(),
        mix: workload.mix.to_string(),
        seed: workload.seed,
        records: inputs.records.len() as u64,
        stores: Vec::new(),
        operations: 0,
        full_checks: 0,
        difference: None,
        notes,
    };
    verdict.notes.extend(super::notes::about_what_is_left_out(
        &stores,
        &[Phase::Mixed],
        &workload.mix,
    ));
    let takes_part = |name: &&str| {
        let info = stores.iter().find(|info| info.store == **name);
        info.is_some_and(|info| !info.lacks.iter().any(|phase| phase == Phase::Mixed.name()))
    };
    let names = stores.iter().map(|info| info.store.as_str()).filter(takes_part);
    verdict.stores = names.map(str::to_owned).collect();
    if verdict.stores.len() < 2 {
        let what = "--oracle compares two stores at least that can do what the workload asks";
        let notes = verdict.notes.iter().map(|note| format!("; {note}")).collect::<String>();
        return Err(Error::invalid(format!("{what}{notes}")));
    }
    inputs.save(&run.inputs)?;
    let library = |name: &String| (name.clone(), args.library(name));
    let every = args.check_every.unwrap_or_else(|| inputs.records.len().max(1000));
    let oracle = Oracle { stores: verdict.stores.iter().map(library).collect(), every };
    let spec = Spec {
        oracle: Some(oracle),
        folder: folder.empty("oracle")?,
        ..run.spec(&verdict.stores[0], Vec::new(), &workload, PathBuf::new())
    };
    drop(inputs);
    let timeout = Duration::from_secs(args.timeout);
    let mut compared = None;
    let end = process::run(&Program::this()?, &spec, timeout, folder.current(), |message| {
        if let Message::Compared(found) = message {
            compared = Some(found);
        }
    })?;
    for (store, library) in spec.oracle.iter().flat_map(|oracle| &oracle.stores) {
        let of_store = Spec { store: store.clone(), library: library.clone(), ..spec.clone() };
        super::clear(&of_store, &spec.folder.join(file_name(store)))?;
    }
    let all = verdict.stores.join(", ");
    match (end, compared) {
        (End::Finished, Some(Compared { operations, full_checks, difference })) => {
            Ok(Verdict { operations, full_checks, difference, ..verdict })
        }
        (End::TimedOut, _) => Err(Error::invalid(format!(
            "no end after {} seconds (--timeout); fewer operations (--gets), or fewer full checks \
             (--check-every), take less time",
            args.timeout
        ))),
        (End::Crashed { what, .. }, _) => Err(Error::invalid(format!(
            "the process that held {all} ended: {what}; measure each alone to see which it was"
        ))),
        (End::Failed(what), _) => Err(Error::invalid(what)),
        (End::Finished, None) => Err(Error::invalid("the comparing process said nothing")),
    }
}
