//! Stores in which something is lost, kept as they were found, for whoever wants to know why.
//!
//! Who looks at a store opens it, and changes it: so it is copied before each look, and the copy is kept
//! where that look finds a loss.

use super::judge::{At, Judged};
use super::outcome::{CONTRACT, Outcome};
use crate::report::json::publish_value;
use crate::report::outputs::no_folder;
use crate::runner::folder::{Folder, file_name};
use credenza::{Error, Result};
use serde::Serialize;
use std::fs;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file is copied in pieces of so many bytes, without those that are empty.
const PIECE: usize = 64 << 10;

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

/// The folder for what is kept: a new one, or an empty one.
///
/// # Errors
/// There is something in it, or it cannot be made: those above it must be there.
pub(super) fn prepare(folder: &Path) -> Result<()> {
    match fs::create_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(no_folder("--keep", folder.parent().unwrap_or(folder)));
        }
        Err(e) if e.kind() != ErrorKind::AlreadyExists => {
            return Err(Error::io("create", e).at(folder));
        }
        _ => {}
    }
    let mut inside = fs::read_dir(folder).map_err(|e| Error::io("list", e).at(folder))?;
    match inside.next() {
        None => Ok(()),
        Some(_) => Err(Error::invalid(
            "--keep takes a new folder or an empty one, and there is something in this",
        )
        .at(folder)),
    }
}

/// Copies a store that is to be looked at; gives the copy, which the next one replaces.
pub(super) fn copy(store: &Path, folder: &Folder) -> Result<PathBuf> {
    let copy = folder.empty("found")?;
    copy_all(store, &copy)?;
    Ok(copy)
}

/// Keeps a copy below `folder`, and what was found in it.
pub(super) fn keep(copy: &Path, folder: &Path, outcome: &Outcome, look: &Look<'_>) -> Result<()> {
    let place = new_place(folder, outcome, look.round)?;
    copy_all(copy, &place.join("files"))?;
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

/// Copies the files in a folder and in those below it. What is no file has no content to be lost.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(|e| Error::io("create", e).at(to))?;
    let list = || fs::read_dir(from)?.collect::<std::io::Result<Vec<_>>>();
    for entry in list().map_err(|e| Error::io("list", e).at(from))? {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|e| Error::io("look at", e).at(&path))?;
        if kind.is_dir() {
            copy_all(&path, &to)?;
        } else if kind.is_file() {
            copy_file(&path, &to).map_err(|e| Error::io("copy", e).at(&path))?;
        }
    }
    Ok(())
}

/// Maps are long, and mostly holes: what is empty stays one.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let (mut from, to) = (File::open(from)?, File::create_new(to)?);
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    loop {
        match from.read(&mut piece) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok(0) => return to.set_len(at),
            Ok(len) => {
                if piece[..len].iter().any(|byte| *byte != 0) {
                    to.write_all_at(&piece[..len], at)?;
                }
                at += len as u64;
            }
        }
    }
}
