//! What came of an experiment: published and measured figures side by side, and what may be said.

use super::lab::{Figures, Noise, is_own};
use crate::driver::Changes;
use crate::report::stats::{Ratio, Verdict as Seen};
use crate::report::text;
use crate::result::Summary;
use serde::{Serialize, Serializer};

/// A ratio that is plain by one round: the noise of a machine that does nothing else is below it. With fewer
/// than three rounds a figure may be so many times as much, or as little.
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
    /// How far a store was from itself, where that was measured.
    pub(super) noise: Vec<Noise>,
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
    pub(super) holds: Holds,
}

/// Whether something is so here, from what weighs most in a line about several figures to what weighs least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum Holds {
    #[serde(rename = "no")]
    No,
    /// Nothing can be said.
    #[serde(rename = "?")]
    Unsaid,
    /// The same store is ahead, but by less than the document says.
    #[serde(rename = "less")]
    Less,
    #[serde(rename = "yes")]
    Yes,
}

impl Holds {
    /// Whether the first of a ratio is ahead, and may be so many times as fast: 1 where nobody says how much.
    pub(super) fn by(ratio: &Ratio, times: f64) -> Holds {
        let is_few = ratio.verdict() == Seen::TooFewRounds;
        let (low, high) = trusted(ratio.low, ratio.high, is_few);
        let seen = match ratio.verdict() {
            Seen::TooFewRounds if low > 1.0 => Seen::Faster,
            Seen::TooFewRounds if high < 1.0 => Seen::Slower,
            seen => seen,
        };
        match seen {
            Seen::Faster if ratio.high >= times => Holds::Yes,
            // As far as so few rounds can be trusted, it may be as much.
            Seen::Faster if high >= times => Holds::Unsaid,
            Seen::Faster => Holds::Less,
            Seen::Slower | Seen::NoDifference => Holds::No,
            Seen::TooFewRounds => Holds::Unsaid,
        }
    }

    /// Whether all of several are so; nothing can be said of none.
    pub(super) fn all(each: impl IntoIterator<Item = Holds>) -> Holds {
        each.into_iter().min().unwrap_or(Holds::Unsaid)
    }

    /// How it is marked.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Holds::Yes => "yes",
            Holds::Less => "less",
            Holds::No => "no",
            Holds::Unsaid => "?",
        }
    }
}

/// What may be taken for the interval of a ratio: more than the figures have where there are few.
pub(super) fn trusted(low: f64, high: f64, is_few: bool) -> (f64, f64) {
    if is_few { (low / PLAIN, high * PLAIN) } else { (low, high) }
}

impl Verdict {
    /// On what the document says: that `fast` is so many times as fast as `slow`, or with 1 that it is
    /// faster.
    pub(super) fn on_claim(
        about: impl Into<String>,
        figures: &Figures,
        (fast, slow): (&str, &str),
        name: &str,
        times: f64,
    ) -> Verdict {
        let about = about.into();
        let Some(ratio) = figures.ratio(fast, slow, name) else {
            let here = "not measured here".to_owned();
            return Verdict { about, here, holds: Holds::Unsaid };
        };
        let is_few = ratio.verdict() == Seen::TooFewRounds;
        let holds = Holds::by(&ratio, times);
        let word = match holds {
            Holds::Yes if is_few => "it holds, by so few rounds",
            Holds::Yes => "it holds",
            Holds::Less => "it is ahead, but by less",
            Holds::No if ratio.verdict() != Seen::NoDifference => "it does not hold here",
            Holds::No => "no difference is seen here",
            Holds::Unsaid => "too few rounds to say",
        };
        Verdict { about, here: format!("here {}: {word}", in_words(&ratio)), holds }
    }

