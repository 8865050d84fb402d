//! Stores that nobody named and that take no part: because of their libraries, or of what they cannot do.
//!
//! Invariant: whoever reads what a run says can tell which stores it is not about, and why. That one is not
//! installed is said in few words with all others; what is wrong with a library that is there, with the store.
//! A library that somebody named is missed: that is a failure, and not told here.

use crate::args::library_of;
use crate::driver;
use credenza::Error;
use std::collections::BTreeMap;

/// The stores that are left out, in the order in which they are listed.
#[derive(Debug, Default)]
pub(crate) struct Absent {
    not_installed: Vec<String>,
    unusable: Vec<String>,
    /// Those that are here, by what is between them and what is asked for.
    unfit: BTreeMap<String, Vec<String>>,
}

impl Absent {
    /// Leaves a store out whose library could not be used.
    pub(crate) fn add(&mut self, store: &str, error: &Error) {
        // A server is only there where it is named.
        if driver::is_server(store) {
            return;
        }
        match driver::is_not_installed(error) {
            true => self.not_installed.push(store.to_owned()),
            false => self.unusable.push(format!("{store} is left out: {error}")),
        }
    }

    /// Leaves a store out that is here: it is `what`.
    pub(crate) fn add_unfit(&mut self, store: &str, what: &str) {
        self.unfit.entry(what.to_owned()).or_default().push(store.to_owned());
    }

    /// What a reader is to know of it.
    pub(crate) fn notes(self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.not_installed.is_empty() {
            notes.push(format!(
                "not here: {}: `credenza bench --list` says what brings them",
                self.not_installed.join(", ")
            ));
        }
        notes.extend(self.unusable);
        notes.extend(self.unfit.iter().map(|(what, stores)| match &stores[..] {
            [store] => format!("{store} is left out: it is {what}"),
            stores => format!("{} are left out: they are {what}", stores.join(", ")),
        }));
        notes
    }

    /// The same as whole sentences.
    pub(crate) fn sentences(self) -> Vec<String> {
        let sentence = |note: String| match note.strip_prefix("not here") {
            Some(names) => format!("Not here{names}."),
            None => format!("{note}."),
        };
        self.notes().into_iter().map(sentence).collect()
    }
}

/// Whether somebody named a library for this store, with `--lib` or in the environment.
pub(crate) fn is_missed(store: &str, libraries: &[String]) -> bool {
    library_of(libraries, store).is_some() || driver::is_in_environment(store)
}
