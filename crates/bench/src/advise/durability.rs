//! Which durability class is advised where nobody asked for one: what each costs, measured with each of our
//! stores that can do the work, and the rule that chooses.
//!
//! The rule: the strongest class in which a store makes at least [`HEADROOM`] times as many changes a second
//! as the use does in its busiest second; where nobody knows how many that are, the strongest. Stores that
//! do not make as many in it are left out. What a power failure takes nobody brings back; what is too slow
//! is seen at once.

use super::candidates::RuledOut;
use super::changing::{CHANGE, SYNC};
use super::class::Class;
use super::figures::{Figure, Figures, Of};
use super::usage::Usage;
use crate::report::pen::{Pen, wrapped};
use crate::report::plain::Table;
use crate::report::text;
use serde::Serialize;
use std::io::{self, Write};

/// Half of the time is left for whatever else is done, and for what comes at once.
const HEADROOM: f64 = 2.0;
/// Changes between two calls of `sync` in the class between the others.
const CHANGES: usize = 100;

/// The classes that are measured.
pub(super) const CLASSES: [Class; 3] = [Class::Buffered, Class::Every(CHANGES), Class::Sync];

/// What changes cost in a class.
#[derive(Debug, Serialize)]
pub(super) struct Cost {
    pub(super) class: Class,
    /// One after the other, as fast as it goes, with all waiting in it.
    pub(super) changes_per_second: f64,
    /// Of a change, or a transaction of several, and of a call of `sync`.
    pub(super) figures: Figures,
    /// What a process that is killed loses of acknowledged changes, and a machine that loses its power.
    pub(super) lost_with_process: &'static str,
    pub(super) lost_with_power: String,
}

/// The class that is advised, and why.
#[derive(Debug, Serialize)]
pub(super) struct Durability {
    pub(super) chosen: Class,
    pub(super) why: String,
    /// Changes in the busiest second of the use, where that is known.
    pub(super) needed_per_second: Option<f64>,
    /// Whether that makes enough changes, as far as it is known how many are needed.
    #[serde(skip)]
    is_enough: bool,
    /// With which store the classes were measured.
    pub(super) store: String,
    /// How many changes were in a transaction.
    pub(super) together: usize,
    pub(super) classes: Vec<Cost>,
}

impl Cost {
    /// From what was measured, in which [`Figure::Build`] is what a change takes with all waiting in it.
    pub(super) fn of(class: Class, mut figures: Figures) -> Cost {
        let ns = figures.remove(&Figure::Build).unwrap_or(0.0);
        Cost {
            class,
            changes_per_second: if ns > 0.0 { 1e9 / ns } else { 0.0 },
            figures,
            lost_with_process: "nothing",
            lost_with_power: class.lost_with_power(),
        }
    }
}

impl Durability {
    /// What is advised by these costs; `None` where nothing was measured.
    pub(super) fn choose(store: String, classes: Vec<Cost>, usage: &Usage) -> Option<Durability> {
        let needed = usage.changes_per_second;
        let (chosen, why, is_enough) = choice(&classes, needed)?;
        let together = usage.changes_together;
        Some(Durability {
            chosen,
            why,
            needed_per_second: needed,
            is_enough,
            store,
            together,
            classes,
        })
    }

    /// Changes a second in a class; none where it was not measured.
    fn rate(&self, class: Class) -> f64 {
        let of_class = self.classes.iter().find(|cost| cost.class == class);
        of_class.map_or(0.0, |cost| cost.changes_per_second)
    }

