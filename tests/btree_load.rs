//! Danger: records that are sorted on their way into a store and come out in another order, twice,
//! not at all, or with an older value; a sort that takes more memory than it was given, or leaves
//! files behind.

mod common;

use common::{Rng, child, is_child, is_sanitized, random_records, rounds, seed};
use credenza::btree::{BTree, Duplicates, TableOptions};
use credenza::{BTreeBuilder, BTreeLoad, ErrorKind, Scan};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// What a table of this kind has after `before` and then `added` were put in it.
fn wanted(kind: Duplicates, before: &Pairs, added: &Pairs) -> Pairs {
    let mut map: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for (key, value) in before.iter().chain(added) {
        let values = map.entry(key).or_default();
        match kind {
            Duplicates::None => *values = vec![value],
            Duplicates::Inserted => values.push(value),
            Duplicates::Sorted => {
                values.push(value);
                values.sort_unstable();
                values.dedup();
            }
        }
    }
    let pairs = map.iter().flat_map(|(key, values)| values.iter().map(|value| (*key, *value)));
    pairs.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn all(store: &BTree, kind: Duplicates) -> Pairs {
    let (snapshot, mut pairs) = (store.read().unwrap(), Pairs::new());
    let keep = |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        Ok(())
    };
    match kind {
        Duplicates::None => snapshot.table("t").unwrap().unwrap().scan(keep).unwrap(),
        _ => snapshot.multi_table("t").unwrap().unwrap().scan(keep).unwrap(),
    }
    pairs
}

/// How many records replaced another, and how many were there already.
fn load(store: &BTree, rng: &mut Rng, records: &Pairs, asks: bool) -> (u64, u64) {
    let mut load = BTreeLoad::begin(store, Some("t"));
    load.memory_budget(1 << 20).unwrap();
    let mut replaced = 0;
    for (key, value) in records {
        load.add(key, value).unwrap();
        if asks && rng.below(300) == 0 {
            let seen = load.replaced().unwrap();
            assert!(seen >= replaced, "{seen} after {replaced}");
            replaced = seen;
        }
    }
    let lost = (load.replaced().unwrap(), load.already_there().unwrap());
    load.finish().unwrap();
    lost
}

/// Records of every style, in order, nearly, or not at all.
fn records_in_some_order(rng: &mut Rng) -> Pairs {
    let mut records = random_records(rng);
    match rng.below(4) {
        0 => rng.shuffle(&mut records),
        1 => records.sort_unstable(),
        2 => {
            records.sort_unstable();
            for _ in 0..records.len().min(3) {
                let (a, b) = (rng.below(records.len() as u64), rng.below(records.len() as u64));
                records.swap(a as usize, b as usize);
            }
        }
        _ => {}
    }
    records
}

#[test]
fn tables_of_every_kind_have_what_was_loaded() {
    for round in 0..rounds(60) {
        let mut rng = Rng::new(seed(round));
        let kinds = [Duplicates::None, Duplicates::Inserted, Duplicates::Sorted];
        let kind = kinds[rng.below(3) as usize];
        let folder = tempfile::tempdir().unwrap();
        let store = BTree::create(folder.path().join("store")).unwrap();
        let mut transaction = store.write().unwrap();
        transaction.create_table_with("t", &TableOptions::new().duplicates(kind)).unwrap();
        transaction.commit().unwrap();
        let mut before = Pairs::new();
        if rng.below(2) == 0 {
            before = records_in_some_order(&mut rng);
            load(&store, &mut rng, &before, false);
            assert!(all(&store, kind) == wanted(kind, &Pairs::new(), &before), "{kind:?}");
        }
        let (added, asks) = (records_in_some_order(&mut rng), rng.below(2) == 0);
        let had = all(&store, kind).len();
        let lost = load(&store, &mut rng, &added, asks);
        let wanted = wanted(kind, &before, &added);
        assert!(all(&store, kind) == wanted, "{kind:?}: {} and {}", before.len(), added.len());
        let not_more = (had + added.len() - wanted.len()) as u64;
        match kind {
            Duplicates::None => assert_eq!(lost, (not_more, 0)),
            Duplicates::Sorted => assert_eq!(lost, (0, not_more)),
            _ => assert_eq!((lost, not_more), ((0, 0), 0)),
        }
        store.verify(|_, _| ()).unwrap();
    }
}

