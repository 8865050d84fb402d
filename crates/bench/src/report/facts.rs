//! The page's words on a run: the machine, the settings, the stores, what went wrong.

use super::chart::escape;
use super::compare::{is_own, wrong_answers};
use super::{noise, own_cost, stats, text, work};
use crate::result::{Failure, Report, StoreInfo};
use std::fmt::Write;

/// One line below the title: the facts without which no figure means anything.
pub fn summary(report: &Report) -> String {
    let (s, m) = (&report.settings, &report.machine);
    let mut facts = vec![
        format!("<b>{}</b>", text::counted(s.records as usize, "record")),
        format!("<b>{}</b> of keys and values", text::bytes(payload(report))),
        format!("<b>{}</b>, interleaved", text::counted(s.rounds, "round")),
    ];
    if s.cold {
        facts.push("<b>cold cache</b>".to_owned());
    }
    let limit = s.memory_limit.map(text::binary_bytes);
    facts.extend(limit.map(|bytes| format!("<b>at most {bytes}</b> of memory")));
    facts.extend(s.opened.iter().map(|from| format!("opened from <b>{}</b>", escape(from))));
    facts.extend(s.stores.iter().map(|setting| format!("<b>{}</b>", escape(setting))));
    facts.extend(work::in_words(report).iter().map(|of| format!("<b>{}</b>", escape(of))));
    let outside = [&m.cpu, &m.filesystem, &m.kernel];
    facts.extend(outside.into_iter().filter(|fact| !fact.is_empty()).map(|fact| escape(fact)));
    if m.started_unix > 0 {
        facts.push(text::date(m.started_unix));
    }
    format!(r#"<p class="facts">{}</p>"#, facts.join(" · "))
}

/// Words for the page, in which what stands between a pair of backquotes is code.
fn with_code(words: &str) -> String {
    let safe = escape(words);
    let mut parts = safe.split('`');
    let mut html = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        match parts.next() {
            Some(behind) => html += &format!("<code>{part}</code>{behind}"),
            None => html += &format!("`{part}"),
        }
    }
    html
}

/// What a reader must know first: failures, notes, and what few rounds allow to say.
pub fn notices(report: &Report) -> String {
    let mut items = String::new();
    for failure in &report.failures {
        let _ = write!(items, "<li>{}</li>", failure_text(failure));
    }
    for wrong in wrong_answers(report) {
        let _ = write!(items, "<li>{}</li>", escape(&wrong));
    }
    let rounds = report.results.iter().map(|r| r.rounds).max().unwrap_or(0);
    if (1..6).contains(&rounds) {
        let _ = write!(items, "<li>{}</li>", stats::coverage_in_words(rounds));
    }
    for note in noise::line(report).iter().chain(&report.notes) {
        let _ = write!(items, "<li>{}</li>", with_code(note));
    }
    if items.is_empty() {
        return String::new();
    }
    format!(r#"<aside class="notice"><h2>Before you quote a figure</h2><ul>{items}</ul></aside>"#)
}

fn failure_text(failure: &Failure) -> String {
    let phase = failure.phase.as_ref().map(|phase| format!(", {phase}"));
    let round = failure.round.map(|round| format!(", round {}", round.saturating_add(1)));
    let place = format!("{}{}", phase.unwrap_or_default(), round.unwrap_or_default());
    format!(
        "<b>{}</b>{}: {} ({})",
        escape(&failure.store),
        escape(&place),
        escape(&failure.status),
        escape(&failure.what)
    )
}

/// Machine, settings, and how each store was set up.
pub fn setup(report: &Report) -> String {
    format!(
        r#"<div class="two"><div><h3>Machine</h3><dl>{}</dl></div><div><h3>Settings</h3><dl>{}</dl></div></div>{}"#,
        list(machine(report)),
        list(settings(report)),
        stores(report)
    )
}

fn list(facts: Vec<(&str, String)>) -> String {
    let mut html = String::new();
    for (name, fact) in facts.into_iter().filter(|(_, fact)| !fact.is_empty()) {
        let _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&fact));
    }
    html
}

fn machine(report: &Report) -> Vec<(&'static str, String)> {
    let m = &report.machine;
    let cache = |c: &crate::result::Cache| {
        format!("L{} {} {}", c.level, c.kind.to_lowercase(), text::binary_bytes(c.bytes))
    };
    let load = m.load_average.map(|x| format!("{x:.2}")).join(", ");
    vec![
        ("Processor", m.cpu.clone()),
        ("Cores", m.cores.to_string()),
        ("Caches", m.caches.iter().map(cache).collect::<Vec<_>>().join(", ")),
        ("Memory", text::binary_bytes(m.memory_bytes)),
        ("Huge pages", m.transparent_huge_pages.clone()),
        ("Governor", m.governor.clone()),
        ("Kernel", m.kernel.clone()),
        ("System", m.os.clone()),
        ("Filesystem", m.filesystem.clone()),
        ("Load before", format!("{load} (1, 5, 15 minutes)")),
        ("Clock", format!("{} a reading", text::nanoseconds(m.clock_ns))),
        ("Program", m.program.clone()),
    ]
}

