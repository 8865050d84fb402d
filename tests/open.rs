//! Danger: who opens a store that changes without knowing what it is gets other answers than its owner, or
//! changes what must not change.

mod common;

use credenza::btree::BTree;
use credenza::constant::{Builder, Constant};
use credenza::hash::Hash;
use credenza::stats::{Operation, Statistics};
use credenza::{Access, Advice, Get, OpenOptions, Scan, Store, kind_of};
use tempfile::TempDir;

fn store_of(folder: &TempDir, n: u32) -> std::path::PathBuf {
    let path = folder.path().join("store");
    let store = Hash::create(&path).expect("a store");
    for i in 0..n {
        store.insert(format!("key{i}").as_bytes(), &i.to_le_bytes()).expect("it is put");
    }
    path
}

#[test]
fn it_is_recognised_and_gives_the_same_answers() {
    let folder = TempDir::new().expect("a folder");
    let path = store_of(&folder, 500);
    assert_eq!(kind_of(&path).expect("a kind"), "hash");
    for is_read_only in [false, true] {
        let options = OpenOptions::new().advice(Advice::WillNeed).read_only(is_read_only);
        let store = options.open(&path).expect("the store");
        assert!(matches!(store, Store::Hash(_)));
        assert_eq!((store.kind(), store.len().expect("a number")), ("hash", 500));
        assert_eq!(store.get(b"key7").expect("a lookup").as_deref(), Some(&[7, 0, 0, 0][..]));
        assert_eq!(store.get_all(b"key7").expect("a lookup").len(), 1);
        assert_eq!(store.get_all(b"none").expect("a lookup").len(), 0);
        assert!(store.contains_key(b"key499").expect("a lookup"));
        let mut found = Vec::new();
        let many =
            store.get_many(&["key1", "no", "key2"], |i, value| found.push((i, value.is_some())));
        many.expect("lookups");
        assert_eq!(found, [(0, true), (1, false), (2, true)]);
        let mut count = 0;
        let counted = store.scan(|_, _| {
            count += 1;
            Ok(())
        });
        counted.expect("a scan");
        assert_eq!(count, 500);
        store.verify(|_, _| {}).expect("it is whole");
    }
}

#[test]
fn its_statistics_add_up() {
    let folder = TempDir::new().expect("a folder");
    let path = store_of(&folder, 500);
    Hash::open(&path).expect("the store").remove(b"key9").expect("it is taken out");
    let stats = credenza::open(&path).expect("the store").stats().expect("statistics");
    assert_eq!((stats.records, stats.value_bytes), (499, 499 * 4));
    let parts = stats.key_bytes + stats.value_bytes + stats.directory_bytes + stats.slack_bytes;
    assert_eq!(parts, stats.file_bytes);
    assert_eq!(stats.file_bytes, std::fs::metadata(&path).expect("the file").len());
    for name in ["live_bytes", "dead_bytes", "retired_bytes", "free_bytes", "index_bytes"] {
        assert!(stats.more.iter().any(|(other, _)| *other == name), "{name}");
    }
}

#[test]
fn for_reading_only_nothing_changes_on_the_disk() {
    let folder = TempDir::new().expect("a folder");
    let path = store_of(&folder, 500);
    let index = folder.path().join("store-index");
    for is_index_there in [true, false] {
        if !is_index_there {
            std::fs::remove_file(&index).expect("the index");
        }
        let bytes = || (std::fs::read(&path).expect("the file"), std::fs::read(&index).ok());
        let before = bytes();
        let store = OpenOptions::new().read_only(true).open(&path).expect("the store");
        store.verify(|_, _| {}).expect("it is whole");
        store.preload().expect("it is read");
        assert_eq!(store.stats().expect("statistics").records, 500);
        assert!(bytes() == before, "with its index: {is_index_there}");
        drop(store);
        assert!(bytes() == before, "with its index: {is_index_there}");
    }
}

