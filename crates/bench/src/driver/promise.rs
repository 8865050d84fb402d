//! What a store promises of the changes that it has acknowledged, when something happens to it.
//!
//! A change is acknowledged when its call has returned without an error; one within a transaction, when
//! that was committed. [`super::Driver::promise`] says what is promised, as the store's authors do.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What happens to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// The process that changes it is killed (SIGKILL)
    Kill,
    /// The machine loses its power: of what was not synced, any part may be lost
    Power,
    /// There is no space left in its folder
    Full,
}

impl Fault {
    pub(crate) const ALL: [Fault; 3] = [Fault::Kill, Fault::Power, Fault::Full];

    /// The name in options and results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Power => "power",
            Fault::Full => "full",
        }
    }
}

/// What is there afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Promise {
    /// Every change that was acknowledged, and of the one that was not all or nothing
    All,
    /// What was there at one moment: the changes up to one of them, none before the last sync missing
    Moment,
    /// Nothing is promised
    Nothing,
}

impl Promise {
    /// The name in options and results.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Promise::All => "all",
            Promise::Moment => "moment",
            Promise::Nothing => "nothing",
        }
    }
}
