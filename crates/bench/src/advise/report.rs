//! What the reader sees, in a terminal; and everything that was found, as JSON.

use super::ALIKE;
use super::candidates::{Candidate, RuledOut};
use super::check::Checked;
use super::class::Class;
use super::durability::{Agreed, Durability};
use super::figures::{Figure, Figures, Of, Trial, per_operation};
use super::look::{Facts, Lengths};
use super::predict;
use super::probe::{Probe, Reading};
use super::recipe::Recipe;
use super::settings::{self, Tried};
use super::trial::Lab;
use super::usage::Usage;
use crate::machine;
use crate::progress::say;
use crate::report::pen::{Pen, wrapped};
use crate::report::plain::Table;
use crate::report::text;
use crate::result::Machine;
use serde::Serialize;
use std::io::{self, Write};

/// The version of the JSON file, in `credenza_advise`.
const CONTRACT: u32 = 1;

/// Everything that is found, as JSON.
#[derive(Serialize)]
pub(super) struct Report {
    credenza_advise: u32,
    machine: Machine,
    pub(super) data: Facts,
    #[serde(rename = "use")]
    pub(super) usage: Usage,
    /// Records that the advice is for.
    pub(super) records: u64,
    ruled_out: Vec<RuledOut>,
    /// The first is advised; the others follow in the order of their times.
    pub(super) candidates: Vec<Ranked>,
    /// The durability that is advised; `None` where one was asked for, or nothing changes.
    durability: Option<Durability>,
    #[serde(skip)]
    agreed: Option<Agreed>,
    /// Settings that were tried, and keys as numbers.
    pub(super) tried: Vec<Tried>,
    pub(super) recipe: Option<Recipe>,
    /// Whether the advice is still the same after it was checked; `None` where it was not.
    pub(super) holds: Option<bool>,
    pub(super) verdict: Option<String>,
    /// What a read of memory takes here, in so many bytes at random: times are expected by it.
    pub(super) reads: Vec<Reading>,
    notes: Vec<String>,
    pub(super) failures: Vec<Failed>,
    /// Whether a signal ended the run: what was measured before stands.
    pub(super) interrupted: bool,
    /// What was measured before a signal came, where that was before the advice; else nothing.
    pub(super) measured: Vec<Measured>,
}

/// What was measured of a store, of which nothing is expected yet.
#[derive(Serialize)]
pub(super) struct Measured {
    store: String,
    /// The class whose changes were measured; `None` where it was the use.
    class: Option<Class>,
    trials: Vec<Trial>,
}

/// A candidate, and what is known of it.
#[derive(Serialize)]
pub(super) struct Ranked {
    #[serde(flatten)]
    pub(super) candidate: Candidate,
    /// What was measured with parts of the data, the smallest first.
    pub(super) trials: Vec<Trial>,
    pub(super) expected: Figures,
    /// What is expected of an operation of the use on average.
    pub(super) ns_per_operation: f64,
    pub(super) checked: Option<Checked>,
}

impl Ranked {
    /// What is expected with so many records that are like those of the data.
    pub(super) fn expected_with(
        &self,
        records: u64,
        report: &Report,
        probe: &mut Probe,
    ) -> Figures {
        let bytes = self.candidate.form.bytes(&report.data, records);
        predict::expected(&self.trials, records, bytes, probe)
    }

    pub(super) fn file_bytes(&self) -> f64 {
        self.expected.get(&Figure::File).copied().unwrap_or(0.0)
    }
}

/// A store that failed.
#[derive(Serialize)]
pub(super) struct Failed {
    store: String,
    what: String,
}

impl Report {
    pub(super) fn begin(
        lab: &Lab<'_>,
        data: Facts,
        usage: Usage,
        ruled_out: Vec<RuledOut>,
        records: u64,
    ) -> Report {
        let machine = machine::facts(lab.folder().path(), lab.cpu, lab.clock_ns);
        let notes = notes(&machine, &data, &usage, records);
        let mut report = Report {
            credenza_advise: CONTRACT,
            machine,
            data,
            usage,
            records,
            ruled_out,
            candidates: Vec::new(),
            durability: None,
            agreed: None,
            tried: Vec::new(),
            recipe: None,
            holds: None,
            verdict: None,
            reads: Vec::new(),
            notes,
            failures: Vec::new(),
            interrupted: false,
            measured: Vec::new(),
        };
        // The others are advised on all the same.
        let missing = report.ruled_out.iter().filter(|of| of.is_missing);
        let missing: Vec<_> = missing.map(|of| (of.store.clone(), of.why.clone())).collect();
        missing.into_iter().for_each(|(store, what)| report.fail(store, what));
        report
    }

