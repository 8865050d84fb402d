//! A store for tests, which lies in one way at a time, or refuses something.

use crate::driver::{Driver, Identity, Reading, Shape, Source, Store, Threads, Writer};
use crate::workload::Records;
use credenza::{Error, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

/// What is wrong with the store's answers, if anything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lie {
    None,
    /// Right length and first byte, another byte wrong.
    LastByte,
    /// One key in the store is said to be absent.
    Missing,
    /// Absent keys are found.
    FindsAll,
    /// The scan leaves one record out.
    ScanShort,
    /// The scan gives the values of two keys the other way round.
    ScanSwapped,
    /// A range ends one record early.
    RangeShort,
    /// A range begins behind its first key.
    RangeLate,
    /// The first two records of a range change places.
    RangeSwapped,
    /// While it may be changed, the second scan leaves one record out.
    ScansShortOnce,
    /// A scan backwards leaves the first record out.
    BackShort,
    /// It gives the first two records in their order.
    BackSwapped,
    /// Batches are answered in the wrong order.
    ManyReversed,
    /// Batches leave the last key out.
    ManyShort,
    /// Opened to be read for the third time (the first one compares what was built), it has nothing any more.
    WrongWhenOpenedAgain,
    /// Opened to be read, the lookup with this number finds nothing.
    MissesAt(usize),
    /// While it may be changed, the second lookup finds nothing.
    MissesOnce,
    /// The same of one handle of threads that commit: the one that was opened as this number.
    OneMissesOnce(usize),
    /// While it may be changed, values are given without their last byte.
    GetsShort,
    /// While it may be changed, lookups give a value that is longer than all that was stored.
    GetsLong,
    /// A key that is there keeps its old value.
    KeepsOld,
    /// One new record of a hundred is not stored.
    LosesOne,
    /// Of a new value only the first byte is stored, and as many as were there.
    OnlyFirstByte,
    /// A key is said to be removed, but one of five stays.
    RemovesNot,
    /// Any key is said to have been there when it was removed.
    RemovesAll,
    /// Closing loses the last change.
    ForgetsLast,
    /// No lie, but an error: it removes nothing.
    RefusesRemoval,
    /// The same: it cannot be built.
    RefusesBuild,
    /// The same: after some time one handle of several reads nothing any more.
    RefusesReads,
    /// The same: after some changes one of several threads or processes changes nothing any more.
    RefusesChanges,
    /// What one process stores is lost to another one that closes the store behind it.
    LosesOthers,
}

pub(crate) struct Liar {
    lie: Lie,
    records: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    opened: Cell<usize>,
    /// What those have stored that commit, or close the store: as it were, its file.
    committed: Committed,
    /// Held by who is in a transaction of several changes.
    lock: Arc<(Mutex<bool>, Condvar)>,
}

pub(crate) type Committed = Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>;

impl Liar {
    pub(crate) fn who(lie: Lie) -> Liar {
        let (records, opened) = (RefCell::default(), Cell::new(0));
        Liar { lie, records, opened, committed: Arc::default(), lock: Arc::default() }
    }

    /// The same store as the process sees it that opens it as this number.
    pub(crate) fn opened_by(lie: Lie, number: usize, committed: Committed) -> Liar {
        Liar { opened: Cell::new(number), committed, ..Liar::who(lie) }
    }

    /// What other processes see of it.
    pub(crate) fn committed(&self) -> Committed {
        self.committed.clone()
    }

    fn changing(&self, store: LiarStore) -> LiarWriter<'_> {
        let (changes, gets, scans, last) = (0, 0, 0, Vec::new());
        LiarWriter {
            liar: self,
            store,
            shared: None,
            changes,
            gets,
            scans,
            last,
            transaction: None,
        }
    }
}

pub(crate) struct LiarStore {
    lie: Lie,
    records: Vec<(Vec<u8>, Vec<u8>)>,
    index: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Lookups before it refuses.
    left: usize,
    /// Lookups so far.
    gets: usize,
}

impl Driver for Liar {
    const NAME: &'static str = "liar";
    const REOPENS: bool = true;
    const THREADS: Threads = Threads::Handles;
    const HAS_WRITER_THREAD: bool = true;
    const HAS_COMMITTERS: bool = true;
    const HAS_COMMITTING_PROCESSES: bool = true;
    const SOURCE: Option<Source> = None;
    const COMMITS: bool = true;
    const HAS_DUPLICATES: bool = true;
    const DURABLE: Option<&'static str> = Some("promises");

    fn load(_: Option<&Path>) -> Result<Liar> {
        Ok(Liar::who(Lie::None))
    }

    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn tuning(&self, _: &Shape) -> String {
        String::new()
    }

