//! Hash stores: any operations against a map, and any bytes as the files of a store.

use crate::input::Input;
use credenza::hash::{Batch, Hash};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store as three see it: two who write it, and one who may only read.
struct Handles {
    writers: [Hash; 2],
    reader: Hash,
}

impl Handles {
    fn open(path: &Path) -> Handles {
        let open = || Hash::open(path).expect("it opens");
        let reader = Hash::options().read_only(true).open(path).expect("it opens for reading");
        Handles { writers: [open(), open()], reader }
    }
}

/// Does what the bytes say to a store and to a map: they stay alike.
pub fn operations(data: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    drop(Hash::create(&path).expect("a store"));
    let mut handles = Handles::open(&path);
    let mut model = Model::new();
    let mut input = Input::new(data, 70_000, 40);
    while let Some(byte) = input.byte() {
        if byte % 32 == 31 {
            drop(handles);
            if byte >= 128 {
                fs::remove_file(folder.path().join("store-index")).expect("an index");
            }
            handles = Handles::open(&path);
            compare(&handles.writers[0], &model);
        } else if step(byte, &mut input, &handles, &mut model).is_none() {
            break;
        }
    }
    compare(&handles.reader, &model);
    handles.writers.iter().for_each(|store| compare(store, &model));
}

fn step(byte: u8, input: &mut Input<'_>, handles: &Handles, model: &mut Model) -> Option<()> {
    // Mostly one of them writes, so that puts wait.
    let store = &handles.writers[usize::from(byte >= 224)];
    match byte % 32 {
        0..6 => {
            let (key, value) = (input.key()?, input.value()?);
            store.insert(&key, &value).expect("insert");
            model.insert(key, value);
        }
        6 | 7 => {
            let (key, value) = (input.key()?, input.value()?);
            let is_replaced = store.replace(&key, &value).expect("replace");
            assert_eq!(is_replaced, model.insert(key, value).is_some());
        }
        8..13 => {
            let key = input.key()?;
            assert_eq!(store.remove(&key).expect("remove"), model.remove(&key).is_some());
        }
        13..16 => {
            let key = input.key()?;
            // Who may only read finds what waits where it is.
            let store = if byte < 96 { &handles.reader } else { store };
            let found = store.get(&key).expect("get");
            assert_eq!(found.as_deref(), model.get(&key).map(Vec::as_slice));
        }
        16 => {
            let store = if byte < 96 { &handles.reader } else { store };
            assert_eq!(store.len().expect("len"), model.len() as u64);
        }
        17 => {
            let store = if byte < 96 { &handles.reader } else { store };
            let mut keys: Vec<Vec<u8>> = model.keys().take(100).cloned().collect();
            keys.push(input.key()?);
            let check = |i: usize, value: Option<&[u8]>| {
                assert_eq!(value, model.get(&keys[i]).map(Vec::as_slice));
            };
            store.get_many(&keys, check).expect("get_many");
        }
        18..22 => {
            // Input that ends here is no batch, and changes neither.
            let mut changes = Vec::new();
            for _ in 0..input.byte()? % 16 {
                let key = input.key()?;
                let value = if input.byte()? % 3 == 0 { None } else { Some(input.value()?) };
                changes.push((key, value));
            }
            let mut batch = Batch::new();
            for (key, value) in changes {
                match value {
                    Some(value) => {
                        batch.insert(&key, &value);
                        model.insert(key, value);
                    }
                    None => {
                        batch.remove(&key);
                        model.remove(&key);
                    }
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
        29 => compare(if byte < 96 { &handles.reader } else { store }, model),
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

/// Iteration and lookups come first: `len` and `verify` enter what waits.
fn compare(store: &Hash, model: &Model) {
    let records: Vec<_> = store.iter().map(|record| record.expect("a record")).collect();
    assert_eq!(records.len(), model.len());
    assert!(records.into_iter().collect::<Model>() == *model);
    assert_eq!(store.len().expect("len"), model.len() as u64);
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
    let now = Session::begin(folder.path());
    for (has_index, is_running) in [(true, true), (true, false), (false, false)] {
        let data = if is_running { now.continued(data) } else { without_locks(data) };
        fs::write(&path, data).expect("a file");
        let index_path = folder.path().join("store-index");
        if has_index {
            fs::write(index_path, index).expect("a file");
        } else {
            let _ = fs::remove_file(index_path);
        }
        for is_read_only in [true, false] {
            if let Ok(store) = Hash::options().read_only(is_read_only).open(&path) {
                read(&store, rest.len(), is_read_only);
            }
        }
    }
    let saved = folder.path().join("saved");
    if credenza::hash::recover(&path, &saved, |_, _| {}).is_ok() {
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

/// What is in a data file while a store is in use, but for the index's number and the counts.
struct Session(Vec<u8>);

impl Session {
    /// Where the boot, the locks' layout and the process namespace are; and the two locks.
    const PARTS: [std::ops::Range<usize>; 2] = [2048..2080, 2176..2304];

    fn begin(folder: &Path) -> Session {
        let path = folder.join("in use");
        let _store = Hash::create(&path).expect("a store");
        Session(fs::read(&path).expect("a file"))
    }

    /// The same file as if it were in use: its index is then believed as it is, puts that wait
    /// among it.
    fn continued(&self, data: &[u8]) -> Vec<u8> {
        let mut data = data.to_vec();
        for part in Session::PARTS {
            if let Some(place) = data.get_mut(part.clone()) {
                place.copy_from_slice(&self.0[part]);
            }
        }
        // Nobody holds anything.
        if let Some(pins) = data.get_mut(4096..8192) {
            pins.fill(0);
        }
        data
    }
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

/// Sound stores: their files, packed, when they are closed and while they are in use.
pub fn samples(folder: &Path) -> Vec<Vec<u8>> {
    let sample = |count: u32, is_in_use: bool| {
        let path = folder.join(format!("sample {count} {is_in_use}"));
        let mut store = Some(Hash::create(&path).expect("a store"));
        for i in 0..count {
            let store = store.as_ref().expect("a store");
            if i % 3 == 0 {
                store.remove(&(i / 2).to_le_bytes()).expect("remove");
            }
            store.insert(&i.to_le_bytes(), &vec![i as u8; i as usize % 300]).expect("insert");
        }
        if !is_in_use {
            store = None;
        }
        let index = folder.join(format!("sample {count} {is_in_use}-index"));
        let files = pack(&fs::read(&path).expect("data"), &fs::read(index).expect("an index"));
        drop(store);
        files
    };
    let counts = [0, 1, 20, 150].into_iter();
    counts.flat_map(|count| [sample(count, false), sample(count, true)]).collect()
}
