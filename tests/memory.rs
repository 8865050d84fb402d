//! Danger: where there is no memory the program ends, and not what it wanted.

mod common;

use common::recording::folder;
use common::{child, is_child, is_sanitized, status, sys};
use credenza::Get;
use credenza::constant::{Builder, Constant};
use credenza::foreign::{Cdb, CdbWriter};

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
    let mut child = child("asks_for_lists_of_values_with_little_memory");
    let output = child.env("CREDENZA_TEST_FOLDER", folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
