//! Charts as static SVG: they need no script, follow the width they are given, and print.
//!
//! A chart is a list of rows. The name and the figure of a row are text of the page, so that they
//! wrap, can be selected and are read aloud; between them stands one small SVG whose horizontal
//! places are per cent, so that a chart on a phone keeps its text size. Rows share a [`Scale`],
//! and grid lines at equal places join to columns.

use super::text;
use std::fmt::Write;

/// More than this between the smallest and the largest figure, and the scale is logarithmic.
const LINEAR_UP_TO: f64 = 100.0;
/// The least distance of two ticks in per cent, so that their labels do not meet on a phone.
const TICKS_APART: f64 = 20.0;
/// How wide a digit of a label is, in pixels, and the least that is between two labels.
const CHARACTER: f64 = 6.6;
const LABELS_APART: f64 = 6.0;
const ROW_HEIGHT: u32 = 34;
/// The middle of the row.
const MIDDLE: u32 = 17;
/// The middle of a bar that has samples below it.
const ABOVE_SAMPLES: u32 = 13;
const SAMPLES: u32 = 26;

/// Where a figure stands between left (0 %) and right (100 %).
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// From zero, in equal steps, unless the figures lie too far apart for that. Figures that
    /// are not finite or not above zero do not count.
    pub fn fitting(figures: &[f64]) -> Scale {
        let (low, high) = bounds(figures);
        if high / low > LINEAR_UP_TO {
            Scale { low: low / 1.6, high: high * 1.1, log: true }
        } else {
            Scale::from_zero(figures)
        }
    }

    /// From zero, in equal steps, whatever the figures are.
    pub fn from_zero(figures: &[f64]) -> Scale {
        Scale { low: 0.0, high: bounds(figures).1 * 1.04, log: false }
    }

    /// Logarithmic, with room left and right of the figures, and wide enough for a tick.
    pub fn logarithmic(figures: &[f64]) -> Scale {
        let (low, high) = bounds(figures);
        let room = (3.0 / (high / low)).sqrt().max(1.15);
        Scale { low: low / room, high: high * room, log: true }
    }

    /// Whether equal distances mean equal factors.
    pub fn is_logarithmic(&self) -> bool {
        self.log
    }

    /// The place of a figure in per cent; beyond the ends it stays at the end.
    pub fn place(&self, figure: f64) -> f64 {
        let part = if self.log {
            (figure.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            figure / self.high
        };
        if part.is_finite() { part.clamp(0.0, 1.0) * 100.0 } else { 0.0 }
    }

    /// Round figures to put grid lines at, few enough for a narrow page.
    pub fn ticks(&self) -> Vec<f64> {
        let fits = |x: &f64| (self.low..=self.high).contains(x);
        if !self.log {
            let power = 10_f64.powf((self.high / 5.0).log10().floor());
            let steps = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
            let step = steps.into_iter().find(|s| self.high / s <= 5.0).unwrap_or(steps[3]);
            return (0..=5).map(|i| f64::from(i) * step).filter(fits).collect();
        }
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        for digits in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0]] {
            let all = decades.clone().flat_map(|d| digits.iter().map(move |n| n * 10_f64.powi(d)));
            let ticks: Vec<f64> = all.filter(fits).collect();
            let apart = |pair: &[f64]| self.place(pair[1]) - self.place(pair[0]) >= TICKS_APART;
            if !ticks.is_empty() && ticks.windows(2).all(apart) {
                return ticks;
            }
        }
        let ticks: Vec<f64> = decades.map(|d| 10_f64.powi(d)).filter(fits).collect();
        let every = (ticks.len() as f64 * TICKS_APART / 100.0).ceil().max(1.0);
        ticks.into_iter().step_by(every as usize).collect()
    }
}

/// Smallest and largest figure that can be drawn; 1 and 1 if there is none.
fn bounds(figures: &[f64]) -> (f64, f64) {
    // Beyond these a figure is no measurement, and its square would leave the range of f64.
    let drawn = figures.iter().copied().filter(|x| (1e-100..1e100).contains(x));
    let (low, high) = drawn.fold((f64::MAX, 0.0_f64), |(l, h), x| (l.min(x), h.max(x)));
    if high == 0.0 { (1.0, 1.0) } else { (low, high) }
}

/// One row's drawing.
pub struct Row {
    marks: String,
    label: String,
    /// The height at which a bar has its middle.
    bar: u32,
}

impl Row {
    /// A row with grid lines at the scale's ticks; `label` says in words what is drawn.
    pub fn new(scale: &Scale, label: &str) -> Row {
        let mut row = Row { marks: String::new(), label: escape(label), bar: MIDDLE };
        for tick in scale.ticks() {
            row.upright("grid", scale.place(tick), 0, ROW_HEIGHT);
        }
        row
    }

