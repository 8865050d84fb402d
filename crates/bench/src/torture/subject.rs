//! What is known of a store before anything happens to it.

use super::child::Space;
use super::plan::{Plan, What};
use crate::driver::{
    Driver, Fault, ForDriver, Promise, Writer, has_transactions, tried, with_changed,
};
use crate::rng::Rng;
use credenza::Result;
use std::path::{Path, PathBuf};

pub(super) struct Subject {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) library: Option<PathBuf>,
    /// Whether it is another one's library.
    pub(super) is_library: bool,
    pub(super) has_durable: bool,
    pub(super) has_transactions: bool,
    /// Whether each transaction is a whole new file.
    pub(super) replaces: bool,
    /// When its changes are safe that are not durable each.
    pub(super) class: &'static str,
    pub(super) promise: fn(Fault, bool) -> Promise,
    pub(super) dies_when_full: fn(bool) -> bool,
    pub(super) sizes: [Vec<Space>; 2],
}

impl Subject {
    /// Looks whether a store is here; what it is if nothing can be done with it, in words. `None` where there
    /// is no store of this name.
    pub(super) fn find(
        name: &str,
        library: Option<&Path>,
    ) -> Option<Result<std::result::Result<Subject, &'static str>>> {
        with_changed(name, Look(library))
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

struct Look<'a>(Option<&'a Path>);

impl ForDriver for Look<'_> {
    type Output = Result<std::result::Result<Subject, &'static str>>;

    fn run<D: Driver>(self) -> Self::Output {
        let driver = tried::load::<D>(self.0)?;
        if !<D::Writer<'_> as Writer>::IS_POSSIBLE {
            return Ok(Err("built once and never changed"));
        }
        if !D::REOPENS {
            return Ok(Err("not opened again for changes by the workbench"));
        }
        Ok(Ok(Subject {
            name: D::NAME.to_owned(),
            version: driver.identity().version,
            library: self.0.map(Path::to_owned),
            is_library: D::SOURCE.is_some(),
            has_durable: D::DURABLE.is_some(),
            has_transactions: has_transactions::<D>(),
            replaces: D::REPLACES,
            class: driver.changes_one_by_one(false).class(),
            promise: D::promise,
            dies_when_full: D::dies_when_full,
            sizes: [Vec::new(), Vec::new()],
        }))
    }
}
