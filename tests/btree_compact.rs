//! Danger: a compaction that leaves the file of a btree store longer than promised, or keeps others waiting for longer.

mod common;

use common::{Rng, rounds, seed};
use credenza::btree::{BTree, Duplicates, TableOptions};
use std::fs;
use std::path::Path;

/// What a random store is made of.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Keys of so many bytes, so many of which begin alike but for a few of their last.
    Paths { len: usize, folder: u64 },
    /// Numbers.
    Numbers,
    /// So many sorted values of so many bytes a key, which begin alike.
    Values { len: usize, each: u64 },
}

/// Record number `i` of a store of some shape.
fn key(shape: Shape, i: u64) -> Vec<u8> {
    match shape {
        Shape::Numbers => i.swap_bytes().to_le_bytes().to_vec(),
        Shape::Paths { len, folder } => {
            let mut rng = Rng::new(i / folder + 1);
            let mut path: Vec<u8> =
                (8..len).map(|_| b"abcdefghijklmno/"[rng.below(16) as usize]).collect();
            path.extend_from_slice(format!("{:08}", i % folder * 7919).as_bytes());
            path
        }
        Shape::Values { len, each } => {
            let mut rng = Rng::new(i / each + 1);
            let mut value = rng.bytes(len.saturating_sub(8));
            value.extend_from_slice(&(i % each).swap_bytes().to_le_bytes());
            value
        }
    }
}

/// What is done with one.
#[derive(Clone, Copy, Debug)]
struct Plan {
    shape: Shape,
    count: u64,
    /// Bytes of a value, at most.
    value: u64,
    /// So many of a hundred stay.
    kept: u64,
    is_in_order: bool,
    /// So many in a row are removed, or stay.
    run: u64,
}

fn make(path: &Path, plan: Plan, rng: &mut Rng) -> BTree {
    let store = BTree::create(path).unwrap();
    let mut order: Vec<u64> = (0..plan.count).collect();
    let is_multi = matches!(plan.shape, Shape::Values { .. });
    if !plan.is_in_order {
        rng.shuffle(&mut order);
    } else if !is_multi {
        order.sort_by_cached_key(|i| key(plan.shape, *i));
    }
    let mut transaction = store.write().unwrap();
    if is_multi {
        let kind = TableOptions::new().duplicates(Duplicates::Sorted);
        transaction.create_table_with("multi", &kind).unwrap();
    }
    let mut gone = std::collections::BTreeMap::new();
    let mut is_gone = |i: u64, rng: &mut Rng| {
        *gone.entry(i / plan.run).or_insert_with(|| rng.below(100) >= plan.kept)
    };
    for part in 0..2 {
        for i in &order {
            let bytes = key(plan.shape, *i);
            let is_gone = is_gone(*i, rng);
            if part == 1 && !is_gone {
                continue;
            }
            if let Shape::Values { each, .. } = plan.shape {
                let mut table = transaction.multi_table("multi").unwrap().unwrap();
                let key = (i / each).swap_bytes().to_le_bytes();
                assert!(match part {
                    0 => table.insert(&key, &bytes).unwrap(),
                    _ => table.remove_value(&key, &bytes).unwrap(),
                });
            } else if part == 0 {
                let value = vec![*i as u8; rng.below(plan.value + 1) as usize];
                transaction.main().insert(&bytes, &value).unwrap();
            } else {
                assert!(transaction.main().remove(&bytes).unwrap());
            }
        }
    }
    transaction.commit().unwrap();
    store
}

/// All of the store, as one number.
fn digest(store: &BTree) -> (u64, u64) {
    let snapshot = store.read().unwrap();
    let (mut sum, mut count) = (0u64, 0);
    let mut add = |key: &[u8], value: &[u8]| {
        count += 1;
        for byte in key.iter().chain(value) {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(5);
        }
        Ok(())
    };
    snapshot.main().scan(&mut add).unwrap();
    let multi = snapshot.multi_table("multi").unwrap();
    for pair in multi.iter().flat_map(|multi| multi.iter()) {
        let (key, value) = pair.unwrap();
        add(&key, &value).unwrap();
    }
    (sum, count)
}

/// Compacts a store and says how long its file is then, and that of a new one of the same records.
fn compacted(path: &Path, store: &BTree, budget: u64) -> (u64, u64) {
    let before = digest(store);
    store.sync().unwrap();
    let full = fs::metadata(path).unwrap().len();
    let (mut calls, mut longest) = (0, full);
    while store.compact(budget).unwrap() {
        calls += 1;
        assert!(calls < 200_000, "a compaction comes to no end");
        longest = longest.max(fs::metadata(path).unwrap().len());
    }
    assert!(longest <= 2 * full + full / 10 + (24 << 12), "{longest} bytes, and {full} before");
    assert_eq!(digest(store), before);
    store.verify(|_, _| ()).unwrap();
    let len = fs::metadata(path).unwrap().len();
    assert!(len <= full + full / 100 + (8 << 12), "{len} bytes, and {full} before");
    let copy = path.with_extension("copy");
    store.backup(&copy, |_, _| ()).unwrap();
    (len, fs::metadata(copy).unwrap().len())
}

