//! Danger: a btree store whose file grows for ever though what is in it does not, or stays long when little is left.

mod common;

use common::btree::fill;
use common::subject::state_of;
use common::{Rng, ordered, rounds, seed};
use credenza::btree::BTree;
use credenza::{Durability, Scan};
use std::fs;
use std::path::Path;

/// The space of large values that are replaced, one page long or several, is used again.
#[test]
fn values_that_are_replaced_do_not_make_the_file_grow_for_ever() {
    for largest in [3000, 9000, 40_000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = BTree::create(&path).unwrap();
        let mut rng = Rng::new(largest);
        let mut churn = |turns: u64| {
            for turn in 0..turns {
                let mut transaction = store.write().unwrap();
                for i in 0..30u8 {
                    let value = vec![turn as u8; 600 + rng.below(largest) as usize];
                    transaction.main().insert(&[i], &value).unwrap();
                }
                transaction.commit().unwrap();
            }
        };
        churn(100);
        let before = store.stats().unwrap();
        churn(400);
        let after = store.stats().unwrap();
        let limit = 3 * before.file_bytes / 2;
        assert!(after.file_bytes <= limit, "{largest}: from {before:?} to {after:?}");
        state_of(&store, "at the end");
    }
}

/// A reader that stays holds the pages of its commit, and not those of all that come after.
/// The room of a value that has more pages than were looked at for it was never found again.
#[test]
fn a_value_longer_than_what_is_looked_at_uses_the_room_of_the_one_before() {
    const MEGA: usize = 1 << 20;
    for (sizes, turns) in [(&[66][..], 8), (&[40], 8), (&[30, 1, 10, 3, 20], 40)] {
        let store = BTree::in_memory().unwrap();
        let mut largest = 0;
        for turn in 0..turns {
            let size = sizes[turn % sizes.len()] * MEGA;
            let key = [(turn % 3) as u8];
            store.insert(&key[..sizes.len().min(2) - 1], &vec![turn as u8; size]).unwrap();
            let stats = store.stats().unwrap();
            largest = largest.max(stats.live_bytes);
            assert!(stats.file_bytes < 7 * largest / 2 + 64 * MEGA as u64, "{sizes:?}: {stats:?}");
        }
    }
}

/// Single pages went into the middle of the room that long values had left, one after the other, until no value found any.
#[test]
fn small_changes_leave_room_for_long_values() {
    let store = BTree::in_memory().unwrap();
    let mut rng = Rng::new(1);
    let small = |rng: &mut Rng| rng.below(3000).to_le_bytes();
    for _ in 0..20_000 {
        store.insert(&small(&mut rng), &[1; 300]).unwrap();
    }
    for turn in 0..400 {
        store.insert(b"long", &vec![turn as u8; 1 << 20]).unwrap();
        for _ in 0..50 {
            store.insert(&small(&mut rng), &[turn as u8; 300]).unwrap();
        }
        let stats = store.stats().unwrap();
        assert!(stats.file_bytes < 30 << 20, "after {turn} turns: {stats:?}");
    }
}

/// The same where they had been taken for values of transactions that were given up, or gone back in.
#[test]
fn changes_that_are_given_up_leave_room_for_long_values() {
    let store = BTree::in_memory().unwrap();
    let mut rng = Rng::new(6);
    let small = |rng: &mut Rng| rng.below(6000).to_le_bytes();
    for turn in 0..400 {
        let mut given_up = store.write().unwrap();
        given_up.main().insert(b"long", &vec![turn as u8; 1 << 20]).unwrap();
        drop(given_up);
        for _ in 0..30 {
            store.insert(&small(&mut rng), &[turn as u8; 300]).unwrap();
        }
        let mut kept = store.write().unwrap();
        let savepoint = kept.savepoint();
        kept.main().insert(b"other", &vec![turn as u8; 300_000]).unwrap();
        kept.rollback_to(savepoint).unwrap();
        kept.main().insert(b"long", &vec![turn as u8; 1 << 20]).unwrap();
        kept.commit().unwrap();
        let stats = store.stats().unwrap();
        assert!(stats.file_bytes < 12 << 20, "after {turn} turns: {stats:?}");
    }
}

