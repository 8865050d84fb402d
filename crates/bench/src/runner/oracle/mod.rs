//! `--oracle`: every operation of a mix on several stores in turn, every answer compared with that of
//! a model and so with each other's, and everything the stores hold, again and again. Nothing is timed.
//!
//! All stores are in one process, so that each operation is done by all before the next one: a
//! difference is told at the first operation that shows it. That process is a child of the one that
//! reports, which outlives a library that crashes: the child has noted whose call it was (`note`), and the
//! other stores are compared again without that one.

mod compare;
mod note;
mod subject;
mod verdict;

pub(super) use compare::{Compared, compare};
pub(crate) use verdict::Verdict;
use verdict::{Death, Missing};

use super::Run;
use super::folder::{Folder, file_name};
use super::process::{self, End, Program};
use super::protocol::{Message, Spec};
use crate::args::BenchArgs;
use crate::driver::Shape;
use crate::result::StoreInfo;
use crate::workload::{Inputs, Phase};
use credenza::{Error, Result};
use note::Note;
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
    let mut workload = args.workload()?;
    let phases: Vec<Phase> = workload.mixes.phases().collect();
    workload.phases = Some(phases.clone());
    if let Some(why) = workload.leaves_out(Phase::Mixed) {
        let keys = workload.key_type();
        return Err(Error::invalid(format!(
            "--oracle does a mix, and with keys of type {keys} {why}"
        )));
    }
    let folder = Folder::create_in(&args.folder())?;
    let (inputs, mut notes) = Inputs::prepare(&workload)?;
    let mut run = Run::new(args, &workload, &folder);
    let stores = run.stores(&Shape::of(&inputs.records), &workload)?;
    notes.append(&mut run.left_out);
    let missing = run.failures.iter();
    let missing = missing.map(|f| Missing { store: f.store.clone(), what: f.what.clone() });
    let mut verdict = Verdict {
        workload: workload.name.clone(),
        mix: workload.mixes.to_string(),
        seed: workload.seed,
        records: inputs.records.len() as u64,
        stores: Vec::new(),
        operations: 0,
        full_checks: 0,
        difference: None,
        missing: missing.collect(),
        died: Vec::new(),
        interrupted: false,
        notes,
    };
    verdict.notes.extend(super::notes::about_what_is_left_out(
        &stores,
        &phases,
        &workload.mixes,
        false,
    ));
    let takes_part = |name: &&str| {
        let info = stores.iter().find(|info| info.store == **name);
        let lacks = |info: &StoreInfo, phase: &Phase| info.lacks.iter().any(|p| p == phase.name());
        info.is_some_and(|info| !phases.iter().any(|phase| lacks(info, phase)))
    };
    let names = stores.iter().map(|info| info.store.as_str()).filter(takes_part);
    verdict.stores = names.map(str::to_owned).collect();
    let only_forwards =
        |info: &&StoreInfo| !info.scans_back && verdict.stores.contains(&info.store);
    let names = stores.iter().filter(only_forwards).map(|info| info.store.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    if !names.is_empty() {
        verdict.notes.push(format!(
            "{names}: scanned forwards only, as their records are in no order, or cannot be read backwards"
        ));
    }
    if verdict.stores.len() < 2 {
        let what = "--oracle compares two stores at least that can do what the workload asks";
        let missing = verdict.missing.iter();
        let missing = missing.map(|Missing { store, what }| format!("; {store}: {what}"));
        let notes = verdict.notes.iter().map(|note| format!("; {note}"));
        let why = missing.chain(notes).collect::<String>();
        return Err(Error::invalid(format!("{what}{why}")));
    }
    inputs.save(&run.inputs)?;
    let library = |name: &String| (name.clone(), args.library(name));
    let every = args.check_every.unwrap_or_else(|| inputs.records.len().max(1000));
    let oracle = Oracle { stores: verdict.stores.iter().map(library).collect(), every };
    let spec = Spec {
        oracle: Some(oracle),
        ..run.spec(&verdict.stores[0], Vec::new(), &workload, PathBuf::new())
    };
    drop(inputs);
    let timeout = Duration::from_secs(args.timeout);
    folder.current().begin();
    let (compared, died) = without_the_dead(&Program::this()?, spec, &folder, timeout)?;
    verdict.stores.retain(|store| died.iter().all(|death| death.store != *store));
    let Compared { operations, full_checks, difference } = compared;
    let interrupted = folder.current().is_stopping();
    Ok(Verdict { operations, full_checks, difference, died, interrupted, ..verdict })
}