/// What cannot be done with a file was said without its name.
#[test]
fn memory_that_cannot_be_locked_is_that_of_a_file_with_a_name() {
    let folder = TempDir::new().expect("a folder");
    let (constant, cdb) = (folder.path().join("one.constant"), folder.path().join("one.cdb"));
    Builder::create(&constant).expect("room").finish().expect("room");
    credenza::foreign::CdbWriter::create(&cdb).expect("room").finish().expect("room");
    for path in [constant, cdb] {
        let store = OpenOptions::new().access(Access::Read).open(&path).expect("the store");
        let error = store.lock_in_memory().expect_err("there is none to lock").to_string();
        assert!(error.contains(path.to_str().expect("a name")), "{error}");
    }
}

#[test]
fn memory_is_asked_for_in_vain_or_in_earnest() {
    let folder = TempDir::new().expect("a folder");
    let path = store_of(&folder, 5000);
    let store = credenza::open(&path).expect("the store");
    store.preload().expect("it is read");
    let found = store.residency().expect("residency");
    assert_eq!(found.resident, found.total);
    assert!(found.total >= std::fs::metadata(&path).expect("the file").len());
    for advice in [Advice::Normal, Advice::Random, Advice::Sequential, Advice::WillNeed] {
        store.advise(advice).expect("advice");
    }
    let error = store.lock_in_memory().expect_err("it grows").to_string();
    assert!(error.contains("store: ") && error.contains("preload it"), "{error}");
    for access in [Access::Read, Access::Memory] {
        let error = OpenOptions::new().access(access).open(&path).expect_err("mapped only");
        assert!(error.to_string().contains("always mapped"), "{error}");
    }
    let memory = Store::Hash(Hash::in_memory().expect("a store"));
    memory.preload().expect("nothing to read");
    assert_eq!(memory.residency().expect("residency").total, 0);
}

/// It was whatever lay at the path by then, which after a move, or in another folder, was nothing.
#[test]
fn a_moved_store_is_read_into_memory_where_it_is() {
    let folder = TempDir::new().expect("a folder");
    let (hash, moved) = (store_of(&folder, 5000), folder.path().join("moved"));
    let tree = folder.path().join("tree");
    BTree::create(&tree).expect("a store").insert(b"key", b"value").expect("it is put");
    for path in [hash, tree] {
        let store = credenza::open(&path).expect("the store");
        std::fs::rename(&path, &moved).expect("it is moved");
        store.preload().expect("it is read");
        let total = store.residency().expect("residency").total;
        assert!(total >= std::fs::metadata(&moved).expect("the file").len());
        std::fs::write(&path, vec![7; 9 << 20]).expect("room for another file");
        assert_eq!(store.residency().expect("residency").total, total, "{}", path.display());
        std::fs::remove_file(&moved).expect("it is removed");
        store.preload().expect("it is read");
        assert!(store.residency().expect("residency").total > 0);
    }
}

/// Without a map it was what a scan reads: no checksums, and not what leads to large records.
#[test]
fn all_of_a_file_is_read_into_memory() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("store");
    let mut builder = Builder::create(&path).expect("a builder");
    builder.add(b"key", &[7; 300]).expect("it is added");
    builder.finish().expect("it is built");
    let store = OpenOptions::new().access(Access::Read).open(&path).expect("the store");
    store.preload().expect("it is read");
    // What is not read is not missed.
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the file");
    let len = file.metadata().expect("its size").len();
    file.set_len(len - 1).expect("it can be cut");
    let error = store.preload().expect_err("its last byte is gone");
    assert!(error.is_bad_file() && error.path() == Some(&*path), "{error}");
}

