//! A script dealt to several who do it at one store.
//!
//! Invariant: all steps of an item are done by one of them, in their order, so that what a step about one key
//! answers is the same as if one did all, whoever is faster. What a step about many keys gives is so for the
//! keys that the others leave alone, which [`Beside`] tells.

use super::script::Draft;
use super::{Action, Script, Step};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

/// What one of several does of a script.
#[derive(Default)]
pub(crate) struct Dealt {
    pub(crate) script: Script,
    /// What the others do meanwhile; only where a step is about many keys.
    pub(crate) beside: Option<Beside>,
    /// Which steps of the whole script these are, in their order.
    places: Vec<usize>,
}

/// What others do to the store while one does its part.
pub(crate) struct Beside {
    /// Who changes each of the keys that are changed, the same for all.
    changers: Arc<HashMap<Box<[u8]>, usize>>,
    own: usize,
    /// Values that they store, at most.
    pub(crate) stored: u64,
    /// Whether any of them removes something.
    pub(crate) removes: bool,
}

impl Beside {
    /// Whether one of them changes what this key has.
    pub(crate) fn changes(&self, key: &[u8]) -> bool {
        self.changers.get(key).is_some_and(|changer| *changer != self.own)
    }
}

impl Dealt {
    /// What belongs to these steps of what there is for each of the whole script.
    pub(crate) fn own<T: Copy>(&self, all: &[T]) -> Vec<T> {
        self.places.iter().filter_map(|place| all.get(*place).copied()).collect()
    }
}

impl Script {
    /// The same steps for so many threads or processes, items dealt so that all have about as many steps,
    /// whatever the distribution; what reads all records goes round.
    pub(crate) fn dealt(&self, count: usize) -> Vec<Dealt> {
        let owners = self.owners(count);
        let mut parts: Vec<Dealt> = (0..count).map(|_| Dealt::default()).collect();
        let mut drafts: Vec<Draft> = (0..count).map(|_| Draft::default()).collect();
        let mut scans = 0;
        for (place, (step, key, value)) in self.iter().enumerate() {
            let owner = match step.action {
                Action::TableScan => {
                    scans += 1;
                    Some(scans % count)
                }
                _ => owners.get(&step.item).copied(),
            };
            if let Some(owner) = owner {
                drafts[owner].push(step, key, value);
                parts[owner].places.push(place);
            }
        }
        for (part, draft) in parts.iter_mut().zip(drafts) {
            part.script = draft.finish();
        }
        let is_of_many =
            |step: Step| matches!(step.action, Action::Scan | Action::TableScan | Action::Add);
        if count > 1 && self.steps().any(is_of_many) {
            let changers = Arc::new(self.changers(&owners));
            for (own, part) in parts.iter_mut().enumerate() {
                part.beside = Some(self.beside(&changers, own));
            }
        }
        parts
    }

    /// Who does the steps of each item that a step is about: the items with the most steps first, each to the
    /// one that has the fewest.
    fn owners(&self, count: usize) -> HashMap<u32, usize> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        let of_one = self.steps().filter(|step| step.action != Action::TableScan);
        of_one.for_each(|step| *counts.entry(step.item).or_default() += 1);
        let mut items: Vec<(u32, usize)> = counts.into_iter().collect();
        items.sort_by_key(|(_, steps)| Reverse(*steps));
        let mut loads: BinaryHeap<_> = (0..count).map(|number| Reverse((0, number))).collect();
        let mut owners = HashMap::new();
        for (item, steps) in items {
            if let Some(mut least) = loads.peek_mut() {
                let Reverse((load, number)) = &mut *least;
                *load += steps;
                owners.insert(item, *number);
            }
        }
        owners
    }

    /// Who changes each of the keys that are changed.
    fn changers(&self, owners: &HashMap<u32, usize>) -> HashMap<Box<[u8]>, usize> {
        let mut changers: HashMap<Box<[u8]>, usize> = HashMap::new();
        for (step, key, _) in self.changes() {
            if let Some(owner) = owners.get(&step.item).filter(|_| !changers.contains_key(key)) {
                changers.insert(key.into(), *owner);
            }
        }
        changers
    }

    /// What all do but the one with this number.
    fn beside(&self, changers: &Arc<HashMap<Box<[u8]>, usize>>, own: usize) -> Beside {
        let mut beside = Beside { changers: changers.clone(), own, stored: 0, removes: false };
        for (step, key, _) in self.changes() {
            if beside.changes(key) {
                beside.stored += u64::from(step.action.stores());
                beside.removes |= step.action == Action::Remove;
            }
        }
        beside
    }
}
