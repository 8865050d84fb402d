//! Charts of lines over an axis, as static SVG whose places are per cent, as in [`super::chart`]: they
//! follow the width they are given, keep the size of their text, need no script, and print.
//!
//! Of a long line the page has the path, and the words of its points as one text: the script (`points.js`) makes
//! points of both when somebody points at the chart. Each as an element of its own took nine tenths of a page.
//! The script has a chart answer taps and keys, too, and puts a table of all its points below it.

use super::chart::{self, Scale, escape};
use super::compare::is_own;
use super::text;
use std::fmt::Write;

/// As many rivals have a colour of their own; those behind them begin again, dashed.
const COLOURS: usize = 6;
const HEIGHT: u32 = 220;
/// How narrow the axis below is on a small phone, in pixels.
const NARROWEST: f64 = 235.0;
/// Where a line of a chart has more points than this, the script makes the points of all.
const DENSE: usize = 40;

/// A point: the place in per cent from the left, the figure, and both in words; of a chart over time the
/// figure only.
pub type Point = (f64, f64, String);

/// A line of one store.
pub struct Line<'a> {
    /// The store's name.
    pub store: &'a str,
    /// Its points, in stretches that each have one at least: between two of these nothing is drawn.
    pub stretches: Vec<Vec<Point>>,
    /// How many seconds its run took, where the axis below is the part of each run.
    pub seconds: Option<f64>,
}

impl<'a> Line<'a> {
    /// A line without a gap, of something else than time.
    pub fn through(store: &'a str, points: Vec<Point>) -> Line<'a> {
        let stretches = if points.is_empty() { Vec::new() } else { vec![points] };
        Line { store, stretches, seconds: None }
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.stretches.iter().flatten()
    }
}

/// A chart.
pub struct LineChart<'a> {
    /// What it is of.
    pub title: String,
    /// What is said beside the title.
    pub explained: String,
    /// Ticks of the axis below: the place in per cent, and a label.
    pub ticks: Vec<(f64, String)>,
    /// What lies on that axis.
    pub below: &'a str,
    /// The lines, in the order of their figures.
    pub lines: Vec<Line<'a>>,
    /// All stores of the report: each has its colour in every chart.
    pub stores: Vec<&'a str>,
}