    fn clear<'k>(&self, _: &Path, _: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        self.committed.lock().unwrap().clear();
        Ok(())
    }

    fn build(&self, records: &Records, _: &Shape, _: &Path) -> Result<()> {
        if self.lie == Lie::RefusesBuild {
            return Err(Error::invalid("no room to build"));
        }
        let all = records.iter().map(|(key, value)| (key.to_vec(), value.to_vec()));
        *self.records.borrow_mut() = all.collect();
        Ok(())
    }

    type Store<'d> = LiarStore;

    fn open(&self, _: &Path, _: &Shape, _: Reading) -> Result<LiarStore> {
        let mut records = self.records.borrow().clone();
        let mut index: BTreeMap<_, _> = records.iter().cloned().collect();
        match self.lie {
            Lie::LastByte => {
                // Every value, as nobody knows which keys will be asked for.
                index.values_mut().for_each(|value| *value.last_mut().unwrap() ^= 1);
            }
            Lie::Missing if !records.is_empty() => {
                index = index.split_off(&records[records.len() / 2].0);
            }
            Lie::ScanShort => {
                records.pop();
            }
            Lie::ScanSwapped if records.len() > 1 => {
                let first = records[0].1.clone();
                records[0].1 = std::mem::replace(&mut records[1].1, first);
            }
            _ => {}
        }
        self.opened.set(self.opened.get() + 1);
        if self.lie == Lie::WrongWhenOpenedAgain && self.opened.get() == 3 {
            records.clear();
            index.clear();
        }
        let refuses = self.lie == Lie::RefusesReads && self.opened.get() == 2;
        let left = if refuses { 3000 } else { usize::MAX };
        Ok(LiarStore { lie: self.lie, records, index, left, gets: 0 })
    }

    type Writer<'d> = LiarWriter<'d>;

    fn create(&self, _: &Path, _: &Shape) -> Result<LiarWriter<'_>> {
        self.records.borrow_mut().clear();
        let (records, index) = (Vec::new(), BTreeMap::new());
        let store = LiarStore { lie: self.lie, records, index, left: usize::MAX, gets: 0 };
        Ok(self.changing(store))
    }

    fn create_committing(&self, path: &Path, shape: &Shape) -> Result<LiarWriter<'_>> {
        self.create(path, shape)
    }

    fn create_durable(&self, path: &Path, shape: &Shape) -> Result<LiarWriter<'_>> {
        self.reopen(path, shape, true)
    }

    fn reopen(&self, path: &Path, shape: &Shape, _: bool) -> Result<LiarWriter<'_>> {
        let (is_new, writer) =
            (self.committed.lock().unwrap().is_empty(), self.create(path, shape)?);
        let shared = Some(self.committed.clone()).filter(|_| !is_new);
        Ok(LiarWriter { shared, ..writer })
    }

    fn open_committer(&self, path: &Path, shape: &Shape, _: bool) -> Result<LiarWriter<'_>> {
        self.opened.set(self.opened.get() + 1);
        let refuses = self.lie == Lie::RefusesChanges && self.opened.get() == 2;
        let mut writer = self.create(path, shape)?;
        writer.store.left = if refuses { 50 } else { usize::MAX };
        if self.lie == Lie::OneMissesOnce(self.opened.get()) {
            writer.store.lie = Lie::MissesOnce;
        }
        Ok(LiarWriter { shared: Some(self.committed.clone()), ..writer })
    }

    fn open_to_commit(&self, path: &Path, shape: &Shape, _: bool) -> Result<LiarWriter<'_>> {
        let mut writer = self.open_committer(path, shape, true)?;
        if self.lie == Lie::LosesOthers {
            writer.store.index = self.committed.lock().unwrap().clone();
            writer.shared = None;
        }
        Ok(writer)
    }

    fn open_to_change(&self, path: &Path, shape: &Shape) -> Result<LiarWriter<'_>> {
        let store = self.open(path, shape, Reading::Warm)?;
        Ok(self.changing(store))
    }
}

pub(crate) struct LiarWriter<'d> {
    liar: &'d Liar,
    store: LiarStore,
    /// What all that commit store to, in place of the index.
    shared: Option<Committed>,
    changes: usize,
    gets: usize,
    scans: usize,
    last: Vec<u8>,
    transaction: Option<Locked>,
}

/// Who is in a transaction, until this is dropped.
struct Locked(Arc<(Mutex<bool>, Condvar)>);

impl Locked {
    /// Waits for others who are in one.
    fn of(lock: &Arc<(Mutex<bool>, Condvar)>) -> Locked {
        let (is_held, free) = &**lock;
        let held = is_held.lock().unwrap();
        *free.wait_while(held, |is_held| *is_held).unwrap() = true;
        Locked(lock.clone())
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = false;
        self.0.1.notify_one();
    }
}

impl LiarWriter<'_> {
    fn with_index<T>(&mut self, work: impl FnOnce(&mut BTreeMap<Vec<u8>, Vec<u8>>) -> T) -> T {
        match &self.shared {
            Some(shared) => work(&mut shared.lock().unwrap()),
            None => work(&mut self.store.index),
        }
    }
}

