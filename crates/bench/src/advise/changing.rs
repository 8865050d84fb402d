//! What changes cost in a durability class: a measured process that does nothing but change a store which
//! holds all records of a part.
//!
//! Of four changes two store another value for a key, one removes a key, and one brings it back. Where
//! the program makes transactions of several changes, so does this, if the store has such. The store is
//! filled, brought to the disk and opened again before the clock starts; in the end all that it holds is
//! compared.
//!
//! Invariant: in every class the same changes are done in the same way, besides what waits for the disk.

use crate::driver::{Driver, ForDriver, Reading, Shape, Writer, fill, kernel, with_driver};
use crate::measure::Latencies;
use crate::replay::Do;
use crate::runner::kept::all_to_disk;
use crate::runner::passes::check_scan;
use crate::runner::protocol::{Message, Sample, say};
use crate::runner::room::{self, Advice};
use crate::workload::{Content, Phase, Records};
use credenza::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// Names of what is timed: a change, or a transaction of several; a call of `sync`.
pub(super) const CHANGE: &str = "change";
pub(super) const SYNC: &str = Do::SYNC;

/// What the process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Changing {
    pub(super) store: String,
    /// An empty folder for the store's files.
    pub(super) folder: PathBuf,
    /// The file with the records.
    pub(super) records: PathBuf,
    /// Whether each change is on the disk when its call has returned.
    pub(super) is_durable: bool,
    /// After so many changes `sync` is called.
    pub(super) sync_every: Option<usize>,
    /// Changes of a transaction.
    pub(super) together: usize,
    pub(super) changes: usize,
    pub(super) seed: u64,
    pub(super) cpu: Option<usize>,
    pub(super) clock_ns: f64,
}

/// Does it, and says what it took.
pub(super) fn measure(task: &Changing) -> Result<()> {
    let sample = with_driver(&task.store, task)
        .unwrap_or_else(|| Err(Error::invalid(format!("there is no store '{}'", task.store))));
    match sample {
        Ok(sample) => {
            say(&Message::Measured(Box::new(sample)))?;
            say(&Message::Finished)
        }
        Err(e) => say(&Message::Failed(room::told(&e, &task.folder, Advice::OtherFolder))),
    }
}

impl ForDriver for &Changing {
    type Output = Result<Sample>;

    fn run<D: Driver>(self) -> Result<Sample> {
        self.cpu.map_or(Ok(()), kernel::pin_to)?;
        self.on(&D::load(None)?)
    }
}

impl Changing {
    fn on<D: Driver>(&self, driver: &D) -> Result<Sample> {
        let file = std::fs::File::open(&self.records)
            .map_err(|e| Error::io("open", e).at(&self.records))?;
        let records = Records::read_from(&mut std::io::BufReader::new(file))
            .map_err(|e| Error::io("read", e).at(&self.records))?;
        let others = records.with_other_values();
        let (shape, path) = (Shape::of(&records), self.folder.join("store"));
        let mut store = driver.create_one_by_one(&path, &shape, false)?;
        fill(&mut store, &records, D::Writer::FILLS_IN_ONE)?;
        store.close()?;
        all_to_disk(&self.folder)
            .map_err(|e| Error::io("bring to the disk what is in", e).at(&self.folder))?;
        let mut store = driver.reopen_one_by_one(&path, &shape, self.is_durable)?;
        let order = others.shuffled(self.seed)?;
        let mut sample = self.change(&mut store, &order)?;
        store.close()?;
        let mut reader = driver.open(&path, &shape, Reading::Warm)?;
        sample.wrong = check_scan(&mut reader, self.content(&records, &order))?;
        Ok(sample)
    }

    /// Does the changes, with other values than the store has, and looks at the clock.
    fn change<W: Writer>(&self, store: &mut W, others: &Records) -> Result<Sample> {
        let together = if W::HAS_TRANSACTIONS { self.together.max(1) } else { 1 };
        let [mut change, mut sync] = [(); 2].map(|()| Latencies::new(self.clock_ns));
        let (mut done, mut unsynced) = (0, 0);
        let begun = Instant::now();
        while done < self.changes {
            let start = Instant::now();
            let in_this = together.min(self.changes - done);
            if together > 1 {
                store.begin()?;
            }
            for i in done..done + in_this {
                let (key, value) = others.get(record_of(i, others.len()));
                if is_removal(i, others.len()) {
                    store.remove(key)?;
                } else {
                    store.insert(key, value)?;
                }
            }
            if together > 1 {
                store.commit()?;
            }
            change.record_since(start);
            (done, unsynced) = (done + in_this, unsynced + in_this);
            if self.sync_every.is_some_and(|every| unsynced >= every) {
                let start = Instant::now();
                if !store.sync()? {
                    return Err(Error::invalid("it has no call that brings changes to the disk"));
                }
                sync.record_since(start);
                unsynced = 0;
            }
        }
        let mut sample = Sample::new(Phase::Mixed, done);
        sample.ns_per_op = begun.elapsed().as_nanos() as f64 / done.max(1) as f64;
        let latencies = [(CHANGE, change), (SYNC, sync)].into_iter();
        let counts = latencies.map(|(name, all)| (name.to_owned(), all.counts()));
        let all: BTreeMap<_, _> = counts.filter(|(_, counts)| !counts.is_empty()).collect();
        sample.operation_latencies = all;
        Ok(sample)
    }

