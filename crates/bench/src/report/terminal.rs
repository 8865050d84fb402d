//! The result as a table for a terminal: stores as rows, phases as columns.
//!
//! Lines are as wide as the pen says: phases that do not fit go to a further table. Everything
//! from outside is cleaned of control characters. Colour is only ever an addition: whatever it
//! says stands in the text too.

use super::compare::{Comparison, Headline, is_own, wrong_answers};
use super::durability;
use super::pen::{Pen, Style, shortened, width, wrapped, wrapped_as};
use super::plain::ByClass;
use super::stats::{self, Ratio, Verdict};
use super::{
    closing, committers, growth, mix_latencies, noise, own_cost, own_counters, processor, rate,
    stores, text, together, work,
};
use crate::result::{PhaseResult, Report};
use std::io::{self, Write};

const GAP: usize = 2;

/// Prints the report: what ran, one table a class, our engines against the best rivals, failures.
///
/// # Errors
/// Those of `out`.
pub fn print(report: &Report, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    heading(report, out, pen)?;
    let comparisons = Comparison::of(report);
    if comparisons.is_empty() {
        writeln!(out, "\nNothing was measured.")?;
    }
    for comparison in &comparisons {
        tables(comparison, out, pen)?;
        legend(comparison, out, pen)?;
        for own in comparison.own() {
            headlines(comparison, own, out, pen)?;
        }
    }
    if let Some((table, explained)) = growth::table(report) {
        plain("Growth with the number of records", &table, explained, out, pen)?;
    }
    if let Some((title, table, explained)) = rate::table(report) {
        plain(&title, &table, explained, out, pen)?;
    }
    if let Some((table, explained)) = together::table(report) {
        plain("Several readers at one store", &table, explained, out, pen)?;
    }
    for work in committers::Work::ALL {
        if let Some((table, explained)) = work.table(report) {
            plain(work.title(), &table, &explained, out, pen)?;
        }
    }
    if let Some((table, explained)) = mix_latencies::table(report) {
        plain(mix_latencies::TITLE, &table, explained, out, pen)?;
    }
    if let Some((table, explained)) = processor::table(report) {
        plain(processor::TITLE, &table, explained, out, pen)?;
    }
    if let Some((table, explained)) = own_counters::table(report) {
        plain(own_counters::TITLE, &table, explained, out, pen)?;
    }
    disk(report, out, pen)?;
    remarks(report, out, pen)?;
    if report.stores.is_empty() {
        return Ok(());
    }
    write!(out, "\n{}", stores::block(&stores::of_report(report), pen.width))
}

/// What the stores were seen to ask of the disk.
fn disk(report: &Report, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    let lines = durability::lines(report);
    if lines.is_empty() {
        return Ok(());
    }
    let title = "Asked of the disk, as seen: calls that sync, and bytes written by calls";
    writeln!(out, "\n{}", pen.bold(title))?;
    lines.iter().try_for_each(|line| wrapped(out, pen, "  ", &text::clean(line)))
}

fn plain(
    title: &str,
    table: &ByClass,
    explained: &str,
    out: &mut impl Write,
    pen: &Pen,
) -> io::Result<()> {
    writeln!(out, "\n{}", pen.bold(title))?;
    table.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
    wrapped(out, pen, "", explained)
}

fn heading(report: &Report, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    let (s, m) = (&report.settings, &report.machine);
    let mut what = vec![
        text::counted(s.records as usize, "record"),
        format!("{} of keys and values", text::bytes(s.key_bytes.saturating_add(s.value_bytes))),
        text::counted(s.rounds, "round"),
    ];
    what.extend(s.key_type.iter().map(|of| format!("keys of type {}", text::clean(of))));
    what.extend(s.value_type.iter().map(|of| format!("values of type {}", text::clean(of))));
    if s.cold {
        what.push("cold cache".to_owned());
    }
    what.extend(s.memory_limit.map(|bytes| format!("at most {}", text::binary_bytes(bytes))));
    what.extend(s.opened.iter().map(|from| format!("opened from {}", text::clean(from))));
    what.extend(s.stores.iter().map(|setting| text::clean(setting)));
    let (name, what) = (format!("credenza bench  {}", text::clean(&s.workload)), what.join(" · "));
    if width(&name) + GAP + width(&what) <= pen.width {
        writeln!(out, "{}  {what}", pen.bold(&name))?;
    } else {
        writeln!(out, "{}", pen.bold(&name))?;
        wrapped(out, pen, "", &what)?;
    }
    work::in_words(report).iter().try_for_each(|of| wrapped(out, pen, "", &text::clean(of)))?;
    let machine = [
        text::clean(&m.cpu),
        text::counted(m.cores, "core"),
        text::binary_bytes(m.memory_bytes),
        text::clean(&m.filesystem),
        text::clean(&m.kernel),
        format!("load {:.2}", m.load_average[0]),
    ];
    let known = machine.into_iter().filter(|fact| !fact.is_empty());
    wrapped(out, pen, "", &known.collect::<Vec<_>>().join(" · "))
}