    /// Prints what was measured, and what is advised.
    pub(super) fn write(&self, out: &mut impl Write, pen: &Pen) -> io::Result<()> {
        let unit = match self.together {
            0 | 1 => "a change".to_owned(),
            changes => format!("{changes} changes"),
        };
        writeln!(out, "\n{}", pen.bold(&format!("What durability costs with {}", self.store)))?;
        let p99 = "p99".to_owned();
        let heads =
            ["durability", "changes a second", &format!("{unit}: p50"), &p99, "sync(): p50", &p99]
                .map(str::to_owned);
        let row = |cost: &Cost| {
            let time = |name: &str, of| {
                let figure = cost.figures.get(&Figure::Time(name.to_owned(), of));
                figure.map_or_else(|| text::NONE.to_owned(), |ns| text::nanoseconds(*ns))
            };
            let times = [(CHANGE, Of::P50), (CHANGE, Of::P99), (SYNC, Of::P50), (SYNC, Of::P99)];
            let first = [cost.class.to_string(), text::per_second(cost.changes_per_second)];
            first.into_iter().chain(times.map(|(name, of)| time(name, of))).collect()
        };
        let rows = self.classes.iter().map(row).collect();
        let table = Table { heads: heads.to_vec(), rows, words: 1 };
        table.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?;
        let lost = |cost: &Cost| format!("{}: {}", cost.class, cost.lost_with_power);
        let lost: Vec<String> = self.classes.iter().map(lost).collect();
        let lost = format!(
            "A process that is killed loses nothing in any of them. What the loss of power takes: {}.",
            lost.join("; ")
        );
        wrapped(out, pen, "  ", &lost)?;
        wrapped(
            out,
            pen,
            "  ",
            &format!("Advised: {}, {}. {}", self.chosen, self.chosen.in_words(), self.why),
        )
    }
}

/// What several stores can do: the class that is advised, and what it costs with each.
pub(super) struct Agreed {
    pub(super) class: Class,
    all: Vec<Durability>,
}

impl Agreed {
    /// The strongest class in which one of them is fast enough; if none is in any, that of the fastest.
    /// `None` of none.
    pub(super) fn of(mut all: Vec<Durability>) -> Option<Agreed> {
        let rate = |of: &Durability| of.rate(of.chosen);
        let enough = all.iter().filter(|of| of.is_enough).map(|of| of.chosen).max();
        let fastest = || all.iter().max_by(|one, other| rate(one).total_cmp(&rate(other)));
        let class = enough.or_else(|| fastest().map(|of| of.chosen))?;
        // One that is too slow in it is left out; where all are, they are alike in that.
        all.iter_mut().for_each(|of| of.chosen = class);
        Some(Agreed { class, all })
    }

    /// What it costs with this store.
    pub(super) fn of_store(&self, name: &str) -> Option<&Durability> {
        self.all.iter().find(|of| of.store == name)
    }

    /// The same, and nothing else.
    pub(super) fn take(self, name: &str) -> Option<Durability> {
        self.all.into_iter().find(|of| of.store == name)
    }

    /// Why this store is too slow in the class, where another is not.
    pub(super) fn too_slow(&self, name: &str) -> Option<RuledOut> {
        let is_enough = |of: &Durability| {
            of.needed_per_second.is_none_or(|needed| of.rate(self.class) >= HEADROOM * needed)
        };
        let of = self.of_store(name).filter(|of| !is_enough(of))?;
        let needed = of.needed_per_second?;
        let why = || {
            format!(
                "with {} it makes {}, and twice the {} of the use's busiest second are wanted",
                self.class.in_words(),
                text::per_second(of.rate(self.class)),
                text::per_second(needed)
            )
        };
        self.all.iter().any(is_enough).then(|| RuledOut::unfit(name.to_owned(), why()))
    }
}

