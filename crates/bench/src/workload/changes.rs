//! What the phase `mixed` does to a store, step by step, and a model of what the store must answer.
//!
//! The steps are in [`script`].

mod dealt;
mod script;

use super::mix::{Action, Mix, Place};
use super::records::{Content, Records};
pub(crate) use dealt::{Beside, Dealt};
pub(crate) use script::{Script, Step};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Nothing,
    /// The value of this record.
    Value(u32),
    /// The value of this record with the lowest bit of every byte flipped.
    Flipped(u32),
}

/// What a store must hold after the steps so far.
pub(crate) struct Model<'a> {
    records: &'a Records,
    fresh: &'a Records,
    /// By item; of a key with several values the first.
    held: Vec<Held>,
    /// How many items the store has had so far; they come one after the other.
    had: usize,
    /// How many records are there now.
    count: u64,
    /// Where a further value goes, and what there is behind the first, by item, in order.
    duplicates: Option<Place>,
    behind: HashMap<u32, VecDeque<Held>>,
    /// The items whose keys are there, in the order of these; only where it is asked for.
    order: Option<BTreeMap<&'a [u8], u32>>,
}

impl<'a> Model<'a> {
    /// A store that holds all records and none of the fresh keys, for what a mix does with it.
    pub(crate) fn of(records: &'a Records, fresh: &'a Records, mix: &Mix) -> Model<'a> {
        Model::new(records, fresh, mix.looks_at_order(), mix.duplicates)
    }

    /// The same; `ordered` if ranges are wanted.
    pub(super) fn new(
        records: &'a Records,
        fresh: &'a Records,
        ordered: bool,
        duplicates: Option<Place>,
    ) -> Model<'a> {
        let own = (0..records.len() as u32).map(Held::Value);
        let held = own.chain((0..fresh.len()).map(|_| Held::Nothing)).collect();
        let order =
            ordered.then(|| records.iter().zip(0..).map(|((key, _), item)| (key, item)).collect());
        let had = records.len();
        let count = had as u64;
        Model { records, fresh, held, had, count, duplicates, behind: HashMap::new(), order }
    }

    /// How many records are there now.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// How many keys the store may have had.
    pub(crate) fn items(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn key(&self, item: usize) -> &'a [u8] {
        match item.checked_sub(self.records.len()) {
            None => self.records.key(item),
            Some(item) => self.fresh.key(item),
        }
    }

    /// Whether keys may have several values.
    pub(crate) fn has_duplicates(&self) -> bool {
        self.duplicates.is_some()
    }

    /// All values that the key of an item has now, in their order.
    pub(crate) fn values(&self, item: usize) -> impl Iterator<Item = Cow<'a, [u8]>> {
        let behind = self.behind.get(&(item as u32)).into_iter().flatten();
        self.now(item).into_iter().chain(behind.filter_map(|held| self.value(*held)))
    }

    /// What the key of an item has now, of several values the first.
    pub(crate) fn now(&self, item: usize) -> Option<Cow<'a, [u8]>> {
        self.value(self.held[item])
    }

    fn value(&self, held: Held) -> Option<Cow<'a, [u8]>> {
        let of = |record: u32| self.records.get(record as usize).1;
        match held {
            Held::Nothing => None,
            Held::Value(record) => Some(Cow::Borrowed(of(record))),
            Held::Flipped(record) => Some(of(record).iter().map(|byte| byte ^ 1).collect()),
        }
    }

    /// The value of `record`, flipped if the key has it already.
    fn another(&self, item: usize, record: u32) -> Held {
        let is_the_same = self.now(item) == self.value(Held::Value(record));
        if is_the_same { Held::Flipped(record) } else { Held::Value(record) }
    }

    /// The records that are there from the key of `item` on, in order.
    pub(crate) fn range(&self, item: usize) -> impl Iterator<Item = (&'a [u8], Cow<'a, [u8]>)> {
        let order = self.order.iter().flat_map(move |order| order.range(self.key(item)..));
        order.flat_map(|(key, item)| self.values(*item as usize).map(|value| (*key, value)))
    }

    /// Every record that is there.
    pub(crate) fn content(&self) -> Content {
        let mut content = Content::default();
        for item in 0..self.items() {
            self.values(item).for_each(|value| content.add(self.key(item), &value));
        }
        content
    }

    /// The lowest key that is there.
    pub(crate) fn lowest(&self) -> Option<usize> {
        let first = self.order.as_ref()?.first_key_value();
        first.map(|(_, item)| *item as usize)
    }

    /// One more value for a key that has some.
    fn add(&mut self, item: usize, stored: Held) {
        let behind = self.behind.entry(item as u32).or_default();
        match self.duplicates {
            Some(Place::First) => {
                behind.push_front(std::mem::replace(&mut self.held[item], stored));
            }
            _ => behind.push_back(stored),
        }
    }

    /// Does what all steps do.
    pub(crate) fn apply_all(&mut self, script: &Script) {
        script.steps().for_each(|step| self.apply(step));
    }

    /// Does what the step does.
    pub(crate) fn apply(&mut self, step: Step) {
        let item = step.item as usize;
        self.had = self.had.max(item + 1);
        if !step.action.stores() && step.action != Action::Remove {
            return;
        }
        if step.action == Action::Add && self.held[item] != Held::Nothing {
            self.count += 1;
            return self.add(item, step.stored);
        }
        let before = std::mem::replace(&mut self.held[item], step.stored);
        let behind = self.behind.remove(&step.item).map_or(0, |behind| behind.len());
        self.count += u64::from(step.stored != Held::Nothing);
        self.count -= u64::from(before != Held::Nothing) + behind as u64;
        let key = self.key(item);
        if let Some(order) = &mut self.order {
            match step.stored {
                Held::Nothing => drop(order.remove(key)),
                Held::Value(_) | Held::Flipped(_) => drop(order.insert(key, step.item)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::distribution::Distribution;

    fn records(count: u8) -> Records {
        let mut records = Records::default();
        for i in 0..count {
            // Values of which some are equal, and some empty.
            records.push(&[i], &[7; 3][..usize::from(i % 4)]).unwrap();
        }
        records
    }

    fn all_actions(distribution: &str) -> Mix {
        let text = format!(
            "get = 3\ninsert = 1\nupdate = 2\nremove = 2\nscan = 1\nread-modify-write = 2\n\
             table-scan = 1\n\
             scan-length = \"1..9\"\ndistribution = \"{distribution}\""
        );
        let table: super::super::mix::MixTable = toml::from_str(&text).unwrap();
        table.mix(Distribution::Uniform).unwrap()
    }

    #[test]
    fn the_model_is_what_a_map_does() {
        let (records, mut fresh) = (records(100), Records::default());
        (0..3000_u16)
            .for_each(|i| fresh.push(&[&[200][..], &i.to_le_bytes()].concat(), b"").unwrap());
        for mix in ["uniform", "zipfian", "latest", "ascending"].map(all_actions) {
            let script = Script::draw(&records, &fresh, &mix, 10_000, 3);
            let mut model = Model::new(&records, &fresh, true, None);
            let mut map: BTreeMap<Vec<u8>, Vec<u8>> =
                records.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            let mut seen = vec![0; 7];
            for (step, key, value) in script.iter() {
                let item = step.item as usize;
                seen[step.action as usize] += 1;
                assert_eq!(model.count(), map.len() as u64);
                if step.action == Action::TableScan {
                    assert!(key.is_empty() && value.is_empty());
                    model.apply(step);
                    continue;
                }
                assert_eq!(key, model.key(item));
                assert_eq!(map.get(key).map(Vec::as_slice), model.now(item).as_deref());
                match step.action {
                    Action::Get => {}
                    Action::Scan => {
                        let len = step.scan_len as usize;
                        let expected = model.range(item).take(len);
                        let got = map.range(key.to_vec()..).take(len);
                        assert!(
                            got.map(|(k, v)| (&k[..], &v[..])).eq(expected
                                .map(|(k, v)| (k, v.to_vec()))
                                .collect::<Vec<_>>()
                                .iter()
                                .map(|(k, v)| (*k, v.as_slice())))
                        );
                    }
                    Action::Insert => assert_eq!(map.insert(key.to_vec(), value.to_vec()), None),
                    Action::Update | Action::ReadModifyWrite => {
                        let old = map.insert(key.to_vec(), value.to_vec());
                        assert!(old.is_none_or(|old| old != value || old.is_empty()));
                    }
                    Action::Remove => drop(map.remove(key)),
                    other => panic!("{other:?} is not here"),
                }
                model.apply(step);
            }
            for item in 0..model.items() {
                assert_eq!(map.get(model.key(item)).map(Vec::as_slice), model.now(item).as_deref());
            }
            assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
            assert_eq!(script.len(), 10_000);
            assert_eq!(script.lookups(), seen[0] + seen[5]);
        }
    }

    #[test]
    fn threads_are_dealt_all_steps_of_an_item_and_as_many_as_each_other() {
        let (records, mut fresh) = (records(100), Records::default());
        (0..3000_u16)
            .for_each(|i| fresh.push(&[&[200][..], &i.to_le_bytes()].concat(), b"").unwrap());
        for mix in ["uniform", "zipfian", "latest", "ascending"].map(all_actions) {
            let script = Script::draw(&records, &fresh, &mix, 10_000, 3);
            for threads in [1, 3, 7] {
                let parts = script.dealt(threads);
                let lens: Vec<usize> = parts.iter().map(|part| part.script.len()).collect();
                assert_eq!((lens.len(), lens.iter().sum::<usize>()), (threads, 10_000));
                let (least, most) = (lens.iter().min().unwrap(), lens.iter().max().unwrap());
                assert!(most - least <= 10_000 / 100, "{lens:?}");
                let mut owners = HashMap::new();
                for (thread, part) in parts.iter().enumerate() {
                    let of_one = |step: &Step| step.action != Action::TableScan;
                    for step in part.script.steps().filter(of_one) {
                        assert_eq!(*owners.entry(step.item).or_insert(thread), thread);
                    }
                    let places: Vec<usize> = (0..script.len()).collect();
                    assert!(part.own(&places).is_sorted_by(|one, next| one < next));
                    // What is there for each step is theirs who do the step.
                    let said = |(step, ..): (Step, &[u8], &[u8])| (step.item, step.action);
                    let of_all: Vec<_> = script.iter().map(said).collect();
                    assert_eq!(part.own(&of_all), part.script.iter().map(said).collect::<Vec<_>>());
                }
                // Those of each item are what they were, in their order.
                let of = |script: &Script, item: u32| -> Vec<_> {
                    let is_own = |step: Step| step.item == item && step.action != Action::TableScan;
                    let own = script.iter().filter(|(step, ..)| is_own(*step));
                    own.map(|(s, key, value)| (s.action, s.stored, key.to_vec(), value.to_vec()))
                        .collect()
                };
                for (item, thread) in owners.iter().filter(|(item, _)| *item % 50 == 0) {
                    assert_eq!(of(&script, *item), of(&parts[*thread].script, *item));
                }
                // Each knows which keys the others change: all that are changed, but its own.
                for (thread, part) in parts.iter().enumerate() {
                    let Some(beside) = &part.beside else {
                        assert_eq!(threads, 1);
                        continue;
                    };
                    let changed =
                        script.changes().filter(|(step, ..)| owners[&step.item] != thread);
                    let stored = changed.clone().filter(|(step, ..)| step.action.stores()).count();
                    assert!(changed.clone().all(|(_, key, _)| beside.changes(key)));
                    assert!(part.script.changes().all(|(_, key, _)| !beside.changes(key)));
                    assert_eq!((beside.stored, beside.removes), (stored as u64, true));
                }
            }
        }
    }

    #[test]
    fn several_values_a_key_are_what_lists_do() {
        let (records, mut fresh) = (records(50), Records::default());
        (0..2000_u16)
            .for_each(|i| fresh.push(&[&[200][..], &i.to_le_bytes()].concat(), b"").unwrap());
        for (place, word) in [(Place::First, "first"), (Place::Last, "last")] {
            let text =
                format!("get = 2\ninsert = 4\nremove = 1\nscan = 1\nduplicates = \"{word}\"");
            let table: super::super::mix::MixTable = toml::from_str(&text).unwrap();
            let mix = table.mix(Distribution::Uniform).unwrap();
            let script = Script::draw(&records, &fresh, &mix, 6000, 5);
            let mut model = Model::of(&records, &fresh, &mix);
            let mut lists: BTreeMap<Vec<u8>, Vec<Vec<u8>>> =
                records.iter().map(|(key, value)| (key.to_vec(), vec![value.to_vec()])).collect();
            let (mut new, mut further) = (0, 0);
            for (step, key, value) in script.iter() {
                match step.action {
                    Action::Add => {
                        let list = lists.entry(key.to_vec()).or_default();
                        *(if list.is_empty() { &mut new } else { &mut further }) += 1;
                        let at = if place == Place::First { 0 } else { list.len() };
                        list.insert(at, value.to_vec());
                    }
                    Action::Remove => drop(lists.remove(key)),
                    Action::Get | Action::Scan => {}
                    other => panic!("{other:?} is not in the mix"),
                }
                model.apply(step);
                let values: Vec<_> =
                    model.values(step.item as usize).map(Cow::into_owned).collect();
                assert_eq!(lists.get(key).cloned().unwrap_or_default(), values);
                let first = model.now(step.item as usize).map(Cow::into_owned);
                assert_eq!(first.as_ref(), values.first());
            }
            assert!(new > 1000 && further > 800, "{new}, {further}");
            let all = lists.iter().flat_map(|(key, list)| list.iter().map(move |v| (&key[..], v)));
            let modelled = model.range(model.lowest().unwrap());
            assert!(
                all.eq(modelled
                    .map(|(key, value)| (key, value.into_owned()))
                    .collect::<Vec<_>>()
                    .iter()
                    .map(|(key, value)| (*key, value)))
            );
            let count = lists.values().map(Vec::len).sum::<usize>() as u64;
            assert_eq!((model.content().count, model.count()), (count, count));
        }
    }

    #[test]
    fn a_script_ends_when_so_many_bytes_are_stored() {
        let mut mix = all_actions("uniform");
        let (records, fresh) = (records(100), Records::default());
        let mut fresh_keys = fresh;
        (0..3000_u16).for_each(|i| fresh_keys.push(&i.to_le_bytes(), b"").unwrap());
        let stored = |script: &Script| {
            let steps = script.iter().filter(|(step, ..)| step.action.stores());
            steps.map(|(_, key, value)| key.len() + value.len()).sum::<usize>()
        };
        mix.stop.bytes = Some(500);
        let mut script = Script::draw(&records, &fresh_keys, &mix, 10_000, 3);
        assert!((500..505).contains(&stored(&script)));
        assert!(script.len() > 200);
        script.truncate(script.len() / 2);
        assert!(stored(&script) < 400);
    }

    #[test]
    fn a_seed_gives_the_same_script_in_every_version() {
        let script = Script::draw(&records(100), &Records::default(), &Mix::default(), 20, 7);
        let steps: Vec<_> =
            script.iter().map(|(step, ..)| (step.item, step.action, step.stored)).collect();
        assert_eq!(
            format!("{:?}", &steps[..3]),
            "[(41, Update, Value(44)), (89, Get, Nothing), (45, Get, Nothing)]"
        );
    }
}
