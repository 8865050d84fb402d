//! Operations at a rate: a table for the terminal, and one for the page.

use super::plain::ByClass;
use super::{figures, text, together};
use crate::result::{AtRate, Latency, Report};

const EXPLAINED: &str = "Each operation had a time to start. Latencies count from it to the end of the \
    operation, so that what waited in line behind a slow one has that in its own. Lookups of a batch start \
    together, in one call, which is the latency of each; a range is one operation. Reached: operations a \
    second, the median of the rounds, and the worst of them; BEHIND marks a store that in some round ended more than 1 % and a \
    millisecond later than its schedule: its latencies grow with the length of the run, and are no \
    property of the store. With several processes or threads the rate is that of all together. ! some \
    answers were wrong. These latencies have no noise floor: how far those of one store are apart by chance is not \
    measured.";

/// p90 is in the curves alone: with it the lines would be too long for a terminal.
const HEADS: [&str; 9] =
    ["store", "phase", "p50", "p99", "p99.9", "p99.99", "slowest", "reached", "worst"];

/// What one store did in one phase at a rate.
pub struct OpenLoop<'a> {
    pub store: &'a str,
    pub class: &'a str,
    /// The phase, with who did it together if there were several: "get-hit, 2 threads".
    pub phase: String,
    /// The processors of these, and whether they were bound to them.
    pub processors: Option<(usize, bool)>,
    pub at: &'a AtRate,
}

/// All of them, those of several behind those of one, in the report's order.
pub fn results(report: &Report) -> impl Iterator<Item = OpenLoop<'_>> {
    let alone = report.results.iter().filter_map(|r| {
        let (at, phase) = (r.at_rate.as_ref()?, r.phase.clone());
        Some(OpenLoop { store: &r.store, class: &r.class, phase, processors: None, at })
    });
    let several = report.together.iter().filter_map(|r| {
        let (at, phase) = (r.at_rate.as_ref()?, format!("{}, {}", r.phase, together::readers(r)));
        let processors = Some((r.processors, r.bound));
        Some(OpenLoop { store: &r.store, class: &r.class, phase, processors, at })
    });
    alone.chain(several)
}

/// The title, the table and what to say below; nothing without results.
pub fn table(report: &Report) -> Option<(String, ByClass, &'static str)> {
    let first = results(report).next()?.at;
    let arrivals = match &*first.arrivals {
        "poisson" => "at random times (Poisson)".to_owned(),
        "even" => "at equal distances".to_owned(),
        other => other.to_owned(),
    };
    let rate = text::number(first.per_second);
    let title = format!("At {rate} operations a second, {arrivals}");
    let rows = results(report).flat_map(|of| rows(&of).into_iter().map(move |row| (of.class, row)));
    let heads = HEADS.map(str::to_owned).to_vec();
    Some((title, ByClass::new(&heads, 2, rows)?, EXPLAINED))
}

/// Each round of all of them; nothing without any.
pub fn rounds(report: &Report) -> Option<ByClass> {
    let latencies = |all: &[u64]| {
        let each = all.iter().map(|ns| text::nanoseconds(*ns as f64));
        each.collect::<Vec<_>>().join(figures::BETWEEN_SAMPLES)
    };
    let row = |of: OpenLoop<'_>| {
        let (reached, rounds) = (&of.at.reached, &of.at.by_round);
        let mut row = vec![of.store.to_owned(), of.phase, figures::samples(&reached.samples)];
        row.extend([&rounds.p50, &rounds.p99, &rounds.p999].map(|all| latencies(all)));
        row
    };
    let heads = ["store", "phase", "reached", "p50", "p99", "p99.9"].map(str::to_owned);
    ByClass::new(&heads, 2, results(report).map(|of| (of.class, row(of))))
}

/// A row for all operations, and for `mixed` one for each kind.
fn rows(of: &OpenLoop<'_>) -> Vec<Vec<String>> {
    let OpenLoop { store, phase, at, .. } = of;
    let wrong = if at.verified { "" } else { "!" };
    // Beside the phase, where it is seen before the latencies that it is a warning of.
    let behind = if at.kept_up { "" } else { " BEHIND" };
    let rate = |rate: f64| text::count(rate.max(0.0) as u64);
    let worst = at.reached.samples.iter().copied().reduce(f64::min);
    let reached = [
        format!("{}{wrong}", rate(at.reached.median)),
        worst.map_or_else(|| text::NONE.to_owned(), rate),
    ];
    let mut rows = vec![row(store, format!("{phase}{behind}"), reached, &at.latency_ns)];
    for (name, latency) in &at.operation_latency_ns {
        rows.push(row(store, format!("{phase}: {name}"), Default::default(), latency));
    }
    rows
}

fn row(store: &str, phase: String, reached: [String; 2], l: &Latency) -> Vec<String> {
    let mut row = vec![store.to_owned(), phase];
    let all = [l.p50, l.p99, l.p999, l.p9999, l.max];
    row.extend(all.map(|ns| text::nanoseconds(ns as f64)));
    row.extend(reached);
    row
}

/// A result for tests: one round of three was late.
#[cfg(test)]
pub fn some() -> AtRate {
    let latency = |ns| Latency {
        count: 3,
        p50: ns,
        p90: ns,
        p99: ns,
        p999: ns,
        p9999: ns,
        max: ns,
        curve: Vec::new(),
    };
    AtRate {
        per_second: 50_000.0,
        arrivals: "even".to_owned(),
        ops: 3,
        reached: crate::result::Summary {
            median: 50_262.0,
            samples: vec![50_262.0, 41_120.9, 50_300.0],
            ..Default::default()
        },
        kept_up: false,
        rounds_behind: Some(1),
        latency_ns: latency(400),
        by_round: Default::default(),
        operation_latency_ns: [("get".to_owned(), latency(300))].into(),
        over_time: None,
        verified: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_late_in_one_round_has_the_rate_of_that_beside_the_median() {
        let json = include_bytes!("../../tests/fixtures/report.json");
        let mut report: Report = serde_json::from_slice(json).unwrap();
        report.results[0].at_rate = Some(some());
        let table = table(&report).unwrap().1;
        let rows = &table.of(&report.results[0].class).rows;
        let [all, gets] = &rows[..] else { panic!("a row of all, and one of gets") };
        assert!(all[1].ends_with(" BEHIND") && !gets[1].contains("BEHIND"), "{rows:?}");
        assert_eq!(all[6..], ["400 ns", "50,262", "41,120"]);
        assert_eq!(gets[6..], ["300 ns", "", ""]);
        let by_round = &mut report.results[0].at_rate.as_mut().unwrap().by_round;
        (by_round.p50, by_round.p99) = (vec![400, 500], vec![7000, 8000]);
        let rounds = rounds(&report).unwrap();
        let row = &rounds.of(&report.results[0].class).rows[0];
        assert_eq!(row[2..], ["50,262  41,121  50,300", "400 ns  500 ns", "7.00 µs  8.00 µs", ""]);
    }
}