impl Store for LiarWriter<'_> {
    const IS_ORDERED: bool = true;
    const SCANS_BACK: bool = true;

    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        self.gets += 1;
        let (lie, gets) = (self.store.lie, self.gets);
        let short = usize::from(lie == Lie::GetsShort);
        let is_missed = lie == Lie::MissesOnce && gets == 2;
        Ok(self.with_index(|index| {
            let value = index.get(key).filter(|_| !is_missed);
            if lie == Lie::GetsLong && value.is_some() {
                take(&[0; 1 << 20]);
                return true;
            }
            value.map(|value| take(&value[..value.len() - short])).is_some()
        }))
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.scans += 1;
        let short = usize::from(self.store.lie == Lie::ScansShortOnce && self.scans == 2);
        self.with_index(|index| index.iter().skip(short).for_each(|(key, value)| take(key, value)));
        Ok(())
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let lie = self.store.lie;
        self.with_index(|index| range(lie, index, from, count, take));
        Ok(())
    }

    fn scan_back(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        let lie = self.store.lie;
        self.with_index(|index| {
            let mut all: Vec<_> = index.iter().skip(usize::from(lie == Lie::BackShort)).collect();
            if lie == Lie::BackSwapped {
                all.swap(0, 1);
            }
            all.into_iter().rev().for_each(|(key, value)| take(key, value));
        });
        Ok(())
    }
}

impl Writer for LiarWriter<'_> {
    const HAS_TRANSACTIONS: bool = true;

    fn begin(&mut self) -> Result<()> {
        assert!(self.transaction.is_none(), "begun twice");
        self.transaction = Some(Locked::of(&self.liar.lock));
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        assert!(self.transaction.take().is_some(), "committed what was not begun");
        Ok(())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.changes >= self.store.left {
            return Err(Error::invalid("no room to insert"));
        }
        self.changes += 1;
        self.last = key.to_vec();
        let (lie, changes) = (self.store.lie, self.changes);
        self.with_index(|index| match (lie, index.get_mut(key)) {
            (Lie::KeepsOld, Some(_)) => {}
            (Lie::OnlyFirstByte, Some(old)) => old[0] = value[0],
            (Lie::LosesOne, None) if changes.is_multiple_of(100) => {}
            _ => drop(index.insert(key.to_vec(), value.to_vec())),
        });
        Ok(())
    }

    /// It has room for one value a key, and does not say so.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(key, value)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.changes += 1;
        if self.store.lie == Lie::RefusesRemoval {
            return Err(Error::invalid("no room to remove"));
        }
        let stays = self.store.lie == Lie::RemovesNot && self.changes.is_multiple_of(5);
        let is_removed = self.with_index(|index| match stays {
            true => index.contains_key(key),
            false => index.remove(key).is_some(),
        });
        Ok(is_removed || self.store.lie == Lie::RemovesAll)
    }

    fn close(mut self) -> Result<()> {
        assert!(self.transaction.is_none(), "closed before the commit");
        if let Some(shared) = &self.shared {
            self.store.index = shared.lock().unwrap().clone();
            self.last = self.store.index.keys().next_back().cloned().unwrap_or_default();
        }
        if self.store.lie == Lie::ForgetsLast {
            self.store.index.remove(&self.last);
        }
        *self.liar.committed.lock().unwrap() = self.store.index.clone();
        *self.liar.records.borrow_mut() = self.store.index.into_iter().collect();
        Ok(())
    }
}

impl Store for LiarStore {
    const IS_ORDERED: bool = true;

    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        if self.left == 0 {
            return Err(Error::invalid("out of order"));
        }
        self.left -= 1;
        self.gets += 1;
        let value = match self.lie {
            Lie::MissesAt(number) if number == self.gets => None,
            Lie::FindsAll => Some(self.index.get(key).unwrap_or(&self.records[0].1)),
            _ => self.index.get(key),
        };
        Ok(value.map(|value| take(value)).is_some())
    }

    fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let count = keys.len() - usize::from(self.lie == Lie::ManyShort);
        for (i, key) in keys.iter().take(count).enumerate() {
            let i = if self.lie == Lie::ManyReversed { keys.len() - 1 - i } else { i };
            take(i, self.index.get(*key).map(Vec::as_slice));
        }
        Ok(())
    }

    fn scan(&mut self, mut take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.records.iter().for_each(|(key, value)| take(key, value));
        Ok(())
    }

    fn range(&mut self, from: &[u8], count: usize, take: impl FnMut(&[u8], &[u8])) -> Result<()> {
        range(self.lie, &self.index, from, count, take);
        Ok(())
    }
}

/// What a range gives, if no more than that is wrong with it.
fn range(
    lie: Lie,
    index: &BTreeMap<Vec<u8>, Vec<u8>>,
    from: &[u8],
    count: usize,
    mut take: impl FnMut(&[u8], &[u8]),
) {
    let late = usize::from(lie == Lie::RangeLate);
    let count = count - usize::from(lie == Lie::RangeShort);
    let mut records: Vec<_> = index.range(from.to_vec()..).skip(late).take(count).collect();
    if lie == Lie::RangeSwapped && records.len() > 1 {
        records.swap(0, 1);
    }
    records.into_iter().for_each(|(key, value)| take(key, value));
}