#[test]
fn a_reader_that_stays_does_not_make_the_file_grow_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let keys = 2000u64;
    let fill = |byte: u8| {
        let mut transaction = store.write().unwrap();
        for i in 0..keys {
            transaction.main().insert(&ordered(i), &[byte; 200]).unwrap();
        }
        transaction.commit().unwrap();
    };
    fill(1);
    let live = store.stats().unwrap().live_bytes;
    let held = store.read().unwrap();
    let mut rng = Rng::new(1);
    let mut churn = |count: u64| {
        for turn in 0..count {
            let mut transaction = store.write().unwrap();
            for _ in 0..40 {
                let key = ordered(rng.below(keys));
                transaction.main().insert(&key, &[turn as u8; 200]).unwrap();
            }
            transaction.commit().unwrap();
            // Others come and go.
            assert_eq!(store.read().unwrap().main().len(), keys);
        }
    };
    churn(150);
    let before = store.stats().unwrap().file_bytes;
    churn(300);
    let after = store.stats().unwrap();
    assert!(after.file_bytes <= before + before / 4, "from {before} to {after:?}");
    assert!(after.file_bytes <= 6 * live, "{live} bytes of records, {after:?}");
    held.main()
        .scan(|_, value| {
            assert_eq!(value, [1; 200]);
            Ok(())
        })
        .unwrap();
    state_of(&store, "at the end");
}

fn pages(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len() / 4096
}

fn clear(store: &BTree) {
    let mut transaction = store.write().unwrap();
    transaction.main().clear().unwrap();
    transaction.commit().unwrap();
}

/// The end of the file is given back by a sync when much of it is free, and a store that was emptied
/// takes a few pages.
#[test]
fn a_sync_gives_the_end_of_the_file_back() {
    for (count, len) in [(20_000, 8), (3000, 300), (2000, 1000), (200, 50_000)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = BTree::create(&path).unwrap();
        let other = BTree::open(&path).unwrap();
        fill(&store, 0..count, len);
        store.sync().unwrap();
        let full = pages(&path);
        // Who has it open for long knows how long it was.
        other.insert(b"other", b"").unwrap();
        clear(&store);
        store.sync().unwrap();
        assert!(pages(&path) <= 16, "{count} of {len}: {} of {full} pages", pages(&path));
        assert!(store.stats().unwrap().is_durable);
        state_of(&store, "emptied");
        // Each writes where the file has no pages any more, for all that it knew.
        fill(&other, 0..count, len);
        state_of(&store, "filled by another");
        state_of(&other, "filled");
        assert!(pages(&path) <= full + full / 8 + 16, "{} of {full} pages", pages(&path));
        drop((store, other));
        let store = BTree::open(&path).unwrap();
        assert_eq!(Scan::len(&store).unwrap(), count);
        state_of(&store, "opened again");
    }
}

/// Also where the journal lies behind all of it.
/// Memory, too.
#[test]
fn a_sync_of_a_store_in_memory_gives_memory_back() {
    let store = BTree::in_memory().unwrap();
    fill(&store, 0..20_000, 400);
    let full = store.stats().unwrap().file_bytes;
    clear(&store);
    store.sync().unwrap();
    let empty = store.stats().unwrap().file_bytes;
    assert!(empty < full / 16, "{empty} of {full} bytes");
    fill(&store, 0..100, 400);
    store.sync().unwrap();
    store.verify(|_, _| ()).unwrap();
    assert_eq!(store.read().unwrap().main().len(), 100);
}

#[test]
fn a_sync_gives_the_end_of_the_file_back_with_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::options().create(true).durability(Durability::Sync).open(&path).unwrap();
    fill(&store, 0..20_000, 100);
    (0..12u64).for_each(|i| assert!(store.insert(&ordered(i), &[1]).unwrap()));
    let full = pages(&path);
    clear(&store);
    store.sync().unwrap();
    assert!(pages(&path) <= 16, "{} of {full} pages", pages(&path));
    // What is small keeps its journal.
    (0..40u64).for_each(|i| assert!(!store.insert(&ordered(i), &[1]).unwrap()));
    let small = pages(&path);
    store.sync().unwrap();
    assert_eq!(pages(&path), small);
    drop(store);
    assert!(pages(&path) <= 16, "{} pages when it is closed", pages(&path));
}

/// Nothing is cut as long as somebody reads an older commit, and all of it when he is gone.
#[test]
fn what_a_reader_holds_is_not_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    fill(&store, 0..4000, 300);
    store.sync().unwrap();
    let full = pages(&path);
    let held = store.read().unwrap();
    clear(&store);
    for i in 0..20 {
        fill(&store, 0..i, 300);
        store.sync().unwrap();
        assert!(pages(&path) >= full);
    }
    let seen = held.main().iter().map(|pair| pair.unwrap().1[0]).collect::<Vec<_>>();
    assert!(seen.iter().enumerate().all(|(i, byte)| *byte == i as u8) && seen.len() == 4000);
    drop(held);
    clear(&store);
    store.sync().unwrap();
    assert!(pages(&path) <= 16, "{} of {full} pages", pages(&path));
    state_of(&store, "at the end");
}

