//! Settings of our engines that may matter for the data and the use: which are tried, and which are kept.
//!
//! A setting is tried where its engine may still win with it: where the engine as it is takes at most
//! [`CLOSE`] times as long as the best. It is measured in turn with the same engine as that is, and that
//! one once more against itself, which is what chance makes. It is kept, and then is a candidate as others
//! are, where all of the interval of its ratio is beyond chance, and the gain more than [`super::ALIKE`].

use super::ALIKE;
use super::candidates::Candidate;
use super::figures::{Figure, Trial, per_operation};
use super::usage::Usage;
use crate::report::pen::{Pen, wrapped};
use crate::report::plain::Table;
use crate::report::stats::{Ratio, Verdict};
use crate::report::text;
use serde::Serialize;
use std::io::{self, Write};

/// With a setting an engine may be so many times as fast, and not more.
const CLOSE: f64 = 1.5;
/// How often a setting is measured with a part of the data, if there is time.
pub(super) const ROUNDS: usize = 5;

/// What an engine can be set to, as the bench's `--set` has it, by its name.
const SETTINGS: [(&str, &str); 1] = [("constant", "copy=on")];

/// A setting that was tried.
#[derive(Debug, Serialize)]
pub(super) struct Tried {
    /// The candidate with it, by its name, and the one without it.
    pub(super) store: String,
    pub(super) against: String,
    /// The records that both were measured with, most often and at most.
    pub(super) records: u64,
    /// How many times as fast it is with the setting; `None` where too little was measured.
    pub(super) ratio: Option<Ratio>,
    /// How many times as large file and memory are.
    pub(super) file: f64,
    pub(super) memory: f64,
    pub(super) is_kept: bool,
    /// Whether it is a candidate anyway, whose file and times decide.
    pub(super) is_candidate: bool,
}

/// These candidates' settings that are tried, each with the number of its candidate: of engines that are
/// close to the best by these times of an operation.
pub(super) fn to_try(candidates: &[(&Candidate, f64)]) -> Vec<(usize, Candidate)> {
    let least = candidates.iter().map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
    let is_close = |ns: f64| ns <= least * CLOSE;
    let close = candidates.iter().enumerate().filter(|(_, (_, ns))| is_close(*ns));
    let with = |(i, (candidate, _)): (usize, &(&Candidate, f64))| {
        let own = SETTINGS.into_iter().filter(|(store, _)| *store == candidate.store);
        own.map(|(_, set)| (i, Candidate { setting: Some(set), ..(*candidate).clone() }))
            .collect::<Vec<_>>()
    };
    close.flat_map(with).collect()
}

impl Tried {
    /// From the trials of both by part and round, and of the one without it again, if that was measured.
    pub(super) fn of(
        [with, without]: [(&Candidate, &[Vec<Trial>]); 2],
        again: Option<&[Vec<Trial>]>,
        usage: &Usage,
    ) -> Option<Tried> {
        let ((candidate, own), (plain, others)) = (with, without);
        // The largest part of those that were measured most often.
        let rounds = |part: &usize| own[*part].len().min(others[*part].len());
        let part = (0..own.len().min(others.len())).max_by_key(|part| (rounds(part), *part))?;
        let (own, others) = (&own[part], &others[part]);
        let times = |all: &[Trial]| -> Vec<f64> {
            all.iter().map(|trial| per_operation(&trial.figures, usage)).collect()
        };
        let ratio_of = |own: &[Trial], others: &[Trial]| {
            let pairs: Vec<_> = times(own).into_iter().zip(times(others)).collect();
            Ratio::of_pairs(&pairs)
        };
        let chance = again.and_then(|again| ratio_of(again.get(part)?, others));
        let floor = chance.map_or(1.0, |chance| chance.high.max(1.0 / chance.low).max(1.0));
        let ratio = ratio_of(own, others).map(|ratio| Ratio { floor, ..ratio });
        let (one, other) = (Trial::median(own)?, Trial::median(others)?);
        let times_as = |figure: &Figure| {
            let [one, other] = [&one, &other].map(|of| of.figures.get(figure).copied());
            one.zip(other).map_or(1.0, |(one, other)| one / other.max(1.0))
        };
        Some(Tried {
            store: candidate.name(),
            against: plain.name(),
            records: one.records,
            is_kept: ratio.as_ref().is_some_and(is_worth_it),
            is_candidate: false,
            ratio,
            file: times_as(&Figure::File),
            memory: times_as(&Figure::Memory),
        })
    }