    /// Takes the durability that was chosen, the use with it, and who cannot do that.
    pub(super) fn take(&mut self, agreed: Agreed, usage: Usage, ruled_out: Vec<RuledOut>) {
        (self.usage, self.ruled_out) = (usage, ruled_out);
        self.agreed = Some(agreed);
    }

    /// Takes what durability costs with the store that is advised.
    pub(super) fn take_advised(&mut self) {
        let advised = self.candidates.first().map(|advised| advised.candidate.name());
        let agreed = self.agreed.take();
        self.durability = agreed.zip(advised).and_then(|(agreed, name)| agreed.take(&name));
    }

    /// Notes that no durability is advised.
    pub(super) fn note_no_class(&mut self) {
        self.notes.push(
            "what durability costs is measured with our own stores, and one of others would be chosen: \
             it is as without waiting for the disk; --durability asks for a class"
                .to_owned(),
        );
    }

    /// Remembers a failure, and says it at once.
    pub(super) fn fail(&mut self, store: String, what: String) {
        say!("credenza advise: {store}: {}", text::clean(&what));
        self.failures.push(Failed { store, what });
    }

    /// Notes what stores could not do as it was recorded.
    pub(super) fn note_remarks(&mut self, lab: &Lab<'_>) {
        let news = lab.remarks.iter().filter(|remark| !self.notes.contains(remark));
        let news: Vec<String> = news.cloned().collect();
        self.notes.extend(news);
    }

    /// Notes, and says, that a signal ended the run, and what that means.
    pub(super) fn note_interrupted(&mut self, means: &str) {
        let what = format!("stopped by a signal: {means}");
        say!("credenza advise: {what}");
        self.notes.push(what);
    }

    /// Keeps what was measured of a store, in case that nothing more is.
    pub(super) fn note_measured(
        &mut self,
        candidate: &Candidate,
        class: Option<Class>,
        trials: Vec<Trial>,
    ) {
        if !trials.is_empty() {
            self.measured.push(Measured { store: candidate.name(), class, trials });
        }
    }

