//! How far a store was from itself in the same run, or that nobody looked: a line for the terminal and the page.

use super::text;
use crate::result::{Noise, PhaseNoise, Report};
use std::collections::HashSet;

/// What is said where a store was not measured against itself.
const NOT_MEASURED: &str =
    "No noise floor was measured: --noise has one store measured against itself, too (5 rounds).";

/// What this run says of chance; `None` where there is no ratio that chance could make.
pub fn line(report: &Report) -> Option<String> {
    match &report.noise {
        Some(noise) => Some(measured(noise)),
        None => has_ratios(report).then(|| NOT_MEASURED.to_owned()),
    }
}

fn measured(noise: &Noise) -> String {
    let phase = |p: &PhaseNoise| {
        let [low, high] = [p.low, p.high].map(text::number);
        format!("{} [{low}, {high}]", p.phase)
    };
    let phases: Vec<String> = noise.phases.iter().map(phase).collect();
    format!(
        "Noise, {} against itself in the same rounds: {}. A ratio whose interval lies within that, \
         or its inverse, shows no difference.",
        noise.store,
        phases.join(", ")
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
        assert!(line(&report).unwrap().contains("--noise"));
        let phase = "get-hit".to_owned();
        let noise = PhaseNoise { phase, median: 1.0, low: 0.98, high: 1.03, floor: 1.03 };
        report.noise = Some(Noise { store: "cdb".into(), phases: vec![noise] });
        assert!(
            line(&report)
                .unwrap()
                .starts_with("Noise, cdb against itself in the same rounds: get-hit [0.98, 1.03].")
        );
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
