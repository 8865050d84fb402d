//! How far a store was from itself in the same run, or that nobody looked: a line for the terminal and the page.

use super::text;
use crate::result::{Noise, PhaseNoise, Report};
use std::collections::HashSet;

/// What is said where no store was measured against itself.
const NOT_MEASURED: &str = "No noise floor was measured: without --no-noise, and with 5 rounds or more, one store is \
    measured against itself, too.";

/// What this run says of chance; `None` where there is no ratio that chance could make.
pub fn line(report: &Report) -> Option<String> {
    match &report.noise {
        Some(noise) => Some(measured(noise)),
        None => has_ratios(report).then(|| NOT_MEASURED.to_owned()),
    }
}

fn measured(noise: &Noise) -> String {
    let store = |p: &PhaseNoise| if p.store.is_empty() { &noise.store } else { &p.store }.clone();
    let mut stores: Vec<(String, Vec<String>)> = Vec::new();
    for phase in &noise.phases {
        let [low, high] = [phase.low, phase.high].map(text::number);
        let said = format!("{} [{low}, {high}]", phase.phase);
        match stores.iter_mut().find(|(name, _)| *name == store(phase)) {
            Some((_, phases)) => phases.push(said),
            None => stores.push((store(phase), vec![said])),
        }
    }
    let of_store = |(i, (store, phases)): (usize, (String, Vec<String>))| {
        let against = if i == 0 { " against itself in the same rounds" } else { "" };
        format!("{store}{against}: {}", phases.join(", "))
    };
    let stores: Vec<String> = stores.into_iter().enumerate().map(of_store).collect();
    format!(
        "Noise, {}. A ratio within that, or its inverse, shows no difference.",
        stores.join("; ")
    )
}

/// Whether two stores did the same.
fn has_ratios(report: &Report) -> bool {
    let mut known = HashSet::new();
    // There is one result for each store, phase and class.
    !report.results.iter().all(|r| known.insert((&r.phase, &r.class)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_noise_says_so_where_it_has_ratios() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        assert!(line(&report).unwrap().contains("--no-noise"));
        let of = |phase: &str, store: &str| PhaseNoise {
            phase: phase.to_owned(),
            store: store.to_owned(),
            median: 1.0,
            low: 0.98,
            high: 1.03,
            floor: 1.03,
        };
        // A report from before has one store for all phases.
        report.noise = Some(Noise { store: "cdb".into(), phases: vec![of("get-hit", "")] });
        assert!(
            line(&report)
                .unwrap()
                .starts_with("Noise, cdb against itself in the same rounds: get-hit [0.98, 1.03].")
        );
        let phases = vec![of("build", "cdb"), of("get-hit", "cdb"), of("remove", "hash")];
        report.noise = Some(Noise { store: "cdb".into(), phases });
        assert!(line(&report).unwrap().starts_with(
            "Noise, cdb against itself in the same rounds: build [0.98, 1.03], get-hit [0.98, 1.03]; \
             hash: remove [0.98, 1.03]."
        ));
        report.noise = None;
        report.results.retain(|result| result.store == "cdb");
        assert_eq!(line(&report), None, "one store has no ratio");
        let other = crate::result::PhaseResult {
            store: "mcdb".into(),
            class: "sync".into(),
            ..report.results[0].clone()
        };
        report.results.push(other);
        assert_eq!(line(&report), None, "classes are in no ratio");
    }
}
