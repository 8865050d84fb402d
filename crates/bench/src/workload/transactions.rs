//! How the operations of a mix are put into transactions.

use super::lengths::NumberOrText;
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which operations are in one transaction, as upscaledb's benchmark has it: `tmp`, `all`, or `N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "NumberOrText", into = "String")]
pub(crate) enum Transactions {
    /// Every change is a transaction of its own.
    Each,
    /// So many operations are one.
    Every(usize),
    /// All are one.
    All,
}

impl Transactions {
    /// Operations of a transaction that is begun and committed by the caller; `None` where the store
    /// does that itself.
    pub(crate) fn operations(self) -> Option<usize> {
        match self {
            Transactions::Each => None,
            Transactions::Every(operations) => Some(operations),
            Transactions::All => Some(usize::MAX),
        }
    }
}

impl fmt::Display for Transactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Transactions::Each => write!(f, "tmp"),
            Transactions::Every(operations) => write!(f, "{operations}"),
            Transactions::All => write!(f, "all"),
        }
    }
}

impl From<Transactions> for String {
    fn from(transactions: Transactions) -> String {
        transactions.to_string()
    }
}

impl TryFrom<NumberOrText> for Transactions {
    type Error = Error;

    fn try_from(text: NumberOrText) -> Result<Transactions> {
        text.to_string().parse()
    }
}

impl FromStr for Transactions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Transactions> {
        match (text, text.parse()) {
            ("tmp", _) => Ok(Transactions::Each),
            ("all", _) => Ok(Transactions::All),
            (_, Ok(operations)) if operations > 0 => Ok(Transactions::Every(operations)),
            _ => Err(Error::invalid(format!(
                "transactions are 'tmp' (one for each change), a number of operations, at least 1, \
                 or 'all', not '{text}'"
            ))),
        }
    }
}