fn is_short_enough((len, least): (u64, u64)) -> bool {
    len <= least + least / 10 + (24 << 12)
}

/// Inner pages stayed as they were: half empty, and with long keys where short ones would do.
#[test]
fn inner_pages_are_compacted_too() {
    let plan =
        |shape, count, value, kept| Plan { shape, count, value, kept, is_in_order: false, run: 1 };
    for plan in [
        plan(Shape::Paths { len: 110, folder: 8 }, 80_000, 40, 12),
        plan(Shape::Paths { len: 230, folder: 4 }, 20_000, 40, 30),
        plan(Shape::Values { len: 450, each: 4 }, 20_000, 0, 25),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = make(&path, plan, &mut Rng::new(1));
        let lens = compacted(&path, &store, 1 << 20);
        println!("{plan:?}: {lens:?}");
        assert!(is_short_enough(lens), "{plan:?}: {} bytes, {} at least", lens.0, lens.1);
    }
}

fn random_plan(rng: &mut Rng) -> Plan {
    let shape = match rng.below(4) {
        0 => Shape::Numbers,
        1 => Shape::Values { len: 20 + rng.below(470) as usize, each: 1 + rng.below(8) },
        2 => Shape::Paths { len: 500 + rng.below(400) as usize, folder: 1 + rng.below(20) },
        _ => Shape::Paths { len: 20 + rng.below(480) as usize, folder: 1 + rng.below(60) },
    };
    let value = [0, 20, 100, 400, 1000][rng.below(5) as usize];
    let each = match shape {
        Shape::Numbers => 8 + value / 2,
        Shape::Paths { len, .. } => len as u64 + value / 2,
        Shape::Values { len, .. } => len as u64,
    };
    // A few megabytes.
    let count = (1 << 20 << rng.below(3)) / each;
    Plan {
        shape,
        count: count.min(40_000),
        value,
        kept: 5 + rng.below(90),
        is_in_order: rng.below(4) == 0,
        run: [1, 1, 3, 10, 100][rng.below(5) as usize],
    }
}

/// Whatever there was, and was removed, a compacted file is at most a tenth and 96 KiB longer than a new one.
#[test]
fn a_compacted_file_is_short_whatever_was_removed() {
    let (mut worst, mut failed) = (0.0f64, 0);
    for round in 0..rounds(24) {
        let mut rng = Rng::new(seed(round));
        let plan = random_plan(&mut rng);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = make(&path, plan, &mut rng);
        let lens = compacted(&path, &store, 4096 << rng.below(14));
        let ratio = lens.0.saturating_sub(24 << 12) as f64 / lens.1 as f64;
        worst = worst.max(ratio);
        if !is_short_enough(lens) {
            failed += 1;
            println!("{plan:?}: {lens:?}, {ratio:.3}");
        }
    }
    println!("at most {worst:.3} times as long, and 96 KiB");
    assert_eq!(failed, 0, "files are too long");
}

/// Pages on the way that each call copied took the places before those that long values need in a row, and others behind the
/// end each time.
#[test]
fn long_values_and_keys_are_compacted_by_small_budgets_too() {
    for round in 0..rounds(8) {
        let mut rng = Rng::new(seed(round));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = BTree::create(&path).unwrap();
        for _ in 0..40 {
            let mut transaction = store.write().unwrap();
            for _ in 0..40 {
                let i = rng.below(1000);
                let mut key = vec![b'x'; [10, 500, 3000, 5000, 9000][i as usize % 5]];
                key.extend_from_slice(&i.swap_bytes().to_le_bytes());
                let value = [3, 511, 2048, 4097, 10_000][rng.below(5) as usize];
                match rng.below(3) {
                    0 => _ = transaction.main().remove(&key).unwrap(),
                    _ => _ = transaction.main().insert(&key, &vec![i as u8; value]).unwrap(),
                }
            }
            transaction.commit().unwrap();
        }
        let budget = [1, 1, 5000, 50_000][rng.below(4) as usize];
        let lens = compacted(&path, &store, budget);
        assert!(is_short_enough(lens), "{budget}: {} bytes, {} at least", lens.0, lens.1);
    }
}

