//! The page's tables: stores by phases at a glance, and every figure in a table to be sorted.
//!
//! A cell to be sorted by a number carries it in `data-v`; without a figure that is empty.

use super::chart::escape;
use super::compare::{Comparison, is_own};
use super::stats::{self, Verdict};
use super::text;
use crate::result::PhaseResult;
use std::fmt::Write;

/// Stands between two samples.
pub const BETWEEN_SAMPLES: &str = "  ";

/// Marks batched reads of a store that has no call for them, or a slower one, and removals with a lookup before.
pub fn mark(r: &PhaseResult) -> String {
    r.not_native().map_or_else(String::new, |(word, words)| {
        format!(r#"<span class="mark" title="{words}">{word}</span>"#)
    })
}

/// Medians and their relation to the baseline: a row a store, a column a phase.
pub fn matrix(c: &Comparison) -> String {
    let mut head = String::from(r#"<th scope="col">store</th><th scope="col">file</th>"#);
    for phase in &c.phases {
        let _ = write!(head, r#"<th scope="col">{}</th>"#, escape(phase));
    }
    let rows: String = c.stores.iter().map(|store| matrix_row(c, store)).collect();
    format!(
        r#"<h3 class="gap">Every store and phase</h3><p class="note">Nanoseconds for one operation, medians; class {}. Small: how many times as fast as {}. Underlined: the lowest median of the phase, which need not be a difference that was seen.{}</p><div class="scroll" tabindex="0" role="region" aria-label="Medians, store by phase"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"#,
        escape(c.class),
        escape(c.baseline),
        unjudged(c)
    )
}

/// What the mark of too few rounds means, behind what else is said; empty where there is none.
pub fn unjudged(c: &Comparison) -> String {
    if c.has_unjudged() { format!(" {}", text::UNJUDGED_EXPLAINED) } else { String::new() }
}

fn matrix_row(c: &Comparison, store: &str) -> String {
    let class = if is_own(store) { "own" } else { "" };
    let size = c.file_bytes(store).map_or(text::NONE.to_owned(), text::bytes);
    let relative = c.file_bytes(store).zip(c.file_bytes(c.baseline));
    let relative = match relative {
        Some((own, base)) if store != c.baseline => {
            format!("<small>{} as large</small>", text::number(own as f64 / base as f64))
        }
        _ => String::new(),
    };
    let mut row = format!(
        r#"<tr class="{class}"><th scope="row">{}</th><td>{size}{relative}</td>"#,
        escape(store)
    );
    for phase in &c.phases {
        row.push_str(&matrix_cell(c, store, phase));
    }
    row.push_str("</tr>");
    row
}

fn matrix_cell(c: &Comparison, store: &str, phase: &str) -> String {
    let Some(r) = c.result(store, phase) else {
        return format!("<td>{}</td>", text::NONE);
    };
    let median = text::number(r.ns_per_op.median);
    if !r.verified {
        return format!(
            r#"<td><b class="struck">{median}</b><small class="bad">wrong answers</small></td>"#
        );
    }
    let best = if is_lowest(c, r) { r#" class="best""# } else { "" };
    let mark = mark(r);
    let (tone, below) = match c.to_baseline(store, phase) {
        None if store == c.baseline => ("", "baseline".to_owned()),
        None => ("", String::new()),
        Some(ratio) => match ratio.verdict() {
            Verdict::Faster => (r#" class="good""#, text::ratio(&ratio)),
            Verdict::Slower => (r#" class="bad""#, text::ratio(&ratio)),
            Verdict::NoDifference => ("", "no difference".to_owned()),
            Verdict::TooFewRounds => ("", text::ratio(&ratio)),
        },
    };
    format!("<td><b{best}>{median}</b><small{tone}>{below} {mark}</small></td>")
}

fn is_lowest(c: &Comparison, r: &PhaseResult) -> bool {
    let others = c.stores.iter().filter_map(|store| c.result(store, &r.phase));
    !others.filter(|o| o.verified).any(|o| o.ns_per_op.median < r.ns_per_op.median)
}

const HEADS: [&str; 20] = [
    "store",
    "phase",
    "median ns",
    "times as fast",
    "low",
    "high",
    "rounds",
    "operations",
    "hit rate",
    "p50 ns",
    "p90",
    "p99",
    "p99.9",
    "slowest",
    "file bytes",
    "peak memory",
    "disk faults",
    "answers",
    "samples, ns, in order of rounds",
    "notes",
];

/// Every figure of a comparison, one row a store and phase.
pub fn every(c: &Comparison) -> String {
    let mut head = String::new();
    for name in HEADS {
        let class = if is_text(name) { r#" class="text""# } else { "" };
        let _ = write!(head, r#"<th scope="col"{class}>{name}</th>"#);
    }
    let rows: String = c.in_order().map(|r| figures_row(c, r)).collect();
    format!(
        r#"<p class="note">Class {}. “Times as fast” is in relation to {}, with its interval; ° marks an outlier.{} <span class="hint">A click on a heading sorts.</span></p><div class="scroll" tabindex="0" role="region" aria-label="Every figure"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"#,
        escape(c.class),
        escape(c.baseline),
        unjudged(c)
    )
}

fn is_text(head: &str) -> bool {
    matches!(head, "phase" | "answers" | "notes") || head.starts_with("samples")
}

fn figures_row(c: &Comparison, r: &PhaseResult) -> String {
    let class = if is_own(&r.store) { "own" } else { "" };
    let (s, l) = (&r.ns_per_op, r.latency_ns.as_ref());
    let whole = |value: Option<u64>| {
        number_cell(value.map(|x| x as f64), &value.map(text::count).unwrap_or_default())
    };
    let mut row = format!(
        r#"<tr class="{class}"><th scope="row">{}</th><td class="text">{}</td>"#,
        escape(&r.store),
        escape(&r.phase)
    );
    let nanoseconds = |figure| number_cell(Some(figure), &text::number(figure));
    row.push_str(&nanoseconds(s.median));
    row.push_str(&ratio_cell(c, r));
    row.push_str(&nanoseconds(s.low));
    row.push_str(&nanoseconds(s.high));
    row.push_str(&whole(Some(r.rounds as u64)));
    row.push_str(&whole(Some(r.ops)));
    row.push_str(&number_cell(r.hit_rate, &r.hit_rate.map(text::percent).unwrap_or_default()));
    for latency in [l.map(|l| l.p50), l.map(|l| l.p90), l.map(|l| l.p99), l.map(|l| l.p999)] {
        row.push_str(&whole(latency));
    }
    row.push_str(&whole(l.map(|l| l.max)));
    row.push_str(&whole(Some(r.file_bytes)));
    row.push_str(&whole(Some(r.peak_rss_bytes)));
    row.push_str(&whole(r.major_faults.iter().copied().reduce(u64::saturating_add)));
    row.push_str(&words(r));
    row.push_str("</tr>");
    row
}

/// A cell to be sorted by a number; a dash where there is none.
fn number_cell(value: Option<f64>, shown: &str) -> String {
    match value.filter(|x| x.is_finite()) {
        Some(value) => format!(r#"<td data-v="{value}">{shown}</td>"#),
        None => format!(r#"<td data-v="">{}</td>"#, text::NONE),
    }
}

fn ratio_cell(c: &Comparison, r: &PhaseResult) -> String {
    let Some(ratio) = c.to_baseline(&r.store, &r.phase) else { return number_cell(None, "") };
    let seen = match ratio.verdict() {
        Verdict::NoDifference => ", no difference",
        // Nothing to sort by.
        Verdict::TooFewRounds => return format!(r#"<td data-v="">{}</td>"#, text::UNJUDGED),
        Verdict::Faster | Verdict::Slower => "",
    };
    let (low, high) = (text::number(ratio.low), text::number(ratio.high));
    let shown = format!("{}<small>{low} to {high}{seen}</small>", text::ratio(&ratio));
    number_cell(Some(ratio.median), &shown)
}

/// Samples in the order of rounds, with a mark at outliers.
pub fn samples(samples: &[f64]) -> String {
    let outliers = stats::outliers(samples);
    let marked = samples.iter().zip(outliers);
    let marked = marked.map(|(x, outlier)| text::number(*x) + if outlier { "°" } else { "" });
    marked.collect::<Vec<_>>().join(BETWEEN_SAMPLES)
}

/// The cells that hold words: whether the answers were right, the samples, the notes.
fn words(r: &PhaseResult) -> String {
    let answers = if r.verified { "all right" } else { r#"<span class="bad">some wrong</span>"# };
    let mut notes: Vec<String> = r.notes.iter().map(|note| escape(note)).collect();
    if let Some((_, words)) = r.not_native() {
        notes.insert(0, words.to_owned());
    }
    format!(
        r#"<td class="text">{answers}</td><td class="text">{}</td><td class="long">{}</td>"#,
        samples(&r.ns_per_op.samples),
        notes.join("; ")
    )
}