/// The class for this rate of changes, the reason, and whether it is fast enough; `None` without any cost.
fn choice(costs: &[Cost], needed: Option<f64>) -> Option<(Class, String, bool)> {
    let by_class = |one: &&Cost, other: &&Cost| one.class.cmp(&other.class);
    let strongest = costs.iter().max_by(by_class)?;
    let rate = |cost: &Cost| text::per_second(cost.changes_per_second);
    let Some(needed) = needed else {
        return Some((
            strongest.class,
            format!(
                "It loses least, and makes {}. How many changes the use makes is not known: --rate with \
                 those of its busiest second has the strongest class advised that makes twice as many, \
                 --durability asks for one.",
                rate(strongest)
            ),
            true,
        ));
    };
    let is_enough = |cost: &&Cost| cost.changes_per_second >= HEADROOM * needed;
    let needed = text::per_second(needed);
    if let Some(enough) = costs.iter().filter(is_enough).max_by(by_class) {
        let stronger = costs.iter().filter(|cost| cost.class > enough.class).min_by(by_class);
        let beyond = stronger.map_or_else(String::new, |stronger| {
            format!("; {} makes {}", stronger.class, rate(stronger))
        });
        return Some((
            enough.class,
            format!(
                "It is the strongest that makes at least twice the {needed} of the use's busiest second: \
                 {}{beyond}.",
                rate(enough)
            ),
            true,
        ));
    }
    let fastest = costs
        .iter()
        .max_by(|one, other| one.changes_per_second.total_cmp(&other.changes_per_second))?;
    Some((
        fastest.class,
        format!(
            "None makes twice the {needed} of the use's busiest second; this one makes the most: {}.",
            rate(fastest)
        ),
        false,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(per_second: [f64; 3]) -> Vec<Cost> {
        let cost = |(class, per_second): (&Class, f64)| {
            Cost::of(*class, Figures::from([(Figure::Build, 1e9 / per_second)]))
        };
        CLASSES.iter().zip(per_second).map(cost).collect()
    }

    #[test]
    fn the_strongest_that_is_fast_enough_is_chosen() {
        let disk = [1e6, 5e4, 1e3];
        for (needed, chosen) in [
            (None, Class::Sync),
            (Some(0.0), Class::Sync),
            (Some(499.0), Class::Sync),
            (Some(501.0), Class::Every(CHANGES)),
            (Some(24_999.0), Class::Every(CHANGES)),
            (Some(25_001.0), Class::Buffered),
            // Nothing is: the fastest, whatever it promises.
            (Some(1e9), Class::Buffered),
        ] {
            let (found, why, is_enough) = choice(&costs(disk), needed).unwrap();
            assert_eq!(found, chosen, "{needed:?}: {why}");
            assert_eq!(is_enough, needed != Some(1e9), "{needed:?}");
            assert_eq!(why.contains("--rate"), needed.is_none(), "{why}");
        }
        // In whatever order they come, and where noise has the strongest be the fastest.
        let mut turned = costs([900.0, 950.0, 1000.0]);
        turned.reverse();
        assert_eq!(choice(&turned, Some(1e6)).unwrap().0, Class::Sync);
        assert_eq!(choice(&turned, Some(460.0)).unwrap().0, Class::Sync);
    }

    #[test]
    fn classes_that_failed_are_not_chosen() {
        let mut some = costs([1e6, 5e4, 1e3]);
        some.pop();
        assert_eq!(choice(&some, None).unwrap().0, Class::Every(CHANGES));
        assert_eq!(choice(&[], None).map(|(class, ..)| class), None);
        let never = Cost::of(Class::Sync, Figures::new());
        assert_eq!(choice(&[never], Some(1.0)).unwrap().0, Class::Sync);
    }

    #[test]
    fn what_is_stronger_and_too_slow_is_named() {
        let (_, why, _) = choice(&costs([1e6, 5e4, 1e3]), Some(2e3)).unwrap();
        assert!(why.contains("sync makes 1"), "{why}");
    }

    #[test]
    fn one_store_that_is_fast_enough_is_enough_and_others_are_left_out() {
        let agreed = |needed: Option<f64>, all: [[f64; 3]; 2]| {
            let usage = Usage { changes_per_second: needed, ..Usage::only("write") };
            let stores = ["a", "b"].into_iter().zip(all);
            let of =
                |(name, all): (&str, _)| Durability::choose(name.to_owned(), costs(all), &usage);
            Agreed::of(stores.filter_map(of).collect()).unwrap()
        };
        let both = [[1e6, 5e4, 1e3], [1e5, 5e3, 2e3]];
        for (needed, class, left_out) in [
            (None, Class::Sync, [false, false]),
            (Some(400.0), Class::Sync, [false, false]),
            (Some(900.0), Class::Sync, [true, false]),
            (Some(2e3), Class::Every(CHANGES), [false, false]),
            (Some(2e4), Class::Every(CHANGES), [false, true]),
            // Nobody is fast enough: nobody is left out for it.
            (Some(1e9), Class::Buffered, [false, false]),
        ] {
            let agreed = agreed(needed, both);
            assert_eq!(agreed.class, class, "{needed:?}");
            let found = ["a", "b"].map(|name| agreed.too_slow(name).is_some());
            assert_eq!(found, left_out, "{needed:?}");
            assert_eq!(agreed.take("b").map(|of| of.chosen), Some(class));
        }
        assert!(Agreed::of(Vec::new()).is_none());
        assert!(agreed(None, both).too_slow("another").is_none());
    }
}
