//! What came of an experiment: published and measured figures side by side, and what may be said.

use super::lab::{Figures, is_own};
use crate::report::stats::{Ratio, Verdict as Seen};
use crate::report::text;
use crate::result::Summary;
use serde::{Serialize, Serializer};

/// A ratio that is plain by one round: the noise of a machine that does nothing else is below it.
const PLAIN: f64 = 2.0;

/// One document's experiment.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// The name on the command line.
    pub(super) document: &'static str,
    /// What the document is, and where.
    pub(super) source: &'static str,
    /// The machine that it was measured on, as far as the document says.
    pub(super) hardware: &'static str,
    /// When, as far as the document says.
    pub(super) year: &'static str,
    /// In what the experiment here is another one.
    pub(super) differs: Vec<String>,
    pub(super) tables: Vec<Table>,
    pub(super) verdicts: Vec<Verdict>,
}

/// Blocks of columns beside each other over the same rows.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) blocks: Vec<Block>,
    pub(super) rows: Vec<Row>,
}

/// What one source says: a document on one machine, or this run.
#[derive(Debug, Serialize)]
pub(super) struct Block {
    pub(super) title: String,
    pub(super) columns: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) label: String,
    /// For each block its cells; none where it has no such row. A row without blocks is a heading
    /// over those that follow.
    pub(super) cells: Vec<Vec<Cell>>,
}

/// A figure, or none.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    None,
    /// As it stands in the document.
    Published(&'static str),
    Measured(Summary),
    /// What follows from measured figures.
    Derived(String),
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::None => to.serialize_none(),
            Cell::Published(text) => to.serialize_str(text),
            Cell::Derived(text) => to.serialize_str(text),
            Cell::Measured(summary) => summary.serialize(to),
        }
    }
}

impl Cell {
    pub(super) fn text(&self) -> String {
        match self {
            Cell::None => text::NONE.to_owned(),
            Cell::Published(text) => (*text).to_owned(),
            Cell::Derived(text) => text.clone(),
            Cell::Measured(summary) => text::number(summary.median),
        }
    }

    /// The cells of one row of a document, as they stand there; an empty one has no figure.
    pub(super) fn published(texts: &[&'static str]) -> Vec<Cell> {
        let cell = |text: &&'static str| match *text {
            "" => Cell::None,
            text => Cell::Published(text),
        };
        texts.iter().map(cell).collect()
    }

    /// The figures of these names that a store has.
    pub(super) fn measured(figures: &Figures, store: &str, names: &[&str]) -> Vec<Cell> {
        let cell = |name: &&str| figures.get(store, name).map_or(Cell::None, Cell::Measured);
        names.iter().map(cell).collect()
    }
}

/// The number in a published figure: `21` in `~21`, `0.37` in `< 0.37`, `165` in `2m 45s`.
#[cfg(test)]
pub(super) fn number_in(text: &str) -> Option<f64> {
    if let Some((minutes, seconds)) = text.split_once("m ") {
        let seconds = seconds.strip_suffix('s')?.parse::<f64>().ok()?;
        return Some(number_in(minutes)? * 60.0 + seconds);
    }
    let text = text.trim_start_matches(['~', '>', '<', ' ']);
    let text = text.trim_end_matches(['%', 's', '/', ' ']);
    text.parse().ok()
}

impl Table {
    pub(super) fn new(title: impl Into<String>) -> Table {
        Table { title: title.into(), blocks: Vec::new(), rows: Vec::new() }
    }

    /// With one more block.
    pub(super) fn block(mut self, title: impl Into<String>, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        self.blocks.push(Block { title: title.into(), columns });
        self
    }

    pub(super) fn row(&mut self, label: impl Into<String>, cells: Vec<Vec<Cell>>) {
        self.rows.push(Row { label: label.into(), cells });
    }
}

/// What the document says, and what is seen here.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    /// What the document says, or what is asked of our engines.
    pub(super) about: String,
    /// What this run says to it.
    pub(super) here: String,
    /// Whether it holds; `None` where that cannot be said.
    pub(super) holds: Option<bool>,
}