    /// The same with bars a little higher, to leave room for samples.
    pub fn with_samples(scale: &Scale, label: &str) -> Row {
        Row { bar: ABOVE_SAMPLES, ..Row::new(scale, label) }
    }

    /// A bar between two figures.
    pub fn bar(&mut self, scale: &Scale, from: f64, to: f64, class: &str) {
        let (a, b) = (scale.place(from), scale.place(to));
        let (left, wide, top) = (a.min(b), (a - b).abs().max(0.3), self.bar - 5);
        let _ = write!(
            self.marks,
            r#"<rect class="bar {class}" x="{left:.2}%" y="{top}" width="{wide:.2}%" height="10" rx="1"/>"#
        );
    }

    /// An interval as a line with ends, over the bar.
    pub fn whisker(&mut self, scale: &Scale, low: f64, high: f64) {
        let (a, b) = (scale.place(low), scale.place(high));
        let middle = self.bar;
        self.level("whisker", a, b, middle);
        self.upright("whisker", a, middle - 4, middle + 4);
        self.upright("whisker", b, middle - 4, middle + 4);
    }

    /// A thin line between two figures.
    pub fn line(&mut self, scale: &Scale, from: f64, to: f64, class: &str) {
        self.level(class, scale.place(from), scale.place(to), MIDDLE);
    }

    /// A dot below the bar, with words of its own.
    pub fn sample(&mut self, scale: &Scale, figure: f64, outlier: bool, title: &str) {
        let class = if outlier { "dot out" } else { "dot" };
        self.dot(scale, figure, SAMPLES, class, title);
    }

    /// A dot in the middle of the row, with words of its own.
    pub fn point(&mut self, scale: &Scale, figure: f64, class: &str, title: &str) {
        self.dot(scale, figure, MIDDLE, class, title);
    }

    /// A line from top to bottom at a figure that others are to be seen against.
    pub fn reference(&mut self, scale: &Scale, figure: f64) {
        self.upright("reference", scale.place(figure), 0, ROW_HEIGHT);
    }

    /// The finished drawing.
    pub fn svg(&self) -> String {
        format!(
            r#"<svg class="plot" height="{ROW_HEIGHT}" role="img"><title>{}</title>{}</svg>"#,
            self.label, self.marks
        )
    }

    fn dot(&mut self, scale: &Scale, figure: f64, y: u32, class: &str, title: &str) {
        let (x, title) = (scale.place(figure), escape(title));
        let _ = write!(
            self.marks,
            r#"<circle class="{class}" cx="{x:.2}%" cy="{y}" r="2.5"><title>{title}</title></circle>"#
        );
    }

