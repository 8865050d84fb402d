//! Danger: in a folder where anybody may make files, and remove only his own, as `/tmp`, a store that others may change, too, is
//! refused to them: Linux keeps such files from whoever would make them if there were none (`fs.protected_regular`).

mod common;

use common::sys;
use credenza::btree::BTree;
use credenza::hash::Hash;
use credenza::record;
use credenza::stats::Statistics;
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Those who made what is there, and those who come to it.
const USERS: [u32; 2] = [65_531, 65_532];
const SWITCH: &str = "/proc/sys/fs/protected_regular";

/// What the kernel did before, for when the test is over.
struct Protected(String);

impl Protected {
    fn switched_on() -> Option<Protected> {
        let before = fs::read_to_string(SWITCH).ok()?;
        fs::write(SWITCH, "1").ok()?;
        Some(Protected(before))
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, &self.0);
    }
}

/// Opens what there is, or makes it, and changes it.
fn change(folder: &Path, number: u32) {
    let statistics = Statistics::new().shared(true);
    let number = number.to_le_bytes();
    let hash = Hash::options().create(true).statistics(statistics.clone());
    hash.open(folder.join("hash")).unwrap().insert(&number, b"value").unwrap();
    let btree = BTree::options().create(true).statistics(statistics);
    btree.open(folder.join("btree")).unwrap().insert(&number, b"value").unwrap();
    // One that is empty.
    record::start(&record::Options::new(folder.join("trace"))).unwrap();
}

#[test]
fn stores_of_others_are_opened_by_who_may_write_to_them() {
    let Some(_protected) = Protected::switched_on() else {
        println!("skipped: this user may not have the kernel protect files");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::set_permissions(folder, Permissions::from_mode(0o1777)).unwrap();
    for user in USERS {
        let mut child = sys::fork(|| {
            assert!(sys::become_user(user));
            change(folder, user);
        });
        assert_eq!(child.wait(), sys::Status::Exited(0));
        // Not by a call that could make it: it is another's, to root, too.
        let mut options = OpenOptions::new();
        options.write(true).truncate(true).open(folder.join("trace")).unwrap();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            fs::set_permissions(path, Permissions::from_mode(0o666)).unwrap();
        }
    }
    assert_eq!(Hash::open(folder.join("hash")).unwrap().len().unwrap(), 2);
}
