//! What the kernel is told about reading stores that change, seen in what it shows of the process's maps.

use credenza::btree::BTree;
use credenza::hash::Hash;
use credenza::{Advice, Get, OpenOptions};
use std::path::Path;

/// For each map of a file whose path begins so, whether accesses are announced as random.
fn maps_of(path: &Path) -> Vec<(String, bool)> {
    let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut found, mut file) = (Vec::new(), None);
    for line in all.lines() {
        if let Some(at) = line.find(path.to_str().unwrap()) {
            file = Some(line[at..].to_owned());
        } else if let (Some(flags), Some(name)) = (line.strip_prefix("VmFlags:"), &file) {
            found.push((name.clone(), flags.split_whitespace().any(|flag| flag == "rr")));
            file = None;
        }
    }
    found
}

fn are_random(path: &Path) -> bool {
    let found = maps_of(path);
    assert!(!found.is_empty(), "nothing of {path:?} is mapped");
    found.iter().all(|(_, is_random)| *is_random)
}

/// Danger: the index is made anew as the store grows, and the kernel reads ahead for the new one.
#[test]
fn a_hash_store_and_its_later_indexes_are_read_as_was_announced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("store");
    let store = Hash::options().create(true).advice(Advice::Random).open(&path).unwrap();
    let first = maps_of(&path);
    for i in 0..50_000_u32 {
        store.insert(&i.to_le_bytes(), b"value").unwrap();
    }
    store.rebuild_index(false).unwrap();
    assert_eq!(store.get(&7_u32.to_le_bytes()).unwrap().as_deref(), Some(&b"value"[..]));
    assert!(are_random(&path), "{first:?} and then {:?}", maps_of(&path));
    store.advise(Advice::Normal).unwrap();
    assert!(maps_of(&path).iter().any(|(_, is_random)| !is_random));
    for advice in [Advice::Sequential, Advice::WillNeed, Advice::DontNeed, Advice::Random] {
        store.advise(advice).unwrap();
        assert_eq!(store.get(&7_u32.to_le_bytes()).unwrap().as_deref(), Some(&b"value"[..]));
    }
    assert!(are_random(&path));
}

#[test]
fn a_btree_store_is_read_as_was_announced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("store");
    let store = BTree::options().create(true).advice(Advice::Random).open(&path).unwrap();
    store.insert(b"key", b"value").unwrap();
    assert!(are_random(&path));
    for advice in [Advice::Normal, Advice::WillNeed, Advice::DontNeed, Advice::Sequential] {
        store.advise(advice).unwrap();
        assert!(!are_random(&path));
        assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

/// Danger: a program that opens stores of whatever kind announces it, and nobody listens.
#[test]
fn stores_of_any_kind_take_advice() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["hash", "btree"] {
        let path = folder.path().canonicalize().unwrap().join(kind);
        match kind {
            "hash" => Hash::create(&path).unwrap().insert(b"key", b"value").map(drop).unwrap(),
            _ => BTree::create(&path).unwrap().insert(b"key", b"value").map(drop).unwrap(),
        }
        for is_read_only in [false, true] {
            let options = OpenOptions::new().read_only(is_read_only).advice(Advice::Random);
            let store = options.open(&path).unwrap();
            assert!(are_random(&path), "{kind}");
            store.advise(Advice::DontNeed).unwrap();
            assert_eq!(store.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
            store.advise(Advice::Normal).unwrap();
            assert!(!are_random(&path), "{kind}");
        }
    }
}
