//! What was asked of the stores, in words: what mixes do, how the keys of lookups are drawn, and in which order
//! records come into a store.
//!
//! The settings of a report have both whether they were used or not: here is only what a phase with figures did.

use super::compare::Comparison;
use super::text;
use crate::result::{PhaseResult, Report, Settings};
use crate::workload::{InsertOrder, Phase};

/// How keys are drawn when nobody says.
const USUAL: &str = "uniform";
/// Stands between two mixes.
const THEN: &str = "; then ";

/// What the mixes did, each behind the phase that does it; `None` where none was done, and in reports from
/// before this was in them.
pub fn mixes(report: &Report) -> Option<String> {
    let mix = &report.settings.mix;
    let is_done = !mix.is_empty() && phases(report).any(Phase::is_mixed);
    let has_names = mix.split(THEN).all(|mix| mix.starts_with("mixed-"));
    is_done.then(|| if has_names { mix.clone() } else { format!("{}: {mix}", Phase::Mixed.name()) })
}

/// How the keys of lookups were drawn, of those that are there; `None` where no such were looked up.
pub fn distribution(report: &Report) -> Option<&str> {
    let is_done = phases(report).any(draws_keys);
    Some(&*report.settings.distribution).filter(|name| is_done && !name.is_empty())
}

/// In which order records came into the stores, also in reports from before this was in them.
pub fn insert_order(settings: &Settings) -> &str {
    if settings.insert_order.is_empty() { InsertOrder::GIVEN } else { &settings.insert_order }
}

/// That order, if it is not the one of the data.
fn other_order(settings: &Settings) -> Option<&str> {
    Some(insert_order(settings)).filter(|order| *order != InsertOrder::GIVEN)
}

/// What the head of a report says of all: nothing of keys that are drawn as always, and of records that came as
/// they do.
pub fn in_words(report: &Report) -> Vec<String> {
    let inserts = other_order(&report.settings).map(|order| format!("inserts: keys {order}"));
    let unusual = distribution(report).filter(|name| *name != USUAL);
    let lookups = unusual.map(|name| format!("lookups: keys {name}"));
    inserts.into_iter().chain(lookups).chain(mixes(report)).collect()
}

/// What part of its lookups each mix found, which the keys that it draws and removes make of it: once where that
/// is the same for all stores.
pub fn hit_rates(c: &Comparison<'_>) -> Vec<String> {
    let is_mixed = |phase: &&&str| Phase::named(phase).is_some_and(Phase::is_mixed);
    let of_phase = |phase: &&str| {
        let all = c.stores.iter().filter_map(|store| Some((*store, c.result(store, phase)?)));
        let rate = |(store, r): (_, &PhaseResult)| Some((store, text::percent(r.hit_rate?)));
        let rates: Vec<(&str, String)> = all.filter_map(rate).collect();
        let (_, first) = rates.first()?;
        Some(match rates.iter().all(|(_, rate)| rate == first) {
            true => format!("{phase}: {first} of its lookups found their key."),
            false => {
                let each: Vec<String> =
                    rates.iter().map(|(store, rate)| format!("{store} {rate}")).collect();
                format!("{phase}: of its lookups found their key: {}.", each.join(", "))
            }
        })
    };
    c.phases.iter().filter(is_mixed).filter_map(of_phase).collect()
}

/// How one phase draws the keys that it looks up, the mix that it does, and another order of its records than that
/// of the data, where it has none of its own; empty where there is no such.
pub fn of_phase(settings: &Settings, name: &str) -> [String; 3] {
    let mut words = [const { String::new() }; 3];
    if Phase::named(name) != Some(Phase::InsertRandom) {
        words[2] = other_order(settings).unwrap_or_default().to_owned();
    }
    match Phase::named(name) {
        Some(Phase::Mixed) => words[1].clone_from(&settings.mix),
        Some(Phase::OneMix(_)) => {
            let own = |mix: &str| Some(mix.strip_prefix(name)?.strip_prefix(": ")?.to_owned());
            words[1] = settings.mix.split(THEN).find_map(own).unwrap_or_default();
        }
        Some(phase) if draws_keys(phase) => words[0].clone_from(&settings.distribution),
        _ => {}
    }
    words
}

