//! The prediction against what is measured with all of the data: how far it was off, and whether another
//! store would have won.

use super::figures::{Figure, Figures, Of};
use super::report::{figure_in_words, in_words};
use crate::report::text;
use serde::Serialize;
use std::collections::BTreeMap;

/// A figure that is so many times what was expected, or as much less, was not predicted.
const FAR: f64 = 2.0;

/// One candidate, measured with all of the data.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    pub(super) records: u64,
    /// What was expected with so many records.
    pub(super) expected: Figures,
    pub(super) measured: Figures,
    /// How much more was expected than was measured, in percent.
    pub(super) error_percent: BTreeMap<Figure, f64>,
    /// Nanoseconds of an operation of the use on average.
    pub(super) expected_ns: f64,
    pub(super) measured_ns: f64,
}

impl Checked {
    pub(super) fn new(
        records: u64,
        expected: Figures,
        measured: Figures,
        [expected_ns, measured_ns]: [f64; 2],
    ) -> Checked {
        let error = |(name, measured): (&Figure, &f64)| {
            let expected = expected.get(name)?;
            let error = (expected / measured - 1.0) * 100.0;
            error.is_finite().then(|| (name.clone(), error))
        };
        let error_percent = measured.iter().filter_map(error).collect();
        Checked { records, expected, measured, error_percent, expected_ns, measured_ns }
    }

    /// The figures that the prediction was far off with, in a sentence, as the choice may hold all the same.
    /// The tails of times are no reason: another program makes them longer.
    pub(super) fn far_off(&self) -> Option<String> {
        let is_far = |(name, measured): &(&Figure, &f64)| {
            let expected = self.expected.get(name).copied().unwrap_or(**measured);
            let (less, more) = (measured.min(expected), measured.max(expected));
            !matches!(name, Figure::Time(_, Of::P99)) && more > less * FAR
        };
        let off = |(name, measured): (&Figure, &f64)| {
            let what = figure_in_words(name);
            let [expected, measured] = [self.expected[name], *measured].map(|x| in_words(name, x));
            format!("{what}, {expected} for {measured}")
        };
        let far: Vec<String> = self.measured.iter().filter(is_far).map(off).collect();
        (!far.is_empty())
            .then(|| format!("What was expected of it was far off: {}.", far.join("; ")))
    }
}

/// What is known of a candidate's time of an operation with all of the data.
pub(super) struct Time {
    pub(super) name: String,
    pub(super) expected: f64,
    pub(super) measured: Option<f64>,
}

impl Time {
    fn known(&self) -> f64 {
        self.measured.unwrap_or(self.expected)
    }
}

/// Whether what was advised, the first, is still to be advised, now that it was measured: in a sentence;
/// and whether it is.
pub(super) fn verdict(times: &[Time]) -> (bool, String) {
    let Some((advised, others)) = times.split_first() else { return (true, String::new()) };
    let best = others.iter().min_by(|one, other| one.known().total_cmp(&other.known()));
    let Some(best) = best else {
        return (true, "There is no other store to choose.".to_owned());
    };
    let (own, other) = (advised.known(), best.known());
    let [own_words, other_words] = [own, other].map(text::nanoseconds);
    let how = if best.measured.is_some() { "was measured with" } else { "is expected to take" };
    if own <= other * (1.0 + super::ALIKE) {
        return (
            true,
            format!(
                "The advice holds: {} took {own_words} an operation, and {}, the next, {how} \
                 {other_words}.",
                advised.name, best.name
            ),
        );
    }
    let then = match best.measured {
        Some(_) => format!("take {} instead", best.name),
        None => format!("--check-all measures whether {} is better", best.name),
    };
    (
        false,
        format!(
            "THE PREDICTION WAS WRONG: {} took {own_words} an operation, and {} {how} {other_words}: \
             {then}.",
            advised.name, best.name
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_in_percent_of_what_was_measured() {
        let figures = |file, memory| {
            Figures::from([(Figure::File, file), (Figure::Memory, memory), (Figure::Build, 0.0)])
        };
        let checked = Checked::new(9, figures(150.0, 80.0), figures(100.0, 100.0), [1.0, 2.0]);
        let near =
            |name: Figure, percent: f64| (checked.error_percent[&name] - percent).abs() < 1e-9;
        assert!(near(Figure::File, 50.0) && near(Figure::Memory, -20.0));
        // Nothing was measured that could be off.
        assert!(!checked.error_percent.contains_key(&Figure::Build));
    }

    #[test]
    fn figures_that_are_far_off_are_told() {
        let p99 = Figure::Time("get".to_owned(), Of::P99);
        let of = |file, build, tail| {
            let all = [(Figure::File, file), (Figure::Build, build), (p99.clone(), tail)];
            Checked::new(9, Figures::from(all), figures_of_hundreds(&p99), [1.0, 2.0]).far_off()
        };
        assert_eq!(of(51.0, 199.0, 900.0), None);
        let told = of(19.0, 201.0, 100.0).unwrap();
        assert!(
            told.ends_with("far off: file, 19 B for 100 B; build, a record, 201 ns for 100 ns.")
        );
        // Nothing was expected that could be off.
        let none = Checked::new(9, Figures::new(), figures_of_hundreds(&p99), [1.0, 2.0]);
        assert_eq!(none.far_off(), None);
    }

    fn figures_of_hundreds(p99: &Figure) -> Figures {
        [Figure::File, Figure::Build, p99.clone()].map(|name| (name, 100.0)).into()
    }

    #[test]
    fn a_prediction_that_chose_wrongly_is_said_to() {
        let time =
            |name: &str, expected, measured| Time { name: name.to_owned(), expected, measured };
        for (times, holds, says) in [
            (
                vec![time("a", 10.0, Some(11.0)), time("b", 20.0, None)],
                true,
                "b, the next, is expected",
            ),
            (vec![time("a", 10.0, Some(21.0)), time("b", 20.0, None)], true, "holds"),
            (vec![time("a", 10.0, Some(30.0)), time("b", 20.0, None)], false, "--check-all"),
            (
                vec![time("a", 10.0, Some(30.0)), time("b", 20.0, Some(25.0))],
                false,
                "take b instead",
            ),
            (vec![time("a", 10.0, Some(30.0)), time("b", 20.0, Some(50.0))], true, "was measured"),
            (vec![time("a", 10.0, Some(30.0))], true, "no other store"),
        ] {
            let (found, words) = verdict(&times);
            assert_eq!(found, holds, "{words}");
            assert!(words.contains(says), "{words}");
        }
    }
}