fn settings(report: &Report) -> Vec<(&'static str, String)> {
    let s = &report.settings;
    let yes_no = |yes: bool, words: [&str; 2]| words[usize::from(!yes)].to_owned();
    let cpu = s.cpu.map(|cpu| format!("bound to processor {cpu}"));
    let rate = |rate| format!("{} operations a second", text::number(rate));
    let metrics = match &*s.metrics {
        "none" => "throughput, and what is counted beside it".to_owned(),
        "default" => "throughput, latencies, and a run over its time".to_owned(),
        other => other.to_owned(),
    };
    vec![
        ("Workload", s.workload.clone()),
        ("Data", s.data.clone()),
        ("Records", text::count(s.records)),
        ("Type of keys", s.key_type.clone().unwrap_or_else(|| "bytes".to_owned())),
        ("Type of values", s.value_type.clone().unwrap_or_else(|| "bytes".to_owned())),
        ("Keys, values", format!("{}, {}", text::bytes(s.key_bytes), text::bytes(s.value_bytes))),
        ("Lookups", format!("{} in each phase and round", text::count(s.gets))),
        ("Keys of lookups", work::distribution(report).unwrap_or_default().to_owned()),
        ("Order of inserts", work::insert_order(s).to_owned()),
        ("Mix", work::mixes(report).unwrap_or_default()),
        ("Rate", s.rate.map(rate).unwrap_or_default()),
        ("Metrics", metrics),
        ("Batch", format!("{} in one get-many", text::counted(s.batch, "key"))),
        ("Seed", s.seed.to_string()),
        ("Rounds", s.rounds.to_string()),
        ("Phases", s.phases.join(", ")),
        ("Page cache", yes_no(s.cold, ["dropped before every phase", "warm"])),
        (
            "Disk",
            yes_no(s.sync, ["build ends with the file on the disk", "build forces nothing to it"]),
        ),
        ("Memory limit", s.memory_limit.map_or_else(|| "none".to_owned(), text::binary_bytes)),
        ("Folder", s.dir.clone()),
        ("Opened from", s.opened.clone().unwrap_or_default()),
        ("Processes", cpu.unwrap_or_else(|| "not bound to a processor".to_owned())),
        ("Baseline", s.baseline.clone().unwrap_or_else(|| "the first store".to_owned())),
        ("The workbench's own", own_cost::in_words(report).unwrap_or_default()),
        ("Given up after", text::counted(s.timeout_seconds as usize, "second")),
    ]
}

fn stores(report: &Report) -> String {
    if report.stores.is_empty() {
        return String::new();
    }
    let measured = |info: &StoreInfo| report.results.iter().any(|r| r.store == info.store);
    let rows = report.stores.iter().map(|info| store_row(info, measured(info)));
    let rows: String = rows.collect();
    format!(
        r#"<h3 class="gap">Stores</h3><div class="scroll" tabindex="0" role="region" aria-label="Stores"><table class="stacked"><thead><tr><th scope="col">store</th><th scope="col" class="text">version</th><th scope="col" class="text">class</th><th scope="col" class="text">syncs</th><th scope="col" class="text">batched gets</th><th scope="col" class="text">settings and peculiarities</th><th scope="col" class="text">library</th></tr></thead><tbody>{rows}</tbody></table></div>"#
    )
}

fn store_row(info: &StoreInfo, measured: bool) -> String {
    let words = std::iter::once(&info.tuning).chain(&info.notes).map(String::as_str);
    let words: Vec<&str> = words.filter(|text| !text.is_empty()).collect();
    let words = match (measured, words.is_empty()) {
        (_, false) => words.join("; "),
        (true, true) => "defaults".to_owned(),
        (false, true) => "not measured".to_owned(),
    };
    let batched = if info.native_get_many { "own call" } else { "plain loop" };
    let own = is_own(&info.store);
    let without = if own { "part of this program" } else { text::NONE };
    let library = info.library.as_deref().unwrap_or(without);
    let class = if own { "own" } else { "" };
    let changes = info.changes_class.as_ref().map(|class| format!("; changes: {class}"));
    let durability = format!("{}{}", info.class, changes.unwrap_or_default());
    format!(
        r#"<tr class="{class}"><th scope="row">{}</th><td class="text" data-head="version">{}</td><td class="text" data-head="class">{}</td><td class="text" data-head="syncs">{}</td><td class="text" data-head="batched gets">{batched}</td><td class="long" data-head="settings">{}</td><td class="text" data-head="library">{}</td></tr>"#,
        escape(&info.store),
        escape(&info.version),
        escape(&durability),
        escape(&info.syncs),
        escape(&words),
        escape(library)
    )
}

/// The last line of the page.
pub fn footer(report: &Report) -> String {
    format!(
        "<p>{}, workload {}, seed {}. The same figures are in the JSON file of this run \
         (contract {}).</p>",
        escape(&report.machine.program),
        escape(&report.settings.workload),
        report.settings.seed,
        report.credenza_bench
    )
}

fn payload(report: &Report) -> u64 {
    report.settings.key_bytes.saturating_add(report.settings.value_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_notes_are_code_and_what_is_alone_stays() {
        for (words, html) in [
            (
                "`build` waits, as `--sync` <does>",
                "<code>build</code> waits, as <code>--sync</code> &lt;does&gt;",
            ),
            ("one ` alone", "one ` alone"),
            ("`a` and `", "<code>a</code> and `"),
            ("", ""),
        ] {
            assert_eq!(with_code(words), html);
        }
    }
}