impl Verdict {
    /// On what the document says: that `fast` is faster than `slow`.
    pub(super) fn on_claim(
        about: impl Into<String>,
        figures: &Figures,
        (fast, slow): (&str, &str),
        name: &str,
    ) -> Verdict {
        let about = about.into();
        let Some(ratio) = figures.ratio(fast, slow, name) else {
            let here = "not measured here".to_owned();
            return Verdict { about, here, holds: None };
        };
        let (holds, word) = match ratio.verdict() {
            Seen::Faster => (Some(true), "it holds"),
            Seen::Slower => (Some(false), "it does not hold here"),
            Seen::NoDifference => (Some(false), "no difference is seen here"),
            Seen::TooFewRounds if ratio.low > PLAIN => (Some(true), "it holds, by so few rounds"),
            Seen::TooFewRounds => (None, "too few rounds to say"),
        };
        Verdict { about, here: format!("here {}: {word}", in_words(&ratio)), holds }
    }

    /// On the best of our engines against the best of the rivals, both by the lowest median.
    pub(super) fn on_ours(
        what: impl Into<String>,
        figures: &Figures,
        stores: &[&str],
        name: &str,
    ) -> Option<Verdict> {
        let (own, rivals): (Vec<&str>, Vec<&str>) = stores.iter().partition(|s| is_own(s));
        let best = figures.lowest(&own, name)?;
        let Some(rival) = figures.lowest(&rivals, name) else {
            let here = format!("{best} is the fastest of ours; no rival was measured");
            return Some(Verdict { about: what.into(), here, holds: None });
        };
        let ratio = figures.ratio(best, rival, name)?;
        let here = format!("{best} is {} as {rival}, the fastest rival", in_words(&ratio));
        Some(Verdict { about: what.into(), here, holds: is_faster(&ratio) })
    }
}

/// Whether the first of a ratio is seen to be faster; `None` where too few rounds do not say.
pub(super) fn is_faster(ratio: &Ratio) -> Option<bool> {
    match ratio.verdict() {
        Seen::Faster => Some(true),
        Seen::Slower | Seen::NoDifference => Some(false),
        Seen::TooFewRounds => (ratio.low > PLAIN).then_some(true),
    }
}

/// Those of `all` that a table has a row for: what is here, and what the document has figures of.
pub(super) fn rows<'s>(all: &[&'s str], here: &[&str], published: &[&str]) -> Vec<&'s str> {
    let is_shown = |store: &&&str| here.contains(*store) || published.contains(*store);
    all.iter().filter(is_shown).copied().collect()
}

/// A ratio with its interval: `3.21 times as fast (3.05 to 3.38)`.
pub(super) fn in_words(ratio: &Ratio) -> String {
    let [median, low, high] = [ratio.median, ratio.low, ratio.high].map(text::number);
    match ratio.pairs {
        1 => format!("{median} times as fast (one round)"),
        _ => format!("{median} times as fast ({low} to {high})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_what_was_published() {
        for (text, number) in
            [("~21", 21.0), ("2m 45s", 165.0), ("< 0.37", 0.37), ("-63%", -63.0), ("3882", 3882.0)]
        {
            assert_eq!(number_in(text), Some(number), "{text}");
        }
        assert_eq!(number_in("fast"), None);
    }

    #[test]
    fn verdicts_say_what_was_seen() {
        let mut figures = Figures::default();
        for round in 0..3 {
            figures.add("constant", "get", round, 1.0);
            figures.add("mcdb", "get", round, 2.0);
            figures.add("cdb", "get", round, 4.0 + round as f64);
        }
        let on = |pair| Verdict::on_claim("so", &figures, pair, "get");
        assert_eq!(
            (on(("mcdb", "cdb")).holds, on(("cdb", "mcdb")).holds),
            (Some(true), Some(false))
        );
        assert_eq!(
            on(("mcdb", "mcdb")).here,
            "here 1.00 times as fast (1.00 to 1.00): no difference is seen here"
        );
        assert_eq!(on(("mcdb", "tdb")).holds, None);
        let ours = Verdict::on_ours("gets", &figures, &["constant", "cdb", "mcdb"], "get").unwrap();
        assert!(ours.here.starts_with("constant is 2.00 times as fast (2.00 to 2.00) as mcdb"));
        assert!(Verdict::on_ours("gets", &figures, &["cdb"], "get").is_none());
    }
}