/// Further slots of readers do not keep the end of the file for ever.
#[test]
fn slots_of_readers_do_not_hold_the_end_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    fill(&store, 0..4000, 300);
    let held: Vec<_> = (0..500).map(|_| store.read().unwrap()).collect();
    drop(held);
    clear(&store);
    drop(store);
    let store = BTree::open(&path).unwrap();
    store.insert(b"key", b"").unwrap();
    store.sync().unwrap();
    assert!(pages(&path) <= 16, "{} pages", pages(&path));
    state_of(&store, "at the end");
}

/// Everything that there is of a store, in all tables.
fn contents(store: &BTree) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let snapshot = store.read().unwrap();
    let mut all = Vec::new();
    let mut take = |name: &str, table: credenza::btree::Table<'_>| {
        let before = all.len() as u64;
        table
            .scan(|key, value| {
                all.push((name.to_owned(), key.to_vec(), value.to_vec()));
                Ok(())
            })
            .unwrap();
        assert_eq!(all.len() as u64 - before, table.len());
    };
    take("", snapshot.main());
    for name in snapshot.tables().unwrap() {
        take(&name, snapshot.table(&name).unwrap().unwrap());
    }
    all
}

/// Shapes of records: the bytes of keys and values, at most.
const SHAPES: [(u64, usize, usize); 6] = [
    (20_000, 8, 8),
    (6000, 30, 200),
    (3000, 20, 1500),
    (1200, 1500, 20),
    (1500, 10, 9000),
    (300, 10, 120_000),
];

/// A store with records of some shape in two tables, in random order, of which most were removed.
fn thinned(
    path: &Path,
    (count, key, value): (u64, usize, usize),
    kept: u64,
    rng: &mut Rng,
) -> BTree {
    let store = BTree::create(path).unwrap();
    let mut transaction = store.write().unwrap();
    let mut keys = Vec::new();
    for i in 0..count {
        let mut bytes = rng.next().to_le_bytes().to_vec();
        bytes.resize(8 + if key > 8 { rng.below(key as u64 - 7) as usize } else { 0 }, i as u8);
        let len = if value > 8 { rng.below(value as u64 + 1) as usize } else { value };
        let mut table = match i % 3 {
            0 => transaction.create_table("other").unwrap(),
            _ => transaction.main(),
        };
        table.insert(&bytes, &vec![i as u8; len]).unwrap();
        keys.push((i % 3 == 0, bytes));
    }
    transaction.commit().unwrap();
    for part in keys.chunks(keys.len() / 10 + 1) {
        let mut transaction = store.write().unwrap();
        for (is_other, key) in part {
            if rng.below(100) >= kept {
                match is_other {
                    true => transaction.table("other").unwrap().unwrap().remove(key).unwrap(),
                    false => transaction.main().remove(key).unwrap(),
                };
            }
        }
        transaction.commit().unwrap();
    }
    store
}

/// How long the file of a new store with the same records is.
fn least(store: &BTree) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("least");
    let mut builder = credenza::BTreeBuilder::create(&path).unwrap();
    let mut table = String::new();
    for (name, key, value) in contents(store) {
        if name != table {
            builder.begin_table(&name).unwrap();
            table = name;
        }
        builder.add(&key, &value).unwrap();
    }
    let store = builder.finish().unwrap();
    let stats = store.stats().unwrap();
    stats.live_bytes + stats.header_bytes
}

/// After a compaction the file is at most a tenth longer than one that was just made of what is
/// there.
#[test]
fn a_compacted_file_is_as_small_as_a_new_one() {
    // The last two long runs found: leaves that were written anew in every pass, and the long values of which
    // were never moved; and places for values of two pages that were passed over for one of three.
    for round in (0..rounds(18)).chain([154, 334]) {
        let mut rng = Rng::new(seed(round));
        let shape = SHAPES[round as usize % SHAPES.len()];
        let kept = [100, 50, 7][round as usize / SHAPES.len() % 3];
        let what = format!("round {round}, {shape:?}, {kept} % kept");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = thinned(&path, shape, kept, &mut rng);
        let before = contents(&store);
        let full = fs::metadata(&path).unwrap().len();
        let budget = [1 << 16, 1 << 20, u64::MAX][rng.below(3) as usize];
        let mut calls = 0;
        while store.compact(budget).unwrap() {
            calls += 1;
            assert!(calls < 20_000, "{what}: a compaction comes to no end");
        }
        assert!(contents(&store) == before, "{what}: not the same records");
        store.verify(|_, _| ()).unwrap_or_else(|e| panic!("{what}: {e}"));
        let (len, least) = (fs::metadata(&path).unwrap().len(), least(&store));
        println!("{what}: {full} bytes, {len} after {calls} calls, {least} at least");
        assert!(len <= least + least / 10 + (24 << 12), "{what}: {len} bytes, {least} at least");
        // A second one finds nothing to do.
        store.compact(u64::MAX).unwrap();
        assert!(contents(&store) == before, "{what}: not the same records");
    }
}

