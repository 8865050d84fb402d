//! A part of a script: what is done with some of its keys, in the order in which it was.
//!
//! The keys are runs of neighbours in their order, spread evenly over all. So a key is asked for as often
//! as in the whole, and neighbours have as much in common.

use super::script::{Do, Script, Step};
use crate::workload::are_in_part;

impl Script {
    /// What of it is about one key of so many. Of what is about no key, one of so many; a transaction with
    /// nothing left in it is none.
    pub(crate) fn part(self, one_of: usize) -> Script {
        if one_of <= 1 {
            return self;
        }
        let mut part = Part::with_keys(&self, one_of);
        self.steps.iter().for_each(|step| part.add(&self, *step));
        part.script
    }
}

/// A part in the making.
struct Part {
    script: Script,
    one_of: usize,
    /// The number that each key of the whole has in the part.
    numbers: Vec<Option<u32>>,
    /// The beginning of a transaction, as long as nothing of it is in the part.
    begin: Option<Step>,
    /// Steps of the whole that are about no key.
    without_key: usize,
}

impl Part {
    /// One with its keys, and no steps yet.
    fn with_keys(whole: &Script, one_of: usize) -> Part {
        let mut order: Vec<u32> = (0..whole.keys.len() as u32).collect();
        order.sort_unstable_by(|one, other| whole.key(*one).cmp(whole.key(*other)));
        let is_in_part = are_in_part(&order, one_of);
        let mut script = Script {
            entries: whole.entries,
            span: whole.span,
            told: whole.told.clone(),
            scans_before: whole.scans_before,
            ..Script::default()
        };
        let mut numbers = vec![None; whole.keys.len()];
        for (key, number) in numbers.iter_mut().enumerate().filter(|(key, _)| is_in_part[*key]) {
            *number = Some(script.keys.len() as u32);
            script.keys.push(whole.keys[key].clone());
            script.value_lens.push(whole.value_lens[key]);
        }
        let mut part = Part { script, one_of, numbers, begin: None, without_key: 0 };
        let before = whole.before.iter().filter_map(|(key, len)| Some((part.number(*key)?, *len)));
        part.script.before = before.collect();
        let loaded = whole.loaded.iter().filter_map(|(key, len)| Some((part.number(*key)?, *len)));
        part.script.loaded = loaded.collect();
        part
    }

    fn number(&self, key: u32) -> Option<u32> {
        self.numbers.get(key as usize).copied().flatten()
    }

    /// Adds what of the step is in the part.
    fn add(&mut self, whole: &Script, step: Step) {
        let kept = match (step.what, step.key) {
            (Do::Begin, _) => {
                self.begin = Some(step);
                None
            }
            // If it is still to begin, nothing is in it.
            (Do::Commit, _) => self.begin.take().is_none().then_some(step),
            (Do::GetMany { first }, _) => self.batch(whole, first, step),
            (_, Some(key)) => self.number(key).map(|key| Step { key: Some(key), ..step }),
            (_, None) => {
                self.without_key += 1;
                (self.without_key % self.one_of == 1).then_some(step)
            }
        };
        if let Some(step) = kept {
            self.script.steps.extend(self.begin.take());
            self.script.steps.push(step);
        }
    }

    /// A lookup of those of many keys that are in the part.
    fn batch(&mut self, whole: &Script, first: usize, step: Step) -> Option<Step> {
        let at = self.script.batches.len();
        let asked = whole.batches.iter().skip(first).take(step.items as usize);
        let kept = asked.filter_map(|(key, was_there)| Some((self.number(*key)?, *was_there)));
        let kept: Vec<_> = kept.collect();
        let items = kept.len() as u32;
        self.script.batches.extend(kept);
        (items > 0).then_some(Step { what: Do::GetMany { first: at }, items, ..step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(what: Do, key: Option<u32>, items: u32) -> Step {
        Step { time: 0, what, key, value_len: 0, items, was_there: None }
    }

    /// A script with 100 keys, whose numbers are against their order.
    fn script(steps: Vec<Step>, batches: Vec<(u32, Option<bool>)>) -> Script {
        Script {
            steps,
            batches,
            keys: (0..100_u8).map(|key| vec![99 - key].into()).collect(),
            value_lens: (0..100).collect(),
            before: (0..100).map(|key| (key, key)).collect(),
            ..Script::default()
        }
    }

    #[test]
    fn what_is_about_the_keys_of_a_part_is_in_it() {
        let gets = (0..100).chain(0..100).map(|key| step(Do::Get, Some(key), 0)).collect();
        let part = script(gets, Vec::new()).part(4);
        assert_eq!((part.keys.len(), part.steps.len(), part.before.len()), (25, 50, 25));
        for (step, again) in part.steps[..25].iter().zip(&part.steps[25..]) {
            assert_eq!(step.key, again.key);
        }
        for (number, len) in &part.before {
            // The same key has the same value as in the whole.
            assert_eq!(u32::from(99 - part.key(*number)[0]), *len);
            assert_eq!(part.value_lens[*number as usize], *len);
        }
        let whole = script(vec![step(Do::Get, Some(7), 0)], Vec::new()).part(1);
        assert_eq!((whole.keys.len(), whole.steps.len()), (100, 1));
    }

    #[test]
    fn transactions_batches_and_scans_keep_what_is_left_of_them() {
        let all = |key| step(Do::Insert, Some(key), 0);
        // Of four keys in their order the first is in the part: 99, 95, ... by their numbers.
        let steps = vec![
            step(Do::Begin, None, 0),
            all(98),
            step(Do::Commit, None, 0),
            step(Do::Begin, None, 0),
            all(98),
            all(99),
            all(97),
            step(Do::Commit, None, 0),
            step(Do::GetMany { first: 0 }, None, 3),
            step(Do::GetMany { first: 3 }, None, 1),
            step(Do::Scan, None, 0),
            step(Do::Scan, None, 0),
            step(Do::Scan, None, 0),
            step(Do::Scan, None, 0),
            step(Do::Scan, None, 0),
        ];
        let batches = vec![(97, None), (95, Some(true)), (99, None), (1, None)];
        let part = script(steps, batches).part(4);
        let done: Vec<_> = part.steps.iter().map(|step| (step.what, step.items)).collect();
        let many = Do::GetMany { first: 0 };
        let scan = (Do::Scan, 0);
        let transaction = [(Do::Begin, 0), (Do::Insert, 0), (Do::Commit, 0)];
        assert_eq!(done, [&transaction[..], &[(many, 2), scan, scan]].concat());
        assert_eq!(part.key(part.steps[1].key.unwrap()), [0]);
        assert_eq!(part.batches.len(), 2);
    }
}