/// Has the stores compared, and again without each one that takes the process with it.
fn without_the_dead(
    program: &Program,
    mut spec: Spec,
    folder: &Folder,
    timeout: Duration,
) -> Result<(Compared, Vec<Death>)> {
    let mut died = Vec::new();
    while spec.oracle.as_ref().is_some_and(|oracle| !oracle.stores.is_empty()) {
        spec.folder = folder.empty("oracle")?;
        let mut compared = None;
        let end = process::run(program, &spec, timeout, folder.current(), |message| {
            if let Message::Compared(found) = message {
                compared = Some(found);
            }
        })?;
        let stores = spec.oracle.iter().flat_map(|oracle| &oracle.stores);
        for (store, library) in stores {
            let of_store = Spec { store: store.clone(), library: library.clone(), ..spec.clone() };
            super::round::clear(&of_store, &spec.folder.join(file_name(store)))?;
        }
        let asked = Note::read(&spec.folder);
        if folder.current().is_stopping() && compared.is_none() {
            // All agreed up to the question before the last one.
            let asked = asked.map_or(0, |(_, asked)| asked.operation.saturating_sub(1));
            return Ok((Compared { operations: asked, ..Compared::default() }, died));
        }
        let in_call = asked.as_ref().and_then(|(number, asked)| {
            let (store, _) = spec.oracle.as_ref()?.stores.get(*number)?;
            Some(format!("; the last call was of {store}, {}", asked.what))
        });
        match (end, compared) {
            (End::Finished, Some(compared)) => return Ok((compared, died)),
            (End::Finished, None) => {
                return Err(Error::invalid("the comparing process said nothing"));
            }
            (End::Failed(what), _) => return Err(Error::invalid(what)),
            (End::TimedOut, _) => {
                return Err(Error::invalid(format!(
                    "no end after {} seconds (--timeout){}; fewer operations (--gets), or fewer full \
                     checks (--check-every), take less time",
                    timeout.as_secs(),
                    in_call.unwrap_or_default()
                )));
            }
            (End::Crashed { what, .. }, _) => {
                let number = asked.as_ref().map(|(number, _)| *number);
                let stores = spec.oracle.as_mut().map(|oracle| &mut oracle.stores);
                let dead = stores.zip(number).filter(|(stores, number)| *number < stores.len());
                let Some(((stores, number), (_, asked))) = dead.zip(asked) else {
                    return Err(Error::invalid(format!("the comparing process ended: {what}")));
                };
                let (store, _) = stores.remove(number);
                died.push(Death { store, asked, how: what });
            }
        }
    }
    Ok((Compared::default(), died))
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::spec;
    use super::*;

    /// What comes of a process that does so for a store of this name, and else finds that all agree.
    fn outcome(stores: &[&str], dies: &str) -> Result<(Compared, Vec<Death>)> {
        let compared = Compared { operations: 9, full_checks: 2, difference: None };
        let compared = serde_json::to_string(&Message::Compared(compared)).unwrap();
        let script = format!(
            "spec=$(cat); folder=${{spec#*'\"folder\":\"'}}; note=${{folder%%'\"'*}}/asked; \
             case $spec in *bad*) {dies};; esac; echo '{compared}'; echo '\"Finished\"'"
        );
        let folder = Folder::create_in(&std::env::temp_dir()).unwrap();
        let stores = stores.iter().map(|store| ((*store).to_owned(), None)).collect();
        let spec = Spec { oracle: Some(Oracle { stores, every: 1 }), ..spec() };
        without_the_dead(&Program::of_script(&script), spec, &folder, Duration::from_secs(600))
    }

    /// A note that the second store is asked, and a crash.
    const DIES: &str = "printf '\\1\\0\\0\\0{\"operation\":7,\"what\":\"get\",\"key\":\"k\"}' >$note; \
                        kill -SEGV $$";

    #[test]
    fn a_store_that_dies_is_named_and_the_others_are_compared_without_it() {
        let (compared, died) = outcome(&["hash", "bad", "btree"], DIES).unwrap();
        assert_eq!((compared.operations, died.len()), (9, 1));
        let words = died[0].in_words();
        for says in ["operation 7, get, key 'k'", "bad", "SIGSEGV"] {
            assert!(words.contains(says), "{says}: {words}");
        }
        assert!(outcome(&["bad", "bad"], DIES).is_err(), "of one store none is the second");
        let (_, died) = outcome(&["hash", "bad", "bad too"], DIES).unwrap();
        let names: Vec<&str> = died.iter().map(|death| &*death.store).collect();
        assert_eq!(names, ["bad", "bad too"]);
    }

    #[test]
    fn without_a_note_nobody_is_accused() {
        let error = outcome(&["hash", "bad"], "kill -SEGV $$").err().unwrap();
        assert!(error.to_string().contains("the comparing process ended"), "{error}");
    }
}
