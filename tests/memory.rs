//! Danger: where there is no memory the program ends, and not what it wanted.

mod common;

use common::recording::folder;
use common::{child, is_child, is_sanitized, status, sys};
use credenza::constant::{Builder, Constant};
use credenza::foreign::{Cdb, CdbWriter};
use credenza::{Access, Get, Scan};
use std::path::Path;

/// Runs a test with what is in this folder in a process of its own, which takes its memory away.
fn passes_with_little_memory(test: &str, folder: &Path) {
    let mut child = child(test);
    let child = child.env("CREDENZA_TEST_FOLDER", folder);
    // A panic that looks for its place where there is no memory waits for itself.
    let output = child.env("RUST_BACKTRACE", "0").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The list of a key's values, of which there may be millions.
#[test]
fn a_list_of_values_that_no_memory_is_left_for_is_an_error() {
    if is_sanitized() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [own, cdb] = ["own", "cdb"].map(|name| folder.path().join(name));
    let (mut own, mut cdb) = (Builder::create(own).unwrap(), CdbWriter::create(cdb).unwrap());
    for _ in 0..1_000_000 {
        own.add(b"key", b"").unwrap();
        cdb.add(b"key", b"").unwrap();
    }
    own.finish().unwrap();
    cdb.finish().unwrap();
    passes_with_little_memory("asks_for_lists_of_values_with_little_memory", folder.path());
}

#[test]
fn asks_for_lists_of_values_with_little_memory() {
    if !is_child() {
        return;
    }
    let own = Constant::open(folder().join("own")).unwrap();
    let cdb = Cdb::open(folder().join("cdb")).unwrap();
    sys::limit_memory(status("VmData") + (8 << 20));
    for found in [own.get_all(b"key"), cdb.get_all(b"key")] {
        let error = found.map(|all| all.len()).unwrap_err().to_string();
        assert!(error.contains("cannot get memory"), "{error}");
    }
}

/// Values that are long together, or one that is long itself, where a file is read and not mapped.
#[test]
fn records_are_read_in_little_memory() {
    if is_sanitized() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut store = Builder::create(folder.path().join("store")).unwrap();
    let long = vec![7; LONG];
    // Values of one key, some of them too large for a list: the scan of the log leaves out what the list leads to.
    for i in 0..VALUES {
        store.add(b"key", &i.to_le_bytes()).unwrap();
    }
    store.add(b"key", &long).unwrap();
    store.add(b"long", &long).unwrap();
    store.finish().unwrap();
    let mut store = Builder::create(folder.path().join("long")).unwrap();
    store.add(b"long", &long).unwrap();
    store.finish().unwrap();
    passes_with_little_memory("reads_records_with_little_memory", folder.path());
}

const LONG: usize = 32 << 20;
const VALUES: u32 = 800_000;

#[test]
fn reads_records_with_little_memory() {
    if !is_child() {
        return;
    }
    let open = |path| Constant::options().access(Access::Read).open(path).unwrap();
    // What checks a value does not want all of it at once.
    let long = open(folder().join("long"));
    sys::limit_memory(status("VmData") + LONG as u64 / 2);
    long.verify(|_, _| ()).unwrap();

    let path = folder().join("store");
    let store = open(path.clone());
    sys::limit_memory(status("VmData") + (LONG as u64 + (24 << 20)));
    let mut records = store.iter();
    let (mut found, mut is_short) = (0, false);
    for record in &mut records {
        match record {
            Ok((key, value)) if value.len() == LONG => assert_eq!(*key, *b"long"),
            Ok((_, value)) => {
                assert_eq!(*value, u32::to_le_bytes(found));
                found += 1;
            }
            // Of a list, a long value is read and copied.
            Err(error) => {
                assert!(error.to_string().contains("cannot get memory"), "{error}");
                assert_eq!(error.path(), Some(&*path));
                is_short = true;
            }
        }
    }
    drop(records);
    assert_eq!((found, is_short), (VALUES, true));
    let mut lens = Vec::new();
    let scanned = store.scan(|_, value| {
        lens.push(value.len());
        Ok(())
    });
    scanned.unwrap();
    assert_eq!(lens.iter().filter(|len| **len == LONG).count(), 2);
    assert_eq!(lens.len(), VALUES as usize + 2);
}

/// What the tables of a foreign file are made and checked with, for each record.
#[test]
fn tables_of_foreign_files_that_no_memory_is_left_for_are_an_error() {
    if is_sanitized() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut store = CdbWriter::create(folder.path().join("cdb")).unwrap();
    for _ in 0..800_000 {
        store.add(b"", b"").unwrap();
    }
    store.finish().unwrap();
    passes_with_little_memory("makes_and_checks_tables_with_little_memory", folder.path());
    assert!(!folder.path().join("another").exists());
}

#[test]
fn makes_and_checks_tables_with_little_memory() {
    if !is_child() {
        return;
    }
    let [path, another] = ["cdb", "another"].map(|name| folder().join(name));
    let store = Cdb::open(&path).unwrap();
    let mut writer = CdbWriter::create(&another).unwrap();
    for _ in 0..500_000 {
        writer.add(b"key", b"").unwrap();
    }
    sys::limit_memory(status("VmData") + (8 << 20));
    // A scan has to know which records of the empty key are there.
    let scanned = store.scan(|_, _| Ok(()));
    let errors = [store.verify(|_, _| ()), store.stats().map(|_| ()), scanned];
    for (found, path) in errors.into_iter().map(|e| (e, &path)).chain([(writer.finish(), &another)])
    {
        let error = found.unwrap_err();
        assert!(error.to_string().contains("cannot get memory"), "{error}");
        assert_eq!(error.path(), Some(&**path));
    }
}
