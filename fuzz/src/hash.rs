//! Hash stores: any operations against a map, and any bytes as the files of a store.

use credenza::hash::{Batch, Hash};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Bytes of which operations are made; when they are used up, there are no more.
struct Input<'d>(&'d [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn key(&mut self) -> Option<Vec<u8>> {
        let byte = self.byte()?;
        // Few keys, some of them long: then many operations meet.
        let len = if byte >= 250 { 300 * usize::from(byte - 249) } else { usize::from(byte % 4) };
        Some(vec![byte % 50; len])
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let (byte, len) = (self.byte()?, self.byte()?);
        let len = match len {
            255 => 70_000,
            200.. => usize::from(len) * 40,
            _ => usize::from(len),
        };
        Some(vec![byte; len])
    }
}

/// Does what the bytes say to a store and to a map: they stay alike.
pub fn operations(data: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let mut store = Hash::create(&path).expect("a store");
    let mut model = Model::new();
    let mut input = Input(data);
    while let Some(byte) = input.byte() {
        if byte % 32 == 31 {
            drop(store);
            if byte >= 128 {
                fs::remove_file(folder.path().join("store-index")).expect("an index");
            }
            store = Hash::open(&path).expect("it opens again");
            compare(&store, &model);
        } else if step(byte % 32, &mut input, &store, &mut model).is_none() {
            break;
        }
    }
    compare(&store, &model);
}

fn step(what: u8, input: &mut Input<'_>, store: &Hash, model: &mut Model) -> Option<()> {
    match what {
        0..8 => {
            let (key, value) = (input.key()?, input.value()?);
            let is_replaced = store.insert(&key, &value).expect("insert");
            assert_eq!(is_replaced, model.insert(key, value).is_some());
        }
        8..14 => {
            let key = input.key()?;
            assert_eq!(store.remove(&key).expect("remove"), model.remove(&key).is_some());
        }
        14..18 => {
            let key = input.key()?;
            let found = store.get(&key).expect("get");
            assert_eq!(found.as_deref(), model.get(&key).map(Vec::as_slice));
        }
        18..22 => {
            let mut batch = Batch::new();
            for _ in 0..input.byte()? % 16 {
                let key = input.key()?;
                if input.byte()? % 3 == 0 {
                    batch.remove(&key);
                    model.remove(&key);
                } else {
                    let value = input.value()?;
                    batch.insert(&key, &value);
                    model.insert(key, value);
                }
            }
            store.batch(&batch).expect("batch");
        }
        22 => {
            let (key, more) = (input.key()?, input.value()?);
            let value = model.entry(key.clone()).or_default();
            value.extend(&more);
            assert_eq!(store.append(&key, &more).expect("append"), value.len() as u64);
        }
        23 => {
            let (key, value) = (input.key()?, input.value()?);
            let is_absent = !model.contains_key(&key);
            assert_eq!(store.insert_if_absent(&key, &value).expect("insert"), is_absent);
            model.entry(key).or_insert(value);
        }
        24 => {
            // Many records, so that pages grow and split.
            for i in 0..u32::from(input.byte()?) * 8 {
                let key = i.to_le_bytes().to_vec();
                store.insert(&key, b"many").expect("insert");
                model.insert(key, b"many".to_vec());
            }
        }
        25 => store.sync().expect("sync"),
        26 => drop(store.compact(u64::from(input.byte()?) << 8).expect("compact")),
        27 => store.rebuild_index(input.byte()? % 2 == 0).expect("rebuild"),
        28 => {
            store.clear().expect("clear");
            model.clear();
        }
        29 => compare(store, model),
        _ => {
            let mut transaction = store.transaction().expect("transaction");
            let (key, value) = (input.key()?, input.value()?);
            transaction.insert(&key, &value).expect("insert");
            if input.byte()? % 2 == 0 {
                transaction.commit().expect("commit");
                model.insert(key, value);
            }
        }
    }
    Some(())
}

fn compare(store: &Hash, model: &Model) {
    assert_eq!(store.len().expect("len"), model.len() as u64);
    let records: Vec<_> = store.iter().map(|record| record.expect("a record")).collect();
    assert_eq!(records.len(), model.len());
    assert!(records.into_iter().collect::<Model>() == *model);
    store.verify(|_, _| ()).expect("verify");
}

/// Bytes that follow the lengths of the files they are of.
pub fn pack(data: &[u8], index: &[u8]) -> Vec<u8> {
    [&(data.len() as u32).to_le_bytes()[..], data, index].concat()
}

/// Reads bytes as a data file, and what follows it as an index: with it and without.
pub fn files(input: &[u8]) {
    let Some((len, rest)) = input.split_first_chunk::<4>() else { return };
    let (data, index) = rest.split_at((u32::from_le_bytes(*len) as usize).min(rest.len()));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    for has_index in [true, false] {
        fs::write(&path, without_locks(data)).expect("a file");
        let index_path = folder.path().join("store-index");
        if has_index {
            fs::write(index_path, index).expect("a file");
        } else {
            let _ = fs::remove_file(index_path);
        }
        for is_read_only in [true, false] {
            if let Ok(store) = Hash::options().read_only(is_read_only).open(&path) {
                read(&store, data.len() + index.len(), is_read_only);
            }
        }
    }
    let saved = folder.path().join("saved");
    if credenza::hash::recover(&path, &saved).is_ok() {
        Hash::open(&saved).expect("what was saved opens").verify(|_, _| ()).expect("verify");
    }
}

/// The same file, in which the machine has been started anew: the locks are made again.
fn without_locks(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    if let Some(boot) = data.get_mut(2048..2064) {
        boot.fill(0x5a);
    }
    data
}

fn read(store: &Hash, bytes: usize, is_read_only: bool) {
    let is_sound = store.verify(|_, _| ()).is_ok();
    let mut records = Vec::new();
    for record in store {
        match record {
            Ok(record) => records.push(record),
            Err(_) => break,
        }
        assert!(records.len() <= bytes, "more records than bytes");
    }
    let _ = store.stats();
    for (key, value) in &records {
        let found = store.get(key).map(|found| found.as_deref() == Some(value));
        assert!(!is_sound || found.is_ok_and(|is_same| is_same), "what was verified is found");
    }
    if is_sound {
        assert_eq!(store.len().expect("len"), records.len() as u64);
    }
    if !is_read_only {
        let is_written = store.insert(b"new", b"value").is_ok();
        assert!(is_written || !is_sound, "what was verified can be written");
        let _ = store.remove(b"new");
    }
}

/// Sound stores: their files, packed.
pub fn samples(folder: &Path) -> Vec<Vec<u8>> {
    let sample = |count: u32| {
        let path = folder.join(format!("sample {count}"));
        let store = Hash::create(&path).expect("a store");
        for i in 0..count {
            store.insert(&i.to_le_bytes(), &vec![i as u8; i as usize % 300]).expect("insert");
            if i % 3 == 0 {
                store.remove(&(i / 2).to_le_bytes()).expect("remove");
            }
        }
        drop(store);
        let index = folder.join(format!("sample {count}-index"));
        pack(&fs::read(&path).expect("data"), &fs::read(index).expect("an index"))
    };
    [0, 1, 20, 150].map(sample).to_vec()
}
