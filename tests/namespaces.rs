//! Danger: that a process which counts processes otherwise than another, or time, takes it for dead while it lives, and
//! writes over what it reads.

mod common;

use common::sys::{self, Status, fork};
use credenza::ErrorKind;
use credenza::btree::BTree;
use credenza::hash::Hash;

/// When a process began is told by the clock of who asks.
#[test]
fn a_store_in_use_by_another_clock_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (hash_path, btree_path) = (folder.path().join("hash"), folder.path().join("btree"));
    let hash = Hash::create(&hash_path).unwrap();
    let btree = BTree::create(&btree_path).unwrap();
    hash.insert(b"key", b"value").unwrap();
    let held = btree.read().unwrap();
    let mut other = fork(|| {
        sys::give_up_after(60);
        if !sys::let_children_live_by_another_clock() {
            println!("skipped: this user may not have another clock");
            return;
        }
        let mut child = fork(|| {
            let errors = [Hash::open(&hash_path).map(drop), BTree::open(&btree_path).map(drop)];
            for error in errors.map(Result::unwrap_err) {
                assert!(matches!(error.kind(), ErrorKind::Unsupported(_)), "{error}");
                assert!(error.to_string().contains("time namespace"), "{error}");
            }
            // Of what nobody else has open, its own clock is as good as any.
            let own = BTree::create(folder.path().join("own")).unwrap();
            own.insert(b"key", b"value").unwrap();
        });
        assert_eq!(child.wait(), Status::Exited(0));
    });
    assert_eq!(other.wait(), Status::Exited(0));
    assert!(held.main().is_empty());
}