/// The phases that have figures.
fn phases(report: &Report) -> impl Iterator<Item = Phase> {
    let alone = report.results.iter().map(|r| &r.phase);
    let several = report.together.iter().map(|r| &r.phase);
    alone.chain(several).filter_map(|name| Phase::named(name))
}

/// Whether a phase looks keys up that are there: those that are not are drawn from no data.
fn draws_keys(phase: Phase) -> bool {
    phase.is_get() && !matches!(phase, Phase::GetMiss | Phase::GetManyMiss)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(phases: &[&str], distribution: &str, mix: &str) -> Report {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        report.results.truncate(phases.len());
        for (result, phase) in report.results.iter_mut().zip(phases) {
            result.phase = (*phase).to_owned();
        }
        report.settings.distribution = distribution.to_owned();
        report.settings.mix = mix.to_owned();
        report
    }

    #[test]
    fn only_what_was_done_is_said() {
        let said = |phases: &[&str], distribution: &str, mix: &str| {
            in_words(&report(phases, distribution, mix))
        };
        let mix = "get 6, update 4, keys uniform";
        assert!(said(&["build", "get-miss", "get-many-miss"], "latest:theta=0.99", mix).is_empty());
        assert!(said(&["build", "get-hit"], "uniform", mix).is_empty());
        assert_eq!(said(&["get-90"], "ascending", mix), ["lookups: keys ascending"]);
        assert_eq!(said(&["mixed"], "ascending", mix), ["mixed: get 6, update 4, keys uniform"]);
        assert!(said(&["mixed", "get-hit"], "", "").is_empty(), "a report without these fields");
        let several =
            "mixed-load: insert 1, keys uniform; then mixed-clear: remove 1, keys uniform";
        assert_eq!(said(&["mixed-clear"], "uniform", several), [several]);
    }

    #[test]
    fn the_hit_rate_of_a_mix_is_said_once_where_it_is_the_same() {
        let mut report = report(&["mixed", "mixed", "get-hit"], "uniform", "");
        let said = |report: &Report| hit_rates(&Comparison::of(report)[0]);
        for (result, rate) in report.results.iter_mut().zip([None, None, Some(0.5)]) {
            result.hit_rate = rate;
        }
        assert!(said(&report).is_empty(), "a mix without lookups, and what is no mix");
        report.results[0].hit_rate = Some(0.75);
        report.results[1].hit_rate = Some(0.75);
        assert_eq!(said(&report), ["mixed: 75 % of its lookups found their key."]);
        let [one, other] = [0, 1].map(|i| report.results[i].store.clone());
        // As where each ends after some seconds.
        report.results[1].hit_rate = Some(0.5);
        let each = format!("mixed: of its lookups found their key: {one} 75 %, {other} 50 %.");
        assert_eq!(said(&report), [each]);
    }

    #[test]
    fn a_phase_has_its_own_mix() {
        let several = "mixed-a: insert 1, keys uniform; then mixed-ab: remove 1, keys latest";
        let settings = report(&["mixed-a"], "ascending", several).settings;
        assert_eq!(of_phase(&settings, "mixed-a"), ["", "insert 1, keys uniform", ""]);
        assert_eq!(of_phase(&settings, "mixed-ab"), ["", "remove 1, keys latest", ""]);
        assert_eq!(of_phase(&settings, "mixed-b"), ["", "", ""]);
        assert_eq!(of_phase(&settings, "get-many-hit"), ["ascending", "", ""]);
        assert_eq!(of_phase(&settings, "get-miss"), ["", "", ""]);
        assert_eq!(of_phase(&settings, "scan"), ["", "", ""]);
    }

    #[test]
    fn another_order_of_inserts_is_said_but_of_the_phase_that_has_its_own() {
        let mut report = report(&["insert"], "uniform", "");
        for (order, said) in [("", "given"), ("given", "given"), ("descending", "descending")] {
            report.settings.insert_order = order.to_owned();
            assert_eq!(insert_order(&report.settings), said);
            let words = if said == "given" { "" } else { said };
            assert_eq!(of_phase(&report.settings, "insert"), ["", "", words]);
            assert_eq!(of_phase(&report.settings, "insert-random"), ["", "", ""]);
        }
        assert_eq!(in_words(&report), ["inserts: keys descending"]);
        report.settings.insert_order = InsertOrder::GIVEN.to_owned();
        assert!(in_words(&report).is_empty());
    }
}