/// All long values of a leaf were moved at once, whatever the budget, and whoever wrote waited for that.
#[test]
fn a_call_moves_no_more_values_of_a_leaf_than_its_budget() {
    const MEGA: usize = 1 << 20;
    // In a tree of one leaf, and below an inner page.
    for small in [0, 2000u64] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = BTree::create(&path).unwrap();
        let mut transaction = store.write().unwrap();
        let mut junk = transaction.create_table("junk").unwrap();
        (0..20u8).for_each(|i| assert!(!junk.insert(&[i], &vec![i; 2 * MEGA]).unwrap()));
        for i in 0..small {
            transaction.main().insert(&key(Shape::Numbers, i), &[7; 20]).unwrap();
        }
        for i in 0..20u8 {
            transaction.main().insert(&[9, i], &vec![i; MEGA]).unwrap();
        }
        transaction.commit().unwrap();
        let mut transaction = store.write().unwrap();
        transaction.delete_table("junk").unwrap();
        transaction.commit().unwrap();
        store.sync().unwrap();
        let before = digest(&store);
        let mut calls = 0;
        loop {
            let moved = store.stats().unwrap().undurable_bytes;
            let is_more = store.compact(4096).unwrap();
            calls += 1;
            let most = moved + 5 * MEGA as u64 / 2;
            let now = store.stats().unwrap().undurable_bytes;
            assert!(now <= most, "call {calls}: {now} bytes, before it {moved}");
            if !is_more {
                break;
            }
        }
        assert!(calls >= 20, "{calls} calls");
        assert_eq!(digest(&store), before);
        store.verify(|_, _| ()).unwrap();
        let len = fs::metadata(&path).unwrap().len();
        assert!(len < 23 * MEGA as u64, "{len} bytes");
    }
}

/// What was written closer went behind the end of the file, where no other place was free, and stayed there if that was
/// not much longer then.
#[test]
fn a_compaction_that_saves_little_makes_no_file_longer() {
    for few in [110, 120, 130, 140] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = BTree::in_memory().unwrap();
        let number = |i: u64| key(Shape::Numbers, i);
        let mut transaction = store.write().unwrap();
        for i in 0..20_000 {
            transaction.main().insert(&number(i), &[7; 200]).unwrap();
        }
        transaction.commit().unwrap();
        // There is no free page; and then as many as the next changes need.
        store.backup(&path, |_, _| ()).unwrap();
        let store = BTree::open(&path).unwrap();
        let remove = |every: u64| {
            let mut transaction = store.write().unwrap();
            for i in (4000..4000 + few).filter(|i| i % every == 1) {
                transaction.main().remove(&number(i)).unwrap();
            }
            transaction.commit().unwrap();
            store.sync().unwrap();
        };
        remove(16);
        while store.compact(1 << 16).unwrap() {}
        remove(2);
        let before = fs::metadata(&path).unwrap().len();
        while store.compact(1 << 16).unwrap() {}
        let after = fs::metadata(&path).unwrap().len();
        println!("{few}: {before} bytes, {after} after");
        assert!(after <= before, "{few}: {after} bytes, and before {before}");
        store.verify(|_, _| ()).unwrap();
    }
}

/// Blocks of the table of pages stay where they are, and a value has pages in a row: it lies behind the first block with so
/// many before the next. What that takes is bounded.
#[test]
fn long_values_between_blocks_take_no_more_than_is_said() {
    for round in 0..rounds(6) {
        let seed = seed(round);
        let mut rng = Rng::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = BTree::create(&path).unwrap();
        let (mut longest, mut total) = (0, 0);
        // In the first round one value, which had room only between the third block and the fourth where each
        // was made by itself.
        let pages: Vec<u64> = match round {
            0 => vec![500, 390, 660],
            _ => (0..rng.below(10) + 3).map(|_| 50 + rng.below(900)).collect(),
        };
        for (i, pages) in pages.iter().enumerate() {
            store.insert(&(i as u64).to_le_bytes(), &vec![7; (pages << 12) as usize]).unwrap();
        }
        for (i, pages) in pages.iter().enumerate() {
            if if round == 0 { i < 2 } else { rng.below(3) > 0 } {
                store.remove(&(i as u64).to_le_bytes()).unwrap();
            } else {
                (longest, total) = (longest.max(pages << 12), total + (pages << 12));
            }
        }
        while store.compact(1 << 24).unwrap() {}
        let len = fs::metadata(&path).unwrap().len();
        let doublings = u64::from((total / longest.max(1)).max(1).ilog2());
        let parted = if round == 0 { 0 } else { (2 + doublings / 3) * longest };
        let most = total + total / 10 + (96 << 10) + (900 << 4) + parted;
        println!("{pages:?}: {len} bytes, {total} of values, the longest {longest}, most {most}");
        assert!(len <= most, "seed {seed}, round {round}: {len} bytes, at most {most}");
        let copy = folder.path().join("copy");
        store.backup(&copy, |_, _| ()).unwrap();
        let len = fs::metadata(&copy).unwrap().len();
        let most = total + total / 10 + (96 << 10);
        assert!(len <= most, "seed {seed}, round {round}: a backup of {len} bytes, at most {most}");
        store.verify(|_, _| ()).unwrap();
    }
}