    /// On the best of our engines against the best of the rivals, as [`Pair::of`] has them.
    pub(super) fn on_ours(
        what: impl Into<String>,
        figures: &Figures,
        stores: &[&str],
        name: &str,
        classes: &Classes,
    ) -> Option<Verdict> {
        let Some(pair) = Pair::of(figures, stores, name, classes) else {
            let own: Vec<&str> = stores.iter().copied().filter(|store| is_own(store)).collect();
            let best = figures.lowest(&own, name)?;
            let here = format!("{best} is the fastest of ours; no rival was measured");
            return Some(Verdict { about: what.into(), here, holds: Holds::Unsaid });
        };
        let ratio = figures.ratio(pair.own, pair.rival, name)?;
        let (own, rival, times) = (pair.own, pair.rival, in_words(&ratio));
        let here = match pair.classes {
            None => format!("{own} is {times} as {rival}, the fastest rival"),
            Some((of_own, of_rival)) => {
                format!("{own} ({of_own}) is {times} as {rival} ({of_rival}), the fastest rival")
            }
        };
        Some(Verdict { about: what.into(), here, holds: pair.holds(&ratio) })
    }
}

/// The durability classes of changes, by store; none where nothing is changed while it is timed.
#[derive(Debug, Default)]
pub(super) struct Classes(pub(super) Vec<(&'static str, Changes)>);

impl Classes {
    fn of(&self, store: &str) -> Option<Changes> {
        self.0.iter().find(|(of, _)| *of == store).map(|(_, class)| *class)
    }
}

/// The best of our engines and the best of the rivals.
pub(super) struct Pair<'s> {
    pub(super) own: &'s str,
    pub(super) rival: &'s str,
    /// The classes of both where they differ.
    pub(super) classes: Option<(&'static str, &'static str)>,
    /// Whether changes of ours are at least as safe.
    is_as_safe: bool,
}

impl<'s> Pair<'s> {
    /// Both by the lowest median; of ours only those whose changes are at least as safe as the rival's, unless
    /// there are none. A store that is built once is in no class: it is closed when it was timed.
    pub(super) fn of(
        figures: &Figures,
        stores: &[&'s str],
        name: &str,
        classes: &Classes,
    ) -> Option<Pair<'s>> {
        let (own, rivals): (Vec<&str>, Vec<&str>) = stores.iter().partition(|s| is_own(s));
        let rival = figures.lowest(&rivals, name)?;
        let wanted = classes.of(rival);
        let is_safe = |store: &str| match (classes.of(store), wanted) {
            (Some(own), Some(rival)) => own.strength() >= rival.strength(),
            _ => true,
        };
        let safe: Vec<&str> = own.iter().copied().filter(|store| is_safe(store)).collect();
        let best = figures.lowest(&safe, name);
        let own = best.or_else(|| figures.lowest(&own, name))?;
        let both = classes.of(own).zip(wanted).filter(|(own, rival)| own != rival);
        let classes = both.map(|(own, rival)| (own.class(), rival.class()));
        Some(Pair { own, rival, classes, is_as_safe: best.is_some() })
    }

    /// Whether ours is ahead; of changes that are less safe that says nothing.
    pub(super) fn holds(&self, ratio: &Ratio) -> Holds {
        if self.is_as_safe { Holds::by(ratio, 1.0) } else { Holds::Unsaid }
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

    /// Three rounds in which `fast` takes a second and `slow` as many as these.
    fn figures(slow: &[f64]) -> Figures {
        let mut figures = Figures::default();
        for (round, seconds) in slow.iter().enumerate() {
            figures.add("fast", "get", round, 1.0);
            figures.add("slow", "get", round, *seconds);
        }
        figures
    }

    #[test]
    fn verdicts_say_what_was_seen() {
        let mut figures = Figures::default();
        for round in 0..3 {
            figures.add("constant", "get", round, 1.0);
            figures.add("mcdb", "get", round, 2.0);
            figures.add("cdb", "get", round, 4.0 + round as f64);
        }
        let on = |pair| Verdict::on_claim("so", &figures, pair, "get", 1.0);
        assert_eq!((on(("mcdb", "cdb")).holds, on(("cdb", "mcdb")).holds), (Holds::Yes, Holds::No));
        assert_eq!(
            on(("mcdb", "mcdb")).here,
            "here 1.00 times as fast (1.00 to 1.00): no difference is seen here"
        );
        assert_eq!(on(("mcdb", "tdb")).holds, Holds::Unsaid);
        let stores = ["constant", "cdb", "mcdb"];
        let ours = Verdict::on_ours("gets", &figures, &stores, "get", &Classes::default()).unwrap();
        assert!(ours.here.starts_with("constant is 2.00 times as fast (2.00 to 2.00) as mcdb"));
        let none = Verdict::on_ours("gets", &figures, &["cdb"], "get", &Classes::default());
        assert!(none.is_none());
    }

    #[test]
    fn who_is_ahead_by_less_than_was_published_is_told_so() {
        let on = |slow: &[f64], times| {
            Verdict::on_claim("so", &figures(slow), ("fast", "slow"), "get", times)
        };
        let less = on(&[1.2, 1.1, 1.3], 4.0);
        let here = "here 1.20 times as fast (1.10 to 1.30): it is ahead, but by less";
        assert_eq!((less.holds, &*less.here), (Holds::Less, here));
        assert_eq!(serde_json::to_value(&less).unwrap()["holds"], "less");
        for (slow, times, holds) in [
            (&[1.2, 1.1, 1.3][..], 1.3, Holds::Yes),
            (&[3.5, 3.9, 4.1], 4.0, Holds::Yes),
            (&[0.9, 3.9, 4.1], 4.0, Holds::No),
            // Of one round twice as much or as little may be true.
            (&[1.9], 1.0, Holds::Unsaid),
            (&[2.1], 1.0, Holds::Yes),
            (&[2.1], 2.0, Holds::Yes),
            (&[2.1], 4.0, Holds::Unsaid),
            (&[2.1], 4.3, Holds::Less),
            (&[0.6], 1.0, Holds::Unsaid),
            (&[0.4], 1.0, Holds::No),
        ] {
            assert_eq!(on(slow, times).holds, holds, "{slow:?} of {times}");
        }
        assert_eq!(Holds::all([Holds::Yes, Holds::Less]), Holds::Less);
        assert_eq!(Holds::all([Holds::Less, Holds::Unsaid, Holds::Yes]), Holds::Unsaid);
        assert_eq!(Holds::all([]), Holds::Unsaid);
    }

    #[test]
    fn changes_that_are_less_safe_do_not_win() {
        let mut figures = Figures::default();
        for round in 0..3 {
            for (store, seconds) in [("btree", 1.0), ("hash", 2.0), ("tdb", 3.0), ("lmdb", 4.0)] {
                figures.add(store, "insert", round, seconds);
            }
        }
        let (buffered, closed) = (Changes::Buffered, Changes::AtClose);
        let classes = Classes(vec![
            ("btree", closed),
            ("hash", buffered),
            ("tdb", buffered),
            ("lmdb", closed),
        ]);
        let on = |stores: &[&str]| {
            let verdict = Verdict::on_ours("so", &figures, stores, "insert", &classes).unwrap();
            (verdict.holds, verdict.here)
        };
        let (holds, here) = on(&["btree", "hash", "tdb"]);
        assert!(holds == Holds::Yes && here.starts_with("hash is 1.50 times"), "{here}");
        // There is nothing else to show; that both are not alike is said.
        let (holds, here) = on(&["btree", "tdb"]);
        assert!(holds == Holds::Unsaid && here.starts_with("btree (at-close) is 3.00"), "{here}");
        assert!(here.ends_with("as tdb (buffered), the fastest rival"), "{here}");
        let (holds, here) = on(&["btree", "lmdb"]);
        assert!(holds == Holds::Yes && here.starts_with("btree is 4.00 times"), "{here}");
        let (holds, here) = on(&["hash", "lmdb"]);
        assert!(holds == Holds::Yes && here.starts_with("hash (buffered) is 2.00"), "{here}");
    }
}
