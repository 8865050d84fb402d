//! Parameters behind a name, as in `zipfian:theta=0.8` or `ycsb:field-count=1,field-length=10..200`: text that
//! is the same in options and in workload files.

use credenza::{Error, Result};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The parameters of a name that nobody has asked for yet.
pub(super) struct Parameters<'a> {
    name: &'a str,
    left: Vec<(&'a str, &'a str)>,
    /// Those that were asked for.
    known: Vec<&'static str>,
}

impl<'a> Parameters<'a> {
    /// Name and parameters, as they are written.
    pub(super) fn split(text: &str) -> (&str, &str) {
        text.split_once(':').unwrap_or((text, ""))
    }

    pub(super) fn of(name: &'a str, text: &'a str) -> Result<Parameters<'a>> {
        let parts = text.split(',').filter(|part| !part.is_empty());
        let pair = |part: &'a str| {
            part.split_once('=').ok_or_else(|| {
                Error::invalid(format!("{name}: '{part}' is no parameter: say NAME=VALUE"))
            })
        };
        Ok(Parameters { name, left: parts.map(pair).collect::<Result<_>>()?, known: Vec::new() })
    }

    /// The value of a parameter, or what it is when nobody says.
    pub(super) fn take<T: FromStr>(
        &mut self,
        parameter: &'static str,
        default: T,
        what: &str,
    ) -> Result<T> {
        self.known.push(parameter);
        let Some(i) = self.left.iter().position(|(known, _)| *known == parameter) else {
            return Ok(default);
        };
        let (_, value) = self.left.remove(i);
        value.parse().map_err(|_| {
            Error::invalid(format!("{}: {parameter} is {what}, not '{value}'", self.name))
        })
    }

    /// The same of a number within a range.
    pub(super) fn number<T: FromStr + Display + PartialOrd>(
        &mut self,
        parameter: &'static str,
        default: T,
        range: RangeInclusive<T>,
    ) -> Result<T> {
        let what = format!("a number from {} to {}", range.start(), range.end());
        // As it was written: 1e308 has three hundred digits.
        let given = self.left.iter().find(|(known, _)| *known == parameter).map(|(_, text)| *text);
        let number = self.take(parameter, default, &what)?;
        match given.filter(|_| !range.contains(&number)) {
            None => Ok(number),
            Some(text) => {
                Err(Error::invalid(format!("{}: {parameter} is {what}, not {text}", self.name)))
            }
        }
    }

    /// Refuses what nobody has asked for.
    pub(super) fn all_known(&self) -> Result<()> {
        let Some((parameter, _)) = self.left.first() else { return Ok(()) };
        let (name, known) = (self.name, self.known.join(", "));
        Err(Error::invalid(match &*known {
            "" => format!("{name} has no parameter '{parameter}', nor any other"),
            _ => format!(
                "{name} has no parameter '{parameter}', or it is given twice; there are {known}"
            ),
        }))
    }
}
