//! Danger: one damaged sector at the beginning of a store that makes all worthless that is behind it, or a copy of a header
//! that is believed where it is none.

mod common;

use common::power::write_image;
use common::subject::{Operation, State, Subject, state_of};
use common::{Rng, rounds, seed, write_anew};
use credenza::btree::{self, BTree};
use credenza::constant::Builder;
use credenza::hash::{self, Hash};
use credenza::{Error, ErrorKind, Get, Result};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Where the copy of the header is.
const COPY: Range<usize> = 1920..1992;

/// Bytes of a header, without the zeros behind those that are named.
const NAMED: usize = 64;

/// A store that was closed.
struct Sample {
    kind: &'static str,
    bytes: Vec<u8>,
    state: State,
    recover: fn(&Path, &Path) -> Result<()>,
    read: fn(&Path) -> Result<State>,
    verify: fn(&Path) -> Result<()>,
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn records() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..300u32).map(|i| (format!("key {i}").into_bytes(), vec![i as u8; i as usize % 90]))
}

fn sample<S: Subject>(kind: &'static str, recover: fn(&Path, &Path) -> Result<()>) -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = S::open(&path).unwrap();
    for (key, value) in records() {
        store.apply(&Operation::Insert(key, value)).unwrap();
    }
    drop(store);
    Sample {
        kind,
        bytes: fs::read(&path).unwrap(),
        state: records().collect(),
        recover,
        read: |path| Ok(state_of(&S::open(path)?, "saved")),
        verify: |path| S::open(path)?.verify(),
        _folder: folder,
        path,
    }
}

fn samples() -> [Sample; 2] {
    [
        sample::<Hash>("hash", |from, to| hash::recover(from, to, |_, _| ()).map(|_| ())),
        sample::<BTree>("btree", |from, to| btree::recover(from, to, |_, _| ()).map(|_| ())),
    ]
}

fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt { .. })
}

impl Sample {
    /// Makes bytes those of a store that says that it has no copy.
    fn without_copy(&self, bytes: &mut [u8]) {
        bytes[16] = 0;
        let end = if self.kind == "hash" { 512 } else { 64 };
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..end - 8]);
        bytes[end - 8..end].copy_from_slice(&sum.to_le_bytes());
    }

    /// What is saved of the store with these bytes.
    fn saved(&self, bytes: &[u8]) -> Result<State> {
        write_anew(&self.path, bytes);
        let to = self.path.with_extension("saved");
        let done = (self.recover)(&self.path, &to);
        assert!(fs::read(&self.path).unwrap() == bytes, "it was written to");
        assert_eq!(to.exists(), done.is_ok());
        let state = done.and_then(|()| (self.read)(&to));
        for file in [to.clone(), to.with_extension("saved-index")] {
            let _ = fs::remove_file(file);
        }
        state
    }
}

#[test]
fn a_damaged_header_is_told_and_costs_nothing() {
    for sample in samples() {
        let mut heads: Vec<(String, Vec<u8>)> = Vec::new();
        for at in 0..NAMED {
            // Also to the number of another engine.
            for flip in if at < 12 { &[0xff, 1, 3][..] } else { &[0x81] } {
                let mut head = sample.bytes[..512].to_vec();
                head[at] ^= flip;
                heads.push((format!("byte {at} ^ {flip:#x}"), head));
            }
        }
        heads.push(("zeros".into(), vec![0; 512]));
        heads.push(("text".into(), b"somebody wrote this over it\n".repeat(20)[..512].to_vec()));
        heads.push(("random".into(), Rng::new(1).bytes(512)));
        for (what, head) in heads {
            let what = format!("{}: {what}", sample.kind);
            let bytes = [&head, &sample.bytes[512..]].concat();
            write_anew(&sample.path, &bytes);
            for is_read_only in [false, true] {
                let options = credenza::OpenOptions::new().read_only(is_read_only);
                let error = options.open(&sample.path).unwrap_err();
                assert!(error.is_bad_file(), "{what}: {error}");
            }
            assert!((sample.read)(&sample.path).unwrap_err().is_bad_file(), "{what}");
            assert!(sample.saved(&bytes).unwrap() == sample.state, "{what}");
        }
    }
}

