//! What closing a changed store takes, for the terminal: it is in no time of an operation, though a store of class
//! at-close may do then what others have done before.

use super::text;
use crate::result::{PhaseResult, Report};

/// A part of the timed work that is worth a word.
const MUCH: f64 = 0.1;

/// The stores and phases of which closing took a good part of what was timed; nothing where there are none.
pub fn in_words(report: &Report) -> Option<String> {
    let of_result = |r: &PhaseResult| {
        let part = part(r).filter(|part| *part > MUCH)?;
        Some(format!("{} {} {}", r.store, r.phase, text::percent(part)))
    };
    let all: Vec<String> = report.results.iter().filter_map(of_result).collect();
    (!all.is_empty()).then(|| {
        format!(
            "Closing the store, which is not timed, took besides, of what was: {}.",
            all.join(", ")
        )
    })
}

/// The time of closing in relation to that of the timed work; `None` where nothing was changed.
fn part(r: &PhaseResult) -> Option<f64> {
    let timed = r.ns_per_op.median * r.effort.operations as f64;
    (timed > 0.0 && r.effort.closing_ns > 0).then(|| r.effort.closing_ns as f64 / timed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Danger: a store that does its work when it is closed is the fastest, and nobody is told.
    #[test]
    fn closing_that_takes_long_is_told() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        assert_eq!(in_words(&report), None, "a report from before there was the figure");
        let [one, other, ..] = &mut report.results[..] else { panic!() };
        for (result, closing_ns) in [(&mut *one, 30_000), (&mut *other, 9_000)] {
            result.ns_per_op.median = 100.0;
            (result.effort.operations, result.effort.closing_ns) = (1000, closing_ns);
        }
        let name = format!("{} {}", one.store, one.phase);
        let said = in_words(&report).unwrap();
        assert!(said.ends_with(&format!("of what was: {name} 30 %.")), "{said}");
    }
}
