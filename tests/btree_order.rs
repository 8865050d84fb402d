//! Records that are put in a btree in the order of their keys, with other changes in between.
//!
//! Danger: the last leaf, which is looked at first, is not the last any more, or is another one's; a leaf
//! that is begun behind a full one is not found again; leaves that stay nearly empty.

mod common;

use common::{Rng, rounds, seed};
use credenza::btree::{BTree, TableMut, Transaction};
use std::collections::{BTreeMap, BTreeSet};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of one kind, in order.
fn keys(kind: u64, count: u64, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut keys = BTreeSet::new();
    let mut path = b"/usr".to_vec();
    for n in 0..count {
        keys.insert(match kind {
            0 => {
                // A walk through folders: down, up, or a file.
                match rng.below(9) {
                    0 if path.len() < 150 => path.extend(format!("/folder{}", n % 97).bytes()),
                    1 => {
                        let parent = path.iter().rposition(|b| *b == b'/').filter(|at| *at > 0);
                        path.truncate(parent.unwrap_or(4));
                    }
                    _ => {}
                }
                let dots = ".x".repeat(rng.below(12) as usize);
                [&path[..], format!("/{}{dots}", rng.below(count)).as_bytes()].concat()
            }
            1 => n.to_string().into_bytes(),
            2 => format!("{n:012}").into_bytes(),
            // Zeros, and keys that begin others.
            3 => (0..rng.below(12)).map(|_| rng.below(3) as u8 / 2).collect(),
            // Some too long for a page, with much in common.
            _ => {
                let mut key = vec![b'k'; [3, 400, 510, 900, 5000][rng.below(5) as usize]];
                key.extend(rng.below(count).to_string().bytes());
                key
            }
        });
    }
    keys.into_iter().collect()
}

fn value(kind: u64, rng: &mut Rng) -> Vec<u8> {
    let len = match kind {
        0 => 8,
        1 => rng.below(40),
        2 => rng.below(500),
        _ => [0, 511, 512, 513, 2500, 5000][rng.below(6) as usize],
    };
    rng.bytes(len as usize)
}

/// A table, the keys that it gets one after the other, and what is to be in it.
struct Ordered {
    name: &'static str,
    keys: Vec<Vec<u8>>,
    /// How many came.
    come: usize,
    model: Map,
}

impl Ordered {
    fn with<R>(
        &mut self,
        transaction: &mut Transaction<'_>,
        change: impl FnOnce(&mut Ordered, &mut TableMut<'_, '_>) -> R,
    ) -> R {
        match self.name {
            "" => change(self, &mut transaction.main()),
            name => change(self, &mut transaction.create_table(name).unwrap()),
        }
    }

    fn put_next(&mut self, table: &mut TableMut<'_, '_>, value: Vec<u8>) {
        let Some(key) = self.keys.get(self.come) else { return };
        assert!(!table.insert(key, &value).unwrap());
        self.model.insert(key.clone(), value);
        self.come += 1;
    }

    /// Changes something else.
    fn disturb(&mut self, table: &mut TableMut<'_, '_>, value: Vec<u8>, rng: &mut Rng) {
        let come = &self.keys[..self.come];
        let Some(any) = come.get(rng.below(come.len() as u64) as usize) else { return };
        match rng.below(13) {
            0..4 => {
                // The last one goes, and perhaps comes again.
                let last = self.model.pop_last();
                assert_eq!(table.pop_last().unwrap(), last);
                if let Some((key, value)) = last.filter(|_| rng.below(2) == 0) {
                    assert!(!table.insert(&key, &value).unwrap());
                    self.model.insert(key, value);
                }
            }
            4..8 => {
                assert_eq!(table.remove(any).unwrap(), self.model.remove(any).is_some());
            }
            8..12 => {
                let is_over = table.insert(any, &value).unwrap();
                assert_eq!(is_over, self.model.insert(any.clone(), value).is_some());
            }
            _ => {
                let from = &come[come.len().saturating_sub(1 + rng.below(300) as usize)];
                let gone = self.model.split_off(from).len() as u64;
                assert_eq!(table.remove_range(&from[..]..).unwrap(), gone);
            }
        }
    }

