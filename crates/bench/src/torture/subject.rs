//! What is known of a store before anything happens to it.

use super::child::Space;
use super::plan::{Plan, What};
use crate::candidates::version_of;
use crate::driver::{
    Driver, Fault, ForDriver, Promise, Writer, has_transactions, tried, with_changed,
};
use crate::rng::Rng;
use crate::settings::{Chosen, Takes};
use credenza::Result;
use std::path::{Path, PathBuf};

pub(super) struct Subject {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) library: Option<PathBuf>,
    /// How it is set up.
    pub(super) settings: Chosen,
    /// What it can be set to.
    takes: &'static [Takes],
    /// Whether it is another one's library.
    pub(super) is_library: bool,
    pub(super) has_durable: bool,
    pub(super) has_transactions: bool,
    /// Whether each transaction is a whole new file.
    pub(super) replaces: bool,
    /// When its changes are safe that are not durable each.
    pub(super) class: &'static str,
    promise: fn(Fault, bool) -> Promise,
    pub(super) dies_when_full: fn(bool) -> bool,
    pub(super) sizes: [Vec<Space>; 2],
}

impl Subject {
    /// Looks whether a store is here; what it is if nothing can be done with it, in words. `None` where there
    /// is no store of this name.
    pub(super) fn find(
        name: &str,
        library: Option<&Path>,
        settings: Chosen,
    ) -> Option<Result<std::result::Result<Subject, &'static str>>> {
        with_changed(name, Look { library, settings })
    }

    /// Why it cannot be set up so; `None` if it can.
    pub(super) fn unfit(&self) -> Option<String> {
        self.settings.unfit(self.takes)
    }

    /// What it promises; without a log nothing comes back.
    pub(super) fn promises(&self, fault: Fault, is_durable: bool) -> Promise {
        match self.settings.recovery() {
            true => (self.promise)(fault, is_durable),
            false => Promise::Nothing,
        }
    }

    /// The number of an operation: mostly one of those after the store was filled. Of a generation half of
    /// the times the one that publishes it: all others leave the files alone.
    pub(super) fn draw(&self, plan: &Plan, rng: &mut Rng) -> usize {
        let (end, filling) = (plan.operations.len(), plan.filling);
        let drawn = match rng.below(8) {
            0 => rng.index(end),
            _ => filling + rng.index(end - filling),
        };
        if !self.replaces || rng.below(2) == 0 {
            return drawn;
        }
        let publishes = plan.operations[drawn..].iter().position(|o| o.what == What::Commit);
        drawn + publishes.unwrap_or(0)
    }
}

struct Look<'a> {
    library: Option<&'a Path>,
    settings: Chosen,
}

impl ForDriver for Look<'_> {
    type Output = Result<std::result::Result<Subject, &'static str>>;

    fn run<D: Driver>(self) -> Self::Output {
        let Look { library, settings } = self;
        let driver = tried::load::<D>(library)?;
        if !<D::Writer<'_> as Writer>::IS_POSSIBLE {
            return Ok(Err("built once and never changed"));
        }
        if !D::REOPENS {
            return Ok(Err("not opened again for changes by the workbench"));
        }
        Ok(Ok(Subject {
            name: D::NAME.to_owned(),
            version: version_of(&driver).0,
            library: library.map(Path::to_owned),
            settings,
            takes: D::SETTINGS,
            is_library: D::SOURCE.is_some(),
            has_durable: D::DURABLE.is_some() && settings.recovery(),
            has_transactions: has_transactions::<D>(),
            replaces: D::REPLACES,
            class: settings.changes(driver.changes_one_by_one(false)).class(),
            promise: D::promise,
            dies_when_full: D::dies_when_full,
            sizes: [Vec::new(), Vec::new()],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Danger: of a library that does not tell its version nobody knows which was tortured.
    #[test]
    fn every_store_has_a_version_whether_its_library_tells_one_or_not() {
        for name in ["hash", "tdb", "ntdb", "tdb2", "mdbm"] {
            match Subject::find(name, None, Chosen::default()) {
                Some(Ok(Ok(subject))) => assert!(!subject.version.is_empty(), "{name}"),
                Some(Err(e)) => eprintln!("not tested: {name}: {e}"),
                _ => panic!("{name} is a store that is changed"),
            }
        }
    }
}
