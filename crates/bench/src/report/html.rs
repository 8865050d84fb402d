//! One self-contained page: no network, no font, no image; readable without its script.
//!
//! The page is `page.html` with markers, each filled once. Everything that comes from a report
//! goes through `escape`; the page's own policy forbids it to load anything.

use super::chart::{Row, Scale, axis, escape, folded};
use super::compare::{Comparison, is_own};
use super::plain::ByClass;
use super::stats::{self, Verdict};
use super::{
    committers, curves, effort, facts, figures, growth, json, mix_latencies, over_time, overview,
    own_counters, processor, rate, text, together,
};
use crate::result::{Latency, PhaseResult, Report};
use credenza::Result;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// How narrow the drawing of a chart can be between names and figures, in pixels, and that of a wide one.
const NARROW: f64 = 125.0;
const WIDE: f64 = 210.0;
/// What a chart of latencies shows of them.
pub(super) const SPAN: &str = "p50 to the slowest";
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str =
    concat!(include_str!("page.js"), include_str!("points.js"), include_str!("export.js"));
/// What is said of a table that has the samples of another.
const ROUNDS: &str = "Every round";

/// Writes the page in place of `path`, atomically.
///
/// # Errors
/// The folder is missing, full or may not be written, or `path` is not a regular file.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    json::publish(page(report).as_bytes(), path)
}

/// The page.
pub fn page(report: &Report) -> String {
    let comparisons = Comparison::of(report);
    let mut page = String::new();
    for (i, part) in PAGE.split("<!--").enumerate() {
        let Some((marker, rest)) = part.split_once("-->").filter(|_| i > 0) else {
            page.push_str(part);
            continue;
        };
        page.push_str(&match marker {
            "title" => title(report),
            "style" => STYLE.to_owned(),
            "script" => SCRIPT.to_owned(),
            "more" => more(report),
            "header" => header(report, &comparisons),
            "sections" => sections(report, &comparisons),
            "footer" => facts::footer(report),
            _ => String::new(),
        });
        page.push_str(rest);
    }
    page
}

