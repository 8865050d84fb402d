//! The tables that a transaction looked up, by their names, and how to go back to what they were.
//!
//! A savepoint notes nothing when it is made: a table is noted, as it was, when it may be changed for the
//! first time since. So savepoints cost the same however many tables there are.

use super::format::Tree;
use std::collections::HashMap;
use std::sync::Arc;

/// A table with a name.
#[derive(Clone, Debug)]
pub(super) struct Open {
    /// `None` when it was deleted.
    pub name: Option<Arc<str>>,
    /// The name of its type of keys, if that is a program's own.
    pub key_name: Arc<str>,
    pub tree: Tree,
    /// As it is in the catalog.
    pub known: Tree,
    /// The number of the moment that it was noted for last.
    noted: u64,
}

impl Open {
    pub(super) fn new(name: &str, key_name: &str, tree: Tree) -> Open {
        let (name, key_name) = (Some(name.into()), key_name.into());
        Open { name, key_name, tree, known: tree, noted: 0 }
    }
}

/// A moment to go back to.
#[derive(Debug)]
struct Moment {
    /// The first has 1.
    number: u64,
    /// How many tables had been looked up.
    len: usize,
    /// Which of them changed since, and what they were.
    before: Vec<(usize, Open)>,
}

/// Tables that were looked up; each has a number that stays.
#[derive(Debug, Default)]
pub(super) struct Opened {
    tables: Vec<Open>,
    /// Where those are that were not deleted.
    places: HashMap<Arc<str>, usize>,
    moments: Vec<Moment>,
    /// How many moments there were in all.
    count: u64,
}

impl Opened {
    /// The number of the table of this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub(super) fn get(&self, i: usize) -> &Open {
        &self.tables[i]
    }

    /// The numbers of all that were changed and not deleted.
    pub(super) fn changed(&self) -> Vec<usize> {
        let changed =
            |(_, table): &(usize, &Open)| table.name.is_some() && table.tree != table.known;
        self.tables.iter().enumerate().filter(changed).map(|(i, _)| i).collect()
    }

    /// A table to change, but not its name.
    pub(super) fn change(&mut self, i: usize) -> &mut Open {
        let table = &mut self.tables[i];
        let last = self.moments.last_mut();
        if let Some(last) = last.filter(|last| i < last.len && table.noted < last.number) {
            last.before.push((i, table.clone()));
            table.noted = last.number;
        }
        table
    }

    /// One more; its number.
    pub(super) fn add(&mut self, table: Open) -> usize {
        let i = self.tables.len();
        self.tables.push(table);
        self.enter(i);
        i
    }

    /// Gives a table another name, or none if it is deleted.
    pub(super) fn rename(&mut self, i: usize, name: Option<&str>) {
        self.leave(i);
        self.change(i).name = name.map(Arc::from);
        self.enter(i);
        // Not for ever, where tables are made and deleted again and again.
        let held = self.moments.last().map_or(0, |moment| moment.len);
        while self.tables.len() > held && self.tables.last().is_some_and(|last| last.name.is_none())
        {
            self.tables.pop();
        }
    }

    fn enter(&mut self, i: usize) {
        if let Some(name) = &self.tables[i].name {
            self.places.insert(Arc::clone(name), i);
        }
    }

    fn leave(&mut self, i: usize) {
        if let Some(name) = &self.tables[i].name {
            self.places.remove(name);
        }
    }

    /// Notes a moment, the last of all.
    pub(super) fn hold(&mut self) {
        self.count += 1;
        let (number, len) = (self.count, self.tables.len());
        self.moments.push(Moment { number, len, before: Vec::new() });
    }

    /// Goes back to the moment that has so many before it, which is the last then.
    pub(super) fn go_back(&mut self, moment: usize) {
        let later = self.moments.drain(moment + 1..).collect::<Vec<_>>();
        let Some(last) = self.moments.last_mut() else { return };
        let (len, mut changed) = (last.len, std::mem::take(&mut last.before));
        changed.extend(later.into_iter().flat_map(|moment| moment.before));
        // All names first: what a table was called may be another's name now.
        (len..self.tables.len()).for_each(|i| self.leave(i));
        changed.iter().for_each(|(i, _)| self.leave(*i));
        self.tables.truncate(len);
        changed.retain(|(i, _)| *i < len);
        // The latest first: what was noted first is what it was then.
        for (i, before) in changed.iter().rev() {
            self.tables[*i] = before.clone();
        }
        changed.iter().for_each(|(i, _)| self.enter(*i));
    }

    /// Forgets the moment that has so many before it, and those after it.
    pub(super) fn release(&mut self, moment: usize) {
        let gone = self.moments.drain(moment..).collect::<Vec<_>>();
        let Some(last) = self.moments.last_mut() else { return };
        // The one before goes back to what changed since then, too, unless it has noted that itself.
        let notes = gone.into_iter().flat_map(|moment| moment.before);
        last.before.extend(notes.filter(|(i, before)| *i < last.len && before.noted < last.number));
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Rng;
    use super::*;
    use std::collections::BTreeMap;

    /// What an [`Opened`] should say, by name.
    type Model = BTreeMap<String, u64>;

    fn contents(opened: &Opened) -> Model {
        let entries = opened.places.iter().map(|(name, i)| {
            let table = opened.get(*i);
            assert_eq!(table.name.as_ref(), Some(name));
            (name.to_string(), table.tree.count)
        });
        entries.collect()
    }

    fn with_count(count: u64) -> Tree {
        Tree { count, ..Tree::default() }
    }

    #[test]
    fn tables_are_again_what_they_were_at_each_moment() {
        for seed in 1..200 {
            let mut random = Rng::new(seed);
            let (mut opened, mut model) = (Opened::default(), Model::new());
            let mut moments: Vec<Model> = Vec::new();
            for step in 0..300 {
                let [name, other] = [(); 2].map(|()| format!("table {}", random.below(6)));
                let moment = random.below(moments.len() as u64 + 1) as usize;
                match (random.below(10), opened.find(&name)) {
                    (0 | 1, _) => {
                        opened.hold();
                        moments.push(model.clone());
                    }
                    (2, _) if moment < moments.len() => {
                        opened.go_back(moment);
                        model.clone_from(&moments[moment]);
                        moments.truncate(moment + 1);
                    }
                    (3, _) if moment < moments.len() => {
                        opened.release(moment);
                        moments.truncate(moment);
                    }
                    (4, Some(i)) => {
                        opened.rename(i, None);
                        model.remove(&name);
                    }
                    (5, Some(i)) if opened.find(&other).is_none() => {
                        opened.rename(i, Some(&other));
                        let count = model.remove(&name).unwrap();
                        model.insert(other, count);
                    }
                    (_, Some(i)) => {
                        opened.change(i).tree = with_count(step);
                        model.insert(name, step);
                    }
                    (_, None) => {
                        opened.add(Open::new(&name, "", with_count(step)));
                        model.insert(name, step);
                    }
                }
                assert_eq!(contents(&opened), model, "seed {seed}, step {step}");
            }
        }
    }

    /// A table that is made and deleted leaves nothing, and one that is changed is noted once.
    #[test]
    fn little_is_kept() {
        let mut opened = Opened::default();
        let kept = opened.add(Open::new("kept", "", Tree::default()));
        opened.hold();
        for count in 0..1000 {
            let i = opened.add(Open::new("made", "", Tree::default()));
            opened.hold();
            opened.change(kept).tree = with_count(count);
            opened.release(1);
            opened.rename(i, None);
        }
        assert_eq!((opened.tables.len(), opened.moments[0].before.len()), (1, 1));
    }
}