    fn check(&self, store: &BTree) {
        let snapshot = store.read().unwrap();
        let table = match self.name {
            "" => snapshot.main(),
            name => snapshot.table(name).unwrap().unwrap(),
        };
        assert_eq!(table.len(), self.model.len() as u64);
        let all: Vec<_> = table.range(..).map(Result::unwrap).collect();
        assert!(all.iter().map(|(k, v)| (&k[..], &v[..])).eq(pairs(&self.model)), "a walk");
        for (key, value) in pairs(&self.model) {
            assert_eq!(table.get(key).unwrap(), Some(value), "{}", key.escape_ascii());
        }
    }
}

fn pairs(model: &Map) -> impl Iterator<Item = (&[u8], &[u8])> {
    model.iter().map(|(key, value)| (&key[..], &value[..]))
}

#[test]
fn records_that_come_in_order_among_other_changes_are_all_there() {
    for round in 0..rounds(60) {
        let mut rng = Rng::new(seed(round));
        let store = BTree::in_memory().unwrap();
        let count = [40, 1500, 5000][rng.below(3) as usize];
        let (key_kind, value_kind) = (rng.below(5), rng.below(4));
        let mut tables = ["", "other"].map(|name| {
            let keys = keys(key_kind, count, &mut rng);
            Ordered { name, keys, come: 0, model: Map::new() }
        });
        // How often something else is done.
        let each = [1 << 40, 60, 5][rng.below(3) as usize];
        while tables.iter().any(|table| table.come < table.keys.len()) {
            let mut transaction = store.write().unwrap();
            for _ in 0..1 + rng.below(4) {
                let ordered = &mut tables[rng.below(2) as usize];
                let before = (ordered.model.clone(), ordered.come);
                let savepoint = (rng.below(4) == 0).then(|| transaction.savepoint());
                let most = [30, 800][rng.below(2) as usize];
                for _ in 0..1 + rng.below(most) {
                    let values = [(); 2].map(|()| value(value_kind, &mut rng));
                    ordered.with(&mut transaction, |ordered, table| {
                        let [next, other] = values;
                        ordered.put_next(table, next);
                        if rng.below(each) == 0 {
                            ordered.disturb(table, other, &mut rng);
                        }
                    });
                }
                if let Some(savepoint) = savepoint.filter(|_| rng.below(2) == 0) {
                    transaction.rollback_to(savepoint).unwrap();
                    (ordered.model, ordered.come) = before;
                }
            }
            transaction.commit().unwrap();
        }
        tables.iter().for_each(|table| table.check(&store));
        store.verify(|_, _| ()).unwrap();
    }
}

/// Danger: what makes such inserts fast leaves leaves that are half empty.
#[test]
fn leaves_of_records_that_came_in_order_are_nearly_full() {
    let mut rng = Rng::new(seed(0));
    for key_kind in 0..3 {
        for value_kind in 0..3 {
            let keys = keys(key_kind, 30_000, &mut rng);
            let records: Vec<_> =
                keys.into_iter().map(|key| (key, value(value_kind, &mut rng))).collect();
            let live_bytes = |fill: &dyn Fn(&mut TableMut<'_, '_>)| {
                let store = BTree::in_memory().unwrap();
                let mut transaction = store.write().unwrap();
                fill(&mut transaction.main());
                transaction.commit().unwrap();
                store.stats().unwrap().live_bytes as f64
            };
            let one_by_one = live_bytes(&|table| {
                for (key, value) in &records {
                    table.insert(key, value).unwrap();
                }
            });
            let loaded = live_bytes(&|table| {
                table.bulk_load(records.iter().map(|(key, value)| Ok((key, value)))).unwrap();
            });
            let more = one_by_one / loaded;
            println!("keys {key_kind}, values {value_kind}: {more:.3} of a bulk load");
            assert!(more < 1.1, "keys {key_kind}, values {value_kind}: {more}");
        }
    }
}