    fn upright(&mut self, class: &str, x: f64, top: u32, bottom: u32) {
        // The top of the drawing is where a line begins that does not say so.
        let top = if top > 0 { format!(r#" y1="{top}""#) } else { String::new() };
        let _ = write!(
            self.marks,
            r#"<line class="{class}" x1="{x:.2}%" x2="{x:.2}%"{top} y2="{bottom}"/>"#
        );
    }

    fn level(&mut self, class: &str, from: f64, to: f64, y: u32) {
        let _ = write!(
            self.marks,
            r#"<line class="{class}" x1="{from:.2}%" x2="{to:.2}%" y1="{y}" y2="{y}"/>"#
        );
    }
}

/// The labels below a chart's rows, which are never narrower than so many pixels.
pub fn axis(scale: &Scale, narrowest: f64, label: impl Fn(f64) -> String) -> String {
    let tick =
        |tick: f64| (scale.place(tick), if tick == 0.0 { "0".to_owned() } else { label(tick) });
    let ticks: Vec<(f64, String)> = scale.ticks().into_iter().map(tick).collect();
    labels(&ticks, narrowest)
}

/// The labels of an axis: places in per cent, in ascending order, and words. Where all of them would touch
/// on an axis that is `narrowest`, in pixels, there is every second one, or third; where it is wider they are
/// further apart.
pub fn labels(ticks: &[(f64, String)], narrowest: f64) -> String {
    let every = (1..ticks.len()).find(|every| are_apart(ticks.iter().step_by(*every), narrowest));
    let mut labels = String::new();
    for (x, label) in ticks.iter().step_by(every.unwrap_or(ticks.len().max(1))) {
        let (anchor, label) = (anchor(*x).0, escape(label));
        let _ = write!(labels, r#"<text x="{x:.2}%" y="12" text-anchor="{anchor}">{label}</text>"#);
    }
    format!(r#"<svg class="axis" height="18" aria-hidden="true">{labels}</svg>"#)
}

/// The side of a label that is at its place, and the part of its width that is left of that.
fn anchor(x: f64) -> (&'static str, f64) {
    match x {
        x if x < 6.0 => ("start", 0.0),
        x if x > 94.0 => ("end", 1.0),
        _ => ("middle", 0.5),
    }
}

fn are_apart<'a>(ticks: impl Iterator<Item = &'a (f64, String)>, narrowest: f64) -> bool {
    let mut end = f64::NEG_INFINITY;
    let is_apart = |(x, label): &'_ (f64, String)| {
        let wide = label.chars().count() as f64 * CHARACTER;
        let left = x / 100.0 * narrowest - anchor(*x).1 * wide;
        let is_apart = left >= end + LABELS_APART;
        end = left + wide;
        is_apart
    };
    ticks.into_iter().all(is_apart)
}

/// What is found by its name, and opened by who wants it: tables behind others, and charts that are most of a
/// page. Empty where there is nothing to open.
pub fn folded(summary: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<details><summary>{}</summary>{content}</details>", escape(summary))
}

/// Text as it may stand in an element or a quoted attribute, with control characters replaced.
pub fn escape(outside: &str) -> String {
    let mut safe = String::with_capacity(outside.len());
    for c in text::clean(outside).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_figures_start_at_zero_and_far_ones_are_logarithmic() {
        let near = Scale::fitting(&[10.0, 100.0]);
        assert!(!near.is_logarithmic());
        assert_eq!(near.place(0.0), 0.0);
        assert!((near.place(52.0) - 50.0).abs() < 1e-9);
        assert_eq!(near.ticks(), [0.0, 50.0, 100.0]);
        assert_eq!(Scale::fitting(&[900.0]).ticks(), [0.0, 200.0, 400.0, 600.0, 800.0]);
        let far = Scale::fitting(&[1.6, 1000.0]);
        assert!(far.is_logarithmic());
        assert!((far.place(33.166_247_9) - 50.0).abs() < 1e-6);
        assert_eq!(far.ticks(), [1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn every_figure_has_a_place() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-308, 1e308, 5.0, f64::NEG_INFINITY];
        let sets: [&[f64]; 5] = [&odd, &[], &[0.0], &[1e-99, 1e99], &[7.0]];
        for figures in sets {
            for scale in [Scale::fitting(figures), Scale::logarithmic(figures)] {
                for figure in odd {
                    assert!((0.0..=100.0).contains(&scale.place(figure)), "{figure}");
                }
                let ticks = scale.ticks();
                assert!((1..=7).contains(&ticks.len()), "{figures:?}: {ticks:?}");
                assert!(ticks.is_sorted());
            }
        }
    }

    #[test]
    fn labels_keep_apart() {
        for high in 1..400 {
            let scale = Scale::logarithmic(&[3.0, 3.0 * f64::from(high)]);
            let places: Vec<f64> = scale.ticks().into_iter().map(|t| scale.place(t)).collect();
            assert!(places.windows(2).all(|p| p[1] - p[0] >= 20.0), "{high}: {places:?}");
        }
    }

    /// The boxes of the labels that are drawn, however narrow the axis.
    #[test]
    fn labels_do_not_touch() {
        for (high, narrowest) in (1..2000).flat_map(|n| [(n, 125.0), (n, 235.0)]) {
            let scale = Scale::fitting(&[f64::from(high) * 3.7]);
            let drawn = axis(&scale, narrowest, |x| text::round(&text::nanoseconds(x)));
            let mut last = -1e9;
            for label in drawn.split("<text x=\"").skip(1) {
                let (place, rest) = label.split_once('%').unwrap();
                let words = rest.split_once('>').unwrap().1.split_once('<').unwrap().0;
                let at = place.parse::<f64>().unwrap() / 100.0 * narrowest;
                let wide = words.chars().count() as f64 * CHARACTER;
                let left = match rest {
                    rest if rest.contains("\"start") => at,
                    rest if rest.contains("\"end") => at - wide,
                    _ => at - wide / 2.0,
                };
                assert!(left >= last + 5.0, "{high}, {narrowest}: {drawn}");
                last = left + wide;
            }
            assert!(drawn.matches("<text").count() >= 2, "{drawn}");
        }
    }

    #[test]
    fn ratios_have_ticks_on_both_sides_of_one() {
        let scale = Scale::logarithmic(&[0.7, 1.0, 11.0]);
        assert_eq!(scale.ticks(), [1.0, 2.0, 5.0, 10.0]);
        assert!(scale.place(0.7) < scale.place(1.0));
    }

    #[test]
    fn nothing_from_outside_becomes_markup() {
        assert_eq!(
            escape(r#"<a href='x'>&"</a>"#),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;&lt;/a&gt;"
        );
        let mut row = Row::new(&Scale::fitting(&[1.0]), "\"><script>");
        row.sample(&Scale::fitting(&[1.0]), 1.0, false, "</title><b>");
        assert!(!row.svg().contains("<script") && !row.svg().contains("<b>"));
    }
}