    /// Notes that there was no time for these parts.
    pub(super) fn note_skipped(&mut self, parts: &[usize]) {
        let parts: Vec<String> = parts.iter().map(|one_of| format!("1/{one_of}")).collect();
        let note = format!(
            "there was no time for {} of the data: --seconds with more gives a better prediction",
            parts.join(" and ")
        );
        // Of each class of changes that is measured there may be one.
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// What a reader must know.
fn notes(machine: &Machine, data: &Facts, usage: &Usage, records: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if (usage.wants_class() || usage.durability.waits()) && machine.filesystem == "tmpfs" {
        notes.push(
            "the folder is in memory, where nothing waits for a disk: name one on the disk with \
                    --dir"
                .to_owned(),
        );
    }
    notes.extend(machine::about_program(machine));
    let [load, ..] = machine.load_average;
    if load > 0.5 {
        notes.push(format!(
            "other programs were running (load average {load:.1} on {}): times are less certain",
            text::counted(machine.cores, "core")
        ));
    }
    if data.repeated > 0 {
        notes.push(format!(
            "{} records have a key that came before, and were left out: a constant store keeps all values \
             of a key, a btree store in a table with --duplicates, a hash store the last",
            text::count(data.repeated)
        ));
    }
    notes.extend(data.unread.iter().map(|says| format!("the trace {says}")));
    if data.is_numbered {
        notes.push(
            "the keys are the numbers from 1 on: a table of a btree store made with --numbered gives \
             them by itself"
                .to_owned(),
        );
    }
    if usage.processes > 1 {
        notes.push(format!(
            "one process was measured, not {} at once: 'credenza bench --processes' shows how they share \
             a store",
            usage.processes
        ));
    }
    if records > data.records {
        notes.push(format!(
            "with {} a check is only of what was expected with so many",
            text::counted(data.records as usize, "record")
        ));
    }
    notes
}

/// Prints the advice.
pub(super) fn advice(report: &Report, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    heading(report, out, pen)?;
    let Some(advised) = report.candidates.first() else { return Ok(()) };
    if let Some(durability) = &report.durability {
        durability.write(out, pen)?;
    }
    let parts: Vec<String> = advised.trials.iter().map(|t| text::count(t.records)).collect();
    let title = format!(
        "Expected with {}, as measured with {}",
        text::counted(report.records as usize, "record"),
        parts.join(", ")
    );
    writeln!(out, "\n{}", pen.bold(&title))?;
    table(report).lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    settings::write(&report.tried, out, pen)?;
    let named = format!("Advice: {}", advised.candidate.name());
    writeln!(out, "\n{}", pen.bold(&named))?;
    reasons(report).iter().try_for_each(|reason| wrapped(out, pen, "  ", &text::clean(reason)))?;
    if let Some(recipe) = &report.recipe {
        write_recipe(recipe, out, pen)?;
    }
    if !report.notes.is_empty() {
        writeln!(out, "\n{}", pen.bold("Notes"))?;
    }
    report.notes.iter().try_for_each(|note| wrapped(out, pen, "  ", &text::clean(note)))
}

/// Prints what was measured before a signal came, where there is no advice yet.
pub(super) fn measured(report: &Report, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    heading(report, out, pen)?;
    let title = "Measured before a signal ended it: this is not all, and no advice";
    writeln!(out, "\n{}", pen.bold(title))?;
    if report.measured.is_empty() {
        return wrapped(out, pen, "  ", "Nothing was measured to its end.");
    }
    let heads = ["store", "what", "rounds", "an operation", "file"];
    let rows = report.measured.iter().flat_map(|one| {
        let parts = one.trials.chunk_by(|trial, next| trial.records == next.records);
        parts.filter_map(|all| measured_row(one, all, &report.usage))
    });
    let table = Table { heads: heads.map(str::to_owned).to_vec(), rows: rows.collect(), words: 2 };
    table.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "\n{}", pen.bold("Notes"))?;
    report.notes.iter().try_for_each(|note| wrapped(out, pen, "  ", &text::clean(note)))
}

/// A row of the trials with the same records.
fn measured_row(one: &Measured, trials: &[Trial], usage: &Usage) -> Option<Vec<String>> {
    let median = Trial::median(trials)?;
    let figure = |name: &Figure| median.figures.get(name).map(|value| in_words(name, *value));
    let none = || text::NONE.to_owned();
    let (what, time) = match one.class {
        Some(class) => (format!("a change, {class}"), figure(&Figure::Build).unwrap_or_else(none)),
        None => (
            format!("the use, {}", text::counted(median.records as usize, "record")),
            text::nanoseconds(per_operation(&median.figures, usage)),
        ),
    };
    let file = figure(&Figure::File).unwrap_or_else(none);
    Some(vec![one.store.clone(), what, trials.len().to_string(), time, file])
}

fn heading(report: &Report, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    let (data, machine) = (&report.data, &report.machine);
    let name = pen.bold(&format!("credenza advise  {}", text::clean(&data.source)));
    let many = |thing| text::counted(data.records as usize, thing);
    let what = if data.kind == "trace" { many("key") + " in a trace" } else { many("record") };
    writeln!(out, "{name}  {what} · {}", text::bytes(data.bytes()))?;
    let facts = [
        text::clean(&machine.cpu),
        text::counted(machine.cores, "core"),
        text::binary_bytes(machine.memory_bytes),
        text::clean(&machine.filesystem),
        format!("load {:.2}", machine.load_average[0]),
    ];
    let known = facts.into_iter().filter(|fact| !fact.is_empty());
    wrapped(out, pen, "", &known.collect::<Vec<_>>().join(" · "))?;
    wrapped(out, pen, "", &format!("Data: {}.", data_in_words(data)))?;
    wrapped(out, pen, "", &format!("Use: {}.", use_in_words(&report.usage)))?;
    let left_out = report.ruled_out.iter();
    left_out
        .map(|of| match of.is_missing {
            true => format!("Left out, a failure: {}: {}.", of.store, text::clean(&of.why)),
            false => format!("Left out: {}: {}.", of.store, text::clean(&of.why)),
        })
        .try_for_each(|line| wrapped(out, pen, "", &line))
}

fn data_in_words(data: &Facts) -> String {
    let lengths = |of: Lengths| match of.least == of.most {
        true => text::counted(of.most, "byte"),
        false => format!("{} to {} bytes, half of them at most {}", of.least, of.most, of.median),
    };
    let order = if data.is_sorted { ", in order" } else { ", in no order" };
    let numbers = match data.numbers {
        Some(numbers) => format!(", all decimal numbers that fit {numbers}"),
        None => String::new(),
    };
    format!(
        "keys of {}{order}{numbers}; values of {}",
        lengths(data.key_lengths),
        lengths(data.value_lengths)
    )
}

fn use_in_words(usage: &Usage) -> String {
    let [operations, beside] = usage.shares_in_words();
    let mut words = vec![operations];
    if !beside.is_empty() {
        words.push(format!("besides, in relation to all of these, {beside}"));
    }
    if usage.misses > 0.0 {
        words.push(format!("{} of the lookups find nothing", text::percent(usage.misses)));
    }
    if usage.batches {
        words.push("lookups in batches, each with the p50 and p99 of its batch".to_owned());
    }
    words.push(format!("keys {}", usage.distribution));
    words.push(match usage.processes {
        1 => "one process".to_owned(),
        processes => format!("{processes} processes"),
    });
    words.push(
        match (usage.writes > 0.0, usage.durability) {
            (false, _) => "nothing changes".to_owned(),
            (true, Class::Sync) => "a change is on the disk when its call returns".to_owned(),
            (true, Class::Every(_)) => usage.durability.in_words(),
            (true, Class::Buffered) => "a change outlives the process".to_owned(),
        } + match usage.told {
            Some("recorded") => ", as recorded",
            None if usage.writes > 0.0 => ", as advised below",
            _ => "",
        },
    );
    if let Some(rate) = usage.changes_per_second {
        words.push(format!("{} changes in the busiest second", text::number(rate)));
    }
    words.join("; ")
}

/// A row for each operation of each candidate.
fn table(report: &Report) -> Table {
    let heads = ["store", "operation", "mean", "p50", "p99", "file", "memory", "build, a record"];
    let mut rows = Vec::new();
    for ranked in &report.candidates {
        let figure = |name: &Figure| ranked.expected.get(name).map(|value| in_words(name, *value));
        let cell = |name: &Figure| figure(name).unwrap_or_else(|| text::NONE.to_owned());
        let mut sizes = [Figure::File, Figure::Memory, Figure::Build].map(|name| cell(&name));
        let mut store = ranked.candidate.name();
        let mut row = |operation: &str, times: [String; 3]| {
            let words = [std::mem::take(&mut store), operation.to_owned()];
            let sizes = std::mem::take(&mut sizes);
            rows.push(words.into_iter().chain(times).chain(sizes).collect());
        };
        if report.usage.shares.len() > 1 {
            let mean = text::nanoseconds(ranked.ns_per_operation);
            row("all, by share", [mean, String::new(), String::new()]);
        }
        let is_done = |operation: &&String| {
            ranked.expected.contains_key(&Figure::Time((*operation).clone(), Of::Mean))
        };
        for operation in report.usage.shares.keys().filter(is_done) {
            let time = |of| cell(&Figure::Time(operation.clone(), of));
            row(operation, [Of::Mean, Of::P50, Of::P99].map(time));
        }
    }
    Table { heads: heads.map(str::to_owned).to_vec(), rows, words: 2 }
}

pub(super) fn in_words(name: &Figure, value: f64) -> String {
    match name {
        Figure::File | Figure::Memory => text::bytes(value as u64),
        Figure::Build | Figure::Time(..) => text::nanoseconds(value),
    }
}

/// Why the first candidate is advised.
fn reasons(report: &Report) -> Vec<String> {
    let Some((advised, others)) = report.candidates.split_first() else { return Vec::new() };
    let time = |of: &Ranked| text::nanoseconds(of.ns_per_operation);
    let own = time(advised);
    let by_time =
        |one: &&Ranked, other: &&Ranked| one.ns_per_operation.total_cmp(&other.ns_per_operation);
    let mut reasons = vec![match others.iter().min_by(by_time) {
        None => format!("It is the only one that can do this; an operation takes {own}."),
        Some(next) if next.ns_per_operation < advised.ns_per_operation * (1.0 + ALIKE) => format!(
            "An operation of this use takes {own}, about as long as with {} ({}); its file is the smaller \
             one.",
            next.candidate.name(),
            time(next)
        ),
        Some(next) => format!(
            "An operation of this use takes the least time: {own}, with {}, the next, {} ({} as long).",
            next.candidate.name(),
            time(next),
            text::factor(next.ns_per_operation / advised.ns_per_operation)
        ),
    }];
    let by_file = |one: &&Ranked, other: &&Ranked| one.file_bytes().total_cmp(&other.file_bytes());
    if let Some(smallest) = others.iter().min_by(by_file) {
        let ratio = advised.file_bytes() / smallest.file_bytes().max(1.0);
        let name = smallest.candidate.name();
        let ratio_words = text::factor(ratio);
        reasons.push(match ratio {
            0.98..1.02 => format!("Its file is as large as that of {name}."),
            ..1.0 => format!("Its file is the smallest, {ratio_words} that of {name}."),
            _ => format!("The price: a file {ratio_words} as large as that of {name}."),
        });
    }
    if advised.candidate.form.sorted_first {
        reasons.push("Loaded in the order of its keys, which its input is not in.".to_owned());
    }
    if advised.candidate.setting == Some("copy=on") {
        reasons.push(
            "Access::Memory: the file is copied into memory, in huge pages where the kernel has such, by \
             each process that opens it; memory is its own then, and opening takes as long as the copy."
                .to_owned(),
        );
    }
    match advised.candidate.durability {
        Some(Class::Sync) => reasons.push(
            "Durability::Sync: a change is on the disk when its call returns; threads that commit at once \
             share the wait."
                .to_owned(),
        ),
        Some(class @ Class::Every(_)) => reasons.push(format!(
            "Durability::Buffered and a call of sync: a change outlives the process, and a power cut \
             takes {}.",
            class.lost_with_power()
        )),
        Some(Class::Buffered) => reasons.push(
            "Durability::Buffered: a change outlives the process, and a power cut takes what was not \
             synced; with Durability::Interval(1000) that is about a second."
                .to_owned(),
        ),
        None => {}
    }
    if advised.file_bytes() > report.machine.memory_bytes as f64 * 0.8 {
        reasons.push(
            "Its file is larger than what memory has room for: times will be those of the disk, which \
             were not measured."
                .to_owned(),
        );
    }
    reasons
}

fn write_recipe(recipe: &Recipe, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    if !recipe.commands.is_empty() {
        writeln!(out, "\n{}", pen.bold("Make it"))?;
    }
    recipe.commands.iter().try_for_each(|line| writeln!(out, "  {}", text::clean(line)))?;
    if !recipe.rust.is_empty() {
        writeln!(out, "\n{}", pen.bold("Use it"))?;
    }
    recipe.rust.lines().try_for_each(|line| {
        let indent = if line.is_empty() { "" } else { "  " };
        writeln!(out, "{indent}{line}")
    })
}

/// Prints how far the prediction was off.
pub(super) fn check(report: &Report, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    let heads = ["store", "figure", "expected", "measured", "error"];
    let (mut rows, mut records) = (Vec::new(), 0);
    for ranked in &report.candidates {
        let Some(checked) = &ranked.checked else { continue };
        records = checked.records;
        let mut store = ranked.candidate.name();
        for (name, measured) in &checked.measured {
            let value = |value: Option<&f64>| value.map(|value| in_words(name, *value));
            let error = checked.error_percent.get(name).map(|error| format!("{error:+.0} %"));
            let none = || text::NONE.to_owned();
            rows.push(vec![
                std::mem::take(&mut store),
                figure_in_words(name),
                value(checked.expected.get(name)).unwrap_or_else(none),
                value(Some(measured)).unwrap_or_else(none),
                error.unwrap_or_else(none),
            ]);
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let all = if records == report.data.records { "all " } else { "" };
    let title = format!("Checked with {all}{}", text::counted(records as usize, "record"));
    writeln!(out, "\n{}", pen.bold(&title))?;
    let table = Table { heads: heads.map(str::to_owned).to_vec(), rows, words: 2 };
    table.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    report.verdict.iter().try_for_each(|words| wrapped(out, pen, "", &text::clean(words)))
}

pub(super) fn figure_in_words(name: &Figure) -> String {
    match name {
        Figure::File => "file".to_owned(),
        Figure::Memory => "memory".to_owned(),
        Figure::Build => "build, a record".to_owned(),
        Figure::Time(operation, Of::Mean) => format!("{operation}, mean"),
        Figure::Time(operation, Of::P50) => format!("{operation}, p50"),
        Figure::Time(operation, Of::P99) => format!("{operation}, p99"),
    }
}