    fn verdict(&self) -> &'static str {
        match self.ratio.map(|ratio| ratio.verdict()) {
            _ if self.is_candidate => "a candidate",
            _ if self.is_kept => "kept",
            None | Some(Verdict::TooFewRounds) => "too few rounds",
            Some(Verdict::Faster) => "gains too little",
            Some(Verdict::NoDifference) => "no difference",
            Some(Verdict::Slower) => "slower",
        }
    }
}

/// Whether a setting that is so many times as fast is kept.
fn is_worth_it(ratio: &Ratio) -> bool {
    ratio.verdict() == Verdict::Faster && ratio.median > 1.0 + ALIKE
}

/// Prints what was tried and what it gave; of candidates of their own it is only said how they compare.
pub(super) fn write(tried: &[Tried], out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    if tried.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", pen.bold("Settings tried, each in turn with the same store without it"))?;
    let heads = ["setting", "speed", "by chance", "file", "memory", "outcome"];
    let row = |one: &Tried| {
        let chance = one.ratio.filter(|ratio| ratio.floor > 1.0);
        vec![
            one.store.clone(),
            one.ratio.map_or_else(|| text::NONE.to_owned(), |ratio| in_words(&ratio)),
            chance.map_or_else(|| text::NONE.to_owned(), |ratio| text::factor(ratio.floor)),
            text::factor(one.file),
            text::factor(one.memory),
            one.verdict().to_owned(),
        ]
    };
    let rows = tried.iter().map(row).collect();
    let table = Table { heads: heads.map(str::to_owned).to_vec(), rows, words: 1 };
    table.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    let rule = "A setting is kept where it is faster by more than a tenth, and by more than the same store \
                measured against itself.";
    wrapped(out, pen, "  ", rule)
}

fn in_words(ratio: &Ratio) -> String {
    let [low, high] = [ratio.low, ratio.high].map(text::number);
    format!("{} [{low}, {high}]", text::factor(ratio.median))
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Figures, Of};
    use super::super::usage::GET;
    use super::*;

    fn trials(times: &[f64]) -> Vec<Vec<Trial>> {
        let trial = |ns: &f64| {
            let time = (Figure::Time(GET.to_owned(), Of::Mean), *ns);
            let figures = Figures::from([time, (Figure::File, 100.0), (Figure::Memory, *ns)]);
            Trial { records: 9, bytes: 90, figures }
        };
        vec![times[..1].iter().map(trial).collect(), times.iter().map(trial).collect()]
    }

    fn tried(own: &[f64], others: &[f64], again: &[f64]) -> Tried {
        let candidate = Candidate::plain("constant");
        let [own, others, again] = [own, others, again].map(trials);
        let both = [(&candidate, &own[..]), (&candidate, &others[..])];
        Tried::of(both, Some(&again), &Usage::only(GET)).unwrap()
    }

    #[test]
    fn only_what_is_beyond_chance_and_worth_it_is_kept() {
        let base = [100.0, 110.0, 105.0, 102.0, 103.0];
        for (factor, again, is_kept, says) in [
            (0.5, 1.01, true, "kept"),
            (0.95, 1.01, false, "too little"),
            // Faster by a quarter, but the store may look half as fast again as itself.
            (0.8, 1.5, false, "no difference"),
            (0.8, 0.6, false, "no difference"),
            (1.3, 1.01, false, "slower"),
        ] {
            let times = |factor: f64| base.map(|ns| ns * factor);
            let one = tried(&times(factor), &base, &times(again));
            assert_eq!(one.is_kept, is_kept, "{factor}: {one:?}");
            assert!(one.verdict().contains(says), "{factor}: {}", one.verdict());
            assert!((one.memory - factor).abs() < 1e-9 && one.file == 1.0 && one.records == 9);
        }
        let short = tried(&[50.0, 50.0], &[100.0, 100.0], &[100.0, 100.0]);
        assert!(!short.is_kept && short.verdict().contains("too few"), "{short:?}");
    }

    #[test]
    fn settings_are_tried_of_engines_that_may_win() {
        let [constant, hash] = ["constant", "hash"].map(Candidate::plain);
        let names = |times: [f64; 2]| -> Vec<String> {
            let found = to_try(&[(&constant, times[0]), (&hash, times[1])]);
            found.iter().map(|(_, candidate)| candidate.name()).collect()
        };
        assert_eq!(names([100.0, 90.0]), ["constant, copy=on"]);
        assert_eq!(names([100.0, 60.0]), [""; 0]);
    }
}
