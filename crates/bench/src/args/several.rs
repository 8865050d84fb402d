//! How many do something together, in `--processes` and `--threads`: `N`, or each from `MIN..MAX`, both ends included.

use crate::runner::together::MOST;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// One part of such a list.
#[derive(Clone, Debug)]
pub struct Several(RangeInclusive<usize>);

impl Several {
    pub(super) fn each(&self) -> RangeInclusive<usize> {
        self.0.clone()
    }
}

impl FromStr for Several {
    type Err = String;

    fn from_str(text: &str) -> Result<Several, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        match (least.parse(), most.parse()) {
            (Ok(least), Ok(most)) if (1..=most).contains(&least) && most <= MOST => {
                Ok(Several(least..=most))
            }
            _ => Err(format!(
                "takes numbers from 1 to {MOST}, as 1,2,8, or all from one to another, as 1..8"
            )),
        }
    }
}