#[test]
fn a_damaged_copy_is_told_and_harms_nobody() {
    for sample in samples() {
        for at in COPY {
            let mut bytes = sample.bytes.clone();
            bytes[at] ^= 0x21;
            write_anew(&sample.path, &bytes);
            let store = credenza::open(&sample.path).unwrap();
            let is_there = |(key, value)| store.get(key).unwrap().as_deref() == Some(value);
            assert!(sample.state.iter().all(|(key, value)| is_there((key, &value[..]))));
            drop(store);
            let error = (sample.verify)(&sample.path).unwrap_err();
            assert!(is_damage(&error), "byte {at}: {error}");
        }
        let mut bytes = sample.bytes.clone();
        bytes[COPY.start + 40] ^= 1;
        assert!(sample.saved(&bytes).unwrap() == sample.state);
        bytes[COPY].fill(0);
        write_anew(&sample.path, &bytes);
        assert!(is_damage(&(sample.verify)(&sample.path).unwrap_err()));
        // As stores are that were made before there were any.
        sample.without_copy(&mut bytes);
        write_anew(&sample.path, &bytes);
        (sample.verify)(&sample.path).unwrap();
        bytes[..512].fill(0);
        assert!(sample.saved(&bytes).is_err());
    }
}

/// Who fills a table for others may have been given any values.
#[test]
fn what_lies_in_a_file_of_another_kind_is_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (path, saved) = (folder.path().join("table"), folder.path().join("saved"));
    for sample in samples() {
        let build = |value: &[u8]| {
            let mut builder = Builder::create(&path).unwrap();
            builder.add(b"key", value).unwrap();
            builder.finish().unwrap();
            fs::read(&path).unwrap()
        };
        let first = build(&[b'.'; 9000]).windows(64).position(|bytes| bytes == [b'.'; 64]).unwrap();
        // All that is behind the header of a store, where it is there.
        let value = &sample.bytes[first..first + 9000];
        let table = build(value);
        assert!(table[COPY] == sample.bytes[COPY], "it lies elsewhere");
        let dump = [&b"+3,9000:key->"[..], &[b'.'; 1907], &sample.bytes[COPY], b"...\n"].concat();
        assert!(dump[COPY] == sample.bytes[COPY], "it lies elsewhere");
        let (mut damaged, mut later) = (table.clone(), table.clone());
        damaged[100] ^= 1;
        later[12] = 2;
        for (bytes, kind) in [
            (&table, Some("constant")),
            (&damaged, Some("constant")),
            (&later, Some("constant")),
            (&dump, None),
        ] {
            write_anew(&path, bytes);
            assert_eq!(credenza::kind_of(&path).ok(), kind);
            assert!((sample.read)(&path).unwrap_err().is_bad_file());
            if kind.is_some() {
                assert!((sample.recover)(&path, &saved).unwrap_err().is_bad_file());
            }
        }
        write_anew(&path, &table);
        let store = credenza::open(&path).unwrap();
        assert!(store.get(b"key").unwrap().as_deref() == Some(value));
        drop(store);
        fs::remove_file(&path).unwrap();
    }
}

/// What was durable is said by two sectors in turn: where one is damaged, and the machine was started anew.
fn no_damaged_word_takes_a_store_back<S: Subject>(name: &str) {
    let (mut refused, mut opened) = (0, 0);
    for round in 0..rounds(6) {
        let seed = seed(round);
        println!("{name} seed {seed}");
        let mut rng = Rng::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
        let store = S::open(&path).unwrap();
        // As it was since the last sync.
        let mut since = vec![State::new()];
        let operations = 300 + rng.below(1000);
        for i in 0..operations {
            let operation = Operation::random(&mut rng, 150, 3000);
            store.apply(&operation).unwrap();
            let mut state = since.last().unwrap().clone();
            operation.change(&mut state);
            since.push(state);
            if rng.below(40) == 0 || i + 3 == operations {
                store.sync().unwrap();
                since = vec![since.pop().unwrap()];
            }
        }
        let files = S::files(&path).iter().map(|file| fs::read(file).ok()).collect::<Vec<_>>();
        drop(store);
        for at in (512..1664).step_by(8) {
            let mut files = files.clone();
            let bytes = files[0].as_mut().unwrap();
            S::reboot(bytes);
            bytes[at + rng.below(8) as usize] ^= 1 << rng.below(8);
            write_image(&files, &S::files(&copy));
            let what = format!("{name}, seed {seed}, byte {at}");
            match S::open(&copy).and_then(|store| store.records()) {
                Err(error) => {
                    assert!(error.is_bad_file(), "{what}: {error}");
                    refused += 1;
                }
                Ok(records) => {
                    let state: State = records.into_iter().collect();
                    assert!(since.contains(&state), "{what}: it is as it was earlier, or never");
                    opened += 1;
                }
            }
        }
    }
    println!("{name}: {refused} refused, {opened} opened");
    assert!(opened >= 50);
}

#[test]
fn no_damaged_word_takes_a_hash_store_back() {
    no_damaged_word_takes_a_store_back::<Hash>("hash");
}

#[test]
fn no_damaged_word_takes_a_btree_store_back() {
    no_damaged_word_takes_a_store_back::<BTree>("btree");
}
