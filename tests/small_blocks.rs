//! Danger: a full disk whose blocks are smaller than pages: of a page of a file some blocks may be there and others not, and who
//! writes to those through a map is ended (SIGBUS).

mod common;

use common::mount::Mount;
use common::subject::{Operation, Subject};
use common::sys;
use credenza::btree::BTree;
use credenza::hash::Hash;
use credenza::stats::Statistics;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

const SIZE: u64 = 4 << 20;
const BLOCK: u64 = 1 << 10;
/// More blocks than the first files of a store take.
const MOST_LEFT: u64 = 64;

fn made(kind: &str) -> Option<Mount> {
    let mount = Mount::of_kind(kind, &["-b", "1024"], SIZE);
    if mount.is_none() {
        println!("skipped: {kind} may not be made or mounted here");
    }
    mount
}

/// Takes all there is but for so many blocks.
fn leave(mount: &Mount, blocks: u64) {
    let path = mount.path().join("ballast");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    let sync = || File::open(mount.path()).unwrap().sync_all().unwrap();
    sync();
    // What was given back is free when that is on the disk.
    for _ in 0..2 {
        while file.write(&[1; BLOCK as usize]).is_ok_and(|written| written > 0) {}
        file.sync_all().unwrap();
    }
    file.set_len(file.metadata().unwrap().len().saturating_sub(blocks * BLOCK)).unwrap();
    file.sync_all().unwrap();
}

/// Does `work` with a new store where there is room for few blocks or none: it is done or refused.
fn with_few_blocks(mount: &Mount, work: impl Fn(&Path)) {
    let path = mount.path().join("store");
    for blocks in 0..MOST_LEFT {
        leave(mount, blocks);
        let mut child = sys::fork(|| {
            sys::give_up_after(60);
            work(&path);
        });
        assert_eq!(child.wait(), sys::Status::Exited(0), "{blocks} blocks");
        for entry in fs::read_dir(mount.path()).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().contains("store") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }
}

/// Done, or refused as there is no room.
fn done<T>(result: credenza::Result<T>) -> Option<T> {
    let is_no_room = |error: &credenza::Error| error.to_string().contains("free some space");
    result.inspect_err(|error| assert!(is_no_room(error), "{error}")).ok()
}

/// Puts until there is no room, and opens the store again with nothing but its first file.
fn fill<S: Subject>(path: &Path) {
    let Some(store) = done(S::open(path)) else { return };
    let put = |i: u64| Operation::Insert(i.to_le_bytes().to_vec(), vec![1; 100]);
    let count = (0..2000).take_while(|i| done(store.apply(&put(*i))).is_some()).count();
    done(store.sync());
    store.verify().unwrap();
    drop(store);
    S::files(path).iter().skip(1).for_each(|file| fs::remove_file(file).unwrap());
    let Some(store) = done(S::open(path)) else { return };
    assert_eq!(store.len().unwrap(), count as u64);
    done(store.apply(&put(0)));
    store.verify().unwrap();
}

#[test]
fn stores_that_are_made_there_end_nobody() {
    // The second sets no blocks aside: there, files grow by zeros.
    for kind in ["ext4", "ext2"] {
        let Some(mount) = made(kind) else { return };
        with_few_blocks(&mount, fill::<Hash>);
        with_few_blocks(&mount, fill::<BTree>);
    }
}

#[test]
fn statistics_that_are_made_there_end_nobody() {
    let Some(mount) = made("ext4") else { return };
    with_few_blocks(&mount, |path| {
        let options = Hash::options().create(true).statistics(Statistics::new().shared(true));
        let _ = options.open(path).and_then(|store| store.insert(b"key", b"value").map(drop));
    });
}