/// More than the budget has room for, with records that are longer than what is read at once, and
/// keys that come again in other runs.
#[test]
fn what_is_sorted_on_the_disk_is_what_is_sorted_in_memory() {
    let mut rng = Rng::new(seed(0));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut records = Pairs::new();
    for i in 0..12_000_u64 {
        let key = format!("{:05}", rng.below(9000)).into_bytes();
        let len = if i % 1500 == 7 { 700_000 } else { 1000 };
        records.push((key, vec![i as u8; len]));
    }
    let mut builder = BTreeBuilder::create(&path).unwrap();
    builder.memory_budget(1).unwrap();
    builder.begin_table("t").unwrap();
    for (key, value) in &records {
        builder.add(key, value).unwrap();
    }
    let named = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(named, 1, "the store in the making, and nothing else that has a name");
    let store = builder.finish().unwrap();
    let wanted = wanted(Duplicates::None, &Pairs::new(), &records);
    assert!(all(&store, Duplicates::None) == wanted);
    store.verify(|_, _| ()).unwrap();
}

/// Bytes of memory of this process that are no part of files.
fn own_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

const BUDGET: u64 = 8 << 20;
const BESIDE: u64 = 24 << 20;

/// A child's work: nobody else takes memory there.
#[test]
fn child_sorts_within_its_budget() {
    if !is_child() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut builder = BTreeBuilder::create(folder.path().join("store")).unwrap();
    builder.memory_budget(BUDGET).unwrap();
    let (mut rng, mut most, before) = (Rng::new(1), 0, own_memory());
    let count = 600_000;
    for i in 0..count {
        builder.add(&rng.next().to_le_bytes(), &[i as u8; 40]).unwrap();
        if i % 4096 == 0 {
            most = most.max(own_memory() - before);
        }
    }
    assert_eq!(builder.finish().unwrap().len().unwrap(), count);
    println!("{} MiB at most", most >> 20);
    assert!(most > BUDGET / 2, "that little cannot be: {most} bytes");
    assert!(is_sanitized() || most < BUDGET + BESIDE, "{most} bytes");
}

/// The same with values of which three are as much as the budget: a record of each run would be far more.
#[test]
fn child_sorts_long_values_within_its_budget() {
    if !is_child() {
        return;
    }
    const LEN: usize = 300_000;
    let folder = tempfile::tempdir().unwrap();
    let mut builder = BTreeBuilder::create(folder.path().join("store")).unwrap();
    builder.memory_budget(1 << 20).unwrap();
    let (mut rng, before) = (Rng::new(1), own_memory());
    let is_over = AtomicBool::new(false);
    let keys: Vec<[u8; 8]> = (0..300).map(|_| rng.next().to_le_bytes()).collect();
    let most = std::thread::scope(|scope| {
        // Also while runs are merged, of which nobody is told.
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = own_memory().saturating_sub(before).max(most);
                std::thread::yield_now();
            }
            most
        });
        for (i, key) in keys.iter().enumerate() {
            builder.add(key, &[i as u8; LEN]).unwrap();
        }
        let store = builder.finish().unwrap();
        is_over.store(true, Ordering::Relaxed);
        let snapshot = store.read().unwrap();
        for (i, key) in keys.iter().enumerate() {
            let value = snapshot.main().get(key).unwrap().unwrap();
            assert!(value.len() == LEN && value.iter().all(|byte| *byte == i as u8), "{i}");
        }
        watcher.join().unwrap()
    });
    println!("{} MiB at most", most >> 20);
    assert!(is_sanitized() || most < BESIDE, "{most} bytes");
}

#[test]
fn a_sort_takes_no_more_memory_than_it_may() {
    for work in ["child_sorts_within_its_budget", "child_sorts_long_values_within_its_budget"] {
        let output = child(work).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        println!("{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && said.contains("MiB at most"), "{said}");
    }
}

#[test]
fn it_is_told_how_much_of_what_was_sorted_is_written() {
    let store = BTree::in_memory().unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut load = BTreeLoad::begin(&store, None);
    let list = Arc::clone(&told);
    load.progress(move |done, total| list.lock().unwrap().push((done, total))).unwrap();
    for i in (0..20_000_u64).rev() {
        load.add(&i.swap_bytes().to_le_bytes(), b"").unwrap();
    }
    load.finish().unwrap();
    let told = told.lock().unwrap();
    assert!(!told.is_empty() && told.is_sorted(), "{told:?}");
    assert!(told.iter().all(|(done, total)| done <= total && *total == 20_000), "{told:?}");
}

/// 4 GiB are more than any table takes; pages that nobody writes take no memory.
#[test]
fn a_load_with_a_record_over_the_limit_leaves_nothing() {
    let store = BTree::in_memory().unwrap();
    let long = vec![0; 1 << 32];
    for (key, value) in [(&b"k"[..], &long[..]), (&long[..], b"v")] {
        let mut load = BTreeLoad::begin(&store, None);
        load.add(b"a", b"1").unwrap();
        let error = load.add(key, value).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TooLarge { size: 0x1_0000_0000, .. }), "{error}");
        load.add(b"b", b"2").unwrap();
        assert!(load.finish().is_err());
        assert_eq!(store.read().unwrap().main().len(), 0);
    }
}

