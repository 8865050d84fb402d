//! Danger: a store that answers wrongly is measured as a fast one. A store that lies in one way at
//! a time is run here: each lie must be told.

use super::child::Round;
use super::protocol::{Message, Sample, Spec};
use crate::driver::{Driver, Identity, Reading, Shape, Source, Store};
use crate::workload::{Inputs, Phase, Records, Workload};
use credenza::Result;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

/// What is wrong with the store's answers, if anything.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
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
    /// Batches are answered in the wrong order.
    ManyReversed,
    /// Batches leave the last key out.
    ManyShort,
}

struct Liar {
    lie: Lie,
    records: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
}

struct LiarStore {
    lie: Lie,
    records: Vec<(Vec<u8>, Vec<u8>)>,
    index: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Driver for Liar {
    const NAME: &'static str = "liar";
    const SOURCE: Option<Source> = None;

    fn load(_: Option<&Path>) -> Result<Liar> {
        Ok(Liar { lie: Lie::None, records: RefCell::default() })
    }

    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn tuning(&self, _: &Shape) -> String {
        String::new()
    }

    fn build(&self, records: &Records, _: &Shape, _: &Path) -> Result<()> {
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
            Lie::Missing => index = index.split_off(&records[records.len() / 2].0),
            Lie::ScanShort => {
                records.pop();
            }
            Lie::ScanSwapped => {
                let first = records[0].1.clone();
                records[0].1 = std::mem::replace(&mut records[1].1, first);
            }
            _ => {}
        }
        Ok(LiarStore { lie: self.lie, records, index })
    }
}

impl Store for LiarStore {
    fn get(&mut self, key: &[u8], mut take: impl FnMut(&[u8])) -> Result<bool> {
        let value = match self.lie {
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
}

/// All samples of one round of a store that lies so.
fn samples_of(lie: Lie) -> Vec<Sample> {
    let folder = tempfile::tempdir().unwrap();
    let workload = Workload { records: Some(500), gets: 300, ..Workload::find("tokens").unwrap() };
    let (inputs, _) = Inputs::prepare(&workload).unwrap();
    let spec = Spec {
        store: "liar".to_owned(),
        library: None,
        folder: folder.path().to_owned(),
        inputs: folder.path().join("inputs"),
        phases: Phase::ALL.to_vec(),
        batch: 7,
        cold: false,
        read_ahead: false,
        sync: false,
        cpu: None,
        clock_ns: 0.0,
    };
    let samples = RefCell::new(Vec::new());
    let driver = Liar { lie, records: RefCell::default() };
    let hear = |message: &Message| {
        if let Message::Measured(sample) = message {
            samples.borrow_mut().push(sample.clone());
        }
        Ok(())
    };
    Round::new(&driver, &spec, &inputs).run(&hear).unwrap();
    samples.into_inner()
}

/// The phases in which the lie must be told.
fn told(lie: Lie) -> Vec<Phase> {
    use Phase::{Build, Get90, GetChain, GetHit, GetManyHit, GetManyMiss, GetMiss, Scan};
    match lie {
        Lie::None => vec![],
        Lie::LastByte | Lie::Missing => vec![GetHit, Get90, GetManyHit, GetChain],
        Lie::FindsAll => vec![Get90, GetMiss],
        Lie::ScanShort | Lie::ScanSwapped => vec![Build, Scan],
        Lie::ManyReversed => vec![GetManyHit],
        Lie::ManyShort => vec![GetManyHit, GetManyMiss],
    }
}

#[test]
fn every_lie_is_told_in_its_phases_and_in_no_other() {
    use Lie::{FindsAll, LastByte, ManyReversed, ManyShort, Missing, ScanShort, ScanSwapped};
    let lies =
        [Lie::None, LastByte, Missing, FindsAll, ScanShort, ScanSwapped, ManyReversed, ManyShort];
    for lie in lies {
        let samples = samples_of(lie);
        assert_eq!(samples.len(), Phase::ALL.len(), "{lie:?}");
        let wrong = samples.iter().filter(|s| s.wrong.is_some()).map(|s| s.phase);
        assert_eq!(wrong.collect::<Vec<_>>(), told(lie), "{lie:?}");
    }
}

#[test]
fn an_honest_store_has_exact_counts() {
    let found: Vec<_> = samples_of(Lie::None).iter().map(|s| (s.phase, s.ops, s.found)).collect();
    assert_eq!(
        found,
        [
            (Phase::Build, 500, None),
            (Phase::GetHit, 300, Some(300)),
            (Phase::Get90, 300, Some(270)),
            (Phase::GetMiss, 300, Some(0)),
            (Phase::GetManyHit, 300, Some(300)),
            (Phase::GetManyMiss, 300, Some(0)),
            (Phase::GetChain, 300, Some(300)),
            (Phase::Scan, 500, None),
        ]
    );
}
