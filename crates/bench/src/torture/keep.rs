//! Stores in which something is lost, kept as they were found, for whoever wants to know why.
//!
//! Who looks at a store opens it, and changes it: so it is copied before each look, and the copy is kept
//! where that look finds a loss.

use super::judge::{At, Judged};
use super::outcome::{CONTRACT, Outcome};
use crate::copy;
use crate::report::json::publish_value;
use crate::runner::folder::{Folder, file_name};
use credenza::{Error, Result};
use serde::Serialize;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What is written beside the files, as JSON.
#[derive(Serialize)]
struct Found<'a> {
    credenza_torture: u32,
    store: &'a str,
    version: &'a str,
    class: &'a str,
    fault: crate::driver::Fault,
    promise: crate::driver::Promise,
    round: usize,
    /// How far the operations had come.
    at: At,
    /// What is missing, or wrong, in words.
    what: &'a str,
    /// The same in numbers; `None` where the store could not be looked at.
    judged: Option<&'a Judged>,
    /// Does the round again.
    command: String,
}

/// What a look found.
pub(super) struct Look<'a> {
    pub(super) round: usize,
    pub(super) at: At,
    pub(super) what: &'a str,
    pub(super) judged: Option<&'a Judged>,
    pub(super) command: String,
}

/// Copies a store that is to be looked at; gives the copy, which the next one replaces.
pub(super) fn copy(store: &Path, folder: &Folder) -> Result<PathBuf> {
    let copy = folder.empty("found")?;
    copy::all(store, &copy)?;
    Ok(copy)
}

/// Keeps a copy below `folder`, and what was found in it.
pub(super) fn keep(copy: &Path, folder: &Path, outcome: &Outcome, look: &Look<'_>) -> Result<()> {
    let place = new_place(folder, outcome, look.round)?;
    copy::all(copy, &place.join("files"))?;
    let Outcome { store, version, class, fault, promise, .. } = outcome;
    let Look { round, at, what, judged, .. } = *look;
    let found = Found {
        credenza_torture: CONTRACT,
        store,
        version,
        class,
        fault: *fault,
        promise: *promise,
        round,
        at,
        what,
        judged,
        command: look.command.clone(),
    };
    publish_value(&found, &place.join("found.json"))
}

/// A folder of the name of store, fault and round, with a number, as there are several looks in a round.
fn new_place(folder: &Path, outcome: &Outcome, round: usize) -> Result<PathBuf> {
    let name = format!("{}-{}-{round}", file_name(&outcome.store), outcome.fault.name());
    let mut number = 1;
    loop {
        let place = folder.join(format!("{name}-{number}"));
        match fs::create_dir(&place) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => number += 1,
            made => {
                return made.map(|()| place.clone()).map_err(|e| Error::io("create", e).at(place));
            }
        }
    }
}