/// That records are not numbered was said of tables with one value a key alone.
#[test]
fn numbers_of_what_is_not_numbered_are_an_error() {
    for kind in [Duplicates::None, Duplicates::Sorted, Duplicates::Inserted] {
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        let options = TableOptions::of_keys::<u32>().duplicates(kind);
        transaction.create_table_with("table", &options).unwrap();
        transaction.commit().unwrap();
        let mut load = BTreeLoad::begin(&store, Some("table"));
        load.add(&[0, 0, 0, 1], b"value").unwrap();
        load.skip_numbers(7).unwrap();
        let error = load.finish().unwrap_err().to_string();
        assert!(error.contains("not numbered"), "{kind:?}: {error}");
        store.verify(|_, _| ()).unwrap();
        assert_eq!(store.stats().unwrap().tables, 1);
    }
}

/// The last that was said counted: of two dumps that were put together a number came twice.
#[test]
fn the_highest_number_that_is_said_to_be_given_counts() {
    let store = BTree::in_memory().unwrap();
    let mut transaction = store.write().unwrap();
    transaction.create_table_with("table", &TableOptions::of_keys::<u32>().numbered(true)).unwrap();
    transaction.commit().unwrap();
    let mut load = BTreeLoad::begin(&store, Some("table"));
    for last in [7, 100, 50] {
        load.skip_numbers(last).unwrap();
    }
    load.finish().unwrap();
    let mut transaction = store.write().unwrap();
    let mut table = transaction.table("table").unwrap().unwrap();
    assert_eq!(table.append(b"value").unwrap(), 101);
}

/// What did not fit in memory went where the store had been when it was opened.
#[test]
fn a_load_goes_beside_a_store_that_was_moved() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    std::fs::create_dir(&old).unwrap();
    let store = BTree::create(old.join("store")).unwrap();
    std::fs::rename(&old, &new).unwrap();
    let mut load = BTreeLoad::begin(&store, None);
    load.memory_budget(1 << 20).unwrap();
    for n in 0..60_000u32 {
        load.add(&n.wrapping_mul(2_654_435_761).to_le_bytes(), &[7; 40]).unwrap();
    }
    load.finish().unwrap();
    assert_eq!(store.read().unwrap().main().len(), 60_000);
    assert_eq!(std::fs::read_dir(&new).unwrap().count(), 1);
}

#[test]
fn a_load_within_a_transaction_of_its_thread_is_an_error() {
    let store = BTree::in_memory().unwrap();
    let mut load = BTreeLoad::begin(&store, None);
    load.add(b"key", b"loaded").unwrap();
    let mut transaction = store.write().unwrap();
    transaction.main().insert(b"key", b"put").unwrap();
    let error = load.finish().unwrap_err();
    assert!(error.to_string().contains("this thread"), "{error}");

    // So it is when it is asked, and nobody waits where it is given up.
    let mut load = BTreeLoad::begin(&store, None);
    load.add(b"key", b"loaded").unwrap();
    assert!(load.replaced().is_err());
    drop(BTreeLoad::begin(&store, None));

    transaction.commit().unwrap();
    let over = load.finish().unwrap_err();
    assert!(over.to_string().contains("load"), "{over}");
    assert_eq!(store.read().unwrap().main().get(b"key").unwrap(), Some(&b"put"[..]));
    let mut load = BTreeLoad::begin(&store, None);
    load.add(b"key", b"loaded").unwrap();
    load.finish().unwrap();
    assert_eq!(store.read().unwrap().main().get(b"key").unwrap(), Some(&b"loaded"[..]));
}