    /// What the store holds afterwards.
    fn content(&self, records: &Records, others: &Records) -> Content {
        let (mut content, count) = (Content::default(), others.len());
        let mut last = vec![None; count];
        (0..self.changes).for_each(|i| last[record_of(i, count)] = Some(i));
        let changed = (0..count).filter_map(|r| Some((r, last[r]?)));
        for (r, _) in changed.filter(|(_, i)| !is_removal(*i, count)) {
            let (key, value) = others.get(r);
            content.add(key, value);
        }
        let touched: std::collections::HashSet<&[u8]> =
            (0..count).filter(|r| last[*r].is_some()).map(|r| others.key(r)).collect();
        for (key, value) in records.iter().filter(|(key, _)| !touched.contains(key)) {
            content.add(key, value);
        }
        content
    }
}

/// The record that a change is about: of four changes the last one is about that of the third.
fn record_of(change: usize, records: usize) -> usize {
    let (four, which) = (change / 4, change % 4);
    (four * 3 + which.min(2)) % records
}

/// Whether a change removes a record: the third of four. A store of few records only has other values stored.
fn is_removal(change: usize, records: usize) -> bool {
    change % 4 == 2 && records > 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(folder: &std::path::Path, store: &str, records: &Records) -> Changing {
        let path = folder.join("records");
        let mut file = std::fs::File::create(&path).unwrap();
        records.write_to(&mut file).unwrap();
        let stores = folder.join("stores");
        std::fs::create_dir(&stores).unwrap();
        Changing {
            store: store.to_owned(),
            folder: stores,
            records: path,
            is_durable: false,
            sync_every: None,
            together: 1,
            changes: 103,
            seed: 3,
            cpu: None,
            clock_ns: 0.0,
        }
    }

    fn measured(task: &Changing) -> Sample {
        with_driver(&task.store, task).expect("a store").expect("a sample")
    }

    #[test]
    fn what_is_changed_is_there_in_every_class_and_counted() {
        for (count, store) in
            [(1, "hash"), (3, "btree"), (40, "hash"), (40, "btree"), (500, "btree")]
        {
            for (is_durable, sync_every, together) in
                [(false, None, 1), (false, Some(10), 1), (true, None, 1), (true, None, 4)]
            {
                let mut records = Records::default();
                (0..count).for_each(|i: u32| records.push(&i.to_le_bytes(), b"value").unwrap());
                let folder = tempfile::tempdir().unwrap();
                let of_class = Changing {
                    is_durable,
                    sync_every,
                    together,
                    ..task(folder.path(), store, &records)
                };
                let sample = measured(&of_class);
                assert_eq!(sample.wrong, None, "{of_class:?}");
                let counted = |name: &str| -> u64 {
                    let counts = sample.operation_latencies.get(name);
                    counts.map_or(0, |counts| counts.iter().map(|(_, n)| n).sum())
                };
                let units = 103_u64.div_ceil(together as u64);
                assert_eq!(counted(CHANGE), units, "{of_class:?}");
                assert_eq!(counted(SYNC), sync_every.map_or(0, |every| 103 / every as u64));
            }
        }
    }

    #[test]
    fn a_store_that_holds_something_else_is_found() {
        let mut records = Records::default();
        (0..50_u32).for_each(|i| records.push(&i.to_le_bytes(), b"value").unwrap());
        let folder = tempfile::tempdir().unwrap();
        let task = task(folder.path(), "hash", &records);
        let order = records.with_other_values().shuffled(task.seed).unwrap();
        let (all, fewer) = (task.content(&records, &order), Changing { changes: 102, ..task });
        assert_ne!(all, fewer.content(&records, &order));
    }
}