/// A small file is read whole, of a large one the pages of many keys are asked for at once.
#[test]
fn lookups_announced_as_random_find_the_same() {
    let folder = TempDir::new().expect("a folder");
    for (name, count, size) in [("small", 3000, 100), ("large", 1000, 36_000)] {
        let path = folder.path().join(name);
        let value = |i: usize| vec![i as u8; size + i % 7];
        let mut builder = Builder::create(&path).expect("a builder");
        for i in 0..count {
            builder.add(format!("{i:07}").as_bytes(), &value(i)).expect("it is added");
        }
        builder.finish().expect("it is built");
        let is_large = std::fs::metadata(&path).expect("the file").len() > 32 << 20;
        assert_eq!(is_large, name == "large");
        let store = Constant::options().advice(Advice::Random).open(&path).expect("the store");
        let keys: Vec<String> = (0..count + 300).map(|i| format!("{i:07}")).collect();
        let mut next = 0;
        let check = |i: usize, found: Option<&[u8]>| {
            assert_eq!(found, (i < count).then(|| value(i)).as_deref(), "{name} {i}");
            next += 1;
        };
        store.get_many(&keys, check).expect("lookups");
        assert_eq!(next, keys.len());
    }
}

#[test]
fn a_btree_store_is_recognised_and_says_what_it_cannot() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("store");
    let tree = BTree::create(&path).expect("a store");
    for i in 0..500u32 {
        tree.insert(format!("key{i}").as_bytes(), &i.to_le_bytes()).expect("it is put");
    }
    assert_eq!(kind_of(&path).expect("a kind"), "btree");
    let store = OpenOptions::new().advice(Advice::WillNeed).open(&path).expect("the store");
    assert!(matches!(store, Store::BTree(_)));
    assert_eq!((store.kind(), store.len().expect("a number")), ("btree", 500));
    assert_eq!(store.get(b"key7").expect("a lookup").as_deref(), Some(&[7, 0, 0, 0][..]));
    let stats = store.stats().expect("statistics");
    assert_eq!((stats.records, stats.value_bytes), (500, 500 * 4));
    assert_eq!(stats.file_bytes, std::fs::metadata(&path).expect("the file").len());
    store.preload().expect("it is read");
    let found = store.residency().expect("residency");
    assert_eq!((found.resident, found.total), (stats.file_bytes, stats.file_bytes));
    let refused = |options: OpenOptions, why: &str| {
        let error = options.open(&path).expect_err("refused").to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(OpenOptions::new().access(Access::Read), "always mapped");
    refused(OpenOptions::new().read_only(true), "wait until the store is closed");
    let counting = OpenOptions::new().statistics(Statistics::new()).open(&path).expect("a store");
    assert!(counting.get(b"key7").expect("a lookup").is_some());
    assert_eq!(counting.operations().expect("it counts").of(Operation::Get).calls, 1);
    drop(counting);
    let error = store.lock_in_memory().expect_err("it grows").to_string();
    assert!(error.contains("preload it"), "{error}");
    drop((tree, store));
    let store = OpenOptions::new().read_only(true).open(&path).expect("the store");
    assert_eq!(store.get(b"key7").expect("a lookup").as_deref(), Some(&[7, 0, 0, 0][..]));
}

/// Danger: each open store takes so many addresses, for what it may become, that few can be open and nothing else finds any.
#[test]
fn many_stores_are_open_in_a_process_and_the_last_can_grow() {
    if common::is_sanitized() {
        println!("skipped: a sanitizer leaves too few addresses");
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("tree");
    let open = |_| BTree::create(&path).expect("a further handle");
    let handles: Vec<BTree> = (0..150).map(open).collect();
    let memory: Vec<BTree> = (0..50).map(|_| BTree::in_memory().expect("a store")).collect();
    let hashed = Hash::create(folder.path().join("hash")).expect("a store of the other kind");
    let mut space: Vec<u8> = Vec::new();
    space.try_reserve(1 << 30).expect("addresses for something else");
    let last = handles.last().expect("a handle");
    for i in 0..100u32 {
        let value = vec![1; 1 << 20];
        last.insert(&i.to_le_bytes(), &value).expect("room to grow");
        hashed.insert(&i.to_le_bytes(), b"value").expect("room to grow");
    }
    let first = handles[0].read().expect("a snapshot");
    assert_eq!(first.main().len(), 100);
    assert_eq!(memory.len(), 50);
}
