//! Loads that a script begins with, as what a store is built of: for stores that are built once, and wherever
//! it counts what is done with a store that has its records.
//!
//! A load is a transaction, or several of several records each, that puts records in and does nothing else; the
//! last of them may have one record, as what is left.
//! What a scan read meanwhile, as of a store that the records came from, cannot be done before there is a store.

use super::script::{Do, Script, Step};
use std::collections::BTreeMap;

impl Script {
    /// How many steps at the beginning are loads; 0 if it begins with none.
    pub(crate) fn loads(&self) -> usize {
        let all = self.leading_transactions();
        // Who commits each record by itself writes, and loads nothing.
        let larger = all.iter().take_while(|(records, _)| *records != 1).count();
        let count = if larger + 1 == all.len() { all.len() } else { larger };
        let loads = &all[..count];
        match loads.last() {
            Some((_, end)) if loads.iter().any(|(records, _)| *records > 0) => *end,
            _ => 0,
        }
    }

    /// Transactions that do nothing but insert, before anything else is done: how many records each has, and behind
    /// which step it ends.
    fn leading_transactions(&self) -> Vec<(usize, usize)> {
        let (mut all, mut within) = (Vec::new(), None);
        for (i, step) in self.steps.iter().enumerate() {
            match (step.what, within.as_mut()) {
                (Do::Begin, _) => within = Some(0),
                (Do::Insert, Some(inserted)) => *inserted += 1,
                (Do::Commit, Some(inserted)) => {
                    all.push((*inserted, i + 1));
                    within = None;
                }
                (Do::Scan, _) => {}
                _ => break,
            }
        }
        all
    }

    /// Whether all that it changes is loaded before anything else is done.
    pub(crate) fn is_loaded_first(&self) -> bool {
        let loads = self.loads();
        loads > 0 && !self.steps[loads..].iter().any(|step| step.what.is_change())
    }

    /// The same with what it loads first as what a store is built of, and no step of it left.
    pub(crate) fn built(mut self) -> Script {
        let rest = self.steps.split_off(self.loads());
        let loads = std::mem::replace(&mut self.steps, rest);
        let is = |what| move |step: &&Step| step.what == what;
        // Of several values of a key the last stays.
        let stored = loads.iter().filter(is(Do::Insert));
        let stored = stored.filter_map(|step| Some((step.key?, step.value_len)));
        self.loaded = stored.collect::<BTreeMap<u32, u32>>().into_iter().collect();
        self.scans_before = loads.iter().filter(is(Do::Scan)).count() as u64;
        let first = self.steps.first().map_or(0, |step| step.time);
        self.steps.iter_mut().for_each(|step| step.time = step.time.saturating_sub(first));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step for each letter, and for each number an insert of a key with this number.
    fn script(steps: &str) -> Script {
        let step = |(i, letter): (usize, char)| {
            let key = letter.to_digit(10);
            let what = match letter {
                'b' => Do::Begin,
                'c' => Do::Commit,
                's' => Do::Scan,
                'g' => Do::Get,
                'r' => Do::Remove,
                _ => Do::Insert,
            };
            let (time, value_len) = (i as u64, i as u32);
            Step { time, what, key, value_len, items: 0, was_there: None }
        };
        Script { steps: steps.chars().enumerate().map(step).collect(), ..Script::default() }
    }

    #[test]
    fn what_is_loaded_first_is_no_step_of_a_store_that_is_built() {
        let built = script("bs121cgg").built();
        assert_eq!(built.loaded, [(1, 4), (2, 3)]);
        assert_eq!((built.scans_before, built.steps.len()), (1, 2));
        assert_eq!(built.steps.iter().map(|step| step.time).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_load_is_what_only_puts_in_several_records_at_once() {
        for (steps, loads, is_all) in [
            ("b12cb34cgs", 8, true),
            ("b12cgb3c", 4, false),
            ("b12cr", 4, false),
            ("b1cg", 3, true),
            ("b1cb2cg", 0, false),
            ("b12cb3cg", 7, true),
            ("b12cb3cb4cg", 4, false),
            ("bcb1cg", 5, true),
            ("12g", 0, false),
            ("b12", 0, false),
            ("gb12c", 0, false),
            ("bcg", 0, false),
            ("", 0, false),
        ] {
            let script = script(steps);
            assert_eq!((script.loads(), script.is_loaded_first()), (loads, is_all), "{steps}");
        }
    }
}