/// One column: the lines of its heading, and for each store two lines of a cell.
struct Column {
    heading: [String; 2],
    cells: Vec<[Cell; 2]>,
}

#[derive(Default)]
struct Cell {
    text: String,
    style: Style,
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().flatten().map(|cell| width(&cell.text));
        cells.chain(self.heading.iter().map(|line| width(line))).max().unwrap_or(0)
    }
}

fn tables(c: &Comparison, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    let fixed = [store_column(c), size_column(c)];
    let base: usize = fixed[0].width() + GAP + fixed[1].width();
    let mut rest: Vec<Column> = c.phases.iter().map(|phase| phase_column(c, phase)).collect();
    writeln!(out, "\nns per operation, medians; class {}", text::clean(c.class))?;
    while !rest.is_empty() {
        let mut used = base;
        let fits = |column: &&Column| {
            used += GAP + column.width();
            used <= pen.width
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let later = rest.split_off(count.min(rest.len()));
        writeln!(out)?;
        table(&fixed, &rest, out, pen)?;
        rest = later;
    }
    Ok(())
}

fn store_column(c: &Comparison) -> Column {
    let cell = |store: &&str| {
        let style = if is_own(store) { Style::Bold } else { Style::Plain };
        let (checked, style_below) = if c.verified(store) {
            ("✓ verified", Style::Dim)
        } else {
            ("✗ wrong answers", Style::Bad)
        };
        let name = shortened(&text::clean(store), 24);
        [Cell { text: name, style }, Cell { text: format!("  {checked}"), style: style_below }]
    };
    Column {
        heading: [String::new(), "store".to_owned()],
        cells: c.stores.iter().map(cell).collect(),
    }
}

fn size_column(c: &Comparison) -> Column {
    let base = c.file_bytes(c.baseline);
    let cell = |store: &&str| {
        let size = c.file_bytes(store);
        let text = size.map_or(text::NONE.to_owned(), text::bytes);
        let relative = match (size, base) {
            (Some(size), Some(base)) if *store != c.baseline => {
                format!("{:.2}", size as f64 / base as f64)
            }
            _ => String::new(),
        };
        let below = Cell { text: relative, style: Style::Dim };
        [Cell { text, style: Style::Plain }, below]
    };
    Column {
        heading: [String::new(), "file".to_owned()],
        cells: c.stores.iter().map(cell).collect(),
    }
}

fn phase_column(c: &Comparison, phase: &str) -> Column {
    let name = text::clean(phase);
    let heading = match name.rsplit_once('-') {
        Some((first, last)) => [first.to_owned(), last.to_owned()],
        None => [String::new(), name],
    };
    let cell = |store: &&str| match c.result(store, phase) {
        None => [Cell { text: text::NONE.to_owned(), style: Style::Dim }, Cell::default()],
        Some(result) => [median_cell(result), ratio_cell(c, store, phase)],
    };
    Column { heading, cells: c.stores.iter().map(cell).collect() }
}

fn median_cell(result: &PhaseResult) -> Cell {
    let mark = text::mark(result.verified, result.native);
    let style = match (result.verified, is_own(&result.store)) {
        (false, _) => Style::Bad,
        (true, true) => Style::Bold,
        (true, false) => Style::Plain,
    };
    Cell { text: format!("{}{mark}", text::number(result.ns_per_op.median)), style }
}

fn ratio_cell(c: &Comparison, store: &str, phase: &str) -> Cell {
    let Some(ratio) = c.to_baseline(store, phase) else { return Cell::default() };
    let style = if ratio.verdict() == Verdict::Faster { Style::Good } else { Style::Dim };
    Cell { text: text::ratio(&ratio), style }
}

fn table(
    fixed: &[Column; 2],
    phases: &[Column],
    out: &mut impl Write,
    pen: &Pen,
) -> io::Result<()> {
    let columns: Vec<&Column> = fixed.iter().chain(phases).collect();
    let widths: Vec<usize> = columns.iter().map(|column| column.width()).collect();
    for line in 0..2 {
        let heads = columns.iter().map(|column| (column.heading[line].as_str(), Style::Dim));
        row(out, pen, &widths, heads)?;
    }
    for store in 0..fixed[0].cells.len() {
        // A store that can do none of these phases has no row here.
        if phases.iter().all(|column| column.cells[store][0].text == text::NONE) {
            continue;
        }
        for line in 0..2 {
            let cells = columns.iter().map(|column| {
                let cell = &column.cells[store][line];
                (cell.text.as_str(), cell.style)
            });
            row(out, pen, &widths, cells)?;
        }
    }
    Ok(())
}

/// The first cell is set to the left, the others to the right.
fn row<'c>(
    out: &mut impl Write,
    pen: &Pen,
    widths: &[usize],
    cells: impl Iterator<Item = (&'c str, Style)>,
) -> io::Result<()> {
    let (mut line, mut blank) = (String::new(), 0);
    for (i, ((cell, style), wide)) in cells.zip(widths).enumerate() {
        let space = wide.saturating_sub(width(cell));
        let (before, after) = if i == 0 { (0, space) } else { (GAP + space, 0) };
        blank += before;
        if !cell.is_empty() {
            line.push_str(&" ".repeat(blank));
            line.push_str(&pen.paint(cell, style));
            blank = 0;
        }
        blank += after;
    }
    if line.is_empty() { Ok(()) } else { writeln!(out, "{line}") }
}

fn legend(c: &Comparison, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    let baseline = text::clean(c.baseline);
    let mut says = Vec::new();
    if c.stores.len() > 1 {
        says.push(format!(
            "Second lines: how many times as fast as {baseline} (above 1: faster), and the file's size \
             in relation to it; ~ no difference seen (the 95 % interval spans 1, or \
             the ratio lies within the noise)."
        ));
    }
    if c.has_unjudged() {
        says.push(text::UNJUDGED_EXPLAINED.to_owned());
    }
    if c.has_plain_loops() {
        says.push(
            "* a plain loop of single gets: the store has no batched read, or only one that takes longer, \
             which its settings name."
                .to_owned(),
        );
    }
    if c.has_lookups_to_remove() {
        let explained = text::LOOKUP_EXPLAINED;
        says.push(format!("{explained}; without that answer it would take less."));
    }
    if !c.stores.iter().all(|store| c.verified(store)) {
        says.push(
            "! some answers were wrong: the figure is no speed and is in no ratio.".to_owned(),
        );
    }
    says.extend(work::hit_rates(c).iter().map(|line| text::clean(line)));
    if says.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    says.iter().try_for_each(|line| wrapped(out, pen, "", line))
}

fn headlines(c: &Comparison, own: &str, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    let best = c.headlines(own);
    if best.is_empty() {
        return Ok(());
    }
    let of = c.peers_in_words(own);
    let title = format!("{own} against the fastest rival of each phase{of} (times as fast)");
    writeln!(out)?;
    wrapped_as(Style::Bold, out, pen, "", &title)?;
    let phases = best.iter().map(|h| width(&text::clean(h.phase))).max().unwrap_or(0);
    for headline in &best {
        headline_line(headline, phases, out, pen)?;
    }
    let others: Vec<String> = c
        .not_ahead_by_phase(own)
        .filter_map(|of_phase| {
            let is_told =
                |h: &&Headline| best.iter().any(|b| (b.phase, b.rival) == (h.phase, h.rival));
            let rivals = of_phase.iter().filter(|h| !is_told(h)).map(|h| text::clean(h.rival));
            let rivals = rivals.collect::<Vec<_>>().join(", ");
            let phase = text::clean(of_phase.first()?.phase);
            (!rivals.is_empty()).then(|| format!("{phase} by {rivals}"))
        })
        .collect();
    if !others.is_empty() {
        wrapped(out, pen, "  ", &format!("also matched or beaten in {}", others.join("; ")))?;
    }
    let alone: Vec<String> = c.others(own).map(text::clean).collect();
    if !alone.is_empty() {
        let says = "in the table alone, as they cannot do what it does:";
        wrapped(out, pen, "  ", &format!("{says} {}", alone.join(", ")))?;
    }
    Ok(())
}

fn headline_line(
    headline: &Headline,
    phases: usize,
    out: &mut impl Write,
    pen: &Pen,
) -> io::Result<()> {
    let ratio = &headline.ratio;
    let (says, style) = match ratio.verdict() {
        Verdict::Faster => ("", Style::Good),
        Verdict::Slower => ("  slower", Style::Bad),
        Verdict::NoDifference => ("  no difference seen", Style::Plain),
        Verdict::TooFewRounds => ("  too few rounds to judge", Style::Dim),
    };
    let phase = text::clean(headline.phase);
    let factor = format!("{:>7}", text::ratio(ratio));
    writeln!(
        out,
        "  {phase:<phases$}  {}  {:<15}  {}{says}",
        pen.paint(&factor, style),
        range(ratio),
        text::clean(headline.rival)
    )
}

/// The interval of a ratio as `[4.81, 5.20]`; nothing where there is none to speak of.
fn range(ratio: &Ratio) -> String {
    text::ends(ratio).map_or_else(String::new, |[low, high]| format!("[{low}, {high}]"))
}

fn remarks(report: &Report, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
    let rounds = report.results.iter().map(|r| r.rounds).max().unwrap_or(0);
    let mut says = Vec::new();
    if (1..6).contains(&rounds) {
        says.push(stats::coverage_in_words(rounds));
    }
    says.extend(outliers(report));
    says.extend(noise::line(report).map(|line| text::clean(&line)));
    let own_cost = own_cost::in_words(report);
    says.extend(own_cost.map(|of| text::clean(&format!("{}: {of}.", own_cost::EXPLAINED))));
    says.extend(closing::in_words(report).map(|line| text::clean(&line)));
    says.extend(wrong_answers(report).iter().map(|line| text::clean(line)));
    says.extend(report.notes.iter().map(|note| text::clean(note)));
    if !says.is_empty() {
        writeln!(out)?;
    }
    for line in &says {
        wrapped(out, pen, "", line)?;
    }
    for (i, failure) in report.failures.iter().enumerate() {
        if i == 0 {
            writeln!(out, "\n{}", pen.bold("Did not run, or not to the end"))?;
        }
        let phase = failure.phase.as_deref().map(|phase| format!(" {phase}"));
        let round = failure.round.map(|round| format!(" round {}", round + 1));
        let (phase, round) = (phase.unwrap_or_default(), round.unwrap_or_default());
        let line = format!("{}{phase}{round}: {}: {}", failure.store, failure.status, failure.what);
        wrapped(out, pen, "  ", &text::clean(&line))?;
    }
    Ok(())
}

/// Rounds that lie apart from the others of their figure.
fn outliers(report: &Report) -> Option<String> {
    const NAMED: usize = 6;
    let apart = |r: &PhaseResult| {
        let samples = stats::outliers(&r.ns_per_op.samples);
        let count = samples.iter().filter(|is| **is).count();
        let name = format!("{} {}", text::clean(&r.store), text::clean(&r.phase));
        (count > 0).then(|| format!("{name} {count} of {}", samples.len()))
    };
    let mut all: Vec<String> = report.results.iter().filter_map(apart).collect();
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    (!all.is_empty()).then(|| {
        let more = if more > 0 { format!(", and {more} more figures") } else { String::new() };
        format!("Outliers, rounds far from the others, which stay in: {}{more}.", all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::pen::WIDTH;
    use crate::result::{Machine, Settings};

    fn fixture() -> Report {
        serde_json::from_slice(include_bytes!("../../tests/fixtures/report.json")).unwrap()
    }

    fn printed(report: &Report, colour: bool) -> String {
        printed_by(&Pen { colour, width: WIDTH }, report)
    }

    fn printed_by(pen: &Pen, report: &Report) -> String {
        let mut out = Vec::new();
        print(report, &mut out, pen).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_figures_with_outliers() {
        let mut report = fixture();
        report.results.truncate(9);
        for result in &mut report.results {
            result.ns_per_op.samples = vec![1.0, 2.0, 3.0, 4.0, 5.0];
        }
        assert_eq!(outliers(&report), None);
        let (store, phase) = (report.results[0].store.clone(), report.results[0].phase.clone());
        report.results[0].ns_per_op.samples = vec![1.0, 2.0, 3.0, 4.0, 50.0];
        let one = outliers(&report).unwrap();
        assert!(one.ends_with(&format!(": {store} {phase} 1 of 5.")), "{one}");
        for result in &mut report.results {
            result.ns_per_op.samples = vec![1.0, 2.0, 3.0, 4.0, 50.0];
        }
        let all = outliers(&report).unwrap();
        assert!(all.ends_with("1 of 5, and 3 more figures."), "{all}");
    }

    #[test]
    fn says_what_a_reader_must_know_within_the_width() {
        let text = printed(&fixture(), false);
        println!("{text}");
        for says in [
            "decimal",
            "class buffered",
            "7 rounds",
            "AMD EPYC",
            "tokyocabinet-hash",
            "18.1 MB",
            "✗ wrong answers",
            "bdb-hash, get-90: wrong answers",
            "* a plain loop of single gets: the store has no batched read",
            "no difference seen",
            "gdbm: missing: libgdbm.so.6",
            "lmdb get-chain round 7: timed-out",
            "\nStores:\n  constant 0.1.0 (class buffered): ",
            "No noise floor was measured",
        ] {
            assert!(text.contains(says), "'{says}' is missing");
        }
        assert!(!text.contains('\x1b'), "colour without being asked");
        for line in text.lines() {
            assert!(width(line) <= WIDTH, "{} columns: {line}", width(line));
            assert_eq!(line.trim_end(), line);
        }
    }

    #[test]
    fn two_rounds_are_marked_as_too_few_and_the_mark_explained() {
        let mut report = fixture();
        assert!(!printed(&report, false).contains('?'));
        for result in &mut report.results {
            result.ns_per_op.samples.truncate(2);
            result.rounds = 2;
        }
        let text = printed(&report, false);
        assert!(text.contains(text::UNJUDGED_EXPLAINED), "{text}");
        let others = report.results.iter().filter(|r| r.store != "mcdb" && r.verified).count();
        let headlines = text.matches("too few rounds to judge").count();
        // Once more in what explains it.
        assert_eq!(text.matches('?').count(), others + headlines + 1, "{text}");
    }

    #[test]
    fn what_a_mix_does_and_which_keys_are_looked_up_is_said_within_the_width() {
        let mut report = fixture();
        report.settings.distribution = "zipfian:theta=0.99,scrambled=true".to_owned();
        report.settings.mix = "get 60, insert 20, update 15, remove 5, keys latest:theta=0.99, \
            transactions tmp, closed and opened again before"
            .to_owned();
        let phase = |name| move |r: &&mut PhaseResult| r.phase == name;
        report.results.iter_mut().filter(phase("scan")).for_each(|r| r.phase = "mixed".to_owned());
        let text = printed(&report, false);
        let says =
            ["\nlookups: keys zipfian:theta=0.99,", "\nmixed: get 60, insert 20, update 15,"];
        assert!(says.iter().all(|says| text.contains(says)), "{text}");
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
    }

    #[test]
    fn a_second_rival_that_beats_us_is_named() {
        let mut report = fixture();
        let scan = |store| move |r: &&mut PhaseResult| r.store == store && r.phase == "scan";
        let lmdb = report.results.iter_mut().find(scan("lmdb")).unwrap();
        lmdb.ns_per_op = stats::summarise(&[1.5, 1.4, 1.5, 1.6, 1.5]);
        assert!(printed(&report, false).contains("also matched or beaten in scan by lmdb"));
    }

    #[test]
    fn all_further_rivals_of_a_phase_stand_together() {
        let mut report = fixture();
        for result in &mut report.results {
            let ns = match (&*result.store, &*result.phase) {
                (_, phase) if !matches!(phase, "get-hit" | "scan") => continue,
                ("mcdb", _) => 20.0,
                ("sparkey", _) => 25.0,
                ("cdb", _) => 30.0,
                ("constant", _) => 40.0,
                _ => 90.0,
            };
            result.ns_per_op = stats::summarise(&[ns; 7]);
        }
        let text = printed(&report, false);
        let told = "  also matched or beaten in get-hit by sparkey, cdb; scan by sparkey, cdb\n";
        assert!(text.contains(told), "{text}");
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let plain = printed(&fixture(), false);
        let coloured = printed(&fixture(), true);
        assert!(coloured.contains("\x1b[32m"));
        let mut stripped = String::new();
        for (i, part) in coloured.split('\x1b').enumerate() {
            stripped.push_str(if i == 0 { part } else { part.split_once('m').unwrap().1 });
        }
        assert_eq!(stripped, plain);
    }

    #[test]
    fn more_phases_than_fit_go_to_a_further_table() {
        let mut report = fixture();
        let extra: Vec<PhaseResult> = (0..12)
            .flat_map(|i| {
                let named = move |r: &PhaseResult| PhaseResult {
                    phase: format!("phase-number-{i}"),
                    ..r.clone()
                };
                report.results.iter().filter(|r| r.phase == "build").map(named).collect::<Vec<_>>()
            })
            .collect();
        report.results.extend(extra);
        let text = printed(&report, false);
        assert!(text.lines().filter(|line| line.starts_with("store")).count() >= 2);
        assert!(text.lines().all(|line| width(line) <= WIDTH));
    }

    #[test]
    fn a_terminal_has_lines_of_its_own_width() {
        let report = fixture();
        let tables = |text: &str| text.lines().filter(|line| line.starts_with("store")).count();
        let texts = [80, 100, 120].map(|columns| {
            let text = printed_by(&Pen { colour: false, width: columns }, &report);
            let longest = text.lines().map(width).max().unwrap();
            assert!(
                longest <= columns && longest + 10 > columns,
                "{longest} of {columns}:\n{text}"
            );
            text
        });
        assert!(tables(&texts[0]) > tables(&texts[2]), "{}", texts[0]);
    }

    #[test]
    fn one_store_alone_has_no_legend_of_ratios() {
        let mut report = fixture();
        assert!(printed(&report, false).contains("Second lines: "));
        report.results.retain(|result| result.store == "constant");
        assert!(!printed(&report, false).contains("Second lines: "));
    }

    #[test]
    fn odd_reports_print() {
        let mut report = fixture();
        report.results.truncate(1);
        report.results[0].store = "resp:\x1b[31m".to_owned() + &"x".repeat(300);
        report.results[0].ns_per_op.median = f64::MAX;
        report.results[0].rounds = 1;
        assert!(!printed(&report, false).contains('\x1b'));
        report.results.clear();
        assert!(printed(&report, false).contains("Nothing was measured"));
        let (machine, settings) = (Machine::default(), Settings::default());
        let (stores, failures, notes) = (Vec::new(), Vec::new(), Vec::new());
        let empty = Report { machine, settings, stores, failures, notes, ..Report { ..report } };
        assert!(printed(&empty, false).contains("Nothing was measured"));
    }

    /// Danger: removals of a store that answers less are slower, or seem so, and nobody sees why.
    #[test]
    fn removals_with_a_lookup_before_are_marked() {
        let mut report = fixture();
        let says = "* of removals: each has a lookup before it";
        assert!(!printed(&report, false).contains(says));
        let result = report.results.iter_mut().find(|r| r.phase == "build" && r.native).unwrap();
        (result.phase, result.native) = ("remove".to_owned(), false);
        let store = result.store.clone();
        let median = text::number(result.ns_per_op.median);
        assert_eq!(result.not_native().unwrap().0, "lookup");
        report.settings.phases.push("remove".to_owned());
        let text = printed(&report, false);
        assert!(text.contains(says), "{text}");
        assert!(text.contains(&format!("{median}*")), "{store}: {text}");
    }
}
