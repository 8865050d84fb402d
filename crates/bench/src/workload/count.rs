//! A number of a workload file that is a count: 1000 or 1e3, as on the command line.

use crate::args;
use serde::Deserialize;
use toml::Value;

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Count(pub(super) usize);

impl TryFrom<Value> for Count {
    type Error = String;

    fn try_from(value: Value) -> Result<Count, String> {
        // What is no number is none as text, either.
        args::count(&value.to_string()).map(Count)
    }
}
