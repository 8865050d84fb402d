//! What is measured of a store, and predicted: by name, so that all of it is fitted, compared and
//! written in the same way.

use super::usage::Usage;
use crate::measure;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One figure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub(super) enum Figure {
    /// Bytes that the files take.
    File,
    /// Bytes of memory that are resident beyond what was before the store was opened, files in it
    /// included.
    Memory,
    /// Nanoseconds to build a store, for each record.
    Build,
    /// Nanoseconds of an operation, by its name.
    Time(String, Of),
}

/// Of the times of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Mean,
    P50,
    P99,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::File => write!(f, "file_bytes"),
            Figure::Memory => write!(f, "memory_bytes"),
            Figure::Build => write!(f, "build_ns_per_record"),
            Figure::Time(operation, of) => {
                let of = match of {
                    Of::Mean => "mean",
                    Of::P50 => "p50",
                    Of::P99 => "p99",
                };
                write!(f, "{}_{of}_ns", operation.replace(' ', "_"))
            }
        }
    }
}

impl From<Figure> for String {
    fn from(figure: Figure) -> String {
        figure.to_string()
    }
}

/// Figures with what they are.
pub(super) type Figures = BTreeMap<Figure, f64>;

/// What was measured with so many records.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Trial {
    pub(super) records: u64,
    /// Bytes of their keys and values.
    pub(super) bytes: u64,
    pub(super) figures: Figures,
}

impl Trial {
    /// The medians of trials with the same records; `None` if there is none.
    pub(super) fn median(trials: &[Trial]) -> Option<Trial> {
        let first = trials.first()?;
        let names: BTreeSet<&Figure> = trials.iter().flat_map(|t| t.figures.keys()).collect();
        let median = |name: &Figure| {
            let mut all: Vec<f64> =
                trials.iter().filter_map(|t| t.figures.get(name)).copied().collect();
            measure::median(&mut all)
        };
        let figures = names.into_iter().map(|name| (name.clone(), median(name))).collect();
        Some(Trial { figures, ..first.clone() })
    }
}

/// Nanoseconds of an operation of this use on average.
pub(super) fn per_operation(figures: &Figures, usage: &Usage) -> f64 {
    let time = |(name, share): (&String, &f64)| {
        figures.get(&Figure::Time(name.clone(), Of::Mean)).map_or(0.0, |mean| mean * share)
    };
    usage.shares.iter().map(time).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        let p99 = Figure::Time("scan all".to_owned(), Of::P99);
        let figures = Figures::from([(Figure::File, 1.0), (Figure::Build, 2.0), (p99, 3.0)]);
        let json = serde_json::to_string(&figures).unwrap();
        assert_eq!(json, r#"{"file_bytes":1.0,"build_ns_per_record":2.0,"scan_all_p99_ns":3.0}"#);
    }

    #[test]
    fn the_median_is_that_of_each_figure() {
        let trial = |file: f64| Trial {
            records: 7,
            bytes: 9,
            figures: Figures::from([(Figure::File, file), (Figure::Memory, -file)]),
        };
        let median = Trial::median(&[trial(1.0), trial(5.0), trial(2.0)]).unwrap();
        assert_eq!((median.records, median.figures[&Figure::File]), (7, 2.0));
        assert_eq!(median.figures[&Figure::Memory], -2.0);
        assert!(Trial::median(&[]).is_none());
    }
}