/// Links to the sections that not every report has.
fn more(report: &Report) -> String {
    let link = |(is_there, id, name): (bool, &str, &str)| match is_there {
        true => format!(r##" <a href="#{id}">{name}</a>"##),
        false => String::new(),
    };
    let [committing, mixing] = committers::Work::ALL.map(|work| {
        let (id, name) = work.section();
        (report.together.iter().any(|r| work.is_of(r)), id, name)
    });
    let all = [
        (report.results.iter().any(|r| r.over_time.is_some()), "time", "Over time"),
        (rate::results(report).next().is_some(), "rate", "At a rate"),
        (!report.growth.is_empty(), "growth", "Growth"),
        (report.together.iter().any(together::is_of), "together", "Several readers"),
        committing,
        mixing,
        (processor::table(report).is_some(), "processor", "Processor"),
        (own_counters::table(report).is_some(), "own-counters", "Counters"),
    ];
    all.map(link).concat()
}

fn title(report: &Report) -> String {
    format!("credenza bench: {}", escape(&report.settings.workload))
}

fn header(report: &Report, comparisons: &[Comparison]) -> String {
    let mut html = format!("<h1>{}</h1>", escape(&subject(report, comparisons)));
    for comparison in comparisons {
        for own in comparison.own() {
            if let Some(verdict) = verdict(comparison, own) {
                let _ = write!(html, r#"<p class="lead">{verdict}</p>"#);
            }
        }
    }
    html.push_str(&facts::summary(report));
    html.push_str(&facts::notices(report));
    html
}

fn subject(report: &Report, comparisons: &[Comparison]) -> String {
    // A store is in the comparison of each class that it has figures of.
    let mut own: Vec<&str> = Vec::new();
    for store in comparisons.iter().flat_map(|c| c.own()) {
        if !own.contains(&store) {
            own.push(store);
        }
    }
    let rivals: BTreeSet<&str> = comparisons.iter().flat_map(|c| c.rivals()).collect();
    let workload = &report.settings.workload;
    match (own.as_slice(), rivals.len()) {
        ([], 0) => format!("Nothing was measured on {workload}"),
        ([], n) => format!("{} on {workload}", text::counted(n, "store")),
        (_, 0) => format!("{} on {workload}", own.join(", ")),
        (_, n) => format!("{} and {} on {workload}", own.join(", "), text::counted(n, "rival")),
    }
}

/// In one sentence: where an engine of ours stands against the fastest of its peers in each phase.
fn verdict(c: &Comparison, own: &str) -> Option<String> {
    let all = c.headlines(own);
    let named = |verdict: Verdict| -> Vec<&str> {
        all.iter().filter(|h| h.ratio.verdict() == verdict).map(|h| h.phase).collect()
    };
    let of = |phases: &[&str]| {
        if phases.is_empty() {
            "none".to_owned()
        } else {
            format!("{} ({})", phases.len(), escape(&phases.join(", ")))
        }
    };
    if all.is_empty() && c.wrong_phases(own).is_empty() {
        return None;
    }
    let faster = named(Verdict::Faster);
    let mut says = format!(
        "Class {}: against the fastest rival of each phase{}, <strong>{}</strong> is faster in \
         {} of {}, slower in {}; phases without a difference: {}",
        escape(c.class),
        c.peers_in_words(own),
        escape(own),
        faster.len(),
        text::counted(all.len(), "phase"),
        of(&named(Verdict::Slower)),
        of(&named(Verdict::NoDifference)),
    );
    let unjudged = named(Verdict::TooFewRounds);
    if !unjudged.is_empty() {
        let _ = write!(says, "; too few rounds to judge {}", of(&unjudged));
    }
    let wrong = c.wrong_phases(own);
    if !wrong.is_empty() {
        let _ = write!(says, "; <strong>wrong answers in {}</strong>", of(&wrong));
    }
    says.push('.');
    Some(says)
}

fn sections(report: &Report, comparisons: &[Comparison]) -> String {
    let several = comparisons.len() > 1;
    let each = |draw: &dyn Fn(&Comparison) -> String| -> String {
        let with_class = |c: &Comparison| match several {
            true => format!(r#"<h3 class="gap">Class {}</h3>{}"#, escape(c.class), draw(c)),
            false => draw(c),
        };
        comparisons.iter().map(with_class).collect()
    };
    let mut html = String::new();
    html.push_str(&section("overview", "Overview", &each(&overview::of)));
    html.push_str(&section("phases", "Phase by phase", &each(&phases)));
    html.push_str(&section("size", "Size and memory", &each(&|c| sizes(report, c))));
    html.push_str(&section(
        "latency",
        "Latency of single operations",
        &each(&|c| latencies(report, c)),
    ));
    if report.results.iter().any(|r| r.over_time.is_some()) {
        let content = each(&|c| over_time::of_phases(report, c));
        html.push_str(&section("time", "Over time", &with_note(over_time::EXPLAINED, &content)));
    }
    if let Some((title, table, explained)) = rate::table(report) {
        let table = with_note(explained, &table.html(&title));
        let charts = each(&|c| charts(&curves::at_rate(report, c)));
        let over_time = each(&|c| over_time::at_rate(report, c));
        let over_time = match over_time.is_empty() {
            true => over_time,
            false => with_note(over_time::AT_RATE, &over_time),
        };
        let rounds = rounds(rate::rounds(report), &title);
        html.push_str(&section("rate", &title, &(table + &charts + &over_time + &rounds)));
    }
    if let Some((table, explained)) = growth::table(report) {
        let title = "Growth with the number of records";
        let content = charts(&growth::charts(report)) + &with_note(explained, &table.html(title));
        let content = content + &rounds(growth::rounds(report), title);
        html.push_str(&section("growth", title, &content));
    }
    if let Some((table, explained)) = together::table(report) {
        let title = "Several readers at one store";
        let content = charts(&together::charts(report)) + &with_note(explained, &table.html(title));
        let content = content + &rounds(together::rounds(report, together::is_of), title);
        html.push_str(&section("together", title, &content));
    }
    for work in committers::Work::ALL {
        let Some((table, explained)) = work.table(report) else { continue };
        let (title, (id, _)) = (work.title(), work.section());
        let content = charts(&work.charts(report)) + &with_note(&explained, &table.html(title));
        let content = content + &rounds(together::rounds(report, |r| work.is_of(r)), title);
        let latencies = match work {
            committers::Work::Committing => String::new(),
            committers::Work::Mixing => latencies_of_mixes(report),
        };
        html.push_str(&section(id, title, &(content + &latencies)));
    }
    if let Some((table, explained)) = processor::table(report) {
        let content = with_note(explained, &table.html(processor::TITLE));
        html.push_str(&section("processor", processor::TITLE, &content));
    }
    if let Some((table, explained)) = own_counters::table(report) {
        let table = with_note(explained, &table.html(own_counters::TITLE));
        let folded = folded("All counters", &table);
        html.push_str(&section("own-counters", own_counters::TITLE, &folded));
    }
    let all_figures = |c: &Comparison| {
        let taken = effort::table(report, c);
        figures::every(c) + &folded("Syncs, bytes, page faults and files of each phase", &taken)
    };
    html.push_str(&section("figures", "Every figure", &each(&all_figures)));
    html.push_str(&section("setup", "Set-up", &facts::setup(report)));
    html
}

fn with_note(note: &str, content: &str) -> String {
    format!(r#"<p class="note">{note}</p>{content}"#)
}

/// What stands below those that do a mix; empty without any.
fn latencies_of_mixes(report: &Report) -> String {
    let Some((table, explained)) = mix_latencies::table(report) else { return String::new() };
    let title = mix_latencies::TITLE;
    let marks =
        r##"The marks of these charts are those of <a href="#latency">single operations</a>."##;
    let charts = match charts(&mix_latencies::charts(report)) {
        drawn if drawn.is_empty() => drawn,
        drawn => with_note(marks, &drawn),
    };
    let table = with_note(explained, &table.html(title));
    format!(r#"<h3 class="gap">{title}</h3>{charts}{table}"#)
}

/// The samples behind a table that has medians alone.
fn rounds(table: Option<ByClass>, of: &str) -> String {
    let table = table.map(|table| {
        let table = table.html(&format!("{ROUNDS}: {of}"));
        with_note("Samples in the order of rounds; ° marks an outlier.", &table)
    });
    folded(ROUNDS, &table.unwrap_or_default())
}

/// Charts side by side; empty without any.
fn charts(charts: &str) -> String {
    if charts.is_empty() {
        return String::new();
    }
    format!(r#"<div class="charts">{charts}</div>"#)
}

fn section(id: &str, title: &str, content: &str) -> String {
    let content =
        if content.is_empty() { "<p class=\"soft\">Nothing was measured.</p>" } else { content };
    format!(
        r#"<section id="{id}" aria-labelledby="{id}-title"><h2 id="{id}-title">{title}</h2>{content}</section>"#
    )
}

// --- phase by phase ----------------------------------------------------------------------------

fn phases(c: &Comparison) -> String {
    let charts: String = c.phases.iter().map(|phase| phase_chart(c, phase)).collect();
    format!(
        "<p class=\"note\">Time of one operation: shorter is better. Bar: median; line: its 95 % \
         interval; dots: the rounds, hollow where an outlier. The factor below a figure is its \
         speed in relation to {}.{}</p><div class=\"charts\">{charts}</div>",
        escape(c.baseline),
        figures::unjudged(c)
    )
}

fn phase_chart(c: &Comparison, phase: &str) -> String {
    let mut results: Vec<&PhaseResult> =
        c.stores.iter().filter_map(|store| c.result(store, phase)).collect();
    results.sort_by(|a, b| {
        let key = |r: &PhaseResult| (!r.verified, r.ns_per_op.median);
        key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1))
    });
    let drawn: Vec<f64> = results
        .iter()
        .flat_map(|r| r.ns_per_op.samples.iter().chain([&r.ns_per_op.high, &r.ns_per_op.median]))
        .copied()
        .collect();
    let scale = Scale::fitting(&drawn);
    let rows: String = results.iter().map(|r| phase_row(c, &scale, r)).collect();
    let ops = results.iter().map(|r| r.ops).max().unwrap_or(0);
    let explained = format!("{} operations a round", text::count(ops));
    figure("chart", phase, &explained, &rows, &scale, text::nanoseconds)
}

fn phase_row(c: &Comparison, scale: &Scale, r: &PhaseResult) -> String {
    let s = &r.ns_per_op;
    let median = text::nanoseconds(s.median);
    let label = format!(
        "{}: median {median}, interval {} to {}, {}",
        r.store,
        text::nanoseconds(s.low),
        text::nanoseconds(s.high),
        text::counted(s.samples.len(), "round")
    );
    let mut row = Row::with_samples(scale, &label);
    let class = match (r.verified, is_own(&r.store)) {
        (false, _) => "wrong",
        (true, true) => "own",
        (true, false) => "",
    };
    row.bar(scale, 0.0, s.median, class);
    if s.samples.len() > 1 {
        row.whisker(scale, s.low, s.high);
    }
    let outliers = stats::outliers(&s.samples);
    for (i, (sample, outlier)) in s.samples.iter().zip(outliers).enumerate() {
        let says = if outlier { " (outlier)" } else { "" };
        let round = stats::round_of(r, i).saturating_add(1);
        let title = format!("{}, round {round}: {}{says}", r.store, text::nanoseconds(*sample));
        row.sample(scale, *sample, outlier, &title);
    }
    let mark = figures::mark(r);
    let figure = format!("<b>{median}</b> <small>{} {mark}</small>", relation(c, r));
    list_row(class, &escape(&r.store), &row.svg(), &figure)
}

/// What stands below a figure: its relation to the baseline, or why there is none.
fn relation(c: &Comparison, r: &PhaseResult) -> String {
    if !r.verified {
        return "wrong answers".to_owned();
    }
    if r.store == c.baseline {
        return "baseline".to_owned();
    }
    match c.to_baseline(&r.store, &r.phase) {
        Some(ratio) if ratio.verdict() == Verdict::NoDifference => "no difference".to_owned(),
        Some(ratio) => text::ratio(&ratio),
        None => String::new(),
    }
}

// --- size, memory, latency ---------------------------------------------------------------------

fn sizes(report: &Report, c: &Comparison) -> String {
    let payload = report.settings.key_bytes.saturating_add(report.settings.value_bytes);
    let all = |of: &dyn Fn(&str) -> Option<u64>| -> Vec<(String, f64)> {
        c.stores.iter().filter_map(|s| Some(((*s).to_owned(), of(s)? as f64))).collect()
    };
    let files = all(&|store| c.file_bytes(store));
    let memory = all(&|store| c.peak_rss_bytes(store));
    let builds: Vec<(String, f64)> = c
        .stores
        .iter()
        .filter_map(|store| c.result(store, "build"))
        .map(|r| (r.store.clone(), r.ns_per_op.median * r.ops as f64))
        .collect();
    let as_bytes = |x: f64| text::bytes(x as u64);
    let line = format!("the upright line is keys and values alone: {}", text::bytes(payload));
    let mut html = String::from(r#"<div class="charts">"#);
    html.push_str(&amounts("File", &line, files, Some(payload as f64), as_bytes));
    html.push_str(&amounts("Whole build", "median time", builds, None, text::nanoseconds));
    html.push_str(&amounts(
        "Peak memory",
        "largest of all phases, mapped file included",
        memory,
        None,
        as_bytes,
    ));
    html.push_str("</div>");
    html
}

/// A chart of one plain figure a store, smallest first.
fn amounts(
    title: &str,
    explained: &str,
    mut figures: Vec<(String, f64)>,
    reference: Option<f64>,
    label: fn(f64) -> String,
) -> String {
    let reference = reference.filter(|x| *x > 0.0);
    if figures.is_empty() {
        return String::new();
    }
    figures.sort_by(|a, b| a.1.total_cmp(&b.1));
    let drawn: Vec<f64> = figures.iter().map(|f| f.1).chain(reference).collect();
    let scale = Scale::fitting(&drawn);
    let mut rows = String::new();
    for (store, amount) in &figures {
        let class = if is_own(store) { "own" } else { "" };
        let mut row = Row::new(&scale, &format!("{store}: {}", label(*amount)));
        row.bar(&scale, 0.0, *amount, class);
        if let Some(reference) = reference {
            row.reference(&scale, reference);
        }
        let relative =
            reference.map(|r| format!("<small>{} of data</small>", text::factor(amount / r)));
        let figure = format!("<b>{}</b> {}", label(*amount), relative.unwrap_or_default());
        rows.push_str(&list_row(class, &escape(store), &row.svg(), &figure));
    }
    figure("chart", title, explained, &rows, &scale, label)
}

fn latencies(report: &Report, c: &Comparison) -> String {
    let mut charts = String::new();
    for phase in &c.phases {
        let mut measured: Vec<(&str, &Latency)> = c
            .stores
            .iter()
            .filter_map(|store| c.result(store, phase))
            .filter_map(|r| Some((&*r.store, r.latency_ns.as_ref()?)))
            .collect();
        measured.sort_by_key(|(_, latency)| latency.p50);
        if !measured.is_empty() {
            charts.push_str(&latency_chart(phase, SPAN, &measured));
        }
    }
    charts.push_str(&operation_latencies(c));
    if charts.is_empty() {
        return r#"<p class="note">No phase of this run has latencies of single operations.</p>"#
            .to_owned();
    }
    format!(
        "<p class=\"note\">Filled dot at the left end: half of the operations were this fast or faster \
         (p50). Thick line: up to p99, the ring. Thin line: on to p99.9, the dot on it, and to the \
         slowest one, its right end. Each lookup of a batch has the latency of the batch. The scale is logarithmic.</p><div class=\"charts\">{charts}</div>"
    ) + &percentiles(report, c)
        + &folded("Percentiles as a table", &curves::table(c))
}

/// The same as curves; nothing in reports from before there were any.
fn percentiles(report: &Report, c: &Comparison) -> String {
    let drawn = charts(&curves::of_phases(report, c));
    if drawn.is_empty() {
        return drawn;
    }
    format!(
        r#"<h3 class="gap">Percentiles</h3><p class="note">How long at most the fastest half, nine of ten, and so on took. From each mark to the next is as far: what is ten times as rare.</p>{drawn}"#
    )
}

/// A chart for each kind of operation of the phases that mix several.
fn operation_latencies(c: &Comparison) -> String {
    let mut charts = String::new();
    for phase in &c.phases {
        let results: Vec<&PhaseResult> =
            c.stores.iter().filter_map(|store| c.result(store, phase)).collect();
        let names = results.iter().flat_map(|r| r.operation_latency_ns.keys());
        for name in names.collect::<BTreeSet<_>>() {
            let mut measured: Vec<(&str, &Latency)> = results
                .iter()
                .filter_map(|r| Some((&*r.store, r.operation_latency_ns.get(name)?)))
                .collect();
            measured.sort_by_key(|(_, latency)| latency.p50);
            charts.push_str(&latency_chart(&format!("{phase}: {name}"), SPAN, &measured));
        }
    }
    charts
}

/// Latencies of stores, in this order.
pub(super) fn latency_chart(title: &str, explained: &str, measured: &[(&str, &Latency)]) -> String {
    let ends = |(_, l): &(&str, &Latency)| [l.p50.max(1) as f64, l.max.max(1) as f64];
    let scale = Scale::logarithmic(&measured.iter().flat_map(ends).collect::<Vec<_>>());
    let rows: String = measured.iter().map(|(store, l)| latency_row(&scale, store, l)).collect();
    figure("chart", title, explained, &rows, &scale, text::nanoseconds)
}

fn latency_row(scale: &Scale, store: &str, l: &Latency) -> String {
    let ns = |x: u64| text::nanoseconds(x as f64);
    let label = format!(
        "{store}: p50 {}, p90 {}, p99 {}, p99.9 {}, slowest {}",
        ns(l.p50),
        ns(l.p90),
        ns(l.p99),
        ns(l.p999),
        ns(l.max)
    );
    let mut row = Row::new(scale, &label);
    row.line(scale, l.p50 as f64, l.max as f64, "span");
    row.line(scale, l.p50 as f64, l.p99 as f64, "span main");
    row.point(scale, l.p999 as f64, "tail", &format!("{store} p99.9: {}", ns(l.p999)));
    row.point(scale, l.p99 as f64, "p99", &format!("{store} p99: {}", ns(l.p99)));
    row.point(scale, l.p50 as f64, "p50", &format!("{store} p50: {}", ns(l.p50)));
    let class = if is_own(store) { "own" } else { "" };
    let figure = format!("<b>{}</b> <small>p99 {}</small>", ns(l.p50), ns(l.p99));
    list_row(class, &escape(store), &row.svg(), &figure)
}

// --- parts of charts ---------------------------------------------------------------------------

/// A row of a chart; all arguments are markup already.
pub(super) fn list_row(class: &str, name: &str, svg: &str, figure: &str) -> String {
    format!(
        r#"<li class="row {class}"><span class="name">{name}</span><span class="plot-cell">{svg}</span><span class="figure">{figure}</span></li>"#
    )
}

/// A chart: heading, rows (markup already), axis.
pub(super) fn figure(
    class: &str,
    title: &str,
    explained: &str,
    rows: &str,
    scale: &Scale,
    label: fn(f64) -> String,
) -> String {
    let narrowest = if class == "chart" { NARROW } else { WIDE };
    let log = if scale.is_logarithmic() { r#"<p class="scale">logarithmic scale</p>"# } else { "" };
    format!(
        r#"<figure class="{class}"><figcaption><h3>{}</h3><span>{}</span></figcaption><ul class="rows">{rows}</ul><div class="under"><span></span>{}<span></span>{log}</div></figure>"#,
        escape(title),
        escape(explained),
        axis(scale, narrowest, |x| text::round(&label(x)))
    )
}