/// What is removed while a compaction goes on may use up its passes: it does not end with what it has moved
/// behind the end of the file to bring it down again.
#[test]
fn a_compaction_never_ends_with_a_longer_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let tables: Vec<(String, u32)> = (0..7)
        .map(|i| (format!("t{i}"), 2750))
        .chain(
            [("x", 9000), ("y", 9000), ("z", 22_500)].map(|(name, count)| (name.to_owned(), count)),
        )
        .collect();
    for (name, count) in &tables {
        let mut transaction = store.write().unwrap();
        let mut table = transaction.create_table(name).unwrap();
        for i in 0..*count {
            table.insert(format!("{i:08}").as_bytes(), &[7; 200]).unwrap();
        }
        transaction.commit().unwrap();
        store.sync().unwrap();
    }
    let clear = |name: &str| {
        let mut transaction = store.write().unwrap();
        transaction.table(name).unwrap().unwrap().remove_range(..).unwrap();
        transaction.commit().unwrap();
        store.sync().unwrap();
    };
    clear("t0");
    let mut is_more = store.compact(4096).unwrap();
    for table in ["t1", "t2", "t3", "t4", "t5", "t6"] {
        clear(table);
        is_more = is_more && store.compact(u64::MAX).unwrap();
    }
    ["x", "z"].into_iter().for_each(clear);
    let before = fs::metadata(&path).unwrap().len();
    while is_more && store.compact(u64::MAX).unwrap() {}
    let after = fs::metadata(&path).unwrap().len();
    assert!(after <= before, "{after} bytes, and before {before}");
    while store.compact(u64::MAX).unwrap() {}
    let (len, least) = (fs::metadata(&path).unwrap().len(), least(&store));
    assert!(len <= least + least / 10 + (24 << 12), "{len} bytes, {least} at least");
    store.verify(|_, _| ()).unwrap();
}

/// Who holds how much: each reader the pages of his commit that were replaced since, and the durable
/// commit its own.
#[test]
fn stats_say_who_holds_how_much() {
    let folder = tempfile::tempdir().unwrap();
    let store = BTree::create(folder.path().join("store")).unwrap();
    fill(&store, 0..2000, 300);
    store.sync().unwrap();
    let live = store.stats().unwrap().live_bytes;
    assert_eq!(store.stats().unwrap().held_bytes, 0);
    let first = store.read().unwrap();
    store.insert(b"key", b"value").unwrap();
    let second = store.read().unwrap();
    clear(&store);
    let stats = store.stats().unwrap();
    let held: Vec<u64> = stats.readers.iter().map(|reader| reader.held_bytes).collect();
    assert_eq!(held.len(), 2, "{stats:?}");
    assert!(held.iter().all(|bytes| *bytes >= live), "{stats:?}");
    assert!(stats.held_bytes > live && stats.held_bytes < 2 * live, "{stats:?}");
    assert!(stats.undurable_bytes == live, "{stats:?}");
    drop(first);
    store.sync().unwrap();
    let stats = store.stats().unwrap();
    assert!(stats.undurable_bytes == 0 && stats.readers.len() == 1, "{stats:?}");
    assert!(stats.readers[0].held_bytes == stats.held_bytes, "{stats:?}");
    drop(second);
    let stats = store.stats().unwrap();
    assert!(stats.held_bytes == 0 && stats.readers.is_empty(), "{stats:?}");
}

