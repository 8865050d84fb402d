//! Figures of the earlier run that the later one has not: each is named.
//!
//! It is a regression where the later run was to give the figure: it failed, or it is not there and nothing
//! says why, as where a library is not installed any more. It is none where the later run was asked for less,
//! by its own options, which are in its settings.

use super::{same_in, together};
use crate::report::together::many;
use crate::result::{Failure, PhaseResult, Report, TogetherResult};

/// The figures that are only in the earlier run, each as a sentence.
#[derive(Default)]
pub(super) struct Missing {
    /// Those that the later run was to give.
    pub(super) lost: Vec<String>,
    /// The others, with the reason.
    pub(super) left_out: Vec<String>,
}

impl Missing {
    /// One more, with why the later run was not to give it, or what failed in it.
    fn add(
        &mut self,
        figure: &str,
        after: &Report,
        reason: Option<String>,
        failure: Option<&Failure>,
    ) {
        let why = match (failure, reason) {
            (Some(failure), _) => format!("{}: {}", failure.status, failure.what),
            (None, Some(reason)) => return self.left_out.push(format!("{figure}: {reason}")),
            // What a signal kept from being measured is missed all the same.
            (None, None) if after.interrupted => {
                "not in the later run, which a signal stopped".to_owned()
            }
            (None, None) => "not in the later run, which does not say why".to_owned(),
        };
        self.lost.push(format!("{figure}: {why}"));
    }
}

/// What is only in the earlier run.
pub(super) fn missing(before: &Report, after: &Report) -> Missing {
    let mut missing = Missing::default();
    for old in &before.results {
        let PhaseResult { store, phase, class, .. } = old;
        match same_in(after, old) {
            None => {
                let figure = format!("{store}, {phase} ({class})");
                let failure = failure(after, store, phase).filter(|_| old.verified);
                missing.add(&figure, after, reason(before, after, old), failure);
            }
            Some(new) => {
                let is_asked =
                    before.settings.rate == after.settings.rate && after.settings.metrics != "none";
                if is_asked && old.at_rate.is_some() && new.at_rate.is_none() {
                    let figure = format!("{store}, {phase} ({class}) at a rate");
                    missing.add(&figure, after, None, None);
                }
            }
        }
    }
    for old in before.together.iter().filter(|old| together::same_in(after, old).is_none()) {
        let TogetherResult { store, phase, .. } = old;
        let readers = many(old.readers, &old.by);
        let writer = if old.writers > 0 { " and a writer" } else { "" };
        let figure = format!("{store}, {phase}, {readers}{writer}");
        let failure = failure(after, store, phase).filter(|_| old.verified);
        missing.add(&figure, after, reason_together(before, after, old), failure);
    }
    missing
}

/// What the later run says of a store's phase that failed.
pub(super) fn failure<'a>(after: &'a Report, store: &str, phase: &str) -> Option<&'a Failure> {
    let is_of = |failure: &&Failure| {
        failure.store == store && failure.phase.as_ref().is_none_or(|failed| failed == phase)
    };
    after.failures.iter().find(is_of)
}

/// Why the later run was not to give this figure; `None` if it was.
fn reason(before: &Report, after: &Report, old: &PhaseResult) -> Option<String> {
    if !old.verified {
        return Some("its answers were wrong before".to_owned());
    }
    let class = |r: &Report| (r.settings.sync, r.settings.mix.clone());
    not_asked(before, after, &old.store, &old.phase).or_else(|| {
        let is_there = |new: &&PhaseResult| (&new.store, &new.phase) == (&old.store, &old.phase);
        let other =
            after.results.iter().find(is_there).filter(|_| class(before) != class(after))?;
        Some(format!("of the class '{}' in the later run, by its options", other.class))
    })
}

/// Which option of the later run leaves this out of it.
fn not_asked(before: &Report, after: &Report, store: &str, phase: &str) -> Option<String> {
    let (old, new) = (&before.settings, &after.settings);
    let has_phase = new.phases.is_empty() || new.phases.iter().any(|asked| asked == phase);
    let is_named = new.named.as_ref().is_none_or(|named| named.iter().any(|name| name == store));
    let takes_part = after.stores.iter().any(|info| info.store == store);
    let option = match () {
        () if !has_phase => "--phases",
        () if !is_named => "--stores",
        () if !takes_part && old.stores != new.stores => "--set",
        () => return None,
    };
    Some(format!("not asked for in the later run ({option})"))
}

/// The same of several readers: their numbers are in no settings, but in what other stores and phases have.
fn reason_together(before: &Report, after: &Report, old: &TogetherResult) -> Option<String> {
    if !old.verified {
        return Some("its answers were wrong before".to_owned());
    }
    let group = |r: &TogetherResult| (r.by.clone(), r.readers, r.writers, r.processors, r.bound);
    let is_asked = after.together.iter().any(|new| group(new) == group(old));
    not_asked(before, after, &old.store, &old.phase).or_else(|| {
        (!is_asked).then(|| "no such group in the later run, on as many processors".to_owned())
    })
}
