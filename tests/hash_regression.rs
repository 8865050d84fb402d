//! Defects of the hash engine that were found and repaired: each with the case that showed it.

mod common;

use common::subject::state_of;
use common::sys;
use common::{child, is_child};
use credenza::hash::{Batch, Hash};

/// Runs a test of this file as a child, with limits that are its own.
fn run_child(test: &str) {
    let output = child(test).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {text}", output.status);
}

#[test]
fn child_tries_a_batch_again_and_again() {
    if !is_child() {
        return;
    }
    sys::give_up_after(100);
    let folder = tempfile::tempdir().unwrap();
    let store = Hash::create(folder.path().join("store")).unwrap();
    store.insert(b"key", b"value").unwrap();
    let mut batch = Batch::new();
    for i in 0..40u32 {
        batch.insert(&i.to_le_bytes(), &[7; 4000]);
    }
    sys::limit_file_size(Some(64 << 10));
    for attempt in 0..60 {
        let error = store.batch(&batch).unwrap_err();
        assert!(!error.is_bad_file(), "attempt {attempt}: {error}");
    }
    sys::limit_file_size(None);
    store.insert(b"large", &vec![7; 1 << 20]).unwrap();
    store.batch(&batch).unwrap();
    assert_eq!(state_of(&store, "with room again").len(), 42);
}

/// The numbers that it left out were those of its segments times those that it had left out before.
#[test]
fn a_batch_that_finds_no_room_may_be_tried_again_and_again() {
    run_child("child_tries_a_batch_again_and_again");
}