/// While somebody reads nothing is cut off: then a file must not be compacted by making it longer.
#[test]
fn compacting_beside_readers_does_not_make_the_file_grow_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = BTree::create(&path).unwrap();
    let mut rng = Rng::new(seed(0));
    let mut held = std::collections::VecDeque::new();
    for round in 0..60 {
        for _ in 0..20 {
            let key = rng.below(30).to_le_bytes();
            let len = 8 + rng.below(20_000) as usize;
            store.insert(&key, &vec![1; len]).unwrap();
        }
        // Each snapshot is held for two rounds.
        held.push_back(store.read().unwrap());
        while store.compact(1 << 17).unwrap() {}
        if held.len() > 1 {
            held.pop_front();
        }
        let len = fs::metadata(&path).unwrap().len();
        assert!(len < 8 << 20, "round {round}: {len} bytes for 600 KB");
    }
    held.clear();
    while store.compact(1 << 17).unwrap() {}
    let len = fs::metadata(&path).unwrap().len();
    let live = store.stats().unwrap().live_bytes;
    assert!(len < live * 5 / 4 + (64 << 10), "{len} bytes for {live}");
}

/// Compaction wrote leaves anew to save pages of their values, and saved none: each pass, behind the end of the file.
#[test]
fn compaction_does_not_write_anew_what_stays_as_long() {
    for round in 0..rounds(12) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = BTree::create(&path).unwrap();
        let mut rng = Rng::new(seed(round));
        let (keys, longest) = (1000 + rng.below(5000), 500 + rng.below(600));
        let each = 1 + rng.below(2000);
        for _ in 0..keys.div_ceil(each) {
            let mut transaction = store.write().unwrap();
            for _ in 0..each {
                let (key, len) = (rng.below(keys), rng.below(longest));
                transaction.main().insert(&key.to_le_bytes(), &vec![7; len as usize]).unwrap();
            }
            transaction.commit().unwrap();
        }
        let kept = rng.below(100);
        let mut transaction = store.write().unwrap();
        for key in (0..keys).filter(|_| rng.below(100) > kept) {
            transaction.main().remove(&key.to_le_bytes()).unwrap();
        }
        transaction.commit().unwrap();
        let budget = 4096 << rng.below(14);
        while store.compact(budget).unwrap() {}
        let stats = store.stats().unwrap();
        let most = stats.live_bytes / 10 * 11 + (256 << 10);
        assert!(stats.file_bytes <= most, "seed {}: {stats:?}", seed(round));
        store.verify(|_, _| ()).unwrap();
    }
}

/// Where fewer leaves did, values of some hundred bytes were parted at their new borders, and more pages of values were made
/// than leaves were saved.
#[test]
fn compaction_makes_no_more_pages_of_values_than_it_saves() {
    for (len, every) in [(600, 10), (513, 8), (1300, 6), (700, 4)] {
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        let key = |i: u64| format!("{i:040}").into_bytes();
        let mut order: Vec<u64> = (0..8000).collect();
        Rng::new(seed(len)).shuffle(&mut order);
        for i in &order {
            transaction.main().insert(&key(*i), &vec![7; len as usize]).unwrap();
        }
        for i in (0..8000).filter(|i| i % every == 0) {
            transaction.main().remove(&key(i)).unwrap();
        }
        transaction.commit().unwrap();
        let before = store.stats().unwrap().live_bytes;
        while store.compact(1 << 20).unwrap() {}
        let (stats, least) = (store.stats().unwrap(), least(&store));
        assert!(stats.live_bytes <= before, "{len}: {stats:?}, {before} bytes before");
        assert!(stats.file_bytes <= least + least / 10 + (24 << 12), "{len}: {stats:?}, {least}");
        store.verify(|_, _| ()).unwrap();
    }
}

/// A tree of one leaf was never written anew, so that each of many small tables had twice its pages.
#[test]
fn tables_of_one_leaf_are_compacted_too() {
    for (values, len) in [(18, 600), (8, 2000)] {
        let store = BTree::in_memory().unwrap();
        let mut transaction = store.write().unwrap();
        for name in (0..300).map(|n| format!("table {n}")) {
            transaction.create_table(&name).unwrap();
            let mut table = transaction.table(&name).unwrap().unwrap();
            (0..values).for_each(|i| assert!(!table.insert(&[i], &vec![i; len]).unwrap()));
            (0..values).filter(|i| i % 4 != 0).for_each(|i| assert!(table.remove(&[i]).unwrap()));
        }
        transaction.commit().unwrap();
        while store.compact(1 << 16).unwrap() {}
        let (stats, least) = (store.stats().unwrap(), least(&store));
        assert!(stats.file_bytes <= least + least / 10 + (24 << 12), "{stats:?}, {least}");
        store.verify(|_, _| ()).unwrap();
        let snapshot = store.read().unwrap();
        let table = snapshot.table("table 7").unwrap().unwrap();
        assert_eq!(table.get(&[4]).unwrap(), Some(&vec![4; len][..]));
    }
}