impl LineChart<'_> {
    /// The chart with a logarithmic axis to the left, labelled by `label`; empty without a line.
    pub fn html(&self, label: impl Fn(f64) -> String) -> String {
        let points = self.lines.iter().flat_map(Line::points);
        let figures: Vec<f64> = points.map(|point| point.1).collect();
        self.html_on(&Scale::logarithmic(&figures), label)
    }

    /// The same with this axis to the left.
    pub fn html_on(&self, scale: &Scale, label: impl Fn(f64) -> String) -> String {
        if self.lines.iter().all(|line| line.stretches.is_empty()) {
            return String::new();
        }
        let (mut marks, mut labels) = (String::new(), String::new());
        for tick in scale.ticks() {
            let y = 100.0 - scale.place(tick);
            // Writing to a string cannot fail.
            let _ = write!(
                labels,
                r#"<text x="100%" y="{y:.2}%" dy="4" text-anchor="end">{}</text>"#,
                escape(&if tick == 0.0 { "0".to_owned() } else { label(tick) })
            );
            let _ = write!(
                marks,
                r#"<line class="grid" x1="0%" x2="100%" y1="{y:.2}%" y2="{y:.2}%"/>"#
            );
        }
        for (x, _) in &self.ticks {
            let _ = write!(
                marks,
                r#"<line class="grid" x1="{x:.2}%" x2="{x:.2}%" y1="0%" y2="100%"/>"#
            );
        }
        let is_dense = self.lines.iter().any(|line| line.points().count() > DENSE);
        let mut legend = String::new();
        for line in &self.lines {
            let class = self.class(line.store);
            let (store, drawn) = (escape(line.store), self.drawn(scale, line, is_dense));
            let _ = write!(marks, r#"<g class="{class}" data-store="{store}">{drawn}</g>"#);
            let took =
                line.seconds.map(|s| format!(" <small>{}</small>", text::nanoseconds(s * 1e9)));
            let took = took.unwrap_or_default();
            let _ = write!(legend, r#"<li class="{class}">{store}{took}</li>"#);
        }
        let axis = chart::labels(&self.ticks, NARROWEST);
        let upwards = match scale.is_logarithmic() {
            true => r#"<p class="scale upwards">upwards: logarithmic scale</p>"#,
            false => "",
        };
        let words = escape(&format!("{}: {}", self.title, self.explained));
        format!(
            r#"<figure class="chart lines"><figcaption><h3>{}</h3><span>{}</span></figcaption><div class="frame">{upwards}<svg class="labels" height="{HEIGHT}" aria-hidden="true">{labels}</svg><svg class="plot" height="{HEIGHT}" role="img" aria-label="{words}">{marks}</svg>{axis}<p class="scale">{}</p></div><ul class="legend">{legend}</ul></figure>"#,
            escape(&self.title),
            escape(&self.explained),
            escape(self.below)
        )
    }

    /// Our engines have their own colour, rivals one after the other.
    fn class(&self, store: &str) -> String {
        if is_own(store) {
            return format!("line own own-{store}");
        }
        let rivals = self.stores.iter().filter(|name| !is_own(name));
        let place = rivals.into_iter().position(|name| *name == store).unwrap_or(0);
        let dashed = if place / COLOURS > 0 { " dashed" } else { "" };
        format!("line c{}{dashed}", place % COLOURS)
    }

    /// A line as a path, and its points with their words: of a long one what the script makes them of.
    fn drawn(&self, scale: &Scale, line: &Line, is_dense: bool) -> String {
        if line.stretches.is_empty() {
            return String::new();
        }
        let place = |figure: f64| 100.0 - scale.place(figure);
        if is_dense {
            let mut marks = String::new();
            // A point alone between two gaps has no line that would show it.
            for (x, figure, _) in line.stretches.iter().filter(|all| all.len() == 1).flatten() {
                let y = place(*figure);
                let _ = write!(marks, r#"<circle cx="{x:.1}%" cy="{y:.1}%" r="1.4"/>"#);
            }
            let words = in_short(line.points().map(|(.., words)| words.as_str()));
            let end = line.seconds.map(|end| format!(r#" data-seconds="{end:.4e}""#));
            let _ = write!(
                marks,
                r#"{}<g class="spots" data-words="{}"{}></g>"#,
                path(line, place),
                escape(&words),
                end.unwrap_or_default()
            );
            return marks;
        }
        let mut marks = path(line, place);
        for (x, figure, words) in line.points() {
            let when = line.seconds.map(|end| format!("{}: ", text::nanoseconds(x * end * 1e7)));
            let words = escape(&format!("{}, {}{words}", line.store, when.unwrap_or_default()));
            let y = place(*figure);
            let _ = write!(
                marks,
                r#"<circle cx="{x:.1}%" cy="{y:.1}%" r="2.6"><title>{words}</title></circle>"#
            );
        }
        marks
    }
}

/// In a thousandth of the width and of the height, as a path takes no per cent; each place from the one
/// before, which is shorter. Of a gap there is the step, too, but nothing is drawn.
fn path(line: &Line, place: impl Fn(f64) -> f64) -> String {
    let (mut path, mut last) = (String::new(), None);
    for stretch in &line.stretches {
        for (i, (x, figure, _)) in stretch.iter().enumerate() {
            let (x, y) = ((x * 10.0).round() as i64, (place(*figure) * 10.0).round() as i64);
            let (before, above) = last.unwrap_or((0, 0));
            let begin = match (i, last) {
                (0, None) => "M",
                (0, Some(_)) => "m",
                (1, _) => "l",
                _ => " ",
            };
            let (x_step, y_step) = (x - before, y - above);
            // A sign parts two numbers, too.
            let part = if y_step < 0 { "" } else { " " };
            let _ = write!(path, "{begin}{x_step}{part}{y_step}");
            last = Some((x, y));
        }
    }
    format!(r#"<svg viewBox="0 0 1000 1000" preserveAspectRatio="none"><path d="{path}"/></svg>"#)
}

/// The words of points, each but for a unit that is that of the one before: `41.2 ns|43.0|1.02 ms`.
fn in_short<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let (mut all, mut last) = (String::new(), None);
    for (i, words) in words.enumerate() {
        all += if i > 0 { "|" } else { "" };
        let parts = words.split_once(' ').filter(|(_, unit)| !unit.contains(' '));
        let unit = parts.map(|(_, unit)| unit);
        all += match parts {
            Some((figure, _)) if unit == last => figure,
            _ => words,
        };
        // What has no unit ends as if it had one.
        all += if words.contains(' ') { "" } else { " " };
        last = unit;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_said_where_it_changes() {
        let short = |words: &[&str]| in_short(words.iter().copied());
        let times = ["41.2 ns", "43.0 ns", "1.02 ms", "2.00 ms", "41.2 ns"];
        assert_eq!(short(&times), "41.2 ns|43.0|1.02 ms|2.00|41.2 ns");
        assert_eq!(short(&["–", "1 B", "–", "1 B", "2 B"]), "– |1 B|– |1 B|2");
        assert_eq!(short(&["p9: 4 ns", "p8: 4 ns", "4 ns"]), "p9: 4 ns|p8: 4 ns|4 ns");
        assert_eq!(short(&[]), "");
    }

    #[test]
    fn a_gap_is_a_step_that_draws_nothing() {
        let point = |x: f64, figure: f64| (x, figure, String::new());
        let stretches = vec![
            vec![point(1.0, 2.0), point(2.0, 1.0)],
            vec![point(5.0, 3.0)],
            vec![point(7.0, 2.0), point(8.0, 2.0)],
        ];
        let line = Line { store: "hash", stretches, seconds: None };
        let drawn = path(&line, |figure| figure);
        assert!(drawn.contains(r#"d="M10 20l10-10m30 20m20-10l10 0""#), "{drawn}");
        assert!(Line::through("hash", Vec::new()).stretches.is_empty());
    }

    #[test]
    fn the_axis_that_is_logarithmic_is_the_one_that_is_said_to_be() {
        let chart = LineChart {
            title: String::new(),
            explained: String::new(),
            ticks: Vec::new(),
            below: "part of each run",
            lines: vec![Line::through("hash", vec![(1.0, 2.0, String::new())])],
            stores: vec!["hash"],
        };
        let [logarithmic, linear] = [
            chart.html(|x| x.to_string()),
            chart.html_on(&Scale::from_zero(&[2.0]), |x| x.to_string()),
        ];
        let below = r#"<p class="scale">part of each run</p>"#;
        assert!(logarithmic.contains(below) && linear.contains(below));
        assert!(logarithmic.contains("upwards: logarithmic") && !linear.contains("logarithmic"));
    }

    #[test]
    fn nothing_from_outside_becomes_markup_and_odd_figures_have_a_place() {
        let points = [1.0, f64::NAN, f64::INFINITY, 0.0, 1e300]
            .map(|figure| (50.0, figure, "</title><script>".to_owned()));
        let stores = ["<b>", "hash", "a", "b", "c", "d", "e", "f", "g"];
        let line = |store| Line::through(store, points.to_vec());
        let chart = LineChart {
            title: "<i>".to_owned(),
            explained: "\"><u>".to_owned(),
            ticks: vec![(0.0, "<s>".to_owned())],
            below: "<p>",
            lines: stores.map(line).into(),
            stores: stores.into(),
        };
        let html = chart.html(|x| format!("{x}<em>"));
        assert!(
            !["<b>", "<i>", "<u>", "<s>", "<p>", "<em>", "<script"]
                .iter()
                .any(|markup| html.contains(markup)),
            "{html}"
        );
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        assert!(html.contains("own-hash") && html.contains("c0 dashed"), "{html}");
        assert_eq!(LineChart { lines: Vec::new(), ..chart }.html(|x| x.to_string()), "");
    }
}
